"""What a statement of a random model may use."""


class Scope:
    """Names that may be used: (name, dims, dims along which it really varies); instances of blocks: (name, dims, result's dims, what that varies
    along, loops in it); values of all turns of a loop that has ended: (name, its dim, other dims)."""

    def __init__(self, values, depth=0, block=False):
        self.values, self.depth, self.block, self.lines = list(values), depth, block, []
        self.turns = ()  # dims of the loops around it
        self.loops_made = set()
        self.instances, self.stacks = [], []
        self.starts = []  # values made before a loop for a loop within it alone, to begin from in every turn

    def line(self, text):
        self.lines.append("  " * (self.depth + 1) + text)

    def body(self, dim):
        """The inside of a loop."""
        inside = Scope(self.values, self.depth + 1, self.block)
        inside.turns, inside.loops_made = (*self.turns, dim), self.loops_made
        inside.instances, inside.stacks, inside.starts = list(self.instances), list(self.stacks), list(self.starts)
        return inside
