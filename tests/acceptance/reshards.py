"""Random movements of one tensor: what `meshc reshard` sends against a search through all ways; no whole gathers; the values are right.

`python3 tests/acceptance/reshards.py N` prints the command of movement N, `reshards.py dN` of the one whose dims are dealt.
"""
import json
import math
import os
import random
import shlex
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor

from common import Report, meshc, scratch
from generate.moved import MISMATCHED, Movement
from oracle.resharding import Resharding

SEED = 20261122
BOUND = 1.05
ELEMENT = 4  # bytes
# Without latency, and with memory so fast that copying costs nothing, the least bytes are the least time; the other machine is what meshc assumes without a
# description.
BYTES = "{name: bytes, gflops: {elementwise: 1.0e9}, memory_gbs: 1.0e9, node: {latency_us: 1.0e-9, gbs: 1}, network: {latency_us: 1.0e-9, gbs: 1}}\n"


def deal(pick, axes, dims, pending):
    """Every other axis to a dim, or to none: its ranks hold copies."""
    dealt = [[] for _ in range(dims)]
    for axis in pick.sample(axes, len(axes)):
        dim = pick.randint(-1, dims - 1)
        if axis not in pending and dim >= 0:
            dealt[dim].append(axis)
    return (*map(tuple, dealt), tuple(pending))


def movement(number):
    pick = random.Random(SEED * 100_000 + number)
    mesh = tuple(pick.choice((2, 2, 3, 4)) for _ in range(pick.randint(1, 3)))
    even, ranks = pick.random() < 0.5, math.prod(mesh)
    shape = tuple(ranks * pick.choice((1, 2, 4)) if even else pick.randint(2, 40) for _ in range(pick.randint(1, 3)))
    axes = list(range(len(mesh)))
    pending = [a for a in axes if pick.random() < 0.2]
    kept = [a for a in pending if pick.random() < 0.2]
    return Movement(mesh, shape, deal(pick, axes, len(shape), pending), deal(pick, axes, len(shape), kept))


def dealt(number):
    """A movement of which dims are dealt in rounds or zigzag on either side; every third one keeps its axes, and only deals anew."""
    pick = random.Random(SEED * 200_000 + number)
    one = movement(number)
    ways = ("", "zigzag", "rounds 2", "rounds 3")
    to = one.start[:-1] + ((),) if number % 3 == 0 and not one.start[-1] else one.to
    return Movement(one.mesh, one.shape, one.start, to, deals=[[pick.choice(ways) for _ in one.shape] for _ in range(2)])


def owned(size, parts, deal, part):
    """The elements of a part, by the definitions."""
    kind, *rounds = (deal or "rounds 1").split()
    blocks = 2 * parts if kind == "zigzag" else int(rounds[0]) * parts
    mine = {part, blocks - 1 - part} if kind == "zigzag" else set(range(part, blocks, parts))
    return {i for b in mine for i in range(size * b // blocks, size * (b + 1) // blocks)}


def sent_anew(asked):
    """Elements that the rank which sends most sends to have one dim dealt otherwise; nothing where more than that changes."""
    changed = [d for d, (a, b) in enumerate(zip(*asked.deals)) if a != b and asked.start[d]]
    if asked.start != asked.to or asked.start[-1] or len(changed) != 1:
        return None
    most = others = 1
    for d, axes in enumerate(asked.start[:-1]):
        parts = math.prod(asked.mesh[a] for a in axes)
        held = [(owned(asked.shape[d], parts, asked.deals[0][d], k), owned(asked.shape[d], parts, asked.deals[1][d], k)) for k in range(parts)]
        if d in changed:
            most = max(len(before - after) for before, after in held)
        else:
            others *= max(len(before) for before, _ in held)
    return most * others


def anew(number, machine):
    """What is wrong with a movement of dealt dims; whether its bytes were compared."""
    asked = dealt(number)
    ours, sent = ask(asked.question(), machine), sent_anew(asked)
    return "" if sent is None or ours["bytes"] <= sent * ELEMENT else f"dealt {number} sends {ours['bytes']} B, not {sent * ELEMENT}", sent is not None and sent > 0


def ask(question, machine=None):
    done = subprocess.run([meshc(), "reshard", *question, "--json", *(("--machine", machine) if machine else ())], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(f"exit code {done.returncode}: {done.stderr[-1000:]}")
    return json.loads(done.stdout)


def whole_gather(asked, answer):
    """Whether an all-gather leaves the whole tensor on every rank on its way to a part of it."""
    return any(asked.to[:-1]) and any(step["kind"] == "all_gather" and not any(step["placement"].values()) for step in answer["steps"])


def measure(number, machine):
    """What is wrong with movement N; its bytes by the best way's; its steps."""
    asked = movement(number)
    try:
        ours = ask(asked.question(), machine)
        rounded = len(ours["steps"])  # a share of an all-reduce is whole: less than an element of each step
        best = Resharding(asked.mesh, asked.shape).least(asked.start, asked.to, ours["bytes"] / ELEMENT + rounded)
        large = [ask(asked.question(scale=1 << 14), one) for one in (None, machine)]
    except (RuntimeError, subprocess.TimeoutExpired) as problem:
        return number, str(problem), 1, 0
    sent = ours["bytes"] / ELEMENT
    ratio = 1.0 if best is None or sent <= best else sent / best if best else float("inf")
    problem = "" if ratio <= BOUND else f"sends {sent} elements, the best way {best}: {[s['kind'] for s in ours['steps']]}"
    if any(whole_gather(asked, one) for one in large):
        problem += " gathers the whole tensor"
    return number, problem, ratio, len(ours["steps"])


def verify(folder, name, asked):
    path = os.path.join(folder, f"{name}.mesh")
    with open(path, "w") as file:
        file.write(asked.spec())
    done = subprocess.run([meshc(), "verify", path, "--precision", "f64", "--bound", "1e-12"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    return "" if done.returncode == 0 else f"exit code {done.returncode}: {done.stdout[-1500:]}"


def run(small):
    report = Report()
    count, runs = (150, 30) if small else (5000, 400)
    print(f"seed {SEED}, {count} movements, {runs} of them run")
    ratios, steps = [], 0
    with scratch() as folder, ProcessPoolExecutor(2) as pool:
        machine = os.path.join(folder, "bytes.yaml")
        with open(machine, "w") as file:
            file.write(BYTES)
        for asked, sent in MISMATCHED:
            answer = ask(asked.question(), machine)
            report.check(f"{asked.name}, bytes by {[step['kind'] for step in answer['steps']]}", answer["bytes"], sent, answer["bytes"] == sent)
        for number, problem, ratio, length in pool.map(measure, range(count), [machine] * count, chunksize=8):
            ratios.append(ratio)
            steps += length
            if problem:
                report.true(f"movement {number}", False, problem)
        report.check(f"most that is sent of {count} movements, by what the best way sends", max(ratios), BOUND)
        report.true("they take more than a step each", steps > count, f"{steps} steps")
        compared = 0
        for problem, looked in pool.map(anew, range(count), [machine] * count, chunksize=8):
            compared += looked
            if problem:
                report.true("dims dealt anew", False, problem)
        report.true("dims dealt anew send what changes its owner at most", compared > count / 20, f"{compared} compared of {count}")
        whole = [n for n in range(count) if not movement(n).to[-1]][:runs]
        cases = [(asked.name, asked) for asked, _ in MISMATCHED] + [(str(n), movement(n)) for n in whole] + [(f"dealt{n}", dealt(n)) for n in whole]
        wrong = 0
        for (name, _), problem in zip(cases, pool.map(verify, [folder] * len(cases), *zip(*cases))):
            wrong += bool(problem)
            if problem:
                report.true(f"{name}, run", False, problem)
        report.check(f"of {len(cases)} that are run so many differ from one rank", wrong, 0)
    return report


if __name__ == "__main__":
    shown = dealt(int(sys.argv[1][1:])) if sys.argv[1].startswith("d") else movement(int(sys.argv[1]))
    print(shlex.join(["meshc", "reshard", *shown.question()]))
    print(shown.spec())
