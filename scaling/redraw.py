"""Measurements of a call path as they might have come out as well."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from .noise import scale_of, widths

Array = NDArray[np.float64]

# Relative error of values without repetitions that is drawn at most.
_LARGEST = 1.0


def repeated(values: Array, bounded: bool, n: int, rng: np.random.Generator) -> Array:
    """Draw the repetitions of every point anew.

    Bounded noise has one half-width at all points, drawn from what the repetitions leave possible.
    Otherwise the deviations from the means are drawn with replacement, those of all points
    together, as one relative spread is theirs.

    Parameters
    ----------
    values : array, shape (n_points, n_repetitions)
        NaN stands for a repetition that is missing.
    bounded : bool
        Law of the noise; values are positive then.
    n : int
    rng : Generator

    Returns
    -------
    array, shape (n, n_points, n_repetitions)

    Examples
    --------
    >>> drawn = repeated(np.array([[9.0, 11.0], [20.0, 20.0]]), True, 3, np.random.default_rng(0))
    >>> drawn.shape
    (3, 2, 2)
    """
    count = np.isfinite(values).sum(axis=1)
    if bounded:
        low, high = np.nanmin(values, axis=1), np.nanmax(values, axis=1)
        width, log_weight = widths(low[None], high[None], count[None])
        half = rng.choice(width[0], n, p=softmax(log_weight[0]))[:, None, None] / 2
        middle = (low + high)[:, None] / 2
        drawn = middle * (1 + half * rng.uniform(-1, 1, (n, *values.shape)))
    else:
        mean = np.nanmean(values, axis=1, keepdims=True)
        scale = scale_of(mean[None, :, 0])[0][:, None]
        # Deviations from a mean are smaller than those from the value behind it.
        short = np.sqrt(count / np.maximum(count - 1, 1))[:, None]
        deviation = ((values - mean) / scale * short)[count > 1]
        drawn = mean + scale * rng.choice(deviation[np.isfinite(deviation)], (n, *values.shape))
    return np.where(np.isfinite(values), drawn, np.nan)


def single(
    values: Array, fitted: Array, n_coefficients: int, n: int, rng: np.random.Generator
) -> Array:
    """Draw values without repetitions anew, their relative error told by a model's misfit.

    Parameters
    ----------
    values, fitted : array, shape (n_points,)
        Measured, and by a model of so many coefficients.
    n_coefficients, n : int
    rng : Generator

    Returns
    -------
    array, shape (n, n_points)
        Of the same signs.

    Examples
    --------
    >>> single(np.array([1.0, 2.0]), np.array([1.0, 2.0]), 1, 3, np.random.default_rng(0)).shape
    (3, 2)
    """
    off = (values - fitted) / scale_of(values[None])[0]
    freedom = max(values.size - n_coefficients, 1)
    error = np.sqrt((off**2).sum() / rng.chisquare(freedom, (n, 1)))
    drawn = rng.standard_normal((n, values.size)) * np.minimum(error, _LARGEST)
    return np.asarray(values * np.exp(drawn))
