"""Geometric mapping from a layout that the graph's own spectrum gives."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ._waves import Coordinate, layouts
from .placement import Placement
from .registry import register

# Ways to lay the dimensions of the torus along those of a layout that are tried, the fittest first.
_MOST_WAYS = 24


@register("spectral", lambda _: [])
def spectral(placement: Placement, variant: str, rng: np.random.Generator) -> NDArray[Any]:
    """Lay the tasks out by the slowest vibrations of their graph, and cut the layout into nodes.

    The vibrations of a grid or torus of tasks are waves along its dimensions, mixed where several
    are equally slow. Independent component analysis takes the mixture apart; a cosine and its sine
    give the angle round a ring, a wave alone the place on a line. One or more dimensions of the
    torus go along each of the layout, folded so that neighbours are a hop apart, in the way with
    the least hop-bytes. A renumbered halo comes back as it was. Spectral layout: Hall, Management
    Science 17, 1970; FastICA: Hyvarinen, IEEE Trans. Neural Networks 10, 1999.
    """
    sizes = placement.torus.shape
    best: NDArray[Any] = np.arange(placement.n_tasks) // placement.capacity
    least = np.inf
    long = [d for d, size in enumerate(sizes) if size > 1]
    # Threads of BLAS that wait for each other take ten times the processor time of one.
    with threadpool_limits(1, "blas"):
        for layout in layouts(placement, len(long), rng):
            for way in itertools.islice(_ways(layout, long, sizes), _MOST_WAYS):
                if placement.is_late():
                    return best
                node = _cut(layout, way, sizes)
                cost = placement.hop_bytes(node)
                if cost < least * (1 - 1e-9):
                    best, least = node, cost
    return best


def _ways(
    layout: Sequence[Coordinate], dims: Sequence[int], sizes: Sequence[int]
) -> Iterator[list[tuple[int, ...]]]:
    """Yield the dimensions of the torus along each coordinate, best first.

    The best have as many nodes along a coordinate as it is long.
    """
    extents = np.array([each.extent for each in layout])
    along = np.array(list(itertools.product(range(len(layout)), repeat=len(dims))), dtype=np.int64)
    log_size = np.log([sizes[d] for d in dims])
    nodes = np.stack([((along == k) * log_size).sum(axis=1) for k in range(len(layout))], axis=1)
    # In units of a task's place, so that nodes along a coordinate are its extent times a factor.
    misfit = nodes - np.log(extents)
    misfit -= misfit.mean(axis=1, keepdims=True)
    for i in np.argsort((misfit**2).sum(axis=1), kind="stable"):
        yield [
            tuple(d for d, k in zip(dims, along[i], strict=True) if k == number)
            for number in range(len(layout))
        ]


def _cut(
    layout: Sequence[Coordinate], way: Sequence[tuple[int, ...]], sizes: Sequence[int]
) -> NDArray[Any]:
    """Cut into slabs of equal numbers of tasks, along one coordinate after the other."""
    n_tasks = len(layout[0].value)
    strides = np.append(np.cumprod(np.asarray(sizes)[:0:-1])[::-1], 1)
    node = np.zeros(n_tasks, dtype=np.int64)
    group = np.zeros(n_tasks, dtype=np.int64)
    for coordinate, dims in zip(layout, way, strict=True):
        places = _folded([sizes[d] for d in dims]) @ strides[list(dims)]
        ordered = np.lexsort((coordinate.value, group))
        size = np.bincount(group)
        first = np.repeat(np.cumsum(size) - size, size)
        slab = (np.arange(n_tasks) - first) * len(places) // np.repeat(size, size)
        node[ordered] += places[slab]
        group[ordered] = group[ordered] * len(places) + slab
        # Groups without a task have no number.
        group = np.unique(group, return_inverse=True)[1]
    return node


def _folded(sizes: Sequence[int]) -> NDArray[np.int64]:
    """Coordinates of all places, ``(n, dims)``, each a neighbour of the last: a Gray code."""
    path = np.zeros((1, 0), dtype=np.int64)
    for size in sizes:
        # Each step of the new dimension walks the path back.
        walks = [path if k % 2 == 0 else path[::-1] for k in range(size)]
        path = np.concatenate(
            [np.column_stack([walk, np.full(len(walk), k)]) for k, walk in enumerate(walks)]
        )
    return path
