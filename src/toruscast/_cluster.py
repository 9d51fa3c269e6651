"""Calls of one function on a cluster of `dask.distributed`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from . import _events
from .errors import WorkersError

if TYPE_CHECKING:
    from .workers import Task

R = TypeVar("R")
# Calls that the scheduler holds for each thread of a worker, and at least.
_AHEAD, _LEAST = 3, 1000


def stream(client: Any, task: Task[R], items: Iterable[Any]) -> Iterator[tuple[int, R]]:
    """Give the number of each item and its result, as soon as a worker has returned it.

    The shared inputs are the result of a task of their own: workers hand them to each other, and
    they are made again where all who had them are lost.
    """
    from dask import config
    from dask.base import tokenize
    from distributed import KilledWorker, as_completed

    name = uuid4().hex
    with config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
        inputs = client.submit(_held, task, key=f"toruscast-inputs-{name}")
    source, level = enumerate(items), _events.level()
    numbers: dict[str, list[int]] = {}
    pool = as_completed(loop=client.loop)

    def submit(n: int) -> int:
        """Hand over the next items; those of equal content are one call."""
        taken = 0
        for number, item in islice(source, n):
            taken += 1
            key = f"toruscast-{name}-{tokenize(item)}"
            if key in numbers:
                numbers[key].append(number)
                continue
            numbers[key] = [number]
            pool.add(client.submit(_call, inputs, item, level, key=key))
        return taken

    n_done, room = 0, 0
    try:
        submit(_room(client))
        for future in pool:
            result, records = future.result()
            _events.repeat(records)
            for number in numbers.pop(future.key):
                yield number, result
            n_done, room = n_done + 1, room + 1
            future.release()
            if room * 4 >= _LEAST or not numbers:
                submit(max(_room(client) - len(numbers), room))
                room = 0
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


def _held(task: Task[R]) -> Task[R]:
    return task


def _call(task: Task[R], item: Any, level: int) -> _events.Recorded[R]:
    return _events.recorded(level, task.function, *task.shared, item)


def _room(client: Any) -> int:
    """Return how many calls the scheduler is to hold."""
    return max(_LEAST, _AHEAD * int(sum(client.nthreads().values())))
