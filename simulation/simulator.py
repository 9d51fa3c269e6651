"""Level 2: the packet-level simulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.mapping import CommGraph, TaskMapping, Torus, Workload, as_workload
from toruscast.mapping.task_mapping import as_mapping
from toruscast.routing.messages import Messages, list_messages
from toruscast.routing.packets import longest_message
from toruscast.routing.routing import Routing, check_routing, phase_routings
from toruscast.validation import real_number, whole_number

from . import _state as records
from ._clock import BETWEEN_LOOKS, waits_too_long
from ._setup import LARGEST_PACKET, build_state
from .coarsening import PLACES, refine
from .kernels.loop import run, start
from .simulation import Simulation
from .stall import check_finished
from .stretch import Snapshot, Stretch

Progress = Callable[[int, int], object]

# Packet-hops between two calls of `progress`: about a tenth of a second.
_SLICE = 2**20
_NEVER = 2**62
# From one phase's seed to the next: far from those that people choose.
SEED_STEP = 0x1E3779B97F4A7C15
# Snapshots, and bytes that they may take together.
_MOST_SNAPSHOTS = 100_000
_MOST_SNAPSHOT_BYTES = 2 * 10**9
# About what a snapshot takes.
_SNAPSHOT_BYTES, _BYTES_A_LINK = 1000, 12


def simulate(
    traffic: Workload | CommGraph,
    torus: Torus,
    mapping: TaskMapping,
    *,
    routing: Routing = "deterministic",
    coarsening: int = 1,
    error: float | None = None,
    seed: int = 0,
    interval: float | None = None,
    watch: tuple[int, int] | None = None,
    progress: Progress | None = None,
) -> Simulation:
    """Send the messages of each phase packet by packet and count what links and FIFOs see.

    Parameters
    ----------
    traffic : Workload or CommGraph
        Phases run one after the other, a barrier between them; those of a workload with
        ``dependent=True`` are rounds, which each task enters when it has finished the one before.
        An edge sends its bytes in `CommGraph.whole_messages`, spread evenly over their packets; one
        of half a message or less sends nothing.
    torus, mapping
        Where the tasks run. The constants are those of ``torus.network``.
    routing : {"deterministic", "adaptive", "by_size"}
        Dimension order; or minimal adaptive, which takes the emptiest productive output of the zone
        and falls back to dimension order; or the second for phases whose longest message has more
        than ``torus.network.deterministic_limit`` bytes and the first for the others (dependent
        rounds are one phase here).
    coarsening : int
        Real packets that one simulated packet carries, header and payload of each; a message of
        fewer is one packet. Buffers hold fewer of the longer packets, but three where they held
        that many; first come, first served, a longer packet of a FIFO lets the others go first as
        often as the real ones would. Loads stay as they are; pipelining becomes coarser.
    error : float, optional
        Relative error of the time that will do, such as 0.03: packets are halved until the time
        changes by much less three times in a row (six after a jump), and with more room behind the
        links, or are real ones. Not together with `coarsening`.
    seed : int
        Of what is drawn: the way round at ties if the torus has that rule, and with datelines the
        channel of packets that cross none.
    interval : float, optional
        Seconds between the snapshots that `Simulation.series` shows: at most 100,000 of them and
        2 GB.
    watch : (int, int), optional
        Phase and edge of the message whose packets `Simulation.log` follows, for the first million
        events.
    progress : callable, optional
        Called now and then with the packet-hops done and those there are.

    Returns
    -------
    Simulation

    Raises
    ------
    InputError
        If the mapping does not fit, an option is not valid, or times, packets or snapshots are more
        than can be counted or kept.
    StallError
        If packets wait for each other in a ring, which can happen with ``deadlock="none"`` only.

    Notes
    -----
    A task prepares its messages one after the other, starting with its next higher partner and
    going round, and hands each to an injection FIFO. A FIFO sends one packet after the other. A
    router forwards a packet when its head has arrived (virtual cut-through; off a slower link no
    faster than it comes) and the buffer behind the next link has room; a place is free again when
    its packet begins to leave. Entering a ring takes two free places, staying on it one, so that a
    ring never fills up (the bubble rule), or there are two channels: one for packets whose way
    crosses the ring's edge, one for those that cross its middle, either for others (datelines).
    `docs/reference/simulator.md` has the model in full, with its sources.

    The first call on a machine compiles the simulator, once, which takes up to half a minute.

    Time runs in ticks of at most 1/1024 of a full packet's time on the fastest link; in longer ones
    where the run would take more than 2**31 of them.

    Examples
    --------
    One packet: overhead + hops x latency + serialisation.

    >>> torus = Torus((8,))
    >>> result = simulate(CommGraph(2, [0], [1], [512]), torus, TaskMapping([0, 3], 8))
    >>> round(result.time * 1e9), 500 + 3 * 40 + 544 // 2
    (892, 892)
    """
    workload = as_workload(traffic)
    as_mapping(mapping).check(workload.n_tasks, torus)
    check_routing(routing)
    if torus.network.arbitration == "fair" and "adaptive" in phase_routings(
        routing, workload, torus
    ):
        # What share of a link a message has had cannot be told before it is known to take it.
        raise InputError(
            "fair arbitration under adaptive routing",
            expected="packets in dimension order, or another arbitration",
        )
    coarsening = whole_number(coarsening, "coarsening", 1, 2**53)
    seed = whole_number(seed, "seed", 0, 2**63 - 1)
    if error is not None and coarsening != 1:
        raise InputError("both error and coarsening given", expected="one of them")
    if error is not None and not 0 < real_number(error, "error", 0) < 1:
        raise InputError("bad error", found=error, expected="more than 0, less than 1")
    if interval is not None and not real_number(interval, "interval", 0) > 0:
        raise InputError("bad interval", found=interval, expected="seconds, more than 0")
    if watch is not None:
        watch = _phase_and_edge(watch, workload)
    if progress is not None and not callable(progress):
        raise InputError("bad progress", found=progress, expected="a function of two numbers")

    options = _Options(
        workload.phases, torus, mapping, routing, seed, interval, watch, progress, PLACES
    )
    if error is None:
        return _simulate(workload, options, coarsening)
    hops = sum(_packet_hops(list_messages([p], torus, mapping, 1), torus) for p in workload)
    network = torus.network
    result, change = refine(
        error,
        longest_message(workload, torus),
        hops,
        network.buffer_packets,
        lambda merged, places: _simulate(workload, options._replace(places=places), merged),
        LARGEST_PACKET // (network.payload + network.header),
    )
    return replace(result, error=error, change=change)


def _phase_and_edge(watch: object, workload: Workload) -> tuple[int, int]:
    if isinstance(watch, Sequence) and not isinstance(watch, str) and len(watch) == 2:
        phase, edge = watch
        with suppress(InputError):
            phase = whole_number(phase, "phase", 0, len(workload) - 1)
            return phase, whole_number(edge, "edge", 0, workload.phases[phase].n_edges - 1)
    raise InputError("bad watch", found=watch, expected="a phase and one of its edges")


class _Options(NamedTuple):
    """What all attempts at a simulation share."""

    phases: Sequence[CommGraph]
    torus: Torus
    mapping: TaskMapping
    routing: Routing
    seed: int
    interval: float | None
    watch: tuple[int, int] | None
    progress: Progress | None
    places: int


def _simulate(workload: Workload, options: _Options, coarsening: int) -> Simulation:
    """Simulate the phases, those between two barriers at a time."""
    torus, mapping = options.torus, options.mapping
    phases = list(workload)
    numbers = range(len(phases))
    together = [list(numbers)] if workload.dependent else [[i] for i in numbers]
    listed = [
        list_messages([phases[i] for i in several], torus, mapping, coarsening)
        for several in together
    ]
    total = 0
    if options.progress is not None:
        total = sum(_packet_hops(messages, torus) for messages in listed)
    steps = _Steps(options.progress, total)
    begin = 0.0
    stretches = []
    for several, messages in zip(together, listed, strict=True):
        stretches.append(_run(messages, several, begin, options, steps))
        begin = stretches[-1].end
    return Simulation(workload, torus, mapping, tuple(stretches), options.routing, coarsening)


class _Steps:
    """Reports how far the simulation has come, and counts its snapshots."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.total, self.before = progress, total, 0
        self.told = 0
        self.snapshots = 0
        self.size = _NEVER if progress is None else _SLICE

    def report(self, done: int) -> None:
        if self.progress is not None:
            # A run that begins again does not go back.
            self.told = max(self.told, min(self.before + done, self.total))
            self.progress(self.told, self.total)

    def finish(self, done: int) -> None:
        self.before += done


def _packet_hops(messages: Messages, torus: Torus) -> int:
    hops = torus.distance(messages.src, messages.dst)
    # A question and its answer are a packet each.
    return int((messages.packets * hops).sum() + 2 * hops[messages.asks].sum())


def _run(
    messages: Messages, numbers: list[int], begin: float, options: _Options, steps: _Steps
) -> Stretch:
    """Simulate phases that no barrier separates."""
    torus, interval = options.torus, options.interval
    watched = records.NONE
    if options.watch is not None:
        phase, edge = options.watch
        which = np.flatnonzero((messages.round == phase - numbers[0]) & (messages.edge == edge))
        watched = int(which[0]) if which.size else records.NONE
    together = Workload([options.phases[i] for i in numbers], dependent=len(numbers) > 1)
    routing = phase_routings(options.routing, together, torus)[0]
    # What is drawn falls anew after each barrier.
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
            watched=watched,
            places=options.places,
            looked_at=interval is not None,
            halved=halved,
        )
        snapshots = _pass(state, tick, begin, options, steps)
        halved += 1
    check_finished(state, torus)
    if interval is not None:
        last = float(state.receipt["finish"][: messages.task.size].max(initial=0)) * tick
        snapshots.append(_snapshot(state, last, begin))
    steps.report(int(state.clock[records.HOPS]))
    steps.finish(int(state.clock[records.HOPS]))
    n = messages.task.size
    first = state.message["ready"][state.first]
    finish = state.receipt["finish"][:n] * tick
    return Stretch(
        phases=tuple(numbers),
        begin=begin,
        end=begin + float(finish.max(initial=0.0)),
        messages=messages,
        handed_over=begin + first * tick,
        arrived=np.asarray(begin + finish, dtype=np.float64),
        packets=state.counter["packets"].astype(np.int64),
        wire_bytes=state.counter["wire_bytes"].copy(),
        found=state.counter["found"].copy(),
        most=state.counter["most"].astype(np.int64),
        waited=state.counter["waited"] * tick,
        fifo_waited=_by_queue(state.fifo["waited"] * tick, state.shared_by),
        fifo_most=state.filling["most"].copy(),
        fifo_stay=state.filling["stay"] * tick,
        snapshots=tuple(snapshots),
        log=_log(state, tick, begin),
        not_logged=max(0, int(state.clock[records.LOGGED]) - len(state.log)),
        watched=watched,
    )


def _pass(
    state: records.State, tick: float, begin: float, options: _Options, steps: _Steps
) -> list[Snapshot] | None:
    """Let all of a run's time pass; returns its snapshots, or None if a packet waits too long."""
    start(state)
    snapshots: list[Snapshot] = []
    every = _NEVER
    if options.interval is not None:
        every = round(min(max(1.0, options.interval / tick), _NEVER))
    snapshot = every
    look = BETWEEN_LOOKS
    kept = most_snapshots(options.torus)
    taken = steps.snapshots
    while run(state, min(snapshot, look), steps.size):
        steps.report(int(state.clock[records.HOPS]))
        following = int(state.clock[records.HELD])
        if following > look:
            if waits_too_long(state, look):
                steps.snapshots = taken
                return None
            # Where nothing happens nothing waits.
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
    """Sum of the FIFOs that take from one queue, at the first of them."""
    sums = np.zeros_like(values)
    sums[::shared_by] = values.reshape(-1, shared_by).sum(axis=1)
    return sums


def most_snapshots(torus: Torus) -> int:
    """Snapshots that a run keeps at most."""
    each = _SNAPSHOT_BYTES + _BYTES_A_LINK * torus.n_links
    return min(_MOST_SNAPSHOTS, _MOST_SNAPSHOT_BYTES // each)


def _snapshot(state: records.State, now: float, begin: float) -> Snapshot:
    counter = state.counter
    return Snapshot(begin + now, counter["wire_bytes"].copy(), state.link["occupied"].copy())


def _log(state: records.State, tick: float, begin: float) -> NDArray[np.float64]:
    log = state.log[: state.clock[records.LOGGED]].astype(np.float64)
    log[:, 0] = begin + log[:, 0] * tick
    return log
