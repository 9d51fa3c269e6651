"""Whether measured times are worth learning from, and how far noise lets anybody order them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError

from .runs import Runs

Floats = NDArray[np.float64]
LEAST_MAPPINGS = 6
CHANCE = 0.01
"""Probability below which what is seen is no chance."""
# Mappings of which all pairs are looked at.
_PAIRED = 1500


class NothingToLearnError(InputError):
    """Measured times tell nothing of mappings that were not measured."""


def check_enough(runs: Runs) -> None:
    """Raise `NothingToLearnError` if there are too few times, or nothing tells them apart."""
    from scipy.stats import f as f_distribution

    n, times = len(runs.names), runs.times
    if n < LEAST_MAPPINGS:
        expected = f"{LEAST_MAPPINGS} or more, each measured once at least"
        raise NothingToLearnError(
            "too few mappings to learn from", file=runs.file, found=n, expected=expected
        )
    if times.max() <= times.min() * (1 + 1e-9):
        raise NothingToLearnError(
            f"nothing to learn: all {n} times are equal", file=runs.file, found=times[0]
        )
    free = int((runs.counts - 1).sum())
    if not runs.noise > 0:
        return
    # Variances of one run, between the mappings and within them.
    between = float((runs.counts * (np.log(times) - np.log(times).mean()) ** 2).sum() / (n - 1))
    if f_distribution.sf(between / runs.noise**2, n - 1, free) > CHANCE:
        raise NothingToLearnError(
            f"nothing to learn: the {n} mappings differ no more than the runs of one, which vary "
            f"by {100 * runs.noise:.2g} %",
            file=runs.file,
            expected="more runs of each, or mappings that differ more",
        )


def possible_rcc(runs: Runs) -> float:
    """Return the RCC that true times would reach against the measured ones.

    No forecast can be expected to do better: noise turns pairs around. Pairs of equal measured
    times are left out, as in `rcc_told_apart`.

    Returns
    -------
    float
        NaN where the noise is not known.

    Examples
    --------
    >>> possible_rcc(Runs.of({"a": [1.0, 1.1], "b": [1.05, 1.12], "c": [3.0, 3.3]})) < 1
    True
    >>> possible_rcc(Runs.of({"a": 1.0, "b": 2.0}))
    nan
    """
    from scipy.stats import norm

    if math.isnan(runs.noise):
        return math.nan
    some = np.linspace(0, len(runs.names) - 1, min(len(runs.names), _PAIRED)).astype(np.int64)
    logs, errors = np.log(runs.times)[some], np.maximum(runs.errors[some], 1e-12)
    # Noise spreads measured times wider than true ones.
    spread = float(logs.var())
    true = max(0.0, 1 - float((errors**2).mean()) / spread) if spread else 0.0
    i, j = np.triu_indices(logs.size, 1)
    apart = np.abs(logs[i] - logs[j])
    right = norm.cdf(math.sqrt(true) * apart / np.hypot(errors[i], errors[j]))
    return float(right[apart > 0].mean()) if (apart > 0).any() else math.nan


def tied_share(runs: Runs) -> float:
    """Return the share of pairs that cannot be told apart at this noise; NaN if it is not known.

    A pair is told apart where its times differ by twice the standard error of the difference.
    """
    if math.isnan(runs.noise):
        return math.nan
    some = np.linspace(0, len(runs.names) - 1, min(len(runs.names), _PAIRED)).astype(np.int64)
    logs, errors = np.log(runs.times)[some], runs.errors[some]
    i, j = np.triu_indices(logs.size, 1)
    return float((np.abs(logs[i] - logs[j]) < 2 * np.hypot(errors[i], errors[j])).mean())
