"""Ranking of mappings by simulations, by runs on a machine, or by a model of measured times."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._features import extract_blocks
from toruscast._lazy import LazyModule
from toruscast._slow import pandas as pd
from toruscast.decision.runs import MIN_MAPPINGS, Runs, Times, check_enough, find_measured
from toruscast.errors import InputError
from toruscast.mapping import MappingProblem, TaskMapping
from toruscast.mapping.problem import as_problem
from toruscast.routing import Routing
from toruscast.training import fitted
from toruscast.training.default_model import ROUNDS_APART, DefaultModel
from toruscast.training.feature_sets import (
    BOUND,
    COARSE_FEATURES,
    HELD_OUT,
    SIMULATED,
    with_references,
)
from toruscast.training.fitted import Model, predict_prior
from toruscast.training.metrics import score_answer
from toruscast.training.model_file import load_model
from toruscast.typing import Floats
from toruscast.validation import (
    SEED,
    Progress,
    Seed,
    check_type,
    job_count,
    progress_of,
    real_number,
    seed_number,
)

from . import machine
from .loop import SURE, Budget, Decision, Goal, decide
from .posterior import RUN, Indices, Posterior, expected_rcc
from .results import (
    MIN_RIVAL_PROBABILITY,
    SUMMED_PROFILE_FACTORS,
    TABLE_FEATURES,
    Cost,
    Kind,
    NetworkEnsemble,
    PosteriorSummary,
    Ranking,
    ReleaseBoundRanking,
    Verdict,
    candidate_names,
    default_order,
)
from .simulations import (
    SURE_BOUND,
    CandidateSimulator,
    average_networks,
    bound_candidates,
    candidate_networks,
)

if TYPE_CHECKING:
    from toruscast.decision import measured as measured_models
    from toruscast.decision.measured import RunModel
    from toruscast.mapping.problem import Mappings, ProblemLike, TorusLike
else:
    # This module imports scikit-learn, which takes a second.
    measured_models = LazyModule("toruscast.decision.measured")


def rank(
    comm: ProblemLike,
    torus: TorusLike | None = None,
    mappings: Mappings = (),
    *,
    model: Model | str = "default",
    times: Times | None = None,
    goal: Goal = "fastest",
    budget: Budget | int | None = None,
    routing: Routing = "deterministic",
    check: bool = False,
    coverage: float = 0.9,
    n_jobs: int | None = None,
    seed: Seed = SEED,
    progress: Progress | None = None,
) -> Ranking:
    """Rank mappings by their predicted times, and simulate those that may be the fastest.

    A model predicts a time and an interval for every candidate from features of its routes. The
    default order of tasks and the candidate with the best prediction are simulated first, then the
    rivals. Each simulation updates the predictions of the other candidates. The loop stops when the
    best is proved or sure to be the fastest, or when the budget is spent.

    With ``goal="order"``, all candidates are simulated with coarse packets. Candidates whose pairs
    are likeliest to be in the wrong order are then simulated with real packets, until the expected
    RCC (`Verdict.rcc`) reaches `Budget.rcc`, or the budget is spent.

    If some rules of the network are unknown (`Network.unknown_rules`), candidates are simulated on
    several networks that the machine may have, and are ranked by their mean times. A proof must
    then hold on each of these networks.

    The first simulation after installation takes about a minute longer because it is compiled.

    Parameters
    ----------
    comm, torus, mappings
        The traffic, the network and the candidates; see `MappingProblem`.
    model : TimePredictor or path
        A model fitted on named features; by default, the one that comes with toruscast.
    times : path, dict of names to seconds, DataFrame or Runs, optional
        Measured times (`Runs.from_times`) of six or more of the candidates. A model of measured
        times predicts the other candidates, without a simulation loop. If some rules of the network
        are unknown, any number of runs is enough: they weight the networks that the machine may
        have.
    goal : {"fastest", "order"}
        Whether to find the fastest candidate, or the order of all.
    budget : Budget or int, optional
        Maximum number of simulations with real packets; 0 for a prediction only. With ``times``, 0
        means that the model uses no simulated times as reference.
    check : bool
        Whether to simulate all candidates at the end, score the ranking against these simulated
        times, and then sort it by them.
    coverage : float
        Probability that a time is in the interval ``low`` to ``high``.
    n_jobs : int, optional
        Number of threads; each simulates one candidate at a time.
    progress : callable, optional
        Called with the stage ("features" or "simulations"), the finished and the maximum number.

    Examples
    --------
    >>> from toruscast.mapping import Torus, patterns, strategies
    >>> halo, torus = patterns.halo_2d((4, 4), 4096, periodic=True), Torus((4, 4))
    >>> answer = rank(halo, torus, strategies.sample(halo, torus, n=12))
    >>> answer.best.name, answer.verdict.kind, answer.cost.simulated
    ('identity', 'proved', 1)
    >>> answer = rank(halo, torus, answer.mappings, goal="order")
    >>> answer.verdict.rcc >= 0.85, answer.cost.simulated < 12
    (True, True)
    """
    problem = as_problem(comm, torus, routing)
    candidates = problem.mappings(mappings)
    if not candidates:
        raise InputError("no mapping to rank")
    report, n_jobs = progress_of(progress, "features"), job_count(n_jobs)
    coverage, seed = real_number(coverage, "coverage", 0, 1), seed_number(seed)
    budget = Budget(budget) if budget is None or isinstance(budget, int) else budget
    check_type(check, "check", bool | np.bool_, "True or False")
    check_type(budget, "budget", Budget, "a Budget, or a number of simulations")
    n_allowed, _ = budget.limits(goal, len(candidates))
    fitted.check_traffic(problem.workload)
    if times is not None and model != "default":
        raise InputError("a model and times", expected="one of them: times make their own model")
    loaded = load_model(model) if isinstance(model, str) else model
    fitted.check_model(loaded)
    is_averaged = bool(problem.torus.network.unknown_rules) and n_allowed > 0
    # A model of measured times does not depend on the rules of the network.
    is_measured = loaded.target == "measured" or (times is not None and not is_averaged)
    if goal == "order" and (is_measured or times is not None):
        expected = "goal fastest, because measured times are predicted without such simulations"
        raise InputError("simulations for goal order, but times of a machine", expected=expected)
    if is_measured:
        if check:
            expected = "no check, or a model of simulated times"
            raise InputError("a simulation cannot check times of a machine", expected=expected)
        learned = None
        if times is not None:
            simulate: dict[str, Any] = {} if n_allowed else {"simulate": 0}
            options = simulate | {"seed": seed, "n_jobs": n_jobs, "progress": progress}
            learned = measured_models.learn_runs(problem, None, candidates, times, **options)
        return _rank_by_runs(problem, candidates, loaded, learned, coverage, n_jobs, seed, report)
    described, simulator = describe_candidates(problem, candidates, loaded, n_jobs, seed, report)
    if times is not None:
        return _rank_by_networks(described, simulator, Runs.from_times(times), coverage)
    report = progress_of(progress, "simulations")
    decision = Decision(
        described.posterior, simulator, goal, budget, default=described.default, progress=report
    )
    return _rank_by_simulations(described, decide(decision), check, coverage)


class CandidateSet(NamedTuple):
    """Candidates of a problem, with their features and the posterior of their times."""

    problem: MappingProblem
    mappings: tuple[TaskMapping, ...]
    model: Model
    features: pd.DataFrame
    posterior: Posterior
    unseen_traffic: tuple[str, ...] = ()

    @property
    def default(self) -> int | None:
        """Index of the candidate with the default order of tasks, if there is one."""
        return default_order(self.mappings, candidate_names(self.mappings), self.problem.torus)

    def column(self, name: str) -> Floats:
        """Return the values of a feature for all candidates."""
        return self.features[name].to_numpy(dtype=np.float64)


def describe_candidates(
    problem: MappingProblem,
    mappings: tuple[TaskMapping, ...],
    model: Model,
    n_jobs: int,
    seed: int = SEED,
    progress: Callable[[int, int], object] | None = None,
) -> tuple[CandidateSet, CandidateSimulator]:
    """Return candidates, with features and a prior from a model, and their simulator."""
    start = time.monotonic()
    blocks = extract_blocks(
        problem,
        mappings,
        features=tuple(dict.fromkeys((*model.required_columns, *TABLE_FEATURES, BOUND))),
        extra={name: attrgetter(name) for name in (ROUNDS_APART, SURE_BOUND)},
        n_jobs=n_jobs,
        progress=None if progress is None else lambda n: progress(n, len(mappings)),
    )
    features = pd.concat(blocks)
    networks = candidate_networks(problem.torus, problem.routing)
    # The sure bound in the features is the bound on the first network.
    others = [bound_candidates(problem, mappings, network, n_jobs) for network in networks[1:]]
    bounds = np.column_stack([features.pop(SURE_BOUND), *others]).astype(np.float64)
    prediction, unseen_traffic = predict_prior(model, features, problem, mappings)
    lower = features["lower_bound"].to_numpy(dtype=np.float64)
    # The release bound is closer to the times, but with adaptive routing, times may be below it.
    release = features[BOUND].to_numpy(dtype=np.float64)
    simulator = CandidateSimulator(problem, mappings, lower, release, n_jobs, networks, bounds)
    simulator.spent["bound"] = time.monotonic() - start
    posterior = Posterior.from_prediction(prediction, average_networks(bounds), seed)
    if len(networks) > 1:
        posterior = machine.with_network_error(posterior)
    return CandidateSet(problem, mappings, model, features, posterior, unseen_traffic), simulator


def _rank_by_simulations(
    candidates: CandidateSet, decision: Decision, check: bool, coverage: float
) -> Ranking:
    """Return the ranking after a finished simulation loop.

    With ``check``, the remaining candidates are simulated too, and the ranking is scored and then
    sorted by the simulated times.
    """
    model, simulator, posterior = candidates.model, decision.simulator, decision.posterior
    n_networks, is_simulated = len(simulator.networks), decision.is_simulated
    networks = None
    if n_networks == 1:
        summary = _summarise_simulations(decision, coverage)
    else:
        posterior = machine.with_machine_error(posterior)
        summary = PosteriorSummary.from_posterior(posterior, coverage)
        summary = _widen_intervals(summary, simulator.times)
        if np.isfinite(simulator.times).any():
            networks = _make_ensemble(candidates, simulator)
    source = np.where(decision.is_coarse, "coarse", "predicted")
    source = np.where(is_simulated, "simulated" if n_networks == 1 else "averaged", source)
    is_leading = decision.times == decision.best_time
    if not decision.n_simulated:
        # Among equal predictions, the mapping with the smallest network load leads.
        loads = candidates.column("hop_bytes")
        rounded = np.array([f"{seconds:.3g}" for seconds in summary.time])
        is_leading = rounded == rounded[summary.time.argmin()]
        is_leading &= loads == loads[is_leading].min()
    is_coarse = bool(COARSE_FEATURES & set(model.required_columns))
    cost = Cost(
        decision.n_simulated,
        posterior.n,
        is_coarse,
        coarsening=decision.coarsening,
        networks=n_networks,
    )
    ranking, rows = _build_ranking(
        candidates,
        summary,
        source,
        cost,
        coverage,
        bounds=np.minimum(candidates.posterior.bounds, summary.time),
        is_leading=is_leading if decision.goal == "fastest" else None,
        rcc=expected_rcc(posterior),
        n_proved=decision.n_proved(),
        networks=networks,
        goal=decision.goal,
    )
    table, release = ranking.table, candidates.column(BOUND)
    if not isinstance(model, DefaultModel):
        table[BOUND] = release[rows]
        first = candidate_names(candidates.mappings)[int(release.argmin())]
        physical = ReleaseBoundRanking(first, model.provenance_.get(HELD_OUT))
        ranking = replace(ranking, physical=physical)
    if check:
        if not is_simulated.all():
            others = np.flatnonzero(~is_simulated)
            decision.times[others] = simulator.simulate(others)
        table.insert(4, "observed_time", decision.times[rows])
        ranking = replace(ranking, scores=score_answer(table, release[rows]))
    if candidates.problem.workload.summed:
        table["low"] *= SUMMED_PROFILE_FACTORS[0]
        table["high"] *= SUMMED_PROFILE_FACTORS[1]
    ranking = replace(ranking, spent=dict(simulator.spent))
    if not check:
        return ranking
    order = np.lexsort((table["rank"], rows != candidates.default, table["observed_time"]))
    checked = table.iloc[order].assign(rank=np.arange(1, len(table) + 1))
    # If the networks are averaged, the simulations do not prove the order on the machine.
    verdict = replace(
        ranking.verdict,
        kind="proved",
        certainty=1.0 if n_networks == 1 else ranking.verdict.certainty,
        rivals=(),
        rcc=1.0,
        n_proved=decision.n_proved(),
    )
    checked = checked.reset_index(drop=True)
    return replace(ranking, table=checked, verdict=verdict, unchecked=ranking)


def _summarise_simulations(decision: Decision, coverage: float) -> PosteriorSummary:
    """Return the posterior of the times on one network, with exact simulated times."""
    posterior, is_simulated = decision.posterior, decision.is_simulated
    draws = decision.draws() if is_simulated.any() else posterior.sample()
    # Replace the posterior's values, because their logarithms would round the simulated times.
    time, low, high = (
        np.where(is_simulated, decision.times, values) for values in posterior.interval(coverage)
    )
    _, certainty = decision.verdict()
    return PosteriorSummary(time, low, high, draws.p_best(posterior.n), certainty)


def _widen_intervals(summary: PosteriorSummary, times: Floats) -> PosteriorSummary:
    """Widen the intervals by the spread of ``times``, ``(n, n_networks)``, between networks.

    Candidates without times get the mean spread of the others.
    """
    spread = np.log(times).std(axis=1)
    is_known = np.isfinite(spread)
    spread[~is_known] = spread[is_known].mean() if is_known.any() else 0.0
    low, high = summary.low * np.exp(-spread), summary.high * np.exp(spread)
    return summary._replace(low=low, high=high)


def _rank_by_networks(
    candidates: CandidateSet, simulator: CandidateSimulator, runs: Runs, coverage: float
) -> Ranking:
    """Return a ranking in which runs on a machine weight the networks that it may have."""
    measured = find_measured(candidates.mappings, runs)
    if len(runs.names) >= MIN_MAPPINGS:
        check_enough(runs)
    coarsening = machine.simulate_in_seconds(simulator)
    prior = machine.machine_posterior(
        candidates.posterior, simulator, coarsening, constants=machine.ALL_CONSTANTS
    )
    is_used = ~runs.is_outlier
    measured = measured[runs.which[is_used]]
    predicted = np.exp(prior.prior_means.mean(axis=0)[measured])
    fitted.warn_of_unit(runs.seconds[is_used], predicted, "the simulated time")
    posterior = prior.condition(measured, RUN, runs.seconds[is_used])
    is_measured = np.isin(np.arange(prior.n), measured)
    source = np.where(is_measured, "measured", "averaged" if coarsening else "predicted")
    networks = None
    if coarsening:
        networks = _make_ensemble(candidates, simulator, posterior.network_weights)
    cost = Cost(
        prior.n if coarsening else 0,
        prior.n,
        is_coarse=False,
        measured=int(is_measured.sum()),
        coarsening=coarsening,
        networks=len(simulator.networks),
    )
    ranking, _ = _build_ranking(
        candidates,
        PosteriorSummary.from_posterior(posterior, coverage),
        source,
        cost,
        coverage,
        rcc=expected_rcc(posterior),
        networks=networks,
        spent=dict(simulator.spent),
    )
    return ranking


def _rank_by_runs(
    problem: MappingProblem,
    mappings: tuple[TaskMapping, ...],
    model: Model,
    learned: RunModel | None,
    coverage: float,
    n_jobs: int,
    seed: int,
    progress: Callable[[int, int], object] | None,
) -> Ranking:
    """Return the ranking by a model of measured times: ``learned``, or else ``model``."""
    model, runs = (model, None) if learned is None else (learned.model, learned.runs)
    columns = (*model.required_columns, *TABLE_FEATURES)
    features = with_references(problem, mappings, columns, n_jobs=n_jobs, progress=progress)
    prediction, _ = predict_prior(model, features, problem, mappings)
    posterior, is_measured = measured_models.condition_on_runs(prediction, mappings, runs, seed)
    candidates = CandidateSet(problem, mappings, model, features, posterior)
    summary = PosteriorSummary.from_posterior(posterior, coverage)
    bounds = candidates.column("lower_bound")
    # If a measured time is below its lower bound, the machine is faster than the described network.
    is_bounded = np.isfinite(prediction.min_times).all() and not (summary.time < bounds).any()
    is_coarse = bool({*COARSE_FEATURES, *SIMULATED} & set(model.required_columns))
    ranking, _ = _build_ranking(
        candidates,
        summary,
        np.where(is_measured, "measured", "predicted"),
        Cost(0, len(mappings), is_coarse, measured=int(is_measured.sum())),
        coverage,
        bounds=bounds if is_bounded else None,
        learned=learned,
    )
    return ranking


def _make_ensemble(
    candidates: CandidateSet, simulator: CandidateSimulator, weights: Floats | None = None
) -> NetworkEnsemble:
    """Return the simulated times on each network, and the network weights, by default equal."""
    names = [network.name for network in simulator.networks]
    rows = pd.Index(candidate_names(candidates.mappings), name="mapping")
    weights = np.full(len(names), 1 / len(names)) if weights is None else weights
    times = pd.DataFrame(simulator.times, rows, names)
    return NetworkEnsemble(times, dict(zip(names, weights.tolist(), strict=True)))


def _build_ranking(
    candidates: CandidateSet,
    summary: PosteriorSummary,
    source: NDArray[np.str_],
    cost: Cost,
    coverage: float,
    *,
    bounds: Floats | None = None,
    is_leading: NDArray[np.bool_] | None = None,
    rcc: float | None = None,
    n_proved: int = 0,
    **fields: Any,
) -> tuple[Ranking, Indices]:
    """Return the ranking and the index of the candidate in each row of its table.

    Candidates with a true ``is_leading`` come first; apart from that, the order is by time.
    ``bounds`` are lower bounds of the times, seconds; ``fields`` are further fields of `Ranking`.
    """
    features = {name: candidates.column(name) for name in TABLE_FEATURES}
    # ``bounds`` is None if the bounds of the network do not apply to measured times.
    features["lower_bound"] = np.full(cost.candidates, np.nan) if bounds is None else bounds
    columns = summary._asdict()
    certainty = columns.pop("certainty")
    names = candidate_names(candidates.mappings)
    table = pd.DataFrame({"mapping": names, **columns, "source": source, **features})
    is_last = np.zeros(len(table), dtype=bool) if is_leading is None else ~is_leading
    # Among equal times, prefer the default order. Round the probabilities, because random draws
    # make them differ even for equal candidates.
    is_moved = np.arange(len(table)) != candidates.default
    table = table.iloc[np.lexsort((-table["p_best"].round(2), is_moved, table["time"], is_last))]
    table.insert(0, "rank", np.arange(1, len(table) + 1))
    rows = table.index.to_numpy()
    table = table.reset_index(drop=True)
    kind: Kind = "sure" if certainty >= SURE else "undecided"
    others = table.iloc[1:].sort_values("p_best", ascending=False, kind="stable")
    rivals = tuple(others["mapping"][others["p_best"] >= MIN_RIVAL_PROBABILITY])
    if n_proved == cost.networks:
        kind, rivals = "proved", ()
    ranking = Ranking(
        problem=candidates.problem,
        mappings=candidates.mappings,
        fitted=candidates.model,
        coverage=coverage,
        table=table,
        verdict=Verdict(kind, certainty, rivals, rcc, n_proved=n_proved, n_networks=cost.networks),
        cost=cost,
        unseen_traffic=candidates.unseen_traffic,
        **fields,
    )
    return ranking, rows
