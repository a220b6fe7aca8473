"""Random numbers of a step, and dropout with its gradient, against Philox4x32-10 in NumPy; the same under every layout."""
import numpy as np

from common import Report, meshc, scratch
from common import run as execute
from oracle import safetensors
from oracle.philox import normal, philox, uniform

SEED = 20261120
BOUNDS = {"f64": (1e-14, 1e-12), "f32": (1e-6, 5e-6)}  # of draws, and of what is computed with them

SPEC = """dim a = 7, b = 5, l = 3, m = 2, c = 9
block noisy(v : real[a, b]) -> real[a, b] {
  return 0.5 * dropout[a](v, rate: 0.5) + 0.3 * v
}
model Noise {
  input weight : real[a, b]
  param p : real[a, b] = zeros
  param w : real[b, c] = zeros
  u = random_uniform[a, b](low: -1, high: 3)
  n = random_normal[b, a](mean: 2, std: 0.5)
  n2 = random_normal[b, a]()
  s = random_normal()
  h = dropout(p, rate: 0.3) * n + u
  repeat l {
    repeat m {
      h = sin(noisy(h)) + 0.25 * dropout(h, rate: 0.25)
      r = random_uniform[c]()
      q = dot[b](dropout(h, rate: 0.75), w)
      t = random_normal[b]()
    }
    h = h + 0.1 * dropout[b](h, rate: 0.1)
  }
  loss = sum[a, b](h * weight)
  minimize loss with sgd(lr: 0.1)
}
mesh line { x: 3 }
mesh plane { x: 2, y: 2 }
layout whole on line { replicate over x }
layout rows on line { a -> x; c -> x unless a }
layout columns on line { b -> x }
layout tiles on plane { a -> x; b -> y; c -> x unless a }
"""


class Model:
    """The model above at a step, forward and backward by hand through its dropouts."""

    def __init__(self, seed, step, p, w, weight):
        self.seed, self.step, self.values = seed, step, {}
        v = self.values
        v["u"] = -1 + 4 * uniform(seed, "random_uniform", [step], (7, 5))
        v["n"] = 2 + 0.5 * normal(seed, "random_normal", [step], (5, 7))
        v["n2"] = normal(seed, "random_normal_2", [step], (5, 7))
        v["s"] = normal(seed, "random_normal_3", [step], ())
        first = self.mask("dropout", 0.3, (7, 5)) * v["n"].T
        h = first * p + v["u"]
        slope, inner = [], {"r": [], "q": [], "t": []}
        for i in range(3):
            for j in range(2):
                turn = (i, j)
                half, other = self.mask("l.m.noisy.dropout", 0.5, (7,), turn)[:, None], self.mask("l.m.dropout", 0.25, (7, 5), turn)
                x = h * (0.5 * half + 0.3)
                slope.append(np.cos(x) * (0.5 * half + 0.3) + 0.25 * other)
                h = np.sin(x) + 0.25 * h * other
                inner["r"].append(uniform(seed, "l.m.random_uniform", [step, *turn], (9,)))
                inner["q"].append((h * self.mask("l.m.dropout_2", 0.75, (7, 5), turn)) @ w)
                inner["t"].append(normal(seed, "l.m.random_normal", [step, *turn], (5,)))
            factor = 1 + 0.1 * self.mask("l.dropout", 0.1, (5,), (i,))
            slope.append(factor * np.ones((7, 1)))
            h = h * factor
        for name, turns in inner.items():
            v[f"l.m.{name}"] = np.stack(turns).reshape(3, 2, *turns[0].shape)
        v["loss"] = np.float64((h * weight).sum())
        d = weight
        for factor in reversed(slope):
            d = d * factor
        v["grad(p)"] = d * first

    def mask(self, path, rate, shape, turns=()):
        return np.where(uniform(self.seed, path, [self.step, *turns], shape) >= rate, 1 / (1 - rate), 0)


def check_words(report):
    """Known answers of Random123's distribution."""
    known = [((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
             ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
             ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0), (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1))]
    good = all(tuple(int(x) for x in philox(np.array([counter]), key)[0]) == words for counter, key, words in known)
    report.true("Philox4x32-10 in NumPy gives the known answers", good, f"{len(known)} of them")


def check_values(report, folder, spec, layouts, steps):
    random = np.random.default_rng(SEED)
    p, w, weight = random.normal(size=(7, 5)), random.normal(size=(5, 9)), random.normal(size=(7, 5))
    np.save(f"{folder}/weight.npy", weight)
    safetensors.write(f"{folder}/p.safetensors", {"p": p, "w": w})
    seen = {}
    for layout in layouts:
        for precision in ("f64", "f32"):
            out = f"{folder}/{layout}-{precision}"
            names = ["u", "n", "n2", "s", "l.m.r", "l.m.q", "l.m.t", "loss", "grad(p)"]
            execute(meshc(), "fetch", spec, *names, "--layout", layout, "--precision", precision, "--feed", f"weight={folder}/weight.npy", "--params", f"{folder}/p.safetensors", "--out", out)
            got = {name: np.load(f"{out}/{name}.npy") for name in names}
            expected = Model(1, 1, p, w, weight).values
            for name in names:
                error = float(np.abs(got[name] - expected[name]).max() / max(1, np.abs(expected[name]).max()))
                bound = BOUNDS[precision][name in ("loss", "grad(p)", "l.m.q")]
                report.check(f"{name}, layout {layout}, {precision}", f"{error:.1e}", bound, got[name].shape == expected[name].shape and error <= bound)
                same = seen.setdefault((name, precision), got[name])
                if name not in ("loss", "l.m.q"):
                    report.true(f"{name}, layout {layout}, {precision}: bit by bit as in the first layout", np.array_equal(same, got[name]))
    for seed, step in ((2, 1), (1, 2), (7, 3))[:steps]:
        out = f"{folder}/{seed}-{step}"
        execute(meshc(), "fetch", spec, "u", "l.m.t", "--layout", "tiles", "--precision", "f64", "--seed", seed, "--steps", step, "--feed", f"weight={folder}/weight.npy", "--out", out)
        expected = Model(seed, step, p, w, weight).values
        error = max(float(np.abs(np.load(f"{out}/{name}.npy") - expected[name]).max()) for name in ("u", "l.m.t"))
        report.check(f"seed {seed}, step {step}", f"{error:.1e}", BOUNDS["f64"][0], error <= BOUNDS["f64"][0])


def check_statistics(report, folder):
    """A large mask: as many entries fall as the rate says, those that stay grow by 1 / (1 - rate)."""
    spec, rate = f"{folder}/many.mesh", 0.1
    with open(spec, "w") as file:
        file.write(f"dim a = 1000, b = 1000\nmodel Many {{\n  input x : real[a]\n  y = dropout(broadcast[b](x), rate: {rate})\n  z = random_normal[a, b]()\n}}\n")
    np.save(f"{folder}/x.npy", np.ones(1000))
    execute(meshc(), "fetch", spec, "y", "z", "--feed", f"x={folder}/x.npy", "--out", f"{folder}/many")
    y, z = np.load(f"{folder}/many/y.npy"), np.load(f"{folder}/many/z.npy").astype(np.float64)
    fallen = float((y == 0).mean())
    report.check("share of entries dropped", f"{abs(fallen - rate):.1e}", "5 standard errors", abs(fallen - rate) < 5 * np.sqrt(rate * (1 - rate) / y.size))
    report.true("what stays grows by 1 / (1 - rate)", set(np.unique(y)) == {np.float32(0), np.float32(1 / (1 - rate))})
    report.check("mean and variance of normal numbers", f"{abs(z.mean()):.1e}, {abs(z.var() - 1):.1e}", "5 standard errors", abs(z.mean()) < 5e-3 and abs(z.var() - 1) < 5 * np.sqrt(2) * 1e-3)


def run(small):
    report = Report()
    print(f"seed {SEED}")
    with scratch() as folder:
        spec = f"{folder}/noise.mesh"
        with open(spec, "w") as file:
            file.write(SPEC)
        report.attempt("Philox", lambda: check_words(report))
        layouts = ("whole", "tiles") if small else ("whole", "rows", "columns", "tiles")
        report.attempt("values", lambda: check_values(report, folder, spec, layouts, 1 if small else 3))
        report.attempt("statistics", lambda: check_statistics(report, folder))
        for layout in layouts:
            report.attempt(f"verify {layout}", lambda: report.true(f"verify {layout}, 2 steps", execute(meshc(), "verify", spec, "--layout", layout, "--steps", 2).returncode == 0))
    return report
