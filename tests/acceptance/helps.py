"""What the help of an error proposes, put where the error was: the error is gone."""
import glob
import json
import os
import re
import subprocess

from common import TOP, meshc

# What the writer has to fill in.
BLANK = re.compile(r"\.\.\.|\bNAME\b|\bsmaller\b")


def diagnostics_of(path, options=()):
    done = subprocess.run([meshc(), "check", os.path.basename(path), *options, "--diagnostics=json"], cwd=os.path.dirname(path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return [json.loads(line) for line in done.stderr.split("\n") if line.startswith("{")]


def offset(text, line, column):
    """Columns count letters from 1."""
    return sum(len(one) + 1 for one in text.split("\n")[:line - 1]) + column - 1


def edited(text, span, proposal):
    begin, end = offset(text, span["line"], span["col"]), offset(text, span["end_line"], span["end_col"])
    return text[:begin] + proposal + text[end:]


def is_cured(path, text, options, error):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    left = diagnostics_of(path, options)
    same = [one for one in left if one["code"] == error["code"] and one["message"] == error["message"] and one["spans"][0]["line"] == error["spans"][0]["line"]]
    return not same and not any(one["code"].startswith("E01") for one in left)


def check_helps(report, folder):
    """Of every error in the goldens: a proposed cast, rename or fix that names what stands there, put in its place."""
    cured, tried = 0, 0
    for golden in sorted(glob.glob(f"{TOP}/tests/diagnostics/*.mesh")):
        with open(golden, encoding="utf-8") as file:
            text = file.read().split("//// expected")[0]
        options = text.split("\n", 1)[0][3:].split() if text.startswith("//!") else []
        path = f"{folder}/{os.path.basename(golden)}"
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        for error in diagnostics_of(path, options):
            spans = [s for s in error["spans"] if s["line"] and s["file"].endswith(os.path.basename(path))]
            if error["level"] != "error" or not spans:
                continue
            for help in error.get("helps", []):
                for proposal in re.findall(r"`([^`]+)`", help):
                    if not re.search(r"write the cast|if these dims are meant|if its numbers count|compare it:|to read ", help) or BLANK.search(proposal) or re.fullmatch(r"[\w* ]+", proposal):
                        continue
                    if error["message"].startswith("output "):  # an output is a name: the cast goes where it is bound
                        continue
                    # It stands for one of the operands: the one that it repeats.
                    texts = [(s, text[offset(text, s["line"], s["col"]):offset(text, s["end_line"], s["end_col"])]) for s in spans]
                    inside = [s for s, old in texts if old and old in proposal]
                    tried += 1
                    good = any(is_cured(path, edited(text, s, proposal), options, error) for s in inside)
                    cured += good
                    if not good:
                        report.true(f"{os.path.basename(golden)}:{spans[0]['line']}: {error['message']}", False, f"`{proposal}` does not cure it")
    report.check("casts, renames and comparisons that helps propose, put in place", cured, f"{tried}, at least 20", cured == tried >= 20)
