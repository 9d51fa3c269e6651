"""Weight of a hypothesis from its least-squares fit."""

from __future__ import annotations

from math import log, pi, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# Relative error expected where there are no repetitions, worth this many observations.
EXPECTED = 0.01
_WORTH = 1.0
# The prior over shares does not tell shares below this apart.
_LEAST_SHARE = 1e-3


def log_fit(residual: Array, n_columns: Index | int, n: int, known: NDArray[np.bool_]) -> Array:
    """Return the log likelihood of the best coefficients, times the volume of the normal law.

    Where the error of the points is known, the noise is normal. Where it is unknown, or no
    hypothesis meets the points within it, its scale is integrated out (Student's law).

    Parameters
    ----------
    residual : array, shape (p, h)
        Weighted residual sum of squares.
    n_columns : int or array of int, broadcastable to (p, h)
    n : int
        Number of points.
    known : array of bool, shape (p,)
    """
    fit = -0.5 * residual
    rest = np.flatnonzero(~known)
    if rest.size:
        columns = np.broadcast_to(np.asarray(n_columns), residual.shape)[rest]
        freedom = np.maximum(n - columns, 0) + _WORTH
        scale = (residual[rest] + _WORTH * EXPECTED**2) / 2
        fit[rest] = gammaln(freedom / 2) - freedom / 2 * np.log(scale)
    result: Array = fit + 0.5 * log(2 * pi) * np.asarray(n_columns, dtype=float)
    return result


def believable(n: int) -> float:
    """Return the weighted residual of n points above which the stated errors cannot be true."""
    return n + 5.0 * sqrt(2.0 * n) + 5.0


def against_sign(
    against: Array, residual: Array, n_columns: int, n: int, known: NDArray[np.bool_]
) -> Array:
    """Return the loss of log evidence through negative coefficients, in units of their error."""
    result = 0.5 * against
    rest = np.flatnonzero(~known)
    if rest.size:
        # This is far below rounding errors, and keeps the quotient from overflowing.
        result[rest] *= max(n - n_columns, 1) / np.maximum(residual[rest], 1e-100)
    return result


def log_shares(coefficient: Array, used: NDArray[np.bool_]) -> Array:
    """Log prior density of the columns' shares, relative to an even one.

    A column with a share of nearly zero stands for the hypothesis without that column. So the
    density is that of Dirichlet's law with all parameters 2, which is zero where a share is zero (a
    non-local prior [Johnson10]). With an even density, several hypotheses would stand for one
    function.

    Parameters
    ----------
    coefficient : array, shape (.., k)
        Not negative, of columns that are 1 at the largest values of all parameters.
    used : array of bool, broadcastable to (.., k)
    """
    total = np.maximum(coefficient.sum(axis=-1, keepdims=True), 1e-300)
    share = np.maximum(coefficient / total, _LEAST_SHARE)
    n = np.arange(1, used.shape[-1] + 1)
    height = gammaln(2 * n) - gammaln(n)
    result: Array = height[used.sum(axis=-1) - 1] + np.where(used, np.log(share), 0.0).sum(axis=-1)
    return result
