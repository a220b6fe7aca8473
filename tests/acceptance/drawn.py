"""Shipped specs under layouts drawn at random equal one rank: loss, gradients, updated parameters, metrics (meshc verify, f64, 1e-9).

Drawn: the axes and their sizes, which dims lie on which, pipelines with schedule, micro-batches, chunks and remat, accumulation, ZeRO, and
hosts whose network is slow. A layout may be refused, with an error of the language, but not by every second draw.

`python3 tests/acceptance/drawn.py N FOLDER` writes the layout of draw N there and prints it, with the command that verifies it.
"""
import os
import random
import re
import shlex
import subprocess
import sys
from collections import Counter

from common import TOP, Report, meshc, scratch, sets

SEED = 20261125
BOUND = 1e-9
SCHEDULES = ("gpipe", "1f1b", "eager_1f1b", "interleaved", "looped_bfs", "circular", "zb_h1", "zb_h2", "zb_v")
CHUNKED = ("interleaved", "looped_bfs", "circular", "zb_v")
REMATS = ("none", "stage", "layer", "except_last")
HOSTS = "{name: hosts, gflops: {f32: 0.001, f64: 0.001}, node: {ranks: %d}, network: {latency_us: 1.0e-6, gbs: 1}}\n"


class Spec:
    """What of a shipped spec a layout may name: sizes to try it at, dims of features and of positions, loops, whether it has `embed`."""

    def __init__(self, sizes, features, positions=(), loops=(), embed=False):
        self.sizes, self.features, self.positions, self.loops, self.embed = sizes, features, positions, loops, embed


SPECS = {
    "gpt": Spec(dict(batch=8, seq=8, embed=8, heads=2, head_dim=4, ffn=12, vocab=12, layer=4), ["heads", "ffn", "vocab", "embed"], ["seq"], ["layer"], True),
    "mixtral": Spec(dict(batch=8, seq=8, embed=8, kv=2, group=2, head_dim=4, expert=4, vocab=12, layer=4, window=3), ["expert", "ffn", "vocab", "kv"], ["seq"],
                    ["layer"], True),
    "translate": Spec(dict(batch=8, source=6, target=6, embed=8, heads=2, head_dim=4, vocab=12, enc=2, dec=2), ["heads", "ffn", "vocab"],
                      ["source", "target"], ["enc", "dec", "enc, dec"], True),
    "resnet": Spec(dict(batch=8, wide=4, deep=6), ["mid", "wide", "deep_mid"], ["h0, h1, h2"], ["unit"]),
    "unet": Spec(dict(batch=8, c0=4, c1=4, c2=4), ["m0", "m1"], ["h0, h1, h2"]),
    "mlp": Spec(dict(batch=8), ["hidden"]),
}


class Draw:
    """One layout of one spec: `name`, `text` (a mesh and a layout), `machine` (or nothing), `traits` that the counts name."""

    def __init__(self, number):
        draw = random.Random(SEED + number)
        self.name = draw.choice(list(SPECS))
        spec, axes, rules, self.traits = SPECS[self.name], {}, [], [self.name]
        piped = spec.loops and draw.random() < 0.6
        if draw.random() < 0.7:
            axes["data"] = draw.choice([1, 2, 3])
        if draw.random() < 0.6:
            axes["model"] = draw.choice([2, 2, 3])
        accumulate = ""
        if piped:
            axes["pipe"] = draw.choice([2, 2, 1, 4])
            rules.append(self.pipeline(draw, spec))
        elif draw.random() < 0.4:
            accumulate = f" {{ accumulate: {draw.choice([2, 4])} }}"
            self.traits.append("accumulated")
        if not axes:
            axes["data"] = 2
        if "data" in axes:
            rules.append(f"batch -> data{accumulate}")
        if "model" in axes:
            features = draw.sample(spec.features, draw.randint(1, len(spec.features)))
            sequence = spec.positions and draw.random() < 0.25
            rules += self.sequence(draw, spec, number) if sequence else [f"{', '.join(features)} -> model"]
            self.traits.append("positions split" if sequence else "features split")
        if "data" in axes and spec.embed and draw.random() < 0.4:
            kept = draw.choice(["params", "optimizer", "grads"])
            rules.append(f"{kept} {{ embed -> data }}")
            self.traits.append(f"{kept} split")
        self.machine = HOSTS % draw.choice([1, 2]) if draw.random() < 0.3 else ""
        self.traits += ["hosts"] if self.machine else []
        lines = "\n  ".join(rules)
        self.text = f"mesh drawn {{ {', '.join(f'{axis}: {size}' for axis, size in axes.items())} }}\nlayout drawn on drawn {{\n  {lines}\n}}\n"

    def sequence(self, draw, spec, number):
        """Positions over `model`, in blocks or in zigzag; those of keys, where a spec has them under another name, wherever that is best, or in a ring."""
        seq, more = draw.choice(spec.positions), random.Random(f"{SEED} {number}")
        owns = more.choice(["", ' { owns: "zigzag" }'])
        rules = [f"{seq} -> model{owns}"]
        if seq == "seq" and more.random() < 0.6:
            rules.append(f"key -> model unless seq{owns}")
            self.traits.append("keys in a ring")
        return rules

    def pipeline(self, draw, spec):
        schedule, remat = draw.choice(SCHEDULES), draw.choice(REMATS)
        self.traits += [schedule, f"remat {remat}"]
        chunks = f", chunks: {draw.choice([1, 2])}" if schedule in CHUNKED and schedule != "zb_v" else ""
        return f'{draw.choice(spec.loops)} -> pipe {{ microbatches: {draw.choice([2, 4])}, schedule: "{schedule}"{chunks}, remat: "{remat}" }}'

    def command(self, folder):
        """The command that verifies it, with its files in `folder`."""
        layout, machine = os.path.join(folder, "drawn.mesh"), os.path.join(folder, "hosts.yaml")
        for path, text in ((layout, self.text), (machine, self.machine)):
            with open(path, "w") as file:
                file.write(text)
        return [meshc(), "verify", f"{TOP}/specs/{self.name}.mesh", layout, "--layout", "drawn", "--precision", "f64", "--bound", str(BOUND),
                "-A", "idle_ranks", "-A", "idle_mesh_axis", *(["--machine", machine] if self.machine else []), *sets(**SPECS[self.name].sizes)]


def run(small, count=None):
    """`count` draws; each is equal to one rank or refused."""
    report = Report()
    enough = 400
    count = count or (12 if small else enough)
    traits, refused = Counter(), Counter()
    for number in range(count):
        one = Draw(number)
        with scratch() as folder:
            done = subprocess.run(one.command(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
        error = re.search(r"error\[(E\d+)\]", done.stderr)
        if done.returncode == 1 and error:
            refused[error[1]] += 1
        elif re.search(r"all \d+ values are equal", done.stdout):
            traits.update(one.traits)
        else:
            report.true(f"draw {number} of {one.name}", False, f"exit code {done.returncode}\n{one.text}{done.stdout[-500:]}{done.stderr[-1500:]}")
    equal = count - refused.total() - report.failed
    report.check(f"seed {SEED}, {count} draws: differ from one rank by more than {BOUND}, or crash", report.failed, 0)
    report.check(f"refused ({', '.join(f'{code} {times}' for code, times in sorted(refused.items()))})", refused.total(), count // 2)
    print(f"{equal} equal: {', '.join(f'{trait} {times}' for trait, times in sorted(traits.items()))}", flush=True)
    if count >= enough:
        wanted = [*SPECS, *SCHEDULES, *(f"remat {remat}" for remat in REMATS), "params split", "optimizer split", "grads split", "hosts", "positions split", "keys in a ring"]
        report.check("kinds never drawn and equal", sum(traits[trait] == 0 for trait in wanted), 0)
    return report


if __name__ == "__main__":
    one = Draw(int(sys.argv[1]))
    print(one.text + one.machine + shlex.join(one.command(sys.argv[2])))
