"""Reductions, softmax and masks, over one and several dims, with rows that keep nothing."""
import numpy as np

from . import reference as r
from .case import Case

ABC = {"p1": "a b c"}
PLAIN = {
    "sum": lambda x, axis: x.sum(axis=axis), "mean": lambda x, axis: x.mean(axis=axis), "max": lambda x, axis: x.max(axis=axis),
    "min": lambda x, axis: x.min(axis=axis), "logsumexp": r.logsumexp,
}
MASKED = {
    "sum": lambda x, axis, keep: np.where(keep, x, 0).sum(axis=axis), "mean": r.mean, "max": r.maximum, "min": r.minimum, "logsumexp": r.logsumexp,
}
SOFT = {"softmax": r.softmax, "log_softmax": r.log_softmax}
# One row of [a, b] keeps nothing, one keeps all, one some.
ROWS = [[False] * 4, [True] * 4, [True, False, False, True]]
AXES = {"a": (("a",), (0,), "b c"), "b": (("b",), (1,), "a c"), "c": (("c",), (2,), "a b"), "b, c": (("b", "c"), (1, 2), "a"),
        "c, a": (("c", "a"), (0, 2), "b"), "a, b, c": (("a", "b", "c"), (0, 1, 2), "")}


def cases():
    for op, f in PLAIN.items():
        for dims, (_, axes, rest) in AXES.items():
            yield Case(f"{op}[{dims}]", f"y = {op}[{dims}](p1)", ABC, rest, lambda v, f=f, axes=axes: f(v.p1, axes))
    for op, f in SOFT.items():
        for axis, dim in enumerate("abc"):
            yield Case(f"{op}[{dim}]", f"y = {op}[{dim}](p1 * p2)", {"p1": "a b c", "p2": "c"}, "a b c", lambda v, f=f, axis=axis: f(v.p1 * v.p2, axis))
    for op, f in MASKED.items():
        yield Case(f"{op} of a mask, a row keeps nothing", f"y = {op}[b](mask(p1, k1))", {"p1": "a b"}, "a",
                   lambda v, f=f: f(v.p1, 1, v.k1), inputs={"k1": "bool a b"}, values={"k1": ROWS})
        yield Case(f"{op} of a mask over two dims", f"y = {op}[b, c](mask(p1, k1))", ABC, "a",
                   lambda v, f=f: f(v.p1, (1, 2), v.k1[:, :, None]), inputs={"k1": "bool a b"}, values={"k1": ROWS})
        yield Case(f"{op} of a mask of a smaller value", f"y = {op}[c](mask(p1, k1))", ABC, "a b",
                   lambda v, f=f: f(v.p1, 2, np.broadcast_to(v.k1, v.p1.shape)), inputs={"k1": "bool c"})
        yield Case(f"{op} of a named, renamed mask", f"q1 = mask(p1, k1)\ny = {op}[k](q1[b as k])", {"p1": "a b"}, "a",
                   lambda v, f=f: {"q1": np.where(v.k1, v.p1, -np.inf), "y": f(v.p1, 1, v.k1)}, inputs={"k1": "bool a b"}, values={"k1": ROWS})
    for op, f in SOFT.items():
        yield Case(f"{op} of a mask", f"y = where(k1, {op}[b](mask(p1, k1)), 0.5)", {"p1": "a b"}, "a b",
                   lambda v, f=f: np.where(v.k1, f(v.p1, 1, v.k1), 0.5), inputs={"k1": "bool a b"}, values={"k1": ROWS})
    yield Case("softmax of a mask, a row keeps nothing", "y = softmax[b](mask(p1, k1))", {"p1": "a b"}, "a b",
               lambda v: r.softmax(v.p1, 1, v.k1), inputs={"k1": "bool a b"}, values={"k1": ROWS})
    yield Case("softmax of a mask of positions", "y = softmax[b](mask(p1, position[a] >= position[b]))", {"p1": "a b c"}, "a b c",
               lambda v: r.softmax(v.p1, 1, (np.arange(3)[:, None] >= np.arange(4))[:, :, None]))
    yield Case("argmax of a mask", "i1 = argmax[b](mask(p1, k1))\ny = p2 * f32(i1)", {"p1": "a b", "p2": "a"}, "a",
               lambda v: {"i1": np.argmax(r.maximum(v.p1[..., None], 2, v.k1[..., None]), 1), "y": v.p2 * np.argmax(np.where(v.k1, v.p1, -np.inf), 1)},
               inputs={"k1": "bool a b"}, values={"k1": ROWS})
    yield Case("mean with where", "y = mean[a, b](p1, where: k1)", ABC, "c", lambda v: r.mean(v.p1, (0, 1), v.k1[:, :, None]), inputs={"k1": "bool a b"})
    yield Case("mean with where, a row keeps nothing", "y = mean[b](p1, where: k1)", {"p1": "a b"}, "a", lambda v: r.mean(v.p1, 1, v.k1),
               inputs={"k1": "bool a b"}, values={"k1": ROWS})
    yield Case("mean with where of an index", "y = mean[a](p1, where: k1 > 1)", {"p1": "a"}, "", lambda v: r.mean(v.p1, 0, v.k1 > 1), inputs={"k1": "index(c) a"})
    yield Case("variance", "y = mean[b]((p1 - mean[b](p1)) ^ 2)", {"p1": "a b"}, "a", lambda v: v.p1.var(1))
    yield Case("a reduction that is used twice", "s1 = sum[b](p1 * p2)\ny = p1 * s1 + s1",
               {"p1": "a b", "p2": "a b"}, "a b", lambda v: v.p1 * (v.p1 * v.p2).sum(1)[:, None] + (v.p1 * v.p2).sum(1)[:, None])
    yield from ties()


def ties():
    """Shared gradients and smallest indices, exactly. The differences of the shared maximum are half a step up, half down: written as a mean."""
    yield Case("argmax takes the smallest index", "i1 = argmax[b](p1)\ny = p2 * f32(i1)", {"p1": "a b", "p2": "a"}, "a",
               lambda v: {"i1": np.array([1, 0, 3]), "y": v.p2 * np.array([1, 0, 3])}, values={"p1": [[0.0, 2, 2, 2], [1, 1, 1, 1], [-3, -2, -4, -1]]})

    def shared(v):
        base, tied = v.base.p1, v.base.p1 == v.base.p1.max(1, keepdims=True)
        return base.max(1) + np.where(tied, v.p1 - base, 0).sum(1) / tied.sum(1)

    yield Case("ties in max share the gradient", "y = max[b](p1)", {"p1": "a b"}, "a", shared, values={"p1": [[0.0, 2, 2, 2], [1, 1, 1, 1], [-3, -2, -4, -1]]})

    def shared_low(v):
        base, tied = v.base.p1, v.base.p1 == v.base.p1.min(1, keepdims=True)
        return base.min(1) + np.where(tied, v.p1 - base, 0).sum(1) / tied.sum(1)

    yield Case("ties in min share the gradient", "y = min[b](p1)", {"p1": "a b"}, "a", shared_low, values={"p1": [[0.0, 2, 0, 2], [1, 1, 1, 1], [-3, -2, -4, -4]]})

    def shared_both(v):
        base, tied = v.base.p1, v.base.p1 == v.base.p1.max((1, 2), keepdims=True)
        return base.max((1, 2)) + np.where(tied, v.p1 - base, 0).sum((1, 2)) / tied.sum((1, 2))

    yield Case("ties over two dims", "y = max[b, d](p1)", {"p1": "a b d"}, "a", shared_both,
               values={"p1": [[[0.0, 2], [2, 1], [2, 0], [1, 1]], [[1, 1]] * 4, [[-3, -2], [-4, -1], [-5, -1], [-1, -2]]]})
    yield Case("ties in max of two share the gradient", "y = max(p1, p2)", {"p1": "b", "p2": "b"}, "b",
               lambda v: np.maximum(v.base.p1, v.base.p2) + np.where(v.base.p1 == v.base.p2, (v.p1 - v.base.p1 + v.p2 - v.base.p2) / 2,
                                                                     np.where(v.base.p1 > v.base.p2, v.p1 - v.base.p1, v.p2 - v.base.p2)),
               values={"p1": [1.0, 2, -3, 0], "p2": [1.0, -2, -3, 4]})
