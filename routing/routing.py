"""Routes, hops and FIFOs of messages in dimension order."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from toruscast.errors import InputError
from toruscast.mapping import MappingProblem, TaskMapping, Torus
from toruscast.mapping.machines import TorusLike, as_torus
from toruscast.mapping.torus import TIE_RULES
from toruscast.typing import Bools, Int32s, Ints

from . import route_kernels as kernels
from .route_kernels import HopsAndFifos
from .tables import run_table

Links = tuple[Ints, Ints]


def list_twisted_links(torus: Torus, src: Int32s, dst: Int32s) -> Links:
    """Return the links of routes on a twisted torus, in the form that `routes` returns.

    All routes advance together, hop by hop along each dimension.
    """
    hops = torus.twisted_hops(src, dst)
    first = np.zeros(src.size + 1, dtype=np.int64)
    np.cumsum(np.abs(hops).sum(axis=1), out=first[1:])
    links = np.empty(first[-1], dtype=np.int64)
    position, current = first[:-1].copy(), src.astype(np.int64)
    for k in torus.routing_order:
        port = 2 * k + (hops[:, k] < 0)
        n_hops = np.abs(hops[:, k])
        for done in range(int(n_hops.max(initial=0))):
            moving = np.flatnonzero(n_hops > done)
            links[position[moving]] = current[moving] * 2 * torus.ndim + port[moving]
            position[moving] += 1
            current[moving] = torus.neighbors[current[moving], port[moving]]
    return first, links


def select_twisted_fifos(torus: Torus, by_first: bool, src: Int32s, dst: Int32s) -> Int32s:
    """Return the FIFO of each message on a twisted torus; -1 for a message within a node.

    With ``by_first``, this is the FIFO of the first dimension with hops. Otherwise, the rule of
    Blue Gene/Q applies, with hops instead of coordinate differences.
    """
    hops = torus.twisted_hops(src, dst)[:, torus.routing_order]
    is_nonzero = hops != 0
    first = is_nonzero.argmax(axis=1)
    dimension = np.array(torus.routing_order)[first]
    plus = hops[np.arange(src.size), first] > 0
    port = 2 * dimension + plus
    uses_sum = ~is_nonzero.any(axis=1) if by_first else is_nonzero.sum(axis=1) != 1
    fifo = np.where(uses_sum, np.abs(hops).sum(axis=1), port) % torus.network.fifos
    return np.where(is_nonzero.any(axis=1), fifo, -1).astype(np.int32)


FIFO_RULES = {
    "bluegene_q": kernels.BLUEGENE_Q,
    "first_dimension": kernels.FIRST_DIMENSION,
    "round_robin": kernels.ROUND_ROBIN,
    "first_free": kernels.ROUND_ROBIN,
}


def has_multiple_routes(problem: MappingProblem) -> bool:
    """Return whether packets of a message may take different routes; loads are then estimates."""
    return problem.torus.ties_are_open or problem.common_routing != "deterministic"


@lru_cache(maxsize=8)
def grid_of(torus: Torus) -> kernels.Grid:
    """Return a torus as arrays, for kernels."""
    return kernels.Grid(
        np.array(torus.shape, dtype=np.int64),
        np.array(torus.wrap, dtype=np.int64),
        np.array(torus.routing_order, dtype=np.int64),
        torus.node_strides,
        torus.coords,
        TIE_RULES[torus.tie_break],
    )


def dilations(problem: MappingProblem, mapping: TaskMapping) -> Int32s:
    """Return the hops of every edge, shape ``(n_edges,)``; 0 within a node.

    The edges are those of all phases, one phase after the other.

    Examples
    --------
    >>> comm = CommGraph(3, [0, 0, 1], [1, 2, 0], [8, 8, 8])
    >>> dilations(MappingProblem(comm, (4,)), TaskMapping([0, 1, 2], 4))
    array([1, 2, 1], dtype=int32)
    """
    return find_hops_and_fifos(problem, problem.mapping(mapping)).hops


def routes(torus: TorusLike, src: ArrayLike, dst: ArrayLike) -> tuple[Ints, Ints]:
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
        raise InputError("src and dst differ in length", found=(a.size, b.size))
    return list_routes(torus, a, b)


def list_routes(torus: Torus, src: Int32s, dst: Int32s) -> Links:
    """Return the result of `routes` for checked nodes."""
    if torus.twist:
        return list_twisted_links(torus, src, dst)
    first = np.zeros(src.size + 1, dtype=np.int64)
    np.cumsum(torus.distance(src, dst), out=first[1:])
    links = np.empty(first[-1], dtype=np.int64)
    kernels.list_links(grid_of(torus), src, dst, first, links, 0)
    return first, links


def injection_fifos(problem: MappingProblem, mapping: TaskMapping) -> Int32s:
    """Return the torus injection FIFO of every edge, shape ``(n_edges,)``; -1 within a node.

    The edges are those of all phases, one phase after the other. ``problem.torus.network`` gives
    the rule. The rule of Blue Gene/Q is from IBM's messaging library (PAMI): if source and
    destination differ in one dimension, a message takes the FIFO of that dimension and direction.
    Other messages take the FIFO numbered by the sum of the (unwrapped) coordinate differences,
    modulo the number of FIFOs. A split or random tie counts as plus. Round robin follows the order
    of the edges; edges without a message come last.

    Examples
    --------
    >>> comm = CommGraph(3, [0, 0], [1, 2], [8, 8])
    >>> injection_fifos(MappingProblem(comm, (4, 4)), TaskMapping([0, 1, 7], 16))
    array([3, 4], dtype=int32)
    """
    return find_hops_and_fifos(problem, problem.mapping(mapping)).fifo


def find_hops_and_fifos(problem: MappingProblem, mapping: TaskMapping) -> HopsAndFifos:
    """Return the results of `dilations` and `injection_fifos` for a checked mapping."""
    takes_turns = FIFO_RULES[problem.torus.network.fifo_rule] == kernels.ROUND_ROBIN
    if takes_turns and len(problem.workload) > 1:
        # Round robin restarts in every phase.
        parts = [find_hops_and_fifos(phase, mapping) for phase in problem.phases]
        return HopsAndFifos(*map(np.concatenate, zip(*parts, strict=True)))
    comm, node = problem.unrolled.comm, problem.placed(mapping).node
    is_silent = comm.whole_messages == 0 if takes_turns else np.zeros(0, dtype=np.bool_)
    return _route_between_nodes(problem.torus, comm.src, comm.dst, node, is_silent)


def fifos_between(torus: Torus, src: Int32s, dst: Int32s) -> Int32s:
    """Return the injection FIFO of messages between nodes, in the order of sending."""
    nodes = np.arange(torus.n_nodes, dtype=np.int32)
    return _route_between_nodes(torus, src, dst, nodes, np.zeros(0, dtype=np.bool_)).fifo


def _route_between_nodes(
    torus: Torus, src: Int32s, dst: Int32s, node: Int32s, is_silent: Bools
) -> HopsAndFifos:
    """Return the hops and FIFOs of edges; ``node``, ``(n_tasks,)``, has the node of each task.

    ``is_silent``, ``(n_edges,)`` or empty, flags edges without a message.
    """
    rule, fifos = FIFO_RULES[torus.network.fifo_rule], torus.network.fifos
    hops, fifo = np.empty((2, src.size), dtype=np.int32)
    result = HopsAndFifos(hops, fifo)
    if not src.size:
        return result
    # Writeable arrays have another type; compiling a kernel for it takes longer than running it.
    src, dst, node = (array.view() for array in (src, dst, node))
    for array in (src, dst, node):
        array.flags.writeable = False
    kernels.fill_hops_and_fifos(
        grid_of(torus), run_table(torus), rule, fifos, src, dst, node, is_silent, result
    )
    if torus.twist:
        endpoints = node[src], node[dst]
        hops[:] = torus.distance(*endpoints)
        if rule != kernels.ROUND_ROBIN:
            fifo[:] = select_twisted_fifos(torus, rule == kernels.FIRST_DIMENSION, *endpoints)
    return result
