"""Exact likelihood of bounded noise, for the hypotheses that are likely under the normal law.

Repetitions of a value f lie within f (1 - h) and f (1 + h). If h may have any size, the likelihood
of f is h^-N, where h is the least half-width that covers all N repetitions. A single point can rule
a hypothesis out, however well it meets the others. The normal law of the sweep proposes
coefficients, and this likelihood weighs them.
"""

# m = pairs of a call path and a hypothesis, n = points, k = columns, s = samples, g = nodes

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# Samples of the coefficients of a hypothesis, and of each of its nodes where points are missing.
SAMPLES = 16
SAMPLES_A_NODE = 8
# A hypothesis is left out if its log evidence under the normal law is this much below the best.
_GAP = 8.0
# Numbers held at a time.
_AT_ONCE = 16_000


@dataclass(frozen=True)
class Repetitions:
    """Extremes and number of the repetitions at each point, each of shape (p, n)."""

    lowest: Array
    highest: Array
    count: Array

    def take(self, rows: Index | slice) -> Repetitions:
        return Repetitions(self.lowest[rows], self.highest[rows], self.count[rows])

    def in_units(self, unit: Array) -> Repetitions:
        """Extremes divided by units, broadcastable to (p, n)."""
        return Repetitions(self.lowest / unit, self.highest / unit, self.count)


class Weighed(NamedTuple):
    """Likelihood and coefficients of each pair, averaged over the samples.

    Attributes
    ----------
    log_mean : array, shape (m, g)
        Log of the mean of likelihood over proposal, for each node; minus infinity where every
        sample has a negative coefficient.
    coefficient : array, shape (m, g, k)
        Their mean, weighted by the likelihood.
    """

    log_mean: Array
    coefficient: Array


def likely(score: Array, rows: Index, used: NDArray[np.bool_]) -> tuple[Index, Index]:
    """Return the pairs of a call path and a hypothesis that are worth weighing.

    Pairs with few columns stand together, so that `weigh` spends no time on unused columns.
    """
    near = score[rows] > score[rows].max(axis=1, keepdims=True) - _GAP
    path, hypothesis = np.nonzero(near)
    path = rows[path]
    order = np.argsort(used.sum(axis=2)[path, hypothesis], kind="stable")
    return path[order], hypothesis[order]


def weigh(
    design: Array, repetitions: Repetitions, centre: Array, spread: Array, used: NDArray[np.bool_]
) -> Weighed:
    """Weigh samples of the coefficients of each pair by the likelihood.

    Parameters
    ----------
    design : array, shape (m, n, k)
        Columns at the points.
    repetitions : Repetitions
        Of shape (m, n), positive.
    centre : array, shape (m, g, k)
        Middle of the samples of the coefficients, for each node.
    spread : array, shape (m, k, k)
        Matrix from standard normal variables to coefficients; with g > 1 the node's own coefficient
        is left out.
    used : array of bool, shape (m, k)
        Columns that exist; they come first.
    """
    n_pairs, n_nodes, width = centre.shape
    n_samples = SAMPLES if n_nodes == 1 else SAMPLES_A_NODE
    z = np.random.default_rng(0).standard_normal((n_samples // 2, width))
    # Samples come in opposite pairs, so that a symmetric likelihood gives the centre as its mean.
    z = np.concatenate([z, -z])
    if n_nodes > 1:
        z[:, 0] = 0.0
    drawn = np.hstack([np.ones((n_samples, 1)), z])
    log_mean = np.empty((n_pairs, n_nodes))
    mean = np.zeros(centre.shape)
    step = max(1, _AT_ONCE // (n_nodes * n_samples))
    for start in range(0, n_pairs, step):
        part = slice(start, start + step)
        k = used[part].sum(axis=1).max()
        exists = used[part, :k].T.astype(float)
        # Coefficients, and the values of the model, are linear in the random numbers.
        law = np.empty((n_nodes, k, 1 + k, exists.shape[1]))
        law[:, :, 0] = np.moveaxis(centre[part, :, :k], 0, 2)
        law[:, :, 1:] = np.moveaxis(spread[part, :k, :k], 0, 2)
        law *= exists[:, None]
        one = drawn[:, : 1 + k]
        possible = (one @ law >= 0).all(axis=1)
        log_weight = _log_likelihood(design[part, :, :k].T, law, one, repetitions.take(part))
        log_weight += 0.5 * (z[:, :k] ** 2 @ exists)
        top = np.where(possible, log_weight, -1e300).max(axis=1, keepdims=True)
        weight = np.exp(np.minimum(log_weight - top, 0.0)) * possible
        total = weight.sum(axis=1)
        with np.errstate(divide="ignore"):
            log_mean[part] = (top[:, 0] + np.log(total / n_samples)).T
        weighted = one.T @ weight / np.maximum(total, 1e-300)[:, None]
        mean[part, :, :k] = np.einsum("gkjm,gjm->mgk", law, weighted)
    return Weighed(log_mean, mean)


def _log_likelihood(columns: Array, law: Array, drawn: Array, repetitions: Repetitions) -> Array:
    """Log likelihood of every sample, shape (g, s, m).

    The loop runs over points and treats all samples at once, because a reduction over few points is
    slow. One matrix product gives the model's values in half the time of a sum over columns.
    Dividing the columns by the largest repetition saves a division for each sample.

    Parameters
    ----------
    columns : array, shape (k, n, m)
    law : array, shape (g, k, 1 + k, m)
        Matrix from the random numbers (with a one in front) to coefficients.
    drawn : array, shape (s, 1 + k)
    repetitions : Repetitions
        Of shape (m, n).
    """
    lowest, highest, count = repetitions.lowest.T, repetitions.highest.T, repetitions.count.T
    share = np.einsum("knm,gkjm->gnjm", np.divide(columns, highest, order="C"), law)
    shape = (len(law), len(drawn), law.shape[3])
    least, most, value = np.full(shape, np.inf), np.zeros(shape), np.empty(shape)
    for i, ratio in enumerate(highest / lowest):
        np.matmul(drawn, share[:, i], out=value)
        np.minimum(least, value, out=least)
        np.maximum(most, np.multiply(value, ratio, out=value), out=most)
    above, below = 1.0 / np.maximum(least, 1e-300), 1.0 / np.maximum(most, 1e-300)
    half_width = np.maximum(np.maximum(above - 1.0, 1.0 - below), 1e-300)
    # Each repetition has the density 1 / (2 h f); log f is replaced by its tangent at the middle.
    middle = (lowest + highest) / 2
    slope = np.einsum("gnjm,nm->gjm", share, count * highest / middle)
    n = count.sum(axis=0)
    result: Array = n - (count * np.log(middle)).sum(axis=0) - n * np.log(half_width)
    result -= drawn @ slope
    return result
