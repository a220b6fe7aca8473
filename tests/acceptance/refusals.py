"""What `meshc generate` refuses: the whole message of each, and that its way out leads out."""
import numpy as np

from common import TOP, Report, meshc, scratch, sets
from common import run as execute
from oracle.sentencepiece_model import model_of

SPEC = """dim batch = 2, seq = 8, key = seq, embed = 8, vocab = 128
model Writes {
  input token, next : index(vocab)[batch, seq]
  param table : real[vocab, embed] = normal(std: 0.3)
PLACE
  score  = dot[embed](h, h[seq as key])
  weight = softmax[key](mask(score, position[seq] >= position[key]))
  logits = dot[embed](h + dot[key](weight, h[seq as key]), table)
  loss   = mean[batch, seq](cross_entropy[vocab](logits, next))
  minimize loss with sgd(lr: 0.1)
  generate token along seq from logits
}
"""
PLAIN = "  h = take[vocab](table, token)"
LEARNED = f"  param place : real[seq, embed] = normal(std: 0.3)\n{PLAIN} + place"
PROMPT = "the beginning"  # of 13 positions


class Model:
    """A spec with parameters as they begin."""

    def __init__(self, folder, name, text, sizes, inputs, run_file=""):
        self.spec, self.params = f"{folder}/{name}.mesh", f"{folder}/{name}.safetensors"
        with open(self.spec, "w", encoding="utf-8") as file:
            file.write(text)
        for key, shape in inputs.items():
            np.save(f"{folder}/{key}.npy", np.ones(shape, np.int32))
        self.sizes = sizes
        if run_file:
            with open(f"{folder}/{name}.yaml", "w", encoding="utf-8") as file:
                file.write(run_file)
        feeds = [part for key in inputs for part in ("--feed", f"{key}={folder}/{key}.npy")]
        execute(meshc(), "fetch", self.spec, *sizes, *feeds, "--save-params", self.params)

    def generate(self, *words):
        return execute(meshc(), "generate", self.spec, *self.sizes, "--interpret", "--params", self.params, "--greedy" if "--beams" not in words else "--json", *words, code=None)


def refused(report, name, model, words, said, cure, code=1):
    """`words` are refused with `said`, and what it proposes is not."""
    done = model.generate(*words)
    report.true(name, done.returncode == code and done.stderr.rstrip() == f"error: {said}" and not done.stdout, f"{done.returncode}: {done.stdout}{done.stderr}")
    done = model.generate(*cure)
    report.true(f"{name}: the way out", done.returncode == 0, done.stderr)


def check_decoder(report, folder):
    shape = {"token": (2, 8), "next": (2, 8)}
    plain = Model(folder, "plain", SPEC.replace("PLACE", PLAIN), [], shape)
    learned = Model(folder, "learned", SPEC.replace("PLACE", LEARNED), [], shape)
    more = ("--tokens", 3)
    refused(report, "a prompt longer than the positions", plain, ("--prompt", PROMPT, *more),
            f"prompt `{PROMPT}` has 13 positions, and with 3 more there are 16: the model has 8; shorten the prompt or compile it with `--set seq=16`",
            ("--prompt", PROMPT, *more, "--set", "seq=16"))
    refused(report, "more tokens than positions", plain, ("--prompt", "the end", *more),
            "prompt `the end` has 7 positions, and with 3 more there are 10: the model has 8; shorten the prompt, give fewer `--tokens`, or compile it with `--set seq=10`",
            ("--prompt", "the end", "--tokens", 1))
    refused(report, "more tokens than positions behind any prompt", plain, ("--prompt", "the", "--tokens", 8),
            "prompt `the` has 3 positions, and with 8 more there are 11: the model has 8; give fewer `--tokens` or compile it with `--set seq=11`",
            ("--prompt", "the", "--tokens", 5))
    refused(report, "the first of two prompts is longer than learned positions", learned, ("--prompt", PROMPT, "--prompt", "the", "--tokens", 8),
            f"--prompt 1: prompt `{PROMPT}` has 13 positions, and with 8 more there are 21: the model has 8; its parameters have `seq`, so shorten the prompt and give fewer `--tokens`",
            ("--prompt", "the", "--prompt", "beg", "--tokens", 5))
    refused(report, "one of many lines", plain, ("--prompt", PROMPT * 9),
            f"prompt `{(PROMPT * 9)[:40]}...` has 117 positions, and with 1 more there are 118: the model has 8; shorten the prompt or compile it with `--set seq=118`",
            ("--prompt", PROMPT * 9, "--set", "seq=118"))
    refused(report, "a prompt longer than learned positions", learned, ("--prompt", "the end", *more),
            "prompt `the end` has 7 positions, and with 3 more there are 10: the model has 8; its parameters have `seq`, so shorten the prompt or give fewer `--tokens`",
            ("--prompt", "the end", "--tokens", 1))
    with open(f"{folder}/prompts.txt", "w", encoding="utf-8") as file:
        file.write("the\n\nend\n")
    refused(report, "an empty line of a file", plain, ("-f", f"{folder}/prompts.txt"),
            f"{folder}/prompts.txt:2: there is nothing to go on from: give at least one character, or in the run file `start`", ("-f", f"{folder}/prompts.txt", "data.token={file: none, start: 1}"))
    refused(report, "an empty one of several prompts", plain, ("--prompt", "the", "--prompt", ""),
            "--prompt 2: there is nothing to go on from: give at least one character, or in the run file `start`", ("--prompt", "the", "--prompt", "a"))
    with open(f"{folder}/long.txt", "w", encoding="utf-8") as file:
        file.write(f"the\n{PROMPT}\n")
    refused(report, "a long line of a file", plain, ("-f", f"{folder}/long.txt", *more),
            f"{folder}/long.txt:2: prompt `{PROMPT}` has 13 positions, and with 3 more there are 16: the model has 8; shorten the prompt or compile it with `--set seq=16`",
            ("-f", f"{folder}/long.txt", *more, "--set", "seq=16"))
    refused(report, "bytes beyond the vocabulary", plain, ("--prompt", "na\u00efve"),
            "prompt `na\u00efve`: the model has no element 195, its vocabulary has 128: it reads bytes below that", ("--prompt", "naive"))
    refused(report, "parameters of other sizes", plain, ("--prompt", "the", "--set", "embed=16", "--set", "vocab=200"),
            f"`{plain.params}` does not fit the program:\n  `table` is [128, 8] in the file and [200, 16] in the program\n"
            "it is of embed = 8, vocab = 128: `--set embed=8 --set vocab=128` compiles the program for that",
            ("--prompt", "the", "--set", "embed=8", "--set", "vocab=128"))
    refused(report, "parameters for fewer positions", learned, ("--prompt", "the", "--set", "seq=16"),
            f"`{learned.params}` does not fit the program:\n  `place` is [8, 8] in the file and [16, 8] in the program\nit is of seq = 8: `--set seq=8` compiles the program for that",
            ("--prompt", "the", "--set", "seq=8"))
    refused(report, "more beams than elements", plain, ("--prompt", "the", "--beams", 129, *more),
            "--beams 129: `token` has 128 elements, and a beam for each at most: --beams 128", ("--prompt", "the", "--beams", 128, *more), code=2)
    refused(report, "more beams than sequences", plain, ("--prompt", "the", "--beams", 3, "--set", "batch=2", *more),
            "--beams 3: the program has 2 sequences side by side: compile it with `--set batch=3`", ("--prompt", "the", "--beams", 3, "--set", "batch=3", *more), code=2)
    check_tokenizer(report, folder, plain)


def check_tokenizer(report, folder, model):
    """By pieces: a character for which there is none, and pieces that the model does not have."""
    pieces = f"{folder}/letters.model"
    with open(pieces, "wb") as file:
        file.write(model_of(["\u2581", *"abcdefghijklmnopqrstuvwxyz"]))
    with open(f"{folder}/plain.yaml", "w", encoding="utf-8") as file:
        file.write("data: { token: { file: letters.txt, tokenizer: letters.model, window: seq } }\n")
    with open(f"{folder}/letters.txt", "w", encoding="utf-8") as file:
        file.write("the beginning\n")
    lacks = "nor pieces for bytes: a model that `meshc data train` makes reads every character; this one needs a prompt without it"
    refused(report, "a character that the tokenizer lacks", model, ("--prompt", "na\u00efve"), f"prompt `na\u00efve`: `{pieces}` has no piece for `\u00ef` (U+00EF), {lacks}", ("--prompt", "naive"))
    refused(report, "a character beyond 16 bits", model, ("--prompt", "a \U0001f600"), f"prompt `a \U0001f600`: `{pieces}` has no piece for `\U0001f600` (U+1F600), {lacks}", ("--prompt", "a"))
    refused(report, "a piece that the model lacks", model, ("--prompt", "the", "--set", "vocab=20"),
            "prompt `the`: the model has no element 23, its vocabulary has 20: is the `tokenizer` of the run file the one it was trained with?", ("--prompt", "the"))


def check_encoder(report, folder):
    sizes = sets(batch=2, source=6, target=8, embed=16, heads=4, head_dim=4)
    with open(f"{TOP}/specs/translate.mesh", encoding="utf-8") as file:
        model = Model(folder, "translate", file.read(), [*sizes, "--mesh", "data=1,model=1"], {"src": (2, 6), "tgt": (2, 8), "label": (2, 8)},
                      "data: { src: { file: none, pad: 0 }, tgt: { file: none, start: 1 } }\n")
    refused(report, "more than the encoder reads", model, ("--prompt", "the beginning", "--begin", "a"),
            "prompt `the beginning` has 13 positions: `src` has 6; shorten it, or compile the program with `--set source=13`", ("--prompt", "the beginning", "--begin", "a", "--set", "source=13"))
    refused(report, "a longer beginning than there are positions", model, ("--prompt", "the", "--begin", "beginning", "--tokens", 1),
            "what the text begins with has 10 positions, and with 1 more there are 11: the model has 8; shorten `--begin` or compile it with `--set target=11`",
            ("--prompt", "the", "--begin", "beginn", "--tokens", 1))


def check_without(report, folder):
    path, line = f"{folder}/none.mesh", "  generate token along seq from logits\n"
    with open(path, "w", encoding="utf-8") as file:
        file.write(SPEC.replace("PLACE", PLAIN).replace(line, ""))
    for command in (("generate", "--prompt", "a"), ("score", "--text", "a b")):
        done = execute(meshc(), command[0], path, "--interpret", "--params", f"{folder}/plain.safetensors", *command[1:], code=1)
        report.true(f"{command[0]} of a model that does not say what it continues",
                    done.stderr.rstrip() == "error[E0511]: model `Writes` does not say what it generates\n = help: a line of the model says it: `generate token along seq from logits`", done.stderr)


def run(small):
    report = Report()
    with scratch() as folder:
        report.attempt("a decoder", lambda: check_decoder(report, folder))
        report.attempt("an encoder", lambda: check_encoder(report, folder))
        report.attempt("no generate", lambda: check_without(report, folder))
    return report
