"""Level 1 in one pass: loads, hops and FIFOs of a phase, and the times of its resources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import scratch
from toruscast._lazy import lazy
from toruscast.mapping import MappingProblem, TaskMapping
from toruscast.mapping.torus import TIE_RULES

from ._load_kernels import (
    HOP_BYTES,
    OFF_NODE,
    SLOWEST,
    Constants,
    Sums,
    add_up,
    spread_runs,
)
from .loads import check_missing, sum_loads
from .messages import prepare
from .route_kernels import Ways
from .routing import edge_ways, grid_of
from .tables import run_table, worthwhile_runs


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


def tally(problem: MappingProblem, mapping: TaskMapping, ways: Ways | None = None) -> Tally:
    """Return the results of one pass over the messages, of which it reads about 60 bytes each.

    The problem has one phase. Its data that does not depend on the mapping is prepared once.
    """
    comm, torus = problem.comm, problem.torus
    network = torus.network
    adaptive = problem.routing == "adaptive"
    takes_any = network.fifo_rule == "first_free"
    if ways is None:
        ways = edge_ways(problem, mapping)
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
    there = scratch("codes", comm.n_edges, np.int32)
    add_up(table, prepared.edges, ways, side_by_side, constants, mapping.node, sums, there)
    return Tally(
        *_loads(problem, mapping, sums.run),
        sums.edges,
        fifo[:, 0].copy(),
        float(sums.one[HOP_BYTES]),
        float(sums.one[OFF_NODE]),
        fifo[:, 1].copy(),
        sums.received[table.code & (table.plane - 1)],
        float(sums.one[SLOWEST]),
    )


def _loads(
    problem: MappingProblem, mapping: TaskMapping, run: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the bytes of the links and those on the wire; a pass each if no runs were filled."""
    torus, prepared = problem.torus, prepare(problem)
    unit = prepared.wire_unit
    if not run.size:
        headed = np.multiply(prepared.edges.wire_units, unit, dtype=np.float64)
        plain = sum_loads(problem, mapping, problem.comm.nbytes)
        return plain, sum_loads(problem, mapping, headed)
    load = np.zeros((2, torus.n_links), dtype=np.int64)
    if prepared.edges.units.shape[1] == 1:
        run = run.view("<u4").astype(np.int64)
    spread_runs(grid_of(torus), run_table(torus), run, load)
    check_missing(load[0], problem, mapping)
    return load[0] * prepared.byte_unit, load[1] * unit


@dataclass(frozen=True, eq=False)
class PhaseRoutes:
    """The routes of a phase under a mapping; each result is computed when first used."""

    problem: MappingProblem
    mapping: TaskMapping

    @lazy
    def ways(self) -> Ways:
        """Hops and injection FIFO of every edge."""
        return edge_ways(self.problem, self.mapping)

    @lazy
    def tally(self) -> Tally:
        """Results of one pass over the messages."""
        return tally(self.problem, self.mapping, self.ways)


def have_two_ways(problem: MappingProblem, mapping: TaskMapping) -> NDArray[np.bool_]:
    """Return whether packets of each edge of a phase may take different routes, ``(n_edges,)``."""
    comm, torus = problem.comm, problem.torus
    src, dst = mapping.node[comm.src], mapping.node[comm.dst]
    if torus.twist:
        # Adaptive packets take the hops of their message in any order.
        several = (torus.twisted_hops(src, dst) != 0).sum(axis=1) > 1
        return np.asarray(several & (problem.routing == "adaptive"))
    gap = np.abs(torus.coords[dst] - torus.coords[src])
    fixed = TIE_RULES[torus.tie].adaptive_fixed
    tied = (np.array(torus.wrap) & (2 * gap == np.array(torus.shape))).any(axis=1)
    in_order = tied & torus.ties_are_open
    if problem.routing == "deterministic":
        return np.asarray(in_order)
    by_choice = (tied & (not fixed)) | ((gap > 0).sum(axis=1) > 1)
    return np.asarray(np.where(torus.has_zones[torus.zone_set_of(src, dst)], by_choice, in_order))
