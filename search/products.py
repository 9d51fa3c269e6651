"""Factorisation of a graph into a Cartesian product of rings, lines and cliques.

A sharded model communicates along the axes of a mesh, and a halo exchange along the axes of a grid.
Either graph is a Cartesian product with one factor for each axis, however the tasks are numbered.
The axes span a mesh, and layouts of this mesh are starts of a search.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from toruscast._mesh.devices import Devices, split_chips
from toruscast._mesh.layouts import LayoutScorer, rank_layouts
from toruscast._mesh.step_times import MeshProblem
from toruscast._mesh.traffic import MeshAxes, MeshTraffic
from toruscast.mapping import CommGraph, MappingProblem, TaskMapping
from toruscast.mapping.task_mapping import Allocation
from toruscast.mapping.torus import MAX_DIMENSIONS
from toruscast.typing import Bools, Floats, Int32s, Ints

from ._graph_kernels import classify_edges_by_squares
from .annealing import Clock

# Maximum steps of the search for squares, and maximum number of evaluated layouts.
_MAX_STEPS, _MAX_SPLITS = 2e8, 3000
# With n times as many tasks as this, the maximum number of layouts is divided by n.
_REFERENCE_TASKS = 1000
# Edges lighter than this share of the heaviest are ignored; both shares are tried. With blocks of
# eight cells along each side, the second ignores halo messages across edges and corners.
_NEGLIGIBLE_SHARES = (0.0, 0.15)
# Edges in fewer squares than this share of the median are not part of the product.
_MIN_SQUARE_SHARE = 0.5
# Minimum gap between the log weights of two kinds of edges, and maximum number of kinds. In a graph
# with more kinds, all edges count as one kind.
_MIN_LOG_GAP, _MAX_KINDS = 0.1, 16
# Maximum relative difference between the weights of equivalent axes.
_WEIGHT_TOLERANCE = 0.05
_AXIS_NAMES = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, eq=False)
class Factor:
    """An axis of a product: a ring (exchange), a line (pipeline) or a clique (alltoall)."""

    kind: str
    size: int
    weight: float  # bytes between two neighbours, in both directions together


def find_factors(comm: CommGraph) -> tuple[list[Factor], Ints] | None:
    """Return a product graph's axes, and the task at each mesh coordinate; None for other graphs.

    Opposite edges of a square belong to one factor (Feder, J. Graph Theory 16, 1992).
    """
    graph = comm.without_self_messages().to_scipy()
    graph = sparse.csr_array(graph + graph.T)
    for share in _NEGLIGIBLE_SHARES:
        pruned = graph.copy()
        min_weight = share * graph.data.max(initial=0.0)
        pruned.data = np.where(graph.data >= min_weight, graph.data, 0.0)
        pruned.eliminate_zeros()
        product = _factorise_graph(pruned)
        if product is None and pruned.nnz and _is_affordable(pruned):
            product = _factorise_graph(_remove_stray_edges(pruned))
        if product is not None:
            return product
    return None


def _remove_stray_edges(graph: sparse.csr_array) -> sparse.csr_array:
    """Remove the edges that are part of few squares, because they belong to no factor."""
    row, column = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr)), graph.indices
    order = np.argsort(graph.data, kind="stable")
    kind = np.empty(graph.nnz, dtype=np.int64)
    kind[order] = np.append(0, np.cumsum(np.diff(np.log(graph.data[order])) > _MIN_LOG_GAP))
    if kind.max() >= _MAX_KINDS:
        kind[:] = 0
    adjacency = sparse.csr_array((np.ones(graph.nnz), column, graph.indptr), graph.shape)
    squares = np.zeros(graph.nnz)
    for kind_number in range(int(kind.max()) + 1):
        is_kind = kind == kind_number
        ones = np.ones(is_kind.sum())
        kind_graph = sparse.csr_array((ones, (row[is_kind], column[is_kind])), graph.shape)
        squares += (kind_graph @ adjacency @ kind_graph)[row, column]
        # A walk of three edges that uses an edge twice closes no square, so subtract such walks.
        degree = np.diff(kind_graph.indptr)
        squares[is_kind] -= (degree[row] + degree[column] - 1)[is_kind]
    is_kept = squares >= _MIN_SQUARE_SHARE * np.median(squares)
    return sparse.csr_array((graph.data[is_kept], (row[is_kept], column[is_kept])), graph.shape)


def _is_affordable(graph: sparse.csr_array) -> bool:
    """Return whether the search for squares takes few enough steps."""
    degree = np.diff(graph.indptr)
    return bool(float(graph.shape[0]) * degree.max(initial=0) ** 3 <= _MAX_STEPS)


def make_product_starts(
    problem: MappingProblem,
    allocation: Allocation,
    n: int,
    clock: Clock,
    max_layouts: float = math.inf,
) -> list[TaskMapping]:
    """Return the ``n`` best layouts found in time, for a workload whose graph is a product.

    At most ``max_layouts`` layouts of each mesh are evaluated. If nodes have several tasks, the
    tasks must fill all nodes, and the slots of a node count as one more dimension.
    """
    torus, n_tasks, capacity = problem.torus, problem.n_tasks, allocation.tasks_per_node
    nodes = np.sort(np.asarray(allocation.nodes, dtype=np.int64))
    fills_torus = nodes.size == torus.n_nodes and n_tasks == nodes.size * capacity
    supports_slots = fills_torus and not torus.twist and torus.ndim < MAX_DIMENSIONS
    if allocation.fixed or torus.exclusions.links or (capacity > 1 and not supports_slots):
        return []
    product = find_factors(problem.comm)
    if product is None:
        return []
    devices_torus = split_chips(torus, n_tasks, capacity)
    device_nodes = nodes if capacity == 1 else np.arange(n_tasks)
    devices = Devices(device_nodes, device_nodes)
    starts: list[TaskMapping] = []
    for axes, tasks in _mesh_variants(*product):
        names = tuple(_AXIS_NAMES[: len(axes)])
        traffic = []
        for axis, name in zip(axes, names, strict=True):
            if axis.weight:
                # The weight counts both directions. An all-to-all counts all bytes that a task
                # sends.
                nbytes = axis.weight / 2 * (axis.size if axis.kind == "alltoall" else 1)
                traffic.append(MeshTraffic(axis.kind, nbytes, (name,)))
        mesh = MeshAxes(names, tuple(axis.size for axis in axes))
        scorer = LayoutScorer(MeshProblem(devices_torus, mesh, tuple(traffic), overlap=True))
        max_splits = _MAX_SPLITS * min(_REFERENCE_TASKS, n_tasks) // n_tasks
        counter = itertools.count(1)

        def is_over(counter: itertools.count[int] = counter) -> bool:
            return next(counter) > max_layouts or clock.is_over()

        _, layouts = rank_layouts(scorer, devices, n, 1, None, max_splits, is_over)
        for layout in layouts:
            node = np.empty(n_tasks, dtype=np.int64)
            node[tasks.ravel()] = layout.nodes.ravel() // capacity
            name = f"product@{len(starts) + 1}"
            starts.append(TaskMapping(node, torus, tasks_per_node=capacity, name=name))
    return starts


def _mesh_variants(axes: list[Factor], tasks: Ints) -> Iterator[tuple[list[Factor], Ints]]:
    """Yield the product, and a variant in which rings of size 4 replace pairs of axes of size 2.

    Both describe a square. There is no variant if no pair can be replaced.
    """
    yield axes, tasks
    n_axes = len(axes)
    # Replace the last pair first, so that the numbers of earlier axes stay valid.
    for i in reversed(range(n_axes - 1)):
        if axes[i].size == 2 and _are_equivalent(axes[i : i + 1], axes[i + 1 : i + 2]):
            merged = tasks.reshape(*tasks.shape[:i], 4, *tasks.shape[i + 2 :])
            tasks = merged.take([0, 1, 3, 2], axis=i)
            axes = [*axes[:i], Factor("exchange", 4, axes[i].weight), *axes[i + 2 :]]
    if len(axes) < n_axes:
        yield axes, tasks


def _are_equivalent(several: Sequence[Factor], others: Sequence[Factor]) -> bool:
    """Return whether two lists of factors have equal kinds, equal sizes and similar weights."""
    return len(several) == len(others) and all(
        (a.kind, a.size) == (b.kind, b.size)
        and abs(a.weight - b.weight) <= _WEIGHT_TOLERANCE * max(a.weight, b.weight)
        for a, b in zip(several, others, strict=True)
    )


def _factorise_graph(graph: sparse.csr_array) -> tuple[list[Factor], Ints] | None:
    """Return a product graph's axes and the task at each coordinate; None for other graphs.

    If the graph consists of equal components, they form one more axis, without traffic.
    """
    n, degree = graph.shape[0], np.diff(graph.indptr)
    if not graph.nnz or (degree == 0).any() or not _is_affordable(graph):
        return None
    entries = graph.tocoo()
    upper = entries.row < entries.col
    src, dst, weight = entries.row[upper], entries.col[upper], entries.data[upper]
    number = sparse.csr_array((np.arange(1, src.size + 1), (src, dst)), shape=graph.shape)
    edges = sparse.csr_array(number + number.T)
    edges.sort_indices()
    classes = classify_edges_by_squares(
        edges.indptr.astype(np.int64),
        edges.indices.astype(np.int64),
        edges.data.astype(np.int64) - 1,
        src.size,
    )
    n_components, component_of_task = csgraph.connected_components(graph, directed=False)
    if n % n_components or (np.bincount(component_of_task) != n // n_components).any():
        return None
    axes: list[Factor] = []
    tasks = []
    for component in range(n_components):
        axes_and_tasks = _component_axes(src, dst, weight, classes, component_of_task == component)
        if axes_and_tasks is None or (axes and not _are_equivalent(axes, axes_and_tasks[0])):
            return None
        axes = axes or axes_and_tasks[0]
        tasks.append(axes_and_tasks[1])
    if n_components == 1:
        return axes, tasks[0]
    return [Factor("exchange", n_components, 0.0), *axes], np.stack(tasks)


def _component_axes(
    src: Int32s, dst: Int32s, weight: Floats, classes: Ints, is_member: Bools
) -> tuple[list[Factor], Ints] | None:
    """Return a connected component's factors, sorted by weight, and the task at each coordinate.

    The edges of a class belong to one factor. Vertices that are connected even without these edges
    have the same coordinate in this factor. The result is None if the component is not a product.
    """
    is_inside = is_member[src]
    n, shape = int(is_member.sum()), (is_member.size, is_member.size)
    axes, coordinates = [], []
    for edge_class in np.unique(classes[is_inside]):
        on_axis = is_inside & (classes == edge_class)
        others = is_inside & (classes != edge_class)
        graph = sparse.csr_array((np.ones(others.sum()), (src[others], dst[others])), shape=shape)
        label = csgraph.connected_components(graph, directed=False)[1][is_member]
        coordinate = np.full(is_member.size, -1)
        coordinate[is_member] = np.unique(label, return_inverse=True)[1]
        endpoints = coordinate[src[on_axis]], coordinate[dst[on_axis]]
        factor_and_order = _identify_factor(*endpoints, weight[on_axis])
        if factor_and_order is None:
            return None
        axes.append(factor_and_order[0])
        coordinates.append(factor_and_order[1][coordinate[is_member]])
    by_weight = sorted(range(len(axes)), key=lambda i: (axes[i].weight, axes[i].size, axes[i].kind))
    axes, coordinates = [axes[i] for i in by_weight], [coordinates[i] for i in by_weight]
    sizes = tuple(axis.size for axis in axes)
    if np.prod(sizes) != n:
        return None
    tasks = np.full(sizes, -1)
    tasks[tuple(coordinates)] = np.flatnonzero(is_member)
    return (axes, tasks) if (tasks >= 0).all() else None


def _identify_factor(src: Ints, dst: Ints, weight: Floats) -> tuple[Factor, Ints] | None:
    """Return a clique, ring or line, and each vertex's position in it; None for other graphs."""
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
    return Factor(kind if n > 2 else "exchange", n, mean), order
