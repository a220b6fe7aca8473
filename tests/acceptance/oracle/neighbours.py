"""Neighbours along a dim, under every edge: shifts of any length, several dims, stencils, integers, loops."""
import numpy as np

from .case import Case

EDGES = {"wrap": '"wrap"', "clamp": '"clamp"', "zero": "0", "number": "1.5"}
SMALL = {"w": '3 edge "wrap"', "x": '4 edge "clamp"', "z": "3 edge 0"}
DIMS = {"w": '5 edge "wrap"', "x": '6 edge "clamp"', "z": "7 edge 0"}


def shifted(array, axis, distance, edge):
    size = array.shape[axis]
    at = np.arange(size) + distance
    if edge == "wrap":
        return np.take(array, at % size, axis)
    values = np.take(array, np.clip(at, 0, size - 1), axis)
    if edge == "clamp":
        return values
    shape = [1] * array.ndim
    shape[axis] = size
    return np.where(((at >= 0) & (at < size)).reshape(shape), values, 0 if edge == "zero" else 1.5)


def cases():
    for edge, text in EDGES.items():
        dims = {"x": f"5 edge {text}"}
        yield Case(f"the next, {edge}", "y = p1[x + 1] * p2", {"p1": "a x", "p2": "x"}, "a x", lambda v, e=edge: shifted(v.p1, 1, 1, e) * v.p2, dims=dims)
        yield Case(f"the one before, {edge}", "y = p1[x - 1]", {"p1": "x b"}, "x b", lambda v, e=edge: shifted(v.p1, 0, -1, e), dims=dims)
        yield Case(f"three away, {edge}", "y = p1[x + 3] - p1[x - 3] * p2", {"p1": "x b", "p2": "x"}, "x b",
                   lambda v, e=edge: shifted(v.p1, 0, 3, e) - shifted(v.p1, 0, -3, e) * v.p2[:, None], dims=dims)
        yield Case(f"further than the dim is long, {edge}", "y = p1[x + 7] + 2 * p1[x - 12] + p1[x + 5]", {"p1": "b x"}, "b x",
                   lambda v, e=edge: shifted(v.p1, 1, 7, e) + 2 * shifted(v.p1, 1, -12, e) + shifted(v.p1, 1, 5, e), dims=dims)
        yield Case(f"a blur, {edge}", "y = tanh(p1[x - 2] + 2 * p1[x - 1] + 3 * p1 + 2 * p1[x + 1] + p1[x + 2])", {"p1": "a x"}, "a x",
                   lambda v, e=edge: np.tanh(sum((3 - abs(k)) * shifted(v.p1, 1, k, e) for k in range(-2, 3))), dims=dims)
        yield Case(f"a dim of one, {edge}", "y = p1[x + 1] - 2 * p1[x - 1] + p1", {"p1": "a x"}, "a x",
                   lambda v, e=edge: shifted(v.p1, 1, 1, e) - 2 * shifted(v.p1, 1, -1, e) + v.p1, dims={"x": f"1 edge {text}"})
    yield Case("a stencil of two dims", "y = p1[w + 1] + p1[w - 1] + p1[x + 1] + p1[x - 1] - 4 * p1", {"p1": "w x"}, "w x", stencil, dims=DIMS)
    yield Case("a stencil of three dims", "y = p1[w + 1] * 2 + p1[x - 1] * 3 + p1[z + 2]", {"p1": "w x z"}, "w x z",
               lambda v: 2 * shifted(v.p1, 0, 1, "wrap") + 3 * shifted(v.p1, 1, -1, "clamp") + shifted(v.p1, 2, 2, "zero"), dims=SMALL)
    yield Case("diagonals", "y = p1[w + 1, x + 1] - p1[w - 1, x - 2] * p1[z + 1, x + 1]", {"p1": "w x z"}, "w x z",
               lambda v: both(v.p1, 0, 1, "wrap", 1, 1, "clamp") - both(v.p1, 0, -1, "wrap", 1, -2, "clamp") * both(v.p1, 2, 1, "zero", 1, 1, "clamp"), dims=DIMS)
    yield Case("neighbours of a sum", "y = (p1 * p2)[x + 1] - sum[c](p3)[x - 1]", {"p1": "a x", "p2": "x", "p3": "x c"}, "a x",
               lambda v: shifted(v.p1 * v.p2, 1, 1, "clamp") - shifted(v.p3.sum(1), 0, -1, "clamp"), dims=DIMS)
    yield Case("neighbours in a product", "y = dot[z](p1[z + 1], p2) + dot[z](p1, p2[z - 2])", {"p1": "a z", "p2": "z b"}, "a b",
               lambda v: shifted(v.p1, 1, 1, "zero") @ v.p2 + v.p1 @ shifted(v.p2, 0, -2, "zero"), dims=DIMS)
    yield Case("a neighbour of a renamed dim", "y = p1[x + 1][x as k6] * p1[x as k6]", {"p1": "a x"}, "a k6", lambda v: shifted(v.p1, 1, 1, "clamp") * v.p1, dims={**DIMS, "k6": "x"})
    yield Case("an edge of its own", "y = p1[a as r][r - 1]", {"p1": "a b"}, "r b", lambda v: shifted(v.p1, 0, -1, "wrap"), dims={"r": 'a edge "wrap"'})
    yield Case("neighbours of integers", "i1 = k1[x + 1]\ny = take[c](p1, k1[x - 2]) * real(i1 == k1)", {"p1": "c"}, "x",
               lambda v: {"i1": shifted(v.k1, 0, 1, "clamp"), "y": v.p1[shifted(v.k1, 0, -2, "clamp")] * (shifted(v.k1, 0, 1, "clamp") == v.k1)}, inputs={"k1": "index(c) x"}, dims=DIMS)
    yield Case("neighbours of positions", "y = p1 * real(position[w][w + 1] - position[w])", {"p1": "w"}, "w", lambda v: v.p1 * (shifted(np.arange(5), 0, 1, "wrap") - np.arange(5)),
               dims=DIMS)
    yield Case("a masked neighbour", "y = softmax[x](mask(p1, position[x] != 3)[x + 1])", {"p1": "a x"}, "a x", masked, dims=DIMS)
    yield Case("a heat equation", "h = p1\nrepeat l {\n  h = h + 0.1 * (h[w + 1] + h[w - 1] + h[x + 1] + h[x - 1] - 4 * h) * p2\n}\ny = h", {"p1": "w x", "p2": "w"}, "w x", heat, dims=DIMS)
    yield Case("sums over neighbours", "y = sum[x](p1[x + 1] * p2) + logsumexp[x](p1[x - 1])", {"p1": "a x", "p2": "x"}, "a",
               lambda v: (shifted(v.p1, 1, 1, "clamp") * v.p2).sum(1) + np.log(np.exp(shifted(v.p1, 1, -1, "clamp")).sum(1)), dims=DIMS)


def stencil(v):
    return shifted(v.p1, 0, 1, "wrap") + shifted(v.p1, 0, -1, "wrap") + shifted(v.p1, 1, 1, "clamp") + shifted(v.p1, 1, -1, "clamp") - 4 * v.p1


def both(array, first, distance, edge, second, other_distance, other_edge):
    return shifted(shifted(array, first, distance, edge), second, other_distance, other_edge)


def masked(v):
    keep = shifted(np.arange(6) != 3, 0, 1, "clamp")
    e = np.where(keep, np.exp(shifted(v.p1, 1, 1, "clamp")), 0)
    return e / e.sum(1, keepdims=True)


def heat(v):
    h = v.p1
    for _ in range(3):
        h = h + (shifted(h, 0, 1, "wrap") + shifted(h, 0, -1, "wrap") + shifted(h, 1, 1, "clamp") + shifted(h, 1, -1, "clamp") - 4 * h) * v.p2[:, None] / 10
    return h

