"""Products of rings, lines and cliques, found in a graph however its tasks are numbered.

A sharded model sends along the axes of a mesh, a halo to the neighbours in a grid: the graph is a
Cartesian product, one factor an axis. Where the factors are found, the layouts of such a mesh are
starts of a search.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from toruscast._mesh.devices import Devices, chips_as_devices
from toruscast._mesh.layouts import LayoutScorer, best_layouts
from toruscast._mesh.step_times import MeshProblem
from toruscast._mesh.traffic import MeshAxes, MeshTraffic
from toruscast.mapping import CommGraph, MappingProblem, TaskMapping
from toruscast.mapping.task_mapping import Allocation
from toruscast.mapping.torus import MAX_DIMENSIONS

from ._graph_kernels import join_by_squares
from .annealing import Clock

# Steps of the search for squares that are affordable, and layouts that are looked at.
_MAX_STEPS, _MAX_SPLITS = 2e8, 3000
# Tasks up to which so many are looked at; of more, the fewer the larger the torus is.
_MANY_TASKS = 1000
# Weights beside the heaviest that may be left out: none, or those of small talk, such as over the
# edges and corners of blocks of eight cells a side.
_SMALL = (0.0, 0.15)
# Edges in less than this share of the median's squares are not of the product.
_ENOUGH = 0.5
# Logarithms of weights of one kind of edges have no such gap; graphs with more kinds are of one.
_GAP, _MAX_KINDS = 0.1, 16
# Weights that differ by less are those of one axis.
_ALIKE = 0.05
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, eq=False)
class Factor:
    """An axis of a product: a ring (exchange), a line (pipeline), or everyone with everyone."""

    kind: str
    size: int
    weight: float  # bytes that two neighbours exchange, both ways together


def factors(comm: CommGraph) -> tuple[list[Factor], NDArray[np.int64]] | None:
    """Return the axes of a product, and the task at each place of their mesh; None if it is none.

    Edges of different factors are opposite sides of squares (Feder, J. Graph Theory 16, 1992).
    """
    both = comm.without_self_messages().to_scipy()
    both = sparse.csr_array(both + both.T)
    for small in _SMALL:
        kept = both.copy()
        kept.data = np.where(both.data >= small * both.data.max(initial=0.0), both.data, 0.0)
        kept.eliminate_zeros()
        found = _factorise(kept)
        if found is None and kept.nnz and _is_affordable(kept):
            found = _factorise(_without_strays(kept))
        if found is not None:
            return found
    return None


def _without_strays(both: sparse.csr_array) -> sparse.csr_array:
    """Leave out the edges that are not of the product: they lie in few squares, by chance."""
    row, column = np.repeat(np.arange(both.shape[0]), np.diff(both.indptr)), both.indices
    order = np.argsort(both.data, kind="stable")
    kind = np.empty(both.nnz, dtype=np.int64)
    kind[order] = np.append(0, np.cumsum(np.diff(np.log(both.data[order])) > _GAP))
    if kind.max() >= _MAX_KINDS:
        kind[:] = 0
    one = sparse.csr_array((np.ones(both.nnz), column, both.indptr), both.shape)
    squares = np.zeros(both.nnz)
    for number in range(int(kind.max()) + 1):
        own = kind == number
        side = sparse.csr_array((np.ones(own.sum()), (row[own], column[own])), both.shape)
        squares += (side @ one @ side)[row, column]
        # Walks that turn round are no squares.
        degree = np.diff(side.indptr)
        squares[own] -= (degree[row] + degree[column] - 1)[own]
    kept = squares >= _ENOUGH * np.median(squares)
    return sparse.csr_array((both.data[kept], (row[kept], column[kept])), both.shape)


def _is_affordable(both: sparse.csr_array) -> bool:
    degree = np.diff(both.indptr)
    return bool(float(both.shape[0]) * degree.max(initial=0) ** 3 <= _MAX_STEPS)


def product_starts(
    problem: MappingProblem, allocation: Allocation, n: int, clock: Clock, most: float = math.inf
) -> list[TaskMapping]:
    """Return the best layouts of a workload's graph, if it is a product, of those seen in time.

    At ``most`` so many are seen of each form. Where nodes hold several tasks, it must fill them
    all, and places are one more dimension.
    """
    torus, n_tasks, capacity = problem.torus, problem.n_tasks, allocation.tasks_per_node
    nodes = np.sort(np.asarray(allocation.nodes, dtype=np.int64))
    whole = nodes.size == torus.n_nodes and n_tasks == nodes.size * capacity
    plain = whole and not torus.twist and torus.ndim < MAX_DIMENSIONS
    if allocation.fixed or torus.exclusions.links or (capacity > 1 and not plain):
        return []
    found = factors(problem.comm)
    if found is None:
        return []
    devices_torus = chips_as_devices(torus, n_tasks, capacity)
    places = nodes if capacity == 1 else np.arange(n_tasks)
    devices = Devices(places, places)
    starts: list[TaskMapping] = []
    for axes, tasks in _as_meshes(*found):
        names = tuple(_LETTERS[: len(axes)])
        traffic = tuple(
            MeshTraffic(
                axis.kind, axis.weight / 2 * (axis.size if axis.kind == "alltoall" else 1), (name,)
            )
            for axis, name in zip(axes, names, strict=True)
            if axis.weight
        )
        mesh = MeshAxes(names, tuple(axis.size for axis in axes))
        scorer = LayoutScorer(MeshProblem(devices_torus, mesh, traffic, overlap=True))
        splits = _MAX_SPLITS * min(_MANY_TASKS, n_tasks) // n_tasks
        seen = itertools.count(1)

        def is_over(seen: itertools.count[int] = seen) -> bool:
            return next(seen) > most or clock.is_over()

        _, layouts = best_layouts(scorer, devices, n, 1, None, splits, is_over)
        for layout in layouts:
            node = np.empty(n_tasks, dtype=np.int64)
            node[tasks.ravel()] = layout.nodes.ravel() // capacity
            name = f"product@{len(starts) + 1}"
            starts.append(TaskMapping(node, torus, tasks_per_node=capacity, name=name))
    return starts


def _as_meshes(
    axes: list[Factor], tasks: NDArray[np.int64]
) -> Iterator[tuple[list[Factor], NDArray[np.int64]]]:
    """Give the product as it is, and with pairs of alike axes of two as rings of four."""
    yield axes, tasks
    pairs = [
        (i, j)
        for i, j in pairwise(range(len(axes)))
        if axes[i].size == 2 and _are_alike(axes[i : i + 1], axes[j : j + 1])
    ]
    if not pairs:
        return
    while pairs:
        # From the last, so that the numbers of those before stay.
        i, j = pairs.pop()
        pairs = [pair for pair in pairs if not {i, j} & {*pair}]
        shape = tasks.shape
        flat = tasks.reshape(*shape[:i], 4, *shape[j + 1 :])
        tasks = flat.take([0, 1, 3, 2], axis=i)
        axes = [*axes[:i], Factor("exchange", 4, axes[i].weight), *axes[j + 1 :]]
    yield axes, tasks


def _are_alike(several: Sequence[Factor], others: Sequence[Factor]) -> bool:
    """Whether factors are of the same kinds and sizes, with about the same weights."""
    return len(several) == len(others) and all(
        (a.kind, a.size) == (b.kind, b.size)
        and abs(a.weight - b.weight) <= _ALIKE * max(a.weight, b.weight)
        for a, b in zip(several, others, strict=True)
    )


def _factorise(both: sparse.csr_array) -> tuple[list[Factor], NDArray[np.int64]] | None:
    n, degree = both.shape[0], np.diff(both.indptr)
    if not both.nnz or (degree == 0).any() or not _is_affordable(both):
        return None
    entries = both.tocoo()
    upper = entries.row < entries.col
    src, dst, weight = entries.row[upper], entries.col[upper], entries.data[upper]
    number = sparse.csr_array((np.arange(1, src.size + 1), (src, dst)), shape=both.shape)
    edges = sparse.csr_array(number + number.T)
    edges.sort_indices()
    classes = join_by_squares(
        edges.indptr.astype(np.int64),
        edges.indices.astype(np.int64),
        edges.data.astype(np.int64) - 1,
        src.size,
    )
    n_copies, copy = csgraph.connected_components(both, directed=False)
    if n % n_copies or (np.bincount(copy) != n // n_copies).any():
        return None
    axes: list[Factor] = []
    tasks = []
    for one in range(n_copies):
        part = _component_axes(src, dst, weight, classes, copy == one)
        if part is None or (axes and not _are_alike(axes, part[0])):
            return None
        axes = axes or part[0]
        tasks.append(part[1])
    if n_copies == 1:
        return axes, tasks[0]
    return [Factor("exchange", n_copies, 0.0), *axes], np.stack(tasks)


def _component_axes(
    src: NDArray[np.int32],
    dst: NDArray[np.int32],
    weight: NDArray[np.float64],
    classes: NDArray[np.int64],
    ours: NDArray[np.bool_],
) -> tuple[list[Factor], NDArray[np.int64]] | None:
    """Factors of a connected graph, the heaviest last, and the task at each of its places."""
    inside = ours[src]
    n, shape = int(ours.sum()), (ours.size, ours.size)
    axes, places = [], []
    for number in np.unique(classes[inside]):
        along = inside & (classes == number)
        rest = inside & (classes != number)
        graph = sparse.csr_array((np.ones(rest.sum()), (src[rest], dst[rest])), shape=shape)
        label = csgraph.connected_components(graph, directed=False)[1][ours]
        place = np.full(ours.size, -1)
        place[ours] = np.unique(label, return_inverse=True)[1]
        found = _axis_order(place[src[along]], place[dst[along]], weight[along])
        if found is None:
            return None
        axis, order = found
        axes.append(axis)
        places.append(order[place[ours]])
    lightest = sorted(range(len(axes)), key=lambda i: (axes[i].weight, axes[i].size, axes[i].kind))
    axes, places = [axes[i] for i in lightest], [places[i] for i in lightest]
    sizes = tuple(axis.size for axis in axes)
    if np.prod(sizes) != n:
        return None
    tasks = np.full(sizes, -1)
    tasks[tuple(places)] = np.flatnonzero(ours)
    return (axes, tasks) if (tasks >= 0).all() else None


def _axis_order(
    src: NDArray[np.int64], dst: NDArray[np.int64], weight: NDArray[np.float64]
) -> tuple[Factor, NDArray[np.int64]] | None:
    """What a factor is, and where each of its vertices stands along it."""
    if (src == dst).any():
        return None
    n = int(max(src.max(), dst.max())) + 1
    ones = np.ones(src.size)
    graph = sparse.csr_array((ones, (src, dst)), shape=(n, n))
    graph = sparse.csr_array(graph + graph.T)
    degree = np.diff(graph.indptr)
    mean = float(weight.mean())
    if n > 3 and (degree == n - 1).all():
        return Factor("alltoall", n, mean), np.arange(n)
    if degree.max() > 2:
        return None
    kind = "pipeline" if (degree == 1).any() else "exchange"
    walk = csgraph.depth_first_order(graph, int(degree.argmin()), return_predecessors=False)
    order = np.empty(n, dtype=np.int64)
    order[walk] = np.arange(n)
    # A line carries half the bytes each way, as a ring's neighbours do.
    return Factor(kind if n > 2 else "exchange", n, mean), order
