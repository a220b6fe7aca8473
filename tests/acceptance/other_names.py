"""How to write here what other libraries have (`meshc ops --json`, "elsewhere"), against NumPy at hard points: values and gradients."""
import json
import os
import re

import numpy as np

from common import meshc
from common import run as execute
from helps import diagnostics_of
from oracle import safetensors

# Where careless formulas lose digits, overflow or divide by 0.
HARD = np.array([100, -100, 1e-10, -1e-10, 50, -50, 0.25, -2.5])
ROWS = np.stack([HARD, np.roll(HARD, 3) * 0.5, HARD[::-1] / 3])
SIZES = {"d": 8, "row": 3, "e": 4, "other": 5, "heads": 8, "kv": 2, "group": 4, "a": 3, "b": 3, "two": 2, "three": 3, "half": 4, "c": 6}
F64, F32 = 1e-12, 3e-5  # f32: an argument of 100 is rounded by 4e-6, and its exponential relatively by as much


def softplus(x):
    return np.logaddexp(np.longdouble(0), x)


def one(text, operands, expected, extra=""):
    return text, (operands, expected, extra)


X, XY = {"x": "row d"}, {"x": "row d", "y": "row d"}
NEAR = {"x": "row d small"}
POSITIVE = {"x": "row d positive"}
PROBABLE = {"p": "row d share"}
# What a proposal computes: operands with their dims, and NumPy on them.
PROPOSALS = dict([
    one("dot[d](x, w)", {"x": "row d small", "w": "d e small"}, lambda v: v["x"] @ v["w"]),
    one("x[a as b]", {"x": "a"}, lambda v: v["x"]),
    one("x[heads as kv * group]", {"x": "row heads"}, lambda v: v["x"].reshape(3, 2, 4)),
    one("x[kv * group as heads]", {"x": "kv group"}, lambda v: v["x"].reshape(8)),
    one("broadcast[d](x)", {"x": "row"}, lambda v: np.broadcast_to(v["x"][:, None], (3, 8))),
    one("mean[d]((x - mean[d](x)) ^ 2)", X, lambda v: np.var(v["x"], 1)),
    one("sqrt(mean[d]((x - mean[d](x)) ^ 2))", X, lambda v: np.std(v["x"], 1)),
    one("f32(x)", X, lambda v: v["x"]),
    one("i32(x)", {"x": "row d plain"}, lambda v: v["x"].astype(np.int32)),
    one("real(x)", X, lambda v: v["x"]),
    one("min(max(x, low), high)", X, lambda v: np.clip(v["x"], -1.5, 2), "const low = -1.5, high = 2"),
    one("sqrt(sum[d](x ^ 2))", X, lambda v: np.linalg.norm(v["x"].astype(np.float64), axis=1)),
    one("max[d](f32(k)) > 0", {"k": "bool row d"}, lambda v: v["k"].any(1)),
    one("min[d](f32(k)) > 0", {"k": "bool row d"}, lambda v: v["k"].all(1)),
    one("concat[a + b as c](x, y)", {"x": "a", "y": "b"}, lambda v: np.concatenate([v["x"], v["y"]])),
    one("stack[two](x, y)", XY, lambda v: np.stack([v["x"], v["y"]], -1)),
    one("take[d](table, i)", {"table": "d e", "i": "index(d) row"}, lambda v: v["table"][v["i"]]),
    one("take[d](x, i)", {"x": "row d", "i": "index(d) row"}, lambda v: np.take_along_axis(v["x"], v["i"][:, None], 1)[:, 0]),
    one("scatter_add[a as d](x, i)", {"x": "a", "i": "index(d) a"}, lambda v: np.bincount(v["i"], v["x"].astype(np.float64), minlength=8)),
    one("scatter_add[a as d](1, i)", {"i": "index(d) a"}, lambda v: np.bincount(v["i"], minlength=8)),
    one('conv[d: three](x, w, pad: "same")', {"x": "row d small", "w": "three small"}, lambda v: sum(np.pad(v["x"], ((0, 0), (1, 1)))[:, k:k + 8] * v["w"][k] for k in range(3))),
    one("max_pool[d: 2 stride 2 as half](x)", X, lambda v: v["x"].reshape(3, 4, 2).max(2)),
    one("avg_pool[d: 2 stride 2 as half](x)", {"x": "row d small"}, lambda v: v["x"].reshape(3, 4, 2).mean(2)),
    one("where(k, x, y)", {"k": "bool row d", **XY}, lambda v: np.where(v["k"], v["x"], v["y"])),
    one("sigmoid_cross_entropy(x, p)", {**X, **PROBABLE}, lambda v: v["p"] * softplus(-v["x"]) + (1 - v["p"]) * softplus(v["x"])),
    one("mean[d]((x - y) ^ 2)", XY, lambda v: ((v["x"] - v["y"]) ** 2).mean(1)),
    one("mean[d](abs(x - y))", XY, lambda v: np.abs(v["x"] - v["y"]).mean(1)),
    one("position[d]", {}, lambda v: np.arange(8)),
    one("max(x, y)", XY, lambda v: np.maximum(v["x"], v["y"])),
    one("min(x, y)", XY, lambda v: np.minimum(v["x"], v["y"])),
    one("x ^ y", {"x": "row d positive", "y": "row d plain"}, lambda v: np.power(v["x"], v["y"])),
    one("x ^ 2", X, lambda v: np.square(v["x"])),
    one("1 / x", X, lambda v: np.reciprocal(v["x"])),
    one("x % y", XY, lambda v: np.fmod(v["x"], v["y"])),
    one("x - floor(x / y) * y", {"x": "row d plain", "y": "row d fair"}, lambda v: np.mod(v["x"], v["y"])),
    one("argmax[d](-x)", X, lambda v: np.argmin(v["x"], 1)),
    one("least, order = top_k[d](-x)", X, lambda v: {"order": np.argsort(v["x"], 1, kind="stable")}),
    one("sort[d](x)[d = size[d] / 2]", X, lambda v: np.sort(v["x"], 1)[:, 4]),
    one("-floor(-x)", X, lambda v: np.ceil(v["x"])),
    one("sign(x) * floor(abs(x))", X, lambda v: np.trunc(v["x"])),
    one("sin(x) / cos(x)", X, lambda v: np.tan(v["x"])),
    one("(expm1(x) - expm1(-x)) / 2", NEAR, lambda v: np.sinh(v["x"])),
    one("(exp(x) + exp(-x)) / 2", NEAR, lambda v: np.cosh(v["x"])),
    one("sin(x) / x", X, lambda v: np.sinc(v["x"] / np.longdouble(np.pi))),
    one("1.0507009873554805 * elu(x, alpha: 1.6732632423543772)", X,
        lambda v: np.longdouble("1.0507009873554805") * np.where(v["x"] > 0, v["x"], np.longdouble("1.6732632423543772") * np.expm1(np.minimum(v["x"], 0)))),
    one("elu(x)", X, lambda v: np.where(v["x"] > 0, v["x"], np.expm1(np.minimum(v["x"], 0)))),
    one("where(x > 0, x, a * x)", {**X, "a": ""}, lambda v: np.where(v["x"] > 0, v["x"], v["a"] * v["x"])),
    one("x * sigmoid(y)", XY, lambda v: v["x"] * np.exp(-softplus(-v["y"]))),
    one("silu(x) * y", XY, lambda v: v["x"] * np.exp(-softplus(-v["x"])) * v["y"]),
    one("gelu(x) * y", {"x": "row d plain", "y": "row d"}, None),  # the tables of ops compare gelu
    one("softmax[d](-x)", X, lambda v: np.exp(-v["x"] + v["x"].min(1, keepdims=True)) / np.exp(-v["x"] + v["x"].min(1, keepdims=True)).sum(1, keepdims=True)),
    one("log(p) - log1p(-p)", PROBABLE, lambda v: np.log(v["p"]) - np.log1p(-v["p"])),
    one("2 ^ x", NEAR, lambda v: np.exp2(v["x"])),
    one("log(x) / log(2)", POSITIVE, lambda v: np.log2(v["x"])),
    one("log(x) / log(10)", POSITIVE, lambda v: np.log10(v["x"])),
    one("max(x, y) + log1p(exp(-abs(x - y)))", XY, lambda v: np.logaddexp(v["x"], v["y"])),
    one("-softplus(-x)", X, lambda v: -softplus(-v["x"])),
    one("silu(x)", X, lambda v: v["x"] * np.exp(-softplus(-v["x"]))),
    one("x * tanh(softplus(x))", X, lambda v: v["x"] * np.tanh(softplus(v["x"]))),
    one("min(relu(x), 6)", X, lambda v: np.clip(v["x"], 0, 6)),
    one("x != x", X, lambda v: np.isnan(v["x"])),
    one("cross_entropy[d](x, i)", {"x": "row d plain", "i": "index(d) row"},
        lambda v: np.log(np.exp(v["x"] - v["x"].max(1, keepdims=True)).sum(1)) + v["x"].max(1) - np.take_along_axis(v["x"], v["i"][:, None], 1)[:, 0]),
    one("mean[d]((x - mean[d](x)) * (y - mean[d](y)))", XY, lambda v: ((v["x"] - v["x"].mean(1, keepdims=True)) * (v["y"] - v["y"].mean(1, keepdims=True))).mean(1)),
    one("max[d](f32(x == y)) > 0", {"x": "row", "y": "d"}, lambda v: np.isin(v["x"], v["y"])),
    one("leaky_relu(x)", X, lambda v: np.where(v["x"] > 0, v["x"], v["x"] * np.longdouble("0.01"))),
    one("0", {}, None),
    one("1", {}, None),
])
# In backticks, but no expression: a name, a command, a declaration that others of these tests run.
WORDS = {"real[a, b]", "mask", "meshc ops mask", "minimize", "sigmoid", "sin", "cos", "tanh", "erf", "order", "silu", "d", "k", "x", "y", "i", "a", "import std.nn",
         "layer_norm", "rms_norm", "batch_norm", "group_norm", "instance_norm", "three", "meshc ops conv", "linear", "feed_forward", "sinusoid",
         "all_reduce", "reduce_scatter", "permute", "coordinate", "manual"}


def array(dims, sizes, dice):
    kind = dims.split()[0] if dims.split() and dims.split()[0] not in sizes else ""
    word = dims.split()[-1] if dims.split() and dims.split()[-1] not in sizes else ""
    shape = tuple(sizes[d] for d in dims.split() if d in sizes)
    if kind.startswith("index"):
        return dice.integers(0, sizes[kind[6:-1]], shape).astype(np.int32)
    if kind == "bool":
        return dice.random(shape) < 0.5
    count = int(np.prod(shape))
    values = np.resize(np.roll(ROWS, dice.integers(8), axis=1), count).reshape(shape) if shape else np.array(0.25)
    if word == "small":
        values = np.where(np.abs(values) > 10, values / 10, values)
    if word == "plain":
        values = dice.permutation(np.arange(count) * 0.3 - 1.05).reshape(shape)
    if word == "fair":
        values = dice.permutation(np.arange(count) * 0.231 + 0.413).reshape(shape)
    if word == "positive":
        values = np.abs(values)
    if word == "share":
        values = 1 / (1 + np.exp(-np.clip(values, -5, 5) - 0.7))
    return values.astype(np.float32).astype(np.float64)


def elementwise_error(got, expected):
    """The largest difference, each relative to its own element: none may lose its digits beside a large one."""
    got, expected = np.asarray(got, np.longdouble), np.asarray(expected, np.longdouble)
    if got.shape != expected.shape or not np.isfinite(got).all():
        return float("inf")
    return float((np.abs(got - expected) / np.maximum(np.abs(expected), 1e-30)).max(initial=0))


def check_proposal(report, text, folder):
    operands, expected, extra = PROPOSALS[text]
    dice = np.random.default_rng(5)
    arrays = {name: array(dims, SIZES, dice) for name, dims in operands.items()}
    lines = ["dim " + ", ".join(f"{name} = {size}" for name, size in SIZES.items()), extra, "model M {", "  input unused : real[row]"]
    floats = [name for name, value in arrays.items() if value.dtype.kind == "f"]
    for name, dims in operands.items():
        kind = dims.split()[0] if arrays[name].dtype.kind != "f" else "real"
        slots = ", ".join(d for d in dims.split() if d in SIZES)
        lines.append(f"  {'param' if name in floats else 'input'} {name} : {kind}" + (f"[{slots}]" if slots else "") + (" = zeros" if name in floats else ""))
    statement = re.match(r"[\w, ]+ = ", text)
    lines += ["  " + (text if statement else f"result = {text}"), "  whole = result * 1" if text in ("0", "1") else ""]
    given = expected({name: value.astype(np.longdouble) if value.dtype.kind == "f" else value for name, value in arrays.items()}) if expected else None
    wanted = given if isinstance(given, dict) else {"result": given}
    differentiable = floats and not statement and (given is None or np.asarray(given).dtype.kind == "f")
    spec = f"{folder}/spec.mesh"
    if differentiable:
        shape = np.asarray(given).shape if given is not None else (3, 8)
        lines += [f"  total = mean[{', '.join(dims_of(text, operands, shape))}](result)" if shape else "  total = result", "  minimize total with sgd(lr: 0.1)"]
    with open(spec, "w") as file:
        file.write("\n".join([*lines, "}", ""]))
    safetensors.write(f"{folder}/params.safetensors", {name: arrays[name] for name in floats})
    np.save(f"{folder}/unused.npy", np.zeros(3))
    feeds = ["--feed", f"unused={folder}/unused.npy"]
    for name, value in arrays.items():
        if name not in floats:
            np.save(f"{folder}/{name}.npy", value)
            feeds += ["--feed", f"{name}={folder}/{name}.npy"]
    if floats:
        feeds += ["--params", f"{folder}/params.safetensors"]
    worst = {}
    for precision in ("f64", "f32"):
        out = f"{folder}/{precision}"
        names = [name for name in wanted if text not in ("0", "1")] or ["whole"]
        execute(meshc(), "fetch", spec, *names, *(["grad(**)"] if differentiable else []), *feeds, "--precision", precision, "--out", out)
        got = {file[:-4]: np.load(os.path.join(out, file)) for file in os.listdir(out)}
        errors = [elementwise_error(got[name], value) for name, value in wanted.items() if value is not None]
        errors += [0.0 if np.isfinite(value).all() else float("inf") for name, value in got.items() if name.startswith("grad(")]
        worst[precision] = max(errors, default=0.0)
    report.check(f"`{text}`", f"{worst['f64']:.1e}, f32 {worst['f32']:.1e}", f"{F64}, {F32}", worst["f64"] <= F64 and worst["f32"] <= F32)


def dims_of(text, operands, shape):
    """The dims of a proposal's result, from its operands' in order."""
    seen = dict.fromkeys(d for dims in operands.values() for d in dims.split() if d in SIZES)
    named = re.match(r"x\[\S+ as (.*)\]|x\[kv \* group as (heads)\]|concat\[.* as (\w+)\]", text)
    if text == "x[heads as kv * group]":
        return ["row", "kv", "group"]
    if text == "stack[two](x, y)":
        return ["row", "d", "two"]
    if text == "broadcast[d](x)":
        return ["row", "d"]
    if text == "x[kv * group as heads]":
        return ["heads"]
    if text.startswith("scatter_add[a as d]"):
        return ["d"]
    if "pool[" in text:
        return ["row", "half"]
    if named:
        return [next(one for one in named.groups() if one)]
    return {(3, 8): ["row", "d"], (3,): ["row"], (3, 4): ["row", "e"]}.get(shape) or list(seen)


def check_elsewhere(report, folder):
    elsewhere = json.loads(execute(meshc(), "ops", "--json").stdout)["elsewhere"]
    proposed = {code for text in elsewhere.values() for code in re.findall(r"`([^`]+)`", text)} - WORDS
    report.true("every line for what other libraries have is run", proposed == set(PROPOSALS), f"not run {sorted(proposed - set(PROPOSALS))}, not proposed {sorted(set(PROPOSALS) - proposed)}")
    for text in sorted(proposed & set(PROPOSALS)):
        report.attempt(f"`{text}`", lambda text=text: check_proposal(report, text, folder))
    return elsewhere


# Functions of NumPy and PyTorch for which another name of the language is right: the same function.
SAME = {"amax": "max", "amin": "min", "average": "mean", "around": "round", "broadcast_to": "broadcast", "fabs": "abs", "fliplr": "flip", "flipud": "flip", "fmax": "max", "fmin": "min",
        "nanargmax": "argmax", "nancumsum": "cumsum", "msort": "sort", "vdot": "dot", "dstack": "stack", "hstack": "stack", "vstack": "stack"}
OF_TORCH = ["elu", "selu", "celu", "prelu", "rrelu", "glu", "swiglu", "geglu", "mish", "softsign", "softmin", "softshrink", "hardtanh", "hardswish", "relu6", "leaky_relu", "logsigmoid",
            "tanhshrink", "threshold", "gumbel_softmax", "erfc", "erfinv", "logit", "sinc", "lgamma", "digamma", "cumprod", "cummax", "cummin", "argsort", "topk", "gather", "scatter",
            "index_select", "masked_fill", "bce", "bce_with_logits", "nll_loss", "mse_loss", "l1_loss", "kl_div", "conv1d", "conv2d", "max_pool2d", "unfold", "pad", "roll", "flip", "clamp",
            "lerp", "rsqrt", "frac", "trunc", "atan2", "asinh", "acosh", "atanh", "std", "var", "prod", "norm", "dist", "cdist", "outer", "baddbmm", "sigmoid", "log2", "log10", "exp2"]


def check_suggestions(report, folder, elsewhere):
    """No function is proposed for another that NumPy or PyTorch have under this name."""
    names = sorted(({name for name in dir(np) if re.fullmatch(r"[a-z]\w*", name) and callable(getattr(np, name)) and not isinstance(getattr(np, name), type)} | set(OF_TORCH)) - {"repeat"})
    found, wrong = [], []
    for at in range(0, len(names), 8):  # of a file with many errors not all are told
        with open(f"{folder}/names.mesh", "w") as file:
            file.write("dim d = 4\nmodel M {\n  input x : real[d]\n" + "".join(f"  v{i} = {name}(x)\n" for i, name in enumerate(names[at:at + 8])) + "}\n")
        found += diagnostics_of(f"{folder}/names.mesh")
    for one in found:
        label = " ".join(span.get("label") or "" for span in one["spans"])
        name, near = re.search(r"`(\w+)`", one["message"]), re.search(r"did you mean `(\w+)`", label)
        if name and near and near[1].replace("_", "") != name[1].replace("_", "") and SAME.get(name[1]) != near[1]:
            wrong.append(f"{name[1]} -> {near[1]}")
    report.true(f"no function of another library is taken for one of ours ({len(names)} names)", found and not wrong, ", ".join(wrong))
    silent = [name for name in elsewhere if name in names and not any(f"`{name}`" in one["message"] and one["helps"] for one in found)]
    report.true("what has a way here is told", not silent, silent)
