#!/usr/bin/python3
"""The PyTorch peer of specs/unet.mesh: the same model, weights, pictures, noise and optimizer, in one process of several threads.

  torch_unet.py WEIGHTS TRAINING.npy HELD_OUT.npy BATCH STEPS SEED THREADS
      a line of JSON: {"losses": [of each step], "validation": the mean over what is held out, "before": that of the noisy pictures, "seconds": S}

A batch is the next pictures, and after the last one the first.
"""
import json
import os
import sys
import time

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = sys.argv[-1]
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "acceptance"))
import numpy as np
import torch
import torch.nn.functional as F

from oracle.philox import normal
from oracle.torch_optim import cosine
from weights_file import read_safetensors

NOISE, PEAK, WARMUP = 0.5, 4e-3, 100


def parameter(array):
    """Kernels as PyTorch has them, of a convolution [to, from, height, width]; of one that enlarges, `from` stands first."""
    order = {4: (3, 2, 0, 1), 3: (2, 0, 1)}.get(array.ndim)
    return torch.nn.Parameter(torch.from_numpy(array if order is None else array.transpose(order).copy()))


class UNet(torch.nn.Module):
    """Its parameters have the names of the spec's."""

    def __init__(self, weights):
        super().__init__()
        self.names = list(weights)
        self.all = torch.nn.ParameterList(parameter(array) for array in weights.values())

    def of(self, name):
        return self.all[self.names.index(name)]

    def twice(self, x, path):
        for kernel, bias in (("first", "b1"), ("second", "b2")):
            x = F.relu(F.conv2d(x, self.of(f"{path}.{kernel}"), self.of(f"{path}.{bias}"), padding=1))
        return x

    def up(self, x, bridge, path):
        larger = F.conv_transpose2d(x, self.of(f"{path}.weight").transpose(0, 1), stride=2)
        return torch.cat([larger, bridge], 1)

    def forward(self, noisy):
        """Guesses [batch, height, width]."""
        x0 = self.twice(F.relu(F.conv2d(noisy[:, None], self.of("stem")[:, None], padding=1)), "enc0")
        x1 = self.twice(F.max_pool2d(x0, 2), "enc1")
        x2 = self.twice(F.max_pool2d(x1, 2), "bottom")
        y1 = self.twice(self.up(x2, x1, "up1"), "dec1")
        y0 = self.twice(self.up(y1, x0, "up0"), "dec0")
        return noisy - torch.einsum("bchw,c->bhw", y0, self.of("last"))


def clean_rows(pictures, first, count):
    return torch.from_numpy(pictures[np.arange(first, first + count) % len(pictures)]).float() / 255


def noise(seed, step, shape):
    """What the program of ours draws at that step."""
    return NOISE * torch.from_numpy(normal(seed, "random_normal", [step], shape).astype(np.float32))


def validation(model, pictures, batch, drawn):
    """Mean squared errors of what is guessed and of what is given, over all pictures; each batch has the same noise, that of the step."""
    wrong = before = 0.0
    with torch.inference_mode():
        for first in range(0, len(pictures), batch):
            clean = clean_rows(pictures, first, min(batch, len(pictures) - first))
            added = drawn[:len(clean)]
            wrong += ((model(clean + added) - clean) ** 2).sum().item()
            before += (added ** 2).sum().item()
    return wrong / pictures.size, before / pictures.size


def main():
    path, training, held_out = sys.argv[1:4]
    batch, steps, seed, threads = map(int, sys.argv[4:])
    torch.set_num_threads(threads)
    model, pictures = UNet(read_safetensors(path)), np.load(training)
    optimizer, rate = torch.optim.Adam(model.parameters()), cosine(PEAK, WARMUP, steps)
    losses, start = [], time.perf_counter()
    for step in range(1, steps + 1):
        clean = clean_rows(pictures, (step - 1) * batch, batch)
        optimizer.param_groups[0]["lr"] = rate(step)
        optimizer.zero_grad(set_to_none=True)
        loss = ((model(clean + noise(seed, step, tuple(clean.shape))) - clean) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step % 100 == 0:
            print(f"step {step}  loss {losses[-1]:.5f}  {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    seconds = time.perf_counter() - start
    wrong, before = validation(model, np.load(held_out), batch, noise(seed, steps, (batch, *pictures.shape[1:])))
    print(json.dumps({"losses": losses, "validation": wrong, "before": before, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
