"""A run of the phases between two barriers, and what it found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._lazy import lazy
from toruscast._slow import pandas as pd
from toruscast.errors import InputError
from toruscast.mapping import MappingProblem, TaskMapping, Torus
from toruscast.routing.messages import Messages

from . import state as records
from .loop_kernels import run, start
from .message_times import MessageTimes, Span, link_table
from .setup import build_state
from .state import BETWEEN_LOOKS, waits_too_long


class Snapshot(NamedTuple):
    """The links at one moment: bytes so far and packets in the buffer, ``(n_links,)`` both."""

    time: float
    wire_bytes: NDArray[np.float64]
    occupied: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Stretch(Span):
    """Phases whose packets were simulated together."""

    packets: NDArray[np.int64]  # (n_links,)
    wire_bytes: NDArray[np.float64]
    most: NDArray[np.int64]
    waited: NDArray[np.float64]
    fifo_waited: NDArray[np.float64]  # (n_nodes * fifos,)
    fifo_most: NDArray[np.int32]
    fifo_stay: NDArray[np.float64]
    snapshots: tuple[Snapshot, ...]


Progress = Callable[[int, int], object]

# Packet-hops between two calls of `progress`, and between two looks for Ctrl-C: about a tenth of a
# second.
_SLICE = 2**20
_NEVER = 2**62
# Difference of the seeds of two phases; such seeds are far from those that people choose.
SEED_STEP = 0x1E3779B97F4A7C15
# Most snapshots, and most bytes that they may take together.
_MOST_SNAPSHOTS = 100_000
_MOST_SNAPSHOT_BYTES = 2 * 10**9
# Approximate bytes of a snapshot.
_SNAPSHOT_BYTES, _BYTES_A_LINK = 1000, 12


class Options(NamedTuple):
    """Options that all attempts at a simulation share."""

    mapping: TaskMapping
    seed: int
    interval: float | None
    progress: Progress | None
    places: int


class Steps:
    """Progress of a simulation, and its number of snapshots."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.total, self.before = progress, total, 0
        self.told = 0
        self.snapshots = 0

    def report(self, done: int) -> None:
        """Report how many packet-hops of this run are done."""
        if self.progress is not None:
            # Progress does not go back if a run starts again.
            self.told = max(self.told, min(self.before + done, self.total))
            self.progress(self.told, self.total)


def packet_hops(messages: Messages, torus: Torus) -> int:
    """Return the hops of all packets, including questions and answers."""
    hops = torus.distance(messages.src, messages.dst)
    # A question and its answer are a packet each.
    return int((messages.packets * hops).sum() + 2 * hops[messages.asks].sum())


def run_stretch(
    problem: MappingProblem,
    messages: Messages,
    numbers: tuple[int, ...],
    begin: float,
    options: Options,
    steps: Steps,
) -> Stretch:
    """Simulate phases that no barrier separates, of these numbers in the run."""
    torus, interval = problem.torus, options.interval
    if messages.task.size:
        begin += torus.network.start
    # Random draws differ after each barrier.
    seed = (options.seed + numbers[0] * SEED_STEP) % 2**63
    snapshots = None
    halved = 0
    while snapshots is None:
        state, tick = build_state(
            messages,
            len(numbers),
            torus,
            options.mapping,
            problem.phases[0].routing,
            seed=seed,
            places=options.places,
            looked_at=interval is not None,
            halved=halved,
        )
        snapshots = _pass(state, tick, begin, options, steps, most_snapshots(torus))
        halved += 1
    if state.packets.receipt["left"].any():
        raise RuntimeError("packets are left that no event moves")
    if interval is not None:
        last = float(state.packets.receipt["finish"][: messages.task.size].max(initial=0)) * tick
        snapshots.append(_snapshot(state, last, begin))
    hops = int(state.events.clock[records.HOPS])
    steps.report(hops)
    steps.before += hops
    n = messages.task.size
    first = state.packets.message["ready"][state.rounds.first]
    finish = state.packets.receipt["finish"][:n] * tick
    return Stretch(
        phases=numbers,
        begin=begin,
        end=begin + float(finish.max(initial=0.0)),
        messages=messages,
        handed_over=begin + first * tick,
        arrived=np.asarray(begin + finish, dtype=np.float64),
        packets=state.links.counter["packets"].astype(np.int64),
        wire_bytes=state.links.counter["wire_bytes"].copy(),
        most=state.links.counter["most"].astype(np.int64),
        waited=state.links.counter["waited"] * tick,
        fifo_waited=_by_queue(state.packets.fifo["waited"] * tick, state.rules.shared_by),
        fifo_most=state.packets.filling["most"].copy(),
        fifo_stay=state.packets.filling["stay"] * tick,
        snapshots=tuple(snapshots),
    )


def _pass(
    state: records.State, tick: float, begin: float, options: Options, steps: Steps, kept: int
) -> list[Snapshot] | None:
    """Run to the end; return the snapshots, or None if a packet waits too long."""
    start(state)
    snapshots: list[Snapshot] = []
    every = _NEVER
    if options.interval is not None:
        every = round(min(max(1.0, options.interval / tick), _NEVER))
    snapshot = every
    look = BETWEEN_LOOKS
    taken = steps.snapshots
    while run(state, min(snapshot, look), _SLICE):
        steps.report(int(state.events.clock[records.HOPS]))
        following = int(state.events.clock[records.HELD])
        if following > look:
            if waits_too_long(state, look):
                steps.snapshots = taken
                return None
            # If nothing happens, nothing waits.
            look = following + BETWEEN_LOOKS
        if following > snapshot:
            steps.snapshots += 1
            if steps.snapshots > kept:
                raise InputError(
                    "interval too short: too many snapshots",
                    found=f"{every * tick:.3g} s",
                    expected=f"at most {kept} of them in a run",
                )
            snapshots.append(_snapshot(state, snapshot * tick, begin))
            snapshot = min(snapshot + every, _NEVER)
    return snapshots


def _by_queue(values: NDArray[np.float64], shared_by: int) -> NDArray[np.float64]:
    """Return the sum over the FIFOs of one queue, at the first of them."""
    sums = np.zeros_like(values)
    sums[::shared_by] = values.reshape(-1, shared_by).sum(axis=1)
    return sums


def most_snapshots(torus: Torus) -> int:
    """Return the most snapshots that a run keeps."""
    each = _SNAPSHOT_BYTES + _BYTES_A_LINK * torus.n_links
    return min(_MOST_SNAPSHOTS, _MOST_SNAPSHOT_BYTES // each)


def _snapshot(state: records.State, now: float, begin: float) -> Snapshot:
    counter = state.links.counter
    return Snapshot(begin + now, counter["wire_bytes"].copy(), state.links.link["occupied"].copy())


_CHUNK_BYTES = 32
# Bytes of packets have single precision, so a rounding error must not begin another chunk.
_EXACT = 1 - 1e-7


@dataclass(frozen=True, eq=False, repr=False)
class Simulation(MessageTimes[Stretch]):
    """Times and counters of a simulated workload; made by `simulate`.

    Attributes
    ----------
    coarsening : int
        Real packets carried by one simulated packet, at most.
    error : float, optional
        Requested relative error of the time.
    change : float
        Relative change of the time at the last halving of packets; 0 if none is merged.

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
    def most_buffered(self) -> NDArray[np.int64]:
        """Most packets in the buffer behind the link at one time, ``(n_links,)``."""
        most = np.maximum.reduce([stretch.most for stretch in self.stretches])
        return np.asarray(most, dtype=np.int64)

    @lazy
    def buffered_seconds(self) -> NDArray[np.float64]:
        """Packets in that buffer, summed over time: seconds that all spent there, ``(n_links,)``.

        What [Jain13] calls buffer length: a counter of the machine that sums packets over cycles.
        """
        return np.asarray(self._sum("waited"), dtype=np.float64)

    @property
    def packet_hops(self) -> int:
        """Links crossed by all simulated packets."""
        return int(self.packets.sum())

    @property
    def delay(self) -> NDArray[np.float64]:
        """Seconds that a packet stays in that buffer, ``(n_links,)``; 0 on idle links [Jain13]."""
        return self.buffered_seconds / np.maximum(self.packets, 1)

    def links(self) -> pd.DataFrame:
        """Return the counters of every existing link, one a row, indexed by link number.

        ``chunks`` are units of 32 bytes. ``busy_share`` is the share of the time that its bytes
        take at its bandwidth; packets from a slower link occupy it for longer. ``mean_buffered``
        and ``most_buffered`` count packets in the buffer behind it, which may be more than
        ``buffer_packets`` if they are short. ``buffered_seconds`` is their number summed over time,
        ``delay`` the seconds that a packet spends there. All count the whole run, with every
        iteration of it.
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
            most_buffered=self.most_buffered[exists],
            delay=self.delay[exists],
        )

    def fifos(self) -> pd.DataFrame:
        """Return the injection FIFOs, one a row: messages, bytes, packets and how long they waited.

        ``most_edges`` is the most edges with messages in the FIFO at one time. ``mean_stay`` is the
        seconds that an edge's messages were there, until their last packet was at the router.
        ``mean_wait`` is the seconds that a packet waits at the router for its link, a mean over
        ``packets``. These three include the questions and answers of messages that ask first
        (rendezvous); the other columns do not. With the rule ``first_free`` all FIFOs of a node
        take from one queue, which is listed as the first FIFO.
        """
        fifos = self.torus.network.fifos
        size = self.torus.n_nodes * fifos
        count, nbytes, packets, edges = np.zeros((4, size))
        for stretch in self.stretches:
            listed = stretch.messages
            remote = listed.fifo >= 0
            place = listed.src[remote].astype(np.int64) * fifos + listed.fifo[remote]
            count += np.bincount(place, self._n_messages(stretch)[remote], minlength=size)
            nbytes += np.bincount(place, listed.nbytes[remote], minlength=size)
            packets += np.bincount(place, listed.packets[remote], minlength=size)
            edges += np.bincount(place, minlength=size)
        waited = self._sum("fifo_waited")
        node, fifo = np.divmod(np.arange(size), fifos)
        return pd.DataFrame(
            {
                "node": node,
                "fifo": fifo,
                "messages": count.astype(np.int64),
                "nbytes": nbytes,
                "packets": packets.astype(np.int64),
                "most_edges": np.maximum.reduce([s.fifo_most for s in self.stretches]),
                "mean_stay": self._sum("fifo_stay") / np.maximum(edges, 1),
                "mean_wait": waited / np.maximum(packets, 1),
            }
        )

    def series(self) -> pd.DataFrame:
        """Return the snapshots of ``interval``: the bytes and the buffer of each link.

        Columns: ``time`` (seconds, the end of the interval), ``link``, ``wire_bytes`` (whole
        packets whose heads came through in the interval; in a short one this may exceed what the
        link can send) and ``buffered`` (packets in the buffer at its end). Idle links are left out.
        """
        times, links, sent, buffered = [0.0], [np.arange(0)], [np.zeros(0)], [np.zeros(0, np.int32)]
        for stretch in self.stretches:
            before = np.zeros(self.torus.n_links)
            for snapshot in stretch.snapshots:
                more = snapshot.wire_bytes - before
                before = snapshot.wire_bytes
                active = np.flatnonzero((more > 0) | (snapshot.occupied > 0))
                times.append(snapshot.time)
                links.append(active)
                sent.append(more[active])
                buffered.append(snapshot.occupied[active])
        return pd.DataFrame(
            {
                "time": np.repeat(times, [active.size for active in links]),
                "link": np.concatenate(links),
                "wire_bytes": np.concatenate(sent),
                "buffered": np.concatenate(buffered),
            }
        )
