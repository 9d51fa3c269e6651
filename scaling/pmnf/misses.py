"""Errors of the models, and of the power law near the largest values, at measured points.

A formula misses points if no term grows as they do. The power law misses them if growth changes
from step to step. The error of a model is taken at the points it was fitted to. The error of the
power law is taken at each parameter's largest value, predicted from the others.
"""

# p = call paths, n = points, q = parameters

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .local_growth import local_growth

Array = NDArray[np.float64]

# Least number of values of a parameter that shows its growth.
_FEWEST = 2
# A prediction of 0 or less counts as this part of the value.
_NOTHING = 1e-6
# Smaller errors are rounding.
_EXACT = 1e-9
# The power law is judged by one step only, so it must miss by less than this part of the models'
# error to count more. Fourth powers give nearly all weight to the smaller error.
_CLEARLY = 0.7
_POWER = 4


def share_of_models(points: Array, measured: Array, clear: Array, at_points: Array) -> Array:
    """Return the weight of models beside the power law.

    Parameters
    ----------
    points : array, shape (n, q)
        Positive.
    measured : array, shape (p, n)
    clear : array, shape (p, n)
        The same values from `lifted`: positive. Values next to nothing do not count.
    at_points : array, shape (p, n)
        Predictions of the models at the points.

    Returns
    -------
    array, shape (p,)
        0 to 1; it is 1 where models meet the points, or no parameter has three values.

    Examples
    --------
    Models miss a sum by a tenth of a percent, the power law by more; no model has the fifth power.

    >>> import numpy as np
    >>> x = np.array([[1.0], [2.0], [4.0], [8.0]])
    >>> values = np.vstack([8 + x.T**2, x.T**5])
    >>> models = np.vstack([1.001 * values[:1], x.T**3])
    >>> share_of_models(x, values, values, models).round(3).tolist()
    [1.0, 0.0]
    """
    growth = _missed_by_growth(points, clear)
    if growth is None:
        return np.ones(len(clear))
    models = np.maximum(_CLEARLY * _missed_by_models(measured, clear, at_points), _EXACT)
    ratio = np.where(models > _EXACT, models / np.maximum(growth, _EXACT), 0.0)
    share: Array = 1 / (1 + ratio**_POWER)
    return share


def _missed_by_models(measured: Array, clear: Array, at_points: Array) -> Array:
    """Root mean square of the logarithmic errors at the points; shape (p,)."""
    told = measured >= clear
    error = np.log(np.maximum(at_points / clear, _NOTHING))
    mean = np.where(told, error**2, 0.0).sum(axis=1) / np.maximum(told.sum(axis=1), 1)
    result: Array = np.sqrt(mean)
    return result


def _missed_by_growth(points: Array, clear: Array) -> Array | None:
    """The same for the power law at a parameter's largest value, from the others; shape (p,).

    It is the mean over the parameters; None if each has at most two values.
    """
    missed = []
    for column in points.T:
        last = column == column.max()
        if np.unique(column[~last]).size >= _FEWEST:
            told = local_growth(points[~last], clear[:, ~last], points[last])
            missed.append(np.sqrt((np.log(told / clear[:, last]) ** 2).mean(axis=1)))
    return np.mean(missed, axis=0) if missed else None
