"""Length of the longest chain of dependent messages in a collective."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping.collectives import Schedule

Floats = NDArray[np.float64]
Tasks = NDArray[np.int64]


def message_chain(schedule: Schedule) -> float:
    """Return the messages on the longest chain of sends and receives of a schedule.

    A task sends one message and receives one message at a time. In a round it sends what it
    received in earlier rounds. A binomial tree therefore takes log2(n) messages, because the sends
    of the root and its children overlap.

    Parameters
    ----------
    schedule : Schedule
        A message in several pieces counts as several. The ports of a task share its time.

    Examples
    --------
    >>> from toruscast.mapping.collectives import schedule
    >>> [message_chain(schedule(f"bcast/{kind}", 8, 1.0)) for kind in ("binomial", "linear")]
    [3.0, 7.0]
    """
    if schedule.at_once:
        return float(sum(len(lane) for lane in schedule.lanes))
    done = np.zeros(schedule.n_tasks)
    for times, steps in schedule.rounds():
        src, dst = (np.concatenate([getattr(s, end) for s in steps]) for end in ("src", "dst"))
        pieces = np.concatenate([np.full(s.src.size, s.pieces) for s in steps])
        grown = np.full(done.size, -1.0)
        for left in range(times, 0, -1):
            before, last = done, grown
            done = _after(done, src, dst, pieces)
            grown = done - before
            # From here on, every round adds the same length.
            if np.array_equal(grown, last):
                done = done + (left - 1) * grown
                break
    return float(done.max())


def _after(done: Floats, src: Tasks, dst: Tasks, pieces: Floats) -> Floats:
    """Messages on the longest chain up to each task after a round."""
    sent = done[src] + _turn(src, pieces)
    # Each arrival waits for its turn, which delays later arrivals.
    late = np.argsort(-sent, kind="stable")
    behind = np.empty(sent.size)
    behind[late] = _turn(dst[late], pieces[late])
    after = done + np.bincount(dst, weights=pieces, minlength=done.size)
    np.maximum.at(after, dst, sent + behind - pieces)
    np.maximum.at(after, src, sent)
    return after


def _turn(task: Tasks, pieces: Floats) -> Floats:
    """Pieces of a task up to and with each of its messages, in the order given."""
    order = np.argsort(task, kind="stable")
    total = np.cumsum(pieces[order])
    first = np.flatnonzero(np.diff(task[order], prepend=-1))
    before = np.repeat(total[first] - pieces[order][first], np.diff(np.r_[first, task.size]))
    turn = np.empty(task.size)
    turn[order] = total - before
    return turn
