"""Simulated times of candidates, some at a time, and what simulating them costs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from toruscast.features import RoutedTraffic
from toruscast.mapping import CommGraph, TaskMapping, Torus, Workload, as_workload
from toruscast.routing import Routing, dilations
from toruscast.routing.packets import packet_counts
from toruscast.workers import Task

Floats = NDArray[np.float64]
HOPS_A_SECOND = 5e6
"""Packet-hops that a core simulates in a second, at least."""
# Mappings whose packet-hops are counted.
_LOOKED_AT = 5


class Simulate:
    """Simulated times of some candidates.

    With a ``coarsening``, so many real packets are one in the simulation.
    """

    def __init__(
        self,
        workload: Workload,
        torus: Torus,
        mappings: Sequence[TaskMapping],
        routing: Routing,
        n_jobs: int,
    ) -> None:
        self.workload, self.torus, self.mappings = workload, torus, mappings
        self.routing, self.n_jobs = routing, n_jobs
        self._time = Task(_time, workload, torus, routing)

    def __call__(self, which: NDArray[np.int64], coarsening: int | None = None) -> Floats:
        """Return the times of these candidates, seconds."""
        items = [(self.mappings[i], coarsening) for i in which]
        return np.array(self._time.in_order(items, self.n_jobs), dtype=np.float64)


def _time(
    workload: Workload, torus: Torus, routing: Routing, item: tuple[TaskMapping, int | None]
) -> float:
    mapping, coarsening = item
    return RoutedTraffic(workload, torus, mapping, routing, coarsening).simulation.time


def mean_hops(
    traffic: Workload | CommGraph,
    torus: Torus,
    mappings: Sequence[TaskMapping],
    coarsening: int = 1,
) -> float:
    """Return the packet-hops of a mapping, the mean of some."""
    phases = as_workload(traffic).unrolled
    packets, _ = packet_counts(phases.comm, torus, coarsening)
    some = mappings[:: max(1, len(mappings) // _LOOKED_AT)]
    hops = [packets @ dilations(phases.comm, torus, phases.placed(each)) for each in some]
    return float(np.mean(hops))


def simulation_minutes(
    traffic: Workload | CommGraph, torus: Torus, mappings: Sequence[TaskMapping], n: int
) -> float:
    """Return about how many processor minutes ``n`` simulations take at most."""
    return n * mean_hops(traffic, torus, mappings) / HOPS_A_SECOND / 60
