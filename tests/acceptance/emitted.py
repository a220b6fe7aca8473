"""Random graphs emitted as C++ and run on their ranks: after three steps and an evaluation every parameter, optimizer state, output and metric has the bits that
the interpreter gives."""
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

from common import TOP, Report, meshc, scratch
from common import run as execute
from constructs import loops, sizes, values
from generate.layouts import is_refused
from generate.model import spec

SEED = 20261121
ATTEMPTS = 6
# Specs of single constructs, numbered from here; those with several layouts or models are left out.
FIRST_CONSTRUCT = 1_000_000
CONSTRUCTS = [one for part in (sizes, loops, values) for one in part.cases() if len(one.layouts) == 1 and not one.options]
TOGETHER = 5  # programs in one translation unit: the runtime's headers take longer than a program
# As build.sh compiles, into a library that tests/emit/run_emitted.cpp loads.
COMPILE = ["c++", "-std=c++20", "-O3", f"-march={os.environ.get('TARGET', 'native')}", "-ffp-contract=off", "-fno-math-errno", "-shared", "-fPIC",
           "-I", f"{TOP}/runtime/include"]


def runner():
    for path in (os.environ.get("RUN_EMITTED"), os.path.join(os.path.dirname(meshc()), "../../tests/emit/run_emitted")):
        if path and os.path.exists(path):
            return path
    raise SystemExit("no run_emitted: run tests/run first, or set RUN_EMITTED")


def texts(number):
    """The graph under one layout after another; of a construct the one it has."""
    if number >= FIRST_CONSTRUCT:
        return [CONSTRUCTS[number - FIRST_CONSTRUCT].spec]
    return (spec(SEED + number, attempt)[0] for attempt in range(ATTEMPTS))


def emit(folder, number):
    """Writes graph `number` under its first legal layout, and its C++: the path of the spec."""
    for attempt, text in enumerate(texts(number)):
        path = os.path.join(folder, f"g{number}.mesh")
        with open(path, "w") as file:
            file.write(text)
        done = execute(meshc(), "build", path, "-o", os.path.join(folder, f"g{number}"), "--no-compile", code=None)
        if done.returncode == 0:
            return path
        if done.returncode != 1 or not is_refused(done.stderr):
            raise RuntimeError(f"graph {number}, attempt {attempt}: exit code {done.returncode}\n{done.stderr[-3000:]}")
    return None


def compare(folder, numbers):
    """{number: what run_emitted says} of the graphs of one translation unit."""
    specs = {number: path for number in numbers if (path := emit(folder, number))}
    unit = os.path.join(folder, f"unit{numbers[0]}")
    with open(f"{unit}.cpp", "w") as file:
        file.write('#include "meshrt/emitted.h"\n')
        for number in specs:
            file.write(f'namespace g{number} {{\n#include "g{number}/g{number}.cpp"\n}}\nextern "C" meshrt::Program* make_g{number}() {{ return g{number}::make().release(); }}\n')
    execute(*COMPILE, f"{unit}.cpp", "-o", f"{unit}.so", timeout=600)
    done = subprocess.run([runner(), f"{unit}.so", *(f"g{number}={path}" for number, path in specs.items())], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=300, env={**os.environ, "MESHRT_TIMEOUT": "60"})
    found = {number: re.search(rf"(?m)^g{number}: (.*)$", done.stdout) for number in specs}
    return {number: line[1] if line else f"exit code {done.returncode}: {done.stderr[-1500:]}" for number, line in found.items()}


def run(small):
    report = Report()
    count = 4 if small else 50
    print(f"seed {SEED}, {count} graphs, f32, each under a random layout of 1 to 8 ranks")
    with scratch() as folder, ThreadPoolExecutor(2) as pool:
        together = 2 if small else TOGETHER
        units = [range(first, first + together) for first in range(0, count, together)]
        units += [range(FIRST_CONSTRUCT, FIRST_CONSTRUCT + len(CONSTRUCTS))]
        found = {}
        for part in pool.map(lambda unit: compare(folder, unit), units):
            found.update(part)
        for number, verdict in found.items():
            name = f"graph {number}" if number < FIRST_CONSTRUCT else CONSTRUCTS[number - FIRST_CONSTRUCT].name
            report.true(name, verdict.startswith("equal: "), verdict)
        report.true("few graphs without a valid layout", sum(number < FIRST_CONSTRUCT for number in found) >= 0.95 * count, f"{sum(number < FIRST_CONSTRUCT for number in found)} of {count} have one")
    return report
