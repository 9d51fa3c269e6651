"""Search of all hypotheses for a batch of call paths: sweep, keep the best, solve these exactly."""

# p = call paths, n = points, h = hypotheses kept, k = columns, q = parameters, t = terms

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._decode import Kept, decode
from ._enumerate import Sweep, is_grid, sweep_all
from ._evidence import EXPECTED, log_fit
from ._quadrature import NODES, integrate
from ._refine import least_squares, truncate

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# Least relative error of a point in the sweep, whose sums of squares cancel, and in the exact step.
_COARSE = 1e-6
_EXACT = 1e-12
# Most points times hypotheses solved exactly for a call path, if eight are left.
_POINTS_KEPT = 2000
# Hypotheses kept where points are missing from the grid, for each kept elsewhere.
_SPARSE_KEPT = 3


@dataclass(frozen=True)
class Problem:
    """Points and centres of a batch of call paths measured at the same points.

    Attributes
    ----------
    points : array, shape (n, q)
    centre, error : array, shape (p, n)
        `error` is NaN where no repetitions tell it.
    scale : array, shape (p, n)
        What an error is proportional to where it is not known; positive.
    """

    points: Array
    centre: Array
    error: Array
    scale: Array


@dataclass(frozen=True)
class Hypotheses:
    """The hypotheses kept, the most probable first.

    Attributes
    ----------
    terms : array of int, shape (p, h, k, q)
        Number of the term of each parameter in each column, counted from 1; 0 if it has no part.
    used : array of bool, shape (p, h, k)
        The column exists.
    coefficient : array, shape (p, h, k)
    log_evidence : array, shape (p, h)
    residual : array, shape (p, h)
        Weighted residual sum of squares.
    nodes : array, shape (p, h, g, k)
        Coefficients that the points leave open: g alternatives, of which one is the best where the
        points are a complete grid.
    log_share : array, shape (p, h, g)
        Log probability of each alternative, given the hypothesis.
    trusted : array of bool, shape (p,)
        The errors of the points are known and some hypothesis meets the points within them.
    """

    terms: Index
    used: NDArray[np.bool_]
    coefficient: Array
    log_evidence: Array
    residual: Array
    nodes: Array
    log_share: Array
    trusted: NDArray[np.bool_]


@dataclass(frozen=True)
class Options:
    """How to search.

    Attributes
    ----------
    keep : int
        Hypotheses kept for each call path.
    non_negative : bool
        Coefficients must not be negative.
    two_terms : bool
        One-parameter models may have a second term.
    """

    keep: int = 32
    non_negative: bool = True
    two_terms: bool = True


def search(
    problem: Problem, values: Sequence[Array], prior: Sequence[Array], options: Options
) -> Hypotheses:
    """Find the most probable hypotheses of every call path.

    Parameters
    ----------
    problem : Problem
    values : sequence of array, each shape (t_l, n)
        Terms of each parameter at the points.
    prior : sequence of array, each shape (t_l,)
        Their probabilities beforehand.
    options : Options
    """
    points, centre = problem.points, problem.centre
    reference = np.abs(centre).max(axis=1, keepdims=True)
    reference[reference == 0] = 1.0
    target = centre / reference
    scale = problem.scale / reference
    known = np.asarray(np.isfinite(problem.error).all(axis=1))
    error = np.where(known[:, None], problem.error / reference, scale)
    peak = [v.max(axis=1, keepdims=True) for v in values]
    terms = [v / m for v, m in zip(values, peak, strict=True)]
    log_prior = [np.log(p) for p in prior]

    # Where points are missing far more hypotheses remain likely, each with coefficients left open.
    narrow = len(terms) == 1 or is_grid(points)
    most = options.keep if narrow else _SPARSE_KEPT * options.keep
    # A single term that meets the points as well as noise allows leaves nothing to a second one.
    enough = np.where(known, len(points) - 2.0, -1.0) if options.two_terms else None

    def sweep_of(rows: Index | slice) -> Sweep:
        coarse = np.maximum(error[rows], _COARSE * scale[rows])
        return sweep_all(
            points, terms, log_prior, target[rows], coarse, known[rows], options.non_negative,
            None if enough is None else enough[rows], options.keep,
        )  # fmt: skip

    sweep = sweep_of(slice(None))
    # Points without repetitions that a hypothesis meets to the last digits have no noise.
    # With one point more than coefficients, one of a thousand hypotheses does so by chance.
    spare = min(max(len(points) - 2, 1), sweep.least.shape[1])
    exact = ~known & (sweep.least[:, spare - 1] < 1e-14 * len(points))
    if exact.any():
        error = np.where(exact[:, None], _EXACT * scale, error)
        known = known | exact
        _replace(sweep, sweep_of(np.flatnonzero(exact)), exact)
    # Where all hypotheses miss by more than noise, its unequal errors say nothing of the misfit.
    missed = known & (sweep.least[:, -1] >= _believable(len(points)))
    if missed.any():
        error = np.where(missed[:, None], scale, error)
        known = known & ~missed
        _replace(sweep, sweep_of(np.flatnonzero(missed)), missed)
    # The more points, the fewer hypotheses remain likely.
    keep = min(most, max(8, _POINTS_KEPT // len(points)), sweep.score.shape[1])
    chosen = np.argpartition(-sweep.score, keep - 1, axis=1)[:, :keep]
    kept = decode(np.take_along_axis(sweep.number, chosen, axis=1), sweep, log_prior)
    fine = np.maximum(error, _EXACT * scale)
    return _exact(kept, terms, peak, target, fine, known, reference, options, narrow)


def _replace(sweep: Sweep, again: Sweep, rows: NDArray[np.bool_]) -> None:
    """Put the rows swept again in their places."""
    for old, new in zip(
        (sweep.score, sweep.number, sweep.least, *sweep.picks),
        (again.score, again.number, again.least, *again.picks),
        strict=True,
    ):
        # What all call paths share is the same again, and cannot be written to.
        if old.flags.writeable:
            old[rows] = new


def _believable(n: int) -> float:
    """Weighted residual above which the stated errors cannot be true."""
    return n + 5.0 * float(np.sqrt(2.0 * n)) + 5.0


def _exact(
    kept: Kept,
    terms: Sequence[Array],
    peak: Sequence[Array],
    target: Array,
    error: Array,
    known: NDArray[np.bool_],
    reference: Array,
    options: Options,
    narrow: bool,
) -> Hypotheses:
    """Solve what is kept to the last digits and weigh it anew."""
    n_points = target.shape[1]
    with_one = [np.vstack([np.ones(n_points), t]) for t in terms]
    peak_one = [np.vstack([np.ones((1, 1)), m])[:, 0] for m in peak]
    columns, unit, log_peak = [], np.ones(kept.used.shape), np.zeros(kept.used.shape[:2])
    for k in range(kept.used.shape[2]):
        column = (kept.used[:, :, k, None] / error[:, None, :]).astype(float)
        for q in range(len(terms)):
            number = kept.terms[:, :, k, q]
            if number.any():
                column = column * with_one[q][number]
                unit[:, :, k] *= peak_one[q][number]
        largest = np.where(kept.used[:, :, k], (column * error[:, None, :]).max(axis=2), 1.0)
        log_peak += np.log(largest)
        columns.append(column)
    solved = least_squares(columns, (target / error)[:, None, :])
    n_columns = kept.used.sum(axis=2)
    fit = kept.log_prior + log_fit(solved.residual, n_columns, n_points, known)
    volume = np.where(kept.used, np.log(np.einsum("phkk->phk", solved.inverse)), 0.0).sum(axis=2)
    score = fit + log_peak + volume
    coefficient = solved.coefficient
    nodes = coefficient[:, :, None, :]
    log_share = np.zeros((*score.shape, 1))
    if options.non_negative:
        freedom = np.maximum(n_points - n_columns, 1)
        spread = np.maximum(solved.residual, EXPECTED**2 / 100) / freedom
        variance = np.where(known[:, None], 1.0, spread)
        coefficient, log_positive = truncate(coefficient, solved.inverse, variance, kept.used)
        # Nothing measured is nothing, not the least that a positive coefficient could be.
        coefficient[~target.any(axis=1)] = 0.0
        if narrow:
            score += log_positive
            nodes = coefficient[:, :, None, :]
        else:
            opened = integrate(solved.coefficient, solved.inverse, variance, kept.used)
            score = fit + opened.log_evidence
            nodes, log_share = opened.coefficient, opened.log_share
            nodes[~target.any(axis=1)] = 0.0
    elif not narrow:
        # As many alternatives as where coefficients are not negative, all the same.
        nodes = np.repeat(nodes, NODES, axis=2)
        log_share = np.full((*score.shape, NODES), -np.log(NODES))
    order = np.argsort(-score, axis=1, kind="stable")
    rows = np.arange(len(order))[:, None]
    return Hypotheses(
        terms=kept.terms[rows, order],
        used=kept.used[rows, order],
        coefficient=(coefficient * reference[:, :, None] / unit)[rows, order],
        log_evidence=score[rows, order],
        residual=solved.residual[rows, order],
        nodes=(nodes * reference[:, :, None, None] / unit[:, :, None, :])[rows, order],
        log_share=log_share[rows, order],
        trusted=known,
    )
