"""The colours of VS Code and vim: they know every word of the grammar and every function, and colour the specs of the tree as meant."""
import glob
import json
import re
import shutil

from common import TOP, Report, meshc, scratch
from common import run as execute

EDITORS = f"{TOP}/grammar/editors"
SPECS = ["specs/*.mesh", "specs/tour/*.mesh", "frontend/std/*.mesh", "tests/frontend/specs/*.mesh"]


def read(path):
    with open(path) as file:
        return file.read()


def keywords():
    return sorted(set(re.findall(r"'([a-z]+)'", re.sub(r"//.*", "", read(f"{TOP}/grammar/Mesh.g4")))))


def functions():
    return sorted({op["name"] for op in json.loads(execute(meshc(), "ops", "--json").stdout)["ops"] if re.search(rf"\b{re.escape(op['name'])}[\[(]", op["call"])})


def coloured(line, patterns):
    """[(scope, text)] of a line, as an editor finds them: always the pattern that matches first, of equals the one listed first."""
    at, found = 0, []
    while at < len(line):
        hits = [(match.start(), order, match, scopes) for order, (pattern, scopes) in enumerate(patterns) if (match := pattern.search(line, at))]
        if not hits:
            break
        _, _, match, scopes = min(hits, key=lambda hit: hit[:2])
        found += [(scope, match[group]) for group, scope in scopes.items()]
        at = max(match.end(), at + 1)
    return found


def text_mate():
    grammar = json.loads(read(f"{EDITORS}/vscode/syntaxes/mesh.tmLanguage.json"))
    return [(re.compile(one["match"]), {int(k): c["name"] for k, c in one["captures"].items()} if "captures" in one else {0: one["name"]}) for one in grammar["patterns"]]


def check_text_mate(report):
    manifest = json.loads(read(f"{EDITORS}/vscode/package.json"))["contributes"]
    for part in (manifest["languages"][0]["configuration"], manifest["grammars"][0]["path"]):
        report.true(f"vscode {part} parses", json.loads(read(f"{EDITORS}/vscode/{part}")))
    patterns = text_mate()
    seen = {text for _, text in coloured("const off = false", patterns)}
    comments = strings = True
    for path in sorted(path for pattern in SPECS for path in glob.glob(f"{TOP}/{pattern}")):
        for line in read(path).split("\n"):
            spans = coloured(line, patterns)
            seen |= {text for scope, text in spans if scope.startswith(("keyword", "constant.language", "support"))}
            comments = comments and ("//" not in line or any(scope.startswith("comment") for scope, _ in spans))
            strings = strings and ('"' not in line.split("//")[0] or any(scope.startswith("string") for scope, _ in spans))
    report.true("vscode: comments and texts", comments and strings)
    for word in keywords():
        report.true(f"vscode: `{word}` is coloured in the specs of the tree", word in seen)
    for name in functions():
        report.true(f"vscode: function {name}", ("support.function.mesh", name) in coloured(f"y = {name}[d](x) + {name}(x)", patterns))
    for line in ("mesh pod { model: 8 }", "  batch -> model", "  layout = model + state", "block f[from, to](x : real[from]) -> real[to]", "y = dot[from](x, step)"):
        words = [text for scope, text in coloured(line, patterns) if scope.startswith("keyword.control") or scope.startswith("keyword.declaration")]
        report.true(f"vscode: no name is a keyword in `{line.strip()}`", set(words) <= {"mesh", "block"}, words)


GROUPS = """
for line in range(1, line('$'))
  let column = 0
  while 1
    let [word, begin, end] = matchstrpos(getline(line), '[a-z]\\+', column)
    if begin < 0 | break | endif
    call add(g:found, synIDattr(synID(line, begin + 1, 1), 'name') . ' ' . word)
    let column = end
  endwhile
endfor
"""


def seen_by_vim(path, folder):
    """{word of a file: the groups that vim's syntax gives it}"""
    with open(f"{folder}/groups.vim", "w") as file:
        file.write(f"let g:found = []\nset rtp+={EDITORS}/vim\nfiletype plugin on\nsyntax on\nedit {path}\n{GROUPS}call writefile(g:found, '{folder}/found')\nqall!\n")
    execute("vim", "-u", "NONE", "-es", "-S", f"{folder}/groups.vim", code=None)
    seen = {}
    for line in read(f"{folder}/found").splitlines():
        group, _, word = line.partition(" ")
        seen.setdefault(word, set()).add(group)
    return seen


def check_vim(report):
    words = set(re.findall(r"[a-z_][a-z_0-9]*", read(f"{EDITORS}/vim/syntax/mesh.vim")))
    for word in keywords() + functions():
        report.true(f"vim: {word}", word in words)
    if "+syntax" not in (execute("vim", "--version", code=None).stdout if shutil.which("vim") else ""):
        print("vim is not here, so its colours are not tried")
        return
    with scratch() as folder:
        path = f"{folder}/all.mesh"
        with open(path, "w") as file:
            file.write(read(f"{TOP}/tests/frontend/specs/constructs.mesh") + "const off = false\nlayout whole on pod { a -> none }\n")
        seen = seen_by_vim(path, folder)
    for word in keywords():
        report.true(f"vim colours `{word}`", seen.get(word, set()) & {"meshDeclaration", "meshStatement", "meshOperator", "meshConstant", "meshType"}, seen.get(word))


def run(small):
    report = Report()
    report.true("words of the grammar", len(keywords()) > 40)
    check_text_mate(report)
    check_vim(report)
    return report
