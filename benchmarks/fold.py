"""Measure the seconds and memory to fold a long trace into the rounds of an iteration.

    python benchmarks/fold.py [EVENTS] [RANKS]

Every rank of a ring exchanges messages with its four nearest neighbours and reduces a number. This
is repeated until the trace has enough events.
"""

from __future__ import annotations

import resource
import sys
import time

import numpy as np

from toruscast.formats.rounds import Events, build_rounds

NEIGHBOURS = (1, -1, 2, -2)


def events_of(n_events: int, n_ranks: int) -> Events:
    """Return the events of a program that repeats an exchange."""
    each = 2 * len(NEIGHBOURS) + 1
    times = n_events // (each * n_ranks)
    kind = np.tile(np.array([1] * 4 + [2] * 4 + [3], np.uint8), times * n_ranks)
    rank = np.repeat(np.arange(n_ranks), each * times)
    step = np.tile(np.array([*NEIGHBOURS, *NEIGHBOURS, 0]), times * n_ranks)
    peer = np.where(kind == 3, -1, (rank + step) % n_ranks)
    return Events(
        first=np.arange(n_ranks + 1) * each * times,
        kind=kind,
        peer=peer,
        communicator=np.zeros(kind.size, np.int64),
        tag=np.where(kind == 1, step, -step),
        nbytes=np.where(kind == 3, 8.0, 4096.0),
        operation=np.where(kind == 3, 1, 0),
        members={0: tuple(range(n_ranks))},
        operations=("", "allreduce"),
    )


def main(n_events: int = 10_000_000, n_ranks: int = 1024) -> None:
    """Print the seconds, the megabytes and the folded iteration."""
    events = events_of(n_events, n_ranks)
    # Compile the kernels first.
    build_rounds(events_of(20_000, 16))
    began = time.perf_counter(), time.process_time()
    found = build_rounds(events)
    wall, cpu = time.perf_counter() - began[0], time.process_time() - began[1]
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{events.kind.size:,} events of {n_ranks:,} ranks: {wall:.1f} s ({cpu:.1f} s of a "
        f"processor), {most:,.0f} MB; {len(found.workload)} rounds of {found.n_rounds:,}, "
        f"{found.iterations:,} times, {found.unmatched} unmatched"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
