"""The order of the candidates that were not simulated, once the fastest is found."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from toruscast.features import RoutedTraffic
from toruscast.mapping import CommGraph, TaskMapping, Torus, Workload, as_workload
from toruscast.routing import Routing, dilations
from toruscast.routing.packets import mean_message, packet_counts
from toruscast.simulation.coarsening import LARGEST_PACKET
from toruscast.workers import Task

from .posterior import Kernel, Posterior
from .race import Race

Floats = NDArray[np.float64]
# Packet-hops that the order of all candidates may take: about ten seconds of a core.
_MOST_HOPS = 100e6
# How far times are off with so many packets in one, where messages wait for each other, in
# logarithms; where nobody waits, the packets' length hardly matters. Root mean squares of the
# default model's samples (`benchmarks/posterior.py`), which these times order with an RCC of .98 to
# .93, where the model gives .89.
_OFF = {2: 0.025, 4: 0.042, 8: 0.062, 16: 0.095}
# A message that keeps n packets is off by .25 over the root of n at most (`python -m studies run
# unseen`). Where it keeps one, the release bound still orders better by this share.
_BY_LENGTH, _OF_BOUND = 0.25, 0.3
_HALF = 0.1
_LEAST_WAITING = 0.01
_ALIKE = Kernel(common=0.25, smooth=0.2, own=0.55)
# Candidates that are simulated before the progress is told.
_TOLD_AFTER = 16

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


def affordable(
    workload: Workload,
    torus: Torus,
    mappings: Sequence[TaskMapping],
    seconds: float = np.inf,
    times: float = 1.0,
) -> int | None:
    """Return how many packets must be one so that simulating all candidates takes seconds.

    1 means real packets; None is returned if it takes longer anyhow, or than these ``seconds`` of a
    core. Each candidate is simulated so many ``times``.
    """
    most_hops = min(_MOST_HOPS, HOPS_A_SECOND * seconds)
    network = torus.network
    most = min(mean_message(workload, torus), LARGEST_PACKET / (network.payload + network.header))
    merged = 1
    while merged <= max(most, *_OFF):
        if times * len(mappings) * mean_hops(workload, torus, mappings, merged) <= most_hops:
            return merged
        merged *= 2
    return None


def error_of(merged: int, packets: float) -> float:
    """Return how far times of messages of so many packets are off, where they wait.

    Examples
    --------
    >>> error_of(4, 8.0), error_of(64, 1600.0)
    (0.042, 0.05)
    """
    by_length = _BY_LENGTH * math.sqrt(merged / packets)
    return min(_OFF.get(merged, by_length), by_length)


def simulate_rest(
    race: Race, simulate: Simulate, progress: Callable[[int, int], None] | None = None
) -> None:
    """Simulate the candidates that were not, some at a time."""
    left = np.flatnonzero(~race.is_simulated)
    for part in np.array_split(left, max(1, left.size // _TOLD_AFTER)):
        race.observe(part, simulate(part))
        if progress is not None:
            progress(len(race.order), race.times.size)


def sketched(
    times: Floats,
    merged: int,
    packets: float,
    lower_bounds: Floats,
    release_bounds: Floats,
    features: Floats,
) -> Posterior:
    """Return what times with so many packets in one say of those with real ones.

    Messages have so many ``packets``. The fewer they keep, the more the order is that of the
    ``release_bounds``.
    """
    waiting = np.abs(times / lower_bounds - 1) + _LEAST_WAITING
    width = error_of(merged, packets) * waiting / (waiting + _HALF)
    logs = np.log(times)
    apart = np.log(release_bounds) - logs
    share = _OF_BOUND * min(1.0, merged / packets)
    return Posterior(logs + share * (apart - apart.mean()), width, features, _ALIKE)
