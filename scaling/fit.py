"""Fits of thousands of call paths in one sweep, and prediction intervals."""

from __future__ import annotations

import logging
import numbers
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toruscast._slow import scipy
from toruscast.errors import InputError
from toruscast.validation import Progress, check_type, one_of, progress_of, whole_number

from .measurements import Measurements, logarithms, off_zero
from .models import Models
from .noise import centres, scale_of, widths
from .search import combinations_of
from .select import CRITERIA, RankedHypotheses, find
from .terms import TermSpace

Array = NDArray[np.float64]
logger = logging.getLogger(__name__)

# Largest size of an array of the sweep, so that it fits the processor's cache.
_CHUNK = 80_000
_MAX_PARAMETERS = 4


@dataclass(frozen=True)
class FitOptions:
    """How models are searched.

    Parameters
    ----------
    space : TermSpace, str or pairs of exponents
        Terms to build from: "default", "published", "fine" or any others.
    max_terms : {1, 2}
        Terms of a model of one parameter, its constant not counted.
    noise : {"auto", "normal", "bounded"}
        Law of the noise among repetitions.
    select : {"evidence", "loo", "kfold"}
        Criterion: the evidence of a model, or its error under leave-one-out or five-fold
        cross-validation.
    negative : float
        Prior probability of a negative coefficient in the evidence, above 0 and at most 0.5. Costs
        add up, so it is small. A logarithm's coefficient has either sign with equal probability.
    """

    space: TermSpace | str | Iterable[tuple[float, float]] = "default"
    max_terms: int = 2
    noise: str = "auto"
    select: str = "evidence"
    negative: float = 0.05

    def __post_init__(self) -> None:
        if not isinstance(self.space, str):
            # The pairs may come from an iterator, which can be read only once.
            object.__setattr__(self, "space", TermSpace.from_exponents(self.space))
        whole_number(self.max_terms, "max_terms", 1, 2)
        one_of(self.noise, "law of noise", ("auto", "normal", "bounded"))
        one_of(self.select, "criterion", tuple(CRITERIA))
        if not isinstance(self.negative, numbers.Real) or not 0 < self.negative <= 0.5:
            expected = "above 0, at most 0.5"
            raise InputError("bad prior of negative", found=self.negative, expected=expected)


def fit_many(
    measurements: Measurements,
    options: FitOptions | None = None,
    progress: Progress | None = None,
) -> Models:
    """Fit one model to each call path.

    A hypothesis says which parameters act, together or apart, and with which exponents. Each gets
    its probability, given the measurements, and the most probable one is the model. If no parameter
    was varied, every model is a constant, and its notes say why. ``progress`` is called with
    "paths", the number of call paths fitted and of all.

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
    centred = centres(measurements.values, options.noise)
    active = _active(measurements.points, centred.centre)
    points = measurements.points[:, active]
    space = TermSpace.from_exponents(options.space)
    spaces = [space.above(column.min()) for column in points.T]
    if active:
        n_paths = measurements.n_paths
        step = max(1, _CHUNK // combinations_of(points, [space.n_terms for space in spaces]))
        parts: list[RankedHypotheses] = []
        for start in range(0, n_paths, step):
            report(start, n_paths)
            part = centred.take(slice(start, start + step))
            parts.append(
                find(points, part, spaces, options.max_terms > 1, options.select, options.negative)
            )
        report(n_paths, n_paths)
        found = RankedHypotheses(
            *(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(RankedHypotheses))
        )
    else:
        found = _constants(centred.centre)
    amounts = {
        "call_paths": measurements.n_paths,
        "points": len(measurements.points),
        "seconds": time.perf_counter() - began,
    }
    text = "fitted %(call_paths)d call paths at %(points)d points, in %(seconds).3g s"
    logger.info(text, amounts, extra={"event": "fitted", **amounts})
    return Models(measurements, dict(zip(active, spaces, strict=True)), found, centred)


def _constants(centre: Array) -> RankedHypotheses:
    """Return the one hypothesis that is possible without a varied parameter."""
    shape = (len(centre), 1)
    return RankedHypotheses(
        terms=np.zeros((*shape, 1, 0), dtype=np.intp),
        used=np.ones((*shape, 1), dtype=bool),
        coefficient=centre.mean(axis=1)[:, None, None],
        log_weight=np.zeros(shape),
        trusted=np.ones(shape[0], dtype=bool),
        decided=np.zeros(shape[0], dtype=bool),
    )


def _active(points: Array, centre: Array) -> list[int]:
    """Return the varied parameters; if there are many, those that change the values most."""
    varied = [q for q in range(points.shape[1]) if np.unique(points[:, q]).size > 1]
    if len(varied) <= _MAX_PARAMETERS:
        return varied
    logs = logarithms(points[:, varied])
    logs = (logs - logs.mean(axis=0)) / logs.std(axis=0)
    y = centre - centre.mean(axis=1, keepdims=True)
    y = y / np.maximum(y.std(axis=1, keepdims=True), 1e-300)
    effect = np.abs(y @ logs).sum(axis=0)
    best = np.sort(np.argsort(-effect, kind="stable")[:_MAX_PARAMETERS])
    return [varied[k] for k in best]


# Quantiles that represent the hypotheses of one draw.
_LEVELS = [(k + 0.5) / 20 for k in range(20)]

# Logarithm of the largest factor that a misfit may make.
_FARTHEST = 50.0
# Largest relative misfit that is drawn.
_LARGEST = 1.0
# A model may be off by this many misfits more, one measured range beyond the last point.
_A_RANGE = 4.0


def interval(
    models: Models,
    X: ArrayLike,
    options: FitOptions,
    level: float = 0.9,
    n_bootstrap: int = 100,
    seed: int = 0,
    paths: Sequence[int] | None = None,
) -> tuple[Array, Array]:
    """Prediction intervals of every call path: low and high, each (n_paths, m)."""
    if not isinstance(level, numbers.Real) or not 0 < level < 1:
        raise InputError("level must lie between 0 and 1", found=level)
    n_bootstrap = whole_number(n_bootstrap, "n_bootstrap", 1)
    data = models.measurements
    if len(data.points) < models.min_points:
        found, expected = len(data.points), f"at least {models.min_points}"
        raise InputError("too few points for an interval", found=found, expected=expected)
    tails = ((1 - level) / 2, (1 + level) / 2)
    expected, fitted = models.predict(X), models.evaluate(data.points)
    spread = models.spread(X, tails)
    far = _reach(data.points, models.places(X))
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
        terms = models.terms(p)
        # Coefficients and exponents; a power and its logarithm count as one.
        n_chosen = len(terms) + sum(any(pair) for _, exponents in terms for pair in exponents)
        error, beyond_noise = _misfits(values, sign * fitted[p], n_chosen, n_bootstrap, rng)
        if trusted:
            drawn = _repeated(values, law == "bounded", n_bootstrap, rng)
        else:
            noise = rng.standard_normal((error.size, len(values))) * error[:, None]
            drawn = (np.nanmean(values, axis=1) * np.exp(noise))[:, :, None]
        again = fit_many(
            Measurements(data.parameters, data.points, drawn),
            replace(options, noise=law),
        )
        pooled = again.spread(X, _LEVELS)
        if not trusted:
            # Predictions also follow the growth near the largest values, which varies more.
            near = np.broadcast_to(again.predict(X), pooled.shape)
            pooled = np.concatenate([pooled, near])
        # At other places, a model is off by at least as much as at the points.
        off = rng.standard_normal(pooled.shape[:2]) * beyond_noise
        pooled = pooled * np.exp(np.clip(off[:, :, None] * far, -_FARTHEST, _FARTHEST))
        ends = np.quantile(pooled.reshape(-1, far.size), tails, axis=0)
        if sign < 0:
            ends = -ends[::-1]
        low.append(np.minimum(ends[0], expected[p]))
        high.append(np.maximum(ends[1], expected[p]))
    return np.array(low), np.array(high)


def _repeated(values: Array, bounded: bool, n: int, rng: np.random.Generator) -> Array:
    """Draw the repetitions of every point, (n_points, n_repetitions), n times anew."""
    count = np.isfinite(values).sum(axis=1)
    if bounded:
        low, high = np.nanmin(values, axis=1), np.nanmax(values, axis=1)
        width, log_weight = widths(low[None], high[None], count[None])
        half = rng.choice(width[0], n, p=scipy.special.softmax(log_weight[0]))[:, None, None] / 2
        middle = (low + high)[:, None] / 2
        drawn = middle * (1 + half * rng.uniform(-1, 1, (n, *values.shape)))
    else:
        mean = np.nanmean(values, axis=1, keepdims=True)
        scale = scale_of(mean[None, :, 0])[0][:, None]
        # Deviations from a mean are smaller than those from the true value.
        short = np.sqrt(count / np.maximum(count - 1, 1))[:, None]
        deviation = ((values - mean) / scale * short)[count > 1]
        drawn = mean + scale * rng.choice(deviation[np.isfinite(deviation)], (n, *values.shape))
    return np.where(np.isfinite(values), drawn, np.nan)


def _misfits(
    values: Array, fitted: Array, n_chosen: int, n: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Draw n times how far a model may be off: in total, and beyond the noise of the means."""
    count = np.isfinite(values).sum(axis=1)
    mean = np.nanmean(values, axis=1)
    scale = scale_of(mean[None])[0]
    freedom = max(mean.size - n_chosen, 1)
    # Draws are evenly spaced quantiles in random order; otherwise one extreme draw of a few would
    # determine the interval.
    lengths = rng.permutation(scipy.special.chdtri(freedom, (np.arange(n) + 0.5) / n))
    total = (((mean - fitted) / scale) ** 2).sum()
    square = total / lengths
    squares = np.nansum(((values - mean[:, None]) / scale[:, None]) ** 2)
    repeated = (count - 1).sum()
    noise = squares / max(repeated, 1) * (1 / count).mean()
    beyond = np.sqrt(np.maximum(square - noise, 0.0))
    if noise > 0:
        # A misfit no larger than noise makes it says nothing about other places.
        beyond *= max(2 * scipy.special.fdtr(freedom, repeated, total / freedom / noise) - 1, 0.0)
    return np.minimum(np.sqrt(square), _LARGEST), np.minimum(beyond, _LARGEST)


def _reach(points: Array, places: Array) -> Array:
    """Return the factor by which a misfit may grow at each place; shape (m,)."""
    # A parameter that was never varied is taken to change nothing.
    varied = np.flatnonzero(np.ptp(points, axis=0) > 0)
    points, places = points[:, varied], places[:, varied]
    here, there = np.log(off_zero(points, points)), np.log(off_zero(points, places))
    low, high = here.min(axis=0), here.max(axis=0)
    beyond = np.maximum(np.maximum(there - high, low - there), 0.0) / (high - low)
    result: Array = np.prod(1.0 + _A_RANGE * beyond, axis=1)
    return result
