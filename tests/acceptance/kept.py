"""Parameters kept in bf16 (`params: bf16`): updates bit by bit against NumPy with Philox, under layouts and optimizers; what stochastic rounding is for; files; bytes."""
import json

import numpy as np

import equality
from checkpoints import tensors, write_file
from common import TOP, Report, meshc, scratch, sets
from common import run as execute
from oracle.philox import uniform
from precision import bf16, train

SEED = 20261126
PRECISIONS = "precision stored { compute: bf16, params: bf16 }\nprecision kept { params: bf16 }\n"
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


def stochastic(x, seed, path, step):
    """f32 to bf16 by the random numbers of a tensor and a step."""
    draws = np.floor(uniform(seed, f"{path}.rounding", [step], x.shape) * 65536).astype(np.uint64)
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + draws) & np.uint64(0xFFFF0000)).astype(np.uint32).view(np.float32)


def sgd(p, g, _state, _step):
    return p - g * np.float32(0.01)


def momentum(p, g, state, _step):
    state["m"] = state.get("m", np.zeros_like(g)) * np.float32(0.9) + g
    return p * np.float32(1) - state["m"] * np.float32(0.01)


def updates(report, folder, random, small):
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
            first = fetched("kept", "one", 0)[name]
            report.true(f"{title}: `{name}` begins as in f32, rounded to the nearest", np.array_equal(first, bf16(wide[name])), first.dtype)
            state, p = {}, first
            for step in range(1, steps + 1):
                p = stochastic(step_of(p, gradient, state, step), seed, name, step)
            expected[name] = p
        for layout in ["one", "tiles"] if small else ["one", "whole", "params", "state", "tiles"]:
            for precision in ["kept"] if small else ["kept", "stored"]:
                got = fetched(precision, layout, steps)
                for name, value in expected.items():
                    report.true(f"{title} {precision} {layout}: every bit of `{name}` after {steps} steps", np.array_equal(got[name], value), value.shape)


def means(report, folder):
    """Many weights of 1 with the same small step: their mean moves as it would in f32, though to the nearest none would."""
    spec, n, steps, rate = f"{folder}/means.mesh", 1 << 16, 8, 2.0**-13
    with open(spec, "w") as file:
        file.write(PRECISIONS + f"dim n = {n}\nmodel Means {{\n  input g : real[n]\n  param p : real[n] = ones\n  loss = sum[n](p * g)\n  minimize loss with sgd(lr: {rate})\n}}\n")
    execute(meshc(), "fetch", spec, "param(p)", "--precision", "kept", "--steps", steps, *equality.feeds(folder, {"g": np.ones(n, np.float32)}), "--out", f"{folder}/means")
    got = np.load(f"{folder}/means/param(p).npy").astype(np.float64)
    report.true("rounded to the nearest, no weight would move", bf16(np.float32(1 - rate)) == 1)
    # A step is of two places 2^-8 apart below 1: deviation of one below 2^-9, of the mean of n walks of so many steps:
    deviation = 2.0**-9 * np.sqrt(steps / n)
    report.check(f"mean of {n} weights after {steps} steps of 2^-13, in deviations from f32's", float(f"{abs(got.mean() - (1 - steps * rate)) / deviation:.2f}"), 4)


def stalls(report, folder, random):
    """Regression at a rate so small that to the nearest all weights soon stand still."""
    n, features, steps, rate = 64, 24, 400, 0.002
    x = random.normal(size=(n, features)).astype(np.float32)
    y = (x @ (1 + 0.5 * random.normal(size=features))).astype(np.float32)
    spec = f"{folder}/regression.mesh"
    with open(spec, "w") as file:
        file.write(REGRESSION.replace("RATE", str(rate)))
    losses = {}
    for precision in ("f32", "kept", "stored"):
        execute(meshc(), "fetch", spec, "loss", *equality.feeds(folder, {"x": x, "y": y}), *sets(n=n, features=features), "--precision", precision, "--steps", steps, "--out", f"{folder}/{precision}")
        losses[precision] = float(np.load(f"{folder}/{precision}/loss.npy"))
    w = np.zeros(features, np.float32)
    for _ in range(steps - 1):
        w = bf16(w - np.float32(rate) * (2 / n * x.T @ (x @ w - y)))
    losses["nearest"] = float(np.mean((x @ w - y) ** 2))
    text = ", ".join(f"{name} {loss:.4f}" for name, loss in losses.items())
    first = float(np.mean(y**2))
    for precision in ("kept", "stored"):
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
    for precision in ("kept", "stored"):
        one = loss("one", precision)
        report.check(f"gpt {precision}: loss of step {steps} from that in f32", float(f"{abs(one - wide) / wide:.1e}"), 0.01)
        for layout in ["zero_1"] if small else equality.NAMES:
            report.check(f"gpt {precision} {layout}: loss of step {steps} from that of one rank", float(f"{abs(loss(layout, precision) - one) / one:.1e}"), 0.005)


def files(report, folder, random):
    """Checkpoints hold parameters as bf16 and moments as f32; any precision goes on from any."""
    with open(f"{folder}/more.mesh", "w") as file:
        file.write(MORE)
    random.integers(0, 64, 4000).astype(np.uint16).tofile(f"{folder}/tokens.bin")
    whole = train(folder, "sharded", "stored", "whole")
    wide = train(folder, "one", "f32", "wide")
    stored = tensors(f"{folder}/whole/step-4")
    moments = {name for name in stored if ".moment" in name}
    report.true("a checkpoint's moments are f32", {str(stored[name].dtype) for name in moments} == {"float32"}, f"{len(moments)} tensors")
    report.true("its parameters are bf16", {str(x.dtype) for name, x in stored.items() if name not in moments} == {"uint16"}, f"{len(stored) - len(moments)} tensors")
    resume = f"checkpoint.resume={folder}/whole/step-4"
    report.true("resumed, the same bits", train(folder, "sharded", "stored", "again", resume) == whole[4:])
    again = tensors(f"{folder}/again/step-8")
    report.true("and the same tensors", all(np.array_equal(x, again[name]) for name, x in tensors(f"{folder}/whole/step-8").items()))
    for precision, of in (("stored", "whole"), ("f32", "whole"), ("stored", "wide")):
        losses = train(folder, "one", precision, f"{precision}-of-{of}", f"checkpoint.resume={folder}/{of}/step-4")
        rest = (whole if of == "whole" else wide)[4:]
        off = max(abs(a - b) / b for a, b in zip(losses, rest, strict=True))
        report.check(f"one rank in {precision} goes on from the checkpoint of {of}: losses from its own", float(f"{off:.1e}"), 0.005)
    params = {"p": random.normal(size=(5, 6)).astype(np.float32), "layer.q": random.normal(size=(3, 6)).astype(np.float32)}
    write_file(f"{folder}/given.safetensors", params)
    fed = equality.feeds(folder, {"t": np.ones((5, 6), np.float32), "u": np.ones((3, 6), np.float32)})
    execute(meshc(), "fetch", f"{folder}/sgd.mesh", "param(**)", "--layout", "one", "--precision", "kept", *fed, *sets(rows=5, cols=6),
            "--params", f"{folder}/given.safetensors", "--out", f"{folder}/given")
    report.true("parameters of f32 are rounded to the nearest", all(np.array_equal(np.load(f"{folder}/given/param({name}).npy"), bf16(x)) for name, x in params.items()))


def plans(report, folder):
    """Half the memory of parameters, half the bytes of what is gathered of them, and moments as they were."""
    def plan(precision):
        return json.loads(execute(meshc(), "plan", f"{TOP}/specs/gpt.mesh", f"{folder}/more.mesh", *sets(**equality.GPT), "--layout", "sharded", "--precision", precision, "--json").stdout)

    def gathered(of):
        return sum(one["bytes"] * one["count"] for one in of["collectives"] if one["kind"] == "all_gather" and one["phase"] == "forward" and one["tensor"].startswith("layer."))

    wide, kept = plan("f32"), plan("kept")
    report.check("bytes gathered of the layers' parameters, of those in f32", gathered(kept) / gathered(wide), 0.5)
    report.check("bytes of parameters, each of a whole number of lines, of those in f32", kept["memory"]["params"] / wide["memory"]["params"], 0.51)
    report.true("of moments the same", kept["memory"]["optimizer"] == wide["memory"]["optimizer"], kept["memory"]["optimizer"])


def run(small):
    report = Report()
    print(f"seed {SEED}")
    random = np.random.default_rng(SEED)
    with scratch() as folder:
        report.attempt("updates", lambda: updates(report, folder, random, small))
        report.attempt("means", lambda: means(report, folder))
        report.attempt("stalls", lambda: stalls(report, folder, random))
        report.attempt("models", lambda: models(report, folder, random, small))
        report.attempt("files", lambda: files(report, folder, random))
        report.attempt("plans", lambda: plans(report, folder))
    return report
