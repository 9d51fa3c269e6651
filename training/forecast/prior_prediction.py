"""What a model says of mappings: times, intervals and chances from one pass through the forest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.training.predictor._calibration import Calibration
from toruscast.training.predictor._relative import Line, Relative, Scale
from toruscast.validation import whole_number

Floats = NDArray[np.float64]
# Values drawn at a time.
_BLOCK = 2_000_000


@dataclass(frozen=True, eq=False)
class Outlook:
    """Forecast of some mappings on the scale on which the model misses.

    Attributes
    ----------
    features : ndarray, shape (n, n_features)
        Normalised features.
    centre, width : ndarray, shape (n,)
        Forecast and width of its uncertainty, in scores: logarithms of seconds, seconds, or what
        `Relative` makes logarithms of.
    """

    features: Floats
    centre: Floats
    width: Floats
    calibration: Calibration | None
    relative: Relative | Line | None
    scale: Scale | None
    is_log: bool
    is_bounded: bool

    def times(self, scores: Floats | None = None) -> Floats:
        """Seconds of scores, the mappings along the last axis; of the forecast if not given."""
        scores = self.centre if scores is None else scores
        if self.relative is None or self.scale is None:
            return np.exp(scores) if self.is_log else scores
        times = np.exp(self.relative.logs(self.scale, scores))
        return np.maximum(times, self.scale.least) if self.is_bounded else times

    def is_at_bound(self, times: Floats) -> NDArray[np.bool_]:
        """Which times are the lower bound, of which clocks are not thought."""
        if self.scale is None or not self.is_bounded:
            return np.zeros(times.size, dtype=np.bool_)
        return np.asarray(times <= self.scale.least)

    def logs(self) -> tuple[Floats, Floats]:
        """Return the forecast and its width as logarithms of seconds."""
        if self.relative is None or self.scale is None:
            if self.is_log:
                return self.centre, self.width
            centre = np.maximum(self.centre, 1e-300)
            return np.log(centre), self.width / centre
        return (
            self.relative.logs(self.scale, self.centre),
            self.width * self.scale.reach**self.relative.power,
        )

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
        for misses in self.calibrated.draws(rng, n_draws, self.centre.size, block):
            yield self.times(self.centre + misses * self.width)

    def probability_of_best(self, n_draws: int, seed: int) -> Floats:
        """Return the probability that each mapping is the fastest; those that tie share the win."""
        shares = np.zeros(self.centre.size)
        for block in self.draws(n_draws, seed):
            fastest = block == block.min(axis=1, keepdims=True)
            shares += (fastest / fastest.sum(axis=1, keepdims=True)).sum(axis=0)
        return shares / n_draws

    @property
    def calibrated(self) -> Calibration:
        """The calibration; `InputError` where the model has none."""
        if self.calibration is None:
            raise InputError("model without calibration", expected="calibration_folds of 2 or more")
        return self.calibration
