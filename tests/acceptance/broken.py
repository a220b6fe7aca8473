"""Specs with one mistake each (broken/*.cases): one error each, its code and its place as intended; every code occurs and is explained."""
import glob
import json
import os
import re
import shlex
from concurrent.futures import ThreadPoolExecutor

from common import TOP, Report, meshc, scratch
from common import run as execute

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "broken")
# What other commands than `check`, or other files than specs, are needed for; their messages are goldens elsewhere.
ELSEWHERE = {"E0130", "E0131", "E0132", "E0133", "E0209", "E0218", "E0413", "E0423", "E0425", "E0601", "E0602", "E0701", "E0702", "E0703"}


class Case:
    def __init__(self, file, line, head, lines, around):
        words = shlex.split(head)
        self.name = f"{file}:{line}"
        self.code, alone = words[0], words[-1] == "alone"
        self.options = words[1:len(words) - alone]
        text = "\n".join(lines) + "\n" if alone else around.replace("//! here\n", "".join(one + "\n" for one in lines))
        self.text = text.replace("«", "").replace("»", "")
        self.place = place(text) if "«" in text else None


def place(text):
    """(line, column, last line, column behind the end) of what stands between « and »."""
    before, rest = text.split("«")
    inside = rest.split("»")[0]
    position = lambda upto: (upto.count("\n") + 1, len(upto) - upto.rfind("\n"))
    return (*position(before), *position(before + inside))


def cases():
    for path in sorted(glob.glob(os.path.join(HERE, "*.cases"))):
        with open(path, encoding="utf-8") as file:
            parts = re.split(r"^//! (E\d+.*)\n", file.read(), flags=re.M)
        around, line = parts[0], parts[0].count("\n") + 1
        for head, body in zip(parts[1::2], parts[2::2]):
            yield Case(os.path.basename(path), line, head, body.rstrip("\n").split("\n"), around)
            line += 1 + body.count("\n")


def found(case, folder, number):
    """What is wrong with what is said of the case; nothing if it is as intended."""
    spec = os.path.join(folder, f"{number}.mesh")
    with open(spec, "w", encoding="utf-8") as file:
        file.write(case.text)
    done = execute(meshc(), "check", spec, *case.options, "--diagnostics=json", code=None, timeout=60)
    errors = [one for one in map(json.loads, filter(lambda line: line.startswith("{"), done.stderr.split("\n"))) if one["level"] == "error"]
    if done.returncode != 1 or not errors:
        return f"exit code {done.returncode}, {len(errors)} errors: {done.stderr[-500:]}"
    first = errors[0]
    at = next(((s["line"], s["col"], s["end_line"], s["end_col"]) for s in first["spans"] if s["primary"] and s["line"]), None)
    wrong = []
    if first["code"] != case.code:
        wrong.append(f"{first['code']}, not {case.code}")
    if at != case.place:
        wrong.append(f"at {at}, not {case.place}")
    if len(errors) > 1:
        wrong.append(f"{len(errors)} errors: " + "; ".join(f"{one['code']} {one['message']}" for one in errors))
    return "; ".join(wrong) + f" ({first['message']})" if wrong else ""


def codes_of_sources():
    codes = set()
    for path in glob.glob(f"{TOP}/codegen/**/*.cpp", recursive=True) + glob.glob(f"{TOP}/frontend/**/*.cpp", recursive=True):
        with open(path, encoding="utf-8") as file:
            codes |= set(re.findall(r'"(E0\d\d\d)"', file.read()))
    return codes


def run(small):
    report = Report()
    every = list(cases())
    print(f"{len(every)} specs with one mistake each")
    good = 0
    with scratch() as folder, ThreadPoolExecutor(2) as pool:
        for case, wrong in zip(every, pool.map(lambda pair: found(pair[1], folder, pair[0]), enumerate(every))):
            good += not wrong
            if wrong:
                report.true(case.name, False, wrong)
    report.check("mistakes told as intended", good, f"{len(every)}, at least 200", good == len(every) >= 200)
    codes, told = codes_of_sources(), {case.code for case in every}
    report.true("every code occurs", codes - told <= ELSEWHERE and not ELSEWHERE & told, f"{len(codes)} codes; without a case: {sorted(codes - told - ELSEWHERE)}; "
                f"with one, against what is said here: {sorted(ELSEWHERE & told)}")
    unexplained = [code for code in sorted(codes) if len(execute(meshc(), "explain", code, code=None).stdout.split("\n")) < 5]
    report.true("every code is explained", not unexplained, unexplained)
    return report
