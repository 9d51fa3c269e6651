"""Kernels for dimension-ordered routing: directions, link loads, hops, FIFOs, and a radix sort.

A tie is a message that goes half around a ring, so that both directions are equally short. The tie
rule fixes its direction; if it is open, half of the traffic is expected in each direction.

Letters in the comments: N nodes, D dimensions, T tasks, E edges.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import bare_kernel, inner_kernel, kernel
from toruscast.mapping.torus import TieBreak
from toruscast.typing import Bools, Floats, Int32s, Ints, UInt64s

from .tables import RunTable

# Number of edges in a block.
_BLOCK = 512
# From this bit on, `gaps` counts the dimensions in which two nodes differ. Its lower bits hold the
# sum of the coordinate differences, which is below 2**24.
_COUNT_BIT = 24
BLUEGENE_Q, FIRST_DIMENSION, ROUND_ROBIN = 0, 1, 2


class Grid(NamedTuple):
    """A torus in arrays."""

    shape: Ints  # (D,)
    wrap: Ints  # (D,) 1 for a ring, 0 for a mesh
    order: Ints  # (D,)
    stride: Ints  # (D,) by how much a step along each dimension changes the node number
    coords: Int32s  # (N, D)
    tie: TieBreak


class HopsAndFifos(NamedTuple):
    """Hops and injection FIFO of each edge."""

    hops: Int32s  # (E,) 0 within a node
    fifo: Int32s  # (E,) number of the FIFO within its node; -1 for an edge within a node


@bare_kernel
def goes_plus(
    source: int, target: int, size: int, wrap: bool, tie: TieBreak, others: int = 0
) -> bool:
    """Return whether a route goes plus along one dimension; a split or random tie counts as plus.

    ``others`` is the result of `sum_other_coordinates`, for tie rules that use the sum.
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
def sum_other_coordinates(grid: Grid, target: int, dimension: int) -> int:
    """Return the sum of a node's coordinates in other dimensions; 0 if ties do not depend on it."""
    total = 0
    if grid.tie.with_others:
        for k in range(grid.shape.size):
            if k != dimension:
                total += int(grid.coords[target, k])
    return total


@bare_kernel
def is_halved(source: int, target: int, size: int, wrap: bool, tie: TieBreak) -> bool:
    """Return whether half of the traffic along one dimension is expected in each direction."""
    return tie.is_open != 0 and wrap and 2 * abs(target - source) == size


@bare_kernel
def ring_distance(source: int, target: int, size: int, wrap: bool) -> int:
    """Return the hops between two coordinates."""
    gap = abs(target - source)
    return min(gap, size - gap) if wrap else gap


@kernel
def add_loads(grid: Grid, src: Int32s, dst: Int32s, weight: Ints, load: Ints) -> None:
    """Add weights to the links on routes between nodes. (E,) (E,) (E,) -> (N * 2 * D,).

    This is for few edges on a large torus, where a table of runs costs more than it saves. In each
    dimension, an edge adds its weight at the first link of its run and subtracts it after the last
    link. If the run wraps, the edge also adds its weight where the run re-enters the line. A pass
    over the links then computes cumulative sums. Integer sums are exact, so an idle link has a load
    of exactly 0. Updating every link of a run takes at least twice as long.
    """
    ndim = grid.shape.size
    ports = 2 * ndim
    n_nodes = grid.coords.shape[0]
    halves = grid.tie.is_open
    by_sum, by_parity, by_target = grid.tie.with_others, grid.tie.by_parity, grid.tie.by_target
    for e in range(src.size):
        src_node = src[e]
        dst_node = dst[e]
        units = weight[e]
        current = np.int64(src_node)
        target_sum = np.int64(0)
        if by_sum:
            for k in range(ndim):
                target_sum += grid.coords[dst_node, k]
        for i in range(ndim):
            k = grid.order[i]
            source = np.int64(grid.coords[src_node, k])
            target = np.int64(grid.coords[dst_node, k])
            size = grid.shape[k]
            stride = grid.stride[k]
            ring = grid.wrap[k]
            gap = target - source
            is_negative = np.int64(gap < 0)
            plus_hops = gap + size * (is_negative & ring)
            # 1 if the rule sends a tie in the minus direction, else 0.
            tie_shift = ((source + by_sum * (target_sum - target)) & by_parity) | (
                by_target & np.int64(target == 0)
            )
            goes_minus = np.int64(2 * plus_hops + tie_shift > size) if ring else is_negative
            wraps = (is_negative ^ goes_minus) & np.int64(gap != 0)
            port = 2 * k + goes_minus
            target_node = current + gap * stride
            line_end = current + (goes_minus * (size - 1) - source) * stride
            if halves and ring and 2 * plus_hops == size:
                # If the minus half wraps, it continues at the plus end of the line.
                half = units // 2
                units -= half
                load[current * ports + port + 1] += half
                load[target_node * ports + port + 1] -= half
                line_end_plus = current + (size - 1 - source) * stride
                load[line_end_plus * ports + port + 1] += half * (1 - is_negative)
            load[current * ports + port] += units
            load[target_node * ports + port] -= units
            load[line_end * ports + port] += units * wraps
            units = weight[e]
            current = target_node
    for k in range(ndim):
        stride = grid.stride[k]
        size = grid.shape[k]
        for start in range(n_nodes):
            if grid.coords[start, k] != 0:
                continue
            for minus in range(2):
                running = np.int64(0)
                for i in range(size):
                    position = size - 1 - i if minus else i
                    link = (start + position * stride) * ports + 2 * k + minus
                    running += load[link]
                    load[link] = running


@bare_kernel
def write_route(
    grid: Grid, src: int, dst: int, links: NDArray[np.integer], begin: int, half: int = 0
) -> int:
    """Write the links of a route from index ``begin`` on, and return the index after them.

    If ``half`` is 1, for the second half of a split message, ties go minus.
    """
    ports = 2 * grid.shape.size
    node = np.int64(src)
    end = begin
    for i in range(grid.order.size):
        k = grid.order[i]
        size, stride = grid.shape[k], grid.stride[k]
        # Coordinates may be unsigned, but the steps below can make them negative.
        coordinate: Any = np.int64(grid.coords[src, k])
        target: Any = np.int64(grid.coords[dst, k])
        is_ring = grid.wrap[k] == 1
        others = sum_other_coordinates(grid, dst, k)
        plus = goes_plus(coordinate, target, size, is_ring, grid.tie, others)
        if half and is_halved(coordinate, target, size, is_ring, grid.tie):
            plus = False
        step = 1 if plus else -1
        port = 2 * k + (0 if plus else 1)
        while coordinate != target:
            links[end] = node * ports + port
            end += 1
            coordinate += step
            node += step * stride
            if coordinate == size or coordinate < 0:
                coordinate -= step * size
                node -= step * size * stride
    return end


@kernel
def list_links(grid: Grid, src: Int32s, dst: Int32s, first: Ints, links: Ints, half: int) -> None:
    """Write the links of every route in the order of travel. (R,) (R,) (R + 1,) -> (hops,).

    If ``half`` is 1, ties go minus.
    """
    for r in range(src.size):
        write_route(grid, src[r], dst[r], links, first[r], half)


@kernel
def fill_hops_and_fifos(
    grid: Grid,
    table: RunTable,
    rule: int,
    n_fifos: int,
    src: Int32s,
    dst: Int32s,
    node: Int32s,
    is_silent: Bools,
    routes: HopsAndFifos,
) -> None:
    """Compute the hops and the injection FIFO of every edge. (E,) (E,) (T,) (E,) or (0,) -> (E,).

    Blue Gene/Q numbers its FIFOs A- A+ B- B+ and so on. With round robin, edges without a message
    come last. The innermost loop is over a block of edges, so that the compiler can vectorise it.
    """
    ndim = grid.shape.size
    src_code, dst_code = np.empty(_BLOCK, dtype=np.int32), np.empty(_BLOCK, dtype=np.int32)
    gaps, port = np.empty(_BLOCK, dtype=np.int32), np.empty(_BLOCK, dtype=np.int32)
    remainder = np.arange(sum(grid.shape) + 2 * ndim) % n_fifos
    for begin in range(0, src.size, _BLOCK):
        n = min(_BLOCK, src.size - begin)
        for e in range(n):
            src_code[e] = table.code[node[src[begin + e]]]
            dst_code[e] = table.code[node[dst[begin + e]]]
        hops = routes.hops[begin : begin + n]
        hops[:] = 0
        gaps[:] = 0
        port[:] = 0
        for i in range(ndim - 1, -1, -1):
            k = grid.order[i]
            # A mesh is treated as a ring that is too long for any message to wrap.
            size = grid.shape[k] * (1 if grid.wrap[k] else 4)
            field = np.int32(table.shift[i]), np.int32(table.mask[i]), np.int32(table.shift[ndim])
            ring = np.int32(2 * k), np.int32(size)
            _add_hops_along(src_code, dst_code, field, ring, grid.tie, hops, gaps, port)
        for e in range(n):
            number = port[e]
            if rule == BLUEGENE_Q and gaps[e] >> _COUNT_BIT != 1:
                number = gaps[e] & (2**_COUNT_BIT - 1)
            # Read the FIFO in any case, because a branch would be mispredicted.
            fifo = remainder[np.uint64(number)]
            routes.fifo[begin + e] = fifo if hops[e] != 0 else -1
    if rule == ROUND_ROBIN:
        next_fifo = np.zeros(grid.coords.shape[0], dtype=np.int32)
        for is_last_pass in range(1 + np.int64(is_silent.size > 0)):
            for e in range(src.size):
                if routes.hops[e] > 0 and (is_silent.size == 0 or is_silent[e] == is_last_pass):
                    a = node[src[e]]
                    routes.fifo[e] = next_fifo[a]
                    next_fifo[a] = (next_fifo[a] + 1) % n_fifos


@inner_kernel
def _add_hops_along(
    src_code: Int32s,
    dst_code: Int32s,
    field: tuple[np.int32, np.int32, np.int32],
    ring: tuple[np.int32, np.int32],
    tie: TieBreak,
    hops: Int32s,
    gaps: Int32s,
    port: Int32s,
) -> None:
    """Add a block of edges' hops along one dimension, and store the port of each edge with hops.

    ``field`` has the shift and the mask of the dimension in a code, and the shift of the parity.
    ``ring`` has the minus port and the size. ``gaps`` is described at `_COUNT_BIT`. All numbers
    have 32 bits; a vector register holds twice as many of them as of 64-bit numbers.
    """
    shift, mask, parity = field
    minus_port, size = ring
    by_others, by_parity = np.int32(tie.with_others), np.int32(tie.by_parity)
    by_target = np.int32(tie.by_target)
    for e in range(hops.size):
        s = np.int32(np.int32(src_code[e] >> shift) & mask)
        t = np.int32(np.int32(dst_code[e] >> shift) & mask)
        gap = np.int32(t - s)
        distance = np.int32(abs(gap))
        plus_hops = np.int32(gap + (size if gap < 0 else np.int32(0)))
        others = np.int32(np.int32(dst_code[e] >> parity) ^ t)
        tie_shift = np.int32(np.int32(s + np.int32(by_others * others)) & by_parity)
        tie_shift = np.int32(tie_shift | (by_target if t == 0 else np.int32(0)))
        goes_plus = np.int32(np.int32(np.int32(2 * plus_hops) + tie_shift) <= size)
        hops[e] += min(distance, np.int32(size - distance))
        gaps[e] += distance + (np.int32(2**_COUNT_BIT) if gap != 0 else np.int32(0))
        port[e] = np.int32(minus_port + goes_plus) if gap != 0 else port[e]


@kernel
def fill_packets(
    nbytes: Floats,
    messages: Floats,
    sizes: tuple[float, float, float],
    packets: Ints,
    per_packet: Floats,
) -> int:
    """Write the packets of each edge, and the bytes per packet, headers included. (E,) -> (E,).

    ``sizes`` has the bytes of a real packet's payload and header, and the number of real packets in
    one simulated packet. Return the first edge with too many packets, or -1.
    """
    payload, header, coarsening = sizes
    for e in range(nbytes.size):
        sent = messages[e]
        real = sent * max(np.ceil(nbytes[e] / max(sent, 1.0) / payload), 1.0)
        count = np.ceil(real / coarsening)
        if count >= 2.0**53:
            return e
        packets[e] = np.int64(count)
        per_packet[e] = (nbytes[e] + header * real) / max(count, 1.0) if sent > 0 else 0.0
    return -1


@kernel
def order_by_partner(first: Ints, dst: Int32s, seconds: Floats, order: Ints, ready: Floats) -> None:
    """Write the order in which each task sends, and the seconds until each edge is ready.

    (T + 1,) (E,) (E,) -> (E,) (E,). A task begins with its next higher partner. An edge is ready
    after its own ``seconds`` and those of the task's earlier edges.
    """
    for task in range(first.size - 1):
        begin, end = first[task], first[task + 1]
        e = begin
        while e < end and dst[e] < task:
            e += 1
        elapsed = 0.0
        for i in range(begin, end):
            if e == end:
                e = begin
            elapsed += seconds[e]
            order[i] = e
            ready[e] = elapsed
            e += 1


@kernel
def last_arrival(
    begin: Ints,
    src: Int32s,
    dst: Int32s,
    has_message: Bools,
    latency: Floats,
    software: Floats,
    n_tasks: int,
) -> float:
    """Return the time of the last arrival if each task enters a round as soon as it can.

    A task enters the next round when it has prepared its messages of this round, in ``software``
    seconds each, and received the messages sent to it. Round r has the edges
    ``begin[r]:begin[r + 1]``.
    """
    entered, arrived = np.zeros(n_tasks), np.empty(src.size)
    last = 0.0
    for r in range(begin.size - 1):
        for e in range(begin[r], begin[r + 1]):
            arrived[e] = entered[src[e]] + latency[e] if has_message[e] else 0.0
            last = max(last, arrived[e])
        for e in range(begin[r], begin[r + 1]):
            entered[src[e]] += software[e]
        for e in range(begin[r], begin[r + 1]):
            entered[dst[e]] = max(entered[dst[e]], arrived[e])
    return last


# A sort key has a scaled number in its upper bits, and an index in this many lower bits.
KEY_BITS = 32
SMALLEST_FLOAT = 5e-324
_DIGIT_BITS = 11
_DIGITS = 2**_DIGIT_BITS


@kernel
def sort_keys(key: UInt64s, buffer: UInt64s) -> UInt64s:
    """Sort keys by their upper half, and return the array with the result: ``key`` or ``buffer``.

    This is a stable radix sort by digits of eleven bits, the lowest digit first. A digit that is
    equal in all keys is skipped.
    """
    count = np.zeros((3, _DIGITS), dtype=np.int64)
    for i in range(key.size):
        digits = key[i] >> np.uint64(KEY_BITS)
        for digit in range(3):
            count[digit, np.int64(digits & np.uint64(_DIGITS - 1))] += 1
            digits >>= np.uint64(_DIGIT_BITS)
    for digit in range(3):
        if max(count[digit]) == key.size:
            continue
        offset = 0
        for value in range(_DIGITS):
            n_keys = int(count[digit, value])
            count[digit, value] = offset
            offset += n_keys
        shift = np.uint64(KEY_BITS + digit * _DIGIT_BITS)
        for i in range(key.size):
            digits = np.int64((key[i] >> shift) & np.uint64(_DIGITS - 1))
            buffer[count[digit, digits]] = key[i]
            count[digit, digits] += 1
        key, buffer = buffer, key
    return key


@bare_kernel
def make_key(number: float, max_number: float, index: int) -> np.uint64:
    """Return a key with the number, scaled to 32 bits, in its upper half and the index below."""
    scaled = np.uint64(number / max_number * (2**KEY_BITS - 1))
    return (scaled << np.uint64(KEY_BITS)) | np.uint64(index)


@kernel
def fill_keys(number: Floats, packets: Ints, key: UInt64s) -> int:
    """Write a sort key for each edge with packets, and return their number. (E,) (E,) -> (E,).

    A key has the edge's ``number`` (0 or more), as a 32-bit fraction of the largest number.
    """
    max_number = SMALLEST_FLOAT
    for e in range(number.size):
        max_number = max(number[e], max_number)
    n = 0
    for e in range(number.size):
        key[n] = make_key(number[e], max_number, e)
        n += int(packets[e] > 0)
    return n
