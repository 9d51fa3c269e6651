"""How ``toruscast simulate`` makes packets of messages, and how often it sends them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from ..placing_options import POSITIVE
from ..records import as_record

F = TypeVar("F", bound=Callable[..., Any])


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
