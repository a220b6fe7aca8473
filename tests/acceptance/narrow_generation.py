"""`generate` with parameters and attention in bf16 and in f16: products of few rows by NumPy in f64 on rounded operands, the full forward pass, layouts, built programs and files."""
import json
import os
import re
from unittest import mock

import numpy as np

import equality
from checkpoints import read_file, write_file
from common import TOP, Report, meshc, scratch, sets
from common import run as execute
from generation import generated, log_shares
from oracle.narrow import BF16, NARROW_TYPES

SEED = 20261127
PRECISIONS = "".join(f"precision stored_{one.name} {{ compute: {one.name}, params: {one.name} }}\nprecision kept_{one.name} {{ params: {one.name} }}\n"
                     f"precision mixed_{one.name} {{ compute: {one.name}, loss_scale: none }}\n" for one in NARROW_TYPES)
PARAMETERS_OF = [(f"{keeps}_{one.name}", one) for one in NARROW_TYPES for keeps in ("kept", "stored")]
PRECISIONS_OF = PARAMETERS_OF + [(f"mixed_{one.name}", one) for one in NARROW_TYPES]
# What an encoder's turns stack is read by attention, and as it is.
STACKED = PRECISIONS + """
dim batch = 1, seq = 24 edge 0, source = 12, embed = 8, vocab = 32, layer = 3
model Stacked {
  input token, target : index(vocab)[batch, seq]
  input text : real[batch, source, embed]
  param table : real[vocab, embed] = normal(std: 1)
  param w     : real[embed, vocab] = normal(std: 1)
  e = take[vocab](table, token)
  h = text
  repeat layer {
    param gain : real[embed] = ones
    h = softmax[embed](h * gain)
  }
  turns  = collect[layer](h)
  y      = dot[source](softmax[source](dot[embed](e, turns)), turns)
  whole  = softmax[embed](sum[layer, source](tanh(turns)))
  logits = dot[embed](sum[layer](y) + whole, w)
  loss   = mean[batch, seq](cross_entropy[vocab](logits, target))
  minimize loss with sgd(lr: 1)
  generate token along seq from logits
}
"""
# One product of a parameter, as it lies or transposed, on either side; what it multiplies are rows of a table and no numbers of the type.
PRODUCT = PRECISIONS + """
dim batch = 1, seq = 16 edge 0, embed = 1, vocab = 2
model Product {
  input token, target : index(vocab)[batch, seq]
  param table : real[vocab, embed] = zeros
  param w     : real[LIES] = zeros
  e = take[vocab](table, token) * 1.37
  logits = dot[embed](OPERANDS)
  loss   = mean[batch, seq](cross_entropy[vocab](logits, target))
  minimize loss with sgd(lr: 1)
  generate token along seq from logits
}
"""
# Attention whose queries, keys and values are no products: what is rounded of them is known. Of a window the last positions are kept, in a ring.
MASKS = {"all before": ("position[seq] >= position[key]", 24), "a window": ("position[seq] >= position[key] and position[seq] - 6 < position[key]", 6)}
ATTENTION = PRECISIONS + """
dim batch = 1, seq = 24 edge 0, key = seq, embed = 1, vocab = 96
model Attends {
  input token, target : index(vocab)[batch, seq]
  param table : real[vocab, embed] = zeros
  param w     : real[embed, vocab] = zeros
  e = take[vocab](table, token)
  k = e * 1.37
  v = e * 0.71
  score  = dot[embed](e * 0.93, k[seq as key])
  y      = dot[key](softmax[key](mask(score, MASK)), v[seq as key])
  logits = dot[embed](y, w)
  loss   = mean[batch, seq](cross_entropy[vocab](logits, target))
  minimize loss with sgd(lr: 1)
  generate token along seq from logits
}
"""
# Values of the type in neighbours, joins, slices, sums, a softmax, a sort and running sums.
OPS = PRECISIONS + """
dim batch = 3, seq = 24 edge 0, key = seq, embed = 8, half = 4, two = embed + embed, vocab = 11
model Ops {
  input token, target : index(vocab)[batch, seq]
  param table  : real[vocab, embed] = normal(std: 1)
  param mix    : real[two, embed] = fan_in[two]
  param out    : real[embed, vocab] = fan_in[embed]
  e      = TYPE(take[vocab](table, token))
  both   = concat[embed + embed as two](e, max(e[seq - 1], e[seq - 2]))
  h      = TYPE(dot[two](both, TYPE(mix))) + cumsum[seq](e) * 0.1
  centred = h - mean[embed](h)
  score  = TYPE(dot[embed](centred, h[seq as key]) * 0.5)
  weight = softmax[key](mask(score, position[seq] >= position[key]))
  seen   = TYPE(dot[key](weight, h[seq as key]))
  best   = sort[embed](seen)[embed = 4.. as half]
  logits = dot[embed](seen * 2 - sum[half](best) * 0.1 + max[embed](e) * 0.1, out)
  loss   = mean[batch, seq](cross_entropy[vocab](logits, target))
  minimize loss with sgd(lr: 1)
  generate token along seq from logits
}
mesh single { only: 1 }
mesh halves { m: 2 }
layout one on single { }
layout samples on halves { batch -> m }
"""
FORMS = {"rows": ("embed, vocab", "e, w"), "columns": ("vocab, embed", "e, w"), "left": ("embed, vocab", "w, e"), "left, columns": ("vocab, embed", "w, e")}
SHAPES = [(1, 64, 96), (1, 37, 301), (3, 1100, 130), (8, 36, 513)]  # batch, embed, vocab
MORE_SHAPES = [(1, 2001, 75), (2, 513, 97), (5, 33, 40), (16, 2000, 64), (17, 130, 70), (7, 96, 2050), (1, 1, 50)]
LAYOUTS = PRECISIONS + """
mesh single { only: 1 }
mesh halves { m: 2 }
mesh square { a: 2, b: 2 }
layout one on single { }
layout batch_2 on halves { batch -> m }
layout wide_2 on halves { heads, ffn, vocab -> m }
layout params on halves { params { embed -> m } }
layout both on square { batch -> a; heads, ffn, vocab -> b }
layout sharded on halves { batch -> m; params { embed -> m } }
"""
SIZES = dict(equality.GPT, seq=32, vocab=128)
TEXTS = ["In the beginning", "And", "the waters were "]


def prompts_of(random, batch, vocab):
    """Some read in one pass, the rest of longer ones position by position."""
    lengths = 2 + np.arange(batch) % 4
    return ["".join(map(chr, random.integers(33, min(vocab, 126), length))) for length in lengths]


def expected(narrow, table, w, tokens, round_left):
    """Logits of each position by NumPy in f64, and the sums of absolute products."""
    e = narrow.round(table)[tokens] * np.float32(1.37)
    left, right = (narrow.round(e) if round_left else e).astype(np.float64), narrow.round(w).astype(np.float64)
    return left @ right, abs(left) @ abs(right)


def likelihoods(logits, tokens):
    return np.array([row[token] for row, token in zip(log_shares(logits), tokens[1:])])


def products(report, folder, random, small, narrow):
    """The likelihoods of all elements, given and written, are those of rounded operands. A logarithm of shares is off by twice what a logit is."""
    places, relative, unlike = ({f"kept_{narrow.name}": 0.0, f"stored_{narrow.name}": 0.0} for _ in range(3))
    shapes = SHAPES if small else SHAPES + MORE_SHAPES
    for form, (lies, operands) in FORMS.items():
        spec = f"{folder}/{form.replace(', ', '-')}.mesh"
        with open(spec, "w", encoding="utf-8") as file:
            file.write(PRODUCT.replace("LIES", lies).replace("OPERANDS", operands))
        for batch, embed, vocab in shapes:
            table, w = (random.normal(size=size).astype(np.float32) for size in ((vocab, embed), (embed, vocab)))
            write_file(f"{folder}/params.safetensors", {"table": table, "w": np.ascontiguousarray(w.T) if "columns" in form else w})
            options = ["--tokens", 3, "--greedy", *sets(batch=batch, embed=embed, vocab=vocab)]
            for precision in places:
                for one in generated([spec], f"{folder}/params.safetensors", options, prompts_of(random, batch, vocab), precision=precision):
                    tokens = list(one["prompt"].encode()) + one["tokens"]
                    got = np.array(one["prompt_logprobs"] + one["logprobs"])
                    logits, magnitude = expected(narrow, table, w, tokens, precision.startswith("stored"))
                    error, size = abs(got - likelihoods(logits, tokens)), 2 * magnitude.max(-1)[:-1]
                    places[precision] = max(places[precision], np.max(error / narrow.last_place(size)))
                    relative[precision] = max(relative[precision], np.max(error / size))
                    other, _ = expected(narrow, table, w, tokens, precision.startswith("kept"))
                    unlike[precision] = max(unlike[precision], np.max(abs(got - likelihoods(other, tokens)) / size))
    for precision in places:
        title = f"{precision}: products of {len(shapes)} shapes, on either side, transposed or not"
        report.check(f"{title}: last places of the type of the sum of absolute products from f64", float(f"{places[precision]:.2e}"), 2)
        report.check(f"{title}: the same relative to that sum, as f32 adds up", float(f"{relative[precision]:.1e}"), 1e-6)
        report.true(f"{precision}: with the left operand rounded as the other precision does it would be farther", unlike[precision] > narrow.step / 40, f"{unlike[precision]:.1e}")


def attended(narrow, round_numbers, stored, reach, table, w, tokens):
    """Logits of each position by NumPy in f64, which sees the last `reach` positions, and the sums of absolute products behind them."""
    of = (lambda x: narrow.round(x.astype(np.float32)).astype(np.float64)) if round_numbers else (lambda x: x.astype(np.float64))
    e = (narrow.round(table) if stored else table)[tokens]
    q, k, v = (of(e * np.float32(by)) for by in (0.93, 1.37, 0.71))
    seen = np.tri(len(tokens), dtype=bool) & ~np.tri(len(tokens), k=-reach, dtype=bool)
    score = np.where(seen, q @ k.T, -np.inf)
    weight = np.exp(score - score.max(-1, keepdims=True))
    weight = weight / weight.sum(-1, keepdims=True)
    right = narrow.round(w).astype(np.float64) if stored else w.astype(np.float64)
    y = of(weight) @ v
    return (of(y) if stored else y) @ right, weight @ abs(v) @ abs(right)


def attention(report, folder, random, small, narrow):
    """Keys and values are rounded as they are kept. Where two orders of a sum round a weight to two neighbours, a likelihood is off by a step of what is added up: most are not."""
    shapes = [(1, 8), (3, 64)] if small else [(1, 8), (3, 64), (2, 33), (5, 130), (1, 1)]
    for number, (mask, (seen, reach)) in enumerate(MASKS.items()):
        spec = f"{folder}/attention-{number}.mesh"
        with open(spec, "w", encoding="utf-8") as file:
            file.write(ATTENTION.replace("MASK", seen))
        for precision in (f"stored_{narrow.name}", f"mixed_{narrow.name}"):
            stored, errors, unlike = precision.startswith("stored"), [], []
            for batch, embed in shapes:
                table, w = (random.normal(size=size).astype(np.float32) for size in ((96, embed), (embed, 96)))
                table /= np.float32(embed**0.25)
                write_file(f"{folder}/params.safetensors", {"table": table, "w": w})
                for prompts in ([chr(33 + i) for i in range(batch)], prompts_of(random, batch, 96), ["X" + "0123456789"[i:] for i in range(batch)]):
                    options = ["--tokens", 12, "--temperature", "2", "--seed", 3, *sets(batch=batch, embed=embed)]
                    for one in generated([spec], f"{folder}/params.safetensors", options, prompts, precision=precision):
                        tokens = list(one["prompt"].encode()) + one["tokens"]
                        got = np.array(one["prompt_logprobs"] + one["logprobs"])
                        logits, size = attended(narrow, True, stored, reach, table, w, tokens)
                        wide, _ = attended(narrow, False, stored, reach, table, w, tokens)
                        for into, other in ((errors, logits), (unlike, wide)):
                            into.append(abs(got - likelihoods(other, tokens)) / (2 * size.max(-1)[:-1]))
            errors, unlike = np.concatenate(errors), np.concatenate(unlike)
            title = f"{precision}: attention to {mask}, {len(shapes)} shapes, position by position and after prompts in one pass"
            report.check(f"{title}: in steps of the type of the sum of absolute products", float(f"{np.max(errors) / narrow.step:.2e}"), 2 if stored else 1)
            report.check(f"{title}: the median, as f32 adds up", float(f"{np.median(errors):.1e}"), 1e-6)
            report.true(f"{precision}: of numbers that are not rounded it would be farther", np.median(unlike) > narrow.step / 100, f"{np.median(unlike):.1e}")


def caches(report, gpt):
    """What is kept of earlier positions, which are keys and values alone: half the bytes where products read the type."""
    def kept(precision, layout):
        text = execute(meshc(), "ir", *gpt.spec, "program", "--entry", "generate", "--precision", precision, "--layout", layout, *gpt.options).stdout
        return int(re.search(r"^  cache (\d+) bytes$", text, re.MULTILINE).group(1))

    for layout in ("one", "both"):
        wide = kept("f32", layout)
        for precision, _ in PRECISIONS_OF:
            expected = wide if precision.startswith("kept") else wide // 2
            report.true(f"gpt {precision} {layout}: keeps keys and values in {expected} bytes", kept(precision, layout) == expected > 0, (kept(precision, layout), wide))


def stacked(report, folder):
    """Of numbers that a loop stacks the cache's are rounded; those whom others read are not."""
    with open(f"{folder}/stacked.mesh", "w", encoding="utf-8") as file:
        file.write(STACKED)
    for narrow in NARROW_TYPES:
        text = execute(meshc(), "ir", f"{folder}/stacked.mesh", "program", "--entry", "generate", "--precision", f"mixed_{narrow.name}").stdout
        kept = dict(re.findall(r"^  (\w+) : (\w+)\[[^]]*\] cache ", text, re.MULTILINE))
        report.true(f"{narrow.name}: turns that are stacked for attention and for others", kept == {"turns": narrow.name, "whole": "f32"}, kept)


def narrow_logits(report, folder, random, narrow):
    """Logits of the type give the likelihoods of the same numbers in f32."""
    batch, embed, vocab = 2, 36, 97
    table, w = (random.normal(size=size).astype(np.float32) for size in ((vocab, embed), (embed, vocab)))
    write_file(f"{folder}/params.safetensors", {"table": table, "w": w})
    made, prompts = [], prompts_of(random, batch, vocab)
    for kind, of in (("narrow", "DOT"), ("wide", "f32(DOT)")):
        spec = f"{folder}/logits-{kind}.mesh"
        with open(spec, "w", encoding="utf-8") as file:
            file.write(PRODUCT.replace("LIES", "embed, vocab").replace("dot[embed](OPERANDS)", of.replace("DOT", f"dot[embed]({narrow.name}(e), {narrow.name}(w))")))
        made.append(generated([spec], f"{folder}/params.safetensors", ["--tokens", 5, "--greedy", *sets(batch=batch, embed=embed, vocab=vocab)], prompts, precision="f32"))
    report.true(f"{narrow.name}: logits of the type are continued as those in f32, bit by bit", made[0] == made[1] and len(set(made[0][0]["tokens"])) > 1, made[0][0]["logprobs"])


def narrow_values(report, folder, narrow):
    """Position by position what the full forward pass says, with sums in the same order."""
    spec, options = f"{folder}/ops.mesh", ["--tokens", 14]
    with open(spec, "w", encoding="utf-8") as file:
        file.write(OPS.replace("TYPE", narrow.name))
    prompts = ["\x01\x02\x03", "\x04", "\x05\x06\x07\x08\x02"]
    tokens = np.zeros((3, 24), np.int32)

    def fetch(*what):
        np.save(f"{folder}/tokens.npy", tokens)
        execute(meshc(), "fetch", spec, *what, "--layout", "one", *(part for name in ("token", "target") for part in ("--feed", f"{name}={folder}/tokens.npy")), "--out", folder)

    fetch("loss", "--seed", SEED, "--save-params", f"{folder}/ops.safetensors")
    write = lambda layout, how=("--interpret",): generated([spec], f"{folder}/ops.safetensors", [*options, "--layout", layout, "--temperature", "0.8", "--seed", 5], prompts, how, "f32")
    made = write("one")
    for row, one in zip(tokens, made):
        text = list(one["prompt"].encode()) + one["tokens"]
        row[:len(text)] = text
    fetch("logits", "--params", f"{folder}/ops.safetensors")
    logits = np.load(f"{folder}/logits.npy")
    off = max(np.max(abs(np.array(one["prompt_logprobs"] + one["logprobs"]) - likelihoods(rows, row[:len(one["prompt"]) + len(one["tokens"])]))) for one, rows, row in zip(made, logits, tokens))
    report.check(f"{narrow.name}: values of the type, position by position: likelihoods from those of the full forward pass", float(f"{off:.1e}"), 1e-5)
    report.true(f"{narrow.name}: built, the interpreter's bits", write("one", ()) == made and len(set(made[0]["tokens"])) > 1, made[0]["tokens"])
    report.true(f"{narrow.name}: by two ranks with a part of the samples each, the same bits", write("samples") == made)


class Gpt:
    """A small one with random parameters, in a file of f32 and in one of their roundings."""

    def __init__(self, folder):
        self.folder, self.layouts = folder, f"{folder}/layouts.mesh"
        with open(self.layouts, "w", encoding="utf-8") as file:
            file.write(LAYOUTS)
        self.spec, self.options = [f"{TOP}/specs/gpt.mesh", self.layouts], sets(**SIZES)
        self.params = f"{folder}/gpt.safetensors"
        self.fetch(TEXTS[:1], "f32", "--seed", SEED, "--save-params", self.params)
        write_file(self.params, {name: x if x.ndim == 1 else 8 * x for name, x in read_file(self.params).items()})  # so that texts are unlike each other

    def narrowed(self, narrow=BF16):
        """The file of the numbers in the type."""
        path = f"{self.folder}/{narrow.name}.safetensors"
        write_file(path, {name: narrow.stored(x) for name, x in read_file(self.params).items()})
        return path

    def fetch(self, texts, precision, *more):
        tokens = np.zeros((len(texts), SIZES["seq"]), np.int32)
        for row, text in zip(tokens, texts):
            row[:len(text)] = list(text.encode())
        np.save(f"{self.folder}/tokens.npy", tokens)
        feeds = [part for name in ("token", "target") for part in ("--feed", f"{name}={self.folder}/tokens.npy")]
        execute(meshc(), "fetch", *self.spec, "--layout", "one", *sets(**dict(SIZES, batch=len(texts))), "--precision", precision, *feeds, *more)

    def write(self, precision, layout, *words, params=None, how=("--interpret",), prompts=None):
        return generated(self.spec, params or self.params, [*self.options, "--tokens", 9, "--layout", layout, *words], prompts or TEXTS, how, precision)


def forward_passes(report, gpt):
    """Position by position what evaluation says. Of `kept` sums of f32 in the same order, but for attention. Of the others attention rounds its weights at another
    place than evaluation does, and `mixed` rounds less: beside f64 with the same parameters it is no farther from what is right than evaluation is, to a tenth."""
    for precision, narrow in PRECISIONS_OF:
        made = gpt.write(precision, "one", "--greedy")
        texts = [one["prompt"] + "".join(map(chr, one["tokens"])) for one in made]

        def evaluated(precision, params, texts=texts):
            gpt.fetch(texts, precision, "logits", "--params", params, "--out", gpt.folder)
            return np.concatenate([likelihoods(logits, list(text.encode())) for text, logits in zip(texts, np.load(f"{gpt.folder}/logits.npy"))])

        got = np.concatenate([np.array(one["prompt_logprobs"] + one["logprobs"]) for one in made])
        whole, exact = evaluated(precision, gpt.params), evaluated("f64", gpt.params if precision.startswith("mixed") else gpt.narrowed(narrow))
        distance = lambda one, other: float(f"{np.max(abs(one - other)):.1e}")
        if precision.startswith("kept"):
            report.check(f"gpt {precision}: likelihoods from those of the full forward pass", distance(got, whole), 1e-5)
        report.check(f"gpt {precision}: likelihoods from those of f64, beside those of the full forward pass", distance(got, exact), 1.1 * max(distance(whole, exact), 1e-5))


def scores(gpt, precision, layout):
    words = [part for text in TEXTS for part in ("--text", text)]
    done = execute(meshc(), "score", *gpt.spec, "--params", gpt.params, "--precision", precision, *gpt.options, "--layout", layout, *words, "--interpret", "--json")
    return np.concatenate([one["logprobs"] for one in json.loads(done.stdout)["scored"]])


def layouts(report, gpt, small):
    for precision, narrow in PRECISIONS_OF:
        bound = 1e-5 if precision.startswith("kept") else 4 * narrow.step
        one = scores(gpt, precision, "one")
        for layout in ["both"] if small else ["batch_2", "wide_2", "params", "both"]:
            report.check(f"gpt {precision} {layout}: likelihoods of texts from those of one rank", float(f"{np.max(abs(scores(gpt, precision, layout) - one)):.1e}"), bound)
        report.true(f"gpt {precision}: and not those of f32", np.max(abs(scores(gpt, "f32", "one") - one)) > 1e-4)


def built(report, gpt, small):
    """Every bit of what is interpreted; texts of several lengths and of one, by beams, and on threads."""
    for precision, _ in PRECISIONS_OF:
        for layout in ["both"] if small else ["one", "wide_2", "both"]:
            for words, prompts in ((["--temperature", "0.9", "--seed", 5], TEXTS), (["--temperature", "0.9", "--seed", 5], TEXTS[::2])):
                same = gpt.write(precision, layout, *words, prompts=prompts) == gpt.write(precision, layout, *words, prompts=prompts, how=())
                report.true(f"gpt {precision} {layout}, built, {len(prompts)} prompts: bit by bit as interpreted", same)
        beams = [gpt.write(precision, "both", "--beams", 3, prompts=TEXTS[:2], how=how) for how in ((), ("--interpret",))]
        report.true(f"gpt {precision}, beams of the built program: bit by bit as interpreted", beams[0] == beams[1] and len(beams[0][0]["beams"]) == 3)


def files(report, gpt):
    """f32 is rounded to the nearest as it is read; what training in fewer bits leaves is read as it is."""
    for precision, narrow in PARAMETERS_OF:
        report.true(f"gpt {precision}: the same of a file of f32 and of its numbers in {narrow.name}", gpt.write(precision, "one", "--greedy") == gpt.write(precision, "one", "--greedy", params=gpt.narrowed(narrow)))
    with mock.patch.dict(os.environ, MESHRT_GEMM="own"):  # OpenBLAS, where it is chosen for f32, adds up in another order
        for narrow in NARROW_TYPES:
            same = gpt.write("f32", "one", "--greedy", params=gpt.narrowed(narrow)) == gpt.write(f"kept_{narrow.name}", "one", "--greedy")
            report.true(f"of {narrow.name} beside f32, products are those of the same numbers in f32, bit by bit", same)


def run(small):
    report = Report()
    print(f"seed {SEED}")
    random = np.random.default_rng(SEED)
    with scratch() as folder:
        for narrow in NARROW_TYPES:
            report.attempt(f"products of {narrow.name}", lambda: products(report, folder, random, small, narrow))
            report.attempt(f"attention of {narrow.name}", lambda: attention(report, folder, random, small, narrow))
            report.attempt(f"logits of {narrow.name}", lambda: narrow_logits(report, folder, random, narrow))
            report.attempt(f"values of {narrow.name}", lambda: narrow_values(report, folder, narrow))
        report.attempt("stacked", lambda: stacked(report, folder))
        gpt = Gpt(folder)
        report.attempt("caches", lambda: caches(report, gpt))
        report.attempt("forward passes", lambda: forward_passes(report, gpt))
        report.attempt("layouts", lambda: layouts(report, gpt, small))
        report.attempt("built", lambda: built(report, gpt, small))
        report.attempt("files", lambda: files(report, gpt))
    return report
