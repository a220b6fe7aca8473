"""Gradients that ranks add up in bf16 and f16 (`reduce: bf16`): bit by bit what rounding parts and their sum gives, under layouts; the same bits by every way to run;
training beside f32; half the bytes."""
import json

import numpy as np

import equality
from common import TOP, Report, meshc, scratch, sets
from common import run as execute
from oracle.narrow import NARROW_TYPES
from transports import losses

SEED = 20261126
NARROW = "".join(f"precision narrow_{one.name} {{ reduce: {one.name}, loss_scale: none }}\n" for one in NARROW_TYPES)
# The loss is a sum over samples: what a rank has of a gradient is that of its samples alone.
SUMS = NARROW + """
dim sample = 12, inner = 5, wide = 7, layer = 3
model Sums {
  input x : real[sample, inner]
  input t : real[sample, wide]
  param into : real[inner, wide] = normal(mean: 0, std: 1)
  param bias : real[wide] = zeros
  h = dot[inner](x, into) + bias
  repeat layer {
    param scale : real[wide] = normal(mean: 0, std: 1)
    h = tanh(h * scale)
  }
  loss = sum[sample, wide]((h - t) ^ 2)
  minimize loss with sgd(lr: 0.01)
}
mesh single { only: 1 }
mesh line { data: 2 }
layout one on single { }
layout samples on line { sample -> data }
layout shards on line { sample -> data; params { wide -> data } }
layout micro on line { sample -> data { accumulate: 3 } }
"""


def check_bits(report, folder, random, narrow):
    """Of 2, 3 and 4 ranks: each part rounded, added up in f32 in pairs, and the sum rounded."""
    spec = f"{folder}/sums.mesh"
    with open(spec, "w") as file:
        file.write(SUMS)
    precision = f"narrow_{narrow.name}"
    x, t = random.normal(size=(12, 5)).astype(np.float32), random.normal(size=(12, 7)).astype(np.float32)

    def gradients(name, part, *options):
        out = f"{folder}/{name}"
        execute(meshc(), "fetch", spec, "grad(**)", *equality.feeds(folder, {"x": x[part], "t": t[part]}), *options, "--out", out)
        return {path: np.load(f"{out}/grad({path}).npy") for path in ("into", "bias", "layer.scale")}

    def added(parts):
        while len(parts) > 1:
            parts = [parts[i] + parts[i + 1] if i + 1 < len(parts) else parts[i] for i in range(0, len(parts), 2)]
        return narrow.round(parts[0])

    for ranks in (2, 3, 4):
        size = 12 // ranks
        parts = [gradients(f"{ranks}-{rank}", slice(rank * size, (rank + 1) * size), *sets(sample=size), "--layout", "one") for rank in range(ranks)]
        for layout in ("samples", "shards"):
            got = gradients(f"{ranks}-{layout}", slice(None), "--layout", layout, "--mesh", f"data={ranks}", "--precision", precision)
            for path, value in got.items():
                expected = added([narrow.round(part[path]) for part in parts])
                report.true(f"{narrow.name}: {layout}, {ranks} ranks: every bit of grad({path})", np.array_equal(value, expected), f"{np.count_nonzero(value != expected)} of {value.size} differ")
    whole, rounded = gradients("whole", slice(None), "--layout", "one"), gradients("rounded", slice(None), "--layout", "one", "--precision", precision)
    for path in whole:
        report.true(f"{narrow.name}: one rank rounds too: grad({path})", np.array_equal(rounded[path], narrow.round(whole[path])), "")
    for layout in ("samples", "shards", "micro"):
        done = execute(meshc(), "verify", spec, "--layout", layout, "--precision", precision, code=None)
        report.true(f"{narrow.name}: {layout}: verify", done.returncode == 0, done.stdout[-400:] + done.stderr)


def check_bytes(report, folder, small):
    """Gradients are sent in half the bytes, in the turns of the loop too, and all else in as many as before."""
    layouts = equality.layouts_file(folder, "gpt-narrow", "heads")
    with open(layouts, "a") as file:
        file.write(NARROW)

    def sent(layout, precision):
        plan = json.loads(execute(meshc(), "plan", f"{TOP}/specs/gpt.mesh", layouts, *sets(**equality.GPT), "--layout", layout, "--precision", precision, "--json").stdout)
        bytes_of = {True: 0, False: 0}
        for one in plan["collectives"]:
            bytes_of[one["kind"] in ("all_reduce", "reduce_scatter") and one["tensor"].startswith("d_") and one["tensor"][2:] in PARAMETERS] += one["bytes"] * one["count"]
        return bytes_of

    for layout in ("batch_2", "params") if small else ("batch_2", "batch_3", "zero_1", "params", "both"):
        wide, narrow = sent(layout, "f32"), sent(layout, "narrow_bf16")
        report.check(f"gpt {layout}: bytes of gradients, of those in f32", narrow[True] / wide[True], 0.5)
        # A norm's bias may be scattered over two axes where it was over one, and its parameter then gathered.
        report.check(f"gpt {layout}: all other bytes", narrow[False] / max(1, wide[False]), 1.001)


PARAMETERS = {"wte", "wpe", *(f"layer.{path}" for path in ("norm1.gain", "norm1.bias", "norm2.gain", "norm2.bias", "attn.wq", "attn.wk", "attn.wv", "attn.wo", "feed.up", "feed.down")), "last.gain", "last.bias"}


def check_training(report, folder, random, small):
    """gpt after some steps lies beside f32, under every layout alike; what is built gives the interpreter's bits on all transports."""
    sizes, steps = equality.GPT, 5 if small else 20
    layouts = equality.layouts_file(folder, "gpt-trained", "heads")
    with open(layouts, "a") as file:
        file.write(NARROW)
    spec = [f"{TOP}/specs/gpt.mesh", layouts, *sets(**sizes)]
    tokens = {name: random.integers(0, sizes["vocab"], (sizes["batch"], sizes["seq"])).astype(np.int32) for name in ("token", "target")}
    feeds = equality.feeds(folder, tokens)

    def loss(layout, precision):
        return float(equality.fetch(folder, "gpt", spec, feeds, steps, precision, ["--layout", layout])["loss.npy"])

    wide = loss("one", "f32")
    for layout in ("one", "batch_2", "params") if small else ("one", *equality.NAMES):
        for narrow in NARROW_TYPES:
            far = abs(loss(layout, f"narrow_{narrow.name}") - wide) / wide
            report.check(f"gpt {layout} {narrow.name}: loss of step {steps} from that in f32", float(f"{far:.1e}"), 1e-3)

    np.save(f"{folder}/token.npy", tokens["token"])
    np.save(f"{folder}/target.npy", tokens["target"])
    with open(f"{folder}/run.yaml", "w") as file:
        file.write("data: { token: {file: token.npy}, target: {file: target.npy} }\ntrain: { seed: 7 }\n")
    for layout, narrow in [("params", one) for one in NARROW_TYPES] if small else [(layout, one) for layout in ("batch_3", "zero_1", "params") for one in NARROW_TYPES]:
        precision = f"narrow_{narrow.name}"
        execute(meshc(), "build", *spec, "--layout", layout, "--precision", precision, "-o", f"{folder}/{layout}-{narrow.name}")
        program, ranks = f"{folder}/{layout}-{narrow.name}/gpt", dict(batch_3=3, zero_1=4, params=2)[layout]
        curves = [losses(folder, f"{layout}-{narrow.name}-{name}", program, ranks, steps, *more) for name, more in
                  (("threads", [["--threads"]]), ("arena", []), ("ucx", [[], {"MESHRT_TRANSPORT": "ucx"}]))]
        interpreted = float(np.float32(loss(layout, precision)))
        report.true(f"gpt {layout} {narrow.name}: built, the interpreter's bits as threads, over the arena and over UCX", all(curve == curves[0] for curve in curves) and curves[0][-1] == interpreted, f"{curves[0][-1]} and {interpreted}")


def run(small):
    report = Report()
    print(f"seed {SEED}")
    random = np.random.default_rng(SEED)
    with scratch() as folder:
        for narrow in NARROW_TYPES:
            report.attempt(f"bits of {narrow.name}", lambda: check_bits(report, folder, random, narrow))
        report.attempt("bytes", lambda: check_bytes(report, folder, small))
        report.attempt("training", lambda: check_training(report, folder, random, small))
    return report
