"""Resources of a message between two nodes: injection FIFO, links of its way, receiver."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.mapping import CommGraph, TaskMapping, Torus
from toruscast.mapping.ties import TIE_RULES
from toruscast.mapping.torus import Holes
from toruscast.routing import route_kernels as kernels
from toruscast.routing.loads import link_loads
from toruscast.routing.routing import FIFO_RULES, fifos_between, routes
from toruscast.typing import Routing

from ._delta_kernels import Uses

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

    Resources are numbered: links as in `Torus`, then the injection FIFOs ``node * fifos + fifo``,
    then a receiver for each node. Where FIFOs take turns, all FIFOs of a node count as its first.

    Raises
    ------
    InputError
        If the torus is too large to keep the ways between all pairs of its nodes.

    Examples
    --------
    >>> uses, parts = table_of_uses(Torus((4,)))
    >>> start, stop = uses.first[[0 * 4 + 1, 0 * 4 + 2]]
    >>> uses.resource[start:stop].tolist(), parts
    ([9, 0, 49], 1)
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
    """Return the seconds of a byte on each resource, ``(n_resources,)``.

    Links at their bandwidth (missing ones far slower), a FIFO at that of the fastest dimension,
    receivers at the memory's.
    """
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
    """Return the links of each pair of nodes, their number, and their shares where ways divide.

    Pairs with the same hops along each dimension have the same ways, shifted. If the source's
    parity settles a tie, the parities must be equal too.
    """
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
        load = link_loads(
            CommGraph(2, [0], [1], [parts]), torus, TaskMapping(ends, torus), routing=routing
        )
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
