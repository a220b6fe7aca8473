"""Pipelines whose models read inputs, and what is made of them, in front of their layers and behind them, divide by sums of inputs, and read what is collected of turns: under every schedule values
and gradients of a step, and metrics of an evaluation, are those of one rank; emitted programs have one rank's losses and validations."""
import os
import re

import numpy as np

from common import TOP, json_lines, meshc
from common import run as execute

SEED = 20261128
INPUTS = {"Divided": {"x": (6,), "weight": ()}, "Added": {"x": (6,), "weight": ()}, "Input": {"x": (6,)}, "Made": {"x": (6,)}, "Taught": {"x": (6,)},
          "Entries": {"x": (6,), "parts": (8, 6), "last": (6, 8)}, "Beside": {"x": (6,), "other": (6,)}, "Collected": {"x": (6,), "parts": (3, 6)}}
MODELS = list(INPUTS)
LAYOUTS = {"around": ["fill", "turns", "eager", "inter", "breadth", "circle", "half", "ahead", "sent", "vee", "room", "again"],
           "collected": ["fill", "turns", "half", "sent", "again"]}
STEPS = 6


def name_of_spec(model):
    return "collected" if model == "Collected" else "around"


def spec_of(model):
    return f"{TOP}/tests/emit/specs/{name_of_spec(model)}.mesh"


def check_schedules(report, ranks):
    for model in MODELS:
        for layout, mesh in [*((layout, f"pipe={count}") for count in ranks for layout in LAYOUTS[name_of_spec(model)]), ("both", "data=2,pipe=2")]:
            said = execute(meshc(), "verify", spec_of(model), "--model", model, "--layout", layout, "--mesh", mesh, "--precision", "f64", "--bound", "1e-9", code=None)
            good = re.search(r"evaluated loss .* equal\n", said.stdout) and re.search(r"all \d+ values are equal", said.stdout)
            report.true(f"{model}, layout {layout}, {mesh}: a step and an evaluation of one rank", good, "" if good else said.stdout[-300:] + said.stderr[-300:])


def write_data(folder, model):
    """Samples, of which those of a validation weigh unlike others and do not fill its last batch."""
    random = np.random.default_rng(SEED)
    for name, shape in INPUTS[model].items():
        for part, samples in (("train", 8 * STEPS), ("seen", 20)):
            np.save(f"{folder}/{part}_{name}.npy", random.uniform(0.5, 2, (samples, *shape)).astype(np.float32))
    files = {part: ", ".join(f"{name}: {{file: {part}_{name}.npy}}" for name in INPUTS[model]) for part in ("train", "seen")}
    with open(f"{folder}/run.yaml", "w") as file:
        file.write(f"data: {{ {files['train']} }}\nvalidation: {{ {files['seen']}, every: 2 }}\ntrain: {{ steps: {STEPS} }}\nlog: {{ every: 1 }}\n")


def trained(folder, model, layout, mesh, ranks):
    """Losses of the steps, and all metrics of the validations."""
    out = f"{folder}/{layout}-{ranks}"
    execute(meshc(), "build", spec_of(model), f"{folder}/run.yaml", "--model", model, "--layout", layout, "--mesh", mesh, "--precision", "f64", "-o", out)
    execute(f"{out}/{name_of_spec(model)}", "-n", ranks, f"{folder}/run.yaml", f"log.jsonl={out}/log.jsonl")
    lines = [line for line in json_lines(f"{out}/log.jsonl") if "step" in line]
    return [line["loss"] for line in lines if "loss" in line], [number for line in lines for _, number in sorted(line.get("validation", {}).items())]


def check_emitted(report, folder, models, layouts):
    for model in models:
        own = f"{folder}/around-{model}"
        os.mkdir(own)
        write_data(own, model)
        losses, seen = trained(own, model, "fill", "pipe=1", 1)
        report.true(f"{model}: one rank has losses and validations", len(losses) == STEPS and len(seen) >= 3, (losses, seen))
        for layout in filter(LAYOUTS[name_of_spec(model)].__contains__, layouts):
            found = trained(own, model, layout, "pipe=2", 2)
            for name, wanted, numbers in (("losses", losses, found[0]), ("validations", seen, found[1])):
                apart = np.max(np.abs(np.array(numbers) - wanted) / np.abs(wanted)) if len(numbers) == len(wanted) else np.inf
                report.check(f"{model}, layout {layout}, emitted: {name} of {STEPS} steps against one rank, relative", float(f"{apart:.1e}"), 1e-9)


def check_not_finite(report, folder):
    """What is made of an input turn by turn does not lie in one piece: `--find-nonfinite` looks at all of it, and at it alone."""
    own = f"{folder}/around-not-finite"
    os.mkdir(own)
    write_data(own, "Entries")
    parts = np.load(f"{own}/train_parts.npy")
    parts[3, 5] = 1e30
    np.save(f"{own}/train_parts.npy", parts)
    execute(meshc(), "build", spec_of("Entries"), f"{own}/run.yaml", "--model", "Entries", "--layout", "vee", "--mesh", "pipe=2", "--find-nonfinite", "-o", f"{own}/odd")
    done = execute(f"{own}/odd/around", "-n", 2, f"{own}/run.yaml", code=None)
    report.true("--find-nonfinite names a value whose samples come first", done.returncode == 3 and
                re.search(r"`made` at around\.mesh:\d+ is the first value that is not finite.*turn 1 of `time`, .*turn 5 of `layer`", done.stderr), done.stderr[:300])
