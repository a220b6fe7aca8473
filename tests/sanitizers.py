"""Builds with sanitizers, of what runs under them alone: `tests/run --sanitize`."""
import json
import os
import subprocess

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Little debug information and little optimization: these builds are run once.
OPTIONS = ["-Dbuildtype=plain", "-Doptimization=1", "-Dcpp_args=-g1", "-Db_lundef=false"]
# {build: (what -Db_sanitize takes, its tests)}. Emitted programs and the interpreter run their ranks as threads, so the thread sanitizer sees them.
BUILDS = {
    "address": ("address,undefined", ["frontend", "diagnostics", "diagnostics-passes", "graphs", "layout", "program", "interpret", "emit-writer", "emit-text",
                                      "emitted", "driver", "checkpoint", "kernels", "runtime bootstrap", "runtime collectives", "runtime launch"]),
    "thread": ("thread", ["runtime bootstrap", "runtime collectives", "runtime launch", "runtime threads", "driver", "checkpoint", "interpret", "emitted"]),
}


def shown(command):
    """(whether it succeeded, what it printed)"""
    done = subprocess.run(command, cwd=TOP, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode == 0, done.stdout


def introspect(build, what):
    return json.loads(subprocess.run(["meson", "introspect", build, f"--{what}"], cwd=TOP, stdout=subprocess.PIPE, check=True).stdout)


def needed(build, names):
    """The files that the tests run. A name that no test has is an error: the list above has grown old."""
    files = {target["id"]: target["filename"] for target in introspect(build, "targets")}
    tests = {test["name"]: test for test in introspect(build, "tests")}
    return sorted({os.path.relpath(file, os.path.join(TOP, build)) for name in names for target in tests[name]["depends"] for file in files[target]})


def build(name):
    """Configures and builds; what was printed where that failed."""
    folder, (sanitizers, names) = f"build-{name}", BUILDS[name]
    if not os.path.exists(os.path.join(TOP, folder, "build.ninja")):
        good, output = shown(["meson", "setup", f"-Db_sanitize={sanitizers}", *OPTIONS, folder])
        if not good:
            return output
    good, output = shown(["ninja", "-C", folder, *needed(folder, names)])
    return None if good else "\n".join(output.splitlines()[-60:])
