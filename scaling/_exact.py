"""The hypotheses that the sweep kept, solved to the last digits and weighed anew."""

# p = call paths, n = points, h = hypotheses kept, k = columns, q = parameters, t = terms

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from ._bounded import Repetitions, likely, weigh
from ._decode import Kept
from ._evidence import EXPECTED, log_fit, log_shares
from ._quadrature import NODES, Open, integrate, integrate_bounded
from ._refine import least_squares, truncate

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# Probability of bounded noise up to which its law is left out.
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


class Measured(NamedTuple):
    """What was measured, each call path in units of its reference."""

    target: Array  # (p, n)
    error: Array  # (p, n)
    known: NDArray[np.bool_]  # (p,) the errors are known, not only their ratios
    reference: Array  # (p, 1)
    bounded: Array  # (p,) probability of bounded noise
    repetitions: Repetitions  # in units of what was measured


def exact(
    kept: Kept,
    terms: Sequence[Array],
    peak: Sequence[Array],
    measured: Measured,
    *,
    non_negative: bool,
    narrow: bool,
) -> Hypotheses:
    """Solve what is kept to the last digits and weigh it anew."""
    target, error, known, reference, bounded, repetitions = measured
    n_points = target.shape[1]
    with_one = [np.vstack([np.ones(n_points), t]) for t in terms]
    peak_one = [np.vstack([np.ones((1, 1)), m])[:, 0] for m in peak]
    weight = 1.0 / error[:, None, :]
    columns, unit, log_peak = [], np.ones(kept.used.shape), np.zeros(kept.used.shape[:2])
    for k in range(kept.used.shape[2]):
        used = kept.used[:, :, k]
        column = used[:, :, None].astype(float)
        for q in range(len(terms)):
            number = kept.terms[:, :, k, q]
            if number.any():
                column = column * with_one[q][number]
                unit[:, :, k] *= peak_one[q][number]
        # A column without a value anywhere has no share of anything.
        with np.errstate(divide="ignore"):
            log_peak += np.log(np.where(used, column.max(axis=2), 1.0))
        columns.append(column * weight)
    solved = least_squares(columns, (target / error)[:, None, :])
    n_columns = kept.used.sum(axis=2)
    fit = kept.log_prior + log_fit(solved.residual, n_columns, n_points, known)
    volume = np.where(kept.used, np.log(np.einsum("phkk->phk", solved.inverse)), 0.0).sum(axis=2)
    score = fit + log_peak + volume
    coefficient = solved.coefficient
    nodes = coefficient[:, :, None, :]
    log_share = np.zeros((*score.shape, 1))
    if non_negative:
        freedom = np.maximum(n_points - n_columns, 1)
        spread = np.maximum(solved.residual, EXPECTED**2 / 100) / freedom
        variance = np.where(known[:, None], 1.0, spread)
        coefficient, log_positive = truncate(coefficient, solved.inverse, variance, kept.used)
        # Nothing measured is nothing, not the least that a positive coefficient could be.
        coefficient[~target.any(axis=1)] = 0.0
        if narrow:
            score += log_positive
        else:
            opened = integrate(solved.coefficient, solved.inverse, variance, kept.used)
            score = fit + opened.log_evidence
            nodes, log_share = opened.coefficient, opened.log_share
            nodes[~target.any(axis=1)] = 0.0
        rows = np.flatnonzero(bounded > _DOUBTFUL)
        if rows.size:
            pair = likely(score, rows)
            # Both in units of each point's error, which the likelihood of ratios does not see.
            design = np.moveaxis(np.array([c[pair] for c in columns]), 0, 2)
            own = repetitions.in_units(reference * error).take(pair[0])
            least = solved.coefficient[pair], solved.inverse[pair], kept.used[pair]
            opened = _strict(least, design, own, narrow)
            level = fit + 0.5 * solved.residual + (log_peak + volume if narrow else 0.0)
            strict = np.full(score.shape, -np.inf)
            strict[pair] = level[pair] + opened.log_evidence
            score, decided = _mixed(score, strict, bounded)
            done = (decided[:, None] & (strict > -np.inf))[pair]
            pair = pair[0][done], pair[1][done]
            if narrow:
                coefficient[pair] = opened.coefficient[done, 0]
            else:
                nodes[pair] = opened.coefficient[done]
                log_share[pair] = opened.log_share[done]
        if narrow:
            nodes = coefficient[:, :, None, :]
            # With a single term the shares say what its exponent says; it has none to lose.
            if len(terms) > 1:
                score += log_shares(coefficient, kept.used)
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


def _strict(
    least: tuple[Array, Array, NDArray[np.bool_]],
    design: Array,
    repetitions: Repetitions,
    narrow: bool,
) -> Open:
    """Integral over the coefficients of pairs of call path and hypothesis, for bounded noise."""
    if not narrow:
        return integrate_bounded(*least, design, repetitions)
    coefficient, inverse, used = least
    found = weigh(design, repetitions, coefficient[:, None], inverse, used)
    return Open(found.coefficient, np.zeros(found.log_mean.shape), found.log_mean[:, 0])


def _mixed(score: Array, strict: Array, bounded: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Log probability of each hypothesis under either law, and where the strict one decides.

    Where no sample of any hypothesis is possible under bounded noise, only the normal law is left.
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
