"""concat, stack and pad: values side by side along a dim."""
import numpy as np

from .case import Case

DIMS = {"ab": "a + b", "abc": "a + b + c", "aa": "a + a", "f": "b + 3", "g": "b"}


def joined(*parts):
    """Along axis 1, each with the batch of the first that has one."""
    batch = max(p.shape[0] for p in parts)
    return np.concatenate([np.broadcast_to(p, (batch, *p.shape[1:])) for p in parts], axis=1)


def cases():
    yield Case("concat of two", "y = concat[a + b as ab](p1, p2)", {"p1": "a c", "p2": "b c"}, "ab c", lambda v: np.concatenate([v.p1, v.p2]), dims=DIMS)
    yield Case("concat along the last dim", "y = concat[a + b as ab](p1, p2) * p3", {"p1": "c a", "p2": "c b", "p3": "ab"}, "c ab",
               lambda v: np.concatenate([v.p1, v.p2], 1) * v.p3, dims=DIMS)
    yield Case("concat of three expressions", "y = concat[a + b + c as abc](exp(p1), p2 * 2, sin(p3))", {"p1": "d a", "p2": "d b", "p3": "d c"}, "d abc",
               lambda v: np.concatenate([np.exp(v.p1), v.p2 * 2, np.sin(v.p3)], 1), dims=DIMS)
    yield Case("concat of one dim twice", "y = concat[a + a as aa](p1, p1 * p2)", {"p1": "b a", "p2": "a"}, "b aa", lambda v: np.concatenate([v.p1, v.p1 * v.p2], 1), dims=DIMS)
    yield Case("concat of a row for all", "y = concat[a + b as ab](p1, p2)", {"p1": "a c", "p2": "d b c"}, "d ab c", lambda v: joined(v.p1[None], v.p2), dims=DIMS)
    yield Case("concat of other orders", "y = concat[a + b as ab](p1, p2)", {"p1": "c a d", "p2": "b d c"}, "c ab d",
               lambda v: np.concatenate([v.p1, v.p2.transpose(2, 0, 1)], 1), dims=DIMS)
    yield Case("concat of products", "y = tanh(concat[a + b as ab](dot[c](p1, p3), dot[c](p2, p3)))", {"p1": "a c", "p2": "b c", "p3": "c d"}, "ab d",
               lambda v: np.tanh(np.concatenate([v.p1, v.p2]) @ v.p3), dims=DIMS)
    yield Case("concat into a product", "y = dot[ab](concat[a + b as ab](p1, p2), p3)", {"p1": "d a", "p2": "d b", "p3": "ab c"}, "d c",
               lambda v: np.concatenate([v.p1, v.p2], 1) @ v.p3, dims=DIMS)
    yield Case("concat of slices, the rotation", "y = concat[a1 + a2 as a](p1[a = 1.. as a1], p1[a = 0..1 as a2]) * p2", {"p1": "b a", "p2": "a"}, "b a",
               lambda v: np.roll(v.p1, -1, 1) * v.p2, dims={"a1": "a - 1", "a2": "1"})
    yield Case("concat of integers", "i1 = concat[a + b as ab](k1, k2)\ny = take[c](p1, i1)", {"p1": "c"}, "ab",
               lambda v: {"i1": np.concatenate([v.k1, v.k2]), "y": v.p1[np.concatenate([v.k1, v.k2])]}, inputs={"k1": "index(c) a", "k2": "index(c) b"}, dims=DIMS)
    yield Case("concat of a position", "y = concat[a + b as ab](real(position[a]) * p1, p2)", {"p1": "", "p2": "b"}, "ab",
               lambda v: np.concatenate([np.arange(3) * v.p1, v.p2]), dims=DIMS)
    yield Case("concat in a loop",
               "h = p1\nrepeat l {\n  param q : real[b] = ones\n  w = tanh(concat[b + g as w8](h * q, h[b as g]))\n  h = w[w8 = 2..6 as b]\n}\ny = h", {"p1": "a b"}, "a b", in_a_loop,
               inner={"l.q": "l b"}, dims={"g": "b", "w8": "2 * b"})
    yield Case("stack of two", "y = stack[d](p1, p2)", {"p1": "a b", "p2": "a b"}, "a b d", lambda v: np.stack([v.p1, v.p2], 2))
    yield Case("stack of three, one for all", "y = stack[l](p1, exp(p2), p1 * p2)", {"p1": "a b", "p2": "b"}, "a b l",
               lambda v: np.stack([v.p1, np.exp(v.p2) + 0 * v.p1, v.p1 * v.p2], 2))
    yield Case("stack of numbers", "y = stack[d](p1, sum[b](p2)) * p3", {"p1": "", "p2": "b", "p3": "d"}, "d", lambda v: np.stack([v.p1, v.p2.sum()]) * v.p3)
    yield Case("stack and merge", "y = stack[d](p1 * p2, p1 + p2)[d * a as e]", {"p1": "b a", "p2": "b a"}, "b e", lambda v: np.concatenate([v.p1 * v.p2, v.p1 + v.p2], 1))
    yield Case("stack into a product", "y = dot[d, b](stack[d](p1, p2), p3)", {"p1": "a b", "p2": "a b", "p3": "d b c"}, "a c",
               lambda v: np.einsum("dab,dbc->ac", np.stack([v.p1, v.p2]), v.p3))
    yield Case("pad", "y = pad[b as f](p1)", {"p1": "a b"}, "a f", lambda v: np.pad(v.p1, [(0, 0), (0, 3)]), dims=DIMS)
    yield Case("pad before", "y = pad[b as f](p1 * p2, before: 2) + p3", {"p1": "b a", "p2": "a", "p3": "f"}, "f a",
               lambda v: np.pad(v.p1 * v.p2, [(2, 1), (0, 0)]) + v.p3[:, None], dims=DIMS)
    yield Case("pad with a number", "y = pad[b as f](p1, before: 3, value: 1.5) * p2", {"p1": "a b", "p2": "f"}, "a f",
               lambda v: np.pad(v.p1, [(0, 0), (3, 0)], constant_values=1.5) * v.p2, dims=DIMS)
    yield Case("pad to the same size", "y = pad[b as g](p1)", {"p1": "a b"}, "a g", lambda v: v.p1, dims=DIMS)
    yield Case("pad into a product", "y = dot[f](pad[b as f](p1, before: 1), p2)", {"p1": "a b", "p2": "f c"}, "a c", lambda v: v.p1 @ v.p2[1:5], dims=DIMS)


def in_a_loop(v):
    h = v.p1
    for i in range(3):
        h = np.tanh(np.concatenate([h * v.l_q[i], h], 1))[:, 2:6]
    return h
