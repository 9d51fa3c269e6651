"""Choice of the terms to combine, where no points differ in one parameter only.

If points differ in all parameters, the values say little about one parameter, because a product
with another hides its exponent. So each parameter's terms are judged together with the best term of
every other parameter, one parameter after the other.
"""

# p = call paths, n = points, q = parameters, t = terms

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ._blocks import Searched, all_scores
from .noise import scale_of

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# Largest number of rounds over all parameters; two or three are nearly always enough.
_ROUNDS = 10


def rescreen(searched: Searched, first: Sequence[Index], keep: int) -> list[Index]:
    """Return the most promising terms of each parameter for every call path.

    Parameters
    ----------
    searched : Searched
    first : sequence of array of int, each shape (p or 1, 1)
        The term of each parameter to begin with.
    keep : int

    Returns
    -------
    list of array of int, each shape (p, keep)
        Row numbers of the terms, in growing order; all of them if a parameter has no more.
    """
    # All errors count as equal, so that the same terms are chosen when the noise is known better.
    target = searched.target
    unknown = np.zeros(len(target), dtype=bool)
    searched = replace(searched, error=scale_of(np.abs(target)), known=unknown)
    best = list(first)
    kept: list[Index] = [np.empty(0, dtype=np.intp)] * len(best)
    for _ in range(_ROUNDS):
        before = [terms.copy() for terms in best]
        for q in range(len(best)):
            score = _given_others(searched, best, q)
            best[q] = score.argmax(axis=1)[:, None]
            most = min(keep, score.shape[1])
            kept[q] = np.sort(np.argpartition(-score, most - 1, axis=1)[:, :most], axis=1)
        if all(map(np.array_equal, best, before)):
            break
    return kept


def _given_others(searched: Searched, best: Sequence[Index], parameter: int) -> Array:
    """Return the log evidence of each term of a parameter in its best structure; shape (p, t)."""
    everything = np.arange(len(searched.terms[parameter]))[None]
    picks = [everything if q == parameter else terms for q, terms in enumerate(best)]
    scores = all_scores(searched, picks)
    result = np.full((len(searched.target), everything.size), -np.inf)
    start = 0
    for block in scores.blocks:
        if parameter in block.active:
            # Only this parameter has several terms, so they are the hypotheses of the block.
            np.maximum(result, scores.score[:, start : start + block.size], out=result)
        start += block.size
    return result
