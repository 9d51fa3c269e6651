"""Prediction intervals: fits of measurements as they might have come out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import ScalingInputError
from .fit import FitOptions, fit_many
from .measurements import Measurements
from .models import Models
from .redraw import repeated, single

Array = NDArray[np.float64]

# Quantiles that stand for the spread of one draw's hypotheses.
_LEVELS = [(k + 0.5) / 20 for k in range(20)]

# Share of the largest value below which a prediction is none to take ratios with.
_NOTHING = 1e-100


def interval(
    models: Models,
    X: ArrayLike,
    options: FitOptions,
    level: float = 0.9,
    n_bootstrap: int = 100,
    seed: int = 0,
    paths: Sequence[int] | None = None,
) -> tuple[Array, Array]:
    """Prediction intervals of every call path.

    Parameters
    ----------
    models : Models
        As fitted to the measurements.
    X : array-like, shape (m, n_parameters)
    options : FitOptions
        Those of the fit.
    level : float
        Probability that an interval should hold the true value.
    n_bootstrap : int
        Draws of the repetitions.
    seed : int
    paths : sequence of int, optional
        Only these call paths.

    Returns
    -------
    low, high : array, shape (n_paths, m)

    Raises
    ------
    ScalingInputError
        If fewer points were measured than two more than parameters were varied, or fewer than
        three: any model meets these, and nothing tells how far it may be off.

    Examples
    --------
    >>> m = Measurements(["p"], [[2], [4], [8], [16]], [[[3.0, 3.0]] * 4])
    >>> low, high = interval(fit_many(m), [[32]], FitOptions(), n_bootstrap=5)
    >>> low.round(6).tolist(), high.round(6).tolist()
    ([[3.0]], [[3.0]])
    """
    if not 0 < level < 1:
        raise ScalingInputError("level must lie between 0 and 1", found=level)
    if n_bootstrap < 1 or n_bootstrap != int(n_bootstrap):
        raise ScalingInputError(
            "n_bootstrap must be a whole number of at least 1", found=n_bootstrap
        )
    data = models.measurements
    least = points_needed(models)
    if len(data.points) < least:
        raise ScalingInputError(
            "too few points for an interval", found=len(data.points),
            expected=f"at least {least}",
        )  # fmt: skip
    tails = ((1 - level) / 2, (1 + level) / 2)
    expected, fitted = models.predict(X), models.predict(data.points, average=False)
    spread = models.spread(X, (tails[0], 0.5, tails[1]))
    low, high = [], []
    for p in range(models.n_paths) if paths is None else paths:
        # Each path draws for itself: an interval does not depend on which others are asked for.
        rng = np.random.default_rng([seed, p])
        values = np.where(models.left_out[p], np.nan, data.values[p])
        known = np.isfinite(values)
        law = "bounded" if models.bounded[p] else "normal"
        if (known.sum(axis=1) > 1).any():
            drawn = repeated(values, law == "bounded", n_bootstrap, rng)
        elif not models.trusted[p]:
            once = np.nanmean(values, axis=1)
            drawn = single(once, fitted[p], len(models.terms(p)), n_bootstrap, rng)[:, :, None]
        else:
            # Met to the last digits by some hypothesis: there is no noise to draw.
            low.append(np.minimum(spread[0, p], expected[p]))
            high.append(np.maximum(spread[2, p], expected[p]))
            continue
        again = fit_many(
            Measurements(data.parameters, data.points, drawn),
            replace(options, noise=law, signed=bool(models.signed[p])),
        )
        pooled = again.spread(X, _LEVELS).reshape(-1, np.shape(X)[0])
        ends = np.quantile(pooled, tails, axis=0)
        if not models.trusted[p] and not models.signed[p]:
            # A correction for the growth near the largest values moves the interval with it.
            middle = spread[1, p]
            there = middle > _NOTHING * np.abs(values[known]).max()
            shift = np.where(there, expected[p] / np.where(there, middle, 1.0), 1.0)
            ends = ends * np.maximum(shift, 0.0)
        low.append(np.minimum(ends[0], expected[p]))
        high.append(np.maximum(ends[1], expected[p]))
    return np.array(low), np.array(high)


def points_needed(models: Models) -> int:
    """Return the least number of points that an interval can be told from.

    Each varied parameter leaves an exponent open, beside one coefficient and one point to spare.

    Examples
    --------
    >>> points_needed(fit_many(Measurements(["p"], [[2], [4], [8], [16]], [[[3.0]] * 4])))
    3
    """
    return max(3, models.n_varied + 2)
