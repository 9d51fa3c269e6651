"""Recursive bisection of the guest graph and the torus together."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..twist import images
from .placement import Placement, placement_kernels
from .registry import bad_variant, register

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
def bisect(placement: Placement, variant: str, rng: np.random.Generator) -> NDArray[Any]:
    """Halve the torus along its longest dimension and the tasks with it, again and again.

    Each half of the tasks is chosen to lower hop-bytes, as far as known: bytes between the halves
    count the distance of the two boxes' centres, bytes to tasks in other boxes that to those.
    The candidates are cuts of the task grid (``grid``), growth from a task at the rim of the graph,
    then pairwise refinement as of Kernighan and Lin (``graph``), or all of these (``refined``).
    Dual recursive bisection is due to Ercal, Ramanujam and Sadayappan, J. Parallel Distrib. Comput.
    10, 1990, and Pellegrini, SHPCC'94.
    """
    if variant not in _METHODS:
        raise bad_variant(placement, "bisect", variant)
    first_edge, partner, nbytes = placement.partners
    torus = placement.torus
    grid = np.indices(placement.grid).reshape(len(placement.grid), -1)
    return placement_kernels.bisect_both(
        first_edge,
        partner,
        nbytes,
        np.ascontiguousarray(grid.T),
        np.array(torus.shape),
        np.array(torus.wrap),
        images(torus.shape, torus.twist),
        placement.capacity,
        *_METHODS[variant],
    )
