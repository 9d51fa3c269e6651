"""Collectives of a single round: who sends to whom."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping.mesh import MeshTraffic


def ends(
    traffic: MeshTraffic, lines: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return sender and receiver of each message of a collective that runs in a single round.

    Examples
    --------
    >>> src, dst = ends(MeshTraffic("pipeline", 8, ("stage",)), np.array([[4, 5, 6]]))
    >>> src.tolist(), dst.tolist()
    ([4, 5], [5, 6])
    """
    n = lines.shape[1]
    if traffic.pairs is not None:
        return lines[:, 0], lines[:, 1]
    if traffic.collective == "alltoall":
        apart = ~np.eye(n, dtype=np.bool_)
        src = np.broadcast_to(lines[:, :, None], (*lines.shape, n))[:, apart]
        dst = np.broadcast_to(lines[:, None, :], (len(lines), n, n))[:, apart]
        return src.ravel(), dst.ravel()
    following = np.roll(lines, -1, axis=1)
    if traffic.collective == "pipeline":
        return lines[:, :-1].ravel(), lines[:, 1:].ravel()
    if traffic.collective == "exchange":
        return (
            np.concatenate([lines.ravel(), following.ravel()]),
            np.concatenate([following.ravel(), lines.ravel()]),
        )
    return lines.ravel(), following.ravel()
