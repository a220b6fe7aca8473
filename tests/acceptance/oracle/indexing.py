"""take, scatter_add, scatter_max, argmax, one_hot, cross_entropy."""
import numpy as np

from . import reference as r
from .case import Case


def cases():
    yield Case("take", "y = take[c](p1, k1)", {"p1": "c b"}, "a b", lambda v: v.p1[v.k1], inputs={"k1": "index(c) a"})
    yield Case("take, the same row often", "y = take[c](p1, k1)", {"p1": "c b"}, "a b", lambda v: v.p1[v.k1], inputs={"k1": "index(c) a"}, values={"k1": np.array([2, 2, 2], np.int32)})
    yield Case("take by two dims of indices", "y = take[c](p1, k1)", {"p1": "c b"}, "a d b", lambda v: v.p1[v.k1], inputs={"k1": "index(c) a d"})
    yield Case("take of numbers", "y = take[c](p1, k1) * p2", {"p1": "c", "p2": "a"}, "a", lambda v: v.p1[v.k1] * v.p2, inputs={"k1": "index(c) a"})
    yield Case("take along the last dim", "y : real[a, b] = take[c](p1, k1)", {"p1": "b c"}, "a b", lambda v: v.p1.T[v.k1], inputs={"k1": "index(c) a"})
    yield Case("take of an expression", "y = take[c](exp(p1) * p2, k1)", {"p1": "c b", "p2": "b"}, "a b", lambda v: (np.exp(v.p1) * v.p2)[v.k1], inputs={"k1": "index(c) a"})
    yield Case("one table, two takes and a dot", "y = dot[b](take[c](p1, k1) + take[c](p1, k2), p1)", {"p1": "c b"}, "a c",
               lambda v: (v.p1[v.k1] + v.p1[v.k2]) @ v.p1.T, inputs={"k1": "index(c) a", "k2": "index(c) a"})
    yield Case("one index that is computed", "y = p1[c = k1] * p2", {"p1": "a c b", "p2": "b"}, "a b", lambda v: v.p1[:, int(v.k1)] * v.p2, inputs={"k1": "index(c)"})
    yield Case("the element of this turn", "h = p1\nrepeat l {\n  h = tanh(h + p2[l = position[l]] * p2[l = 2 - position[l]])\n}\ny = h", {"p1": "a b", "p2": "l b"}, "a b", by_turns)
    yield Case("argmax", "i1 = argmax[b](p1)\ni2 = argmax[a](p1)\ny = p2 * f32(i1)", {"p1": "a b", "p2": "a"}, "a",
               lambda v: {"i1": v.p1.argmax(1), "i2": v.p1.argmax(0), "y": v.p2 * v.p1.argmax(1)})
    yield Case("accuracy", "m1 = mean[a](argmax[c](p1) == k1)\ny = p1", {"p1": "a c"}, "a c", lambda v: {"m1": (v.p1.argmax(1) == v.k1).mean(), "y": v.p1}, inputs={"k1": "index(c) a"})
    yield Case("one_hot", "h1 = one_hot[c](k1)\ny = sum[c](h1 * p1)", {"p1": "a c"}, "a", lambda v: {"h1": np.eye(5)[v.k1], "y": v.p1[np.arange(3), v.k1]}, inputs={"k1": "index(c) a"})
    yield Case("take by an argmax", "y = take[c](p1, argmax[c](p2))", {"p1": "c b", "p2": "a c"}, "a b", lambda v: v.p1[v.p2.argmax(1)])
    yield Case("take by an argmax of a product", "y = take[c](p3, argmax[c](dot[b](p1, p2)))", {"p1": "a b d", "p2": "b c d", "p3": "c k"}, "a d k",
               lambda v: v.p3[np.einsum("abd,bcd->adc", v.p1, v.p2).argmax(2)])
    yield Case("take from a table in a declared order", "q1 : real[k, c, a] = sin(p1)\ny = take[c](q1, k1)", {"p1": "a c k"}, "b k a",
               lambda v: np.sin(v.p1).transpose(1, 2, 0)[v.k1], inputs={"k1": "index(c) b"})
    yield Case("take along a dim of each", "y = take[c](p1, k1)", {"p1": "a c b"}, "a d b", lambda v: np.take_along_axis(v.p1, v.k1[..., None], 1), inputs={"k1": "index(c) a d"})
    yield Case("take of a number for each", "y = take[c](p1, k1)", {"p1": "a b c"}, "a b", lambda v: np.take_along_axis(v.p1, v.k1[..., None], 2)[..., 0], inputs={"k1": "index(c) a b"})
    yield Case("take, shared dims behind others", "y = take[c](p1, k1)", {"p1": "c b a"}, "d a b", lambda v: np.moveaxis(np.take_along_axis(v.p1, v.k1[:, None, :], 0), 1, 2),
               inputs={"k1": "index(c) d a"})
    yield Case("take, two shared dims", "y = take[c](sin(p1), k1) * p2", {"p1": "d c a b", "p2": "b"}, "a k d b",
               lambda v: np.stack([[[np.sin(v.p1[d, v.k1[a, k, d], a]) for d in range(2)] for k in range(4)] for a in range(3)]) * v.p2, inputs={"k1": "index(c) a k d"})
    yield Case("take in another order", "y = take[c](p1, k1)", {"p1": "a c b"}, "a c b", lambda v: np.take_along_axis(v.p1, v.k1[..., None], 1), inputs={"k1": "index(c) a c"})
    yield Case("take of nothing", "y = take[c](p1, index(c)(where(k2, i32(k1), -1)))", {"p1": "a c b"}, "a d b",
               lambda v: np.where(v.k2[..., None], np.take_along_axis(v.p1, v.k1[..., None], 1), 0), inputs={"k1": "index(c) a d", "k2": "bool a d"})
    yield Case("scatter_add", "y = scatter_add[a as c](p1, k1) * p2", {"p1": "a b", "p2": "b"}, "c b", lambda v: added(v.p1, v.k1) * v.p2, inputs={"k1": "index(c) a"})
    yield Case("scatter_add of two dims", "y = scatter_add[a * d as c](p1, k1)", {"p1": "a d b"}, "c b", lambda v: added(v.p1.reshape(6, 4), v.k1.reshape(6)), inputs={"k1": "index(c) a d"})
    yield Case("scatter_add for each", "y = scatter_add[d as c](p1, k1)", {"p1": "a b d"}, "a b c",
               lambda v: np.stack([added(v.p1[a].T, v.k1[a]).T for a in range(3)]), inputs={"k1": "index(c) a d"})
    yield Case("scatter_add in another order", "y = scatter_add[c](tanh(p1), k1)", {"p1": "a c b"}, "a c b", lambda v: np.stack([added(np.tanh(v.p1[a]), v.k1[a]) for a in range(3)]),
               inputs={"k1": "index(c) a c"})
    yield Case("a histogram", "i1 = scatter_add[a * b as c](i32(1), k1)\ny = scatter_add[b as c](1, k1) * p1", {"p1": "a c"}, "a c",
               lambda v: {"i1": np.bincount(v.k1.reshape(-1), minlength=5), "y": np.stack([np.bincount(r, minlength=5) for r in v.k1]) * v.p1}, inputs={"k1": "index(c) a b"})
    yield Case("weights, a row for each", "y = scatter_add[a as c](p1 * p2, k1)", {"p1": "a b", "p2": "a"}, "c b", lambda v: added(v.p1 * v.p2[:, None], v.k1), inputs={"k1": "index(c) a"})
    yield Case("scatter_max", "y = scatter_max[e as d](p1, k1) * p2", {"p1": "e b", "p2": "b"}, "d b", lambda v: np.stack([v.p1[v.k1 == i].max(0) for i in range(2)]) * v.p2,
               inputs={"k1": "index(d) e"}, values={"k1": np.array([0, 1, 1, 0, 1, 0], np.int32)})
    yield Case("scatter_max for each", "y = scatter_max[c as d](p1, k1)", {"p1": "a c b"}, "a d b",
               lambda v: np.stack([[v.p1[a][v.k1[a] == i].max(0) for i in range(2)] for a in range(3)]), inputs={"k1": "index(d) a c"},
               values={"k1": np.array([[0, 1, 1, 0, 1], [1, 0, 0, 0, 0], [0, 1, 0, 1, 0]], np.int32)})
    yield Case("scatter_max of ties and of nothing", "t = scatter_max[a as c](max(p1, 0) * 0, k1)\ny = where(t < 0, 0, t + p2)", {"p1": "a b", "p2": "c b"}, "c b",
               lambda v: np.where((v.k1[:, None] == np.arange(5)).any(0)[:, None], v.p2, 0), inputs={"k1": "index(c) a"}, values={"k1": np.array([1, 1, 3], np.int32)})
    yield Case("a softmax over segments", "m = scatter_max[e as c](p1, k1)\nw = exp(p1 - stop_gradient(take[c](m, k1)))\ny = w / take[c](scatter_add[e as c](w, k1), k1)", {"p1": "e"}, "e",
               segments, inputs={"k1": "index(c) e"})
    for text, smoothing in (("", 0), (", smoothing: 0.1", np.longdouble("0.1"))):
        yield Case(f"cross_entropy{text}", f"y = cross_entropy[c](p1 * 2, k1{text})", {"p1": "a c"}, "a",
                   lambda v, s=smoothing: r.cross_entropy(v.p1 * 2, v.k1, s), inputs={"k1": "index(c) a"})
        yield Case(f"cross_entropy, class first{text}", f"y = cross_entropy[c](p1, k1{text})", {"p1": "c a b"}, "a b",
                   lambda v, s=smoothing: r.cross_entropy(np.moveaxis(v.p1, 0, 2), v.k1, s), inputs={"k1": "index(c) a b"})
    yield Case("cross_entropy with z-loss", "y = cross_entropy[c](p1 * 2, k1, smoothing: 0.1, z_loss: 0.05)", {"p1": "a c"}, "a",
               lambda v: r.cross_entropy(v.p1 * 2, v.k1, 0.1) + 0.05 * np.log(np.exp(v.p1 * 2).sum(1)) ** 2, inputs={"k1": "index(c) a"})
    yield Case("mean of cross_entropy with where", "y = mean[a, b](cross_entropy[c](dot[d](p1, p2), k1), where: k1 != 0)", {"p1": "a b d", "p2": "c d"}, "",
               lambda v: r.mean(r.cross_entropy(v.p1 @ v.p2.T, v.k1), (0, 1), v.k1 != 0), inputs={"k1": "index(c) a b"})
    yield Case("cross_entropy of large numbers", "y = cross_entropy[c](p1 * 1000, k1)", {"p1": "a c"}, "a", lambda v: r.cross_entropy(v.p1 * 1000, v.k1), inputs={"k1": "index(c) a"})


def added(rows, at):
    """rows[i] added up at[i] of five."""
    out = np.zeros((5, *rows.shape[1:]), np.longdouble)
    np.add.at(out, at, rows)
    return out


def segments(v):
    w = np.exp(v.p1 - v.p1.max())
    return w / added(w, v.k1)[v.k1]


def by_turns(v):
    h = v.p1
    for i in range(3):
        h = np.tanh(h + v.p2[i] * v.p2[2 - i])
    return h
