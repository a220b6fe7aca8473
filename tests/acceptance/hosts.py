"""gpt on several hosts: network namespaces with IPC and host names of their own, two ranks each. Every launcher gives the curve of one rank, and the
bits of processes on one host; also over a network that delays and loses packets. A host that dies, freezes or is cut off ends the job in time."""
import json
import os
import re
import signal

import numpy as np

from common import TOP, Report, json_lines, meshc, scratch, sets
from common import run as execute
from network import Network, permitted, without_table
from processes import ended, running_from, started, wait_until

SEED = 20261122
TOKEN = "a-secret-of-these-four-hosts"
GPT = dict(batch=8, seq=16, embed=32, heads=4, head_dim=8, layer=2, vocab=64)
MESHRUN = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(meshc()))), "runtime", "meshrun")


def build(folder, **further):
    """The programs `one`, of one rank, and `many`, of eight, and those of further layouts, with their run file."""
    tokens = np.random.default_rng(SEED).integers(0, GPT["vocab"], 8 * 16 * 40 + 1).astype(np.uint16)
    tokens.tofile(f"{folder}/tokens.bin")
    with open(f"{folder}/run.yaml", "w") as file:
        file.write("data: { token: {file: tokens.bin, type: u16, window: seq}, target: {of: token, shift: 1} }\n")
    with open(f"{folder}/layouts.mesh", "w") as file:
        file.write("mesh single { only: 1 }\nlayout one on single { }\nmesh near { data: 2, model: 2 within node }\nlayout near on near { batch -> data; heads, ffn -> model }\n"
                   "mesh far { data: 1, model: 4 within node }\nlayout far on far { batch -> data; heads, ffn -> model }\n")
    for name, layout in (("one", ["--layout", "one"]), ("many", ["--mesh", "data=4,model=2"]), *further.items()):
        execute(meshc(), "build", f"{TOP}/specs/gpt.mesh", f"{folder}/layouts.mesh", *layout, *sets(**GPT), "--precision", "f64", "-o", f"{folder}/{name}")


def curve(folder, name, steps, *command, env=None, timeout=300):
    """The losses of a run, which writes them to NAME.jsonl, and what it says on stderr."""
    log = f"{folder}/{name}.jsonl"
    if os.path.exists(log):
        os.remove(log)
    done = execute(*command, f"{folder}/run.yaml", f"train.steps={steps}", f"log.jsonl={log}", "log.every=1", env=env, timeout=timeout)
    return [line["loss"] for line in json_lines(log) if "loss" in line], done.stderr


def by_mpirun(net):
    """OpenMPI's launcher, with its agent replaced like ssh."""
    return net.head("mpirun.openmpi", "--allow-run-as-root", "--mca", "plm_rsh_agent", net.shell, "--mca", "plm_rsh_no_tree_spawn", 1, "--mca", "orte_keep_fqdn_hostnames", 1,
                    "--host", ",".join(f"{host}:2" for host in net.hosts), "--bind-to", "none", "-np", 2 * len(net.hosts))


def by_hydra(net):
    """MPICH's launcher, which speaks PMI-1."""
    return net.head("mpiexec.hydra", "-launcher", "ssh", "-launcher-exec", net.shell, "-iface", "bridge", "-hosts", ",".join(f"{host}:2" for host in net.hosts),
                    "-np", 2 * len(net.hosts))


def by_hand(net, variables):
    """Two ranks on each host with what `variables` gives for (rank, local rank), as torchrun and srun without a PMI start them."""
    script = ""
    for number in range(1, len(net.hosts) + 1):
        ranks = ""
        for local in range(2):
            settings = " ".join(f"{name}={value}" for name, value in variables(2 * number - 2 + local, local).items())
            ranks += f"env {settings} $command & "
        script += f"{net.shell} 10.213.0.{number} '{ranks} wait' & "
    return net.head("sh", "-c", f"command=\"$*\"; export command; {script} wait", "ranks")


def torchrun_variables(rank, local):
    return {"RANK": rank, "WORLD_SIZE": 8, "LOCAL_RANK": local, "LOCAL_WORLD_SIZE": 2, "MASTER_ADDR": "10.213.0.1", "MASTER_PORT": 29500, "TORCHELASTIC_RUN_ID": "run",
            "MESHRT_TOKEN": TOKEN}


def slurm_variables(rank, local):
    return {"SLURM_PROCID": rank, "SLURM_STEP_NUM_TASKS": 8, "SLURM_LOCALID": local, "SLURM_JOB_ID": 1234, "SLURM_STEP_ID": 0, "SLURM_STEP_NODELIST": "10.213.0.[1-4]",
            "MESHRT_TOKEN": TOKEN}


LAUNCHERS = {"mpirun (PMIx)": by_mpirun, "mpiexec.hydra (PMI-1)": by_hydra, "torchrun's variables": lambda net: by_hand(net, torchrun_variables),
             "Slurm's variables alone": lambda net: by_hand(net, slurm_variables)}


def same_curve(report, name, found, one, here):
    report.true(f"{name}: the bits of eight processes on one host", found == here, f"{len(found)} steps")
    apart = max(abs(a - b) / abs(a) for a, b in zip(one, found)) if len(found) == len(one) else 1
    report.check(f"{name}: loss of {len(one)} steps against one rank, relative", float(f"{apart:.2e}"), 1e-9)


def trains(report, folder, small):
    steps = 5 if small else 30
    one, _ = curve(folder, "one", steps, f"{folder}/one/gpt", "-n", 1)
    here, _ = curve(folder, "here", steps, f"{folder}/many/gpt", "-n", 8)
    with Network(folder, 4) as net:
        found, said = curve(folder, "meshrun", steps, *net.meshrun(MESHRUN), f"{folder}/many/gpt")
        same_curve(report, "meshrun --hosts, four hosts", found, one, here)
        report.true("the table names the host and the place of each rank", re.search(r"^ +5  10\.213\.0\.3 +data 2, model 1$", said, re.M), said.splitlines()[:3])
        report.true("between hosts over the interface that leads to them", "UCX between 4 hosts over eth0" in said)
        for name in list(LAUNCHERS)[:1] if small else LAUNCHERS:
            found, said = curve(folder, "other", steps, *LAUNCHERS[name](net), f"{folder}/many/gpt")
            same_curve(report, name, found, one, here)
            report.true(f"{name}: the table names hosts", re.search(r"^ +5  host3 +data 2, model 1$", said, re.M), said[-300:])
    if small:
        return
    with Network(folder, 4, delay=0.002, loss=0.01, seed=SEED) as net:
        for name, launcher in (("meshrun", lambda net: net.meshrun(MESHRUN)), ("mpirun", by_mpirun)):
            found, _ = curve(folder, "slow", steps, *launcher(net), f"{folder}/many/gpt", timeout=900)
            carried, lost = net.wire.counts() if net.wire else (0, 0)
            lost = f", {lost} of {carried + lost} frames lost" if net.wire else ""
            same_curve(report, f"{name}, 2 ms of delay and 1 % of loss ({net.how}{lost})", found, one, here)


def agents_of(launcher):
    """The agents' processes by the address of their host, from the processes that the launcher has started."""
    found, waiting = {}, [launcher]
    while waiting:
        pid = waiting.pop()
        try:
            with open(f"/proc/{pid}/task/{pid}/children") as file:
                waiting += map(int, file.read().split())
            with open(f"/proc/{pid}/cmdline") as file:
                words = file.read().split("\0")
        except OSError:
            continue
        if "--agent" in words and words[0] == MESHRUN:
            found[int(words[words.index("--node-rank") + 1])] = pid
    return found


def ends(report, folder, name, action, words, bound):
    """A job that trains, to which `action` happens: it ends within `bound` seconds with code 3 and one message, and nobody is left."""
    with Network(folder, 4) as net:
        log = f"{folder}/ends.jsonl"
        if os.path.exists(log):
            os.remove(log)
        command = [*net.meshrun(MESHRUN), f"{folder}/many/gpt", f"{folder}/run.yaml", "train.steps=1000000", f"log.jsonl={log}", "log.every=1"]
        with started(*command) as job:
            wait_until(lambda: os.path.exists(log) and os.path.getsize(log) > 2000, 30)
            action(net, agents_of(job.pid))
            end = ended(job, 60)
        if not end:
            report.true(name, False, "the job hangs")
            return
        said, seconds = end
        wait_until(lambda: not running_from(folder), 15)  # a host that is cut off ends its ranks itself, as late
        said = without_table(said)
        good = job.returncode == 3 and seconds <= bound and len(said) == 1 and words in said[0]
        report.true(f"{name}: exit code {job.returncode}, {seconds:.2f} s (bound {bound})", good, said[:3])


def fails(report, folder, small):
    def kill_agent(_, agents):
        os.kill(agents[2], signal.SIGKILL)

    def freeze_agent(_, agents):
        os.kill(agents[2], signal.SIGSTOP)

    ends(report, folder, "a host's agent is killed", kill_agent, "host 10.213.0.3: its agent has ended", 1.0)
    if small:
        return
    ends(report, folder, "a host is frozen", freeze_agent, "host 10.213.0.3: nothing was heard of it for 12 s", 15.0)
    ends(report, folder, "a host is cut off", lambda net, _: net.cut(3), "host 10.213.0.3: ", 15.0)


def keeps_axes_within_hosts(report, folder):
    with Network(folder, 2) as net:
        _, said = curve(folder, "near", 2, *net.meshrun(MESHRUN), f"{folder}/near/gpt")
        report.true("an axis `within node` whose ranks share a host: trains", "within node" not in said, said[-300:])
        far = execute(*net.meshrun(MESHRUN), f"{folder}/far/gpt", f"{folder}/run.yaml", "train.steps=2", code=2)
        words = "mesh axis `model` is `within node`, but its ranks 0 and 2 run on 10.213.0.1 and 10.213.0.2: start 4 ranks on each host"
        report.true("one whose ranks do not is refused before the first step, with ranks, hosts and a way out", words in far.stderr and "step" not in far.stdout, far.stderr[-400:])


def overlaps(report, folder):
    """Compiled for hosts of two ranks, gradients are summed turn by turn while the next turns are computed: the bits of the program that waits, and of one that does not do so."""
    with open(f"{folder}/hosts.yaml", "w") as file:
        file.write("name: hosts\nnode: { ranks: 2 }\ngflops: { f64: 0.1 }\nnetwork: { latency_us: 1 }\n")
    execute(meshc(), "build", f"{TOP}/specs/gpt.mesh", "--mesh", "data=2,model=2", "--machine", f"{folder}/hosts.yaml", *sets(**GPT), "--precision", "f64", "-o", f"{folder}/turns")
    execute(meshc(), "build", f"{TOP}/specs/gpt.mesh", "--mesh", "data=2,model=2", *sets(**GPT), "--precision", "f64", "-o", f"{folder}/whole")
    whole, _ = curve(folder, "whole", 5, f"{folder}/whole/gpt", "-n", 4)
    with open(f"{folder}/turns/gpt.cpp") as file:
        report.true("each turn starts its sums, and they are waited for behind the loop", re.search(r"gradients\[l\]\.start.*gradients\[l\]\.wait", file.read(), re.S))
    with Network(folder, 2) as net:
        for name, env in (("overlapped", {}), ("MESHRT_NO=overlap", {"MESHRT_NO": "overlap"})):
            found, _ = curve(folder, "turns", 5, *net.meshrun(MESHRUN), f"{folder}/turns/gpt", env=env)
            report.true(f"sums turn by turn on two hosts, {name}: the bits of sums at the end, on one", len(found) == 5 and found == whole, found)


def moves_along_beside(report, folder):
    """Where each of two hosts has a core more than its rank computes on, a thread moves the sums along: the bits of the program that does so itself."""
    with open(f"{folder}/one_each.yaml", "w") as file:
        file.write("name: one_each\nnode: { ranks: 1 }\ngflops: { f64: 0.1 }\nnetwork: { latency_us: 1 }\n")
    two = [f"{TOP}/specs/gpt.mesh", "--mesh", "data=2,model=1", *sets(**GPT), "--precision", "f64"]
    execute(meshc(), "build", *two, "--machine", f"{folder}/one_each.yaml", "-o", f"{folder}/beside")
    execute(meshc(), "build", *two, "-o", f"{folder}/alone")
    whole, _ = curve(folder, "alone", 5, f"{folder}/alone/gpt", "-n", 2)
    with Network(folder, 2, delay=0.002) as net:
        job = net.meshrun(MESHRUN, ranks=1)
        for name, env in (("beside the rank, where there is a core", {}), ("MESHRT_NO=progress", {"MESHRT_NO": "progress"}), ("two threads a rank", {"MESHRT_THREADS": "2"})):
            found, _ = curve(folder, "beside", 5, *job, f"{folder}/beside/gpt", env=env)
            report.true(f"sums on their way between two hosts, {name}: the bits of those of one", len(found) == 5 and found == whole, found)


def gathers_ahead(report, folder):
    """Parameters split over hosts are gathered for the next turn while this one computes, and their gradients scattered during the next one: the bits of the program that waits."""
    with open(f"{folder}/apart.yaml", "w") as file:
        file.write("name: apart\nnode: { ranks: 2 }\ngflops: { f64: 0.1 }\nnetwork: { latency_us: 200, gbs: 0.1 }\n")
    zero = [f"{TOP}/specs/gpt.mesh", "--layout", "zero", *sets(**{**GPT, "layer": 3}), "--precision", "f64"]
    execute(meshc(), "build", *zero, "--machine", f"{folder}/apart.yaml", "-o", f"{folder}/ahead")
    execute(meshc(), "build", *zero, "-o", f"{folder}/waits")
    whole, _ = curve(folder, "waits", 5, f"{folder}/waits/gpt", "-n", 4)
    with open(f"{folder}/ahead/gpt.cpp") as file:
        text = file.read()
    report.true("turns gather for the next one, in both directions", "if (l + 1 < layer) all_gather" in text and "if (l > 0) all_gather" in text)
    report.true("and wait for what the one before scattered", re.search(r"if \(l \+ 1 < layer\) reduce_scatter_\w+\[l \+ 1\]\.wait", text))
    report.true("the others do not", "if (l" not in open(f"{folder}/waits/gpt.cpp").read())
    here, _ = curve(folder, "ahead", 5, f"{folder}/ahead/gpt", "-n", 4)
    report.true("gathered ahead on one host: the bits of the program that waits", len(here) == 5 and here == whole, here)
    execute(meshc(), "build", *zero, "--machine", f"{folder}/apart.yaml", "--find-nonfinite", "-o", f"{folder}/looks")
    here, _ = curve(folder, "looks", 5, f"{folder}/looks/gpt", "-n", 4)
    report.true("and with a look at each number that a turn is given: the same", len(here) == 5 and here == whole, here)
    with Network(folder, 2, delay=0.002) as net:
        for name, env in (("overlapped", {}), ("MESHRT_NO=overlap", {"MESHRT_NO": "overlap"})):
            found, _ = curve(folder, "ahead", 5, *net.meshrun(MESHRUN), f"{folder}/ahead/gpt", env=env)
            report.true(f"gathered ahead on two hosts, 2 ms apart, {name}: the bits of the program that waits", len(found) == 5 and found == whole, found)


def measures(report, folder):
    """`machine --measure` on two hosts of two ranks tells what joins them from what joins the ranks of one."""
    with Network(folder, 2) as net:
        done = execute(*net.meshrun(MESHRUN), meshc(), "machine", "--measure", "-o", f"{folder}/two.yaml", "--name", "two")
    shown = json.loads(execute(meshc(), "machine", f"{folder}/two.yaml", "--json").stdout)
    far, near = shown["network"], shown["node"]
    slower = far["latency_us"] > near["latency_us"] and far["send"]["latency_us"] > near["send"]["latency_us"]
    report.true("machine --measure: links of hosts and between them", near["ranks"] == 2 and len(far["gbs"]) == len(far["send"]["gbs"]) == 6 and slower, shown)
    report.true("and says so", "all-reduce, 2 hosts" in done.stderr and "send between hosts" in done.stderr, done.stderr)


def refuses(report, folder):
    with Network(folder, 4) as net:
        alone = execute(*by_hand(net, lambda rank, local: {**slurm_variables(rank, local), "MESHRT_TOKEN": "", "HOME": folder, "MESHRT_MUNGE_SOCKET": f"{folder}/none"}), f"{folder}/many/gpt",
                        f"{folder}/run.yaml", code=None)
        report.true("hosts that share no secret are refused, with a way out", "share no secret" in alone.stderr and "openssl rand -hex 16 >~/.meshrt-token" in alone.stderr, alone.stderr[:300])
    with Network(folder, 2) as net:
        program = f"{folder}/one/gpt"
        wrong = execute(*net.head(MESHRUN, "--hosts", "10.213.0.1,10.213.0.9", "--ssh", net.shell, program), code=3)
        report.true("a host whose command fails is named", "host 10.213.0.9: the command that starts its agent" in wrong.stderr, wrong.stderr.strip()[-200:])
        shell = f"{folder}/silent"
        with open(shell, "w") as file:
            file.write("#!/bin/sh\nexec sleep 30\n")
        os.chmod(shell, 0o755)
        late = execute(*net.head(MESHRUN, "--hosts", "10.213.0.2", "--ssh", shell, "--connect-timeout", "1", program), code=3)
        report.true("a host that does not come is named with the address", re.search(r"nothing was heard of 10\.213\.0\.2 within 1 s: can it connect to 10\.213\.0\.254:\d+", late.stderr),
                    late.stderr.strip()[-200:])


def run(small):
    report = Report()
    print(f"seed {SEED}, four hosts of two ranks")
    why_not = permitted()
    if why_not:
        report.skip("hosts", why_not)
        return report

    def action():
        with scratch() as folder:
            build(folder, near=["--layout", "near"], far=["--layout", "far"])
            keeps_axes_within_hosts(report, folder)
            trains(report, folder, small)
            fails(report, folder, small)
            overlaps(report, folder)
            moves_along_beside(report, folder)
            gathers_ahead(report, folder)
            measures(report, folder)
            refuses(report, folder)

    report.attempt("hosts", action)
    return report
