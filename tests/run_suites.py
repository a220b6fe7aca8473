#!/usr/bin/python3
"""Runs every test of build-test through meson, then checks formatting; with --tidy also clang-tidy, with --sanitize sanitizer builds. Counts them all.

Ends with "N passed, N failed". Each meson test is a suite of gtest cases or a script; a suite counts its cases.
"""
import argparse
import glob
import json
import os
import re
import shlex
import subprocess
import sys
import time

import sanitizers
import tidy

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def say(text):
    print(f"==> {text}", file=sys.stderr, flush=True)


class Counts:
    """Cases that passed and failed, and the names of those that failed."""

    def __init__(self):
        self.passed, self.failed, self.names = 0, 0, []

    def add(self, name, passed, failed):
        self.passed += passed
        self.failed += failed
        if failed:
            self.names.append(name)


def cases(output):
    """(passed, failed) of a gtest run or of a script that ends with "N passed, N failed"; nothing if it says neither."""
    passed = re.search(r"^\[  PASSED  \] (\d+) test", output, re.M)
    failed = re.search(r"^\[  FAILED  \] (\d+) test", output, re.M)
    if passed:
        return int(passed[1]), int(failed[1]) if failed else 0
    line = re.findall(r"^(?:\w+: )?(\d+) passed, (\d+) failed", output, re.M)
    return (int(line[-1][0]), int(line[-1][1])) if line else None


def log_of(build, log):
    return os.path.join(TOP, build, "meson-logs", f"{log}.json")


def meson_test(build, log, arguments):
    """`meson test` in a build directory, begun; it writes meson-logs/LOG.json, with a wrapper LOG-WRAPPER.json."""
    for old in glob.glob(os.path.join(TOP, build, "meson-logs", f"{log}*.json")):
        os.remove(old)
    return subprocess.Popen(["meson", "test", "-C", build, "--no-rebuild", "--logbase", log, *arguments], cwd=TOP,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def run_meson(build, counts, arguments=()):
    """Runs tests of a build directory one after the other, two at a time, and counts cases suite by suite."""
    started = time.time()
    done = meson_test(build, "testlog", ["--num-processes", "2", *arguments])
    count = count_suites(build, "testlog", done, counts)
    say(f"{build}: {count} suites in {time.time() - started:.0f} s")


def run_all(build, counts):
    """Runs all tests of a build directory. Those of suite `alone` have bounds in seconds: they come one by one, and the others, two at a
    time, leave them the cores as they want them. So a core whose rank waits for a deadline is not idle."""
    started = time.time()
    give_way = ["--wrapper", shlex.quote(os.path.join(TOP, "tests", "give_way")), "--timeout-multiplier", "4"]
    beside = meson_test(build, "together", ["--num-processes", "2", "--no-suite", "alone", *give_way])
    alone = meson_test(build, "alone", ["--num-processes", "1", "--suite", "alone"])
    count = count_suites(build, "alone", alone, counts) + count_suites(build, "together-give_way", beside, counts)
    say(f"{build}: {count} suites in {time.time() - started:.0f} s")


def count_suites(build, log, running, counts):
    """Waits for `meson test`, counts cases suite by suite; how many suites there were."""
    printed = running.communicate()[0]
    if not os.path.exists(log_of(build, log)):
        print(printed)
        counts.add(build, 0, 1)
        return 0
    # A test's output may hold line ends of its own: a result is a line that opens an object and closes it.
    with open(log_of(build, log), newline="\n") as lines:
        results = [json.loads(line) for line in lines if line.startswith("{") and line.rstrip().endswith("}")]
    if not results:
        print(printed)
        counts.add(build, 0, 1)
    for result in results:
        output = result.get("stdout", "") + result.get("stderr", "")
        good = result["result"] in ("OK", "EXPECTEDFAIL")
        found = cases(output)
        passed, failed = found if found else ((1, 0) if good else (0, 1))
        if not good and failed == 0:
            failed = 1
        counts.add(f"{build}: {result['name']}", passed, failed)
        mark = "ok  " if good else "FAIL"
        print(f"{mark} {result['name']:<32} {passed:5} passed {failed:3} failed  {result.get('duration', 0):6.1f} s", flush=True)
        if not good:
            print("\n".join(output.splitlines()[-80:]))
    return len(results)


def sources():
    listed = subprocess.run(["git", "ls-files", "*.cpp", "*.h"], cwd=TOP, stdout=subprocess.PIPE, text=True).stdout.split()
    return [f for f in listed if os.path.exists(os.path.join(TOP, f))]


def check_format(counts):
    """clang-format leaves every file as it is."""
    files, cores = sources(), os.cpu_count() or 1
    checks = [subprocess.Popen(["clang-format", "--dry-run", "-Werror", *files[first::cores]], cwd=TOP, stderr=subprocess.PIPE, text=True)
              for first in range(cores) if files[first::cores]]
    said = "".join(check.communicate()[1] for check in checks)
    wrong = sorted({line.split(":")[0] for line in said.splitlines() if "error:" in line})
    for name in wrong:
        print(f"not formatted: {name}")
    counts.add("clang-format", 0 if wrong else 1, len(wrong))


def sanitize(counts):
    """The tests that a build with sanitizers is for."""
    os.environ.setdefault("TSAN_OPTIONS", "atexit_sleep_ms=0")  # else every process ends a second late
    # At the end of a rank that fails, the thread-local storage of UCX, which is still there, may crash the search for leaks.
    os.environ.setdefault("ASAN_OPTIONS", "intercept_tls_get_addr=0")
    for name, (_, tests) in sanitizers.BUILDS.items():
        say(f"building with {name} sanitizer")
        problem = sanitizers.build(name)
        if problem:
            print(problem)
            counts.add(name, 0, 1)
        else:
            run_meson(f"build-{name}", counts, ["--timeout-multiplier", "10", *tests])


def check_tidy(counts):
    """clang-tidy finds nothing."""
    good, bad = tidy.run(say)
    counts.add("clang-tidy", good, bad)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sanitize", action="store_true", help="then build and test with the address and undefined, and the thread sanitizer")
    parser.add_argument("--tidy", action="store_true", help="run clang-tidy over all files")
    options = parser.parse_args()
    counts = Counts()
    run_all("build-test", counts)
    check_format(counts)
    if options.tidy:
        check_tidy(counts)
    if options.sanitize:
        sanitize(counts)
    for name in counts.names:
        print(f"failed: {name}")
    print(f"{counts.passed} passed, {counts.failed} failed")
    return 1 if counts.failed else 0


if __name__ == "__main__":
    sys.exit(main())
