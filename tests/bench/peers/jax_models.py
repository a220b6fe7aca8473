"""The models of tests/acceptance/few in JAX: of each its inputs and parameters with their dims, and its loss.

A loss takes {name: array}, and `pin(name, dims, value)`, which constrains a value as the layout says of its name.
"""
from dataclasses import dataclass
from typing import Callable

import jax
import jax.numpy as jnp


@dataclass
class Model:
    inputs: dict[str, str]  # name -> dims
    params: dict[str, str]
    loss: Callable
    integers: tuple = ()


def mean_square(y):
    return jnp.mean(y * y)


def mlp(v, pin):
    h1 = pin("h1", "batch ffn", jax.nn.relu(v["x"] @ v["w1"]))
    h2 = pin("h2", "batch hidden", jax.nn.relu(h1 @ v["w2"]))
    return mean_square(pin("y", "batch to", h2 @ v["w3"]) - v["t"])


def attend(q, k, v):
    """Causal, q [batch, seq, heads.., head_dim], k and v [batch, key, heads, head_dim]."""
    many = "hg" if q.ndim == 5 else "h"
    score = jnp.einsum(f"bs{many}d,bkhd->b{many}sk", q, k) / q.shape[-1]**0.5
    causal = jnp.arange(q.shape[1])[:, None] >= jnp.arange(k.shape[1])
    weight = jax.nn.softmax(jnp.where(causal, score, -1e30), axis=-1)
    return jnp.einsum(f"b{many}sk,bkhd->bs{many}d", weight, v)


def attention(v, pin):
    q, k, w = (jnp.einsum("bse,ehd->bshd", v["x"], v[name]) for name in ("wq", "wk", "wv"))
    return mean_square(pin("y", "batch seq embed", jnp.einsum("bshd,hde->bse", attend(q, k, w), v["wo"])) - v["t"])


def grouped(v, pin):
    q = jnp.einsum("bse,ehgd->bshgd", v["x"], v["wq"])
    k, w = (jnp.einsum("bse,ehd->bshd", v["x"], v[name]) for name in ("wk", "wv"))
    return mean_square(jnp.einsum("bshgd,hgde->bse", attend(q, k, w), v["wo"]) - v["t"])


def block(v, pin):
    def layer(h, w):
        n1 = h / jnp.sqrt(jnp.mean(h * h, axis=-1, keepdims=True) + 1e-5)
        q, k, values = (jnp.einsum("bse,ehd->bshd", n1, w[name]) for name in ("wq", "wk", "wv"))
        a = h + jnp.einsum("bshd,hde->bse", attend(q, k, values), w["wo"])
        n2 = a / jnp.sqrt(jnp.mean(a * a, axis=-1, keepdims=True) + 1e-5)
        h = a + jax.nn.gelu(n2 @ w["up"]) @ w["down"]
        return pin("layer.h", "batch seq embed", h), None

    weights = {name.removeprefix("layer."): value for name, value in v.items() if name.startswith("layer.")}
    h, _ = jax.lax.scan(layer, pin("layer.h", "batch seq embed", v["x"]), weights)
    return mean_square(h - v["t"])


def residual(v, pin):
    def layer(h, w):
        return h + jax.nn.relu(h @ w["layer.up"]) @ w["layer.down"], None

    h, _ = jax.lax.scan(layer, v["x"], {name: v[name] for name in ("layer.up", "layer.down")})
    return mean_square(pin("y", "n e", 2 * h) - v["t"])


def table(v, pin):
    h = jnp.tanh(jnp.take(v["wte"], v["token"], axis=0))
    logits = pin("logits", "batch seq vocab", h @ v["head"])
    chosen = jax.nn.one_hot(v["target"], logits.shape[-1])
    return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - jnp.sum(chosen * logits, axis=-1))


def experts(v, pin):
    x, capacity = v["x"], v["#cap"]
    gate = jax.nn.softmax(x @ v["wg"], axis=-1)
    best = jax.nn.one_hot(jnp.argmax(gate, axis=-1), gate.shape[-1])
    place = jnp.cumsum(best, axis=1) * best - best
    slot = jnp.minimum(jnp.sum(place, axis=-1).astype(jnp.int32), capacity - 1)
    keep = best * jnp.where(place < capacity, 1.0, 0.0)
    dispatch = jnp.einsum("gte,gtc->gtec", keep, jax.nn.one_hot(slot, capacity))
    combine = dispatch * jnp.sum(gate * keep, axis=-1)[..., None, None]
    given = pin("xe", "group expert cap embed", jnp.einsum("gtec,gtm->gecm", dispatch, x))
    hidden = jax.nn.relu(jnp.einsum("gecm,emf->gecf", given, v["wi"]))
    made = jnp.einsum("gecf,efm->gecm", hidden, v["wo"])
    return mean_square(x + jnp.einsum("gtec,gecm->gtm", combine, made) - v["t"])


def carry(v, pin):
    drive = jnp.swapaxes(v["x"] @ v["wx"], 0, 1)
    h, _ = jax.lax.scan(lambda h, now: (jnp.tanh(now + h @ v["wh"]), None), jnp.zeros(drive.shape[1:]), drive)
    return mean_square(pin("z", "batch cell", 2 * h))


def image(v, pin):
    def conv(x, kernel):
        return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    return mean_square(pin("y", "batch row column deep", conv(jax.nn.relu(conv(v["x"], v["k1"])), v["k2"])) - v["t"])


def diamond(v, pin):
    u = jnp.exp(0.1 * v["x"])
    left = jnp.einsum("pq,ps->qs", u, v["a1"])
    right = jnp.einsum("pq,pr->qr", jnp.tanh(u), v["b1"])
    return mean_square(pin("y", "s r", jnp.einsum("qs,qr->sr", left, right)) - v["t"])


def chain(v, pin):
    return mean_square(pin("y", "n p", jnp.tanh(v["x"] @ v["w1"]) @ v["w2"]) - v["t"])


def fanout(v, pin):
    u = jnp.tanh(v["x"])
    return sum(mean_square(u @ v[name]) for name in ("w1", "w2", "w3"))


def again(v, pin):
    h = v["x"] @ v["w"]
    return mean_square(jnp.tanh(jnp.tanh(h) @ v["z"]) + h @ v["z"])


def needs(v, pin):
    u = jnp.tanh(v["x"])
    total = jnp.cumsum(u, axis=1) + jnp.sort(u, axis=1)
    return mean_square(pin("y", "q r", jnp.einsum("pq,pr->qr", total, v["w"])) - v["t"])


ATTENTION = {name: "embed heads head_dim" for name in ("wq", "wk", "wv")} | {"wo": "heads head_dim embed"}
SEQUENCES = {"x": "batch seq embed", "t": "batch seq embed"}
MODELS = {
    "mlp": Model({"x": "batch from", "t": "batch to"}, {"w1": "from ffn", "w2": "ffn hidden", "w3": "hidden to"}, mlp),
    "block": Model(SEQUENCES, {f"layer.{name}": f"layer {dims}" for name, dims in (ATTENTION | {"up": "embed ffn", "down": "ffn embed"}).items()}, block),
    "attention": Model(SEQUENCES, ATTENTION, attention),
    "grouped": Model(SEQUENCES, {"wq": "embed kv group head_dim", "wk": "embed kv head_dim", "wv": "embed kv head_dim", "wo": "kv group head_dim embed"}, grouped),
    "table": Model({"token": "batch seq", "target": "batch seq"}, {"wte": "vocab embed", "head": "embed vocab"}, table, integers=("token", "target")),
    "experts": Model({"x": "group tok embed", "t": "group tok embed"}, {"wg": "embed expert", "wi": "expert embed ffn", "wo": "expert ffn embed"}, experts),
    "carry": Model({"x": "batch time from"}, {"wx": "from cell", "wh": "old cell"}, carry),
    "image": Model({"x": "batch row column colour", "t": "batch row column deep"}, {"k1": "ky kx colour mid", "k2": "ky kx mid deep"}, image),
    "residual": Model({"x": "n e", "t": "n e"}, {"layer.up": "layer e f", "layer.down": "layer f e"}, residual),
    "diamond": Model({"x": "p q", "t": "s r"}, {"a1": "p s", "b1": "p r"}, diamond),
    "chain": Model({"x": "n k", "t": "n p"}, {"w1": "k m", "w2": "m p"}, chain),
    "fanout": Model({"x": "n e"}, {"w1": "e h1", "w2": "e h2", "w3": "e h3"}, fanout),
    "again": Model({"x": "n v"}, {"w": "v e", "z": "e o"}, again),
    "needs": Model({"x": "p q", "t": "q r"}, {"w": "p r"}, needs),
}
