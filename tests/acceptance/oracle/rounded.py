"""Ops of values in bf16 and f16, one op a case: NumPy computes from the rounded parameters, and the op may round its result once."""
import types

import numpy as np

from . import reference as r
from .along import largest
from .case import Case
from .experts import MANY, routed
from .neighbours import EDGES, shifted

ROWS = [[False] * 4, [True] * 4, [True, False, False, True]]  # one row of [a, b] keeps nothing
PARTS = {"b1": "b - 1", "c3": "3", "ab": "a + b", "f": "b + 3", "long": "301"}
AXES = {"a": (0, "b c"), "c": (2, "a b"), "b, c": ((1, 2), "a"), "a, b, c": ((0, 1, 2), "")}
ABC = {"p1": "a b c"}


class RoundedCase(Case):
    """`terms(v)`: the sum of the absolute terms behind each element of y, by whose last place its error counts; nothing: y is one of the numbers that the op reads, bit by bit."""

    def __init__(self, name, body, params, result, forward, terms=None, **more):
        super().__init__(name, body, params, result, forward, **more)
        self.terms = terms

    def of(self, narrow):
        """The same of a type."""
        case = RoundedCase(f"{self.name}, {narrow.name}", self.body, self.params, " ".join(self.result), self.forward, self.terms, inputs=self.inputs, dims=self.more, values=self.values)
        case.narrow = narrow
        return case

    def spec(self):
        return "\n".join(line.replace(": real", f": {self.narrow.name}") if line.startswith("  param ") else line for line in super().spec().split("\n"))

    def arrays(self, random):
        """Remembers the size of the terms, by which errors count."""
        arrays, params = super().arrays(random)
        arrays = {name: self.narrow.round(array).astype(np.float64) if name in params else array for name, array in arrays.items()}
        self.size = self.terms and self.terms(types.SimpleNamespace(**arrays))
        return arrays, params


def summed(x, axis, keep=True):
    return np.where(keep, x, 0).sum(axis=axis)


def exponents(x, axis, keep=True):
    """The largest, and the logarithm of the sum of exponentials beside it: what a logsumexp adds up."""
    top = np.max(np.where(keep, x, -1e30), axis=axis, keepdims=True)
    return top, np.log(np.where(keep, np.exp(np.minimum(x - top, 0)), 0).sum(axis=axis, keepdims=True))


def log_terms(x, axis):
    top, rest = exponents(x, axis)
    return np.squeeze(abs(top) + abs(rest), axis=axis)


def soft_terms(x, axis):
    top, rest = exponents(x, axis)
    return abs(x - top) + abs(rest)


def windows(x, f):
    """Of windows of three along the last dim, stride two, one element of padding."""
    return np.stack([f(x[..., max(0, 2 * n - 1):2 * n + 2], -1) for n in range(3)], -1)


def added(rows, index, size):
    return np.stack([rows[index == i].sum(0) for i in range(size)])


def by_experts(v, x, weight):
    """Each token's choices: its own numbers, twice, times the weights; nothing for those without a slot."""
    seat, _ = routed(v.k1, 2, 5)
    return ((seat >= 0) * weight).sum(2)[..., None] * 2 * x


def reductions():
    for dims, (axis, rest) in AXES.items():
        yield RoundedCase(f"sum[{dims}]", f"y = sum[{dims}](p1)", ABC, rest, lambda v, axis=axis: summed(v.p1, axis), lambda v, axis=axis: summed(abs(v.p1), axis))
        yield RoundedCase(f"mean[{dims}]", f"y = mean[{dims}](p1)", ABC, rest, lambda v, axis=axis: v.p1.mean(axis=axis), lambda v, axis=axis: abs(v.p1).mean(axis=axis))
        yield RoundedCase(f"max[{dims}]", f"y = max[{dims}](p1)", ABC, rest, lambda v, axis=axis: v.p1.max(axis=axis))
        yield RoundedCase(f"min[{dims}]", f"y = min[{dims}](p1)", ABC, rest, lambda v, axis=axis: v.p1.min(axis=axis))
        yield RoundedCase(f"logsumexp[{dims}]", f"y = logsumexp[{dims}](p1)", ABC, rest, lambda v, axis=axis: r.logsumexp(v.p1, axis), lambda v, axis=axis: log_terms(v.p1, axis))
    for axis, dim in enumerate("abc"):
        yield RoundedCase(f"softmax[{dim}]", f"y = softmax[{dim}](p1)", ABC, "a b c", lambda v, axis=axis: r.softmax(v.p1, axis), lambda v, axis=axis: r.softmax(v.p1, axis))
        yield RoundedCase(f"log_softmax[{dim}]", f"y = log_softmax[{dim}](p1)", ABC, "a b c", lambda v, axis=axis: r.log_softmax(v.p1, axis),
                          lambda v, axis=axis: soft_terms(v.p1, axis))
    kept = dict(inputs={"k1": "bool a b"}, values={"k1": ROWS})
    yield RoundedCase("a sum of a mask", "y = sum[b](mask(p1, k1))", {"p1": "a b"}, "a", lambda v: summed(v.p1, 1, v.k1), lambda v: summed(abs(v.p1), 1, v.k1), **kept)
    yield RoundedCase("a mean of a mask", "y = mean[b](mask(p1, k1))", {"p1": "a b"}, "a", lambda v: r.mean(v.p1, 1, v.k1), lambda v: r.mean(abs(v.p1), 1, v.k1), **kept)
    yield RoundedCase("a mean with where", "y = mean[b](p1, where: k1)", {"p1": "a b"}, "a", lambda v: r.mean(v.p1, 1, v.k1), lambda v: r.mean(abs(v.p1), 1, v.k1), **kept)
    yield RoundedCase("a softmax of a mask", "y = softmax[b](mask(p1, k1))", {"p1": "a b"}, "a b", lambda v: r.softmax(v.p1, 1, v.k1), lambda v: r.softmax(v.p1, 1, v.k1), **kept)
    # 301 is no number of bf16: neither the count nor the sum may be rounded.
    yield RoundedCase("a mean of many", "y = mean[long](p1)", {"p1": "a long"}, "a", lambda v: v.p1.mean(1), lambda v: abs(v.p1).mean(1), dims=PARTS)
    yield RoundedCase("argmax", "i1 = argmax[b](p1)\ny = max[b](p1) * f32(i1)", {"p1": "a b"}, "a", lambda v: {"i1": v.p1.argmax(1), "y": v.p1.max(1) * v.p1.argmax(1)})
    yield RoundedCase("cumsum", "y = cumsum[b](p1)", {"p1": "a b"}, "a b", lambda v: v.p1.cumsum(1), lambda v: abs(v.p1).cumsum(1))
    yield RoundedCase("cumsum along the first dim", "y = cumsum[c](p1)", {"p1": "c a"}, "c a", lambda v: v.p1.cumsum(0), lambda v: abs(v.p1).cumsum(0))


def moved():
    yield RoundedCase("select", "y = p1[b = 2]", ABC, "a c", lambda v: v.p1[:, 2])
    yield RoundedCase("slice", "y = p1[b = 1.. as b1]", ABC, "a b1 c", lambda v: v.p1[:, 1:], dims=PARTS)
    yield RoundedCase("slice with a step", "y = p1[c = 0.. step 2 as c3]", {"p1": "c b"}, "c3 b", lambda v: v.p1[::2], dims=PARTS)
    yield RoundedCase("slice of a slice", "y = p1[c = 0.. step 2 as c3][c3 = 1.. as d]", {"p1": "a c"}, "a d", lambda v: v.p1[:, 2::2], dims=PARTS)
    yield RoundedCase("concat", "y = concat[a + b as ab](p1, p2)", {"p1": "c a", "p2": "c b"}, "c ab", lambda v: np.concatenate([v.p1, v.p2], 1), dims=PARTS)
    yield RoundedCase("concat with f32", "y = concat[a + b as ab](p1, f32(p2))", {"p1": "a c", "p2": "b c"}, "ab c", lambda v: np.concatenate([v.p1, v.p2]), dims=PARTS)
    yield RoundedCase("stack", "y = stack[d](p1, p2)", {"p1": "a b", "p2": "b"}, "a b d", lambda v: np.stack([v.p1, v.p2 + 0 * v.p1], 2))
    yield RoundedCase("pad", "y = pad[b as f](p1, before: 2)", {"p1": "a b"}, "a f", lambda v: np.pad(v.p1, [(0, 0), (2, 1)]), dims=PARTS)
    yield RoundedCase("pad with a number", "y = pad[b as f](p1, before: 3, value: 1.5)", {"p1": "b a"}, "f a", lambda v: np.pad(v.p1, [(3, 0), (0, 0)], constant_values=1.5), dims=PARTS)
    for edge, text in EDGES.items():
        dims = {"x": f"5 edge {text}"}
        yield RoundedCase(f"the next, {edge}", "y = p1[x + 1]", {"p1": "a x"}, "a x", lambda v, e=edge: shifted(v.p1, 1, 1, e), dims=dims)
        yield RoundedCase(f"three before, {edge}", "y = p1[x - 3]", {"p1": "x b"}, "x b", lambda v, e=edge: shifted(v.p1, 0, -3, e), dims=dims)
    yield RoundedCase("sort", "y = sort[b](p1)", ABC, "a b c", lambda v: np.sort(v.p1, 1))
    yield RoundedCase("sort descending", "y = sort[c](p1, descending: true)", ABC, "a b c", lambda v: -np.sort(-v.p1, 2))
    yield RoundedCase("top_k", "y, i1 = top_k[c as d](p1)", {"p1": "a c"}, "a d", lambda v: dict(zip(("y", "i1"), largest(v.p1, 2, 1))))
    yield RoundedCase("flip", "y = flip[b](p1)", {"p1": "a b"}, "a b", lambda v: v.p1[:, ::-1])
    yield RoundedCase("roll", "y = roll[c](p1, by: 2)", {"p1": "a c"}, "a c", lambda v: np.roll(v.p1, 2, 1))
    yield RoundedCase("take", "y = take[c](p1, k1)", {"p1": "c b"}, "a b", lambda v: v.p1[v.k1], inputs={"k1": "index(c) a"})
    yield RoundedCase("one index that is computed", "y = p1[c = k1]", {"p1": "a c b"}, "a b", lambda v: v.p1[:, int(v.k1)], inputs={"k1": "index(c)"})


def by_index():
    yield RoundedCase("scatter_add", "y = scatter_add[c as d](p1, k1)", {"p1": "c b"}, "d b", lambda v: added(v.p1, v.k1, 2), lambda v: added(abs(v.p1), v.k1, 2), inputs={"k1": "index(d) c"},
                      values={"k1": np.array([0, 1, 1, 0, 1], np.int32)})
    yield RoundedCase("scatter_max", "y = scatter_max[c as d](p1, k1)", {"p1": "c b"}, "d b", lambda v: np.stack([v.p1[v.k1 == i].max(0) for i in range(2)]), inputs={"k1": "index(d) c"},
                      values={"k1": np.array([0, 1, 1, 0, 1], np.int32)})
    yield RoundedCase("experts", "plan = route[c, slot, part](k1, p2)\ny = combine(dispatch(p1, plan) * 2, plan)", {"p1": "a b e", "p2": "a b d"}, "a b e",
                      lambda v: by_experts(v, v.p1, v.p2), lambda v: by_experts(v, abs(v.p1), abs(v.p2)), inputs={"k1": "index(c) a b d"}, values={"k1": MANY},
                      dims={"slot": "2", "part": "3"})
    yield RoundedCase("max_pool", "y = max_pool[c: 3 stride 2 as l](p1, pad: 1)", ABC, "a b l", lambda v: windows(v.p1, np.max))
    yield RoundedCase("avg_pool", "y = avg_pool[c: 3 stride 2 as l](p1, pad: 1)", ABC, "a b l", lambda v: windows(v.p1, np.mean), lambda v: windows(abs(v.p1), np.mean))


def cases():
    return [*reductions(), *moved(), *by_index()]
