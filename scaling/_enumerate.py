"""All hypotheses of a batch of call paths, each with its approximate evidence."""

# p = call paths, n = points, h = hypotheses, k = columns, q = parameters, t = terms

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lgamma, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._evidence import against_sign, log_fit
from ._pairs import fit_pairs
from ._screen import screen
from ._sweep import Moments, normal_equations, solve
from .structures import second_term_prior, structures

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# Most combinations of terms searched for each structure.
_COMBINATIONS = 216
# And where the largest values of all parameters were not measured together, so that few points tell
# less of each parameter by itself.
_COMBINATIONS_SPARSE = 20_000
# Pairs of terms times call paths held at a time, few enough for the cache.
_PAIRS_AT_ONCE = 40_000


@dataclass(frozen=True)
class Block:
    """Hypotheses of one structure: `shape` counts the terms tried for each active parameter."""

    columns: tuple[tuple[int, ...], ...]
    active: tuple[int, ...]
    shape: tuple[int, ...]
    log_prior: float
    pairs: bool = False

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=int))


class Sweep(NamedTuple):
    """Approximate log evidence of every hypothesis, but of pairs of terms only the best."""

    score: Array  # (p, h)
    number: Index  # (p, h): counted through all blocks
    # (p, columns): least residual with so many columns at most, counted from 1; with coefficients
    # that may not be negative, what it costs to take those that are to zero is in it.
    least: Array
    blocks: list[Block]
    picks: list[Index]  # for each parameter (p, t_l): the terms searched


def sweep_all(
    points: Array,
    terms: Sequence[Array],
    log_prior: Sequence[Array],
    target: Array,
    error: Array,
    known: NDArray[np.bool_],
    non_negative: bool = True,
    enough: Array | None = None,
    best_pairs: int = 32,
) -> Sweep:
    """Approximate evidence of all hypotheses.

    Parameters
    ----------
    points : array, shape (n, l)
    terms : sequence of array, each shape (t_l, n)
        Scaled to a largest value of 1.
    log_prior : sequence of array, each shape (t_l,)
    target, error : array, shape (p, n)
    known : array of bool, shape (p,)
        `error` is the points' own; otherwise it is only proportional to it.
    non_negative : bool
        Coefficients below zero count against a hypothesis.
    enough : array, shape (p,), optional
        Residual of a one-parameter model that needs no second term. None: never try one.
    best_pairs : int
        Pairs of terms kept for each call path.
    """
    n_points, n_parameters = len(points), len(terms)
    weight = error**-2.0
    complete = is_grid(points)
    picks, tried = _terms_tried(points, terms, log_prior, weight, target, known)
    levels = [np.unique(column, return_inverse=True)[1] for column in points.T]
    moments = Moments(tried, error, target, levels if complete else None)
    chosen = [
        s for s in structures(n_parameters) if len(s.columns) < n_points or len(s.columns) == 1
    ]
    blocks = [
        Block(
            s.columns, s.active, tuple(tried[q].shape[1] for q in s.active),
            log(s.prior) + lgamma(len(s.columns)),
        )
        for s in chosen
    ]  # fmt: skip
    size = sum(block.size for block in blocks)
    score = np.empty((size, len(target))).T
    least = np.full((len(target), 4), np.inf)
    start = 0
    for block in blocks:
        full = tuple(tried[q].shape[1] if q in block.active else 1 for q in range(n_parameters))
        residual, against, log_root = _fit_block(block, moments, full, complete)
        prior: Array = np.full(1, block.log_prior)
        for q in block.active:
            prior = prior + log_prior[q][picks[q]].T.reshape(_along(q, full))
        residual, against, base = (
            np.broadcast_to(part, (*full, len(target))).reshape(-1, len(target)).T
            for part in (residual, against, prior - log_root)
        )
        k = len(block.columns)
        value = score[:, start : start + block.size]
        np.add(base, log_fit(residual, k, n_points, known), out=value)
        if non_negative:
            value -= against_sign(against, residual, k, n_points, known)
        misfit = residual + against if non_negative else residual
        least[:, k - 1] = np.minimum(least[:, k - 1], misfit.min(axis=1))
        start += block.size
    number = np.broadcast_to(np.arange(size), score.shape)
    if n_parameters == 1 and len(terms[0]) > 1 and enough is not None and n_points > 3:
        wanting = np.flatnonzero(least.min(axis=1) > enough)
        block = _block_of_pairs(len(terms[0]))
        keep = min(best_pairs, block.size)
        more = np.full((len(target), keep), -np.inf)
        which = np.full((len(target), keep), size)
        for rows in np.array_split(
            wanting, max(1, -(-wanting.size * block.size // _PAIRS_AT_ONCE))
        ):
            pairs = fit_pairs(terms[0], log_prior[0], weight[rows], target[rows], known[rows])
            value = pairs.base + log_fit(pairs.residual, 3, n_points, known[rows])
            if non_negative:
                value -= against_sign(pairs.against, pairs.residual, 3, n_points, known[rows])
            best = np.argpartition(-value, keep - 1, axis=1)[:, :keep]
            more[rows] = np.take_along_axis(value, best, axis=1) + block.log_prior + log(2)
            which[rows] = size + best
            if rows.size:
                misfit = pairs.residual + pairs.against if non_negative else pairs.residual
                least[rows, 2] = np.minimum(least[rows, 2], misfit.min(axis=1))
        blocks.append(block)
        score = np.concatenate([score, more], axis=1)
        number = np.concatenate([number, which], axis=1)
    return Sweep(score, number, np.minimum.accumulate(least, axis=1), blocks, picks)


def _terms_tried(
    points: Array,
    terms: Sequence[Array],
    log_prior: Sequence[Array],
    weight: Array,
    target: Array,
    known: NDArray[np.bool_],
) -> tuple[list[Index], list[Array]]:
    """Numbers and values of the terms of each parameter that are combined."""
    keep = _terms_kept(points, terms)
    picks: list[Index] = []
    tried: list[Array] = []
    for q, own in enumerate(terms):
        if len(own) <= keep:
            picks.append(np.broadcast_to(np.arange(len(own)), (len(target), len(own))))
            tried.append(own[None])
        else:
            best = screen(points, q, own, log_prior[q], weight, target, known, keep)
            picks.append(best)
            tried.append(own[best])
    return picks, tried


def _fit_block(
    block: Block, moments: Moments, full: tuple[int, ...], complete: bool
) -> tuple[Array, Array, Array]:
    """Residual, misfit of the sign and log of the determinant's root, broadcastable to (*full, p).

    Columns of few parameters come first: what they share is small, and only the last are as large
    as the block. Profiled on three parameters, that takes a third off the sweep.
    """
    columns = sorted(block.columns, key=len)
    powers = [tuple(int(q in column) for q in range(len(full))) for column in columns]
    gram, right = normal_equations(moments, powers)
    residual, log_root, against = solve(gram, right, moments.squares, open_prior=not complete)
    return residual, against, log_root


def _along(q: int, full: tuple[int, ...]) -> tuple[int, ...]:
    """Shape of an array with axes for the terms of parameter q and for call paths."""
    return (*(n if k == q else 1 for k, n in enumerate(full)), -1)


def _block_of_pairs(n_terms: int) -> Block:
    n_pairs = n_terms * (n_terms - 1) // 2
    return Block(((), (0,), (0,)), (0,), (n_pairs,), log(second_term_prior()) + lgamma(3), True)


def is_grid(points: Array) -> bool:
    """Every combination of the parameters' values was measured, and is one point.

    Where parameters were left out of the search, several points may be of one combination.
    """
    size = np.prod([np.unique(column).size for column in points.T])
    return bool(len(points) == size == len(np.unique(points, axis=0)))


def largest_block(points: Array, terms: Sequence[Array]) -> int:
    """Most hypotheses of one structure, for a call path."""
    keep = _terms_kept(points, terms)
    return int(np.prod([min(keep, len(t)) for t in terms]))


def _terms_kept(points: Array, terms: Sequence[Array]) -> int:
    """How many terms of each parameter are combined."""
    if len(terms) == 1:
        return len(terms[0])
    most = _COMBINATIONS if is_grid(points) else _COMBINATIONS_SPARSE
    return max(4, int(most ** (1.0 / len(terms)) + 1e-9))
