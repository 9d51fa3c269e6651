"""Three tasks - nothing, an increment and a sort - that run alone and in patterns."""

# Items are arrays of n integers; nop does nothing, inc adds 1 to each integer, qsort sorts them. A
# worker is a thread, because NumPy releases the interpreter lock within a call. Workers hand over
# blocks of items with one NumPy call a block, so that all items of a block share the tens of
# microseconds of a hand-over. A stream has the same bytes for every n and exceeds the second-level
# caches, so that n does not decide where items come from. nop holds the lock: it calls an empty
# function for each item.  What a pattern costs shows only if its workers have a processor each.
# Linux counts how long a thread that could run waited for one; that share is reported with every
# time.

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from queue import Queue
from threading import Barrier

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError

Block = NDArray[np.int32]
# Blocks that may wait between two stages: the faster stage then waits, as in an endless stream.
_BUFFERED = 2
_MANY = 1024  # items of nop in a block, alone
# Seconds of sleep before a run, because preparing the stream uses up the thread's time slice.
_REST = 0.01


def _nothing(item: Block) -> None:
    """Do nothing with an item."""


def nop(block: Block) -> None:
    """Call an empty function for each item."""
    for item in block:
        _nothing(item)


def inc(block: Block) -> None:
    """Add 1 to every integer."""
    np.add(block, 1, out=block)


def qsort(block: Block) -> None:
    """Sort each item."""
    block.sort(axis=1, kind="quicksort")


TASKS: dict[str, Callable[[Block], None]] = {"nop": nop, "inc": inc, "qsort": qsort}


@dataclass(frozen=True)
class Timing:
    """Steady state of one run.

    Attributes
    ----------
    seconds : float
        Time between two items.
    waited : float
        Time that all workers together waited for a processor, over the elapsed time; NaN where the
        system does not tell.
    """

    seconds: float
    waited: float


class Stream:
    """Blocks of items of random integers.

    Parameters
    ----------
    integers : int
        Integers in a block.
    blocks : int
    seed : int
    """

    def __init__(self, integers: int, blocks: int, seed: int = 1) -> None:
        self._fresh = np.random.default_rng(seed).integers(
            0, np.iinfo(np.int32).max, (blocks, integers), dtype=np.int32
        )
        self._data = self._fresh.copy()

    def items(self, n: int) -> list[Block]:
        """Return blocks of items of n integers, in random order again."""
        rows = self._data.shape[1] // n
        if rows == 0:
            raise InputError(
                "an item must fit into a block", found=n, expected=f"at most {self._data.shape[1]}"
            )
        self._data[:] = self._fresh
        return [block[: rows * n].reshape(rows, n) for block in self._data]


def run_alone(task: str, stream: Stream, n: int) -> Timing:
    """Time a task without any pattern: a loop over all blocks."""
    blocks = stream.items(n)
    if task == "nop":
        # nop reads no integer, so one item can stand for many. With few items a block, the time of
        # the loop around them would count too.
        blocks = [np.broadcast_to(block[:1], (_MANY, n)) for block in blocks]
    function = TASKS[task]
    time.sleep(_REST)
    before, start = _waited(), time.perf_counter()
    for block in blocks:
        function(block)
    elapsed = time.perf_counter() - start
    return Timing(elapsed / sum(map(len, blocks)), (_waited() - before) / elapsed)


def run_pipeline(stages: Sequence[tuple[str, int]], stream: Stream, n: int) -> Timing:
    """Time a pipeline of task pools, given (task, workers) of each stage.

    The time between items is taken from the end of the pipeline, once every worker has had a block,
    over whole rounds of the pools.
    """
    blocks = stream.items(n)
    workers = [number for _, number in stages]
    turn = math.lcm(*workers)
    skipped = turn * math.ceil(sum(workers) / turn)
    last = skipped + (len(blocks) - skipped) // turn * turn
    if last <= skipped:
        raise InputError(
            "too few blocks for a steady state", found=len(blocks), expected=skipped + turn
        )
    queues: list[Queue[Block]] = [Queue(), *(Queue(_BUFFERED) for _ in stages[1:])]
    for block in blocks:
        queues[0].put(block)
    done: list[float] = []
    ready = Barrier(sum(workers))

    def work(place: int, tickets: count[int]) -> float:
        before = _waited()
        function = TASKS[stages[place][0]]
        # Otherwise a worker that starts late would leave its share to the others.
        ready.wait()
        # A ticket stands for a block; taking one is a single, atomic step of the interpreter.
        while next(tickets) < len(blocks):
            block = queues[place].get()
            function(block)
            if place + 1 < len(stages):
                queues[place + 1].put(block)
            else:
                done.append(time.perf_counter())
        return _waited() - before

    with ThreadPoolExecutor(sum(workers)) as pool:
        start = time.perf_counter()
        running = []
        for place, number in enumerate(workers):
            tickets = count()
            running += [pool.submit(work, place, tickets) for _ in range(number)]
        waited = sum(future.result() for future in running)
        elapsed = time.perf_counter() - start
    done.sort()
    items = (last - skipped) * len(blocks[0])
    return Timing((done[last - 1] - done[skipped - 1]) / items, waited / elapsed)


def _waited() -> float:
    """Return the seconds that this thread has waited for a processor."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return math.nan
