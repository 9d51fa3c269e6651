"""Loads of links, injection FIFOs and receivers, updated incrementally while tasks move."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.mapping import CommGraph, MappingProblem, TaskMapping, Torus
from toruscast.mapping.torus import TIE_RULES, Exclusions
from toruscast.routing import route_kernels as kernels
from toruscast.routing.loads import link_loads
from toruscast.routing.messages import fixed_point, packet_counts
from toruscast.routing.routing import FIFO_RULES, fifos_between, routes
from toruscast.typing import Floats, Int32s, Ints
from toruscast.validation import Routing

from ._anneal_kernels import (
    LoadChange,
    LoadState,
    ResourceTable,
    TaskEdges,
    add_loads_of_edges,
    move_tasks,
)

# Maximum nodes for which the routes between all pairs are kept in memory.
MAX_NODES = 2048
# Maximum entries of split routes.
_MAX_ENTRIES = 2**26
# Missing links count as slower by this factor, so that good mappings avoid them.
_MISSING_LINK_FACTOR = 1e3
# Parts of a unit with adaptive routing; shares of even splits are rounded to whole parts.
_PARTS = 2**16


def build_resource_table(problem: MappingProblem) -> ResourceTable:
    """Return the resources on the routes between all pairs of nodes.

    Resources are links as in `Torus`, then injection FIFOs ``node * fifos + fifo`` (with round
    robin, only the first of a node is used), then a receiver for each node.
    """
    torus, n = problem.torus, problem.torus.n_nodes
    # If some phases are adaptive, all are treated as adaptive.
    is_adaptive = problem.common_routing != "deterministic"
    if n > MAX_NODES:
        raise InputError(
            "torus too large to search on", found=f"{n} nodes", expected=f"at most {MAX_NODES}"
        )
    src, dst = (np.ascontiguousarray(a, dtype=np.int32) for a in np.divmod(np.arange(n * n), n))
    parts, share = 1, np.zeros(0, dtype=np.int32)
    if is_adaptive or torus.ties_are_open:
        # In dimension order, a tie splits the traffic along its dimension into halves.
        parts = _PARTS if is_adaptive else 2
        count, link, share = _split_routes(torus, is_adaptive, parts)
    else:
        first, link = routes(torus, src, dst)
        count = np.diff(first)
    remote = src != dst
    first = np.zeros(n * n + 1, dtype=np.int32)
    np.cumsum(count + 2 * remote, out=first[1:])
    # All small tori share one type, because kernels are compiled anew for each type.
    dtype = np.promote_types(np.uint16, np.min_scalar_type(count_resources(torus)))
    resource = np.empty(first[-1], dtype=dtype)
    begin, end = first[:-1][remote], first[1:][remote] - 1
    is_link = np.ones(first[-1], dtype=np.bool_)
    is_link[begin] = is_link[end] = False
    resource[is_link] = link
    network = torus.network
    shares_queue = FIFO_RULES[network.fifo_rule] == kernels.ROUND_ROBIN
    fifo = 0 if shares_queue else fifos_between(torus, src, dst)[remote]
    resource[begin] = torus.n_links + src[remote] * network.fifos + fifo
    resource[end] = torus.n_links + n * network.fifos + dst[remote]
    shares = share
    if parts > 1:
        shares = np.full(first[-1], parts, dtype=np.int32)
        shares[is_link] = share
    hops = torus.distance(src, dst).astype(np.uint16)
    return ResourceTable(first, resource, shares, hops, n, parts)  # type: ignore[arg-type]


def count_resources(torus: Torus) -> int:
    """Return the number of links, injection FIFOs and receivers."""
    return torus.n_links + torus.n_nodes * (torus.network.fifos + 1)


def seconds_per_byte(torus: Torus) -> Floats:
    """Return the seconds per byte on each resource, ``(n_resources,)``."""
    network = torus.network
    shares_queue = FIFO_RULES[network.fifo_rule] == kernels.ROUND_ROBIN
    fifo_seconds = 1 / max(torus.bandwidth) / (network.fifos if shares_queue else 1)
    links = 1 / torus.link_bandwidth
    links[list(torus.exclusions.links)] *= _MISSING_LINK_FACTOR
    fifos = np.full(torus.n_nodes * network.fifos, fifo_seconds)
    receivers = np.full(torus.n_nodes, 1 / network.memory_bandwidth)
    return np.concatenate([links, fifos, receivers])


def _split_routes(torus: Torus, is_adaptive: bool, parts: int) -> tuple[Any, Any, Any]:
    """Return how many links the routes of each pair of nodes use, the links, and their shares.

    Routes depend only on the difference of two nodes, so they are computed once for each difference
    and then shifted to all sources.
    """
    # Routes do not depend on exclusions.
    torus = replace(torus, exclusions=Exclusions())
    if torus.twist:
        raise InputError(
            "cannot search with split routes on a twisted torus",
            found=torus,
            expected="deterministic routing, or an untwisted torus",
        )
    shape, wrap = np.array(torus.shape), np.array(torus.wrap)
    by_parity = is_adaptive and TIE_RULES[torus.tie_break].adaptive_fixed
    routing: Routing = "adaptive" if is_adaptive else "deterministic"
    # Signed hops along each dimension, and parities of the source if these decide a tie.
    gaps, parities = [], []
    for size, is_ring in zip(torus.shape, torus.wrap, strict=True):
        gaps.append(range(size) if is_ring else range(1 - size, size))
        parities.append(range(2 if by_parity and is_ring and size % 2 == 0 else 1))
    routes_by_gap = []
    count = np.zeros(torus.n_nodes**2, dtype=np.int64)
    for gap, parity in itertools.product(itertools.product(*gaps), itertools.product(*parities)):
        hops, odd = np.array(gap), np.array(parity)
        is_tie = wrap & (2 * hops == shape) & bool(by_parity)
        if (odd > is_tie).any():
            continue
        # Routes that start at this corner stay inside a mesh.
        corner = np.where(hops < 0, shape - 1, odd)
        endpoints = torus.node([corner, (corner + hops) % shape])
        if endpoints[0] == endpoints[1]:
            continue
        problem = MappingProblem(CommGraph(2, [0], [1], [parts]), torus, routing)
        load = link_loads(problem, TaskMapping(endpoints, torus))
        links = np.flatnonzero(np.rint(load))
        node, port = np.divmod(links, 2 * torus.ndim)
        target = torus.coords + hops
        is_on_torus = wrap | ((target >= 0) & (target < shape))
        has_parity = ~is_tie | (torus.coords % 2 == odd)
        src = np.flatnonzero((is_on_torus & has_parity).all(axis=1))
        pair = src * torus.n_nodes + torus.node(target[src] % shape)
        moved_coords = (torus.coords[src][:, None] - corner + torus.coords[node]) % shape
        count[pair] = links.size
        moved_links = torus.node(moved_coords) * 2 * torus.ndim + port
        routes_by_gap.append((pair, moved_links, np.rint(load[links])))
        if count.sum() > _MAX_ENTRIES:
            raise InputError(
                "torus too large to search on with split routes",
                found=f"{torus.n_nodes} nodes",
                expected="fewer nodes, or --routing deterministic with a tie rule without splits",
            )
    first = np.cumsum(count) - count
    link: Int32s = np.empty(int(count.sum()), dtype=np.int32)
    share: Int32s = np.empty(int(count.sum()), dtype=np.int32)
    for pair, links, amount in routes_by_gap:  # type: ignore[assignment]
        index: Ints = first[pair][:, None] + np.arange(links.shape[-1])
        link[index] = links
        share[index] = amount.astype(np.int32)
    return count, link, share


class ResourceLoads:
    """Loads of links, injection FIFOs and receivers under a mapping whose tasks may move.

    Loads are integers, so incremental updates are exact. The loads of dependent rounds are added
    up. Adaptive routing counts as an even split, with shares rounded to 2**-16.
    """

    def __init__(
        self,
        problem: MappingProblem,
        mapping: TaskMapping,
        table: ResourceTable,
        byte_column: str = "nbytes",
    ) -> None:
        self.torus = problem.torus
        self.n_phases = 1 if problem.workload.dependent else len(problem.workload)
        edges: TaskEdges = problem.derive(build_task_edges, byte_column, table.parts)
        size = self.n_phases * count_resources(self.torus)
        # Twice the number of loads, because a load can be listed again before repeats are removed.
        listed, max_changes = 2 * size + 1, 2 * int(np.diff(edges.first).max(initial=0))
        change = LoadChange(
            load=np.zeros(size, dtype=np.int64),
            listed=np.zeros(listed, dtype=np.int64),
            amount=np.zeros(listed, dtype=np.int64),
            node=mapping.node.copy(),
            is_moved=np.zeros(mapping.n_tasks, dtype=np.bool_),
            begin=np.zeros(max_changes, dtype=np.int32),
            end=np.zeros(max_changes, dtype=np.int32),
            weight=np.zeros(max_changes, dtype=np.int64),
            base=np.zeros(max_changes, dtype=np.int64),
        )
        load = np.zeros(size, dtype=np.int64)
        self.state = LoadState(edges, table, change, mapping.node.copy(), load)
        self.place(mapping)

    def place(self, mapping: TaskMapping) -> None:
        """Compute the loads of another mapping."""
        self.state.node[:] = self.state.change.node[:] = mapping.node
        self.state.load[:] = 0
        self.hop_units = add_loads_of_edges(self.state)

    def move(self, tasks: Ints, nodes: NDArray[np.integer]) -> None:
        """Move distinct tasks to nodes, without checking the capacity of the nodes."""
        self.state.change.node[tasks] = nodes
        self.hop_units += move_tasks(self.state, tasks)


def build_task_edges(problem: MappingProblem, byte_column: str, parts: int) -> TaskEdges:
    """Return the edges of each task with integer weights; each edge is listed at both tasks.

    ``byte_column`` is "nbytes" or "wire_bytes" (with headers), and ``parts`` the number of parts in
    a unit.
    """
    workload, torus = problem.workload, problem.torus
    columns = []
    for number, phase in enumerate(problem.phases):
        comm = phase.comm
        weight = comm.nbytes
        if byte_column == "wire_bytes":
            packets, packet_bytes = packet_counts(phase)
            weight = packets * packet_bytes
        is_remote = comm.src != comm.dst
        base = np.full(comm.n_edges, 0 if workload.dependent else number * count_resources(torus))
        columns.append([a[is_remote] for a in (comm.src, comm.dst, weight, base)])
    src, dst, weight, base = (np.concatenate(part) for part in zip(*columns, strict=True))
    # The total of hops times units over all edges must fit into 64 bits.
    units, unit = fixed_point(weight, factor=parts * max(torus.diameter, 1))
    task = np.concatenate([src, dst])
    order = np.argsort(task, kind="stable")
    first = np.concatenate([[0], np.cumsum(np.bincount(task, minlength=problem.n_tasks))])
    is_source = np.arange(task.size) < src.size
    return TaskEdges(
        first.astype(np.int64),
        np.concatenate([dst, src])[order].astype(np.int32),
        is_source[order],
        np.concatenate([units, units])[order],
        np.concatenate([base, base])[order].astype(np.int64),
        unit,
    )
