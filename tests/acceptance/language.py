"""Every construct of the language: one small spec each, its values against NumPy on one rank and two by two, and `meshc verify` of the layouts."""
import os
import zlib

import numpy as np

from common import Report, meshc, scratch
from common import run as execute
from constructs import loops, sizes, training, values
from constructs.construct import ONE_RANK
from oracle import safetensors

SEED = 20261120
BOUND, GRADIENT_BOUND = 1e-12, 1e-9


def far(got, expected):
    """The largest difference relative to the largest number; whole numbers and truths must be equal."""
    expected = np.asarray(expected)
    if got.shape != expected.shape:
        raise ValueError(f"shape {got.shape}, NumPy {expected.shape}")
    if expected.dtype.kind != "f":
        return 0.0 if got.dtype.kind == expected.dtype.kind and np.array_equal(got, expected) else float("inf")
    difference = float(np.abs(got - expected).max() / max(np.abs(expected).max(), 1))
    return difference if np.isfinite(difference) else float("inf")


def check(report, construct, folder):
    spec = os.path.join(folder, "spec.mesh")
    os.makedirs(folder)
    with open(spec, "w") as file:
        file.write(construct.spec)
    inputs, params = construct.arrays(np.random.default_rng([SEED, zlib.crc32(construct.name.encode())]))
    expected = construct.values(inputs, params)
    feeds = list(construct.fetch)
    for name, array in inputs.items():
        np.save(os.path.join(folder, f"{name}.npy"), array)
        feeds += ["--feed", f"{name}={folder}/{name}.npy"]
    if params:
        safetensors.write(os.path.join(folder, "params.safetensors"), params)
        feeds += ["--params", f"{folder}/params.safetensors"]
    bound = GRADIENT_BOUND if construct.fetch and params else BOUND
    for title, options in [("one rank", ("--layout", construct.layouts[0], *ONE_RANK))] + [(name, ("--layout", name)) for name in construct.layouts]:
        execute(meshc(), "plan", spec, *options, *construct.options)
        out = os.path.join(folder, title.replace(" ", "_"))
        execute(meshc(), "fetch", spec, *expected, *feeds, *options, *construct.options, "--precision", "f64", "--out", out)
        worst = max((far(np.load(f"{out}/{name}.npy"), value), name) for name, value in expected.items())
        report.check(f"{construct.name}: {title}, worst {worst[1]}", f"{worst[0]:.1e}", bound, worst[0] <= bound)
    for name in construct.layouts:
        execute(meshc(), "verify", spec, "--layout", name, *construct.options, "--steps", "2")
        report.true(f"{construct.name}: verify --layout {name}", True)


def run(small):
    report = Report()
    constructs = [construct for part in (sizes, loops, values, training) for construct in part.cases()]
    print(f"seed {SEED}, {len(constructs)} specs in f64, one rank and two by two")
    with scratch() as folder:
        for number, construct in enumerate(constructs):
            report.attempt(construct.name, lambda construct=construct, number=number: check(report, construct, os.path.join(folder, str(number))))
    return report
