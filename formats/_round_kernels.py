"""Kernels that walk a trace: which records are data, and which round each message falls into.

r = records of a rank, e = events of all ranks, t = tasks, c = collective calls
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import kernel

SEND, RECEIVE, COLLECTIVE, COMMUNICATOR, BLOCKS, MARK, LEFT_OUT, END = range(1, 9)
_RECORD = 32


@kernel
def find_data(
    kinds: NDArray[np.uint8],
    flags: NDArray[np.uint16],
    communicators: NDArray[np.int32],
    nbytes: NDArray[np.uint64],
    is_data: NDArray[np.bool_],
) -> int:
    """Mark the records that hold data of the one before; return the first bad one, -1 if none."""
    # (r), (r), (r), (r) -> (r)
    sizes = np.zeros(1 << 20, np.int64)
    at = 0
    while at < kinds.size:
        kind = kinds[at]
        follow = 0
        if kind < SEND or kind > END:
            return at
        if kind == COMMUNICATOR:
            if nbytes[at] > 1 << 24 or not 0 <= communicators[at] < sizes.size:
                return at
            sizes[communicators[at]] = nbytes[at]
            follow = (4 * int(nbytes[at]) + _RECORD - 1) // _RECORD
        elif kind == COLLECTIVE and flags[at] & 4:
            if not 0 <= communicators[at] < sizes.size:
                return at
            follow = (8 * sizes[communicators[at]] + _RECORD - 1) // _RECORD
        elif kind == LEFT_OUT:
            follow = 1
        for offset in range(1, follow + 1):
            if at + offset < kinds.size:
                is_data[at + offset] = True
        at += 1 + follow
    return -1


@kernel
def set_rounds(
    kinds: NDArray[np.uint8],
    partner: NDArray[np.int64],
    first: NDArray[np.int64],
    task: NDArray[np.int64],
    n_members: NDArray[np.int64],
    n_rounds: NDArray[np.int64],
    members: NDArray[np.int64],
    start: NDArray[np.int64],
    rounds: NDArray[np.int64],
) -> int:
    """Give each event its round; return how many events were reached.

    ``partner`` is, of a receive, its send (-1: none), and of a collective its call. Events of task
    t are first[t] to first[t + 1]. ``members`` of call i are start[i] to start[i + 1].
    """
    # (e), (e), (t+1), (e), (c), (c), (m), (c+1) -> (e)
    n_tasks = first.size - 1
    level = np.zeros(n_tasks, np.int64)
    at = first[:-1].copy()
    waiting = np.full(kinds.size, -1, np.int64)
    arrived = np.zeros(n_members.size, np.int64)
    latest = np.zeros(n_members.size, np.int64)
    stack = np.empty(max(1, n_tasks), np.int64)
    on_stack = np.ones(n_tasks, np.bool_)
    top = n_tasks
    for t in range(n_tasks):
        stack[t] = n_tasks - 1 - t
    done = 0
    while top:
        top -= 1
        t = stack[top]
        on_stack[t] = False
        while at[t] < first[t + 1]:
            e = at[t]
            if kinds[e] == SEND:
                rounds[e] = level[t] + 1
                if waiting[e] >= 0 and not on_stack[waiting[e]]:
                    stack[top] = waiting[e]
                    on_stack[waiting[e]] = True
                    top += 1
            elif kinds[e] == RECEIVE:
                sent = partner[e]
                if sent >= 0:
                    if rounds[sent] == 0:
                        waiting[sent] = t
                        break
                    level[t] = max(level[t], rounds[sent])
                rounds[e] = level[t]
            elif kinds[e] == COLLECTIVE:
                call = partner[e]
                if call >= 0:
                    if rounds[e] == 0:
                        arrived[call] += 1
                        latest[call] = max(latest[call], level[t])
                        rounds[e] = -1
                        if arrived[call] == n_members[call]:
                            for m in range(start[call], start[call + 1]):
                                other = members[m]
                                if other != t and not on_stack[other]:
                                    stack[top] = other
                                    on_stack[other] = True
                                    top += 1
                    if arrived[call] < n_members[call]:
                        break
                    rounds[e] = latest[call] + 1
                    level[t] = latest[call] + n_rounds[call]
            at[t] += 1
            done += 1
    return done
