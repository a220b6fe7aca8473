"""Faults built into programs of at least two ranks: each is caught by a wrong number, by the verifier, or by ranks that say where they diverge; never a hang.

`tests/mutation/meshc_mutate verify SPEC --mutate KIND:N` builds fault N of a kind into the training step. `python3 tests/acceptance/mutation.py PROGRAM KIND:N` repeats one
(PROGRAM as it is printed) and leaves the spec where it says.
"""
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from common import TOP, Report, meshc, meshc_mutate, scratch, sets
from generate.model import spec

SEED = 20261120
SECONDS = 10
# How many of each kind: collectives left out by all ranks, by one, calls in another order on one rank, divisions by a count left out, slices a row off.
FULL = {"drop": 60, "skip": 40, "swap": 50, "scale": 50, "shift": 40}
SMALL = {"drop": 4, "skip": 4, "swap": 3, "scale": 3, "shift": 2}
GPT = sets(batch=3, seq=6, embed=10, heads=2, head_dim=5, vocab=11, layer=2)
MLP = sets(batch=10, pixel=13, hidden=9, **{"class": 5})
# `rounded away` has steps of rounding noise, which a layout may take otherwise: no fault may hide behind that.
SPECS = [*((f"rounded away {layout}", "../tests/program/rounded_away.mesh", ["--layout", layout]) for layout in ("samples", "heads")),
         ("gpt default", "gpt.mesh", [*GPT, "--mesh", "data=2,model=2"]), ("gpt sequence", "gpt.mesh", ["--layout", "sequence", *GPT]),
         ("gpt megatron", "gpt.mesh", ["--layout", "megatron", *GPT]), ("gpt zero", "gpt.mesh", ["--layout", "zero", *GPT]),
         *((f"mlp {layout}", "mlp.mesh", ["--layout", layout, *MLP]) for layout in ("data", "model", "both", "weights", "three"))]


class Program:
    def __init__(self, name, path, options):
        self.name, self.path, self.options = name, path, options

    def verify(self, timeout, *options):
        # Two steps: what only an optimizer's state shows is in the parameters after the second.
        command = [meshc_mutate() if "--mutate" in options else meshc(), "verify", self.path, *self.options, "--steps", "2", *options]
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout, env={**os.environ, "MESHRT_TIMEOUT": "60"})

    def room(self):
        """{kind: how many faults of it}, nothing where the layout is refused."""
        done = self.verify(60, "--mutate", "list")
        return {kind: int(count) for kind, count in re.findall(r"(?m)^(\w+) (\d+)$", done.stdout)} if done.returncode == 0 else {}


def programs(folder):
    """Those of the specs, then one a random graph and layout."""
    for name, file, options in SPECS:
        yield Program(name, os.path.join(TOP, "specs", file), options)
    number = 0
    while True:
        text = spec(SEED + number, every=True).text
        path = os.path.join(folder, f"{number}.mesh")
        with open(path, "w") as file:
            file.write(text)
        yield Program(f"graph {number}", path, [])
        number += 1


def mutants(folder, wanted):
    """Without end: (program, fault) of the kinds that `wanted()` names; at most one of a kind a program, so that many programs take part."""
    random_ = random.Random(SEED)
    for program in programs(folder):
        room = program.room()
        for kind in wanted():
            if room.get(kind):
                yield program, f"{kind}:{random_.randint(1, room[kind])}"


# What a fault may need to show: an index that wins on one rank may win on all by chance; the maximum that a logsumexp takes away is any number
# of its size, unless the numbers are large.
FEEDS = [("--seed", "1"), ("--seed", "2"), ("--seed", "3"), ("--seed", "4"), ("--scale", "300"), ("--scale", "3000")]


HARMLESS = "harmless"


def verdict(program, mutation, feed):
    """(how the fault shows, HARMLESS or None; seconds; what was printed)."""
    started = time.time()
    try:
        done = program.verify(SECONDS, "--mutate", mutation, *feed)
    except subprocess.TimeoutExpired:
        return None, SECONDS, f"no answer in {SECONDS} s"
    seconds, text = time.time() - started, done.stdout[-3000:] + done.stderr[-1500:]
    if done.returncode == 3 and re.search(r"diverge|has ended without making it", done.stderr):
        return "ranks that diverge", seconds, text
    if done.returncode == 1 and re.search(r"(?m) (DIFFERENT|NaN)$|^copies of ", done.stdout):
        # Numbers of this size prove nothing where the program without a fault differs too.
        fair = feed[0] != "--scale" or program.verify(60, *feed).returncode == 0
        return ("a wrong number" if fair else None), seconds, text
    if done.returncode == 1 and "the verifier says: " in done.stdout:
        return "the verifier", seconds, text
    if done.returncode == 0 and "harmless: " in done.stdout or done.returncode == 2 and "edge of the memory" in done.stderr:
        return HARMLESS, seconds, text
    return None, seconds, text


def fate(mutant):
    """The same with the first feed that shows the fault, and which one that was; HARMLESS if it is with all of them."""
    slowest, verdicts = 0, []
    for feed in FEEDS:
        how, seconds, text = verdict(*mutant, feed)
        slowest = max(slowest, seconds)
        if how not in (None, HARMLESS) or seconds >= SECONDS:
            return how, slowest, text, feed
        verdicts.append(how)
    return (HARMLESS if all(verdicts) else None), slowest, text, feed


def run(small):
    report = Report()
    goal = Counter(SMALL if small else FULL)
    print(f"seed {SEED}, {sum(goal.values())} faults ({', '.join(f'{count} {kind}' for kind, count in goal.items())}); each within {SECONDS} s")
    tried, found, harmless, feeds, names, slowest = Counter(), Counter(), Counter(), Counter(), set(), 0
    with scratch() as folder, ThreadPoolExecutor(2) as pool:
        under_way = Counter()
        stream = mutants(folder, lambda: [kind for kind in goal if tried[kind] + under_way[kind] < goal[kind]])
        while tried != goal:
            # As many as are missing, two at a time; what proves harmless is drawn again.
            batch = []
            while (tried + under_way) != goal:
                program, mutation = next(stream)
                batch.append((program, mutation))
                under_way[mutation.partition(":")[0]] += 1
            for (program, mutation), (how, seconds, text, feed) in zip(batch, pool.map(fate, batch)):
                kind = mutation.partition(":")[0]
                slowest = max(slowest, seconds)
                if how == HARMLESS:
                    harmless[kind] += 1
                    continue
                tried[kind] += 1
                names.add(program.name)
                if how:
                    found[kind, how] += 1
                    feeds[feed] += 1
                else:
                    report.true(f"{program.name}, {mutation}", False, text)
            under_way.clear()
    for kind, count in goal.items():
        ways = {how: n for (k, how), n in found.items() if k == kind}
        report.check(f"{kind}: caught", sum(ways.values()), f"{count} of {count} ({', '.join(f'{n} by {how}' for how, n in sorted(ways.items()))})", sum(ways.values()) == count)
    report.check(f"all: caught, in {len(names)} programs", sum(found.values()), f"{sum(goal.values())} of {sum(goal.values())}", sum(found.values()) == sum(goal.values()))
    print("harmless, drawn again: " + (", ".join(f"{count} {kind}" for kind, count in harmless.items()) or "none"))
    print("shown by: " + ", ".join(f"{feeds[feed]} {' '.join(feed)}" for feed in FEEDS if feeds[feed]))
    report.check("the slowest, seconds", round(slowest, 1), SECONDS)
    return report


if __name__ == "__main__":
    where = "/tmp" if len(sys.argv) == 3 else sys.exit(__doc__)
    one = next(p for p in programs(where) if p.name == sys.argv[1])
    print(one.path, *one.options, *fate((one, sys.argv[2])), sep="\n")
