"""The front end, elaboration, layouts and placement on mutants of the specs of this tree: no crash, no hang, never refused without a diagnostic."""
import glob
import os
import re
from concurrent.futures import ThreadPoolExecutor

from common import TOP, Report, scratch
from common import run as execute
from constructs import loops, sizes, training, values

SEED = 20261120
PART = 500  # mutants of one process


def driver():
    """tests/fuzz/fuzz: $FUZZ, or that of the test build."""
    return os.environ.get("FUZZ") or f"{TOP}/build-test/tests/fuzz/fuzz"


def corpus(folder):
    """Files of valid specs: those of the tree that ask for no file beside them, and one for each construct."""
    files = []
    for pattern in ("specs/*.mesh", "specs/*/*.mesh", "tests/specs/*.mesh", "tests/frontend/specs/*.mesh", "tests/elaborate/graphs/*.mesh", "tests/acceptance/once_failed/*.mesh"):
        files += sorted(glob.glob(os.path.join(TOP, pattern)))
    for number, construct in enumerate(construct for part in (sizes, loops, values, training) for construct in part.cases()):
        files.append(os.path.join(folder, f"construct{number}.mesh"))
        with open(files[-1], "w") as file:
            file.write(construct.spec)
    return files


def run(small):
    report = Report()
    count = 1000 if small else 100_000
    with scratch() as folder, ThreadPoolExecutor(2) as pool:
        files = corpus(folder)
        print(f"seed {SEED}, {count} mutants of {len(files)} specs")

        def part(first):
            return execute(driver(), first, min(PART, count - first), SEED, *files, code=None, timeout=3600)

        accepted = diagnostics = done = 0
        for first, result in zip(range(0, count, PART), pool.map(part, range(0, count, PART))):
            found = re.search(r"(\d+) mutants, (\d+) accepted, (\d+) diagnostics", result.stdout)
            if found:
                done, accepted, diagnostics = (total + int(number) for total, number in zip((done, accepted, diagnostics), found.groups()))
            if result.returncode != 0:
                report.true(f"mutants from {first}", False, result.stderr[-1500:] or f"exit code {result.returncode}")
        report.check("mutants that ended well", done, count, done == count and report.failed == 0)
        report.true("some are specs all the same, most are not", count // 50 < accepted < count // 2, f"{accepted} accepted, {diagnostics} diagnostics")
    return report
