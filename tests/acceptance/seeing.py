"""What a run leaves in its folder, read by other means than it was written with: events by a decoder of TFRecord and protocol buffers, the picture as XML,
the trace against the plan, predicted against measured, the lines that cost most, and the resolved run file by running it again."""
import json
import os
import re
import signal
import struct
import subprocess
import xml.etree.ElementTree as xml

import numpy as np

from common import TOP, Report, json_lines, meshc, scratch, sets, unfilled
from common import run as execute
from processes import started, wait_until

SEED = 20261122
GPT = dict(batch=8, seq=32, embed=32, heads=4, head_dim=8, layer=2, vocab=64)
FILES = {"run.yaml", "spec", "plan.txt", "plan.json", "log.txt", "metrics.jsonl", "loss.svg", "summary.json", "trace.json", "flight", "events.out.tfevents.0000000000.meshwright"}


def masked_crc(data):
    """CRC-32C bit by bit, masked as in TFRecord."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(path):
    with open(path, "rb") as file:
        while head := file.read(12):
            length, crc = struct.unpack("<QI", head)
            data = file.read(length)
            if crc != masked_crc(head[:8]) or struct.unpack("<I", file.read(4))[0] != masked_crc(data):
                raise ValueError(f"{path}: a record with a wrong checksum")
            yield data


def fields(data):
    """(number, value) of a protocol buffer: ints, raw 4 and 8 bytes, or bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            yield key >> 3, varint()
        else:
            size = {1: 8, 5: 4}.get(kind) or varint()
            yield key >> 3, data[at:at + size]
            at += size


def scalars(path):
    """{(tag, step): value} of an event file, and its version."""
    found, version = {}, None
    for record in records(path):
        event = dict(fields(record))
        version = event.get(3, version)
        for number, value in fields(event.get(5, b"")):
            one = dict(fields(value))
            found[one[1].decode(), event.get(2, 0)] = struct.unpack("<f", one[2])[0]
    return found, version


def check_events(report, folder, name="events.out.tfevents.0000000000.meshwright"):
    found, version = scalars(f"{folder}/{name}")
    expected = {}
    for line in json_lines(f"{folder}/metrics.jsonl"):
        if "step" in line:
            kind, numbers = ("validation", line["validation"]) if "validation" in line else ("train", line)
            expected.update({(f"{metric}/{kind}", line["step"]): numbers[metric] for metric in ("loss", "perplexity")})
    worst = max(abs(found[key] / expected[key] - 1) for key in expected) if found.keys() == expected.keys() else float("inf")
    report.check(f"{len(expected)} numbers of the event file against the JSON lines: largest relative difference", worst, 1e-7)
    report.true("its version", version == b"brain.Event:2", version)


def check_picture(report, folder):
    svg = "{http://www.w3.org/2000/svg}"
    root = xml.parse(f"{folder}/loss.svg").getroot()
    lines = [len(line.get("points").split()) for line in root.iter(f"{svg}polyline")]
    report.true("curves of training and validation", lines == [20, 4], lines)


def check_trace(report, folder, ranks):
    with open(f"{folder}/trace.json") as file:
        events = json.load(file)["traceEvents"]
    with open(f"{folder}/plan.json") as file:
        plan = json.load(file)
    names = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    report.true("a process for each rank", sorted(names) == list(range(ranks)) and all(names[r].startswith(f"rank {r} on ") for r in names), names)
    spans = [e for e in events if e["ph"] == "X"]
    categories = {e["cat"] for e in spans}
    report.true("what happens in a step", categories >= {"step", "product", "attention", "nest", "collective", "waiting"}, sorted(categories))
    # Slices of one track lie inside each other or apart, or viewers drop them; microseconds have three places.
    crossing = 0
    for rank in range(ranks):
        for track in (0, 1):
            ends = []
            for e in sorted((e for e in spans if e["pid"] == rank and e["tid"] == track), key=lambda e: (e["ts"], -e["dur"])):
                while ends and ends[-1] <= e["ts"] + 1e-3:
                    ends.pop()
                crossing += bool(ends) and e["ts"] + e["dur"] > ends[-1] + 1e-2
                ends.append(e["ts"] + e["dur"])
    report.check("slices that cross each other", crossing, 0)
    steps = {r: [e["name"] for e in spans if e["pid"] == r and e["cat"] == "step"] for r in range(ranks)}
    report.true("three steps of every rank", all(steps[r] == ["step 10", "step 11", "step 12"] for r in steps), steps[0])
    first = [[e for e in spans if e["pid"] == r and e["cat"] == "step"][0] for r in range(ranks)]
    report.true("ranks have one clock: step 10 of all at one time", max(e["ts"] for e in first) < min(e["ts"] + e["dur"] for e in first))
    # Of one that computation overlaps, its start; a rank that need not wait for it has no wait.
    calls = {r: [(e["name"].removeprefix("start "), e["args"].get("spec")) for e in spans
                 if e["pid"] == r and e["cat"] == "collective" and not e["name"].startswith("wait ")] for r in range(ranks)}
    report.true("the same collectives on every rank", all(calls[r] == calls[0] for r in calls) and calls[0], len(calls[0]))
    planned = {(c["kind"], c["line"]) for c in plan["collectives"]}
    traced = {(name.split()[0], int(spec.rsplit(":", 1)[1])) for name, spec in calls[0]}
    report.true("each collective has a kind and line of the plan", traced <= planned, f"{traced - planned}")
    calls_planned = len({c["call"] for c in plan["collectives"] if c["count"] == 1})
    report.true("as many as planned, at least", len(calls[0]) >= 3 * calls_planned, f"{len(calls[0])}, 3 x {calls_planned}")


def check_summary(report, folder):
    with open(f"{folder}/summary.json") as file:
        summary = json.load(file)
    predicted, measured = summary["predicted"], summary["measured"]
    report.check("bytes sent in a step, measured less predicted", abs(measured["bytes_sent_per_step"] - predicted["bytes_sent_per_step"]), 0)
    report.true("memory", measured["resident_bytes"] > measured["memory_bytes"] >= predicted["memory_bytes"] > 0, f"{predicted['memory_bytes']} predicted, {measured} measured")
    report.true("time", measured["seconds_per_step"] > 0 and predicted["seconds_per_step"] > 0)
    with open(f"{folder}/log.txt") as file:
        last = file.read().splitlines()[-2:]
    report.true("told at the end", "predicted" in last[0] and "measured" in last[0] and last[1] == f"this run is kept in {os.path.relpath(folder, os.path.dirname(os.path.dirname(folder)))}", last)


def check_memory(report, folder, environment):
    """What a rank measures of its memory is what was planned, to 5 %, for sizes beside which the runtime's own does not count; a checkpoint's copies are told apart."""
    large = dict(batch=16, seq=256, embed=256, heads=8, head_dim=32, layer=6, vocab=256)
    for mesh, kept in [("data=2,model=1", []), ("data=2,model=2", ["checkpoint.dir=large"])]:
        execute(meshc(), "run", f"{TOP}/specs/gpt.mesh", *sets(**large), "there/run.yaml", "train.steps=3", "validation=", *kept, "--mesh", mesh, "--run-dir", f"large-{mesh}", env={**environment, **unfilled}, cwd=folder)
        with open(f"{folder}/large-{mesh}/summary.json") as file:
            summary = json.load(file)
        planned, measured = (summary[kind]["memory_bytes"] for kind in ("predicted", "measured"))
        report.check(f"{mesh}: memory of a rank, {measured} measured, {planned} planned: relative difference", abs(measured / planned - 1), 0.05)
        report.true("libraries and files are told apart", summary["measured"]["libraries_bytes"] > 1 << 20 and summary["measured"]["resident_bytes"] > measured, summary["measured"])
        report.true("copies that a checkpoint is written from", (summary["measured"]["checkpoint_copies_bytes"] > 1 << 20) == bool(kept), summary["measured"])


def check_profile(report, folder, environment):
    """The lines that cost most, against what is known of a spec: products of one line, a loop nest and a collective of others."""
    with open(f"{folder}/cost.mesh", "w") as file:
        file.write("dim batch = 64, embed = 512, wide = 2048\nmodel Cost {\n  input x : real[batch, embed]\n  param up : real[embed, wide] = normal(std: 0.02)\n"
                   "  param down : real[wide, embed] = normal(std: 0.02)\n  h = dot[embed](x, up)\n  g = exp(sin(h) * cos(h)) * tanh(h)\n"
                   "  y = dot[wide](g, down)\n  loss = mean[batch, embed]((y - x) ^ 2)\n  minimize loss with sgd(lr: 0.1)\n}\n"
                   "mesh line { model: 2 }\nlayout default on line { wide -> model }\n")
    np.save(f"{folder}/cost.npy", np.random.default_rng(SEED).normal(size=(256, 512)).astype(np.float32))
    with open(f"{folder}/cost.yaml", "w") as file:
        file.write("data: { x: {file: cost.npy} }\ntrain: { steps: 20 }\nlog: { profile: true }\n")
    said = execute(meshc(), "run", "cost.mesh", "--run-dir", "cost", env=environment, cwd=folder).stdout
    with open(f"{folder}/cost/summary.json") as file:
        summary = json.load(file)
    lines = {line["value"]: line for line in summary["lines"]}
    report.true("values of the costliest lines", {"h", "g", "y"} <= lines.keys() and all(line["file"] == "cost.mesh" for line in lines.values()), sorted(lines))
    with open(f"{folder}/cost.mesh") as file:
        spec = file.read().splitlines()
    report.true("their places", all(spec[line["line"] - 1].strip() == line["text"] for line in lines.values()), lines.values())
    step, total = summary["measured"]["seconds_per_step"], sum(line["seconds_per_step"] + line["waiting"] for line in lines.values())
    report.true("all lines together, with what each waits: a step", 0.8 * step < total < 1.05 * step and abs(sum(line["share"] for line in lines.values()) - 1) < 1e-6, f"{total} of {step} s")
    h, g, y = (lines[value] for value in "hgy")
    report.true("products of their lines", h["products"] > 0.5 * h["seconds_per_step"] and y["products"] > 0.3 * y["seconds_per_step"], (h, y))
    with open(f"{folder}/cost/plan.json") as file:
        planned = {call["line"] for call in json.load(file)["collectives"]}
    moving = {line["line"] for line in lines.values() if line["collectives"] > 0}
    report.true("collectives of the lines that the plan names", moving == planned and lines["loss"]["line"] in planned, f"{moving}, planned {planned}")
    report.true("a nest of its line", g["products"] + g["collectives"] < 0.5 * g["seconds_per_step"], g)
    report.true("the sorted lines, told", [line["share"] for line in summary["lines"]] == sorted((line["share"] for line in summary["lines"]), reverse=True)
                and re.search(r"\nthe lines of the spec that cost rank 0 most, in a step:\n +[\d.]+ ms +[\d.]+ %  cost.mesh:\d+ +\w", said), said[-900:])


BENCH = """dim batch = 512, pixel = 400, hidden = 600, class = 10
model Net {
  input x : real[batch, pixel]
  input label : index(class)[batch]
  param up : real[pixel, hidden] = fan_in[pixel]
  param down : real[hidden, class] = fan_in[hidden]
  loss = mean[batch](cross_entropy[class](dot[hidden](relu(dot[pixel](x, up)), down), label))
  minimize loss with sgd(lr: 0.01)
}
mesh line { data: 2 }
layout whole on line { replicate over data }
layout split on line { batch -> data }
"""
MACHINE = "name: paper\ngflops: { f32: 8 }\nnode: { ranks: 2, latency_us: 1, gbs: 5 }\n"


def check_bench(report, folder):
    """`meshc bench`: parts that add up, flops by the formulas of the products, advice that the plan agrees with."""
    for name, text in (("net.mesh", BENCH), ("paper.yaml", MACHINE)):
        with open(f"{folder}/{name}", "w") as file:
            file.write(text)
    environment = {"XDG_CACHE_HOME": f"{folder}/cache", "TMPDIR": f"{folder}/tmp"}
    os.mkdir(f"{folder}/tmp")

    def bench(*more, code=0):
        return execute(meshc(), "bench", *more, env=environment, cwd=folder, code=code)

    def parts_of_step(found):
        return sum(found["breakdown"].values()) / (sum(sorted(found["steps"])[2:6]) / 4)

    # What another process does between two steps is in no part of them: one of three benches is left alone.
    for _ in range(3):
        found = json.loads(bench("net.mesh", "--layout", "whole", "--machine", "paper.yaml", "--steps", "8", "--json").stdout)
        if 0.97 < parts_of_step(found) < 1.03:
            break
    batch, pixel, hidden, kinds = 512, 400, 600, 10
    products = 2 * batch * hidden * (2 * pixel + 3 * kinds)  # no gradient of x
    report.check("bench: model flops by those of products", round(found["model_flops"] / products, 3), 1.02, good=1 <= found["model_flops"] / products <= 1.02)
    step = found["seconds_per_step"]
    report.true("bench: utilisation", abs(found["utilisation"] / (found["model_flops"] / (step * 2 * 8e9)) - 1) < 1e-6, found["utilisation"])
    report.true("bench: steps and their median", len(found["steps"]) == 8 and min(found["steps"]) <= step <= max(found["steps"]), found["steps"])
    with open(f"{folder}/slow.yaml", "w") as file:
        file.write(MACHINE.replace("f32: 8", "f32: 1e-3"))
    slow = bench("net.mesh", "--layout", "whole", "--machine", "slow.yaml", "--steps", "3").stdout
    listed = json.loads(bench("net.mesh", "--layout", "whole", "--machine", "slow.yaml", "--steps", "3", "--json").stdout)
    why = "no step can do more than the ranks can multiply: the machine is faster than its description says"
    report.true("bench: more than the ranks can multiply is doubted", listed["utilisation"] > 1 and why in listed["doubts"] and f"\n{why}\n" in slow, slow)
    report.true("bench: less is not", found["utilisation"] > 1 or not any("multiply" in one for one in found["doubts"]), found["doubts"])
    report.check("bench: parts of a step", round(parts_of_step(found), 3), "1 within 0.03", 0.97 < parts_of_step(found) < 1.03)
    report.true("bench: two ranks, which multiply", len(found["ranks"]) == 2 and all(one["products"] > 0 and one["attention"] == 0 for one in found["ranks"]), found["ranks"])
    plans = {name: json.loads(execute(meshc(), "plan", "net.mesh", "--layout", name, "--machine", "paper.yaml", "--json", cwd=folder).stdout)["predicted_seconds"] for name in ("whole", "split")}
    saved = {one["how"]: one["seconds"] for one in found["advice"]}
    report.true("bench: the faster layout", abs(saved.get("--layout split --mesh data=2", 0) / (plans["whole"] - plans["split"]) - 1) < 1e-6, saved)
    report.true("bench: the best first", list(saved.values()) == sorted(saved.values(), reverse=True) and found["random_data"], saved)
    np.save(f"{folder}/x.npy", np.zeros((600, pixel), np.float32))
    np.save(f"{folder}/label.npy", np.zeros(600, np.int32))
    with open(f"{folder}/net.yaml", "w") as file:
        file.write("data: { x: {file: x.npy}, label: {file: label.npy} }\ncheckpoint: { dir: kept }\ntrain: { steps: 5 }\n")
    said = bench("net.mesh", "--layout", "split", "--steps", "3").stdout
    report.true("bench: text, on the run file's data, on this machine as measured", said.startswith("net, layout split on data=2, the data of the run file\n") and ", measured\n" in said
                and all(f"\n{head}\n" in said for head in ("where a step goes", "lines of the spec that cost rank 0 most", "what would help most")), said)
    np.save(f"{folder}/x.npy", np.zeros((600, pixel + 1), np.float32))
    done = bench("net.mesh", "--layout", "split", "--machine", "paper.yaml", code=1)
    report.true("bench: data that does not fit", "net.yaml:1" in done.stderr and "401" in done.stderr, done.stderr)
    np.save(f"{folder}/x.npy", np.zeros((600, pixel), np.float32))
    np.save(f"{folder}/label.npy", np.full(600, kinds, np.int32))
    done = bench("net.mesh", "--layout", "split", "--machine", "paper.yaml", code=1)
    report.true("bench: bad data", "the program has failed, and said" in done.stderr and "`label` takes an index below 10" in done.stderr, done.stderr)
    report.true("bench: nothing is left", os.listdir(f"{folder}/tmp") == [] and not os.path.exists(f"{folder}/kept"), os.listdir(f"{folder}/tmp"))


def losses(folder):
    return [(line["step"], line["loss"]) for line in json_lines(f"{folder}/metrics.jsonl") if "loss" in line]


def check_ends(report, folder, environment):
    """Why a run has ended stands in its log, whether a launcher tells it or the one process of the run."""
    tokens = np.fromfile(f"{folder}/there/tokens.bin", np.uint16)
    tokens[1000] = 64
    tokens.tofile(f"{folder}/there/odd.bin")

    def command(mesh):
        return [meshc(), "run", f"{TOP}/specs/gpt.mesh", *sets(**GPT), "there/run.yaml", "train.steps=1000000", "--mesh", mesh, "--run-dir", mesh]

    def log_of(mesh):
        path = f"{folder}/{mesh}/log.txt"
        if not os.path.exists(path):
            return ""
        with open(path) as file:
            return file.read()

    for mesh in ("data=1,model=1", "data=2,model=2"):
        done = execute(*command(mesh), "data.token.file=there/odd.bin", env=environment, cwd=folder, code=1)
        said = "`there/odd.bin`: number 1000 is 64, but `token` takes an index below 64\n  --> command line\n"
        report.true(f"{mesh}: bad data", said in done.stderr and said in log_of(mesh), done.stderr[-300:] + log_of(mesh)[-300:])
    with started(*command(mesh), cwd=folder, env={**os.environ, **environment}) as job:
        wait_until(lambda: "step 5/" in log_of(mesh))
        job.send_signal(signal.SIGINT)
        _, messages = job.communicate(timeout=20)
    report.true("Ctrl-C", job.returncode == 130 and messages.endswith("SIGINT has ended the run at once\n") and log_of(mesh).endswith("\nSIGINT has ended the run at once\n"), messages + log_of(mesh)[-300:])


def check_interrupted(report, folder, environment):
    """Ctrl-C ends a run with checkpoints after its step, with a checkpoint, whether its ranks are processes or one; nohup's SIGHUP ends nothing."""
    for mesh in ("data=1,model=1", "data=2,model=2"):
        name = mesh.replace("=", "")
        command = [meshc(), "run", f"{TOP}/specs/gpt.mesh", *sets(**GPT), "there/run.yaml", "train.steps=1000000", "--mesh", mesh, "--run-dir", name, f"checkpoint.dir={name}-ckpt"]

        def steps():
            return sum(line.startswith("step ") for line in open(f"{folder}/{name}/log.txt")) if os.path.exists(f"{folder}/{name}/log.txt") else 0

        with started("nohup", *command, cwd=folder, env={**os.environ, **environment}, stdin=subprocess.DEVNULL) as job:
            wait_until(lambda: steps() >= 5)
            job.send_signal(signal.SIGHUP)
            told = steps()
            wait_until(lambda: steps() > told + 5)
            job.send_signal(signal.SIGINT)
            _, messages = job.communicate(timeout=20)
        with open(f"{folder}/{name}/log.txt") as log:
            ends = re.findall(r"SIGINT has ended the run after step (\d+) of 1000000", log.read())
        report.true(f"{mesh}: Ctrl-C", job.returncode == 75 and len(ends) == 1 and os.path.exists(f"{folder}/{name}-ckpt/step-{ends[0]}/checkpoint.json"), f"{job.returncode} {messages[-300:]}")


def run(small):
    report = Report()
    print(f"seed {SEED}")

    def action():
        with scratch() as folder:
            os.mkdir(f"{folder}/there")
            np.random.default_rng(SEED).integers(0, 64, 20000).astype(np.uint16).tofile(f"{folder}/there/tokens.bin")
            with open(f"{folder}/there/run.yaml", "w") as file:
                file.write("data: { token: {file: tokens.bin, type: u16, window: seq, to: 90%}, target: {of: token, shift: 1} }\n"
                           "validation: { every: 5, steps: 2, token: {from: 90%} }\ntrain: { steps: 40 }\nlog: { every: 1 }\n")
            environment = {"MESHRT_RUNS": "runs", "XDG_CACHE_HOME": f"{folder}/cache"}
            command = [meshc(), "run", f"{TOP}/specs/gpt.mesh", *sets(**GPT), "--mesh", "data=2,model=2"]

            def train(*more):
                return execute(*command, *more, env=environment, cwd=folder)

            def kept():
                return sorted(os.listdir(f"{folder}/runs"))

            train("there/run.yaml", "train.steps=20", "log.trace={steps: 10..12}")
            one = f"{folder}/runs/gpt-0001"
            report.true("files of the run", set(os.listdir(one)) == FILES, sorted(set(os.listdir(one)) ^ FILES))
            with open(f"{TOP}/specs/gpt.mesh") as spec, open(f"{one}/spec/gpt.mesh") as copy:
                report.true("the spec", spec.read() == copy.read())
            with open(f"{one}/plan.json") as plan:
                report.true("the plan", plan.read() == execute(meshc(), "plan", "--json", f"{TOP}/specs/gpt.mesh", *sets(**GPT), "--mesh", "data=2,model=2").stdout)
            check_events(report, one)
            check_picture(report, one)
            check_trace(report, one, 4)
            check_summary(report, one)
            train(f"{one}/run.yaml", "log.trace=")
            report.true("the resolved run file from another folder: the same curve in a folder of its own", losses(f"{folder}/runs/gpt-0002") == losses(one) and kept() == ["gpt-0001", "gpt-0002"])
            train("there/run.yaml", "train.steps=6", "checkpoint.dir=ckpt")
            train("there/run.yaml", "train.steps=12", "checkpoint.dir=ckpt")
            three = f"{folder}/runs/gpt-0003"
            report.true("a run that goes on goes on in its folder", kept() == ["gpt-0001", "gpt-0002", "gpt-0003"] and [step for step, _ in losses(three)] == list(range(1, 13)))
            found = scalars(f"{three}/events.out.tfevents.0000000006.meshwright")[0]
            report.true("its events in a second file", {step for _, step in found} == set(range(7, 13)))
            train("there/run.yaml", "train.steps=2", "--run-dir", "none")
            train("there/run.yaml", "train.steps=2", "--run-dir", "mine")
            train("there/run.yaml", "train.steps=2", "run.dir=other")
            report.true("no folder, or another", len(kept()) == 3 and os.path.exists(f"{folder}/mine/summary.json") and os.path.exists(f"{folder}/other/summary.json"))
            done = execute(*command, "there/run.yaml", "--run-dir", "there/run.yaml/sub", env=environment, cwd=folder, code=3)
            check_memory(report, folder, environment)
            check_profile(report, folder, environment)
            check_bench(report, folder)
            check_ends(report, folder, environment)
            check_interrupted(report, folder, environment)
            report.true("a folder that cannot be made", "cannot make the run folder `there/run.yaml/sub`" in done.stderr, done.stderr.strip()[:200])

    report.attempt("seeing", action)
    return report
