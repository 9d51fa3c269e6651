"""Models of one parameter with a constant and two different terms."""

# p = call paths, n = points, t = terms, h = pairs of terms

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._evidence import EXPECTED

Array = NDArray[np.float64]
Index = NDArray[np.intp]


class Pairs(NamedTuple):
    """Approximate fit of every pair, each of shape (p, h)."""

    residual: Array
    against: Array
    base: Array


@cache
def all_pairs(n: int) -> Index:
    """Numbers of the two terms of every pair of n terms, shape (2, h)."""
    return np.array(np.triu_indices(n, 1))


def fit_pairs(
    terms: Array, log_prior: Array, weight: Array, target: Array, known: NDArray[np.bool_]
) -> Pairs:
    """Fit a constant and two different terms of the one parameter, for all pairs.

    Once the constant is projected out, a pair needs only its correlation.

    Parameters
    ----------
    terms : array, shape (t, n)
    log_prior : array, shape (t,)
    weight, target : array, shape (p, n)
    known : array of bool, shape (p,)
        The weights are those of the points' errors; otherwise their scale says nothing.
    """
    first, second = all_pairs(len(terms))
    total = weight.sum(axis=1, keepdims=True)
    one, two = weight @ terms.T, weight @ (terms * terms).T
    level = (weight * target).sum(axis=1, keepdims=True) / total
    above = target - level
    norm = np.sqrt(np.maximum(two - one**2 / total, 1e-300))
    slope = (weight * above) @ terms.T / norm
    mean = one / np.sqrt(total) / norm
    prior = log_prior - np.log(norm)
    norm_a, slope_a, mean_a, prior_a = (v.take(first, axis=1) for v in (norm, slope, mean, prior))
    norm_b, slope_b, mean_b, prior_b = (v.take(second, axis=1) for v in (norm, slope, mean, prior))
    correlation = (weight @ (terms[first] * terms[second]).T) / (norm_a * norm_b)
    correlation -= mean_a * mean_b
    rest = np.maximum(1.0 - correlation * correlation, 1e-12)
    only_a = slope_a - correlation * slope_b
    only_b = slope_b - correlation * slope_a
    explained = (slope_a * only_a + slope_b * only_b) / rest
    # The constant, in units of the error that it would have if the other coefficients were known.
    constant = level * np.sqrt(total) - (only_a * mean_a + only_b * mean_b) / rest
    against = (np.minimum(only_a, 0.0) ** 2 + np.minimum(only_b, 0.0) ** 2) / rest
    against += np.minimum(constant, 0.0) ** 2 / (1.0 + mean_a * mean_a + mean_b * mean_b)
    unexplained = (weight * above**2).sum(axis=1, keepdims=True)
    residual = np.maximum(unexplained - explained, 0.0)
    # Two similar terms may each be negative within its error, and far beyond it together. Then only
    # one of them, or the constant, is left.
    alone = unexplained - np.maximum(slope, 0.0) ** 2
    below = np.minimum(level * np.sqrt(total) - slope * mean, 0.0)
    alone += np.where(slope > 0, below**2 / (1.0 + mean * mean), 0.0)
    alone = np.minimum(alone.take(first, axis=1), alone.take(second, axis=1)) - residual
    against = np.where((only_a < 0) | (only_b < 0), np.maximum(against, alone), against)
    # Two similar terms cannot be told apart, but each has between nothing and all of a value.
    freedom = max(target.shape[1] - 3, 1)
    spread = np.where(known[:, None], 1.0, np.maximum(residual, EXPECTED**2 / 100) / freedom)
    widest = spread / np.minimum(norm_a, norm_b) ** 2
    rest = np.maximum(rest, np.minimum(widest, 1.0))
    return Pairs(residual, against, prior_a + prior_b - 0.5 * np.log(rest * total))
