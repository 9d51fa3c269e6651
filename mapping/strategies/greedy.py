"""Greedy placement: the task that talks most to those placed, next to them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..twist import images
from .placement import Placement, placement_kernels
from .registry import bad_variant, register


@register(
    "greedy-START",
    lambda _: ["heaviest", "random"],
    example="greedy-heaviest",
    parameters="START: heaviest or random",
)
def greedy(placement: Placement, variant: str, rng: np.random.Generator) -> NDArray[Any]:
    """Place task after task, each time the one with the most bytes to those already placed.

    It goes to the free node, among those nearest to its heaviest partner, with the least hop-bytes.
    The first is the task with the most bytes, on node 0 (``heaviest``), or any on any (``random``).
    """
    first_edge, partner, nbytes = placement.partners

    if variant == "heaviest":
        volume = np.bincount(
            np.repeat(np.arange(placement.n_tasks), np.diff(first_edge)),
            weights=nbytes,
            minlength=placement.n_tasks,
        )
        task, node = int(volume.argmax()), 0
    elif variant == "random":
        task = int(rng.integers(placement.n_tasks))
        node = int(rng.integers(placement.torus.n_nodes))
    else:
        raise bad_variant(placement, "greedy", variant)
    torus = placement.torus
    return placement_kernels.place_greedily(
        first_edge,
        partner,
        nbytes,
        torus.coords,
        torus.neighbors,
        np.array(torus.shape),
        np.array(torus.wrap),
        images(torus.shape, torus.twist),
        placement.capacity,
        task,
        node,
    )
