#!/usr/bin/python3
"""The PyTorch peer of specs/translate.mesh: the same model, weights, batches, optimizer and schedule, in one process of several threads.

  torch_translate.py train SIZES WEIGHTS OUT STEPS RATE THREADS    a line of JSON: {"losses": [...], "seconds": S}; the weights go to OUT
  torch_translate.py write SIZES WEIGHTS BEAMS PENALTY THREADS     a line of JSON: what is written for each row of heldout.npy, as numbers

SIZES is a file of JSON: batch, heads, vocab, peak, warmup, clip, smoothing, pad, start, end. Beside it lie src.npy, tgt.npy, label.npy and
heldout.npy, a row a sample; a batch is the next rows, and after the last one the first. RATE is the share that dropout drops. BEAMS 0 is greedy.
"""
import json
import math
import os
import sys
import time

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = sys.argv[-1]
import numpy as np
import torch
import torch.nn.functional as F

from weights_file import read_safetensors, write_safetensors


class Translate(torch.nn.Module):
    """Its parameters have the names and shapes of the spec's: those of a stack have its layers in front."""

    def __init__(self, weights, sizes, rate):
        super().__init__()
        self.names = list(weights)
        self.all = torch.nn.ParameterList(torch.nn.Parameter(torch.from_numpy(array)) for array in weights.values())
        self.sizes, self.rate = sizes, rate

    def of(self, name, layer=None):
        parameter = self.all[self.names.index(name)]
        return parameter if layer is None else parameter[layer]

    def layers(self, stack):
        return range(len(self.of(f"{stack}.n1.gain")))

    def norm(self, x, path, layer=None):
        return F.layer_norm(x, x.shape[-1:], self.of(f"{path}.gain", layer), self.of(f"{path}.bias", layer), 1e-5)

    def attention(self, x, memory, keep, path, layer):
        batch, heads = len(x), self.sizes["heads"]

        def by_head(y, name):
            return (y @ self.of(f"{path}.{name}", layer).flatten(1)).view(batch, y.shape[1], heads, -1).transpose(1, 2)

        q, k, v = by_head(x, "wq"), by_head(memory, "wk"), by_head(memory, "wv")
        score = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).masked_fill(~keep, float("-inf"))
        weight = F.dropout(F.softmax(score, -1), self.rate, self.training)
        return (weight @ v).transpose(1, 2).reshape(batch, x.shape[1], -1) @ self.of(f"{path}.wo", layer).flatten(0, 1)

    def feed(self, x, path, layer):
        x = F.gelu(x @ self.of(f"{path}.up.weight", layer) + self.of(f"{path}.up.bias", layer))
        return x @ self.of(f"{path}.down.weight", layer) + self.of(f"{path}.down.bias", layer)

    def embedded(self, numbers):
        table = self.of("table")
        length, width = numbers.shape[1], table.shape[1]
        angle = torch.arange(length)[:, None] * 1e4 ** (-torch.arange(width // 2) / (width // 2))
        return F.embedding(numbers, table) * math.sqrt(width) + torch.cat([angle.sin(), angle.cos()], 1)

    def encode(self, src):
        """What the decoder sees of a source, and which positions of it count: [batch, 1, 1, source]."""
        seen = (src != self.sizes["pad"])[:, None, None]
        x = self.embedded(src)
        for layer in self.layers("enc"):
            a = self.norm(x, "enc.n1", layer)
            x = x + self.attention(a, a, seen, "enc.self", layer)
            x = x + self.feed(self.norm(x, "enc.n2", layer), "enc.feed", layer)
        return x, seen

    def decode(self, memory, seen, tgt):
        """Logits [batch, target, vocab]."""
        mine = (tgt != self.sizes["pad"])[:, None, None] & torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool).tril()
        y = self.embedded(tgt)
        for layer in self.layers("dec"):
            a = self.norm(y, "dec.n1", layer)
            y = y + self.attention(a, a, mine, "dec.self", layer)
            y = y + self.attention(self.norm(y, "dec.n2", layer), memory, seen, "dec.cross", layer)
            y = y + self.feed(self.norm(y, "dec.n3", layer), "dec.feed", layer)
        return self.norm(y, "last") @ self.of("table").t()


def load(path, sizes, rate=0.0):
    return Translate(read_safetensors(path), sizes, rate)


def rows_of(folder, name):
    return torch.from_numpy(np.load(f"{folder}/{name}.npy").astype(np.int64))


def train(folder, sizes, path, out, steps, rate):
    model, batch = load(path, sizes, rate).train(), sizes["batch"]
    src, tgt, label = (rows_of(folder, name) for name in ("src", "tgt", "label"))
    optimizer = torch.optim.Adam(model.parameters(), lr=sizes["peak"])
    losses, start = [], time.perf_counter()
    for step in range(1, steps + 1):
        rows = torch.arange((step - 1) * batch, step * batch) % len(src)
        for group in optimizer.param_groups:
            group["lr"] = sizes["peak"] * min(step / sizes["warmup"], math.sqrt(sizes["warmup"] / step))
        optimizer.zero_grad(set_to_none=True)
        logits = model.decode(*model.encode(src[rows]), tgt[rows])
        loss = F.cross_entropy(logits.flatten(0, 1), label[rows].flatten(), ignore_index=sizes["pad"], label_smoothing=sizes["smoothing"])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), sizes["clip"])
        optimizer.step()
        losses.append(loss.item())
        if step % 100 == 0:
            print(f"step {step}  loss {losses[-1]:.4f}  {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    seconds = time.perf_counter() - start
    write_safetensors(out, {name: parameter.detach().numpy() for name, parameter in zip(model.names, model.all)})
    print(json.dumps({"losses": losses, "seconds": seconds}), flush=True)


def write_greedily(model, src, longest):
    """Texts of a batch of sources, as numbers without marks."""
    memory, seen = model.encode(src)
    tgt = torch.full((len(src), 1), model.sizes["start"])
    ended = torch.zeros(len(src), dtype=torch.bool)
    while tgt.shape[1] < longest and not ended.all():
        best = model.decode(memory, seen, tgt)[:, -1].argmax(-1)
        ended |= best == model.sizes["end"]
        tgt = torch.cat([tgt, torch.where(ended, model.sizes["pad"], best)[:, None]], 1)
    return [[token for token in row if token != model.sizes["pad"]] for row in tgt[:, 1:].tolist()]


def search(model, src, longest, beams, penalty):
    """The text of the best log-likelihood by length ^ penalty, its end counted, that a search by beams finds for one source."""
    memory, seen = model.encode(src[None])
    live, found = [([model.sizes["start"]], 0.0)], []
    while live:
        tgt = torch.tensor([tokens for tokens, _ in live])
        shares = F.log_softmax(model.decode(memory.expand(len(live), -1, -1), seen, tgt)[:, -1].double(), -1)
        total = shares + torch.tensor([sum_of for _, sum_of in live], dtype=torch.float64)[:, None]
        length = tgt.shape[1]
        found += [(sum_of / length ** penalty, tokens[1:]) for (tokens, _), sum_of in zip(live, total[:, model.sizes["end"]].tolist())]
        total[:, model.sizes["end"]] = -math.inf
        best = total.flatten().topk(beams)
        live = [(live[place // total.shape[1]][0] + [place % total.shape[1]], sum_of) for sum_of, place in zip(best.values.tolist(), best.indices.tolist())]
        if length + 1 == longest:
            found += [(sum_of / length ** penalty, tokens[1:]) for tokens, sum_of in live]
            live = []
        worth = sorted((one for one, _ in found), reverse=True)
        if live and len(worth) >= beams and worth[beams - 1] >= live[0][1] / (longest - 1) ** penalty:
            live = []  # what goes on only becomes less likely
    return max(found, key=lambda one: one[0])[1]


def write(folder, sizes, path, beams, penalty):
    model, src = load(path, sizes).eval(), rows_of(folder, "heldout")
    longest = rows_of(folder, "tgt").shape[1]
    with torch.inference_mode():
        if beams == 0:
            texts = [text for part in src.split(64) for text in write_greedily(model, part, longest)]
        else:
            texts = [search(model, row, longest, beams, penalty) for row in src]
    print(json.dumps(texts), flush=True)


def main():
    action, sizes_path, path = sys.argv[1:4]
    torch.set_num_threads(int(sys.argv[-1]))
    torch.manual_seed(1)
    with open(sizes_path, encoding="utf-8") as file:
        sizes = json.load(file)
    folder = os.path.dirname(sizes_path)
    if action == "train":
        train(folder, sizes, path, sys.argv[4], int(sys.argv[5]), float(sys.argv[6]))
    else:
        write(folder, sizes, path, int(sys.argv[4]), float(sys.argv[5]))
    os._exit(0)  # threads that PyTorch leaves running abort a process that ends in its own way, now and then


if __name__ == "__main__":
    main()
