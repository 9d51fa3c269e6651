"""How far a simulation has come, on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Seconds before a bar is worth looking at.
_PATIENCE = 1.0


@contextmanager
def progress_of_packets(quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """Give a function of (done, all) packet-hops that moves a bar; None where nobody would see it.

    The bar, with the time that remains, appears after a second and goes when the work is done.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TimeRemainingColumn

    bar = Progress(
        "simulating", BarColumn(), "{task.percentage:.0f} % of {task.fields[all]}",
        TimeRemainingColumn(), "left", console=Console(stderr=True), transient=True,
    )  # fmt: skip
    started = time.monotonic()
    task = bar.add_task("simulating", total=None, all="")

    def move(done: int, total: int) -> None:
        bar.update(task, completed=done, total=total, all=f"{total / 1e6:.3g} million packet-hops")
        if not bar.live.is_started and time.monotonic() - started > _PATIENCE:
            bar.start()

    try:
        yield move
    finally:
        bar.stop()
