"""Single repetitions far from the others.

A repetition that an interruption made three times as long says nothing about the code. But the mean
follows it, and so do the extremes that determine bounded noise.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from .noise import scale_of

Array = NDArray[np.float64]

# An outlying repetition is off by more than this many robust standard deviations, and more than
# this share of the median.
_FAR = 7.0
_LEAST = 0.1
# Least number of repetitions of a point that shows which of them is off.
_REPETITIONS = 3
# At most this part of the points may have one, and each is this many times farther off than any at
# the other points. If more are far off, they are part of the noise.
_RARE = 0.2
_BEYOND = 2.0
# Standard deviation of normal noise over its median deviation.
_NORMAL = 1.4826


def suspects(farthest: Array, variation: Array, n: NDArray[np.int_]) -> NDArray[np.intp]:
    """Return the call paths that may have an outlying repetition, judged by variances alone.

    Medians are slow, and hardly any call path has such a repetition.

    Parameters
    ----------
    farthest : array, shape (n_paths,)
        Largest deviation from a point's mean, in units of `variation`.
    variation : array, shape (n_paths,)
        Standard deviation of all repetitions, relative to their means.
    n : array of int, shape (n_paths, n_points)
        Number of repetitions.
    """
    most = n.max(axis=1)
    share = 1.0 - 1.0 / most
    among = np.maximum((n - 1).sum(axis=1), 1) / _most(n.shape[1])
    # An outlying repetition is far from its mean, and enlarges the standard deviation.
    least = _FAR * share / np.sqrt(1.0 + _FAR**2 * share / among)
    large = farthest * variation > _LEAST / 2
    return np.flatnonzero((most >= _REPETITIONS) & large & (farthest > 0.9 * least))


def outlying(values: Array) -> NDArray[np.bool_]:
    """Find repetitions that are as far from the others of their point as no others are.

    Deviations from the median of a point, relative to it, are pooled over the points of a call
    path. A point needs three repetitions, and at most one of them is outlying.

    Parameters
    ----------
    values : array, shape (n_paths, n_points, n_repetitions)
        NaN stands for a repetition that is missing.

    Returns
    -------
    array of bool, shape (n_paths, n_points, n_repetitions)

    Examples
    --------
    >>> times = np.array([[[10.0, 10.1, 9.9], [20.0, 20.2, 60.0], [30.1, 29.7, 30.0]]])
    >>> np.argwhere(outlying(times)).tolist()
    [[0, 1, 2]]
    """
    found = np.zeros(values.shape, dtype=bool)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        middle = np.nanmedian(values, axis=2)
    size = np.abs(values - middle[:, :, None]) / scale_of(middle)[:, :, None]
    enough = np.isfinite(values).sum(axis=2) >= _REPETITIONS
    size[~enough] = np.nan
    farthest = np.where(np.isnan(size), -1.0, size).max(axis=2)
    most = _most(values.shape[1])
    for p in np.flatnonzero((farthest > _LEAST).any(axis=1)):
        # The middle repetition has no deviation, and says nothing.
        usual = _NORMAL * np.nanmedian(np.sort(size[p, enough[p]], axis=1)[:, 1:])
        ranked = np.sort(farthest[p])[::-1]
        common = ranked[most] if most < ranked.size else 0.0
        far = farthest[p] > max(_FAR * usual, _LEAST, _BEYOND * common)
        found[p] = far[:, None] & (size[p] == farthest[p][:, None])
    return found


def _most(n_points: int) -> int:
    """Return how many points may have an outlying repetition."""
    return max(1, int(_RARE * n_points))
