"""Pipelines of gpt and translate: cells of a grid of schedules, remats and meshes. All values and gradients of a step are those of one rank; emitted programs have one rank's losses,
with dropout, tied tables and clipped gradients, as threads, over the arena and over UCX, bit by bit."""
import itertools
import os
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from common import TOP, json_lines, meshc, sets
from common import run as execute

SEED = 20261124
SCHEDULES = ["gpipe", "1f1b", "eager_1f1b", "interleaved", "looped_bfs", "circular", "zb_h1", "zb_h2", "zb_v", SPLIT := "1f1b, split"]
IN_CHUNKS = ["interleaved", "looped_bfs", "circular", "zb_v"]
GROUPS = '"every 2"'  # of single loops and stages
REMATS = ['"none"', '"layer"', '"stage"', '"except_last"', "{values}", GROUPS]
# A model, sizes that leave each stage a turn, the rules of its layout besides the pipeline, and blocks that may be computed again.
GRID = [("gpt", dict(batch=8, seq=6, embed=8, heads=2, head_dim=4, ffn=12, vocab=16, layer=8), "batch -> data; heads, ffn, vocab -> model", "layer", "(layer.attn, layer.feed)"),
        ("translate", dict(batch=8, source=6, target=7, embed=8, heads=2, head_dim=4, vocab=16, enc=4, dec=4), "batch -> data; heads, ffn, vocab -> model", "enc, dec", "(enc.feed, dec.cross)")]


def shuffled(seed):
    """Every schedule with every remat, on every mesh of up to 8 ranks with up to 4 stages."""
    cells = [(spec, size, rules, loops, schedule, remat.format(values=values), mesh) for spec, size, rules, loops, values in GRID for schedule in SCHEDULES for remat in REMATS
             for mesh in itertools.product((1, 2, 4), (1, 2), (1, 2)) if np.prod(mesh) <= 8 and not (remat == GROUPS and ("," in loops or schedule in IN_CHUNKS))]
    np.random.default_rng(seed).shuffle(cells)
    return cells


def name_of(cell):
    spec, _, _, _, schedule, remat, (pipe, data, model) = cell
    return f"{spec}, {schedule}, remat {remat}, pipe {pipe} x data {data} x model {model}"


def asked(folder, cell, name="grid"):
    """What meshc is told of a cell, after a command; its layout is written to `name`.mesh."""
    spec, size, rules, loops, schedule, remat, (pipe, data, model) = cell
    order = '"1f1b", backward: "split"' if schedule == SPLIT else f'"{schedule}"'
    with open(f"{folder}/{name}.mesh", "w") as file:
        file.write(f"mesh grid {{ pipe: {pipe}, data: {data}, model: {model} }}\n"
                   f'layout cell on grid {{ {rules}; {loops} -> pipe {{ microbatches: 4, schedule: {order}, remat: {remat} }} }}\n')
    return [f"{TOP}/specs/{spec}.mesh", f"{folder}/{name}.mesh", "--layout", "cell", "-A", "idle_ranks", *sets(**size)]


def check_grid(report, folder, every):
    """All values and gradients of a step are those of one rank, in f64."""
    cells = shuffled(SEED)
    chosen = cells[::every]
    print(f"{len(chosen)} of {len(cells)} cells", flush=True)

    def verify(number):
        return execute(meshc(), "verify", *asked(folder, chosen[number], f"grid{number}"), "--precision", "f64", "--bound", "1e-9").stdout

    with ThreadPoolExecutor(2) as pool:
        for cell, said in zip(chosen, pool.map(verify, range(len(chosen))), strict=True):
            good = re.search(r"all \d+ values are equal", said)
            report.true(name_of(cell), good, "" if good else said[-300:])


# ---- emitted

STEPS = 20
BOUNDS = {"f64": 1e-9, "f32": 1e-5}
TRANSPORTS = {"threads": (["--threads"], {}), "arena": ([], {}), "UCX": ([], {"MESHRT_TRANSPORT": "ucx"})}
DATA = {"gpt": "{ token: {file: tokens.bin, type: u16, window: seq}, target: {of: token, shift: 1} }",
        "translate": "{ src: {file: src.npy}, tgt: {file: tgt.npy}, label: {file: label.npy} }"}


def write_data(folder):
    """Tokens, and pairs of sentences whose ends are padded."""
    random = np.random.default_rng(SEED)
    random.integers(0, 16, 8 * 6 * (STEPS + 2)).astype(np.uint16).tofile(f"{folder}/tokens.bin")
    samples, sizes = 8 * STEPS, GRID[1][1]
    for name, length in (("src", sizes["source"]), ("label", sizes["target"])):
        words = random.integers(3, 16, (samples, length))
        words[np.arange(length) >= random.integers(2, length + 1, (samples, 1))] = 0
        np.save(f"{folder}/{name}.npy", words.astype(np.int32))
    np.save(f"{folder}/tgt.npy", np.concatenate([np.ones((samples, 1), np.int32), np.load(f"{folder}/label.npy")[:, :-1]], 1))
    for spec, data in DATA.items():
        with open(f"{folder}/{spec}.yaml", "w") as file:
            file.write(f"data: {data}\ntrain: {{ steps: {STEPS} }}\nlog: {{ every: 1, watch: [grad_norm] }}\n")


def trained(folder, program, cell, transport):
    """Loss and gradients' norm of each step."""
    log, (options, environment) = f"{folder}/cell.jsonl", TRANSPORTS[transport]
    if os.path.exists(log):
        os.remove(log)
    execute(program, "-n", np.prod(cell[-1]), f"{folder}/{cell[0]}.yaml", f"log.jsonl={log}", *options, env=environment)
    return [(line["loss"], line["watch"]["grad_norm"]) for line in json_lines(log) if "step" in line]


def check_emitted(report, folder, count, on_all):
    """Losses and norms of 20 steps against one rank's of the same spec: in f64, every third cell in f32. The first `on_all` on all transports."""
    folder = f"{folder}/cells"
    os.mkdir(folder)
    write_data(folder)
    alone = {}

    def built(cell, precision, name):
        execute(meshc(), "build", *asked(folder, cell), f"{folder}/{cell[0]}.yaml", "--precision", precision, "-A", "oversubscribed", "-o", f"{folder}/{name}")
        return f"{folder}/{name}/{cell[0]}"

    def of_one_rank(cell, precision):
        key = cell[0], precision
        if key not in alone:
            one = (*cell[:4], "gpipe", '"none"', (1, 1, 1))
            alone[key] = trained(folder, built(one, precision, "-".join(key)), one, "threads")
        return alone[key]

    cells = shuffled(SEED + 1)
    print(f"{count} of {len(cells)} cells emitted, {on_all} on all transports", flush=True)
    for number, cell in enumerate(cells[:count]):
        precision = "f32" if number % 3 == 2 else "f64"
        wanted, program = of_one_rank(cell, precision), built(cell, precision, f"cell{number}")
        logs = {transport: trained(folder, program, cell, transport) for transport in (TRANSPORTS if number < on_all else ("threads",))}
        report.true(f"{name_of(cell)}: every transport gives the same bits", all(log == logs["threads"] for log in logs.values()))
        apart = np.max(np.abs(np.array(logs["threads"]) - wanted) / np.maximum(np.abs(wanted), 1e-3)) if len(wanted) == len(logs["threads"]) == STEPS else np.inf
        report.check(f"{name_of(cell)}, {precision}: losses and norms of {STEPS} steps against one rank, relative", float(f"{apart:.1e}"), BOUNDS[precision])
