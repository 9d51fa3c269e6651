"""Growth between the nearest measured values, for data that no hypothesis meets within its noise.

The growth of real code changes where a cache overflows or a protocol switches. If a model misses
the points by more than the noise, or the noise is unknown, the nearest points say more about the
next one than a formula for the whole range.
"""

# p = call paths, n = points, m = places to predict, q = parameters

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .noise import scale_of

Array = NDArray[np.float64]

# A point's weight is divided by this for each step of the measured grid between it and a place.
NEAR = 1000.0
WIDE = 2.0
# Logarithm of the largest prediction: values close together can give a power without bounds.
_LARGEST = 690.0
# Beyond the measured range, no power above this is accepted.
_STEEPEST = 8.0
_ANCHOR_DECAY = 100.0
_RIDGE = 1e-3
# Beyond the largest value, a model grows at most this many times as much in a step as the measured
# values ever did. A term that only the last point shows may have any exponent.
_STEEPER = 8.0
# Inside the measured range, a prediction is within this factor of the measured values beside it.
_OFF = 3.0
# Places closer than this, in steps of the measured grid, are the same.
_SAME = 1e-9


def steps(points: Array, places: Array) -> Array:
    """Return the distance of each place to each point, in mean steps of the measured grid; (m, n).

    Examples
    --------
    >>> import numpy as np
    >>> steps(np.array([[2.0], [4.0], [8.0]]), np.array([[16.0]])).round(6).tolist()
    [[3.0, 2.0, 1.0]]
    """
    distance = np.zeros((len(places), len(points)))
    for q in range(points.shape[1]):
        levels = np.unique(points[:, q])
        if levels.size > 1:
            unit = np.log(levels[-1] / levels[0]) / (levels.size - 1)
            distance += np.abs(np.log(places[:, q])[:, None] - np.log(points[:, q])) / unit
    return distance


def local_growth(points: Array, centre: Array, places: Array, decay: float = NEAR) -> Array:
    """Predict by a power law through the points near each place.

    Parameters
    ----------
    points : array, shape (n, q)
    centre : array, shape (p, n)
        Positive.
    places : array, shape (m, q)
    decay : float
        `NEAR` takes the nearest points, `WIDE` also those around them.

    Returns
    -------
    array, shape (p, m)

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[1.0], [2.0], [4.0]])
    >>> local_growth(x, 3 * x.T**2, np.array([[8.0]])).round(0).tolist()
    [[192.0]]
    """
    weight = _near(points, places, decay)
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


def believable(points: Array, centre: Array, places: Array, growth: Array) -> Array:
    """Limit growth outside the measured range to the eighth power from the nearest point.

    With several parameters, every place that was not measured is outside.

    Parameters
    ----------
    points : array, shape (n, q)
    centre : array, shape (p, n)
        Positive.
    places : array, shape (m, q)
    growth : array, shape (.., p, m)

    Examples
    --------
    >>> import numpy as np
    >>> x, steep = np.array([[8.0], [9.0]]), np.array([[1.0, 100.0]])
    >>> told = local_growth(x, steep, np.array([[18.0]]))
    >>> believable(x, steep, np.array([[18.0]]), told).round(6).tolist()
    [[25600.0]]
    """
    distance = steps(points, places)
    # Among equally near points, take the one that leaves most room.
    near = distance <= distance.min(axis=1, keepdims=True) + _SAME
    away = np.abs(np.log(places)[:, None] - np.log(points)).sum(axis=2)
    with np.errstate(over="ignore"):
        caps = centre[:, None, :] * np.exp(_STEEPEST * away)
    most = np.where(near, caps, 0.0).max(axis=2)
    result: Array = np.where(_measured(points, places), growth, np.minimum(growth, most))
    return result


def _measured(points: Array, places: Array) -> NDArray[np.bool_]:
    """Return whether places lie in the measured range.

    With several parameters, only measured points do.
    Parameters with one value do not count, because their effect was not measured.
    """
    if points.shape[1] == 1:
        place = places[:, 0]
        return np.asarray((place >= points.min()) & (place <= points.max()))
    return np.asarray(steps(points, places).min(axis=1) < _SAME)


def lifted(centre: Array) -> Array:
    """Replace values next to nothing by half of the smallest other value, for logarithms.

    Examples
    --------
    >>> lifted(np.array([[0.0, 4.0, 16.0]])).tolist()
    [[2.0, 4.0, 16.0]]
    """
    scale = scale_of(np.maximum(centre, 0.0))
    return np.where(centre < scale, scale / 2, centre)


def slowed(points: Array, centre: Array, places: Array, readings: Array, at_end: Array) -> Array:
    """Limit predictions for one parameter beyond its range by the steepest growth measured.

    Parameters
    ----------
    points : array, shape (n, 1)
    centre : array, shape (p, n)
        Positive.
    places : array, shape (m, 1)
    readings : array, shape (.., p, m)
    at_end : array, shape (.., p, 1)
        The readings at the largest point.
    """
    order = np.argsort(points[:, 0])
    x, logs = np.log(points[order, 0]), np.log(centre[:, order])
    steepest = np.maximum((np.diff(logs, axis=1) / np.diff(x)).max(axis=1), 0.0)
    beyond = np.log(places[:, 0]) - x[-1]
    slope = steepest[:, None] + np.log(_STEEPER) / (x[-1] - x[-2])
    # A reading below zero at the end grows no more; an infinite bound is no limit.
    with np.errstate(over="ignore"):
        most = np.maximum(at_end, 0.0) * np.exp(slope * np.maximum(beyond, 0.0))
    return np.where(beyond > 0, np.minimum(readings, most), readings)


def bounds(points: Array, centre: Array, clear: Array, places: Array) -> tuple[Array, Array]:
    """Return the least and largest prediction, given the measured values on both sides of a place.

    With several parameters, only measured places have bounds. Elsewhere they are 0 and infinity.

    Parameters
    ----------
    points : array, shape (n, q)
    centre : array, shape (p, n)
        Measured values; beside a 0 the lower bound is 0.
    clear : array, shape (p, n)
        The same values from `lifted`.
    places : array, shape (m, q)
    """
    below = above = steps(points, places).argmin(axis=1)
    within = _measured(points, places)
    if points.shape[1] == 1:
        order = np.argsort(points[:, 0])
        x, place = points[order, 0], places[:, 0]
        below = order[np.maximum(np.searchsorted(x, place, side="right") - 1, 0)]
        above = order[np.minimum(np.searchsorted(x, place), x.size - 1)]
    low = np.minimum(centre[:, below], centre[:, above])
    high = np.maximum(clear[:, below], clear[:, above])
    least = np.where(within & (low > 0), low / _OFF, 0.0)
    return least, np.where(within, high * _OFF, np.inf)


def anchor(points: Array, centre: Array, at_points: Array, places: Array) -> Array:
    """Return the factor from a model to the points near each place; shape (p, m).

    A model's value that is not positive is left out: no factor corrects it.
    """
    ratio = np.log(centre / np.where(at_points > 0, at_points, centre))
    factor: Array = np.exp(ratio @ _near(points, places, _ANCHOR_DECAY).T)
    return factor


def _near(points: Array, places: Array, decay: float) -> Array:
    distance = steps(points, places)
    weight = decay ** -(distance - distance.min(axis=1, keepdims=True))
    normalised: Array = weight / weight.sum(axis=1, keepdims=True)
    return normalised
