"""Times of mappings before any is observed, and how far forecasts were off others."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.validation import whole_number

Floats = NDArray[np.float64]
# Values drawn at a time.
_BLOCK = 2_000_000


@dataclass(frozen=True)
class ResidualCalibration:
    """Cross-validated residuals, each divided by the spread of the trees plus a floor.

    A residual is the sum of what its group has in common and of its own deviation; without groups
    the common part is nil. From the mean of a group of m, residuals deviate by sqrt((m - 1) / m) of
    what they do from what the group has in common, which is made up for.
    """

    floor: float
    residuals: Floats
    common: Floats
    deviations: Floats

    @classmethod
    def of(cls, floor: float, residuals: Floats, members: NDArray[np.intp] | None) -> Self:
        """Return the calibration of residuals, with the number of the group of each if any."""
        if members is None:
            return cls(floor, residuals, np.zeros(1), residuals)
        size = np.bincount(members)
        common = np.bincount(members, residuals) / size
        several = size[members] > 1
        of_several = members[several]
        deviations = residuals[several] - common[of_several]
        deviations *= np.sqrt(size / np.maximum(size - 1, 1))[of_several]
        return cls(floor, residuals, common, deviations)

    def quantile(self, coverage: float) -> float:
        """Return the scaled miss that a share ``coverage`` of new mappings does not exceed.

        On average: the rank is interpolated. The guarantee of conformal prediction, which holds for
        finite samples, needs the next whole rank and is not given.
        """
        ordered = np.sort(np.abs(self.residuals))
        # Linear between two residuals: the next whole one would cover more than was asked for.
        rank = (ordered.size + 1) * coverage
        return float(np.interp(rank, np.arange(1, ordered.size + 1), ordered))

    def ask_for_more(self, coverage: float) -> None:
        """Warn if even the largest miss is exceeded by more new mappings than the coverage says."""
        # 0.9 / (1 - 0.9) is a little more than 9.
        needed = math.ceil(round(coverage / (1 - coverage), 6))
        if self.residuals.size < needed:
            warnings.warn(
                f"intervals of {self.residuals.size} samples hold less than a share "
                f"{coverage:.4g} of the times: that takes {needed}",
                stacklevel=3,
            )

    def draws(self, rng: np.random.Generator, n_draws: int, n: int, block: int) -> Iterator[Floats]:
        """Draw scaled residuals of ``n`` mappings of one group, ``(n_draws, n)``, in blocks."""
        common = rng.choice(self.common, size=(n_draws, 1))
        for start in range(0, n_draws, block):
            part = common[start : start + block]
            yield part + rng.choice(self.deviations, size=(len(part), n))


@dataclass(frozen=True, eq=False)
class PriorPrediction:
    """Forecast of some mappings before any is observed.

    Centre and width are logarithms of seconds; seconds unless ``is_log``. No time falls below
    ``min_times``, seconds; minus infinity where no bound is known to hold.
    """

    features: Floats
    centre: Floats
    width: Floats
    calibration: ResidualCalibration | None
    min_times: Floats
    is_log: bool = True

    def times(self, scores: Floats | None = None) -> Floats:
        """Seconds of scores, the mappings along the last axis; of the forecast if not given."""
        scores = self.centre if scores is None else scores
        return np.maximum(np.exp(scores) if self.is_log else scores, self.min_times)

    @property
    def is_bounded(self) -> bool:
        """Whether no time falls below its lower bound."""
        return bool(np.isfinite(self.min_times).all())

    def logs(self) -> tuple[Floats, Floats]:
        """Return the forecast and its width as logarithms of seconds."""
        if self.is_log:
            return self.centre, self.width
        centre = np.maximum(self.centre, 1e-300)
        return np.log(centre), self.width / centre

    def interval(self, coverage: float) -> Floats:
        """Return low and high ends in seconds, shape ``(n, 2)``."""
        if not 0 < coverage < 1:
            raise InputError("bad coverage", found=coverage, expected="between 0 and 1")
        self.calibrated.ask_for_more(coverage)
        half = self.calibrated.quantile(coverage) * self.width
        return np.stack([self.times(self.centre - half), self.times(self.centre + half)], axis=1)

    def draws(self, n_draws: int, seed: int) -> Iterator[Floats]:
        """Draw possible times in blocks ``(n, n_mappings)``, a bounded number of values each."""
        whole_number(n_draws, "number of draws", 1)
        rng = np.random.default_rng(whole_number(seed, "seed", 0))
        block = max(1, _BLOCK // self.centre.size)
        for residuals in self.calibrated.draws(rng, n_draws, self.centre.size, block):
            yield self.times(self.centre + residuals * self.width)

    @property
    def calibrated(self) -> ResidualCalibration:
        """The calibration; `InputError` where the model has none."""
        if self.calibration is None:
            raise InputError("model without calibration", expected="calibration_folds of 2 or more")
        return self.calibration


def p_best(draws: Iterable[Floats]) -> Floats:
    """Return the probability that each candidate is the fastest; those that tie share the win.

    The draws of possible times, or of their logarithms, come in blocks ``(n_draws, n)``.
    """
    wins: Floats | float = 0.0
    n_draws = 0
    for times in draws:
        is_least = times == times.min(axis=1, keepdims=True)
        wins = wins + (is_least / is_least.sum(axis=1, keepdims=True)).sum(axis=0)
        n_draws += len(times)
    return np.asarray(wins / n_draws)
