"""Link loads, loads along routes, and totals over the messages of a phase.

On plain tori, kernels use tables of straight runs where tables save time. Routes of twisted tori
have no such runs, so their links are listed.
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
from toruscast._slow import sparse
from toruscast.errors import InputError
from toruscast.mapping import MappingProblem, TaskMapping, Torus
from toruscast.mapping.network import Groups
from toruscast.mapping.torus import TIE_RULES
from toruscast.typing import Bools, Floats, Int32s, Ints
from toruscast.validation import as_array

from . import _load_kernels as run_kernels
from . import route_kernels as kernels
from ._load_kernels import PassConstants, PassSums
from .messages import fixed_point, prepare_edges
from .route_kernels import HopsAndFifos
from .routing import find_hops_and_fifos, grid_of, list_routes
from .tables import offset_table, run_table, run_table_if_faster

# Maximum number of edges to search for a message over a missing link, and of edges whose routes are
# listed together.
_MAX_SEARCHED, _EDGES_AT_A_TIME = 100_000, 2**18


def link_loads(
    problem: MappingProblem, mapping: TaskMapping, weights: ArrayLike | None = None
) -> Floats:
    """Return the bytes that the routing puts on every directed link.

    In dimension order, half of the traffic of a split or random tie is expected in each direction.
    With adaptive routing, every message is split evenly over its minimal routes, zone after zone.

    Parameters
    ----------
    weights : array-like of float, shape (n_edges,), optional
        Weights to add instead of bytes, such as packets, for the edges of all phases, one phase
        after the other. They must be 0 or more, with a finite sum.

    Returns
    -------
    ndarray, shape (n_links,)
        In the order of `Torus`: ``node * 2 * D + 2 * d + s``. Messages within a node use no links.

    Notes
    -----
    On a twisted torus, a message is split evenly over all orders of its hops. On other tori, sums
    in dimension order use 64-bit fixed point, scaled by a power of two to fit the total. Integer
    byte counts below 2**61 in total are exact; fractions are rounded to 2**-61 of the total.

    Examples
    --------
    >>> problem = MappingProblem(CommGraph(2, [0], [1], [100]), (8,))
    >>> link_loads(problem, TaskMapping([6, 1], 8)).reshape(8, 2)[:, 0]
    array([100.,   0.,   0.,   0.,   0.,   0., 100., 100.])
    """
    mapping = problem.mapping(mapping)
    if weights is not None:
        weights = _check_weights(weights, problem.unrolled.comm.n_edges)
    elif problem.common_routing is not None:
        return sum_loads(problem.total, mapping, problem.total.comm.nbytes)
    return sum_loads(problem, mapping, weights)


def sum_loads(
    problem: MappingProblem, mapping: TaskMapping, weight: Floats | None = None
) -> Floats:
    """Return the result of `link_loads` for checked weights."""
    if weight is None:
        weight = problem.unrolled.comm.nbytes
    if problem.common_routing is None:
        weights = np.split(weight, problem.workload.unrolled.begin[1:-1])
        parts = zip(problem.phases, weights, strict=True)
        loads = [sum_loads(phase, mapping, phase_weight) for phase, phase_weight in parts]
        return np.asarray(np.sum(loads, axis=0), dtype=np.float64)
    phase, placed = problem.unrolled, problem.placed(mapping)
    spread = _adaptive_loads if phase.routing == "adaptive" else _ordered_loads
    load = spread(phase, placed, weight)
    check_missing_links(load, phase, placed)
    return load


def check_routes(problem: MappingProblem, mapping: TaskMapping) -> None:
    """Raise `InputError` if the route of a message has a missing link."""
    if problem.torus.exclusions.links:
        for phase in problem.phases:
            sum_loads(phase, mapping, phase.comm.nbytes)


def _ordered_loads(problem: MappingProblem, mapping: TaskMapping, weight: Floats) -> Floats:
    """Return the loads of a one-phase problem in dimension order, ``(n_links,)``."""
    comm, torus = problem.comm, problem.torus
    runs = run_table_if_faster(torus, comm.n_edges)
    if runs is None:
        return pair_loads(torus, mapping.node[comm.src], mapping.node[comm.dst], weight)
    fixed, scale = fixed_point(weight, parts=1 + torus.ties_are_open)
    run, load = np.zeros(runs.n_runs, dtype=np.int64), np.zeros((1, torus.n_links), dtype=np.int64)
    dst_code = scratch("codes", comm.n_edges, np.int32)
    run_kernels.add_to_runs(runs, comm.dst, comm.first, mapping.node, fixed, run, dst_code)
    run_kernels.spread_runs(grid_of(torus), runs, run, load)
    return np.asarray(load[0] * scale, dtype=np.float64)


class RouteLoads(NamedTuple):
    """Statistics, over all edges, of the link loads along a route; 0 for an edge within a node."""

    max_sum: float  # largest sum of the loads along a route
    total: float  # sum of the loads along all routes
    sum_of_max: float  # sum over all routes of their maximum load


def sum_loads_along_routes(
    problem: MappingProblem, mapping: TaskMapping, load: Floats
) -> RouteLoads:
    """Return statistics of the loads along dimension-ordered routes; open ties count as plus."""
    comm, torus, node = problem.comm, problem.torus, mapping.node
    runs = run_table_if_faster(torus, comm.n_edges)
    if runs is not None:
        run_loads = np.zeros((runs.n_runs, 2))
        run_kernels.sum_loads_over_runs(grid_of(torus), runs, load, run_loads)
        dst_code = scratch("codes", comm.n_edges, np.int32)
        arrays = comm.dst, comm.first, node, run_loads, dst_code
        return RouteLoads(*run_kernels.sum_run_loads_over_routes(runs, *arrays))
    max_sum = total = sum_of_max = 0.0
    for begin in range(0, comm.n_edges, _EDGES_AT_A_TIME):
        edges = slice(begin, begin + _EDGES_AT_A_TIME)
        first, links = list_routes(torus, node[comm.src[edges]], node[comm.dst[edges]])
        starts = first[:-1][np.diff(first) > 0]
        if starts.size:
            sums = np.add.reduceat(load[links], starts)
            maxima = np.maximum.reduceat(load[links], starts)
            max_sum = max(max_sum, float(sums.max()))
            total += float(sums.sum())
            sum_of_max += float(maxima.sum())
    return RouteLoads(max_sum, total, sum_of_max)


def _check_weights(values: ArrayLike, n_edges: int) -> Floats:
    """Return weights of edges as floats; raise `InputError` for a wrong shape or bad values."""
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


def _adaptive_loads(problem: MappingProblem, mapping: TaskMapping, weight: Floats) -> Floats:
    """Return the loads of a one-phase problem, split evenly over minimal routes.

    Pairs of nodes with the same zones (`Torus.zone_set_of`) are processed together.
    """
    torus = problem.torus
    load = np.zeros(torus.n_links)
    src, dst, weight = _merge_node_pairs(problem, mapping, weight)
    if torus.twist:
        return _twisted_adaptive_loads(torus, src, dst, weight)
    set_of = torus.zone_set_of(src, dst)
    for number, zones in enumerate(torus.zone_sets):
        selected = np.flatnonzero(set_of == number)
        endpoints = src[selected], dst[selected]
        if zones:
            _spread_over_zones(torus, zones, *endpoints, weight[selected], load)
        else:
            load += pair_loads(torus, *endpoints, weight[selected])
    return load


def _merge_node_pairs(
    problem: MappingProblem, mapping: TaskMapping, weight: Floats
) -> tuple[Int32s, Int32s, Floats]:
    """Return the distinct pairs of nodes with edges, and the total weight of each pair."""
    comm, n_tasks, n_nodes = problem.comm, problem.n_tasks, problem.torus.n_nodes
    traffic = sparse.csr_array((weight, comm.dst, comm.first), shape=(n_tasks, n_tasks))
    entries = np.ones(n_tasks), mapping.node, np.arange(n_tasks + 1)
    placement = sparse.csr_array(entries, shape=(n_tasks, n_nodes))
    between_nodes = (placement.T @ traffic @ placement).tocoo()
    src, dst = between_nodes.row.astype(np.int32), between_nodes.col.astype(np.int32)
    return src, dst, between_nodes.data


def _spread_over_zones(
    torus: Torus, zones: Groups, src: Int32s, dst: Int32s, weight: Floats, load: Floats
) -> None:
    """Add the weights of messages to the links of their minimal routes, zone by zone.

    ``src``, ``dst`` and ``weight`` have an entry for each message, and ``load`` one for each link.
    """
    grid = grid_of(torus)
    # All routes of a message through a zone end at the same node, where its next zone begins.
    for zone in zones:
        zone_offset = torus.coords[:, zone] @ grid.stride[list(zone)]
        zone_end = src - zone_offset[src] + zone_offset[dst]
        # NumPy sorts keys of 16 bits in linear time.
        by_end = np.argsort(zone_end.astype(np.min_scalar_type(torus.n_nodes - 1)), kind="stable")
        minus, plus = np.zeros((2, torus.ndim), dtype=np.int64)
        run_kernels.update_max_hops(grid, src, zone_end, minus, plus)
        table = offset_table(minus, plus)
        run_kernels.add_adaptive_loads(grid, table, src, zone_end, by_end, weight, load)
        src = zone_end


def _twisted_adaptive_loads(torus: Torus, src: Int32s, dst: Int32s, weight: Floats) -> Floats:
    """Return the loads of messages that are split evenly over the orders of their hops."""
    load = np.zeros(torus.n_links)
    hops, group = np.unique(torus.twisted_hops(src, dst), axis=0, return_inverse=True)
    group = group.ravel()  # NumPy 2.0 returns a column.
    by_group = np.argsort(group, kind="stable")
    begin = np.searchsorted(group[by_group], np.arange(len(hops) + 1))
    for number, group_hops in enumerate(hops):
        selected = by_group[begin[number] : begin[number + 1]]
        current = src[selected].astype(np.int64)
        for zone in torus.zone_sets[0]:
            current = _spread_orders(torus, group_hops, zone, current, weight[selected], load)
    return load


def _spread_orders(
    torus: Torus, hops: Int32s, zone: Sequence[int], start: Ints, weight: Floats, load: Floats
) -> Ints:
    """Add messages with the same hops to ``load``, split evenly over the orders of hops in a zone.

    Return the node of each message after the zone, ``(n_messages,)``.
    """
    port = [2 * k + int(hops[k] < 0) for k in zone]
    size = [abs(int(hops[k])) for k in zone]
    share: dict[tuple[int, ...], float] = defaultdict(float)
    share[(0,) * len(zone)] = 1.0
    nodes = {(0,) * len(zone): start}
    # A cell is the number of hops done along each dimension. In C order, a cell comes after all
    # cells that lead to it.
    for cell in product(*(range(k + 1) for k in size)):
        n_left = sum(size) - sum(cell)
        for i in range(len(zone)):
            if cell[i] == size[i]:
                continue
            # If all orders of hops are equally probable, the probability that the next hop is along
            # a dimension is (hops left along it) / (hops left).
            step_share = share[cell] * (size[i] - cell[i]) / n_left
            link = nodes[cell] * 2 * torus.ndim + port[i]
            np.add.at(load, link, weight * step_share)
            next_cell = (*cell[:i], cell[i] + 1, *cell[i + 1 :])
            share[next_cell] += step_share
            nodes[next_cell] = torus.neighbors[nodes[cell], port[i]].astype(np.int64)
    return nodes[tuple(size)]


def pair_loads(
    torus: Torus, src: NDArray[np.integer], dst: NDArray[np.integer], weight: Floats | None = None
) -> Floats:
    """Return the loads of messages between nodes in dimension order; by default, each weighs 1."""
    src, dst = (np.ascontiguousarray(nodes, dtype=np.int32) for nodes in (src, dst))
    weight = np.ones(src.size) if weight is None else weight
    if torus.twist:
        first, links = list_routes(torus, src, dst)
        load = np.bincount(links, np.repeat(weight, np.diff(first)), minlength=torus.n_links)
        return np.asarray(load, dtype=np.float64)
    fixed, scale = fixed_point(weight, parts=1 + torus.ties_are_open)
    units = np.zeros(torus.n_links, dtype=np.int64)
    kernels.add_loads(grid_of(torus), src, dst, fixed, units)
    return np.asarray(units * scale, dtype=np.float64)


def check_missing_links(load: Floats, problem: MappingProblem, mapping: TaskMapping) -> None:
    """Raise `InputError` if a missing link has a load, and name a message that uses it.

    Routes ignore missing links, because vendors do not publish how routers avoid them.
    """
    comm, torus = problem.comm, problem.torus
    missing = np.array(torus.exclusions.links, dtype=np.int64)
    used = missing[load[missing] > 0]
    if not used.size:
        return
    link = int(used[0])
    sent = np.flatnonzero(comm.nbytes > 0)[:_MAX_SEARCHED]
    src, dst = comm.src[sent], comm.dst[sent]
    first, links = list_routes(torus, mapping.node[src], mapping.node[dst])
    message = "a message"
    if (links == link).any():
        edge = np.searchsorted(first, np.argmax(links == link), side="right") - 1
        message = f"task {src[edge]} to task {dst[edge]}"
    label = f"mapping {mapping.name}".rstrip()
    raise InputError(
        f"{label} routes a message over a missing link",
        found=f"{message} goes over {torus.link_label(link)}",
        expected="a mapping whose routes avoid it; routers do not detour",
    )


class PhaseTotals(NamedTuple):
    """Totals over the messages of a phase."""

    link_bytes: Floats  # (n_links,)
    wire_bytes: Floats  # (n_links,) headers included
    edges_by_hops: Ints  # (diameter + 1,) number of edges
    fifo_length: Floats  # (n_nodes * fifos,) messages
    hop_bytes: float
    off_node_bytes: float
    injected: Floats  # (n_nodes * fifos,) seconds
    received: Floats  # (n_nodes,) bytes
    latency: float  # seconds of the slowest message


def compute_totals(
    problem: MappingProblem, mapping: TaskMapping, routes: HopsAndFifos
) -> PhaseTotals:
    """Return the totals of a one-phase problem, from one pass over its messages.

    In dimension order, the pass also sums the loads if a run table is faster. Otherwise, link loads
    take two more passes.
    """
    comm, torus = problem.comm, problem.torus
    network = torus.network
    adaptive = problem.routing == "adaptive"
    shares_queue = network.fifo_rule == "first_free"
    leaves_in_parallel = np.zeros(0, dtype=np.bool_)
    if shares_queue and (adaptive or torus.ties_are_open):
        leaves_in_parallel = edges_with_multiple_routes(problem, mapping)
    prepared = prepare_edges(problem)
    runs = None if adaptive else run_table_if_faster(torus, comm.n_edges)
    table, columns = run_table(torus), prepared.edges.units.shape[1]
    sums = PassSums(
        run=np.zeros(0 if runs is None else columns * runs.n_runs, dtype="<i8"),
        edges_by_hops=np.zeros(torus.diameter + 1, dtype=np.int64),
        fifo=np.zeros((torus.n_nodes * network.fifos, 2)),
        received=np.zeros(table.plane),
    )
    constants = PassConstants(
        fifos=network.fifos,
        shares_queue=int(shares_queue),
        injection=1 / max(torus.bandwidth),
        memory=1 / network.memory_bandwidth,
        latency=network.hop_latency,
        wire_unit=prepared.wire_unit,
    )
    node, dst_code = mapping.node, scratch("codes", comm.n_edges, np.int32)
    hop_bytes, off_node_bytes, latency = run_kernels.sum_over_edges(
        table, prepared.edges, routes, leaves_in_parallel, constants, node, sums, dst_code
    )
    link_bytes, wire_bytes = _link_totals(problem, mapping, sums.run)
    return PhaseTotals(
        link_bytes=link_bytes,
        wire_bytes=wire_bytes,
        edges_by_hops=sums.edges_by_hops,
        fifo_length=sums.fifo[:, 0].copy(),
        hop_bytes=hop_bytes,
        off_node_bytes=off_node_bytes,
        injected=sums.fifo[:, 1].copy(),
        received=sums.received[table.code & (table.plane - 1)],
        latency=latency,
    )


def _link_totals(problem: MappingProblem, mapping: TaskMapping, run: Ints) -> tuple[Floats, Floats]:
    """Return the bytes of each link without and with headers, ``(n_links,)`` both.

    ``run`` has the units of each run. If it is empty, the loads are computed from the edges.
    """
    torus, prepared = problem.torus, prepare_edges(problem)
    if not run.size:
        plain = sum_loads(problem, mapping, problem.comm.nbytes)
        return plain, sum_loads(problem, mapping, prepared.wire_bytes)
    load = np.zeros((2, torus.n_links), dtype=np.int64)
    if prepared.edges.units.shape[1] == 1:
        run = run.view("<u4").astype(np.int64)
    run_kernels.spread_runs(grid_of(torus), run_table(torus), run, load)
    check_missing_links(load[0], problem, mapping)
    return load[0] * prepared.byte_unit, load[1] * prepared.wire_unit


@dataclass(frozen=True, eq=False)
class PhaseRoutes:
    """Routes of one phase, or of rounds without a barrier, computed on first access."""

    problem: MappingProblem
    mapping: TaskMapping

    @lazy
    def hops_and_fifos(self) -> HopsAndFifos:
        """Hops and injection FIFO of every edge."""
        return find_hops_and_fifos(self.problem, self.mapping)

    @lazy
    def totals(self) -> PhaseTotals:
        """Totals over the messages."""
        phase, placed = self.problem.unrolled, self.problem.placed(self.mapping)
        return compute_totals(phase, placed, self.hops_and_fifos)

    @property
    def wire_bytes(self) -> Floats:
        """Bytes over each link with headers, without computing the other totals."""
        if "totals" in vars(self):
            return self.totals.wire_bytes
        return sum_loads(self.problem, self.mapping, prepare_edges(self.problem).wire_bytes)


def edges_with_multiple_routes(problem: MappingProblem, mapping: TaskMapping) -> Bools:
    """Return which edges have packets that may take different routes, ``(n_edges,)``."""
    comm, torus = problem.comm, problem.torus
    src, dst = mapping.node[comm.src], mapping.node[comm.dst]
    if torus.twist:
        # Adaptive packets take the hops of their message in any order.
        several_dimensions = (torus.twisted_hops(src, dst) != 0).sum(axis=1) > 1
        return np.asarray(several_dimensions & (problem.routing == "adaptive"))
    gap = np.abs(torus.coords[dst] - torus.coords[src])
    is_tie = (np.array(torus.wrap) & (2 * gap == np.array(torus.shape))).any(axis=1)
    by_tie = is_tie & torus.ties_are_open
    if problem.routing == "deterministic":
        return np.asarray(by_tie)
    ties_are_fixed = TIE_RULES[torus.tie_break].adaptive_fixed
    by_choice = (is_tie & (not ties_are_fixed)) | ((gap > 0).sum(axis=1) > 1)
    return np.asarray(np.where(torus.has_zones[torus.zone_set_of(src, dst)], by_choice, by_tie))
