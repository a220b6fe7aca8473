"""Convolution and pooling in NumPy, written as sums over the kernel's elements; with what their gradients are."""
import itertools
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Window:
    """Along one dim: element n of the narrow one meets stride * n + dilation * k - before of the wide one."""
    wide: int
    kernel: int
    stride: int = 1
    dilation: int = 1
    before: int = 0
    after: int = 0

    @property
    def room(self):
        return self.wide + self.before + self.after - self.dilation * (self.kernel - 1) - 1

    @property
    def narrow(self):
        return self.room // self.stride + 1 if self.room >= 0 else 0

    def met(self, k):
        """Of a wide dim with `before` and `after` around it, what the k-th elements of all windows are."""
        begin = self.dilation * k
        return slice(begin, begin + self.stride * (self.narrow - 1) + 1, self.stride)

    def inside(self, n):
        """The kernel's elements of window n that lie within the dim."""
        return [k for k in range(self.kernel) if 0 <= self.stride * n + self.dilation * k - self.before < self.wide]


def elements(windows):
    return itertools.product(*(range(w.kernel) for w in windows))


def padded(x, windows, value=0.0):
    """x [batch, wide.., groups, channels]"""
    around = [(0, 0)] + [(w.before, w.after) for w in windows] + [(0, 0)] * (x.ndim - 1 - len(windows))
    return np.pad(x, around, constant_values=value)


def within(x, windows):
    """The reverse of `padded`."""
    return x[(slice(None), *(slice(w.before, w.before + w.wide) for w in windows))]


def met(windows, k):
    return (slice(None), *(w.met(i) for w, i in zip(windows, k)))


def conv(x, w, windows):
    """y [batch, narrow.., groups, out] of x [batch, wide.., groups, in] and w [kernel.., groups, in, out]"""
    x = padded(x, windows)
    return sum(np.einsum("...gi,gio->...go", x[met(windows, k)], w[k]) for k in elements(windows))


def conv_transpose(y, w, windows):
    """x of y and w: each element of y to the elements that its window meets."""
    x = np.zeros((y.shape[0], *(s.wide + s.before + s.after for s in windows), *w.shape[-3:-1]), y.dtype)
    for k in elements(windows):
        x[met(windows, k)] += np.einsum("...go,gio->...gi", y, w[k])
    return within(x, windows)


def conv_weights(x, y, windows):
    """w of x and y: the gradient of a convolution's weights."""
    x = padded(x, windows)
    w = np.empty((*(s.kernel for s in windows), x.shape[-2], x.shape[-1], y.shape[-1]), x.dtype)
    for k in elements(windows):
        part = x[met(windows, k)]
        w[k] = np.einsum("pgi,pgo->gio", part.reshape(-1, *part.shape[-2:]), y.reshape(-1, *y.shape[-2:]))
    return w


def max_pool(x, windows):
    """The largest of each window, and which of its elements that is, the first of equal ones."""
    parts = np.stack([padded(x, windows, -np.inf)[met(windows, k)] for k in elements(windows)])
    which = parts.argmax(0)
    return np.take_along_axis(parts, which[None], 0)[0], which


def max_pool_gradient(which, d, windows):
    x = np.zeros((d.shape[0], *(s.wide + s.before + s.after for s in windows), *d.shape[1 + len(windows):]), d.dtype)
    for i, k in enumerate(elements(windows)):
        x[met(windows, k)] += np.where(which == i, d, 0)
    return within(x, windows)


def counts(windows, ndim):
    """How many elements each window has, to divide a value of so many dims by."""
    count = np.ones(())
    for w in windows:
        count = count[..., None] * np.array([len(w.inside(n)) for n in range(w.narrow)])
    return count.reshape(1, *count.shape, *[1] * (ndim - 1 - len(windows)))


def avg_pool(x, windows):
    total = sum(padded(x, windows)[met(windows, k)] for k in elements(windows))
    return total / counts(windows, x.ndim)


def avg_pool_gradient(d, windows):
    x = np.zeros((d.shape[0], *(s.wide + s.before + s.after for s in windows), *d.shape[1 + len(windows):]), d.dtype)
    for k in elements(windows):
        x[met(windows, k)] += d / counts(windows, d.ndim)
    return within(x, windows)
