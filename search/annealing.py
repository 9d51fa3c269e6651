"""Simulated annealing of a mapping towards lower loads, from several starts."""

from __future__ import annotations

import itertools
import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import compile_seconds
from toruscast.mapping import MappingProblem, TaskMapping
from toruscast.mapping.task_mapping import Allocation
from toruscast.workers import Task

from ._anneal_kernels import (
    Objective,
    Places,
    ProposedStep,
    Uses,
    Walker,
    anneal,
    heat_of_tasks,
    sums_of_powers,
)
from .moving import MovingLoads, seconds_of_uses, uses_of

# Most tasks in a box that is permuted, and the share of tasks that count as hot.
_MAX_TASKS, _HOT = 512, 0.1


@dataclass(frozen=True)
class Goal:
    """The quantity that annealing makes small."""

    # The loads of a phase count by their norm of power 2 ** doublings.
    doublings: int = 4
    # Weight of the mean link load (hop-bytes) beside the norm.
    hop_share: float = 0.5
    # Whether loads count, not only hop-bytes; and of these only the bytes of links.
    by_loads: bool = True
    links_only: bool = False

    @property
    def count(self) -> str:
        """What of a message counts, as of `MovingLoads`."""
        return "nbytes" if self.links_only or not self.by_loads else "wire_bytes"


class Annealer:
    """A mapping whose tasks change places, in sweeps of any length.

    ``places``: the node of every place for a task, sorted, and the tasks that may move.
    """

    def __init__(
        self,
        problem: MappingProblem,
        start: TaskMapping,
        places: tuple[NDArray[np.int32], NDArray[np.int32]],
        goal: Goal,
        uses: Uses,
        seed: int,
    ) -> None:
        torus = problem.torus
        self.loads = MovingLoads(problem, start, uses, goal.count)
        self.objective = objective_of(self.loads, goal)
        place_node, movable = places
        n_nodes, max_nodes = torus.n_nodes, max(1, _MAX_TASKS // start.tasks_per_node)
        first = np.zeros(n_nodes + 1, dtype=np.int64)
        np.cumsum(np.bincount(place_node, minlength=n_nodes), out=first[1:])
        seeds = np.random.SeedSequence(seed).generate_state(1, np.uint64)
        self.walker = Walker(
            self.loads.ends,
            self.loads.uses,
            self.loads.change,
            Places(
                first,
                place_node.astype(np.int32),
                np.full(place_node.size, -1, dtype=np.int32),
                np.full(start.n_tasks, -1, dtype=np.int64),
                movable.astype(np.int32),
                torus.neighbors,
                np.array(torus.shape, dtype=np.int64),
            ),
            ProposedStep(
                np.zeros(2 * place_node.size + 4, dtype=np.int64),
                np.zeros(2 * place_node.size + 4, dtype=np.int32),
                np.zeros(start.n_tasks, dtype=np.int64),
                np.zeros(1, dtype=np.int64),
                np.zeros((2, n_nodes), dtype=np.int32),
                np.zeros(n_nodes, dtype=np.bool_),
                np.ones(torus.ndim, dtype=np.int64),
                max_nodes,
            ),
            self.loads.node,
            self.loads.load,
            np.maximum(seeds, 1),
        )
        self._settle()
        self.proposals = 0
        self.best_energy = self.energy
        self.best_node = self.loads.node.copy()

    @property
    def energy(self) -> float:
        """Current value of the goal."""
        return energy_of(self.loads, self.objective)

    def turn(self, n_steps: int, hot_at: float, cold_at: float) -> None:
        """Propose steps while the temperature falls between shares of the energy; keep the best."""
        hot = self.hot_tasks() if self.objective.by_loads else np.zeros(0, dtype=np.int32)
        scale = max(self.energy, 1e-300)
        hops, proposals = anneal(
            self.walker, self.objective, hot, n_steps, hot_at * scale, cold_at * scale
        )
        self.proposals += int(proposals)
        self.loads.units_of_hops += int(hops)
        energy = self.energy
        if energy < self.best_energy:
            self.best_energy = energy
            self.best_node = self.loads.node.copy()

    def hot_tasks(self) -> NDArray[np.int32]:
        """Return a tenth of the tasks that may move: whose traffic heats most, hottest first."""
        loads = self.loads
        heat = heat_of_tasks(self.objective, loads.ends, loads.uses, loads.node, loads.load)
        movable = self.walker.places.movable
        n_hot = max(1, round(_HOT * movable.size))
        return movable[np.argsort(-heat[movable], kind="stable")[:n_hot]]

    def _settle(self) -> None:
        """Put the tasks that may move on the places of their nodes."""
        places = self.walker.places
        places.content[:] = -1
        free = places.first[:-1].copy()
        for task in places.movable:
            node = self.loads.node[task]
            places.content[free[node]] = task
            places.of_task[task] = free[node]
            free[node] += 1


def energy_of(loads: MovingLoads, objective: Objective) -> float:
    """Return the value of a goal: loads over a mean one, or hops a byte."""
    energy = float(loads.units_of_hops * objective.hop_share)
    if objective.by_loads:
        sums = sums_of_powers(objective, loads.load)
        energy += float((sums ** (0.5**objective.doublings)).sum())
    return energy


def objective_of(loads: MovingLoads, goal: Goal) -> Objective:
    """Return the weights of loads that make a goal."""
    torus = loads.torus
    n_links = max(torus.n_existing_links, 1)
    if not goal.by_loads:
        return Objective(np.zeros(1), 1, 0, False, 2.0 / max(float(loads.ends.weight.sum()), 1.0))
    seconds = seconds_of_uses(torus)
    if goal.links_only:
        seconds[: torus.n_links] = 1.0
        seconds[torus.n_links :] = 0.0
    seconds = seconds * loads.ends.unit
    mean_second = float(seconds[: torus.n_links][torus.link_exists].sum()) / n_links
    rate = np.tile(seconds / loads.uses.parts, loads.n_phases)
    # The scale is the same for all mappings, so that energies can be compared.
    traffic = float(loads.ends.weight.sum()) / 2 / n_links
    scale = traffic * float(seconds.max()) or 1.0
    hop_share = goal.hop_share * mean_second / n_links / scale
    return Objective(rate / scale, loads.n_phases, goal.doublings, True, hop_share)


BUSY = 2.0
"""How many times as long as promised a search takes where others keep the processors busy."""


class Clock:
    """Seconds of the processors that this thread has had; it is over after ``seconds``, if given.

    Where other programs have the processors, the wall's seconds count too, each as 1 / `BUSY`.
    Compiling does not count. ``waited`` adds the seconds that this thread waits for its workers.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = math.inf if seconds is None else seconds
        self.waited = 0.0
        self._began = self._now()

    @property
    def spent(self) -> float:
        """Seconds so far."""
        return max(self._now()[0] - self._began[0] + self.waited, self.wall / BUSY)

    @property
    def wall(self) -> float:
        """Seconds of the wall so far."""
        return self._now()[1] - self._began[1]

    @staticmethod
    def _now() -> tuple[float, float]:
        compiling = compile_seconds()
        return time.thread_time() - compiling[0], time.monotonic() - compiling[1]

    @property
    def left(self) -> float:
        """Seconds until it is over; negative after that."""
        return self.seconds - self.spent

    def is_over(self) -> bool:
        """Whether no time is left."""
        return self.left < 0


logger = logging.getLogger(__name__)

# Temperatures, shares of energy over tasks, and the fewest proposals of a turn.
_HOT_SHARE, _COLD, _MIN_TURN = (0.1, 0.5), 0.003, 500
# Seconds of a proposal, as estimated: with loads, and of hop-bytes alone.
_STEP_SECONDS, _HOP_STEP_SECONDS = 1.2e-5, 1.2e-6
# What orders mappings best differs from one application to the next: each run has its own weights.
# benchmarks/search_weights.py fits them; the better half of five applications is then in the order
# of the simulated times by a Kendall's tau of .72, by the first alone .70, by hop-bytes alone .53.
_GOALS = (Goal(4, 1.0), Goal(2, 2.0), Goal(4, 0.3), Goal(3, 0.3), Goal(4, 2.0))
_STARTS = 6
# Proposals of a task that make a run worth its time: a long one finds more than several short ones.
_MIN_STEPS, _MIN_RUNS = 60, 2
# Digits of energies in which mappings that differ are not symmetric to each other.
_ALIKE = 9


class Stop:
    """Whether runs are to end early; a copy in another process hears nothing of it."""

    def __init__(self) -> None:
        self.asked = False


class RunInputs(NamedTuple):
    """What all runs share."""

    problem: MappingProblem
    allocation: Allocation
    uses: Uses
    seed: int
    stop: Stop
    steps: int  # proposals of a turn

    def annealer(self, start: TaskMapping, goal: Goal, seed: int) -> Annealer:
        """Return what anneals from a start towards a goal."""
        places = self.allocation.free_slots(self.problem.n_tasks)
        return Annealer(self.problem, start, places, goal, self.uses, seed)


class AnnealingRun(NamedTuple):
    """One run of a number of sweeps."""

    number: int
    hot: float
    goal: Goal
    start: TaskMapping
    n_sweeps: int


class AnnealingRuns:
    """Runs of annealing on the workers at hand."""

    def __init__(
        self, problem: MappingProblem, allocation: Allocation, objective: str, seed: int
    ) -> None:
        self.goals: tuple[Goal, ...] = _GOALS
        if objective == "hop_bytes":
            self.goals = (Goal(by_loads=False),)
        elif objective == "max_bytes":
            self.goals = tuple(Goal(d, s, links_only=True) for d, s in ((4, 0.2), (5, 0.1), (4, 1)))
        uses = uses_of(problem)
        # All goals of an objective count the same.
        start = allocation.in_order(problem.n_tasks)
        self._loads = MovingLoads(problem, start, uses, self.goals[0].count)
        steps = max(_MIN_TURN, problem.n_tasks)
        self.inputs = RunInputs(problem, allocation, uses, seed, Stop(), steps)
        self._objectives = [objective_of(self._loads, goal) for goal in self.goals]
        self._energies: dict[bytes, tuple[float, ...]] = {}
        self.found: list[TaskMapping] = []
        self.proposals = self.n_sweeps = 0
        step = _STEP_SECONDS if self.goals[0].by_loads else _HOP_STEP_SECONDS
        self.turn_seconds = step * self.inputs.steps  # as estimated

    def energy(self, mapping: TaskMapping) -> float:
        """Return a number that is smaller for a more promising mapping."""
        return self._energies_of(mapping)[0]

    def improve(
        self, pool: Sequence[TaskMapping], n_sweeps: int, n_jobs: int, clock: Clock
    ) -> list[TaskMapping]:
        """Anneal some of the pool and of those found before; return all found, the best first."""
        mixed = itertools.zip_longest(sorted(self.found, key=self.energy), pool)
        jobs = self._jobs([mapping for pair in mixed for mapping in pair if mapping is not None])
        enough = max(1, _MIN_STEPS * self.inputs.problem.n_tasks // self.inputs.steps)
        jobs = jobs[: max(_MIN_RUNS, n_sweeps // enough)]
        each = max(1, n_sweeps // len(jobs))
        plans = [AnnealingRun(i, *job, each) for i, job in enumerate(jobs, len(self.found))]
        try:
            results = Task(anneal_once, self.inputs).in_order(plans, n_jobs)
        except BaseException:
            self.inputs.stop.asked = True
            raise
        if n_jobs > 1:
            clock.waited += sum(seconds for _, _, seconds in results) / min(n_jobs, len(jobs))
        self.n_sweeps += each * len(plans)
        self.proposals += sum(proposals for _, proposals, _ in results)
        done = {"event": "annealed", "runs": len(plans), "proposals": self.proposals}
        logger.info("annealed %d times, %d proposals", len(plans), self.proposals, extra=done)
        self.found += [mapping for mapping, _, _ in results if mapping is not None]
        return self._in_turn(self.found)

    def _jobs(self, pool: Sequence[TaskMapping]) -> list[tuple[float, Goal, TaskMapping]]:
        """Temperatures, goals and starts; what differs most from the first in each is last."""
        some = pool[:_STARTS]
        numbers = itertools.product(
            range(len(_HOT_SHARE)), range(len(self.goals)), range(len(some))
        )
        return [(_HOT_SHARE[h], self.goals[g], some[s]) for h, g, s in sorted(numbers, key=sum)]

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


def anneal_once(inputs: RunInputs, plan: AnnealingRun) -> tuple[TaskMapping | None, int, float]:
    """Anneal once; return the best mapping, the number of proposals, and the seconds they took."""
    clock = Clock()
    if inputs.stop.asked:
        return None, 0, 0.0
    n_tasks, allocation = inputs.problem.n_tasks, inputs.allocation
    annealer = inputs.annealer(plan.start, plan.goal, inputs.seed + 1000 * plan.number)
    for turn in range(plan.n_sweeps):
        if inputs.stop.asked:
            break
        hot_at = plan.hot * (_COLD / plan.hot) ** (turn / plan.n_sweeps) / n_tasks
        annealer.turn(inputs.steps, hot_at, hot_at)
    found = TaskMapping(
        annealer.best_node,
        allocation.torus,
        tasks_per_node=allocation.tasks_per_node,
        name=f"search-{plan.number + 1}-from-{plan.start.name.split('-from-')[-1]}",
    )
    return found, annealer.proposals, clock.spent
