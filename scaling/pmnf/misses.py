"""How far models, and the power law near the largest values, miss what was measured.

A formula misses points where no term grows or falls as they do, the power law where growth changes
from step to step. Both are told from the measured points alone: of models by what they miss of the
points they were fitted to, of the power law by what it would have made of each parameter's largest
value had that not been measured.
"""

# p = call paths, n = points, q = parameters

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .local_growth import local_growth

Array = NDArray[np.float64]

# Values of a parameter that tell a growth.
_FEWEST = 2
# Models that predict nothing, or less, miss a value as if they predicted this part of it.
_NOTHING = 1e-6
# Below this, nothing is missed.
_EXACT = 1e-9
# The power law is told from one step; it must miss less than this part of what models miss to count
# for more. Of fourth powers the smaller one takes nearly all.
_CLEARLY = 0.7
_POWER = 4


def share_of_models(points: Array, measured: Array, clear: Array, at_points: Array) -> Array:
    """What models count for beside the power law.

    Parameters
    ----------
    points : array, shape (n, q)
        Positive.
    measured : array, shape (p, n)
    clear : array, shape (p, n)
        The same from `lifted`: positive. Of values next to nothing no miss is told.
    at_points : array, shape (p, n)
        What the models make of the points.

    Returns
    -------
    array, shape (p,)
        0 to 1; 1 where models meet the points, and where no parameter has three values.

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
    """The same of the power law at a parameter's largest value, told from the others; shape (p,).

    The mean over the parameters; None if each has two values at most.
    """
    missed = []
    for column in points.T:
        last = column == column.max()
        if np.unique(column[~last]).size >= _FEWEST:
            told = local_growth(points[~last], clear[:, ~last], points[last])
            missed.append(np.sqrt((np.log(told / clear[:, last]) ** 2).mean(axis=1)))
    return np.mean(missed, axis=0) if missed else None
