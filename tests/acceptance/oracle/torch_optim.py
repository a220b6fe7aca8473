"""The update formulas of torch.optim and clip_grad_norm_, of Lion's paper and of Mesh-TensorFlow, and the language's rates, in NumPy."""
import math

import numpy as np


def cosine(peak, warmup, steps, floor=0.0):
    def rate(t):
        if t <= warmup:
            return peak * t / warmup
        return floor + (peak - floor) * (1 + math.cos(math.pi * (t - warmup) / (steps - warmup))) / 2

    return rate


def linear(peak, warmup, steps, floor=0.0):
    return lambda t: peak * t / warmup if t < warmup else peak + (floor - peak) * min(1, (t - warmup) / (steps - warmup))


def inverse_sqrt(peak, warmup):
    return lambda t: peak * t / warmup if t < warmup else peak * math.sqrt(warmup / t)


def held_inverse_sqrt(peak, hold):
    return lambda t: peak if t <= hold else peak * math.sqrt(hold / t)


def step(peak, every, factor=0.1, times=math.inf, warmup=0):
    return lambda t: peak * t / warmup if t < warmup else peak * factor ** min(times, (t - max(warmup, 1)) // every)


def constant(rate, warmup):
    return lambda t: rate * min(t / warmup, 1)


def product(*factors):
    return lambda t: math.prod(f(t) if callable(f) else f for f in factors)


def clip(gradients, largest):
    """Scales every gradient by largest / (norm + 1e-6) where that is below 1."""
    norm = math.sqrt(sum(float((g**2).sum()) for g in gradients.values()))
    factor = min(1.0, largest / (norm + 1e-6))
    return {name: g * factor for name, g in gradients.items()}


class Sgd:
    def __init__(self, momentum=0.0, nesterov=False, weight_decay=0.0):
        self.momentum, self.nesterov, self.weight_decay, self.buffers = momentum, nesterov, weight_decay, {}

    def step(self, name, p, g, lr, t, weight_decay=None):
        g = g + (self.weight_decay if weight_decay is None else weight_decay) * p
        if self.momentum:
            buffer = self.buffers[name] = g if t == 1 else self.momentum * self.buffers[name] + g
            g = g + self.momentum * buffer if self.nesterov else buffer
        return p - lr * g


class Adam:
    decoupled = False

    def __init__(self, beta1=0.9, beta2=0.999, epsilon=1e-8, weight_decay=0.0, corrected=True):
        self.beta1, self.beta2, self.epsilon, self.weight_decay, self.moments, self.corrected = beta1, beta2, epsilon, weight_decay, {}, corrected

    def step(self, name, p, g, lr, t, weight_decay=None):
        decay = self.weight_decay if weight_decay is None else weight_decay
        if self.decoupled:
            p = p * (1 - lr * decay)
        else:
            g = g + decay * p
        m, v = self.moments.get(name, (0.0, 0.0))
        m, v = self.beta1 * m + (1 - self.beta1) * g, self.beta2 * v + (1 - self.beta2) * g**2
        self.moments[name] = m, v
        if not self.corrected:  # Mesh-TensorFlow's AdamWeightDecayOptimizer
            return p - lr * m / (np.sqrt(v) + self.epsilon)
        return p - lr / (1 - self.beta1**t) * m / (np.sqrt(v) / math.sqrt(1 - self.beta2**t) + self.epsilon)


class AdamW(Adam):
    decoupled = True

    def __init__(self, beta1=0.9, beta2=0.999, epsilon=1e-8, weight_decay=0.01, corrected=True):
        super().__init__(beta1, beta2, epsilon, weight_decay, corrected)


class RmsProp:
    def __init__(self, alpha=0.99, epsilon=1e-8, momentum=0.0, centered=False, weight_decay=0.0):
        self.alpha, self.epsilon, self.centered, self.weight_decay, self.averages = alpha, epsilon, centered, weight_decay, {}
        self.momentum, self.buffers = momentum, {}

    def step(self, name, p, g, lr, t, weight_decay=None):
        g = g + (self.weight_decay if weight_decay is None else weight_decay) * p
        v, m = self.averages.get(name, (0.0, 0.0))
        v, m = self.alpha * v + (1 - self.alpha) * g**2, self.alpha * m + (1 - self.alpha) * g
        self.averages[name] = v, m
        scaled = g / (np.sqrt(v - m**2 if self.centered else v) + self.epsilon)
        if self.momentum:
            scaled = self.buffers[name] = self.momentum * self.buffers.get(name, 0.0) + scaled
        return p - lr * scaled


class Lion:
    def __init__(self, beta1=0.9, beta2=0.99, weight_decay=0.0):
        self.beta1, self.beta2, self.weight_decay, self.moments = beta1, beta2, weight_decay, {}

    def step(self, name, p, g, lr, t, weight_decay=None):
        m = self.moments.get(name, 0.0)
        self.moments[name] = self.beta2 * m + (1 - self.beta2) * g
        p = p * (1 - lr * (self.weight_decay if weight_decay is None else weight_decay))
        return p - lr * np.sign(self.beta1 * m + (1 - self.beta1) * g)


class Adafactor:
    """Mesh-TensorFlow's, for one parameter; `stacked` names those whose first dim is that of a loop: each index is a parameter."""

    def __init__(self, decay=0.8, beta1=0.0, scaled=True, factored=True, smallest=128, threshold=1.0, smallest_scale=1e-3, epsilon=1e-30, stacked=()):
        self.decay, self.beta1, self.scaled, self.factored, self.smallest, self.stacked = decay, beta1, scaled, factored, smallest, stacked
        self.threshold, self.smallest_scale, self.epsilon, self.moments = threshold, smallest_scale, epsilon, {}

    def step(self, name, p, g, lr, t, weight_decay=None):
        if name in self.stacked:
            return np.stack([self.single((name, i), p[i], g[i], lr, t) for i in range(len(p))])
        return self.single(name, p, g, lr, t)

    def single(self, name, p, g, lr, t):
        p, g = np.asarray(p), np.asarray(g)
        kept = 1 - t**-self.decay
        square = g**2 + self.epsilon
        order = sorted(range(g.ndim), key=lambda d: -g.shape[d])
        old = self.moments.get(name, {})
        new = self.moments[name] = {}
        if self.factored and g.ndim >= 2 and g.shape[order[1]] >= self.smallest:
            first, second = order[:2]
            rows = new["rows"] = kept * old.get("rows", 0.0) + (1 - kept) * square.mean(first, keepdims=True)
            columns = new["columns"] = kept * old.get("columns", 0.0) + (1 - kept) * square.mean(second, keepdims=True)
            x = g / np.sqrt(rows / rows.mean(second, keepdims=True)) / np.sqrt(columns)
        else:
            new["v"] = kept * old.get("v", 0.0) + (1 - kept) * square
            x = g / np.sqrt(new["v"])
        x = x / max(1.0, math.sqrt((x**2).mean()) / self.threshold)
        step = lr * (max(math.sqrt((p**2).mean()), self.smallest_scale) if self.scaled else 1.0) * x
        if self.beta1:
            step = new["m"] = self.beta1 * old.get("m", 0.0) + (1 - self.beta1) * step
        return p - step
