"""Every op of the language against NumPy: values and gradients in f64, values in f32."""
import os
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from common import Report, meshc, scratch
from common import run as execute
from oracle import blocks, contractions, elementwise, indexing, loops, reductions, safetensors

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


def measure(case, folder, small):
    """The worst errors of a case: values in f64, gradients in f64, values in f32, each with its name."""
    os.makedirs(folder)
    arrays, params = case.arrays(np.random.default_rng([SEED, zlib.crc32(case.name.encode())]))
    with open(os.path.join(folder, "case.mesh"), "w") as file:
        file.write(case.spec())
    safetensors.write(os.path.join(folder, "params.safetensors"), {name: arrays[name] for name in params})
    for name, array in arrays.items():
        if name not in params:
            np.save(os.path.join(folder, f"{name}.npy"), array)
    values = case.values_of(arrays)
    gradients = {f"grad({name})": value for name, value in case.gradients(arrays, params).items()}
    names = list(values)
    results = []
    scales = {"loss": case.scale(values, arrays)}
    f64 = fetched(folder, "f64", [*names, "grad(**)"], "f64")
    results.append(max((error(f64[n], values[n], scales.get(n, 0)), n) for n in names))
    worst = max((error(f64[n], value), n) for n, value in gradients.items())
    if not small:  # Nothing but the loss asked for: neighbours may be fused.
        fused = fetched(folder, "fused", ["loss", "grad(**)"], "f64")
        results[0] = max(results[0], (error(fused["loss"], values["loss"], scales["loss"]), "loss alone"))
        worst = max([worst] + [(error(fused[n], value), n + " alone") for n, value in gradients.items()])
    results.append(worst)
    f32 = fetched(folder, "f32", names, "f32")
    results.append(max((error(f32[n], values[n], scales.get(n, 0)), n) for n in names))
    return results


def run(small):
    report = Report()
    cases = [case for part in (elementwise, contractions, reductions, indexing, loops, blocks) for case in part.cases()]
    print(f"seed {SEED}, {len(cases)} cases; values against NumPy, gradients against central differences of NumPy in long doubles (step 1e-6)")
    with scratch() as folder, ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(measure, case, os.path.join(folder, str(i)), small) for i, case in enumerate(cases)]
        for case, future in zip(cases, futures):
            def action(case=case, future=future):
                (forward, at), (gradient, of), (single, where) = future.result()
                good = forward <= FORWARD and gradient <= GRADIENT and single <= FORWARD_F32
                report.check(case.name, f"{forward:.1e} ({at}), {gradient:.1e} ({of}), f32 {single:.1e} ({where})", f"{FORWARD}, {GRADIENT}, {FORWARD_F32}", good)

            report.attempt(case.name, action)
    return report
