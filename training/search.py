"""A better mapping than those at hand, within a time, and how far it is from the best thinkable."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from toruscast.errors import InputError
from toruscast.features import FEATURES, RoutedTraffic
from toruscast.mapping import CommGraph, TaskMapping, Torus, Workload, as_workload
from toruscast.mapping.allocation import Allocation
from toruscast.mapping.task_mapping import as_mappings
from toruscast.routing.least import least_time
from toruscast.simulation import simulate
from toruscast.typing import Routing
from toruscast.validation import real_number, whole_number

from ._search_runs import Runs, starts

TIME = "time"
# Share of the time for annealing; the rest is for simulating what it found.
_ANNEALING = 0.55
# Error of the times that a shortlist is compared by, and mappings on it.
_ERROR, _SHORTLIST = 0.01, 200


@dataclass(frozen=True, eq=False)
class Found:
    """What a search found.

    Attributes
    ----------
    mapping : TaskMapping
        The best mapping.
    value : float
        Its objective: simulated seconds for ``time``.
    given : float
        The objective of the best mapping given, or of the tasks in order where none was.
    table : DataFrame
        What was compared, the best first: ``mapping``, ``value`` and ``how`` it was found out.
    bound : float
        Seconds that no mapping can beat; 0 for other objectives than ``time``.
    objective : str
    proposals : int
        Changes of mappings that were tried.
    interrupted : bool
        Whether it was stopped early.
    """

    mapping: TaskMapping
    value: float
    given: float
    table: pd.DataFrame
    bound: float
    objective: str
    proposals: int
    interrupted: bool = field(default=False)

    @property
    def time(self) -> float:
        """Simulated seconds of the best mapping.

        Raises
        ------
        InputError
            If the objective is another.
        """
        if self.objective != TIME:
            raise InputError("no time was simulated", found=f"objective {self.objective}")
        return self.value

    @property
    def gain(self) -> float:
        """Share of the given mapping's objective that is saved."""
        return 1 - self.value / self.given if self.given else 0.0


def search(
    traffic: Workload | CommGraph,
    torus: Torus,
    mappings: TaskMapping | Sequence[TaskMapping] = (),
    *,
    seconds: float = 30.0,
    objective: str = TIME,
    nodes: ArrayLike | None = None,
    fixed: Mapping[int, int] | None = None,
    tasks_per_node: int | None = None,
    routing: Routing = "deterministic",
    seed: int = 1,
    n_jobs: int = 1,
    turns: int | None = None,
    better: Callable[[TaskMapping, float], None] | None = None,
) -> Found:
    """Search for a better mapping.

    Starts are the mappings given and those of all strategies. Simulated annealing improves them;
    its energy is a smooth maximum of the loads of links, injection FIFOs and receivers and a share
    of hop-bytes. The distinct best are compared by the objective itself.

    Parameters
    ----------
    traffic, torus
        What is sent, over which network.
    mappings : sequence of TaskMapping
        Yours: the gain counts from the best of them.
    seconds : float
        How long to search. What is under way then is finished first.
    objective : str
        ``time`` (simulated), or the name of a feature, such as ``max_bytes`` or ``hop_bytes``.
    nodes : array-like of int, optional
        Nodes that are yours; all if not given.
    fixed : mapping of int to int, optional
        Node of each task that must stay there.
    tasks_per_node : int, optional
        Capacity of a node; the least that suffices if not given.
    routing : {"deterministic", "adaptive", "by_size"}
    seed : int
        Of all that is drawn at random.
    n_jobs : int
        Threads.
    turns : int, optional
        Instead of ``seconds``: turns of annealing, after which everything is compared. The same
        seed then gives the same mapping on every machine, whatever its speed.
    better : callable, optional
        Called with each mapping that is better than all before, and its objective.

    Returns
    -------
    Found

    Raises
    ------
    InputError
        If the tasks do not fit, what is bound contradicts itself, or no task can move.

    Examples
    --------
    >>> from toruscast.mapping.patterns import halo_2d
    >>> found = search(halo_2d((4, 4), 2048), Torus((4, 4)), turns=2, objective="hop_bytes")
    >>> found.value
    98304.0
    """
    workload = as_workload(traffic)
    given = as_mappings(mappings)
    if objective != TIME and objective not in FEATURES:
        expected = f"{TIME}, or a feature such as max_bytes or hop_bytes"
        raise InputError("unknown objective", found=objective, expected=expected)
    seconds = real_number(seconds, "seconds", 0.0)
    seed, n_jobs = whole_number(seed, "seed", 0), whole_number(n_jobs, "n_jobs", 1)
    deadline = None if turns is not None else time.monotonic() + seconds
    allocation = _allocation(workload, torus, given, nodes, fixed, tasks_per_node)
    contest = _Contest(workload, torus, objective, routing, better)
    runs = Runs(workload, allocation, objective, routing, seed)
    yours = np.inf
    try:
        own = [allocation.confine(mapping) for mapping in given] or [
            allocation.confine(_in_order(workload.n_tasks, allocation))
        ]
        how = "given" if given else "tasks in order"
        yours = min(contest.value(mapping, how) for mapping in own)
        pool = [*own, *starts(workload, allocation, seed, deadline)]
        until = None if deadline is None else deadline - (1 - _ANNEALING) * seconds
        for mapping in runs.improve(pool, turns, until, n_jobs, contest.first_look)[:_SHORTLIST]:
            if deadline is not None and time.monotonic() > deadline and len(contest.rows) > 1:
                break
            contest.value(mapping, "searched" if mapping.name.startswith("search") else "strategy")
    except KeyboardInterrupt:
        if contest.best is None:
            raise
        contest.interrupted = True
    assert contest.best is not None
    table = pd.DataFrame(contest.rows).sort_values("value", kind="stable", ignore_index=True)
    bound = least_time(workload, torus, allocation.tasks_per_node) if objective == TIME else 0.0
    return Found(
        contest.best,
        contest.least,
        yours if np.isfinite(yours) else contest.least,
        table,
        bound,
        objective,
        runs.proposals,
        contest.interrupted,
    )


class _Contest:
    """Mappings compared by the objective."""

    def __init__(
        self,
        workload: Workload,
        torus: Torus,
        objective: str,
        routing: Routing,
        better: Callable[[TaskMapping, float], None] | None,
    ) -> None:
        self.workload, self.torus, self.objective = workload, torus, objective
        self.routing, self.better = routing, better
        self.known: dict[bytes, float] = {}
        self.rows: list[dict[str, object]] = []
        self.best: TaskMapping | None = None
        self.least = np.inf
        self.interrupted = False

    def value(self, mapping: TaskMapping, how: str) -> float:
        """Return a mapping's objective, and keep the best."""
        key = mapping.node.tobytes()
        if key not in self.known:
            value = self._measured(mapping)
            self.known[key] = value
            self.rows.append(
                {
                    "mapping": mapping.name,
                    "value": value,
                    "how": "simulated" if self.objective == TIME else "computed",
                    "from": how,
                }
            )
            if value < self.least:
                self.best, self.least = mapping, value
                if self.better is not None:
                    self.better(mapping, value)
        return self.known[key]

    def first_look(self, mapping: TaskMapping) -> None:
        """Compare a start at once, so that there is something good soon."""
        self.value(mapping, "strategy")

    def _measured(self, mapping: TaskMapping) -> float:
        if self.objective == TIME:
            how = {"routing": self.routing, "error": _ERROR}
            return float(simulate(self.workload, self.torus, mapping, **how).time)  # type: ignore[arg-type]
        routed = RoutedTraffic(self.workload, self.torus, mapping, self.routing)
        return float(FEATURES[self.objective].function(routed))


def _allocation(
    workload: Workload,
    torus: Torus,
    given: Sequence[TaskMapping],
    nodes: ArrayLike | None,
    fixed: Mapping[int, int] | None,
    tasks_per_node: int | None,
) -> Allocation:
    for mapping in given:
        mapping.check(workload.n_tasks, torus)
    capacity = tasks_per_node
    if capacity is None:
        n_nodes = torus.n_nodes if nodes is None else max(np.size(nodes), 1)
        capacity = max((mapping.tasks_per_node for mapping in given), default=1)
        capacity = max(capacity, -(-workload.n_tasks // n_nodes))
    allocation = Allocation(torus, nodes, capacity, fixed)
    places, movable = allocation.free_places(workload.n_tasks)
    if not movable.size or np.unique(places).size < 2:
        raise InputError(
            "nothing left to move",
            found=f"{movable.size} tasks that are not bound, {np.unique(places).size} nodes",
            expected="a task that may move, and two nodes",
        )
    return allocation


def _in_order(n_tasks: int, allocation: Allocation) -> TaskMapping:
    places = np.repeat(np.asarray(allocation.nodes), allocation.tasks_per_node)
    return TaskMapping(
        places[:n_tasks],
        allocation.torus,
        tasks_per_node=allocation.tasks_per_node,
        name="identity",
    )
