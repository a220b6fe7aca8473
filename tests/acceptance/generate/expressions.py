"""Random statements of a model: each binds one name from names bound before. Values stay small, and no gradient is zero but for rounding."""
from collections import Counter

from .attention import Attention
from .blocks import Blocks
from .bodies import Bodies
from .brackets import LIMIT, Brackets
from .states import States

SMOOTH = ["tanh({0})", "sigmoid({0})", "sin({0})", "cos({0})", "relu({0})", "gelu({0})", "gelu_tanh({0})", "silu({0})", "abs({0})", "exp(tanh({0}))", "log(abs({0}) + 1.5)",
          "sqrt(abs({0}) + 0.5)", "rsqrt(abs({0}) + 0.5)", "tanh({0}) ^ 2", "(sigmoid({0}) + 0.5) ^ -1", "tanh({0}) ^ 3", "-{0}", "{0} * 0.7", "1.5 - {0}", "max({0}, 0.3)",
          "min({0}, 0.4)", "real({0}) / 2", "2 ^ tanh({0})", "erf({0})", "(abs({0}) + 0.4) ^ 1.5"]


NUMBER = "0.4"  # stands for a value of samples where they may not mix


class Expressions(Brackets, Bodies, Blocks, States, Attention):
    def __init__(self, random, sizes, aliases, merged, parts, sums, edges, loops):
        """sizes: every dim's; aliases: {dim: another of the same size}; merged: {product: (slow, fast)}; parts: {dim: one as large or smaller};
        sums: {sum: (first, second)}; edges: {dim: its edge}; loops: dims for repeat."""
        self.random, self.sizes, self.aliases, self.merged, self.parts, self.loops = random, sizes, aliases, merged, parts, loops
        self.sums, self.edges = sums, edges
        self.count, self.inputs, self.blocks, self.blocks_open = 0, [], [], []
        self.features = Counter()  # what was drawn, by its name
        self.named = []  # what a layout may pin: (pattern, dims)
        self.attentions = []  # (the dim of queries, that of keys)
        self.renames = []  # those made at once: {old dim: new dim}
        self.generics, self.generics_called = [], set()  # blocks for any dim: (name, whether it owns parameters, results)
        self.every = False  # what is bound in a loop or block always has a part in what leaves it
        self.draws = True  # random numbers too
        self.apart = False  # samples do not mix, so that the step may run by micro-batches
        self.plain = [d for d in sizes if d not in loops]

    def seen(self, feature):
        self.features[feature] += 1

    def along(self, dims):
        """The dims that an op may run along."""
        return [d for d in dims if d != "batch" or not self.apart]

    def name(self, prefix):
        self.count += 1
        return f"{prefix}{self.count}"

    def size(self, dims):
        total = 1
        for d in dims:
            total *= self.sizes[d]
        return total

    def brackets(self, dims):
        return "[" + ", ".join(dims) + "]" if dims else ""

    def some(self, dims, least=1, most=3):
        dims = list(dims)
        return self.random.sample(dims, min(len(dims), self.random.randint(least, most)))

    def parameter(self, scope, dims):
        """Where samples stay apart no parameter has their dim."""
        name, dims = self.name("w"), self.along(dims)
        scope.line(f"param {name} : real{self.brackets(dims)} = normal(std: 0.6)")
        self.known(scope, name, dims)
        return name, tuple(dims), frozenset(dims)

    def known(self, scope, name, dims):
        self.named.append((f"**.{name}" if scope.depth or scope.block else name, tuple(dims)))

    def input(self, name, kind, dims):
        """An input with these dims in any order, but for that of samples which micro-batches cut."""
        dims = list(dims)
        if self.apart and "batch" in dims:
            dims = ["batch"] + [d for d in dims if d != "batch"]
        self.inputs.append(f"  input {name} : {kind}{self.brackets(dims)}")
        return tuple(dims)

    def fresh(self, scope, dims):
        """A parameter or input with these dims."""
        if scope.depth == 0 and not scope.block and self.random.random() < 0.3:
            name = self.name("x")
            dims = self.input(name, "real", dims or ("batch",))
            self.known(scope, name, dims)
            return name, tuple(dims), frozenset(dims)
        return self.parameter(scope, dims)

    def index(self, dim, dims):
        """An index input; blocks may not read it."""
        name = self.name("i")
        self.input(name, f"index({dim})", dims)
        return name

    def bind(self, scope, text, dims, varies):
        name = self.name("v")
        if self.random.random() < 0.1 and len(dims) > 1:
            dims = tuple(self.random.sample(dims, len(dims)))
            scope.line(f"{name} : real{self.brackets(dims)} = {text}")
        else:
            scope.line(f"{name} = {text}")
        value = (name, tuple(dims), frozenset(varies) & frozenset(dims))
        scope.values.append(value)
        self.known(scope, name, dims)
        return value

    def pick(self, scope):
        values = scope.values
        return values[-1 - int(len(values) * self.random.random() ** 2) % len(values)]

    def condition(self, scope, dims):
        """A bool over some of the dims that no rounding changes."""
        if not scope.block and not self.every and self.random.random() < 0.2:
            name = self.name("k")
            self.input(name, "bool", self.some(dims))
            return name
        d = self.random.choice(dims)
        others = [e for e in dims if e != d]
        if others and self.random.random() < 0.5:
            return f"position[{d}] >= position[{self.random.choice(others)}]"
        text = self.random.choice([f"position[{d}] >= {self.random.randint(0, self.sizes[d])}", f"position[{d}] % 2 == 0", f"not (position[{d}] < 1)"])
        return text if self.random.random() < 0.7 or not others else f"({text} or position[{others[0]}] == 1)"

    def fit(self, scope, value, dims):
        """`value` as a text whose dims lie within `dims`."""
        extra = [d for d in value[1] if d not in dims]
        if "batch" in extra and self.apart:
            return NUMBER
        return f"mean[{', '.join(extra)}]({value[0]})" if extra else value[0]

    def all_of(self, inside, outside, dims):
        """A text over some of `dims` in which every value bound inside has a part."""
        known = {value[0] for value in outside.values}
        return " + ".join(f"tanh({self.fit(inside, value, dims)}) * 0.1" for value in inside.values if value[0] not in known)

    def step(self, scope):
        kinds = [self.unary] * 3 + [self.binary] * 4 + [self.dot] * 4 + [self.reduce] * 2 + [self.soft] * 2 + [self.masked, self.rename, self.at_once, self.several, self.read_twice, self.fold, self.where, self.stop, self.best, self.select, self.slice]
        kinds += [self.concat, self.stack, self.pad, self.shift, self.shift, self.cumsum, self.sort, self.narrow]
        if not scope.block:
            kinds += [self.take, self.take, self.hot, self.entropy]
        if self.draws and not self.every:  # what is dropped has no part
            kinds += [self.noise]
        kinds += self.bodies(scope)
        self.random.choice(kinds)(scope)

    def unary(self, scope):
        a = self.pick(scope)
        self.bind(scope, self.random.choice(SMOOTH).format(a[0]), a[1], a[2])

    def binary(self, scope):
        a, b = self.pick(scope), self.pick(scope)
        if self.random.random() < 0.3:
            b = self.fresh(scope, self.some(a[1], 0))
        sign = self.random.choice(["+", "-", "*", "/"])
        if not set(b[1]) <= set(a[1]) and not set(a[1]) <= set(b[1]):
            dims = a[1] + tuple(d for d in b[1] if d not in a[1])
            if self.size(dims) <= LIMIT and self.random.random() < 0.5:
                return self.bind(scope, f"outer({a[0]}, {b[0]}) * 0.5", dims, a[2] | b[2])
            return self.bind(scope, f"{a[0]} * 0.5 + {self.fit(scope, b, a[1])}", a[1], a[2] | b[2])
        right = f"(1 + abs({b[0]}))" if sign == "/" else b[0]
        dims = a[1] if set(b[1]) <= set(a[1]) else b[1]
        text = f"{a[0]} {sign} {right}"
        return self.bind(scope, text if sign != "*" else f"tanh({text})", dims, a[2] | b[2])

    def dot(self, scope):
        a = self.pick(scope)
        if not self.along(a[1]):
            return self.unary(scope)
        b = self.pick(scope) if self.random.random() < 0.3 else None
        contracted = self.some(self.along(a[1]), 1, 2)
        if b is None or not set(contracted) & set(b[1]):
            batch = [d for d in a[1] if d not in contracted and d != "batch" and self.random.random() < 0.2]
            new = self.some([d for d in self.plain if d not in a[1] and d != "batch"], 0, 2)
            dims = contracted + batch + new
            b = self.parameter(scope, self.random.sample(dims, len(dims)))
        contracted = [d for d in contracted if d in b[1]]
        dims = tuple(d for d in a[1] if d not in contracted) + tuple(d for d in b[1] if d not in a[1])
        if self.size(dims) > LIMIT:
            return self.unary(scope)
        left, right = (a, b) if self.random.random() < 0.7 else (b, a)
        dims = tuple(d for d in left[1] if d not in contracted) + tuple(d for d in right[1] if d not in left[1])
        return self.bind(scope, f"dot[{', '.join(contracted)}]({left[0]}, {right[0]}) * 0.5", dims, a[2] | b[2])

    def reduce(self, scope):
        a = self.pick(scope)
        if not self.along(a[1]):
            return self.unary(scope)
        op = self.random.choice(["sum", "mean", "max", "min", "logsumexp", "mean_where"])
        over = self.some(self.along(a[1]), 1, 2)
        if op in ("max", "min") and not set(over) <= a[2]:
            op = "mean"
        rest = tuple(d for d in a[1] if d not in over)
        if op == "mean_where":
            return self.bind(scope, f"mean[{', '.join(over)}]({a[0]}, where: {self.condition(scope, over)})", rest, a[2])
        return self.bind(scope, f"{op}[{', '.join(over)}]({a[0]})" + (" * 0.3" if op == "sum" else ""), rest, a[2])

    def soft(self, scope):
        a = self.pick(scope)
        if not self.along(a[1]):
            return self.unary(scope)
        d = self.random.choice(self.along(a[1]))
        b = self.fresh(scope, [d])
        score = a[0]
        if self.random.random() < 0.4:
            score = f"mask({a[0]}, {self.condition(scope, [d] + [e for e in a[1] if e != d])})"
        if score == a[0] and self.random.random() < 0.3:
            return self.bind(scope, f"log_softmax[{d}]({score}) * {b[0]} * 0.3", a[1], a[2] | {d})
        return self.bind(scope, f"softmax[{d}]({score}) * {b[0]}", a[1], a[2] | {d})

    def masked(self, scope):
        a = self.pick(scope)
        if not self.along(a[1]):
            return self.unary(scope)
        d = self.random.choice(self.along(a[1]))
        rest = tuple(e for e in a[1] if e != d)
        op = self.random.choice(["sum", "mean", "max", "min", "logsumexp"])
        if op in ("max", "min") and d not in a[2]:
            op = "sum"
        # position 0 is always kept, so that nothing is infinite
        keep = f"({self.condition(scope, [d] + list(rest))} or position[{d}] == 0)"
        return self.bind(scope, f"{op}[{d}](mask({a[0]}, {keep})) * 0.4", rest, a[2])

    def concat(self, scope):
        """Two values, or parts of them, side by side: whatever dims one lacks are the other's."""
        to = self.random.choice(list(self.sums))
        first, second = self.sums[to]
        lefts = [v for v in scope.values if first in v[1] and to not in v[1]]
        rights = [v for v in scope.values if second in v[1] and to not in v[1]]
        a = self.random.choice(lefts) if lefts else self.parameter(scope, [first])
        b = self.random.choice(rights) if rights else self.parameter(scope, [second])
        others = lambda v, d: [e for e in v[1] if e != d]
        if first != second and (first in b[1] or second in a[1]):
            return self.cumsum(scope)
        extra = [e for e in others(b, second) if e not in others(a, first)]
        if extra and not set(others(a, first)) <= set(others(b, second)):
            b = (self.fit(scope, b, others(a, first) + [second]), tuple(e for e in b[1] if e not in extra), b[2])
            extra = []
        dims = tuple(to if e == second else e for e in b[1]) if extra else tuple(to if e == first else e for e in a[1])
        if self.size(dims) > LIMIT or len(set(dims)) < len(dims):
            return self.unary(scope)
        return self.bind(scope, f"concat[{first} + {second} as {to}]({a[0]}, {b[0]}) * 0.7", dims, (a[2] | set(extra)) & (b[2] | (set(others(a, first)) - set(b[1]))))

    def stack(self, scope):
        a = self.pick(scope)
        choices = [d for d in self.plain if d not in a[1] and d != "batch" and self.sizes[d] <= 4]
        if not choices or self.size(a[1]) > LIMIT // 4:
            return self.shift(scope)
        d = self.random.choice(choices)
        values = [a[0]] + [f"{self.fit(scope, self.pick(scope), a[1])} * 0.{i + 3}" for i in range(1, self.sizes[d])]
        values = [v if set(self.dims_of(scope, v)) <= set(a[1]) and not v.startswith(NUMBER) else a[0] for v in values]
        self.random.shuffle(values)
        lead = values.index(a[0])
        values[0], values[lead] = values[lead], values[0]
        return self.bind(scope, f"stack[{d}]({', '.join(values)})", a[1] + (d,), ())

    def dims_of(self, scope, text):
        """The dims of a value whose name a text begins with; of anything else none."""
        return next((v[1] for v in scope.values if text.split()[0] == v[0]), ())

    def pad(self, scope):
        a = self.pick(scope)
        choices = [(d, e) for d in a[1] for e in self.plain if e not in a[1] and self.sizes[d] <= self.sizes[e] and "batch" not in (d, e)]
        if not choices:
            return self.concat(scope)
        d, e = self.random.choice(choices)
        options = self.random.choice(["", f", before: {self.random.randint(0, self.sizes[e] - self.sizes[d])}"]) + self.random.choice(["", ", value: 0.4"])
        return self.bind(scope, f"pad[{d} as {e}]({a[0]}{options})", tuple(e if x == d else x for x in a[1]), ())

    def cumsum(self, scope):
        a = self.pick(scope)
        if not self.along(a[1]):
            return self.unary(scope)
        return self.bind(scope, f"cumsum[{self.random.choice(self.along(a[1]))}]({a[0]}) * 0.4", a[1], a[2])

    def sort(self, scope):
        """sort or top_k of values that are not equal."""
        a = self.pick(scope)
        choices = [d for d in self.along(a[1]) if d in a[2]]
        if not choices:
            return self.cumsum(scope)
        d = self.random.choice(choices)
        part = self.parts.get(d)
        if part is None or part in a[1] or scope.block or self.random.random() < 0.5:
            return self.bind(scope, f"sort[{d}]({a[0]}{self.random.choice(['', ', descending: true'])})", a[1], a[2])
        best, chosen = self.name("v"), self.name("v")
        scope.line(f"{best}, {chosen} = top_k[{d} as {part}]({a[0]})")
        dims = tuple(part if e == d else e for e in a[1])
        value = (best, dims, frozenset(part if e == d else e for e in a[2]))
        scope.values.append(value)
        table = self.parameter(scope, [d])
        return self.bind(scope, f"take[{d}]({table[0]}, {chosen}) * {best}", dims, value[2])

    def narrow(self, scope):
        """An op of values in 16 bits, which have 64 where all is f64."""
        a = self.pick(scope)
        if not self.along(a[1]):
            return self.unary(scope)
        d = self.random.choice(self.along(a[1]))
        b = self.fresh(scope, [d])
        x = f"{self.random.choice(['bf16', 'f16'])}({a[0]})"
        self.seen("values of 16 bits")
        text = self.random.choice(["softmax[{1}]({0})", "cumsum[{1}]({0})", "{0} * 0.5 + sum[{1}]({0}) * 0.2", "{0} - mean[{1}]({0}) * 0.7", "sin({0}) * logsumexp[{1}]({0})"])
        return self.bind(scope, f"real({text.format(x, d)}) * {b[0]}", a[1], a[2] | {d})

    def where(self, scope):
        a, b = self.pick(scope), self.pick(scope)
        if not a[1]:
            return self.unary(scope)
        return self.bind(scope, f"where({self.condition(scope, list(a[1]))}, {a[0]}, {self.fit(scope, b, a[1])} * 0.5)", a[1], a[2] | b[2])

    def stop(self, scope):
        a = self.pick(scope)
        self.bind(scope, f"{a[0]} * 0.5 + stop_gradient({a[0]})", a[1], a[2])

    def best(self, scope):
        a = self.pick(scope)
        choices = [d for d in self.along(a[1]) if d in a[2]]
        if not choices:
            return self.binary(scope)
        d = self.random.choice(choices)
        rest = tuple(e for e in a[1] if e != d)
        new = [e for e in self.some([e for e in self.plain if e not in a[1]], 0, 1)]
        table = self.parameter(scope, [d] + new)
        return self.bind(scope, f"take[{d}]({table[0]}, argmax[{d}]({a[0]}))", rest + tuple(new), a[2] | table[2])

    def take(self, scope):
        d = self.random.choice([e for e in self.plain if e != "batch"])
        dims = ["batch"] + self.some([e for e in self.plain if e not in ("batch", d)], 0, 1)
        new = self.some([e for e in self.plain if e not in dims and e != d], 0, 2)
        if self.size(dims + new) > LIMIT:
            return self.unary(scope)
        table = self.parameter(scope, [d] + new)
        return self.bind(scope, f"take[{d}]({table[0]}, {self.index(d, dims)})", tuple(dims + new), dims + new)

    def hot(self, scope):
        d = self.random.choice([e for e in self.plain if e != "batch"])
        w = self.parameter(scope, [d])
        return self.bind(scope, f"one_hot[{d}]({self.index(d, ['batch'])}) * {w[0]}", ("batch", d), ("batch", d))

    def entropy(self, scope):
        values = [v for v in scope.values if len(v[1]) >= 2]
        if not values:
            return self.unary(scope)
        a = self.random.choice(values)
        d = self.random.choice(self.along(a[1]))
        rest = tuple(e for e in a[1] if e != d)
        smoothing = self.random.choice(["", ", smoothing: 0.1"])
        return self.bind(scope, f"cross_entropy[{d}]({a[0]}, {self.index(d, rest)}{smoothing}) * 0.3", rest, a[2])

    def noise(self, scope):
        """Random numbers of the step, and what is left of a value by chance."""
        a = self.pick(scope)
        dims = self.brackets(self.some(a[1], 1))
        text = self.random.choice(["{0} + random_normal{1}(std: 0.2)", "{0} * (0.5 + random_uniform{1}())", "dropout({0}, rate: 0.3)", "dropout{1}({0}, rate: 0.4) + {0}"])
        self.bind(scope, text.format(a[0], dims), a[1], a[2] if "normal" in text or "uniform" in text else ())
