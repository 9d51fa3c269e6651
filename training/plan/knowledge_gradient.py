"""Which run of a mapping would help most to choose the fastest."""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Equally likely outcomes of a run, which represent all.
_OUTCOMES = scipy.special.ndtri((np.arange(32) + 0.5) / 32)


def knowledge_gradient(mean: Floats, covariance: Floats, variance: float) -> Floats:
    """Return by how much one run of each mapping is expected to lower the least expected time.

    Parameters
    ----------
    mean, covariance : ndarray, shapes (n,) and (n, n)
        Of the logarithms of the mappings' times.
    variance : float
        Of the noise of a run.

    References
    ----------
    .. [1] Frazier, Powell and Dayanik, "The knowledge-gradient policy for correlated normal
       beliefs", INFORMS Journal on Computing 21, 2009.

    Examples
    --------
    >>> gain = knowledge_gradient(np.array([1.0, 1.0, 2.0]), np.diag([0.0, 0.1, 0.1]), 0.01)
    >>> int(gain.argmax()), bool(gain[0] == 0)
    (1, True)
    """
    moved = covariance / np.sqrt(np.diag(covariance) + variance + 1e-300)
    least = np.zeros(mean.size)
    for outcome in _OUTCOMES:
        least += (mean[:, None] + outcome * moved).min(axis=0)
    return np.asarray(np.maximum(mean.min() - least / _OUTCOMES.size, 0.0))


def best_batch(
    mean: Floats, covariance: Floats, variance: float, n: int, goal: float = 0.0
) -> Indices:
    """Return ``n`` mappings to run together, each once, the most telling first.

    Where a run is expected to gain next to nothing, those go on that settle most of the chance that
    some mapping takes less than the best by more than ``goal``, a share of its time.
    """
    covariance = covariance.copy()
    chosen: list[int] = []
    left = np.ones(mean.size, dtype=bool)
    for _ in range(min(n, mean.size)):
        gain = knowledge_gradient(mean, covariance, variance)
        order = np.lexsort((-_settled(mean, covariance, variance, goal), -gain, ~left))
        if gain[order[0]] < _NOTHING:
            order = np.lexsort((-gain, -_settled(mean, covariance, variance, goal), ~left))
        one = int(order[0])
        chosen.append(one)
        left[one] = False
        # What this run will teach, whatever it says.
        column = covariance[one]
        covariance = covariance - np.outer(column, column) / (column[one] + variance + 1e-300)
    return np.array(chosen, dtype=np.int64)


def _settled(mean: Floats, covariance: Floats, variance: float, goal: float) -> Floats:
    """How much of the chance that another mapping is faster a run of each settles.

    Of the variance between a mapping and the best a run takes its part away.
    """
    best = int(mean.argmin())
    own = covariance.diagonal()
    apart = np.maximum(own + covariance[best, best] - 2 * covariance[best], 1e-300)
    chance = scipy.special.ndtr((mean[best] - mean - np.log1p(goal)) / np.sqrt(apart))
    chance[best] = 0.0
    # By how much a run of i moves mapping j against the best.
    moved = (covariance - covariance[:, [best]]) ** 2 / (own[:, None] + variance + 1e-300)
    return np.asarray((moved / apart) @ chance)


# Share of the time that is not worth a run by itself.
_NOTHING = 1e-4
