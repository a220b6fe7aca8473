"""The types of 16 bits in which numbers are kept and moved: bf16, which NumPy lacks, and f16."""
import numpy as np


class NarrowType:
    """`digits`: bits of the mantissa behind the point."""

    def __init__(self, name, digits, smallest_exponent):
        self.name, self.digits, self.smallest_exponent = name, digits, smallest_exponent
        self.step = 2.0 ** -(digits + 1)  # to the nearest, a number changes by no more than this share of itself

    def last_place(self, x):
        """Of the type at each number."""
        return 2.0 ** (np.floor(np.log2(np.maximum(x, 2.0**self.smallest_exponent))) - self.digits)


class Bf16(NarrowType):
    def __init__(self):
        super().__init__("bf16", 7, -126)

    def round(self, x):
        """To the nearest, ties to even, as f32."""
        bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)).view(np.float32)

    def stochastic(self, x, u):
        """Of f32 the neighbour away from 0 where the uniform number says so."""
        bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
        return ((bits + np.floor(u * 65536).astype(np.uint64)) & np.uint64(0xFFFF0000)).astype(np.uint32).view(np.float32)

    def stored(self, x):
        """As files hold it: the upper halves of its bits."""
        return (self.round(x).view(np.uint32) >> 16).astype(np.uint16)


class F16(NarrowType):
    def __init__(self):
        super().__init__("f16", 10, -14)

    def round(self, x):
        with np.errstate(over="ignore"):
            return np.asarray(x, np.float32).astype(np.float16).astype(np.float32)

    def stochastic(self, x, u):
        """Of f32 the neighbour away from 0 where the uniform number says so."""
        steps = abs(np.asarray(x, np.float64)) / self.last_place(abs(np.asarray(x, np.float64)))
        whole = np.floor(steps)
        return (np.sign(x) * (whole + (u >= 1 - (steps - whole))) * self.last_place(abs(np.asarray(x, np.float64)))).astype(np.float32)

    def stored(self, x):
        return self.round(x).astype(np.float16)


BF16, F16 = Bf16(), F16()
NARROW_TYPES = (BF16, F16)
