"""`meshc ops`: every op's NumPy line and gradients, run against the compiler."""
import json
import math
import re

import numpy as np

from common import meshc
from common import run as execute
from oracle import safetensors
from texts.arrays import BOUND, GRADIENTS, TYPES, difference, fetched, random_array


def read():
    listed = json.loads(execute(meshc(), "ops", "--json").stdout)
    return listed["dims"], listed["ops"]


def sizes_of(dims):
    """"dim a = 3, ab = 2 * a" -> {"a": 3, "ab": 6}"""
    sizes = {}
    for part in dims.removeprefix("dim ").split(", "):
        name, text = part.split(" = ")
        sizes[name] = eval(text.split(" edge ")[0], {}, dict(sizes))  # sizes that the catalogue declares
    return sizes


def operands_of(op):
    """"x : real[a, b], i : index(c)[a]" -> {"x": ("real", ["a", "b"]), ...}"""
    found = re.findall(r"(\w+) : ([\w()]+)(?:\[([^\]]*)\])?", op["operands"])
    return {name: (kind, [d for d in dims.split(", ") if d]) for name, kind, dims in found}


def spec_of(op, dims, operands):
    kind, of = re.match(r"([\w()]+)(?:\[([^\]]*)\])?$", op["result"]).groups()
    lines = [dims, "model Op {", f"  input weight : real[{of}]" if op["gradient"] else ""]
    for name, (element, slots) in operands.items():
        text = f"{name} : {element}" + (f"[{', '.join(slots)}]" if slots else "")
        lines.append(f"  param {text} = zeros" if element == "real" else f"  input {text}")
    lines += [f"  {line}" for line in op["before"].split("; ") if line]
    lines.append("  " + (op["call"] if re.match(r"[\w, ]+ = ", op["call"]) else f"y = {op['call']}"))
    if op["gradient"]:
        lines += [f"  loss = sum[{of}](y * weight)", "  minimize loss with sgd(lr: 0.1)"]
    return "\n".join(lines + ["}", ""])


def value_of(text, names):
    """Statements and a last expression, `;` between them."""
    *statements, last = text.split("; ")
    names = dict(names)
    exec("\n".join(statements), names)  # noqa: S102: lines of our own catalogue
    return eval(last, names)


def check(op, dims, folder, report):
    """The op's NumPy line and gradients, and the type that it gives."""
    sizes, operands, dice = sizes_of(dims), operands_of(op), np.random.default_rng(7)
    shape = lambda slots: tuple(sizes[d] for d in slots)
    arrays = {name: random_array(kind, shape(slots), dice, sizes) for name, (kind, slots) in operands.items()}
    for name, bound in re.findall(r"(\w+) > (\d+)", op["needs"]):
        arrays[name] = np.abs(arrays[name]) + float(bound) + 0.1
    kind, of = re.match(r"([\w()]+)(?:\[([^\]]*)\])?$", op["result"]).groups()
    expected_shape = shape([d for d in (of or "").split(", ") if d])
    with open(f"{folder}/op.mesh", "w") as file:
        file.write(spec_of(op, dims, operands))
    feeds = {name: arrays[name] for name, (element, _) in operands.items() if element != "real"}
    parameters = {name: arrays[name] for name, (element, _) in operands.items() if element == "real"}
    if op["gradient"]:
        feeds["weight"] = dice.standard_normal(expected_shape)
    safetensors.write(f"{folder}/params.safetensors", parameters)
    got = fetched(f"{folder}/op.mesh", ["**"] + ["grad(**)"] * bool(op["gradient"]), feeds, folder, ["--params", f"{folder}/params.safetensors"])
    element = TYPES.get("f64" if kind == "real" else "i32" if kind.startswith("index") else kind)
    title = f"{op['name']}: {op['call']}"
    report.true(f"{title} gives {op['result']}", got["y"].shape == expected_shape and got["y"].dtype == element, f"{got['y'].dtype}{list(got['y'].shape)}")
    names = {"np": np, "math": math, **{name: array for name, array in arrays.items()}}
    if op["numpy"]:
        y = value_of(op["numpy"], names)
        report.check(f"{title} = {op['numpy']}", f"{difference(got['y'], y):.1e}", BOUND, difference(got["y"], y) <= BOUND)
        names |= {"y": y, "d": feeds.get("weight")}
        for name, text in op["gradient"].items():
            worst = difference(got[f"grad({name})"], value_of(text, names) + np.zeros_like(arrays[name]))
            report.check(f"{title}: d_{name} = {text}", f"{worst:.1e}", GRADIENTS, worst <= GRADIENTS)
    differentiable = {name for name, (element, _) in operands.items() if element == "real"} if kind in ("real", "f32") and op["numpy"] and op["name"] != "mask" else set()
    report.true(f"{title}: gradients of {', '.join(sorted(differentiable)) or 'nothing'}", set(op["gradient"]) == differentiable)
