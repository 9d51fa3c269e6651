"""Integration over coefficients that few points leave open.

Points along the axes say almost nothing about the coefficient of a product of terms. Its normal law
is far wider than the other coefficients, so the prior matters. The prior expects each term to have
a share of the value at the largest values of all parameters, which may have any size and need not
be measured. With shares u_k, the prior is (K - 1)! / (sum of u)^K times the density of the shares
(`log_shares`).
"""

# p = call paths, h = hypotheses, g = nodes, k = columns

from __future__ import annotations

from math import pi
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, logsumexp

from ._bounded import Repetitions, weigh
from ._evidence import log_shares
from ._refine import lift

Array = NDArray[np.float64]

NODES = 24
# Half-width of the range of nodes, in standard errors.
_REACH = 3.5


class Open(NamedTuple):
    """Coefficients at the nodes of the most doubtful one.

    Attributes
    ----------
    coefficient : array, shape (p, h, g, k)
    log_share : array, shape (p, h, g)
        Log probability of each node within its hypothesis.
    log_evidence : array, shape (p, h)
        Log evidence of the hypothesis, without the likelihood of its best coefficients and the
        factor (K - 1)!.
    """

    coefficient: Array
    log_share: Array
    log_evidence: Array


class _Nodes(NamedTuple):
    """Values of the most doubtful coefficient, and the law of the others given each value."""

    value: Array  # (p, h, g): of the most doubtful coefficient
    step: Array  # (p, h, g): its range, in standard errors
    offset: Array  # (p, h, g): from its mean, in standard errors
    is_worst: NDArray[np.bool_]  # (p, h, k): which it is
    mean: Array  # (p, h, g, k)
    spread: Array  # (p, h, k)


def integrate(coefficient: Array, inverse: Array, variance: Array, used: NDArray[np.bool_]) -> Open:
    """Integrate the prior over coefficients that are not negative.

    The most doubtful coefficient takes the values of the nodes. Given it, the others take the means
    of their normal laws, truncated at zero.

    Parameters
    ----------
    coefficient : array, shape (p, h, k)
        Of columns that are 1 at the largest values of all parameters.
    inverse : array, shape (p, h, k, k)
        As from `least_squares`.
    variance : array, shape (p, h)
        Scale of the covariance.
    used : array of bool, shape (p, h, k)
    """
    nodes = _nodes(coefficient, inverse, variance, used)
    sigma = nodes.spread[:, :, None, :]
    free = (used & ~nodes.is_worst)[:, :, None, :]
    z = np.where(free, nodes.mean / sigma, 30.0)
    log_positive = log_ndtr(z)
    value = np.where(free, np.maximum(nodes.mean + sigma * lift(z), 0.0), 0.0)
    value = np.where(nodes.is_worst[:, :, None, :], nodes.value[:, :, :, None], value)
    log_weight = -0.5 * nodes.offset**2 + log_positive.sum(axis=3)
    return _with_prior(value, log_weight, nodes.step, inverse, used)


def integrate_bounded(
    coefficient: Array,
    inverse: Array,
    used: NDArray[np.bool_],
    design: Array,
    repetitions: Repetitions,
) -> Open:
    """Integrate in the same way for bounded noise, whose likelihood replaces the normal law.

    The log evidence includes the whole likelihood.

    Parameters
    ----------
    coefficient, inverse, used
        As of `integrate`, for pairs of a call path and a hypothesis: shapes (m, k), (m, k, k).
    design, repetitions
        As of `weigh`.
    """
    inverse, used = inverse[:, None], used[:, None]
    nodes = _nodes(coefficient[:, None], inverse, np.ones((len(design), 1)), used)
    # Reflect the standard normal variables so that only the first moves the worst coefficient.
    row = np.einsum("phk,phkb->phb", nodes.is_worst.astype(float), inverse)[:, 0]
    row = row / np.linalg.norm(row, axis=1, keepdims=True)
    row[:, 0] -= 1.0
    size = np.maximum((row**2).sum(axis=1), 1e-30)[:, None, None]
    turned = inverse[:, 0] - 2.0 * (inverse[:, 0] @ row[:, :, None]) * row[:, None] / size
    found = weigh(design, repetitions, nodes.mean[:, 0], turned, used[:, 0])
    opened = _with_prior(
        found.coefficient[:, None], found.log_mean[:, None], nodes.step, inverse, used
    )
    return Open(*(part[:, 0] for part in opened))


def _with_prior(
    value: Array, log_weight: Array, step: Array, inverse: Array, used: NDArray[np.bool_]
) -> Open:
    """Weigh the nodes by the prior over shares, each by its width."""
    n_columns = used.sum(axis=2)[:, :, None]
    total = np.maximum(value.sum(axis=3), 1e-12)
    log_weight = log_weight + np.log(step) - 0.5 * np.log(2 * pi) - n_columns * np.log(total)
    log_weight += log_shares(value, used[:, :, None])
    evidence = logsumexp(log_weight, axis=2)
    volume = np.where(used, np.log(np.einsum("phkk->phk", inverse)), 0.0).sum(axis=2)
    share = log_weight - np.where(np.isfinite(evidence), evidence, 0.0)[:, :, None]
    return Open(value, share, evidence + volume)


def _nodes(coefficient: Array, inverse: Array, variance: Array, used: NDArray[np.bool_]) -> _Nodes:
    covariance = np.einsum("phab,phcb->phac", inverse, inverse) * variance[:, :, None, None]
    spread = np.sqrt(np.einsum("phkk->phk", covariance))
    spread = np.where(used, np.maximum(spread, 1e-300), 1e-300)
    worst = np.where(used, spread, -1.0).argmax(axis=2)[:, :, None]
    middle = np.take_along_axis(coefficient, worst, 2)  # (p, h, 1)
    width = np.take_along_axis(spread, worst, 2)
    row = np.take_along_axis(covariance, worst[:, :, :, None], 2)[:, :, 0]  # (p, h, k)
    is_worst = np.arange(coefficient.shape[2]) == worst

    low = np.maximum(middle - _REACH * width, 0.0)
    # A coefficient with a negative mean keeps only the tail of its law.
    high = np.maximum(middle, 0.0) + _REACH * width * (width / np.maximum(-middle, width))
    others = np.where(used & ~is_worst, np.maximum(coefficient, 0.0), 0.0).sum(axis=2)[:, :, None]
    others = np.maximum(others, 1e-6)
    # Steps are even where the prior is flat over the range; elsewhere factors are.
    grade = np.log1p((high - low) / (others + low))
    edge = np.linspace(0.0, 1.0, NODES + 1)
    bound = low + (high - low) * np.expm1(grade * edge) / np.maximum(np.expm1(grade), 1e-300)
    flat = grade < 1e-6
    bound = np.where(flat, low + (high - low) * edge, bound)
    node = (bound[:, :, 1:] + bound[:, :, :-1]) / 2  # (p, h, g)
    step = np.maximum(np.diff(bound, axis=2), 1e-300)

    shift = (node - middle)[:, :, :, None] * (row / width**2)[:, :, None, :]
    mean = coefficient[:, :, None, :] + shift
    left = spread**2 - row**2 / width**2
    sigma = np.sqrt(np.maximum(left, 1e-12 * spread**2) + 1e-300)
    return _Nodes(node, step / width, (node - middle) / width, is_worst, mean, sigma)
