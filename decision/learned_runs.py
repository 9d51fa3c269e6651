"""The answer from times that were measured on a machine: nothing is simulated to decide it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from toruscast.decision.race import REGRET
from toruscast.decision.results import SHOWN_FEATURES, Cost, Forecast, Verdict, ranked
from toruscast.errors import InputWarning
from toruscast.mapping import CommGraph, TaskMapping, Torus, Workload, as_workload
from toruscast.routing import Routing
from toruscast.text import factor
from toruscast.training.feature_sets import FEATURE_SETS, SKETCHED
from toruscast.training.fitted import FittedModel, PriorPrediction, p_best, prior_of
from toruscast.training.samples import SIMULATED, in_words, references_to_try, with_references

from .measured import Measured, learn
from .runs import Runs, Times, check_enough, mappings_of

Floats = NDArray[np.float64]
_DRAWS = 4000
# Networks are known to a factor of a few; units differ by a thousand.
_ODD_SLOPE = 30.0
# A standard error that nobody knows, of a time that the model meets exactly.
_LEAST_ERROR = 1e-9


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
) -> Measured:
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
    workload, runs = as_workload(traffic), Runs.of(times)
    chosen = mappings_of(mappings, runs)
    references = references_to_try(routing, simulate)
    if features is None:
        features = (*FEATURE_SETS["analytic"], *FEATURE_SETS["relative"], *references)
    # The cheap refusals come first.
    check_enough(runs)
    names = (*features, *references, "lower_bound", *more)
    table = with_references(
        workload, torus, chosen, names, routing=routing, n_jobs=n_jobs, progress=progress
    )
    found = learn(table, runs, tuple(dict.fromkeys(features)), seed=seed, n_jobs=n_jobs)
    found.model.provenance_ = {"routing": routing, "measured": True}
    _ask_for_unit(found)
    return found


def _ask_for_unit(found: Measured) -> None:
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


def forecast_machine(
    workload: Workload,
    torus: Torus,
    mappings: Sequence[TaskMapping],
    model: FittedModel,
    learned: Measured | None,
    *,
    routing: Routing,
    coverage: float,
    n_jobs: int,
    seed: int,
    progress: Callable[[int, int], object] | None,
) -> Forecast:
    """Return the answer of a model of measured times, and of the runs that it learned from."""
    names = (*model.required_columns, *SHOWN_FEATURES)
    features = with_references(
        workload, torus, mappings, names, routing=routing, n_jobs=n_jobs, progress=progress
    )
    prior, _ = prior_of(model, features, workload, torus, routing, mappings)
    runs = None if learned is None else learned.runs
    found = join(prior, list(features.index), runs, coverage=coverage, seed=seed)
    how = np.where(found.is_measured, "measured", "forecast")
    ends = {"time": found.time, "low": found.low, "high": found.high, "p_best": found.p_best}
    table = ranked(list(features.index), features, {**ends, "how": how}).reset_index(drop=True)
    if not prior.is_bounded or (table["time"] < table["lower_bound"]).any():
        # Measured times below it show that it is none.
        table["lower_bound"] = np.nan
    sketched = bool({*SKETCHED, *SIMULATED} & set(model.required_columns))
    return Forecast(
        workload=workload,
        torus=torus,
        mappings=tuple(mappings),
        routing=routing,
        fitted=model,
        coverage=coverage,
        table=table,
        verdict=Verdict.of(table, found.certainty),
        cost=Cost(0, 0, len(mappings), sketched, int(found.is_measured.sum())),
        scores={},
        learned=learned,
    )


class Joined(NamedTuple):
    """What runs and a model that learned from them say of every candidate."""

    # Seconds, and the probability of being the fastest, in the order of the candidates.
    time: Floats
    low: Floats
    high: Floats
    p_best: Floats
    is_measured: NDArray[np.bool_]
    # Of several with the least time the likeliest to be fastest.
    best: int
    # Probability that no other takes less by more than 1 %.
    certainty: float


def join(
    prior: PriorPrediction,
    names: Sequence[str],
    runs: Runs | None,
    *,
    coverage: float,
    seed: int,
) -> Joined:
    """Join what was measured of some candidates and what a model says of the others.

    A measured time is as sure as its runs agree. Where no mapping ran twice, nobody knows the
    noise: the whole miss of the model counts as such.
    """
    time, (low, high) = prior.times(), prior.interval(coverage).T
    error = _miss_runs(prior)
    is_measured = np.zeros(len(names), dtype=bool)
    if runs is not None:
        place = {name: i for i, name in enumerate(names)}
        which = np.array([place[name] for name in runs.names])
        is_measured[which] = True
        time, low, high = time.copy(), low.copy(), high.copy()
        time[which] = runs.times
        known = np.isfinite(runs.errors)
        error[which] = np.where(known, np.maximum(runs.errors, _LEAST_ERROR), error[which])
        reach = scipy.special.ndtri((1 + coverage) / 2) * error[which]
        low[which], high[which] = runs.times * np.exp(-reach), runs.times * np.exp(reach)
        if prior.scale is not None and prior.is_bounded:
            low[which] = np.maximum(low[which], np.minimum(prior.scale.least[which], time[which]))
    leads = np.flatnonzero(time == time.min())
    chances = p_best(_draws(prior, time, error, is_measured, seed))
    best = int(leads[np.argmax(chances[leads])])
    regretted = sum(
        int((block[:, best] > (1 + REGRET) * block.min(axis=1)).sum())
        for block in _draws(prior, time, error, is_measured, seed)
    )
    certainty = 1 - regretted / _DRAWS
    return Joined(time, low, high, chances, is_measured, best, certainty)


def _miss_runs(prior: PriorPrediction) -> Floats:
    known = prior.calibrated
    return np.asarray(prior.logs()[1] * float(np.sqrt(np.mean(known.residuals**2))))


def _draws(
    prior: PriorPrediction, time: Floats, error: Floats, is_measured: NDArray[np.bool_], seed: int
) -> Iterator[Floats]:
    rng = np.random.default_rng(seed)
    measured = np.flatnonzero(is_measured)
    for block in prior.draws(_DRAWS, seed):
        spread = rng.standard_normal((len(block), measured.size)) * error[measured]
        block[:, measured] = time[measured] * np.exp(spread)
        yield block
