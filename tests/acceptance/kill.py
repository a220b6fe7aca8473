"""A rank of a training gpt dies at a random moment, by SIGKILL or by exit: the job ends within a second with one message and exit code 3, and leaves
no process, memory object or socket."""
import os
import random
import signal
import subprocess
import time

import numpy as np

from common import TOP, Report, meshc, scratch, sets
from common import run as execute

SEED = 20261120
RANKS = 3
GPT = dict(batch=6, seq=32, embed=64, heads=4, head_dim=16, layer=2, vocab=64)


def children(pid):
    """The live processes below `pid`, by the kernel's own list."""
    found = []
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            for child in map(int, file.read().split()):
                found += [child, *children(child)]
    except OSError:
        pass
    return found


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def leftovers():
    return {f"/dev/shm/{f}" for f in os.listdir("/dev/shm")} | {f"/tmp/{f}" for f in os.listdir("/tmp") if "meshr" in f or "meshrt" in f}


def kill_once(report, folder, number, dice):
    before = leftovers()
    job = subprocess.Popen([f"{folder}/gpt/gpt", "-n", str(RANKS), f"{folder}/run.yaml"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 20
    while len(children(job.pid)) < RANKS and time.monotonic() < deadline:
        time.sleep(0.01)
    ranks = children(job.pid)
    time.sleep(dice.uniform(0.0, 1.0))
    victim = dice.choice(ranks)
    os.kill(victim, signal.SIGKILL)
    start = time.monotonic()
    try:
        _, messages = job.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        job.kill()
        report.true(f"kill {number}", False, "the job hangs")
        return
    seconds = time.monotonic() - start
    errors = [line for line in messages.splitlines() if line.strip()]
    good = job.returncode == 3 and seconds <= 1 and len(errors) == 1 and errors[0].startswith("rank ") and not any(map(alive, ranks)) and leftovers() <= before
    report.true(f"kill {number}: exit code {job.returncode}, {seconds:.2f} s (bound 1)", good, messages.strip()[:400] if not good else errors[0][:120])


def run(small):
    report = Report()
    dice = random.Random(SEED)
    count = 4 if small else 20
    print(f"seed {SEED}, {count} kills")

    def action():
        with scratch() as folder:
            np.random.default_rng(SEED).integers(0, 64, 6 * 32 * 50 + 1).astype(np.uint16).tofile(f"{folder}/tokens.bin")
            with open(f"{folder}/run.yaml", "w") as file:
                file.write("data: { token: {file: tokens.bin, type: u16, window: seq}, target: {of: token, shift: 1} }\ntrain: { steps: 1000000 }\n")
            execute(meshc(), "build", f"{TOP}/specs/gpt.mesh", *sets(**GPT), "--mesh", f"data={RANKS}", "-o", f"{folder}/gpt")
            for number in range(count):
                kill_once(report, folder, number + 1, dice)

    report.attempt("kill", action)
    return report
