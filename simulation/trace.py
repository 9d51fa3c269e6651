"""A simulation as a trace for Perfetto (ui.perfetto.dev) or chrome://tracing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from toruscast.atomic import atomic_path
from toruscast.validation import whole_number

from .simulation import Simulation

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
    """Write a simulation as a Chrome trace in JSON; the file appears complete or not at all.

    Parameters
    ----------
    simulation : Simulation
    path : path-like
    longest, busiest : int
        See `trace_events`. ``otherData`` in the file tells what was left out.

    Raises
    ------
    InputError
        If the path cannot be written, or one of the numbers is not valid.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from toruscast.features import simulate
    >>> from toruscast.mapping import CommGraph, TaskMapping, Torus
    >>> result = simulate(CommGraph(2, [0], [1], [512]), Torus((8,)), TaskMapping([0, 3], 8))
    >>> path = Path(tempfile.mkdtemp()) / "trace.json"
    >>> write_trace(result, path)
    >>> sorted(json.loads(path.read_text()))
    ['displayTimeUnit', 'otherData', 'traceEvents']
    """
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
    """Return the events of a simulation in Chrome's trace event format, times in microseconds.

    - Phases are slices of a track of their own; rounds, which overlap, are asynchronous slices.
    - Each message is an asynchronous slice (they overlap) from hand-over to arrival, named by its
      tasks, in the process of the sender's node and the thread of its task.
    - With `interval`, each of the busiest links has a counter of bytes per second and one of the
      packets behind it.

    Parameters
    ----------
    simulation : Simulation
    longest : int
        Most messages to show: those that took longest.
    busiest : int
        Number of links with counters: those that sent most bytes over their bandwidth.

    Raises
    ------
    InputError
        If one of these is not a whole number of 0 or more.

    References
    ----------
    "Trace Event Format", the Chromium project (events of type X, b and e, C and M).

    Examples
    --------
    >>> from toruscast.features import simulate
    >>> from toruscast.mapping import CommGraph, TaskMapping, Torus
    >>> result = simulate(CommGraph(2, [0], [1], [512]), Torus((8,)), TaskMapping([0, 3], 8))
    >>> [(e["ph"], e["name"], round(e["ts"], 2)) for e in trace_events(result) if "ts" in e]
    [('X', 'phase 0', 0.0), ('b', '0 to 1', 0.5), ('e', '0 to 1', 0.89)]
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
        "routing": simulation.routing,
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
            yield from overlapping(name, key, _PHASES, 1, span, args)
        else:
            yield slice_of(name, kind, _PHASES, 1, span, args)


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
            _NODES + int(simulation.mapping.node[row.src]),
            row.src + 1,
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
    label = simulation.torus.link_label(link)

    def values(time: float, rate: float, packets: int) -> Iterator[Event]:
        yield count(f"{label} sends", _LINKS, link + 1, time, {"bytes/s": rate})
        yield count(f"{label} buffer", _LINKS, link + 1, time, {"packets": packets})

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


def slice_of(
    name: str, category: str, process: int, thread: int, span: tuple[float, float], args: Event
) -> Event:
    """Return a slice of a thread; slices of one thread must not overlap."""
    # Both ends are rounded, so that consecutive slices do not overlap.
    begin, end = (microseconds(moment) for moment in span)
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": process,
        "tid": thread,
        "ts": begin,
        "dur": round(end - begin, 6),
        "args": args,
    }


def overlapping(
    name: str, key: str, process: int, thread: int, span: tuple[float, float], args: Event
) -> Iterator[Event]:
    """Return both ends of a slice that may overlap others; ``key`` is category and number."""
    place = {"name": name, "cat": key.split()[0], "id": key, "pid": process, "tid": thread}
    yield {"ph": "b", **place, "ts": microseconds(span[0]), "args": args}
    yield {"ph": "e", **place, "ts": microseconds(span[1])}


def count(name: str, process: int, thread: int, time: float, args: dict[str, float]) -> Event:
    """Return a counter's value, which holds until the next one."""
    return {
        "ph": "C",
        "name": name,
        "cat": "link",
        "pid": process,
        "tid": thread,
        "ts": microseconds(time),
        "args": args,
    }
