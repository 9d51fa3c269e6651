"""Communication graphs of twelve kinds of applications, drawn at random."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import Delaunay, cKDTree

from toruscast.mapping import CommGraph, patterns

Rng = np.random.Generator
Graph = Callable[[int, Rng], CommGraph]


def _graph(n: int, pairs: NDArray[np.int64], nbytes: NDArray[np.float64] | float) -> CommGraph:
    """Return pairs as edges, those between the same tasks added up; none to itself."""
    weight = np.broadcast_to(np.asarray(nbytes, dtype=float), len(pairs))
    keep = pairs[:, 0] != pairs[:, 1]
    codes, place = np.unique(pairs[keep, 0] * n + pairs[keep, 1], return_inverse=True)
    return CommGraph(n, codes // n, codes % n, np.bincount(place, weight[keep]).round())


def _both(pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([pairs, pairs[:, ::-1]])


def _box(n: int, ndim: int = 3) -> tuple[int, ...]:
    """Return nearly equal sides of a power of two."""
    bits = n.bit_length() - 1
    return tuple(2 ** ((bits + d) // ndim) for d in range(ndim))


def _shuffled(comm: CommGraph, rng: Rng) -> CommGraph:
    """Return the graph with its tasks renumbered at random."""
    order = rng.permutation(comm.n_tasks)
    return CommGraph(comm.n_tasks, order[comm.src], order[comm.dst], comm.nbytes)


def stencil_27(n: int, rng: Rng) -> CommGraph:
    """Faces, edges and corners of a grid of blocks, each with its own bytes."""
    grid = _box(n)
    at = np.indices(grid).reshape(3, -1)
    pairs, weights = [], []
    side = int(rng.integers(4, 32))
    for step in np.ndindex(3, 3, 3):
        move = np.array(step) - 1
        if not move.any():
            continue
        to = at + move[:, None]
        inside = ((to >= 0) & (to < np.array(grid)[:, None])).all(axis=0)
        here = np.ravel_multi_index(tuple(at[:, inside]), grid)
        there = np.ravel_multi_index(tuple(to[:, inside]), grid)
        pairs.append(np.stack([here, there], axis=1))
        weights.append(np.full(here.size, float(side ** int(3 - np.abs(move).sum()))))
    return _graph(n, np.concatenate(pairs), np.concatenate(weights))


def unstructured(n: int, rng: Rng) -> CommGraph:
    """Parts of a triangulated plane: neighbours by a Delaunay triangulation."""
    points = rng.random((n, 2))
    corners = Delaunay(points[np.argsort(points[:, 0].round(1) * 10 + points[:, 1])]).simplices
    pairs = np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [2, 0]]])
    pairs = np.unique(np.sort(pairs, axis=1), axis=0).astype(np.int64)
    weights = rng.lognormal(0, 0.5, len(pairs))
    return _graph(n, _both(pairs), np.tile(weights, 2) * 100)


def multigrid(n: int, rng: Rng) -> CommGraph:
    """Halos of a grid and of its coarser levels, with a quarter of the bytes at each."""
    grid = _box(n)
    numbers = np.arange(n).reshape(grid)
    pairs, weights = [], []
    for level in range(min(grid).bit_length()):
        own = numbers[tuple(slice(None, None, 2**level) for _ in grid)]
        for axis in range(3):
            if own.shape[axis] > 1:
                near = np.stack([own, np.roll(own, -1, axis)], axis=-1).reshape(-1, 2)
                pairs.append(_both(near))
                weights.append(np.full(2 * len(near), 4.0 ** (4 - level)))
    return _graph(n, np.concatenate(pairs), np.concatenate(weights))


def transpose(n: int, rng: Rng) -> CommGraph:
    """All to all in the rows and in the columns of a grid of pencils."""
    rows, columns = _box(n, 2)
    number = np.arange(n).reshape(rows, columns)
    groups = [*number, *number.T] if rng.integers(2) else list(number.T)
    pairs = [np.array(np.meshgrid(g, g)).reshape(2, -1).T for g in groups]
    return _graph(n, np.concatenate(pairs), 100.0)


def octree(n: int, rng: Rng) -> CommGraph:
    """Neighbours in a space that is refined around a point: bytes by their distance."""
    points = rng.normal(0, 1, (n, 3)) * rng.lognormal(0, 1, (n, 1))
    cells = np.argsort(np.round(points[:, 0]) * 100 + np.round(points[:, 1]) * 10 + points[:, 2])
    distance, near = cKDTree(points[cells]).query(points[cells], k=int(rng.integers(7, 14)))
    pairs = np.stack([np.repeat(np.arange(n), near.shape[1] - 1), near[:, 1:].ravel()], axis=1)
    return _graph(n, _both(pairs), np.tile(1 / (0.1 + distance[:, 1:].ravel()), 2) * 100)


def butterfly(n: int, rng: Rng) -> CommGraph:
    """Partners at all powers of two, with bytes that halve or stay."""
    bits = n.bit_length() - 1
    falls = float(rng.choice([1.0, 0.5]))
    at = np.arange(n)
    pairs = [np.stack([at, at ^ (1 << k)], axis=1) for k in range(bits)]
    weights = [np.full(n, 1024 * falls**k) for k in range(bits)]
    return _graph(n, np.concatenate(pairs), np.concatenate(weights))


def power_law(n: int, rng: Rng) -> CommGraph:
    """A graph in which a few tasks have many partners."""
    popular = (1 + np.arange(n)) ** -0.6
    ends = rng.choice(n, (5 * n, 2), p=popular / popular.sum())
    return _graph(n, _both(ends.astype(np.int64)), 100.0)


def shifts(n: int, rng: Rng) -> CommGraph:
    """Each task sends to the tasks some steps further on."""
    steps = rng.choice(np.arange(1, n // 2), int(rng.integers(2, 7)), replace=False)
    at = np.arange(n)
    return _graph(n, np.concatenate([np.stack([at, (at + k) % n], axis=1) for k in steps]), 100.0)


def sharded_model(n: int, rng: Rng) -> CommGraph:
    """Rings along the three axes of a mesh of devices, with unequal bytes; tasks shuffled."""
    grid = _box(n)
    number = np.arange(n).reshape(grid)
    pairs, weights = [], []
    for axis in range(3):
        near = np.stack([number, np.roll(number, -1, axis)], axis=-1).reshape(-1, 2)
        pairs.append(_both(near))
        weights.append(np.full(2 * n, 100.0 * float(rng.choice([1, 4, 16]))))
    return _shuffled(_graph(n, np.concatenate(pairs), np.concatenate(weights)), rng)


def sparse_matrix(n: int, rng: Rng) -> CommGraph:
    """A band of a matrix, and entries far from it."""
    width = int(rng.integers(2, 8))
    at = np.repeat(np.arange(n), width)
    band = np.stack([at, np.clip(at + rng.integers(-width, width + 1, at.size), 0, n - 1)], axis=1)
    far = rng.integers(0, n, (n, 2))
    return _graph(n, _both(np.concatenate([band, far])), 100.0)


def particles(n: int, rng: Rng) -> CommGraph:
    """Halo of a grid of cells with unequal numbers of particles, and a transpose for long range."""
    halo = patterns.halo_3d(_box(n), 4096.0, periodic=True)
    full = rng.lognormal(0, 0.4, n)
    near = np.stack([halo.src, halo.dst], axis=1).astype(np.int64)
    far = transpose(n, np.random.default_rng(0))
    pairs = np.concatenate([near, np.stack([far.src, far.dst], axis=1).astype(np.int64)])
    weights = np.concatenate([4096 * full[halo.src], np.full(far.n_edges, 4096 * 4 / n**0.5)])
    return _graph(n, pairs, weights)


def communities(n: int, rng: Rng) -> CommGraph:
    """Groups of tasks that talk much within and little between them; tasks shuffled."""
    size = int(rng.choice([8, 16]))
    group = np.arange(n) // size
    inner = np.repeat(np.arange(n), 4)
    inside = group[inner] * size + rng.integers(0, size, inner.size)
    far = rng.integers(0, n, (n, 2))
    pairs = np.concatenate([np.stack([inner, inside], axis=1), far])
    weights = np.concatenate([np.full(inner.size, 400.0), np.full(n, 100.0)])
    return _shuffled(_graph(n, pairs, weights), rng)


KINDS: dict[str, Graph] = {
    "27-point stencil": stencil_27,
    "unstructured mesh": unstructured,
    "multigrid": multigrid,
    "transposes": transpose,
    "octree": octree,
    "butterfly": butterfly,
    "power law": power_law,
    "shifts": shifts,
    "sharded model": sharded_model,
    "sparse matrix": sparse_matrix,
    "particles": particles,
    "communities": communities,
}


def draw(kind: str, n: int, packet: float, packets: float, rng: Rng) -> CommGraph:
    """Return a graph whose messages have so many packets in the byte-weighted mean.

    Examples
    --------
    >>> comm = draw("shifts", 64, 512, 8, np.random.default_rng(1))
    >>> comm.n_tasks, float((comm.nbytes @ comm.nbytes) / comm.nbytes.sum() / 512)
    (64, 8.0)
    """
    return with_packets(KINDS[kind](n, rng).renamed(f"{kind} {n}"), packet, packets)


def with_packets(comm: CommGraph, packet: float, packets: float) -> CommGraph:
    """Return a graph, a message an edge, with so many packets in the byte-weighted mean."""
    mean = comm.nbytes @ comm.nbytes / comm.nbytes.sum()
    nbytes = np.ceil(comm.nbytes * (packets * packet / mean))
    return CommGraph(comm.n_tasks, comm.src, comm.dst, nbytes, name=comm.name)
