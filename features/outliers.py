"""Which entities stand out: average outliers and top outliers."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

TOP = 0.95
_ROUNDING = 1e-9


def average_outliers(values: NDArray[Any]) -> NDArray[Any]:
    """Return the values greater than the mean of all [Jain13, AO].

    Examples
    --------
    >>> average_outliers(np.array([1, 2, 9]))
    array([9])
    """
    # The floating-point mean of equal values may fall a little below them.
    return values[values > values.mean() * (1 + _ROUNDING)] if values.size else values


def top_outliers(values: NDArray[Any]) -> NDArray[Any]:
    """Return the values within 5 % of the maximum [Jain13, TO].

    Where all are 0, none stands out.

    Examples
    --------
    >>> top_outliers(np.array([10.0, 9.6, 9.4]))
    array([10. ,  9.6])
    """
    if not values.size or values.max() <= 0:
        return values[:0]
    top: NDArray[Any] = values[values >= TOP * values.max()]
    return top
