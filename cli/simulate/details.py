"""What is recorded of one simulation besides its sums."""

from __future__ import annotations

from dataclasses import dataclass

import click

from ..records import F, as_record
from .options import read_interval


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
