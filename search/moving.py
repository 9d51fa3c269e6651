"""Loads of a mapping, updated while tasks change places, and what each message uses."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.mapping import CommGraph, MappingProblem, TaskMapping, Torus
from toruscast.mapping.torus import TIE_RULES, Exclusions
from toruscast.routing import route_kernels as kernels
from toruscast.routing.loads import link_loads
from toruscast.routing.messages import packet_counts
from toruscast.routing.routing import FIFO_RULES, fifos_between, routes
from toruscast.validation import Routing

from ._anneal_kernels import Change, Ends, Uses, add_all, move_tasks

# Most nodes for which the ways between all pairs are kept in memory.
MAX_NODES = 2048
# Most uses of divided ways that are kept.
_MAX_USES = 2**26
# Missing links count as so much slower: nothing good goes over one.
_MISSING = 1e3
# Parts of a unit to which even splits are rounded.
_PARTS = 2**16
# Sums of weights stay below this, so that they are exact in 64 bits.
_MAX_SUM = 2.0**61


def uses_of(problem: MappingProblem) -> Uses:
    """Return the ways between all nodes under the routing of a problem.

    If some phases are adaptive, all are taken as adaptive.
    """
    adaptive = problem.common_routing != "deterministic"
    return table_of_uses(problem.torus, "adaptive" if adaptive else "deterministic")


def table_of_uses(torus: Torus, routing: Routing = "deterministic") -> Uses:
    """Return the resources between all pairs of nodes.

    Resources are links as in `Torus`, then injection FIFOs ``node * fifos + fifo`` (only a node's
    first where they take turns), then a receiver for each node.
    """
    n = torus.n_nodes
    if n > MAX_NODES:
        raise InputError(
            "torus too large to search on", found=f"{n} nodes", expected=f"at most {MAX_NODES}"
        )
    src, dst = (np.ascontiguousarray(a, dtype=np.int32) for a in np.divmod(np.arange(n * n), n))
    parts, share = 1, np.zeros(0, dtype=np.int32)
    if routing == "adaptive" or torus.ties_are_open:
        # Ties in different dimensions split independently, in halves.
        parts = _PARTS if routing == "adaptive" else 2
        count, link, share = _split_ways(torus, routing, parts)
    else:
        first, link = routes(torus, src, dst)
        count = np.diff(first)
    remote = src != dst
    first = np.zeros(n * n + 1, dtype=np.int32)
    np.cumsum(count + 2 * remote, out=first[1:])
    # The same type for small tori: each further one is compiled for anew.
    kind = np.promote_types(np.uint16, np.min_scalar_type(n_resources(torus)))
    resource = np.empty(first[-1], dtype=kind)
    begin, end = first[:-1][remote], first[1:][remote] - 1
    is_link = np.ones(first[-1], dtype=np.bool_)
    is_link[begin] = is_link[end] = False
    resource[is_link] = link
    network = torus.network
    in_turns = FIFO_RULES[network.fifo_rule] == kernels.ROUND_ROBIN
    fifo = 0 if in_turns else fifos_between(torus, src, dst)[remote]
    resource[begin] = torus.n_links + src[remote] * network.fifos + fifo
    resource[end] = torus.n_links + n * network.fifos + dst[remote]
    shares = share
    if parts > 1:
        shares = np.full(first[-1], parts, dtype=np.int32)
        shares[is_link] = share
    hops = torus.distance(src, dst).astype(np.uint16)
    return Uses(first, resource, shares, hops, n, parts)  # type: ignore[arg-type]


def n_resources(torus: Torus) -> int:
    """Return the number of links, injection FIFOs and receivers."""
    return torus.n_links + torus.n_nodes * (torus.network.fifos + 1)


def seconds_of_uses(torus: Torus) -> NDArray[np.float64]:
    """Return the seconds of a byte on each resource, ``(n_resources,)``."""
    network = torus.network
    turns = FIFO_RULES[network.fifo_rule] == kernels.ROUND_ROBIN
    fifo = 1 / max(torus.bandwidth) / (network.fifos if turns else 1)
    links = 1 / torus.link_bandwidth
    links[list(torus.exclusions.links)] *= _MISSING
    return np.concatenate(
        [
            links,
            np.full(torus.n_nodes * network.fifos, fifo),
            np.full(torus.n_nodes, 1 / network.memory_bandwidth),
        ]
    )


def _split_ways(torus: Torus, routing: Routing, parts: int) -> tuple[Any, Any, Any]:
    """Return the links of each pair of nodes, their number, and their shares where ways divide."""
    # Which ways there are does not depend on which are ours.
    torus = replace(torus, exclusions=Exclusions())
    if torus.twist:
        raise InputError(
            "ways that divide on a twisted torus cannot be searched on",
            found=torus,
            expected="deterministic routing, or an untwisted torus",
        )
    shape, wrap = np.array(torus.shape), np.array(torus.wrap)
    gaps = [
        range(k) if w else range(1 - k, k) for k, w in zip(torus.shape, torus.wrap, strict=True)
    ]
    by_parity = routing == "adaptive" and TIE_RULES[torus.tie_break].adaptive_fixed
    parities = [
        range(2 if by_parity and w and not k % 2 else 1)
        for k, w in zip(torus.shape, torus.wrap, strict=True)
    ]
    found = []
    count = np.zeros(torus.n_nodes**2, dtype=np.int64)
    for gap, parity in itertools.product(itertools.product(*gaps), itertools.product(*parities)):
        step, odd = np.array(gap), np.array(parity)
        tied = wrap & (2 * step == shape) & bool(by_parity)
        if (odd > tied).any():
            continue
        # Start at the corner from which these hops stay inside a mesh.
        corner = np.where(step < 0, shape - 1, odd)
        ends = torus.node([corner, (corner + step) % shape])
        if ends[0] == ends[1]:
            continue
        message = MappingProblem(CommGraph(2, [0], [1], [parts]), torus, routing)
        load = link_loads(message, TaskMapping(ends, torus))
        links = np.flatnonzero(np.rint(load))
        at, port = np.divmod(links, 2 * torus.ndim)
        inside = torus.coords + step
        is_inside = wrap | ((inside >= 0) & (inside < shape))
        is_alike = ~tied | (torus.coords % 2 == odd)
        start = np.flatnonzero((is_inside & is_alike).all(axis=1))
        pair = start * torus.n_nodes + torus.node(inside[start] % shape)
        moved = (torus.coords[start][:, None] - corner + torus.coords[at]) % shape
        count[pair] = links.size
        found.append((pair, torus.node(moved) * 2 * torus.ndim + port, np.rint(load[links])))
        if count.sum() > _MAX_USES:
            raise InputError(
                "torus too large to search on with ways that divide",
                found=f"{torus.n_nodes} nodes",
                expected="fewer, or --routing deterministic and a tie rule that decides",
            )
    first = np.cumsum(count) - count
    link: NDArray[np.int32] = np.empty(int(count.sum()), dtype=np.int32)
    share: NDArray[np.int32] = np.empty(int(count.sum()), dtype=np.int32)
    for pair, links, amount in found:  # type: ignore[assignment]
        place: NDArray[np.int64] = first[pair][:, None] + np.arange(links.shape[-1])
        link[place] = links
        share[place] = amount.astype(np.int32)
    return count, link, share


class MovingLoads:
    """Loads of links, injection FIFOs and receivers under a mapping whose tasks may be moved.

    They are whole numbers, so after any moves they equal a new count. The rounds of a dependent
    workload count together. Adaptive routing is an even split, rounded to 2**-16.
    """

    def __init__(
        self, problem: MappingProblem, mapping: TaskMapping, uses: Uses, count: str = "nbytes"
    ) -> None:
        self.torus, self.uses = problem.torus, uses
        self.n_phases = 1 if problem.workload.dependent else len(problem.workload)
        self.ends = problem.derive(ends_of, count, uses.parts)
        size = self.n_phases * n_resources(self.torus)
        self.load = np.zeros(size, dtype=np.int64)
        self.node = mapping.node.copy()
        self.units_of_hops = add_all(self.ends, self.uses, self.node, self.load)
        # An edge may list all loads of its way before repeated ones are removed.
        listed, most = 2 * size + 1, 2 * int(np.diff(self.ends.first).max(initial=0))
        self.change = Change(
            load=np.zeros(size, dtype=np.int64),
            listed=np.zeros(listed, dtype=np.int64),
            amount=np.zeros(listed, dtype=np.int64),
            node=self.node.copy(),
            is_moved=np.zeros(self.node.size, dtype=np.bool_),
            begin=np.zeros(most, dtype=np.int32),
            end=np.zeros(most, dtype=np.int32),
            weight=np.zeros(most, dtype=np.int64),
            base=np.zeros(most, dtype=np.int64),
        )

    def place(self, mapping: TaskMapping) -> None:
        """Count the loads of another mapping."""
        self.node[:] = self.change.node[:] = mapping.node
        self.load[:] = 0
        self.units_of_hops = add_all(self.ends, self.uses, self.node, self.load)

    def move(self, tasks: NDArray[np.int64], nodes: NDArray[np.integer]) -> None:
        """Move different tasks to other nodes; room there is not checked."""
        self.change.node[tasks] = nodes
        self.units_of_hops += move_tasks(
            self.ends, self.uses, self.node, self.load, tasks, self.change
        )


def ends_of(problem: MappingProblem, count: str, parts: int) -> Ends:
    """Return the edges at each task with whole weights."""
    workload, torus = problem.workload, problem.torus
    columns = []
    for number, phase in enumerate(problem.phases):
        comm = phase.comm
        weight = comm.nbytes
        if count == "wire_bytes":
            packets, each = packet_counts(phase)
            weight = packets * each
        between = comm.src != comm.dst
        base = np.full(comm.n_edges, 0 if workload.dependent else number * n_resources(torus))
        columns.append([a[between] for a in (comm.src, comm.dst, weight, base)])
    src, dst, weight, base = (np.concatenate(part) for part in zip(*columns, strict=True))
    units, unit = _whole_units(weight, parts * max(torus.diameter, 1))
    task = np.concatenate([src, dst])
    order = np.argsort(task, kind="stable")
    first = np.concatenate([[0], np.cumsum(np.bincount(task, minlength=problem.n_tasks))])
    sends = np.arange(task.size) < src.size
    return Ends(
        first.astype(np.int64),
        np.concatenate([dst, src])[order].astype(np.int32),
        sends[order],
        np.concatenate([units, units])[order],
        np.concatenate([base, base])[order].astype(np.int64),
        unit,
    )


def _whole_units(weight: NDArray[np.float64], most: int) -> tuple[NDArray[np.int64], float]:
    """Return weights in whole units so that ``most`` times their sum fits; in bytes if possible."""
    total = float(weight.sum()) * most
    if total < _MAX_SUM and (weight == np.rint(weight)).all():
        return weight.astype(np.int64), 1.0
    unit = 2.0 ** max(math.ceil(math.log2(max(total, 2.0**-900))) - 61, -1022)
    return np.rint(weight / unit).astype(np.int64), unit
