"""A vision Transformer with dropout and batch norm, trained for some steps, then used: its logits and its metrics are those of PyTorch's modules in `eval()`."""
import json
import os
import subprocess

import numpy as np

from checkpoints import tensors as read_checkpoint
from common import meshc, scratch
from common import run as execute

SEED = 20261125
BOUND = 1e-9
HERE = os.path.dirname(os.path.abspath(__file__))
SPEC = f"{HERE}/vision.mesh"


def torch_python():
    """A Python that has PyTorch, or None."""
    for python in filter(None, (os.environ.get("TORCH_PYTHON"), "/usr/bin/python3")):
        if subprocess.run([python, "-c", "import torch, numpy"], stderr=subprocess.DEVNULL).returncode == 0:
            return python
    return None


def check(report, small):
    python = torch_python()
    if python is None:
        report.true("SKIPPED, a vision Transformer beside PyTorch: it is not installed (Debian: python3-torch; TORCH_PYTHON names another Python)", True)
        return
    random = np.random.default_rng(SEED)
    with scratch() as folder:
        image, label = random.integers(0, 256, (75, 3, 8, 6)).astype(np.uint8), random.integers(0, 5, 75).astype(np.int32)
        np.save(f"{folder}/image.npy", image)
        np.save(f"{folder}/label.npy", label)
        with open(f"{folder}/run.yaml", "w") as file:
            file.write("data: { image: {file: image.npy}, label: {file: label.npy} }\nvalidation: {}\ntrain: { steps: 20 }\ncheckpoint: { dir: ck }\n")
        for layout in ("samples",) if small else ("samples", "megatron"):
            chosen = (SPEC, "run.yaml", "--layout", layout, "--precision", "f64")
            execute("rm", "-rf", "ck", cwd=folder)
            execute(meshc(), "run", *chosen, cwd=folder)
            execute(meshc(), "predict", SPEC, "logits", *chosen[1:], "--out", ".", cwd=folder)
            logits, trained = np.load(f"{folder}/logits.npy"), read_checkpoint(f"{folder}/ck/step-20")
            np.savez(f"{folder}/given.npz", image=image, label=label, **trained)
            by_torch = json.loads(execute(python, f"{HERE}/vision_torch.py", f"{folder}/given.npz", f"{folder}/torch.npy").stdout)
            worst = float(np.abs(logits - np.load(f"{folder}/torch.npy")).max())
            report.check(f"{layout}: logits of {len(logits)} pictures, as PyTorch's eval()", f"{worst:.1e}", BOUND, worst <= BOUND)
            got = json.loads(execute(meshc(), "evaluate", *chosen, "--json", cwd=folder).stdout)["metrics"]
            worst = max(abs(got[name] - by_torch[name]) for name in got)
            report.check(f"{layout}: loss and accuracy, as PyTorch's eval()", f"{worst:.1e}", BOUND, worst <= BOUND)
            execute(meshc(), "predict", SPEC, "logits", *chosen[1:], "--set", "drop=0.5", "--out", "more", cwd=folder)
            report.true(f"{layout}: another rate of dropout is none here", np.array_equal(np.load(f"{folder}/more/logits.npy"), logits))
