"""Movements of one tensor between two placements that mismatch, each as `meshc reshard` is asked for it and as a model that makes it: `y = 2 * x`,
or the sum of `x` where one is pending, with both pinned."""

AXES = "abcd"


class Movement:
    """A placement is the axes of every dim, and last those over which a sum is pending: tuples of numbers, the slowest axis first."""

    def __init__(self, mesh, shape, start, to, name="", deals=((), ())):
        """deals: of both placements, how each dim is dealt to its axes: "", "zigzag", "rounds 2"."""
        self.mesh, self.shape, self.start, self.to, self.name = mesh, shape, start, to, name
        self.deals = [tuple(some) or ("",) * len(shape) for some in deals]

    def deals_of(self, placement):
        return self.deals[0 if placement is self.start else 1]

    def rules(self, placement):
        deals = self.deals_of(placement)
        rules = [f"d{i} -> {' * '.join(AXES[a] for a in axes)} {deals[i]}".strip() for i, axes in enumerate(placement[:-1]) if axes]
        return "; ".join(rules + [f"partial {AXES[a]}" for a in placement[-1]]) or "none"

    def question(self, scale=1):
        """The options of `meshc reshard`; `scale` times as many rows of the first dim."""
        mesh = ",".join(f"{AXES[i]}={n}" for i, n in enumerate(self.mesh))
        shape = ",".join(f"d{i}={n * (scale if i == 0 else 1)}" for i, n in enumerate(self.shape))
        return ["--mesh", mesh, "--shape", shape, "--from", self.rules(self.start), "--to", self.rules(self.to)]

    def spec(self, element="f64"):
        summed = [f"s{AXES[a]}" for a in self.start[-1]]
        sizes = [f"d{i} = {n}" for i, n in enumerate(self.shape)] + [f"{s} = {2 * self.mesh[AXES.index(s[1])] - 1}" for s in summed]
        names = [f"d{i}" for i in range(len(self.shape))]
        made = f"sum[{', '.join(summed)}](x)" if summed else "2 * x"

        def owns(deal):
            kind, *rounds = deal.split()
            return f' {{ owns: "{kind}"' + (f", rounds: {rounds[0]}" if rounds else "") + " }"

        def pinned(name, placement, sums):
            deals = self.deals_of(placement)
            rules = [f"d{i} -> {' * '.join(AXES[a] for a in axes) or 'none'}" + (owns(deals[i]) if axes and deals[i] else "") for i, axes in enumerate(placement[:-1])]
            return f"tensor {name} {{ {'; '.join(rules + [f'{s} -> {s[1]}' for s in sums])} }}"

        mesh = ", ".join(f"{AXES[i]}: {n}" for i, n in enumerate(self.mesh))
        return (f"dim {', '.join(sizes)}\nmodel Moved {{\n  input x : {element}[{', '.join(names + summed)}]\n  y = {made}\n  output y\n}}\nmesh m {{ {mesh} }}\n"
                f"layout default on m {{ {pinned('x', self.start, summed)}; {pinned('y', self.to, [])} }}\n")


def placed(text):
    """"a*b, , c" -> ((0, 1), (), (2,), ())"""
    return tuple(tuple(AXES.index(a) for a in dim.strip().split("*") if a) for dim in text.split(",")) + ((),)


# Of each: mesh, shape, placements, bytes that a rank sends.
MISMATCHED = [(Movement(mesh, shape, placed(start), placed(to), name), sent) for name, mesh, shape, start, to, sent in (
    ("swap22", (2, 2), (64, 64), "a, b", "b, a", 4096),
    ("swap44", (4, 4), (64, 64), "a, b", "b, a", 1024),
    ("order44", (4, 4), (64, 64), "a*b, ", "b*a, ", 1024),
    ("replace44", (4, 4), (64, 64), "a, ", "b, ", 4096),
    ("inner44", (4, 4), (64, 64), "a*b, ", "b, ", 4096),
    ("ab_b_a", (4, 4), (64, 64), "a*b, ", "b, a", 1024),
    ("fuse_a2a", (4, 4), (64, 64), "a*b, ", ", a*b", 960),
    ("tc14b", (2, 2, 2), (8, 8, 8), "a, , b*c", "a, b*c, ", 192),
    ("cyc444", (4, 4, 4), (64, 64, 64), "a, b, c", "b, c, a", 16384),
    ("cyc222", (2, 2, 2), (64, 64, 64), "a, b, c", "b, c, a", 131072),
    ("tc11", (2, 2, 2, 2), (8, 8, 8), ", a, b*c*d", "a*b, c, d", 128),
    ("tc16", (2, 2, 2), (8, 8, 8), ", a, ", ", , a*b*c", 128),
    ("outer44", (4, 4), (64, 64), "a*b, ", ", a", 3840),
    ("two_a2a", (4, 4), (64, 64, 64), "a*b, , ", ", a, b", 61440),
    ("gathered", (4,), (64, 64), "a, ", ", ", 12288),
    ("moved", (4,), (64, 64), "a, ", ", a", 3072),
    ("sliced", (4,), (64, 64), ", ", "a, ", 0),
    ("uneven", (4,), (7, 64), "a, ", ", a", 384))]
