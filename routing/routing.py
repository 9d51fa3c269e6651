"""Routes, hops and FIFOs of messages in dimension order."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toruscast.errors import InputError
from toruscast.mapping import MappingProblem, TaskMapping, Torus
from toruscast.mapping.machines import TorusLike, as_torus
from toruscast.mapping.torus import TIE_RULES

from . import route_kernels as kernels
from .route_kernels import Ways
from .tables import run_table

Nodes = NDArray[np.int32]
Links = tuple[NDArray[np.int64], NDArray[np.int64]]


def list_links(torus: Torus, src: Nodes, dst: Nodes) -> Links:
    """Return where each route's links begin, and the links in the order of travel.

    It follows the routes hop by hop, as twisted tori need; `routes` is faster on others.
    """
    hops = torus.twisted_hops(src, dst)
    first = np.zeros(src.size + 1, dtype=np.int64)
    np.cumsum(np.abs(hops).sum(axis=1), out=first[1:])
    links = np.empty(first[-1], dtype=np.int64)
    place, here = first[:-1].copy(), src.astype(np.int64)
    for k in torus.routing_order:
        port = 2 * k + (hops[:, k] < 0)
        left = np.abs(hops[:, k])
        for done in range(int(left.max(initial=0))):
            going = np.flatnonzero(left > done)
            links[place[going]] = here[going] * 2 * torus.ndim + port[going]
            place[going] += 1
            here[going] = torus.neighbors[here[going], port[going]]
    return first, links


def pick_fifos(torus: Torus, by_first: bool, src: Nodes, dst: Nodes) -> NDArray[np.int32]:
    """Return the FIFO of each message by its first dimension, or by Blue Gene/Q's rule; -1 within.

    On a twisted torus that rule sums hops instead of coordinate differences.
    """
    hops = torus.twisted_hops(src, dst)[:, torus.routing_order]
    differ = hops != 0
    first = differ.argmax(axis=1)
    dimension = np.array(torus.routing_order)[first]
    plus = hops[np.arange(src.size), first] > 0
    along = 2 * dimension + plus
    mixed = ~differ.any(axis=1) if by_first else differ.sum(axis=1) != 1
    fifo = np.where(mixed, np.abs(hops).sum(axis=1), along) % torus.network.fifos
    return np.where(differ.any(axis=1), fifo, -1).astype(np.int32)


FIFO_RULES = {
    "bluegene_q": kernels.BLUEGENE_Q,
    "first_dimension": kernels.FIRST_DIMENSION,
    "round_robin": kernels.ROUND_ROBIN,
    "first_free": kernels.ROUND_ROBIN,
}


def ways_are_open(problem: MappingProblem) -> bool:
    """Return whether packets of a message may go different ways, so that loads are estimates."""
    return problem.torus.ties_are_open or problem.common_routing != "deterministic"


@lru_cache(maxsize=8)
def grid_of(torus: Torus) -> kernels.Grid:
    """Return the arrays that describe a torus to the kernels."""
    return kernels.Grid(
        np.array(torus.shape, dtype=np.int64),
        np.array(torus.wrap, dtype=np.int64),
        np.array(torus.routing_order, dtype=np.int64),
        torus.node_strides,
        torus.coords,
        TIE_RULES[torus.tie_break],
    )


def dilations(problem: MappingProblem, mapping: TaskMapping) -> NDArray[np.int32]:
    """Return the hops of every edge, shape ``(n_edges,)``; 0 within a node.

    The edges are those of all phases, one phase after the other.

    Examples
    --------
    >>> comm = CommGraph(3, [0, 0, 1], [1, 2, 0], [8, 8, 8])
    >>> dilations(MappingProblem(comm, (4,)), TaskMapping([0, 1, 2], 4))
    array([1, 2, 1], dtype=int32)
    """
    return edge_ways(problem, problem.mapping(mapping)).hops


def routes(
    torus: TorusLike, src: ArrayLike, dst: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the links of dimension-ordered routes between nodes, in the order of travel.

    Parameters
    ----------
    torus : Torus, str or sequence of int
        A split or random tie is listed as plus.
    src, dst : array-like of int, shape (n_routes,) or (n_routes, ndim)
        First and last node of each route, as numbers or coordinates.

    Returns
    -------
    first : ndarray, shape (n_routes + 1,)
        Route ``r`` is ``links[first[r]:first[r + 1]]``.
    links : ndarray
        Link numbers.

    Examples
    --------
    >>> torus = Torus((4, 4))
    >>> first, links = routes(torus, [0], [13])
    >>> [torus.link_label(link) for link in links]
    ['(0,0) -X', '(3,0) +Y']
    """
    torus = as_torus(torus)
    a, b = torus.check_nodes(np.atleast_1d(src)), torus.check_nodes(np.atleast_1d(dst))
    if a.shape != b.shape:
        raise InputError("ends of routes differ in number", found=(a.size, b.size))
    if torus.twist:
        return list_links(torus, a, b)
    first = np.zeros(a.size + 1, dtype=np.int64)
    np.cumsum(torus.distance(a, b), out=first[1:])
    links = np.empty(first[-1], dtype=np.int64)
    kernels.list_links(grid_of(torus), a, b, first, links)
    return first, links


def injection_fifos(problem: MappingProblem, mapping: TaskMapping) -> NDArray[np.int32]:
    """Return the torus injection FIFO of every edge, shape ``(n_edges,)``; -1 within a node.

    The edges are those of all phases, one phase after the other; ``problem.torus.network`` has the
    rule. Blue Gene/Q's is that of IBM's messaging library (PAMI): a destination that differs in one
    dimension only takes the FIFO of that dimension and direction. Any other takes the FIFO numbered
    by the sum of the (unwrapped) coordinate differences, modulo the FIFOs. A split or random tie
    counts as plus. Where FIFOs take turns, they do so in the order of the edges; edges that send
    nothing come last.

    Examples
    --------
    >>> comm = CommGraph(3, [0, 0], [1, 2], [8, 8])
    >>> injection_fifos(MappingProblem(comm, (4, 4)), TaskMapping([0, 1, 7], 16))
    array([3, 4], dtype=int32)
    """
    return edge_ways(problem, problem.mapping(mapping)).fifo


def edge_ways(problem: MappingProblem, mapping: TaskMapping) -> Ways:
    """Return the hops and the injection FIFO of every edge: `dilations` and `injection_fifos`."""
    takes_turns = FIFO_RULES[problem.torus.network.fifo_rule] == kernels.ROUND_ROBIN
    if takes_turns and len(problem.workload) > 1:
        # Turns begin anew in every phase.
        each = [edge_ways(phase, mapping) for phase in problem.phases]
        return Ways(*map(np.concatenate, zip(*each, strict=True)))
    comm, node = problem.unrolled.comm, problem.placed(mapping).node
    silent = comm.whole_messages == 0 if takes_turns else np.zeros(0, dtype=np.bool_)
    return _ways(problem.torus, comm.src, comm.dst, node, silent)


def fifos_between(
    torus: Torus, src: NDArray[np.int32], dst: NDArray[np.int32]
) -> NDArray[np.int32]:
    """Return the injection FIFO of messages between nodes, sent one after the other."""
    nodes = np.arange(torus.n_nodes, dtype=np.int32)
    return _ways(torus, src, dst, nodes, np.zeros(0, dtype=np.bool_)).fifo


def _ways(
    torus: Torus,
    src: NDArray[np.int32],
    dst: NDArray[np.int32],
    node: NDArray[np.int32],
    silent: NDArray[np.bool_],
) -> Ways:
    rule, fifos = FIFO_RULES[torus.network.fifo_rule], torus.network.fifos
    hops, fifo = np.empty((2, src.size), dtype=np.int32)
    ways = Ways(hops, fifo)
    if not src.size:
        return ways
    # Arrays that may be written to would be another kernel, compiled for longer than it runs.
    src, dst, node = (array.view() for array in (src, dst, node))
    for array in (src, dst, node):
        array.flags.writeable = False
    kernels.find_ways(grid_of(torus), run_table(torus), rule, fifos, src, dst, node, silent, ways)
    if torus.twist:
        ends = node[src], node[dst]
        hops[:] = torus.distance(*ends)
        if rule != kernels.ROUND_ROBIN:
            fifo[:] = pick_fifos(torus, rule == kernels.FIRST_DIMENSION, *ends)
    return ways
