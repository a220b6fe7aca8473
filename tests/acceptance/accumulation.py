"""Micro-batches and remat change no number: 30 steps of a model with unequal numbers of valid tokens, positions of samples, a loop in a loop
and clipping, under accumulate 1, 2, 4 with remat on and off, on one rank, 2 x 2 and 3, against one rank without either (f64)."""
import os

import numpy as np

from common import Report, meshc, scratch
from common import run as execute
from equality import feeds, fetch, worst

SEED = 20261121
SPEC = """
import std.nn
dim batch = 12, seq = 6, key = seq, embed = 8, hidden = 16, vocab = 13, layer = 3, inner = 2
model Small {
  input token, target : index(vocab)[batch, seq]
  input keep : bool[batch, seq]
  param wte : real[vocab, embed] = normal(std: 0.3)
  param last : layer_norm[embed]
  h = take[vocab](wte, token) + f32(position[batch]) / 10
  repeat layer {
    param norm : layer_norm[embed]
    param up   : real[embed, hidden] = fan_in[embed]
    param down : real[hidden, embed] = fan_in[hidden]
    score = dot[embed](h, h[seq as key])
    g = h + dot[key](softmax[key](mask(score, position[seq] >= position[key])), h[seq as key])
    repeat inner {
      param scale : real[embed] = ones
      g = g + 0.1 * tanh(scale * g)
    }
    h = g + dot[hidden](dropout(gelu(dot[embed](norm(g), up)), rate: 0.25), down) + 0.01 * random_normal[batch, seq, embed]()
  }
  logits = dot[embed](last(h), wte)
  loss   = mean[batch, seq](cross_entropy[vocab](logits, target), where: keep)
  metric best = max[batch, seq, vocab](logits)
  minimize loss with adamw(lr: 1e-2, clip: 0.5)
}
mesh single { only: 1 }
mesh square { a: 2, b: 2 }
mesh three { a: 3 }
layout one on single { }
"""
MESHES = {"one rank": ("single", "none", ""), "2 x 2": ("square", "a", "; hidden, vocab -> b"), "3": ("three", "a", "")}


def layouts():
    """(name for people, name, text)"""
    for mesh, (name, axis, more) in MESHES.items():
        for count in (1, 2, 4):
            for remat in ("", "; layer -> none { remat: \"layer\" }", "; layer, inner -> none { remat: \"layer\" }"):
                called = f"l{name}{count}{len(remat)}"
                title = f"{mesh}, accumulate {count}, remat {'off' if not remat else 'of both loops' if 'inner' in remat else 'on'}"
                yield title, called, f"layout {called} on {name} {{ batch -> {axis} {{ accumulate: {count} }}{more}{remat} }}\n"


def run(small):
    report = Report()
    steps = 3 if small else 30
    random = np.random.default_rng(SEED)
    print(f"seed {SEED}")
    all_layouts = list(layouts())
    with scratch() as folder:
        path = os.path.join(folder, "small.mesh")
        with open(path, "w") as file:
            file.write(SPEC + "".join(text for _, _, text in all_layouts))
        arrays = {name: random.integers(0, 13, (12, 6)).astype(np.int32) for name in ("token", "target")}
        # From all to one valid token in a micro-batch.
        arrays["keep"] = np.arange(6)[None, :] < np.array([6, 6, 6, 5, 4, 3, 6, 2, 1, 1, 0, 0])[:, None]
        options = feeds(folder, arrays)
        one = fetch(folder, "one", [path], options, steps, "f64", ["--layout", "one"])
        for title, name, _ in all_layouts[:: 4 if small else 1]:
            def action(title=title, name=name):
                error, tensor = worst(one, fetch(folder, name, [path], options, steps, "f64", ["--layout", name]))
                report.check(f"{title}, {steps} steps, {len(one)} tensors, worst {tensor}", float(f"{error:.2e}"), 1e-9)

            report.attempt(title, action)

        def every_value():
            execute(meshc(), "verify", path, "--layout", "lsquare40", "--precision", "f64", "--bound", "1e-9")
            report.true("every named value under 2 x 2, accumulate 4 (verify)", True)

        report.attempt("verify", every_value)
    return report
