"""Every help that the compiler can print stands in a golden: the texts of all calls of `help(...)` in its sources, against what the goldens expect."""
import glob
import os
import re

import proposed
from common import TOP

# A string of C++, raw or not; with these, what could be taken for the begin of one: characters and comments.
TOKEN = re.compile(r'R"(?P<fence>\w*)\((?P<raw>.*?)\)(?P=fence)"|"(?P<plain>(?:[^"\\]|\\.)*)"|(?P<skipped>\'(?:[^\'\\]|\\.)\'|//[^\n]*)|(?P<other>.)', re.S)
ESCAPES = {r"\"": '"', r"\\": "\\", r"\n": "\n"}
# What fmt puts a value in place of.
FILLED = re.compile(r"\{\d*(?::[^{}]*)?\}")
# Texts of which no golden is made, as no command that has goldens prints them: the test that compares them.
SHOWN_ELSEWHERE = {
    "a line of the model says it: `generate token along seq from logits`": "tests/acceptance/refusals.py",  # `meshc generate`
    "did you mean `grad(": "tests/interpret/fetch_test.py",  # `meshc fetch`
}


def strings_of_call(text, begin):
    """(the literals between the parenthesis that was opened before `begin` and its end, what stands before each); literals side by side are one."""
    found, depth, before = [], 1, ""
    for token in TOKEN.finditer(text, begin):
        literal = token["raw"]
        if token["plain"] is not None:
            literal = re.sub(r"\\.", lambda escape: ESCAPES.get(escape[0], escape[0]), token["plain"])
        if literal is not None:
            if found and not before.strip():
                found[-1] = (found[-1][0] + literal, found[-1][1])
            else:
                found.append((literal, before))
            before = ""
            continue
        if token["skipped"]:
            continue
        depth += (token["other"] == "(") - (token["other"] == ")")
        if depth == 0:
            break
        before += token["other"]
    return found


def pieces(literal):
    """What is printed as it stands: without what is filled in, and without what is too short to tell anything."""
    parts = FILLED.split(literal.replace("{{", "\x01").replace("}}", "\x02"))
    parts = [part.replace("\x01", "{").replace("\x02", "}").strip() for part in parts]
    return [part for part in parts if len(re.findall(r"\w", part)) >= 3]


def said_in_sources():
    """(where, piece) of all calls of `help`; a text that something is compared with is not printed. What functions give that a call has as
    its argument is not looked for."""
    for folder in ("codegen", "frontend"):
        for path in sorted(glob.glob(f"{TOP}/{folder}/**/*.cpp", recursive=True) + glob.glob(f"{TOP}/{folder}/**/*.h", recursive=True)):
            with open(path, encoding="utf-8") as file:
                text = file.read()
            for call in re.finditer(r"(?<=[.>])help\(", text):
                if text.startswith("//", text.rfind("\n", 0, call.start()) + 1):
                    continue
                where = f"{os.path.relpath(path, TOP)}:{text.count(chr(10), 0, call.end()) + 1}"
                for literal, before in strings_of_call(text, call.end()):
                    if not re.search(r"[=!]=\s*(?:std::string_view\()?$", before):
                        yield from ((where, piece) for piece in pieces(literal))


def check_shown(report):
    shown = "\n".join(proposed.helps_of_goldens())
    said = list(said_in_sources())
    missing = [(where, piece) for where, piece in said if piece not in shown and piece not in SHOWN_ELSEWHERE]
    for where, piece in missing:
        report.true(f"{where}: `{piece}`", False, "no golden shows this help")
    report.check("texts of helps that goldens show", len(said) - len(missing), f"{len(said)}, at least 400", not missing and len(said) >= 400)
    pieces_said = {piece for _, piece in said}
    for piece, test in SHOWN_ELSEWHERE.items():
        with open(f"{TOP}/{test}", encoding="utf-8") as file:
            compared = piece in file.read()
        report.true(f"`{piece}`: said, in no golden, and compared by {test}", compared and piece in pieces_said and piece not in shown)
