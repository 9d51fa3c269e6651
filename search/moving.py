"""Loads of a mapping, updated while tasks change places, and what each message uses."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.mapping import CommGraph, MappingProblem, TaskMapping, Torus, Workload, as_workload
from toruscast.mapping.torus import TIE_RULES, Holes
from toruscast.routing import route_kernels as kernels
from toruscast.routing.loads import link_loads
from toruscast.routing.messages import packet_counts
from toruscast.routing.routing import FIFO_RULES, fifos_between, routes
from toruscast.validation import Routing

from ._anneal_kernels import Change, Ends, Uses, add_all, move_tasks

# Most nodes for which the ways between all pairs are kept in memory.
MOST_NODES = 2048
# Most uses of divided ways that are kept.
_MOST_USES = 2**26
# Missing links count as so much slower: nothing good goes over one.
_MISSING = 1e3
# Parts of a unit to which even splits are rounded.
_PARTS = 2**16


def table_of_uses(torus: Torus, routing: Routing = "deterministic") -> tuple[Uses, int]:
    """Return the resources between all pairs of nodes, and the parts of a unit of traffic.

    Resources are links as in `Torus`, then injection FIFOs ``node * fifos + fifo`` (only a node's
    first where they take turns), then a receiver for each node.
    """
    n = torus.n_nodes
    if n > MOST_NODES:
        raise InputError(
            "torus too large to search on", found=f"{n} nodes", expected=f"at most {MOST_NODES}"
        )
    src, dst = (np.ascontiguousarray(a, dtype=np.int32) for a in np.divmod(np.arange(n * n), n))
    hops = torus.distance(src, dst).astype(np.uint16)
    if routing == "adaptive":
        parts = _PARTS
        count, link, share = _split_ways(torus, routing, parts)
    elif torus.ties_are_open:
        # Ties in different dimensions split independently.
        parts = 2
        count, link, share = _split_ways(torus, "deterministic", parts)
    else:
        first, link = routes(torus, src, dst)
        count, share, parts = np.diff(first), np.zeros(0, dtype=np.int32), 1
    fifo = _fifo_between(torus, src, dst)
    remote = src != dst
    ends = remote.astype(np.int64)
    first = np.zeros(n * n + 1, dtype=np.int32)
    np.cumsum(count + 2 * ends, out=first[1:])
    receiver = torus.n_links + n * torus.network.fifos
    # The same type for small tori: each further one is compiled for anew.
    kind = np.promote_types(np.uint16, np.min_scalar_type(receiver + n))
    resource = np.empty(first[-1], dtype=kind)
    begin, end = first[:-1][remote], first[1:][remote] - 1
    is_link = np.ones(first[-1], dtype=np.bool_)
    is_link[begin] = is_link[end] = False
    resource[is_link] = link
    resource[begin] = fifo[remote]
    resource[end] = receiver + dst[remote]
    shares = share
    if share.size or parts > 1:
        shares = np.full(first[-1], parts, dtype=np.int32)
        shares[is_link] = share
    return Uses(first, resource, shares, hops, n), parts  # type: ignore[arg-type]


def seconds_of_uses(torus: Torus) -> NDArray[np.float64]:
    """Return the seconds of a byte on each resource, ``(n_resources,)``."""
    network = torus.network
    turns = FIFO_RULES[network.fifo_rule] == kernels.ROUND_ROBIN
    fifo = 1 / max(torus.bandwidth) / (network.fifos if turns else 1)
    links = 1 / torus.link_bandwidth
    links[list(torus.holes.links)] *= _MISSING
    return np.concatenate(
        [
            links,
            np.full(torus.n_nodes * network.fifos, fifo),
            np.full(torus.n_nodes, 1 / network.memory_bandwidth),
        ]
    )


def _fifo_between(
    torus: Torus, src: NDArray[np.int32], dst: NDArray[np.int32]
) -> NDArray[np.int32]:
    """Return the resource number of the FIFO of each pair of nodes, ``(n_pairs,)``."""
    network = torus.network
    rule = FIFO_RULES[network.fifo_rule]
    fifo = 0 if rule == kernels.ROUND_ROBIN else fifos_between(torus, src, dst)
    return (torus.n_links + src * network.fifos + fifo).astype(np.int32)


def _split_ways(torus: Torus, routing: Routing, parts: int) -> tuple[Any, Any, Any]:
    """Return the links of each pair of nodes, their number, and their shares where ways divide."""
    # Which ways there are does not depend on which are ours.
    torus = replace(torus, holes=Holes())
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
    by_parity = routing == "adaptive" and TIE_RULES[torus.tie].adaptive_fixed
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
        if count.sum() > _MOST_USES:
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


# Sums of weights stay below this, so that they are exact in 64 bits.
_MOST = 2.0**61


class MovingLoads:
    """Loads of links, injection FIFOs and receivers under a mapping whose tasks may be moved.

    They are whole numbers, so after any moves they equal a new count. The rounds of a dependent
    workload count together. Adaptive routing is an even split, rounded to 2**-16.
    """

    def __init__(
        self,
        traffic: Workload | CommGraph,
        torus: Torus,
        mapping: TaskMapping,
        *,
        count: str = "nbytes",
        routing: Routing = "deterministic",
        uses: tuple[Uses, int] | None = None,
        ends: tuple[Ends, float] | None = None,
    ) -> None:
        workload = as_workload(traffic)
        self.torus = torus
        self.uses, self.parts = usable(workload, torus, routing) if uses is None else uses
        n_fifos = torus.n_nodes * torus.network.fifos
        self.n_resources = torus.n_links + n_fifos + torus.n_nodes
        self.n_phases = 1 if workload.dependent else len(workload)
        self.ends, self.unit = ends or ends_of(workload, torus, count, self.n_resources, self.parts)
        size = self.n_phases * self.n_resources
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


def usable(workload: Workload, torus: Torus, routing: Routing) -> tuple[Uses, int]:
    """Return the ways between all nodes under the workload's routing, and the parts of a unit.

    If some phases are adaptive, all are taken as adaptive.
    """
    problem = MappingProblem(workload, torus, routing)
    adaptive = problem.common_routing != "deterministic"
    return table_of_uses(torus, "adaptive" if adaptive else "deterministic")


def ends_of(
    workload: Workload, torus: Torus, count: str, n_resources: int, parts: int
) -> tuple[Ends, float]:
    """Return the edges at each task with whole weights, and the bytes of a unit of weight."""
    columns = []
    for number, comm in enumerate(workload):
        weight = comm.nbytes
        if count == "wire_bytes":
            packets, each = packet_counts(MappingProblem(comm, torus))
            weight = packets * each
        between = comm.src != comm.dst
        base = np.full(comm.n_edges, 0 if workload.dependent else number * n_resources)
        columns.append([a[between] for a in (comm.src, comm.dst, weight, base)])
    src, dst, weight, base = (np.concatenate(part) for part in zip(*columns, strict=True))
    units, unit = _whole(weight, parts * max(torus.diameter, 1))
    task = np.concatenate([src, dst])
    order = np.argsort(task, kind="stable")
    first = np.concatenate([[0], np.cumsum(np.bincount(task, minlength=workload.n_tasks))])
    sends = np.arange(task.size) < src.size
    ends = Ends(
        first.astype(np.int64),
        np.concatenate([dst, src])[order].astype(np.int32),
        sends[order],
        np.concatenate([units, units])[order],
        np.concatenate([base, base])[order].astype(np.int64),
    )
    return ends, unit


def _whole(weight: NDArray[np.float64], most: int) -> tuple[NDArray[np.int64], float]:
    """Return weights in whole units so that ``most`` times their sum fits; in bytes if possible."""
    total = float(weight.sum()) * most
    if total < _MOST and (weight == np.rint(weight)).all():
        return weight.astype(np.int64), 1.0
    unit = 2.0 ** max(math.ceil(math.log2(max(total, 2.0**-900))) - 61, -1022)
    return np.rint(weight / unit).astype(np.int64), unit
