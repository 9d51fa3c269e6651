"""Level 1 in one pass: loads, hops, FIFOs and bounds of a phase under a mapping."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._scratch import scratch
from toruscast.mapping import CommGraph, TaskMapping, Torus
from toruscast.typing import Routing

from . import route_kernels as kernels
from ._run_kernels import spread_runs
from ._tally_kernels import HOP_BYTES, OFF_NODE, PACKET_HOPS, SLOWEST, Constants, Sums, add_up
from .edges import Prepared, fixed_point, prepare
from .loads import check_missing, link_loads
from .routing import FIFO_RULES, check_fit, grid_of, phase_routing
from .runs import run_table, worthwhile_runs


class Tally(NamedTuple):
    """Results of a pass over the messages of a phase.

    Attributes
    ----------
    link_bytes, wire_bytes : ndarray, shape (n_links,)
        Bytes over each link, without and with the headers of packets.
    edges_by_hops : ndarray of int, shape (diameter + 1,)
        Edges of 0, 1, 2, ... hops; those of 0 stay within their node.
    fifo_length : ndarray, shape (n_nodes * fifos,)
        Messages put into each injection FIFO.
    hop_bytes, off_node_bytes, packet_hops : float
        Bytes times hops, bytes that leave their node, packets times hops.
    injected : ndarray, shape (n_nodes * fifos,)
        Seconds of each injection FIFO.
    received : ndarray, shape (n_nodes,)
        Bytes that each node receives.
    latency : float
        Seconds of the slowest message.
    """

    link_bytes: NDArray[np.float64]
    wire_bytes: NDArray[np.float64]
    edges_by_hops: NDArray[np.int64]
    fifo_length: NDArray[np.float64]
    hop_bytes: float
    off_node_bytes: float
    packet_hops: float
    injected: NDArray[np.float64]
    received: NDArray[np.float64]
    latency: float


def added(one: Tally, other: Tally) -> Tally:
    """Return what a pass over the messages of both would find."""
    return Tally(
        one.link_bytes + other.link_bytes,
        one.wire_bytes + other.wire_bytes,
        one.edges_by_hops + other.edges_by_hops,
        one.fifo_length + other.fifo_length,
        one.hop_bytes + other.hop_bytes,
        one.off_node_bytes + other.off_node_bytes,
        one.packet_hops + other.packet_hops,
        one.injected + other.injected,
        one.received + other.received,
        max(one.latency, other.latency),
    )


def tally(
    comm: CommGraph, torus: Torus, mapping: TaskMapping, *, routing: Routing = "deterministic"
) -> Tally | None:
    """Return the results of one pass over the messages, or None if a pass is not enough.

    A pass is not enough on a twisted torus, if FIFOs take turns and some edges send nothing, or if
    adaptive packets take any free FIFO. `link_loads`, `dilations`, `injection_fifos` and
    `time_bounds` then make a pass each.

    The pass reads about 40 bytes a message in order, and keeps no array of messages times hops.
    Data that does not depend on the mapping is prepared once for each graph.

    Raises
    ------
    InputError
        If the mapping does not fit, or an edge has too many packets.

    Examples
    --------
    >>> comm = CommGraph(3, [0, 0, 1], [1, 2, 0], [100, 50, 10])
    >>> found = tally(comm, Torus((4,)), TaskMapping([0, 1, 2], 4))
    >>> found.edges_by_hops, found.hop_bytes
    (array([0, 2, 1]), 210.0)
    """
    check_fit(comm, torus, mapping)
    network = torus.network
    adaptive = phase_routing(routing, comm, torus) == "adaptive"
    takes_any = network.fifo_rule == "first_free"
    takes_turns = FIFO_RULES[network.fifo_rule] == kernels.ROUND_ROBIN
    silent = takes_turns and (comm.whole_messages == 0).any()
    if torus.twist or silent or (takes_any and adaptive):
        return None
    prepared = prepare(comm, torus)
    runs = None if adaptive else worthwhile_runs(torus, comm.n_edges)
    table = run_table(torus)
    n_fifos = torus.n_nodes * network.fifos
    sums = Sums(
        run=np.zeros(0 if runs is None else 2 * runs.n_runs, dtype=np.int64),
        edges=np.zeros(torus.diameter + 1, dtype=np.int64),
        fifo_length=np.zeros(n_fifos),
        injected=np.zeros(n_fifos),
        received=np.zeros(table.plane),
        one=np.zeros(4),
    )
    halves = 2 if torus.ties_are_open else 1
    constants = Constants(
        fifo_rule=FIFO_RULES[network.fifo_rule],
        fifos=network.fifos,
        takes_any=int(takes_any),
        injection=1 / max(torus.bandwidth),
        memory=1 / network.memory_bandwidth,
        latency=network.hop_latency,
        ties_open=int(torus.ties_are_open),
        wire_unit=prepared.wire_unit,
        a_byte=1 / (prepared.byte_unit * halves),
        halves=halves,
    )
    there = scratch("codes", comm.n_edges, np.int32)
    add_up(grid_of(torus), table, prepared.edges, constants, mapping.node, sums, there)
    return Tally(
        *_loads(comm, torus, mapping, prepared, adaptive, sums.run),
        sums.edges,
        sums.fifo_length,
        float(sums.one[HOP_BYTES]),
        float(sums.one[OFF_NODE]),
        float(sums.one[PACKET_HOPS]),
        sums.injected,
        sums.received[table.code & (table.plane - 1)],
        float(sums.one[SLOWEST]),
    )


def _loads(
    comm: CommGraph,
    torus: Torus,
    mapping: TaskMapping,
    prepared: Prepared,
    adaptive: bool,
    run: NDArray[np.int64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the bytes of the links and those on the wire; by a walk if no runs were filled."""
    weight, unit = prepared.edges.wire_units, prepared.wire_unit
    if adaptive:
        both = (None, weight * unit)
        plain, headed = (link_loads(comm, torus, mapping, w, routing="adaptive") for w in both)
        return plain, headed
    load = np.zeros((2, torus.n_links), dtype=np.int64)
    if run.size:
        spread_runs(grid_of(torus), run_table(torus), run, load)
    else:
        for bears, each in zip(load, (fixed_point(comm.nbytes, torus)[0], weight), strict=True):
            kernels.add_loads(grid_of(torus), comm.src, comm.dst, mapping.node, each, bears)
    check_missing(load[0], comm, torus, mapping)
    return load[0] * prepared.byte_unit, load[1] * unit
