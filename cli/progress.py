"""What is said while a command works: bars, and their pace."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
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

    Beside the bar stands the ``count`` of both, and the time that remains. What was done at the
    first call took no time. A third argument says what is done now. Before the first call, and
    where "all" is None, the bar shows the time that has passed. It goes when the block ends.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda done, total, now=what: None
        return
    pace = Pace()
    sought: int | None = None

    def left() -> float | None:
        return None if sought is None else pace.left(clock(), sought)

    with _bar(left, clock) as bar:
        task = bar.add_task(what, total=None, count="")

        def move(done: int, total: int | None, now: str = what) -> None:
            nonlocal sought
            sought = total
            pace.observe(clock(), done)
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
    end = clock() + seconds
    with _bar(lambda: max(end - clock(), 0.0), clock, ticks=True) as bar:
        bar.add_task(what, total=seconds, count="")
        yield


def _bar(left: Callable[[], float | None], clock: Clock, *, ticks: bool = False) -> Progress:
    """Return a bar with the seconds that are ``left``; one that ``ticks`` moves with the time."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task
    from rich.text import Text

    class Remaining(ProgressColumn):
        max_refresh = 0.5

        def render(self, task: Task) -> Text:
            if task.total is None:
                return Text(f"{_clock_face(task.elapsed or 0.0)} so far")
            seconds = left()
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
    )


def _clock_face(seconds: float) -> str:
    return str(timedelta(seconds=int(seconds)))


# What counts: so many seconds, or so many steps if they take longer. The first step may have taken
# long, for it compiled; and steps may become longer.
_SECONDS, _STEPS = 30.0, 8
# Steps that come faster are one.
_APART = 0.1


@dataclass
class Pace:
    """Moments at which so much was done; what was done at the first of them took no time.

    Examples
    --------
    >>> pace = Pace()
    >>> for seconds, done in ((0, 10), (5, 11), (10, 12)):
    ...     pace.observe(seconds, done)
    >>> pace.left(12, 20)
    38.0
    """

    moments: deque[tuple[float, float]] = field(default_factory=deque)

    def observe(self, now: float, done: float) -> None:
        """Take in how much is done at a moment, in seconds."""
        moments = self.moments
        if moments and done < moments[-1][1]:
            # Other work has begun.
            moments.clear()
        if len(moments) > 1 and now - moments[-2][0] < _APART:
            moments.pop()
        moments.append((now, done))
        while len(moments) > _STEPS and moments[1][0] < now - _SECONDS:
            moments.popleft()

    def left(self, now: float, total: float) -> float | None:
        """Return the seconds that remain; None as long as nothing was done."""
        if not self.moments:
            return None
        (began, first), (last, done) = self.moments[0], self.moments[-1]
        if done <= first:
            return None
        each = (last - began) / (done - first)
        # The step under way is at its end at the earliest: of one that takes long, the others
        # remain.
        return max((total - done) * each - (now - last), (total - done - 1) * each, 0.0)
