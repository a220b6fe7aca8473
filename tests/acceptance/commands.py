"""Every command: help, an unknown option, a bad spec, JSON that parses, verify's exit code with and without a fault."""
import json
import os
import re
import signal
import subprocess

import numpy as np

from common import TOP, Report, meshc, scratch
from common import run as execute
from oracle import safetensors
from processes import alive, started, wait_until

COMMANDS = {"bench", "check", "plan", "layout", "diff", "run", "build", "evaluate", "predict", "fetch", "generate", "score", "verify", "ckpt", "data", "fmt", "ir", "ops", "reshard", "schedule", "explain", "new", "machine", "slurm", "doctor"}
# A small perceptron over two ranks, in which collectives complete sums.
SMALL = ("--layout", "both", "--set", "batch=8", "--set", "hidden=16")
COUPLED = """dim batch = 8, wide = 4, out = wide, layer = 4
model Coupled {
  input x : real[batch, wide]
  h = x
  repeat layer {
    param w : real[wide, out] = fan_in[wide]
    h = h + tanh(dot[wide](h, w)[out as wide])
  }
  metric spread = sqrt(mean[batch, wide]((h - mean[batch](h)) ^ 2))
  loss = mean[batch, wide](h ^ 2)
  minimize loss with sgd(lr: 0.1)
}
mesh line { pipe: 2 }
layout stages on line { layer -> pipe { microbatches: 4 } }
"""


def check_new(report, folder):
    """What `new` writes is formatted, right, and trains; it writes over nothing."""
    text, stem = os.path.join(folder, "verse.txt"), os.path.join(folder, "sub", "tiny_net")
    with open(text, "w") as file:
        file.write("In the beginning was the word, and so on and so on.\n" * 800)
    written = execute(meshc(), "new", stem, "--text", text).stdout.split()
    report.true("new", written == [stem + ".mesh", stem + ".yaml"] and all(os.path.exists(f) for f in written))
    report.true("new: formatted", execute(meshc(), "fmt", "--check", written[0], code=None).returncode == 0)
    report.true("new: its other mesh", execute(meshc(), "check", written[0], "--mesh", "data=1,model=2", code=None).returncode == 0)
    report.true("new: no warnings", execute(meshc(), "check", written[0]).stderr == "")
    log = os.path.join(folder, "log.jsonl")
    said = execute(meshc(), "run", written[0], "train.steps=30", "log.every=10", f"log.jsonl={log}", cwd=folder).stdout
    report.true("new: the weights are kept, and the run says where", "\nthe parameters are in tiny_net-ckpt/step-30\n" in said and os.path.exists(f"{folder}/tiny_net-ckpt/step-30/checkpoint.json"), said[-400:])
    report.true("new: samples are shuffled", ", shuffled" in open(f"{folder}/tiny_net-ckpt/step-30/checkpoint.json").read())
    with open(log) as file:
        losses = [entry["loss"] for entry in map(json.loads, file) if "loss" in entry]
    report.true("new: trains", len(losses) >= 3 and losses[-1] < losses[0], str(losses))
    report.true("new: nothing is written over", execute(meshc(), "new", stem, code=None).returncode == 2)
    report.true("new: not a name", execute(meshc(), "new", os.path.join(folder, "1st"), code=None).returncode == 2)


def check_before_compiling(report, folder):
    """What does not fit between run file and spec is said before the C++ compiler starts: there is none here."""
    with open(f"{folder}/fit.mesh", "w") as file:
        file.write("dim pixel = 20, batch = 16\nmodel Fit {\n  input x : real[pixel, batch]\n  input y : real[pixel]\n  param w : real[batch] = zeros\n"
                   "  p = dot[batch](x, w)\n  output p\n  loss = mean[pixel]((p - y) ^ 2)\n  minimize loss with sgd(lr: 0.1)\n}\n")
    np.save(f"{folder}/x.npy", np.zeros((100, 20), np.float32))
    np.save(f"{folder}/good.npy", np.zeros((100, 16), np.float32))
    np.save(f"{folder}/y.npy", np.zeros((100, 1), np.float32))
    data = "data: { x: {file: good.npy}, y: {file: y.npy} }\ntrain: { steps: 3 }\n"
    environment = {"CXX": "/bin/false", "XDG_CACHE_HOME": f"{folder}/fit_cache"}
    for name, text, said in (
            ("a shape", data.replace("good", "x"), "its first dim counts samples, as `pixel` does, the first dim of the first input: each must be [16], not [20]"),
            ("a name", data.replace("y: {", "z: {"), "`Fit` has no input `z`"),
            ("an input without data", data.replace(", y: {file: y.npy}", ""), "input `y` has no source"),
            ("an output", data + "output: { q: {file: q.npy} }\n", "`Fit` has no output `q`"),
            ("an output's file", data + "output: { p: {every: 1} }\n", "`output.p` names no file"),
            ("a source without a file", data.replace("file: y.npy", "from: 1"), "`data.y` says neither `file`, `mix` nor `of`"),
            ("data of validation", data + "validation: { x: {file: x.npy} }\n", "each must be [16], not [20]")):
        with open(f"{folder}/fit.yaml", "w") as file:
            file.write(text)
        done = execute(meshc(), "run", "fit.mesh", cwd=folder, env=environment, code=None)
        report.true(f"before compiling: {name}", done.returncode == 1 and said in done.stderr, done.stderr)
        if name in ("a name", "an output", "an output's file"):
            done = execute(meshc(), "build", "fit.mesh", "fit.yaml", "-o", "fit_out", cwd=folder, env=environment, code=None)
            report.true(f"before compiling: {name}, by build", done.returncode == 1 and said in done.stderr, done.stderr)
    uses = {"evaluate": ("evaluate", "fit.mesh"), "predict": ("predict", "fit.mesh", "p", "--out", "fit_values")}
    for name, command in uses.items():
        done = execute(meshc(), *command, cwd=folder, env=environment, code=None)
        report.true(f"before compiling: data of validation, by {name}", done.returncode == (1 if name == "evaluate" else 2), done.stderr)
    os.remove(f"{folder}/fit.yaml")
    for name, command in uses.items():
        done = execute(meshc(), *command, cwd=folder, env=environment, code=None)
        said = "input `x` has no source: add `data: { x: {file: PATH} }` to the run file, or `data.x.file=PATH` to the command line"
        report.true(f"before compiling: no run file, by {name}", done.returncode == 1 and said in done.stderr, done.stderr)
    with open(f"{folder}/fit.yaml", "w") as file:
        file.write(data)
    for name, command in uses.items():
        done = execute(meshc(), *command, cwd=folder, env=environment, code=None)
        report.true(f"before compiling: no parameters, by {name}", done.returncode == 2 and "which parameters? `--params CHECKPOINT`" in done.stderr, done.stderr)
    said = execute(meshc(), "run", "fit.mesh", cwd=folder).stdout
    report.true("an array that is read in another shape is said", said.startswith("data: `y.npy` [100, 1] is read as `y` [pixel 20]\n"), said)
    report.true("parameters that are not kept are said", "\nthe parameters are not kept: `checkpoint: { dir: FOLDER }` keeps them\n" in said, said)


def check_parameters(report, folder):
    """fetch takes parameters from several files, and leaves to the spec what is fresh."""
    spec = f"{folder}/lora.mesh"
    with open(spec, "w") as file:
        file.write("dim b = 2, d = 4, r = 2, c = 3\nmodel Lora {\n  input x : real[b, d]\n  param base : real[d, c] = normal(std: 1)\n"
                   "  param down : real[d, r] = normal(std: 1)\n  param up : real[r, c] = zeros\n  y = dot[d](x, base) + dot[r](dot[d](x, down), up)\n}\n")
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    np.save(f"{folder}/x4.npy", x)

    def fetch(*more, code=0):
        done = execute(meshc(), "fetch", spec, "y", "param(**)", "--feed", f"x={folder}/x4.npy", "--out", f"{folder}/lora", *more, code=code)
        return {name: np.load(f"{folder}/lora/{name}.npy") for name in ("y", "param(base)", "param(down)", "param(up)")} if code == 0 else done.stderr

    random = np.random.default_rng(7)
    arrays = {name: random.normal(size=size).astype(np.float32) for name, size in (("base", (4, 3)), ("down", (4, 2)), ("up", (2, 3)))}
    safetensors.write(f"{folder}/base.safetensors", {"base": arrays["base"]}, "<f4")
    safetensors.write(f"{folder}/adapter.safetensors", {name: arrays[name] for name in ("down", "up")}, "<f4")
    safetensors.write(f"{folder}/all.safetensors", arrays, "<f4")
    base, adapter, whole = (("--params", f"{folder}/{name}.safetensors") for name in ("base", "adapter", "all"))
    found = fetch(*base, *adapter)
    report.check("fetch --params of two files", float(np.abs(found["y"] - (x @ arrays["base"] + x @ arrays["down"] @ arrays["up"])).max()), 1e-5)
    merged = f"{folder}/new/folder/merged.safetensors"
    fresh = fetch(*base, "--fresh", "down", "--fresh", "up", "--seed", "3", "--save-params", merged)
    spec_says = fetch("--seed", "3")
    report.true("fetch --fresh", np.array_equal(fresh["param(base)"], arrays["base"]) and np.array_equal(fresh["param(down)"], spec_says["param(down)"])
                and np.abs(fresh["param(down)"]).max() > 0)
    report.true("what is fresh is not read, though it is there", np.array_equal(fetch(*whole, "--fresh", "**.down", "--seed", "3")["param(down)"], spec_says["param(down)"]))
    report.true("--save-params makes its folder", all(np.array_equal(fetch("--params", merged)[name], fresh[name]) for name in fresh))
    for name, said, options in (("a tensor in two files", "`base` is both in `", (*base, *whole)),
                                ("a parameter that is missing", "base.safetensors lacks parameters of the model: down, up; `--fresh PATTERN` begins them as the spec says", base),
                                ("a pattern of nothing", "--fresh dwn: no parameter is called so; did you mean `down`?", (*base, "--fresh", "dwn"))):
        report.true(f"fetch: {name}", said in (error := fetch(*options, code=1)), error)
    report.true("fetch: a seed without effect", "--seed has no effect beside --params" in fetch(*whole, "--seed", "3", code=2))
    both = execute(meshc(), "ckpt", "convert", f"{folder}/base.safetensors", f"{folder}/adapter.safetensors", f"{folder}/both.safetensors").stdout
    report.true("ckpt convert of two", "3 tensors" in both and execute(meshc(), "ckpt", "diff", f"{folder}/both.safetensors", f"{folder}/all.safetensors").stdout == "3 tensors are the same, 0 differ\n", both)


def check_meetings(report, path):
    """What ranks wait for one another is part of each call that sends something: after little work less."""
    with open(path, "w") as file:
        file.write("node: { meeting_us: 200 }\n")
    shares = []  # of what calls would wait that all wait for as long
    for spec, layout in (("specs/gpt.mesh", "sequence"), ("tests/acceptance/zoo/mamba.mesh", "inner")):
        plain, met = (json.loads(execute(meshc(), "plan", spec, "--layout", layout, *machine, "--json").stdout) for machine in ((), ("--machine", path)))
        calls = met["collectives"]
        report.true(f"machine: meetings of {spec}: calls that send nothing take no time", all(one["seconds"] == 0 for one in calls if one["kind"] in ("slice", "term")))
        report.true(f"machine: meetings of {spec}: no call takes less than none, and a step no less than without", all(one["seconds"] >= 0 for one in calls) and met["predicted_seconds"] >= plain["predicted_seconds"])
        whole = 200e-6 * sum(one["count"] for one in calls if one["bytes"] > 0)
        shares.append((met["predicted_seconds"] - plain["predicted_seconds"]) / whole)
    report.true("machine: meetings after short work are short", shares[0] > 0.1 and shares[1] < 0.01, shares)


def check_machine(report, folder):
    """`machine --measure` writes a description that `plan` takes, and measures the same ranks whoever starts them."""
    path = f"{folder}/here.yaml"
    done = execute(meshc(), "machine", "--measure", "-n", 2, "-o", path, "--name", 'my "host"')
    with open(path) as file:
        text = file.read()
    shown = json.loads(execute(meshc(), "machine", path, "--json").stdout)
    report.true("machine --measure: named, hashed, written", done.stdout == f'machine my "host" is in {path}, hash {shown["hash"]}: `--machine {path}` plans for it\n' and shown["name"] == 'my "host"', done.stdout)
    report.true("machine --measure: says what it measured", all(word in done.stderr for word in ("products", "attention", "other ops", "memory", "all-reduce, 2 ranks of a host", "send within a host", "ranks of a host meet after work")), done.stderr)
    rates = (shown["gflops"]["f32"], shown["gflops"]["f64"], *shown["memory_gbs"].values())
    report.true("machine --measure: rates of this world", 1 < rates[1] < rates[0] < 1000 and len(rates) == 7 and all(0.1 < rate < 1000 for rate in rates[2:]), rates)
    report.true("machine --measure: products and attention of bf16 too", all(0.1 < shown["gflops"][what] < 1e4 for what in ("bf16", "attention_bf16")), shown["gflops"])
    slower = [shown["gflops"][what] for what in ("attention", "elementwise")]
    report.true("machine --measure: attention and other ops take longer than products", all(0.1 < rate < rates[0] for rate in slower), shown["gflops"])
    for kind, link in (("all-reduce", shown["node"]), ("send", shown["node"]["send"])):
        sizes, rates = zip(*((int(size), rate) for size, rate in link["gbs"].items()))
        times = [size / rate for size, rate in zip(sizes, rates)]
        report.true(f"machine --measure: {kind} by size, of this world", len(sizes) == 6 and sorted(times) == times and all(1e-3 < rate < 1000 for rate in rates)
                    and 0.01 < link["latency_us"] < 1e5, link)
    waits = shown["node"].get("meeting_us", {})
    report.true("machine --measure: ranks meet after work, no sooner after longer work, in a time of this world", set(waits) <= {"100us", "1ms", "10ms"} and "10ms" in waits
                and list(waits.values()) == sorted(waits.values()) and all(0.01 < wait < 1e5 for wait in waits.values()), shown["node"])
    report.true("machine --measure: as many ranks share a host", shown["node"]["ranks"] == 2 and shown["node"]["memory_gib"] > 0, text)
    plan = json.loads(execute(meshc(), "plan", "specs/mlp.mesh", "--layout", "both", "--machine", path, "--json").stdout)
    report.true("machine: a plan for it", plan["machine"] == 'my "host"' and plan["room"]["fits"])
    report.true("machine: never unasked", json.loads(execute(meshc(), "plan", "specs/mlp.mesh", "--layout", "both", "--json").stdout)["machine"] == "generic")
    meshrun = os.path.join(os.path.dirname(meshc()), "../../runtime/meshrun")
    found = json.loads(execute(meshrun, "-n", 2, meshc(), "machine", "--measure", "--json").stdout)
    report.true("machine --measure under meshrun", (found["hosts"], found["ranks"]) == (1, 2) and len(found["node"]["send"]["sizes"]) == 6 and "network" not in found and len(found["hash"]) == 16, found)
    alone = execute(meshc(), "machine", "--measure", "-n", 1).stdout
    with open(path, "w") as file:
        file.write(alone)
    one = json.loads(execute(meshc(), "machine", path, "--json").stdout)
    report.true("machine --measure of one rank has no link", "latency_us" not in alone.split("# Not")[0] and one["node"]["ranks"] == 1, alone)
    seconds = {}
    for what in ("f32: 10", "f32: 10, attention: 10, elementwise: 10", "f32: 10, attention: 1", "f32: 10, elementwise: 1"):
        with open(path, "w") as file:
            file.write(f"gflops: {{ {what} }}\nmemory_gbs: 1000\n")
        plan = ("plan", "--mesh", "data=1,model=1", "--machine", path, "--json")
        seconds[what] = [json.loads(execute(meshc(), plan[0], f"specs/{spec}.mesh", *plan[1:]).stdout)["predicted_seconds"] for spec in ("gpt", "translate")]
    same, said, attends, others = seconds.values()
    report.true("machine: what is not said of attention and other ops is said of products", same == said, seconds)
    report.true("machine: attention has a rate of its own, where it is one op", attends[0] > 1.1 * same[0] and attends[1] == same[1], seconds)
    report.true("machine: ops that are no products have a rate of their own", all(other > 1.05 * before for other, before in zip(others, same)), seconds)
    seconds = {}
    for what in ("attention: 1", "attention: 1, attention_bf16: 1", "attention: 1, attention_bf16: 10"):
        with open(path, "w") as file:
            file.write(f"gflops: {{ f32: 10, {what} }}\nmemory_gbs: 1000\n")
        seconds[what] = [json.loads(execute(meshc(), "plan", "specs/gpt.mesh", "tests/emit/specs/mixed.mesh", "--mesh", "data=1,model=1", "--precision", precision, "--machine", path, "--json").stdout)["predicted_seconds"]
                         for precision in ("f32", "mixed")]
    (wide, mixed), same, faster = seconds.values()
    report.true("machine: attention of bf16 is as fast as in f32 where nothing is said", same == [wide, mixed], seconds)
    report.true("machine: else it has a rate of its own", faster[0] == wide and faster[1] < 0.9 * mixed, seconds)
    check_meetings(report, path)
    generic = json.loads(execute(meshc(), "machine", "--json").stdout)
    report.true("machine: the generic one", generic["name"] == "generic" and generic["gflops"]["f32"] == 100 and generic["hash"] == "", generic)
    refused = execute(meshrun, "-n", 1, meshc(), "machine", "--measure", "-n", 2, code=2).stderr
    report.true("machine --measure: -n under meshrun", "the launcher has started the ranks: leave -n out" in refused, refused)


def check_cache(report, folder):
    """A program is compiled once, and of many the hundred used last are kept."""
    cache = f"{folder}/cache/meshwright"
    for number in range(120):
        os.makedirs(f"{cache}/old{number}")
        os.utime(f"{cache}/old{number}", (number, number))
    with open(f"{folder}/count.mesh", "w") as file:
        file.write("model Count {\n  state n : f64 = 0\n  n <- n + 1\n}\n")
    with open(f"{folder}/count.yaml", "w") as file:
        file.write("train: { steps: 2 }\n")
    first, again = (execute(meshc(), "run", f"{folder}/count.mesh", env={"XDG_CACHE_HOME": f"{folder}/cache"}).stderr for _ in range(2))
    report.true("run compiles a program once", "compiling count" in first and "compiling" not in again, first + again)
    kept = sorted(os.listdir(cache), key=lambda name: os.path.getmtime(f"{cache}/{name}"))
    report.true("run keeps the hundred used last", len(kept) == 100 and os.path.exists(f"{cache}/{kept[-1]}/count") and kept[0] == "old21", kept[:1])


def check_how_long(report, folder):
    """specs/quickstart says how long its build takes before it begins, and nothing where all is built."""
    os.mkdir(f"{folder}/steps")
    with open(f"{folder}/steps/build.ninja", "w") as file:
        file.write("rule touch\n  command = touch $out\n" + "".join(f"build {n}: touch\n" for n in range(301)) + "build all: phony " + " ".join(map(str, range(301))) + "\n")

    def said():
        return execute("sh", "-euc", f'. {TOP}/specs/setup; build "{folder}/steps" all', env={"NO_COLOR": "1"}).stderr

    cores = int(execute("nproc").stdout)
    report.true("quickstart says how long its build takes", f"301 steps, about {-(-(602 // cores) // 60)} minutes on {cores} cores" in said())
    report.true("and nothing of what is built", "steps" not in said().replace(f"{folder}/steps", ""))


def check_interrupted(report, folder):
    """A `build` that is ended while it compiles ends the compiler and what that has started, and says so."""
    with open(f"{folder}/slow_compiler", "w") as file:
        file.write(f"#!/bin/sh\nsleep 60 &\necho $! >{folder}/started.new\nmv {folder}/started.new {folder}/started\nwait\n")
    os.chmod(f"{folder}/slow_compiler", 0o755)
    with open(f"{folder}/slow.mesh", "w") as file:
        file.write("model Slow {\n  state n : f64 = 0\n  n <- n + 1\n}\n")
    cache = f"{folder}/slow_cache"
    for name, command in (("SIGTERM", ["build", "-o", f"{folder}/SIGTERM"]), ("SIGINT", ["build", "-o", f"{folder}/SIGINT"]), ("SIGUSR1", ["run", "train.steps=1"])):
        environment = {**os.environ, "CXX": f"{folder}/slow_compiler", "XDG_CACHE_HOME": cache}
        with started(meshc(), *command, f"{folder}/slow.mesh", env=environment) as building:
            wait_until(lambda: os.path.exists(f"{folder}/started"))
            with open(f"{folder}/started") as file:
                sleeper = int(file.read())
            os.remove(f"{folder}/started")
            building.send_signal(getattr(signal, name))
            _, messages = building.communicate(timeout=20)
        wait_until(lambda: not alive(sleeper))
        report.true(f"{command[0]} ended by {name}", building.returncode == 130 and messages.endswith(f"{name} has ended the compiler: slow is not built\n"), messages)
    report.true("run ended by a signal leaves nothing in the cache", os.listdir(f"{cache}/meshwright") == [])


def check_odd_names(report, folder):
    """A spec's file name is no command for a shell; what stops the C++ compiler but its input is no mistake of meshc."""
    spec = f"{folder}/a$(touch {folder.replace('/', '_')}) b (1).mesh"
    with open(spec, "w") as file:
        file.write("model Count {\n  state n : f64 = 0\n  n <- n + 1\n}\n")
    before = set(os.listdir(folder))
    done = execute(meshc(), "run", spec, "train.steps=2", "--run-dir=none", cwd=folder, env={"XDG_CACHE_HOME": f"{folder}/cache"})
    execute(meshc(), "build", spec, "-o", "out of it", cwd=folder)
    report.true("a spec's name with signs of the shell", "2 steps" in done.stdout and set(os.listdir(folder)) - before == {"out of it"}, done.stdout)
    for name, value in (("CXXFLAGS", "-fno-such-thing"), ("TARGET", "none"), ("CXX", "/bin/false")):
        done = execute(meshc(), "build", spec, "-o", f"{folder}/{name}", code=None, env={name: value})
        report.true(f"{name}={value}", done.returncode == 3 and "internal" not in done.stderr, done.stderr)
    done = execute(meshc(), "fetch", spec, "n", "--out", spec, code=None)
    report.true("fetch --out FILE", done.returncode == 3 and "internal" not in done.stderr, done.stderr)


def check_full_disk(report, gpt):
    """Output that cannot be written is told, by one message and code 3, whatever the command has found."""
    commands = [["--help"], ["plan", "--help"], ["check", gpt, "--json"], ["plan", gpt], ["slurm", gpt], ["ir", gpt, "cpp"], ["ops"], ["explain"], ["data", "schema"], ["doctor"]]
    for command in commands:
        for file in ("/dev/full", "/dev/null"):
            with open(file, "w") as out:
                done = subprocess.run([meshc(), *command], stdout=out, stderr=subprocess.PIPE, text=True, timeout=60)
            told = done.stderr == "error: cannot write the output: No space left on device\n" and done.returncode == 3
            report.true(f"{' '.join(command)} >{file}".replace(TOP, ""), told if file == "/dev/full" else done.returncode == 0, done.stderr)
    with open("/dev/full", "w") as full:
        report.true("a full disk below stderr", subprocess.run([meshc(), "check", "none.mesh"], stderr=full, timeout=60).returncode == 3)


def check_run_file(report, folder):
    """A program runs with the run file that it was built with, whatever that is called; `slurm` names the same one."""
    for name, steps in (("count", 3), ("big", 2)):
        with open(f"{folder}/{name}.yaml", "w") as file:
            file.write(f"train: {{ steps: {steps} }}\n")
    with open(f"{folder}/count.mesh", "w") as file:
        file.write("model Count {\n  state n : f64 = 0\n  n <- n + 1\n}\n")
    arguments = ["count.mesh", "big.yaml", "-o", "of_big"]
    execute(meshc(), "build", *arguments, cwd=folder)
    done = execute(f"{folder}/of_big/count", "--run-dir=none", cwd=folder)
    report.true("a program takes its own run file before the spec's", "2 steps" in done.stdout, done.stdout)
    execute(meshc(), "build", *arguments, "--bundle", cwd=folder)
    for options in ([], ["--bundle"]):
        batch = execute(meshc(), "slurm", *arguments, *options, cwd=folder).stdout
        words = re.search(r"^srun --mpi=pmix (.*)", batch, re.M)[1].split()
        report.true(f"slurm {options} names the run file of build", words[1].startswith("of_big/count.") and os.path.exists(f"{folder}/{words[1]}"), words)
    report.true("slurm and bundle name different ones", words[1].endswith(".json"), words)
    os.remove(f"{folder}/count.yaml")
    rebuilt = execute(meshc(), "build", "count.mesh", "-o", "of_big", cwd=folder)
    report.true("build tells of an older run file", rebuilt.stderr.endswith("note: no run file was given; the program reads of_big/count.yaml, which was there before\n"), rebuilt.stderr)
    report.true("slurm without a run file", "srun --mpi=pmix count/count checkpoint.dir=count-ckpt\n" in execute(meshc(), "slurm", "count.mesh", cwd=folder).stdout)
    with open(f"{folder}/count.yaml", "w") as file:
        file.write("train: { steps: 3 }\n")
    done = execute(meshc(), "build", "count.mesh", "big.yaml", "-o", ".", "--no-compile", cwd=folder, code=2)
    with open(f"{folder}/count.yaml") as file:
        report.true("the spec's own run file is not written over", "name another folder by `-o DIR`" in done.stderr and "steps: 3" in file.read(), done.stderr)


def check_other_cpu(report, folder):
    """A program for a CPU of other instructions says so before it uses them; bdver4 has some that no other CPU has."""
    with open(f"{folder}/count.mesh", "w") as file:
        file.write("model Count {\n  state n : f64 = 0\n  n <- n + 1\n}\n")
    execute(meshc(), "build", "count.mesh", "--target", "bdver4", "-o", "bdver4", cwd=folder)
    done = execute(f"{folder}/bdver4/count", "train.steps=1", code=3, cwd=folder)
    report.true("a program for another CPU", "`count` is compiled for another CPU: this one does not have" in done.stderr and "xop" in done.stderr and done.stdout == "", done.stderr)


def check_other_layouts(report, folder):
    """Sizes on the command line are those of the chosen layout's mesh, for every layout on it."""
    with open(f"{folder}/open.mesh", "w") as file:
        file.write("dim batch = 4\nmodel M {\n  input x : real[batch]\n  y = x + 1\n  output y\n}\nmesh open { data: * }\n"
                   "layout default on open { batch -> data }\nlayout cluster on open { batch -> dta }\n")
    for sizes in (("-n", "2"), ("--mesh", "data=2")):
        done = execute(meshc(), "check", f"{folder}/open.mesh", *sizes, code=1)
        report.true(f"check {' '.join(sizes)} looks at every layout on the mesh", "did you mean `data`?" in done.stderr and "not checked" not in done.stderr, done.stderr)


def check_benches(report, folder):
    """A bench that lacks a package says at once which command installs it; here no Python has packages, and there is no compiler."""
    with open(f"{folder}/bare_python", "w") as file:
        file.write("#!/bin/sh\necho ModuleNotFoundError >&2\nexit 1\n")
    os.chmod(f"{folder}/bare_python", 0o755)
    peers = {"train --case T1": "torch", "bleu": "torch", "denoise": "torch", "generate": "transformers", "gspmd": "jax"}
    tried = [(f"{bench} without its peer", package, [*f"{TOP}/tests/bench/{bench}".split(), "--python", f"{folder}/bare_python"], None) for bench, package in peers.items()]
    # -S: without the folder of packages.
    tried += [(f"{bench} without NumPy", "python3-numpy", ["-S", f"{TOP}/tests/bench/{bench}"], None) for bench in ("train", "bleu", "denoise", "generate", "pipeline", "predicted", "experts")]
    tried.append(("train without a compiler", "g[+][+]", [f"{TOP}/tests/bench/train", "--case", "T1"], {"PATH": ""}))
    for name, package, command, environment in tried:
        done = execute("/usr/bin/python3", *command, code=None, timeout=60, env=environment)
        said = done.stdout + done.stderr
        found = re.search(rf"\b(apt-get|pip) install (\S+ )*{package}(?!\w)", said)
        report.true(f"bench {name}: what to install", found and "Traceback" not in said, found[0] if found else said.strip())


PLANS = """dim batch = 48, embed = 12, hidden = 24
model Net {
  input x : real[batch, embed]
  param up   : real[embed, hidden] = fan_in[embed]
  param down : real[hidden, embed] = fan_in[hidden]
  h    = relu(dot[embed](x, up))
  y    = dot[hidden](h, down)
  loss = mean[batch, embed]((y - max[batch](y)) ^ 2)
  minimize loss with adam(lr: 1e-3)
}
mesh plane { data: 2, model: 2 }
mesh line { data: * }
layout both on plane { batch -> data; hidden -> model }
layout plain on line { batch -> data }
layout three on line { batch -> data; params { hidden -> data } }
layout parts on line { batch -> data { accumulate: 3 } }
"""


def check_all_plans(report, folder):
    """A row for every layout and every mesh of so many ranks, as `plan` of each says, the fastest first; one that cannot be does not hide others."""
    with open(f"{folder}/net.mesh", "w") as file:
        file.write(PLANS)
    plans = json.loads(execute(meshc(), "plan", "net.mesh", "--all", "-n", "6", "-A", "batch_coupled", "--json", cwd=folder).stdout)["plans"]
    found = sorted((plan["layout"], *plan["mesh"]["axes"].values()) for plan in plans)
    wanted = sorted([("both", 1, 6), ("both", 2, 3), ("both", 3, 2), ("both", 6, 1), ("plain", 6), ("three", 6), ("parts", 6)])
    report.true("plan --all -n 6: every layout on every mesh of its axes", found == wanted, found)
    seconds = [plan["predicted_seconds"] for plan in plans]
    report.true("plan --all: the fastest first", seconds == sorted(seconds), seconds)
    for plan in plans:
        axes = ",".join(f"{axis}={size}" for axis, size in plan["mesh"]["axes"].items())
        alone = json.loads(execute(meshc(), "plan", "net.mesh", "--layout", plan["layout"], "--mesh", axes, "-A", "batch_coupled", "--json", cwd=folder).stdout)
        report.true(f"plan --all: {plan['layout']} on {axes} as `plan` has it", plan == {key: alone[key] for key in plan})
    lines = execute(meshc(), "plan", "net.mesh", "--all", cwd=folder).stdout.splitlines()
    report.true("plan --all: columns", lines[0].split() == ["layout", "mesh", "step", "compute", "exposed", "sent", "memory", "a", "rank"], lines[0])
    open_axis = "cannot be: E0409: axis `data` takes what ranks remain, and their number is not given (net.mesh:12)"
    report.true("plan --all: what cannot be comes last and says why", [line.split()[0] for line in lines[1:]] == ["both", "plain", "three", "parts"]
                and all(line.endswith(open_axis) and line.split()[1] == "line" for line in lines[2:]), lines)
    coupled = execute(meshc(), "plan", "net.mesh", "--all", "-n", "2", cwd=folder).stdout.splitlines()
    report.true("plan --all: a lint that is an error", coupled[-1].startswith("parts   data: 2  ") and "cannot be: batch_coupled: a sum over" in coupled[-1], coupled)
    for option, value, said in (("--layout", "both", "leave --layout out"), ("--mesh", "data=2", "give `-n N` in place of --mesh")):
        report.true(f"plan --all {option}", said in execute(meshc(), "plan", "net.mesh", "--all", option, value, code=2, cwd=folder).stderr)
    # One mistake in the model is told once, not a row for each layout.
    wrong = execute(meshc(), "plan", "bad.mesh", "--all", code=1, cwd=folder)
    report.true("plan --all of a bad spec", wrong.stdout == "" and wrong.stderr.count("error[") == 1, wrong.stdout + wrong.stderr)
    # Side by side.
    two = ("plan", "net.mesh", "--layout", "plain,three", "-n", "2")
    beside = json.loads(execute(meshc(), *two, "--json", cwd=folder).stdout)["plans"]
    alone = [json.loads(execute(meshc(), "plan", "net.mesh", "--layout", name, "-n", "2", "--json", cwd=folder).stdout) for name in ("plain", "three")]
    report.true("plan --layout plain,three --json: both plans", beside == alone)
    rows = {tuple(re.split(r"  +", line.strip())) for line in execute(meshc(), *two, cwd=folder).stdout.splitlines()}
    wanted = {("layout", "plain", "three"), ("mesh", "data: 2", "data: 2"), ("grads", *(sized(plan["memory"]["grads"]) for plan in alone)),
              ("all_gather up over data, forward", "-", "576 B"), ("up.moment1", "[embed, hidden]", "[embed, hidden/data]")}
    report.true("plan --layout plain,three: a column each", wanted <= rows, sorted(wanted - rows))
    # A pipeline has more to tell, whichever stands first, and replicas that train apart are no better way to the same numbers.
    with open(f"{folder}/deep.mesh", "w") as file:
        file.write("dim batch = 16, embed = 8, out = embed, layer = 8\nmodel Deep {\n  input x : real[batch, embed]\n  h = x\n  repeat layer {\n"
                   "    param w : real[embed, out] = fan_in[embed]\n    h = h + tanh(dot[embed](h, w))[out as embed]\n  }\n  loss = mean[batch, embed](h ^ 2)\n"
                   "  minimize loss with adam(lr: 1e-3)\n}\nmesh line { pipe: 2 }\nlayout staged on line { layer -> pipe { microbatches: 4 } }\n"
                   "layout shared on line { batch -> pipe }\nlayout apart on line { batch -> pipe { sync: 4 } }\n")
    for names in (("staged", "shared"), ("shared", "staged")):
        for told in (("plan", "deep.mesh", "--layout", ",".join(names)), ("diff", "deep.mesh", "--layout", names[0], "--layout", names[1])):
            table = [re.split(r"  +", line.strip()) for line in execute(meshc(), *told, cwd=folder).stdout.splitlines()]
            report.true(f"{' '.join(told)}: bubble and memory", {"bubble", "workspace", "memory a rank"} <= {row[0] for row in table}, table)
    every = execute(meshc(), "plan", "deep.mesh", "--all", cwd=folder).stdout.splitlines()
    report.true("plan --all: who trains apart", [line.endswith("changes numbers") for line in every if line.startswith(("apart", "staged"))].count(True) == 1
                and any(line.startswith("apart") and line.endswith("changes numbers") for line in every), every)
    reason = execute(meshc(), "explain", "deep.mesh", "h", "--layout", "staged", cwd=folder).stdout
    report.true("explain: of a value at one stage", "at pipe 1" in reason and "it is computed at these ranks, which hold all of it" in reason, reason)
    unknown = execute(meshc(), "plan", "net.mesh", "--layout", "plain,thre", "-n", "2", code=1, cwd=folder)
    report.true("plan --layout plain,thre", "did you mean `three`?" in unknown.stderr and unknown.stdout == "", unknown.stderr)


def check_calls(report, folder):
    """Two calls of one block have a path each, in `plan`, its collectives and JSON, `fetch` and `verify`; values that one name has in turn have their lines."""
    with open(f"{folder}/calls.mesh", "w") as file:
        file.write("dim batch = 4, turn = 2\nblock rest(u : real[batch]) -> real[batch] {\n  double = u * 2\n  middle = mean[batch](double)\n  return double - middle\n}\n"
                   "model M {\n  input u : real[batch]\n  y = rest(rest(u) + u)\n  h = y\n  repeat turn {\n    h = tanh(h)\n    h = h * 3\n  }\n  output y, h\n}\n"
                   "mesh line { data: 2 }\nlayout default on line { batch -> data }\n")
    paths = ["rest.double", "rest.middle", "rest", "rest#2.double", "rest#2.middle", "rest#2"]
    text = execute(meshc(), "plan", "calls.mesh", cwd=folder).stdout
    names = re.findall(r"^  (\S+) +activation ", text, re.M)
    report.true("plan: each call of a block has a path of its own", [name for name in names if name.startswith("rest")] == paths, names)
    needed = re.findall(r"needed by `divide` of `(.*)`", text)
    report.true("plan: and so have its collectives", needed == ["rest.middle", "rest#2.middle"], needed)
    lines = re.findall(r"^  turn.h .*, (line \d+)$", text, re.M)
    report.true("plan: values that one name has in turn have their lines", lines == ["line 12", "line 13"], lines)
    named = [tensor["name"] for tensor in json.loads(execute(meshc(), "plan", "calls.mesh", "--json", cwd=folder).stdout)["tensors"]]
    report.true("plan --json: the same paths", [name for name in named if name.startswith("rest")] == paths, named)
    verified = re.findall(r"^(rest\S*) ", execute(meshc(), "verify", "calls.mesh", cwd=folder).stdout, re.M)
    report.true("verify: the same paths", sorted(verified) == sorted(paths), verified)
    u = np.array([1, -2, 3, 4], np.float32)
    np.save(f"{folder}/u.npy", u)
    execute(meshc(), "fetch", "calls.mesh", "rest.double", "rest#2.double", "--feed", "u=u.npy", "--out", "calls", cwd=folder)
    done = execute(meshc(), "fetch", "calls.mesh", "rest.double", "--feed", "u=calls/rest.double.npy", "--out", "calls", cwd=folder, code=None)
    report.true("what is fed is not written over", done.returncode == 2 and "--out calls/rest.double.npy: that is a file which is read; name another" in done.stderr, done.stderr)
    wanted = {"rest.double": 2 * u, "rest#2.double": 2 * (2 * (u - u.mean()) + u)}
    report.true("fetch: the value of each call", all(np.array_equal(np.load(f"{folder}/calls/{name}.npy"), value) for name, value in wanted.items()))
    # A reduced value without a name has the name of its op alone: its line says which call it is of.
    with open(f"{folder}/nameless.mesh", "w") as file:
        file.write("dim batch = 4, turn = 2\nblock rest(u : real[batch]) -> real[batch] {\n  return u - tanh(sum[batch](u))\n}\n"
                   "block twice(u : real[batch]) -> real[batch] {\n  return rest(rest(u)) / exp(max[batch](u))\n}\n"
                   "model M {\n  input u : real[batch]\n  param w : real[batch] = ones\n  h = twice(twice(u * w)) + rest(u) + sin(max[batch](u))\n"
                   "  repeat turn {\n    h = rest(rest(h))\n  }\n  loss = sum[batch](h)\n  minimize loss with sgd(lr: 1e-3)\n}\n"
                   "mesh line { data: 2 }\nlayout default on line { batch -> data }\n")
    text = execute(meshc(), "plan", "nameless.mesh", cwd=folder).stdout
    lines = re.findall(r"^  (all_reduce \S+\[batch\] over .*)$", text, re.M)
    report.true("plan: two calls that reduce values without names have lines of their own", len(set(lines)) == len(lines) > 8, lines)
    forward = [re.sub(r"^all_reduce (\S+) .*, nameless.mesh:(\d+)", r"\1 \2", line) for line in lines if " in forward, " in line]
    wanted = ["sum[batch] 3 in twice.rest", "sum[batch] 3 in twice.rest#2", "max[batch] 6 in twice", "sum[batch] 3 in twice#2.rest", "sum[batch] 3 in twice#2.rest#2",
              "max[batch] 6 in twice#2", "sum[batch] 3 in rest", "max[batch] 11", "sum[batch] 3 in turn.rest", "sum[batch] 3 in turn.rest#2"]
    report.true("plan: and say which call it is", sorted(forward) == sorted(wanted), forward)
    planned = json.loads(execute(meshc(), "plan", "nameless.mesh", "--json", cwd=folder).stdout)["collectives"]
    named = [f"{one['tensor']} {one['line']}" + (f" in {one['in']}" if one["in"] else "") for one in planned if one["tensor"] in ("sum[batch]", "max[batch]") and one["phase"] == "forward"]
    report.true("plan --json: the same calls", sorted(named) == sorted(wanted), named)
    execute(meshc(), "plan", "nameless.mesh", "--html", "nameless.html", cwd=folder)
    with open(f"{folder}/nameless.html") as page:
        text = page.read()
    report.true("plan --html: the same calls", all(f" in <code>{line.split(' in ')[1]}</code>" in text for line in wanted if " in " in line))
    # What follows the call of a block by its own name is of the model again.
    with open(f"{folder}/behind.mesh", "w") as file:
        file.write("dim batch = 4, d = 8\nblock Scale(x : real[batch, d]) -> real[batch, d] {\n  param w : real[d] = ones\n  return x * w\n}\n"
                   "model M {\n  input x : real[batch, d]\n  loss = mean[d](tanh(mean[batch](Scale(x))))\n  minimize loss with sgd(lr: 0.1)\n}\n"
                   "mesh line { data: 2 }\nlayout default on line { batch -> data }\nbudget default { collectives in Scale == { all_reduce: 1 } }\n")
    held = json.loads(execute(meshc(), "plan", "behind.mesh", "--json", cwd=folder).stdout)
    places = [(one["tensor"], one["in"]) for one in held["collectives"]]
    report.true("plan: what follows a call is not of it", held["budget"][0]["holds"] and places == [("sum[batch]", ""), ("d_Scale.w", "Scale")], (places, held["budget"]))


def sized(count):
    """As the program writes it: 576 B, 1.5 KiB."""
    return f"{count} B" if count < 1024 else f"{count / 1024:.1f} KiB"


def check_large_model(report, gpt):
    """A model whose attention scores no machine could hold: they are never held, and only what a rank holds has to fit."""
    sizes = [word for size in ("seq=8192", "heads=64", "head_dim=128", "embed=8192", "layer=80", "batch=128") for word in ("--set", size)]
    memory = json.loads(execute(meshc(), "plan", gpt, "--layout", "sequence", "--mesh", "data=128,model=8", *sizes, "--json").stdout)["memory"]
    report.true("plan of 80 layers on 1024 ranks: what a rank holds", 2**30 < memory["peak"] < 2**37, memory)
    one = execute(meshc(), "plan", gpt, "--layout", "sequence", "--mesh", "data=1,model=1", *sizes, "--set", "batch=100000", code=1).stderr
    report.true("plan of what no rank can hold: one error with numbers", one.count("error[") == 1 and "error[E0221]: a rank would hold at least " in one and "TiB" in one and "-> AXIS" in one, one)


def check_slurm(report, gpt):
    """The batch file is one for sh, has the mesh's ranks on its nodes, and keeps words together; what would be another option is refused."""
    written = execute(meshc(), "slurm", gpt, "--mesh", "data=4,model=2", "--nodes", "2", "--time", "12:00:00", "data.token.file=it's").stdout
    report.true("slurm: nodes and tasks", "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n" in written and "--time=12:00:00\n" in written, written[:200])
    report.true("slurm: a word stays one", "'data.token.file=it'\\''s'\n" in written)
    with scratch() as folder:
        with open(f"{folder}/job.sh", "w") as file:
            file.write(written)
        for bad in (["--time", "abc"], ["train.step=3"]):
            report.true(f"slurm {bad[-1]}", execute(meshc(), "slurm", gpt, *bad, code=None).returncode in (1, 2))
        report.true("slurm: sh reads it", execute("sh", "-n", f"{folder}/job.sh", code=None).returncode == 0)
    uneven = execute(meshc(), "slurm", gpt, "--mesh", "data=4,model=2", "--nodes", "3", code=2).stderr
    report.true("slurm: nodes that do not divide the ranks", "8 ranks on 3 nodes" in uneven, uneven)
    for time, signal, good in (("00:01:00", 120, False), ("00:03:59", 120, False), ("00:04:00", 120, True), ("5", 181, False), ("5", 180, True), ("5:30", 211, False),
                               ("5:30", 210, True), ("01:00:00", 5000, False), ("1-0", 65535, True), ("0-2:1", 7141, False), ("0-2:1", 7140, True), ("0", 120, True)):
        done = execute(meshc(), "slurm", gpt, "--time", time, "--signal", str(signal), code=0 if good else 2)
        report.true(f"slurm: a job of {time} that is told {signal} seconds before its end runs for a while", good or "may be told to stop before its first step is done" in done.stderr, done.stderr)
    report.true("slurm: no second option", "has characters" in execute(meshc(), "slurm", gpt, "--partition", "all --exclusive", code=2).stderr)


def check_tuning(report, folder):
    """`doctor --tune` writes a table by which programs multiply, where MESHRT_GEMM names it."""
    table = f"{folder}/here.table"
    rows = json.loads(execute(meshc(), "doctor", "--tune", table, "--json").stdout)["rows"]
    kinds = {(kind, shape) for kind in ("f32", "f64", "bf16") for shape in ("with_epilogue", "thin", "small", "matrix")} | {("bf16", "in_pairs")}
    report.true("doctor --tune: a row of each type and class", {(row["type"], row["class"]) for row in rows} == kinds and len(rows) == 13, rows)
    with open(table) as file:
        written = [line.split()[:3] for line in file if not line.startswith("#")]
    report.true("doctor --tune: the file has the same", written == [[row["type"], row["class"], row["chosen"]] for row in rows], written)
    again = execute(meshc(), "doctor", "--tune", table, env={"MESHRT_GEMM": table}).stdout
    report.true("doctor --tune: the file that MESHRT_GEMM names is measured anew", again.count("\n") == 14 and f"MESHRT_GEMM={table}" in again, again)
    fresh = execute(meshc(), "doctor", "--tune", f"{folder}/fresh.table", env={"MESHRT_GEMM": f"{folder}/fresh.table"}).stdout
    report.true("doctor --tune: or written where it is not there", os.path.getsize(f"{folder}/fresh.table") > 200, fresh)
    nowhere = execute(meshc(), "doctor", "--tune", f"{folder}/none/here.table", code=3)
    report.true("doctor --tune: a file that cannot be written is refused first", "cannot write" in nowhere.stderr and nowhere.stdout == "", nowhere.stderr)
    said = execute(meshc(), "doctor", env={"MESHRT_GEMM": table}).stdout
    report.true("doctor: products by the table", re.search(r"products here: own .*, by table [0-9a-f]{8}\n", said), said)
    other = f"{folder}/other.table"
    with open(table) as file, open(other, "w") as to:
        to.write(re.sub(r"f32  thin +\w+", "f32  thin onednn", file.read()))
    for variable, given, code, words in (
            ("GEMM", other, 1, f"{other}:4: `f32  thin onednn"),
            ("GEMM", f"{folder}/none.table", 2, "which is not there or empty; `meshc doctor --tune"),
            ("GEMM", "here.table", 2, "it may be `own`, `openblas`, `onednn`, or a file that `meshc doctor --tune` has written, with its folder: `./here.table`"),
            ("ISA_LEVEL", "sse2", 2, "MESHRT_ISA_LEVEL is `sse2`; it may be ")):
        done = execute(meshc(), "doctor", code=code, env={f"MESHRT_{variable}": given})
        report.true(f"doctor: MESHRT_{variable}={os.path.basename(given)} is refused", words in done.stderr, done.stderr)


def check_read_files(report, folder):
    """What a command reads it does not write over, and a name that is given twice has one number."""
    path = f"{folder}/read.mesh"
    spec = "dim batch = 8, from = 4\nmodel Read {\n  input x : real[batch, from]\n  param w : real[from] = fan_in[from]\n  loss = mean[batch](dot[from](x, w) ^ 2)\n  minimize loss with sgd(lr: 1e-2)\n}\n"
    with open(path, "w") as file:
        file.write(spec + "mesh line { data: 2 }\nlayout default on line { batch -> data }\n")
    with open(f"{folder}/read.csv", "w") as file:
        file.write(execute(meshc(), "schedule", "1f1b", "--stages", 2, "--microbatches", 2, "--csv").stdout)
    before = {name: open(f"{folder}/{name}").read() for name in ("read.mesh", "read.csv")}
    read = "that is a file which is read; name another"
    for command, words in (
            (("plan", path, "--html", path), f"--html {path}: {read}"), (("schedule", f"{folder}/read.csv", "--svg", f"{folder}/../{os.path.basename(folder)}/read.csv"), read),
            (("schedule", f"{folder}/read.csv", "--trace", f"{folder}/read.csv"), f"--trace {folder}/read.csv: {read}"),
            (("fetch", path, "--save-params", path), f"--save-params {path}: {read}"), (("doctor", "--tune", path), "that file is no table of products; name another"),
            (("layout", path, "--mesh", "data=2", "--write", f"{folder}/read.csv"), "layouts stand in a file that is named NAME.mesh"),
            (("plan", path, "--mesh", "data=2,data=4"), "--mesh data=4: `data` is 2 already; give one of them")):
        done = execute(meshc(), *command, code=None)
        report.true(f"{command[0]} {command[-2]} {os.path.basename(command[-1])}: refused", done.returncode == 2 and words in done.stderr, done.stderr)
    report.true("and the files are as they were", all(open(f"{folder}/{name}").read() == text for name, text in before.items()))
    for _ in range(2):
        execute(meshc(), "layout", path, "--mesh", "pod=4", "--write", f"{folder}/more.mesh")
    more = open(f"{folder}/more.mesh").read()
    report.true("layout --write: a second answer has another name, and the mesh of the first", more.count("mesh grid {") == 1 and "layout found on" in more and "layout found2 on" in more, more)
    execute(meshc(), "layout", path, "--mesh", "data=4", "--write", f"{folder}/wide.mesh")
    report.true("layout --write: a mesh of the spec of another size is not meant", "mesh grid { data: 4 }" in open(f"{folder}/wide.mesh").read())
    with open(f"{folder}/plain.mesh", "w") as file:
        file.write("dim row = 2\nmodel Plain {\n  input x : real[row]\n  y = x * 2 + 1\n}\n")
    said = execute(meshc(), "bench", f"{folder}/plain.mesh", "--steps", 3, timeout=120).stdout
    report.true("bench of what computes nothing", "where a step goes" in said and "nan" not in said and "lines of the spec" not in said, said)
    np.save(f"{folder}/rows.npy", np.ones((4, 3), np.float32))
    with open(f"{folder}/rows.mesh", "w") as file:
        file.write("dim batch = 2, row = 3\nmodel Rows {\n  input x : real[batch, row]\n  param w : real[row] = ones\n  loss = mean[batch, row]((x * w) ^ 2)\n  minimize loss with sgd(lr: 0.1)\n}\n")
    with open(f"{folder}/rows.yaml", "w") as file:
        file.write("data: { x: {file: rows.npy} }\n")
    done = execute(meshc(), "bench", f"{folder}/rows.mesh", "--set", "row=5", "--steps", 3, code=1)
    report.true("bench: data of another size is told before the machine is measured", "does not fit `x`" in done.stderr and "measuring" not in done.stderr, done.stderr)
    said = execute(meshc(), "bench", f"{folder}/rows.mesh", "--set", "row=5", "--steps", 3, "--random", timeout=120).stdout
    report.true("bench --random: without it", "where a step goes" in said, said)
    odd = "poems, 1: it's.txt"
    with open(f"{folder}/{odd}", "w") as file:
        file.write("The quick brown fox jumps over the lazy dog.\n" * 200)
    execute(meshc(), "new", "odd", "--text", odd, cwd=folder)
    done = execute(meshc(), "run", "odd.mesh", "train.steps=1", cwd=folder, code=None, timeout=120)
    report.true("new: a text of any name", done.returncode == 0 and "step 1/1" in done.stdout, done.stdout + done.stderr)
    report.true("layout --write: and the file can be used", "4 ranks" in execute(meshc(), "plan", path, f"{folder}/more.mesh", "--layout", "found2").stdout)


def run(small):
    report = Report()

    def action():
        gpt, mlp = f"{TOP}/specs/gpt.mesh", f"{TOP}/specs/mlp.mesh"
        listed = set(re.findall(r"^  (\w+)  ", execute(meshc(), "--help").stdout.partition("\nCommands:\n")[2], re.M))
        report.true("--help lists the commands", listed == COMMANDS, sorted(listed ^ COMMANDS))
        examples = set()
        for command in sorted(COMMANDS):
            text = execute(meshc(), command, "--help").stdout
            examples |= {(spec, name) for spec, layouts in re.findall(r"^  meshc \w+ (\w+)\.mesh (?!\S*\.mesh).*?--layout (\S+)", text, re.M) for name in layouts.split(",")}
            report.true(f"{command} --help", "Usage" in text and "Examples" in text)
            report.true(f"{command} --help: letters alone", all(letter.isprintable() or letter == "\n" for letter in text))
            report.true(f"{command} --no-such-option", execute(meshc(), command, gpt, "--no-such-option", code=None).returncode == 2)
        specs = {name: open(f"{TOP}/specs/{name}.mesh").read() for name in {spec for spec, _ in examples}}
        missing = [(spec, name) for spec, name in examples if not re.search(rf"^layout {name} ", specs[spec], re.M)]
        report.true("--help: the specs of examples have their layouts", len(examples) >= 4 and not missing, missing or examples)
        report.true("no command", execute(meshc(), code=None).returncode == 2)
        check_slurm(report, gpt)
        check_full_disk(report, gpt)
        check_large_model(report, gpt)
        with scratch() as folder:
            bad = os.path.join(folder, "bad.mesh")
            with open(bad, "w") as file:
                file.write("dim a = 2\nmodel M {\n  input x : f32[a]\n  y = sum[b](x)\n}\n")
            for command in ("check", "plan"):
                done = execute(meshc(), command, bad, code=None)
                report.true(f"{command} of a bad spec", done.returncode == 1 and "error[E0" in done.stderr and "bad.mesh:4" in done.stderr, done.stderr[:200])
            lines = execute(meshc(), "check", bad, "--diagnostics=json", code=1).stderr.splitlines()
            report.true("--diagnostics=json", all({"level", "code", "message", "spans"} <= set(json.loads(line)) for line in lines) and lines)
            absent = execute(meshc(), "evaluate", gpt, os.path.join(folder, "none.yaml"), "--diagnostics=json", code=1).stderr
            report.true("--diagnostics=json: a run file that is not there", "none.yaml" in json.loads(absent)["message"], absent)
            for command in ("check", "plan", "verify", "layout"):
                said = execute(meshc(), command, gpt, os.path.join(folder, "none.yaml"), code=2).stderr
                report.true(f"{command}: reads no run file", "none.yaml: this command reads no run file: leave it out" in said, said)
            for what, arguments in (("a number that is no size", ("plan", gpt, "--memory", "3")), ("an option that there is not", ("plan", gpt, "--nosuch")), ("no such command", ("plam",))):
                said = execute(meshc(), *arguments, "--diagnostics", "json", code=2).stderr
                report.true(f"--diagnostics=json: {what}", json.loads(said)["level"] == "error" and json.loads(said)["helps"] and said.count("\n") == 1, said)
            report.true("a spec that is not there", execute(meshc(), "check", os.path.join(folder, "none.mesh"), code=None).returncode == 1)
            check_benches(report, folder)
            check_all_plans(report, folder)
            check_calls(report, folder)
            check_read_files(report, folder)
            check_new(report, folder)
            check_before_compiling(report, folder)
            check_parameters(report, folder)
            check_cache(report, folder)
            check_how_long(report, folder)
            check_interrupted(report, folder)
            check_odd_names(report, folder)
            check_run_file(report, folder)
            check_other_layouts(report, folder)
            check_other_cpu(report, folder)
        doctor = json.loads(execute(meshc(), "doctor", "--json").stdout)
        report.true("doctor --json", doctor["ok"] and {"processors", "UCX", "C++ compiler", "runtime"} <= {f["subject"] for f in doctor["findings"]})
        for kernels in ("own", "openblas"):
            said = next(f["found"] for f in json.loads(execute(meshc(), "doctor", "--json", env={"MESHRT_GEMM": kernels}).stdout)["findings"] if f["subject"] == "OpenBLAS")
            report.true(f"doctor: whose kernels multiply, MESHRT_GEMM={kernels}", f"products here: {kernels} " in said, said)
        with scratch() as tuned:
            check_tuning(report, tuned)
        said = execute(meshc(), "doctor", env={"UCX_TCP_PORT_RANGE": "50000-50999", "MESHRT_TOKEN": "a-secret-of-this-test", "MESHRT_ADDRESS": "10.1.2.3"}).stdout
        report.true("doctor: what listens", all(words in said for words in ("on no network", "a TCP port at MESHRT_ADDRESS=10.1.2.3", "UCX_TCP_PORT_RANGE=50000-50999 of every rank", "MESHRT_TOKEN\n")), said)
        done = execute(meshc(), "doctor", code=None, env={"PATH": "", "CXX": ""})
        report.true("doctor without a compiler", done.returncode == 3 and "apt-get install g++" in done.stdout, done.stdout)
        report.true("check", execute(meshc(), "check", gpt, "--layout", "default").returncode == 0)
        plan = json.loads(execute(meshc(), "plan", gpt, "--json").stdout)
        report.true("plan --json", {"schema", "mesh", "tensors", "collectives", "memory", "budget", "flops", "predicted_seconds"} <= set(plan))
        wide = ("plan", gpt, "--layout", "megatron")
        places = {c["tensor"]: c["file"] for c in json.loads(execute(meshc(), *wide, "--json").stdout)["collectives"]}
        places = places["d_layer.norm2"], places["layer.attn"]
        report.true("plan --json: the file of a line", places == ("std.nn", "gpt.mesh"), places)
        report.true("plan: whose a line of the library is", re.search(r"all_reduce d_layer.norm2 .*, std.nn:\d+ in layer.norm2\n", execute(meshc(), *wide).stdout))
        checked = json.loads(execute(meshc(), "check", gpt, "--json").stdout)
        report.true("check --json", checked["ok"] and {"schema", "diagnostics"} <= set(checked))
        with scratch() as folder:
            np.save(f"{folder}/image.npy", np.zeros((8, 784), np.uint8))
            np.save(f"{folder}/label.npy", np.zeros(8, np.int32))
            feeds = ("--feed", f"image={folder}/image.npy", "--feed", f"label={folder}/label.npy")
            json.loads(execute(meshc(), "fetch", mlp, "loss", *SMALL, *feeds, "--out", folder, "--json").stdout)
            report.true("fetch --json", np.isfinite(np.load(f"{folder}/loss.npy")))
        for command in (("program",), ("sharded",), ("cpp",)):
            done = execute(meshc(), "ir", mlp, *command, *SMALL, "--entry", "generate.promp", code=None)
            report.true(f"ir {command[0]} of an entry that there is not", done.returncode == 1 and "E0511" in done.stderr and done.stdout == "", done.stderr)
            done = execute(meshc(), "ir", mlp, *command, *SMALL, "--entry", "evalaute", code=None)
            report.true(f"ir {command[0]} of another such entry", done.returncode == 2 and "no entry `evalaute`; its entries are: train, evaluate\n" in done.stderr and done.stdout == "", done.stderr)
        report.true("ir of an entry and a pass of the whole program", execute(meshc(), "ir", mlp, "program", *SMALL, "--entry", "evaluate").stdout == execute(meshc(), "ir", mlp, "program", *SMALL).stdout)
        done = execute(meshc(), "ir", mlp, "ast", "--entry", "evaluate", code=None)
        report.true("ir ast of an entry", done.returncode == 2 and "`ast` is of the whole spec, which has no entries yet: leave `--entry` out" in done.stderr, done.stderr)
        listed = json.loads(execute(meshc(), "plan", mlp, "--json", *SMALL).stdout)["tensors"]
        for name in [one["name"] for one in listed if one["kind"] == "gradient"]:
            report.true(f"explain: what plan calls `{name}`", execute(meshc(), "explain", mlp, name, *SMALL).stdout.startswith(f"{name} : "))
        told = json.loads(execute(meshc(), "explain", mlp, "h", *SMALL, "--json").stdout)["values"][0]
        planned = json.loads(execute(meshc(), "plan", mlp, "--json", *SMALL).stdout)
        lies = [one for one in planned["tensors"] if one["name"] == "h"]
        report.true("explain --json: how a value lies, as plan says", [{k: v for k, v in one.items() if k != "why"} for one in told["lies"]] == lies, told)
        report.true("explain --json: why, and what another rule would cost", told["lies"][0]["why"][0]["causes"][0]["line"] > 0 and told["now"]["predicted_seconds"] == planned["predicted_seconds"]
                    and all(one["rule"].startswith("tensor h {") and one["predicted_seconds"] > 0 for one in told["otherwise"]) and told["otherwise"], told)
        page = json.loads(execute(meshc(), "explain", "E0301", "idle_mesh_axis", "--json").stdout)["diagnostics"]
        report.true("explain --json: diagnostics", [one["code"] for one in page] == ["E0301", "idle_mesh_axis"] and all(one["title"] and one["text"] for one in page), page)
        report.true("explain", "E0301" in execute(meshc(), "explain", "E0301").stdout)
        report.true("ops", "gradient  d_x = d * y" in execute(meshc(), "ops", "exp").stdout and "softmax[b]" in execute(meshc(), "ops").stdout)
        report.true("ops --json", json.loads(execute(meshc(), "ops", "dot", "--json").stdout)["ops"][0]["numpy"].startswith("np.einsum"))
        schedule = ["schedule", "interleaved", "--stages", 4, "--microbatches", 8, "--cost", "F=1:1:1:2,latency=0.5"]
        with scratch() as folder:
            made = json.loads(execute(meshc(), *schedule, "--json", "--svg", f"{folder}/a.svg", "--trace", f"{folder}/a.json").stdout)
            with open(f"{folder}/a.csv", "w") as file:
                file.write(execute(meshc(), *schedule, "--csv", "--communication").stdout)
            again = json.loads(execute(meshc(), "schedule", f"{folder}/a.csv", *schedule[6:], "--json").stdout)
            events = json.load(open(f"{folder}/a.json"))["traceEvents"]
            svg = open(f"{folder}/a.svg").read()
        report.true("schedule: a file with sends takes as long as the name", all(made[key] == again[key] for key in ("makespan", "idle", "peak_in_flight")) and made["makespan"] > 28.5)
        report.true("schedule: a rectangle and an event an action", len(events) == 4 * 8 * 2 * 2 and svg.count("<title>") == len(events))
        for costs in ("F=0,I=0,W=0", "F=1e308,I=1e308,W=1e308"):
            for asked in (("1f1b",), ("--compare",)):
                done = execute(meshc(), "schedule", *asked, "--stages", 2, "--microbatches", 2, "--cost", costs, code=None, timeout=60)
                report.true(f"schedule {asked[0]}: costs {costs}", done.returncode == 2 and "it needs a cost above 0, and none that is beyond all numbers" in done.stderr, done.stderr)
        spec = f"{TOP}/specs/tour/16_pipeline.mesh"
        numbers = ("--stages", 2, "--microbatches", 2)
        for asked, said in (((spec, "--layout", "turns", "--remat", "stage"), "a spec says its own: leave --remat out"), ((spec, "--layout", "turns", "--stages", 2), "a spec says its own: leave --stages out"),
                            (("1f1b", *numbers, "--layout", "turns"), "that is of a spec: leave --layout out"), (("--compare", *numbers, "--set", "batch=4"), "that is of a spec: leave --set out"),
                            (("1f1b", *numbers, "--communication"), "--communication requires --csv"), (("1f1b", *numbers, "--csv", "--json"), "--csv excludes --json"),
                            (("--compare", *numbers, "--csv"), "--compare excludes --csv"), (("--compare", *numbers, "--svg", "never.svg"), "leave --svg and --trace out"),
                            (("1f1b", *numbers, "--cost", "F=1,F=2"), "--cost F=2: F is given twice"), (("1f1b", *numbers, "--remat", "foo"), "--remat: foo not in {none,stage,except_last}")):
            done = execute(meshc(), "schedule", *asked, code=None)
            report.true(f"schedule refuses what it would not read: {' '.join(map(str, asked[-2:]))}", done.returncode == 2 and said in done.stderr and done.stdout == "", done.stderr)
        sends = execute(meshc(), "schedule", spec, "--layout", "turns", "--csv", "--communication").stdout
        report.true("schedule SPEC --csv --communication", "0SEND_F0" in sends and "SEND" not in execute(meshc(), "schedule", spec, "--layout", "turns", "--csv").stdout, sends)
        done = execute(meshc(), "reshard", "--mesh", "a=2", "--shape", "x=4", "--from", "x -> a", "--to", "", "--type", "i32", code=2)
        report.true("reshard --type of another name", "--type: i32 not in {f32,f64,bf16,f16}" in done.stderr, done.stderr)
        report.true("schedule --compare", len(json.loads(execute(meshc(), "schedule", "--compare", "--stages", 2, "--microbatches", 4, "--json").stdout)["schedules"]) == 9)
        with scratch() as folder:
            with open(f"{folder}/coupled.mesh", "w") as file:
                file.write(COUPLED)
            done = execute(meshc(), "schedule", f"{folder}/coupled.mesh", "-A", "batch_coupled", "--compare", "--json")
        report.true("schedule SPEC --compare: what is allowed is allowed under each", len(json.loads(done.stdout)["schedules"]) == 9, done.stdout)
        unknown = execute(meshc(), "ops", "softmx", code=2).stderr
        report.true("ops of an unknown name", "did you mean `softmax`?" in unknown, unknown)
        report.true("verify --json", json.loads(execute(meshc(), "verify", mlp, *SMALL, "--json").stdout))
        report.true("NO_COLOR", "\033[" not in execute(meshc(), "check", gpt, "--layout", "nothing", code=1, env={"NO_COLOR": "1"}).stderr)

    report.attempt("commands", action)
    with scratch() as folder:
        report.attempt("machine", lambda: check_machine(report, folder))
    return report
