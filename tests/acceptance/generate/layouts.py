"""Random meshes of up to 8 ranks and layouts on them. `unless` keeps two dims off one axis where a value might have both."""
import re

# What a random layout may rightly be told: one axis on two dims of a value, two rules of equal rank, a merge of parts that do not fit, a model that
# mixes samples and so cannot run by micro-batches.
MIXED = {"E0413", "batch_coupled"}
REFUSALS = {"E0401", "E0406", *MIXED}
# What is told of samples that do not mix either: a loop has values with samples and without.
BESIDE = "that a loop beside values of samples gives"


def is_refused(messages, apart=False):
    """Whether these errors, and there are some, are only such as a random layout may rightly get; apart: the model mixes no samples."""
    errors = re.findall(r"error\[(\w+)\](.*)", messages)
    return bool(errors) and all(code in REFUSALS and not (apart and code in MIXED and BESIDE not in text) for code, text in errors)


def mesh(random):
    axes, ranks = {}, 1
    for name in "xyz"[: random.choice([1, 1, 2, 2, 2, 3])]:
        size = random.choice([s for s in (1, 2, 2, 2, 3, 4, 5, 7) if s * ranks <= 8])
        axes[name] = size
        ranks *= size
    return axes


def rules(random, dims, axes, share, named=()):
    """Lines `dim -> axes unless ...`: every axis goes to a few dims, later ones only where the earlier are not. Where values are named, `unless` may
    be left out for dims that none of them has together."""
    together = {(d, e) for _, those in named for d in those for e in those} if random.random() < 0.5 else None
    target, users = {}, {a: [] for a in axes}
    for d in random.sample(dims, len(dims)):
        if random.random() < share:
            count = 1 if len(axes) == 1 or random.random() < 0.8 else 2
            target[d] = random.sample(list(axes), min(count, len(axes)))
    lines = []
    for d, chosen in target.items():
        before = sorted({e for a in chosen for e in users[a] if not named or together is None or (d, e) in together})
        for a in chosen:
            users[a].append(d)
        lines.append(f"{d} -> {' * '.join(chosen)}" + (f" unless {', '.join(before)}" if before else ""))
    return lines, users


def pins(random, named, axes, loops):
    """A few values alone, everything else by the cost: {pattern: rules}; inputs and late values come oftener."""
    chosen = [random.choice([named[0], named[-1], *random.choices(named, k=2)]) for _ in range(random.randint(1, 3))]
    found = {}
    for pattern, dims in chosen:
        dims = [d for d in dims if d not in loops]
        if dims and pattern not in found:
            axis = random.choice(list(axes))
            d = random.choice(dims)
            found[pattern] = [f"{d} -> {axis}"]
            others = [(e, a) for e in dims for a in axes if e != d and a != axis]
            if others and random.random() < 0.4:
                found[pattern].append("{} -> {}".format(*random.choice(others)))
    return [f"tensor {pattern} {{ {'; '.join(lines)} }}" for pattern, lines in found.items()]


def exchange(random, renames, axes):
    """A dim that a value has before several renames at once, and another that it has after them, on one axis: ranks exchange, as experts do."""
    axis, changed = random.choice(list(axes)), random.choice(renames)
    pairs = [(old, new) for old in changed for other, new in changed.items() if other != old and new not in changed]
    pairs = pairs or [(old, old) for old in changed]
    return [f"{', '.join(dict.fromkeys(random.choice(pairs)))} -> {axis}"]


def zero(random, dims, axes):
    """Samples over an axis, moments over it too, and perhaps gradients and parameters."""
    axis = random.choice(list(axes))
    chosen = random.sample([d for d in dims if d != "batch"], min(2, len(dims) - 1))
    rule = f"{chosen[0]} -> {axis} unless batch" + (f"; {chosen[1]} -> {axis} unless batch, {chosen[0]}" if len(chosen) > 1 else "")
    scopes = random.choice([["optimizer"], ["optimizer", "grads"], ["grads"], ["params"], ["params", "grads", "optimizer"]])
    return [f"batch -> {axis}", *(f"{scope} {{ {rule} }}" for scope in scopes)]


def extras(random, lines, samples, loops, often):
    """Now and then the step by micro-batches, and turns of a loop computed again."""
    counts = [k for k in range(2, samples + 1) if samples % k == 0]
    if counts and random.random() < (0.8 if often else 0.3):
        at = next((i for i, line in enumerate(lines) if line.startswith("batch -> ")), len(lines))
        lines[at:at + 1] = [(lines[at] if at < len(lines) else "batch -> none") + f" {{ accumulate: {random.choice(counts)} }}"]
    if loops and random.random() < 0.3:
        again = random.sample(loops, random.randint(1, len(loops)))
        lines.append(f"{', '.join(again)} -> none {{ remat: \"layer\" }}")


def turns(random, lines, scopes, loops, axes):
    """Now and then each turn's part of what a loop stacks lies at the rank that owns it: of everything, or of parameters, gradients, moments alone."""
    for loop in loops:
        if random.random() >= 0.35:
            continue
        chosen = random.sample(list(axes), min(len(axes), random.choice([1, 1, 1, 2])))
        others = sorted({d for d, over in re.findall(r"(\w+) -> ([xyz](?: \* [xyz])*)", "\n".join(lines + scopes)) if set(over.split(" * ")) & set(chosen) and d not in loops})
        rule = f"{loop} -> {' * '.join(chosen)}" + (f" unless {', '.join(others)}" if others and random.random() < 0.6 else "")
        scope = random.choice(["", "", "params", "params", "grads", "optimizer"])
        again = next((i for i, line in enumerate(lines) if re.search(rf"\b{loop}\b.* -> none", line)), None)
        if scope:
            scopes.append(f"{scope} {{ {rule} }}")
        elif again is None:
            lines.append(rule)


def among(random, dims, axes, loops, named=()):
    """The turns of a loop over axes that split nothing else, other dims over the other ones."""
    order = random.sample(list(axes), len(axes))
    count = random.choice([1, 1, 2]) if len(axes) > 1 else 1
    others = {a: axes[a] for a in order[count:]}
    lines = rules(random, [d for d in dims if d not in loops], others, 0.4, named)[0] if others else []
    return lines + [f"{random.choice(loops)} -> {' * '.join(order[:count])}"]


OWNS = ('owns: "zigzag"', 'owns: "zigzag"', 'owns: "rounds", rounds: 2', 'owns: "rounds", rounds: 3')
RULE = re.compile(r"(\w+ -> (?!none)\w+(?: \* \w+)*(?: unless \w+(?:, \w+)*)?)(?!\w|,| \*| unless| \{ (?:owns|remat))(?: \{ (accumulate: \d+) \})?")


def dealt(random, line):
    """Some of a line's rules deal elements otherwise than in blocks."""
    def one(rule):
        if random.random() < 0.5:
            return rule[0]
        attributes = random.choice(OWNS) + (f", {rule[2]}" if rule[2] else "")
        return f"{rule[1]} {{ {attributes} }}"
    return RULE.sub(one, line)


def listed(random, text, axes, sizes):
    """Some of a layout's rules deal elements by a list, uneven and in any order, where every rank gets one; not samples, of which an evaluation may have fewer."""
    def one(rule):
        dim, parts = rule[1].split(" ")[0], 1
        for axis in re.search(r"-> ([xyz](?: \* [xyz])*)", rule[1])[1].split(" * "):
            parts *= axes[axis]
        if dim == "batch" or parts < 2 or sizes[dim] < parts or random.random() < 0.4:
            return rule[0]
        cuts = sorted(random.sample(range(1, sizes[dim]), min(sizes[dim] - 1, parts - 1 + random.choice([0, 1, 2]))))
        ranges = list(zip([0] + cuts, cuts + [sizes[dim]]))
        if random.random() < 0.6:
            random.shuffle(ranges)
        of_ranks = [sorted(ranges[rank::parts]) for rank in range(parts)]
        owns = 'owns: "' + "; ".join(", ".join(f"{begin}..{end}" for begin, end in some) for some in of_ranks) + '"'
        return f"{rule[1]} {{ {owns}" + (f", {rule[2]}" if rule[2] else "") + " }"
    return RULE.sub(one, text)


def ring(random, attentions, axes, samples):
    """Queries over an axis, and perhaps keys, which then go round, in blocks or dealt; samples over another."""
    axis, (queries, keys) = random.choice(list(axes)), random.choice(attentions)
    deal = random.choice(["", "", " { owns: \"zigzag\" }", " { owns: \"rounds\", rounds: 2 }"])
    lines = [f"{queries} -> {axis}{deal}"] + ([f"{keys} -> {axis} unless {queries}{deal}"] if random.random() < 0.7 else [])
    others = [a for a in axes if a != axis]
    return lines + ([f"batch -> {random.choice(others)}"] if others and samples > 1 and random.random() < 0.6 else [])


def by_rules(random, dims, axes, named):
    lines, users = rules(random, dims, axes, random.choice([0.2, 0.4, 0.7]), named)
    scopes = []
    for scope in ("params", "optimizer", "grads", "activations"):
        if random.random() < {"params": 0.3, "optimizer": 0.4, "grads": 0.15, "activations": 0.15}[scope]:
            axis = random.choice(list(axes))
            free = [d for d in dims if d not in users[axis]]
            if free:
                d = random.choice(free)
                others = [e for e in users[axis] if e != d]
                scopes.append(f"{scope} {{ {d} -> {axis}" + (f" unless {', '.join(others)}" if others else "") + " }")
            elif users[axis]:
                scopes.append(f"{scope} {{ {random.choice(users[axis])} -> none }}")
    return lines, scopes


def layout(random, dims, samples=1, loops=(), model=None):
    """samples: the size of the dim `batch`; loops: dims of `repeat`; model: with what may be pinned and what is renamed at once."""
    axes = mesh(random)
    kind = random.random()
    lines, scopes = [], []
    if model and loops and random.random() < 0.3:
        lines = among(random, dims, axes, loops, model.named)
        extras(random, lines, samples, [], often=False)
        return written(axes, lines), axes
    if model and model.attentions and random.random() < 0.6:
        lines = ring(random, model.attentions, axes, samples)
        extras(random, lines, samples, list(loops), often=False)
        return written(axes, lines), axes
    if model and model.renames and random.random() < 0.25:
        kind, lines = 0.5, exchange(random, model.renames, axes)
    elif model and kind < 0.25:
        lines = pins(random, model.named, axes, loops)
    elif len(dims) > 1 and "batch" in dims and kind < 0.4:
        lines = zero(random, dims, axes)
    else:
        lines, scopes = by_rules(random, dims, axes, model.named if model else ())
    if not lines and not scopes:
        lines = [f"{random.choice(dims)} -> {list(axes)[0]}"]
    extras(random, lines, samples, list(loops), often=0.25 <= kind < 0.4)
    turns(random, lines, scopes, list(loops), axes)
    if random.random() < 0.3:
        lines, scopes = ([dealt(random, line) for line in some] for some in (lines, scopes))
    return written(axes, lines + scopes), axes


def written(axes, lines):
    text = "mesh grid { " + ", ".join(f"{a}: {s}" for a, s in axes.items()) + " }\nlayout default on grid {\n"
    return text + "".join(f"  {line}\n" for line in lines) + "}\n"
