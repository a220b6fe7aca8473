"""20 steps of every optimizer against its formulas in NumPy, on one rank and on two with the optimizer's state split; a group's own settings;
adafactor layer by layer. The formulas are compared with PyTorch where it has them and is installed."""
import os

import numpy as np

from common import Report, meshc, scratch
from common import run as execute
from oracle import safetensors
from oracle import torch_optim as optim

SEED = 20261120
BOUND = 1e-10

SPEC = """dim n = 6, a = 3, b = 5
model Fit {{
  input target : real[n, a, b]
  param p1 : real[a, b] = zeros
  param p2 : real[b] = zeros
  param p3 : real = zeros
  param p4 : real[a] = zeros
  y = sin(p1 * p2) + p3 * p2 + p4
  loss = mean[n, a, b]((target - y) ^ 2)
  minimize loss with {optimizer}
}}
mesh single {{ x: 1 }}
mesh two {{ x: 2 }}
mesh plane {{ x: 2, z: 2 }}
layout one on single {{ n -> x }}
layout state on two {{ n -> x; optimizer {{ b -> x }} }}
layout weights on two {{ n -> x; params {{ b -> x }} }}
layout model on two {{ a -> x; optimizer {{ a -> none }} }}
layout both on plane {{ n -> x; a -> z; optimizer {{ b -> x }} }}
"""

LAYERS = """dim n = 6, a = 7, b = 5, c = 4, l = 3
model Deep {{
  input target : real[n, a, b, c]
  param p : real[a, b, c] = zeros
  h = broadcast[n](p)
  repeat l {{
    param w : real[c, b, a] = zeros
    param g : real[a] = zeros
    h = sin(h * w) + g
  }}
  loss = mean[n, a, b, c]((target - h) ^ 2)
  minimize loss with {optimizer}
}}
mesh single {{ x: 1 }}
mesh plane {{ x: 2, z: 2 }}
layout one on single {{ n -> x }}
layout split on plane {{ n -> x; params {{ a -> z }} }}
layout state on plane {{ n -> x; optimizer {{ a -> x; b -> z }} }}
layout factors on plane {{ b -> x; a -> z }}
"""

COSINE = "cosine(peak: 0.1, warmup: 4, steps: 22, floor: 0.01)"
# what stands in the spec, NumPy's optimizer, its rate, largest norm, weight decay by parameter, frozen
CASES = [
    ("sgd(lr: 0.1)", lambda: optim.Sgd(), 0.1, None, {}, ()),
    ("sgd(lr: 0.05, momentum: 0.9)", lambda: optim.Sgd(momentum=0.9), 0.05, None, {}, ()),
    ("sgd(lr: 0.05, momentum: 0.8, nesterov: true, weight_decay: 0.1)", lambda: optim.Sgd(0.8, True, 0.1), 0.05, None, {}, ()),
    ("sgd(lr: 0.1, weight_decay: 0.2, clip: 0.3)", lambda: optim.Sgd(weight_decay=0.2), 0.1, 0.3, {}, ()),
    ("adam(lr: 0.02)", lambda: optim.Adam(), 0.02, None, {}, ()),
    ("adam(lr: 0.02, beta1: 0.7, beta2: 0.95, epsilon: 1e-3, weight_decay: 0.1)", lambda: optim.Adam(0.7, 0.95, 1e-3, 0.1), 0.02, None, {}, ()),
    ("adamw(lr: 0.02)", lambda: optim.AdamW(), 0.02, None, {}, ()),
    ("adamw(lr: 0.02, beta1: 0.8, weight_decay: 0.3, clip: 0.2)", lambda: optim.AdamW(beta1=0.8, weight_decay=0.3), 0.02, 0.2, {}, ()),
    (f"adamw(lr: {COSINE}, clip: 1.0)", lambda: optim.AdamW(), optim.cosine(0.1, 4, 22, 0.01), 1.0, {}, ()),
    ("sgd(lr: cosine(peak: 0.2, warmup: 1, steps: 20), momentum: 0.5)", lambda: optim.Sgd(0.5), optim.cosine(0.2, 1, 20), None, {}, ()),
    ("adamw(lr: 0.02, weight_decay: 0.1) { p2, p3 { weight_decay: 0 } }", lambda: optim.AdamW(weight_decay=0.1), 0.02, None, {"p2": 0, "p3": 0}, ()),
    ("sgd(lr: 0.1, momentum: 0.9, clip: 0.25) { p1 { weight_decay: 0.3 }; p4 { frozen } }", lambda: optim.Sgd(0.9), 0.1, 0.25, {"p1": 0.3}, ("p4",)),
    ("adam(lr: 0.02, clip: 0.25) { p1, p3 { frozen } }", lambda: optim.Adam(), 0.02, 0.25, {}, ("p1", "p3")),
    ("adam(lr: 0.02, epsilon: 1e-6, bias_correction: false)", lambda: optim.Adam(epsilon=1e-6, corrected=False), 0.02, None, {}, ()),
    ("adamw(lr: 0.02, weight_decay: 0.1, bias_correction: false)", lambda: optim.AdamW(weight_decay=0.1, corrected=False), 0.02, None, {}, ()),
    ("rmsprop(lr: 0.02)", lambda: optim.RmsProp(), 0.02, None, {}, ()),
    ("rmsprop(lr: 0.01, alpha: 0.9, epsilon: 1e-4, momentum: 0.8, weight_decay: 0.1, clip: 0.5)", lambda: optim.RmsProp(0.9, 1e-4, 0.8, False, 0.1), 0.01, 0.5, {}, ()),
    ("rmsprop(lr: 0.01, alpha: 0.8, epsilon: 1e-3, centered: true)", lambda: optim.RmsProp(0.8, 1e-3, centered=True), 0.01, None, {}, ()),
    ("lion(lr: 0.01)", lambda: optim.Lion(), 0.01, None, {}, ()),
    ("lion(lr: 0.01, beta1: 0.8, beta2: 0.9, weight_decay: 0.2) { p2 { weight_decay: 0 } }", lambda: optim.Lion(0.8, 0.9, 0.2), 0.01, None, {"p2": 0}, ()),
    ("adafactor(lr: 0.05)", lambda: optim.Adafactor(), 0.05, None, {}, ()),
    ("adafactor(lr: 0.05, smallest_factored: 2, clip: 1)", lambda: optim.Adafactor(smallest=2), 0.05, 1.0, {}, ()),
    ("adafactor(smallest_factored: 2, beta1: 0.9)", lambda: optim.Adafactor(beta1=0.9, smallest=2), 0.01, None, {}, ()),
    ("adafactor(scale_by_parameter: false)", lambda: optim.Adafactor(scaled=False), 0.0005, None, {}, ()),
    ("adafactor(lr: 0.01, decay: 0.5, threshold: 0.5, scale_by_parameter: false, factored: false)", lambda: optim.Adafactor(0.5, scaled=False, factored=False, threshold=0.5), 0.01, None, {}, ()),
    ("sgd(lr: linear(peak: 0.2, warmup: 3, steps: 15, floor: 0.02))", lambda: optim.Sgd(), optim.linear(0.2, 3, 15, 0.02), None, {}, ()),
    ("sgd(lr: linear(peak: 0.2))", lambda: optim.Sgd(), optim.linear(0.2, 0, 20), None, {}, ()),
    ("sgd(lr: inverse_sqrt(peak: 0.2, warmup: 5))", lambda: optim.Sgd(), optim.inverse_sqrt(0.2, 5), None, {}, ()),
    ("sgd(lr: inverse_sqrt(peak: 0.2, hold: 5))", lambda: optim.Sgd(), optim.held_inverse_sqrt(0.2, 5), None, {}, ()),
    ("sgd(lr: step(peak: 0.2, every: 6, factor: 0.3))", lambda: optim.Sgd(), optim.step(0.2, 6, 0.3), None, {}, ()),
    ("sgd(lr: step(peak: 0.2, every: 5, warmup: 4))", lambda: optim.Sgd(), optim.step(0.2, 5, warmup=4), None, {}, ()),
    ("sgd(lr: step(peak: 0.2, every: 4, times: 1, factor: 0.5) * step(peak: 1, every: 11, times: 1))", lambda: optim.Sgd(), optim.product(optim.step(0.2, 4, 0.5, 1), optim.step(1, 11, times=1)), None, {}, ()),
    ("sgd(lr: step(peak: 0.2, every: 1, factor: 0.9))", lambda: optim.Sgd(), optim.step(0.2, 1, 0.9), None, {}, ()),
    ("sgd(lr: constant(rate: 0.1, warmup: 8))", lambda: optim.Sgd(), optim.constant(0.1, 8), None, {}, ()),
    (f"sgd(lr: 2 * inverse_sqrt(peak: 1, hold: 4) * ({COSINE}))", lambda: optim.Sgd(), optim.product(2, optim.held_inverse_sqrt(1, 4), optim.cosine(0.1, 4, 22, 0.01)), None, {}, ()),
    ("sgd(lr: 0.1) { p1 { lr: 0.01; momentum: 0.9 }; p2, p3 { lr: 0.5 * linear(peak: 0.2, warmup: 4, steps: 40) } }",
     lambda: Groups({"p1": (optim.Sgd(0.9), 0.01), "p2": (optim.Sgd(), optim.linear(0.1, 4, 40)), "p3": (optim.Sgd(), optim.linear(0.1, 4, 40))}, optim.Sgd()), 0.1, None, {}, ()),
    ("adamw(lr: 0.02, weight_decay: 0.1) { p1 { beta1: 0.5; epsilon: 1e-3 } }", lambda: Groups({"p1": (optim.AdamW(0.5, 0.999, 1e-3, 0.1), 0.02)}, optim.AdamW(weight_decay=0.1)), 0.02, None, {}, ()),
]


# NumPy's formulas beside PyTorch's own optimizers, and the largest norm.
PYTORCH = [
    (optim.Sgd(), lambda torch, p: torch.optim.SGD(p, lr=0.05), None),
    (optim.Sgd(0.8, True, 0.1), lambda torch, p: torch.optim.SGD(p, lr=0.05, momentum=0.8, nesterov=True, weight_decay=0.1), None),
    (optim.Sgd(0.9), lambda torch, p: torch.optim.SGD(p, lr=0.05, momentum=0.9), 0.25),
    (optim.Adam(), lambda torch, p: torch.optim.Adam(p, lr=0.05), None),
    (optim.Adam(0.7, 0.95, 1e-3, 0.1), lambda torch, p: torch.optim.Adam(p, lr=0.05, betas=(0.7, 0.95), eps=1e-3, weight_decay=0.1), None),
    (optim.AdamW(beta1=0.8, weight_decay=0.3), lambda torch, p: torch.optim.AdamW(p, lr=0.05, betas=(0.8, 0.999), weight_decay=0.3), 0.2),
    (optim.RmsProp(0.9, 1e-4, 0.8, False, 0.1), lambda torch, p: torch.optim.RMSprop(p, lr=0.05, alpha=0.9, eps=1e-4, momentum=0.8, weight_decay=0.1), None),
    (optim.RmsProp(0.8, 1e-3, centered=True), lambda torch, p: torch.optim.RMSprop(p, lr=0.05, alpha=0.8, eps=1e-3, centered=True), None),
]


class Groups:
    """Parameters with an optimizer and a rate of their own."""

    def __init__(self, own, common):
        self.own, self.common = own, common

    def step(self, name, p, g, lr, t, weight_decay=None):
        optimizer, rate = self.own.get(name, (self.common, lr))
        return optimizer.step(name, p, g, rate(t) if callable(rate) else rate, t, weight_decay)


def loss_and_gradients(p, target):
    y = np.sin(p["p1"] * p["p2"]) + p["p3"] * p["p2"] + p["p4"][:, None]
    r = -2 * (target - y).sum(0) / target.size
    slope = r * np.cos(p["p1"] * p["p2"])
    return ((target - y) ** 2).mean(), {"p1": slope * p["p2"], "p2": (slope * p["p1"] + r * p["p3"]).sum(0), "p3": (r * p["p2"]).sum(), "p4": r.sum(1)}


def train(case, start, target, steps):
    """Parameters after the steps; loss and gradients of the last, before clipping."""
    _, make, rate, largest, decays, frozen = case
    p, optimizer = dict(start), make()
    for t in range(1, steps + 1):
        loss, gradients = loss_and_gradients(p, target)
        gradients = {name: g for name, g in gradients.items() if name not in frozen}
        for name, g in (optim.clip(gradients, largest) if largest else gradients).items():
            p[name] = optimizer.step(name, p[name], g, rate(t) if callable(rate) else rate, t, decays.get(name))
    return {"loss": loss, **{f"param({n})": v for n, v in p.items()}, **{f"grad({n})": v for n, v in gradients.items()}}


def check_schedules(report, torch, steps):
    """The rates of torch.optim.lr_scheduler, of which the one before the first step is ours at t = 1."""
    from torch.optim import lr_scheduler as theirs
    for ours, make in (
            (optim.step(0.2, 6, 0.3), lambda o: theirs.StepLR(o, 6, 0.3)),
            (optim.product(optim.step(0.2, 4, 0.5, 1), optim.step(1, 11, 0.5, 1)), lambda o: theirs.MultiStepLR(o, [4, 11], 0.5)),
            (optim.step(0.2, 1, 0.9), lambda o: theirs.ExponentialLR(o, 0.9))):
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.2)
        schedule = make(optimizer)
        worst = 0.0
        for t in range(1, steps + 1):
            worst = max(worst, abs(optimizer.param_groups[0]["lr"] / ours(t) - 1))
            optimizer.step()
            schedule.step()
        report.check(f"PyTorch's {type(schedule).__name__}", f"{worst:.1e}", BOUND, worst <= BOUND)


def check_formulas(report, start, target, steps):
    """The formulas that all else is compared with, against PyTorch where it is installed."""
    try:
        import torch
    except ImportError:
        return report.skip("optimizers beside PyTorch", "it is not installed (Debian: python3-torch)")
    check_schedules(report, torch, steps)
    for numpy, make, largest in PYTORCH:
        p = dict(start)
        theirs = {name: torch.tensor(value, dtype=torch.float64, requires_grad=True) for name, value in start.items()}
        optimizer = make(torch, theirs.values())
        for t in range(1, steps + 1):
            gradients = loss_and_gradients(p, target)[1]
            for name, g in (optim.clip(gradients, largest) if largest else gradients).items():
                p[name] = numpy.step(name, p[name], g, 0.05, t)
            y = torch.sin(theirs["p1"] * theirs["p2"]) + theirs["p3"] * theirs["p2"] + theirs["p4"][:, None]
            optimizer.zero_grad()
            ((torch.from_numpy(target) - y) ** 2).mean().backward()
            if largest:
                torch.nn.utils.clip_grad_norm_(theirs.values(), largest)
            optimizer.step()
        worst = max(float(np.abs(theirs[name].detach().numpy() - value).max() / np.abs(value).max()) for name, value in p.items())
        report.check(f"PyTorch's {type(optimizer).__name__}{', clipped' if largest else ''}", f"{worst:.1e}", BOUND, worst <= BOUND)


def deep(p, target):
    """Loss and gradients of the model of layers."""
    h, turns = np.broadcast_to(p["p"], target.shape), []
    for w, g in zip(p["l.w"], p["l.g"]):
        turns.append((h, h * w.T))
        h = np.sin(h * w.T) + g[:, None, None]
    d = -2 * (target - h) / target.size
    weights, gains = [], []
    for (before, inner), w in zip(reversed(turns), p["l.w"][::-1]):
        gains.append(d.sum((0, 2, 3)))
        d = d * np.cos(inner)
        weights.append((d * before).sum(0).T)
        d = d * w.T
    return ((target - h) ** 2).mean(), {"p": d.sum(0), "l.w": np.stack(weights[::-1]), "l.g": np.stack(gains[::-1])}


def check_layers(report, folder, random, layouts, steps):
    """adafactor of stacked parameters is that of each layer."""
    target = random.normal(size=(6, 7, 5, 4))
    start = {"p": random.normal(size=(7, 5, 4)), "l.w": random.normal(size=(3, 4, 5, 7)), "l.g": random.normal(size=(3, 7))}
    np.save(f"{folder}/deep.npy", target)
    safetensors.write(f"{folder}/deep.safetensors", start)
    for text, smallest, beta1 in (("adafactor(lr: 0.02, smallest_factored: 4)", 4, 0), ("adafactor(lr: 0.02, smallest_factored: 6, beta1: 0.8)", 6, 0.8)):
        with open(f"{folder}/deep.mesh", "w") as file:
            file.write(LAYERS.format(optimizer=text))
        optimizer, p = optim.Adafactor(smallest=smallest, beta1=beta1, stacked=("l.w", "l.g")), dict(start)
        for t in range(1, steps + 1):
            for name, g in deep(p, target)[1].items():
                p[name] = optimizer.step(name, p[name], g, 0.02, t)
        for layout in layouts:
            out = f"{folder}/deep-{smallest}-{layout}"
            execute(meshc(), "fetch", f"{folder}/deep.mesh", "param(**)", "--layout", layout, "--feed", f"target={folder}/deep.npy", "--params", f"{folder}/deep.safetensors",
                    "--steps", steps, "--precision", "f64", "--out", out)
            worst = max((float(np.abs(np.load(f"{out}/param({name}).npy") - value).max() / np.abs(value).max()), name) for name, value in p.items())
            report.check(f"layers, {text}, layout {layout}, worst {worst[1]}", f"{worst[0]:.1e}", BOUND, worst[0] <= BOUND)
        execute(meshc(), "verify", f"{folder}/deep.mesh", "--layout", "state", "--steps", 3)
        report.true(f"layers, {text}: every value under the layout state (verify)", True)


def run(small):
    report = Report()
    random = np.random.default_rng(SEED)
    steps = 20
    shapes = {"p1": (3, 5), "p2": (5,), "p3": (), "p4": (3,)}
    layouts = ("one", "state") if small else ("one", "state", "weights", "model", "both")
    print(f"seed {SEED}, {len(CASES)} optimizers, {steps} steps, layouts {' '.join(layouts)}")
    with scratch() as folder:
        start = {name: random.normal(size=shape) for name, shape in shapes.items()}
        target = random.normal(size=(6, 3, 5))
        np.save(f"{folder}/target.npy", target)
        safetensors.write(f"{folder}/start.safetensors", {name: np.asarray(value) for name, value in start.items()})
        report.attempt("PyTorch", lambda: check_formulas(report, start, target, steps))
        for number, case in enumerate(CASES):
            spec = f"{folder}/{number}.mesh"
            with open(spec, "w") as file:
                file.write(SPEC.format(optimizer=case[0]))
            expected = train(case, start, target, steps)
            for layout in layouts:
                def action():
                    out = f"{folder}/{number}-{layout}"
                    execute(meshc(), "fetch", spec, "loss", "param(**)", "grad(**)", "--layout", layout, "--feed", f"target={folder}/target.npy",
                            "--params", f"{folder}/start.safetensors", "--steps", steps, "--precision", "f64", "--out", out)
                    errors = {}
                    for name, value in expected.items():
                        got = np.load(os.path.join(out, f"{name}.npy"))
                        if got.shape != np.shape(value):
                            raise ValueError(f"{name}: shape {got.shape}, NumPy {np.shape(value)}")
                        errors[name] = float(np.abs(got - value).max() / np.abs(value).max())
                    worst = max(errors, key=errors.get)
                    report.check(f"{case[0]}, layout {layout}, worst {worst}", f"{errors[worst]:.1e}", BOUND, errors[worst] <= BOUND)

                report.attempt(f"{case[0]}, layout {layout}", action)
        report.attempt("layers", lambda: check_layers(report, folder, random, ("one", "state") if small else ("one", "split", "state", "factors"), steps))
    return report
