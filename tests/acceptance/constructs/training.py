"""What is trained: tied parameters, `minimize ... over`, `frozen`, groups."""
import numpy as np

from .construct import Construct

TIED = """
import std.nn
dim batch = 4, vocab = 6, embed = 4, layer = 2, again = embed
model Tied {
  input token, target : index(vocab)[batch]
  param table : real[vocab, embed] = normal(std: 0.5)
  param norm  : layer_norm[embed]
  param mix   : real[embed, again] = normal(std: 0.5)
  param idle  : real[embed] = ones
  h = take[vocab](table, token)
  repeat layer {
    h = h + norm(dot[embed](h, mix)[again as embed])
  }
  logits = dot[embed](norm(h), table)
  loss   = mean[batch](cross_entropy[vocab](logits, target)) + 0 * sum[embed](idle)
  minimize loss over table, mix, norm.*, idle with sgd(lr: 0.5) {
    norm.gain { frozen }
    mix { lr: 0.25, weight_decay: 0.1 }
  }
}
layout split on plane { batch -> rows; vocab -> columns }
layout inner on plane { batch -> rows; embed -> columns }"""
SHAPES = {"table": (6, 4), "norm.gain": (4,), "norm.bias": (4,), "mix": (4, 4), "idle": (4,)}


def loss_of(p, token, target):
    norm = lambda x: (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + np.longdouble(1e-5)) * p["norm.gain"] + p["norm.bias"]
    h = p["table"][token]
    for _ in range(2):
        h = h + norm(h @ p["mix"])
    logits = norm(h) @ p["table"].T
    return (np.log(np.exp(logits).sum(1)) - logits[np.arange(4), target]).mean()


def gradient(p, name, token, target):
    """By differences in long doubles (Richardson, step 1e-6)."""
    result = np.zeros(p[name].shape, np.longdouble)
    for index in np.ndindex(result.shape):
        def moved(step):
            array = p[name].copy()
            array[index] += step
            return loss_of({**p, name: array}, token, target)
        near, far = ((moved(h) - moved(-h)) / (2 * h) for h in (np.longdouble(1e-6), np.longdouble(2e-6)))
        result[index] = (4 * near - far) / 3
    return result


def trained(v):
    p = {name: getattr(v, name.replace(".", "_")).astype(np.longdouble) for name in SHAPES}
    for _ in range(2):
        step = {name: gradient(p, name, v.token, v.target) for name in ("table", "norm.bias", "mix")}
        p = {**p, "table": p["table"] - 0.5 * step["table"], "norm.bias": p["norm.bias"] - 0.5 * step["norm.bias"],
             "mix": p["mix"] - 0.25 * (step["mix"] + 0.1 * p["mix"])}
    return {f"param({name})": array.astype(np.float64) for name, array in p.items()}


def cases():
    tokens = {"token": ("index", 6, 4), "target": ("index", 6, 4)}
    yield Construct("tied parameters over two steps: shared by turns, by a lookup and a product; groups, frozen, over", TIED, trained, tokens, SHAPES,
                    layouts=("split", "inner"), fetch=("--steps", "2"))
    yield Construct("what `over` leaves out stays", """
dim batch = 4, wide = 6
model Part {
  input x : real[batch, wide]
  param kept, left : real[wide] = ones
  loss = sum[batch, wide]((x * kept) ^ 2 + x * left) / 2
  minimize loss over kept with sgd(lr: 0.1)
}
layout split on plane { batch -> rows; wide -> columns }""",
                    lambda v: {"param(kept)": v.kept * (1 - 0.1 * (v.x**2).sum(0)), "param(left)": v.left}, {"x": (4, 6)}, {"kept": (6,), "left": (6,)}, fetch=("--steps", "1"))
