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
# A function of the devices of a slice and the sizes of the mesh in it. It returns the indices of
# the devices in the framework's own mesh, or None if the framework has no layout.
FrameworkLayout = Callable[[Sequence[Any], tuple[int, ...]], Ints | None]


@dataclass(frozen=True, eq=False)
class DeviceSlice:
    """The devices of one slice; a node of its torus is a device."""

    torus: Torus
    devices: Devices  # indices in the list, and nodes
    hosts: Ints  # of each node; -1 without a device


def group_by_slice(
    devices: Sequence[Any],
    all_devices: Sequence[Any] | None = None,
    torus: TorusLike | None = None,
) -> list[DeviceSlice]:
    """Return the slices of listed devices, sorted by slice number.

    ``all_devices`` are those of the whole slices, if the list lacks some.
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
    """Return the index of the device at each mesh coordinate of the fastest layout.

    Times are in closed form. Several slices cut the axes so that the fewest bytes cross slices.
    Without traffic they cut the first possible axis.
    """
    if isinstance(traffic, Mapping | list | tuple) and not traffic:
        traffic = None
    axes, sends = resolve_traffic(traffic, axes)
    chosen, cuts = _choose_slices(slices, axes, () if traffic is None else sends)
    inner = MeshAxes(axes.names, tuple(n // c for n, c in zip(axes.sizes, cuts, strict=True)))
    inside = tuple(sends if len(chosen) == 1 else _restrict_traffic(sends, axes, inner))
    whole = np.empty([n for pair in zip(cuts, inner.sizes, strict=True) for n in pair], np.int64)
    known: dict[Hashable, Ints] = {}
    for coords, each in zip(product(*map(range, cuts)), chosen, strict=True):
        hosts = each.hosts if keep_hosts_together else None
        own_devices = [devices[i] for i in each.devices.ids] if framework_layout else []
        default = framework_layout and framework_layout(own_devices, inner.sizes)
        arrays = (each.devices.nodes, hosts, default)
        key = (each.torus, *(None if array is None else array.tobytes() for array in arrays))
        if key not in known:
            known[key] = _lay_out_slice(each, inner, inside, hosts, default)
        index = tuple(part for cut in coords for part in (cut, slice(None)))
        whole[index] = each.devices.ids[known[key]]
    return whole.reshape(axes.sizes)


def _attribute(device: Any, name: str, default: Any = None) -> Any:
    found = device.get(name) if isinstance(device, Mapping) else getattr(device, name, None)
    return default if found is None else found


def _read_coords(device: Any) -> list[int]:
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


def _build_slice(
    devices: Sequence[Any],
    own: Sequence[int],
    number: object,
    all_devices: Sequence[Any] | None,
    torus: TorusLike | None,
) -> DeviceSlice:
    """Return the slice of the devices with indices ``own``."""
    # A single word is a machine. Its sizes follow from the coordinates.
    if torus is not None and not (isinstance(torus, str) and torus.strip().isidentifier()):
        torus = as_torus(torus)
    if isinstance(torus, Torus) and all(_attribute(devices[i], "coords") is None for i in own):
        return _build_slice_by_ids(devices, own, torus)
    rows = [_read_coords(devices[i]) for i in own]
    whole = rows
    if all_devices is not None:
        in_slice = (each for each in all_devices if _attribute(each, "slice_index", 0) == number)
        whole = [_read_coords(each) for each in in_slice]
    if len({len(row) for row in (*rows, *whole)}) > 1:
        raise InputError("devices of different dimensions", expected="equally many coordinates")
    if not isinstance(torus, Torus):
        torus = _infer_torus(torus or _find_machine(devices[own[0]]), whole)
        rows = (np.array(rows) - np.min(whole, axis=0)).tolist()
    if not has_device_dimension(torus):
        if any(row[-1] for row in rows):
            torus = split_chips(torus, 0, 1 + max(row[-1] for row in whole))
        else:
            rows = [row[:-1] for row in rows]
    if has_device_dimension(torus):
        # Two-dimensional slices list a third coordinate that is 0.
        rows = [[*row[: torus.ndim - 1], *row[-1:], *row[torus.ndim - 1 : -1]] for row in rows]
    return _add_hosts(torus, find_devices(torus, rows, own), devices)


def _build_slice_by_ids(devices: Sequence[Any], own: Sequence[int], torus: Torus) -> DeviceSlice:
    torus = split_chips(torus, len(own))
    if len(own) != torus.n_nodes:
        expected = f"coordinates, or the {torus.n_nodes} devices of {torus} (without TPUs: "
        expected += f"XLA_FLAGS=--xla_force_host_platform_device_count={torus.n_nodes})"
        found = counted(len(own), "device")
        raise InputError("devices without coordinates", found=found, expected=expected)
    order = np.array(sorted(own, key=lambda i: int(_attribute(devices[i], "id", i))))
    nodes, rank = default_devices(torus).nodes, np.argsort(order)
    return _add_hosts(torus, Devices(np.sort(order), nodes[rank]), devices)


def _add_hosts(torus: Torus, found: Devices, devices: Sequence[Any]) -> DeviceSlice:
    hosts = np.full(torus.n_nodes, -1, dtype=np.int64)
    hosts[found.nodes] = [int(_attribute(devices[i], "process_index", 0)) for i in found.ids]
    return DeviceSlice(torus, found, hosts)


def _find_machine(device: Any) -> str:
    kind = str(_attribute(device, "device_kind", "") or _attribute(device, "kind", ""))
    if kind not in KINDS:
        expected = f"{' or '.join(KINDS)}; or torus=, such as torus='tpu_v4'"
        raise InputError("unknown device kind", found=kind or device, expected=expected)
    return KINDS[kind]


def _infer_torus(name: str, rows: Sequence[Sequence[int]]) -> Torus:
    """Return the slice of a machine with devices at these coordinates, the last one the core."""
    machine = Machine.from_name(name)
    size = np.ptp(np.array(rows), axis=0) + 1
    known = machine.shapes.dimensions
    n_dims = max((d for d in known if d <= len(size) - 1), default=len(size) - 1)
    return machine(tuple(int(each) for each in size[:n_dims]))


def _choose_slices(
    slices: Sequence[DeviceSlice], axes: MeshAxes, sends: Sequence[MeshTraffic]
) -> tuple[Sequence[DeviceSlice], tuple[int, ...]]:
    """Return the fewest slices that hold equal parts of the mesh, and the cuts of each axis."""
    for n in range(1, len(slices) + 1):
        share, rest = divmod(axes.n_tasks, n)
        large = [each for each in slices if each.devices.nodes.size >= share]
        options = _list_slice_cuts(n, axes)
        if rest == 0 and len(large) >= n and options:
            return large[:n], min(
                options, key=lambda cuts: sum(_count_bytes_between(t, axes, cuts) for t in sends)
            )
    found = " and ".join(str(each.devices.nodes.size) for each in slices)
    raise InputError(
        "mesh too large", found=f"{axes}: {axes.n_tasks}", expected=f"at most {found} devices"
    )


def _list_slice_cuts(n: int, axes: MeshAxes) -> list[tuple[int, ...]]:
    """Return every way to cut axes between n slices, cuts of the first axis first."""
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
    number = np.full(axes.sizes, -1, dtype=np.int64)
    number[tuple(map(slice, inner.sizes))] = np.arange(inner.n_tasks).reshape(inner.sizes)
    for each in sends:
        if each.axes:
            yield each
            continue
        rows = number.ravel()[each.list_groups(axes)]
        kept = [row[row >= 0] for row in rows]
        if each.pairs is not None:
            kept = [row for row in kept if len(row) == 2]
            if kept:
                yield replace(each, pairs=np.array(kept))
            continue
        for n in sorted({len(row) for row in kept} - {0, 1}):
            yield replace(each, groups=np.array([row for row in kept if len(row) == n]))


def _lay_out_slice(
    own: DeviceSlice,
    axes: MeshAxes,
    sends: tuple[MeshTraffic, ...],
    hosts: Ints | None,
    default: Ints | None,
) -> Ints:
    """Return the index in the slice of the device at each mesh coordinate.

    ``default`` is the framework's own layout, which is kept unless another is faster.
    """
    if not sends:
        _, sends = resolve_traffic(None, axes)
    nodes = own.devices.nodes
    answer = mesh(
        own.torus,
        axes,
        sends,
        devices=own.devices,
        compare=None if default is None else nodes[default],
        hosts=hosts,
        top=1,
        simulate=0,
    )
    if default is not None and answer.compared is not None:
        is_allowed = hosts is None or keeps_hosts_together(nodes[default], hosts)
        if is_allowed and answer.compared.time <= answer.best.time * (1 + TIME_TOLERANCE):
            return default
    return own.devices.index_nodes(answer.best.nodes)
