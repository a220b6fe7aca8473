"""A small model around one op: its spec, its random arrays, and what NumPy says about values and gradients.

Gradients are central differences of the NumPy forward in long doubles, of steps h = 1e-6 and 2 h, whose errors of order h^2 cancel
(Richardson): truncation about 4 (h / x)^4 for a pole at distance x, rounding about 1e-13.
"""
import re
import types

import numpy as np

SIZES = {"a": "3", "b": "4", "c": "5", "d": "2", "e": "d * a", "k": "b", "l": "3", "m": "2"}
STEP = np.longdouble("1e-6")


def sizes(more):
    values = {}
    for name, text in {**SIZES, **more}.items():
        values[name] = eval(text.split(" edge ")[0], {}, dict(values))  # sizes of this file: numbers, names, * and +
    return values


class Case:
    """`body` binds y from the parameters and inputs; `forward(v)` is y (or a dict with more names) from the same arrays as attributes of v.

    params, inner, inputs: {"p1": "a b"}: dims in order; inner ones are declared by the body or a block, with their path.
    An input's dims may begin with a type: "index(c) a", "bool a b". result: the dims of y. positive: arrays between 0.3 and 2.3.
    v.base holds the arrays without the step of the differences, for stop_gradient.
    """

    def __init__(self, name, body, params, result, forward, inputs=None, inner=None, head="", dims=None, positive=False, values=None):
        self.name, self.body, self.params, self.result, self.forward = name, body, params, result.split(), forward
        self.inputs, self.inner, self.head, self.positive, self.values = inputs or {}, inner or {}, head, positive, values or {}
        self.dims, self.more = sizes(dims or {}), dims or {}

    def spec(self):
        lines = [self.head] if self.head else []
        lines += [f"dim {name} = {text}" for name, text in {**SIZES, **self.more}.items()]
        lines += ["model Case {", f"  input weight : real[{', '.join(self.result) or 'a'}]"]
        for name, text in self.inputs.items():
            kind, dims = self.input_type(text)
            lines.append(f"  input {name} : {kind}" + (f"[{', '.join(dims)}]" if dims else ""))
        for name, text in self.params.items():
            lines.append(f"  param {name} : real" + (f"[{', '.join(text.split())}]" if text else "") + " = zeros")
        lines += ["  " + line for line in self.body.strip().split("\n")]
        lines.append(f"  loss = sum[{', '.join(self.result)}](y * weight)" if self.result else "  loss = y * sum[a](weight)")
        return "\n".join(lines + ["  minimize loss with sgd(lr: 0.1)", "}", ""])

    def splittable(self):
        """The dims of the case's tensors that no loop repeats over."""
        used = {word for text in [*self.params.values(), *self.inner.values(), " ".join(self.result), *(" ".join(self.input_type(t)[1]) for t in self.inputs.values())]
                for word in text.split()}
        repeated = set(re.findall(r"repeat (\w+)", self.body + self.head))
        return [name for name in self.dims if name in used - repeated] or ["a"]

    def input_type(self, text):
        words = text.split()
        return (words[0], words[1:]) if words and words[0] not in self.dims else ("real", words)

    def shape(self, dims):
        return tuple(self.dims[d] for d in dims)

    def arrays(self, random):
        """Every array of the case. Floats are distinct, none within a twentieth of a step of another or of 0: no op is at a kink."""
        shapes = {name: self.shape(text.split()) for name, text in {**self.params, **self.inner}.items()}
        result, floats = {}, dict(shapes)
        for name, text in self.inputs.items():
            kind, dims = self.input_type(text)
            if kind == "real":
                floats[name] = self.shape(dims)
            elif kind == "bool":
                result[name] = random.random(self.shape(dims)) < 0.6
            else:
                size = self.dims[kind[6:-1]] if kind.startswith("index") else 7
                result[name] = random.integers(0, size, self.shape(dims)).astype(np.uint8 if kind == "u8" else np.int64 if kind == "i64" else np.int32)
        count = 2 * (sum(int(np.prod(s)) for s in floats.values()) // 2 + 1)
        grid = (np.arange(count) + 0.5 + 0.4 * (random.random(count) - 0.5)) / count
        grid = random.permutation(grid * 2 + 0.3 if self.positive else grid * 4 - 2).astype(np.float32).astype(np.float64)
        for name, shape in floats.items():
            size = int(np.prod(shape))
            result[name], grid = grid[:size].reshape(shape), grid[size:]
        result["weight"] = (random.random(self.shape(self.result) or (self.dims["a"],)) + 0.5).astype(np.float32).astype(np.float64)
        result.update({name: np.array(value) for name, value in self.values.items()})
        return result, list(shapes)

    def values_of(self, arrays, base=None):
        """Every checked value by name, among them y and loss."""
        wide = {n: a.astype(np.longdouble) if a.dtype.kind == "f" else a for n, a in arrays.items()}
        v = types.SimpleNamespace(**{n.replace(".", "_"): a for n, a in wide.items()})
        v.base = base or v
        with np.errstate(all="ignore"):
            out = self.forward(v)
            out = out if isinstance(out, dict) else {"y": out}
            y = np.asarray(out["y"], np.longdouble)
            return {**out, "loss": (y * wide["weight"]).sum() if self.result else y * wide["weight"].sum()}

    def scale(self, values, arrays):
        """What an error of the loss is relative to: its largest summand or itself, for summands may cancel."""
        y = np.where(np.isfinite(np.asarray(values["y"], np.longdouble)), values["y"], 0)
        return float(max(np.abs(y * (arrays["weight"] if self.result else arrays["weight"].sum())).max(), np.abs(np.asarray(values["loss"]))))

    def gradients(self, arrays, names):
        """Differences of the loss; elements of y that are infinite count as 0: their gradient is 0 by definition."""
        base = types.SimpleNamespace(**{n.replace(".", "_"): a.astype(np.longdouble) if a.dtype.kind == "f" else a for n, a in arrays.items()})

        def loss(name, index, step):
            moved = dict(arrays)
            moved[name] = arrays[name].astype(np.longdouble)
            moved[name][index] += step
            y = np.asarray(self.values_of(moved, base)["y"], np.longdouble)
            y = np.where(np.isfinite(y), y, 0)
            return (y * arrays["weight"]).sum() if self.result else y * arrays["weight"].sum()

        result = {}
        for name in names:
            gradient = np.zeros(arrays[name].shape, np.longdouble)
            for index in np.ndindex(arrays[name].shape):
                near, far = ((loss(name, index, h) - loss(name, index, -h)) / (2 * h) for h in (STEP, 2 * STEP))
                gradient[index] = (4 * near - far) / 3
            result[name] = gradient
        return result
