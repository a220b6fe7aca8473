"""specs/tour: every lesson is checked, formatted, of a readable length, equal to one rank under its layouts, and says what `plan` prints.

A lesson shows a command as a comment `// $ meshc plan NAME.mesh`, and what it prints in the comments below, behind `//   `.
UPDATE_GOLDENS=1 tests/full tour writes them anew. At full size the last one is also trained.
"""
import glob
import os
import re
import shutil
import subprocess

from common import TOP, Report, meshc, scratch
from common import run as execute
from texts import printed

LESSONS = 12
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


def train(report):
    with scratch() as folder:
        for one in glob.glob(f"{TOP}/specs/tour/12_*"):
            shutil.copy(one, folder)
        execute(meshc(), "run", glob.glob(f"{folder}/12_*.mesh")[0], "log.jsonl=log.jsonl", cwd=folder)
        losses = [float(loss) for loss in re.findall(r'"loss": ?([\d.e+-]+)', open(f"{folder}/log.jsonl").read())]
        report.check("12: loss after its steps, in nats", losses[-1], 1.5)


def run(small):
    report = Report()
    lessons = sorted(glob.glob(f"{TOP}/specs/tour/*.mesh"))
    report.check("lessons", len(lessons), LESSONS, len(lessons) == LESSONS)
    for path in lessons:
        report.attempt(os.path.basename(path), lambda: lesson(report, path))
    if not small:
        report.attempt("12", lambda: train(report))
    return report
