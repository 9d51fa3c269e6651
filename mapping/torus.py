"""The host graph: an n-dimensional torus or mesh of nodes and directed links."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from numbers import Real
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toruscast._lazy import PickledByFields, lazy
from toruscast._slow import networkx as nx
from toruscast.errors import InputError
from toruscast.notebook import html_card
from toruscast.text import counted, shown_name
from toruscast.validation import (
    as_array,
    check_type,
    one_of,
    real_number,
    whole_array,
    whole_number,
    whole_sizes,
)

from . import twist as twisted
from .network import Groups, Network, zone_numbers, zone_sets
from .twist import MinimalHops, Twist

TieRule = Literal[
    "plus", "source_parity", "sum_parity", "simgrid", "random", "split", "booksim", "bluegene"
]


class TieBreak(NamedTuple):
    """A rule as routing, link loads and the simulators read it; each field is 0 or 1."""

    by_parity: int = 0  # minus from an odd coordinate
    with_others: int = 0  # the parity is that of the source's plus the destination's others
    by_target: int = 0  # minus to coordinate 0
    is_open: int = 0  # packets of a message may go either way
    is_drawn: int = 0  # each of them draws its way; else they alternate
    adaptive_minus: int = 0  # adaptive packets that find room go minus
    adaptive_fixed: int = 0  # adaptive packets go as those in dimension order


# `Torus` describes each rule; a new one is a row here, and a field above where it needs one.
TIE_RULES: dict[TieRule, TieBreak] = {
    "plus": TieBreak(),
    "source_parity": TieBreak(by_parity=1),
    "sum_parity": TieBreak(by_parity=1, with_others=1),
    "simgrid": TieBreak(by_target=1),
    "split": TieBreak(is_open=1),
    "random": TieBreak(is_open=1, is_drawn=1),
    "booksim": TieBreak(is_open=1, is_drawn=1, adaptive_minus=1),
    "bluegene": TieBreak(by_parity=1, adaptive_fixed=1),
}


A = TypeVar("A", bound=NDArray[Any])

MAX_NODES = 2**24
MAX_DIMENSIONS = 8
# No link is slower or faster, and with them times of any traffic stay finite.
_BANDWIDTHS, _RATE = (1, 1e30), "bandwidth in bytes per second"
# Other rules do not say what they do where more than two routes are shortest.
_TWISTED_TIES = ("source_parity", "plus")


@dataclass(frozen=True)
class Exclusions:
    """Nodes of others, missing links and slow ones; made by `Torus.without` and `with_links`."""

    nodes: tuple[int, ...] = ()  # take no task of ours, but still route traffic
    # Directed links. A message over one is an error: fixed routes do not lead round it.
    links: tuple[int, ...] = ()
    slow: tuple[tuple[int, float], ...] = ()  # bytes per second of links

    def __bool__(self) -> bool:
        """Whether there is any hole."""
        return bool(self.nodes or self.links or self.slow)

    def __str__(self) -> str:
        """Say how many there are."""
        parts = ((self.nodes, "nodes of others"), (self.links, "missing"), (self.slow, "slow"))
        return ", ".join(f"{len(found)} {what}" for found, what in parts if found)


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
    routing_order : sequence of int, optional
        Order in which dimension-ordered routing corrects the dimensions; 0, 1, ... if not given.
    tie_break : {"source_parity", "sum_parity", "plus", "simgrid", "random", "split", "booksim", \
"bluegene"}
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
        message, as in `mapping.network`; along a line it goes in dimension order.
    twist : sequence of sequences of int, optional
        A row for each dimension: how far crossing its edge on the way plus also moves along each.
        Such moves go from rings along rings that are not twisted themselves.
    axes : str, optional
        A letter for each dimension, which names of mapping strategies use: XYZ for up to three
        dimensions, else ABCDEFGH, if not given. T means the slots of a node.
    exclusions : Exclusions, optional
        What is not ours, not there or slow; see `without` and `with_links`.

    Notes
    -----
    With ``a`` the source's coordinate in the dimension, a tie goes

    - ``source_parity``: plus if ``a`` is even, else minus, as in routes recorded on Blue Gene/Q
      (Fujiwara et al., VAST'17 data);
    - ``sum_parity``: plus if ``a`` and the destination's coordinates in all other dimensions have
      an even sum, else minus, which spreads the ties of a source over its destinations;
    - ``plus``: always plus;
    - ``simgrid``: plus, but minus towards coordinate 0, as in SimGrid's torus (TorusZone.cpp);
    - ``random``: each packet either way, at random;
    - ``split``: half of the packets each way; an odd one goes plus if ``a`` and both ends'
      coordinates in all other dimensions have an even sum, else minus;
    - ``booksim``: as ``random``, but adaptive packets go minus, as in BookSim 2 (routefunc.cpp);
    - ``bluegene``: as ``source_parity``, and adaptive packets too, which choose their way along
      each dimension when they set out (hint bits: Adiga et al., "Blue Gene/L torus interconnection
      network", IBM J. Res. Dev. 49, 2005).

    Adaptive packets may take both ways of a tie under all rules but the last two. Twisted tori and
    their routes are described in `mapping.twist`, Blue Gene/Q's zones in `mapping.network` (Chen et
    al., "The IBM Blue Gene/Q interconnection network and message unit", SC'11).

    Examples
    --------
    >>> torus = Torus((4, 4, 2))
    >>> torus.n_nodes, torus.n_links, torus.diameter
    (32, 192, 5)
    """

    shape: tuple[int, ...]
    wrap: tuple[bool, ...] = (True,)
    bandwidth: tuple[float, ...] = (2e9,)
    routing_order: tuple[int, ...] = ()
    tie_break: TieRule = "source_parity"
    network: Network = field(default_factory=Network)
    name: str = ""
    zones: Groups | Literal["bluegene_q"] = field(default=(), kw_only=True)
    twist: Twist = field(default=(), kw_only=True)
    axes: str = field(default="", kw_only=True)
    exclusions: Exclusions = field(default=Exclusions(), kw_only=True)

    def __post_init__(self) -> None:
        shape = whole_sizes(self.shape, "torus shape")
        if not 1 <= len(shape) <= MAX_DIMENSIONS:
            expected = f"1 to {MAX_DIMENSIONS} sizes"
            raise InputError("bad torus shape", found=shape, expected=expected)
        if math.prod(shape) > MAX_NODES:
            raise InputError("torus too large", found=shape, expected=f"at most {MAX_NODES} nodes")
        ndim = len(shape)
        rings, rates = wraps(self.wrap, ndim), _per_dimension(self.bandwidth, ndim, "bandwidth")
        # Half a surrogate pair is no character, and no file can hold it.
        if not isinstance(self.name, str) or re.search("[\ud800-\udfff]", self.name):
            raise InputError("bad name", found=repr(self.name), expected="a text")
        one_of(self.tie_break, "tie rule", get_args(TieRule))
        if not isinstance(self.network, Network):
            raise InputError("bad network", found=self.network, expected="a Network")
        for name, value in (
            ("shape", shape),
            ("wrap", rings),
            ("bandwidth", tuple(real_number(rate, _RATE, *_BANDWIDTHS) for rate in rates)),
            ("routing_order", _routing_order(self.routing_order, ndim)),
            ("zones", _checked_zones(self.zones, ndim)),
            ("twist", twisted.checked_twist(self.twist, shape, rings)),
            ("axes", _axis_letters(self.axes, ndim)),
        ):
            object.__setattr__(self, name, value)
        if self.twist and (self.tie_break not in _TWISTED_TIES or isinstance(self.zones, str)):
            expected = f"tie_break {' or '.join(_TWISTED_TIES)}, and no zones by message"
            raise InputError("not on a twisted torus", found=self.tie_break, expected=expected)

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
        return _read_only(np.ascontiguousarray(grid.T))

    @property
    def node_strides(self) -> NDArray[np.int64]:
        """How far apart the numbers of neighbouring nodes are, for each dimension, ``(D,)``."""
        return np.cumprod((1, *self.shape[:0:-1]))[::-1].astype(np.int64)

    @lazy
    def neighbors(self) -> NDArray[np.int32]:
        """Node at the far end of every link, ``(n_nodes, 2 * ndim)``; -1 where there is none."""
        nodes = np.arange(self.n_nodes, dtype=np.int32).reshape(self.shape)
        table = np.empty((self.n_nodes, 2 * self.ndim), dtype=np.int32)
        for d, size in enumerate(self.shape):
            for s, step in enumerate((-1, 1)):
                ends = np.roll(nodes, step, axis=d)
                edge = [slice(None)] * self.ndim
                edge[d] = slice(-1, None) if s == 0 else slice(0, 1)
                if size == 1:
                    ends = np.full_like(ends, -1)
                elif not self.wrap[d]:
                    ends[tuple(edge)] = -1
                elif self.twist:
                    moves = [step * by for by in self.twist[d]]
                    ends[tuple(edge)] = np.roll(ends[tuple(edge)], moves, axis=range(self.ndim))
                table[:, 2 * d + s] = ends.ravel()
        table.ravel()[list(self.exclusions.links)] = -1
        return _read_only(table)

    @lazy
    def link_exists(self) -> NDArray[np.bool_]:
        """Whether each directed link exists, shape ``(n_links,)``."""
        return _read_only((self.neighbors >= 0).ravel())

    @property
    def n_existing_links(self) -> int:
        """Directed links that are there, without a table of them.

        Examples
        --------
        >>> Torus((4, 2), wrap=(False, True)).n_existing_links
        28
        """
        each = zip(self.shape, self.wrap, strict=True)
        along = (k if w else k - 1 for k, w in each if k > 1)
        sizes = (k for k in self.shape if k > 1)
        every = sum(2 * self.n_nodes // k * n for k, n in zip(sizes, along, strict=True))
        return every - len(self.exclusions.links)

    @lazy
    def link_bandwidth(self) -> NDArray[np.float64]:
        """Bytes per second of every directed link, shape ``(n_links,)``."""
        speed = np.tile(np.repeat(np.array(self.bandwidth), 2), self.n_nodes)
        for link, bandwidth in self.exclusions.slow:
            speed[link] = bandwidth
        return _read_only(speed)

    @lazy
    def usable_nodes(self) -> NDArray[np.int64]:
        """Nodes that take tasks of ours, in order."""
        others = np.array(self.exclusions.nodes, dtype=np.int64)
        return _read_only(np.setdiff1d(np.arange(self.n_nodes), others))

    @property
    def ties_are_open(self) -> bool:
        """Whether packets between the same nodes may go either way in dimension order."""
        return bool(TIE_RULES[self.tie_break].is_open)

    @property
    def draws_ways(self) -> bool:
        """Whether packets draw their way at a tie, or their channel, at random."""
        return bool(TIE_RULES[self.tie_break].is_drawn) or self.network.deadlock == "dateline"

    @lazy
    def zone_sets(self) -> tuple[Groups, ...]:
        """The zones that messages may have, one set each; without any, dimension order.

        Examples
        --------
        >>> Torus((4, 4)).zone_sets
        (((0, 1),),)
        """
        if isinstance(self.zones, str):
            return zone_sets(self.shape, self.wrap, self.routing_order)
        return (self.zones or (tuple(range(self.ndim)),),)

    @lazy
    def has_zones(self) -> NDArray[np.bool_]:
        """Whether each of `zone_sets` leaves a choice, shape ``(sets,)``."""
        return _read_only(np.array([len(zones) > 0 for zones in self.zone_sets]))

    def zone_set_of(self, src: NDArray[np.int32], dst: NDArray[np.int32]) -> NDArray[np.int8]:
        """Return which of `zone_sets` messages between nodes have, ``(n,) (n,) -> (n,)``."""
        if isinstance(self.zones, str):
            return zone_numbers(self.shape, self.coords, src, dst)
        return np.zeros(src.size, dtype=np.int8)

    @lazy
    def minimal_hops(self) -> MinimalHops:
        """The minimal routes between nodes of a twisted torus, by their difference."""
        return twisted.minimal_hops(self.shape, self.twist)

    @lazy
    def ring_lengths(self) -> tuple[int, ...]:
        """Nodes on a ring of each dimension; the size where it is not twisted."""
        return twisted.ring_lengths(self.shape, self.twist) if self.twist else self.shape

    @lazy
    def ring_places(self) -> NDArray[np.int32]:
        """Place of each node on its ring of each dimension, shape ``(n_nodes, ndim)``."""
        return _read_only(twisted.ring_places(self.neighbors)) if self.twist else self.coords

    @property
    def diameter(self) -> int:
        """Hops between the two nodes that are farthest apart."""
        if self.twist:
            return int(np.abs(self.minimal_hops.hops).sum(axis=1).max())
        return sum(k // 2 if w else k - 1 for k, w in zip(self.shape, self.wrap, strict=True))

    def node(self, coords: ArrayLike) -> NDArray[np.int32]:
        """Return the node numbers of coordinates of shape ``(..., ndim)``.

        Examples
        --------
        >>> Torus((4, 4, 2)).node([[0, 2, 1], [3, 3, 1]])
        array([ 5, 31], dtype=int32)
        """
        c = as_array(coords, "coordinates", f"(..., {self.ndim})")
        if c.ndim == 0 or c.shape[-1] != self.ndim:
            raise InputError("bad coordinates", found=c.shape, expected=f"(..., {self.ndim})")
        if c.size and c.dtype.kind not in "iu":
            raise InputError("bad coordinates", found=c.dtype, expected="whole numbers")
        if c.size and ((c < 0).any() or (c >= np.array(self.shape)).any()):
            raise InputError("coordinate outside the torus", found=c.tolist(), expected=self.shape)
        return np.asarray((c * self.node_strides).sum(axis=-1), dtype=np.int32)

    def link(self, node: int, dimension: int, direction: int) -> int:
        """Return the number of the link from ``node`` along ``dimension``, direction +1 or -1."""
        node = whole_number(node, "node", 0, self.n_nodes - 1)
        dimension = whole_number(dimension, "dimension", 0, self.ndim - 1)
        if direction not in (1, -1):
            raise InputError("bad direction", found=direction, expected="1 or -1")
        return node * 2 * self.ndim + 2 * dimension + (0 if direction > 0 else 1)

    def link_label(self, link: int) -> str:
        """Return a link's name for people, such as ``(0,2,1) +Z``: node, direction, dimension.

        Examples
        --------
        >>> Torus((4, 4, 2)).link_label(5 * 6 + 3)
        '(0,2,1) -Y'
        """
        node, port = divmod(whole_number(link, "link", 0, self.n_links - 1), 2 * self.ndim)
        place = ",".join(map(str, np.unravel_index(node, self.shape)))
        return f"({place}) {'+-'[port % 2]}{self.axes[port // 2]}"

    def read_link(self, text: str) -> int:
        """Return the link of a label as of `link_label`, or of its number.

        The dimension may be a number, which counts from 0.

        Examples
        --------
        >>> torus = Torus((4, 4, 2))
        >>> torus.read_link("(0,2,1) -Y"), torus.read_link("(0,2,1) -1"), torus.read_link("33")
        (33, 33, 33)
        """
        word = text.strip()
        if re.fullmatch("[0-9]{1,9}", word):
            return whole_number(int(word), "link", 0, self.n_links - 1)
        label = re.fullmatch(r"\(([0-9, ]+)\) ?([+-])([0-9]|[A-Za-z])", word)
        known = {**{str(d): d for d in range(self.ndim)}, **{x: d for d, x in enumerate(self.axes)}}
        if label is None or label[3] not in known:
            example = self.link_label(0)
            raise InputError("bad link", found=text, expected=f"a number, or a label as {example}")
        node = int(self.node([int(part) for part in label[1].split(",")]))
        return self.link(node, known[label[3]], 1 if label[2] == "+" else -1)

    def distance(self, src: ArrayLike, dst: ArrayLike) -> NDArray[np.int32]:
        """Return the hops between nodes ``src`` and ``dst`` (broadcast).

        Examples
        --------
        >>> Torus((8,)).distance(0, [1, 4, 7])
        array([1, 4, 1], dtype=int32)
        """
        a, b = (self._in_range(as_array(ends, "node", "whole numbers")) for ends in (src, dst))
        if self.twist:
            first, hops = self.minimal_hops
            length = np.abs(hops[first[:-1]]).sum(axis=1, dtype=np.int32)
            return np.asarray(length[self._node_apart(a, b)], dtype=np.int32)
        hops = np.zeros(np.broadcast_shapes(a.shape, b.shape), dtype=np.int32)
        for along, size, wraps in zip(self.coords.T, self.shape, self.wrap, strict=True):
            gap = np.abs(along[a] - along[b])
            hops += np.minimum(gap, size - gap) if wraps else gap
        return hops

    def twisted_hops(self, src: NDArray[np.integer], dst: NDArray[np.integer]) -> NDArray[np.int32]:
        """Return the hops along each dimension that messages of a twisted torus take.

        Those in the minus direction are negative; ``(n,) (n,) -> (n, D)``.

        Examples
        --------
        >>> torus = Torus((4, 4, 8), twist=twisted.usual_twist((4, 4, 8)))
        >>> torus.twisted_hops(np.array([0]), torus.node([[3, 0, 5]]))
        array([[-1,  0,  1]], dtype=int32)
        """
        minimal = self.minimal_hops
        between = self._node_apart(src, dst)
        first = minimal.first[between]
        several = minimal.first[between + 1] - first
        turn = self.coords[src].sum(axis=1) if self.tie_break != "plus" else 0
        return np.asarray(minimal.hops[first + turn % several], dtype=np.int32)

    def _node_apart(self, src: NDArray[np.integer], dst: NDArray[np.integer]) -> NDArray[np.int32]:
        """The node of a twisted torus that lies from node 0 as each dst does from its src."""
        apart = self.coords[dst].astype(np.int64) - self.coords[src]
        return twisted.node_at(self.shape, self.twist, apart)

    def check_nodes(self, nodes: ArrayLike) -> NDArray[np.int32]:
        """Return the numbers of nodes, ``(n,)``, from numbers or coordinates.

        Parameters
        ----------
        nodes : array-like of int, shape (n,) or (n, ndim)
            Node numbers, or the coordinates of a node in each row.

        Raises
        ------
        InputError
            If a node does not exist, or for arrays of other shapes.

        Examples
        --------
        >>> Torus((4, 4)).check_nodes([0, 15]), Torus((4, 4)).check_nodes([(0, 0), (3, 3)])
        (array([ 0, 15], dtype=int32), array([ 0, 15], dtype=int32))
        """
        expected = f"numbers, shape (n,), or coordinates, shape (n, {self.ndim})"
        array = as_array(nodes, "nodes", expected)
        if array.ndim == 2 and array.shape[1] == self.ndim:
            return self.node(array)
        if array.ndim != 1:
            raise InputError("bad nodes", found=f"shape {array.shape}", expected=expected)
        return self._in_range(array)

    def _in_range(self, array: NDArray[Any]) -> NDArray[np.int32]:
        """Node numbers of any shape; raises unless each is that of a node."""
        if array.size and array.dtype.kind not in "iu":
            raise InputError("bad node", found=array.dtype, expected="whole numbers")
        if array.size and (array.min() < 0 or array.max() >= self.n_nodes):
            bad = array.min() if array.min() < 0 else array.max()
            raise InputError("node out of range", found=bad, expected=f"0 to {self.n_nodes - 1}")
        return array.astype(np.int32, copy=False)

    def with_network(self, **changes: object) -> Torus:
        """Return the same torus with some fields of its `Network` changed."""
        known = [item.name for item in fields(Network)]
        for name in changes:
            if name not in known:
                raise InputError("unknown field of Network", found=name, expected=", ".join(known))
        return replace(self, network=replace(self.network, **changes))  # type: ignore[arg-type]

    def without(self, *, nodes: ArrayLike = (), links: ArrayLike = ()) -> Torus:
        """Return the same torus with nodes that are not ours, and without some directed links.

        Nodes are numbers or coordinates, as in `check_nodes`.

        Examples
        --------
        >>> Torus((4,)).without(nodes=[2]).usable_nodes
        array([0, 1, 3])
        """
        old = self.exclusions
        gone = np.unique(self.check_nodes(nodes)).tolist()
        lost = {self._existing_link(link) for link in np.atleast_1d(np.asarray(links)).tolist()}
        every = tuple(sorted({*old.nodes, *gone}))
        if len(every) == self.n_nodes:
            found = f"{len(every)} nodes of others"
            raise InputError("no node left", found=found, expected="one less")
        slow = tuple(pair for pair in old.slow if pair[0] not in lost)
        return replace(self, exclusions=Exclusions(every, tuple(sorted({*old.links, *lost})), slow))

    def with_links(self, bandwidths: Mapping[int, float]) -> Torus:
        """Return the same torus with links of other bandwidths, bytes per second by link number."""
        check_type(bandwidths, "bandwidths", Mapping, "bytes per second by link number")
        slow = dict(self.exclusions.slow)
        for link, bandwidth in bandwidths.items():
            number = self._existing_link(link)
            most = self.bandwidth[number % (2 * self.ndim) // 2]
            real_number(bandwidth, f"bandwidth of link {number}", 1, np.inf)
            if bandwidth > most:
                raise InputError(
                    f"link {number} faster than its dimension",
                    found=f"{bandwidth:g} bytes/s",
                    expected=f"at most {most:g}",
                )
            slow[number] = float(bandwidth)
        exclusions = replace(self.exclusions, slow=tuple(sorted(slow.items())))
        return replace(self, exclusions=exclusions)

    def _existing_link(self, link: object) -> int:
        number = whole_number(link, "link", 0, self.n_links - 1)
        node, port = divmod(number, 2 * self.ndim)
        d, minus = divmod(port, 2)
        # Without the table of neighbours, which a large torus makes for all of its links.
        edge = 0 if minus else self.shape[d] - 1
        at_edge = int(np.unravel_index(node, self.shape)[d]) == edge
        if self.shape[d] == 1 or (at_edge and not self.wrap[d]):
            found = self.link_label(number)
            raise InputError("no such link", found=found, expected="no mesh's edge")
        return number

    def to_networkx(self) -> nx.DiGraph[int]:
        """Return the nodes and existing links as a directed graph.

        Parallel links (a ring of two) become one edge.
        """
        graph: nx.DiGraph[int] = nx.DiGraph()
        graph.add_nodes_from(range(self.n_nodes))
        node, port = np.nonzero(self.neighbors >= 0)
        graph.add_edges_from(zip(node.tolist(), self.neighbors[node, port].tolist(), strict=True))
        return graph

    def __str__(self) -> str:
        each = zip(self.shape, self.wrap, strict=True)
        sizes = "x".join(str(k) + ("" if w else "m") for k, w in each)
        exclusions = f" ({self.exclusions})" if self.exclusions else ""
        twist = twisted.twist_text(self.name, self.shape, self.wrap, self.twist)
        return f"{self.name} {sizes}".strip() + twist + exclusions

    def _repr_html_(self) -> str:
        speeds = (f"{rate / 1e9:g}" for rate in dict.fromkeys(self.bandwidth))
        closed = [axis for axis, wrap in zip(self.axes, self.wrap, strict=True) if wrap]
        facts = [
            ("nodes", f"{self.n_nodes:,}"),
            ("links, one way each", f"{self.n_existing_links:,}"),
            ("GB/s of a link", ", ".join(speeds)),
            ("dimensions that close to a ring", ", ".join(closed) or "none"),
            ("diameter, hops", self.diameter),
        ]
        return html_card(self, facts)

    def __repr__(self) -> str:
        sizes = f"{counted(self.n_nodes, 'node')}, {counted(self.n_existing_links, 'link')} one way"
        return f"Torus({shown_name(self)}: {sizes})"


def wraps(value: object, ndim: int) -> tuple[bool, ...]:
    """Whether each dimension closes to a ring."""
    values = _per_dimension(value, ndim, "wrap")
    for flag in values:
        # A text or NaN would count as true.
        if not (isinstance(flag, bool | np.bool_) or (isinstance(flag, Real) and flag in (0, 1))):
            raise InputError("bad wrap", found=repr(flag), expected="True or False")
    return tuple(map(bool, values))


def _routing_order(value: object, ndim: int) -> tuple[int, ...]:
    """Permutation of the dimensions; as they stand if there is none."""
    if isinstance(value, Iterable) and not isinstance(value, np.ndarray | str):
        value = tuple(value)
    order = () if value is None else tuple(whole_array(value, "routing order").tolist())  # type: ignore[arg-type]
    order = order or tuple(range(ndim))
    if sorted(order) != list(range(ndim)):
        expected = f"a permutation of 0..{ndim - 1}"
        raise InputError("bad routing order", found=order, expected=expected)
    return order


def _checked_zones(value: object, ndim: int) -> Groups | Literal["bluegene_q"]:
    """Groups of dimensions that hold each dimension once, or the name of a rule that has some."""
    expected = f"groups that hold each dimension 0 to {ndim - 1} once"
    expected += ", or bluegene_q" if ndim == 5 else " (bluegene_q: of five dimensions)"
    if ndim == 5 and isinstance(value, str) and value == "bluegene_q":
        return "bluegene_q"
    try:
        groups = tuple(tuple(group) for group in value)  # type: ignore[attr-defined]
        groups = tuple(tuple(whole_array(group, "zones").tolist()) for group in groups)
    except (TypeError, ValueError) as error:
        raise InputError("bad zones", found=value, expected=expected) from error
    if groups and (
        not all(groups) or sorted(d for group in groups for d in group) != list(range(ndim))
    ):
        raise InputError("bad zones", found=groups, expected=expected)
    return groups


def _axis_letters(value: object, ndim: int) -> str:
    """A letter for each dimension."""
    given = "" if value is None else value
    if not isinstance(given, str) or not re.fullmatch("[A-SU-Za-z]*", given):
        raise InputError("bad axes", found=value, expected="letters, none of them T")
    letters = given or ("XYZ" if ndim <= 3 else "ABCDEFGH")[:ndim]
    if len(letters) != ndim or len(set(letters)) != ndim:
        raise InputError("bad axes", found=value, expected=f"{ndim} different letters")
    return letters


def _per_dimension(value: object, ndim: int, name: str) -> tuple[object, ...]:
    """One value per dimension, from one for all or one each."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    several = isinstance(value, Iterable) and not isinstance(value, str)
    values = tuple(value) if several else (value,)  # type: ignore[arg-type]
    if len(values) == 1:
        values = values * ndim
    if len(values) != ndim:
        expected = f"one value, or {ndim}: one a dimension"
        raise InputError(f"bad {name}", found=value, expected=expected)
    return values


def _read_only(array: A) -> A:
    """Return an array that can no longer be written to."""
    array.setflags(write=False)
    return array
