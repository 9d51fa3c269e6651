"""One workload on one torus under one mapping, routed: what every feature is computed from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from toruscast._lazy import lazy
from toruscast.mapping import CommGraph, TaskMapping, Torus, Workload, as_workload
from toruscast.mapping.task_mapping import as_mapping
from toruscast.routing.bounds import Bounds, bounds_of, time_bounds
from toruscast.routing.cuts import cut_bound
from toruscast.routing.loads import Along, check_ways, link_loads, loads_along_routes
from toruscast.routing.packets import common_message, longest_message, packet_counts
from toruscast.routing.release import release_bound
from toruscast.routing.routing import (
    check_routing,
    dilations,
    injection_fifos,
    phase_routings,
)
from toruscast.routing.tally import Tally, tally
from toruscast.simulation.clock_rounding import clock_roundings
from toruscast.simulation.coarsening import LARGEST_PACKET, attempts
from toruscast.simulation.simulation import Simulation
from toruscast.simulation.simulator import simulate
from toruscast.typing import Routing

_ERROR = 0.03
# Packets of the longest message where packets are counted; all, if it has fewer than twice as many.
_COUNTED = 1024
# How many times as long packets of the sketch are at least, and packets of its usual message:
# fewer fit into the buffers on their way, and rank less well (docs/studies/measurements.md).
_SKETCH = 4
_SKETCHED = 64


@dataclass(frozen=True, eq=False)
class RoutedTraffic:
    """A workload, a torus and a mapping, with the indicators that features aggregate.

    Each indicator is computed when first asked for. A workload of several phases counts with the
    sum of its traffic.

    Parameters
    ----------
    workload : Workload or CommGraph
    torus : Torus
    mapping : TaskMapping
    routing : {"deterministic", "adaptive", "by_size"}
    coarsening : int, optional
        Real packets in one simulated packet. If not given, as many as an estimated error of the
        time of 3 % allows; where packets are counted (buffers, delays), the longest message is of
        1,024 at least.
    iterations : int
        How many times the phases are simulated, as in `simulate`. Features of the simulator are
        means of an iteration.

    Examples
    --------
    >>> traffic = RoutedTraffic(CommGraph(2, [0], [1], [100]), Torus((4,)), TaskMapping([0, 1], 4))
    >>> traffic.link_bytes
    array([100.,   0.,   0.,   0.,   0.,   0.,   0.,   0.])
    """

    workload: Workload
    torus: Torus
    mapping: TaskMapping
    routing: Routing = "deterministic"
    coarsening: int | None = None
    iterations: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "workload", as_workload(self.workload))
        as_mapping(self.mapping).check(self.workload.n_tasks, self.torus)
        check_routing(self.routing)
        check_ways(self.workload, self.torus, self.mapping, self.routing)

    @property
    def comm(self) -> CommGraph:
        """The traffic of all phases."""
        return self.workload.total

    @property
    def n_edges(self) -> int:
        """Edges of all phases."""
        return self.comm.n_edges

    @property
    def total_bytes(self) -> float:
        """Bytes of all edges."""
        return float(self.comm.nbytes.sum())

    @lazy
    def edge_dilation(self) -> NDArray[np.int32]:
        """Hops of every edge, 0 within a node, shape ``(n_edges,)``."""
        return dilations(self.comm, self.torus, self.mapping)

    @lazy
    def dilation(self) -> NDArray[np.int32]:
        """Hops of the edges that use the network, shape ``(n_network_edges,)``."""
        return self.edge_dilation[self.edge_dilation > 0]

    @property
    def packet_hops(self) -> int:
        """Hops of all packets, none merged, which a simulation takes its time for."""
        phases = self.workload.unrolled
        hops = dilations(phases.comm, self.torus, phases.placed(self.mapping))
        return int(packet_counts(phases.comm, self.torus)[0] @ hops)

    @lazy
    def tally(self) -> Tally | None:
        """What one pass over the messages of all phases finds; None where that is not enough."""
        one_way = len(set(phase_routings(self.routing, self.workload, self.torus))) == 1
        if not one_way or (self.routing == "by_size" and len(self.workload) > 1):
            return None
        return tally(self.comm, self.torus, self.mapping, routing=self.routing)

    @lazy
    def edges_by_hops(self) -> NDArray[np.int64]:
        """Edges of 0, 1, 2, ... hops, shape ``(diameter + 1,)``."""
        if self.tally is not None:
            return self.tally.edges_by_hops
        return np.bincount(self.edge_dilation, minlength=self.torus.diameter + 1)

    @property
    def hop_bytes(self) -> float:
        """Sum over the edges of hops times bytes."""
        if self.tally is not None:
            return self.tally.hop_bytes
        return float((self.edge_dilation * self.comm.nbytes).sum())

    @property
    def off_node_bytes(self) -> float:
        """Bytes that leave their node."""
        if self.tally is not None:
            return self.tally.off_node_bytes
        return float(self.comm.nbytes[self.edge_dilation > 0].sum())

    @lazy
    def all_link_bytes(self) -> NDArray[np.float64]:
        """Bytes routed over every place of a link, existing or not, shape ``(n_links,)``."""
        if self.routing != "by_size":
            loads = link_loads(self.comm, self.torus, self.mapping, routing=self.routing)
            return np.asarray(loads, dtype=np.float64)
        return self._loads(self.workload.unrolled.comm.nbytes)

    @lazy
    def all_wire_bytes(self) -> NDArray[np.float64]:
        """The same with the headers of the packets, shape ``(n_links,)``."""
        if self.tally is not None and len(self.workload) == 1:
            return self.tally.wire_bytes
        packets, wire = packet_counts(self.workload.unrolled.comm, self.torus)
        return self._loads(packets * wire)

    def _loads(self, weight: NDArray[np.float64]) -> NDArray[np.float64]:
        """Loads of the links by a weight of every edge, summed over phases routed as they are."""
        ways = phase_routings(self.routing, self.workload, self.torus)
        phases = self.workload.unrolled
        if len({*ways}) == 1:
            placed = phases.placed(self.mapping)
            return link_loads(phases.comm, self.torus, placed, weight, routing=ways[0])
        weights = np.split(weight, phases.begin[1:-1])
        loads = [
            link_loads(phase, self.torus, self.mapping, each, routing=way)
            for phase, each, way in zip(self.workload, weights, ways, strict=True)
        ]
        return np.asarray(np.sum(loads, axis=0), dtype=np.float64)

    @lazy
    def link_bytes(self) -> NDArray[np.float64]:
        """Bytes routed over the links that exist, shape ``(n_existing_links,)``."""
        return self.all_link_bytes[self.torus.link_exists]

    @lazy
    def fifo_length(self) -> NDArray[np.float64]:
        """Messages put into each torus injection FIFO, shape ``(n_nodes * fifos,)``."""
        if self.tally is not None:
            return self.tally.fifo_length
        fifo = injection_fifos(self.comm, self.torus, self.mapping)
        fifos = self.torus.network.fifos
        place = self.mapping.node[self.comm.src] * np.int64(fifos) + fifo
        remote = fifo >= 0
        length = np.bincount(
            place[remote], self.comm.n_messages[remote], minlength=self.torus.n_nodes * fifos
        )
        return length.astype(np.float64, copy=False)

    @lazy
    def along_routes(self) -> Along:
        """Link bytes along the edges' dimension-ordered routes."""
        return loads_along_routes(self.comm, self.torus, self.mapping, self.all_link_bytes)

    @property
    def n_network_edges(self) -> int:
        """Edges that use the network."""
        return int(self.edges_by_hops[1:].sum())

    @lazy
    def bounds(self) -> Bounds:
        """Lower bounds of the time."""
        if self.tally is not None and len(self.workload) == 1:
            return bounds_of(self.tally, self.torus)
        return time_bounds(self.workload, self.torus, self.mapping, routing=self.routing)

    @lazy
    def release_bound(self) -> float:
        """Lower bound that knows when messages are released; at least that of `bounds`.

        Of adaptive phases and of dependent rounds it is that of `bounds`.
        """
        if self.workload.dependent:
            return self.bounds.total
        ways = phase_routings(self.routing, self.workload, self.torus)
        return sum(
            self._phase_bound(phase, way) for phase, way in zip(self.workload, ways, strict=True)
        )

    def _phase_bound(self, phase: CommGraph, way: Routing) -> float:
        alone = len(self.workload) == 1
        bounds = self.bounds if alone else time_bounds(phase, self.torus, self.mapping, routing=way)
        if way == "adaptive":
            return bounds.total
        known = self.all_wire_bytes if alone else None
        own = release_bound(phase, self.torus, self.mapping, wire_bytes=known)
        return max(bounds.total, own)

    @lazy
    def sure_bound(self) -> float:
        """Seconds that no simulation falls below, whichever way packets choose and clocks round.

        That is the release bound in dimension order; where routes are open, what injection,
        reception, latency and the cuts of the torus need at least. Of several iterations there is
        no such bound of one: it is 0.
        """
        if self.iterations > 1:
            return 0.0
        ways = phase_routings(self.routing, self.workload, self.torus)
        is_open = [way == "adaptive" or self.torus.ties_are_open for way in ways]
        if self.workload.dependent:
            bounds = self.bounds
            working = 0.0 if any(is_open) else bounds.link
            arriving = max(bounds.injection, bounds.reception, bounds.latency)
            return self._in_ticks(self.workload, working, arriving)
        total = 0.0
        for phase, way, chooses in zip(self.workload, ways, is_open, strict=True):
            total += self._sure_bound_of(phase, way, chooses)
        return total

    def _sure_bound_of(self, phase: CommGraph, way: Routing, chooses: bool) -> float:
        """Seconds that no simulation of a phase falls below."""
        alone = len(self.workload) == 1
        bounds = self.bounds if alone else time_bounds(phase, self.torus, self.mapping, routing=way)
        arriving = max(bounds.injection, bounds.reception, bounds.latency)
        if chooses:
            packets, wire = packet_counts(phase, self.torus)
            cut = cut_bound(phase, self.torus, self.mapping, packets * wire)
            return self._in_ticks(Workload([phase]), cut, arriving)
        released = self.release_bound if alone else self._phase_bound(phase, way)
        return self._in_ticks(Workload([phase]), bounds.link, arriving, released)

    def _in_ticks(
        self,
        together: Workload,
        working: float,
        arriving: float,
        released: float | None = None,
    ) -> float:
        """Return a bound of a stretch in the ticks of any simulation that it may get.

        ``released`` is the release bound. It is computed anew where ticks change the order in which
        messages become ready.
        """
        merged = [self.coarsening] if self.coarsening is not None else self._attempts()
        errors = [
            error
            for each in merged
            for error in clock_roundings(together, self.torus, self.mapping, each)
        ]
        if not errors:
            return max(working, arriving, released or 0.0)
        least = []
        for error in errors:
            found = error.after(working, arriving)
            if released is not None and error.in_order:
                found = error.after(working, max(arriving, released))
            elif released is not None:
                phase = together.phases[0]
                ticked = release_bound(phase, self.torus, self.mapping, ready=error.ready)
                found = max(found, error.after(0.0, ticked, in_ticks=True))
            least.append(found)
        return min(least)

    def _attempts(self) -> list[int]:
        """Real packets in one of the simulations that the time may come from."""
        network = self.torus.network
        most = LARGEST_PACKET // (network.payload + network.header)
        return attempts(longest_message(self.workload, self.torus), most)

    @lazy
    def simulation(self) -> Simulation:
        """The packet-level simulation that tells the time."""
        how: dict[str, Any] = {"coarsening": self.coarsening}
        if self.coarsening is None:
            counted = self.__dict__.get("counted")
            if counted is not None and counted.coarsening == 1:
                # Nothing is truer than real packets, and they are there already.
                return cast(Simulation, counted)
            how = {"error": _ERROR}
        return self._simulated(**how)

    def _simulated(self, **how: Any) -> Simulation:
        return simulate(
            self.workload,
            self.torus,
            self.mapping,
            routing=self.routing,
            iterations=self.iterations,
            **how,
        )

    @lazy
    def counted(self) -> Simulation:
        """The packet-level simulation that counts packets, merged alike under every mapping.

        How many the time asks for differs from mapping to mapping, and so would the counts.
        """
        merged = self.coarsening
        if merged is None:
            merged = self._merged(longest_message(self.workload, self.torus) // _COUNTED)
        timed = self.__dict__.get("simulation")
        if merged == self.coarsening or (timed is not None and timed.coarsening == merged):
            return self.simulation
        return self._simulated(coarsening=merged)

    @property
    def sketch_coarsening(self) -> int:
        """Real packets in one of the sketch; 1 where the sketch is the simulation itself."""
        most = packet_counts(self.workload.unrolled.comm, self.torus)[0].max(initial=0)
        if most <= 1:
            return 1
        common = common_message(self.workload, self.torus)
        return max(_SKETCH, self._merged(common // _SKETCHED))

    @lazy
    def sketch(self) -> Simulation:
        """The simulation with packets four times as long: about a quarter of the cost.

        Longer ones where most of the packets are of messages of 320 or more, so that 64 to 80 carry
        such a message; real ones where no edge has two of them.
        """
        return self._simulated(coarsening=self.sketch_coarsening)

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
