"""Random redraws of the measurements of a call path."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, softmax

from .measurements import off_zero
from .noise import scale_of, widths

Array = NDArray[np.float64]

# Largest relative misfit that is drawn.
_LARGEST = 1.0
# A model may miss by this many misfits more, one measured range beyond the last point.
_A_RANGE = 4.0


def repeated(values: Array, bounded: bool, n: int, rng: np.random.Generator) -> Array:
    """Draw the repetitions of every point anew.

    Bounded noise has one half-width at all points, drawn from those that the repetitions allow.
    Otherwise deviations from the means are drawn with replacement from those of all points, which
    share one relative spread.

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
        # Deviations from a mean are smaller than those from the true value.
        short = np.sqrt(count / np.maximum(count - 1, 1))[:, None]
        deviation = ((values - mean) / scale * short)[count > 1]
        drawn = mean + scale * rng.choice(deviation[np.isfinite(deviation)], (n, *values.shape))
    return np.where(np.isfinite(values), drawn, np.nan)


def single(values: Array, error: Array, rng: np.random.Generator) -> Array:
    """Draw values anew, each draw with its own relative error.

    Parameters
    ----------
    values : array, shape (n_points,)
    error : array, shape (n,)

    Returns
    -------
    array, shape (n, n_points)
        The signs stay.

    Examples
    --------
    >>> single(np.array([1.0, 2.0]), np.zeros(3), np.random.default_rng(0)).shape
    (3, 2)
    """
    drawn = rng.standard_normal((error.size, values.size)) * error[:, None]
    return np.asarray(values * np.exp(drawn))


def misfits(
    values: Array, fitted: Array, n_chosen: int, n: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Draw how far a model may be off: in total, and beyond the noise of the means.

    Without repetitions, noise and misfit cannot be told apart, and both are the same.

    Parameters
    ----------
    values : array, shape (n_points, n_repetitions)
        NaN stands for a repetition that is missing.
    fitted : array, shape (n_points,)
        Values of a model with `n_chosen` coefficients and exponents.
    n_chosen, n : int

    Returns
    -------
    error, beyond_noise : array, shape (n,)
        Root mean squares, relative to the values.

    Examples
    --------
    >>> values = np.array([[9.0, 11.0], [18.0, 22.0]])
    >>> misfits(values, np.array([10.0, 20.0]), 1, 2, np.random.default_rng(0))
    (array([0., 0.]), array([0., 0.]))
    """
    count = np.isfinite(values).sum(axis=1)
    mean = np.nanmean(values, axis=1)
    scale = scale_of(mean[None])[0]
    freedom = max(mean.size - n_chosen, 1)
    # Draws are evenly spaced quantiles in random order; otherwise one extreme draw of a few would
    # determine the interval.
    lengths = rng.permutation(chdtri(freedom, (np.arange(n) + 0.5) / n))
    square = (((mean - fitted) / scale) ** 2).sum() / lengths
    squares = np.nansum(((values - mean[:, None]) / scale[:, None]) ** 2)
    noise = squares / max((count - 1).sum(), 1) * (1 / count).mean()
    beyond = np.sqrt(np.maximum(square - noise, 0.0))
    return np.minimum(np.sqrt(square), _LARGEST), np.minimum(beyond, _LARGEST)


def reach(points: Array, places: Array) -> Array:
    """Return the factor by which a misfit may grow at each place; shape (m,).

    It is 1 in the measured range, and grows by 1 for each quarter of that range beyond it, the
    usual step, on a logarithmic scale. With several parameters, the factors are multiplied.

    Parameters
    ----------
    points : array, shape (n_points, n_parameters)
    places : array, shape (m, n_parameters)

    Examples
    --------
    >>> reach(np.array([[4.0], [64.0]]), np.array([[32.0], [128.0], [2.0]])).round(6).tolist()
    [1.0, 2.0, 2.0]
    """
    # A parameter that was never varied is taken to change nothing.
    varied = np.flatnonzero(np.ptp(points, axis=0) > 0)
    points, places = points[:, varied], places[:, varied]
    here, there = np.log(off_zero(points, points)), np.log(off_zero(points, places))
    low, high = here.min(axis=0), here.max(axis=0)
    beyond = np.maximum(np.maximum(there - high, low - there), 0.0) / (high - low)
    result: Array = np.prod(1.0 + _A_RANGE * beyond, axis=1)
    return result
