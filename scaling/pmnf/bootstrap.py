"""Prediction intervals, from fits to measurements drawn anew."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toruscast.errors import InputError

from .fit import FitOptions, fit_many
from .measurements import Measurements
from .models import Models
from .redraw import misfits, reach, repeated, single

Array = NDArray[np.float64]

# Quantiles that represent the hypotheses of one draw.
_LEVELS = [(k + 0.5) / 20 for k in range(20)]

# Logarithm of the largest factor that a misfit may make.
_FARTHEST = 50.0


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
        Draws of the measurements.
    seed : int
    paths : sequence of int, optional
        Only these call paths.

    Returns
    -------
    low, high : array, shape (n_paths, m)

    Raises
    ------
    InputError
        If there are fewer than three points, or fewer than the varied parameters plus two. A model
        meets so few points whatever its error is.

    Examples
    --------
    >>> m = Measurements(["p"], [[2], [4], [8], [16]], [[[3.0, 3.0]] * 4])
    >>> low, high = interval(fit_many(m), [[32]], FitOptions(), n_bootstrap=5)
    >>> low.round(6).tolist(), high.round(6).tolist()
    ([[3.0]], [[3.0]])
    """
    if not isinstance(level, numbers.Real) or not 0 < level < 1:
        raise InputError("level must lie between 0 and 1", found=level)
    whole = isinstance(n_bootstrap, numbers.Real) and n_bootstrap == n_bootstrap // 1
    if not whole or isinstance(n_bootstrap, bool) or n_bootstrap < 1:
        raise InputError("n_bootstrap must be a whole number of at least 1", found=n_bootstrap)
    n_bootstrap = int(n_bootstrap)
    data = models.measurements
    least = points_needed(models)
    if len(data.points) < least:
        raise InputError(
            "too few points for an interval",
            found=len(data.points),
            expected=f"at least {least}",
        )
    tails = ((1 - level) / 2, (1 + level) / 2)
    expected, fitted = models.predict(X), models.predict(data.points, average=False)
    spread = models.spread(X, tails)
    far = reach(data.points, models.places(X))
    low, high = [], []
    for p in range(models.n_paths) if paths is None else paths:
        # Each path has its own generator, so its interval does not depend on the other paths.
        rng = np.random.default_rng([seed, p])
        # Mostly negative values are mirrored, as in their fit, so that noise and misfit are too.
        sign = models.sign[p]
        values = sign * np.where(models.left_out[p], np.nan, data.values[p])
        trusted = models.trusted[p]
        if trusted and not (np.isfinite(values).sum(axis=1) > 1).any():
            # Some hypothesis meets the values up to rounding, so there is no noise to draw.
            low.append(np.minimum(spread[0, p], expected[p]))
            high.append(np.maximum(spread[1, p], expected[p]))
            continue
        law = "bounded" if models.bounded[p] else "normal"
        n_chosen = _n_chosen(models, p)
        error, beyond_noise = misfits(values, sign * fitted[p], n_chosen, n_bootstrap, rng)
        if trusted:
            drawn = repeated(values, law == "bounded", n_bootstrap, rng)
        else:
            drawn = single(np.nanmean(values, axis=1), error, rng)[:, :, None]
        again = fit_many(
            Measurements(data.parameters, data.points, drawn),
            replace(options, noise=law, signed=bool(models.signed[p])),
        )
        pooled = again.spread(X, _LEVELS)
        if not trusted:
            # Predictions also follow the growth near the largest values, which varies more.
            near = np.broadcast_to(again.predict(X), pooled.shape)
            pooled = np.concatenate([pooled, near])
        # Elsewhere a model misses by as much as at the points, or by more.
        off = rng.standard_normal(pooled.shape[:2]) * beyond_noise
        pooled = pooled * np.exp(np.clip(off[:, :, None] * far, -_FARTHEST, _FARTHEST))
        ends = np.quantile(pooled.reshape(-1, far.size), tails, axis=0)
        if sign < 0:
            ends = -ends[::-1]
        low.append(np.minimum(ends[0], expected[p]))
        high.append(np.maximum(ends[1], expected[p]))
    return np.array(low), np.array(high)


def _n_chosen(models: Models, path: int) -> int:
    """Count the coefficients and exponents of a model; a power and its logarithm count as one."""
    terms = models.terms(path)
    return len(terms) + sum(any(pair) for _, exponents in terms for pair in exponents)


def points_needed(models: Models) -> int:
    """Return the least number of points that an interval needs.

    There are one exponent for each varied parameter, one coefficient, and one point to spare.

    Examples
    --------
    >>> points_needed(fit_many(Measurements(["p"], [[2], [4], [8], [16]], [[[3.0]] * 4])))
    3
    """
    return max(3, models.n_varied + 2)
