"""The two specs on their real data: gpt on the King James text over two ranks, mlp on Fashion-MNIST."""
import os
import shutil

from common import TOP, Report, json_lines, meshc, scratch
from common import run as execute


def validations(path):
    return [line["validation"] for line in json_lines(path) if "validation" in line]


def gpt(report, folder, small):
    text = os.path.join(folder, "kjv.txt")
    with open(text, "w") as file:
        file.write(execute("bible", "-f", "gen1:1-rev22:21").stdout)
    log = os.path.join(folder, "gpt.jsonl")
    more = ["train.steps=100", "validation.steps=4"] if small else []
    execute(meshc(), "run", f"{TOP}/specs/gpt.mesh", f"data.token.file={text}", f"validation.token.file={text}", f"log.jsonl={log}", *more, timeout=1800)
    found = validations(log)[-1]["loss"]
    report.check("gpt: validation loss in nats" + (" after 100 steps" if small else " over the held-out 5 %"), round(found, 4), 3.0 if small else 1.7)
    if not small:
        seconds = [line["seconds"] for line in json_lines(log) if "seconds_per_step" in line][-1]
        report.check("gpt: seconds of training, two ranks on this machine", round(seconds), 300)


def mlp(report, folder, small):
    log = os.path.join(folder, "mlp.jsonl")
    more = ["train.steps=200", "validation.steps=20"] if small else []
    execute(meshc(), "run", f"{TOP}/specs/mlp.mesh", "--layout", "data", "--mesh", "all=2", f"log.jsonl={log}", *more, timeout=1800)
    found = max(v["accuracy"] for v in validations(log))
    bound = 0.70 if small else 0.87
    report.check("mlp: test accuracy" + (" after 200 steps" if small else " within 10 epochs"), round(found, 4), bound, good=found >= bound)


def run(small):
    report = Report()
    with scratch() as folder:
        if shutil.which("bible"):
            report.attempt("gpt", lambda: gpt(report, folder, small))
        else:
            report.true("gpt: needs Debian's packages bible-kjv and bible-kjv-text", False)
        report.attempt("mlp", lambda: mlp(report, folder, small))
    return report
