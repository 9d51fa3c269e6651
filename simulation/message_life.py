"""Stations of the packets of a watched message, from the simulator's log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from toruscast._slow import pandas as pd

from ._state import ARRIVED, HANDED_OVER, INJECTED, SENT, TAKEN_IN
from .run import Stretch
from .simulation import Simulation

FIFO, WIRE, HOP, BUFFER, RECEPTION = "FIFO", "wire", "hop", "buffer", "reception"


class WatchedMessage(NamedTuple):
    """The message that a simulation watched; times in seconds.

    A message that asks its receiver first is released to its FIFO when the answer is back, any
    other when it is handed over.
    """

    phase: int
    src: int  # tasks
    dst: int
    handed_over: float
    released: float
    arrived: float


def watched_message(simulation: Simulation) -> WatchedMessage | None:
    """Return the message whose packets the simulation logged, None if there is none.

    Examples
    --------
    >>> from toruscast.features import simulate
    >>> from toruscast.mapping import CommGraph, TaskMapping, Torus
    >>> comm, torus = CommGraph(2, [0], [1], [1000]), Torus((8,))
    >>> result = simulate(comm, torus, TaskMapping([0, 3], 8), watch=(0, 0))
    >>> watched_message(result)[:3]
    (0, 0, 1)
    """
    found = _watched(simulation)
    if found is None:
        return None
    stretch, m = found
    listed = stretch.messages
    return WatchedMessage(
        int(np.array(stretch.phases)[listed.round[m]]),
        int(listed.task[m]),
        int(listed.receiver[m]),
        float(stretch.handed_over[m]),
        float(stretch.log[0, 0]),
        float(stretch.arrived[m]),
    )


def message_life(simulation: Simulation) -> pd.DataFrame:
    """Return the stations of each packet of the watched message, one a row, by packet and time.

    Parameters
    ----------
    simulation : Simulation
        Made with `watch`.

    Returns
    -------
    DataFrame
        Columns ``packet``, ``station``, ``place`` (FIFO of its node, or link number; -1 at the
        receiver), ``begin`` and ``end`` (seconds). The stations ``FIFO`` (from the hand-over on, or
        from the answer on if it asks its receiver first), ``hop`` (its head crosses a link),
        ``buffer`` (its head waits behind the link) and ``reception`` follow each other without a
        gap; ``wire`` is the time that the packet occupies a link, from its head to its tail. No
        rows without `watch`, or within a node.

    Notes
    -----
    The place of the tail follows from the log as in the simulator: a packet takes its bytes over
    the link's bandwidth, and longer if it comes from a slower link.

    Examples
    --------
    >>> from toruscast.features import simulate
    >>> from toruscast.mapping import CommGraph, TaskMapping, Torus
    >>> comm, torus = CommGraph(2, [0], [1], [1000]), Torus((8,))
    >>> life = message_life(simulate(comm, torus, TaskMapping([0, 2], 8), watch=(0, 0)))
    >>> first = life[life["packet"] == 0]
    >>> [f"{s} {1e9 * (e - b):.0f} ns" for _, s, _, b, e in first.itertuples(index=False)]
    ['FIFO 0 ns', 'hop 40 ns', 'wire 266 ns', 'hop 40 ns', 'wire 266 ns', 'reception 266 ns']
    """
    found = _watched(simulation)
    rows = [] if found is None else list(_stations(simulation, *found))
    table = pd.DataFrame(rows, columns=["packet", "station", "place", "begin", "end"])
    table = table.astype({"packet": np.int64, "place": np.int64})
    return table.sort_values(["packet", "begin", "end"], kind="stable", ignore_index=True)


def waits_by_place(simulation: Simulation) -> pd.DataFrame:
    """Return where packets of the watched message waited, in the order of travel, one place a row.

    Columns: ``where`` (in words), ``packets`` (that waited there), ``mean`` and ``longest``
    (seconds that they waited).

    Examples
    --------
    >>> from toruscast.features import simulate
    >>> from toruscast.mapping import CommGraph, TaskMapping, Torus
    >>> comm, torus = CommGraph(2, [0], [1], [1000]), Torus((8,))
    >>> result = simulate(comm, torus, TaskMapping([0, 2], 8), watch=(0, 0))
    >>> waits_by_place(result)["where"].tolist()
    ['in FIFO 1']
    """
    life = message_life(simulation)
    hops = life[life["station"] == HOP]
    # With adaptive routing, a link may be the first of one packet and the second of another.
    turn = hops.groupby("packet").cumcount().groupby(hops["place"]).mean()
    waits = life[life["station"].isin([FIFO, BUFFER]) & (life["end"] > life["begin"])]
    waits = waits.assign(wait=waits["end"] - waits["begin"])
    table = waits.groupby(["station", "place"])["wait"].agg(["size", "mean", "max"]).reset_index()
    table["turn"] = table["place"].map(turn).where(table["station"] == BUFFER, -1.0)
    table = table.sort_values("turn", kind="stable", ignore_index=True)
    where = [
        station_name(simulation, station, place)
        for station, place in zip(table["station"], table["place"], strict=True)
    ]
    table.insert(0, "where", where)
    table = table.rename(columns={"size": "packets", "max": "longest"})
    return table[["where", "packets", "mean", "longest"]]


def station_name(simulation: Simulation, station: str, place: int) -> str:
    """Return a station of `message_life` in words."""
    if station == FIFO:
        return f"in FIFO {place}"
    if station == RECEPTION:
        return "reception"
    words = {HOP: "over", BUFFER: "behind", WIRE: "on"}
    return f"{words[station]} {simulation.torus.link_label(place)}"


def _watched(simulation: Simulation) -> tuple[Stretch, int] | None:
    """Return the stretch with the log, and the watched message in it."""
    return next(((s, s.watched) for s in simulation.stretches if len(s.log)), None)


def _stations(
    simulation: Simulation, stretch: Stretch, m: int
) -> Iterator[tuple[int, str, int, float, float]]:
    """Follow each packet through the log."""
    torus = simulation.torus
    network = torus.network
    wire = float(stretch.messages.wire[m])
    reception = wire * network.reception_ports / network.memory_bandwidth
    start = float(stretch.log[0, 0])
    # The time at which each link is free; rounded ticks may put the next packet a little before it.
    free: dict[int, float] = {}
    # For the packet in each slot: number, time and place of its head's arrival, time of its tail.
    number: dict[int, int] = {}
    since: dict[int, tuple[float, int]] = {}
    tail: dict[int, float] = {}
    injected = 0
    for time, kind, slot, place in stretch.log.tolist():
        place = int(place)
        if kind == HANDED_OVER:
            start = time
        elif kind == INJECTED:
            number[slot], since[slot], tail[slot] = injected, (start, -1), time
            fifo = place % network.fifos
            injected += 1
        elif kind == SENT:
            came, behind = since[slot]
            if behind < 0:
                yield number[slot], FIFO, fifo, came, time
            elif time > came:
                yield number[slot], BUFFER, behind, came, time
            begin = max(time, free.get(place, 0.0))
            gone = max(begin + wire / torus.link_bandwidth[place], tail[slot])
            free[place], tail[slot] = gone, gone + network.hop_latency
            yield number[slot], WIRE, place, begin, gone
            since[slot] = (time, place)
        elif kind == ARRIVED:
            yield number[slot], HOP, place, since[slot][0], time
            since[slot] = (time, place)
        elif kind == TAKEN_IN:
            came, behind = since[slot]
            # A packet has waited for a port if it ends later than one that did not wait.
            waited = time > max(came + reception, tail[slot]) + 1e-3 * wire / max(torus.bandwidth)
            begin = time - reception if waited else came
            if waited:
                yield number[slot], BUFFER, behind, came, begin
            yield number[slot], RECEPTION, -1, begin, time
