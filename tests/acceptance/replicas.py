"""Replicas that train apart (local SGD, DiLoCo), pipelines among them, against a simulation in NumPy: losses, what they have in common, each replica's parameters, moments and the outer
momentum, in f64 within 1e-9 over three outer steps; stopped between two of them and resumed, on other transports, and one rank that trains the replicas in turn. With a
scaled loss: scaled_replicas.py."""
import json
import re

import numpy as np

import scaled_replicas
from checkpoints import same, tensors
from common import Report, json_lines, meshc, scratch
from common import run as execute
from oracle import safetensors
from oracle import torch_optim as optim

SEED = 20261123
BOUND = 1e-9
BATCH, A, H, L, O = 8, 5, 7, 4, 3
CLIP, RATE = 0.4, 0.03

SPEC = f"""dim batch = {BATCH}, a = {A}, h = {H}, g = h, l = {L}, o = {O}
model Fit {{
  input x : real[batch, a]
  input y : real[batch, o]
  param w : real[a, h] = fan_in[a]
  param out : real[h, o] = fan_in[h]
  u = tanh(dot[a](x, w))
  repeat l {{
    param v : real[h, g] = fan_in[h]
    u = u + tanh(dot[h](u, v))[g as h]
  }}
  param still : real[o] = normal(std: 1)
  loss = mean[batch, o]((dot[h](u, out) + still - y) ^ 2)
  minimize loss with adamw(lr: {RATE}, weight_decay: 0.1, clip: {CLIP}) {{ FROZEN {{ frozen }} }}
}}
mesh line {{ data: 2 }}
mesh plane {{ data: 2, model: 2 }}
"""
# The same with other names of samples: a rename, and a dim that is made of the batch.
MERGED = SPEC.replace(f", a = {A}", f", a = {A}, sample = batch, cell = batch * o").replace("u = tanh(dot[a](x, w))", "u = tanh(dot[a](x, w))[batch as sample]").replace(
    "loss = mean[batch, o]((dot[h](u, out) + still - y) ^ 2)",
    "wrong = (dot[h](u, out) + still)[sample as batch] - y\n  loss = mean[cell](wrong[batch * o as cell] ^ 2)")
OUTER = {"none": ("", dict(lr=1.0, momentum=0.0, nesterov=False)),
         "momentum": (", outer: sgd(lr: 0.6, momentum: 0.8)", dict(lr=0.6, momentum=0.8, nesterov=False)),
         "diloco": (", outer: sgd(lr: 0.7, momentum: 0.9, nesterov: true)", dict(lr=0.7, momentum=0.9, nesterov=True))}
# By which parameters train: all but one, or those of the repeat alone.
PARAMETERS = ("w", "out", "l.v", "still")
FROZEN = {"": ("still",), "layers": ("still", "w", "out"), "merged": ("still",)}
SPECS = {"merged": MERGED}
TRANSPORTS = {"threads": (["--threads"], {}), "arena": ([], {}), "UCX": ([], {"MESHRT_TRANSPORT": "ucx"})}


def loss_and_gradients(p, x, y):
    u = np.tanh(x @ p["w"])
    first, turns = u, []
    for v in p["l.v"]:
        t = np.tanh(u @ v)
        turns.append((u, t))
        u = u + t
    error = u @ p["out"] + p["still"] - y
    d = 2 * error / error.size
    gradients = {"out": u.T @ d}
    d = d @ p["out"].T
    layers = []
    for (before, t), v in zip(reversed(turns), p["l.v"][::-1]):
        inner = d * (1 - t**2)
        layers.append(before.T @ inner)
        d = d + inner @ v.T
    gradients["l.v"] = np.stack(layers[::-1])
    gradients["w"] = x.T @ (d * (1 - first**2))
    return (error**2).mean(), gradients


class Simulation:
    """DiLoCo as its paper's algorithm 1 says it: workers in turn, and an outer step of Nesterov's SGD on the mean of what they moved."""

    def __init__(self, start, replicas, sync, outer, frozen):
        self.shared, self.sync, self.outer = {n: p.copy() for n, p in start.items()}, sync, outer
        self.own = [{n: p.copy() for n, p in start.items()} for _ in range(replicas)]
        self.inner = [optim.AdamW(weight_decay=0.1) for _ in range(replicas)]
        self.buffers = {n: np.zeros_like(p) for n, p in start.items()}
        self.trained = [n for n in start if n not in frozen]

    def step(self, t, x, y):
        each, losses, norms = BATCH // len(self.own), [], []
        for r, (p, optimizer) in enumerate(zip(self.own, self.inner)):
            part = slice(r * each, (r + 1) * each)
            loss, gradients = loss_and_gradients(p, x[part], y[part])
            gradients = {n: g for n, g in gradients.items() if n in self.trained}
            losses.append(loss)
            norms.append(np.sqrt(sum((g**2).sum() for g in gradients.values())))
            for name, g in optim.clip(gradients, CLIP).items():
                p[name] = optimizer.step(name, p[name], g, RATE, t)
        if t % self.sync == 0:
            self.meet()
        return float(np.mean(losses)), float(np.mean(norms))

    def meet(self):
        for name in self.trained:
            delta = np.mean([self.shared[name] - p[name] for p in self.own], axis=0)
            self.buffers[name] = self.outer["momentum"] * self.buffers[name] + delta
            change = delta + self.outer["momentum"] * self.buffers[name] if self.outer["nesterov"] else self.buffers[name]
            self.shared[name] = self.shared[name] - self.outer["lr"] * change
            for p in self.own:
                p[name] = self.shared[name].copy()

    def tensors(self):
        found = dict(self.shared)
        for name in self.trained:
            found[f"{name}.replica"] = np.stack([p[name] for p in self.own])
            if self.outer["momentum"]:
                found[f"{name}.outer_momentum"] = self.buffers[name]
            for i, moment in enumerate(("moment1", "moment2")):
                found[f"{name}.replica.{moment}"] = np.stack([o.moments[name][i] for o in self.inner])
        return found


class Bench:
    def __init__(self, folder, random):
        self.folder = folder
        self.x, self.y = random.normal(size=(5 * BATCH, A)), random.normal(size=(5 * BATCH, O))
        np.save(f"{folder}/x.npy", self.x)
        np.save(f"{folder}/y.npy", self.y)
        self.seen = random.normal(size=(4 * BATCH + 5, A)), random.normal(size=(4 * BATCH + 5, O))  # the last batch has a rest
        np.save(f"{folder}/seen_x.npy", self.seen[0])
        np.save(f"{folder}/seen_y.npy", self.seen[1])
        self.start = {"w": random.normal(size=(A, H)) / 2, "out": random.normal(size=(H, O)) / 2, "l.v": random.normal(size=(L, H, H)) / 3, "still": random.normal(size=O)}
        safetensors.write(f"{folder}/start.safetensors", self.start)
        with open(f"{folder}/run.yaml", "w") as file:
            file.write("data: { x: {file: x.npy}, y: {file: y.npy} }\nvalidation: { x: {file: seen_x.npy}, y: {file: seen_y.npy}, every: 4 }\n"
                       "train: { params: start.safetensors }\nlog: { every: 1, watch: [grad_norm] }\n")

    def program(self, name, layout, mesh, frozen, spec=SPEC):
        with open(f"{self.folder}/{name}.mesh", "w") as file:
            file.write(spec.replace("FROZEN", ", ".join(frozen)) + layout)
        execute(meshc(), "build", f"{self.folder}/{name}.mesh", f"{self.folder}/run.yaml", "--mesh", mesh, "--precision", "f64", "-A", "changes_numbers", "-o", f"{self.folder}/{name}")
        return f"{self.folder}/{name}/{name}"

    def train(self, program, ranks, name, steps, *keys, transport="arena"):
        options, env = TRANSPORTS[transport]
        log = f"{self.folder}/{name}.jsonl"
        done = execute(program, "-n", ranks, f"{self.folder}/run.yaml", f"train.steps={steps}", f"log.jsonl={log}", f"checkpoint.dir={self.folder}/{name}", *options, *keys, env=env)
        return json_lines(log), done.stdout

    def simulated(self, replicas, sync, outer, frozen, steps):
        """Losses, norms and validation losses by step, and all tensors at the end."""
        made, curve, validated = Simulation(self.start, replicas, sync, outer, frozen), {}, {}
        for t in range(1, steps + 1):
            at = (t - 1) % 5 * BATCH
            curve[t] = made.step(t, self.x[at:at + BATCH], self.y[at:at + BATCH])
            validated[t] = float(loss_and_gradients(made.shared, *self.seen)[0])
        return curve, validated, made.tensors()


def apart(found, expected):
    return float(np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-30))


def check_numbers(report, bench, case, mesh, ranks, replicas, sync, trained, micro_batches, split):
    """`split`: the dim that `model` splits within a replica; behind "l" with attributes of the pipeline that its turns make."""
    split, comma, attributes = split.partition(",")
    pipe = f" {{ microbatches: {micro_batches}{comma}{attributes} }}" if split == "l" else ""
    (text, outer), frozen = OUTER[case], FROZEN[trained]
    name = "-".join(filter(None, (case, trained, str(ranks), str(sync), "micro" * (micro_batches > 1), split if split != "h" else "", re.sub("[^a-z0-9]+", "-", attributes).strip("-"))))
    steps = 3 * sync + 1  # ends between two outer steps
    program = bench.program(name, f"layout default on {'plane' if 'model' in mesh else 'line'} {{ batch -> data {{ sync: {sync}{text}{f', accumulate: {micro_batches}' if micro_batches > 1 and not pipe else ''} }}{f'; {split} -> model{pipe}' if 'model' in mesh else ''} }}\n", mesh, frozen, SPECS.get(trained, SPEC))
    lines, said = bench.train(program, ranks, name, steps)
    curve, validated, expected = bench.simulated(replicas, sync, outer, frozen, steps)
    losses = {line["step"]: (line["loss"], line["watch"]["grad_norm"]) for line in lines if "loss" in line}
    worst = max(max(abs(a - b) / abs(b) for a, b in zip(losses[t], curve[t])) for t in range(1, steps + 1))
    report.check(f"{name}, {mesh}: losses and norms of {steps} steps", f"{worst:.1e}", BOUND, worst <= BOUND)
    seen = {line["step"]: line["validation"]["loss"] for line in lines if "validation" in line}
    worst = max(abs(seen[t] - validated[t]) / abs(validated[t]) for t in seen)
    report.check(f"{name}: {len(seen)} evaluations of what the replicas have in common", f"{worst:.1e}", BOUND, bool(seen) and worst <= BOUND)
    found = tensors(f"{bench.folder}/{name}/step-{steps}")
    report.true(f"{name}: the checkpoint has what is needed to go on", found.keys() == expected.keys(), sorted(found.keys() ^ expected.keys()))
    errors = {n: apart(found[n], expected[n]) for n in expected}
    worst = max(errors, key=errors.get)
    report.check(f"{name}: every tensor after step {steps}, worst {worst}", f"{errors[worst]:.1e}", BOUND, errors[worst] <= BOUND)
    moved = min(float(np.abs(found[f"{n}.replica"][0] - found[f"{n}.replica"][-1]).max()) for n in PARAMETERS if n not in frozen)
    report.true(f"{name}: replicas differ between two outer steps", moved > 1e-6, moved)
    report.true(f"{name}: the run says of which step the parameters are", f"those of step {3 * sync}" in said, said[-300:])
    return program, name, steps


def check_resumed(report, bench, program, ranks, name, sync, steps):
    for at in (sync, sync + 1, 2 * sync - 1):
        again = f"{name}-again-{at}"
        bench.train(program, ranks, again, at)
        bench.train(program, ranks, again, steps)
        report.true(f"{name}: stopped after step {at} and resumed: the same bits", same(f"{bench.folder}/{name}/step-{steps}", f"{bench.folder}/{again}/step-{steps}"))


def check_transports(report, bench, program, ranks, name, steps):
    for transport in TRANSPORTS:
        bench.train(program, ranks, f"{name}-{transport}", steps, transport=transport)
        report.true(f"{name} over {transport}: the same bits", same(f"{bench.folder}/{name}/step-{steps}", f"{bench.folder}/{name}-{transport}/step-{steps}"))


def check_one_model(report, bench, name, replicas, steps):
    """What replicas have of their own is nothing to go on from for one model, which begins with what they have in common."""
    program = bench.program(f"{name}-one", "layout default on line { batch -> data }\n", "data=2", FROZEN[""])
    folder = f"{bench.folder}/{name}"
    command = [program, "-n", 2, f"{bench.folder}/run.yaml", f"train.steps={steps + 1}", f"checkpoint.dir={folder}"]
    refused = execute(*command, code=1).stderr
    report.true(f"{name}: one model does not go on from its checkpoint, and is told with what to begin",
                f"it is of {replicas} replicas that train apart, the program of one model:" in refused and f"`checkpoint.resume=never train.params={folder}/step-{steps}` with another" in refused, refused)
    other = f"{folder}-one-model"
    bench.train(program, 2, f"{name}-one-model", 1, "checkpoint.resume=never", f"train.params={folder}/step-{steps}")
    shared = {n: x for n, x in tensors(f"{folder}/step-{steps}").items() if n in PARAMETERS}
    expected = loss_and_gradients(shared, bench.x[:BATCH], bench.y[:BATCH])[0]
    found = [line["loss"] for line in json_lines(f"{other}.jsonl") if "loss" in line][0]
    report.check(f"{name}: one model begins with what the replicas have in common", f"{abs(found - expected) / expected:.1e}", BOUND, abs(found - expected) <= BOUND * expected)


def check_commands(report, bench, name, mesh, trained):
    spec = f"{bench.folder}/{name}.mesh"
    report.true(f"{name}: equals one rank that trains the replicas in turn (verify)", "are equal" in execute(meshc(), "verify", spec, "--mesh", mesh, "--steps", "5", "-A", "changes_numbers").stdout)
    plan = json.loads(execute(meshc(), "plan", spec, "--mesh", mesh, "--json", "-A", "changes_numbers").stdout)
    bytes_ = {c["tensor"]: c["bytes"] for c in plan["outer_step"]["collectives"] if c["bytes"] > 0}
    report.true(f"{name}: a step sends nothing over `data` but metrics", all(c["bytes"] * c["count"] <= 64 for c in plan["collectives"] if "data" in c["axes"]),
                [(c["tensor"], c["bytes"]) for c in plan["collectives"]])
    report.true(f"{name}: the outer step sends each parameter once", len(bytes_) == len(PARAMETERS) - len(FROZEN[trained]) and sum(bytes_.values()) == plan["outer_step"]["communication_bytes"], bytes_)
    warned = execute(meshc(), "check", spec, "--mesh", mesh).stderr
    report.true(f"{name}: a lint says that the numbers are others", "changes_numbers" in warned)


PLACES = """dim batch = 8, f = 3
model Places {
  input x : real[batch, f]
  param w : real[f] = ones
  p = dot[f](x, w)
  farthest = i32(argmax[batch](p))
  loss = sum[batch](where(position[batch] == farthest, p, 0))
  metric place = f32(farthest)
  minimize loss with sgd(lr: 0.1)
}
mesh line { data: 2 }
layout default on line { batch -> data { sync: 3 } }
layout parts on line { batch -> data { sync: 3, accumulate: 2 } }
"""


def check_places(report, folder, random):
    """Where each replica finds its largest sample is a place in the batch of all of them, as `position` is."""
    with open(f"{folder}/places.mesh", "w") as file:
        file.write(PLACES)
    x = random.normal(size=(8, 3))
    np.save(f"{folder}/places.npy", x)
    halves = x.sum(1).reshape(2, 4)
    place, loss = (halves.argmax(1) + [0, 4]).mean(), halves.max(1).mean()
    for layout in ("default", "parts"):
        allowed = ["--layout", layout, "-A", "changes_numbers", "-A", "batch_coupled"]
        log = f"{folder}/places-{layout}.jsonl"
        execute(meshc(), "run", f"{folder}/places.mesh", "--precision", "f64", *allowed, "-A", "oversubscribed", f"data.x.file={folder}/places.npy", "train.steps=1", "log.every=1", f"log.jsonl={log}")
        found = next(line for line in json_lines(log) if "loss" in line)
        report.true(f"{layout}: the place of a replica's largest sample, in the batch of all", found["place"] == place, (found, place))
        report.check(f"{layout}: what stands at that place", f"{abs(found['loss'] - loss):.1e}", BOUND, abs(found["loss"] - loss) <= BOUND)
        report.true(f"{layout}: the same on one rank", "are equal" in execute(meshc(), "verify", f"{folder}/places.mesh", *allowed).stdout)


DRAWN = """dim batch = 8, seq = 3, token = batch * seq, layer = 2
model Drawn {
  input x : real[batch, seq]
  param w : real[seq] = ones
  h = x * w
  repeat layer {
    param v : real[seq] = ones
    h = h * v + random_normal[seq, batch]()
  }
  flat = dropout(h[batch * seq as token], rate: 0.5)
  loss = mean[token]((flat - random_normal[token]()) ^ 2)
  minimize loss with sgd(lr: 0.1)
}
mesh line { data: 2 }
layout apart on line { batch -> data { sync: 3 } }
layout parts on line { batch -> data { accumulate: 2 } }
layout both on line { batch -> data { sync: 3, accumulate: 2 } }
layout plain on line { batch -> data }
"""


def check_drawn(report, folder, random):
    """What is drawn along samples, merged with others too, is drawn for them by their places in the batch of all, however it is cut."""
    with open(f"{folder}/drawn.mesh", "w") as file:
        file.write(DRAWN)
    np.save(f"{folder}/drawn.npy", random.normal(size=(8, 3)))
    losses = {}
    for layout in ("apart", "parts", "both", "plain"):
        execute(meshc(), "run", f"{folder}/drawn.mesh", "--layout", layout, "--precision", "f64", "-A", "changes_numbers", "-A", "oversubscribed",
                f"data.x.file={folder}/drawn.npy", "train.steps=1", "log.every=1", f"log.jsonl={folder}/drawn-{layout}.jsonl")
        losses[layout] = next(line["loss"] for line in json_lines(f"{folder}/drawn-{layout}.jsonl") if "loss" in line)
    for layout in ("apart", "parts", "both"):
        apart = abs(losses[layout] / losses["plain"] - 1)
        report.check(f"draws along merged samples, {layout}", f"{apart:.1e}", BOUND, apart <= BOUND)
    report.true("draws of an evaluation by micro-batches of replicas", "are equal" in execute(meshc(), "verify", f"{folder}/drawn.mesh", "--layout", "both", "-A", "changes_numbers").stdout)


WIDE = """dim batch = 512, a = 32, h = 128, g = h, l = 4
model Wide {
  input x : real[batch, a]
  param w : real[a, h] = fan_in[a]
  u = tanh(dot[a](x, w))
  repeat l {
    param v : real[h, g] = fan_in[h]
    u = u + tanh(dot[h](u, v))[g as h]
  }
  loss = mean[batch, h](u ^ 2)
  minimize loss with adam(lr: 0.01)
}
mesh line { data: 2 }
mesh plane { data: 2, model: 2 }
layout whole on line { batch -> data { sync: 3 } }
layout parts on line { batch -> data { sync: 3, accumulate: 8 } }
layout samples on plane { batch -> data { sync: 3 }; batch -> model }
layout weights on plane { batch -> data { sync: 3 }; g -> model }
layout found on plane { batch -> data { sync: 3 }; auto }
"""


def check_plans(report, folder):
    """What `plan` says of several layouts: micro-batches take less memory to work on, and an evaluation has its replicas' turns each on its ranks; `auto` splits a replica."""
    path = f"{folder}/wide.mesh"
    with open(path, "w") as file:
        file.write(WIDE)
    allowed = ("-A", "changes_numbers", "-A", "idle_mesh_axis")
    plans = {layout: json.loads(execute(meshc(), "plan", path, "--layout", layout, "--json", *allowed).stdout) for layout in ("whole", "parts", "samples", "weights", "found")}
    worked_on = {layout: sum(plans[layout]["memory"][kind] for kind in ("activations", "workspace")) for layout in ("whole", "parts")}
    report.true("micro-batches of replicas: less to work on", worked_on["parts"] < 0.6 * worked_on["whole"], worked_on)
    evaluated = execute(meshc(), "ir", path, "sharded", "--layout", "parts", *allowed).stdout.split("evaluate")[-1]
    report.true("an evaluation by micro-batches of replicas: one reduction, behind the loop over replicas", evaluated.count("all_reduce") == 1, evaluated[-3000:])
    found = plans["found"]
    best = min(plans[layout]["predicted_seconds"] for layout in ("samples", "weights"))
    report.check("auto within replicas: predicted beside the better of two by hand", round(found["predicted_seconds"] / best, 4), 1.0, found["predicted_seconds"] <= best * 1.0001)
    report.true("auto within replicas: equals one rank that trains the replicas in turn", "are equal" in execute(meshc(), "verify", path, "--layout", "found", *allowed).stdout)


def run(small):
    report = Report()
    random = np.random.default_rng(SEED)
    print(f"seed {SEED}")
    with scratch() as folder:
        bench = Bench(folder, random)
        cases = [("diloco", "data=2", 2, 2, 4, "", 1), ("momentum", "data=2,model=2", 4, 2, 3, "", 1), ("none", "data=2", 2, 2, 3, "layers", 1), ("diloco", "data=2,model=2", 4, 2, 2, "merged", 1),
                 ("diloco", "data=2", 2, 2, 4, "", 2), ("momentum", "data=2,model=2", 4, 2, 2, "merged", 4), ("diloco", "data=2,model=2", 4, 2, 2, "", 2, "batch"),
                 ("diloco", "data=2,model=2", 4, 2, 3, "", 2, "l"), ("momentum", "data=2,model=2", 4, 2, 2, "layers", 4, 'l, schedule: "zb_v"')]
        if not small:
            cases += [("none", "data=4", 4, 4, 5, "", 1), ("diloco", "data=4,model=2", 8, 4, 3, "", 1), ("diloco", "data=8", 8, 8, 2, "", 1), ("momentum", "data=2", 2, 2, 7, "", 1),
                      ("none", "data=4", 4, 4, 2, "layers", 2), ("diloco", "data=4,model=2", 8, 4, 3, "", 2), ("momentum", "data=2,model=2", 4, 2, 3, "merged", 1, "batch"),
                      ("none", "data=4,model=2", 8, 4, 3, "", 2, 'l, schedule: "gpipe"'), ("diloco", "data=2,model=2", 4, 2, 3, "", 1, "l"), ("none", "data=2,model=2", 4, 2, 2, "", 2, "l, chunks: 2"), ("diloco", "data=2,model=2", 4, 2, 2, "", 4, 'l, remat: "stage"')]
        for case, mesh, ranks, replicas, sync, trained, micro_batches, *split in cases:
            def action():
                program, name, steps = check_numbers(report, bench, case, mesh, ranks, replicas, sync, trained, micro_batches, *(split or ["h"]))
                check_commands(report, bench, name, mesh, trained)
                if sync > 2:
                    check_resumed(report, bench, program, ranks, name, sync, steps)
                if (case, ranks, micro_batches) == ("diloco", 2, 1):
                    check_one_model(report, bench, name, replicas, steps)
                    check_transports(report, bench, program, ranks, name, steps)

            report.attempt(f"{case} {trained} on {mesh} by {micro_batches}".replace("  ", " "), action)
        report.attempt("places", lambda: check_places(report, folder, random))
        report.attempt("drawn", lambda: check_drawn(report, folder, random))
        report.attempt("plans", lambda: check_plans(report, folder))
        report.attempt("scaled", lambda: scaled_replicas.check(report, folder, random, small))
    return report
