"""Transforms of times, regression trees, and calibrated prediction intervals."""

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
from toruscast.typing import Floats
from toruscast.validation import whole_number

from .feature_sets import LOWER_BOUND, Target, seconds_of

if TYPE_CHECKING:
    from sklearn.ensemble import ExtraTreesRegressor


# The simulator's clock is discrete, so its times may be as low as this factor times a bound.
BOUND_TOLERANCE = 0.999
# Corrections have half their full scale if a coarse time exceeds the lower bound by the first
# share. The second share is added to every excess, which limits the weight of a residual to 11.
_HALF_EXCESS, _MIN_EXCESS = 0.1, 0.01
# Candidate exponents of the correction scale.
_POWERS = np.linspace(0.0, 1.0, 11)
# A run is an outlier if its relative residual exceeds this factor times the median and this value.
_OUTLIER_RATIO, _OUTLIER_SHARE = 12.0, 0.3


def correction_scale(times: Floats, bounds: Floats) -> Floats:
    """Return the scale of errors in coarse times: at most 1, and smaller near the bounds."""
    excess = np.abs(times / bounds - 1) + _MIN_EXCESS
    return np.asarray(excess / (excess + _HALF_EXCESS))


class TargetReference(NamedTuple):
    """Reference times and lower bounds, in seconds, of the mappings in a table."""

    target: Target
    times: Floats
    bounds: Floats
    correction_scale: Floats
    """Scale of the logarithms of corrections, at most 1."""

    @classmethod
    def from_table(cls, X: object, target: Target, reference: str) -> Self:
        """Read the columns that the target needs."""
        times = seconds_of(X, reference)
        bounds = seconds_of(X, LOWER_BOUND)
        if target != "correction":
            return cls(target, times, bounds, np.ones(times.size))
        return cls(target, times, bounds, correction_scale(times, bounds))

    @property
    def min_times(self) -> Floats:
        """Lower bounds of the times, in seconds; 0 where the reference time is below the bound."""
        if self.target == "measured":
            return self.bounds
        bounds = BOUND_TOLERANCE * self.bounds
        return np.where(self.times < bounds, 0.0, bounds)


class TargetTransform(NamedTuple):
    """Transform between times and the scores that the trees learn.

    ``log(time) = log(constant + slope * reference) + common + score * correction_scale**power``

    Measured times are a linear function of the reference time: the constant is the part that does
    not depend on the mapping, such as computation, and the slope corrects the network model. Coarse
    times are wrong only where messages wait, so corrections shrink towards the lower bound. Not all
    samples follow this rule, so ``power`` is fitted. ``common`` is the correction that all samples
    share.
    """

    constant: float = 0.0
    """Seconds."""
    slope: float = 1.0
    common: float = 0.0
    power: float = 0.0
    """0 if corrections do not shrink towards the bound, 1 if they shrink fully."""

    @classmethod
    def fit(cls, reference: TargetReference, y: Floats) -> Self:
        """Fit the target's parameters to observed times.

        The power maximises the likelihood of Laplace residuals with scale
        ``correction_scale**power``, or is 0 if the Bayesian information criterion prefers that.
        """
        if reference.target == "measured":
            return cls(*fit_line(reference.times, y))
        if reference.target != "correction":
            return cls()
        logs = np.log(y / reference.times)
        fits = [(*_fit_laplace(logs, reference.correction_scale**p), float(p)) for p in _POWERS]
        loss, common, power = min(fits)
        loss_without, common_without, _ = fits[0]
        if 2 * len(logs) * (loss_without - loss) <= np.log(len(logs)):
            return cls(common=common_without)
        return cls(common=common, power=power)

    def scores(self, reference: TargetReference, times: Floats) -> Floats:
        """Convert times to the scores that the trees learn."""
        logs = np.log(times / self.line(reference.times)) - self.common
        return np.asarray(logs / reference.correction_scale**self.power)

    def logs(self, reference: TargetReference, scores: Floats) -> Floats:
        """Convert scores to the logarithms of times."""
        logs = self.common + scores * reference.correction_scale**self.power
        return np.asarray(logs + np.log(self.line(reference.times)))

    def line(self, reference: Floats) -> Floats:
        """Return ``constant + slope * reference``, seconds."""
        return np.asarray(self.constant + self.slope * reference)


def fit_line(reference: Floats, times: Floats) -> tuple[float, float]:
    """Return the constant and slope, both 0 or more, that minimise the squared relative residuals.

    A second fit excludes outliers, such as disturbed runs.
    """
    columns = np.stack([np.ones(times.size), reference / reference.mean()], axis=1)
    is_used = np.ones(times.size, dtype=bool)
    for _ in range(2):
        factors, _ = scipy.optimize.nnls(
            columns[is_used] / times[is_used, None], np.ones(int(is_used.sum()))
        )
        residuals = np.abs(columns @ factors / times - 1)
        is_used = residuals <= max(_OUTLIER_RATIO * float(np.median(residuals)), _OUTLIER_SHARE)
    return float(factors[0]), float(factors[1] / reference.mean())


def _fit_laplace(logs: Floats, scale: Floats) -> tuple[float, float]:
    """Return a Laplace fit's mean negative log-likelihood, up to a constant, and its location."""
    # The best location is the median of the residuals, weighted by their inverse scales.
    order = np.argsort(logs, kind="stable")
    weights = np.cumsum(1 / scale[order])
    location = float(logs[order][np.searchsorted(weights, weights[-1] / 2)])
    mean = float(np.mean(np.abs(logs - location) / scale))
    return math.log(max(mean, 1e-300)) + float(np.log(scale).mean()), location


class Forest(NamedTuple):
    """Binary regression trees, with the nodes of all trees concatenated.

    ``size`` is the number of nodes of each tree. ``left`` and ``right`` are the indices of a node's
    children, counted from the first node of the tree, or -1 in a leaf. A row goes left if its
    ``feature`` is at most the ``threshold``.
    """

    size: NDArray[np.int64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    feature: NDArray[np.int32]
    threshold: Floats
    value: Floats

    @classmethod
    def from_estimator(cls, forest: ExtraTreesRegressor) -> Self:
        """Return the trees of a fitted scikit-learn forest."""
        trees = [estimator.tree_ for estimator in forest.estimators_]
        return cls(
            np.array([tree.node_count for tree in trees], dtype=np.int64),
            np.concatenate([tree.children_left for tree in trees]).astype(np.int32),
            np.concatenate([tree.children_right for tree in trees]).astype(np.int32),
            np.concatenate([np.maximum(tree.feature, 0) for tree in trees]).astype(np.int32),
            np.concatenate([tree.threshold for tree in trees]),
            np.concatenate([tree.value.ravel() for tree in trees]),
        )

    def predict(self, matrix: Floats) -> Floats:
        """Return the prediction of each tree for each row of features, ``(n_trees, n)``."""
        # scikit-learn fits the thresholds to features in single precision.
        single = np.ascontiguousarray(matrix, dtype=np.float32)
        values = np.empty((self.size.size, len(single)))
        _predict_trees(*self, single, values)
        return values


@kernel
def _predict_trees(
    size: NDArray[np.int64],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    feature: NDArray[np.int32],
    threshold: Floats,
    value: Floats,
    matrix: NDArray[np.float32],
    values: Floats,
) -> None:
    """Write the prediction of each tree for each row of ``matrix`` to ``values``.

    Each row descends from the root of a tree to a leaf. The first six arrays are the fields of
    `Forest`.
    """
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
    """Cross-validated residuals, each divided by the trees' standard deviation plus a floor.

    A residual is its group's mean in ``common`` (0 without groups) plus a deviation. In a group of
    m residuals, ``deviations`` are multiplied by sqrt(m / (m - 1)), because deviations from the
    mean of a sample are too small.
    """

    floor: float
    residuals: Floats
    common: Floats
    deviations: Floats

    @classmethod
    def from_residuals(
        cls, floor: float, residuals: Floats, members: NDArray[np.intp] | None
    ) -> Self:
        """Return the calibration of residuals; ``members`` has the group index of each residual."""
        if members is None:
            return cls(floor, residuals, np.zeros(1), residuals)
        size = np.bincount(members)
        common = np.bincount(members, residuals) / size
        is_several = size[members] > 1
        groups = members[is_several]
        deviations = residuals[is_several] - common[groups]
        deviations *= np.sqrt(size / np.maximum(size - 1, 1))[groups]
        return cls(floor, residuals, common, deviations)

    def quantile(self, coverage: float) -> float:
        """Return the half width of an interval with this coverage, in units of the scale.

        For a share ``coverage`` of the groups, it contains the same share of the group's residuals.
        Ranks are interpolated to meet the coverage on average. Conformal prediction would use the
        next whole rank, which guarantees the coverage for finite samples.
        """
        widths = [
            np.quantile(np.abs(common + self.deviations), coverage, method="weibull")
            for common in self.common
        ]
        return float(np.quantile(widths, coverage, method="weibull"))


@dataclass(frozen=True, eq=False)
class PriorPrediction:
    """Predicted distribution of mapping times before any of them is observed.

    ``centre`` and ``scale`` are in logarithms of seconds if ``is_log``, else in seconds.
    ``min_times`` are lower bounds in seconds, or minus infinity if there are none.
    """

    features: Floats
    centre: Floats
    scale: Floats
    calibration: ResidualCalibration | None
    min_times: Floats
    is_log: bool = True

    def times(self, centre: Floats | None = None) -> Floats:
        """Return the times (s) for centres, by default for `centre`; the last axis is mappings."""
        centre = self.centre if centre is None else centre
        return np.maximum(np.exp(centre) if self.is_log else centre, self.min_times)

    def logs(self) -> tuple[Floats, Floats]:
        """Return the centre and the scale in logarithms of seconds."""
        if self.is_log:
            return self.centre, self.scale
        centre = np.maximum(self.centre, 1e-300)
        return np.log(centre), self.scale / centre

    def interval(self, coverage: float) -> Floats:
        """Return the interval of each mapping, low and high in seconds, shape ``(n, 2)``."""
        if not 0 < coverage < 1:
            raise InputError("bad coverage", found=coverage, expected="between 0 and 1")
        calibration = self.require_calibration()
        # Without rounding, 0.9 / (1 - 0.9) is slightly more than 9.
        needed = math.ceil(round(coverage / (1 - coverage), 6))
        n_samples = calibration.residuals.size
        if n_samples < needed:
            intervals = f"intervals with coverage {coverage:.4g}, which need {needed}"
            warnings.warn(f"{n_samples} samples are too few for {intervals}", stacklevel=2)
        half = calibration.quantile(coverage) * self.scale
        return np.stack([self.times(self.centre - half), self.times(self.centre + half)], axis=1)

    def draw(self, n_draws: int, seed: int) -> Floats:
        """Draw times (s) by adding calibration residuals, shape ``(n_draws, n_mappings)``."""
        whole_number(n_draws, "number of draws", 1)
        rng = np.random.default_rng(whole_number(seed, "seed", 0))
        calibration = self.require_calibration()
        common = rng.choice(calibration.common, size=(n_draws, 1))
        residuals = common + rng.choice(calibration.deviations, size=(n_draws, self.centre.size))
        return self.times(self.centre + residuals * self.scale)

    def require_calibration(self) -> ResidualCalibration:
        """Return the calibration; raise `InputError` if the model has none."""
        if self.calibration is None:
            raise InputError("model without calibration", expected="calibration_folds of 2 or more")
        return self.calibration


def cross_validate(
    forest: ExtraTreesRegressor,
    average: Callable[[Forest, Floats], tuple[Floats, Floats]],
    matrix: Floats,
    target: Floats,
    scores: Floats,
    groups: ArrayLike | None,
    n_folds: int,
    seed: int,
) -> tuple[ResidualCalibration, Floats]:
    """Return the calibration and the held-out predictions of a cross-validated forest.

    ``forest`` is fitted to ``target``. ``average`` returns the mean and standard deviation of its
    trees' predictions in the unit of ``scores``.
    """
    if n_folds < 2:
        raise InputError("bad number of folds", found=n_folds, expected="0, or 2 or more")
    folds: Any
    members = None
    if groups is None:
        folds = model_selection.KFold(min(n_folds, scores.size), shuffle=True, random_state=seed)
    else:
        try:
            names, members = np.unique(np.asarray(groups), return_inverse=True)
        except TypeError:
            raise InputError("bad groups", expected="all numbers, or all text") from None
        if members.size != scores.size or names.size < 2:
            found = f"{names.size} groups of {members.size} samples"
            expected = f"2 or more groups of {scores.size} samples"
            raise InputError("bad groups", found=found, expected=expected)
        if np.bincount(members).max() < 2:
            raise InputError("bad groups", found="one sample each", expected="some of 2 or more")
        folds = model_selection.GroupKFold(min(n_folds, names.size))
    mean, std = np.empty_like(scores), np.empty_like(scores)
    for train, test in folds.split(matrix, groups=members):
        fitted = type(forest)(**forest.get_params()).fit(matrix[train], target[train])
        mean[test], std[test] = average(Forest.from_estimator(fitted), matrix[test])
    # Trees fitted to few samples often agree by chance, so add a floor to their standard deviation.
    root = np.sqrt(np.mean((scores - mean) ** 2) / scores.size)
    floor = float(max(np.median(std), 2 * root)) or 1.0
    residuals = (scores - mean) / (std + floor)
    return ResidualCalibration.from_residuals(floor, residuals, members), mean
