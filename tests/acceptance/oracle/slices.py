"""Selecting one index of a dim, slices with and without a step, of renamed, merged and computed values."""
import numpy as np

from .case import Case

PARTS = {"b1": "b - 1", "b2": "2", "c3": "3", "c2": "2", "d1": "d - 1"}


def cases():
    yield Case("select the first", "y = p1[b = 0]", {"p1": "a b c"}, "a c", lambda v: v.p1[:, 0])
    yield Case("select the last", "y = p1[b = size[b] - 1] * p2", {"p1": "a b", "p2": "a"}, "a", lambda v: v.p1[:, 3] * v.p2)
    yield Case("select along the first dim", "y = p1[a = 1]", {"p1": "a b"}, "b", lambda v: v.p1[1])
    yield Case("select of a vector", "y = p1[b = 2] * p2", {"p1": "b", "p2": "a"}, "a", lambda v: v.p1[2] * v.p2)
    yield Case("select two dims at once", "y = p1[a = 2, c = c - 2]", {"p1": "a b c"}, "b", lambda v: v.p1[2, :, 3])
    yield Case("select of a product", "y = tanh(dot[b](p1, p2)[c = 1])", {"p1": "a b", "p2": "b c"}, "a", lambda v: np.tanh((v.p1 @ v.p2)[:, 1]))
    yield Case("select into a product", "y = dot[b](p1[c = 3], p2)", {"p1": "a b c", "p2": "b d"}, "a d", lambda v: v.p1[:, :, 3] @ v.p2)
    yield Case("halves of a split dim", "x = p1[e as d * a]\ny = x[d = 0] * cos(p2) - x[d = 1] * sin(p2)", {"p1": "b e", "p2": "a"}, "b a",
               lambda v: v.p1[:, :3] * np.cos(v.p2) - v.p1[:, 3:] * np.sin(v.p2))
    yield Case("slice to the end", "y = p1[b = 1.. as b1]", {"p1": "a b c"}, "a b1 c", lambda v: v.p1[:, 1:], dims=PARTS)
    yield Case("slice of the middle", "y = exp(p1[c = 1..4 as c3]) * p2", {"p1": "a c", "p2": "c3"}, "a c3", lambda v: np.exp(v.p1[:, 1:4]) * v.p2, dims=PARTS)
    yield Case("slice with a step", "y = p1[c = 0.. step 2 as c3]", {"p1": "c b"}, "c3 b", lambda v: v.p1[::2], dims=PARTS)
    yield Case("slice with a step along the last dim", "y = p1[c = 1.. step 3 as c2] * p2", {"p1": "b c", "p2": "c2"}, "b c2", lambda v: v.p1[:, 1::3] * v.p2, dims=PARTS)
    yield Case("slice of everything", "y = p1[b = 0..size[b]]", {"p1": "a b"}, "a b", lambda v: v.p1)
    yield Case("slice of one", "y = p1[d = 1.. as d1]", {"p1": "a d"}, "a d1", lambda v: v.p1[:, 1:], dims=PARTS)
    yield Case("slice of a slice", "y = p1[c = 0.. step 2 as c3][c3 = 1.. as c2]", {"p1": "a c"}, "a c2", lambda v: v.p1[:, 2::2], dims=PARTS)
    yield Case("slices of two dims", "y = p1[b = 0..2 as b2, c = 2.. as c3] * p2", {"p1": "a b c", "p2": "b2 c3"}, "a b2 c3", lambda v: v.p1[:, :2, 2:] * v.p2, dims=PARTS)
    yield Case("a slice and a rename", "y = p1[b = 1.. as b1, a as f]", {"p1": "a b"}, "f b1", lambda v: v.p1[:, 1:], dims={**PARTS, "f": "a"})
    yield Case("the differences of neighbours", "y = p1[b = 1.. as b1] - p1[b = 0..b - 1 as b1]", {"p1": "a b"}, "a b1", lambda v: v.p1[:, 1:] - v.p1[:, :-1], dims=PARTS)
    yield Case("a slice of a slice of a merged dim", "y = p1[d * a as e][e = 2..5 as c3][c3 = 1]", {"p1": "b d a"}, "b", lambda v: v.p1.reshape(4, 6)[:, 3], dims=PARTS)
    yield Case("a sum over a slice", "y = sum[b1](p1[b = 1.. as b1] * p2)", {"p1": "a b", "p2": "b1"}, "a", lambda v: (v.p1[:, 1:] * v.p2).sum(1), dims=PARTS)
    yield Case("a product of slices", "y = dot[b1](p1[b = 1.. as b1], p2[b = 0..3 as b1])", {"p1": "a b", "p2": "b c"}, "a c", lambda v: v.p1[:, 1:] @ v.p2[:3], dims=PARTS)
    yield Case("a masked slice", "y = softmax[b1](mask(p1, position[b] != 2)[b = 1.. as b1])", {"p1": "a b"}, "a b1", masked, dims=PARTS)
    yield Case("a slice of integers", "i1 = k1[b = 1.. as b1]\ni2 = k1[b = 3]\ny = take[c](p1, i1) + take[c](p1, i2)", {"p1": "c"}, "a b1",
               lambda v: {"i1": v.k1[:, 1:], "i2": v.k1[:, 3], "y": v.p1[v.k1[:, 1:]] + v.p1[v.k1[:, 3]][:, None]}, inputs={"k1": "index(c) a b"}, dims=PARTS)
    yield Case("a slice in a loop", "h = p1\nrepeat l {\n  param g : real[b] = ones\n  h = tanh(h * g + h[b = 1])\n}\ny = h[b = 1.. as b1]", {"p1": "a b"}, "a b1", in_a_loop,
               inner={"l.g": "l b"}, dims=PARTS)


def masked(v):
    keep = np.array([True, False, True])
    e = np.where(keep, np.exp(v.p1[:, 1:]), 0)
    return e / e.sum(1, keepdims=True)


def in_a_loop(v):
    h = v.p1
    for i in range(3):
        h = np.tanh(h * v.l_g[i] + h[:, 1:2])
    return h[:, 1:]
