"""Bytes times count over the collectives of `meshc plan --json`, those below 64 B apart, against the formulas."""
import json

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
            expected = sorted(("permute", cells * 8, 5) for cells in (rows, columns))
            report.check(f"heat on {mesh}, {phase}: {found}", found, expected, found == expected)

    report.attempt(f"heat on {mesh}", action)


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
    with scratch() as folder:
        # Sent by the rank that sends most: cells of a row, with the columns' margins, and of a column with the rows'.
        neighbours(report, folder, "rows=2,columns=2", 1 * (60 // 2 + 2), 2 * (48 // 2 + 2))
        neighbours(report, folder, "rows=4,columns=3", 2 * (60 // 3 + 2), 2 * (48 // 4 + 2))
    return report
