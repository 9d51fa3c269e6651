"""Meshes for JAX, laid for what a step sends on the slice that runs it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast._slow import jax, mesh_utils
from toruscast.errors import InputError, InputWarning
from toruscast.mapping.machines import TorusLike
from toruscast.mapping.omissions import describe_omissions

from .hlo import parse_hlo
from .on_devices import lay, slices_of
from .traffic import MeshAxes, step_traffic


def make_mesh(
    axis_shapes: Sequence[int],
    axis_names: Sequence[str] | str,
    axis_types: tuple[Any, ...] | None = None,
    *,
    devices: Sequence[Any] | None = None,
    traffic: object = None,
    torus: TorusLike | None = None,
    contiguous_submeshes: bool = False,
) -> jax.sharding.Mesh:
    """Return a mesh of devices, as `jax.make_mesh` does, whose axes lie where a step is fastest.

    The mesh is that of `jax.make_mesh` unless another is faster for the traffic, by the busiest
    links. Several slices are one mesh: an axis is cut between them. The choice depends on the
    arguments alone, so that every process makes the same mesh.

    Parameters
    ----------
    axis_shapes, axis_names, axis_types
        As of `jax.make_mesh`.
    devices : sequence of jax.Device, optional
        ``jax.devices()`` if not given; chips may be missing.
    traffic : optional
        What a step sends: a mapping of axes such as ``{"model": 64e6, "data": "allgather:1GB"}``
        (bytes of whole buffers; bytes alone are all-reduced round a ring), a function that was
        lowered or compiled for a mesh of these shapes, or what `mesh` takes. If not given,
        every axis all-reduces as many bytes round a ring.
    torus : Torus, str or sequence of int, optional
        The slice, such as ``"tpu_v4:4x4x8"``, where the devices do not name it. As many devices
        without coordinates, such as processors of a dry run, are counted by their ids.
    contiguous_submeshes : bool
        Whether the devices of each process form a box of the mesh, where the launcher wants that.

    Warns
    -----
    InputWarning
        If the devices have no coordinates or are of an unknown kind: the mesh is JAX's own then.
        If a compiled function has traffic that is not counted.
    """
    devices = list(jax.devices() if devices is None else devices)
    axes = MeshAxes(axis_names, axis_shapes)  # type: ignore[arg-type]
    names = axes.names
    traffic = _read(traffic)
    if traffic:
        # A mistyped axis is a fault also where the mesh is JAX's own.
        step_traffic(traffic, axes)
    try:
        slices = slices_of(devices, _all_of(devices), torus)
    except InputError as error:
        if torus is not None or not devices:
            raise
        warnings.warn(f"{error}: the mesh is JAX's own", InputWarning, stacklevel=2)
        return jax.make_mesh(axes.sizes, names, axis_types, devices=devices)
    found = lay(
        slices,
        axes,
        traffic,
        together=contiguous_submeshes,
        devices=devices,
        usual=_of_jax,
    )
    ordered = np.empty(found.shape, dtype=object)
    ordered.ravel()[:] = [devices[i] for i in found.ravel().tolist()]
    if axis_types is None:
        # JAX's default axis types differ between its versions.
        one = jax.make_mesh((1,) * len(names), names, devices=devices[:1])
        axis_types = one.axis_types
    return jax.sharding.Mesh(ordered, names, axis_types=axis_types)


def _all_of(devices: Sequence[Any]) -> Sequence[Any]:
    """All devices of the slices, including those that were not asked for."""
    client: Any = getattr(devices[0], "client", None) if devices else None
    return client.devices() if hasattr(client, "devices") else devices


def _read(traffic: object) -> object:
    """Read what was lowered or compiled."""
    if hasattr(traffic, "compile"):
        traffic = traffic.compile()
    if not hasattr(traffic, "as_text"):
        return traffic
    step = parse_hlo(traffic.as_text())
    if step.omitted:
        warnings.warn(describe_omissions(step.omitted), InputWarning, stacklevel=3)
    return step


# What `jax.make_mesh` raises where it has no layout: the first on purpose; the others come out of
# its search on slices that it was not written for, such as parts of a slice.
_NO_LAYOUT = (NotImplementedError, ValueError, AssertionError, KeyError)


def _of_jax(devices: Sequence[Any], sizes: tuple[int, ...]) -> NDArray[np.int64] | None:
    """Positions of the devices that JAX would take itself; None if it cannot."""
    names = tuple(f"m{i}" for i in range(len(sizes)))
    own = devices[: int(np.prod(sizes))]
    place = {id(device): position for position, device in enumerate(devices)}
    makers: tuple[Callable[[], Any], ...] = (
        lambda: jax.make_mesh(sizes, names, devices=own).devices,
        # An axis may also take a part of a dimension of the torus.
        lambda: mesh_utils.create_device_mesh(sizes, own, allow_split_physical_axes=True),
    )
    for make in makers:
        try:
            mesh = make()
        except _NO_LAYOUT:
            continue
        return np.array([place[id(each)] for each in mesh.ravel()]).reshape(sizes)
    return None
