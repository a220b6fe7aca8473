"""A spec for one construct: its inputs and parameters, and a function that says what its values are."""
import types

import numpy as np

MESH = "mesh plane { rows: 2, columns: 2 }\n"
ONE_RANK = ("--mesh", "rows=1,columns=1")


class Construct:
    """`inputs` and `params`: {path: shape}; an input's shape may follow its kind: ("bool", 4), ("index", 6, 4), ("u8", 4). Layouts are on the mesh
    `plane`, two by two, and called as `layouts` says. `expected(v)` gives {name to fetch: array}; in `v` dots of paths are underscores. `options` go
    with every command, `fetch` with `meshc fetch`."""

    def __init__(self, name, spec, expected, inputs=None, params=None, layouts=("split",), options=(), fetch=()):
        self.name, self.expected, self.layouts, self.options, self.fetch = name, expected, layouts, options, fetch
        self.spec = spec.strip() + "\n" + MESH
        self.inputs, self.params = inputs or {}, params or {}

    def arrays(self, random):
        """({input: array}, {parameter: array})"""
        return ({name: drawn(random, shape if shape and isinstance(shape[0], str) else ("real", *shape)) for name, shape in self.inputs.items()},
                {name: random.normal(size=shape) for name, shape in self.params.items()})

    def values(self, inputs, params):
        named = {name.replace(".", "_"): array for name, array in {**inputs, **params}.items()}
        return self.expected(types.SimpleNamespace(**named))


def drawn(random, kind):
    if kind[0] == "real":
        return random.normal(size=kind[1:])
    if kind[0] == "bool":
        return random.random(kind[1:]) < 0.5
    if kind[0] == "index":
        return random.integers(0, kind[1], kind[2:]).astype(np.int32)
    if kind[0] == "u8":
        return random.integers(0, 256, kind[1:]).astype(np.uint8)
    return random.integers(-9, 10, kind[1:]).astype(kind[0])
