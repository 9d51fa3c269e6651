"""Quantiles of weighted values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def quantiles(values: Array, weight: Array, level: float) -> Array:
    """Smallest value in each row that at least `level` of the row's weight does not exceed.

    Parameters
    ----------
    values, weight : array, shape (n_rows, n_values)
    level : float
        Between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> quantiles(np.array([[3.0, 1.0, 2.0]]), np.array([[1.0, 1.0, 1.0]]), 0.5).tolist()
    [2.0]
    """
    order = np.argsort(values, axis=1)
    total = np.take_along_axis(weight, order, axis=1).cumsum(axis=1)
    place = (total < level * total[:, -1:]).sum(axis=1)
    chosen = np.take_along_axis(order, np.minimum(place, values.shape[1] - 1)[:, None], axis=1)
    result: Array = np.take_along_axis(values, chosen, axis=1)[:, 0]
    return result
