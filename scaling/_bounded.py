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
SAMPLES = 32
SAMPLES_A_NODE = 8
# Hypotheses whose log evidence under the normal law is less than the best by more are left out.
_GAP = 8.0
# Numbers held at a time.
_AT_ONCE = 200_000


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
    mean = np.empty(centre.shape)
    step = max(1, _AT_ONCE // (n_nodes * n_samples * design.shape[1]))
    for start in range(0, n_pairs, step):
        part = slice(start, start + step)
        c = centre[part, :, None] + np.einsum("mkl,sl->msk", spread[part], z)[:, None]
        c *= used[part, None, None]
        proposal = -0.5 * (used[part] @ (z**2).T)
        flat = c.reshape(len(c), -1, width)
        log_weight = _log_likelihood(design[part], flat, repetitions.take(part))
        log_weight[(flat < 0).any(axis=2)] = -np.inf
        log_weight = log_weight.reshape(c.shape[:3]) - proposal[:, None]
        top = log_weight.max(axis=2, keepdims=True)
        weight = np.exp(log_weight - np.maximum(top, -1e300))
        total = weight.sum(axis=2)
        with np.errstate(divide="ignore"):
            log_mean[part] = top[:, :, 0] + np.log(total) - np.log(n_samples)
        mean[part] = np.einsum("mgs,mgsk->mgk", weight, c) / np.maximum(total, 1e-300)[:, :, None]
    return Weighed(log_mean, mean)


def _log_likelihood(design: Array, coefficient: Array, repetitions: Repetitions) -> Array:
    """Shape (m, s), of coefficients of shape (m, s, k)."""
    value = np.maximum(coefficient @ np.swapaxes(design, 1, 2), 1e-300)  # (m, s, n)
    above = (repetitions.highest[:, None] / value).max(axis=2) - 1.0
    below = 1.0 - (repetitions.lowest[:, None] / value).min(axis=2)
    half_width = np.maximum(np.maximum(above, below), 1e-300)
    n = repetitions.count.sum(axis=1, keepdims=True)
    each = (np.log(value) @ repetitions.count[:, :, None])[:, :, 0]
    result: Array = -n * np.log(half_width) - each
    return result
