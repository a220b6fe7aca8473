"""Arithmetic, functions of one number, comparisons, casts."""
import numpy as np

from . import reference as r
from .case import Case

AB = {"p1": "a b"}
TWO = {"p1": "a b", "p2": "a b"}

UNARY = {
    "exp(p1)": (np.exp, False), "log(p1)": (np.log, True), "sqrt(p1)": (np.sqrt, True), "rsqrt(p1)": (lambda x: 1 / np.sqrt(x), True),
    "tanh(p1)": (np.tanh, False), "sigmoid(p1)": (r.sigmoid, False), "relu(p1)": (r.relu, False), "gelu(p1)": (r.gelu, False),
    "gelu_tanh(p1)": (r.gelu_tanh, False), "silu(p1)": (lambda x: x * r.sigmoid(x), False), "sin(p1)": (np.sin, False),
    "log1p(p1)": (np.log1p, True), "log1p(p1 / 4)": (lambda x: np.log1p(x / 4), False), "expm1(p1)": (np.expm1, False),
    "softplus(p1)": (lambda x: np.logaddexp(0, x), False), "softplus(p1 * 60)": (lambda x: np.logaddexp(0, x * 60), False),
    "sign(p1) * p1": (np.abs, False), "round(p1 * 3)": (lambda x: np.round(x * 3), False),
    "elu(p1)": (lambda x: np.where(x > 0, x, np.expm1(x)), False), "elu(p1 * 50, alpha: 0.3)": (lambda x: np.where(x > 0, x * 50, np.longdouble(0.3) * np.expm1(x * 50)), False),
    "leaky_relu(p1)": (lambda x: np.where(x > 0, x, x * np.longdouble(0.01)), False), "leaky_relu(p1, slope: 0.25)": (lambda x: np.where(x > 0, x, x / 4), False),
    "cos(p1)": (np.cos, False), "abs(p1)": (np.abs, False), "-p1": (lambda x: -x, False), "p1 ^ 2": (lambda x: x**2, False),
    "p1 ^ 0.5": (np.sqrt, True), "p1 ^ -1": (lambda x: 1 / x, False), "p1 ^ 3": (lambda x: x**3, False),
    "p1 ^ 1.5": (lambda x: x ** np.longdouble(1.5), True), "p1 ^ 1": (lambda x: x, False), "p1 ^ 0": (lambda x: x**0, False),
    "2 ^ p1": (lambda x: np.longdouble(2) ** x, False), "p1 + 1.5": (lambda x: x + 1.5, False), "1.5 - p1": (lambda x: 1.5 - x, False),
    "p1 * size[b]": (lambda x: x * 4, False), "2 / p1": (lambda x: 2 / x, False), "p1 / size[c]": (lambda x: x / 5, False),
    "p1 % 0.75": (lambda x: x % np.longdouble(0.75), True), "max(p1, 0.5)": (lambda x: np.maximum(x, 0.5), False),
    "min(0.5, p1)": (lambda x: np.minimum(0.5, x), False), "p1 - p1 * p1": (lambda x: x - x * x, False),
    "f32(p1) * 3": (lambda x: x * 3, False), "real(p1)": (lambda x: x, False),
    "p1 / (1 + exp(-p1)) + tanh(p1 ^ 2) * 0.5": (lambda x: x / (1 + np.exp(-x)) + np.tanh(x * x) * 0.5, False),
    "2 * size[a] ^ 2 / sqrt(4.0) * p1": (lambda x: 9 * x, False),
    "p1 + f32(i32(p1 * 3))": (lambda x: x + np.trunc(x * 3), False),
}
BINARY = {
    "+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y, "/": lambda x, y: x / y,
}


def cases():
    for text, (forward, positive) in UNARY.items():
        yield Case(text, f"y = {text}", AB, "a b", lambda v, f=forward: f(v.p1), positive=positive)
    for sign, f in BINARY.items():
        yield Case(f"same dims {sign}", f"y = p1 {sign} p2", TWO, "a b", lambda v, f=f: f(v.p1, v.p2))
        yield Case(f"right is broadcast {sign}", f"y = p1 {sign} p2", {"p1": "a b c", "p2": "b"}, "a b c", lambda v, f=f: f(v.p1, v.p2[:, None]))
        yield Case(f"left is broadcast {sign}", f"y = p2 {sign} p1", {"p1": "a b c", "p2": "c a"}, "a b c", lambda v, f=f: f(v.p2.T[:, None, :], v.p1))
        yield Case(f"a number of the model {sign}", f"y = p1 {sign} p2", {"p1": "a b", "p2": ""}, "a b", lambda v, f=f: f(v.p1, v.p2))
        yield Case(f"other order {sign}", f"y = p1 {sign} p2", {"p1": "a b", "p2": "b a"}, "a b", lambda v, f=f: f(v.p1, v.p2.T))
        yield Case(f"two numbers {sign}", f"y = p1 {sign} p2", {"p1": "", "p2": ""}, "", lambda v, f=f: f(v.p1, v.p2))
    yield Case("p1 ^ p2", "y = p1 ^ p2", TWO, "a b", lambda v: v.p1**v.p2, positive=True)
    yield Case("p1 ^ p2, broadcast", "y = p1 ^ p2", {"p1": "a b", "p2": "b"}, "a b", lambda v: v.p1**v.p2, positive=True)
    yield Case("p1 % p2", "y = p1 % p2", TWO, "a b", lambda v: v.p1 % v.p2, positive=True)
    yield Case("p1 % p2, of either sign", "y = p1 % p2", TWO, "a b", lambda v: np.fmod(v.p1, v.p2))
    yield Case("sigmoid_cross_entropy", "y = sigmoid_cross_entropy(p1, p2)", TWO, "a b", lambda v: np.logaddexp(0, v.p1) - v.p1 * v.p2)
    yield Case("sigmoid_cross_entropy of large logits", "y = sigmoid_cross_entropy(p1 * 60, p2)", {"p1": "a b", "p2": "b"}, "a b",
               lambda v: v.p2 * np.logaddexp(0, -60 * v.p1) + (1 - v.p2) * np.logaddexp(0, 60 * v.p1))
    yield Case("sigmoid_cross_entropy of bools", "y = sigmoid_cross_entropy(p1, k1)", AB, "a b", lambda v: np.logaddexp(0, v.p1) - v.p1 * v.k1, inputs={"k1": "bool a b"})
    yield Case("max of two", "y = max(p1, p2)", TWO, "a b", lambda v: np.maximum(v.p1, v.p2))
    yield Case("min of two", "y = min(p1, p2)", TWO, "a b", lambda v: np.minimum(v.p1, v.p2))
    yield Case("max, broadcast", "y = max(p2, p1)", {"p1": "a b", "p2": "a"}, "a b", lambda v: np.maximum(v.p2[:, None], v.p1))
    yield from comparisons()
    yield from integers()


def comparisons():
    for sign, f in {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal}.items():
        yield Case(f"p1 {sign} p2, both ways broadcast", f"c1 = p1 {sign} p2\nc2 = i32(k1) {sign} position[b]\ny = where(c1, p3, 0) + where(c2, p4, p3)",
                   {"p1": "a", "p2": "b", "p3": "a b", "p4": "a b"}, "a b",
                   lambda v, f=f: {"c1": f(v.p1[:, None], v.p2), "c2": f(v.k1[:, None], np.arange(4)),
                                   "y": np.where(f(v.p1[:, None], v.p2), v.p3, 0) + np.where(f(v.k1[:, None], np.arange(4)), v.p4, v.p3)},
                   inputs={"k1": "index(c) a"})
    yield Case("and or not", "c1 = k1 and not k2 or k3\nc2 = not (k1 or k2) and k3\ny = where(c1, p1, p2) * where(c2, 2, p1)", TWO, "a b",
               lambda v: {"c1": v.k1 & ~v.k2 | v.k3, "c2": ~(v.k1 | v.k2) & v.k3, "y": np.where(v.k1 & ~v.k2 | v.k3, v.p1, v.p2) * np.where(~(v.k1 | v.k2) & v.k3, 2, v.p1)},
               inputs={"k1": "bool a b", "k2": "bool a b", "k3": "bool a b"})
    yield Case("and, broadcast both ways", "c1 = k1 and k2\ny = where(c1, p1, p2)", {"p1": "a b", "p2": "b"}, "a b",
               lambda v: {"c1": v.k1[:, None] & v.k2, "y": np.where(v.k1[:, None] & v.k2, v.p1, v.p2)}, inputs={"k1": "bool a", "k2": "bool b"})
    yield Case("where of literals", "y = where(k1, 1, 0.25) * p1", AB, "a b", lambda v: np.where(v.k1, 1, 0.25) * v.p1, inputs={"k1": "bool a b"})
    yield Case("where of numbers takes an integer's type", "i1 = k2 + where(k1, size[b], -where(p1 > 0, 2, 0) * 3)\ny = p1 * real(i1)", {"p1": "a"}, "a",
               lambda v: {"i1": v.k2 + np.where(v.k1, 4, np.where(v.p1 > 0, -6, 0)), "y": v.p1 * (v.k2 + np.where(v.k1, 4, np.where(v.p1 > 0, -6, 0)))}, inputs={"k1": "bool a", "k2": "i32 a"})
    yield Case("where of numbers keeps the digits of f64", "y = p1 + real((f64(k2) * 0 + where(k1, 0.1, 0.2) - where(k1, f64(0.1), f64(0.2))) * 1e9)", {"p1": "a"}, "a",
               lambda v: v.p1, inputs={"k1": "bool a", "k2": "i32 a"})
    yield Case("where, condition is smaller", "y = where(k1, p1, p2)", TWO, "a b", lambda v: np.where(v.k1[:, None], v.p1, v.p2), inputs={"k1": "bool a"})
    yield Case("where of numbers of the model", "y = where(k1, p1, p2)", {"p1": "", "p2": "b"}, "b", lambda v: np.where(v.k1, v.p1, v.p2), inputs={"k1": "bool b"})
    yield Case("true and false", "y = where(p1 > 0 or false, p1, where(true, p1 * 3, 1))", AB, "a b", lambda v: np.where(v.p1 > 0, v.p1, v.p1 * 3))


def integers():
    yield Case("position and size", "i1 = position[a] * 2 + size[b]\ny = p1 * f32(i1) + f32(position[b]) / size[b]", AB, "a b",
               lambda v: {"i1": np.arange(3) * 2 + 4, "y": v.p1 * (np.arange(3) * 2 + 4)[:, None] + np.arange(4) / np.longdouble(4)})
    yield Case("integers", "i1 = i32(k1) % 2 + k2 * 3 - position[a]\ni2 = min(k2, 4) + max(k2, 2)\ny = p1 * f32(i1 + i2)", {"p1": "a"}, "a",
               lambda v: {"i1": v.k1 % 2 + v.k2 * 3 - np.arange(3), "i2": np.minimum(v.k2, 4) + np.maximum(v.k2, 2),
                          "y": v.p1 * (v.k1 % 2 + v.k2 * 3 - np.arange(3) + np.minimum(v.k2, 4) + np.maximum(v.k2, 2))}, inputs={"k1": "index(c) a", "k2": "i32 a"})
    yield Case("casts of bool, u8, i64", "i1 = i32(k1)\ni2 = f32(k2) / 2\ni3 = i32(k3) + 1\ny = p1 * f32(k1) + i2 * f32(i3)", {"p1": "a"}, "a",
               lambda v: {"i1": v.k1.astype(int), "i2": v.k2 / 2, "i3": v.k3 + 1, "y": v.p1 * v.k1 + v.k2 / np.longdouble(2) * (v.k3 + 1)},
               inputs={"k1": "bool a", "k2": "u8 a", "k3": "i64 a"})
    yield Case("a cast to an index", "i1 = index(c)((i32(k1) + 1) % 5)\ny = take[c](p1, i1)", {"p1": "c"}, "a",
               lambda v: {"i1": (v.k1 + 1) % 5, "y": v.p1[(v.k1 + 1) % 5]}, inputs={"k1": "index(c) a"})
    yield Case("sum and mean of bool", "y = sum[b](p1 > 0.25) * p2 + mean[b](p1 > 0.25)", {"p1": "a b", "p2": "a"}, "a",
               lambda v: (v.p1 > 0.25).sum(1) * v.p2 + (v.p1 > 0.25).sum(1) / np.longdouble(4))
    yield Case("stop_gradient", "y = stop_gradient(p1) * p1 + stop_gradient(exp(p1))", AB, "a b", lambda v: v.base.p1 * v.p1 + np.exp(v.base.p1))
