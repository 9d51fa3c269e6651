"""Layouts beside those of JAX, for devices that are faked; and the recorded comparison."""

import numpy as np
import pandas as pd
import pytest
from benchmark_modules import BENCHMARKS, load

import toruscast as tc
from toruscast._mesh import step_time
from toruscast._mesh.jax_layout import lay_out_as_jax
from toruscast._mesh.traffic import MeshAxes


def test_the_recorded_comparison_holds_what_is_wanted():
    rows = pd.read_csv(BENCHMARKS / "results" / "meshes.csv")
    assert len(rows[["slice", "mesh"]].drop_duplicates()) >= 40
    assert rows["jax_over_ours"].min() > 0.99
    small = rows[rows["all_orders_us"].notna()]
    # Where some order is a tenth faster than JAX's, ours is.
    possible = small[small["jax_us"] >= 1.1 * small["all_orders_us"]]
    assert len(possible) > 10
    assert (possible["jax_over_ours"] >= 1.1).all()


def test_the_mesh_of_jax_takes_the_recorded_times():
    rows = pd.read_csv(BENCHMARKS / "results" / "meshes.csv")
    steps = load("meshes").steps
    for (text, mesh), recorded in rows.groupby(["slice", "mesh"]):
        if "in each" in mesh:
            continue
        torus = tc.torus(text)
        sizes = tuple(map(int, mesh.split("x")))
        axes = MeshAxes(("x", "y", "z")[: len(sizes)], sizes)
        nodes, _ = lay_out_as_jax(torus, axes)
        assert nodes.shape == sizes
        times = [1e6 * step_time(nodes, torus, axes, step) for _, step in steps(axes.names)]
        assert times == pytest.approx(recorded["jax_us"].to_numpy(), rel=1e-5), (text, mesh)


def test_the_mesh_of_jax_is_that_of_the_installed_jax():
    pytest.importorskip("jax", reason="JAX is not installed")
    module = load("meshes")
    for text, shapes in module.SLICES.items():
        torus = tc.torus(text)
        for shape in shapes:
            theirs = module.jax_mesh(torus, shape, hybrid=False)
            ours, _ = lay_out_as_jax(torus, MeshAxes(("x", "y", "z")[: len(shape)], shape))
            assert ours.tolist() == theirs.tolist(), (text, shape)


@pytest.mark.parametrize(
    ("text", "sizes", "words"),
    [
        ("tpu_v4:4x4x8", (8, 16), "a spans Z; b spans XY"),
        ("tpu_v5p:4x8x8", (4, 64), "a spans X; b spans YZ"),
        (
            "tpu_v5e:8x8",
            (16, 4),
            "a spans Y and every fourth node along X; b spans blocks of 4 along X",
        ),
        ("tpu_v5e:2x2", (4,), "JAX's order of a small slice"),
    ],
)
def test_the_mesh_of_jax_in_words(text, sizes, words):
    assert lay_out_as_jax(tc.torus(text), MeshAxes(("a", "b")[: len(sizes)], sizes))[1] == words


def test_the_default_is_the_mesh_of_jax_if_it_fills_a_tpu_slice():
    asked = {"data": 4, "model": 4}, "model:allreduce:1MB"
    names = {
        text: tc.mesh(tc.torus(text), *asked, simulate=0).default_name
        for text in ("tpu_v4:2x2x4", "tpu_v4:4x4x4", "trainium2:4x4", "4x4")
    }
    in_order = "devices in order"
    assert names == {
        "tpu_v4:2x2x4": "JAX's own",
        "tpu_v4:4x4x4": in_order,
        "trainium2:4x4": in_order,
        "4x4": in_order,
    }


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("tpu_v4:2x2x1", (4,)),
        ("tpu_v4:4x4x8", (8, 16)),
        ("tpu_v5e:2x4", (2, 4)),
        ("tpu_v5e:4x4", (16,)),
        ("tpu_v6e:16x16", (64, 4)),
        ("tpu7x:2x2x2", (2, 8)),
    ],
)
def test_no_layout_is_slower_than_that_of_jax(text, shape):
    pytest.importorskip("jax", reason="JAX is not installed")
    module = load("meshes")
    torus = tc.torus(text)
    theirs = module.jax_mesh(torus, shape, hybrid=False)
    assert sorted(theirs.ravel()) == list(range(torus.n_nodes))
    axes = MeshAxes(("x", "y")[: len(shape)], shape)
    for _, traffic in module.steps(axes.names):
        answer = tc.mesh(torus, axes, traffic, compare=theirs, simulate=0)
        assert answer.best.time <= 1.01 * answer.compared.time


def test_four_chips_of_jax_are_no_ring():
    pytest.importorskip("jax", reason="JAX is not installed")
    torus = tc.torus("tpu_v4:2x2x1")
    theirs = load("meshes").jax_mesh(torus, (4,), hybrid=False)
    assert torus.distance(theirs, np.roll(theirs, 1)).max() == 2


def test_all_orders_are_as_many_as_there_are():
    orders = list(load("meshes").all_orders((2, 3)))
    # 6! orders, each as one of 2 * 6 that turn or mirror an axis of it.
    assert len(orders) == 720 // 12


def test_make_mesh_is_never_slower_than_that_of_jax_and_faster_on_average():
    rows = pd.read_csv(BENCHMARKS / "results" / "make_mesh.csv")
    assert rows["slice"].nunique() >= 24
    assert len(rows[["slice", "mesh"]].drop_duplicates()) >= 93
    gains = rows[["gain_packets", "gain_flows"]]
    assert gains.notna().all(axis=None)
    assert gains.min(axis=None) >= 0.99
    assert (gains.mean() >= 1.25).all()
