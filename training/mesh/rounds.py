"""Collectives of all groups of a mesh as workloads of dependent rounds, and simulated."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping import CommGraph, TaskMapping, Torus, Workload, sum_edges
from toruscast.mapping.collectives import rings
from toruscast.mapping.collectives.schedule import Schedule
from toruscast.mapping.mesh import MeshTraffic
from toruscast.simulation import simulate

from .closed_form import Score, ends, product_grid

_RINGS = {
    "allreduce": rings.allreduce,
    "allgather": rings.allgather,
    "reduce_scatter": rings.reduce_scatter,
}
_BUCKETS = {
    "allreduce": rings.bucket_allreduce,
    "allgather": rings.bucket_allgather,
    "reduce_scatter": rings.bucket_reduce_scatter,
}
# More messages than this are not simulated: a ranking is to be there soon.
MOST_MESSAGES = 200_000
# Packets of the longest message: real ones are merged to that many. Rounds of equal messages change
# by less than a thousandth with more.
_PACKETS = 32


def workload(
    traffic: MeshTraffic, lines: NDArray[np.int64], torus: Torus, algorithm: str
) -> Workload | None:
    """Return what a collective's groups send, task ``i`` on node ``i``; None if that is too much.

    Parameters
    ----------
    traffic, lines, torus
        As of `score`.
    algorithm : str
        What `score` found.
    """
    n = lines.shape[1]
    kind, nbytes = traffic.collective, traffic.nbytes
    if algorithm not in ("ring", "two-way-ring", "bucket"):
        return _at_once(traffic, lines, torus)
    if algorithm == "bucket":
        grid = product_grid(torus, lines)
        assert grid is not None
        plan = _BUCKETS[kind](n, nbytes, grid.shape[1:], ports=2 * (grid.ndim - 1))
        lines = grid.reshape(lines.shape)
    else:
        plan = _RINGS[kind](n, nbytes, ports=1 if algorithm == "ring" else 2)
    messages = sum(times * step.src.size for times, steps in plan.rounds() for step in steps)
    if messages * len(lines) > MOST_MESSAGES:
        return None
    return _spread(plan, lines, torus.n_nodes)


def simulated_time(
    traffic: MeshTraffic, lines: NDArray[np.int64], torus: Torus, found: Score
) -> float | None:
    """Return the seconds of a collective by simulated packets; None if it has too many messages.

    Flows would not do: those that go far get less of a link that they share, and the rounds wait
    for them.
    """
    rounds = workload(traffic, lines, torus, found.algorithm)
    if rounds is None:
        return None
    longest = max(float(phase.nbytes.max(initial=0.0)) for phase in rounds)
    merged = max(int(longest / torus.network.payload / _PACKETS), 1)
    mapping = TaskMapping(np.arange(torus.n_nodes), torus)
    return simulate(rounds, torus, mapping, coarsening=merged).time


def _spread(plan: Schedule, lines: NDArray[np.int64], n_nodes: int) -> Workload:
    """The rounds of one group, run by every group at once."""
    phases: list[CommGraph] = []
    for times, steps in plan.rounds():
        src = np.concatenate([lines[:, step.src].ravel() for step in steps])
        dst = np.concatenate([lines[:, step.dst].ravel() for step in steps])
        amounts = np.concatenate([np.tile(step.nbytes, len(lines)) for step in steps])
        phases += [sum_edges(n_nodes, src, dst, amounts, np.ones(src.size))] * times
    return Workload(phases, dependent=True)


def _at_once(traffic: MeshTraffic, lines: NDArray[np.int64], torus: Torus) -> Workload | None:
    kind, n = traffic.collective, lines.shape[1]
    pairs = len(lines) * n * (n - 1) if kind == "alltoall" else 2 * lines.size
    if pairs > MOST_MESSAGES:
        return None
    src, dst = map(np.concatenate, zip(*ends(traffic, lines), strict=True))
    nbytes = np.full(src.size, traffic.nbytes / (n if kind == "alltoall" else 1))
    return Workload([sum_edges(torus.n_nodes, src, dst, nbytes, np.ones(src.size))])
