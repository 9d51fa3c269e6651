"""Meshes of listed devices: slices, hosts, several slices, and JAX's and PyTorch/XLA's lists."""

import numpy as np
import pytest

import toruscast as tc
from toruscast._mesh import step_time
from toruscast._mesh.devices import default_devices
from toruscast._mesh.hlo import HloStep
from toruscast._mesh.layouts import keeps_hosts_together
from toruscast._mesh.on_devices import group_by_slice, lay_out_mesh
from toruscast._mesh.traffic import MeshAxes, MeshTraffic, resolve_traffic
from toruscast.errors import InputError

KINDS = {
    "tpu_v2": "TPU v2",
    "tpu_v3": "TPU v3",
    "tpu_v4": "TPU v4",
    "tpu_v5p": "TPU v5p",
    "tpu_v5e": "TPU v5 lite",
    "tpu_v6e": "TPU v6 lite",
    "tpu7x": "TPU7x",
}


def chips(kind, size, cores=1, low=(0, 0, 0), slice_index=0, host=(2, 2, 1)):
    """Devices of a slice as JAX lists them: host by host, in each X fastest."""
    places = [
        (x, y, z, core)
        for z in range(size[2])
        for y in range(size[1])
        for x in range(size[0])
        for core in range(cores)
    ]
    n_hosts = [-(-s // h) for s, h in zip(size, host, strict=True)]
    listed = [
        {
            "coords": tuple(np.add(place[:3], low).tolist()),
            "core_on_chip": place[3],
            "device_kind": KINDS[kind],
            "slice_index": slice_index,
            "process_index": int(np.ravel_multi_index(np.floor_divide(place[:3], host), n_hosts)),
        }
        for place in places
    ]
    return sorted(listed, key=lambda device: device["process_index"])


def rings(*names):
    return [MeshTraffic("allreduce", 64e6, (n,), algorithm="two-way-ring") for n in names]


@pytest.mark.parametrize(
    ("kind", "size", "cores", "text"),
    [
        ("tpu_v2", (4, 4, 1), 2, "tpu_v2 4mx4mx2m"),
        ("tpu_v3", (4, 4, 1), 2, "tpu_v3 4mx4mx2m"),
        ("tpu_v4", (4, 4, 4), 1, "tpu_v4 4x4x4"),
        ("tpu_v4", (2, 2, 1), 1, "tpu_v4 2mx2mx1m"),
        ("tpu_v5p", (2, 2, 4), 1, "tpu_v5p 2mx2mx4m"),
        ("tpu_v5e", (4, 8, 1), 1, "tpu_v5e 4mx8m"),
        ("tpu_v6e", (8, 16, 1), 1, "tpu_v6e 8mx16"),
        ("tpu7x", (2, 2, 1), 2, "tpu7x 2mx2mx1mx2m"),
    ],
)
@pytest.mark.parametrize("low", [(0, 0, 0), (4, 8, 0)])
def test_slices_are_told_by_kind_and_coordinates(kind, size, cores, text, low):
    (found,) = group_by_slice(chips(kind, size, cores, low))
    assert str(found.torus) == text
    assert sorted(found.devices.nodes) == list(range(found.torus.n_nodes))


def test_a_part_of_a_slice_keeps_the_slice_that_it_is_of():
    every = chips("tpu_v4", (4, 4, 4))
    part = [device for device in every if device["coords"][2] < 2]
    (found,) = group_by_slice(part, every)
    assert found.torus == tc.torus("tpu_v4:4x4x4")
    (given,) = group_by_slice(part, torus="tpu_v4:4x4x4")
    assert given.torus == found.torus
    assert given.devices.nodes.tolist() == found.devices.nodes.tolist()
    ids = lay_out_mesh([found], MeshAxes(("x", "y"), (4, 8)))
    assert sorted(ids.ravel()) == list(range(32))


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        ([], "no devices"),
        ([object()], "without coordinates"),
        ([{"coords": (0, 0, 0)}], "unknown device kind"),
        ([{"coords": (0, 0, 0), "device_kind": "GPU"}], "unknown device kind"),
        (chips("tpu_v4", (2, 2, 1)) * 2, "duplicate coordinates"),
        (
            [*chips("tpu_v4", (2, 2, 1)), {"coords": (0, 0), "device_kind": "TPU v4"}],
            "devices of different dimensions",
        ),
        (chips("tpu_v5e", (20, 2, 1)), "too large"),
    ],
)
def test_devices_that_tell_no_slice_are_refused(devices, message):
    with pytest.raises(InputError, match=message):
        group_by_slice(devices)


@pytest.mark.parametrize("text", ["tpu_v5e:4x4", "tpu_v6e:4x4", "tpu7x:2x2x2", "trainium2:4x4"])
def test_devices_without_coordinates_are_counted_on_a_named_slice(text):
    torus = tc.torus(text)
    bare = [{"id": 7 * i + 3} for i in range(torus.n_nodes)]
    (found,) = group_by_slice(bare[::-1], torus=text)
    assert found.torus == torus
    # The i-th by its id is the device of that number.
    by_id = {bare[::-1][i]["id"]: n for i, n in zip(*vars(found.devices).values(), strict=True)}
    assert [by_id[key] for key in sorted(by_id)] == default_devices(torus).nodes.tolist()
    with pytest.raises(InputError, match=f"device_count={torus.n_nodes}"):
        group_by_slice(bare[:-1], torus=text)
    with pytest.raises(InputError, match="a torus with its sizes"):
        group_by_slice(bare, torus="tpu_v5e")


def test_missing_chips_are_left_out():
    devices = [d for i, d in enumerate(chips("tpu_v5e", (4, 4, 1))) if i not in (3, 9, 12)]
    ids = lay_out_mesh(group_by_slice(devices), MeshAxes(("x", "y"), (4, 3)))
    assert len({*ids.ravel().tolist()}) == 12
    assert ids.max() < 13


@pytest.mark.parametrize(
    ("kind", "size", "cores", "shape"),
    [
        ("tpu_v4", (4, 4, 4), 1, (8, 8)),
        ("tpu_v4", (2, 2, 4), 1, (16,)),
        ("tpu_v5e", (4, 8, 1), 1, (8, 4)),
        ("tpu7x", (2, 2, 2), 2, (2, 8)),
        ("tpu_v6e", (8, 8, 1), 1, (8, 4)),
    ],
)
def test_hosts_stay_together_where_that_is_asked(kind, size, cores, shape):
    devices = chips(kind, size, cores)
    slices = group_by_slice(devices)
    axes = MeshAxes(("x", "y")[: len(shape)], shape)
    ids = lay_out_mesh(slices, axes, keep_hosts_together=True)
    hosts = np.array([device["process_index"] for device in devices])
    assert keeps_hosts_together(ids, hosts)
    # It costs something at most, never gains.
    nodes = slices[0].devices.nodes
    free = nodes[lay_out_mesh(slices, axes)]
    asked = slices[0].torus, axes, rings(*axes.names)
    assert step_time(free, *asked) <= step_time(nodes[ids], *asked) * (1 + 1e-9)


def test_hosts_that_cannot_stay_together_are_told():
    # 15 of 16 chips: a host of three, and no box of 3x5 is cut into such boxes.
    devices = chips("tpu_v5e", (4, 4, 1))
    axes = MeshAxes(("x", "y"), (3, 5))
    with pytest.raises(InputError, match="keeps hosts together"):
        lay_out_mesh(group_by_slice(devices), axes, keep_hosts_together=True)


def two_slices(kind="tpu_v4", size=(2, 2, 4)):
    return chips(kind, size, slice_index=0) + chips(kind, size, slice_index=1)


@pytest.mark.parametrize(
    ("traffic", "cut"),
    [
        (None, 0),
        ({"x": 1e9, "y": 1e3}, 1),
        ({"x": 1e3, "y": 1e9}, 0),
        ({"y": "alltoall:1GB", "x": "allgather:1GB"}, 0),
        ([MeshTraffic("alltoall", 1e9, ("x",))], 1),
    ],
)
def test_the_axis_that_sends_least_is_cut_between_slices(traffic, cut):
    devices = two_slices()
    ids = lay_out_mesh(group_by_slice(devices), MeshAxes(("x", "y"), (8, 4)), traffic)
    assert sorted(ids.ravel()) == list(range(32))
    numbers = np.array([device["slice_index"] for device in devices])[ids]
    first, second = np.split(numbers, 2, axis=cut)
    assert (first == 0).all()
    assert (second == 1).all()


def test_each_slice_of_several_is_laid_as_it_would_be_alone():
    devices = two_slices("tpu_v5e", (4, 4, 1))
    ids = lay_out_mesh(group_by_slice(devices), MeshAxes(("x", "y"), (4, 8)))
    alone = lay_out_mesh(group_by_slice(devices[:16]), MeshAxes(("x", "y"), (2, 8)))
    assert ids[:2].tolist() == alone.tolist()
    assert (ids[2:] - 16).tolist() == alone.tolist()


def test_a_mesh_that_fits_a_slice_stays_in_it():
    devices = two_slices()
    ids = lay_out_mesh(group_by_slice(devices), MeshAxes(("x", "y"), (4, 4)))
    assert len({devices[i]["slice_index"] for i in ids.ravel()}) == 1
    with pytest.raises(InputError, match="mesh too large"):
        lay_out_mesh(group_by_slice(devices), MeshAxes(("x",), (33,)))


def test_groups_of_a_program_are_cut_between_slices():
    devices = two_slices("tpu_v5e", (2, 2, 1))
    groups = np.arange(8).reshape(2, 4)
    pairs = np.array([[i, (i + 1) % 8] for i in range(8)])
    sends = [
        MeshTraffic("allreduce", 1e6, groups=groups),
        MeshTraffic("allgather", 1e6, groups=groups.T.copy()),
        MeshTraffic("permute", 1e6, pairs=pairs),
    ]
    ids = lay_out_mesh(group_by_slice(devices), MeshAxes(("x", "y"), (2, 4)), sends)
    assert sorted(ids[0]) == [0, 1, 2, 3]
    # Within a slice the four are a ring.
    places = [devices[i]["coords"][:2] for i in ids[0]]
    steps = np.abs(np.subtract(places, np.roll(places, 1, axis=0))).sum(axis=1)
    assert steps.tolist() == [1, 1, 1, 1]


def test_what_a_framework_takes_is_kept_unless_another_is_faster():
    devices = chips("tpu_v5e", (2, 2, 1))
    slices, axes = group_by_slice(devices), MeshAxes(("x",), (4,))
    ring = np.array([1, 0, 2, 3])
    kept = lay_out_mesh(slices, axes, devices=devices, framework_layout=lambda own, sizes: ring)
    assert kept.tolist() == ring.tolist()
    slow = np.array([0, 3, 1, 2])
    better = lay_out_mesh(slices, axes, devices=devices, framework_layout=lambda own, sizes: slow)
    assert better.tolist() != slow.tolist()
    assert lay_out_mesh(
        slices, axes, devices=devices, framework_layout=lambda *_: None
    ).tolist() == [
        0,
        2,
        3,
        1,
    ]


@pytest.mark.parametrize(
    ("value", "kind", "nbytes", "algorithm"),
    [
        (1e6, "allreduce", 1e6, "two-way-ring"),
        ("2MB", "allreduce", 2e6, "two-way-ring"),
        ("all-gather:2MB", "allgather", 2e6, ""),
        ("alltoall", "alltoall", 64e6, ""),
        ("allreduce/ring:2MB", "allreduce", 2e6, "ring"),
        (MeshTraffic("exchange", 3e6, ("x",)), "exchange", 3e6, ""),
    ],
)
def test_traffic_of_an_axis_has_many_forms(value, kind, nbytes, algorithm):
    _, (found,) = resolve_traffic({"x": value}, MeshAxes(("x", "y"), (2, 2)))
    assert found.axes == ("x",)
    assert (found.collective, found.nbytes, found.algorithm) == (kind, nbytes, algorithm)


@pytest.mark.parametrize(
    ("traffic", "message"),
    [
        (3, "bad traffic"),
        ([1, 2], "bad traffic"),
        ({"z": 1e6}, "unknown axis"),
        ({"x": "lots"}, "lots"),
        ({"x": None}, "nbytes"),
        (HloStep(8, ()), "no collective"),
    ],
)
def test_wrong_traffic_is_told(traffic, message):
    with pytest.raises(InputError, match=message):
        lay_out_mesh(
            group_by_slice(chips("tpu_v5e", (2, 2, 1))), MeshAxes(("x", "y"), (2, 2)), traffic
        )
