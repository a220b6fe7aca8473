"""Checkpoints of a training gpt: the same tensors under every mesh, curves that go on, damage that is noticed, and a writer that is killed at random
moments."""
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import time

import numpy as np

from common import TOP, Report, json_lines, meshc, scratch, sets
from common import run as execute
from hosts import MESHRUN
from network import permitted
from processes import children, started, wait_until

SEED = 20261120
GPT = dict(batch=12, seq=16, embed=48, heads=6, head_dim=8, layer=2, vocab=64)
MESHES = {"four": ("data=2,model=2", 4), "one": ("data=1,model=1", 1), "two": ("data=1,model=2", 2), "three": ("data=3,model=1", 3)}
TYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": np.uint16, "I32": np.int32, "I64": np.int64, "U8": np.uint8, "BOOL": np.uint8}


def read_file(path):
    """The tensors of a safetensors file; of bf16, which NumPy does not have, the bits."""
    with open(path, "rb") as file:
        bytes_ = file.read()
    length = struct.unpack("<Q", bytes_[:8])[0]
    found = {}
    for tensor, entry in json.loads(bytes_[8:8 + length]).items():
        if tensor == "__metadata__":
            continue
        begin, end = (8 + length + at for at in entry["data_offsets"])
        found[tensor] = np.frombuffer(bytes_[begin:end], TYPES[entry["dtype"]]).reshape(entry["shape"])
    return found


def write_file(path, arrays):
    """A safetensors file of arrays of f32, f16, and u16 that are the bits of bf16."""
    entries, data = {}, b""
    for name, x in arrays.items():
        entries[name] = {"dtype": {"uint16": "BF16", "float16": "F16"}.get(str(x.dtype), "F32"), "shape": list(x.shape), "data_offsets": [len(data), len(data) + x.nbytes]}
        data += x.tobytes()
    header = json.dumps(entries).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + data)


def tensors(folder):
    """Every tensor of a checkpoint, read without the runtime: the format is that of Hugging Face."""
    found = {}
    for kind in ("model", "optimizer"):
        with open(f"{folder}/{kind}.safetensors.index.json") as file:
            places = json.load(file)["weight_map"]
        for name in sorted(set(places.values())):
            found |= read_file(f"{folder}/{name}")
    return found


def same(a, b):
    """Whether two checkpoints have the same tensors, bit by bit."""
    first, second = tensors(a), tensors(b)
    return first.keys() == second.keys() and all(x.dtype == second[n].dtype and x.shape == second[n].shape and x.tobytes() == second[n].tobytes()
                                                 for n, x in first.items())


class Bench:
    """Programs of one gpt for several meshes, and where they run."""

    def __init__(self, folder, meshes, precision):
        self.folder = folder
        tokens = np.random.default_rng(SEED).integers(0, GPT["vocab"], 12 * 16 * 40 + 1).astype(np.uint16)
        tokens.tofile(f"{folder}/tokens.bin")
        with open(f"{folder}/run.yaml", "w") as file:
            file.write("data: { token: {file: tokens.bin, type: u16, window: seq}, target: {of: token, shift: 1} }\n")
        for name in meshes:
            execute(meshc(), "build", f"{TOP}/specs/gpt.mesh", *sets(**GPT), "--mesh", MESHES[name][0], "--precision", precision, "-o", f"{folder}/{name}")

    def command(self, mesh, *keys):
        return [f"{self.folder}/{mesh}/gpt", "-n", str(MESHES[mesh][1]), f"{self.folder}/run.yaml", *keys]

    def train(self, mesh, name, steps, *keys, code=0):
        """Trains up to `steps` with the checkpoints and the log `name`; the losses in the log, by step."""
        log = f"{self.folder}/{name}.jsonl"
        done = execute(*self.command(mesh, f"train.steps={steps}", f"checkpoint.dir={self.folder}/{name}", f"log.jsonl={log}", "log.every=1", *keys), code=code)
        losses = {line["step"]: line["loss"] for line in json_lines(log) if "loss" in line} if os.path.exists(log) else {}
        return losses, done


def check_meshes(report, bench):
    whole, _ = bench.train("four", "whole", 20)
    bench.train("four", "first", 10)
    report.true("an uninterrupted run has its 20 losses", sorted(whole) == list(range(1, 21)))
    with open(f"{bench.folder}/first/step-10/checkpoint.json") as file:
        kept = json.load(file)
    of_spec = {"beta1": 0.9, "beta2": 0.99, "bias_correction": 1, "clip": 1, "epsilon": 1e-8, "weight_decay": 0.1, "frozen": 0,
               "lr.cosine.floor": 0, "lr.cosine.steps": 0, "lr.cosine.warmup": 100}
    of_spec |= {f"{norm}.{param}:weight_decay": 0 for norm in ("last", "layer.norm1", "layer.norm2") for param in ("gain", "bias")}
    report.true("the checkpoint names the optimizer and its settings", (kept["optimizer"], kept["settings"]) == ("adamw", of_spec), (kept.get("optimizer"), kept.get("settings")))
    report.true("the checkpoint has parameters and moments", len(tensors(f"{bench.folder}/first/step-10")) == 3 * 14, len(tensors(f"{bench.folder}/first/step-10")))
    for mesh in MESHES:
        ranks = MESHES[mesh][1]
        bench.train(mesh, f"again-{mesh}", 10, f"checkpoint.resume={bench.folder}/first")
        report.true(f"step 10 of 2 x 2 loaded on {ranks} and written again: the same bits", same(f"{bench.folder}/first/step-10", f"{bench.folder}/again-{mesh}/step-10"))
        rest, _ = bench.train(mesh, f"again-{mesh}", 20)
        apart = max(abs(rest[step] - whole[step]) / abs(whole[step]) for step in range(11, 21))
        report.check(f"steps 11 to 20 on {ranks} against the uninterrupted run, relative", float(f"{apart:.1e}"), 1e-9)
        if mesh == "four":
            report.true("on the same mesh: the same bits", all(rest[step] == whole[step] for step in range(11, 21)) and same(f"{bench.folder}/whole/step-20", f"{bench.folder}/again-four/step-20"))


def check_precisions(report, bench, folder):
    other = Bench(folder, ["two"], "f32")
    other.train("two", "narrow", 10, f"checkpoint.resume={bench.folder}/first")
    wide, narrow = tensors(f"{bench.folder}/first/step-10"), tensors(f"{folder}/narrow/step-10")
    report.true("an f64 checkpoint rounded by an f32 program", all(np.array_equal(wide[name].astype(narrow[name].dtype), narrow[name]) for name in wide))


def check_commands(report, bench):
    def ckpt(*arguments, code=0):
        done = execute(meshc(), "ckpt", *arguments, "--json", code=code)
        return json.loads(done.stdout) if done.stdout else done.stderr

    first, whole = f"{bench.folder}/first", f"{bench.folder}/whole"
    numbers = tensors(f"{first}/step-10")
    listed = ckpt("ls", first)["checkpoints"]
    report.true("ls", [(c["step"], c["latest"], c["mesh"], c["position"]) for c in listed] == [(10, True, {"data": 2, "model": 2}, 120)], listed)
    shown = {t["name"]: (t["shape"], t["type"]) for t in ckpt("show", first)["tensors"]}
    report.true("show", shown == {name: (list(x.shape), "f64") for name, x in numbers.items()})
    report.true("verify", ckpt("verify", first)["good"])
    report.true("diff of equals", ckpt("diff", first, f"{bench.folder}/again-three/step-10")["same"] == len(numbers))
    apart = {d["name"]: d["largest"] for d in ckpt("diff", first, whole, code=1)["differing"]}
    after = tensors(f"{whole}/step-20")
    report.true("diff tells the largest difference", apart == {name: float(np.abs(x - after[name]).max()) for name, x in numbers.items()})
    with open(f"{bench.folder}/names.yaml", "w") as file:
        file.write("wte: transformer.wte.weight\n")
    narrow = f"{bench.folder}/narrow.safetensors"
    ckpt("convert", first, narrow, "--parameters", "--type", "f32", "--names", f"{bench.folder}/names.yaml")
    report.true("convert", {t["name"] for t in ckpt("show", narrow)["tensors"]} == {n if n != "wte" else "transformer.wte.weight" for n in numbers if "moment" not in n})
    bench.train("two", "renamed", 1, f"train.params={narrow}", f"train.names={bench.folder}/names.yaml")
    ckpt("convert", first, f"{bench.folder}/converted")
    report.true("convert to a checkpoint", same(f"{first}/step-10", f"{bench.folder}/converted"))
    report.true("convert writes over nothing", "is there already" in ckpt("convert", first, narrow, code=3))
    ckpt("convert", f"{whole}/step-20", f"{first}/step-10", f"{bench.folder}/mean.safetensors", "--mean")
    mean = read_file(f"{bench.folder}/mean.safetensors")
    worst = max(float(np.abs(x - (numbers[name] + after[name]) / 2).max()) for name, x in mean.items())
    report.check("convert --mean", worst, 1e-15, worst <= 1e-15 and set(mean) == {n for n in numbers if "moment" not in n})
    said = execute(meshc(), "ckpt", "convert", first, narrow, f"{bench.folder}/none", "--mean", code=1).stderr
    report.true("a mean is of one model", "a mean is of checkpoints of one model" in said, said)
    bad = f"{bench.folder}/bad"
    shutil.copytree(f"{first}/step-10", bad)
    with open(f"{bad}/model-00001-of-00001.safetensors", "r+b") as file:
        file.seek(-5, os.SEEK_END)
        file.write(b"?")
    found = ckpt("verify", bad, code=1)
    report.true("verify names a damaged tensor", not found["good"] and "is not what was written" in found["checkpoints"][0]["faults"][0], found)
    os.truncate(f"{bad}/model-00001-of-00001.safetensors", 1000)
    report.true("verify names a file that was cut", "it has 1000 bytes" in ckpt("verify", bad, code=1)["checkpoints"][0]["faults"][0])
    report.true("a path too few", execute(meshc(), "ckpt", "diff", first, code=None).returncode == 2)


def check_small_types(report, bench):
    """Moments keep a range that f16 does not have; of parameters it is told what becomes infinite or 0."""
    step, half = f"{bench.folder}/first/step-10", f"{bench.folder}/half"
    execute(meshc(), "ckpt", "convert", step, half, "--type", "f16")
    wide, narrow = tensors(step), tensors(half)
    kinds = {name: x.dtype for name, x in narrow.items()}
    report.true("convert to f16: moments are f32", all(kind == (np.float32 if "moment" in name else np.float16) for name, kind in kinds.items()), set(kinds.values()))
    report.true("convert to f16: no moment is lost", all(np.array_equal(wide[name].astype(np.float32), narrow[name]) for name in kinds if "moment" in name))
    odd = f"{bench.folder}/odd.safetensors"
    write_file(odd, {"w": np.array([1e6, -1e6, 1e-9, 0, np.inf, 1], np.float32), "whole": np.arange(3, dtype=np.float32)})
    done = execute(meshc(), "ckpt", "convert", odd, f"{bench.folder}/odd16.safetensors", "--type", "f16", "--json")
    report.true("convert warns of infinities and zeros", done.stderr == "warning: `w`: of 6 numbers 2 become infinite and 1 becomes 0 in f16\n", done.stderr)
    told = json.loads(done.stdout)
    report.true("convert --json counts them", (told["become_infinite"], told["become_zero"]) == (2, 1), told)
    looked = json.loads(execute(meshc(), "ckpt", "verify", odd, "--json").stdout)
    report.true("verify counts what is not finite", looked["checkpoints"][0]["not_finite"] == ["`w`: 1 of 6 numbers is not finite"], looked)
    report.true("convert to bf16 has the range of f32", execute(meshc(), "ckpt", "convert", odd, f"{bench.folder}/odd_b.safetensors", "--type", "bf16").stderr == "")


def check_refusals(report, bench):
    """Paths and maps that ls and convert do not take, each before anything is written."""
    def said(*arguments, code):
        return execute(meshc(), "ckpt", *arguments, code=code).stderr

    step = f"{bench.folder}/first/step-10"
    report.true("ls of one checkpoint", execute(meshc(), "ckpt", "ls", step).stdout.startswith("step-10 "))
    report.true("ls of no folder", "there is no folder" in said("ls", f"{bench.folder}/nowhere", code=1))
    os.makedirs(f"{bench.folder}/broken/step-5")
    shutil.copytree(step, f"{bench.folder}/broken/step-10")
    listed = execute(meshc(), "ckpt", "ls", f"{bench.folder}/broken", code=1).stdout.splitlines()
    report.true("ls of an incomplete one", len(listed) == 2 and listed[0].split()[:2] == ["step-5", "incomplete"], listed)
    verified = execute(meshc(), "ckpt", "verify", f"{bench.folder}/broken", code=1).stdout.splitlines()
    report.true("verify of an incomplete one", [line.split()[0] for line in verified if line[0] != " "] == ["damaged", "good"] and "no checkpoint.json" in verified[1], verified)
    os.symlink("step-5", f"{bench.folder}/broken/latest")
    errors = said("convert", f"{bench.folder}/broken", f"{bench.folder}/of_broken.safetensors", code=1)
    wanted = f"names step 5, which has no checkpoint.json, as a copy that was cut off leaves it: copy it anew, or remove `{bench.folder}/broken/step-5` to take step 10"
    report.true("no older one in place of an incomplete latest", wanted in errors and not os.path.exists(f"{bench.folder}/of_broken.safetensors"), errors)
    for what, names, expected in (("two tensors of one name", "wte: wpe", "`wte` and `wpe` would both be `wpe`"), ("a name that is not there", "wtee: x", "did you mean `wte`?"),
                                  ("a dim that is not there", "wte: 'h.{layer}.x'", "`wte`: the map gives it the dims layer, ..., it has vocab, embed")):
        with open(f"{bench.folder}/wrong.yaml", "w") as file:
            file.write(f"{names}\n")
        for to in (f"{bench.folder}/refused", f"{bench.folder}/refused.safetensors"):
            errors = said("convert", step, to, "--names", f"{bench.folder}/wrong.yaml", code=1)
            report.true(f"convert refuses {what}", expected in errors and not os.path.exists(to), errors.strip())


def check_two_at_once(report, bench):
    """A second run in the folders of one that trains is refused at once, and ends by a signal while it still waits for them; the first does not notice."""
    folder, kept = f"{bench.folder}/shared", f"{bench.folder}/kept"
    endless = ["train.steps=1000000", "log.every=1000000"]
    with started(*bench.command("two", *endless, f"checkpoint.dir={folder}", "checkpoint.every=5", "checkpoint.keep=2", "--run-dir", kept)) as first:
        while not newest(folder) and first.poll() is None:
            time.sleep(0.005)
        for what, shared, options in (("checkpoint.dir", folder, [f"checkpoint.dir={folder}", "--run-dir", "none"]), ("--run-dir", kept, ["--run-dir", kept])):
            command, began = bench.command("two", *endless, *options), time.monotonic()
            second = execute(*command, code=3).stderr
            report.true(f"two runs at once in one {what}", "another run" in second and f"writes into `{shared}`" in second, second.strip())
            report.check("seconds until that is told", round(time.monotonic() - began, 1), 5)
            for number, to in ((signal.SIGINT, "the launcher"), (signal.SIGTERM, "the launcher"), (signal.SIGINT, "the rank that waits"), (signal.SIGTERM, "the rank that waits"),
                               (signal.SIGTERM, "another rank")):
                with started(*command) as second:
                    wait_until(lambda: second.poll() is not None or (len(children(second.pid)) == 2 and any(has_open(pid, shared) for pid in children(second.pid))))
                    ranks = children(second.pid)
                    waits = next((pid for pid in ranks if has_open(pid, shared)), None)
                    pid = {"the launcher": second.pid, "the rank that waits": waits, "another rank": next((pid for pid in ranks if pid != waits), None)}[to]
                    os.kill(pid, number)
                    began = time.monotonic()
                    _, errors = second.communicate(timeout=20)
                seconds = time.monotonic() - began
                whose = "" if to == "the launcher" else f" to rank {int(to == 'another rank')} (pid {pid})"
                good = second.returncode == 130 and errors == f"{number.name}{whose} has ended the run at once\n" and seconds <= 2
                report.true(f"{number.name} to {to} while a run waits for another's {what}: exit code {second.returncode}, {seconds:.2f} s (bound 2)", good, "" if good else errors)
        first.send_signal(signal.SIGTERM)
        _, errors = first.communicate(timeout=60)
        report.true("the first ends well", first.returncode == 75 and not errors, f"{first.returncode} {errors}")
    execute(meshc(), "ckpt", "verify", folder)
    anew = execute(*bench.command("two", "train.steps=2", f"checkpoint.dir={folder}", "checkpoint.resume=never"), code=1).stderr
    report.true("a run that begins anew among the checkpoints of another", "holds checkpoints of another run" in anew, anew.strip()[:200])


def has_open(pid, folder):
    """Whether a process has the lock of a folder open, or of one within it: it has it, or waits for it."""
    try:
        files = [os.readlink(f"/proc/{pid}/fd/{file}") for file in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return False
    return any(file.startswith(f"{folder}/") and file.endswith("/.lock") for file in files)


def check_unshared(report, bench):
    """Hosts that have a folder of their own under the name of `checkpoint.dir` end the job before its first step."""
    missing = permitted()
    if missing:
        return report.skip("a folder that hosts do not share", missing)
    folder, shell = f"{bench.folder}/unshared", f"{bench.folder}/shell"
    os.mkdir(folder)
    with open(shell, "w") as file:
        file.write(f'#!/bin/sh\n# In place of ssh: HOST COMMAND...; the second host has a disk of its own.\nhost=$1; shift\ncase $host in\n'
                   f'127.0.0.2) exec unshare --mount sh -c "mount -t tmpfs none {folder}; $*";;\n*) exec sh -c "$*";;\nesac\n')
    os.chmod(shell, 0o755)

    def job(*keys, code):
        return execute(MESHRUN, "--hosts", "127.0.0.1:1,127.0.0.2:1", "--ssh", shell, bench.command("two")[0], f"{bench.folder}/run.yaml", "train.steps=2", *keys, code=code).stderr

    began = time.monotonic()
    said = job(f"checkpoint.dir={folder}", code=3)
    report.true("a folder that hosts do not share", f"`{folder}` is not the same folder for all ranks" in said and "is not seen by rank 1 on 127.0.0.2" in said, said.strip()[-400:])
    report.check("seconds until that is told", round(time.monotonic() - began), 15)
    report.true("nothing but the lock is left", os.listdir(folder) == [".lock"], os.listdir(folder))
    job(f"checkpoint.dir={bench.folder}/of-both", code=0)
    report.true("a folder that they share", newest(f"{bench.folder}/of-both") == 2)


def check_signal(report, bench):
    whole, _ = bench.train("four", "untouched", 60)
    command = bench.command("four", "train.steps=60", f"checkpoint.dir={bench.folder}/signalled", f"log.jsonl={bench.folder}/signalled.jsonl", "log.every=1", "checkpoint.every=5")
    for number in (signal.SIGTERM, signal.SIGUSR1):
        with started(*command) as job:
            before = newest(f"{bench.folder}/signalled")
            while newest(f"{bench.folder}/signalled") == before and job.poll() is None:
                time.sleep(0.005)
            job.send_signal(number)
            _, errors = job.communicate(timeout=60)
        report.true(f"{number.name}: exit code 75, a checkpoint, no message", job.returncode == 75 and newest(f"{bench.folder}/signalled") > before and not errors, f"{job.returncode} {errors}")
    execute(*command)
    losses = {line["step"]: line["loss"] for line in json_lines(f"{bench.folder}/signalled.jsonl") if "loss" in line}
    report.true("the curve of three runs is that of one", losses == whole)


def newest(folder):
    try:
        return int(os.readlink(f"{folder}/latest").removeprefix("step-"))
    except OSError:
        return 0


def check_damage(report, bench, dice, count):
    good = f"{bench.folder}/first/step-10"
    names = sorted(os.listdir(good))
    noticed = 0
    for _ in range(count):
        bad = f"{bench.folder}/bad"
        shutil.rmtree(bad, ignore_errors=True)
        shutil.copytree(good, bad)
        path = f"{bad}/{dice.choice([n for n in names if n.endswith('.safetensors')])}"
        size = os.path.getsize(path)
        if dice.random() < 0.5:
            os.truncate(path, dice.randrange(size))
        else:
            with open(path, "r+b") as file:
                file.seek(at := dice.randrange(size))
                byte = file.read(1)[0]
                file.seek(at)
                file.write(bytes([byte ^ 1 << dice.randrange(8)]))
        shutil.rmtree(f"{bench.folder}/target", ignore_errors=True)
        _, done = bench.train("two", "target", 11, f"checkpoint.resume={bad}", code=None)
        noticed += done.returncode == 1 and os.path.basename(bad) in done.stderr and not newest(f"{bench.folder}/target")
    report.check("damaged checkpoints that were not refused", count - noticed, 0)


def check_kills(report, bench, dice, count):
    """Each job goes on from what the one before had published, so that all of them are loaded."""
    folder, lost, moved, during = f"{bench.folder}/killed", [], 0, 0
    command = bench.command("two", "train.steps=1000000", f"checkpoint.dir={folder}", "checkpoint.every=1", "checkpoint.keep=2", "log.every=1000000")
    for number in range(count):
        before = newest(folder)
        job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)
        deadline = time.monotonic() + 30
        while newest(folder) == before and job.poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(dice.uniform(0, 0.03))
        early = job.poll()
        job.kill()  # the ranks go with it
        _, errors = job.communicate(timeout=20)
        wait_for_ranks(f"{bench.folder}/two/gpt")
        during += any(name.startswith(".step-") for name in os.listdir(folder))
        moved += newest(folder) > before
        if early is not None:
            lost.append(f"kill {number}: the job had ended with {early}: {errors[-500:]}")
    done = execute(*bench.command("one", f"train.steps={newest(folder) + 1}", f"checkpoint.dir={folder}", "log.every=1"), code=None)
    if done.returncode != 0:
        lost.append(done.stderr[-500:])
    report.check(f"of {count} kills, {during} within a checkpoint: checkpoints that did not load", len(lost), 0)
    report.true("every job went further", moved == count, f"{moved} of {count}{''.join(lost[:3])}")
    leftovers = [name for name in os.listdir(folder) if name.startswith(".") and name != ".lock"]
    report.true("the last run cleared what the kills had left", not leftovers, leftovers)


def wait_for_ranks(program):
    """A killed launcher's ranks end a moment later: the next job must not meet them."""
    for _ in range(500):
        if not any(running(pid) == program for pid in os.listdir("/proc") if pid.isdigit()):
            return
        time.sleep(0.01)


def running(pid):
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return None


def run(small):
    report = Report()
    dice = random.Random(SEED)
    print(f"seed {SEED}")
    with scratch() as folder:
        bench = None

        def build():
            nonlocal bench
            bench = Bench(folder, MESHES, "f64")

        report.attempt("build", build)
        if bench:
            report.attempt("meshes", lambda: check_meshes(report, bench))
            with scratch() as other:
                report.attempt("precisions", lambda: check_precisions(report, bench, other))
            report.attempt("commands", lambda: check_commands(report, bench))
            report.attempt("small types", lambda: check_small_types(report, bench))
            report.attempt("refusals", lambda: check_refusals(report, bench))
            report.attempt("two at once", lambda: check_two_at_once(report, bench))
            report.attempt("hosts", lambda: check_unshared(report, bench))
            report.attempt("signals", lambda: check_signal(report, bench))
            report.attempt("damage", lambda: check_damage(report, bench, dice, 4 if small else 60))
            report.attempt("kills", lambda: check_kills(report, bench, dice, 6 if small else 200))
    return report
