"""Logical meshes: axes, what is sent, and the layouts that are enumerated."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toruscast as tc
from toruscast._mesh.devices import default_devices, find_devices
from toruscast._mesh.layouts import (
    AxisLayout,
    build_mesh,
    cut_walks,
    list_axis_lines,
    list_walks,
    split_dimensions,
    walk_loop,
    walk_snake,
)
from toruscast._mesh.traffic import (
    MeshAxes,
    MeshTraffic,
    group_along_axes,
    parse_axes,
    parse_traffic,
)
from toruscast.errors import InputError
from toruscast.mapping import Torus

SIZES = st.lists(st.integers(2, 5), min_size=1, max_size=3)


def every_split(shape, sizes):
    """All ways to give each prime factor's place to an axis, slowly: the distinct node sets."""
    found = set()

    def cut(size, axes):
        if size == 1:
            yield ()
        for axis in axes:
            for part in range(2, size + 1):
                if size % part == 0:
                    for rest in cut(size // part, [a for a in axes if a != axis]):
                        yield ((axis, part), *rest)

    for parts in product(*(cut(size, range(len(sizes))) for size in shape)):
        given = [1] * len(sizes)
        for axis, part in (each for cuts in parts for each in cuts):
            given[axis] *= part
        if given == list(sizes):
            found.add(parts)
    return found


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [((4,), (2, 2)), ((4, 4), (2, 8)), ((4, 6), (3, 8)), ((2, 2, 4), (4, 2, 2)), ((6, 6), (4, 9))],
)
def test_every_way_to_cut_the_dimensions_is_given_once(shape, sizes):
    given_ways = list(split_dimensions(shape, sizes))
    assert len({*given_ways}) == len(given_ways) == len(every_split(shape, sizes))


@pytest.mark.parametrize(
    ("torus", "sizes"),
    [(Torus((4, 4)), (8, 2)), (Torus((4, 6), wrap=False), (3, 2, 4)), (Torus((2, 3, 4)), (6, 4))],
)
def test_layouts_are_permutations_and_their_lines_are_those_of_the_mesh(torus, sizes):
    axes = MeshAxes(tuple("abc"[: len(sizes)]), sizes)
    for cut in split_dimensions(torus.shape, sizes):
        laid = [AxisLayout(pieces, list_walks([p.size for p in pieces])[-1]) for pieces in cut]
        mesh = build_mesh(torus, laid)
        assert mesh.shape == sizes
        assert sorted(mesh.ravel()) == list(range(torus.n_nodes))
        for number, name in enumerate(axes.names):
            ours = list_axis_lines(torus, [laid[number]])
            theirs = mesh.ravel()[group_along_axes(axes, (name,))]
            assert {*map(tuple, ours)} == {*map(tuple, theirs)}


@given(SIZES)
def test_snakes_visit_all_cells_in_steps_of_one(sizes):
    cells = walk_snake(sizes)
    assert {*map(tuple, cells)} == {*product(*map(range, sizes))}
    assert (np.abs(np.diff(cells, axis=0)).sum(axis=1) == 1).all()


@given(SIZES)
def test_loops_close(sizes):
    cells = walk_loop(sizes)
    if len(sizes) < 2 or sizes[0] % 2:
        assert cells is None
        return
    assert {*map(tuple, cells)} == {*product(*map(range, sizes))}
    assert (np.abs(cells - np.roll(cells, -1, axis=0)).sum(axis=1) == 1).all()


@given(st.integers(4, 40))
def test_folded_lines_have_no_step_over_two(n):
    (folded,) = [walk for walk in list_walks((n,)) if walk.name == "folded"]
    places = folded.cells.ravel()
    assert sorted(places) == list(range(n))
    assert np.abs(places - np.roll(places, -1)).max() == 2


@settings(max_examples=25)
@given(st.data())
def test_walks_are_cut_to_the_devices_that_are_there(data):
    torus = Torus(tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))))
    some = st.lists(st.integers(0, torus.n_nodes - 1), min_size=1, unique=True)
    ours = np.array(sorted(data.draw(some)))
    n = data.draw(st.integers(1, ours.size))
    first = data.draw(st.sampled_from([d for d in range(1, n + 1) if n % d == 0]))
    meshes = [mesh for mesh, _ in cut_walks(torus, MeshAxes(("a", "b"), (first, n // first)), ours)]
    assert meshes
    for mesh in meshes:
        assert mesh.shape == (first, n // first)
        assert np.unique(mesh).size == n
        assert np.isin(mesh, ours).all()


def test_devices_of_a_tpu_slice_have_x_fastest_and_cores_side_by_side():
    nodes = default_devices(tc.torus("tpu_v4:2x2x1")).nodes
    assert tc.torus("tpu_v4:2x2x1").coords[nodes].tolist() == [
        [0, 0, 0],
        [1, 0, 0],
        [0, 1, 0],
        [1, 1, 0],
    ]
    cores = tc.torus("tpu7x:2x2x1")
    assert cores.coords[default_devices(cores).nodes][:3].tolist() == [
        [0, 0, 0, 0],
        [0, 0, 0, 1],
        [1, 0, 0, 0],
    ]
    assert default_devices(Torus((2, 3), name="galaxy")).nodes.tolist() == list(range(6))


def test_devices_by_coordinates():
    torus = tc.torus("tpu_v5e:2x4")
    found = find_devices(torus, [[5, 0, 0], [4, 0, 0], [4, 3, 0]], ids=[9, 3, 5])
    assert found.ids.tolist() == [3, 5, 9]
    assert torus.coords[found.nodes].tolist() == [[0, 0], [0, 3], [1, 0]]
    assert found.index_nodes(np.array([4, 0, 3])).tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    ("coords", "ids", "message"),
    [
        ([[0, 0], [0, 0]], None, "duplicate coordinates"),
        ([[0, 0], [0, 1]], [4, 4], "duplicate device number"),
        ([[0, 0], [0, 9]], None, "outside the torus"),
        ([[0, 0, 0], [0, 1, 1]], None, "bad device coordinates"),
        ([[0], [1]], None, "bad device coordinates"),
        ([], None, "bad device coordinates"),
        ([[0, 0], [0, 1]], [4], "missing device numbers"),
    ],
)
def test_wrong_devices_are_told(coords, ids, message):
    with pytest.raises(InputError, match=message):
        find_devices(Torus((2, 2)), coords, ids)


@pytest.mark.parametrize(
    "text", ["", "a", "a=", "a=0", "a=2,a=3", "a=x", "=4", "a=2;b=3", "a b=2", "a=-1"]
)
def test_wrong_axes_are_told(text):
    with pytest.raises(InputError):
        parse_axes(text)


BAD_TRAFFIC = """
a a:allreduce a:allreduce:64XB a:allsum:64MB a:allreduce/star:64MB a:permute/ring:64MB
a:allreduce:64MB:0 a:allreduce:64MB:1:1 :allreduce:64MB
"""


@pytest.mark.parametrize("text", ["", *BAD_TRAFFIC.split()])
def test_wrong_traffic_is_told(text):
    with pytest.raises(InputError):
        parse_traffic(text)


def test_traffic_names_axes_of_the_mesh_once():
    axes = parse_axes("a=2,b=2")
    for text in ("c:allreduce:1", "a+a:allreduce:1"):
        with pytest.raises(InputError, match="axis"):
            parse_traffic(text)[0].check(axes)
    for groups in ([[0, 9]], [[0, 1], [1, 2]]):
        with pytest.raises(InputError, match="task"):
            MeshTraffic("allreduce", 8, groups=groups).check(axes)


def test_groups_of_joint_axes_have_the_last_named_fastest():
    axes = parse_axes("a=2,b=2,c=2")
    groups = MeshTraffic("all-reduce", 8, ("c", "a")).list_groups(axes)
    assert groups.tolist() == [[0, 4, 1, 5], [2, 6, 3, 7]]
    assert math.prod(groups.shape) == axes.n_tasks


def test_axes_take_one_name_and_refuse_what_holds_none():
    assert MeshAxes("data", 8) == MeshAxes(("data",), (8,))
    for names, sizes in ((5, (2, 4)), (("x",), "8"), (("x", 3), (2, 4)), (None, (2,))):
        with pytest.raises(InputError, match="bad"):
            MeshAxes(names, sizes)
