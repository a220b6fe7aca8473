"""Every README and page: its examples are checked, what they print compared, its NumPy lines run against the compiler, its tables of ops and keys
compared with what the commands print, its links and the files that it names looked for.

The blocks of a text: ```mesh NAME is a whole spec, which must pass `meshc check` without a word. ```python after it are NumPy lines:
every name that they assign and the spec knows must agree (d_w is the gradient of w). ```console are commands with what they print
(UPDATE_GOLDENS=1 writes it anew), run in a folder with the specs before it. Any other block that a file is made of carries its name.
```mesh-part is a file that no model stands in. A spec whose own `meshc check` is shown after it may be wrong. A line of ```not-built must get the error that says so.
```sh are commands that must succeed, run in the same folder, where `specs` is the tree's; ```sh torch needs PyTorch ($TORCH_PYTHON or Debian's), and ```sh slurm
is run by `tests/full slurm`.
"""
import glob
import os
import re
import subprocess

import numpy as np

from common import TOP, Report, meshc, scratch
from common import run as execute
from texts import arrays, catalogue, markdown, printed, run_keys

PAGES = sorted(glob.glob(f"{TOP}/specs/howto/*.md"))
TEXTS = ["grammar/README.md", "README.md", "runtime/README.md", "runtime/USING.md", "runtime/ADMINISTRATION.md", "runtime/DEVELOPING.md", "specs/README.md",
         "tests/README.md", *(path.removeprefix(TOP + "/") for path in PAGES)]
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
FILE = re.compile(r"`((?:[\w.-]+/)*[\w.-]+\.(?:h|cpp|py|mesh|yaml|g4|md))`")
TWICE = re.compile(r"\b(tells? it|(?:is|are|was) told|told (?:of|by)|tells? of|heeds?|it so|what becomes of|behind one's back)\b")  # phrases that need a second reading
PYTHON = "/usr/bin/python3"  # Debian's, which has NumPy
NOT_BUILT = """dim row = 4, one = 1, column = 4, unit = 1
model One {{
  input x : real[row, one, column, unit]
  {statement}
}}
mesh line {{ data: 2 }}
layout default on line {{ {rule} }}
"""
LAYOUT = re.compile(r"auto|\w+ ->")
GENERATED = re.compile(r"(<!-- (meshc [a-z -]+) -->\n)(.*?)(<!-- end -->)", re.S)


def check_spec(report, title, path):
    done = subprocess.run([meshc(), "check", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "NO_COLOR": "1"})
    report.true(f"{title}: meshc check", done.returncode == 0 and done.stdout == "", done.stdout)
    planned = subprocess.run([meshc(), "plan", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    report.true(f"{title}: meshc plan", planned.returncode in (0, 1), planned.stdout[-300:])  # 1: a construct that is not built yet


def formatted(report, title, block):
    """The block's lines as meshc fmt writes them."""
    done = subprocess.run([meshc(), "fmt", "-"], input=block.text, stdout=subprocess.PIPE, text=True)
    lines = done.stdout.rstrip("\n").split("\n")
    report.true(f"{title}: formatted", lines == block.lines or printed.UPDATE, "\n" + done.stdout if lines != block.lines else "")
    return lines


def check_arrays(report, title, path, lines, folder):
    compared = arrays.compare(path, lines, np.random.default_rng(11), folder)
    for name, worst, bound in compared:
        report.check(f"{title}: {name} as NumPy has it", f"{worst:.1e}", bound, worst <= bound)
    report.true(f"{title}: NumPy lines compare something", compared)


def check_commands(report, title, block, folder):
    """Runs each `$ command` of a block; the block as it should be."""
    lines, fresh = block.lines, []
    starts = [i for i, line in enumerate(lines) if line.startswith("$ ")] + [len(lines)]
    for start, end in zip(starts, starts[1:]):
        shown = lines[start + 1:end]
        wanted = printed.refreshed(shown, printed.printed(lines[start][2:], folder))
        good = [line.rstrip() for line in shown] == wanted
        report.true(f"{title}: {lines[start]}", good or printed.UPDATE, "" if good else "prints\n" + "\n".join(wanted))
        fresh += [lines[start], *wanted]
    return fresh


def torch_python():
    """A Python that has PyTorch, or None."""
    for python in filter(None, (os.environ.get("TORCH_PYTHON"), PYTHON)):
        if subprocess.run([python, "-c", "import torch, numpy"], stderr=subprocess.DEVNULL).returncode == 0:
            return python
    return None


def run_commands(report, title, block, folder):
    """Runs a block of commands as a user at the top of the tree would; all must succeed, and none may warn of what was written."""
    python = PYTHON if block.name == "" else torch_python()
    if python is None:
        report.skip(title, "PyTorch is not installed (Debian: python3-torch)")
        return
    build = os.path.dirname(os.path.dirname(os.path.dirname(meshc())))
    tools = f"{folder}/.tools"
    if not os.path.exists(tools):
        os.mkdir(tools)
        for name, path in {"meshc": meshc(), "meshrun": f"{build}/runtime/meshrun"}.items():
            os.symlink(path, f"{tools}/{name}")
    with open(f"{tools}/python3", "w") as file:
        file.write(f'#!/bin/sh\nexec {python} "$@"\n')
    os.chmod(f"{tools}/python3", 0o755)
    done = subprocess.run(["bash", "-exuo", "pipefail", "-c", block.text], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace", timeout=600,
                          env={**os.environ, "NO_COLOR": "1", "PATH": f"{tools}:{os.environ['PATH']}", "XDG_CACHE_HOME": f"{folder}/.cache"})
    report.true(f"{title}: {len(block.lines)} lines of commands", done.returncode == 0, "" if done.returncode == 0 else done.stdout[-3000:])


def check_names(report, name, text):
    """The files that a text links and names are there."""
    folder = os.path.dirname(f"{TOP}/{name}")
    known = {part for path in tracked() for part in endings(path)}
    own = {block.name for block in markdown.blocks(text)}
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M)
    links = [link for link in LINK.findall(re.sub(r"`[^`]*`", "", prose)) if "://" not in link and not os.path.exists(f"{folder}/{link}")]
    files = [file for file in FILE.findall(prose) if file not in known | own and not re.search(r"[A-Z]{3}|^(run|x|out|gpt)\b", file)]
    report.true(f"{name}: sentences that a first reading understands", not TWICE.findall(prose), TWICE.findall(prose))
    report.true(f"{name}: its links lead somewhere", not links, links)
    report.true(f"{name}: the files that it names are there", not files, files)


def tracked():
    """Paths of the tree's files."""
    found = []
    for folder, below, files in os.walk(TOP):
        below[:] = [one for one in below if not one.startswith((".", "build", "out", "runs"))]
        found += [os.path.relpath(f"{folder}/{file}", TOP) for file in files]
    return found


def endings(path):
    """"a/b/c" -> "a/b/c", "b/c", "c" """
    parts = path.split("/")
    return ["/".join(parts[i:]) for i in range(len(parts))]


def check_text(report, name):
    """Every block of a text in order; UPDATE_GOLDENS writes it as it should be."""
    path = f"{TOP}/{name}"
    with open(path) as file:
        text = file.read()
    check_tables(report, name, text)
    check_names(report, name, text)
    headings, spec, fresh = markdown.headings(text), None, []
    blocks = markdown.blocks(text)
    with scratch() as folder:
        os.symlink(f"{TOP}/specs", f"{folder}/specs")
        for block, following in zip(blocks, [*blocks[1:], None]):
            title = f"{name}:{block.first} ({headings[block.first]})"
            written = "" if block.kind == "sh" else block.name or (f"line_{block.first}.mesh" if block.kind == "mesh" else "")
            if written:
                with open(f"{folder}/{written}", "w") as file:
                    file.write(block.text)
            if block.kind in ("mesh", "mesh-part"):
                fresh.append((block, formatted(report, title, block)))
            if block.kind == "mesh":
                spec = f"{folder}/{written}"
                if following is None or f"$ meshc check {written}" not in following.lines:
                    report.attempt(title, lambda: check_spec(report, title, spec))
            elif block.kind == "python":
                report.attempt(title, lambda: check_arrays(report, title, spec, block.text, folder))
            elif block.kind == "sh" and block.name != "slurm":
                report.attempt(title, lambda: run_commands(report, title, block, folder))
            elif block.kind == "console":
                report.attempt(title, lambda: fresh.append((block, check_commands(report, title, block, folder))))
    if printed.UPDATE:
        lines = text.split("\n")
        for block, right in reversed(fresh):
            lines[block.first:block.first + len(block.lines)] = right
        with open(path, "w") as file:
            file.write(with_tables("\n".join(lines)))


TABLES = {"meshc ops --markdown": lambda: execute(meshc(), "ops", "--markdown").stdout, "meshc data schema": run_keys.markdown}


def with_tables(text):
    """A text with its tables as the commands named above them have them."""
    return GENERATED.sub(lambda found: found[1] + TABLES[found[2]]() + found[4], text)


def check_tables(report, name, text):
    for found in GENERATED.finditer(text):
        report.true(f"{name}: the table is what `{found[2]}` says", found[3] == TABLES[found[2]]() or printed.UPDATE)


def check_not_built(report):
    """What the reference says is not built yet gets the error that says so: each line of its block alone in a small model."""
    with open(f"{TOP}/grammar/README.md") as file:
        listed = [block for block in markdown.blocks(file.read()) if block.kind == "not-built"]
    with scratch() as folder:
        for line in [line for block in listed for line in block.lines if line.strip()]:
            construct = line.split("//")[0].strip()
            path = f"{folder}/one.mesh"
            with open(path, "w") as file:
                file.write(NOT_BUILT.format(statement="" if LAYOUT.match(construct) else construct, rule=construct if LAYOUT.match(construct) else "replicate over data"))
            done = subprocess.run([meshc(), "check", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "NO_COLOR": "1"})
            good = "error[E0901]" in done.stdout
            report.true(f"not built yet: {construct}", good, "" if good else done.stdout)


def check_settings(report):
    """Every option of meshrun and every variable that a program or command reads stands on a page of the runtime, and no other variable does."""
    pages = "".join(open(f"{TOP}/{name}", encoding="utf-8").read() for name in TEXTS if name.startswith("runtime/"))
    build = os.path.dirname(os.path.dirname(os.path.dirname(meshc())))
    options = set(re.findall(r"--[a-z][a-z-]+", execute(f"{build}/runtime/meshrun", "--help").stdout)) - {"--help", "--np", "--ranks", "--host"}
    missing = sorted(option for option in options if not re.search(rf"{option}(?![a-z-])", pages))
    report.true(f"{len(options)} options of meshrun are on a page", options and not missing, missing)
    read = {name for path in tracked() if path.startswith(("runtime/src/", "codegen/")) and path.endswith(".cpp")
            for name in re.findall(r'"((?:MESHRT|MESHRUN)_[A-Z_]+)[="]', open(f"{TOP}/{path}", encoding="utf-8").read())}
    told = set(re.findall(r"\b(?:MESHRT|MESHRUN)_[A-Z]+(?:_[A-Z]+)*\b", pages))
    report.true(f"{len(read)} variables are on a page", read and read == told, sorted(read ^ told))


def run(small):
    report = Report()
    dims, ops = catalogue.read()
    with scratch() as folder:
        for op in ops:
            report.attempt(op["call"], lambda op=op: catalogue.check(op, dims, folder, report))
    for name in TEXTS:
        report.attempt(name, lambda name=name: check_text(report, name))
    check_not_built(report)
    check_settings(report)
    return report
