"""Simulations with real packets and longer ones: what they cost, and what they say."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from toruscast.features import RoutedTraffic
from toruscast.mapping import CommGraph, TaskMapping, Torus, Workload, as_workload
from toruscast.routing import Routing, dilations
from toruscast.routing.packets import mean_message, packet_counts
from toruscast.simulation.coarsening import LARGEST_PACKET
from toruscast.training.predictor._relative import reach_of_corrections
from toruscast.workers import Task

from .posterior import Kernel, Posterior
from .race import Goal

Floats = NDArray[np.float64]
# How far times are off with so many packets in one, where messages wait for each other, in
# logarithms; where nobody waits, the packets' length hardly matters. Root mean squares of the
# default model's samples (`benchmarks/posterior.py`), which these times order with an RCC of .99 to
# .95.
_OFF = {2: 0.023, 4: 0.046, 8: 0.059, 16: 0.072}
# A message that keeps n packets is off by .25 over the root of n at most (`python -m studies run
# unseen`). Where it keeps one, the release bound still orders better by this share.
_BY_LENGTH, _OF_BOUND = 0.25, 0.3
_ALIKE = Kernel(common=0.25, smooth=0.2, own=0.55)

HOPS_A_SECOND = 5e6
"""Packet-hops that a core simulates in a second, at least."""
MOST_HOPS = 100e6
"""Packet-hops that a proof, or the order of all candidates, may take: ten seconds of a core."""
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
        self.spent: dict[str, float] = {}
        """Seconds of all calls, with longer packets (``coarse``) and with real ones (``full``)."""

    def __call__(
        self, which: NDArray[np.int64], coarsening: int | None = None, seconds: float = np.inf
    ) -> Floats:
        """Return the times of these candidates, seconds; NaN of those not begun in time."""
        began = time.monotonic()
        items = [(self.mappings[i], coarsening) for i in which]
        found = np.full(len(items), np.nan)
        at_once = len(items) if np.isinf(seconds) else self.n_jobs
        for first in range(0, len(items), max(1, at_once)):
            if time.monotonic() - began >= seconds:
                break
            some = items[first : first + at_once]
            found[first : first + at_once] = self._time.in_order(some, self.n_jobs)
        source = "full" if coarsening is None else "coarse"
        self.spent[source] = self.spent.get(source, 0.0) + time.monotonic() - began
        return found


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
    *,
    goal: Goal = "fastest",
) -> list[int]:
    """Return how many packets may be one so that simulating all candidates takes seconds.

    The least first; 1 means real packets. None is there if it takes longer anyhow, or than these
    ``seconds`` of a core; the order may take all of them. Each candidate is simulated so many
    ``times``.
    """
    most_hops = HOPS_A_SECOND * seconds
    if goal == "fastest":
        most_hops = min(most_hops, MOST_HOPS)
    network = torus.network
    most = min(mean_message(workload, torus), LARGEST_PACKET / (network.payload + network.header))
    merged = [2**k for k in range(int(max(most, *_OFF)).bit_length())]
    costs = (times * len(mappings) * mean_hops(workload, torus, mappings, m) for m in merged)
    least = next((m for m, cost in zip(merged, costs, strict=True) if cost <= most_hops), np.inf)
    return [m for m in merged if m >= least]


def error_of(merged: int, packets: float) -> float:
    """Return how far times of messages of so many packets are off, where they wait.

    Examples
    --------
    >>> error_of(4, 8.0), error_of(64, 1600.0)
    (0.046, 0.05)
    """
    by_length = _BY_LENGTH * math.sqrt(merged / packets)
    return min(_OFF.get(merged, by_length), by_length)


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
    width = error_of(merged, packets) * reach_of_corrections(times, lower_bounds)
    logs = np.log(times)
    apart = np.log(release_bounds) - logs
    share = _OF_BOUND * min(1.0, merged / packets)
    return Posterior(logs + share * (apart - apart.mean()), width, features, _ALIKE)
