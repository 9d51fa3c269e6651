"""Kernels of the release bound: when messages leave their FIFOs, and how long links are busy then.

Letters in the comments: D dimensions, T tasks, E edges, F injection FIFOs of all nodes, C edges
that cross the network, L links, R runs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import bare_kernel, kernel
from toruscast._llvm import prefetch

from ._load_kernels import run_from, run_to, runs_of
from .messages import Queue
from .route_kernels import KEY_BITS, LEAST, Grid, Ways, key_of, other_coordinates
from .tables import RunTable

# Messages whose times differ by less than this part may enter their FIFO in any order, because the
# simulator's clock rounds software times to whole ticks.
_TIED = 1 + 1e-3
# Links of a run are listed four at a time, because most runs are not longer and a processor
# mispredicts the end of a loop over single links.
_TOGETHER = 4
# Edges that are prefetched before their turn.
_AHEAD = 8
# State of a FIFO: until when messages count as ready together, when the first of them leaves, and
# when it is free.
TOGETHER, FIRST, FREE = np.uint64(0), np.uint64(1), np.uint64(2)
STATES = 4
# Messages that take each step together. Steps have no branches that depend on a message, because a
# processor mispredicts them, which took more than half of the time.
_AT_ONCE = 512
# State of a link: the moment, the seconds of work, and the seconds of a byte.
SINCE, WORK, A_BYTE = 0, 1, 2


class Crossing(NamedTuple):
    """The edges that cross the network."""

    src: NDArray[np.int32]  # (C,) nodes
    dst: NDArray[np.int32]  # (C,)
    release: NDArray[np.float64]  # (C,) seconds
    wire: NDArray[np.float64]  # (C,) bytes


class DimensionLines(NamedTuple):
    """Consecutive links along each dimension, on the line through node 0."""

    link: NDArray[np.int32]  # each line twice and a little, plus and then minus
    plus: NDArray[np.int64]  # (D,) where the way plus from the first coordinate begins
    minus: NDArray[np.int64]  # (D,) where the way minus from the last coordinate begins


class Feeding(NamedTuple):
    """Constants of the injection FIFOs and of the way after them."""

    fifos: int  # of a node
    in_turn: bool  # whether messages wait for each other
    byte: float  # seconds a byte at the fastest link
    latency: float  # seconds a hop


@kernel
def release_from_fifos(
    queue: Queue,
    feeding: Feeding,
    ways: Ways,
    node: NDArray[np.int32],
    crossing: Crossing,
    state: NDArray[np.float64],
) -> tuple[int, float, float, float]:
    """List the edges that cross the network, with their earliest release. (Q,) (E,) (T,) -> (C,).

    Return how many, the first release, the last, and until when one is under way. Messages that are
    ready together all count as the first to leave a FIFO. ``state`` has the numbers of each FIFO
    side by side, (F * 4,): they are asked for some messages ahead, because they lie far apart.
    """
    place = np.empty(_AT_ONCE + 1, dtype=np.int64)
    hops = np.empty(_AT_ONCE + 1, dtype=np.int64)
    earliest, latest, alone = np.inf, 0.0, 0.0
    n = 0
    for start in range(0, queue.src.size, _AT_ONCE):
        begin = n
        for q in range(start, min(start + _AT_ONCE, queue.src.size)):
            e = np.uint64(queue.edge[q])
            a, b = node[np.uint64(queue.src[q])], node[np.uint64(queue.dst[q])]
            f = (np.int64(a) * feeding.fifos + ways.fifo[e]) * STATES
            hops[n - begin] = ways.hops[e]
            place[n - begin] = f
            crossing.src[n] = a
            crossing.dst[n] = b
            crossing.release[n] = queue.ready[q]
            crossing.wire[n] = queue.wire[q]
            if feeding.in_turn:
                prefetch(state, max(f, 0))
            n += int(a != b)
        for c in range(begin, n):
            release = crossing.release[c]
            seconds = crossing.wire[c] * feeding.byte
            if feeding.in_turn:
                f = np.uint64(place[c - begin])
                together, first, free = state[f + TOGETHER], state[f + FIRST], state[f + FREE]
                is_later = release > together
                then = release if release > free else free
                then = then if is_later else first
                state[f + TOGETHER] = release * _TIED if is_later else together
                state[f + FIRST] = then
                state[f + FREE] = (free if free > then else then) + seconds
                release = then
                crossing.release[c] = release
            earliest = release if release < earliest else earliest
            latest = release if release > latest else latest
            end = release + seconds + hops[c - begin] * feeding.latency
            alone = end if end > alone else alone
    return n, earliest, latest, alone


@kernel
def add_early(
    table: RunTable, crossing: Crossing, until: float, a_byte: float, run: NDArray[np.int64]
) -> None:
    """Add the units of all edges that are released by a second to their runs. (C,) -> (R,)."""
    for e in range(crossing.src.size):
        if crossing.release[e] > until:
            continue
        units = np.int64(np.rint(crossing.wire[e] * a_byte))
        here = np.int64(table.code[crossing.src[e]]) & (table.plane - 1)
        there = np.int64(table.code[crossing.dst[e]])
        for i in range(table.base.size):
            run[run_to(table, i, run_from(table, i, here), there)] += units


@kernel
def flag_runs(
    grid: Grid, table: RunTable, is_hot: NDArray[np.bool_], flag: NDArray[np.bool_]
) -> None:
    """Flag the runs with a hot link, whichever way they go. (L,) -> (R,)."""
    ndim = grid.shape.size
    for i in range(ndim):
        k = grid.order[i]
        size = grid.shape[k]
        reach = size // 2 if grid.wrap[k] else size - 1
        for node in range(grid.coords.shape[0]):
            first = runs_of(table, i, node)
            for sign in range(2):
                here = np.int64(node)
                t = np.int64(grid.coords[node, k])
                step = 1 - 2 * sign
                hot = False
                for _ in range(reach):
                    hot |= is_hot[here * 2 * ndim + 2 * k + sign]
                    t += step
                    here += step * grid.stride[k]
                    if t == size or t < 0:
                        if not grid.wrap[k]:
                            break
                        t -= step * size
                        here -= step * size * grid.stride[k]
                    for parity in range(table.parities):
                        flag[first + parity * table.plane + (t << table.shift[i])] |= hot


@kernel
def choose(
    table: RunTable,
    flag: NDArray[np.uint8],
    crossing: Crossing,
    ends: tuple[float, float],
    key: NDArray[np.uint64],
) -> int:
    """List keys of the edges with a flagged run, the last release first; (R / 8,) (C,) -> (C,).

    Return how many. ``ends`` are the first and the last release. Without flags all edges are taken.
    A byte has the flags of eight runs, so that those of a large torus fit the cache.
    """
    first, last = ends
    spread = max(last - first, LEAST)
    n = 0
    if flag.size == 0:
        for e in range(crossing.src.size):
            key[e] = key_of(last - crossing.release[e], spread, e)
        return int(crossing.src.size)
    for e in range(crossing.src.size):
        here = np.int64(table.code[crossing.src[e]]) & (table.plane - 1)
        there = np.int64(table.code[crossing.dst[e]])
        hot = np.uint8(0)
        for i in range(table.base.size):
            run = run_to(table, i, run_from(table, i, here), there)
            hot |= flag[run >> np.uint64(3)] >> (run & np.uint64(7))
        # Written whether it stays or not: no branch that a processor mispredicts.
        key[n] = key_of(last - crossing.release[e], spread, e)
        n += int(hot & 1)
    return n


@kernel
def latest_link(
    grid: Grid,
    lines: DimensionLines,
    crossing: Crossing,
    latest_first: NDArray[np.uint64],
    latency: float,
    state: NDArray[np.float64],
) -> float:
    """Return a second until which some link is busy. (C,) -> ().

    All messages that reach a link after some moment keep it busy at least until that moment plus
    their time. From the last message to the first, ``state`` keeps the moment and this time, ``(L,
    4)``. Where ties are open, half of a message goes each way.
    """
    ndim = grid.shape.size
    sides = 1 + grid.tie.is_open
    by_parity, by_target = grid.tie.by_parity, grid.tie.by_target
    link = np.empty(sum(grid.shape) + _TOGETHER * (ndim + 1), dtype=np.int32)
    latest = 0.0
    for place in range(latest_first.size):
        e = np.int64(latest_first[place] & np.uint64(2**KEY_BITS - 1))
        ahead = latest_first[min(place + _AHEAD, latest_first.size - 1)]
        soon = np.int64(ahead & np.uint64(2**KEY_BITS - 1))
        prefetch(crossing.src, soon)
        prefetch(crossing.dst, soon)
        prefetch(crossing.release, soon)
        prefetch(crossing.wire, soon)
        a, b = np.int64(crossing.src[e]), np.int64(crossing.dst[e])
        wire = crossing.wire[e] / sides
        for side in range(sides):
            here = a
            n = 0
            for i in range(ndim):
                k = grid.order[i]
                s = np.int64(grid.coords[a, k])
                t = np.int64(grid.coords[b, k])
                size = grid.shape[k]
                ring = grid.wrap[k]
                gap = t - s
                back = np.int64(gap < 0)
                forward = gap + size * (back & ring)
                odd = (s + other_coordinates(grid, int(b), k)) & by_parity
                # At an open tie the other half goes the other way.
                odd |= (by_target & np.int64(t == 0)) | side
                minus = (np.int64(2 * forward + odd > size) & ring) | (back & (1 - ring))
                steps = forward + minus * (size * ring - 2 * forward)
                first = (
                    lines.plus[k] + s + minus * (lines.minus[k] - lines.plus[k] + size - 1 - 2 * s)
                )
                line = int(here - s * grid.stride[k]) * 2 * ndim
                _list_four(link, n, lines.link, first, line)
                for done in range(1, (steps + _TOGETHER - 1) // _TOGETHER):
                    beyond = done * _TOGETHER
                    _list_four(link, n + beyond, lines.link, first + beyond, line)
                n += steps
                here += gap * grid.stride[k]
            then = crossing.release[e]
            for hop in range(n):
                on = np.uint64(link[hop])
                since = min(state[on, SINCE], then)
                work = state[on, WORK] + wire * state[on, A_BYTE]
                state[on, SINCE] = since
                state[on, WORK] = work
                latest = max(latest, since + work)
                then += latency
    return latest


@bare_kernel
def _list_four(
    link: NDArray[np.int32], n: int, along: NDArray[np.int32], first: int, line: int
) -> None:
    """List four links along a line in one move."""
    put, take, start = np.uint64(n), np.uint64(first), np.int32(line)
    a, b = along[take], along[take + np.uint64(1)]
    c, d = along[take + np.uint64(2)], along[take + np.uint64(3)]
    link[put] = start + a
    link[put + np.uint64(1)] = start + b
    link[put + np.uint64(2)] = start + c
    link[put + np.uint64(3)] = start + d


@kernel
def latest_link_of_routes(
    first: NDArray[np.int64],
    links: NDArray[np.int64],
    crossing: Crossing,
    latest_first: NDArray[np.uint64],
    latency: float,
    state: NDArray[np.float64],
) -> float:
    """Do the same for listed routes. (C + 1,) (hops,) (C,) -> ()."""
    latest = 0.0
    for key in latest_first:
        e = np.int64(key & np.uint64(2**KEY_BITS - 1))
        then = crossing.release[e]
        for hop in range(first[e], first[e + 1]):
            place = links[hop]
            state[place, SINCE] = min(state[place, SINCE], then)
            state[place, WORK] += crossing.wire[e] * state[place, A_BYTE]
            latest = max(latest, state[place, SINCE] + state[place, WORK])
            then += latency
    return latest
