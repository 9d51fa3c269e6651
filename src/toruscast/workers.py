"""Calls of one function, run by threads, by processes or by a cluster: the same results from each.

Threads are the default. `joblib.parallel_config` chooses others, as it does in scikit-learn. Those
are executors of `concurrent.futures`, with what these do not do: calls of a lost process are made
again; what calls record with the standard `logging` comes back with their results; processes end
with the one that started them, however that ended. Processes are those of joblib's loky, which
takes functions of a script or a notebook too; a cluster is asked through `dask.distributed`, for
joblib's backend waits for ever where a call ends its workers.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent import futures
from contextlib import ContextDecorator
from functools import lru_cache, partial
from itertools import chain, islice
from logging.handlers import QueueHandler
from queue import Queue, SimpleQueue
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
# Calls that wait for each worker, and after how many it is looked anew how many workers there are.
_AHEAD, _LOOK = 2, 256
# Seconds after which an idle process ends.
_IDLE = 300
# Variables that keep the libraries of a process to its share of the cores.
_THREADS = [f"{name}_NUM_THREADS" for name in ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMBA")]
_kept: dict[str, _Call] = {}


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

    Two calls with equal arguments must return the same: one whose worker was lost is made again.
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
        """Give the number of each item and its result, as soon as it is there."""
        errors: list[Exception] = []
        yield from self._started(_until_error(items, errors), n_jobs, processes)
        if errors:
            raise errors[0]

    def _started(
        self, items: Iterator[Any], n_jobs: int, processes: bool
    ) -> Iterator[tuple[int, R]]:
        # Whoever chose a backend has imported joblib, which takes long.
        if "joblib" in sys.modules:
            kind = "processes" if processes else "threads"
            backend, _ = joblib.parallel.get_active_backend(prefer=kind)
            if hasattr(backend, "client"):
                return self._on_cluster(backend.client, items)
            processes = not getattr(backend, "supports_sharedmem", False)
        if n_jobs == 1:
            return ((i, self.function(*self.shared, item)) for i, item in enumerate(items))
        return (self._in_processes if processes else self._in_threads)(items, n_jobs)

    def _in_threads(self, items: Iterator[Any], n_jobs: int) -> Iterator[tuple[int, R]]:
        """Have calls made by threads, for which an interruption does not wait."""
        source, lock = enumerate(items), threading.Lock()
        results: Queue[tuple[int, R] | BaseException | None] = Queue(_AHEAD * n_jobs)

        def take() -> tuple[int, Any] | None:
            with lock:
                return next(source, None)

        def work() -> None:
            try:
                for number, item in iter(take, None):
                    results.put((number, self.function(*self.shared, item)))
                results.put(None)
            except BaseException as error:
                results.put(error)

        for _ in range(n_jobs):
            threading.Thread(target=work, daemon=True).start()
        try:
            while n_jobs:
                result = results.get()
                if isinstance(result, BaseException):
                    raise result
                if result is None:
                    n_jobs -= 1
                else:
                    yield result
        finally:
            with lock:
                source = enumerate(())
            # Room for what threads that are at work still put.
            while not results.empty():
                results.get()

    def _in_processes(self, items: Iterable[Any], n_jobs: int) -> Iterator[tuple[int, R]]:
        from joblib.externals.loky import get_reusable_executor

        share = str(max(joblib.cpu_count() // n_jobs, 1))
        limits = {name: os.environ.get(name, share) for name in _THREADS}
        start = partial(
            get_reusable_executor,
            n_jobs,
            timeout=_IDLE,
            env=limits,
            initializer=_end_with_parent,
            initargs=(os.getpid(),),
        )
        try:
            yield from _in_pool(items, start, self._call(), lambda: n_jobs)
        except BaseException:
            start().shutdown(kill_workers=True)
            raise

    def _on_cluster(self, client: Any, items: Iterable[Any]) -> Iterator[tuple[int, R]]:
        """Have calls made by the workers of a scheduler."""
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            call = client.submit(_same, self._call(), pure=False)
        client.subscribe_topic("all", _note_lost_worker)
        start = partial(client.get_executor, pure=False)
        try:
            yield from _in_pool(items, start, call, lambda: sum(client.nthreads().values()))
        except distributed.KilledWorker as error:
            raise WorkersError(
                f"a task was running on {error.args[2] + 1 if len(error.args) > 2 else 'several'} "
                "workers of the cluster as they ended: it may need more memory than they have"
            ) from None
        except (futures.CancelledError, OSError) as error:
            raise WorkersError(
                f"the cluster's scheduler at {client.scheduler.address} went away or started anew"
            ) from error

    def _call(self) -> _Call:
        level = _LIBRARY.getEffectiveLevel()
        return _Call(uuid4().hex, self.function, self.shared, level)


def _in_pool(
    items: Iterable[Any],
    start: Callable[[], futures.Executor],
    call: Any,
    count: Callable[[], int],
) -> Iterator[tuple[int, Any]]:
    """Give the number of each item and the result of its call, as soon as it is there."""
    source: Iterator[tuple[int, Any]] = enumerate(items)
    sent: dict[int, Any] = {}
    lost, most = 0, _AHEAD * max(count(), 1)
    while True:
        source = chain(list(sent.items()), source)
        running: dict[futures.Future[Any], int] = {}
        try:
            executor = start()
            while True:
                for number, item in islice(source, max(most - len(running), 0)):
                    sent[number] = item
                    running[executor.submit(_on_worker, call, item)] = number
                    if number % _LOOK == 0:
                        most = _AHEAD * max(count(), 1)
                if not running:
                    return
                for future in futures.wait(running, return_when="FIRST_COMPLETED").done:
                    result, records = future.result()
                    number = running.pop(future)
                    del sent[number]
                    lost = 0
                    _repeat(records)
                    yield number, result
        except futures.BrokenExecutor:
            lost += 1
            if lost > LOSSES:
                raise WorkersError(
                    f"worker processes ended {lost} times without a result: the system may have "
                    "ended them for lack of memory; fewer of them need less"
                ) from None
            event = {"event": "worker lost", "in_a_row": lost, "again": len(sent)}
            logger.warning(
                "a worker process was lost; %(again)d calls are made again", event, extra=event
            )
        finally:
            for future in running:
                future.cancel()


def _until_error(items: Iterable[Any], errors: list[Exception]) -> Iterator[Any]:
    """Give the items; an error ends them and is kept, for other threads may take them."""
    try:
        yield from items
    except Exception as error:
        errors.append(error)


class _Call(NamedTuple):
    """What all calls of a function share."""

    name: str
    function: Callable[..., Any]
    shared: tuple[Any, ...]
    level: int
    """From which on records come back."""


def _on_worker(call: _Call, item: Any) -> Recorded[Any]:
    """Call the function in a worker, with the first copy of the shared inputs."""
    if call.name not in _kept:
        while len(_kept) >= _KEPT:
            del _kept[next(iter(_kept))]
        _kept[call.name] = call
    kept = _kept[call.name]
    return _recorded(call.level, kept.function, *kept.shared, item)


def _same(call: _Call) -> _Call:
    return call


def _note_lost_worker(event: tuple[float, Any]) -> None:
    """Record that a worker ended without being asked to; its calls are made again by others."""
    _, what = event
    if not isinstance(what, dict) or what.get("action") != "remove-worker" or what["expected"]:
        return
    again = len(what["processing-tasks"])
    found = {"event": "worker lost", "worker": what["worker"], "again": again}
    words = "worker %(worker)s of the cluster was lost; %(again)d calls are made again"
    logger.warning(words, found, extra=found)


def _recorded(least: int, function: Callable[..., R], *arguments: Any) -> Recorded[R]:
    """Return the result of a call, and what it recorded from a level on, fit to be sent."""
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
    for record in records:
        logging.getLogger(record.name).handle(record)


def _end_with_parent(parent: int) -> None:
    """End this process soon after its parent has, which may have had no time to say so."""
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
