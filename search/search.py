"""Search for a better mapping in a given time, and the gap to a lower bound over all mappings."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from toruscast._features import FEATURES, RoutedTraffic
from toruscast._slow import pandas as pd
from toruscast.decision.loop import Budget
from toruscast.decision.ranking import rank
from toruscast.decision.results import Ranking, Verdict
from toruscast.decision.simulations import HOPS_PER_SECOND, simulate_mean
from toruscast.errors import InputError
from toruscast.mapping import MappingProblem, TaskMapping
from toruscast.mapping.problem import as_problem
from toruscast.mapping.task_mapping import Allocation, min_capacity
from toruscast.notebook import Result
from toruscast.routing.bounds import min_loads, min_time
from toruscast.routing.loads import check_routes
from toruscast.routing.messages import list_messages, max_message_packets
from toruscast.simulation.simulator import candidate_coarsenings, packet_hops, simulate
from toruscast.text import closest, percent, shown_name
from toruscast.text import seconds as in_seconds
from toruscast.validation import (
    SEED,
    Routing,
    Seed,
    check_type,
    job_count,
    real_number,
    seed_number,
)

from .annealing import AnnealingRuns, Clock
from .starts import generate_starts, map_with_programs

if TYPE_CHECKING:
    from toruscast.mapping.problem import Mappings, ProblemLike, TorusLike

logger = logging.getLogger(__name__)
TIME = "time"
# Minimum estimated seconds of the first round, growth factor from round to round, and maximum
# number of rounds. Then the shares of a round for starts, annealing and comparison.
_FIRST_ROUND_SECONDS, _GROWTH, _MAX_ROUNDS = 0.05, 1.5, 60
_START_SHARE, _ANNEALING_SHARE, _COMPARISON_SHARE = 0.5, 0.5, 0.25
# Relative distance to the bound at which the search ends.
_BOUND_TOLERANCE = 1e-4
# Accepted error of the reported times.
_ERROR = 0.01
# Accepted slowdown relative to the first mapping if all messages start at once.
_TOLERANCE = 0.01
# Minimum seconds and maximum mappings of a comparison by `rank`, and number of its winners that are
# simulated again. With fewer seconds, the first `_N_WINNERS` mappings are simulated without `rank`.
_MIN_LOOP_SECONDS, _MAX_LOOP_MAPPINGS, _N_WINNERS = 0.2, 150, 2


@dataclass(frozen=True, eq=False)
class SearchResult(Result):
    """The best mapping of a search, and its gain."""

    best: TaskMapping
    # Objective of the best mapping, and of the best given mapping (tasks in order by default). For
    # the objective ``time`` these are simulated seconds.
    value: float
    initial_value: float
    # Lower and upper limit of the gain, given the simulation errors of both times.
    gain_interval: tuple[float, float]
    # The compared mappings, the best first: ``mapping``, ``value``, ``source`` (of the value) and
    # ``from`` (origin of the mapping); after a comparison by `rank`, also ``low``, ``high`` and
    # ``p_best``.
    table: pd.DataFrame
    bound: float  # lower bound over all mappings; 0 if none is known
    # Probability that no other shortlisted mapping is faster; None for objectives other than time,
    # and if the search was so short that every shortlisted mapping was simulated.
    verdict: Verdict | None
    objective: str
    proposals: int  # proposed changes of mappings
    interrupted: bool
    problem: MappingProblem
    reference: TaskMapping  # the mapping that the gain refers to
    # For each improvement: seconds since the start, and the objective.
    history: tuple[tuple[float, float], ...]

    def __repr__(self) -> str:
        value = in_seconds(self.value) if self.objective == TIME else f"{self.value:.6g}"
        return (
            f"SearchResult({shown_name(self.best.name)}: {self.objective} {value}, "
            f"{percent(self.gain)} less than {shown_name(self.reference.name or 'given')})"
        )

    @property
    def time(self) -> float:
        """Simulated seconds of the best mapping."""
        if self.objective != TIME:
            raise InputError("no time was simulated", found=f"objective {self.objective}")
        return self.value

    @property
    def gain(self) -> float:
        """Saved share of the initial objective."""
        return 1 - self.value / self.initial_value if self.initial_value else 0.0

    @property
    def optimality_gap(self) -> float:
        """Relative excess of the objective over the bound; infinite without a bound."""
        return self.value / self.bound - 1 if self.bound > 0 else np.inf


def search(
    comm: ProblemLike,
    torus: TorusLike | None = None,
    mappings: Mappings = (),
    *,
    seconds: float = 30.0,
    objective: str = TIME,
    nodes: ArrayLike | None = None,
    fixed: Mapping[int, ArrayLike] | None = None,
    tasks_per_node: int | None = None,
    partitioners: Sequence[str] = (),
    routing: Routing = "deterministic",
    seed: Seed = SEED,
    n_jobs: int | None = None,
    n_sweeps: int | None = None,
    callback: Callable[[TaskMapping, float], None] | None = None,
) -> SearchResult:
    """Search for a better mapping.

    The search starts from the given mappings and the mappings of all strategies, including
    multilevel ones, and improves them by simulated annealing. The energy is a smooth maximum of the
    loads of links, injection FIFOs and receivers, plus a share of hop-bytes. The best distinct
    mappings are compared as in `rank`, and the winners are simulated with an error of 1 %. A
    mapping for dependent rounds must not rely on synchronised ranks: if all messages start at once,
    it must not be slower than the first of ``mappings``.

    Parameters
    ----------
    mappings : sequence of TaskMapping
        Given mappings; the gain is relative to the best of them.
    seconds : float
        Processor seconds of the search. They equal wall seconds on idle processors, and are at
        least half of the wall seconds on busy ones. The current step is always finished. The search
        runs in rounds of increasing length. It ends early if the next round would take too long, or
        if a mapping is within 0.01 % of the lower bound. With more seconds, it continues the same
        sequence of mappings, so it never returns a worse one. Compilation on the first call does
        not count.
    objective : str
        ``time`` (simulated), or the name of a feature, such as ``max_bytes`` or ``hop_bytes``.
    nodes : array-like of int, shape (n,) or (n, ndim), optional
        Allocated nodes, as numbers or coordinates; all nodes by default.
    fixed : mapping of int to int or sequence of int, optional
        Node of each fixed task, given by number or by coordinates.
    tasks_per_node : int, optional
        Capacity of a node; by default the smallest with which all tasks fit.
    partitioners : sequence of {"scotch", "mt-kahypar"}
        Installed programs whose mappings are additional starts.
    n_sweeps : int, optional
        Number of annealing sweeps to do, instead of ``seconds``. The last round is finished. With
        this limit, the same seed gives the same mapping on every machine.
    callback : callable, optional
        Called with every improved mapping and its objective.

    Examples
    --------
    >>> from toruscast.mapping.patterns import halo_2d
    >>> found = search(halo_2d((4, 4), 2048), Torus((4, 4)), n_sweeps=2, objective="hop_bytes")
    >>> found.value, found.bound
    (98304.0, 98304.0)
    """
    problem = as_problem(comm, torus, routing)
    given_mappings = problem.mappings(mappings)
    check_type(callback, "callback", Callable | None, "a function")
    check_type(partitioners, "partitioners", Iterable, "names of programs")
    check_type(objective, "objective", str, "text")
    if objective != TIME and objective not in FEATURES:
        expected = f"{TIME}, or a feature such as max_bytes or hop_bytes"
        expected = closest(objective, [TIME, *FEATURES], expected)
        raise InputError("unknown objective", found=objective, expected=expected)
    seconds = real_number(seconds, "seconds", 0.0)
    seed, n_jobs = seed_number(seed), job_count(n_jobs)
    allocation = _make_allocation(problem, given_mappings, nodes, fixed, tasks_per_node)
    clock = Clock(seconds if n_sweeps is None else None)
    bound = _lower_bound(problem, allocation.tasks_per_node, objective)
    comparison = MappingComparison(problem, objective, seed, n_jobs, callback, bound)
    runs = AnnealingRuns(problem, allocation, objective, seed)
    interrupted, reason = False, "all mappings were compared, or the time was up"
    initial_mappings = [allocation.confine(mapping) for mapping in given_mappings]
    initial_mappings = initial_mappings or [allocation.in_order(problem.n_tasks)]
    try:
        for mapping in initial_mappings:
            comparison.measure(mapping, "given" if given_mappings else "tasks in order")
        program_mappings = map_with_programs(partitioners, problem, allocation, seed)
        _search_in_rounds(comparison, runs, [*initial_mappings, *program_mappings], n_sweeps, clock)
        if comparison.is_at_bound:
            reason = "no mapping can be better"
    except KeyboardInterrupt:
        if comparison.best is None:
            raise
        interrupted, reason = True, "it was interrupted"
    report = {"event": "search ended", "why": reason, "proposals": runs.proposals}
    logger.info("search ended after %d proposals: %s", runs.proposals, reason, extra=report)
    best = comparison.best
    if best is None:
        raise InputError(
            "no mapping found without routes over missing links",
            found=f"{len(comparison.measured)} tried",
            expected="more --seconds, or fewer missing links",
        )
    measured = (comparison.measured.get(mapping.node.tobytes()) for mapping in initial_mappings)
    initial = min(filter(None, measured), key=lambda compared: compared.value, default=best)
    return SearchResult(
        best=best.mapping,
        value=best.value,
        initial_value=initial.value,
        gain_interval=_gain_interval(best, initial),
        table=comparison.table(),
        bound=min(bound, best.value),
        verdict=None if comparison.ranking is None else comparison.ranking.verdict,
        objective=objective,
        proposals=runs.proposals,
        interrupted=interrupted,
        problem=problem,
        # A mapping with routes over a missing link has no finite time.
        reference=(initial if np.isfinite(initial.value) else best).mapping,
        history=tuple((better.when, better.value) for better in comparison.improvements),
    )


def _search_in_rounds(
    comparison: MappingComparison,
    runs: AnnealingRuns,
    initial_mappings: list[TaskMapping],
    n_sweeps: int | None,
    clock: Clock,
) -> None:
    """Improve and compare mappings in rounds of increasing length.

    The clock only determines the number of rounds, so a search with more seconds continues the same
    sequence of mappings.
    """
    problem, allocation, seed = comparison.problem, runs.inputs.allocation, comparison.seed
    first_seconds = max(_FIRST_ROUND_SECONDS, 4 * runs.sweep_seconds)
    if comparison.objective == TIME:
        hops = packet_hops(list_messages(problem, initial_mappings[0]), problem.torus)
        first_seconds = max(first_seconds, hops / HOPS_PER_SECOND)
    # A search always evaluates its first starts.
    lengths = np.append(0.0, first_seconds * _GROWTH ** np.arange(_MAX_ROUNDS))
    allotments = _START_SHARE * lengths
    start_sets = generate_starts(problem, allocation, seed, clock, runs.energy, allotments)
    for seconds, start_mappings in zip(lengths, start_sets, strict=True):
        if seconds and clock.is_over():
            return
        pool = sorted([*initial_mappings, *start_mappings], key=runs.energy)
        began = clock.elapsed
        comparison.measure(pool[0])
        if comparison.is_at_bound or clock.is_over():
            return
        if seconds:
            n_round_sweeps = int(_ANNEALING_SHARE * seconds / runs.sweep_seconds)
            annealed = runs.improve(pool, n_round_sweeps, comparison.n_jobs, clock)
            shortlist = runs.drop_symmetric([*annealed, *pool])
            comparison.compare_shortlist(shortlist, _COMPARISON_SHARE * seconds, clock)
        is_over = clock.remaining < _GROWTH * (clock.elapsed - began)
        is_over |= n_sweeps is not None and runs.n_sweeps >= n_sweeps
        if comparison.is_at_bound or is_over:
            return


def _gain_interval(best: ComparedMapping, initial: ComparedMapping) -> tuple[float, float]:
    """Return the limits of the gain that follow from the simulation errors of both mappings."""
    if (best.value, best.error) == (initial.value, initial.error) or not initial.value:
        return 0.0, 0.0
    low = 1 - best.value * (1 + best.error) / (initial.value * (1 - initial.error))
    high = 1 - best.value * (1 - best.error) / (initial.value * (1 + initial.error))
    return low, high


def _lower_bound(problem: MappingProblem, capacity: int, objective: str) -> float:
    """Return a lower bound of the objective over all mappings; 0 if none is known."""
    if objective == TIME:
        return min_time(problem, capacity)
    hop_bytes, busiest = min_loads(problem, capacity)
    return {"hop_bytes": hop_bytes, "max_bytes": busiest}.get(objective, 0.0)


def _make_allocation(
    problem: MappingProblem,
    given_mappings: Sequence[TaskMapping],
    nodes: ArrayLike | None,
    fixed: Mapping[int, ArrayLike] | None,
    capacity: int | None,
) -> Allocation:
    """Return the slots of a search; raise `InputError` if no task can move."""
    usable = problem.torus.usable_nodes if nodes is None else problem.torus.check_nodes(nodes)
    if capacity is None:
        capacity = max((mapping.tasks_per_node for mapping in given_mappings), default=1)
        capacity = max(capacity, min_capacity(problem.n_tasks, usable.size))
    allocation = Allocation(problem.torus, usable, capacity, fixed)
    slots, movable = allocation.free_slots(problem.n_tasks)
    if not movable.size or np.unique(slots).size < 2:
        raise InputError(
            "no task can move",
            found=f"{movable.size} movable tasks, {np.unique(slots).size} nodes",
            expected="a movable task and two nodes",
        )
    return allocation


@dataclass(frozen=True)
class ComparedMapping:
    """A mapping and the value of its objective."""

    mapping: TaskMapping
    origin: str
    value: float
    error: float  # relative
    when: float  # seconds since the start of the search
    penalised: float  # the value, increased as in `MappingComparison._penalise`, for comparisons


@dataclass(eq=False)
class MappingComparison:
    """Comparison of mappings by the objective, one by one or by `rank`."""

    problem: MappingProblem
    objective: str
    seed: int
    n_jobs: int
    callback: Callable[[TaskMapping, float], None] | None
    bound: float
    measured: dict[bytes, ComparedMapping] = field(default_factory=dict)  # by node of each task
    ranking: Ranking | None = None  # of the last comparison by `rank`
    began: float = field(default_factory=time.monotonic)
    # Nodes of the mappings compared by `rank`, and the first mapping's two times in `_penalise`.
    _compared: set[bytes] = field(default_factory=set)
    _first_times: tuple[float, float] | None = None

    @property
    def improvements(self) -> list[ComparedMapping]:
        """The mappings that were better than all earlier ones; the last is the best."""
        better: list[ComparedMapping] = []
        for compared in self.measured.values():
            if compared.penalised < (better[-1].penalised if better else np.inf):
                better.append(compared)
        return better

    @property
    def best(self) -> ComparedMapping | None:
        """The best mapping; None if every mapping uses missing links."""
        return next(iter(self.improvements[-1:]), None)

    @property
    def is_at_bound(self) -> bool:
        """Whether the best mapping reaches the lower bound."""
        return self.best is not None and self.best.value <= self.bound * (1 + _BOUND_TOLERANCE)

    def measure(self, mapping: TaskMapping, origin: str = "") -> None:
        """Compute and store the objective of a mapping unless it is known."""
        if mapping.node.tobytes() not in self.measured:
            self._record(mapping, *self._compute_objective(mapping), origin)

    def _record(self, mapping: TaskMapping, value: float, error: float, origin: str = "") -> None:
        """Store the objective of a mapping, and report it if the mapping is the best so far."""
        origin = origin or _origin_of(mapping)
        when, penalised = time.monotonic() - self.began, self._penalise(value, mapping)
        compared = ComparedMapping(mapping, origin, value, error, when, penalised)
        self.measured[mapping.node.tobytes()] = compared
        if compared is self.best:
            report = {"event": "better mapping", "mapping": mapping.name, "value": value}
            message = "%s is the best so far: %s %.6g"
            logger.info(message, mapping.name, self.objective, value, extra=report)
            if self.callback is not None:
                self.callback(mapping, value)

    def compare_shortlist(
        self, shortlist: Sequence[TaskMapping], seconds: float, clock: Clock
    ) -> None:
        """Compare shortlisted mappings, the most promising first.

        Times are compared by `rank` in about ``seconds``. Other objectives are computed directly,
        and so are times if there are very few seconds.
        """
        known = self._compared | self.measured.keys()
        new = [mapping for mapping in shortlist if mapping.node.tobytes() not in known]
        new = [mapping for mapping in new if self._avoids_missing_links(mapping)]
        if self.objective != TIME or seconds < _MIN_LOOP_SECONDS:
            for mapping in new if self.objective != TIME else new[:_N_WINNERS]:
                if clock.is_over():
                    return
                self.measure(mapping)
            return
        if clock.is_over() or not new:
            return
        self._compared |= {mapping.node.tobytes() for mapping in new[:_MAX_LOOP_MAPPINGS]}
        best = [self.best.mapping] if self.best else []
        candidates = _make_names_unique([*new[:_MAX_LOOP_MAPPINGS], *best])
        began, wall = clock.elapsed, clock.wall
        with warnings.catch_warnings():
            # Warnings of the model do not matter, because `rank` simulates uncertain mappings.
            warnings.simplefilter("ignore")
            self.ranking = rank(
                self.problem.workload,
                self.problem.torus,
                candidates,
                # Divide the seconds by the cores, so that the simulations do not depend on n_jobs.
                budget=Budget(len(candidates), seconds / self.n_jobs),
                routing=self.problem.routing,
                seed=self.seed,
                n_jobs=self.n_jobs,
            )
        clock.waited += max(clock.wall - wall - (clock.elapsed - began), 0.0)
        self._simulate_winners(self.ranking, clock)

    def _simulate_winners(self, ranking: Ranking, clock: Clock) -> None:
        """Simulate the winners of `rank` with the final error, unless `rank` did so already."""
        is_exact = candidate_coarsenings(self.problem.derive(max_message_packets)) == [1]
        for row in ranking.table.head(_N_WINNERS).to_dict("records"):
            if clock.is_over():
                break
            mapping = ranking.named(row["mapping"])
            is_measured = mapping.node.tobytes() in self.measured
            if is_exact and row["source"] in ("simulated", "averaged") and not is_measured:
                self._record(mapping, row["time"], 0.0 if row["source"] == "simulated" else _ERROR)
            self.measure(mapping)

    def table(self) -> pd.DataFrame:
        """Return the compared mappings, the best first."""
        source = "averaged" if self.problem.torus.network.unknown_rules else "simulated"
        source = source if self.objective == TIME else "computed"
        rows: dict[bytes, dict[str, Any]] = {}
        sort_values: dict[bytes, float] = {}
        for key, compared in self.measured.items():
            rows[key] = _make_row(compared.mapping, compared.value, source, compared.origin)
            sort_values[key] = compared.penalised
        if self.ranking is not None:
            for ranked in self.ranking.table.to_dict("records"):
                mapping = self.ranking.named(ranked["mapping"])
                key = mapping.node.tobytes()
                new_row = _make_row(mapping, ranked["time"], ranked["source"], _origin_of(mapping))
                rows.setdefault(key, new_row)
                rows[key] |= {name: ranked[name] for name in ("low", "high", "p_best")}
                sort_values.setdefault(key, ranked["time"])
        table = pd.DataFrame(list(rows.values()))
        is_estimate = table["source"].isin(["predicted", "coarse"]).to_numpy()
        order = np.lexsort((np.array(list(sort_values.values())), is_estimate))
        return table.iloc[order].reset_index(drop=True)

    def _avoids_missing_links(self, mapping: TaskMapping) -> bool:
        """Return whether the routes of all messages avoid missing links."""
        try:
            check_routes(self.problem, mapping)
        except InputError:
            return False
        return True

    def _penalise(self, time: float, mapping: TaskMapping) -> float:
        """Return the time of a mapping, increased if it relies on synchronised ranks.

        It relies on them if it is slower than the first mapping when all messages start at once.
        """
        rounds = self.problem.workload
        is_known = self.objective != TIME or not self.problem.torus.network.unknown_rules
        if is_known or not rounds.dependent or len(rounds) == 1 or time == np.inf:
            return time
        total_time = simulate(self.problem.total, mapping=mapping, error=_ERROR).time
        if self._first_times is None:
            self._first_times = time, total_time
        first_time, first_total_time = self._first_times
        slowdown = total_time / first_total_time
        return max(time, slowdown * first_time) if slowdown > 1 + _TOLERANCE else time

    def _compute_objective(self, mapping: TaskMapping) -> tuple[float, float]:
        """Return the objective (infinite for routes over missing links) and its relative error."""
        problem = self.problem
        if not self._avoids_missing_links(mapping):
            return np.inf, 0.0
        if self.objective == TIME:
            return simulate_mean(problem, mapping, _ERROR)
        return float(FEATURES[self.objective].function(RoutedTraffic(problem, mapping))), 0.0


def _make_row(mapping: TaskMapping, value: float, source: str, origin: str) -> dict[str, Any]:
    return {"mapping": mapping.name, "value": value, "source": source, "from": origin}


def _origin_of(mapping: TaskMapping) -> str:
    return "searched" if mapping.name.startswith("search") else "strategy"


def _make_names_unique(mappings: Sequence[TaskMapping]) -> list[TaskMapping]:
    """Return the distinct mappings; repeated names get a suffix such as ``@2``."""
    named: dict[str, TaskMapping] = {}
    for mapping in {m.node.tobytes(): m for m in mappings}.values():
        name, copy = mapping.name or "mapping", 1
        while name in named:
            copy += 1
            name = f"{mapping.name or 'mapping'}@{copy}"
        named[name] = mapping if name == mapping.name else mapping.renamed(name)
    return list(named.values())
