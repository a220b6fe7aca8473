"""Mutants that `meshc check` accepts give C++ that a compiler accepts: nothing that a user writes reaches it broken."""
import glob
import os
from concurrent.futures import ThreadPoolExecutor

from common import TOP, Report, scratch
from common import run as execute
from fuzz import SEED, corpus, driver


def run(small):
    report = Report()
    count = 6 if small else 300
    print(f"seed {SEED}, {count} accepted mutants, no two with the same program")
    with scratch() as folder, ThreadPoolExecutor(2) as pool:
        os.mkdir(f"{folder}/specs")
        os.mkdir(f"{folder}/programs")
        done = execute(driver(), "--emit", f"{folder}/programs", count, SEED, *corpus(f"{folder}/specs"), code=None, timeout=3600)
        report.true("accepted mutants are compiled", done.returncode == 0, (done.stdout + done.stderr)[-1500:].strip())

        def accepted(path):
            return execute("g++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-I", f"{TOP}/runtime/include", path, code=None)

        programs = sorted(glob.glob(f"{folder}/programs/*.cpp"))
        good = 0
        for path, result in zip(programs, pool.map(accepted, programs)):
            good += result.returncode == 0
            if result.returncode != 0:
                report.true(f"mutant {os.path.basename(path)[:-4]}", False, result.stderr[:1500])
        report.check("programs that g++ accepts", good, count, good == count)
    return report
