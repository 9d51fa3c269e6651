"""Kernels that find the records of a trace file and the longest paths between events.

A trace file is a sequence of records of 32 bytes. The data of some records occupy further records.
Dimensions: r = records of a rank, n = nodes of a graph, a = arcs of a graph.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import kernel
from toruscast.typing import Bools, Int32s, Ints, UInt64s

SEND, RECEIVE, COLLECTIVE, COMMUNICATOR, BLOCKS, MARK, LEFT_OUT, END = range(1, 9)
RECORD_BYTES = 32
# Flag of collectives with a different number of bytes for each member.
UNEQUAL = 4
# If a number is larger, the file is damaged.
_MAX_COMMUNICATORS, _MAX_MEMBERS = 1 << 20, 1 << 24


@kernel
def find_data(
    kinds: NDArray[np.uint8],
    flags: NDArray[np.uint16],
    communicators: Int32s,
    nbytes: UInt64s,
    is_data: Bools,
) -> int:
    """Set ``is_data`` where a record is data of another; return the first damaged record, or -1.

    The members of a communicator take 4 bytes each. The unequal amounts of a collective take 8
    bytes per member. The name of a left-out call takes one record.
    """
    # (r), (r), (r), (r) -> (r)
    sizes = np.zeros(_MAX_COMMUNICATORS, np.int64)  # number of members of each communicator
    i = 0
    while i < kinds.size:
        kind = kinds[i]
        n_data = 0
        if kind < SEND or kind > END:
            return i
        if kind == COMMUNICATOR:
            if nbytes[i] > _MAX_MEMBERS or not 0 <= communicators[i] < sizes.size:
                return i
            sizes[communicators[i]] = nbytes[i]
            n_data = (4 * int(nbytes[i]) + RECORD_BYTES - 1) // RECORD_BYTES
        elif kind == COLLECTIVE and flags[i] & UNEQUAL:
            if not 0 <= communicators[i] < sizes.size:
                return i
            n_data = (8 * sizes[communicators[i]] + RECORD_BYTES - 1) // RECORD_BYTES
        elif kind == LEFT_OUT:
            n_data = 1
        for offset in range(1, n_data + 1):
            if i + offset < kinds.size:
                is_data[i + offset] = True
        i += 1 + n_data
    return -1


@kernel
def trace_paths(arcs: Int32s, length: Ints) -> Bools:
    """Increase the ``length`` of each node to the length of the longest path that ends at it.

    The rows of ``arcs`` are sources, targets and lengths. Return which nodes are reached. Nodes
    that are on a cycle, or depend on a cycle, are not reached.
    """
    # (3, a), (n) -> (n)
    # Kahn's algorithm: a node's length is final after all its incoming arcs. The arcs that leave a
    # node form a linked list, which starts with `last_arc`.
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
