"""Which entities stand out: average outliers and top outliers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

TOP = 0.95
_ROUNDING = 1e-9


def above_mean(values: NDArray[Any], mean: float) -> NDArray[np.bool_]:
    """Return which values are greater than the mean.

    Examples
    --------
    >>> above_mean(np.array([1, 2, 9]), 4.0)
    array([False, False,  True])
    """
    # The floating-point mean of equal values may fall a little below them.
    return np.asarray(values > mean * (1 + _ROUNDING))


def near_top(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which values are within 5 % of the maximum; where all are 0, none is.

    Examples
    --------
    >>> near_top(np.array([10.0, 9.6, 9.4]))
    array([ True,  True, False])
    """
    most = values.max(initial=0)
    return np.asarray((values >= TOP * most) & (most > 0))


def average_outliers(values: NDArray[Any]) -> NDArray[Any]:
    """Return the values greater than the mean of all [Jain13, AO].

    Examples
    --------
    >>> average_outliers(np.array([1, 2, 9]))
    array([9])
    """
    return values[above_mean(values, values.mean())] if values.size else values


def top_outliers(values: NDArray[Any]) -> NDArray[Any]:
    """Return the values within 5 % of the maximum [Jain13, TO].

    Where all are 0, none stands out.

    Examples
    --------
    >>> top_outliers(np.array([10.0, 9.6, 9.4]))
    array([10. ,  9.6])
    """
    return values[near_top(values)]
