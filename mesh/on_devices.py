"""Lay out a mesh on the devices that a framework lists, within and across slices."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from toruscast._mesh.devices import (
    Devices,
    default_devices,
    find_devices,
    has_device_dimension,
    split_chips,
)
from toruscast._mesh.traffic import RING_PASSES, MeshAxes, MeshTraffic, resolve_traffic
from toruscast.errors import InputError
from toruscast.mapping import Torus
from toruscast.mapping.machines import Machine, TorusLike, as_torus
from toruscast.mapping.strategies.orders import divisors
from toruscast.text import counted
from toruscast.typing import Ints

from .layouts import TIME_TOLERANCE, keeps_hosts_together
from .ranking import mesh

# The machine for each device kind of JAX.
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
# Takes the devices of a slice and the sizes of a mesh. Returns the framework's own mesh, as the
# index of the device at each coordinate, or None if the framework cannot make this mesh.
FrameworkLayout = Callable[[Sequence[Any], tuple[int, ...]], Ints | None]


@dataclass(frozen=True, eq=False)
class DeviceSlice:
    """The devices of one slice; each node of its torus is one device."""

    torus: Torus
    devices: Devices  # index of each device in the caller's list, and its node
    hosts: Ints  # host of each node, -1 without a device


def group_by_slice(
    devices: Sequence[Any],
    all_devices: Sequence[Any] | None = None,
    torus: TorusLike | None = None,
) -> list[DeviceSlice]:
    """Return the slices of a list of devices, sorted by slice number.

    If the list lacks some devices of a slice, ``all_devices`` must list all of them.
    """
    if not devices:
        raise InputError("no devices", expected="one or more")
    members: dict[Any, list[int]] = {}
    for i, device in enumerate(devices):
        members.setdefault(_attribute(device, "slice_index", 0), []).append(i)
    return [
        _build_slice(devices, members[number], number, all_devices, torus)
        for number in sorted(members, key=lambda number: (str(type(number)), number))
    ]


def lay_out_mesh(
    slices: Sequence[DeviceSlice],
    axes: MeshAxes,
    traffic: object = None,
    *,
    keep_hosts_together: bool = False,
    devices: Sequence[Any] = (),
    framework_layout: FrameworkLayout | None = None,
) -> Ints:
    """Return the fastest layout, as the index of the device at each mesh coordinate.

    Times are in closed form. If the mesh needs several slices, its axes are divided so that the
    fewest bytes pass between slices. Without traffic, the first divisible axis is divided.
    """
    if isinstance(traffic, Mapping | list | tuple) and not traffic:
        traffic = None
    axes, sends = resolve_traffic(traffic, axes)
    chosen, cuts = _choose_slices(slices, axes, () if traffic is None else sends)
    inner = MeshAxes(axes.names, tuple(n // c for n, c in zip(axes.sizes, cuts, strict=True)))
    inner_sends = tuple(sends if len(chosen) == 1 else _restrict_traffic(sends, axes, inner))
    # Here each axis has two dimensions: the slices along it, and the positions within a slice.
    mesh_ids = np.empty([n for pair in zip(cuts, inner.sizes, strict=True) for n in pair], np.int64)
    layouts: dict[Hashable, Ints] = {}  # equal slices get the same layout
    for coords, device_slice in zip(product(*map(range, cuts)), chosen, strict=True):
        hosts = device_slice.hosts if keep_hosts_together else None
        slice_devices = [devices[i] for i in device_slice.devices.ids] if framework_layout else []
        default = framework_layout and framework_layout(slice_devices, inner.sizes)
        arrays = (device_slice.devices.nodes, hosts, default)
        contents = [None if array is None else array.tobytes() for array in arrays]
        key = (device_slice.torus, *contents)
        if key not in layouts:
            layouts[key] = _lay_out_slice(device_slice, inner, inner_sends, hosts, default)
        index = tuple(part for cut in coords for part in (cut, slice(None)))
        mesh_ids[index] = device_slice.devices.ids[layouts[key]]
    return mesh_ids.reshape(axes.sizes)


def _attribute(device: Any, name: str, default: Any = None) -> Any:
    value = device.get(name) if isinstance(device, Mapping) else getattr(device, name, None)
    return default if value is None else value


def _read_coords(device: Any) -> list[int]:
    """Return the coordinates of a device and, as the last entry, its core."""
    coords = _attribute(device, "coords")
    try:
        numbers = [int(number) for number in coords]
    except (TypeError, ValueError):
        raise InputError(
            "device without coordinates",
            found=device,
            expected="coords such as (0, 1, 0), or a torus with its sizes, such as tpu_v5e:4x4",
        ) from None
    return [*numbers, int(_attribute(device, "core_on_chip", 0))]


def _build_slice(
    devices: Sequence[Any],
    indices: Sequence[int],
    number: object,
    all_devices: Sequence[Any] | None,
    torus: TorusLike | None,
) -> DeviceSlice:
    """Return the slice with this number, given the indices of its devices in the list."""
    # A single word is a machine. Its sizes follow from the coordinates.
    if torus is not None and not (isinstance(torus, str) and torus.strip().isidentifier()):
        torus = as_torus(torus)
    if isinstance(torus, Torus) and all(_attribute(devices[i], "coords") is None for i in indices):
        return _build_slice_by_ids(devices, indices, torus)
    rows = [_read_coords(devices[i]) for i in indices]
    slice_rows = rows
    if all_devices is not None:
        in_slice = (each for each in all_devices if _attribute(each, "slice_index", 0) == number)
        slice_rows = [_read_coords(each) for each in in_slice]
    if len({len(row) for row in (*rows, *slice_rows)}) > 1:
        raise InputError("devices of different dimensions", expected="equally many coordinates")
    if not isinstance(torus, Torus):
        torus = _infer_torus(torus or _find_machine(devices[indices[0]]), slice_rows)
        rows = (np.array(rows) - np.min(slice_rows, axis=0)).tolist()
    if not has_device_dimension(torus):
        if any(row[-1] for row in rows):
            torus = split_chips(torus, 0, 1 + max(row[-1] for row in slice_rows))
        else:
            rows = [row[:-1] for row in rows]
    if has_device_dimension(torus):
        # Two-dimensional slices list a third coordinate that is 0.
        rows = [[*row[: torus.ndim - 1], *row[-1:], *row[torus.ndim - 1 : -1]] for row in rows]
    return _add_hosts(torus, find_devices(torus, rows, indices), devices)


def _build_slice_by_ids(
    devices: Sequence[Any], indices: Sequence[int], torus: Torus
) -> DeviceSlice:
    """Return a whole slice whose devices have no coordinates and are numbered by id."""
    torus = split_chips(torus, len(indices))
    if len(indices) != torus.n_nodes:
        expected = f"coordinates, or the {torus.n_nodes} devices of {torus} (without TPUs: "
        expected += f"XLA_FLAGS=--xla_force_host_platform_device_count={torus.n_nodes})"
        found = counted(len(indices), "device")
        raise InputError("devices without coordinates", found=found, expected=expected)
    order = np.array(sorted(indices, key=lambda i: int(_attribute(devices[i], "id", i))))
    nodes, rank = default_devices(torus).nodes, np.argsort(order)
    return _add_hosts(torus, Devices(np.sort(order), nodes[rank]), devices)


def _add_hosts(torus: Torus, located: Devices, devices: Sequence[Any]) -> DeviceSlice:
    """Return the slice of devices with known nodes; its hosts are the processes of the devices."""
    hosts = np.full(torus.n_nodes, -1, dtype=np.int64)
    hosts[located.nodes] = [int(_attribute(devices[i], "process_index", 0)) for i in located.ids]
    return DeviceSlice(torus, located, hosts)


def _find_machine(device: Any) -> str:
    kind = str(_attribute(device, "device_kind", "") or _attribute(device, "kind", ""))
    if kind not in KINDS:
        expected = f"{' or '.join(KINDS)}; or torus=, such as torus='tpu_v4'"
        raise InputError("unknown device kind", found=kind or device, expected=expected)
    return KINDS[kind]


def _infer_torus(name: str, rows: Sequence[Sequence[int]]) -> Torus:
    """Infer the torus of a slice from its devices' coordinates; the last column is the core."""
    machine = Machine.from_name(name)
    *sizes, _ = (np.ptp(np.array(rows), axis=0) + 1).tolist()
    n_dims = max((d for d in machine.shapes.dimensions if d <= len(sizes)), default=len(sizes))
    return machine(tuple(sizes[:n_dims]))


def _choose_slices(
    slices: Sequence[DeviceSlice], axes: MeshAxes, sends: Sequence[MeshTraffic]
) -> tuple[Sequence[DeviceSlice], tuple[int, ...]]:
    """Return the fewest slices that can hold equal parts of the mesh, and the parts per axis."""
    for n in range(1, len(slices) + 1):
        share, remainder = divmod(axes.n_tasks, n)
        large = [each for each in slices if each.devices.nodes.size >= share]
        options = _list_slice_cuts(n, axes)
        if remainder == 0 and len(large) >= n and options:
            return large[:n], min(
                options, key=lambda cuts: sum(_count_bytes_between(t, axes, cuts) for t in sends)
            )
    found = " and ".join(str(each.devices.nodes.size) for each in slices)
    raise InputError(
        "mesh too large", found=f"{axes}: {axes.n_tasks}", expected=f"at most {found} devices"
    )


def _list_slice_cuts(n: int, axes: MeshAxes) -> list[tuple[int, ...]]:
    """Return the possible numbers of parts per axis for n slices, dividing the first axes first."""
    options = product(*([d for d in divisors(n) if size % d == 0] for size in axes.sizes))
    return sorted((cuts for cuts in options if math.prod(cuts) == n), reverse=True)


def _count_bytes_between(traffic: MeshTraffic, axes: MeshAxes, cuts: Sequence[int]) -> float:
    """Return the bytes that a device sends to other slices, after reductions in its own slice."""
    numbers = [axes.index(name) for name in traffic.axes]
    across = math.prod(cuts[i] for i in numbers)
    if across == 1:
        return 0.0
    inside = math.prod(axes.sizes[i] // cuts[i] for i in numbers)
    share = RING_PASSES.get(traffic.collective, inside) / inside
    return traffic.runs * traffic.nbytes * share * (1 - 1 / across)


def _restrict_traffic(
    sends: Sequence[MeshTraffic], axes: MeshAxes, inner: MeshAxes
) -> Iterator[MeshTraffic]:
    """Yield the traffic between the tasks of the first slice, whose mesh has the axes ``inner``."""
    inner_task = np.full(axes.sizes, -1, dtype=np.int64)
    inner_task[tuple(map(slice, inner.sizes))] = np.arange(inner.n_tasks).reshape(inner.sizes)
    for traffic in sends:
        if traffic.axes:
            yield traffic
            continue
        groups = [row[row >= 0] for row in inner_task.ravel()[traffic.list_groups(axes)]]
        # Groups may keep different numbers of members. A pair is dropped unless it keeps both.
        for n in sorted({len(group) for group in groups} - {0, 1}):
            table = np.array([group for group in groups if len(group) == n])
            is_groups = traffic.pairs is None
            yield replace(traffic, groups=table) if is_groups else replace(traffic, pairs=table)


def _lay_out_slice(
    device_slice: DeviceSlice,
    axes: MeshAxes,
    sends: tuple[MeshTraffic, ...],
    hosts: Ints | None,
    default: Ints | None,
) -> Ints:
    """Return the fastest layout, as each mesh coordinate's device, by its index in the slice.

    Return ``default``, the framework's own layout, unless another layout is faster.
    """
    if not sends:
        _, sends = resolve_traffic(None, axes)
    nodes = device_slice.devices.nodes
    answer = mesh(
        device_slice.torus,
        axes,
        sends,
        devices=device_slice.devices,
        compare=None if default is None else nodes[default],
        hosts=hosts,
        top=1,
        simulate=0,
    )
    if default is not None and answer.compared is not None:
        is_allowed = hosts is None or keeps_hosts_together(nodes[default], hosts)
        if is_allowed and answer.compared.time <= answer.best.time * (1 + TIME_TOLERANCE):
            return default
    return device_slice.devices.index_nodes(answer.best.nodes)
