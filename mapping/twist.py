"""Twisted tori: crossing the edge of one dimension also moves along others.

A torus of k x k x 2k or k x 2k x 2k nodes has shorter ways if the links that close its short
dimensions lead k nodes on along its long ones (Camarero, Martinez and Beivide, "Lattice graphs for
high-scale interconnection topologies", IEEE Trans. Parallel Distrib. Syst. 26, 2015; used for TPU
v4: Jouppi et al., ISCA 2023; the vendor's own wiring is not published in full). All nodes see the
same network, so that what is minimal depends on the difference of two nodes alone.

A message takes one of the shortest ways, a number of hops along each dimension, and goes dimension
by dimension. Of ``n`` such ways, those listed first that go plus, it takes under ``source_parity``
the one numbered by the sum of the source's coordinates modulo ``n``, under ``plus`` the first;
other tie rules are refused. Adaptive packets take the hops of that way in any order. The vendor's
routing is not public; this rule is ours.

A ring of a dimension is what hops along it lead through, twice its size or more where it is
twisted. A message keeps to one ring of a dimension, goes at most half round it, and takes the
dimensions in order, so that the bubble rule and datelines keep a twisted torus from filling up as
they do a plain one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.validation import whole_array

if TYPE_CHECKING:
    from .torus import Torus

Twist = tuple[tuple[int, ...], ...]

# Presets whose slices are twisted where they can be.
TWISTED_MACHINES = ("tpu_v4", "tpu_v5p")


class Ways(NamedTuple):
    """Minimal ways by the difference of two nodes, as the node that lies so far from node 0.

    A way is its hops along each dimension, those on the way minus negative. The ways of difference
    ``n`` are ``hops[first[n]:first[n + 1]]``, long ways plus first.
    """

    first: NDArray[np.int64]  # (N + 1,)
    hops: NDArray[np.int32]  # (ways, D)


def usual_twist(shape: Sequence[int]) -> Twist:
    """Return the twist of k x k x 2k or k x 2k x 2k nodes in any order; of others none.

    Examples
    --------
    >>> usual_twist((4, 4, 8))
    ((0, 0, 4), (0, 0, 4), (0, 0, 0))
    >>> usual_twist((4, 8, 8)), usual_twist((8, 8, 8))
    (((0, 4, 4), (0, 0, 0), (0, 0, 0)), ())
    """
    short = min(shape, default=0)
    if len(shape) != 3 or short < 2 or {*shape} != {short, 2 * short}:
        return ()
    moved = tuple(short if size > short else 0 for size in shape)
    return tuple(moved if size == short else (0, 0, 0) for size in shape)


def checked_twist(value: object, shape: Sequence[int], wrap: Sequence[bool]) -> Twist:
    """Return a twist, each move less than its dimension; none as an empty one.

    Raises
    ------
    InputError
        If it is no move along every dimension for every dimension, or one between dimensions that
        do not close or are twisted themselves.
    """
    ndim = len(shape)
    expected = f"{ndim} rows of {ndim} moves, from rings along rings that are not twisted"
    try:
        rows = [whole_array(tuple(row), "twist") for row in value]  # type: ignore[attr-defined]
    except TypeError as error:
        raise InputError("bad twist", found=value, expected=expected) from error
    if not rows:
        return ()
    if len(rows) != ndim or any(row.size != ndim for row in rows):
        raise InputError("bad twist", found=value, expected=expected)
    moves = np.array(rows) % np.array(shape)
    closed = np.array(wrap) & (np.array(shape) > 1)
    twisted, target = moves.any(axis=1), moves.any(axis=0)
    if (twisted & target).any() or ((twisted | target) & ~closed).any():
        raise InputError("bad twist", found=value, expected=expected)
    if not twisted.any():
        return ()
    return tuple(tuple(row) for row in moves.tolist())


def twist_text(torus: Torus) -> str:
    """Return what the text of a torus says of its twist, where its sizes alone do not."""
    usual = usual_twist(torus.shape) if all(torus.wrap) else ()
    if torus.twist:
        return ":twisted" if torus.twist == usual else f":twist{torus.twist}"
    could = usual and all(size % 4 == 0 for size in torus.shape)
    return ":untwisted" if could and torus.name in TWISTED_MACHINES else ""


def move(torus: Torus, coords: NDArray[np.integer]) -> NDArray[np.int32]:
    """Return the nodes at coordinates that may lie beyond any edge, ``(..., D) -> (...)``."""
    size, moves = np.array(torus.shape), np.array(torus.twist)
    along = coords.astype(np.int64)
    # Dimensions that are moved along are not twisted themselves: one pass will do.
    crossed = along // size
    along = (along + crossed @ moves) % size
    strides = np.cumprod((1, *torus.shape[:0:-1]))[::-1]
    return np.asarray(along @ strides, dtype=np.int32)


def ring_lengths(torus: Torus) -> tuple[int, ...]:
    """Return the hops along each dimension that lead back to where they began.

    Examples
    --------
    >>> from toruscast.mapping import Torus
    >>> ring_lengths(Torus((4, 4, 8), twist=usual_twist((4, 4, 8))))
    (8, 8, 8)
    """
    lengths = []
    for d, size in enumerate(torus.shape):
        turns = (n // math.gcd(n, m) for n, m in zip(torus.shape, torus.twist[d], strict=True))
        lengths.append(size * math.lcm(*turns))
    return tuple(lengths)


def minimal_ways(torus: Torus) -> Ways:
    """Return the minimal ways between any two nodes of a twisted torus."""
    # Half a ring leads to any node of it.
    reach = [length // 2 for length in ring_lengths(torus)]
    box = np.indices([2 * r + 1 for r in reach]).reshape(torus.ndim, -1).T
    hops = np.array(reach) - box
    length = np.abs(hops).sum(axis=1)
    node = move(torus, hops)
    least = np.full(torus.n_nodes, length.max())
    np.minimum.at(least, node, length)
    kept = np.flatnonzero(length == least[node])
    by_node = kept[np.argsort(node[kept], kind="stable")]
    first = np.searchsorted(node[by_node], np.arange(torus.n_nodes + 1))
    return Ways(first, hops[by_node].astype(np.int32))


def difference(
    torus: Torus, src: NDArray[np.integer], dst: NDArray[np.integer]
) -> NDArray[np.int32]:
    """Return the difference of nodes, as the node that lies so far from node 0; (n,) -> (n,)."""
    return move(torus, torus.coords[dst].astype(np.int64) - torus.coords[src])


def ring_places(torus: Torus, neighbors: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return each node's place on its ring of each dimension, ``(N, D)``.

    The node with the lowest number has place 0, and a hop plus leads to the next place.
    """
    place = np.full((torus.n_nodes, torus.ndim), -1, dtype=np.int32)
    for d in range(torus.ndim):
        following = neighbors[:, 2 * d].tolist()
        for begin in range(torus.n_nodes):
            node, number = begin, 0
            while place[node, d] < 0:
                place[node, d] = number
                node, number = (following[node] if following[node] >= 0 else node), number + 1
    return place


def hops_along(
    torus: Torus, src: NDArray[np.integer], dst: NDArray[np.integer]
) -> NDArray[np.int32]:
    """Return the hops along each dimension that messages of a twisted torus take.

    Those on the way minus are negative; ``(n,) (n,) -> (n, D)``.

    Examples
    --------
    >>> from toruscast.mapping import Torus
    >>> torus = Torus((4, 4, 8), twist=usual_twist((4, 4, 8)))
    >>> hops_along(torus, np.array([0]), torus.node([[3, 0, 5]]))
    array([[-1,  0,  1]], dtype=int32)
    """
    ways = torus.ways
    between = difference(torus, src, dst)
    first = ways.first[between]
    several = ways.first[between + 1] - first
    turn = torus.coords[src].sum(axis=1) if torus.tie != "plus" else 0
    return np.asarray(ways.hops[first + turn % several], dtype=np.int32)


def shortest(torus: Torus, src: NDArray[np.integer], dst: NDArray[np.integer]) -> NDArray[np.int32]:
    """Return the hops between nodes of a twisted torus, broadcast."""
    ways = torus.ways
    length = np.abs(ways.hops[ways.first[:-1]]).sum(axis=1, dtype=np.int32)
    return np.asarray(length[difference(torus, src, dst)], dtype=np.int32)


def images(torus: Torus) -> NDArray[np.int64]:
    """Return where node 0 of a twisted torus lies again beyond its edges, ``(images, D)``.

    The hops between two nodes are the least distance of one to all images of the other. Of a torus
    that is not twisted there are none.
    """
    if not torus.twist:
        return np.zeros((0, torus.ndim), dtype=np.int64)
    lattice = np.diag(torus.shape) - np.array(torus.twist)
    turns = [
        length // size + 1 for length, size in zip(torus.ring_lengths, torus.shape, strict=True)
    ]
    box = np.indices([2 * turn + 1 for turn in turns]).reshape(torus.ndim, -1).T
    around = box - np.array(turns)
    found = np.asarray(around @ lattice, dtype=np.int64)
    # No image farther away is the nearest of any node.
    return found[(np.abs(found) <= np.array(torus.ring_lengths)).all(axis=1)]
