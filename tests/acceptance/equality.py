"""The models of specs/ after 30 steps under every kind of layout against one rank: loss and every gradient, before clipping."""
import os

import numpy as np

from common import TOP, Report, meshc, scratch, sets
from common import run as execute

SEED = 20261120
GPT = dict(batch=6, seq=16, embed=32, heads=4, head_dim=8, layer=2, vocab=64)
MLP = dict(batch=12, hidden=24)
TRANSLATE = dict(batch=12, source=11, target=14, embed=24, heads=4, head_dim=6, ffn=48, vocab=53)
RESNET = dict(batch=4, wide=8, deep=12, h0=20, w0=20)
UNET = dict(batch=3, c0=4, c1=6, c2=8, h0=20, w0=20)
MIXTRAL = dict(batch=6, seq=18, embed=24, kv=2, group=4, head_dim=6, ffn=40, vocab=53, layer=2)

LAYOUTS = """
mesh two { a: 2 }
mesh three { a: 3 }
mesh four { a: 4 }
mesh square { a: 2, b: 2 }
layout batch_2 on two { batch -> a }
layout model_2 on two { HEADS, ffn, vocab -> a }
layout both on square { batch -> a; HEADS, ffn, vocab -> b }
layout batch_3 on three { batch -> a }
layout vocab_4 on four { vocab -> a }
layout product on square { batch -> a * b }
layout zero_1 on square { batch -> a; HEADS, ffn, vocab -> b; optimizer { embed -> a } }
layout params on two { batch -> a; params { embed -> a } }
"""
NAMES = ["batch_2", "model_2", "both", "batch_3", "product", "zero_1", "params"]
ONE = "mesh single { only: 1 }\nlayout one on single { }\n"


def layouts_file(folder, title, heads=None):
    """A file of layouts beside the spec's own: one rank, and those above where the spec calls its heads so."""
    path = os.path.join(folder, f"{title}.mesh")
    with open(path, "w") as file:
        file.write(ONE + (LAYOUTS.replace("HEADS", heads) if heads else ""))
    return path


def own(names, mesh=None):
    return [(name, name, mesh) for name in names]


def feeds(folder, arrays):
    options = []
    for name, array in arrays.items():
        path = os.path.join(folder, f"{name}.npy")
        np.save(path, array)
        options += ["--feed", f"{name}={path}"]
    return options


def fetch(folder, title, spec, options, steps, precision, layout):
    out = os.path.join(folder, f"{title}-{layout[-1]}-{precision}".replace(" ", "-"))
    execute(meshc(), "fetch", *spec, "loss", "grad(**)", *options, *layout, "--steps", steps, "--seed", 7, "--precision", precision, "--out", out, timeout=600)
    return {name: np.load(os.path.join(out, name)) for name in sorted(os.listdir(out)) if name.endswith(".npy")}


def worst(one, many):
    """The largest relative error of a tensor in the Frobenius norm, and its name."""
    if set(one) != set(many):
        raise RuntimeError(f"different files: {sorted(set(one) ^ set(many))}")
    errors = {}
    for name, value in one.items():
        if value.shape != many[name].shape:
            raise RuntimeError(f"{name}: {value.shape} and {many[name].shape}")
        size = np.linalg.norm(value.astype(np.float64))
        errors[name] = np.linalg.norm(value.astype(np.float64) - many[name]) / (size if size else 1)
    name = max(errors, key=errors.get)
    return errors[name], name


def compare(report, folder, title, spec, options, layouts, precisions):
    for precision, steps, bound in precisions:
        one = fetch(folder, title, spec, options, steps, precision, ["--layout", "one"])
        for name, layout, mesh in layouts:
            def action(layout=layout, mesh=mesh, name=name):
                many = fetch(folder, title, spec, options, steps, precision, ["--layout", layout, *(["--mesh", mesh] if mesh else [])])
                error, tensor = worst(one, many)
                report.check(f"{title} {name}, {steps} steps in {precision}, {len(one)} tensors, worst {tensor}", float(f"{error:.2e}"), bound)

            report.attempt(f"{title} {name}, {precision}", action)


def sentences(random, shape, vocab):
    """Lines of every length, from none to all of the last dim; 0 where they are over."""
    numbers = random.integers(3, vocab, shape)
    lengths = random.permutation(np.linspace(0, shape[1] - 1, shape[0]).astype(int))
    return np.where(np.arange(shape[1]) < lengths[:, None], numbers, 0).astype(np.int32), lengths


def compare_gpt(report, folder, random, small, precisions):
    shape = (GPT["batch"], GPT["seq"])
    tokens = {name: random.integers(0, GPT["vocab"], shape).astype(np.int32) for name in ("token", "target")}
    spec = [f"{TOP}/specs/gpt.mesh", layouts_file(folder, "gpt-layouts", "heads")]
    compare(report, folder, "gpt", spec + sets(**GPT), feeds(folder, tokens), own([*NAMES, "ring"]) + [("ring over 2 x 3", "ring", "data=2,ctx=3")], precisions)
    # A vocabulary that does not divide.
    odd = dict(GPT, vocab=53 if small else 50257, layer=1)
    tokens = {name: random.integers(0, odd["vocab"], shape).astype(np.int32) for name in ("token", "target")}
    compare(report, folder, f"gpt vocab {odd['vocab']}", spec + sets(**odd), feeds(folder, tokens), own(["vocab_4"]), precisions)


def compare_mlp(report, folder, random, small, precisions):
    images = {"image": random.integers(0, 256, (MLP["batch"], 784)).astype(np.uint8), "label": random.integers(0, 10, MLP["batch"]).astype(np.int32)}
    spec = [f"{TOP}/specs/mlp.mesh", layouts_file(folder, "mlp-layouts"), *sets(**MLP)]
    compare(report, folder, "mlp", spec, feeds(folder, images), own(["whole", "data", "model", "both", "weights", "three"]), precisions)


def compare_translate(report, folder, random, small, precisions):
    """Dropout in every attention, sentences of unequal lengths, an embedding used three times."""
    batch, vocab = TRANSLATE["batch"], TRANSLATE["vocab"]
    src, _ = sentences(random, (batch, TRANSLATE["source"]), vocab)
    label, lengths = sentences(random, (batch, TRANSLATE["target"]), vocab)
    tgt = np.concatenate([np.ones((batch, 1), np.int32), label[:, :-1]], 1)
    label[np.arange(batch), lengths] = 2
    spec = [f"{TOP}/specs/translate.mesh", layouts_file(folder, "translate-layouts", "heads"), *sets(**TRANSLATE)]
    names = ["both", "megatron", "pipe"] if small else [*NAMES, "vocab_4", "default", "megatron", "zero", "pipe"]
    compare(report, folder, "translate", spec, feeds(folder, dict(src=src, tgt=tgt, label=label)), own(names), precisions)


def compare_mixtral(report, folder, random, small, precisions):
    shape = (MIXTRAL["batch"], MIXTRAL["seq"])
    tokens = {name: random.integers(0, MIXTRAL["vocab"], shape).astype(np.int32) for name in ("token", "target")}
    spec = [f"{TOP}/specs/mixtral.mesh", layouts_file(folder, "mixtral-layouts", "kv * group"), *sets(**MIXTRAL)]
    names = ["moe", "dense", "wide"] if small else [*NAMES, "vocab_4", "default", "dense", "wide", "moe", "experts", "all"]
    layouts = own(names) + ([] if small else [("wide over 6", "wide", "model=6"), ("dense over 4", "dense", "data=2,model=4")])
    compare(report, folder, "mixtral", spec, feeds(folder, tokens), layouts, precisions)


def compare_pictures(report, folder, random, small, precisions):
    """Batch norm over the batch of all ranks; tiles whose parts are uneven where pictures are small."""
    for name, sizes, layouts in (("resnet", RESNET, [("default", None), ("channels", None), ("space", None), ("space", "rows=3,columns=1")]),
                                 ("unet", UNET, [("default", None), ("tiles", None), ("tiles", "rows=2,columns=3")])):
        shape = (sizes["batch"], sizes["h0"], sizes["w0"])
        arrays = {"image": random.integers(0, 256, shape).astype(np.uint8)}
        if name == "resnet":
            arrays["label"] = random.integers(0, 10, sizes["batch"]).astype(np.int32)
        spec = [f"{TOP}/specs/{name}.mesh", layouts_file(folder, f"{name}-layouts"), *sets(**sizes)]
        compare(report, folder, name, spec, feeds(folder, arrays), [(f"{layout} {mesh or ''}".strip(), layout, mesh) for layout, mesh in layouts], precisions)


def run(small):
    report = Report()
    precisions = [("f64", 3 if small else 30, 1e-9)] + ([] if small else [("f32", 10, 1e-5)])
    print(f"seed {SEED}")
    with scratch() as folder:
        for title, model in (("gpt", compare_gpt), ("mlp", compare_mlp), ("translate", compare_translate), ("mixtral", compare_mixtral), ("pictures", compare_pictures)):
            report.attempt(title, lambda: model(report, folder, np.random.default_rng(SEED), small, precisions))
    return report
