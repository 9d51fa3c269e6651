"""A bar on stderr that shows how far the work has come."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


@contextmanager
def bar_on_stderr(what: str, quiet: bool) -> Iterator[tuple[Progress, TaskID] | None]:
    """Give a bar and its task, whose field "count" is text; None where nobody would see it.

    The bar shows the time that remains, and goes when the work is done.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TimeRemainingColumn

    bar = Progress(
        "{task.description}",
        BarColumn(),
        "{task.fields[count]}",
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        yield bar, bar.add_task(what, total=None, count="")
