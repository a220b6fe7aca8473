"""meshc data: texts to tokens and token files, read back by NumPy; runs from every format and from mixtures, the same under every mesh, by micro-batches and
resumed."""
import json
import os
import struct

import numpy as np

from common import TOP, Report, json_lines, meshc, scratch
from common import run as execute
from oracle.sentencepiece_model import model_of

SEED = 20261122
SPEC = """dim batch = 12, seq = 16, vocab = 500, embed = 8
model Bigram {
  input token, target : index(vocab)[batch, seq]
  param from : real[vocab, embed] = normal(std: 0.3)
  param to   : real[vocab, embed] = normal(std: 0.3)
  loss = mean[batch, seq](cross_entropy[vocab](dot[embed](take[vocab](from, token), to), target))
  minimize loss with sgd(lr: 0.5)
}
mesh line { all: * }
layout rows on line { batch -> all }
layout parts on line { batch -> all { accumulate: 3 } }
"""


def data(*arguments, code=0):
    done = execute(meshc(), "data", *arguments, code=code)
    return done.stderr if code else done.stdout


def write(path, content):
    with open(path, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
    return path


def read_tokens(path):
    """Tokens, and the lengths of documents where the format has them."""
    with open(path, "rb") as file:
        content = file.read()
    if content[:4] == struct.pack("<i", 20240520):
        version, count = struct.unpack("<ii", content[4:12])
        tokens = np.frombuffer(content[1024:], "<u2")
        return (tokens, None) if version == 1 and count == len(tokens) and not any(content[12:1024]) else (None, None)
    with open(path.removesuffix(".bin") + ".idx", "rb") as file:
        index = file.read()
    magic, version, code, count, marks = struct.unpack("<9sQBQQ", index[:34])
    lengths = np.frombuffer(index, "<i4", count, 34)
    begins = np.frombuffer(index, "<i8", count, 34 + 4 * count)
    documents = np.frombuffer(index, "<i8", marks, 34 + 12 * count)
    kind = {8: "<u2", 4: "<i4"}[code]
    good = magic == b"MMIDIDX\0\0" and version == 1 and len(index) == 34 + 12 * count + 8 * marks and list(documents) == list(range(count + 1))
    good = good and list(begins) == list(np.dtype(kind).itemsize * (np.cumsum(lengths) - lengths))
    return (np.frombuffer(content, kind), list(lengths)) if good else (None, None)


def same(tokens, expected):
    return tokens is not None and list(tokens) == list(expected)


def check_bytes(report, folder):
    first, second = write(f"{folder}/a.txt", "In the beginning\nwas\r\n\nthe word.\n"), write(f"{folder}/b.txt", "é!\n\n\nno end")
    a, b = list(open(first, "rb").read()), list(open(second, "rb").read())
    out = f"{folder}/out"
    data("tokenize", first, second, "-o", f"{out}.bin")
    report.true("bytes in llm.c's format", same(read_tokens(f"{out}.bin")[0], a + b))
    data("tokenize", first, second, "-o", f"{out}.u16", "--type", "u16", "--end", "256")
    os.symlink(f"{out}.behind", f"{out}.link")
    data("tokenize", first, second, "-o", f"{out}.link", "--type", "u16", "--end", "256")
    with open(f"{out}.behind", "rb") as behind, open(f"{out}.u16", "rb") as plain:
        report.true("tokenize -o of a link writes what it leads to", os.path.islink(f"{out}.link") and behind.read() == plain.read())
    os.symlink(f"{out}.told", f"{out}.text_link")
    data("decode", f"{out}.u16", "--from", "u16", "--end", "256", "-o", f"{out}.text_link")
    report.true("decode -o of a link writes what it leads to", os.path.islink(f"{out}.text_link") and os.path.getsize(f"{out}.told") > 0)
    os.mkfifo(f"{folder}/fifo")
    report.true("bytes in nanoGPT's, with ends", same(np.fromfile(f"{out}.u16", "<u2"), a + [256] + b + [256]))
    told = json.loads(data("tokenize", first, second, "-o", f"{out}.bin", "--type", "megatron", "--documents", "line", "--end", "0", "--json"))
    lines = [list(line.rstrip(b"\r\n")) + [0] for path in (first, second) for line in open(path, "rb")]
    tokens, lengths = read_tokens(f"{out}.bin")
    report.true("lines as Megatron's documents", same(tokens, sum(lines, [])) and lengths == [len(line) for line in lines])
    report.true("what was written is told", told == {"schema": 1, "files": [f"{out}.bin", f"{out}.idx"], "tokens": len(sum(lines, [])), "documents": len(lines), "bound": 256}, told)
    data("tokenize", first, second, "-o", f"{out}.idx", "--type", "megatron", "--documents", "blank", "--end", "70000")
    tokens, lengths = read_tokens(f"{out}.bin")
    parts = [b"In the beginning\nwas\r\n", b"the word.\n", "é!\n".encode(), b"no end"]
    report.true("paragraphs as documents, numbers of 32 bits", same(tokens, sum((list(part) + [70000] for part in parts), [])) and tokens.dtype == np.int32)
    shown = json.loads(data("show", f"{out}.idx", first, "--json"))["files"]
    report.true("show", [(f["format"], f["type"], f["shape"], f.get("documents"), f["least"], f["greatest"], f["first"][:3]) for f in shown] ==
                [("megatron", "i32", [len(tokens)], 4, 10, 70000, [73, 110, 32]), ("bytes", "u8", [len(a)], None, 10, 119, [73, 110, 32])], shown)
    report.true("Megatron's paragraphs as text, lines at their ends", decoded(f"{out}.idx", "--end", "70000", folder=folder) == b"".join(part + b"\n" for part in parts))
    data("tokenize", first, second, "-o", f"{out}.idx", "--type", "megatron", "--documents", "line", "--no-end")
    lines = b"".join(line.rstrip(b"\r\n") + b"\n" for path in (first, second) for line in open(path, "rb"))
    report.true("Megatron's lines without end markers as text", decoded(f"{out}.idx", folder=folder) == lines)
    report.true("nanoGPT's as text", decoded(f"{out}.u16", "--from", "u16", "--end", "256", folder=folder) == bytes(a) + b"\n" + bytes(b) + b"\n")
    data("tokenize", first, second, "-o", f"{out}.bin")
    report.true("bytes there and back", decoded(f"{out}.bin", folder=folder) == bytes(a + b))
    report.true("text on stdout", data("decode", f"{out}.bin") == bytes(a + b).decode().replace("\r\n", "\n"))
    told = json.loads(data("decode", f"{out}.u16", "--from", "u16", "--end", "256", "-o", f"{out}.text", "--json"))
    report.true("what was decoded is told", told == {"schema": 1, "file": f"{out}.text", "tokens": len(a + b) + 2, "documents": 2, "bytes": len(a + b) + 2}, told)
    for arguments, wanted, code in ((("tokenize", first), "needs `-o FILE`", 2),
                                    (("tokenize", second, first, "-o", first), "that is a file which is read; name another", 2),
                                    (("decode", f"{out}.u16", "--from", "u16", "-o", f"{out}.x"), f"number {len(a)} is 256, which is no byte: `--tokenizer FILE` names the model that made it, `--end N` what ends a document", 1),
                                    (("decode", first, "--documents", "line"), "--documents does not belong to `meshc data decode`", 2),
                                    (("decode", first, "--json"), "needs `-o FILE` for the text", 2),
                                    (("decode", first, "-o", f"{folder}/none/x"), "cannot write", 3),
                                    (("decode", f"{folder}/fractions.npy"), "holds f64 numbers", 1), (("show", first, "--type", "u16"), "--type does not belong to `meshc data show`", 2),
                                    (("tokenize", first, "-o", f"{out}.x", "--end", "70000"), "use type i32 or megatron", 2),
                                    (("tokenize", first, "-o", f"{out}.x", "--type", "u8", "--end", "256"), "do not fit into 1 byte each: use type u16, llm.c, i32 or megatron", 2),
                                    (("tokenize", f"{folder}/none.txt", "-o", f"{out}.x"), "cannot read", 1),
                                    (("pack", f"{folder}/fractions.npy", "-o", f"{out}.x"), "holds f64 numbers", 1),
                                    (("pack", f"{folder}/negative.npy", "-o", f"{out}.x"), "number 1 is -5", 1),
                                    (("train", first, "-o", f"{out}.model"), "a vocabulary of 8000 is too large for these texts: they have ", 1),
                                    (("train", first, "-o", f"{out}.model", "--vocabulary", "200"), "a vocabulary of 200 is too small for these texts: with the bytes, their characters are ", 1),
                                    (("tokenize", first, "-o", f"{out}.x", "--tokenizer", first), "is not a model of SentencePiece", 1),
                                    (("tokenize", first, "-o", f"{folder}/none/x"), "cannot write", 3),
                                    (("tokenize", first, "-o", f"{folder}/fifo"), "a device or a pipe stands there, no file", 3),
                                    (("decode", f"{out}.u16", "--from", "u16", "--end", "256", "-o", folder), "a folder stands there, no file", 3)):
        np.save(f"{folder}/fractions.npy", np.ones(3))
        np.save(f"{folder}/negative.npy", np.array([3, -5]))
        said = data(*arguments, code=code)
        report.true(f"{arguments[0]}: {wanted}", wanted in said, said.strip())
    report.true("nothing half written is left", not [name for name in os.listdir(folder) if "unfinished" in name or name.endswith(".x")], os.listdir(folder))


def decoded(path, *options, folder):
    """The text of a token file, as bytes."""
    data("decode", path, *options, "-o", f"{folder}/decoded.txt")
    with open(f"{folder}/decoded.txt", "rb") as file:
        return file.read()


def check_pack(report, folder, random):
    arrays = [random.integers(0, 300, (7, 3)).astype(np.int64), random.integers(0, 300, 50).astype(np.uint16)]
    for i, array in enumerate(arrays):
        np.save(f"{folder}/{i}.npy", array)
    whole = list(np.concatenate([arrays[0].ravel(), [299], arrays[1], [299]]))
    for kind in ("u16", "llm.c", "megatron", "i32"):
        out = f"{folder}/packed-{kind}.bin"
        data("pack", f"{folder}/0.npy", f"{folder}/1.npy", "-o", out, "--type", kind, "--end", "299")
        tokens = np.fromfile(out, {"u16": "<u2", "i32": "<i4"}[kind]) if kind in ("u16", "i32") else read_tokens(out)[0]
        report.true(f"arrays packed as {kind}", same(tokens, whole))
        again = f"{folder}/again.bin"
        data("pack", out, "-o", again, "--type", "u16", *(("--from", kind) if kind in ("u16", "i32") else ("--from", "megatron") if kind == "megatron" else ()))
        report.true(f"{kind} packed again", same(np.fromfile(again, "<u2"), whole))


def sentencepiece(model):
    """The library's own Python module; None where it is not installed."""
    try:
        import sentencepiece as module
    except ImportError:
        return None
    return module.SentencePieceProcessor(model_file=model)


def check_sentencepiece(report, folder, corpus):
    for method in ("unigram", "bpe"):
        models = []
        for i in range(2):
            data("train", corpus, "-o", f"{folder}/{method}{i}.model", "--vocabulary", "450" if method == "bpe" else "480", "--method", method)
            models.append(open(f"{folder}/{method}{i}.model", "rb").read())
        report.true(f"{method}: the same model twice", models[0] == models[1])
        data("tokenize", corpus, "-o", f"{folder}/{method}.bin", "--type", "megatron", "--tokenizer", f"{folder}/{method}0.model")
        tokens, lengths = read_tokens(f"{folder}/{method}.bin")
        lines = [line for line in open(corpus, encoding="utf-8").read().split("\n") if line == " ".join(line.split()) and line.isascii()]
        plain = write(f"{folder}/plain.txt", "".join(line + "\n" for line in lines))
        data("tokenize", plain, "-o", f"{folder}/plain.bin", "--documents", "line", "--tokenizer", f"{folder}/{method}0.model")
        report.true(f"{method}: {len(lines)} lines there and back", decoded(f"{folder}/plain.bin", "--tokenizer", f"{folder}/{method}0.model", folder=folder) == open(plain, "rb").read())
        said = data("decode", f"{folder}/{method}.bin", "--from", "megatron", code=1)
        report.true(f"{method}: pieces are no bytes", "which is no byte: `--tokenizer FILE`" in said, said)
        library = sentencepiece(f"{folder}/{method}0.model")
        if library is None:
            report.true(f"{method}: fewer tokens than bytes, an end", len(tokens) < os.path.getsize(corpus) and tokens[-1] == 2)
            continue
        lines = open(corpus, encoding="utf-8").read().split("\n")
        expected = [token for line in lines for token in library.encode(line)] + [library.eos_id()]
        report.true(f"{method}: {len(expected)} tokens as the library's own Python gives them", same(tokens, expected) and lengths == [len(expected)])


LETTERS = ["\u2581", *"abcdefghijklmnopqrstuvwxyz."]
TRANSLATE = """dim batch = 4, from = 12, to = 14, vocab = 500, embed = 8
model Pairs {
  input src : index(vocab)[batch, from]
  input tgt, label : index(vocab)[batch, to]
  param table : real[vocab, embed] = normal(std: 0.3)
  h = take[vocab](table, tgt) + broadcast[to](mean[from](take[vocab](table, src), where: src != 0))
  loss = mean[batch, to](cross_entropy[vocab](dot[embed](h, table), label), where: label != 0)
  minimize loss with sgd(lr: 0.5)
}
"""


def check_lacking(report, folder):
    """Characters that a model without pieces for bytes does not have: named with file and line, or its unknown piece where that is asked for."""
    model, line = f"{folder}/letters.model", "a cat.\nthe dog\r\n\nna\u00efve \U0001f600 cats\n"
    write(model, model_of(LETTERS))
    text, known = write(f"{folder}/lacking.txt", line), write(f"{folder}/known.txt", "a cat.\n\nthe dog\n")
    why = "has no piece for `\u00ef` (U+00EF), nor pieces for bytes: a model that `meshc data train` makes reads every character"
    said = data("tokenize", text, "-o", f"{folder}/l.bin", "--tokenizer", model, code=1)
    report.true("tokenize", said == f"error: `{text}`, line 4: `{model}` {why}; `--unknown` writes this one's unknown piece in its place\n", said)
    data("tokenize", text, "-o", f"{folder}/l.bin", "--tokenizer", model, "--unknown", "--no-end", "--documents", "line", "--type", "megatron")
    tokens, lengths = read_tokens(f"{folder}/l.bin")
    number = {"\u2581": 3, **{letter: 4 + i for i, letter in enumerate(LETTERS[1:])}}
    expected = [[number.get(c, 0) for c in ("\u2581" + part.replace(" ", "\u2581") if part else "")] for part in line.replace("\r", "").split("\n")[:-1]]
    report.true("tokenize --unknown", lengths == [len(part) for part in expected] and same(tokens, sum(expected, [])), list(tokens))
    said = data("show", text, "--tokenizer", model, code=1)
    report.true("show", f"`{text}`, line 4: `{model}` {why}" in said, said)
    with open(f"{folder}/bytes.txt", "wb") as file:
        file.write(b"a cat.\nthe \xff\xfe dog\n")
    for unknown in ((), ("--unknown",)):
        said = data("tokenize", f"{folder}/bytes.txt", "-o", f"{folder}/l.bin", "--tokenizer", model, *unknown, code=1)
        report.true(f"bytes that are no text {' '.join(unknown)}", said == f"error: `{folder}/bytes.txt`, line 2: the byte 0xff is no text in UTF-8, which `{model}` reads: save the text in UTF-8 (`iconv -t UTF-8` converts it)\n", said)
    write(f"{folder}/empty.model", model_of([*LETTERS, ""]))
    said = data("tokenize", known, "-o", f"{folder}/l.bin", "--tokenizer", f"{folder}/empty.model", code=1)
    report.true("a model with a piece of no length", said.startswith(f"error: `{folder}/empty.model` is not a model of SentencePiece: "), said)
    said = data("show", text, "--unknown", code=2)
    report.true("--unknown is of tokenize", "--unknown does not belong to `meshc data show`" in said, said)
    write(f"{folder}/lines.mesh", TRANSLATE)
    write(f"{folder}/lines.yaml", f"data: {{ src: {{file: {text}, pad: 0, tokenizer: {model}}}, tgt: {{file: {text}, start: 1}}, label: {{file: {text}, end: 2}} }}\n")
    said = execute(meshc(), "run", f"{folder}/lines.mesh", "train.steps=1", code=1).stderr
    report.true("a run by lines", f"`{text}`, line 4: `{model}` {why}; or leave the line out" in said and "lines.yaml:1:" in said, said)
    write(f"{folder}/writes.mesh", SPEC.split("mesh line")[0].replace("  minimize", "  generate token along seq from logits\n  minimize").replace("cross_entropy[vocab](dot[embed](take[vocab](from, token), to), target)",
          "cross_entropy[vocab](logits, target)").replace("  loss", "  logits = dot[embed](take[vocab](from, token), to)\n  loss"))
    write(f"{folder}/writes.yaml", f"data: {{ token: {{file: {known}, tokenizer: {model}, window: seq}}, target: {{of: token, shift: 1}} }}\n")
    for command in (("generate", "--prompt", "na\u00efve"), ("score", "--text", "na\u00efve")):
        said = execute(meshc(), *command[:1], f"{folder}/writes.mesh", "--interpret", "--params", text, *command[1:], code=None, env={"LC_ALL": "C.UTF-8"})
        report.true(f"{command[0]}: a prompt", said.returncode == 1 and f"prompt `na\u00efve`: `{model}` {why}; this one needs a prompt without it" in said.stderr, said.stderr)


def check_lines(report, bench, corpus):
    """Lines as samples through SentencePiece: the run that reads the same numbers from arrays."""
    folder = bench.folder
    lines = [line.strip() for line in open(corpus, encoding="utf-8") if 10 < len(line.strip()) < 40]
    texts = {"src": write(f"{folder}/src.txt", "".join(line + "\n" for line in lines)), "tgt": write(f"{folder}/tgt.txt", "".join(line[::-1] + "\n" for line in lines))}
    model = f"{folder}/lines.model"
    data("train", *texts.values(), "-o", model, "--vocabulary", "500", "--method", "bpe")
    pieces = {}
    for name, text in texts.items():
        data("tokenize", text, "-o", f"{folder}/{name}.bin", "--type", "megatron", "--documents", "line", "--no-end", "--tokenizer", model)
        tokens, lengths = read_tokens(f"{folder}/{name}.bin")
        pieces[name] = np.split(tokens, np.cumsum(lengths)[:-1])
    kept = [i for i, (s, t) in enumerate(zip(pieces["src"], pieces["tgt"])) if len(s) <= 12 and len(t) < 14]
    rows = {"src": [pieces["src"][i] for i in kept], "tgt": [[1, *pieces["tgt"][i]] for i in kept], "label": [[*pieces["tgt"][i], 2] for i in kept]}
    for name, of in rows.items():
        np.save(f"{folder}/{name}.npy", np.array([[*row, *[0] * ((12 if name == "src" else 14) - len(row))] for row in of], np.int32))
    report.true("lines by pieces: some are too long", 20 < len(kept) < len(lines), (len(kept), len(lines)))
    write(f"{folder}/lines.mesh", TRANSLATE)
    losses = []
    sources = {"lines": f"src: {{file: {texts['src']}, pad: 0, tokenizer: {model}}}, tgt: {{file: {texts['tgt']}, start: 1, tokenizer: {model}}}, label: {{file: {texts['tgt']}, end: 2, tokenizer: {model}}}",
               "arrays": ", ".join(f"{name}: {{file: {folder}/{name}.npy}}" for name in rows)}
    for name, source in sources.items():
        write(f"{folder}/{name}.yaml", f"data: {{ {source} }}\n")
        told = execute(meshc(), "run", f"{folder}/lines.mesh", f"{folder}/{name}.yaml", "train.steps=30", "log.every=1", f"log.jsonl={folder}/{name}.jsonl").stdout
        losses.append([line["loss"] for line in json_lines(f"{folder}/{name}.jsonl") if "loss" in line])
        report.true(f"{name}: says what is left out", (f"{len(lines) - len(kept)} of" in told) == (name == "lines"), told[:300])
    report.true("lines by pieces: the losses of arrays of the same numbers, bit by bit", losses[0] == losses[1] and len(losses[0]) == 30, losses[0][:3])


class Bench:
    def __init__(self, folder):
        self.folder = folder
        write(f"{folder}/bigram.mesh", SPEC)
        for name, options in {"one": (), "two": ("-n", 2), "three": ("-n", 3), "parts": ("-n", 2)}.items():
            layout = "parts" if name == "parts" else "rows"
            options = options or ("-n", 1)
            execute(meshc(), "build", f"{folder}/bigram.mesh", "--layout", layout, *options, "--precision", "f64", "-o", f"{folder}/{name}")

    def losses(self, program, source, *keys, steps=20):
        write(f"{self.folder}/run.yaml", f"data: {{ token: {source}, target: {{of: token, shift: 1}} }}\n")
        ranks = {"one": 1, "two": 2, "three": 3, "parts": 2}[program]
        execute(f"{self.folder}/{program}/bigram", "-n", ranks, f"{self.folder}/run.yaml", f"train.steps={steps}", "log.every=1", f"log.jsonl={self.folder}/log.jsonl", *keys)
        return {line["step"]: line["loss"] for line in json_lines(f"{self.folder}/log.jsonl") if "loss" in line}


def check_runs(report, bench, corpus):
    folder = bench.folder
    from_text = bench.losses("one", f"{{file: {corpus}, type: bytes, window: seq}}")
    for kind, options in {"u16": "type: u16, ", "llm.c": "", "megatron": "", "i32": "type: i32, "}.items():
        out = f"{folder}/tokens-{kind}"
        data("tokenize", corpus, "-o", f"{out}.bin", "--type", kind)
        names = (f"{out}.idx", out) if kind == "megatron" else (f"{out}.bin",)
        report.true(f"a run from {kind}: that from the text, bit by bit", all(bench.losses("one", f"{{file: {name}, {options}window: seq}}") == from_text for name in names))
    model = f"{folder}/unigram0.model"
    data("train", corpus, "-o", model, "--vocabulary", "450", "--method", "bpe")
    data("tokenize", corpus, "-o", f"{folder}/pieces.bin", "--tokenizer", model, "--no-end")
    report.true("a run from text through SentencePiece: that from its token file",
                bench.losses("two", f"{{file: {corpus}, tokenizer: {model}, window: seq}}") == bench.losses("two", f"{{file: {folder}/pieces.bin, window: seq}}"))
    mixture = f"{{mix: [{{file: {folder}/pieces.bin, weight: 0.7}}, {{file: {folder}/tokens-llm.c.bin, weight: 0.2, to: 3000}}, {{file: {folder}/tokens-megatron, weight: 0.1}}], window: seq}}"
    for shuffle in ("false", "true"):
        keys = (f"train.shuffle={shuffle}",)
        whole = bench.losses("one", mixture, *keys)
        for program in ("two", "three", "parts"):
            other = bench.losses(program, mixture, *keys)
            apart = max(abs(other[step] - whole[step]) / whole[step] for step in whole)
            report.check(f"a mixture, shuffle {shuffle}, {program} against one rank, relative", float(f"{apart:.1e}"), 1e-12, other.keys() == whole.keys() and apart <= 1e-12)
        checkpoint = f"checkpoint.dir={folder}/ckpt-{shuffle}"
        bench.losses("two", mixture, *keys, checkpoint, steps=7)
        rest = bench.losses("three", mixture, *keys, checkpoint)
        apart = max(abs(rest[step] - whole[step]) / whole[step] for step in range(8, 21))
        report.check(f"a mixture, shuffle {shuffle}, resumed on three ranks, relative", float(f"{apart:.1e}"), 1e-12)


def run(small):
    report = Report()
    random = np.random.default_rng(SEED)
    print(f"seed {SEED}")
    corpus = f"{TOP}/grammar/README.md"
    with scratch() as folder:
        report.attempt("bytes", lambda: check_bytes(report, folder))
        report.attempt("pack", lambda: check_pack(report, folder, random))
        if not small:
            report.attempt("SentencePiece", lambda: check_sentencepiece(report, folder, corpus))
        report.attempt("characters that a model lacks", lambda: check_lacking(report, folder))
        bench = Bench(folder)
        report.attempt("runs", lambda: check_runs(report, bench, corpus))
        report.attempt("lines by pieces", lambda: check_lines(report, bench, corpus))
    return report
