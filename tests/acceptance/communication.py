"""Bytes times count over the collectives of `meshc plan --json`, those below 64 B apart, against the formulas."""
import json

from common import TOP, Report, meshc
from common import run as execute


def ring(k, n):
    return 2 * (k - 1) / k * n * 4


def run_case(report, layout, mesh, expected):
    def action():
        plan = json.loads(execute(meshc(), "plan", f"{TOP}/tests/specs/perceptron.mesh", "--layout", layout, "--mesh", mesh, "--json").stdout)
        sent = sum(c["bytes"] * c["count"] for c in plan["collectives"] if c["bytes"] >= 64)
        report.check(f"{layout} on {mesh}: {sent:.0f} B of {expected:.0f} B, relative difference", abs(sent / expected - 1), 0.01)

    report.attempt(f"{layout} on {mesh}", action)


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
    return report
