"""What the acceptance items share: finding meshc, running commands within a time, counting lines with measured value and bound."""
import json
import os
import subprocess
import tempfile

os.environ.setdefault("MESHRT_RUNS", "none")  # runs of tests leave no folders

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# For programs that measure their memory. `meson test` lets malloc fill what it gives, so that pages are there that nobody uses.
unfilled = {"MALLOC_PERTURB_": "0"}


def meshc():
    """The meshc under test: $MESHC, or that of the test build."""
    for path in (os.environ.get("MESHC"), f"{TOP}/build-test/codegen/commands/meshc", f"{TOP}/build/codegen/commands/meshc"):
        if path and os.path.exists(path):
            return path
    raise SystemExit("no meshc: run tests/run first, or set MESHC")


def meshc_mutate():
    """The meshc that builds faults into programs, of the build that meshc() is of."""
    return os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(meshc()))), "tests", "mutation", "meshc_mutate")


def slow_wire():
    """What joins hosts with a delay (network.py): $SLOW_WIRE, or that of the build that meshc() is of."""
    for path in (os.environ.get("SLOW_WIRE"), os.path.join(os.path.dirname(meshc()), "../../tests/acceptance/slow_wire")):
        if path and os.path.exists(path):
            return path
    raise SystemExit("no slow_wire: run tests/run first, or set SLOW_WIRE")


def run(*command, timeout=300, code=0, env=None, cwd=TOP):
    """Runs a command; its output as text. Another exit code than `code` (None: any) is an error that shows what was printed."""
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout,
                          env={**os.environ, **(env or {})}, cwd=cwd)
    if code is not None and done.returncode != code:
        raise RuntimeError(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done


def sets(**sizes):
    """--set options: sets(batch=4) -> ["--set", "batch=4"]"""
    return [part for name, size in sizes.items() for part in ("--set", f"{name}={size}")]


def scratch(in_memory=False):
    """A folder that goes when it is left; in memory where there is a file system of it."""
    folder = "/dev/shm" if in_memory and os.access("/dev/shm", os.W_OK) else None
    return tempfile.TemporaryDirectory(prefix="meshwright-", dir=folder)


def json_lines(path):
    with open(path) as lines:
        return [json.loads(line) for line in lines if line.strip()]


class Report:
    """Lines of an item: what was measured and what it may be at most."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def check(self, name, measured, bound, good=None):
        good = (measured <= bound) if good is None else good
        self.passed += good
        self.failed += not good
        print(f"{'ok  ' if good else 'FAIL'} {name}: measured {measured}, bound {bound}", flush=True)

    def true(self, name, good, detail=""):
        self.passed += bool(good)
        self.failed += not good
        print(f"{'ok  ' if good else 'FAIL'} {name}{': ' + str(detail) if detail else ''}", flush=True)

    def skip(self, name, why):
        """What cannot be tried here, with the reason; neither passed nor failed."""
        self.skipped += 1
        print(f"SKIPPED {name}: {why}", flush=True)

    def attempt(self, name, action):
        """Runs `action`; an exception is a failed line."""
        try:
            action()
        except (RuntimeError, OSError, KeyError, ValueError, IndexError, subprocess.TimeoutExpired) as problem:
            self.true(name, False, str(problem)[-3000:])

    def finish(self):
        print(f"{self.passed} passed, {self.failed} failed" + (f", {self.skipped} skipped" if self.skipped else ""))
        return 1 if self.failed or not (self.passed or self.skipped) else 0
