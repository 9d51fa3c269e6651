"""Link loads, the loads along the routes of messages, and all else that one pass over them finds.

Kernels walk over plain tori, by tables of straight runs where those pay off. Twisted tori, whose
routes have no such runs, are followed hop by hop in NumPy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toruscast._jit import scratch
from toruscast._lazy import lazy
from toruscast.errors import InputError
from toruscast.mapping import MappingProblem, TaskMapping, Torus
from toruscast.mapping.network import Groups
from toruscast.mapping.torus import TIE_RULES
from toruscast.validation import as_array

from . import _load_kernels as run_kernels
from . import route_kernels as kernels
from ._load_kernels import HOP_BYTES, OFF_NODE, SLOWEST, Constants, Sums
from .messages import fixed_point, prepare
from .route_kernels import Ways
from .routing import edge_ways, grid_of, list_links, routes
from .tables import offset_table, run_table, worthwhile_runs

# Number of edges that are searched for one that goes that way.
_LOOKED_AT = 100_000


def link_loads(
    problem: MappingProblem, mapping: TaskMapping, weights: ArrayLike | None = None
) -> NDArray[np.float64]:
    """Return the bytes that the routing puts on every directed link.

    In dimension order, half of a split or random tie is expected each way. With adaptive routing,
    every message is split evenly over its minimal routes, zone after zone.

    Parameters
    ----------
    weights : array-like of float, shape (n_edges,), optional
        Numbers to count instead of bytes, such as packets, for the edges of all phases, one phase
        after the other. None is negative, and their sum is finite.

    Returns
    -------
    ndarray, shape (n_links,)
        In the order of `Torus`: ``node * 2 * D + 2 * d + s``. Messages within a node load nothing.

    Notes
    -----
    On a twisted torus the even split is over the orders of a message's hops. On others, sums in
    dimension order are kept in 64-bit fixed point, scaled by a power of two so that the total fits.
    Whole byte counts below 2**61 in total are exact; fractions are rounded to 2**-61 of the total.

    Examples
    --------
    >>> problem = MappingProblem(CommGraph(2, [0], [1], [100]), (8,))
    >>> link_loads(problem, TaskMapping([6, 1], 8)).reshape(8, 2)[:, 0]
    array([100.,   0.,   0.,   0.,   0.,   0., 100., 100.])
    """
    mapping = problem.mapping(mapping)
    if weights is not None:
        weights = _weights(weights, problem.unrolled.comm.n_edges)
    elif problem.common_routing is not None:
        return sum_loads(problem.total, mapping, problem.total.comm.nbytes)
    return sum_loads(problem, mapping, weights)


def sum_loads(
    problem: MappingProblem, mapping: TaskMapping, weight: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Return the loads by weights of the edges of all phases, as `link_loads`, without checks."""
    if weight is None:
        weight = problem.unrolled.comm.nbytes
    if problem.common_routing is None:
        weights = np.split(weight, problem.workload.unrolled.begin[1:-1])
        parts = zip(problem.phases, weights, strict=True)
        loads = [sum_loads(phase, mapping, each) for phase, each in parts]
        return np.asarray(np.sum(loads, axis=0), dtype=np.float64)
    phase, placed = problem.unrolled, problem.placed(mapping)
    spread = _adaptive_loads if phase.routing == "adaptive" else _ordered_loads
    load = spread(phase, placed, weight)
    check_missing(load, phase, placed)
    return load


def check_ways(problem: MappingProblem, mapping: TaskMapping) -> None:
    """Raise `InputError` if a message would go over a link that is not there."""
    if problem.torus.exclusions.links:
        for phase in problem.phases:
            sum_loads(phase, mapping, phase.comm.nbytes)


def _ordered_loads(
    problem: MappingProblem, mapping: TaskMapping, weight: NDArray[np.float64]
) -> NDArray[np.float64]:
    comm, torus = problem.comm, problem.torus
    if torus.twist:
        return _twisted_loads(torus, mapping.node[comm.src], mapping.node[comm.dst], weight)
    load = np.zeros(torus.n_links, dtype=np.int64)
    fixed, scale = fixed_point(weight, torus)
    runs = worthwhile_runs(torus, comm.n_edges)
    grid = grid_of(torus)
    if runs is None:
        kernels.add_loads(grid, comm.src, comm.dst, mapping.node, fixed, load)
    else:
        run = np.zeros(runs.n_runs, dtype=np.int64)
        there = scratch("codes", comm.n_edges, np.int32)
        run_kernels.add_to_runs(runs, comm.dst, comm.first, mapping.node, fixed, run, there)
        run_kernels.spread_runs(grid, runs, run, load.reshape(1, -1))
    return np.asarray(load * scale, dtype=np.float64)


class Along(NamedTuple):
    """Loads along the routes of all edges, 0 within a node."""

    # Of the sums along each route, the largest one and the sum.
    largest: float
    total: float
    most: float  # sum over the edges of the largest load on the route


def loads_along_routes(
    problem: MappingProblem, mapping: TaskMapping, load: NDArray[np.float64]
) -> Along:
    """Sum up the loads along dimension-ordered routes; a split or random tie counts as plus."""
    comm, torus = problem.comm, problem.torus
    if torus.twist:
        first, links = list_links(torus, mapping.node[comm.src], mapping.node[comm.dst])
        starts = first[:-1][np.diff(first) > 0]
        if not starts.size:
            return Along(0.0, 0.0, 0.0)
        total, most = (each.reduceat(load[links], starts) for each in (np.add, np.maximum))
        return Along(float(total.max()), float(total.sum()), float(most.sum()))
    grid = grid_of(torus)
    runs = worthwhile_runs(torus, comm.n_edges)
    if runs is None:
        walked = kernels.sum_along_routes(grid, comm.src, comm.dst, mapping.node, load)
        return Along(*walked)
    along = np.zeros((runs.n_runs, 2))
    run_kernels.sum_over_runs(grid, runs, load, along)
    there = scratch("codes", comm.n_edges, np.int32)
    summed = run_kernels.sum_over_routes(runs, comm.dst, comm.first, mapping.node, along, there)
    return Along(*summed)


def _weights(values: ArrayLike, n_edges: int) -> NDArray[np.float64]:
    expected = f"{n_edges} numbers of 0 or more, their sum finite"
    array = as_array(values, "weights", expected)
    if array.shape != (n_edges,) or (n_edges and array.dtype.kind not in "iufb"):
        found = f"{array.dtype} of shape {array.shape}"
        raise InputError("bad weights", found=found, expected=expected)
    weight = array.astype(np.float64)
    with np.errstate(over="ignore"):
        total = weight.sum()
    if not np.isfinite(total) or (weight < 0).any():
        raise InputError("bad weights", expected=expected)
    return weight


def _adaptive_loads(
    problem: MappingProblem, mapping: TaskMapping, weight: NDArray[np.float64]
) -> NDArray[np.float64]:
    torus = problem.torus
    load = np.zeros(torus.n_links)
    here, target, weight = _merged_pairs(problem, mapping, weight)
    if torus.twist:
        return _twisted_adaptive_loads(torus, here, target, weight)
    set_of = torus.zone_set_of(here, target)
    for number, zones in enumerate(torus.zone_sets):
        own = np.flatnonzero(set_of == number)
        ends = here[own], target[own]
        if zones:
            _spread_over_zones(torus, zones, *ends, weight[own], load)
        else:
            fixed, scale = fixed_point(weight[own], torus)
            ordered = np.zeros(torus.n_links, dtype=np.int64)
            nodes = np.arange(torus.n_nodes, dtype=np.int32)
            kernels.add_loads(grid_of(torus), *ends, nodes, fixed, ordered)
            load += ordered * scale
    return load


def _merged_pairs(
    problem: MappingProblem, mapping: TaskMapping, weight: NDArray[np.float64]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
    """Return the pairs of nodes that exchange anything, and the weight between them."""
    comm = problem.comm
    here, there = np.empty((2, comm.n_edges), dtype=np.int32)
    merged = np.empty(comm.n_edges)
    by_node = np.argsort(mapping.node, kind="stable")
    arrays = comm.dst, comm.first, mapping.node, by_node, weight, here, there, merged
    count = run_kernels.merge_pairs(problem.torus.n_nodes, *arrays)
    return here[:count], there[:count], merged[:count]


def _spread_over_zones(
    torus: Torus,
    zones: Groups,
    here: NDArray[np.int32],
    target: NDArray[np.int32],
    weight: NDArray[np.float64],
    load: NDArray[np.float64],
) -> None:
    """Spread weights over minimal routes, zone by zone; (n,) (n,) (n,) -> (N * 2 * D,)."""
    grid = grid_of(torus)
    # All routes of a zone end at one node, where the next zone starts.
    for zone in zones:
        part = torus.coords[:, zone] @ grid.stride[list(zone)]
        there = here - part[here] + part[target]
        # Keys of 16 bits are sorted in one pass.
        by_end = np.argsort(there.astype(np.min_scalar_type(torus.n_nodes - 1)), kind="stable")
        minus, plus = np.zeros((2, torus.ndim), dtype=np.int64)
        run_kernels.widen_reach(grid, here, there, minus, plus)
        table = offset_table(minus, plus)
        run_kernels.add_adaptive_loads(grid, table, here, there, by_end, weight, load)
        here = there


def _twisted_loads(
    torus: Torus, src: NDArray[np.int32], dst: NDArray[np.int32], weight: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the sum of the weights of the routes over every link, ``(n_links,)``."""
    first, links = list_links(torus, src, dst)
    load = np.bincount(links, np.repeat(weight, np.diff(first)), minlength=torus.n_links)
    return np.asarray(load, dtype=np.float64)


def _twisted_adaptive_loads(
    torus: Torus, src: NDArray[np.int32], dst: NDArray[np.int32], weight: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the loads if every message is spread evenly over the orders of its hops."""
    load = np.zeros(torus.n_links)
    hops, which = np.unique(torus.twisted_hops(src, dst), axis=0, return_inverse=True)
    # NumPy 2.0 gives a column.
    which = which.ravel()
    by_way = np.argsort(which, kind="stable")
    begin = np.searchsorted(which[by_way], np.arange(len(hops) + 1))
    for number, way in enumerate(hops):
        own = by_way[begin[number] : begin[number + 1]]
        here = src[own].astype(np.int64)
        for zone in torus.zone_sets[0]:
            here = _spread_orders(torus, way, zone, here, weight[own], load)
    return load


def _spread_orders(
    torus: Torus,
    way: NDArray[np.int32],
    zone: Sequence[int],
    start: NDArray[np.int64],
    weight: NDArray[np.float64],
    load: NDArray[np.float64],
) -> NDArray[np.int64]:
    """Spread messages over the orders of their hops in a zone; return where they end."""
    port = [2 * k + int(way[k] < 0) for k in zone]
    size = [abs(int(way[k])) for k in zone]
    share: dict[tuple[int, ...], float] = defaultdict(float)
    share[(0,) * len(zone)] = 1.0
    nodes = {(0,) * len(zone): start}
    # In C order every cell comes after the cells that lead to it.
    for cell in product(*(range(k + 1) for k in size)):
        left = sum(size) - sum(cell)
        for i in range(len(zone)):
            if cell[i] == size[i]:
                continue
            # The share of orders that goes on this way equals the share of hops left this way.
            part = share[cell] * (size[i] - cell[i]) / left
            link = nodes[cell] * 2 * torus.ndim + port[i]
            np.add.at(load, link, weight * part)
            beyond = (*cell[:i], cell[i] + 1, *cell[i + 1 :])
            share[beyond] += part
            nodes[beyond] = torus.neighbors[nodes[cell], port[i]].astype(np.int64)
    return nodes[tuple(size)]


def pair_loads(
    torus: Torus, src: NDArray[np.integer], dst: NDArray[np.integer]
) -> NDArray[np.float64]:
    """Return the messages between nodes over every link in dimension order, ``(n_links,)``.

    Half of a split or random tie is expected each way.
    """
    here, there = (np.ascontiguousarray(end, dtype=np.int32) for end in (src, dst))
    if torus.twist:
        return _twisted_loads(torus, here, there, np.ones(here.size))
    # A split tie halves messages, so their number is doubled to stay whole.
    halves = 2 if torus.ties_are_open else 1
    load = np.zeros(torus.n_links, dtype=np.int64)
    nodes = np.arange(torus.n_nodes, dtype=np.int32)
    weight = np.full(here.size, halves, dtype=np.int64)
    kernels.add_loads(grid_of(torus), here, there, nodes, weight, load)
    return load / halves


def check_missing(load: NDArray[np.float64], problem: MappingProblem, mapping: TaskMapping) -> None:
    """Raise `InputError` if a missing link bears a load; name the message.

    Makers do not say how a router leads round a missing link, so every route is of the whole torus.
    """
    comm, torus = problem.comm, problem.torus
    missing = np.array(torus.exclusions.links, dtype=np.int64)
    used = missing[load[missing] > 0]
    if not used.size:
        return
    link = int(used[0])
    src, dst = comm.src[:_LOOKED_AT], comm.dst[:_LOOKED_AT]
    first, links = routes(torus, mapping.node[src], mapping.node[dst])
    places = np.flatnonzero(links == link)
    sent = comm.nbytes[:_LOOKED_AT] > 0
    edges = np.searchsorted(first, places, side="right") - 1
    edges = edges[sent[edges]]
    who = "a message"
    if edges.size:
        who = f"task {src[edges[0]]} to task {dst[edges[0]]}"
    label = f"mapping {mapping.name}".rstrip()
    raise InputError(
        f"{label} needs a link that is missing",
        found=f"{who} goes over {torus.link_label(link)}",
        expected="a mapping whose routes keep off it; routers do not lead round it",
    )


class Tally(NamedTuple):
    """Results of a pass over the messages of a phase."""

    link_bytes: NDArray[np.float64]  # (n_links,)
    wire_bytes: NDArray[np.float64]  # (n_links,) headers included
    edges_by_hops: NDArray[np.int64]  # (diameter + 1,) those of 0 stay within their node
    fifo_length: NDArray[np.float64]  # (n_nodes * fifos,) messages
    hop_bytes: float
    off_node_bytes: float
    injected: NDArray[np.float64]  # (n_nodes * fifos,) seconds
    received: NDArray[np.float64]  # (n_nodes,) bytes
    latency: float  # seconds of the slowest message


def tally(problem: MappingProblem, mapping: TaskMapping, ways: Ways) -> Tally:
    """Return the results of one pass over the messages, of which it reads about 60 bytes each.

    The problem has one phase. Its data that does not depend on the mapping is prepared once.
    """
    comm, torus = problem.comm, problem.torus
    network = torus.network
    adaptive = problem.routing == "adaptive"
    takes_any = network.fifo_rule == "first_free"
    side_by_side = np.zeros(0, dtype=np.bool_)
    if takes_any and (adaptive or torus.ties_are_open):
        side_by_side = have_two_ways(problem, mapping)
    prepared = prepare(problem)
    runs = None if adaptive or torus.twist else worthwhile_runs(torus, comm.n_edges)
    table, columns = run_table(torus), prepared.edges.units.shape[1]
    fifo = np.zeros((torus.n_nodes * network.fifos, 2))
    sums = Sums(
        run=np.zeros(0 if runs is None else columns * runs.n_runs, dtype="<i8"),
        edges=np.zeros(torus.diameter + 1, dtype=np.int64),
        fifo=fifo,
        received=np.zeros(table.plane),
        one=np.zeros(3),
    )
    constants = Constants(
        fifos=network.fifos,
        takes_any=int(takes_any),
        injection=1 / max(torus.bandwidth),
        memory=1 / network.memory_bandwidth,
        latency=network.hop_latency,
        wire_unit=prepared.wire_unit,
    )
    node, there = mapping.node, scratch("codes", comm.n_edges, np.int32)
    run_kernels.add_up(table, prepared.edges, ways, side_by_side, constants, node, sums, there)
    return Tally(
        *_tallied_loads(problem, mapping, sums.run),
        sums.edges,
        fifo[:, 0].copy(),
        float(sums.one[HOP_BYTES]),
        float(sums.one[OFF_NODE]),
        fifo[:, 1].copy(),
        sums.received[table.code & (table.plane - 1)],
        float(sums.one[SLOWEST]),
    )


def _tallied_loads(
    problem: MappingProblem, mapping: TaskMapping, run: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the bytes of the links and those on the wire; a pass each if no runs were filled."""
    torus, prepared = problem.torus, prepare(problem)
    if not run.size:
        plain = sum_loads(problem, mapping, problem.comm.nbytes)
        return plain, sum_loads(problem, mapping, prepared.wire_bytes)
    load = np.zeros((2, torus.n_links), dtype=np.int64)
    if prepared.edges.units.shape[1] == 1:
        run = run.view("<u4").astype(np.int64)
    run_kernels.spread_runs(grid_of(torus), run_table(torus), run, load)
    check_missing(load[0], problem, mapping)
    return load[0] * prepared.byte_unit, load[1] * prepared.wire_unit


@dataclass(frozen=True, eq=False)
class PhaseRoutes:
    """Routes of one phase, or of rounds without a barrier; each result is computed when needed."""

    problem: MappingProblem
    mapping: TaskMapping

    @lazy
    def ways(self) -> Ways:
        """Hops and injection FIFO of every edge."""
        return edge_ways(self.problem, self.mapping)

    @lazy
    def tally(self) -> Tally:
        """Results of one pass over the messages."""
        return tally(self.problem.unrolled, self.problem.placed(self.mapping), self.ways)

    @property
    def wire_bytes(self) -> NDArray[np.float64]:
        """Bytes of a phase over each link with headers; alone they take half of that pass."""
        if "tally" in vars(self):
            return self.tally.wire_bytes
        return sum_loads(self.problem, self.mapping, prepare(self.problem).wire_bytes)


def have_two_ways(problem: MappingProblem, mapping: TaskMapping) -> NDArray[np.bool_]:
    """Return whether packets of each edge of a phase may take different routes, ``(n_edges,)``."""
    comm, torus = problem.comm, problem.torus
    src, dst = mapping.node[comm.src], mapping.node[comm.dst]
    if torus.twist:
        # Adaptive packets take the hops of their message in any order.
        several = (torus.twisted_hops(src, dst) != 0).sum(axis=1) > 1
        return np.asarray(several & (problem.routing == "adaptive"))
    gap = np.abs(torus.coords[dst] - torus.coords[src])
    fixed = TIE_RULES[torus.tie_break].adaptive_fixed
    tied = (np.array(torus.wrap) & (2 * gap == np.array(torus.shape))).any(axis=1)
    in_order = tied & torus.ties_are_open
    if problem.routing == "deterministic":
        return np.asarray(in_order)
    by_choice = (tied & (not fixed)) | ((gap > 0).sum(axis=1) > 1)
    return np.asarray(np.where(torus.has_zones[torus.zone_set_of(src, dst)], by_choice, in_order))
