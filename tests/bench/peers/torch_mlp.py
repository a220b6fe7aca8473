#!/usr/bin/python3
"""The PyTorch peer of perceptron.mesh: the same weights, data and optimizer, in one process of several threads.

  torch_mlp.py weights FILE.safetensors                 writes initial weights under the names of the .mesh parameters
  torch_mlp.py train WEIGHTS X.npy Y.npy STEPS THREADS  trains and prints "loss X" for each step and "median X ms"
"""
import os
import sys

if sys.argv[1] == "train":
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = sys.argv[6]
import numpy as np
import torch
from torch import nn

import timed_steps
from weights_file import read_safetensors, write_safetensors

FROM, HIDDEN, TO = 1024, 4096, 1024


def weights(path):
    random = np.random.default_rng(0)
    shapes = {"up": (FROM, HIDDEN), "up_bias": (HIDDEN,), "down": (HIDDEN, TO), "down_bias": (TO,)}
    write_safetensors(path, {name: random.normal(0, shape[0] ** -0.5, shape).astype(np.float32) for name, shape in shapes.items()})


def train(path, x_path, y_path, steps, threads):
    torch.set_num_threads(threads)
    model = nn.Sequential(nn.Linear(FROM, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, TO))
    arrays = read_safetensors(path)
    with torch.no_grad():
        for layer, name in ((model[0], "up"), (model[2], "down")):
            layer.weight.copy_(torch.from_numpy(arrays[name].T.copy()))
            layer.bias.copy_(torch.from_numpy(arrays[f"{name}_bias"]))
    x, y = torch.from_numpy(np.load(x_path)), torch.from_numpy(np.load(y_path))
    optimizer = torch.optim.SGD(model.parameters(), lr=1)
    timed_steps.train(steps, optimizer, lambda: ((model(x) - y) ** 2).mean())


if __name__ == "__main__":
    if sys.argv[1] == "weights":
        weights(sys.argv[2])
    else:
        train(*sys.argv[2:5], *map(int, sys.argv[5:7]))
