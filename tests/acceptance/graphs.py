"""Random graphs under random layouts equal one rank: every named value, gradient, updated parameter and metric (meshc verify, f64, 1e-9).

`python3 tests/acceptance/graphs.py N [ATTEMPT]` prints the spec of graph N.
"""
import glob
import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from common import Report, meshc, scratch
from generate import features
from generate.layouts import is_refused
from generate.model import spec

SEED = 20261120
BOUND = 1e-9
ATTEMPTS = 6
# Specs that once failed; some for the machine that is described beside them.
ONCE_FAILED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "once_failed", "*.mesh")


# Three graphs of four are placed for another machine than the default one: where bytes alone decide, where work does, and on hosts whose work hides what they send.
MACHINES = (None, "{name: bytes, node: {latency_us: 1.0e-6, gbs: 0.001}, network: {latency_us: 1.0e-6, gbs: 0.001}}",
            "{name: work, gflops: {f32: 0.001, f64: 0.001}, memory_gbs: 0.001, node: {latency_us: 1.0e-6, gbs: 1000}, network: {latency_us: 1.0e-6, gbs: 1000}}",
            "{name: hosts, gflops: {f32: 0.001, f64: 0.001}, node: {ranks: 1}, network: {latency_us: 1.0e-6, gbs: 1}}")


# Every second one may have the second forward pass that mixed samples cost.
MIXING = ("-W", "batch_coupled")


def verify_file(path, machine=None, options=()):
    options = list(options)
    if machine:
        options += ["--machine", path + ".yaml"]
        with open(options[-1], "w") as file:
            file.write(machine + "\n")
    return subprocess.run([meshc(), "verify", path, "--precision", "f64", "--bound", str(BOUND), *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)


class Verdict:
    """What became of a graph: how it failed, if it did; layouts refused before; the features of the one that was verified."""

    def __init__(self, refused, features=None, problem=None):
        self.refused, self.features, self.problem = refused, features, problem


def placements(path, one):
    """What the layout makes of loops, where it may have made something of them."""
    if not (one.features["a loop of sums"] and one.features["turns at their owners"]) and not one.features["attention"]:
        return Counter()
    done = subprocess.run([meshc(), "ir", path, "sharded", *MIXING], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
    return features.of_placements(done.stdout)


def verify(folder, number):
    for attempt in range(ATTEMPTS):
        one = spec(SEED + number, attempt)
        path = os.path.join(folder, f"{number}.mesh")
        with open(path, "w") as file:
            file.write(one.text)
        try:
            done = verify_file(path, MACHINES[number % len(MACHINES)], MIXING if number % 2 else ())
        except subprocess.TimeoutExpired:
            return Verdict(attempt, problem=f"attempt {attempt}: no answer in 300 s")
        if done.returncode == 0:
            return Verdict(attempt, one.features + features.of_messages(done.stderr) + placements(path, one))
        if done.returncode != 1 or not is_refused(done.stderr, one.apart):
            return Verdict(attempt, problem=f"attempt {attempt}, mesh {one.axes}: exit code {done.returncode}\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
    return Verdict(ATTEMPTS)


def run(small, count=None):
    report = Report()
    full = not small and not count
    count = count or (40 if small else 5000)
    print(f"seed {SEED}, {count} graphs, each under a random layout of 1 to 8 ranks, relative bound {BOUND}")
    refused = skipped = equal = 0
    found = Counter()
    with scratch() as folder, ThreadPoolExecutor(2) as pool:
        for number, verdict in enumerate(pool.map(lambda n: verify(folder, n), range(count))):
            refused += verdict.refused
            if verdict.problem:
                report.true(f"graph {number}", False, verdict.problem)
            elif verdict.features is None:
                skipped += 1
            else:
                equal += 1
                found += verdict.features
    report.check("graphs equal to one rank", equal, f"{count - skipped} of {count} (others had no valid layout in {ATTEMPTS} tries)", equal == count - skipped)
    report.true("few graphs without a valid layout", skipped <= count // 20, f"{skipped}; layouts refused rightly: {refused}")
    features.told(report, found, features.OF_MODELS | features.OF_LAYOUTS | features.OF_PLACEMENTS | features.OF_MESSAGES, full)
    for path in sorted(glob.glob(ONCE_FAILED)):
        done = verify_file(path, options=["--machine", path + ".yaml"] if os.path.exists(path + ".yaml") else [])
        report.true(os.path.basename(path), done.returncode == 0, "" if done.returncode == 0 else done.stdout[-1500:] + done.stderr[-1500:])
    return report


if __name__ == "__main__":
    print(spec(SEED + int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0).text)
