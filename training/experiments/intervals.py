"""How far a measure of quality would move with other rows from the same source."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


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
