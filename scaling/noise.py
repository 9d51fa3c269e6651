"""Centres and errors of points from repetitions, and growth between measured values."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from .measurements import off_zero

Array = NDArray[np.float64]

# Relative spread below which repetitions count as equal.
EXACT = 1e-9
# Share of the call path's median below which a value is next to nothing.
_SMALL = 1e-3
# Prior for the share of bounded noise, as numbers of call paths: bounded, normal.
_PRIOR_PATHS = (3.0, 1.0)
# Half-widths that are tried, relative to the least possible one, less 1.
_EXCESS = np.geomspace(0.004, 3.0, 20)


# An outlying repetition is off by more than this many robust standard deviations, and more than
# this share of the median.
_FAR = 7.0
_FAR_LEAST = 0.1
# Least number of repetitions of a point that shows which of them is off.
_REPETITIONS = 3
# At most this share of the points may have outliers, and each must be this many times farther off
# than any repetition of the other points. If more are far off, they are part of the noise.
_RARE = 0.2
_BEYOND = 2.0
# Standard deviation of normal noise over its median deviation.
_NORMAL = 1.4826


@dataclass(frozen=True)
class Centres:
    """Centre and standard error of every point of every call path.

    Where most values of a path are negative, all are those of its opposite.
    """

    centre: Array  # (n_paths, n_points), in the metric's unit
    error: Array  # alike; 0 where repetitions agree, NaN for a path without any
    bounded: Array  # (n_paths,): probability of the bounded law
    variation: Array  # (n_paths,): of the repetitions, pooled over the points; NaN without any
    repetitions: Array  # (n_paths, 3, n_points): smallest, largest and number
    sign: Array  # (n_paths,): -1 for the opposite
    mixed: NDArray[np.bool_]  # (n_paths,): some value is negative
    left_out: NDArray[np.bool_]  # (n_paths, n_points, n_repetitions): outlying repetitions

    def take(self, rows: NDArray[np.intp] | slice) -> Centres:
        """Return those of some of the call paths."""
        return Centres(*(getattr(self, field.name)[rows] for field in fields(self)))


def centres(values: Array, law: str = "auto") -> Centres:
    """Estimate centres and standard errors from repetitions."""
    sign = _signs(values)
    values = sign[:, None, None] * values
    left_out = outlying(values)
    values = np.where(left_out, np.nan, values)
    mixed = np.nanmin(values, axis=(1, 2)) < 0
    # Repetitions come first, because sums along a short last axis are slow.
    values = np.ascontiguousarray(np.moveaxis(values, 2, 0))
    there = np.isfinite(values)
    n = there.sum(axis=0)
    mean = np.where(there, values, 0.0).sum(axis=0) / n
    scale = scale_of(mean)
    deviation = np.where(there, (values - mean) / scale, 0.0)
    squares = (deviation**2).sum(axis=0)
    freedom = (n - 1).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        variation = np.sqrt(squares.sum(axis=1) / freedom)
    centre, error = mean, variation[:, None] * scale / np.sqrt(n)
    bounded = np.zeros(len(mean))
    lowest = np.where(there, values, np.inf).min(axis=0)
    highest = np.where(there, values, -np.inf).max(axis=0)
    repetitions = np.stack([lowest, highest, n], axis=1)
    found = Centres(centre, error, bounded, variation, repetitions, sign, mixed, left_out)
    # Half-widths are shares of the mid-range, which a single outlying repetition can make negative.
    positive = ((mean > 0) & (lowest + highest > 0)).all(axis=1)
    candidates = (freedom >= 3) & (variation > EXACT) & positive
    if law == "normal" or not candidates.any():
        return found
    chosen = np.flatnonzero(candidates)
    middle, width, evidence = _bounded(lowest[chosen], highest[chosen], n[chosen])
    if law == "auto":
        other = _normal_evidence(squares[chosen].sum(axis=1), n[chosen])
        share = _shares(evidence - other)[:, None]
    else:
        share = np.ones((chosen.size, 1))
    bounded[chosen] = share[:, 0]
    centre[chosen] = share * middle + (1 - share) * centre[chosen]
    error[chosen] = np.sqrt(share * width**2 + (1 - share) * error[chosen] ** 2)
    return found


def scale_of(centre: Array) -> Array:
    """Return the size of a value, which errors are proportional to; positive.

    A value next to nothing has the size of the smallest other one.
    """
    size = np.abs(centre)
    scale: Array = size.copy()
    small = size <= _SMALL * np.median(size, axis=1, keepdims=True)
    for p in np.flatnonzero(small.any(axis=1)):
        # A value next to nothing is less than the others; how much less is not known.
        some = size[p, size[p] > 0]
        clear = some[some > _SMALL * np.median(some)] if some.size else np.ones(1)
        scale[p] = np.maximum(size[p], clear.min())
    return scale


def _signs(values: Array) -> Array:
    """Return -1 where most points are negative, the first one deciding a tie; else 1."""
    if (np.isnan(values) | (values >= 0)).all():
        return np.ones(len(values))
    mean = np.sign(np.nanmean(values, axis=2))
    first = np.take_along_axis(mean, (mean != 0).argmax(axis=1)[:, None], axis=1)[:, 0]
    return np.where(mean.sum(axis=1) + first / 2 < 0, -1.0, 1.0)


def _shares(log_odds: Array) -> Array:
    """Return the probability of bounded noise for each call path."""
    bounded, normal = _PRIOR_PATHS
    share = bounded / (bounded + normal)
    for _ in range(20):
        each = (1 + np.tanh((log_odds + np.log(share / (1 - share))) / 2)) / 2
        share = (bounded + each.sum()) / (bounded + normal + each.size)
    result: Array = each
    return result


def _bounded(low: Array, high: Array, n: NDArray[np.int_]) -> tuple[Array, Array, Array]:
    """Return the mid-range, its standard error and the log evidence, averaged over half-widths."""
    middle, spread = (low + high) / 2, _spread(low, high)
    width, log_weight = widths(low, high, n)
    evidence = np.logaddexp.reduce(log_weight, axis=1)
    weight = np.exp(log_weight - evidence[:, None])
    squares: Array = np.zeros(spread.shape)
    for each, share in zip(width.T, weight.T, strict=True):
        squares += share[:, None] * (each[:, None] - spread) ** 2
    error = np.sqrt(squares / 12) * middle
    return middle, error, evidence


def widths(low: Array, high: Array, n: NDArray[np.int_]) -> tuple[Array, Array]:
    """Return possible widths of bounded noise, as shares of a value, and their log weights."""
    spread = _spread(low, high)
    # A point measured once has no width; any value within h of it is possible.
    width = spread.max(axis=1)[:, None] * (1 + _EXCESS)
    # A loop over the widths: one large array would be limited by memory bandwidth.
    rooms = (each[:, None] - spread for each in width.T)
    log_weight = (
        np.stack([np.log(room).sum(axis=1) for room in rooms], axis=1)
        - n.sum(axis=1)[:, None] * np.log(width)
        + np.log(_EXCESS / (1 + _EXCESS) * np.log(_EXCESS[1] / _EXCESS[0]))
    )
    return width, log_weight


def _spread(low: Array, high: Array) -> Array:
    return (high - low) / ((low + high) / 2)


def _normal_evidence(squares: Array, n: NDArray[np.int_]) -> Array:
    """Return the log evidence of normal noise; the means and the deviation are free."""
    freedom = (n - 1).sum(axis=1)
    value: Array = (
        np.array([math.lgamma(each / 2) if each else math.inf for each in freedom.tolist()])
        - np.log(2)
        - freedom / 2 * np.log(np.pi * squares)
        - 0.5 * np.log(n).sum(axis=1)
    )
    return value


def outlying(values: Array) -> NDArray[np.bool_]:
    """Find repetitions that are unusually far from the others of their point.

    Deviations from the median of a point, relative to it, are pooled over the points of a call
    path. A point needs three repetitions, and at most one of them is outlying.
    """
    # The median with NaN is far slower.
    median = np.nanmedian if np.isnan(values).any() else np.median
    middle = median(values, axis=2)
    size = np.abs(values - middle[:, :, None]) / scale_of(middle)[:, :, None]
    size[np.isfinite(values).sum(axis=2) < _REPETITIONS] = np.nan
    farthest = np.where(np.isnan(size), -1.0, size).max(axis=2)
    found = np.zeros(values.shape, dtype=bool)
    some = np.flatnonzero((farthest > _FAR_LEAST).any(axis=1))
    if some.size:
        # The middle repetition has no deviation, and says nothing.
        others = np.sort(size[some], axis=2)[:, :, 1:].reshape(some.size, -1)
        usual = _NORMAL * np.nanmedian(others, axis=1)
        ranked = np.sort(farthest[some], axis=1)[:, ::-1]
        most = max(1, int(_RARE * ranked.shape[1]))
        common = ranked[:, most] if most < ranked.shape[1] else 0.0 * usual
        limit = np.maximum(np.maximum(_FAR * usual, _FAR_LEAST), _BEYOND * common)
        far = farthest[some] > limit[:, None]
        found[some] = far[:, :, None] & (size[some] == farthest[some][:, :, None])
    return found


# p = call paths, n = points, m = places to predict, q = parameters


# A point's weight is divided by this for each step of the measured grid between it and a place: in
# the power law, and in the factor that a formula is scaled by.
_NEAR = 1000.0
_ANCHOR = 100.0
# Logarithm of the largest prediction: values close together can give a power without bounds.
_LARGEST = 690.0
_RIDGE = 1e-3


def followed(
    points: Array, centre: Array, places: Array, formula: Array, at_points: Array
) -> Array:
    """Predict by the nearest points and a formula."""
    points, places = off_zero(points, points), off_zero(points, places)
    clear = lifted(centre)
    positive = np.where(centre > 0, centre, clear)
    growth = local_growth(points, positive, places)
    # A formula's value that is not positive is left out: no factor corrects it.
    ratio = np.log(positive / np.where(at_points > 0, at_points, positive))
    scaled = formula * np.exp(ratio @ _weights(points, places, _ANCHOR).T)
    smaller = np.where(scaled > 0, np.minimum(growth, scaled), growth)
    middle = np.median([growth, scaled, formula], axis=0)
    beyond = (places > points.max(axis=0)).any(axis=1)
    result: Array = np.where(beyond, smaller, middle)
    return result


def local_growth(points: Array, centre: Array, places: Array) -> Array:
    """Predict positive values by a power law through the points near each place; (p, m)."""
    weight = _weights(points, places, _NEAR)
    result = np.empty((len(centre), len(places)))
    logs = np.log(centre)
    for k, place in enumerate(places):
        offset = np.log(points) - np.log(place)
        # Offsets are taken from the middle of the near points, so that the system is never
        # singular.
        middle = weight[k] @ offset
        design = np.hstack([np.ones((len(points), 1)), offset - middle])
        gram = (design * weight[k, :, None]).T @ design
        # Keep slopes small that the near points leave open.
        spread = np.maximum(weight[k] @ (offset - middle) ** 2, 1e-12)
        gram[1:, 1:] += _RIDGE * np.diag(spread)
        solved = np.linalg.solve(gram, (design * weight[k, :, None]).T @ logs.T)
        result[:, k] = solved[0] - middle @ solved[1:]
    return np.exp(np.minimum(result, _LARGEST))


def lifted(centre: Array) -> Array:
    """Replace values next to nothing by half of the smallest other value, for logarithms."""
    scale = scale_of(np.maximum(centre, 0.0))
    return np.where(centre < scale, scale / 2, centre)


def _weights(points: Array, places: Array, decay: float) -> Array:
    """Return the weight of each point at each place, by mean steps of the measured grid; (m, n)."""
    distance = np.zeros((len(places), len(points)))
    for q in range(points.shape[1]):
        levels = np.unique(points[:, q])
        if levels.size > 1:
            unit = np.log(levels[-1] / levels[0]) / (levels.size - 1)
            distance += np.abs(np.log(places[:, q])[:, None] - np.log(points[:, q])) / unit
    weight = decay ** -(distance - distance.min(axis=1, keepdims=True))
    normalised: Array = weight / weight.sum(axis=1, keepdims=True)
    return normalised
