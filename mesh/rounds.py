"""Collectives of all groups of a mesh as workloads of dependent rounds, and simulated."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping import CommGraph, TaskMapping, Torus, Workload, sum_edges
from toruscast.mapping.collectives import schedule
from toruscast.mesh.traffic import MeshTraffic
from toruscast.simulation import Simulation, simulate

from .closed_form import Score, ends, product_grid
from .layouts import box_of, is_uniform

# More messages than this are not simulated: a ranking is to be there soon.
MOST_MESSAGES = 200_000
# Messages of rounds that are simulated one by one, and of the few that show the pace of more.
_ALL_ROUNDS, _FEW_MESSAGES = 60_000, 12_000
PLANS = ("ring", "two-way-ring", "bucket")
# Most packets of the longest message, to which real ones are merged, and of all messages together,
# which keeps thousands of chips fast. A longest message keeps the last of these at least: where all
# are sent at once, and in rounds.
_PACKETS, _MOST_PACKETS, _FEWEST_PACKETS = 32, 300_000, (8, 4)


def simulated_time(
    traffic: MeshTraffic, lines: NDArray[np.int64], torus: Torus, found: Score
) -> float | None:
    """Return the seconds of a collective by simulated packets; None if it has too many messages.

    Of many equal rounds a few are simulated, and the others go on at the pace of the second half of
    them, to within 5 %. Rounds that send the same are simulated once. Flows would not do: those
    that go far get less of a link that they share, and the rounds wait for them.
    """
    lines, torus = _repeating(lines, torus)
    if found.algorithm not in PLANS:
        at_once = _at_once(traffic, lines, torus)
        return None if at_once is None else _simulated(at_once, torus).time
    rounds = _rounds(traffic, lines, torus, found.algorithm)
    if sum(times * phase.n_edges for times, phase in rounds) <= _ALL_ROUNDS:
        every = [phase for times, phase in rounds for _ in range(times)]
        return _simulated(Workload(every, dependent=True), torus).time
    seconds: dict[tuple[int, bytes, bytes, bytes], float] = {}
    total = 0.0
    for times, phase in rounds:
        few = max(_FEW_MESSAGES // phase.n_edges, 2)
        if 2 * few * phase.n_edges > MOST_MESSAGES:
            return None
        key = times, phase.src.tobytes(), phase.dst.tobytes(), phase.nbytes.tobytes()
        if key not in seconds:
            some = min(times, 2 * few)
            first = _simulated(Workload([phase] * some, dependent=True), torus)
            seconds[key] = first.time
            if times > some:
                half, end = (float(first.message_times[i].max()) for i in (few - 1, -1))
                seconds[key] += (times - some) * (end - half) / few
        total += seconds[key]
    return total


def _repeating(lines: NDArray[np.int64], torus: Torus) -> tuple[NDArray[np.int64], Torus]:
    """Return the part of a torus in which groups repeat, and those in it."""
    if not is_uniform(torus):
        return lines, torus
    coords = torus.coords[lines]
    shape = list(torus.shape)
    for d, size in enumerate(torus.shape):
        plane = coords[:, 0, d]
        if size == 1 or (coords[..., d] != plane[:, None]).any():
            continue
        moved = coords.copy()
        moved[..., d] = 0
        if (np.unique(moved, axis=0, return_counts=True)[1] == size).all():
            coords, shape[d] = coords[plane == 0], 1
    part = box_of(torus, shape)
    return np.asarray(part.node(coords), dtype=np.int64), part


def _simulated(rounds: Workload, torus: Torus) -> Simulation:
    longest = max(float(phase.nbytes.max(initial=0.0)) for phase in rounds)
    messages = sum(phase.n_edges for phase in rounds)
    fewest = _FEWEST_PACKETS[rounds.dependent]
    packets = min(_PACKETS, max(_MOST_PACKETS // max(messages, 1), fewest))
    merged = max(int(longest / torus.network.payload / packets), 1)
    mapping = TaskMapping(np.arange(torus.n_nodes), torus)
    return simulate(rounds, torus, mapping, coarsening=merged)


def _rounds(
    traffic: MeshTraffic, lines: NDArray[np.int64], torus: Torus, algorithm: str
) -> list[tuple[int, CommGraph]]:
    """The rounds of one group, run by every group at once: how many in a row, and each."""
    n, kind, nbytes = lines.shape[1], traffic.collective, traffic.nbytes
    if algorithm == "bucket":
        grid = product_grid(torus, lines)
        assert grid is not None
        shape, ports = grid.shape[1:], 2 * (grid.ndim - 1)
        plan = schedule(f"{kind}/bucket", n, nbytes, shape, ports=ports)
        lines = grid.reshape(lines.shape)
    else:
        ports = 1 if algorithm == "ring" else 2
        # Compiled programs send round a ring however few bytes there are.
        plan = schedule(f"{kind}/ring", n, nbytes, ports=ports, element=0)
    phases: list[tuple[int, CommGraph]] = []
    for times, steps in plan.rounds():
        src = np.concatenate([lines[:, step.src].ravel() for step in steps])
        dst = np.concatenate([lines[:, step.dst].ravel() for step in steps])
        amounts = np.concatenate([np.tile(step.nbytes, len(lines)) for step in steps])
        phases.append((times, sum_edges(torus.n_nodes, src, dst, amounts, np.ones(src.size))))
    return phases


def _at_once(traffic: MeshTraffic, lines: NDArray[np.int64], torus: Torus) -> Workload | None:
    kind, n = traffic.collective, lines.shape[1]
    pairs = len(lines) * n * (n - 1) if kind == "alltoall" else 2 * lines.size
    if pairs > MOST_MESSAGES:
        return None
    src, dst = map(np.concatenate, zip(*ends(traffic, lines), strict=True))
    nbytes = np.full(src.size, traffic.nbytes / (n if kind == "alltoall" else 1))
    return Workload([sum_edges(torus.n_nodes, src, dst, nbytes, np.ones(src.size))])
