"""Sizes, consts, local dims, dim parameters."""
import numpy as np

from .construct import Construct


def cases():
    yield Construct("sizes are exact, consts are folded", """
dim a = 6, b = ceil(1.25 * 7 / 2), c = max(a, 2) / 3, d = floor(7 / 2) * min(2, a), e = (a - 2) ^ 2 / 4
const third = 1 / 3
const many  = 2 * a + third
require b == 5 and c == 2 and d == 6 and e == 4 and not (a == 7 or third * 3 != 1)
model Sizes {
  input x : real[a, b]
  y = third * x + many
  z = x / size[a, b] + sqrt(size[c]) * (many - 1)
  tiny = x * 1e-30 + (2 ^ 3) ^ 0.5 + -2 ^ 2
  output y, z, tiny
}
layout split on plane { a -> rows; b -> columns }""",
                    lambda v: {"y": v.x / 3 + 12 + 1 / 3, "z": v.x / 30 + np.sqrt(2) * (11 + 1 / 3), "tiny": v.x * 1e-30 + np.sqrt(8) - 4}, {"x": (6, 5)})

    constants = """
dim d = 4
const rate = 0.1, shift = 2
require rate <= 1
model Set {
  input x : real[d]
  y = x * rate + shift
  z = where(x > rate, x, shift)
  output y, z
}
layout split on plane { d -> rows }"""
    for rate in ("0", "-3", "2.5e-4", "-2.5e-4"):
        yield Construct(f"`--set` of a const: {rate}", constants, lambda v, rate=float(rate): {"y": v.x * rate + 2, "z": np.where(v.x > rate, v.x, 2)}, {"x": (4,)},
                        options=("--set", f"rate={rate}"))

    yield Construct("a dim is declared anywhere in its block, and a scalar's type may have brackets", """
block tripled(x : real[n], by : real[]) -> real[n] {
  y = sum[three](broadcast[three](x)) * size[three]
  dim two = 2, three = two + 1
  return y * by
}
model Later {
  input x : real[n]
  input s : real[]
  param w : real[] = zeros
  y = tripled(x, s) + w
  t : real[] = sum[n](y)
  output y, t
}
layout split on plane { n -> rows; tripled.three -> columns }
dim n = 4""", lambda v: {"y": 9 * v.x * v.s + v.w, "t": (9 * v.x * v.s + v.w).sum()}, {"x": (4,), "s": ()}, {"w": ()})

    def in_any_order(v):
        u = v.x @ v.f_w.T @ v.f_w * 10 + np.pad(v.x, ((0, 0), (1, 0)))[:, :-1] + 0.5 + 5
        u = u * 1.6 ** 3
        return {"u": u, "loss": u.sum()}

    yield Construct("dims of a block, a model and a loop stand in any order, and need each other and the block's own", """
block Later[d](x : real[..., d]) -> real[..., d] {
  dim most = less + d, less = half * three
  param w : real[less, d] = ones
  dim half = d / 2, three = two + 1, two = half
  dim cell = d edge half - two
  before = x[d as cell][cell - 1][cell as d]
  return dot[less](dot[d](x, w), w) * size[most] + before + rate
}
dim batch = 2, wide = 4
const rate = 0.5
model Any {
  input x : real[batch, wide]
  dim five = four + 1, four = wide
  param f : Later[wide]
  u = f(x) + size[five]
  repeat layer {
    dim whole = part * 2, part = three
    u = u + sum[whole](broadcast[whole](u)) / 10
  }
  dim layer = three, three = five - 2
  loss = sum[batch, wide](u)
  minimize loss with sgd(lr: 0.1)
}
layout split on plane { batch -> rows; Later.less, Any.whole -> columns }""", in_any_order, {"x": (2, 4)}, {"f.w": (6, 4)})

    def folded(v):
        def fold(at, x, w):
            get = lambda name: getattr(v, f"{at}_{name}")
            return (x @ get("inner")) * w + 3 * get("scale").sum(), x.mean(0) + get("last").sum() / 7
        y, m = fold("f", v.x, v.w)
        z, n = fold("g", v.x * 2, v.v)
        q, r = fold("Fold", v.x, v.w + v.v)
        return {"y": y, "m": m, "z": z, "n": n, "q": q, "r": r, "loss": (y * z).sum() + (m * n + r).sum() + q.sum()}

    owned = {"inner": (6, 4), "scale": (3,), "last": (7,)}
    yield Construct("dims of a block: by order, by name, its own; several results; arguments by name", """
dim batch = 4, one = 6, two = 4
block Fold[from, to](x : real[..., from], w : real[to]) -> (real[..., to], real[from]) {
  dim half = from / 2, more = half + to
  param inner : real[from, to] = ones
  param scale : real[half]     = ones
  param last  : real[more]     = zeros
  y = dot[from](x, inner) * w + size[half] * sum[half](scale)
  return y, mean[...](x) + sum[more](last) / size[more]
}
model Dims {
  input x : real[batch, one]
  input w, v : real[two]
  param f : Fold[one, two]
  param g : Fold[to = two, from = one]
  y, m = f(x, w)
  z, n = g(w: v, x: x * 2)
  q, r = Fold[one, two](x, w + v)
  loss = sum[batch, two](y * z) + sum[one](m * n + r) + sum[batch, two](q)
  minimize loss with sgd(lr: 0.1)
}
layout split on plane { batch -> rows; two -> columns }
layout own on plane { Fold.half -> rows; one, Fold.more -> columns; batch -> rows unless Fold.half, two }""",
                    folded, {"x": (4, 6), "w": (4,), "v": (4,)}, {f"{at}.{name}": shape for at in ("f", "g", "Fold") for name, shape in owned.items()},
                    layouts=("split", "own"))

    def both_halves(v):
        folded = lambda x, gain: (x.reshape(4, 2, -1) * gain).sum(1)
        return {"y": folded(v.x, v.f_gain), "z": folded(v.y0, v.g_gain)}

    yield Construct("one block for two sizes", """
dim batch = 4, wide = 6, high = 10, two = 2, left = wide / two, right = high / two
block Halves[d, to](x : real[..., d]) -> real[..., to] {
  dim half = d / two
  param gain : real[half] = ones
  return sum[two](x[d as two * half] * gain)[half as to]
}
model Sizes {
  input x  : real[batch, wide]
  input y0 : real[batch, high]
  param f : Halves[wide, left]
  param g : Halves[high, right]
  y = f(x)
  z = g(y0)
  output y, z
}
layout split on plane { batch -> rows; left, right -> columns }""", both_halves, {"x": (4, 6), "y0": (4, 10)}, {"f.gain": (3,), "g.gain": (5,)})

    def widened(v):
        keep = lambda x, keep, t: np.where(keep, x[:, :, None], 0.5) * t
        early = np.arange(6)[:, None] >= np.arange(6)
        return {"y": keep(v.x, v.seen[:, None, :], 2), "z": np.broadcast_to(1.5 * v.x[1], (4, 6, 6)), "w": keep(np.broadcast_to(np.arange(6.0), (4, 6)), early, 1)}

    yield Construct("arguments widen to the declared dims", """
dim batch = 4, seq = 6, key = seq
block Keep(x : real[batch, seq], keep : bool[batch, seq, key], t : real[key]) -> real[batch, seq, key] {
  return where(keep, broadcast[key](x), 0.5) * t
}
model Widen {
  input x    : real[batch, seq]
  input seen : bool[batch, key]
  y = Keep(x, seen, 2)
  z = Keep(1.5, true, t: x[seq as key][batch = 1])
  w = Keep(real(position[seq]), position[seq] >= position[key], 1)
  output y, z, w
}
layout split on plane { batch -> rows; seq -> columns }""", widened, {"x": (4, 6), "seen": ("bool", 4, 6)})
