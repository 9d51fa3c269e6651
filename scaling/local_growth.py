"""Growth near the largest measured values, for data that no hypothesis meets within its noise.

Real code changes regime: a cache overflows, a protocol switches. Where the repetitions say that a
model misses the points by more than noise, or where nothing tells the noise, the nearest points say
more about the next one than a formula for the whole range.
"""

# p = call paths, n = points, m = places to predict, q = parameters

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Each step of the measured grid away from a place divides a point's weight by these.
_SLOPE_DECAY = 1000.0
_ANCHOR_DECAY = 100.0
_RIDGE = 1e-3


def steps(points: Array, places: Array) -> Array:
    """Distance of each place to each point in mean steps of the measured grid; shape (m, n).

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


def local_growth(points: Array, centre: Array, places: Array) -> Array:
    """Power law through the points near each place.

    Parameters
    ----------
    points : array, shape (n, q)
    centre : array, shape (p, n)
        Positive.
    places : array, shape (m, q)

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
    weight = _near(points, places, _SLOPE_DECAY)
    result = np.empty((len(centre), len(places)))
    logs = np.log(centre)
    for k, place in enumerate(places):
        offset = np.log(points) - np.log(place)
        # About the middle of the near points, so that points in one place leave no singular system.
        middle = weight[k] @ offset
        design = np.hstack([np.ones((len(points), 1)), offset - middle])
        gram = (design * weight[k, :, None]).T @ design
        # Slopes that the near points leave open stay small.
        spread = np.maximum(weight[k] @ (offset - middle) ** 2, 1e-12)
        gram[1:, 1:] += _RIDGE * np.diag(spread)
        solved = np.linalg.solve(gram, (design * weight[k, :, None]).T @ logs.T)
        result[:, k] = solved[0] - middle @ solved[1:]
    return np.exp(result)


def anchor(points: Array, centre: Array, at_points: Array, places: Array) -> Array:
    """Factor by which the points near each place exceed a model's values there; shape (p, m)."""
    ratio = np.log(centre / np.maximum(at_points, 1e-300))
    factor: Array = np.exp(ratio @ _near(points, places, _ANCHOR_DECAY).T)
    return factor


def _near(points: Array, places: Array, decay: float) -> Array:
    distance = steps(points, places)
    weight = decay ** -(distance - distance.min(axis=1, keepdims=True))
    normalised: Array = weight / weight.sum(axis=1, keepdims=True)
    return normalised
