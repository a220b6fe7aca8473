"""Layouts that a search finds: beside the best that the specs have by hand and beside random ones, within the memory of a rank, as text, and equal to one rank;
random small models beside all sets of rules (tests/search)."""
import json
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

import legal_layouts
from common import TOP, Report, meshc, scratch
from common import run as execute
from long_attention import CAUSAL, SCORES, model

WORSE = 1.05  # of the best layout by hand, and of so many drawn ones
DRAWN = 200
# spec, meshes; layouts by hand whose mesh has the same axes are compared with what is found on it.
SPECS = [("gpt", ["data=2,model=2", "data=4,model=2", "data=2,model=4", "data=8"]),
         ("translate", ["data=2,model=2", "data=4,model=2", "data=2,model=4"]),
         ("mixtral", ["data=2,model=2", "data=4,model=2", "data=2,model=4"]),
         ("mlp", ["all=4", "all=8", "rows=2,columns=2", "rows=4,columns=2", "planes=2,rows=2,columns=2"])]


def by_hand(spec, mesh):
    """{layout: seconds} of the layouts of a spec on a mesh of these axes."""
    found = {}
    for layout in json.loads(execute(meshc(), "plan", spec, "--all", "--json", code=None).stdout)["plans"]:
        if set(layout["mesh"]["axes"]) != {axis.split("=")[0] for axis in mesh.split(",")}:
            continue
        done = execute(meshc(), "plan", spec, "--layout", layout["layout"], "--mesh", mesh, "--json", code=None)
        if done.returncode == 0:
            found[layout["layout"]] = json.loads(done.stdout)["predicted_seconds"]
    return found


def found_on(spec, mesh, *options):
    return json.loads(execute(meshc(), "layout", spec, "--mesh", mesh, "--json", *options).stdout)


def check_spec(report, name, mesh, folder):
    spec = f"{TOP}/specs/{name}.mesh"
    title = f"{name} on {mesh}"
    answer = found_on(spec, mesh)
    hand = by_hand(spec, mesh)
    if hand:
        best = min(hand, key=hand.get)
        report.check(f"{title}: predicted beside `{best}` by hand", round(answer["predicted_seconds"] / hand[best], 4), WORSE)
    path = f"{folder}/{name}.{mesh.replace(',', '.')}.mesh"
    with open(spec) as written, open(path, "w") as copy:
        copy.write(written.read() + "\n" + answer["text"])
    plan = json.loads(execute(meshc(), "plan", path, "--layout", answer["layout"], "--mesh", mesh, "--json").stdout)
    report.true(f"{title}: the text that is printed has the time that is said", plan["predicted_seconds"] == answer["predicted_seconds"])
    done = execute(meshc(), "fmt", "--check", path, code=None)
    report.true(f"{title}: the text has the look of `meshc fmt`", done.returncode == 0, done.stdout)
    return path, answer["layout"]


SPEC = """dim batch = 64, embed = 256, ffn = 1024, layer = 4

model Deep {
  input x, y : real[batch, embed]
  h = x
  repeat layer {
    param up   : real[embed, ffn] = fan_in[embed]
    param down : real[ffn, embed] = fan_in[ffn]
    h = h + dot[ffn](relu(dot[embed](h, up)), down)
  }
  loss = mean[batch, embed]((h - y) ^ 2)
  minimize loss with adam(lr: 1e-3)
}

mesh pod { data: 2, model: 2 }

layout default on pod {
  batch -> data
  auto
}
layout all on pod { auto }
"""


def check_language(report, folder):
    """`auto` in a spec: what is written stays, and everything that compiles takes it."""
    path = f"{folder}/deep.mesh"
    with open(path, "w") as file:
        file.write(SPEC)
    execute(meshc(), "check", path)
    report.true("auto: `fmt` keeps it", execute(meshc(), "fmt", "--check", path, code=None).returncode == 0)
    whole = execute(meshc(), "layout", path, "--layout", "default").stdout
    report.true("auto: the rules that are written stay", "  batch" in whole and "-> data\n" in whole, whole)
    for layout in ("default", "all"):
        done = execute(meshc(), "verify", path, "--layout", layout, code=None)
        report.true(f"auto: layout {layout} equals one rank", done.returncode == 0 and "are equal" in done.stdout, "" if done.returncode == 0 else done.stdout + done.stderr)
    one, two = (execute(meshc(), "ir", path, "cpp", "--layout", "all").stdout for _ in range(2))
    report.true("auto: the same program twice", one == two)
    execute(meshc(), "layout", path, "--layout", "all", "--write")
    with open(path) as file:
        written = file.read()
    good = written.count("auto") == 1 and written.count("layout all on pod") == 1
    report.true("auto: --write puts the rules in its place", good, "" if good else written)
    execute(meshc(), "check", path, "--layout", "all")
    execute(meshc(), "layout", path, "--mesh", "data=2,model=2", "--write")
    with open(path) as file:
        report.true("auto: --write adds a layout", file.read().count("layout found on pod") == 1)
    execute(meshc(), "layout", path, "--mesh", "rank=4", "--write", f"{folder}/beside.mesh")
    report.true("auto: --write makes a file of layouts", "are equal" in execute(meshc(), "verify", path, f"{folder}/beside.mesh", "--layout", "found2").stdout)


ATTENTION = """dim batch = 1, seq = 2048, key = seq, embed = 64, head_dim = 64

MODEL

mesh line { ctx: 4 }

layout default on line { auto }
layout blocks on line { seq -> ctx; key -> ctx unless seq }
layout zigzag on line { seq -> ctx { owns: "zigzag" }; key -> ctx unless seq { owns: "zigzag" } }
"""


def check_deal(report, folder):
    """Positions under a causal mask are dealt in zigzag where they are split; others lie in blocks."""
    for name, masked in (("causal", CAUSAL), ("full", SCORES)):
        path = f"{folder}/{name}.mesh"
        with open(path, "w") as file:
            file.write(ATTENTION.replace("MODEL\n", model(masked)))
        plans = {layout: json.loads(execute(meshc(), "plan", path, "--layout", layout, "--json").stdout) for layout in ("default", "blocks", "zigzag")}
        seconds = {layout: plan["predicted_seconds"] for layout, plan in plans.items()}
        rules = [rule["rule"] for rule in plans["default"]["found"]["rules"]]
        lies = re.search(r"^ +y +activation +(.*) ->", execute(meshc(), "plan", path, "--layout", "default").stdout, re.M)[1]
        report.true(f"deal: {name}", lies == ("[batch, seq/ctx zigzag, head_dim]" if name == "causal" else "[batch, seq/ctx, head_dim]"), f"{rules}: {lies}")
        report.true(f"deal: {name}: not slower than by hand", seconds["default"] <= min(seconds["blocks"], seconds["zigzag"]) * (1 + 1e-9), seconds)
        if name == "causal":
            report.check("deal: of blocks' time", seconds["default"] / seconds["blocks"], 0.7)
        with open(path, "a") as file:
            file.write("\n" + execute(meshc(), "layout", path, "--mesh", "ctx=4").stdout)
        written = json.loads(execute(meshc(), "plan", path, "--layout", "found", "--json").stdout)
        report.true(f"deal: {name}: the rules as they are written place all values alike", all(written[key] == plans["default"][key] for key in ("tensors", "collectives", "memory", "predicted_seconds")))
        done = execute(meshc(), "verify", path, "--layout", "found", "--set", "seq=90", code=None)
        report.true(f"deal: {name}: equals one rank", done.returncode == 0 and "are equal" in done.stdout, done.stdout + done.stderr)


def check_memory(report, folder):
    """With less and less memory the step is slower, what is found has room, and at the end there is an error that says what it takes."""
    path = f"{folder}/memory.mesh"
    with open(path, "w") as file:
        file.write(SPEC)
    sizes = ("--set", "batch=4096")  # most is activations
    free = found_on(path, "data=2,model=2", *sizes)
    before = free["predicted_seconds"]
    for share in (0.9, 0.75):
        memory = int(free["memory"] * share)
        answer = found_on(path, "data=2,model=2", *sizes, "--memory", f"{memory >> 10}KiB")
        report.check(f"memory: what is found for {share:g} of what the fastest needs", answer["memory"], memory)
        report.true("memory: it is not faster", answer["predicted_seconds"] >= before * (1 - 1e-9))
    done = execute(meshc(), "layout", path, "--mesh", "data=2,model=2", "--memory", "1MiB", code=None, env={"NO_COLOR": "1"})
    report.true("memory: too little is E0425, with the least and its rules", done.returncode == 1 and "error[E0425]" in done.stderr and "the least is" in done.stderr, done.stderr)


def check_among(name, ranks, folder):
    """(line, measured, bound): what is found on the best mesh of so many ranks, beside all layouts by hand on all meshes, and random legal ones."""
    found = json.loads(execute(meshc(), "layout", *legal_layouts.spec_of(name), "--mesh", "auto", "-n", ranks, "--json").stdout)
    os.makedirs(f"{folder}/{name}.{ranks}")
    others = legal_layouts.by_hand(name, ranks) + legal_layouts.Draws(name, ranks).legal(DRAWN, f"{folder}/{name}.{ranks}")
    best = min(others, key=lambda one: one.seconds)
    told = " ".join(best.text.split()) or best.name
    return f"{name} on {ranks} ranks: predicted beside the best of {len(others)}, {told}", round(found["predicted_seconds"] / best.seconds, 4), WORSE


def search_test():
    return os.environ.get("SEARCH_TEST") or os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(meshc()))), "tests", "search", "search_test")


def check_random(report, models=2000, at_a_time=50):
    """What is found for random models beside every set of rules that one could write for them."""

    def some(first):
        return subprocess.run([search_test(), "--gtest_filter=Search.FindsTheBest*"], env={**os.environ, "GRAPHS": f"{first}-{first + at_a_time - 1}"},
                              stdout=subprocess.PIPE, text=True)

    firsts = range(1, models + 1, at_a_time)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for first, done in zip(firsts, pool.map(some, firsts), strict=True):
            said = re.search(r"\d+ graphs, \d+ proved", done.stdout)
            report.true(f"random models {first} to {first + at_a_time - 1}, {said[0] if said else 'not ended'}: the best of all sets of rules, or within 2 % and not proved",
                        done.returncode == 0, "" if done.returncode == 0 else done.stdout[-3000:])


def run(small=False):
    report = Report()
    with scratch() as folder:
        report.attempt("language", lambda: check_language(report, folder))
        report.attempt("deal", lambda: check_deal(report, folder))
        report.attempt("memory", lambda: check_memory(report, folder))
        for name, meshes in SPECS[-1:] if small else SPECS:
            for mesh in meshes[:1] if small else meshes:
                def one(name=name, mesh=mesh):
                    path, layout = check_spec(report, name, mesh, folder)
                    done = execute(meshc(), "verify", path, "--layout", layout, "--mesh", mesh, code=None)
                    report.true(f"{name} on {mesh}: equals one rank", done.returncode == 0, "" if done.returncode == 0 else done.stdout[-2000:] + done.stderr[-2000:])
                report.attempt(f"{name} on {mesh}", one)
        cases = [("mlp", 4)] if small else [(name, ranks) for name in legal_layouts.SPECS for ranks in (4, 8)]
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            for (name, ranks), case in [(case, pool.submit(check_among, *case, folder)) for case in cases]:
                report.attempt(f"{name} on {ranks} ranks", lambda case=case: report.check(*case.result()))
    if not small:
        check_random(report)
    return report
