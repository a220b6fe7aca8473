"""Budgets and the memory of machines: whatever compiles a layout keeps its budget; what `plan` says of each limit; the change that a broken limit proposes, written
into the spec, keeps it; memory of a host and of a rank."""
import json
import os
import re
import subprocess

from common import Report, meshc, scratch
from common import run as execute
from long_attention import CAUSAL, model

SPEC = """dim batch = 1024, pixel = 256, hidden = 128, class = 16

model Two {
  input x     : real[batch, pixel]
  input label : index(class)[batch]
  param w : real[pixel, hidden] = fan_in[pixel]
  param v : real[hidden, class] = fan_in[hidden]
  h    = relu(dot[pixel](x, w))
  loss = mean[batch](cross_entropy[class](dot[hidden](h, v), label))
  minimize loss with adam(lr: 0.1)
}

mesh line { all: 4 }

layout default on line { batch -> all }
layout split on line {
  batch -> all
  params { pixel -> all }
}
"""
DEEP = """dim batch = 64, embed = 32, out = embed, layer = 8

model Deep {
  input x : real[batch, embed]
  h = x
  repeat layer {
    param w : real[embed, out] = fan_in[embed]
    h = h + tanh(dot[embed](h, w))[out as embed]
  }
  loss = mean[batch, embed](h ^ 2)
  minimize loss with adam(lr: 0.1)
}

mesh line { data: 2 }

layout default on line { batch -> data }
"""
# Budgets that are broken: the code, and the layout under which they are.
BROKEN = {"memory by micro-batches or remat": (DEEP + "\nbudget default { peak_memory <= 150 KiB }\n", "E0415", "default"),
          "bytes": (SPEC.replace("1024", "64") + "\nbudget default { bytes over all <= 100 KiB }\n", "E0416", "default"),
          "a forbidden gather": (SPEC + "\nbudget split { forbid all_gather of params }\n", "E0417", "split"),
          "a forbidden reduction": (SPEC + "\nbudget default {\n  forbid all_reduce of grads over all\n}\n", "E0417", "default"),
          "counts": (SPEC + "\nbudget split { collectives in ** over all == { all_reduce: 3 } }\n", "E0418", "split")}


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def diagnostics(command, path, *options, code):
    said = execute(meshc(), command, path, *options, "--diagnostics=json", code=code).stderr
    return [json.loads(line) for line in said.splitlines() if line.startswith("{")]


def offset(text, line, column):
    return sum(len(one) + 1 for one in text.split("\n")[:line - 1]) + column - 1


def check_ways_out(report, folder):
    path = f"{folder}/x.mesh"
    for name, (text, code, layout) in BROKEN.items():
        write(path, text)
        found = diagnostics("check", path, "--layout", layout, code=1)
        alone = [one["code"] for one in found] == [code] and found[0]["spans"][0]["line"] == text[:text.index("budget")].count("\n") + 1 + text.count("\n  forbid")
        report.true(f"{name}: one error, at the limit", alone, found)
        culprits = [span for span in found[0]["spans"][1:] if span["line"]]
        report.true(f"{name}: the culprit has a line", culprits, found[0]["spans"])
        fixes = found[0]["fixes"]
        report.true(f"{name}: a way out", len(fixes) == 1, found[0]["helps"])
        begin, end = offset(text, fixes[0]["line"], fixes[0]["col"]), offset(text, fixes[0]["end_line"], fixes[0]["end_col"])
        write(path, text[:begin] + fixes[0]["text"] + text[end:])
        cured = execute(meshc(), "check", path, "--layout", layout, code=None)
        report.true(f"{name}: written into the spec, it keeps the budget", cured.returncode == 0 and cured.stderr == "", cured.stderr)
        rule = re.search(r"`([^`]+)`", found[0]["helps"][0])[1]
        report.true(f"{name}: it is the rule that the help shows", rule in open(path).read(), found[0]["helps"])


def check_several(report, folder):
    """Where one rule is not enough, the rules that the help names keep the limit together."""
    path, text = f"{folder}/x.mesh", DEEP + "\nbudget default { peak_memory <= 110 KiB }\n"
    write(path, text)
    found = diagnostics("check", path, code=1)
    rules = re.findall(r"`([^`]+)`", found[0]["helps"][0])[:-1]  # the last is the layout
    report.true("several rules", len(rules) > 1 and "enough" not in found[0]["helps"][0], found[0]["helps"])
    body = "\n  ".join([*(["batch -> data"] if not any(rule.startswith("batch -> data") for rule in rules) else []), *rules])
    write(path, text.replace("{ batch -> data }", "{\n  " + body + "\n}"))
    cured = execute(meshc(), "check", path, code=None)
    report.true("several rules: they keep the budget", cured.returncode == 0, cured.stderr)


def check_commands(report, folder):
    """Every command that compiles what will run refuses; those that look into a model with values of their own do not."""
    path = f"{folder}/x.mesh"
    write(path, SPEC + "\nbudget default { bytes <= 1 KiB }\n")
    for command in (["check"], ["plan"], ["build", "--no-compile", "-o", f"{folder}/out"], ["run"]):
        done = execute(meshc(), command[0], path, *command[1:], code=1)
        report.true(f"{command[0]}: a broken budget is an error", "error[E0416]" in done.stderr, done.stderr[-300:])
    report.true("build: nothing is written", not os.path.exists(f"{folder}/out"))
    report.true("verify: its values are not those of a run", "equal" in execute(meshc(), "verify", path, "--layout", "default").stdout)
    checked = execute(meshc(), "check", path, "--layout", "split", code=1)
    report.true("check: of the other layouts too", "error[E0416]" in checked.stderr, checked.stderr[-300:])
    rows = json.loads(execute(meshc(), "plan", path, "--all", "-n", "4", "--json").stdout)["plans"]
    report.true("plan --all: the row says why", [row["error"]["code"] for row in rows if "error" in row] == ["E0416"], rows)


def check_plan(report, folder):
    path = f"{folder}/x.mesh"
    write(path, SPEC + "\nbudget default {\n  peak_memory <= 1 GiB\n  bytes over all <= 1 KiB\n  forbid all_gather\n  collectives in ** == { all_reduce: 3 }\n}\n")
    done = execute(meshc(), "plan", path, "--json", code=1)
    plan = json.loads(done.stdout)
    by_axis = sum(one["bytes"] * one["count"] for one in plan["collectives"] if "all" in one["axes"])
    kinds = [one["kind"] for one in plan["collectives"]]
    wanted = [("peak_memory <= 1 GiB", plan["memory"]["peak"], True), ("bytes over all <= 1 KiB", by_axis, False), ("forbid all_gather", kinds.count("all_gather"), True),
              ("collectives in ** == { all_reduce: 3 }", {"all_reduce": kinds.count("all_reduce")}, True)]
    found = [(one["limit"], one["at"], one["holds"]) for one in plan["budget"]]
    report.true("plan --json: each limit and what it is at", found == wanted and [one["line"] for one in plan["budget"]] == [22, 23, 24, 25], plan["budget"])
    text = execute(meshc(), "plan", path, code=1).stdout
    report.true("plan: the plan is shown, with its broken limit", re.search(r"\nbudget\n.*\n  bytes over all <= 1 KiB +[\d.]+ KiB +broken\n", text), text[-400:])
    beside = execute(meshc(), "plan", path, "--layout", "default,split", code=1)
    report.true("plan of two layouts: both are shown", "error[E0416]" in beside.stderr and "exposed communication" in beside.stdout, beside.stdout[:200])
    with open(path) as file:
        piped = subprocess.run([meshc(), "plan", "-"], stdin=file, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    report.true("plan of the standard input: the same, with its way out", piped.stdout.replace('<stdin>', 'x.mesh') == text and "help: " in piped.stderr, piped.stderr)
    write(path, SPEC)
    report.true("plan --json without a budget", json.loads(execute(meshc(), "plan", path, "--json").stdout)["budget"] == [])


def check_memory(report, folder):
    path = f"{folder}/x.mesh"
    write(path, DEEP)
    peak = json.loads(execute(meshc(), "plan", path, "--json").stdout)["memory"]["peak"]
    write(f"{folder}/small.yaml", f"name: small\nnode: {{ ranks: 2, memory_gib: {1.5 * peak / 2**30:.9f} }}\n")
    write(f"{folder}/one.yaml", f"name: one\nnode: {{ ranks: 1, memory_gib: {1.5 * peak / 2**30:.9f} }}\n")

    def planned(*options, code=0, command="plan"):
        done = execute(meshc(), command, path, *options, *(["--json"] if command == "plan" else []), code=code)
        return done.stderr, json.loads(done.stdout)["room"] if command == "plan" else None

    said, room = planned("--machine", f"{folder}/small.yaml")
    report.true("two ranks of a host hold more than it has: a warning", "warning[over_memory]: 2 ranks of a host hold" in said and "machine `small` has" in said, said)
    report.true("by how much, the largest values, a rule that helps", "too much; each rank holds" in said and "the largest: " in said and "help: " in said and "a rank then holds" in said, said)
    report.true("plan --json: room", room["ranks"] == 2 and room["needed"] == 2 * peak and not room["fits"] and abs(room["bytes"] - 1.5 * peak) < 2, room)
    said, room = planned("--machine", f"{folder}/one.yaml")
    report.true("one rank a host fits", said == "" and room["ranks"] == 1 and room["fits"], (said, room))
    said, room = planned("--machine", f"{folder}/small.yaml", "--memory", f"{peak}B")
    report.true("--memory, of a rank, stands over the machine", said == "" and room == {"ranks": 1, "needed": peak, "bytes": peak, "fits": True}, (said, room))
    said, _ = planned("--memory", f"{peak - 1}B")
    report.true("--memory: a byte too little", "a rank holds" in said and "--memory gives it" in said, said)
    said, _ = planned("--machine", f"{folder}/small.yaml", command="check")
    report.true("check warns and does not refuse", "warning[over_memory]" in said, said)
    said, _ = planned("--machine", f"{folder}/small.yaml", "-D", "over_memory", command="check", code=1)
    report.true("-D over_memory refuses", "error[over_memory]" in said, said)
    text = execute(meshc(), "plan", path, "--machine", f"{folder}/small.yaml").stdout
    report.true("plan: whether it fits", re.search(r"\n  2 ranks of a host: .* KiB of .* KiB, .* too much\n", text), text[-300:])
    wrong = execute(meshc(), "plan", path, "--memory", "16", code=2)
    report.true("--memory without a unit: wrong usage", "16GiB" in wrong.stderr, wrong.stderr)


ATTENTION = f"""dim batch = 8, seq = 256, key = seq, embed = 64, head_dim = 64

{model(CAUSAL)}
mesh line {{ ctx: 8 }}

layout default on line {{ seq -> ctx }}
layout whole on line {{ seq -> ctx; key -> none }}
"""


def check_rings_are_told(report, path, machine, peak):
    """Where memory asks for rings, that and the limit are said; passes show the program that is built."""
    options = (path, "--machine", machine, "--memory", f"{peak - 1}B")
    why = f"gathered, a rank would hold {peak / 2**20:.1f} MiB, and --memory gives it {(peak - 1) / 2**20:.1f} MiB"
    plan = execute(meshc(), "plan", *options).stdout
    report.true("plan: the rule that memory asks for, and why", f"added by the compiler\n  key -> ctx unless seq  {why}\n" in plan, plan[:500])
    report.true("plan: each ring's reason", plan.count("  ring ") == plan.count(f"; {why}\n") > 0, plan)
    report.true("plan --json: the same", json.loads(execute(meshc(), "plan", *options, "--json").stdout)["added"] == [{"rule": "key -> ctx unless seq", "why": why}])
    value = execute(meshc(), "explain", path, "k", *options[1:]).stdout
    report.true("explain: the same", f"    the compiler adds `key -> ctx unless seq`: {why}\n" in value, value)
    passes = {name: execute(meshc(), "ir", name, *options).stdout for name in ("graph", "sharded", "program", "cpp")}
    report.true("ir: passes of the program with rings", all("ring" in passes[name] for name in ("sharded", "program", "cpp")) and not any("all_gather" in text for text in passes.values()), passes)
    report.true("ir: the passes before, as without", passes["graph"] == execute(meshc(), "ir", "graph", path).stdout)
    report.true("the emitted program names the rule and the limit", f"--memory {peak - 1}B\n" in passes["cpp"] and "layout    default: seq -> ctx; key -> ctx unless seq\n" in passes["cpp"], passes["cpp"][:800])


def check_rings(report, folder):
    """Keys and values are gathered where that takes less time, as messages of parts do that take long, unless a rank has no room for them."""
    path, slow = f"{folder}/x.mesh", f"{folder}/slow.yaml"
    write(path, ATTENTION)
    write(slow, "{name: slow, node: {latency_us: 3000, gbs: 10}, network: {latency_us: 3000, gbs: 10}}\n")

    def planned(*options):
        done = execute(meshc(), "plan", path, "--machine", slow, *options, "--json", code=None)
        plan = json.loads(done.stdout)
        return {one["kind"] for one in plan["collectives"]} & {"ring", "all_gather"}, plan["memory"]["peak"], done.stderr

    kinds, peak, _ = planned()
    report.true("with room for all keys they are gathered", kinds == {"all_gather"}, kinds)
    kinds, less, said = planned("--memory", f"{peak - 1}B")
    report.true("without, they go round", kinds == {"ring"} and less < peak and said == "", (kinds, less, peak, said))
    check_rings_are_told(report, path, slow, peak)
    kinds, _, said = planned("--memory", f"{less - 1}B")
    report.true("as they do where that is not enough", kinds == {"ring"} and "over_memory" in said, (kinds, said))
    kinds, _, said = planned("--memory", f"{peak - 1}B", "--layout", "whole")
    report.true("not where a rule has the keys whole", kinds == {"all_gather"} and "over_memory" in said, (kinds, said))
    write(f"{folder}/hosts.yaml", f"{{name: hosts, node: {{ranks: 8, latency_us: 3000, gbs: 10, memory_gib: {8 * (peak - 1) / 2**30:.9f}}}}}\n")
    report.true("memory of a host", "  ring " in execute(meshc(), "plan", path, "--machine", f"{folder}/hosts.yaml").stdout)
    write(path, ATTENTION + f"\nbudget default {{ peak_memory <= {peak - 1} B }}\n")
    kinds, _, said = planned()
    report.true("a budget asks for it, too", kinds == {"ring"} and said == "", (kinds, said))
    equal = execute(meshc(), "verify", path, "--layout", "default", "--machine", slow, "--memory", f"{peak - 1}B", "--precision", "f64", code=None)
    report.true("and they equal one rank", "values are equal" in equal.stdout, equal.stdout[-200:] + equal.stderr[-200:])


MOMENTS = """dim batch = 64, from = 1024, hidden = 1024
model Wide {
  input x, y : real[batch, from]
  param up   : real[from, hidden] = fan_in[from]
  param down : real[hidden, from] = fan_in[hidden]
  loss = mean[batch, from]((dot[hidden](tanh(dot[from](x, up)), down) - y) ^ 2)
  minimize loss with adam(lr: 1e-3)
}
mesh line { data: 4 }
"""


def check_moments(report, folder):
    """A rule that the compiler adds is told and explained; what the layout says of the optimizer's state, and a budget, it keeps."""
    path = f"{folder}/wide.mesh"
    added = "added by the compiler\n  optimizer { from -> data }  the 4 ranks that add up the gradients each update a part in place of all of it\n"
    for name, rules, budget, machine, splits in (
            ("a layout that says nothing of moments", "batch -> data", "", "", True),
            ("moments kept whole", "batch -> data; optimizer { from -> none }", "", "", False),
            ("a budget without all_gather", "batch -> data", "budget default { forbid all_gather of params }", "", False),
            ("one of memory", "batch -> data", "budget default { peak_memory <= 1 GiB }", "", True),
            ("ranks of four hosts", "batch -> data", "", "name: apart\nnode: { ranks: 1 }\n", False)):
        write(path, f"{MOMENTS}layout default on line {{ {rules} }}\n{budget}\n")
        write(f"{folder}/of.yaml", machine or "name: near\n")
        options = (path, "--machine", f"{folder}/of.yaml")
        plan = execute(meshc(), "plan", *options).stdout
        report.true(f"{name}: {'moments are split' if splits else 'no rule is added'}", (added in plan) == splits and ("added by" in plan) == splits, plan[:600])
        said = execute(meshc(), "explain", path, "up.moment1", *options[1:]).stdout
        report.true(f"{name}: explain says so", ("the compiler adds `optimizer { from -> data }`" in said) == splits, said)
    looped = MOMENTS.replace("  param", "  h = x\n  repeat layer {\n    param", 1).replace("  param down", "    param down").replace("  loss =", "    h = h + dot[hidden](tanh(dot[from](h, up)), down)\n  }\n  loss =")
    looped = looped.replace("dot[hidden](tanh(dot[from](x, up)), down) - y", "h - y").replace("dim batch", "dim layer = 4, batch")
    for again in ("layer", "every 2", "every 4"):
        write(path, f"{looped}layout default on line {{ batch -> data; layer -> none {{ remat: \"{again}\" }} }}\n")
        write(f"{folder}/of.yaml", "name: near\n")
        plan = execute(meshc(), "plan", path, "--machine", f"{folder}/of.yaml").stdout
        report.true(f"turns computed again, {again}: moments are split", "added by the compiler\n  optimizer { " in plan, plan[:600])
    rows = MOMENTS.replace("real[from, hidden] =", "real[hidden, from] =").replace("  loss =", "  param last : real[from] = zeros\n  loss =").replace("- y", "+ last - y")
    write(path, f"{rows}layout default on line {{ batch -> data }}\n")
    write(f"{folder}/of.yaml", "name: near\n")
    plan = execute(meshc(), "plan", path, "--machine", f"{folder}/of.yaml").stdout
    report.true("of two dims the one whose parts are rows that lie together", "  optimizer { hidden -> data }  " in plan and "optimizer { from" not in plan, plan[:600])


def run(small):
    report = Report()
    with scratch() as folder:
        for action in (check_ways_out, check_several, check_commands, check_plan, check_memory, check_rings, check_moments):
            report.attempt(action.__name__, lambda action=action: action(report, folder))
    return report
