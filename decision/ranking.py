"""Forecasts: simulations decide, or runs on a machine do, or a model that learned from runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._features import extract_blocks
from toruscast._lazy import Slow
from toruscast._slow import pandas as pd
from toruscast.decision.runs import Runs, Times, mappings_of
from toruscast.errors import InputError
from toruscast.mapping import MappingProblem, TaskMapping
from toruscast.routing import Routing
from toruscast.training import fitted
from toruscast.training.default_model import APART, DefaultModel
from toruscast.training.feature_sets import BOUND, COARSE_FEATURES, HELD_OUT, SIMULATED
from toruscast.training.fitted import Model, prior_of
from toruscast.training.metrics import score_answer
from toruscast.training.model_file import load_model
from toruscast.validation import check_call, check_type, job_count, real_number, whole_number

from .loop import Budget, Decision, Goal, decide
from .machine import (
    ALL_CONSTANTS,
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
    Estimates,
    Kind,
    Networks,
    PhysicalOrder,
    Ranking,
    Verdict,
    default_order,
    names_of,
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
Indices = NDArray[np.int64]
SURE_BOUND = "sure_bound"
Stage = Literal["features", "simulations"]
Progress = Callable[[Stage, int, int], object]


def rank(
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
) -> Ranking:
    """Find the fastest of several mappings with as few simulations as decide it.

    A model gives every candidate a time and an interval from features of its routes. The likeliest
    candidate and the default order of tasks are simulated; then its rivals, each simulation
    teaching about the others, until the best is proved or sure to be the fastest or the budget is
    spent. Nothing is simulated after that: other candidates keep predicted times.

    With ``goal="order"`` all are simulated with coarse packets, and those whose pairs are likeliest
    to be in the wrong order with real ones, until the expected RCC is that of the budget, or its
    seconds are spent. `Verdict.rcc` states it, `Ranking.spent` where the time went.

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
        Measured times (`Runs.from_times`) of six or more of the candidates. They and simulated
        times predict the others; no simulation loop runs. Where the rules of the network are
        unknown, any number of runs weighs the networks that the machine may have.
    goal : {"fastest", "order"}
        What simulations are to decide.
    budget : Budget or int, optional
        Most simulations with real packets; 0 for the forecast alone. With ``times``, 0 leaves out
        the simulated times that measured ones may follow.
    check : bool
        Simulate all candidates at the end, order them by that, and score the answer before.
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
    >>> answer = rank(halo, torus, strategies.sample(halo, torus, n=12))
    >>> answer.best.name, answer.verdict.kind, answer.cost.simulated
    ('identity', 'proved', 1)
    >>> answer = rank(halo, torus, answer.mappings, goal="order")
    >>> answer.verdict.rcc >= 0.97, answer.cost.simulated < 12
    (True, True)
    """
    problem = MappingProblem(traffic, torus, routing)
    several = problem.mappings(mappings)
    if not several:
        raise InputError("no mapping to rank")
    check_call(progress)
    coverage, seed = real_number(coverage, "coverage", 0, 1), whole_number(seed, "seed", 0)
    budget = Budget(budget) if isinstance(budget, int) else budget or Budget()
    check_type(budget, "budget", Budget, "a Budget, or a number of simulations")
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
    # A model of measured times knows its machine, whatever the rules are.
    is_measured = chosen.target == "measured" or (times is not None and not is_unknown)
    if goal == "order" and (is_measured or times is not None):
        expected = "goal fastest: measured times are forecast without simulations for the order"
        raise InputError("simulations for the order, and times of a machine", expected=expected)
    if is_measured:
        if check:
            expected = "no check, or a model of simulated times"
            raise InputError("a simulation cannot check times of a machine", expected=expected)
        learned = learned_runs.predict_machine(
            problem,
            several,
            chosen,
            times,
            simulate=n_allowed > 0,
            n_jobs=job_count(n_jobs),
            seed=seed,
            progress=None if progress is None else partial(progress, "features"),
        )
        return _forecast_learned(problem, several, learned, coverage)
    candidates, simulations = describe_candidates(
        problem, several, chosen, job_count(n_jobs), seed, progress
    )
    if times is not None:
        return _weigh_networks(candidates, simulations, Runs.from_times(times), coverage)
    return _forecast_simulated(candidates, simulations, goal, budget, check, coverage, progress)


class CandidateSet(NamedTuple):
    """Candidates of a problem with their features and the posterior of their times."""

    problem: MappingProblem
    mappings: tuple[TaskMapping, ...]
    model: Model
    features: pd.DataFrame
    posterior: Posterior
    unseen_traffic: tuple[str, ...] = ()

    @property
    def default(self) -> int | None:
        """The candidate with the default order of tasks, if one has."""
        return default_order(self.mappings, names_of(self.mappings), self.problem.torus)

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
) -> tuple[CandidateSet, Simulations]:
    """Return candidates with what a model says of their times, and how they are simulated."""
    began = time.monotonic()
    blocks = extract_blocks(
        problem,
        mappings,
        features=tuple(dict.fromkeys((*model.required_columns, *SHOWN_FEATURES, BOUND))),
        extra={SURE_BOUND: attrgetter("sure_bound"), APART: attrgetter("rounds_apart")},
        n_jobs=n_jobs,
        progress=None if progress is None else lambda n: progress("features", n, len(mappings)),
    )
    features = pd.concat(blocks)
    prediction, unseen_traffic = prior_of(model, features, problem, mappings)
    # Lower: what links and nodes need. Release: close to the time, so that it orders best, but no
    # bound under adaptive routing. Sure: no simulation falls below it, whatever it rounds.
    lower, release, sure = (
        features[name].to_numpy(dtype=np.float64) for name in ("lower_bound", BOUND, SURE_BOUND)
    )
    simulations = Simulations(problem, mappings, lower, release, n_jobs)
    simulations.spent["bound"] = time.monotonic() - began
    posterior = Posterior.from_prediction(prediction, sure, seed)
    if len(simulations.networks) > 1:
        posterior = for_several_networks(posterior)
    return CandidateSet(problem, mappings, model, features, posterior, unseen_traffic), simulations


def _forecast_simulated(
    candidates: CandidateSet,
    simulations: Simulations,
    goal: Goal,
    budget: Budget,
    check: bool,
    coverage: float,
    progress: Progress | None,
) -> Ranking:
    """Return the answer that simulations decide."""
    names, model = names_of(candidates.mappings), candidates.model
    decision = decide(
        Decision(
            candidates.posterior,
            simulations,
            goal,
            budget,
            default=candidates.default,
            n_cores=simulations.n_jobs,
            progress=None if progress is None else partial(progress, "simulations"),
        )
    )
    n_networks, is_simulated = len(simulations.networks), decision.is_simulated
    posterior, release = decision.posterior, candidates.column(BOUND)
    kind: Kind | None = None
    networks, bounds = None, candidates.posterior.bounds
    if n_networks > 1:
        posterior = with_machine_error(posterior)
        estimates = Estimates.from_posterior(posterior, coverage)
        # The machine has one of the networks, not their mean.
        spread = np.log(simulations.times).std(axis=1)
        is_known = np.isfinite(spread)
        if is_known.any():
            networks = _networks(candidates, simulations)
        spread[~is_known] = spread[is_known].mean() if is_known.any() else 0.0
        low, high = estimates.low * np.exp(-spread), estimates.high * np.exp(spread)
        estimates = estimates._replace(low=low, high=high)
        bounds = np.minimum(candidates.column("lower_bound"), estimates.time)
    else:
        kind, certainty = decision.verdict()
        draws = decision.draws() if is_simulated.any() else posterior.sample()
        # Without the rounding of a logarithm.
        time, low, high = (
            np.where(is_simulated, decision.times, end) for end in posterior.interval(coverage)
        )
        estimates = Estimates(time, low, high, draws.p_best(posterior.n), certainty)
    source = np.where(decision.is_coarse, "coarse", "predicted")
    source = np.where(is_simulated, "simulated" if n_networks == 1 else "averaged", source)
    leads = decision.times == decision.best_time
    if not decision.n_simulated:
        # Among equal predictions, the mapping with the smallest load of the network leads.
        loads = candidates.column("hop_bytes")
        shown = np.array([f"{each:.3g}" for each in estimates.time])
        leads = shown == shown[estimates.time.argmin()]
        leads &= loads == loads[leads].min()
    cost = Cost(
        decision.n_simulated,
        posterior.n,
        bool(COARSE_FEATURES & set(model.required_columns)),
        coarsening=decision.coarsening,
        networks=n_networks,
    )
    found, rows = _build_forecast(
        candidates,
        estimates,
        source,
        cost,
        coverage,
        bounds=bounds,
        leads=leads if goal == "fastest" else None,
        rcc=expected_rcc(posterior),
        kind=kind,
        networks=networks,
        goal=goal,
    )
    table, physical, scores = found.table, None, {}
    if not isinstance(model, DefaultModel):
        table[BOUND] = release[rows]
        first = names[int(release.argmin())]
        physical = PhysicalOrder(first, model.provenance_.get(HELD_OUT))
    if check:
        times, rest = decision.times.copy(), np.flatnonzero(~is_simulated)
        if rest.size:
            times[rest] = simulations(rest)
        table.insert(4, "observed_time", times[rows])
        scores = score_answer(table, release[rows])
    if candidates.problem.workload.summed:
        table["low"], table["high"] = OF_SUMS[0] * table["low"], OF_SUMS[1] * table["high"]
    found = replace(found, physical=physical, scores=scores, spent=dict(simulations.spent))
    if not check:
        return found
    order = np.lexsort((table["rank"], rows != candidates.default, table["observed_time"]))
    proved = Verdict("proved", 1.0, (), 1.0)
    sorted_by_check = table.iloc[order].assign(rank=np.arange(1, len(table) + 1))
    return replace(
        found,
        table=sorted_by_check.reset_index(drop=True),
        verdict=proved,
        unchecked=found,
    )


def _weigh_networks(
    candidates: CandidateSet, simulations: Simulations, runs: Runs, coverage: float
) -> Ranking:
    """Return the answer of runs on a machine, which weigh the networks that it may have."""
    mappings_of(candidates.mappings, runs)
    coarsening = simulate_all(simulations)
    prior = machine_posterior(
        candidates.posterior,
        None if coarsening is None else simulations,
        coarsening or 1,
        constants=ALL_CONSTANTS,
    )
    place = {name: i for i, name in enumerate(names_of(candidates.mappings))}
    kept = ~runs.is_outlier
    ran = np.array([place[name] for name in runs.names])[runs.which[kept]]
    posterior = prior.condition(ran, RUN, runs.seconds[kept])
    is_measured = np.isin(np.arange(prior.n), ran)
    source = np.where(is_measured, "measured", "averaged" if coarsening else "predicted")
    networks, n = None, 0
    if coarsening:
        networks, n = _networks(candidates, simulations, posterior.network_weights), prior.n
    n_networks = len(simulations.networks)
    answer, _ = _build_forecast(
        candidates,
        Estimates.from_posterior(posterior, coverage),
        source,
        Cost(n, prior.n, False, int(is_measured.sum()), coarsening, n_networks),
        coverage,
        rcc=expected_rcc(posterior),
        networks=networks,
        spent=dict(simulations.spent),
    )
    return answer


def _forecast_learned(
    problem: MappingProblem,
    mappings: tuple[TaskMapping, ...],
    learned: learned_runs.MachinePrediction,
    coverage: float,
) -> Ranking:
    """Return the answer of a model that learned from times on the machine."""
    candidates = CandidateSet(problem, mappings, learned.model, learned.features, learned.posterior)
    estimates = Estimates.from_posterior(learned.posterior, coverage)
    bounds = candidates.column("lower_bound")
    # Measured times below it show that it is none.
    is_bounded = learned.is_bounded and not (estimates.time < bounds).any()
    is_coarse = bool({*COARSE_FEATURES, *SIMULATED} & set(learned.model.required_columns))
    answer, _ = _build_forecast(
        candidates,
        estimates,
        np.where(learned.is_measured, "measured", "predicted"),
        Cost(0, len(mappings), is_coarse, int(learned.is_measured.sum())),
        coverage,
        bounds=bounds if is_bounded else None,
        learned=learned.measured,
    )
    return answer


def _networks(
    candidates: CandidateSet, simulations: Simulations, weights: Floats | None = None
) -> Networks:
    """Return the times on each network, and how likely each is; equally, if not given."""
    names = [network.name for network in simulations.networks]
    rows = pd.Index(names_of(candidates.mappings), name="mapping")
    each = np.full(len(names), 1 / len(names)) if weights is None else weights
    times = pd.DataFrame(simulations.times, rows, names)
    return Networks(times, dict(zip(names, each.tolist(), strict=True)))


def _build_forecast(
    candidates: CandidateSet,
    estimates: Estimates,
    source: NDArray[np.str_],
    cost: Cost,
    coverage: float,
    *,
    bounds: Floats | None = None,
    leads: NDArray[np.bool_] | None = None,
    rcc: float | None = None,
    kind: Kind | None = None,
    **more: Any,
) -> tuple[Ranking, Indices]:
    """Return the answer, best of those that lead first, and the candidate of each row."""
    shown = {name: candidates.column(name) for name in SHOWN_FEATURES}
    # Measured times are of another level than the bounds of the network.
    shown["lower_bound"] = np.full(cost.candidates, np.nan) if bounds is None else bounds
    columns = estimates._asdict()
    certainty = columns.pop("certainty")
    names = names_of(candidates.mappings)
    table = pd.DataFrame({"mapping": names, **columns, "source": source, **shown})
    last = np.zeros(len(table), dtype=bool) if leads is None else ~leads
    # Among equal times the default order needs no change; draws of equal chances differ by less.
    is_moved = np.arange(len(table)) != candidates.default
    table = table.iloc[np.lexsort((-table["p_best"].round(2), is_moved, table["time"], last))]
    table.insert(0, "rank", np.arange(1, len(table) + 1))
    rows = table.index.to_numpy()
    table = table.reset_index(drop=True)
    answer = Ranking(
        problem=candidates.problem,
        mappings=candidates.mappings,
        fitted=candidates.model,
        coverage=coverage,
        table=table,
        verdict=Verdict.from_table(table, certainty, rcc, kind),
        cost=cost,
        unseen_traffic=candidates.unseen_traffic,
        **more,
    )
    return answer, rows
