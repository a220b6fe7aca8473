"""Convolution and pooling: values and gradients against NumPy over a grid of sizes, kernels, strides, dilations, paddings and groups; the same under
every split of every dim; the bytes of halos; a sample emitted as C++, bit by bit."""
import itertools
import json
import os
import random
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import emitted
from common import TOP, Report, meshc, scratch
from common import run as execute
from oracle import safetensors
from oracle import windows as oracle
from oracle.windows import Window

SEED = 20261125
BOUND = 1e-9
OPS = ("conv", "conv_transpose", "max_pool", "avg_pool")


def brackets(op, names, windows):
    """`h0: k0 stride 2 as n0, h1: k1 as n1`"""
    items = []
    for name, w in zip(names, windows):
        size = f"k{name}" if op.startswith("conv") or w.kernel % 2 else str(w.kernel)
        steps = (f" stride {w.stride}" if w.stride > 1 else "") + (f" dilate {w.dilation}" if w.dilation > 1 else "")
        wide, narrow = (f"n{name}", f"h{name}") if op == "conv_transpose" else (f"h{name}", f"n{name}")
        items.append(f"{wide}: {size}{steps} as {narrow}")
    return ", ".join(items)


def pad_text(windows):
    (before, after), = {(w.before, w.after) for w in windows}  # one for all dims
    return "" if before == after == 0 else f", pad: {before}" if before == after else f", pad: ({before}, {after})"


class One:
    """An op of a small model, with names that end in `tag`: its dims, its lines, and what NumPy says of it."""

    def __init__(self, tag, op, windows, batch=2, groups=0, inner=3, out=2):
        """groups: 0: dense; -1: depthwise, `inner` channels each by itself; else so many groups of `inner` channels."""
        self.tag, self.op, self.windows, self.batch, self.groups, self.inner, self.out = tag, op, windows, batch, groups, inner, out
        self.names = [f"{tag}_{i}" for i in range(len(windows))]
        self.pools = op.endswith("pool")

    def channels(self):
        """Names of the dims of groups, channels in and channels out."""
        if self.pools or self.groups == -1:
            return [f"c{self.tag}"], [], []
        return ([f"g{self.tag}"] if self.groups else []), [f"c{self.tag}"], [f"o{self.tag}"]

    def dims(self):
        sizes = {f"b{self.tag}": self.batch, f"c{self.tag}": self.inner}
        if self.groups > 0 and not self.pools:
            sizes[f"g{self.tag}"] = self.groups
        if not self.pools and self.groups != -1:
            sizes[f"o{self.tag}"] = self.out
        for name, w in zip(self.names, self.windows):
            sizes.update({f"h{name}": w.wide, f"n{name}": w.narrow, f"k{name}": w.kernel})
        return sizes

    def used(self):
        """The dims of its tensors."""
        text = " ".join(self.lines())
        return [d for d in self.dims() if d in text.replace("[", " ").replace("]", " ").replace(",", " ").replace(":", " ").split()]

    def tensors(self):
        """Dims of the first operand, the weights (nothing for pools) and the result, as the kernel has them."""
        group, inner, out = self.channels()
        batch = [f"b{self.tag}"]
        wide, narrow = ([f"{side}{n}" for n in self.names] for side in "hn")
        x, y = batch + wide + group + inner, batch + narrow + group + (out or ([] if self.groups == -1 or self.pools else out))
        if self.pools:
            return x, [], batch + narrow + group
        w = [f"k{n}" for n in self.names] + group + inner + out
        return (y, w, x) if self.op == "conv_transpose" else (x, w, y)

    def contracted(self):
        _, inner, out = self.channels()
        return out if self.op == "conv_transpose" else inner

    def lines(self):
        first, weights, result = self.tensors()
        tag = self.tag
        lines = [f"param p{tag} : real[{', '.join(first)}] = normal(std: 1)"]
        inside = brackets(self.op, self.names, self.windows) + "".join(f", {d}" for d in self.contracted())
        operands = f"p{tag}"
        if weights:
            lines.append(f"param w{tag} : real[{', '.join(weights)}] = normal(std: 1)")
            operands += f", w{tag}"
        lines.append(f"y{tag} = {self.op}[{inside}]({operands}{pad_text(self.windows)})")
        lines.append(f"l{tag} = sum[{', '.join(result)}](y{tag} ^ 2)")
        return lines

    def arrays(self, random):
        sizes = self.dims()
        first, weights, _ = self.tensors()
        found = {f"p{self.tag}": random.standard_normal([sizes[d] for d in first])}
        if weights:
            found[f"w{self.tag}"] = random.standard_normal([sizes[d] for d in weights])
        return found

    def expected(self, arrays):
        """{name: array} of the value and of the gradients of the sum of its squares."""
        p, windows, tag = arrays[f"p{self.tag}"], self.windows, self.tag
        spatial = 1 + len(windows)
        if self.op == "max_pool":
            y, which = oracle.max_pool(p, windows)
            return {f"y{tag}": y, f"grad(p{tag})": oracle.max_pool_gradient(which, 2 * y, windows)}
        if self.op == "avg_pool":
            y = oracle.avg_pool(p, windows)
            return {f"y{tag}": y, f"grad(p{tag})": oracle.avg_pool_gradient(2 * y, windows)}
        whole = p if self.groups > 0 else p[..., None] if self.groups == -1 else np.expand_dims(p, spatial)
        w = arrays[f"w{tag}"]
        kernel = w if self.groups > 0 else w[..., None, None] if self.groups == -1 else np.expand_dims(w, len(windows))
        if self.op == "conv":
            y = oracle.conv(whole, kernel, windows)
            d_p, d_w = oracle.conv_transpose(2 * y, kernel, windows), oracle.conv_weights(whole, 2 * y, windows)
        else:
            y = oracle.conv_transpose(whole, kernel, windows)
            d_p, d_w = oracle.conv(2 * y, kernel, windows), oracle.conv_weights(2 * y, whole, windows)
        shape = y.shape if self.groups > 0 else y.shape[:-1] if self.groups == -1 else y.shape[:spatial] + y.shape[spatial + 1:]
        return {f"y{tag}": y.reshape(shape), f"grad(p{tag})": d_p.reshape(p.shape), f"grad(w{tag})": d_w.reshape(w.shape)}


def spec(ones, layout=""):
    lines = [f"dim {', '.join(f'{name} = {size}' for name, size in one.dims().items() if name in one.used())}" for one in ones]
    lines += ["dim sample = 1", "model Windows {", "  input zero : real[sample]"] + [f"  {line}" for one in ones for line in one.lines()]
    lines += [f"  loss = mean[sample](zero) + {' + '.join(f'l{one.tag}' for one in ones)}", "  minimize loss with sgd(lr: 0.1)", "}", ""]
    return "\n".join(lines) + layout


# ---- against NumPy


def grid():
    """Every window that fits, of sizes 1 to 9, kernels 1 to 5, strides 1 to 3, dilations 1 and 2, four paddings."""
    for wide, kernel, stride, dilation in itertools.product(range(1, 10), range(1, 6), range(1, 4), (1, 2)):
        for before, after in ((0, 0), (1, 1), (2, 1), (0, 3)):
            window = Window(wide, kernel, stride, dilation, before, after)
            if window.narrow > 0:
                yield window


def holds_something(window):
    return all(window.inside(n) for n in range(window.narrow))


def grid_cases():
    """Each window of the grid by each op, in 1 dim; groups in turn. Of two and three dims pairs and triples of neighbours in a shuffled grid."""
    order = random.Random(SEED)
    windows = list(grid())
    count = itertools.count()
    groups = itertools.cycle((0, -1, 2))
    for window in windows:
        for op in OPS:
            if op.startswith("conv") or holds_something(window):
                yield One(f"{next(count)}", op, [window], groups=next(groups))
    for dims in (2, 3):
        alike = {}
        for window in windows:
            alike.setdefault((window.before, window.after), []).append(window)
        for (before, after), some in alike.items():
            order.shuffle(some)
            for i in range(0, 90 if dims == 2 else 30, dims):
                for op in OPS:
                    part = [w for w in some if op.startswith("conv") or holds_something(w)][i:i + dims]
                    yield One(f"{next(count)}", op, part, groups=next(groups), inner=2 if dims == 3 else 3)


def error(got, expected):
    if got.shape != expected.shape:
        raise ValueError(f"shape {got.shape}, NumPy {expected.shape}")
    return float(np.abs(got - expected).max() / max(1.0, np.abs(expected).max())) if np.isfinite(got).all() else float("inf")


def worst_of(folder, number, ones, precision="f64"):
    """(error, the value and its op) of several ops in one model."""
    path = os.path.join(folder, str(number))
    os.makedirs(path)
    values = np.random.default_rng([SEED, number])
    arrays = {name: array for one in ones for name, array in one.arrays(values).items()}
    safetensors.write(f"{path}/params.safetensors", arrays)
    np.save(f"{path}/zero.npy", np.zeros(1))
    with open(f"{path}/case.mesh", "w") as file:
        file.write(spec(ones))
    expected = {name: (array, one) for one in ones for name, array in one.expected(arrays).items()}
    names = [name for name in expected if not name.startswith("grad")]
    execute(meshc(), "fetch", f"{path}/case.mesh", *names, "grad(**)", "--feed", f"zero={path}/zero.npy", "--params", f"{path}/params.safetensors", "--precision", precision, "--out", path)
    return max((error(np.load(f"{path}/{name}.npy"), array), f"{name}, {one.op}[{one.windows}] groups {one.groups}") for name, (array, one) in expected.items())


def against_numpy(report, folder, pool):
    cases = list(grid_cases())
    parts = [cases[i:i + 60] for i in range(0, len(cases), 60)]
    found = list(pool.map(lambda part: worst_of(folder, *part), enumerate(parts)))
    worst, where = max(found)
    report.check(f"{len(cases)} convolutions and poolings, values and gradients, in f64: {where}", worst, 1e-12)
    worst, where = worst_of(folder, len(parts), cases[::97], "f32")
    report.check(f"of them {len(cases[::97])} in f32: {where}", worst, 1e-5)


# ---- NumPy against PyTorch


def of_torch(torch, one, arrays):
    """{name: array} as `expected` has it, or nothing where PyTorch has no such padding or dilation."""
    functional, dims = torch.nn.functional, len(one.windows)
    settings = {key: tuple(getattr(w, key) for w in one.windows) for key in ("stride", "dilation")}
    pads, kernel = tuple(w.before for w in one.windows), tuple(w.kernel for w in one.windows)
    if any(w.before != w.after for w in one.windows) or one.pools and any(2 * w.before > w.kernel for w in one.windows):
        return None
    if one.op == "avg_pool" and any(w.dilation > 1 for w in one.windows):
        return None
    called = {name: torch.from_numpy(array).requires_grad_() for name, array in arrays.items()}
    x, w = called[f"p{one.tag}"], called.get(f"w{one.tag}")
    flat = x.reshape(*x.shape[:1 + dims], -1).movedim(-1, 1)
    if one.pools:
        if one.op == "max_pool":
            y = getattr(functional, f"max_pool{dims}d")(flat, kernel, padding=pads, **settings)
        else:
            y = getattr(functional, f"avg_pool{dims}d")(flat, kernel, settings["stride"], pads, count_include_pad=False)
    else:
        groups = one.inner if one.groups == -1 else max(one.groups, 1)
        whole = w if one.groups > 0 else w[..., None, None] if one.groups == -1 else w.unsqueeze(dims)  # [kernel.., groups, in, out]
        if one.op == "conv":
            y = getattr(functional, f"conv{dims}d")(flat, weights_of(whole, dims), padding=pads, groups=groups, **settings)
        else:
            more = tuple(v.wide - ((v.narrow - 1) * v.stride + v.dilation * (v.kernel - 1) + 1 - 2 * v.before) for v in one.windows)
            if any(m >= max(v.stride, v.dilation) for m, v in zip(more, one.windows)):
                return None
            y = getattr(functional, f"conv_transpose{dims}d")(flat, weights_of(whole, dims), stride=settings["stride"], padding=pads, output_padding=more, groups=groups, dilation=settings["dilation"])
    y = y.movedim(1, -1).reshape(one.expected(arrays)[f"y{one.tag}"].shape)
    (y ** 2).sum().backward()
    return {f"y{one.tag}": y.detach().numpy(), **{f"grad({name})": value.grad.numpy() for name, value in called.items()}}


def weights_of(whole, dims):
    """[kernel.., groups, in, out] as PyTorch has them: [groups * out, in, kernel..], of a convolution and of its transpose."""
    return whole.permute(dims, dims + 2, dims + 1, *range(dims)).flatten(0, 1)


def beside_torch(report):
    try:
        import torch
    except ImportError:
        report.skip("convolution and pooling beside PyTorch", "it is not installed (Debian: python3-torch)")
        return
    found, values = {}, np.random.default_rng(SEED)
    for one in list(grid_cases())[::5]:
        arrays = one.arrays(values)
        if (got := of_torch(torch, one, arrays)) is not None:
            wanted = one.expected(arrays)
            found.setdefault(one.op, []).append(max((error(got[name], wanted[name]), f"{name} {one.windows} groups {one.groups}") for name in wanted))
    for op, errors in found.items():
        worst, where = max(errors)
        report.check(f"{len(errors)} of {op} by NumPy are PyTorch's: {where}", worst, 1e-12)
    report.true("all four ops were compared with PyTorch", set(found) == set(OPS), set(found))


# ---- under layouts

W = Window
SPLITS = [
    One("a", "conv", [W(9, 3, 1, 1, 1, 1)]),
    One("b", "conv", [W(9, 3, 2, 1, 1, 1)], groups=2),
    One("c", "conv", [W(7, 5, 1, 2, 4, 4)], groups=-1),
    One("d", "conv", [W(3, 3, 1, 1, 1, 1)]),
    One("e", "conv", [W(8, 5, 3, 1, 2, 1), W(6, 1, 1, 1, 2, 1)]),
    One("f", "conv", [W(6, 3, 1, 1, 1, 1), W(5, 3, 1, 1, 1, 1)], groups=2, inner=2),
    One("g", "conv", [W(7, 3, 2, 1, 0, 0), W(4, 2, 2, 1, 0, 0)], groups=-1, inner=4),
    One("h", "conv", [W(4, 2, 1), W(3, 3, 1, 1), W(5, 2, 2)], inner=2),
    One("i", "conv_transpose", [W(9, 3, 2, 1, 1, 1)]),
    One("j", "conv_transpose", [W(8, 2, 2), W(7, 3, 1)], groups=2, inner=2),
    One("k", "conv_transpose", [W(9, 4, 3, 2, 3, 3)], groups=-1),
    One("l", "max_pool", [W(9, 3, 2, 1, 1, 1)]),
    One("m", "max_pool", [W(6, 2, 2), W(5, 2, 1)]),
    One("n", "max_pool", [W(9, 5, 1, 1, 2, 2)]),
    One("o", "avg_pool", [W(9, 3, 2, 1, 1, 1)]),
    One("p", "avg_pool", [W(6, 3, 3, 1, 1, 1), W(4, 3, 1, 1, 1, 1)]),
    One("q", "conv", [W(2, 5, 1, 1, 2, 2)]),
    One("s", "conv", [W(9, 9, 1)]),
]


def layouts_of(one):
    """Rules over one axis of every dim, and of the two sides of a window together; over two axes of every two of these."""
    used = one.used()
    groups = [[d] for d in used] + [[f"h{n}", f"n{n}"] for n in one.names]
    for size in (2, 3, 4):
        for group in groups:
            yield f"mesh line {{ x: {size} }}\nlayout default on line {{ {', '.join(group)} -> x }}\n"
    for sizes in ("x: 2, y: 2", "x: 2, y: 3", "x: 3, y: 2"):
        for first, second in itertools.combinations(groups, 2):
            if not set(first) & set(second):
                yield f"mesh grid {{ {sizes} }}\nlayout default on grid {{ {', '.join(first)} -> x; {', '.join(second)} -> y }}\n"
    for group in groups:
        yield f"mesh grid {{ x: 2, y: 2 }}\nlayout default on grid {{ {', '.join(group)} -> x * y }}\n"
    for chosen in itertools.combinations(groups, 3):
        if len({d for group in chosen for d in group}) == sum(len(group) for group in chosen):
            rules = "; ".join(f"{', '.join(group)} -> {axis}" for group, axis in zip(chosen, "xyz"))
            yield f"mesh cube {{ x: 2, y: 2, z: 2 }}\nlayout default on cube {{ {rules} }}\n"


def verified(folder, number, one, layout):
    path = os.path.join(folder, f"split{number}.mesh")
    with open(path, "w") as file:
        file.write(spec([one], layout))
    done = subprocess.run([meshc(), "verify", path, "--precision", "f64", "--bound", str(BOUND)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
    return path, "" if done.returncode == 0 else f"exit code {done.returncode}\n{done.stdout[-1500:]}{done.stderr[-1500:]}"


def under_layouts(report, folder, pool, small):
    cases = [(one, layout) for one in SPLITS for layout in layouts_of(one)]
    if small:  # some, and those of windows side by side on four ranks, of which some own none
        beside = [(one, layout) for one, layout in cases if one.windows[0].stride == one.windows[0].kernel > 1 and "x: 4" in str(layout)]
        cases = random.Random(SEED).sample(cases, 60) + beside
    good = 0
    for (one, layout), (_, problem) in zip(cases, pool.map(lambda at: verified(folder, at[0], *at[1]), enumerate(cases))):
        good += not problem
        if problem:
            report.true(f"{one.op} {one.windows} groups {one.groups}", False, f"{layout}{problem}")
    report.check("layouts under which every value and gradient is that of one rank (f64, 1e-9)", good, len(cases), good == len(cases))


# ---- bytes


def movements(folder, text):
    """(kind, bytes, value) of each collective of a step, but for those of a few numbers."""
    path = os.path.join(folder, "bytes.mesh")
    with open(path, "w") as file:
        file.write(text)
    plan = json.loads(execute(meshc(), "plan", path, "--json").stdout)
    return sorted((c["kind"], c["phase"], c["bytes"]) for c in plan["collectives"] if c["bytes"] >= 64)


CONV = """dim batch = {batch}, h = {h}, w = {w}, c = {c}, o = {o}, ky = {k}, kx = {k}, h2 = {h2}, w2 = {w2}
model M {{
  input x : real[batch, h, w, c]
  param k : real[ky, kx, c, o] = he_normal[ky, kx, c]
  y = conv[h: ky stride {stride} as h2, w: kx stride {stride} as w2, c](x, k, pad: {pad})
  loss = mean[batch, h2, w2, o](y ^ 2)
  minimize loss with sgd(lr: 0.1)
}}
mesh line {{ rows: {ranks} }}
layout default on line {{ h, h2 -> rows }}
"""


def shared_values(report):
    """One value whose readers move windows along different dims of it."""
    path = f"{TOP}/tests/emit/specs/windows.mesh"
    for layout in ("samples", "rows", "tiles", "channels"):
        for axes in ({"samples": ("a=3", "a=2"), "rows": ("a=2", "a=3", "a=4"), "tiles": ("a=2,b=2", "a=3,b=2", "a=2,b=3")}.get(layout, ("a=2,b=2",))):
            done = execute(meshc(), "verify", path, "--layout", layout, "--mesh", axes, "--precision", "f64", "--bound", str(BOUND), code=None)
            report.true(f"many windows of the same values, layout {layout} on {axes}", done.returncode == 0, "" if done.returncode == 0 else done.stdout[-1500:] + done.stderr[-500:])


def bytes_of(report, folder):
    def case(name, sizes, ranks, expected):
        text = CONV.format(**sizes, ranks=ranks)
        found = movements(folder, text)
        report.true(f"{name} on {ranks}", found == sorted(expected), f"{found}, expected {sorted(expected)}")

    small = dict(batch=4, h=24, w=20, c=8, o=16, k=3, h2=24, w2=20, stride=1, pad=1)
    row, weights = 4 * 20 * 8 * 4, 3 * 3 * 8 * 16 * 4
    for ranks in (2, 3, 4, 8):
        # The rank in the middle gives a row to either side, at an end to one alone.
        case("3x3: two rows and the weights' gradient", small, ranks,
             [("halo", "forward", row * (1 if ranks == 2 else 2)), ("all_reduce", "update", int(weights * 2 * (ranks - 1) / ranks))])
    case("7x7, stride 2, pad 3 (three rows one way, two the other)", dict(batch=128, h=224, w=224, c=3, o=64, k=7, h2=112, w2=112, stride=2, pad=3), 2,
         [("halo", "forward", 128 * 224 * 3 * 3 * 4), ("all_reduce", "update", 7 * 7 * 3 * 64 * 4)])

    grouped = """dim batch = 16, h = 16, w = 16, g = 4, c = 8, o = 8, ky = 3, kx = 3
model M {
  input x : real[batch, h, w, g, c]
  param k : real[ky, kx, g, c, o] = he_normal[ky, kx, c]
  y = conv[h: ky, w: kx, c](x, k, pad: 1)
  loss = mean[batch, h, w, g, o](y ^ 2)
  minimize loss with sgd(lr: 0.1)
}
mesh line { all: 4 }
layout default on line { RULE -> all }
"""
    found = movements(folder, grouped.replace("RULE", "g"))
    report.true("groups split: nothing is sent", found == [], found)
    found = movements(folder, grouped.replace("RULE", "batch"))
    report.true("batch of grouped ones split: the weights' gradient alone", [kind for kind, _, _ in found] == ["all_reduce"], found)
    depthwise = grouped.replace(", c](x", "](x").replace(", g, c]", ", g]").replace(", g, c, o]", ", g]").replace("w, g, o]", "w, g]").replace("kx, c]", "kx]").replace("RULE", "g")
    found = movements(folder, depthwise)
    report.true("channels of a depthwise one split: nothing is sent", found == [], found)
    shared = CONV.format(**small, ranks=4).replace("  loss = ", "  z = conv[h: ky, w: kx, c](relu(x), k, pad: 1)\n  m = max_pool[h: 3 as h2, w: 3 as w2](x, pad: 1)\n  loss = mean[batch, h2, w2, c](m) + mean[batch, h, w, o](z) + ")
    found = movements(folder, shared)
    report.true("one exchange for all readers of a value, another for what is made of it", [kind for kind, phase, _ in found if phase == "forward"] == ["halo", "halo"], found)
    unet = json.loads(execute(meshc(), "plan", f"{TOP}/specs/unet.mesh", "--layout", "tiles", "--json").stdout)["collectives"]
    kinds = Counter("numbers" if c["bytes"] < 64 else "gradients" if c["phase"] == "update" else c["kind"] for c in unet)
    report.true("unet on tiles: halos, the gradients' reduction, two metrics, and nothing else", set(kinds) == {"halo", "gradients", "numbers"} and kinds["numbers"] == 2, kinds)


# ---- emitted


def emitted_alike(report, folder, pool, small):
    cases = [(one, layout) for one in SPLITS for layout in layouts_of(one)]
    chosen = random.Random(SEED + 1).sample(cases, 3 if small else 200)
    paths = []
    for number, (one, layout) in enumerate(chosen):
        paths.append(os.path.join(folder, f"emitted{number}.mesh"))
        with open(paths[-1], "w") as file:
            file.write(spec([one], layout))
    found = emitted.compare_all(pool, folder, paths)
    wrong = {name: verdict for name, verdict in found.items() if not verdict.startswith("equal: ")}
    report.true(f"{len(found)} of them emitted as C++: the bits that the interpreter gives", len(found) == len(paths) and not wrong, wrong or "")


def run(small):
    report = Report()
    print(f"seed {SEED}")
    with scratch() as folder, ThreadPoolExecutor(2) as pool:
        report.attempt("against NumPy", lambda: against_numpy(report, folder, pool))
        report.attempt("beside PyTorch", lambda: beside_torch(report))
        report.attempt("under layouts", lambda: under_layouts(report, folder, pool, small))
        report.attempt("shared values", lambda: shared_values(report))
        report.attempt("bytes", lambda: bytes_of(report, folder))
        report.attempt("emitted", lambda: emitted_alike(report, folder, pool, small))
    return report
