"""What stands in brackets after a value: renames, splits and merges of dims, parts, neighbours, and several of them at once."""

LIMIT = 1500  # numbers in a value


class Brackets:
    def rename(self, scope):
        a = self.pick(scope)
        choices = [d for d in a[1] if d in self.aliases and self.aliases[d] not in a[1]]
        if not choices:
            return self.binary(scope)
        d = self.random.choice(choices)
        to = self.aliases[d]
        renamed = lambda dims: [to if e == d else e for e in dims]
        b = self.bind(scope, f"{a[0]}[{d} as {to}]", tuple(renamed(a[1])), renamed(a[2]))
        common = self.along([e for e in a[1] if e != d])
        dims = a[1] + (to,)
        if common and self.size(dims) <= LIMIT and self.random.random() < 0.6:
            c = self.random.choice(common)
            return self.bind(scope, f"dot[{c}]({a[0]}, {b[0]}) / sqrt(size[{c}])", tuple(e for e in dims if e != c), a[2] | b[2])
        return b

    # Several at once

    def square(self, scope):
        """A value with two dims or more of one size, made of another where there is none."""
        a = self.pick(scope)
        if len(self.equals(a[1])) > 1:
            return a
        choices = [d for d in self.along(a[1]) if d in self.aliases and self.aliases[d] not in a[1] and self.size(a[1]) * self.sizes[d] <= LIMIT]
        if not choices:
            return None
        d = self.random.choice(choices)
        w = self.parameter(scope, [d, self.aliases[d]])
        if self.random.random() < 0.5:
            return self.bind(scope, f"outer({a[0]}, {w[0]})", a[1] + (self.aliases[d],), a[2] | w[2])
        return self.bind(scope, f"broadcast[{self.aliases[d]}]({a[0]}) * {w[0]}", a[1] + (self.aliases[d],), a[2] | w[2])

    def equals(self, dims):
        """The largest group of dims of one size; the dim of the samples keeps its name."""
        groups = {}
        for d in dims:
            groups.setdefault(self.sizes[d] if d != "batch" else d, []).append(d)
        return max(groups.values(), key=len, default=[])

    def exchanged(self, dims):
        """{old: new}: dims of one size that change places, two or in a circle, or give their names on."""
        group = self.equals(dims)
        count = self.random.randint(2, len(group))
        chosen = self.random.sample(group, count)
        others = [d for d in self.plain if d not in dims and d != "batch" and self.sizes[d] == self.sizes[group[0]]]
        last = chosen[0]
        if others and self.random.random() < 0.4:
            last = self.random.choice(others)
        self.seen("renames in a circle" if last == chosen[0] else "renames that give names on")
        self.renames.append(dict(zip(chosen, chosen[1:] + [last])))
        return self.renames[-1]

    def changed(self, a, changes):
        """The value's text, dims and what it varies along after {old dim: (text of the item, new dims)}."""
        items = [text for text, _ in changes.values()]
        self.random.shuffle(items)
        at = lambda dims: [e for d in dims for e in (changes[d][1] if d in changes else (d,))]
        return f"{a[0]}[{', '.join(items)}]", tuple(at(a[1])), at(a[2])

    def at_once(self, scope):
        """Renames in one pair of brackets, now and then beside parts, single indices and splits, whose names they may take."""
        a = self.square(scope)
        if a is None:
            return self.several(scope)
        changes = {d: (f"{d} as {e}", (e,)) for d, e in self.exchanged(a[1]).items()}
        self.seen("renames at once")
        if self.random.random() < 0.5:
            b = self.bind(scope, *self.changed(a, changes))
            return self.answered(scope, a, b) if self.random.random() < 0.6 else b
        return self.several(scope, a, changes)

    def answered(self, scope, a, b):
        """A second view of the value that was renamed, and a product of both or of each with a parameter."""
        self.seen("one value renamed twice")
        c = self.bind(scope, *self.changed(a, {d: (f"{d} as {e}", (e,)) for d, e in self.exchanged(a[1]).items()}))
        if set(b[1]) == set(c[1]) and self.random.random() < 0.5:
            return self.bind(scope, f"tanh({b[0]} * {self.random.choice([a, b, c])[0] if set(a[1]) == set(b[1]) else b[0]}) - {c[0]}", b[1], ())
        common = [d for d in self.along(b[1]) if d in c[1]]
        if not common:
            return c
        d = self.random.choice(common)
        dims = tuple(e for e in b[1] if e != d) + tuple(e for e in c[1] if e not in b[1])
        if self.size(dims + (d,)) > LIMIT:
            return c
        return self.bind(scope, f"dot[{d}]({b[0]}, {c[0]}) * 0.4", dims, b[2] | c[2])

    def several(self, scope, a=None, changes=None):
        """Changes of several kinds in one pair of brackets."""
        a, changes = a or self.pick(scope), dict(changes or {})
        taken = {e for _, new in changes.values() for e in new}
        kept = [d for d in a[1] if d not in changes]
        for d in self.random.sample(kept, len(kept)):
            item = self.item(d, [e for e in self.plain if e not in taken and e not in kept and e != "batch"])
            if item is None:
                continue
            changes[d] = item
            taken |= set(item[1])
            kept.remove(d)
        text, dims, varies = self.changed(a, changes)
        if len(changes) < 2 or self.size(dims) > LIMIT:
            return self.binary(scope)
        self.seen("changes of several kinds at once")
        return self.bind(scope, text, dims, varies)

    def item(self, d, free):
        """(text, new dims) of a change of dim `d` to dims that are free; None: it stays."""
        kinds = []
        if d in self.along([d]) and d != "batch":
            kinds.append((f"{d} = {self.random.randrange(self.sizes[d])}", ()))
        if d != "batch":
            kinds += [(f"{d} as {e}", (e,)) for e in free if self.sizes[e] == self.sizes[d]][:2]
            kinds += [(self.part(d, e), (e,)) for e in free if self.sizes[e] < self.sizes[d]][:1]
            kinds += [(f"{d} as {slow} * {fast}", (slow, fast)) for product, (slow, fast) in self.merged.items() if product == d and slow in free and fast in free]
        if not kinds or self.random.random() < 0.4:
            return None
        return self.random.choice(kinds)

    # Splits and merges

    def fold(self, scope):
        """A split or merge of dims."""
        product = self.random.choice(list(self.merged))
        slow, fast = self.merged[product]
        values = [v for v in scope.values if product in v[1] and slow not in v[1] and fast not in v[1]]
        if values and self.random.random() < 0.6:
            a = self.random.choice(values)
            dims = tuple(e for d in a[1] for e in ((slow, fast) if d == product else (d,)))
            return self.bind(scope, f"{a[0]}[{product} as {slow} * {fast}]", dims, {e for e in dims if e in a[2] or (product in a[2] and e in (slow, fast))})
        values = [v for v in scope.values if slow in v[1] and fast in v[1] and product not in v[1]]
        if not values:
            return self.fold_parameter(scope, product, slow, fast)
        a = self.random.choice(values)
        rest = [d for d in a[1] if d != fast]
        dims = [product if d == slow else d for d in rest]
        order = [e for d in rest for e in ((slow, fast) if d == slow else (d,))]
        name = self.name("v")
        scope.line(f"{name} : real{self.brackets(order)} = {a[0]}")
        return self.bind(scope, f"{name}[{slow} * {fast} as {product}]", tuple(dims), {product if d in (slow, fast) else d for d in a[2]})

    def fold_parameter(self, scope, product, slow, fast):
        a = self.pick(scope)
        if not self.along(a[1]) or product in a[1]:
            return self.unary(scope)
        d = self.random.choice(self.along(a[1]))
        w = self.parameter(scope, [d, product])
        dims = tuple(e for e in a[1] if e != d) + (product,)
        if self.size(dims) > LIMIT:
            return self.unary(scope)
        return self.bind(scope, f"dot[{d}]({a[0]}, {w[0]})", dims, a[2] | w[2])

    # Parts and neighbours

    def select(self, scope):
        a = self.pick(scope)
        if not self.along(a[1]):
            return self.unary(scope)
        over = self.some(self.along(a[1]), 1, 2)
        picks = ", ".join(f"{d} = {self.random.randrange(self.sizes[d])}" for d in over)
        return self.bind(scope, f"{a[0]}[{picks}]", tuple(d for d in a[1] if d not in over), a[2])

    def part(self, d, part):
        """A stretch of `d` as long as `part`, perhaps of every second index."""
        count = self.sizes[part]
        step = self.random.choice([s for s in (1, 1, 2, 3) if s * (count - 1) < self.sizes[d]])
        begin = self.random.randrange(self.sizes[d] - step * (count - 1))
        end = begin + step * (count - 1) + 1
        return f"{d} = {begin}..{'' if end == self.sizes[d] else end}{f' step {step}' if step > 1 else ''} as {part}"

    def slice(self, scope):
        """A part; often with its difference from another one."""
        a = self.pick(scope)
        choices = [d for d in a[1] if d in self.parts and self.parts[d] not in a[1]]
        if not choices:
            return self.select(scope)
        d = self.random.choice(choices)
        part = self.parts[d]
        piece = lambda: f"{a[0]}[{self.part(d, part)}]"
        text = piece() if self.random.random() < 0.5 else f"{piece()} - {piece()} * 0.5"
        renamed = lambda dims: [part if e == d else e for e in dims]
        return self.bind(scope, text, tuple(renamed(a[1])), renamed(a[2]))

    def shift(self, scope):
        """A neighbour, or a stencil of several."""
        a = self.pick(scope)
        choices = [d for d in a[1] if d in self.edges]
        if not choices:
            return self.sort(scope)
        over = self.random.sample(choices, min(len(choices), self.random.choice([1, 1, 2])))
        pick = lambda d: f"{d} {self.random.choice('+-')} {self.random.choice([1, 1, 1, 2, 3, self.sizes[d]])}"
        if self.random.random() < 0.4:
            text = f"{a[0]}[{', '.join(pick(d) for d in over)}]"
        else:
            text = f"0.3 * ({' - '.join(f'{a[0]}[{pick(d)}]' for d in over for _ in range(self.random.randint(1, 3)))} + 2 * {a[0]})"
        varies = set(a[2])
        for d in over:
            varies = varies if self.edges[d] == '"wrap"' else varies - {d} if self.edges[d] == '"clamp"' else set()
        return self.bind(scope, text, a[1], varies if text[0] != "0" else ())

    # One value read in several ways

    def read_twice(self, scope):
        """A value that a product leaves, perhaps in parts, and its neighbour or the same under another name beside it."""
        a = self.pick(scope)
        inner = self.along(a[1])
        if not inner:
            return self.unary(scope)
        c = self.random.choice(inner)
        to = self.random.choice([d for d in self.plain if d not in a[1] and d != "batch"] or [c])
        w = self.parameter(scope, [c] if to == c else [c, to])
        dims = tuple(d for d in a[1] if d != c) + ((to,) if to != c else ())
        if self.size(dims + (c,)) > LIMIT:
            return self.unary(scope)
        h = self.bind(scope, f"dot[{c}]({a[0]}, {w[0]}) * 0.6", dims, a[2] | w[2])
        dims = h[1]
        near = [d for d in dims if d in self.edges]
        if near and self.random.random() < 0.6:
            self.seen("a value and its neighbour")
            d = self.random.choice(near)
            return self.bind(scope, f"{h[0]} + {h[0]}[{d} {self.random.choice('+-')} 1]", dims, ())
        again = [d for d in dims if d in self.aliases and self.aliases[d] not in dims]
        if not again:
            return h
        self.seen("a product renamed before and after")
        d = self.random.choice(again)
        e = self.aliases[d]
        u, v = self.parameter(scope, [d]), self.parameter(scope, [e])
        renamed = tuple(e if x == d else x for x in dims)
        first = self.bind(scope, f"({h[0]} * {u[0]})[{d} as {e}]", renamed, {e if x == d else x for x in h[2] | u[2]})
        return self.bind(scope, f"{h[0]}[{d} as {e}] * {v[0]} + {first[0]}", renamed, ())
