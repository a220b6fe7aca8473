"""Random models against PyTorch: every named value, every gradient, and what three steps make of the parameters and states, on one rank and under a random
layout (f64). PyTorch computes what a reader of its own (oracle/reader.py) finds in the spec: what the compiler reads, differentiates or lowers wrongly under
every layout alike is seen here alone.

`python3 tests/acceptance/models.py N [ATTEMPT]` prints the spec of model N.
"""
import os
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from common import Report, meshc, scratch
from generate import features
from generate.layouts import is_refused
from generate.model import spec
from oracle import safetensors

SEED = 20261122
BOUND = 1e-9
# What is below this share of the largest value (the largest gradient) of its model is what rounding left of zero: sums that cancel. The error of a
# tensor is relative to its own norm, but to no less than this.
ROUNDING = 1e-5
ATTEMPTS = 6
STEPS = 3


def far(got, expected, least):
    """The norm of the difference, relative to that of what is expected; whole numbers, truths and infinities must be equal."""
    if got.shape != expected.shape:
        raise ValueError(f"shape {got.shape}, PyTorch {expected.shape}")
    if expected.dtype.kind != "f":
        return 0.0 if got.dtype.kind == expected.dtype.kind and np.array_equal(got, expected) else float("inf")
    same = got == expected
    error = np.linalg.norm(np.where(same, 0, got - np.where(same, 0, expected))) / max(norm(expected), least, np.finfo(float).tiny)
    return float(error) if np.isfinite(error) else float("inf")


def norm(array):
    return float(np.linalg.norm(np.where(np.isfinite(array), array, 0)))


def worst(folder, expected):
    """(largest error, its tensor); the folder holds all that is expected and nothing else."""
    names = {name.removesuffix(".npy") for name in os.listdir(folder)}
    if names != set(expected):
        raise ValueError(f"not fetched: {sorted(set(expected) - names)}; unknown to PyTorch: {sorted(names - set(expected))}")
    errors = {}
    for kind in ("grad(", "param(", ""):
        group = {name: value for name, value in expected.items() if name.startswith(kind) and (kind or not name.endswith(")"))}
        least = ROUNDING * max((norm(value) for value in group.values()), default=0)
        for name, value in group.items():
            try:
                errors[name] = far(np.load(os.path.join(folder, name + ".npy")), value, least)
            except ValueError as problem:
                raise ValueError(f"{name}: {problem}") from None
    return max((error, name) for name, error in errors.items())


class Case:
    """A random model: its spec, PyTorch's numbers and the options that feed meshc the same inputs and parameters."""

    def __init__(self, folder, number):
        from oracle.model import Model

        self.folder, self.number = os.path.join(folder, str(number)), number
        os.makedirs(self.folder)
        random = np.random.default_rng([SEED, number])

        def draw(path, kind, shape):
            if kind == "bool":
                return random.random(shape) < 0.6
            if isinstance(kind, int):
                return random.integers(0, kind, shape)
            return random.normal(size=shape, scale=0.6 if kind == "param" else 1)

        model = Model(spec(SEED + number, draws=False).text, draw)
        values, gradients = model.compute()
        self.options = []
        for name, value in model.inputs.items():
            array = value.numpy()
            np.save(f"{self.folder}/{name}.npy", array.astype(np.int32) if array.dtype.kind == "i" else array)
            self.options += ["--feed", f"{name}={self.folder}/{name}.npy"]
        safetensors.write(f"{self.folder}/params.safetensors", {path: value.detach().numpy() for path, value in model.params.items()})
        self.options += ["--params", f"{self.folder}/params.safetensors"]
        gradients = {f"grad({path})": value for path, value in gradients.items()}
        self.first = arrays({**values, **gradients})
        self.slopes = {name: value for name, value in self.first.items() if name == "loss" or name in gradients}
        values, gradients = model.train(STEPS)
        self.together = model.together
        # Of parameters that are no numbers any more nothing can be said, nor of what comes of numbers on the way there.
        self.diverges = not all(value.isfinite().all() for value in model.params.values())
        self.trained = arrays({**values, **{f"grad({path})": g for path, g in gradients.items()}, **{f"param({path})": p for path, p in model.params.items()}})

    def fetch(self, spec_file, title, expected, names, *options):
        """The largest error of what meshc fetches; raises what is wrong with it."""
        out = os.path.join(self.folder, title)
        command = [meshc(), "fetch", spec_file, *names, *self.options, *options, "--precision", "f64", "--out", out]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
        if done.returncode != 0:
            raise Refused(f"{title}: exit code {done.returncode}\n{done.stderr[-2000:]}", done.returncode == 1 and is_refused(done.stderr, self.spec.apart) and self.has_conflict(done.stderr))
        try:
            error, name = worst(out, expected)
        except ValueError as problem:
            raise ValueError(f"{title}: {problem}") from None
        if error > BOUND:
            raise ValueError(f"{title}: {name} differs by {error:.1e}")
        return error

    def has_conflict(self, messages):
        """Two dims on one axis are a conflict only in a value that the model has; beside a loop's own dim what its turns keep has that, too."""
        for dims in re.findall(r"conflicts in .* : \w+\[([^\]]*)\]", messages):
            if not any(set(dims.split(", ")) - {"l", "m"} <= those for those in self.together):
                return False
        return True

    def write(self, attempt):
        """The spec under its attempt-th layout; without one (None)."""
        self.spec = spec(SEED + self.number, attempt or 0, draws=False)
        text = self.spec.text
        path = os.path.join(self.folder, f"{'one' if attempt is None else attempt}.mesh")
        with open(path, "w") as file:
            file.write(text[: text.index("mesh grid")] if attempt is None else text)
        return path


class Refused(RuntimeError):
    def __init__(self, message, rightly):
        super().__init__(message)
        self.rightly = rightly


def arrays(tensors):
    return {name: np.array(tensor.detach().numpy()) for name, tensor in tensors.items()}


def compare(case):
    """(how it failed or None, the largest error, layouts refused). Names that are fetched stay in memory; what is fetched alone may be fused away."""
    every, trained = ("**", "grad(**)"), ("**", "grad(**)", "param(**)", "--steps", str(STEPS))
    mixing = ("-W", "batch_coupled") if case.number % 2 else ()
    try:
        one = case.write(None)
        error = max(case.fetch(one, "one rank", case.slopes, ("loss", "grad(**)")), case.fetch(one, "one rank, every value", case.first, every))
        if not case.diverges:
            error = max(error, case.fetch(one, f"one rank, {STEPS} steps", case.trained, trained))
        for attempt in range(ATTEMPTS):
            path = case.write(attempt)
            try:
                error = max(error, case.fetch(path, f"layout {attempt}", case.slopes, ("loss", "grad(**)"), *mixing))
            except Refused as refused:
                if not refused.rightly:
                    raise
                continue
            if not case.diverges:
                error = max(error, case.fetch(path, f"layout {attempt}, {STEPS} steps", case.trained, trained, *mixing))
            return None, error, attempt
        return None, error, ATTEMPTS
    except (RuntimeError, ValueError, subprocess.TimeoutExpired) as problem:
        return str(problem), float("inf"), 0


def run(small, count=None):
    report = Report()
    full = not small and not count
    count = count or (20 if small else 1000)
    try:
        import torch
    except ImportError:
        report.skip("random models beside PyTorch", "it is not installed (Debian: python3-torch)")
        return report
    torch.set_num_threads(1)
    print(f"seed {SEED}, {count} models in f64, {STEPS} steps, on one rank and each under a random layout of 1 to 8 ranks, relative bound {BOUND}; "
          f"what is below {ROUNDING} of the largest value, gradient or parameter of its model is taken as zero up to rounding: {BOUND * ROUNDING:.0e} of that")
    equal = alone = refused = values = diverged = 0
    largest, found = 0.0, Counter()
    with ThreadPoolExecutor(2) as pool:
        for begin in range(0, count, 50):
            with scratch() as folder:
                cases = [Case(folder, number) for number in range(begin, min(begin + 50, count))]
                for case, (problem, error, attempts) in zip(cases, pool.map(compare, cases)):
                    if problem:
                        report.true(f"model {case.number}", False, problem)
                        continue
                    equal += 1
                    found += case.spec.features
                    values += len(case.first if case.diverges else case.trained)
                    diverged += case.diverges
                    refused += attempts
                    alone += attempts == ATTEMPTS
                    largest = max(largest, error)
    report.check(f"models equal to PyTorch, {values} values, gradients and parameters", equal, f"{count} of {count}", equal == count)
    report.check("largest error", f"{largest:.1e}", BOUND, largest <= BOUND)
    report.true("few models without a valid layout", alone <= count // 20 + 1, f"{alone}; layouts refused rightly: {refused}")
    report.check("models of which training leaves no numbers, compared before it alone", diverged, f"at most {count // 100}", diverged <= count // 100)
    features.told(report, found, features.OF_MODELS | features.OF_LAYOUTS, full)
    return report


if __name__ == "__main__":
    print(spec(SEED + int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0, draws=False).text)
