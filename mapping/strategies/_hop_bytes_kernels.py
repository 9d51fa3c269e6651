"""Kernels of hop-bytes."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from toruscast._jit import kernel


@kernel
def ring_distance(a: float, b: float, size: float, wraps: bool) -> float:
    """Hops between two coordinates of one dimension."""
    gap = abs(a - b)
    if wraps and size - gap < gap:
        gap = size - gap
    return gap


@kernel
def sum_hop_bytes(
    src: NDArray[Any],
    dst: NDArray[Any],
    nbytes: NDArray[Any],
    coords: NDArray[Any],
    shape: NDArray[Any],
    wrap: NDArray[Any],
) -> float:
    # coords: (n_tasks, D), of the node of each task
    """Sum of bytes times hops."""
    total = 0.0
    for e in range(src.size):
        hops = 0
        for d in range(shape.size):
            gap = abs(coords[src[e], d] - coords[dst[e], d])
            if wrap[d]:
                gap = min(gap, shape[d] - gap)
            hops += gap
        total += hops * nbytes[e]
    return total
