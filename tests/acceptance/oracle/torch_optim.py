"""The update formulas of torch.optim and clip_grad_norm_, and the language's cosine rate, in NumPy."""
import math

import numpy as np


def cosine(peak, warmup, steps, floor=0.0):
    def rate(t):
        if t <= warmup:
            return peak * t / warmup
        return floor + (peak - floor) * (1 + math.cos(math.pi * (t - warmup) / (steps - warmup))) / 2

    return rate


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

    def __init__(self, beta1=0.9, beta2=0.999, epsilon=1e-8, weight_decay=0.0):
        self.beta1, self.beta2, self.epsilon, self.weight_decay, self.moments = beta1, beta2, epsilon, weight_decay, {}

    def step(self, name, p, g, lr, t, weight_decay=None):
        decay = self.weight_decay if weight_decay is None else weight_decay
        if self.decoupled:
            p = p * (1 - lr * decay)
        else:
            g = g + decay * p
        m, v = self.moments.get(name, (0.0, 0.0))
        m, v = self.beta1 * m + (1 - self.beta1) * g, self.beta2 * v + (1 - self.beta2) * g**2
        self.moments[name] = m, v
        return p - lr / (1 - self.beta1**t) * m / (np.sqrt(v) / math.sqrt(1 - self.beta2**t) + self.epsilon)


class AdamW(Adam):
    decoupled = True

    def __init__(self, beta1=0.9, beta2=0.999, epsilon=1e-8, weight_decay=0.01):
        super().__init__(beta1, beta2, epsilon, weight_decay)
