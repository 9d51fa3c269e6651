"""Kernels for link loads from straight runs, for adaptive loads, and for totals over all edges.

A run is the straight part of a route along one dimension, and the code of a node has its
coordinates in bit fields (`RunTable`). Loads are counted in whole units of 2**k bytes. The units of
all edges are first added to their runs, and the units of each run are then added to its links.

Letters in the comments: N nodes, D dimensions, L links, T tasks, E edges, R runs, C columns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import bare_kernel, inner_kernel, kernel, trailing_zeros
from toruscast._llvm import prefetch
from toruscast.typing import Bools, Floats, Int32s, Ints, UInt64s

from .messages import HALF, Edges
from .route_kernels import Grid, HopsAndFifos, goes_plus, is_halved
from .tables import OffsetTable, RunTable

# Number of codes in a block of neighbouring nodes, and of tasks between a prefetch and its use.
# Prefetch loops advance by a cache line, that is, 8 numbers of 64 bits or 16 numbers of 32 bits.
BLOCK_NODES = 1024
TASKS_AHEAD = 6


@kernel
def add_to_runs(
    table: RunTable,
    dst: Int32s,
    first: Ints,
    node: Int32s,
    weight: Ints,
    run: Ints,
    dst_code: Int32s,
) -> None:
    """Add the units of every edge to the runs of its route. (E,) (T + 1,) (T,) (E,) -> (R,).

    Edges of task t are ``first[t]:first[t + 1]``. ``dst_code``, (E,), is scratch memory.
    """
    gather_dst_codes(table.code, node, dst, dst_code)
    task = sort_tasks_by_block(table, node, first)
    for n in range(task.shape[0]):
        ahead = task[min(n + TASKS_AHEAD, task.shape[0] - 1)]
        for e in range(ahead[1], ahead[2], 8):
            prefetch(dst_code, e)
            prefetch(weight, e)
        a = task[n, 0]
        for e in range(task[n, 1], task[n, 2]):
            code = np.int64(dst_code[e])
            units = weight[e]
            for i in range(table.base.size):
                run[run_index(table, i, a, code)] += units


@bare_kernel
def run_index(table: RunTable, i: int, src: int, dst_code: np.int64) -> np.uint64:
    """Return the index of the run along dimension ``i`` from a node towards a destination."""
    index = np.int64(table.start[np.uint64(src), i]) + (dst_code & table.upto[i])
    if table.parities == 2:
        index += (((dst_code >> table.shift[-1]) ^ (dst_code >> table.shift[i])) & 1) * table.plane
    return np.uint64(index)


@bare_kernel
def line_index(table: RunTable, i: int, node: int) -> np.int64:
    """Return the index of the run along dimension ``i`` from a node to coordinate 0."""
    # Mask of the lower fields, which belong to the dimensions before this one.
    before = (np.int64(1) << table.shift[i]) - 1
    index: np.int64 = np.int64(table.start[node, i]) + (np.int64(table.code[node]) & before)
    return index


@inner_kernel
def gather_dst_codes(code: Int32s, node: Int32s, dst: Int32s, dst_code: Int32s) -> None:
    """Write the code of every edge's destination. (N,) (T,) (E,) -> (E,)."""
    for e in range(dst.size):
        dst_code[e] = code[node[dst[e]]]


@inner_kernel
def sort_tasks_by_block(table: RunTable, node: Int32s, first: Ints) -> Ints:
    """List tasks by blocks of neighbouring nodes. (T,) (T + 1,) -> (T, 3).

    Each row has the node of a task, its first edge and the end of its edges. In task order, most
    reads of runs would miss the cache.
    """
    position = np.zeros(table.plane // BLOCK_NODES + 2, dtype=np.int64)
    for t in range(node.size):
        position[(table.code[node[t]] & (table.plane - 1)) // BLOCK_NODES + 1] += 1
    for block in range(position.size - 1):
        position[block + 1] += position[block]
    task = np.empty((node.size, 3), dtype=np.int64)
    for t in range(node.size):
        block = (table.code[node[t]] & (table.plane - 1)) // BLOCK_NODES
        n = position[block]
        task[n, 0] = node[t]
        task[n, 1] = first[t]
        task[n, 2] = first[t + 1]
        position[block] = n + 1
    return task


@kernel
def spread_runs(grid: Grid, table: RunTable, run: Ints, load: Ints) -> None:
    """Add the units of every run to its links. (R * C,) -> (C, L).

    On each line of nodes, a run adds its units at its first link and subtracts them after its last
    link. Cumulative sums along the line then give the loads of its links. An open tie sends half of
    the units in each direction.
    """
    ndim = grid.shape.size
    ports = 2 * ndim
    parities = table.parities
    columns = load.shape[0]
    for i in range(ndim):
        k = grid.order[i]
        size = grid.shape[k]
        stride = grid.stride[k]
        wrap = grid.wrap[k] == 1
        # Use two copies of the line, so that a run has one start and one end even if it wraps.
        plus = np.zeros(2 * size + 1, dtype=np.int64)
        minus = np.zeros(2 * size + 1, dtype=np.int64)
        for start in range(grid.coords.shape[0]):
            if grid.coords[start, k] != 0:
                continue
            code = np.int64(table.code[start]) & (table.plane - 1)
            for column in range(columns):
                plus[:] = 0
                minus[:] = 0
                for pair in range(size * parities):
                    s, parity = pair // parities, pair % parities
                    first = table.base[i] + pair * table.plane + code
                    for t in range(size):
                        units = run[(first + (t << table.shift[i])) * columns + column]
                        if units == 0 or s == t:
                            continue
                        up = units if goes_plus(s, t, size, wrap, grid.tie, parity) else np.int64(0)
                        if is_halved(s, t, size, wrap, grid.tie):
                            up = units - units // 2
                        plus[s] += up
                        plus[t if t > s else t + size] -= up
                        # The minus direction counts from the far end of the line.
                        minus[size - 1 - s] += units - up
                        minus[size - 1 - t if t < s else 2 * size - 1 - t] -= units - up
                upward = np.int64(0)
                downward = np.int64(0)
                for c in range(2 * size):
                    upward += plus[c]
                    downward += minus[c]
                    position = c % size
                    load[column, (start + position * stride) * ports + 2 * k] += upward
                    load[column, (start + (size - 1 - position) * stride) * ports + 2 * k + 1] += (
                        downward
                    )


@kernel
def sum_loads_over_runs(grid: Grid, table: RunTable, load: Floats, run_loads: Floats) -> None:
    """Compute the sum and maximum of the loads along every run. (L,) -> (R, 2).

    The runs from a node in one direction are visited in the order of their length. Each extends the
    previous one by a link.
    """
    ndim = grid.shape.size
    parities = table.parities
    for i in range(ndim):
        k = grid.order[i]
        size = grid.shape[k]
        wrap = grid.wrap[k] == 1
        for pair in range(grid.coords.shape[0] * parities):
            node, parity = pair // parities, pair % parities
            s = int(grid.coords[node, k])
            first = line_index(table, i, node) + parity * table.plane
            for sign in range(2):
                step = 1 - 2 * sign
                current = node
                target = s
                total = 0.0
                max_load = 0.0
                for _ in range(size - 1):
                    link_load = load[current * 2 * ndim + 2 * k + sign]
                    target += step
                    current += step * grid.stride[k]
                    if target == size or target < 0:
                        target -= step * size
                        current -= step * size * grid.stride[k]
                    if goes_plus(s, target, size, wrap, grid.tie, parity) != (sign == 0):
                        break
                    total += link_load
                    max_load = max(max_load, link_load)
                    run_loads[first + (target << table.shift[i]), 0] = total
                    run_loads[first + (target << table.shift[i]), 1] = max_load


@kernel
def sum_run_loads_over_routes(
    table: RunTable, dst: Int32s, first: Ints, node: Int32s, run_loads: Floats, dst_code: Int32s
) -> tuple[float, float, float]:
    """Sum the loads along each route; return the largest sum, the total, and the total of maxima.

    (E,) (T + 1,) (T,) (R, 2) -> (), (), (). ``dst_code``, (E,), is scratch memory.
    """
    gather_dst_codes(table.code, node, dst, dst_code)
    max_sum, total, sum_of_max = 0.0, 0.0, 0.0
    task = sort_tasks_by_block(table, node, first)
    for n in range(task.shape[0]):
        ahead = task[min(n + TASKS_AHEAD, task.shape[0] - 1)]
        for e in range(ahead[1], ahead[2], 16):
            prefetch(dst_code, e)
        a = task[n, 0]
        for e in range(task[n, 1], task[n, 2]):
            code = np.int64(dst_code[e])
            route_sum = 0.0
            route_max = 0.0
            for i in range(table.base.size):
                index = run_index(table, i, a, code)
                route_sum += run_loads[index, 0]
                route_max = max(route_max, run_loads[index, 1])
            max_sum = max(max_sum, route_sum)
            total += route_sum
            sum_of_max += route_max
    return max_sum, total, sum_of_max


class PassConstants(NamedTuple):
    """Constants of `sum_over_edges`."""

    fifos: int  # of a node
    shares_queue: int  # whether the FIFOs of a node share one queue
    injection: float  # seconds per byte at the fastest link
    memory: float  # seconds per byte at the memory bandwidth
    latency: float  # seconds per hop
    wire_unit: float  # bytes in a unit, headers included


class PassSums(NamedTuple):
    """Sums that `sum_over_edges` fills."""

    run: Ints  # (R * columns of `Edges.units`,), or (0,) if loads are not needed
    edges_by_hops: Ints  # (diameter + 1,) number of edges
    fifo: Floats  # (N * F, 2) messages, seconds
    received: Floats  # (codes without parities,) bytes


@kernel
def sum_over_edges(
    table: RunTable,
    edges: Edges,
    routes: HopsAndFifos,
    leaves_in_parallel: Bools,
    constants: PassConstants,
    node: Int32s,
    sums: PassSums,
    dst_code: Int32s,
) -> tuple[float, float, float]:
    """Add every edge to all sums in one pass.

    Return the hop-bytes, the bytes between nodes, and the seconds of the slowest edge without
    contention. ``leaves_in_parallel`` flags edges whose packets may leave from several FIFOs, (E,)
    or (0,).
    """
    gather_dst_codes(table.code, node, edges.dst, dst_code)
    task = sort_tasks_by_block(table, node, edges.first)
    ndim = table.base.size * np.int64(sums.run.size > 0)
    columns = edges.units.shape[1]
    hop_bytes = off_node = slowest = 0.0
    for n in range(task.shape[0]):
        ahead = task[min(n + TASKS_AHEAD, task.shape[0] - 1)]
        for e in range(ahead[1], ahead[2], 8):
            prefetch(dst_code, e)
            prefetch(edges.n_messages, e)
            prefetch(edges.nbytes, e)
            prefetch(edges.units, e * columns)
            prefetch(edges.packets, e)
            prefetch(edges.ready, e)
            prefetch(routes.hops, e)
            prefetch(routes.fifo, e)
        a, begin, end = task[n]
        for i in range(ndim):
            for e in range(begin, end):
                index = np.uint64(columns) * run_index(table, i, a, np.int64(dst_code[e]))
                sums.run[index] += edges.units[e, 0]
                if columns == 2:
                    sums.run[index + np.uint64(1)] += edges.units[e, 1]
        for e in range(begin, end):
            nbytes = edges.nbytes[e]
            hops = np.uint64(routes.hops[e])
            sums.edges_by_hops[hops] += 1
            if hops == 0:
                if edges.packets[e] > 0:
                    slowest = max(slowest, edges.ready[e] + nbytes * constants.memory)
                continue
            hop_bytes += hops * nbytes
            off_node += nbytes
            queue = np.uint64(a * constants.fifos + routes.fifo[e])
            sums.fifo[queue, 0] += edges.n_messages[e]
            if edges.packets[e] == 0:
                continue
            units = edges.units[e, 1] if columns == 2 else edges.units[e, 0] >> HALF
            wire = units * constants.wire_unit
            seconds = wire * constants.injection
            if constants.shares_queue:
                sums.fifo[a * constants.fifos, 1] += seconds / constants.fifos
                if leaves_in_parallel.size > 0 and leaves_in_parallel[e]:
                    seconds /= edges.packets[e]
            else:
                sums.fifo[queue, 1] += seconds
            sums.received[np.int64(dst_code[e]) & (table.plane - 1)] += wire
            uncontended = edges.ready[e] + (hops * constants.latency + seconds)
            slowest = max(slowest, uncontended)
    return hop_bytes, off_node, slowest


@kernel
def update_max_hops(
    grid: Grid, start: NDArray[np.integer], end: NDArray[np.integer], minus: Ints, plus: Ints
) -> None:
    """Raise the maximum hops in each direction to cover all edges. (E,) (E,) -> (D,) (D,)."""
    for e in range(start.size):
        for k in range(minus.size):
            hops = _signed_hops(grid, start[e], end[e], k)
            plus[k] = max(plus[k], hops)
            # Packets may also cross a tie in the minus direction.
            is_tie = grid.wrap[k] and 2 * hops == grid.shape[k]
            minus[k] = max(minus[k], hops - 1 if is_tie else -hops)


@kernel
def add_adaptive_loads(
    grid: Grid,
    table: OffsetTable,
    start: NDArray[np.integer],
    end: NDArray[np.integer],
    by_end: Ints,
    weight: Floats,
    load: Floats,
) -> None:
    """Split every edge evenly over its minimal routes. (E,) (E,) (E,) (E,) -> (N * 2 * D,).

    The share of minimal routes that continue along a dimension equals the dimension's share of the
    remaining hops. Therefore all traffic to one destination moves together, from the farthest
    offsets (signed hops to the destination) inwards, in at most N * D steps. This makes an
    all-to-all of 65,536 tasks a hundred times as fast. ``by_end`` lists the edges ordered by
    destination.
    """
    ndim = grid.shape.size
    ports = 2 * ndim
    last = table.distance.size - 1
    flow = np.zeros(last + 1)
    # One bit for each offset, set if it has traffic, because most offsets have none.
    filled = np.zeros((last >> 6) + 1, dtype=np.uint64)
    e = 0
    while e < by_end.size:
        dst = end[by_end[e]]
        max_distance = 0
        while e < by_end.size and end[by_end[e]] == dst:
            edge = by_end[e]
            cell = 0
            for k in range(ndim):
                gap = _signed_hops(grid, start[edge], dst, k)
                cell += (gap + table.minus[k]) * table.stride[k]
            _add_flow(table, cell, weight[edge], flow, filled)
            max_distance = max(max_distance, table.distance[table.position[cell]])
            e += 1
        # Traffic moves to later offsets, some of which may be in the same word.
        for word in range(table.first[max_distance] >> 6, filled.size):
            while filled[word] != 0:
                position = 64 * word + trailing_zeros(filled[word])
                filled[word] &= filled[word] - np.uint64(1)
                one_hop = flow[position] / max(table.distance[position], 1)
                flow[position] = 0
                cell = int(table.cell[position])
                node = 0
                for k in range(ndim):
                    c = np.int64(grid.coords[dst, k]) - table.gap[position, k]
                    size = grid.shape[k]
                    node += (c + size * ((c < 0) - np.int64(c >= size))) * grid.stride[k]
                for k in range(ndim):
                    gap = int(table.gap[position, k])
                    if gap == 0:
                        continue
                    share = one_hop * abs(gap)
                    is_tie = grid.wrap[k] and 2 * gap == grid.shape[k]
                    if is_tie and not grid.tie.adaptive_fixed:
                        # Half of a tie's traffic makes its next hop in the minus direction.
                        share /= 2
                        load[node * ports + 2 * k + 1] += share
                        _add_flow(
                            table, cell + (1 - 2 * gap) * table.stride[k], share, flow, filled
                        )
                    sign = 1 if gap > 0 else -1
                    load[node * ports + 2 * k + (gap < 0)] += share
                    _add_flow(table, cell - sign * table.stride[k], share, flow, filled)


@bare_kernel
def _signed_hops(grid: Grid, start: int, end: int, k: int) -> int:
    """Return the signed hops along one dimension; a tie counts as plus unless ties go minus."""
    gap: int = np.int64(grid.coords[end, k]) - grid.coords[start, k]
    if grid.wrap[k]:
        size = grid.shape[k]
        gap += size * (gap < 0)
        odd = grid.tie.adaptive_fixed * (grid.coords[start, k] & 1)
        gap -= size * np.int64(2 * gap + (grid.tie.adaptive_minus | odd) > size)
    return gap


@bare_kernel
def _add_flow(table: OffsetTable, cell: int, units: float, flow: Floats, filled: UInt64s) -> None:
    """Add traffic at an offset, and set its bit."""
    position = np.int64(table.position[cell])
    flow[position] += units
    filled[position >> 6] |= np.uint64(1) << np.uint64(position & 63)
