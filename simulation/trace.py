"""A simulation in time: its slowest messages, and a trace for Perfetto."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast._slow import pandas as pd
from toruscast.files import atomic_path
from toruscast.mapping.torus import TIE_RULES
from toruscast.routing.messages import packet_counts
from toruscast.routing.routing import routes, ways_are_open
from toruscast.validation import whole_number

from .results import Simulation

LONGEST = 10_000
BUSIEST = 16
# Processes of the trace, before those of the nodes. Viewers take process 0 and thread 0 as idle.
_PHASES, _LINKS, _NODES = 1, 2, 3


def write_trace(
    simulation: Simulation,
    path: str | os.PathLike[str],
    *,
    longest: int = LONGEST,
    busiest: int = BUSIEST,
) -> None:
    """Write a simulation as a Chrome trace in JSON; the file appears complete or not at all."""
    events = trace_events(simulation, longest=longest, busiest=busiest)
    about = json.dumps(_about(simulation, events), indent=1)
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8") as stream:
        stream.write('{"displayTimeUnit": "ns",\n"otherData": ' + about + ',\n"traceEvents": [\n')
        for i, event in enumerate(events):
            stream.write((",\n" if i else "") + json.dumps(event, separators=(",", ":")))
        stream.write("\n]}\n")


def trace_events(
    simulation: Simulation, *, longest: int = LONGEST, busiest: int = BUSIEST
) -> list[Event]:
    """Return a simulation in the Chromium project's Trace Event Format, times in microseconds.

    Rounds and messages overlap, so each is an asynchronous slice. With ``interval``, each of the
    busiest links has a counter of bytes per second and one of the packets behind it.
    """
    longest, busiest = whole_number(longest, "longest", 0), whole_number(busiest, "busiest", 0)
    events = [
        *_phases(simulation),
        *_messages(simulation, longest),
        *_links(simulation, busiest),
    ]
    # Viewers expect names first, then events in the order of time.
    return sorted(events, key=lambda event: event.get("ts", -1.0))


def _about(simulation: Simulation, events: list[Event]) -> dict[str, Any]:
    """Describe the simulation, and how much of it the trace shows."""
    shown = sum(event["ph"] == "b" and event["cat"] == "message" for event in events)
    counters = {event["tid"] for event in events if event["ph"] == "C"}
    sent = sum(int(stretch.messages.task.size) for stretch in simulation.stretches)
    about: dict[str, Any] = {
        "workload": simulation.workload.name,
        "torus": str(simulation.torus),
        "mapping": simulation.mapping.name,
        "routing": simulation.problem.routing,
        "coarsening": simulation.coarsening,
        "time_us": microseconds(simulation.time),
        "edges": sent,
        "edges shown": shown,
        "links": int((simulation.packets > 0).sum()),
        "links shown": len(counters),
    }
    if shown < sent:
        about["left out"] = f"{sent - shown} edges, those whose messages took least"
    return about


def _phases(simulation: Simulation) -> Iterator[Event]:
    dependent = simulation.workload.dependent
    kind = "round" if dependent else "phase"
    yield from named(_PHASES, f"{kind}s")
    if not dependent:
        yield from named(_PHASES, "phases", 1)
    row: Any
    for row in simulation.phases().itertuples():
        key, span = f"{kind} {row.Index}", (row.begin, row.end)
        name = f"{key} {row.name}".strip()
        args = {"messages": row.messages, "bytes": row.nbytes}
        if dependent:
            yield from overlapping(name, key, (_PHASES, 1), span, args)
        else:
            # Both ends are rounded, so that consecutive slices do not overlap.
            lasts = round(microseconds(row.end) - microseconds(row.begin), 6)
            yield event("X", name, kind, (_PHASES, 1), row.begin, dur=lasts, args=args)


def _messages(simulation: Simulation, longest: int) -> Iterator[Event]:
    messages = simulation.messages()
    took = (messages["arrived"] - messages["handed_over"]).to_numpy()
    messages = messages.iloc[np.sort(np.argsort(-took, kind="stable")[:longest])]
    tasks = np.unique(messages["src"])
    for node in np.unique(simulation.mapping.node[tasks]).tolist():
        place = ",".join(map(str, simulation.torus.coords[node].tolist()))
        yield from named(_NODES + node, f"node ({place})")
    for task in tasks.tolist():
        yield from named(_NODES + int(simulation.mapping.node[task]), f"task {task}", task + 1)
    row: Any
    for row in messages.itertuples():
        args = {"bytes": row.nbytes, "hops": row.hops, "packets": row.packets, "FIFO": row.fifo}
        if len(simulation.workload) > 1:
            args["phase"] = row.phase
        yield from overlapping(
            f"{row.src} to {row.dst}",
            f"message {row.Index}",
            (_NODES + int(simulation.mapping.node[row.src]), row.src + 1),
            (row.handed_over, row.arrived),
            args,
        )


def _links(simulation: Simulation, busiest: int) -> Iterator[Event]:
    if not any(stretch.snapshots for stretch in simulation.stretches):
        return
    yield from named(_LINKS, "busiest links")
    share = simulation.wire_bytes / simulation.torus.link_bandwidth
    for link in np.argsort(-share, kind="stable")[:busiest].tolist():
        if share[link]:
            yield from _counters(simulation, link)


def _counters(simulation: Simulation, link: int) -> Iterator[Event]:
    label, place = simulation.torus.link_label(link), (_LINKS, link + 1)

    def values(time: float, rate: float, packets: int) -> Iterator[Event]:
        yield event("C", f"{label} sends", "link", place, time, args={"bytes/s": rate})
        yield event("C", f"{label} buffer", "link", place, time, args={"packets": packets})

    for stretch in simulation.stretches:
        begin, sent, buffered = stretch.begin, 0.0, 0
        for snapshot in stretch.snapshots:
            # The last interval may end after the last event.
            end, until = min(snapshot.time, stretch.end), float(snapshot.wire_bytes[link])
            if end > begin:
                yield from values(begin, (until - sent) / (end - begin), buffered)
            begin, sent, buffered = end, until, int(snapshot.occupied[link])
        # Counters are 0 after the last interval.
        yield from values(begin, 0.0, 0)


Event = dict[str, Any]


def microseconds(seconds: float) -> float:
    """Return a time in the unit of the format, rounded to the picosecond."""
    return round(1e6 * float(seconds), 6)


def named(process: int, name: str, thread: int | None = None) -> Iterator[Event]:
    """Return name and rank of a process, or of one of its threads."""
    what = "process" if thread is None else "thread"
    place = {"ph": "M", "pid": process, "tid": thread or 0}
    yield place | {"name": f"{what}_name", "args": {"name": name}}
    rank = process if thread is None else thread
    yield place | {"name": f"{what}_sort_index", "args": {"sort_index": rank}}


def event(
    kind: str, name: str, category: str, place: tuple[int, int], time: float, **more: Any
) -> Event:
    """Return an event of a process and a thread of it; ``kind`` is a letter of the format."""
    process, thread = place
    return {
        "ph": kind,
        "name": name,
        "cat": category,
        "pid": process,
        "tid": thread,
        "ts": microseconds(time),
        **more,
    }


def overlapping(
    name: str, key: str, place: tuple[int, int], span: tuple[float, float], args: Event
) -> Iterator[Event]:
    """Return both ends of a slice that may overlap others; ``key`` is category and number."""
    category = key.split()[0]
    yield event("b", name, category, place, span[0], id=key, args=args)
    yield event("e", name, category, place, span[1], id=key)


def slowest_messages(simulation: Simulation, n: int = 5) -> pd.DataFrame:
    """Return the ``n`` messages that took longest from hand-over to arrival."""
    messages = simulation.messages()
    messages["took"] = messages["arrived"] - messages["handed_over"]
    table = messages.nlargest(n, "took")
    table["queued"] = _queued(simulation, messages, table.index.to_numpy())
    table = table.reset_index(drop=True)
    table["alone"] = [
        _alone(simulation, phase, edge, hops)
        for phase, edge, hops in zip(table["phase"], table["edge"], table["hops"], strict=True)
    ]
    if not ways_are_open(simulation.problem):
        links = simulation.buffered_seconds / np.maximum(simulation.packets, 1)
        fifos = simulation.fifos()["mean_wait"].to_numpy()
        node = simulation.mapping.node
        found = [
            _longest_wait(simulation, int(node[src]), int(node[dst]), fifo, links, fifos)
            for src, dst, fifo in zip(table["src"], table["dst"], table["fifo"], strict=True)
        ]
        table["place"] = [place for place, _ in found]
        table["wait"] = [wait for _, wait in found]
    return table


def _alone(simulation: Simulation, phase: int, edge: int, hops: int) -> float:
    """Return the seconds of an edge in an idle network: hops, then bytes at the slowest rate."""
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
    fed = min(max(torus.bandwidth), network.memory_bandwidth)
    fixed = torus.twist or TIE_RULES[torus.tie_break].adaptive_fixed
    tied = np.array(torus.wrap) & (2 * gap == np.array(torus.shape))
    several = (gap > 0).sum() > 1 or (tied.any() and not fixed)
    # With several slow ports, the arrival of packets decides how many work at one time.
    if several and (fed > rate or port < rate) and ways_are_open(problem):
        return math.nan
    packets, wire = packet_counts(problem)
    head = hops * network.hop_latency
    nth = int(packets[edge]) - 1
    each, last = (float(wire[edge]) / speed for speed in (link, min(link, port)))
    # The last packet arrives behind the others, or its port takes them first.
    before, turn = divmod(nth, network.reception_ports)
    alone = head + max(nth * each, turn * each + before * last) + last
    if nbytes / comm.whole_messages[edge] > network.eager_limit:
        # A question and its answer, a header each.
        alone += 2 * (head + network.header / min(link, port))
    return alone


def _queued(
    simulation: Simulation, messages: pd.DataFrame, chosen: NDArray[np.int64]
) -> list[float]:
    """Return the seconds until the messages before each chosen one in its FIFO have arrived."""
    node = simulation.mapping.node[messages["src"]]
    fifo, ready, arrived, took = (
        messages[name].to_numpy() for name in ("fifo", "handed_over", "arrived", "took")
    )
    queued = []
    for m in chosen.tolist():
        before = (node == node[m]) & (fifo == fifo[m]) & (ready < ready[m]) & (fifo[m] >= 0)
        last = float(arrived[before].max(initial=0.0))
        queued.append(min(max(last - float(ready[m]), 0.0), float(took[m])))
    return queued


def _longest_wait(
    simulation: Simulation,
    src: int,
    dst: int,
    fifo: int,
    links: NDArray[np.float64],
    fifos: NDArray[np.float64],
) -> tuple[str, float]:
    """Return the place between two nodes where packets wait longest."""
    if fifo < 0:
        return "", 0.0
    torus = simulation.torus
    _, way = routes(torus, [src], [dst])
    waits = {f"in FIFO {fifo}": float(fifos[src * torus.network.fifos + fifo])}
    waits |= {f"behind {torus.link_label(link)}": float(links[link]) for link in way.tolist()}
    place = max(waits, key=lambda name: waits[name])
    return place, waits[place]
