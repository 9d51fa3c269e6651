"""Runs of annealing: from which starts, towards which goals, for how long."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping import TaskMapping, Workload
from toruscast.mapping.allocation import Allocation
from toruscast.typing import Routing
from toruscast.workers import Task

from .annealing import Annealer, Goal, energy_of, objective_of
from .clock import BUSY, Clock
from .moving import MovingLoads, usable

logger = logging.getLogger(__name__)

# Turns of a run, proposals of a turn and a task, and the temperatures, shares of energy over tasks.
_TURNS, _STEPS = 24, 40
_HOT, _COLD = (0.1, 0.5), 0.003
# What orders mappings best differs from one application to the next: each run has its own weights.
# benchmarks/search_weights.py fits them; the better half of five applications is then in the order
# of the simulated times by a Kendall's tau of .72, by the first alone .70, by hop-bytes alone .53.
_GOALS = (Goal(4, 1.0), Goal(2, 2.0), Goal(4, 0.3), Goal(3, 0.3), Goal(4, 2.0))
_STARTS = 6
# Proposals of a task that make a run worth its time.
_LEAST_STEPS = 60
# Digits of energies in which mappings that differ are not symmetric to each other.
_ALIKE = 9


class Stop:
    """Whether runs are to end early; a copy in another process hears nothing of it."""

    def __init__(self) -> None:
        self.asked = False


class RunInputs(NamedTuple):
    """What all runs share."""

    workload: Workload
    allocation: Allocation
    places: tuple[NDArray[np.int32], NDArray[np.int32]]
    uses: Any
    ends: Any
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
            ends=self.ends,
        )


class AnnealingRun(NamedTuple):
    """One run: so many turns, or seconds of its thread, but not beyond a moment of the day."""

    number: int
    hot: float
    goal: Goal
    start: TaskMapping
    turns: int | None
    seconds: float = 0.0
    until: float = np.inf


class AnnealingRuns:
    """Runs of annealing on the workers at hand."""

    def __init__(
        self,
        workload: Workload,
        allocation: Allocation,
        objective: str,
        routing: Routing,
        seed: int,
    ) -> None:
        self.goals: tuple[Goal, ...] = _GOALS
        if objective == "hop_bytes":
            self.goals = (Goal(by_loads=False),)
        elif objective == "max_bytes":
            self.goals = tuple(Goal(d, s, links_only=True) for d, s in ((4, 0.2), (5, 0.1), (4, 1)))
        torus = allocation.torus
        uses = usable(workload, torus, routing)
        # All goals of an objective count the same.
        self._loads = MovingLoads(
            workload,
            torus,
            allocation.in_order(workload.n_tasks),
            count=self.goals[0].count,
            routing=routing,
            uses=uses,
        )
        ends = self._loads.ends, self._loads.unit
        places = allocation.free_places(workload.n_tasks)
        self.setting = RunInputs(workload, allocation, places, uses, ends, routing, seed, Stop())
        self._objectives = [objective_of(self._loads, goal) for goal in self.goals]
        self._energies: dict[bytes, tuple[float, ...]] = {}
        self.proposals = 0

    def energy(self, mapping: TaskMapping) -> float:
        """Return a number that is smaller for a more promising mapping."""
        return self._energies_of(mapping)[0]

    def improve(
        self, pool: Sequence[TaskMapping], turns: int | None, seconds: float, n_jobs: int
    ) -> list[TaskMapping]:
        """Return what became of the first of the pool, the most promising first.

        So many ``turns`` are made in all, or as many as there is time for in so many seconds.
        """
        jobs = self._jobs(pool)
        if turns is not None:
            some = itertools.islice(itertools.cycle(jobs), max(1, -(-turns // _TURNS)))
            plans = [AnnealingRun(i, *job, min(_TURNS, turns)) for i, job in enumerate(some)]
        else:
            clock = Clock(seconds)
            jobs = jobs[: self._affordable(jobs[0], n_jobs * seconds, n_jobs)]
            left = max(clock.left, 0.0)
            share = left * n_jobs / len(jobs)
            # The time of day is what workers elsewhere have too.
            end = time.time() + BUSY * left
            plans = [AnnealingRun(i, *job, None, share, end) for i, job in enumerate(jobs)]
        try:
            results = Task(anneal, self.setting).in_order(plans, n_jobs)
        except BaseException:
            self.setting.stop.asked = True
            raise
        self.proposals += sum(proposals for _, proposals in results)
        done = {"event": "annealed", "runs": len(plans), "proposals": self.proposals}
        logger.info("annealed %d times, %d proposals", len(plans), self.proposals, extra=done)
        return self._in_turn([mapping for mapping, _ in results if mapping is not None])

    def _jobs(self, pool: Sequence[TaskMapping]) -> list[tuple[float, Goal, TaskMapping]]:
        """Temperatures, goals and starts; what differs most from the first in each is last."""
        some = pool[:_STARTS]
        numbers = itertools.product(range(len(_HOT)), range(len(self.goals)), range(len(some)))
        return [(_HOT[h], self.goals[g], some[s]) for h, g, s in sorted(numbers, key=sum)]

    def _affordable(self, job: tuple[float, Goal, TaskMapping], seconds: float, least: int) -> int:
        """How many runs there is time for: a long one finds more than several short ones."""
        _, goal, start = job
        n = self.setting.workload.n_tasks
        annealer = self.setting.annealer(start, goal, 0)
        clock = Clock()
        annealer.turn(max(500, n), _COLD / n, _COLD / n)
        each = clock.spent / max(500, n) * _LEAST_STEPS * n
        return max(least, int(seconds / max(each, 1e-9)))

    def different(self, mappings: Sequence[TaskMapping]) -> list[TaskMapping]:
        """Return mappings without those that are symmetric to one before: of the same energies."""
        found: dict[tuple[float, ...], TaskMapping] = {}
        for mapping in mappings:
            energies = self._energies_of(mapping)[:3]
            key = tuple(float(f"{energy:.{_ALIKE}g}") for energy in energies)
            found.setdefault(key, mapping)
        return list(found.values())

    def _in_turn(self, found: Sequence[TaskMapping]) -> list[TaskMapping]:
        """Goals differ: each names its best in turn."""
        ranked = []
        for number in range(len(self.goals)):
            energies = [self._energies_of(mapping)[number] for mapping in found]
            ranked.append([found[i] for i in np.argsort(energies, kind="stable")])
        listed = {id(m): m for group in zip(*ranked, strict=True) for m in group}
        return list(listed.values())

    def _energies_of(self, mapping: TaskMapping) -> tuple[float, ...]:
        """Each goal's value."""
        key = mapping.node.tobytes()
        if key not in self._energies:
            self._loads.place(mapping)
            self._energies[key] = tuple(energy_of(self._loads, o) for o in self._objectives)
        return self._energies[key]


def anneal(setting: RunInputs, plan: AnnealingRun) -> tuple[TaskMapping | None, int]:
    """Anneal once; return what came of it and how many proposals were made."""
    clock, turns = Clock(plan.seconds), plan.turns
    if setting.stop.asked or time.time() > plan.until:
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
            is_over = clock.is_over() or time.time() > plan.until
            done = 1.0 if is_over else clock.spent / clock.seconds
    found = TaskMapping(
        annealer.best_node,
        allocation.torus,
        tasks_per_node=allocation.tasks_per_node,
        name=f"search-{plan.number + 1}-from-{plan.start.name}",
    )
    return found, annealer.proposals
