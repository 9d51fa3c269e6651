"""Search: the approximate evidence of every hypothesis, for many call paths at once.

A hypothesis says which parameters act, together or apart, and with which exponents. A column of it
is a product of one term a parameter, so each entry of its normal equations is a sum over points of
weight times powers of terms. One matrix product gives that entry for all exponents and call paths.
"""

# p = call paths, n = points, h = hypotheses, k = columns, q = parameters, t = terms

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import isqrt, lgamma, log, pi, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .noise import scale_of
from .terms import SECOND_TERM, Structure, structures

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Powers = tuple[int, ...]

# Relative error expected where there are no repetitions, worth this many observations.
EXPECTED = 0.01
_WORTH = 1.0
# Largest number of combinations of terms searched for each structure on a complete grid. Elsewhere,
# terms of a parameter, by the number of parameters: the largest values were not measured together,
# so each parameter is less certain.
_COMBINATIONS = 216
_TERMS_SPARSE = {2: 49, 3: 13, 4: 5}
# Sizes of arrays that fit the processor's cache.
_AT_ONCE = 40_000
# At least this part of a column is taken as independent of the columns before it.
_MIN_PIVOT = 1e-15
_MIN_RESIDUAL = 1e-13
# Least sum of coefficients, in units of the largest value measured.
_MIN_TOTAL = 1e-6
# Most rounds over all parameters, where points scatter.
_ROUNDS = 10


@dataclass(frozen=True)
class Problem:
    """Call paths measured at the same points, and the terms to search."""

    points: Array  # (n, q)
    terms: Sequence[Array]  # of each parameter (t_q, n), scaled to a largest value of 1
    log_prior: Sequence[Array]  # of each parameter (t_q,)
    target: Array  # (p, n)
    error: Array  # (p, n); only proportional to the error of the points where it is not known
    known: NDArray[np.bool_]  # (p,)
    # (p,): loss of log evidence of a negative coefficient, unless it is a logarithm's.
    price: Array

    def take(self, rows: Index | slice) -> Problem:
        """Return the problem of some of the call paths."""
        return replace(
            self,
            **{n: getattr(self, n)[rows] for n in ("target", "error", "known", "price")},
        )


class StructureBlock(NamedTuple):
    """The hypotheses of one structure; `shape` counts the terms tried for each active parameter."""

    structure: Structure
    shape: tuple[int, ...]
    # Each hypothesis has two different terms of the one parameter.
    pairs: bool = False

    @property
    def size(self) -> int:
        """Number of hypotheses."""
        return int(np.prod(self.shape, dtype=int))

    @property
    def log_prior(self) -> float:
        """Prior without that of the exponents, times the orders of the columns."""
        prior = log(self.structure.prior) + lgamma(len(self.structure.columns))
        return prior + log(2) * self.pairs


class Sweep(NamedTuple):
    """Approximate log evidence of every hypothesis; only the best pairs of terms are kept."""

    score: Array  # (p, h)
    number: Index  # (p, h): counted through all blocks
    least: Array  # (p, columns): least misfit with at most so many columns, counted from 1
    blocks: list[StructureBlock]
    picks: list[Index]  # for each parameter (p, t_q): the terms searched


class Kept(NamedTuple):
    """Terms and prior of hypotheses."""

    terms: Index  # (p, h, k, q): number of the term of each parameter, counted from 1; 0 if none
    used: NDArray[np.bool_]  # (p, h, k)
    log_prior: Array  # (p, h)


def sweep(problem: Problem, enough: Array | None, best_pairs: int) -> Sweep:
    """Approximate evidence of all hypotheses."""
    target, known, terms = problem.target, problem.known, problem.terms
    picks = _picked(problem)
    score, usual, least, blocks = _all_scores(problem, picks)
    size = score.shape[1]
    number = np.broadcast_to(np.arange(size), score.shape)
    if len(terms) == 1 and len(terms[0]) > 1 and enough is not None and len(problem.points) > 3:
        n_pairs = len(terms[0]) * (len(terms[0]) - 1) // 2
        pairs = StructureBlock(Structure(((), (0,), (0,)), SECOND_TERM), (n_pairs,), True)
        keep = min(best_pairs, n_pairs)
        more = np.full((keep, len(target)), -np.inf).T
        which = np.full((len(target), keep), size)
        wanting = np.flatnonzero(usual > enough)
        for rows in np.array_split(wanting, max(1, -(-wanting.size * n_pairs // _AT_ONCE))):
            some = problem.take(rows)
            residual, negative, base = _fit_pairs(some)
            value = base + log_fit(residual, 3, target.shape[1], known[rows])
            value -= some.price[:, None] * negative
            best = np.argpartition(-value, keep - 1, axis=1)[:, :keep]
            more[rows] = np.take_along_axis(value, best, axis=1) + pairs.log_prior
            which[rows] = size + best
            if rows.size:
                least[rows, 2] = np.minimum(least[rows, 2], residual.min(axis=1))
        blocks.append(pairs)
        score = np.concatenate([score, more], axis=1)
        number = np.concatenate([number, which], axis=1)
    picks = [np.broadcast_to(pick, (len(target), pick.shape[1])) for pick in picks]
    return Sweep(score, number, np.minimum.accumulate(least, axis=1), blocks, picks)


def swept_again(before: Sweep, again: Sweep, rows: NDArray[np.bool_]) -> None:
    """Replace the rows that were swept again."""
    for old, new in zip((*before[:3], *before.picks), (*again[:3], *again.picks), strict=True):
        # Arrays that all call paths share did not change, and are read-only.
        if old.flags.writeable:
            old[rows] = new


def best(found: Sweep, keep: int) -> Index:
    """Return the places, (p, keep), of the largest scores of each row, in any order."""
    n_paths, n = found.score.shape
    size = max(1, isqrt(n // keep))
    grouped = n - n % size
    highest = found.score[:, :grouped].reshape(n_paths, -1, size).max(axis=2)
    group = np.argpartition(highest, -keep, axis=1)[:, -keep:]
    inside = (size * group[:, :, None] + np.arange(size)).reshape(n_paths, -1)
    rest = np.broadcast_to(np.arange(grouped, n), (n_paths, n - grouped))
    place = np.concatenate([inside, rest], axis=1)
    top = np.argpartition(np.take_along_axis(found.score, place, axis=1), -keep, axis=1)
    result: Index = np.take_along_axis(place, top[:, -keep:], axis=1)
    return result


def decode(found: Sweep, place: Index, log_prior: Sequence[Array]) -> Kept:
    """Return the terms of each column and the prior of the hypotheses at some places."""
    chosen = np.take_along_axis(found.number, place, axis=1)
    width = max(len(b.structure.columns) for b in found.blocks)
    code = short_axes_last(np.zeros((width, len(log_prior), *chosen.shape), dtype=np.intp))
    used = short_axes_last(np.zeros((width, *chosen.shape), dtype=bool))
    prior = np.zeros(chosen.shape)
    starts = np.cumsum([0, *(b.size for b in found.blocks)])
    block_of = np.searchsorted(starts, chosen, side="right") - 1
    for number_of_block in np.unique(block_of):
        block, start = found.blocks[number_of_block], starts[number_of_block]
        path, row = np.nonzero(block_of == number_of_block)
        number = chosen[path, row] - start
        columns, active = block.structure.columns, block.structure.active
        used[path, row, : len(columns)] = True
        prior[path, row] = block.log_prior
        if block.pairs:
            both = _all_pairs(len(log_prior[0]))[:, number]
            code[path, row, 1:3, 0] = both.T + 1
            prior[path, row] += log_prior[0][both].sum(axis=0)
            continue
        for q, position in zip(
            active, np.unravel_index(number, block.shape) if active else (), strict=True
        ):
            term = found.picks[q][path, position]
            prior[path, row] += log_prior[q][term]
            for k, column in enumerate(columns):
                if q in column:
                    code[path, row, k, q] = term + 1
    return Kept(code, used, prior)


def short_axes_last(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view with the last two axes, call paths and hypotheses, in front.

    They stay last in memory, because loops over a handful of columns or points are slow.
    """
    return np.moveaxis(array, (-2, -1), (0, 1))


def log_fit(residual: Array, n_columns: Index | int, n: int, known: NDArray[np.bool_]) -> Array:
    """Return the log likelihood of the best coefficients, times the volume of the normal law.

    Where the error of the points is known, the noise is normal. Where it is unknown, or no
    hypothesis meets the points within it, its scale is integrated out (Student's law). `residual`
    is the weighted sum of squares, (p, h), of `n_columns` at n points.
    """
    fit = -0.5 * residual
    rest = np.flatnonzero(~known)
    if rest.size:
        columns = np.broadcast_to(np.asarray(n_columns), residual.shape)[rest]
        spare = np.maximum(n - columns, 0)
        log_gamma = np.array([lgamma((k + _WORTH) / 2) for k in range(n + 1)])[spare]
        scale = (residual[rest] + _WORTH * EXPECTED**2) / 2
        fit[rest] = log_gamma - (spare + _WORTH) / 2 * np.log(scale)
    result: Array = fit + 0.5 * log(2 * pi) * np.asarray(n_columns, dtype=float)
    return result


def believable(n: int) -> float:
    """Return the weighted residual of n points above which the stated errors cannot be true."""
    return n + 5.0 * sqrt(2.0 * n) + 5.0


def combinations_of(points: Array, counts: Sequence[int]) -> int:
    """Return the number of hypotheses of the largest structure, given the terms of parameters."""
    keep = _terms_kept(points, counts)
    return int(np.prod([min(keep, count) for count in counts]))


def lines(points: Array, parameter: int) -> list[Index]:
    """Return groups of points that differ in one parameter only, in three values or more."""
    others = np.delete(points, parameter, axis=1)
    order = np.lexsort(others.T[::-1])
    parts = np.split(order, np.flatnonzero(np.diff(others[order], axis=0).any(axis=1)) + 1)
    return [part for part in parts if part.size >= 3]


def _all_scores(
    problem: Problem, picks: Sequence[Index]
) -> tuple[Array, Array, Array, list[StructureBlock]]:
    """Evidence of every structure with every combination of the terms picked."""
    target, known = problem.target, problem.known
    n_points, n_parameters = len(problem.points), len(problem.terms)
    tried = [own[pick] for own, pick in zip(problem.terms, picks, strict=True)]
    complete = is_grid(problem.points)
    levels = [np.unique(column, return_inverse=True)[1] for column in problem.points.T]
    moments = _Moments(tried, problem.error, target, levels if complete else None)
    blocks = [
        StructureBlock(s, tuple(tried[q].shape[1] for q in s.active))
        for s in structures(n_parameters)
        if len(s.columns) < n_points or len(s.columns) == 1
    ]
    score = np.empty((sum(block.size for block in blocks), len(target))).T
    least, usual = np.full((len(target), 4), np.inf), np.full(len(target), np.inf)
    start = 0
    for block in blocks:
        active = block.structure.active
        full = tuple(tried[q].shape[1] if q in active else 1 for q in range(n_parameters))
        # Columns of few parameters come first, so that only the last arrays are as large as the
        # block.
        columns = sorted(block.structure.columns, key=len)
        powers = [tuple(int(q in column) for q in range(n_parameters)) for column in columns]
        residual, log_root, negative = _solve(moments, powers, not complete)
        prior: Array = np.full(1, block.log_prior)
        for q in active:
            along = (*(n if k == q else 1 for k, n in enumerate(full)), -1)
            prior = prior + problem.log_prior[q][picks[q]].T.reshape(along)
        residual = residual.reshape(-1, len(target)).T
        negative = negative.reshape(-1, len(target)).T
        base = (prior - log_root).reshape(-1, len(target)).T
        k = len(columns)
        value = score[:, start : start + block.size]
        np.add(base, log_fit(residual, k, n_points, known), out=value)
        usual = np.minimum(usual, np.where(negative, np.inf, residual).min(axis=1))
        least[:, k - 1] = np.minimum(least[:, k - 1], residual.min(axis=1))
        start += block.size
    return score, usual, least, blocks


class _Moments:
    """Sums over points of weight, target and powers of the parameters' terms.

    On a complete grid (where the number of each point's value is given in ``levels``) one parameter
    is summed over after the other. Elsewhere each sum is computed from the points when needed.
    """

    def __init__(
        self,
        terms: Sequence[Array],
        error: Array,
        target: Array,
        levels: Sequence[NDArray[np.intp]] | None,
    ) -> None:
        self._terms = terms
        weight = error**-2.0
        self._weight = {False: weight, True: weight * target}
        self.squares: Array = (weight * target**2).sum(axis=1)
        self._known: dict[tuple[Powers, bool], Array] = {}
        self._grid: dict[bool, Array] = {}
        if levels is not None and len(terms) > 1:
            self._grid = {
                False: _contract(terms, weight, levels, 2),
                True: _contract(terms, weight * target, levels, 1),
            }

    def sums(self, powers: Powers, with_target: bool) -> Array:
        """Return the sums of weight (and target) times prod_q term_q^power_q."""
        key = powers, with_target
        if key not in self._known:
            make = self._part if self._grid else self._sum
            self._known[key] = make(powers, with_target)
        return self._known[key]

    def _part(self, powers: Powers, with_target: bool) -> Array:
        """Return the sums of some powers from those of the whole grid."""
        place: list[slice] = []
        for power, terms in zip(powers, self._terms, strict=True):
            t = terms.shape[1]
            place.append(slice(0, 1) if power == 0 else slice(1 + (power - 1) * t, 1 + power * t))
        result: Array = self._grid[with_target][tuple(place)]
        return result

    def _sum(self, powers: Powers, with_target: bool) -> Array:
        """Sum over the points by one batched matrix product."""
        weight = self._weight[with_target]
        left = weight[:, None, :]
        axes = [q for q, power in enumerate(powers) if power]
        shape = [len(weight)] + [1] * len(powers)
        for q in axes:
            shape[1 + q] = self._terms[q].shape[1]
        if not axes:
            total: Array = weight.sum(axis=1).reshape(shape[1:] + shape[:1])
            return total
        factors = [self._terms[q] ** powers[q] for q in axes]
        for factor in factors[:-1]:
            left = (left[:, :, None, :] * factor[:, None, :, :]).reshape(
                len(weight), -1, weight.shape[1]
            )
        result: Array = left @ np.swapaxes(factors[-1], 1, 2)
        return np.ascontiguousarray(np.moveaxis(result.reshape(shape), 0, -1))


def _contract(
    terms: Sequence[Array], weight: Array, levels: Sequence[NDArray[np.intp]], most: int
) -> Array:
    """Sum weight times products of powers 0..most, with one term of each parameter."""
    shape = [int(level.max()) + 1 for level in levels]
    order = np.argsort(np.ravel_multi_index(tuple(levels), shape))
    total = weight[:, order]
    done = 1
    for q in reversed(range(len(terms))):
        # Terms are equal at all points of a level, so use the first point.
        value = terms[q][:, :, np.unique(levels[q], return_index=True)[1]]
        powers = [np.ones((len(value), 1, shape[q])), *(value**k for k in range(1, most + 1))]
        basis = np.concatenate(powers, axis=1)[:, None]
        total = basis @ total.reshape(len(weight), -1, shape[q], done)
        done *= basis.shape[2]
    sizes = [1 + most * t.shape[1] for t in terms]
    return np.ascontiguousarray(np.moveaxis(total.reshape(len(weight), *sizes), 0, -1))


def _solve(
    moments: _Moments, columns: Sequence[Powers], is_open: bool
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Solve the normal equations of a structure, for all its combinations of terms."""
    k = len(columns)
    gram = [
        [moments.sums(tuple(np.add(u, v).tolist()), False) for v in columns[: a + 1]]
        for a, u in enumerate(columns)
    ]
    right = [moments.sums(u, True) for u in columns]
    # G = L D L^T with a unit lower triangle needs no square roots in the inner loops.
    lower: list[list[Array]] = []
    inverse_pivot: list[Array] = []
    coefficient: list[Array] = []
    residual = moments.squares
    log_root: Array = np.zeros(1)
    for a in range(k):
        pivot, rest = gram[a][a], right[a]
        along: list[Array] = []
        row: list[Array] = []
        for b in range(a):
            value = gram[a][b]
            for c in range(b):
                value = value - along[c] * lower[b][c]
            along.append(value)
            row.append(value * inverse_pivot[b])
            pivot = pivot - value * row[b]
            rest = rest - value * coefficient[b]
        if a:
            pivot = np.maximum(pivot, _MIN_PIVOT * gram[a][a])
        lower.append(row)
        inverse_pivot.append(1.0 / pivot)
        coefficient.append(rest * inverse_pivot[a])
        residual = residual - rest * coefficient[a]
        # Only the pivots of the last columns are large arrays.
        log_root = log_root + 0.5 * np.log(pivot)
    solution: list[Array] = []
    negative = np.zeros(1, dtype=bool)
    for a in reversed(range(k)):
        value = coefficient[a]
        for b, known in enumerate(solution):
            value = value - lower[k - 1 - b][a] * known
        solution.append(value)
        negative = negative | (value < 0)
    if is_open:
        total = sum((np.abs(value) for value in solution), np.zeros(1))
        log_root = log_root + open_range(total, k)
    return np.maximum(residual, 0.0), log_root, negative


def open_range(total: Array, k: int | Index) -> Array:
    """Return the logarithm of the range of k coefficients, where points leave them open.

    Points along the axes say almost nothing about the coefficient of a product, whose normal law
    is far wider than the other coefficients. The prior expects every share of the value at the
    largest values of all parameters, which may have any size: it falls as 1 / total^k, where total
    is the sum of the sizes of the coefficients, in units of the largest value measured.
    """
    result: Array = np.log(np.maximum(total, _MIN_TOTAL)) * np.asarray(k)
    return result


@cache
def _all_pairs(n: int) -> Index:
    """Numbers of the two terms of every pair of n terms, shape (2, h)."""
    return np.array(np.triu_indices(n, 1))


def _fit_pairs(problem: Problem) -> tuple[Array, NDArray[np.bool_], Array]:
    """Fit a constant and two different terms of the one parameter, for all pairs."""
    (terms,), (log_prior,) = problem.terms, problem.log_prior
    weight, target = problem.error**-2.0, problem.target
    first, second = _all_pairs(len(terms))
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
    constant = level * np.sqrt(total) - (only_a * mean_a + only_b * mean_b) / rest
    negative = (only_a < 0) | (only_b < 0) | (constant < 0)
    unexplained = (weight * above**2).sum(axis=1, keepdims=True)
    residual = np.maximum(unexplained - explained, 0.0)
    return residual, negative, prior_a + prior_b - 0.5 * np.log(rest * total)


def is_grid(points: Array) -> bool:
    """Return whether every combination of the parameters' values is exactly one point.

    A combination may have several points where parameters were left out of the search.
    """
    size = np.prod([np.unique(column).size for column in points.T])
    return bool(len(points) == size == len(np.unique(points, axis=0)))


def _terms_kept(points: Array, counts: Sequence[int]) -> int:
    """Return how many terms of each parameter are combined."""
    if len(counts) == 1:
        return counts[0]
    if not is_grid(points):
        return _TERMS_SPARSE[len(counts)]
    return max(4, int(_COMBINATIONS ** (1.0 / len(counts)) + 1e-9))


def _picked(problem: Problem) -> list[Index]:
    """Return the numbers of the terms of each parameter to combine, each of shape (p or 1, t_q)."""
    parameters = range(len(problem.terms))
    keep = _terms_kept(problem.points, [len(own) for own in problem.terms])
    if is_grid(problem.points) or all(len(own) <= keep for own in problem.terms):
        return [_screened(problem, q, keep) for q in parameters]
    return _rescreened(problem, keep)


def _screened(problem: Problem, q: int, keep: int) -> Index:
    """Return the numbers of the most promising terms of a parameter, in growing order."""
    terms, weight, target = problem.terms[q], problem.error**-2.0, problem.target
    if len(terms) <= keep:
        return np.arange(len(terms))[None]
    residual = np.zeros((len(weight), len(terms)))
    groups = lines(problem.points, q) or [np.arange(len(target.T))]
    at_once = max(1, _AT_ONCE // residual.size)
    stacks: dict[bytes, list[Index]] = {}
    for line in groups:
        stacks.setdefault(problem.points[line, q].tobytes(), []).append(line)
    for alike in stacks.values():
        # Lines at the same values share one matrix product.
        for start in range(0, len(alike), at_once):
            stack = np.stack(alike[start : start + at_once])
            t, w, y = terms[:, stack[0]].T, weight[:, stack], target[:, stack]
            total = w.sum(axis=2, keepdims=True)
            y = y - (w * y).sum(axis=2, keepdims=True) / total
            spread = _times(w, t * t) - _times(w, t) ** 2 / total
            gain = _times(w * y, t) ** 2 / np.maximum(spread, 1e-300)
            residual += (w * y * y).sum(axis=(1, 2))[:, None] - gain.sum(axis=1)
    # If the scale of the errors is unknown, terms are compared by ratios of residuals.
    freedom = max(sum(line.size for line in groups) - 2 * len(groups), 1)
    relative = freedom * np.log(np.maximum(residual, _MIN_RESIDUAL))
    score = np.where(problem.known[:, None], residual, relative) - 2 * problem.log_prior[q]
    return np.sort(np.argpartition(score, keep - 1, axis=1)[:, :keep], axis=1)


def _times(stack: Array, matrix: Array) -> Array:
    """Multiply each matrix of a stack, shape (p, g, n), by one of shape (n, t), as one product."""
    product: Array = stack.reshape(-1, len(matrix)) @ matrix
    return product.reshape(*stack.shape[:2], -1)


def _rescreened(problem: Problem, keep: int) -> list[Index]:
    """Return the most promising terms where the points are no complete grid."""
    # All errors count as equal, so that the same terms are chosen when the noise is known better.
    unknown = np.zeros(len(problem.target), dtype=bool)
    problem = replace(problem, error=scale_of(np.abs(problem.target)), known=unknown)
    parameters = range(len(problem.terms))
    first = best_one = [_screened(problem, q, 1) for q in parameters]
    on_lines = all(lines(problem.points, q) for q in parameters)
    kept: list[Index] = []
    for _ in range(1 if on_lines else _ROUNDS):
        before = best_one
        best_one, kept = [], []
        for q, own in enumerate(problem.terms):
            every = np.arange(len(own))[None]
            picks = [every if k == q else terms for k, terms in enumerate(before)]
            value, _, _, blocks = _all_scores(problem, picks)
            score = np.full((len(problem.target), every.size), -np.inf)
            start = 0
            for block in blocks:
                if q in block.structure.active:
                    np.maximum(score, value[:, start : start + block.size], out=score)
                start += block.size
            best_one.append(score.argmax(axis=1)[:, None])
            if on_lines:
                np.put_along_axis(score, first[q], np.inf, axis=1)
            most = min(keep, score.shape[1])
            kept.append(np.sort(np.argpartition(-score, most - 1, axis=1)[:, :most], axis=1))
        if all(map(np.array_equal, best_one, before)):
            break
    return kept
