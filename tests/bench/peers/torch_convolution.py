#!/usr/bin/python3
"""The PyTorch peer of convolution.mesh: the same weights, data and optimizer, channels last, in one process of several threads.

  torch_convolution.py weights FILE.safetensors          writes initial weights under the names of the .mesh parameters
  torch_convolution.py train WEIGHTS X.npy STEPS THREADS  trains and prints "loss X" for each step and "median X ms"
"""
import os
import sys

if sys.argv[1] == "train":
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = sys.argv[5]
import numpy as np
import torch
from torch import nn

import timed_steps
from weights_file import read_safetensors, write_safetensors

SIZE, CHANNELS, FILTERS = 3, 64, 64


def weights(path):
    random = np.random.default_rng(0)
    kernel = random.normal(0, (2 / (SIZE * SIZE * CHANNELS)) ** 0.5, (SIZE, SIZE, CHANNELS, FILTERS))
    write_safetensors(path, {"gain": np.ones(CHANNELS, np.float32), "kernel": kernel.astype(np.float32)})


def train(path, x_path, steps, threads):
    torch.set_num_threads(threads)
    arrays = read_safetensors(path)
    conv = nn.Conv2d(CHANNELS, FILTERS, SIZE, padding=1, bias=False)
    gain = nn.Parameter(torch.from_numpy(arrays["gain"].copy()).view(1, -1, 1, 1))
    with torch.no_grad():
        conv.weight.copy_(torch.from_numpy(arrays["kernel"].transpose(3, 2, 0, 1).copy()))
    conv = conv.to(memory_format=torch.channels_last)
    x = torch.from_numpy(np.load(x_path)).permute(0, 3, 1, 2)  # lies channels last already
    optimizer = torch.optim.SGD([gain, conv.weight], lr=0.1)
    timed_steps.train(steps, optimizer, lambda: (conv(x * gain) ** 2).mean())


if __name__ == "__main__":
    if sys.argv[1] == "weights":
        weights(sys.argv[2])
    else:
        train(*sys.argv[2:4], *map(int, sys.argv[4:6]))
