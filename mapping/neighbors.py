"""The table of neighbours of a torus, from which all else that knows its links is taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

import networkx as nx
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .torus import Torus


def neighbor_table(torus: Torus) -> NDArray[np.int32]:
    """Return the node at the far end of every link, ``(n_nodes, 2 * ndim)``; -1 for none."""
    nodes = np.arange(torus.n_nodes, dtype=np.int32).reshape(torus.shape)
    table = np.empty((torus.n_nodes, 2 * torus.ndim), dtype=np.int32)
    for d, size in enumerate(torus.shape):
        for s, step in enumerate((-1, 1)):
            ends = np.roll(nodes, step, axis=d)
            if size == 1:
                ends = np.full_like(ends, -1)
            elif not torus.wrap[d]:
                edge = [slice(None)] * torus.ndim
                edge[d] = slice(-1, None) if s == 0 else slice(0, 1)
                ends[tuple(edge)] = -1
            elif torus.twist:
                edge = [slice(None)] * torus.ndim
                edge[d] = slice(-1, None) if s == 0 else slice(0, 1)
                moves = [step * by for by in torus.twist[d]]
                ends[tuple(edge)] = np.roll(ends[tuple(edge)], moves, axis=range(torus.ndim))
            table[:, 2 * d + s] = ends.ravel()
    if torus.holes.links:
        table.ravel()[list(torus.holes.links)] = -1
    return table


def links_as_graph(neighbors: NDArray[np.int32]) -> nx.DiGraph[int]:
    """Return a table of neighbours as a directed graph."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(len(neighbors)))
    node, port = np.nonzero(neighbors >= 0)
    graph.add_edges_from(zip(node.tolist(), neighbors[node, port].tolist(), strict=True))
    return graph


def hops_between(torus: Torus, a: NDArray[np.int32], b: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the hops between nodes of an untwisted torus (broadcast)."""
    gap = np.abs(torus.coords[a] - torus.coords[b])
    size = np.array(torus.shape, dtype=np.int32)
    around = np.where(np.array(torus.wrap), size - gap, gap)
    return np.asarray(np.minimum(gap, around).sum(axis=-1), dtype=np.int32)
