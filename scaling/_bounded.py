"""Exact likelihood of bounded noise, for the hypotheses that the normal law leaves.

Repetitions of a value f lie within f (1 - h) and f (1 + h). With a half-width h that may have any
size, the likelihood of f is h^-N, h being the least that covers all N repetitions. It has sharp
edges: a hypothesis that one point denies is out, however well it meets the others on average.
The normal law of the sweep proposes coefficients, and this likelihood weighs them.
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
# Hypotheses whose log evidence under the normal law is less than the best by more are left out.
_GAP = 8.0
# Numbers held at a time.
_AT_ONCE = 8_000


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
    """What the samples say of each pair.

    Attributes
    ----------
    log_mean : array, shape (m, g)
        Log of the mean of likelihood over proposal, for each node; minus infinity where no sample
        has coefficients that are not negative.
    coefficient : array, shape (m, g, k)
        Their mean.
    """

    log_mean: Array
    coefficient: Array


def likely(score: Array, rows: Index) -> tuple[Index, Index]:
    """Call paths and hypotheses worth weighing, out of the rows asked for."""
    near = score[rows] > score[rows].max(axis=1, keepdims=True) - _GAP
    path, hypothesis = np.nonzero(near)
    return rows[path], hypothesis


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
        Coefficients that samples lie around, for each node.
    spread : array, shape (m, k, k)
        Takes standard normal variables to coefficients; those after the node's own if g > 1.
    used : array of bool, shape (m, k)
    """
    n_pairs, n_nodes, width = centre.shape
    n_samples = SAMPLES if n_nodes == 1 else SAMPLES_A_NODE
    z = np.random.default_rng(0).standard_normal((n_samples // 2, width))
    # In opposite pairs: where the likelihood is even about the centre, so is the mean.
    z = np.concatenate([z, -z])
    if n_nodes > 1:
        z[:, 0] = 0.0
    log_mean = np.empty((n_pairs, n_nodes))
    mean = np.zeros(centre.shape)
    step = max(1, _AT_ONCE // (n_nodes * n_samples))
    # Pairs of few columns together, whose other columns need no work.
    order = np.argsort(used.sum(axis=1), kind="stable")
    for start in range(0, n_pairs, step):
        part = order[start : start + step]
        exists = used[part].T.astype(float)
        # One array of shape (g, s, m) for each column: pairs last, for long inner loops.
        drawn = [
            (centre[part, :, k].T[:, None] + z @ spread[part, k].T) * exists[k]
            for k in np.flatnonzero(exists.any(axis=1))
        ]
        log_weight = _log_likelihood(design[part], drawn, repetitions.take(part))
        log_weight += 0.5 * (z**2 @ exists)
        possible = drawn[0] >= 0
        for c in drawn[1:]:
            possible &= c >= 0
        top = np.where(possible, log_weight, -1e300).max(axis=1, keepdims=True)
        weight = np.exp(np.minimum(log_weight - top, 0.0)) * possible
        total = weight.sum(axis=1)
        with np.errstate(divide="ignore"):
            log_mean[part] = (top[:, 0] + np.log(total / n_samples)).T
        total = np.maximum(total, 1e-300)
        for k, c in enumerate(drawn):
            mean[part, :, k] = ((weight * c).sum(axis=1) / total).T
    return Weighed(log_mean, mean)


def _log_likelihood(design: Array, coefficient: list[Array], repetitions: Repetitions) -> Array:
    """Shape (g, s, m), of coefficients of that shape for each column.

    Point after point: one pass over the samples for each operation, not a short reduction over the
    points for each sample, which takes about three times as long. With the columns divided by the
    largest repetition, the extremes of model over repetition need no division for each sample.
    """
    shape = coefficient[0].shape
    least, most = np.full(shape, np.inf), np.zeros(shape)
    value, part = np.empty(shape), np.empty(shape)
    # A row of pairs for each point and column.
    columns = np.divide(design.transpose(1, 2, 0), repetitions.highest.T[:, None], order="C")
    ratios = np.ascontiguousarray((repetitions.highest / repetitions.lowest).T)
    for column, ratio in zip(columns, ratios, strict=True):
        np.multiply(column[0], coefficient[0], out=value)
        for k in range(1, len(coefficient)):
            value += np.multiply(column[k], coefficient[k], out=part)
        np.minimum(least, value, out=least)
        np.maximum(most, np.multiply(value, ratio, out=value), out=most)
    above, below = 1.0 / np.maximum(least, 1e-300), 1.0 / np.maximum(most, 1e-300)
    half_width = np.maximum(np.maximum(above - 1.0, 1.0 - below), 1e-300)
    n = repetitions.count.sum(axis=1)
    # The density is 1 / (2 h f) for each repetition; log f in its tangent at the middle.
    middle = (repetitions.lowest + repetitions.highest) / 2
    slope = np.einsum("mnk,mn->km", design[:, :, : len(coefficient)], repetitions.count / middle)
    constant = n - (repetitions.count * np.log(middle)).sum(axis=1)
    result: Array = constant - n * np.log(half_width)
    for k, c in enumerate(coefficient):
        result -= slope[k] * c
    return result
