"""Layouts of a spec on so many ranks, to hold beside what a search finds: those that it has by hand, on every mesh that their axes can be, and others drawn at
random, of which those count that compile.

`python3 tests/acceptance/legal_layouts.py SPEC RANKS N` prints the five fastest by hand and of N drawn ones.
"""
import json
import os
import random
import re
import sys
from dataclasses import dataclass

from common import TOP, meshc, scratch, sets
from common import run as execute

SEED = 20261127
ALLOW = [part for lint in ("idle_ranks", "idle_mesh_axis", "unused_layout_rule") for part in ("-A", lint)]
ZOO = os.path.join("tests", "acceptance", "zoo")
# The shipped specs, and models of zoo/ of a size whose step is worth splitting: {name: (file, sizes)}
SPECS = {
    "gpt": ("specs/gpt.mesh", {}),
    "translate": ("specs/translate.mesh", {}),
    "mixtral": ("specs/mixtral.mesh", {}),
    "mlp": ("specs/mlp.mesh", {}),
    "llama": (f"{ZOO}/llama.mesh", dict(batch=16, seq=64, kv=4, group=2, head_dim=16, embed=128, ffn=384, vocab=512, layer=4)),
    "mamba": (f"{ZOO}/mamba.mesh", dict(batch=16, time=32, embed=64, inner=128, states=8, rank=8, vocab=512, layer=4)),
    "switch": (f"{ZOO}/switch.mesh", dict(group=16, token=64, embed=128, ffn=512, vocab=512, layer=4, expert=8, room=16)),
    "t5": (f"{ZOO}/t5.mesh", dict(batch=16, source=48, target=48, embed=128, heads=4, head_dim=32, ffn=512, vocab=512, enc=4, dec=4, bucket=32)),
    "vision_transformer": (f"{ZOO}/vision_transformer.mesh", dict(batch=16, height=64, width=64, row=8, column=8, embed=128, heads=4, head_dim=32, ffn=512, layer=4) | {"class": 10}),
}


def spec_of(name):
    """[file, --set options] of a spec."""
    path, sizes = SPECS[name]
    return [f"{TOP}/{path}", *sets(**sizes)]


@dataclass
class Planned:
    """A layout that compiles: what is given to meshc beside the spec, and the predicted seconds of its step."""

    name: str
    options: list
    seconds: float
    memory: int
    text: str = ""  # of a drawn one


def by_hand(name, ranks, machine=()):
    """[Planned] of the layouts that the spec has, each on every mesh of so many ranks with its axes."""
    spec, found = spec_of(name), []
    for plan in json.loads(execute(meshc(), "plan", *spec, "--all", "-n", ranks, "--json", *machine, *ALLOW, code=None).stdout)["plans"]:
        if "predicted_seconds" in plan:
            axes = ",".join(f"{axis}={size}" for axis, size in plan["mesh"]["axes"].items())
            found.append(Planned(f"{plan['layout']} on {axes}", ["--layout", plan["layout"], "--mesh", axes], plan["predicted_seconds"], plan["memory"]["peak"]))
    return found


def products_of(ranks, most=3):
    """Every way to write so many ranks as sizes of up to so many axes, all above 1."""
    ways = [[ranks]]
    for first in range(2, ranks):
        if ranks % first == 0 and most > 1:
            ways += [[first, *rest] for rest in products_of(ranks // first, most - 1)]
    return ways


class Draws:
    """Layouts drawn for a spec: a mesh, general rules for some dims or a row of stages, at times rules for parameters, moments or activations."""

    def __init__(self, name, ranks):
        self.spec, self.ranks, self.draw = spec_of(name), ranks, random.Random(f"{SEED} {name} {ranks}")
        first = json.loads(execute(meshc(), "plan", *self.spec, "--all", "--json", *ALLOW, code=None).stdout)["plans"][0]
        plan = json.loads(execute(meshc(), "plan", *self.spec, "--layout", first["layout"], "--json", *ALLOW).stdout)
        kinds = {}
        for tensor in plan["tensors"]:
            kinds.setdefault(tensor["kind"], set()).update(dim for dim, size in tensor["dims"].items() if size > 1)
        with open(self.spec[0]) as file:
            self.loops = re.findall(r"^  repeat (\w+)", file.read(), re.M)
        self.inputs, self.parameters = (sorted(kinds[kind] - {"micro_batch"}) for kind in ("input", "parameter"))
        named = sorted(kinds["activation"] | kinds["input"] | kinds["parameter"])
        self.all = [dim for dim in named if dim not in self.loops and not dim.startswith("micro_batch")]

    def rules(self, axes):
        draw, rules = self.draw, []
        left = list(axes)
        draw.shuffle(left)
        if self.loops and draw.random() < 0.25:
            stages = left.pop()
            loops = draw.choice(self.loops) if draw.random() < 0.5 else ", ".join(self.loops)
            schedule = draw.choice(["gpipe", "1f1b", "zb_h1"])
            rules.append(f'{loops} -> {stages} {{ microbatches: {draw.choice([1, 2, 4]) * axes[stages]}, schedule: "{schedule}", cut: "auto" }}')
        taken = set()
        if left and draw.random() < 0.5 and self.inputs:  # samples over some or all of them
            over = draw.sample(left, draw.randint(1, len(left)))
            dim = draw.choice(self.inputs)
            taken.add(dim)
            rules.append(f"{dim} -> {' * '.join(over)}")
            left = [axis for axis in left if axis not in over]
        for axis in left:
            free = [dim for dim in self.all if dim not in taken]
            dims = draw.sample(free, min(len(free), draw.randint(1, 3)))
            taken.update(dims)
            rules.append(f"{', '.join(dims)} -> {axis}")
        if draw.random() < 0.5 and self.parameters:
            scope = draw.choice(["params", "optimizer", "activations"])
            dims = self.all if scope == "activations" else self.parameters
            rules.append(f"{scope} {{ {draw.choice(dims)} -> {draw.choice(list(axes))} }}")
        return rules

    def text(self):
        sizes = self.draw.choice(products_of(self.ranks))
        axes = dict(zip("abc", sizes))
        lines = "\n  ".join(self.rules(axes))
        return f"mesh drawn {{ {', '.join(f'{axis}: {size}' for axis, size in axes.items())} }}\nlayout drawn on drawn {{\n  {lines}\n}}\n"

    def legal(self, count, folder, machine=(), at_most=20):
        """[Planned] of so many that compile, all different; fewer where a small spec has no more in `at_most` times as many draws. ValueError where hardly any
        compiles."""
        found, seen = [], set()
        for tried in range(at_most * count):
            text = self.text()
            if text in seen:
                continue
            seen.add(text)
            path = f"{folder}/drawn.{tried}.mesh"
            with open(path, "w") as file:
                file.write(text)
            options = [path, "--layout", "drawn"]
            done = execute(meshc(), "plan", *self.spec, *options, "--json", *machine, *ALLOW, code=None)
            if done.returncode == 0:
                plan = json.loads(done.stdout)
                found.append(Planned(f"drawn {tried}", options, plan["predicted_seconds"], plan["memory"]["peak"], text))
            elif done.returncode != 1:
                raise ValueError(f"exit code {done.returncode} of\n{text}{done.stderr[-1500:]}")
            if len(found) == count:
                return found
        if 20 * len(found) < len(seen):
            raise ValueError(f"{len(found)} of {len(seen)} drawn layouts compile")
        return found


def main():
    name, ranks, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with scratch() as folder:
        for one in sorted(by_hand(name, ranks), key=lambda one: one.seconds)[:5]:
            print(f"{1e3 * one.seconds:8.3f} ms  {one.name}")
        for one in sorted(Draws(name, ranks).legal(count, folder), key=lambda one: one.seconds)[:5]:
            print(f"{1e3 * one.seconds:8.3f} ms\n{one.text}")


if __name__ == "__main__":
    main()
