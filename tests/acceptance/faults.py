"""Random faults in a training gpt: a rank killed, or stopped; a host whose link is cut; a disk that is full at a checkpoint; another program, or another run file, on one rank; a call of
one rank left out. Each ends within its bound, with exit code 3 and one verdict that names the rank, and leaves no process and no memory."""
import os
import random
import re
import signal
import subprocess
import time

import numpy as np

from common import TOP, Report, json_lines, meshc, scratch, sets
from common import run as execute
from network import Network, permitted, without_table
from processes import alive, children, described, leftovers, own_memory, rank_of, running_from, wait_until
from seeing import scalars

SEED = 20261123
RANKS = 4
GPT = dict(batch=4, seq=16, embed=32, heads=4, head_dim=8, layer=2, vocab=64)
LINE = r" at (gpt\.mesh|std\.nn):\d+"  # of the spec
# Seconds from the fault (of those that are there at the start: from the start) to the end of the job, at most.
BOUNDS = {"kill": 1, "stop": 15, "link": 15, "disk": 20, "program": 10, "run file": 10, "call": 10}
# Of a run's folder.
GROWING = ["metrics.jsonl", "log.txt", "events.out.tfevents.0000000000.meshwright"]
# In this order, so that few of them show every kind.
ORDER = ["kill", "call", "program", "disk", "run file", "kill", "call", "kill", "disk", "call"]


class Job:
    """A job under way, its end, and what it left."""

    def __init__(self, bench, name, command, env=None, **options):
        self.before = leftovers()
        self.folder = f"{bench.folder}/{name}"
        self.start = time.monotonic()
        self.process = subprocess.Popen([*command, "--run-dir", self.folder], text=True, **{"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, **options},
                                        env={**os.environ, "MESHRT_TIMEOUT": "5" if name.startswith("call") else "60", **(env or {})})
        self.seen = []

    def wait_for_steps(self):
        """Until all ranks train."""
        records = [f"{self.folder}/flight/rank-{rank:04}" for rank in range(RANKS)]
        wait_until(lambda: all(map(os.path.exists, records)))
        self.seen = [pid for pid in children(self.process.pid) if os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "gpt"]

    def end(self, limit):
        try:
            _, messages = self.process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            for pid in children(self.process.pid):
                os.kill(pid, signal.SIGKILL)
            self.process.kill()
            messages = (self.process.communicate()[1] or "") + "\n(it hung)"
        self.seconds = time.monotonic() - self.start
        return "\n".join(without_table(messages or ""))

    def left(self):
        return [pid for pid in self.seen if alive(pid)] + sorted(leftovers() - self.before)


class Bench:
    def __init__(self, folder):
        self.folder = folder
        np.random.default_rng(SEED).integers(0, 64, 4 * 16 * 50 + 1).astype(np.uint16).tofile(f"{folder}/tokens.bin")
        for name, seed in (("run", 1), ("other", 2)):
            with open(f"{folder}/{name}.yaml", "w") as file:
                file.write("data: { token: {file: tokens.bin, type: u16, window: seq}, target: {of: token, shift: 1} }\n"
                           f"train: {{ steps: 1000000, seed: {seed} }}\nlog: {{ every: 1000000 }}\n")
        for name, sizes in (("good", GPT), ("old", {**GPT, "embed": 64, "head_dim": 16})):
            execute(meshc(), "build", f"{TOP}/specs/gpt.mesh", *sets(**sizes), "--mesh", "data=2,model=2", "-o", f"{folder}/{name}")
        self.program = f"{folder}/good/gpt"
        self.run_file = f"{folder}/run.yaml"
        self.meshrun = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(meshc()))), "runtime", "meshrun")

    def one_differs(self, rank, program, run_file):
        """Through a shell script, as on a cluster with an old copy on one host."""
        script = f'if [ "$MESHRT_RANK" = {rank} ]; then exec {program} {run_file} "$@"; else exec {self.program} {self.run_file} "$@"; fi'
        return [self.meshrun, "-n", RANKS, "sh", "-c", script, "rank"]

    def fault(self, kind, name, dice):
        """The job after its fault has run its course, its verdict, and what the verdict has to say."""
        victim = dice.randrange(RANKS)
        plain = [self.program, "-n", str(RANKS), self.run_file]
        if kind in ("kill", "stop"):
            job = Job(self, name, plain)
            job.wait_for_steps()
            time.sleep(dice.uniform(0, 0.5))
            pid = next(pid for pid in job.seen if rank_of(pid) == victim)
            job.start = time.monotonic()
            os.kill(pid, signal.SIGKILL if kind == "kill" else signal.SIGSTOP)
            said = "was killed by signal 9" if kind == "kill" else "no sign of life for 12 s: it is stopped"
            return job, job.end(30), [rf"^rank {victim} \(pid {pid}\)", said, "; it was in step ", LINE]
        if kind == "link":
            cut = dice.randrange(1, 3)
            with Network(self.folder, 2) as net:
                job = Job(self, name, net.meshrun(self.meshrun, *plain[:1], *plain[3:]))
                job.wait_for_steps()
                time.sleep(dice.uniform(0, 0.5))
                net.cut(cut)  # may itself take seconds, while the kernel clears away an earlier network
                job.start = time.monotonic()
                verdict = job.end(30)
                # A host that is cut off ends its ranks itself, as late, and clears away what they leave.
                wait_until(lambda: not running_from(self.folder) and not job.left(), 15,
                           lambda: f"after {verdict[:200]!r}: there are {list(map(described, running_from(self.folder)))}, {job.left()}")
            return job, verdict, [rf"^host 10\.213\.0\.{cut}: "]
        if kind == "disk":
            disk = f"mkdir -p {self.folder}/{name}.disk && mount -t tmpfs -o size={dice.randrange(100, 400)}k none {self.folder}/{name}.disk && exec \"$@\""
            steps = ["train.steps=30", f"checkpoint.every={dice.randrange(5, 15)}", f"checkpoint.dir={self.folder}/{name}.disk/ckpt"]
            job = Job(self, name, ["unshare", "-m", "sh", "-c", disk, "disk", *plain, *steps])
            return job, job.end(40), ["rank ", "the last checkpoint is lost", "No space left on device"]
        if kind == "program":
            job = Job(self, name, list(map(str, self.one_differs(victim or 1, f"{self.folder}/old/gpt", self.run_file))))
            return job, job.end(30), [f"rank {victim or 1} runs another program: it has `dim embed: 64` where rank 0 has `dim embed: 32`"]
        if kind == "run file":
            job = Job(self, name, list(map(str, self.one_differs(victim or 1, self.program, f"{self.folder}/other.yaml"))))
            return job, job.end(30), [f"rank {victim or 1} reads another run file: it has `  seed: 2` where rank 0 has `  seed: 1`"]
        job = Job(self, name, plain, env={"MESHRT_SKIP_CALL": f"{victim}:{dice.randrange(40, 400)}"})
        return job, job.end(30), [rf"ranks? ([\d, and]* )?{victim}\b", LINE]


def check(report, bench, kind, number, dice):
    name = f"{kind.replace(' ', '-')}-{number}"
    job, verdict, words = bench.fault(kind, name, dice)
    missing = [word for word in words if not re.search(word, verdict)]
    once = verdict and not any(line.startswith(("rank", "host", "error")) for line in verdict.splitlines()[1:])
    good = job.process.returncode == 3 and job.seconds <= BOUNDS[kind] and not missing and once and not job.left()
    detail = verdict.splitlines()[0][:230] if good else f"{verdict[:1500]} missing: {missing}, left: {job.left()}"
    report.true(f"{name}: exit code {job.process.returncode}, {job.seconds:.2f} s (bound {BOUNDS[kind]})", good, detail)
    if kind in ("kill", "stop"):
        text = execute(bench.meshrun, "postmortem", job.folder).stdout
        report.true(f"{name}: postmortem", all(f"\nrank {rank} (pid " in text for rank in range(RANKS)), text.splitlines()[0])


def check_unheard(report, bench):
    """What cannot be printed changes nothing: here stdout and stderr are on a full disk."""
    for name, launcher in (("program", [bench.program, "-n", str(RANKS)]), ("meshrun", [bench.meshrun, "-n", str(RANKS), bench.program])):
        with open("/dev/full", "w") as full:
            job = Job(bench, f"unheard-{name}", [*launcher, bench.run_file, "log.every=1"], stdout=full, stderr=full)
            job.wait_for_steps()
            os.kill(job.seen[0], signal.SIGKILL)
            job.end(30)
        report.true(f"unheard, {name}: exit code {job.process.returncode}", job.process.returncode == 3 and not job.left(), job.left())


def check_full_report(report, bench):
    """The disk of the run's folder, not that of its checkpoints, is full for a while, and at the end."""
    before = leftovers()
    disk, ckpt = f"{bench.folder}/report.disk", f"{bench.folder}/report.ckpt"
    mounted = f"mkdir -p {disk} && mount -t tmpfs -o size=8m none {disk} && exec \"$@\""
    command = [bench.program, "-n", str(RANKS), bench.run_file, "log.every=5", f"checkpoint.dir={ckpt}", "--run-dir", f"{disk}/run"]
    with open(f"{bench.folder}/report.out", "w") as out, open(f"{bench.folder}/report.err", "w") as err:
        job = subprocess.Popen(["unshare", "-m", "sh", "-c", mounted, "disk", *command], stdout=out, stderr=err)
    inside = f"/proc/{job.pid}/root{disk}"

    def steps():
        with open(f"{bench.folder}/report.out") as out:
            return [int(step) for step in re.findall(r"^step (\d+)/", out.read(), re.M)]

    def said(name):
        with open(f"{bench.folder}/report.err") as err:
            return [line for line in err if f"/{name}`" in line]

    def fill():
        """Until none of the files has room in the last page that it has."""
        before = [len(said(name)) for name in GROWING]
        with open(f"{inside}/fill", "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass
        wait_until(lambda: all(len(said(name)) > lines for name, lines in zip(GROWING, before)))

    try:
        wait_until(lambda: len(steps()) > 3)
        fill()
        lost = len(steps())
        wait_until(lambda: len(steps()) > lost + 3)
        os.remove(f"{inside}/fill")
        after = len(steps())
        wait_until(lambda: len(steps()) > after + 5)
        told = steps()
        written = [line["step"] for line in json_lines(f"{inside}/run/metrics.jsonl")[1:]]
        events = sorted({step for _, step in scalars(f"{inside}/run/{GROWING[-1]}")[0]})
        fill()
        job.send_signal(signal.SIGTERM)
        job.wait(timeout=30)
    finally:
        job.kill()
        job.wait()
    for name, found in (("metrics.jsonl", written), ("events", events)):
        good = found[0] == told[0] and told[after + 2] in found and not set(told[lost:after]) <= set(found)
        report.true(f"a full folder: {name} has the steps before and after", good, f"{len(found)} of {len(told)} lines")
    report.true(f"a full folder at the end: exit code {job.returncode}", job.returncode == 75 and os.path.exists(f"{ckpt}/latest/checkpoint.json"))
    report.true("a full folder at the end: no recorder stays in memory", leftovers() <= before, leftovers() - before)
    for name in GROWING:
        lines = said(name)
        # Where one line has no room, a shorter one may have it.
        begun, over = lines[::2], lines[1::2]
        good = len(over) >= 1 and len(begun) == len(over) + 1 and all(line.endswith("No space left on device; the run goes on\n") for line in begun) and all("entries lost: " in line for line in over)
        report.true(f"a full folder: told once, and once that it is over: {name}", good, over if good else lines)


# The third logarithm of 2 is of a negative number: in turn 2 of the loop, of the last sample, which the second rank has.
LOGARITHMS = """dim batch = 4, io = 3, layer = 3
model Logs {
  input x : real[batch, io]
  param w : real[io] = ones
  h = x * w
  repeat layer {
    h = log(h)
  }
  loss = mean[batch, io](h)
  minimize loss with sgd(lr: 0.0)
}
mesh line { data: 2 }
layout default on line { batch -> data }
"""


def check_nonfinite(report, folder):
    """The first value that is not finite by name, line, element, rank, step and turn, under each policy."""
    x = np.full((8, 3), 20, np.float32)
    x[7, 1] = 2  # of the second batch
    np.save(f"{folder}/x.npy", x)
    with open(f"{folder}/logs.mesh", "w") as spec, open(f"{folder}/logs.yaml", "w") as file:
        spec.write(LOGARITHMS)
        file.write("data: { x: {file: x.npy} }\ntrain: { steps: 2 }\n")
    first = "`h` at logs.mesh:7 is the first value that is not finite: nan at number 4 of 6 on rank 1, step 2, turn 2 of `layer`"
    command = [meshc(), "run", f"{folder}/logs.mesh", "--find-nonfinite"]
    for policy, code, said in (("stop", 3, f": {first}\n"), ("warn", 0, f"warning: {first}\n"), ("ignore", 0, "")):
        done = execute(*command, f"log.nonfinite={policy}", env={"XDG_CACHE_HOME": f"{folder}/cache"}, code=None)
        told = "not finite" in done.stderr
        report.true(f"nonfinite: {policy}", done.returncode == code and said in done.stderr and told == (policy != "ignore"), done.stderr.strip()[-300:])
    x[6, 0] = np.nan
    np.save(f"{folder}/x.npy", x)
    read = execute(*command, env={"XDG_CACHE_HOME": f"{folder}/cache"}, code=3).stderr
    first = "`x` at logs.mesh:3 is the first value that is not finite: nan at number 0 of 6 on rank 1, step 2"
    report.true("nonfinite: what a step begins with", f": {first}\n" in read, read.strip()[-300:])
    plain = execute(*command[:-1], code=None, env={"XDG_CACHE_HOME": f"{folder}/cache"})
    said = ("`loss` is nan at step 2", f"`x` reads nan from `{folder}/x.npy`: number 18 ([6, 0])", "--find-nonfinite")
    report.true("nonfinite: without looking", plain.returncode == 3 and all(text in plain.stderr for text in said), plain.stderr.strip()[-300:])


def run(small):
    report = Report()
    own_memory()
    dice = random.Random(SEED)
    slow = ["stop", "link"]
    why_not = permitted()
    if why_not:
        report.skip("links that are cut", why_not)
        slow.remove("link")
    kinds = slow + ORDER if small else [(ORDER + slow)[number % len(ORDER + slow)] for number in range(200)]
    print(f"seed {SEED}, {len(kinds)} faults")

    def action():
        with scratch() as folder:
            bench = Bench(folder)
            for number, kind in enumerate(kinds, 1):
                report.attempt(kind, lambda: check(report, bench, kind, number, dice))
            report.attempt("nonfinite", lambda: check_nonfinite(report, folder))
            report.attempt("unheard", lambda: check_unheard(report, bench))
            report.attempt("a full folder", lambda: check_full_report(report, bench))

    report.attempt("faults", action)
    return report
