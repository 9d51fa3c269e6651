"""Slow, obvious twins of what training/ computes fast."""

from __future__ import annotations

from collections.abc import Sequence


def rcc(x: Sequence[float], y: Sequence[float]) -> float:
    """Share of the pairs in the same order, pair by pair."""
    concordant = pairs = 0
    for i in range(len(x)):
        for j in range(i):
            pairs += 1
            if (x[i] >= x[j] and y[i] >= y[j]) or (x[i] < x[j] and y[i] < y[j]):
                concordant += 1
    return concordant / pairs
