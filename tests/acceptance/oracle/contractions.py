"""dot, outer, broadcast, renames, splits, merges."""
import numpy as np

from .case import Case


def dot(name, dims, left, right, result, sum_):
    return Case(name, f"y = dot[{dims}](p1, p2)", {"p1": left, "p2": right}, result, lambda v: np.einsum(sum_, v.p1, v.p2))


def cases():
    yield dot("dot of two matrices", "b", "a b", "b c", "a c", "ab,bc->ac")
    yield dot("dot, contracted dims elsewhere", "b", "b a", "c b", "a c", "ba,cb->ac")
    yield dot("dot over two dims", "b, c", "a b c", "b c d", "a d", "abc,bcd->ad")
    yield dot("dot over two dims in another order", "c, b", "b a c", "c d b", "a d", "bac,cdb->ad")
    yield dot("dot with a batch dim", "b", "a b", "a b c", "a c", "ab,abc->ac")
    yield dot("dot with two batch dims", "c", "a b c", "b c a d", "a b d", "abc,bcad->abd")
    yield dot("dot with batch dims and two contracted", "b, c", "a b c d", "c e b a", "a d e", "abcd,ceba->ade")
    yield dot("dot of vectors", "b", "b", "b", "", "b,b->")
    yield dot("dot of a matrix and a vector", "b", "a b", "b", "a", "ab,b->a")
    yield dot("dot of a vector and a matrix", "b", "b", "b a c", "a c", "b,bac->ac")
    yield dot("dot of equal dims, all batch but one", "c", "a b c", "a b c", "a b", "abc,abc->ab")
    yield Case("dot of a value with itself", "y = dot[b](p1, p1)", {"p1": "a b"}, "a", lambda v: (v.p1**2).sum(1))
    yield Case("dot of a value with its rename", "y = dot[c](p1, p1[b as k])", {"p1": "a b c"}, "a b k", lambda v: np.einsum("abc,akc->abk", v.p1, v.p1))
    yield Case("dot of an expression", "y = dot[b](exp(p1) + 1, p2 * p3)", {"p1": "a b", "p2": "b c", "p3": "c"}, "a c", lambda v: (np.exp(v.p1) + 1) @ (v.p2 * v.p3))
    yield Case("dot, then bias, then relu", "y = relu(dot[b](p1, p2) + p3)", {"p1": "a b", "p2": "b c", "p3": "c"}, "a c", lambda v: np.maximum(v.p1 @ v.p2 + v.p3, 0))
    yield Case("outer", "y = outer(p1, p2)", {"p1": "a", "p2": "b"}, "a b", lambda v: np.outer(v.p1, v.p2))
    yield Case("outer of matrices", "y = outer(p1, p2)", {"p1": "a c", "p2": "b d"}, "a c b d", lambda v: np.einsum("ac,bd->acbd", v.p1, v.p2))
    yield Case("outer with a common dim", "y = outer(p1, p2)", {"p1": "a c", "p2": "c b"}, "a c b", lambda v: np.einsum("ac,cb->acb", v.p1, v.p2))
    yield Case("broadcast", "y = broadcast[b](p1) * 2", {"p1": "a"}, "a b", lambda v: np.repeat(v.p1[:, None], 4, 1) * 2)
    yield Case("broadcast of two dims", "y = exp(broadcast[b, c](p1))", {"p1": "a"}, "a b c", lambda v: np.exp(np.broadcast_to(v.p1[:, None, None], (3, 4, 5))))
    yield Case("broadcast of a number", "y = broadcast[b](p1) + p2", {"p1": "", "p2": "b"}, "b", lambda v: v.p1 + v.p2)
    yield Case("both sides broadcast", "y = broadcast[b](p1) + broadcast[a](p2)", {"p1": "a", "p2": "b"}, "a b", lambda v: v.p1[:, None] + v.p2)
    yield Case("rename", "y = p1[b as k] * p2", {"p1": "a b", "p2": "k"}, "a k", lambda v: v.p1 * v.p2)
    yield Case("two renames at once", "y = p1[b as k, d as m]", {"p1": "d a b"}, "m a k", lambda v: v.p1)
    yield Case("split", "y = p1[e as d * a] * p2", {"p1": "b e", "p2": "a d"}, "b d a", lambda v: v.p1.reshape(4, 2, 3) * v.p2.T)
    yield Case("split in the middle", "y = p1[e as d * a]", {"p1": "b e c"}, "b d a c", lambda v: v.p1.reshape(4, 2, 3, 5))
    yield Case("split, then a reduction", "y = sum[a](p1[e as d * a] ^ 2)", {"p1": "b e"}, "b d", lambda v: (v.p1.reshape(4, 2, 3) ** 2).sum(2))
    yield Case("merge", "y = p1[d * a as e] * p2", {"p1": "b d a", "p2": "e"}, "b e", lambda v: v.p1.reshape(4, 6) * v.p2)
    yield Case("merge against the order", "y = p1[d * a as e]", {"p1": "a b d"}, "b e", lambda v: np.einsum("abd->bda", v.p1).reshape(4, 6))
    yield Case("split in three", "y = p1[f as m * d * a]", {"p1": "b f"}, "b m d a", lambda v: v.p1.reshape(4, 2, 2, 3), dims={"f": "m * d * a"})
    yield Case("merge of three", "y = p1[m * d * a as f] + p2", {"p1": "m d a", "p2": "f"}, "f", lambda v: v.p1.reshape(12) + v.p2, dims={"f": "m * d * a"})
    yield Case("split and merge back", "q1 = p1[e as d * a]\ny = (q1 * p2)[d * a as e]", {"p1": "b e", "p2": "d"}, "b e",
               lambda v: {"q1": v.p1.reshape(4, 2, 3), "y": (v.p1.reshape(4, 2, 3) * v.p2[:, None]).reshape(4, 6)})
    yield Case("a declared order of a parameter", "q1 : real[b, a] = p1\ny = q1 * 2", {"p1": "a b"}, "b a", lambda v: {"q1": v.p1.T, "y": v.p1.T * 2})
    yield Case("a declared order of a number", "q1 : real[b, a] = 1.5\ny = q1 * p1", {"p1": "b a"}, "b a", lambda v: {"q1": np.full((4, 3), 1.5), "y": v.p1 * 1.5})
    yield Case("a declared order before a merge", "q1 : real[b, d, a] = sin(p1)\ny = q1[d * a as e]", {"p1": "a b d"}, "b e",
               lambda v: np.sin(v.p1).transpose(1, 2, 0).reshape(4, 6))
    yield Case("a declared order before a dot", "q1 : real[c, a, b] = exp(p1)\ny = dot[b](q1, p2)", {"p1": "a b c", "p2": "b d"}, "c a d",
               lambda v: {"q1": np.exp(v.p1).transpose(2, 0, 1), "y": np.einsum("abc,bd->cad", np.exp(v.p1), v.p2)})
