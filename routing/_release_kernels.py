"""Kernels of the release bound: when messages leave their FIFOs, and what links still have to do.

Letters in the comments: N nodes, D dimensions, E edges, F injection FIFOs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import kernel

from ._route_kernels import Grid, goes_plus, hops_along, is_halved, other_coordinates

# Messages that are ready within this part of a time may enter their FIFO in any order: the
# simulator's clock rounds software to whole ticks.
_TIED = 1 + 1e-3
_DIGIT_BITS = 11
_DIGITS = 2**_DIGIT_BITS


@kernel
def release_from_fifos(
    by_ready: NDArray[np.int64],
    ready: NDArray[np.float64],
    seconds: NDArray[np.float64],
    fifo: NDArray[np.int64],
    n_fifos: int,
    release: NDArray[np.float64],
) -> None:
    """Earliest second at which each edge's first packet leaves its FIFO. (E,) x 4, F -> (E,).

    Of those that are ready together, all as early as the first of them can.
    """
    free = np.zeros(n_fifos)
    together = np.full(n_fifos, -1.0)
    first = np.zeros(n_fifos)
    for e in by_ready:
        f = fifo[e]
        if ready[e] > together[f]:
            together[f] = ready[e] * _TIED
            first[f] = max(ready[e], free[f])
        release[e] = first[f]
        free[f] = max(free[f], first[f]) + seconds[e]


@kernel
def in_order(number: NDArray[np.float64], latest_first: bool) -> NDArray[np.int64]:
    """Places of numbers of 0 or more, the least or the largest first, equal ones as they come.

    The bits of such numbers sort as the numbers do: eleven at a time, from the lowest on, in passes
    over memory in order. The bits that all have alike take none.
    """
    n = number.size
    key = number.view(np.uint64).copy()
    if latest_first:
        for i in range(n):
            key[i] = ~key[i]
    place = np.arange(n)
    other_key, other_place = np.empty_like(key), np.empty_like(place)
    begin = np.empty(_DIGITS + 1, dtype=np.int64)
    for shift in range(0, 64, _DIGIT_BITS):
        begin[:] = 0
        for i in range(n):
            begin[((key[i] >> np.uint64(shift)) & np.uint64(_DIGITS - 1)) + np.uint64(1)] += 1
        if begin.max() == n:
            continue
        for digit in range(_DIGITS):
            begin[digit + 1] += begin[digit]
        for i in range(n):
            digit = (key[i] >> np.uint64(shift)) & np.uint64(_DIGITS - 1)
            at = begin[digit]
            begin[digit] = at + 1
            other_key[at] = key[i]
            other_place[at] = place[i]
        key, other_key = other_key, key
        place, other_place = other_place, place
    return place


class Crossing(NamedTuple):
    """What crosses the network, an edge each."""

    src: NDArray[np.int32]  # (E,) nodes
    dst: NDArray[np.int32]  # (E,)
    release: NDArray[np.float64]  # (E,) seconds
    wire: NDArray[np.float64]  # (E,) bytes


@kernel
def latest_link(
    grid: Grid,
    crossing: Crossing,
    latest_first: NDArray[np.int64],
    bandwidth: NDArray[np.float64],
    latency: float,
    busy_link: NDArray[np.float64],
) -> float:
    """Second until which some link is busy at least. (E,) (E,) (D,) -> ().

    What comes to a link after some moment takes it until that moment plus the time of all that, at
    least: from the last message to the first, ``busy_link`` keeps the moment and this time,
    ``(N * 2 * D, 2)``. Where ties are open, half of a message goes each way.
    """
    ndim = grid.shape.size
    latest = 0.0
    sides = 1 + grid.tie.is_open
    for e in latest_first:
        a, b = crossing.src[e], crossing.dst[e]
        for side in range(sides):
            here = np.int64(a)
            done = np.int64(0)
            then = crossing.release[e]
            for i in range(ndim):
                k = grid.order[i]
                s = int(grid.coords[a, k])
                t = int(grid.coords[b, k])
                size = grid.shape[k]
                wrap = grid.wrap[k] == 1
                plus = goes_plus(s, t, size, wrap, grid.tie, other_coordinates(grid, b, k))
                if side == 1 and is_halved(s, t, size, wrap, grid.tie):
                    plus = False
                seconds = crossing.wire[e] / bandwidth[k] / sides
                step = grid.stride[k] if plus else -grid.stride[k]
                port = 2 * k + 1 - np.int64(plus)
                edge = size - s if plus else s + 1
                for hop in range(hops_along(s, t, size, wrap)):
                    # Past the ring's edge it goes on at the other one.
                    here -= size * step * np.int64(hop == edge)
                    link = here * 2 * ndim + port
                    first = min(busy_link[link, 0], then)
                    work = busy_link[link, 1] + seconds
                    busy_link[link, 0] = first
                    busy_link[link, 1] = work
                    latest = max(latest, first + work)
                    here += step
                    then += latency
                done += (t - s) * grid.stride[k]
                here = np.int64(a) + done
    return latest


@kernel
def latest_link_of_routes(
    first: NDArray[np.int64],
    links: NDArray[np.int64],
    crossing: Crossing,
    latest_first: NDArray[np.int64],
    bandwidth: NDArray[np.float64],
    latency: float,
    busy_link: NDArray[np.float64],
) -> float:
    """The same of routes that are listed. (E + 1,) (hops,) (E,) (E,) (L,) -> ()."""
    latest = 0.0
    for e in latest_first:
        then = crossing.release[e]
        for i in range(first[e], first[e + 1]):
            link = links[i]
            begin = min(busy_link[link, 0], then)
            work = busy_link[link, 1] + crossing.wire[e] / bandwidth[link]
            busy_link[link, 0] = begin
            busy_link[link, 1] = work
            latest = max(latest, begin + work)
            then += latency
    return latest
