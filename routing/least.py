"""Lower bounds of the time over all mappings."""

from __future__ import annotations

import numpy as np

from toruscast.mapping import CommGraph, Torus, Workload, as_workload

from .packets import packet_counts


def least_time(traffic: Workload | CommGraph, torus: Torus, tasks_per_node: int = 1) -> float:
    """Return a lower bound of the time over all mappings and all minimal routings.

    It is the largest of three bounds, summed over the phases (dependent rounds count together).
    *Degree*: a task can share its node with its ``tasks_per_node - 1`` heaviest partners; all its
    other traffic goes over the links of the node. *Hops*: at best a task's partners are on its own
    node, then one hop away, then two, and all links together carry those bytes times hops.
    *Reception*: traffic from partners on other nodes goes through the memory of its node.

    Examples
    --------
    >>> comm = CommGraph(4, [0, 0, 0], [1, 2, 3], [51200, 51200, 51200])
    >>> round(least_time(comm, Torus((8,))) * 1e6, 3), round(3 * 54.4e3 / 4e3, 3)
    (54.4, 40.8)
    """
    workload = as_workload(traffic)
    phases = [_phase_seconds(comm, torus, tasks_per_node) for comm in workload]
    if workload.dependent:
        return float(np.sum([phase[1] for phase in phases]))
    return float(sum(max(phase) for phase in phases))


def _phase_seconds(comm: CommGraph, torus: Torus, capacity: int) -> tuple[float, float]:
    """Return the seconds by degree and reception, and by hops."""
    packets, each = packet_counts(comm, torus)
    wire = packets * each
    away = np.sort(torus.distance(0, np.arange(torus.n_nodes)))[1:]
    # The middle of a mesh has the most neighbours; no node has more.
    ring = np.minimum(np.arange(1, away.size + 1) // (2 * torus.ndim) + 1, max(torus.diameter, 1))
    nearest = np.minimum(away, ring) if not all(torus.wrap) else away
    hops_of_partner = np.concatenate([np.zeros(capacity - 1), np.repeat(nearest, capacity)])
    speed = float(torus.link_bandwidth[torus.link_exists].sum()) if away.size else np.inf
    out_of_node = 2 * sum(
        b for b, size in zip(torus.bandwidth, torus.shape, strict=True) if size > 1
    )
    most = total = 0.0
    for task, other in ((comm.src, comm.dst), (comm.dst, comm.src)):
        remote = task != other
        order = np.lexsort((-wire[remote], task[remote]))
        owner, amount = task[remote][order], wire[remote][order]
        place = np.arange(owner.size) - np.searchsorted(owner, owner)
        leaves = np.where(place >= capacity - 1, amount, 0.0)
        if owner.size and away.size:
            busiest = float(np.bincount(owner, leaves).max())
            most = max(most, busiest / out_of_node)
            if other is comm.src:
                most = max(most, busiest / torus.network.memory_bandwidth)
            hops = hops_of_partner[np.minimum(place, hops_of_partner.size - 1)]
            total = max(total, float((hops * amount).sum()) / speed)
    return most, total
