"""Approximate evidence of every hypothesis, for many call paths at once.

A hypothesis is a sum of columns. A column is a product of terms of different parameters. Each entry
of the normal equations adds up weights times powers of terms over all points. One matrix product
computes an entry for all exponents and call paths.
"""

# p = call paths, n = points, h = hypotheses, k = columns, q = parameters, t = terms

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import ceil, lgamma, log, pi, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast.typing import Bools, Floats

from .noise import estimate_scale
from .terms import SECOND_TERM, Structure, list_structures

Index = NDArray[np.intp]
Powers = tuple[int, ...]

# Prior for the relative error of points without repetitions, and its weight as a number of
# observations.
EXPECTED_ERROR = 0.01
_PRIOR_WEIGHT = 1.0
# Maximum number of combinations of terms for each structure on a complete grid.
_COMBINATIONS = 216
# Terms to combine per parameter if the points are not a complete grid, by number of parameters.
# There are more than on a grid, because it is less certain which terms are best.
_TERMS_SPARSE = {2: 49, 3: 13, 4: 5}
# Arrays of this size fit in the processor's cache.
_MAX_ELEMENTS = 40_000
# The minimum pivot, relative to the diagonal, prevents singular normal equations; the minimum
# residual prevents logarithms of 0.
_MIN_PIVOT = 1e-15
_MIN_RESIDUAL = 1e-13
# Minimum sum of coefficients, relative to the largest measured value.
_MIN_TOTAL = 1e-6
# Maximum number of rounds over all parameters, for scattered points.
_ROUNDS = 10


@dataclass(frozen=True)
class Problem:
    """Call paths measured at the same points, and the terms to search."""

    points: Floats  # (n, q)
    terms: Sequence[Floats]  # (t_q, n) for each parameter, with a maximum of 1
    log_prior: Sequence[Floats]  # (t_q,) for each parameter
    target: Floats  # (p, n)
    error: Floats  # (p, n): standard errors; relative to each other where `known` is false
    known: Bools  # (p,): whether the scale of the errors is known
    penalty: Floats  # (p,): log evidence that a negative coefficient costs; logarithms cost none

    def take(self, rows: Index | slice) -> Problem:
        """Return the problem for some of the call paths."""
        names = ("target", "error", "known", "penalty")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})


class StructureBlock(NamedTuple):
    """The hypotheses of one structure."""

    structure: Structure
    shape: tuple[int, ...]  # number of terms of each active parameter
    pairs: bool = False  # whether each hypothesis has two terms of the same parameter

    @property
    def size(self) -> int:
        """Number of hypotheses."""
        return int(np.prod(self.shape, dtype=int))

    @property
    def log_prior(self) -> float:
        """Log prior without the exponents' prior, plus the log of the number of column orders."""
        prior = log(self.structure.prior) + lgamma(len(self.structure.columns))
        return prior + log(2) * self.pairs


class HypothesisScores(NamedTuple):
    """Approximate log evidence of all hypotheses with single terms, and of the best pairs."""

    score: Floats  # (p, h)
    number: Index  # (p, h): index of the hypothesis in the concatenated blocks
    min_residual: Floats  # (p, k): minimum residual with at most 1, 2, ... columns
    blocks: list[StructureBlock]
    picks: list[Index]  # (p, t_q) for each parameter: indices of the searched terms


class DecodedHypotheses(NamedTuple):
    """Terms and priors of hypotheses."""

    terms: Index  # (p, h, k, q): index of each parameter's term plus 1; 0 without a term
    used: Bools  # (p, h, k): whether the column exists
    log_prior: Floats  # (p, h)


def score_hypotheses(
    problem: Problem, max_single_residual: Floats | None, max_pairs: int
) -> HypothesisScores:
    """Approximate the evidence of all hypotheses.

    Pairs of terms are searched for call paths whose residuals with single terms all exceed
    `max_single_residual`; if this is None, they are not searched.
    """
    target, known, terms = problem.target, problem.known, problem.terms
    picks = _pick_terms(problem)
    score, min_positive, min_residual, blocks = _score_all(problem, picks)
    size = score.shape[1]
    number = np.broadcast_to(np.arange(size), score.shape)
    can_have_pairs = len(terms) == 1 and len(terms[0]) > 1 and len(problem.points) > 3
    if can_have_pairs and max_single_residual is not None:
        n_pairs = len(terms[0]) * (len(terms[0]) - 1) // 2
        # The columns are a constant and two terms of the same parameter.
        two_terms = Structure(columns=((), (0,), (0,)), prior=SECOND_TERM)
        pairs = StructureBlock(two_terms, shape=(n_pairs,), pairs=True)
        keep = min(max_pairs, n_pairs)
        pair_score = np.full((keep, len(target)), -np.inf).T
        pair_number = np.full((len(target), keep), size)
        paths = np.flatnonzero(min_positive > max_single_residual)
        n_parts = max(1, ceil(paths.size * n_pairs / _MAX_ELEMENTS))
        for rows in np.array_split(paths, n_parts):
            residual, negative, log_volume = _fit_pairs(problem.take(rows))
            fit = log_fit(residual, n_columns=3, n=target.shape[1], known=known[rows])
            value = log_volume + fit - problem.penalty[rows, None] * negative
            best = np.argpartition(-value, keep - 1, axis=1)[:, :keep]
            pair_score[rows] = np.take_along_axis(value, best, axis=1) + pairs.log_prior
            pair_number[rows] = size + best
            if rows.size:
                min_residual[rows, 2] = np.minimum(min_residual[rows, 2], residual.min(axis=1))
        blocks.append(pairs)
        score = np.concatenate([score, pair_score], axis=1)
        number = np.concatenate([number, pair_number], axis=1)
    picks = [np.repeat(pick, len(target) // len(pick), axis=0) for pick in picks]
    return HypothesisScores(
        score, number, np.minimum.accumulate(min_residual, axis=1), blocks, picks
    )


def replace_rows(scores: HypothesisScores, new_scores: HypothesisScores, rows: Bools) -> None:
    """Replace the scores of some call paths in place."""
    old_arrays = scores.score, scores.number, scores.min_residual, *scores.picks
    new_arrays = new_scores.score, new_scores.number, new_scores.min_residual, *new_scores.picks
    for old, new in zip(old_arrays, new_arrays, strict=True):
        # Read-only arrays are shared by all call paths, and equal in both results.
        if old.flags.writeable:
            old[rows] = new


def select_best(scores: HypothesisScores, keep: int) -> Index:
    """Return the columns of the `keep` largest scores of each row, in increasing order."""
    return np.sort(np.argpartition(scores.score, -keep, axis=1)[:, -keep:], axis=1)


def decode_hypotheses(
    scores: HypothesisScores, selected: Index, log_prior: Sequence[Floats]
) -> DecodedHypotheses:
    """Return the terms and priors of hypotheses, given the columns that have their scores, (p, h).

    The index of a hypothesis in its block gives the index of each parameter's term.
    """
    numbers = np.take_along_axis(scores.number, selected, axis=1)
    width = max(len(block.structure.columns) for block in scores.blocks)
    term_numbers = short_axes_last(np.zeros((width, len(log_prior), *numbers.shape), dtype=np.intp))
    used = short_axes_last(np.zeros((width, *numbers.shape), dtype=bool))
    prior = np.zeros(numbers.shape)
    starts = np.cumsum([0, *(block.size for block in scores.blocks)])
    block_of = np.searchsorted(starts, numbers, side="right") - 1
    for number_of_block in np.unique(block_of):
        block, start = scores.blocks[number_of_block], starts[number_of_block]
        path, row = np.nonzero(block_of == number_of_block)
        number = numbers[path, row] - start
        columns, active = block.structure.columns, block.structure.active
        used[path, row, : len(columns)] = True
        prior[path, row] = block.log_prior
        if block.pairs:
            both = _list_pairs(len(log_prior[0]))[:, number]
            term_numbers[path, row, 1:3, 0] = both.T + 1
            prior[path, row] += log_prior[0][both].sum(axis=0)
            continue
        positions = np.unravel_index(number, block.shape) if active else ()
        for q, position in zip(active, positions, strict=True):
            term = scores.picks[q][path, position]
            prior[path, row] += log_prior[q][term]
            for k, column in enumerate(columns):
                if q in column:
                    term_numbers[path, row, k, q] = term + 1
    return DecodedHypotheses(term_numbers, used, prior)


def short_axes_last(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view (p, h, ...) of an array (..., p, h).

    The long axes p and h stay last in memory, because inner loops over short axes are slow.
    """
    return np.moveaxis(array, (-2, -1), (0, 1))


def log_fit(residual: Floats, n_columns: Index | int, n: int, known: Bools) -> Floats:
    """Return the log of the maximum likelihood times (2 pi)^(n_columns / 2).

    The factor is part of Laplace's approximation of the evidence. The noise is normal where the
    scale of the errors is known. Otherwise the scale is integrated out, which gives Student's t
    distribution. `residual` is the weighted sum of squares at n points, (p, h).
    """
    fit = -0.5 * residual
    unknown = np.flatnonzero(~known)
    if unknown.size:
        columns = np.broadcast_to(np.asarray(n_columns), residual.shape)[unknown]
        df = np.maximum(n - columns, 0)
        log_gamma = np.array([lgamma((k + _PRIOR_WEIGHT) / 2) for k in range(n + 1)])[df]
        scale = (residual[unknown] + _PRIOR_WEIGHT * EXPECTED_ERROR**2) / 2
        fit[unknown] = log_gamma - (df + _PRIOR_WEIGHT) / 2 * np.log(scale)
    return np.asarray(fit + 0.5 * log(2 * pi) * np.asarray(n_columns, dtype=float))


def max_residual(n: int) -> float:
    """Return the largest weighted residual that the errors of n points can explain."""
    # Five standard deviations above the mean of a chi-square variable, and more for few points.
    return n + 5.0 * sqrt(2.0 * n) + 5.0


def count_combinations(points: Floats, counts: Sequence[int]) -> int:
    """Return the number of hypotheses for the structure that contains all parameters."""
    keep = _count_kept_terms(points, counts)
    return int(np.prod([min(keep, count) for count in counts]))


def find_lines(points: Floats, parameter: int) -> list[Index]:
    """Return groups of three or more points that differ only in this parameter."""
    others = np.delete(points, parameter, axis=1)
    order = np.lexsort(others.T[::-1])
    parts = np.split(order, np.flatnonzero(np.diff(others[order], axis=0).any(axis=1)) + 1)
    return [part for part in parts if part.size >= 3]


def _score_all(
    problem: Problem, picks: Sequence[Index]
) -> tuple[Floats, Floats, Floats, list[StructureBlock]]:
    """Score every structure with every combination of the picked terms.

    Also returns the minimum residual of hypotheses without negative coefficients, (p,), and the
    minimum residual for each number of columns, (p, 4).
    """
    target, known = problem.target, problem.known
    n_points, n_parameters = len(problem.points), len(problem.terms)
    terms = [values[pick] for values, pick in zip(problem.terms, picks, strict=True)]
    complete = is_grid(problem.points)
    levels = [np.unique(column, return_inverse=True)[1] for column in problem.points.T]
    moments = _Moments(terms, problem.error, target, levels if complete else None)
    blocks = [
        StructureBlock(s, tuple(terms[q].shape[1] for q in s.active))
        for s in list_structures(n_parameters)
        if len(s.columns) < n_points or len(s.columns) == 1
    ]
    score = np.empty((sum(block.size for block in blocks), len(target))).T
    min_residual, min_positive = np.full((len(target), 4), np.inf), np.full(len(target), np.inf)
    start = 0
    for block in blocks:
        active = block.structure.active
        full = tuple(terms[q].shape[1] if q in active else 1 for q in range(n_parameters))
        # Eliminating columns of few parameters first keeps intermediate arrays small.
        columns = sorted(block.structure.columns, key=len)
        powers = [tuple(int(q in column) for q in range(n_parameters)) for column in columns]
        residual, log_root, negative = _solve(moments, powers, not complete)
        prior: Floats = np.full(1, block.log_prior)
        for q in active:
            shape = (*(n if k == q else 1 for k, n in enumerate(full)), -1)
            prior = prior + problem.log_prior[q][picks[q]].T.reshape(shape)
        residual = residual.reshape(-1, len(target)).T
        negative = negative.reshape(-1, len(target)).T
        log_volume = (prior - log_root).reshape(-1, len(target)).T
        k = len(columns)
        value = score[:, start : start + block.size]
        np.add(log_volume, log_fit(residual, k, n_points, known), out=value)
        positive = np.where(negative, np.inf, residual)
        min_positive = np.minimum(min_positive, positive.min(axis=1))
        min_residual[:, k - 1] = np.minimum(min_residual[:, k - 1], residual.min(axis=1))
        start += block.size
    return score, min_positive, min_residual, blocks


class _Moments:
    """Entries of the normal equations: sums over points of weights, targets and powers of terms.

    On a complete grid, ``levels`` gives the index of each point's value for each parameter, and all
    sums are computed at once. Otherwise each sum is computed when it is needed.
    """

    def __init__(
        self,
        terms: Sequence[Floats],
        error: Floats,
        target: Floats,
        levels: Sequence[NDArray[np.intp]] | None,
    ) -> None:
        self._terms = terms
        weight = error**-2.0
        self._weight = {False: weight, True: weight * target}
        self.squares: Floats = (weight * target**2).sum(axis=1)
        self._known: dict[tuple[Powers, bool], Floats] = {}
        self._grid: dict[bool, Floats] = {}
        if levels is not None and len(terms) > 1:
            self._grid = {
                False: _contract(terms, weight, levels, 2),
                True: _contract(terms, weight * target, levels, 1),
            }

    def sums(self, powers: Powers, with_target: bool) -> Floats:
        """Return the sums of weight (and target) times prod_q term_q^power_q."""
        key = powers, with_target
        if key not in self._known:
            compute = self._slice_grid if self._grid else self._sum_points
            self._known[key] = compute(powers, with_target)
        return self._known[key]

    def _slice_grid(self, powers: Powers, with_target: bool) -> Floats:
        """Return the precomputed sums; the axis of a parameter has t entries for each power."""
        slices: list[slice] = []
        for power, terms in zip(powers, self._terms, strict=True):
            t = terms.shape[1]
            slices.append(slice(0, 1) if power == 0 else slice(1 + (power - 1) * t, 1 + power * t))
        return self._grid[with_target][tuple(slices)]

    def _sum_points(self, powers: Powers, with_target: bool) -> Floats:
        """Multiply all factors but the last, then sum their products with the last over points."""
        n_paths, n_points = self._weight[with_target].shape
        product = self._weight[with_target][:, None, :]
        sizes = [t.shape[1] if power else 1 for t, power in zip(self._terms, powers, strict=True)]
        factors = [t**power for t, power in zip(self._terms, powers, strict=True) if power]
        *others, last = factors or [np.ones((1, 1, n_points))]
        for factor in others:
            product = (product[:, :, None] * factor[:, None]).reshape(n_paths, -1, n_points)
        total: Floats = (product @ np.swapaxes(last, 1, 2)).reshape(n_paths, *sizes)
        return np.ascontiguousarray(np.moveaxis(total, 0, -1))


def _contract(
    terms: Sequence[Floats], weight: Floats, levels: Sequence[NDArray[np.intp]], max_power: int
) -> Floats:
    """Add up, over all points, the weight times a product of powers of terms.

    ``terms`` has an array (call paths, terms, points) for each parameter. The result has an axis
    for each parameter, over the powers 0 to ``max_power`` of its terms. The points are a grid, so
    the sums are computed parameter by parameter.
    """
    shape = [int(level.max()) + 1 for level in levels]
    order = np.argsort(np.ravel_multi_index(tuple(levels), shape))
    total = weight[:, order]
    done = 1
    for q in reversed(range(len(terms))):
        # Points with the same value of a parameter have equal terms.
        value = terms[q][:, :, np.unique(levels[q], return_index=True)[1]]
        powers = [np.ones((len(value), 1, shape[q])), *(value**k for k in range(1, max_power + 1))]
        basis = np.concatenate(powers, axis=1)[:, None]
        total = basis @ total.reshape(len(weight), -1, shape[q], done)
        done *= basis.shape[2]
    sizes = [1 + max_power * t.shape[1] for t in terms]
    return np.ascontiguousarray(np.moveaxis(total.reshape(len(weight), *sizes), 0, -1))


def _solve(
    moments: _Moments, columns: Sequence[Powers], is_scattered: bool
) -> tuple[Floats, Floats, Bools]:
    """Solve the normal equations G c = r of a structure for all combinations of terms.

    Returns the residuals, log sqrt(det G), and whether some coefficient is negative.
    """
    k = len(columns)
    gram = [
        [moments.sums(tuple(np.add(u, v).tolist()), False) for v in columns[: a + 1]]
        for a, u in enumerate(columns)
    ]
    right = [moments.sums(u, True) for u in columns]
    # Decompose G = L D L^T, which needs no square roots in the inner loops. Entries of G have
    # different shapes, so each entry is a separate array that is broadcast over the terms.
    lower: list[list[Floats]] = []
    inverse_pivot: list[Floats] = []
    coefficient: list[Floats] = []
    residual = moments.squares
    log_root: Floats = np.zeros(1)
    for a in range(k):
        pivot, target_left = gram[a][a], right[a]
        scaled_row: list[Floats] = []  # of L D
        row: list[Floats] = []
        for b in range(a):
            value = gram[a][b]
            for c in range(b):
                value = value - scaled_row[c] * lower[b][c]
            scaled_row.append(value)
            row.append(value * inverse_pivot[b])
            pivot = pivot - value * row[b]
            target_left = target_left - value * coefficient[b]
        if a:
            pivot = np.maximum(pivot, _MIN_PIVOT * gram[a][a])
        lower.append(row)
        inverse_pivot.append(1.0 / pivot)
        coefficient.append(target_left * inverse_pivot[a])
        residual = residual - target_left * coefficient[a]
        log_root = log_root + 0.5 * np.log(pivot)
    solution: list[Floats] = []
    negative = np.zeros(1, dtype=bool)
    for a in reversed(range(k)):
        value = coefficient[a]
        for b, known in enumerate(solution):
            value = value - lower[k - 1 - b][a] * known
        solution.append(value)
        negative = negative | (value < 0)
    if is_scattered:
        total = sum((np.abs(value) for value in solution), np.zeros(1))
        log_root = log_root + log_coefficient_range(total, k)
    return np.maximum(residual, 0.0), log_root, negative


def log_coefficient_range(total: Floats, k: int | Index) -> Floats:
    """Return the logarithm of the prior range of k coefficients, for points without a full grid.

    Points along the axes hardly determine the coefficient of a product, so its posterior is much
    wider than those of the other coefficients. The scale-invariant prior falls as 1 / total^k,
    where total is the sum of the absolute coefficients relative to the largest measured value.
    """
    return np.asarray(np.log(np.maximum(total, _MIN_TOTAL)) * np.asarray(k))


@cache
def _list_pairs(n: int) -> Index:
    """Return the indices of the two terms of each pair, shape (2, n_pairs)."""
    return np.array(np.triu_indices(n, 1))


def _fit_pairs(problem: Problem) -> tuple[Floats, Bools, Floats]:
    """Fit all pairs of terms of one parameter.

    Returns three arrays (p, n_pairs): the residuals, whether some coefficient is negative, and
    log(prior / sqrt(det G)), where G is the matrix of the normal equations.
    """
    # Subtracting the weighted mean eliminates the constant. If normalised terms a and b have the
    # correlation r and, each alone, the slopes s_a and s_b, the pair has the coefficients
    # (s_a - r s_b) / (1 - r^2) and (s_b - r s_a) / (1 - r^2). It reduces the residual by
    # (s_a^2 + s_b^2 - 2 r s_a s_b) / (1 - r^2).
    (terms,), (log_prior,) = problem.terms, problem.log_prior
    weight, target = problem.error**-2.0, problem.target
    first, second = _list_pairs(len(terms))
    total = weight.sum(axis=1, keepdims=True)
    sums, square_sums = weight @ terms.T, weight @ (terms * terms).T
    level = (weight * target).sum(axis=1, keepdims=True) / total
    above = target - level
    norm = np.sqrt(np.maximum(square_sums - sums**2 / total, 1e-300))
    slope = (weight * above) @ terms.T / norm
    mean = sums / np.sqrt(total) / norm
    prior = log_prior - np.log(norm)
    norm_a, slope_a, mean_a, prior_a = (v.take(first, axis=1) for v in (norm, slope, mean, prior))
    norm_b, slope_b, mean_b, prior_b = (v.take(second, axis=1) for v in (norm, slope, mean, prior))
    correlation = (weight @ (terms[first] * terms[second]).T) / (norm_a * norm_b)
    correlation -= mean_a * mean_b
    unshared = np.maximum(1.0 - correlation * correlation, 1e-12)
    only_a = slope_a - correlation * slope_b
    only_b = slope_b - correlation * slope_a
    explained = (slope_a * only_a + slope_b * only_b) / unshared
    constant = level * np.sqrt(total) - (only_a * mean_a + only_b * mean_b) / unshared
    negative = (only_a < 0) | (only_b < 0) | (constant < 0)
    unexplained = (weight * above**2).sum(axis=1, keepdims=True)
    residual = np.maximum(unexplained - explained, 0.0)
    return residual, negative, prior_a + prior_b - 0.5 * np.log(unshared * total)


def is_grid(points: Floats) -> bool:
    """Return whether every combination of the parameters' values occurs at exactly one point."""
    # Points may coincide in the searched parameters if other parameters were left out.
    size = np.prod([np.unique(column).size for column in points.T])
    return bool(len(points) == size == len(np.unique(points, axis=0)))


def _count_kept_terms(points: Floats, counts: Sequence[int]) -> int:
    """Return how many terms of each parameter are combined."""
    if len(counts) == 1:
        return counts[0]
    if not is_grid(points):
        return _TERMS_SPARSE[len(counts)]
    # Without the addition, an exact root could be rounded down to the next smaller number.
    return max(4, int(_COMBINATIONS ** (1.0 / len(counts)) + 1e-9))


def _pick_terms(problem: Problem) -> list[Index]:
    """Return the indices of the terms to combine, (p or 1, t_q) for each parameter."""
    parameters = range(len(problem.terms))
    keep = _count_kept_terms(problem.points, [len(values) for values in problem.terms])
    if is_grid(problem.points) or all(len(values) <= keep for values in problem.terms):
        return [_screen_terms(problem, q, keep) for q in parameters]
    return _screen_scattered(problem, keep)


def _screen_terms(problem: Problem, q: int, keep: int) -> Index:
    """Return the sorted indices of the best terms of one parameter, (p or 1, keep).

    Each term is fitted, plus a constant, along lines of points that differ only in this parameter.
    """
    terms, weight, target = problem.terms[q], problem.error**-2.0, problem.target
    if len(terms) <= keep:
        return np.arange(len(terms))[None]
    residual = np.zeros((len(weight), len(terms)))
    groups = find_lines(problem.points, q) or [np.arange(len(target.T))]
    max_lines = max(1, _MAX_ELEMENTS // residual.size)
    # Lines with the same values of the parameter share one matrix product.
    stacks: dict[bytes, list[Index]] = {}
    for line in groups:
        stacks.setdefault(problem.points[line, q].tobytes(), []).append(line)
    for lines in stacks.values():
        for start in range(0, len(lines), max_lines):
            stack = np.stack(lines[start : start + max_lines])
            t, w, y = terms[:, stack[0]].T, weight[:, stack], target[:, stack]
            total = w.sum(axis=2, keepdims=True)
            y = y - (w * y).sum(axis=2, keepdims=True) / total
            spread = _multiply_stack(w, t * t) - _multiply_stack(w, t) ** 2 / total
            gain = _multiply_stack(w * y, t) ** 2 / np.maximum(spread, 1e-300)
            residual += (w * y * y).sum(axis=(1, 2))[:, None] - gain.sum(axis=1)
    # If the scale of the errors is unknown, compare terms by ratios of residuals.
    df = max(sum(line.size for line in groups) - 2 * len(groups), 1)
    relative = df * np.log(np.maximum(residual, _MIN_RESIDUAL))
    score = np.where(problem.known[:, None], residual, relative) - 2 * problem.log_prior[q]
    return np.sort(np.argpartition(score, keep - 1, axis=1)[:, :keep], axis=1)


def _multiply_stack(stack: Floats, matrix: Floats) -> Floats:
    """Multiply a stack of matrices, shape (p, g, n), by a matrix of shape (n, t) in one product."""
    product: Floats = stack.reshape(-1, len(matrix)) @ matrix
    return product.reshape(*stack.shape[:2], -1)


def _screen_scattered(problem: Problem, keep: int) -> list[Index]:
    """Return the indices of the best terms of each parameter, for points that are not a grid.

    For each parameter in turn, all terms are tried with the best terms of the other parameters.
    """
    # With equal relative errors, the choice does not depend on later estimates of the noise.
    unknown = np.zeros(len(problem.target), dtype=bool)
    problem = replace(problem, error=estimate_scale(np.abs(problem.target)), known=unknown)
    parameters = range(len(problem.terms))
    first_best = best_one = [_screen_terms(problem, q, 1) for q in parameters]
    on_lines = all(find_lines(problem.points, q) for q in parameters)
    picked: list[Index] = []
    for _ in range(1 if on_lines else _ROUNDS):
        previous_best = best_one
        best_one, picked = [], []
        for q, values in enumerate(problem.terms):
            all_terms = np.arange(len(values))[None]
            picks = [all_terms if k == q else pick for k, pick in enumerate(previous_best)]
            block_scores, _, _, blocks = _score_all(problem, picks)
            score = np.full((len(problem.target), all_terms.size), -np.inf)
            start = 0
            for block in blocks:
                if q in block.structure.active:
                    np.maximum(score, block_scores[:, start : start + block.size], out=score)
                start += block.size
            best_one.append(score.argmax(axis=1)[:, None])
            if on_lines:
                np.put_along_axis(score, first_best[q], np.inf, axis=1)
            n = min(keep, score.shape[1])
            picked.append(np.sort(np.argpartition(-score, n - 1, axis=1)[:, :n], axis=1))
        if all(map(np.array_equal, best_one, previous_best)):
            break
    return picked
