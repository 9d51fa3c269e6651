"""The answer: which candidate is fastest, how sure that is, and what it cost to find out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from toruscast._lazy import Slow
from toruscast.errors import InputError
from toruscast.features import extract
from toruscast.mapping import CommGraph, TaskMapping, Torus, Workload, as_workload
from toruscast.mapping.task_mapping import as_mappings
from toruscast.routing import Routing
from toruscast.routing.packets import mean_message
from toruscast.training.evaluate.metrics import score_answer
from toruscast.training.forecast.simulate_rest import Simulate
from toruscast.training.measured.runs import Runs, Times
from toruscast.training.predictor import checks
from toruscast.training.predictor.feature_sets import BOUND, HELD_OUT, SKETCHED
from toruscast.training.predictor.fitted import FittedModel, PriorPrediction
from toruscast.training.predictor.model_file import load_fitted
from toruscast.training.predictor.unlearned import APART, prior_of
from toruscast.validation import job_count

from .answer import (
    OF_SUMS,
    SHOWN_FEATURES,
    TOLD_APART,
    Cost,
    Forecast,
    PhysicalOrder,
    Verdict,
    names_of,
)
from .networks import forecast_networks
from .posterior import Kernel, Posterior
from .race import Budget, Race, run
from .simulate_rest import affordable, simulate_rest, sketched

if TYPE_CHECKING:
    from toruscast.training.measured import machine
else:
    # It learns, with scikit-learn, and a forecast alone does not.
    machine = Slow("toruscast.training.measured.machine")

Floats = NDArray[np.float64]
SURE_BOUND = "sure_bound"
Stage = Literal["features", "simulations"]
Progress = Callable[[Stage, int, int], None]


def forecast(
    traffic: Workload | CommGraph,
    torus: Torus,
    mappings: TaskMapping | Sequence[TaskMapping],
    *,
    model: FittedModel | str = "default",
    times: Times | None = None,
    budget: Budget | int | None = None,
    routing: Routing = "deterministic",
    check: bool = False,
    coverage: float = 0.9,
    n_jobs: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Forecast:
    """Find the fastest of several mappings with as few simulations as decide it.

    A model gives every candidate a time and an interval from features of its routes. Simulations
    go to the candidates likeliest to be the fastest, and each teaches about the others, until the
    best is proved or sure to be the fastest, or the budget is spent. The rest is simulated as well,
    for the order, where that takes seconds: with real packets, or with longer ones.

    Where the rules of the network are unknown (`Network.rules`), all candidates are simulated on
    several networks that the machine may have, and their mean decides; nothing is proved then.

    The first simulation on a machine takes 10 to 15 seconds longer, to be compiled.

    Parameters
    ----------
    traffic, torus, mappings
        What is sent, over which network, and the candidates.
    model : TimePredictor or path
        Fitted on named features; the one that comes with toruscast if not given.
    times : path, dict of names to seconds, DataFrame or Runs, optional
        Measured times of six of the candidates or more (`Runs.of`). The others are forecast from
        them: nothing is simulated to decide, for the machine decides.
    budget : Budget or int, optional
        Most simulations; 0 for the forecast alone, 30 if not given. With ``times``, 0 leaves out
        the simulated times that measured ones may follow.
    routing : {"deterministic", "adaptive", "by_size"}
    check : bool
        Simulate all candidates once the race is over and score what was said before.
    coverage : float
        Share of the cases in which the interval ``low`` to ``high`` holds the time.
    n_jobs : int, optional
        Threads; as many candidates are simulated at a time.
    seed : int
        Of the draws behind the probabilities.
    progress : callable, optional
        Called with "features" or "simulations", how many are done and the most there will be.

    Returns
    -------
    Forecast

    Raises
    ------
    InputError
        If there is no mapping, one does not fit, or the model needs a feature that is not known.

    Warns
    -----
    UserWarning
        If the model learned from times under another routing or of another kind of traffic, or
        plain times of mappings far from these, or its intervals rest on too few samples. The
        default model knows how far off it is on such kinds: `Forecast.unlearned` names them.

    Examples
    --------
    >>> from toruscast.mapping import patterns, strategies
    >>> halo, torus = patterns.halo_2d((4, 4), 4096, periodic=True), Torus((4, 4))
    >>> answer = forecast(halo, torus, strategies.sample(halo, torus, n=12))
    >>> answer.best.name, answer.verdict.kind, answer.cost.to_answer
    ('identity', 'proved', 1)
    """
    several = as_mappings(mappings)
    if not several:
        raise InputError("no mapping to rank")
    n_jobs = job_count(n_jobs)
    limit = Budget() if budget is None else budget
    limit = Budget(limit) if isinstance(limit, int) else limit
    workload = as_workload(traffic)
    checks.check_sends(workload)
    if torus.network.rules == "unknown" and limit.simulations > 0:
        if check:
            expected = "no check: known rules, or times of the machine"
            raise InputError("one simulation cannot check several networks", expected=expected)
        if times is not None:
            _check_one(model)
        return forecast_networks(
            workload,
            torus,
            several,
            load_fitted(model) if isinstance(model, str) else model,
            None if times is None else Runs.of(times),
            limit,
            routing=routing,
            coverage=coverage,
            n_jobs=n_jobs,
            seed=seed,
            progress=progress,
        )
    learned = None
    routed = None if progress is None else partial(progress, "features")
    if times is not None:
        _check_one(model)
        learned = machine.learn_runs(
            workload,
            torus,
            several,
            times,
            routing=routing,
            simulate=limit.simulations > 0,
            seed=seed,
            n_jobs=n_jobs,
            progress=routed,
        )
        model = learned.model
    chosen = load_fitted(model) if isinstance(model, str) else model
    checks.check_model(chosen)
    if chosen.target == "measured":
        if check:
            expected = "no check, or a model of simulated times"
            raise InputError("a simulation cannot check times of a machine", expected=expected)
        return machine.forecast_machine(
            workload,
            torus,
            several,
            chosen,
            learned,
            routing=routing,
            coverage=coverage,
            n_jobs=n_jobs,
            seed=seed,
            progress=routed,
        )
    simulate = Simulate(workload, torus, several, routing, n_jobs)
    return _race(simulate, chosen, limit, check, coverage, seed, progress)


def _race(
    simulate: Simulate,
    model: FittedModel,
    budget: Budget,
    check: bool,
    coverage: float,
    seed: int,
    progress: Progress | None,
) -> Forecast:
    """Return the answer of a model of simulated times and of the simulations that decide it."""
    workload, torus, mappings = simulate.workload, simulate.torus, simulate.mappings
    features = extract(
        workload,
        torus,
        mappings,
        routing=simulate.routing,
        features=tuple(dict.fromkeys((*model.required_columns, *SHOWN_FEATURES, BOUND))),
        also={SURE_BOUND: attrgetter("sure_bound"), APART: attrgetter("rounds_apart")},
        n_jobs=simulate.n_jobs,
        progress=None if progress is None else partial(progress, "features"),
    )
    prior, unlearned = prior_of(model, features, workload, torus, simulate.routing, mappings)
    race = Race(process_of(prior), features[SURE_BOUND].to_numpy(dtype=np.float64), seed)
    observed = None if progress is None else partial(progress, "simulations")
    began = time.monotonic()
    run(race, simulate, budget, batch=simulate.n_jobs, progress=observed)
    to_answer, coarsening = len(race.order), None
    if budget.simulations and not check:
        most = np.inf if budget.seconds is None else budget.seconds
        left = most - (time.monotonic() - began)
        coarsening = affordable(workload, torus, mappings, simulate.n_jobs * left)
    if coarsening == 1:
        decided, best_time = race.is_decided(), race.best_time
        simulate_rest(race, simulate, observed)
        if not decided or race.best_time < best_time:
            to_answer = len(race.order)
    elif coarsening is not None:
        rough = simulate(np.arange(len(mappings)), coarsening)
        packets = mean_message(workload, torus)
        lower, bound = features[["lower_bound", BOUND]].to_numpy(dtype=np.float64).T
        race.set_prior(sketched(rough, coarsening, packets, lower, bound, prior.features))
        run(race, simulate, budget, batch=simulate.n_jobs, progress=observed)
        to_answer = len(race.order)
    loads = features["hop_bytes"].to_numpy(dtype=np.float64)
    table, verdict = _answer(race, prior, mappings, coverage, loads, coarsening is not None)
    for name in SHOWN_FEATURES:
        table[name] = features[name].to_numpy()[table.index]
    # Simulated times stand beside it, which a clock may have shortened.
    table["lower_bound"] = race.bounds[table.index]
    physical = None
    if not model.provenance_.get("default"):
        table[BOUND] = features[BOUND].to_numpy()[table.index]
        first = names_of(mappings)[int(features[BOUND].to_numpy().argmin())]
        physical = PhysicalOrder(first, model.provenance_.get(HELD_OUT))
    is_sketched = bool(SKETCHED & set(model.required_columns))
    n_simulated = int(race.is_simulated.sum())
    cost = Cost(to_answer, n_simulated, len(table), is_sketched, coarsening=coarsening)
    scores: dict[str, float] = {}
    if check:
        simulate_rest(race, simulate, observed)
        table.insert(3, "observed_time", race.times[table.index])
        scores = score_answer(table, features.iloc[table.index][BOUND].to_numpy())
    if workload.summed:
        table["low"], table["high"] = OF_SUMS[0] * table["low"], OF_SUMS[1] * table["high"]
    table = table.reset_index(drop=True)
    table.insert(0, "rank", np.arange(1, len(table) + 1))
    return Forecast(
        workload=workload,
        torus=torus,
        mappings=tuple(mappings),
        routing=simulate.routing,
        fitted=model,
        coverage=coverage,
        table=table,
        verdict=verdict,
        cost=cost,
        scores=scores,
        unlearned=unlearned,
        physical=physical,
    )


def _check_one(model: FittedModel | str) -> None:
    if model != "default":
        raise InputError("a model and times", expected="one of them: times make their own")


def process_of(prior: PriorPrediction) -> Posterior:
    """What a model's forecast says before anything is simulated."""
    centre, width = prior.logs()
    calibration = prior.calibrated
    kernel = Kernel.of(float(calibration.common.var()), float(calibration.deviations.var()))
    return Posterior(centre, width, prior.features, kernel)


def _answer(
    race: Race,
    prior: PriorPrediction,
    mappings: Sequence[TaskMapping],
    coverage: float,
    loads: Floats,
    is_sketched: bool,
) -> tuple[pd.DataFrame, Verdict]:
    """Return the candidates' times, best first and indexed by number, and the verdict."""
    seconds, low, high = interval(race, prior, coverage)
    p_best = race.probability_of_best() if race.order else prior.probability_of_best(4000, 0)
    how = np.where(race.is_simulated, "simulated", "sketched" if is_sketched else "forecast")
    table = pd.DataFrame(
        {
            "mapping": names_of(mappings),
            "time": seconds,
            "low": low,
            "high": high,
            "p_best": p_best,
            "how": how,
        }
    )
    if race.order:
        leads = race.times == race.best_time
    else:
        # Of those that people read as equal, the one that loads the network least leads.
        shown = np.array([f"{each:.3g}" for each in seconds])
        leads = shown == shown[seconds.argmin()]
        leads &= loads == loads[leads].min()
    table = table.iloc[np.lexsort((-p_best, seconds, ~leads))]
    kind, certainty = race.verdict()
    rivals = []
    if kind != "proved":
        rest = table.iloc[1:].sort_values("p_best", ascending=False, kind="stable")
        rivals = rest["mapping"][rest["p_best"] >= TOLD_APART].tolist()
    return table, Verdict(kind, certainty, tuple(rivals))


def interval(race: Race, prior: PriorPrediction, coverage: float) -> tuple[Floats, Floats, Floats]:
    """Return time, low and high end of each candidate, seconds; exact where simulated.

    No end lies below the bound that holds for the candidate, and a low end that the model puts at
    the lower bound lies at that one.
    """
    if race.order:
        centre, scale = race.posterior.marginal()
        nu = race.posterior.freedom
        reach = ndtri((1 + coverage) / 2) if np.isinf(nu) else stdtrit(nu, (1 + coverage) / 2)
        ends = [np.exp(centre + way * reach * scale) for way in (0.0, -1.0, 1.0)]
    else:
        ends = [prior.times(), *prior.interval(coverage).T]
        ends[1] = np.where(prior.is_at_bound(ends[1]), 0.0, ends[1])
    floor = race.bounds
    middle, low, high = (
        np.where(race.is_simulated, race.times, np.maximum(end, floor)) for end in ends
    )
    return middle, low, high
