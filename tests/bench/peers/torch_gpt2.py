#!/usr/bin/python3
"""The PyTorch peer of gpt2_384.mesh: the same model, weights, tokens and optimizer; fused AdamW and scaled_dot_product_attention where PyTorch has them.

  torch_gpt2.py weights FILE.safetensors                  writes initial weights under the names of the .mesh parameters
  torch_gpt2.py train WEIGHTS TOKENS STEPS RANKS BATCH [WAY] [bf16]
                                                          trains, in bf16 under autocast, and prints "loss X" for each step and "median X ms"

WAY: `ddp`, processes of one thread (gloo), the default; `threads`, one process of RANKS threads; `compile`, that compiled; `ddp-compile`, processes whose
model is compiled. PEER_SIZES=124M stands for GPT-2's own sizes in place of those of gpt2_384.mesh.
"""
import math
import os
import statistics
import sys
import time

SHARED = {"threads", "compile"} & set(sys.argv)  # one process with as many threads as there would be ranks
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[name] = sys.argv[5] if SHARED else "1"
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import timed_steps
from weights_file import read_safetensors, write_safetensors

VOCAB, LAYERS, HEADS, WIDTH, SEQ = (50257, 12, 12, 768, 256) if os.environ.get("PEER_SIZES") == "124M" else (4096, 6, 6, 384, 256)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.hidden = torch.tril(torch.ones(SEQ, SEQ)).view(1, 1, SEQ, SEQ) == 0  # no buffer: gloo cannot send bool

    def forward(self, x):
        batch, seq, _ = x.shape
        q, k, v = (t.view(batch, seq, HEADS, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(WIDTH, 2))
        if hasattr(F, "scaled_dot_product_attention"):
            found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            found = F.softmax((q @ k.transpose(-2, -1) / math.sqrt(WIDTH // HEADS)).masked_fill(self.hidden, float("-inf")), -1) @ v
        x = x + self.out(found.transpose(1, 2).reshape(batch, seq, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCAB, WIDTH), nn.Embedding(SEQ, WIDTH)
        self.layers, self.last = nn.ModuleList(Block() for _ in range(LAYERS)), nn.LayerNorm(WIDTH)

    def forward(self, token, target):
        h = self.wte(token) + self.wpe(torch.arange(token.shape[1]))
        for layer in self.layers:
            h = layer(h)
        return F.cross_entropy((self.last(h) @ self.wte.weight.t()).view(-1, VOCAB).float(), target.reshape(-1))


def parameters_by_path(model):
    """{path in the .mesh: (array in its order of dims, a function that writes such an array back)}"""
    head = (HEADS, WIDTH // HEADS)

    def stack(of, shape):
        def read():
            return np.stack([of(layer).detach().numpy().reshape(shape) for layer in model.layers])

        def write(array):
            for layer, one in zip(model.layers, array):
                of(layer).data.copy_(torch.from_numpy(np.ascontiguousarray(one)).view(of(layer).shape))

        return read, write

    def stack_t(of, shape, part=None):
        """A linear layer's weight is [out, in]; the spec's is [in, out]."""
        rows = slice(None) if part is None else slice(part * WIDTH, (part + 1) * WIDTH)

        def read():
            return np.stack([of(layer).detach().numpy()[rows].T.reshape(shape) for layer in model.layers])

        def write(array):
            for layer, one in zip(model.layers, array):
                of(layer).data[rows] = torch.from_numpy(np.ascontiguousarray(one.reshape(of(layer).shape[1], -1).T))

        return read, write

    def stack_part(of, part):
        rows = slice(part * WIDTH, (part + 1) * WIDTH)

        def read():
            return np.stack([of(layer).detach().numpy()[rows].reshape(head) for layer in model.layers])

        def write(array):
            for layer, one in zip(model.layers, array):
                of(layer).data[rows] = torch.from_numpy(np.ascontiguousarray(one.reshape(-1)))

        return read, write

    def single(parameter):
        return (lambda: parameter.detach().numpy(), lambda array: parameter.data.copy_(torch.from_numpy(np.ascontiguousarray(array))))

    table = {
        "wte": single(model.wte.weight), "wpe": single(model.wpe.weight),
        "last.gain": single(model.last.weight), "last.bias": single(model.last.bias),
        "layer.norm1.gain": stack(lambda l: l.norm1.weight, (WIDTH,)), "layer.norm1.bias": stack(lambda l: l.norm1.bias, (WIDTH,)),
        "layer.norm2.gain": stack(lambda l: l.norm2.weight, (WIDTH,)), "layer.norm2.bias": stack(lambda l: l.norm2.bias, (WIDTH,)),
        "layer.attn.wo": stack_t(lambda l: l.out.weight, (*head, WIDTH)), "layer.attn.bo": stack(lambda l: l.out.bias, (WIDTH,)),
        "layer.feed.up": stack_t(lambda l: l.up.weight, (WIDTH, 4 * WIDTH)), "layer.feed.up_bias": stack(lambda l: l.up.bias, (4 * WIDTH,)),
        "layer.feed.down": stack_t(lambda l: l.down.weight, (4 * WIDTH, WIDTH)), "layer.feed.down_bias": stack(lambda l: l.down.bias, (WIDTH,)),
    }
    for part, name in enumerate("qkv"):
        table[f"layer.attn.w{name}"] = stack_t(lambda l: l.qkv.weight, (WIDTH, *head), part)
        table[f"layer.attn.b{name}"] = stack_part(lambda l: l.qkv.bias, part)
    return table


def weights(path):
    torch.manual_seed(0)
    model = Gpt()
    with torch.no_grad():
        for parameter in model.parameters():  # biases and gains away from 0 and 1, so that a mistake in them shows
            parameter.copy_(parameter + 0.1 * torch.randn_like(parameter) if parameter.dim() == 1 else 0.02 * torch.randn_like(parameter))
    write_safetensors(path, {name: read() for name, (read, _) in parameters_by_path(model).items()})


def optimizer_of(model):
    """Fused, where this PyTorch has it for CPUs."""
    try:
        return torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    except (RuntimeError, TypeError):
        return torch.optim.AdamW(model.parameters(), lr=1e-4)


def loaded(path):
    model, arrays = Gpt(), read_safetensors(path)
    for name, (_, write) in parameters_by_path(model).items():
        write(arrays[name])
    return model


def train_shared(path, tokens_path, steps, threads, batch, bf16, compiled):
    """In one process of several threads."""
    torch.set_num_threads(threads)
    model = loaded(path)
    run, optimizer, taken = torch.compile(model) if compiled else model, optimizer_of(model), 0
    tokens = np.fromfile(tokens_path, np.uint16).astype(np.int64)

    def loss_of():
        nonlocal taken
        first = taken * batch * SEQ
        taken += 1
        token, target = (torch.from_numpy(tokens[at:at + batch * SEQ]).view(batch, SEQ) for at in (first, first + 1))
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            return run(token, target)

    timed_steps.train(steps, optimizer, loss_of)


def train(rank, ranks, path, tokens_path, steps, batch, bf16, compiled):
    torch.set_num_threads(1)
    if hasattr(os, "sched_setaffinity"):
        cpus = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cpus[rank % len(cpus)]})
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ.get("PEER_PORT", "29511"))
    torch.distributed.init_process_group("gloo", rank=rank, world_size=ranks)
    model = loaded(path)
    parallel = nn.parallel.DistributedDataParallel(model)
    optimizer = optimizer_of(model)
    if compiled:
        parallel = torch.compile(parallel)
    tokens = np.memmap(tokens_path, np.uint16, "r")
    mine, times = batch // ranks, []
    for step in range(steps):
        first = (step * batch + rank * mine) * SEQ
        token = torch.from_numpy(tokens[first:first + mine * SEQ].astype(np.int64)).view(mine, SEQ)
        target = torch.from_numpy(tokens[first + 1:first + mine * SEQ + 1].astype(np.int64)).view(mine, SEQ)
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            loss = parallel(token, target)
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
        total = loss.detach().clone()
        torch.distributed.all_reduce(total)
        if rank == 0:
            print(f"loss {total.item() / ranks:.6f}", flush=True)
    if rank == 0:
        print(f"median {statistics.median(times[3:]) * 1e3:.2f} ms", flush=True)
    torch.distributed.barrier()
    sys.stdout.flush()
    os._exit(0)  # threads that PyTorch leaves running abort a process that ends in its own way, now and then


if __name__ == "__main__":
    if sys.argv[1] == "weights":
        weights(sys.argv[2])
    else:
        path, tokens_path, steps, ranks, batch = sys.argv[2], sys.argv[3], *map(int, sys.argv[4:7])
        bf16, compiled = "bf16" in sys.argv, bool({"compile", "ddp-compile"} & set(sys.argv))
        if SHARED:
            train_shared(path, tokens_path, steps, ranks, batch, bf16, compiled)
        else:
            torch.multiprocessing.spawn(train, args=(ranks, path, tokens_path, steps, batch, bf16, compiled), nprocs=ranks)
