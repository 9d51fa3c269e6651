"""What ``toruscast simulate`` reads from its own options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ..records import Candidates, refuse

if TYPE_CHECKING:
    from toruscast.mapping import Torus, Workload

_EXPONENTS = {"s": 0, "": 0, "ms": -3, "us": -6, "ns": -9, "ps": -12}
_TIME = re.compile(r"([0-9.]+(?:e[-+]?[0-9]{1,3})?)\s*([mun\u00b5p]?s|)", re.I)
_WATCH = re.compile(r"(?:([0-9]{1,9})\s*:\s*)?([0-9]{1,9})\s*(?:->|[-:,])\s*([0-9]{1,9})")


def read_seconds(text: str) -> float:
    """Return a time in seconds; units from ``s`` to ``ps``, seconds without one.

    Raises
    ------
    ValueError
        If the text is not a time.

    Examples
    --------
    >>> read_seconds("5us"), read_seconds("0.25")
    (5e-06, 0.25)
    """
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    exponent = _EXPONENTS[match[2].lower().replace("\u00b5", "u")]
    number, _, power = match[1].lower().partition("e")
    return float(f"{number}e{int(power or 0) + exponent}")


def read_interval(text: str) -> float:
    """Return the time between two snapshots.

    Raises
    ------
    InputError
        If it is not a time of more than 0.
    """
    from toruscast.errors import InputError

    try:
        interval = read_seconds(text)
    except ValueError:
        interval = 0.0
    if not 0 < interval < float("inf"):
        raise InputError("bad --interval", found=text, expected="a time such as 500ns or 5us")
    return interval


def check_interval(interval: float, least_time: float, torus: Torus) -> None:
    """Raise `InputError` if a run of that time makes more snapshots than memory holds."""
    from toruscast.errors import InputError
    from toruscast.report.units import seconds
    from toruscast.simulation.run import most_snapshots

    least = least_time / most_snapshots(torus)
    if interval < least:
        raise InputError(
            "--interval too short for this run",
            found=seconds(interval),
            expected=f"at least {seconds(least)}",
        )


def read_watch(texts: Sequence[str], workload: Workload) -> tuple[int, int] | None:
    """Return phase and edge of a message, given such as ``3:7`` or ``3->7``, or ``2:3:7``.

    The first form means phase 0. None if nothing is to be watched.

    Raises
    ------
    UsageError
        If there are two of them.
    InputError
        If there is no such phase or pair, or it sends nothing.
    """
    import numpy as np

    from toruscast.errors import InputError

    if len(texts) > 1:
        raise click.UsageError("--watch can be given once: one message is followed")
    if not texts:
        return None
    text = texts[0]
    match = _WATCH.fullmatch(text.strip())
    if match is None:
        raise InputError(
            "bad --watch",
            found=text,
            expected="two tasks such as 3:7, or phase and tasks such as 2:3:7",
        )
    phase, src, dst = int(match[1] or 0), int(match[2]), int(match[3])
    if phase >= len(workload):
        raise InputError(
            "--watch: no such phase", found=phase, expected=f"0 to {len(workload) - 1}"
        )
    comm = workload.phases[phase]
    sends = comm.whole_messages > 0
    edges = np.flatnonzero((comm.src == src) & (comm.dst == dst) & sends)
    if not edges.size:
        partners = comm.dst[(comm.src == src) & sends][:3].tolist()
        before = "" if match[1] is None else f"{phase}:"
        some = " or ".join(f"{before}{src}:{partner}" for partner in partners)
        raise InputError(
            "--watch: no message between these tasks",
            found=text,
            expected=some or "a task that sends something",
        )
    return phase, int(edges[0])


def check_one_or_many(mapping: str | None, candidates: Candidates) -> None:
    """Raise unless one mapping or many are given, and only what means something there."""
    values = {
        "--mapping": mapping,
        "--mappings": candidates.mappings,
        "--candidates": candidates.candidates,
    }
    given = [name for name, value in values.items() if value is not None]
    if not given:
        raise click.UsageError("missing --mapping, or --mappings or --candidates for many")
    if len(given) > 1:
        raise click.UsageError(f"{given[0]} and {given[1]} exclude each other")
    if mapping is None:
        where = "with --mapping, which simulates one"
        refuse(where, "interval", "watch", "out", "trace", "links_path")
    else:
        refuse("with --mappings or --candidates", "top", "jobs")
