#!/usr/bin/env python3
"""Runs a command on specs that carry what it must print, and compares.

    tests/run_golden.py --command 'build/codegen/commands/meshc check' tests/diagnostics
    tests/run_golden.py --bless --command ... FILE OR FOLDER...        writes what is printed now

A case is a spec. Its first line may be `//! OPTIONS` for the command. What is expected follows the line
`//// expected`, each line behind `// `, so that the file stays a spec. The command runs in the file's folder. With
`--no-spec` the command gets the options alone.
"""
import argparse
import difflib
import glob
import os
import shlex
import subprocess
import sys

MARK = "//// expected\n"


def run(command, path, no_spec):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    spec, _, expected = text.partition(MARK)
    first = spec.split("\n", 1)[0]
    options = shlex.split(first[3:]) if first.startswith("//!") else []
    result = subprocess.run(command + ([] if no_spec else [os.path.basename(path)]) + options, cwd=os.path.dirname(path) or ".",
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
                            env={**os.environ, "NO_COLOR": "1"})
    if result.returncode not in (0, 1):
        return spec, expected, f"exit code {result.returncode}\n{result.stdout}"
    return spec, expected, result.stdout


def commented(text):
    return "".join(f"// {line}".rstrip() + "\n" for line in text.rstrip("\n").split("\n"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", required=True, help="the program, and what stands before the file's name")
    parser.add_argument("--no-spec", action="store_true", help="the command reads no spec")
    parser.add_argument("--bless", action="store_true", help="write what is printed into the cases")
    parser.add_argument("files", nargs="+")
    arguments = parser.parse_args()
    command = shlex.split(arguments.command)
    if os.path.exists(command[0]):
        command[0] = os.path.abspath(command[0])
    failed = 0
    files = [path for given in arguments.files
             for path in (glob.glob(os.path.join(given, "*.mesh")) if os.path.isdir(given) else [given])]
    for path in sorted(files):
        spec, expected, printed = run(command, path, arguments.no_spec)
        found = commented(printed)
        if found == expected:
            continue
        if arguments.bless:
            with open(path, "w", encoding="utf-8") as file:
                file.write(spec.rstrip("\n") + "\n" + MARK + found)
            print(f"blessed {path}")
            continue
        failed += 1
        print(f"{path}: what is printed differs from what the file expects")
        sys.stdout.writelines(difflib.unified_diff(expected.splitlines(True), found.splitlines(True), "expected", "printed"))
    print(f"{len(files)} cases, {failed} failed")
    return 1 if failed or not files else 0


if __name__ == "__main__":
    sys.exit(main())
