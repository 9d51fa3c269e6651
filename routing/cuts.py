"""A lower bound of the time for any minimal routing: cuts of the torus."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping import CommGraph, TaskMapping, Torus

Floats = NDArray[np.float64]


def cut_bound(comm: CommGraph, torus: Torus, mapping: TaskMapping, nbytes: Floats) -> float:
    """Return the least seconds that the narrowest cut needs for the traffic that must cross it.

    Cuts are the planes between neighbouring coordinates of a dimension, one way at a time, and the
    links into and out of a node. Every minimal route crosses the planes between its ends. Messages
    that go half round a ring may go either way, and are left out.

    Parameters
    ----------
    comm, torus, mapping
        One phase, and where it runs.
    nbytes : ndarray, shape (n_edges,)
        Bytes of every edge on the wire.

    Examples
    --------
    >>> comm = CommGraph(4, [0, 1], [2, 3], [800, 800])
    >>> mapping = TaskMapping([0, 1, 2, 3], 16)
    >>> torus = Torus((8, 2))
    >>> 1e9 * cut_bound(comm, torus, mapping, comm.nbytes) * torus.bandwidth[0] / 1e9
    800.0
    """
    src, dst = mapping.node[comm.src], mapping.node[comm.dst]
    remote = src != dst
    src, dst, weight = src[remote], dst[remote], nbytes[remote]
    if not src.size:
        return 0.0
    through_nodes = _nodes(torus, src, dst, weight)
    # A twisted wrap link also moves along other dimensions, so planes are not cuts there.
    return through_nodes if torus.twist else max(through_nodes, _planes(torus, src, dst, weight))


def _planes(torus: Torus, src: NDArray[np.int32], dst: NDArray[np.int32], weight: Floats) -> float:
    longest = 0.0
    for d, size in enumerate(torus.shape):
        start = torus.coords[src, d].astype(np.int64)
        gap = torus.coords[dst, d].astype(np.int64) - start
        if torus.wrap[d]:
            gap = (gap + size // 2) % size - size // 2
            gap[2 * np.abs(gap) == size] = 0
        across = torus.n_nodes / size * torus.bandwidth[d]
        for way in (1, -1):
            hops = np.maximum(way * gap, 0)
            first = start if way == 1 else start - hops
            # Planes first .. first + hops - 1 are marked by differences, with the ring laid out
            # twice.
            steps = np.bincount(first % size, weight * (hops > 0), minlength=2 * size + 1)
            steps -= np.bincount(first % size + hops, weight * (hops > 0), minlength=2 * size + 1)
            crossing = np.cumsum(steps)[: 2 * size].reshape(2, size).sum(axis=0)
            longest = max(longest, float(crossing.max()) / across)
    return longest


def _nodes(torus: Torus, src: NDArray[np.int32], dst: NDArray[np.int32], weight: Floats) -> float:
    width = np.where(torus.link_exists, torus.link_bandwidth, 0.0).reshape(torus.n_nodes, -1)
    leaving = width.sum(axis=1)
    head = torus.neighbors.ravel()
    exists = torus.link_exists
    entering = np.bincount(head[exists], torus.link_bandwidth[exists], minlength=torus.n_nodes)
    out = np.bincount(src, weight, minlength=torus.n_nodes)
    into = np.bincount(dst, weight, minlength=torus.n_nodes)
    used = out > 0
    longest = float((out[used] / leaving[used]).max(initial=0.0))
    used = into > 0
    return max(longest, float((into[used] / entering[used]).max(initial=0.0)))
