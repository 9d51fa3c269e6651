"""Exact least squares of the hypotheses that the sweep kept, by orthogonal columns."""

# p = call paths, n = points, h = hypotheses, k = columns

from __future__ import annotations

from math import log, pi
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from ._decode import short_axes_last

Array = NDArray[np.float64]

_LOG_ROOT_TWO_PI = 0.5 * log(2 * pi)
_LEAST_VARIANCE = 1e-12


class LeastSquares(NamedTuple):
    """Solutions of many small least-squares problems.

    Attributes
    ----------
    residual : array, shape (p, h)
    coefficient : array, shape (p, h, k)
    inverse : array, shape (p, h, k, k)
        Upper triangular R^-1 of the QR factors; R^-1 R^-T is the unscaled covariance.
    """

    residual: Array
    coefficient: Array
    inverse: Array


def least_squares(columns: list[Array], target: Array) -> LeastSquares:
    """Solve by modified Gram-Schmidt; a column of zeros gets the coefficient 0.

    Parameters
    ----------
    columns : list of array, each shape (p, h, n)
    target : array, shape (p, 1, n)
    """
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
            inverse[:, :, b, a] = (
                -np.einsum(
                    "phc,phc->ph", factor[:, :, b, b + 1 : a + 1], inverse[:, :, b + 1 : a + 1, a]
                )
                / factor[:, :, b, b]
            )
    return LeastSquares(
        np.einsum("phn,phn->ph", rest, rest),
        np.einsum("phab,phb->pha", inverse, projection),
        inverse,
    )


def truncate(
    coefficient: Array, inverse: Array, variance: Array, used: NDArray[np.bool_]
) -> tuple[Array, Array]:
    """Condition on coefficients that are not negative.

    Parameters
    ----------
    coefficient, inverse
        As from `least_squares`.
    variance : array, shape (p, h)
        Scale of the covariance.
    used : array of bool, shape (p, h, k)

    Returns
    -------
    coefficient : array, shape (p, h, k)
        Mean of the normal distribution, truncated where the most doubtful coefficient turns
        negative; at least zero.
    log_probability : array, shape (p, h)
        Log probability that no coefficient is negative, each taken by itself.

    Notes
    -----
    Where this makes another coefficient negative, coefficients are truncated one after the
    other, each given those before it. Similar columns may be negative together although none of
    them is by itself.
    """
    spread = np.sqrt(np.einsum("phab,phab->pha", inverse, inverse) * variance[:, :, None])
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(used, coefficient / spread, np.inf)
    z = np.where(np.isnan(z), 0.0, z)
    log_probability = log_ndtr(z).sum(axis=2)
    worst = z.argmin(axis=2)[:, :, None]
    zw = np.take_along_axis(z, worst, 2)
    row = np.take_along_axis(inverse, worst[:, :, :, None], 2)[:, :, 0]
    covariance = np.einsum("phab,phb->pha", inverse, row) * variance[:, :, None]
    shift = covariance / np.maximum(np.take_along_axis(spread, worst, 2), 1e-300) * lift(zw)
    result = coefficient + np.where(used, np.nan_to_num(shift), 0.0)
    again = (result < 0) & (np.arange(result.shape[2]) != worst)
    pair = np.nonzero(again.any(axis=2))
    result = np.maximum(result, 0.0)
    if pair[0].size:
        factor = inverse[pair]
        whole = np.einsum("mab,mcb->mac", factor, factor) * variance[pair][:, None, None]
        result[pair], log_probability[pair] = _in_turn(coefficient[pair], whole, used[pair])
    return result, log_probability


def _in_turn(mean: Array, covariance: Array, used: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Truncate one coefficient after the other, the most doubtful first.

    Parameters
    ----------
    mean : array, shape (m, k)
    covariance : array, shape (m, k, k)
    used : array of bool, shape (m, k)
    """
    mean, left = mean.copy(), used.copy()
    log_probability = np.zeros(len(mean))
    rows = np.arange(len(mean))
    # A coefficient keeps at least this part of its variance, given the others.
    least = _LEAST_VARIANCE * np.einsum("mkk->mk", covariance) + 1e-300
    for _ in range(mean.shape[1]):
        spread = np.sqrt(np.maximum(np.einsum("mkk->mk", covariance), least))
        z = np.where(left, mean / spread, np.inf)
        worst = z.argmin(axis=1)
        zw = z[rows, worst]
        step = np.where(np.isfinite(zw), spread[rows, worst] * lift(zw), 0.0)
        along = covariance[rows, :, worst] / spread[rows, worst, None] ** 2
        mean += np.where(left, along * step[:, None], 0.0)
        covariance = covariance - along[:, :, None] * covariance[rows, worst][:, None, :]
        log_probability += log_ndtr(zw)
        left[rows, worst] = False
    return np.maximum(mean, 0.0), log_probability


def lift(z: Array) -> Array:
    """Return the mean of a standard normal variable above -z; it is near -z in the tail."""
    cut = np.clip(z, -30.0, 30.0)
    inside = np.exp(-0.5 * cut**2 - _LOG_ROOT_TWO_PI - log_ndtr(cut))
    result: Array = np.where(z < cut, -z, inside)
    return result
