"""Lower bounds over all mappings: times and loads that none of them can beat."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from threadpoolctl import threadpool_limits

from toruscast.mapping import MappingProblem

from .bounds import longest_chain, times_alone
from .messages import packet_counts

Floats = NDArray[np.float64]
# Tasks up to which the graph's spectrum is worked out, for the bisection.
_MAX_TASKS = 1200


def min_time(problem: MappingProblem, tasks_per_node: int = 1) -> float:
    """Return seconds below which no mapping, and no minimal routing, can bring the traffic.

    A task's ``tasks_per_node - 1`` heaviest partners are at best on its node, the next one hop
    away. Halves of the torus exchange at least what the second eigenvalue of the graph's Laplacian
    says (Fiedler, Czechoslovak Math. J. 23, 1973), which is worked out for up to 1,200 tasks.
    """
    phases = np.array([_phase_seconds(phase, tasks_per_node) for phase in problem.phases])
    if problem.workload.dependent:
        alone = _min_times_alone(problem, tasks_per_node, from_begin=False)
        # What the links carry of all rounds counts together.
        return max(longest_chain(problem, alone), float(phases[:, 2].sum()))
    return float(phases.max(axis=1).sum())


def min_loads(problem: MappingProblem, tasks_per_node: int = 1) -> tuple[float, float]:
    """Return bytes times hops, and bytes of the busiest link, that no mapping can beat."""
    total, torus = problem.total, problem.torus
    busiest, hop_bytes, _ = _leaving(total, total.comm.nbytes, tasks_per_node)
    n_ports = 2 * sum(size > 1 for size in torus.shape)
    if not n_ports:
        return 0.0, 0.0
    return hop_bytes, max(busiest / n_ports, hop_bytes / torus.n_existing_links)


def _phase_seconds(problem: MappingProblem, capacity: int) -> tuple[float, ...]:
    """Seconds of a phase by what needs them.

    Sending: the last message of a task is handed over after the others, and goes one hop. Degree:
    what a task exchanges with others than share its node goes over the links of its node. Hops: all
    links together carry bytes times hops, and only few partners can be near. Reception: what a task
    receives goes through the memory of its node. Bisection: see `_bisection`.
    """
    torus = problem.torus
    packets, each = packet_counts(problem)
    wire = packets * each
    sending = float(_min_times_alone(problem, capacity).max(initial=0.0))
    busiest, hop_bytes, received = _leaving(problem, wire, capacity)
    out_of_node = 2 * sum(
        b for b, size in zip(torus.bandwidth, torus.shape, strict=True) if size > 1
    )
    if not out_of_node:
        return sending, 0.0, 0.0, 0.0, 0.0
    speed = float(torus.link_bandwidth[torus.link_exists].sum())
    return (
        sending,
        busiest / out_of_node,
        hop_bytes / speed,
        received / torus.network.memory_bandwidth,
        _bisection(problem, wire, capacity),
    )


def _min_times_alone(problem: MappingProblem, capacity: int, *, from_begin: bool = True) -> Floats:
    """Seconds of each edge, at best one hop away, or on its node where that has room for two."""
    comm = problem.unrolled.comm
    # From several FIFOs, packets may leave side by side.
    any_fifo = problem.torus.network.fifo_rule == "first_free"
    two_ways = np.ones(comm.n_edges, dtype=np.bool_) if any_fifo else None
    hops = (comm.src != comm.dst).astype(np.int64)
    seconds = times_alone(problem, hops, two_ways, from_begin=from_begin)
    if capacity == 1:
        return seconds
    inside = times_alone(problem, np.zeros_like(hops), from_begin=from_begin)
    return np.minimum(seconds, inside)


def _leaving(problem: MappingProblem, weight: Floats, capacity: int) -> tuple[float, float, float]:
    """What leaves or enters the busiest task's node, weight times hops, and what enters one."""
    comm, torus = problem.comm, problem.torus
    away = np.sort(torus.distance(0, np.arange(torus.n_nodes)))[1:]
    # A mesh's corner has the fewest neighbours, its middle the most: no node has more than these.
    ring = np.minimum(np.arange(1, away.size + 1) // (2 * torus.ndim) + 1, max(torus.diameter, 1))
    nearest = away if all(torus.wrap) else np.minimum(away, ring)
    hops_of_partner = np.concatenate([np.zeros(capacity - 1), np.repeat(nearest, capacity)])
    most = total = received = 0.0
    for task, other in ((comm.src, comm.dst), (comm.dst, comm.src)):
        remote = task != other
        order = np.lexsort((-weight[remote], task[remote]))
        owner, amount = task[remote][order], weight[remote][order]
        if not owner.size or not away.size:
            continue
        place = np.arange(owner.size) - np.searchsorted(owner, owner)
        busiest = float(np.bincount(owner, np.where(place >= capacity - 1, amount, 0.0)).max())
        most = max(most, busiest)
        if other is comm.src:
            received = busiest
        hops = hops_of_partner[np.minimum(place, hops_of_partner.size - 1)]
        total = max(total, float((hops * amount).sum()))
    return most, total, received


def _bisection(problem: MappingProblem, wire: Floats, capacity: int) -> float:
    """Seconds for what must cross between the halves of each dimension, both ways together."""
    comm, torus, n_tasks = problem.comm, problem.torus, problem.n_tasks
    # A twisted wrap link shifts along other dimensions: planes are no cuts there.
    if torus.twist or not 2 <= n_tasks <= _MAX_TASKS:
        return 0.0
    laplacian = np.zeros((n_tasks, n_tasks))
    np.add.at(laplacian, (comm.src, comm.dst), -wire)
    laplacian += laplacian.T
    np.fill_diagonal(laplacian, 0.0)
    np.fill_diagonal(laplacian, -laplacian.sum(axis=1))
    # Threads of BLAS that wait for each other take ten times the processor time of one.
    with threadpool_limits(1, "blas"):
        second = float(linalg.eigvalsh(laplacian, subset_by_index=[1, 1])[0])
    second = max(second, 0.0)
    longest = 0.0
    for size, wrap, bandwidth in zip(torus.shape, torus.wrap, torus.bandwidth, strict=True):
        links = torus.n_nodes // size * (2 if wrap else 1)
        for planes in range(1, size):
            # Of the splits that fit, the most uneven lets the fewest bytes cross.
            here = min(capacity * torus.n_nodes // size * planes, n_tasks)
            there = min(capacity * torus.n_nodes // size * (size - planes), n_tasks)
            least = min(here * (n_tasks - here), there * (n_tasks - there))
            longest = max(longest, second * least / n_tasks / (2 * links * bandwidth))
    return longest
