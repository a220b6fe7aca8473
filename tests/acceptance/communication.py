"""The collectives of `meshc plan --json`: bytes times count, those below 64 B apart, against the formulas; their number, reasons and totals."""
import json
import re

from common import TOP, Report, meshc, scratch
from common import run as execute


def ring(k, n):
    return 2 * (k - 1) / k * n * 4


def run_case(report, layout, mesh, expected):
    def action():
        plan = json.loads(execute(meshc(), "plan", f"{TOP}/tests/specs/perceptron.mesh", "--layout", layout, "--mesh", mesh, "--json").stdout)
        sent = sum(c["bytes"] * c["count"] for c in plan["collectives"] if c["bytes"] >= 64)
        report.check(f"{layout} on {mesh}: {sent:.0f} B of {expected:.0f} B, relative difference", abs(sent / expected - 1), 0.01)

    report.attempt(f"{layout} on {mesh}", action)


HEAT = """dim x = 48 edge "clamp", y = 60 edge "wrap", time = 5
model Heat {
  input source : f64[x, y]
  param start : f64[x, y] = normal(std: 1)
  u = start
  repeat time {
    around = u[x + 1] + u[x - 1] + u[y + 1] + u[y - 1] - 4 * u
    u = u + 0.1 * around + source
  }
  loss = mean[x, y](u ^ 2)
  minimize loss with sgd(lr: 0.1)
}
mesh grid { rows: 2, columns: 2 }
layout tiles on grid { x -> rows; y -> columns }
"""


def neighbours(report, folder, mesh, rows, columns):
    """One exchange of margins for each axis and turn, forward and backward, of a row or column beside each part."""
    def action():
        path = f"{folder}/heat.mesh"
        with open(path, "w") as file:
            file.write(HEAT)
        plan = json.loads(execute(meshc(), "plan", path, "--mesh", mesh, "--json").stdout)
        for phase in ("forward", "backward"):
            found = sorted((c["kind"], c["bytes"], c["count"]) for c in plan["collectives"] if c["phase"] == phase and c["count"] > 1)
            expected = sorted(("halo", cells * 8, 5) for cells in (rows, columns))
            report.check(f"heat on {mesh}, {phase}: {found}", found, expected, found == expected)

    report.attempt(f"heat on {mesh}", action)


TRANSFORMER = {"batch": 4, "seq": 32, "embed": 32, "heads": 2, "head_dim": 16, "layer": 3}


def megatron(report, r, c):
    """Of a layer attention and feed-forward, each once forward and once backward: what a turn keeps for backward is already complete."""
    def action():
        sizes = [word for dim, size in TRANSFORMER.items() for word in ("--set", f"{dim}={size}")]
        plan = json.loads(execute(meshc(), "plan", f"{TOP}/specs/gpt.mesh", "--layout", "megatron", "--mesh", f"data={r},model={c}", *sizes, "--json").stdout)
        layers = TRANSFORMER["layer"]
        expected = [("all_reduce", ["model"], int(ring(c, TRANSFORMER["batch"] // r * TRANSFORMER["seq"] * TRANSFORMER["embed"])))] * 2
        for phase in ("forward", "backward"):
            found = [(x["kind"], x["axes"], x["bytes"]) for x in plan["collectives"] if x["phase"] == phase and x["count"] == layers]
            report.check(f"a layer of megatron on {r} x {c} {phase}: {found}", found, expected, found == expected)

    report.attempt(f"megatron on {r} x {c}", action)


LONG = {"batch": 2, "seq": 16384, "embed": 1024, "heads": 16, "head_dim": 64, "layer": 12}


def long_sequence(report):
    """Keys and values of 16,384 positions go round: a rank sends all parts but one, and holds memory in proportion to its positions."""
    def action():
        sizes = [word for dim, size in LONG.items() for word in ("--set", f"{dim}={size}")]
        activations = {}
        for ranks in (4, 8, 16):
            plan = json.loads(execute(meshc(), "plan", f"{TOP}/specs/gpt.mesh", "--layout", "ring", "--mesh", f"ctx={ranks}", *sizes, "--json").stdout)
            all_keys = 4 * LONG["batch"] * LONG["seq"] * LONG["heads"] * LONG["head_dim"]
            expected = all_keys * (ranks - 1) // ranks
            for phase, values in (("forward", 2), ("backward", 4)):
                found = [c["bytes"] for c in plan["collectives"] if c["kind"] == "ring" and c["phase"] == phase]
                report.check(f"rings of {ranks} ranks {phase}", found, [expected] * values, found == [expected] * values)
            activations[ranks] = plan["memory"]["activations"]
        for ranks in (8, 16):
            ratio = activations[4] * 4 / (activations[ranks] * ranks)
            report.check(f"activations of {ranks} ranks, in proportion to those of 4: relative difference", abs(ratio - 1), 0.01)

    report.attempt("a long sequence", action)


def reasons(report):
    """A sum is completed over an axis because a dim is split over that axis."""
    def action():
        plan = json.loads(execute(meshc(), "plan", f"{TOP}/specs/gpt.mesh", "--layout", "megatron", "--json").stdout)
        sums = [c for c in plan["collectives"] if c["kind"] in ("all_reduce", "reduce_scatter")]
        wrong = [(c["axes"], c["reason"]) for c in sums if not all(re.search(f"is split.* over `[^`]*{axis}.*, so", c["reason"]) for axis in c["axes"])]
        report.check(f"of {len(sums)} reasons of megatron, those that do not name the axis", wrong, [], sums and not wrong)

    report.attempt("reasons of megatron", action)


def totals(report):
    """What `plan` says in all is the sum of what it lists, calls that several share paid once."""
    def action():
        plan = json.loads(execute(meshc(), "plan", f"{TOP}/specs/gpt.mesh", "--layout", "megatron", "--json").stdout)
        bytes_of, seconds_of = (sum(c[key] * c["count"] for c in plan["collectives"]) for key in ("bytes", "seconds"))
        report.check("bytes of a step", plan["communication_bytes"], bytes_of, plan["communication_bytes"] == bytes_of > 0)
        report.check("seconds of communication, relative difference", abs(plan["communication_seconds"] / seconds_of - 1), 1e-9)
        whole = plan["compute_seconds"] + plan["exposed_seconds"]
        report.check("seconds of a step, relative difference", abs(plan["predicted_seconds"] / whole - 1), 1e-9)
        named = (plan["layout"], plan["machine"])
        report.check(f"layout and machine: {named}", named, ("megatron", "generic"), named == ("megatron", "generic"))

    report.attempt("totals of a plan", action)


def run(small):
    """The same counts at both sizes: a plan takes no time."""
    report = Report()
    b, io, hidden = 64, 512, 1024
    for n in (2, 4):
        run_case(report, "batch", f"all={n}", ring(n, 2 * io * hidden + hidden))
        run_case(report, "hidden", f"all={n}", ring(n, b * io))
    for r, c in ((2, 2), (2, 4)):
        mesh = f"rows={r},columns={c}"
        run_case(report, "both", mesh, ring(c, b / r * io) + ring(r, (2 * io * hidden + hidden) / c))
        run_case(report, "io", mesh, 2 * ring(r, b * hidden / c) + ring(c, b * io / r))
    for r, c in ((2, 2), (1, 2), (4, 2)):
        megatron(report, r, c)
    reasons(report)
    long_sequence(report)
    totals(report)
    with scratch() as folder:
        # Sent by the rank that sends most: cells of a row, with the columns' margins, and of a column with the rows'.
        neighbours(report, folder, "rows=2,columns=2", 1 * (60 // 2 + 2), 2 * (48 // 2 + 2))
        neighbours(report, folder, "rows=4,columns=3", 2 * (60 // 3 + 2), 2 * (48 // 4 + 2))
    return report
