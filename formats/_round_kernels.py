"""Kernels that find the records of a trace file, and longest paths between events.

A trace file is a sequence of records of 32 bytes, some of them followed by data that fill further
records. Dimensions: r = records of a rank, n = nodes of a graph, a = arcs of a graph.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import kernel
from toruscast.typing import Bools, Int32s, Ints, UInt64s

SEND, RECEIVE, COLLECTIVE, COMMUNICATOR, BLOCKS, MARK, LEFT_OUT, END = range(1, 9)
_RECORD = 32


@kernel
def find_data(
    kinds: NDArray[np.uint8],
    flags: NDArray[np.uint16],
    communicators: Int32s,
    nbytes: UInt64s,
    is_data: Bools,
) -> int:
    """Set ``is_data`` for the data behind records; return the first damaged record, or -1.

    The members of a communicator take 4 bytes each, the amounts of a collective with flag 4 take 8
    bytes per member, and the name of a call that was left out takes one record.
    """
    # (r), (r), (r), (r) -> (r)
    sizes = np.zeros(1 << 20, np.int64)  # number of members of each communicator
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
def trace_paths(arcs: Int32s, length: Ints) -> Bools:
    """Raise ``length`` at each node to that of the longest path which ends there.

    ``arcs`` has rows of sources, targets and lengths. Return which nodes are reached: all except
    those on a cycle or behind one.
    """
    # (3, a), (n) -> (n)
    # Kahn's algorithm: a node is final after all its incoming arcs. The arcs from a node form a
    # linked list.
    n_waiting = np.zeros(length.size, np.int32)
    last_arc = np.full(length.size, -1, np.int32)
    next_arc = np.empty(arcs.shape[1], np.int32)
    for a in range(arcs.shape[1]):
        n_waiting[arcs[1, a]] += 1
        next_arc[a] = last_arc[arcs[0, a]]
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
            a = next_arc[a]
    is_traced: Bools = n_waiting == 0
    return is_traced
