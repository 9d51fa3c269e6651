"""Simulated annealing that searches for mappings with lower loads, from several starts."""

from __future__ import annotations

import itertools
import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from toruscast._jit import compile_seconds
from toruscast.mapping import MappingProblem, TaskMapping
from toruscast.mapping.task_mapping import Allocation, cumcount
from toruscast.typing import Int32s
from toruscast.workers import Task

from ._anneal_kernels import (
    AnnealingState,
    Objective,
    ResourceTable,
    Slots,
    Step,
    anneal,
    compute_task_heat,
    sum_powers,
)
from .resource_loads import ResourceLoads, build_resource_table, seconds_per_byte

# Maximum tasks in a permuted box, and the share of tasks that count as hot.
_MAX_BOX_TASKS, _HOT_TASK_SHARE = 512, 0.1


@dataclass(frozen=True)
class Goal:
    """Weights of the energy that annealing minimises."""

    doublings: int = 4  # the exponent of the norm of the loads is 2 ** doublings
    hop_share: float = 0.5  # weight of the mean link load (hop-bytes) relative to the norm
    by_loads: bool = True  # whether loads count, not only hop-bytes
    links_only: bool = False  # whether only links count among the loads

    @property
    def byte_column(self) -> str:
        """Which bytes the loads count: the ``byte_column`` of `ResourceLoads`."""
        return "nbytes" if self.links_only or not self.by_loads else "wire_bytes"


class Annealer:
    """Annealing of one mapping in sweeps of any length.

    ``slots`` is the result of `Allocation.free_slots`: the nodes of the free slots, sorted, and the
    tasks that may move.
    """

    def __init__(
        self,
        problem: MappingProblem,
        start: TaskMapping,
        slots: tuple[Int32s, Int32s],
        goal: Goal,
        table: ResourceTable,
        seed: int,
    ) -> None:
        torus = problem.torus
        self.loads = ResourceLoads(problem, start, table, goal.byte_column)
        self.objective = build_objective(self.loads, goal)
        slot_node, movable = slots
        first = np.searchsorted(slot_node, np.arange(torus.n_nodes + 1))
        # The movable tasks of a node fill its slots in order.
        node = start.node[movable]
        slot = first[node] + cumcount(node)
        content = np.full(slot_node.size, -1, dtype=np.int32)
        content[slot] = movable
        slot_of_task = np.full(start.n_tasks, -1, dtype=np.int64)
        slot_of_task[movable] = slot
        seeds = np.random.SeedSequence(seed).generate_state(1, np.uint64)
        slot_arrays = Slots(
            first=first,
            node=slot_node.astype(np.int32),
            content=content,
            slot_of_task=slot_of_task,
            movable=movable.astype(np.int32),
            neighbors=torus.neighbors,
            size=np.array(torus.shape, dtype=np.int64),
        )
        max_moves = 2 * slot_node.size + 4
        step = Step(
            to=np.zeros(max_moves, dtype=np.int64),
            task=np.zeros(max_moves, dtype=np.int32),
            moved=np.zeros(start.n_tasks, dtype=np.int64),
            count=np.zeros(1, dtype=np.int64),
            box=np.zeros((2, torus.n_nodes), dtype=np.int32),
            is_in_box=np.zeros(torus.n_nodes, dtype=np.bool_),
            extent=np.ones(torus.ndim, dtype=np.int64),
            max_nodes=max(1, _MAX_BOX_TASKS // start.tasks_per_node),
        )
        # The generator needs a seed other than 0.
        self.state = AnnealingState(self.loads.state, slot_arrays, step, np.maximum(seeds, 1))
        self.proposals = 0
        self.best_energy = self.energy
        self.best_node = self.loads.state.node.copy()

    @property
    def energy(self) -> float:
        """Energy of the current mapping."""
        return compute_energy(self.loads, self.objective)

    def anneal_sweep(self, n_steps: int, start_at: float, end_at: float) -> None:
        """Anneal between two temperatures, given as shares of the energy; keep the best mapping."""
        hot = self.hot_tasks() if self.objective.by_loads else np.zeros(0, dtype=np.int32)
        # An energy of 0 would give a temperature of 0, by which the kernel divides.
        scale = max(self.energy, 1e-300)
        start_at, end_at = start_at * scale, end_at * scale
        hops, proposals = anneal(self.state, self.objective, hot, n_steps, start_at, end_at)
        self.proposals += int(proposals)
        self.loads.hop_units += int(hops)
        energy = self.energy
        if energy < self.best_energy:
            self.best_energy = energy
            self.best_node = self.loads.state.node.copy()

    def hot_tasks(self) -> Int32s:
        """Return the tasks whose traffic contributes most to the energy, the hottest first."""
        heat = compute_task_heat(self.objective, self.loads.state)
        movable = self.state.slots.movable
        n_hot = max(1, round(_HOT_TASK_SHARE * movable.size))
        return movable[np.argsort(-heat[movable], kind="stable")[:n_hot]]


def compute_energy(loads: ResourceLoads, objective: Objective) -> float:
    """Return the energy of the current loads."""
    energy = float(loads.hop_units * objective.hop_share)
    if objective.by_loads:
        sums = sum_powers(objective, loads.state.load)
        energy += float((sums ** (0.5**objective.doublings)).sum())
    return energy


def build_objective(loads: ResourceLoads, goal: Goal) -> Objective:
    """Return the weights of loads and of hops in the energy; no weight depends on the mapping.

    The energy is relative: if every message takes one hop, the mean link load is about 1.
    """
    torus, edges = loads.torus, loads.state.edges
    n_links = max(torus.n_existing_links, 1)
    # Each edge is listed at both of its tasks.
    units = float(edges.weight.sum()) / 2
    if not goal.by_loads:
        hop_share = 1.0 / max(units, 0.5)
        return Objective(np.zeros(1), n_phases=1, doublings=0, by_loads=False, hop_share=hop_share)
    seconds = seconds_per_byte(torus)
    if goal.links_only:
        seconds[: torus.n_links] = 1.0
        seconds[torus.n_links :] = 0.0
    seconds = seconds * edges.unit
    mean_second = float(seconds[: torus.n_links][torus.link_exists].sum()) / n_links
    rate = np.tile(seconds / loads.state.table.parts, loads.n_phases)
    scale = units / n_links * float(seconds.max()) or 1.0
    hop_share = goal.hop_share * mean_second / n_links / scale
    return Objective(rate / scale, loads.n_phases, goal.doublings, True, hop_share)


MAX_SLOWDOWN = 2.0
"""Maximum ratio of wall time to the requested seconds on busy processors."""


class Clock:
    """Processor seconds of this thread since the clock started; ``seconds`` is the limit, if any.

    If other programs use the processors, the elapsed time is at least the wall seconds divided by
    `MAX_SLOWDOWN`. Compilation does not count. The seconds spent waiting for workers, ``waited``,
    count as well.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = math.inf if seconds is None else seconds
        self.waited = 0.0
        self._began = self._now()

    @property
    def elapsed(self) -> float:
        """Seconds so far, but at least the wall seconds / `MAX_SLOWDOWN`."""
        return max(self._now()[0] - self._began[0] + self.waited, self.wall / MAX_SLOWDOWN)

    @property
    def wall(self) -> float:
        """Wall seconds so far, without compilation."""
        return self._now()[1] - self._began[1]

    @staticmethod
    def _now() -> tuple[float, float]:
        compiling = compile_seconds()
        return time.thread_time() - compiling[0], time.monotonic() - compiling[1]

    @property
    def remaining(self) -> float:
        """Seconds until the limit; negative after it."""
        return self.seconds - self.elapsed

    def is_over(self) -> bool:
        """Return whether the limit has passed."""
        return self.remaining < 0


logger = logging.getLogger(__name__)

# Temperatures, as shares of the mean energy per task, and minimum number of proposals in a sweep.
_INITIAL_TEMPERATURES, _FINAL_TEMPERATURE, _MIN_SWEEP_STEPS = (0.1, 0.5), 0.003, 500
# Estimated seconds per proposal: with loads, and with only hop-bytes.
_PROPOSAL_SECONDS, _HOP_PROPOSAL_SECONDS = 1.2e-5, 1.2e-6
# Runs use different weights, because the best weights depend on the application.
# benchmarks/search_weights.py fits them. For the better half of the mappings of five applications,
# Kendall's tau with simulated times is .72 with all of them, .70 with the first, .53 with
# hop-bytes.
_GOALS = (Goal(4, 1.0), Goal(2, 2.0), Goal(4, 0.3), Goal(3, 0.3), Goal(4, 2.0))
_MAX_STARTS = 6
# Minimum number of proposals per task in a run; one long run beats several short ones.
_MIN_PROPOSALS_PER_TASK, _MIN_RUNS = 60, 2
# Mappings whose energies agree to this many digits are treated as symmetric.
_ENERGY_DIGITS = 9


class RunInputs(NamedTuple):
    """Inputs that all runs share."""

    problem: MappingProblem
    allocation: Allocation
    table: ResourceTable
    seed: int
    stop: SimpleNamespace  # its attribute ``is_set`` ends all runs of this process early
    steps: int  # proposals of a sweep


class AnnealingRun(NamedTuple):
    """Parameters of one run."""

    number: int
    temperature: float  # initial, as a share of the mean energy per task
    goal: Goal
    start: TaskMapping
    n_sweeps: int


class AnnealingRuns:
    """Annealing runs of a search, in parallel on the workers."""

    def __init__(
        self, problem: MappingProblem, allocation: Allocation, objective: str, seed: int
    ) -> None:
        self.goals: tuple[Goal, ...] = _GOALS
        if objective == "hop_bytes":
            self.goals = (Goal(by_loads=False),)
        elif objective == "max_bytes":
            self.goals = tuple(Goal(d, s, links_only=True) for d, s in ((4, 0.2), (5, 0.1), (4, 1)))
        table = build_resource_table(problem)
        # All goals of an objective count the same bytes.
        start = allocation.in_order(problem.n_tasks)
        self._loads = ResourceLoads(problem, start, table, self.goals[0].byte_column)
        steps = max(_MIN_SWEEP_STEPS, problem.n_tasks)
        stop = SimpleNamespace(is_set=False)
        self.inputs = RunInputs(problem, allocation, table, seed, stop, steps)
        self._objectives = [build_objective(self._loads, goal) for goal in self.goals]
        self._energies: dict[bytes, tuple[float, ...]] = {}
        self.results: list[TaskMapping] = []
        self.proposals = self.n_sweeps = 0
        seconds = _PROPOSAL_SECONDS if self.goals[0].by_loads else _HOP_PROPOSAL_SECONDS
        self.sweep_seconds = seconds * self.inputs.steps  # estimate

    def energy(self, mapping: TaskMapping) -> float:
        """Return the energy of a mapping for the first goal."""
        return self._compute_energies(mapping)[0]

    def improve(
        self, pool: Sequence[TaskMapping], n_sweeps: int, n_jobs: int, clock: Clock
    ) -> list[TaskMapping]:
        """Anneal mappings of the pool and earlier results; return all results, the best first.

        ``n_sweeps`` is the total of all runs.
        """
        # Alternate between earlier results and the pool.
        pairs = itertools.zip_longest(sorted(self.results, key=self.energy), pool)
        starts = [mapping for pair in pairs for mapping in pair if mapping is not None]
        jobs = self._list_jobs(starts)
        min_proposals = _MIN_PROPOSALS_PER_TASK * self.inputs.problem.n_tasks
        jobs = jobs[: max(_MIN_RUNS, n_sweeps // max(1, min_proposals // self.inputs.steps))]
        run_sweeps = max(1, n_sweeps // len(jobs))
        plans = [AnnealingRun(i, *job, run_sweeps) for i, job in enumerate(jobs, len(self.results))]
        try:
            results = Task(anneal_once, self.inputs).in_order(plans, n_jobs)
        except BaseException:
            self.inputs.stop.is_set = True
            raise
        if n_jobs > 1:
            clock.waited += sum(seconds for _, _, seconds in results) / min(n_jobs, len(jobs))
        self.n_sweeps += run_sweeps * len(plans)
        self.proposals += sum(proposals for _, proposals, _ in results)
        report = {"event": "annealed", "runs": len(plans), "proposals": self.proposals}
        logger.info("annealed %d times, %d proposals", len(plans), self.proposals, extra=report)
        self.results += [mapping for mapping, _, _ in results if mapping is not None]
        return self._interleave_by_goal(self.results)

    def _list_jobs(self, pool: Sequence[TaskMapping]) -> list[tuple[float, Goal, TaskMapping]]:
        """Return all combinations of temperature, goal and start, the preferred ones first."""
        choices = _INITIAL_TEMPERATURES, self.goals, pool[:_MAX_STARTS]
        ranks = itertools.product(*(range(len(options)) for options in choices))
        temperatures, goals, starts = choices
        # Each list has the preferred options first, so combinations are sorted by the sum of ranks.
        return [(temperatures[t], goals[g], starts[s]) for t, g, s in sorted(ranks, key=sum)]

    def drop_symmetric(self, mappings: Sequence[TaskMapping]) -> list[TaskMapping]:
        """Drop mappings whose energies equal those of an earlier mapping."""
        results: dict[tuple[float, ...], TaskMapping] = {}
        for mapping in mappings:
            energies = self._compute_energies(mapping)[:3]
            key = tuple(float(f"{energy:.{_ENERGY_DIGITS}g}") for energy in energies)
            results.setdefault(key, mapping)
        return list(results.values())

    def _interleave_by_goal(self, results: Sequence[TaskMapping]) -> list[TaskMapping]:
        """Order mappings by all goals in turn: the best of each, then the second of each, ..."""
        energies = np.array([self._compute_energies(mapping) for mapping in results])
        order = np.argsort(energies, axis=0, kind="stable")
        # Each row has one mapping for each goal; keep only the first occurrence of a mapping.
        return [results[i] for i in dict.fromkeys(order.ravel().tolist())]

    def _compute_energies(self, mapping: TaskMapping) -> tuple[float, ...]:
        """Return the energy of a mapping for each goal, computed once."""
        key = mapping.node.tobytes()
        if key not in self._energies:
            self._loads.place(mapping)
            self._energies[key] = tuple(compute_energy(self._loads, o) for o in self._objectives)
        return self._energies[key]


def anneal_once(inputs: RunInputs, plan: AnnealingRun) -> tuple[TaskMapping | None, int, float]:
    """Anneal once; return the best mapping, the number of proposals, and the seconds taken.

    The temperature decreases from sweep to sweep. The mapping is None if the runs were stopped.
    """
    clock = Clock()
    if inputs.stop.is_set:
        return None, 0, 0.0
    problem, allocation = inputs.problem, inputs.allocation
    # The seeds of runs are 1000 apart, because users often choose consecutive seeds.
    slots, seed = allocation.free_slots(problem.n_tasks), inputs.seed + 1000 * plan.number
    annealer = Annealer(problem, plan.start, slots, plan.goal, inputs.table, seed)
    cooling = _FINAL_TEMPERATURE / plan.temperature
    for sweep in range(plan.n_sweeps):
        if inputs.stop.is_set:
            break
        share = plan.temperature * cooling ** (sweep / plan.n_sweeps) / problem.n_tasks
        annealer.anneal_sweep(inputs.steps, share, share)
    mapping = TaskMapping(
        annealer.best_node,
        allocation.torus,
        tasks_per_node=allocation.tasks_per_node,
        name=f"search-{plan.number + 1}-from-{plan.start.name.split('-from-')[-1]}",
    )
    return mapping, annealer.proposals, clock.elapsed
