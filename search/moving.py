"""Loads of a mapping, updated while tasks change places."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toruscast.errors import InputError
from toruscast.mapping import CommGraph, TaskMapping, Torus, Workload, as_workload
from toruscast.mapping.task_mapping import as_mapping
from toruscast.routing.packets import packet_counts
from toruscast.routing.routing import check_routing, phase_routings
from toruscast.typing import Routing
from toruscast.validation import one_of, whole_array

from ._delta_kernels import Change, Ends, Uses, add_all, move_tasks
from .uses import table_of_uses

# Sums of weights stay below this, so that they are exact in 64 bits.
_MOST = 2.0**61


class MovingLoads:
    """Loads of links, injection FIFOs and receivers under a mapping whose tasks may be moved.

    Loads are whole numbers, so after any moves they equal a new count to the last byte.

    Parameters
    ----------
    traffic : Workload or CommGraph
        What is sent. Phases are counted apart; the rounds of a dependent workload count together.
    torus : Torus
        The host, of at most `MOST_NODES` nodes.
    mapping : TaskMapping
        Where the tasks are at first.
    count : {"nbytes", "wire_bytes"}
        Bytes of the messages, or with the headers of their packets.
    routing : {"deterministic", "adaptive", "by_size"}
        Adaptive routing is an even split over the minimal ways, rounded to 2**-16.

    Raises
    ------
    InputError
        If the mapping does not fit, or the torus is too large.

    Examples
    --------
    >>> comm = CommGraph(3, [0, 1], [1, 2], [100, 50])
    >>> loads = MovingLoads(comm, Torus((8,)), TaskMapping([0, 1, 2], 8))
    >>> loads.hop_bytes, float(loads.link_loads.max())
    (150.0, 100.0)
    >>> loads.move([2], [3])
    50.0
    >>> loads.hop_bytes, loads.node
    (200.0, array([0, 1, 3], dtype=int32))
    """

    def __init__(
        self,
        traffic: Workload | CommGraph,
        torus: Torus,
        mapping: TaskMapping,
        *,
        count: str = "nbytes",
        routing: Routing = "deterministic",
        uses: tuple[Uses, int] | None = None,
        ends: tuple[Ends, float] | None = None,
    ) -> None:
        workload = as_workload(traffic)
        as_mapping(mapping).check(workload.n_tasks, torus)
        self.torus = torus
        self.uses, self.parts = usable(workload, torus, routing) if uses is None else uses
        n_fifos = torus.n_nodes * torus.network.fifos
        self.n_resources = torus.n_links + n_fifos + torus.n_nodes
        self.n_phases = 1 if workload.dependent else len(workload)
        self.ends, self.unit = ends or ends_of(workload, torus, count, self.n_resources, self.parts)
        size = self.n_phases * self.n_resources
        self.load = np.zeros(size, dtype=np.int64)
        self.node = mapping.node.copy()
        self.units_of_hops = add_all(self.ends, self.uses, self.node, self.load)
        # An edge may list all loads of its way before repeated ones are removed.
        listed, most = 2 * size + 1, 2 * int(np.diff(self.ends.first).max(initial=0))
        self.change = Change(
            load=np.zeros(size, dtype=np.int64),
            listed=np.zeros(listed, dtype=np.int64),
            amount=np.zeros(listed, dtype=np.int64),
            node=self.node.copy(),
            is_moved=np.zeros(self.node.size, dtype=np.bool_),
            begin=np.zeros(most, dtype=np.int32),
            end=np.zeros(most, dtype=np.int32),
            weight=np.zeros(most, dtype=np.int64),
            base=np.zeros(most, dtype=np.int64),
        )

    def place(self, mapping: TaskMapping) -> None:
        """Count the loads of another mapping."""
        self.node[:] = self.change.node[:] = mapping.node
        self.load[:] = 0
        self.units_of_hops = add_all(self.ends, self.uses, self.node, self.load)

    def move(self, tasks: ArrayLike, nodes: ArrayLike) -> float:
        """Move tasks to other nodes; return the change of hop-bytes.

        An exchange is a move of two tasks. Room on the nodes is not checked.

        Raises
        ------
        InputError
            If there is no such task or node, a task stands twice, or the numbers differ.
        """
        moved, to = whole_array(tasks, "tasks"), self.torus.check_nodes(nodes)
        if moved.shape != to.shape or np.unique(moved).size != moved.size:
            raise InputError("bad move", found=tasks, expected="different tasks, a node for each")
        if moved.size and (moved.min() < 0 or moved.max() >= self.node.size):
            raise InputError("bad move", found=tasks, expected=f"tasks 0 to {self.node.size - 1}")
        self.change.node[moved] = to
        hops = move_tasks(self.ends, self.uses, self.node, self.load, moved, self.change)
        self.units_of_hops += hops
        return float(hops * self.unit)

    @property
    def hop_bytes(self) -> float:
        """Bytes times hops, summed over all phases."""
        return float(self.units_of_hops * self.unit)

    @property
    def bytes_by_resource(self) -> NDArray[np.float64]:
        """Bytes over every resource in each phase, ``(n_phases, n_resources)``.

        Links as in `Torus`, then injection FIFOs ``node * fifos + fifo``, then receivers.
        """
        scale = self.unit / self.parts
        return np.asarray(self.load.reshape(self.n_phases, -1) * scale, dtype=np.float64)

    @property
    def link_loads(self) -> NDArray[np.float64]:
        """Bytes over every link in all phases, ``(n_links,)``."""
        return np.asarray(self.bytes_by_resource[:, : self.torus.n_links].sum(axis=0))


def usable(workload: Workload, torus: Torus, routing: Routing) -> tuple[Uses, int]:
    """Return the ways between all nodes under the workload's routing, and the parts of a unit.

    If some phases are adaptive, all are taken as adaptive.
    """
    check_routing(routing)
    ways = phase_routings(routing, workload, torus)
    return table_of_uses(torus, "adaptive" if "adaptive" in ways else "deterministic")


def ends_of(
    workload: Workload, torus: Torus, count: str, n_resources: int, parts: int
) -> tuple[Ends, float]:
    """Return the edges at each task with whole weights, and the bytes of a unit of weight."""
    one_of(count, "count", ("nbytes", "wire_bytes"))
    columns = []
    for number, comm in enumerate(workload):
        weight = comm.nbytes
        if count == "wire_bytes":
            packets, each = packet_counts(comm, torus)
            weight = packets * each
        between = comm.src != comm.dst
        base = np.full(comm.n_edges, 0 if workload.dependent else number * n_resources)
        columns.append([a[between] for a in (comm.src, comm.dst, weight, base)])
    src, dst, weight, base = (np.concatenate(part) for part in zip(*columns, strict=True))
    units, unit = _whole(weight, parts * max(torus.diameter, 1))
    task = np.concatenate([src, dst])
    order = np.argsort(task, kind="stable")
    first = np.concatenate([[0], np.cumsum(np.bincount(task, minlength=workload.n_tasks))])
    sends = np.arange(task.size) < src.size
    ends = Ends(
        first.astype(np.int64),
        np.concatenate([dst, src])[order].astype(np.int32),
        sends[order],
        np.concatenate([units, units])[order],
        np.concatenate([base, base])[order].astype(np.int64),
    )
    return ends, unit


def _whole(weight: NDArray[np.float64], most: int) -> tuple[NDArray[np.int64], float]:
    """Return weights in whole units so that ``most`` times their sum fits; in bytes if possible."""
    total = float(weight.sum()) * most
    if total < _MOST and (weight == np.rint(weight)).all():
        return weight.astype(np.int64), 1.0
    unit = 2.0 ** max(math.ceil(math.log2(max(total, 2.0**-900))) - 61, -1022)
    return np.rint(weight / unit).astype(np.int64), unit
