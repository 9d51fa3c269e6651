"""Growth between the nearest measured values, for data that no formula meets within its noise.

The growth of real code changes where a cache overflows or a protocol switches. If a formula misses
the points by more than the noise, or the noise is unknown, the nearest points say more about the
next one than a formula for the whole range. Beyond the largest values a prediction is then the
smaller of two: the power law through the nearest points, and the formula scaled to meet them.
Elsewhere it is the middle one of these and the formula.
"""

# p = call paths, n = points, m = places to predict, q = parameters

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .measurements import off_zero
from .noise import scale_of

Array = NDArray[np.float64]

# A point's weight is divided by this for each step of the measured grid between it and a place: in
# the power law, and in the factor that a formula is scaled by.
_NEAR = 1000.0
_ANCHOR = 100.0
# Logarithm of the largest prediction: values close together can give a power without bounds.
_LARGEST = 690.0
_RIDGE = 1e-3


def followed(
    points: Array, centre: Array, places: Array, formula: Array, at_points: Array
) -> Array:
    """Predict by the nearest points and a formula.

    Parameters
    ----------
    points, centre : array, shapes (n, q) and (p, n)
    places : array, shape (m, q)
    formula, at_points : array, shapes (p, m) and (p, n)
        Values of the formulas at the places and at the points.

    Returns
    -------
    array, shape (p, m)
    """
    points, places = off_zero(points, points), off_zero(points, places)
    clear = lifted(centre)
    positive = np.where(centre > 0, centre, clear)
    growth = local_growth(points, positive, places)
    # A formula's value that is not positive is left out: no factor corrects it.
    ratio = np.log(positive / np.where(at_points > 0, at_points, positive))
    scaled = formula * np.exp(ratio @ _weights(points, places, _ANCHOR).T)
    smaller = np.where(scaled > 0, np.minimum(growth, scaled), growth)
    middle = np.median([growth, scaled, formula], axis=0)
    beyond = (places > points.max(axis=0)).any(axis=1)
    result: Array = np.where(beyond, smaller, middle)
    return result


def local_growth(points: Array, centre: Array, places: Array) -> Array:
    """Predict positive values by a power law through the points near each place; (p, m).

    Examples
    --------
    >>> x = np.array([[1.0], [2.0], [4.0]])
    >>> local_growth(x, 3 * x.T**2, np.array([[8.0]])).round(0).tolist()
    [[192.0]]
    """
    weight = _weights(points, places, _NEAR)
    result = np.empty((len(centre), len(places)))
    logs = np.log(centre)
    for k, place in enumerate(places):
        offset = np.log(points) - np.log(place)
        # Offsets are taken from the middle of the near points, so that the system is never
        # singular.
        middle = weight[k] @ offset
        design = np.hstack([np.ones((len(points), 1)), offset - middle])
        gram = (design * weight[k, :, None]).T @ design
        # Keep slopes small that the near points leave open.
        spread = np.maximum(weight[k] @ (offset - middle) ** 2, 1e-12)
        gram[1:, 1:] += _RIDGE * np.diag(spread)
        solved = np.linalg.solve(gram, (design * weight[k, :, None]).T @ logs.T)
        result[:, k] = solved[0] - middle @ solved[1:]
    return np.exp(np.minimum(result, _LARGEST))


def lifted(centre: Array) -> Array:
    """Replace values next to nothing by half of the smallest other value, for logarithms.

    Examples
    --------
    >>> lifted(np.array([[0.0, 4.0, 16.0]])).tolist()
    [[2.0, 4.0, 16.0]]
    """
    scale = scale_of(np.maximum(centre, 0.0))
    return np.where(centre < scale, scale / 2, centre)


def _steps(points: Array, places: Array) -> Array:
    """Return the distance of places to points, in mean steps of the measured grid; (m, n)."""
    distance = np.zeros((len(places), len(points)))
    for q in range(points.shape[1]):
        levels = np.unique(points[:, q])
        if levels.size > 1:
            unit = np.log(levels[-1] / levels[0]) / (levels.size - 1)
            distance += np.abs(np.log(places[:, q])[:, None] - np.log(points[:, q])) / unit
    return distance


def _weights(points: Array, places: Array, decay: float) -> Array:
    distance = _steps(points, places)
    weight = decay ** -(distance - distance.min(axis=1, keepdims=True))
    normalised: Array = weight / weight.sum(axis=1, keepdims=True)
    return normalised
