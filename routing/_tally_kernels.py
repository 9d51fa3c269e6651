"""Kernel of the pass over the messages: loads, hops, FIFOs and bounds together.

Letters in the comments: N nodes, D dimensions, T tasks, E edges, R runs, F injection FIFOs a node.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import bare_kernel, kernel, prefetch

from ._run_kernels import TASKS_AHEAD, begin_runs, by_block, note_codes, run_to
from .edges import Edges
from .route_kernels import BLUEGENE_Q, ROUND_ROBIN, Grid, goes_plus
from .runs import RunTable


class Constants(NamedTuple):
    """Numbers of the network."""

    fifo_rule: int
    fifos: int
    takes_any: int  # whether a node's FIFOs take from one queue
    injection: float  # seconds a byte at the fastest link
    memory: float  # seconds a byte at the memory bandwidth
    latency: float  # seconds a hop
    ties_open: int  # whether packets of an edge may leave side by side at a tie
    wire_unit: float


class Sums(NamedTuple):
    """The sums of the pass."""

    run: NDArray[np.int64]  # (R,) units of bytes with headers, or (0,)
    edges: NDArray[np.int64]  # (farthest + 1,) by hops
    fifo_length: NDArray[np.float64]  # (N * F,) messages
    injected: NDArray[np.float64]  # (N * F,) seconds
    received: NDArray[np.float64]  # (N,) bytes, by row
    one: NDArray[np.float64]  # (4,) by the places below


# Bytes times hops, bytes that leave their node, packets times hops, seconds of the slowest edge.
HOP_BYTES, OFF_NODE, PACKET_HOPS, SLOWEST = 0, 1, 2, 3


@kernel
def add_up(
    grid: Grid,
    table: RunTable,
    edges: Edges,
    constants: Constants,
    node: NDArray[np.int32],
    sums: Sums,
    there: NDArray[np.int32],
) -> None:
    """Add up every edge once."""
    ndim = grid.shape.size
    note_codes(table.code, node, edges.dst, there)
    target = np.empty(ndim, dtype=np.int64)
    source = np.empty(ndim, dtype=np.int64)
    start = np.empty(ndim, dtype=np.int64)
    turn = np.zeros(grid.coords.shape[0], dtype=np.int32)
    task = by_block(table.row, node, edges.first)
    has_runs = sums.run.size > 0
    for n in range(task.shape[0]):
        soon = task[min(n + TASKS_AHEAD, task.shape[0] - 1)]
        for e in range(soon[1], soon[2], 8):
            prefetch(there, e)
            prefetch(edges.n_messages, e)
            prefetch(edges.nbytes, e)
            prefetch(edges.wire_units, e)
            prefetch(edges.packets, e)
            prefetch(edges.ready, e)
        a = task[n, 0]
        begin_runs(table, a, start)
        for i in range(ndim):
            source[i] = (np.int64(table.code[a]) >> table.shift[i]) & table.mask[i]
        for e in range(task[n, 1], task[n, 2]):
            code = np.int64(there[e])
            row = np.int64(0)
            hops = np.int64(0)
            differing = np.int64(0)
            unwrapped = np.int64(0)
            only = np.int64(0)
            tied = False
            for i in range(ndim):
                k = grid.order[i]
                t = (code >> table.shift[i]) & table.mask[i]
                target[i] = t
                gap = abs(t - source[i])
                other = grid.shape[k] - gap
                short = min(gap, other) if grid.wrap[k] else gap
                tied |= (gap == other) & (grid.wrap[k] == 1)
                hops += short
                unwrapped += gap
                differing += np.int64(gap != 0)
                only = max(only, np.int64(gap != 0) * (ndim - i))
                if has_runs:
                    sums.run[run_to(table, i, start[i], row, t, code)] += edges.wire_units[e]
                row += t * table.stride[i]
            sums.edges[hops] += 1
            nbytes = edges.nbytes[e]
            sums.one[HOP_BYTES] += hops * nbytes
            if hops == 0:
                if edges.packets[e] > 0:
                    copied = edges.ready[e] + nbytes * constants.memory
                    sums.one[SLOWEST] = max(sums.one[SLOWEST], copied)
                continue
            sums.one[OFF_NODE] += nbytes
            sums.one[PACKET_HOPS] += hops * edges.packets[e]
            fifo = int(unwrapped % constants.fifos)
            if constants.fifo_rule == ROUND_ROBIN:
                fifo = int(turn[a])
                turn[a] = (turn[a] + 1) % constants.fifos
            elif differing == 1 or constants.fifo_rule != BLUEGENE_Q:
                fifo = _fifo_along(grid, table, source, target, ndim - int(only), int(code))
                fifo %= constants.fifos
            queue = a * constants.fifos + fifo
            sums.fifo_length[queue] += edges.n_messages[e]
            if edges.packets[e] == 0:
                continue
            wire = edges.wire_units[e] * constants.wire_unit
            seconds = wire * constants.injection
            if constants.takes_any:
                sums.injected[a * constants.fifos] += seconds / constants.fifos
                if constants.ties_open and tied:
                    seconds /= edges.packets[e]
            else:
                sums.injected[queue] += seconds
            sums.received[row] += wire
            alone = edges.ready[e] + (hops * constants.latency + seconds)
            sums.one[SLOWEST] = max(sums.one[SLOWEST], alone)


@bare_kernel
def _fifo_along(
    grid: Grid,
    table: RunTable,
    source: NDArray[np.int64],
    target: NDArray[np.int64],
    i: int,
    code: int,
) -> int:
    """Return the FIFO of a route's direction along its dimension ``i``; minus before plus."""
    k = grid.order[i]
    others = ((code >> table.shift[-1]) ^ target[i]) & 1
    size, wrap = grid.shape[k], grid.wrap[k] == 1
    plus = goes_plus(source[i], target[i], size, wrap, grid.tie, others * grid.tie.with_others)
    return int(2 * k + np.int64(plus))
