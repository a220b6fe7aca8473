"""route, dispatch, combine, dropped: tokens to their experts and back."""
import numpy as np

from .case import Case


def routed(chosen, slots, experts, once=False, weight=None):
    """chosen [groups, tokens, choices] -> (seat of each choice, token in each seat); -1 for none."""
    groups, tokens, choices = chosen.shape
    seat, source = np.full(chosen.shape, -1), np.full((groups, experts * slots), -1)
    for g in range(groups):
        taken = [0] * experts
        for c in range(choices):
            order = range(tokens) if weight is None else sorted(range(tokens), key=lambda t: (-weight[g, t, c], t))
            for t in order:
                expert = chosen[g, t, c]
                if expert < 0 or taken[expert] == slots or (once and (seat[g, t] >= 0).any()):
                    continue
                seat[g, t, c] = expert * slots + taken[expert]
                source[g, seat[g, t, c]] = t
                taken[expert] += 1
    return seat, source


def layer(v, parts, slots, once=False, largest=False, chosen=None, switch=False):
    """The layer of MLP below, and which choices were dropped."""
    chosen = v.k1 if chosen is None else chosen
    weight = v.p2
    if switch:
        chosen, weight = chosen[..., None], weight[..., None]
    grouped = chosen.reshape(parts, -1, chosen.shape[-1])
    seat, source = routed(grouped, slots, 5, once, weight.reshape(grouped.shape) if largest else None)
    x = v.p1.reshape(parts, -1, v.p1.shape[-1])
    xs = np.where(source[..., None] >= 0, np.take_along_axis(x, np.maximum(source, 0)[..., None], 1), 0).reshape(parts, 5, slots, -1)
    ys = np.tanh(np.einsum("gcse,cek->gcsk", xs, v.p3)).reshape(parts, 5 * slots, -1)
    back = np.where(seat[..., None] >= 0, np.stack([ys[g][np.maximum(seat[g], 0)] for g in range(parts)]), 0)
    y = (back * weight.reshape(grouped.shape)[..., None]).sum(2).reshape(*v.p1.shape[:-1], -1)
    lost = (seat < 0).reshape(chosen.shape)
    return {"y": y, "i1": lost[..., 0] if switch else lost, "xs": xs if parts > 1 else xs[0]}


MLP = """xs = dispatch(p1, plan)
i1 = dropped(plan)
y = combine(tanh(dot[e](xs, p3)), plan)"""
PARAMS = {"p1": "a b e", "p2": "a b d", "p3": "c e k"}
MANY = np.array([[[0, 1], [0, 2], [0, 1], [4, 0]], [[3, 3], [3, 1], [3, 2], [3, 0]], [[2, 4], [1, 4], [4, 2], [4, 1]]], np.int32)


def tokens_choose(name, call, parts, slots, dims=None, **how):
    return Case(name, f"plan = {call}\n{MLP}", PARAMS, "a b k", lambda v: layer(v, parts, slots, **how), inputs={"k1": "index(c) a b d"}, values={"k1": MANY},
                dims={"slot": str(slots), **({"part": str(parts)} if parts > 1 else {}), **(dims or {})})


def cases():
    yield tokens_choose("route", "route[c, slot, part](k1, p2)", 3, 2)
    yield tokens_choose("route, one part", "route[c, slot](k1, p2)", 1, 3)
    yield tokens_choose("route, parts across the first dim", "route[c, slot, part](k1, p2)", 2, 2)
    yield tokens_choose("route, parts of parts of the first dim", "route[c, slot, part](k1, p2)", 6, 1)
    yield tokens_choose("route, a part for each token", "route[c, slot, part](k1, p2)", 12, 1)
    yield tokens_choose("route, the next choice where the first is full", 'route[c, slot, part](k1, p2, overflow: "next")', 3, 1, once=True)
    yield tokens_choose("route, the largest weights first", 'route[c, slot, part](k1, p2, first: "largest")', 3, 1, largest=True)
    yield Case("route, some tokens nowhere", f"plan = route[c, slot, part](index(c)(where(k2, i32(k1), -1)), p2)\n{MLP}", PARAMS, "a b k",
               lambda v: layer(v, 3, 2, chosen=np.where(v.k2[..., None], v.k1, -1)), inputs={"k1": "index(c) a b d", "k2": "bool a b"}, values={"k1": MANY},
               dims={"slot": "2", "part": "3"})
    yield Case("route, one choice", f"plan = route[c, slot, part](k1, p2)\n{MLP}", {**PARAMS, "p2": "a b"}, "a b k", lambda v: layer(v, 3, 1, switch=True),
               inputs={"k1": "index(c) a b"}, values={"k1": MANY[..., 0]}, dims={"slot": "1", "part": "3"})
    yield Case("route by top_k of a product", f"best, k1 = top_k[c as d](dot[e](p1, p4))\nplan = route[c, slot, part](k1, softmax[d](best))\n{MLP}",
               {"p1": "a b e", "p3": "c e k", "p4": "e c"}, "a b k", by_top_k, dims={"slot": "2", "part": "3"})
    yield Case("route in a loop", "h = p1\nrepeat l {\n  param g : real[c, e] = ones\n  plan = route[c, slot, part](k1, p2)\n  h = h + combine(tanh(dispatch(h, plan) * g), plan)\n}\ny = h",
               {"p1": "a b e", "p2": "a b d"}, "a b e", in_a_loop, inputs={"k1": "index(c) a b d"}, values={"k1": MANY}, inner={"l.g": "l c e"}, dims={"slot": "2", "part": "3"})
    yield Case("experts choose", f"plan = route[c, slot, part](p2)\n{MLP}", {**PARAMS, "p2": "a b c"}, "a b k", lambda v: experts_choose(v, 3, 2), dims={"slot": "2", "part": "3"})
    yield Case("experts choose, parts across the first dim", f"plan = route[c, slot, part](p2)\n{MLP}", {**PARAMS, "p2": "a b c"}, "a b k", lambda v: experts_choose(v, 2, 3),
               dims={"slot": "3", "part": "2"})


def by_top_k(v):
    score = v.p1 @ v.p4
    v.k1 = np.argsort(-v.base.p1 @ v.base.p4, 2, kind="stable")[..., :2]
    best = np.exp(np.take_along_axis(score, v.k1, 2))
    v.p2 = best / best.sum(2, keepdims=True)
    return layer(v, 3, 2)


def in_a_loop(v):
    seat, source = routed(v.k1, 2, 5)
    h = v.p1
    for i in range(3):
        xs = np.where(source[..., None] >= 0, np.take_along_axis(h, np.maximum(source, 0)[..., None], 1), 0)
        ys = np.tanh(xs * np.repeat(v.l_g[i], 2, 0))
        back = np.where(seat[..., None] >= 0, np.stack([ys[g][np.maximum(seat[g], 0)] for g in range(3)]), 0)
        h = h + (back * v.p2[..., None]).sum(2)
    return h


def experts_choose(v, parts, slots):
    x, share = v.p1.reshape(parts, -1, 6), v.p2.reshape(parts, -1, 5)
    y, takers = np.zeros((*x.shape[:2], 4), np.longdouble), np.zeros(x.shape[:2], int)
    for g in range(parts):
        for c in range(5):
            for t in np.argsort(-share[g, :, c].astype(np.float64), kind="stable")[:slots]:
                y[g, t] += share[g, t, c] * np.tanh(x[g, t] @ v.p3[c])
                takers[g, t] += 1
    return {"y": y.reshape(3, 4, 4), "i1": (takers == 0).reshape(3, 4)}
