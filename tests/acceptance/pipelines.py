"""Emitted pipelines: one to four stages a rank or several, with data and model parallelism, six schedules: the same loss as threads, over the arena and over UCX, bit by bit, and
one rank's curve and parameters; cells of a grid of schedules and remats (pipeline_cells.py); what is read at both ends (pipeline_around.py); checkpoints of four stages on fewer; a rank that is killed or stopped at an action of its row; and
what is claimed in numbers (pipeline_claims.py)."""
import json
import os
import re
import signal
import subprocess
import time

import numpy as np

from checkpoints import same
import pipeline_around as around
import pipeline_cells as cells
import pipeline_claims as claims
from common import TOP, Report, json_lines, meshc, scratch, sets
from common import run as execute
from processes import leftovers, own_memory

SEED = 20261124
SPEC = f"{TOP}/tests/emit/specs/pipelined.mesh"
SIZES = dict(batch=24, seq=3, vocab=7, layer=5)
# Layout, its mesh, ranks.
LAYOUTS = [("turns", "pipe=1", 1), ("turns", "pipe=2", 2), ("fill", "pipe=3", 3), ("eager", "pipe=4", 4), ("turns", "pipe=4", 4),
           ("again", "pipe=2", 2), ("last", "pipe=3", 3), ("halves", "pipe=2", 2), ("chunks", "pipe=2", 2), ("inter", "pipe=2", 2), ("half", "pipe=3", 3), ("vee", "pipe=2", 2), ("mixed", "pipe=2,data=2,model=2", 8),
           ("both", "pipe=2,data=2,model=2", 8), ("both", "pipe=2,data=1,model=3", 6), ("both", "pipe=4,data=2", 8), ("both", "pipe=1,data=2,model=2", 4),
           ("ends", "pipe=4", 4), ("ends", "pipe=3", 3), ("values", "pipe=2", 2)]
TRANSPORTS = {"threads": (["--threads"], {}), "arena": ([], {}), "UCX": ([], {"MESHRT_TRANSPORT": "ucx"})}
# Small, for a death at every action.
SMALL = dict(batch=2, seq=2, layer=2)
FEW = 'layout few on line { layer -> pipe { microbatches: 2, schedule: "1f1b" } }\n'
# Stages that are computed again, all but the last micro-batch or all, with weights' gradients apart and several stages a rank too.
AGAIN = """layout again on line { layer -> pipe { microbatches: 6, schedule: "gpipe", remat: "stage" } }
layout last on line { layer -> pipe { microbatches: 6, schedule: "1f1b", remat: "except_last" } }
layout halves on line { layer -> pipe { microbatches: 6, schedule: "zb_v", remat: "except_last" } }
layout chunks on line { layer -> pipe { microbatches: 6, schedule: "interleaved", remat: "stage" } }
layout values on line { layer -> pipe { microbatches: 6, remat: (layer.h), buffers: 1 } }
"""


class Bench:
    def __init__(self, folder):
        self.folder = folder
        tokens = np.random.default_rng(SEED).integers(0, SIZES["vocab"], 24 * 3 * 20 + 1).astype(np.uint16)
        tokens.tofile(f"{folder}/tokens.bin")
        with open(f"{folder}/run.yaml", "w") as file:
            file.write("data:\n  token: {file: tokens.bin, type: u16, window: seq}\n  next: {of: token, shift: 1}\n"
                       "validation:\n  token: {file: tokens.bin, type: u16, window: seq}\n  next: {of: token, shift: 1}\n  every: 4\n  steps: 2\n"
                       "log: { every: 1, watch: [grad_norm] }\n")
        with open(f"{folder}/few.mesh", "w") as file:
            file.write(FEW + AGAIN)
        self.programs = {}

    def program(self, layout, mesh, options=()):
        """The built program of a layout on a mesh."""
        key = (layout, mesh, *options)
        if key not in self.programs:
            out = f"{self.folder}/{layout}-{len(self.programs)}"
            execute(meshc(), "build", SPEC, f"{self.folder}/few.mesh", f"{self.folder}/run.yaml", "--layout", layout, "--mesh", mesh, "--precision", "f64", *options, "-o", out)
            self.programs[key] = f"{out}/pipelined"
        return self.programs[key]

    def train(self, program, ranks, name, steps, *keys, transport="arena"):
        """Losses, norms and validations of a run: its log by step."""
        options, env = TRANSPORTS[transport]
        log = f"{self.folder}/{name}.jsonl"
        execute(program, "-n", ranks, f"{self.folder}/run.yaml", f"train.steps={steps}", f"log.jsonl={log}", *options, *keys, env=env)
        return [numbers_of(line) for line in json_lines(log) if "step" in line]


def numbers_of(line):
    """What a line of a log says of the model, by name."""
    found = {key: line[key] for key in ("step", "loss", "right") if key in line}
    for group in ("watch", "validation"):
        found |= {f"{group}.{key}": value for key, value in line.get(group, {}).items()}
    return found


def largest_difference(first, second):
    """Of two logs, relative; of what is not alike infinite."""
    apart = 0.0
    for a, b in zip(first, second):
        if a.keys() != b.keys():
            return float("inf")
        apart = max([apart, *(abs(a[key] - b[key]) / max(abs(a[key]), 1e-3) for key in a)])
    return apart if first and len(first) == len(second) else float("inf")


def check_layouts(report, bench, steps, layouts):
    one = bench.train(bench.program("turns", "pipe=1"), 1, "one", steps)
    report.true("one rank has its losses, norms and validations", sum("watch.grad_norm" in line for line in one) == steps and sum("validation.loss" in line for line in one) == 2, one[-2:])
    for layout, mesh, ranks in layouts:
        program = bench.program(layout, mesh)
        logs = {name: bench.train(program, ranks, f"{layout}-{ranks}-{name}", steps, transport=name) for name in TRANSPORTS}
        for name in ("arena", "UCX"):
            report.true(f"{layout} on {mesh}: {name} gives the bits of threads", logs[name] == logs["threads"])
        report.check(f"{layout} on {mesh}: everything in the log of {steps} steps against one rank, relative", float(f"{largest_difference(one, logs['threads']):.1e}"), 1e-9)


def check_checkpoints(report, bench):
    """Saved under four stages, loaded under fewer."""
    four = bench.program("turns", "pipe=4")
    whole = bench.train(four, 4, "whole", 8, "checkpoint.dir=" + f"{bench.folder}/whole")
    bench.train(four, 4, "first", 4, f"checkpoint.dir={bench.folder}/first")
    for layout, mesh, ranks in (("turns", "pipe=1", 1), ("turns", "pipe=2", 2), ("turns", "pipe=3", 3), ("turns", "pipe=4", 4), ("both", "pipe=2,data=2", 4)):
        program = bench.program(layout, mesh)
        bench.train(program, ranks, f"loaded-{layout}-{ranks}", 4, f"checkpoint.resume={bench.folder}/first", f"checkpoint.dir={bench.folder}/loaded-{layout}-{ranks}")
        report.true(f"step 4 of 4 stages loaded by {ranks} ranks ({mesh}) and written again: the same bits", same(f"{bench.folder}/first/step-4", f"{bench.folder}/loaded-{layout}-{ranks}/step-4"))
        rest = bench.train(program, ranks, f"on-{layout}-{ranks}", 8, f"checkpoint.resume={bench.folder}/first", f"checkpoint.dir={bench.folder}/on-{layout}-{ranks}")
        apart = largest_difference([line for line in whole if line["step"] > 4], [line for line in rest if line["step"] > 4])
        report.check(f"steps 5 to 8 on {mesh} against the uninterrupted run, relative", float(f"{apart:.1e}"), 1e-9)


def check_tied(report, folder):
    """A table that several of four stages read: held by these, its gradients added up by these, once."""
    for spec, size, table, pipe, among in (("gpt", dict(layer=4), "wte", 4, [0, 3]), ("gpt", dict(layer=4), "wte", 2, None), ("translate", {}, "table", 4, [0, 2, 3])):
        for data in (1, 2):
            with open(f"{folder}/tied.mesh", "w") as file:
                file.write(f"mesh tied {{ data: {data}, pipe: {pipe} }}\nlayout tied on tied {{ batch -> data; {'layer' if spec == 'gpt' else 'enc, dec'} -> pipe {{ microbatches: 4 }} }}\n")
            plan = json.loads(execute(meshc(), "plan", f"{TOP}/specs/{spec}.mesh", f"{folder}/tied.mesh", "--layout", "tied", "--json", *sets(**size)).stdout)
            name, members = f"{spec}, {pipe} stages x {data}", data * (len(among) if among else pipe)
            held = {tensor["name"]: tensor for tensor in plan["tensors"] if tensor["name"] in (table, f"{table}.moment1", f"{table}.moment2")}
            report.true(f"{name}: who holds the table and its moments", len(held) == 3 and all(one.get("at") == (among and {"pipe": among}) for one in held.values()), [one.get("at") for one in held.values()])
            sums = [one for one in plan["collectives"] if one["tensor"] == f"d_{table}" and one["kind"] != "term"]
            bytes_ = held[table]["bytes"]
            report.true(f"{name}: one all-reduce of its gradients", [(one["kind"], one["group_size"], one["bytes"]) for one in sums] == [("all_reduce", members, 2 * (members - 1) * bytes_ // members)], sums)
            stages = plan["pipeline"]["stages"]
            if among and len({stage["turns"] for stage in stages}) == 1:  # parameter, moments, sum of gradients
                between = [stage["held_bytes"] for i, stage in enumerate(stages) if i not in among]
                report.true(f"{name}: stages between hold none of it", all(one <= stages[0]["held_bytes"] - 4 * bytes_ for one in between), [stage["held_bytes"] for stage in stages])


# Every turn of the first loop reads `mix`, and nothing else does.
SHARED = """dim batch = 16, embed = 8, out = embed, enc = 4, dec = 4
model Shared {
  input x, y : real[batch, embed]
  param mix : real[embed, out] = fan_in[embed]
  h = x
  repeat enc {
    param w : real[embed, out] = fan_in[embed]
    h = h + tanh(dot[embed](dot[embed](h, w)[out as embed], mix)[out as embed])
  }
  g = h
  repeat dec {
    param v : real[embed, out] = fan_in[embed]
    g = g + tanh(dot[embed](g, v)[out as embed])
  }
  loss = mean[batch, embed]((g - y) ^ 2)
  minimize loss with adamw(lr: 1e-2, clip: 0.1)
}
mesh line { data: 1, pipe: 4 }
layout default on line { batch -> data; enc, dec -> pipe { microbatches: 4 } }
layout zero on line { batch -> data; enc, dec -> pipe { microbatches: 4, schedule: "zb_h1" } }
layout again on line { batch -> data; enc, dec -> pipe { microbatches: 4, schedule: "gpipe", remat: "stage" } }
layout uneven on line { batch -> data; enc, dec -> pipe { microbatches: 4, cut: (1, 4, 2, 1) } }
"""


def check_shared_by_turns(report, folder, small):
    """A parameter that the turns of one of two loops share: held by the stages that have turns of it, its gradients added up by these, its norm counted once."""
    spec = f"{folder}/shared.mesh"
    with open(spec, "w") as file:
        file.write(SHARED)
    for layout, among in (("default", [0, 1]), ("zero", [0, 1]), ("again", [0, 1]), ("uneven", [0, 1])):
        for data in (1, 2):
            name, options = f"layout {layout}, {data} x 4", ("--layout", layout, "--mesh", f"data={data},pipe=4")
            plan = json.loads(execute(meshc(), "plan", spec, *options, "--json").stdout)
            held = [tensor for tensor in plan["tensors"] if tensor["name"] in ("mix", "mix.moment1", "mix.moment2")]
            report.true(f"{name}: who holds it and its moments", len(held) == 3 and all(one.get("at") == {"pipe": among} for one in held), [one.get("at") for one in held])
            sums = [one for one in plan["collectives"] if one["tensor"] == "d_mix" and one["kind"] != "term"]
            members = data * len(among)
            report.true(f"{name}: one all-reduce of its gradients, by these", [(one["kind"], one["group_size"], one["bytes"]) for one in sums] == [("all_reduce", members, 2 * (members - 1) * held[0]["bytes"] // members)], sums)
            stages = plan["pipeline"]["stages"]
            if layout == "default":  # parameter, moments, gradient; the last one has the loss
                report.true(f"{name}: the others hold none of it", [stages[0]["held_bytes"] - stage["held_bytes"] for stage in stages] == [0, 0, 4 * held[0]["bytes"], 4 * held[0]["bytes"] - 4], [stage["held_bytes"] for stage in stages])
            said = execute(meshc(), "verify", spec, *options, "--precision", "f64", "--bound", "1e-9").stdout
            report.true(f"{name}: values and gradients of one rank", re.search(r"all \d+ values are equal", said), said[-300:])
    for name in "xy":
        np.save(f"{folder}/{name}.npy", np.random.default_rng(SEED + len(name)).standard_normal((64, 8)).astype(np.float32))
    with open(f"{folder}/shared.yaml", "w") as file:
        file.write("data: { x: {file: x.npy}, y: {file: y.npy} }\nlog: { every: 1, watch: [grad_norm, \"grad(mix)\"] }\n")
    logs = {}
    for mesh, ranks in (("data=1,pipe=1", 1), ("data=1,pipe=4", 4), ("data=1,pipe=3", 3), ("data=2,pipe=2", 4))[:2 if small else 4]:
        out = f"{folder}/shared-{mesh}"
        execute(meshc(), "build", spec, f"{folder}/shared.yaml", "--mesh", mesh, "--precision", "f64", "-A", "oversubscribed", "-o", out)

        def train(folder_, steps, *keys):
            execute(f"{out}/shared", "-n", ranks, f"{folder}/shared.yaml", f"train.steps={steps}", f"log.jsonl={out}/log.jsonl", f"checkpoint.dir={out}/{folder_}", "--run-dir", f"{out}/run-{folder_}", *keys)
            return [numbers_of(line) for line in json_lines(f"{out}/log.jsonl") if "step" in line]

        logs[mesh] = train("whole", 6)
        report.check(f"{mesh}: losses and norms of 6 steps against one rank, relative", float(f"{largest_difference(logs['data=1,pipe=1'], logs[mesh]):.1e}"), 1e-9)
        if ranks > 1:
            with open(f"{out}/run-whole/summary.json") as file:
                summary = json.load(file)
            report.check(f"{mesh}: bytes sent in a step, measured less predicted", abs(summary["measured"]["bytes_sent_per_step"] - summary["predicted"]["bytes_sent_per_step"]), 0)
        if mesh == "data=1,pipe=4":
            train("first", 3)
        first = f"{folder}/shared-data=1,pipe=4/first"
        if os.path.exists(first):
            os.remove(f"{out}/log.jsonl")
            rest = train("rest", 6, f"checkpoint.resume={first}")
            apart = largest_difference([line for line in logs["data=1,pipe=4"] if line["step"] > 3], [line for line in rest if line["step"] > 3])
            report.check(f"{mesh}: steps 4 to 6 from the checkpoint of four stages, relative", float(f"{apart:.1e}"), 1e-9)


def check_seen(report, bench):
    """What people see of a pipeline."""
    program = bench.program("turns", "pipe=2")
    text = execute(program, "--info").stdout
    report.true("--info", re.search(r"pipeline +1f1b over pipe, 6 micro-batches, at most 2 of them in a stage\n", text), text)
    report.true("--info --json", json.loads(execute(program, "--info", "--json").stdout)["pipeline"] == {"axis": "pipe", "schedule": "1f1b", "micro_batches": 6, "in_flight": 2})
    execute(program, "-n", 2, f"{bench.folder}/run.yaml", "train.steps=3", "log.trace.steps=2", "--run-dir", f"{bench.folder}/seen")
    with open(f"{bench.folder}/seen/summary.json") as file:
        summary = json.load(file)
    report.check("bytes that the stage sends which sends most, measured less predicted", abs(summary["measured"]["bytes_sent_per_step"] - summary["predicted"]["bytes_sent_per_step"]), 0)
    with open(f"{bench.folder}/seen/trace.json") as file:
        events = json.load(file)
    events = events["traceEvents"] if isinstance(events, dict) else events
    found = {rank: [event["name"] for event in sorted(events, key=lambda e: e.get("ts", 0)) if event.get("cat") == "stage" and event["pid"] == rank] for rank in (0, 1)}
    rows = rows_of(program)
    report.true("the trace has every action of each row, in order", all(found[rank] == rows[rank] for rank in (0, 1)), found[0][:6])
    odd = bench.program("turns", "pipe=2", ["--find-nonfinite"])
    done = execute(odd, "-n", 2, f"{bench.folder}/run.yaml", "train.steps=50", "train.lr=1e300", code=None)
    report.true("--find-nonfinite names the value, the micro-batch and the layer", done.returncode == 3 and re.search(r"at pipelined\.mesh:13 is the first value that is not finite.*turn \d of `time`, turn \d of `layer`", done.stderr), done.stderr[:300])


def rows_of(program):
    """The rows of the training step, as the emitted program has them."""
    with open(f"{program}.cpp") as file:
        table = re.search(r"train_rows\[\] = \{(.*?)\n\};", file.read(), re.S)[1]
    rows = re.split(r"// pipe \d+\n", table)[1:]
    return ["".join(re.findall(r'"([^"]*)"', row)).split() for row in rows]


def check_deaths(report, bench, every):
    """Each in a run of its own: the job ends with one verdict that names the rank and its action, and leaves nothing."""
    program = bench.program("few", "pipe=2", sets(**SMALL))
    with open(f"{bench.folder}/small.yaml", "w") as file:
        file.write("data: { token: {file: tokens.bin, type: u16, window: seq}, next: {of: token, shift: 1} }\ntrain: { steps: 1000000 }\n")
    count = 0
    for rank, row in enumerate(rows_of(program)):
        for action in row:
            for number in (signal.SIGKILL, signal.SIGSTOP):
                count += 1
                if count % every:
                    continue
                transport = ("arena", "UCX")[count // every % 2]
                name = f"{number.name} at {action}, {transport}"
                before, start = leftovers(), time.monotonic()
                environment = {**os.environ, **TRANSPORTS[transport][1], "MESHRT_SIGNAL_AT": f"{rank}:{action}:{int(number)}", "MESHRT_HEARTBEAT": "2"}
                done = subprocess.run([program, "-n", "2", f"{bench.folder}/small.yaml", "--run-dir", f"{bench.folder}/{rank}-{action}-{number.name}"], stdout=subprocess.DEVNULL,
                                      stderr=subprocess.PIPE, text=True, env=environment, timeout=60)
                lines = [line for line in done.stderr.splitlines() if line.strip()]
                said = "was killed by signal 9" if number == signal.SIGKILL else "no sign of life for 2 s: it is stopped"
                good = done.returncode == 3 and len(lines) == 1 and lines[0].startswith(f"rank {rank} ") and said in lines[0] and f"in step 1, at {action} of its row" in lines[0]
                left = sorted(leftovers() - before)
                report.true(f"{name}: exit code {done.returncode}, {time.monotonic() - start:.1f} s", good and not left, left if good else done.stderr[:600])


def run(small):
    report = Report()
    own_memory()
    print(f"seed {SEED}")

    def action(check, *arguments):
        return lambda: check(report, *arguments)

    with scratch() as folder:
        bench = Bench(folder)
        report.attempt("grid", action(cells.check_grid, folder, 110 if small else 1))
        report.attempt("cells emitted", action(cells.check_emitted, folder, *((1, 1) if small else (60, 20))))
        report.attempt("around the layers", action(around.check_schedules, [2] if small else [1, 2, 3, 4]))
        report.attempt("around the layers, emitted", action(around.check_emitted, folder, *((["Divided", "Entries"], ["turns", "vee"]) if small else (around.MODELS, ["turns", "inter", "half", "vee"]))))
        report.attempt("around the layers, not finite", action(around.check_not_finite, folder))
        report.attempt("layouts", action(check_layouts, bench, 8, LAYOUTS[1:8:2] if small else LAYOUTS))
        report.attempt("checkpoints", action(check_checkpoints, bench))
        report.attempt("tied", action(check_tied, folder))
        report.attempt("shared by turns", action(check_shared_by_turns, folder, small))
        report.attempt("seen", action(check_seen, bench))
        report.attempt("deaths", action(check_deaths, bench, 8 if small else 1))
        report.attempt("largest models", action(claims.check_largest_models, small))
        report.attempt("memory of stages", action(claims.check_memory_of_stages, folder, small))
        report.attempt("models", action(claims.check_models, folder, small))
        if not small:  # what a machine that does other work besides would answer otherwise
            report.attempt("time to plan", action(claims.check_time_to_plan))
            report.attempt("memory", action(claims.check_memory, folder))
            report.attempt("makespans", action(claims.check_makespans))
    return report
