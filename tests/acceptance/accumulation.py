"""Micro-batches and remat change no number: 30 steps of a model with unequal numbers of valid tokens, positions of samples, a loop in a loop
and clipping, under accumulate 1, 2, 4 with remat on and off and with gradients whole or split (rules for them, ZeRO-2, ZeRO-3), on one rank,
2 x 2 and 3, against one rank without any of it (f64). Gradients that rules split are reduced in each micro-batch, and kept as their parts; `auto`
splits them by predicted memory and time alone."""
import json
import os

import numpy as np

from common import Report, json_lines, meshc, scratch
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
  param common : real[embed] = ones
  h = take[vocab](wte, token) + f32(position[batch]) / 10
  repeat layer {
    param norm : layer_norm[embed]
    param up   : real[embed, hidden] = fan_in[embed]
    param down : real[hidden, embed] = fan_in[hidden]
    score = dot[embed](h, h[seq as key])
    g = h + common * dot[key](softmax[key](mask(score, position[seq] >= position[key])), h[seq as key])
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
# Rules that split gradients over the ranks that share the batch.
SPLITS = {"gradients split": "; grads { embed -> a }", "ZeRO-2": "; grads { embed -> a }; optimizer { embed -> a }", "ZeRO-3": "; params { embed -> a }",
          "ZeRO-3 but for gradients": "; params { embed -> a }; grads { embed -> none }"}

# Four layers of one weight: what a rank holds of their gradients is a plain number.
DEEP = """dim batch = 1024, embed = 256, out = embed, layer = 4
model Deep {
  input x, wanted : real[batch, embed]
  h = x
  repeat layer {
    param weight : real[embed, out] = fan_in[embed]
    h = h + tanh(dot[embed](h, weight))[out as embed]
  }
  loss = mean[batch, embed]((h - wanted) ^ 2)
  minimize loss with adam(lr: 1e-3)
}
mesh line { data: 4 }
"""


def layouts():
    """(name for people, name, text)"""
    for mesh, (name, axis, more) in MESHES.items():
        for count in (1, 2, 4):
            for remat in ("", "; layer -> none { remat: \"layer\" }", "; layer, inner -> none { remat: \"layer\" }"):
                called = f"l{name}{count}{len(remat)}"
                title = f"{mesh}, accumulate {count}, remat {'off' if not remat else 'of both loops' if 'inner' in remat else 'on'}"
                yield title, called, f"layout {called} on {name} {{ batch -> {axis} {{ accumulate: {count} }}{more}{remat} }}\n"


def split_layouts():
    """The same with gradients split."""
    for mesh in ("2 x 2", "3"):
        name, axis, more = MESHES[mesh]
        for number, (split, rules) in enumerate(SPLITS.items()):
            for count in (1, 2, 4):
                remat = "; layer -> none { remat: \"layer\" }" if count == 4 else ""
                called = f"s{name}{count}{number}"
                yield f"{mesh}, accumulate {count}, {split}", called, f"layout {called} on {name} {{ batch -> {axis} {{ accumulate: {count} }}{more}{rules}{remat} }}\n"


def planned(folder, rules):
    """What `plan` says of DEEP under these rules, without micro-batches and with 4."""
    plans = []
    for count in (1, 4):
        path = os.path.join(folder, f"deep{count}.mesh")
        with open(path, "w") as file:
            file.write(f"{DEEP}layout only on line {{ batch -> data {{ accumulate: {count} }}; {rules} }}\n")
        plans.append(json.loads(execute(meshc(), "plan", path, "--json").stdout))
    return plans


def check_plans(report, folder):
    """Where rules split gradients a rank keeps its part from the first micro-batch on; elsewhere they are reduced once, after the last."""
    layer = 256 * 256 * 4  # bytes
    for title, rules in (("rules for gradients", "grads { out -> data }"), ("ZeRO-2", "grads { out -> data }; optimizer { out -> data }"), ("ZeRO-3", "params { out -> data }")):
        whole, parts = planned(folder, rules)
        placed = [tensor["placement"] for tensor in parts["tensors"] if tensor["kind"] == "gradient"]
        report.true(f"plan, {title}: the gradient is kept split", placed == [{"layer": [], "embed": [], "out": ["data"]}], placed)
        if "optimizer" in rules or "params" in rules:  # else the update needs the whole gradient
            report.true(f"plan, {title}: a rank holds a part of it, of what a turn adds, and a layer's of its own", parts["memory"]["grads"] <= 2 * 4 * layer / 4 + layer, parts["memory"])
        report.true(f"plan, {title}: micro-batches save memory", parts["memory"]["peak"] < whole["memory"]["peak"], (parts["memory"], whole["memory"]))
        late = [one for one in parts["collectives"] if one["phase"] == "update" and one["kind"] == "reduce_scatter"]
        report.true(f"plan, {title}: nothing is reduced after the last micro-batch", not late, late)
    whole, parts = planned(folder, "")
    reduced = [(one["kind"], one["count"], one["phase"]) for one in parts["collectives"] if one["tensor"] == "d_layer.weight"]
    report.true("plan, no rule splits gradients: one reduction after the last micro-batch", reduced == [("reduce_scatter", 1, "update")], reduced)
    for part, plan in (("one batch", whole), ("micro-batches", parts)):
        named = [tensor["name"] for tensor in plan["tensors"]]
        gradients = [tensor["name"] for tensor in plan["tensors"] if tensor["kind"] == "gradient"]
        report.true(f"plan, {part}: each gradient has one row", gradients and all(named.count(name) == 1 for name in gradients), named)
    report.true("plan, no rule splits gradients: micro-batches send no more", parts["communication_bytes"] == whole["communication_bytes"])


ACCUMULATED = "batch -> data { accumulate: 4 }"
WHOLE = f"{ACCUMULATED}; params {{ embed, out -> none }}"
BUT_GRADIENTS = f"{WHOLE}; optimizer {{ embed, out -> none }}"  # there alone `auto` may split


def check_costs(report, folder):
    """No rule says how gradients lie: `auto` splits them, each micro-batch reducing into a rank's part, where whole ones have no room beside split moments, or where a slow memory
    makes the sum of whole ones take longer than to reduce more often; elsewhere they are reduced once."""
    path = os.path.join(folder, "costs.mesh")
    moments = "optimizer { embed -> data }"
    rules = {"whole": BUT_GRADIENTS, "parts": f"{BUT_GRADIENTS}; grads {{ embed -> data }}", "found": f"{BUT_GRADIENTS}; auto", "moments": f"{WHOLE}; {moments}",
             "zero2": f"{WHOLE}; grads {{ embed -> data }}; {moments}", "zero3": f"{ACCUMULATED}; params {{ embed -> data }}", "free": f"{ACCUMULATED}; auto"}
    with open(path, "w") as file:
        file.write(DEEP + "".join(f"layout {name} on line {{ {text} }}\n" for name, text in rules.items()))

    def plan(layout, *options):
        return json.loads(execute(meshc(), "plan", path, "--layout", layout, "--json", *options).stdout)

    def reductions(of):
        return [(one["kind"], one["count"], one["phase"]) for one in of["collectives"] if one["tensor"] == "d_layer.weight" and "reduce" in one["kind"]]

    def is_of(found, forced, what, *options):
        by_rules = [rule["rule"] for rule in found["found"]["rules"]]
        same = (found["predicted_seconds"], found["memory"], reductions(found)) == (forced["predicted_seconds"], forced["memory"], reductions(forced))
        report.true(f"auto, {what}", same, (by_rules, found["predicted_seconds"], found["memory"]["peak"]))
        execute(meshc(), "verify", path, "--layout", found["layout"], "--precision", "f64", "--bound", "1e-9", *options)
        report.true(f"auto, {what}: equals one rank (verify)", True)

    whole, parts = plan("whole"), plan("parts")
    report.true("predicted: whole gradients take less time, and no more memory: an update of whole moments needs them whole",
                whole["predicted_seconds"] < parts["predicted_seconds"] and whole["memory"]["peak"] < parts["memory"]["peak"], (whole["memory"], parts["memory"]))
    report.true("predicted: gradients in parts are reduced in each micro-batch", (reductions(whole), reductions(parts)) == ([("all_reduce", 1, "update")], [("reduce_scatter", 16, "backward")]))
    is_of(plan("found"), whole, "whole moments: they stay whole")
    for what, text, best, other in (("a slow memory", "memory_gbs: 3\n", "parts", "whole"), ("a slow network", "node: { ranks: 64, latency_us: 1, gbs: 1 }\n", "whole", "parts")):
        machine = os.path.join(folder, f"{best}.yaml")
        with open(machine, "w") as file:
            file.write(text)
        on = ("--machine", machine)
        forced = plan(best, *on)
        report.true(f"predicted on {what}: {best} before {other}", forced["predicted_seconds"] < plan(other, *on)["predicted_seconds"])
        is_of(plan("found", *on), forced, f"{what}: {best}", *on)
    # Split moments alone have no room, and split parameters take more time than gradients in parts beside them.
    moments, both, parameters = plan("moments"), plan("zero2"), plan("zero3")
    limit = ("--memory", f"{(moments['memory']['peak'] + both['memory']['peak']) // 2} B")
    report.true("predicted: ZeRO-3 has room too, and takes more time", parameters["memory"]["peak"] < both["memory"]["peak"] and parameters["predicted_seconds"] > both["predicted_seconds"])
    is_of(plan("free", *limit), both, "room for split moments beside split gradients: ZeRO-2", *limit)


COUPLED = """dim batch = 12, embed = 8
model Norm {
  input x : real[batch, embed]
  param w : real[embed] = ones
  h = x * w
  centred = h - mean[batch](h)
  loss = mean[batch, embed](centred ^ 4)
  metric spread = mean[batch, embed](centred ^ 2)
  metric first  = f32(argmax[batch](sum[embed](h)))
  minimize loss with sgd(lr: 1e-30)
}
mesh line { data: 2 }
layout default on line { batch -> data { accumulate: 4 } }
"""


def check_coupled(report, folder, random):
    """What needs a second forward pass is an error of every command, unless it is allowed: then they agree, and evaluation makes the pass too."""
    path, bound = os.path.join(folder, "coupled.mesh"), 1e-6
    x = random.normal(size=(24, 8)).astype(np.float32)
    np.save(f"{folder}/coupled.npy", x)
    x = x.astype(np.float64)
    with open(path, "w") as file:
        file.write(COUPLED)
    for command in ("check", "plan", "verify"):
        report.true(f"batch_coupled: {command} refuses", "error[batch_coupled]" in execute(meshc(), command, path, code=1).stderr)
        report.true(f"batch_coupled: {command} -A", execute(meshc(), command, path, "-A", "batch_coupled").stderr == "")
        warned = execute(meshc(), command, path, "-W", "batch_coupled").stderr
        report.true(f"batch_coupled: {command} -W", warned.count("warning[batch_coupled]") == 3 and "error" not in warned)
    data = [f"data.x.file={folder}/coupled.npy", f"validation.x.file={folder}/coupled.npy", "train.steps=1", f"log.jsonl={folder}/coupled.jsonl"]
    execute(meshc(), "run", path, "-A", "batch_coupled", "-A", "oversubscribed", *data)
    got = [line["validation"] for line in json_lines(f"{folder}/coupled.jsonl") if "validation" in line][-1]
    centred = x.reshape(2, 12, 8) - x.reshape(2, 12, 8).mean(1, keepdims=True)
    for name, right in (("loss", (centred**4).mean()), ("spread", (centred**2).mean()), ("first", x.reshape(2, 12, 8).sum(2).argmax(1).mean())):
        report.check(f"batch_coupled: {name} of an evaluation over two batches by micro-batches", abs(got[name] / right - 1), bound)


def run(small):
    report = Report()
    steps = 3 if small else 30
    random = np.random.default_rng(SEED)
    print(f"seed {SEED}")
    all_layouts = list(layouts())[:: 4 if small else 1] + list(split_layouts())[:: 4 if small else 1]
    with scratch() as folder:
        path = os.path.join(folder, "small.mesh")
        with open(path, "w") as file:
            file.write(SPEC + "".join(text for _, _, text in [*layouts(), *split_layouts()]))
        arrays = {name: random.integers(0, 13, (12, 6)).astype(np.int32) for name in ("token", "target")}
        # From all to one valid token in a micro-batch.
        arrays["keep"] = np.arange(6)[None, :] < np.array([6, 6, 6, 5, 4, 3, 6, 2, 1, 1, 0, 0])[:, None]
        options = feeds(folder, arrays)
        report.attempt("plans", lambda: check_plans(report, folder))
        report.attempt("costs", lambda: check_costs(report, folder))
        report.attempt("what couples samples", lambda: check_coupled(report, folder, random))
        one = fetch(folder, "one", [path], options, steps, "f64", ["--layout", "one"])
        for title, name, _ in all_layouts:
            def action(title=title, name=name):
                error, tensor = worst(one, fetch(folder, name, [path], options, steps, "f64", ["--layout", name]))
                report.check(f"{title}, {steps} steps, {len(one)} tensors, worst {tensor}", float(f"{error:.2e}"), 1e-9)

            report.attempt(title, action)

        def every_value():
            for title, name in (("", "lsquare40"), (", ZeRO-3", "ssquare42")):
                execute(meshc(), "verify", path, "--layout", name, "--precision", "f64", "--bound", "1e-9")
                report.true(f"every named value under 2 x 2, accumulate 4{title} (verify)", True)

        report.attempt("verify", every_value)
    return report
