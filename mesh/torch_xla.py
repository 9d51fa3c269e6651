"""Meshes for PyTorch/XLA, laid for what a step sends on the slice that runs it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping.machines import TorusLike

from .on_devices import lay, slices_of
from .traffic import MeshAxes


def mesh_ids(
    mesh_shape: Sequence[int],
    axis_names: Sequence[str],
    attributes: Sequence[Mapping[str, Any]] | None = None,
    *,
    torus: TorusLike,
    traffic: object = None,
) -> NDArray[np.int64]:
    """Return the ``device_ids`` of `torch_xla.distributed.spmd.Mesh` that are fastest for a step.

    Examples
    --------
    >>> chips = [{"name": f"TPU:{i}", "coords": [i % 2, i // 2, 0]} for i in range(4)]
    >>> mesh_ids((4,), ("x",), chips, torus="tpu_v5e").tolist()
    [0, 2, 3, 1]
    """
    if attributes is None:
        import torch_xla.runtime

        attributes = torch_xla.runtime.global_runtime_device_attributes()
    numbers = [_number(each, place) for place, each in enumerate(attributes)]
    axes = MeshAxes(axis_names, mesh_shape)  # type: ignore[arg-type]
    found = lay(slices_of(attributes, torus=torus), axes, traffic)
    return np.array(numbers, dtype=np.int64)[found.ravel()]


def _number(attributes: Mapping[str, Any], place: int) -> int:
    """The number of a device: in its name, or its place in the list."""
    named = re.search(r":(\d{1,9})$", str(attributes.get("name", "")))
    return int(named[1]) if named else place
