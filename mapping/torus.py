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
from toruscast.notebook import NotebookCard
from toruscast.text import counted, shown_name
from toruscast.typing import Bools, Floats, Int32s, Ints
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
    """A tie rule as flags (0 or 1) for kernels; plus and minus are the two ways around a ring."""

    by_parity: int = 0  # ties from odd coordinates go minus
    with_others: int = 0  # the parity includes the destination's coordinates in other dimensions
    by_target: int = 0  # ties with destination coordinate 0 go minus
    is_open: int = 0  # packets of a message can go either way
    is_drawn: int = 0  # open ties: each packet draws its direction at random, else they alternate
    adaptive_minus: int = 0  # adaptive packets with free buffers go minus
    adaptive_fixed: int = 0  # adaptive packets go the same way as packets in dimension order


# The docstring of `Torus` describes the rules.
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


ArrayT = TypeVar("ArrayT", bound=NDArray[Any])

MAX_NODES = 2**24
MAX_DIMENSIONS = 8
# Within these limits, the times of any traffic are finite.
_MIN_BANDWIDTH, _MAX_BANDWIDTH = 1, 1e30
# The other rules do not define a choice among more than two shortest routes.
_TWISTED_TIES = ("source_parity", "plus")


@dataclass(frozen=True)
class Exclusions:
    """Excluded nodes, missing links and slow links; see `Torus.without` and `Torus.with_links`."""

    nodes: tuple[int, ...] = ()  # run no tasks, but still route traffic
    links: tuple[int, ...] = ()  # directed links; messages routed over them are errors
    slow: tuple[tuple[int, float], ...] = ()  # (link, bytes per second)

    def __bool__(self) -> bool:
        """Whether anything is excluded or slow."""
        return bool(self.nodes or self.links or self.slow)

    def __str__(self) -> str:
        """Return the number of excluded nodes, missing links and slow links."""
        kinds = {"excluded node": self.nodes, "missing link": self.links, "slow link": self.slow}
        return ", ".join(counted(len(items), kind) for kind, items in kinds.items() if items)


@dataclass(frozen=True)
class Torus(NotebookCard, PickledByFields):
    """An n-dimensional torus or mesh.

    Nodes are numbered in C order (the last dimension varies fastest). The directed link that leaves
    node ``n`` along dimension ``d`` has the number ``n * 2 * D + 2 * d + s`` with ``s = 0`` for the
    plus and ``s = 1`` for the minus direction.

    Parameters
    ----------
    shape : sequence of int
        Nodes along each dimension.
    wrap : bool or sequence of bool, default True
        Whether each dimension is a ring, with a wraparound link. Otherwise it is a mesh.
    bandwidth : float or sequence of float, default 2e9
        Bytes per second of each directed link, by dimension; 1 or more.
    routing_order : sequence of int, optional
        Order of the dimensions in dimension-ordered routing; 0, 1, ... if not given.
    tie_break : {"source_parity", "sum_parity", "plus", "simgrid", "random", "split", "booksim", \
"bluegene"}
        Direction around a ring if both ways are equally long; see the notes.
    network : Network
        Packets, latency, buffers and injection FIFOs.
    name : str
        A label for reports.
    zones : sequence of sequences of int or "bluegene_q", optional
        Ordered groups of dimensions for adaptive routing; a single group of all dimensions if not
        given. A packet chooses freely among the dimensions of the first group in which it has
        remaining hops. Deterministic packets and packets in the escape channel ignore the groups.
        With ``"bluegene_q"``, which requires five dimensions, the groups depend on the message (see
        `mapping.network`), and messages along a line use dimension order.
    twist : sequence of sequences of int, optional
        For each dimension, a row with the number of nodes by which its plus wraparound link also
        moves along every dimension. A twisted dimension and those that it moves along must be
        rings, and the latter must not be twisted.
    axes : str, optional
        A letter for each dimension, used in names of mapping strategies. If not given, XYZ for up
        to three dimensions, else ABCDEFGH. T means the slots of a node.
    exclusions : Exclusions, optional
        Excluded nodes, missing links and slow links; see `without` and `with_links`.

    Notes
    -----
    The source has the coordinate ``a`` in the dimension of a tie. The tie goes

    - ``source_parity``: plus if ``a`` is even, else minus, as in routes recorded on Blue Gene/Q
      (Fujiwara et al., VAST'17 data);
    - ``sum_parity``: plus if the sum of ``a`` and the destination's coordinates in all other
      dimensions is even, else minus, so that ties of one source go different ways for different
      destinations;
    - ``plus``: always plus;
    - ``simgrid``: plus, but minus towards coordinate 0, as in SimGrid's torus (TorusZone.cpp);
    - ``random``: either way for each packet, at random;
    - ``split``: half of the packets each way; an odd packet goes plus if the sum of ``a`` and both
      endpoints' coordinates in all other dimensions is even, else minus;
    - ``booksim``: as ``random``, but adaptive packets go minus, as in BookSim 2 (routefunc.cpp);
    - ``bluegene``: as ``source_parity``, also for adaptive packets: they choose their direction
      along each dimension at injection (hint bits: Adiga et al., "Blue Gene/L torus interconnection
      network", IBM J. Res. Dev. 49, 2005).

    Under all rules except the last two, adaptive packets can go either way at a tie. For twisted
    tori and their routes see `mapping.twist`, and for Blue Gene/Q's zones `mapping.network` (Chen
    et al., "The IBM Blue Gene/Q interconnection network and message unit", SC'11).

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
        wrap = expand_wrap(self.wrap, ndim)
        # Files cannot represent half of a surrogate pair.
        if not isinstance(self.name, str) or re.search("[\ud800-\udfff]", self.name):
            raise InputError("bad name", found=repr(self.name), expected="a text")
        one_of(self.tie_break, "tie rule", get_args(TieRule))
        check_type(self.network, "network", Network, "a Network")
        is_default = self.tie_break == type(self).tie_break
        vars(self).update(
            shape=shape,
            wrap=wrap,
            bandwidth=tuple(
                real_number(rate, "bandwidth in bytes per second", _MIN_BANDWIDTH, _MAX_BANDWIDTH)
                for rate in _expand(self.bandwidth, ndim, "bandwidth")
            ),
            routing_order=_check_routing_order(self.routing_order, ndim),
            zones=_check_zones(self.zones, ndim),
            twist=twisted.check_twist(self.twist, shape, wrap),
            axes=_check_axes(self.axes, ndim),
            network=self.network if is_default else self.network.with_known("tie_break"),
        )
        if self.twist and (self.tie_break not in _TWISTED_TIES or isinstance(self.zones, str)):
            expected = f"tie_break {' or '.join(_TWISTED_TIES)}, and zones other than bluegene_q"
            raise InputError("bad twisted torus", found=self.tie_break, expected=expected)

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
        """Number of link numbers, ``N * 2 * D``.

        Some links do not exist, such as those over the edge of a mesh; see `link_exists`.
        """
        return self.n_nodes * 2 * self.ndim

    @lazy
    def coords(self) -> Int32s:
        """Coordinates of every node, shape ``(n_nodes, ndim)``."""
        grid = np.indices(self.shape, dtype=np.int32).reshape(self.ndim, -1)
        return _make_read_only(np.ascontiguousarray(grid.T))

    @property
    def node_strides(self) -> Ints:
        """Difference between the numbers of two neighbours along each dimension, shape ``(D,)``."""
        return np.cumprod((1, *self.shape[:0:-1]))[::-1].astype(np.int64)

    @lazy
    def neighbors(self) -> Int32s:
        """Destination node of each link, shape ``(n_nodes, 2 * ndim)``; -1 if there is no link."""
        nodes = np.arange(self.n_nodes, dtype=np.int32).reshape(self.shape)
        table = np.empty((self.n_nodes, 2 * self.ndim), dtype=np.int32)
        for d, size in enumerate(self.shape):
            for s, shift in enumerate((-1, 1)):
                dst = np.roll(nodes, shift, axis=d)
                # Plus links of the last nodes and minus links of the first nodes wrap around.
                edge = (slice(None),) * d + (slice(-1, None) if s == 0 else slice(0, 1),)
                if size == 1 or not self.wrap[d]:
                    dst[edge] = -1
                elif self.twist:
                    moves = [shift * move for move in self.twist[d]]
                    dst[edge] = np.roll(dst[edge], moves, axis=range(self.ndim))
                table[:, 2 * d + s] = dst.ravel()
        table.ravel()[list(self.exclusions.links)] = -1
        return _make_read_only(table)

    @lazy
    def link_exists(self) -> Bools:
        """Whether each directed link exists, shape ``(n_links,)``."""
        return _make_read_only((self.neighbors >= 0).ravel())

    @property
    def n_existing_links(self) -> int:
        """Number of directed links that exist, computed without `link_exists`.

        Examples
        --------
        >>> Torus((4, 2), wrap=(False, True)).n_existing_links
        28
        """
        dimensions = zip(self.shape, self.wrap, strict=True)
        pairs = ((size, size if wrap else size - 1) for size, wrap in dimensions if size > 1)
        n_links = sum(2 * self.n_nodes // size * pairs_in_line for size, pairs_in_line in pairs)
        return n_links - len(self.exclusions.links)

    @lazy
    def link_bandwidth(self) -> Floats:
        """Bytes per second of each directed link, shape ``(n_links,)``."""
        bandwidth = np.tile(np.repeat(np.array(self.bandwidth), 2), self.n_nodes)
        for link, rate in self.exclusions.slow:
            bandwidth[link] = rate
        return _make_read_only(bandwidth)

    @lazy
    def usable_nodes(self) -> Ints:
        """Nodes that are not excluded, in ascending order."""
        excluded = np.array(self.exclusions.nodes, dtype=np.int64)
        return _make_read_only(np.setdiff1d(np.arange(self.n_nodes), excluded))

    @property
    def ties_are_open(self) -> bool:
        """Whether packets of one message, routed in dimension order, can go either way at a tie."""
        return bool(TIE_RULES[self.tie_break].is_open)

    @property
    def draws_ways(self) -> bool:
        """Whether packets draw at random: their direction at a tie, or their channel."""
        return bool(TIE_RULES[self.tie_break].is_drawn) or self.network.deadlock == "dateline"

    @lazy
    def zone_sets(self) -> tuple[Groups, ...]:
        """The sets of zones that a message can have; an empty set means dimension order.

        Examples
        --------
        >>> Torus((4, 4)).zone_sets
        (((0, 1),),)
        """
        if isinstance(self.zones, str):
            return zone_sets(self.shape, self.wrap, self.routing_order)
        return (self.zones or (tuple(range(self.ndim)),),)

    @lazy
    def has_zones(self) -> Bools:
        """Whether each set in `zone_sets` has zones, shape ``(n_sets,)``."""
        return _make_read_only(np.array([len(zones) > 0 for zones in self.zone_sets]))

    def zone_set_of(self, src: Int32s, dst: Int32s) -> NDArray[np.int8]:
        """Return the index of each message's set in `zone_sets`, ``(n,) (n,) -> (n,)``."""
        if isinstance(self.zones, str):
            return zone_numbers(self.shape, self.coords, src, dst)
        return np.zeros(src.size, dtype=np.int8)

    @lazy
    def minimal_hops(self) -> MinimalHops:
        """The minimal routes of a twisted torus."""
        return twisted.minimal_hops(self.shape, self.twist)

    @lazy
    def ring_lengths(self) -> tuple[int, ...]:
        """Number of nodes on a ring of each dimension; equal to the size if it is not twisted."""
        return twisted.ring_lengths(self.shape, self.twist) if self.twist else self.shape

    @lazy
    def ring_places(self) -> Int32s:
        """Position of each node on its ring along each dimension, shape ``(n_nodes, ndim)``."""
        return _make_read_only(twisted.ring_places(self.neighbors)) if self.twist else self.coords

    @property
    def diameter(self) -> int:
        """Maximum hops between two nodes."""
        if self.twist:
            return int(np.abs(self.minimal_hops.hops).sum(axis=1).max())
        return sum(k // 2 if w else k - 1 for k, w in zip(self.shape, self.wrap, strict=True))

    def node(self, coords: ArrayLike) -> Int32s:
        """Return the numbers of the nodes at coordinates of shape ``(..., ndim)``.

        Examples
        --------
        >>> Torus((4, 4, 2)).node([[0, 2, 1], [3, 3, 1]])
        array([ 5, 31], dtype=int32)
        """
        shape = f"(..., {self.ndim})"
        array = as_array(coords, "coordinates", shape)
        if array.ndim == 0 or array.shape[-1] != self.ndim:
            raise InputError("bad coordinates", found=array.shape, expected=shape)
        if array.size and array.dtype.kind not in "iu":
            raise InputError("bad coordinates", found=array.dtype, expected="whole numbers")
        if ((array < 0) | (array >= np.array(self.shape))).any():
            found = array.tolist()
            raise InputError("coordinate outside the torus", found=found, expected=self.shape)
        return np.asarray((array * self.node_strides).sum(axis=-1), dtype=np.int32)

    def link(self, node: int, dimension: int, direction: int) -> int:
        """Return the number of the link from ``node`` along ``dimension``, in direction 1 or -1."""
        node = whole_number(node, "node", 0, self.n_nodes - 1)
        dimension = whole_number(dimension, "dimension", 0, self.ndim - 1)
        if direction not in (1, -1):
            raise InputError("bad direction", found=direction, expected="1 or -1")
        return node * 2 * self.ndim + 2 * dimension + (0 if direction > 0 else 1)

    def link_label(self, link: int) -> str:
        """Return a link's label: node, direction and dimension, such as ``(0,2,1) +Z``.

        Examples
        --------
        >>> Torus((4, 4, 2)).link_label(5 * 6 + 3)
        '(0,2,1) -Y'
        """
        node, port = divmod(whole_number(link, "link", 0, self.n_links - 1), 2 * self.ndim)
        coords = ",".join(map(str, np.unravel_index(node, self.shape)))
        return f"({coords}) {'+-'[port % 2]}{self.axes[port // 2]}"

    def read_link(self, text: str) -> int:
        """Return the number of a link, given its label or its number as text.

        Labels are as in `link_label`; the dimension is a letter or a number from 0.

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
        dimensions = {str(d): d for d in range(self.ndim)}
        dimensions |= {axis: d for d, axis in enumerate(self.axes)}
        if label is None or label[3] not in dimensions:
            expected = f"a number, or a label such as {self.link_label(0)}"
            raise InputError("bad link", found=text, expected=expected)
        node = int(self.node([int(part) for part in label[1].split(",")]))
        return self.link(node, dimensions[label[3]], 1 if label[2] == "+" else -1)

    def distance(self, src: ArrayLike, dst: ArrayLike) -> Int32s:
        """Return the hops between nodes ``src`` and ``dst`` (broadcast).

        Examples
        --------
        >>> Torus((8,)).distance(0, [1, 4, 7])
        array([1, 4, 1], dtype=int32)
        """
        a, b = (self._check_range(as_array(nodes, "node", "whole numbers")) for nodes in (src, dst))
        if self.twist:
            first, hops = self.minimal_hops
            length = np.abs(hops[first[:-1]]).sum(axis=1, dtype=np.int32)
            return np.asarray(length[self._relative_node(a, b)], dtype=np.int32)
        hops = np.zeros(np.broadcast_shapes(a.shape, b.shape), dtype=np.int32)
        for coords, size, wrap in zip(self.coords.T, self.shape, self.wrap, strict=True):
            gap = np.abs(coords[a] - coords[b])
            hops += np.minimum(gap, size - gap) if wrap else gap
        return hops

    def twisted_hops(self, src: NDArray[np.integer], dst: NDArray[np.integer]) -> Int32s:
        """Return the hops of each message along each dimension of a twisted torus.

        Hops in the minus direction are negative; ``(n,) (n,) -> (n, D)``.

        Examples
        --------
        >>> torus = Torus((4, 4, 8), twist=twisted.default_twist((4, 4, 8)))
        >>> torus.twisted_hops(np.array([0]), torus.node([[3, 0, 5]]))
        array([[-1,  0,  1]], dtype=int32)
        """
        minimal = self.minimal_hops
        difference = self._relative_node(src, dst)
        first = minimal.first[difference]
        n_routes = minimal.first[difference + 1] - first
        parity = self.coords[src].sum(axis=1) if self.tie_break != "plus" else 0
        return np.asarray(minimal.hops[first + parity % n_routes], dtype=np.int32)

    def _relative_node(self, src: NDArray[np.integer], dst: NDArray[np.integer]) -> Int32s:
        """Return ``dst - src`` of a twisted torus, as nodes relative to node 0."""
        difference = self.coords[dst].astype(np.int64) - self.coords[src]
        return twisted.node_at(self.shape, self.twist, difference)

    def check_nodes(self, nodes: ArrayLike) -> Int32s:
        """Return node numbers, ``(n,)``, from numbers, ``(n,)``, or coordinates, ``(n, ndim)``.

        Raises `InputError` if a node does not exist or the shape is wrong.

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
        return self._check_range(array)

    def _check_range(self, array: NDArray[Any]) -> Int32s:
        """Return node numbers as 32-bit integers; raise `InputError` if a node does not exist."""
        if array.size and array.dtype.kind not in "iu":
            raise InputError("bad node", found=array.dtype, expected="whole numbers")
        if array.size and (array.min() < 0 or array.max() >= self.n_nodes):
            bad = array.min() if array.min() < 0 else array.max()
            raise InputError("node out of range", found=bad, expected=f"0 to {self.n_nodes - 1}")
        return array.astype(np.int32, copy=False)

    def with_network(self, **changes: object) -> Torus:
        """Return the same torus with some fields of its `Network` changed.

        Rules that are changed no longer count as unknown.
        """
        known = [item.name for item in fields(Network)]
        for name in changes:
            if name not in known:
                raise InputError("unknown field of Network", found=name, expected=", ".join(known))
        network = replace(self.network, **changes)  # type: ignore[arg-type]
        return replace(self, network=network.with_known(*changes))

    def without(self, *, nodes: ArrayLike = (), links: ArrayLike = ()) -> Torus:
        """Return the same torus with excluded nodes and without some directed links.

        Excluded nodes run no tasks but still route traffic. Nodes are given by number or
        coordinates, as in `check_nodes`, and links by number or label, as in `read_link`.

        Examples
        --------
        >>> Torus((4,)).without(nodes=[2]).usable_nodes
        array([0, 1, 3])
        """
        old = self.exclusions
        excluded = tuple(sorted({*old.nodes, *self.check_nodes(nodes).tolist()}))
        if len(excluded) == self.n_nodes:
            raise InputError("all nodes are excluded", expected="at least one usable node")
        missing = {self._check_link(link) for link in np.atleast_1d(np.asarray(links)).tolist()}
        slow = tuple(pair for pair in old.slow if pair[0] not in missing)
        missing |= set(old.links)
        return replace(self, exclusions=Exclusions(excluded, tuple(sorted(missing)), slow))

    def with_links(self, bandwidths: Mapping[int, float]) -> Torus:
        """Return the same torus with slower links, given their bytes per second by link number."""
        check_type(bandwidths, "bandwidths", Mapping, "bytes per second by link number")
        slow = dict(self.exclusions.slow)
        for link, bandwidth in bandwidths.items():
            number = self._check_link(link)
            limit = self.bandwidth[number % (2 * self.ndim) // 2]
            real_number(bandwidth, f"bandwidth of link {number}", 1, np.inf)
            if bandwidth > limit:
                found, expected = f"{bandwidth:g} bytes/s", f"at most {limit:g}"
                message = f"link {number} faster than its dimension"
                raise InputError(message, found=found, expected=expected)
            slow[number] = float(bandwidth)
        exclusions = replace(self.exclusions, slow=tuple(sorted(slow.items())))
        return replace(self, exclusions=exclusions)

    def _check_link(self, link: object) -> int:
        """Return a link's number, given its number or label; raise `InputError` if none exists."""
        link = self.read_link(link) if isinstance(link, str) else link
        number = whole_number(link, "link", 0, self.n_links - 1)
        node, port = divmod(number, 2 * self.ndim)
        d, minus = divmod(port, 2)
        # `neighbors` would be slow to compute on a large torus.
        edge = 0 if minus else self.shape[d] - 1
        at_edge = int(np.unravel_index(node, self.shape)[d]) == edge
        if self.shape[d] == 1 or (at_edge and not self.wrap[d]):
            found = self.link_label(number)
            raise InputError("no such link", found=found, expected="a link within the mesh")
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
        dimensions = zip(self.shape, self.wrap, strict=True)
        sizes = "x".join(str(k) + ("" if w else "m") for k, w in dimensions)
        exclusions = f" ({self.exclusions})" if self.exclusions else ""
        twist = twisted.format_twist(self.name, self.shape, self.wrap, self.twist)
        return f"{self.name} {sizes}".strip() + twist + exclusions

    def _card_facts(self) -> list[tuple[str, object]]:
        """Return the facts that a notebook displays, as pairs of a label and a value."""
        rates = (f"{rate / 1e9:g}" for rate in dict.fromkeys(self.bandwidth))
        rings = [axis for axis, wrap in zip(self.axes, self.wrap, strict=True) if wrap]
        return [
            ("nodes", f"{self.n_nodes:,}"),
            ("directed links", f"{self.n_existing_links:,}"),
            ("GB/s of a link", ", ".join(rates)),
            ("ring dimensions", ", ".join(rings) or "none"),
            ("diameter, hops", self.diameter),
        ]

    def __repr__(self) -> str:
        links = counted(self.n_existing_links, "directed link")
        return f"Torus({shown_name(self)}: {counted(self.n_nodes, 'node')}, {links})"


def expand_wrap(value: object, ndim: int) -> tuple[bool, ...]:
    """Return whether each dimension is a ring, from one flag or one per dimension."""
    values = _expand(value, ndim, "wrap")
    for flag in values:
        # Strings and NaN are truthy.
        if not (isinstance(flag, bool | np.bool_) or (isinstance(flag, Real) and flag in (0, 1))):
            raise InputError("bad wrap", found=repr(flag), expected="True or False")
    return tuple(map(bool, values))


def _check_routing_order(value: object, ndim: int) -> tuple[int, ...]:
    """Return a permutation of the dimensions; 0, 1, ... if the value is None or empty."""
    if isinstance(value, Iterable) and not isinstance(value, np.ndarray | str):
        value = tuple(value)
    order = () if value is None else tuple(whole_array(value, "routing order").tolist())  # type: ignore[arg-type]
    order = order or tuple(range(ndim))
    if sorted(order) != list(range(ndim)):
        expected = f"a permutation of 0..{ndim - 1}"
        raise InputError("bad routing order", found=order, expected=expected)
    return order


def _check_zones(value: object, ndim: int) -> Groups | Literal["bluegene_q"]:
    """Return groups of dimensions as tuples; an empty tuple selects the default."""
    expected = f"groups with each dimension 0 to {ndim - 1} once"
    expected += ", or bluegene_q" if ndim == 5 else " (bluegene_q: only five dimensions)"
    if ndim == 5 and isinstance(value, str) and value == "bluegene_q":
        return "bluegene_q"
    try:
        groups = tuple(tuple(group) for group in value)  # type: ignore[attr-defined]
        groups = tuple(tuple(whole_array(group, "zones").tolist()) for group in groups)
    except (TypeError, ValueError) as error:
        raise InputError("bad zones", found=value, expected=expected) from error
    is_partition = all(groups) and sorted(d for group in groups for d in group) == [*range(ndim)]
    if groups and not is_partition:
        raise InputError("bad zones", found=groups, expected=expected)
    return groups


def _check_axes(value: object, ndim: int) -> str:
    """Return a letter for each dimension; the default letters if the value is None or empty."""
    given = "" if value is None else value
    if not isinstance(given, str) or not re.fullmatch("[A-SU-Za-z]*", given):
        raise InputError("bad axes", found=value, expected="letters other than T")
    letters = given or ("XYZ" if ndim <= 3 else "ABCDEFGH")[:ndim]
    if len(letters) != ndim or len(set(letters)) != ndim:
        raise InputError("bad axes", found=value, expected=f"{ndim} different letters")
    return letters


def _expand(value: object, ndim: int, name: str) -> tuple[object, ...]:
    """Return one value per dimension; a single value is repeated."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    is_sequence = isinstance(value, Iterable) and not isinstance(value, str)
    values = tuple(value) if is_sequence else (value,)  # type: ignore[arg-type]
    if len(values) == 1:
        values = values * ndim
    if len(values) != ndim:
        expected = f"one value, or {ndim}, one per dimension"
        raise InputError(f"bad {name}", found=value, expected=expected)
    return values


def _make_read_only(array: ArrayT) -> ArrayT:
    array.setflags(write=False)
    return array
