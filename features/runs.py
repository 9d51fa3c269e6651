"""Tables of the straight runs of a torus, for graphs large enough to pay for them."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping import Torus

# Runs an edge up to which the tables are worth their making, and runs whose sums stay in the cache:
# with four times as many, marking the ends of the runs is the faster way.
_RUNS_AN_EDGE = 8
_MAX_RUNS = 2**20


class RunTable(NamedTuple):
    """Where the runs of a route stand: ``begin[source, i] + end[destination, i]``.

    Both are of shape ``(n_nodes, ndim)``, the dimensions in routing order; ``n_runs`` is the number
    of runs of the torus, ``parities`` how many differ only in the parity of the destination's other
    coordinates.
    """

    begin: NDArray[np.int32]
    end: NDArray[np.int32]
    n_runs: int
    parities: int


def run_table(torus: Torus, n_edges: int) -> RunTable | None:
    """Return the table of a torus, or None where walking the routes costs less."""
    n_runs = torus.n_nodes * sum(torus.shape) * _parities(torus)
    if n_runs > min(_MAX_RUNS, max(_RUNS_AN_EDGE * n_edges, 2**12)):
        return None
    return _run_table(torus)


def _parities(torus: Torus) -> int:
    """Ways that runs of one start and one end may go, by the parity of other coordinates."""
    return 2 if torus.tie == "sum_parity" else 1


@lru_cache(maxsize=8)
def _run_table(torus: Torus) -> RunTable:
    parities = _parities(torus)
    stride = np.cumprod((1, *torus.shape[:0:-1]))[::-1]
    places = torus.coords * stride
    begin = np.zeros((torus.n_nodes, torus.ndim), dtype=np.int64)
    end = np.zeros_like(begin)
    base = 0
    for i, k in enumerate(torus.order):
        # Earlier dimensions are at the destination's coordinate already, this and later ones at
        # the source's.
        done, left = list(torus.order[:i]), list(torus.order[i:])
        size = torus.shape[k]
        parity = np.delete(torus.coords, k, axis=1).sum(axis=1) % parities
        begin[:, i] = base + size * parities * places[:, left].sum(axis=1)
        end[:, i] = size * (parities * places[:, done].sum(axis=1) + parity) + torus.coords[:, k]
        base += torus.n_nodes * size * parities
    return RunTable(begin.astype(np.int32), end.astype(np.int32), base, parities)
