"""Measures of how well models meet the measurements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..formula import Term, evaluate
from .noise import scale_of

Array = NDArray[np.float64]


def quality(
    points: Array, centre: Array, fitted: Array, models: Sequence[Sequence[Term]]
) -> dict[str, Array]:
    """Measures of fit, one value a call path.

    Parameters
    ----------
    points : array, shape (n_points, n_parameters)
    centre, fitted : array, shape (n_paths, n_points)
        Measured and modelled values.
    models : sequence of lists of terms
        One a call path.

    Returns
    -------
    dict
        rss : residual sum of squares; adjusted_r2 : coefficient of determination adjusted for the
        number of coefficients, NaN where the values do not vary; smape : symmetric mean absolute
        percentage error; cross_validation : root mean square of the leave-one-out errors, each
        relative to its value.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.array([[1.0, 2.0, 3.0, 4.0]])
    >>> x = np.array([[1.0], [2.0], [3.0], [4.0]])
    >>> q = quality(x, y, y, [[(1.0, ((1.0, 0.0),))]])
    >>> float(q["rss"][0]), float(q["adjusted_r2"][0]), float(q["smape"][0])
    (0.0, 1.0, 0.0)
    """
    n = centre.shape[1]
    residual = centre - fitted
    rss = (residual**2).sum(axis=1)
    total = ((centre - centre.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    count = np.array([len(terms) for terms in models])
    with np.errstate(invalid="ignore", divide="ignore"):
        # The constant takes one degree of freedom from both.
        adjusted = 1 - (rss / np.maximum(n - count, 1)) / (total / (n - 1))
        size = np.abs(centre) + np.abs(fitted)
        smape = 200 * np.where(size > 0, np.abs(residual) / size, 0.0).mean(axis=1)
    adjusted[total == 0] = np.nan
    scale = scale_of(centre)
    return {
        "rss": rss,
        "adjusted_r2": adjusted,
        "smape": smape,
        "cross_validation": _leave_one_out(points, residual / scale, scale, models),
    }


def farthest(centre: Array, fitted: Array) -> Array:
    """Largest relative error of each model at the points.

    A value next to nothing is only known to be less than the others, so a smaller model value is no
    error.

    Parameters
    ----------
    centre, fitted : array, shape (n_paths, n_points)
        Measured and modelled values.

    Returns
    -------
    array, shape (n_paths,)

    Examples
    --------
    >>> import numpy as np
    >>> farthest(np.array([[0.0, 2.0, 4.0]]), np.array([[1.5, 2.0, 5.0]])).tolist()
    [0.25]
    """
    scale = scale_of(centre)
    unknown = np.where(np.abs(centre) < scale, scale, 0.0)
    error = np.maximum(np.abs(fitted - centre) - unknown, 0.0) / scale
    result: Array = error.max(axis=1)
    return result


def _leave_one_out(
    points: Array, residual: Array, scale: Array, models: Sequence[Sequence[Term]]
) -> Array:
    """Return the root mean square of the errors at each point when it is left out."""
    value = {e: evaluate([(1.0, e)], points) for e in {e for terms in models for _, e in terms}}
    count = np.array([len(terms) for terms in models])
    result = np.empty(len(models))
    # Models with equally many terms are solved together; one at a time takes half as long as the
    # fit.
    for k in np.unique(count):
        which = np.flatnonzero(count == k)
        columns = np.array([[value[e] for _, e in models[p]] for p in which.tolist()])
        columns /= scale[which, None]
        columns /= np.maximum(np.linalg.norm(columns, axis=2, keepdims=True), 1e-300)
        q, _ = np.linalg.qr(columns.transpose(0, 2, 1))
        leverage = np.minimum((q**2).sum(axis=2), 1 - 1e-9)
        result[which] = np.sqrt(np.mean((residual[which] / (1 - leverage)) ** 2, axis=1))
    return result
