"""Products in bf16 and f16 (`--precision mixed`): against NumPy in f64 on rounded operands; training beside f32 and under layouts; files; bytes of gathers."""
import json
import os
import re

import numpy as np

import equality
from checkpoints import read_file, tensors, write_file
from common import TOP, Report, json_lines, meshc, scratch, sets
from common import run as execute
from oracle import windows
from oracle.narrow import BF16, F16, NARROW_TYPES
from oracle.windows import Window

SEED = 20261125
MIXED = "precision mixed { compute: bf16, params: f32, reduce: f32 }\nprecision half { compute: f16, loss_scale: none }\n"
PRECISION = {"bf16": "mixed", "f16": "half"}
# Both operands as they lie and transposed; the gradient of each is a product too.
PRODUCTS = MIXED + """
dim row = 1, inner = 1, col = 1
model Products {
  input t : real[row, col]
  param a_nn, a_nt : real[row, inner] = zeros
  param a_tn, a_tt : real[inner, row] = zeros
  param b_nn, b_tn : real[inner, col] = zeros
  param b_nt, b_tt : real[col, inner] = zeros
  nn = dot[inner](a_nn, b_nn)
  nt = dot[inner](a_nt, b_nt)
  tn = dot[inner](a_tn, b_tn)
  tt = dot[inner](a_tt, b_tt)
  loss = sum[row, col]((nn + nt + tn + tt) * t)
  minimize loss with sgd(lr: 1)
}
"""
# A convolution, one of each channel by itself, and a transposed one; the gradients of each are convolutions too.
CONVOLUTIONS = MIXED + """
dim b = 3, h = 9, w = 8, h2 = 5, w2 = 9, c = 5, o = 34, ky = 3, kx = 2
model Convolutions {
  input t : real[b, h2, w2, o]
  input s : real[b, h2, w2, c]
  input r : real[b, h, w, c]
  param x, of_each : real[b, h, w, c] = zeros
  param y          : real[b, h2, w2, o] = zeros
  param k, back    : real[ky, kx, c, o] = zeros
  param each       : real[ky, kx, c] = zeros
  dense = conv[h: ky stride 2 as h2, w: kx as w2, c](x, k, pad: 1)
  apart = conv[h: ky stride 2 as h2, w: kx as w2](of_each, each, pad: 1)
  wide  = conv_transpose[h2: ky stride 2 as h, w2: kx as w, o](y, back, pad: 1)
  loss = sum[b, h2, w2, o](dense * t) + sum[b, h2, w2, c](apart * s) + sum[b, h, w, c](wide * r)
  minimize loss with sgd(lr: 1)
}
mesh single { only: 1 }
mesh pair { m: 2 }
layout one on single { }
layout pictures on pair { b -> m }
layout rows on pair { h, h2 -> m }
layout filters on pair { o -> m }
layout channels on pair { c -> m }
"""
# Heads of queries that share those of keys.
ATTENTION = MIXED + """
dim batch = 2, seq = 1, key = seq, kv = 2, group = 3, head_dim = 1, value = 1
model Attends {
  input t : real[batch, seq, kv, group, value]
  param q : real[batch, seq, kv, group, head_dim] = zeros
  param k : real[batch, key, kv, head_dim] = zeros
  param v : real[batch, key, kv, value] = zeros
  score = dot[head_dim](q, k) / sqrt(size[head_dim])
  y = dot[key](softmax[key](MASKED), v)
  loss = sum[batch, seq, kv, group, value](y * t)
  minimize loss with sgd(lr: 1)
}
mesh single { only: 1 }
mesh pair { m: 2 }
layout one on single { }
layout samples on pair { batch -> m }
layout heads on pair { kv -> m }
layout ring on pair { seq -> m; key -> m unless seq }
layout dealt on pair { seq -> m { owns: "zigzag" }; key -> m unless seq { owns: "zigzag" } }
layout numbers on pair { head_dim -> m }
layout values on pair { value -> m }
"""
# By name: how it is written, and which keys a query at distance `d` before it sees.
MASKS = {
    "all": ("score", lambda d: d == d),
    "causal": ("mask(score, position[seq] >= position[key])", lambda d: d >= 0),
    "window": ("mask(score, position[seq] >= position[key] and position[seq] - 5 < position[key])", lambda d: (d >= 0) & (d < 5)),
    "strictly before": ("mask(score, position[seq] > position[key])", lambda d: d > 0),
}
SHAPES = [(1, 1, 1), (7, 2, 1), (37, 301, 23), (64, 256, 96), (5, 1100, 130)]
MORE_SHAPES = [(1, 513, 40), (200, 3, 1), (33, 64, 33), (130, 1030, 37), (16, 2000, 16), (96, 96, 300), (2, 700, 700), (300, 17, 8)]
MORE = MIXED + """
mesh single { only: 1 }
mesh halves { m: 2 }
mesh stages { pipe: 2 }
layout one on single { }
layout thirds on single { batch -> only { accumulate: 3 } }
layout again on halves { batch -> m; layer -> none { remat: "layer" } }
layout staged on stages { layer -> pipe { microbatches: 3, schedule: "1f1b" } }
layout sharded on halves { batch -> m; params { embed -> m } }
"""


class Oracle:
    """The largest errors of products so far: in last places of the type, and relative to the sum of absolute products."""

    def __init__(self, narrow):
        self.narrow = narrow
        self.places = self.relative = self.unlike_f32 = 0.0

    def add(self, got, left, right):
        l, r = self.narrow.round(left).astype(np.float64), self.narrow.round(right).astype(np.float64)
        magnitude = abs(l) @ abs(r)
        error = abs(got - l @ r)
        self.places = max(self.places, np.max(error / self.narrow.last_place(magnitude)))
        self.relative = max(self.relative, np.max(error / np.maximum(magnitude, 2.0**-100)))
        self.unlike_f32 = max(self.unlike_f32, np.max(abs(got - left.astype(np.float64) @ right.astype(np.float64)) / np.maximum(magnitude, 2.0**-100)))


def products(report, folder, random, small, narrow):
    """Every shape: four products forward, eight of gradients."""
    spec = os.path.join(folder, "products.mesh")
    with open(spec, "w") as file:
        file.write(PRODUCTS)
    oracle = Oracle(narrow)
    shapes = SHAPES if small else SHAPES + MORE_SHAPES
    for rows, inner, cols in shapes:
        def numbers(*shape):
            return (random.normal(size=shape) * 10.0 ** random.integers(-2, 3, shape)).astype(np.float32)

        a, b, t = {}, {}, numbers(rows, cols)
        for form in ("nn", "nt", "tn", "tt"):
            a[form], b[form] = numbers(rows, inner), numbers(inner, cols)
        params = {f"a_{form}": x if form[0] == "n" else np.ascontiguousarray(x.T) for form, x in a.items()}
        params |= {f"b_{form}": x if form[1] == "n" else np.ascontiguousarray(x.T) for form, x in b.items()}
        write_file(f"{folder}/params.safetensors", params)
        out = f"{folder}/{rows}-{inner}-{cols}"
        execute(meshc(), "fetch", spec, *a, "grad(**)", "--precision", PRECISION[narrow.name], "--params", f"{folder}/params.safetensors", *equality.feeds(folder, {"t": t}),
                *sets(row=rows, inner=inner, col=cols), "--out", out)
        got = {name[:-4]: np.load(f"{out}/{name}") for name in os.listdir(out)}
        for form in a:
            d_a, d_b = got[f"grad(a_{form})"], got[f"grad(b_{form})"]
            oracle.add(got[form], a[form], b[form])
            oracle.add(d_a if form[0] == "n" else d_a.T, t, b[form].T)
            oracle.add(d_b if form[1] == "n" else d_b.T, a[form].T, t)
    title = f"{narrow.name}: {12 * len(shapes)} products of {len(shapes)} shapes, transposed or not, and gradients"
    report.check(f"{title}: last places of the type of the sum of absolute products from f64", float(f"{oracle.places:.2e}"), 2)
    report.check(f"{title}: the same relative to that sum, as f32 adds up", float(f"{oracle.relative:.1e}"), 1e-6)
    report.true(f"{narrow.name}: products in f32 would be farther from them, so operands are rounded", oracle.unlike_f32 > narrow.step / 4, f"{oracle.unlike_f32:.1e}")


def convolutions(report, folder, random, narrow):
    """Values and gradients against NumPy in f64 on rounded operands, and the layouts."""
    spec = f"{folder}/convolutions.mesh"
    with open(spec, "w") as file:
        file.write(CONVOLUTIONS)
    b, h, w, h2, w2, c, o, ky, kx = 3, 9, 8, 5, 9, 5, 34, 3, 2
    shapes = {"x": (b, h, w, c), "of_each": (b, h, w, c), "y": (b, h2, w2, o), "k": (ky, kx, c, o), "back": (ky, kx, c, o), "each": (ky, kx, c)}
    params, inputs = ({name: (random.normal(size=shape) * 10.0 ** random.integers(-2, 3, shape)).astype(np.float32) for name, shape in some.items()}
                      for some in (shapes, {"t": (b, h2, w2, o), "s": (b, h2, w2, c), "r": (b, h, w, c)}))
    write_file(f"{folder}/params.safetensors", params)
    out = f"{folder}/convolutions"
    names = ["dense", "apart", "wide"]
    execute(meshc(), "fetch", spec, *names, "grad(**)", "--layout", "one", "--precision", PRECISION[narrow.name], "--params", f"{folder}/params.safetensors", *equality.feeds(folder, inputs), "--out", out)
    moving = (Window(h, ky, 2, 1, 1, 1), Window(w, kx, 1, 1, 1, 1))

    def expected(of):
        """Of the tensors as `of` has them, those with one group and those whose channels are groups."""
        x, y, k, back, t, r = (np.expand_dims(of(name), -2 if name in "xytr" else -3) for name in ("x", "y", "k", "back", "t", "r"))
        each_x, each, s = (of(name)[..., None] for name in ("of_each", "each", "s"))
        each = each[..., None]
        return {"dense": windows.conv(x, k, moving), "grad(x)": windows.conv_transpose(t, k, moving), "grad(k)": windows.conv_weights(x, t, moving),
                "apart": windows.conv(each_x, each, moving), "grad(of_each)": windows.conv_transpose(s, each, moving), "grad(each)": windows.conv_weights(each_x, s, moving),
                "wide": windows.conv_transpose(y, back, moving), "grad(y)": windows.conv(r, back, moving), "grad(back)": windows.conv_weights(r, y, moving)}

    given = {name: array.astype(np.float64) for name, array in (params | inputs).items()}
    rounded, sizes, wide = (expected(of) for of in (lambda name: narrow.round(given[name]).astype(np.float64), lambda name: abs(narrow.round(given[name]).astype(np.float64)), given.get))
    error = unlike_f32 = 0.0
    for name, value in rounded.items():
        got = np.load(f"{out}/{name}.npy").reshape(value.shape)
        magnitude = np.maximum(sizes[name], 2.0**-100)
        error, unlike_f32 = max(error, np.max(abs(got - value) / magnitude)), max(unlike_f32, np.max(abs(got - wide[name]) / magnitude))
    report.check(f"{narrow.name}: {len(rounded)} convolutions and gradients: relative to the sum of absolute products, as f32 adds up", float(f"{error:.1e}"), 1e-6)
    report.true(f"{narrow.name}: convolutions in f32 would be farther from them, so operands are rounded", unlike_f32 > narrow.step / 4, f"{unlike_f32:.1e}")
    for layout in ("pictures", "rows", "filters", "channels"):
        done = execute(meshc(), "verify", spec, "--layout", layout, "--precision", PRECISION[narrow.name], code=None)
        report.true(f"{narrow.name}: convolutions, {layout}: all values equal one rank's", done.returncode == 0, "" if done.returncode == 0 else done.stdout + done.stderr)


def attended(q, k, v, t, seen):
    """By name what attention gives, its gradients where that of the result is t, and the sum of absolute products behind each number: of those alone whose operands it rounds itself."""
    score = np.where(seen, np.einsum("bsghd,btgd->bghst", q, k) / np.sqrt(q.shape[-1]), -np.inf)
    top = score.max(-1, keepdims=True)
    weight = np.exp(score - np.where(np.isfinite(top), top, 0))
    weight = weight / np.maximum(weight.sum(-1, keepdims=True), 1e-300)
    d_weight = np.einsum("bsghd,btgd->bghst", t, v)
    scale = weight / np.sqrt(q.shape[-1])
    d_score = scale * (d_weight - (weight * d_weight).sum(-1, keepdims=True))
    # What is subtracted is made of the result, in which weights were rounded.
    size = abs(d_score) + scale * (weight * np.einsum("bsghd,btgd->bghst", abs(t), abs(v))).sum(-1, keepdims=True)

    def products(weight, d_score, q, k, v, t):
        return {"y": np.einsum("bghst,btgd->bsghd", weight, v), "grad(q)": np.einsum("bghst,btgd->bsghd", d_score, k),
                "grad(k)": np.einsum("bghst,bsghd->btgd", d_score, q), "grad(v)": np.einsum("bghst,bsghd->btgd", weight, t)}

    return products(weight, d_score, q, k, v, t), products(weight, size, *map(abs, (q, k, v, t)))


def attention(report, folder, random, small, narrow):
    """Values and gradients against NumPy in f64 on rounded operands, where one op computes them and where two products do; and the layouts."""
    shapes = [(1, 1, 1), (9, 5, 7), (64, 64, 64)] if small else [(1, 1, 1), (2, 3, 1), (9, 5, 7), (64, 64, 64), (33, 32, 48), (130, 17, 32)]
    of_bound, unlike_f32 = 0.0, np.inf
    for mask, (masked, sees) in MASKS.items():
        spec = f"{folder}/attention-{mask.replace(' ', '-')}.mesh"
        with open(spec, "w") as file:
            file.write(ATTENTION.replace("MASKED", masked))
        for seq, head, value in shapes:
            given = {"q": random.normal(size=(2, seq, 2, 3, head)), "k": random.normal(size=(2, seq, 2, head)), "v": random.normal(size=(2, seq, 2, value)),
                     "t": random.normal(size=(2, seq, 2, 3, value))}
            given = {name: array.astype(np.float32) for name, array in given.items()}
            write_file(f"{folder}/params.safetensors", {name: given[name] for name in "qkv"})
            at = np.arange(seq)
            seen = sees(at[:, None] - at)
            rounded, sizes = attended(*(narrow.round(given[name]).astype(np.float64) for name in "qkvt"), seen)
            wide, _ = attended(*(given[name].astype(np.float64) for name in "qkvt"), seen)
            for layout in ("one", "numbers"):
                out = f"{folder}/attention"
                execute(meshc(), "fetch", spec, "y", "grad(**)", "--layout", layout, "--precision", PRECISION[narrow.name], "--params", f"{folder}/params.safetensors",
                        *equality.feeds(folder, {"t": given["t"]}), *sets(seq=seq, head_dim=head, value=value), "--out", out)
                for name, expected in rounded.items():
                    got = np.load(f"{out}/{name}.npy")
                    allowed = narrow.step * 1.01 * sizes[name] + 4e-6 * max(1, np.max(abs(expected)))
                    of_bound = max(of_bound, np.max(abs(got - expected) / allowed))
                    if seq > 32:
                        unlike_f32 = min(unlike_f32, np.max(abs(got - wide[name])) / np.max(abs(wide[name])))
    title = f"{narrow.name}: attention and its gradients, {len(shapes)} shapes with {len(MASKS)} masks"
    report.check(f"{title}: of what rounding may change in f64 on rounded operands", float(f"{of_bound:.2f}"), 1)
    report.true(f"{narrow.name}: attention in f32 would be farther from them, so operands are rounded", unlike_f32 > narrow.step / 16, f"{unlike_f32:.1e}")
    for mask in MASKS:
        for layout in ("ring", "numbers") if small else ("samples", "heads", "ring", "dealt", "numbers", "values"):
            done = execute(meshc(), "verify", f"{folder}/attention-{mask.replace(' ', '-')}.mesh", *sets(seq=33, head_dim=8, value=12), "--layout", layout, "--precision", PRECISION[narrow.name], code=None)
            report.true(f"{narrow.name}: attention, {mask}, {layout}: all values equal one rank's", done.returncode == 0, "" if done.returncode == 0 else done.stdout + done.stderr)


class Model:
    """A spec of specs/ with its sizes, data and layouts, and one rank's curve in f32 and with products of a type."""

    def __init__(self, folder, title, sizes, arrays, heads=None):
        layouts = equality.layouts_file(folder, f"{title}-mixed", heads)
        with open(layouts, "a") as file:
            file.write(MIXED)
        self.folder, self.title, self.options = folder, title, equality.feeds(folder, arrays)
        self.spec = [f"{TOP}/specs/{title}.mesh", layouts, *sets(**sizes)]

    def loss(self, layout, precision, steps):
        return float(equality.fetch(self.folder, self.title, self.spec, self.options, steps, precision, ["--layout", layout])["loss.npy"])

    def compare(self, report, layouts, steps, narrow=BF16):
        title, precision = f"{self.title} {narrow.name}", PRECISION[narrow.name]
        wide, mixed = (self.loss("one", one, steps) for one in ("f32", precision))
        far = abs(mixed - wide) / wide
        report.check(f"{title}: loss of step {steps} from that in f32", float(f"{far:.1e}"), 1e-3)
        report.true(f"{title}: and not the same", far > 0)
        for layout in layouts:
            def action(layout=layout):
                off = abs(self.loss(layout, precision, steps) - mixed) / mixed
                report.check(f"{title} {layout}: loss of step {steps} from that of one rank", float(f"{off:.1e}"), 1e-3)

            report.attempt(f"{title} {layout}", action)

    def same_bits(self, report, value, layouts):
        """Layouts that cut no sum on the way to a value change no bit of it."""
        def fetched(layout):
            out = f"{self.folder}/{self.title}-{layout}-bits"
            execute(meshc(), "fetch", *self.spec, value, *self.options, "--layout", layout, "--precision", "mixed", "--seed", 7, "--out", out)
            return np.load(f"{out}/{value}.npy")

        one = fetched("one")
        for layout in layouts:
            report.true(f"{self.title} {layout}: every bit of {value} is that of one rank", np.array_equal(fetched(layout), one), one.shape)


def models(report, folder, random, small):
    def tokens(sizes):
        return {name: random.integers(0, sizes["vocab"], (sizes["batch"], sizes["seq"])).astype(np.int32) for name in ("token", "target")}

    steps, sizes = 3 if small else 20, equality.MLP
    gpt = Model(folder, "gpt", equality.GPT, tokens(equality.GPT), "heads")
    gpt.compare(report, ["both", "zero_1"] if small else [*equality.NAMES, "vocab_4"], steps)
    gpt.compare(report, ["both"] if small else [*equality.NAMES, "vocab_4"], steps, F16)
    gpt.same_bits(report, "logits", ["batch_2", "params"] if small else ["batch_2", "batch_3", "product", "params", "vocab_4"])
    images = {"image": random.integers(0, 256, (sizes["batch"], 784)).astype(np.uint8), "label": random.integers(0, 10, sizes["batch"]).astype(np.int32)}
    # Few steps: then it knows its twelve images by heart, and a loss near 0 is far from another in proportion.
    Model(folder, "mlp", sizes, images).compare(report, ["both"] if small else ["whole", "data", "model", "both", "weights", "three"], 3)
    mixtral = Model(folder, "mixtral", equality.MIXTRAL, tokens(equality.MIXTRAL), "kv * group")
    mixtral.compare(report, ["both"] if small else [*equality.NAMES, "vocab_4", "default", "dense", "wide"], steps)
    sizes = equality.TRANSLATE
    src, _ = equality.sentences(random, (sizes["batch"], sizes["source"]), sizes["vocab"])
    label, lengths = equality.sentences(random, (sizes["batch"], sizes["target"]), sizes["vocab"])
    tgt = np.concatenate([np.ones((sizes["batch"], 1), np.int32), label[:, :-1]], 1)
    label[np.arange(sizes["batch"]), lengths] = 2
    translate = Model(folder, "translate", sizes, dict(src=src, tgt=tgt, label=label), "heads")
    for narrow in NARROW_TYPES:
        translate.compare(report, ["both"] if small else [*equality.NAMES, "vocab_4", "default", "megatron", "zero"], steps, narrow)


def more_layouts(folder):
    path = f"{folder}/more.mesh"
    with open(path, "w") as file:
        file.write(MORE)
    return path


def steps_in_parts(report, folder, small):
    """`verify` compares with one rank: the step cut in thirds, turns computed again, stages."""
    for layout in ["staged"] if small else ["thirds", "again", "staged", "sharded"]:
        said = execute(meshc(), "verify", f"{TOP}/specs/gpt.mesh", more_layouts(folder), *sets(**equality.GPT), "--layout", layout, "--precision", "mixed").stdout
        report.true(f"verify gpt {layout}", "values are equal" in said, said.splitlines()[-1])


def turns_keep(report, folder):
    """What a layer's turn leaves for the backward pass is as narrow in a stage of a pipeline as in micro-batches of one rank."""
    def kept(layout):
        text = execute(meshc(), "ir", f"{TOP}/specs/gpt.mesh", more_layouts(folder), "complete", "--entry", "train", "--layout", layout, "--precision", "mixed", *sets(**equality.GPT)).stdout
        return sorted(re.findall(r"collect .* : (\w+\[.*\])$", text, re.MULTILINE))

    alone, staged = kept("thirds"), kept("staged")
    narrow = sum(one.startswith("bf16") for one in staged)
    report.true(f"gpt staged: {narrow} of {len(staged)} values are kept in bf16, as without a pipeline", alone == staged and narrow > 10, (alone, staged) if alone != staged else "")


def train(folder, layout, precision, title, *more):
    """Losses of 8 steps of a built gpt under a layout of more.mesh, or of those after a checkpoint; its checkpoints are in a folder called as `title`."""
    program = f"{folder}/{layout}-{precision}"
    if not os.path.exists(program):
        execute(meshc(), "build", f"{TOP}/specs/gpt.mesh", f"{folder}/more.mesh", *sets(**equality.GPT), "--layout", layout, "--precision", precision, "-o", program)
    with open(f"{folder}/run.yaml", "w") as file:
        file.write(f"data:\n  token: {{ file: {folder}/tokens.bin, type: u16, window: seq }}\n  target: {{ of: token, shift: 1 }}\n"
                   f"train: {{ steps: 8 }}\ncheckpoint: {{ dir: {folder}/{title}, every: 4 }}\nlog: {{ every: 1, jsonl: {folder}/{title}.jsonl }}\n")
    execute(f"{program}/gpt", "-n", 1 if layout == "one" else 2, f"{folder}/run.yaml", *more)
    return [line["loss"] for line in json_lines(f"{folder}/{title}.jsonl") if "loss" in line]


def checkpoints(report, folder, random):
    """They know no precision: all is f32, and what one precision writes, another reads."""
    more_layouts(folder)
    random.integers(0, 64, 4000).astype(np.uint16).tofile(f"{folder}/tokens.bin")
    whole = train(folder, "sharded", "mixed", "whole")
    resume = f"checkpoint.resume={folder}/whole/step-4"
    stored = tensors(f"{folder}/whole/step-4")
    report.true("parameters and moments of a checkpoint are f32", {str(x.dtype) for x in stored.values()} == {"float32"}, f"{len(stored)} tensors")
    report.true("resumed, the same bits", train(folder, "sharded", "mixed", "again", resume) == whole[4:])
    for layout, precision in (("one", "mixed"), ("one", "f32")):
        losses = train(folder, layout, precision, f"{layout}-{precision}-rest", resume)
        off = max(abs(a - b) / b for a, b in zip(losses, whole[4:], strict=True))
        report.check(f"resumed on one rank in {precision}: losses from those of two", float(f"{off:.1e}"), 1e-4)


def narrow_params(report, folder, random, narrow):
    """A file of narrow parameters is read as it is, and the product of such numbers is that of the same numbers in f32."""
    spec = f"{folder}/products.mesh"
    with open(spec, "w") as file:
        file.write(PRODUCTS)
    params = {name: narrow.round(random.normal(size=shape)) for forms, shape in
              ((("a_nn", "a_nt"), (9, 40)), (("a_tn", "a_tt"), (40, 9)), (("b_nn", "b_tn"), (40, 7)), (("b_nt", "b_tt"), (7, 40))) for name in forms}
    t = equality.feeds(folder, {"t": np.ones((9, 7), np.float32)})
    got = {}
    for kind, arrays in (("wide", params), ("narrow", {name: narrow.stored(x) for name, x in params.items()})):
        write_file(f"{folder}/{kind}.safetensors", arrays)
        execute(meshc(), "fetch", spec, "nn", "param(b_nt)", "--precision", PRECISION[narrow.name], "--params", f"{folder}/{kind}.safetensors", *t, *sets(row=9, inner=40, col=7),
                "--out", f"{folder}/{kind}", "--save-params", f"{folder}/{kind}-saved.safetensors")
        got[kind] = np.load(f"{folder}/{kind}/nn.npy")
        report.true(f"{narrow.name}: param(b_nt) is that of the {kind} file", np.array_equal(np.load(f"{folder}/{kind}/param(b_nt).npy"), params["b_nt"]))
        report.true(f"{narrow.name}: parameters of the {kind} file are written as f32", all(np.array_equal(x, params[name]) for name, x in read_file(f"{folder}/{kind}-saved.safetensors").items()))
    report.true(f"{narrow.name}: the product of both files is the same", np.array_equal(got["wide"], got["narrow"]))


def gathers(report, folder):
    """Parameters that only products read are gathered in bf16: half the bytes."""
    def gathered(precision):
        plan = json.loads(execute(meshc(), "plan", f"{TOP}/specs/gpt.mesh", more_layouts(folder), *sets(**equality.GPT), "--layout", "sharded", "--precision", precision, "--json").stdout)
        return {one["tensor"].removesuffix("_bf16"): one["bytes"] * one["count"] for one in plan["collectives"] if one["kind"] == "all_gather" and one["phase"] == "forward"}

    wide, mixed = gathered("f32"), gathered("mixed")
    for path in ("layer.attn.wq", "layer.attn.wo", "layer.feed.up", "layer.feed.down"):
        report.check(f"bytes gathered of {path}, of those in f32", mixed[path] / wide[path], 0.5)


def rings(report, folder):
    """Keys and values go round in bf16, half the bytes, and their gradients, which ranks add up, in f32."""
    with open(f"{folder}/ring.mesh", "w") as file:
        file.write(ATTENTION.replace("MASKED", MASKS["causal"][0]))

    def sent(precision):
        plan = json.loads(execute(meshc(), "plan", f"{folder}/ring.mesh", *sets(seq=33, head_dim=8, value=12), "--layout", "ring", "--precision", precision, "--json").stdout)
        return sorted((one["phase"], one["tensor"].removesuffix("_bf16"), one["bytes"] * one["count"]) for one in plan["collectives"] if one["kind"] == "ring")

    wide, mixed = sent("f32"), sent("mixed")
    report.true("as many values go round as in f32", len(wide) == 6 and [one[:2] for one in mixed] == [one[:2] for one in wide], wide)
    for (phase, tensor, of_wide), (_, _, of_mixed) in zip(wide, mixed, strict=True):
        report.check(f"bytes of {tensor} that go round, {phase}, of those in f32", of_mixed / of_wide, 1 if tensor.startswith("d_") else 0.5)


def run(small):
    report = Report()
    print(f"seed {SEED}")
    random = np.random.default_rng(SEED)
    with scratch() as folder:
        for narrow in NARROW_TYPES:
            report.attempt(f"products of {narrow.name}", lambda: products(report, folder, random, small, narrow))
            report.attempt(f"convolutions of {narrow.name}", lambda: convolutions(report, folder, random, narrow))
            report.attempt(f"attention of {narrow.name}", lambda: attention(report, folder, random, small, narrow))
            report.attempt(f"{narrow.name} parameters", lambda: narrow_params(report, folder, random, narrow))
        report.attempt("models", lambda: models(report, folder, random, small))
        report.attempt("steps in parts", lambda: steps_in_parts(report, folder, small))
        report.attempt("turns of a pipeline", lambda: turns_keep(report, folder))
        report.attempt("checkpoints", lambda: checkpoints(report, folder, random))
        report.attempt("gathers", lambda: gathers(report, folder))
        report.attempt("rings", lambda: rings(report, folder))
    return report
