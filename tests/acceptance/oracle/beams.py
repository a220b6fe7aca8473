"""Searches for the likeliest texts, in NumPy's place: by beams, and through all."""
import numpy as np


def beam_search(rows, begin, beams, length, penalty, end=None):
    """What a search by beams finds, without ending early: [(tokens, log-likelihood, worth)], the best first. `rows(prefix)` are the log-likelihoods behind it."""
    forced = sum(rows(begin[:i])[token] for i, token in enumerate(begin))
    live, found = [(list(begin), forced)], []
    for step in range(length):
        candidates = []
        for tokens, total in live:
            row = rows(tokens)
            for token, more in enumerate(row):
                if token == end:
                    found.append((tokens, total + more, (total + more) / (len(tokens) + 1) ** penalty))
                else:
                    candidates.append((tokens + [token], total + more))
        live = sorted(candidates, key=lambda one: -one[1])[:beams]
    found += [(tokens, total, total / len(tokens) ** penalty) for tokens, total in live]
    return sorted(found, key=lambda one: -one[2])[:beams]


def exhaustive(rows, begin, length, penalty, beams, end=None):
    """The best of all texts up to a length."""
    forced = sum(rows(begin[:i])[token] for i, token in enumerate(begin))
    found, live = [], [(list(begin), forced)]
    for step in range(length):
        after = []
        for tokens, total in live:
            row = rows(tokens)
            if end is not None:
                found.append((tokens, total + row[end], (total + row[end]) / (len(tokens) + 1) ** penalty))
            after += [(tokens + [token], total + more) for token, more in enumerate(row) if token != end]
        live = after
    found += [(tokens, total, total / len(tokens) ** penalty) for tokens, total in live]
    return sorted(found, key=lambda one: -one[2])[:beams]


def same_beams(found, expected):
    """How far log-likelihoods and worths are apart; infinite where the texts are others."""
    if [one["tokens"] for one in found] != [tokens for tokens, _, _ in expected]:
        return np.inf
    return max(max(abs(one["logprob"] - total), abs(one["worth"] - worth), abs(sum(one["logprobs"]) - total)) for one, (_, total, worth) in zip(found, expected))
