"""JAX meshes with a layout that is fast for the traffic of a step."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from toruscast._slow import jax, mesh_utils
from toruscast.errors import InputError, InputWarning
from toruscast.mapping.machines import TorusLike
from toruscast.mapping.omissions import describe_omissions
from toruscast.typing import Ints

from ._mesh.hlo import parse_hlo
from ._mesh.on_devices import group_by_slice, lay_out_mesh
from ._mesh.traffic import MeshAxes, resolve_traffic


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
    """Return a mesh of devices like `jax.make_mesh`, with the fastest layout for the traffic.

    The result is the mesh of `jax.make_mesh` unless link loads show a faster one. Several slices
    form one mesh, with one axis divided between them. The result depends only on the arguments, so
    every process gets the same mesh.

    Parameters
    ----------
    axis_shapes, axis_names, axis_types
        As in `jax.make_mesh`.
    devices : sequence of jax.Device, optional
        ``jax.devices()`` by default. Chips may be missing.
    traffic : optional
        The collectives of a step: a mapping such as ``{"model": 64e6, "data": "allgather:1GB"}``, a
        function lowered or compiled for a mesh of these shapes, or any traffic that `mesh` accepts.
        Sizes in a mapping are bytes of whole buffers; a size alone means a ring allreduce. By
        default, every axis all-reduces the same number of bytes on a ring.
    torus : Torus, str or sequence of int, optional
        The slice, such as ``"tpu_v4:4x4x8"``, if the devices do not identify it. Devices without
        coordinates, such as the processors of a dry run, are then numbered by id.
    contiguous_submeshes : bool
        Whether the devices of each process must form a box of the mesh.

    Warns
    -----
    InputWarning
        If the devices have no coordinates or are of an unknown kind (the result is then JAX's own
        mesh), or if a compiled function has traffic that is not counted.
    """
    devices = list(jax.devices() if devices is None else devices)
    axes = MeshAxes(axis_names, axis_shapes)  # type: ignore[arg-type]
    names = axes.names
    traffic = _parse_program(traffic)
    if traffic:
        # Report a mistyped axis even if the mesh will be JAX's own.
        resolve_traffic(traffic, axes)
    try:
        slices = group_by_slice(devices, _list_slice_devices(devices), torus)
    except InputError as error:
        if torus is not None or not devices:
            raise
        warnings.warn(f"{error}: the mesh is JAX's own", InputWarning, stacklevel=2)
        return jax.make_mesh(axes.sizes, names, axis_types, devices=devices)
    indices = lay_out_mesh(
        slices,
        axes,
        traffic,
        keep_hosts_together=contiguous_submeshes,
        devices=devices,
        framework_layout=_lay_out_with_jax,
    )
    ordered = np.empty(indices.shape, dtype=object)
    ordered.ravel()[:] = [devices[i] for i in indices.ravel().tolist()]
    if axis_types is None:
        # The default axis types differ between versions of JAX.
        one = jax.make_mesh((1,) * len(names), names, devices=devices[:1])
        axis_types = one.axis_types
    return jax.sharding.Mesh(ordered, names, axis_types=axis_types)


def _list_slice_devices(devices: Sequence[Any]) -> Sequence[Any]:
    """Return all devices of the slice, if the client lists them."""
    client: Any = getattr(devices[0], "client", None) if devices else None
    return client.devices() if hasattr(client, "devices") else devices


def _parse_program(traffic: object) -> object:
    """Return the collectives of a lowered or compiled function; other traffic is unchanged."""
    if hasattr(traffic, "compile"):
        traffic = traffic.compile()
    if not hasattr(traffic, "as_text"):
        return traffic
    step = parse_hlo(traffic.as_text())
    if step.omitted:
        warnings.warn(describe_omissions(step.omitted), InputWarning, stacklevel=3)
    return step


# Errors that `jax.make_mesh` raises if it finds no layout: the first on purpose; the others escape
# from its search on unexpected slices, such as parts of a slice.
_NO_LAYOUT = (NotImplementedError, ValueError, AssertionError, KeyError)


def _lay_out_with_jax(devices: Sequence[Any], sizes: tuple[int, ...]) -> Ints | None:
    """Return the device indices of JAX's own mesh, of shape ``sizes``; None without a layout."""
    names = tuple(f"m{i}" for i in range(len(sizes)))
    used = devices[: int(np.prod(sizes))]
    index = {id(device): i for i, device in enumerate(devices)}
    makers: tuple[Callable[[], Any], ...] = (
        lambda: jax.make_mesh(sizes, names, devices=used).devices,
        # This one may split a dimension of the torus between axes.
        lambda: mesh_utils.create_device_mesh(sizes, used, allow_split_physical_axes=True),
    )
    for make in makers:
        try:
            mesh = make()
        except _NO_LAYOUT:
            continue
        return np.array([index[id(each)] for each in mesh.ravel()]).reshape(sizes)
    return None
