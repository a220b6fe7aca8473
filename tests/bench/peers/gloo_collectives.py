#!/usr/bin/python3
"""A job of Gloo (PyTorch's) for tests/bench/collectives: gloo_collectives.py FOLDER NAME RANKS, or one rank of several hosts:
FOLDER NAME RANKS RANK ADDRESS, where rank 0 listens. The protocol is that of commands.h."""
import os
import socket
import sys
import time

os.environ["OMP_NUM_THREADS"] = "1"
import torch
import torch.distributed as dist
import torch.multiprocessing as processes


def call(collective, x, ranks):
    """Runs it; the result, or None where Gloo lacks it."""
    if collective == "all_reduce":
        dist.all_reduce(x)
        return x
    if collective == "broadcast":
        dist.broadcast(x, 0)
        return x
    if collective == "all_gather":
        parts = [torch.empty_like(x) for _ in range(ranks)]
        dist.all_gather(parts, x)
        return parts[0]
    return None


def measure(rank, ranks, collective, size, repeats):
    x = torch.empty(size // 4 // (ranks if collective == "all_gather" else 1))
    times = []
    for i in range(-2, repeats):
        x.fill_(rank + 1)
        dist.barrier()
        start = time.perf_counter()
        result = call(collective, x, ranks)
        if i >= 0:
            times.append(time.perf_counter() - start)
        if result is None:
            return "-"
    expected = ranks * (ranks + 1) / 2 if collective == "all_reduce" else 1
    return " ".join(map(str, times)) if float(result[0]) == expected else "wrong"


def serve(rank, folder, name, ranks, port, address="127.0.0.1", interface="lo"):
    os.environ.update(MASTER_ADDR=address, MASTER_PORT=str(port), GLOO_SOCKET_IFNAME=interface)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    with open(f"{folder}/{name}.{rank}.in") as commands, open(f"{folder}/{name}.{rank}.out", "w") as answers:
        for line in commands:
            collective, size, repeats = line.split()
            print(measure(rank, ranks, collective, int(size), int(repeats)), file=answers, flush=True)


if __name__ == "__main__":
    folder, name, ranks = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if len(sys.argv) > 4:
        serve(int(sys.argv[4]), folder, name, ranks, 29511, sys.argv[5], "eth0")
        sys.exit()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes.spawn(serve, args=(folder, name, ranks, port), nprocs=ranks)
