"""PyTorch/XLA meshes with a layout that is fast for the traffic of a step."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from toruscast.mapping.machines import TorusLike
from toruscast.typing import Ints

from ._mesh.on_devices import group_by_slice, lay_out_mesh
from ._mesh.traffic import MeshAxes


def mesh_ids(
    mesh_shape: Sequence[int],
    axis_names: Sequence[str],
    attributes: Sequence[Mapping[str, Any]] | None = None,
    *,
    torus: TorusLike,
    traffic: object = None,
) -> Ints:
    """Return ``device_ids`` for `torch_xla.distributed.spmd.Mesh` with the fastest layout.

    Examples
    --------
    >>> chips = [{"name": f"TPU:{i}", "coords": [i % 2, i // 2, 0]} for i in range(4)]
    >>> mesh_ids((4,), ("x",), chips, torus="tpu_v5e").tolist()
    [0, 2, 3, 1]
    """
    if attributes is None:
        import torch_xla.runtime

        attributes = torch_xla.runtime.global_runtime_device_attributes()
    numbers = [_find_number(each, i) for i, each in enumerate(attributes)]
    axes = MeshAxes(axis_names, mesh_shape)  # type: ignore[arg-type]
    indices = lay_out_mesh(group_by_slice(attributes, torus=torus), axes, traffic)
    return np.array(numbers, dtype=np.int64)[indices.ravel()]


def _find_number(attributes: Mapping[str, Any], index: int) -> int:
    """Return the number at the end of a device's name, such as "TPU:3", or else its index."""
    named = re.search(r":(\d{1,9})$", str(attributes.get("name", "")))
    return int(named[1]) if named else index
