"""A Slurm of one node, started by hand: gpt under `srun --mpi=pmix` and under srun alone gives the bits of meshrun; `--signal` ends a batch job with a
checkpoint and exit code 75, and requeued it goes on to the curve of a run that nothing stopped."""
import contextlib
import glob
import os
import shutil
import socket
import subprocess
import time

import numpy as np

from common import TOP, Report, json_lines, meshc, scratch, sets
from common import run as execute
from texts import markdown

SEED = 20261122
GPT = dict(batch=8, seq=16, embed=32, heads=4, head_dim=8, layer=2, vocab=64)
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol", "sinfo")


def why_not():
    if os.geteuid() != 0:
        return "only root can start a Slurm of its own here"
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    return f"not installed: {', '.join(missing)} (Debian: slurmctld, slurmd, slurm-client, slurm-wlm-basic-plugins, munge)" if missing else ""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def munged(folder):
    """The command of a MUNGE daemon with a key and a socket (`munge.socket`) of its own."""
    with open(os.open(f"{folder}/munge.key", os.O_WRONLY | os.O_CREAT, 0o400), "wb") as file:
        file.write(os.urandom(128))
    own = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    return ["munged", "-F", "--force", *(f"--{option}={folder}/munge.{name}" for option, name in own.items())]


class Slurm:
    """Its processes, all of whose files are in one folder; `environment` is what its commands need."""

    def __init__(self, folder):
        self.folder = folder
        self.environment = {"SLURM_CONF": f"{folder}/slurm.conf"}
        self.processes = []

    def start(self, *command):
        log = open(f"{self.folder}/{command[0]}.out", "w")
        self.processes.append(subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env={**os.environ, **self.environment}))
        log.close()

    def configure(self):
        name = socket.gethostname().split(".")[0]
        cpus = max(2, os.cpu_count() or 1)
        with open(f"{self.folder}/mpi.conf", "w") as file:  # else a folder in /tmp by the job's number, which a test that was killed leaves behind
            file.write(f"PMIxCliTmpDirBase={self.folder}\n")
        with open(f"{self.folder}/slurm.conf", "w") as file:
            file.write(f"""ClusterName=test
SlurmctldHost={name}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={self.folder}/munge.socket
StateSaveLocation={self.folder}/state
SlurmdSpoolDir={self.folder}/spool
SlurmctldPidFile={self.folder}/slurmctld.pid
SlurmdPidFile={self.folder}/slurmd.pid
SlurmctldPort={free_port()}
SlurmdPort={free_port()}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
ReturnToService=2
SlurmdParameters=config_overrides
SchedulerParameters=bf_interval=1
NodeName={name} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
""")

    def __enter__(self):
        for name in ("state", "spool"):
            os.mkdir(f"{self.folder}/{name}")
        os.chmod(self.folder, 0o755)
        self.configure()
        self.start(*munged(self.folder))
        self.wait(lambda: os.path.exists(f"{self.folder}/munge.socket"), "munged does not start")
        self.start("slurmctld", "-D")
        self.start("slurmd", "-D")
        self.wait(lambda: "idle" in self.run("sinfo", "-h", "-o", "%t", code=None).stdout, "the node is not idle")
        return self

    def wait(self, condition, problem, seconds=30):
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(problem)
            time.sleep(0.1)

    def run(self, *command, code=0, timeout=120):
        return execute(*command, env=self.environment, code=code, timeout=timeout)

    def stop(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in reversed(self.processes):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()

    def __exit__(self, *_):
        self.stop()


def losses(log):
    """The loss of every step; of one that ran twice the last word."""
    found = {line["step"]: line["loss"] for line in json_lines(log) if "loss" in line}
    return [found[step] for step in sorted(found)]


def run(small):
    report = Report()
    print(f"seed {SEED}, one node")
    if problem := why_not():
        report.skip("slurm", problem)
        return report
    steps = 5 if small else 30

    def arguments(folder, name, count):
        return [f"{folder}/two/gpt", f"{folder}/run.yaml", f"train.steps={count}", f"log.jsonl={folder}/{name}.jsonl", "log.every=1"]

    def action():
        with scratch() as folder, scratch() as slurm_folder:
            np.random.default_rng(SEED).integers(0, GPT["vocab"], 8 * 16 * 40 + 1).astype(np.uint16).tofile(f"{folder}/tokens.bin")
            with open(f"{folder}/run.yaml", "w") as file:
                file.write("data: { token: {file: tokens.bin, type: u16, window: seq}, target: {of: token, shift: 1} }\n")
            with open(f"{TOP}/specs/gpt.mesh") as spec, open(f"{folder}/gpt.mesh", "w") as own:  # a rate that does not depend on when a run ends
                own.write(spec.read().replace("warmup: 100)", "warmup: 100, steps: 2000)"))
            execute(meshc(), "build", f"{folder}/gpt.mesh", "--mesh", "data=2", *sets(**GPT), "--precision", "f64", "-o", f"{folder}/two")
            program, *rest = arguments(folder, "here", steps)
            execute(program, "-n", 2, *rest)
            here = losses(f"{folder}/here.jsonl")
            with Slurm(slurm_folder) as slurm:
                for name, options in (("srun --mpi=pmix", ["--mpi=pmix"]), ("srun without a PMI", ["--mpi=none"])):
                    log = name.replace(" ", "-")
                    slurm.run("srun", "-n", 2, *options, *arguments(folder, log, steps))
                    report.true(f"{name}: the bits of two processes on one host", losses(f"{folder}/{log}.jsonl") == here, f"{steps} steps")
                requeues(report, slurm, folder, small)
                follows_page(report, slurm, folder)

    report.attempt("slurm", action)
    return report


def follows_page(report, slurm, folder):
    """The commands of the page about Slurm, as they stand there."""
    os.mkdir(f"{folder}/page")
    os.symlink(f"{TOP}/specs", f"{folder}/page/specs")
    with open(f"{TOP}/specs/howto/slurm.md") as file:
        first, *_ = blocks = [block for block in markdown.blocks(file.read()) if block.kind == "sh"]
    submits, = [block for block in blocks if block.name == "slurm"]
    path = f"{os.path.dirname(meshc())}:{os.environ['PATH']}"
    for block in (first, submits):
        execute("bash", "-exc", block.text, cwd=f"{folder}/page", env=slurm.environment | {"PATH": path, "XDG_CACHE_HOME": f"{folder}/cache"})
    slurm.wait(lambda: not slurm.run("squeue", "-h").stdout.strip(), "the page's job does not end", seconds=120)
    report.true("the page's job trains to its end", os.path.exists(f"{folder}/page/net-ckpt/latest/checkpoint.json"),
                "".join(open(one).read()[-600:] for one in glob.glob(f"{folder}/page/*.out")))


def requeues(report, slurm, folder, small):
    """A batch job as `meshc slurm` writes it, stopped by --signal (which Slurm looks at every 30 seconds; where there is no time, sent by scancel the
    same way), and requeued by itself. It trains for ever until it is stopped, however long a signal takes on a busy machine, and then goes on for some steps."""
    log, lasting, more = f"{folder}/queued.jsonl", 10_000_000, 2000
    program = [f"{folder}/two/gpt", f"{folder}/run.yaml", "log.every=1", f"checkpoint.dir={folder}/ckpt", "checkpoint.keep=2"]

    def write_steps(count):
        with open(f"{folder}/steps", "w") as file:
            file.write(str(count))

    def attempt(number):
        return f"{folder}/attempt-{number}.jsonl"

    write_steps(lasting)
    with open(f"{folder}/job.sh", "w") as file:
        file.write(f"#!/bin/sh\nsrun --mpi=pmix {' '.join(program)} train.steps=$(cat {folder}/steps) log.jsonl={attempt('${SLURM_RESTART_COUNT:-0}')}\ncode=$?\n"
                   f"echo $code >>{folder}/codes\n[ $code -ne 75 ] || scontrol requeue $SLURM_JOB_ID\n")
    signal = [] if small else ["--time=1", "--signal=USR1@57"]
    job = slurm.run("sbatch", "--parsable", "-n", 2, *signal, "--requeue", "--open-mode=append", f"--output={folder}/job.out", f"{folder}/job.sh").stdout.strip()
    slurm.wait(lambda: os.path.exists(attempt(0)) and os.path.getsize(attempt(0)) > 20000, "the batch job does not train")
    if small:
        slurm.run("scancel", "--signal=USR1", job)

    def codes():
        if not os.path.exists(f"{folder}/codes"):
            return []
        with open(f"{folder}/codes") as file:
            return file.read().split()

    deadline, moved_on = time.monotonic() + 240, 0
    while (not codes() or codes()[-1] == "75") and time.monotonic() < deadline:
        time.sleep(0.5)
        # Slurm lets a requeued job wait for two minutes, until its old credential has expired. A new one counts as revoked with the old one if
        # it is made in the same second.
        if len(codes()) > moved_on and slurm.run("squeue", "-h", "-j", job, "-o", "%T", code=None).stdout.strip() == "PENDING":
            write_steps(max(line["step"] for line in json_lines(attempt(moved_on)) if "loss" in line) + more)
            moved_on = len(codes())
            time.sleep(3)
            slurm.run("scontrol", "update", f"JobId={job}", "StartTime=now", code=None)
    with open(f"{folder}/job.out") as file:
        said = file.read()
    with open(log, "w") as all_attempts:
        for number in range(len(codes())):
            with open(attempt(number)) as one:
                all_attempts.write(one.read())
    report.true(f"{'scancel --signal' if small else '--signal'} ends the job with a checkpoint and code 75; requeued it ends with 0", len(codes()) >= 2 and codes() == ["75"] * (len(codes()) - 1) + ["0"],
                f"{codes()} {'' if len(codes()) >= 2 else said[-600:]}")
    here = losses(log)
    execute(program[0], "-n", 2, *program[1:3], f"train.steps={len(here)}", f"log.jsonl={folder}/straight.jsonl")
    report.true("and its curve is that of a run that nothing stopped, bit by bit", here == losses(f"{folder}/straight.jsonl"), f"{len(here)} steps, {len(codes())} starts")
