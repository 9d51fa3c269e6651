"""Calls of one function on a cluster of `dask.distributed`."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from . import _events
from .errors import WorkersError

if TYPE_CHECKING:
    from .workers import Task

logger = logging.getLogger(__name__)
R = TypeVar("R")
# Calls that the scheduler holds at most: for each thread of a worker, and bytes of all their items.
_AHEAD, _MOST_BYTES = 500, 2**30
# After so many items it is looked anew how large they are, and how many workers there are.
_LOOK = 256


def stream(client: Any, task: Task[R], items: Iterable[Any]) -> Iterator[tuple[int, R]]:
    """Give the number of each item and its result, as soon as a worker has returned it.

    The shared inputs are the result of a task of their own: workers hand them to each other, and
    they are made again where all who had them are lost.
    """
    from dask import config
    from dask.base import tokenize
    from distributed import KilledWorker, as_completed
    from distributed.protocol import serialize_bytes

    name = uuid4().hex
    with config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
        inputs = client.submit(_held, task, key=f"toruscast-inputs-{name}")
    source, level = enumerate(items), _events.level()
    numbers: dict[str, list[int]] = {}
    pool = as_completed(loop=client.loop)
    least, most = 1, 1

    def submit() -> bool:
        """Hand over the next item, if there is one; those of equal content are one call."""
        nonlocal least, most
        for number, item in source:
            key = f"toruscast-{name}-{tokenize(item)}"
            if key in numbers:
                numbers[key].append(number)
            else:
                numbers[key] = [number]
                pool.add(client.submit(_call, inputs, item, level, key=key))
            if number % _LOOK == 0:
                least, most = _room(client, len(serialize_bytes(item)))
            return True
        return False

    n_done, more = 0, True
    client.subscribe_topic("all", _note_lost_worker)
    try:
        while True:
            # Results that are there do not wait until as many items as possible are handed over.
            while more and len(numbers) < (least if pool.has_ready() else most):
                more = submit()
            if not numbers:
                return
            future = next(pool)
            result, records = future.result()
            _events.repeat(records)
            for number in numbers.pop(future.key):
                yield number, result
            n_done += 1
            future.release()
    except KilledWorker as error:
        raise WorkersError(
            f"a task was running on {error.args[2] + 1 if len(error.args) > 2 else 'several'} "
            "workers of the cluster as they ended: it may need more memory than they have"
        ) from None
    except (CancelledError, OSError) as error:
        raise WorkersError(
            f"the cluster's scheduler at {client.scheduler.address} went away or started anew; "
            f"{n_done} results had arrived"
        ) from error
    finally:
        if numbers and client.status == "running":
            client.cancel(list(pool.futures), force=False)


def _note_lost_worker(event: tuple[float, Any]) -> None:
    """Record that a worker ended without being asked to; its calls are made again by others."""
    _, told = event
    if not isinstance(told, dict) or told.get("action") != "remove-worker" or told["expected"]:
        return
    again = len(told["processing-tasks"])
    logger.warning(
        "worker %s of the cluster was lost; %d calls are made again",
        told["worker"],
        again,
        extra={"event": "worker lost", "worker": told["worker"], "again": again},
    )


def _held(task: Task[R]) -> Task[R]:
    return task


def _call(task: Task[R], item: Any, level: int) -> _events.Recorded[R]:
    return _events.recorded(level, task.function, *task.shared, item)


def _room(client: Any, n_bytes: int) -> tuple[int, int]:
    """Return how many calls the scheduler is to hold, least and most, by an item's size."""
    threads = max(int(sum(client.nthreads().values())), 1)
    least = 2 * threads
    return least, max(least, min(_AHEAD * threads, _MOST_BYTES // n_bytes))
