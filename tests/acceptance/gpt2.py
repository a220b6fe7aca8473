"""gpt2.mesh with random weights in Hugging Face's files: the logits of GPT-2 written in NumPy (and PyTorch, where it is), the losses of a run, and the weights
that a run writes."""
import math

import numpy as np

from common import TOP, Report, json_lines, meshc, scratch, sets
from common import run as execute
from oracle import safetensors
from checkpoints import tensors as read_checkpoint
from checkpoints import read_file

SEED = 20261122
SIZES = dict(batch=4, seq=24, place=32, embed=48, heads=4, layer=3, vocab=97)
NAMES = f"{TOP}/specs/gpt2.names.yaml"


def random_weights(sizes, random):
    """As Hugging Face names and lays them out; biases and gains are not what they begin as, so that none can be forgotten."""
    embed = sizes["embed"]

    def normal(*shape, mean=0.0, std=0.2):
        return random.normal(mean, std, shape).astype(np.float32)

    def norm(name):
        return {f"{name}.weight": normal(embed, mean=1), f"{name}.bias": normal(embed)}

    def conv(name, rows, columns):
        return {f"{name}.weight": normal(rows, columns, std=rows**-0.5), f"{name}.bias": normal(columns)}

    weights = {"wte.weight": normal(sizes["vocab"], embed), "wpe.weight": normal(sizes["place"], embed)}
    for i in range(sizes["layer"]):
        weights |= norm(f"h.{i}.ln_1") | conv(f"h.{i}.attn.c_attn", embed, 3 * embed) | conv(f"h.{i}.attn.c_proj", embed, embed)
        weights |= norm(f"h.{i}.ln_2") | conv(f"h.{i}.mlp.c_fc", embed, 4 * embed) | conv(f"h.{i}.mlp.c_proj", 4 * embed, embed)
    return weights | norm("ln_f")


def numpy_logits(weights, token, heads):
    w = {name: array.astype(np.float64) for name, array in weights.items()}
    batch, seq = token.shape

    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * w[f"{name}.weight"] + w[f"{name}.bias"]

    def conv(x, name):
        return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

    def split(x):
        return x.reshape(batch, seq, heads, -1).transpose(0, 2, 1, 3)

    h = w["wte.weight"][token] + w["wpe.weight"][:seq]
    for i in range(sum(name.endswith("ln_1.bias") for name in w)):
        q, k, v = (split(part) for part in np.split(conv(norm(h, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn"), 3, -1))
        score = q @ k.transpose(0, 1, 3, 2) / math.sqrt(q.shape[-1])
        score = np.where(np.tri(seq, dtype=bool), score, -np.inf)
        weight = np.exp(score - score.max(-1, keepdims=True))
        weight /= weight.sum(-1, keepdims=True)
        h = h + conv((weight @ v).transpose(0, 2, 1, 3).reshape(h.shape), f"h.{i}.attn.c_proj")
        x = conv(norm(h, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc")
        x = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
        h = h + conv(x, f"h.{i}.mlp.c_proj")
    return norm(h, "ln_f") @ w["wte.weight"].T


def torch_logits(weights, token, heads):
    """The same by PyTorch's own functions; None where it is not installed."""
    try:
        import torch
        from torch.nn import functional
    except ImportError:
        return None
    w = {name: torch.from_numpy(array).double() for name, array in weights.items()}
    batch, seq = token.shape

    def norm(x, name):
        return functional.layer_norm(x, x.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"])

    def conv(x, name):
        return functional.linear(x, w[f"{name}.weight"].T, w[f"{name}.bias"])

    h = functional.embedding(torch.from_numpy(token).long(), w["wte.weight"]) + w["wpe.weight"][:seq]
    for i in range(sum(name.endswith("ln_1.bias") for name in w)):
        q, k, v = (part.view(batch, seq, heads, -1).transpose(1, 2) for part in conv(norm(h, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn").chunk(3, -1))
        score = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).masked_fill(~torch.ones(seq, seq).tril().bool(), -math.inf)
        h = h + conv((functional.softmax(score, -1) @ v).transpose(1, 2).reshape(h.shape), f"h.{i}.attn.c_proj")
        x = conv(norm(h, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc")
        x = 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
        h = h + conv(x, f"h.{i}.mlp.c_proj")
    return functional.linear(norm(h, "ln_f"), w["wte.weight"]).numpy()


def loss(logits, target):
    logits = logits - logits.max(-1, keepdims=True)
    return float(np.mean(np.log(np.exp(logits).sum(-1)) - np.take_along_axis(logits, target[..., None].astype(np.int64), -1)[..., 0]))


def far(a, b):
    return float(np.abs(a - b).max() / np.abs(b).max())


def check(report, folder, sizes, meshes):
    random = np.random.default_rng(SEED)
    weights = random_weights(sizes, random)
    file = f"{folder}/model.safetensors"
    safetensors.write(file, weights, "<f4")
    tokens = random.integers(0, sizes["vocab"], sizes["batch"] * sizes["seq"] * 3 + 1).astype(np.uint16)
    tokens.tofile(f"{folder}/tokens.bin")
    windows = tokens[:-1].reshape(3, sizes["batch"], sizes["seq"]).astype(np.int32)
    targets = tokens[1:].reshape(windows.shape).astype(np.int32)
    expected = numpy_logits(weights, windows[0], sizes["heads"])
    by_torch = torch_logits(weights, windows[0], sizes["heads"])
    if by_torch is not None:
        report.check("NumPy's GPT-2 and PyTorch's", far(by_torch, expected), 1e-12)
    np.save(f"{folder}/token.npy", windows[0])
    np.save(f"{folder}/target.npy", targets[0])
    spec = f"{TOP}/specs/gpt2.mesh"
    for mesh in meshes:
        for precision, bound in (("f64", 1e-12), ("f32", 1e-4)):
            out = f"{folder}/fetched"
            execute(meshc(), "fetch", spec, "logits", *sets(**sizes), "--mesh", mesh, "--precision", precision, "--params", file, "--names", NAMES, "--feed",
                    f"token={folder}/token.npy", "--feed", f"target={folder}/target.npy", "--out", out)
            report.check(f"logits of {mesh} in {precision}, relative", float(f"{far(np.load(f'{out}/logits.npy'), expected):.1e}"), bound)
    # A run begins with the weights, and writes what it has made of them: its next loss is that of the written ones.
    with open(f"{folder}/run.yaml", "w") as text:
        text.write(f"""data: {{ token: {{file: tokens.bin, type: u16, window: seq}}, target: {{of: token, shift: 1}} }}
train: {{ params: model.safetensors, names: {NAMES}, lr: 1e-3 }}
log: {{ every: 1, jsonl: {folder}/log.jsonl }}
""")
    built = f"{folder}/program"
    execute(meshc(), "build", spec, *sets(**sizes), "--mesh", meshes[-1], "--precision", "f64", "-o", built)
    ranks = math.prod(int(axis.split("=")[1]) for axis in meshes[-1].split(","))

    def train(steps, *keys, code=0):
        return execute(f"{built}/gpt2", "-n", ranks, f"{folder}/run.yaml", f"train.steps={steps}", *keys, code=code)

    train(2, f"checkpoint.dir={folder}/ckpt", "checkpoint.every=1")
    losses = [line["loss"] for line in json_lines(f"{folder}/log.jsonl") if "loss" in line]
    report.check("loss of the first step, relative", abs(losses[0] / loss(expected, targets[0]) - 1), 1e-12)
    for name, extra in (("written", ()), ("written_f32", ("--type", "f32"))):
        execute(meshc(), "ckpt", "convert", f"{folder}/ckpt/step-1", f"{folder}/{name}.safetensors", "--parameters", "--names", NAMES, *extra)
    written = read_file(f"{folder}/written.safetensors")
    report.true("the same names and shapes are written", {n: a.shape for n, a in written.items()} == {n: a.shape for n, a in weights.items()})
    report.check("loss of the weights written, relative", abs(losses[1] / loss(numpy_logits(written, windows[1], sizes["heads"]), targets[1]) - 1), 1e-12)
    ours = read_checkpoint(f"{folder}/ckpt/step-1")
    attention = np.stack([written[f"h.{i}.attn.c_attn.weight"] for i in range(sizes["layer"])])
    report.true("the fused matrix is ours bit by bit", np.array_equal(ours["layer.attn.w"].reshape(attention.shape), attention))
    report.true("rounded to f32", all(np.array_equal(a, written[n].astype(np.float32)) for n, a in read_file(f"{folder}/written_f32.safetensors").items()))
    # What the original file has beside the parameters, and what a file may lack.
    more = weights | {f"h.{i}.attn.bias": np.tril(np.ones((1, 1, 8, 8), np.float32)) for i in range(sizes["layer"])}
    safetensors.write(f"{folder}/more.safetensors", more, "<f4")
    keys = ("train.params=" + f"{folder}/more.safetensors",)
    said = train(1, *keys, code=1).stderr
    report.true("unexpected tensors are listed", all(f"`h.{i}.attn.bias` is in the file, but not in the program" in said for i in range(sizes["layer"])), said[-300:])
    train(1, *keys, "train.partial=true")
    report.check("loss with the others left", abs([line["loss"] for line in json_lines(f"{folder}/log.jsonl") if "loss" in line][0] / losses[0] - 1), 0)
    for broken, change in (("`h.1.ln_2.bias` is not in the file", lambda w: w.pop("h.1.ln_2.bias")),
                           (f"`h.2.attn.c_attn.weight` is [{sizes['embed']}, 7] in the file and [{sizes['embed']}, {3 * sizes['embed']}] in the program",
                            lambda w: w.update({"h.2.attn.c_attn.weight": np.zeros((sizes["embed"], 7), np.float32)}))):
        other = dict(weights)
        change(other)
        safetensors.write(f"{folder}/other.safetensors", other, "<f4")
        said = train(1, f"train.params={folder}/other.safetensors", code=1).stderr
        report.true(broken, broken in said, said[-300:])
    with open(NAMES) as names, open(f"{folder}/names.yaml", "w") as bad:
        bad.write(names.read().replace("[three * heads * head_dim]", "[three * head_dim]"))
    said = train(1, f"train.names={folder}/names.yaml", code=1).stderr
    report.true("a map with other dims", "`layer.attn.b`: the map gives it the dims layer, three, head_dim, it has layer, three, heads, head_dim" in said, said[-300:])


def run(small):
    report = Report()
    print(f"seed {SEED}")
    with scratch() as folder:
        report.attempt("small", lambda: check(report, folder, SIZES, ("data=2,model=2",) if small else ("data=1,model=1", "data=3,model=1", "data=2,model=2")))
    if not small:
        with scratch() as folder:
            report.attempt("124M", lambda: check_large(report, folder))
    return report


def check_large(report, folder):
    """The shape of the smallest published model: every tensor has its place."""
    sizes = dict(batch=1, seq=16, place=1024, embed=768, heads=12, layer=12, vocab=50257)
    random = np.random.default_rng(SEED)
    weights = random_weights(sizes, random)
    report.check("parameters", sum(array.size for array in weights.values()), 124439808, sum(array.size for array in weights.values()) == 124439808)
    safetensors.write(f"{folder}/model.safetensors", weights, "<f4")
    token = random.integers(0, sizes["vocab"], (1, sizes["seq"])).astype(np.int32)
    np.save(f"{folder}/token.npy", token)
    execute(meshc(), "fetch", f"{TOP}/specs/gpt2.mesh", "logits", *sets(batch=1, seq=16), "--mesh", "data=1,model=2", "--params", f"{folder}/model.safetensors", "--names", NAMES,
            "--feed", f"token={folder}/token.npy", "--feed", f"target={folder}/token.npy", "--out", folder, timeout=900)
    report.check("logits of 124M in f32, relative", float(f"{far(np.load(f'{folder}/logits.npy'), numpy_logits(weights, token, 12)):.1e}"), 1e-4)
