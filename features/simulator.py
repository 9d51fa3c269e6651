"""Level 2: the packet-level simulator."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping import CommGraph, InputError, TaskMapping, Torus, Workload, as_workload

from . import _simulator_state as records
from ._simulator_kernels import run
from .packets import hand_over_times, packet_counts
from .routing import Routing, check_routing, grid_of, injection_fifos

if TYPE_CHECKING:
    import pandas as pd

MAX_PACKETS = 2**24
_TICKS_A_PACKET = 4096
_LARGEST_WHEEL = 2**22
_MOST_TICKS = 2**32


@dataclass(frozen=True, eq=False)
class Simulation:
    """What the simulator saw.

    Attributes
    ----------
    time : float
        Seconds until the last message of the last phase has arrived.
    phase_times : tuple of float
        Seconds of each phase.
    message_times : tuple of ndarray
        For each phase, seconds from its start to the arrival of each edge's last message, shape
        ``(n_edges,)``; 0 for an edge without a message.
    packets, wire_bytes : ndarray, shape (n_links,)
        Packets, and bytes with headers, over each link.
    buffer_length : ndarray, shape (n_links,)
        Packets that each arrival found in the buffer behind the link (itself included), summed up.
    most_buffered : ndarray, shape (n_links,)
        Most packets in that buffer at once.
    coarsening : int
        Real packets carried by one simulated packet, at most.
    """

    time: float
    phase_times: tuple[float, ...]
    message_times: tuple[NDArray[np.float64], ...]
    packets: NDArray[np.int64]
    wire_bytes: NDArray[np.float64]
    buffer_length: NDArray[np.int64]
    most_buffered: NDArray[np.int32]
    coarsening: int

    @property
    def packet_hops(self) -> int:
        """Links crossed by all packets."""
        return int(self.packets.sum())

    @property
    def delay(self) -> NDArray[np.float64]:
        """Buffer length over received packets of each link, ``(n_links,)``; 0 on idle links."""
        return self.buffer_length / np.maximum(self.packets, 1)

    def links(self, torus: Torus) -> pd.DataFrame:
        """Return the counters of every existing link, one a row, indexed by link number."""
        import pandas as pd

        exists = np.flatnonzero(torus.link_exists)
        node, port = np.divmod(exists, 2 * torus.ndim)
        busy = self.wire_bytes / torus.link_bandwidth
        return pd.DataFrame(
            {
                "node": node,
                "dimension": port // 2,
                "direction": np.where(port % 2 == 0, 1, -1),
                "packets": self.packets[exists],
                "wire_bytes": self.wire_bytes[exists],
                "busy_share": busy[exists] / self.time if self.time else 0.0,
                "buffer_length": self.buffer_length[exists],
                "most_buffered": self.most_buffered[exists],
                "delay": self.delay[exists],
            },
            index=pd.Index(exists, name="link"),
        )


def simulate(
    traffic: Workload | CommGraph,
    torus: Torus,
    mapping: TaskMapping,
    *,
    routing: Routing = "deterministic",
    coarsening: int = 1,
    max_packets: int = MAX_PACKETS,
) -> Simulation:
    """Send the messages of each phase packet by packet and count what the links see.

    Parameters
    ----------
    traffic : Workload or CommGraph
        Phases run one after the other, a barrier between them. An edge sends its bytes in
        ``round(n_messages)`` messages, spread evenly over their packets; an edge of less than half
        a message sends nothing.
    torus, mapping
        Where the tasks run. The constants are those of ``torus.network``.
    routing : {"deterministic", "adaptive"}
        Dimension order; or minimal adaptive, which takes the emptiest productive output and falls
        back to dimension order.
    coarsening : int
        Real packets that one simulated packet carries, header and payload of each; a message of
        fewer is one packet. Buffers hold fewer of the longer packets, but eight where they held
        that many, for fewer would stall the network. Loads stay as they are; pipelining and
        fairness become coarser.
    max_packets : int
        Where a phase has more packets than this, `coarsening` is raised to bring it down.

    Returns
    -------
    Simulation

    Notes
    -----
    A task prepares its messages one after the other, starting with its next higher partner and
    going round, and hands each to an injection FIFO. A FIFO sends its messages in turn, one packet
    after the other. A router forwards a packet when its head has arrived (virtual cut-through; off
    a slower link no faster than it comes) and the buffer behind the next link has room; entering a
    ring takes two free places, staying on it one, so that a ring never fills up (the bubble rule:
    Puente et al., J. Parallel Distrib. Comput. 61, 2001). The longest waiting goes first. A node
    takes packets in at its memory bandwidth. Messages within a node move at that bandwidth too,
    undisturbed.

    Time runs in ticks of 2**-k ns, about 1/4096 of a full packet's time on the fastest link; longer
    ones where the software alone takes seconds.

    Examples
    --------
    One packet: overhead + hops x latency + serialisation + reception.

    >>> torus = Torus((8,))
    >>> result = simulate(CommGraph(2, [0], [1], [512]), torus, TaskMapping([0, 3], 8))
    >>> round(result.time * 1e9, 3), 500 + 3 * 40 + 544 / 2 + 544 / 28
    (911.438, 911.4285714285714)
    """
    workload = as_workload(traffic)
    mapping.check(workload.n_tasks, torus)
    check_routing(routing)
    if not 1 <= max_packets < 2**31:
        raise InputError("bad max_packets", found=max_packets, expected="1 to 2**31 - 1")
    if coarsening < 1 or coarsening != int(coarsening):
        raise InputError("bad coarsening", found=coarsening, expected="a whole number from 1")
    runs = [
        _run_phase(phase, torus, mapping, routing, coarsening, max_packets) for phase in workload
    ]
    times = tuple(float(finish.max(initial=0.0)) for finish, _, _ in runs)
    links = [output[: torus.n_links] for _, output, _ in runs]
    return Simulation(
        sum(times),
        times,
        tuple(finish for finish, _, _ in runs),
        np.sum([link["packets"] for link in links], axis=0),
        np.sum([link["wire_bytes"] for link in links], axis=0),
        np.sum([link["queued"] for link in links], axis=0),
        np.maximum.reduce([link["most"] for link in links]),
        max(coarsening for _, _, coarsening in runs),
    )


def _run_phase(
    comm: CommGraph,
    torus: Torus,
    mapping: TaskMapping,
    routing: Routing,
    coarsening: int,
    max_packets: int,
) -> tuple[NDArray[np.float64], NDArray[np.void], int]:
    """Arrival of each edge's last message, the state of the outputs, the coarsening."""
    network = torus.network
    fifo = injection_fifos(comm, torus, mapping)
    total = float(packet_counts(comm, torus)[0][fifo >= 0].sum())
    coarsening = max(coarsening, math.ceil(total / max_packets))
    packets, wire = packet_counts(comm, torus, coarsening)
    turn, ready = hand_over_times(comm, network.overhead)
    finish = np.where(
        np.rint(comm.n_messages) > 0, ready + comm.nbytes / network.memory_bandwidth, 0.0
    )

    remote = np.flatnonzero((fifo >= 0) & (packets > 0))
    sender = mapping.node[comm.src[remote]].astype(np.int64)
    queue = sender * network.fifos + fifo[remote]
    # A node serves its tasks in turn: first message of each task, second of each, ...
    by_fifo = np.lexsort((mapping.slot[comm.src[remote]], turn[remote], queue))
    remote, queue = remote[by_fifo], queue[by_fifo]

    tick, wheel = _clock(torus, float(wire[remote].max(initial=1.0)), float(ready.max(initial=0.0)))
    message = np.zeros(remote.size, dtype=records.MESSAGE)
    message["ready"] = np.rint(ready[remote] / tick)
    message["dst"] = mapping.node[comm.dst[remote]]
    message["packets"] = message["left"] = packets[remote]
    message["wire"] = wire[remote]
    bounds = np.searchsorted(queue, np.arange(torus.n_nodes * network.fifos + 1))
    fifos = np.zeros(bounds.size - 1, dtype=records.FIFO)
    fifos["place"], fifos["end"] = bounds[:-1], bounds[1:]
    filled = np.flatnonzero(bounds[1:] > bounds[:-1])
    fifos["left"][filled] = message["packets"][bounds[filled]]

    merged = total / max(packets[remote].sum(), 1)
    places = max(min(network.buffer_packets, 8), round(network.buffer_packets / max(merged, 1)))
    output = _outputs(torus, tick, routing, places)
    n_slots = int(output["credits"].sum())
    free = np.arange(n_slots + 1, dtype=np.int32)
    none = records.NONE
    state = records.State(
        grid_of(torus),
        output,
        np.zeros(n_slots, dtype=records.PACKET),
        fifos,
        message,
        free,
        np.empty(n_slots + output.size + fifos.size, dtype=np.int32),
        np.full(wheel, none, dtype=np.int32),
        np.full(wheel, none, dtype=np.int32),
        np.zeros(1, dtype=np.int64),
        network.fifos,
        round(network.hop_latency / tick),
        records.ADAPTIVE if routing == "adaptive" else records.DETERMINISTIC,
    )
    left = run(state)
    if left:
        raise RuntimeError(f"the network stalled with {left} packets on their way")
    finish[remote] = message["finish"] * tick
    return finish, output, coarsening


def _clock(torus: Torus, largest_packet: float, last_ready: float) -> tuple[float, int]:
    """Seconds of a tick, and the ticks of a wheel longer than any delay.

    The loop visits every tick, so they grow where the last message is handed over very late.
    """
    network = torus.network
    slowest = min(*torus.bandwidth, network.memory_bandwidth)
    fastest = max(torus.bandwidth)
    reach = largest_packet / slowest + network.hop_latency
    exponent = math.floor(math.log2(largest_packet / fastest / _TICKS_A_PACKET * 1e9))
    while (
        reach / (2.0**exponent * 1e-9) + 2 > _LARGEST_WHEEL
        or last_ready / (2.0**exponent * 1e-9) > _MOST_TICKS
    ):
        exponent += 1
    tick = 2.0**exponent * 1e-9
    return tick, 2 ** math.ceil(math.log2(reach / tick + 3))


def _outputs(torus: Torus, tick: float, routing: Routing, places: int) -> NDArray[np.void]:
    """Links and reception ports at rest."""
    network = torus.network
    output = np.zeros(torus.n_links + torus.n_nodes, dtype=records.OUTPUT)
    output["head"] = output["tail"] = records.NONE
    link = output[: torus.n_links]
    link["far"] = torus.neighbors.ravel()
    link["ticks_per_byte"] = 1 / (torus.link_bandwidth * tick)
    link["credits"][torus.link_exists, 0] = places
    if routing == "adaptive":
        link["credits"][torus.link_exists, 1] = places
    # A ring of up to three nodes is crossed in one hop: no packet stays on it, nothing to keep
    # free.
    circular = [2 if w and k > 3 else 1 for k, w in zip(torus.shape, torus.wrap, strict=True)]
    link["entry"] = np.tile(np.repeat(circular, 2), torus.n_nodes)
    output["ticks_per_byte"][torus.n_links :] = 1 / (network.memory_bandwidth * tick)
    return output
