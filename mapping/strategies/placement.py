"""The input of strategies: a mapping problem, its task grid and the places on the nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from toruscast._lazy import Slow, lazy
from toruscast.errors import InputError
from toruscast.text import counted
from toruscast.validation import whole_number

from ..comm_graph import CommGraph, Partners
from ..problem import MappingProblem
from ..task_mapping import MAX_SLOTS, TaskMapping
from ..torus import Torus
from ..twist import Metric, images

if TYPE_CHECKING:
    from . import placement_kernels as placement_kernels
else:
    # numba takes long to start, and few strategies need it.
    placement_kernels = Slow("toruscast.mapping.strategies.placement_kernels")


@dataclass(frozen=True, eq=False)
class Placement:
    """The task of placing tasks on nodes.

    A *place* is a slot of a node: place ``p`` is slot ``p % tasks_per_node`` of node
    ``p // tasks_per_node``.

    Parameters
    ----------
    problem : MappingProblem
        Strategies read the total of its traffic and fold its grid; without a grid, tasks count as
        numbered along a near-cubic one of three dimensions.
    tasks_per_node : int, optional
        Capacity of a node; the least that suffices if not given.
    is_late : callable
        Whether a strategy that looks at several mappings is to end with the best so far.

    Examples
    --------
    >>> placement = Placement(MappingProblem(CommGraph(12, [0], [1], [8]), "3x3"))
    >>> placement.grid, placement.tasks_per_node, placement.n_places
    ((3, 2, 2), 2, 18)
    """

    problem: MappingProblem
    tasks_per_node: int | None = None
    is_late: Callable[[], bool] = lambda: False

    def __post_init__(self) -> None:
        n_tasks, n_nodes = self.n_tasks, self.torus.usable_nodes.size
        capacity = self.tasks_per_node
        if capacity is None:
            capacity = min(-(-n_tasks // n_nodes), MAX_SLOTS)
        capacity = whole_number(capacity, "tasks per node", 1, MAX_SLOTS)
        if n_tasks > n_nodes * capacity:
            name = self.problem.workload.name
            where = f" in {name}" if name else ""
            found = f"{n_tasks}{where}"
            expected = f"at most {counted(n_nodes, 'node')} x {capacity}"
            raise InputError("too many tasks for the torus", found=found, expected=expected)
        object.__setattr__(self, "tasks_per_node", capacity)

    @property
    def capacity(self) -> int:
        """Slots of a node."""
        return int(self.tasks_per_node or 1)

    @property
    def torus(self) -> Torus:
        """The host."""
        return self.problem.torus

    @property
    def total(self) -> CommGraph:
        """The traffic of all phases."""
        return self.problem.comm

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return self.problem.n_tasks

    @property
    def n_places(self) -> int:
        """Slots of all nodes."""
        return self.torus.n_nodes * self.capacity

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the torus, and the slots of a node."""
        return (*self.torus.shape, self.capacity)

    @lazy
    def grid(self) -> tuple[int, ...]:
        """The logical task grid."""
        return self.problem.workload.grid or near_cube(self.n_tasks, 3)

    @lazy
    def letters(self) -> str:
        """A letter for each torus dimension, as the machine calls them, and T for the slots."""
        return self.torus.axes + "T"

    @lazy
    def partners(self) -> Partners:
        """Traffic both ways between tasks."""
        total = self.total.without_self_messages()
        weights = total.to_scipy()
        both = (weights + weights.T).tocsr()
        both.sort_indices()
        ends = both.indptr.astype(np.int64), both.indices.astype(np.int64)
        return Partners(*ends, both.data)

    @lazy
    def metric(self) -> Metric:
        """Distances on the torus, for kernels."""
        shape, twist = self.torus.shape, self.torus.twist
        return Metric(np.array(shape), np.array(self.torus.wrap), images(shape, twist))

    @lazy
    def bases(self) -> dict[str, NDArray[Any]]:
        """Mappings that others start from, by name, each made once."""
        return {}

    def mapping(self, node: NDArray[Any], name: str) -> TaskMapping:
        """Return the mapping of a name, given the node of each task."""
        return TaskMapping(node, self.torus, tasks_per_node=self.capacity, name=name)

    def hop_bytes(self, node: NDArray[Any]) -> float:
        """Return the sum of bytes times hops over all edges, for a node of each task."""
        edges = self.total
        if self.torus.twist:
            return float(self.torus.distance(node[edges.src], node[edges.dst]) @ edges.nbytes)
        return float(
            placement_kernels.sum_hop_bytes(
                edges.src,
                edges.dst,
                edges.nbytes,
                self.torus.coords[node],
                np.array(self.torus.shape, dtype=np.int32),
                np.array(self.torus.wrap),
            )
        )


def divisors(number: int) -> tuple[int, ...]:
    """Return the divisors of a number, rising."""
    low = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    return tuple(low + [number // d for d in reversed(low) if d * d != number])


def near_cube(volume: int, ndim: int) -> tuple[int, ...]:
    """Return ``ndim`` factors of ``volume``, largest first, about as equal as can be."""
    sizes: list[int] = []
    for left in range(ndim, 0, -1):
        # The largest factor not above the root of what is left keeps the rest no smaller.
        target = round(volume ** (1 / left), 9)
        factor = max((f for f in divisors(volume) if f <= target), default=1)
        factor = volume if left == 1 else factor
        sizes.append(factor)
        volume //= factor
    return tuple(sorted(sizes, reverse=True))


def block_shape(shape: Sequence[int], volume: int) -> tuple[int, ...]:
    """Return a near-cubic block of at most ``volume`` cells that fits into ``shape``."""
    block = [1] * len(shape)
    while True:
        room = [
            d
            for d, size in enumerate(shape)
            if block[d] < size and math.prod(block) // block[d] * min(2 * block[d], size) <= volume
        ]
        if not room:
            return tuple(block)
        d = min(room, key=lambda d: (block[d], d))
        block[d] = min(2 * block[d], shape[d])


def boxes(shape: Sequence[int], volume: int) -> list[tuple[int, ...]]:
    """Return all boxes of that volume whose sizes divide those of the shape."""
    if not shape:
        return [()] if volume == 1 else []
    edges = [e for e in range(1, min(shape[0], volume) + 1) if shape[0] % e == volume % e == 0]
    return [(e, *rest) for e in edges for rest in boxes(shape[1:], volume // e)]
