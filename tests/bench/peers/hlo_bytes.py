"""Bytes that a device sends in a step, and the operations of its products, of XLA's compiled text.

Of k ranks in a group: all-reduce 2 (k - 1) / k of what is reduced, reduce-scatter and all-gather (k - 1) / k of the whole, all-to-all (k - 1) / k of a
device's part, a permute all of it. What a loop does counts as often as it turns. An all-reduce of which every reader takes a k-th alone counts as the
reduce-scatter that it should have been.
"""
import math
import re

WIDTHS = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "s16": 2, "u16": 2, "f32": 4, "s32": 4, "u32": 4, "f64": 8, "s64": 8, "u64": 8}
KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute", "ragged-all-to-all", "collective-broadcast")
VIEWS = ("bitcast", "copy", "reshape", "transpose", "convert", "get-tuple-element", "tuple", "optimization-barrier")


class Instruction:
    def __init__(self, line):
        name, rest = re.match(r"(?:ROOT )?%?([\w.-]+) = (.*)", line).groups()
        self.name, self.root = name, line.startswith("ROOT")
        if rest.startswith("("):
            depth = 0
            for at, letter in enumerate(rest):
                depth += (letter == "(") - (letter == ")")
                if depth == 0:
                    break
            self.type, rest = rest[:at + 1], rest[at + 2:]
        else:
            self.type, rest = rest.split(" ", 1)
        self.kind, rest = re.match(r"([\w-]+)\((.*)", rest).groups()
        depth, at = 1, 0
        while depth:
            depth += (rest[at] == "(") - (rest[at] == ")")
            at += 1
        self.arguments, self.attributes = rest[:at - 1], rest[at:]
        self.operands = re.findall(r"%([\w.-]+)", self.arguments)

    def called(self):
        """The computations that it calls once."""
        names = re.findall(r"(?:calls|to_apply|true_computation|false_computation)=%?([\w.-]+)", self.attributes)
        return names + [name.strip(" %") for group in re.findall(r"branch_computations=\{([^}]*)\}", self.attributes) for name in group.split(",")]


def parts(text):
    """[(elements, bytes)] of a type, the parts of a tuple apart."""
    found = []
    for kind, dims in re.findall(r"(\w+)\[([\d,]*)\]", re.sub(r"\{[^}]*\}", "", text)):
        if kind in WIDTHS:
            count = math.prod(int(d) for d in dims.split(",") if d)
            found.append((count, count * WIDTHS[kind]))
    return found


def shape(text):
    return [int(d) for d in re.search(r"\[([\d,]*)\]", text)[1].split(",") if d]


def computations(text):
    """({name: [instruction]}, the entry's name)"""
    found, entry, current = {}, None, None
    for line in text.splitlines():
        if (begins := re.match(r"(ENTRY )?%?([\w.-]+) (?:\(.*\) -> .* )?\{$", line)) and not line.startswith(" "):
            current = found.setdefault(begins[2], [])
            entry = begins[2] if begins[1] else entry
        elif line.startswith("}"):
            current = None
        elif current is not None and " = " in line:
            current.append(Instruction(re.sub(r"/\*.*?\*/", "", line.strip())))
    return found, entry


def group_size(instruction, devices):
    """By its replica groups: `mesh['a'=2,'b'=4] {'b'}`, `mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'b'}`, `mesh['a'=8] {'a':(1)4}`, `[2,4]<=[8]` or `{{0,1},{2,3}}`; without, all devices."""
    attributes = instruction.attributes
    if "replica_groups=" not in attributes or "replica_groups={}" in attributes or "replica_groups={{}}" in attributes:
        return devices
    if named := re.search(r"replica_groups=mesh\[([^\]]*)\](?:, device_ids=\([^{]*\))?\s*\{([^}]*)\}", attributes):
        sizes = {axis: int(size) for axis, size in re.findall(r"'(\w+)'=(\d+)", named[1])}
        return math.prod(int(part) if part else sizes[axis] for axis, part in re.findall(r"'(\w+)'(?::\(\d+\)(\d+))?", named[2]))
    if counted := re.search(r"replica_groups=\[(\d+),(\d+)\]<=", attributes):
        return int(counted[2])
    if listed := re.search(r"replica_groups=\{\{([\d,]+)\}", attributes):
        return len(listed[1].split(","))
    raise ValueError(f"unknown groups: {instruction.name}{attributes[:300]}")


class Program:
    def __init__(self, text, devices):
        self.devices = devices
        self.computations, self.entry = computations(text)
        self.sent = []  # (kind, bytes, times)
        self.flops = 0
        self.walk(self.entry, 1)

    def bytes_sent(self):
        return round(sum(bytes_sent * times for _, bytes_sent, times in self.sent))

    def turns(self, loop):
        if known := re.search(r'known_trip_count":\{"n":"(\d+)"', loop.attributes):
            return int(known[1])
        condition = self.computations[re.search(r"condition=%?([\w.-]+)", loop.attributes)[1]]
        bounds = [int(i.arguments) for i in condition if i.kind == "constant" and i.arguments.isdigit()]
        if len(bounds) != 1:
            raise ValueError(f"nobody says how often {loop.name} turns")
        return bounds[0]

    def walk(self, name, times):
        for one in self.computations[name]:
            if one.kind == "while":
                self.walk(re.search(r"body=%?([\w.-]+)", one.attributes)[1], times * self.turns(one))
                continue
            if one.kind in ("dot", "convolution"):
                self.flops += times * self.flops_of(one, name)
            kind = one.kind.removesuffix("-start")
            if kind in KINDS:
                self.sent += [(k, b, times) for k, b in self.bytes_of(kind, one, name) if b]
                continue
            for called in one.called():
                if called in self.computations and one.kind not in ("reduce", "reduce-window", "scatter", "sort", "map", "select-and-scatter"):
                    self.walk(called, times)

    def flops_of(self, product, computation):
        """Of a dot by the contracted dims of its left operand, of a convolution by its kernel without the channels that it makes."""
        of = {i.name: i.type for i in self.computations[computation]}
        made = parts(product.type)[0][0]
        if product.kind == "dot":
            dims = shape(of[product.operands[0]])
            return 2 * made * math.prod(dims[int(at)] for at in re.search(r"lhs_contracting_dims=\{([\d,]*)\}", product.attributes)[1].split(",") if at)
        kernel, labels = shape(of[product.operands[1]]), re.search(r"dim_labels=\w+_(\w+)->", product.attributes)[1]
        return 2 * made * math.prod(kernel) // kernel[labels.index("o")]

    def bytes_of(self, kind, one, computation):
        k = group_size(one, self.devices)
        share = (k - 1) / k
        by_name = {i.name: i for i in self.computations[computation]}
        operands = [parts(by_name[name].type) for name in one.operands if name in by_name]
        whole = sum(b for operand in operands for _, b in operand)
        if kind == "collective-permute":
            pairs = re.findall(r"\{(\d+),(\d+)\}", one.attributes)
            return [(kind, parts(by_name[one.operands[0]].type)[0][1] if any(a != b for a, b in pairs) else 0)]
        if kind == "all-gather":
            return [(kind, share * whole * k)]
        if kind in ("reduce-scatter", "all-to-all", "ragged-all-to-all", "collective-broadcast"):
            return [(kind, share * whole)]
        result = []
        for at, operand in enumerate(operands):
            elements, size = operand[0]
            scattered = self.only_sliced(computation, one, at if len(operands) > 1 else None, elements, k)
            result.append(("reduce-scatter" if scattered else "all-reduce", (1 if scattered else 2) * share * size))
        return result

    def only_sliced(self, computation, made, part, elements, k):
        """Whether all that read a value (a part of a tuple) take a k-th of it."""
        readers = [i for i in self.computations[computation] if made.name in i.operands]
        if not readers or (made.root and part is None):
            return False
        for reader in readers:
            if part is not None and reader.kind == "get-tuple-element":
                if int(re.search(r"index=(\d+)", reader.attributes)[1]) != part:
                    continue
                if not self.only_sliced(computation, reader, None, elements, k):
                    return False
            elif reader.kind == "dynamic-slice" and reader.operands[0] == made.name:
                if parts(reader.type)[0][0] * k > elements:
                    return False
            elif reader.kind == "fusion":
                inside = self.computations[reader.called()[0]]
                for at in [n for n, name in enumerate(reader.operands) if name == made.name]:
                    parameter = next(i for i in inside if i.kind == "parameter" and i.arguments.strip() == str(at))
                    if not self.only_sliced(reader.called()[0], parameter, None, elements, k):
                        return False
            elif reader.kind in VIEWS or reader.kind.endswith("-done"):
                if reader.kind == "tuple" or not self.only_sliced(computation, reader, part, elements, k):
                    return False
            else:
                return False
        return True
