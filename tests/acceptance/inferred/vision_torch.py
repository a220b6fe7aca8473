"""vision.mesh as PyTorch's modules in `eval()`: reads weights and pictures from an .npz, writes logits, prints loss and accuracy as JSON."""
import json
import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional

ROW, COLUMN = 2, 3


class Layer(nn.Module):
    def __init__(self, embed, heads, ffn):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(embed), nn.LayerNorm(embed)
        self.attn = nn.MultiheadAttention(embed, heads, bias=False, batch_first=True)
        self.up, self.down, self.drop = nn.Linear(embed, ffn), nn.Linear(ffn, embed), nn.Dropout(0.1)

    def forward(self, h):
        x = self.n1(h)
        h = h + self.drop(self.attn(x, x, x, need_weights=False)[0])
        return h + self.drop(self.down(functional.gelu(self.up(self.n2(h)))))


class Vision(nn.Module):
    def __init__(self, w):
        super().__init__()
        layers, embed, heads, _ = w["layer.attn.wq"].shape
        piece, classes, ffn = w["project.weight"].shape[0], w["head.weight"].shape[1], w["layer.feed.up.weight"].shape[2]
        self.norm, self.project = nn.BatchNorm1d(piece), nn.Linear(piece, embed)
        self.layers = nn.ModuleList(Layer(embed, heads, ffn) for _ in range(layers))
        self.last, self.head = nn.LayerNorm(embed), nn.Linear(embed, classes)
        self.first, self.place = nn.Parameter(w["first"]), nn.Parameter(w["place"])
        self.load(w)

    def load(self, w):
        def norm(module, gain, bias):
            module.weight.data, module.bias.data = gain, bias

        def linear(module, weight, bias):
            module.weight.data, module.bias.data = weight.T, bias

        norm(self.norm, w["norm.gain"], w["norm.bias"])
        self.norm.running_mean, self.norm.running_var = w["norm.running_mean"], w["norm.running_var"]
        linear(self.project, w["project.weight"], w["project.bias"])
        norm(self.last, w["last.gain"], w["last.bias"])
        linear(self.head, w["head.weight"], w["head.bias"])
        for i, layer in enumerate(self.layers):
            of = lambda name: w[f"layer.{name}"][i]
            embed = of("n1.gain").shape[0]
            for name in ("n1", "n2"):
                norm(getattr(layer, name), of(f"{name}.gain"), of(f"{name}.bias"))
            layer.attn.in_proj_weight.data = torch.cat([of(f"attn.w{one}").reshape(embed, embed).T for one in "qkv"])
            layer.attn.out_proj.weight.data = of("attn.wo").reshape(embed, embed).T
            for name in ("up", "down"):
                linear(getattr(layer, name), of(f"feed.{name}.weight"), of(f"feed.{name}.bias"))

    def forward(self, image):
        batch, channel, height, width = image.shape
        tiles = image.double().div(255).view(batch, channel, ROW, height // ROW, COLUMN, width // COLUMN)
        pieces = tiles.permute(0, 2, 4, 1, 3, 5).reshape(batch, ROW * COLUMN, -1)
        pieces = self.norm(pieces.transpose(1, 2)).transpose(1, 2)
        h = torch.cat([self.first.expand(batch, -1, -1), self.project(pieces)], 1) + self.place
        for layer in self.layers:
            h = layer(h)
        return self.head(self.last(h)[:, 0])


def main():
    given = {name: torch.from_numpy(array) for name, array in np.load(sys.argv[1]).items()}
    model = Vision(given).double().eval()
    with torch.no_grad():
        logits = model(given["image"])
        loss = functional.cross_entropy(logits, given["label"].long())
    np.save(sys.argv[2], logits.numpy())
    print(json.dumps({"loss": loss.item(), "accuracy": (logits.argmax(1) == given["label"]).double().mean().item()}))


main()
