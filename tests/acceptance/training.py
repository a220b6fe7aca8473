"""The specs that learn, on their real data: gpt and mixtral on the King James text, mlp, resnet and unet on Fashion-MNIST, translate on messages of programs."""
import os
import shutil

from common import TOP, Report, json_lines, meshc, scratch, sets
from common import run as execute


def validations(path):
    return [line["validation"] for line in json_lines(path) if "validation" in line]


def gpt(report, folder, text, small):
    log = os.path.join(folder, "gpt.jsonl")
    more = ["train.steps=60", "validation.steps=4"] if small else []
    execute(meshc(), "run", f"{TOP}/specs/gpt.mesh", f"data.token.file={text}", f"validation.token.file={text}", f"log.jsonl={log}", *more, timeout=1800)
    found = validations(log)[-1]["loss"]
    report.check("gpt: validation loss in nats" + (" after 60 steps" if small else " over the held-out 5 %"), round(found, 4), 3.0 if small else 1.7)
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


def resnet(report, folder):
    """Batch norm is over the batch of all ranks, whatever they split."""
    last = {}
    for layout in ("default", "channels", "space"):
        log = os.path.join(folder, f"resnet_{layout}.jsonl")
        execute(meshc(), "run", f"{TOP}/specs/resnet.mesh", "--layout", layout, f"log.jsonl={log}", timeout=7200)
        last[layout] = validations(log)[-1]["accuracy"]
    bound = 0.91
    report.check("resnet: test accuracy within 10 epochs", round(last["default"], 4), bound, good=last["default"] >= bound)
    for layout in ("channels", "space"):
        report.check(f"resnet: test accuracy under `{layout}`, {round(last[layout], 4)}, apart from that", round(abs(last[layout] - last["default"]), 4), 0.005)


def unet(report, folder):
    """What is left of the noise, by what there was."""
    log = os.path.join(folder, "unet.jsonl")
    execute(meshc(), "run", f"{TOP}/specs/unet.mesh", f"log.jsonl={log}", timeout=3600)
    last = validations(log)[-1]
    report.check("unet: squared error by that of the noisy pictures", round(last["loss"] / last["before"], 4), 0.06)


def mixtral(report, folder, text, small):
    """Then beside one expert for all, as large as those together to which a byte goes: a dense model of as many active parameters."""
    steps = 60 if small else 500

    def trained(name, **sizes):
        log = os.path.join(folder, f"{name}.jsonl")
        execute(meshc(), "run", f"{TOP}/specs/mixtral.mesh", *sets(**sizes), f"data.token.file={text}", f"validation.token.file={text}", f"log.jsonl={log}",
                f"train.steps={steps}", f"validation.steps={4 if small else 40}", timeout=1800)
        return validations(log)[-1]

    found = trained("mixtral")
    report.check(f"mixtral: validation loss in nats after {steps} steps", round(found["loss"], 4), 3.3 if small else 2.0)
    if not small:
        dense = trained("dense", expert=1, pick=1)
        report.check("mixtral: validation perplexity, and that of the dense model", round(found["perplexity"], 3), round(dense["perplexity"], 3),
                     found["perplexity"] < dense["perplexity"])


def translate(report, folder, small):
    """Which pairs there are depends on the packages installed; the bounds leave room for that."""
    english, french = os.path.join(folder, "en.txt"), os.path.join(folder, "fr.txt")
    execute(f"{TOP}/specs/message_pairs.py", english, french)
    with open(english, "rb") as first, open(french, "rb") as second:
        pairs = list(zip(first.read().splitlines(), second.read().splitlines(), strict=True))
    report.true("translate: pairs of messages, at least 1,000 (libreoffice-l10n-fr has more)", len(pairs) >= 1000, len(pairs))
    log = os.path.join(folder, "translate.jsonl")
    steps = 200 if small else 500
    files = [f"data.{name}.file={path}" for name, path in (("src", english), ("tgt", french), ("label", french))]
    size = sets(batch=16, enc=1, dec=1, embed=64, heads=2) if small else []
    rate = ["train.lr=4e-3"] if small else []  # of its long warmup so few steps see half
    more = [f"train.steps={steps}", "validation.steps=2", "log.every=1", *rate]
    told = execute(meshc(), "run", f"{TOP}/specs/translate.mesh", *size, *files, f"log.jsonl={log}", *more, timeout=1800).stdout
    fitting = sum(len(e) <= 64 and len(f) < 80 for e, f in pairs[:len(pairs) * 95 // 100])
    left_out = f"{len(pairs) * 95 // 100 - fitting:,} of {len(pairs) * 95 // 100:,} samples are left out"
    report.true("translate: tells how many pairs are too long", left_out in told, left_out)
    losses = [line["loss"] for line in json_lines(log) if "loss" in line]
    report.check("translate: mean training loss of the last ten steps by that of the first ten", round(sum(losses[-10:]) / sum(losses[:10]), 3), 0.65 if small else 0.5)
    report.check(f"translate: validation loss in nats after {steps} steps", round(validations(log)[-1]["loss"], 4), 3.6 if small else 2.7)


def run(small):
    report = Report()
    with scratch() as folder:
        if shutil.which("bible"):
            text = os.path.join(folder, "kjv.txt")
            with open(text, "w") as file:
                file.write(execute("bible", "-f", "gen1:1-rev22:21").stdout)
            report.attempt("gpt", lambda: gpt(report, folder, text, small))
            report.attempt("mixtral", lambda: mixtral(report, folder, text, small))
        else:
            report.true("gpt and mixtral: need Debian's packages bible-kjv and bible-kjv-text", False)
        report.attempt("mlp", lambda: mlp(report, folder, small))
        if not small:  # the first steps of both are in `tests/full equality`
            report.attempt("resnet", lambda: resnet(report, folder))
            report.attempt("unet", lambda: unet(report, folder))
        report.attempt("translate", lambda: translate(report, folder, small))
    return report
