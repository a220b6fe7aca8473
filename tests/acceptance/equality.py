"""gpt and mlp after 30 steps under every kind of layout against one rank: loss and every gradient, before clipping."""
import os

import numpy as np

from common import TOP, Report, meshc, scratch, sets
from common import run as execute

SEED = 20261120
GPT = dict(batch=6, seq=16, embed=32, heads=4, head_dim=8, layer=2, vocab=64)
MLP = dict(batch=12, hidden=24)

LAYOUTS = """
mesh two { a: 2 }
mesh three { a: 3 }
mesh four { a: 4 }
mesh square { a: 2, b: 2 }
layout batch_2 on two { batch -> a }
layout model_2 on two { heads, ffn, vocab -> a }
layout both on square { batch -> a; heads, ffn, vocab -> b }
layout batch_3 on three { batch -> a }
layout vocab_4 on four { vocab -> a }
layout product on square { batch -> a * b }
layout zero_1 on square { batch -> a; heads, ffn, vocab -> b; optimizer { embed -> a } }
layout params on two { batch -> a; params { embed -> a } }
"""


def feeds(folder, arrays):
    options = []
    for name, array in arrays.items():
        path = os.path.join(folder, f"{name}.npy")
        np.save(path, array)
        options += ["--feed", f"{name}={path}"]
    return options


def fetch(folder, title, spec, options, steps, precision, layout):
    out = os.path.join(folder, f"{title}-{layout[-1]}-{precision}".replace(" ", "-"))
    execute(meshc(), "fetch", *spec, "loss", "grad(**)", *options, *layout, "--steps", steps, "--seed", 7, "--precision", precision, "--out", out, timeout=600)
    return {name: np.load(os.path.join(out, name)) for name in sorted(os.listdir(out)) if name.endswith(".npy")}


def worst(one, many):
    """The largest relative error of a tensor in the Frobenius norm, and its name."""
    if set(one) != set(many):
        raise RuntimeError(f"different files: {sorted(set(one) ^ set(many))}")
    errors = {}
    for name, value in one.items():
        if value.shape != many[name].shape:
            raise RuntimeError(f"{name}: {value.shape} and {many[name].shape}")
        size = np.linalg.norm(value.astype(np.float64))
        errors[name] = np.linalg.norm(value.astype(np.float64) - many[name]) / (size if size else 1)
    name = max(errors, key=errors.get)
    return errors[name], name


def compare(report, folder, title, spec, options, layouts, precisions):
    for precision, steps, bound in precisions:
        one = fetch(folder, title, spec, options, steps, precision, ["--layout", "one"])
        for name, layout, mesh in layouts:
            def action(layout=layout, mesh=mesh, name=name):
                many = fetch(folder, title, spec, options, steps, precision, ["--layout", layout, *(["--mesh", mesh] if mesh else [])])
                error, tensor = worst(one, many)
                report.check(f"{title} {name}, {steps} steps in {precision}, {len(one)} tensors, worst {tensor}", float(f"{error:.2e}"), bound)

            report.attempt(f"{title} {name}, {precision}", action)


def run(small):
    report = Report()
    precisions = [("f64", 3 if small else 30, 1e-9)] + ([] if small else [("f32", 10, 1e-5)])
    random = np.random.default_rng(SEED)
    print(f"seed {SEED}")
    with scratch() as folder:
        more = os.path.join(folder, "layouts.mesh")
        with open(more, "w") as file:
            file.write(LAYOUTS + "\nlayout one on single { }\nmesh single { only: 1 }\n")
        shape = (GPT["batch"], GPT["seq"])
        tokens = {name: random.integers(0, GPT["vocab"], shape).astype(np.int32) for name in ("token", "target")}
        spec = [f"{TOP}/specs/gpt.mesh", more, *sets(**GPT)]
        names = ["batch_2", "model_2", "both", "batch_3", "product", "zero_1", "params"]
        compare(report, folder, "gpt", spec, feeds(folder, tokens), [(n, n, None) for n in names], precisions)
        # A vocabulary that does not divide.
        odd = dict(GPT, vocab=53 if small else 50257, layer=1)
        tokens = {name: random.integers(0, odd["vocab"], shape).astype(np.int32) for name in ("token", "target")}
        spec = [f"{TOP}/specs/gpt.mesh", more, *sets(**odd)]
        compare(report, folder, f"gpt vocab {odd['vocab']}", spec, feeds(folder, tokens), [("vocab_4", "vocab_4", None)], precisions)
        images = {"image": random.integers(0, 256, (MLP["batch"], 784)).astype(np.uint8), "label": random.integers(0, 10, MLP["batch"]).astype(np.int32)}
        with open(more, "w") as file:
            file.write("layout one on single { }\nmesh single { only: 1 }\n")
        spec = [f"{TOP}/specs/mlp.mesh", more, *sets(**MLP)]
        layouts = [(n, n, None) for n in ("whole", "data", "model", "both", "weights", "three")]
        compare(report, folder, "mlp", spec, feeds(folder, images), layouts, precisions)
    return report
