#!/usr/bin/env python3
"""`meshc fetch` against NumPy: the perceptron of specs/mlp.mesh, its gradients by hand, three steps of Adam; and what
fetch refuses. Usage: fetch_test.py MESHC SPEC"""
import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np

MESHC, SPEC = sys.argv[1:3]
SIZES = {"batch": 10, "pixel": 13, "hidden": 9, "class": 5}


def reference(params, image, label):
    """loss, {gradients}, {values} of the model, in f64."""
    x = image / 255.0
    h = np.maximum(x @ params["w1"] + params["b1"], 0)
    logits = h @ params["w2"] + params["b2"]
    shifted = logits - logits.max(axis=1, keepdims=True)
    p = np.exp(shifted) / np.exp(shifted).sum(axis=1, keepdims=True)
    rows = np.arange(len(label))
    loss = -np.log(p[rows, label]).mean()
    d_logits = p.copy()
    d_logits[rows, label] -= 1
    d_logits /= len(label)
    d_h = (d_logits @ params["w2"].T) * (h > 0)
    gradients = {"w1": x.T @ d_h, "b1": d_h.sum(0), "w2": h.T @ d_logits, "b2": d_logits.sum(0)}
    return loss, gradients, {"h": h, "logits": logits, "x": x}


def adam(params, gradients, state, step, rate=1e-3, beta1=0.9, beta2=0.999, epsilon=1e-8):
    for name, g in gradients.items():
        m, v = state.setdefault(name, [0.0, 0.0])
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        state[name] = [m, v]
        params[name] = params[name] - rate * (m / (1 - beta1**step)) / (np.sqrt(v / (1 - beta2**step)) + epsilon)


class Fetch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        random = np.random.default_rng(1)
        cls.image = random.integers(0, 256, (SIZES["batch"], SIZES["pixel"])).astype(np.uint8)
        cls.label = random.integers(0, SIZES["class"], SIZES["batch"]).astype(np.int32)
        np.save(cls.path("image.npy"), cls.image)
        np.save(cls.path("label.npy"), cls.label)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    def run_fetch(self, *arguments, feeds=("image", "label")):
        command = [MESHC, "fetch", SPEC, *arguments, "--set", ",".join(f"{k}={v}" for k, v in SIZES.items())]
        if "--layout" not in arguments:
            command += ["--layout", "whole"]
        for name in feeds:
            command += ["--feed", f"{name}={self.path(name)}.npy"]
        return subprocess.run(command, capture_output=True, text=True)

    def fetch(self, *arguments, **options):
        """{name: array} of everything fetched."""
        with tempfile.TemporaryDirectory() as out:
            done = self.run_fetch(*arguments, "--out", out, **options)
            self.assertEqual(done.returncode, 0, done.stderr)
            return {name[:-4]: np.load(os.path.join(out, name)) for name in os.listdir(out)}

    def close(self, given, expected, bound, what):
        error = np.linalg.norm(given - expected) / max(np.linalg.norm(expected), 1e-30)
        self.assertLessEqual(error, bound, what)
        self.assertEqual(np.shape(given), np.shape(expected), what)

    def test_values_and_gradients(self):
        for layout in ("whole", "data", "model", "both", "weights", "three"):
            for precision, bound in (("f64", 1e-12), ("f32", 1e-5)):
                got = self.fetch("loss", "h", "logits", "x", "grad(**)", "grad_norm", "param(**)", "--layout", layout,
                                 "--seed", "7", "--precision", precision)
                params = {name: got[f"param({name})"].astype(np.float64) for name in ("w1", "b1", "w2", "b2")}
                self.assertEqual(got["h"].dtype, np.float64 if precision == "f64" else np.float32)
                loss, gradients, values = reference(params, self.image, self.label)
                self.close(got["loss"], loss, bound, f"{layout} loss")
                for name, gradient in gradients.items():
                    self.close(got[f"grad({name})"], gradient, bound, f"{layout} {precision} grad({name})")
                norm = np.sqrt(sum((gradient**2).sum() for gradient in gradients.values()))
                self.close(got["grad_norm"], norm, bound, f"{layout} {precision} grad_norm")
                for name, value in values.items():
                    self.close(got[name], value, bound, f"{layout} {precision} {name}")

    def test_steps(self):
        start = self.fetch("param(**)", "--precision", "f64")
        params = {name: start[f"param({name})"] for name in ("w1", "b1", "w2", "b2")}
        state, steps = {}, 3
        for step in range(1, steps + 1):
            loss, gradients, _ = reference(params, self.image, self.label)
            before = dict(params)
            adam(params, gradients, state, step)
        got = self.fetch("loss", "grad(w1)", "param(**)", "--steps", str(steps), "--precision", "f64", "--layout", "both")
        self.close(got["loss"], loss, 1e-12, "the loss is that of the last step before its update")
        self.close(got["grad(w1)"], gradients["w1"], 1e-10, "gradient")
        for name, value in params.items():
            self.close(got[f"param({name})"], value, 1e-12, name)
            self.assertGreater(np.abs(value - before[name]).max(), 0)

    def test_parameters_from_a_file(self):
        file = self.path("params.safetensors")
        two = self.fetch("param(**)", "--steps", "2", "--save-params", file, "--precision", "f64")
        again = self.fetch("param(**)", "loss", "--params", file, "--precision", "f64", "--layout", "three")
        for name in two:
            np.testing.assert_array_equal(two[name], again[name])

    def refused(self, code, text, *arguments, **options):
        done = self.run_fetch(*arguments, **options)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(text, done.stderr)

    def test_refusals(self):
        out = ("--out", self.path("never"))
        self.refused(1, "no value is called `los`", "los", *out)
        self.refused(1, "did you mean `loss`?", "los", *out)
        self.refused(1, "did you mean `grad(w1)`?", "grad(w3)", *out)
        self.refused(1, "there is no parameter `w3`; did you mean `param(w1)`?", "param(w3)", *out)
        self.refused(1, "nothing is fed to `label`", "loss", *out, feeds=("image",))
        self.refused(2, "--out DIR is needed", "loss")
        self.refused(2, "nothing to fetch", *out)
        self.refused(2, "expected NAME=FILE.npy", "loss", "--feed", "image", *out)
        with open(self.path("untrained.mesh"), "w") as spec:
            spec.write("dim n = 3\nmodel Still { input x : real[n]\n state s : real[n] = zeros\n s <- s + x }\n")
        done = subprocess.run([MESHC, "fetch", self.path("untrained.mesh"), "grad_norm", *out], capture_output=True, text=True)
        self.assertIn("there is no `grad_norm`", done.stderr)
        np.save(self.path("large.npy"), np.full(SIZES["batch"], 5, np.int64))
        self.refused(1, "feed `label` holds 5 at [0], but its indices must lie in 0 to 4", "loss", *out, "--feed",
                     "label=" + self.path("large.npy"), feeds=("image",))
        np.save(self.path("turned.npy"), self.image.T)
        self.refused(1, "feed `image` has shape [13, 10], but needs [batch = 10, pixel = 13]", "loss", *out, "--feed",
                     "image=" + self.path("turned.npy"), feeds=("label",))
        self.assertFalse(os.path.exists(self.path("never")))


class Verify(unittest.TestCase):
    def verify(self, *arguments):
        return subprocess.run([MESHC, "verify", SPEC, *arguments, "--set", ",".join(f"{k}={v}" for k, v in SIZES.items())],
                              capture_output=True, text=True)

    def test_layouts(self):
        for layout in ("whole", "data", "model", "both", "weights", "three"):
            done = self.verify("--layout", layout)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("values are equal", done.stdout)
            for name in ("grad(w1)", "param(b2)", "logits", "metric loss"):
                self.assertIn(name, done.stdout)

    def test_nan(self):
        """Two programs that agree on NaN agree on nothing."""
        with tempfile.NamedTemporaryFile("w", suffix=".mesh") as spec:
            spec.write("dim batch = 8\nmodel Root {\n  input x : real[batch]\n  param w : real = ones\n"
                       "  y = sqrt(x - 100) * w\n  z = x * w\n  loss = mean[batch](y)\n  minimize loss with sgd(lr: 0.1)\n}\n"
                       "mesh line { all: 2 }\nlayout default on line { batch -> all }\n")
            spec.flush()
            done = subprocess.run([MESHC, "verify", spec.name], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"(?m)^metric loss .* NaN$")
        self.assertRegex(done.stdout, r"(?m)^z .* equal$")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
