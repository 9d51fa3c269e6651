"""Exact solutions and weights of the hypotheses that the sweep kept."""

# p = call paths, n = points, h = hypotheses kept, k = columns, q = parameters, t = terms

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from ._bounded import Repetitions, likely, weigh
from ._decode import Kept, short_axes_last
from ._evidence import EXPECTED, believable, log_fit, log_shares
from ._quadrature import NODES, Open, integrate, integrate_bounded
from ._refine import LeastSquares, least_squares, truncate

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# With values free of noise, a coefficient is a rounding error if it is within this many of its
# errors of zero, and adds at most this many errors to any value.
_WITHIN = 5.0
_ADDS = 1e3
# Bounded noise is left out if its probability is not above this.
_DOUBTFUL = 0.05


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
        Alternative coefficients, where the points leave them open; a complete grid has g = 1.
    log_share : array, shape (p, h, g)
        Log probability of each alternative, given the hypothesis.
    trusted : array of bool, shape (p,)
        The errors of the points are known, and some hypothesis meets the points within them.
    """

    terms: Index
    used: NDArray[np.bool_]
    coefficient: Array
    log_evidence: Array
    residual: Array
    nodes: Array
    log_share: Array
    trusted: NDArray[np.bool_]


class Measured(NamedTuple):
    """Measured values, each call path in units of its reference."""

    target: Array  # (p, n)
    error: Array  # (p, n)
    known: NDArray[np.bool_]  # (p,) the errors are known, not only their ratios
    noiseless: NDArray[np.bool_]  # (p,) they are those of the last digits
    reference: Array  # (p, 1)
    bounded: Array  # (p,) probability of bounded noise
    repetitions: Repetitions  # in units of what was measured


class _Design(NamedTuple):
    """The columns of the hypotheses at the points, in units of each point's error."""

    columns: list[Array]  # k of (p, h, n)
    unit: Array  # (p, h, k) what a column was divided by
    log_peak: Array  # (p, h) logarithm of the product of the columns' largest values


class _Weighed(NamedTuple):
    """Coefficients and evidence of the hypotheses, as in `Hypotheses` but in their own units."""

    score: Array  # (p, h)
    coefficient: Array  # (p, h, k)
    nodes: Array  # (p, h, g, k)
    log_share: Array  # (p, h, g)


def exact(
    kept: Kept,
    terms: Sequence[Array],
    peak: Sequence[Array],
    measured: Measured,
    *,
    non_negative: bool,
    narrow: bool,
) -> Hypotheses:
    """Solve the hypotheses kept exactly, and weigh them again."""
    design = _design(kept, terms, peak, measured.error)
    if len(terms) > 1:
        _put_in_order(kept, design)
    solved = least_squares(design.columns, (measured.target / measured.error)[:, None, :])
    n_points = measured.target.shape[1]
    fit = log_fit(solved.residual, kept.used.sum(axis=2), n_points, measured.known)
    fit = kept.log_prior + fit
    volume = np.where(kept.used, np.log(np.einsum("phkk->phk", solved.inverse)), 0.0).sum(axis=2)
    volume = design.log_peak + volume
    if non_negative:
        found = _non_negative(kept, solved, fit, volume, measured, narrow)
        found = _bounded(found, kept, design, solved, fit, volume, measured, narrow)
        # A hypothesis with a single term has no share to lose.
        if narrow and len(terms) > 1:
            shares = log_shares(found.coefficient, kept.used)
            found = found._replace(score=found.score + shares)
    else:
        # The number of alternatives must be that of other call paths; here all of them are equal.
        g = 1 if narrow else NODES
        nodes = np.repeat(solved.coefficient[:, :, None, :], g, axis=2)
        log_share = np.full(nodes.shape[:3], -np.log(g))
        found = _Weighed(fit + volume, solved.coefficient, nodes, log_share)
    scale = measured.reference[:, :, None] / design.unit
    order = np.argsort(-found.score, axis=1, kind="stable")
    rows = np.arange(len(order))[:, None]
    best = rows[:, 0], order[:, 0]
    weighted = np.array([column[best] for column in design.columns])
    told = np.einsum("kpn,pk->pn", weighted, found.coefficient[best])
    misfit = ((told - measured.target / measured.error) ** 2).sum(axis=1)
    if measured.noiseless.any():
        found = _without_rounding(found, design, solved, measured)
    return Hypotheses(
        terms=kept.terms[rows, order],
        used=kept.used[rows, order],
        coefficient=(found.coefficient * scale)[rows, order],
        log_evidence=found.score[rows, order],
        residual=solved.residual[rows, order],
        nodes=(found.nodes * scale[:, :, None, :])[rows, order],
        log_share=found.log_share[rows, order],
        # The sweep only estimates the cost of negative coefficients.
        trusted=measured.known & (misfit < believable(n_points)),
    )


def _design(kept: Kept, terms: Sequence[Array], peak: Sequence[Array], error: Array) -> _Design:
    """Return the columns of every hypothesis kept: products of the terms' values; term 0 is 1."""
    with_one = [np.vstack([np.ones(t.shape[1]), t]).T for t in terms]
    peak_one = [np.vstack([np.ones((1, 1)), m])[:, 0] for m in peak]
    n_paths, n_kept, width = kept.used.shape
    columns, log_peak = [], np.zeros((n_paths, n_kept))
    unit = short_axes_last(np.ones((width, n_paths, n_kept)))
    sharpness = 1.0 / error.T[:, :, None]
    for k in range(width):
        used = kept.used[:, :, k]
        column = np.repeat(used[None].astype(float), error.shape[1], axis=0)
        for q in range(len(terms)):
            number = kept.terms[:, :, k, q]
            if number.any():
                column *= with_one[q].take(number, axis=1)
                unit[:, :, k] *= peak_one[q][number]
        # A column that is zero everywhere has no share.
        with np.errstate(divide="ignore"):
            log_peak += np.log(np.where(used, column.max(axis=0), 1.0))
        column *= sharpness
        columns.append(short_axes_last(column))
    return _Design(columns, unit, log_peak)


def _put_in_order(kept: Kept, design: _Design) -> None:
    """Order columns by their sums, the constant first.

    Samples of the coefficients depend on the order of the columns. This order must not depend on
    that of the parameters.
    """
    constant = kept.used & ~kept.terms.any(axis=3)
    total = np.stack([column.sum(axis=2) for column in design.columns], axis=2)
    key = np.where(constant, -np.inf, np.where(kept.used, total, np.inf))
    order = np.argsort(key, axis=2, kind="stable")
    # Most columns are in order already; moving only the others takes a third of the time.
    moved = np.nonzero((order != np.arange(order.shape[2])).any(axis=2))
    some = [column[moved] for column in design.columns]
    for column, place in zip(design.columns, order[moved].T, strict=True):
        column[moved] = np.choose(place[:, None], some)
    pair = np.arange(len(moved[0]))[:, None]
    for array in (kept.terms, kept.used, design.unit):
        array[moved] = array[moved][pair, order[moved]]


def _without_rounding(
    found: _Weighed, design: _Design, solved: LeastSquares, measured: Measured
) -> _Weighed:
    """Set coefficients that are rounding errors to zero, for values without noise."""
    rows = np.flatnonzero(measured.noiseless)
    inverse = solved.inverse[rows]
    spread = np.sqrt(np.einsum("phab,phab->pha", inverse, inverse))
    # A column is 1 at the largest values of all parameters, even if no point lies there.
    there = 1.0 / measured.error[rows].max(axis=1)[:, None]
    adds = np.stack([np.maximum(c.max(axis=2)[rows], there) for c in design.columns], axis=2)
    most = np.minimum(_WITHIN * spread, _ADDS / adds)
    coefficient, nodes = found.coefficient.copy(), found.nodes.copy()
    coefficient[rows] = np.where(np.abs(coefficient[rows]) <= most, 0.0, coefficient[rows])
    most = most[:, :, None]
    nodes[rows] = np.where(np.abs(nodes[rows]) <= most, 0.0, nodes[rows])
    return found._replace(coefficient=coefficient, nodes=nodes)


def _non_negative(
    kept: Kept, solved: LeastSquares, fit: Array, volume: Array, measured: Measured, narrow: bool
) -> _Weighed:
    """Weigh the hypotheses under normal noise, with coefficients of zero or more."""
    freedom = np.maximum(measured.target.shape[1] - kept.used.sum(axis=2), 1)
    spread = np.maximum(solved.residual, EXPECTED**2 / 100) / freedom
    variance = np.where(measured.known[:, None], 1.0, spread)
    coefficient, log_positive = truncate(solved.coefficient, solved.inverse, variance, kept.used)
    # If all values are 0, so are the coefficients; the mean of the truncated law would be above 0.
    nothing = ~measured.target.any(axis=1)
    coefficient[nothing] = 0.0
    if narrow:
        score = fit + volume + log_positive
        return _Weighed(score, coefficient, coefficient[:, :, None, :], np.zeros((*fit.shape, 1)))
    opened = integrate(solved.coefficient, solved.inverse, variance, kept.used)
    opened.coefficient[nothing] = 0.0
    score = fit + opened.log_evidence
    return _Weighed(score, coefficient, opened.coefficient, opened.log_share)


def _bounded(
    found: _Weighed,
    kept: Kept,
    design: _Design,
    solved: LeastSquares,
    fit: Array,
    volume: Array,
    measured: Measured,
    narrow: bool,
) -> _Weighed:
    """Weigh the likely hypotheses for bounded noise too, where there may be such."""
    rows = np.flatnonzero(measured.bounded > _DOUBTFUL)
    if not rows.size:
        return found
    pair = likely(found.score, rows, kept.used)
    # Both are in units of each point's error, which cancels in the likelihood.
    place = np.ravel_multi_index(pair, fit.shape)
    by_point = (np.moveaxis(c, 2, 0).reshape(c.shape[2], -1) for c in design.columns)
    columns = np.array([c.take(place, axis=1) for c in by_point]).T
    own = measured.repetitions.in_units(measured.reference * measured.error).take(pair[0])
    least = solved.coefficient[pair], solved.inverse[pair], kept.used[pair]
    opened = _strict(least, columns, own, narrow)
    level = fit + 0.5 * solved.residual + (volume if narrow else 0.0)
    strict = np.full(fit.shape, -np.inf)
    strict[pair] = level[pair] + opened.log_evidence
    score, decided = _mixed(found.score, strict, measured.bounded)
    done = (decided[:, None] & (strict > -np.inf))[pair]
    pair = pair[0][done], pair[1][done]
    if narrow:
        # There is one node, the coefficient itself.
        found.coefficient[pair] = opened.coefficient[done, 0]
    else:
        found.nodes[pair] = opened.coefficient[done]
        found.log_share[pair] = opened.log_share[done]
    return found._replace(score=score)


def _strict(
    least: tuple[Array, Array, NDArray[np.bool_]],
    design: Array,
    repetitions: Repetitions,
    narrow: bool,
) -> Open:
    """Integrate over the coefficients of pairs under bounded noise."""
    if not narrow:
        return integrate_bounded(*least, design, repetitions)
    coefficient, inverse, used = least
    found = weigh(design, repetitions, coefficient[:, None], inverse, used)
    return Open(found.coefficient, np.zeros(found.log_mean.shape), found.log_mean[:, 0])


def _mixed(score: Array, strict: Array, bounded: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Mix the log probabilities under both laws, and return where the strict law decides.

    Only the normal law counts where no sample of any hypothesis is possible under bounded noise.
    """
    rows = np.flatnonzero((strict > -np.inf).any(axis=1))
    share = np.minimum(bounded[rows, None], 1 - 1e-12)
    result = score.copy()
    result[rows] = np.logaddexp(
        log_softmax(score[rows], axis=1) + np.log1p(-share),
        log_softmax(strict[rows], axis=1) + np.log(share),
    )
    decided = np.zeros(len(score), dtype=bool)
    decided[rows] = share[:, 0] > 0.5
    return result, decided
