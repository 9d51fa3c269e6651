"""Kernels of hop-bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import bare_kernel, inner_kernel, kernel


@bare_kernel
def ring_distance(a: float, b: float, size: float, wraps: bool) -> float:
    """Hops between two coordinates of one dimension."""
    gap = abs(a - b)
    if wraps and size - gap < gap:
        gap = size - gap
    return gap


@inner_kernel
def torus_distance(
    a: NDArray[Any],
    b: NDArray[Any],
    shape: NDArray[Any],
    wrap: NDArray[Any],
    images: NDArray[Any],
) -> float:
    # images (I, D): where a node of a twisted torus lies again beyond its edges; none: (0, D)
    """Hops between two points."""
    if images.shape[0] == 0:
        total = 0.0
        for d in range(shape.size):
            total += ring_distance(a[d], b[d], shape[d], wrap[d])
        return total
    least = np.inf
    for i in range(images.shape[0]):
        total = 0.0
        for d in range(shape.size):
            total += abs(a[d] - b[d] + images[i, d])
        least = min(least, total)
    return least


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
