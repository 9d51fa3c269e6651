"""Collectives of a trace as the messages of a named algorithm."""

from __future__ import annotations

import numpy as np

from toruscast.errors import InputError

from ...collectives import merged, names, schedule
from ...comm_graph import CommGraph, sum_edges

# All-to-alls of more tasks have too many messages to list.
MAX_TASKS = 2**16
MAX_PAIRS = 2**12


def collective_total(collective: str, n_tasks: int, nbytes: float, algorithm: str) -> CommGraph:
    """Return what a collective sends in all its rounds.

    Raises
    ------
    InputError
        If there is no such algorithm, or it does not run on so many tasks.

    Examples
    --------
    >>> collective_total("allreduce", 4, 1024, "ring")
    CommGraph(4 tasks, 4 edges, 6144 bytes, 24 messages)
    """
    name = f"{collective}/{algorithm}"
    if name not in names():
        known = ", ".join(each.partition("/")[2] for each in names(collective))
        raise InputError(f"unknown algorithm of {collective}", found=algorithm, expected=known)
    most = MAX_PAIRS if collective == "alltoall" else MAX_TASKS
    if n_tasks > most:
        raise InputError(f"too many tasks for {name}", found=n_tasks, expected=f"at most {most}")
    rounds = [
        (times, merged(n_tasks, steps)) for times, steps in schedule(name, n_tasks, nbytes).rounds()
    ]
    if not rounds:
        return CommGraph(n_tasks, [], [], [])
    return sum_edges(
        n_tasks,
        np.concatenate([graph.src for _, graph in rounds]),
        np.concatenate([graph.dst for _, graph in rounds]),
        np.concatenate([graph.nbytes * times for times, graph in rounds]),
        np.concatenate([graph.n_messages * times for times, graph in rounds]),
    )
