#!/usr/bin/python3
"""The PyTorch peer of specs/mixtral.mesh: the same weights, bytes, slots of experts and optimizer, in one process of several threads. Tokens are brought to
their experts' slots by index, and all experts multiply at once.

  torch_mixtral.py weights FILE.safetensors             writes initial weights under the names of the .mesh parameters
  torch_mixtral.py train WEIGHTS BYTES STEPS THREADS plain|compile
                                                        trains, as it is or compiled, and prints "loss X" for each step and "median X ms"

Needs PyTorch 2.4 or newer.
"""
import math
import os
import sys

if sys.argv[1] == "train":
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = sys.argv[5]
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import timed_steps
from weights_file import read_safetensors, write_safetensors

BATCH, SEQ, EMBED, KV, GROUP, HEAD, EXPERTS, PICK, VOCAB, LAYERS, WINDOW = 16, 128, 128, 2, 2, 32, 8, 2, 256, 4, 64
FFN, SLOTS = 3 * EMBED // PICK, math.ceil(1.25 * PICK * SEQ / EXPERTS)
PEAK, WARMUP = 1e-3, 100


def weights(path):
    random = np.random.default_rng(0)

    def normal(*shape, fan):
        return random.normal(0, fan ** -0.5, shape)

    arrays = {"wte": random.normal(0, 0.02, (VOCAB, EMBED)), "unembed": random.normal(0, 0.02, (VOCAB, EMBED)), "last.gain": np.ones(EMBED),
              "layer.n1.gain": np.ones((LAYERS, EMBED)), "layer.n2.gain": np.ones((LAYERS, EMBED)),
              "layer.attn.wq": normal(LAYERS, EMBED, KV, GROUP, HEAD, fan=EMBED), "layer.attn.wo": normal(LAYERS, KV, GROUP, HEAD, EMBED, fan=KV * GROUP * HEAD),
              "layer.attn.wk": normal(LAYERS, EMBED, KV, HEAD, fan=EMBED), "layer.attn.wv": normal(LAYERS, EMBED, KV, HEAD, fan=EMBED),
              "layer.moe.gate": normal(LAYERS, EMBED, EXPERTS, fan=EMBED), "layer.moe.w1": normal(LAYERS, EXPERTS, EMBED, FFN, fan=EMBED),
              "layer.moe.w3": normal(LAYERS, EXPERTS, EMBED, FFN, fan=EMBED), "layer.moe.w2": normal(LAYERS, EXPERTS, FFN, EMBED, fan=FFN)}
    write_safetensors(path, {name: array.astype(np.float32) for name, array in arrays.items()})


class Mixtral(nn.Module):
    def __init__(self, arrays):
        super().__init__()
        self.named = nn.ParameterDict({name.replace(".", "_"): torch.from_numpy(array) for name, array in arrays.items()})
        turn = torch.arange(SEQ)[:, None] * 1e6 ** (-torch.arange(HEAD // 2) / (HEAD // 2))
        self.cos, self.sin = torch.cos(turn), torch.sin(turn)
        apart = torch.arange(SEQ)[:, None] - torch.arange(SEQ)
        self.near = (apart >= 0) & (apart < WINDOW)
        self.lines = torch.arange(BATCH)[:, None]

    def of(self, name, layer):
        return self.named["layer_" + name][layer]

    def norm(self, x, gain):
        return F.rms_norm(x, (EMBED,), gain, 1e-6)

    def rope(self, x):
        a, b = x.split(HEAD // 2, -1)
        return torch.cat([a * self.cos - b * self.sin, b * self.cos + a * self.sin], -1)

    def attention(self, x, layer):
        heads = lambda weight: (x @ weight.reshape(EMBED, -1)).view(BATCH, SEQ, -1, HEAD).transpose(1, 2)
        q, k, v = self.rope(heads(self.of("attn_wq", layer))), self.rope(heads(self.of("attn_wk", layer))), heads(self.of("attn_wv", layer))
        k, v = k.repeat_interleave(GROUP, 1), v.repeat_interleave(GROUP, 1)
        found = F.scaled_dot_product_attention(q, k, v, attn_mask=self.near)
        return found.transpose(1, 2).reshape(BATCH, SEQ, -1) @ self.of("attn_wo", layer).reshape(-1, EMBED)

    def experts(self, x, layer):
        score = x @ self.of("moe_gate", layer)
        best, chosen = score.topk(PICK, -1)
        weight = best.softmax(-1)
        # The first choices of a line come first: [batch, pick * seq]
        wanted = chosen.transpose(1, 2).reshape(BATCH, -1)
        picks = F.one_hot(wanted, EXPERTS)
        place = (picks.cumsum(1) - 1).gather(2, wanted[..., None])[..., 0]
        found = place < SLOTS
        slot = torch.where(found, wanted * SLOTS + place, EXPERTS * SLOTS)
        token = torch.arange(SEQ).repeat(PICK).expand(BATCH, -1)
        room = x.new_zeros(BATCH, EXPERTS * SLOTS + 1, EMBED)
        given = room.index_put((self.lines, slot), x[self.lines, token])[:, :-1]
        given = given.view(BATCH, EXPERTS, SLOTS, EMBED).transpose(0, 1).reshape(EXPERTS, -1, EMBED)
        made = (F.silu(given @ self.of("moe_w1", layer)) * (given @ self.of("moe_w3", layer))) @ self.of("moe_w2", layer)
        made = made.view(EXPERTS, BATCH, SLOTS, EMBED).transpose(0, 1).reshape(BATCH, -1, EMBED)
        taken = F.pad(made, (0, 0, 0, 1))[self.lines, slot].view(BATCH, PICK, SEQ, EMBED)
        y = (taken * weight.transpose(1, 2)[..., None]).sum(1)
        load = picks.sum(1) / SEQ
        return y, EXPERTS * (load * score.softmax(-1).mean(1)).sum(-1).mean()

    def forward(self, token, target):
        h, aux = self.named["wte"][token], 0.0
        for layer in range(LAYERS):
            h = h + self.attention(self.norm(h, self.of("n1_gain", layer)), layer)
            y, even = self.experts(self.norm(h, self.of("n2_gain", layer)), layer)
            h, aux = h + y, aux + even
        logits = self.norm(h, self.named["last_gain"]) @ self.named["unembed"].t()
        return F.cross_entropy(logits.view(-1, VOCAB), target.reshape(-1)) + 0.02 * aux / LAYERS


def train(path, tokens_path, steps, compiled):
    model = Mixtral(read_safetensors(path))
    gains = [p for name, p in model.named_parameters() if name.endswith("gain")]
    others = [p for name, p in model.named_parameters() if not name.endswith("gain")]
    optimizer = torch.optim.AdamW([{"params": others, "weight_decay": 0.1}, {"params": gains, "weight_decay": 0.0}], lr=PEAK, fused=True)
    tokens = np.fromfile(tokens_path, np.uint8).astype(np.int64)
    run, taken = torch.compile(model) if compiled else model, 0

    def loss_of():
        nonlocal taken
        first = taken * BATCH * SEQ
        taken += 1
        for group in optimizer.param_groups:
            group["lr"] = PEAK * taken / WARMUP
        token, target = (torch.from_numpy(tokens[at:at + BATCH * SEQ]).view(BATCH, SEQ) for at in (first, first + 1))
        return run(token, target)

    timed_steps.train(steps, optimizer, loss_of, lambda: nn.utils.clip_grad_norm_(model.parameters(), 1.0))


if __name__ == "__main__":
    if sys.argv[1] == "weights":
        weights(sys.argv[2])
    else:
        torch.set_num_threads(int(sys.argv[5]))
        train(sys.argv[2], sys.argv[3], int(sys.argv[4]), "compile" in sys.argv)
