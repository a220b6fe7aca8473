"""`generate`: models that are causal are taken, cached decoding equals the full forward pass position by position, under every layout and number of ranks."""
import json
import os
import re
import subprocess

import numpy as np

from common import TOP, Report, meshc, scratch, sets
from common import run as execute
from oracle.beams import beam_search, exhaustive, same_beams

SEED = 20261123
BOUND = 1e-9
TIE = 1e-5  # logits of f32
PROMPTS = ["In the beginning", "And", "the waters were "]
TOKENS = 9
LAYOUTS = """
mesh two { a: 2 }
mesh four { a: 4 }
mesh square { a: 2, b: 2 }
layout batch_2 on two { batch -> a }
layout wide_2 on two { HEADS, vocab -> a }
layout keys_2 on two { KEY -> a }
layout square on square { batch -> a; HEADS, vocab -> b }
layout wide_4 on four { HEADS, vocab -> a }
"""
HEAD = """import std.nn
dim batch = 2, seq = 32 edge 0, key = seq, other = seq, embed = 8, heads = 4, head_dim = 2, vocab = 256, layer = 2, half = 4, one = 1, most = 31, tap = 3
model M {
  input token, target : index(vocab)[batch, seq]
  param wte : real[vocab, embed] = normal(std: 1)
  param wq, wk, wv : real[embed, heads, head_dim] = fan_in[embed]
  param wo : real[heads, head_dim, embed] = fan_in[heads, head_dim]
  param u, v : real[embed, other_embed] = fan_in[embed]
  e = take[vocab](wte, token)
""".replace("other_embed", "wide").replace("half = 4", "half = 4, wide = embed")
TAIL = """
  logits = dot[embed](h, wte)
  loss   = mean[batch, seq](cross_entropy[vocab](logits, target))
  minimize loss with sgd(lr: 0.1)
  generate token along seq from logits
}
"""
ATTENTION = """
  score = dot[head_dim](dot[embed](e, wq), dot[embed](e[seq as key], wk))
  weight = softmax[key](MASKED)
  h = e + dot[heads, head_dim](dot[key](weight, dot[embed](e[seq as key], wv)), wo)
"""
# Bodies that bind h, by name.
MODELS = {
    "attention": ATTENTION.replace("MASKED", "mask(score, position[seq] >= position[key])"),
    "window": ATTENTION.replace("MASKED", "mask(score, position[seq] >= position[key] and position[seq] - 5 < position[key])"),
    "the mask the other way round": ATTENTION.replace("MASKED", "mask(score, not (position[key] > position[seq]))"),
    "before this position": ATTENTION.replace("MASKED", "mask(score, broadcast[key](position[seq]) - broadcast[seq](position[key]) >= 1)"),
    "a slope": ATTENTION.replace("MASKED", "mask(score + 0.1 * real(broadcast[seq](position[key]) - broadcast[key](position[seq])), position[seq] >= position[key])"),
    "padding": ATTENTION.replace("MASKED", "mask(score, (token != 32)[seq as key] and position[seq] >= position[key])"),
    "sum over a mask": "  h = e + dot[key](real(position[seq] >= position[key]), e[seq as key]) / 8",
    "gru": """  s : real[batch, embed] = 0
  repeat seq {
    x = take[seq](e, index(seq)(position[seq]))
    z = sigmoid(dot[embed](x + s, u))[wide as embed]
    s = (1 - z) * s + z * tanh(dot[embed](x - s, v))[wide as embed]
  }
  h = e + collect[seq](s)""",
    "linear recurrence in layers": """  h = e
  repeat layer {
    param a : real[embed] = uniform(low: 0.1, high: 0.9)
    s : real[batch, embed] = 1
    repeat seq {
      s = a * s + take[seq](h, index(seq)(position[seq]))
    }
    h = h + tanh(collect[seq](s))
  }""",
    "attention in layers": """  h = e
  repeat layer {
    param norm : layer_norm[embed]
    n = norm(h)
    score = dot[head_dim](dot[embed](n, wq), dot[embed](n, wk)[seq as key])
    weight = softmax[key](mask(score, position[seq] >= position[key]))
    h = h + dot[heads, head_dim](dot[key](weight, dot[embed](n, wv)[seq as key]), wo)
  }""",
    "two attentions": ATTENTION.replace("MASKED", "mask(score, position[seq] >= position[key])") + """
  again = dot[embed](h, h[seq as other])
  h2 = h + dot[other](softmax[other](mask(again, position[seq] >= position[other])), h[seq as other])""",
    "the one before": "  h = e + e[seq - 1]",
    "there and back": "  h = e + e[seq + 1][seq - 1]",
    "convolution": "  param k : real[tap, embed, wide] = fan_in[tap, embed]\n"
                   "  h = e + tanh(conv[seq: tap dilate 3, embed](e, k, pad: (6, 0)))[wide as embed]",
    "convolution that gives the logits": "  param k : real[tap, embed, vocab] = fan_in[tap, embed]\n  logits = conv[seq: tap, embed](e, k, pad: (2, 0))",
    "convolution of each channel in layers": """  h = e
  repeat layer {
    param k : real[tap, embed] = fan_in[tap]
    h = h + tanh(conv[seq: tap](h, k, pad: (2, 0)))
  }""",
    "convolution beyond the sequence": "  param k : real[tap, embed] = fan_in[tap]\n  h = e + conv[seq: tap dilate 40 as key](e, k, pad: (80, 0))[key as seq]",
    "running sum": "  h = e + cumsum[seq](e)",
    "running sum in layers": """  h = e
  repeat layer {
    h = h + tanh(cumsum[seq](h) - h[seq - 2])
  }""",
    "mean where": "  near = position[seq] >= position[key] and position[seq] < position[key] + 4\n"
                  "  h = e + mean[key](broadcast[seq](e[seq as key]), where: near)",
    "largest so far": "  h = e + max[key](mask(broadcast[seq](e[seq as key]), position[seq] >= position[key]))",
    "the first": "  h = e + broadcast[seq](e[seq = 0])",
    "all but the last, behind one more": """  begin = e[seq = 0..1 as one]
  h = e + concat[one + most as seq](0 * begin, 2 * e[seq = 0..most as most])""",
    "the change from the one before": """  begin = e[seq = 0..1 as one]
  h = e + concat[one + most as seq](begin, e[seq = 1.. as most] - e[seq = 0..most as most])""",
}

# Of these dims a position needs no element behind it; of those called `generate.` it needs the last few alone, so many has the dim.
NEEDED = {
    "attention": {"key": 32}, "window": {"generate.key": 5}, "the mask the other way round": {"key": 32}, "before this position": {"key": 32}, "a slope": {"key": 32},
    "padding": {"key": 32}, "sum over a mask": {"key": 32}, "gru": {"seq": 32}, "attention in layers": {"key": 32}, "two attentions": {"key": 32, "other": 32},
    "mean where": {"generate.key": 4}, "largest so far": {"key": 32}, "the one before": {}, "running sum": {}, "the first": {},
    "gpt": {"key": 32}, "gpt2": {"key": 32}, "mixtral": {"generate.key": 5},
}

# Of these the sequences stand at one position: the slots of a cache are the last positions of all of them.
WINDOWS = ("window", "mean where", "mixtral")


def log_shares(logits):
    top = logits.max(-1, keepdims=True)
    return logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))


def forward(folder, spec, options, params, tokens, size):
    """The logits of the full forward pass: [batch, seq, vocab]."""
    padded = np.zeros((len(tokens), size), np.int32)
    for row, of in zip(padded, tokens):
        row[:len(of)] = of
    np.save(f"{folder}/token.npy", padded)
    execute(meshc(), "fetch", *spec, "logits", "--params", params, "--precision", "f64", *options, *sets(batch=len(tokens)), "--feed", f"token={folder}/token.npy",
            "--feed", f"target={folder}/token.npy", "--layout", "alone", "--out", folder)
    return np.load(f"{folder}/logits.npy")


def generated(spec, params, options, prompts=PROMPTS, how=("--interpret",), precision="f64"):
    given = [part for prompt in prompts for part in ("--prompt", prompt)]
    return json.loads(execute(meshc(), "generate", *spec, "--params", params, *given, "--precision", precision, "--json", *how, *options).stdout)["generated"]


def emitted(report, name, spec, params, options, layouts):
    """The built program gives every bit of what the interpreted one gives."""
    for layout in layouts:
        words = [*options, "--tokens", TOKENS, "--temperature", "0.9", "--seed", "5", *layout]
        for prompts in (PROMPTS, PROMPTS[::2]):  # read one position after the other, and in one pass
            same = generated(spec, params, words, prompts) == generated(spec, params, words, prompts, how=())
            report.true(f"{name}, emitted, {' '.join(layout)}, {len(prompts)} prompts: bit by bit as interpreted", same)


def scored(report, folder, spec, params, options):
    """The likelihoods of given texts, of those written too, by the full forward pass; by the built program the same bits."""
    written = generated(spec, params, [*options, "--tokens", TOKENS, "--greedy", "--layout", "alone"])
    texts = ["In the beginning\twas the", "a", "And\tx", *(f"{one['prompt']}\t{bytes(one['tokens']).decode('latin-1')}" for one in written)]
    texts = [text for text in texts if "\n" not in text and "\r" not in text and text.isascii()]
    texts[1] = "ab"
    with open(f"{folder}/texts.txt", "w", encoding="utf-8", newline="") as file:
        file.write("".join(text + "\n" for text in texts[2:]))
    words = [*spec, "--params", params, "--precision", "f64", *options, "--text", texts[0], "--text", texts[1], "-f", f"{folder}/texts.txt", "--json"]
    answer = json.loads(execute(meshc(), "score", *words, "--layout", "alone", "--interpret").stdout)
    tokens = [list(text.replace("\t", "").encode()) for text in texts]
    begins = [max(1, text.find("\t")) for text in texts]
    rows = log_shares(forward(folder, spec, options, params, tokens, 32))
    expected = [[row[p - 1][of[p]] for p in range(begin, len(of))] for row, of, begin in zip(rows, tokens, begins)]
    greedy = [all(row[p - 1].argmax() == of[p] for p in range(begin, len(of))) for row, of, begin in zip(rows, tokens, begins)]
    one = answer["scored"]
    worst = max(np.abs(np.array(a["logprobs"]) - e).max() if len(a["logprobs"]) == len(e) else np.inf for a, e in zip(one, expected))
    report.check(f"{len(texts)} texts scored, against the full forward pass", worst, BOUND, len(one) == len(texts) and worst <= BOUND)
    report.check("their sums", max(abs(a["logprob"] - sum(e)) for a, e in zip(one, expected)), BOUND)
    report.true("what is greedy is said", [a["greedy"] for a in one] == greedy and (len(texts) < 4 or any(greedy)), greedy)
    total, count = sum(map(sum, expected)), sum(map(len, expected))
    report.check("all together", max(abs(answer["logprob"] - total), abs(answer["perplexity"] / np.exp(-total / count) - 1)), BOUND, answer["tokens"] == count and abs(answer["logprob"] - total) <= BOUND)
    for layout in ("alone", "square"):
        there = json.loads(execute(meshc(), "score", *words, "--layout", layout).stdout)
        here = json.loads(execute(meshc(), "score", *words, "--layout", layout, "--interpret").stdout)
        report.true(f"scored by the built program, {layout}: bit by bit", there == here)
        apart = max(abs(a["logprob"] - b["logprob"]) for a, b in zip(here["scored"], one))
        report.check(f"scored, {layout}, against one rank", apart, BOUND)
    lines = execute(meshc(), "score", *words[:-1], "--layout", "alone", "--interpret").stdout.splitlines()
    report.true("as text: a line each, then all", len(lines) == len(texts) + 1 and lines[0].split()[0] == f"{one[0]['logprob']:.3f}" and lines[0].endswith("In the beginning | was the")
                and lines[-1].startswith(f"{len(texts)} texts, {count} tokens: {total:.3f} nats"), "\n".join(lines[:1] + lines[-1:]))
    for given, said, code in ((["--text", "a"], "--text 1: nothing to score in `a`: the first element stands behind none", 1), (["--text", "a\t"], "--text 1: nothing to score behind the tab", 2),
                              ([], "nothing to score: `--text TEXT`, or `-f FILE`", 2), (["--text", "a" * 34], "--text 1: the text has 33 positions: the model has 32", 1)):
        done = execute(meshc(), "score", *spec, "--layout", "alone", "--params", params, "--precision", "f64", *options, "--interpret", *given, code=None)
        report.true(f"score {' '.join(given)[:20]!r}: {said[:40]}", done.returncode == code and said in done.stderr, done.stderr)


def with_nan(params, path):
    """The same safetensors file with nan as the first number of each tensor."""
    with open(params, "rb") as file:
        data = bytearray(file.read())
    begin = 8 + int.from_bytes(data[:8], "little")
    for name, entry in json.loads(data[8:begin]).items():
        if name != "__metadata__":
            number = np.array(np.nan, {"F32": "<f4", "F64": "<f8"}[entry["dtype"]]).tobytes()
            at = begin + entry["data_offsets"][0]
            data[at : at + len(number)] = number
    with open(path, "wb") as file:
        file.write(data)
    return path


def alone(report, folder, spec, params, options):
    """A program that is built to generate: from a file, in rounds of its batch, with the run file's tokenizer beside it; it trains nothing."""
    spec = [*spec, "--layout", "batch_2", "--precision", "f64", *options]
    with open(f"{folder}/prompts.txt", "w", encoding="utf-8") as file:
        file.write("".join(prompt + "\n" for prompt in PROMPTS * 2))
    execute(meshc(), "build", *spec, "--generate", "-o", f"{folder}/built")
    program = f"{folder}/built/" + os.path.basename(spec[0]).removesuffix(".mesh")
    words = ["-f", f"{folder}/prompts.txt", "--params", params, "--tokens", TOKENS, "--greedy", "--json"]
    told = json.loads(execute(meshc(), "generate", *spec, "--interpret", *words).stdout)
    report.true("how long it took", told["tokens_per_second"] > 0 and 0 < told["prompt_seconds"] < 6 * TOKENS / told["tokens_per_second"], {key: told[key] for key in ("tokens_per_second", "prompt_seconds")})
    here = told["generated"]
    for how in (["-n", "2"], ["--threads"]):
        there = json.loads(execute(program, "generate", *how, *words).stdout)["generated"]
        report.true(f"six prompts in rounds of two, {' '.join(how)}", there == here and len(there) == 6)
    done = execute(program, "-n", "2", "train.steps=1", code=None)
    report.true("it does not train", done.returncode == 2 and "compiled to generate" in done.stderr, done.stderr)
    done = execute(program, "generate", "-n", "2", "--greedy", "--top-k=3", "--prompt", "a", code=None)
    report.true("--greedy excludes --top-k", done.returncode == 2 and "--greedy excludes --top-k" in done.stderr, done.stderr)
    done = execute(program, "generate", "-n", "2", code=None)
    report.true("no prompt", done.returncode == 2 and "nothing to go on from" in done.stderr, done.stderr)
    done = execute(program, "generate", "-n", "2", "--params", params, "-f", f"{folder}/nowhere", code=None)
    report.true("prompts of no file", done.returncode == 1 and done.stderr == f"error: -f: cannot read `{folder}/nowhere`: No such file or directory\n", done.stderr)
    done = execute(program, "generate", "-n", "2", "--params", params, "-f", "/dev/null", code=None)
    report.true("prompts of a device", done.returncode == 1 and done.stderr == "error: -f: `/dev/null` is no regular file, which each rank could read\n", done.stderr)
    done = execute(program, "generate", "-n", "2", "--params", with_nan(params, f"{folder}/nan.safetensors"), "--prompt", "a", code=None)
    report.true("a model that says nan", done.returncode == 3 and "what the model says of the next element is nan" in done.stderr, done.stderr)
    done = execute(program, "generate", "-n", "2", "--params", params, "--prompt", "a" * 40, code=None)
    report.true("a prompt that is too long", done.returncode == 1 and "the model has 32" in done.stderr, done.stderr)


def tokenized(report, folder):
    """The tokenizer of the run file goes with the program."""
    with open(f"{folder}/text.txt", "w", encoding="utf-8") as file:
        file.write("".join(f"the {a} sees the {b}\n" for a in ("cat", "dog", "bird", "fish") for b in ("cat", "dog", "bird", "tree")))
    execute(meshc(), "data", "train", f"{folder}/text.txt", "--vocabulary", "276", "-o", f"{folder}/pieces.model")
    spec = f"{folder}/words.mesh"
    with open(spec, "w", encoding="utf-8") as file:
        file.write(HEAD.replace("vocab = 256", "vocab = 276") + MODELS["attention"] + TAIL)
    with open(f"{folder}/words.yaml", "w", encoding="utf-8") as file:
        file.write("data: { token: { file: text.txt, tokenizer: pieces.model, window: seq }, target: { of: token, shift: 1 } }\ntrain: { steps: 3 }\n")
    execute(meshc(), "run", spec, "checkpoint.dir=words-ckpt", cwd=folder)
    execute(meshc(), "build", spec, "--generate", "-o", f"{folder}/words-built")
    words = ["--params", f"{folder}/words-ckpt", "--prompt", "the cat", "--tokens", "5", "--seed", "3"]
    said = execute(meshc(), "generate", spec, "--interpret", *words).stdout
    os.remove(f"{folder}/pieces.model")
    report.true("text by the tokenizer beside the program", execute(f"{folder}/words-built/words", "generate", *words).stdout == said and said.startswith("the cat"), said)


def furthest(made, logits):
    """How far the likelihoods of all elements, given and written, are from those of the full forward pass."""
    worst = 0.0
    for one, rows in zip(made, log_shares(logits)):
        tokens = list(one["prompt"].encode()) + one["tokens"]
        expected = [rows[p][tokens[p + 1]] for p in range(len(tokens) - 1)]
        worst = max(worst, np.abs(np.array(one["prompt_logprobs"] + one["logprobs"]) - expected).max())
    return worst


def initial(folder, spec, options, size):
    """The parameters that a model begins with."""
    params = f"{folder}/params.safetensors"
    np.save(f"{folder}/none.npy", np.zeros((1, size), np.int32))
    execute(meshc(), "fetch", *spec, "--layout", "alone", "--precision", "f64", *options, *sets(batch=1), "--seed", SEED, "--save-params", params,
            "--feed", f"token={folder}/none.npy", "--feed", f"target={folder}/none.npy")
    return params


def in_one_pass(report, folder, name, spec, params, options, layouts, size):
    """Prompts of several positions are read in one pass, and what is written behind them is what one position after the other gives."""
    entries = execute(meshc(), "ir", *spec, "graph", "--entry", "generate.prompt", "--layout", "alone", *options).stdout
    report.true(f"{name}: the prompt has an entry of its own", "generate.next" in entries)
    prompts = [PROMPTS[0], PROMPTS[2] + "?"]
    for layout in [["--layout", "alone"], *layouts]:
        made = generated(spec, params, [*options, "--tokens", TOKENS, "--greedy", *layout], prompts)
        tokens = [list(o["prompt"].encode()) + o["tokens"] for o in made]
        report.check(f"{name}: prompts in one pass, {' '.join(layout)}", furthest(made, forward(folder, spec, options, params, tokens, size)), BOUND)


def in_f32(report, folder, name, spec, params, options, layouts, size):
    """Where a text in f32 is another one under another layout, the two elements at which it parts are as likely as each other, to TIE."""
    words = [*options, "--tokens", TOKENS, "--greedy"]
    one = generated(spec, params, [*words, "--layout", "alone"], precision="f32")
    tokens = [list(o["prompt"].encode()) + o["tokens"] for o in one]
    shares = log_shares(forward(folder, spec, options, params, tokens, size))
    for layout in layouts:
        other = generated(spec, params, [*words, *layout], precision="f32")
        worst = 0.0
        for o, t, rows in zip(one, other, shares):
            parts = [k for k in range(TOKENS) if o["tokens"][k] != t["tokens"][k]]
            if parts:
                row = rows[len(o["prompt"].encode()) - 1 + parts[0]]
                worst = max(worst, abs(row[o["tokens"][parts[0]]] - row[t["tokens"][parts[0]]]))
        report.check(f"{name}: f32 parts at ties alone, {' '.join(layout)}", worst, TIE)


def asked(report, spec, params, options):
    """Without a prompt a person at the terminal is asked for one."""
    words = [*options, "--tokens", TOKENS, "--greedy", "--layout", "alone"]
    terminal, theirs = os.openpty()
    with subprocess.Popen([meshc(), "generate", *spec, "--params", params, "--precision", "f64", "--json", "--interpret", *map(str, words)],
                          stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        os.write(terminal, b"And\n")
        out, told = process.communicate(timeout=300)
    os.close(terminal)
    os.close(theirs)
    same = process.returncode == 0 and json.loads(out)["generated"] == generated(spec, params, words, ["And"])
    report.true("a prompt is asked for", same and told.startswith("prompt: "), told)


def needed(report, name, spec, options):
    """What is behind a position is left out, and of a window a cache has the last positions only."""
    if name not in NEEDED:
        return
    words = [*spec, "program", "--entry", "generate", "--layout", "alone", *options]
    lines = execute(meshc(), "ir", *words).stdout.splitlines()
    found = {dim: size for dim, size in (re.match(r"  of (\S+) \((\d+)\) the elements up to (?:position|last)", line).groups() for line in lines if line.startswith("  of "))}
    report.true(f"{name}: what a position needs", {dim: int(size) for dim, size in found.items()} == NEEDED[name], found)
    stopped = {part.split(" <= ")[0] for line in lines for part in line.split(", ") if re.search(" <= (position|last)$", part)}
    report.true(f"{name}: how far steps go", stopped == set(NEEDED[name]), stopped)


def compare(report, folder, name, spec, options, layouts, size):
    params = initial(folder, spec, options, size)
    needed(report, name, spec, options)
    sampling = {"greedy": ["--greedy"], "sampled": ["--temperature", "0.9", "--top-k", "50", "--top-p", "0.95", "--seed", "5"]}
    for how, chosen in sampling.items():
        words = [*options, "--tokens", TOKENS, *chosen]
        one = generated(spec, params, [*words, "--layout", "alone"])
        tokens = [list(o["prompt"].encode()) + o["tokens"] for o in one]
        worst = furthest(one, forward(folder, spec, options, params, tokens, size))
        report.check(f"{name}, {how}: against the full forward pass", worst, BOUND)
        if how == "greedy":
            rows = forward(folder, spec, options, params, tokens, size)
            best = [[int(rows[i][p].argmax()) for p in range(len(o["prompt"]) - 1, len(t) - 1)] for i, (o, t) in enumerate(zip(one, tokens))]
            report.true(f"{name}: the likeliest each time", best == [o["tokens"] for o in one], f"{best} {[o['tokens'] for o in one]}" if best != [o["tokens"] for o in one] else "")
        for layout in layouts:
            other = generated(spec, params, [*words, *layout])
            same = [o["tokens"] for o in other] == [o["tokens"] for o in one]
            apart = max(abs(a - b) for o, t in zip(one, other) for a, b in zip(o["logprobs"] + o["prompt_logprobs"], t["logprobs"] + t["prompt_logprobs"])) if same else np.inf
            report.check(f"{name}, {how}, {' '.join(layout)}", apart, BOUND)
    single = generated(spec, params, [*options, "--tokens", TOKENS, "--greedy", "--layout", "alone"], PROMPTS[1:2])
    beside = generated(spec, params, [*options, "--tokens", TOKENS, "--greedy", "--layout", "alone"])[1]
    apart = max(abs(a - b) for a, b in zip(single[0]["logprobs"] + single[0]["prompt_logprobs"], beside["logprobs"] + beside["prompt_logprobs"]))
    report.check(f"{name}: a prompt alone gives what it gives beside longer ones", apart, BOUND, single[0]["tokens"] == beside["tokens"] and apart <= BOUND)
    own = "position : i32[batch]" in execute(meshc(), "ir", *spec, "program", "--entry", "generate", "--layout", "alone", *options).stdout
    report.true(f"{name}: each prompt is read to its own end in one pass", own == (name not in WINDOWS))
    in_one_pass(report, folder, name, spec, params, options, layouts[-1:], size)
    in_f32(report, folder, name, spec, params, options, layouts, size)
    emitted(report, name, spec, params, options, [["--layout", "alone"], *layouts[:1]] if len(layouts) > 1 else layouts)
    if name == "attention":
        scored(report, folder, spec, params, options)
        alone(report, folder, spec, params, options)
        asked(report, spec, params, options)


SMALL, DEEP = 6, 4  # elements of the vocabulary, and how many are written


def written_by_beams(spec, params, prompts, beams, tokens, *words, how=("--interpret",)):
    return generated(spec, params, ["--beams", beams, "--tokens", tokens, *words], prompts, how)


def beamed(report, folder, name, spec, params, layouts):
    """A model over six elements: by as many beams two are searched through; four as a search in NumPy does it, from the full forward passes of all texts."""
    def rows_behind(prompt):
        texts = [list(text) for text in np.ndindex(*[SMALL] * (DEEP - 1))]
        logits = log_shares(forward(folder, spec, [], params, [prompt + text for text in texts], 32))
        known = {tuple(text): row for text, row in zip(texts, logits)}
        return lambda prefix: known[tuple(prefix) + (0,) * (DEEP - 1 - len(prefix))][len(prompt) + len(prefix) - 1]

    prompts = ["\x01\x04\x02", "\x03", "\x05\x05\x01\x02\x03\x04\x01"]
    rows = [rows_behind(list(prompt.encode())) for prompt in prompts]
    found = written_by_beams(spec, params, prompts, SMALL, 2, "--layout", "alone")
    for i, one in enumerate(found):
        report.check(f"{name}, prompt {i}: two by {SMALL} beams as by search through all", same_beams(one["beams"], exhaustive(rows[i], [], 2, 1, SMALL)), BOUND)
        report.true(f"{name}, prompt {i}: the best is what is written", one["tokens"] == one["beams"][0]["tokens"] and one["logprobs"] == one["beams"][0]["logprobs"])
    for layout in layouts:
        words = ["--layout", layout, "--length-penalty", "0.6"]
        found = written_by_beams(spec, params, prompts, 3, DEEP, *words)
        apart = max(same_beams(one["beams"], beam_search(rows[i], [], 3, DEEP, 0.6)) for i, one in enumerate(found))
        report.check(f"{name}, three beams behind three prompts, --layout {layout}", apart, BOUND)
    report.true(f"{name}, beams of the built program: bit by bit as interpreted", written_by_beams(spec, params, prompts, 3, DEEP, *words, how=()) == found)
    rounds = written_by_beams(spec, params, prompts, 3, DEEP, *words, "--set", "batch=4")
    report.true(f"{name}, beams of one prompt a round", [[b["tokens"] for b in one["beams"]] for one in rounds] == [[b["tokens"] for b in one["beams"]] for one in found])


def beams_refused(report, spec, params):
    for given, said, code in ((["--beams", SMALL + 1], f"--beams {SMALL + 1}: `token` has {SMALL} elements, and a beam for each at most: --beams {SMALL}", 2),
                              (["--beams", 3, "--set", "batch=2"], "--beams 3: the program has 2 sequences side by side: compile it with `--set batch=3`", 2),
                              (["--beams", 3, "--greedy"], "--beams excludes --greedy", 2), (["--beams", 3, "--top-k=2"], "--beams excludes --top-k", 2),
                              (["--length-penalty", 1], "--length-penalty compares beams: give `--beams B`", 2), (["--stop", ""], "--stop takes a text: every text ends with an empty one", 2), (["--beams", 0], "--beams 0: a number from 1 to", 2),
                              (["--begin", "a"], "--begin is of models that are given one thing and write another; `token` is written on from its prompt", 2)):
        done = execute(meshc(), "generate", *spec, "--layout", "alone", "--params", params, "--precision", "f64", "--interpret", "--prompt", "\x01", *given, code=None)
        report.true(f"refused: {' '.join(map(str, given))}", done.returncode == code and said in done.stderr, done.stderr)


def small_vocabulary(report, folder, write, layouts, names):
    for number, name in enumerate(names):
        body = MODELS[name].replace("token != 32", "token != 0")
        spec = [write(f"small{number}", HEAD.replace("vocab = 256", f"vocab = {SMALL}") + body + TAIL + layouts)]
        params = initial(folder, spec, [], 32)
        beamed(report, folder, name, spec, params, ["alone", "batch_2", "wide_2"])
    beams_refused(report, spec, params)


def translated_by_beams(report, folder):
    """With a mark behind a text, which may end early, and with how it must begin."""
    spec = [f"{TOP}/specs/translate.mesh", f"{folder}/translate-alone.mesh"]
    options = sets(source=8, target=8, embed=16, heads=4, head_dim=4, vocab=SMALL)
    prompts, end = ["\x03\x04\x05\x03", "\x05"], 2
    texts = [list(text) for text in np.ndindex(*[SMALL] * (DEEP - 1))]

    def arrays(prompt):
        src, tgt = np.zeros((len(texts), 8), np.int32), np.zeros((len(texts), 8), np.int32)
        src[:, :len(prompt)] = list(prompt.encode())
        tgt[:, 0] = 1
        tgt[:, 1:DEEP] = texts
        for name, array in (("src", src), ("tgt", tgt), ("label", tgt)):
            np.save(f"{folder}/{name}.npy", array)
        return [*sets(batch=len(texts)), *(part for name in ("src", "tgt", "label") for part in ("--feed", f"{name}={folder}/{name}.npy"))]

    params = f"{folder}/params.safetensors"
    execute(meshc(), "fetch", *spec, "--layout", "alone", "--precision", "f64", *options, "--seed", SEED, "--save-params", params, *arrays(prompts[0]))
    with open(spec[0], encoding="utf-8") as file:
        text = file.read()
    with open(f"{folder}/dry.mesh", "w", encoding="utf-8") as file:
        file.write(text.replace("rate: 0.1", "rate: 0"))
    rows = []
    for prompt in prompts:
        execute(meshc(), "fetch", f"{folder}/dry.mesh", spec[1], "logits", "--params", params, "--precision", "f64", *options, "--layout", "alone", "--out", folder, *arrays(prompt))
        known = dict(zip(map(tuple, texts), log_shares(np.load(f"{folder}/logits.npy"))))
        rows.append(lambda prefix, known=known: known[tuple(prefix) + (0,) * (DEEP - 1 - len(prefix))][len(prefix)])
    for penalty in (0, 0.7, 3):
        found = written_by_beams(spec, params, prompts, SMALL, 2, "--layout", "alone", "--length-penalty", penalty, *options)
        apart = max(same_beams(one["beams"], exhaustive(rows[i], [], 2, penalty, SMALL, end)) for i, one in enumerate(found))
        report.check(f"translate, two by {SMALL} beams as by search through all, penalty {penalty}", apart, BOUND)
        for begin in ([], [4], [3, 5]):
            words = ["--layout", "default", "--length-penalty", penalty, *options, *(["--begin", bytes(begin).decode()] if begin else [])]
            found = written_by_beams(spec, params, prompts, 3, DEEP - len(begin), *words)
            apart = max(same_beams(one["beams"], beam_search(rows[i], begin, 3, DEEP - len(begin), penalty, end)) for i, one in enumerate(found))
            report.check(f"translate, three beams, penalty {penalty}, beginning with {begin}", apart, BOUND)
    report.true("translate, by the built program bit by bit", written_by_beams(spec, params, prompts, 3, DEEP - 2, *words, how=()) == found)
    greedy = generated(spec, params, ["--layout", "alone", "--greedy", "--tokens", 2, "--begin", "\x03\x05", *options], prompts)
    report.true("translate, greedy behind a beginning", all(one["tokens"][:2] == [3, 5] and len(one["logprobs"]) - len(one["tokens"]) in (0, 1) for one in greedy), greedy)
    with_mark = [(one["logprobs"], one["tokens"] + [end] * (len(one["logprobs"]) - len(one["tokens"]))) for one in greedy]
    worst = max(abs(sum(logprobs) - sum(rows[i](tokens[:k])[token] for k, token in enumerate(tokens))) for i, (logprobs, tokens) in enumerate(with_mark))
    report.check("translate, its likelihood", worst, BOUND)


def translated(report, folder, layouts):
    """An encoder-decoder: what is generated begins with the run file's mark, the prompts are what the encoder reads."""
    spec, source, target = [f"{TOP}/specs/translate.mesh", f"{folder}/translate-alone.mesh"], 20, 24
    options = sets(source=source, target=target, embed=16, heads=4, head_dim=4)
    params = f"{folder}/params.safetensors"

    def feeds(texts, made):
        arrays = {"src": np.zeros((len(texts), source), np.int32), "tgt": np.zeros((len(texts), target), np.int32)}
        for i, (text, tokens) in enumerate(zip(texts, made)):
            arrays["src"][i, :len(text)] = list(text.encode())
            arrays["tgt"][i, :len(tokens) + 1] = [1, *tokens]
        arrays["label"] = arrays["tgt"]
        for name, array in arrays.items():
            np.save(f"{folder}/{name}.npy", array)
        return [*sets(batch=len(texts)), *(part for name in arrays for part in ("--feed", f"{name}={folder}/{name}.npy"))]

    execute(meshc(), "fetch", *spec, "--layout", "alone", "--precision", "f64", *options, "--seed", SEED, "--save-params", params, *feeds(["x"], [[]]))
    words = [*options, "--tokens", TOKENS, "--temperature", "0.9", "--seed", "5"]
    one = generated(spec, params, [*words, "--layout", "alone"])
    # Not in training: dropout gives its operand. A spec without it computes that.
    with open(spec[0], encoding="utf-8") as file:
        text = file.read()
    with open(f"{folder}/dry.mesh", "w", encoding="utf-8") as file:
        file.write(text.replace("rate: 0.1", "rate: 0"))
    execute(meshc(), "fetch", f"{folder}/dry.mesh", spec[1], "logits", "--params", params, "--precision", "f64", *options, "--layout", "alone", "--out", folder,
            *feeds(PROMPTS, [o["tokens"] for o in one]))
    rows = log_shares(np.load(f"{folder}/logits.npy"))
    worst = max(abs(rows[i][p][token] - one[i]["logprobs"][p]) for i in range(len(one)) for p, token in enumerate(one[i]["tokens"]))
    report.check("translate: against the full forward pass", worst, BOUND)
    report.true("translate: so many are written", all(1 <= len(o["tokens"]) <= TOKENS for o in one), [len(o["tokens"]) for o in one])
    emitted(report, "translate", spec, params, options, [["--layout", "alone"], ["--layout", layouts[0]]])
    for layout in layouts:
        other = generated(spec, params, [*words, "--layout", layout])
        report.true(f"translate, --layout {layout}", [o["tokens"] for o in other] == [o["tokens"] for o in one])


STAGES = """
dim batch = 2, src = 8, tgt = 16, embed = 6, out = embed, vocab = 128, enc = 2, dec = 2
model M {
  input source : index(vocab)[batch, src]
  input token, target : index(vocab)[batch, tgt]
  param wte : real[vocab, embed] = normal(std: 1)
  e = take[vocab](wte, source)
  repeat enc {
    param w : real[embed, out] = fan_in[embed]
    e = e + tanh(dot[embed](e, w))[out as embed]
  }
  m = mean[src](e)
  h = take[vocab](wte, token)
  repeat dec {
    param v : real[embed, out] = fan_in[embed]
    h = h + tanh(dot[embed](h + m, v))[out as embed]
  }
  logits = dot[embed](h, wte)
  loss   = mean[batch, tgt](cross_entropy[vocab](logits, target))
  minimize loss with sgd(lr: 0.1)
  generate token along tgt from logits
}
mesh two { pipe: 2 }
mesh three { pipe: 3 }
mesh four { pipe: 4 }
layout even on two { enc, dec -> pipe { microbatches: 1 } }
layout late on two { enc, dec -> pipe { microbatches: 1, cut: (1, 3) } }
layout early on two { enc, dec -> pipe { microbatches: 1, cut: (3, 1) } }
layout folded on two { enc, dec -> pipe { microbatches: 2, schedule: "zb_v" } }
layout parts on two { enc, dec -> pipe { microbatches: 4 } }
layout added on two { embed -> pipe; batch -> none { accumulate: 3 } }
layout thirds on three { enc, dec -> pipe { microbatches: 1, cut: (1, 2, 1) } }
layout each on four { enc, dec -> pipe { microbatches: 1 } }
"""


def in_stages(report, folder, write, alone):
    """An encoder's and a decoder's layers over stages, of which some have none of the decoder's; texts are no batch that micro-batches would have to divide."""
    spec, params, text = [write("stages", STAGES + alone)], f"{folder}/params.safetensors", f"{folder}/text"
    with open(text, "w", encoding="utf-8") as file:
        file.write("abc bca\n" * 2)
    with open(f"{folder}/stages.yaml", "w", encoding="utf-8") as file:
        file.write("data:\n" + "".join(f"  {name}: {{ file: {text}, type: bytes, pad: 0, {mark} }}\n" for name, mark in (("source", "end: 2"), ("token", "start: 1"), ("target", "end: 2"))))
    for name, size in (("source", 8), ("token", 16), ("target", 16)):
        np.save(f"{folder}/{name}.npy", np.zeros((2, size), np.int32))
    execute(meshc(), "fetch", *spec, "--layout", "alone", "--precision", "f64", "--seed", SEED, "--save-params", params,
            *(part for name in ("source", "token", "target") for part in ("--feed", f"{name}={folder}/{name}.npy")))
    words, prompts = [f"{folder}/stages.yaml", "--tokens", TOKENS, "--temperature", "0.9", "--seed", "5"], ["abc", "hgfed"]
    one = generated(spec, params, [*words, "--layout", "alone"], prompts)
    report.true("stages: texts that depend on what the encoder reads", one[0]["tokens"] != one[1]["tokens"], one)
    for layout in ("even", "late", "early", "folded", "parts", "added", "thirds", "each"):
        other = generated(spec, params, [*words, "--layout", layout], prompts)
        report.true(f"stages, --layout {layout}: the tokens", [o["tokens"] for o in other] == [o["tokens"] for o in one], other)
        report.check(f"stages, --layout {layout}: their likelihoods", max(np.abs(np.subtract(o["logprobs"], a["logprobs"])).max() for o, a in zip(other, one)), BOUND)
    report.true("stages, by the built program bit by bit", generated(spec, params, [*words, "--layout", "even"], prompts, how=()) == generated(spec, params, [*words, "--layout", "even"], prompts))


def run(small):
    report = Report()
    with scratch() as folder:
        def write(name, text):
            path = f"{folder}/{name}.mesh"
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            return path
        alone = "\nmesh single { only: 1 }\nlayout alone on single { batch -> none }\n"
        models = dict(list(MODELS.items())[::5]) if small else MODELS
        for number, (name, body) in enumerate(models.items()):
            tail = TAIL.replace("(h, wte)", "(h2, wte)") if "h2" in body else "\n" + TAIL.split("\n", 2)[2] if "logits =" in body else TAIL
            layouts = LAYOUTS.replace("HEADS", "heads").replace("KEY", "key")
            path = write(f"m{number}", HEAD + body + tail + alone + layouts)
            chosen = [["--layout", one] for one in (["square"] if small else ["batch_2", "wide_2", "keys_2", "square", "wide_4"])]
            report.attempt(name, lambda: compare(report, folder, name, [path], [], chosen, 32))
        shipped = {
            "gpt": (sets(seq=32, embed=16, heads=4, head_dim=4, layer=2), ["default", "megatron", "sequence", "zero"]),
            "mixtral": (sets(seq=32, embed=16, head_dim=4, layer=2, window=5, slot=32), ["default", "dense", "wide", "moe"]),
            "gpt2": (sets(seq=32, embed=16, heads=4, layer=2, vocab=300, place=40), ["default"]),
        }
        for name, (options, layouts) in list(shipped.items())[:1 if small else None]:
            extra = write(f"{name}-alone", alone)
            layouts = [["--layout", one] for one in (layouts[1:2] if small else layouts)]
            report.attempt(name, lambda: compare(report, folder, name, [f"{TOP}/specs/{name}.mesh", extra], options, layouts, 32))
        report.attempt("stages", lambda: in_stages(report, folder, write, alone))
        report.attempt("tokenizer", lambda: tokenized(report, folder))
        report.attempt("beams", lambda: small_vocabulary(report, folder, write, alone + LAYOUTS.replace("HEADS", "heads").replace("KEY", "key"), ["attention in layers"] if small else ["attention in layers", "gru", "padding"]))
        if not small:
            write("translate-alone", alone)
            report.attempt("translate", lambda: translated(report, folder, ["default", "megatron", "zero"]))
            report.attempt("translate by beams", lambda: translated_by_beams(report, folder))
    return report
