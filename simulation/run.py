"""A run of the phases between two barriers: clock and snapshots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.mapping import CommGraph, TaskMapping, Torus, Workload
from toruscast.routing.messages import Messages
from toruscast.routing.routing import phase_routings
from toruscast.typing import Routing

from . import _state as records
from ._clock import BETWEEN_LOOKS, waits_too_long
from .kernels.loop import run, start
from .message_times import Span
from .setup import build_state


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

    phases: Sequence[CommGraph]
    torus: Torus
    mapping: TaskMapping
    routing: Routing
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
    messages: Messages, numbers: list[int], begin: float, options: Options, steps: Steps
) -> Stretch:
    """Simulate phases that no barrier separates."""
    torus, interval = options.torus, options.interval
    if messages.task.size:
        begin += torus.network.start
    together = Workload([options.phases[i] for i in numbers], dependent=len(numbers) > 1)
    routing = phase_routings(options.routing, together, torus)[0]
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
            routing,
            seed=seed,
            places=options.places,
            looked_at=interval is not None,
            halved=halved,
        )
        snapshots = _pass(state, tick, begin, options, steps)
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
        phases=tuple(numbers),
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
    state: records.State, tick: float, begin: float, options: Options, steps: Steps
) -> list[Snapshot] | None:
    """Run to the end; return the snapshots, or None if a packet waits too long."""
    start(state)
    snapshots: list[Snapshot] = []
    every = _NEVER
    if options.interval is not None:
        every = round(min(max(1.0, options.interval / tick), _NEVER))
    snapshot = every
    look = BETWEEN_LOOKS
    kept = most_snapshots(options.torus)
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
