"""Kernels of link loads: along straight runs, of adaptive routes, and of a whole pass."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import bare_kernel, inner_kernel, kernel, trailing_zeros
from toruscast._llvm import prefetch

from .messages import HALF, Edges
from .route_kernels import Grid, Ways, goes_plus, is_halved
from .tables import OffsetTable, RunTable

BLOCK_NODES = 1024
TASKS_AHEAD = 6


@kernel
def add_to_runs(
    table: RunTable,
    dst: NDArray[np.int32],
    first: NDArray[np.int64],
    node: NDArray[np.int32],
    weight: NDArray[np.int64],
    run: NDArray[np.int64],
    there: NDArray[np.int32],
) -> None:
    """Add the weight of every edge to its runs. (E,) (T + 1,) (T,) (E,) -> (R,)."""
    note_codes(table.code, node, dst, there)
    start = np.empty(table.base.size, dtype=np.int64)
    task = by_block(table, node, first)
    for n in range(task.shape[0]):
        soon = task[min(n + TASKS_AHEAD, task.shape[0] - 1)]
        for e in range(soon[1], soon[2], 8):
            prefetch(there, e)
            prefetch(weight, e)
        begin_runs(table, np.int64(table.code[task[n, 0]]), start)
        for e in range(task[n, 1], task[n, 2]):
            code = np.int64(there[e])
            amount = weight[e]
            for i in range(start.size):
                run[run_to(table, i, start[i], code)] += amount


@bare_kernel
def begin_runs(table: RunTable, here: np.int64, start: NDArray[np.int64]) -> None:
    """Find where the runs of the routes out of a node with a code begin. -> (D,)."""
    code = here & (table.plane - 1)
    for i in range(start.size):
        start[i] = run_from(table, i, code)


@bare_kernel
def run_from(table: RunTable, i: int, code: np.int64) -> np.int64:
    """Return where the runs along a dimension begin, for a source's code without its parity."""
    s = (code >> table.shift[i]) & table.mask[i]
    place: np.int64 = table.base[i] + s * table.parities * table.plane + (code & ~table.upto[i])
    return place


@bare_kernel
def runs_of(table: RunTable, i: int, node: int) -> np.int64:
    """Return where the runs along a dimension from a node on begin: earlier ones are behind it."""
    code = np.int64(table.code[node]) & (table.plane - 1)
    s = (code >> table.shift[i]) & table.mask[i]
    place: np.int64 = run_from(table, i, code) + (code & table.upto[i]) - (s << table.shift[i])
    return place


@bare_kernel
def run_to(table: RunTable, i: int, start: np.int64, code: np.int64) -> np.uint64:
    """Return the place of the run towards a code."""
    place = start + (code & table.upto[i])
    if table.parities == 2:
        place += (((code >> table.shift[-1]) ^ (code >> table.shift[i])) & 1) * table.plane
    return np.uint64(place)


@inner_kernel
def note_codes(
    code: NDArray[np.int32],
    node: NDArray[np.int32],
    dst: NDArray[np.int32],
    there: NDArray[np.int32],
) -> None:
    """Note the code of every edge's destination. (N,) (T,) (E,) -> (E,)."""
    for e in range(dst.size):
        there[e] = code[node[dst[e]]]


@inner_kernel
def by_block(
    table: RunTable, node: NDArray[np.int32], first: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Order tasks by the blocks of codes of their nodes. (T,) (T + 1,) -> (T, 3).

    Each has its node, its first edge and the one after its last: looked up by task, they would be
    far from each other, and every look would wait for memory.
    """
    place = np.zeros(table.plane // BLOCK_NODES + 2, dtype=np.int64)
    for t in range(node.size):
        place[(table.code[node[t]] & (table.plane - 1)) // BLOCK_NODES + 1] += 1
    for block in range(place.size - 1):
        place[block + 1] += place[block]
    task = np.empty((node.size, 3), dtype=np.int64)
    for t in range(node.size):
        block = (table.code[node[t]] & (table.plane - 1)) // BLOCK_NODES
        n = place[block]
        task[n, 0] = node[t]
        task[n, 1] = first[t]
        task[n, 2] = first[t + 1]
        place[block] = n + 1
    return task


@kernel
def spread_runs(
    grid: Grid, table: RunTable, run: NDArray[np.int64], load: NDArray[np.int64]
) -> None:
    """Add every run to its links. (R * C,) -> (C, L)."""
    ndim = grid.shape.size
    ports = 2 * ndim
    parities = table.parities
    columns = load.shape[0]
    for i in range(ndim):
        k = grid.order[i]
        size = grid.shape[k]
        stride = grid.stride[k]
        wrap = grid.wrap[k] == 1
        # The line is laid out twice, so that a run begins and ends once, whether it wraps or not.
        plus = np.zeros(2 * size + 1, dtype=np.int64)
        minus = np.zeros(2 * size + 1, dtype=np.int64)
        for start in range(grid.coords.shape[0]):
            if grid.coords[start, k] != 0:
                continue
            code = np.int64(table.code[start]) & (table.plane - 1)
            for column in range(columns):
                plus[:] = 0
                minus[:] = 0
                for place in range(size * parities):
                    s, parity = place // parities, place % parities
                    first = table.base[i] + place * table.plane + code
                    for t in range(size):
                        w = run[(first + (t << table.shift[i])) * columns + column]
                        if w == 0 or s == t:
                            continue
                        up = w if goes_plus(s, t, size, wrap, grid.tie, parity) else np.int64(0)
                        if is_halved(s, t, size, wrap, grid.tie):
                            up = w - w // 2
                        plus[s] += up
                        plus[t if t > s else t + size] -= up
                        # In minus direction the line is read from its far end.
                        minus[size - 1 - s] += w - up
                        minus[size - 1 - t if t < s else 2 * size - 1 - t] -= w - up
                upward = np.int64(0)
                downward = np.int64(0)
                for c in range(2 * size):
                    upward += plus[c]
                    downward += minus[c]
                    at = c % size
                    load[column, (start + at * stride) * ports + 2 * k] += upward
                    load[column, (start + (size - 1 - at) * stride) * ports + 2 * k + 1] += downward


@kernel
def sum_over_runs(
    grid: Grid,
    table: RunTable,
    load: NDArray[np.float64],
    along: NDArray[np.float64],
) -> None:
    """Find the sum and maximum of the loads along every run. (L,) -> (R, 2)."""
    ndim = grid.shape.size
    parities = table.parities
    for i in range(ndim):
        k = grid.order[i]
        size = grid.shape[k]
        wrap = grid.wrap[k] == 1
        for place in range(grid.coords.shape[0] * parities):
            node, parity = place // parities, place % parities
            s = int(grid.coords[node, k])
            first = runs_of(table, i, node) + parity * table.plane
            for sign in range(2):
                step = 1 - 2 * sign
                here = node
                t = s
                on_run = 0.0
                highest = 0.0
                for _ in range(size - 1):
                    value = load[here * 2 * ndim + 2 * k + sign]
                    t += step
                    here += step * grid.stride[k]
                    if t == size or t < 0:
                        t -= step * size
                        here -= step * size * grid.stride[k]
                    if goes_plus(s, t, size, wrap, grid.tie, parity) != (sign == 0):
                        break
                    on_run += value
                    highest = max(highest, value)
                    along[first + (t << table.shift[i]), 0] = on_run
                    along[first + (t << table.shift[i]), 1] = highest


@kernel
def sum_over_routes(
    table: RunTable,
    dst: NDArray[np.int32],
    first: NDArray[np.int64],
    node: NDArray[np.int32],
    along: NDArray[np.float64],
    there: NDArray[np.int32],
) -> tuple[float, float, float]:
    """Find the largest sum along a route, the sum of sums and that of maxima.

    (E,) (T + 1,) (T,) (R, 2) -> (), (), (). Codes of destinations are noted in ``there``, (E,).
    """
    note_codes(table.code, node, dst, there)
    largest, total, most = 0.0, 0.0, 0.0
    start = np.empty(table.base.size, dtype=np.int64)
    task = by_block(table, node, first)
    for n in range(task.shape[0]):
        soon = task[min(n + TASKS_AHEAD, task.shape[0] - 1)]
        for e in range(soon[1], soon[2], 16):
            prefetch(there, e)
        begin_runs(table, np.int64(table.code[task[n, 0]]), start)
        for e in range(task[n, 1], task[n, 2]):
            code = np.int64(there[e])
            on_route = 0.0
            highest = 0.0
            for i in range(start.size):
                place = run_to(table, i, start[i], code)
                on_route += along[place, 0]
                highest = max(highest, along[place, 1])
            largest = max(largest, on_route)
            total += on_route
            most += highest
    return largest, total, most


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
    one: NDArray[np.float64]  # (3,) by the places below


# Bytes times hops, bytes that leave their node, seconds of the slowest edge.
HOP_BYTES, OFF_NODE, SLOWEST = range(3)


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
    hop_bytes = off_node = slowest = 0.0
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
    sums.one[HOP_BYTES], sums.one[OFF_NODE], sums.one[SLOWEST] = hop_bytes, off_node, slowest


@kernel
def merge_pairs(
    n_nodes: int,
    dst: NDArray[np.integer],
    first: NDArray[np.int64],
    node: NDArray[np.integer],
    by_node: NDArray[np.int64],
    weight: NDArray[np.float64],
    here: NDArray[np.int32],
    there: NDArray[np.int32],
    merged: NDArray[np.float64],
) -> int:
    """Add up the weights between each two nodes; return how many pairs there are.

    (E,) (T + 1,) (T,) (T,) (E,) -> (E,) (E,) (E,), of which so many are filled. ``by_node``
    lists the tasks ordered by node.
    """
    place = np.full(n_nodes, -1, dtype=np.int64)
    count = 0
    at = 0
    while at < by_node.size:
        start = node[by_node[at]]
        begin = count
        while at < by_node.size and node[by_node[at]] == start:
            task = by_node[at]
            for e in range(first[task], first[task + 1]):
                end = node[dst[e]]
                if place[end] < 0:
                    place[end] = count
                    here[count], there[count], merged[count] = start, end, 0.0
                    count += 1
                merged[place[end]] += weight[e]
            at += 1
        for k in range(begin, count):
            place[there[k]] = -1
    return count


@kernel
def widen_reach(
    grid: Grid,
    start: NDArray[np.integer],
    end: NDArray[np.integer],
    minus: NDArray[np.int64],
    plus: NDArray[np.int64],
) -> None:
    """Widen the most hops each way to those of every edge. (E,) (E,) -> (D,) (D,)."""
    for e in range(start.size):
        for k in range(minus.size):
            gap = _gap(grid, start[e], end[e], k)
            plus[k] = max(plus[k], gap)
            # A tie may also be crossed in minus direction.
            tied = grid.wrap[k] and 2 * gap == grid.shape[k]
            minus[k] = max(minus[k], gap - 1 if tied else -gap)


@kernel
def add_adaptive_loads(
    grid: Grid,
    table: OffsetTable,
    start: NDArray[np.integer],
    end: NDArray[np.integer],
    by_end: NDArray[np.int64],
    weight: NDArray[np.float64],
    load: NDArray[np.float64],
) -> None:
    """Spread every edge evenly over its minimal routes. (E,) (E,) (E,) (E,) -> (N * 2 * D,).

    The share of the remaining minimal routes that begins along a dimension equals the share of the
    remaining hops along it. So all traffic to one node can be moved together, wherever it comes
    from, in at most N * D steps. Edge by edge, an all-to-all of 65,536 tasks takes a hundred times
    as long.

    ``by_end`` lists the edges ordered by destination.
    """
    ndim = grid.shape.size
    ports = 2 * ndim
    last = table.distance.size - 1
    flow = np.zeros(last + 1)
    # One bit for each offset with traffic; usually few of the offsets have any.
    filled = np.zeros((last >> 6) + 1, dtype=np.uint64)
    e = 0
    while e < by_end.size:
        target = end[by_end[e]]
        farthest = 0
        while e < by_end.size and end[by_end[e]] == target:
            edge = by_end[e]
            place = 0
            for k in range(ndim):
                gap = _gap(grid, start[edge], target, k)
                place += (gap + table.minus[k]) * table.stride[k]
            _put(table, place, weight[edge], flow, filled)
            farthest = max(farthest, table.distance[table.at[place]])
            e += 1
        # An offset passes traffic to later offsets, perhaps in the same word.
        for word in range(table.first[farthest] >> 6, filled.size):
            while filled[word] != 0:
                at = 64 * word + trailing_zeros(filled[word])
                filled[word] &= filled[word] - np.uint64(1)
                one_hop = flow[at] / max(table.distance[at], 1)
                flow[at] = 0
                place = int(table.place[at])
                node = 0
                for k in range(ndim):
                    c = np.int64(grid.coords[target, k]) - table.gap[at, k]
                    size = grid.shape[k]
                    node += (c + size * ((c < 0) - np.int64(c >= size))) * grid.stride[k]
                for k in range(ndim):
                    gap = int(table.gap[at, k])
                    if gap == 0:
                        continue
                    share = one_hop * abs(gap)
                    tied = grid.wrap[k] and 2 * gap == grid.shape[k]
                    if tied and not grid.tie.adaptive_fixed:
                        # A tie is as far the other way round, where a step leaves one hop less.
                        share /= 2
                        load[node * ports + 2 * k + 1] += share
                        _put(table, place + (1 - 2 * gap) * table.stride[k], share, flow, filled)
                    way = 1 if gap > 0 else -1
                    load[node * ports + 2 * k + (gap < 0)] += share
                    _put(table, place - way * table.stride[k], share, flow, filled)


@bare_kernel
def _gap(grid: Grid, start: int, end: int, k: int) -> int:
    """Return signed hops along one dimension; a tie counts as plus unless all ties go minus."""
    gap: int = np.int64(grid.coords[end, k]) - grid.coords[start, k]
    if grid.wrap[k]:
        size = grid.shape[k]
        gap += size * (gap < 0)
        odd = grid.tie.adaptive_fixed * (grid.coords[start, k] & 1)
        gap -= size * np.int64(2 * gap + (grid.tie.adaptive_minus | odd) > size)
    return gap


@bare_kernel
def _put(
    table: OffsetTable,
    place: int,
    amount: float,
    flow: NDArray[np.float64],
    filled: NDArray[np.uint64],
) -> None:
    """Add traffic at an offset."""
    at = np.int64(table.at[place])
    flow[at] += amount
    filled[at >> 6] |= np.uint64(1) << np.uint64(at & 63)
