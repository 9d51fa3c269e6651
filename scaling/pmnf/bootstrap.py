"""Prediction intervals: fits of measurements as they might have come out."""

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

# Quantiles that stand for the spread of one draw's hypotheses.
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
        If fewer points were measured than two more than parameters were varied, or fewer than
        three: any model meets these, and nothing tells how far it may be off.

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
        # Each path draws for itself: an interval does not depend on which others are asked for.
        rng = np.random.default_rng([seed, p])
        # What is mostly negative is mirrored, as for its fit, so that noise and misfit are too.
        sign = models.sign[p]
        values = sign * np.where(models.left_out[p], np.nan, data.values[p])
        trusted = models.trusted[p]
        if trusted and not (np.isfinite(values).sum(axis=1) > 1).any():
            # Met to the last digits by some hypothesis: there is no noise to draw.
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
            # Predictions follow the growth near the largest values too, which scatters more.
            near = np.broadcast_to(again.predict(X), pooled.shape)
            pooled = np.concatenate([pooled, near])
        # Between the points and beyond them a model misses as it does at the points, or by more.
        off = rng.standard_normal(pooled.shape[:2]) * beyond_noise
        pooled = pooled * np.exp(np.clip(off[:, :, None] * far, -_FARTHEST, _FARTHEST))
        ends = np.quantile(pooled.reshape(-1, far.size), tails, axis=0)
        if sign < 0:
            ends = -ends[::-1]
        low.append(np.minimum(ends[0], expected[p]))
        high.append(np.maximum(ends[1], expected[p]))
    return np.array(low), np.array(high)


def _n_chosen(models: Models, path: int) -> int:
    """Coefficients and exponents of a model, those of a power and its logarithm as one."""
    terms = models.terms(path)
    return len(terms) + sum(any(pair) for _, exponents in terms for pair in exponents)


def points_needed(models: Models) -> int:
    """Return the least number of points that an interval can be told from.

    Each varied parameter leaves an exponent open, beside one coefficient and one point to spare.

    Examples
    --------
    >>> points_needed(fit_many(Measurements(["p"], [[2], [4], [8], [16]], [[[3.0]] * 4])))
    3
    """
    return max(3, models.n_varied + 2)
