"""Blocks of a random model: with parameters, called again wherever their instance is known, and small ones for any dim, called often."""
import re

from .scope import Scope

# Statements of a block for any dim `p`: each makes the next `u`. Those with a `w` need a parameter.
GENERIC = ["tanh(u - mean[p](u) * 0.5)", "softmax[p](u) * size[p] * 0.4", "u * rsqrt(mean[p](u ^ 2) + 0.5)", "cumsum[p](u) * 0.3", "u - 0.2 * sin(u)", "u + max(0.3 - u, 0)",
           "0.5 * u + logsumexp[p](u) * 0.2", "u / (1 + sum[p](abs(u)) * 0.2)", "u * w", "tanh(u + w)", "u * (dot[p](u, w) * 0.2 + 0.5)"]


class Blocks:
    def calls(self, scope):
        """The kinds of statements of this file that may come next."""
        kinds = [self.block] if scope.depth < 2 and len(self.blocks_open) < 2 else []
        kinds += [self.generic_call] if scope.depth < 2 else []
        return kinds + [self.call] * 2 * bool(scope.instances)

    def block(self, scope):
        """A block of the dims of a value, an instance, one or several calls; one without parameters may be called by its own name."""
        a = self.pick(scope)
        if not a[1]:
            return self.unary(scope)
        name, instance = self.name("Block"), self.name("b")
        inside = Scope([("u", a[1], a[2])], 0, block=True)
        inside.turns = scope.turns
        self.blocks_open.append(name)
        for _ in range(self.random.randint(1, 4)):
            self.step(inside)
        self.blocks_open.pop()
        scope.loops_made |= inside.loops_made
        result = inside.values[-1]
        dims = self.brackets(result[1])
        returned = f"{result[0]} + {self.all_of(inside, Scope([]), result[1])}" if self.every else result[0]
        self.blocks += [f"block {name}(u : real{self.brackets(a[1])}) -> real{dims} {{", *inside.lines, f"  return {returned}", "}"]
        pure = not any(line.lstrip().startswith("param ") for line in inside.lines)
        if pure and self.random.random() < 0.6:
            instance = name
        else:
            scope.line(f"param {instance} : {name}")
        b = self.bind(scope, f"{instance}({a[0]})", result[1], result[2])
        scope.instances.append((instance, a[1], result[1], result[2], inside.loops_made))
        if self.random.random() < 0.6:
            self.called_again(instance, scope)
            self.bind(scope, f"{b[0]} + {instance}(sin({a[0]}))", result[1], result[2])

    def call(self, scope):
        """One more call of an instance, perhaps from within a loop."""
        instance, taken, dims, varies, loops = self.random.choice(scope.instances)
        values = [v for v in scope.values if v[1] == taken]
        if not values or loops & set(scope.turns):
            return self.binary(scope)
        self.called_again(instance, scope)
        return self.bind(scope, f"{instance}({self.random.choice(values)[0]} * 0.7)", dims, varies if taken else ())

    def called_again(self, instance, scope):
        pure = instance.startswith("Block")
        self.seen("a block without parameters called again" if pure else "an instance called again")
        if scope.turns:
            self.seen("a block called again in a loop")

    # Blocks for any dim

    def generic_call(self, scope):
        """A block `[p]`, of any dims besides, made now or before: one or two calls, in one statement or in two."""
        a = self.pick(scope)
        if not self.along(a[1]):
            return self.unary(scope)
        d = self.random.choice(self.along(a[1]))
        if not self.generics or self.random.random() < 0.4:
            self.generics.append(self.generic())
        name, owns, results = self.random.choice(self.generics)
        target = name + f"[{d}]"
        if owns:
            target = self.name("g")
            scope.line(f"param {target} : {name}[{d}]")
        elif name in self.generics_called:
            self.seen("a block without parameters called again")
        self.generics_called.add(name)
        if results == 2:
            self.seen("a block of two results")
            first, second = self.pair(scope, f"{target}({a[0]})", a, d)
            if self.random.random() < 0.6:
                third, fourth = self.pair(scope, f"{target}({first[0]} * 0.7)", a, d)
                self.called_twice(owns)
                return self.bind(scope, f"{first[0]} * {fourth[0]} + {third[0]} * {second[0]}", a[1], ())
            return self.bind(scope, f"{first[0]} + {second[0]}", a[1], ())
        if self.random.random() < 0.4:
            return self.bind(scope, f"{target}({a[0]})", a[1], ())
        self.called_twice(owns)
        if self.random.random() < 0.5:
            return self.bind(scope, f"{target}({a[0]}) - {target}({self.fit(scope, self.pick(scope), a[1])} + {a[0]} * 0.5)", a[1], ())
        b = self.bind(scope, f"{target}({a[0]})", a[1], ())
        c = self.bind(scope, f"{target}({b[0]} - 0.3)", a[1], ())
        return self.bind(scope, f"{b[0]} * 0.5 + {c[0]}", a[1], ())

    def called_twice(self, owns):
        self.seen("an instance called again" if owns else "a block without parameters called again")

    def pair(self, scope, text, a, d):
        """The two results of a generic block: of all dims, and without the dim of the call."""
        first, second = self.name("v"), self.name("v")
        scope.line(f"{first}, {second} = {text}")
        both = (first, a[1], frozenset()), (second, tuple(e for e in a[1] if e != d), frozenset())
        scope.values += both
        for name, dims, _ in both:
            self.known(scope, name, dims)
        return both

    def generic(self):
        """(name, whether it owns parameters, results) of a new block for any dim; it may call one that there is."""
        name, lines, owns, last = self.name("Any"), [], False, "u"
        results = self.random.choice([1, 1, 2])
        inner = [other for other, has, count in self.generics if not has and count == 1]
        for _ in range(self.random.randint(1, 3)):
            value = self.name("v")
            if inner and self.random.random() < 0.4:
                called = self.random.choice(inner)
                self.called_twice(False)
                lines.append(f"{value} = {called}[p]({last}) + {called}[p]({last} * 0.6)")
            else:
                text = self.random.choice(GENERIC)
                if re.search(r"\bw\b", text):
                    owned = self.name("w")
                    lines.append(f"param {owned} : real[p] = normal(std: 0.6)")
                    text, owns = re.sub(r"\bw\b", owned, text), True
                lines.append(f"{value} = " + re.sub(r"\bu\b", last, text))
            last = value
        head = f"block {name}[p](u : real[..., p]) -> " + ("real[..., p]" if results == 1 else "(real[..., p], real[...])")
        returned = last if results == 1 else f"{last}, mean[p]({last})"
        self.blocks += [head + " {", *(f"  {line}" for line in lines), f"  return {returned}", "}"]
        return name, owns, results
