"""Single events of Chrome's trace event format; times go in as seconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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
