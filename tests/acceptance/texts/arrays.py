"""NumPy lines beside a spec: run on the spec's inputs and parameters, and compared with what meshc computes."""
import ast
import json
import math
import os
import re

import numpy as np

from common import meshc
from common import run as execute

BOUND = 1e-11  # f64, relative to the largest element
GRADIENTS = 1e-9

TYPES = {"f32": np.float64, "f64": np.float64, "i32": np.int32, "i64": np.int64, "u8": np.uint8, "bool": np.bool_}


def random_array(kind, shape, dice, sizes):
    """Of an element type as meshc names it: f32, index(vocab), bool."""
    if kind.startswith("index"):
        return dice.integers(0, sizes[kind[6:-1]], shape).astype(np.int32)
    if kind == "bool":
        return dice.random(shape) < 0.6
    if kind in ("f32", "f64", "real"):
        return dice.standard_normal(shape)
    return dice.integers(0, 7, shape).astype(TYPES[kind])


def difference(got, expected):
    """Relative to the largest element; infinite where shapes or infinities differ."""
    got, expected = np.asarray(got, np.float64), np.asarray(expected, np.float64)
    finite = np.isfinite(expected)
    if got.shape != expected.shape or not np.array_equal(got[~finite], expected[~finite]) or not np.isfinite(got[finite]).all():
        return math.inf
    return float(np.abs(got[finite] - expected[finite]).max(initial=0) / max(np.abs(expected[finite]).max(initial=0), 1e-300)) if (got != expected).any() else 0.0


def fetched(spec, names, feeds, folder, options=()):
    """{name: array} of what meshc computes in f64."""
    out = os.path.join(folder, "fetched")
    given = []
    for name, array in feeds.items():
        np.save(f"{folder}/{name}.npy", array)
        given += ["--feed", f"{name}={folder}/{name}.npy"]
    execute(meshc(), "fetch", spec, *names, *given, "--precision", "f64", "--out", out, *options)
    return {file[:-4]: np.load(os.path.join(out, file)) for file in os.listdir(out)}


def written_sizes(spec):
    """The dims of a file whose size is a plain number: those of index(d) need be no dim of any value."""
    with open(spec) as file:
        return {name: int(size.replace("_", "")) for name, size in re.findall(r"(\w+) *= *([\d_]+)(?=,|\n| *//)", file.read())}


def compare(spec, lines, dice, folder):
    """Runs NumPy lines beside a spec: [(name, difference, bound)] of every name that they assign and meshc knows."""
    plan = json.loads(execute(meshc(), "plan", spec, "--json").stdout)
    sizes = {dim: size for tensor in plan["tensors"] for dim, size in tensor["dims"].items()} | written_sizes(spec)
    inputs = {tensor["name"]: random_array(tensor["type"], tuple(tensor["dims"].values()), dice, sizes) for tensor in plan["tensors"] if tensor["kind"] == "input"}
    kinds = {tensor["kind"] for tensor in plan["tensors"]}
    names = ["**"] + ["param(**)"] * ("parameter" in kinds) + ["grad(**)"] * ("gradient" in kinds)
    got = fetched(spec, names, inputs, folder)
    known = {name[6:-1].replace(".", "_"): array for name, array in got.items() if name.startswith("param(")}
    values = {"np": np, "math": math, **inputs, **known}
    before = dict(values)
    exec(compile(lines, "numpy lines", "exec"), values)  # noqa: S102: lines of our own reference
    assigned = {node.id for node in ast.walk(ast.parse(lines)) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    pairs = {name.replace(".", "_"): (array, BOUND) for name, array in got.items() if "(" not in name}
    pairs.update({"d_" + name[5:-1].replace(".", "_"): (array, GRADIENTS) for name, array in got.items() if name.startswith("grad(")})
    return [(name, difference(pairs[name][0], values[name]), pairs[name][1]) for name in sorted(assigned) if name in pairs and values[name] is not before.get(name)]
