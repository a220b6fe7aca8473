"""Element types, casts, values as initialisers, models and states."""
import numpy as np

from .construct import Construct


def cases():
    def cast(v):
        chosen = (v.u % 5).astype(np.int32)
        return {"a": v.u / 255 + v.i * v.x, "b": v.d, "c": np.trunc(v.x * 10).astype(np.int32) + v.u, "e": v.i.astype(np.int64) * v.l, "f": v.i != 0, "g": chosen,
                "h": (v.k == chosen).astype(float) + v.t + v.k, "m": v.x + v.d, "s": (v.t * (v.i > 0)).sum() / 1.0, "small": (v.u.astype(np.int32) // 1).astype(np.uint8)}

    yield Construct("casts between all element types", """
dim batch = 4, kind = 5
model Casts {
  input u : u8[batch]
  input i : i32[batch]
  input l : i64[batch]
  input x : real[batch]
  input d : f64[batch]
  input k : index(kind)[batch]
  input t : bool[batch]
  a = real(u) / 255 + f32(i) * x
  b : f32[batch] = d
  c = i32(x * 10) + i32(u)
  e = i64(i) * l
  f = bool(i)
  g = index(kind)(i32(u) % 5)
  h = real(k == g) + real(t) + f32(k)
  m = f64(x) + d
  s = sum[batch](t and i > 0)
  small = u8(i32(u))
  output a, b, c, e, f, g, h, m, s, small
}
layout split on plane { batch -> rows * columns }""", cast,
                    {"u": ("u8", 4), "i": ("i4", 4), "l": ("i8", 4), "x": (4,), "d": (4,), "k": ("index", 5, 4), "t": ("bool", 4)})

    def conditions(v):
        keep = np.arange(6) >= np.arange(4)[:, None]
        least = np.where(keep, v.x, np.inf).min(2)
        return {"chosen": np.where(keep, v.x, 2 * v.x), "least": least, "total": np.where(keep, v.x, 0).sum(2), "wide": np.where(keep, v.b, 0)}

    yield Construct("a condition does not turn round what it chooses from", """
dim batch = 5, row = 4, column = 6
model Conditions {
  input x : real[batch, row, column]
  input b : real[column]
  keep   = position[column] >= position[row]
  chosen = where(broadcast[batch](keep), x, 2 * x)
  least  = min[column](mask(x, broadcast[batch](keep)))
  total  = sum[column](mask(x, broadcast[batch](keep)))
  every : bool[row, column] = keep
  wide   = where(every, b, 0)
}
layout split on plane { row -> rows; column -> columns }""", conditions, {"x": (5, 4, 6), "b": (6,)})

    def remainders(v):
        return {"small": (v.n * 0 + 5 - 2 ** 31).astype(np.int32), "nothing": v.n * 0, "rest": np.fmod(v.n, np.where(v.q == 0, 1, v.q)) * (v.q != 0), "of_bytes": v.u % 200}

    yield Construct("remainders of whole numbers, by zero too", """
dim batch = 4, three = 3
model Remainders {
  input n : i32[batch]
  input q : index(three)[batch]
  input u : u8[batch]
  small    = (5 - n + n) + -2147483648
  nothing  = ((n - n) + -2147483648) % (i32(q) * 0 - 1)
  rest     = n % i32(q)
  of_bytes = u % 200
  output small, nothing, rest, of_bytes
}
layout split on plane { batch -> rows * columns }""", remainders, {"n": ("i4", 4), "q": ("index", 3, 4), "u": ("u8", 4)})

    def initial(v):
        y = v.x + 0.25 * -1 - 1
        return {"y": y, "z": np.full(4, 3.0), "c": np.ones(6), "loss": y.sum(), "v": np.ones(6), "w": np.zeros(4), "k": np.full(4, 3, np.int32), "n": np.int32(2),
                "param(p)": np.full((4, 6), 0.25), "param(q)": np.full(6, -1.0), "param(r)": np.full(4, -1.0), "layer.g": np.full((2, 6), 2.5)}

    yield Construct("values as initialisers, of every kind of binding", """
dim a = 4, b = 6, layer = 2
const start = -0.5
model Initial {
  input x : real[a, b]
  v : real[b]  = ones
  w : f64[a]   = zeros
  k : i32[a]   = 3
  t : bool     = true
  n : index(a) = 2
  param p : real[a, b] = 0.25
  param q : real[b]    = start * 2
  param r : real[a]    = -1
  state s : i32[a]     = 7
  state f : bool[b]    = true
  repeat layer {
    param u : real[b] = 2 + 1 / 2
    g = u
  }
  y = x * v + p * q + r
  z = where(t, f64(k) + w, 1.0)
  c = where(f, f32(1), 0)
  loss = sum[a, b](y)
  minimize loss with sgd(lr: 0.1)
}
layout split on plane { a -> rows; b -> columns }""", initial, {"x": (4, 6)})
    pair = """
dim a = 4
block Twice(x : real[a]) -> real[a] { return x * 2 }
model First  { input x : real[a]; y = Twice(x); output y }
model Second { input x : real[a]; y = Twice(Twice(x)); output y }
layout split on plane { a -> rows }"""
    yield Construct("`--model` chooses the first", pair, lambda v: {"y": 2 * v.x}, {"x": (4,)}, options=("--model", "First"))
    yield Construct("`--model` chooses the second", pair, lambda v: {"y": 4 * v.x}, {"x": (4,)}, options=("--model", "Second"))
    yield Construct("indices that are computed beyond their dim", """
dim batch = 16, kind = 4, wide = 6
model Beyond {
  input i : i32[batch]
  param w : real[kind, wide] = normal(std: 1)
  chosen = take[kind](w, index(kind)(i))
  loss = sum[batch, wide](sin(chosen))
  minimize loss with sgd(lr: 0.1)
}
layout split on plane { kind -> rows; wide -> columns }
layout samples on plane { batch -> rows; kind -> columns }""", lambda v: beyond(v.i, v.w), {"i": ("i4", 16)}, {"w": (4, 6)}, layouts=("split", "samples"))
    yield Construct("a state in a loop, read and updated turn by turn", """
dim a = 4, layer = 3
model Moving {
  input x : real[a]
  h = x
  repeat layer {
    state seen : real[a] = ones
    seen <- 0.5 * seen + h
    h = h + seen * real(position[layer] + 1)
  }
  output h
}
layout split on plane { a -> rows * columns }""", lambda v: moving(v.x), {"x": (4,)}, fetch=("--steps", "3"))


def beyond(i, w):
    there = (i >= 0) & (i < len(w))
    chosen = np.where(there[:, None], w[np.where(there, i, 0)], 0)
    gradient = np.zeros_like(w)
    np.add.at(gradient, i[there], np.cos(chosen[there]))
    return {"chosen": chosen, "grad(w)": gradient}


def moving(x):
    seen = np.ones((3, 4))
    for _ in range(3):
        h, after = x, []
        for i in range(3):
            after.append(0.5 * seen[i] + h)
            h = h + seen[i] * (i + 1)
        seen = np.stack(after)
    return {"h": h, "layer.seen": seen}
