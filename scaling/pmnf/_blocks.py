"""Evidence of every hypothesis whose terms are given, from shared moments."""

# p = call paths, n = points, h = hypotheses, q = parameters, t = terms

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lgamma, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._evidence import against_sign, log_fit
from ._sweep import Moments, normal_equations, solve
from .structures import structures

Array = NDArray[np.float64]
Index = NDArray[np.intp]


@dataclass(frozen=True)
class Block:
    """The hypotheses of one structure; `shape` counts the terms tried for each active parameter."""

    columns: tuple[tuple[int, ...], ...]
    active: tuple[int, ...]
    shape: tuple[int, ...]
    log_prior: float
    pairs: bool = False

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=int))


@dataclass(frozen=True)
class Searched:
    """Points, terms and targets of a search.

    Attributes
    ----------
    points : array, shape (n, l)
    terms : sequence of array, each shape (t_l, n)
        Scaled to a largest value of 1.
    log_prior : sequence of array, each shape (t_l,)
    target, error : array, shape (p, n)
        Where `known` is false, `error` is only proportional to the error of the points.
    known : array of bool, shape (p,)
    non_negative : bool
        Coefficients below zero count against a hypothesis.
    """

    points: Array
    terms: Sequence[Array]
    log_prior: Sequence[Array]
    target: Array
    error: Array
    known: NDArray[np.bool_]
    non_negative: bool = True


class Scores(NamedTuple):
    """Approximate log evidence of every hypothesis."""

    score: Array  # (p, h): block after block
    least: Array  # (p, columns): least residual with so many columns, counted from 1
    blocks: list[Block]


def all_scores(searched: Searched, picks: Sequence[Index]) -> Scores:
    """Evidence of every structure with every combination of the terms picked.

    Parameters
    ----------
    searched : Searched
    picks : sequence of array of int, each shape (p or 1, t_l)
        Numbers of the terms of each parameter; one row stands for all call paths.
    """
    target, known = searched.target, searched.known
    n_points, n_parameters = len(searched.points), len(searched.terms)
    complete = is_grid(searched.points)
    tried = [own[pick] for own, pick in zip(searched.terms, picks, strict=True)]
    levels = [np.unique(column, return_inverse=True)[1] for column in searched.points.T]
    moments = Moments(tried, searched.error, target, levels if complete else None)
    chosen = [
        s for s in structures(n_parameters) if len(s.columns) < n_points or len(s.columns) == 1
    ]
    blocks = [
        Block(
            s.columns,
            s.active,
            tuple(tried[q].shape[1] for q in s.active),
            log(s.prior) + lgamma(len(s.columns)),
        )
        for s in chosen
    ]
    size = sum(block.size for block in blocks)
    score = np.empty((size, len(target))).T
    least = np.full((len(target), 4), np.inf)
    start = 0
    for block in blocks:
        full = tuple(tried[q].shape[1] if q in block.active else 1 for q in range(n_parameters))
        residual, against, log_root = _fit_block(block, moments, full, complete)
        prior: Array = np.full(1, block.log_prior)
        for q in block.active:
            prior = prior + searched.log_prior[q][picks[q]].T.reshape(_along(q, full))
        residual, against, base = (
            part.reshape(-1, len(target)).T for part in (residual, against, prior - log_root)
        )
        k = len(block.columns)
        value = score[:, start : start + block.size]
        np.add(base, log_fit(residual, k, n_points, known), out=value)
        if searched.non_negative:
            value -= against_sign(against, residual, k, n_points, known)
        misfit = residual + against if searched.non_negative else residual
        least[:, k - 1] = np.minimum(least[:, k - 1], misfit.min(axis=1))
        start += block.size
    return Scores(score, least, blocks)


def _fit_block(
    block: Block, moments: Moments, full: tuple[int, ...], complete: bool
) -> tuple[Array, Array, Array]:
    """Residual, misfit of the sign and log of the determinant's root, each of shape (*full, p).

    Columns of few parameters come first, so that only the last arrays are as large as the block.
    This saves a third of the sweep with three parameters.
    """
    columns = sorted(block.columns, key=len)
    powers = [tuple(int(q in column) for q in range(len(full))) for column in columns]
    gram, right = normal_equations(moments, powers)
    residual, log_root, against = solve(gram, right, moments.squares, open_prior=not complete)
    return residual, against, log_root


def _along(q: int, full: tuple[int, ...]) -> tuple[int, ...]:
    """Shape of an array with axes for the terms of parameter q and for call paths."""
    return (*(n if k == q else 1 for k, n in enumerate(full)), -1)


def is_grid(points: Array) -> bool:
    """Return whether every combination of the parameters' values is exactly one point.

    A combination may have several points where parameters were left out of the search.
    """
    size = np.prod([np.unique(column).size for column in points.T])
    return bool(len(points) == size == len(np.unique(points, axis=0)))
