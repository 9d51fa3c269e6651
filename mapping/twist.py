"""Twisted tori: crossing the edge of one dimension also moves along others.

A torus of k x k x 2k or k x 2k x 2k nodes has shorter routes if the links that close its short
dimensions lead k nodes on along its long ones (Camarero, Martinez and Beivide, "Lattice graphs for
high-scale interconnection topologies", IEEE Trans. Parallel Distrib. Syst. 26, 2015; used for TPU
v4: Jouppi et al., ISCA 2023; the vendor's own wiring is not published in full). All nodes see the
same network, so that what is minimal depends on the difference of two nodes alone.

A message takes one of the shortest routes, a number of hops along each dimension, and goes
dimension by dimension. Of ``n`` such routes, those listed first that go plus, it takes under
``source_parity`` the one numbered by the sum of the source's coordinates modulo ``n``, under
``plus`` the first; other tie rules are refused. Adaptive packets take the hops of that route in any
order. The vendor's routing is not public; this rule is ours.

A ring of a dimension is what hops along it lead through, twice its size or more where it is
twisted. A message keeps to one ring of a dimension, goes at most half round it, and takes the
dimensions in order, so that the bubble rule and datelines keep a twisted torus from filling up as
they do a plain one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.validation import whole_array

Twist = tuple[tuple[int, ...], ...]

# Presets whose slices are twisted where they can be.
TWISTED_MACHINES = ("tpu_v4", "tpu_v5p")


# Routes that are looked at to find the minimal ones: a small file must not ask for more.
MAX_ROUTES = 2**22
CAN_BE_TWISTED = "k x k x 2k or k x 2k x 2k nodes, in any order"


class MinimalHops(NamedTuple):
    """Minimal routes by the difference of two nodes, given as a node relative to node 0.

    A route is its hops along each dimension, those in the minus direction negative. The routes of
    difference ``n`` are ``hops[first[n]:first[n + 1]]``, long routes plus first.
    """

    first: NDArray[np.int64]  # (N + 1,)
    hops: NDArray[np.int32]  # (routes, D)


def usual_twist(shape: Sequence[int]) -> Twist:
    """Return the twist of k x k x 2k or k x 2k x 2k nodes in any order; of others none."""
    short = min(shape, default=0)
    if len(shape) != 3 or short < 2 or {*shape} != {short, 2 * short}:
        return ()
    moved = tuple(short if size > short else 0 for size in shape)
    return tuple(moved if size == short else (0, 0, 0) for size in shape)


def checked_twist(value: object, shape: Sequence[int], wrap: Sequence[bool]) -> Twist:
    """Return a twist, each move less than its dimension; none as an empty one."""
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
    twist = tuple(tuple(row) for row in moves.tolist())
    routes = math.prod(2 * reach + 1 for reach in _max_hops(shape, twist))
    if routes > MAX_ROUTES:
        expected = f"at most {MAX_ROUTES} routes to look at for the shortest"
        raise InputError("twisted torus too large", found=routes, expected=expected)
    return twist


def named_twist(shape: Sequence[int]) -> Twist:
    """Return the twist that "twisted" means for these sizes."""
    twist = usual_twist(shape)
    if not twist:
        sizes = "x".join(map(str, shape))
        raise InputError("no twist for these sizes", found=sizes, expected=CAN_BE_TWISTED)
    return twist


def split_twist(text: str) -> tuple[str, bool | None]:
    """Return the sizes of a torus, and whether the text has it twisted; None if it does not say."""
    match = re.fullmatch(r"(.*?)\s*[:_]\s*(un)?twisted", text.strip(), re.I | re.S)
    return (match[1], match[2] is None) if match else (text.strip(), None)


def twist_text(name: str, shape: Sequence[int], wrap: Sequence[bool], twist: Twist) -> str:
    """Return the twist in the text of a torus; empty where the sizes imply it."""
    usual = usual_twist(shape) if all(wrap) else ()
    if twist:
        return ":twisted" if twist == usual else f":twist{twist}"
    could = usual and all(size % 4 == 0 for size in shape)
    return ":untwisted" if could and name in TWISTED_MACHINES else ""


def node_at(shape: Sequence[int], twist: Twist, coords: NDArray[np.integer]) -> NDArray[np.int32]:
    """Return the nodes at coordinates that may lie beyond any edge, ``(..., D) -> (...)``."""
    along = coords.astype(np.int64)
    # Dimensions that are moved along are not twisted themselves: one pass will do.
    crossed = along // np.array(shape)
    along = (along + crossed @ np.array(twist)) % np.array(shape)
    strides = np.cumprod((1, *shape[:0:-1]))[::-1]
    return np.asarray(along @ strides, dtype=np.int32)


def ring_lengths(shape: Sequence[int], twist: Twist) -> tuple[int, ...]:
    """Return the hops along each dimension that lead back to where they began."""
    lengths = []
    for d, size in enumerate(shape):
        turns = (n // math.gcd(n, m) for n, m in zip(shape, twist[d], strict=True))
        lengths.append(size * math.lcm(*turns))
    return tuple(lengths)


def _max_hops(shape: Sequence[int], twist: Twist) -> list[int]:
    """The most hops of a minimal route along each dimension."""
    # Half a ring leads to any node of it, and half of every size to any node at all.
    enough = sum(size // 2 for size in shape) + len(shape)
    return [min(length // 2, enough) for length in ring_lengths(shape, twist)]


def minimal_hops(shape: Sequence[int], twist: Twist) -> MinimalHops:
    """Return the minimal routes between any two nodes of a twisted torus."""
    reach = _max_hops(shape, twist)
    box = np.indices([2 * r + 1 for r in reach], dtype=np.int32).reshape(len(shape), -1).T
    hops = np.array(reach, dtype=np.int32) - box
    length = np.abs(hops).sum(axis=1)
    node = node_at(shape, twist, hops)
    n_nodes = math.prod(shape)
    shortest = np.full(n_nodes, length.max())
    np.minimum.at(shortest, node, length)
    kept = np.flatnonzero(length == shortest[node])
    by_node = kept[np.argsort(node[kept], kind="stable")]
    first = np.searchsorted(node[by_node], np.arange(n_nodes + 1))
    return MinimalHops(first, hops[by_node])


def ring_places(neighbors: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return each node's place on its ring of each dimension, ``(N, D)``, from its neighbours.

    The node with the lowest number has place 0, and a hop plus leads to the next place.
    """
    n_nodes, ports = neighbors.shape
    place = np.full((n_nodes, ports // 2), -1, dtype=np.int32)
    for d in range(ports // 2):
        following = neighbors[:, 2 * d].tolist()
        for begin in range(n_nodes):
            node, number = begin, 0
            while place[node, d] < 0:
                place[node, d] = number
                node, number = (following[node] if following[node] >= 0 else node), number + 1
    return place


class Metric(NamedTuple):
    """Sizes that give the distance of two points of a torus."""

    shape: NDArray[np.int64]
    wrap: NDArray[np.bool_]
    images: NDArray[np.int64]  # of node 0 beyond the edges of a twisted torus, (images, D)


def images(shape: Sequence[int], twist: Twist) -> NDArray[np.int64]:
    """Return the images of node 0 of a twisted torus beyond its edges, ``(images, D)``.

    The hops between two nodes are the shortest distance of one to all images of the other. A torus
    that is not twisted has none.
    """
    if not twist:
        return np.zeros((0, len(shape)), dtype=np.int64)
    lattice = np.diag(shape) - np.array(twist)
    lengths = ring_lengths(shape, twist)
    turns = [length // size + 1 for length, size in zip(lengths, shape, strict=True)]
    box = np.indices([2 * turn + 1 for turn in turns]).reshape(len(shape), -1).T
    around = box - np.array(turns)
    found = np.asarray(around @ lattice, dtype=np.int64)
    # No image farther away is the nearest of any node.
    return found[(np.abs(found) <= np.array(lengths)).all(axis=1)]
