"""State against NumPy: a field stepped by its updates and written as npy files, running statistics, metrics over an evaluation set, metrics of
parameters as the step reads them."""
import json
import os

import numpy as np

from common import Report, json_lines, meshc, scratch
from common import run as execute
from oracle import safetensors
from texts.batch_norm import BATCH_NORM

SEED = 20261120
BOUND = 1e-12

FIELD = """dim x = 11, y = 6, layer = 3
model Field {
  input source : f64[x, y]
  state u, before : f64[x, y] = zeros
  state done : i32 = 0
  wall = position[x] == 0 or position[x] == size[x] - 1
  metric heat  = sum[x, y](u)
  metric steps = f64(done)
  next   = where(wall, 100.0, 0.75 * u + 0.1 * sin(source))
  change = max[x, y](abs(next - u))
  metric moved  = change
  metric inline = max[x, y](abs(next - u))
  u      <- next
  before <- u
  done   <- done + 1
  drift : f64[y, x] = u - before
  repeat layer {
    state turns : f64[y] = ones
    turns <- turns + sum[x](u) * f64(position[layer] + 1)
  }
  output u, drift, done
}
mesh plane { rows: 3, columns: 2 }
mesh line { all: 2 }
layout whole on line { replicate over all }
layout rows on line { x -> all }
layout tiles on plane { x -> rows; y -> columns }
"""

STATISTICS = """dim batch = 4, wide = 5, kind = 3
""" + BATCH_NORM + """model Normed {
  input a : real[batch, wide]
  input b : index(kind)[batch]
  param w : real[wide] = ones
  n = batch_norm[wide](a)
  s = dot[wide](n, w)
  loss = mean[batch](s ^ 2)
  metric root     = sqrt(loss)
  metric chosen   = mean[batch](s, where: b == 1)
  metric share    = mean[batch](b == 1)
  metric highest  = max[batch](s)
  metric lowest   = min[batch](s)
  metric square   = dot[batch](s, s)
  metric counted  = sum[kind](scatter_add[batch as kind](s, b) ^ 2)
  metric second   = s[batch = 1]
  metric together = logsumexp[batch](s)
  metric spread   = sqrt(mean[batch]((s - mean[batch](s)) ^ 2))
  metric soft     = sum[batch](softmax[batch](s) * s)
  metric moments  = mean[batch](s ^ 2) - mean[batch](s) ^ 2
  minimize loss with sgd(lr: 0)
}
mesh line { all: 2 }
layout whole on line { replicate over all }
layout split on line { batch -> all }
"""

# Samples by other names: renamed, as one dim with others, and in chunks.
RENAMED = """dim batch = 4, wide = 5, cell = batch * wide, other = batch, chunk = 2, inside = 2
model Renamed {
  input a : real[batch, wide]
  input keep : bool[batch, wide]
  param w : real[wide] = ones
  each = ((a * w) ^ 2)[batch * wide as cell]
  kept = real(keep[batch * wide as cell])
  row = mean[wide](each[cell as batch * wide])
  loss = sum[cell](each * kept) / sum[cell](kept)
  metric cells  = sum[cell](each)
  metric most   = max[cell](each)
  metric masked = mean[cell](each, where: keep[batch * wide as cell])
  metric called = sum[other](row[batch as other] ^ 2)
  metric chunks = sum[chunk](mean[inside](row[batch as chunk * inside]) ^ 2)
  minimize loss with sgd(lr: 0)
}
mesh line { all: 2 }
layout whole on line { replicate over all }
layout split on line { batch -> all }
layout parts on line { replicate over all; batch -> none { accumulate: 2 } }
"""

PARAMETERS = """dim n = 4
model Scaled {
  input x : real[n]
  param w : real[n] = 2
  param scale : real = 1.5
  loss = mean[n]((x * w * scale) ^ 2)
  metric itself = scale
  metric entry  = w[n = 0]
  metric two    = w[n = 1] + w[n = 2]
  metric total  = sum[n](w)
  metric curved = exp(scale)
  minimize loss with sgd(lr: 0.1, weight_decay: 0.5)
}
mesh line { all: 2 }
layout whole on line { replicate over all }
layout split on line { n -> all }
"""


BEGIN = """dim x = 8, y = 6, layer = 3
model Begin {
  input step_of : f64[x, y]
  param w : real[x, y] = normal(std: 1)
  state average = w
  state wave : f64[x, y] = where(position[x] < 3, sin(f64(position[x]) / 2), 0.1) * f64(step_of)
  state kept : i32[x] = position[x] * 2
  average <- 0.5 * average + w * 0
  wave    <- wave + 1
  deep = 0.0 * sum[x, y](w)
  repeat layer {
    param v : real[y] = normal(std: 1)
    state slow = v
    slow <- 0.5 * slow
    deep = deep + sum[y](slow)
  }
  metric depth = deep
  metric first = sum[x](kept)
  loss = mean[x, y]((w - average) ^ 2)
  minimize loss with sgd(lr: 0)
}
mesh plane { rows: 3, columns: 2 }
layout whole on plane { replicate over rows; replicate over columns }
layout tiles on plane { x -> rows; y -> columns }
"""


def check_beginnings(report, folder, random, layouts):
    """States that begin as a parameter or an expression: after some steps, resumed from a checkpoint, and where a file is given in its place."""
    spec, steps = f"{folder}/begin.mesh", 4
    with open(spec, "w") as file:
        file.write(BEGIN)
    w, v, given, own = random.normal(size=(8, 6)), random.normal(size=(3, 6)), random.normal(size=(8, 6)), random.normal(size=(8, 6))
    safetensors.write(f"{folder}/begin.safetensors", {"w": w, "layer.v": v})
    np.save(f"{folder}/step_of.npy", given)
    np.save(f"{folder}/own.npy", own)
    wave = np.where(np.arange(8) < 3, np.sin(np.arange(8) / 2), 0.1)[:, None] * given
    for layout in layouts:
        for title, begins, options in (("an expression", wave, ()), ("a file in its place", own, ("--feed", f"wave={folder}/own.npy"))):
            expected = {"average": w * 0.5**steps, "wave": begins + steps, "kept": np.arange(8) * 2, "layer.slow": v * 0.5**steps}
            out = f"{folder}/begun-{layout}-{len(options)}"
            execute(meshc(), "fetch", spec, *expected, "--layout", layout, "--feed", f"step_of={folder}/step_of.npy", *options, "--params", f"{folder}/begin.safetensors",
                    "--steps", steps, "--precision", "f64", "--out", out)
            worst = max((far(np.load(f"{out}/{name}.npy"), value), name) for name, value in expected.items())
            report.check(f"states that begin as {title}, after {steps} steps, layout {layout}, worst {worst[1]}", f"{worst[0]:.1e}", BOUND, worst[0] <= BOUND)
        execute(meshc(), "verify", spec, "--layout", layout, "--steps", "3")
        report.true(f"states that begin as an expression: verify, layout {layout}", True)
        # Two halves with a checkpoint between them, and a validation before the first step, which sees what the states begin as.
        lines = f"{folder}/begin-{layout}.jsonl"
        settings = [f"data.step_of.file={folder}/step_of.npy", f"validation.step_of.file={folder}/step_of.npy", "validation.every=1", f"checkpoint.dir={folder}/ck-{layout}", "checkpoint.every=2",
                    "log.every=1", f"train.params={folder}/begin.safetensors"]
        for until in (2, 4):
            execute(meshc(), "run", spec, "--layout", layout, *settings[:6], *(settings[6:] if until == 2 else []), f"train.steps={until}", f"log.jsonl={lines}", "-A", "oversubscribed")
            logged = {line["step"]: line for line in json_lines(lines) if "depth" in line}
            wrong = max(abs(logged[step]["depth"] - v.sum() * 0.5 ** (step - 1)) for step in range(until - 1, until + 1))
            report.check(f"states that begin as an expression, to step {until}, layout {layout}", f"{wrong:.1e}", 1e-5, wrong <= 1e-5)


FRESH = """dim batch = 4, wide = 4
model Kept {
  input x : real[batch, wide]
  param p : real[wide] = 0.5
  state count : real[wide] = p * 3
  count <- count + 1
  loss = mean[batch, wide]((x - p) ^ 2)
  metric counted = mean[wide](count)
  minimize loss with sgd(lr: 0)
}
"""


def check_fresh(report, folder):
    """A state that `--fresh` names is not read: it begins as the spec says."""
    spec = f"{folder}/fresh.mesh"
    with open(spec, "w") as file:
        file.write(FRESH)
    np.save(f"{folder}/fresh_x.npy", np.ones((8, 4), np.float32))
    data = f"data.x.file={folder}/fresh_x.npy"
    execute(meshc(), "run", spec, data, "train.steps=4", f"checkpoint.dir={folder}/fresh_ck")
    for options, expected in ((), 5.5), (("--fresh", "count"), 1.5):
        got = json.loads(execute(meshc(), "evaluate", spec, data, "--params", f"{folder}/fresh_ck", *options, "--json").stdout)["metrics"]["counted"]
        report.true(f"a state of a model that is used, {options or 'as it was saved'}", got == expected, f"{got}, expected {expected}")


def field_after(source, u, steps):
    """What the model holds after so many steps."""
    wall = np.zeros(source.shape[0], bool)
    wall[[0, -1]] = True
    before, turns, heat, moved = np.zeros_like(u), np.ones((3, source.shape[1])), 0.0, 0.0
    for _ in range(steps):
        heat = u.sum()  # a metric reads what the step reads
        drift = (u - before).T
        turns = turns + u.sum(0) * np.arange(1, 4)[:, None]
        before, u = u, np.where(wall[:, None], 100.0, 0.75 * u + 0.1 * np.sin(source))
        moved = np.abs(u - before).max()
    return {"u": u, "before": before, "drift": drift, "done": np.int32(steps), "layer.turns": turns, "heat": heat, "steps": np.float64(steps - 1), "moved": moved, "inline": moved}


def far(got, expected):
    """The largest difference relative to the largest number."""
    if got.shape != np.shape(expected):
        raise ValueError(f"shape {got.shape}, NumPy {np.shape(expected)}")
    return float(np.abs(got - expected).max() / max(np.abs(expected).max(), 1))


def check_field(report, folder, random, layouts, built):
    source, first = random.normal(size=(11, 6)), random.normal(size=(11, 6))
    spec, steps = f"{folder}/field.mesh", 7
    with open(spec, "w") as file:
        file.write(FIELD)
    np.save(f"{folder}/source.npy", source)
    np.save(f"{folder}/u.npy", first)
    expected = field_after(source, first, steps)
    for layout in layouts:
        out = f"{folder}/fetched-{layout}"
        execute(meshc(), "fetch", spec, *expected, "--layout", layout, "--feed", f"source={folder}/source.npy", "--feed", f"u={folder}/u.npy", "--steps", steps, "--out", out)
        worst = max((far(np.load(f"{out}/{name}.npy"), value), name) for name, value in expected.items())
        report.check(f"a field after {steps} steps, layout {layout}, worst {worst[1]}", f"{worst[0]:.1e}", BOUND, worst[0] <= BOUND)
    run_file = f"{folder}/field.yaml"
    with open(run_file, "w") as file:
        file.write(f"""data: {{ source: {{file: source.npy}}, u: {{file: u.npy}} }}
validation: {{ every: 3 }}
train: {{ steps: {steps} }}
log: {{ every: 1, jsonl: {folder}/field.jsonl }}
output: {{ u: {{every: 2, file: "{folder}/at/u_{{step}}.npy"}}, drift: {{file: "{folder}/drift.npy"}}, done: {{file: "{folder}/done.npy"}} }}
""")
    for layout in built:
        execute(meshc(), "run", spec, run_file, "--layout", layout, "-A", "oversubscribed")
        errors = [(far(np.load(f"{folder}/at/u_{step}.npy"), field_after(source, first, step)["u"]), f"u_{step}") for step in (2, 4, 6)]
        errors += [(far(np.load(f"{folder}/{name}.npy"), expected[name]), name) for name in ("drift", "done")]
        lines = [line for line in json_lines(f"{folder}/field.jsonl") if "heat" in line]
        errors += [(far(np.float64(line[name]), field_after(source, first, line["step"])[name]), f"{name} {line['step']}") for line in lines for name in ("heat", "steps", "moved", "inline")]
        worst = max(errors)
        good = worst[0] <= BOUND and len(lines) == steps and sorted(os.listdir(f"{folder}/at")) == ["u_2.npy", "u_4.npy", "u_6.npy"]
        report.check(f"files of a running field, layout {layout}, worst {worst[1]}", f"{worst[0]:.1e}", BOUND, good)


def normed(a, mean, var):
    return (a - mean) / np.sqrt(var + 1e-5)


def check_statistics(report, folder, random, layouts, built, small):
    a, b = random.normal(size=(12, 5)) * 2 + 1, random.integers(0, 3, 12).astype(np.int32)
    spec, batches, bound = f"{folder}/normed.mesh", 3, 2e-6
    with open(spec, "w") as file:
        file.write(STATISTICS)
    mean, var = np.zeros(5), np.ones(5)
    for step in range(batches):
        part = a[4 * step:4 * step + 4]
        mean, var = 0.9 * mean + 0.1 * part.mean(0), 0.9 * var + 0.1 * part.var(0, ddof=1)
    np.save(f"{folder}/a.npy", a[:4])
    np.save(f"{folder}/b.npy", b[:4])
    once = {"batch_norm.seen_mean": 0.1 * a[:4].mean(0), "batch_norm.seen_var": 0.9 + 0.1 * a[:4].var(0, ddof=1), "n": normed(a[:4], a[:4].mean(0), a[:4].var(0))}
    for layout in layouts:
        out = f"{folder}/once-{layout}"
        execute(meshc(), "fetch", spec, *once, "--layout", layout, "--feed", f"a={folder}/a.npy", "--feed", f"b={folder}/b.npy", "--precision", "f64", "--out", out)
        worst = max((far(np.load(f"{out}/{name}.npy"), value), name) for name, value in once.items())
        report.check(f"running statistics, layout {layout}, worst {worst[1]}", f"{worst[0]:.1e}", BOUND, worst[0] <= BOUND)
    # The whole set, with the statistics that training left. Of sets that the batch does not divide the last batch counts by its samples.
    np.save(f"{folder}/all_a.npy", a)
    np.save(f"{folder}/all_b.npy", b)
    run_file = f"{folder}/normed.yaml"
    sizes = (12, 11, 3) if small else (12, 11, 10, 9, 7, 3, 2, 1)
    with open(run_file, "w") as file:
        file.write(f"""data: {{ a: {{file: all_a.npy}}, b: {{file: all_b.npy}} }}
validation: {{ a: {{}}, b: {{}} }}
train: {{ steps: {batches} }}
log: {{ jsonl: {folder}/normed.jsonl }}
""")
    for size in sizes:
        s, chosen = normed(a, mean, var).sum(1)[:size], b[:size] == 1
        expected = {"loss": (s**2).mean(), "root": np.sqrt((s**2).mean()), "chosen": s[chosen].sum() / max(1, chosen.sum()), "share": chosen.mean(),
                    "highest": s.max(), "lowest": s.min(), "square": (s**2).sum(), "counted": (np.bincount(b[:len(s)], s) ** 2).sum(), "moments": (s**2).mean() - s.mean() ** 2}
        if size % 4 == 0:  # a metric that mixes samples otherwise is an average over batches
            parts = s.reshape(-1, 4)
            weights = np.exp(parts - parts.max(1, keepdims=True))
            expected |= {"together": np.mean(np.log(np.exp(parts).sum(1))), "spread": parts.std(1).mean(), "second": parts[:, 1].mean(),
                         "soft": ((weights * parts).sum(1) / weights.sum(1)).mean()}
        for layout in built:
            execute(meshc(), "run", spec, run_file, "--layout", layout, f"validation.a.to={size}", f"validation.b.to={size}")
            line = [line for line in json_lines(f"{folder}/normed.jsonl") if "validation" in line][-1]
            worst = max((far(np.float64(line["validation"][name]), value), name) for name, value in expected.items())
            report.check(f"metrics over {size} samples in batches of 4, layout {layout}, worst {worst[1]}", f"{worst[0]:.1e}", bound,
                         worst[0] <= bound and line["batches"] == -(-size // 4))


def check_renamed(report, folder, random, layouts):
    """Metrics over a set, of samples that are called otherwise where they are added up; those over chunks are averages over batches."""
    a, keep, spec, bound = random.normal(size=(12, 5)), random.random((12, 5)) < np.linspace(0.1, 0.9, 12)[:, None], f"{folder}/renamed.mesh", 2e-6
    with open(spec, "w") as file:
        file.write(RENAMED)
    np.save(f"{folder}/cells.npy", a)
    np.save(f"{folder}/keep.npy", keep)
    safetensors.write(f"{folder}/ones.safetensors", {"w": np.ones(5)})
    for size in (12, 11, 3):
        each, kept = a[:size] ** 2, keep[:size]
        rows = each.mean(1)
        expected = {"loss": each[kept].sum() / kept.sum(), "cells": each.sum(), "most": each.max(), "masked": each[kept].mean(), "called": (rows**2).sum()}
        if size % 4 == 0:
            expected["chunks"] = (rows.reshape(-1, 2).mean(1) ** 2).reshape(-1, 2).sum(1).mean()
        for layout in layouts:
            said = execute(meshc(), "evaluate", spec, "--layout", layout, "--params", f"{folder}/ones.safetensors", f"data.a={{file: {folder}/cells.npy, to: {size}}}",
                           f"data.keep={{file: {folder}/keep.npy, to: {size}}}", "--json", "-A", "oversubscribed")
            got = json.loads(said.stdout)["metrics"]
            worst = max((far(np.float64(got[name]), value), name) for name, value in expected.items())
            report.check(f"metrics over {size} samples by other names, layout {layout}, worst {worst[1]}", f"{worst[0]:.1e}", bound, worst[0] <= bound)


def check_parameters(report, folder, random, layouts):
    """What a step logs of a parameter is what it reads, not what it makes of it."""
    x, spec, steps, bound = random.normal(size=4), f"{folder}/scaled.mesh", 3, 2e-6
    with open(spec, "w") as file:
        file.write(PARAMETERS)
    np.save(f"{folder}/x.npy", x)
    w, scale, expected = np.full(4, 2.0), 1.5, []
    for _ in range(steps):
        expected.append({"loss": ((x * w * scale) ** 2).mean(), "itself": scale, "entry": w[0], "two": w[1] + w[2], "total": w.sum(), "curved": np.exp(scale)})
        d_w, d_scale = x**2 * w * scale**2 / 2, (x**2 * w**2 * scale / 2).sum()
        w, scale = w - 0.1 * (d_w + 0.5 * w), scale - 0.1 * (d_scale + 0.5 * scale)
    for layout in layouts:
        execute(meshc(), "run", spec, "--layout", layout, f"data.x.file={folder}/x.npy", f"train.steps={steps}", "log.every=1", f"log.jsonl={folder}/scaled-{layout}.jsonl")
        lines = [line for line in json_lines(f"{folder}/scaled-{layout}.jsonl") if "itself" in line]
        worst = max((far(np.float64(line[name]), value), f"{name} {line['step']}") for line, values in zip(lines, expected) for name, value in values.items())
        report.check(f"metrics of parameters, layout {layout}, worst {worst[1]}", f"{worst[0]:.1e}", bound, worst[0] <= bound and len(lines) == steps)


def run(small):
    report = Report()
    random = np.random.default_rng(SEED)
    print(f"seed {SEED}")
    with scratch() as folder:
        report.attempt("a field", lambda: check_field(report, folder, random, ("whole", "tiles") if small else ("whole", "rows", "tiles"), ("rows",) if small else ("whole", "rows", "tiles")))
        report.attempt("beginnings", lambda: check_beginnings(report, folder, random, ("whole", "tiles")))
        report.attempt("fresh", lambda: check_fresh(report, folder))
        report.attempt("statistics", lambda: check_statistics(report, folder, random, ("whole", "split"), ("split",) if small else ("whole", "split"), small))
        report.attempt("renamed", lambda: check_renamed(report, folder, random, ("whole", "split", "parts")))
        report.attempt("parameters", lambda: check_parameters(report, folder, random, ("whole", "split")))
    return report
