"""Tables of the straight runs of a torus, for large graphs."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping import Torus
from toruscast.mapping.ties import TIE_RULES

# Most runs an edge for which the tables save time; fewer if the tables exceed the cache.
_RUNS_AN_EDGE, _IN_MEMORY = 8, 2
_IN_CACHE = 2**20


class RunTable(NamedTuple):
    """Places of the runs of a route; dimensions are in routing order.

    The run along dimension ``i`` stands at ``base[i] + (row * parities + parity) * size[i] + t``:
    ``row`` belongs to the node where the run starts, ``t`` is the coordinate where it ends, and
    ``parity`` is that of the destination's other coordinates, if the tie rule needs it. A step
    along the dimension is ``stride[i]`` rows. The dimension routed last has the largest stride, so
    the runs of all routes out of neighbouring nodes lie close together.
    """

    code: NDArray[np.int32]  # (N,) coordinates side by side, with the parity of their sum above: at
    # most 31 bits, as a torus has at most 2**24 nodes
    row: NDArray[np.int32]  # (N,)
    shift: NDArray[np.int64]  # (D + 1,) where each coordinate begins in a code, then the parity
    mask: NDArray[np.int64]  # (D,)
    size: NDArray[np.int64]  # (D,)
    stride: NDArray[np.int64]  # (D,)
    base: NDArray[np.int64]  # (D,)
    n_runs: int
    parities: int


def worthwhile_runs(torus: Torus, n_edges: int) -> RunTable | None:
    """Return the table of a torus, or None if walking the routes costs less."""
    n_runs = torus.n_nodes * sum(torus.shape) * _parities(torus)
    an_edge = _RUNS_AN_EDGE if n_runs <= _IN_CACHE else _IN_MEMORY
    if n_runs > max(an_edge * n_edges, 2**12):
        return None
    return run_table(torus)


def _parities(torus: Torus) -> int:
    """Return the number of parities that the runs of a torus depend on."""
    return 1 + TIE_RULES[torus.tie].with_others


@lru_cache(maxsize=8)
def run_table(torus: Torus) -> RunTable:
    """Return the table of a torus; the runs themselves are made by whoever fills them."""
    parities = _parities(torus)
    coords = torus.coords[:, torus.order].astype(np.int64)
    size = np.array([torus.shape[k] for k in torus.order])
    stride = np.cumprod([1, *size[:-1]])
    runs = torus.n_nodes * size * parities
    shift = np.cumsum([0, *((int(k) - 1).bit_length() for k in size)])
    side_by_side = np.column_stack([coords, coords.sum(axis=1) % 2]) << shift
    return RunTable(
        code=side_by_side.sum(axis=1).astype(np.int32),
        row=(coords @ stride).astype(np.int32),
        shift=shift,
        mask=(1 << np.diff(shift)) - 1,
        size=size,
        stride=stride,
        base=np.cumsum(runs) - runs,
        n_runs=int(runs.sum()),
        parities=parities,
    )
