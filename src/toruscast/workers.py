"""Calls of one function, run by threads, by processes or by a cluster: the same results from each.

Threads are the default. `joblib.parallel_config` chooses others, as it does in scikit-learn, and
joblib starts threads and processes. What it does not do stands here: calls of a lost process are
made again; what calls record with the standard `logging` comes back with their results; processes
end with the one that started them, however that ended. On a cluster `dask.distributed` makes the
calls: joblib's backend waits for ever where a call ends its workers.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import ContextDecorator
from functools import lru_cache
from logging.handlers import QueueHandler
from queue import SimpleQueue
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import uuid4

from threadpoolctl import ThreadpoolController

from ._slow import dask, distributed, joblib
from .errors import WorkersError

R = TypeVar("R")
Recorded = tuple[R, list[logging.LogRecord]]
logger = logging.getLogger(__name__)
_LIBRARY = logging.getLogger("toruscast")
# Workers that may be lost in a row without a result in between.
LOSSES = 3
# Inputs of different functions that a worker keeps.
_KEPT = 4
# Calls that a scheduler holds at most: for each thread of a worker, and bytes of all their items.
_AHEAD, _MOST_BYTES = 500, 2**30
# After so many items it is looked anew how large they are, and how many workers there are.
_LOOK = 256
_kept: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
_is_watched = False


class OneBlasThread(ContextDecorator):
    """Keeps BLAS to one thread while small matrices are worked on; a decorator too.

    Its threads wait for each other in a loop: over matrices of 84 x 84 they take fifty times the
    processor time of one. The number of threads is one of the whole process, so the last one out
    restores it.
    """

    _lock = threading.Lock()
    _depth = 0
    _held: Any = None

    def __enter__(self) -> None:
        kind = OneBlasThread
        with kind._lock:
            if not kind._depth:
                kind._held = _blas().limit(limits=1)
                kind._held.__enter__()
            kind._depth += 1

    def __exit__(self, *raised: object) -> None:
        kind = OneBlasThread
        with kind._lock:
            kind._depth -= 1
            if not kind._depth:
                kind._held.__exit__(*raised)


@lru_cache(1)
def _blas() -> Any:
    """The BLAS libraries of this process; to look for them takes longer than to limit them."""
    return ThreadpoolController().select(user_api="blas")


class Task(Generic[R]):
    """A function, and the inputs that all its calls share: a worker gets them once.

    Parameters
    ----------
    function : callable
        Takes the shared inputs and one item. Two calls with equal arguments return the same: a call
        whose worker was lost is made again.
    *shared : object
        Inputs of every call.

    Examples
    --------
    >>> Task(pow, 2).in_order([3, 4, 5], n_jobs=2)
    [8, 16, 32]
    """

    def __init__(self, function: Callable[..., R], *shared: Any) -> None:
        self.function, self.shared = function, shared

    def in_order(
        self,
        items: Collection[Any],
        n_jobs: int,
        *,
        processes: bool = False,
        progress: Callable[[int, int], object] | None = None,
    ) -> list[R]:
        """Return the results of all items, in their order.

        ``progress`` is called with the number of results and of items, at first with none.
        """
        total = len(items)
        report = None if progress is None else lambda done: progress(done, total)
        return list(self.in_turn(items, n_jobs, processes=processes, progress=report))

    def in_turn(
        self,
        items: Iterable[Any],
        n_jobs: int,
        *,
        processes: bool = False,
        progress: Callable[[int], object] | None = None,
    ) -> Iterator[R]:
        """Give the results in the order of the items, each as soon as those before it are there.

        ``progress`` is called with the number of results, at first with 0. The other parameters and
        the errors are those of `each`.
        """
        report = progress or (lambda done: None)
        early: dict[int, R] = {}
        due = 0
        report(0)
        for number, result in self.each(items, n_jobs, processes=processes):
            early[number] = result
            report(due + len(early))
            while due in early:
                yield early.pop(due)
                due += 1

    def each(
        self, items: Iterable[Any], n_jobs: int, *, processes: bool = False
    ) -> Iterator[tuple[int, R]]:
        """Give the number of each item and its result, as soon as it is there.

        Parameters
        ----------
        items : iterable
            Taken as workers get free: a long stream is not held. Where taking one fails, its error
            is raised after the results of those before.
        n_jobs : int
            Threads or processes; a cluster uses all that it has.
        processes : bool
            Whether processes do better than threads, for the function holds the interpreter's lock.

        Raises
        ------
        WorkersError
            If workers are lost again and again, or the cluster is.
        """
        errors: list[Exception] = []
        yield from self._started(_until_error(items, errors), n_jobs, processes)
        if errors:
            raise errors[0]

    def _started(
        self, items: Iterator[Any], n_jobs: int, processes: bool
    ) -> Iterator[tuple[int, R]]:
        kind = "processes" if processes else "threads"
        backend, _ = joblib.parallel.get_active_backend(prefer=kind)
        if hasattr(backend, "client"):
            return self._on_cluster(backend.client, items)
        if n_jobs == 1:
            return ((i, self.function(*self.shared, item)) for i, item in enumerate(items))
        if getattr(backend, "supports_sharedmem", False):
            threads = joblib.Parallel(n_jobs, prefer="threads", return_as="generator_unordered")
            found: Iterator[tuple[int, R]] = threads(
                joblib.delayed(self._numbered)(*numbered) for numbered in enumerate(items)
            )
            return found
        return self._in_processes(items, n_jobs)

    def _numbered(self, number: int, item: Any) -> tuple[int, R]:
        return number, self.function(*self.shared, item)

    def _on_cluster(self, client: Any, items: Iterable[Any]) -> Iterator[tuple[int, R]]:
        """Hand calls to a scheduler, and give what its workers return.

        The shared inputs are the result of a task of their own: workers hand them to each other,
        and they are made again where all who had them are lost.
        """
        name = uuid4().hex
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            inputs = client.submit(_same, self, key=f"toruscast-inputs-{name}")
        source, level = enumerate(items), _LIBRARY.getEffectiveLevel()
        numbers: dict[str, list[int]] = {}
        pool = distributed.as_completed(loop=client.loop)
        least, most = 1, 1

        def submit() -> bool:
            """Hand over the next item, if there is one; those of equal content are one call."""
            nonlocal least, most
            for number, item in source:
                key = f"toruscast-{name}-{dask.base.tokenize(item)}"
                if key in numbers:
                    numbers[key].append(number)
                else:
                    numbers[key] = [number]
                    pool.add(client.submit(_on_worker, inputs, item, level, key=key))
                if number % _LOOK == 0:
                    least, most = _room(client, len(distributed.protocol.serialize_bytes(item)))
                return True
            return False

        n_done, more = 0, True
        client.subscribe_topic("all", _note_lost_worker)
        try:
            while True:
                # Results that are there do not wait until all items that fit are handed over.
                while more and len(numbers) < (least if pool.has_ready() else most):
                    more = submit()
                if not numbers:
                    return
                future = next(pool)
                result, records = future.result()
                _repeat(records)
                for number in numbers.pop(future.key):
                    yield number, result
                n_done += 1
                future.release()
        except distributed.KilledWorker as error:
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

    def _in_processes(self, items: Iterable[Any], n_jobs: int) -> Iterator[tuple[int, R]]:
        least = _LIBRARY.getEffectiveLevel()
        call = _Call(uuid4().hex, self.function, self.shared, least, os.getpid())
        source = enumerate(items)
        sent: dict[int, Any] = {}
        lost = 0

        def calls() -> Iterator[Any]:
            """What is under way and lost its worker, then what is new."""
            for number, item in list(sent.items()):
                yield joblib.delayed(_in_child)(call, number, item)
            for number, item in source:
                sent[number] = item
                yield joblib.delayed(_in_child)(call, number, item)

        while True:
            # Large arrays go once, as files that workers map. Mode "c" lets these be changed in
            # memory: kernels compiled for such arrays refuse those that are only read.
            workers = joblib.Parallel(
                n_jobs=n_jobs,
                prefer="processes",
                return_as="generator_unordered",
                mmap_mode="c",
            )
            try:
                for number, (result, records) in workers(calls()):
                    _repeat(records)
                    del sent[number]
                    lost = 0
                    yield number, result
                return
            except BrokenExecutor:
                lost += 1
                if lost > LOSSES:
                    raise WorkersError(
                        f"worker processes ended {lost} times without a result: the system may "
                        "have ended them for lack of memory; fewer of them need less"
                    ) from None
                logger.warning(
                    "a worker process was lost; %d calls are made again",
                    len(sent),
                    extra={"event": "worker lost", "in_a_row": lost, "again": len(sent)},
                )


def _until_error(items: Iterable[Any], errors: list[Exception]) -> Iterator[Any]:
    """Give the items; an error ends them and is kept, for joblib may take them in other threads."""
    try:
        yield from items
    except Exception as error:
        errors.append(error)


class _Call(NamedTuple):
    """What all calls of a function in worker processes share."""

    name: str
    function: Callable[..., Any]
    shared: tuple[Any, ...]
    level: int
    """From which on records come back."""
    parent: int
    """Process whose workers make the calls."""


def _in_child(call: _Call, number: int, item: Any) -> tuple[int, Recorded[Any]]:
    """Call the function in a worker process, with the first copy of the shared inputs.

    What they computed for earlier items and kept is then at hand.
    """
    _end_with_parent(call.parent)
    if call.name not in _kept:
        while len(_kept) >= _KEPT:
            del _kept[next(iter(_kept))]
        _kept[call.name] = call.function, call.shared
    function, shared = _kept[call.name]
    return number, _recorded(call.level, function, *shared, item)


def _on_worker(task: Task[R], item: Any, least: int) -> Recorded[R]:
    return _recorded(least, task.function, *task.shared, item)


def _same(task: Task[R]) -> Task[R]:
    return task


def _room(client: Any, n_bytes: int) -> tuple[int, int]:
    """Return how many calls the scheduler is to hold, least and most, by an item's size."""
    threads = max(int(sum(client.nthreads().values())), 1)
    least = 2 * threads
    return least, max(least, min(_AHEAD * threads, _MOST_BYTES // n_bytes))


def _note_lost_worker(event: tuple[float, Any]) -> None:
    """Record that a worker ended without being asked to; its calls are made again by others."""
    _, what = event
    if not isinstance(what, dict) or what.get("action") != "remove-worker" or what["expected"]:
        return
    again = len(what["processing-tasks"])
    logger.warning(
        "worker %s of the cluster was lost; %d calls are made again",
        what["worker"],
        again,
        extra={"event": "worker lost", "worker": what["worker"], "again": again},
    )


def _recorded(least: int, function: Callable[..., R], *arguments: Any) -> Recorded[R]:
    """Return the result of a call, and what it recorded from a level on, fit to be sent.

    Examples
    --------
    >>> _recorded(logging.INFO, pow, 2, 3)
    (8, [])
    """
    kept: SimpleQueue[logging.LogRecord] = SimpleQueue()
    handler, thread = QueueHandler(kept), threading.get_ident()
    # A worker of a cluster makes several calls at a time.
    handler.addFilter(lambda record: record.thread == thread)
    _LIBRARY.setLevel(least)
    _LIBRARY.addHandler(handler)
    try:
        result = function(*arguments)
    finally:
        _LIBRARY.removeHandler(handler)
    return result, [kept.get() for _ in range(kept.qsize())]


def _repeat(records: Iterable[logging.LogRecord]) -> None:
    """Record here what was recorded elsewhere."""
    for record in records:
        logging.getLogger(record.name).handle(record)


def _end_with_parent(parent: int) -> None:
    """End this process soon after its parent has, which may have had no time to say so.

    It may have ended already, while this process began: then another one has taken its place, such
    as the system's first process.
    """
    global _is_watched
    if os.getppid() != parent:
        os._exit(1)
    if not _is_watched:
        _is_watched = True
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
