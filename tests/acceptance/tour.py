"""specs/tour: every lesson is checked, formatted, of a readable length, equal to one rank under its layouts, and says what `plan` prints.

A lesson shows a command as a comment `// $ meshc plan NAME.mesh`, and what it prints in the comments below, behind `//   `.
UPDATE_GOLDENS=1 tests/full tour writes them anew. What the solver finds is put into its equation; at full size the lessons with a run file are
also trained, and the last one writes.
"""
import glob
import json
import os
import re
import shutil
import subprocess

import numpy as np

from common import TOP, Report, json_lines, meshc, scratch
from common import run as execute
from texts import printed

LESSONS = 20
LINES = range(20, 41)


def shown(text):
    """[(first line, last line, command, what it prints)], lines counted from 0; `last` is the one after."""
    lines, found = text.split("\n"), []
    for start, line in enumerate(lines):
        if not line.startswith("// $ "):
            continue
        end = start + 1
        while end < len(lines) and (lines[end].startswith("//   ") or lines[end] == "//" and lines[end + 1].startswith("//   ")):
            end += 1
        found.append((start + 1, end, line[5:], [part[5:] for part in lines[start + 1:end]]))
    return found


def refresh(report, name, text, folder):
    """Compares what is shown with what is printed; the text as it should be."""
    lines = text.split("\n")
    for first, last, command, prints in reversed(shown(text)):
        wanted = printed.refreshed(prints, printed.printed(command, folder))
        report.true(f"{name}: {command}", prints == wanted or printed.UPDATE, "" if prints == wanted else "prints\n" + "\n".join(wanted))
        lines[first:last] = [f"//   {line}".rstrip() for line in wanted]
    return "\n".join(lines)


def lesson(report, path):
    name = os.path.basename(path)
    with open(path) as file:
        text = file.read()
    with scratch() as folder:
        for one in glob.glob(f"{TOP}/specs/tour/*"):
            shutil.copy(one, folder)
        fresh = refresh(report, name, text, folder)
    if printed.UPDATE:
        with open(path, "w") as file:
            file.write(fresh)
    done = subprocess.run([meshc(), "check", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "NO_COLOR": "1"})
    report.true(f"{name}: checked", done.returncode == 0 and done.stdout == "", done.stdout)
    report.true(f"{name}: formatted", execute(meshc(), "fmt", "--check", path, code=None).returncode == 0)
    report.true(f"{name}: a title, an exercise, something that `plan` says", re.match(r"// \d+\. ", fresh) and "// Exercise: " in fresh and shown(fresh))
    report.check(f"{name}: lines", len(fresh.splitlines()), f"{LINES[0]} to {LINES[-1]}", len(fresh.splitlines()) in LINES)
    for layout in re.findall(r"^layout (\w+)", text, re.M):
        done = execute(meshc(), "verify", path, "--layout", layout, "--json", code=None)
        report.true(f"{name}: layout {layout} equals one rank", done.returncode == 0, done.stderr)


def tells_ranks(report, run_file):
    """Who runs a lesson knows before how many ranks that starts: its page or its run file says it."""
    spec = run_file.replace(".yaml", ".mesh")
    ranks = json.loads(execute(meshc(), "plan", spec, "--json").stdout)["mesh"]["ranks"]
    text = open(run_file).read() + open(spec).read()
    number = {2: "two", 4: "four"}.get(ranks, ranks)
    report.true(f"{os.path.basename(run_file)}: says that it starts {ranks} ranks", re.search(rf"\bon (the )?{number} (local )?ranks\b", text))


def remember(report):
    """The exercise of 10: a layout with both needs less memory than with either."""
    with scratch() as folder:
        with open(f"{folder}/both.mesh", "w") as file:
            file.write('layout both on line { batch -> data { accumulate: 4 }; layer -> none { remat: "layer" } }\n')
        peak = {layout: json.loads(execute(meshc(), "plan", f"{TOP}/specs/tour/10_memory.mesh", f"{folder}/both.mesh", "--layout", layout, "--json").stdout)["memory"]["peak"]
                for layout in ("plain", "parts", "again", "both")}
    report.true("10: the exercise, bytes of a rank", peak["both"] < min(peak["parts"], peak["again"]) < max(peak["parts"], peak["again"]) < peak["plain"], peak)


def pipe(report):
    """What 16 says of memory and waiting, and its exercise: the fastest schedule of the comparison is a faster layout."""
    lesson = f"{TOP}/specs/tour/16_pipeline.mesh"
    plans = {layout: json.loads(execute(meshc(), "plan", lesson, "--layout", layout, "--json").stdout) for layout in ("fill", "turns", "again")}
    peak = {layout: plan["memory"]["peak"] for layout, plan in plans.items()}
    report.true("16: bytes of a rank", peak["again"] < peak["turns"] < peak["fill"], peak)
    with open(lesson) as file:
        report.true("16: what it says of them", "{fill:.1f} MiB under `fill`, {turns:.1f} MiB under `turns`".format(**{layout: bytes / 2**20 for layout, bytes in peak.items()}) in file.read())
    pipeline = plans["fill"]["pipeline"]
    report.check("16: stages wait 3 of 11 parts of their time, relative", round(abs(pipeline["idle_share"] / (3 / 11) - 1), 3), 0.05)
    compared = json.loads(execute(meshc(), "schedule", lesson, "--layout", "turns", "--compare", "--json").stdout)["schedules"]
    under, differ = {}, []
    with scratch() as folder:
        for one in compared:
            with open(f"{folder}/one.mesh", "w") as file:
                file.write(f'layout one on line {{ layer -> pipe {{ microbatches: 8, schedule: "{one["schedule"]}" }} }}\n')
            plan = under[one["schedule"]] = json.loads(execute(meshc(), "plan", lesson, f"{folder}/one.mesh", "--layout", "one", "--json").stdout)
            said = [plan["memory"]["peak"], plan["pipeline"]["seconds"], plan["pipeline"]["idle_share"]]
            if said != [one["bytes"], one["seconds"], one["idle_share"]]:
                differ.append((one, said))
    report.true("16: what --compare says of each schedule is what plan says of a layout with it", len(compared) == 9 and not differ, differ)
    fastest = min(compared, key=lambda one: one["seconds"])["schedule"]
    done = under[fastest]
    report.true(f"16: the exercise, {fastest}", done["predicted_seconds"] < min(plan["predicted_seconds"] for plan in plans.values()), done["predicted_seconds"])


def solve(report):
    """The field that 13 finds, under its layout and on one rank, fulfils the equation."""
    source = np.zeros((64, 64))
    source[20, 20], source[40, 50] = 1, -1
    for options in ([], ["--mesh", "rows=1,columns=1"]):
        with scratch() as folder:
            execute(meshc(), "fetch", f"{TOP}/specs/tour/13_solver.mesh", "u", "turns", *options, "--out", folder)
            u, turns = np.load(f"{folder}/u.npy"), np.load(f"{folder}/turns.npy")
        ringed = np.pad(u, 1)
        left = 4 * u - ringed[2:, 1:-1] - ringed[:-2, 1:-1] - ringed[1:-1, 2:] - ringed[1:-1, :-2] - source
        report.check(f"13: what the equation leaves, {' '.join(options) or 'four tiles'}", abs(left).max(), 1e-10)
        report.check("13: turns that `until` lets it make", int(turns), "1 to 399", 0 < turns < 400)


def train(report, lesson, log):
    """Runs a lesson with its run file, in a folder with what its first line of comments writes; its last line of metrics."""
    with scratch() as folder:
        for one in glob.glob(f"{TOP}/specs/tour/{lesson}_*"):
            shutil.copy(one, folder)
        with open(glob.glob(f"{folder}/*.yaml")[0]) as file:
            for command in re.findall(r"^#   (python3 .*)", file.read(), re.M):
                subprocess.run(command.replace("python3", "/usr/bin/python3", 1), shell=True, check=True, cwd=folder)
        execute(meshc(), "run", glob.glob(f"{folder}/*.mesh")[0], "log.jsonl=log.jsonl", cwd=folder)
        return [line[log] for line in json_lines(f"{folder}/log.jsonl") if log in line][-1]


def writes(report):
    """The last lesson knows its own text: it writes on as the text does, and finds it likelier than another."""
    with scratch() as folder:
        for one in glob.glob(f"{TOP}/specs/tour/15_*"):
            shutil.copy(one, folder)
        execute(meshc(), "run", "15_writing.mesh", cwd=folder)
        given = ("15_writing.mesh", "--json")
        scored = json.loads(execute(meshc(), "score", *given, "--text", "model Writer", "--text", "letter model", cwd=folder).stdout)["scored"]
        report.true("15: its text is likelier than another", scored[0]["logprob"] > scored[1]["logprob"], [one["logprob"] for one in scored])
        words = ("--prompt", "model ", "--tokens", "20")
        one, best = (json.loads(execute(meshc(), "generate", *given, *words, *how, cwd=folder).stdout)["generated"][0] for how in (["--greedy"], ["--beams", "4"]))
        report.true("15: beams find what is as likely at least", best["logprob"] >= one["logprob"] - 1e-4, [one["text"], best["text"]])


def run(small):
    report = Report()
    lessons = sorted(glob.glob(f"{TOP}/specs/tour/*.mesh"))
    report.check("lessons", len(lessons), LESSONS, len(lessons) == LESSONS)
    for path in lessons:
        report.attempt(os.path.basename(path), lambda: lesson(report, path))
    for path in sorted(glob.glob(f"{TOP}/specs/tour/*.yaml")):
        report.attempt(os.path.basename(path), lambda: tells_ranks(report, path))
    report.attempt("10", lambda: remember(report))
    report.attempt("13", lambda: solve(report))
    report.attempt("16", lambda: pipe(report))
    if not small:
        report.attempt("12", lambda: report.check("12: loss after its steps, in nats", train(report, "12", "loss"), 1.5))
        report.attempt("15", lambda: writes(report))
        report.attempt("14", lambda: report.check("14: the worst cell's error in its conductivity", train(report, "14", "worst"), 0.015))
    return report
