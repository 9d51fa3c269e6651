"""Collectives of a single round: who sends to whom."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping.mesh import MeshTraffic

# Pairs of an all-to-all that are listed at once: of many chips there are more than fit.
_AT_ONCE = 2**20
Ends = tuple[NDArray[np.int64], NDArray[np.int64]]


def ends(traffic: MeshTraffic, lines: NDArray[np.int64]) -> Iterator[Ends]:
    """Give sender and receiver of each message of a collective of a single round, in parts.

    Examples
    --------
    >>> ((src, dst),) = ends(MeshTraffic("pipeline", 8, ("stage",)), np.array([[4, 5, 6]]))
    >>> src.tolist(), dst.tolist()
    ([4, 5], [5, 6])
    """
    n = lines.shape[1]
    following = np.roll(lines, -1, axis=1)
    if traffic.pairs is not None:
        yield lines[:, 0], lines[:, 1]
    elif traffic.collective == "pipeline":
        yield lines[:, :-1].ravel(), lines[:, 1:].ravel()
    elif traffic.collective == "permute":
        yield lines.ravel(), following.ravel()
    elif traffic.collective == "exchange":
        here, there = lines.ravel(), following.ravel()
        yield np.concatenate([here, there]), np.concatenate([there, here])
    else:
        some = max(_AT_ONCE // lines.size, 1)
        for begin in range(1, n, some):
            # Each sends to those so many places on.
            apart = np.arange(begin, min(begin + some, n))
            to = lines[:, (np.arange(n)[:, None] + apart) % n]
            yield np.broadcast_to(lines[:, :, None], to.shape).ravel(), to.ravel()
