"""How Blue Gene/Q's software routes: the order of the dimensions, and zones by a message's way.

Firmware computes the order in which a block's dimensions are corrected, and of it the groups of
dimensions ("zones") among which adaptive packets choose. The messaging library picks the zone of a
message by how much freedom its way would have: the flexibility, 0 to 4, is the sum over A to D of
the hops over the most that there are on such a ring. Both are in IBM's public sources ([BGQ] in
docs/references.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

Groups = tuple[tuple[int, ...], ...]

# Nodes from which on other defaults hold: flexibilities between which a way is flexible, and zones
# of flexible and of other ways.
_DEFAULTS = (
    (0, (1.5, 3.5), (3, 3)),
    (1024, (1.5, 3.5), (2, 0)),
    (2048, (1.5, 3.5), (3, 0)),
    (8192, (1.5, 2.5), (3, 0)),
    (16384, (1.3, 3.0), (3, 0)),
    (65536, (0.75, 3.0), (3, 0)),
)
FLEXIBLE, OTHER, LINE = range(3)


def routing_order(shape: Sequence[int], wrap: Sequence[bool]) -> tuple[int, ...]:
    """Return the order in which a block corrects its dimensions: those with long ways first.

    Examples
    --------
    >>> routing_order((4, 2, 4, 4, 2), (True,) * 5)
    (1, 0, 2, 3, 4)
    """
    length, mesh = _lengths(shape, wrap), _meshes(shape, wrap)
    order = list(range(5))
    # Which of equal dimensions comes first is settled by how the firmware sorts: by exchanges, and
    # it asks for a mesh at the place, not of the dimension that stands there by then. Routes that
    # were recorded on six blocks have just these orders.
    for i in range(5):
        for j in range(i + 1, 5):
            here, there = length[order[i]], length[order[j]]
            if there > here or (there == here and mesh[j]):
                order[i], order[j] = order[j], order[i]
    return tuple(order)


def zone_sets(
    shape: Sequence[int], wrap: Sequence[bool], order: Sequence[int]
) -> tuple[Groups, ...]:
    """Return the zones of flexible ways, of others, and of lines, which have none.

    Examples
    --------
    >>> zone_sets((4, 4, 4, 8, 2), (True,) * 5, (3, 0, 1, 2, 4))
    (((3,), (0,), (1,), (2,), (4,)), ((3,), (0, 1, 2), (4,)), ())
    """
    length = _lengths(shape, wrap)
    longest_first = sorted(order, key=lambda d: -length[d])
    by_length = tuple(tuple(alike) for _, alike in groupby(longest_first, lambda d: length[d]))
    one_by_one = tuple((d,) for d in order)
    # E stands in every group, and thus in the first: it is done then.
    first = tuple(sorted({order[0], 4}))
    with_e = (first, *((d,) for d in order[1:] if d != 4))
    zones = {0: by_length, 2: one_by_one, 3: with_e}
    _, (flexible, other) = _defaults(shape)
    return zones[flexible], zones[other], ()


def zone_numbers(
    shape: Sequence[int],
    coords: NDArray[np.int32],
    src: NDArray[np.int32],
    dst: NDArray[np.int32],
) -> NDArray[np.int8]:
    """Return which of `zone_sets` messages between nodes take; (N, 5) (n,) (n,) -> (n,).

    Hops are counted around the ring in meshes too: the library knows the sizes alone.

    Examples
    --------
    >>> coords = np.array([[0, 0, 0, 0, 0], [2, 2, 0, 0, 0], [1, 1, 0, 0, 0], [2, 0, 0, 0, 0]])
    >>> zone_numbers((4, 4, 4, 8, 2), coords, np.array([0, 0, 0]), np.array([1, 2, 3]))
    array([0, 1, 2], dtype=int8)
    """
    flexibility = np.zeros(src.size)
    differ = np.zeros(src.size, dtype=np.int8)
    for d, size in enumerate(shape):
        gap = np.abs(coords[dst, d] - coords[src, d])
        differ += gap > 0
        if d < 4:
            flexibility += np.minimum(gap, size - gap) / max(size // 2, 1)
    (low, high), _ = _defaults(shape)
    number = np.where((low < flexibility) & (flexibility < high), FLEXIBLE, OTHER)
    return np.where(differ > 1, number, LINE).astype(np.int8)


def _defaults(shape: Sequence[int]) -> tuple[tuple[float, float], tuple[int, int]]:
    """Range of flexible ways, and the zones of these and of the others."""
    nodes = int(np.prod(shape))
    return [(limits, zones) for least, limits, zones in _DEFAULTS if nodes >= least][-1]


def _meshes(shape: Sequence[int], wrap: Sequence[bool]) -> list[bool]:
    """Dimensions that are no rings: two nodes along A to D are half a midplane."""
    return [not w or (k == 2 and d < 4) for d, (k, w) in enumerate(zip(shape, wrap, strict=True))]


def _lengths(shape: Sequence[int], wrap: Sequence[bool]) -> list[int]:
    """Nodes along each dimension, half as many on rings."""
    mesh = _meshes(shape, wrap)
    return [k if m else k // 2 for k, m in zip(shape, mesh, strict=True)]
