"""Ops of values in bf16 and f16 against NumPy that computes from rounded parameters, on one rank and under random layouts; the cases of every op with such parameters, under layouts;
emitted as C++, bit by bit; bytes of what ranks send; numbers that ops put beside parameters kept so."""
import json
import os
import random
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import emitted
import equality
from common import Report, meshc, scratch
from common import run as execute
from generate.layouts import is_refused, layout
from ops import Measured, error
from oracle import along, blocks, contractions, elementwise, experts, indexing, joins, loops, neighbours, partial, reductions, rounded, slices
from oracle.narrow import BF16, NARROW_TYPES

SEED = 20261128
PLACES = 0.51  # of the type: rounded to the nearest once, and what f32 adds up before
GRADIENT = 5e-6  # gradients are f32
EVERY_OP = (elementwise, contractions, reductions, partial, indexing, slices, joins, neighbours, along, experts, loops, blocks)
# Of values that are given another type: f32 meets them in a loop's carry, in a written type, at f64.
OF_TYPES = {"E0302", "E0307", "E0309"}
BYTES = """
dim batch = 4, a = 64, b = 66, x = 64 edge "wrap", n = a + b
model Bytes {
  param p : TYPE[batch, a] = zeros
  param q : TYPE[batch, b] = zeros
  input t : real[batch]
  y = WHAT
  loss = sum[OVER](y ^ 2 * t)
  minimize loss with sgd(lr: 0.1)
}
mesh line { m: 2 }
layout default on line { a, x, n -> m }
"""
BY_HAND = """
dim batch = 8, embed = 4, ffn = 12, other = 2
model ByHand {
  input x : real[batch, embed]
  param up : real[embed, ffn] = fan_in[embed]
  param down : real[ffn, embed] = fan_in[ffn]
  manual ffn over m {
    h    = TYPE(tanh(dot[embed](x, up)))
    part = TYPE(dot[ffn](h, down))
    sums = WHAT
  }
  loss = sum[batch, embed](sums * x)
  minimize loss with sgd(lr: 0.1)
}
mesh line { m: 4 }
layout default on line { ffn -> m }
"""
FILLED = """
dim batch = 2, a = 4, c = 7, x = 6 edge 0.1
model Filled {
  input t : real[batch, c]
  input s : real[batch, x]
  param p : real[a] = normal(std: 1)
  param q : real[x] = normal(std: 1)
  padded = pad[a as c](p, before: 1, value: 0.1)
  beside = q[x + 1]
  loss = sum[batch, c](padded ^ 2 * t) + sum[batch, x](beside ^ 2 * s)
  minimize loss with sgd(lr: 0.1)
}
mesh line { m: 2 }
layout one on line { }
layout cut on line { a, x, c -> m }
precision kept_bf16 { params: bf16 }
precision kept_f16 { params: f16, loss_scale: none }
"""
COLLECTIVES = {"all_reduce": "all_reduce(part, over: m)", "reduce_scatter": "all_gather[other as batch](reduce_scatter[batch as other](part, over: m), over: m)",
               "permute": "all_reduce(permute(part, by: 1, over: m), over: m)"}
MOVED = {"a halo": ("p[a as x][x + 1]", "batch, x"), "a join": ("concat[a + b as n](p, q)", "batch, n"), "an element": ("p[a = 3]", "batch"),
         "a sort": ("sort[a](p)", "batch, a")}


def random_layout(case, attempt):
    return layout(random.Random(f"{SEED} {case.name} {attempt}"), case.splittable())


class MeasuredRounded(Measured):
    """As in ops.py, but errors of y count in last places of the type, those of ops that only move numbers in numbers that differ."""

    def worst(self, got, note=""):
        case, values = self.case, {name: np.asarray(value, np.float64) for name, value in self.values.items() if name in got and name != "loss"}
        gradient = max((error(got[name], value), name + note) for name, value in self.gradients.items())
        if case.terms is None:
            return max((float(np.count_nonzero(got[name] != value)), name + note) for name, value in values.items()), gradient
        if got["y"].shape != values["y"].shape or not np.isfinite(got["y"]).all():
            return (float("inf"), "y" + note), gradient
        return (float(np.max(abs(got["y"] - values["y"]) / case.narrow.last_place(case.size))), "y" + note), gradient

    def measured(self, layouts):
        """The worst value and gradient on one rank and under that many layouts, and how many were legal."""
        case = self.case
        names = [name for name in self.values if name != "loss"]
        value, gradient = self.worst(self.fetched("one", [*names, "grad(**)"], "f32"))
        done = attempt = 0
        while done < layouts and attempt < 6 * layouts:
            rules, axes = random_layout(case, attempt)
            attempt += 1
            try:
                got = self.fetched(f"layout{attempt}", [*names, "grad(**)"], "f32", rules)
            except RuntimeError as problem:
                if is_refused(str(problem)):
                    continue
                raise RuntimeError(f"{problem}\n{rules}") from problem
            found = self.worst(got, f" on {axes}, layout {attempt - 1}")
            value, gradient = max(value, found[0]), max(gradient, found[1])
            done += 1
        return value, gradient, done


def against_numpy(report, folder, pool, small):
    layouts = 1 if small else 6
    cases = [case.of(narrow) for case in rounded.cases() for narrow in NARROW_TYPES]
    if small:
        cases = cases[::3]
    futures = [pool.submit(lambda case=case, i=i: MeasuredRounded(case, f"{folder}/{i}").measured(layouts)) for i, case in enumerate(cases)]
    for case, future in zip(cases, futures):
        def action(case=case, future=future):
            (value, at), (gradient, of), done = future.result()
            bound, unit = (0, "numbers differ") if case.terms is None else (PLACES, "last places")
            good = value <= bound and gradient <= GRADIENT and done > 0
            report.check(case.name, f"{value:.3g} {unit} ({at}), gradient {gradient:.1e} ({of}), {done} layouts", f"{bound}, {GRADIENT}", good)

        report.attempt(case.name, action)


def narrowed(case, narrow):
    """The case's spec with parameters of the type."""
    return re.sub(r"(?m)^(  param \w+ :) real", rf"\1 {narrow.name}", case.spec())


def verified(case, narrow, path, layouts):
    """How many layouts equal one rank, and what was said of one that does not; None where the types do not meet."""
    done = attempt = 0
    while done < layouts and attempt < 6 * layouts:
        rules, _ = random_layout(case, attempt)
        attempt += 1
        with open(path, "w") as file:
            file.write(narrowed(case, narrow) + rules)
        found = execute(meshc(), "verify", path, "--precision", "f32", code=None)
        codes = set(re.findall(r"error\[(\w+)\]", found.stderr))
        if codes and codes <= OF_TYPES:
            return None
        if found.returncode == 1 and is_refused(found.stderr):
            continue
        if found.returncode != 0:
            return done, found.stdout[-1500:] + found.stderr[-1500:] + rules
        done += 1
    return done, ""


def under_layouts(report, folder, pool, small):
    """Two orders of a sum may round to neighbours of the type: `meshc verify` says how far apart values may be."""
    cases = [case for part in EVERY_OP for case in part.cases() if not case.positive]  # `meshc verify` draws negative numbers too
    if small:
        cases = cases[::12]
    jobs = [(case, narrow) for case in cases for narrow in NARROW_TYPES if narrow is BF16 or "large numbers" not in case.name]  # f16 has none
    found = list(pool.map(lambda job: verified(*job[1], f"{folder}/every{job[0]}.mesh", 1 if small else 3), enumerate(jobs)))
    wrong = [f"{case.name}, {narrow.name}: {what[1]}" for (case, narrow), what in zip(jobs, found) if what and what[1]]
    for text in wrong:
        report.true("cases of every op with such parameters, under layouts", False, text)
    equal, laid_out = sum(what[0] for what in found if what), sum(1 for what in found if what and what[0])
    report.check("cases of every op with such parameters, under layouts: equal to one rank", f"{equal} layouts of {laid_out} of {len(jobs)} cases",
                 "of more than half of them", 2 * laid_out > len(jobs) and not wrong)


def as_programs(report, folder, pool, small):
    cases = [case.of(narrow) for case in rounded.cases() for narrow in NARROW_TYPES]
    paths = []
    for i, case in enumerate(cases[::24] if small else cases):
        for attempt in range(6):
            with open(f"{folder}/narrow{i}.mesh", "w") as file:
                file.write(case.spec() + random_layout(case, attempt)[0])
            if execute(meshc(), "check", f"{folder}/narrow{i}.mesh", code=None).returncode == 0:
                paths.append(f"{folder}/narrow{i}.mesh")
                break
    os.makedirs(f"{folder}/emitted")
    found = emitted.compare_all(pool, f"{folder}/emitted", paths)
    different = [f"{name}: {verdict}" for name, verdict in found.items() if not verdict.startswith("equal: ")]
    report.true("emitted as C++: the interpreter's bits", paths and not different, different or f"{len(found)} programs")


def sent(folder, spec):
    """Bytes that the step sends forward, of values of 16 bits and of f32."""
    bytes_of = []
    for kept in ("bf16", "f32"):
        with open(f"{folder}/bytes.mesh", "w") as file:
            file.write(spec.replace("TYPE", kept))
        plan = json.loads(execute(meshc(), "plan", f"{folder}/bytes.mesh", "--json").stdout)
        moves = [one for one in plan["collectives"] if one["phase"] == "forward" and one["tensor"] != "loss"]
        bytes_of.append(sum(one["bytes"] * one["count"] for one in moves))
    return bytes_of


def check_bytes(report, folder):
    specs = {name: BYTES.replace("WHAT", what).replace("OVER", over) for name, (what, over) in MOVED.items()}
    for name, spec in (specs | {f"{name} by hand": BY_HAND.replace("WHAT", what) for name, what in COLLECTIVES.items()}).items():
        narrow, wide = sent(folder, spec)
        report.true(f"bytes of {name} in bf16: half of those in f32", 0 < narrow == wide / 2, f"{narrow} and {wide}")


def by_hand(report, folder):
    """What ranks add up by hand is a number of the type on each: it is sent so, added up in f32 and rounded once."""
    for name, what in COLLECTIVES.items():
        for narrow in NARROW_TYPES:
            with open(f"{folder}/hand.mesh", "w") as file:
                file.write(BY_HAND.replace("WHAT", what).replace("TYPE", narrow.name))
            done = execute(meshc(), "verify", f"{folder}/hand.mesh", "--precision", "f32", code=None)
            report.true(f"{name} by hand of {narrow.name} equals one rank", done.returncode == 0, "" if done.returncode == 0 else done.stdout + done.stderr)


def filled(report, folder):
    """What such an op puts beside a parameter is a number of the spec, in f32: not one of the type in which parameters are kept."""
    with open(f"{folder}/filled.mesh", "w") as file:
        file.write(FILLED)
    feeds = equality.feeds(folder, {"t": np.ones((2, 7), np.float32), "s": np.ones((2, 6), np.float32)})
    for narrow in NARROW_TYPES:
        for rules in ("one", "cut"):
            execute(meshc(), "fetch", f"{folder}/filled.mesh", "padded", "beside", "param(**)", *feeds, "--layout", rules, "--precision", f"kept_{narrow.name}", "--out", f"{folder}/filled")
            padded, beside, p, q = (np.load(f"{folder}/filled/{name}.npy").astype(np.float32) for name in ("padded", "beside", "param(p)", "param(q)"))
            for name, got, expected in (("pad", padded, np.pad(p, (1, 2), constant_values=np.float32(0.1))), ("a neighbour", beside, np.append(q[1:], np.float32(0.1)))):
                report.true(f"{name} with a number that {narrow.name} lacks, of a parameter kept in it, {rules}", np.array_equal(got, expected), got.tolist())
            report.true(f"parameters are kept in {narrow.name}, {rules}", all(np.array_equal(narrow.round(x), x) for x in (p, q)), p.tolist())


def run(small):
    report = Report()
    print(f"seed {SEED}, {len(rounded.cases())} cases of each type; values in last places of it from NumPy in f64, gradients against differences")
    with scratch() as folder, ThreadPoolExecutor(2) as pool:
        against_numpy(report, folder, pool, small)
        under_layouts(report, folder, pool, small)
        as_programs(report, folder, pool, small)
        report.attempt("by hand", lambda: by_hand(report, folder))
        report.attempt("filled", lambda: filled(report, folder))
        report.attempt("bytes", lambda: check_bytes(report, folder))
    return report
