"""Tables that kernels read: the straight runs of a torus, and offsets from a node."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping import Torus
from toruscast.mapping.torus import TIE_RULES

# Most runs an edge for which the tables save time; fewer if the tables exceed the cache.
_RUNS_AN_EDGE, _IN_MEMORY = 8, 2
_IN_CACHE = 2**20


class RunTable(NamedTuple):
    """Places of the runs of a route; dimensions are in routing order.

    A code holds the coordinates of a node side by side, in whole bits. The run along dimension
    ``i`` from coordinate ``s`` stands at ``base[i] + (s * parities + parity) * plane`` plus the
    code of the node where it ends. ``parity`` is that of the destination's other coordinates, if
    the tie rule needs it. Runs of all routes out of neighbouring nodes lie close together.
    """

    code: NDArray[
        np.int32
    ]  # (N,) with the parity of the sum of coordinates above: at most 31 bits,
    # as a torus has at most 2**24 nodes
    shift: NDArray[np.int64]  # (D + 1,) where each coordinate begins in a code, then the parity
    mask: NDArray[np.int64]  # (D,)
    upto: NDArray[np.int64]  # (D,) the bits of a dimension and of those before it
    base: NDArray[np.int64]  # (D,)
    plane: int  # codes without their parities
    n_runs: int
    parities: int


def worthwhile_runs(torus: Torus, n_edges: int) -> RunTable | None:
    """Return the table of a torus, or None if walking the routes costs less."""
    # Places whose bits are no node's coordinates are never touched.
    touched = torus.n_nodes * sum(torus.shape) * (1 + TIE_RULES[torus.tie_break].with_others)
    an_edge = _RUNS_AN_EDGE if touched <= _IN_CACHE else _IN_MEMORY
    return run_table(torus) if touched <= max(an_edge * n_edges, 2**12) else None


@lru_cache(maxsize=8)
def run_table(torus: Torus) -> RunTable:
    """Return the table of a torus; the runs themselves are made by whoever fills them."""
    parities = 1 + TIE_RULES[torus.tie_break].with_others
    coords = torus.coords[:, torus.routing_order].astype(np.int64)
    size = np.array([torus.shape[k] for k in torus.routing_order])
    shift = np.cumsum([0, *((int(k) - 1).bit_length() for k in size)])
    plane = 1 << int(shift[-1])
    runs = size * parities * plane
    side_by_side = np.column_stack([coords, coords.sum(axis=1) % 2]) << shift
    return RunTable(
        code=side_by_side.sum(axis=1).astype(np.int32),
        shift=shift,
        mask=(1 << np.diff(shift)) - 1,
        upto=(1 << shift[1:]) - 1,
        base=np.cumsum(runs) - runs,
        plane=plane,
        n_runs=int(runs.sum()),
        parities=parities,
    )


class OffsetTable(NamedTuple):
    """Signed hops left; the offset of ``hops`` is ``at[((hops + minus) * stride).sum()]``."""

    gap: NDArray[np.int32]  # (M, D)
    distance: NDArray[np.int32]  # (M,)
    place: NDArray[np.int64]  # (M,)
    at: NDArray[np.int32]  # (M,) by place
    first: NDArray[np.int64]  # (farthest + 1,) first offset that is at most so far
    minus: NDArray[np.int64]  # (D,) most hops in minus direction
    stride: NDArray[np.int64]  # (D,)


def offset_table(minus: NDArray[np.int64], plus: NDArray[np.int64]) -> OffsetTable:
    """Return all offsets up to a number of hops in each direction of each dimension."""
    size = minus + plus + 1
    stride = np.append(np.cumprod(size[:0:-1])[::-1], 1)
    every = np.arange(size.prod())
    distance = np.zeros(every.size, dtype=np.int32)
    for k, hops in enumerate(minus):
        distance += np.abs(every // stride[k] % size[k] - hops).astype(np.int32)
    place = np.argsort(-distance, kind="stable")
    at = np.empty(every.size, dtype=np.int32)
    at[place] = every
    gap = np.empty((every.size, size.size), dtype=np.int32)
    for k, hops in enumerate(minus):
        gap[:, k] = place // stride[k] % size[k] - hops
    distance = distance[place]
    first = np.searchsorted(-distance, -np.arange(np.maximum(minus, plus).sum() + 1))
    return OffsetTable(gap, distance, place, at, first, minus, stride)
