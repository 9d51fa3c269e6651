"""A better mapping than those at hand, within a time, and how far it is from the best thinkable."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from toruscast._features import FEATURES, RoutedTraffic
from toruscast._slow import pandas as pd
from toruscast.decision.loop import Budget
from toruscast.decision.ranking import rank
from toruscast.decision.results import Ranking, Verdict
from toruscast.decision.simulations import HOPS_PER_SECOND
from toruscast.errors import InputError
from toruscast.mapping import MappingProblem, TaskMapping
from toruscast.mapping.problem import as_problem
from toruscast.mapping.task_mapping import Allocation, min_capacity
from toruscast.notebook import Result
from toruscast.routing.bounds import min_loads, min_time
from toruscast.routing.loads import check_ways
from toruscast.routing.messages import list_messages, longest_message
from toruscast.simulation.simulator import attempts, packet_hops, simulate_packets
from toruscast.text import closest, percent, shown_name
from toruscast.text import seconds as in_seconds
from toruscast.validation import (
    SEED,
    Routing,
    Seed,
    check_call,
    check_type,
    job_count,
    real_number,
    seed_number,
)

from .annealing import AnnealingRuns, Clock
from .starts import placed_by, starts

if TYPE_CHECKING:
    from toruscast.mapping.problem import Mappings, ProblemLike, TorusLike

logger = logging.getLogger(__name__)
TIME = "time"
# Seconds of the first round at least, as estimated, how much longer each further one is, and shares
# for starts, annealing and comparing.
_FIRST, _GROWTH, _MAX_ROUNDS = 0.05, 1.5, 60
_BEGINNING, _ANNEALING, _PROVING = 0.5, 0.5, 0.25
# A mapping so near to the bound that looking further is not worth it.
_AT_BOUND = 1e-4
# Error of the times that count in the end.
_ERROR = 0.01
# Seconds from which the loop compares mappings, how many at most, and winners that are simulated
# anew: with fewer seconds, so many are simulated at once.
_RACE, _MAX_RACED, _WINNERS = 0.2, 150, 2
# How much longer all messages at once may take than under the first mapping.
_LONGER = 0.01


@dataclass(frozen=True, eq=False)
class SearchResult(Result):
    """The best mapping of a search, and how much better it is."""

    best: TaskMapping
    # Its objective, and that of the best mapping given (of the tasks in order where none was):
    # simulated seconds for ``time``.
    value: float
    initial_value: float
    # Between which the gain lies, as exact as the two times were simulated.
    gain_interval: tuple[float, float]
    # What was compared, the best first: ``mapping``, ``value``, its source ``how`` (``simulated``,
    # ``forecast`` or ``computed``) and ``from`` where it came; where mappings raced also ``low``,
    # ``high`` and ``p_best``.
    table: pd.DataFrame
    bound: float  # what no mapping can beat; 0 where none is known
    # How sure it is that none on the last shortlist is faster; None for other objectives than time,
    # and for searches so short that all on it were simulated.
    verdict: Verdict | None
    objective: str
    proposals: int  # changes of mappings that were tried
    interrupted: bool
    problem: MappingProblem
    reference: TaskMapping  # the mapping that the gain counts from
    # Seconds from the begin and the objective, whenever a better mapping was found.
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
        """Share of the given mapping's objective that is saved."""
        return 1 - self.value / self.initial_value if self.initial_value else 0.0

    @property
    def optimality_gap(self) -> float:
        """How far the objective is above the bound, as a share of it; infinite without a bound."""
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

    Starts are the mappings given, those of all strategies and multilevel ones. Simulated annealing
    improves them; its energy is a smooth maximum of the loads of links, injection FIFOs and
    receivers and a share of hop-bytes. The distinct best race each other as in `forecast`, and the
    winners are simulated anew, to 1 %. Where the rules of the network are unknown, a mapping of
    dependent rounds may not need that ranks stay in step: with all messages at once it is no slower
    than the first of ``mappings``.

    Parameters
    ----------
    mappings : sequence of TaskMapping
        Yours: the gain counts from the best of them.
    seconds : float
        How long to search: seconds of the processors, which are the wall's where no other program
        keeps them busy, and at most half of the wall's elsewhere. The step that is under way is
        finished first. The search goes in rounds, each longer than the last, and ends early when
        there is no time for the next one, or a mapping is within 0.01 % of the bound that no
        mapping can beat. More seconds continue the same sequence of mappings, so they never give a
        worse one. Compiling, once on a machine, does not count.
    objective : str
        ``time`` (simulated), or the name of a feature, such as ``max_bytes`` or ``hop_bytes``.
    nodes : array-like of int, shape (n,) or (n, ndim), optional
        Nodes that are yours, as numbers or coordinates; those of the torus if not given.
    fixed : mapping of int to int or sequence of int, optional
        Node of each task that must stay there, its number or its coordinates.
    tasks_per_node : int, optional
        Capacity of a node; the least that suffices if not given.
    partitioners : sequence of {"scotch", "mt-kahypar"}
        Programs whose mappings are starts, too; they must be installed.
    n_sweeps : int, optional
        Instead of ``seconds``: sweeps of annealing, after which the round is finished. The same
        seed then gives the same mapping on every machine, whatever its speed.
    callback : callable, optional
        Called with each mapping that is better than all before, and its objective.

    Examples
    --------
    >>> from toruscast.mapping.patterns import halo_2d
    >>> found = search(halo_2d((4, 4), 2048), Torus((4, 4)), n_sweeps=2, objective="hop_bytes")
    >>> found.value, found.bound
    (98304.0, 98304.0)
    """
    problem = as_problem(comm, torus, routing)
    given = problem.mappings(mappings)
    check_call(callback, "callback")
    check_type(partitioners, "partitioners", Iterable, "names of programs")
    check_type(objective, "objective", str, "text")
    if objective != TIME and objective not in FEATURES:
        expected = f"{TIME}, or a feature such as max_bytes or hop_bytes"
        expected = closest(objective, [TIME, *FEATURES], expected)
        raise InputError("unknown objective", found=objective, expected=expected)
    seconds = real_number(seconds, "seconds", 0.0)
    seed, n_jobs = seed_number(seed), job_count(n_jobs)
    allocation = _allocation(problem, given, nodes, fixed, tasks_per_node)
    clock = Clock(seconds if n_sweeps is None else None)
    bound = _bound(problem, allocation.tasks_per_node, objective)
    contest = Contest(problem, objective, seed, n_jobs, callback, bound)
    runs = AnnealingRuns(problem, allocation, objective, seed)
    interrupted, why = False, "all were compared, or the time was over"
    yours = [allocation.confine(each) for each in given] or [allocation.in_order(problem.n_tasks)]
    try:
        for mapping in yours:
            contest.measure(mapping, "given" if given else "tasks in order")
        others = placed_by(partitioners, problem, allocation, seed)
        _search_in_rounds(contest, runs, [*yours, *others], n_sweeps, clock)
        if contest.is_at_bound:
            why = "no mapping can be better"
    except KeyboardInterrupt:
        if contest.best is None:
            raise
        interrupted, why = True, "it was interrupted"
    ended = {"event": "search ended", "why": why, "proposals": runs.proposals}
    logger.info("search ended after %d proposals: %s", runs.proposals, why, extra=ended)
    best = contest.best
    if best is None:
        raise InputError(
            "no mapping found whose routes keep off the missing links",
            found=f"{len(contest.measured)} tried",
            expected="more --seconds, or fewer missing links",
        )
    known = (contest.measured.get(mapping.node.tobytes()) for mapping in yours)
    initial = min(filter(None, known), key=lambda each: each.value, default=best)
    return SearchResult(
        best=best.mapping,
        value=best.value,
        initial_value=initial.value,
        gain_interval=_gain_interval(best, initial),
        table=contest.table(),
        bound=min(bound, best.value),
        verdict=None if contest.ranking is None else contest.ranking.verdict,
        objective=objective,
        proposals=runs.proposals,
        interrupted=interrupted,
        problem=problem,
        # Routes of a mapping without a finite time need a missing link.
        reference=(initial if np.isfinite(initial.value) else best).mapping,
        history=tuple((each.when, each.value) for each in contest.improvements),
    )


def _search_in_rounds(
    contest: Contest,
    runs: AnnealingRuns,
    given: list[TaskMapping],
    n_sweeps: int | None,
    clock: Clock,
) -> None:
    """Improve starts and compare the results in rounds; the clock changes nothing but their end."""
    problem, allocation, seed = contest.problem, runs.inputs.allocation, contest.seed
    first = max(_FIRST, 4 * runs.turn_seconds)
    if contest.objective == TIME:
        hops = packet_hops(list_messages(problem, given[0]), problem.torus)
        first = max(first, hops / HOPS_PER_SECOND)
    # However late it is, a search looks at its first starts.
    lengths = np.append(0.0, first * _GROWTH ** np.arange(_MAX_ROUNDS))
    some = starts(problem, allocation, seed, clock, runs.energy, _BEGINNING * lengths)
    for seconds, made in zip(lengths, some, strict=True):
        if seconds and clock.is_over():
            return
        pool = sorted([*given, *made], key=runs.energy)
        began = clock.spent
        contest.measure(pool[0])
        if contest.is_at_bound or clock.is_over():
            return
        if seconds:
            n_turns = int(_ANNEALING * seconds / runs.turn_seconds)
            found = runs.improve(pool, n_turns, contest.n_jobs, clock)
            contest.decide(runs.different([*found, *pool]), _PROVING * seconds, clock)
        is_late = clock.left < _GROWTH * (clock.spent - began)
        if contest.is_at_bound or is_late or (n_sweeps is not None and runs.n_sweeps >= n_sweeps):
            return


def _gain_interval(best: ComparedMapping, initial: ComparedMapping) -> tuple[float, float]:
    """Return the least and the largest gain that the errors of both leave."""
    if (best.value, best.error) == (initial.value, initial.error) or not initial.value:
        return 0.0, 0.0
    low, high = (
        1 - best.value * (1 + sign * best.error) / (initial.value * (1 - sign * initial.error))
        for sign in (1, -1)
    )
    return low, high


def _bound(problem: MappingProblem, capacity: int, objective: str) -> float:
    """Return a lower bound over all mappings; 0 where none is known."""
    if objective == TIME:
        return min_time(problem, capacity)
    hop_bytes, busiest = min_loads(problem, capacity)
    return {"hop_bytes": hop_bytes, "max_bytes": busiest}.get(objective, 0.0)


def _allocation(
    problem: MappingProblem,
    given: Sequence[TaskMapping],
    nodes: ArrayLike | None,
    fixed: Mapping[int, ArrayLike] | None,
    capacity: int | None,
) -> Allocation:
    ours = problem.torus.usable_nodes if nodes is None else problem.torus.check_nodes(nodes)
    if capacity is None:
        capacity = max((mapping.tasks_per_node for mapping in given), default=1)
        capacity = max(capacity, min_capacity(problem.n_tasks, ours.size))
    allocation = Allocation(problem.torus, ours, capacity, fixed)
    places, movable = allocation.free_slots(problem.n_tasks)
    if not movable.size or np.unique(places).size < 2:
        raise InputError(
            "nothing left to move",
            found=f"{movable.size} tasks that are not bound, {np.unique(places).size} nodes",
            expected="a task that may move, and two nodes",
        )
    return allocation


@dataclass(frozen=True)
class ComparedMapping:
    """A mapping whose objective was measured."""

    mapping: TaskMapping
    origin: str
    value: float
    error: float  # relative
    when: float  # seconds from the begin of the search


class Contest:
    """Mappings compared by the objective: one by one, then by the loop of a forecast."""

    def __init__(
        self,
        problem: MappingProblem,
        objective: str,
        seed: int,
        n_jobs: int,
        callback: Callable[[TaskMapping, float], None] | None,
        bound: float,
    ) -> None:
        self.goal = bound * (1 + _AT_BOUND)
        self.problem, self.objective = problem, objective
        self.seed, self.n_jobs, self.callback = seed, n_jobs, callback
        self.measured: dict[bytes, ComparedMapping] = {}
        self.ranking: Ranking | None = None
        self._raced: set[bytes] = set()
        self.began = time.monotonic()
        self._first: tuple[float, float] | None = None

    @property
    def improvements(self) -> list[ComparedMapping]:
        """The measured mappings that were better than all before; the last is the best."""
        found: list[ComparedMapping] = []
        for each in self.measured.values():
            if each.value < (found[-1].value if found else np.inf):
                found.append(each)
        return found

    @property
    def best(self) -> ComparedMapping | None:
        """The best of those measured; None where no mapping is possible."""
        return next(iter(self.improvements[-1:]), None)

    @property
    def is_at_bound(self) -> bool:
        """Whether no mapping can be better than the best."""
        return self.best is not None and self.best.value <= self.goal

    def measure(self, mapping: TaskMapping, origin: str = "") -> float:
        """Return the objective of a mapping, measured once."""
        known = self.measured.get(mapping.node.tobytes())
        if known is not None:
            return known.value
        return self._record(mapping, *self._measured(mapping), origin)

    def _record(self, mapping: TaskMapping, value: float, error: float, origin: str = "") -> float:
        origin = origin or _origin(mapping)
        row = ComparedMapping(mapping, origin, value, error, time.monotonic() - self.began)
        self.measured[mapping.node.tobytes()] = row
        if row is self.best:
            report = {"event": "better mapping", "mapping": mapping.name, "value": value}
            words = "%s is the best so far: %s %.6g"
            logger.info(words, mapping.name, self.objective, value, extra=report)
            if self.callback is not None:
                self.callback(mapping, value)
        return value

    def decide(self, shortlist: Sequence[TaskMapping], seconds: float, clock: Clock) -> None:
        """Find the best of a shortlist, the most promising first, in so many estimated seconds."""
        known = self._raced | self.measured.keys()
        new = [m for m in shortlist if m.node.tobytes() not in known and self._is_possible(m)]
        if self.objective != TIME or seconds < _RACE:
            for mapping in new if self.objective != TIME else new[:_WINNERS]:
                if clock.is_over():
                    return
                self.measure(mapping)
            return
        if clock.is_over() or not new:
            return
        self._raced |= {mapping.node.tobytes() for mapping in new[:_MAX_RACED]}
        best = [self.best.mapping] if self.best else []
        candidates = _uniquely_named([*new[:_MAX_RACED], *best])
        began, wall = clock.spent, clock.wall
        with warnings.catch_warnings():
            # The loop simulates what its model is unsure of.
            warnings.simplefilter("ignore")
            self.ranking = rank(
                self.problem.workload,
                self.problem.torus,
                candidates,
                # On each core: the same number in all, however many there are.
                budget=Budget(len(candidates), seconds / self.n_jobs),
                routing=self.problem.routing,
                seed=self.seed,
                n_jobs=self.n_jobs,
            )
        clock.waited += max(clock.wall - wall - (clock.spent - began), 0.0)
        self._measure_winners(self.ranking, clock)

    def _measure_winners(self, answer: Ranking, clock: Clock) -> None:
        """Simulate the winners of the loop anew; times of real packets are reused."""
        is_exact = attempts(self.problem.derive(longest_message)) == [1]
        is_exact &= self.problem.torus.network.rules == "given"
        winners = 0
        for row in answer.table.to_dict("records"):
            if winners == _WINNERS or clock.is_over():
                break
            mapping = answer.named(row["mapping"])
            is_measured = mapping.node.tobytes() in self.measured
            if is_exact and row["source"] == "simulated" and not is_measured:
                self._record(mapping, row["time"], 0.0)
            value = self.measure(mapping)
            winners += self._first is None or value <= self._first[0]

    def table(self) -> pd.DataFrame:
        """Return what was compared, the best first."""
        how = "simulated" if self.objective == TIME else "computed"
        rows = {
            key: _row(each.mapping, each.value, how, each.origin)
            for key, each in self.measured.items()
        }
        if self.ranking is not None:
            for each in self.ranking.table.to_dict("records"):
                mapping = self.ranking.named(each["mapping"])
                found = _row(mapping, each["time"], each["source"], _origin(mapping))
                row = rows.setdefault(mapping.node.tobytes(), found)
                row |= {name: each[name] for name in ("low", "high", "p_best")}
        table = pd.DataFrame(list(rows.values()))
        is_known = ~table["source"].isin(["predicted", "coarse"])
        order = np.lexsort((table["value"], ~is_known))
        return table.iloc[order].reset_index(drop=True)

    def _is_possible(self, mapping: TaskMapping) -> bool:
        """Whether no message needs a link that is missing."""
        try:
            check_ways(self.problem, mapping)
        except InputError:
            return False
        return True

    def _measured(self, mapping: TaskMapping) -> tuple[float, float]:
        """The objective, and its relative error; infinite for what is not possible."""
        problem = self.problem
        if not self._is_possible(mapping):
            return np.inf, 0.0
        if self.objective == TIME:
            found = simulate_packets(problem, mapping, error=_ERROR)
            return self._if_apart(found.time, mapping), 0.0 if found.coarsening == 1 else _ERROR
        return float(FEATURES[self.objective].function(RoutedTraffic(problem, mapping))), 0.0

    def _if_apart(self, time: float, mapping: TaskMapping) -> float:
        """Return the time of a mapping, or more where it needs that ranks stay in step."""
        rounds = self.problem.workload
        is_given = self.problem.torus.network.rules == "given"
        if is_given or not rounds.dependent or len(rounds) == 1:
            return time
        whole = simulate_packets(self.problem.total, mapping, error=_ERROR).time
        if self._first is None:
            self._first = time, whole
        longer = whole / self._first[1]
        return max(time, longer * self._first[0]) if longer > 1 + _LONGER else time


def _row(mapping: TaskMapping, value: float, how: str, origin: str) -> dict[str, Any]:
    return {"mapping": mapping.name, "value": value, "source": how, "from": origin}


def _origin(mapping: TaskMapping) -> str:
    return "searched" if mapping.name.startswith("search") else "strategy"


def _uniquely_named(mappings: Sequence[TaskMapping]) -> list[TaskMapping]:
    """Return the same mappings, each once, under different names."""
    named: dict[str, TaskMapping] = {}
    for mapping in {m.node.tobytes(): m for m in mappings}.values():
        name, copy = mapping.name or "mapping", 1
        while name in named:
            copy += 1
            name = f"{mapping.name or 'mapping'}@{copy}"
        named[name] = mapping if name == mapping.name else mapping.renamed(name)
    return list(named.values())
