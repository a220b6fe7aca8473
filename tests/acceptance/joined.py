"""Values that are put one after the other, padded, sliced, whose dims are split and merged: under every split of these dims over 2 and 3 ranks, and under
random ones over 2 x 2, all values and gradients equal one rank (f64, 1e-12): of sizes that divide, do not, and leave ranks without elements. What some of
them send is what changes ranks."""
import itertools
import json
import os
import random
import subprocess
from concurrent.futures import ThreadPoolExecutor

from common import Report, meshc, scratch
from common import run as execute
from generate.layouts import is_refused

SEED = 20261126
BOUND = "1e-12"
MESHES = {"two": "a: 2", "three": "a: 3", "square": "a: 2, b: 2"}
JOINED = "concat[m + n as all](x * w, y * w)"
# Of each: what is made of `x` and `y`, its dims, all dims that are split, and sizes.
CASES = {
    "concat": (JOINED, "all", ("m", "n", "all"), ((6, 6, 1), (5, 8, 1), (1, 2, 1), (1, 9, 1))),
    "concat of one dim": ("concat[m + m as twice](x * w, tanh(x) * w)", "twice", ("m", "twice"), ((5, 1, 1), (1, 1, 1))),
    "pad": ("pad[m as all](x * w, before: {n}, value: 2)", "all", ("m", "all"), ((6, 6, 1), (5, 8, 1), (1, 2, 1))),
    "pad with zeros": ("pad[m as all](x * w, before: {n})", "all", ("m", "all"), ((6, 6, 1), (5, 8, 1), (1, 2, 1))),
    "slice": (f"({JOINED})[all = 2..9 as seven]", "seven", ("m", "all", "seven"), ((6, 6, 1), (5, 8, 1))),
    "steps": (f"({JOINED})[all = 0.. step 2 as half]", "half", ("m", "all", "half"), ((6, 6, 1), (5, 9, 1))),
    "split": (f"({JOINED})[all as p * q]", "p, q", ("all", "p", "q"), ((6, 6, 3), (5, 10, 5), (1, 3, 2))),
    "merge": ("outer(x * w, tanh(v))[m * q as flat]", "flat", ("m", "q", "flat"), ((6, 1, 4), (5, 1, 3), (2, 1, 5))),
}


def spec(name, sizes, splits, mesh):
    """`splits`: the axes of each dim."""
    made, dims, _, _ = CASES[name]
    m, n, q = sizes
    known = {"m": m, "n": n, "q": q, "all": m + n, "twice": 2 * m, "flat": m * q, "p": max(1, (m + n) // q), "seven": 7, "half": (m + n + 1) // 2, "k": 4}
    rules = "; ".join(f"{dim} -> {axes or 'none'}" for dim, axes in splits)
    return (f"dim {', '.join(f'{dim} = {size}' for dim, size in known.items())}\nmodel Joined {{\n  param w : f64[k] = normal(std: 1)\n  param v : f64[q] = normal(std: 1)\n"
            f"  input x : f64[m, k]\n  input y : f64[n, k]\n  z = {made.format(n=n)}\n  loss = mean[{dims}, k](tanh(z) * z) + mean[n, k](y * w) + mean[q](v * v)\n"
            f"  minimize loss with sgd(lr: 0.1)\n}}\nmesh {mesh} {{ {MESHES[mesh]} }}\nlayout default on {mesh} {{ {rules} }}\n")


def splits_of(name, mesh, random_ones):
    """Every dim split or whole; of two axes random ones, each axis on one dim at most."""
    dims = CASES[name][2]
    if mesh != "square":
        return [tuple(zip(dims, ways)) for ways in itertools.product(("", "a"), repeat=len(dims)) if any(ways)]
    pick = random.Random(f"{SEED} {name}")
    ways = ("", "a", "b", "a * b", "b * a")
    return sorted({tuple((dim, pick.choice(ways)) for dim in dims) for _ in range(random_ones)})


def problem(folder, number, text):
    path = os.path.join(folder, f"{number}.mesh")
    with open(path, "w") as file:
        file.write(text)
    done = subprocess.run([meshc(), "verify", path, "--precision", "f64", "--bound", BOUND], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    if done.returncode == 0 or is_refused(done.stdout):
        return ""
    return f"exit code {done.returncode}: {done.stdout[-800:]}\n{text}"


def sent(folder, name, sizes, splits, mesh):
    path = os.path.join(folder, "sent.mesh")
    with open(path, "w") as file:
        file.write(spec(name, sizes, splits, mesh))
    plan = json.loads(execute(meshc(), "plan", path, "--json").stdout)
    return sum(one["bytes"] for one in plan["collectives"] if one["kind"] != "all_reduce" and one["phase"] == "forward")


def run(small):
    report = Report()
    print(f"seed {SEED}")
    with scratch() as folder, ThreadPoolExecutor(2) as pool:
        for name, (_, _, _, sizes) in CASES.items():
            texts = [spec(name, one, splits, mesh) for one in sizes for mesh in MESHES for splits in splits_of(name, mesh, 4 if small else 24)]
            if small:
                texts = random.Random(f"{SEED} {name}").sample(texts, min(len(texts), 8))
            wrong = [text for text in pool.map(problem, [folder] * len(texts), range(len(texts)), texts) if text]
            report.true(f"{name}: {len(texts)} layouts equal one rank", not wrong, wrong[0] if wrong else "")
        # Rows of 4 numbers of 8 bytes. Blocks of 5 and 8 of 13 rows on 3 ranks; the rank that sends most gives so many rows away.
        for name, sizes, splits, rows in (("concat", (5, 8, 1), (("m", "a"), ("n", "a"), ("all", "a")), 2 + 2), ("merge", (5, 1, 3), (("q", "a"), ("flat", "a")), 4)):
            report.check(f"{name}: bytes that change ranks", sent(folder, name, sizes, splits, "three"), rows * 32)
    return report
