"""Whole models of zoo/, each under its layouts: checked, planned, and equal to one rank (meshc verify, f64); the same text after `meshc fmt`."""
import glob
import os
import re

from common import Report, meshc
from common import run as execute

FILES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "zoo", "*.mesh")
BOUND = 1e-9
SMALL = 3  # layouts of each model


def run(small):
    report = Report()
    for path in sorted(glob.glob(FILES)):
        name = os.path.basename(path).removesuffix(".mesh")
        with open(path) as file:
            text = file.read()
        layouts = re.findall(r"^layout (\w+)", text, re.M)
        report.true(f"{name}: formatted", execute(meshc(), "fmt", "--check", path, code=None).returncode == 0)
        if not small:  # the plan of a layout says as much of it
            report.attempt(name, lambda path=path: execute(meshc(), "check", path))
        for layout in layouts[:: -(-len(layouts) // SMALL)] if small else layouts:
            def verify(path=path, layout=layout, name=name):
                plan = execute(meshc(), "plan", path, "--layout", layout).stdout
                equal = execute(meshc(), "verify", path, "--layout", layout, "--precision", "f64", "--bound", str(BOUND)).stdout
                count = re.search(r"all (\d+) values are equal", equal)
                report.true(f"{name}, {layout}", count is not None and "collectives" in plan, f"{count[1]} values" if count else equal[-500:])

            report.attempt(f"{name}, {layout}", verify)
    return report
