"""Losses that are scaled (`loss_scale` of a precision): scales, skipped steps, parameters and moments of 12 steps against a simulation of PyTorch's GradScaler in NumPy, under
layouts; growth after 2000 good steps; what is skipped leaks nothing; resumed bit by bit, and between runs with and without a scale."""
import math
import os

import numpy as np

import equality
from checkpoints import tensors
from common import TOP, Report, json_lines, meshc, scratch, sets
from common import run as execute
from oracle import torch_optim as optim

SEED, STEPS = 20261127, 12
# Backward multiplies by 2^e and then by 2^-e: gradients are small, but with the scale what is on the way to them may be too large for f32. A sum of two samples is the
# same in any order, and multiplying by powers of two is exact: so are the gradients.
SPEC = """dim batch = 2, n = 6, layer = 2
model Scaled {
  input large, small : real[batch]
  input t, u : real[batch, n]
  param p : real[n] = ones
  h = p * (t * small)
  repeat layer {
    param q : real[n] = ones
    h = h + q * (u * small)
  }
  loss = sum[batch, n](h * large * t)
  minimize loss with OPTIMIZER
}
mesh single { x: 1 }
mesh pair { x: 2 }
mesh square { x: 2, y: 2 }
layout one on single { }
layout data on pair { batch -> x }
layout model on pair { n -> x }
layout zero_1 on pair { batch -> x; optimizer { n -> x } }
layout params on pair { batch -> x; params { n -> x } }
layout square on square { batch -> x; n -> y }
layout parts on single { batch -> x { accumulate: 2 }; layer -> none { remat: "layer" } }
layout pipe on pair { layer -> x { microbatches: 2, schedule: "1f1b" } }
layout split on pair { layer -> x { microbatches: 2, schedule: "1f1b", backward: "split", remat: "stage" } }
precision scaled { loss_scale: dynamic }
precision fixed { loss_scale: 30000 }
precision good { loss_scale: 16384 }
precision narrow { params: bf16, reduce: bf16, loss_scale: dynamic }
precision half { reduce: f16 }
precision half_fixed { reduce: f16, loss_scale: 65536 }
precision half_alone { reduce: f16, loss_scale: none }
precision plain { loss_scale: none }
"""
RANKS = dict(one=1, data=2, model=2, zero_1=2, params=2, square=4, parts=1, pipe=2, split=2)
# What the batch of each step has for e: with 115 the scale may be 2^13, with 124 it may be 2^4 (t is between 1/2 and 1).
EXPONENTS = [115, 60, 60, 115, 113, 113, 60, 0, 60, 124, 60, 115]
OPTIMIZERS = {"sgd": ("sgd(lr: 0.01, momentum: 0.9)", lambda: optim.Sgd(momentum=0.9), 0.01, None),
              "adamw": ("adamw(lr: 0.02, weight_decay: 0.1)", lambda: optim.AdamW(weight_decay=0.1), 0.02, None),
              "clipped": ("adamw(lr: cosine(peak: 0.02, warmup: 4, steps: 14), clip: 0.5)", lambda: optim.AdamW(weight_decay=0.01), optim.cosine(0.02, 4, 14), 0.5)}


# Of each optimizer all that it keeps.
MORE = {"nesterov": "sgd(lr: 0.01, momentum: 0.9, nesterov: true)", "adam": "adam(lr: 0.02, weight_decay: 0.1)", "rmsprop": "rmsprop(lr: 0.01, momentum: 0.8, centered: true)",
        "lion": "lion(lr: 0.01, weight_decay: 0.1)", "adafactor": "adafactor(lr: 0.01, beta1: 0.9, smallest_factored: 2)"}


class GradScaler:
    """torch.cuda.amp.GradScaler with its defaults; of a fixed scale it skips alone."""

    def __init__(self, scale=65536.0, dynamic=True):
        self.scale, self.dynamic, self.good, self.skipped = scale, dynamic, 0, 0

    def update(self, finite):
        self.skipped += not finite
        self.good = self.good + 1 if finite else 0
        if self.dynamic and not finite:
            self.scale *= 0.5
        elif self.dynamic and self.good == 2000:
            self.scale, self.good = self.scale * 2, 0


def gradients_of(arrays, step, scale):
    """Those of the scaled loss, in f32: every product in the order of the spec."""
    large, small, t, u = (arrays[name][2 * step:2 * step + 2] for name in ("large", "small", "t", "u"))
    with np.errstate(over="ignore", invalid="ignore"):
        d = np.float32(scale) * t * large[:, None]
        share = np.float32(1) / np.float32(scale)
        return {"p": (d * (t * small[:, None])).sum(0) * share, "layer.q": np.stack([(d * (u * small[:, None])).sum(0) * share] * 2)}


def simulate(arrays, optimizer, scaler):
    """Of each step what is watched; then parameters, and what the optimizer keeps."""
    _, make, rate, largest = optimizer
    optimizer, watched = make(), []
    p = {"p": np.ones(6, np.float32), "layer.q": np.ones((2, 6), np.float32)}
    for step in range(STEPS):
        gradients = gradients_of(arrays, step, scaler.scale)
        finite = all(np.isfinite(g).all() for g in gradients.values())
        norm = math.sqrt(sum(float((g.astype(np.float64)**2).sum()) for g in gradients.values())) if finite else math.nan
        watched.append({"loss_scale": scaler.scale, "skipped_steps": scaler.skipped, "grad_norm": norm})
        taken = step + 1 - scaler.skipped
        if finite:
            for name, g in (optim.clip(gradients, largest) if largest else gradients).items():
                p[name] = optimizer.step(name, p[name], np.asarray(g, np.float32), rate(step + 1) if callable(rate) else rate, taken)
        scaler.update(finite)
    kept = getattr(optimizer, "moments", None) or {name: (m,) for name, m in optimizer.buffers.items()}
    return watched, p, kept


def batches(folder, random, exponents):
    rows = 2 * len(exponents)
    e = np.repeat(np.array(exponents), 2)
    arrays = {"large": np.exp2(e.astype(np.float64)).astype(np.float32), "small": np.exp2(-e.astype(np.float64)).astype(np.float32),
              "t": random.uniform(0.5, 1, (rows, 6)).astype(np.float32), "u": random.uniform(0.5, 0.9, (rows, 6)).astype(np.float32)}
    for name, array in arrays.items():
        np.save(f"{folder}/{name}.npy", array)
    return arrays


class Trainer:
    """A built program, and its run file."""

    def __init__(self, folder, optimizer, layout, precision):
        self.folder, self.ranks = folder, RANKS[layout]
        out, self.run_file = f"{folder}/{optimizer}-{layout}-{precision}", f"{folder}/{precision}.yaml"
        self.program = f"{out}/{optimizer}"
        if os.path.exists(out):
            return
        watch = "grad_norm" if precision == "plain" else "loss_scale, skipped_steps, grad_norm"
        with open(self.run_file, "w") as file:
            file.write("data: { " + ", ".join(f"{name}: {{ file: {name}.npy }}" for name in ("large", "small", "t", "u")) + f" }}\nlog: {{ every: 1, watch: [{watch}] }}\n")
        execute(meshc(), "build", f"{folder}/{optimizer}.mesh", self.run_file, "--layout", layout, "--precision", precision, "-o", out)

    def train(self, title, steps, *more):
        """Lines of the steps, what was printed; checkpoints are in a folder called as the title."""
        log = f"{self.folder}/{title}.jsonl"
        done = execute(self.program, "-n", self.ranks, self.run_file, f"train.steps={steps}", f"checkpoint.dir={self.folder}/{title}", f"log.jsonl={log}", *more)
        return [{key: line[key] for key in ("step", "loss", "watch") if key in line} for line in json_lines(log) if "loss" in line], done.stdout + done.stderr


def distance(got, expected):
    """The largest difference, of the largest number."""
    return float(np.max(np.abs(got.astype(np.float64) - expected)) / np.max(np.abs(expected)))


def compare(report, title, lines, stored, expected, exact):
    watched, p, kept = expected
    for name in ("loss_scale", "skipped_steps"):
        got = [line["watch"][name] for line in lines]
        report.true(f"{title}: {name} of each step", got == [one[name] for one in watched], got)
    wrong = [(line["watch"]["grad_norm"], one["grad_norm"]) for line, one in zip(lines, watched, strict=True)
             if not (math.isnan(one["grad_norm"]) and not math.isfinite(line["watch"]["grad_norm"] or math.nan)) and abs((line["watch"]["grad_norm"] or math.nan) / one["grad_norm"] - 1) > 1e-6]
    report.true(f"{title}: grad_norm is that without the scale", not wrong, wrong)
    moments = {1: ("momentum",), 2: ("moment1", "moment2")}[len(next(iter(kept.values())))]
    all_expected = {**p, **{f"{name}.{moment}": kept[name][i] for name in kept for i, moment in enumerate(moments)}}
    far = {name: distance(stored[name], value) for name, value in all_expected.items()}
    worst = max(far, key=far.get)
    report.check(f"{title}: {len(far)} tensors after {len(lines)} steps from NumPy's, worst {worst}", float(f"{far[worst]:.1e}"), 0 if exact else 2e-6)
    report.true(f"{title}: counts in the checkpoint", stored["loss.skipped_steps"] == watched[-1]["skipped_steps"] + (not math.isfinite(watched[-1]["grad_norm"])), stored["loss.skipped_steps"])


def check_steps(report, folder, random, small):
    arrays = batches(folder, random, EXPONENTS)
    for name, optimizer in OPTIMIZERS.items():
        for precision, scaler in (("scaled", GradScaler()), ("fixed", GradScaler(30000.0, False))):
            expected = simulate(arrays, optimizer, scaler)
            skipped = scaler.skipped
            report.true(f"{name} {precision}: some steps are skipped and some are not", 2 <= skipped <= STEPS - 3, skipped)
            one = None
            layouts = ("one", "split", "zero_1") if small and name == "clipped" and precision == "scaled" else ("one",) if small or precision == "fixed" else RANKS
            for layout in layouts:
                title = f"{name}-{precision}-{layout}"
                lines, said = Trainer(folder, name, layout, precision).train(title, STEPS)
                report.true(f"{title}: the end says how many steps were skipped", f"\n{skipped} of {STEPS} steps were skipped: " in said and "trained nothing" not in said, said[-500:])
                stored = tensors(f"{folder}/{title}/step-{STEPS}")
                compare(report, title, lines, stored, expected, exact=name == "sgd")
                one = one or stored
                far = max(distance(stored[path], value) for path, value in one.items() if np.any(value))
                report.check(f"{title}: tensors from those of one rank", float(f"{far:.1e}"), 0 if name != "clipped" else 1e-6)


def check_nothing_left(report, folder, random):
    """After two steps that overflow all is as after none: five steps, of which two are skipped, leave what three do that begin with the scale that comes of it."""
    same = equality.feeds(folder, batches(folder, random, [114]))
    for name in MORE:
        def fetched(precision, steps, name=name):
            out = f"{folder}/{name}-{precision}"
            execute(meshc(), "fetch", f"{folder}/{name}.mesh", "param(**)", "--layout", "zero_1", "--precision", precision, "--steps", steps, *same, "--out", out)
            return {path: np.load(f"{out}/param({path}).npy") for path in ("p", "layer.q")}

        scaled, good = fetched("scaled", 5), fetched("good", 3)
        report.true(f"{name}: skipped steps leave nothing behind", all(np.array_equal(scaled[path], x) and not np.all(x == 1) for path, x in good.items()))


def check_narrow(report, folder, random, small):
    """Parameters that are rounded by chance stay as they are in a skipped step."""
    batches(folder, random, EXPONENTS)
    for layout in ["zero_1"] if small else ["one", "zero_1", "pipe"]:
        lines, _ = Trainer(folder, "adamw", layout, "narrow").train(f"narrow-{layout}", STEPS, "checkpoint.every=1", f"checkpoint.keep={STEPS}")
        stored = [{path: x for path, x in tensors(f"{folder}/narrow-{layout}/step-{step}").items() if not path.startswith("loss.")} for step in range(1, STEPS + 1)]
        for step in range(1, STEPS):
            skipped = step + 1 < STEPS and lines[step + 1]["watch"]["skipped_steps"] > lines[step]["watch"]["skipped_steps"]
            same = [np.array_equal(x, stored[step - 1][path]) for path, x in stored[step].items()]
            if skipped:
                report.true(f"narrow {layout}: step {step + 1} changes none of {len(same)} tensors", all(same))
            elif step + 1 < STEPS:
                report.true(f"narrow {layout}: step {step + 1} changes tensors", not all(same))


def check_growth(report, folder, random):
    """The same batch in every step: the scale is as large as it may be, and tries a larger one after each 2000 steps. The interpreter has the same bits."""
    steps, same = 4010, batches(folder, random, [112])
    scaler, scales = GradScaler(), []
    for _ in range(steps):
        scales.append(scaler.scale)
        scaler.update(all(np.isfinite(g).all() for g in gradients_of(same, 0, scaler.scale).values()))
    lines, _ = Trainer(folder, "adamw", "one", "scaled").train("growth", steps)
    got = [line["watch"]["loss_scale"] for line in lines]
    report.true(f"the scale of each of {steps} steps: {sorted(set(scales))}, {scaler.skipped} skipped", got == scales and scaler.skipped == 2, [i for i, (a, b) in enumerate(zip(got, scales)) if a != b][:5])
    execute(meshc(), "fetch", f"{folder}/adamw.mesh", "param(**)", "--layout", "one", "--precision", "scaled", "--steps", 2100, *equality.feeds(folder, same), "--out", f"{folder}/interpreted")
    Trainer(folder, "adamw", "one", "scaled").train("emitted", 2100)
    stored = tensors(f"{folder}/emitted/step-2100")
    report.true("after 2100 steps the interpreter has the same bits", all(np.array_equal(np.load(f"{folder}/interpreted/param({name}).npy"), stored[name]) for name in ("p", "layer.q")))


def check_interpreted(report, folder, random, small):
    """A batch that overflows at first: values, gradients and parameters under layouts, by the interpreter."""
    same = batches(folder, random, [114])
    for name in OPTIMIZERS:
        for layout in ("params", "parts") if small else RANKS:
            done = execute(meshc(), "verify", f"{folder}/{name}.mesh", "--layout", layout, "--precision", "scaled", "--steps", 3, code=None)
            report.true(f"{name} {layout}: verify", done.returncode == 0, "" if done.returncode == 0 else done.stdout + done.stderr)

            def fetched(layout=layout, steps=7):
                out = f"{folder}/fetched-{name}-{layout}-{steps}"
                execute(meshc(), "fetch", f"{folder}/{name}.mesh", "param(**)", "grad(**)", "--layout", layout, "--precision", "scaled", "--steps", steps, *equality.feeds(folder, same), "--out", out)
                return {file: np.load(f"{out}/{file}") for file in os.listdir(out)}

            one, many = fetched("one"), fetched()
            far = max(distance(many[file], value) for file, value in one.items())
            report.check(f"{name} {layout}: parameters and gradients of step 7 from those of one rank", float(f"{far:.1e}"), 0 if name != "clipped" else 1e-6)
        report.true(f"{name}: two steps that overflow change nothing", all(np.all(value == 1) for file, value in fetched("one", 2).items() if file.startswith("param")))


def check_resume(report, folder, random):
    batches(folder, random, EXPONENTS)
    scaled, plain = (Trainer(folder, "clipped", "zero_1", precision) for precision in ("scaled", "plain"))
    whole, _ = scaled.train("whole", STEPS, "checkpoint.every=5")
    again, said = scaled.train("again", STEPS, f"checkpoint.resume={folder}/whole/step-5")
    one, other = tensors(f"{folder}/whole/step-{STEPS}"), tensors(f"{folder}/again/step-{STEPS}")
    report.true("resumed, the same bits", again == whole[5:] and all(np.array_equal(x, other[name]) for name, x in one.items()), again[0]["watch"])
    report.true("and the log says nothing of it", "loss.scale" not in said, "" if "loss.scale" not in said else said[:400])
    plain.train("plain", 5)
    began, said = scaled.train("began", STEPS, f"checkpoint.resume={folder}/plain/step-5")
    report.true("a run without a scale goes on with one, which begins", began[0]["watch"]["loss_scale"] == 65536 and began[0]["watch"]["skipped_steps"] == 0, began[0])
    report.true("the log says so", f"`{folder}/plain/step-5` lacks loss.scale, loss.good_steps, loss.skipped_steps: as at the start of a run" in said, said.split("\n")[2])
    ceased, said = plain.train("ceased", STEPS, f"checkpoint.resume={folder}/whole/step-5")
    report.true("a run with a scale goes on without", len(ceased) == STEPS - 5 and f"`{folder}/whole/step-5` also has loss.scale, loss.good_steps, loss.skipped_steps: not read" in said, said.split("\n")[1])


def check_left_alone(report, folder):
    """Without a scale, and in f64, a program has nothing of it."""
    def emitted(*options):
        execute(meshc(), "build", f"{folder}/adamw.mesh", "--layout", "data", *options, "--no-compile", "-o", f"{folder}/alone")
        with open(f"{folder}/alone/adamw.cpp") as file:
            return [line for line in file if not any(word in line for word in ("spec", "numbers  ", "precision", "meshc build"))]

    report.true("`loss_scale: none` is the program of f32", emitted("--precision", "plain") == emitted())
    report.true("of f64 none is scaled", not any("loss_scale" in line for line in emitted("--precision", "f64")))


def check_half(report, folder, random):
    """What it is for: gradients that ranks add up in f16 are not lost where they are small, and steps in which they are too large for it are skipped."""
    arrays = batches(folder, random, [0])
    arrays["small"] = np.full(2, 2.0**-27, np.float32)
    feeds = equality.feeds(folder, arrays)

    def gradient(precision):
        execute(meshc(), "fetch", f"{folder}/sgd.mesh", "grad(p)", "--layout", "data", "--precision", precision, *feeds, "--out", f"{folder}/gradient")
        return np.load(f"{folder}/gradient/grad(p).npy")

    wide = gradient("f32")
    report.true("a gradient of 1e-8 is 0 in f16", np.all(gradient("half_alone") == 0) and np.max(wide) < 3e-8, np.max(wide))
    report.check("with a scale it is that of f32, rounded, relative", float(f"{distance(gradient('half_fixed'), wide):.1e}"), 2.0**-10)
    np.save(f"{folder}/small.npy", np.ones(2, np.float32))
    np.save(f"{folder}/large.npy", np.full(2, 8, np.float32))
    largest, scaler, scales = 8 * max(np.max((arrays["t"] * arrays[of]).sum(0)) for of in "tu"), GradScaler(), []
    for _ in range(8):
        scales.append(scaler.scale)
        scaler.update(scaler.scale * largest < 65520)
    lines, _ = Trainer(folder, "sgd", "data", "half").train("half", 8)
    got = [line["watch"]["loss_scale"] for line in lines]
    report.true("the scale falls until f16 holds the gradients", got == scales and scaler.skipped >= 2, got)


OVERFLOWS = """dim batch = 4, a = 4, b = 4
model Overflows {
  input x : real[batch, a]
  param w : KEPT[a, b] = BEGINS
  y = dot[a](x, w)
  loss = mean[batch, b](y ^ 2)
  minimize loss with adamw(lr: 1e-3)
}
mesh line { data: 2 }
layout default on line { a -> data }
precision half { compute: f16 }
precision beyond { compute: f16, loss_scale: 1e30 }
"""


def check_overflows(report, folder, random):
    """Gradients that f16 has no room for are skipped and not blamed; a parameter that it has none for is."""
    np.save(f"{folder}/x.npy", (100 * random.normal(size=(4, 4))).astype(np.float32))
    for name, kept, begins in (("gradients", "real", "normal(std: 1)"), ("parameter", "f16", "100000")):
        with open(f"{folder}/{name}.mesh", "w") as file:
            file.write(OVERFLOWS.replace("KEPT", kept).replace("BEGINS", begins))
        with open(f"{folder}/{name}.yaml", "w") as file:
            file.write(f"data: {{ x: {{file: x.npy}} }}\ntrain: {{ steps: 4 }}\nlog: {{ every: 1, watch: [skipped_steps], jsonl: {folder}/{name}.jsonl }}\n")
    said = execute(meshc(), "run", f"{folder}/gradients.mesh", "--precision", "beyond").stdout
    report.true("a run whose scale is beyond all numbers warns that it has trained nothing", "\nwarning: 4 of 4 steps were skipped: " in said and "the run has trained nothing: give a smaller `loss_scale`" in said, said)
    execute(meshc(), "run", f"{folder}/gradients.mesh", "--precision", "half", "--find-nonfinite")
    skipped = [line["watch"]["skipped_steps"] for line in json_lines(f"{folder}/gradients.jsonl") if "watch" in line]
    report.true("a gradient that is not finite is skipped, and no value is named", skipped[-1] > 0, skipped)
    told = execute(meshc(), "run", f"{folder}/parameter.mesh", "--find-nonfinite", code=None).stderr
    report.true("an infinite parameter of f16 is named", "`w` at parameter.mesh:4 is the first value that is not finite" in told, told)
    said = execute(meshc(), "verify", f"{folder}/gradients.mesh", "--precision", "half", "--scale", 100, code=1).stdout
    report.true("verify says which gradient cannot be compared", [line.split()[0] for line in said.splitlines() if line.endswith("NaN")] == ["grad(w)"], said)


def check_gpt(report, folder, random, small):
    """With products, parameters and sums in bf16: a scale of a power of two changes no bit but where numbers are subnormal."""
    sizes, steps = equality.GPT, 3
    layouts = equality.layouts_file(folder, "gpt-scaled", "heads")
    with open(layouts, "a") as file:
        file.write("precision half { compute: bf16, params: bf16, reduce: bf16 }\nprecision scaled { compute: bf16, params: bf16, reduce: bf16, loss_scale: dynamic }\n")
    arrays = {name: random.integers(0, sizes["vocab"], (sizes["batch"], sizes["seq"])).astype(np.int32) for name in ("token", "target")}
    spec = [f"{TOP}/specs/gpt.mesh", layouts, *sets(**sizes)]
    for layout in ["params"] if small else ["one", "batch_2", "zero_1", "params"]:
        half, scaled = (equality.fetch(folder, "gpt", spec, equality.feeds(folder, arrays), steps, precision, ["--layout", layout]) for precision in ("half", "scaled"))
        error, tensor = equality.worst(half, scaled)
        report.check(f"gpt {layout}, {steps} steps: loss and gradients from those without a scale, worst {tensor}", float(f"{error:.1e}"), 1e-6)


def run(small):
    report = Report()
    print(f"seed {SEED}")
    random = np.random.default_rng(SEED)
    with scratch() as folder:
        for name, text in {**{name: text for name, (text, *_) in OPTIMIZERS.items()}, **MORE}.items():
            with open(f"{folder}/{name}.mesh", "w") as file:
                file.write(SPEC.replace("OPTIMIZER", text))
        report.attempt("steps", lambda: check_steps(report, folder, random, small))
        report.attempt("nothing left", lambda: check_nothing_left(report, folder, random))
        report.attempt("narrow", lambda: check_narrow(report, folder, random, small))
        report.attempt("growth", lambda: check_growth(report, folder, random))
        report.attempt("interpreted", lambda: check_interpreted(report, folder, random, small))
        report.attempt("resume", lambda: check_resume(report, folder, random))
        report.attempt("left alone", lambda: check_left_alone(report, folder))
        report.attempt("half", lambda: check_half(report, folder, random))
        report.attempt("overflows", lambda: check_overflows(report, folder, random))
        report.attempt("gpt", lambda: check_gpt(report, folder, random, small))
    return report
