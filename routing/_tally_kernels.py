"""Kernel of the pass over the messages: loads, hops, FIFOs and bounds together.

Letters in the comments: N nodes, D dimensions, T tasks, E edges, R runs, F injection FIFOs a node.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import kernel
from toruscast._llvm import prefetch

from ._run_kernels import TASKS_AHEAD, by_block, note_codes, run_from, run_to
from .edges import HALF, Edges
from .route_kernels import Ways
from .runs import RunTable


class Constants(NamedTuple):
    """Numbers of the network."""

    fifos: int
    takes_any: int  # whether a node's FIFOs take from one queue
    injection: float  # seconds a byte at the fastest link
    memory: float  # seconds a byte at the memory bandwidth
    latency: float  # seconds a hop
    wire_unit: float


class Sums(NamedTuple):
    """The sums of the pass."""

    run: NDArray[np.int64]  # (R * columns of `Edges.units`,), or (0,)
    edges: NDArray[np.int64]  # (farthest + 1,) by hops
    fifo: NDArray[np.float64]  # (N * F, 2) messages, seconds
    received: NDArray[np.float64]  # (codes without parities,) bytes
    one: NDArray[np.float64]  # (4,) by the places below


# Bytes times hops, bytes that leave their node, packets times hops, seconds of the slowest edge.
HOP_BYTES, OFF_NODE, PACKET_HOPS, SLOWEST = 0, 1, 2, 3


@kernel
def add_up(
    table: RunTable,
    edges: Edges,
    ways: Ways,
    side_by_side: NDArray[np.bool_],
    constants: Constants,
    node: NDArray[np.int32],
    sums: Sums,
    there: NDArray[np.int32],
) -> None:
    """Add up every edge once.

    ``side_by_side`` tells which edges' packets may leave from several FIFOs, (E,), or none, (0,).
    """
    note_codes(table.code, node, edges.dst, there)
    task = by_block(table, node, edges.first)
    ndim = table.base.size * np.int64(sums.run.size > 0)
    columns = edges.units.shape[1]
    hop_bytes = off_node = packet_hops = slowest = 0.0
    for n in range(task.shape[0]):
        soon = task[min(n + TASKS_AHEAD, task.shape[0] - 1)]
        for e in range(soon[1], soon[2], 8):
            prefetch(there, e)
            prefetch(edges.n_messages, e)
            prefetch(edges.nbytes, e)
            prefetch(edges.units, e * columns)
            prefetch(edges.packets, e)
            prefetch(edges.ready, e)
            prefetch(ways.hops, e)
            prefetch(ways.fifo, e)
        a, begin, end = task[n]
        here = np.int64(table.code[a]) & (table.plane - 1)
        for i in range(ndim):
            start = run_from(table, i, here)
            for e in range(begin, end):
                place = np.uint64(columns) * run_to(table, i, start, np.int64(there[e]))
                sums.run[place] += edges.units[e, 0]
                if columns == 2:
                    sums.run[place + np.uint64(1)] += edges.units[e, 1]
        for e in range(begin, end):
            nbytes = edges.nbytes[e]
            hops = np.uint64(ways.hops[e])
            sums.edges[hops] += 1
            if hops == 0:
                if edges.packets[e] > 0:
                    slowest = max(slowest, edges.ready[e] + nbytes * constants.memory)
                continue
            hop_bytes += hops * nbytes
            off_node += nbytes
            packet_hops += hops * edges.packets[e]
            queue = np.uint64(a * constants.fifos + ways.fifo[e])
            sums.fifo[queue, 0] += edges.n_messages[e]
            if edges.packets[e] == 0:
                continue
            units = edges.units[e, 1] if columns == 2 else edges.units[e, 0] >> HALF
            wire = units * constants.wire_unit
            seconds = wire * constants.injection
            if constants.takes_any:
                sums.fifo[a * constants.fifos, 1] += seconds / constants.fifos
                if side_by_side.size > 0 and side_by_side[e]:
                    seconds /= edges.packets[e]
            else:
                sums.fifo[queue, 1] += seconds
            sums.received[np.int64(there[e]) & (table.plane - 1)] += wire
            alone = edges.ready[e] + (hops * constants.latency + seconds)
            slowest = max(slowest, alone)
    sums.one[HOP_BYTES], sums.one[OFF_NODE] = hop_bytes, off_node
    sums.one[PACKET_HOPS], sums.one[SLOWEST] = packet_hops, slowest
