"""Exact fits and ranking of the best hypotheses of the search.

The criterion is the evidence of a hypothesis, or its error in leave-one-out or five-fold
cross-validation.
"""

# p = call paths, n = points, h = hypotheses, k = columns, q = parameters, t = terms
# m = pairs of a call path and a hypothesis, s = samples

from __future__ import annotations

import numbers
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import NamedTuple

import numpy as np

from toruscast.errors import InputError
from toruscast.typing import Bools, Floats
from toruscast.validation import one_of, whole_number

from .noise import PointEstimates, estimate_scale
from .search import (
    DecodedHypotheses,
    Index,
    Problem,
    decode_hypotheses,
    is_grid,
    log_coefficient_range,
    log_fit,
    max_residual,
    replace_rows,
    score_hypotheses,
    select_best,
    short_axes_last,
)
from .terms import TermSpace

CRITERIA = ("evidence", "loo", "kfold")
_FOLDS = 5
# Minimum relative error of a point: in the search, where sums of squares cancel; in exact fits.
_COARSE = 1e-6
_EXACT = 1e-12
# Values without repetitions are noiseless if the weighted residual per point is below this.
_NOISELESS_RESIDUAL = 1e-14
# The prior decides if an excluded hypothesis has a log evidence higher by more than this.
_MIN_LOG_GAIN = 1.0
# Maximum and minimum number of hypotheses that are solved exactly for each call path, and limit on
# this number times the number of points.
_MAX_HYPOTHESES = 32
_MIN_HYPOTHESES = 8
_MAX_SOLVED = 600
# In noiseless values, a coefficient is a rounding error if it is within `_MAX_ZERO_ERRORS` standard
# errors of 0, and if its column adds at most `_MAX_ADDED` errors to any value.
_MAX_ZERO_ERRORS = 5.0
_MAX_ADDED = 1e3
# The likelihood of bounded noise is computed only for call paths whose probability of bounded noise
# exceeds `_MIN_BOUNDED`, and only for hypotheses whose log evidence under normal noise is at most
# `_MAX_LOG_GAP` below the best.
_MIN_BOUNDED = 0.05
_MAX_LOG_GAP = 8.0
# Number of samples of a hypothesis's coefficients under bounded noise.
_N_SAMPLES = 16
_MAX_ELEMENTS = 16_000


@dataclass(frozen=True)
class FitOptions:
    """Options of the search for models.

    Parameters
    ----------
    space : {"default", "published", "fine"}, TermSpace or pairs of exponents
        Terms to search.
    max_terms : {1, 2}
        Maximum number of terms in a model of one parameter, not counting the constant.
    noise : {"auto", "normal", "bounded"}
        Distribution of the noise of repetitions.
    select : {"evidence", "loo", "kfold"}
        Criterion: the evidence of a model, or its error in leave-one-out or five-fold
        cross-validation.
    negative : float
        Prior probability that a coefficient is negative, for the evidence; above 0 and at most 0.5.
        It is small because costs add up. Coefficients of logarithms may have either sign, because
        times may decrease logarithmically [Shudler18].
    """

    space: TermSpace | str | Iterable[tuple[float, float]] = "default"
    max_terms: int = 2
    noise: str = "auto"
    select: str = "evidence"
    negative: float = 0.05

    def __post_init__(self) -> None:
        if not isinstance(self.space, str):
            # An iterator of pairs can be read only once.
            object.__setattr__(self, "space", TermSpace.from_exponents(self.space))
        whole_number(self.max_terms, "max_terms", 1, 2)
        one_of(self.noise, "law of noise", ("auto", "normal", "bounded"))
        one_of(self.select, "criterion", tuple(CRITERIA))
        if not isinstance(self.negative, numbers.Real) or not 0 < self.negative <= 0.5:
            message, expected = "bad prior of negative coefficients", "above 0, at most 0.5"
            raise InputError(message, found=self.negative, expected=expected)


class RankedHypotheses(NamedTuple):
    """Hypotheses of each call path: first the one that predicts, then the others by probability."""

    terms: Index  # (p, h, k, q): index of each parameter's term plus 1; 0 without a term
    used: Bools  # (p, h, k): whether the column exists
    coefficient: Floats  # (p, h, k)
    log_weight: Floats  # (p, h): log evidence, or the score of the criterion
    trusted: Bools  # (p,): whether the errors are known and a hypothesis fits within them
    prior_decided: Bools  # (p,): whether the prior against negative coefficients chose the first

    @property
    def weights(self) -> Floats:
        """Probabilities of the hypotheses; shape (p, h)."""
        return np.asarray(np.exp(_log_softmax(self.log_weight)))

    def median_first(self, values: Floats) -> RankedHypotheses:
        """Move the hypothesis whose value is the weighted median to the first rank."""
        order = np.argsort(values, axis=1, kind="stable")
        total = np.take_along_axis(self.weights, order, axis=1).cumsum(axis=1)
        median = (total < 0.5 * total[:, -1:]).sum(axis=1, keepdims=True)
        rank = np.tile(np.arange(values.shape[1], dtype=float), (len(values), 1))
        np.put_along_axis(rank, np.take_along_axis(order, median, axis=1), -1.0, axis=1)
        rows, order = np.arange(len(values))[:, None], np.argsort(rank, axis=1)
        moved = ("terms", "used", "coefficient", "log_weight")
        return self._replace(**{name: getattr(self, name)[rows, order] for name in moved})


class _LeastSquaresFit(NamedTuple):
    """Least-squares solutions of the hypotheses, from QR decompositions."""

    residual: Floats  # (p, h): sums of squares
    coefficient: Floats  # (p, h, k)
    inverse: Floats  # (p, h, k, k): R^-1; R^-1 R^-T is the unscaled covariance
    basis: list[Floats]  # k columns of Q and the residuals, each (p, h, n)


def rank_hypotheses(
    points: Floats, estimates: PointEstimates, spaces: Sequence[TermSpace], options: FitOptions
) -> RankedHypotheses:
    """Find the most probable hypotheses of each call path.

    The evidence of all hypotheses is approximated by normal equations, and the best are solved
    exactly. ``spaces`` contains the terms of each parameter, in the order of the columns of
    ``points``.
    """
    n_points = len(points)
    reference = np.abs(estimates.centre).max(axis=1, keepdims=True)
    reference[reference == 0] = 1.0
    scale = estimate_scale(estimates.centre) / reference
    known = np.asarray(np.isfinite(estimates.error).all(axis=1))
    error = np.where(known[:, None], estimates.error / reference, scale)
    terms = [s.values(column) for s, column in zip(spaces, points.T, strict=True)]
    peak = [v.max(axis=1, keepdims=True) for v in terms]
    is_free = estimates.mixed | (options.select != "evidence")
    problem = Problem(
        points=points,
        terms=[v / m for v, m in zip(terms, peak, strict=True)],
        log_prior=[np.log(space.prior) for space in spaces],
        target=estimates.centre / reference,
        error=np.maximum(error, _COARSE * scale),
        known=known,
        penalty=np.where(is_free, 0.0, log(1 / options.negative - 1)),
    )
    # A second term is not needed if a constant and one term leave the residual expected of noise.
    max_single_residual = np.where(known, n_points - 2.0, -1.0) if options.max_terms > 1 else None
    scores = score_hypotheses(problem, max_single_residual, _MAX_HYPOTHESES)
    # Points without repetitions are noiseless if a hypothesis fits exactly. It must have at least
    # two columns fewer than there are points; with only one fewer, some of a thousand hypotheses
    # fit by chance.
    n_columns = min(max(n_points - 2, 1), scores.min_residual.shape[1])
    max_noiseless = _NOISELESS_RESIDUAL * n_points
    noiseless = ~known & (scores.min_residual[:, n_columns - 1] < max_noiseless)
    # If no hypothesis fits within the noise, the known errors do not describe the residuals.
    is_misfit = known & (scores.min_residual[:, -1] >= max_residual(n_points))
    is_repeated = noiseless | is_misfit
    if is_repeated.any():
        error = np.where(is_misfit[:, None], scale, error)
        error = np.where(noiseless[:, None], _EXACT * scale, error)
        coarse = np.maximum(error, _COARSE * scale)
        problem = replace(problem, error=coarse, known=(known | noiseless) & ~is_misfit)
        rows = np.flatnonzero(is_repeated)
        limit = None if max_single_residual is None else max_single_residual[rows]
        new_scores = score_hypotheses(problem.take(rows), limit, _MAX_HYPOTHESES)
        replace_rows(scores, new_scores, is_repeated)
    # With more points, fewer hypotheses are likely, so keep fewer. Do not count pairs, which are
    # not scored for all call paths.
    n_scored = sum(block.size for block in scores.blocks if not block.pairs)
    keep = min(_MAX_HYPOTHESES, max(_MIN_HYPOTHESES, _MAX_SOLVED // n_points), n_scored)
    hypotheses = decode_hypotheses(scores, select_best(scores, keep), problem.log_prior)
    fine = replace(problem, error=np.maximum(error, _EXACT * scale))
    logarithm = [space.polynomial == 0 for space in spaces]
    return _rank_exactly(
        hypotheses, fine, peak, reference, scale, estimates, options.select, logarithm
    )


def _rank_exactly(
    chosen: DecodedHypotheses,
    problem: Problem,
    peak: Sequence[Floats],
    reference: Floats,
    scale: Floats,
    estimates: PointEstimates,
    criterion: str,
    logarithm: Sequence[Bools],
) -> RankedHypotheses:
    """Solve the selected hypotheses by a QR decomposition, and rank them by the criterion.

    ``problem`` is normalised: its values are divided by ``reference``, (p, 1), and its terms by
    ``peak``, (t_q, 1). ``scale`` is the scale of relative errors, (p, n). ``logarithm`` marks the
    terms of each parameter that are pure logarithms, (t_q,).
    """
    target, error, known = problem.target, problem.error, problem.known
    n_points = target.shape[1]
    columns, unit, log_peak = _build_columns(chosen, problem, peak)
    if len(problem.terms) > 1:
        _sort_columns(chosen, columns, unit)
    solved = _least_squares(columns, (target / error)[:, None, :])
    if criterion == "evidence":
        _clip_negative(solved, columns, target / error, problem.penalty > 0)
    fit = chosen.log_prior + log_fit(solved.residual, chosen.used.sum(axis=2), n_points, known)
    volume = np.where(chosen.used, np.log(np.einsum("phkk->phk", solved.inverse)), 0.0).sum(axis=2)
    volume = log_peak + volume
    if len(problem.terms) > 1 and not is_grid(problem.points):
        total = np.abs(solved.coefficient).sum(axis=2)
        volume -= log_coefficient_range(total, chosen.used.sum(axis=2))
    evidence = fit + volume
    penalty = np.repeat(problem.penalty, chosen.used[0].size).reshape(chosen.used.shape)
    for q, is_logarithm in enumerate(logarithm):
        penalty[np.append(False, is_logarithm)[chosen.terms[:, :, :, q]]] = 0.0
    loss = _negative_penalty(solved, penalty)
    if criterion == "evidence":
        score, coefficient = _score_evidence(
            evidence, penalty, chosen, columns, solved, problem, reference, estimates
        )
    else:
        score, coefficient = _cross_validate(solved, chosen.used, criterion), solved.coefficient
    order = np.argsort(-score, axis=1, kind="stable")
    rows = np.arange(len(order))[:, None]
    best = rows[:, 0], order[:, 0]
    weighted = np.array([column[best] for column in columns])
    fitted = np.einsum("kpn,pk->pn", weighted, coefficient[best])
    misfit = ((fitted - target / error) ** 2).sum(axis=1)
    # Log evidence of the best hypothesis with a penalised coefficient, minus that of the first one.
    evidence_lost = np.where(loss > 0, evidence, -np.inf).max(axis=1) - evidence[best]
    noiseless = np.flatnonzero(known & (error == _EXACT * scale).all(axis=1))
    if noiseless.size:
        exact = coefficient[noiseless]
        coefficient[noiseless] = _drop_rounding(exact, columns, solved, error, noiseless)
    return RankedHypotheses(
        terms=chosen.terms[rows, order],
        used=chosen.used[rows, order],
        coefficient=(coefficient * reference[:, :, None] / unit)[rows, order],
        log_weight=score[rows, order],
        trusted=known & (misfit < max_residual(n_points)),
        prior_decided=(loss[best] == 0) & (evidence_lost > _MIN_LOG_GAIN),
    )


def _build_columns(
    hypotheses: DecodedHypotheses, problem: Problem, peak: Sequence[Floats]
) -> tuple[list[Floats], Floats, Floats]:
    """Return the columns of all hypotheses, their units, and the log product of their maxima.

    There are k columns of shape (p, h, n), divided by the errors. Units, (p, h, k), are the factors
    by which terms were divided. The log products have the shape (p, h).
    """
    with_one = [np.vstack([np.ones(t.shape[1]), t]).T for t in problem.terms]
    peak_one = [np.vstack([np.ones((1, 1)), m])[:, 0] for m in peak]
    n_paths, n_kept, width = hypotheses.used.shape
    columns, log_peak = [], np.zeros((n_paths, n_kept))
    unit = short_axes_last(np.ones((width, n_paths, n_kept)))
    weight = 1.0 / problem.error.T[:, :, None]
    for k in range(width):
        used = hypotheses.used[:, :, k]
        column = np.repeat(used[None].astype(float), len(weight), axis=0)
        for q in range(len(problem.terms)):
            number = hypotheses.terms[:, :, k, q]
            if number.any():
                column *= with_one[q].take(number, axis=1)
                unit[:, :, k] *= peak_one[q][number]
        with np.errstate(divide="ignore"):
            log_peak += np.log(np.where(used, column.max(axis=0), 1.0))
        column *= weight
        columns.append(short_axes_last(column))
    return columns, unit, log_peak


def _sort_columns(hypotheses: DecodedHypotheses, columns: list[Floats], unit: Floats) -> None:
    """Sort the columns of each hypothesis by their sums over the points, the constant first."""
    constant = hypotheses.used & ~hypotheses.terms.any(axis=3)
    total = np.stack([column.sum(axis=2) for column in columns], axis=2)
    key = np.where(constant, -np.inf, np.where(hypotheses.used, total, np.inf))
    order = np.argsort(key, axis=2, kind="stable")
    # Most columns are already sorted.
    moved = np.nonzero((order != np.arange(order.shape[2])).any(axis=2))
    unsorted = [column[moved] for column in columns]
    for column, source in zip(columns, order[moved].T, strict=True):
        column[moved] = np.choose(source[:, None], unsorted)
    pair = np.arange(len(moved[0]))[:, None]
    for array in (hypotheses.terms, hypotheses.used, unit):
        array[moved] = array[moved][pair, order[moved]]


def _least_squares(columns: list[Floats], target: Floats) -> _LeastSquaresFit:
    """Solve least squares for all hypotheses at once, by modified Gram-Schmidt orthogonalisation.

    ``columns`` are k arrays (p, h, n), and ``target`` is (p, 1, n). Columns of zeros get the
    coefficient 0.
    """
    k = len(columns)
    shape = columns[0].shape[:2]
    factor = short_axes_last(np.zeros((k, k, *shape)))
    projection = short_axes_last(np.zeros((k, *shape)))
    residuals = np.broadcast_to(target, columns[0].shape)
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
        projection[:, :, a] = np.einsum("phn,phn->ph", q, residuals)
        step = projection[:, :, a, None] * q
        residuals = np.subtract(residuals, step, out=step)
    inverse = np.zeros_like(factor)
    for a in range(k):
        inverse[:, :, a, a] = 1.0 / factor[:, :, a, a]
        for b in range(a - 1, -1, -1):
            row, column = factor[:, :, b, b + 1 : a + 1], inverse[:, :, b + 1 : a + 1, a]
            inverse[:, :, b, a] = -np.einsum("phc,phc->ph", row, column) / factor[:, :, b, b]
    return _LeastSquaresFit(
        np.einsum("phn,phn->ph", residuals, residuals),
        np.einsum("phab,phb->pha", inverse, projection),
        inverse,
        [*basis, residuals],
    )


def _clip_negative(
    solved: _LeastSquaresFit, columns: list[Floats], target: Floats, rows: Bools
) -> None:
    """Set negative coefficients in call paths ``rows`` to 0 if the model is negative at a point."""
    below = (target[:, None] - solved.basis[-1]).min(axis=2) < 0
    pair = np.nonzero(below & rows[:, None])
    solved.coefficient[pair] = np.maximum(solved.coefficient[pair], 0.0)
    fitted = np.einsum("kmn,mk->mn", [c[pair] for c in columns], solved.coefficient[pair])
    solved.residual[pair] = ((target[pair[0]] - fitted) ** 2).sum(axis=1)


def _cross_validate(solved: _LeastSquaresFit, used: Bools, criterion: str) -> Floats:
    """Return -n/2 times the logarithm of the sum of squared cross-validation errors, (p, h)."""
    *basis, residuals = solved.basis
    n = residuals.shape[2]
    folds = n if criterion == "loo" else min(_FOLDS, n)
    total = np.zeros(residuals.shape[:2])
    for fold in range(folds):
        rows = slice(fold, None, folds)
        q = np.stack([column[:, :, rows] for column in basis], axis=3)
        residual_maker = np.eye(q.shape[2]) - np.einsum("phak,phbk->phab", q, q)
        # The errors of a left-out fold are (I - Q Q^T)^-1 times its residuals, where Q has only the
        # rows of this fold. The matrix is singular if the other folds do not determine the fit.
        residual_maker += 1e-9 * np.eye(q.shape[2])
        errors = np.linalg.solve(residual_maker, residuals[:, :, rows, None])[..., 0]
        total += (errors**2).sum(axis=2)
    is_undetermined = used.sum(axis=2) >= n
    return np.where(is_undetermined, -np.inf, -0.5 * n * np.log(np.maximum(total, 1e-300)))


def _drop_rounding(
    coefficient: Floats, columns: list[Floats], solved: _LeastSquaresFit, error: Floats, rows: Index
) -> Floats:
    """Set coefficients of noiseless call paths, ``rows``, to 0 if they are rounding errors."""
    inverse = solved.inverse[rows]
    spread = np.sqrt(np.einsum("phab,phab->pha", inverse, inverse))
    # Where all parameters have their largest values, a column is 1, even if no point is there.
    corner = 1.0 / error[rows].max(axis=1)[:, None]
    peak = np.stack([np.maximum(c.max(axis=2)[rows], corner) for c in columns], axis=2)
    limit = np.minimum(_MAX_ZERO_ERRORS * spread, _MAX_ADDED / peak)
    return np.where(np.abs(coefficient) <= limit, 0.0, coefficient)


def _negative_penalty(solved: _LeastSquaresFit, penalty: Floats) -> Floats:
    """Return, for each hypothesis, the maximum penalty of its negative coefficients, (p, h)."""
    return np.asarray(np.where(solved.coefficient < 0, penalty, 0.0).max(axis=2))


def _score_evidence(
    evidence: Floats,
    penalty: Floats,
    hypotheses: DecodedHypotheses,
    columns: list[Floats],
    solved: _LeastSquaresFit,
    problem: Problem,
    reference: Floats,
    estimates: PointEstimates,
) -> tuple[Floats, Floats]:
    """Return log evidence minus penalty, (p, h), and coefficients, (p, h, k).

    The noise is a mixture of normal and bounded noise, weighted by the call path's probability of
    bounded noise. ``evidence`` is the log evidence under normal noise.
    """
    score = evidence - _negative_penalty(solved, penalty)
    probability = np.where(problem.known, estimates.bounded, 0.0)
    rows = np.flatnonzero(probability > _MIN_BOUNDED)
    if not rows.size:
        return score, solved.coefficient
    is_likely = score[rows] > score[rows].max(axis=1, keepdims=True) - _MAX_LOG_GAP
    path, hypothesis = np.nonzero(is_likely)
    path = rows[path]
    # Pairs with the same number of columns are computed together, so that no column is unused.
    order = np.argsort(hypotheses.used.sum(axis=2)[path, hypothesis], kind="stable")
    pair = path[order], hypothesis[order]
    flat = np.ravel_multi_index(pair, evidence.shape)
    by_point = (np.moveaxis(c, 2, 0).reshape(c.shape[2], -1) for c in columns)
    design = np.array([c.take(flat, axis=1) for c in by_point]).T
    # Columns and repetitions are in units of each point's error, which cancels in the likelihood.
    lowest, highest, count = np.moveaxis(estimates.repetitions, 1, 0)
    unit = reference * problem.error
    repetitions = np.array([lowest / unit, highest / unit, count])[:, pair[0]]
    normal = solved.coefficient[pair], solved.inverse[pair]
    log_mean, mean = _weigh_samples(
        design, repetitions, *normal, hypotheses.used[pair], penalty[pair]
    )
    bounded = np.full(evidence.shape, -np.inf)
    bounded[pair] = (evidence + 0.5 * solved.residual)[pair] + log_mean
    # If no sample of a call path has a positive likelihood, its noise is not bounded.
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
    """Return the log mean likelihood of bounded noise, (m,), and mean coefficients, (m, k).

    The method is importance sampling: coefficients are drawn from the posterior under normal noise,
    ``centre`` plus ``spread`` times random numbers, and reweighted by the likelihood of bounded
    noise. ``design`` contains the columns, (m, n, k); ``repetitions`` contains the minimum, maximum
    and number of repetitions, (3, m, n).
    """
    n_pairs, width = centre.shape
    z = np.random.default_rng(0).standard_normal((_N_SAMPLES // 2, width))
    # If the likelihood is symmetric, antithetic samples give the exact mean.
    z = np.concatenate([z, -z])
    drawn = np.hstack([np.ones((_N_SAMPLES, 1)), z])
    log_mean = np.empty(n_pairs)
    mean = np.zeros(centre.shape)
    step = max(1, _MAX_ELEMENTS // _N_SAMPLES)
    for start in range(0, n_pairs, step):
        pairs = slice(start, start + step)
        k = used[pairs].sum(axis=1).max()
        exists = used[pairs, :k].T.astype(float)
        # Coefficients and model values are linear functions of the random numbers.
        linear = np.empty((k, 1 + k, exists.shape[1]))
        linear[:, 0] = centre[pairs, :k].T
        linear[:, 1:] = np.moveaxis(spread[pairs, :k, :k], 0, 2)
        linear *= exists[:, None]
        samples = drawn[:, : 1 + k]
        loss = np.where(samples @ linear < 0, penalty[pairs, :k].T[:, None], 0.0).max(axis=0)
        log_weight = _log_likelihood(design[pairs, :, :k].T, linear, samples, repetitions[:, pairs])
        log_weight += 0.5 * (z[:, :k] ** 2 @ exists)
        log_weight -= loss
        max_log_weight = np.maximum(log_weight.max(axis=0), -1e300)
        weight = np.exp(log_weight - max_log_weight)
        total = weight.sum(axis=0)
        with np.errstate(divide="ignore"):
            log_mean[pairs] = max_log_weight + np.log(total) - log(_N_SAMPLES)
        weight = samples.T @ weight / np.maximum(total, 1e-300)
        mean[pairs, :k] = np.einsum("kjm,jm->mk", linear, weight)
    return log_mean, mean


def _log_softmax(values: Floats) -> Floats:
    """Return the logarithm of the softmax of each row."""
    return np.asarray(values - np.logaddexp.reduce(values, axis=1, keepdims=True))


def _log_likelihood(
    columns: Floats, linear: Floats, samples: Floats, repetitions: Floats
) -> Floats:
    """Return the log likelihood of bounded noise for each sample, shape (s, m).

    The coefficients of sample s are ``samples[s] @ linear``. Where the model has the value f,
    repetitions are uniform between f (1 - h) and f (1 + h); h is the smallest half-width that
    includes all repetitions.
    """
    lowest, highest, count = repetitions.transpose(0, 2, 1)
    # Dividing the columns by the largest repetition once saves dividing each sample's values.
    share = np.einsum("knm,kjm->njm", np.divide(columns, highest, order="C"), linear)
    shape = (len(samples), linear.shape[2])
    minimum, maximum, value = np.full(shape, np.inf), np.zeros(shape), np.empty(shape)
    for i, ratio in enumerate(highest / lowest):
        np.matmul(samples, share[i], out=value)
        np.minimum(minimum, value, out=minimum)
        np.maximum(maximum, np.multiply(value, ratio, out=value), out=maximum)
    above, below = 1.0 / np.maximum(minimum, 1e-300), 1.0 / np.maximum(maximum, 1e-300)
    half_width = np.maximum(np.maximum(above - 1.0, 1.0 - below), 1e-300)
    # The density is 1 / (2 h f), where f is the model value and h is the smallest possible relative
    # half-width. The logarithm of f is linearised at the mid-range.
    mid_range = (lowest + highest) / 2
    slope = np.einsum("njm,nm->jm", share, count * highest / mid_range)
    n = count.sum(axis=0)
    result: Floats = n - (count * np.log(mid_range)).sum(axis=0) - n * np.log(half_width)
    result -= samples @ slope
    return np.where(minimum > 0, result, -np.inf)
