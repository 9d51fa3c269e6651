"""The answer: which candidate is fastest, how sure that is, and what it cost to find out."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from toruscast._lazy import Slow
from toruscast.decision.runs import Runs, Times, mappings_of
from toruscast.errors import InputError
from toruscast.features import extract
from toruscast.mapping import MappingProblem, TaskMapping
from toruscast.routing import Routing
from toruscast.training import fitted
from toruscast.training.default_model import APART, DefaultModel
from toruscast.training.feature_sets import BOUND, HELD_OUT, SKETCHED
from toruscast.training.fitted import Model, prior_of
from toruscast.training.metrics import score_answer
from toruscast.training.model_file import load_model
from toruscast.validation import job_count

from .loop import REGRET, Budget, Decision, Goal, decide
from .machine import (
    LESS,
    for_several_networks,
    machine_posterior,
    simulate_all,
    with_machine_error,
)
from .posterior import RUN, Posterior, expected_rcc
from .results import (
    OF_SUMS,
    SHOWN_FEATURES,
    Cost,
    Forecast,
    Kind,
    Networks,
    PhysicalOrder,
    Verdict,
    default_order,
    names_of,
    ranked,
)
from .simulations import Simulations

if TYPE_CHECKING:
    from toruscast.decision import learned_runs
    from toruscast.mapping.comm_graph import Traffic
    from toruscast.mapping.problem import Mappings, TorusLike
else:
    # It learns, with scikit-learn, and a forecast alone does not.
    learned_runs = Slow("toruscast.decision.learned_runs")

Floats = NDArray[np.float64]
SURE_BOUND = "sure_bound"
Stage = Literal["features", "simulations"]
Progress = Callable[[Stage, int, int], None]


def forecast(
    traffic: Traffic,
    torus: TorusLike,
    mappings: Mappings,
    *,
    model: Model | str = "default",
    times: Times | None = None,
    goal: Goal = "fastest",
    budget: Budget | int | None = None,
    routing: Routing = "deterministic",
    check: bool = False,
    coverage: float = 0.9,
    n_jobs: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Forecast:
    """Find the fastest of several mappings with as few simulations as decide it.

    A model gives every candidate a time and an interval from features of its routes. The likeliest
    candidate and the default order of tasks are simulated; then its rivals, each simulation
    teaching about the others, until the best is proved or sure to be the fastest or the budget is
    spent. Nothing is simulated after that: other candidates keep predicted times.

    With ``goal="order"`` all are simulated with coarse packets, and those whose pairs are likeliest
    to be in the wrong order with real ones, until the expected RCC is that of the budget, or its
    seconds are spent. `Verdict.rcc` states it, `Forecast.spent` where the time went.

    Where the rules of the network are unknown (`Network.rules`), candidates are simulated on
    several networks that the machine may have, and their mean decides; nothing is proved then.

    The first simulation on a machine takes 10 to 15 seconds longer, to be compiled.

    Parameters
    ----------
    traffic, torus, mappings
        The traffic, the network and the candidates; see `MappingProblem`.
    model : TimePredictor or path
        Fitted on named features; the one that comes with toruscast if not given.
    times : path, dict of names to seconds, DataFrame or Runs, optional
        Measured times of six of the candidates or more (`Runs.of`). The others are forecast from
        them: nothing is simulated to decide, since the machine decides.
    goal : {"fastest", "order"}
        What simulations are to decide.
    budget : Budget or int, optional
        Most simulations with real packets; 0 for the forecast alone. With ``times``, 0 leaves out
        the simulated times that measured ones may follow.
    check : bool
        Simulate all candidates at the end and score the answer given before.
    coverage : float
        Share of the cases in which the interval ``low`` to ``high`` holds the time.
    n_jobs : int, optional
        Threads; as many candidates are simulated at a time.
    progress : callable, optional
        Called with "features" or "simulations", how many are done and the most there will be.

    Examples
    --------
    >>> from toruscast.mapping import Torus, patterns, strategies
    >>> halo, torus = patterns.halo_2d((4, 4), 4096, periodic=True), Torus((4, 4))
    >>> answer = forecast(halo, torus, strategies.sample(halo, torus, n=12))
    >>> answer.best.name, answer.verdict.kind, answer.cost.simulated
    ('identity', 'proved', 1)
    >>> answer = forecast(halo, torus, answer.mappings, goal="order")
    >>> answer.verdict.rcc >= 0.97, answer.cost.simulated < 12
    (True, True)
    """
    problem = MappingProblem(traffic, torus, routing)
    several = problem.mappings(mappings)
    if not several:
        raise InputError("no mapping to rank")
    budget = Budget(budget) if isinstance(budget, int) else budget or Budget()
    n_allowed, _ = budget.limits(goal, len(several))
    fitted.check_sends(problem.workload)
    if times is not None and model != "default":
        raise InputError("a model and times", expected="one of them: times make their own")
    chosen = load_model(model) if isinstance(model, str) else model
    fitted.check_model(chosen)
    is_unknown = problem.torus.network.rules == "unknown" and n_allowed > 0
    if check and is_unknown:
        expected = "no check: known rules, or times of the machine"
        raise InputError("one simulation cannot check several networks", expected=expected)
    is_measured = times is not None or chosen.target == "measured"
    if goal == "order" and is_measured and not is_unknown:
        expected = "goal fastest: measured times are forecast without simulations for the order"
        raise InputError("simulations for the order, and times of a machine", expected=expected)
    if is_measured and not is_unknown:
        if check:
            expected = "no check, or a model of simulated times"
            raise InputError("a simulation cannot check times of a machine", expected=expected)
        return learned_runs.forecast_machine(
            problem,
            several,
            chosen,
            times,
            simulate=n_allowed > 0,
            coverage=coverage,
            n_jobs=job_count(n_jobs),
            seed=seed,
            progress=None if progress is None else partial(progress, "features"),
        )
    candidates = describe_candidates(problem, several, chosen, job_count(n_jobs), seed, progress)
    if times is not None:
        return _forecast_runs(candidates, Runs.of(times), coverage)
    return _forecast_simulated(candidates, goal, budget, check, coverage, progress)


class CandidateSet(NamedTuple):
    """CandidateSet of a problem before any is simulated."""

    problem: MappingProblem
    mappings: tuple[TaskMapping, ...]
    model: Model
    features: pd.DataFrame
    posterior: Posterior
    simulations: Simulations
    unlearned: tuple[str, ...]

    def column(self, name: str) -> Floats:
        """Return a feature of each."""
        return self.features[name].to_numpy(dtype=np.float64)


def describe_candidates(
    problem: MappingProblem,
    mappings: tuple[TaskMapping, ...],
    model: Model,
    n_jobs: int,
    seed: int = 0,
    progress: Progress | None = None,
) -> CandidateSet:
    """Return the features of candidates, and what a model says of their times."""
    began = time.monotonic()
    features = extract(
        problem.workload,
        problem.torus,
        mappings,
        routing=problem.routing,
        features=tuple(dict.fromkeys((*model.required_columns, *SHOWN_FEATURES, BOUND))),
        also={SURE_BOUND: attrgetter("sure_bound"), APART: attrgetter("rounds_apart")},
        n_jobs=n_jobs,
        progress=None if progress is None else partial(progress, "features"),
    )
    prediction, unlearned = prior_of(model, features, problem, mappings)
    lower, release, sure = (
        features[name].to_numpy(dtype=np.float64) for name in ("lower_bound", BOUND, SURE_BOUND)
    )
    simulations = Simulations(problem, mappings, lower, release, n_jobs)
    simulations.spent["bound"] = time.monotonic() - began
    posterior = Posterior.from_prediction(prediction, sure, seed)
    if len(simulations.networks) > 1:
        posterior = for_several_networks(posterior)
    return CandidateSet(problem, mappings, model, features, posterior, simulations, unlearned)


def _forecast_simulated(
    candidates: CandidateSet,
    goal: Goal,
    budget: Budget,
    check: bool,
    coverage: float,
    progress: Progress | None,
) -> Forecast:
    """Return the answer that simulations decide."""
    simulations, model = candidates.simulations, candidates.model
    decision = decide(
        Decision(
            candidates.posterior,
            simulations,
            goal,
            budget,
            default=default_order(
                candidates.mappings, names_of(candidates.mappings), candidates.problem.torus
            ),
            n_cores=simulations.n_jobs,
            progress=None if progress is None else partial(progress, "simulations"),
        )
    )
    n_networks, is_simulated = len(simulations.networks), decision.is_simulated
    posterior = decision.posterior
    time, low, high = posterior.interval(coverage)
    kind: Kind | None
    kind, certainty = decision.verdict()
    chances = (decision.draws() if is_simulated.any() else posterior.sample()).p_best(time.size)
    if n_networks > 1:
        posterior = with_machine_error(posterior)
        time, low, high = posterior.interval(coverage)
        spread = np.log(simulations.times).std(axis=1)
        is_known = np.isfinite(spread)
        spread[~is_known] = spread[is_known].mean() if is_known.any() else 0.0
        low, high = low * np.exp(-spread), high * np.exp(spread)
        draws = posterior.sample()
        chances, best = draws.p_best(time.size), int(draws.which[time[draws.which].argmin()])
        kind, certainty = None, float((draws.loss(best) <= np.log1p(REGRET)).mean())
    else:
        # Without the rounding of a logarithm.
        time, low, high = (np.where(is_simulated, decision.times, end) for end in (time, low, high))
    source = np.where(decision.is_coarse, "sketched", "forecast")
    source = np.where(is_simulated, "simulated" if n_networks == 1 else "averaged", source)
    columns = {"time": time, "low": low, "high": high, "p_best": chances, "how": source}
    leads = decision.times == decision.best_time
    if not decision.n_simulated:
        # Among equal predictions, the mapping with the smallest load of the network leads.
        loads, shown = candidates.column("hop_bytes"), np.array([f"{each:.3g}" for each in time])
        leads = shown == shown[time.argmin()]
        leads &= loads == loads[leads].min()
    table = ranked(
        names_of(candidates.mappings),
        candidates.features,
        columns,
        leads if goal == "fastest" else None,
    )
    verdict = Verdict.of(table, certainty, expected_rcc(posterior), kind)
    rows, lower = table.index.to_numpy(), candidates.column("lower_bound")
    bound = candidates.posterior.bounds if n_networks == 1 else np.minimum(lower, time)
    table["lower_bound"] = bound[rows]
    physical = None
    release = candidates.column(BOUND)
    if not isinstance(model, DefaultModel):
        table[BOUND] = release[rows]
        first = names_of(candidates.mappings)[int(release.argmin())]
        physical = PhysicalOrder(first, model.provenance_.get(HELD_OUT))
    scores: dict[str, float] = {}
    cost = Cost(
        decision.n_simulated,
        len(table),
        bool(SKETCHED & set(model.required_columns)),
        coarsening=decision.coarsening,
        networks=n_networks,
    )
    if check:
        rest = np.flatnonzero(~is_simulated)
        times = decision.times.copy()
        times[rest] = simulations(rest) if rest.size else times[rest]
        table.insert(4, "observed_time", times[rows])
        scores = score_answer(table, release[rows])
    if candidates.problem.workload.summed:
        table["low"], table["high"] = OF_SUMS[0] * table["low"], OF_SUMS[1] * table["high"]
    return _build_forecast(
        candidates,
        table,
        verdict,
        cost,
        coverage,
        scores=scores,
        physical=physical,
        networks=_networks(candidates) if n_networks > 1 and is_known.any() else None,
        goal=goal,
    )


def _forecast_runs(candidates: CandidateSet, runs: Runs, coverage: float) -> Forecast:
    """Return the answer of runs on a machine, which weigh the networks that it may have."""
    simulations, names = candidates.simulations, names_of(candidates.mappings)
    mappings_of(candidates.mappings, runs)
    coarsening = simulate_all(simulations)
    prior = machine_posterior(
        candidates.posterior,
        None if coarsening is None else simulations,
        coarsening or 1,
        constants=(*LESS, 0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
    )
    place = {name: i for i, name in enumerate(names)}
    kept = ~runs.is_outlier
    ran = np.array([place[name] for name in runs.names])[runs.which[kept]]
    posterior = prior.condition(ran, RUN, runs.seconds[kept])
    time, low, high = posterior.interval(coverage)
    draws = posterior.sample()
    best = int(draws.which[time[draws.which].argmin()])
    certainty = float((draws.loss(best) <= np.log1p(REGRET)).mean())
    is_measured = np.isin(np.arange(time.size), ran)
    simulated = "averaged" if coarsening else "forecast"
    source = np.where(is_measured, "measured", simulated)
    columns = {"time": time, "low": low, "high": high, "p_best": draws.p_best(time.size)}
    table = ranked(names, candidates.features, {**columns, "how": source})
    # Measured times are of another level than the bounds.
    table["lower_bound"] = np.nan
    n = time.size if coarsening else 0
    n_networks = len(simulations.networks)
    cost = Cost(n, time.size, False, int(is_measured.sum()), coarsening, n_networks)
    networks = _networks(candidates, posterior.network_weights) if coarsening else None
    verdict = Verdict.of(table, certainty, expected_rcc(posterior))
    return _build_forecast(candidates, table, verdict, cost, coverage, networks=networks)


def _networks(candidates: CandidateSet, weights: Floats | None = None) -> Networks:
    """Return the times on each network, and how likely each is; equally, if not given."""
    simulations = candidates.simulations
    names = [network.name for network in simulations.networks]
    rows = pd.Index(names_of(candidates.mappings), name="mapping")
    each = np.full(len(names), 1 / len(names)) if weights is None else weights
    times = pd.DataFrame(simulations.times, rows, names)
    return Networks(times, dict(zip(names, each.tolist(), strict=True)))


def _build_forecast(
    candidates: CandidateSet,
    table: pd.DataFrame,
    verdict: Verdict,
    cost: Cost,
    coverage: float,
    **more: Any,
) -> Forecast:
    return Forecast(
        problem=candidates.problem,
        mappings=candidates.mappings,
        fitted=candidates.model,
        coverage=coverage,
        table=table.reset_index(drop=True),
        verdict=verdict,
        cost=cost,
        unlearned=candidates.unlearned,
        spent=dict(candidates.simulations.spent),
        **more,
    )
