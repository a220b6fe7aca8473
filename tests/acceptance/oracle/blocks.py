"""Blocks: the library's, one's own, the causal attention of specs/gpt.mesh."""
import os
import re

import numpy as np

from . import reference as r
from .case import Case

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
ATTENTION = {"wq": "embed heads head_dim", "wk": "embed heads head_dim", "wv": "embed heads head_dim", "wo": "heads head_dim embed"}
GPT_DIMS = {"batch": "2", "seq": "5", "key": "seq", "embed": "6", "heads": "2", "head_dim": "3", "ffn": "4 * embed", "layer": "2"}
MASKS = [("those before", "position[seq] >= position[key]", lambda q, k: q >= k),
         ("those before in a window", "position[seq] >= position[key] and position[seq] - 3 < position[key]", lambda q, k: (q >= k) & (q - k < 3)),
         ("a window on both sides", "position[key] < position[seq] + 2 and not (position[seq] > position[key] + 1)", lambda q, k: abs(q - k) < 2),
         ("those behind a gap", "position[seq] > position[key] + 1", lambda q, k: q > k + 1)]
BOTH = """block Both[x, z](u : real[..., x, z], w : real[..., x]) -> (real[..., x], real[..., z]) {
  dim half = x / 2
  param own : real[half] = zeros
  return sum[z](u) * w, mean[x](u) + size[half] * sum[half](own)
}"""


def spec_block(name):
    """The text of a block of specs/gpt.mesh."""
    with open(os.path.join(TOP, "specs", "gpt.mesh")) as file:
        return re.search(rf"^block {name}\(.*?^}}$", file.read(), re.M | re.S).group(0)


def cases():
    std = "import std.nn"
    yield Case("layer_norm", "param n : layer_norm[c]\ny = n(p1)", {"p1": "a b c"}, "a b c", lambda v: r.layer_norm(v.p1, v.n_gain, v.n_bias), inner={"n.gain": "c", "n.bias": "c"}, head=std)
    yield Case("rms_norm", "param n : rms_norm[c]\ny = n(p1)", {"p1": "a c"}, "a c", lambda v: r.rms_norm(v.p1, v.n_gain), inner={"n.gain": "c"}, head=std)
    yield Case("linear", "param n : linear[c, d]\ny = n(p1)", {"p1": "a b c"}, "a b d", lambda v: v.p1 @ v.n_weight + v.n_bias, inner={"n.weight": "c d", "n.bias": "d"}, head=std)
    yield Case("feed_forward", "y = feed_forward[embed = c, ffn = e](p1)", {"p1": "a c"}, "a c",
               lambda v: r.gelu(v.p1 @ v.feed_forward_up_weight + v.feed_forward_up_bias) @ v.feed_forward_down_weight + v.feed_forward_down_bias,
               inner={"feed_forward.up.weight": "c e", "feed_forward.up.bias": "e", "feed_forward.down.weight": "e c", "feed_forward.down.bias": "c"}, head=std)
    yield Case("one instance called twice", "param n : linear[c, k2]\ny = n(p1) * 2 + n(sin(p1))", {"p1": "a c"}, "a k2",
               lambda v: (v.p1 @ v.n_weight + v.n_bias) * 2 + np.sin(v.p1) @ v.n_weight + v.n_bias, inner={"n.weight": "c k2", "n.bias": "k2"}, head=std, dims={"k2": "5"})
    yield Case("declared orders of arguments and results", "y = Turn[a, b](p1) * p2", {"p1": "a c b", "p2": "c"}, "b c a",
               lambda v: v.p1.transpose(2, 1, 0) * 2 * v.p2[:, None], head="block Turn[x, z](u : real[z, ..., x]) -> real[z, ..., x] {\n  return u + u\n}")
    yield Case("a result in another order", "y = Turn[a, b](p1)", {"p1": "a b"}, "b a", lambda v: np.exp(v.p1).T,
               head="block Turn[x, z](u : real[x, z]) -> real[z, x] {\n  return exp(u)\n}")
    yield Case("two results, a local dim", "s, t = Both[b, c](p1, p2)\ny = sum[b](s) + sum[c](t)", {"p1": "a b c", "p2": "b"}, "a",
               lambda v: {"s": v.p1.sum(2) * v.p2, "t": v.p1.mean(1) + 2 * v.Both_own.sum(),
                          "y": (v.p1.sum(2) * v.p2).sum(1) + (v.p1.mean(1) + 2 * v.Both_own.sum()).sum(1)}, inner={"Both.own": "d"}, head=BOTH)
    yield Case("blocks in a loop", "h = p1\nrepeat l {\n  param n : layer_norm[c]\n  param f : linear[c, d]\n  h = h + dot[d](tanh(f(n(h))), p2)\n}\ny = h", {"p1": "a c", "p2": "d c"}, "a c",
               blocks_in_loop, inner={"l.n.gain": "l c", "l.n.bias": "l c", "l.f.weight": "l c d", "l.f.bias": "l d"}, head=std)
    attention = spec_block("Attention")
    inner = {f"attn.{n}": d for n, d in ATTENTION.items()}

    def attend(v):
        return r.attention(v.p1, v.attn_wq, v.attn_wk, v.attn_wv, v.attn_wo)

    yield Case("attention of gpt.mesh", "param attn : Attention\ny = attn(p1)", {"p1": "batch seq embed"}, "batch seq embed", lambda v: attend(v)[0], inner=inner, head=attention, dims=GPT_DIMS)
    yield Case("attention of gpt.mesh, its weight fetched", "param attn : Attention\ny = attn(p1)", {"p1": "batch seq embed"}, "batch seq embed",
               lambda v: dict(zip(("y", "attn.weight"), attend(v))), inner=inner, head=attention, dims=GPT_DIMS)

    # Queries of several heads read the same keys, and only those that a mask leaves near them.
    for name, mask, keep in MASKS:
        def shared(v, keep=keep):
            q, k = np.arange(v.p1.shape[1])[:, None], np.arange(v.p2.shape[1])
            score = np.einsum("bsvgd,btvd->bsvgt", v.p1, v.p2) * np.longdouble("0.7")
            return np.einsum("bsvgt,btvo->bsvgo", r.softmax(score, -1, keep(q, k)[None, :, None, None, :]), v.p3)

        yield Case(f"shared keys, {name}", f"y = dot[key](softmax[key](mask(dot[head_dim](p1, p2) * 0.7, {mask})), p3)",
                   {"p1": "batch seq kv group head_dim", "p2": "batch key kv head_dim", "p3": "batch key kv ffn"}, "batch seq kv group ffn", shared,
                   dims={**GPT_DIMS, "seq": "6", "kv": "2", "group": "2", "ffn": "2"})

    # The same along two dims.
    for where, order in (("together", "batch seq kv more group"), ("apart", "batch more seq kv group")):
        q = order.replace("more", "h").replace("group", "g").replace("kv", "v").replace("batch", "b").replace("seq", "s").replace(" ", "")

        def shared_twice(v, q=q):
            score = np.einsum(f"{q}d,btvd->{q}t", v.p1, v.p2) * np.longdouble("0.7")
            rows = np.arange(6).reshape([-1 if dim == "s" else 1 for dim in q + "t"])
            return np.einsum(f"{q}t,btvo->{q}o", r.softmax(score, -1, rows >= np.arange(6)), v.p3)

        yield Case(f"shared keys along two dims, {where}", "y = dot[key](softmax[key](mask(dot[head_dim](p1, p2) * 0.7, position[seq] >= position[key])), p3)",
                   {"p1": f"{order} head_dim", "p2": "batch key kv head_dim", "p3": "batch key kv ffn"}, f"{order} ffn", shared_twice,
                   dims={**GPT_DIMS, "seq": "6", "kv": "2", "group": "2", "more": "3", "ffn": "2"})

    def layers(v):
        h = v.p1
        for i in range(2):
            h = h + r.attention(h, v.layer_attn_wq[i], v.layer_attn_wk[i], v.layer_attn_wv[i], v.layer_attn_wo[i])[0]
            h = h + np.tensordot(r.gelu(np.tensordot(h, v.layer_feed_up[i], 1)), v.layer_feed_down[i], 1)
        return h

    yield Case("layers of gpt.mesh", "h = p1\nrepeat layer {\n  param attn : Attention\n  param feed : FeedForward\n  h = h + attn(h)\n  h = h + feed(h)\n}\ny = h",
               {"p1": "batch seq embed"}, "batch seq embed", layers,
               inner={**{f"layer.{n}": "layer " + d for n, d in inner.items()}, "layer.feed.up": "layer embed ffn", "layer.feed.down": "layer ffn embed"},
               head=attention + "\n" + spec_block("FeedForward"), dims={**GPT_DIMS, "embed": "4", "head_dim": "2", "ffn": "3"})


def blocks_in_loop(v):
    h = v.p1
    for i in range(3):
        h = h + np.tanh(r.layer_norm(h, v.l_n_gain[i], v.l_n_bias[i]) @ v.l_f_weight[i] + v.l_f_bias[i]) @ v.p2
    return h
