#!/usr/bin/python3
"""No files include each other in a circle, no stage of the compiler and no layer of the runtime includes a
later one, and passes ask what an op says of itself rather than which op it is.

Ends with "N passed, N failed".
"""
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOTS = ["", "runtime/include", "runtime/src", "tests/runtime", "frontend/antlr"]  # where quoted names are looked up, after the file's own folder
# A folder may include what stands before it, and itself.
LAYERS = ["system", "files", "control", "transport", "report", "collectives", "kernels", "launch", "data", "checkpoint", "generation", "driver"]
STAGES = ["runtime/include", *(f"runtime/src/{layer}" for layer in LAYERS), "runtime/src", "frontend", "codegen/schedule", "codegen/graph", "codegen/elaborate", "codegen/rewrites", "codegen/generation", "codegen/gradient", "codegen/optimizer", "codegen/layout", "codegen/program", "codegen/interpret", "codegen/emit", "codegen", "codegen/commands", "tests"]

# Questions for a particular op in passes: where one is matched (attention), or counted anew (positions by micro-batches).
MOST_QUESTIONS = 21
STRUCTURE = {"Loop", "Reshard", "Read", "Update", "Until"}


def sources():
    listed = subprocess.run(["git", "ls-files", "*.h", "*.cpp"], cwd=TOP, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    return [path for path in listed if os.path.exists(os.path.join(TOP, path))]


def includes():
    """{file: the files of the tree that it includes}"""
    known = set(sources())
    found = {}
    for path in sorted(known):
        with open(os.path.join(TOP, path)) as file:
            names = re.findall(r'^#include "(.*)"', file.read(), re.M)
        candidates = [[os.path.normpath(os.path.join(root, name)) for root in (os.path.dirname(path), *ROOTS)] for name in names]
        found[path] = [next(c for c in tries if c in known) for tries in candidates if known.intersection(tries)]
    return found


def reached(path, graph):
    """The file and all that it includes, over others too."""
    seen, work = {path}, [path]
    while work:
        new = [other for other in graph[work.pop()] if other not in seen]
        seen.update(new)
        work += new
    return seen


def circle(graph):
    """Files that include each other, each the next one; none: nothing."""
    done, way = set(), []

    def visit(path):
        if path in way:
            return way[way.index(path):] + [path]
        if path in done:
            return None
        way.append(path)
        found = next(filter(None, map(visit, graph[path])), None)
        way.pop()
        done.add(path)
        return found

    return next(filter(None, map(visit, graph)), None)


def stage(path):
    """The last of STAGES that holds the file: the longest one is meant."""
    holding = [s for s in STAGES if path.startswith(s + "/")]
    return STAGES.index(max(holding, key=len)) if holding else None


def asked(path, text):
    """The particular ops that a file of a pass asks for; a folder `ops` is where they say what they are."""
    if not path.startswith("codegen/") or "/ops/" in path:
        return []
    return [op for op in re.findall(r"(?:holds_alternative|get_if)<(?:const )?(?:mesh::)?(\w+)Op>", text) if op not in STRUCTURE]


def questions():
    """The particular ops that passes ask for, each as `file: op`."""
    found = []
    for path in sources():
        with open(os.path.join(TOP, path)) as file:
            found += [f"{path}: {op}" for op in asked(path, file.read())]
    return found


def main():
    graph = includes()
    found = circle(graph)
    later = [f"{path} includes {other}" for path, others in graph.items() for other in others
             if None not in (stage(path), stage(other)) and stage(path) < stage(other)]
    for line in ([" -> ".join(found)] if found else []) + later:
        print(line)
    # Against a mistake of this script: what it reads is the tree.
    read = sum(map(len, graph.values()))
    print(f"{len(graph)} files, {read} includes")
    particular = questions()
    print(f"{len(particular)} questions for a particular op, at most {MOST_QUESTIONS}")
    if len(particular) > MOST_QUESTIONS:
        print("\n".join(particular))
    failed = bool(found) + bool(later) + (read < 500) + (circle({"a": ["b"], "b": ["c"], "c": ["b"]}) != ["b", "c", "b"])
    failed += len(particular) > MOST_QUESTIONS
    failed += asked("codegen/program/x.cpp", "if (std::get_if<SliceOp>(&op) || std::holds_alternative<LoopOp>(op))") != ["Slice"]
    print(f"{6 - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
