"""A whole random spec: dims, blocks, a model with metrics and an optimizer, a layout."""
import random as randoms
import re
from collections import Counter

from .expressions import Expressions
from .features import of_layout
from .layouts import layout, listed
from .scope import Scope

OPTIMIZERS = ["sgd(lr: 0.1)", "sgd(lr: 0.05, momentum: 0.9)", "sgd(lr: 0.05, momentum: 0.9, nesterov: true, weight_decay: 0.1)", "sgd(lr: 0.05, clip: 0.5)",
              "adam(lr: 0.01, epsilon: 1e-3)", "adamw(lr: 0.01, epsilon: 1e-3, clip: 1.0)"]


class Spec:
    """A text, the sizes of its mesh's axes, the features that were drawn, whether its samples never mix."""

    def __init__(self, text, axes, features, apart):
        self.text, self.axes, self.features, self.apart = text, axes, features, apart


class Drawn:
    """A random model without a layout: its text, sizes of dims, those that may be split, values that may be pinned, renames at once, dims of attentions, features."""

    def __init__(self, dims, body, make, splittable):
        self.text, self.sizes, self.named, self.features = "\n".join(dims + body), make.sizes, make.named, make.features
        self.renames, self.attentions, self.apart = make.renames, make.attentions, make.apart
        self.splittable = [d for d in splittable if any(re.search(rf"\b{d}\b", line) for line in body)]


def sizes_of(random, every):
    """Sizes of the plain dims; some are equal, so that names may be exchanged."""
    least = 2 if every else 1  # of a dim of size 1 all ranks but one own nothing, and do in vain what they do
    sizes = {"batch": random.randint(least, 7)}
    for d in "abcd"[: random.randint(2, 4)]:
        sizes[d] = sizes["a"] if d != "a" and random.random() < 0.3 else random.randint(least, 7)
    return sizes


def model(seed, every=False, draws=True):
    random = randoms.Random(seed)
    sizes = sizes_of(random, every)
    aliases = {d: d + "2" for d in list(sizes)[1:]}
    parts = {d: d + "p" for d in list(sizes)[1:] if random.random() < 0.6}
    shares = {p: random.randint(1, sizes[d]) for d, p in parts.items()}
    slow, fast = random.sample(list(sizes)[1:], 2)
    sums = {f"{d}_{e}": (d, e) for d, e in [random.choices(list(sizes)[1:], k=2) for _ in range(2)]}
    edges = {d: random.choice(['"wrap"', '"clamp"', "0", "0.6"]) for d in list(sizes)[1:] if random.random() < 0.7}
    lines = [f"dim {d} = {s}" + (f" edge {edges[d]}" if d in edges else "") for d, s in sizes.items()] + [f"dim {e} = {d}" for d, e in aliases.items()] + [f"dim {p} = {n}" for p, n in shares.items()]
    lines += [f"dim {s} = {d} + {e}" for s, (d, e) in sums.items()]
    turns = {"l": 2, "m": 3} if every else {"l": random.choice([1, 2, 2, 3]), "m": random.choice([1, 2, 3, 3])}
    lines += [f"dim {slow}{fast} = {slow} * {fast}", f"dim l = {turns['l']}, m = {turns['m']}"]
    merged = {slow + fast: (slow, fast)}
    sizes.update({e: sizes[d] for d, e in aliases.items()})
    sizes.update(shares)
    sizes.update({s: sizes[d] + sizes[e] for s, (d, e) in sums.items()})
    sizes[slow + fast] = sizes[slow] * sizes[fast]
    splittable = list(sizes)
    sizes.update(turns)
    make = Expressions(random, sizes, {**aliases}, merged, parts, sums, edges, ["l", "m"])
    make.every, make.draws, make.apart = every, draws, not every and random.random() < 0.3
    scope = Scope([])
    dims = ["batch"] + make.some(list(sizes)[1:4], 1, 2)
    make.inputs.append(f"  input x0 : real{make.brackets(dims)}")
    make.known(scope, "x0", dims)
    scope.values.append(("x0", tuple(dims), frozenset(dims)))
    for _ in range(random.randint(4, 14)):
        make.step(scope)
    if not every and randoms.Random(f"{seed} attention").random() < 0.3:
        make.attention(scope)
    # The loss is a sum of means of squares: of the last values and of a few others, or of `every` one, so that nothing is computed in vain.
    used = scope.values[-2:] + [make.pick(scope) for _ in range(2)]
    if every:
        used = [value for value in scope.values if value[0][0] in "vh"]
    w = make.parameter(scope, ["batch"] if random.random() < 0.2 else [])
    terms = []
    for name, dims, _ in used:
        terms.append(f"mean[{', '.join(dims)}](({name} - 0.3) ^ 2)" if dims else f"({name} - 0.3) ^ 2")
    terms.append(f"mean[batch]({w[0]} ^ 2 + mean[{', '.join(d for d in scope.values[0][1] if d != 'batch')}](x0) * {w[0]})")
    scope.line("loss = " + " + ".join(terms))
    make.last_metrics(scope)
    scope.line(f"minimize loss with {random.choice(OPTIMIZERS)}")
    first = next(i for i, line in enumerate(make.inputs) if " x0 " in line)
    inputs = [make.inputs[first]] + make.inputs[:first] + make.inputs[first + 1:]
    return Drawn(lines, make.blocks + ["model Random {"] + inputs + scope.lines + ["}", ""], make, splittable)


def spec(seed, attempt=0, every=False, draws=True):
    """The model of a seed under its attempt-th layout."""
    drawn = model(seed, every, draws)
    loops = sorted(set(re.findall(r"repeat (\w+)", drawn.text)))
    rules, axes = layout(randoms.Random(f"{seed} {attempt}"), drawn.splittable, drawn.sizes["batch"], loops, None if every else drawn)
    lists = randoms.Random(f"{seed} {attempt} lists")
    if lists.random() < 0.25:
        rules = listed(lists, rules, axes, drawn.sizes)
    return Spec(drawn.text + rules, axes, Counter(set(drawn.features)) + of_layout(rules, axes, drawn.sizes), drawn.apart)
