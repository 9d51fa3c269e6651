"""Placements that follow the traffic: bisection, greedy growth, and spectral layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from toruscast._lazy import lazy
from toruscast._slow import scipy

from ..torus import Torus
from .orders import snake
from .registry import Placement, Rng, VariantError, placement_kernels, register

# (try cuts of the task grid, try breadth-first growth, refine by swaps)
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
    """Halve the torus along its longest dimension and the tasks with it, again and again.

    Each half of the tasks is chosen to lower hop-bytes, as far as known: bytes between the halves
    count the distance of the two boxes' centres, bytes to tasks in other boxes that to those.
    The candidates are cuts of the task grid (``grid``), growth from a task at the rim of the graph,
    then pairwise refinement after Kernighan and Lin (``graph``), or all of these (``refined``).
    Dual recursive bisection is due to Ercal, Ramanujam and Sadayappan, J. Parallel Distrib. Comput.
    10, 1990, and Pellegrini, SHPCC'94.
    """
    if variant not in _METHODS:
        raise VariantError
    grid = np.indices(placement.grid).reshape(len(placement.grid), -1)
    return placement_kernels.bisect_both(
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
    """Place task after task, each time the one with the most bytes to those already placed.

    It goes to the free node, among those nearest to its heaviest partner, with the least hop-bytes.
    The first is the task with the most bytes, on node 0 (``heaviest``), or any on any (``random``).
    """
    first_edge, _, nbytes = placement.partners
    if variant == "heaviest":
        volume = np.bincount(
            np.repeat(np.arange(placement.n_tasks), np.diff(first_edge)),
            weights=nbytes,
            minlength=placement.n_tasks,
        )
        task, node = int(volume.argmax()), 0
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


# Ways to lay the dimensions of the torus along those of a layout that are tried, the fittest first,
# and beginnings of ways that are kept.
_MAX_LAYOUTS, _MAX_BEGINNINGS = 24, 1000


@register("spectral", lambda _: [])
def spectral(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Lay the tasks out by the slowest eigenvectors of their graph, and cut the layout into nodes.

    The eigenvectors of a grid or torus of tasks are waves along its dimensions, mixed where several
    are equally slow. Independent component analysis takes the mixture apart; a cosine and its sine
    give the angle round a ring, a wave alone the place on a line. One or more dimensions of the
    torus go along each of the layout, folded so that neighbours are a hop apart, in the way with
    the least hop-bytes. A renumbered halo comes back as it was. Spectral layout: Hall, Management
    Science 17, 1970; FastICA: Hyvarinen, IEEE Trans. Neural Networks 10, 1999.
    """
    sizes = placement.torus.shape
    best: NDArray[Any] = np.arange(placement.n_tasks) // placement.capacity
    least = np.inf
    # Threads of BLAS that wait for each other take ten times the processor time of one.
    with threadpool_limits(1, "blas"):
        for layout in layouts(placement, sum(size > 1 for size in sizes), rng):
            for way in _dimension_layouts(layout, placement.torus):
                if placement.is_late():
                    return best
                node = _cut_layout(layout, way, placement.torus)
                cost = placement.hop_bytes(node)
                if cost < least * (1 - 1e-9):
                    best, least = node, cost
    return best


def _dimension_layouts(layout: Sequence[Coordinate], torus: Torus) -> list[list[tuple[int, ...]]]:
    """Return the dimensions of the torus along each coordinate, best first."""
    dims = [d for d, size in enumerate(torus.shape) if size > 1]
    long = sorted(dims, key=lambda d: (-torus.shape[d], torus.wrap[d]))
    kinds = [(torus.shape[d], torus.wrap[d], torus.twist and d) for d in long]
    # In units of a task's place, so that nodes along a coordinate are its extent times a factor.
    wanted = np.log([each.extent for each in layout])
    wanted += (np.log(torus.n_nodes) - wanted.sum()) / len(layout)
    nodes = np.zeros((1, len(layout)))
    along = np.zeros((1, 0), dtype=np.int64)
    for n, d in enumerate(long):
        start = np.repeat(np.arange(len(along)), len(layout))
        last = np.tile(np.arange(len(layout)), len(along))
        # Two dimensions that are alike may change places: one way of the two is enough.
        alike = n and kinds[n] == kinds[n - 1]
        new = last >= along[start, -1] if alike else np.full(last.shape, True)
        start, last = start[new], last[new]
        more = nodes[start]
        more[np.arange(len(last)), last] += np.log(torus.shape[d])
        best = np.argsort(((more - wanted) ** 2).sum(axis=1), kind="stable")[:_MAX_BEGINNINGS]
        nodes, along = more[best], np.column_stack([along[start], last])[best]
    return [
        [
            tuple(d for d, k in zip(long, way, strict=True) if k == number)
            for number in range(len(layout))
        ]
        for way in along[:_MAX_LAYOUTS]
    ]


def _cut_layout(
    layout: Sequence[Coordinate], way: Sequence[tuple[int, ...]], torus: Torus
) -> NDArray[Any]:
    """Cut into slabs of equal numbers of tasks, along one coordinate after the other."""
    n_tasks = len(layout[0].value)
    node = np.zeros(n_tasks, dtype=np.int64)
    group = np.zeros(n_tasks, dtype=np.int64)
    for coordinate, dims in zip(layout, way, strict=True):
        places = _folded_path([torus.shape[d] for d in dims]) @ torus.node_strides[list(dims)]
        # Stable sorts of short integers are radix sorts.
        among = group[coordinate.order].astype(np.min_scalar_type(torus.n_nodes))
        ordered = coordinate.order[np.argsort(among, kind="stable")]
        size = np.bincount(group)
        first = np.repeat(np.cumsum(size) - size, size)
        slab = (np.arange(n_tasks) - first) * len(places) // np.repeat(size, size)
        node[ordered] += places[slab]
        group[ordered] = group[ordered] * len(places) + slab
        # Groups without a task have no number.
        group = (np.cumsum(np.bincount(group) > 0) - 1)[group]
    return node


def _folded_path(sizes: Sequence[int]) -> NDArray[np.int64]:
    """Coordinates of all places, ``(n, dims)``, each a neighbour of the last, the first fastest."""
    if not sizes:
        return np.zeros((1, 0), dtype=np.int64)
    return snake(sizes[::-1])[:, ::-1]


# Graphs up to this size are decomposed whole, which is surer than iterating.
_DENSE = 1500
# Degree of the polynomials that leave slow eigenvectors only, their most, and the accepted error.
_DEGREE, _ROUNDS, _SETTLED = 24, 12, 0.01
# Squares of a cosine and its sine add up to a constant: noise leaves less of their correlation.
_PAIRED = -0.6
# Share of the largest amount that a task sends to another one.
_MUCH = 0.1
# Eigenvectors that are looked at; how much faster the next group is than one of equally slow ones.
_WAVES, _FASTER = 16, 1.1
# Share of an eigenvector that the found coordinates leave unexplained, harmonics and functions.
_NEW, _HARMONICS, _MAX_KNOWN = 0.7, 2, 200
# Tasks that are enough to take a mixture apart.
_ENOUGH = 2000


@dataclass(frozen=True, eq=False)
class Coordinate:
    """Place of every task along one dimension of a layout."""

    value: NDArray[Any]  # (n_tasks,), angle round a ring, 0 to 2 pi, or place on a line
    extent: float  # length of the dimension, in an unknown unit
    is_ring: bool

    @lazy
    def order(self) -> NDArray[np.int64]:
        """Tasks by their place."""
        return np.argsort(self.value, kind="stable")


def layouts(placement: Placement, n_dimensions: int, rng: Rng) -> Iterator[list[Coordinate]]:
    """Yield what may be the coordinates of the tasks.

    The number of eigenvectors of the grid is not known: rings have two each, lines one. A long
    dimension has overtones that are as slow as the waves of a short one: what functions of the
    coordinates found so far do not explain gives further ones.
    """
    most = min(2 * n_dimensions, placement.n_tasks - 2)
    if most < 1 or not placement.partners.partner.size:
        return
    # Without their weights, equal edges are the same graph.
    for even in (True, False) if np.ptp(placement.partners.nbytes) else (True,):
        if placement.is_late():
            return
        eigenvalues, slow = _slow_eigenvectors(
            placement, max(most, min(_WAVES, placement.n_tasks - 2)), even
        )
        found: list[Coordinate] = []
        while len(found) < n_dimensions and (
            more := _next_coordinates(found, slow, rng, eigenvalues)
        ):
            found = [*found, *more]
            yield found
        for n in range(min(n_dimensions, most), most + 1):
            yield _find_coordinates(_unmix_waves(slow[:, :n], rng), slow, eigenvalues)


def _slow_eigenvectors(
    placement: Placement, n: int, even: bool
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Smallest eigenvalues of the Laplacian but 0, and their eigenvectors, ``(n_tasks, n)``."""
    first, partner, nbytes = placement.partners
    n_tasks = placement.n_tasks
    if even:
        # Halos send more through some faces than through others, and most little to the edges.
        most = np.maximum.reduceat(nbytes, np.minimum(first[:-1], nbytes.size - 1))
        task = np.repeat(np.arange(n_tasks), np.diff(first))
        much = nbytes >= _MUCH * np.minimum(most[task], most[partner])
        nbytes = much.astype(np.float64)
    weight = scipy.sparse.csr_array((nbytes, partner, first), shape=(n_tasks, n_tasks))
    # A task without traffic may stand anywhere.
    degree = np.maximum(weight.sum(axis=1), 1e-9 * max(nbytes.mean(), 1e-290))
    scale = scipy.sparse.diags_array(1 / np.sqrt(degree))
    normal = (scale @ weight @ scale).tocsr()
    if n_tasks <= _DENSE:
        last = [n_tasks - n - 1, n_tasks - 1]
        values, vectors = scipy.linalg.eigh(normal.toarray(), subset_by_index=last)
        values, vectors = values[::-1], vectors[:, ::-1]
    else:
        values, vectors = _filtered_eigenvectors(normal, n + 1, placement)
    slow = vectors[:, 1 : n + 1] / np.sqrt(degree)[:, None]
    slow -= slow.mean(axis=0)
    return 1 - values[1 : n + 1], np.asarray(slow / np.maximum(slow.std(axis=0), 1e-300))


def _filtered_eigenvectors(
    normal: scipy.sparse.csr_array, n: int, placement: Placement
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Largest eigenvalues, all below 1, and their vectors: Chebyshev-filtered subspaces."""
    block = np.random.default_rng(1).normal(size=(normal.shape[0], n + 12))
    cut, before = 0.9, np.full(n, np.inf)
    for _ in range(_ROUNDS):
        half, middle = (cut + 1) / 2, (cut - 1) / 2
        last, now = block, (normal @ block - middle * block) / half
        for _ in range(_DEGREE):
            last, now = now, 2 / half * (normal @ now - middle * now) - last
        block, _ = np.linalg.qr(now)
        values, turn = np.linalg.eigh(block.T @ (normal @ block))
        block, values = block @ turn[:, ::-1], values[::-1]
        gaps = 1 - values[:n]
        if np.abs(gaps - before).max() <= _SETTLED * gaps[-1] or placement.is_late():
            break
        cut, before = min(values[-1], 1 - 1e-9), gaps
    return values[:n], block[:, :n]


def _unmix_waves(mixed: NDArray[Any], rng: Rng) -> NDArray[Any]:
    """Turn columns so that they are as independent as can be: symmetric FastICA, by kurtosis."""
    n = mixed.shape[1]
    # Whiten first; eigenvectors that hardly differ from others are left out.
    values, vectors = np.linalg.eigh(np.cov(mixed.T).reshape(n, n))
    kept = values > 1e-9
    white = mixed @ (vectors[:, kept] / np.sqrt(values[kept]))
    turn = np.linalg.qr(rng.normal(size=(kept.sum(), kept.sum())))[0]
    some = white
    if len(white) > _ENOUGH:
        some = white[rng.choice(len(white), _ENOUGH, replace=False)]
    for _ in range(100):
        sources = some @ turn.T
        grown = (sources**3).T @ some / some.shape[0] - 3 * turn
        left, _, right = np.linalg.svd(grown)
        new = left @ right
        settled = np.abs(np.abs((new * turn).sum(axis=1)) - 1).max() < 1e-6
        turn = new
        if settled:
            break
    return np.asarray(white @ turn.T)


def _find_coordinates(
    waves: NDArray[Any], slow: NDArray[Any], eigenvalues: NDArray[Any]
) -> list[Coordinate]:
    """Angles of waves that are a cosine and its sine, places of the others."""
    likeness = np.corrcoef((waves**2).T).reshape(waves.shape[1], -1)
    np.fill_diagonal(likeness, 0)
    alone = set(range(waves.shape[1]))
    # Eigenvalue of a mixture of eigenvectors; a line is half as long as a ring of its wave.
    share = (waves.T @ slow / len(slow)) ** 2
    lengths = 1 / np.sqrt(np.maximum(share @ eigenvalues / share.sum(axis=1), 1e-30))
    found = []
    for i, j in zip(
        *np.unravel_index(np.argsort(likeness, axis=None), likeness.shape), strict=True
    ):
        if likeness[i, j] > _PAIRED:
            break
        if {i, j} <= alone:
            alone -= {i, j}
            angle = np.arctan2(waves[:, i], waves[:, j])
            # Cut at the widest gap, so that groups stay together.
            ordered = np.sort(angle)
            gaps = np.diff(np.append(ordered, ordered[0] + 2 * np.pi))
            seam = ordered[(gaps.argmax() + 1) % angle.size]
            value = (angle - seam + 1e-6) % (2 * np.pi)
            found.append(Coordinate(value, float(lengths[[i, j]].mean()), True))
    return found + [Coordinate(waves[:, i], float(lengths[i]) / 2, False) for i in sorted(alone)]


def _next_coordinates(
    found: list[Coordinate], slow: NDArray[Any], rng: Rng, eigenvalues: NDArray[Any]
) -> list[Coordinate]:
    """Return the next coordinates, from the slowest eigenvectors less what those found explain."""
    known = np.ones((len(slow), 1))
    for each in found:
        angle = each.value if each.is_ring else np.pi * _share_of(each.value)
        turns = angle[:, None] * np.arange(1, _HARMONICS + 1)
        waves = np.hstack([np.ones((len(slow), 1)), np.cos(turns), np.sin(turns)])
        known = (known[:, :, None] * waves[:, None, :]).reshape(len(slow), -1)
        if known.shape[1] > _MAX_KNOWN:
            return []
    basis, _ = np.linalg.qr(known)
    rest = slow - basis @ (basis.T @ slow)
    # Eigenvectors that are equally slow belong together: the group ends where a faster one follows.
    for n in np.flatnonzero(eigenvalues[1:] > _FASTER * eigenvalues[:-1]) + 1:
        left, sizes, _ = np.linalg.svd(rest[:, :n], full_matrices=False)
        new = left[:, sizes > _NEW * np.sqrt(len(slow))] * np.sqrt(len(slow))
        if new.size:
            return _find_coordinates(_unmix_waves(new, rng), slow, eigenvalues)
    return []


def _share_of(value: NDArray[Any]) -> NDArray[Any]:
    """Place of every value among all, from 0 to 1."""
    place = np.empty(len(value))
    place[np.argsort(value, kind="stable")] = np.arange(len(value))
    return place / max(len(value) - 1, 1)
