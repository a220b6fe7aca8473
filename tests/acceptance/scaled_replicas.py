"""Replicas that train apart with a scaled loss, against a simulation in NumPy: each has its own scale and skips steps by itself, and the outer steps come when they would. Products
of f16 with SGD bit by bit; AdamW with clipping, which counts the steps that a replica has taken. Part of `tests/full replicas`."""
import json
import math

import numpy as np

import equality
from checkpoints import same, tensors
from common import json_lines, meshc
from common import run as execute
from loss_scale import GradScaler, distance
from oracle import torch_optim as optim

BATCH, A, H, SYNC, STEPS, REPLICAS = 4, 6, 8, 4, 13, 2
# The gradient of what is squared goes through `heavy` and then `light`. All sizes are powers of two, and inputs have few bits: sums are the same in any order.
SPEC = f"""dim batch = {BATCH}, a = {A}, h = {H}
model Scaled {{
  input x : real[batch, a]
  input y : real[batch, h]
  input heavy, light : real[batch]
  param w : real[a, h] = ones
  u = dot[a](x, w) - y
  loss = mean[batch, h]((u * (u * light)) * heavy)
  minimize loss with OPTIMIZER
}}
mesh line {{ data: 2 }}
mesh plane {{ data: 2, model: 2 }}
layout pair on line {{ batch -> data {{ sync: {SYNC}, outer: sgd(lr: 0.5, momentum: 0.75, nesterov: true) }} }}
layout square on plane {{ batch -> data {{ sync: {SYNC}, outer: sgd(lr: 0.5, momentum: 0.75, nesterov: true) }}; h -> model }}
precision half {{ compute: f16 }}
precision wide {{ loss_scale: dynamic }}
precision fixed {{ compute: f16, loss_scale: 65536 }}
"""
RANKS = {"pair": 2, "square": 4}
RATE, CLIP = 2.0**-6, 0.5
OPTIMIZERS = {"sgd": (f"sgd(lr: {RATE}, momentum: 0.875)", lambda: optim.Sgd(momentum=0.875), None),
              "adamw": (f"adamw(lr: {RATE}, weight_decay: 0.125, clip: {CLIP})", lambda: optim.AdamW(weight_decay=0.125), CLIP)}
# The exponent of `heavy` by step and replica: the first step of one, the step before an outer one and those beside it of the other, one of both.
QUIET = (0, 0)
EXPONENTS = {"half": [(5, 0), QUIET, (0, 6), (0, 5), (0, 7), QUIET, (7, 8), QUIET, QUIET, QUIET, QUIET, (9, 0), QUIET],
             "wide": [(116, 9), QUIET, (0, 115), (0, 116), (0, 117), QUIET, (118, 119), QUIET, QUIET, QUIET, QUIET, (119, 0), QUIET]}
EXPONENTS["fixed"] = EXPONENTS["half"]


def batches(folder, random, exponents, light):
    rows, each = BATCH * len(exponents), BATCH // REPLICAS
    e = np.repeat(np.array(exponents, np.float64).reshape(-1), each)
    arrays = {"x": random.integers(-2, 3, (rows, A)) / 2, "y": random.integers(-8, 9, (rows, H)) / 4, "heavy": np.exp2(e), "light": np.exp2(-e) if light else np.ones(rows)}
    for name, array in arrays.items():
        arrays[name] = array.astype(np.float32)
        np.save(f"{folder}/{name}.npy", arrays[name])
    return arrays


def loss_and_gradient(w, arrays, rows, scale, narrow):
    """That of the scaled loss, in f32 but for the operands of products, divided by the scale."""
    rounded = (lambda x: x.astype(np.float16).astype(np.float32)) if narrow else (lambda x: x)
    x, y, heavy, light = (arrays[name][rows] for name in ("x", "y", "heavy", "light"))
    heavy, light = heavy[:, None], light[:, None]
    with np.errstate(over="ignore", invalid="ignore"):
        u = rounded(x) @ rounded(w) - y
        loss = (u * (u * light) * heavy).mean(dtype=np.float64)
        d = np.float32(scale) * np.float32(1 / u.size) * heavy
        d = d * (u * light) + (d * u) * light
        return float(loss), (rounded(x).T @ rounded(d)) * (np.float32(1) / np.float32(scale))


def simulate(arrays, optimizer, precision):
    """Of each step what is logged and which replicas skip it; then all tensors."""
    _, make, largest = OPTIMIZERS[optimizer]
    own, inner = [np.ones((A, H), np.float32) for _ in range(REPLICAS)], [make() for _ in range(REPLICAS)]
    shared, momentum = np.ones((A, H), np.float32), np.zeros((A, H), np.float32)
    scalers, logged, skips = [GradScaler(dynamic=precision != "fixed") for _ in range(REPLICAS)], [], []
    for step in range(STEPS):
        now = []
        skips.append([])
        for r, scaler in enumerate(scalers):
            begin = step * BATCH + r * BATCH // REPLICAS
            loss, g = loss_and_gradient(own[r], arrays, slice(begin, begin + BATCH // REPLICAS), scaler.scale, precision != "wide")
            finite = bool(np.isfinite(g).all())
            now.append((loss, scaler.scale, scaler.skipped, math.sqrt(float((g.astype(np.float64)**2).sum())) if finite else math.nan))
            if finite:
                clipped = optim.clip({"w": g}, largest)["w"] if largest else g
                own[r] = inner[r].step("w", own[r], np.asarray(clipped, np.float32), np.float32(RATE), step + 1 - scaler.skipped).astype(np.float32)
            skips[-1].append(not finite)
            scaler.update(finite)
        logged.append(dict(zip(("loss", "loss_scale", "skipped_steps", "grad_norm"), np.mean(now, axis=0))))
        if (step + 1) % SYNC == 0:
            gradient = shared - np.mean(own, axis=0, dtype=np.float32)
            momentum = momentum * np.float32(0.75) + gradient
            shared = shared - (gradient + momentum * np.float32(0.75)) * np.float32(0.5)
            own = [shared.copy() for _ in range(REPLICAS)]
    kept = [getattr(one, "moments", None) or {"w": (one.buffers["w"],)} for one in inner]
    names = ("momentum",) if len(kept[0]["w"]) == 1 else ("moment1", "moment2")
    found = {"w": shared, "w.replica": np.stack(own), "w.outer_momentum": momentum, "loss.skipped_steps.replica": np.array([one.skipped for one in scalers]),
             **{f"w.replica.{name}": np.stack([one["w"][i] for one in kept]) for i, name in enumerate(names)}}
    if precision != "fixed":
        found |= {"loss.scale.replica": np.array([one.scale for one in scalers]), "loss.good_steps.replica": np.array([one.good for one in scalers])}
    return logged, skips, found


class Trainer:
    """A built program, and its run file."""

    def __init__(self, folder, optimizer, layout, precision):
        self.folder, self.ranks, self.name = folder, RANKS[layout], f"scaled-{optimizer}-{layout}-{precision}"
        self.spec, self.options = f"{folder}/scaled-{optimizer}.mesh", ["--layout", layout, "--precision", precision, "-A", "changes_numbers"]
        with open(self.spec, "w") as file:
            file.write(SPEC.replace("OPTIMIZER", OPTIMIZERS[optimizer][0]))
        with open(f"{folder}/scaled.yaml", "w") as file:
            file.write("data: { " + ", ".join(f"{name}: {{ file: {name}.npy }}" for name in ("x", "y", "heavy", "light")) + " }\n"
                       "log: { every: 1, watch: [loss_scale, skipped_steps, grad_norm] }\n")
        execute(meshc(), "build", self.spec, f"{folder}/scaled.yaml", *self.options, "-o", f"{folder}/{self.name}")

    def train(self, title, steps, *more):
        """Lines of the steps; checkpoints are in the folder that is returned."""
        folder = f"{self.folder}/{self.name}-{title}"
        self.said = execute(f"{self.folder}/{self.name}/scaled-{self.name.split('-')[1]}", "-n", self.ranks, f"{self.folder}/scaled.yaml", f"train.steps={steps}", f"checkpoint.dir={folder}", f"log.jsonl={folder}.jsonl", *more).stdout
        return [{key: line[key] for key in ("step", "loss", "watch")} for line in json_lines(f"{folder}.jsonl") if "loss" in line], folder


def check_numbers(report, trainer, arrays, optimizer, precision):
    name, exact = trainer.name, optimizer == "sgd"
    logged, skips, expected = simulate(arrays, optimizer, precision)
    told = "".join(f" {''.join('x' if one else '.' for one in of)}" for of in zip(*skips))
    seen = skips[0] == [True, False] and skips[SYNC - 1] == [False, True] and [True, True] in skips and skips.count([False, False]) >= 4
    report.true(f"{name}: the first step, one before an outer step and one of both replicas are skipped, and some of none:{told}", seen, told)
    lines, folder = trainer.train("whole", STEPS)
    for key in ("loss_scale", "skipped_steps"):
        got = [line["watch"][key] for line in lines]
        report.true(f"{name}: {key} of each step is the replicas' mean", got == [one[key] for one in logged], got)
    wrong = [(line["loss"], one["loss"]) for line, one in zip(lines, logged, strict=True) if abs(line["loss"] / one["loss"] - 1) > 1e-6]
    report.true(f"{name}: the loss of each step", not wrong, wrong)
    norms = [(line["watch"]["grad_norm"], one["grad_norm"]) for line, one in zip(lines, logged)]
    wrong = [(a, b) for a, b in norms if math.isnan(b) != (a is None or not math.isfinite(a)) or not math.isnan(b) and abs(a / b - 1) > 1e-6]
    report.true(f"{name}: grad_norm of each step", not wrong, wrong)
    found = tensors(f"{folder}/step-{STEPS}")
    report.true(f"{name}: the checkpoint has what each replica has", found.keys() == expected.keys(), sorted(found.keys() ^ expected.keys()))
    far = {path: distance(found[path], value) for path, value in expected.items()}
    worst = max(far, key=far.get)
    report.check(f"{name}: {len(far)} tensors after {STEPS} steps from NumPy's, worst {worst}", float(f"{far[worst]:.1e}"), 0 if exact else 2e-6)
    counts = found["loss.skipped_steps.replica"].tolist()
    report.true(f"{name}: replicas skipped other numbers of steps", len(set(counts)) == REPLICAS, counts)
    report.true(f"{name}: the end says how many each", f"\n{', '.join(map(str, counts))} of {STEPS} steps were skipped by the replicas: " in trainer.said, trainer.said[-500:])
    return lines, folder


def check_resumed(report, trainer, whole, at):
    """Between two outer steps, at one, and behind steps that one replica skips."""
    lines, folder = whole
    for step in at:
        trainer.train(f"again-{step}", step)
        again, other = trainer.train(f"again-{step}", STEPS)
        report.true(f"{trainer.name}: stopped after step {step} and resumed: the same bits", same(f"{folder}/step-{STEPS}", f"{other}/step-{STEPS}") and again[-1] == lines[-1])


def check_interpreted(report, folder, random, trainer):
    """The same batch in each step, with which one replica begins to train once its scale is small enough."""
    arrays = batches(folder, random, [(0, 5)], False)
    steps = 2 * SYNC + 1
    lines, out = trainer.train("interpreted", steps)
    execute(meshc(), "fetch", trainer.spec, "param(w)", *trainer.options, "--steps", steps, *equality.feeds(folder, arrays), "--out", out)
    stored = tensors(f"{out}/step-{steps}")
    skipped = stored["loss.skipped_steps.replica"].tolist()
    report.true(f"{trainer.name}: one replica skips steps", skipped[0] == 0 < skipped[1] < steps, skipped)
    report.true(f"{trainer.name}: the interpreter has the same bits", np.array_equal(np.load(f"{out}/param(w).npy"), stored["w"]) and not np.all(stored["w"] == 1))


def check_commands(report, trainer):
    done = execute(meshc(), "verify", trainer.spec, *trainer.options, "--steps", SYNC + 1, code=None)
    report.true(f"{trainer.name}: equals one rank that trains the replicas in turn (verify)", done.returncode == 0, "" if done.returncode == 0 else done.stdout + done.stderr)
    plan = json.loads(execute(meshc(), "plan", trainer.spec, *trainer.options, "--json").stdout)
    sent = [(one["tensor"], one["bytes"]) for one in plan["collectives"] if "data" in one["axes"]]
    report.true(f"{trainer.name}: a step sends nothing over `data` but the loss", all(bytes_ <= 16 for _, bytes_ in sent) and len(sent) == 1, sent)


def check(report, folder, random, small):
    cases = [("sgd", "pair", "half"), ("adamw", "pair", "wide")]
    if not small:
        cases += [("sgd", "square", "half"), ("sgd", "pair", "fixed"), ("sgd", "square", "wide"), ("adamw", "square", "wide")]
    for optimizer, layout, precision in cases:
        arrays = batches(folder, random, EXPONENTS[precision], precision == "wide")
        trainer = Trainer(folder, optimizer, layout, precision)
        whole = check_numbers(report, trainer, arrays, optimizer, precision)
        check_commands(report, trainer)
        if precision != "fixed":
            check_resumed(report, trainer, whole, (1, SYNC, SYNC + 2))
        if precision == "half":
            check_interpreted(report, folder, random, trainer)
