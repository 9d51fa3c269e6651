"""Runs of annealing: from which starts, towards which goals, for how long."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping import TaskMapping, Workload, strategies
from toruscast.mapping.allocation import Allocation
from toruscast.mapping.strategies import registry
from toruscast.typing import Routing
from toruscast.workers import Task

from .annealing import Annealer, Goal
from .moving import usable
from .multilevel import multilevel

logger = logging.getLogger(__name__)

# Strategies that take a graph apart: the first to be asked.
_FIRST = ("bisect-refined", "bisect-graph", "greedy-heaviest")
# Tasks up to which the graph's spectrum is found out in time.
_SPECTRAL = 20_000
# Seconds a task that this takes.
_LAYOUT = 5e-4
# Multilevel mappings among the starts, at least and at most.
_LEVELS = (2, 8)
# Turns of a run, proposals of a turn and a task, and the temperatures, shares of energy over tasks.
_TURNS, _STEPS = 24, 40
_HOT, _COLD = (0.5, 0.1), 0.003
# What orders mappings best differs from one application to the next: each run has its own weights.
# benchmarks/search_weights.py fits them; the better half of five applications is then in the order
# of the simulated times by a Kendall's tau of .72, by the first alone .70, by hop-bytes alone .53.
_GOALS = (Goal(4, 1.0), Goal(2, 2.0), Goal(4, 0.3), Goal(3, 0.3), Goal(4, 2.0))
_STARTS = 6
# Digits of energies in which mappings that differ are not symmetric to each other.
_ALIKE = 9


def starts(
    workload: Workload, allocation: Allocation, seed: int, until: float | None
) -> list[TaskMapping]:
    """Return those of a layout, by levels and of all strategies, on nodes that are ours, once each.

    Half of the time until a moment goes into them at most.
    """
    now = time.monotonic()
    until = np.inf if until is None else now + (until - now) / 2
    found: dict[bytes, TaskMapping] = {}
    # Strategies see the whole torus.
    room = -(-workload.n_tasks // allocation.torus.n_nodes)
    placement = strategies.Placement(
        workload, allocation.torus, min(max(room, 1), allocation.tasks_per_node)
    )

    def add(name: str) -> None:
        mapping = allocation.confine(
            registry.mapping(placement, name, registry.nodes(placement, name, seed))
        )
        found.setdefault(mapping.node.tobytes(), mapping)

    # Grids come back from their layout at once, however the tasks are numbered.
    if workload.n_tasks <= min(_SPECTRAL, (until - now) / _LAYOUT):
        add("spectral")
    for number in range(_LEVELS[1]):
        began = time.monotonic()
        if number >= _LEVELS[0] and (np.isinf(until) or 2 * began - now > now + (until - now) / 2):
            break
        by_levels = multilevel(workload, allocation, seed + number, until)
        if by_levels is None:
            break
        mapping = by_levels.renamed(f"multilevel@{number + 1}")
        found.setdefault(mapping.node.tobytes(), mapping)
    others = strategies.variants(workload, allocation.torus, tasks_per_node=placement.capacity)
    for name in dict.fromkeys((*_FIRST, *others)):
        if time.monotonic() > until and found:
            break
        add(name)
    return list(found.values())


class Stop:
    """Whether runs are to end early; a copy in another process hears nothing of it."""

    def __init__(self) -> None:
        self.asked = False


class Setting(NamedTuple):
    """What all runs share."""

    workload: Workload
    allocation: Allocation
    places: tuple[NDArray[np.int32], NDArray[np.int32]]
    uses: Any
    routing: Routing
    seed: int
    stop: Stop

    def annealer(self, start: TaskMapping, goal: Goal, seed: int) -> Annealer:
        """Return what anneals from a start towards a goal."""
        return Annealer(
            self.workload,
            self.allocation.torus,
            start,
            self.places,
            goal,
            self.uses,
            seed=seed,
            routing=self.routing,
        )


class Plan(NamedTuple):
    """One run: so many turns, or for so many seconds but not beyond a moment of the clock."""

    number: int
    hot: float
    goal: Goal
    start: TaskMapping
    turns: int | None
    seconds: float = 0.0
    until: float = np.inf


class Runs:
    """Runs of annealing on the workers at hand."""

    def __init__(
        self,
        workload: Workload,
        allocation: Allocation,
        objective: str,
        routing: Routing,
        seed: int,
    ) -> None:
        uses = usable(workload, allocation.torus, routing)
        places = allocation.free_places(workload.n_tasks)
        self.setting = Setting(workload, allocation, places, uses, routing, seed, Stop())
        self.goals: tuple[Goal, ...] = _GOALS
        if objective == "hop_bytes":
            self.goals = (Goal(by_loads=False),)
        elif objective == "max_bytes":
            self.goals = tuple(Goal(d, s, links_only=True) for d, s in ((4, 0.2), (5, 0.1), (4, 1)))
        self.proposals = 0

    def in_order_of_energy(self, pool: Sequence[TaskMapping]) -> list[TaskMapping]:
        """Return mappings, the most promising first."""
        energies = [self._energy(mapping, self.goals[0]) for mapping in pool]
        return [pool[i] for i in np.argsort(energies, kind="stable")]

    def improve(
        self, pool: Sequence[TaskMapping], turns: int | None, until: float | None, n_jobs: int
    ) -> list[TaskMapping]:
        """Return what became of the first of the pool, the most promising first.

        So many ``turns`` are made in all, or as many as there is time for.
        """
        jobs = list(itertools.product(_HOT, self.goals, pool[:_STARTS]))
        if turns is not None:
            some = itertools.islice(itertools.cycle(jobs), max(1, -(-turns // _TURNS)))
            plans = [Plan(i, *job, min(_TURNS, turns)) for i, job in enumerate(some)]
        else:
            assert until is not None
            left = max(until - time.monotonic(), 0.0)
            share = left * n_jobs / len(jobs)
            # The clock of the day is what workers elsewhere have too.
            plans = [Plan(i, *job, None, share, time.time() + left) for i, job in enumerate(jobs)]
        try:
            results = Task(anneal, self.setting).in_order(plans, n_jobs)
        except BaseException:
            self.setting.stop.asked = True
            raise
        self.proposals += sum(proposals for _, proposals in results)
        done = {"event": "annealed", "runs": len(plans), "proposals": self.proposals}
        logger.info("annealed %d times, %d proposals", len(plans), self.proposals, extra=done)
        return self._in_turn([mapping for mapping, _ in results if mapping is not None])

    def different(self, mappings: Sequence[TaskMapping]) -> list[TaskMapping]:
        """Return mappings without those that are symmetric to one before: of the same energies."""
        found: dict[tuple[float, ...], TaskMapping] = {}
        for mapping in mappings:
            energies = [self._energy(mapping, goal) for goal in self.goals[:3]]
            key = tuple(float(f"{energy:.{_ALIKE}g}") for energy in energies)
            found.setdefault(key, mapping)
        return list(found.values())

    def _in_turn(self, found: Sequence[TaskMapping]) -> list[TaskMapping]:
        """Goals differ: each names its best in turn."""
        ranked = []
        for goal in self.goals:
            energies = [self._energy(mapping, goal) for mapping in found]
            ranked.append([found[i] for i in np.argsort(energies, kind="stable")])
        listed = {id(m): m for group in zip(*ranked, strict=True) for m in group}
        return list(listed.values())

    def _energy(self, mapping: TaskMapping, goal: Goal) -> float:
        return self.setting.annealer(mapping, goal, 0).energy


def anneal(setting: Setting, plan: Plan) -> tuple[TaskMapping | None, int]:
    """Anneal once; return what came of it and how many proposals were made."""
    began, turns = time.time(), plan.turns
    if setting.stop.asked or began > plan.until:
        return None, 0
    n_tasks, allocation = setting.workload.n_tasks, setting.allocation
    annealer = setting.annealer(plan.start, plan.goal, setting.seed + 1000 * plan.number)
    n_steps = max(500, _STEPS * n_tasks) if turns is not None else max(500, 4 * n_tasks)
    done = 0.0
    while done < 1 and not setting.stop.asked:
        hot_at = plan.hot * (_COLD / plan.hot) ** done / n_tasks
        annealer.turn(n_steps, hot_at, hot_at)
        if turns is not None:
            done += 1 / turns + 1e-9
        else:
            now = time.time()
            done = max((now - began) / max(plan.seconds, 1e-9), float(now > plan.until))
    found = TaskMapping(
        annealer.best_node,
        allocation.torus,
        tasks_per_node=allocation.tasks_per_node,
        name=f"search-{plan.number + 1}-from-{plan.start.name}",
    )
    return found, annealer.proposals
