"""Compare layouts of meshes with JAX's own; writes meshes.csv.

    python benchmarks/meshes.py --out FOLDER

For each slice, mesh and kind of traffic, the table has the time of the layout of
`jax.experimental.mesh_utils`, of our layout, of the devices in order and, for at most eight
devices, of the best of all orders. The devices are fakes, of which JAX reads the coordinates and
the kind. All times are computed in closed form from link loads. JAX must be installed.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import toruscast as tc
from toruscast._mesh import step_time
from toruscast._mesh.devices import default_devices
from toruscast._mesh.traffic import MeshAxes, MeshTraffic

KINDS = {
    "tpu_v4": "TPU v4",
    "tpu_v5p": "TPU v5p",
    "tpu_v5e": "TPU v5 lite",
    "tpu_v6e": "TPU v6 lite",
    "tpu7x": "TPU7x",
}
SLICES: dict[str, list[tuple[int, ...]]] = {
    "tpu_v4:2x2x1": [(4,), (2, 2)],
    "tpu_v4:2x2x2": [(8,), (2, 4), (4, 2), (2, 2, 2)],
    "tpu_v4:2x2x4": [(16,), (4, 4), (2, 8), (8, 2), (2, 2, 4)],
    "tpu_v4:4x4x4": [(64,), (16, 4), (4, 16), (8, 8), (4, 4, 4), (2, 4, 8)],
    "tpu_v4:4x4x8": [(128,), (8, 16), (16, 8), (8, 4, 4), (32, 4), (2, 64)],
    "tpu_v5p:2x2x2": [(8,), (2, 4)],
    "tpu_v5p:4x8x8": [(64, 4), (4, 64), (8, 32), (4, 8, 8), (16, 16)],
    "tpu_v5p:8x8x8": [(64, 8), (8, 64), (8, 8, 8), (32, 16)],
    "tpu_v5e:2x2": [(4,), (2, 2)],
    "tpu_v5e:2x4": [(8,), (2, 4), (4, 2)],
    "tpu_v5e:4x4": [(16,), (4, 4), (2, 8)],
    "tpu_v5e:4x8": [(32,), (8, 4), (4, 8), (2, 16)],
    "tpu_v5e:8x8": [(64,), (8, 8), (16, 4), (4, 16)],
    "tpu_v6e:8x16": [(128,), (16, 8), (8, 16), (32, 4)],
    "tpu_v6e:16x16": [(256,), (64, 4), (16, 16), (32, 8), (4, 64)],
    "tpu7x:2x2x1": [(8,), (2, 4), (4, 2)],
    "tpu7x:2x2x2": [(16,), (4, 4), (2, 8)],
    "tpu7x:2x2x4": [(32,), (8, 4)],
    "tpu7x:4x4x4": [(128,), (16, 8), (8, 16)],
}
# Meshes over two slices: sizes within a slice, and between slices.
HYBRIDS = {"tpu_v4:2x2x4": (4, 4), "tpu_v5e:4x8": (8, 4), "tpu_v6e:16x16": (64, 4)}
MOST_DEVICES = 8


@dataclass(frozen=True)
class Device:
    """The attributes of a device that JAX reads."""

    id: int
    coords: tuple[int, ...]
    core_on_chip: int
    device_kind: str
    slice_index: int = 0
    process_index: int = 0
    platform: str = "tpu"


def devices(torus: tc.Torus, slice_index: int = 0) -> list[Device]:
    """Return the devices of a slice."""
    found = []
    for number, node in enumerate(default_devices(torus).nodes):
        place = tuple(torus.coords[node].tolist())
        core = place[3] if len(place) == 4 else 0
        kind = KINDS[torus.name]
        found.append(Device(number, (*place, 0)[:3], core, kind, slice_index))
    return found


def jax_mesh(torus: tc.Torus, shape: tuple[int, ...], *, hybrid: bool) -> NDArray[np.int64]:
    """Return the node at each coordinate of JAX's mesh, or of its part in the first slice."""
    from jax.experimental import mesh_utils

    if hybrid:
        outer = (2, *(1 for _ in shape[1:]))
        both = devices(torus, 0) + devices(torus, 1)
        mesh = mesh_utils.create_hybrid_device_mesh(
            shape, outer, both, allow_split_physical_axes=True
        )[: shape[0]]
    else:
        mesh = mesh_utils.create_device_mesh(shape, devices(torus), allow_split_physical_axes=True)
    ids = np.array([device.id for device in mesh.ravel()]).reshape(shape)
    return default_devices(torus).nodes[ids]


def steps(names: tuple[str, ...]) -> Iterator[tuple[str, list[MeshTraffic]]]:
    """Yield kinds of steps: sharded training, ring exchanges, one-way and two-way rings."""
    kinds = ("allreduce", "allgather", "allreduce")[-len(names) :]
    sizes = (256e6, 128e6, 64e6)[-len(names) :]
    rows = zip(kinds, sizes, names, strict=True)
    yield "training", [MeshTraffic(kind, size, (name,)) for kind, size, name in rows]
    yield "exchange", [MeshTraffic("exchange", 4e6, (name,)) for name in names]
    for algorithm in ("two-way-ring", "ring"):
        yield (
            algorithm,
            [MeshTraffic("allreduce", 64e6, (name,), algorithm=algorithm) for name in names],
        )


def all_orders(shape: tuple[int, ...]) -> Iterator[NDArray[np.int64]]:
    """Yield the orders of the devices that differ by more than a rotated or mirrored axis."""
    places = np.arange(math.prod(shape)).reshape(shape)
    alike = []
    for moves in product(*(product(range(size), (False, True)) for size in shape)):
        turned = places
        for axis, (by, mirrored) in enumerate(moves):
            turned = np.roll(turned, by, axis)
            turned = np.flip(turned, axis) if mirrored else turned
        alike.append(turned.ravel())
    alike = np.unique(alike, axis=0)
    for rest in permutations(range(1, places.size)):
        order = np.array((0, *rest))
        others = order[alike]
        others = others[others[:, 0] == 0]
        if order.tolist() == min(others.tolist()):
            yield order.reshape(shape)


def row(text: str, shape: tuple[int, ...], *, hybrid: bool = False) -> Iterator[dict[str, Any]]:
    """Compare the layouts of a mesh for all kinds of steps."""
    torus = tc.torus(text)
    axes = MeshAxes(("x", "y", "z")[: len(shape)], shape)
    theirs = jax_mesh(torus, shape, hybrid=hybrid)
    for name, traffic in steps(axes.names):
        begin = time.perf_counter()
        answer = tc.mesh(torus, axes, traffic, compare=theirs, simulate=0)
        seconds = time.perf_counter() - begin
        in_order = default_devices(torus).nodes.reshape(shape)
        best = math.nan
        if torus.n_nodes <= MOST_DEVICES:
            asked = (torus, axes, traffic)
            best = min(step_time(order, *asked) for order in all_orders(shape))
        assert answer.compared is not None
        yield {
            "slice": text,
            "mesh": "x".join(map(str, shape)) + (" in each of 2" if hybrid else ""),
            "step": name,
            "jax_us": 1e6 * answer.compared.time,
            "ours_us": 1e6 * answer.best.time,
            "in_order_us": 1e6 * step_time(in_order, torus, axes, traffic),
            "all_orders_us": 1e6 * best,
            "jax_over_ours": answer.compared.time / answer.best.time,
            "ours_over_best": answer.best.time / best,
            "seconds": seconds,
            "layout": answer.best.description,
        }


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    asked = [(text, shape, False) for text, shapes in SLICES.items() for shape in shapes]
    asked += [(text, shape, True) for text, shape in HYBRIDS.items()]
    rows = []
    for text, shape, hybrid in asked:
        rows += row(text, shape, hybrid=hybrid)
        print(text, shape, f"JAX {rows[-3]['jax_us']:.1f}, ours {rows[-3]['ours_us']:.1f} us")
    table = pd.DataFrame(rows)
    table.to_csv(folder / "meshes.csv", index=False, float_format="%.6g")
    print(f"{len(asked)} meshes, {len(table)} rows; JAX over ours: ", end="")
    print(table["jax_over_ours"].describe().to_dict())


if __name__ == "__main__":
    main()
