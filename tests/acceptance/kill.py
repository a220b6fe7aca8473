"""A rank of a training gpt dies at a random moment, by SIGKILL or by exit(1), over the arena and over UCX: the job ends within a second with one
message that names the rank and exit code 3, and leaves no process, memory object, socket or file."""
import os
import random
import signal
import time

import numpy as np

from common import TOP, Report, meshc, scratch, sets
from common import run as execute
from processes import alive, children, ended, leftovers, own_memory, rank_of, started, status, wait_until

SEED = 20261120
RANKS = 3
GPT = dict(batch=6, seq=32, embed=64, heads=4, head_dim=16, layer=2, vocab=64)
# How a rank dies: the signal that it is sent, and what must be said of it.
DEATHS = {"kill -9": (signal.SIGKILL, "was killed by signal 9"), "exit(1)": (signal.SIGUSR1, "exited with code 1")}  # see exit_on_signal.cpp


def can_exit(pid):
    """Whether the preloaded thread waits for its signal (a rank that is only forked has the launcher's mask, and one thread)."""
    lines = status(pid)
    return int(lines.get("Threads", 0)) > 1 and int(lines["SigBlk"], 16) >> (signal.SIGUSR1 - 1) & 1


def kill_once(report, folder, name, death, transport, dice):
    before = leftovers()
    environment = {**os.environ, "MESHRT_TRANSPORT": transport, "LD_PRELOAD": f"{folder}/exit_on_signal.so"}
    number, words = DEATHS[death]
    with started(f"{folder}/gpt/gpt", "-n", RANKS, f"{folder}/run.yaml", env=environment) as job:
        wait_until(lambda: len(children(job.pid)) == RANKS and all(map(can_exit, children(job.pid))))
        ranks = children(job.pid)
        time.sleep(dice.uniform(0.0, 1.0))
        victim = dice.choice(ranks)
        rank = rank_of(victim)
        os.kill(victim, number)
        end = ended(job, 20)
    if not end:
        report.true(name, False, "the job hangs")
        return
    messages, seconds = end
    errors = [line for line in messages.splitlines() if line.strip()]
    named = len(errors) == 1 and errors[0].startswith(f"rank {rank} ") and words in errors[0]
    good = job.returncode == 3 and seconds <= 1 and named and not any(map(alive, ranks)) and leftovers() <= before
    report.true(f"{name}: exit code {job.returncode}, {seconds:.2f} s (bound 1)", good, errors[0][:120] if good else f"{messages.strip()[:400]} {leftovers() - before}")


def run(small):
    report = Report()
    own_memory()
    dice = random.Random(SEED)
    count = 4 if small else 20
    print(f"seed {SEED}, {count} deaths of each kind: {', '.join(DEATHS)}")

    def action():
        with scratch() as folder:
            np.random.default_rng(SEED).integers(0, 64, 6 * 32 * 50 + 1).astype(np.uint16).tofile(f"{folder}/tokens.bin")
            with open(f"{folder}/run.yaml", "w") as file:
                file.write("data: { token: {file: tokens.bin, type: u16, window: seq}, target: {of: token, shift: 1} }\ntrain: { steps: 1000000 }\n")
            execute("c++", "-std=c++20", "-shared", "-fPIC", f"{TOP}/tests/acceptance/exit_on_signal.cpp", "-o", f"{folder}/exit_on_signal.so")
            execute(meshc(), "build", f"{TOP}/specs/gpt.mesh", *sets(**GPT), "--mesh", f"data={RANKS}", "-o", f"{folder}/gpt")
            for number in range(count):
                for death in DEATHS:
                    transport = ("arena", "ucx")[number % 2]
                    kill_once(report, folder, f"{death} {number + 1}, {transport}", death, transport, dice)

    report.attempt("kill", action)
    return report
