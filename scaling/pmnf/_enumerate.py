"""All hypotheses of a batch of call paths, each with its approximate evidence."""

# p = call paths, n = points, h = hypotheses, k = columns, q = parameters, t = terms

from __future__ import annotations

from collections.abc import Sequence
from math import lgamma, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._blocks import Block, Searched, all_scores, is_grid
from ._evidence import against_sign, log_fit
from ._pairs import fit_pairs
from ._rescreen import rescreen
from ._screen import lines, screen
from .structures import second_term_prior

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# Largest number of combinations of terms that is searched for each structure.
_COMBINATIONS = 216
# The same where the largest values of all parameters were not measured together: each parameter by
# itself is then less certain.
_COMBINATIONS_SPARSE = 20_000
# Pairs of terms times call paths held at a time, few enough for the cache.
_PAIRS_AT_ONCE = 40_000


class Sweep(NamedTuple):
    """Approximate log evidence of every hypothesis; only the best pairs of terms are kept."""

    score: Array  # (p, h)
    number: Index  # (p, h): counted through all blocks
    # (p, columns): least residual with at most so many columns, counted from 1; with coefficients
    # that may not be negative, it includes the cost of setting negative ones to zero.
    least: Array
    blocks: list[Block]
    picks: list[Index]  # for each parameter (p, t_l): the terms searched


def sweep_all(searched: Searched, enough: Array | None = None, best_pairs: int = 32) -> Sweep:
    """Approximate evidence of all hypotheses.

    Parameters
    ----------
    searched : Searched
    enough : array, shape (p,), optional
        A one-parameter model with a residual below this needs no second term. None: never try one.
    best_pairs : int
        Pairs of terms kept for each call path.
    """
    terms, log_prior, target = searched.terms, searched.log_prior, searched.target
    error, known = searched.error, searched.known
    n_points, n_parameters = len(searched.points), len(terms)
    picks = _picked(searched)
    score, least, blocks = all_scores(searched, picks)
    size = score.shape[1]
    number = np.broadcast_to(np.arange(size), score.shape)
    if n_parameters == 1 and len(terms[0]) > 1 and enough is not None and n_points > 3:
        wanting = np.flatnonzero(least.min(axis=1) > enough)
        block = _block_of_pairs(len(terms[0]))
        keep = min(best_pairs, block.size)
        more = np.full((keep, len(target)), -np.inf).T
        which = np.full((len(target), keep), size)
        for rows in np.array_split(
            wanting, max(1, -(-wanting.size * block.size // _PAIRS_AT_ONCE))
        ):
            pairs = fit_pairs(
                terms[0], log_prior[0], error[rows] ** -2.0, target[rows], known[rows]
            )
            value = pairs.base + log_fit(pairs.residual, 3, n_points, known[rows])
            if searched.non_negative:
                value -= against_sign(pairs.against, pairs.residual, 3, n_points, known[rows])
            best = np.argpartition(-value, keep - 1, axis=1)[:, :keep]
            more[rows] = np.take_along_axis(value, best, axis=1) + block.log_prior + log(2)
            which[rows] = size + best
            if rows.size:
                free = not searched.non_negative
                misfit = pairs.residual if free else pairs.residual + pairs.against
                least[rows, 2] = np.minimum(least[rows, 2], misfit.min(axis=1))
        blocks.append(block)
        score = np.concatenate([score, more], axis=1)
        number = np.concatenate([number, which], axis=1)
    picks = [
        pick if len(pick) == len(target) else np.broadcast_to(pick, (len(target), pick.shape[1]))
        for pick in picks
    ]
    return Sweep(score, number, np.minimum.accumulate(least, axis=1), blocks, picks)


def _picked(searched: Searched) -> list[Index]:
    """Return the numbers of the terms of each parameter to combine, each of shape (p or 1, t_l)."""
    parameters = range(len(searched.terms))
    keep = _terms_kept(searched.points, searched.terms)
    fits = all(len(own) <= keep for own in searched.terms)
    if fits or all(lines(searched.points, q) for q in parameters):
        return [_screened(searched, q, keep) for q in parameters]
    return rescreen(searched, [_screened(searched, q, 1) for q in parameters], keep)


def _screened(searched: Searched, q: int, keep: int) -> Index:
    """Return the numbers of the most promising terms of a parameter, judged by itself."""
    own = searched.terms[q]
    if len(own) <= keep:
        return np.arange(len(own))[None]
    return screen(
        searched.points,
        q,
        own,
        searched.log_prior[q],
        searched.error**-2.0,
        searched.target,
        searched.known,
        keep,
    )


def _block_of_pairs(n_terms: int) -> Block:
    n_pairs = n_terms * (n_terms - 1) // 2
    return Block(((), (0,), (0,)), (0,), (n_pairs,), log(second_term_prior()) + lgamma(3), True)


def largest_block(points: Array, terms: Sequence[Array]) -> int:
    """Return the number of hypotheses of the largest structure, for a call path."""
    keep = _terms_kept(points, terms)
    return int(np.prod([min(keep, len(t)) for t in terms]))


def _terms_kept(points: Array, terms: Sequence[Array]) -> int:
    """Return how many terms of each parameter are combined."""
    if len(terms) == 1:
        return len(terms[0])
    most = _COMBINATIONS if is_grid(points) else _COMBINATIONS_SPARSE
    return max(4, int(most ** (1.0 / len(terms)) + 1e-9))
