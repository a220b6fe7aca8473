"""Every command: help, an unknown option, a bad spec, JSON that parses, verify's exit code."""
import json
import os

from common import TOP, Report, meshc, scratch
from common import run as execute

COMMANDS = ("check", "plan", "run", "build", "fetch", "verify", "ir", "explain")


def run(small):
    report = Report()

    def action():
        gpt, mlp = f"{TOP}/specs/gpt.mesh", f"{TOP}/specs/mlp.mesh"
        for command in COMMANDS:
            text = execute(meshc(), command, "--help").stdout
            report.true(f"{command} --help", "Usage" in text and "Examples" in text)
            report.true(f"{command} --no-such-option", execute(meshc(), command, gpt, "--no-such-option", code=None).returncode == 2)
        report.true("no command", execute(meshc(), code=None).returncode == 2)
        report.true("--help", all(c in execute(meshc(), "--help").stdout for c in COMMANDS))
        with scratch() as folder:
            bad = os.path.join(folder, "bad.mesh")
            with open(bad, "w") as file:
                file.write("dim a = 2\nmodel M {\n  input x : f32[a]\n  y = sum[b](x)\n}\n")
            for command in ("check", "plan"):
                done = execute(meshc(), command, bad, code=None)
                report.true(f"{command} of a bad spec", done.returncode == 1 and "error[E0" in done.stderr and "bad.mesh:4" in done.stderr, done.stderr[:200])
            lines = execute(meshc(), "check", bad, "--diagnostics=json", code=1).stderr.splitlines()
            report.true("--diagnostics=json", all({"level", "code", "message", "spans"} <= set(json.loads(line)) for line in lines) and lines)
            report.true("a spec that is not there", execute(meshc(), "check", os.path.join(folder, "none.mesh"), code=None).returncode == 1)
        report.true("check", execute(meshc(), "check", gpt, "--layout", "default").returncode == 0)
        plan = json.loads(execute(meshc(), "plan", gpt, "--json").stdout)
        report.true("plan --json", {"schema", "mesh", "tensors", "collectives", "memory", "flops", "predicted_seconds"} <= set(plan))
        report.true("explain", "E0301" in execute(meshc(), "explain", "E0301").stdout)
        report.true("verify", execute(meshc(), "verify", mlp, "--layout", "both", "--set", "batch=8", "--set", "hidden=16").returncode == 0)
        report.true("NO_COLOR", "\033[" not in execute(meshc(), "check", gpt, "--layout", "nothing", code=1, env={"NO_COLOR": "1"}).stderr)

    report.attempt("commands", action)
    return report
