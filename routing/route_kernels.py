"""Kernels of dimension-ordered routing: direction, link loads, hops, links of a route, FIFOs.

Letters in the comments: N nodes, D dimensions, T tasks, E edges.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import bare_kernel, inner_kernel, kernel
from toruscast.mapping.torus import TieBreak

from .tables import RunTable

# Edges whose ways are found together.
_AT_ONCE = 512
# A step holds side by side: hops, from these bits on the coordinate difference, and how many
# dimensions differ. A torus has at most 2**24 nodes.
_UNWRAPPED, _DIFFERS = 24, 48
BLUEGENE_Q, FIRST_DIMENSION, ROUND_ROBIN = 0, 1, 2


class Grid(NamedTuple):
    """A torus as the kernels see it."""

    shape: NDArray[np.int64]  # (D,)
    wrap: NDArray[np.int64]  # (D,) 1 for a ring, 0 for a mesh
    order: NDArray[np.int64]  # (D,)
    stride: NDArray[np.int64]  # (D,) node number of one step along each dimension
    coords: NDArray[np.int32]  # (N, D)
    tie: TieBreak


class Ways(NamedTuple):
    """Ways of edges into the network."""

    hops: NDArray[np.int32]  # (E,) 0 within a node
    fifo: NDArray[np.int32]  # (E,) injection FIFO of the node, -1 within it


@bare_kernel
def goes_plus(
    source: int, target: int, size: int, wrap: bool, tie: TieBreak, others: int = 0
) -> bool:
    """Return whether the way along one dimension is plus; a split or random tie counts as plus.

    ``others`` comes from `other_coordinates`: the rule by the sum of coordinates needs it.
    """
    gap = target - source
    if not wrap:
        return gap >= 0
    if gap < 0:
        gap += size
    twice = 2 * gap
    if twice != size:
        return twice < size
    if tie.by_target:
        return target != 0
    return not tie.by_parity or (source + others) % 2 == 0


@bare_kernel
def other_coordinates(grid: Grid, target: int, dimension: int) -> int:
    """Return the sum of a node's other coordinates; 0 if the tie rule does not need it."""
    total = 0
    if grid.tie.with_others:
        for k in range(grid.shape.size):
            if k != dimension:
                total += int(grid.coords[target, k])
    return total


@bare_kernel
def is_halved(source: int, target: int, size: int, wrap: bool, tie: TieBreak) -> bool:
    """Return whether half of the traffic along one dimension is expected each way."""
    return tie.is_open != 0 and wrap and 2 * abs(target - source) == size


@bare_kernel
def hops_along(source: int, target: int, size: int, wrap: bool) -> int:
    """Return the links between two coordinates on the shorter way."""
    gap = abs(target - source)
    return min(gap, size - gap) if wrap else gap


@kernel
def add_loads(
    grid: Grid,
    src: NDArray[np.int32],
    dst: NDArray[np.int32],
    node: NDArray[np.int32],
    weight: NDArray[np.int64],
    load: NDArray[np.int64],
) -> None:
    """Add the weight of every edge to the links of its route. (E,) (E,) (T,) (E,) -> (N * 2 * D,).

    It serves few edges on a large torus, where a table of runs costs more than it saves. In each
    dimension an edge marks where its run of links begins and ends and, if it wraps, the end of the
    line. That is three updates a dimension, however long the run, without a branch on the
    direction. One pass over the links then sums the marks. Sums of integers cancel exactly, so an
    idle link has exactly 0. A walk hop by hop is half as fast or less.
    """
    ndim = grid.shape.size
    ports = 2 * ndim
    n_nodes = grid.coords.shape[0]
    halves = grid.tie.is_open
    by_sum, by_parity, by_target = grid.tie.with_others, grid.tie.by_parity, grid.tie.by_target
    for e in range(src.size):
        a = node[src[e]]
        b = node[dst[e]]
        w = weight[e]
        here = np.int64(a)
        target_sum = np.int64(0)
        if by_sum:
            for k in range(ndim):
                target_sum += grid.coords[b, k]
        for i in range(ndim):
            k = grid.order[i]
            s = np.int64(grid.coords[a, k])
            t = np.int64(grid.coords[b, k])
            size = grid.shape[k]
            stride = grid.stride[k]
            ring = grid.wrap[k]
            gap = t - s
            back = np.int64(gap < 0)
            ahead = gap + size * (back & ring)
            odd = ((s + by_sum * (target_sum - t)) & by_parity) | (by_target & np.int64(t == 0))
            minus = np.int64(2 * ahead + odd > size) if ring else back
            wraps = (back ^ minus) & np.int64(gap != 0)
            port = 2 * k + minus
            there = here + gap * stride
            edge = here + (minus * (size - 1) - s) * stride
            if halves and ring and 2 * ahead == size:
                # The minus half begins at the high end of the line if it wraps.
                half = w // 2
                w -= half
                load[here * ports + port + 1] += half
                load[there * ports + port + 1] -= half
                high = here + (size - 1 - s) * stride
                load[high * ports + port + 1] += half * (1 - back)
            load[here * ports + port] += w
            load[there * ports + port] -= w
            load[edge * ports + port] += w * wraps
            w = weight[e]
            here = there
    for k in range(ndim):
        stride = grid.stride[k]
        size = grid.shape[k]
        for start in range(n_nodes):
            if grid.coords[start, k] != 0:
                continue
            running = np.int64(0)
            for i in range(size):
                link = (start + i * stride) * ports + 2 * k
                running += load[link]
                load[link] = running
            running = np.int64(0)
            for i in range(size - 1, -1, -1):
                link = (start + i * stride) * ports + 2 * k + 1
                running += load[link]
                load[link] = running


@kernel
def list_links(
    grid: Grid,
    src: NDArray[np.int32],
    dst: NDArray[np.int32],
    first: NDArray[np.int64],
    links: NDArray[np.int64],
) -> None:
    """List every route's links in the order of travel. (R,) (R,), places (R + 1,) -> (hops,)."""
    ndim = grid.shape.size
    for r in range(src.size):
        here = src[r]
        place = first[r]
        for i in range(ndim):
            k = grid.order[i]
            s = grid.coords[src[r], k]
            t = grid.coords[dst[r], k]
            size = grid.shape[k]
            others = other_coordinates(grid, dst[r], k)
            plus = goes_plus(s, t, size, grid.wrap[k] == 1, grid.tie, others)
            while s != t:
                links[place] = here * 2 * ndim + 2 * k + (0 if plus else 1)
                place += 1
                step = s + (1 if plus else -1)
                if step == size:
                    step = 0
                elif step < 0:
                    step = size - 1
                here += (step - s) * grid.stride[k]
                s = step


@kernel
def find_ways(
    grid: Grid,
    table: RunTable,
    rule: int,
    n_fifos: int,
    src: NDArray[np.int32],
    dst: NDArray[np.int32],
    node: NDArray[np.int32],
    silent: NDArray[np.bool_],
    ways: Ways,
) -> None:
    """Find the hops and the injection FIFO of every edge. (E,) (E,) (T,) (E,) or (0,) -> (E,).

    Blue Gene/Q numbers its FIFOs A- A+ B- B+ ...: minus before plus. Where FIFOs take turns, silent
    edges come last. A dimension is looked at for many edges in a row, so that the processor takes
    several of them at once.
    """
    ndim = grid.shape.size
    here, there = np.empty(_AT_ONCE, dtype=np.int64), np.empty(_AT_ONCE, dtype=np.int64)
    step, port = np.empty(_AT_ONCE, dtype=np.int64), np.empty(_AT_ONCE, dtype=np.int64)
    remainder = np.arange(sum(grid.shape) + 2 * ndim) % n_fifos
    for begin in range(0, src.size, _AT_ONCE):
        n = min(_AT_ONCE, src.size - begin)
        for e in range(n):
            here[e] = table.code[node[src[begin + e]]]
            there[e] = table.code[node[dst[begin + e]]]
        step[:] = 0
        port[:] = 0
        for i in range(ndim - 1, -1, -1):
            k = grid.order[i]
            # A dimension without a wrap is a ring that is too long to go round.
            size = grid.shape[k] * (1 if grid.wrap[k] else 4)
            _add_steps(
                n,
                here,
                there,
                step,
                port,
                table.shift[i],
                table.mask[i],
                2 * k,
                size,
                table.shift[ndim],
                grid.tie,
            )
        for e in range(n):
            ways.hops[begin + e] = step[e] & (2**_UNWRAPPED - 1)
        for e in range(n):
            number = port[e]
            if rule == BLUEGENE_Q and step[e] >> _DIFFERS != 1:
                number = (step[e] >> _UNWRAPPED) & (2**24 - 1)
            ways.fifo[begin + e] = remainder[np.uint64(number)] if step[e] != 0 else -1
    if rule == ROUND_ROBIN:
        turn = np.zeros(grid.coords.shape[0], dtype=np.int32)
        for last in range(1 + np.int64(silent.size > 0)):
            for e in range(src.size):
                if ways.hops[e] > 0 and (silent.size == 0 or silent[e] == last):
                    a = node[src[e]]
                    ways.fifo[e] = turn[a]
                    turn[a] = (turn[a] + 1) % n_fifos


@inner_kernel
def _add_steps(
    n: int,
    here: NDArray[np.int64],
    there: NDArray[np.int64],
    step: NDArray[np.int64],
    port: NDArray[np.int64],
    shift: int,
    mask: int,
    name: int,
    size: int,
    parity: int,
    tie: TieBreak,
) -> None:
    """Add the steps along a dimension, and note its port, for edges between two codes."""
    for e in range(n):
        s, t = (here[e] >> shift) & mask, (there[e] >> shift) & mask
        gap = t - s
        apart = abs(gap)
        hops = min(apart, size - apart)
        ahead = gap + (size if gap < 0 else 0)
        odd = (s + tie.with_others * ((there[e] >> parity) ^ t)) & tie.by_parity
        odd |= tie.by_target if t == 0 else 0
        differs = 1 if gap != 0 else 0
        step[e] += hops + (apart << _UNWRAPPED) + (differs << _DIFFERS)
        port[e] = name + (2 * ahead + odd <= size) if gap != 0 else port[e]


@kernel
def sum_along_routes(
    grid: Grid,
    src: NDArray[np.int32],
    dst: NDArray[np.int32],
    node: NDArray[np.int32],
    load: NDArray[np.float64],
) -> tuple[float, float, float]:
    """Find the largest sum along a route, the sum of sums and that of maxima.

    (E,) (E,) (T,) (links,) -> (), (), ().
    """
    ndim = grid.shape.size
    largest, total, most = 0.0, 0.0, 0.0
    for e in range(src.size):
        a = node[src[e]]
        b = node[dst[e]]
        here = np.int64(a)
        on_route = 0.0
        highest = 0.0
        for i in range(ndim):
            k = grid.order[i]
            s = int(grid.coords[a, k])
            t = int(grid.coords[b, k])
            size = grid.shape[k]
            others = other_coordinates(grid, b, k)
            plus = goes_plus(s, t, size, grid.wrap[k] == 1, grid.tie, others)
            step = 1 if plus else -1
            port = 2 * k + (0 if plus else 1)
            while s != t:
                value = load[here * 2 * ndim + port]
                on_route += value
                highest = max(highest, value)
                s += step
                here += step * grid.stride[k]
                if s == size:
                    s = 0
                    here -= size * grid.stride[k]
                elif s < 0:
                    s = size - 1
                    here += size * grid.stride[k]
        largest = max(largest, on_route)
        total += on_route
        most += highest
    return largest, total, most


@kernel
def take_turns(
    first: NDArray[np.int64],
    dst: NDArray[np.int32],
    seconds: NDArray[np.float64],
    order: NDArray[np.int64],
    ready: NDArray[np.float64],
) -> None:
    """Order each task's edges from the next higher partner on. (T + 1,) (E,) (E,) -> (E,) (E,)."""
    for task in range(first.size - 1):
        begin, end = first[task], first[task + 1]
        e = begin
        while e < end and dst[e] < task:
            e += 1
        done = 0.0
        for i in range(begin, end):
            if e == end:
                e = begin
            done += seconds[e]
            order[i] = e
            ready[e] = done
            e += 1


@kernel
def last_arrival(
    begin: NDArray[np.int64],
    src: NDArray[np.int32],
    dst: NDArray[np.int32],
    goes: NDArray[np.bool_],
    latency: NDArray[np.float64],
    software: NDArray[np.float64],
    entered: NDArray[np.float64],
    arrived: NDArray[np.float64],
) -> float:
    """Return when the last message arrives. (R + 1,) (E,)... -> (T,) entered, (E,) arrived.

    R rounds, E edges of all rounds, T tasks.
    """
    last = 0.0
    for r in range(begin.size - 1):
        for e in range(begin[r], begin[r + 1]):
            arrived[e] = entered[src[e]] + latency[e] if goes[e] else 0.0
            last = max(last, arrived[e])
        for e in range(begin[r], begin[r + 1]):
            entered[src[e]] += software[e]
        for e in range(begin[r], begin[r + 1]):
            entered[dst[e]] = max(entered[dst[e]], arrived[e])
    return last


KEY_BITS = 32
LEAST = 5e-324
_DIGIT_BITS = 11
_DIGITS = 2**_DIGIT_BITS


@kernel
def sort_keys(key: NDArray[np.uint64], other: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Sort keys by their upper half, and return the one of two arrays that holds them.

    Equal ones keep their order. Each pass over memory sorts eleven bits, from the lowest on; bits
    that all keys share take no pass.
    """
    count = np.zeros((3, _DIGITS), dtype=np.int64)
    for i in range(key.size):
        part = key[i] >> np.uint64(KEY_BITS)
        for digit in range(3):
            count[digit, np.int64(part & np.uint64(_DIGITS - 1))] += 1
            part >>= np.uint64(_DIGIT_BITS)
    for digit in range(3):
        if max(count[digit]) == key.size:
            continue
        before = 0
        for value in range(_DIGITS):
            here = int(count[digit, value])
            count[digit, value] = before
            before += here
        shift = np.uint64(KEY_BITS + digit * _DIGIT_BITS)
        for i in range(key.size):
            part = np.int64((key[i] >> shift) & np.uint64(_DIGITS - 1))
            other[count[digit, part]] = key[i]
            count[digit, part] += 1
        key, other = other, key
    return key


@bare_kernel
def key_of(number: float, most: float, i: int) -> np.uint64:
    """Return the key of a number of 0 to ``most`` and its place."""
    part = np.uint64(number / most * (2**KEY_BITS - 1))
    return (part << np.uint64(KEY_BITS)) | np.uint64(i)


@kernel
def keys_of(number: NDArray[np.float64], key: NDArray[np.uint64]) -> None:
    """Write keys of numbers of 0 or more, to a part in 2**32 of the largest. (E,) -> (E,)."""
    most = 1.0
    for i in range(number.size):
        most = max(number[i], most if i > 0 else LEAST)
    for i in range(number.size):
        key[i] = key_of(number[i], most, i)


@kernel
def places_of(key: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the places in keys. (E,) -> (E,)."""
    place = np.empty(key.size, dtype=np.int64)
    for i in range(key.size):
        place[i] = np.int64(key[i] & np.uint64(2**KEY_BITS - 1))
    return place
