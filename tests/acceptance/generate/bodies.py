"""Loops of a random model, and what lives from turn to turn."""
from .brackets import LIMIT


class Bodies:
    def bodies(self, scope):
        """The kinds of statements of loops, blocks and states that may come next."""
        kinds = self.calls(scope)
        if len(scope.turns) < 2:
            kinds += [self.loop] * (5 if scope.starts else 1 if scope.block else 2)
        if self.every:
            return kinds
        if scope.turns:
            kinds += [self.turn] * 2
        if not scope.block and (scope.depth == 0 or self.random.random() < 0.3):
            kinds += [self.state]
        return kinds

    # Loops

    def loop(self, scope):
        """repeat with one or two carries, own and outer values, perhaps a loop inside; now and then all that it carries are sums."""
        dim = self.random.choice([d for d in self.loops if d not in scope.turns])
        scope.loops_made.add(dim)
        carries = {c[0]: c for c in (self.carry(scope) for _ in range(self.random.randint(1, 2)))}
        carries = list(carries.values())
        inside = scope.body(dim)
        sums = not self.every and self.random.random() < 0.5
        if sums:
            inside.values = [v for v in inside.values if v[0] not in [name for name, _, _ in carries]]
            self.seen("a loop of sums")
        if not self.every and len(inside.turns) < 2 and self.random.random() < 0.4:
            inside.starts.append(self.start(scope))
        if scope.loops_made - {dim}:
            self.seen("several loops")
        scope.line(f"repeat {dim} {f'as {self.name(dim)} ' if self.random.random() < 0.3 else ''}{{")
        renewed = () if sums else self.exchange(inside, carries)
        for _ in range(self.random.randint(1, 4)):
            self.step(inside)
        last = inside.values[-1]
        if self.every:
            name, dims, _ = carries[-1]
            inside.line(f"{name} = {name} + {self.all_of(inside, scope, dims)}")
        for name, dims, varies in carries:
            if name in renewed or not self.every and not sums and self.random.random() < 0.4 and self.product(inside, name, dims):
                continue
            more = self.parameter(inside, self.some(dims, 0, 2)) if self.random.random() < 0.6 else self.pick(inside)
            factor, term = self.fit(inside, last, dims), self.fit(inside, more, dims)
            if self.every:  # where the outer tanh is flat nothing has a part
                factor, term = f"tanh({factor}) * 0.3", f"tanh({term})"
            inside.line(self.sum(name, factor, term) if sums else f"{name} = tanh({name} * (0.6 + {factor}) + {term})")
        scope.lines += inside.lines
        scope.line("}")
        made = [v for v in inside.values if v not in scope.values] + ([] if sums and self.random.random() < 0.7 else carries)
        if made and self.random.random() < 0.6:
            self.collect(scope, dim, made)

    def sum(self, name, one, other):
        """What a turn adds to a name, in one of the ways to write that."""
        return name + " = " + self.random.choice(["{0} + tanh({1})", "tanh({1}) + {0}", "{0} + tanh({1}) + {2} * 0.5", "tanh({1}) + ({2} * 0.3 + {0})"]).format(name, one, other)

    def product(self, inside, name, dims):
        """Whether a carry got a product as its new value, with nothing after it but a name."""
        inner = self.along(dims)
        free = [d for d in self.plain if d not in dims and d != "batch" and self.size(dims) * self.sizes[d] <= LIMIT]
        if not inner or not free:
            return False
        c = self.random.choice(inner)
        same = [d for d in free if self.sizes[d] == self.sizes[c]]
        if same and self.random.random() < 0.4:
            e = self.random.choice(same)
            inside.line(f"{name} = dot[{c}]({name}, {self.parameter(inside, [c, e])[0]})[{e} as {c}]")
        else:
            e = self.random.choice(free)
            w, v = self.parameter(inside, [c, e])[0], self.parameter(inside, self.random.sample([e, c], 2))[0]
            middle = self.random.choice(["{}", "{}", "tanh({})"]).format(f"dot[{c}]({name}, {w})")
            inside.line(f"{name} = dot[{e}]({middle}, {v})")
        self.seen("a carry that is a product")
        return True

    def carry(self, scope):
        """A name that a loop renews: one of its own, or one bound before it, perhaps before the loop around it too."""
        if scope.starts and self.random.random() < 0.7:
            return self.unalias(scope, scope.starts.pop())
        known = [v for v in scope.values if v[0][0] in "vh"]
        if known and not self.every and self.random.random() < 0.5:
            return self.random.choice(known)
        a = self.pick(scope)
        return self.unalias(scope, self.bind(scope, f"{a[0]} * 0.9", a[1], a[2]))

    def start(self, scope):
        a, name = self.pick(scope), self.name("v")
        scope.line(f"{name} = tanh({a[0]}) * 0.9")
        return name, a[1], a[2]

    def unalias(self, scope, value):
        """A carry keeps the order of its declaration: written out."""
        name = self.name("h")
        scope.line(f"{name} : real{self.brackets(value[1])} = {value[0]}")
        scope.values.append((name, value[1], value[2]))
        return scope.values[-1]

    def exchange(self, inside, carries):
        """Now and then carries change places, or one has what the other had in the turn before: names of what is renewed so."""
        if len(carries) < 2 or self.every or set(carries[0][1]) != set(carries[1][1]) or carries[0][2] != carries[1][2] or self.random.random() < 0.4:
            return ()
        (first, dims, _), (second, other_dims, _) = carries
        if self.random.random() < 0.5:
            inside.line(f"{second} : real{self.brackets(other_dims)} = {first}")
            return (second,)
        kept = self.name("v")
        inside.line(f"{kept} = {first}")
        inside.line(f"{first} : real{self.brackets(dims)} = {second}")
        inside.line(f"{second} : real{self.brackets(other_dims)} = {kept}")
        return self.random.choice([(), (first,), (first, second)])

    def collect(self, scope, dim, values):
        """What a name of the loop that has just ended was in each of its turns, brought together."""
        name, dims, varies = self.random.choice(values)
        if dim in dims:
            return
        all_turns = f"collect[{dim}]({name})"
        if not self.every and self.random.random() < 0.4:
            stack = self.name("c")
            scope.line(f"{stack} = {all_turns}")
            scope.stacks.append((stack, dim, dims))
            all_turns = stack
        if self.random.random() < 0.4:
            return self.bind(scope, f"dot[{dim}]({all_turns}, {self.parameter(scope, [dim])[0]})", dims, varies)
        last = self.sizes[dim] - 1
        text = self.random.choice([f"mean[{dim}]({all_turns} ^ 2)", f"{all_turns}[{dim} = 0]", f"cumsum[{dim}]({all_turns})[{dim} = {last}] * 0.5"])
        self.bind(scope, text, dims, varies)

    def turn(self, scope):
        """What depends on the number of the turn: it itself, or the entry of a value of all turns."""
        a, dim = self.pick(scope), self.random.choice(scope.turns)
        stacks = [s for s in scope.stacks if s[1] == dim]
        if stacks and self.random.random() < 0.7:
            name, _, dims = self.random.choice(stacks)
            return self.bind(scope, f"take[{dim}]({name}, index({dim})(position[{dim}])) * 0.8", dims, ())
        if not scope.block and self.random.random() < 0.4:
            name, dims = self.name("x"), self.some(a[1], 0, 2)
            self.inputs.append(f"  input {name} : real{self.brackets(['batch'] + [d for d in dims if d != 'batch'] + [dim])}")
            dims = ("batch", *(d for d in dims if d != "batch"))
            return self.bind(scope, f"take[{dim}]({name}, index({dim})(position[{dim}]))", dims, dims)
        b = self.pick(scope)
        text = self.random.choice(["{0} / (1 + f32(position[{2}]))", "where(position[{2}] == 0, {0}, {1} * 0.5)", "where(position[{2}] % 2 == 0, {1}, {0})"])
        self.bind(scope, text.format(a[0], self.fit(scope, b, a[1]), dim), a[1], ())
