"""Normalisations of the library in NumPy, values [batch, height, width, channel]: what they give, and what gradients they pass on."""
import numpy as np

EPSILON = 1e-5


class Norm:
    """Over `axes` of a value that is seen under another shape meanwhile."""

    def __init__(self, axes, shape=None):
        self.axes, self.shape = axes, shape

    def statistics(self, x):
        seen = x.reshape(self.shape or x.shape)
        return seen.mean(self.axes, keepdims=True), seen.var(self.axes, keepdims=True)

    def normal(self, x):
        mean, variance = self.statistics(x)
        return ((x.reshape(self.shape or x.shape) - mean) / np.sqrt(variance + EPSILON)).reshape(x.shape)

    def __call__(self, x, gain, bias):
        return self.normal(x) * gain + bias

    def gradients(self, x, gain, d):
        """Of x, gain and bias, of d, that of the result."""
        normal, (_, variance) = self.normal(x), self.statistics(x)
        seen, to = normal.reshape(self.shape or x.shape), (d * gain).reshape(self.shape or x.shape)
        d_x = (to - to.mean(self.axes, keepdims=True) - seen * (to * seen).mean(self.axes, keepdims=True)) / np.sqrt(variance + EPSILON)
        return d_x.reshape(x.shape), (d * normal).sum((0, 1, 2)), d.sum((0, 1, 2))


def running(before, batch, steps):
    """What `steps` steps of one batch leave of a running statistic."""
    for _ in range(steps):
        before = 0.9 * before + 0.1 * batch
    return before
