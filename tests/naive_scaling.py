"""Slow, obvious twins of the scaling models' search."""

from itertools import combinations
from math import factorial, log, pi

import numpy as np


def columns_of(x, exponents):
    """One column x^i log2(x)^j for each (i, j)."""
    return np.array([x**i * np.log2(x) ** j for i, j in exponents]).T


def one_parameter(x, y, error, pairs, prior, no_constant, constant, second):
    """Log evidence, but for the sign of coefficients, of every one-parameter hypothesis.

    One least-squares problem after the other, with a general solver. Returns a dict from the tuple
    of (i, j), the constant as (0, 0), to the log evidence.
    """
    peak = {e: (x ** e[0] * np.log2(x) ** e[1]).max() for e in pairs}
    peak[0, 0] = 1.0
    of = dict(zip(pairs, np.log(prior), strict=True))
    hypotheses = {((0, 0),): log(constant)}
    for e in pairs:
        hypotheses[(0, 0), e] = log((1 - constant) * (1 - no_constant)) + of[e]
        hypotheses[e,] = log((1 - constant) * no_constant) + of[e]
    for e, f in combinations(pairs, 2):
        hypotheses[(0, 0), e, f] = log(second) + of[e] + of[f] + log(2)
    result = {}
    unit = np.abs(y).max()
    for terms, log_prior in hypotheses.items():
        design = columns_of(x, terms) * [unit / peak[e] for e in terms] / error[:, None]
        coefficient = np.linalg.lstsq(design, y / error, rcond=None)[0]
        misfit = ((y / error - design @ coefficient) ** 2).sum()
        _, log_det = np.linalg.slogdet(design.T @ design)
        k = len(terms)
        result[terms] = (
            log_prior + log(factorial(k - 1)) - misfit / 2 - log_det / 2 + k / 2 * log(2 * pi)
        )
    return result


def weighted_quantile(values, weights, level):
    """Smallest value that at least `level` of the weight does not exceed."""
    total = 0.0
    for value, weight in sorted(zip(values, weights, strict=True)):
        total += weight
        if total >= level * sum(weights):
            return value
    return max(values)
