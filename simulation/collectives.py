"""Algorithms of a collective, ranked by simulated flows."""

from __future__ import annotations

import math
from collections.abc import Callable

import pandas as pd

from toruscast.errors import InputError
from toruscast.mapping import TaskMapping, Torus, collectives
from toruscast.routing import time_bounds

from .flow.flows import simulate_flows

# Algorithms with more messages are not simulated, so that the table takes little time.
_MOST_MESSAGES = 2_000_000
_NOT_RUN: dict[str, object] = {"time": math.nan, "lower_bound": math.nan, "rounds": 0}
_NOT_RUN |= {"messages": 0, "GBps": math.nan, "why": ""}


def rank_collectives(
    collective: str,
    nbytes: float,
    torus: Torus,
    mapping: TaskMapping,
    *,
    error: float = 0.01,
    progress: Callable[[int, int], object] | None = None,
) -> pd.DataFrame:
    """Return the algorithms of a collective, the fastest first, by simulated flows.

    Each runs on one port. If it can drive several, it also runs on as many as the torus has
    directions, or both ways round a ring. Algorithms know the torus if there is a task on every
    node.

    Parameters
    ----------
    collective : str
        Such as ``allreduce``.
    nbytes : float
        Size of the whole buffer, as in `mapping.collectives.schedule`.
    torus, mapping
        Nodes of the tasks, in the order of their ranks.
    error : float
        As in `simulate_flows`.
    progress : callable, optional
        Called with the algorithms done and those there are.

    Returns
    -------
    DataFrame
        Columns ``algorithm``, ``ports``, ``time`` and ``lower_bound`` (seconds), ``rounds``,
        ``messages`` and ``GBps``, the buffer over the time. If an algorithm cannot run, the time is
        empty and ``why`` gives the reason.

    Raises
    ------
    InputError
        If there is no such collective.

    Examples
    --------
    >>> torus = Torus((4, 4))
    >>> table = rank_collectives("allreduce", 1e6, torus, TaskMapping(range(16), torus))
    >>> table["algorithm"][0], int(table["ports"][0])
    ('allreduce/bucket', 4)
    """
    names = collectives.names(collective)
    if not names or "/" in collective:
        known = sorted({name.split("/")[0] for name in collectives.names()})
        raise InputError("unknown collective", found=collective, expected=" or ".join(known))
    mapping.check(mapping.n_tasks, torus)
    shape = torus.shape if mapping.n_tasks == torus.n_nodes else None
    ways = sorted({1, 2, min(2 * sum(size > 1 for size in torus.shape), 6) if shape else 2})
    rows, tries = [], [(name, ports) for name in names for ports in ways]
    for done, (name, ports) in enumerate(tries):
        row = _try(name, ports, nbytes, shape, torus, mapping, error)
        if row is not None:
            rows.append({"algorithm": name, "ports": ports, **row})
        if progress is not None:
            progress(done + 1, len(tries))
    table = pd.DataFrame(rows)
    return table.sort_values("time", kind="stable", ignore_index=True)


def _try(
    name: str,
    ports: int,
    nbytes: float,
    shape: tuple[int, ...] | None,
    torus: Torus,
    mapping: TaskMapping,
    error: float,
) -> dict[str, object] | None:
    """Return an algorithm's time or the reason for none; None for ports it does not drive."""
    try:
        plan = collectives.schedule(name, mapping.n_tasks, nbytes, shape, ports=ports)
        rounds = list(plan.rounds())
    except InputError as refusal:
        return None if ports > 1 else _NOT_RUN | {"why": str(refusal)}
    messages = sum(times * step.src.size for times, steps in rounds for step in steps)
    if messages > _MOST_MESSAGES:
        return _NOT_RUN | {"messages": messages, "why": "too many messages to simulate here"}
    workload = plan.workload()
    bound = time_bounds(workload, torus, mapping).total
    # The accepted error may give a time below the lower bound.
    time = max(simulate_flows(workload, torus, mapping, error=error).time, bound)
    return _NOT_RUN | {
        "time": time,
        "lower_bound": bound,
        "rounds": len(workload),
        "messages": messages,
        "GBps": nbytes / time / 1e9 if time else math.nan,
    }
