"""The random numbers of a tensor at a step, by Philox4x32-10 in NumPy."""
import numpy as np

M64 = (1 << 64) - 1


def philox(counter, key):
    """Philox4x32-10: four words of counters [.., 4] for a key of two words."""
    a, b, c, d = (counter[..., i].astype(np.uint64) for i in range(4))
    k0, k1 = (np.uint64(k) for k in key)
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        ab, cd = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, b, c, d = (cd >> np.uint64(32)) ^ b ^ k0, cd & low, (ab >> np.uint64(32)) ^ d ^ k1, ab & low
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & low, (k1 + np.uint64(0xBB67AE85)) & low
    return np.stack([a, b, c, d], -1)


def mix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & M64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & M64
    return x ^ (x >> 31)


def words(seed, path, draws, shape):
    """The words of every element of a tensor: the key is of the seed and the path, the counter of the index and of step and turns."""
    text = 0xCBF29CE484222325
    for byte in path.encode():
        text = ((text ^ byte) * 0x100000001B3) & M64
    key, draw = mix(mix(seed) ^ text), 0
    for turn in draws:
        draw = mix((draw + turn + 0x9E3779B97F4A7C15) & M64)
    index = np.arange(int(np.prod(shape, dtype=np.int64)), dtype=np.uint64)
    low = np.uint64(0xFFFFFFFF)
    counter = np.stack([index & low, index >> np.uint64(32), np.full_like(index, draw & 0xFFFFFFFF), np.full_like(index, draw >> 32)], -1)
    return philox(counter, (key & 0xFFFFFFFF, key >> 32)).reshape(*shape, 4)


def uniform(*of):
    return (words(*of)[..., 0] >> np.uint64(8)).astype(np.float64) * 2.0**-24


def normal(*of):
    w = words(*of)

    def unit(high, low):
        return ((high << np.uint64(20) | low >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52

    return np.sqrt(-2 * np.log(unit(w[..., 0], w[..., 1]))) * np.cos(2 * np.pi * unit(w[..., 2], w[..., 3]))
