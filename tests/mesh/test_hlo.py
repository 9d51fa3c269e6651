"""Collectives of compiled programs: groups, sizes, loops, and the axes that they lie along."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import toruscast as tc
from toruscast.errors import InputError
from toruscast.mapping import Omission
from toruscast.mesh.hlo import bytes_of_type, parse_hlo, read_groups, read_hlo, tuple_items
from toruscast.mesh.traffic import hlo_traffic, parse_axes

GLOBAL = "use_global_device_ids=true, to_apply=%add"
FIVE, THREE = (f'backend_config={{"known_trip_count":{{"n":"{n}"}}}}' for n in (5, 3))
PAIRS = "replica_groups={{0,1},{2,3},{4,5},{6,7}}"
LOOPS = f"""
HloModule jit_step, is_scheduled=true, num_partitions=8

%add (a: f32[], b: f32[]) -> f32[] {{
  %a = f32[] parameter(0)
  ROOT %sum = f32[] add(%a, %b)
}}

%inner (p: (s32[], f32[16])) -> (s32[], f32[16]) {{
  %x = f32[16]{{0}} get-tuple-element(%p), index=1
  %all-reduce.1 = f32[16]{{0}} all-reduce(%x), replica_groups=[4,2]<=[8], {GLOBAL}
  ROOT %t = (s32[], f32[16]{{0}}) tuple(%i, %all-reduce.1)
}}

%outer (p: (s32[], f32[16])) -> (s32[], f32[16]) {{
  ROOT %while.1 = (s32[], f32[16]{{0}}) while(%p), condition=%cond, body=%inner, {THREE}
}}

%never (p: f32[16]) -> f32[16] {{
  ROOT %all-reduce.9 = f32[16]{{0}} all-reduce(%p), replica_groups={{}}, to_apply=%add
}}

ENTRY %main (p: f32[16]) -> f32[16] {{
  %while.2 = (s32[], f32[16]{{0}}) while(%t), condition=%cond, body=%outer, {FIVE}
  %all-reduce.2 = f32[16]{{0}} all-reduce(%y), {PAIRS}, {GLOBAL}
  ROOT %r = f32[16]{{0}} copy(%all-reduce.2)
}}
"""


@pytest.mark.parametrize(
    ("line", "kind", "size", "groups"),
    [
        ("f32[8]{0} all-reduce(x), replica_groups={{0,1},{2,3}}", "allreduce", 32, 2),
        ("f32[] all-reduce(x), replica_groups=[1,4]<=[4]", "allreduce", 4, 4),
        ("(f32[8], bf16[4]) all-reduce(x, y), replica_groups={{0,1}}", "allreduce", 40, 2),
        ("f32[8] all-reduce-start(x), replica_groups={{0,1}}", "allreduce", 32, 2),
        ("bf16[8,2]{1,0:T(8,128)(2,1)} all-gather(x), replica_groups={{0,1}}", "allgather", 32, 2),
        ("(f32[4], f32[8]) all-gather-start(x), replica_groups={{0,1}}", "allgather", 32, 2),
        (
            "((f32[4], s8[2]), (f32[8], s8[4])) all-gather-start(x), replica_groups={{0,1}}",
            "allgather",
            36,
            2,
        ),
        ("f32[4]{0} reduce-scatter(x), replica_groups={{0,1,2}}", "reduce_scatter", 48, 3),
        ("(f32[4], f32[4]) all-to-all(x, y), replica_groups={{0,1}}", "alltoall", 32, 2),
        ("pred[8] all-to-all(x), replica_groups={{1,0}}", "alltoall", 8, 2),
        ("f32[4] collective-permute(x), source_target_pairs={{0,1},{1,0}}", "permute", 16, 2),
        (
            "(f32[4], f32[4], u32[], u32[]) collective-permute-start(x), "
            "source_target_pairs={{0, 1}, {1, 2}}",
            "permute",
            16,
            2,
        ),
    ],
)
def test_sizes_are_of_the_whole_buffer(line, kind, size, groups):
    (found,) = parse_hlo(f"  ROOT %one.1 = {line}, dimensions={{0}}").collectives
    assert (found.name, found.kind, found.nbytes) == ("one.1", kind, size)
    assert found.groups.shape[1] == groups


def test_what_is_done_is_counted_where_it_starts():
    step = parse_hlo(
        "a = f32[8] all-reduce-start(x), replica_groups={{0,1}}\n"
        "b = f32[8] all-reduce-done(a)\n"
        "c = f32[8] all-reduce-scatter(a)\n"
    )
    assert [(each.name, each.times) for each in step.collectives] == [("a", 1)]


def test_loops_count_as_often_as_they_run():
    step = parse_hlo(LOOPS)
    assert step.n_devices == 8
    # Five times three, and once more with the same groups told in another way.
    (found,) = step.collectives
    assert (found.name, found.times, found.nbytes) == ("all-reduce.1", 16, 64)


def test_asynchronous_computations_count_once():
    step = parse_hlo(
        "HloModule m, num_partitions=2\n"
        "%wrapped (p: f32[4]) -> f32[4] {\n"
        "  ROOT %a2a = f32[4] all-to-all(%p), replica_groups={{0,1}}\n"
        "}\n"
        "ENTRY %main (p: f32[4]) -> f32[4] {\n"
        "  %start = ((f32[4]), f32[4]) async-start(%p), calls=%wrapped\n"
        "  ROOT %done = f32[4] async-done(%start), calls=%wrapped\n"
        "}\n"
    )
    assert [(each.name, each.times) for each in step.collectives] == [("a2a", 1)]


def test_what_is_not_known_is_named():
    step = parse_hlo("HloModule m\nr.1 = f32[8] ragged-all-to-all(x), replica_groups={{0,1}}\n")
    assert step.collectives == ()
    assert step.omitted == (
        Omission("ragged-all-to-all", "r.1", reason="--ragged-bytes states it"),
    )


@given(st.permutations(range(3)), st.tuples(*[st.integers(1, 4)] * 3), st.data())
def test_iotas_are_a_reshape_and_a_transpose(order, dims, data):
    n = int(np.prod(dims))
    size = data.draw(st.sampled_from([d for d in range(1, n + 1) if n % d == 0]))
    flat = [
        i * dims[1] * dims[2] + j * dims[2] + k
        for i, j, k in sorted(np.ndindex(*dims), key=lambda place: [place[d] for d in order])
    ]
    text = f"[{n // size},{size}]<=[{','.join(map(str, dims))}]T({','.join(map(str, order))})"
    assert read_groups(text, n).ravel().tolist() == flat


@pytest.mark.parametrize(
    "text",
    ["{{0,1},{2}}", "[2,2]<=[8]", "[2,2]<=[2,2]T(0,0)", "{{}}", "@mesh", "{0", "[4]<=[4]", "", "x"],
)
def test_groups_of_other_forms_are_none(text):
    assert read_groups(text, 4) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "a = f32[8] all-reduce(x), replica_groups={{0,1},{2}}",
        "a = f32[8] all-reduce(x), replica_groups=@mesh<[x=2]>{x}",
        "a = f32[8] collective-permute(x)",
        "HloModule m, num_partitions=999999999\na = f32[8] all-reduce(x), replica_groups={}",
    ],
)
def test_what_cannot_be_told_is_one_error(text, tmp_path):
    path = tmp_path / "dump.txt"
    path.write_text(text)
    with pytest.raises(InputError, match="dump"):
        read_hlo(path)


def test_bytes_of_types():
    assert bytes_of_type("(f8e4m3fn[4], s4[8], c64[2], u64[1], token[])") == 4 + 4 + 16 + 8
    assert tuple_items("f32[2]") == ["f32[2]"]
    assert tuple_items("(f32[2,3]{1,0:T(8,128)}, (s8[1], s8[2]))")[1] == "(s8[1], s8[2])"


def test_axes_are_told_by_the_groups():
    text = (
        "a = f32[8] all-reduce(x), replica_groups=[4,4]<=[16]\n"
        "b = f32[8] all-gather(x), replica_groups=[8,2]<=[2,8]T(1,0)\n"
        "c = f32[8] all-reduce(x), replica_groups=[2,8]<=[16]\n"
        "d = f32[8] all-reduce(x), replica_groups={{0,3},{1,2}}\n"
    )
    axes, sent = hlo_traffic(parse_hlo(text))
    assert axes.sizes == (2, 2, 4)
    assert [each.axes for each in sent] == [("m2",), ("m0",), ("m1", "m2"), ()]
    named = hlo_traffic(parse_hlo(text), parse_axes("data=2,fsdp=2,tensor=4"))[1]
    assert [each.label for each in named] == [
        "a (tensor)",
        "b (data)",
        "c (fsdp+tensor)",
        "d (groups)",
    ]
    with pytest.raises(InputError, match="another program"):
        hlo_traffic(parse_hlo(text), parse_axes("data=2,fsdp=2"))


def test_permutes_along_an_axis_are_told():
    def pairs(*each):
        return "{" + ",".join(f"{{{a},{b}}}" for a, b in each) + "}"

    text = (
        "a = f32[8] all-reduce(x), replica_groups={{0,1,2,3}}\n"
        f"b = f32[8] collective-permute(x), source_target_pairs={pairs((0, 1), (1, 2), (2, 3))}\n"
        f"c = f32[8] collective-permute(x), "
        f"source_target_pairs={pairs((0, 1), (1, 2), (2, 3), (3, 0))}\n"
        f"d = f32[8] collective-permute(x), source_target_pairs={pairs((0, 2), (2, 0))}\n"
    )
    _, sent = hlo_traffic(parse_hlo(text))
    assert [each.collective for each in sent] == ["allreduce", "pipeline", "permute", "permute"]
    assert sent[3].pairs.tolist() == [[0, 2], [2, 0]]


PROGRAM = """
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "tensor"))
def place(*names):
    return NamedSharding(mesh, P(*names))
def step(x, w, v):
    h = jax.lax.with_sharding_constraint(x @ w, place("data", "tensor"))
    return jax.lax.with_sharding_constraint(h @ v, place("data", None))
shapes = [jax.ShapeDtypeStruct(s, jnp.float32) for s in ((64, 128), (128, 512), (512, 128))]
places = place("data", None), place(None, "tensor"), place("tensor", None)
print(jax.jit(step, in_shardings=places).lower(*shapes).compile().as_text())
"""


def test_a_program_that_jax_compiles_is_read():
    pytest.importorskip("jax", reason="JAX is not installed")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=300
    )
    _, sent = hlo_traffic(parse_hlo(done.stdout), parse_axes("data=2,tensor=4"))
    # A row of the layer's output on each of data's halves, summed over tensor.
    assert [(each.collective, each.axes, each.nbytes) for each in sent] == [
        ("allreduce", ("tensor",), 32 * 128 * 4)
    ]


def test_a_program_is_a_graph_too(tmp_path):
    path = tmp_path / "step.txt"
    path.write_text(LOOPS)
    workload = tc.read_workload(path)
    # A ring of two: each sends half of the buffer, twice, 16 times.
    assert workload.n_tasks == 8
    assert workload.total.nbytes.tolist() == [64.0 * 16] * 8
    assert sorted(zip(workload.total.src, workload.total.dst, strict=True))[:2] == [(0, 1), (1, 0)]
    with pytest.raises(InputError, match="algorithm"):
        tc.read_workload(path, collectives={"allreduce": "none"})


def test_groups_with_blanks_between_their_devices():
    assert read_groups("{{0 1},{2, 3}}", 4).tolist() == [[0, 1], [2, 3]]
