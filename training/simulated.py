"""Simulated times of candidates, and what they cost."""

from __future__ import annotations

from collections.abc import Sequence

import joblib
import numpy as np
from numpy.typing import NDArray

from toruscast.features import RoutedTraffic
from toruscast.mapping import CommGraph, TaskMapping, Torus, Workload, as_workload
from toruscast.routing import Routing

Floats = NDArray[np.float64]
# Packet-hops that a core simulates in a second, at least.
_HOPS_A_SECOND = 5e6
# Mappings whose packet-hops are counted.
_LOOKED_AT = 5


class Simulate:
    """Simulated times of some candidates."""

    def __init__(
        self,
        workload: Workload,
        torus: Torus,
        mappings: Sequence[TaskMapping],
        routing: Routing,
        n_jobs: int,
    ) -> None:
        self.routed = [RoutedTraffic(workload, torus, mapping, routing) for mapping in mappings]
        self.workers = joblib.Parallel(n_jobs=n_jobs, prefer="threads")

    def __call__(self, which: NDArray[np.int64]) -> Floats:
        """Return the times of these candidates, seconds."""
        times = self.workers(joblib.delayed(self._time)(int(i)) for i in which)
        return np.array(times, dtype=np.float64)

    def _time(self, number: int) -> float:
        known = self.routed[number]
        # A copy: what was computed on the way is let go.
        return RoutedTraffic(
            known.workload, known.torus, known.mapping, known.routing
        ).simulation.time


def mean_hops(
    traffic: Workload | CommGraph, torus: Torus, mappings: Sequence[TaskMapping]
) -> float:
    """Return the packet-hops of a mapping, the mean of some."""
    workload = as_workload(traffic)
    some = mappings[:: max(1, len(mappings) // _LOOKED_AT)]
    return float(np.mean([RoutedTraffic(workload, torus, each).packet_hops for each in some]))


def simulation_minutes(
    traffic: Workload | CommGraph, torus: Torus, mappings: Sequence[TaskMapping], n: int
) -> float:
    """Return about how many processor minutes ``n`` simulations take at most."""
    return n * mean_hops(traffic, torus, mappings) / _HOPS_A_SECOND / 60
