#!/usr/bin/python3
"""The PyTorch peer of specs/resnet.mesh: the same weights, data and optimizer, in one process of several threads.

  torch_resnet.py weights FILE.safetensors                           writes initial weights under the names of the .mesh parameters
  torch_resnet.py train WEIGHTS IMAGES.npy LABELS.npy STEPS THREADS  trains with channels first in memory and with channels last, and prints of the
                                                                     faster "loss X" for each step and "median X ms"
"""
import os
import sys

if sys.argv[1] == "train":
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = sys.argv[6]
import contextlib
import io
import re

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import timed_steps
from weights_file import read_safetensors, write_safetensors

BATCH, WIDE, DEEP, CLASSES, UNITS, SIZE = 64, 32, 64, 10, 2, 3
PEAK, WARMUP = 0.1, 200


def weights(path):
    random = np.random.default_rng(0)

    def normal(*shape, scale=2):
        return random.normal(0, (scale / np.prod(shape[:-1])) ** 0.5, shape)

    arrays = {"stem": normal(SIZE, SIZE, WIDE), "down.around": normal(WIDE, DEEP), "head": normal(DEEP, CLASSES, scale=1),
              "down.first": normal(SIZE, SIZE, WIDE, DEEP), "down.second": normal(SIZE, SIZE, DEEP, DEEP)}
    arrays |= {f"unit.body.{name}": np.stack([normal(SIZE, SIZE, WIDE, WIDE) for _ in range(UNITS)]) for name in ("first", "second")}
    for norm, shape in {"norm": WIDE, "unit.body.n1": (UNITS, WIDE), "unit.body.n2": (UNITS, WIDE), "down.n1": DEEP, "down.n2": DEEP, "down.n3": DEEP}.items():
        arrays |= {f"{norm}.gain": np.ones(shape), f"{norm}.bias": np.zeros(shape)}
    write_safetensors(path, {name: array.astype(np.float32) for name, array in arrays.items()})


def normed(kernel, gain, bias, **options):
    """A convolution and the norm of what it gives. `kernel` is [height, width, from, to]."""
    height, width, narrow, wide = kernel.shape
    conv, norm = nn.Conv2d(narrow, wide, (height, width), bias=False, **options), nn.BatchNorm2d(wide)
    with torch.no_grad():
        conv.weight.copy_(torch.from_numpy(kernel.transpose(3, 2, 0, 1).copy()))
        norm.weight.copy_(torch.from_numpy(gain))
        norm.bias.copy_(torch.from_numpy(bias))
    return nn.Sequential(conv, norm)


class Residual(nn.Module):
    def __init__(self, first, second, around):
        super().__init__()
        self.first, self.second, self.around = first, second, around

    def forward(self, x):
        return F.relu(self.around(x) + self.second(F.relu(self.first(x), inplace=True)), inplace=True)


def model_of(arrays):
    def part(kernel, norm, unit=..., **options):
        return normed(kernel, arrays[f"{norm}.gain"][unit], arrays[f"{norm}.bias"][unit], **options)

    body = [Residual(part(arrays["unit.body.first"][unit], "unit.body.n1", unit, padding=1), part(arrays["unit.body.second"][unit], "unit.body.n2", unit, padding=1), nn.Identity())
            for unit in range(UNITS)]
    down = Residual(part(arrays["down.first"], "down.n1", stride=2, padding=1), part(arrays["down.second"], "down.n2", padding=1),
                    nn.Sequential(nn.AvgPool2d(2), part(arrays["down.around"][None, None], "down.n3")))
    head = nn.Linear(DEEP, CLASSES, bias=False)
    with torch.no_grad():
        head.weight.copy_(torch.from_numpy(arrays["head"].T.copy()))
    stem = [part(arrays["stem"][:, :, None], "norm", padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
    return nn.Sequential(*stem, *body, down, nn.AdaptiveAvgPool2d(1), nn.Flatten(), head)


def train(arrays, images, labels, steps, order):
    """What timed_steps.train prints."""
    model = model_of(arrays).to(memory_format=order)
    decaying = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.SGD([{"params": decaying, "weight_decay": 5e-4}, {"params": others}], lr=PEAK, momentum=0.9, fused=True)
    taken = 0

    def loss_of():
        nonlocal taken
        batch = slice(taken * BATCH, (taken + 1) * BATCH)
        taken += 1
        for group in optimizer.param_groups:
            group["lr"] = PEAK * taken / WARMUP
        x = (images[batch].float() / 255).contiguous(memory_format=order)
        return F.cross_entropy(model(x), labels[batch])

    with contextlib.redirect_stdout(io.StringIO()) as told:
        timed_steps.train(steps, optimizer, loss_of)
    return told.getvalue()


def fastest(path, images_path, labels_path, steps, threads):
    torch.set_num_threads(threads)
    arrays = read_safetensors(path)
    images, labels = torch.from_numpy(np.load(images_path))[:, None], torch.from_numpy(np.load(labels_path).astype(np.int64))
    told = [train(arrays, images, labels, steps, order) for order in (torch.contiguous_format, torch.channels_last)]
    print(min(told, key=lambda text: float(re.search(r"median ([0-9.]+) ms", text)[1])), end="")


if __name__ == "__main__":
    if sys.argv[1] == "weights":
        weights(sys.argv[2])
    else:
        fastest(*sys.argv[2:5], *map(int, sys.argv[5:7]))
