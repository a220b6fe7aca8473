"""`meshc predict`: values of every sample in order, under layouts and rank counts, against NumPy."""
import json
import os

import numpy as np

from checkpoints import tensors as read_checkpoint
from common import meshc, scratch
from common import run as execute

SEED = 20261124
BOUND = 1e-12
SAMPLES = 1003

SPEC = """dim batch = 48, pixel = 20, hidden = 18, layer = 2, class = 5, cell = batch * hidden
model Net {
  input image : u8[batch, pixel]
  input label : index(class)[batch]
  param w1 : real[pixel, hidden] = fan_in[pixel]
  param w2 : real[hidden, class] = fan_in[hidden]
  h = dot[pixel](real(image) / 255, w1)
  repeat layer {
    param w : real[hidden] = normal(std: 1)
    h = dropout(relu(h * w), rate: 0.1)
    energy = sum[hidden](h ^ 2)
  }
  logits = dot[hidden](h, w2)
  turned : real[class, batch] = logits
  cells  = tanh(h[batch * hidden as cell])[cell as batch * hidden]
  chosen = argmax[class](logits)
  loss   = mean[batch](cross_entropy[class](logits, label))
  other  = logits - mean[batch](logits)
  near   = dot[class](logits, logits[batch as second])
  minimize loss with adam(lr: 1e-2)
}
dim second = batch
mesh line { all: 3 }
mesh plane { rows: 2, columns: 2 }
layout samples on line { batch -> all }
layout features on line { hidden -> all }
layout plane on plane { batch -> rows; hidden -> columns }
layout parts on line { batch -> all { accumulate: 4 } }
"""


def numpy_values(image, w):
    h = image / 255 @ w["w1"]
    energy = []
    for turn in w["layer.w"]:
        h = np.maximum(h * turn, 0)
        energy.append((h**2).sum(1))
    logits = h @ w["w2"]
    return {"logits": logits, "turned": logits, "cells": np.tanh(h), "chosen": logits.argmax(1), "layer.energy": np.stack(energy, 1)}


def check(report, small):
    random = np.random.default_rng(SEED)
    with scratch() as folder:
        image = random.integers(0, 256, (SAMPLES, 20)).astype(np.uint8)
        for name, array in {"image": image, "label": random.integers(0, 5, SAMPLES).astype(np.int32), "few": image[:7]}.items():
            np.save(f"{folder}/{name}.npy", array)
        with open(f"{folder}/net.mesh", "w") as file:
            file.write(SPEC)
        with open(f"{folder}/net.yaml", "w") as file:
            file.write("data: { image: {file: image.npy}, label: {file: label.npy} }\ntrain: { steps: 5 }\ncheckpoint: { dir: ck }\n")
        execute(meshc(), "run", "net.mesh", "--layout", "samples", "--precision", "f64", "-A", "oversubscribed", cwd=folder)
        os.remove(f"{folder}/label.npy")  # nothing that is predicted reads it
        expected = numpy_values(image, read_checkpoint(f"{folder}/ck/step-5"))
        names = list(expected)
        for layout in ("samples", "plane") if small else ("samples", "features", "plane", "parts"):
            said = execute(meshc(), "predict", "net.mesh", *names, "--layout", layout, "--precision", "f64", "--params", "ck", "--out", f"out-{layout}", "--json", "-A", "oversubscribed", cwd=folder)
            listed = json.loads(said.stdout)
            compare(report, layout, f"{folder}/out-{layout}", expected)
            report.true(f"{layout}: what is listed", listed["samples"] == SAMPLES and {one["name"]: one["shape"] for one in listed["predicted"]} ==
                        {name: list(array.shape) for name, array in expected.items()}, listed)
        check_program(report, folder, expected)
        check_mistakes(report, folder)
        check_without_minimize(report, folder, image)


def compare(report, title, out, expected):
    for name, array in expected.items():
        got = np.load(f"{out}/{name}.npy")
        worst = float(np.abs(got - array).max()) if got.shape == array.shape else float("inf")
        report.check(f"{title}: {name} of {len(array)} samples as NumPy", f"{worst:.1e}", BOUND, worst <= BOUND)
    report.true(f"{title}: no other files", sorted(os.listdir(out)) == sorted(f"{name}.npy" for name in expected), os.listdir(out))


def check_program(report, folder, expected):
    """A built program, on fewer samples than a batch too."""
    execute(meshc(), "build", "net.mesh", "--layout", "samples", "--precision", "f64", "--predict", "logits", "--predict", "layer.energy", "-o", "built", cwd=folder)
    some = {name: expected[name] for name in ("logits", "layer.energy")}
    for how in (("-n", "3"), ("--threads",)):
        execute("built/net", "predict", *how, "--params", "ck", "--out", "again", cwd=folder)
        report.true(f"the built program, {' '.join(how)}", all(np.array_equal(np.load(f"{folder}/again/{name}.npy"), np.load(f"{folder}/out-samples/{name}.npy")) for name in some))
    execute("built/net", "predict", "--threads", "--params", "ck", "--out", "few", "data.image.file=few.npy", cwd=folder)
    for name, array in some.items():
        worst = float(np.abs(np.load(f"{folder}/few/{name}.npy") - array[:7]).max())
        report.check(f"{name} of seven samples in a batch of 48", f"{worst:.1e}", BOUND, worst <= BOUND)


def check_mistakes(report, folder):
    chosen = ("--layout", "samples", "--params", "ck", "-A", "oversubscribed")
    for arguments, code, said in (
            (("loss", "--out", "o"), 1, "error[E0218]: `loss` has no dim `batch`: it is no value of each sample"),
            (("other", "--out", "o"), 1, "error[E0218]: the value of a sample depends on the others of its batch"),
            (("near", "--out", "o"), 1, "error[E0218]: the value of a sample depends on the others of its batch"),
            (("logit", "--out", "o"), 1, "did you mean `logits`?"),
            (("logits",), 2, "--out DIR is needed"),
            (("--out", "o"), 2, "nothing to predict: give names of values after the spec"),
            (("grad(w1)", "--out", "o"), 2, "`grad(w1)` is no value of samples: `meshc fetch` gives gradients and parameters"),
            (("logits", "--out", "net.mesh"), 3, "cannot write `net.mesh/logits.npy`"),
            (("logits", "--out", "o", 'data.image={mix: [{file: few.npy}, {file: image.npy}]}'), 1, "a mixture has no end: of which samples are values wanted?"),
    ):
        done = execute(meshc(), "predict", "net.mesh", *arguments, *chosen, code=None, cwd=folder)
        report.true(f"meshc predict net.mesh {' '.join(arguments)}", done.returncode == code and said in done.stderr and not os.path.exists(f"{folder}/o/logits.npy"), f"{done.returncode}: {done.stderr[-400:]}")


# A sampler, a feature extractor: specs that say nothing of training.
ALONE = """dim batch = 48, pixel = 20, hidden = 6
model %s {
  input image : u8[batch, pixel]
  %s
  seen = sum[pixel](%s)
}
mesh line { all: 3 }
layout samples on line { batch -> all }
"""


def check_without_minimize(report, folder, image):
    for model, parameter, of in (("Scaled", "param w : real[pixel] = 2", "real(image) * w"), ("Bare", "", "real(image)")):
        with open(f"{folder}/{model}.mesh", "w") as file:
            file.write(ALONE % (model, parameter, of))
        data = ("data.image.file=image.npy", "--layout", "samples", "-A", "oversubscribed")
        given = ()
        if parameter:
            np.save(f"{folder}/batch.npy", image[:48])
            execute(meshc(), "run", f"{model}.mesh", "data.image.file=batch.npy", "train.steps=1", "checkpoint.dir=ck-alone", *data[1:], cwd=folder)
            given = ("--params", "ck-alone")
        done = execute(meshc(), "predict", f"{model}.mesh", "seen", *data, *given, "--out", f"out-{model}", "--json", cwd=folder)
        values, whole = np.load(f"{folder}/out-{model}/seen.npy"), image.astype(np.float64).sum(1) * (2 if parameter else 1)
        report.true(f"{model}, without `minimize`: every sample, as NumPy", json.loads(done.stdout)["samples"] == SAMPLES and np.array_equal(values, whole), values.shape)
