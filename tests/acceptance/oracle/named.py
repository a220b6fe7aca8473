"""Tensors whose dims have names, and the ops of the language on them, in PyTorch: written from the language's reference, without the compiler's code."""
import math

import torch


class Named:
    """A tensor and the names of its dims; `keep`: of a masked one what is not left out, else None."""

    def __init__(self, dims, data, keep=None):
        self.dims, self.data, self.keep = tuple(dims), data, keep
        if len(self.dims) != data.dim() or len(set(self.dims)) < len(self.dims):
            raise ValueError(f"dims {self.dims} of {tuple(data.shape)}")


def named(value):
    """A number is a tensor without dims."""
    return value if isinstance(value, Named) else Named((), torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None))


def along(x, dims):
    """The data of x with these dims in this order, size 1 along those that x lacks."""
    order = [x.dims.index(d) for d in dims if d in x.dims]
    if len(order) < len(x.dims):
        raise ValueError(f"{x.dims} do not fit into {dims}")
    shape = [x.data.shape[x.dims.index(d)] if d in x.dims else 1 for d in dims]
    return x.data.permute(order).reshape(shape)


def widened(x, dims, sizes):
    """x repeated along dims that it lacks, in the order of dims."""
    return Named(dims, along(x, dims).expand([sizes[d] for d in dims]))


def largest(*values):
    """The dims of an elementwise op: those of the first operand that has all."""
    return next(v.dims for v in values if all(set(u.dims) <= set(v.dims) for u in values))


def union(*dims):
    found = []
    for d in (e for each in dims for e in each):
        if d not in found:
            found.append(d)
    return tuple(found)


def elementwise(function, *values, both_ways=False):
    values = alike([named(v) for v in values])
    dims = union(*(v.dims for v in values)) if both_ways else largest(*values)
    return Named(dims, function(*torch.broadcast_tensors(*(along(v, dims) for v in values))))


def alike(values):
    """Whole numbers that meet floats as floats."""
    if not any(v.data.is_floating_point() for v in values):
        return values
    return [v if v.data.dtype == torch.bool else Named(v.dims, v.data.to(torch.float64)) for v in values]


def where(keep, x, y):
    """A condition that has all dims does not turn round what it chooses from."""
    return elementwise(lambda x, y, keep: torch.where(keep, x, y), x, y, keep)


def is_number(value):
    return not isinstance(value, Named)


def larger(x, y):
    return torch.where(x >= y, x, y)


def smaller(x, y):
    return torch.where(x <= y, x, y)


def real(x):
    return x.to(torch.float64)


def gelu(x):
    return x / 2 * (1 + torch.erf(x / math.sqrt(2)))


def gelu_tanh(x):
    return x / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


FUNCTIONS = {"tanh": torch.tanh, "sigmoid": torch.sigmoid, "sin": torch.sin, "cos": torch.cos, "relu": torch.relu, "gelu": gelu, "gelu_tanh": gelu_tanh,
             "silu": lambda x: x * torch.sigmoid(x), "abs": torch.abs, "exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt,
             "erf": torch.erf, "floor": torch.floor, "stop_gradient": lambda x: x.detach(), "real": real, "f32": real, "bf16": real, "f16": real, "f64": real,
             "i32": lambda x: x.to(torch.int64), "i64": lambda x: x.to(torch.int64), "bool": lambda x: x.to(torch.bool)}

ARITHMETIC = {"+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y, "/": lambda x, y: x / y, "%": lambda x, y: x % y, "^": lambda x, y: x**y}
COMPARISONS = {"==": lambda x, y: x == y, "!=": lambda x, y: x != y, "<": lambda x, y: x < y, "<=": lambda x, y: x <= y, ">": lambda x, y: x > y,
               ">=": lambda x, y: x >= y, "and": lambda x, y: x & y, "or": lambda x, y: x | y}


def binary(op, x, y):
    if is_number(x) and is_number(y):
        return {**ARITHMETIC, **COMPARISONS}[op](x, y)
    return elementwise({**ARITHMETIC, **COMPARISONS}[op], x, y, both_ways=op in COMPARISONS)


def mask(x, keep):
    dims = union(x.dims, keep.dims)
    data, keep = torch.broadcast_tensors(along(x, dims), along(keep, dims))
    return Named(dims, torch.where(keep, data, torch.full_like(data, -math.inf)), keep)


def kept(x, instead):
    """The data of x with a number in place of what its mask leaves out."""
    return x.data if x.keep is None else torch.where(x.keep, x.data, torch.full_like(x.data, instead))


def without(dims, gone):
    return tuple(d for d in dims if d not in gone)


def places(x, dims):
    return [x.dims.index(d) for d in dims]


def total(x, over, where=None):
    counted = x.keep if where is None else along(where, x.dims).expand(x.data.shape)
    data = x.data if x.data.is_floating_point() else x.data.to(torch.int64)
    if counted is not None:
        data = torch.where(counted, data, torch.zeros_like(data))
    return Named(without(x.dims, over), data.sum(places(x, over)))


def mean(x, over, where=None):
    x = Named(x.dims, real(x.data), x.keep)
    counted = x.keep if where is None else along(where, x.dims).expand(x.data.shape)
    count = (torch.ones_like(x.data) if counted is None else real(counted)).sum(places(x, over))
    return Named(without(x.dims, over), total(x, over, where).data / torch.clamp(count, min=1))


def extreme(function, instead):
    return lambda x, over: Named(without(x.dims, over), function(kept(x, instead), places(x, over)))


def logsumexp(x, over):
    return Named(without(x.dims, over), torch.logsumexp(x.data, places(x, over)))


def softmax(x, over):
    """A row in which nothing is left gives 0."""
    at = places(x, over)[0]
    shares = torch.softmax(kept(x, -1e300), at)
    return Named(x.dims, shares if x.keep is None else torch.where(x.keep, shares, torch.zeros_like(shares)))


def log_softmax(x, over):
    return Named(x.dims, torch.log_softmax(x.data, places(x, over)[0]))


def argmax(x, over):
    """The first of equal ones."""
    at = places(x, over)[0]
    top = x.data.amax(at, keepdim=True)
    numbers = torch.arange(x.data.shape[at]).reshape([-1 if i == at else 1 for i in range(x.data.dim())])
    return Named(without(x.dims, over), torch.where(x.data == top, numbers, torch.full_like(numbers, x.data.shape[at])).amin(at))


def dot(x, y, over):
    both = union(x.dims, y.dims)
    product = along(x, both) * along(y, both)
    return Named(without(both, over), product.sum([both.index(d) for d in over]))


def outer(x, y):
    both = union(x.dims, y.dims)
    return Named(both, along(x, both) * along(y, both))


def take(table, dim, index):
    rest = without(table.dims, (dim,))
    rows = table.data.movedim(table.dims.index(dim), 0)[index.data]
    return Named(index.dims + rest, rows)


def one_hot(index, dim, size):
    return Named(index.dims + (dim,), real(index.data.unsqueeze(-1) == torch.arange(size)))


def cross_entropy(x, dim, index, smoothing=0, z_loss=0):
    rest = without(x.dims, (dim,))
    logits = x.data.movedim(x.dims.index(dim), -1)
    log_sum = torch.logsumexp(logits, -1)
    chosen = logits.gather(-1, along(index, rest).expand(log_sum.shape).unsqueeze(-1)).squeeze(-1)
    return Named(rest, log_sum - (1 - smoothing) * chosen - smoothing * logits.mean(-1) + z_loss * log_sum**2)


def cumsum(x, over):
    return Named(x.dims, x.data.cumsum(places(x, over)[0]))


def sort(x, over, descending=False):
    return Named(x.dims, torch.sort(x.data, dim=places(x, over)[0], descending=descending, stable=True)[0])


def top_k(x, dim, part, size):
    at = x.dims.index(dim)
    found, numbers = torch.sort(x.data, dim=at, descending=True, stable=True)
    dims = tuple(part if d == dim else d for d in x.dims)
    return Named(dims, found.narrow(at, 0, size)), Named(dims, numbers.narrow(at, 0, size))


def concat(x, first, y, second, to, sizes):
    """What lacks dims of the other is repeated over them."""
    rest = lambda v, d: without(v.dims, (d,))
    dims = x.dims if set(rest(y, second)) <= set(rest(x, first)) else tuple(first if d == second else d for d in y.dims)
    at = dims.index(first)
    left = widened(x, dims, sizes).data
    right = widened(Named(tuple(first if d == second else d for d in y.dims), y.data), dims, {**sizes, first: sizes[second]}).data
    return Named(tuple(to if d == first else d for d in dims), torch.cat([left, right], at))


def stack(values, dim):
    dims = largest(*values)
    return Named(dims + (dim,), torch.stack(torch.broadcast_tensors(*(along(v, dims) for v in values)), -1))


def pad(x, dim, to, size, before=0, value=0):
    at = x.dims.index(dim)
    block = lambda count: torch.full([count if i == at else n for i, n in enumerate(x.data.shape)], float(value), dtype=x.data.dtype)
    after = size - before - x.data.shape[at]
    return Named(tuple(to if d == dim else d for d in x.dims), torch.cat([block(before), x.data, block(after)], at))


def shift(x, dim, by, edge):
    """What stands `by` places further along; beyond the ends what the dim's edge says."""
    at = x.dims.index(dim)
    size = x.data.shape[at]
    numbers = torch.arange(size) + by
    if edge == "wrap":
        return Named(x.dims, x.data.index_select(at, numbers % size))
    inside = (numbers >= 0) & (numbers < size)
    found = x.data.index_select(at, numbers.clamp(0, size - 1))
    if edge == "clamp":
        return Named(x.dims, found)
    shape = [-1 if i == at else 1 for i in range(x.data.dim())]
    return Named(x.dims, torch.where(inside.reshape(shape), found, torch.full_like(found, float(edge))))


def split(x, dim, parts, sizes):
    at = x.dims.index(dim)
    shape = list(x.data.shape)
    return Named(x.dims[:at] + tuple(parts) + x.dims[at + 1:], x.data.reshape(shape[:at] + [sizes[d] for d in parts] + shape[at + 1:]))


def merge(x, parts, to):
    """The new dim stands where the first of the old ones stood; the first is the slowest."""
    first = min(x.dims.index(d) for d in parts)
    before = [d for d in x.dims[:first] if d not in parts]
    after = [d for d in x.dims[first:] if d not in parts]
    data = along(x, before + list(parts) + after)
    shape = list(data.shape)
    size = math.prod(shape[len(before):len(before) + len(parts)])
    return Named((*before, to, *after), data.reshape(shape[:len(before)] + [size] + shape[len(before) + len(parts):]))
