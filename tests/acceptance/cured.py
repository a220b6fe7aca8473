"""The specs of cures/: what messages and explanations propose stands in them. Each compiles and runs, and is refused with what stood there before.

In a spec, `//! CODE: LINE` behind a line says what the line was before its cure (nothing: it was not there); alone on a line, what was there and is left
out. `//! CODE $ COMMAND` is a command that is refused (`//! CODE: LINE $ COMMAND`: with this line), `// $ COMMAND` one that is not; there SPEC is the spec.
Specs and commands read the files of beside/, and x.npy, 4 rows of 6 numbers.
"""
import glob
import json
import os
import re
import shlex
import shutil
import subprocess

import numpy as np

from common import meshc

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cures")


def beside():
    """{name: text} of the files that specs and commands read."""
    texts = {}
    for path in glob.glob(f"{HERE}/beside/*"):
        with open(path, encoding="utf-8") as file:
            texts[os.path.basename(path)] = file.read()
    return texts


class Mark:
    """A code that a spec cures: the text of the spec before its cure, or the command that was wrong."""

    def __init__(self, code, text, command):
        self.code, self.text, self.command = code, text, command


class Cured:
    def __init__(self, path):
        self.name = os.path.basename(path)
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
        plain = [line.split("//!")[0].rstrip() for line in lines]
        self.text = "\n".join(plain)
        self.commands = [line[5:] for line in plain if line.startswith("// $ ")]
        self.marks = [mark for at, line in enumerate(lines) for mark in self.marks_of(at, line, plain)]

    def marks_of(self, at, line, plain):
        """What a line says of what it was before its cures."""
        for mark in f" {line}".split(" //! ")[1:]:
            code, _, was, command = re.fullmatch(r"(\w+)(:(.*?))?(?: \$ (.*))?", mark.rstrip()).groups()
            indent = line[:len(line) - len(line.lstrip())]
            before = self.text if was is None else "\n".join([*plain[:at], indent + was.strip(), *plain[at + 1:]])
            yield Mark(code, before, command or f"meshc check {self.name}")

    def names(self, kind):
        return re.findall(rf"^{kind} (\w+)", self.text, flags=re.M)

    def shown(self):
        """What the spec, its commands and the files that these read show: other comments do not count."""
        lines = [line for line in self.text.split("\n") if not line.startswith("//")]
        files = [text for name, text in beside().items() if name in " ".join([*lines, *self.commands])]
        options = re.findall(r"^// run (.*)", self.text, flags=re.M)
        return "\n".join([*(line.split("//")[0] for line in lines), *(command.replace('"', "") for command in self.commands), *options, *files])

    def codes(self):
        return {mark.code for mark in self.marks}


def specs():
    return [Cured(path) for path in sorted(glob.glob(f"{HERE}/*.mesh"))]


def place(folder, cured, text):
    """A folder that has the spec with this text, and what it reads."""
    shutil.copytree(f"{HERE}/beside", folder)
    np.save(f"{folder}/x.npy", np.arange(24.0).reshape(4, 6) / 24)
    with open(f"{folder}/{cured.name}", "w", encoding="utf-8") as file:
        file.write(text)
    return folder


def call(folder, cured, command):
    words = [{"meshc": meshc(), "SPEC": cured.name}.get(word, word) for word in shlex.split(command)]
    done = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


def diagnostics(folder, cured, command):
    """(level, code, message) of all that a command says."""
    code, _, errors = call(folder, cured, command + " --diagnostics=json")
    found = [json.loads(line) for line in errors.split("\n") if line.startswith("{")]
    if code not in (0, 1) or (code == 1 and not found):
        return [("error", f"exit code {code}: {errors[-500:]}", "")]
    return [(one["level"], one["code"], one["message"]) for one in found]


def said(found):
    return "; ".join(f"{code} {message}" for _, code, message in found) or "nothing"


def wrong_before(folder, cured, mark):
    """What is wrong with what is said of a spec, or a command, before its cure: its code is the first that is said."""
    found = diagnostics(place(folder, cured, mark.text), cured, mark.command)
    errors = [one for one in found if one[0] == "error"]
    told = errors[0][1] == mark.code if errors else any(code == mark.code for _, code, _ in found)
    return "" if told else f"{cured.name}: before its cure not {mark.code} but {said(errors or found)}: {mark.command}\n{mark.text}"


def runs(cured):
    """The options under which a spec is run: every layout, every model and every precision; or what its lines `// run OPTIONS` say."""
    if written := re.findall(r"^// run (.*)", cured.text, flags=re.M):
        yield from written
        return
    for model in cured.names("model"):
        chosen = ["--model", model] if len(cured.names("model")) > 1 else []
        for layout in cured.names("layout") or [None]:
            for precision in [None, *cured.names("precision")]:
                options = [*chosen, *(["--layout", layout] if layout else []), *(["--precision", precision] if precision else [])]
                yield " ".join(options)


def is_right(value):
    """As on one rank and finite; 0 where the name says so."""
    return value["equal"] and not value["nan"] and abs(value["largest"]) < (1e-12 if value["name"].endswith("_zero") else 1e30)


def wrong_after(folder, cured):
    """What is wrong with a spec that is cured: it is checked, runs under each layout as on one rank, is finite, and its commands are taken."""
    place(folder, cured, cured.text)
    wrong = []
    for options in runs(cured):
        wrong += [f"{cured.name}: {said([one])}" for one in diagnostics(folder, cured, f"meshc plan SPEC {options}") if one[0] == "error" or one[1] in cured.codes()]
        command = f"meshc verify SPEC --json --steps 2 {options}"
        code, out, errors = call(folder, cured, command)
        values = json.loads(out)["values"] if code == 0 else []
        if code or not values or not all(is_right(value) for value in values):
            wrong.append(f"{cured.name}: {command}: exit code {code}, {len(values)} values\n{out[-1500:]}{errors[-1500:]}")
    for command in cured.commands:
        code, out, errors = call(folder, cured, command)
        if code:
            wrong.append(f"{cured.name}: {command}: exit code {code}\n{out[-500:]}{errors[-1500:]}")
    return "\n".join(wrong)
