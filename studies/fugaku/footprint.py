"""The work of a schedule for the network and the tasks, per byte of the buffer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast import TaskMapping, Torus, simulate
from toruscast.mapping import MappingProblem
from toruscast.mapping.collectives import Round, Schedule, merged
from toruscast.routing import dilations, link_loads

from .chain import message_chain

N_PORTS = 6


class Footprint(NamedTuple):
    """Sums over the rounds of a schedule; of the messages, those that wait for each other."""

    rounds: float
    """Rounds, one after the other."""
    carried: float
    """Bytes of the busiest link or port of each round."""
    sent: float
    """Bytes of the busiest port of each round, one way."""
    hops: float
    """Links of the longest way of each round."""
    added: float
    """Bytes that the busiest task adds to its own in each round."""
    messages: float
    """Messages on the longest chain, see `message_chain`."""


def lanes_in_turn(schedule: Schedule) -> Schedule:
    """Return the lanes joined one after another into a single lane."""
    lane = tuple(step for lane in schedule.lanes for step in lane)
    return replace(schedule, lanes=(lane,))


def footprint(
    schedule: Schedule, torus: Torus, mapping: TaskMapping, *, all_ports: bool = False
) -> Footprint:
    """Return the work of the busiest link, port and task, summed over the rounds.

    Parameters
    ----------
    schedule, torus, mapping
        The schedule, and the nodes of its tasks.
    all_ports : bool
        Whether the messages of a task in a round may leave through any port of its node, rather
        than one port for each lane.

    Examples
    --------
    >>> from toruscast.mapping.collectives import schedule
    >>> ring = schedule("allreduce/ring", 4, 400.0)
    >>> footprint(ring, Torus((4,)), TaskMapping([0, 1, 2, 3], 4))
    Footprint(rounds=6.0, carried=600.0, sent=600.0, hops=6.0, added=300.0, messages=6.0)
    """
    if schedule.at_once:
        every = [step for lane in schedule.lanes for step in lane]
        return _together(every, torus, mapping, all_ports)
    known: dict[tuple[int, ...], NDArray[np.float64]] = {}
    total = np.zeros(len(Footprint._fields) - 1)
    for times, steps in schedule.rounds():
        key = tuple(id(step) for step in steps)
        if key not in known:
            known[key] = np.array(_one_round(steps, torus, mapping, all_ports))
        total += times * known[key]
    return Footprint._make([*total.tolist(), message_chain(schedule)])


def simulated_bytes(
    schedule: Schedule,
    torus: Torus,
    mapping: TaskMapping,
    *,
    all_ports: bool = False,
    packets: int = 32,
) -> float:
    """Return the simulated time of a large schedule, as the bytes that a link carries in this time.

    Unlike `Footprint.carried` this lets rounds overlap, as tasks enter them when they can.
    ``packets`` is the number that the largest message is simulated as.

    Examples
    --------
    >>> from toruscast.mapping.collectives import schedule
    >>> tree = schedule("bcast/binary", 8, 2.0**26)
    >>> torus, mapping = Torus((8,)), TaskMapping(list(range(8)), 8)
    >>> late = footprint(tree, torus, mapping).carried / 2**26
    >>> round(late, 3), round(simulated_bytes(tree, torus, mapping) / 2**26, 3)
    (6.0, 5.0)
    """
    network = torus.network
    ports = N_PORTS if all_ports else len(schedule.lanes)
    torus = torus.with_network(fifos=ports, fifo_rule="round_robin", overhead=0.0)
    workload = schedule.workload()
    largest = max(float(phase.nbytes.max(initial=0.0)) for phase in workload)
    coarsening = max(1, int(largest / network.payload / packets))
    time = simulate(workload, torus, mapping, coarsening=coarsening).time
    wire = network.payload / (network.payload + network.header)
    # A port receives one message at a time, which the simulated reception by a node is not.
    lanes = [
        _add([np.bincount(s.dst, s.nbytes * s.times, mapping.n_tasks) for s in lane])
        for lane in schedule.lanes
    ]
    received = max(float(lane.max(initial=0.0)) for lane in lanes)
    return max(time * max(torus.bandwidth) * wire, received / (N_PORTS if all_ports else 1))


def _one_round(
    steps: Sequence[Round], torus: Torus, mapping: TaskMapping, all_ports: bool
) -> tuple[float, ...]:
    n = mapping.n_tasks
    comm = merged(n, steps)
    link = float(link_loads(MappingProblem(comm, torus), mapping).max(initial=0))
    port = max(
        _port([np.bincount(getattr(s, end), s.nbytes, n) for s in steps], steps, all_ports)
        for end in ("src", "dst")
    )
    added = _add([np.bincount(s.dst, weights=s.nbytes, minlength=n) for s in steps if s.reduces])
    hops = float(dilations(MappingProblem(comm, torus), mapping).max(initial=0))
    return 1.0, max(link, port), port, hops, float(added.max(initial=0))


def _port(lanes: list[NDArray[Any]], steps: Sequence[Round], all_ports: bool) -> float:
    """Bytes of the busiest port, given those of each task in each lane."""
    if not all_ports:
        return max(float(lane.max()) for lane in lanes)
    largest = max(float(step.nbytes.max(initial=0)) for step in steps)
    return max(float(_add(lanes).max()) / N_PORTS, largest)


def _together(
    steps: Sequence[Round], torus: Torus, mapping: TaskMapping, all_ports: bool
) -> Footprint:
    """Rounds that all start at once: loads of the links and ports add up."""
    n = mapping.n_tasks
    link = _add([link_loads(MappingProblem(merged(n, [step]), torus), mapping) for step in steps])
    sent = _add([np.bincount(step.src, weights=step.nbytes, minlength=n) for step in steps])
    port = float(sent.max(initial=0)) / (N_PORTS if all_ports else 1)
    carried = max(float(link.max(initial=0)), port)
    return Footprint(1.0, carried, port, float(torus.diameter), 0.0, float(len(steps)))


def _add(arrays: Iterable[NDArray[Any]]) -> NDArray[np.float64]:
    total = np.zeros(0)
    for array in arrays:
        total = total + array if total.size else np.asarray(array, dtype=np.float64)
    return total
