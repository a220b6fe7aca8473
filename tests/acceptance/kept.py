"""Parameters kept in bf16 and f16 (`params: bf16`): updates bit by bit against NumPy with Philox, under layouts and optimizers; what stochastic rounding is for; files; bytes."""
import json

import numpy as np

import equality
from checkpoints import tensors, write_file
from common import TOP, Report, meshc, scratch, sets
from common import run as execute
from oracle.narrow import BF16, NARROW_TYPES
from oracle.philox import uniform
from precision import train

SEED = 20261126
PRECISIONS = "".join(f"precision stored_{one.name} {{ compute: {one.name}, params: {one.name} }}\nprecision kept_{one.name} {{ params: {one.name} }}\n" for one in NARROW_TYPES)
# The gradient of each parameter is an input: nothing but the update is computed.
UPDATES = PRECISIONS + """
dim rows = 1, cols = 1, layer = 3
model Updates {
  input t : real[rows, cols]
  input u : real[layer, cols]
  param p : real[rows, cols] = normal(std: 0.1)
  h = sum[rows, cols](p * t)
  repeat layer {
    param q : real[cols] = uniform(low: -2, high: 2)
    h = h + sum[cols](q * u[layer = position[layer]])
  }
  loss = h
  minimize loss with OPTIMIZER
}
mesh single { x: 1 }
mesh three { x: 3 }
mesh plane { x: 2, y: 2 }
layout one on single { }
layout whole on three { replicate over x }
layout params on three { params { rows -> x; cols -> x unless rows } }
layout state on three { optimizer { cols -> x } }
layout tiles on plane { rows -> x; cols -> y }
"""
REGRESSION = PRECISIONS + """
dim n = 1, features = 1
model Regression {
  input x : real[n, features]
  input y : real[n]
  param w : real[features] = zeros
  loss = mean[n]((dot[features](x, w) - y) ^ 2)
  minimize loss with sgd(lr: RATE)
}
"""
MORE = PRECISIONS + """
mesh single { only: 1 }
mesh halves { m: 2 }
layout one on single { }
layout sharded on halves { batch -> m; params { embed -> m } }
"""


def sgd(p, g, _state, _step):
    return p - g * np.float32(0.01)


def momentum(p, g, state, _step):
    state["m"] = state.get("m", np.zeros_like(g)) * np.float32(0.9) + g
    return p * np.float32(1) - state["m"] * np.float32(0.01)


def updates(report, folder, random, small, narrow):
    """Every bit of the parameters after some steps."""
    rows, cols, steps, seed = 7, 11, 4, 9
    arrays = {"t": random.normal(size=(rows, cols)).astype(np.float32), "u": random.normal(size=(3, cols)).astype(np.float32)}
    for title, written, step_of in (("sgd", "sgd(lr: 0.01)", sgd), ("momentum", "sgd(lr: 0.01, momentum: 0.9)", momentum)):
        spec = f"{folder}/{title}.mesh"
        with open(spec, "w") as file:
            file.write(UPDATES.replace("OPTIMIZER", written))
        options = [*equality.feeds(folder, arrays), *sets(rows=rows, cols=cols), "--seed", seed]

        def fetched(precision, layout, steps):
            out = f"{folder}/{title}-{precision}-{layout}-{steps}"
            execute(meshc(), "fetch", spec, "param(**)", *options, "--precision", precision, "--layout", layout, *(["--steps", steps] if steps else []), "--out", out)
            return {name: np.load(f"{out}/param({name}).npy") for name in ("p", "layer.q")}

        wide = fetched("f32", "one", 0)
        expected = {}
        for name, gradient in (("p", arrays["t"]), ("layer.q", arrays["u"])):
            first = fetched(f"kept_{narrow.name}", "one", 0)[name].astype(np.float32)
            report.true(f"{narrow.name} {title}: `{name}` begins as in f32, rounded to the nearest", np.array_equal(first, narrow.round(wide[name])), first.dtype)
            state, p = {}, first
            for step in range(1, steps + 1):
                p = narrow.stochastic(step_of(p, gradient, state, step), uniform(seed, f"{name}.rounding", [step], p.shape))
            expected[name] = p
        for layout in ["one", "tiles"] if small else ["one", "whole", "params", "state", "tiles"]:
            for precision in [f"kept_{narrow.name}"] if small else [f"kept_{narrow.name}", f"stored_{narrow.name}"]:
                got = fetched(precision, layout, steps)
                for name, value in expected.items():
                    report.true(f"{title} {precision} {layout}: every bit of `{name}` after {steps} steps", np.array_equal(got[name], value), value.shape)


def written(report, folder, random, narrow):
    """Types in the spec: parameters of it are those of a precision that keeps all so, bit by bit; inputs and states are rounded to the nearest; built, the interpreter's bits."""
    name, seed = narrow.name, 5
    text = {kind: f"{PRECISIONS}" + """
dim sample = 4, inner = 6, wide = 5, layer = 2
model Written {
  input x : real[sample, inner]
  input y : KIND[sample, wide]
  state seen : KIND[wide] = zeros
  param w : KEPT[inner, wide] = normal(std: 0.5)
  read = f32(y)
  h = dot[inner](x, w)
  repeat layer {
    param gain : KEPT[wide] = ones
    h = tanh(h * gain)
  }
  seen <- 0.9 * f32(seen) + sum[sample](h) / 3
  loss = sum[sample, wide]((h - y) ^ 2)
  minimize loss with adamw(lr: 0.05)
}
mesh single { m: 1 }
mesh halves { m: 2 }
layout one on single { }
layout samples on halves { sample -> m }
layout parts on halves { wide -> m }
layout sharded on halves { sample -> m; params { inner -> m; wide -> m unless inner } }
""".replace("KIND", name).replace("KEPT", kept) for kind, kept in (("written", name), ("precision", "real"))}
    arrays = {"x": random.normal(size=(4, 6)).astype(np.float32), "y": random.normal(size=(4, 5)).astype(np.float32)}
    found = {}
    for kind, precision in (("written", "f32"), ("precision", f"kept_{name}")):
        spec = f"{folder}/{kind}-{name}.mesh"
        with open(spec, "w") as file:
            file.write(text[kind])
        execute(meshc(), "fetch", spec, "param(**)", "read", "seen", "h", *equality.feeds(folder, arrays), "--layout", "one", "--precision", precision, "--seed", seed, "--steps", 3, "--out", f"{folder}/{kind}-{name}")
        found[kind] = {path: np.load(f"{folder}/{kind}-{name}/{path}.npy").astype(np.float32) for path in ("param(w)", "param(layer.gain)", "read", "seen", "h")}
    report.true(f"{name}: parameters written so are those of the precision, every bit", all(np.array_equal(found["written"][path], value) for path, value in found["precision"].items()), list(found["written"]))
    report.true(f"{name}: and numbers of the type", all(np.array_equal(narrow.round(value), value) for path, value in found["written"].items() if path.startswith("param")))
    report.true(f"{name}: an input is rounded as it is read", np.array_equal(found["written"]["read"], narrow.round(arrays["y"])))
    spec, states = f"{folder}/written-{name}.mesh", [np.zeros(5, np.float32)]
    for steps in (1, 2, 3):
        execute(meshc(), "fetch", spec, "seen", "h", *equality.feeds(folder, arrays), "--layout", "one", "--seed", seed, "--steps", steps, "--precision", "f32", "--out", f"{folder}/seen")
        states.append((np.load(f"{folder}/seen/seen.npy").astype(np.float32), np.load(f"{folder}/seen/h.npy")))
    for (before, _), (after, h) in zip([(states[0], None), *states[1:]], states[1:]):
        expected = np.float32(0.9) * before + h.sum(0) / np.float32(3)
        report.check(f"{name}: a state is rounded to the nearest, in last places of it", float(f"{np.max((abs(after - expected) - 1e-6) / narrow.last_place(abs(expected))):.2f}"), 0.5)
    for layout in ("samples", "parts", "sharded"):
        done = execute(meshc(), "verify", spec, "--layout", layout, "--precision", "f32", code=None)
        report.true(f"{name}: {layout}: all values equal one rank's", done.returncode == 0, "" if done.returncode == 0 else done.stdout + done.stderr)
    for input, array in arrays.items():
        np.save(f"{folder}/{input}.npy", array)
    with open(f"{folder}/written.yaml", "w") as file:
        file.write("data: { x: {file: x.npy}, y: {file: y.npy} }\ntrain: { steps: 3, seed: 5 }\n")
    execute(meshc(), "build", spec, "--layout", "sharded", "-o", f"{folder}/built-{name}")
    execute(f"{folder}/built-{name}/written-{name}", "-n", 2, f"{folder}/written.yaml", f"checkpoint.dir={folder}/checkpoint-{name}")
    execute(meshc(), "fetch", spec, "param(**)", *equality.feeds(folder, arrays), "--layout", "sharded", "--seed", 5, "--steps", 3, "--precision", "f32", "--out", f"{folder}/interpreted")
    stored = tensors(f"{folder}/checkpoint-{name}/step-3")
    report.true(f"{name}: a built program keeps them so, with the interpreter's bits", all(np.array_equal(narrow.stored(np.load(f"{folder}/interpreted/param({path}).npy")), stored[path]) for path in ("w", "layer.gain")), {path: str(x.dtype) for path, x in stored.items()})


def means(report, folder, narrow):
    """Many weights of 1 with the same small step: their mean moves as it would in f32, though to the nearest none would."""
    spec, n, steps, rate = f"{folder}/means.mesh", 1 << 16, 8, narrow.step / 32
    with open(spec, "w") as file:
        file.write(PRECISIONS + f"dim n = {n}\nmodel Means {{\n  input g : real[n]\n  param p : real[n] = ones\n  loss = sum[n](p * g)\n  minimize loss with sgd(lr: {rate})\n}}\n")
    execute(meshc(), "fetch", spec, "param(p)", "--precision", f"kept_{narrow.name}", "--steps", steps, *equality.feeds(folder, {"g": np.ones(n, np.float32)}), "--out", f"{folder}/means")
    got = np.load(f"{folder}/means/param(p).npy").astype(np.float64)
    report.true(f"{narrow.name}: rounded to the nearest, no weight would move", narrow.round(np.float32(1 - rate)) == 1)
    # A step is of two places this far apart below 1: deviation of one below half of that, of the mean of n walks of so many steps:
    deviation = narrow.step / 2 * np.sqrt(steps / n)
    report.check(f"{narrow.name}: mean of {n} weights after {steps} steps of {rate:.1e}, in deviations from f32's", float(f"{abs(got.mean() - (1 - steps * rate)) / deviation:.2f}"), 4)


def stalls(report, folder, random):
    """Regression at a rate so small that to the nearest all weights soon stand still."""
    n, features, steps, rate = 64, 24, 400, 0.002
    x = random.normal(size=(n, features)).astype(np.float32)
    y = (x @ (1 + 0.5 * random.normal(size=features))).astype(np.float32)
    spec = f"{folder}/regression.mesh"
    with open(spec, "w") as file:
        file.write(REGRESSION.replace("RATE", str(rate)))
    losses = {}
    for precision in ("f32", "kept_bf16", "stored_bf16"):
        execute(meshc(), "fetch", spec, "loss", *equality.feeds(folder, {"x": x, "y": y}), *sets(n=n, features=features), "--precision", precision, "--steps", steps, "--out", f"{folder}/{precision}")
        losses[precision] = float(np.load(f"{folder}/{precision}/loss.npy"))
    w = np.zeros(features, np.float32)
    for _ in range(steps - 1):
        w = BF16.round(w - np.float32(rate) * (2 / n * x.T @ (x @ w - y)))
    losses["nearest"] = float(np.mean((x @ w - y) ** 2))
    text = ", ".join(f"{name} {loss:.4f}" for name, loss in losses.items())
    first = float(np.mean(y**2))
    for precision in ("kept_bf16", "stored_bf16"):
        report.check(f"loss of {precision} after {steps} steps from that of f32, of the first one ({text})", float(f"{abs(losses[precision] - losses['f32']) / first:.1e}"), 0.002)
    report.true("rounded to the nearest it would be farther from f32 than ten times that", losses["nearest"] - losses["f32"] > 0.02 * first, text)


def models(report, folder, random, small):
    """gpt trains as in f32, and under layouts as on one rank."""
    sizes, steps = equality.GPT, 5 if small else 20
    arrays = {name: random.integers(0, sizes["vocab"], (sizes["batch"], sizes["seq"])).astype(np.int32) for name in ("token", "target")}
    layouts = equality.layouts_file(folder, "gpt-kept", "heads")
    with open(layouts, "a") as file:
        file.write(PRECISIONS)
    spec = [f"{TOP}/specs/gpt.mesh", layouts, *sets(**sizes)]

    def loss(layout, precision):
        return float(equality.fetch(folder, "gpt-kept", spec, equality.feeds(folder, arrays), steps, precision, ["--layout", layout])["loss.npy"])

    wide = loss("one", "f32")
    for precision in ("kept_bf16", "stored_bf16", "kept_f16", "stored_f16"):
        one = loss("one", precision)
        report.check(f"gpt {precision}: loss of step {steps} from that in f32", float(f"{abs(one - wide) / wide:.1e}"), 0.01)
        for layout in ["zero_1"] if small else equality.NAMES:
            report.check(f"gpt {precision} {layout}: loss of step {steps} from that of one rank", float(f"{abs(loss(layout, precision) - one) / one:.1e}"), 0.005)


def files(report, folder, random):
    """Checkpoints hold parameters as bf16 and moments as f32; any precision goes on from any."""
    with open(f"{folder}/more.mesh", "w") as file:
        file.write(MORE)
    random.integers(0, 64, 4000).astype(np.uint16).tofile(f"{folder}/tokens.bin")
    whole = train(folder, "sharded", "stored_bf16", "whole")
    wide = train(folder, "one", "f32", "wide")
    stored = tensors(f"{folder}/whole/step-4")
    moments = {name for name in stored if ".moment" in name}
    report.true("a checkpoint's moments are f32", {str(stored[name].dtype) for name in moments} == {"float32"}, f"{len(moments)} tensors")
    report.true("its parameters are bf16", {str(x.dtype) for name, x in stored.items() if name not in moments} == {"uint16"}, f"{len(stored) - len(moments)} tensors")
    resume = f"checkpoint.resume={folder}/whole/step-4"
    report.true("resumed, the same bits", train(folder, "sharded", "stored_bf16", "again", resume) == whole[4:])
    again = tensors(f"{folder}/again/step-8")
    report.true("and the same tensors", all(np.array_equal(x, again[name]) for name, x in tensors(f"{folder}/whole/step-8").items()))
    for precision, of in (("stored_bf16", "whole"), ("f32", "whole"), ("stored_bf16", "wide"), ("stored_f16", "whole")):
        losses = train(folder, "one", precision, f"{precision}-of-{of}", f"checkpoint.resume={folder}/{of}/step-4")
        rest = (whole if of == "whole" else wide)[4:]
        off = max(abs(a - b) / b for a, b in zip(losses, rest, strict=True))
        report.check(f"one rank in {precision} goes on from the checkpoint of {of}: losses from its own", float(f"{off:.1e}"), 0.005)
    params = {"p": random.normal(size=(5, 6)).astype(np.float32), "layer.q": random.normal(size=(3, 6)).astype(np.float32)}
    write_file(f"{folder}/given.safetensors", params)
    fed = equality.feeds(folder, {"t": np.ones((5, 6), np.float32), "u": np.ones((3, 6), np.float32)})
    execute(meshc(), "fetch", f"{folder}/sgd.mesh", "param(**)", "--layout", "one", "--precision", "kept_bf16", *fed, *sets(rows=5, cols=6),
            "--params", f"{folder}/given.safetensors", "--out", f"{folder}/given")
    report.true("parameters of f32 are rounded to the nearest", all(np.array_equal(np.load(f"{folder}/given/param({name}).npy"), BF16.round(x)) for name, x in params.items()))


def plans(report, folder):
    """Half the memory of parameters, half the bytes of what is gathered of them, and moments as they were."""
    def plan(precision):
        return json.loads(execute(meshc(), "plan", f"{TOP}/specs/gpt.mesh", f"{folder}/more.mesh", *sets(**equality.GPT), "--layout", "sharded", "--precision", precision, "--json").stdout)

    def gathered(of):
        return sum(one["bytes"] * one["count"] for one in of["collectives"] if one["kind"] == "all_gather" and one["phase"] == "forward" and one["tensor"].startswith("layer."))

    wide, kept = plan("f32"), plan("kept_bf16")
    report.check("bytes gathered of the layers' parameters, of those in f32", gathered(kept) / gathered(wide), 0.5)
    report.check("bytes of parameters, each of a whole number of lines, of those in f32", kept["memory"]["params"] / wide["memory"]["params"], 0.51)
    report.true("of moments the same", kept["memory"]["optimizer"] == wide["memory"]["optimizer"], kept["memory"]["optimizer"])


def run(small):
    report = Report()
    print(f"seed {SEED}")
    random = np.random.default_rng(SEED)
    with scratch() as folder:
        for narrow in NARROW_TYPES:
            report.attempt(f"updates in {narrow.name}", lambda: updates(report, folder, random, small, narrow))
            report.attempt(f"written as {narrow.name}", lambda: written(report, folder, random, narrow))
            report.attempt(f"means in {narrow.name}", lambda: means(report, folder, narrow))
        report.attempt("stalls", lambda: stalls(report, folder, random))
        report.attempt("models", lambda: models(report, folder, random, small))
        report.attempt("files", lambda: files(report, folder, random))
        report.attempt("plans", lambda: plans(report, folder))
    return report
