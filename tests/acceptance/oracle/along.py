"""cumsum, sort, top_k, flip, roll."""
import numpy as np

from .case import Case


def largest(x, count, axis):
    at = np.argsort(-x.astype(np.float64), axis, kind="stable")
    at = np.take(at, np.arange(count), axis)
    return np.take_along_axis(x, at, axis), at


def cases():
    yield Case("cumsum", "y = cumsum[b](p1)", {"p1": "a b"}, "a b", lambda v: v.p1.cumsum(1))
    yield Case("cumsum along the first dim", "y = cumsum[a](p1 * p2) * p2", {"p1": "a b", "p2": "b"}, "a b", lambda v: (v.p1 * v.p2).cumsum(0) * v.p2)
    yield Case("cumsum in the middle", "y = tanh(cumsum[b](p1))", {"p1": "a b c"}, "a b c", lambda v: np.tanh(v.p1.cumsum(1)))
    yield Case("cumsum of a vector", "y = exp(cumsum[c](p1))", {"p1": "c"}, "c", lambda v: np.exp(v.p1.cumsum()))
    yield Case("cumsum twice", "y = cumsum[b](cumsum[a](p1))", {"p1": "a b"}, "a b", lambda v: v.p1.cumsum(0).cumsum(1))
    yield Case("sum of a cumsum", "y = sum[c](cumsum[c](p1) * p2)", {"p1": "b c", "p2": "c"}, "b", lambda v: (v.p1.cumsum(1) * v.p2).sum(1))
    yield Case("cumsum of a product", "y = cumsum[a](dot[b](p1, p2))", {"p1": "a b", "p2": "b c"}, "a c", lambda v: (v.p1 @ v.p2).cumsum(0))
    yield Case("cumsum of integers and bools", "i1 = cumsum[a](k1)\ny = cumsum[a](p1 > 0.25) * p1 + real(i1)", {"p1": "a"}, "a",
               lambda v: {"i1": v.k1.cumsum(), "y": (v.p1 > 0.25).cumsum() * v.p1 + v.k1.cumsum()}, inputs={"k1": "i32 a"})
    yield Case("cumsum in a loop", "h = p1\nrepeat l {\n  param g : real[b] = ones\n  h = tanh(cumsum[b](h * g))\n}\ny = h", {"p1": "a b"}, "a b", in_a_loop, inner={"l.g": "l b"})
    yield Case("a running mean", "y = cumsum[b](p1) / real(position[b] + 1)", {"p1": "b a"}, "b a", lambda v: v.p1.cumsum(0) / np.arange(1, 5, dtype=np.longdouble)[:, None])
    yield Case("sort", "y = sort[b](p1) * p2", {"p1": "a b", "p2": "b"}, "a b", lambda v: np.sort(v.p1, 1) * v.p2)
    yield Case("sort descending, along the first dim", "y = sort[a](p1, descending: true) * p2", {"p1": "a b", "p2": "a"}, "a b", lambda v: -np.sort(-v.p1, 0) * v.p2[:, None])
    yield Case("sort of an expression", "y = sort[c](sin(p1) + p2)", {"p1": "a c b", "p2": "c"}, "a c b", lambda v: np.sort(np.sin(v.p1) + v.p2[:, None], 1))
    yield Case("the median", "y = sort[c](p1)[c = 2]", {"p1": "a c"}, "a", lambda v: np.sort(v.p1, 1)[:, 2])
    yield Case("sort of integers", "i1 = sort[b](k1)\ny = p1 * real(i1)", {"p1": "b"}, "a b", lambda v: {"i1": np.sort(v.k1, 1), "y": v.p1 * np.sort(v.k1, 1)}, inputs={"k1": "i32 a b"})
    yield Case("top_k", "y, i1 = top_k[c as d](p1)", {"p1": "a c"}, "a d", lambda v: dict(zip(("y", "i1"), largest(v.p1, 2, 1))))
    yield Case("top_k along the first dim", "t, i1 = top_k[c as l](p1)\ny = t * p2", {"p1": "c a", "p2": "l"}, "l a", lambda v: first_dim(v))
    yield Case("top_k of everything", "y, i1 = top_k[b](p1)", {"p1": "a b"}, "a b", lambda v: dict(zip(("y", "i1"), largest(v.p1, 4, 1))))
    yield Case("the weights of the chosen", "best, i1 = top_k[c as d](p1)\ny = softmax[d](best) * take[c](p2, i1)", {"p1": "a c", "p2": "c"}, "a d", chosen)
    yield Case("top_k of equals", "t, i1 = top_k[c as l](k1)\ny = p1 * real(i32(i1) + t)", {"p1": "l"}, "a l", lambda v: equals(v), inputs={"k1": "i32 a c"},
               values={"k1": np.array([[1, 1, 1, 1, 1], [0, 2, 2, 0, 2], [3, 1, 3, 1, 2]], np.int32)})
    yield Case("sort in a loop", "h = p1\nrepeat l {\n  param g : real[b] = ones\n  h = sort[b](h * g) * 0.5 + h\n}\ny = h", {"p1": "a b"}, "a b", sort_in_a_loop, inner={"l.g": "l b"})
    yield Case("flip", "y = flip[b](p1) * p2", {"p1": "a b", "p2": "b"}, "a b", lambda v: v.p1[:, ::-1] * v.p2)
    yield Case("flip along the first dim", "y = flip[c](p1)", {"p1": "c a"}, "c a", lambda v: v.p1[::-1])
    yield Case("flip of an expression, twice", "y = flip[c](tanh(flip[b](p1 * p2)))", {"p1": "b c", "p2": "c"}, "b c", lambda v: np.tanh(v.p1 * v.p2)[::-1, ::-1])
    yield Case("sums from the end", "y = flip[c](cumsum[c](flip[c](p1)))", {"p1": "a c"}, "a c", lambda v: v.p1[:, ::-1].cumsum(1)[:, ::-1])
    yield Case("flip of indices", "i1 = flip[a](k1)\ny = take[c](p1, i1)", {"p1": "c b"}, "a b", lambda v: {"i1": v.k1[::-1], "y": v.p1[v.k1[::-1]]}, inputs={"k1": "index(c) a"})
    yield Case("flip in a loop", "h = p1\nrepeat l {\n  param g : real[b] = ones\n  h = flip[b](h * g) + h\n}\ny = h", {"p1": "a b"}, "a b", flip_in_a_loop, inner={"l.g": "l b"})
    for by in (1, -2, 4, 13, 0):
        yield Case(f"roll by {by}", f"y = roll[c](p1, by: {by}) * p2", {"p1": "a c", "p2": "c"}, "a c", lambda v, by=by: np.roll(v.p1, by, 1) * v.p2)
    yield Case("roll along the first dim", "y = roll[e](sin(p1), by: -1)", {"p1": "e b"}, "e b", lambda v: np.roll(np.sin(v.p1), -1, 0))
    yield Case("roll of bools", "c1 = roll[a](k1, by: 1)\ny = where(c1, p1, 0)", {"p1": "a"}, "a", lambda v: {"c1": np.roll(v.k1, 1), "y": np.where(np.roll(v.k1, 1), v.p1, 0)}, inputs={"k1": "bool a"})


def flip_in_a_loop(v):
    h = v.p1
    for i in range(3):
        h = (h * v.l_g[i])[:, ::-1] + h
    return h


def in_a_loop(v):
    h = v.p1
    for i in range(3):
        h = np.tanh((h * v.l_g[i]).cumsum(1))
    return h


def sort_in_a_loop(v):
    h = v.p1
    for i in range(3):
        h = np.sort(h * v.l_g[i], 1) / 2 + h
    return h


def first_dim(v):
    t, at = largest(v.p1, 3, 0)
    return {"t": t, "i1": at, "y": t * v.p2[:, None]}


def chosen(v):
    best, at = largest(v.p1, 2, 1)
    e = np.exp(best)
    return {"best": best, "i1": at, "y": e / e.sum(1, keepdims=True) * v.p2[at]}


def equals(v):
    t, at = largest(v.k1, 3, 1)
    return {"t": t, "i1": at, "y": v.p1 * (at + t)}
