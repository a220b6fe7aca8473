"""20 steps of every optimizer against torch's formulas in NumPy, on one rank and on two with the optimizer's state split."""
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
]


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
    return report
