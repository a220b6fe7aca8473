"""Whether something else runs on this machine: what the CPUs did that no benchmark asked for."""
import os
import sys
import time

LEAST = 0.1  # of one CPU's time


def cpu_times():
    """(busy, all) in ticks, over all CPUs; what a hypervisor gave to others counts as busy."""
    with open("/proc/stat") as file:
        ticks = list(map(int, file.readline().split()[1:9]))
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def foreign_load(seconds=0.5):
    """How many CPUs others take while this process sleeps: 1 is one of them, all the time."""
    busy, total = cpu_times()
    time.sleep(seconds)
    busy_now, total_now = cpu_times()
    return os.cpu_count() * (busy_now - busy) / max(1, total_now - total)


def wait_until_idle(limit=30):
    """Waits until others take less than a tenth of a CPU, `limit` seconds at the most, and says so where they go on. What they take."""
    end = time.monotonic() + limit
    load = foreign_load()
    while load > LEAST and time.monotonic() < end:
        load = foreign_load()
    if load > LEAST:
        print(f"something else takes {load:.1f} CPUs of this machine: ratios hold, times do not", file=sys.stderr, flush=True)
    return load
