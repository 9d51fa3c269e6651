"""Calls of one function, run by threads, by processes or by a cluster: the same results from each.

Threads are the default. `joblib.parallel_config` chooses others, as it does in scikit-learn.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ContextDecorator
from functools import lru_cache
from threading import Lock
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import uuid4

from threadpoolctl import ThreadpoolController

from . import _events
from ._child import end_with_parent
from .errors import WorkersError

R = TypeVar("R")
logger = logging.getLogger(__name__)
# Workers that may be lost in a row without a result in between.
LOSSES = 3
# Inputs of different functions that a worker keeps.
_KEPT = 4
_kept: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}


class OneBlasThread(ContextDecorator):
    """Keeps BLAS to one thread while small matrices are worked on; a decorator too.

    Its threads wait for each other in a loop: over matrices of 84 x 84 they take fifty times the
    processor time of one. The number of threads is one of the whole process, so the last one out
    restores it.
    """

    _lock = Lock()
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
        tell = None if progress is None else lambda done: progress(done, total)
        return list(self.in_turn(items, n_jobs, processes=processes, progress=tell))

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
        tell = progress or (lambda done: None)
        early: dict[int, R] = {}
        due = 0
        tell(0)
        for number, result in self.each(items, n_jobs, processes=processes):
            early[number] = result
            tell(due + len(early))
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
        from joblib.parallel import get_active_backend

        backend, _ = get_active_backend(prefer="processes" if processes else "threads")
        if hasattr(backend, "client"):
            from ._cluster import stream

            return stream(backend.client, self, items)
        if n_jobs == 1:
            return ((i, self.function(*self.shared, item)) for i, item in enumerate(items))
        if getattr(backend, "supports_sharedmem", False):
            return self._in_threads(items, n_jobs)
        return self._in_processes(items, n_jobs)

    def _numbered(self, number: int, item: Any) -> tuple[int, R]:
        return number, self.function(*self.shared, item)

    def _in_threads(self, items: Iterable[Any], n_jobs: int) -> Iterator[tuple[int, R]]:
        from joblib import Parallel, delayed

        threads = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator_unordered")
        found: Iterator[tuple[int, R]] = threads(
            delayed(self._numbered)(number, item) for number, item in enumerate(items)
        )
        return found

    def _in_processes(self, items: Iterable[Any], n_jobs: int) -> Iterator[tuple[int, R]]:
        from concurrent.futures.process import BrokenProcessPool

        from joblib import Parallel, delayed

        call = _Call(uuid4().hex, self.function, self.shared, _events.level(), os.getpid())
        source = enumerate(items)
        sent: dict[int, Any] = {}
        lost = 0

        def calls() -> Iterator[Any]:
            """What is under way and lost its worker, then what is new."""
            for number, item in list(sent.items()):
                yield delayed(_in_child)(call, number, item)
            for number, item in source:
                sent[number] = item
                yield delayed(_in_child)(call, number, item)

        while True:
            # Large arrays go once, as files that workers map. Mode "c" lets these be changed in
            # memory: kernels compiled for such arrays refuse those that are only read.
            workers = Parallel(
                n_jobs=n_jobs,
                prefer="processes",
                return_as="generator_unordered",
                mmap_mode="c",
            )
            try:
                for number, (result, records) in workers(calls()):
                    _events.repeat(records)
                    del sent[number]
                    lost = 0
                    yield number, result
                return
            except BrokenProcessPool:
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


def _in_child(call: _Call, number: int, item: Any) -> tuple[int, _events.Recorded[Any]]:
    """Call the function in a worker process, with the first copy of the shared inputs.

    What they computed for earlier items and kept is then at hand.
    """
    end_with_parent(call.parent)
    if call.name not in _kept:
        while len(_kept) >= _KEPT:
            del _kept[next(iter(_kept))]
        _kept[call.name] = call.function, call.shared
    function, shared = _kept[call.name]
    return number, _events.recorded(call.level, function, *shared, item)
