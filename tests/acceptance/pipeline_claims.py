"""What is claimed of pipelines in numbers: the largest models that `plan` says fit (GPipe, arXiv 1811.06965, table 1), the time in which it says so, the memory of a rank as
it was planned, makespans as they are simulated, and gradients of the models by which other implementations test theirs."""
import json
import os
import re
import resource
import shutil

import numpy as np

from common import TOP, meshc, sets, unfilled
from common import run as execute

TRANSFORMER = f"{TOP}/tests/acceptance/pipelines/transformer.mesh"
GIB = 1 << 30


def planned(*arguments):
    return json.loads(execute(meshc(), "plan", *arguments, "--json").stdout)


def most_layers(layout, stages, memory, spec=TRANSFORMER):
    """The most layers of a spec with which each rank has room."""
    def fits(layers):
        return planned(spec, "--layout", layout, "--mesh", f"pipe={stages}", *sets(layer=layers))["memory"]["peak"] <= memory
    some, too_many = 0, stages
    while fits(too_many):
        some, too_many = too_many, 2 * too_many
    while too_many - some > 1:
        middle = (some + too_many) // 2
        some, too_many = (middle, too_many) if fits(middle) else (some, middle)
    return some


def check_largest_models(report, small):
    """The Transformer of the table in 16 GiB a rank, with 12 bytes a parameter: without recomputation 3 layers on one device, with it 13, and nearly as many on each of more devices."""
    alone = most_layers("naive", 1, 16 * GIB)
    report.check("layers on one rank without recomputation, as in the table", alone, 3, alone == 3)
    again = most_layers("stages", 1, 16 * GIB)
    report.check("layers on one rank with recomputation, at least as in the table", again, "at least 13", again >= 13)
    for stages in (8,) if small else (8, 32, 128):
        layers = most_layers("stages", stages, 16 * GIB)
        share = layers / stages / again
        report.check(f"layers on {stages} ranks with recomputation, {layers}: of those on one rank, a rank has", round(share, 3), "at least 1", share >= 1)


def check_time_to_plan(report):
    """96 layers on 16 x 16 x 8 ranks, in seconds of a processor."""
    size = dict(layer=96, embed=12288, heads=96, head_dim=128, seq=2048, batch=1536, vocab=51200)
    command = [meshc(), "plan", f"{TOP}/specs/gpt.mesh", f"{TOP}/tests/acceptance/pipelines/large.mesh", "--layout", "large", *sets(**size)]
    seconds = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        text = execute(*command).stdout
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    report.true("it is the plan of 2048 ranks and 8 stages", "2048 ranks" in text and "8 stages" in text, text[:200])
    report.check("gpt of 96 layers on 2048 ranks: seconds to plan, the least of 5", round(min(seconds), 2), 1)


def check_memory(report, folder):
    """What a rank measures of its memory is what was planned, to 5 %, where the runtime's own does not count."""
    size = dict(batch=32, seq=256, embed=256, heads=8, head_dim=32, layer=8, vocab=256)
    np.random.default_rng(7).integers(0, 256, 32 * 256 * 4 + 1).astype(np.uint16).tofile(f"{folder}/many.bin")
    with open(f"{folder}/many.yaml", "w") as file:
        file.write("data: { token: {file: many.bin, type: u16, window: seq}, target: {of: token, shift: 1} }\ntrain: { steps: 3 }\n")
    for rule in ('schedule: "1f1b"', 'schedule: "gpipe", remat: "stage"', 'schedule: "zb_h1"', "chunks: 2"):
        with open(f"{folder}/memory.mesh", "w") as file:
            file.write(f"mesh four {{ pipe: 4 }}\nlayout memory on four {{ layer -> pipe {{ microbatches: 8, {rule} }} }}\n")
        execute(meshc(), "run", f"{TOP}/specs/gpt.mesh", f"{folder}/memory.mesh", f"{folder}/many.yaml", "--layout", "memory", *sets(**size), "--run-dir", f"{folder}/memory",
                env={"MESHRT_RUNS": "", **unfilled}, cwd=folder)
        with open(f"{folder}/memory/summary.json") as file:
            summary = json.load(file)
        plan, measured = (summary[kind]["memory_bytes"] for kind in ("predicted", "measured"))
        report.check(f"{rule}: memory of a rank, {measured} measured, {plan} planned: relative difference", round(abs(measured / plan - 1), 4), 0.05)
        shutil.rmtree(f"{folder}/memory")


def check_memory_of_stages(report, folder, small):
    """Stages that have a large table and stages that have not: each rank has what was planned for it, to 5 %, and those between the ends nothing of the table."""
    size = dict(batch=8, seq=16, embed=512, heads=8, head_dim=64, layer=12, vocab=16384)
    table = 4 * size["vocab"] * size["embed"]
    np.random.default_rng(7).integers(0, size["vocab"], 8 * 16 * 3 + 1).astype(np.uint16).tofile(f"{folder}/few.bin")
    with open(f"{folder}/few.yaml", "w") as file:
        file.write("data: { token: {file: few.bin, type: u16, window: seq}, target: {of: token, shift: 1} }\ntrain: { steps: 2 }\n")
    for cut in ("(3, 3, 3, 3)",) if small else ("(3, 3, 3, 3)", "(2, 3, 6, 1)"):
        with open(f"{folder}/stages.mesh", "w") as file:
            file.write(f"mesh four {{ pipe: 4 }}\nlayout stages on four {{ layer -> pipe {{ microbatches: 4, cut: {cut} }} }}\n")
        spec = [f"{TOP}/specs/gpt.mesh", f"{folder}/stages.mesh", "--layout", "stages", *sets(**size)]
        memory = planned(*spec)["memory"]
        ranks = [rank["bytes"] for rank in memory["ranks"]]
        report.true(f"{cut}: memory is planned for each stage", [rank["at"] for rank in memory["ranks"]] == [{"pipe": i} for i in range(4)] and max(ranks) == memory["peak"], memory)
        if cut == "(3, 3, 3, 3)":  # of the ends each has the table, its moments and its gradient, nothing of them twice
            report.check(f"{cut}: an end has more than its neighbour, in tables", round(max(ranks[0] - ranks[1], ranks[3] - ranks[2]) / table, 2), 4.5)
            pages = 4 * 2 * 2**21  # those at both ends of where each of the four lies are whole
            report.true(f"{cut}: as much as four tables", min(ranks[0] - ranks[1], ranks[3] - ranks[2]) >= 4 * table - pages, ranks)
        execute(meshc(), "build", *spec, f"{folder}/few.yaml", "-o", f"{folder}/stages")
        for transport in ("arena",) if small else ("arena", "ucx"):
            execute(f"{folder}/stages/gpt", "-n", 4, f"{folder}/few.yaml", "--run-dir", f"{folder}/stages-run", env={**unfilled, **({"MESHRT_TRANSPORT": transport} if transport == "ucx" else {})}, cwd=folder)
            with open(f"{folder}/stages-run/summary.json") as file:
                measured = json.load(file)["measured"]["memory_bytes_of_ranks"]
            for rank, (plan, found) in enumerate(zip(ranks, measured)):
                report.check(f"{cut}, {transport}: memory of stage {rank}, {found} measured, {plan} planned: relative difference", round(abs(found / plan - 1), 4), 0.05)
            shutil.rmtree(f"{folder}/stages-run")


# Schedule, chunks, remat.
SLEEPING = [("gpipe", 1, "none"), ("1f1b", 1, "none"), ("eager_1f1b", 1, "none"), ("interleaved", 2, "none"), ("looped_bfs", 2, "none"), ("circular", 2, "none"),
            ("zb_h1", 1, "none"), ("zb_h2", 1, "none"), ("zb_v", 2, "none"), ("gpipe", 1, "stage"), ("1f1b", 1, "stage"), ("1f1b", 1, "except_last"), ("zb_h1", 1, "stage")]


def slept(schedule, chunks, remat, ranks, milliseconds=60, times=3):
    """Seconds of a step whose ranks sleep where they would compute, the least of some runs, and of the simulation; two micro-batches a rank."""
    build = os.path.dirname(os.path.dirname(os.path.dirname(meshc())))
    best = None
    for _ in range(times):
        said = json.loads(execute(f"{build}/runtime/meshrun", "-n", ranks, f"{build}/tests/schedule/sleeping_ranks", schedule, 2 * ranks, chunks, remat, milliseconds).stdout)
        if best is None or said["measured"] < best["measured"]:
            best = said
        if best["measured"] < 1.02 * best["simulated"]:
            break
    return best["measured"], best["simulated"]


def check_makespans(report):
    """Ranks that are processes, with messages over the arena."""
    for ranks in (4, 8):
        for schedule, chunks, remat in SLEEPING:
            measured, simulated = slept(schedule, chunks, remat, ranks)
            report.check(f"{schedule}, remat {remat}, {ranks} ranks that sleep: {measured:.3f} s against {simulated:.3f} s simulated, relative", round(abs(measured / simulated - 1), 3), 0.05)


# A model, its sizes, and the rules by which its loop becomes a pipeline.
MODELS = {
    "perceptron of 8 layers of 512, sums of squares": ("""dim batch = 256, embed = 512, out = embed, layer = 8
model Perceptron {
  input x, y : real[batch, embed]
  h = x
  repeat layer {
    param w : real[embed, out] = fan_in[embed]
    param b : real[out] = zeros
    h = relu(dot[embed](h, w) + b)[out as embed]
  }
  loss = sum[batch, embed]((h - y) ^ 2)
  minimize loss with sgd(lr: 1e-6)
}
""", [f'microbatches: {m}, schedule: "{s}"' for s in ("gpipe", "1f1b", "interleaved", "looped_bfs", "zb_h1", "zb_v") for m in (4, 8)]),
    "100 dropouts, computed again": ("""dim batch = 20, embed = 16, layer = 100
model Masks {
  input x : real[batch, embed]
  h = x
  repeat layer {
    param gain : real[embed] = ones
    h = dropout(h * gain, rate: 0.02)
  }
  loss = mean[batch, embed](h ^ 2)
  minimize loss with sgd(lr: 1e-2)
}
""", ['microbatches: 10, schedule: "gpipe", remat: "stage"', 'microbatches: 10, schedule: "1f1b", remat: "except_last"']),
    "a mean of unequal weights": ("""dim batch = 24, embed = 6, out = embed, class = 5, layer = 4
model Valid {
  input x : real[batch, embed]
  input label : index(class)[batch]
  param head : real[embed, class] = fan_in[embed]
  h = x
  repeat layer {
    param w : real[embed, out] = fan_in[embed]
    h = h + tanh(dot[embed](h, w))[out as embed]
  }
  loss = mean[batch](cross_entropy[class](dot[embed](h, head), label), where: label != 0)
  minimize loss with sgd(lr: 1e-2)
}
""", ['microbatches: 8, schedule: "1f1b"', 'microbatches: 4, schedule: "zb_v"'])}


def check_models(report, folder, small):
    """All values and gradients on two stages are those of one rank, in f64."""
    for name, (model, rules) in MODELS.items():
        for rule in rules[:1] if small else rules:
            with open(f"{folder}/model.mesh", "w") as file:
                file.write(f"{model}mesh line {{ pipe: 2 }}\nlayout default on line {{ layer -> pipe {{ {rule} }} }}\n")
            said = execute(meshc(), "verify", f"{folder}/model.mesh", "--precision", "f64", "--bound", "1e-9").stdout
            report.true(f"{name}, {rule}", re.search(r"all \d+ values are equal", said), "" if "are equal" in said else said[-300:])
