"""What a model of measured times says of a machine; simulated times may be what it reads."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._slow import pandas as pd
from toruscast.decision.posterior import TIME, ErrorTerm, Kernel, Posterior
from toruscast.decision.results import SHOWN_FEATURES
from toruscast.errors import InputWarning
from toruscast.mapping import CommGraph, MappingProblem, TaskMapping, Torus, Workload
from toruscast.routing import Routing
from toruscast.text import factor
from toruscast.training.default_model import DefaultModel
from toruscast.training.feature_sets import (
    FEATURE_SETS,
    in_words,
    references_to_try,
    with_references,
)
from toruscast.training.fitted import FittedModel, Model, prior_of
from toruscast.training.residuals import PriorPrediction

from .measured import RunModel, learn
from .runs import Runs, Times, check_enough, mappings_of

Floats = NDArray[np.float64]
# Networks are known to a factor of a few; units differ by a thousand.
_ODD_SLOPE = 30.0
# Standard error where the model meets each time exactly, and the deviation of an unknown time.
_MIN_ERROR, _UNKNOWN = 1e-6, 100.0
LEARNED_MEDIAN = "median"
"""Source of the medians of runs from which a model has learned."""


def learn_runs(
    traffic: Workload | CommGraph,
    torus: Torus,
    mappings: Sequence[TaskMapping],
    times: Times,
    *,
    routing: Routing = "deterministic",
    simulate: bool = True,
    features: Sequence[str] | None = None,
    more: Sequence[str] = (),
    seed: int = 0,
    n_jobs: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> RunModel:
    """Learn from the runs of some of the mappings.

    Parameters
    ----------
    times : path, dict of names to seconds, DataFrame or Runs
    simulate : bool
        Whether simulated times may be what the measured ones follow, or bounds only.
    features : sequence of str, optional
        What may add to that; all that need no simulation of their own if not given.
    more : sequence of str
        Further features that the table shall hold.
    """
    problem, runs = MappingProblem(traffic, torus, routing), Runs.from_times(times)
    chosen = mappings_of(problem.mappings(mappings), runs)
    references = references_to_try(routing, simulate)
    if features is None:
        features = (*FEATURE_SETS["analytic"], *FEATURE_SETS["relative"], *references)
    # The cheap refusals come first.
    check_enough(runs)
    names = (*features, *references, "lower_bound", *more)
    table = with_references(problem, chosen, names, n_jobs=n_jobs, progress=progress)
    found = learn(table, runs, tuple(dict.fromkeys(features)), seed=seed, n_jobs=n_jobs)
    found = replace(found, problem=problem)
    found.model.provenance_ = {"routing": routing, "measured": True}
    _warn_of_unit(found)
    return found


def _warn_of_unit(found: RunModel) -> None:
    """Warn of times that grow so much faster or slower than those of the model of the network."""
    slope = found.line.slope
    if not slope or 1 / _ODD_SLOPE < slope < _ODD_SLOPE:
        return
    warnings.warn(
        InputWarning(
            f"measured times differ by {factor(slope)} what {in_words(found.model.reference)} "
            "does: are they in seconds, and is the bandwidth that of the machine?"
        ),
        stacklevel=3,
    )


class MachinePrediction(NamedTuple):
    """Times on a machine, as a model of measured times and the runs behind it say."""

    model: FittedModel
    features: pd.DataFrame
    posterior: Posterior
    is_measured: NDArray[np.bool_]
    is_bounded: bool
    """Whether no time can fall below the lower bounds of the network."""
    measured: RunModel | None
    """What was learned from the runs, where there are some."""


def predict_machine(
    problem: MappingProblem,
    mappings: Sequence[TaskMapping],
    model: Model,
    times: Times | None,
    *,
    simulate: bool,
    n_jobs: int,
    seed: int,
    progress: Callable[[int, int], object] | None,
) -> MachinePrediction:
    """Return the times of mappings by a model of measured times, or by runs of some of them."""
    learned = None
    if times is not None:
        learned = learn_runs(
            problem.workload,
            problem.torus,
            mappings,
            times,
            routing=problem.routing,
            simulate=simulate,
            seed=seed,
            n_jobs=n_jobs,
            progress=progress,
        )
        model = learned.model
    assert not isinstance(model, DefaultModel)
    names = (*model.required_columns, *SHOWN_FEATURES)
    features = with_references(problem, mappings, names, n_jobs=n_jobs, progress=progress)
    prediction, _ = prior_of(model, features, problem, mappings)
    posterior, is_measured = condition_on_runs(
        prediction, list(map(str, features.index)), None if learned is None else learned.runs, seed
    )
    return MachinePrediction(
        model, features, posterior, is_measured, prediction.is_bounded, learned
    )


def condition_on_runs(
    prediction: PriorPrediction, names: Sequence[str], runs: Runs | None, seed: int = 0
) -> tuple[Posterior, NDArray[np.bool_]]:
    """Return the posterior of measured times, and which candidates were measured.

    A measured time is as sure as its runs agree. Where no mapping ran twice, the noise is unknown:
    the whole error of the model counts as noise. The model has learned from the runs already, so
    that they teach nothing more about the other candidates.
    """
    centre, width = prediction.logs()
    residuals = prediction.calibrated
    width = width * residuals.quantile(0.9) / NormalDist().inv_cdf(0.95)
    is_measured, own = np.zeros(len(names), dtype=bool), Kernel(0.0, 0.0, 1.0)
    least = np.minimum(prediction.min_times, np.exp(centre))
    which, variance = np.empty(0, dtype=np.int64), np.empty(0)
    if runs is not None:
        place = {name: i for i, name in enumerate(names)}
        which = np.array([place[name] for name in runs.names])
        is_measured[which] = True
        error = np.where(np.isfinite(runs.errors), runs.errors, width[which])
        variance = np.maximum(error, _MIN_ERROR) ** 2
        least[which] = np.minimum(least[which], runs.times)
    prior = Posterior(
        centres=centre[None],
        # The runs alone decide about the mappings that ran.
        errors={"prior": ErrorTerm(np.where(is_measured, _UNKNOWN, width), own)},
        sources={TIME: ("prior",), LEARNED_MEDIAN: ("prior",)},
        features=prediction.features,
        bounds=least,
        seed=seed,
    )
    if runs is None:
        return prior, is_measured
    return prior.condition(which, LEARNED_MEDIAN, runs.times, variance), is_measured
