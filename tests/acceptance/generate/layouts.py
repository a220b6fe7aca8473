"""Random meshes of up to 8 ranks and layouts on them. `unless` keeps two dims off one axis where a value might have both."""
import re

# What a random layout may rightly be told: one axis on two dims of a value, two rules of equal rank, a merge of parts that do not fit, a model that
# mixes samples and so cannot run by micro-batches.
REFUSALS = {"E0401", "E0406", "E0413", "batch_coupled"}


def is_refused(messages):
    """Whether these errors, and there are some, are only such as a random layout may rightly get."""
    codes = set(re.findall(r"error\[(\w+)\]", messages))
    return bool(codes) and codes <= REFUSALS


def mesh(random):
    axes, ranks = {}, 1
    for name in "xyz"[: random.choice([1, 1, 2, 2, 2, 3])]:
        size = random.choice([s for s in (1, 2, 2, 2, 3, 4, 5, 7) if s * ranks <= 8])
        axes[name] = size
        ranks *= size
    return axes


def rules(random, dims, axes, share):
    """Lines `dim -> axes unless ...`: every axis goes to a few dims, later ones only where the earlier are not."""
    target, users = {}, {a: [] for a in axes}
    for d in random.sample(dims, len(dims)):
        if random.random() < share:
            count = 1 if len(axes) == 1 or random.random() < 0.8 else 2
            target[d] = random.sample(list(axes), min(count, len(axes)))
    lines = []
    for d, chosen in target.items():
        before = sorted({e for a in chosen for e in users[a]})
        for a in chosen:
            users[a].append(d)
        lines.append(f"{d} -> {' * '.join(chosen)}" + (f" unless {', '.join(before)}" if before else ""))
    return lines, users


def extras(random, lines, samples, loops):
    """Now and then the step by micro-batches, and turns of a loop computed again."""
    counts = [k for k in range(2, samples + 1) if samples % k == 0]
    if counts and random.random() < 0.3:
        at = next((i for i, line in enumerate(lines) if line.startswith("batch -> ")), len(lines))
        lines[at:at + 1] = [(lines[at] if at < len(lines) else "batch -> none") + f" {{ accumulate: {random.choice(counts)} }}"]
    if loops and random.random() < 0.3:
        again = random.sample(loops, random.randint(1, len(loops)))
        lines.append(f"{', '.join(again)} -> none {{ remat: \"layer\" }}")


def layout(random, dims, samples=1, loops=()):
    """samples: the size of the dim `batch`; loops: dims of `repeat`, which stay whole."""
    axes = mesh(random)
    lines, users = rules(random, dims, axes, random.choice([0.2, 0.4, 0.7]))
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
    if not lines and not scopes:
        lines = [f"{random.choice(dims)} -> {list(axes)[0]}"]
    extras(random, lines, samples, list(loops))
    text = "mesh grid { " + ", ".join(f"{a}: {s}" for a, s in axes.items()) + " }\nlayout default on grid {\n"
    return text + "".join(f"  {line}\n" for line in lines + scopes) + "}\n", axes
