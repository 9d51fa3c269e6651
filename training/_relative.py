"""What times are learned relative to, and how far they can be from it."""

from __future__ import annotations

import math
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ._table import seconds_of
from .feature_sets import Target

Floats = NDArray[np.float64]
LOWER_BOUND = "lower_bound"
SKETCH_TIME = "sketch_time"
TARGET_COLUMNS: dict[Target, tuple[str, ...]] = {
    "time": (),
    "slowdown": (LOWER_BOUND,),
    "correction": (LOWER_BOUND, SKETCH_TIME),
}
"""Columns that a table must have for a target; times are taken relative to the last one."""
# Part of a lower bound below which no time is thought to fall: simulated ones are rounded.
_ROUNDED = 0.999
# By how much of the lower bound the sketch lies off it where misses reach half of their full size,
# and what is added so that no miss counts more than eleven times. In the samples of the default
# model, the 95th percentile of the misses is .1 % where that is .2 %, 2 % at 2 %, 7 % at 20 % and
# 8 % at 60 % (`tools/train_default.py` prints them).
_HALF = 0.1
_LEAST_WAITING = 0.01
# Powers of the reach that are tried.
_POWERS = np.linspace(0.0, 1.0, 11)


class Relative(NamedTuple):
    """How times are made of what the trees say.

    Corrections of the sketch hardly move where it takes no longer than the lower bound: nobody
    waits there for anybody, which is all that its longer packets get wrong. That holds of simulated
    times; of others it is learned how far (`power`), and by what they all differ (`common`).

    Attributes
    ----------
    target : {"slowdown", "correction"}
    common : float
        Logarithm of a factor of all times.
    power : float
        Of the reach of corrections: 1 if they shrink near the bound as far as can be, 0 if not.
    """

    target: Target
    common: float
    power: float

    @classmethod
    def of(cls, X: object, y: Floats, target: Target) -> Self:
        """Learn the common factor and the power from observed times.

        The power is the likeliest if misses follow Laplace's law, whose scale goes with the power
        of the reach; 0 if it explains them no better than a number more must.
        """
        if target != "correction":
            return cls(target, 0.0, 0.0)
        logs = np.log(y / unit(X, target))
        reach = _reach(X)
        found = [(*_surprise(logs, reach**power), float(power)) for power in _POWERS]
        surprise, common, power = min(found)
        gain = len(logs) * (found[0][0] - surprise)
        if 2 * gain <= np.log(len(logs)):
            _, common, power = found[0]
        return cls(target, common, power)

    def scores(self, X: object, times: Floats) -> Floats:
        """What the trees learn."""
        logs = np.log(times / unit(X, self.target)) - self.common
        return np.asarray(logs / self._reach(X))

    def times(self, X: object, scores: Floats) -> Floats:
        """Seconds of what the trees say, the mappings along the last axis."""
        logs = self.common + scores * self._reach(X)
        return np.asarray(np.exp(logs) * unit(X, self.target))

    def _reach(self, X: object) -> Floats | float:
        return _reach(X) ** self.power if self.power else 1.0


def _surprise(logs: Floats, scale: Floats) -> tuple[float, float]:
    """How unlikely values of such scales are in the mean, about their likeliest common value."""
    order = np.argsort(logs, kind="stable")
    counts = np.cumsum(1 / scale[order])
    common = float(logs[order][np.searchsorted(counts, counts[-1] / 2)])
    mean = float(np.mean(np.abs(logs - common) / scale))
    return math.log(max(mean, 1e-300)) + float(np.log(scale).mean()), common


def unit(X: object, target: Target) -> Floats:
    """Seconds that times are divided by."""
    return seconds_of(X, TARGET_COLUMNS[target][-1])


def least(X: object, target: Target) -> Floats:
    """Seconds below which no time is thought to fall; none where the sketch itself does."""
    bound = _ROUNDED * seconds_of(X, LOWER_BOUND)
    return np.where(unit(X, target) < bound, 0.0, bound)


def _reach(X: object) -> Floats:
    """How far logarithms of corrections can be from what is common, at most 1."""
    waiting = np.abs(seconds_of(X, SKETCH_TIME) / seconds_of(X, LOWER_BOUND) - 1) + _LEAST_WAITING
    return np.asarray(waiting / (waiting + _HALF))
