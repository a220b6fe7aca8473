"""batch_norm, ghost_batch_norm, group_norm and instance_norm of std.nn: values, gradients and running statistics against NumPy and, where it is installed,
PyTorch (f64, 1e-12); under layouts and micro-batches as on one rank; evaluations with what training left."""
import json
import os

import numpy as np

from common import Report, meshc, scratch
from common import run as execute
from oracle import safetensors
from oracle.norms import EPSILON, Norm, running

SEED = 20261125
BOUND = 1e-12
SIZES = dict(batch=6, h=3, w=5, channel=4, group=2, chunk=3)
NORMS = {"whole": Norm((0, 1, 2)), "ghost": Norm((1, 2, 3), (3, 2, 3, 5, 4)), "each": Norm((1, 2)), "groups": Norm((1, 2, 4), (6, 3, 5, 2, 2))}
SPEC = """import std.nn
dim batch = 6, h = 3, w = 5, channel = 4, group = 2, chunk = 3, sample = batch / chunk, same = channel
model Norms {
  input x : real[batch, h, w, channel]
  param whole  : batch_norm[channel]
  param ghost  : ghost_batch_norm[chunk, channel]
  param each   : instance_norm[batch, channel]
  param groups : group_norm[batch, group, channel]
  param mix    : real[channel, same] = fan_in[channel]
  v = dot[channel](x, mix)[same as channel]
  a = WHOLE
  b = GHOST
  c = each(v)
  d = groups(v)
  loss = mean[batch, h, w, channel](a ^ 3 + b ^ 3 + c ^ 3 + d ^ 3)
  metric seen = mean[batch, h, w, channel](a + 2 * b)
  minimize loss with sgd(lr: 0)
}
mesh line { all: 2 }
mesh grid { p: 2, q: 2 }
layout single on line { replicate over all }
layout samples on line { batch, chunk -> all }
layout channels on line { channel, group -> all }
layout uneven on grid { h -> p; w -> q }
layout both on grid { batch, chunk -> p; channel -> q }
layout parts on line { batch -> all { accumulate: 3 } }
layout halves on line { batch -> none { accumulate: 2 } }
"""
RESULTS = dict(zip("abcd", NORMS))


def far(got, expected):
    if got.shape != expected.shape:
        raise ValueError(f"shape {got.shape}, expected {expected.shape}")
    return float(np.abs(got - expected).max() / max(1.0, np.abs(expected).max()))


def arrays():
    random = np.random.default_rng(SEED)
    found = {"x": 2 + random.standard_normal((6, 3, 5, 4)), "mix": random.standard_normal((4, 4))}
    for name in NORMS:
        found |= {f"{name}.gain": random.standard_normal(4), f"{name}.bias": random.standard_normal(4)}
    return found


def expected(known, steps):
    """Values and gradients of a step, and the states after so many."""
    x, mix = known["x"], known["mix"]
    v = x @ mix
    found, d_v = {"v": v}, 0
    for result, name in RESULTS.items():
        norm, gain, bias = NORMS[name], known[f"{name}.gain"], known[f"{name}.bias"]
        y = norm(v, gain, bias)
        more, d_gain, d_bias = norm.gradients(v, gain, 3 * y ** 2 / y.size)
        found |= {result: y, f"grad({name}.gain)": d_gain, f"grad({name}.bias)": d_bias}
        d_v = d_v + more
    found["grad(mix)"] = np.einsum("bhwc,bhws->cs", x, d_v)
    for name, count in (("whole", 90), ("ghost", 30)):
        mean, variance = (s.reshape(-1, 4).mean(0) for s in NORMS[name].statistics(v))
        found |= {f"{name}.running_mean": running(np.zeros(4), mean, steps), f"{name}.running_var": running(np.ones(4), variance * count / (count - 1), steps)}
    return found


def write(folder, known):
    safetensors.write(f"{folder}/params.safetensors", {name: value for name, value in known.items() if name != "x"})
    np.save(f"{folder}/x.npy", known["x"])
    chunks = "ghost(v[batch as chunk * sample])[chunk * sample as batch]"
    for name, whole, ghost in (("norms", "whole(v)", chunks), ("alone", "v", "v")):
        with open(f"{folder}/{name}.mesh", "w") as file:
            file.write(SPEC.replace("WHOLE", whole).replace("GHOST", ghost))


def fetched(folder, title, spec, names, *options):
    out = f"{folder}/{title}"
    execute(meshc(), "fetch", f"{folder}/{spec}.mesh", *names, "--feed", f"x={folder}/x.npy", "--params", f"{folder}/params.safetensors", "--precision", "f64", "--out", out, *options)
    return {file[:-4]: np.load(f"{out}/{file}") for file in os.listdir(out)}


def compare(report, title, got, wanted):
    worst, name = max((far(got[name], value), name) for name, value in wanted.items())
    report.check(f"{title}, {len(wanted)} tensors, worst {name}", f"{worst:.1e}", BOUND, worst <= BOUND)


def under_layouts(report, folder, known):
    for steps in (1, 3):
        wanted = expected(known, steps)
        for layout in ("single", "samples", "channels", "uneven", "both"):
            got = fetched(folder, f"{layout}-{steps}", "norms", wanted, "--layout", layout, "--steps", steps)
            compare(report, f"layout {layout}, step {steps}", got, wanted)


def by_micro_batches(report, folder, known):
    """Norms of single samples and of chunks are the same; that of the whole batch is the lint batch_coupled, and exact where that is allowed."""
    refused = execute(meshc(), "plan", f"{folder}/norms.mesh", "--layout", "parts", code=1).stderr
    report.true("norms.mesh by micro-batches: batch_coupled", "error[batch_coupled]" in refused, refused)
    refused = execute(meshc(), "plan", f"{folder}/norms.mesh", "--layout", "halves", "-A", "batch_coupled", code=1).stderr
    report.true("norms.mesh by micro-batches that cut chunks: E0413", "error[E0413]" in refused, refused)
    wanted = {name: value for name, value in expected(known, 1).items() if name in "vcd" or name.startswith(("grad(each", "grad(groups"))}
    compare(report, "three micro-batches on two ranks, norms of single samples", fetched(folder, "alone", "alone", wanted, "--layout", "parts"), wanted)
    for steps in (1, 3):
        wanted = expected(known, steps)
        got = fetched(folder, f"coupled-{steps}", "norms", wanted, "--layout", "parts", "--steps", steps, "-A", "batch_coupled")
        compare(report, f"three micro-batches on two ranks, statistics of chunks and of the whole batch, step {steps}", got, wanted)


def evaluated(report, folder, known):
    """Evaluations normalise by what three steps left, whatever is in their batch."""
    with open(f"{folder}/norms.yaml", "w") as file:
        file.write("data: { x: { file: x.npy } }\nvalidation: { every: 3, x: { file: other.npy } }\ntrain: { steps: 3 }\ncheckpoint: { dir: ck }\nlog: { jsonl: log.jsonl }\n")
    other = 5 + np.random.default_rng(SEED + 1).standard_normal((6, 3, 5, 4))
    np.save(f"{folder}/other.npy", other)

    def is_seen(what, layout, steps, *options):
        done = execute(meshc(), "run", "norms.mesh", "--layout", layout, "--precision", "f64", "-A", "oversubscribed", *options, cwd=folder)
        with open(f"{folder}/log.jsonl") as lines:
            seen = [json.loads(line)["validation"]["seen"] for line in lines if '"validation"' in line][-1]
        wanted, v = expected(known, steps), other @ known["mix"]
        by = {name: ((v - wanted[f"{name}.running_mean"]) / np.sqrt(wanted[f"{name}.running_var"] + EPSILON) * known[f"{name}.gain"] + known[f"{name}.bias"]) for name in ("whole", "ghost")}
        right = (by["whole"] + 2 * by["ghost"]).mean()
        report.check(f"layout {layout}: an evaluation after {what}", f"{abs(seen - right):.1e}", BOUND * abs(right), abs(seen - right) <= BOUND * abs(right))
        return done.stdout + done.stderr

    for layout in ("single", "samples", "both"):
        execute("rm", "-rf", "ck", "further", "anew", "log.jsonl", cwd=folder)
        said = is_seen("three steps", layout, 3, f"train.params={folder}/params.safetensors")
        report.true(f"layout {layout}: the file of parameters has no statistics, and the run says so", "lacks the states" in said and "whole.running_mean" in said, said)
        begins = ["train.steps=1", "train.params=ck/step-3", "log.jsonl=log.jsonl"]
        is_seen("one more, of a run that begins with them", layout, 4, *begins, "checkpoint.dir=further")
        is_seen("one, of a run that begins with the parameters alone", layout, 1, *begins, "checkpoint.dir=anew", 'train.fresh=["**.running_mean", "**.running_var"]')


def beside_torch(report, known):
    try:
        import torch
        from torch.nn import functional
    except ImportError:
        report.skip("norms beside PyTorch", "it is not installed (Debian: python3-torch)")
        return
    wanted = expected(known, 3)
    tensor = {name: torch.from_numpy(value).requires_grad_() for name, value in known.items()}
    v = (tensor["x"] @ tensor["mix"]).permute(0, 3, 1, 2)
    states = {name: torch.from_numpy(np.full(4, value)) for name, value in (("running_mean", 0.0), ("running_var", 1.0))}
    gain_and_bias = lambda name: (tensor[f"{name}.gain"], tensor[f"{name}.bias"])
    a = functional.batch_norm(v, states["running_mean"], states["running_var"], *gain_and_bias("whole"), training=True)
    for _ in range(2):
        functional.batch_norm(v, states["running_mean"], states["running_var"], *gain_and_bias("whole"), training=True)
    b = torch.cat([functional.batch_norm(part, None, None, *gain_and_bias("ghost"), training=True) for part in v.split(2)])
    c = functional.instance_norm(v, weight=tensor["each.gain"], bias=tensor["each.bias"])
    d = functional.group_norm(v, 2, *gain_and_bias("groups"))
    sum((y ** 3).mean() for y in (a, b, c, d)).backward()
    got = {name: y.permute(0, 2, 3, 1).detach().numpy() for name, y in zip("abcd", (a, b, c, d))}
    got |= {f"grad({name})": value.grad.numpy() for name, value in tensor.items() if name != "x"}
    got |= {f"whole.{name}": value.numpy() for name, value in states.items()}
    compare(report, "NumPy's norms are PyTorch's", got, {name: wanted[name] for name in got})


def run(small):
    report = Report()
    known = arrays()
    with scratch() as folder:
        write(folder, known)
        report.attempt("under layouts", lambda: under_layouts(report, folder, known))
        report.attempt("by micro-batches", lambda: by_micro_batches(report, folder, known))
        report.attempt("evaluated", lambda: evaluated(report, folder, known))
        report.attempt("beside PyTorch", lambda: beside_torch(report, known))
    return report
