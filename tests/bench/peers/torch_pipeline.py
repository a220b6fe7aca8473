#!/usr/bin/python3
"""The PyTorch peer of gpt2_384.mesh as a pipeline of two stages: the same model, weights, tokens and optimizer, torch.distributed.pipelining's 1F1B over gloo.

  torch_pipeline.py WEIGHTS TOKENS STEPS BATCH MICROBATCHES LAYERS      LAYERS: of the first stage

Both stages have the table; its gradients are added up. Prints "loss X" for each step and "median X ms"."""
import os
import statistics
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from torch_gpt2 import SEQ, VOCAB, Gpt, parameters_by_path
from weights_file import read_safetensors


class First(nn.Module):
    def __init__(self, model, layers):
        super().__init__()
        self.wte, self.wpe, self.layers = model.wte, model.wpe, model.layers[:layers]

    def forward(self, token):
        h = self.wte(token) + self.wpe(torch.arange(token.shape[1]))
        for layer in self.layers:
            h = layer(h)
        return h


class Last(nn.Module):
    def __init__(self, model, layers):
        super().__init__()
        self.wte, self.layers, self.last = model.wte, model.layers[layers:], model.last

    def forward(self, h):
        for layer in self.layers:
            h = layer(h)
        return self.last(h) @ self.wte.weight.t()


def train(rank, path, tokens_path, steps, batch, micro_batches, layers):
    torch.set_num_threads(1)
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpus[rank % len(cpus)]})
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ.get("PEER_PORT", "29512"))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    model = Gpt()
    arrays = read_safetensors(path)
    for name, (_, write) in parameters_by_path(model).items():
        write(arrays[name])
    part = (First, Last)[rank](model, layers)
    stage = PipelineStage(part, rank, 2, torch.device("cpu"))
    schedule = Schedule1F1B(stage, micro_batches, loss_fn=lambda logits, target: F.cross_entropy(logits.view(-1, VOCAB), target.reshape(-1)))
    optimizer = torch.optim.AdamW(part.parameters(), lr=1e-4)
    tokens, times = np.memmap(tokens_path, np.uint16, "r"), []
    for step in range(steps):
        first, count = step * batch * SEQ, batch * SEQ
        token, target = (torch.from_numpy(tokens[first + shift:first + shift + count].astype(np.int64)).view(batch, SEQ) for shift in (0, 1))
        start, losses = time.perf_counter(), []
        optimizer.zero_grad(set_to_none=True)
        if rank == 0:
            schedule.step(token)
        else:
            schedule.step(target=target, losses=losses)
        dist.all_reduce(part.wte.weight.grad)
        optimizer.step()
        times.append(time.perf_counter() - start)
        if rank == 1:
            print(f"loss {torch.stack(losses).mean().item():.6f}", flush=True)
    if rank == 1:
        print(f"median {statistics.median(times[3:]) * 1e3:.2f} ms", flush=True)
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)  # as in torch_gpt2.py


if __name__ == "__main__":
    torch.multiprocessing.spawn(train, args=(*sys.argv[1:3], *map(int, sys.argv[3:7])), nprocs=2)
