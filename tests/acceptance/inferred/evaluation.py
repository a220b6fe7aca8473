"""`meshc evaluate` and `fetch --evaluate`: the numbers of a run's last validation, bit by bit, and those of NumPy."""
import json
import os

import numpy as np

from checkpoints import tensors as read_checkpoint
from common import json_lines, meshc, scratch
from common import run as execute
from oracle import safetensors
from oracle.philox import normal, uniform
from texts.batch_norm import BATCH_NORM

SEED = 20261123
BOUND = 1e-12

# Running statistics, dropout, a state that begins as a parameter, and a metric that reads it.
SPEC = """dim batch = 4, wide = 6, kind = 3
const drop = 0.3
""" + BATCH_NORM + """model Normed {
  input a : real[batch, wide]
  input b : index(kind)[batch]
  param w : real[wide, kind] = normal(std: 1)
  state slow = w
  slow <- 0.9 * slow + 0.1 * w
  n = batch_norm[wide](a)
  logits = dot[wide](dropout(n, rate: drop), w)
  loss = mean[batch](cross_entropy[kind](logits, b))
  metric accuracy = mean[batch](argmax[kind](logits) == b)
  metric drift    = max[wide, kind](abs(w - slow))
  minimize loss with sgd(lr: 0.1, momentum: 0.5)
}
mesh line { all: 2 }
layout whole on line { replicate over all }
layout split on line { batch -> all }
layout features on line { wide -> all }
layout parts on line { batch -> all { accumulate: 2 } }
"""

RUN = """data: { a: {file: a.npy, to: 40}, b: {file: b.npy, to: 40} }
validation: { every: 5, a: {from: 40}, b: {from: 40} }
train: { steps: 12 }
checkpoint: { dir: ck }
log: { jsonl: log.jsonl }
"""


def evaluated(*arguments, folder, program=None):
    command = [program, "evaluate"] if program else [meshc(), "evaluate", "normed.mesh"]
    return json.loads(execute(*command, *arguments, "--json", cwd=folder).stdout)


def logits(a, tensors):
    return (a - tensors["batch_norm.seen_mean"]) / np.sqrt(tensors["batch_norm.seen_var"] + 1e-5) @ tensors["w"]


def metrics(a, b, tensors):
    scores = logits(a, tensors)
    scores -= scores.max(1, keepdims=True)
    loss = np.log(np.exp(scores).sum(1)) - scores[np.arange(len(b)), b]
    return {"loss": loss.mean(), "accuracy": (scores.argmax(1) == b).mean(), "drift": np.abs(tensors["w"] - tensors["slow"]).max()}


def far(got, expected):
    return max(abs(got[name] - value) / max(1, abs(value)) for name, value in expected.items())


def check(report, small):
    random = np.random.default_rng(SEED)
    with scratch() as folder:
        a, b = random.normal(size=(51, 6)), random.integers(0, 3, 51).astype(np.int32)
        np.save(f"{folder}/a.npy", a)
        np.save(f"{folder}/b.npy", b)
        np.save(f"{folder}/few.npy", a[:4])
        with open(f"{folder}/normed.mesh", "w") as file:
            file.write(SPEC)
        with open(f"{folder}/normed.yaml", "w") as file:
            file.write(RUN)
        for layout in ("split", "parts") if small else ("whole", "split", "features", "parts"):
            for precision in ("f64",) if small else ("f64", "f32"):
                chosen = ("--layout", layout, "--precision", precision)
                name = f"{layout}, {precision}"
                execute("rm", "-rf", "ck", cwd=folder)
                execute(meshc(), "run", "normed.mesh", *chosen, cwd=folder)
                last = [line for line in json_lines(f"{folder}/log.jsonl") if "validation" in line][-1]
                trained = read_checkpoint(f"{folder}/ck/step-12")
                for title, arguments in (("a checkpoint", ("--params", "ck/step-12")), ("the latest", ())):
                    got = evaluated(*chosen, *arguments, folder=folder)
                    report.true(f"{name}: the last validation, bit by bit, {title}", got["metrics"] == last["validation"] and got["samples"] == 11, got)
                got = evaluated(*chosen, "data.a.file=a.npy", "data.b.file=b.npy", folder=folder)
                bound = BOUND if precision == "f64" else 2e-6
                report.check(f"{name}: over files of the command line, all of them, as NumPy", far(got["metrics"], metrics(a, b, trained)), bound,
                             far(got["metrics"], metrics(a, b, trained)) <= bound and got["samples"] == 51)
                got = evaluated(*chosen, "validation.steps=2", folder=folder)
                report.check(f"{name}: two batches", far(got["metrics"], metrics(a[40:48], b[40:48], trained)), bound)
                out = f"{folder}/fetched"
                execute(meshc(), "fetch", "normed.mesh", "logits", *chosen, "--evaluate", "--params", "ck", "--feed", "a=few.npy", "--out", out, cwd=folder)
                worst = float(np.abs(np.load(f"{out}/logits.npy") - logits(a[:4], trained)).max())
                report.check(f"{name}: fetch --evaluate, without labels, as NumPy", worst, BOUND if precision == "f64" else 1e-5)
        check_whole_numbers(report, folder, random)
        check_draws(report, folder, random)
        check_without_states(report, folder, a, b)
        check_program(report, folder)
        check_not_finite(report, folder)
        check_mistakes(report, folder)


COUNTED = """dim batch = 8
model Counted {
  input x : real[batch]
  input of : i64[batch]
  param w : real = 1
  loss = mean[batch]((x * w) ^ 2)
  metric total   = sum[batch](of)
  metric largest = max[batch](of)
  metric counted = sum[batch](i32(of % 1000) * 10007 + 1)
  metric many    = sum[batch](i32(of % 1000) * 260000)
  metric average = f64(sum[batch](i32(of % 1000) * 260000)) / f64(sum[batch](i32(of % 1000)))
  minimize loss with sgd(lr: 0.1)
}
mesh line { all: 2 }
layout default on line { batch -> all }
"""


def check_whole_numbers(report, folder, random):
    """Metrics of whole numbers have all their digits, in f32 too, and sums of a set more of them than those of a batch."""
    with open(f"{folder}/counted.mesh", "w") as file:
        file.write(COUNTED)
    of = random.integers(10**9, 10**11, 21)
    np.save(f"{folder}/of.npy", of)
    np.save(f"{folder}/x.npy", np.ones(21, np.float32))
    safetensors.write(f"{folder}/one.safetensors", {"w": np.ones((), np.float32)})
    done = execute(meshc(), "evaluate", "counted.mesh", "--params", "one.safetensors", "data.x.file=x.npy", "data.of.file=of.npy", "--json", cwd=folder)
    got = {name: number for name, number in json.loads(done.stdout)["metrics"].items() if name != "loss"}
    many = of % 1000 * 260000
    report.true("a set has more than 32 bits, a batch has not", many.sum() >= 2**31 > max(many[at:at + 8].sum() for at in (0, 8, 16)))
    expected = {"total": of.sum(), "largest": of.max(), "counted": (of % 1000 * 10007 + 1).sum(), "many": many.sum(), "average": 260000}
    report.true("metrics of whole numbers, with every digit", got == expected, (got, expected))


DRAWN = """dim batch = 8, seq = 6, turn = 2
model Drawn {
  input x : real[batch, seq]
  param w : real[seq] = ones
  masked = random_uniform[batch, seq]() < 0.3
  across = random_normal[seq, batch]()
  noise  = sum[seq](across * where(masked, x * w, 0))
  repeat turn { noise = noise + random_uniform[batch]() }
  drawn = noise * random_uniform()
  loss = mean[batch](drawn ^ 2)
  metric share = mean[batch, seq](masked)
  minimize loss with sgd(lr: 0.1)
}
mesh line { all: 2 }
layout split on line { batch -> all }
layout features on line { seq -> all }
layout parts on line { batch -> all { accumulate: 2 } }
"""


def drawn(x, seed, step):
    samples = len(x)
    masked = uniform(seed, "random_uniform", [step], (samples, 6)) < 0.3
    noise = (normal(seed, "random_normal", [step], (samples, 6)) * np.where(masked, x, 0)).sum(1)
    for turn in range(2):
        noise = noise + uniform(seed, "turn.random_uniform", [step, turn], (samples,))
    return masked, noise * uniform(seed, "random_uniform_2", [step], ())


def check_draws(report, folder, random):
    """Draws go by a sample's place in the set: evaluations and predictions are those of NumPy whatever the batch."""
    x = random.normal(size=(21, 6))
    np.save(f"{folder}/drawn.npy", x)
    safetensors.write(f"{folder}/ones.safetensors", {"w": np.ones(6, np.float32)})
    with open(f"{folder}/drawn.mesh", "w") as file:
        file.write(DRAWN)
    for layout, batch in (("split", 8), ("features", 4), ("parts", 12), ("parts", 24)):
        common = ("drawn.mesh", "--layout", layout, "--set", f"batch={batch}", "--precision", "f64", "--params", "ones.safetensors", "data.x.file=drawn.npy", "-A", "oversubscribed")
        got = json.loads(execute(meshc(), "evaluate", *common, "--json", cwd=folder).stdout)
        masked, values = drawn(x, 1, got["step"])
        report.check(f"draws of a set, {layout}, batches of {batch}, as NumPy", far(got["metrics"], {"loss": (values**2).mean(), "share": masked.mean()}), BOUND)
        execute(meshc(), "predict", *common[:1], "drawn", *common[1:], "--out", "predicted", cwd=folder)
        report.check(f"and predicted, {layout}, batches of {batch}", float(np.abs(np.load(f"{folder}/predicted/drawn.npy") - values).max()), BOUND)


def check_without_states(report, folder, a, b):
    """Parameters alone: states have their first values, one of them that of a parameter."""
    trained = read_checkpoint(f"{folder}/ck/step-12")
    safetensors.write(f"{folder}/w.safetensors", {"w": trained["w"]})
    first = {"batch_norm.seen_mean": np.zeros(6), "batch_norm.seen_var": np.ones(6), "w": trained["w"], "slow": trained["w"]}
    done = execute(meshc(), "evaluate", "normed.mesh", "--layout", "split", "--precision", "f64", "--params", "w.safetensors", "--json", cwd=folder)
    report.check("without states, as NumPy", far(json.loads(done.stdout)["metrics"], metrics(a[40:], b[40:], first)), 1e-6)
    lacking = "lacks the states slow, batch_norm.seen_mean, batch_norm.seen_var: they have their first values"
    report.true("a note says so", lacking in done.stderr, done.stderr)
    done = execute(meshc(), "fetch", "normed.mesh", "logits", "--layout", "whole", "--evaluate", "--params", "w.safetensors", "--feed", "a=few.npy", "--out", "first", cwd=folder)
    report.true("and fetch does", lacking in done.stderr, done.stderr)
    report.check("fetched without states, as NumPy", float(np.abs(np.load(f"{folder}/first/logits.npy") - logits(a[:4], first)).max()), 1e-5)


def check_not_finite(report, folder):
    """A metric that is no number ends it with 3, unless the run file takes it so."""
    trained = read_checkpoint(f"{folder}/ck/step-12")
    safetensors.write(f"{folder}/nan.safetensors", {"w": np.full_like(trained["w"], np.nan)})
    for words, code, said in (((), 3, "error: `loss` is nan; `log.nonfinite=ignore` takes it as it is"), (("log.nonfinite=warn",), 0, "warning: `loss` is nan; "), (("log.nonfinite=ignore",), 0, "")):
        done = execute(meshc(), "evaluate", "normed.mesh", "--layout", "split", "--params", "nan.safetensors", *words, cwd=folder, code=None)
        told = "`loss` is nan" in done.stderr
        report.true(f"a loss that is nan {' '.join(words)}", done.returncode == code and told == bool(said) and said in done.stderr and "loss" in done.stdout, f"{done.returncode}: {done.stderr[-300:]}")


def check_program(report, folder):
    """A built program gives what `meshc evaluate` gives, without the compiler; training is as it was."""
    execute(meshc(), "build", "normed.mesh", "--layout", "split", "-o", "built", cwd=folder)
    expected = evaluated("--layout", "split", folder=folder)["metrics"]
    for how in (("-n", "2"), ("--threads",)):
        got = evaluated(*how, "--params", "ck", folder=folder, program="built/normed")
        report.true(f"the built program, {' '.join(how)}", got["metrics"] == expected, got)
    report.true("nothing is written", sorted(os.listdir(f"{folder}/ck")) == [".lock", "latest", "step-12"], os.listdir(f"{folder}/ck"))


def check_mistakes(report, folder):
    for command, code, said in (
            (("evaluate", "normed.mesh", "--layout", "split", "--params", "none"), 2, "--params: Path does not exist: none"),
            (("evaluate", "normed.mesh", "--layout", "split", "checkpoint.dir=none"), 1, "`none` holds no checkpoint yet"),
            (("evaluate", "normed.mesh", "--layout", "split", "--set", "kind=4", "--params", "ck"), 1, "`w` is [6, 3] in the file and [6, 4] in the program"),
            (("evaluate", "normed.mesh", "--layout", "split", "data.a.file=few.npy"), 1, "`b` has 40 samples, but `a` has 4"),
            (("evaluate", "normed.mesh", "--layout", "split", "data.a.file=no.npy"), 1, "cannot read `no.npy`"),
            (("fetch", "normed.mesh", "grad(w)", "--evaluate", "--out", "o"), 2, "`grad(w)` is of a training step: an evaluation has no gradients"),
            (("fetch", "normed.mesh", "logits", "--evaluate", "--steps", "2", "--out", "o"), 2, "--steps trains, --evaluate does not: give one of them"),
            (("fetch", "normed.mesh", "logits", "--layout", "whole", "--evaluate", "--out", "o"), 1, "nothing is fed to `a`:"),
    ):
        done = execute(meshc(), *command, code=None, cwd=folder)
        report.true(f"meshc {' '.join(command)}", done.returncode == code and said in done.stderr, f"{done.returncode}: {done.stderr[-400:]}")
