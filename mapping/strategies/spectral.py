"""Geometric mapping from a layout that the graph's own spectrum gives."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .placement import Placement
from .registry import register

# Graphs up to this size are decomposed whole, which is surer than iterating.
_DENSE = 700
# Squares of a cosine and its sine add up to a constant: noise leaves less of their correlation.
_PAIRED = -0.6
_MOST_ORDERS = 120
# Of the most that a task sends to one other.
_MUCH = 0.1


@register("spectral", lambda _: [])
def spectral(placement: Placement, variant: str, rng: np.random.Generator) -> NDArray[Any]:
    """Lay the tasks out by the slowest vibrations of their graph, and cut the layout into nodes.

    The vibrations of a grid or torus of tasks are waves along its dimensions, mixed where several
    are equally slow. Independent component analysis takes the mixture apart; a cosine and its sine
    give the angle round a ring, a wave alone the place on a line. The dimensions of the layout go
    along those of the torus, in the order with the least hop-bytes. A renumbered halo comes back as
    it was. Spectral layout: Hall, Management Science 17, 1970; FastICA: Hyvarinen, IEEE Trans.
    Neural Networks 10, 1999.
    """
    n_tasks, torus = placement.n_tasks, placement.torus
    long = [d for d, size in enumerate(torus.shape) if size > 1]
    n_waves = min(2 * len(long), n_tasks - 2)
    if n_waves < 1 or not placement.partners[1].size:
        return np.arange(n_tasks) // placement.capacity
    best: NDArray[Any] = np.arange(n_tasks) // placement.capacity
    least = np.inf
    # How many waves belong to the grid nobody knows: rings have two each, lines one.
    for even, n in itertools.product((True, False), range(min(len(long), n_waves), n_waves + 1)):
        if n == min(len(long), n_waves):
            slow = _slowest(placement, n_waves, even)
        coordinates = _coordinates(_independent(slow[:, :n], rng))
        orders = itertools.permutations(range(len(coordinates)), min(len(long), len(coordinates)))
        for order in itertools.islice(orders, _MOST_ORDERS):
            node = _cut([coordinates[i] for i in order], [torus.shape[d] for d in long], n_tasks)
            cost = placement.hop_bytes(node)
            if cost < least * (1 - 1e-9):
                best, least = node, cost
    return best


def _slowest(placement: Placement, n: int, even: bool) -> NDArray[Any]:
    """Slowest vibrations but the constant, scaled to unit variance; ``(n_tasks, n)``.

    With springs all alike (``even``) between tasks that exchange much, or as strong as the traffic.
    """
    from scipy import sparse
    from scipy.sparse import linalg

    first, partner, nbytes = placement.partners
    n_tasks = placement.n_tasks
    if even:
        # Halos send more through some faces than through others, and most little to the edges.
        most = np.maximum.reduceat(nbytes, np.minimum(first[:-1], nbytes.size - 1))
        task = np.repeat(np.arange(n_tasks), np.diff(first))
        much = nbytes >= _MUCH * np.minimum(most[task], most[partner])
        nbytes = much.astype(np.float64)
    weight = sparse.csr_array((nbytes, partner, first), shape=(n_tasks, n_tasks))
    # A task without traffic may stand anywhere.
    degree = np.maximum(weight.sum(axis=1), 1e-9 * max(nbytes.mean(), 1e-290))
    scale = sparse.diags_array(1 / np.sqrt(degree))
    normal = scale @ weight @ scale
    if n_tasks <= _DENSE:
        values, vectors = np.linalg.eigh(normal.toarray())
    else:
        start = np.full(n_tasks, 1.0) + np.linspace(0, 0.5, n_tasks)
        values, vectors = linalg.eigsh(normal, k=n + 1, which="LA", v0=start)
    slow = vectors[:, np.argsort(-values)[1 : n + 1]] / np.sqrt(degree)[:, None]
    slow -= slow.mean(axis=0)
    return np.asarray(slow / np.maximum(slow.std(axis=0), 1e-300))


def _independent(mixed: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """Turn columns so that they are as independent as can be: symmetric FastICA, by kurtosis."""
    n = mixed.shape[1]
    # Whiten first; vibrations that hardly differ from others are left out.
    values, vectors = np.linalg.eigh(np.cov(mixed.T).reshape(n, n))
    kept = values > 1e-9
    white = mixed @ (vectors[:, kept] / np.sqrt(values[kept]))
    turn = np.linalg.qr(rng.normal(size=(kept.sum(), kept.sum())))[0]
    for _ in range(200):
        sources = white @ turn.T
        grown = (sources**3).T @ white / white.shape[0] - 3 * turn
        left, _, right = np.linalg.svd(grown)
        new = left @ right
        settled = np.abs(np.abs((new * turn).sum(axis=1)) - 1).max() < 1e-9
        turn = new
        if settled:
            break
    return np.asarray(white @ turn.T)


def _coordinates(waves: NDArray[Any]) -> list[NDArray[Any]]:
    """Angles of waves that are a cosine and its sine, places of the others; ``(n_tasks,)`` each."""
    likeness = np.corrcoef((waves**2).T).reshape(waves.shape[1], -1)
    np.fill_diagonal(likeness, 0)
    alone = set(range(waves.shape[1]))
    found = []
    for i, j in zip(
        *np.unravel_index(np.argsort(likeness, axis=None), likeness.shape), strict=True
    ):
        if likeness[i, j] > _PAIRED:
            break
        if {i, j} <= alone:
            alone -= {i, j}
            angle = np.arctan2(waves[:, i], waves[:, j])
            # Cut where nothing is: what stands together stays together.
            ordered = np.sort(angle)
            gaps = np.diff(np.append(ordered, ordered[0] + 2 * np.pi))
            seam = ordered[(gaps.argmax() + 1) % angle.size]
            found.append((angle - seam + 1e-6) % (2 * np.pi))
    return found + [waves[:, i] for i in sorted(alone)]


def _cut(coordinates: list[NDArray[Any]], sizes: list[int], n_tasks: int) -> NDArray[Any]:
    """Cut into slabs of equal numbers of tasks, along one coordinate after the other."""
    node = np.zeros(n_tasks, dtype=np.int64)
    groups = [np.arange(n_tasks)]
    for d, size in enumerate(sizes):
        parts = []
        for group in groups:
            along = coordinates[d][group] if d < len(coordinates) else group
            ordered = group[np.argsort(along, kind="stable")]
            for k in range(size):
                slab = ordered[k * group.size // size : (k + 1) * group.size // size]
                node[slab] = node[slab] * size + k
                parts.append(slab)
        groups = parts
    return node
