"""Compare `toruscast.jax.make_mesh` with `jax.make_mesh` by simulation; writes make_mesh.csv.

    python benchmarks/make_mesh.py --out FOLDER [--slices SLICE ...]

For each slice, mesh and kind of traffic, the table has the time of a step on both meshes, by
simulated packets and by flows. If `jax.make_mesh` refuses a mesh,
`jax.experimental.mesh_utils.create_device_mesh(..., allow_split_physical_axes=True)` makes it. The
devices are fakes. JAX must be installed. Existing rows are kept.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import meshes
import numpy as np
import pandas as pd
from numpy.typing import NDArray

import toruscast as tc
import toruscast.jax
from toruscast._mesh import step_times
from toruscast._mesh.devices import default_devices
from toruscast._mesh.step_times import (
    CollectiveGroups,
    MeshProblem,
    score_collective,
    simulate_collective,
)
from toruscast._mesh.traffic import ALGORITHMS, MeshAxes, MeshTraffic

MORE: dict[str, list[tuple[int, ...]]] = {
    "tpu_v4:2x4x4": [(32,), (8, 4), (2, 16), (4, 2, 4)],
    "tpu_v5p:4x4x4": [(64,), (16, 4), (4, 4, 4), (2, 32)],
    "tpu_v6e:2x4": [(8,), (4, 2), (2, 4)],
    "tpu_v6e:4x8": [(32,), (8, 4), (2, 16), (4, 8)],
    "tpu7x:2x4x4": [(64,), (16, 4), (2, 32), (8, 8), (4, 4, 4)],
}
SLICES = {**meshes.SLICES, **MORE}
NAMES = ("x", "y", "z")
STEPS = ("two-way-ring", "training", "exchange")
# Rings of 256 devices have more messages than a ranking simulates.
step_times.MAX_MESSAGES = 600_000


def messages(
    traffic: MeshTraffic, groups: CollectiveGroups, algorithm: str
) -> tc.MappingProblem | None:
    """Return the messages of a collective, with task i on node i; None if there are too many."""
    if algorithm not in ALGORITHMS:
        return step_times.build_single_round(traffic, groups)
    phases = step_times.list_rounds(traffic, groups, algorithm)
    if sum(times * phase.n_edges for times, phase in phases) > step_times.MAX_MESSAGES:
        return None
    rounds = tc.Workload([phase for times, phase in phases for _ in range(times)], dependent=True)
    return tc.MappingProblem(rounds, groups.torus)


def times(nodes: NDArray[np.int64], problem: MeshProblem) -> dict[str, float]:
    """Return the seconds of a step by packets and by flows; NaN if it has too many messages."""
    found = {"packets": 0.0, "flows": 0.0}
    mapping = tc.TaskMapping(np.arange(problem.torus.n_nodes), problem.torus)
    for traffic in problem.traffic:
        groups = problem.groups(traffic, nodes)
        if groups.n == 1:
            continue
        algorithm = score_collective(traffic, groups).algorithm
        packets = simulate_collective(traffic, groups, algorithm)
        sent = messages(traffic, groups, algorithm)
        found["packets"] += np.nan if packets is None else packets
        flows = sent and tc.simulate_flows(sent.workload, sent.torus, mapping).time
        found["flows"] += np.nan if flows is None else flows
    return found


def theirs(devices: list[meshes.Device], shape: tuple[int, ...]) -> tuple[str, NDArray[Any]]:
    """Return the function of JAX that makes a mesh, and its devices."""
    import jax
    from jax.experimental import mesh_utils

    try:
        return "make_mesh", jax.make_mesh(shape, NAMES[: len(shape)], devices=devices).devices
    except NotImplementedError:
        mesh = mesh_utils.create_device_mesh(shape, devices, allow_split_physical_axes=True)
        return "create_device_mesh", mesh


def theirs_of_two(devices: list[meshes.Device], shape: tuple[int, ...]) -> tuple[str, NDArray[Any]]:
    """Return the mesh of JAX over two slices that share the first axis."""
    from jax.experimental import mesh_utils

    outer = (2, *(1 for _ in shape[1:]))
    mesh = mesh_utils.create_hybrid_device_mesh(
        shape, outer, devices, allow_split_physical_axes=True
    )
    return "create_hybrid_device_mesh", mesh


def compare(text: str, shape: tuple[int, ...], *, hybrid: bool = False) -> Iterator[dict[str, Any]]:
    """Yield a row for each kind of step; with two slices, the times are within the first one."""
    torus = tc.torus(text)
    axes = MeshAxes(NAMES[: len(shape)], shape)
    devices = [each for number in range(1 + hybrid) for each in meshes.devices(torus, number)]
    whole = (shape[0] * (1 + hybrid), *shape[1:])
    by, other = (theirs_of_two if hybrid else theirs)(devices, shape)
    for step, sends in meshes.steps(axes.names):
        # Traffic decides which axis is divided between the slices.
        given = None if step == STEPS[0] else sends
        if step not in STEPS or (hybrid and given):
            continue
        begin = time.perf_counter()
        ours = toruscast.jax.make_mesh(whole, axes.names, devices=devices, traffic=given).devices
        row: dict[str, Any] = {
            "slice": text,
            "mesh": named(shape, hybrid=hybrid),
            "step": step,
            "jax": by,
            "seconds": time.perf_counter() - begin,
        }
        both = {}
        for name, mesh in (("jax", other), ("ours", ours)):
            first = mesh[: shape[0]].ravel()
            assert {device.slice_index for device in first} == {0}
            ids = np.array([device.id for device in first]).reshape(shape)
            both[name] = times(
                default_devices(torus).nodes[ids], MeshProblem(torus, axes, tuple(sends))
            )
            row |= {f"{name}_{how}_us": 1e6 * value for how, value in both[name].items()}
        gains = {f"gain_{how}": both["jax"][how] / both["ours"][how] for how in both["ours"]}
        yield {**row, **gains}


def named(shape: tuple[int, ...], *, hybrid: bool) -> str:
    """Return the shape of a mesh as in the table."""
    return "x".join(map(str, shape)) + (" in each of 2" if hybrid else "")


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--slices", nargs="*", default=list(SLICES))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / "make_mesh.csv"
    rows = pd.read_csv(path).to_dict("records") if path.exists() else []
    done = {(row["slice"], row["mesh"]) for row in rows}
    asked = [(text, shape, False) for text in arguments.slices for shape in SLICES[text]]
    asked += [(text, shape, True) for text, shape in meshes.HYBRIDS.items()]
    for text, shape, hybrid in asked:
        if (text, named(shape, hybrid=hybrid)) in done:
            continue
        rows += compare(text, shape, hybrid=hybrid)
        print(rows[-1], flush=True)
        pd.DataFrame(rows).to_csv(path, index=False, float_format="%.6g")
    gains = pd.DataFrame(rows)[["gain_packets", "gain_flows"]]
    print(f"{len(rows)} rows of {len({row['slice'] for row in rows})} slices", gains.describe())


if __name__ == "__main__":
    main()
