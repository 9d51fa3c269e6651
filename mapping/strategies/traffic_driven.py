"""Placements based on the traffic: bisection, greedy growth and spectral layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from toruscast._lazy import lazy
from toruscast._slow import scipy
from toruscast.typing import Floats, Ints

from ..torus import Torus
from .orders import walk_snake
from .registry import Placement, Rng, VariantError, placement_kernels, register

# Whether to try cuts of the task grid, to try breadth-first growth, and to refine by swaps.
_METHODS = {
    "refined": (True, True, True),
    "grid": (True, False, False),
    "graph": (False, True, True),
}


@register(
    "bisect-METHOD",
    lambda _: list(_METHODS),
    example="bisect-refined",
    parameters="METHOD: refined, grid or graph",
)
def bisect(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Recursively halve the torus along its longest dimension, together with the set of tasks.

    Each bisection minimises the hop-bytes, estimated from the distances between the boxes' centres.
    The candidates are cuts of the task grid (``grid``), breadth-first growth with pairwise
    refinement after Kernighan and Lin (``graph``), or both (``refined``). Dual recursive bisection
    is due to Ercal, Ramanujam and Sadayappan, J. Parallel Distrib. Comput. 10, 1990, and
    Pellegrini, SHPCC'94.
    """
    if variant not in _METHODS:
        raise VariantError
    grid = np.indices(placement.grid).reshape(len(placement.grid), -1)
    return placement_kernels.bisect_torus_and_tasks(
        placement.partners,
        placement.metric,
        np.ascontiguousarray(grid.T),
        placement.capacity,
        *_METHODS[variant],
    )


@register(
    "greedy-START",
    lambda _: ["heaviest", "random"],
    example="greedy-heaviest",
    parameters="START: heaviest or random",
)
def greedy(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Place the tasks one by one; the next is always the task with the most bytes to placed tasks.

    A task goes to a free node as near as possible to the placed partner with which it exchanges
    the most bytes. Among equally near nodes, it goes to the one with the fewest hop-bytes. With
    ``heaviest``, the task with the most bytes is placed first, on node 0. With ``random``, the
    first task and its node are random.
    """
    first_edge, _, nbytes = placement.partners
    if variant == "heaviest":
        tasks = np.repeat(np.arange(placement.n_tasks), np.diff(first_edge))
        total_bytes = np.bincount(tasks, weights=nbytes, minlength=placement.n_tasks)
        task, node = int(total_bytes.argmax()), 0
    elif variant == "random":
        task = int(rng.integers(placement.n_tasks))
        node = int(rng.integers(placement.torus.n_nodes))
    else:
        raise VariantError
    return placement_kernels.place_greedily(
        placement.partners,
        placement.metric,
        placement.torus.coords,
        placement.torus.neighbors,
        placement.capacity,
        task,
        node,
    )


# Maximum number of dimension assignments to evaluate, and width of the beam search for them.
_MAX_ASSIGNMENTS, _BEAM_WIDTH = 24, 1000


@register("spectral", lambda _: [])
def spectral(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Embed the tasks by the slowest eigenvectors of their graph, and divide the layout into nodes.

    The eigenvectors of a grid or torus of tasks are waves along its dimensions; waves that are
    equally slow are mixed. Independent component analysis separates them: a cosine and its sine
    give the angle around a ring, and a single wave gives the position on a line. One or more
    dimensions of the torus are assigned to each dimension of the layout and folded so that
    neighbours are one hop apart. The assignment with the fewest hop-bytes is used. The strategy
    recovers the grid of a halo exchange whose tasks are renumbered. Spectral layout: Hall,
    Management Science 17, 1970; FastICA: Hyvarinen, IEEE Trans. Neural Networks 10, 1999.
    """
    sizes = placement.torus.shape
    best_node: NDArray[Any] = np.arange(placement.n_tasks) // placement.capacity
    min_cost = np.inf
    # Several BLAS threads together take ten times as much processor time as one thread.
    with threadpool_limits(1, "blas"):
        for layout in find_layouts(placement, sum(size > 1 for size in sizes), rng):
            for assignment in _assign_dimensions(layout, placement.torus):
                if placement.is_late():
                    return best_node
                node = _divide_layout(layout, assignment, placement.torus)
                cost = placement.hop_bytes(node)
                if cost < min_cost * (1 - 1e-9):
                    best_node, min_cost = node, cost
    return best_node


def _assign_dimensions(layout: Sequence[LayoutAxis], torus: Torus) -> list[list[tuple[int, ...]]]:
    """Return assignments of torus dimensions to the axes of the layout, best first.

    An assignment lists the dimensions of each axis. A beam search adds one dimension at a time. It
    keeps the assignments for which the number of nodes along each axis best matches the axis's
    extent, on a log scale.
    """
    dims = [d for d, size in enumerate(torus.shape) if size > 1]
    dims.sort(key=lambda d: (-torus.shape[d], torus.wrap[d]))
    # On a twisted torus, each dimension is of its own kind.
    kinds = [(torus.shape[d], torus.wrap[d], torus.twist and d) for d in dims]
    # The number of nodes along an axis of the layout should be proportional to its extent.
    target = np.log([axis.extent for axis in layout])
    target += (np.log(torus.n_nodes) - target.sum()) / len(layout)
    log_nodes = np.zeros((1, len(layout)))
    assignments = np.zeros((1, 0), dtype=np.int64)
    for n, d in enumerate(dims):
        parent = np.repeat(np.arange(len(assignments)), len(layout))
        choice = np.tile(np.arange(len(layout)), len(assignments))
        # Dimensions of the same kind are interchangeable, so only ascending choices are tried.
        is_equal = n and kinds[n] == kinds[n - 1]
        is_new = choice >= assignments[parent, -1] if is_equal else np.full(choice.shape, True)
        parent, choice = parent[is_new], choice[is_new]
        extended = log_nodes[parent]
        extended[np.arange(len(choice)), choice] += np.log(torus.shape[d])
        distance = np.round(((extended - target) ** 2).sum(axis=1), _DECIMALS)
        selected = np.argsort(distance, kind="stable")[:_BEAM_WIDTH]
        log_nodes = extended[selected]
        assignments = np.column_stack([assignments[parent], choice])[selected]
    return [
        [
            tuple(d for d, k in zip(dims, choices, strict=True) if k == number)
            for number in range(len(layout))
        ]
        for choices in assignments[:_MAX_ASSIGNMENTS]
    ]


def _divide_layout(
    layout: Sequence[LayoutAxis], assignment: Sequence[tuple[int, ...]], torus: Torus
) -> NDArray[Any]:
    """Return the node of each task, by dividing the layout into equal slabs along each axis.

    ``group`` is the number of each task's current box. Each axis divides every box into slabs, one
    for each position along the torus dimensions of the axis.
    """
    n_tasks = len(layout[0].value)
    node = np.zeros(n_tasks, dtype=np.int64)
    group = np.zeros(n_tasks, dtype=np.int64)
    for axis, dims in zip(layout, assignment, strict=True):
        # A zigzag path over the dimensions of an axis, the first varying fastest.
        sizes = [torus.shape[d] for d in reversed(dims)]
        path = walk_snake(sizes)[:, ::-1] if sizes else np.zeros((1, 0), dtype=np.int64)
        offsets = path @ torus.node_strides[list(dims)]
        # For short integers, NumPy's stable sort is a fast radix sort.
        key = group[axis.order].astype(np.min_scalar_type(torus.n_nodes))
        order = axis.order[np.argsort(key, kind="stable")]
        size = np.bincount(group)
        first = np.repeat(np.cumsum(size) - size, size)
        slab = (np.arange(n_tasks) - first) * len(offsets) // np.repeat(size, size)
        node[order] += offsets[slab]
        group[order] = group[order] * len(offsets) + slab
        # Renumber the groups, skipping empty ones.
        group = (np.cumsum(np.bincount(group) > 0) - 1)[group]
    return node


# Maximum tasks for a dense eigendecomposition, which is more reliable than an iterative one.
_MAX_DENSE = 1500
_CHEBYSHEV_DEGREE, _MAX_ITERATIONS, _TOLERANCE = 24, 12, 0.01
# Two waves are a cosine and its sine if the correlation of their squares is lower than this.
# Without noise, the correlation would be -1.
_MAX_PAIR_CORRELATION = -0.6
# Edges are ignored if their bytes are below this share of the largest edge of both tasks.
_MIN_SHARE = 0.1
# Minimum number of eigenvectors to compute, and minimum ratio of eigenvalues between two groups.
_MIN_EIGENVECTORS, _GROUP_GAP = 16, 1.1
# An eigenvector gives a new axis if a regression on functions of the other axes leaves more than
# this share unexplained. Also: number of harmonics of each axis, and maximum number of functions.
_MIN_UNEXPLAINED, _HARMONICS, _MAX_REGRESSORS = 0.7, 2, 200
# Maximum number of tasks sampled for independent component analysis.
_MAX_ICA_TASKS = 2000
# Number of extra eigenvectors, to complete the last group of equal eigenvalues; and the tolerance
# within which eigenvalues are equal.
_EXTRA_EIGENVECTORS, _EQUAL = 32, 1e-9
# Decimals to keep: rounding errors, which vary by processor, must not affect the order of tasks.
_DECIMALS = 6


@dataclass(frozen=True, eq=False)
class LayoutAxis:
    """Coordinate of each task along one dimension of a layout."""

    value: NDArray[Any]  # (n_tasks,), angle around a ring, 0 to 2 pi, or position on a line
    extent: float  # relative length of the dimension
    is_ring: bool

    @lazy
    def order(self) -> Ints:
        """Tasks sorted by coordinate, or by number if their coordinates are nearly equal."""
        return np.argsort(np.round(self.value, _DECIMALS), kind="stable")


def find_layouts(placement: Placement, n_dimensions: int, rng: Rng) -> Iterator[list[LayoutAxis]]:
    """Yield candidate layouts of the tasks.

    The number of eigenvectors of a layout is unknown, because a ring has two and a line has one.
    Harmonics of a long axis can be as slow as the waves of a short axis. Therefore each further
    axis comes from the slowest eigenvectors that are not functions of the previous axes.
    """
    max_waves = min(2 * n_dimensions, placement.n_tasks - 2)
    if max_waves < 1 or not placement.partners.partner.size:
        return
    n_eigenvectors = max(max_waves, min(_MIN_EIGENVECTORS, placement.n_tasks - 2))
    # If all edges have the same bytes, equal weights give the same graph.
    varies = bool(np.ptp(placement.partners.nbytes))
    for equal_weights in (True, False) if varies else (True,):
        if placement.is_late():
            return
        eigenvalues, slow = _find_slow_eigenvectors(placement, n_eigenvectors, equal_weights)
        layout: list[LayoutAxis] = []
        while len(layout) < n_dimensions and (
            new := _find_next_axes(layout, slow, rng, eigenvalues)
        ):
            layout = [*layout, *new]
            yield layout
        for n in range(min(n_dimensions, max_waves), max_waves + 1):
            yield _pair_waves(_unmix_waves(slow[:, :n], rng), slow, eigenvalues)


def _find_slow_eigenvectors(
    placement: Placement, n: int, equal_weights: bool
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the ``n`` smallest positive eigenvalues of the Laplacian and their eigenvectors.

    The weights of the graph are the bytes between tasks; with ``equal_weights``, light edges are
    ignored and all others weigh the same. The Laplacian is normalised by the degrees. The results
    have the shapes (n,) and (n_tasks, n).
    """
    first, partner, nbytes = placement.partners
    n_tasks = placement.n_tasks
    task = np.repeat(np.arange(n_tasks), np.diff(first))
    if equal_weights:
        # Keep the faces of a halo even if their bytes differ, but not its edges and corners.
        max_bytes = np.maximum.reduceat(nbytes, np.minimum(first[:-1], nbytes.size - 1))
        is_heavy = nbytes >= _MIN_SHARE * np.minimum(max_bytes[task], max_bytes[partner])
        nbytes = is_heavy.astype(np.float64)
    # Tasks without traffic need a positive degree.
    degree = np.bincount(task, nbytes, n_tasks)
    degree = np.maximum(degree, 1e-9 * max(nbytes.mean(), 1e-290))
    scale = 1 / np.sqrt(degree)
    normal = scale[task] * nbytes * scale[partner]
    if n_tasks <= _MAX_DENSE:
        dense = np.zeros((n_tasks, n_tasks))
        np.add.at(dense, (task, partner), normal)
        # SciPy could skip all but the largest eigenvalues, but it takes longer to import.
        values, vectors = np.linalg.eigh(dense)
        last = -(n + 2 + _EXTRA_EIGENVECTORS)
        values, vectors = values[:last:-1], vectors[:, :last:-1]
        groups = np.split(vectors, np.flatnonzero(-np.diff(values) > _EQUAL) + 1, axis=1)
        vectors = np.hstack([_choose_basis(group) for group in groups])
    else:
        sparse = scipy.sparse.csr_array((normal, partner, first), shape=(n_tasks, n_tasks))
        values, vectors = _iterate_eigenvectors(sparse, n + 1, placement)
    slow = vectors[:, 1 : n + 1] * scale[:, None]
    slow -= slow.mean(axis=0)
    return 1 - values[1 : n + 1], np.asarray(slow / np.maximum(slow.std(axis=0), 1e-300))


def _choose_basis(columns: Floats) -> Floats:
    """Return an orthonormal basis that depends only on the space spanned by orthonormal columns.

    A library may return any basis of an eigenspace, even a different basis on each processor.
    """
    probe = np.random.default_rng(0).normal(size=columns.shape)
    basis, triangle = np.linalg.qr(columns @ (columns.T @ probe))
    return np.asarray(basis * np.where(np.diag(triangle) < 0, -1.0, 1.0))


def _iterate_eigenvectors(
    normal: scipy.sparse.csr_array, n: int, placement: Placement
) -> tuple[Floats, Floats]:
    """Return the ``n`` largest eigenvalues of a matrix and their eigenvectors, (n,) (n_tasks, n).

    Each step of the subspace iteration applies a Chebyshev polynomial, which is small for
    eigenvalues below the cutoff and grows fast above it.
    """
    # With twelve additional vectors, the last eigenvectors converge faster.
    block = np.random.default_rng(1).normal(size=(normal.shape[0], n + 12))
    cutoff, previous_gaps = 0.9, np.full(n, np.inf)
    for _ in range(_MAX_ITERATIONS):
        half_width, centre = (cutoff + 1) / 2, (cutoff - 1) / 2
        previous, current = block, (normal @ block - centre * block) / half_width
        for _ in range(_CHEBYSHEV_DEGREE):
            following = 2 / half_width * (normal @ current - centre * current) - previous
            previous, current = current, following
        block, _ = np.linalg.qr(current)
        values, rotation = np.linalg.eigh(block.T @ (normal @ block))
        block, values = block @ rotation[:, ::-1], values[::-1]
        gaps = 1 - values[:n]
        if np.abs(gaps - previous_gaps).max() <= _TOLERANCE * gaps[-1] or placement.is_late():
            break
        cutoff, previous_gaps = min(values[-1], 1 - 1e-9), gaps
    return values[:n], block[:, :n]


def _unmix_waves(mixed: NDArray[Any], rng: Rng) -> NDArray[Any]:
    """Separate waves that are mixed in the columns, ``(n_tasks, n) -> (n_tasks, n_waves)``.

    The columns are whitened and rotated for maximum independence, by symmetric FastICA with the
    kurtosis as contrast.
    """
    n = mixed.shape[1]
    # Whitening drops linearly dependent eigenvectors.
    values, vectors = np.linalg.eigh(np.cov(mixed.T).reshape(n, n))
    is_independent = values > 1e-9
    white = mixed @ (vectors[:, is_independent] / np.sqrt(values[is_independent]))
    white = np.round(_choose_basis(white / np.sqrt(len(white))) * np.sqrt(len(white)), 9)
    n_sources = white.shape[1]
    rotation = np.linalg.qr(rng.normal(size=(n_sources, n_sources)))[0]
    sample = white
    if len(white) > _MAX_ICA_TASKS:
        sample = white[rng.choice(len(white), _MAX_ICA_TASKS, replace=False)]
    for _ in range(100):
        sources = sample @ rotation.T
        # With FastICA's factor of 3, the update of a source without kurtosis would vanish.
        update = (sources**3).T @ sample / sample.shape[0] - (3 - 1e-6) * rotation
        left, _, right = np.linalg.svd(update)
        # Round, because iterations amplify rounding errors, which differ between processors.
        new = np.round(left @ right, 9)
        is_converged = np.abs(np.abs((new * rotation).sum(axis=1)) - 1).max() < 1e-8
        rotation = new
        if is_converged:
            break
    return np.asarray(white @ rotation.T)


def _pair_waves(
    waves: NDArray[Any], slow: NDArray[Any], eigenvalues: NDArray[Any]
) -> list[LayoutAxis]:
    """Return a ring for each cosine with its sine, and a line for each wave without a partner.

    The squares of such a pair have a correlation near -1. The extent of an axis follows from the
    ``eigenvalues`` of the ``slow`` eigenvectors that make up its waves.
    """
    # A wave with two values has a constant square, whose correlation is undefined.
    with np.errstate(invalid="ignore"):
        correlation = np.corrcoef((waves**2).T).reshape(waves.shape[1], -1)
    np.fill_diagonal(correlation, 0)
    unpaired = set(range(waves.shape[1]))
    # A line is half as long as a ring with the same wavelength.
    share = (waves.T @ slow / len(slow)) ** 2
    lengths = 1 / np.sqrt(np.maximum(share @ eigenvalues / share.sum(axis=1), 1e-30))
    rings = []
    rounded = np.round(correlation, _DECIMALS)
    pairs = np.unravel_index(np.argsort(rounded, axis=None, kind="stable"), correlation.shape)
    for i, j in zip(*pairs, strict=True):
        if correlation[i, j] > _MAX_PAIR_CORRELATION:
            break
        if {i, j} <= unpaired:
            unpaired -= {i, j}
            turn = np.arctan2(waves[:, i], waves[:, j]) / (2 * np.pi)
            # Round to whole numbers, so that -pi and pi become the same angle.
            angle = np.rint(turn * 10**_DECIMALS).astype(np.int64) % 10**_DECIMALS
            # Count angles from the widest gap, which keeps groups of tasks together.
            ordered = np.sort(angle)
            gaps = np.diff(np.append(ordered, ordered[0] + 10**_DECIMALS))
            # After rounding, equal gaps may differ by up to 2.
            widest = np.flatnonzero(gaps >= gaps.max() - 2)[0]
            start = ordered[(widest + 1) % angle.size]
            value = (angle - start) % 10**_DECIMALS * (2 * np.pi / 10**_DECIMALS)
            rings.append(LayoutAxis(value, float(lengths[[i, j]].mean()), True))
    lines = [LayoutAxis(waves[:, i], float(lengths[i]) / 2, False) for i in sorted(unpaired)]
    return rings + lines


def _find_next_axes(
    layout: list[LayoutAxis], slow: NDArray[Any], rng: Rng, eigenvalues: NDArray[Any]
) -> list[LayoutAxis]:
    """Return the axes of the slowest eigenvectors that are not functions of the layout's axes.

    The functions are products of harmonics of the axes; a regression on them gives the residuals.
    The result is empty if there are too many functions, or if no such eigenvector exists.
    """
    regressors = np.ones((len(slow), 1))
    for axis in layout:
        # Coordinates on a line follow half a wave, so the rank of a task gives its position.
        rank = np.argsort(axis.order) / max(len(slow) - 1, 1)
        angle = axis.value if axis.is_ring else np.pi * rank
        phases = angle[:, None] * np.arange(1, _HARMONICS + 1)
        waves = np.hstack([np.ones((len(slow), 1)), np.cos(phases), np.sin(phases)])
        regressors = (regressors[:, :, None] * waves[:, None, :]).reshape(len(slow), -1)
        if regressors.shape[1] > _MAX_REGRESSORS:
            return []
    basis, _ = np.linalg.qr(regressors)
    residuals = slow - basis @ (basis.T @ slow)
    # Nearly equal eigenvalues form a group, which must stay complete.
    for n in np.flatnonzero(eigenvalues[1:] > _GROUP_GAP * eigenvalues[:-1]) + 1:
        left, sizes, _ = np.linalg.svd(residuals[:, :n], full_matrices=False)
        new = left[:, sizes > _MIN_UNEXPLAINED * np.sqrt(len(slow))]
        if new.size:
            return _pair_waves(_unmix_waves(new, rng), slow, eigenvalues)
    return []
