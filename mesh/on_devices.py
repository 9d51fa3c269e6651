"""Meshes of the devices that a framework lists: where each axis lies in their slices."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast._mesh.devices import (
    Devices,
    chips_as_devices,
    counts_devices,
    devices_at,
    usual_devices,
)
from toruscast._mesh.traffic import PARTS, MeshAxes, MeshTraffic, step_traffic
from toruscast.errors import InputError
from toruscast.mapping import Torus
from toruscast.mapping.machines import Machine, TorusLike, as_torus
from toruscast.mapping.strategies.orders import divisors
from toruscast.text import counted

from .layouts import ALIKE, is_together
from .ranking import mesh

# What JAX calls the kinds of its devices.
KINDS = {
    "TPU v2": "tpu_v2",
    "TPU v3": "tpu_v3",
    "TPU v4": "tpu_v4",
    "TPU v5": "tpu_v5p",
    "TPU v5p": "tpu_v5p",
    "TPU v5 lite": "tpu_v5e",
    "TPU v5e": "tpu_v5e",
    "TPU v6 lite": "tpu_v6e",
    "TPU v6e": "tpu_v6e",
    "TPU7x": "tpu7x",
    "TPU7": "tpu7x",
    "TPU v7x": "tpu7x",
}
# Positions in a list of devices, in mesh shape, that a framework would take itself; None if it
# cannot. It gets the devices of a slice and the sizes of the mesh in it.
Usual = Callable[[Sequence[Any], tuple[int, ...]], NDArray[np.int64] | None]


@dataclass(frozen=True, eq=False)
class Slice:
    """Devices of one slice; a node of its torus is a device."""

    torus: Torus
    devices: Devices  # positions in the list, and nodes
    hosts: NDArray[np.int64]  # of each node; -1 for one whose device is not there


def slices_of(
    devices: Sequence[Any], among: Sequence[Any] | None = None, torus: TorusLike | None = None
) -> list[Slice]:
    """Return the slices of listed devices, by the numbers of the slices."""
    if not devices:
        raise InputError("no devices", expected="one or more")
    numbers = [_attribute(device, "slice_index", 0) for device in devices]
    return [
        _as_slice(devices, [i for i, n in enumerate(numbers) if n == number], number, among, torus)
        for number in sorted({*numbers}, key=lambda n: (str(type(n)), n))
    ]


def lay(
    slices: Sequence[Slice],
    axes: MeshAxes,
    traffic: object = None,
    *,
    together: bool = False,
    devices: Sequence[Any] = (),
    usual: Usual | None = None,
) -> NDArray[np.int64]:
    """Return the position in the list of the device at each place of the fastest mesh.

    Times are in closed form. Several slices cut the axes so that they send each other least, or
    the first axis that can be cut if no traffic is given.
    """
    if isinstance(traffic, Mapping | list | tuple) and not traffic:
        traffic = None
    axes, sends = step_traffic(traffic, axes)
    chosen, cuts = _cut_between_slices(slices, axes, () if traffic is None else sends)
    inner = MeshAxes(axes.names, tuple(n // c for n, c in zip(axes.sizes, cuts, strict=True)))
    inside = tuple(sends if len(chosen) == 1 else _sent_within(sends, axes, inner))
    whole = np.empty([n for pair in zip(cuts, inner.sizes, strict=True) for n in pair], np.int64)
    known: dict[Hashable, NDArray[np.int64]] = {}
    for place, each in zip(product(*map(range, cuts)), chosen, strict=True):
        nodes, hosts = each.devices.nodes, each.hosts if together else None
        own = usual and usual([devices[i] for i in each.devices.ids], inner.sizes)
        arrays = (nodes, *(array for array in (hosts, own) if array is not None))
        key = (each.torus, *(array.tobytes() for array in arrays))
        if key not in known:
            known[key] = _in_slice(each, inner, inside, hosts, own)
        index = tuple(part for cut in place for part in (cut, slice(None)))
        whole[index] = each.devices.ids[known[key]]
    return whole.reshape(axes.sizes)


def _attribute(device: Any, name: str, default: Any = None) -> Any:
    found = device.get(name) if isinstance(device, Mapping) else getattr(device, name, None)
    return default if found is None else found


def _coords_of(device: Any) -> list[int]:
    coords = _attribute(device, "coords")
    try:
        found = [int(number) for number in coords]
    except (TypeError, ValueError):
        raise InputError(
            "device without coordinates",
            found=device,
            expected="coords such as (0, 1, 0), or a torus with its sizes, such as tpu_v5e:4x4",
        ) from None
    return [*found, int(_attribute(device, "core_on_chip", 0))]


def _as_slice(
    devices: Sequence[Any],
    own: Sequence[int],
    number: object,
    among: Sequence[Any] | None,
    torus: TorusLike | None,
) -> Slice:
    """Return one slice; ``own`` are the positions of its devices."""
    # A word alone is a machine, whose sizes are those of the devices.
    if torus is not None and not (isinstance(torus, str) and torus.strip().isidentifier()):
        torus = as_torus(torus)
    if isinstance(torus, Torus) and all(_attribute(devices[i], "coords") is None for i in own):
        return _as_counted(devices, own, torus)
    rows = [_coords_of(devices[i]) for i in own]
    every = rows
    if among is not None:
        every = [_coords_of(each) for each in among if _attribute(each, "slice_index", 0) == number]
    if len({len(row) for row in (*rows, *every)}) > 1:
        raise InputError("devices differ in their coordinates", expected="as many of each")
    if not isinstance(torus, Torus):
        torus = _torus_of(torus or _machine_name(devices[own[0]]), every)
        low = np.min(every, axis=0)
        rows = (np.array(rows) - low).tolist()
    if not counts_devices(torus):
        if any(row[-1] for row in rows):
            torus = chips_as_devices(torus, 0, 1 + max(row[-1] for row in every))
        else:
            rows = [row[:-1] for row in rows]
    if counts_devices(torus):
        # Two-dimensional slices list a third coordinate that is 0.
        rows = [[*row[: torus.ndim - 1], *row[-1:], *row[torus.ndim - 1 : -1]] for row in rows]
    return _with_hosts(torus, devices_at(torus, rows, own), devices)


def _as_counted(devices: Sequence[Any], own: Sequence[int], torus: Torus) -> Slice:
    """Return a slice whose devices have no coordinates: they are counted by their ids."""
    torus = chips_as_devices(torus, len(own))
    if len(own) != torus.n_nodes:
        expected = f"coordinates, or the {torus.n_nodes} devices of {torus} (without TPUs: "
        expected += f"XLA_FLAGS=--xla_force_host_platform_device_count={torus.n_nodes})"
        found = counted(len(own), "device")
        raise InputError("devices without coordinates", found=found, expected=expected)
    order = np.array(sorted(own, key=lambda i: int(_attribute(devices[i], "id", i))))
    nodes, rank = usual_devices(torus).nodes, np.argsort(order)
    return _with_hosts(torus, Devices(np.sort(order), nodes[rank]), devices)


def _with_hosts(torus: Torus, found: Devices, devices: Sequence[Any]) -> Slice:
    """Return a slice with the host of each node."""
    hosts = np.full(torus.n_nodes, -1, dtype=np.int64)
    hosts[found.nodes] = [int(_attribute(devices[i], "process_index", 0)) for i in found.ids]
    return Slice(torus, found, hosts)


def _machine_name(device: Any) -> str:
    kind = str(_attribute(device, "device_kind", "") or _attribute(device, "kind", ""))
    if kind not in KINDS:
        expected = f"{' or '.join(KINDS)}; or torus=, such as torus='tpu_v4'"
        raise InputError("device of an unknown kind", found=kind or device, expected=expected)
    return KINDS[kind]


def _torus_of(name: str, rows: Sequence[Sequence[int]]) -> Torus:
    """Return the slice of a machine whose devices have these coordinates and cores."""
    machine = Machine.from_name(name)
    size = np.ptp(np.array(rows), axis=0) + 1
    known = machine.shapes.dimensions
    n_dims = max((d for d in known if d <= len(size) - 1), default=len(size) - 1)
    return machine(tuple(int(each) for each in size[:n_dims]))


def _cut_between_slices(
    slices: Sequence[Slice], axes: MeshAxes, sends: Sequence[MeshTraffic]
) -> tuple[Sequence[Slice], tuple[int, ...]]:
    """As few slices as hold the mesh, the same share in each, and how many each axis spans."""
    for n in range(1, len(slices) + 1):
        share, rest = divmod(axes.n_tasks, n)
        able = [each for each in slices if each.devices.nodes.size >= share]
        ways = _slice_cuts(n, axes)
        if rest == 0 and len(able) >= n and ways:
            cuts = min(ways, key=lambda way: sum(_bytes_between(t, axes, way) for t in sends))
            return able[:n], cuts
    found = " and ".join(str(each.devices.nodes.size) for each in slices)
    raise InputError(
        "mesh too large", found=f"{axes}: {axes.n_tasks}", expected=f"at most {found} devices"
    )


def _slice_cuts(n: int, axes: MeshAxes) -> list[tuple[int, ...]]:
    """Every way to cut axes between n slices, the outermost first."""
    ways = product(*([d for d in divisors(n) if size % d == 0] for size in axes.sizes))
    return sorted((way for way in ways if math.prod(way) == n), reverse=True)


def _bytes_between(traffic: MeshTraffic, axes: MeshAxes, cuts: Sequence[int]) -> float:
    """Bytes that a device sends to other slices, after the reductions in its own slice."""
    numbers = [axes.number(name) for name in traffic.axes]
    across = math.prod(cuts[i] for i in numbers)
    if across == 1:
        return 0.0
    inside = math.prod(axes.sizes[i] // cuts[i] for i in numbers)
    share = PARTS.get(traffic.collective, inside) / inside
    return traffic.times * traffic.nbytes * share * (1 - 1 / across)


def _sent_within(
    sends: Sequence[MeshTraffic], axes: MeshAxes, inner: MeshAxes
) -> Iterator[MeshTraffic]:
    """Give what is sent within a slice: groups without those of other slices."""
    place = np.full(axes.sizes, -1, dtype=np.int64)
    place[tuple(map(slice, inner.sizes))] = np.arange(inner.n_tasks).reshape(inner.sizes)
    for each in sends:
        if each.axes:
            yield each
            continue
        rows = place.ravel()[each.group_table(axes)]
        kept = [row[row >= 0] for row in rows]
        if each.pairs is not None:
            kept = [row for row in kept if len(row) == 2]
            if kept:
                yield replace(each, pairs=np.array(kept))
            continue
        for n in sorted({len(row) for row in kept} - {0, 1}):
            yield replace(each, groups=np.array([row for row in kept if len(row) == n]))


def _in_slice(
    own: Slice,
    axes: MeshAxes,
    sends: tuple[MeshTraffic, ...],
    hosts: NDArray[np.int64] | None,
    usual: NDArray[np.int64] | None,
) -> NDArray[np.int64]:
    """Return the position in the slice's list of the device at each place of the mesh."""
    if not sends:
        _, sends = step_traffic(None, axes)
    nodes = own.devices.nodes
    answer = mesh(
        own.torus,
        axes,
        sends,
        devices=own.devices,
        compare=None if usual is None else nodes[usual],
        hosts=hosts,
        top=1,
        simulate=0,
    )
    if usual is not None and answer.compared is not None:
        may = hosts is None or is_together(nodes[usual], hosts)
        if may and answer.compared.time <= answer.best.time * (1 + ALIKE):
            return usual
    return own.devices.places(answer.best.nodes)
