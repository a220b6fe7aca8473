"""What tests/acceptance/few says: the sizes of its specs, and by layout its mesh and which dims of which values it splits."""
import re


def sizes(text):
    """{dim: size} of the `dim` lines."""
    known = {}
    for line in re.findall(r"^dim (.*)$", text, re.M):
        for name, expression in re.findall(r"(\w+) = ([^,]+)", line):
            known[name] = eval(expression, {}, known)  # of numbers and names of dims
    return known


def layouts(text):
    """{layout: ({axis: size}, {value: {dim: [axis]}})}, in order."""
    meshes = {name: {axis: int(size) for axis, size in re.findall(r"(\w+): (\d+)", axes)} for name, axes in re.findall(r"^mesh (\w+) \{(.*)\}$", text, re.M)}
    found = {}
    for name, mesh, rules in re.findall(r"^layout (\w+) on (\w+) \{(.*)\}", text, re.M):
        pins = {}
        for values, inside in re.findall(r"tensor ([\w., ]+?) \{([^}]*)\}", rules):
            of = {dim: axes.split(" * ") for dim, axes in re.findall(r"(\w+) -> ([\w* ]*\w)", inside)}
            for value in values.split(", "):
                pins.setdefault(value, {}).update(of)
        found[name] = meshes[mesh], pins
    return found
