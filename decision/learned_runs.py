"""Prediction of times on a machine by a model of measured times."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from toruscast.decision.posterior import TIME, ErrorComponent, Kernel, Posterior
from toruscast.errors import InputWarning
from toruscast.mapping.problem import as_problem
from toruscast.routing import Routing
from toruscast.text import factor
from toruscast.training.feature_sets import (
    FEATURE_SETS,
    describe_reference,
    references_to_try,
    with_references,
)
from toruscast.training.residuals import PriorPrediction
from toruscast.validation import SEED, Progress, Seed, progress_of, seed_number, whole_number

from .measured import RunModel, fit_run_model
from .runs import Runs, Times, check_enough, select_measured

if TYPE_CHECKING:
    from toruscast.mapping.problem import Mappings, ProblemLike, TorusLike

# Models of a network are off by a factor of a few; a wrong unit by a thousand.
_MAX_SLOPE = 30.0
# Minimum relative error of a measured time, and the log standard deviation of an unknown time.
_MIN_ERROR, _UNKNOWN_STD = 1e-6, 100.0
LEARNED_MEDIAN = "median"
"""Source of the medians of runs from which a model has learned."""


def learn_runs(
    comm: ProblemLike,
    torus: TorusLike | None = None,
    mappings: Mappings = (),
    times: Times | None = None,
    *,
    routing: Routing = "deterministic",
    simulate: int | None = None,
    features: Sequence[str] | None = None,
    more: Sequence[str] = (),
    seed: Seed = SEED,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> RunModel:
    """Fit a model to the measured times of some of the mappings.

    Parameters
    ----------
    times : path, dict of names to seconds, DataFrame or Runs
        Measured times, see `Runs.from_times`.
    simulate : int, optional
        Maximum number of mappings to simulate. If the measured mappings are no more, simulated
        times are reference times besides the bounds. No limit by default; 0 for none.
    features : sequence of str, optional
        Features for corrections; by default, analytic and relative ones, and the reference times.
    more : sequence of str
        Further features for the table.
    progress : callable, optional
        Called with "features", the number of mappings whose features are computed, and that of all.
    """
    report, seed = progress_of(progress, "features"), seed_number(seed)
    problem, runs = as_problem(comm, torus, routing), Runs.from_times(times)
    measured = select_measured(problem.mappings(mappings), runs)
    limit = len(measured) if simulate is None else whole_number(simulate, "simulate", 0)
    references = references_to_try(problem.routing, simulate=len(measured) <= limit)
    if features is None:
        features = (*FEATURE_SETS["analytic"], *FEATURE_SETS["relative"], *references)
    # Check before the features are computed, which takes longer.
    check_enough(runs)
    names = (*features, *references, "lower_bound", *more)
    table = with_references(problem, measured, names, n_jobs=n_jobs, progress=report)
    result = fit_run_model(table, runs, tuple(dict.fromkeys(features)), seed=seed, n_jobs=n_jobs)
    result = replace(result, problem=problem)
    result.model.provenance_ = {"routing": problem.routing, "measured": True}
    _warn_of_slope(result)
    return result


def _warn_of_slope(result: RunModel) -> None:
    slope = result.line.slope
    if not slope or 1 / _MAX_SLOPE < slope < _MAX_SLOPE:
        return
    reference = describe_reference(result.model.reference)
    warnings.warn(
        InputWarning(
            f"differences of measured times are {factor(slope)} those of {reference}: are they in "
            "seconds, and is the bandwidth that of the machine?"
        ),
        stacklevel=3,
    )


def condition_on_runs(
    prediction: PriorPrediction, names: Sequence[str], runs: Runs | None, seed: int = 0
) -> tuple[Posterior, NDArray[np.bool_]]:
    """Return the posterior of times on the machine, and which candidates were measured.

    The noise of a measured time is its standard error. If no mapping ran twice, the noise is
    unknown, and the error of the model replaces it. Errors are independent between candidates,
    because the model has learned from the same runs already.
    """
    mean, std = prediction.logs()
    std = std * prediction.require_calibration().quantile(0.9) / NormalDist().inv_cdf(0.95)
    is_measured = np.zeros(len(names), dtype=bool)
    bounds = np.minimum(prediction.min_times, np.exp(mean))
    measured, variance = np.empty(0, dtype=np.int64), np.empty(0)
    if runs is not None:
        index = {name: i for i, name in enumerate(names)}
        measured = np.array([index[name] for name in runs.names])
        is_measured[measured] = True
        error = np.where(np.isfinite(runs.errors), runs.errors, std[measured])
        variance = np.maximum(error, _MIN_ERROR) ** 2
        bounds[measured] = np.minimum(bounds[measured], runs.times)
    # Only the runs determine the times of measured mappings.
    prior_error = ErrorComponent(np.where(is_measured, _UNKNOWN_STD, std), Kernel(0.0, 0.0, 1.0))
    prior = Posterior(
        prior_means=mean[None],
        errors={"prior": prior_error},
        sources={TIME: ("prior",), LEARNED_MEDIAN: ("prior",)},
        features=prediction.features,
        bounds=bounds,
        seed=seed,
    )
    if runs is None:
        return prior, is_measured
    return prior.condition(measured, LEARNED_MEDIAN, runs.times, variance), is_measured
