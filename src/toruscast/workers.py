"""Parallel calls of a function in threads, processes or a cluster.

Threads are the default; `joblib.parallel_config` selects other backends, as in scikit-learn. This
module repeats calls whose process was lost, returns log records with the results, and ends
processes when their parent ends. Processes come from joblib's loky, which supports functions that
are defined in scripts and notebooks. Clusters are used directly through `dask.distributed`, because
joblib's backend waits forever if a call makes its workers exit.
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
# Maximum number of times that workers may be lost between two results.
LOSSES = 3
# Number of calls whose shared inputs a worker caches.
_CACHE_SIZE = 4
# Number of calls to submit ahead per worker, and number of calls after which to recount workers.
_AHEAD, _COUNT_INTERVAL = 2, 256
# Seconds after which an idle process ends.
_IDLE = 300
# Variables that limit the threads of a process to its share of the cores.
_THREADS = [f"{name}_NUM_THREADS" for name in ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMBA")]
_cached_calls: dict[str, _Call] = {}


class SingleBlasThread(ContextDecorator):
    """Context manager and decorator that limits BLAS to one thread, for small matrices.

    BLAS threads wait in busy loops: for matrices of 84 x 84, they take fifty times the processor
    time of a single thread. The limit applies to the whole process until the last context is left.
    """

    _lock = threading.Lock()
    _depth = 0
    _limiter: Any = None

    def __enter__(self) -> None:
        cls = type(self)
        with cls._lock:
            if not cls._depth:
                cls._limiter = _find_blas().limit(limits=1)
                cls._limiter.__enter__()
            cls._depth += 1

    def __exit__(self, *raised: object) -> None:
        cls = type(self)
        with cls._lock:
            cls._depth -= 1
            if not cls._depth:
                cls._limiter.__exit__(*raised)


# The result is cached because finding the libraries takes longer than limiting them.
@lru_cache(1)
def _find_blas() -> Any:
    return ThreadpoolController().select(user_api="blas")


class Task(Generic[R]):
    """A function and the inputs shared by all its calls, which each worker receives only once.

    Calls must be deterministic, because the calls of lost workers are repeated.
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
        """Return the results of all items in order.

        ``progress`` is called with the number of results so far and the number of items.
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
        """Yield each result as soon as it and all earlier ones are available.

        ``progress`` is called with the number of results so far.
        """
        report = progress or (lambda done: None)
        pending: dict[int, R] = {}
        n_yielded = 0
        report(0)
        for number, result in self.each(items, n_jobs, processes=processes):
            pending[number] = result
            report(n_yielded + len(pending))
            while n_yielded in pending:
                yield pending.pop(n_yielded)
                n_yielded += 1

    def each(
        self, items: Iterable[Any], n_jobs: int, *, processes: bool = False
    ) -> Iterator[tuple[int, R]]:
        """Yield the index of each item and its result in the order of completion."""
        errors: list[Exception] = []
        yield from self._run(_iterate_until_error(items, errors), n_jobs, processes)
        if errors:
            raise errors[0]

    def _run(self, items: Iterator[Any], n_jobs: int, processes: bool) -> Iterator[tuple[int, R]]:
        """Run calls in the backend of `joblib.parallel_config`, or else in threads."""
        # joblib is slow to import. If nothing imported it, no backend was configured.
        if "joblib" in sys.modules:
            kind = "processes" if processes else "threads"
            backend, _ = joblib.parallel.get_active_backend(prefer=kind)
            if hasattr(backend, "client"):
                return self._run_on_cluster(backend.client, items)
            processes = not getattr(backend, "supports_sharedmem", False)
        if n_jobs == 1:
            return ((i, self.function(*self.shared, item)) for i, item in enumerate(items))
        return (self._run_in_processes if processes else self._run_in_threads)(items, n_jobs)

    def _run_in_threads(self, items: Iterator[Any], n_jobs: int) -> Iterator[tuple[int, R]]:
        """Run calls in daemon threads, so that an interruption does not wait for running calls."""
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
            # Threads that still run need space in the queue for their results.
            while not results.empty():
                results.get()

    def _run_in_processes(self, items: Iterable[Any], n_jobs: int) -> Iterator[tuple[int, R]]:
        """Run calls in joblib's pool of processes."""
        from joblib.executor import get_memmapping_executor
        from joblib.externals.loky.backend.resource_tracker import ensure_running

        # Start the tracker now: it starts slowly, and a signal during a start in the pool would
        # leak a lock.
        ensure_running()
        share = str(max(joblib.cpu_count() // n_jobs, 1))
        limits = {name: os.environ.get(name, share) for name in _THREADS}
        # A process has one joblib pool, which scikit-learn may use next. Therefore the pool must be
        # of joblib's own class. With max_nbytes=None nothing is written to temporary files.
        settings = {"timeout": _IDLE, "env": limits, "initializer": _end_with_parent}
        settings |= {"initargs": (os.getpid(),), "max_nbytes": None}
        start = partial(get_memmapping_executor, n_jobs, **settings)
        try:
            yield from _run_in_pool(items, start, self._make_call(), lambda: n_jobs)
        except BaseException:
            start().shutdown(kill_workers=True)
            raise

    def _run_on_cluster(self, client: Any, items: Iterable[Any]) -> Iterator[tuple[int, R]]:
        """Run calls on a dask cluster, which receives the shared inputs once."""
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            call = client.submit(_identity, self._make_call(), pure=False)
        client.subscribe_topic("all", _log_lost_worker)
        start = partial(client.get_executor, pure=False)
        try:
            yield from _run_in_pool(items, start, call, lambda: sum(client.nthreads().values()))
        except distributed.KilledWorker as error:
            n_workers = error.args[2] + 1 if len(error.args) > 2 else "several"
            found = f"{n_workers} workers of the cluster ended while they ran the same task"
            raise WorkersError(f"{found}, which may need more memory than they have") from None
        except (futures.CancelledError, OSError) as error:
            scheduler = client.scheduler.address
            raise WorkersError(f"the cluster's scheduler at {scheduler} was lost") from error

    def _make_call(self) -> _Call:
        level = _LIBRARY.getEffectiveLevel()
        return _Call(uuid4().hex, self.function, self.shared, level)


def _run_in_pool(
    items: Iterable[Any],
    start: Callable[[], futures.Executor],
    call: Any,
    count: Callable[[], int],
) -> Iterator[tuple[int, Any]]:
    """Yield the index of each item and its result, from a pool that may lose workers.

    ``start`` returns a new pool. ``count`` returns its number of workers, which may change.
    """
    source: Iterator[tuple[int, Any]] = enumerate(items)
    sent: dict[int, Any] = {}
    lost, max_running = 0, _AHEAD * max(count(), 1)
    while True:
        source = chain(list(sent.items()), source)
        running: dict[futures.Future[Any], int] = {}
        try:
            executor = start()
            while True:
                for number, item in islice(source, max(max_running - len(running), 0)):
                    sent[number] = item
                    running[executor.submit(_call_on_worker, call, item)] = number
                    if number % _COUNT_INTERVAL == 0:
                        max_running = _AHEAD * max(count(), 1)
                if not running:
                    return
                for future in futures.wait(running, return_when="FIRST_COMPLETED").done:
                    result, records = future.result()
                    number = running.pop(future)
                    del sent[number]
                    lost = 0
                    for record in records:
                        logging.getLogger(record.name).handle(record)
                    yield number, result
        except futures.BrokenExecutor:
            lost += 1
            if lost > LOSSES:
                found = f"worker processes ended {lost} times without a result"
                hint = "possibly for lack of memory; try fewer processes"
                raise WorkersError(f"{found}, {hint}") from None
            event = {"event": "worker lost", "in_a_row": lost, "again": len(sent)}
            message = "a worker process was lost; %(again)d calls are repeated"
            logger.warning(message, event, extra=event)
        finally:
            for future in running:
                future.cancel()


def _iterate_until_error(items: Iterable[Any], errors: list[Exception]) -> Iterator[Any]:
    """Yield items until an error; store the error, because another thread may take the items."""
    try:
        yield from items
    except Exception as error:
        errors.append(error)


class _Call(NamedTuple):
    """A function and its shared inputs, as sent to workers."""

    name: str
    function: Callable[..., Any]
    shared: tuple[Any, ...]
    level: int  # minimum level of returned log records


def _call_on_worker(call: _Call, item: Any) -> Recorded[Any]:
    """Call the function with the worker's cached copy of the shared inputs."""
    if call.name not in _cached_calls:
        while len(_cached_calls) >= _CACHE_SIZE:
            del _cached_calls[next(iter(_cached_calls))]
        _cached_calls[call.name] = call
    cached = _cached_calls[call.name]
    return _call_with_records(call.level, cached.function, *cached.shared, item)


def _identity(call: _Call) -> _Call:
    return call


def _log_lost_worker(event: tuple[float, Any]) -> None:
    """Log that a worker of the cluster ended unexpectedly."""
    _, details = event
    is_removal = isinstance(details, dict) and details.get("action") == "remove-worker"
    if not is_removal or details["expected"]:
        return
    again = len(details["processing-tasks"])
    lost = {"event": "worker lost", "worker": details["worker"], "again": again}
    message = "worker %(worker)s of the cluster was lost; %(again)d calls are repeated"
    logger.warning(message, lost, extra=lost)


def _call_with_records(level: int, function: Callable[..., R], *arguments: Any) -> Recorded[R]:
    """Return the result of a call and its picklable log records."""
    records: SimpleQueue[logging.LogRecord] = SimpleQueue()
    handler, thread = QueueHandler(records), threading.get_ident()
    # A worker of a cluster runs several calls concurrently.
    handler.addFilter(lambda record: record.thread == thread)
    _LIBRARY.setLevel(level)
    _LIBRARY.addHandler(handler)
    try:
        result = function(*arguments)
    finally:
        _LIBRARY.removeHandler(handler)
    return result, [records.get() for _ in range(records.qsize())]


def _end_with_parent(parent: int) -> None:
    # Watch the parent, because a killed process cannot notify its children.
    threading.Thread(target=_watch_parent, args=(parent,), daemon=True).start()


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
