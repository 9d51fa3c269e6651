"""Fit models to thousands of call paths in one sweep."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from toruscast.validation import one_of, whole_number

from .measurements import Measurements, logarithms
from .models import Models
from .noise import centres
from .search import combinations_of
from .select import CRITERIA, RankedHypotheses, find
from .terms import TermSpace

Array = NDArray[np.float64]
logger = logging.getLogger(__name__)

# Largest size of an array of the sweep, so that it fits the processor's cache.
_CHUNK = 80_000
_MOST_PARAMETERS = 4


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
    """

    space: TermSpace | str | Iterable[tuple[float, float]] = "default"
    max_terms: int = 2
    noise: str = "auto"
    select: str = "evidence"

    def __post_init__(self) -> None:
        if not isinstance(self.space, str):
            # The pairs may come from an iterator, which can be read only once.
            object.__setattr__(self, "space", TermSpace.of(self.space))
        whole_number(self.max_terms, "max_terms", 1, 2)
        one_of(self.noise, "law of noise", ("auto", "normal", "bounded"))
        one_of(self.select, "criterion", tuple(CRITERIA))


def fit_many(
    measurements: Measurements,
    options: FitOptions | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Models:
    """Fit one model to each call path.

    A hypothesis says which parameters act, together or apart, and with which exponents. Each gets
    its probability, given the measurements, and the most probable one is the model. If no parameter
    was varied, every model is a constant, and its notes say why. ``progress`` is called with the
    number of call paths fitted and of all.

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
    options = options or FitOptions()
    centred = centres(measurements.values, options.noise)
    active = _active(measurements.points, centred.centre)
    points = measurements.points[:, active]
    space = TermSpace.of(options.space)
    spaces = [space.above(column.min()) for column in points.T]
    if active:
        n_paths = measurements.n_paths
        step = max(1, _CHUNK // combinations_of(points, [space.n_terms for space in spaces]))
        parts: list[RankedHypotheses] = []
        for start in range(0, n_paths, step):
            if progress is not None:
                progress(start, n_paths)
            part = centred.take(slice(start, start + step))
            parts.append(find(points, part, spaces, options.max_terms > 1, options.select))
        if progress is not None:
            progress(n_paths, n_paths)
        found = RankedHypotheses(
            *(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(RankedHypotheses))
        )
    else:
        found = _constants(centred.centre)
    n_points, seconds = len(measurements.points), time.perf_counter() - began
    logger.info(
        "fitted %d call paths at %d points, in %.3g s",
        measurements.n_paths,
        n_points,
        seconds,
        extra={
            "event": "fitted",
            "call_paths": measurements.n_paths,
            "points": n_points,
            "seconds": seconds,
        },
    )
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
    if len(varied) <= _MOST_PARAMETERS:
        return varied
    logs = logarithms(points[:, varied])
    logs = (logs - logs.mean(axis=0)) / logs.std(axis=0)
    y = centre - centre.mean(axis=1, keepdims=True)
    y = y / np.maximum(y.std(axis=1, keepdims=True), 1e-300)
    effect = np.abs(y @ logs).sum(axis=0)
    best = np.sort(np.argsort(-effect, kind="stable")[:_MOST_PARAMETERS])
    return [varied[k] for k in best]
