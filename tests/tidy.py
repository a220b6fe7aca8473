"""clang-tidy over every source file: `tests/run --tidy`.

Nearly all of its time goes into headers, so several files of one target are looked at together, as one translation unit; where two of them cannot
stand together (they have helpers of one name), each is looked at alone. What was clean and has not changed since, headers included, is skipped.
"""
import hashlib
import json
import os
import re
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(TOP, "build-tidy")
CLEAN = os.path.join(BUILD, "clean.json")  # {what was looked at: hash of it and of all headers}
TOGETHER = 8
PARSER = "frontend/antlr"  # the one folder that includes ANTLR's headers, which clang 14 refuses
# Of gcc alone, or about outputs.
DROPPED = re.compile(r"-(o|MF|MQ|MD|c|Werror|fpch-preprocess)$|-W|-f(pch|no-pch)|.*\.(o|d|cpp)$")


def configure():
    """A build folder without precompiled headers, whose commands clang understands; generated sources are made."""
    if not os.path.exists(os.path.join(BUILD, "build.ninja")):
        subprocess.run(["meson", "setup", "-Db_pch=false", "-Dtests=true", BUILD], cwd=TOP, check=True, stdout=subprocess.DEVNULL)


def units():
    """[(flags, files)]: files of the tree under equal flags, each once, a few together."""
    with open(os.path.join(BUILD, "compile_commands.json")) as file:
        commands = json.load(file)
    groups, seen = {}, set()
    for command in commands:
        path = os.path.relpath(os.path.join(command["directory"], command["file"]), TOP)
        if path in seen or path.startswith((PARSER, "..", "build-")):
            continue
        seen.add(path)
        words = shlex.split(command["command"])
        words = words[next(i for i, word in enumerate(words) if word.startswith("-")):]
        flags = tuple(word for word in words if not DROPPED.match(word))
        groups.setdefault((flags, os.path.dirname(path)), []).append(path)
    return [(flags, files[at:at + TOGETHER]) for (flags, _), files in sorted(groups.items()) for at in range(0, len(files), TOGETHER)]
