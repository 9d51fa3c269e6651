"""Kernel that packs a route into one number, with a field for the hops left through each port.

So a packet needs no coordinates. Its next port in dimension order is that of the lowest bit, its
productive ports are the fields that are not empty, and a hop subtracts one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import kernel
from toruscast.routing.route_kernels import (
    Grid,
    goes_plus,
    hops_along,
    other_coordinates,
)

from .._state import Fields


@kernel
def pack_routes(
    grid: Grid,
    fields: Fields,
    src: NDArray[np.int32],
    dst: NDArray[np.int32],
    chooses: NDArray[np.bool_],
    route: NDArray[np.uint64],
    ties: NDArray[np.int32],
    coins: NDArray[np.int32],
) -> None:
    """Write routes between nodes, and the dimensions where a packet is to choose. (E,) -> (E,).

    At a tie the plus field is filled, or both fields if packets choose on their way. If packets are
    split at ties, ``coins`` has a bit for each tie, in routing order: the way of the odd packet. A
    packet meets a tie in dimension order, or if adaptive packets go minus at ties.
    """
    for e in range(src.size):
        both_ways = chooses[e] and not grid.tie.adaptive_fixed
        by_coin = not both_ways or grid.tie.adaptive_minus
        packed = np.uint64(0)
        open_ties = 0
        coin = 0
        n_ties = 0
        for i in range(grid.shape.size):
            k = grid.order[i]
            s = grid.coords[src[e], k]
            t = grid.coords[dst[e], k]
            if s == t:
                continue
            size = grid.shape[k]
            wrap = grid.wrap[k] == 1
            hops = np.uint64(hops_along(s, t, size, wrap))
            tie = wrap and 2 * abs(t - s) == size
            plus = goes_plus(s, t, size, wrap, grid.tie, other_coordinates(grid, dst[e], k))
            if plus or (tie and both_ways):
                packed |= hops << fields.shift[2 * k]
            if not plus or (tie and both_ways):
                packed |= hops << fields.shift[2 * k + 1]
            if tie and by_coin and grid.tie.is_open:
                open_ties |= 1 << i
                if not grid.tie.is_drawn:
                    # Neighbours send theirs different ways, and so do messages along the same ring
                    # with different other coordinates.
                    both = grid.coords[src[e]].sum() + grid.coords[dst[e]].sum() - t
                    coin |= (1 - both % 2) << n_ties
                n_ties += 1
        route[e] = packed
        ties[e] = open_ties
        coins[e] = coin
