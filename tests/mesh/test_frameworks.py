"""Meshes for JAX and PyTorch/XLA, made of devices that are faked."""

import json
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import toruscast as tc
from toruscast._mesh import step_time
from toruscast._mesh.layouts import keeps_hosts_together
from toruscast._mesh.traffic import MeshAxes, MeshTraffic
from toruscast.decision.calibration import read_microbenchmark
from toruscast.errors import InputError, InputWarning
from toruscast.torch_xla import mesh_ids

CHIPS = [{"name": f"TPU:{i}", "coords": [i % 4, i // 4, 0], "core_on_chip": 0} for i in range(16)]


@dataclass(frozen=True)
class Device:
    """The attributes of a device that JAX reads."""

    id: int
    coords: tuple[int, ...]
    device_kind: str = "TPU v5 lite"
    core_on_chip: int = 0
    slice_index: int = 0
    process_index: int = 0
    platform: str = "tpu"


def grid(x, y, kind="TPU v5 lite", slice_index=0):
    return [
        Device(
            16 * slice_index + i,
            (i % x, i // x, 0),
            kind,
            slice_index=slice_index,
            process_index=i % x // 2 + x // 2 * (i // x // 2),
        )
        for i in range(x * y)
    ]


def nodes_of(mesh, torus):
    return torus.node([device.coords[:2] for device in mesh.devices.ravel()]).reshape(
        mesh.devices.shape
    )


def test_ids_of_pytorch_are_those_in_the_names():
    ids = mesh_ids((4, 4), ("data", "model"), CHIPS[::-1], torus="tpu_v5e")
    assert sorted(ids) == list(range(16))
    torus = tc.torus("tpu_v5e:4x4")
    nodes = torus.node([CHIPS[i]["coords"][:2] for i in ids]).reshape(4, 4)
    sends = [MeshTraffic("allreduce", 64e6, (n,), algorithm="two-way-ring") for n in ("x", "y")]
    asked = torus, MeshAxes(("x", "y"), (4, 4)), sends
    assert step_time(nodes, *asked) < 0.8 * step_time(np.arange(16).reshape(4, 4), *asked)


def test_pytorch_users_say_the_machine():
    assert len(mesh_ids((2, 4), ("a", "b"), CHIPS[:8], torus="tpu_v6e:4x4")) == 8
    with pytest.raises(InputError, match="unknown machine"):
        mesh_ids((16,), ("a",), CHIPS, torus="tpu_v9")
    with pytest.raises(InputError, match="without coordinates"):
        mesh_ids((1,), ("a",), [{"name": "CPU:0"}], torus="tpu_v4")
    # The list's place counts where no name tells.
    bare = [{"coords": chip["coords"]} for chip in CHIPS[:4]]
    assert sorted(mesh_ids((4,), ("a",), bare, torus="tpu_v5e")) == [0, 1, 2, 3]


def test_the_module_for_jax_is_imported_without_it(monkeypatch):
    for name in {"jax", *sys.modules}:
        if name.partition(".")[0] == "jax":
            monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "toruscast.jax", raising=False)
    import toruscast.jax

    with pytest.raises(ImportError):
        toruscast.jax.make_mesh((1,), ("x",))


@pytest.fixture
def jax():
    return pytest.importorskip("jax", reason="JAX is not installed")


@pytest.fixture
def make_mesh(jax):
    import toruscast.jax

    return toruscast.jax.make_mesh


PROGRAM = """
from dataclasses import dataclass
import numpy as np
import jax
import toruscast.jax

@dataclass(frozen=True)
class Chip:
    id: int
    coords: tuple
    device_kind: str = "TPU v5 lite"
    platform: str = "tpu"
    process_index = slice_index = core_on_chip = 0

chips = [Chip(i, (i % 4, i // 4, 0)) for i in range(16)]
plain = jax.make_mesh((4, 4), ("data", "model"), devices=chips)
better = toruscast.jax.make_mesh((4, 4), ("data", "model"), devices=chips)
for mesh in (plain, better):
    places = np.array([[chip.coords for chip in row] for row in mesh.devices])
    rings = [np.roll(places, 1, axis) - places for axis in (0, 1)]
    print(mesh.axis_names, max(int(abs(step).sum(-1).max()) for step in rings))
"""


def test_twenty_lines_lead_from_the_import_to_a_better_mesh(jax):
    """On 4x4 chips without closing links, JAX's rings come back over three hops; ours over two."""
    text = textwrap.dedent(PROGRAM).strip()
    assert len(text.splitlines()) <= 22
    ran = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == ["('data', 'model') 3", "('data', 'model') 2"]


def test_a_mesh_is_as_jax_makes_it(jax, make_mesh):
    chips = grid(4, 4)
    found = make_mesh((4, 4), ("x", "y"), devices=chips)
    theirs = jax.make_mesh((4, 4), ("x", "y"), devices=chips)
    assert isinstance(found, jax.sharding.Mesh)
    assert (found.axis_names, found.axis_types) == (theirs.axis_names, theirs.axis_types)
    assert {*found.devices.ravel()} == {*chips}
    auto = (jax.sharding.AxisType.Auto,) * 2
    assert make_mesh((4, 4), ("x", "y"), auto, devices=chips).axis_types == auto
    assert make_mesh((16,), "x", devices=chips).axis_names == ("x",)


def test_what_jax_refuses_is_laid_too(jax, make_mesh):
    chips = grid(8, 8, "TPU v6 lite")
    with pytest.raises(NotImplementedError):
        jax.make_mesh((16, 4), ("x", "y"), devices=chips)
    assert make_mesh((16, 4), ("x", "y"), devices=chips).devices.shape == (16, 4)


def test_devices_without_coordinates_are_in_the_order_of_jax(jax, make_mesh):
    with pytest.warns(InputWarning, match=r"without coordinates.*JAX's own"):
        found = make_mesh((1,), ("x",))
    assert found.devices.tolist() == jax.make_mesh((1,), ("x",)).devices.tolist()
    with pytest.raises(InputError, match="without coordinates"):
        make_mesh((1,), ("x",), torus="tpu_v4:2x2x1")


@pytest.mark.parametrize("there", [[], grid(4, 4)], ids=["jax", "slice"])
@pytest.mark.parametrize("traffic", [{"modle": 1e6}, "modle:allreduce:1MB"])
def test_a_mistyped_axis_is_told_on_every_device(make_mesh, there, traffic):
    n = len(there) or 1
    with pytest.raises(InputError, match="unknown axis: found modle, expected model"):
        make_mesh((1, n), ("data", "model"), devices=there or None, traffic=traffic)


DRY_RUN = """
import jax, jax.numpy as jnp, json, numpy as np, toruscast.jax
from jax.sharding import PartitionSpec as P
plain = jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 4), ("data", "model"))
mesh = toruscast.jax.make_mesh((4, 4), ("data", "model"), torus="tpu_v5e:4x4")
print(json.dumps([[device.id for device in row] for row in mesh.devices]))
step = jax.jit(jax.shard_map(
    lambda a, n: jax.lax.fori_loop(0, n, lambda i, v: jax.lax.psum(v, "model") / 4, a),
    mesh=plain, in_specs=(P("data", "model"), P()), out_specs=P("data"), check_vma=False,
))
shapes = jax.ShapeDtypeStruct((64, 64), jnp.float32), jax.ShapeDtypeStruct((), jnp.int32)
toruscast.jax.make_mesh(
    (4, 4), ("data", "model"), torus="tpu_v5e:4x4", traffic=step.lower(*shapes)
)
"""


def run_on_processors(program):
    """Run a program with sixteen processors as its devices."""
    ran = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=300,
        env={
            "XLA_FLAGS": "--xla_force_host_platform_device_count=16",
            "PATH": "",
            "PYTHONPATH": ":".join(sys.path),
        },
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran


def test_a_dry_run_on_processors_is_laid_for_a_named_slice(jax):
    ran = run_on_processors(DRY_RUN)
    ids = np.array(json.loads(ran.stdout))
    places = np.stack([ids % 4, ids // 4], axis=-1)
    for axis in (0, 1):
        # Rings come back over two hops at most.
        assert np.abs(np.roll(places, 1, axis) - places).sum(-1).max() <= 2
    assert "InputWarning: Counted once: 1 loop (while" in ran.stderr


def test_hosts_stay_together_in_jax(make_mesh):
    chips = grid(4, 8)
    found = make_mesh((4, 8), ("x", "y"), devices=chips, contiguous_submeshes=True)
    hosts = np.array([chip.process_index for chip in chips])
    ids = np.vectorize(lambda device: device.id)(found.devices)
    assert keeps_hosts_together(ids, hosts)


def test_slices_are_one_mesh(make_mesh):
    chips = grid(4, 4) + grid(4, 4, slice_index=1)
    found = make_mesh((8, 4), ("x", "y"), devices=chips)
    numbers = np.vectorize(lambda device: device.slice_index)(found.devices)
    assert numbers.tolist() == [[0] * 4] * 4 + [[1] * 4] * 4


def test_traffic_of_a_compiled_step_decides(jax, make_mesh):
    """Compiled for sixteen faked processors: the groups of the second axis lie in squares."""
    program = """
        import jax, jax.numpy as jnp, sys
        from jax.sharding import NamedSharding, PartitionSpec as P
        sys.path.insert(0, "tests/mesh")
        import test_frameworks as here
        import toruscast.jax
        mesh = jax.make_mesh((4, 4), ("x", "y"))
        place = NamedSharding(mesh, P(None, "y"))
        x = jax.ShapeDtypeStruct((1024, 4096), jnp.float32, sharding=place)
        step = jax.jit(lambda a: (a * a).sum(axis=1), out_shardings=NamedSharding(mesh, P()))
        with jax.set_mesh(mesh):
            lowered = step.lower(x)
        for traffic in (lowered, lowered.compile()):
            found = toruscast.jax.make_mesh(
                (4, 4), ("x", "y"), devices=here.grid(4, 4), traffic=traffic
            )
            print([[device.id for device in row] for row in found.devices])
    """
    ran = run_on_processors(textwrap.dedent(program))
    lowered, compiled = ran.stdout.splitlines()
    assert lowered == compiled
    for row in json.loads(lowered):
        # Each group is a square of four neighbours; JAX's own are lines of four.
        places = np.array([grid(4, 4)[i].coords for i in row])
        assert np.ptp(places, axis=0).tolist() == [1, 1, 0]
    for row in jax.make_mesh((4, 4), ("x", "y"), devices=grid(4, 4)).devices:
        assert np.ptp([device.coords for device in row], axis=0).tolist() in ([0, 3, 0], [3, 0, 0])


def test_the_loop_of_the_guide_measures_what_calibrate_reads(jax, tmp_path):
    """On four faked processors, whose numbers are taken for coordinates."""
    guide = (Path(__file__).parents[2] / "docs/guide/my-machine.md").read_text()
    body = re.search(r'```python title="ppermute.py"\n(.*?)```', guide, re.S)[1]
    ran = subprocess.run(
        [sys.executable, "-c", body.replace("2**20, 2**24", "2**20"), "4x1x1"],
        capture_output=True,
        text=True,
        timeout=300,
        env={
            "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
            "PATH": "",
            "PYTHONPATH": ":".join(sys.path),
        },
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    path = tmp_path / "times.csv"
    path.write_text(ran.stdout)
    found = read_microbenchmark(path)
    # A busy machine may hide a short time; an exchange of a mebibyte is a long one.
    pairs = {(row.source, row.destination) for row in found if row.nbytes == 2**20}
    assert pairs == {(0, 1), (0, 2), (0, 3)}
