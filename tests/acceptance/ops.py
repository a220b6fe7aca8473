"""Every op of the language against NumPy: values and gradients in f64, values in f32; the same under random layouts."""
import os
import random
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from common import Report, meshc, scratch
from common import run as execute
from generate.layouts import is_refused, layout
from oracle import along, blocks, contractions, elementwise, experts, indexing, joins, loops, neighbours, partial, reductions, safetensors, slices

SEED = 20261120
FORWARD, GRADIENT, FORWARD_F32 = 1e-12, 1e-9, 2e-6


def error(got, expected, largest=0):
    """The largest difference relative to the largest element or `largest` (a tensor of zeros: absolute); infinities must agree; inf for another shape or a NaN."""
    expected = np.asarray(expected)
    if got.shape != expected.shape:
        raise ValueError(f"shape {got.shape}, NumPy {expected.shape}")
    got, expected = got.astype(np.longdouble), expected.astype(np.longdouble)
    finite = np.isfinite(expected)
    if not np.array_equal(got[~finite], expected[~finite]) or not np.isfinite(got[finite]).all():
        return float("inf")
    if not finite.any():
        return 0.0
    largest = max(float(np.abs(expected[finite]).max()), largest)
    return float(np.abs(got[finite] - expected[finite]).max() / (largest if largest else 1))


def fetched(folder, title, names, precision):
    """What meshc computes of the case whose files lie in `folder`."""
    out = os.path.join(folder, title)
    feeds = [part for file in sorted(os.listdir(folder)) if file.endswith(".npy") for part in ("--feed", f"{file[:-4]}={folder}/{file}")]
    execute(meshc(), "fetch", f"{folder}/case.mesh", *names, *feeds, "--params", f"{folder}/params.safetensors", "--precision", precision, "--out", out)
    return {file[:-4]: np.load(os.path.join(out, file)) for file in os.listdir(out)}


class Measured:
    """A case in a folder of its own: what NumPy says of it, and how far meshc is from that."""

    def __init__(self, case, folder):
        self.case, self.folder = case, folder
        os.makedirs(folder)
        arrays, params = case.arrays(np.random.default_rng([SEED, zlib.crc32(case.name.encode())]))
        safetensors.write(os.path.join(folder, "params.safetensors"), {name: arrays[name] for name in params})
        for name, array in arrays.items():
            if name not in params:
                np.save(os.path.join(folder, f"{name}.npy"), array)
        self.values = case.values_of(arrays)
        self.gradients = {f"grad({name})": value for name, value in case.gradients(arrays, params).items()}
        self.scales = {"loss": case.scale(self.values, arrays)}

    def fetched(self, title, names, precision, rules=""):
        with open(os.path.join(self.folder, "case.mesh"), "w") as file:
            file.write(self.case.spec() + rules)
        return fetched(self.folder, title, names, precision)

    def worst(self, got, note=""):
        """(error of the worst value, its name), the same of gradients; of those that were fetched."""
        return (max(((error(got[n], v, self.scales.get(n, 0)), n + note) for n, v in self.values.items() if n in got), default=(0.0, "")),
                max(((error(got[n], v), n + note) for n, v in self.gradients.items() if n in got), default=(0.0, "")))

    def alone(self, small):
        """On one rank: (values, gradients) in f64, (values, nothing) in f32."""
        double = self.worst(self.fetched("f64", [*self.values, "grad(**)"], "f64"))
        if not small:  # Nothing but the loss asked for: neighbours may be fused.
            double = worse(double, self.worst(self.fetched("fused", ["loss", "grad(**)"], "f64"), " alone"))
        return double, self.worst(self.fetched("f32", list(self.values), "f32"))

    def split(self, count):
        """Under random layouts: (values, gradients), how many layouts. Some are refused, and others drawn for them."""
        found, done, attempt = ((0.0, ""), (0.0, "")), 0, 0
        while done < count and attempt < 6 * count:
            rules, axes = layout(random.Random(f"{SEED} {self.case.name} {attempt}"), self.case.splittable())
            attempt += 1
            try:
                got = self.fetched(f"layout{attempt}", [*self.values, "grad(**)"], "f64", rules)
            except RuntimeError as problem:
                if is_refused(str(problem)):
                    continue
                raise RuntimeError(f"{problem}\n{rules}") from problem
            found = worse(found, self.worst(got, f" on {axes}, layout {attempt - 1}"))
            done += 1
        return found, done


def worse(*pairs):
    return tuple(max(values) for values in zip(*pairs))


def measure(case, folder, small, layouts):
    measured = Measured(case, folder)
    return measured.alone(small), measured.split(layouts)


def run(small):
    report = Report()
    layouts = 1 if small else 8
    cases = [case for part in (elementwise, contractions, reductions, partial, indexing, slices, joins, neighbours, along, experts, loops, blocks) for case in part.cases()]
    print(f"seed {SEED}, {len(cases)} cases; values against NumPy, gradients against differences of NumPy in long doubles (Richardson, step 1e-6); "
          f"the same under {layouts} random layout{'s' * (layouts > 1)} of up to 8 ranks")
    with scratch() as folder, ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(measure, case, os.path.join(folder, str(i)), small, layouts) for i, case in enumerate(cases)]
        for case, future in zip(cases, futures):
            def action(case=case, future=future):
                (alone, ((single, where), _)), (split, done) = future.result()
                (forward, at), (gradient, of) = worse(alone, split)
                good = forward <= FORWARD and gradient <= GRADIENT and single <= FORWARD_F32 and done > 0
                report.check(case.name, f"{forward:.1e} ({at}), {gradient:.1e} ({of}), f32 {single:.1e} ({where}), {done} layouts", f"{FORWARD}, {GRADIENT}, {FORWARD_F32}", good)

            report.attempt(case.name, action)
    return report
