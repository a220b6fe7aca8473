"""The emitted gpt: at most 700 lines, as many for 2 and for 96 layers, compiled in under 10 s, formatted as written, the same bytes twice."""
import os
import resource

from common import TOP, Report, meshc, scratch, sets
from common import run as execute


def processor_seconds():
    """Of ended child processes: unlike a clock's, the same on a busy machine."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def build(folder, name, layers):
    out = os.path.join(folder, name)
    start = processor_seconds()
    execute(meshc(), "build", f"{TOP}/specs/gpt.mesh", "-o", out, *sets(layer=layers))
    with open(os.path.join(out, "gpt.cpp")) as file:
        return file.read(), processor_seconds() - start, os.path.join(out, "gpt.cpp")


def run(small):
    report = Report()

    def action():
        with scratch() as folder:
            text, seconds, path = build(folder, "first", 4)
            again, _, _ = build(folder, "second", 4)
            report.check("lines of gpt.cpp", text.count("\n"), 700)
            report.check("seconds of one processor to emit and compile", round(seconds, 1), 10)
            report.true("the same bytes twice", text == again)
            two, deep = build(folder, "two", 2)[0], build(folder, "deep", 96)[0]
            report.true("as many lines for 2 and 96 layers", two.count("\n") == deep.count("\n"), f"{two.count(chr(10))} and {deep.count(chr(10))}")
            execute("cp", f"{TOP}/.clang-format", folder)
            execute("clang-format", "--dry-run", "-Werror", path)
            report.true("formatted as written", True)
            program = os.path.join(folder, "first", "gpt")
            report.true("--help of the program", "usage: gpt" in execute(program, "--help").stdout)
            report.true("--info of the program", "layer" in execute(program, "--info").stdout)
            report.true("an unknown option of the program", execute(program, "--no-such-option", code=None).returncode == 2)

    report.attempt("emission", action)
    return report
