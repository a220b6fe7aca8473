"""repeat: carries, stacked and shared parameters, nested loops, values and gradients with the loop's dims first."""
import numpy as np

from .case import Case


def turns(v, h, step, count=3):
    values = []
    for i in range(count):
        h = step(i, h)
        values.append(h)
    return h, np.stack(values)


def cases():
    yield Case("a carry", "h = p1\nrepeat l {\n  h = tanh(h * p2) + h\n}\ny = h", {"p1": "a b", "p2": "b"}, "a b",
               lambda v: turns(v, v.p1, lambda i, h: np.tanh(h * v.p2) + h)[0])

    def stacked(v):
        h, values = turns(v, v.p1, lambda i, h: np.tanh(h * v.l_gain[i]) + v.p2)
        return {"y": h, "l.q": values}

    yield Case("stacked parameters", "h = p1\nrepeat l {\n  param gain : real[b] = ones\n  q = tanh(h * gain) + p2\n  h = q\n}\ny = h", {"p1": "a b", "p2": "a b"}, "a b",
               stacked, inner={"l.gain": "l b"})
    yield Case("a carry in a declared order", "h : real[b, a] = p1\nrepeat l {\n  h = sin(p1 * h)\n}\ny = h", {"p1": "a b"}, "b a",
               lambda v: turns(v, v.p1.T, lambda i, h: np.sin(v.p1.T * h))[0])
    yield Case("a matrix in every turn", "h = p1\nrepeat l {\n  param w : real[b, k] = zeros\n  h = h + tanh(dot[b](h, w))[k as b]\n}\ny = h", {"p1": "a b"}, "a b",
               lambda v: turns(v, v.p1, lambda i, h: h + np.tanh(h @ v.l_w[i]))[0], inner={"l.w": "l b k"})
    yield Case("a shared matrix", "h = p1\nrepeat l {\n  h = h + tanh(dot[b](h, p2))[k as b]\n}\ny = h", {"p1": "a b", "p2": "b k"}, "a b",
               lambda v: turns(v, v.p1, lambda i, h: h + np.tanh(h @ v.p2))[0])
    yield Case("a carry that starts as a literal", "h = p1\ns = 0\nrepeat l {\n  param g : real[b] = ones\n  h = sin(h * g)\n  s = s + sum[b](h)\n}\ny = s", {"p1": "a b"}, "a",
               lambda v: turns(v, v.p1, lambda i, h: np.sin(h * v.l_g[i]))[1].sum((0, 2)), inner={"l.g": "l b"})
    yield Case("two carries that change places", "h = p1\ng = p2\nrepeat l {\n  t = h\n  h = g * 1.5\n  g = t + sin(g)\n}\ny = h - g * 2", {"p1": "a b", "p2": "a b"}, "a b",
               lambda v: swap(v.p1, v.p2))
    yield Case("the position in the loop", "h = p1\nrepeat l as turn {\n  h = h * 0.5 + p2 * f32(position[l])\n}\ny = h", {"p1": "a", "p2": "a"}, "a",
               lambda v: turns(v, v.p1, lambda i, h: h / 2 + v.p2 * i)[0])
    yield Case("a reduction inside", "h = p1\nrepeat l {\n  param g : real[b] = ones\n  h = (h - mean[b](h)) * g + max[b](h)\n}\ny = h", {"p1": "a b"}, "a b",
               lambda v: turns(v, v.p1, lambda i, h: (h - h.mean(1)[:, None]) * v.l_g[i] + h.max(1)[:, None])[0], inner={"l.g": "l b"})

    def nested(v):
        h, values = v.p1, []
        for i in range(3):
            h = h * v.l_own[i]
            for j in range(2):
                q = np.tanh(h * v.l_m_step[i, j] * v.p2) * (j + 1)
                values.append(q)
                h = h + q
        return {"y": h, "l.m.q": np.stack(values).reshape(3, 2, 3, 4)}

    yield Case("nested loops", """h = p1
repeat l {
  param own : real[b] = ones
  h = h * own
  repeat m {
    param step : real[b] = ones
    q = tanh(h * step * p2) * f32(position[m] + 1)
    h = h + q
  }
}
y = h""", {"p1": "a b", "p2": "b"}, "a b", nested, inner={"l.own": "l b", "l.m.step": "l m b"})
    yield Case("the outer loop's matrix in the inner loop", """h = p1
repeat l {
  param w : real[b, k] = zeros
  repeat m {
    h = h + 0.25 * sin(dot[b](h, w))[k as b]
  }
}
y = h""", {"p1": "a b"}, "a b", lambda v: turns(v, v.p1, lambda i, h: turns(v, h, lambda j, g: g + np.sin(g @ v.l_w[i]) / 4, 2)[0])[0], inner={"l.w": "l b k"})
    yield Case("two loops in a row over one table", """h = take[c](p1, k1)
repeat l {
  h = h + tanh(h * p2)
}
repeat m {
  h = h * p2 + take[c](p1, k1)
}
y = dot[b](h, p1)""", {"p1": "c b", "p2": "b"}, "a c", two_loops, inputs={"k1": "index(c) a"})
    yield Case("the last turn does not matter", "h = p1\ng = p2\nrepeat l {\n  g = h * 2\n  h = sin(h) + p2\n}\ny = g", {"p1": "a", "p2": "a"}, "a",
               lambda v: 2 * turns(v, v.p1, lambda i, h: np.sin(h) + v.p2, 2)[0])
    yield Case("what every turn gave", """h = p1
repeat l {
  param g : real[b] = ones
  before = h
  q = tanh(h * g)
  h = q + p2 * sin(q)
  same = p2
}
hs = collect[l](h)
qs = collect[l](q)
y = mean[l](hs * collect[l](before)) + qs[l = 1] + cumsum[l](qs)[l = 2] + sum[l](collect[l](same)) * 0.1""", {"p1": "a b", "p2": "b"}, "a b", collected, inner={"l.g": "l b"})
    yield Case("every turn of two loops", """h = p1
repeat l {
  repeat m {
    param g : real[b] = ones
    h = sin(h * g) + 0.5 * h
  }
  inside = collect[m](h)
}
each = collect[l](inside)
y = sum[l](each * p2)""", {"p1": "a b", "p2": "l m b"}, "m a b", every_turn, inner={"l.m.g": "l m b"})
    yield Case("one turn", "h = p1\nrepeat one {\n  param g : real[a] = ones\n  h = h * g\n}\ny = h", {"p1": "a"}, "a", lambda v: v.p1 * v.one_g[0], inner={"one.g": "one a"},
               dims={"one": "1"})


def swap(h, g):
    for _ in range(3):
        h, g = g * 1.5, h + np.sin(g)
    return h - g * 2


def two_loops(v):
    rows = v.p1[v.k1]
    h = turns(v, rows, lambda i, h: h + np.tanh(h * v.p2))[0]
    h = turns(v, h, lambda i, h: h * v.p2 + rows, 2)[0]
    return h @ v.p1.T


def collected(v):
    h, hs, qs, before = v.p1, [], [], []
    for i in range(3):
        before.append(h)
        q = np.tanh(h * v.l_g[i])
        h = q + v.p2 * np.sin(q)
        hs.append(h)
        qs.append(q)
    return {"hs": np.stack(hs), "qs": np.stack(qs), "y": (np.stack(hs) * np.stack(before)).mean(0) + qs[1] + sum(qs) + 3 * v.p2 * 0.1}


def every_turn(v):
    h = v.p1
    each = np.zeros((3, 2, *h.shape), h.dtype)
    for i in range(3):
        for j in range(2):
            h = np.sin(h * v.l_m_g[i, j]) + h / 2
            each[i, j] = h
    return {"each": each, "y": (each * v.p2[:, :, None, :]).sum(0)}
