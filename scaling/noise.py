"""Estimates of values and their errors from repetitions, and predictions from nearby points."""

# p = call paths, n = points, m = places to predict, q = parameters

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast.typing import Bools, Floats

from .measurements import replace_zeros

# Repetitions are equal if their relative spread is below this.
ROUNDING = 1e-9
# A value is negligible if it is below this share of the call path's median.
_NEGLIGIBLE = 1e-3
# Prior for the share of bounded noise, as numbers of call paths with bounded and normal noise.
_PRIOR_PATHS = (3.0, 1.0)
# Bounded noise is considered for call paths with at least this many degrees of freedom.
_MIN_DF = 3
# Candidate half-widths of bounded noise are (1 + excess) times the smallest possible half-width.
_EXCESS = np.geomspace(0.004, 3.0, 20)

# Minimum deviation of an outlier: in robust standard deviations, and relative to the median.
_OUTLIER_DEVIATIONS = 7.0
_OUTLIER_MIN = 0.1
# With two repetitions, the outlier is ambiguous.
_MIN_REPETITIONS = 3
# If more than this share of the points have outliers, the deviations are noise.
_MAX_OUTLIER_SHARE = 0.2
# Minimum ratio of an outlier's deviation to the largest deviation at the other points.
_OUTLIER_GAP = 2.0
# Ratio of the standard deviation of normal noise to its median absolute deviation.
MAD_TO_STD = 1.4826
# Factor by which a point's weight decreases per step of the measured grid: in the power law, and in
# the correction of a formula.
_POWER_LAW_DECAY = 1000.0
_RATIO_DECAY = 100.0
# Limit on the logarithm of predictions: a power law through close points can have any exponent.
_MAX_LOG = 690.0
# Ridge penalty of an exponent, relative to the variance of the parameter's logarithm.
_RIDGE = 1e-3


class PointEstimates(NamedTuple):
    """Centre and standard error of the values of every call path at every point.

    The values of a path are negated if most of them are negative.
    """

    centre: Floats  # (n_paths, n_points), in the metric's unit
    error: Floats  # (n_paths, n_points): 0 for equal repetitions, NaN without repetitions
    bounded: Floats  # (n_paths,): probability of bounded noise
    variation: Floats  # (n_paths,): coefficient of variation, pooled; NaN without repetitions
    repetitions: Floats  # (n_paths, 3, n_points): minimum, maximum and number
    sign: Floats  # (n_paths,): -1 if negated
    mixed: Bools  # (n_paths,): whether some value is negative
    left_out: Bools  # (n_paths, n_points, n_repetitions): outliers

    def take(self, rows: NDArray[np.intp] | slice) -> PointEstimates:
        """Return the estimates of some call paths."""
        return PointEstimates._make(array[rows] for array in self)


def estimate_points(values: Floats, law: str = "auto") -> PointEstimates:
    """Estimate the centre and the standard error of each point, without outliers.

    The centre is the mean under normal noise and the mid-range under bounded noise. By default, it
    is the average of both, weighted by the call path's probability of bounded noise.
    """
    sign = _find_signs(values)
    values = sign[:, None, None] * values
    left_out = find_outliers(values)
    values = np.where(left_out, np.nan, values)
    mixed = np.nanmin(values, axis=(1, 2)) < 0
    # Sums along a short last axis are slow, so move the repetitions to the front.
    values = np.ascontiguousarray(np.moveaxis(values, 2, 0))
    is_finite = np.isfinite(values)
    n = is_finite.sum(axis=0)
    mean = np.where(is_finite, values, 0.0).sum(axis=0) / n
    scale = estimate_scale(mean)
    deviation = np.where(is_finite, (values - mean) / scale, 0.0)
    squares = (deviation**2).sum(axis=0)
    df = (n - 1).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        variation = np.sqrt(squares.sum(axis=1) / df)
    centre, error = mean, variation[:, None] * scale / np.sqrt(n)
    bounded = np.zeros(len(mean))
    lowest = np.where(is_finite, values, np.inf).min(axis=0)
    highest = np.where(is_finite, values, -np.inf).max(axis=0)
    repetitions = np.stack([lowest, highest, n], axis=1)
    result = PointEstimates(centre, error, bounded, variation, repetitions, sign, mixed, left_out)
    # Half-widths are relative to the mid-range, which must be positive.
    positive = ((mean > 0) & (lowest + highest > 0)).all(axis=1)
    paths = np.flatnonzero((df >= _MIN_DF) & (variation > ROUNDING) & positive)
    if law == "normal" or not paths.size:
        return result
    mid_range, bounded_error, evidence = _fit_bounded(lowest[paths], highest[paths], n[paths])
    if law == "auto":
        normal_evidence = _fit_normal(squares[paths].sum(axis=1), n[paths])
        share = _estimate_bounded_shares(evidence - normal_evidence)[:, None]
    else:
        share = np.ones((paths.size, 1))
    bounded[paths] = share[:, 0]
    centre[paths] = share * mid_range + (1 - share) * centre[paths]
    error[paths] = np.sqrt(share * bounded_error**2 + (1 - share) * error[paths] ** 2)
    return result


def estimate_scale(centre: Floats) -> Floats:
    """Return the absolute value of each value, as the scale of its error.

    For negligible values, the scale is the smallest absolute value that is not negligible.
    """
    size = np.abs(centre)
    scale: Floats = size.copy()
    negligible = size <= _NEGLIGIBLE * np.median(size, axis=1, keepdims=True)
    for p in np.flatnonzero(negligible.any(axis=1)):
        positive = size[p, size[p] > 0]
        if positive.size:
            positive = positive[positive > _NEGLIGIBLE * np.median(positive)]
        scale[p] = np.maximum(size[p], positive.min() if positive.size else 1.0)
    return scale


def _find_signs(values: Floats) -> Floats:
    """Return -1 for paths with mostly negative points, else 1; the first point decides ties."""
    if (np.isnan(values) | (values >= 0)).all():
        return np.ones(len(values))
    mean = np.sign(np.nanmean(values, axis=2))
    first_sign = np.take_along_axis(mean, (mean != 0).argmax(axis=1)[:, None], axis=1)[:, 0]
    return np.where(mean.sum(axis=1) + first_sign / 2 < 0, -1.0, 1.0)


def _estimate_bounded_shares(log_odds: Floats) -> Floats:
    """Return the probability that the noise of each call path is bounded rather than normal.

    ``log_odds`` is the log likelihood ratio of bounded to normal noise.
    """
    bounded, normal = _PRIOR_PATHS
    prior = bounded / (bounded + normal)
    # Estimate the share of call paths with bounded noise by expectation maximisation.
    for _ in range(20):
        # The logistic function of the posterior log odds, written without overflow.
        posterior: Floats = (1 + np.tanh((log_odds + np.log(prior / (1 - prior))) / 2)) / 2
        prior = (bounded + posterior.sum()) / (bounded + normal + posterior.size)
    return posterior


def _fit_bounded(low: Floats, high: Floats, n: NDArray[np.int_]) -> tuple[Floats, Floats, Floats]:
    """Return mid-ranges, their standard errors, and each path's log evidence for bounded noise."""
    mid_range, spread = (low + high) / 2, _relative_range(low, high)
    width, log_weight = weigh_widths(low, high, n)
    evidence = np.logaddexp.reduce(log_weight, axis=1)
    weight = np.exp(log_weight - evidence[:, None])
    squares: Floats = np.zeros(spread.shape)
    for candidate, share in zip(width.T, weight.T, strict=True):
        squares += share[:, None] * (candidate[:, None] - spread) ** 2
    # The centre is distributed uniformly over an interval of length (width - spread).
    error = np.sqrt(squares / 12) * mid_range
    return mid_range, error, evidence


def weigh_widths(low: Floats, high: Floats, n: NDArray[np.int_]) -> tuple[Floats, Floats]:
    """Return candidate relative widths of bounded noise, and their log weights, (p, 20) each."""
    spread = _relative_range(low, high)
    width = spread.max(axis=1)[:, None] * (1 + _EXCESS)
    # If n repetitions have the relative range s, the likelihood of a width w, integrated over the
    # centre, is (w - s) / w^n. One array for all candidates would not fit in the cache.
    margins = (candidate[:, None] - spread for candidate in width.T)
    log_margin = np.stack([np.log(margin).sum(axis=1) for margin in margins], axis=1)
    # The prior density is 1 / w, and the candidates are evenly spaced in log(excess).
    prior = _EXCESS / (1 + _EXCESS) * np.log(_EXCESS[1] / _EXCESS[0])
    return width, log_margin - n.sum(axis=1)[:, None] * np.log(width) + np.log(prior)


def _relative_range(low: Floats, high: Floats) -> Floats:
    """Return the range relative to the mid-range."""
    return (high - low) / ((low + high) / 2)


def _fit_normal(squares: Floats, n: NDArray[np.int_]) -> Floats:
    """Return the log evidence of normal noise with unknown means and standard deviation."""
    df = (n - 1).sum(axis=1)
    # The means have a uniform prior; the standard deviation has the prior 1 / std.
    value: Floats = (
        np.array([math.lgamma(k / 2) if k else math.inf for k in df.tolist()])
        - np.log(2)
        - df / 2 * np.log(np.pi * squares)
        - 0.5 * np.log(n).sum(axis=1)
    )
    return value


def find_outliers(values: Floats) -> Bools:
    """Find at most one outlier at each point that has three or more repetitions.

    Relative deviations from the median of each point are pooled over a call path's points.
    """
    # nanmedian is far slower than median.
    median = np.nanmedian if np.isnan(values).any() else np.median
    centre = median(values, axis=2)
    deviation = np.abs(values - centre[:, :, None]) / estimate_scale(centre)[:, :, None]
    deviation[np.isfinite(values).sum(axis=2) < _MIN_REPETITIONS] = np.nan
    farthest = np.where(np.isnan(deviation), -1.0, deviation).max(axis=2)
    is_outlier = np.zeros(values.shape, dtype=bool)
    paths = np.flatnonzero((farthest > _OUTLIER_MIN).any(axis=1))
    if paths.size:
        # The deviation of the median repetition is always 0.
        others = np.sort(deviation[paths], axis=2)[:, :, 1:].reshape(paths.size, -1)
        std = MAD_TO_STD * np.nanmedian(others, axis=1)
        ranked = np.sort(farthest[paths], axis=1)[:, ::-1]
        max_outliers = max(1, int(_MAX_OUTLIER_SHARE * ranked.shape[1]))
        has_inliers = max_outliers < ranked.shape[1]
        inlier = ranked[:, max_outliers] if has_inliers else np.zeros_like(std)
        limit = np.maximum(_OUTLIER_DEVIATIONS * std, _OUTLIER_MIN)
        is_far = farthest[paths] > np.maximum(limit, _OUTLIER_GAP * inlier)[:, None]
        is_farthest = deviation[paths] == farthest[paths][:, :, None]
        is_outlier[paths] = is_far[:, :, None] & is_farthest
    return is_outlier


def predict_by_neighbours(
    points: Floats, centre: Floats, places: Floats, formula: Floats, at_points: Floats
) -> Floats:
    """Predict each call path at each place, (p, m), from a formula and the nearest points.

    ``formula`` contains the formula's values at the places, (p, m), and ``at_points`` its values at
    the points, (p, n). The prediction is the median of three: the formula, the formula scaled to
    the nearest points, and the power law through them. Beyond the largest parameter values, it is
    the smaller of the last two.
    """
    points, places = replace_zeros(points, points), replace_zeros(points, places)
    positive = np.where(centre > 0, centre, raise_small_values(centre))
    power_law = predict_power_law(points, positive, places)
    # Values of the formula that are not positive cannot be scaled.
    log_ratio = np.log(positive / np.where(at_points > 0, at_points, positive))
    scaled = formula * np.exp(log_ratio @ _weigh_neighbours(points, places, _RATIO_DECAY).T)
    minimum = np.where(scaled > 0, np.minimum(power_law, scaled), power_law)
    median = np.median([power_law, scaled, formula], axis=0)
    is_beyond = (places > points.max(axis=0)).any(axis=1)
    return np.where(is_beyond, minimum, median)


def predict_power_law(points: Floats, centre: Floats, places: Floats) -> Floats:
    """Predict positive values by a power law through the points near each place; (p, m).

    The law is fitted by a weighted ridge regression of log(centre) on the logarithms of the
    parameters.
    """
    weight = _weigh_neighbours(points, places, _POWER_LAW_DECAY)
    result = np.empty((len(centre), len(places)))
    logs = np.log(centre)
    for k, place in enumerate(places):
        offset = np.log(points) - np.log(place)
        # Subtracting the weighted mean makes the constant independent of the exponents.
        mean = weight[k] @ offset
        design = np.hstack([np.ones((len(points), 1)), offset - mean])
        gram = (design * weight[k, :, None]).T @ design
        variance = np.maximum(weight[k] @ (offset - mean) ** 2, 1e-12)
        gram[1:, 1:] += _RIDGE * np.diag(variance)
        coefficients = np.linalg.solve(gram, (design * weight[k, :, None]).T @ logs.T)
        result[:, k] = coefficients[0] - mean @ coefficients[1:]
    return np.exp(np.minimum(result, _MAX_LOG))


def raise_small_values(centre: Floats) -> Floats:
    """Replace negligible values, before taking logarithms, by half of the smallest other value."""
    scale = estimate_scale(np.maximum(centre, 0.0))
    return np.where(centre < scale, scale / 2, centre)


def _weigh_neighbours(points: Floats, places: Floats, decay: float) -> Floats:
    """Return the weight of each point at each place, (m, n), by distance in steps of the grid."""
    distance = np.zeros((len(places), len(points)))
    for q in range(points.shape[1]):
        levels = np.unique(points[:, q])
        if levels.size > 1:
            unit = np.log(levels[-1] / levels[0]) / (levels.size - 1)
            distance += np.abs(np.log(places[:, q])[:, None] - np.log(points[:, q])) / unit
    weight = decay ** -(distance - distance.min(axis=1, keepdims=True))
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))
