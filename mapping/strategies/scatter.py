"""Random placements, and good ones disturbed by a number of random swaps."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .placement import Placement
from .registry import bad_variant, nodes, register

Rng = np.random.Generator


@register("random", lambda _: [])
def random(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Give the tasks different places, every choice equally likely."""
    return rng.permutation(placement.n_places)[: placement.n_tasks] // placement.capacity


@register(
    "swap-K-NAME",
    lambda _: [],
    example="swap-10-identity",
    parameters="K: pairs of tasks that are swapped, NAME: the mapping in which they are",
)
def swap(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Exchange the nodes of K random pairs of tasks, one after the other, in the mapping NAME."""
    match = re.fullmatch(r"([0-9]{1,9})-([a-z].*)", variant)
    if not match:
        raise bad_variant(placement, "swap", variant)
    return swapped(undisturbed(placement, match[2]), int(match[1]), rng)


def undisturbed(placement: Placement, name: str) -> NDArray[Any]:
    """Return the mapping that swaps start from, the same for every seed."""
    if name not in placement.bases:
        placement.bases[name] = nodes(placement, name, seed=0)
    return placement.bases[name]


def swapped(node: NDArray[Any], count: int, rng: Rng) -> NDArray[Any]:
    """Return ``node`` after ``count`` swaps of two random entries."""
    changed = node.tolist()
    for a, b in rng.integers(0, node.size, size=(count, 2)).tolist():
        changed[a], changed[b] = changed[b], changed[a]
    return np.array(changed, dtype=np.int64)
