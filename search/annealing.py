"""Simulated annealing of a mapping towards lower loads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping import TaskMapping, Torus, Workload
from toruscast.typing import Routing

from ._anneal_kernels import Objective, Walker, anneal, heat_of_tasks, sums_of_powers
from ._delta_kernels import Ends, Uses
from ._step_kernels import Places, ProposedStep
from .moving import MovingLoads
from .uses import seconds_of_uses

# Most tasks in a box that is permuted, and the share of tasks that count as hot.
_MOST_TASKS, _HOT = 512, 0.1


@dataclass(frozen=True)
class Goal:
    """The quantity that annealing makes small.

    Attributes
    ----------
    doublings : int
        The loads of a phase count by their norm of power ``2 ** doublings``. A larger power gives
        the busiest one more weight.
    hop_share : float
        Weight of the mean link load (hop-bytes) beside the norm.
    by_loads : bool
        Whether loads count; else only hop-bytes do.
    links_only : bool
        Whether only links count, each by its bytes, and no injection FIFO or receiver.
    """

    doublings: int = 4
    hop_share: float = 0.5
    by_loads: bool = True
    links_only: bool = False

    @property
    def count(self) -> str:
        """What of a message counts, as of `MovingLoads`."""
        return "nbytes" if self.links_only or not self.by_loads else "wire_bytes"


class Annealer:
    """A mapping whose tasks change places, in turns of any length.

    Parameters
    ----------
    workload, torus, start
        What is sent, over which network, and the first mapping.
    places : (NDArray, NDArray)
        Node of every place that a task may be moved to, sorted, and the tasks that may move.
    goal : Goal
    uses : (Uses, int)
        Result of `usable`.
    seed : int
        Seed of all random choices.
    routing : Routing
        How messages are routed.
    """

    def __init__(
        self,
        workload: Workload,
        torus: Torus,
        start: TaskMapping,
        places: tuple[NDArray[np.int32], NDArray[np.int32]],
        goal: Goal,
        uses: tuple[Uses, int],
        *,
        seed: int,
        routing: Routing = "deterministic",
        ends: tuple[Ends, float] | None = None,
    ) -> None:
        self.loads = MovingLoads(
            workload, torus, start, count=goal.count, routing=routing, uses=uses, ends=ends
        )
        self.objective = objective_of(self.loads, goal)
        place_node, movable = places
        n_nodes, most_nodes = torus.n_nodes, max(1, _MOST_TASKS // start.tasks_per_node)
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
                most_nodes,
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
        hot = np.zeros(0, dtype=np.int32)
        if self.objective.by_loads:
            hot = self.hot_tasks()
        scale = max(self.energy, 1e-300)
        *_, proposals = anneal(
            self.walker, self.objective, hot, n_steps, hot_at * scale, cold_at * scale
        )
        self.proposals += int(proposals)
        # Loads stay exact; hops are counted again, which costs little compared with a turn.
        self.loads.units_of_hops = self._hops()
        energy = self.energy
        if energy < self.best_energy:
            self.best_energy = energy
            self.best_node = self.loads.node.copy()

    def _hops(self) -> int:
        ends = self.loads.ends
        task = np.repeat(np.arange(self.loads.node.size), np.diff(ends.first))
        src, dst = self.loads.node[task], self.loads.node[ends.partner]
        pair = src.astype(np.int64) * self.loads.torus.n_nodes + dst
        return int((self.loads.uses.hops[pair].astype(np.int64) * ends.weight)[ends.sends].sum())

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
    seconds = seconds * loads.unit
    mean_second = float(seconds[: torus.n_links][torus.link_exists].mean())
    rate = np.tile(seconds / loads.parts, loads.n_phases)
    # The scale is the same for all mappings, so that energies can be compared.
    traffic = float(loads.ends.weight.sum()) / 2 / n_links
    scale = traffic * float(seconds.max()) or 1.0
    hop_share = goal.hop_share * mean_second / n_links / scale
    return Objective(rate / scale, loads.n_phases, goal.doublings, True, hop_share)
