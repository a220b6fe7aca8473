"""`log.watch`: norms of gradients and parameters under layouts, micro-batches, as threads and as processes, against NumPy on what `meshc fetch` gives of one
rank; what watching leaves alone; where the numbers go; what cannot be watched."""
import os

import numpy as np

from common import Report, json_lines, meshc, scratch
from common import run as execute
from seeing import scalars

SEED, STEPS = 20261122, 3
SPEC = """dim batch = 12, seq = 6, embed = 8, hidden = 16, vocab = 13, layer = 3
block Feed(x : real[batch, seq, embed]) -> real[batch, seq, embed] {
  param up   : real[embed, hidden] = fan_in[embed]
  param down : real[hidden, embed] = fan_in[hidden]
  return dot[hidden](gelu(dot[embed](x, up)), down)
}
model Small {
  input token, target : index(vocab)[batch, seq]
  param table : real[vocab, embed] = normal(std: 0.3)
  param fixed : real[embed] = normal(mean: 1, std: 0.1)
  param scale : real = ones
  h = take[vocab](table, token)
  repeat layer {
    param feed : Feed
    h = h + scale * feed(h * fixed)
  }
  logits = dot[embed](h, table)
  loss   = mean[batch, seq](cross_entropy[vocab](logits, target), where: target > 3)
  minimize loss with OPTIMIZER {
    fixed { frozen }
  }
}
mesh single { only: 1 }
mesh square { a: 2, b: 2 }
mesh three { a: 3 }
layout one on single { batch -> none }
layout one_by_parts on single { batch -> none { accumulate: 2 } }
layout square on square { batch -> a; hidden, vocab -> b }
layout square_by_parts on square { batch -> a { accumulate: 2 }; hidden, vocab -> b; optimizer { embed -> a } }
layout three on three { batch -> a; params { hidden -> a } }
layout three_by_parts on three { batch -> a { accumulate: 2 } }
"""
RANKS = {"one": 1, "one_by_parts": 1, "square": 4, "square_by_parts": 4, "three": 3, "three_by_parts": 3}
# What the rate is at each of the steps, by hand: warm-up to 2 of 4 steps, then half a cosine down to a tenth of the peak.
OPTIMIZERS = {"plain": ("sgd(lr: 0.1)", [0.1, 0.1, 0.1]),
              "clipped": ("adamw(lr: cosine(peak: 1e-2, warmup: 2, steps: 4, floor: 1e-3), clip: 0.05)", [5e-3, 1e-2, 5.5e-3])}
PARAMETERS = ["table", "fixed", "scale", "layer.feed.up", "layer.feed.down"]
# grad(**) leaves out the one that is not trained.
NAMES = ["learning_rate", "grad_norm", *PARAMETERS, *(f"grad({p})" for p in PARAMETERS if p != "fixed")]
RUN = f"data: {{ token: {{ file: token.npy }}, target: {{ file: target.npy }} }}\ntrain: {{ steps: {STEPS} }}\nlog: {{ every: 1WATCH }}\n"
WATCH = ', watch: [learning_rate, grad_norm, "**", grad(**), layer.feed.up]'


def expected(folder, spec, rates):
    """Of each step, the norms by NumPy: {name: number}."""
    feeds = [part for name in ("token", "target") for part in ("--feed", f"{name}={folder}/{name}.npy")]

    def fetched(steps, *names):
        out = f"{folder}/out"
        execute(meshc(), "fetch", spec, *names, *feeds, "--layout", "one", "--precision", "f64", *(["--steps", steps] if steps else []), "--out", out)
        return {name[:-4]: np.linalg.norm(np.load(f"{out}/{name}")) for name in os.listdir(out) if name.startswith(names[0][:-4])}

    steps = []
    for step in range(1, STEPS + 1):
        gradients = fetched(step, "grad(**)")
        # After as many updates as there were before the step.
        parameters = {name[len("param("):-1]: norm for name, norm in fetched(step - 1, "param(**)").items()}
        steps.append({"learning_rate": rates[step - 1], "grad_norm": np.sqrt(sum(norm**2 for norm in gradients.values())), **parameters, **gradients})
    return steps


def build(folder, spec, run_file, layout):
    out = f"{folder}/{os.path.basename(spec)[:-5]}-{layout}-{os.path.basename(run_file)[:-5]}"
    execute(meshc(), "build", spec, run_file, "--layout", layout, "--precision", "f64", "-o", out)
    return f"{out}/{os.path.basename(spec)[:-5]}"


def train(folder, program, run_file, *how):
    """The JSON lines of the steps, without times; what was printed."""
    path = f"{folder}/lines.jsonl"
    printed = execute(program, run_file, *how, f"log.jsonl={path}").stdout
    return [{key: line[key] for key in ("step", "loss", "watch") if key in line} for line in json_lines(path) if "loss" in line], printed


def check_numbers(report, folder, spec, name, layouts):
    wanted = expected(folder, spec, OPTIMIZERS[name][1])
    for layout in layouts:
        program = build(folder, spec, f"{folder}/watch.yaml", layout)
        lines, _ = train(folder, program, f"{folder}/watch.yaml", "-n", RANKS[layout])
        good = len(lines) == STEPS and all(list(line["watch"]) == NAMES for line in lines)
        errors = [abs(line["watch"][n] / want[n] - 1) for line, want in zip(lines, wanted) for n in NAMES] if good else [np.inf]
        report.check(f"{name}, {layout}: {len(errors)} numbers against NumPy, largest relative difference", float(f"{max(errors):.2e}"), 1e-9)
        threads, _ = train(folder, program, f"{folder}/watch.yaml", "--threads")
        report.true(f"{name}, {layout}: threads give the bits of processes", threads == lines, threads if threads != lines else "")


def check_left_alone(report, folder, spec, layout):
    """Watching changes no loss, and nothing is watched unless the run file says so."""
    watching = build(folder, spec, f"{folder}/watch.yaml", layout)
    plain = build(folder, spec, f"{folder}/plain.yaml", layout)
    one, _ = train(folder, watching, f"{folder}/watch.yaml", "-n", RANKS[layout])
    two, _ = train(folder, plain, f"{folder}/plain.yaml", "-n", RANKS[layout])
    three, _ = train(folder, watching, f"{folder}/plain.yaml", "-n", RANKS[layout])
    report.true(f"{layout}: the same losses, watched or not", [line["loss"] for line in one] == [line["loss"] for line in two] and two == three, (one, two, three))
    report.true(f"{layout}: lines without `watch`", all("watch" not in line for line in two))
    none = build(folder, spec, f"{folder}/none.yaml", layout)
    with open(f"{plain}.cpp") as first, open(f"{none}.cpp") as second:
        report.true(f"{layout}: a run file that watches nothing leaves the program alone", first.read() == second.read())
    some, printed = train(folder, watching, f"{folder}/plain.yaml", "-n", RANKS[layout], 'log.watch=[layer.feed.up, grad_norm]')
    report.true(f"{layout}: some of what was compiled", [line["watch"] for line in some] == [{n: line["watch"][n] for n in ("layer.feed.up", "grad_norm")} for line in one], some)
    report.true(f"{layout}: at the end of each line", all(f"  layer.feed.up {line['watch']['layer.feed.up']:#.4g}  grad_norm {line['watch']['grad_norm']:#.4g}\n" in printed for line in one), printed)
    refused = execute(plain, f"{folder}/watch.yaml", "-n", RANKS[layout], code=1).stderr
    report.true(f"{layout}: a program that was compiled for something else", "`Small` is not compiled to watch `learning_rate`: `meshc build plain.mesh RUN.yaml`" in refused
                and "watch.yaml:3:26" in refused, refused)


def check_folder(report, folder, spec):
    """`meshc run` compiles what the run file watches; metrics.jsonl and the events hold it."""
    execute(meshc(), "run", spec, f"{folder}/watch.yaml", "--layout", "square", "--run-dir", f"{folder}/kept", env={"XDG_CACHE_HOME": f"{folder}/cache"})
    lines = [line for line in json_lines(f"{folder}/kept/metrics.jsonl") if "loss" in line]
    events, _ = scalars(f"{folder}/kept/events.out.tfevents.0000000000.meshwright")
    wanted = {(f"watch/{name}", line["step"]): norm for line in lines for name, norm in line["watch"].items()}
    found = {key: value for key, value in events.items() if key[0].startswith("watch/")}
    worst = max(abs(found[key] / wanted[key] - 1) for key in wanted) if wanted and found.keys() == wanted.keys() else np.inf
    report.check(f"{len(wanted)} norms of the event file against metrics.jsonl: largest relative difference", worst, 1e-7)


REFUSED = [("layer.feed.upp", "there is nothing to watch called `layer.feed.upp`", "did you mean `layer.feed.up`?"),
           ("grad_nom", "there is nothing to watch called `grad_nom`", "did you mean `grad_norm`?"),
           ("grad(tabel)", "there is nothing to watch called `grad(tabel)`", "did you mean `grad(table)`?"),
           ("grad(fixed)", "`fixed` has no gradient to watch", "it is not trained"),
           ("loss", "there is nothing to watch called `loss`", "a metric is logged without being watched"),
           ("logits", "there is nothing to watch called `logits`", "a value is logged by a line of the spec: `metric NAME = ...`"),
           ('"**.weight"', "there is nothing to watch called `**.weight`", "it can be `fixed`, `grad(layer.feed.down)`")]


def check_refused(report, folder, spec):
    path = f"{folder}/wrong.yaml"
    for command in ("run", "build"):
        for entry, message, hint in REFUSED:
            with open(path, "w") as file:
                file.write(RUN.replace("WATCH", f",\n  watch: [grad_norm, {entry}]"))
            told = execute(meshc(), command, spec, path, "--layout", "one", code=1, cwd=folder).stderr
            report.true(f"{command}, {entry}", message in told and f"--> {path}:4:22" in told and hint in told, told)
    with open(path, "w") as file:
        file.write("log: { watch: [**.up] }\n")
    told = execute(meshc(), "build", spec, path, "--layout", "one", code=1).stderr
    report.true("a pattern without quotes", "this is not YAML" in told and f"{path}:1:16" in told and "stands in quotes" in told, told)
    with open(f"{folder}/still.mesh", "w") as file:
        file.write("dim n = 3\nmodel Still {\n  input x : real[n]\n  state s : real[n] = zeros\n  s <- s + x\n}\n")
    told = execute(meshc(), "build", f"{folder}/still.mesh", "log.watch=[grad_norm]", code=1).stderr
    report.true("a model that is not trained", "nothing to watch called `grad_norm`" in told and "the model has no parameters" in told, told)


def run(small):
    report = Report()
    print(f"seed {SEED}")
    random = np.random.default_rng(SEED)
    layouts = ["one_by_parts", "square_by_parts", "three"] if small else list(RANKS)
    with scratch() as folder:
        for name in ("token", "target"):
            np.save(f"{folder}/{name}.npy", random.integers(0, 13, (12, 6)).astype(np.int32))
        for name, watch in {"watch": WATCH, "plain": "", "none": ", watch: []"}.items():
            with open(f"{folder}/{name}.yaml", "w") as file:
                file.write(RUN.replace("WATCH", watch))
        specs = {}
        for name, (optimizer, _) in OPTIMIZERS.items():
            specs[name] = f"{folder}/{name}.mesh"
            with open(specs[name], "w") as file:
                file.write(SPEC.replace("OPTIMIZER", optimizer))
        for name, spec in specs.items():
            report.attempt(name, lambda spec=spec, name=name: check_numbers(report, folder, spec, name, layouts[-2:] if small and name == "clipped" else layouts))
        report.attempt("left alone", lambda: check_left_alone(report, folder, specs["plain"], "square_by_parts"))
        report.attempt("folder", lambda: check_folder(report, folder, specs["clipped"]))
        report.attempt("refused", lambda: check_refused(report, folder, specs["plain"]))
    return report
