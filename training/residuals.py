"""Forecasts and their residuals: what times are relative to, the trees, and how far they miss."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toruscast._jit import kernel
from toruscast._slow import model_selection, scipy
from toruscast.errors import InputError
from toruscast.validation import whole_number

from .feature_sets import LOWER_BOUND, Target, seconds_of

if TYPE_CHECKING:
    from sklearn.ensemble import ExtraTreesRegressor


Floats = NDArray[np.float64]
# Part of a bound that simulations keep to: their clock ticks, and may end a little sooner.
IN_TICKS = 0.999
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


class TargetScale(NamedTuple):
    """Reference and lower bound of the mappings of a table, which times are relative to."""

    target: Target
    # Seconds that times are divided by, or follow in a line.
    unit: Floats
    # Seconds.
    bound: Floats
    # How far logarithms of corrections can be from what is common, at most 1.
    reach: Floats

    @classmethod
    def from_table(cls, X: object, target: Target, reference: str) -> Self:
        """Read the columns that the target needs; times are taken relative to ``reference``."""
        unit = seconds_of(X, reference)
        bound = seconds_of(X, LOWER_BOUND)
        if target != "correction":
            return cls(target, unit, bound, np.ones(unit.size))
        return cls(target, unit, bound, reach_of_corrections(unit, bound))

    @property
    def min_times(self) -> Floats:
        """Seconds below which no time falls; none where the sketch itself does."""
        if self.target == "measured":
            return self.bound
        least = IN_TICKS * self.bound
        return np.where(self.unit < least, 0.0, least)

    def holds(self, times: Floats) -> bool:
        """Whether no time lies below its bound."""
        return bool((times >= self.min_times).all())


class TargetTransform(NamedTuple):
    """How times follow from scores, which the trees learn: their logarithms over a reference.

    ``log(time) = log(constant + slope * reference) + common + score * reach**power``

    Measured times follow a line in the reference: the constant does not depend on the mapping, as
    computation and software, and the slope says how far the network of the model is from the real
    one. Corrections of coarse times hardly move where those are no longer than the lower bound: no
    message waits there, and waiting is all that longer packets get wrong. That holds for simulated
    times; for others the samples say how far (`power`), and by what they all differ (`common`).
    """

    constant: float = 0.0
    """Seconds."""
    slope: float = 1.0
    common: float = 0.0
    power: float = 0.0
    """Of the reach of corrections: 1 if they shrink near the bound as far as can be, 0 if not."""

    @classmethod
    def fit(cls, scale: TargetScale, y: Floats) -> Self:
        """Learn from observed times what their target needs.

        The power is the likeliest if residuals follow Laplace's law, whose scale goes with the
        power of the reach; 0 if it explains them no better than a number more must.
        """
        if scale.target == "measured":
            return cls(*fit_line(scale.unit, y))
        if scale.target != "correction":
            return cls()
        logs = np.log(y / scale.unit)
        found = [(*_surprise(logs, scale.reach**power), float(power)) for power in _POWERS]
        surprise, common, power = min(found)
        gain = len(logs) * (found[0][0] - surprise)
        if 2 * gain <= np.log(len(logs)):
            _, common, power = found[0]
        return cls(common=common, power=power)

    def scores(self, scale: TargetScale, times: Floats) -> Floats:
        """Return what the trees learn of times."""
        logs = np.log(times / self.seconds(scale.unit)) - self.common
        return np.asarray(logs / scale.reach**self.power)

    def logs(self, scale: TargetScale, scores: Floats) -> Floats:
        """Return the logarithms of the times of scores, the mappings along the last axis."""
        logs = self.common + scores * scale.reach**self.power
        return np.asarray(logs + np.log(self.seconds(scale.unit)))

    def seconds(self, reference: Floats) -> Floats:
        """Return seconds on the line."""
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


class Forest(NamedTuple):
    """Binary regression trees, the nodes of one after those of the other.

    ``size`` counts the nodes of each tree. Children are counted from the tree's first node, -1 in a
    leaf; values of ``feature`` of at most ``threshold`` go left.
    """

    size: NDArray[np.int64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    value: NDArray[np.float64]

    @classmethod
    def from_estimator(cls, forest: ExtraTreesRegressor) -> Self:
        """Return the trees of a fitted forest of scikit-learn."""
        trees = [estimator.tree_ for estimator in forest.estimators_]
        return cls(
            np.array([tree.node_count for tree in trees], dtype=np.int64),
            np.concatenate([tree.children_left for tree in trees]).astype(np.int32),
            np.concatenate([tree.children_right for tree in trees]).astype(np.int32),
            np.concatenate([np.maximum(tree.feature, 0) for tree in trees]).astype(np.int32),
            np.concatenate([tree.threshold for tree in trees]),
            np.concatenate([tree.value.ravel() for tree in trees]),
        )

    def predict(self, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what each tree says of each row of features, shape ``(n_trees, n)``.

        Features are compared in single precision, as scikit-learn's trees learn from them.
        """
        single = np.ascontiguousarray(matrix, dtype=np.float32)
        values = np.empty((self.size.size, len(single)))
        _walk(*self, single, values)
        return values


@kernel
def _walk(
    size: NDArray[np.int64],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    feature: NDArray[np.int32],
    threshold: NDArray[np.float64],
    value: NDArray[np.float64],
    matrix: NDArray[np.float32],
    values: NDArray[np.float64],
) -> None:
    """Follow each row of ``matrix`` from the root of each tree to a leaf."""
    root = 0
    for tree in range(size.size):
        for row in range(matrix.shape[0]):
            node = root
            while left[node] >= 0:
                is_left = matrix[row, feature[node]] <= threshold[node]
                node = root + (left[node] if is_left else right[node])
            values[tree, row] = value[node]
        root += size[tree]


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
    def from_residuals(
        cls, floor: float, residuals: Floats, members: NDArray[np.intp] | None
    ) -> Self:
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

    def draw(self, rng: np.random.Generator, n_draws: int, n: int) -> Floats:
        """Draw scaled residuals of ``n`` mappings of one group, ``(n_draws, n)``."""
        common = rng.choice(self.common, size=(n_draws, 1))
        return np.asarray(common + rng.choice(self.deviations, size=(n_draws, n)))


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

    def draw(self, n_draws: int, seed: int) -> Floats:
        """Draw possible times, seconds, ``(n_draws, n_mappings)``."""
        whole_number(n_draws, "number of draws", 1)
        rng = np.random.default_rng(whole_number(seed, "seed", 0))
        residuals = self.calibrated.draw(rng, n_draws, self.centre.size)
        return self.times(self.centre + residuals * self.width)

    @property
    def calibrated(self) -> ResidualCalibration:
        """The calibration; `InputError` where the model has none."""
        if self.calibration is None:
            raise InputError("model without calibration", expected="calibration_folds of 2 or more")
        return self.calibration


def calibrate(
    forest: ExtraTreesRegressor,
    centre: Callable[[Forest, Floats], tuple[Floats, Floats]],
    matrix: Floats,
    goal: Floats,
    score: Floats,
    groups: ArrayLike | None,
    n_folds: int,
    seed: int,
) -> tuple[ResidualCalibration, Floats]:
    """Fit ``forest`` without each fold in turn; collect the residuals of its ``score``.

    Return that, and what ``centre`` says of each sample held out.
    """
    if n_folds < 2:
        raise InputError("bad number of folds", found=n_folds, expected="0, or 2 or more")
    folds: Any
    members = None
    if groups is None:
        folds = model_selection.KFold(min(n_folds, score.size), shuffle=True, random_state=seed)
    else:
        try:
            names, members = np.unique(np.asarray(groups), return_inverse=True)
        except TypeError:
            raise InputError("bad groups", expected="all numbers, or all text") from None
        if members.size != score.size or names.size < 2:
            raise InputError(
                "bad groups",
                found=f"{names.size} groups of {members.size} samples",
                expected=f"2 or more groups of {score.size} samples",
            )
        if np.bincount(members).max() < 2:
            raise InputError("bad groups", found="one sample each", expected="some of 2 or more")
        folds = model_selection.GroupKFold(min(n_folds, names.size))
    middle, spread = np.empty_like(score), np.empty_like(score)
    for kept, left_out in folds.split(matrix, groups=members):
        middle[left_out], spread[left_out] = centre(
            Forest.from_estimator(
                type(forest)(**forest.get_params()).fit(matrix[kept], goal[kept])
            ),
            matrix[left_out],
        )
    # Without a floor, trees that happen to agree would claim certainty; of few samples most do.
    root = np.sqrt(np.mean((score - middle) ** 2) / score.size)
    floor = float(max(np.median(spread), 2 * root)) or 1.0
    residuals = (score - middle) / (spread + floor)
    return ResidualCalibration.from_residuals(floor, residuals, members), middle
