"""Simulation of candidates: possible networks, cost in packet-hops, and error of coarse packets.

A coarse simulation merges n real packets into one and is about n times faster. If some rules of the
network are unknown (`Network.rules`), each candidate is simulated on several networks, because
these rules matter as much as the routes. The geometric mean of the times is then used.

Costs are counted in packet-hops, not wall-clock seconds, so the same input gives the same answer.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from toruscast._features import RoutedTraffic, extract_blocks
from toruscast.mapping import MappingProblem, TaskMapping, Torus
from toruscast.routing import dilations
from toruscast.routing.messages import mean_message_packets, packet_counts
from toruscast.simulation.flows import simulate_flows
from toruscast.simulation.simulator import simulate
from toruscast.simulation.state import LARGEST_PACKET
from toruscast.training.residuals import correction_scale
from toruscast.typing import Floats
from toruscast.validation import Routing
from toruscast.workers import Task

from .posterior import COARSE, ErrorComponent, Indices, Kernel, Posterior

SURE_BOUND = "sure_bound"
"""Property of `RoutedTraffic`: no simulated time is below it, even after rounding."""
HOPS_PER_SECOND = 5e6
"""Packet-hops that a core simulates per second, a low estimate."""
MAX_HOPS = 100e6
"""Maximum packet-hops of a proof or of a sweep of the rivals: at most 20 seconds of a core."""
# Number of mappings over which packet-hops are averaged.
_N_COUNTED = 5
# Relative errors of coarse times, by coarsening, if messages wait long. They are the independent
# errors on unseen graphs (root mean square 0.028, 0.045 and 0.051 for 4, 8 and 16 packets), divided
# by the mean correction scale of the candidates (`benchmarks/posterior.py`).
_COARSE_ERRORS = {2: 0.028, 4: 0.040, 8: 0.062, 16: 0.070, 64: 0.100}
_COARSE_KERNEL = Kernel(common=0.25, smooth=0.2, independent=0.55)
# If messages have n coarse packets, the error is at most 0.32 / sqrt(n). For n = 1, log times are
# moved towards the release bound by a share of 0.3, which improves their order (`python -m studies
# run unseen`).
_LENGTH_ERROR, _BOUND_SHARE = 0.32, 0.3
_BY_DIRECTION = {
    "fifo_rule": "first_dimension",
    "feeding": "messages",
    "arbitration": "round_robin",
    "tie_break": "sum_parity",
}


class CandidateNetwork(NamedTuple):
    """A network that the machine may have."""

    name: str
    torus: Torus
    flows: bool = False
    """Whether messages share links as flows, without packets and buffers."""


def candidate_networks(torus: Torus, routing: Routing = "deterministic") -> list[CandidateNetwork]:
    """Return the networks that a machine may have: one, unless some of its rules are unknown.

    - ``as described``: the network with the given values of its unknown rules;
    - ``by direction``: each injection FIFO belongs to a direction, messages of a task are sent one
      after the other, and links serve their inputs in turn;
    - ``flows``, in deterministic routing: messages share links without packets and buffers.

    The networks also differ in their tie rules. As in all transports, messages between the same two
    tasks do not interleave their packets.
    """
    unknown = torus.network.unknown_rules
    known = torus.with_network(unknown_rules=())
    networks = [CandidateNetwork("as described", known)]
    if not unknown:
        return networks
    networks.append(CandidateNetwork("by direction", _with_rules(known, unknown, _BY_DIRECTION)))
    if routing == "deterministic":
        flows = _with_rules(known, unknown, {"tie_break": "split"})
        networks.append(CandidateNetwork("flows", flows, flows=True))
    return networks


def _with_rules(torus: Torus, unknown: Sequence[str], rules: Mapping[str, str]) -> Torus:
    """Return the torus with new rules in place of the unknown ones."""
    rules = {name: value for name, value in rules.items() if name in unknown}
    tie_break = rules.pop("tie_break", torus.tie_break)
    # For twisted tori, only one tie rule is defined.
    tie_break = torus.tie_break if torus.twist else tie_break
    return replace(torus.with_network(**rules), tie_break=tie_break)  # type: ignore[arg-type]


class CandidateSimulator:
    """Simulator of the candidates of a problem, with real or with coarse packets.

    Parameters
    ----------
    lower, release : ndarray, shape (n,)
        Bounds in seconds that are used to correct coarse times.
    networks : sequence of CandidateNetwork, optional
        Networks that the machine may have; by default, `candidate_networks`.
    bounds : ndarray, shape (n, n_networks), optional
        Lower bounds of the simulated seconds on each network.
    """

    def __init__(
        self,
        problem: MappingProblem,
        mappings: Sequence[TaskMapping],
        lower: Floats,
        release: Floats,
        n_jobs: int = 1,
        networks: Sequence[CandidateNetwork] | None = None,
        bounds: Floats | None = None,
    ) -> None:
        self.lower, self.release = lower, release
        self.packets = problem.derive(mean_message_packets)
        """Packets of the mean message."""
        self.problem, self.mappings, self.n_jobs = problem, mappings, n_jobs
        self.networks = networks or candidate_networks(problem.torus, problem.routing)
        self._problems = [replace(problem, torus=network.torus) for network in self.networks]
        self.bounds = np.zeros((len(mappings), len(self.networks))) if bounds is None else bounds
        self.times = np.full_like(self.bounds, np.nan)
        """Latest simulated seconds on each network, ``(n, n_networks)``."""
        self.spent: dict[str, float] = {}
        """Wall-clock seconds of coarse and of full simulations, for information only."""

    def simulate(self, candidates: Indices, coarsening: int = 1) -> Floats:
        """Return the simulated seconds of candidates: the geometric means over the networks."""
        start = time.monotonic()
        for column, network in enumerate(self.networks):
            task = Task(_simulate_mapping, self._problems[column], network)
            items = [(self.mappings[i], coarsening) for i in candidates]
            self.times[candidates, column] = task.in_order(items, self.n_jobs)
        source = "full" if coarsening == 1 else "coarse"
        self.spent[source] = self.spent.get(source, 0.0) + time.monotonic() - start
        return average_networks(self.times[candidates])

    def hops(self, coarsening: int = 1) -> float:
        """Return the mean packet-hops of a candidate, summed over networks."""
        return len(self.networks) * mean_hops(self.problem, self.mappings, coarsening)

    @property
    def levels(self) -> list[int]:
        """Possible coarsenings, powers of 2, finest first."""
        network = self.problem.torus.network
        largest = LARGEST_PACKET / (network.payload + network.header)
        max_level = max(min(self.packets, largest), 16)
        return [2**k for k in range(int(max_level).bit_length())]

    def condition_on_coarse(
        self, posterior: Posterior, candidates: Indices, times: Floats, coarsening: int
    ) -> Posterior:
        """Return the posterior conditioned on coarse times.

        To improve the order of the candidates, log times are moved towards the release bound; the
        fewer coarse packets messages have, the further. The mean of the log times is unchanged.
        """
        std = np.zeros(posterior.n)
        scale = correction_scale(times, self.lower[candidates])
        std[candidates] = coarse_error(coarsening, self.packets) * scale
        logs = np.log(times)
        difference = np.log(self.release[candidates]) - logs
        share = _BOUND_SHARE * min(1.0, coarsening / max(self.packets, 1.0))
        logs = logs + share * (difference - difference.mean())
        posterior = posterior.with_error(COARSE, COARSE, ErrorComponent(std, _COARSE_KERNEL))
        return posterior.condition(candidates, COARSE, np.exp(logs))


def average_networks(times: Floats) -> Floats:
    """Return the geometric mean over networks, ``(n, n_networks) -> (n,)``."""
    # Divide by the minimum, which makes the mean of equal times exact.
    min_times = times.min(axis=1)
    ratios = np.divide(times, min_times[:, None], out=np.ones_like(times), where=times > 0)
    return np.asarray(min_times * np.exp(np.log(ratios).mean(axis=1)))


def simulate_mean(
    problem: MappingProblem, mapping: TaskMapping, error: float
) -> tuple[float, float]:
    """Return the simulated seconds of a mapping, and their relative error, at most ``error``.

    If several networks are plausible, the seconds are the geometric mean over them.
    """
    simulations: list[Any] = []
    for network in candidate_networks(problem.torus, problem.routing):
        run = simulate_flows if network.flows else simulate
        on_network = replace(problem, torus=network.torus)
        simulations.append(run(on_network, mapping=mapping, error=error))
    times = np.array([[simulation.time for simulation in simulations]])
    # The first network is always simulated with packets.
    is_exact = len(simulations) == 1 and simulations[0].coarsening == 1
    return float(average_networks(times)[0]), 0.0 if is_exact else error


def bound_candidates(
    problem: MappingProblem, mappings: Sequence[TaskMapping], network: CandidateNetwork, n_jobs: int
) -> Floats:
    """Return lower bounds of the times simulated on one network, ``(n_mappings,)``.

    With dependent rounds, flows may be faster than the sure bound, which holds for packets, so
    flows get only the bounds of links and nodes.
    """
    has_waits = network.flows and problem.workload.dependent
    bound = {SURE_BOUND: attrgetter("bounds.total" if has_waits else SURE_BOUND)}
    on_network = replace(problem, torus=network.torus)
    blocks = extract_blocks(on_network, mappings, features=(), extra=bound, n_jobs=n_jobs)
    return np.concatenate([block[SURE_BOUND] for block in blocks]).astype(np.float64)


def _simulate_mapping(
    problem: MappingProblem, network: CandidateNetwork, item: tuple[TaskMapping, int]
) -> float:
    """Return the simulated seconds of a mapping on a network, given (mapping, coarsening)."""
    mapping, coarsening = item
    if network.flows:
        return simulate_flows(problem, mapping=mapping).time
    merged = None if coarsening == 1 else coarsening
    return RoutedTraffic(problem, mapping, merged).simulation.time


def mean_hops(
    problem: MappingProblem, mappings: Sequence[TaskMapping], coarsening: int = 1
) -> float:
    """Return the mean packet-hops per mapping, from a sample of the mappings."""
    packets, _ = packet_counts(problem, coarsening)
    counted = mappings[:: max(1, len(mappings) // _N_COUNTED)]
    return float(np.mean([packets @ dilations(problem, mapping) for mapping in counted]))


def simulation_minutes(problem: MappingProblem, mappings: Sequence[TaskMapping], n: int) -> float:
    """Return a high estimate of the processor minutes that ``n`` simulations take."""
    return n * mean_hops(problem, mappings) / HOPS_PER_SECOND / 60


def coarse_error(coarsening: int, packets: float) -> float:
    """Return the relative error of coarse times, if messages have ``packets`` real packets."""
    levels = np.log(list(_COARSE_ERRORS))
    by_level = np.interp(math.log(coarsening), levels, list(_COARSE_ERRORS.values()))
    by_length = _LENGTH_ERROR * math.sqrt(coarsening / max(packets, 1.0))
    # The table contains only the independent part of the error.
    return min(float(by_level) / math.sqrt(_COARSE_KERNEL.independent), by_length)
