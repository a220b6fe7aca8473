"""Collectives between hosts (network namespaces): every one of them gives what the oracle does, whose sums go in the order that is promised, with one, two
and three hosts, as many ranks on each or not. All-reduces, reduce-scatters and all-gathers over hosts of two ranks put on the wire what they do over hosts of one."""
import json
import os

from common import Report, meshc, scratch
from common import run as execute
from network import Network, permitted

BUILD = os.path.dirname(os.path.dirname(os.path.dirname(meshc())))
MESHRUN, PROGRAM = f"{BUILD}/runtime/meshrun", f"{BUILD}/tests/runtime/rank_program"


def job(net, ranks, *task, env=None, code=0):
    """Runs a task of rank_program with so many ranks on each host."""
    hosts = ",".join(f"{host}:{count}" for host, count in zip(net.hosts, ranks))
    return execute(*net.head(MESHRUN, "--hosts", hosts, "--ssh", net.shell, PROGRAM, *task), env=env, timeout=240, code=code)


def sent(net):
    """Bytes that the first host has sent."""
    told = execute("ip", "-n", net.name(1), "-json", "-statistics", "link", "show", "eth0").stdout
    return json.loads(told)[0]["stats64"]["tx"]["bytes"]


def run(small):
    report = Report()
    why_not = permitted()
    if why_not:
        report.skip("levels", why_not)
        return report

    def action():
        with scratch() as folder, Network(folder, 3) as net:
            for ranks in ([2, 2], [1, 3]) if small else ([2, 2], [1, 3], [4, 4], [3, 3], [2, 2, 2]):
                for task in ("cases", "interleaved", "groups", "channels", "plans"):
                    job(net, ranks, task)  # fails where a result is not the oracle's
                    report.true(f"{task}: hosts of {ranks} ranks give what the oracle does", True)
            for task, told in (("count", "5000 x f32"), ("long count", "150000 x f32"), ("one long count", "12000 x f32")):
                for ranks in ([1, 1], [2, 2]):
                    said = job(net, ranks, "misbehave", task, env={"MESHRT_TIMEOUT": "60"}, code=3).stderr
                    report.true(f"{task}: hosts of {ranks} ranks name both calls", told in said and "diverge" in said, said[-600:])
            job(net, [2, 2], "cases", env={"MESHRT_NO": "tcp"})
            report.true("cases: the same where UCX carries the long messages too", True)
            for size in (1, 16) if small else (1, 16, 64):
                for task, kind in (("sum", "all-reduce"), ("scatter", "reduce-scatter"), ("gather", "all-gather")):
                    counted = {}
                    for count in (1, 2):
                        before = sent(net)
                        job(net, [count, count], task, size << 20, 4)
                        counted[count] = sent(net) - before
                    share = round(counted[2] / counted[1], 3)
                    report.check(f"{kind} of {size} MiB: bytes that a host of two ranks sends, of those of one rank", share, 1.05)

    report.attempt("levels", action)
    return report
