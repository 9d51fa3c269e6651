"""All hypotheses of a batch of call paths, and what each column of one is made of."""

# p = call paths, n = points, h = hypotheses, k = columns, q = parameters, t = terms

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lgamma, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._screen import screen
from ._sweep import Moments, normal_equations, solve
from .structures import second_term_prior, structures

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# Most combinations of terms searched for each structure.
_COMBINATIONS = 216
# And where the largest values of all parameters were not measured together, so that few points tell
# less of each parameter by itself.
_COMBINATIONS_SPARSE = 4096


@dataclass(frozen=True)
class Block:
    """Hypotheses of one structure: `shape` counts the terms tried for each active parameter."""

    columns: tuple[tuple[int, ...], ...]
    active: tuple[int, ...]
    shape: tuple[int, ...]
    pairs: bool = False

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=int))


class Sweep(NamedTuple):
    """Approximate fit of every hypothesis."""

    residual: Array  # (p, h)
    against: Array  # (p, h)
    base: Array  # (p, h): evidence but for the fit
    log_prior: Array  # (h,): of the structure, and its coefficients
    n_columns: Index  # (h,)
    blocks: list[Block]
    picks: list[Index]  # for each parameter (p, t_l): the terms searched


def sweep_all(
    points: Array,
    terms: Sequence[Array],
    log_prior: Sequence[Array],
    target: Array,
    error: Array,
    known: NDArray[np.bool_],
    enough: Array | None,
) -> Sweep:
    """Approximate residual and evidence of all hypotheses.

    Parameters
    ----------
    points : array, shape (n, l)
    terms : sequence of array, each shape (t_l, n)
        Scaled to a largest value of 1.
    log_prior : sequence of array, each shape (t_l,)
    target, error : array, shape (p, n)
    known : array of bool, shape (p,)
        `error` is the points' own; otherwise it is only proportional to it.
    enough : array, shape (p,), optional
        Residual of a one-parameter model that needs no second term. None: never try one.
    """
    n_paths, n_parameters = len(target), len(terms)
    weight = error**-2.0
    complete = is_grid(points)
    keep = _terms_kept(points, terms)
    picks: list[Index] = []
    tried: list[Array] = []
    for q in range(n_parameters):
        n_terms = terms[q].shape[0]
        if n_terms <= keep:
            picks.append(np.broadcast_to(np.arange(n_terms), (n_paths, n_terms)))
            tried.append(terms[q][None])
        else:
            best = screen(points, q, terms[q], log_prior[q], weight, target, known, keep)
            picks.append(best)
            tried.append(terms[q][best])
    moments = Moments(tried, error, target)
    blocks: list[Block] = []
    parts: list[tuple[Array, Array, Array]] = []
    structure_prior: list[Array] = []
    for structure in structures(n_parameters):
        columns = structure.columns
        if len(columns) >= len(points) and len(columns) > 1:
            continue
        powers = [tuple(int(q in column) for q in range(n_parameters)) for column in columns]
        gram, right = normal_equations(moments, powers)
        solved = solve(gram, right, moments.squares.reshape((-1,) + (1,) * n_parameters))
        shape = tuple(tried[q].shape[1] for q in structure.active)
        block = Block(columns, structure.active, shape)
        base = -0.5 * solved[1]
        if not complete:
            for power in powers:
                if sum(power) > 1:
                    base = base + moments.log_peak(power)
        for q in structure.active:
            axis = [1] * (1 + n_parameters)
            axis[0], axis[1 + q] = n_paths, -1
            base = base + log_prior[q][picks[q]].reshape(axis)
        blocks.append(block)
        full = (
            n_paths,
            *(tried[q].shape[1] if q in structure.active else 1 for q in range(n_parameters)),
        )
        parts.append(
            tuple(  # type: ignore[arg-type]
                np.broadcast_to(a, full).reshape(n_paths, block.size)
                for a in (solved[0], solved[2], base)
            )
        )
        structure_prior.append(np.full(block.size, log(structure.prior) + lgamma(len(columns))))
    if n_parameters == 1 and enough is not None and len(points) > 3:
        simple = np.min([part[0].min(axis=1) for part in parts], axis=0)
        wanting = np.flatnonzero(simple > enough)
        block, found = _pairs(terms[0], log_prior[0], weight[wanting], target[wanting])
        if wanting.size < n_paths:
            whole = [np.full((n_paths, block.size), fill) for fill in (np.inf, 0.0, -np.inf)]
            for array, some in zip(whole, found, strict=True):
                array[wanting] = some
            found = (whole[0], whole[1], whole[2])
        blocks.append(block)
        parts.append(found)
        structure_prior.append(np.full(block.size, log(second_term_prior()) + lgamma(3)))
    residual, against, base = (np.concatenate([p[i] for p in parts], axis=1) for i in range(3))
    prior = np.concatenate(structure_prior)
    n_columns = np.concatenate([np.full(b.size, len(b.columns)) for b in blocks])
    return Sweep(residual, against, base + prior, prior, n_columns, blocks, picks)


def is_grid(points: Array) -> bool:
    """Every combination of the parameters' values was measured."""
    distinct = [np.unique(column).size for column in points.T]
    return len(np.unique(points, axis=0)) == np.prod(distinct)


def largest_block(points: Array, terms: Sequence[Array]) -> int:
    """Most hypotheses of one structure, for a call path."""
    if len(terms) == 1:
        return max(256, len(terms[0]) ** 2 // 2)
    keep = _terms_kept(points, terms)
    return int(np.prod([min(keep, len(t)) for t in terms]))


def _terms_kept(points: Array, terms: Sequence[Array]) -> int:
    """How many terms of each parameter are combined."""
    if len(terms) == 1:
        return len(terms[0])
    most = _COMBINATIONS if is_grid(points) else _COMBINATIONS_SPARSE
    return max(4, int(most ** (1.0 / len(terms)) + 1e-9))


def _pairs(
    terms: Array, log_prior: Array, weight: Array, target: Array
) -> tuple[Block, tuple[Array, Array, Array]]:
    """A constant and two different terms of the one parameter.

    With the constant projected out, all that is left of a pair is its correlation.
    """
    first, second = np.triu_indices(len(terms), 1)
    total = weight.sum(axis=1, keepdims=True)
    one, two = weight @ terms.T, weight @ (terms * terms).T
    level = (weight * target).sum(axis=1, keepdims=True) / total
    above = target - level
    norm = np.sqrt(np.maximum(two - one**2 / total, 1e-300))
    slope = (weight * above) @ terms.T / norm
    mean = one / np.sqrt(total) / norm
    prior = log_prior - np.log(norm)
    norm_a, slope_a, mean_a, prior_a = (v.take(first, axis=1) for v in (norm, slope, mean, prior))
    norm_b, slope_b, mean_b, prior_b = (v.take(second, axis=1) for v in (norm, slope, mean, prior))
    correlation = (weight @ (terms[first] * terms[second]).T) / (norm_a * norm_b)
    correlation -= mean_a * mean_b
    rest = np.maximum(1.0 - correlation * correlation, 1e-12)
    only_a = slope_a - correlation * slope_b
    only_b = slope_b - correlation * slope_a
    explained = (slope_a * only_a + slope_b * only_b) / rest
    # The constant, in units of its error were the terms' coefficients known.
    constant = level * np.sqrt(total) - (only_a * mean_a + only_b * mean_b) / rest
    against = (np.minimum(only_a, 0.0) ** 2 + np.minimum(only_b, 0.0) ** 2) / rest
    against += np.minimum(constant, 0.0) ** 2 / (1.0 + mean_a * mean_a + mean_b * mean_b)
    unexplained = (weight * above**2).sum(axis=1, keepdims=True)
    residual = np.maximum(unexplained - explained, 0.0)
    base = prior_a + prior_b - 0.5 * np.log(rest * total) + log(2)
    block = Block(((), (0,), (0,)), (0,), (first.size,), pairs=True)
    return block, (residual, against, base)


class Kept(NamedTuple):
    """What the hypotheses kept are made of."""

    terms: Index  # (p, h, k, q)
    used: NDArray[np.bool_]  # (p, h, k)
    log_prior: Array  # (p, h)


def decode(chosen: Index, sweep: Sweep, log_prior: Sequence[Array]) -> Kept:
    """Terms of each column, and the whole prior, of the hypotheses chosen."""
    width = max(len(b.columns) for b in sweep.blocks)
    code = np.zeros((*chosen.shape, width, len(log_prior)), dtype=np.intp)
    used = np.zeros((*chosen.shape, width), dtype=bool)
    prior = sweep.log_prior[chosen]
    starts = np.cumsum([0, *(b.size for b in sweep.blocks)])
    for block, start, stop in zip(sweep.blocks, starts[:-1], starts[1:], strict=True):
        path, place = np.nonzero((chosen >= start) & (chosen < stop))
        if not path.size:
            continue
        number = chosen[path, place] - start
        used[path, place, : len(block.columns)] = True
        if block.pairs:
            both = np.stack(np.triu_indices(len(log_prior[0]), 1))[:, number]
            code[path, place, 1:3, 0] = both.T + 1
            prior[path, place] += log_prior[0][both].sum(axis=0) + log(2)
            continue
        for q, position in zip(
            block.active, np.unravel_index(number, block.shape) if block.active else (), strict=True
        ):
            term = sweep.picks[q][path, position]
            prior[path, place] += log_prior[q][term]
            for k, column in enumerate(block.columns):
                if q in column:
                    code[path, place, k, q] = term + 1
    return Kept(code, used, prior)
