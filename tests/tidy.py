"""clang-tidy over every source file: `tests/run --tidy`, or `python3 tests/tidy.py [PATH...]` for the files whose paths begin so.

Nearly all of its time goes into headers, so several files of one folder are looked at together, as one translation unit; where some of them cannot
stand together (they have helpers of one name), each is looked at alone. What was clean and has not changed since, headers included, is skipped.
"""
import hashlib
import json
import os
import platform
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import includes

TOP = includes.TOP
BUILD = os.path.join(TOP, "build-tidy")
CLEAN = os.path.join(BUILD, "clean.json")  # hashes of what was clean
TOGETHER = 8
PARSER = "frontend/antlr"  # the one folder that includes ANTLR's headers, which clang 14 refuses
# Options of gcc alone, warnings (clang's own differ), and what a command is about.
DROPPED = re.compile(r"-[cW]|-M|-fdiagnostics|-fpch|-finstrument|--param|-fno-(?!math-errno)")
# gcc has _Float16 on every x86-64, clang 14 where the processor computes with it.
ADDED = ["-mavx512fp16"] if platform.machine() == "x86_64" else []
# A finding in another file of the unit counts too; that they are included is the unit's doing.
UNIT_OPTIONS = ["--header-filter=/(frontend|codegen|runtime|tests)/.*", "--checks=-bugprone-suspicious-include"]


def commands():
    """{file: the flags that it is compiled with}, without precompiled headers."""
    if not os.path.exists(os.path.join(BUILD, "build.ninja")):
        subprocess.run(["meson", "setup", "-Db_pch=false", BUILD], cwd=TOP, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", BUILD, "build.ninja"], check=True, stdout=subprocess.DEVNULL)  # files that were added since
    with open(os.path.join(BUILD, "compile_commands.json")) as file:
        entries = json.load(file)
    found = {}
    for entry in entries:
        path = os.path.relpath(os.path.join(entry["directory"], entry["file"]), TOP)
        words = shlex.split(entry["command"])
        words = words[next(i for i, word in enumerate(words) if word.startswith("-")):]
        values = {i + 1 for i, word in enumerate(words) if word in ("-o", "-MF", "-MQ", "-c")}
        flags = [word for i, word in enumerate(words) if i not in values and not DROPPED.match(word) and word != "-o"]
        if not path.startswith((PARSER, "build")):
            found.setdefault(path, flags)
    return found


def units(flags, wanted):
    """[(flags, files)]: a few files of one folder under equal flags."""
    groups = {}
    for path in sorted(flags):
        if path.startswith(wanted):
            # Include paths of the target itself differ from target to target, and lead to generated files alone.
            key = tuple(flag for flag in flags[path] if not re.match(r"-I.*\.p$", flag))
            groups.setdefault((os.path.dirname(path), key), []).append(path)
    return [(list(key), files[at:at + TOGETHER]) for (_, key), files in groups.items() for at in range(0, len(files), TOGETHER)]


def hash_of(flags, files, graph):
    """Of all that decides what is found."""
    digest = hashlib.sha256(" ".join(flags).encode())
    for path in [".clang-tidy", *sorted(set().union(*(includes.reached(file, graph) for file in files)))]:
        with open(os.path.join(TOP, path), "rb") as file:
            digest.update(path.encode() + file.read())
    return digest.hexdigest()


def look(flags, files):
    """What clang-tidy says of the files; None where they cannot stand together."""
    if len(files) == 1:
        path, options = os.path.join(TOP, files[0]), []
    else:
        path, options = os.path.join(BUILD, "unit_" + hashlib.sha256(" ".join(files).encode()).hexdigest()[:12] + ".cpp"), UNIT_OPTIONS
        with open(path, "w") as file:
            file.write("".join(f'#include "{TOP}/{name}"\n' for name in files))
    done = subprocess.run(["clang-tidy", "--quiet", f"--config-file={TOP}/.clang-tidy", *options, path, "--", *flags, *ADDED, "-Wno-unknown-warning-option"],
                          cwd=BUILD, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if len(files) > 1 and "[clang-diagnostic-error]" in done.stdout:
        return None
    return done.stdout if done.returncode else ""


def run(say, wanted=""):
    """(files without a finding, files with one); prints the findings."""
    flags, graph = commands(), includes.includes()
    clean = set()
    if os.path.exists(CLEAN):
        with open(CLEAN) as file:
            clean = set(json.load(file))
    good, bad = 0, 0
    todo = []
    for options, files in units(flags, wanted):
        if hash_of(options, files, graph) in clean:
            good += len(files)
        else:
            todo.append((options, files))
    say(f"clang-tidy: {good} files clean and unchanged, {sum(len(files) for _, files in todo)} to look at")

    def one(unit):
        options, files = unit
        text = look(options, files)
        return unit, [text] if text is not None else [look(options, [file]) for file in files]

    with ThreadPoolExecutor(2) as pool:
        for (options, files), texts in pool.map(one, todo):
            print("".join(texts), end="", flush=True)
            wrong = len(set(re.findall(r"^(/\S+?):\d+:\d+: error", "".join(texts), re.M))) or int(any(texts))
            good, bad = good + len(files) - min(wrong, len(files)), bad + wrong
            if not wrong:
                clean.add(hash_of(options, files, graph))
                with open(CLEAN, "w") as file:
                    json.dump(sorted(clean), file)
            say(f"clang-tidy: {good + bad} of {len(flags)}, {', '.join(files)}")
    return good, bad


if __name__ == "__main__":
    passed, failed = run(lambda text: print(text, file=sys.stderr, flush=True), tuple(sys.argv[1:]) or "")
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)
