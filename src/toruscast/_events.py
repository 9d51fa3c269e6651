"""What calls in other processes record comes back with their results.

The library records what it does with the standard `logging`, under the names of its modules. It is
silent unless whoever uses it listens.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from logging.handlers import QueueHandler
from queue import SimpleQueue
from threading import get_ident
from typing import Any, TypeVar

R = TypeVar("R")
Recorded = tuple[R, list[logging.LogRecord]]
LOGGER = logging.getLogger("toruscast")


def level() -> int:
    """Return the level from which on somebody here listens."""
    return LOGGER.getEffectiveLevel()


def recorded(least: int, function: Callable[..., R], *arguments: Any) -> Recorded[R]:
    """Return the result of a call, and what it recorded from a level on, fit to be sent.

    Examples
    --------
    >>> recorded(logging.INFO, pow, 2, 3)
    (8, [])
    """
    kept: SimpleQueue[logging.LogRecord] = SimpleQueue()
    handler, thread = QueueHandler(kept), get_ident()
    # A worker of a cluster makes several calls at a time.
    handler.addFilter(lambda record: record.thread == thread)
    LOGGER.setLevel(least)
    LOGGER.addHandler(handler)
    try:
        result = function(*arguments)
    finally:
        LOGGER.removeHandler(handler)
    return result, [kept.get() for _ in range(kept.qsize())]


def repeat(records: Iterable[logging.LogRecord]) -> None:
    """Record here what was recorded elsewhere."""
    for record in records:
        logging.getLogger(record.name).handle(record)
