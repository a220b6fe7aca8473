"""heat.mesh, a field without a loss, on tiles of ranks: bit by bit the field of one rank, as ranks in threads and as emitted processes."""
import json
import os
import subprocess

import numpy as np

from common import TOP, Report, json_lines, meshc, scratch, sets
from common import run as execute

SEED = 20261120
SPEC = f"{TOP}/specs/heat.mesh"
METRIC_BOUND = 1e-12


def expected(source, u, steps):
    """The field after so many steps, one row of `x` and of `y` beside each: clamped and wrapped."""
    for _ in range(steps):
        beside = np.concatenate([u[:1], u, u[-1:]])
        around = beside[2:] + beside[:-2] + np.roll(u, -1, 1) + np.roll(u, 1, 1) - 4 * u
        u = u + 0.1 * around + source
        u[[0, -1]] = 100.0
    return u


def far(got, right):
    return float(np.abs(got - right).max() / max(np.abs(right).max(), 1))


def check_plan(report, title, size, mesh):
    """Both neighbours of a rank are one exchange; an axis of one rank needs none."""
    plan = json.loads(execute(meshc(), "plan", SPEC, *sets(**size), "--mesh", mesh, "--json").stdout)
    halos = [(c["axes"], c["tensor"], c["count"]) for c in plan["collectives"] if c["kind"] == "halo"]
    others = [c["kind"] for c in plan["collectives"] if c["kind"] != "halo"]
    wanted = [([axis], "u", 1) for axis, ranks in plan["mesh"]["axes"].items() if ranks > 1]
    good = halos == wanted and others == ["all_reduce"] * bool(wanted)
    report.true(f"{title}: one halo exchange per axis and step, besides them the sum of the metric", good, f"{halos}, {others}")


def file_name(mesh):
    return mesh.replace(",", "-").replace("=", "-")


def fetch(folder, name, size, mesh, steps):
    out = f"{folder}/fetched-{name}"
    feeds = ["--feed", f"source={folder}/source.npy", "--feed", f"u={folder}/u.npy"]
    execute(meshc(), "fetch", SPEC, "u", "heat", *feeds, *sets(**size), "--mesh", mesh, "--steps", steps, "--out", out)
    return np.load(f"{out}/u.npy"), float(np.load(f"{out}/heat.npy"))


def start(folder, name, size, mesh, steps):
    """The emitted program on its ranks: the fields that it writes at half of the steps and at the end, and the metric of every step."""
    run_file = f"{folder}/{name}.yaml"
    with open(run_file, "w") as file:
        file.write(f"""data: {{ source: {{file: source.npy}}, u: {{file: u.npy}} }}
train: {{ steps: {steps} }}
log: {{ every: 1, jsonl: {folder}/{name}.jsonl }}
output: {{ u: {{every: {steps // 2}, file: "{folder}/{name}_{{step}}.npy"}} }}
""")
    execute(meshc(), "run", SPEC, run_file, *sets(**size), "--mesh", mesh, "-A", "oversubscribed")
    fields = [np.load(f"{folder}/{name}_{step}.npy") for step in (steps // 2, steps)]
    return fields, [line["heat"] for line in json_lines(f"{folder}/{name}.jsonl") if "heat" in line]


def check_meshes(report, title, folder, random, size, steps, meshes, built):
    shape = (size["x"], size["y"])
    source, first = random.normal(size=shape), random.normal(size=shape) * 50
    np.save(f"{folder}/source.npy", source)
    np.save(f"{folder}/u.npy", first)
    right = expected(source, first, steps)
    one, heat = fetch(folder, "one", size, "rows=1,columns=1", steps)
    report.check(f"{title}: {steps} steps against NumPy", far(one, right), METRIC_BOUND)
    fields, heats = start(folder, "one", size, "rows=1,columns=1", steps)
    report.true(f"{title}: the emitted program writes the interpreter's field, bit by bit", np.array_equal(fields[1], one))
    for mesh in meshes:
        many, many_heat = fetch(folder, file_name(mesh), size, mesh, steps)
        report.check(f"{title}: elements that differ, {mesh}, interpreted", int((many != one).sum()), 0)
        report.check(f"{title}: metric, {mesh}, interpreted", abs(many_heat - heat) / abs(heat), METRIC_BOUND)
    for mesh in built:
        many_fields, many_heats = start(folder, file_name(mesh), size, mesh, steps)
        report.check(f"{title}: elements that differ, {mesh}, processes", int(sum((a != b).sum() for a, b in zip(many_fields, fields))), 0)
        worst = max(abs(a - b) / abs(b) for a, b in zip(many_heats, heats))
        report.check(f"{title}: metric of {len(many_heats)} steps, {mesh}, processes", worst, METRIC_BOUND, worst <= METRIC_BOUND and len(many_heats) == len(heats) == steps)


def check_walk(report, folder):
    """As its run file says: flames, a run, a picture."""
    script = f"{TOP}/specs/heat.py"
    size = ["--size", "24", "32"]
    subprocess.run([script, "source", f"{folder}/source.npy", *size], check=True)
    execute(meshc(), "run", SPEC, *sets(x=24, y=32), f"data.source.file={folder}/source.npy", "train.steps=40", "output.u.every=20", f"output.u.file={folder}/heat_{{step}}.npy", cwd=folder)
    drawn = subprocess.run([script, "picture", f"{folder}/heat_40.npy", f"{folder}/heat.png"], check=True, capture_output=True, text=True).stdout
    with open(f"{folder}/heat.png", "rb") as file:
        picture = file.read()
    written = sorted(name for name in os.listdir(folder) if name.startswith("heat_"))
    good = written == ["heat_20.npy", "heat_40.npy"] and picture[:8] == b"\x89PNG\r\n\x1a\n" and picture[16:24] == (32).to_bytes(4, "big") + (24).to_bytes(4, "big")
    far_off = far(np.load(f"{folder}/heat_40.npy"), expected(np.load(f"{folder}/source.npy"), np.zeros((24, 32)), 40))
    refused = execute(meshc(), "run", SPEC, *sets(x=24, y=32), f"data.source.file={folder}/source.npy", "train.lr=0.1", cwd=folder, code=1).stderr
    report.true("a rate without an optimizer is refused", "`Heat` has no optimizer" in refused and "command line" in refused, refused)
    report.check(f"with its run file: {', '.join(written)}, {drawn.strip()}; against NumPy", far_off, METRIC_BOUND, good and far_off <= METRIC_BOUND)


def run(small):
    report = Report()
    random = np.random.default_rng(SEED)
    print(f"seed {SEED}")
    square = "rows=2,columns=2"
    with scratch() as folder:
        for title, mesh in (("whole", "rows=1,columns=1"), ("rows", "rows=3,columns=1"), ("tiles", square)):
            report.attempt(f"plan of {title}", lambda: check_plan(report, title, dict(x=64, y=64), mesh))
        even, uneven = dict(x=48, y=40), dict(x=37, y=23)
        meshes = [square] if small else [square, "rows=1,columns=2", "rows=2,columns=1", "rows=3,columns=2", "rows=2,columns=4"]
        report.attempt("uneven", lambda: check_meshes(report, "37 x 23", folder, random, uneven, 20, meshes, [square] if small else meshes))
        if not small:
            report.attempt("even", lambda: check_meshes(report, "48 x 40", folder, random, even, 200, meshes, [square]))
            report.attempt("large", lambda: check_meshes(report, "2048 x 2048", folder, random, dict(x=2048, y=2048), 20, [square], [square]))
        report.attempt("walk", lambda: check_walk(report, folder))
    return report
