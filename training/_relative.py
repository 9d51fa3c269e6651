"""What times are learned relative to, and how far they can be from it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._table import seconds_of
from .feature_sets import Target

Floats = NDArray[np.float64]
LOWER_BOUND = "lower_bound"
SKETCH_TIME = "sketch_time"
TARGET_COLUMNS: dict[Target, tuple[str, ...]] = {
    "time": (), "slowdown": (LOWER_BOUND,), "correction": (LOWER_BOUND, SKETCH_TIME),
}  # fmt: skip
"""Columns that a table must have for a target; times are taken relative to the last one."""
# Part of a lower bound below which no time is thought to fall: simulated ones are rounded.
_ROUNDED = 0.999
# By how much of the lower bound the sketch lies off it where misses reach half of their full size,
# and what is added for rounding. In the samples of the default model, the 95th percentile of the
# misses is 0.1 % where that is 0.2 %, 2 % at 2 %, 7 % at 20 % and 8 % at 60 %.
_HALF = 0.1
_ROUNDING = 1e-3


def unit(X: object, target: Target) -> Floats:
    """Seconds that times are divided by."""
    return seconds_of(X, TARGET_COLUMNS[target][-1])


def least(X: object, target: Target) -> Floats:
    """Seconds below which no time is thought to fall; none where the sketch itself does."""
    bound = _ROUNDED * seconds_of(X, LOWER_BOUND)
    return np.where(unit(X, target) < bound, 0.0, bound)


def reach(X: object, target: Target) -> Floats | float:
    """How far logarithms of relative times can be from 0, between 0 and 1.

    Those of corrections hardly move where the sketch takes no longer than the lower bound: nobody
    waits there for anybody, which is all that its longer packets get wrong.
    """
    if target != "correction":
        return 1.0
    waiting = np.abs(seconds_of(X, SKETCH_TIME) / seconds_of(X, LOWER_BOUND) - 1)
    return np.asarray((waiting + _ROUNDING) / (waiting + _ROUNDING + _HALF))
