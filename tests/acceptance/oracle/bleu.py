"""BLEU of a corpus (Papineni et al., 2002), with the words of mteval-v13a and exponential smoothing: what sacrebleu computes where nothing is said."""
import math
import re
from collections import Counter

ORDERS = 4
RULES = [(re.compile(pattern), put) for pattern, put in (
    (r"([\{-\~\[-\` -\&\(-\+\:-\@\/])", r" \1 "),  # marks stand alone
    (r"([^0-9])([\.,])", r"\1 \2 "),               # so do points and commas, but within numbers
    (r"([\.,])([^0-9])", r" \1 \2"),
    (r"([0-9])(-)", r"\1 \2 "))]
NAMES = (("<skipped>", ""), ("-\n", ""), ("\n", " "), ("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))


def words(line):
    line = line.rstrip()
    for name, character in NAMES:
        line = line.replace(name, character)
    line = f" {line} "
    for pattern, put in RULES:
        line = pattern.sub(put, line)
    return line.split()


def runs(line, order):
    """The runs of `order` words, each with how often it stands there."""
    return Counter(tuple(line[i:i + order]) for i in range(len(line) - order + 1))


def bleu(found, references):
    """From 0 to 100, of texts and one reference for each."""
    pairs = [(words(text), words(reference)) for text, reference in zip(found, references, strict=True)]
    length, wanted = (sum(len(pair[side]) for pair in pairs) for side in (0, 1))
    right, all_of = [0] * ORDERS, [0] * ORDERS
    for text, reference in pairs:
        for n in range(ORDERS):
            made = runs(text, n + 1)
            right[n] += (made & runs(reference, n + 1)).total()
            all_of[n] += made.total()
    if not any(right) or not all(all_of):
        return 0.0
    logs, halved = 0.0, 1.0
    for good, count in zip(right, all_of):
        halved /= 1 if good else 2  # an order without any right counts for half of one, the next for a quarter
        logs += math.log(100 * (good or halved) / count)
    return math.exp(min(0, 1 - wanted / length) + logs / ORDERS)
