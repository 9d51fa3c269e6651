"""Twisted tori, whose wraparound links in one dimension also move along others.

A torus of k x k x 2k or k x 2k x 2k nodes has shorter routes if the wraparound links of its short
dimensions move k nodes along its long dimensions (Camarero, Martinez and Beivide, "Lattice graphs
for high-scale interconnection topologies", IEEE Trans. Parallel Distrib. Syst. 26, 2015). TPU v4
uses them (Jouppi et al., ISCA 2023), but its wiring is not published in full. The network is vertex
symmetric, so the minimal routes depend only on the difference between two nodes.

If a message has several minimal routes, the routes with the most plus hops come first. The tie rule
``plus`` selects the first route. With ``source_parity``, the index of the route is the sum of the
source's coordinates modulo the number of routes. Other tie rules are errors. The message takes the
hops of this route in dimension order, or in any order if adaptive. The vendor's routing is not
public, so this rule is an assumption.

The ring of a twisted dimension is at least twice as long as the dimension. A message uses one ring
per dimension, goes at most half around it, and takes the dimensions in order. Therefore the bubble
rule and datelines prevent deadlock as on an ordinary torus.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.typing import Bools, Int32s, Ints
from toruscast.validation import whole_array

Twist = tuple[tuple[int, ...], ...]

# Machines whose slices are twisted if their shape allows it.
TWISTED_MACHINES = ("tpu_v4", "tpu_v5p")
# Maximum number of routes to enumerate, so that a small file cannot exhaust the memory.
MAX_ROUTES = 2**22
CAN_BE_TWISTED = "k x k x 2k or k x 2k x 2k nodes, in any order"


class MinimalHops(NamedTuple):
    """Minimal routes from node 0; routes between others depend only on the nodes' difference.

    A route is given by its hops along each dimension, negative in the minus direction. The routes
    to node ``n`` are ``hops[first[n]:first[n + 1]]``, those with the most plus hops first.
    """

    first: Ints  # (N + 1,)
    hops: Int32s  # (routes, D)


def default_twist(shape: Sequence[int]) -> Twist:
    """Return the twist of k x k x 2k or k x 2k x 2k nodes, in any order; empty for others."""
    short = min(shape, default=0)
    if len(shape) != 3 or short < 2 or {*shape} != {short, 2 * short}:
        return ()
    moves = tuple(short if size > short else 0 for size in shape)
    return tuple(moves if size == short else (0, 0, 0) for size in shape)


def check_twist(value: object, shape: Sequence[int], wrap: Sequence[bool]) -> Twist:
    """Return a twist as tuples, with moves modulo the sizes; empty if nothing is twisted.

    Raises `InputError` unless each twisted dimension is a ring and moves only along untwisted
    rings.
    """
    ndim = len(shape)
    expected = f"{ndim} rows of {ndim} moves; twisted rings move only along untwisted rings"
    try:
        rows = [whole_array(tuple(row), "twist") for row in value]  # type: ignore[attr-defined]
    except TypeError as error:
        raise InputError("bad twist", found=value, expected=expected) from error
    if not rows:
        return ()
    if len(rows) != ndim or any(row.size != ndim for row in rows):
        raise InputError("bad twist", found=value, expected=expected)
    moves = np.array(rows) % np.array(shape)
    is_ring = np.array(wrap) & (np.array(shape) > 1)
    twisted, target = moves.any(axis=1), moves.any(axis=0)
    if (twisted & target).any() or ((twisted | target) & ~is_ring).any():
        raise InputError("bad twist", found=value, expected=expected)
    if not twisted.any():
        return ()
    twist = tuple(tuple(row) for row in moves.tolist())
    n_routes = math.prod(2 * hops + 1 for hops in _find_max_hops(shape, twist))
    if n_routes > MAX_ROUTES:
        expected = f"at most {MAX_ROUTES} candidate routes"
        raise InputError("twisted torus too large", found=n_routes, expected=expected)
    return twist


def require_default_twist(shape: Sequence[int]) -> Twist:
    """Return the default twist of a shape; raise `InputError` if it has none."""
    twist = default_twist(shape)
    if not twist:
        sizes = "x".join(map(str, shape))
        raise InputError("no twist for these sizes", found=sizes, expected=CAN_BE_TWISTED)
    return twist


def split_twist(text: str) -> tuple[str, bool | None]:
    """Return the sizes, and True if ``:twisted`` follows them, False if ``:untwisted``, or None."""
    match = re.fullmatch(r"(.*?)\s*[:_]\s*(un)?twisted", text.strip(), re.I | re.S)
    return (match[1], match[2] is None) if match else (text.strip(), None)


def format_twist(name: str, shape: Sequence[int], wrap: Sequence[bool], twist: Twist) -> str:
    """Return the suffix of a torus's sizes; empty if machine and sizes imply the twist."""
    default = default_twist(shape) if all(wrap) else ()
    if twist:
        return ":twisted" if twist == default else f":twist{twist}"
    can_be_twisted = default and all(size % 4 == 0 for size in shape)
    return ":untwisted" if can_be_twisted and name in TWISTED_MACHINES else ""


def node_at(shape: Sequence[int], twist: Twist, coords: NDArray[np.integer]) -> Int32s:
    """Return the nodes at coordinates, which may lie outside the shape, ``(..., D) -> (...)``."""
    coords = coords.astype(np.int64)
    # A single correction suffices, because the dimensions that a twist moves along are not twisted.
    crossings = coords // np.array(shape)
    wrapped = (coords + crossings @ np.array(twist)) % np.array(shape)
    strides = np.cumprod((1, *shape[:0:-1]))[::-1]
    return np.asarray(wrapped @ strides, dtype=np.int32)


def ring_lengths(shape: Sequence[int], twist: Twist) -> tuple[int, ...]:
    """Return the length of a ring along each dimension, in hops."""
    lengths = []
    for d, size in enumerate(shape):
        turns = (n // math.gcd(n, m) for n, m in zip(shape, twist[d], strict=True))
        lengths.append(size * math.lcm(*turns))
    return tuple(lengths)


def _find_max_hops(shape: Sequence[int], twist: Twist) -> list[int]:
    """Return the maximum hops of a minimal route along each dimension."""
    # Half a ring is enough to reach its nodes, and half of each size is enough to reach any node of
    # the torus.
    max_distance = sum(size // 2 for size in shape) + len(shape)
    return [min(length // 2, max_distance) for length in ring_lengths(shape, twist)]


def minimal_hops(shape: Sequence[int], twist: Twist) -> MinimalHops:
    """Return the minimal routes from node 0 to each node of a twisted torus."""
    max_hops = _find_max_hops(shape, twist)
    box = np.indices([2 * n + 1 for n in max_hops], dtype=np.int32).reshape(len(shape), -1).T
    hops = np.array(max_hops, dtype=np.int32) - box
    length = np.abs(hops).sum(axis=1)
    node = node_at(shape, twist, hops)
    n_nodes = math.prod(shape)
    shortest = np.full(n_nodes, length.max())
    np.minimum.at(shortest, node, length)
    minimal = np.flatnonzero(length == shortest[node])
    by_node = minimal[np.argsort(node[minimal], kind="stable")]
    first = np.searchsorted(node[by_node], np.arange(n_nodes + 1))
    return MinimalHops(first, hops[by_node])


def ring_places(neighbors: Int32s) -> Int32s:
    """Return each node's position on its ring along each dimension, ``(N, 2 D) -> (N, D)``.

    The node with the lowest number has position 0, and positions increase in the plus direction.
    """
    n_nodes, n_ports = neighbors.shape
    positions = np.full((n_nodes, n_ports // 2), -1, dtype=np.int32)
    for d in range(n_ports // 2):
        plus = neighbors[:, 2 * d]
        successor = np.where(plus < 0, np.arange(n_nodes), plus).tolist()
        for start in range(n_nodes):
            node, position = start, 0
            while positions[node, d] < 0:
                positions[node, d] = position
                node, position = successor[node], position + 1
    return positions


class TorusMetric(NamedTuple):
    """The arrays from which kernels compute distances."""

    shape: Ints  # (D,)
    wrap: Bools  # (D,)
    images: Ints  # of node 0, (n_images, D); see `find_images`


def find_images(shape: Sequence[int], twist: Twist) -> Ints:
    """Return the periodic images of node 0 of a twisted torus, shape ``(n_images, D)``.

    The distance between two nodes is the shortest distance from one node to any image of the other.
    """
    if not twist:
        return np.zeros((0, len(shape)), dtype=np.int64)
    # The images are the integer combinations of these rows.
    lattice = np.diag(shape) - np.array(twist)
    lengths = ring_lengths(shape, twist)
    turns = [length // size + 1 for length, size in zip(lengths, shape, strict=True)]
    box = np.indices([2 * turn + 1 for turn in turns]).reshape(len(shape), -1).T
    images = np.asarray((box - np.array(turns)) @ lattice, dtype=np.int64)
    # An image outside these bounds is never the nearest one.
    return images[(np.abs(images) <= np.array(lengths)).all(axis=1)]
