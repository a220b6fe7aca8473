"""Names that C++, its headers or the emitted program have already: of models, states, dims, axes, parameters and files. What is emitted goes through the
C++ compiler. The names come from the headers of the runtime, the macros that these bring, and an emitted program's own words."""
import glob
import json
import os
import re

from common import TOP, Report, meshc, scratch
from common import run as execute

KEYWORDS = {"and", "as", "f64", "false", "none", "not", "or", "repeat", "return", "state", "true"}  # of the language
CPP_KEYWORDS = set("""alignas alignof and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class co_await co_return co_yield
    compl concept const const_cast consteval constexpr constinit continue decltype default delete do double dynamic_cast else enum explicit export extern
    float for friend goto if inline int long mutable namespace new noexcept not_eq nullptr operator or_eq private protected public register
    reinterpret_cast requires short signed sizeof static static_assert static_cast struct switch template this thread_local throw try typedef typeid
    typename union unsigned using virtual void volatile wchar_t while xor xor_eq""".split())
COUNT = "model {0} {{\n  state {1} : f64 = 0\n  {1} <- {1} + 1\n}}\n"
FIT = """dim {dim} = {size}, io = 3
model {model} {{
  input x, t : real[{dim}, io]
  param {param} : real[io] = ones
  param wide : real[io, {dim}] = ones
  loss = mean[{dim}, io]((x * {param} - t) ^ 2) + mean[{dim}, io](wide * wide)
  minimize loss with adamw(lr: 0.1)
}}
mesh line {{ {axis}: 2 }}
layout default on line {{ {dim} -> {axis} }}
"""


def words_of(text):
    """Identifiers but those that belong to the compiler."""
    return {word for word in re.findall(r"[A-Za-z]\w*", re.sub(r"//.*", "", text)) if "__" not in word} - KEYWORDS


def read(path):
    with open(path) as file:
        return file.read()


def compiler(*arguments):
    return execute(os.environ.get("CXX") or "c++", "-std=c++20", f"-I{TOP}/runtime/include", *arguments, code=None)


def macros(folder):
    with open(f"{folder}/headers.cpp", "w") as file:
        file.write('#include "meshrt/emitted.h"\n')
    defined = re.findall(r"^#define ([A-Za-z]\w*)", compiler("-E", "-dM", f"{folder}/headers.cpp").stdout, re.M)
    # All system calls have one form of name.
    return {name for name in defined if "__" not in name and not name.startswith("SYS_")} | {"SYS_read"}


class Emitted:
    """Texts of programs, for the C++ compiler in one go: each in a namespace of its own."""

    def __init__(self, folder):
        self.folder, self.names, self.texts = folder, [], []

    def add(self, name, spec, *options):
        path = f"{self.folder}/emitted.mesh"
        with open(path, "w") as file:
            file.write(spec)
        text = execute(meshc(), "ir", path, "cpp", *options).stdout.replace('#include "meshrt/emitted.h"\n', "")
        self.names.append(name)
        self.texts.append(re.sub(r"^int main.*\n", "", text, flags=re.M))
        return text

    def check(self, report, what):
        with open(f"{self.folder}/all.cpp", "w") as file:
            file.write('#include "meshrt/emitted.h"\n')
            for number, text in enumerate(self.texts):
                file.write(f"namespace program{number} {{\n#line 1 \"{number}\"\n{text}\n}}\n")
        done = compiler("-fsyntax-only", "-Wno-unused-function", f"{self.folder}/all.cpp")
        wrong = sorted({self.names[int(number)] for number in re.findall(r'^(\d+):\d+:\d+: error', done.stderr, re.M)})
        report.true(f"{what}, {len(self.names)} programs", done.returncode == 0 and self.names, f"{wrong} {done.stderr[:1000]}" if done.returncode else "")


def check_names(report, folder, small):
    base = {"dim": "batch", "size": 4, "model": "Fit", "param": "w", "axis": "data"}
    own = words_of(Emitted(folder).add("", FIT.format(**base))) | words_of(read(f"{TOP}/runtime/include/meshrt/emitted.h").partition("\nclass Model {")[2].partition("\n};")[0])
    headers = set().union(*(words_of(read(path)) for path in glob.glob(f"{TOP}/runtime/include/meshrt/*.h")))
    report.true("the words are found", {"Reduce", "Stack", "State", "Offset", "state_of", "batch_per_data"} <= own and {"Rank", "Tensor"} <= headers, f"{len(own)}, {len(headers)}")
    states = sorted(own | headers | CPP_KEYWORDS | macros(folder))
    emitted = Emitted(folder)
    emitted.add("states", "model Odd {\n" + "".join(f"  state {word} : f64 = 0\n  {word} <- {word} + 1\n" for word in states) + "}\n")
    dims = sorted(own - {"Odd"})
    emitted.add("dims", "dim " + ", ".join(f"{word} = 2" for word in dims) + "\nmodel Odd {\n" +
                "".join(f"  state s{i} : f64[{word}] = zeros\n  s{i} <- s{i} + 1\n" for i, word in enumerate(dims)) + "}\n")
    emitted.check(report, f"{len(states)} states and {len(dims)} dims")
    emitted = Emitted(folder)
    for word in sorted({"NAN", "EOF", "errno", "linux", "main", "std", "SYS_read"} | set(sorted(own)[:: 4 if small else 1])):
        emitted.add(f"model {word}", FIT.format(**{**base, "model": word}))
    emitted.check(report, "models")
    emitted = Emitted(folder)
    for size in (4, 5):  # equal parts and unequal ones
        for word in ("batch_per_data", "batch_per_data_max", "batch_per_data_begin", "over_data", "State", "w_state", "rate"):
            emitted.add(f"parameter {word}", FIT.format(**{**base, "param": word, "size": size}))
        for word in ("std", "meshrt", "mesh", "main", "int", "NAN", "errno", "size", "rank", "batch"):
            emitted.add(f"axis {word}", FIT.format(**{**base, "axis": word, "size": size}))
    emitted.check(report, "parameters and axes")
    execute(meshc(), "new", f"{folder}/model")
    emitted = Emitted(folder)
    emitted.add("meshc new model", read(f"{folder}/model.mesh"))
    emitted.check(report, "meshc new model")


def check_files(report, folder):
    """A program is called like nothing else in its folder, and takes its own run file."""
    for name in ("spec", "plan", "runtime", "build.sh"):
        with open(f"{folder}/{name}.mesh", "w") as file:
            file.write(COUNT.format("Count", "n"))
        with open(f"{folder}/{name}.yaml", "w") as file:
            file.write("train: { steps: 2 }\n")
    for name in ("spec", "plan"):
        execute(meshc(), "build", f"{name}.mesh", "-o", f"built_{name}", cwd=folder)
        os.rename(f"{folder}/{name}.yaml", f"{folder}/gone.yaml")
        done = execute(f"{folder}/built_{name}/{name}_program", "--run-dir=none", cwd=folder, code=None)
        os.rename(f"{folder}/gone.yaml", f"{folder}/{name}.yaml")
        report.true(f"a program of {name}.mesh", done.returncode == 0 and "2 steps" in done.stdout, done.stdout + done.stderr)
    cache = {"XDG_CACHE_HOME": f"{folder}/cache"}
    report.true("run spec.mesh", "2 steps" in execute(meshc(), "run", "spec.mesh", "--run-dir=none", cwd=folder, env=cache).stdout)
    for name in ("spec", "plan", "runtime", "build.sh"):
        execute(meshc(), "build", f"{name}.mesh", "--bundle", "-o", f"bundle_{name}", cwd=folder)
        listed = os.listdir(f"{folder}/bundle_{name}")
        kept = json.loads(read(f"{folder}/bundle_{name}/plan.json")), json.loads(read(f"{folder}/bundle_{name}/{name}_program.json"))
        report.true(f"a bundle of {name}.mesh", f"{name}_program.cpp" in listed and "collectives" in kept[0] and kept[1] == {"train": {"steps": 2}}, listed)


def run(small):
    report = Report()

    def action():
        with scratch() as folder:
            check_names(report, folder, small)
            check_files(report, folder)

    report.attempt("names", action)
    return report
