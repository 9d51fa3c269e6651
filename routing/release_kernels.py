"""Kernels for the release bound: release times of messages at FIFOs, and busy times of links.

Letters in the comments: D dimensions, T tasks, E edges, F injection FIFOs of all nodes, Q queued
edges, C remote edges, L links, R runs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import kernel
from toruscast._llvm import prefetch
from toruscast.typing import Bools, Floats, Int32s, Ints, UInt64s

from ._load_kernels import line_index, run_index
from .messages import Queue
from .route_kernels import KEY_BITS, SMALLEST_FLOAT, Grid, HopsAndFifos, make_key, write_route
from .tables import RunTable

# Messages may enter their FIFO in any order if their times differ by less than this factor, because
# the simulator's clock rounds software times to whole ticks.
_TIE_TOLERANCE = 1 + 1e-3
# Edges between a prefetch and its use.
_PREFETCH_DISTANCE = 8
# Fields of a FIFO, padded to four numbers: the time until which messages count as ready together,
# the release of the first of these messages, and the time when the FIFO is free.
READY_UNTIL, FIRST, FREE = np.uint64(0), np.uint64(1), np.uint64(2)
FIFO_FIELDS = 4
# Messages are processed in blocks, with one loop for each step. The loops have no data-dependent
# branches, because mispredictions would take more than half of the time.
_BLOCK = 512
# Fields of a link: start of its busy time, seconds of work, and seconds per byte.
BUSY_SINCE, WORK, SECONDS_PER_BYTE = 0, 1, 2


class RemoteEdges(NamedTuple):
    """Edges between different nodes, with the earliest time at which each leaves its FIFO."""

    src: Int32s  # (C,) nodes
    dst: Int32s  # (C,)
    release: Floats  # (C,) seconds
    wire: Floats  # (C,) bytes


class InjectionConstants(NamedTuple):
    """Constants of the injection FIFOs and of the network."""

    fifos: int  # of a node
    in_turn: bool  # whether a FIFO sends its messages one after the other
    seconds_per_byte: float  # seconds per byte at the fastest link
    seconds_per_hop: float  # seconds per hop


@kernel
def release_from_fifos(
    queue: Queue,
    injection: InjectionConstants,
    routes: HopsAndFifos,
    node: Int32s,
    remote: RemoteEdges,
    state: Floats,
) -> tuple[int, float, float, float]:
    """Write the remote edges with their earliest release. (Q,) (E,) (T,) -> (C,).

    Return their number, the first and the last release, and the last end without contention.
    Messages that are ready together may be sent in any order, so each of them counts as the first.
    ``state``, (F * 4,), has the fields of each FIFO. They are prefetched, because FIFOs are far
    apart in memory.
    """
    fifo_state = np.empty(_BLOCK + 1, dtype=np.int64)
    hops = np.empty(_BLOCK + 1, dtype=np.int64)
    first_release, last_release, last_end = np.inf, 0.0, 0.0
    n = 0
    for start in range(0, queue.src.size, _BLOCK):
        begin = n
        for q in range(start, min(start + _BLOCK, queue.src.size)):
            e = np.uint64(queue.edge[q])
            a, b = node[np.uint64(queue.src[q])], node[np.uint64(queue.dst[q])]
            f = (np.int64(a) * injection.fifos + routes.fifo[e]) * FIFO_FIELDS
            hops[n - begin] = routes.hops[e]
            fifo_state[n - begin] = f
            remote.src[n] = a
            remote.dst[n] = b
            remote.release[n] = queue.ready[q]
            remote.wire[n] = queue.wire[q]
            if injection.in_turn:
                prefetch(state, max(f, 0))
            n += int(a != b)
        for c in range(begin, n):
            release = remote.release[c]
            seconds = remote.wire[c] * injection.seconds_per_byte
            if injection.in_turn:
                f = np.uint64(fifo_state[c - begin])
                ready_until, first, free = state[f + READY_UNTIL], state[f + FIRST], state[f + FREE]
                is_later = release > ready_until
                release_time = release if release > free else free
                release_time = release_time if is_later else first
                state[f + READY_UNTIL] = release * _TIE_TOLERANCE if is_later else ready_until
                state[f + FIRST] = release_time
                state[f + FREE] = (free if free > release_time else release_time) + seconds
                release = release_time
                remote.release[c] = release
            first_release = release if release < first_release else first_release
            last_release = release if release > last_release else last_release
            end = release + seconds + hops[c - begin] * injection.seconds_per_hop
            last_end = end if end > last_end else last_end
    return n, first_release, last_release, last_end


@kernel
def add_released_edges(
    table: RunTable, remote: RemoteEdges, until: float, units_per_byte: float, run: Ints
) -> None:
    """Add the edges that are released by the time ``until`` to their runs. (C,) -> (R,)."""
    for e in range(remote.src.size):
        if remote.release[e] > until:
            continue
        units = np.int64(np.rint(remote.wire[e] * units_per_byte))
        dst_code = np.int64(table.code[remote.dst[e]])
        for i in range(table.base.size):
            run[run_index(table, i, remote.src[e], dst_code)] += units


@kernel
def flag_runs(grid: Grid, table: RunTable, is_hot: Bools, flag: Bools) -> None:
    """Flag the runs with a hot link, in both directions. (L,) -> (R,)."""
    ndim = grid.shape.size
    for i in range(ndim):
        k = grid.order[i]
        size = grid.shape[k]
        reach = size // 2 if grid.wrap[k] else size - 1
        for node in range(grid.coords.shape[0]):
            first = line_index(table, i, node)
            for sign in range(2):
                current = np.int64(node)
                target = np.int64(grid.coords[node, k])
                step = 1 - 2 * sign
                hot = False
                for _ in range(reach):
                    hot |= is_hot[current * 2 * ndim + 2 * k + sign]
                    target += step
                    current += step * grid.stride[k]
                    if target == size or target < 0:
                        if not grid.wrap[k]:
                            break
                        target -= step * size
                        current -= step * size * grid.stride[k]
                    for parity in range(table.parities):
                        flag[first + parity * table.plane + (target << table.shift[i])] |= hot


@kernel
def select_flagged_edges(
    table: RunTable,
    flag: NDArray[np.uint8],
    remote: RemoteEdges,
    release_range: tuple[float, float],
    key: UInt64s,
) -> int:
    """Write sort keys of the edges with a flagged run, and return their number.

    (R / 8,) (C,) -> (C,). Later releases have smaller keys. Without flags, all edges are selected.
    A byte of ``flag`` has the flags of eight runs, so the flags of a large torus fit into the
    cache.
    """
    first, last = release_range
    spread = max(last - first, SMALLEST_FLOAT)
    ndim = table.base.size * np.int64(flag.size > 0)
    n = 0
    for e in range(remote.src.size):
        dst_code = np.int64(table.code[remote.dst[e]])
        is_flagged = np.uint8(flag.size == 0)
        for i in range(ndim):
            run = run_index(table, i, remote.src[e], dst_code)
            is_flagged |= flag[run >> np.uint64(3)] >> (run & np.uint64(7))
        # Write the key in any case, because a branch would be mispredicted.
        key[n] = make_key(last - remote.release[e], spread, e)
        n += int(is_flagged & 1)
    return n


@kernel
def last_busy_time(
    grid: Grid,
    first: Ints,
    links: Ints,
    remote: RemoteEdges,
    latest_first: UInt64s,
    latency: float,
    state: Floats,
) -> float:
    """Return a lower bound of the time until which some link is busy. (C,) -> ().

    The messages that reach a link after a time t keep it busy at least until t plus their work. The
    bound is the maximum over all links and all t. Messages are visited from the last to the first:
    ``latest_first`` has the sorted keys of `select_flagged_edges`. ``state``, (L, 4), has the
    fields of each link. If packets may choose at ties, half of a message takes each direction.
    ``first``, (C + 1,), and ``links`` list the routes of a twisted torus, and are empty for other
    tori.
    """
    halves = 1 + grid.tie.is_open
    is_listed = first.size > 0
    route = links if is_listed else np.empty(sum(grid.shape), dtype=np.int64)
    last_end = 0.0
    for i in range(latest_first.size):
        e = np.int64(latest_first[i] & np.uint64(2**KEY_BITS - 1))
        next_key = latest_first[min(i + _PREFETCH_DISTANCE, latest_first.size - 1)]
        next_edge = np.int64(next_key & np.uint64(2**KEY_BITS - 1))
        prefetch(remote.src, next_edge)
        prefetch(remote.dst, next_edge)
        prefetch(remote.release, next_edge)
        prefetch(remote.wire, next_edge)
        nbytes = remote.wire[e] / halves
        for half in range(halves):
            if is_listed:
                begin, end = first[e], first[e + 1]
            else:
                begin, end = 0, write_route(grid, remote.src[e], remote.dst[e], route, 0, half)
            time = remote.release[e]
            for hop in range(begin, end):
                index = np.uint64(route[hop])
                start = min(state[index, BUSY_SINCE], time)
                work = state[index, WORK] + nbytes * state[index, SECONDS_PER_BYTE]
                state[index, BUSY_SINCE] = start
                state[index, WORK] = work
                last_end = max(last_end, start + work)
                time += latency
    return last_end
