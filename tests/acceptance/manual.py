"""Manual regions: seven programs with their collectives written by hand beside the same programs without. On 1, 2 and 4 ranks both give the same losses, gradients and parameters (f64);
the plan has the collectives that were written, each at its line, and sends no more than the other's; emitted they give the interpreter's bits."""
import json
import re
from dataclasses import dataclass

import numpy as np

from common import Report, meshc, scratch
from common import run as execute
from emitted import compare

SEED = 20261125
BOUND = 1e-12
RANKS = (1, 2, 4)


@dataclass
class Program:
    """One model in two forms, which differ by a part of its body alone."""
    name: str
    dims: str
    given: str            # inputs and parameters
    by_hand: str
    automatic: str
    after: str            # what follows either
    axis: str
    rules: str
    inputs: dict          # name: shape, or (shape, number of classes)
    parameters: tuple
    parts: int = 0        # of the region; 0: as many as ranks

    def spec(self, body, ranks):
        return f"dim {self.dims}\n\nmodel M {{\n{self.given}{body}{self.after}}}\n\nmesh line {{ {self.axis}: {ranks} }}\nlayout default on line {{ {self.rules} }}\n"


PROGRAMS = [
    Program("feed_forward", "batch = 8, embed = 16, ffn = 32", """  input x, t : real[batch, embed]
  param up   : real[embed, ffn] = fan_in[embed]
  param down : real[ffn, embed] = fan_in[ffn]
""", """  manual ffn over model {
    h       = relu(dot[embed](x, up))
    partial = dot[ffn](h, down)
    y       = all_reduce(partial, over: model)
  }
""", """  y = dot[ffn](relu(dot[embed](x, up)), down)
""", """  loss = mean[batch, embed]((y - t) ^ 2)
  minimize loss with adam(lr: 1e-3)
""", "model", "ffn -> model", dict(x=(8, 16), t=(8, 16)), ("up", "down")),
    Program("sum_over_data", "batch = 16, embed = 8, out = 4", """  input x : real[batch, embed]
  input t : real[batch, out]
  param w : real[embed, out] = fan_in[embed]
""", """  manual batch over data {
    error = dot[embed](x, w) - t
    total = all_reduce(sum[batch, out](error ^ 2), over: data)
  }
""", """  total = sum[batch, out]((dot[embed](x, w) - t) ^ 2)
""", """  loss = total / size[batch, out]
  minimize loss with sgd(lr: 0.1)
""", "data", "batch -> data", dict(x=(16, 8), t=(16, 4)), ("w",)),
    Program("halo", 'batch = 2, x = 32 edge "wrap", one = 1, last = 1', """  input u : real[batch, x]
  param k : real[x] = normal(std: 1)
""", """  manual x over row {
    dim wide = x + 2
    before = permute(u[x = x - 1.. as one], by: 1, over: row)
    after  = permute(u[x = 0..1 as one], by: -1, over: row)
    around = concat[one + x + last as wide](before, u, after[one as last])
    v      = (around[wide = 2.. as x] + around[wide = 0..x as x] - 2 * u) * k
    total  = all_reduce(sum[batch, x](v ^ 2), over: row)
  }
""", """  v     = (u[x + 1] + u[x - 1] - 2 * u) * k
  total = sum[batch, x](v ^ 2)
""", """  loss = total / size[x]
  minimize loss with sgd(lr: 0.1)
""", "row", "x -> row", dict(u=(2, 32)), ("k",)),
    Program("ring", "row = 8, inner = 16, column = 8, turn = 3, share = 4, piece = inner / share", """  input a : real[row, inner]
  param b : real[inner, column] = fan_in[inner]
""", """  parts = a[inner as share * piece]
  manual row, inner over ring(4) {
    own  = b[inner as piece]
    here = coordinate(ring)
    y    = dot[piece](parts[share = index(share)(here)], own)
    repeat turn {
      own = permute(own, by: 1, over: ring)
      y   = y + dot[piece](parts[share = index(share)((here + 3 - position[turn]) % 4)], own)
    }
    total = all_reduce(sum[row, column](y ^ 2), over: ring)
  }
""", """  total = sum[row, column](dot[inner](a, b) ^ 2)
""", """  loss = total / size[row, column]
  minimize loss with sgd(lr: 0.01)
""", "ring", "row -> ring; inner -> ring unless row", dict(a=(8, 16)), ("b",), 4),
    # Megatron's sequence parallelism: what lies between products is cut along the sequence.
    Program("sequence", "batch = 4, seq = 8, whole = seq, embed = 16, ffn = 32", """  input x, t : real[batch, seq, embed]
  param up   : real[embed, ffn] = fan_in[embed]
  param down : real[ffn, embed] = fan_in[ffn]
""", """  manual seq, ffn over model {
    all  = all_gather[seq as whole](x * x, over: model)
    part = dot[ffn](relu(dot[embed](all, up)), down)
    y    = reduce_scatter[whole as seq](part, over: model)
  }
""", """  y = dot[ffn](relu(dot[embed](x * x, up)), down)
""", """  loss = mean[batch, seq, embed]((x + y - t) ^ 2)
  minimize loss with adam(lr: 1e-3)
""", "model", "ffn -> model; seq -> model unless ffn", dict(x=(4, 8, 16), t=(4, 8, 16)), ("up", "down")),
    # Ulysses: the sequence is cut, but where positions meet the heads are.
    Program("heads", "batch = 4, seq = 8, key = seq, embed = 16, heads = 4, every = heads, head_dim = 4", """  input x, t : real[batch, seq, embed]
  param w : real[embed, every, head_dim] = fan_in[embed]
  param o : real[every, head_dim, embed] = fan_in[every, head_dim]
""", """  manual seq, heads over ctx {
    q    = all_to_all[every as heads, seq as key](dot[embed](x, w), over: ctx)
    past = cumsum[key](q)
    mine = all_to_all[key as seq, heads as every](past, over: ctx)
    y    = dot[every, head_dim](mine, o)
  }
""", """  y = dot[every, head_dim](cumsum[seq](dot[embed](x, w)), o)
""", """  loss = mean[batch, seq, embed]((y - t) ^ 2)
  minimize loss with adam(lr: 1e-3)
""", "ctx", "seq -> ctx", dict(x=(4, 8, 16), t=(4, 8, 16)), ("w", "o")),
    Program("vocabulary", "batch = 8, embed = 16, vocab = 32", """  input x : real[batch, embed]
  input word : index(vocab)[batch]
  param head : real[embed, vocab] = fan_in[embed]
""", """  manual vocab over model {
    logits  = dot[embed](x, head)
    largest = stop_gradient(all_reduce(max[vocab](logits), over: model, reduce: "max"))
    total   = all_reduce(sum[vocab](exp(logits - largest)), over: model)
    mine    = position[vocab] + coordinate(model) * size[vocab]
    picked  = all_reduce(sum[vocab](where(i32(word) == mine, logits, 0)), over: model)
  }
  each = log(total) + largest - picked
""", """  each = cross_entropy[vocab](dot[embed](x, head), word)
""", """  loss = mean[batch](each)
  minimize loss with adam(lr: 1e-3)
""", "model", "vocab -> model", dict(x=(8, 16), word=((8,), 32)), ("head",)),
]


def written(folder, program, form, ranks):
    path = f"{folder}/{program.name}_{form}_{ranks}.mesh"
    with open(path, "w") as file:
        file.write(program.spec(program.by_hand if form == "hand" else program.automatic, ranks))
    return path


def feeds(folder, program):
    random = np.random.default_rng(SEED)
    arguments = []
    for name, shape in program.inputs.items():
        values = random.normal(size=shape) if isinstance(shape[0], int) else random.integers(shape[1], size=shape[0]).astype(np.int32)
        np.save(f"{folder}/{name}.npy", values)
        arguments += ["--feed", f"{name}={folder}/{name}.npy"]
    return arguments


def values_of(folder, program, path, given):
    """The loss, gradients, and parameters after two steps."""
    names = ["loss", *(f"{of}({name})" for name in program.parameters for of in ("grad", "param"))]
    out = path.removesuffix(".mesh")
    execute(meshc(), "fetch", path, *names, *given, "--steps", 2, "--precision", "f64", "--out", out)
    return {name: np.load(f"{out}/{name}.npy") for name in names}


def far(one, other):
    return float(max(np.abs(one[name] - other[name]).max() / np.abs(other[name]).max() for name in other))


def collectives(path):
    return json.loads(execute(meshc(), "plan", path, "--json").stdout)["collectives"]


def check_plan(report, program, hand, automatic, ranks):
    """What the region sends in forward is what is written, each at its line, and the step sends no more than the automatic one where each rank does one part."""
    sent, other = collectives(hand), collectives(automatic)
    with open(hand) as file:
        lines = file.read().split("\n")
    first = next(number for number, line in enumerate(lines, 1) if line.startswith("  manual "))
    last = lines.index("  }", first) + 1
    found = [(c["kind"], c["line"]) for c in sent if c["phase"] == "forward" and c["kind"] != "slice" and first <= c["line"] <= last]
    calls = [(number, re.findall(r"(all_reduce|all_gather|reduce_scatter|all_to_all|permute)[\[(]", line)) for number, line in enumerate(lines, 1)]
    wanted = [("halo" if call == "permute" else call, number) for number, names in calls for call in names]
    report.true(f"{program.name}, {ranks} ranks: the collectives are those that are written, at their lines", sorted(found) == sorted(wanted), f"{found}, written {wanted}")
    here, there = (sum(c["bytes"] * c["count"] for c in one) for one in (sent, other))
    if program.parts in (0, ranks):
        report.check(f"{program.name}, {ranks} ranks: bytes of a step, beside the automatic program's", here, there)


def check_program(report, folder, program):
    given = feeds(folder, program)
    right = None
    for ranks in RANKS:
        hand, automatic = (written(folder, program, form, ranks) for form in ("hand", "automatic"))
        right = right or values_of(folder, program, automatic, given)
        report.check(f"{program.name}, {ranks} ranks: values, gradients and parameters beside the automatic program's", far(values_of(folder, program, hand, given), right), BOUND)
        done = execute(meshc(), "verify", hand, code=None)
        report.true(f"{program.name}, {ranks} ranks: verified against one", done.returncode == 0, done.stdout.strip().split("\n")[-1])
        if ranks > 1:
            check_plan(report, program, hand, automatic, ranks)


def run(small):
    report = Report()
    print(f"seed {SEED}")
    with scratch() as folder:
        for program in PROGRAMS:
            report.attempt(program.name, lambda: check_program(report, folder, program))
        if not small:
            for ranks in RANKS:
                for name, verdict in compare(folder, [written(folder, program, "hand", ranks) for program in PROGRAMS]).items():
                    report.true(f"{name}, emitted: the interpreter's bits", verdict.startswith("equal: "), verdict)
    return report
