"""Selection: exact coefficients and weights of the hypotheses that the search kept.

Three criteria are offered: the evidence of a hypothesis, and its error under leave-one-out or
five-fold cross-validation. The evidence has a stated prior: costs of a program add up, so that a
negative coefficient is improbable. Data that no other hypothesis meets overrule it. Logarithms may
have either sign, because times that fall with p fall by logarithms too [Shudler18].
"""

# p = call paths, n = points, h = hypotheses, k = columns, q = parameters, t = terms
# m = pairs of a call path and a hypothesis, s = samples

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .noise import Centres, scale_of
from .search import (
    Kept,
    Problem,
    believable,
    best,
    decode,
    is_grid,
    log_fit,
    open_range,
    short_axes_last,
    sweep,
    swept_again,
)
from .terms import TermSpace

Array = NDArray[np.float64]
Index = NDArray[np.intp]

CRITERIA = ("evidence", "loo", "kfold")
_FOLDS = 5
# Least relative error of a point in the sweep (whose sums of squares cancel) and in the exact step.
_COARSE = 1e-6
_EXACT = 1e-12
# Hypotheses solved exactly for each call path.
_KEPT = 32
# At most this many points times hypotheses are solved exactly for a call path, but at least eight
# hypotheses.
_POINTS_KEPT = 600
# With values free of noise, a coefficient is a rounding error if it is within this many of its
# errors of zero, and adds at most this many errors to any value.
_WITHIN = 5.0
_ADDS = 1e3
# Bounded noise is left out if its probability is not above this, and a hypothesis if its log
# evidence under the normal law is this much below the best.
_DOUBTFUL = 0.05
_GAP = 8.0
# Samples of the coefficients of a hypothesis under bounded noise, and numbers held at a time.
_SAMPLES = 16
_AT_ONCE = 16_000


@dataclass(frozen=True)
class RankedHypotheses:
    """The hypotheses kept: first the one used for predictions, then by falling probability."""

    terms: Index  # (p, h, k, q): number of each term in a column, counted from 1; 0 if none
    used: NDArray[np.bool_]  # (p, h, k): the column exists
    coefficient: Array  # (p, h, k)
    log_weight: Array  # (p, h): log evidence, or the score of the chosen criterion
    # (p,): point errors are known, and at least one hypothesis fits the points within them.
    trusted: NDArray[np.bool_]
    # (p,): the prior against negative coefficients changed which hypothesis is first.
    decided: NDArray[np.bool_]

    @property
    def weights(self) -> Array:
        """Probability of each hypothesis; shape (p, h)."""
        weight = np.exp(self.log_weight - self.log_weight.max(axis=1, keepdims=True))
        normalised: Array = weight / weight.sum(axis=1, keepdims=True)
        return normalised

    def median_first(self, values: Array) -> RankedHypotheses:
        """Put the hypothesis with the median value, weighted by probability, before the others."""
        order = np.argsort(values, axis=1, kind="stable")
        total = np.take_along_axis(self.weights, order, axis=1).cumsum(axis=1)
        place = (total < 0.5 * total[:, -1:]).sum(axis=1, keepdims=True)
        rank = np.tile(np.arange(values.shape[1], dtype=float), (len(values), 1))
        np.put_along_axis(rank, np.take_along_axis(order, place, axis=1), -1.0, axis=1)
        rows, order = np.arange(len(values))[:, None], np.argsort(rank, axis=1)
        moved = ("terms", "used", "coefficient", "log_weight")
        return replace(self, **{name: getattr(self, name)[rows, order] for name in moved})


class _Solved(NamedTuple):
    """Least squares of the hypotheses, by orthogonal columns."""

    residual: Array  # (p, h)
    coefficient: Array  # (p, h, k)
    inverse: Array  # (p, h, k, k): R^-1 of the QR factors; R^-1 R^-T is the unscaled covariance
    basis: list[Array]  # k of (p, h, n)


def find(
    points: Array,
    centred: Centres,
    spaces: Sequence[TermSpace],
    two_terms: bool,
    criterion: str,
    negative: float,
) -> RankedHypotheses:
    """Find the most probable hypotheses, with a prior probability of a negative coefficient."""
    n_points = len(points)
    reference = np.abs(centred.centre).max(axis=1, keepdims=True)
    reference[reference == 0] = 1.0
    scale = scale_of(centred.centre) / reference
    known = np.asarray(np.isfinite(centred.error).all(axis=1))
    error = np.where(known[:, None], centred.error / reference, scale)
    terms = [s.values(column) for s, column in zip(spaces, points.T, strict=True)]
    peak = [v.max(axis=1, keepdims=True) for v in terms]
    problem = Problem(
        points,
        [v / m for v, m in zip(terms, peak, strict=True)],
        [np.log(space.prior) for space in spaces],
        centred.centre / reference,
        np.maximum(error, _COARSE * scale),
        known,
        np.where(centred.mixed | (criterion != "evidence"), 0.0, log(1 / negative - 1)),
    )
    # No second term is needed if a single one meets the points within the noise.
    enough = np.where(known, n_points - 2.0, -1.0) if two_terms else None

    found = sweep(problem, enough, _KEPT)
    # Points without repetitions have no noise if a hypothesis meets them up to rounding. With one
    # point more than coefficients, one of a thousand hypotheses does so by chance.
    spare = min(max(n_points - 2, 1), found.least.shape[1])
    noiseless = ~known & (found.least[:, spare - 1] < 1e-14 * n_points)
    # If all hypotheses miss by more than the noise, its unequal errors say nothing about the
    # misfit.
    missed = known & (found.least[:, -1] >= believable(n_points))
    again = noiseless | missed
    if again.any():
        error = np.where(
            noiseless[:, None], _EXACT * scale, np.where(missed[:, None], scale, error)
        )
        weight = np.maximum(error, _COARSE * scale)
        problem = replace(problem, error=weight, known=(known | noiseless) & ~missed)
        some = np.flatnonzero(again)
        few = None if enough is None else enough[some]
        swept_again(found, sweep(problem.take(some), few, _KEPT), again)
    # With more points, fewer hypotheses remain likely. Pairs of terms do not count where they were
    # not tried.
    tried = sum(block.size for block in found.blocks if not block.pairs)
    place = best(found, min(_KEPT, max(8, _POINTS_KEPT // n_points), tried))
    kept = decode(found, place, problem.log_prior)
    fine = replace(problem, error=np.maximum(error, _EXACT * scale))
    logarithm = [space.polynomial == 0 for space in spaces]
    return _exact(kept, fine, peak, reference, scale, centred, criterion, logarithm)


def _exact(
    kept: Kept,
    problem: Problem,
    peak: Sequence[Array],
    reference: Array,
    scale: Array,
    centred: Centres,
    criterion: str,
    logarithm: Sequence[NDArray[np.bool_]],
) -> RankedHypotheses:
    """Solve the hypotheses kept exactly, and weigh them again."""
    target, error, known = problem.target, problem.error, problem.known
    n_points = target.shape[1]
    columns, unit, log_peak = _design(kept, problem, peak)
    if len(problem.terms) > 1:
        _put_in_order(kept, columns, unit)
    solved = _least_squares(columns, (target / error)[:, None, :])
    if criterion == "evidence":
        _above_zero(solved, columns, target / error, problem.price > 0)
    fit = kept.log_prior + log_fit(solved.residual, kept.used.sum(axis=2), n_points, known)
    volume = np.where(kept.used, np.log(np.einsum("phkk->phk", solved.inverse)), 0.0).sum(axis=2)
    volume = log_peak + volume
    if len(problem.terms) > 1 and not is_grid(problem.points):
        volume -= open_range(np.abs(solved.coefficient).sum(axis=2), kept.used.sum(axis=2))
    free = fit + volume
    price = np.repeat(problem.price, kept.used[0].size).reshape(kept.used.shape)
    for q, free_terms in enumerate(logarithm):
        price[np.append(False, free_terms)[kept.terms[:, :, :, q]]] = 0.0
    loss = _loss(solved, price)
    if criterion == "evidence":
        score, coefficient = _bounded(
            free, price, kept, columns, solved, problem, reference, centred
        )
    else:
        score, coefficient = _validated(solved, kept.used, criterion), solved.coefficient
    order = np.argsort(-score, axis=1, kind="stable")
    rows = np.arange(len(order))[:, None]
    first = rows[:, 0], order[:, 0]
    weighted = np.array([column[first] for column in columns])
    fitted = np.einsum("kpn,pk->pn", weighted, coefficient[first])
    misfit = ((fitted - target / error) ** 2).sum(axis=1)
    # A hypothesis with a negative coefficient that is far more probable without the prior.
    instead = np.where(loss > 0, free, -np.inf).max(axis=1) - free[first]
    decided = (loss[first] == 0) & (instead > 1.0)
    noiseless = np.flatnonzero(known & (error == _EXACT * scale).all(axis=1))
    if noiseless.size:
        own = coefficient[noiseless]
        coefficient[noiseless] = _without_rounding(own, columns, solved, error, noiseless)
    return RankedHypotheses(
        terms=kept.terms[rows, order],
        used=kept.used[rows, order],
        coefficient=(coefficient * reference[:, :, None] / unit)[rows, order],
        log_weight=score[rows, order],
        # The sweep only estimates the cost of negative coefficients.
        trusted=known & (misfit < believable(n_points)),
        decided=decided,
    )


def _design(
    kept: Kept, problem: Problem, peak: Sequence[Array]
) -> tuple[list[Array], Array, Array]:
    """Return the columns at the points, in units of each point's error."""
    with_one = [np.vstack([np.ones(t.shape[1]), t]).T for t in problem.terms]
    peak_one = [np.vstack([np.ones((1, 1)), m])[:, 0] for m in peak]
    n_paths, n_kept, width = kept.used.shape
    columns, log_peak = [], np.zeros((n_paths, n_kept))
    unit = short_axes_last(np.ones((width, n_paths, n_kept)))
    sharpness = 1.0 / problem.error.T[:, :, None]
    for k in range(width):
        used = kept.used[:, :, k]
        column = np.repeat(used[None].astype(float), len(sharpness), axis=0)
        for q in range(len(problem.terms)):
            number = kept.terms[:, :, k, q]
            if number.any():
                column *= with_one[q].take(number, axis=1)
                unit[:, :, k] *= peak_one[q][number]
        # A column that is zero everywhere has no share.
        with np.errstate(divide="ignore"):
            log_peak += np.log(np.where(used, column.max(axis=0), 1.0))
        column *= sharpness
        columns.append(short_axes_last(column))
    return columns, unit, log_peak


def _put_in_order(kept: Kept, columns: list[Array], unit: Array) -> None:
    """Order columns by their sums, the constant first."""
    constant = kept.used & ~kept.terms.any(axis=3)
    total = np.stack([column.sum(axis=2) for column in columns], axis=2)
    key = np.where(constant, -np.inf, np.where(kept.used, total, np.inf))
    order = np.argsort(key, axis=2, kind="stable")
    # Most columns are in order already.
    moved = np.nonzero((order != np.arange(order.shape[2])).any(axis=2))
    some = [column[moved] for column in columns]
    for column, place in zip(columns, order[moved].T, strict=True):
        column[moved] = np.choose(place[:, None], some)
    pair = np.arange(len(moved[0]))[:, None]
    for array in (kept.terms, kept.used, unit):
        array[moved] = array[moved][pair, order[moved]]


def _least_squares(columns: list[Array], target: Array) -> _Solved:
    """Solve by modified Gram-Schmidt; a column of zeros gets the coefficient 0."""
    k = len(columns)
    shape = columns[0].shape[:2]
    factor = short_axes_last(np.zeros((k, k, *shape)))
    projection = short_axes_last(np.zeros((k, *shape)))
    rest = np.broadcast_to(target, columns[0].shape)
    basis: list[Array] = []
    for a, column in enumerate(columns):
        q = column
        for b in range(a):
            r = np.einsum("phn,phn->ph", basis[b], q)
            factor[:, :, b, a] = r
            step = r[:, :, None] * basis[b]
            q = np.subtract(q, step, out=step)
        norm = np.sqrt(np.einsum("phn,phn->ph", q, q))
        norm[norm == 0] = 1.0
        factor[:, :, a, a] = norm
        q = np.divide(q, norm[:, :, None], out=q if a else None)
        basis.append(q)
        projection[:, :, a] = np.einsum("phn,phn->ph", q, rest)
        step = projection[:, :, a, None] * q
        rest = np.subtract(rest, step, out=step)
    inverse = np.zeros_like(factor)
    for a in range(k):
        inverse[:, :, a, a] = 1.0 / factor[:, :, a, a]
        for b in range(a - 1, -1, -1):
            row, column = factor[:, :, b, b + 1 : a + 1], inverse[:, :, b + 1 : a + 1, a]
            inverse[:, :, b, a] = -np.einsum("phc,phc->ph", row, column) / factor[:, :, b, b]
    return _Solved(
        np.einsum("phn,phn->ph", rest, rest),
        np.einsum("phab,phb->pha", inverse, projection),
        inverse,
        [*basis, rest],
    )


def _above_zero(
    solved: _Solved, columns: list[Array], target: Array, rows: NDArray[np.bool_]
) -> None:
    """Set negative coefficients to 0 where a model of values above 0 is negative at a point."""
    below = (target[:, None] - solved.basis[-1]).min(axis=2) < 0
    pair = np.nonzero(below & rows[:, None])
    solved.coefficient[pair] = np.maximum(solved.coefficient[pair], 0.0)
    fitted = np.einsum("kmn,mk->mn", [c[pair] for c in columns], solved.coefficient[pair])
    solved.residual[pair] = ((target[pair[0]] - fitted) ** 2).sum(axis=1)


def _validated(solved: _Solved, used: NDArray[np.bool_], criterion: str) -> Array:
    """Return minus half the logarithm of the cross-validation error, times the points; (p, h)."""
    *basis, rest = solved.basis
    n = rest.shape[2]
    folds = n if criterion == "loo" else min(_FOLDS, n)
    total = np.zeros(rest.shape[:2])
    for fold in range(folds):
        part = slice(fold, None, folds)
        q = np.stack([column[:, :, part] for column in basis], axis=3)
        left = np.eye(q.shape[2]) - np.einsum("phak,phbk->phab", q, q)
        # A fold that a fit cannot do without has a singular matrix.
        left += 1e-9 * np.eye(q.shape[2])
        errors = np.linalg.solve(left, rest[:, :, part, None])[..., 0]
        total += (errors**2).sum(axis=2)
    few = used.sum(axis=2) >= n
    return np.where(few, -np.inf, -0.5 * n * np.log(np.maximum(total, 1e-300)))


def _without_rounding(
    coefficient: Array, columns: list[Array], solved: _Solved, error: Array, rows: Index
) -> Array:
    """Return the coefficients of values without noise, with rounding errors set to zero."""
    inverse = solved.inverse[rows]
    spread = np.sqrt(np.einsum("phab,phab->pha", inverse, inverse))
    # A column is 1 at the largest values of all parameters, even if no point lies there.
    there = 1.0 / error[rows].max(axis=1)[:, None]
    adds = np.stack([np.maximum(c.max(axis=2)[rows], there) for c in columns], axis=2)
    most = np.minimum(_WITHIN * spread, _ADDS / adds)
    return np.where(np.abs(coefficient) <= most, 0.0, coefficient)


def _loss(solved: _Solved, price: Array) -> Array:
    """Return the loss of log evidence of negative coefficients; (p, h)."""
    result: Array = np.where(solved.coefficient < 0, price, 0.0).max(axis=2)
    return result


def _bounded(
    free: Array,
    price: Array,
    kept: Kept,
    columns: list[Array],
    solved: _Solved,
    problem: Problem,
    reference: Array,
    centred: Centres,
) -> tuple[Array, Array]:
    """Return the log evidence with the prior against negative coefficients, and coefficients."""
    score = free - _loss(solved, price)
    chance = np.where(problem.known, centred.bounded, 0.0)
    rows = np.flatnonzero(chance > _DOUBTFUL)
    if not rows.size:
        return score, solved.coefficient
    near = score[rows] > score[rows].max(axis=1, keepdims=True) - _GAP
    path, hypothesis = np.nonzero(near)
    path = rows[path]
    # Pairs are sorted by their number of columns, so that no time is spent on unused ones.
    order = np.argsort(kept.used.sum(axis=2)[path, hypothesis], kind="stable")
    pair = path[order], hypothesis[order]
    place = np.ravel_multi_index(pair, free.shape)
    by_point = (np.moveaxis(c, 2, 0).reshape(c.shape[2], -1) for c in columns)
    design = np.array([c.take(place, axis=1) for c in by_point]).T
    # Both are in units of each point's error, which cancels in the likelihood.
    lowest, highest, count = np.moveaxis(centred.repetitions, 1, 0)
    unit = reference * problem.error
    own = np.array([lowest / unit, highest / unit, count])[:, pair[0]]
    log_mean, mean = _weigh(
        design,
        own,
        solved.coefficient[pair],
        solved.inverse[pair],
        kept.used[pair],
        price[pair],
    )
    strict = np.full(free.shape, -np.inf)
    strict[pair] = (free + 0.5 * solved.residual)[pair] + log_mean
    # Only the normal law counts where no sample of any hypothesis is possible.
    some = np.flatnonzero((strict > -np.inf).any(axis=1))
    share = np.minimum(chance[some, None], 1 - 1e-12)
    score[some] = np.logaddexp(
        _log_softmax(score[some]) + np.log1p(-share),
        _log_softmax(strict[some]) + np.log(share),
    )
    decides = np.zeros(len(score), dtype=bool)
    decides[some] = share[:, 0] > 0.5
    done = (decides[:, None] & (strict > -np.inf))[pair]
    coefficient = solved.coefficient.copy()
    coefficient[pair[0][done], pair[1][done]] = mean[done]
    return score, coefficient


def _weigh(
    design: Array,
    repetitions: Array,
    centre: Array,
    spread: Array,
    used: NDArray[np.bool_],
    price: Array,
) -> tuple[Array, Array]:
    """Weigh samples of the coefficients of each pair by the likelihood of bounded noise."""
    n_pairs, width = centre.shape
    z = np.random.default_rng(0).standard_normal((_SAMPLES // 2, width))
    # Samples come in opposite pairs, so that a symmetric likelihood gives the centre as its mean.
    z = np.concatenate([z, -z])
    drawn = np.hstack([np.ones((_SAMPLES, 1)), z])
    log_mean = np.empty(n_pairs)
    mean = np.zeros(centre.shape)
    step = max(1, _AT_ONCE // _SAMPLES)
    for start in range(0, n_pairs, step):
        part = slice(start, start + step)
        k = used[part].sum(axis=1).max()
        exists = used[part, :k].T.astype(float)
        # Coefficients, and the values of the model, are linear in the random numbers.
        law = np.empty((k, 1 + k, exists.shape[1]))
        law[:, 0] = centre[part, :k].T
        law[:, 1:] = np.moveaxis(spread[part, :k, :k], 0, 2)
        law *= exists[:, None]
        one = drawn[:, : 1 + k]
        loss = np.where(one @ law < 0, price[part, :k].T[:, None], 0.0).max(axis=0)
        log_weight = _log_likelihood(design[part, :, :k].T, law, one, repetitions[:, part])
        log_weight += 0.5 * (z[:, :k] ** 2 @ exists)
        log_weight -= loss
        top = np.maximum(log_weight.max(axis=0), -1e300)
        weight = np.exp(log_weight - top)
        total = weight.sum(axis=0)
        with np.errstate(divide="ignore"):
            log_mean[part] = top + np.log(total) - log(_SAMPLES)
        mean[part, :k] = np.einsum("kjm,jm->mk", law, one.T @ weight / np.maximum(total, 1e-300))
    return log_mean, mean


def _log_softmax(values: Array) -> Array:
    total: Array = values - np.logaddexp.reduce(values, axis=1, keepdims=True)
    return total


def _log_likelihood(columns: Array, law: Array, drawn: Array, repetitions: Array) -> Array:
    """Return the log likelihood of every sample, shape (s, m)."""
    lowest, highest, count = repetitions.transpose(0, 2, 1)
    # Dividing the columns by the largest repetition saves a division for each sample.
    share = np.einsum("knm,kjm->njm", np.divide(columns, highest, order="C"), law)
    shape = (len(drawn), law.shape[2])
    least, most, value = np.full(shape, np.inf), np.zeros(shape), np.empty(shape)
    for i, ratio in enumerate(highest / lowest):
        np.matmul(drawn, share[i], out=value)
        np.minimum(least, value, out=least)
        np.maximum(most, np.multiply(value, ratio, out=value), out=most)
    above, below = 1.0 / np.maximum(least, 1e-300), 1.0 / np.maximum(most, 1e-300)
    half_width = np.maximum(np.maximum(above - 1.0, 1.0 - below), 1e-300)
    # Each repetition has the density 1 / (2 h f); log f is replaced by its tangent at the middle.
    middle = (lowest + highest) / 2
    slope = np.einsum("njm,nm->jm", share, count * highest / middle)
    n = count.sum(axis=0)
    result: Array = n - (count * np.log(middle)).sum(axis=0) - n * np.log(half_width)
    result -= drawn @ slope
    return np.where(least > 0, result, -np.inf)
