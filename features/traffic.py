"""Routed traffic: the routes, loads, bounds and simulations of one mapping."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, cast

from toruscast._lazy import lazy
from toruscast.mapping import CommGraph, MappingProblem, TaskMapping, Torus, Workload
from toruscast.routing.bounds import Bounds, MappingBounds, StretchBounds
from toruscast.routing.loads import (
    PhaseTotals,
    RouteLoads,
    check_routes,
    sum_loads,
    sum_loads_along_routes,
)
from toruscast.routing.messages import max_message_packets, median_message_packets, packet_counts
from toruscast.routing.routing import find_hops_and_fifos
from toruscast.simulation.clock_bounds import sure_bounds, sure_mean
from toruscast.simulation.results import Simulation
from toruscast.simulation.simulator import candidate_coarsenings, schedule_run, simulate
from toruscast.simulation.state import LARGEST_PACKET
from toruscast.typing import Floats, Int32s, Ints

# Accepted error of the simulated time.
_ERROR = 0.03
# For buffer lengths and delays, minimum number of simulated packets of the longest message.
_MIN_COUNTED_PACKETS = 1024
# Minimum coarsening of a coarse simulation, and packets into which it divides the median message.
# Fewer packets would fit into the buffers along the message's route, and the times would rank
# mappings worse (benchmarks/measurements.md).
_MIN_COARSENING = 4
_COMMON_PACKETS = 64


@dataclass(frozen=True, eq=False)
class RoutedTraffic:
    """The indicators of a mapping, from which its features are computed.

    Indicators are computed on first access. For a workload of several phases, they describe the
    summed traffic of all phases.

    Parameters
    ----------
    problem : MappingProblem
    mapping : TaskMapping
    coarsening : int, optional
        Real packets per simulated packet. By default, the largest number for which the estimated
        error of the time is at most 3 %; for buffer lengths and delays, one that leaves the longest
        message at least 1,024 packets.
    iterations : int
        Number of simulated iterations, as in `simulate`. Features are means over the iterations.

    Examples
    --------
    >>> problem = MappingProblem(CommGraph(2, [0], [1], [100]), (4,))
    >>> traffic = RoutedTraffic(problem, TaskMapping([0, 1], 4))
    >>> traffic.link_bytes
    array([100.,   0.,   0.,   0.,   0.,   0.,   0.,   0.])
    """

    problem: MappingProblem
    mapping: TaskMapping
    coarsening: int | None = None
    iterations: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "mapping", self.problem.mapping(self.mapping))
        check_routes(self.problem, self.mapping)

    @property
    def torus(self) -> Torus:
        """The torus."""
        return self.problem.torus

    @property
    def workload(self) -> Workload:
        """All phases of the traffic."""
        return self.problem.workload

    @property
    def comm(self) -> CommGraph:
        """The traffic of all phases in one graph."""
        return self.problem.comm

    @property
    def total_bytes(self) -> float:
        """Sum of the bytes of all edges."""
        return float(self.comm.nbytes.sum())

    @lazy
    def routes(self) -> StretchBounds:
        """The routes and bounds of the traffic, summed over all phases."""
        return StretchBounds(self.problem.total, self.mapping)

    @lazy
    def lower_bounds(self) -> MappingBounds:
        """The lower bounds of the time."""
        return MappingBounds(self.problem, self.mapping, self.routes)

    @property
    def hops(self) -> Int32s:
        """Hops of each edge of `comm`, shape ``(n_edges,)``; 0 within a node."""
        return self.routes.hops_and_fifos.hops

    @property
    def packet_hops(self) -> int:
        """Total number of hops of all packets, which determines the cost of a simulation."""
        packets, _ = packet_counts(self.problem)
        return int(packets @ find_hops_and_fifos(self.problem, self.mapping).hops)

    @lazy
    def totals(self) -> PhaseTotals:
        """Totals from one pass over the messages of all phases."""
        totals = self.routes.totals
        if self.problem.common_routing is not None:
            return totals
        return totals._replace(link_bytes=sum_loads(self.problem, self.mapping))

    @property
    def edges_by_hops(self) -> Ints:
        """Number of edges with 0, 1, 2, ... hops, shape ``(diameter + 1,)``."""
        return self.totals.edges_by_hops

    @lazy
    def all_link_bytes(self) -> Floats:
        """Bytes routed over each link number, shape ``(n_links,)``."""
        # A pass for link bytes alone is twice as fast as `totals`.
        if "totals" in vars(self) or self.problem.common_routing is None:
            return self.totals.link_bytes
        return sum_loads(self.problem.total, self.mapping)

    @lazy
    def all_wire_bytes(self) -> Floats:
        """Bytes with packet headers over each link number, shape ``(n_links,)``."""
        if len(self.workload) == 1:
            return self.totals.wire_bytes
        packets, wire = packet_counts(self.problem)
        return sum_loads(self.problem, self.mapping, packets * wire)

    @lazy
    def link_bytes(self) -> Floats:
        """Bytes routed over each existing link, shape ``(n_existing_links,)``."""
        return self.all_link_bytes[self.torus.link_exists]

    @property
    def fifo_length(self) -> Floats:
        """Messages in each torus injection FIFO, shape ``(n_nodes * fifos,)``."""
        return self.totals.fifo_length

    @lazy
    def along_routes(self) -> RouteLoads:
        """Link bytes along the dimension-ordered routes of the edges."""
        return sum_loads_along_routes(self.problem.total, self.mapping, self.all_link_bytes)

    @property
    def n_network_edges(self) -> int:
        """Number of edges between different nodes."""
        return int(self.edges_by_hops[1:].sum())

    @property
    def bounds(self) -> Bounds:
        """Lower bounds of the time by resource, as in `time_bounds`."""
        return self.lower_bounds.resources

    @property
    def rounds_apart(self) -> float:
        """How much dependent rounds may overlap; see `MappingBounds.rounds_apart`."""
        return self.lower_bounds.rounds_apart

    @property
    def release_bound(self) -> float:
        """Lower bound that includes release times of messages; never below that of `bounds`.

        For adaptive phases and dependent rounds, it is the bound of `bounds`.
        """
        return self.lower_bounds.best

    @lazy
    def sure(self) -> Bounds:
        """Lower bounds of the simulated time of one iteration on an idle network, by resource.

        They hold for all choices that packets can make, and allow for clock rounding. If packets
        may choose their routes, the link bound is an estimate, but the total is a true bound.
        """
        return sure_bounds(self.lower_bounds, schedule_run(self.problem), self._coarsenings)

    @lazy
    def sure_bound(self) -> float:
        """Lower bound of the simulated time, in seconds, for all choices that packets can make.

        For several iterations, it is a bound of their mean time, and computing it requires a
        simulation of the first iteration. If packets make random choices, the bound of the mean is
        valid only for a finished simulation. Before the simulation, it covers only phases between
        barriers, and is 0 without barriers.
        """
        if self.iterations == 1:
            return self.sure.total
        return sure_mean(
            self.lower_bounds,
            self.iterations,
            self._coarsenings,
            self._time_first_iteration,
            is_of_one="simulation" in vars(self),
        )

    def _time_first_iteration(self, coarsening: int) -> float:
        """Return the simulated seconds of the first iteration alone."""
        simulation = self.__dict__.get("simulation")
        if simulation is not None and simulation.coarsening == coarsening:
            return float(simulation.alone)
        return replace(self, coarsening=coarsening, iterations=1).simulation.time

    @property
    def _max_coarsening(self) -> int:
        network = self.torus.network
        return LARGEST_PACKET // (network.payload + network.header)

    @property
    def _coarsenings(self) -> Sequence[int]:
        """The possible coarsenings of `simulation`."""
        if self.coarsening is not None:
            return [self.coarsening]
        return candidate_coarsenings(self.problem.derive(max_message_packets), self._max_coarsening)

    def simulated_as(self, simulation: Simulation) -> Self:
        """Return this traffic with a finished simulation attached."""
        traffic = replace(self, coarsening=simulation.coarsening, iterations=simulation.iterations)
        traffic.__dict__["simulation"] = simulation
        return traffic

    @lazy
    def simulation(self) -> Simulation:
        """The packet-level simulation that gives the time."""
        if self.coarsening is not None:
            return self._simulate(coarsening=self.coarsening)
        counted = self.__dict__.get("counted")
        if counted is not None and counted.coarsening == 1:
            # Reuse the finished full simulation.
            return cast(Simulation, counted)
        return self._simulate(error=_ERROR)

    def _simulate(self, **options: Any) -> Simulation:
        return simulate(self.problem, mapping=self.mapping, iterations=self.iterations, **options)

    @lazy
    def counted(self) -> Simulation:
        """The packet-level simulation that gives buffer lengths and delays.

        Its coarsening determines the counts of packets, so it is the same for all mappings.
        """
        coarsening = self.coarsening
        if coarsening is None:
            coarsening = self.problem.derive(max_message_packets) // _MIN_COUNTED_PACKETS
            coarsening = max(1, min(coarsening, self._max_coarsening))
        simulation = self.__dict__.get("simulation")
        if coarsening == self.coarsening or getattr(simulation, "coarsening", None) == coarsening:
            return self.simulation
        return self._simulate(coarsening=coarsening)

    @property
    def coarse_factor(self) -> int:
        """Real packets per packet in the coarse simulation; 1 if every edge has only one packet."""
        if packet_counts(self.problem)[0].max(initial=0) <= 1:
            return 1
        coarsening = self.problem.derive(median_message_packets) // _COMMON_PACKETS
        return max(_MIN_COARSENING, min(coarsening, self._max_coarsening))

    @lazy
    def coarse(self) -> Simulation:
        """A simulation with packets four times as long, at about a quarter of the cost.

        A median message of 320 packets or more is merged into 64 to 80 packets.
        """
        return self._simulate(coarsening=self.coarse_factor)

    @property
    def buffer_length(self) -> Floats:
        """Number of packets in the buffer of each existing link, integrated over an iteration."""
        return self.counted.buffered_seconds[self.torus.link_exists] / self.iterations

    @property
    def delay(self) -> Floats:
        """Mean time (s) that a packet spends in the buffer of each existing link."""
        return self.counted.delay[self.torus.link_exists]
