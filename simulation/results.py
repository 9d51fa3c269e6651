"""Results of both simulators as arrays and tables: times of messages and phases, and counters."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from toruscast._lazy import lazy
from toruscast._slow import pandas as pd
from toruscast.mapping import MappingProblem, TaskMapping, Torus, Workload
from toruscast.notebook import Result
from toruscast.routing.messages import Messages
from toruscast.text import seconds, shown_name

logger = logging.getLogger(__name__)
_CHUNK_BYTES = 32
# Packet bytes have single precision. With this factor, rounding errors do not add a chunk.
_EXACT = 1 - 1e-7


@dataclass(frozen=True, eq=False)
class Span:
    """Phases that have no barrier between them; times are in seconds from the start."""

    phases: tuple[int, ...]  # numbers
    begin: float
    end: float
    messages: Messages
    handed_over: NDArray[np.float64]  # (n_messages,)
    arrived: NDArray[np.float64]


class Snapshot(NamedTuple):
    """Each link's bytes so far, and packets in its buffer, at one time; both ``(n_links,)``."""

    time: float
    wire_bytes: NDArray[np.float64]
    occupied: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class PacketSpan(Span):
    """Phases that have no barrier between them, with the counters of their packets."""

    # Counters of each link and the buffer after it, (n_links,).
    packets: NDArray[np.int64]
    wire_bytes: NDArray[np.float64]
    max_packets: NDArray[np.int64]
    waited: NDArray[np.float64]  # seconds of all packets in the buffer
    # Counters of each injection FIFO, (n_nodes * fifos,).
    fifo_waited: NDArray[np.float64]  # seconds of all packets at the router
    fifo_max_edges: NDArray[np.int32]
    fifo_stay: NDArray[np.float64]  # seconds of all edges
    snapshots: tuple[Snapshot, ...]


S = TypeVar("S", bound=Span)


@dataclass(frozen=True, eq=False)
class MessageTimes(Result, Generic[S]):
    """Times of a workload's messages, tasks and phases.

    ``stretches`` has the raw results: one for each phase, or one for all rounds of a dependent
    workload.
    """

    problem: MappingProblem
    mapping: TaskMapping
    stretches: tuple[S, ...]
    # Number of times that the phases ran; the problem has the phases of all iterations.
    iterations: int = field(default=1, kw_only=True)
    # Seconds of the first iteration when simulated alone; 0 if there is only one iteration.
    alone: float = field(default=0.0, kw_only=True)

    @property
    def workload(self) -> Workload:
        """The simulated phases, repeated for each iteration."""
        return self.problem.workload

    @property
    def torus(self) -> Torus:
        """The torus of the simulation."""
        return self.problem.torus

    @property
    def end(self) -> float:
        """Seconds until the last arrival of the run."""
        return self.stretches[-1].end

    @property
    def time(self) -> float:
        """Seconds until the last arrival or, with several iterations, their mean seconds.

        The mean excludes the first iteration, which begins on an idle network. It is `end` minus
        the time of the first iteration simulated alone, divided by the number of further
        iterations. Within the run, the first iteration usually ends later than alone, because
        further iterations delay it. If random choices make it end earlier, its time within the run
        is subtracted instead.
        """
        if self.iterations == 1:
            return self.end
        first = min(self.alone, self._end_of_first())
        return (self.end - first) / (self.iterations - 1)

    def _end_of_first(self) -> float:
        """Return the seconds until the last arrival of the first iteration within the run."""
        n_phases = len(self.workload) // self.iterations
        last = 0.0
        for stretch in self.stretches:
            if stretch.phases[0] < n_phases:
                first = np.array(stretch.phases)[stretch.messages.round] < n_phases
                last = max(last, float(stretch.arrived.max(where=first, initial=0.0)))
        return last

    @property
    def table(self) -> pd.DataFrame:
        """The table of phases that `phases` returns, with one row per phase."""
        return self.phases()

    @property
    def phase_times(self) -> tuple[float, ...]:
        """Seconds of each phase; a round lasts from its first hand-over to its last arrival."""
        spans = self.phases()
        return tuple((spans["end"] - spans["begin"]).tolist())

    @lazy
    def message_times(self) -> tuple[NDArray[np.float64], ...]:
        """For each phase, seconds from the start of its stretch to each edge's last arrival.

        Each array has shape ``(n_edges,)``, with 0 for an edge without a message.
        """
        times = []
        for stretch in self.stretches:
            for number, phase in enumerate(stretch.phases):
                finish = np.zeros(self.workload.phases[phase].n_edges)
                in_phase = stretch.messages.round == number
                finish[stretch.messages.edge[in_phase]] = stretch.arrived[in_phase] - stretch.begin
                times.append(finish)
        return tuple(times)

    def __repr__(self) -> str:
        name = shown_name(self.mapping.name) or "a mapping"
        sent = shown_name(self.workload.name) or "a workload"
        return (
            f"{type(self).__name__}({sent} under {name} on {shown_name(self.torus)}: "
            f"{seconds(self.time)})"
        )

    def messages(self) -> pd.DataFrame:
        """Return a table of messages, with a row for each edge of a phase.

        Columns: ``phase``, ``edge`` (its number in the phase), ``src`` and ``dst`` (tasks),
        ``n_messages``, ``nbytes``, ``hops``, ``fifo`` (number within its node; -1 for a message
        within a node), ``packets`` (simulated), ``handed_over`` and ``arrived`` (seconds from the
        start).
        """
        tables = []
        for stretch in self.stretches:
            listed = stretch.messages
            tables.append(
                pd.DataFrame(
                    {
                        "phase": np.array(stretch.phases)[listed.round],
                        "edge": listed.edge,
                        "src": listed.task,
                        "dst": listed.receiver,
                        "n_messages": listed.n_messages.astype(np.int64),
                        "nbytes": listed.nbytes,
                        "hops": self.torus.distance(listed.src, listed.dst),
                        "fifo": listed.fifo,
                        "packets": listed.packets,
                        "handed_over": stretch.handed_over,
                        "arrived": stretch.arrived,
                    }
                )
            )
        table = pd.concat(tables, ignore_index=True)
        return table.sort_values(["phase", "edge"], kind="stable", ignore_index=True)

    def tasks(self) -> pd.DataFrame:
        """Return a table of tasks: node, messages and bytes sent and received, last arrivals.

        ``sent`` is the time at which the last message from the task arrives, ``received`` the time
        at which the last message to the task arrives, and ``finish`` the later of the two.
        """
        messages = self.messages()
        out, into = messages.groupby("src"), messages.groupby("dst")
        table = pd.DataFrame(
            {
                "node": self.mapping.node,
                "sent_messages": out["n_messages"].sum(),
                "sent_bytes": out["nbytes"].sum(),
                "received_messages": into["n_messages"].sum(),
                "received_bytes": into["nbytes"].sum(),
                "sent": out["arrived"].max(),
                "received": into["arrived"].max(),
            },
            index=pd.RangeIndex(self.workload.n_tasks, name="task"),
        ).fillna(0.0)
        counts = ["sent_messages", "received_messages"]
        table[counts] = table[counts].astype(np.int64)
        table["finish"] = table[["sent", "received"]].max(axis=1)
        return table

    def phases(self) -> pd.DataFrame:
        """Return a table of phases: begin, end, messages and bytes.

        A round begins with its first hand-over and ends with its last arrival. A round without
        messages takes no time and begins when the previous round begins.
        """
        messages = self.messages()
        by_phase = messages.groupby("phase")
        index = pd.RangeIndex(len(self.workload), name="phase")
        begin = by_phase["handed_over"].min().reindex(index).ffill().fillna(0.0)
        end = by_phase["arrived"].max().reindex(index).fillna(begin)
        if not self.workload.dependent:
            alone = {s.phases[0]: s for s in self.stretches if len(s.phases) == 1}
            begin.loc[list(alone)] = [stretch.begin for stretch in alone.values()]
            end.loc[list(alone)] = [stretch.end for stretch in alone.values()]
        table = pd.DataFrame(
            {
                "name": [phase.name for phase in self.workload],
                "begin": begin,
                "end": end,
                "messages": by_phase["n_messages"].sum(),
                "nbytes": by_phase["nbytes"].sum(),
            },
            index=index,
        ).fillna({"messages": 0, "nbytes": 0.0})
        return table.astype({"messages": np.int64})


def link_table(result: MessageTimes[Any], wire_bytes: NDArray[np.float64]) -> pd.DataFrame:
    """Return a table of existing links with their bytes and their busy share."""
    torus = result.torus
    exists = np.flatnonzero(torus.link_exists)
    node, port = np.divmod(exists, 2 * torus.ndim)
    return pd.DataFrame(
        {
            "node": node,
            "dimension": port // 2,
            "direction": np.where(port % 2 == 0, 1, -1),
            "wire_bytes": wire_bytes[exists],
            "busy_share": wire_bytes[exists] / torus.link_bandwidth[exists] / (result.end or 1.0),
        },
        index=pd.Index(exists, name="link"),
    )


@dataclass(frozen=True, eq=False, repr=False)
class Simulation(MessageTimes[PacketSpan]):
    """Times and counters of a simulated workload; made by `simulate`.

    Attributes
    ----------
    coarsening : int
        Maximum number of real packets in one simulated packet.
    error : float, optional
        Requested relative error of the time.
    change : float
        Relative change of the time at the last halving of the coarsening; 0 for real packets.

    Examples
    --------
    >>> from toruscast.simulation import simulate
    >>> from toruscast.mapping.patterns import halo_2d
    >>> comm, torus = halo_2d((4, 4), 2048), Torus((4, 4))
    >>> result = simulate(comm, torus, TaskMapping(range(16), torus))
    >>> round(result.time * 1e6, 2)
    3.13
    >>> result.messages()[["src", "dst", "hops", "packets"]].head(2)
       src  dst  hops  packets
    0    0    1     1        4
    1    0    4     1        4
    """

    coarsening: int
    error: float | None = None
    change: float = 0.0

    def _sum(self, name: str) -> Any:
        """Return a counter of `PacketSpan`, summed over the stretches."""
        return np.sum([getattr(stretch, name) for stretch in self.stretches], axis=0)

    @lazy
    def packets(self) -> NDArray[np.int64]:
        """Simulated packets over each link, shape ``(n_links,)``."""
        return np.asarray(self._sum("packets"), dtype=np.int64)

    @lazy
    def wire_bytes(self) -> NDArray[np.float64]:
        """Bytes with headers over each link, shape ``(n_links,)``."""
        return np.asarray(self._sum("wire_bytes"), dtype=np.float64)

    @lazy
    def max_buffered(self) -> NDArray[np.int64]:
        """Maximum number of packets at one time in the buffer after each link, ``(n_links,)``."""
        max_packets = np.maximum.reduce([stretch.max_packets for stretch in self.stretches])
        return np.asarray(max_packets, dtype=np.int64)

    @lazy
    def buffered_seconds(self) -> NDArray[np.float64]:
        """Packets in the buffer after each link, integrated over time in seconds, ``(n_links,)``.

        This is the buffer length of [Jain13], a hardware counter that sums packets over cycles.
        """
        return np.asarray(self._sum("waited"), dtype=np.float64)

    @property
    def packet_hops(self) -> int:
        """Number of links crossed, summed over all simulated packets."""
        return int(self.packets.sum())

    @property
    def delay(self) -> NDArray[np.float64]:
        """Mean time (s) that a packet spends in the buffer, ``(n_links,)``; 0 if idle [Jain13]."""
        return self.buffered_seconds / np.maximum(self.packets, 1)

    def links(self) -> pd.DataFrame:
        """Return a table of the counters of existing links, indexed by link number.

        ``chunks`` are units of 32 bytes. ``busy_share`` is the time that the link's bytes take at
        its bandwidth, as a share of the total time; packets from a slower link occupy the link for
        longer. ``mean_buffered`` and ``max_buffered`` count packets in the buffer after the link.
        If packets are short, a buffer may hold more than ``buffer_packets``. ``buffered_seconds``
        is the number of packets integrated over time, and ``delay`` is the mean time (s) that a
        packet spends in the buffer. All columns include every iteration.
        """
        table = link_table(self, self.wire_bytes)
        exists = table.index
        chunks = np.ceil(table["wire_bytes"] * _EXACT / _CHUNK_BYTES).astype(np.int64)
        table.insert(3, "packets", self.packets[exists])
        table.insert(5, "chunks", chunks)
        seconds = self.buffered_seconds[exists]
        return table.assign(
            buffered_seconds=seconds,
            mean_buffered=seconds / (self.end or 1.0),
            max_buffered=self.max_buffered[exists],
            delay=self.delay[exists],
        )

    def fifos(self) -> pd.DataFrame:
        """Return a table of injection FIFOs: messages, bytes, packets and waits.

        ``most_edges`` is the maximum number of edges with messages in the FIFO at one time.
        ``mean_stay`` is the mean time (s) that an edge's messages spend in the FIFO, until their
        last packet is at the router. ``mean_wait`` is the mean time (s) that a packet waits at the
        router. These three include the questions and answers of a rendezvous; the other columns do
        not. With the rule ``first_free`` the FIFOs of a node share one queue, which is listed as
        the first FIFO.
        """
        fifos = self.torus.network.fifos
        size = self.torus.n_nodes * fifos
        sent = self.messages()
        sent = sent[sent["fifo"] >= 0]
        index = self.mapping.node[sent["src"]].astype(np.int64) * fifos + sent["fifo"].to_numpy()
        n_messages, nbytes, packets = (
            np.bincount(index, sent[name], minlength=size)
            for name in ("n_messages", "nbytes", "packets")
        )
        edges = np.bincount(index, minlength=size)
        node, fifo = np.divmod(np.arange(size), fifos)
        return pd.DataFrame(
            {
                "node": node,
                "fifo": fifo,
                "messages": n_messages.astype(np.int64),
                "nbytes": nbytes,
                "packets": packets.astype(np.int64),
                "most_edges": np.maximum.reduce([s.fifo_max_edges for s in self.stretches]),
                "mean_stay": self._sum("fifo_stay") / np.maximum(edges, 1),
                "mean_wait": self._sum("fifo_waited") / np.maximum(packets, 1),
            }
        )

    def series(self) -> pd.DataFrame:
        """Return a table of the snapshots, one per ``interval``: bytes and buffer of each link.

        Columns: ``time`` (seconds, the end of the interval), ``link``, ``wire_bytes`` (all bytes of
        packets whose heads passed in the interval, which may exceed the bandwidth in a short
        interval) and ``buffered`` (packets in the buffer at the end). Idle links are omitted.
        """
        times, links, sent, buffered = [0.0], [np.arange(0)], [np.zeros(0)], [np.zeros(0, np.int32)]
        for stretch in self.stretches:
            previous = np.zeros(self.torus.n_links)
            for snapshot in stretch.snapshots:
                sent_bytes = snapshot.wire_bytes - previous
                previous = snapshot.wire_bytes
                active = np.flatnonzero((sent_bytes > 0) | (snapshot.occupied > 0))
                times.append(snapshot.time)
                links.append(active)
                sent.append(sent_bytes[active])
                buffered.append(snapshot.occupied[active])
        return pd.DataFrame(
            {
                "time": np.repeat(times, [active.size for active in links]),
                "link": np.concatenate(links),
                "wire_bytes": np.concatenate(sent),
                "buffered": np.concatenate(buffered),
            }
        )


Simulated = TypeVar("Simulated", bound=MessageTimes[Any])


def log_simulation(result: Simulated, kind: Literal["packets", "flows"], began: float) -> Simulated:
    """Log a finished simulation, and return it; ``began`` is its start by `time.perf_counter`."""
    if not logger.isEnabledFor(logging.INFO):
        return result
    fields = {
        "of": kind,
        "mapping": result.mapping.name or "a mapping without a name",
        "torus": str(result.torus),
        "simulated_time": result.time,
        "seconds": time.perf_counter() - began,
    }
    message = "simulated %(of)s of %(mapping)s on %(torus)s: it takes %(simulated_time).6g s; "
    message += "simulated in %(seconds).3g s"
    logger.info(message, fields, extra={"event": "simulated", **fields})
    return result
