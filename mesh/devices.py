"""The devices of a slice: their numbers, and the nodes of the torus that they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toruscast.errors import InputError
from toruscast.mapping.machines import named, names
from toruscast.mapping.torus import Torus
from toruscast.text import counted
from toruscast.validation import whole_array, whole_number

_IN_C_ORDER = ("trainium", "galaxy")
# Names of a dimension of devices: the first letter that no other dimension has.
_DEVICES = "CUVWXYZIJ"


@dataclass(frozen=True, eq=False)
class Devices:
    """Devices that are there: their numbers, rising, and the node of each, ``(n,)``."""

    ids: NDArray[np.int64]
    nodes: NDArray[np.int64]

    def places(self, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the place of each node's device among all, as sorted by their numbers."""
        place = np.full(int(self.nodes.max()) + 1, -1, dtype=np.int64)
        place[self.nodes] = np.arange(self.nodes.size)
        return np.asarray(place[nodes])


def usual_devices(torus: Torus) -> Devices:
    """Return the devices of a whole slice, numbered as their machine does.

    Those of Trainium and Galaxy are numbered in C order, the last dimension fastest; others as JAX
    does those of a TPU slice: X fastest, then Y and Z, the devices of a chip (C) side by side.
    """
    order = np.arange(torus.n_nodes).reshape(torus.shape)
    if not torus.name.startswith(_IN_C_ORDER):
        # The devices of a chip stay fastest.
        chips = torus.ndim - counts_devices(torus)
        order = order.transpose(*reversed(range(chips)), *range(chips, torus.ndim))
    return Devices(np.arange(torus.n_nodes), order.ravel().astype(np.int64))


def counts_devices(torus: Torus) -> bool:
    """Return whether the last dimension counts the devices of a chip."""
    return torus.ndim > 1 and torus.axes.endswith("C") and not torus.axes.startswith("AB")


def chips_as_devices(torus: Torus, n_devices: int, per_chip: int | None = None) -> Torus:
    """Return a torus of devices: each chip's are a last dimension, C.

    Without ``per_chip`` only machines change whose chips work as several devices and are too few
    for ``n_devices``: Trainium2, with four or eight logical cores a chip (AWS Neuron
    documentation), and Trainium1 with two. Devices share a chip's links and the bandwidth of its
    memory, through which they exchange, equally: how they really do is not public.
    """
    if per_chip is None:
        is_known = torus.n_nodes < n_devices and torus.name in names()
        several = named(torus.name).shapes.devices if is_known else ()
        fitting = (n for n in several if n * torus.n_nodes >= n_devices)
        per_chip = next(fitting, 1)
    per_chip = whole_number(per_chip, "devices per chip", 1)
    if per_chip == 1:
        return torus
    if torus.twist or torus.holes:
        expected = "a plain torus without missing chips"
        raise InputError("several devices a chip", found=torus, expected=expected)
    memory = torus.network.memory_bandwidth / per_chip
    return Torus(
        (*torus.shape, per_chip),
        wrap=(*torus.wrap, per_chip > 2),
        bandwidth=(*(b / per_chip for b in torus.bandwidth), memory),
        network=replace(
            torus.network,
            fifos=2 * (torus.ndim + 1),
            fifo_rule="first_dimension",
            memory_bandwidth=memory,
        ),
        name=torus.name,
        axes=torus.axes + next(letter for letter in _DEVICES if letter not in torus.axes),
    )


def nodes_at(torus: Torus, coords: ArrayLike) -> NDArray[np.int64]:
    """Return the nodes at coordinates of devices, ``(n, dimensions)``; -1 outside of the torus.

    Coordinates of a part of a larger machine are counted from the lowest. Entries beyond the
    torus's dimensions are the same everywhere (TPU v5e lists Z, a chip with one core its core).
    """
    rows = np.asarray(coords)
    expected = f"a row of {torus.ndim} coordinates for each device"
    if rows.ndim != 2 or not len(rows) or rows.shape[1] < torus.ndim:
        raise InputError("bad coordinates of devices", found=rows.shape, expected=expected)
    rows = whole_array(rows.ravel(), "coordinate of a device").reshape(rows.shape)
    low = rows.min(axis=0)
    if (rows[:, torus.ndim :] != low[torus.ndim :]).any():
        raise InputError("bad coordinates of devices", found=rows.shape, expected=expected)
    size = np.array(torus.shape)
    places = rows[:, : torus.ndim].copy()
    if (places >= size).any():
        places = places - low[: torus.ndim]
    outside = np.logical_or(places < 0, places >= size).any(axis=1)
    places[outside] = 0
    nodes = torus.node(places).astype(np.int64)
    nodes[outside] = -1
    return nodes


def devices_at(torus: Torus, coords: ArrayLike, ids: Sequence[int] | None = None) -> Devices:
    """Return devices from their coordinates, as of `nodes_at`, and numbers."""
    nodes = nodes_at(torus, coords)
    numbers = np.arange(nodes.size) if ids is None else whole_array(ids, "number of a device")
    if numbers.size != nodes.size:
        raise InputError("numbers of devices missing", found=numbers.size, expected=nodes.size)
    if np.unique(numbers).size < numbers.size:
        raise InputError("two devices have one number", expected="different numbers")
    if (nodes < 0).any():
        bad = np.asarray(coords)[nodes < 0][0]
        raise InputError(
            "device outside the torus", found=tuple(bad.tolist()), expected=f"within {torus}"
        )
    order = np.argsort(numbers)
    nodes = nodes[order]
    if np.unique(nodes).size < nodes.size:
        twice = np.flatnonzero(np.bincount(nodes) > 1)[0]
        found = (
            f"{counted(int((nodes == twice).sum()), 'device')} at {torus.coords[twice].tolist()}"
        )
        raise InputError("two devices share a place", found=found, expected="different places")
    return Devices(numbers[order].astype(np.int64), nodes)
