"""Experts and lookups: every split of every dim of every op equals one rank and NumPy; what layers of experts send; which tokens are dropped; evaluation with room of its own."""
import dataclasses
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from common import Report, meshc, scratch, sets
from common import run as execute
from generate.layouts import is_refused
from ops import FORWARD, GRADIENT, Measured
from oracle import experts, indexing

SEED = 20261125
MESHES = (2, 3, 4)


@dataclasses.dataclass(frozen=True)
class Split:
    """A case under one layout: some dims over an axis each."""
    case: object
    title: str
    rules: str

    @property
    def spec(self):
        return self.case.spec() + self.rules


def cases():
    words = ("take", "scatter", "histogram", "segments", "weights, a row")
    return [*experts.cases(), *(case for case in indexing.cases() if any(word in case.name for word in words))]


def splits():
    """Each dim of a case over 2, 3 and 4 ranks (uneven, and more ranks than elements, among them), and each pair over two by two."""
    for case in cases():
        text = case.spec()
        repeated = set(re.findall(r"repeat (\w+)", text))
        dims = [d for d in case.dims if re.search(rf"[\[, (]{d}[\], )]", text.split("model", 1)[1]) and d not in repeated]
        for dim in dims:
            for ranks in MESHES:
                yield Split(case, f"{dim} over {ranks}", f"mesh line {{ x: {ranks} }}\nlayout split on line {{ {dim} -> x }}\n")
            for other in dims:
                if other != dim:
                    yield Split(case, f"{dim} and {other} over 2 x 2", f"mesh square {{ x: 2, y: 2 }}\nlayout split on square {{ {dim} -> x; {other} -> y }}\n")


def measure(folder, number, case, of_case):
    """(worst value, worst gradient, layouts, refused) of a case under its splits."""
    measured = Measured(case, os.path.join(folder, str(number)))
    values, gradients, done, refused = (0.0, ""), (0.0, ""), 0, 0
    for i, split in enumerate(of_case):
        try:
            got = measured.fetched(f"split{i}", [*measured.values, "grad(**)"], "f64", split.rules)
        except RuntimeError as problem:
            if not is_refused(str(problem)):
                raise RuntimeError(f"{problem}\n{split.rules}") from problem
            refused += 1
            continue
        value, gradient = measured.worst(got, f", {split.title}")
        values, gradients, done = max(values, value), max(gradients, gradient), done + 1
    return values, gradients, done, refused


def check_splits(report, folder, small):
    chosen = list(splits())
    chosen = chosen[::37] if small else chosen
    print(f"{len(chosen)} layouts of {len(cases())} cases")
    with ThreadPoolExecutor(2) as pool:
        futures = {case.name: pool.submit(measure, folder, i, case, [s for s in chosen if s.case.name == case.name]) for i, case in enumerate(cases())}
        for name, future in futures.items():
            def action(name=name, future=future):
                (value, at), (gradient, of), done, refused = future.result()
                report.check(name, f"{value:.1e} ({at}), {gradient:.1e} ({of}), {done} layouts, {refused} refused", f"{FORWARD}, {GRADIENT}", value <= FORWARD and gradient <= GRADIENT)
            report.attempt(name, action)


# ---- what is sent

LAYER = """
dim batch = 16, seq = 32, embed = 24, ffn = 40, layer = 3, expert = 8, pick = 2, part = batch
dim slot = ceil(1.25 * pick * seq / expert)
block Moe(x : real[batch, seq, embed]) -> real[batch, seq, embed] {
  param gate   : real[embed, expert]      = fan_in[embed]
  param up     : real[expert, embed, ffn] = fan_in[embed]
  param down   : real[expert, ffn, embed] = fan_in[ffn]
  best, chosen = top_k[expert as pick](dot[embed](x, gate))
  plan = route[expert, slot, part](chosen, softmax[pick](best))
  return combine(dot[ffn](gelu(dot[embed](dispatch(x, plan), up)), down), plan)
}
model Layers {
  input x, wanted : real[batch, seq, embed]
  param first : real[embed] = ones
  h = x * first
  BODY
  loss = mean[batch, seq, embed]((h - wanted) ^ 2)
  minimize loss with adam(lr: 1e-3)
}
mesh line { data: 4 }
mesh host { model: 4 }
mesh pod { data: 2, model: 2 }
layout data on line { batch -> data; expert -> data unless batch; tensor **.gate { expert -> none } }
layout model on host { expert -> model unless batch; activations { batch, seq -> none }; tensor **.gate { expert -> none } }
layout both on pod { batch -> data; expert -> model unless batch; tensor **.gate { expert -> none } }
layout all on pod { batch -> data * model; expert -> data * model unless batch; tensor **.gate { expert -> none } }
layout micro on line { batch -> data { accumulate: 2 }; expert -> data unless batch; tensor **.gate { expert -> none } }
layout again on line { batch -> data; layer -> none { remat: "layer" }; expert -> data unless batch; tensor **.gate { expert -> none } }
layout ffns on pod { batch -> data; expert -> data unless batch; ffn -> model; tensor **.gate { expert -> none } }
"""
IN_A_LOOP = "repeat layer {\n    param moe : Moe\n    h = h + moe(h)\n  }"
BODIES = {
    "in a loop": IN_A_LOOP,
    "one after the other": "param a, b, c : Moe\n  h1 = h + a(h)\n  h2 = h1 + b(h1)\n  h3 = h2 + c(h2)",
    "every other layer": "repeat layer {\n    param w   : real[embed, ffn] = fan_in[embed]\n    param v   : real[ffn, embed] = fan_in[ffn]\n    param moe : Moe\n"
                         "    h = h + dot[ffn](relu(dot[embed](h, w)), v)\n    h = h + moe(h)\n  }",
}
# Of x: [batch, seq, embed] = 16 x 32 x 24 elements of 4 bytes; an expert has 10 slots a line: 80 for the 64 choices of a line.
TOKENS = 16 * 32 * 24 * 4
SLOTS = 16 * 8 * 10 * 24 * 4


def layer(folder, name):
    path = os.path.join(folder, name.replace(" ", "_") + ".mesh")
    with open(path, "w") as file:
        file.write(LAYER.replace("BODY", BODIES[name]).replace("(h - wanted)", "(h3 - wanted)" if name == "one after the other" else "(h - wanted)"))
    return path


def collectives(spec, layout):
    """Those of tokens, not of what the gate says of them: (kind, axes, bytes, times), and all."""
    plan = json.loads(execute(meshc(), "plan", spec, "--layout", layout, "--json").stdout)["collectives"]
    large = [(c["kind"], "*".join(c["axes"]), c["bytes"], c["count"]) for c in plan if c["bytes"] > TOKENS // 4 and c["phase"] != "update"]
    return sorted(large), plan


def check_sent(report, folder):
    loop = layer(folder, "in a loop")
    part = lambda ranks: SLOTS // ranks // ranks * (ranks - 1)  # of its part of the slots a rank sends the others theirs
    large, plan = collectives(loop, "data")
    report.true("experts over data: four all-to-alls a layer and step, of the slots' bytes, and nothing else", large == [("all_to_all", "data", part(4), 3)] * 4, large)
    grads = [c["tensor"] for c in plan if c["phase"] == "update"]
    report.true("experts over data: no gradient of an expert is sent", not any("up" in name or "down" in name for name in grads) and any("gate" in name for name in grads), grads)
    large, _ = collectives(loop, "model")
    both_ways = TOKENS // 4 * 3 * 2  # an all-reduce of all tokens
    report.true("experts over model: one sum each way", large == [("all_reduce", "model", both_ways, 3)] * 2, large)
    large, plan = collectives(loop, "both")
    grads = {c["tensor"]: "*".join(c["axes"]) for c in plan if c["phase"] == "update"}
    report.true("experts over model, tokens over data: experts' gradients are summed over data alone", {axes for name, axes in grads.items() if "up" in name or "down" in name} == {"data"}, grads)
    large, _ = collectives(loop, "all")
    report.true("experts over both axes: four all-to-alls a layer, each over both at once", large == [("all_to_all", "data*model", part(4), 3)] * 4, large)


def check_layers(report, folder, small):
    for name in BODIES:
        spec = layer(folder, name)
        for layout in ("data", "model", "both", "all", "micro", "again", "ffns"):
            if (layout == "again" and "loop" not in name) or (small and layout not in ("data", "micro")):
                continue
            def action(name=name, layout=layout, spec=spec):
                done = execute(meshc(), "verify", spec, "--layout", layout, *sets(batch=8, seq=6, embed=5, ffn=7, expert=4), code=None)
                good = done.returncode == 0 and "values are equal" in done.stdout
                report.true(f"{name}, --layout {layout}: equal to one rank", good, "" if good else (done.stdout + done.stderr)[-600:])
            report.attempt(f"{name}, {layout}", action)


# ---- room, in training and evaluation

ROOM = """
dim batch = 4, seq = 8, embed = 3, expert = 2, part = batch
const capacity = where(training, 1, 2)
dim slot = ceil(capacity * seq / expert)
model Room {
  input x : real[batch, seq, embed]
  input chosen : index(expert)[batch, seq]
  param w : real[expert, embed] = ones
  plan = route[expert, slot, part](chosen, 1.0)
  y    = combine(dispatch(x, plan) * w, plan)
  loss = mean[batch, seq, embed](y)
  metric lost = mean[batch, seq](dropped(plan))
  minimize loss with sgd(lr: 0)
}
mesh line { data: 2 }
layout alone on line { batch -> none }
layout data on line { batch -> data; expert -> data unless batch }
"""


def check_room(report, folder):
    spec = os.path.join(folder, "room.mesh")
    with open(spec, "w") as file:
        file.write(ROOM)
    dice = np.random.default_rng(SEED)
    x, chosen = dice.standard_normal((4, 8, 3)), (dice.random((4, 8)) < 0.3).astype(np.int32)
    np.save(f"{folder}/x.npy", x), np.save(f"{folder}/chosen.npy", chosen)
    before = np.stack([[(row[:t] == row[t]).sum() for t in range(8)] for row in chosen])
    for layout in ("alone", "data"):
        for title, options, slots in (("training", [], 4), ("evaluation", ["--evaluate"], 8)):
            out = f"{folder}/{layout}-{title}"
            execute(meshc(), "fetch", spec, "y", *options, "--layout", layout, "--precision", "f64", "--feed", f"x={folder}/x.npy", "--feed", f"chosen={folder}/chosen.npy", "--out", out)
            worst = float(np.abs(np.load(f"{out}/y.npy") - np.where((before < slots)[..., None], x, 0)).max())
            report.check(f"room for {slots} tokens in {title}, --layout {layout}", worst, 1e-12)
    report.true("some are dropped in training", (before >= 4).any())


def run(small):
    report = Report()
    print(f"seed {SEED}")
    with scratch() as folder:
        check_splits(report, folder, small)
        report.attempt("what is sent", lambda: check_sent(report, folder))
        check_layers(report, folder, small)
        report.attempt("room", lambda: check_room(report, folder))
    return report
