"""The least that ranks send to bring a tensor from one placement to another, by searching all ways: Dijkstra over placements, with every
collective that a group can make, and with what goes straight to who needs it. What a step sends is counted rank by rank. Knows nothing of how the compiler searches.

A placement is (axes of dim 0, axes of dim 1, ..., axes over which a sum is pending): tuples of axis numbers, the slowest first.
"""
import heapq
import itertools

import numpy as np


class Resharding:
    def __init__(self, mesh, shape):
        self.mesh, self.shape = mesh, shape
        self.coordinates = np.indices(mesh).reshape(len(mesh), -1)  # of every rank, by axis
        self.known = {}

    def size(self, axes):
        return int(np.prod([self.mesh[a] for a in axes], dtype=int))

    def index(self, axes):
        """Of every rank, over these axes."""
        result = np.zeros(self.coordinates.shape[1], int)
        for a in axes:
            result = result * self.mesh[a] + self.coordinates[a]
        return result

    def rows(self, dim, axes):
        """How many rows of a dim every rank owns."""
        key = (dim, axes)
        if key not in self.known:
            parts, at = self.size(axes), self.index(axes)
            self.known[key] = self.shape[dim] * (at + 1) // parts - self.shape[dim] * at // parts
        return self.known[key]

    def held(self, placement, but=()):
        return np.prod([self.rows(d, axes) for d, axes in enumerate(placement[:-1]) if d not in but], axis=0)

    def steps(self, at, keeps):
        """(elements that the rank which sends most sends, placement afterwards); sums over the axes `keeps` stay pending."""
        dims, pending = range(len(self.shape)), at[-1]
        used = set(itertools.chain(*at))

        def with_dim(placement, dim, axes):
            return placement[:dim] + (axes,) + placement[dim + 1:]

        for a in range(len(self.mesh)):  # copies: a slice
            if a not in used:
                for d in dims:
                    yield 0, with_dim(at, d, at[d] + (a,))
        complete = [a for a in pending if a not in keeps]
        for count in range(1, len(complete) + 1):
            for axes in itertools.permutations(complete, count):
                k, done = self.size(axes), at[:-1] + (tuple(a for a in pending if a not in axes),)
                yield 2 * (k - 1) * int(self.held(at).max()) / k, done  # all-reduce
                for d in dims:  # reduce-scatter
                    after = with_dim(done, d, at[d] + axes)
                    yield int((self.held(at) - self.held(after)).max()), after
        for d in dims:
            for kept in range(len(at[d])):
                axes, without = at[d][kept:], with_dim(at, d, at[d][:kept])
                yield (self.size(axes) - 1) * int(self.held(at).max()), without  # all-gather
                for e in dims:  # all-to-all
                    if e != d:
                        after = with_dim(without, e, at[e] + axes)
                        own = self.held(at, (e,)) * (self.rows(e, at[e]) - self.rows(e, after[e]))
                        yield int(own.max()), after
        yield from self.permutes(at)

    def permutes(self, at):
        free = [a for a in range(len(self.mesh)) if a not in at[-1]]
        lists = [axes for count in range(len(free) + 1) for axes in itertools.permutations(free, count)]
        fitting = [[axes for axes in lists if self.size(axes) == self.size(now)] for now in at[:-1]]
        for axes in itertools.product(*fitting):
            if len(set(itertools.chain(*axes))) != sum(map(len, axes)) or axes == at[:-1]:
                continue
            elsewhere = np.zeros(self.coordinates.shape[1], bool)
            for now, then in zip(at[:-1], axes):
                elsewhere |= self.index(now) != self.index(then)
            yield int((self.held(at) * elsewhere).max()), axes + (at[-1],)

    def straight(self, at, to):
        """What is sent where each element goes from its one holder to all that need it; nothing where some have several, as ranks hold copies."""
        has, needs = set(itertools.chain(*at[:-1])), set(itertools.chain(*to[:-1]))
        if at[-1] != to[-1] or not needs <= has:
            return None
        given = np.ones((self.coordinates.shape[1],) * 2, int)  # by holder and who needs
        for d, size in enumerate(self.shape):
            (begin, end), (first, last) = ((size * self.index(axes[d]) // self.size(axes[d]), size * (self.index(axes[d]) + 1) // self.size(axes[d])) for axes in (at, to))
            given *= np.maximum(0, np.minimum(end[:, None], last[None]) - np.maximum(begin[:, None], first[None]))
        for a in range(len(self.mesh)):
            if a not in has:  # each copy, and each term of a sum, moves by itself
                given *= self.coordinates[a][:, None] == self.coordinates[a][None]
        np.fill_diagonal(given, 0)
        return int(given.sum(axis=1).max())

    def least(self, start, to, bound):
        """Elements that the best way sends; nothing above `bound` is looked at."""
        best, queue = {start: 0}, [(0, start)]
        while queue:
            sent, at = heapq.heappop(queue)
            if at == to:
                return sent
            if sent > best[at]:
                continue
            straight = self.straight(at, to)
            ways = itertools.chain(self.steps(at, to[-1]), [] if straight is None else [(straight, to)])
            for more, after in ways:
                if sent + more <= bound and sent + more < best.get(after, float("inf")):
                    best[after] = sent + more
                    heapq.heappush(queue, (sent + more, after))
        return None
