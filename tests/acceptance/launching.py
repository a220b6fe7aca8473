"""The options of meshrun, by what they do to a gpt that trains: on this host, and on hosts that are network namespaces."""
import contextlib
import os
import re
import signal
import subprocess
import time

from common import Report, json_lines, scratch
from common import run as execute
from hosts import MESHRUN, SEED, TOKEN, build, curve
from network import Network, permitted
from processes import alive, children, rank_of, started, status, wait_until

STEPS = 6


def ranks_of(job):
    """{rank: process} of a job's programs."""
    found = {}
    for pid in children(job.pid):
        with contextlib.suppress(OSError, StopIteration):  # it has just ended, or not quite begun
            if os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "gpt":
                found[rank_of(pid)] = pid
    return found


def keeps_what_ranks_print(report, folder):
    kept = f"{folder}/logs"
    done = execute(MESHRUN, "-n", 8, "--tag-output", "--log-dir", kept, f"{folder}/many/gpt", f"{folder}/run.yaml", f"train.steps={STEPS}", "log.every=1")
    lines = [line for line in done.stdout.splitlines() if re.search(r"step \d+/", line)]
    report.true("--tag-output: every line has its rank", len(lines) == STEPS and all(line.startswith("[0] ") for line in lines), lines[:1])
    with open(f"{kept}/rank-0.out") as file:
        copies = [line for line in file.read().splitlines() if re.search(r"step \d+/", line)]
    report.true("--log-dir: a copy of what rank 0 prints, without tags", copies == [line[len("[0] "):] for line in lines], copies[:1])
    report.true("--log-dir: two files of each rank", sorted(os.listdir(kept)) == sorted(f"rank-{r}.{end}" for r in range(8) for end in ("out", "err")))


def binds(report, folder):
    """--bind-to: the processors that ranks may use, as the kernel has them."""
    own = sorted(os.sched_getaffinity(0))
    for choice, expected in (("core", [{cpu} for cpu in own[:2]]), ("none", [set(own)] * 2)):
        with started(MESHRUN, "-n", 2, "--bind-to", choice, f"{folder}/two/gpt", f"{folder}/run.yaml", "train.steps=1000000", "log.every=1000000") as job:
            try:
                wait_until(lambda: len(ranks_of(job)) == 2 and all(os.sched_getaffinity(pid) == cpus for (_, pid), cpus in zip(sorted(ranks_of(job).items()), expected)))
                report.true(f"--bind-to {choice}: rank by rank", True, [status(pid)["Cpus_allowed_list"] for _, pid in sorted(ranks_of(job).items())])
            except RuntimeError:
                report.true(f"--bind-to {choice}: rank by rank", len(own) < 2, [status(pid).get("Cpus_allowed_list") for _, pid in sorted(ranks_of(job).items())])
            job.send_signal(signal.SIGINT)
            said = job.communicate(timeout=30)[1]
            report.true(f"--bind-to {choice}: interrupted", job.returncode == 130 and "SIGINT has ended the run at once" in said, said)


def helps(report):
    for words, told in ((("--rank", "2", "true"), "error: unknown option `--rank`: did you mean `--ranks`?\nsee --help\n"), (("-q", "true"), "error: unknown option `-q`: known options: ")):
        done = execute(MESHRUN, *words, code=2)
        report.true(f"{words[0]}: an option that there is not", told in done.stderr, done.stderr)
    said = execute(MESHRUN, "--help").stdout
    report.true("--help: the usage has what is started", "\nUsage: meshrun [OPTIONS] [--] PROGRAM [ARGUMENTS...]\n" in said and said.count("PROGRAM [ARGUMENTS...]") == 1, said[:1200])


def leaves_the_programs_words(report, folder):
    """What follows PROGRAM is its own, also where it looks like an option of meshrun; `--` stands before PROGRAM, or among its words."""
    own, told = ["-np", "3", "--rank", "--", "-n"], f"{folder}/words"
    for between in ((), ("--",)):
        execute(MESHRUN, "-n", 2, *between, "sh", "-c", f"""printf '%s\\n' "$@" >'{told}'.$MESHRT_RANK; exec {folder}/two/gpt {folder}/run.yaml train.steps=1""", "sh", *own)
        for rank in range(2):
            with open(f"{told}.{rank}") as file:
                words = file.read().splitlines()
            report.true(f"{' '.join(['meshrun', '-n 2', *between, 'sh'])}: the words of rank {rank}", words == own, words)
            os.remove(f"{told}.{rank}")
    lost = execute(MESHRUN, "--", "-n", code=None)
    report.true("-- -n: the program `-n` is looked for", lost.returncode != 0 and "-n" in lost.stderr and "unknown option" not in lost.stderr, lost.stderr)


def refuses(report, folder):
    done = execute("sh", "-c", f"ulimit -f 600; exec {folder}/two/gpt -n 2 {folder}/run.yaml train.steps=1", code=None)
    report.true("files may not be large: code and words", done.returncode == 3 and "cannot make shared memory for the job: File too large" in done.stderr, (done.returncode, done.stderr))
    start = time.monotonic()
    some = execute(MESHRUN, "-n", 2, "sh", "-c", f'[ "$MESHRT_RANK" = 1 ] || exec {folder}/two/gpt {folder}/run.yaml train.steps=1', code=None)
    report.true("a rank that ends in order before it joins: code and words", some.returncode == 3 and "rank 1" in some.stderr and "exited with code 0 before it joined the job" in some.stderr, some.stderr)
    report.check("seconds until that is told", float(f"{time.monotonic() - start:.2f}"), 10.0)
    many = execute(MESHRUN, "-n", 64 * len(os.sched_getaffinity(0)) + 1, "true", code=2)
    report.true("-n: more ranks than a host can carry", "would only hold each other up" in many.stderr, many.stderr.strip())
    report.true("postmortem without a folder", "takes the folder of a run" in execute(MESHRUN, "postmortem", code=2).stderr)


def restarts(report, folder):
    """A rank is killed in two of three attempts; the curve is that of a job that nobody disturbed."""
    steps = 40
    whole, _ = curve(folder, "whole", steps, f"{folder}/two/gpt", "-n", 2)
    log, ckpt = f"{folder}/again.jsonl", f"{folder}/again"
    command = [MESHRUN, "-n", "2", "--max-restarts", "2", f"{folder}/two/gpt", f"{folder}/run.yaml", f"train.steps={steps}", f"log.jsonl={log}", "log.every=1",
               f"checkpoint.dir={ckpt}", "checkpoint.every=4", "checkpoint.resume=never"]  # restarted, it goes on all the same
    victims = []

    def newcomers():
        return {rank: pid for rank, pid in ranks_of(job).items() if pid not in victims}

    # Slowly enough to be met: every step waits for its checkpoint.
    with started(*command, "checkpoint.async=false") as job:
        for attempt in range(2):
            wait_until(lambda: os.path.exists(f"{ckpt}/latest") and len(newcomers()) == 2)
            now = newcomers()
            victims += now.values()
            os.kill(now[attempt], signal.SIGKILL)
            wait_until(lambda: not any(map(alive, victims)))
        _, said = job.communicate(timeout=120)
    by_step = {line["step"]: line["loss"] for line in json_lines(log) if "loss" in line}
    report.true("--max-restarts 2: ends well after two kills", job.returncode == 0 and said.count("killed by signal 9") == 2, said.strip()[-300:])
    report.true("--max-restarts 2: the curve of a job that nobody disturbed", [by_step[step] for step in sorted(by_step)] == whole, f"{len(by_step)} steps")
    once = execute(MESHRUN, "-n", 2, "--max-restarts", 1, "sh", "-c", "exit 1", code=3)
    report.true("--max-restarts 1: not more often", once.stderr.count("exited with code 1") == 2, once.stderr.strip()[-300:])


def trains_without_streams(report, folder):
    """Started with none of descriptors 0 and 1: what ranks open is not written to in their place."""
    curves = []
    for name, closed in (("open", ""), ("closed", "<&- >&-")):
        log = f"{folder}/streams_{name}.jsonl"
        command = f"exec '{folder}/two/gpt' -n 2 '{folder}/run.yaml' train.steps={STEPS} log.every=1 log.jsonl='{log}' {closed}"
        done = execute("sh", "-c", command, code=None)
        curves.append([line["loss"] for line in json_lines(log) if "loss" in line])
        report.true(f"descriptors 0 and 1 {name}", done.returncode == 0, done.stderr[-300:])
    report.true("descriptors 0 and 1 closed: the same losses", len(curves[0]) == STEPS and curves[0] == curves[1], curves[1][-1:])


def heeds_timeout(report, folder):
    """`train.timeout` under a launcher that knows nothing of it: a rank that is stopped, and no heartbeats that would tell."""
    with started(MESHRUN, "-n", 2, f"{folder}/two/gpt", f"{folder}/run.yaml", "train.steps=1000000", "log.every=1000000", "train.timeout=2",
                 env={**os.environ, "MESHRT_HEARTBEAT": "0"}) as job:
        wait_until(lambda: len(ranks_of(job)) == 2)
        time.sleep(1)
        os.kill(ranks_of(job)[1], signal.SIGSTOP)
        _, said = job.communicate(timeout=60)
    report.true("train.timeout under meshrun", job.returncode == 3 and "rank 0 waited 2 s for rank 1" in said, said.strip()[-300:])


def outlives_its_reader(report, folder):
    """`... | head -1`: who reads the output ends before the run does."""
    for launcher in ([MESHRUN, "-n", "2"], [MESHRUN, "-n", "2", "--tag-output"]):
        ckpt = f"{folder}/unread{len(launcher)}"
        with started(*launcher, f"{folder}/two/gpt", f"{folder}/run.yaml", "train.steps=40", "log.every=1", f"checkpoint.dir={ckpt}", stdout=subprocess.PIPE) as job:
            job.stdout.readline()
            job.stdout.close()
            said = job.stderr.read()
            report.true(f"{' '.join(launcher[3:])} output that nobody reads any more", job.wait(timeout=60) == 0 and os.path.exists(f"{ckpt}/step-40"), said[-300:])


def prints_for_people(report, folder):
    """Lines that replace each other on a terminal; whole ones on that which Open MPI gives a rank, whatever stands behind it."""
    for name, env in (("a terminal", {}), ("a terminal of Open MPI's", {"OMPI_COMM_WORLD_RANK": "0"})):
        terminal, theirs = os.openpty()
        text = b""
        with started(f"{folder}/two/gpt", "-n", 2, f"{folder}/run.yaml", "train.steps=3", "log.every=1", stdout=theirs, stderr=subprocess.DEVNULL,
                     env={**os.environ, "TERM": "xterm", **env}) as job:
            os.close(theirs)
            with contextlib.suppress(OSError):  # nobody has the other end any more
                while piece := os.read(terminal, 65536):
                    text += piece
            code = job.wait(timeout=60)
        os.close(terminal)
        lines = text.decode().replace("\r\n", "\n")
        report.true(f"progress on {name}", code == 0 and ("\r" in lines or "\x1b" in lines) == (not env), lines[-300:])
        if env:
            report.true("its lines", all(re.search(rf"^step {step}/3 ", lines, re.M) for step in (1, 2, 3)), lines[-300:])


def ends_with_agent(report, folder):
    """As torchrun starts ranks: when the process that serves them is killed, they end, and say why."""
    run = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29533", "TORCHELASTIC_RUN_ID": f"agent{os.getpid()}"}
    with contextlib.ExitStack() as running:
        ranks = [running.enter_context(started(f"{folder}/two/gpt", f"{folder}/run.yaml", "train.steps=1000000", "log.every=1000000",
                                               env={**os.environ, **run, "RANK": str(rank), "LOCAL_RANK": str(rank)})) for rank in range(2)]
        # Beside rank 0 runs first the coordinator; the agent is beside the rank that was there first.
        wait_until(lambda: len(children(ranks[0].pid)) + len(children(ranks[1].pid)) == 2)
        time.sleep(2)
        agent = (children(ranks[1].pid) or sorted(children(ranks[0].pid))[1:])[0]
        os.kill(agent, signal.SIGKILL)
        start = time.monotonic()
        said = [rank.communicate(timeout=60)[1] for rank in ranks]
    report.check("ranks whose agent is killed: seconds until they have ended", float(f"{time.monotonic() - start:.2f}"), 2.0)
    report.true("ranks whose agent is killed: their codes and words", all(rank.returncode == 3 for rank in ranks) and "the launcher of this job has ended" in "".join(said), said)


def waits_alone(report, folder):
    """As torchrun starts ranks, one of which never comes."""
    run = {"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29534", "TORCHELASTIC_RUN_ID": f"alone{os.getpid()}", "MESHRT_CONNECT_TIMEOUT": "2"}
    done = execute(f"{folder}/two/gpt", f"{folder}/run.yaml", "train.steps=1", env=run, code=None)
    report.true("a rank that never comes: code and words", done.returncode == 3 and "1 of 2 ranks have not come within 2 s, of them 1; set MESHRT_CONNECT_TIMEOUT" in done.stderr,
                (done.returncode, done.stderr))


def says_where(report, folder):
    done = execute(MESHRUN, "-n", 8, "--display-map", f"{folder}/many/gpt", f"{folder}/run.yaml", "train.steps=1")
    report.true("--display-map: a line for each rank", len(re.findall(r"^ +\d  .+  data \d, model \d$", done.stderr, re.M)) == 8, done.stderr.splitlines()[:2])
    here, _ = curve(folder, "here", STEPS, f"{folder}/many/gpt", "-n", 8)
    found, _ = curve(folder, "ucx", STEPS, MESHRUN, "-n", 8, "--transport", "ucx", f"{folder}/many/gpt")
    report.true("--transport ucx: the bits of the arena", found == here and len(found) == STEPS)
    return here


def over_hosts(report, folder, here):
    with Network(folder, 4) as net, contextlib.ExitStack() as running:
        with open(f"{folder}/hosts", "w") as file:
            file.write("# five are listed, four are used\n" + "".join(f"{host} slots=3\n" for host in [*net.hosts, "10.213.0.9"]))
        listed = net.head(MESHRUN, "--hostfile", f"{folder}/hosts", "--ssh", net.shell, "--nnodes", 4, "--nproc-per-node", 2, "--address", "10.213.0.254",
                          "-x", "WORD=a b", "-x", "OWN", "sh", "-c", f'echo "$MESHRT_RANK $WORD $OWN" >{folder}/word.$MESHRT_RANK; exec {folder}/many/gpt "$@"', "gpt")
        found, _ = curve(folder, "listed", STEPS, *listed, env={"OWN": "mine"})
        report.true("--hostfile, --nnodes, --nproc-per-node, --address: the same bits", found == here)
        words = []
        for rank in range(8):
            with open(f"{folder}/word.{rank}") as file:
                words.append(file.read().strip())
        report.true("-x: variables reach every rank", words == [f"{rank} a b mine" for rank in range(8)], words[:2])

        aliases = ",".join(f"alias.{number}:2" for number in range(1, 5))
        found, _ = curve(folder, "aliases", STEPS, *net.head(MESHRUN, "--hosts", aliases, "--ssh", net.shell, f"{folder}/many/gpt"))
        report.true("--hosts: names that only the shell understands", found == here)

        def node(number, token, *program):
            command = [MESHRUN, "--nnodes", "4", "--node-rank", str(number), "--nproc-per-node", "2", "--coordinator", "10.213.0.1:7777", "--connect-timeout", "20", *program]
            return running.enter_context(started("ip", "netns", "exec", net.name(number + 1), *command, env={**os.environ, "MESHRT_TOKEN": token}))

        short = node(1, "swordfish").communicate(timeout=60)[1]
        report.true("--node-rank: a short token is refused", "MESHRT_TOKEN has 9 characters" in short and "openssl rand -hex 16" in short, short.strip()[-300:])
        log = f"{folder}/nodes.jsonl"
        program = [f"{folder}/many/gpt", f"{folder}/run.yaml", f"train.steps={STEPS}", f"log.jsonl={log}", "log.every=1"]
        nodes = [node(0, TOKEN, *program)]
        stranger = node(2, "another-secret-than-theirs", *program)
        _, refused = stranger.communicate(timeout=60)
        report.true("--node-rank: a node with another token is refused", stranger.returncode == 3 and "does not take this host in" in refused, refused.strip()[-300:])
        nodes += [node(number, TOKEN, *program) for number in (1, 2, 3)]
        said = [job.communicate(timeout=60)[1] for job in nodes]
        report.true("--node-rank, --coordinator: all nodes end well", [job.returncode for job in nodes] == [0] * 4, said[-1][-300:])
        report.true("--node-rank: the coordinator tells of the stranger", "was turned away: it does not have this job's token" in said[0], said[0][-300:])
        report.true("--node-rank, --coordinator: the same bits", [line["loss"] for line in json_lines(log) if "loss" in line] == here)
        for told in ([1], [0, 1, 2, 3]):
            ckpt = f"{folder}/told{len(told)}"
            program = [f"{folder}/many/gpt", f"{folder}/run.yaml", "train.steps=1000000", "log.every=1", f"checkpoint.dir={ckpt}", "log.jsonl=" + log]
            os.remove(log)
            nodes = [node(number, TOKEN, *program) for number in range(4)]
            wait_until(lambda: os.path.exists(log) and len(json_lines(log)) > 3)
            for number in told:
                nodes[number].send_signal(signal.SIGTERM)
            said = [job.communicate(timeout=60)[1] for job in nodes]
            report.true(f"--node-rank: SIGTERM to {len(told)} of 4 nodes ends in order", nodes[0].returncode == 75 and os.path.exists(f"{ckpt}/latest"), said[0][-300:])


def run(small):
    report = Report()
    print(f"seed {SEED}, gpt of eight ranks and of two")

    def action():
        with scratch() as folder:
            build(folder, two=["--mesh", "data=2,model=1"])
            report.attempt("what ranks print", lambda: keeps_what_ranks_print(report, folder))
            report.attempt("help", lambda: helps(report))
            report.attempt("binding", lambda: binds(report, folder))
            report.attempt("words of the program", lambda: leaves_the_programs_words(report, folder))
            report.attempt("refusals", lambda: refuses(report, folder))
            report.attempt("restarts", lambda: restarts(report, folder))
            report.attempt("streams", lambda: trains_without_streams(report, folder))
            report.attempt("timeout", lambda: heeds_timeout(report, folder))
            report.attempt("reader", lambda: outlives_its_reader(report, folder))
            report.attempt("people", lambda: prints_for_people(report, folder))
            report.attempt("agent", lambda: ends_with_agent(report, folder))
            report.attempt("one alone", lambda: waits_alone(report, folder))
            here = says_where(report, folder)
            why_not = permitted()
            if why_not:
                report.skip("hosts", why_not)
            else:
                report.attempt("hosts", lambda: over_hosts(report, folder, here))

    report.attempt("launching", action)
    return report
