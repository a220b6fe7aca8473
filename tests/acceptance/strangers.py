"""Strangers at a job under every launcher: processes without its secret, of another user and of the same one, on the same host and in another network namespace, come before, during and
after its start with noise, silence, made-up proofs and orders. Each is refused, and the job trains as if nobody had come: the same bits. Jobs of one host listen on no network, those of
several only at addresses that they offer."""
import json
import os
import random
import re
import shutil
import socket
import subprocess

import numpy as np

from common import TOP, Report, json_lines, meshc, scratch, sets
from common import run as execute
from hosts import MESHRUN, TOKEN, by_hand, by_hydra, by_mpirun
from network import Network, permitted
from processes import children, running_from, started, wait_until
from slurm import free_port, munged

SEED = 20261125
NOBODY = 65534
GPT = dict(batch=4, seq=16, embed=32, heads=4, head_dim=8, layer=2, vocab=64)
RANKS = 4
STRANGER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stranger.py")

# A program whose rank 1 comes when there is a file, so that its job is found while it waits.
HELD = """#!/bin/sh
rank=${MESHRT_RANK:-${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${RANK:-$SLURM_PROCID}}}}
[ "$rank" != 1 ] || while [ ! -e %s ]; do sleep 0.05; done
exec %s "$@"
"""
# In place of ssh: the second host is there when there is a file.
LATE = """#!/bin/sh
case "$*" in *10.213.0.2*) while [ ! -e %s ]; do sleep 0.05; done;; esac
exec %s "$@"
"""


def table_of(pid, name):
    with open(f"/proc/{pid}/net/{name}") as lines:
        return [line.split() for line in list(lines)[1:]]


def listening(pids):
    """Where these processes listen: ("tcp", address, port) and ("unix", name, type)."""
    found = set()
    for pid in pids:
        try:
            own = {os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")}
            for table in ("tcp", "tcp6"):
                for fields in table_of(pid, table):
                    if fields[3] == "0A" and f"socket:[{fields[9]}]" in own:
                        address, port = fields[1].split(":")
                        found.add(("tcp", socket.inet_ntoa(bytes.fromhex(address)[::-1]) if table == "tcp" else address, int(port, 16)))
            for fields in table_of(pid, "unix"):
                if int(fields[3], 16) & 0x10000 and f"socket:[{fields[6]}]" in own:
                    found.add(("unix", fields[7][1:], int(fields[4], 16)))
        except OSError:
            continue  # it has just ended
    return found


class Bench:
    def __init__(self, folder, small):
        self.folder, self.tries, self.steps = folder, 4 if small else 100, 30 if small else 2000
        self.dice = random.Random(SEED)
        self.go = f"{folder}/go"
        np.random.default_rng(SEED).integers(0, 64, 4 * 16 * 50 + 1).astype(np.uint16).tofile(f"{folder}/tokens.bin")
        with open(f"{folder}/run.yaml", "w") as file:
            file.write("data: { token: {file: tokens.bin, type: u16, window: seq}, target: {of: token, shift: 1} }\n")
        with open(os.open(f"{folder}/token", os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write(TOKEN + "\n")
        execute(meshc(), "build", f"{TOP}/specs/gpt.mesh", *sets(**GPT), "--mesh", "data=2,model=2", "-o", f"{folder}/gpt")
        self.program = f"{folder}/gpt/gpt"
        self.held = [self.script("held", HELD, self.program)]
        self.expected = self.curve(subprocess.Popen([self.program, "-n", str(RANKS), *self.arguments("alone")], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True), "alone")

    def script(self, name, text, program):
        with open(f"{self.folder}/{name}", "w") as file:
            file.write(text % (self.go, program))
        os.chmod(f"{self.folder}/{name}", 0o755)
        return f"{self.folder}/{name}"

    def arguments(self, name):
        return [f"{self.folder}/run.yaml", f"train.steps={self.steps}", f"log.jsonl={self.folder}/{name}.jsonl", "log.every=1"]

    def curve(self, job, log):
        _, said = job.communicate(timeout=300)
        if job.returncode != 0:
            raise RuntimeError(f"exit code {job.returncode}: {said[-1500:]}")
        return [line["loss"] for line in json_lines(f"{self.folder}/{log}.jsonl") if "loss" in line]

    def sockets(self, job):
        """Of meshrun and of the program; other launchers have sockets of their own, which their ranks inherit."""
        ours, others = [], []
        for pid in {job.pid, *children(job.pid), *running_from(self.folder)}:  # mpirun's agents leave its tree
            try:
                (ours if os.readlink(f"/proc/{pid}/exe") in (MESHRUN, self.program) else others).append(pid)
            except OSError:
                continue
        return listening(ours) - listening(others)

    def strangers(self, targets, places):
        """Tries from each place: a command that leads there, and a user. How many were let in, and how many found somebody."""
        if not targets:
            return 0, 0
        running = [subprocess.Popen([*prefix, "/usr/bin/python3", STRANGER, json.dumps(dict(targets=sorted(targets), tries=self.tries, seed=self.dice.randrange(1 << 30), user=user))],
                                    stdout=subprocess.PIPE, text=True) for prefix, user in places]
        told = [json.loads(stranger.communicate(timeout=300)[0]) for stranger in running]
        return sum(one["admitted"] for one in told), sum(one["heard"] for one in told)

    def visit(self, report, name, command, expected, places, known=(), env=None, program=None):
        """One job, visited before its start (where `known` says that it will listen), during and after it. `expected` is what it listens at while it waits for rank 1."""
        if os.path.exists(self.go):
            os.remove(self.go)
        log = "".join(c if c.isalnum() else "-" for c in name)
        before, _ = self.strangers(known, places)
        job = subprocess.Popen([*map(str, command), *(program or self.held), *self.arguments(log)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, **(env or {})})
        try:
            ready = {"nothing": lambda found: len(children(job.pid)) >= RANKS, "names": lambda found: len(found) >= 2}.get(expected, lambda found: any(t[0] == "tcp" for t in found))
            wait_until(lambda: ready(self.sockets(job)) or job.poll() is not None)
            found = self.sockets(job)
            during, heard = self.strangers({*found, *known}, places)
            open(self.go, "w").close()
            wait_until(lambda: os.path.exists(f"{self.folder}/{log}.jsonl") or job.poll() is not None, 60)
            after, _ = self.strangers({*found, *known}, places)
            curve = self.curve(job, log)
        finally:
            for pid in children(job.pid) if job.poll() is None else []:
                os.kill(pid, 9)
        networks = sorted({where for kind, where, _ in found if kind == "tcp"})
        good = {"nothing": not found, "names": not networks}.get(expected, {*networks, "127.0.0.1"} == {expected, "127.0.0.1"})
        report.true(f"{name}: listens {'at ' + ', '.join(networks) if networks else 'on no network'}", good, sorted(found))
        report.true(f"{name}: {self.tries} tries each of {len(places)} strangers before, during and after the start", before + during + after == 0 and (heard > 0 or not found),
                    f"{before + during + after} let in; {heard} found somebody during it")
        report.true(f"{name}: the bits of a job that nobody visits", curve == self.expected, f"{len(curve)} steps")


def by_variables(variables):
    """Ranks of this host with what `variables` gives for each, as torchrun and srun without a PMI start them."""
    script = "".join(f'env {" ".join(f"{name}={value}" for name, value in variables(rank).items())} "$@" & pids="$pids $!"; ' for rank in range(RANKS))
    return ["sh", "-c", f"{script} code=0; for pid in $pids; do wait $pid || code=$?; done; exit $code", "ranks"]


def torchrun(host, local):
    return lambda rank, _=0: {"RANK": rank, "WORLD_SIZE": RANKS, "LOCAL_WORLD_SIZE": local, "MASTER_ADDR": host, "MASTER_PORT": 29541, "TORCHELASTIC_RUN_ID": f"strangers{os.getpid()}"}


def slurm(hosts, nodes):
    return lambda rank, _=0: {"SLURM_PROCID": rank, "SLURM_STEP_NUM_TASKS": RANKS, "SLURM_JOB_ID": os.getpid(), "SLURM_STEP_ID": 0, "SLURM_STEP_NODELIST": hosts, "SLURM_STEP_NUM_NODES": nodes}


def slurm_port():
    return 20000 + os.getpid() * 7 % 10000  # see bootstrap_fixed.cpp


def by_nodes(bench, host, port, shells=("", "")):
    """One meshrun on each of two nodes, to which `shells` lead; the second is held back."""
    meshrun = f"{MESHRUN} --nnodes 2 --nproc-per-node 2 --coordinator {host}:{port} --node-rank"
    return ["sh", "-c", f'{shells[0]} {meshrun} 0 "$@" & first=$!; while [ ! -e {bench.go} ]; do sleep 0.05; done; {shells[1]} {meshrun} 1 "$@" || exit; wait $first', "nodes"]


def on_one_host(report, bench):
    places = [([], NOBODY), ([], 0)]
    port = free_port()

    def visit(name, *arguments, **settings):
        report.attempt(name, lambda: bench.visit(report, name, *arguments, **settings))

    visit("the program itself", [], "nothing", places, program=[bench.program, "-n", str(RANKS)])
    visit("meshrun", [MESHRUN, "-n", RANKS], "nothing", places)
    visit("meshrun --node-rank", by_nodes(bench, "127.0.0.1", port), "127.0.0.1", places, known=[("tcp", "127.0.0.1", port)], env={"MESHRT_TOKEN_FILE": f"{bench.folder}/token"},
          program=[bench.program])
    visit("mpirun", ["mpirun.openmpi", "--allow-run-as-root", "--bind-to", "none", "--oversubscribe", "-np", RANKS], "names", places)
    visit("mpiexec.hydra", ["mpiexec.hydra", "-np", RANKS], "names", places)
    visit("torchrun's variables", by_variables(torchrun(socket.gethostname(), RANKS)), "names", places, known=[("tcp", "127.0.0.1", 29541)])
    visit("Slurm's variables", by_variables(slurm("localhost", 1)), "names", places, known=[("tcp", "127.0.0.1", slurm_port())])


def on_two_hosts(report, bench, munge):
    with Network(bench.folder, 2) as net:
        def inside(number, user):
            return ["ip", "netns", "exec", net.name(number)], user

        def visit(name, command, host=1, **settings):
            # At the coordinator's host: another user, and the same without the secret; another host; and one that is none of the job's.
            places = [inside(host, NOBODY), inside(host, 0), inside(2, NOBODY), inside(254, 0)]
            report.attempt(name, lambda: bench.visit(report, f"{name}, two hosts", command, f"10.213.0.{host}", places, **settings))

        late = bench.script("late", LATE, net.shell)
        visit("meshrun", net.meshrun(MESHRUN)[:-1] + [late], host=254, program=[bench.program])
        visit("meshrun --node-rank", by_nodes(bench, "10.213.0.1", 7777, [f"{net.shell} {host}" for host in net.hosts]), known=[("tcp", "10.213.0.1", 7777)], env={"MESHRT_TOKEN": TOKEN},
              program=[bench.program])
        visit("mpirun", by_mpirun(net))
        visit("mpiexec.hydra", by_hydra(net))
        visit("torchrun's variables", by_hand(net, torchrun("10.213.0.1", 2)), known=[("tcp", "10.213.0.1", 29541)], env={"MESHRT_TOKEN_FILE": f"{bench.folder}/token"})
        name, env = ("MUNGE", {"HOME": "/nowhere", "MESHRT_MUNGE_SOCKET": munge}) if munge else ("no MUNGE", {"MESHRT_TOKEN": TOKEN})
        visit(f"Slurm's variables, {name}", by_hand(net, slurm("10.213.0.[1-2]", 2)), known=[("tcp", "10.213.0.1", slurm_port())], env=env)


def squatted(report, bench):
    """Where somebody else listens first, the job is refused, and he learns nothing."""
    port = free_port()
    server = f"import os, socket; os.setuid({NOBODY}); s = socket.create_server(('0.0.0.0', {port})); print(flush=True); s.accept(); s.accept()"
    variables = {"SLURM_PROCID": 0, "SLURM_STEP_NUM_TASKS": 2, "SLURM_JOB_ID": 1, "SLURM_STEP_ID": 0, "SLURM_STEP_NODELIST": "127.0.0.[1-2]", "MESHRT_PORT": port, "MESHRT_TOKEN": TOKEN}
    with started("/usr/bin/python3", "-c", server, stdout=subprocess.PIPE) as squatter:
        squatter.stdout.readline()
        done = execute(bench.program, *bench.arguments("squatted"), env={name: str(value) for name, value in variables.items()}, code=None, timeout=60)
    report.true("a port that another user has taken: the job is refused", done.returncode == 3 and re.search(rf"cannot listen at \S+:{port}: Address already in use", done.stderr), done.stderr.strip()[-300:])


def run(small):
    report = Report()
    print(f"seed {SEED}, {4 if small else 100} tries of each stranger at each time")

    def action():
        with scratch() as folder:
            bench = Bench(folder, small)
            on_one_host(report, bench)
            squatted(report, bench)
            why_not = permitted()
            if why_not:
                report.skip("two hosts", why_not)
                return
            munge = subprocess.Popen(munged(folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) if shutil.which("munged") else None
            try:
                if munge:
                    wait_until(lambda: os.path.exists(f"{folder}/munge.socket"))
                on_two_hosts(report, bench, f"{folder}/munge.socket" if munge else "")
            finally:
                if munge:
                    munge.terminate()
                    munge.wait()

    if os.geteuid() != 0:
        report.skip("strangers", "only root can be another user")
        return report
    report.attempt("strangers", action)
    return report
