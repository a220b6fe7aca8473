"""Random graphs, and specs that once failed, emitted as C++ and run on their ranks: after three steps and an evaluation every parameter, optimizer state, output and metric has the bits that
the interpreter gives."""
import glob
import math
import os
import platform
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

from common import TOP, Report, meshc, scratch
from common import run as execute
from constructs import loops, sizes, values
from experts import Split, splits
from generate.layouts import is_refused
from generate.model import spec
from generate.moved import MISMATCHED
from graphs import MACHINES, ONCE_FAILED

SEED = 20261121
ATTEMPTS = 6
# Specs of single constructs; those with several layouts or models are left out.
CONSTRUCTS = [one for part in (sizes, loops, values) for one in part.cases() if len(one.layouts) == 1 and not one.options]
# Movements of one tensor between placements that mismatch, on few ranks.
MOVED = [one for one, _ in MISMATCHED if math.prod(one.mesh) <= 8]
# Lookups and experts under a split of some dims.
SPLITS = list(splits())
SPLITS = SPLITS[::len(SPLITS) // 200]
TOGETHER = 5  # programs in one translation unit: the runtime's headers take longer than a program
# As build.sh compiles, into a library that tests/emit/run_emitted.cpp loads.
WIDE = ["-mprefer-vector-width=512"] if platform.machine() == "x86_64" else []
COMPILE = ["c++", "-std=c++20", "-O3", f"-march={os.environ.get('TARGET', 'native')}", *WIDE, "-ffp-contract=off", "-fno-math-errno",
           *os.environ.get("CXXFLAGS", "").split(), "-shared", "-fPIC", "-I", f"{TOP}/runtime/include"]


def precompile(folder):
    """Parses the runtime's headers once for all units that are compiled with -I of this folder."""
    header = os.path.join(folder, "meshrt", "emitted.h.gch")
    os.makedirs(os.path.dirname(header))
    execute(*COMPILE, "-x", "c++-header", "-include", "meshrt/emitted.h", os.devnull, "-o", header, timeout=600)


def runner():
    for path in (os.environ.get("RUN_EMITTED"), os.path.join(os.path.dirname(meshc()), "../../tests/emit/run_emitted")):
        if path and os.path.exists(path):
            return path
    raise SystemExit("no run_emitted: run tests/run first, or set RUN_EMITTED")


def name_of(graph):
    """The name of a graph (a number, the path of a spec, a construct or a movement) in C++."""
    if graph in MOVED:
        return f"moved_{graph.name}"
    if isinstance(graph, int):
        return f"g{graph}"
    if isinstance(graph, Split):
        return f"split{SPLITS.index(graph)}"
    return os.path.basename(graph).removesuffix(".mesh") if isinstance(graph, str) else f"construct{CONSTRUCTS.index(graph)}"


def texts(graph):
    """The specs to try: a random graph's layout may be refused."""
    if isinstance(graph, int):
        return (spec(SEED + graph, attempt).text for attempt in range(ATTEMPTS))
    if graph in MOVED:
        return iter([graph.spec("f32")])
    if isinstance(graph, Split):
        return iter([graph.spec])
    if not isinstance(graph, str):
        return iter([graph.spec])
    with open(graph) as file:
        return iter([file.read()])


def machine_of(graph):
    """The description of the machine that decides what a graph's layout leaves open, as `graphs` has it."""
    if isinstance(graph, int):
        return MACHINES[graph % len(MACHINES)]
    if not isinstance(graph, str) or not os.path.exists(graph + ".yaml"):
        return None
    with open(graph + ".yaml") as file:
        return file.read()


def emit(folder, graph):
    """Writes the graph under its first legal layout, with its machine beside it, and its C++: the path of the spec."""
    path, machine, options = os.path.join(folder, name_of(graph) + ".mesh"), machine_of(graph), []
    if machine:
        options = ["--machine", path + ".yaml"]
        with open(options[1], "w") as file:
            file.write(machine + "\n")
    for attempt, text in enumerate(texts(graph)):
        with open(path, "w") as file:
            file.write(text)
        done = execute(meshc(), "build", path, *options, "-o", os.path.join(folder, name_of(graph)), "--no-compile", code=None)
        if done.returncode == 0:
            return path
        if done.returncode != 1 or not is_refused(done.stderr):
            raise RuntimeError(f"{name_of(graph)}, attempt {attempt}: exit code {done.returncode}\n{done.stderr[-3000:]}")
    return None


def compare(folder, graphs):
    """{name: what run_emitted says} of the graphs of one translation unit."""
    specs = {name_of(graph): path for graph in graphs if (path := emit(folder, graph))}
    unit = os.path.join(folder, f"unit_{name_of(graphs[0])}")
    with open(f"{unit}.cpp", "w") as file:
        file.write('#include "meshrt/emitted.h"\n')
        for name in specs:
            file.write(f'namespace {name} {{\n#include "{name}/{name}.cpp"\n}}\nextern "C" meshrt::Program* make_{name}() {{ return {name}::make().release(); }}\n')
    execute(*COMPILE[:1], "-I", folder, *COMPILE[1:], f"{unit}.cpp", "-o", f"{unit}.so", timeout=600)
    done = subprocess.run([runner(), f"{unit}.so", *(f"{name}={path}" for name, path in specs.items())], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=300, env={**os.environ, "MESHRT_TIMEOUT": "60"})
    found = {name: re.search(rf"(?m)^{name}: (.*)$", done.stdout) for name in specs}
    return {name: line[1] if line else f"exit code {done.returncode}: {done.stderr[-1500:]}" for name, line in found.items()}


def compare_all(pool, folder, graphs):
    """As `compare`, of any number of graphs."""
    if len(graphs) > TOGETHER:
        precompile(folder)
    found = {}
    for part in pool.map(lambda first: compare(folder, graphs[first:first + TOGETHER]), range(0, len(graphs), TOGETHER)):
        found.update(part)
    return found


def run(small):
    report = Report()
    count = 4 if small else 50
    print(f"seed {SEED}, {count} graphs, f32, each under a random layout of 1 to 8 ranks; those that once failed; single constructs; movements of one tensor; lookups and experts under a split")
    graphs = [*range(count), *sorted(glob.glob(ONCE_FAILED)), *CONSTRUCTS, *MOVED, *(SPLITS[::67] if small else SPLITS)]
    with scratch() as folder, ThreadPoolExecutor(2) as pool:
        found = compare_all(pool, folder, graphs)
    for name, verdict in found.items():
        report.true(name, verdict.startswith("equal: "), verdict)
    report.true("few graphs without a valid layout", len(found) >= len(graphs) - 0.05 * count, f"{len(graphs) - len(found)} of {len(graphs)}")
    return report
