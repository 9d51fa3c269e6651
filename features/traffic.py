"""One workload on one torus under one mapping, routed: what every feature is computed from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from toruscast._lazy import lazy
from toruscast.mapping import CommGraph, MappingProblem, TaskMapping, Torus, Workload
from toruscast.routing.bounds import Bounds, MappingBounds
from toruscast.routing.loads import (
    Along,
    PhaseRoutes,
    Tally,
    check_ways,
    loads_along_routes,
    sum_loads,
)
from toruscast.routing.messages import common_message, longest_message, packet_counts
from toruscast.routing.routing import edge_ways
from toruscast.simulation.clock_bounds import sure_bounds, sure_mean
from toruscast.simulation.results import Simulation
from toruscast.simulation.simulator import attempts, simulate_packets, stretches_of
from toruscast.simulation.state import LARGEST_PACKET

_ERROR = 0.03
# Packets of the longest message where packets are counted; all, if it has fewer than twice as many.
_COUNTED = 1024
# How many times as long packets of the sketch are at least, and packets of its usual message:
# fewer fit into the buffers on their way, and rank less well (docs/studies/measurements.md).
_SKETCH = 4
_SKETCHED = 64


@dataclass(frozen=True, eq=False)
class RoutedTraffic:
    """A mapping of a problem, with the indicators that features aggregate.

    Each indicator is computed when first asked for. A workload of several phases counts with the
    sum of its traffic.

    Parameters
    ----------
    problem : MappingProblem
    mapping : TaskMapping
    coarsening : int, optional
        Real packets in one simulated packet. If not given, as many as an estimated error of the
        time of 3 % allows; where packets are counted (buffers, delays), the longest message is of
        1,024 at least.
    iterations : int
        How many times the phases are simulated, as in `simulate`. Features of the simulator are
        means of an iteration.

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
        check_ways(self.problem, self.mapping)

    @property
    def torus(self) -> Torus:
        """Where the tasks run."""
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
        """Bytes of all edges."""
        return float(self.comm.nbytes.sum())

    @lazy
    def routes(self) -> PhaseRoutes:
        """The routes of all phases in one graph."""
        return PhaseRoutes(self.problem.total, self.mapping)

    @lazy
    def lower_bounds(self) -> MappingBounds:
        """All lower bounds of the time."""
        return MappingBounds(self.problem, self.mapping, self.routes)

    @property
    def hops(self) -> NDArray[np.int32]:
        """Hops of every edge of `comm`, shape ``(n_edges,)``; 0 within a node."""
        return self.routes.ways.hops

    @property
    def packet_hops(self) -> int:
        """Hops of all packets, none merged, which a simulation takes its time for."""
        return int(packet_counts(self.problem)[0] @ edge_ways(self.problem, self.mapping).hops)

    @lazy
    def tally(self) -> Tally:
        """What one pass over the messages of all phases finds."""
        found = self.routes.tally
        if self.problem.common_routing is not None:
            return found
        return found._replace(link_bytes=sum_loads(self.problem, self.mapping))

    @property
    def edges_by_hops(self) -> NDArray[np.int64]:
        """Edges of 0, 1, 2, ... hops, shape ``(diameter + 1,)``."""
        return self.tally.edges_by_hops

    @lazy
    def all_link_bytes(self) -> NDArray[np.float64]:
        """Bytes routed over every place of a link, existing or not, shape ``(n_links,)``.

        Alone they take half of the time of the pass that finds them with all else.
        """
        if "tally" in vars(self) or self.problem.common_routing is None:
            return self.tally.link_bytes
        return sum_loads(self.problem.total, self.mapping)

    @lazy
    def all_wire_bytes(self) -> NDArray[np.float64]:
        """The same with the headers of the packets, shape ``(n_links,)``."""
        if len(self.workload) == 1:
            return self.tally.wire_bytes
        packets, wire = packet_counts(self.problem)
        return sum_loads(self.problem, self.mapping, packets * wire)

    @lazy
    def link_bytes(self) -> NDArray[np.float64]:
        """Bytes routed over the links that exist, shape ``(n_existing_links,)``."""
        return self.all_link_bytes[self.torus.link_exists]

    @property
    def fifo_length(self) -> NDArray[np.float64]:
        """Messages put into each torus injection FIFO, shape ``(n_nodes * fifos,)``."""
        return self.tally.fifo_length

    @lazy
    def along_routes(self) -> Along:
        """Link bytes along the edges' dimension-ordered routes."""
        return loads_along_routes(self.problem.total, self.mapping, self.all_link_bytes)

    @property
    def n_network_edges(self) -> int:
        """Edges that use the network."""
        return int(self.edges_by_hops[1:].sum())

    @property
    def bounds(self) -> Bounds:
        """Lower bounds of the time by resource, as `time_bounds`."""
        return self.lower_bounds.resources

    @property
    def rounds_apart(self) -> float:
        """How far dependent rounds may overlap; see `MappingBounds.rounds_apart`."""
        return self.lower_bounds.rounds_apart

    @property
    def release_bound(self) -> float:
        """Lower bound that knows when messages are released; at least that of `bounds`.

        For adaptive phases and for dependent rounds it is that of `bounds`.
        """
        return self.lower_bounds.best

    @lazy
    def sure(self) -> Bounds:
        """Bounds of one iteration that starts on an idle network; no simulation falls below them.

        They hold whichever way packets choose and clocks round, except that of the links where
        routes are open, which is an estimate. The total is always sure.
        """
        return sure_bounds(self.lower_bounds, stretches_of(self.problem), self._merges)

    @lazy
    def sure_bound(self) -> float:
        """Seconds that no simulation falls below, whichever way packets choose and clocks round.

        For several iterations it is a bound of their mean, which needs the time of the first
        iteration alone. That is simulated then. Where packets draw, it differs with the seed: the
        bound then holds for the simulation at hand alone. Without one it is that of the phases
        between barriers, and 0 if there are none.
        """
        if self.iterations == 1:
            return self.sure.total
        return sure_mean(
            self.lower_bounds,
            self.iterations,
            self._merges,
            self._time_of_first,
            is_of_one="simulation" in vars(self),
        )

    def _time_of_first(self, merged: int) -> float:
        """Seconds of the first iteration, if no other follows."""
        known = self.__dict__.get("simulation")
        if known is not None and known.coarsening == merged:
            return float(known.alone)
        first = replace(self, coarsening=merged, iterations=1)
        return first.simulation.time

    @property
    def _merges(self) -> Sequence[int]:
        """Real packets in one of the simulations that the time may come from."""
        if self.coarsening is not None:
            return [self.coarsening]
        network = self.torus.network
        most = LARGEST_PACKET // (network.payload + network.header)
        return attempts(self.problem.derive(longest_message), most)

    def simulated_as(self, simulation: Simulation) -> Self:
        """Return this traffic with a finished simulation, whose times are not simulated again."""
        merged, times = simulation.coarsening, simulation.iterations
        known = replace(self, coarsening=merged, iterations=times)
        known.__dict__["simulation"] = simulation
        return known

    @lazy
    def simulation(self) -> Simulation:
        """The packet-level simulation that tells the time."""
        how: dict[str, Any] = {"coarsening": self.coarsening}
        if self.coarsening is None:
            counted = self.__dict__.get("counted")
            if counted is not None and counted.coarsening == 1:
                # Reuse the finished full simulation.
                return cast(Simulation, counted)
            how = {"error": _ERROR}
        return self._simulated(**how)

    def _simulated(self, **how: Any) -> Simulation:
        return simulate_packets(self.problem, self.mapping, iterations=self.iterations, **how)

    @lazy
    def counted(self) -> Simulation:
        """The packet-level simulation that counts packets, merged alike under every mapping.

        How many the time asks for differs from mapping to mapping, and so would the counts.
        """
        merged = self.coarsening
        if merged is None:
            merged = self._merged(self.problem.derive(longest_message) // _COUNTED)
        timed = self.__dict__.get("simulation")
        if merged == self.coarsening or (timed is not None and timed.coarsening == merged):
            return self.simulation
        return self._simulated(coarsening=merged)

    @property
    def coarse_factor(self) -> int:
        """Real packets in one of the sketch; 1 where the sketch is the simulation itself."""
        most = packet_counts(self.problem)[0].max(initial=0)
        if most <= 1:
            return 1
        common = self.problem.derive(common_message)
        return max(_SKETCH, self._merged(common // _SKETCHED))

    @lazy
    def coarse(self) -> Simulation:
        """The simulation with packets four times as long: about a quarter of the cost.

        Longer ones where most of the packets are of messages of 320 or more, so that 64 to 80 carry
        such a message; real ones where no edge has two of them.
        """
        return self._simulated(coarsening=self.coarse_factor)

    def _merged(self, wanted: int) -> int:
        """Real packets in one, so many as the counters bear."""
        network = self.torus.network
        return max(1, min(wanted, LARGEST_PACKET // (network.payload + network.header)))

    @property
    def buffer_length(self) -> NDArray[np.float64]:
        """Packets in the buffer behind each link that exists, summed over an iteration's time."""
        return self.counted.buffered_seconds[self.torus.link_exists] / self.iterations

    @property
    def delay(self) -> NDArray[np.float64]:
        """Seconds that a packet stays there: buffer length over received packets."""
        return self.counted.delay[self.torus.link_exists]
