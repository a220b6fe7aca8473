"""A run that keeps its best checkpoint and ends early: the same under every launcher and number of ranks, in one piece or in parts; `meshc evaluate` gives its numbers."""
import json
import os

import numpy as np

from common import json_lines, meshc, scratch
from common import run as execute

SEED = 20261124

# The data of training have other weights than those of validation, half way between the first ones and those: it gets better, and then worse.
SPEC = """dim batch = 4, wide = 5
model Fit {
  input a : real[batch, wide]
  input b : real[batch]
  param w : real[wide] = zeros
  loss = mean[batch]((dot[wide](a, w) - b) ^ 2)
  metric score = 1 / (1 + mean[batch](abs(dot[wide](a, w) - b)))
  minimize loss with sgd(lr: 0.02)
}
mesh line { data: 2 }
layout split on line { batch -> data }
"""

RUN = """data: { a: {file: a.npy, to: 40}, b: {file: b.npy, to: 40} }
validation: { every: 5, a: {from: 40}, b: {from: 40} }
train: { steps: 400, stop: { patience: 4, metric: score, mode: max } }
checkpoint: { dir: ck, keep: 1, best: { metric: score, mode: max } }
log: { every: 7, mean: true, jsonl: log.jsonl }
"""


def curve(folder):
    """Of the last run: each evaluation, and each line of the log."""
    lines = json_lines(f"{folder}/log.jsonl")[1:]
    evaluations = [(line["step"], line["validation"]) for line in lines if "validation" in line]
    return evaluations, [(line["step"], line["loss"], line["mean_of"]) for line in lines if "loss" in line]


def best_of(evaluations):
    return max(evaluations, key=lambda one: one[1]["score"])


def check(report, small):
    random = np.random.default_rng(SEED)
    with scratch() as folder:
        a, weights = random.normal(size=(51, 5)), random.normal(size=5)
        np.save(f"{folder}/a.npy", a)
        np.save(f"{folder}/b.npy", a @ weights * np.where(np.arange(51) < 40, 1, 0.5))
        for name, text in (("fit.mesh", SPEC), ("fit.yaml", RUN)):
            with open(f"{folder}/{name}", "w") as file:
                file.write(text)
        execute(meshc(), "build", "fit.mesh", "--precision", "f64", "-o", "built", cwd=folder)
        check_run(report, folder)
        check_launchers(report, folder)
        check_parts(report, folder)


def train(folder, *command):
    execute("rm", "-rf", "ck", "log.jsonl", cwd=folder)
    return execute(*command, cwd=folder).stdout


def check_run(report, folder):
    out = train(folder, meshc(), "run", "fit.mesh", "--precision", "f64")
    evaluations, _ = curve(folder)
    best, last = best_of(evaluations), evaluations[-1]
    report.true("it ends after four evaluations that were no better", 10 < best[0] < 100 and last[0] == best[0] + 20, (best, last))
    report.true("and says so", f"train.stop has ended the run after step {last[0]} of 400: `score` was best, " in out, out[-500:])
    report.true("the best checkpoint and the last are kept", sorted(os.listdir(f"{folder}/ck")) == sorted([".lock", "best", "latest", f"step-{best[0]}", f"step-{last[0]}"]), os.listdir(f"{folder}/ck"))
    for name, params, expected in (("the best", "ck/best", best), ("the last", "ck", last)):
        got = json.loads(execute(meshc(), "evaluate", "fit.mesh", "--precision", "f64", "--params", params, "--json", cwd=folder).stdout)
        report.true(f"`meshc evaluate` of {name}: its evaluation, bit by bit", got["metrics"] == expected[1] and got["step"] == expected[0], got)
    listed = execute(meshc(), "ckpt", "ls", "ck", cwd=folder).stdout.splitlines()
    report.true("`meshc ckpt ls` names them", listed[0].endswith("(best)") and listed[1].endswith("(latest)"), listed)
    out = execute(meshc(), "run", "fit.mesh", "--precision", "f64", cwd=folder).stdout
    report.true("started again, it tells its last evaluation", "nothing is left to do: `score` was best, " in out and curve(folder)[0][-1] == last, out)


def check_launchers(report, folder):
    meshrun = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(meshc()))), "runtime", "meshrun")
    expected = None
    for name, command in (("its own launcher", ("built/fit", "-n", "2")), ("threads", ("built/fit", "--threads")), ("meshrun", (meshrun, "-n", "2", "built/fit")),
                          ("UCX", ("env", "MESHRT_TRANSPORT=ucx", "built/fit", "-n", "2"))):
        train(folder, *command, "fit.yaml")
        found = (curve(folder), sorted(os.listdir(f"{folder}/ck")), os.readlink(f"{folder}/ck/best"))
        expected = expected or found
        report.true(f"{name}: all evaluations and means, bit by bit, and the same checkpoints", found == expected, found if found != expected else "")


def check_parts(report, folder):
    """A run that goes on three times, each time between two lines of the log."""
    train(folder, "built/fit", "-n", "2", "fit.yaml")
    whole = (curve(folder), os.readlink(f"{folder}/ck/best"))
    execute("rm", "-rf", "ck", "log.jsonl", cwd=folder)
    for steps in (10, 15, 20):
        execute("built/fit", "-n", "2", "fit.yaml", "train.stop=", f"train.steps={steps}", cwd=folder)
    execute("built/fit", "-n", "2", "fit.yaml", cwd=folder)
    evaluations, means = curve(folder)
    expected, told = whole[0]
    report.true("in parts: the same end, and the same best", evaluations[-1] == expected[-1] and os.readlink(f"{folder}/ck/best") == whole[1], (evaluations[-1], whole[1]))
    report.true("in parts: the same evaluations", evaluations == expected, evaluations)
    report.true("in parts: the same means where no part ends between", means[-1] == told[-1], (means[-1], told[-1]))
