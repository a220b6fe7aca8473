"""Processes of a job under test, by the kernel's own lists, and what they may leave behind."""
import contextlib
import ctypes
import os
import subprocess
import time

LIBC = ctypes.CDLL(None, use_errno=True)
NEW_MOUNTS, NEW_IPC = 0x00020000, 0x08000000  # of unshare
PRIVATE, RECURSIVE = 1 << 18, 1 << 14  # of mount


@contextlib.contextmanager
def started(*command, **options):
    """A process, with its errors as text. When this is left it has ended, and what it started ends with it, whatever has failed meanwhile."""
    job = subprocess.Popen([str(c) for c in command], **{"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True, **options})
    try:
        yield job
    finally:
        job.kill()  # the ranks of a launcher go with it
        job.wait()
        for stream in filter(None, (job.stdout, job.stderr)):
            stream.close()


def ended(job, limit):
    """(what it says on stderr, the seconds until it has ended); nothing where it hangs, for `limit` seconds."""
    start = time.monotonic()
    try:
        _, said = job.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        return None
    return said, time.monotonic() - start


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


def own_memory():
    """Gives this process, and all that it starts, shared memory of their own: an empty /dev/shm and no System V segments. What leftovers() finds is then of
    this test, whatever runs beside it. Only root may; others have to run such a test alone."""
    if LIBC.unshare(NEW_MOUNTS | NEW_IPC):
        print(f"note: no shared memory of its own ({os.strerror(ctypes.get_errno())}): what others leave in /dev/shm meanwhile is taken for a leftover")
        return
    for mounted in ((None, b"/", None, PRIVATE | RECURSIVE, None), (b"none", b"/dev/shm", b"tmpfs", 0, None)):
        if LIBC.mount(*mounted[:3], ctypes.c_ulong(mounted[3]), mounted[4]):
            raise RuntimeError(f"cannot mount {mounted[1].decode()}: {os.strerror(ctypes.get_errno())}")


def leftovers():
    """Files in the shared memory of the job, and System V segments: UCX may use either."""
    with open("/proc/sysvipc/shm") as file:
        segments = {f"segment {line.split()[1]}" for line in list(file)[1:]}
    return segments | {f"/dev/shm/{name}" for name in os.listdir("/dev/shm")}


def wait_until(condition, seconds=20, instead=lambda: ""):
    """Returns when it has once been true: what it asks about may be over a moment later. `instead` says what there is."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            raise RuntimeError(f"what was waited for did not happen within {seconds} s {instead()}".rstrip())
        time.sleep(0.005)


def described(pid):
    """What a process is and does: its command, state, and where it waits in the kernel."""
    try:
        with open(f"/proc/{pid}/cmdline") as command, open(f"/proc/{pid}/status") as status, open(f"/proc/{pid}/wchan") as place:
            state = next(line for line in status if line.startswith("State"))
            return f"{pid} ({command.read().replace(chr(0), ' ').strip()[:120]}): {state.split(None, 1)[1].strip()} in {place.read()}"
    except OSError:
        return f"{pid}, gone"


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
