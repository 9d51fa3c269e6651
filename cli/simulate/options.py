"""What ``toruscast simulate`` reads from its own options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from ..placing_options import POSITIVE
from ..records import Candidates, F, as_record, refuse

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
    from toruscast.simulation.run import most_snapshots
    from toruscast.units import seconds

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


@dataclass(frozen=True)
class Details:
    """What to record, and where it goes."""

    interval: str | None = None
    watch: tuple[str, ...] = ()
    out: str | None = None
    trace: str | None = None

    def every(self) -> float | None:
        """Return the seconds between two snapshots of the links; None for no snapshots."""
        if self.interval is None:
            return None
        if self.out is None and self.trace is None:
            raise click.UsageError("--interval needs --out or --trace")
        return read_interval(self.interval)


def details_options(function: F) -> F:
    """Add what is recorded, as the record ``details``."""
    return as_record(
        "details",
        Details,
        click.option(
            "--interval",
            metavar="TIME",
            help="Take a snapshot of the links every TIME, such as 5us, for --out and --trace.",
        ),
        click.option(
            "--watch",
            multiple=True,
            metavar="[PHASE:]SRC:DST",
            help="Follow the packets of the message between two tasks, such as 3:7, or 1:3:7 in "
            "the second phase.",
        ),
        click.option(
            "--out",
            metavar="FOLDER",
            help="Write everything there: messages, tasks, phases, links, FIFOs, time series and "
            "log as CSV, summary.json, trace.json.",
        ),
        click.option(
            "--trace",
            metavar="FILE.json",
            help="Write a timeline to look at in ui.perfetto.dev or chrome://tracing.",
        ),
    )(function)


@dataclass(frozen=True)
class Packets:
    """Values of these options."""

    coarsening: int | None
    error: float | None
    repeat: int


def packets_options(function: F) -> F:
    """Add the options to a command, which gets them as ``packets``."""
    return as_record(
        "packets",
        Packets,
        click.option(
            "--coarsening",
            type=POSITIVE,
            metavar="N",
            help="Let a simulated packet stand for up to N real ones: faster, less exact.  "
            "[default: 1]",
        ),
        click.option(
            "--error",
            type=float,
            metavar="E",
            help="Instead: choose N for a relative error of the time of about E, such as 0.03. "
            "'toruscast flows' takes no packets at all.",
        ),
        click.option(
            "--repeat",
            type=POSITIVE,
            metavar="N",
            default=1,
            show_default=True,
            help="Send everything N times, without a barrier between: a task begins the next time "
            "when what is sent to it has arrived. The time is then the mean of all but the first.",
        ),
    )(function)


def check_packets(packets: Packets) -> None:
    """Raise where options exclude each other, or the error is none."""
    error = packets.error
    if error is not None and not 0 < error < 1:
        raise click.UsageError(f"bad --error: found {error:g}, expected more than 0, less than 1")
    if packets.coarsening is not None and error is not None:
        raise click.UsageError("--coarsening and --error exclude each other")
