"""Rank orders of a job on Fugaku.

``rank-map-bynode=XYZ`` places a job's ranks node by node, the first letter fastest, and starts
again when every node has one. ``--vcoordfile`` takes any other placement.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.mapping import CommGraph, TaskMapping, Torus, Workload, as_workload, strategies
from toruscast.mapping.machines import tofu_d
from toruscast.mapping.strategies.orders import loop, snake
from toruscast.validation import machine_shape, whole_number

# Placements that no order of letters gives, as candidates for a vcoordfile beside walks over the
# job's shape, which fold a chain or ring of ranks into it.
_STRATEGIES = ("bisect-refined", "greedy-heaviest")
_UNIT = (2, 3, 2)


def rank_order(shape: Sequence[int], order: str, n_tasks: int) -> NDArray[np.int64]:
    """Return the node of each rank, nodes in C order of the job's shape."""
    n_nodes = int(np.prod(shape))
    axes = ["XYZ".index(letter) for letter in reversed(order)]
    nodes = np.arange(n_nodes).reshape(shape).transpose(axes).ravel()
    return nodes[np.arange(n_tasks) % n_nodes]


def job_torus(
    shape: Sequence[int], coords: NDArray[np.int64] | None = None
) -> tuple[Torus, NDArray[np.int32]]:
    """Return the network of a job, and the network's node of each node of the job.

    Without coordinates it is the torus that the job asks for; sides of one or two nodes are lines.
    With the coordinates of its nodes in the machine, ``(n_nodes, 6)`` in C order of the shape, it
    is the box of the machine around them, whose X, Y and Z do not wrap.
    """
    sizes = machine_shape(shape, (1, 2, 3), "Fugaku job")
    n_nodes = int(np.prod(sizes))
    if coords is None:
        torus = tofu_d(sizes, wrap=tuple(size > 2 for size in sizes))
        return torus, np.arange(n_nodes, dtype=np.int32)
    if coords.shape != (n_nodes, 6):
        found = " x ".join(map(str, coords.shape))
        expected = f"a line of X Y Z a b c for each of the job's {n_nodes} nodes"
        raise InputError("bad coordinates of a job", found=found, expected=expected)
    inside = (coords[:, 3:] >= 0) & (coords[:, 3:] < np.array(_UNIT))
    if not inside.all() or len(np.unique(coords, axis=0)) != n_nodes:
        expected = "different nodes, a below 2, b below 3, c below 2"
        raise InputError("bad coordinates of a job", expected=expected)
    low = coords[:, :3].min(axis=0)
    box = tofu_d((*(coords[:, :3].max(axis=0) - low + 1).tolist(), *_UNIT), wrap=False)
    return box, box.node(np.column_stack([coords[:, :3] - low, coords[:, 3:]]))


def job_mappings(
    traffic: Workload | CommGraph,
    shape: Sequence[int],
    coords: NDArray[np.int64] | None = None,
) -> tuple[list[TaskMapping], dict[str, TaskMapping]]:
    """Return the rank orders of a job, on the network and in the job's own shape."""
    workload = as_workload(traffic)
    torus, place = job_torus(shape, coords)
    n_tasks = whole_number(workload.n_tasks, "number of tasks", 1)
    each = -(-n_tasks // place.size)
    sizes = machine_shape(shape, (1, 2, 3), "Fugaku job")
    nodes = {
        f"rank-map-bynode={''.join(letters)}": rank_order(shape, "".join(letters), n_tasks)
        for letters in permutations("XYZ"[: len(sizes)])
    }
    nodes |= _walks(sizes, n_tasks)
    if coords is None:
        for name in _STRATEGIES:
            made = strategies.make(name, workload, torus, tasks_per_node=each)
            nodes[name] = made.node.astype(np.int64)
    job = Torus(sizes)
    mappings = [TaskMapping(place[node], torus, name=name) for name, node in nodes.items()]
    return mappings, {name: TaskMapping(node, job, name=name) for name, node in nodes.items()}


def _walks(shape: Sequence[int], n_tasks: int) -> dict[str, NDArray[np.int64]]:
    """The job's node of each rank on walks over its shape: a snake, and a loop if it exists."""
    long = [d for d, size in enumerate(shape) if size > 1]
    # A loop needs an even size first: the walk goes there and back along that dimension.
    even_first = sorted(long, key=lambda d: shape[d] % 2)
    strides = np.cumprod((1, *tuple(shape)[:0:-1]))[::-1]
    found = {}
    for name, walk, dims in (("loop", loop, even_first), ("snake", snake, long)):
        cells = walk([shape[d] for d in dims]) if len(long) > 1 else None
        if cells is not None:
            nodes = cells @ strides[dims]
            found[name] = np.asarray(nodes[np.arange(n_tasks) % nodes.size], dtype=np.int64)
    return found
