"""What random specs must hold somewhere: the constructs that a generator draws, and what its layouts do. A count in which one of them is missing has
not looked where it says it looks."""
import re
from collections import Counter

OF_MODELS = {"renames at once", "renames in a circle", "renames that give names on", "changes of several kinds at once", "one value renamed twice", "a value and its neighbour",
             "a product renamed before and after", "an instance called again", "a block without parameters called again", "a block called again in a loop", "a block of two results",
             "attention", "causal attention", "attention in a window", "attention in a causal window", "attention in a band beside the diagonal", "attention of queries that share keys", "attention in layers",
             "a carry that is a product", "a loop of sums", "several loops", "a state in a loop", "a state with running values", "a metric of a state before its step",
             "values of 16 bits", "a metric of a state after its step", "a metric of a state, named and written out"}
OF_LAYOUTS = {"pins alone", "pins of one input alone", "micro-batches", "micro-batches with split moments", "micro-batches with split gradients", "micro-batches with split parameters",
              "two axes in both orders", "sizes that do not divide", "fewer than parts", "loops computed again", "dims of both sides of renames on one axis",
              "dims dealt in zigzag", "dims dealt in rounds", "dims dealt by a list", "turns at their owners", "turns of parameters alone at their owners", "turns dealt in zigzag or rounds"}

OF_PLACEMENTS = {"turns that ranks have among them", "attention as one op", "attention as one op in a loop", "keys in a ring", "keys in a ring in zigzag"}
OF_MESSAGES = {"micro-batches of samples that mix"}


def of_messages(text):
    return Counter({"micro-batches of samples that mix": 1} if "warning[batch_coupled]" in text else {})


def of_placements(text):
    """Of `meshc ir SPEC sharded`."""
    attends = re.search(r"(?m)^( *).* = attention\[", text)
    found = {"turns that ranks have among them": "varying over" in text, "attention as one op": attends, "attention as one op in a loop": attends and len(attends[1]) > 2,
             "keys in a ring": "in a ring" in text, "keys in a ring in zigzag": "zigzag in a ring" in text}
    return Counter({name: 1 for name, there in found.items() if there})


def of_layout(text, axes, sizes):
    """The names of what a layout does."""
    found = Counter()
    lines = text[text.index("layout default"):].split("\n")[1:]
    pins = [line for line in lines if line.strip().startswith("tensor ")]
    found["pins alone"] = bool(pins) and not any("->" in line and line not in pins for line in lines)
    found["pins of one input alone"] = len(pins) == 1 and found["pins alone"] and pins[0].strip().startswith("tensor x")
    found["dims of both sides of renames on one axis"] = re.search(r"(?m)^  (?!l,|m,)\w+, \w+ -> [xyz]\b", text) is not None
    found["micro-batches"] = "accumulate" in text
    for scope, name in (("optimizer", "moments"), ("grads", "gradients"), ("params", "parameters")):
        found[f"micro-batches with split {name}"] = "accumulate" in text and re.search(rf"{scope} {{ \w+ -> [xyz]", text) is not None
    orders = {tuple(rule.split(" * ")) for rule in re.findall(r"-> ([xyz](?: \* [xyz])+)", text)}
    found["two axes in both orders"] = any(tuple(reversed(order)) in orders for order in orders)
    for d, over in re.findall(r"(\w+) -> ([xyz](?: \* [xyz])*)", text):
        parts = 1
        for axis in over.split(" * "):
            parts *= axes[axis]
        found["sizes that do not divide"] |= sizes[d] % parts != 0
        found["fewer than parts"] |= sizes[d] < parts
    found["dims dealt in zigzag"] = 'owns: "zigzag"' in text
    found["dims dealt in rounds"] = 'owns: "rounds"' in text
    found["dims dealt by a list"] = re.search(r'owns: "\d', text) is not None
    found["turns at their owners"] = re.search(r"(?m)^  [lm] -> [xyz]", text) is not None
    found["turns of parameters alone at their owners"] = re.search(r"params { [lm] -> [xyz]", text) is not None
    found["turns dealt in zigzag or rounds"] = re.search(r"\b[lm] -> [xyz][^;{}]* { owns", text) is not None
    found["loops computed again"] = "remat" in text
    return Counter({name: 1 for name, there in found.items() if there})


def told(report, features, wanted, full):
    """Prints how often each occurred; at full size each must."""
    print("features: " + ", ".join(f"{name} {features[name]}" for name in sorted(wanted)))
    missing = sorted(name for name in wanted if not features[name])
    report.true("every feature occurs", not (full and missing), f"missing: {missing}" if missing else f"{len(wanted)} features")
