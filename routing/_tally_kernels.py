"""Kernel of the pass over the messages: loads, hops, FIFOs and bounds together.

Letters in the comments: N nodes, D dimensions, T tasks, E edges, R runs, F injection FIFOs a node.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import kernel, prefetch

from ._run_kernels import TASKS_AHEAD, begin_runs, by_block, fifo_of, note_codes, run_to
from .edges import Edges
from .route_kernels import ROUND_ROBIN, Grid
from .runs import TIED, UNWRAPPED, RunTable


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
    a_byte: float  # steps of the fixed point of bytes in one byte
    halves: int  # units of bytes in one such step


class Sums(NamedTuple):
    """The sums of the pass."""

    run: NDArray[np.int64]  # (R * 2,) units of bytes, without and with headers; or (0,)
    edges: NDArray[np.int64]  # (farthest + 1,) by hops
    fifo_length: NDArray[np.float64]  # (N * F,) messages
    injected: NDArray[np.float64]  # (N * F,) seconds
    received: NDArray[np.float64]  # (codes without parities,) bytes
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
    start, centre = np.empty((2, ndim), dtype=np.int64)
    turn = np.zeros(grid.coords.shape[0], dtype=np.int32)
    task = by_block(table, node, edges.first)
    has_runs = sums.run.size > 0
    hop_bytes = off_node = packet_hops = slowest = 0.0
    for n in range(task.shape[0]):
        soon = task[min(n + TASKS_AHEAD, task.shape[0] - 1)]
        for e in range(soon[1], soon[2], 8):
            prefetch(there, e)
            prefetch(edges.n_messages, e)
            prefetch(edges.nbytes, e)
            prefetch(edges.wire_units, e)
            prefetch(edges.packets, e)
            prefetch(edges.ready, e)
        a = int(task[n, 0])
        here = np.int64(table.code[a])
        begin_runs(table, here, start)
        for i in range(ndim):
            centre[i] = table.step_base[i] - ((here >> table.shift[i]) & table.mask[i])
        for e in range(task[n, 1], task[n, 2]):
            code = np.int64(there[e])
            step = np.int64(0)
            for i in range(ndim):
                t = (code >> table.shift[i]) & table.mask[i]
                step += table.step[np.uint64(centre[i] + t)]
            nbytes, units = edges.nbytes[e], edges.wire_units[e]
            if has_runs:
                plain = np.int64(np.rint(nbytes * constants.a_byte)) * constants.halves
                for i in range(ndim):
                    place = np.uint64(2) * run_to(table, i, start[i], code)
                    sums.run[place] += plain
                    sums.run[place + np.uint64(1)] += units
            hops = step & (2**UNWRAPPED - 1)
            sums.edges[hops] += 1
            hop_bytes += hops * nbytes
            if hops == 0:
                if edges.packets[e] > 0:
                    slowest = max(slowest, edges.ready[e] + nbytes * constants.memory)
                continue
            off_node += nbytes
            packet_hops += hops * edges.packets[e]
            if constants.fifo_rule == ROUND_ROBIN:
                fifo = int(turn[a])
                turn[a] = (turn[a] + 1) % constants.fifos
            else:
                fifo = fifo_of(grid, table, constants.fifo_rule, constants.fifos, step, here, code)
            queue = a * constants.fifos + fifo
            sums.fifo_length[queue] += edges.n_messages[e]
            if edges.packets[e] == 0:
                continue
            wire = units * constants.wire_unit
            seconds = wire * constants.injection
            if constants.takes_any:
                sums.injected[a * constants.fifos] += seconds / constants.fifos
                if constants.ties_open and step >> TIED != 0:
                    seconds /= edges.packets[e]
            else:
                sums.injected[queue] += seconds
            sums.received[code & (table.plane - 1)] += wire
            alone = edges.ready[e] + (hops * constants.latency + seconds)
            slowest = max(slowest, alone)
    sums.one[HOP_BYTES], sums.one[OFF_NODE] = hop_bytes, off_node
    sums.one[PACKET_HOPS], sums.one[SLOWEST] = packet_hops, slowest
