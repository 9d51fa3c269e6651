"""Traces of a simulation for Perfetto, and a table of its slowest messages."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from toruscast._slow import pandas as pd
from toruscast.files import atomic_path
from toruscast.mapping.torus import TIE_RULES
from toruscast.routing.messages import packet_counts
from toruscast.routing.routing import has_multiple_routes, routes
from toruscast.typing import Floats, Ints

from .results import Simulation

# A trace shows at most this many messages (the slowest) and links with counters (the busiest).
MAX_MESSAGES, MAX_LINKS = 10_000, 16
# Process numbers of the trace; nodes come last. Viewers treat process 0 and thread 0 as idle.
_PHASES, _LINKS, _NODES = 1, 2, 3


def write_trace(simulation: Simulation, path: str | os.PathLike[str]) -> None:
    """Write a simulation as a Chrome trace in JSON, atomically."""
    events = trace_events(simulation)
    about = json.dumps(_describe_trace(simulation, events), indent=1)
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8") as stream:
        stream.write('{"displayTimeUnit": "ns",\n"otherData": ' + about + ',\n"traceEvents": [\n')
        for i, event in enumerate(events):
            stream.write((",\n" if i else "") + json.dumps(event, separators=(",", ":")))
        stream.write("\n]}\n")


def trace_events(simulation: Simulation) -> list[Event]:
    """Return the events of a simulation in the Trace Event Format, with times in microseconds.

    Rounds and messages overlap, so each is an asynchronous slice. With ``interval``, each of the
    busiest links has a counter of bytes per second, and a counter of the packets in its buffer.
    """
    sources = (_phase_events, _message_events, _link_events)
    events = [event for list_events in sources for event in list_events(simulation)]
    # Viewers expect names first, then events by time.
    return sorted(events, key=lambda event: event.get("ts", -1.0))


def _describe_trace(simulation: Simulation, events: list[Event]) -> dict[str, Any]:
    """Return metadata about the simulation, and about the messages that the trace omits."""
    n_shown = sum(event["ph"] == "b" and event["cat"] == "message" for event in events)
    counters = {event["tid"] for event in events if event["ph"] == "C"}
    sent = sum(int(stretch.messages.task.size) for stretch in simulation.stretches)
    description: dict[str, Any] = {
        "workload": simulation.workload.name,
        "torus": str(simulation.torus),
        "mapping": simulation.mapping.name,
        "routing": simulation.problem.routing,
        "coarsening": simulation.coarsening,
        "time_us": to_microseconds(simulation.time),
        "edges": sent,
        "edges shown": n_shown,
        "links": int((simulation.packets > 0).sum()),
        "links shown": len(counters),
    }
    if n_shown < sent:
        description["left out"] = f"{sent - n_shown} edges with the fastest messages"
    return description


def _phase_events(simulation: Simulation) -> Iterator[Event]:
    """Yield a slice for each phase or round, with its messages and bytes."""
    dependent = simulation.workload.dependent
    kind = "round" if dependent else "phase"
    yield from name_events(_PHASES, f"{kind}s")
    if not dependent:
        yield from name_events(_PHASES, "phases", 1)
    row: Any
    for row in simulation.phases().itertuples():
        key, span = f"{kind} {row.Index}", (row.begin, row.end)
        name = f"{key} {row.name}".strip()
        args = {"messages": row.messages, "bytes": row.nbytes}
        if dependent:
            yield from async_slice(name, key, (_PHASES, 1), span, args)
        else:
            # Round the start and the end separately, so that consecutive slices do not overlap.
            duration = round(to_microseconds(row.end) - to_microseconds(row.begin), 6)
            yield make_event("X", name, kind, (_PHASES, 1), row.begin, dur=duration, args=args)


def _message_events(simulation: Simulation) -> Iterator[Event]:
    """Yield a slice for each of the slowest messages, on the track of the task that sends it."""
    messages, node = simulation.messages(), simulation.mapping.node
    duration = (messages["arrived"] - messages["handed_over"]).to_numpy()
    messages = messages.iloc[np.sort(np.argsort(-duration, kind="stable")[:MAX_MESSAGES])]
    tasks = np.unique(messages["src"])
    for number in np.unique(node[tasks]).tolist():
        coords = ",".join(map(str, simulation.torus.coords[number].tolist()))
        yield from name_events(_NODES + number, f"node ({coords})")
    for task in tasks.tolist():
        yield from name_events(_NODES + int(node[task]), f"task {task}", task + 1)
    row: Any
    for row in messages.itertuples():
        args = {"bytes": row.nbytes, "hops": row.hops, "packets": row.packets, "FIFO": row.fifo}
        if len(simulation.workload) > 1:
            args["phase"] = row.phase
        name, key = f"{row.src} to {row.dst}", f"message {row.Index}"
        track, span = (_NODES + int(node[row.src]), row.src + 1), (row.handed_over, row.arrived)
        yield from async_slice(name, key, track, span, args)


def _link_events(simulation: Simulation) -> Iterator[Event]:
    """Yield the counters of the busiest links, if the simulation has snapshots."""
    if not any(stretch.snapshots for stretch in simulation.stretches):
        return
    yield from name_events(_LINKS, "busiest links")
    busy_seconds = simulation.wire_bytes / simulation.torus.link_bandwidth
    for link in np.argsort(-busy_seconds, kind="stable")[:MAX_LINKS].tolist():
        if busy_seconds[link]:
            yield from _counter_events(simulation, link)


def _counter_events(simulation: Simulation, link: int) -> Iterator[Event]:
    """Yield a link's bytes per second and buffered packets, from snapshot to snapshot."""
    label, track = simulation.torus.link_label(link), (_LINKS, link + 1)

    def counter_events(time: float, rate: float, packets: int) -> Iterator[Event]:
        yield make_event("C", f"{label} sends", "link", track, time, args={"bytes/s": rate})
        yield make_event("C", f"{label} buffer", "link", track, time, args={"packets": packets})

    for stretch in simulation.stretches:
        begin, sent, buffered = stretch.begin, 0.0, 0
        for snapshot in stretch.snapshots:
            # The last interval may extend beyond the last event.
            end, sent_until_end = min(snapshot.time, stretch.end), float(snapshot.wire_bytes[link])
            if end > begin:
                yield from counter_events(begin, (sent_until_end - sent) / (end - begin), buffered)
            begin, sent, buffered = end, sent_until_end, int(snapshot.occupied[link])
        # Counters are 0 after the last interval.
        yield from counter_events(begin, 0.0, 0)


Event = dict[str, Any]


def to_microseconds(seconds: float) -> float:
    """Return a time in microseconds, rounded to picoseconds."""
    return round(1e6 * float(seconds), 6)


def name_events(process: int, name: str, thread: int | None = None) -> Iterator[Event]:
    """Yield the name and the sort rank of a process or of one of its threads."""
    kind = "process" if thread is None else "thread"
    track = {"ph": "M", "pid": process, "tid": thread or 0}
    yield track | {"name": f"{kind}_name", "args": {"name": name}}
    rank = process if thread is None else thread
    yield track | {"name": f"{kind}_sort_index", "args": {"sort_index": rank}}


def make_event(
    kind: str, name: str, category: str, track: tuple[int, int], time: float, **more: Any
) -> Event:
    """Return an event of a thread; ``kind`` is the letter of the event's type in the format."""
    process, thread = track
    return {
        "ph": kind,
        "name": name,
        "cat": category,
        "pid": process,
        "tid": thread,
        "ts": to_microseconds(time),
        **more,
    }


def async_slice(
    name: str, key: str, track: tuple[int, int], span: tuple[float, float], args: Event
) -> Iterator[Event]:
    """Yield the start and the end of a slice that may overlap other slices.

    ``key`` is the category and the number of the slice, and ``track`` its process and thread.
    """
    category = key.split()[0]
    yield make_event("b", name, category, track, span[0], id=key, args=args)
    yield make_event("e", name, category, track, span[1], id=key)


def slowest_messages(simulation: Simulation, n: int = 5) -> pd.DataFrame:
    """Return a table of the ``n`` messages with the longest time from hand-over to arrival."""
    messages = simulation.messages()
    messages["took"] = messages["arrived"] - messages["handed_over"]
    table = messages.nlargest(n, "took")
    table["queued"] = _queue_seconds(simulation, messages, table.index.to_numpy())
    table = table.reset_index(drop=True)
    table["alone"] = [
        _uncontended_seconds(simulation, phase, edge, hops)
        for phase, edge, hops in zip(table["phase"], table["edge"], table["hops"], strict=True)
    ]
    if not has_multiple_routes(simulation.problem):
        links = simulation.buffered_seconds / np.maximum(simulation.packets, 1)
        fifos = simulation.fifos()["mean_wait"].to_numpy()
        node = simulation.mapping.node
        waits = [
            _longest_wait(simulation, int(node[src]), int(node[dst]), fifo, links, fifos)
            for src, dst, fifo in zip(table["src"], table["dst"], table["fifo"], strict=True)
        ]
        table["place"] = [place for place, _ in waits]
        table["wait"] = [wait for _, wait in waits]
    return table


def _uncontended_seconds(simulation: Simulation, phase: int, edge: int, hops: int) -> float:
    """Return the time of an edge's messages without contention; NaN if it depends on the routes.

    The packets follow each other at the rate of the slowest link or of the reception ports. The
    latency of the hops is added once.
    """
    problem, torus = simulation.problem.phases[phase], simulation.torus
    network, comm = torus.network, problem.comm
    nbytes = float(comm.nbytes[edge])
    if hops == 0:
        return nbytes / network.memory_bandwidth
    src, dst = simulation.mapping.node[comm.src[edge]], simulation.mapping.node[comm.dst[edge]]
    if torus.twist:
        gap = np.abs(torus.twisted_hops(np.array([src]), np.array([dst]))[0])
    else:
        gap = np.abs(torus.coords[src] - torus.coords[dst])
    link = float(np.array(torus.bandwidth)[gap > 0].min())
    if torus.exclusions.slow:
        link = float(torus.link_bandwidth[routes(torus, [src], [dst])[1]].min(initial=link))
    port = network.memory_bandwidth / network.reception_ports
    rate = min(link, network.memory_bandwidth)
    injection_rate = min(max(torus.bandwidth), network.memory_bandwidth)
    ties_are_fixed = torus.twist or TIE_RULES[torus.tie_break].adaptive_fixed
    is_tie = np.array(torus.wrap) & (2 * gap == np.array(torus.shape))
    has_choice = (gap > 0).sum() > 1 or (is_tie.any() and not ties_are_fixed)
    # If packets take different routes, their order of arrival at slow ports is unknown.
    if has_choice and (injection_rate > rate or port < rate) and has_multiple_routes(problem):
        return math.nan
    packets, wire = packet_counts(problem)
    head_latency = hops * network.hop_latency
    n_earlier = int(packets[edge]) - 1
    link_seconds, port_seconds = (float(wire[edge]) / speed for speed in (link, min(link, port)))
    # The last packet waits for earlier packets on the links or at its reception port.
    full_turns, turn = divmod(n_earlier, network.reception_ports)
    wait = max(n_earlier * link_seconds, turn * link_seconds + full_turns * port_seconds)
    uncontended = head_latency + wait + port_seconds
    if nbytes / comm.whole_messages[edge] > network.eager_limit:
        # A question and its answer each consist of a header.
        uncontended += 2 * (head_latency + network.header / min(link, port))
    return uncontended


def _queue_seconds(simulation: Simulation, messages: pd.DataFrame, chosen: Ints) -> list[float]:
    """Return how many seconds each message waits for earlier messages in its FIFO to arrive."""
    node = simulation.mapping.node[messages["src"]]
    fifo, ready, arrived, duration = (
        messages[name].to_numpy() for name in ("fifo", "handed_over", "arrived", "took")
    )
    queued = []
    for m in chosen.tolist():
        before = (node == node[m]) & (fifo == fifo[m]) & (ready < ready[m]) & (fifo[m] >= 0)
        last = float(arrived[before].max(initial=0.0))
        queued.append(min(max(last - float(ready[m]), 0.0), float(duration[m])))
    return queued


def _longest_wait(
    simulation: Simulation, src: int, dst: int, fifo: int, links: Floats, fifos: Floats
) -> tuple[str, float]:
    """Return the FIFO or link between two nodes with the longest mean wait, and this wait.

    ``links`` and ``fifos`` have the mean wait (s) at each link and at each injection FIFO.
    """
    if fifo < 0:
        return "", 0.0
    torus = simulation.torus
    _, route = routes(torus, [src], [dst])
    waits = {f"in FIFO {fifo}": float(fifos[src * torus.network.fifos + fifo])}
    waits |= {f"behind {torus.link_label(link)}": float(links[link]) for link in route.tolist()}
    place = max(waits, key=lambda name: waits[name])
    return place, waits[place]
