"""The functions of the language that NumPy lacks, on arrays of any float type (long doubles make central differences sharp)."""
import numpy as np

PI = np.longdouble("3.14159265358979323846264338327950288")


def erf(x):
    """2/sqrt(pi) * exp(-x^2) * sum of 2^n x^(2n+1) / (2n+1)!!: all terms of one sign, so nothing cancels.
    Beyond 7 it is 1 to the last bit of a long double, or its negative."""
    x = np.clip(np.asarray(x, np.longdouble), -7, 7)
    term = total = x
    for n in range(1, 200):
        term = term * 2 * x * x / (2 * n + 1)
        total = total + term
    return 2 / np.sqrt(PI) * np.exp(-x * x) * total


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu(x):
    return x * (1 + erf(x / np.sqrt(np.longdouble(2)))) / 2


def gelu_tanh(x):
    return x * (1 + np.tanh(np.sqrt(2 / PI) * (x + np.longdouble("0.044715") * x**3))) / 2


def relu(x):
    return np.where(x > 0, x, 0)


def empty_rows(keep, axis):
    return ~np.any(keep, axis=axis, keepdims=True)


def softmax(x, axis, keep=True):
    """Over one axis or a tuple; a row with nothing kept is 0."""
    keep = np.broadcast_to(keep, x.shape)
    top = np.max(np.where(keep, x, -1e30), axis=axis, keepdims=True)
    e = np.where(keep, np.exp(np.where(keep, x - top, 0)), 0)
    total = e.sum(axis=axis, keepdims=True)
    return e / np.where(total == 0, 1, total)


def logsumexp(x, axis, keep=True):
    """A row with nothing kept is -inf."""
    keep = np.broadcast_to(keep, x.shape)
    none = empty_rows(keep, axis)
    top = np.where(none, 0, np.max(np.where(keep, x, -1e30), axis=axis, keepdims=True))
    total = np.where(keep, np.exp(np.where(keep, x - top, 0)), 0).sum(axis=axis, keepdims=True)
    return np.squeeze(np.where(none, -np.inf, top + np.log(np.where(none, 1, total))), axis=axis)


def log_softmax(x, axis, keep=True):
    keep = np.broadcast_to(keep, x.shape)
    total = np.expand_dims(logsumexp(x, axis, keep), axis)
    return np.where(keep, x - np.where(np.isfinite(total), total, 0), -np.inf)


def maximum(x, axis, keep=True):
    return np.max(np.where(keep, x, -np.inf), axis=axis)


def minimum(x, axis, keep=True):
    return np.min(np.where(keep, x, np.inf), axis=axis)


def mean(x, axis, keep=True):
    """Over what is kept; 0 where nothing is."""
    keep = np.broadcast_to(keep, x.shape)
    count = keep.sum(axis=axis)
    return np.where(keep, x, 0).sum(axis=axis) / np.maximum(count, 1)


def cross_entropy(logits, target, smoothing=0):
    """logits [..., class], target [...]: torch's label smoothing."""
    logs = log_softmax(logits, -1)
    picked = np.take_along_axis(logs, np.asarray(target)[..., None], -1)[..., 0]
    return -(1 - smoothing) * picked - smoothing * logs.mean(-1)


def layer_norm(x, gain, bias):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + np.longdouble("1e-5")) * gain + bias


def rms_norm(x, gain):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + np.longdouble("1e-6")) * gain


def attention(x, wq, wk, wv, wo):
    """x [batch, seq, embed], wq wk wv [embed, heads, head_dim], wo [heads, head_dim, embed]; causal. Result and weights [batch, seq, heads, key]."""
    q, k, v = (np.einsum("bse,ehd->bshd", x, w) for w in (wq, wk, wv))
    score = np.einsum("bshd,bkhd->bshk", q, k) / np.sqrt(np.longdouble(wq.shape[-1]))
    keep = (np.arange(x.shape[1])[:, None] >= np.arange(x.shape[1]))[None, :, None, :]
    weight = softmax(score, -1, keep)
    return np.einsum("bshd,hde->bse", np.einsum("bshk,bkhd->bshd", weight, v), wo), weight
