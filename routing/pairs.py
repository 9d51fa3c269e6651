"""Link loads of equal messages between pairs of nodes, without a graph of tasks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping import Torus

from . import route_kernels as kernels
from . import twisted
from .routing import grid_of


def pair_loads(
    torus: Torus, src: NDArray[np.integer], dst: NDArray[np.integer]
) -> NDArray[np.float64]:
    """Return the number of messages between nodes over every link, in dimension order.

    Half of a split or random tie is expected each way. Shape ``(n_links,)``.

    Examples
    --------
    >>> pair_loads(Torus((4,)), np.array([0, 1]), np.array([1, 3])).reshape(4, 2)[:, 0]
    array([1., 0., 0., 0.])
    """
    here, there = (np.ascontiguousarray(end, dtype=np.int32) for end in (src, dst))
    if torus.twist:
        return twisted.link_loads(torus, here, there, np.ones(here.size))
    # A split tie halves messages, so their number is doubled to stay whole.
    halves = 2 if torus.ties_are_open else 1
    load = np.zeros(torus.n_links, dtype=np.int64)
    nodes = np.arange(torus.n_nodes, dtype=np.int32)
    weight = np.full(here.size, halves, dtype=np.int64)
    kernels.add_loads(grid_of(torus), here, there, nodes, weight, load)
    return load / halves
