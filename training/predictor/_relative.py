"""What times are learned relative to, and how far they can be from it."""

from __future__ import annotations

import math
from typing import NamedTuple, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from toruscast.training.samples._table import seconds_of

from .feature_sets import LOWER_BOUND, Target

Floats = NDArray[np.float64]
# Part of a bound that simulations keep to: their clock ticks, and may end a little sooner.
_IN_TICKS = 0.999
# By how much of the lower bound the sketch lies off it where residuals reach half of their full
# size, and what is added so that no residual counts more than eleven times.
_HALF = 0.1
_LEAST_WAITING = 0.01
# Powers of the reach that are tried.
_POWERS = np.linspace(0.0, 1.0, 11)
# A measured time that the line misses by more than so many times the median, and so much of it, is
# no part of the line.
_FAR_OFF, _FAR_OFF_SHARE = 12.0, 0.3


def reach_of_corrections(times: Floats, bounds: Floats) -> Floats:
    """Return how far coarse times may be off, at most 1; less, the nearer they are to bounds."""
    waiting = np.abs(times / bounds - 1) + _LEAST_WAITING
    return np.asarray(waiting / (waiting + _HALF))


class Scale(NamedTuple):
    """What the times of a table's mappings are relative to, read once.

    Attributes
    ----------
    target : {"slowdown", "correction", "measured"}
    unit : ndarray, shape (n,)
        Seconds that times are divided by, or follow in a line.
    bound : ndarray, shape (n,)
        Lower bound, seconds.
    reach : ndarray, shape (n,)
        How far logarithms of corrections can be from what is common, at most 1.
    """

    target: Target
    unit: Floats
    bound: Floats
    reach: Floats

    @classmethod
    def of(cls, X: object, target: Target, reference: str) -> Self:
        """Read the columns that the target needs; times are taken relative to ``reference``."""
        unit = seconds_of(X, reference)
        bound = seconds_of(X, LOWER_BOUND)
        if target != "correction":
            return cls(target, unit, bound, np.ones(unit.size))
        return cls(target, unit, bound, reach_of_corrections(unit, bound))

    @property
    def least(self) -> Floats:
        """Seconds below which no time falls; none where the sketch itself does."""
        if self.target == "measured":
            return self.bound
        least = _IN_TICKS * self.bound
        return np.where(self.unit < least, 0.0, least)

    def holds(self, times: Floats) -> bool:
        """Whether no time lies below its bound."""
        return bool((times >= self.least).all())


class Relative(NamedTuple):
    """How times are made of what the trees say.

    Corrections of the sketch hardly move where it takes no longer than the lower bound: nobody
    waits there for anybody, which is all that its longer packets get wrong. That holds for
    simulated times; for others the samples tell how far (`power`), and by what they all differ
    (`common`).

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
    def of(cls, scale: Scale, y: Floats) -> Self:
        """Learn the common factor and the power from observed times.

        The power is the likeliest if residuals follow Laplace's law, whose scale goes with the
        power of the reach; 0 if it explains them no better than a number more must.
        """
        if scale.target != "correction":
            return cls(scale.target, 0.0, 0.0)
        logs = np.log(y / scale.unit)
        found = [(*_surprise(logs, scale.reach**power), float(power)) for power in _POWERS]
        surprise, common, power = min(found)
        gain = len(logs) * (found[0][0] - surprise)
        if 2 * gain <= np.log(len(logs)):
            _, common, power = found[0]
        return cls(scale.target, common, power)

    def scores(self, scale: Scale, times: Floats) -> Floats:
        """What the trees learn."""
        logs = np.log(times / scale.unit) - self.common
        return np.asarray(logs / scale.reach**self.power)

    def logs(self, scale: Scale, scores: Floats) -> Floats:
        """Logarithms of the seconds that the trees say, the mappings along the last axis."""
        return np.asarray(self.common + scores * scale.reach**self.power + np.log(scale.unit))


class Line(NamedTuple):
    """Measured times: a constant and a line in the reference, times what the trees correct.

    The constant is what does not depend on the mapping, such as computation and software. The slope
    tells how far the network of the model is from the real one.
    """

    constant: float
    """Seconds."""
    slope: float

    @classmethod
    def of(cls, scale: Scale, y: Floats) -> Self:
        """Fit both, none of them negative; relative residuals count alike."""
        return cls(*fit_line(scale.unit, y))

    @property
    def power(self) -> float:
        """Of the reach of corrections: they are as large everywhere."""
        return 0.0

    def scores(self, scale: Scale, times: Floats) -> Floats:
        """What the trees learn."""
        return np.asarray(np.log(times / self.seconds(scale.unit)))

    def logs(self, scale: Scale, scores: Floats) -> Floats:
        """Logarithms of the seconds that the trees say, the mappings along the last axis."""
        return np.asarray(scores + np.log(self.seconds(scale.unit)))

    def seconds(self, reference: Floats) -> Floats:
        """Seconds on the line."""
        return np.asarray(self.constant + self.slope * reference)


def fit_line(reference: Floats, times: Floats) -> tuple[float, float]:
    """Return constant and slope of times, neither negative, by least squares of relative residuals.

    A time far off all others, such as of a run that something disturbed, is left out.
    """
    columns = np.stack([np.ones(times.size), reference / reference.mean()], axis=1)
    kept = np.ones(times.size, dtype=bool)
    for _ in range(2):
        factors, _ = scipy.optimize.nnls(
            columns[kept] / times[kept, None], np.ones(int(kept.sum()))
        )
        missed = np.abs(columns @ factors / times - 1)
        kept = missed <= max(_FAR_OFF * float(np.median(missed)), _FAR_OFF_SHARE)
    return float(factors[0]), float(factors[1] / reference.mean())


def _surprise(logs: Floats, scale: Floats) -> tuple[float, float]:
    """How unlikely values of such scales are in the mean, about their likeliest common value."""
    order = np.argsort(logs, kind="stable")
    counts = np.cumsum(1 / scale[order])
    common = float(logs[order][np.searchsorted(counts, counts[-1] / 2)])
    mean = float(np.mean(np.abs(logs - common) / scale))
    return math.log(max(mean, 1e-300)) + float(np.log(scale).mean()), common
