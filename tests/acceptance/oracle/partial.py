"""Reductions and lookups along dims that a layout may split, and what is computed from them: what may stay a partial sum there and what may not."""
import numpy as np

from .case import Case

TWO = {"p1": "a b", "p2": "a b"}


def cases():
    # text of y over [b], the same in NumPy from sums and extremes over a
    for text, f in {
        "max[a](p1) * sum[a](p2)": lambda p, q: p.max(0) * q.sum(0),
        "min[a](p1) * max[a](p2)": lambda p, q: p.min(0) * q.max(0),
        "max[a](p1) / sum[a](p2)": lambda p, q: p.max(0) / q.sum(0),
        "sum[a](p1) / max[a](p2)": lambda p, q: p.sum(0) / q.max(0),
        "max[a](p1) + sum[a](p2)": lambda p, q: p.max(0) + q.sum(0),
        "max[a](p1) - max[a](p2)": lambda p, q: p.max(0) - q.max(0),
        "-max[a](p1)": lambda p, q: -p.max(0),
        "sum[a](p1) * sum[a](p2)": lambda p, q: p.sum(0) * q.sum(0),
        "sum[a](p1) / sum[a](p2)": lambda p, q: p.sum(0) / q.sum(0),
        "sum[a](p1) - sum[a](p2)": lambda p, q: p.sum(0) - q.sum(0),
        "-sum[a](p1) + 0.5": lambda p, q: 0.5 - p.sum(0),
        "sum[a](p1) + mean[a](p2) / 3": lambda p, q: p.sum(0) + q.mean(0) / 3,
        "sum[a](p1) * 2 - 1.5 * sum[a](p1)": lambda p, q: p.sum(0) / 2,
        "sum[a](p1) ^ 2": lambda p, q: p.sum(0) ** 2,
        "abs(sum[a](p1))": lambda p, q: np.abs(p.sum(0)),
        "max(sum[a](p1), sum[a](p2))": lambda p, q: np.maximum(p.sum(0), q.sum(0)),
        "where(sum[a](p1) > 0, sum[a](p1), sum[a](p2))": lambda p, q: np.where(p.sum(0) > 0, p.sum(0), q.sum(0)),
        "f32(i32(sum[a](p1) * 3)) + sum[a](p2)": lambda p, q: np.trunc(p.sum(0) * 3) + q.sum(0),
        "sum[a](p1)[b as k][k as b] * sum[a](p2)": lambda p, q: p.sum(0) * q.sum(0),
    }.items():
        yield Case(text, f"y = {text}", TWO, "b", lambda v, f=f: f(v.p1, v.p2))
    yield Case("a sum of sums", "y = sum[b](sum[a](p1) * 2) - sum[a, b](p2)", TWO, "", lambda v: v.p1.sum() * 2 - v.p2.sum())
    yield Case("a sum used whole and in part", "s1 = sum[a](p1)\ny = s1 * p2 + tanh(s1)", TWO, "a b", lambda v: v.p1.sum(0) * v.p2 + np.tanh(v.p1.sum(0)))
    yield Case("a product of products", "y = dot[b](dot[a](p1, p2), p3)", {"p1": "a b", "p2": "a c", "p3": "b c"}, "c",
               lambda v: np.einsum("ab,ac,bc->c", v.p1, v.p2, v.p3))
    yield Case("a product with a sum", "y = dot[b](sum[a](p1), p2 + max[a](p1))", {"p1": "a b", "p2": "b"}, "", lambda v: v.p1.sum(0) @ (v.p2 + v.p1.max(0)))
    yield Case("sums of integers", "i1 = sum[a](i32(k1)) % 3\ni2 = max[a](k2) - min[a](k2)\ny = p1 * f32(i1 + i2)", {"p1": "b"}, "b",
               lambda v: {"i1": v.k1.sum(0) % 3, "i2": v.k2.max(0) - v.k2.min(0), "y": v.p1 * (v.k1.sum(0) % 3 + v.k2.max(0) - v.k2.min(0))},
               inputs={"k1": "index(c) a b", "k2": "i32 a b"})
    yield Case("rows of a table of integers", "i1 = take[c](k1, k2)\ny = p1 * f32(i1)", {"p1": "a"}, "a", lambda v: {"i1": v.k1[v.k2], "y": v.p1 * v.k1[v.k2]},
               inputs={"k1": "i32 c", "k2": "index(c) a"})
    yield Case("rows of a table of bools", "i1 = take[c](k1, k2)\ny = where(i1, p1, 2)", {"p1": "a"}, "a", lambda v: {"i1": v.k1[v.k2], "y": np.where(v.k1[v.k2], v.p1, 2)},
               inputs={"k1": "bool c", "k2": "index(c) a"})
    yield Case("rows of a table of bytes", "i1 = take[c](k1, k2)\ny = p1 * f32(i1)", {"p1": "a"}, "a", lambda v: {"i1": v.k1[v.k2], "y": v.p1 * v.k1[v.k2]},
               inputs={"k1": "u8 c", "k2": "index(c) a"})
    yield Case("rows of a table of products", "y = take[c](dot[d](p1, p2), k1)", {"p1": "c d", "p2": "d b"}, "a b", lambda v: (v.p1 @ v.p2)[v.k1], inputs={"k1": "index(c) a"})
