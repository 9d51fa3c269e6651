"""Bars that show how far a command is, and the time that remains."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress

Move = Callable[..., None]
Bar = AbstractContextManager[Move]
Clock = Callable[[], float]


def working(what: str, count: Callable[[int, int], str] = "{}/{}".format) -> Bar:
    """Give the function of a bar, as of `bar_on_stderr`, unless the command is quiet."""
    context = click.get_current_context(silent=True)
    quiet = context is not None and bool(context.params.get("quiet"))
    return bar_on_stderr(what, quiet, count)


@contextmanager
def bar_on_stderr(
    what: str,
    quiet: bool,
    count: Callable[[int, int], str] = "{}/{}".format,
    clock: Clock = monotonic,
) -> Iterator[Move]:
    """Give a function of (done, all) that moves a bar; it does nothing where nobody would see it.

    Beside the bar stands the ``count`` of both, and the time that remains. A third argument says
    what is done now. Before the first call, and where "all" is None, the bar shows the time that
    has passed. It goes when the block ends.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda done, total, now=what: None
        return
    with _bar(clock) as bar:
        task = bar.add_task(what, total=None, count="")

        def move(done: int, total: int | None, now: str = what) -> None:
            text = str(done) if total is None else count(done, total)
            bar.update(task, description=now, completed=done, total=total, count=text)

        yield move


@contextmanager
def time_on_stderr(
    what: str, seconds: float, quiet: bool, clock: Clock = monotonic
) -> Iterator[None]:
    """Show how much is over of the time that the work is given."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    with _bar(clock, ticks=True) as bar:
        bar.add_task(what, total=seconds, count="")
        yield


def _bar(clock: Clock, *, ticks: bool = False) -> Progress:
    """Return a bar with the time that remains; one that ``ticks`` moves with the time."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task
    from rich.text import Text

    class Remaining(ProgressColumn):
        max_refresh = 0.5

        def render(self, task: Task) -> Text:
            if task.total is None:
                return Text(f"{_clock_face(task.elapsed or 0.0)} so far")
            seconds = task.remaining if ticks else task.time_remaining
            return Text("-:--:--" if seconds is None else _clock_face(seconds))

    class Shown(Progress):
        def get_renderables(self) -> Iterable[RenderableType]:
            for task in self.tasks if ticks else ():
                task.completed = min(task.elapsed or 0.0, task.total or 0.0)
            return super().get_renderables()

    return Shown(
        "{task.description}",
        BarColumn(),
        "{task.fields[count]}",
        Remaining(),
        console=Console(stderr=True),
        transient=True,
        get_time=clock,
        # Steps may take minutes. What is done at the first step is not counted: it may compile.
        speed_estimate_period=3600,
    )


def _clock_face(seconds: float) -> str:
    return str(timedelta(seconds=int(seconds)))
