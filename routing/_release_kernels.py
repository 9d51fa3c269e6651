"""Kernels of the release bound: when messages leave their FIFOs, and what links still have to do.

Letters in the comments: N nodes, D dimensions, E edges, F injection FIFOs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import kernel

from ._route_kernels import Grid, goes_plus, is_halved, other_coordinates

# Messages that are ready within this part of a time may enter their FIFO in any order: the
# simulator's clock rounds software to whole ticks.
_TIED = 1 + 1e-3


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
def latest_link(
    grid: Grid,
    halved: bool,
    latest_first: NDArray[np.int64],
    src: NDArray[np.int32],
    dst: NDArray[np.int32],
    release: NDArray[np.float64],
    wire: NDArray[np.float64],
    bandwidth: NDArray[np.float64],
    latency: float,
    least: NDArray[np.float64],
    work: NDArray[np.float64],
) -> float:
    """Second until which some link is busy at least. (E,) nodes (E,) (E,) (E,) (E,) (D,) -> ().

    What comes to a link after some moment takes it until that moment plus the time of all that, at
    least: from the last message to the first, ``work`` is this time and ``least`` the moment,
    ``(N * 2 * D,)`` both. Where ties are ``halved``, half of a message goes each way.
    """
    ports = 2 * grid.shape.size
    busy = 0.0
    sides = 1 + np.int64(halved)
    for e in latest_first:
        for side in range(sides):
            here = np.int64(src[e])
            then = release[e]
            for i in range(grid.shape.size):
                k = grid.order[i]
                s = int(grid.coords[src[e], k])
                t = int(grid.coords[dst[e], k])
                size = grid.shape[k]
                wrap = grid.wrap[k] == 1
                plus = goes_plus(s, t, size, wrap, grid.tie, other_coordinates(grid, dst[e], k))
                if side == 1 and is_halved(s, t, size, wrap, grid.tie):
                    plus = False
                seconds = wire[e] / bandwidth[k] / sides
                while s != t:
                    link = here * ports + 2 * k + (0 if plus else 1)
                    least[link] = min(least[link], then)
                    work[link] += seconds
                    busy = max(busy, least[link] + work[link])
                    step = s + (1 if plus else -1)
                    if step == size:
                        step = 0
                    elif step < 0:
                        step = size - 1
                    here += (step - s) * grid.stride[k]
                    s = step
                    then += latency
    return busy


@kernel
def latest_link_of_routes(
    first: NDArray[np.int64],
    links: NDArray[np.int64],
    latest_first: NDArray[np.int64],
    release: NDArray[np.float64],
    wire: NDArray[np.float64],
    bandwidth: NDArray[np.float64],
    latency: float,
    work: NDArray[np.float64],
) -> float:
    """The same of routes that are listed. (E + 1,) (hops,) (E,) (E,) (E,) (L,) (L,) -> ()."""
    busy = 0.0
    least = np.full(work.size, np.inf)
    for e in latest_first:
        then = release[e]
        for i in range(first[e], first[e + 1]):
            link = links[i]
            least[link] = min(least[link], then)
            work[link] += wire[e] / bandwidth[link]
            busy = max(busy, least[link] + work[link])
            then += latency
    return busy
