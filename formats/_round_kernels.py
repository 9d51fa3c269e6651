"""Kernels that classify the records of a trace and assign messages to rounds.

r = records of a rank, e = events of all ranks, t = tasks, c = collective calls, m = their members,
n = nodes of a graph, a = its arcs
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import bare_kernel, kernel
from toruscast.typing import Bools, Int32s, Ints

SEND, RECEIVE, COLLECTIVE, COMMUNICATOR, BLOCKS, MARK, LEFT_OUT, END = range(1, 9)
_RECORD = 32


@kernel
def find_data(
    kinds: NDArray[np.uint8],
    flags: NDArray[np.uint16],
    communicators: Int32s,
    nbytes: NDArray[np.uint64],
    is_data: Bools,
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
def link_events(
    kinds: NDArray[np.uint8],
    partner: Ints,
    first: Ints,
    n_members: Ints,
    n_rounds: Ints,
    members: Ints,
    start: Ints,
    rounds: Ints,
    arcs: Int32s,
) -> tuple[int, int]:
    """List the arcs between rounds, and return their number and that of the reached events.

    ``partner`` is the send of a receive (-1 for none) or the call of a collective. Events of task t
    are first[t] to first[t + 1]; ``members`` of call i are start[i] to start[i + 1]. The nodes are
    the events, the first round of each call, and its last one. The round of the target of an arc
    is at least that of its source plus the weight. ``rounds`` becomes 1 at reached messages.
    """
    # (e), (e), (t+1), (c), (c), (m), (c+1) -> (e + 2c), (3, a)
    n_tasks, n_calls = first.size - 1, n_members.size
    # Nodes of the last receive and of the last send of each task.
    received = np.full(n_tasks, -1, np.int64)
    sent = received.copy()
    position = first[:-1].copy()
    waiting = np.full(kinds.size, -1, np.int64)
    arrived = np.zeros(n_calls, np.int64)
    stack = np.arange(n_tasks)[::-1].copy()
    on_stack = np.ones(n_tasks, np.bool_)
    top = n_tasks
    n_arcs = n_reached = 0
    while top:
        top -= 1
        t = stack[top]
        on_stack[t] = False
        while position[t] < first[t + 1]:
            e = position[t]
            if kinds[e] == SEND:
                rounds[e] = 1
                n_arcs = _add_arc(arcs, n_arcs, received[t], e, 1)
                n_arcs = _add_arc(arcs, n_arcs, sent[t], e, 0)
                sent[t] = e
                top = _push(stack, on_stack, top, waiting[e])
            elif kinds[e] == RECEIVE and partner[e] >= 0:
                send = partner[e]
                if rounds[send] == 0:
                    waiting[send] = t
                    break
                # The earlier sends of the task do not wait for this message.
                n_arcs = _add_arc(arcs, n_arcs, sent[t], send, 0)
                n_arcs = _add_arc(arcs, n_arcs, received[t], e, 0)
                n_arcs = _add_arc(arcs, n_arcs, send, e, 0)
                received[t] = e
            elif kinds[e] == COLLECTIVE and partner[e] >= 0:
                call = partner[e]
                begin, end = kinds.size + call, kinds.size + n_calls + call
                if rounds[e] == 0:
                    rounds[e] = 1
                    arrived[call] += 1
                    if arrived[call] == n_members[call]:
                        rounds[begin] = min(n_rounds[call], 1)
                        n_arcs = _add_arc(arcs, n_arcs, begin, end, max(n_rounds[call] - 1, 0))
                        for m in range(start[call], start[call + 1]):
                            if members[m] != t:
                                top = _push(stack, on_stack, top, members[m])
                if arrived[call] < n_members[call]:
                    break
                n_arcs = _add_arc(arcs, n_arcs, received[t], begin, min(n_rounds[call], 1))
                received[t] = end
                if n_rounds[call]:
                    n_arcs = _add_arc(arcs, n_arcs, sent[t], begin, 0)
                    sent[t] = end
            position[t] += 1
            n_reached += 1
    return n_arcs, n_reached


@bare_kernel
def _add_arc(arcs: Int32s, n_arcs: int, source: int, target: int, weight: int) -> int:
    if source < 0:
        return n_arcs
    arcs[0, n_arcs], arcs[1, n_arcs], arcs[2, n_arcs] = source, target, weight
    return n_arcs + 1


@bare_kernel
def _push(stack: Ints, on_stack: Bools, top: int, task: int) -> int:
    if task < 0 or on_stack[task]:
        return top
    stack[top] = task
    on_stack[task] = True
    return top + 1


@kernel
def extend_longest_paths(arcs: Int32s, length: Ints) -> None:
    """Add the longest paths of an acyclic graph to the initial lengths. (3, a) -> (n)."""
    n_waiting = np.zeros(length.size, np.int32)
    last_arc = np.full(length.size, -1, np.int32)
    other_arc = np.empty(arcs.shape[1], np.int32)
    for a in range(arcs.shape[1]):
        n_waiting[arcs[1, a]] += 1
        other_arc[a] = last_arc[arcs[0, a]]
        last_arc[arcs[0, a]] = a
    stack = np.empty(length.size, np.int32)
    top = 0
    for node in range(length.size):
        if n_waiting[node] == 0:
            stack[top] = node
            top += 1
    while top:
        top -= 1
        source = stack[top]
        a = last_arc[source]
        while a >= 0:
            target = arcs[1, a]
            length[target] = max(length[target], length[source] + arcs[2, a])
            n_waiting[target] -= 1
            if n_waiting[target] == 0:
                stack[top] = target
                top += 1
            a = other_arc[a]
