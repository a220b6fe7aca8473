"""repeat: names, carries, the index, collect, until."""
import numpy as np

from .construct import Construct


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(v):
    h = c = np.zeros((4, 4))
    hs, gates = [], []
    for t in range(5):
        part = lambda n: v.x[:, t] @ getattr(v, "w" + n) + h @ getattr(v, "u" + n)
        c, g = sigmoid(part("f")) * c + sigmoid(part("i")) * np.tanh(part("g")), np.tanh(part("g"))
        h = sigmoid(part("o")) * np.tanh(c)
        hs.append(h)
        gates.append(g)
    hs, gates = np.stack(hs), np.stack(gates)
    return {"hs": hs, "gates": gates, "loss": (hs**2).mean() + (gates**2).sum(), "h": h}


def manual(v):
    h = v.x
    for w in v.layer_w:
        h = np.tanh(h @ w)
    return {"h": h, "total": (h**2).sum(), "loss": (h**2).sum() / 4}


def two_loops(v):
    h, s, hs, us = v.x, 0, [], []
    for i in range(3):
        h = np.tanh(h * v.encoder_w[i] + v.shared) + i * 0.1
        for j in range(2):
            h = h + np.sin(h * v.encoder_inner_u[i, j]) * (i + 2)
            us.append(h)
        s = s + h.mean()
        hs.append(h)
    m, ms = v.x, []
    for i in range(3):
        m = m * v.decoder_w[i] + h * v.shared
        ms.append(m)
    us = np.stack(us).reshape(3, 2, 4, 6)
    return {"all": np.stack(hs), "each": us, "ms": np.stack(ms), "total": us.sum((0, 1)) + np.stack(hs).sum(0), "loss": s + m.sum()}


def own_dim(v):
    def turns(w):
        h = (v.x * w).sum(1)
        for _ in range(3):
            h = np.sin(h) + (np.tanh(v.x * h[:, None] * w) ** 2).mean(1)
        return h

    step, gradient = 1e-30, np.zeros_like(v.w)  # the imaginary part of f(w + step i) is step f'(w), without cancellation
    for place in np.ndindex(*v.w.shape):
        w = v.w.astype(complex)
        w[place] += 1j * step
        gradient[place] = turns(w).mean().imag / step
    return {"h": turns(v.w), "loss": turns(v.w).mean(), "grad(w)": gradient}


def power(v):
    a, x, gap, top, tops = v.a + 6 * np.eye(6), np.ones(6), 1.0, 0.0, np.zeros(50)
    for turn in range(50):
        w = a @ x
        norm = np.sqrt(w @ w)
        gap, top = abs(norm - top) / norm, norm
        x, tops[turn] = w / norm, top
        if gap < 1e-3:
            break
    assert 2 < turn < 40
    return {"v": x, "top": top, "turns": np.int32(turn + 1), "tops": tops}


def stepped(v):
    h, total, turns = v.x, 0, []
    for i in range(3):
        for j in range(4):
            h = h * 0.5 + 0.1 * (i + j)
            if h.max() < 0.6 + 0.2 * i:
                break
        turns.append(j + 1)
        total += h.sum()
    return {"h": h, "count": np.int32(turns), "total": total}


def selected(v):
    ends = v.w[0] * v.w[4] - v.v[2]
    d_w, d_v, d_ends = v.v * np.arange(5)[:, None], v.w * np.arange(5)[:, None], 2 * v.x * ends
    d_w[0] += d_ends * v.w[4]
    d_w[4] += d_ends * v.w[0]
    d_v[2] -= d_ends
    return {"ends": ends, "loss": (v.x * ends**2).sum() + ((v.w * v.v).sum(1) * np.arange(5)).sum(), "grad(w)": d_w, "grad(v)": d_v}


TWO_LOOPS = """
dim batch = 4, wide = 6, layer = 3, inner = 2
model Loops {
  input x : real[batch, wide]
  param shared : real[wide] = ones
  h = x
  s = 0
  repeat layer as encoder {
    param w : real[wide] = ones
    h = tanh(h * w + shared) + f32(position[layer]) * 0.1
    repeat inner {
      param u : real[wide] = ones
      h = h + sin(h * u) * real(position[layer] + size[inner])
    }
    hs = collect[inner](h)
    s = s + mean[batch, wide](h)
  }
  all  = collect[layer](h)
  each = collect[layer](hs)
  m = x
  repeat layer as decoder {
    param w : real[wide] = ones
    m = m * w + h * shared
  }
  ms    = collect[layer](m)
  total = sum[layer, inner](each) + sum[layer](all)
  loss  = s + sum[batch, wide](m) + 0 * sum[batch, wide](total) + 0 * sum[layer, batch, wide](ms)
  minimize loss with sgd(lr: 0.1)
}
"""


def cases():
    yield Construct("an LSTM: `collect` of a carry and of a value", """
dim batch = 4, time = 5, wide = 6, hidden = 4, before = hidden
model Lstm {
  input x : real[batch, time, wide]
  param wi, wf, wg, wo : real[wide, hidden]   = fan_in[wide]
  param ui, uf, ug, uo : real[before, hidden] = fan_in[before]
  h : real[batch, hidden] = zeros
  c : real[batch, hidden] = zeros
  repeat time {
    v    = take[time](x, index(time)(position[time]))
    last = h[hidden as before]
    i = sigmoid(dot[wide](v, wi) + dot[before](last, ui))
    f = sigmoid(dot[wide](v, wf) + dot[before](last, uf))
    g = tanh(dot[wide](v, wg) + dot[before](last, ug))
    o = sigmoid(dot[wide](v, wo) + dot[before](last, uo))
    c = f * c + i * g
    h = o * tanh(c)
  }
  hs    = collect[time](h)
  gates = collect[time](g)
  loss  = mean[batch, time, hidden](hs ^ 2) + sum[batch, time, hidden](gates * gates)
  minimize loss with sgd(lr: 0.1)
}
layout split on plane { batch -> rows; hidden -> columns }
layout along on plane { batch -> columns; wide, before -> rows }""", lstm, {"x": (4, 5, 6)},
                    {**{f"w{n}": (6, 4) for n in "ifgo"}, **{f"u{n}": (4, 4) for n in "ifgo"}}, layouts=("split", "along"))
    shapes = {"shared": (6,), "encoder.w": (3, 6), "encoder.inner.u": (3, 2, 6), "decoder.w": (3, 6)}
    for name, rules in (("two loops over one dim by names, one inside another, the index", "batch -> rows; wide -> columns"),
                        ("turns of a loop and of one inside it at their owners", "batch -> rows; layer -> columns; params { inner -> rows }"),
                        ("turns of parameters at owners that two axes have, dealt in zigzag", 'wide -> columns unless layer; params { layer -> columns * rows { owns: "zigzag" } }')):
        yield Construct(name, TWO_LOOPS + f"layout split on plane {{ {rules} }}", two_loops, {"x": (4, 6)}, shapes)
    yield Construct("single elements of a split dim, and what is computed of two", """
dim wide = 6, layer = 5
model Select {
  input x : real[wide]
  param w, v : real[layer, wide] = ones
  ends  = w[layer = 0] * w[layer = 4] - v[layer = 2]
  loss = sum[wide](x * ends ^ 2) + sum[layer, wide](w * v * real(position[layer]))
  minimize loss with sgd(lr: 0.1)
}
layout split on plane { layer -> rows * columns }""", selected, {"x": (6,)}, {"w": (5, 6), "v": (5, 6)})
    yield Construct("a loop that begins anew in every turn of another, from what was made before both", """
dim batch = 4, wide = 6, outer = 3, inner = 2
model Anew {
  input x : real[batch, wide]
  param w : real[wide] = ones
  start = tanh(x * w)
  total = 0.0 * x
  repeat outer {
    h = start
    repeat inner {
      h = sin(h) + 1
    }
    total = total + h * real(position[outer] + 1)
  }
  loss = mean[batch, wide](total)
  minimize loss with sgd(lr: 0.1)
}
layout split on plane { batch -> rows; wide -> columns }
""", lambda v: {"total": 6 * (np.sin(np.sin(np.tanh(v.x * v.w)) + 1) + 1)}, {"x": (4, 6)}, {"w": (6,)})
    yield Construct("a manual region in a loop, over both axes", """
dim batch = 4, wide = 6, to = wide, layer = 3
model Manual {
  input x : real[batch, wide]
  h = x
  repeat layer {
    param w : real[wide, to] = ones
    manual batch over rows, wide over columns {
      part = dot[wide](h, w)
      y    = all_reduce(part, over: columns)
    }
    h = tanh(y)[to as wide]
  }
  manual batch over rows {
    total = all_reduce(sum[batch, wide](h ^ 2), over: rows)
  }
  loss = total / size[batch]
  minimize loss with sgd(lr: 0.1)
}
layout split on plane { batch -> rows; wide -> columns unless batch }
""", manual, {"x": (4, 6)}, {"layer.w": (3, 6, 6)})
    yield Construct("values that have the loop's dim themselves", """
dim batch = 4, turn = 3
model Own {
  input x : real[batch, turn]
  param w : real[batch, turn] = ones
  h = sum[turn](x * w)
  repeat turn {
    y = tanh(x * broadcast[turn](h) * w)
    h = sin(h) + mean[turn](y * y)
  }
  loss = mean[batch](h)
  minimize loss with sgd(lr: 0.1)
}
layout split on plane { batch -> rows }
""", own_dim, {"x": (4, 3)}, {"w": (4, 3)})
    yield Construct("names of a body for what was made before it, each fetched with all turns", """
dim batch = 4, wide = 6, outer = 3, inner = 2
model Same {
  input x : real[batch, wide]
  h = x
  repeat outer {
    same = x
    turned : real[wide, batch] = x
    g = h * 0.5
    repeat inner {
      one = g
      h = h + one
    }
  }
  loss = mean[batch, wide](h)
}
layout split on plane { batch -> rows; wide -> columns }
""", lambda v: {"outer.same": np.stack([v.x] * 3), "outer.turned": np.stack([v.x.T] * 3), "outer.inner.one": np.stack([[v.x * 2**i / 2] * 2 for i in range(3)])}, {"x": (4, 6)})
    yield Construct("a sum that begins with a number, of terms that each rank has a part of", """
dim batch = 8, wide = 6, turn = 3
model Begun {
  input x : real[batch, wide]
  param w : real[turn, wide] = ones
  s : real[wide] = 5.0
  total = 2.0
  repeat turn {
    s     = s + sum[batch](x)
    total = total + sum[batch, wide](x ^ 2)
  }
  loss = mean[wide](s * sum[turn](w)) + total
  minimize loss with sgd(lr: 0.1)
}
layout split on plane { batch -> rows; wide -> columns }
layout rows on plane { batch -> rows * columns }
""", lambda v: {"s": 5 + 3 * v.x.sum(0), "total": 2 + 3 * (v.x**2).sum(), "loss": ((5 + 3 * v.x.sum(0)) * v.w.sum(0)).mean() + 2 + 3 * (v.x**2).sum(),
                "grad(w)": np.stack([(5 + 3 * v.x.sum(0)) / 6] * 3)}, {"x": (8, 6)}, {"w": (3, 6)}, layouts=("split", "rows"))
    yield Construct("a power iteration: `until`, and a `collect` of fewer turns", """
dim row = 6, col = row, sweep = 50
model Power {
  input a : f64[row, col]
  near = a + 6 * where(position[row] == position[col], f64(1), 0)
  v : f64[col] = ones
  gap : f64 = 1.0
  top : f64 = 0.0
  turns = 0
  repeat sweep until gap < 1e-3 {
    w    = dot[col](near, v)
    norm = sqrt(dot[row](w, w))
    gap  = abs(norm - top) / norm
    top  = norm
    v    = (w / norm)[row as col]
    turns = position[sweep] + 1
  }
  tops = collect[sweep](top)
  output v, top, turns, tops
}
layout split on plane { row -> rows; col -> columns }""", power, {"a": (6, 6)})
    yield Construct("`until` in a loop inside another, its condition of the outer one's values", """
dim wide = 6, outer_turn = 3, turn = 4
model Stepped {
  input x : real[wide]
  h = x
  total = 0
  repeat outer_turn {
    made = 0
    repeat turn until max[wide](h) < 0.6 + 0.2 * real(position[outer_turn]) {
      h = h * 0.5 + 0.1 * real(position[outer_turn] + position[turn])
      made = position[turn] + 1
    }
    total = total + sum[wide](h)
  }
  count = collect[outer_turn](made)
  output h, total, count
}
layout split on plane { wide -> rows * columns }""", stepped, {"x": (6,)})
