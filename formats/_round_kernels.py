"""Kernels that classify the records of a trace and assign messages to rounds.

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
    """Mark the records that are data of the previous record; return the first bad one, or -1."""
    # (r), (r), (r), (r) -> (r)
    sizes = np.zeros(1 << 20, np.int64)
    i = 0
    while i < kinds.size:
        kind = kinds[i]
        n_data = 0
        if kind < SEND or kind > END:
            return i
        if kind == COMMUNICATOR:
            if nbytes[i] > 1 << 24 or not 0 <= communicators[i] < sizes.size:
                return i
            sizes[communicators[i]] = nbytes[i]
            n_data = (4 * int(nbytes[i]) + _RECORD - 1) // _RECORD
        elif kind == COLLECTIVE and flags[i] & 4:
            if not 0 <= communicators[i] < sizes.size:
                return i
            n_data = (8 * sizes[communicators[i]] + _RECORD - 1) // _RECORD
        elif kind == LEFT_OUT:
            n_data = 1
        for offset in range(1, n_data + 1):
            if i + offset < kinds.size:
                is_data[i + offset] = True
        i += 1 + n_data
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
    """Assign a round to each event; return the number of reached events.

    ``partner`` is the send of a receive (-1 for none) or the call of a collective. Events of task t
    are first[t] to first[t + 1]; ``members`` of call i are start[i] to start[i + 1].
    """
    # (e), (e), (t+1), (e), (c), (c), (m), (c+1) -> (e)
    n_tasks = first.size - 1
    level = np.zeros(n_tasks, np.int64)
    position = first[:-1].copy()
    waiting = np.full(kinds.size, -1, np.int64)
    arrived = np.zeros(n_members.size, np.int64)
    latest = np.zeros(n_members.size, np.int64)
    stack = np.empty(max(1, n_tasks), np.int64)
    on_stack = np.ones(n_tasks, np.bool_)
    top = n_tasks
    for t in range(n_tasks):
        stack[t] = n_tasks - 1 - t
    n_reached = 0
    while top:
        top -= 1
        t = stack[top]
        on_stack[t] = False
        while position[t] < first[t + 1]:
            e = position[t]
            if kinds[e] == SEND:
                rounds[e] = level[t] + 1
                if waiting[e] >= 0 and not on_stack[waiting[e]]:
                    stack[top] = waiting[e]
                    on_stack[waiting[e]] = True
                    top += 1
            elif kinds[e] == RECEIVE:
                send = partner[e]
                if send >= 0:
                    if rounds[send] == 0:
                        waiting[send] = t
                        break
                    level[t] = max(level[t], rounds[send])
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
                                member = members[m]
                                if member != t and not on_stack[member]:
                                    stack[top] = member
                                    on_stack[member] = True
                                    top += 1
                    if arrived[call] < n_members[call]:
                        break
                    rounds[e] = latest[call] + 1
                    level[t] = latest[call] + n_rounds[call]
            position[t] += 1
            n_reached += 1
    return n_reached
