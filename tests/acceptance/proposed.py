"""What messages and explanations propose in backticks, with the code that it is to cure, and whether the specs of cures/ show it."""
import glob
import os
import re

from common import TOP

# The names that stand for what the writer fills in; `...` does too.
BLANKS = {"NAME", "Name", "AXIS", "SPEC", "N", "DIM", "Block", "condition", "expression", "name", "path", "type", "parameter"}
# In brackets and behind `repeat` the word `dim`, and behind `on` the word `mesh`, stand for a name of the writer's: both begin lines of the language.
WORDS_FOR_NAMES = re.compile(r"(?<=[\[=])dim(?=\])|(?<== )dim(?=\])|(?<=repeat )dim\b|^dim(?= ->)|(?<=on )mesh\b|(?<=\.)dim\b")
TOKEN = re.compile(r'"[^"\n]*"|\d+(?:_\d+)*(?:\.\d+)?(?:e-?\d+)?|\w+|\.\.\.|\.\.|->|<-|[<>=!]=|\*\*|\S')
OPENING, CLOSING = "([{", ")]}"
# Said in backticks, but no line that anybody would write: why.
NO_LINE = {
    "meshc": "the tool's name",
    "//": "begins a comment; specs cannot be without",
    "meshc evaluate": "builds a program and needs a trained model: `tests/full inference`",
    "meshc generate": "needs a trained model: `tests/full generation`",
}


class Proposal:
    def __init__(self, text, code, where):
        self.text, self.code, self.where = text, code, where


def in_backticks(text):
    """What is said to be put in place of something is proposed, and not what that is."""
    return re.findall(r"`([^`]+)`", re.sub(r"in place of `[^`]+`", "", text))


def said_of(spec, expected, where):
    """Of a golden: what its helps propose. A name alone that its spec has is the spec's."""
    names, code = set(re.findall(r"\w+", spec)), None
    for line in expected.split("\n"):
        if head := re.match(r"(?:// )?(?:error|warning)\[(\w+)\]", line):
            code = head[1]
        if "= help: " in line and code:
            for text in in_backticks(line):
                if not (re.fullmatch(r"[\w.]+", text) and set(re.findall(r"\w+", text)) <= names):
                    yield Proposal(text, code, where)


def texts_of_goldens():
    """(spec, what is expected of it, where) of each."""
    for path in sorted(glob.glob(f"{TOP}/tests/diagnostics/**/*.mesh", recursive=True)):
        with open(path, encoding="utf-8") as file:
            spec, _, expected = file.read().partition("//// expected")
        yield spec, expected, os.path.relpath(path, f"{TOP}/tests")
    for path in sorted(glob.glob(f"{TOP}/tests/frontend/errors/*.txt")):
        with open(path, encoding="utf-8", errors="replace") as file, open(path[:-3] + "mesh", encoding="utf-8", errors="replace") as spec:
            yield spec.read(), file.read(), os.path.relpath(path, f"{TOP}/tests")


def goldens():
    for spec, expected, where in texts_of_goldens():
        yield from said_of(spec, expected, where)


def helps_of_goldens():
    """Every help, a line each."""
    return [help for _, expected, _ in texts_of_goldens() for help in re.findall(r"= help: (.*)", expected)]


def pages():
    """{code: its cure}"""
    found = {}
    for path in sorted(glob.glob(f"{TOP}/codegen/commands/explain/*.md")):
        with open(path, encoding="utf-8") as file:
            for page in re.split(r"^# ", file.read(), flags=re.M)[1:]:
                found[page.split()[0]] = " ".join(re.findall(r"^Cure: (.*?)(?:\n\n|\Z)", page, flags=re.M | re.S)).replace("\n", " ")
    return found


def everything_said():
    yield from goldens()
    for code, cure in pages().items():
        yield from (Proposal(text, code, f"meshc explain {code}") for text in in_backticks(cure))


def every_text():
    return {one.text for one in everything_said()}


def proposals():
    """One of each text for each code."""
    return list({(one.code, one.text): one for one in everything_said() if one.text not in NO_LINE}.values())


def tokens(text):
    return TOKEN.findall(text)


def pattern(text):
    """The tokens of a proposal; None is a blank."""
    text = WORDS_FOR_NAMES.sub("NAME", re.sub(r"([(\[{]) ([)\]}])", r"\1 ... \2", text))
    if text.startswith("meshc "):
        text = re.sub(r"\w+\.mesh", "SPEC", text, count=1).replace(" --", " ... --")
    return [None if one == "..." or one in BLANKS else one for one in tokens(text)]


def ends_of_blank(words, at):
    """Where what fills a blank may end: behind any tokens whose brackets are balanced."""
    depth = 0
    yield at
    for end in range(at, len(words)):
        depth += (words[end] in OPENING) - (words[end] in CLOSING)
        if depth < 0:
            return
        if depth == 0:
            yield end + 1


def matches(wanted, words, at):
    if not wanted:
        return True
    if wanted[0] is None:
        return any(matches(wanted[1:], words, end) for end in ends_of_blank(words, at))
    return at < len(words) and words[at] == wanted[0] and matches(wanted[1:], words, at + 1)


def stands_in(text, words):
    wanted = pattern(text)
    return any(matches(wanted, words, at) for at in range(len(words)))
