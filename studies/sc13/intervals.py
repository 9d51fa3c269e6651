"""How far a measure of quality would move with other rows from the same source."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import t

Floats = NDArray[np.float64]

# Rows whose pairs are held in memory at once.
_BLOCK = 512


def bootstrap_interval(
    observed: Floats,
    predicted: Floats,
    measure: Callable[[Floats, Floats], float],
    *,
    n_resamples: int = 1000,
    seed: int = 0,
) -> tuple[float, float]:
    """Return the 95 % percentile interval of a measure over resampled rows.

    Parameters
    ----------
    observed, predicted : ndarray of float, shape (n,)
    measure : callable
        Takes both, returns a number.
    n_resamples : int
    seed : int

    Returns
    -------
    tuple of float
        Lower and upper end.

    Examples
    --------
    >>> x = np.arange(30.0)
    >>> low, high = bootstrap_interval(x, x, lambda a, b: float(np.abs(a - b).mean()))
    >>> low, high
    (0.0, 0.0)
    """
    generator = np.random.default_rng(seed)
    values = []
    for _ in range(n_resamples):
        # Sorted: a row drawn twice stands beside itself, and ties count as in the original order.
        rows = np.sort(generator.integers(0, observed.size, observed.size))
        values.append(measure(observed[rows], predicted[rows]))
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)


def margin_of_mean(values: pd.Series) -> float:
    """Return half of the 95 % interval of a mean, by Student's t.

    Examples
    --------
    >>> round(margin_of_mean(pd.Series([1.0, 3.0])), 3)
    12.706
    """
    return float(t.ppf(0.975, len(values) - 1) * values.std() / np.sqrt(len(values)))


def rcc_interval(
    observed: Floats, predicted: Floats, *, n_resamples: int = 1000, seed: int = 0
) -> tuple[float, float]:
    """Return the 95 % percentile interval of RCC over resampled rows.

    Only pairs of different rows count: a row drawn twice would be a pair that is always right.

    Parameters
    ----------
    observed, predicted : ndarray of float, shape (n,)
    n_resamples : int
    seed : int

    Returns
    -------
    tuple of float
        Lower and upper end; not a number where there is no pair.

    Examples
    --------
    >>> x = np.arange(30.0)
    >>> rcc_interval(x, x), rcc_interval(x, -x)
    ((1.0, 1.0), (0.0, 0.0))
    """
    n = observed.size
    generator = np.random.default_rng(seed)
    drawn = [generator.integers(0, n, n) for _ in range(n_resamples)]
    # How often each row is in each resample, and with it how often each pair.
    times = np.array([np.bincount(rows, minlength=n) for rows in drawn], dtype=float)
    right = np.zeros(n_resamples)
    for begin in range(0, n, _BLOCK):
        rows = np.arange(begin, min(begin + _BLOCK, n))
        same = (observed >= observed[rows, None]) == (predicted >= predicted[rows, None])
        same &= np.arange(n) > rows[:, None]
        right += (times[:, rows] * (times @ same.T.astype(float))).sum(axis=1)
    pairs = (n**2 - (times**2).sum(axis=1)) / 2
    values = right[pairs > 0] / pairs[pairs > 0]
    if not values.size:
        return float("nan"), float("nan")
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)
