"""Whether something else runs on this machine: what the CPUs did that no benchmark asked for."""
import sys
import time

LEAST = 0.05  # of a CPU's time


def cpu_times():
    """(busy, all) in ticks, over all CPUs; what a hypervisor gave to others counts as busy."""
    with open("/proc/stat") as file:
        ticks = list(map(int, file.readline().split()[1:9]))
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def foreign_load(seconds=0.5):
    """The share of all CPUs that others take while this process sleeps."""
    busy, total = cpu_times()
    time.sleep(seconds)
    busy_now, total_now = cpu_times()
    return (busy_now - busy) / max(1, total_now - total)


def wait_until_idle(limit=30):
    """Waits until others take less than a twentieth, `limit` seconds at the most, and says so where they go on. What they take."""
    end = time.monotonic() + limit
    load = foreign_load()
    while load > LEAST and time.monotonic() < end:
        load = foreign_load()
    if load > LEAST:
        print(f"something else takes {load:.0%} of this machine: ratios hold, times do not", file=sys.stderr, flush=True)
    return load
