"""Bars on stderr while a command works."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import click

Move = Callable[..., None]
Bar = AbstractContextManager[Move]

# Seconds of past steps that the remaining time is estimated from: steps may take minutes.
_PAST = 600.0


def working(what: str, count: Callable[[int, int], str] = "{}/{}".format) -> Bar:
    """Give the function of a bar, as of `bar_on_stderr`, unless the command is quiet."""
    context = click.get_current_context(silent=True)
    quiet = context is not None and bool(context.params.get("quiet"))
    return bar_on_stderr(what, quiet, count)


@contextmanager
def bar_on_stderr(
    what: str, quiet: bool, count: Callable[[int, int], str] = "{}/{}".format
) -> Iterator[Move]:
    """Give a function of (done, all) that moves a bar; it does nothing where nobody would see it.

    Beside the bar stands the ``count`` of both, the time so far and, from the second step on, the
    time that remains. A third argument says what is done now. Where "all" is None, what is done
    alone is shown. The bar goes when the block ends.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda done, total, now=what: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

    with Progress(
        "{task.description}",
        BarColumn(),
        "{task.fields[count]}",
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        speed_estimate_period=_PAST,
    ) as bar:
        task = bar.add_task(what, total=None, count="")

        def move(done: int, total: int | None, now: str = what) -> None:
            text = str(done) if total is None else count(done, total)
            bar.update(task, description=now, completed=done, total=total, count=text)

        yield move
