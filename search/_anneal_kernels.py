"""Kernels of simulated annealing over the places of tasks.

Letters in the comments: N nodes, T tasks, S places (slots that tasks may be moved to), P phases,
R resources, D dimensions.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import bare_kernel, kernel

from ._move_kernels import (
    Change,
    Ends,
    Places,
    ProposedStep,
    Random,
    Uses,
    accept,
    propose,
    propose_step,
    uniform,
    withdraw,
)


class Objective(NamedTuple):
    """The quantity that annealing makes small."""

    rate: NDArray[
        np.float64
    ]  # (P * R,) weight of a part of a load, relative to the busiest one at first
    n_phases: int
    doublings: int  # the norm's power is 2 ** doublings
    by_loads: bool  # whether loads count; else only hops
    hop_share: float  # weight of a unit of traffic times a hop


class Walker(NamedTuple):
    """The mapping that annealing changes."""

    ends: Ends
    uses: Uses
    change: Change
    places: Places
    steps: ProposedStep
    node: NDArray[np.int32]  # (T,)
    load: NDArray[np.int64]  # (P * R,)
    random: Random


@bare_kernel
def raised(value: float, doublings: int) -> float:
    """Return a value to the power of 2 ** doublings."""
    for _ in range(doublings):
        value *= value
    return value


@kernel
def sums_of_powers(objective: Objective, load: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the sum of the loads' powers in each phase. (P * R,) -> (P,)."""
    n_resources = load.size // objective.n_phases
    sums = np.zeros(objective.n_phases)
    for place in range(load.size):
        if load[place]:
            x = load[place] * objective.rate[place]
            sums[place // n_resources] += raised(x, objective.doublings)
    return sums


@kernel
def heat_of_tasks(
    objective: Objective,
    ends: Ends,
    uses: Uses,
    node: NDArray[np.int32],
    load: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return how much each task's traffic adds to the sums of powers now. -> (T,)."""
    slope = np.zeros(load.size)
    for place in range(load.size):
        if load[place]:
            x = load[place] * objective.rate[place]
            slope[place] = raised(x, objective.doublings) / load[place]
    heat = np.zeros(node.size)
    for task in range(node.size):
        for e in range(ends.first[task], ends.first[task + 1]):
            here, there = np.int64(node[task]), np.int64(node[ends.partner[e]])
            pair = here * uses.n_nodes + there if ends.sends[e] else there * uses.n_nodes + here
            on_way = 0.0
            for u in range(uses.first[pair], uses.first[pair + 1]):
                on_way += slope[ends.base[e] + np.int64(uses.resource[u])]
            heat[task] += on_way * ends.weight[e]
    return heat


@kernel
def anneal(
    walker: Walker,
    objective: Objective,
    hot: NDArray[np.int32],
    n_steps: int,
    hot_at: float,
    cold_at: float,
) -> tuple[int, int]:
    """Propose steps while the temperature falls; return the change of hops, and proposals.

    ``hot`` lists the tasks to begin with.
    """
    load, change = walker.load, walker.change
    steps = walker.steps
    n_resources = load.size // objective.n_phases
    root = 1.0 / 2.0**objective.doublings
    sums = sums_of_powers(objective, load) if objective.by_loads else np.zeros(1)
    new_sums = sums.copy()
    smooth = 0.0
    for phase in range(sums.size):
        smooth += sums[phase] ** root
    cooling = math.log(cold_at / hot_at) / max(n_steps - 1, 1)
    hops = 0
    proposals = 0
    for step in range(n_steps):
        n_moved = propose_step(
            walker.places,
            steps,
            walker.ends,
            walker.uses,
            walker.node,
            hot,
            walker.random,
            change.node,
        )
        if n_moved == 0:
            continue
        proposals += 1
        n_listed, more_hops = propose(
            walker.ends, walker.uses, walker.node, steps.moved, n_moved, objective.by_loads, change
        )
        new_smooth = smooth
        if objective.by_loads:
            for phase in range(sums.size):
                new_sums[phase] = sums[phase]
            for i in range(n_listed):
                place = change.listed[i]
                rate = objective.rate[place]
                before = load[place] * rate
                after = (load[place] + change.amount[i]) * rate
                phase = place // n_resources if sums.size > 1 else 0
                new_sums[phase] += raised(after, objective.doublings) - raised(
                    before, objective.doublings
                )
            new_smooth = 0.0
            for phase in range(sums.size):
                # Rounding may give a value below zero.
                new_smooth += max(new_sums[phase], 0.0) ** root
        worse = new_smooth - smooth + more_hops * objective.hop_share
        temperature = hot_at * math.exp(cooling * step)
        if worse <= 0 or uniform(walker.random) < math.exp(-worse / temperature):
            accept(walker.node, load, steps.moved, n_moved, n_listed, change)
            for i in range(steps.count[0]):
                task = steps.task[i]
                walker.places.content[steps.to[i]] = task
                if task >= 0:
                    walker.places.of_task[task] = steps.to[i]
            for phase in range(sums.size):
                sums[phase] = new_sums[phase]
            smooth = new_smooth
            hops += more_hops
        else:
            withdraw(walker.node, steps.moved, n_moved, change)
    return hops, proposals
