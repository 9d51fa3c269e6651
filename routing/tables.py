"""Lookup tables of kernels: straight runs of routes on a torus, and offsets between nodes."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping import Torus
from toruscast.mapping.torus import TIE_RULES
from toruscast.typing import Int32s, Ints

# A table saves time up to this many runs per edge: if it fits into the cache, and if it does not.
_RUNS_PER_EDGE_IN_CACHE, _RUNS_PER_EDGE_IN_MEMORY = 8, 2
_RUNS_IN_CACHE = 2**20


class RunTable(NamedTuple):
    """Indices of the straight runs of routes; dimensions are in routing order.

    A route has one straight run in each dimension. The bit fields of a node's code hold its
    coordinates. The run along dimension ``i`` from coordinate ``s`` has the index ``base[i] + (s *
    parities + parity) * plane`` plus the code of the node where it ends. If the tie rule uses the
    parity of the sum of the destination's other coordinates, ``parity`` is this parity, else 0. The
    runs of neighbouring nodes are close together in memory.
    """

    # (N,) The highest bit is the parity of the sum of coordinates. A torus has at most 2**24 nodes,
    # so a code has at most 31 bits.
    code: Int32s
    shift: Ints  # (D + 1,) first bit of each coordinate, then of the parity
    mask: Ints  # (D,)
    upto: Ints  # (D,) mask of a dimension and all earlier ones
    base: Ints  # (D,)
    # (N, D) index of each node's run in each dimension, before the code of the last node is added.
    # Tables in use have fewer than 2**32 runs.
    start: NDArray[np.uint32]
    plane: int  # number of codes without parity
    n_runs: int
    parities: int  # 2 if the tie rule uses the parity, else 1


def run_table_if_faster(torus: Torus, n_edges: int) -> RunTable | None:
    """Return a torus's table, or None if the torus is twisted or following the routes is faster."""
    # Codes that belong to no node are not counted.
    n_runs = torus.n_nodes * sum(torus.shape) * (1 + TIE_RULES[torus.tie_break].with_others)
    fits_into_cache = n_runs <= _RUNS_IN_CACHE
    runs_per_edge = _RUNS_PER_EDGE_IN_CACHE if fits_into_cache else _RUNS_PER_EDGE_IN_MEMORY
    # A table of up to 4,096 runs is always fast.
    is_faster = not torus.twist and n_runs <= max(runs_per_edge * n_edges, 2**12)
    return run_table(torus) if is_faster else None


@lru_cache(maxsize=8)
def run_table(torus: Torus) -> RunTable:
    """Return the indices of all straight runs on a torus; see `RunTable`."""
    parities = 1 + TIE_RULES[torus.tie_break].with_others
    coords = torus.coords[:, torus.routing_order].astype(np.int64)
    size = np.array([torus.shape[k] for k in torus.routing_order])
    shift = np.cumsum([0, *((int(k) - 1).bit_length() for k in size)])
    plane = 1 << int(shift[-1])
    runs = size * parities * plane
    base, upto = np.cumsum(runs) - runs, (1 << shift[1:]) - 1
    code = (coords << shift[:-1]).sum(axis=1)
    start = base + coords * (parities * plane) + (code[:, np.newaxis] & ~upto)
    return RunTable(
        code=(code + (coords.sum(axis=1) % 2 << shift[-1])).astype(np.int32),
        shift=shift,
        mask=(1 << np.diff(shift)) - 1,
        upto=upto,
        base=base,
        start=start.astype(np.uint32),
        plane=plane,
        n_runs=int(runs.sum()),
        parities=parities,
    )


class OffsetTable(NamedTuple):
    """Signed offsets from nodes to a destination, one per row, the farthest first.

    The cell of an offset is its number in C order: ``((gap + minus) * stride).sum()``.
    """

    gap: Int32s  # (M, D)
    distance: Int32s  # (M,)
    cell: Ints  # (M,) cell of each row
    position: Int32s  # (M,) row of each cell
    first: Ints  # (max distance + 1,) first row of at most this distance
    minus: Ints  # (D,) maximum hops in the minus direction
    stride: Ints  # (D,)


def offset_table(minus: Ints, plus: Ints) -> OffsetTable:
    """Return all offsets of up to ``minus`` and ``plus`` hops, ``(D,)``, along each dimension."""
    size = minus + plus + 1
    stride = np.append(np.cumprod(size[:0:-1])[::-1], 1)
    cells = np.arange(size.prod())
    distance = np.zeros(cells.size, dtype=np.int32)
    for k, hops in enumerate(minus):
        distance += np.abs(cells // stride[k] % size[k] - hops).astype(np.int32)
    cell = np.argsort(-distance, kind="stable")
    position = np.empty(cells.size, dtype=np.int32)
    position[cell] = cells
    gap = np.empty((cells.size, size.size), dtype=np.int32)
    for k, hops in enumerate(minus):
        gap[:, k] = cell // stride[k] % size[k] - hops
    distance = distance[cell]
    first = np.searchsorted(-distance, -np.arange(np.maximum(minus, plus).sum() + 1))
    return OffsetTable(gap, distance, cell, position, first, minus, stride)
