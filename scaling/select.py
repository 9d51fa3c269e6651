"""Selection: exact coefficients and weights of the best hypotheses of the search.

The criterion is the evidence of a hypothesis, or its error in leave-one-out or five-fold
cross-validation. In the prior of the evidence, negative coefficients are improbable because costs
of a program add up. Coefficients of logarithms may have either sign, because decreasing times may
decrease logarithmically [Shudler18].
"""

# p = call paths, n = points, h = hypotheses, k = columns, q = parameters, t = terms
# m = pairs of a call path and a hypothesis, s = samples

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log
from typing import NamedTuple

import numpy as np

from toruscast.typing import Bools, Floats

from .noise import PointEstimates, estimate_scale
from .search import (
    DecodedHypotheses,
    Index,
    Problem,
    decode,
    is_grid,
    log_fit,
    max_residual,
    open_range,
    replace_rows,
    score_hypotheses,
    select_best,
    short_axes_last,
)
from .terms import TermSpace

CRITERIA = ("evidence", "loo", "kfold")
_FOLDS = 5
# Minimum relative errors of points in the search, where sums of squares cancel, and the exact fit.
_COARSE = 1e-6
_EXACT = 1e-12
# Limits of the hypotheses solved exactly for each call path, and of points times hypotheses.
_MAX_HYPOTHESES = 32
_MIN_HYPOTHESES = 8
_MAX_SOLVED = 600
# In noiseless values, a coefficient below this many of its own errors is a rounding error, if its
# column adds at most this many errors to any value.
_MAX_ZERO_ERRORS = 5.0
_MAX_ADDED = 1e3
# The likelihood of bounded noise is computed if its probability exceeds this, for hypotheses whose
# log evidence under normal noise is at most this much below the best.
_MIN_BOUNDED = 0.05
_MAX_LOG_GAP = 8.0
# Samples of the coefficients of a hypothesis under bounded noise.
_N_SAMPLES = 16
_MAX_ELEMENTS = 16_000


@dataclass(frozen=True)
class RankedHypotheses:
    """Hypotheses by rank; predictions use the first one, the others have falling probabilities."""

    terms: Index  # (p, h, k, q): number of the term of each parameter from 1, 0 without a term
    used: Bools  # (p, h, k): the column exists
    coefficient: Floats  # (p, h, k)
    log_weight: Floats  # (p, h): log evidence, or the score of the criterion
    trusted: Bools  # (p,): errors are known, and a hypothesis fits within them
    decided: Bools  # (p,): the prior of negative coefficients changed the first rank

    @property
    def weights(self) -> Floats:
        """Probabilities of the hypotheses; shape (p, h)."""
        weight = np.exp(self.log_weight - self.log_weight.max(axis=1, keepdims=True))
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))

    def median_first(self, values: Floats) -> RankedHypotheses:
        """Move the hypothesis with the weighted median value to the first rank."""
        order = np.argsort(values, axis=1, kind="stable")
        total = np.take_along_axis(self.weights, order, axis=1).cumsum(axis=1)
        median = (total < 0.5 * total[:, -1:]).sum(axis=1, keepdims=True)
        rank = np.tile(np.arange(values.shape[1], dtype=float), (len(values), 1))
        np.put_along_axis(rank, np.take_along_axis(order, median, axis=1), -1.0, axis=1)
        rows, order = np.arange(len(values))[:, None], np.argsort(rank, axis=1)
        moved = ("terms", "used", "coefficient", "log_weight")
        return replace(self, **{name: getattr(self, name)[rows, order] for name in moved})


class _LeastSquaresFit(NamedTuple):
    """QR solution of the hypotheses."""

    residual: Floats  # (p, h): sums of squares
    coefficient: Floats  # (p, h, k)
    inverse: Floats  # (p, h, k, k): R^-1; R^-1 R^-T is the unscaled covariance
    basis: list[Floats]  # k columns of Q and the residuals, each (p, h, n)


def rank_hypotheses(
    points: Floats,
    estimates: PointEstimates,
    spaces: Sequence[TermSpace],
    two_terms: bool,
    criterion: str,
    negative: float,
) -> RankedHypotheses:
    """Find the most probable hypotheses of each call path."""
    n_points = len(points)
    reference = np.abs(estimates.centre).max(axis=1, keepdims=True)
    reference[reference == 0] = 1.0
    scale = estimate_scale(estimates.centre) / reference
    known = np.asarray(np.isfinite(estimates.error).all(axis=1))
    error = np.where(known[:, None], estimates.error / reference, scale)
    terms = [s.values(column) for s, column in zip(spaces, points.T, strict=True)]
    peak = [v.max(axis=1, keepdims=True) for v in terms]
    problem = Problem(
        points,
        [v / m for v, m in zip(terms, peak, strict=True)],
        [np.log(space.prior) for space in spaces],
        estimates.centre / reference,
        np.maximum(error, _COARSE * scale),
        known,
        np.where(estimates.mixed | (criterion != "evidence"), 0.0, log(1 / negative - 1)),
    )
    # Single terms that fit within the noise need no second term.
    enough = np.where(known, n_points - 2.0, -1.0) if two_terms else None
    found = score_hypotheses(problem, enough, _MAX_HYPOTHESES)
    # Points without repetitions are noiseless if a hypothesis fits exactly. It must have two fewer
    # columns than points, because some of a thousand hypotheses fit one more point by chance.
    n_columns = min(max(n_points - 2, 1), found.min_residual.shape[1])
    noiseless = ~known & (found.min_residual[:, n_columns - 1] < 1e-14 * n_points)
    # If no hypothesis fits within the noise, the errors of the points do not describe the misfit.
    is_misfit = known & (found.min_residual[:, -1] >= max_residual(n_points))
    repeat = noiseless | is_misfit
    if repeat.any():
        error = np.where(is_misfit[:, None], scale, error)
        error = np.where(noiseless[:, None], _EXACT * scale, error)
        coarse = np.maximum(error, _COARSE * scale)
        problem = replace(problem, error=coarse, known=(known | noiseless) & ~is_misfit)
        rows = np.flatnonzero(repeat)
        limit = None if enough is None else enough[rows]
        replace_rows(found, score_hypotheses(problem.take(rows), limit, _MAX_HYPOTHESES), repeat)
    # More points leave fewer likely hypotheses. Pairs of terms are not scored for all call paths.
    n_scored = sum(block.size for block in found.blocks if not block.pairs)
    keep = min(_MAX_HYPOTHESES, max(_MIN_HYPOTHESES, _MAX_SOLVED // n_points), n_scored)
    kept = decode(found, select_best(found, keep), problem.log_prior)
    fine = replace(problem, error=np.maximum(error, _EXACT * scale))
    logarithm = [space.polynomial == 0 for space in spaces]
    return _rank_exactly(kept, fine, peak, reference, scale, estimates, criterion, logarithm)


def _rank_exactly(
    kept: DecodedHypotheses,
    problem: Problem,
    peak: Sequence[Floats],
    reference: Floats,
    scale: Floats,
    estimates: PointEstimates,
    criterion: str,
    logarithm: Sequence[Bools],
) -> RankedHypotheses:
    """Solve the selected hypotheses exactly, and rank them."""
    target, error, known = problem.target, problem.error, problem.known
    n_points = target.shape[1]
    columns, unit, log_peak = _build_columns(kept, problem, peak)
    if len(problem.terms) > 1:
        _sort_columns(kept, columns, unit)
    solved = _least_squares(columns, (target / error)[:, None, :])
    if criterion == "evidence":
        _clip_negative(solved, columns, target / error, problem.penalty > 0)
    fit = kept.log_prior + log_fit(solved.residual, kept.used.sum(axis=2), n_points, known)
    volume = np.where(kept.used, np.log(np.einsum("phkk->phk", solved.inverse)), 0.0).sum(axis=2)
    volume = log_peak + volume
    if len(problem.terms) > 1 and not is_grid(problem.points):
        volume -= open_range(np.abs(solved.coefficient).sum(axis=2), kept.used.sum(axis=2))
    evidence = fit + volume
    penalty = np.repeat(problem.penalty, kept.used[0].size).reshape(kept.used.shape)
    for q, is_logarithm in enumerate(logarithm):
        penalty[np.append(False, is_logarithm)[kept.terms[:, :, :, q]]] = 0.0
    loss = _negative_penalty(solved, penalty)
    if criterion == "evidence":
        score, coefficient = _score_evidence(
            evidence, penalty, kept, columns, solved, problem, reference, estimates
        )
    else:
        score, coefficient = _cross_validate(solved, kept.used, criterion), solved.coefficient
    order = np.argsort(-score, axis=1, kind="stable")
    rows = np.arange(len(order))[:, None]
    first = rows[:, 0], order[:, 0]
    weighted = np.array([column[first] for column in columns])
    fitted = np.einsum("kpn,pk->pn", weighted, coefficient[first])
    misfit = ((fitted - target / error) ** 2).sum(axis=1)
    # Without the prior, some hypothesis with a negative coefficient is far more probable.
    gain = np.where(loss > 0, evidence, -np.inf).max(axis=1) - evidence[first]
    decided = (loss[first] == 0) & (gain > 1.0)
    noiseless = np.flatnonzero(known & (error == _EXACT * scale).all(axis=1))
    if noiseless.size:
        exact = coefficient[noiseless]
        coefficient[noiseless] = _drop_rounding(exact, columns, solved, error, noiseless)
    return RankedHypotheses(
        terms=kept.terms[rows, order],
        used=kept.used[rows, order],
        coefficient=(coefficient * reference[:, :, None] / unit)[rows, order],
        log_weight=score[rows, order],
        trusted=known & (misfit < max_residual(n_points)),
        decided=decided,
    )


def _build_columns(
    kept: DecodedHypotheses, problem: Problem, peak: Sequence[Floats]
) -> tuple[list[Floats], Floats, Floats]:
    """Return the columns at the points, weighted by the errors, their units and log maxima."""
    with_one = [np.vstack([np.ones(t.shape[1]), t]).T for t in problem.terms]
    peak_one = [np.vstack([np.ones((1, 1)), m])[:, 0] for m in peak]
    n_paths, n_kept, width = kept.used.shape
    columns, log_peak = [], np.zeros((n_paths, n_kept))
    unit = short_axes_last(np.ones((width, n_paths, n_kept)))
    weight = 1.0 / problem.error.T[:, :, None]
    for k in range(width):
        used = kept.used[:, :, k]
        column = np.repeat(used[None].astype(float), len(weight), axis=0)
        for q in range(len(problem.terms)):
            number = kept.terms[:, :, k, q]
            if number.any():
                column *= with_one[q].take(number, axis=1)
                unit[:, :, k] *= peak_one[q][number]
        with np.errstate(divide="ignore"):
            log_peak += np.log(np.where(used, column.max(axis=0), 1.0))
        column *= weight
        columns.append(short_axes_last(column))
    return columns, unit, log_peak


def _sort_columns(kept: DecodedHypotheses, columns: list[Floats], unit: Floats) -> None:
    """Sort the columns by their sums, the constant first."""
    constant = kept.used & ~kept.terms.any(axis=3)
    total = np.stack([column.sum(axis=2) for column in columns], axis=2)
    key = np.where(constant, -np.inf, np.where(kept.used, total, np.inf))
    order = np.argsort(key, axis=2, kind="stable")
    # Most columns are already sorted.
    moved = np.nonzero((order != np.arange(order.shape[2])).any(axis=2))
    unsorted = [column[moved] for column in columns]
    for column, source in zip(columns, order[moved].T, strict=True):
        column[moved] = np.choose(source[:, None], unsorted)
    pair = np.arange(len(moved[0]))[:, None]
    for array in (kept.terms, kept.used, unit):
        array[moved] = array[moved][pair, order[moved]]


def _least_squares(columns: list[Floats], target: Floats) -> _LeastSquaresFit:
    """Solve by modified Gram-Schmidt; columns of zeros get the coefficient 0."""
    k = len(columns)
    shape = columns[0].shape[:2]
    factor = short_axes_last(np.zeros((k, k, *shape)))
    projection = short_axes_last(np.zeros((k, *shape)))
    rest = np.broadcast_to(target, columns[0].shape)
    basis: list[Floats] = []
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
    return _LeastSquaresFit(
        np.einsum("phn,phn->ph", rest, rest),
        np.einsum("phab,phb->pha", inverse, projection),
        inverse,
        [*basis, rest],
    )


def _clip_negative(
    solved: _LeastSquaresFit, columns: list[Floats], target: Floats, rows: Bools
) -> None:
    """Set negative coefficients to 0 if the model of positive values is negative at a point."""
    below = (target[:, None] - solved.basis[-1]).min(axis=2) < 0
    pair = np.nonzero(below & rows[:, None])
    solved.coefficient[pair] = np.maximum(solved.coefficient[pair], 0.0)
    fitted = np.einsum("kmn,mk->mn", [c[pair] for c in columns], solved.coefficient[pair])
    solved.residual[pair] = ((target[pair[0]] - fitted) ** 2).sum(axis=1)


def _cross_validate(solved: _LeastSquaresFit, used: Bools, criterion: str) -> Floats:
    """Return -n/2 times the logarithm of the cross-validation error, (p, h)."""
    *basis, rest = solved.basis
    n = rest.shape[2]
    folds = n if criterion == "loo" else min(_FOLDS, n)
    total = np.zeros(rest.shape[:2])
    for fold in range(folds):
        part = slice(fold, None, folds)
        q = np.stack([column[:, :, part] for column in basis], axis=3)
        residual_maker = np.eye(q.shape[2]) - np.einsum("phak,phbk->phab", q, q)
        # The matrix is singular if the fit is undetermined without the fold.
        residual_maker += 1e-9 * np.eye(q.shape[2])
        errors = np.linalg.solve(residual_maker, rest[:, :, part, None])[..., 0]
        total += (errors**2).sum(axis=2)
    is_undetermined = used.sum(axis=2) >= n
    return np.where(is_undetermined, -np.inf, -0.5 * n * np.log(np.maximum(total, 1e-300)))


def _drop_rounding(
    coefficient: Floats, columns: list[Floats], solved: _LeastSquaresFit, error: Floats, rows: Index
) -> Floats:
    """Set coefficients of noiseless values to 0 if they are rounding errors."""
    inverse = solved.inverse[rows]
    spread = np.sqrt(np.einsum("phab,phab->pha", inverse, inverse))
    # A column is 1 at the largest values of all parameters, which may not be a point.
    corner = 1.0 / error[rows].max(axis=1)[:, None]
    peak = np.stack([np.maximum(c.max(axis=2)[rows], corner) for c in columns], axis=2)
    limit = np.minimum(_MAX_ZERO_ERRORS * spread, _MAX_ADDED / peak)
    return np.where(np.abs(coefficient) <= limit, 0.0, coefficient)


def _negative_penalty(solved: _LeastSquaresFit, penalty: Floats) -> Floats:
    """Return the penalty of each hypothesis, (p, h), from that of each negative coefficient."""
    return np.asarray(np.where(solved.coefficient < 0, penalty, 0.0).max(axis=2))


def _score_evidence(
    evidence: Floats,
    penalty: Floats,
    kept: DecodedHypotheses,
    columns: list[Floats],
    solved: _LeastSquaresFit,
    problem: Problem,
    reference: Floats,
    estimates: PointEstimates,
) -> tuple[Floats, Floats]:
    """Return the log evidence with the penalties of negative coefficients, and coefficients."""
    score = evidence - _negative_penalty(solved, penalty)
    probability = np.where(problem.known, estimates.bounded, 0.0)
    rows = np.flatnonzero(probability > _MIN_BOUNDED)
    if not rows.size:
        return score, solved.coefficient
    is_likely = score[rows] > score[rows].max(axis=1, keepdims=True) - _MAX_LOG_GAP
    path, hypothesis = np.nonzero(is_likely)
    path = rows[path]
    # Pairs with equally many columns are computed together, without unused columns.
    order = np.argsort(kept.used.sum(axis=2)[path, hypothesis], kind="stable")
    pair = path[order], hypothesis[order]
    flat = np.ravel_multi_index(pair, evidence.shape)
    by_point = (np.moveaxis(c, 2, 0).reshape(c.shape[2], -1) for c in columns)
    design = np.array([c.take(flat, axis=1) for c in by_point]).T
    # Both are in units of each point's error, which cancels in the likelihood.
    lowest, highest, count = np.moveaxis(estimates.repetitions, 1, 0)
    unit = reference * problem.error
    repetitions = np.array([lowest / unit, highest / unit, count])[:, pair[0]]
    log_mean, mean = _weigh_samples(
        design,
        repetitions,
        solved.coefficient[pair],
        solved.inverse[pair],
        kept.used[pair],
        penalty[pair],
    )
    bounded = np.full(evidence.shape, -np.inf)
    bounded[pair] = (evidence + 0.5 * solved.residual)[pair] + log_mean
    # Bounded noise is impossible for call paths without a possible sample.
    possible = np.flatnonzero((bounded > -np.inf).any(axis=1))
    share = np.minimum(probability[possible, None], 1 - 1e-12)
    score[possible] = np.logaddexp(
        _log_softmax(score[possible]) + np.log1p(-share),
        _log_softmax(bounded[possible]) + np.log(share),
    )
    is_bounded = np.zeros(len(score), dtype=bool)
    is_bounded[possible] = share[:, 0] > 0.5
    replaced = (is_bounded[:, None] & (bounded > -np.inf))[pair]
    coefficient = solved.coefficient.copy()
    coefficient[pair[0][replaced], pair[1][replaced]] = mean[replaced]
    return score, coefficient


def _weigh_samples(
    design: Floats,
    repetitions: Floats,
    centre: Floats,
    spread: Floats,
    used: Bools,
    penalty: Floats,
) -> tuple[Floats, Floats]:
    """Return the log mean likelihood of bounded noise, and the mean coefficients, of each pair.

    Coefficients are sampled from their normal posterior (importance sampling).
    """
    n_pairs, width = centre.shape
    z = np.random.default_rng(0).standard_normal((_N_SAMPLES // 2, width))
    # With antithetic samples, the mean of a symmetric likelihood is exact.
    z = np.concatenate([z, -z])
    drawn = np.hstack([np.ones((_N_SAMPLES, 1)), z])
    log_mean = np.empty(n_pairs)
    mean = np.zeros(centre.shape)
    step = max(1, _MAX_ELEMENTS // _N_SAMPLES)
    for start in range(0, n_pairs, step):
        part = slice(start, start + step)
        k = used[part].sum(axis=1).max()
        exists = used[part, :k].T.astype(float)
        # Coefficients and model values are linear in the random numbers.
        linear = np.empty((k, 1 + k, exists.shape[1]))
        linear[:, 0] = centre[part, :k].T
        linear[:, 1:] = np.moveaxis(spread[part, :k, :k], 0, 2)
        linear *= exists[:, None]
        samples = drawn[:, : 1 + k]
        loss = np.where(samples @ linear < 0, penalty[part, :k].T[:, None], 0.0).max(axis=0)
        log_weight = _log_likelihood(design[part, :, :k].T, linear, samples, repetitions[:, part])
        log_weight += 0.5 * (z[:, :k] ** 2 @ exists)
        log_weight -= loss
        top = np.maximum(log_weight.max(axis=0), -1e300)
        weight = np.exp(log_weight - top)
        total = weight.sum(axis=0)
        with np.errstate(divide="ignore"):
            log_mean[part] = top + np.log(total) - log(_N_SAMPLES)
        weight = samples.T @ weight / np.maximum(total, 1e-300)
        mean[part, :k] = np.einsum("kjm,jm->mk", linear, weight)
    return log_mean, mean


def _log_softmax(values: Floats) -> Floats:
    return np.asarray(values - np.logaddexp.reduce(values, axis=1, keepdims=True))


def _log_likelihood(
    columns: Floats, linear: Floats, samples: Floats, repetitions: Floats
) -> Floats:
    """Return the log likelihood of bounded noise for each sample, shape (s, m)."""
    lowest, highest, count = repetitions.transpose(0, 2, 1)
    # Dividing the columns by the largest repetition saves a division for each sample.
    share = np.einsum("knm,kjm->njm", np.divide(columns, highest, order="C"), linear)
    shape = (len(samples), linear.shape[2])
    minimum, maximum, value = np.full(shape, np.inf), np.zeros(shape), np.empty(shape)
    for i, ratio in enumerate(highest / lowest):
        np.matmul(samples, share[i], out=value)
        np.minimum(minimum, value, out=minimum)
        np.maximum(maximum, np.multiply(value, ratio, out=value), out=maximum)
    above, below = 1.0 / np.maximum(minimum, 1e-300), 1.0 / np.maximum(maximum, 1e-300)
    half_width = np.maximum(np.maximum(above - 1.0, 1.0 - below), 1e-300)
    # The density is 1 / (2 h f) for a value f; log f is linearised at the mid-range.
    mid_range = (lowest + highest) / 2
    slope = np.einsum("njm,nm->jm", share, count * highest / mid_range)
    n = count.sum(axis=0)
    result: Floats = n - (count * np.log(mid_range)).sum(axis=0) - n * np.log(half_width)
    result -= samples @ slope
    return np.where(minimum > 0, result, -np.inf)
