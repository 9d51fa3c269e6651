"""The host graph: an n-dimensional torus or mesh of nodes and directed links."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from toruscast._lazy import PickledByFields, lazy
from toruscast.errors import InputError
from toruscast.validation import one_of, whole_number, whole_sizes

from . import _dimensions as checked
from .bluegene_routes import Groups, zone_numbers, zone_sets
from .holes import Holes, link_speeds, slowed, usable_nodes, without
from .neighbors import hops_between, links_as_graph, neighbor_table
from .network import Network, changed
from .shown import torus_html
from .ties import TIE_RULES, TieRule
from .twist import (
    Twist,
    Ways,
    checked_twist,
    minimal_ways,
    ring_lengths,
    ring_places,
    shortest,
    twist_text,
)

MAX_NODES = 2**24
# Only of these is it said what they do where there are more shortest ways than two.
_TWISTED_TIES = ("source_parity", "plus")


@dataclass(frozen=True)
class Torus(PickledByFields):
    """An n-dimensional torus or mesh.

    Nodes are numbered in C order (the last dimension varies fastest). The directed link that leaves
    node ``n`` along dimension ``d`` has the number ``n * 2 * D + 2 * d + s`` with ``s = 0`` for the
    plus and ``s = 1`` for the minus direction.

    Parameters
    ----------
    shape : sequence of int
        Nodes along each dimension.
    wrap : bool or sequence of bool, default True
        Whether each dimension closes to a ring; a dimension that does not is a mesh.
    bandwidth : float or sequence of float, default 2e9
        Bytes per second of a link in each dimension, each way; 1 or more.
    order : sequence of int, optional
        Order in which dimension-ordered routing corrects the dimensions; 0, 1, ... if not given.
    tie : {"source_parity", "sum_parity", "plus", "simgrid", "random", "split", "booksim", ...}
        The way round a ring when both are equally long; see the notes.
    network : Network
        What surrounds the links: packets, latency, buffers, injection FIFOs.
    name : str
        A label for reports.
    zones : sequence of sequences of int or "bluegene_q", optional
        Groups of dimensions for adaptive routing, in order: a packet chooses freely among the
        dimensions of the first group in which it still has hops to go; all dimensions in one if
        not given. Deterministic routing does not use them, nor do packets that for want of room go
        on in dimension order. ``"bluegene_q"``, for five dimensions: groups that depend on the
        message, as in `bluegene_routes`; along a line it goes in dimension order.
    twist : sequence of sequences of int, optional
        A row for each dimension: how far crossing its edge on the way plus also moves along each.
        Such moves go from rings along rings that are not twisted themselves.
    axes : str, optional
        A letter for each dimension, which names of mapping strategies use: XYZ for up to three
        dimensions, else ABCDEFGH, if not given. T stands for the slots of a node.
    holes : Holes, optional
        What is not ours, not there or slow; see `without` and `with_links`.

    Raises
    ------
    InputError
        If the sizes, bandwidths, routing order, tie rule, zones, twist or axes are not valid, or
        ties are open on a twisted torus.

    Notes
    -----
    `mapping.ties` describes the tie rules, `mapping.twist` twisted tori and their routes. Blue
    Gene/Q's dynamic routing knows zones (Chen et al., "The IBM Blue Gene/Q interconnection network
    and message unit", SC'11); `mapping.bluegene_routes` says which.

    Examples
    --------
    >>> torus = Torus((4, 4, 2))
    >>> torus.n_nodes, torus.n_links, torus.diameter
    (32, 192, 5)
    """

    shape: tuple[int, ...]
    wrap: tuple[bool, ...] = (True,)
    bandwidth: tuple[float, ...] = (2e9,)
    order: tuple[int, ...] = ()
    tie: TieRule = "source_parity"
    network: Network = field(default_factory=Network)
    name: str = ""
    zones: Groups | Literal["bluegene_q"] = field(default=(), kw_only=True)
    twist: Twist = field(default=(), kw_only=True)
    axes: str = field(default="", kw_only=True)
    holes: Holes = field(default=Holes(), kw_only=True)

    def __post_init__(self) -> None:
        shape = whole_sizes(self.shape, "torus shape")
        if not shape:
            raise InputError("bad torus shape", found=self.shape, expected="sizes of 1 or more")
        if math.prod(shape) > MAX_NODES:
            raise InputError("torus too large", found=shape, expected=f"at most {MAX_NODES} nodes")
        if len(shape) > 8:
            raise InputError("bad torus shape", found=shape, expected="at most 8 dimensions")
        ndim = len(shape)
        rings = checked.wraps(self.wrap, ndim)
        if not isinstance(self.name, str):
            raise InputError("bad name", found=self.name, expected="a text")
        one_of(self.tie, "tie rule", get_args(TieRule))
        if not isinstance(self.network, Network):
            raise InputError("bad network", found=self.network, expected="a Network")
        for name, value in (
            ("shape", shape),
            ("wrap", rings),
            ("bandwidth", checked.bandwidths(self.bandwidth, ndim)),
            ("order", checked.routing_order(self.order, ndim)),
            ("zones", checked.zones(self.zones, ndim)),
            ("twist", checked_twist(self.twist, shape, rings)),
            ("axes", checked.axes(self.axes, ndim)),
        ):
            object.__setattr__(self, name, value)
        if self.twist and (self.tie not in _TWISTED_TIES or isinstance(self.zones, str)):
            expected = f"tie {' or '.join(_TWISTED_TIES)}, and no zones by message"
            raise InputError("not on a twisted torus", found=self.tie, expected=expected)

    @property
    def ndim(self) -> int:
        """Number of dimensions, D."""
        return len(self.shape)

    @property
    def n_nodes(self) -> int:
        """Number of nodes, N."""
        return math.prod(self.shape)

    @property
    def n_links(self) -> int:
        """Size of an array with a place for every directed link: ``N * 2 * D``.

        The places of links that do not exist (over the edge of a mesh) are marked in `link_exists`.
        """
        return self.n_nodes * 2 * self.ndim

    @lazy
    def coords(self) -> NDArray[np.int32]:
        """Coordinates of every node, shape ``(n_nodes, ndim)``."""
        grid = np.indices(self.shape, dtype=np.int32).reshape(self.ndim, -1)
        return checked.frozen(np.ascontiguousarray(grid.T))

    @lazy
    def neighbors(self) -> NDArray[np.int32]:
        """Node at the far end of every link, ``(n_nodes, 2 * ndim)``; -1 where there is none."""
        return checked.frozen(neighbor_table(self))

    @lazy
    def link_exists(self) -> NDArray[np.bool_]:
        """Whether each directed link exists, shape ``(n_links,)``."""
        return checked.frozen((self.neighbors >= 0).ravel())

    @lazy
    def link_bandwidth(self) -> NDArray[np.float64]:
        """Bytes per second of every directed link, shape ``(n_links,)``."""
        return checked.frozen(link_speeds(self))

    @lazy
    def usable_nodes(self) -> NDArray[np.int64]:
        """Nodes that take tasks of ours, in order."""
        return checked.frozen(usable_nodes(self))

    @property
    def ties_are_open(self) -> bool:
        """Whether packets between the same nodes may go either way in dimension order."""
        return bool(TIE_RULES[self.tie].is_open)

    @lazy
    def zone_sets(self) -> tuple[Groups, ...]:
        """The zones that messages may have, one set each; without any, dimension order.

        Examples
        --------
        >>> Torus((4, 4)).zone_sets
        (((0, 1),),)
        """
        if isinstance(self.zones, str):
            return zone_sets(self.shape, self.wrap, self.order)
        return (self.zones or (tuple(range(self.ndim)),),)

    @lazy
    def has_zones(self) -> NDArray[np.bool_]:
        """Whether each of `zone_sets` leaves a choice, shape ``(sets,)``."""
        return checked.frozen(np.array([len(zones) > 0 for zones in self.zone_sets]))

    def zone_set_of(self, src: NDArray[np.int32], dst: NDArray[np.int32]) -> NDArray[np.int8]:
        """Return which of `zone_sets` messages between nodes have, ``(n,) (n,) -> (n,)``."""
        if isinstance(self.zones, str):
            return zone_numbers(self.shape, self.coords, src, dst)
        return np.zeros(src.size, dtype=np.int8)

    @lazy
    def ways(self) -> Ways:
        """The minimal ways between nodes of a twisted torus, by their difference."""
        return minimal_ways(self)

    @lazy
    def ring_lengths(self) -> tuple[int, ...]:
        """Nodes on a ring of each dimension; the size where it is not twisted."""
        return ring_lengths(self) if self.twist else self.shape

    @lazy
    def ring_places(self) -> NDArray[np.int32]:
        """Place of each node on its ring of each dimension, shape ``(n_nodes, ndim)``."""
        return checked.frozen(ring_places(self, self.neighbors)) if self.twist else self.coords

    @property
    def diameter(self) -> int:
        """Hops between the two nodes that are farthest apart."""
        if self.twist:
            return int(np.abs(self.ways.hops).sum(axis=1).max())
        return sum(k // 2 if w else k - 1 for k, w in zip(self.shape, self.wrap, strict=True))

    def node(self, coords: ArrayLike) -> NDArray[np.int32]:
        """Return the node numbers of coordinates of shape ``(..., ndim)``.

        Raises
        ------
        InputError
            If a coordinate lies outside the torus.

        Examples
        --------
        >>> Torus((4, 4, 2)).node([[0, 2, 1], [3, 3, 1]])
        array([ 5, 31], dtype=int32)
        """
        return checked.node_numbers(coords, self.shape)

    def link(self, node: int, dimension: int, direction: int) -> int:
        """Return the number of the link from ``node`` along ``dimension``, way +1 or -1.

        Raises
        ------
        InputError
            If there is no such node, dimension or direction.
        """
        node = whole_number(node, "node", 0, self.n_nodes - 1)
        dimension = whole_number(dimension, "dimension", 0, self.ndim - 1)
        if direction not in (1, -1):
            raise InputError("bad direction", found=direction, expected="1 or -1")
        return node * 2 * self.ndim + 2 * dimension + (0 if direction > 0 else 1)

    def link_label(self, link: int) -> str:
        """Return a link's name for people, such as ``(0,2,1) +1``: node, way, dimension.

        Raises
        ------
        InputError
            If there is no such link.

        Examples
        --------
        >>> Torus((4, 4, 2)).link_label(5 * 6 + 3)
        '(0,2,1) -1'
        """
        node, port = divmod(whole_number(link, "link", 0, self.n_links - 1), 2 * self.ndim)
        place = ",".join(map(str, self.coords[node].tolist()))
        return f"({place}) {'+-'[port % 2]}{port // 2}"

    def distance(self, src: ArrayLike, dst: ArrayLike) -> NDArray[np.int32]:
        """Return the hops between nodes ``src`` and ``dst`` (broadcast).

        Examples
        --------
        >>> Torus((8,)).distance(0, [1, 4, 7])
        array([1, 4, 1], dtype=int32)
        """
        a, b = self.check_nodes(src), self.check_nodes(dst)
        return shortest(self, a, b) if self.twist else hops_between(self, a, b)

    def check_nodes(self, nodes: ArrayLike) -> NDArray[np.int32]:
        """Return node numbers as an array of any shape; raise `InputError` if one is not valid.

        Examples
        --------
        >>> Torus((4, 4)).check_nodes([0, 15])
        array([ 0, 15], dtype=int32)
        """
        return checked.nodes_of(nodes, self.n_nodes)

    def with_network(self, **changes: object) -> Torus:
        """Return the same torus with some fields of its `Network` changed.

        Raises
        ------
        InputError
            If there is no field of a name, or its value is not valid.
        """
        return replace(self, network=changed(self.network, changes))

    def without(self, *, nodes: ArrayLike = (), links: ArrayLike = ()) -> Torus:
        """Return the same torus with nodes that are not ours, and without some directed links.

        Raises
        ------
        InputError
            If there is no such node or link, or no node is left.

        Examples
        --------
        >>> Torus((4,)).without(nodes=[2]).usable_nodes
        array([0, 1, 3])
        """
        return replace(self, holes=without(self, nodes, links))

    def with_links(self, bandwidths: Mapping[int, float]) -> Torus:
        """Return the same torus with links of other bandwidths, bytes per second by link number.

        Raises
        ------
        InputError
            If there is no such link, or it were faster than its dimension.
        """
        return replace(self, holes=slowed(self, bandwidths))

    def to_networkx(self) -> nx.DiGraph[int]:
        """Return the nodes and existing links as a directed graph.

        Parallel links (a ring of two) become one edge.
        """
        return links_as_graph(self.neighbors)

    def __str__(self) -> str:
        each = zip(self.shape, self.wrap, strict=True)
        sizes = "x".join(str(k) + ("" if w else "m") for k, w in each)
        holes = f" ({self.holes})" if self.holes else ""
        return f"{self.name} {sizes}".strip() + twist_text(self) + holes

    _repr_html_ = torus_html
