"""Simultaneous fits of thousands of call paths, and prediction intervals."""

from __future__ import annotations

import logging
import numbers
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from toruscast._slow import scipy
from toruscast.errors import InputError
from toruscast.typing import Floats
from toruscast.validation import Progress, check_type, progress_of, whole_number

from .measurements import Measurements, log_points, replace_zeros
from .models import Models
from .noise import estimate_points, estimate_scale, weigh_widths
from .search import count_combinations
from .select import FitOptions, RankedHypotheses, rank_hypotheses
from .terms import TermSpace

logger = logging.getLogger(__name__)

# Larger arrays would not fit in the processor's cache.
_MAX_ELEMENTS = 80_000
_MAX_PARAMETERS = 4
# Levels of the quantiles that represent the hypotheses of one draw.
_QUANTILES = [(k + 0.5) / 20 for k in range(20)]
# Maximum relative misfit that is drawn, and maximum logarithm of the factor that it applies to
# predictions.
_MAX_MISFIT = 1.0
_MAX_LOG_FACTOR = 50.0
# If noise alone causes a misfit with at least this probability (F test), do not extrapolate it.
_SIGNIFICANCE = 0.1
# Relative increase of the misfit at a distance of one measured range from the points.
_GROWTH_PER_RANGE = 4.0


def fit_many(
    measurements: Measurements, options: FitOptions | None = None, progress: Progress | None = None
) -> Models:
    """Fit one model to each call path.

    A hypothesis is a sum of products of terms. The model is the hypothesis with the highest
    posterior probability. If no parameter was varied, it is a constant, with a note. ``progress``
    is called with "paths", the number of fitted call paths and their total number.

    Examples
    --------
    >>> p = [4, 8, 16, 32, 64]
    >>> times = [[[3 + 2 * x] for x in p], [[100 / x] for x in p], [[7.0] for x in p]]
    >>> models = fit_many(Measurements(["p"], [[x] for x in p], times))
    >>> print(*models.formulas(), sep="; ")
    3 + 2 p; 100 p^-1; 7
    >>> models.predict([[128]]).round(6).tolist()
    [[259.0], [0.78125], [7.0]]
    """
    began = time.perf_counter()
    check_type(measurements, "measurements", Measurements, "Measurements")
    check_type(options, "options", FitOptions | None, "FitOptions")
    report = progress_of(progress, "paths") or (lambda done, total: None)
    options = options or FitOptions()
    estimates = estimate_points(measurements.values, options.noise)
    active = _select_parameters(measurements.points, estimates.centre)
    points = measurements.points[:, active]
    space = TermSpace.from_exponents(options.space)
    spaces = [space.above(column.min()) for column in points.T]
    n_paths = measurements.n_paths
    if active:
        n_combinations = count_combinations(points, [space.n_terms for space in spaces])
        step = max(1, _MAX_ELEMENTS // n_combinations)
        chunks = []
        for start in range(0, n_paths, step):
            report(start, n_paths)
            chunk = estimates.take(slice(start, start + step))
            chunks.append(rank_hypotheses(points, chunk, spaces, options))
        report(n_paths, n_paths)
        fields = zip(*chunks, strict=True)
        ranked = RankedHypotheses._make(np.concatenate(arrays) for arrays in fields)
    else:
        ranked = _fit_constants(estimates.centre)
    seconds = time.perf_counter() - began
    amounts = {"call_paths": n_paths, "points": len(points), "seconds": seconds}
    text = "fitted %(call_paths)d call paths at %(points)d points, in %(seconds).3g s"
    logger.info(text, amounts, extra={"event": "fitted", **amounts})
    return Models(measurements, dict(zip(active, spaces, strict=True)), ranked, estimates)


def _fit_constants(centre: Floats) -> RankedHypotheses:
    """Return a constant model for each call path."""
    shape = (len(centre), 1)
    return RankedHypotheses(
        terms=np.zeros((*shape, 1, 0), dtype=np.intp),
        used=np.ones((*shape, 1), dtype=bool),
        coefficient=centre.mean(axis=1)[:, None, None],
        log_weight=np.zeros(shape),
        trusted=np.ones(shape[0], dtype=bool),
        prior_decided=np.zeros(shape[0], dtype=bool),
    )


def _select_parameters(points: Floats, centre: Floats) -> list[int]:
    """Return the indices of the varied parameters, but at most the four with the largest effects.

    The effect of a parameter is the correlation between its logarithm and the measured values.
    """
    varied = [q for q in range(points.shape[1]) if np.unique(points[:, q]).size > 1]
    if len(varied) <= _MAX_PARAMETERS:
        return varied
    logs = log_points(points[:, varied])
    logs = (logs - logs.mean(axis=0)) / logs.std(axis=0)
    y = centre - centre.mean(axis=1, keepdims=True)
    y = y / np.maximum(y.std(axis=1, keepdims=True), 1e-300)
    effects = np.abs(y @ logs).sum(axis=0)
    largest = np.sort(np.argsort(-effects, kind="stable")[:_MAX_PARAMETERS])
    return [varied[k] for k in largest]


def predict_intervals(
    models: Models,
    X: ArrayLike,
    options: FitOptions,
    level: float = 0.9,
    n_bootstrap: int = 100,
    seed: int = 0,
    paths: Sequence[int] | None = None,
) -> tuple[Floats, Floats]:
    """Return prediction intervals of call paths as (low, high), each of shape (n_paths, m).

    The measurements are resampled `n_bootstrap` times and fitted again. The interval spans the
    quantiles of all these predictions, and is wider if the formula has a misfit that noise does not
    explain.
    """
    if not isinstance(level, numbers.Real) or not 0 < level < 1:
        raise InputError("level must be between 0 and 1", found=level)
    n_bootstrap = whole_number(n_bootstrap, "n_bootstrap", 1)
    data = models.measurements
    if len(data.points) < models.min_points:
        found, expected = len(data.points), f"at least {models.min_points}"
        raise InputError("too few points for an interval", found=found, expected=expected)
    tails = ((1 - level) / 2, (1 + level) / 2)
    predicted, fitted = models.predict(X), models.evaluate(data.points)
    spread = models.spread(X, tails)
    lows, highs = [], []
    for p in range(models.n_paths) if paths is None else paths:
        # Separate generators make the interval of a path independent of the other paths.
        rng = np.random.default_rng([seed, p])
        # Negate mostly negative values, as the fit does.
        sign = models.sign[p]
        values = sign * np.where(models.left_out[p], np.nan, data.values[p])
        low, high = spread[:, p]
        # If a hypothesis is trusted and there are no repetitions, there is no noise to draw.
        if not models.trusted[p] or (np.isfinite(values).sum(axis=1) > 1).any():
            drawn = _draw_predictions(
                models, p, values, sign * fitted[p], X, options, n_bootstrap, rng
            )
            low, high = np.sort(sign * np.quantile(drawn, tails, axis=0), axis=0)
        lows.append(np.minimum(low, predicted[p]))
        highs.append(np.maximum(high, predicted[p]))
    return np.array(lows), np.array(highs)


def _draw_predictions(
    models: Models,
    path: int,
    values: Floats,
    fitted: Floats,
    X: ArrayLike,
    options: FitOptions,
    n: int,
    rng: np.random.Generator,
) -> Floats:
    """Draw predictions of a call path, (n_draws, m), from n fits to resampled values.

    Each fit yields the quantiles of its hypotheses, multiplied by a random misfit. ``values`` are
    the repetitions, (n_points, n_repetitions), and ``fitted`` is the formula at the points; both
    are negated if most points are negative.
    """
    data, trusted = models.measurements, models.trusted[path]
    law = "bounded" if models.bounded[path] else "normal"
    terms = models.terms(path)
    # The exponents i and j of a factor x^i log2(x)^j count as one.
    n_fitted = len(terms) + sum(any(pair) for _, exponents in terms for pair in exponents)
    error, beyond_noise = _draw_misfits(values, fitted, n_fitted, n, rng)
    if trusted:
        drawn = _resample(values, law == "bounded", n, rng)
    else:
        noise = rng.standard_normal((error.size, len(values))) * error[:, None]
        drawn = (np.nanmean(values, axis=1) * np.exp(noise))[:, :, None]
    resampled = Measurements(data.parameters, data.points, drawn)
    refitted = fit_many(resampled, replace(options, noise=law))
    pooled = refitted.spread(X, _QUANTILES)
    if not trusted:
        # Predictions also use the nearest points, which have a variance of their own.
        predictions = np.broadcast_to(refitted.predict(X), pooled.shape)
        pooled = np.concatenate([pooled, predictions])
    # The misfit at other places is at least the misfit at the points.
    growth = _growth_factors(data.points, models.places(X))
    misfit = (rng.standard_normal(pooled.shape[:2]) * beyond_noise)[:, :, None] * growth
    pooled = pooled * np.exp(np.clip(misfit, -_MAX_LOG_FACTOR, _MAX_LOG_FACTOR))
    return np.asarray(pooled.reshape(-1, growth.size))


def _resample(values: Floats, bounded: bool, n: int, rng: np.random.Generator) -> Floats:
    """Draw n samples of the repetitions of all points; shape (n, n_points, n_repetitions).

    Bounded noise is uniform around the mid-range, with a random width. Other noise is drawn from
    the pooled differences between the repetitions and the mean of their point.
    """
    count = np.isfinite(values).sum(axis=1)
    if bounded:
        low, high = np.nanmin(values, axis=1), np.nanmax(values, axis=1)
        width, log_weight = weigh_widths(low[None], high[None], count[None])
        half = rng.choice(width[0], n, p=scipy.special.softmax(log_weight[0]))[:, None, None] / 2
        mid_range = (low + high)[:, None] / 2
        drawn = mid_range * (1 + half * rng.uniform(-1, 1, (n, *values.shape)))
    else:
        mean = np.nanmean(values, axis=1, keepdims=True)
        scale = estimate_scale(mean[None, :, 0])[0][:, None]
        # Bessel's correction, because deviations from the sample mean are too small.
        correction = np.sqrt(count / np.maximum(count - 1, 1))[:, None]
        deviation = ((values - mean) / scale * correction)[count > 1]
        drawn = rng.choice(deviation[np.isfinite(deviation)], (n, *values.shape))
        # Few repetitions hardly determine the size of the noise, so draw this size, too.
        df = (count - 1).sum()
        drawn = mean + scale * drawn * np.sqrt(df / rng.chisquare(df, n))[:, None, None]
    return np.where(np.isfinite(values), drawn, np.nan)


def _draw_misfits(
    values: Floats, fitted: Floats, n_fitted: int, n: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Draw n relative misfits of a model: with the noise of the means and without it, (n,) each.

    The variance of the misfits is drawn from its posterior, given the residuals of a model with
    `n_fitted` coefficients and exponents. ``values`` are repetitions, (n_points, n_repetitions).
    """
    count = np.isfinite(values).sum(axis=1)
    mean = np.nanmean(values, axis=1)
    scale = estimate_scale(mean[None])[0]
    df = max(mean.size - n_fitted, 1)
    # With evenly spaced quantiles, no single extreme draw determines an interval.
    chi2 = rng.permutation(scipy.special.chdtri(df, (np.arange(n) + 0.5) / n))
    rss = (((mean - fitted) / scale) ** 2).sum()
    variance = rss / chi2
    noise_squares = np.nansum(((values - mean[:, None]) / scale[:, None]) ** 2)
    noise_df = (count - 1).sum()
    noise = noise_squares / max(noise_df, 1) * (1 / count).mean()
    beyond_noise = np.sqrt(np.maximum(variance - noise, 0.0))
    if noise > 0:
        # A misfit that the noise explains is not expected at other places.
        probability = scipy.special.fdtrc(df, noise_df, rss / df / noise)
        beyond_noise *= max(1 - probability / _SIGNIFICANCE, 0.0)
    return np.minimum(np.sqrt(variance), _MAX_MISFIT), np.minimum(beyond_noise, _MAX_MISFIT)


def _growth_factors(points: Floats, places: Floats) -> Floats:
    """Return the factor, (m,), by which a misfit grows from the measured points to each place."""
    # Parameters that were not varied are assumed to have no effect.
    varied = np.flatnonzero(np.ptp(points, axis=0) > 0)
    points, places = points[:, varied], places[:, varied]
    logs, log_places = log_points(points), np.log(replace_zeros(points, places))
    low, high = logs.min(axis=0), logs.max(axis=0)
    beyond = np.maximum(np.maximum(log_places - high, low - log_places), 0.0) / (high - low)
    return np.asarray(np.prod(1.0 + _GROWTH_PER_RANGE * beyond, axis=1))
