"""Processes of a job under test, by the kernel's own lists, and what they may leave behind."""
import os
import time


def children(pid):
    """The live processes below `pid`."""
    found = []
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            for child in map(int, file.read().split()):
                found += [child, *children(child)]
    except OSError:
        pass
    return found


def status(pid):
    """The lines of /proc/PID/status by name; none when it is gone."""
    try:
        with open(f"/proc/{pid}/status") as file:
            return {name: value.strip() for name, _, value in (line.partition(":") for line in file)}
    except OSError:
        return {}


def alive(pid):
    return status(pid).get("State", "X")[0] not in "ZX"


def rank_of(pid):
    with open(f"/proc/{pid}/environ") as file:
        return next(int(entry.split("=")[1]) for entry in file.read().split("\0") if entry.startswith("MESHRT_RANK="))


def leftovers():
    """Files, and System V segments: UCX may use either. Folders of other tests, which may run beside this one, do not count."""
    with open("/proc/sysvipc/shm") as file:
        segments = {f"segment {line.split()[1]}" for line in list(file)[1:]}
    return segments | {f"/dev/shm/{f}" for f in os.listdir("/dev/shm")} | {f"/tmp/{f}" for f in os.listdir("/tmp") if ("meshr" in f or "ucx" in f) and not f.startswith("meshrt-test-")}


def wait_until(condition, seconds=20):
    """Returns when it has once been true: what it asks about may be over a moment later."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            raise RuntimeError(f"what was waited for did not happen within {seconds} s")
        time.sleep(0.005)


def running_from(folder):
    """Processes of the programs in a folder, whoever started them."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/exe").startswith(folder):
                found.append(int(pid))
        except OSError:
            continue
    return found
