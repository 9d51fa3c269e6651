"""Exact least squares of the hypotheses that the sweep kept, by orthogonal columns."""

# p = call paths, n = points, h = hypotheses, k = columns

from __future__ import annotations

from math import log, pi
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

Array = NDArray[np.float64]

_LOG_ROOT_TWO_PI = 0.5 * log(2 * pi)


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
    factor = np.zeros((*shape, k, k))
    projection = np.zeros((*shape, k))
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
        Mean of the normal distribution cut off where the most doubtful coefficient turns negative,
        and never below zero.
    log_probability : array, shape (p, h)
        That no coefficient is negative, each by itself.
    """
    spread = np.sqrt(np.einsum("phab,phab->pha", inverse, inverse) * variance[:, :, None])
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(used, coefficient / spread, np.inf)
    z = np.where(np.isnan(z), 0.0, z)
    log_share = log_ndtr(z)
    worst = z.argmin(axis=2)[:, :, None]
    zw = np.take_along_axis(z, worst, 2)
    # Mean of a standard normal variable above -z, less -z where that is far out in its tail.
    cut = np.clip(zw, -30.0, 30.0)
    lift = np.exp(-0.5 * cut**2 - _LOG_ROOT_TWO_PI - log_ndtr(cut))
    row = np.take_along_axis(inverse, worst[:, :, :, None], 2)[:, :, 0]
    covariance = np.einsum("phab,phb->pha", inverse, row) * variance[:, :, None]
    shift = covariance / np.maximum(np.take_along_axis(spread, worst, 2), 1e-300) * lift
    shift = np.nan_to_num(shift)
    return np.maximum(coefficient + np.where(used, shift, 0.0), 0.0), log_share.sum(axis=2)
