"""What can be simulated, what it costs, and how far coarse simulations are off.

Packets can be merged: so many real ones are one in a coarse simulation, which costs that much less.
Where the rules of the network are not public (`Network.rules`), each candidate is simulated on a
few networks that the machine may have, and the geometric mean counts: which FIFO a message takes,
how a node feeds its messages and which packet goes first decide as much as the routes do.

Costs are packet-hops, never seconds on the clock, so that the same input gives the same answer.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._features import RoutedTraffic
from toruscast.mapping import MappingProblem, TaskMapping, Torus
from toruscast.routing import dilations
from toruscast.routing.messages import mean_message, packet_counts
from toruscast.simulation.flows import flow_messages
from toruscast.simulation.state import LARGEST_PACKET
from toruscast.training.residuals import reach_of_corrections
from toruscast.validation import Routing
from toruscast.workers import Task

from .posterior import COARSE, ErrorTerm, Kernel, Posterior

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

HOPS_PER_SECOND = 5e6
"""Packet-hops that a core simulates in a second, at least."""
MAX_HOPS = 100e6
"""Packet-hops that a proof, or a sweep of the rivals, may take: 20 seconds of a core at most."""
# Mappings whose packet-hops are counted.
_N_COUNTED = 5
# Errors of coarse times where messages wait much, in logarithms, by the packets in one: the part of
# each candidate alone on unseen graphs, .028, .045 and .051 in the root mean square for 4, 8 and 16
# packets, over the reach that candidates have in the mean (`benchmarks/posterior.py`).
_COARSE_ERRORS = {2: 0.028, 4: 0.040, 8: 0.062, 16: 0.070, 64: 0.100}
# The part that a candidate has for itself in the variance of a coarse time.
_COARSE_KERNEL = Kernel(common=0.25, smooth=0.2, own=0.55)
# A message that keeps n packets is off by .32 over the root of n at most; where it keeps one, the
# release bound still orders better by this share (`python -m studies run unseen`).
_ERROR_OF_LENGTH, _BOUND_SHARE = 0.32, 0.3
# Error of the shares of flows: the RCC of measured times moves by .001, and the work halves
# (`studies/real_mpi`).
_FLOW_ERROR = 0.2


class PossibleNetwork(NamedTuple):
    """A network that the machine may have."""

    name: str
    torus: Torus
    flows: bool = False
    """Whether messages share links as flows, without packets and buffers."""


def possible_networks(torus: Torus, routing: Routing = "deterministic") -> list[PossibleNetwork]:
    """Return the networks that a machine may have: one, unless its rules are unknown.

    The one as it is described; one whose FIFOs belong to a direction and send packets of their
    messages in turn; and one without buffers, in which messages share links as flows do. The last
    is left out where packets choose their way.
    """
    own = torus.with_network(rules="given")
    found = [PossibleNetwork("as described", own)]
    if torus.network.rules == "given":
        return found
    in_turn = own.with_network(fifo_rule="first_dimension", feeding="packets")
    found.append(PossibleNetwork("packets in turn", in_turn))
    if routing == "deterministic":
        found.append(PossibleNetwork("flows", own, flows=True))
    return found


class Simulations:
    """Simulated times of the candidates of a problem, with real packets or with several in one.

    Parameters
    ----------
    lower, release : ndarray, shape (n,)
        Bounds in seconds, by which coarse times are corrected.
    """

    def __init__(
        self,
        problem: MappingProblem,
        mappings: Sequence[TaskMapping],
        lower: Floats,
        release: Floats,
        n_jobs: int = 1,
        networks: Sequence[PossibleNetwork] | None = None,
    ) -> None:
        self.lower, self.release = lower, release
        self.packets = problem.derive(mean_message)
        """Packets of the mean message."""
        self.problem, self.mappings, self.n_jobs = problem, mappings, n_jobs
        self.networks = networks or possible_networks(problem.torus, problem.routing)
        self.times = np.full((len(mappings), len(self.networks)), np.nan)
        """Latest simulated seconds on each network, ``(n, n_networks)``."""
        self.spent: dict[str, float] = {}
        """Seconds that went into coarse and into full simulations, for the record only."""

    def __call__(self, which: Indices, coarsening: int = 1) -> Floats:
        """Return the simulated seconds of these candidates, the geometric mean over networks."""
        began = time.monotonic()
        for column, network in enumerate(self.networks):
            problem = replace(self.problem, torus=network.torus)
            task = Task(_simulated_time, problem, network)
            items = [(self.mappings[i], coarsening) for i in which]
            self.times[which, column] = task.in_order(items, self.n_jobs)
        source = "full" if coarsening == 1 else "coarse"
        self.spent[source] = self.spent.get(source, 0.0) + time.monotonic() - began
        times = self.times[which]
        if times.shape[1] == 1:
            return times[:, 0]
        return np.asarray(np.exp(np.log(times).mean(axis=1)))

    def hops(self, coarsening: int = 1) -> float:
        """Return the packet-hops of a candidate on all networks."""
        return len(self.networks) * mean_hops(self.problem, self.mappings, coarsening)

    @property
    def levels(self) -> list[int]:
        """Numbers of packets that may be one, finest first: messages keep one of them."""
        network = self.problem.torus.network
        largest = LARGEST_PACKET / (network.payload + network.header)
        most = max(min(self.packets, largest), 16)
        return [2**k for k in range(int(most).bit_length())]

    def observe_coarse(
        self, posterior: Posterior, which: Indices, times: Floats, coarsening: int
    ) -> Posterior:
        """Return the posterior once these coarse times are observed.

        The fewer packets messages keep, the more the order is that of the release bounds.
        """
        width = np.zeros(posterior.n)
        reach = reach_of_corrections(times, self.lower[which])
        width[which] = coarse_error(coarsening, self.packets) * reach
        logs = np.log(times)
        apart = np.log(self.release[which]) - logs
        share = _BOUND_SHARE * min(1.0, coarsening / max(self.packets, 1.0))
        logs = logs + share * (apart - apart.mean())
        term = ErrorTerm(width, _COARSE_KERNEL)
        return posterior.with_error(COARSE, COARSE, term).condition(which, COARSE, np.exp(logs))


def _simulated_time(
    problem: MappingProblem, network: PossibleNetwork, item: tuple[TaskMapping, int]
) -> float:
    mapping, coarsening = item
    if network.flows:
        return flow_messages(problem, mapping, error=_FLOW_ERROR).time
    merged = None if coarsening == 1 else coarsening
    return RoutedTraffic(problem, mapping, merged).simulation.time


def mean_hops(
    problem: MappingProblem, mappings: Sequence[TaskMapping], coarsening: int = 1
) -> float:
    """Return the packet-hops of a mapping, the mean of some."""
    packets, _ = packet_counts(problem, coarsening)
    some = mappings[:: max(1, len(mappings) // _N_COUNTED)]
    return float(np.mean([packets @ dilations(problem, each) for each in some]))


def simulation_minutes(problem: MappingProblem, mappings: Sequence[TaskMapping], n: int) -> float:
    """Return about how many processor minutes ``n`` simulations take at most."""
    return n * mean_hops(problem, mappings) / HOPS_PER_SECOND / 60


def coarse_error(coarsening: int, packets: float) -> float:
    """Return how far times of messages of so many packets are off, where they wait."""
    known = np.log(list(_COARSE_ERRORS))
    of_number = np.interp(math.log(coarsening), known, list(_COARSE_ERRORS.values()))
    of_length = _ERROR_OF_LENGTH * math.sqrt(coarsening / max(packets, 1.0))
    # The errors are those of a candidate alone.
    return min(float(of_number) / math.sqrt(_COARSE_KERNEL.own), of_length)
