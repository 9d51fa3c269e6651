"""The mesh that JAX makes by itself for a slice of TPUs, without importing JAX."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np

from toruscast.mapping.strategies.orders import divisors
from toruscast.mapping.torus import Torus
from toruscast.typing import Ints

from .devices import default_devices
from .layouts import AxisLayout, DimensionPart, Pieces, build_mesh, list_walks
from .traffic import MeshAxes

# Rings over small slices, as device numbers of `default_devices`.
_TRAY = (0, 1, 2, 3, 6, 7, 4, 5)
_FLAT: dict[int, Sequence[int]] = {
    4: (0, 1, 3, 2),
    8: (0, 1, 2, 3, 7, 6, 5, 4),
    16: (0, 1, 2, 3, 7, 6, 5, 9, 10, 11, 15, 14, 13, 12, 8, 4),
}
_RINGS: dict[str, dict[int, Sequence[int]]] = {
    "tpu_v5e": _FLAT,
    "tpu_v6e": _FLAT,
    "tpu_v5p": {8: (0, 1, 3, 2, 6, 7, 5, 4)},
}


def lay_out_as_jax(torus: Torus, axes: MeshAxes, nodes: Ints | None = None) -> tuple[Ints, str]:
    """Return JAX's own mesh of a whole slice, as the node at each coordinate, and describe it.

    ``nodes`` lists the nodes of the devices in JAX's order; by default, in the machine's order.

    This is the mesh of `jax.experimental.mesh_utils.create_device_mesh` in JAX 0.10, which
    `jax.make_mesh` calls, with ``allow_split_physical_axes=True``. On a TPU the axes choose their
    part of the slice in turn, the last axis first. An axis prefers to fill whole dimensions, then
    to fill as many as possible, then to share dimensions that are already split, then to use the
    first dimensions. If several axes share a dimension, the last of these axes gets neighbouring
    nodes. Some small slices use a fixed ring instead, and all other slices of TPU v2 and v3 use the
    devices in the order of their numbers.

    Examples
    --------
    >>> from toruscast.formats import torus
    >>> lay_out_as_jax(torus("tpu_v4:4x4x4"), MeshAxes(("data", "model"), (16, 4)))[1]
    'data spans YZ; model spans X'
    """
    ring = _find_ring(torus, axes.sizes)
    if ring is not None:
        devices = default_devices(torus).nodes if nodes is None else nodes
        nodes = devices[list(ring)].reshape(axes.sizes)
        in_order = [*ring] == [*range(nodes.size)]
        return nodes, "devices in order" if in_order else "JAX's order of a small slice"
    layouts = [
        AxisLayout(pieces, list_walks([piece.size for piece in pieces])[0])
        for pieces in _choose_pieces(torus.shape, axes.sizes)
    ]
    pairs = zip(axes.names, layouts, strict=True)
    description = "; ".join(f"{name} {layout.describe(torus)}" for name, layout in pairs)
    return build_mesh(torus, layouts), description


def _find_ring(torus: Torus, sizes: tuple[int, ...]) -> Sequence[int] | None:
    """Return the fixed order of the devices, or None if the axes choose their dimensions."""
    n, machine = torus.n_nodes, torus.name
    if machine in ("tpu_v2", "tpu_v3"):
        is_tray = n == 8 or sizes[-1] == 8
        return [i - i % 8 + _TRAY[i % 8] for i in range(n)] if is_tray else range(n)
    if machine == "tpu7x":
        is_tray = n % 8 == 0 and n <= 32 and max(torus.shape[:2]) <= 2
        return [i - i % 8 + _TRAY[i % 8] for i in range(n)] if is_tray else None
    rings = _RINGS.get(machine, {})
    has_ring = len({*torus.shape}) == 1 or (rings is _FLAT and n == 8)
    return rings.get(n) if has_ring and (n < 16 or max(sizes) == n) else None


def _choose_pieces(shape: Sequence[int], sizes: Sequence[int]) -> list[Pieces]:
    """Return the pieces of the dimensions that JAX assigns to each axis."""
    split = np.ones(len(shape), dtype=np.int64)  # product of the pieces so far, by dimension
    chosen: list[Pieces] = []
    for size in reversed(sizes):
        parts = product(*map(divisors, (shape // split).tolist()))
        fitting = [part for part in parts if math.prod(part) == size]
        best = max(fitting, key=lambda part: _prefer(part, shape, split))
        pieces = zip(range(len(shape)), split.tolist(), best, strict=True)
        chosen.insert(0, tuple(DimensionPart(*piece) for piece in pieces if piece[2] > 1))
        split = split * best
    return chosen


def _prefer(part: Sequence[int], shape: Sequence[int], split: Ints) -> tuple[object, ...]:
    """Return a sort key; JAX gives an axis the part with the largest key."""
    whole = [n for n, length in zip(part, shape, strict=True) if n == length]
    shared = [n for n, before in zip(part, split, strict=True) if before > 1]
    return math.prod(whole), sum(n > 1 for n in whole), math.prod(shared), part
