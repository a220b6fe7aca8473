"""The emitted programs as threads, as processes over the arena and as processes over UCX: the same loss at every step, bit by bit; and one rank's
curve in f64."""
import os

import numpy as np

from common import TOP, Report, json_lines, meshc, scratch, sets
from common import run as execute

SEED = 20261120
GPT = dict(batch=4, seq=16, embed=32, heads=4, head_dim=8, layer=2, vocab=64)


def losses(folder, name, program, ranks, steps, options=(), env=None):
    log = os.path.join(folder, f"{name}.jsonl")
    execute(program, "-n", ranks, f"{folder}/run.yaml", f"train.steps={steps}", f"log.jsonl={log}", "log.every=1", *options, env=env, timeout=300)
    return [line["loss"] for line in json_lines(log) if "loss" in line]


def run(small):
    report = Report()
    steps = 5 if small else 30
    print(f"seed {SEED}")

    def action():
        with scratch() as folder:
            tokens = np.random.default_rng(SEED).integers(0, GPT["vocab"], 4 * 16 * 40 + 1).astype(np.uint16)
            tokens.tofile(os.path.join(folder, "tokens.bin"))
            with open(os.path.join(folder, "run.yaml"), "w") as file:
                file.write("data: { token: {file: tokens.bin, type: u16, window: seq}, target: {of: token, shift: 1} }\n")
            more = os.path.join(folder, "layouts.mesh")
            with open(more, "w") as file:
                file.write("mesh single { only: 1 }\nlayout one on single { }\n"
                           "mesh ring { ctx: 4 }\nlayout zigzag on ring { seq -> ctx { owns: \"zigzag\" } }\n"
                           "mesh turns { pipe: 2, data: 2 }\nlayout owners on turns { batch -> data; layer -> pipe; optimizer { layer -> pipe * data } }\n"
                           "mesh trio { data: 3 }\nlayout moments on trio { batch -> data; optimizer { embed -> data } }\n")
            for name, layout in (("one", ["--layout", "one"]), ("two", ["--mesh", "data=2"]), ("four", ["--mesh", "data=2,model=2"]), ("zigzag", ["--layout", "zigzag"]), ("ring", ["--layout", "ring"]), ("owners", ["--layout", "owners"]), ("moments", ["--layout", "moments"])):
                execute(meshc(), "build", f"{TOP}/specs/gpt.mesh", more, *layout, *sets(**GPT), "--precision", "f64", "-o", os.path.join(folder, name))
            one = losses(folder, "one", f"{folder}/one/gpt", 1, steps)
            report.true("every step has its loss", len(one) == steps, len(one))
            for name, ranks in (("two", 2), ("four", 4), ("zigzag", 4), ("ring", 4), ("owners", 4), ("moments", 3)):
                program = f"{folder}/{name}/gpt"
                threads = losses(folder, f"{name}-threads", program, ranks, steps, ["--threads"])
                arena = losses(folder, f"{name}-arena", program, ranks, steps)
                ucx = losses(folder, f"{name}-ucx", program, ranks, steps, env={"MESHRT_TRANSPORT": "ucx"})
                report.true(f"{name}: threads and processes over the arena give the same bits", threads == arena)
                report.true(f"{name}: threads and processes over UCX give the same bits", threads == ucx)
                apart = max(abs(a - b) / abs(a) for a, b in zip(one, threads))
                report.check(f"{name}: loss of {steps} steps against one rank, relative", float(f"{apart:.2e}"), 1e-9)

            with open(f"{folder}/moments/gpt.cpp") as file:
                report.true("moments: updated and gathered in one pass", "meshrt::OnePass" in file.read())
            for name, env in (("MESHRT_NO=one-pass", {"MESHRT_NO": "one-pass"}), ("three threads a rank", {"MESHRT_THREADS": "3"})):
                found = losses(folder, "moments-other", f"{folder}/moments/gpt", 3, steps, env=env)
                report.true(f"moments: {name}: the same bits", len(found) == steps and found == losses(folder, "moments-arena", f"{folder}/moments/gpt", 3, steps))
            done = execute(f"{folder}/one/gpt", f"{folder}/run.yaml", "train.steps=1", env={"MESHRT_NO": "tcp,overlapped"}, code=2)
            report.true("MESHRT_NO with a word that switches off nothing", "MESHRT_NO names `overlapped`; there is `overlap`, `one-pass`, `progress`, `tcp`" in done.stderr, done.stderr)

    report.attempt("transports", action)
    return report
