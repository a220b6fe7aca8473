"""Threads in a rank change no bit: shipped specs as programs, with 1 to 4 threads in each rank; who asks for too many, or for none."""
import os

import numpy as np

from checkpoints import tensors
from common import TOP, Report, json_lines, meshc, scratch, sets
from common import run as execute
from hosts import MESHRUN

STEPS, SEED = 3, 20261127
TEXT = f"data: {{ token: {{file: {TOP}/grammar/README.md, type: bytes, window: seq}}, target: {{of: token, shift: 1}} }}\n"
PICTURES = "data: { image: {file: image.npy}, label: {file: label.npy} }\n"
# Name, spec, options and ranks, at sizes at which products, attention, convolutions and loops have work for several threads.
CASES = [
    ("gpt on one rank", "gpt", ["--mesh", "data=1,model=1", *sets(batch=4, seq=64, layer=2)], 1),
    ("gpt in bf16", "gpt", [f"{TOP}/tests/emit/specs/mixed.mesh", "--precision", "mixed", "--mesh", "data=1,model=1", *sets(batch=4, seq=64, layer=2)], 1),
    ("gpt with long lines", "gpt", ["--mesh", "data=1,model=1", *sets(batch=8, seq=256, layer=1)], 1),
    ("resnet", "resnet", ["--mesh", "all=1", *sets(batch=8)], 1),
    ("gpt on two", "gpt", ["--mesh", "data=1,model=2", *sets(batch=4, seq=64, layer=2)], 2),
    ("gpt in stages", "gpt", ["--layout", "pipe", "--mesh", "data=1,pipe=2", *sets(batch=16, seq=64, layer=2)], 2),
    ("mixtral", "mixtral", ["--mesh", "data=1,model=1", *sets(batch=4, seq=64, layer=2)], 1),
]


def numbers(folder, program, ranks, threads):
    """Losses of the steps, and the bytes of every tensor after them."""
    out = os.path.join(folder, f"threads-{threads}")
    execute(MESHRUN, "-n", ranks, "--threads", threads, program, f"log.jsonl={out}.jsonl", "log.every=1", f"train.steps={STEPS}", f"checkpoint.dir={out}")
    losses = [line["loss"] for line in json_lines(f"{out}.jsonl") if "loss" in line]
    return losses, {name: x.tobytes() for name, x in tensors(f"{out}/step-{STEPS}").items()}


def check_bits(report, folder, name, spec, options, ranks, counts):
    folder = os.path.join(folder, name.replace(" ", "-"))
    os.mkdir(folder)
    run_file = os.path.join(folder, "run.yaml")
    with open(run_file, "w") as file:
        file.write(PICTURES if spec == "resnet" else TEXT)
    draw = np.random.default_rng(SEED)
    np.save(f"{folder}/image.npy", draw.integers(0, 256, (64, 28, 28)).astype(np.uint8))
    np.save(f"{folder}/label.npy", draw.integers(0, 10, 64).astype(np.int32))
    execute(meshc(), "build", f"{TOP}/specs/{spec}.mesh", *options, run_file, "-o", folder)
    with open(f"{folder}/{spec}.cpp") as file:
        text = file.read()
        for call in ["meshrt::each(", "sums.each(", "meshrt::shared_sum<"]:
            report.true(f"{name}: `{call}`, which threads share, is in the program", call in text)
    alone = numbers(folder, f"{folder}/{spec}", ranks, 1)
    report.true(f"{name}: {STEPS} losses", len(alone[0]) == STEPS, alone[0])
    for threads in counts:
        together = numbers(folder, f"{folder}/{spec}", ranks, threads)
        different = [tensor for tensor, bytes_ in alone[1].items() if together[1][tensor] != bytes_]
        report.true(f"{name}: {threads} threads a rank, the bits of one", together[0] == alone[0] and not different, different)


def check_messages(report, folder):
    program = f"{folder}/gpt-on-one-rank/gpt"
    said = execute(program, "--threads-per-rank", "999", "--dry-run").stderr
    report.true("more threads than CPUs: a warning", "warning: 999 threads in each of 1 rank are more than" in said, said)
    cpus = len(os.sched_getaffinity(0))
    said = execute(program, "--threads-per-rank", cpus, "--dry-run").stderr
    report.true("as many threads as CPUs: each keeps to one, and there are as many as before", cpus == 1 or "than the 1 CPU of" not in said, said)
    said = execute(program, "--threads-per-rank", "0", code=2).stderr
    report.true("no thread: wrong usage", "--threads-per-rank must be a number of threads, not `0`" in said, said)
    said = execute(program, "--dry-run", env={"MESHRT_THREADS": "two"}, code=2).stderr
    report.true("MESHRT_THREADS that is no number: wrong usage", "from 1 to 1024, not `two`" in said, said)


def run(small):
    report = Report()
    print(f"seed {SEED}")
    with scratch() as folder:
        for name, spec, options, ranks in CASES[:2] if small else CASES:
            report.attempt(name, lambda: check_bits(report, folder, name, spec, options, ranks, [2, 3] if small else [2, 3, 4, 7]))
        report.attempt("messages", lambda: check_messages(report, folder))
    return report
