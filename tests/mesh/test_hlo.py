"""Collectives of compiled programs: groups, sizes, loops, and the axes that they lie along."""

import subprocess
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toruscast as tc
from toruscast._mesh.hlo import parse_hlo, parse_program, read_hlo
from toruscast._mesh.hlo_groups import count_bytes, parse_groups, split_tuple
from toruscast._mesh.traffic import convert_hlo_step, parse_axes
from toruscast.errors import InputError
from toruscast.formats.graphs import GraphOptions
from toruscast.formats.source import as_text
from toruscast.mapping import Omission
from toruscast.mapping.omissions import describe_omissions

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
    assert [(each.name, each.runs) for each in step.collectives] == [("a", 1)]


def test_loops_count_as_often_as_they_run():
    step = parse_hlo(LOOPS)
    assert step.n_devices == 8
    # Five times three, and once more with the same groups told in another way.
    (found,) = step.collectives
    assert (found.name, found.runs, found.nbytes) == ("all-reduce.1", 16, 64)


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
    assert [(each.name, each.runs) for each in step.collectives] == [("a2a", 1)]


def test_what_is_not_known_is_named():
    step = parse_hlo("HloModule m\nr.1 = f32[8] ragged-all-to-all(x), replica_groups={{0,1}}\n")
    assert step.collectives == ()
    assert step.omitted == (Omission("ragged-all-to-all", "r.1", reason="--ragged-bytes sets it"),)


@given(st.permutations(range(3)), st.tuples(*[st.integers(1, 4)] * 3), st.data())
def test_iotas_are_a_reshape_and_a_transpose(order, dims, data):
    n = int(np.prod(dims))
    size = data.draw(st.sampled_from([d for d in range(1, n + 1) if n % d == 0]))
    flat = [
        i * dims[1] * dims[2] + j * dims[2] + k
        for i, j, k in sorted(np.ndindex(*dims), key=lambda place: [place[d] for d in order])
    ]
    text = f"[{n // size},{size}]<=[{','.join(map(str, dims))}]T({','.join(map(str, order))})"
    assert parse_groups(text, n).ravel().tolist() == flat


@pytest.mark.parametrize(
    "text",
    ["{{0,1},{2}}", "[2,2]<=[8]", "[2,2]<=[2,2]T(0,0)", "{{}}", "@mesh", "{0", "[4]<=[4]", "", "x"],
)
def test_groups_of_other_forms_are_none(text):
    assert parse_groups(text, 4) is None


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
    assert count_bytes("(f8e4m3fn[4], s4[8], c64[2], u64[1], token[])") == 4 + 4 + 16 + 8
    assert split_tuple("f32[2]") == ["f32[2]"]
    assert split_tuple("(f32[2,3]{1,0:T(8,128)}, (s8[1], s8[2]))")[1] == "(s8[1], s8[2])"


def test_axes_are_told_by_the_groups():
    text = (
        "a = f32[8] all-reduce(x), replica_groups=[4,4]<=[16]\n"
        "b = f32[8] all-gather(x), replica_groups=[8,2]<=[2,8]T(1,0)\n"
        "c = f32[8] all-reduce(x), replica_groups=[2,8]<=[16]\n"
        "d = f32[8] all-reduce(x), replica_groups={{0,3},{1,2}}\n"
    )
    axes, sent = convert_hlo_step(parse_hlo(text))
    assert axes.sizes == (2, 2, 4)
    assert [each.axes for each in sent] == [("m2",), ("m0",), ("m1", "m2"), ()]
    named = convert_hlo_step(parse_hlo(text), parse_axes("data=2,fsdp=2,tensor=4"))[1]
    assert [each.label for each in named] == [
        "a (tensor)",
        "b (data)",
        "c (fsdp+tensor)",
        "d (groups)",
    ]
    with pytest.raises(InputError, match="another program"):
        convert_hlo_step(parse_hlo(text), parse_axes("data=2,fsdp=2"))


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
    _, sent = convert_hlo_step(parse_hlo(text))
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
    _, sent = convert_hlo_step(parse_hlo(done.stdout), parse_axes("data=2,tensor=4"))
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
    assert parse_groups("{{0 1},{2, 3}}", 4).tolist() == [[0, 1], [2, 3]]


def sent(step):
    """Bytes of a ring, from the definition: who sends how much in how many rounds."""
    total = 0
    for each in step.collectives:
        for group in each.groups:
            n = len(group)
            rounds, block = {
                "allreduce": (2 * (n - 1), each.nbytes / n),
                "permute": (1, each.nbytes / n),
            }.get(each.kind, (n - 1, each.nbytes / n))
            total += each.runs * rounds * n * block
    return total


# Programs of JAX 0.10 on 2x4 processors; a device holds 32x16 numbers, 2048 bytes. The names of
# what is open, and bytes counted from the program that was compiled: a ring of four sends 8 times
# 2048 in a shift, 2 * 3 * 2048 in each of two groups for a sum, half of that for a half of it.
SHIFT, SUM_Y, SUM_X = 8 * 2048, 2 * 6 * 2048, 4 * 2 * 2048
PROGRAMS = {
    "all_to_all": (8 * 2048 * 3 // 4, {}),
    "cond_axes": (SUM_Y, {"conditional.1.clone=0": SUM_X}),
    "fori_known": (5 * SHIFT, {}),
    "host_callback": (SUM_Y, {}),
    "loop_in_cond": (6 * SHIFT, {"conditional.1.clone=0": SUM_Y}),
    "nested_cond": (SUM_Y, {"conditional.2.clone=0": 0, "conditional.clone=0": SHIFT}),
    "pipeline": (7 * 6 * 2048, {}),
    # The processor sums bfloat16 as float32.
    "psum_of_two": (2 * SUM_Y, {}),
    "psum_scatter": (7 * 2048, {}),
    "scan_psum_scatter": (3 * SUM_Y, {}),
    "switch_in_loop": (
        4 * SHIFT,
        {"conditional.clone.2=0": 0, "conditional.clone.2=2": 4 * SUM_X},
    ),
    "while_loop": (SHIFT, {"while.9": SHIFT}),
    # The condition sums a number over all eight.
    "while_reduced_condition": (SHIFT + 14 * 4, {"while.7": SHIFT + 14 * 4}),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_jax_send_what_was_compiled(name):
    path = Path(__file__).parents[1] / f"data/hlo/{name}.hlo"
    step = read_hlo(path)
    total, omitted = PROGRAMS[name]
    assert sent(step) == total
    found = {each.where.split()[0]: each.nbytes for each in step.omitted}
    assert found == omitted
    assert tc.read_workload(path).omitted == step.omitted


def read(tmp_path, body, head="HloModule m, num_partitions=8", **how):
    path = tmp_path / "step.hlo"
    path.write_text(f"{head}\n{body}\n")
    step = read_hlo(path, **how)
    assert tc.read_workload(path, **how).omitted == step.omitted
    return step


def entry(*lines):
    """A program of these instructions, behind the computations that have braces."""
    before = [line for line in lines if "{\n" in line]
    return "\n".join([*before, "ENTRY %main {", *(x for x in lines if x not in before), "}"])


ALL = "replica_groups=[1,8]<=[8]"
REDUCED = "%ar = f32[256] all-reduce(%q), channel_id=1, use_global_device_ids=true, " + ALL
FUSED = "%c = f32[32] fusion(%p), kind=kCustom, calls=%fused"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("ROOT %d = f32[32] dynamic-slice(%ar, %z)", "reduce_scatter"),
        ("%b = f32[8,32] bitcast(%ar)\nROOT %d = f32[1,32] dynamic-slice(%b)", "reduce_scatter"),
        (
            "%b = bf16[256] convert(f32[256] %ar)\n%d = bf16[32] slice(%b)\nROOT %t = () tuple(%d)",
            "reduce_scatter",
        ),
        # Half of it needs more than a piece of each device.
        ("ROOT %d = f32[128] dynamic-slice(%ar, %z)", "allreduce"),
        ("%d = f32[32] dynamic-slice(%ar, %z)\nROOT %t = (f32[256]) tuple(%ar)", "allreduce"),
        ("%s = f32[] reduce(%ar, %z)\nROOT %d = f32[32] dynamic-slice(%q, %z)", "allreduce"),
        ("ROOT %d = f32[256] multiply(%ar, %ar)", "allreduce"),
    ],
)
def test_an_all_reduce_of_which_a_fusion_keeps_pieces_is_a_reduce_scatter(tmp_path, body, kind):
    fused = f"%fused (q: f32[256]) -> f32[32] {{\n{REDUCED}\n{body}\n}}"
    (found,) = read(tmp_path, entry(fused, FUSED)).collectives
    assert (found.kind, found.nbytes) == (kind, 1024)
    called = entry(fused, FUSED.replace("fusion", "call").replace("calls", "to_apply"))
    assert read(tmp_path, called).collectives[0].kind == "allreduce"


def test_the_name_of_a_fusion_tells_a_reduce_scatter_too(tmp_path):
    fused = f"%all-reduce-scatter.3 (q: f32[256]) -> f32[32] {{\n{REDUCED}\nROOT %o = f() x()\n}}"
    step = read(tmp_path, entry(fused, FUSED.replace("%fused", "%all-reduce-scatter.3")))
    assert (step.collectives[0].kind, sent(step)) == ("reduce_scatter", 7 * 1024)


SENT = "frontend_attributes={_xla_send_recv_source_target_pairs=%s}"


@pytest.mark.parametrize("pairs", ["{{0,1},{1,2}}", '"{{0,1},{1,2}}"', '"{{0, 1}, {1, 2}}"'])
def test_sends_are_messages_and_are_not_received_twice(tmp_path, pairs):
    ends = SENT % pairs
    lines = (
        f"%r = (f32[256], u32[], token[]) recv(%t), channel_id=1, {ends}",
        "%rd = (f32[256], token[]) recv-done(%r), channel_id=1",
        f"%s = (f32[256], u32[], token[]) send(%p, %t), channel_id=1, {ends}",
        "%sd = token[] send-done(%s), channel_id=1",
    )
    step = read(tmp_path, entry(*lines))
    (found,) = step.collectives
    assert (found.kind, found.nbytes, found.groups.tolist()) == ("permute", 1024, [[0, 1], [1, 2]])
    assert step.omitted == ()
    alone = read(tmp_path, entry(*lines[:2], REDUCED))
    assert describe_omissions(alone.omitted) == (
        "Not counted: 1 recv (r), 1.02 kB, without a sender."
    )


def test_a_broadcast_is_a_chain(tmp_path):
    line = "%b = f32[256] collective-broadcast(%p), channel_id=1, replica_groups={{2,0,1},{3,4,5}}"
    step = read(tmp_path, entry(line), "HloModule m, num_partitions=6")
    assert step.collectives[0].groups.tolist() == [[2, 0], [0, 1], [3, 4], [4, 5]]
    assert sent(step) == 4 * 1024
    assert step.omitted == ()


def test_the_size_of_a_ragged_exchange_is_stated(tmp_path):
    line = f"%d = f32[256] ragged-all-to-all(%p, %o), channel_id=1, {ALL}"
    step = read(tmp_path, entry(REDUCED, line))
    assert describe_omissions(step.omitted) == (
        "Not counted: 1 ragged-all-to-all (d), size unknown, --ragged-bytes sets it."
    )
    stated = read(tmp_path, entry(line), ragged_bytes=800)
    assert (stated.collectives[0].kind, sent(stated), stated.omitted) == ("alltoall", 5600, ())
    with pytest.raises(InputError, match=r"step.hlo: no collective .*--ragged-bytes sets it"):
        read(tmp_path, entry(line))
    with pytest.raises(InputError, match="expected no --ragged-bytes"):
        read(tmp_path, entry(REDUCED), ragged_bytes=800)


@pytest.mark.parametrize(
    ("line", "what", "size"),
    [
        ("%i = ((f32[8]), token[]) infeed(%t)", "infeed", 32),
        ("%o = token[] outfeed(%p, %t), outfeed_shape=f32[8]", "outfeed", None),
        ("%s = (f32[8], u32[], token[]) send(%p), is_host_transfer=true", "send", 32),
        ("%s = (f32[8], u32[], token[]) send(%p), channel_id=4", "send", 32),
        ("%r = (f32[8], u32[], token[]) recv(%t), is_host_transfer=true", "recv", 32),
        ('%c = f32[8] custom-call(%p), custom_call_target="ncclAllGather"', "ncclAllGather", None),
        ('%c = f32[8] custom-call(%p), custom_call_target="mpi_sendrecv"', "mpi_sendrecv", None),
        (
            '%c = f32[8] custom-call(%p), custom_call_target="tpu_custom_call", backend_config='
            '{"custom_call_config": {"has_communication": true}}',
            "tpu_custom_call",
            None,
        ),
        (f"%n = f32[8] all-gather-v(%p), {ALL}", "all-gather-v", None),
        (f"%n = f32[8] new-exchange(%p), {ALL}", "new-exchange", None),
        ("%n = f32[8] new-shift-start(%p), source_target_pairs={{0,1}}", "new-shift", None),
        ("%a = ((f32[8]), f32[8]) async-start(%p), calls=%gone", "async", None),
        ("%l = f32[8] while(%p), condition=%c, body=%gone", "while", None),
        ("%f = f32[8] fusion(%p), kind=kCustom, calls=%all-reduce-scatter.4", "fusion", None),
    ],
)
def test_what_communicates_and_cannot_be_counted_is_listed(tmp_path, line, what, size):
    found = [e for e in read(tmp_path, entry(REDUCED, line)).omitted if e.effect == "not counted"]
    assert [(each.what.split()[-1], each.where, each.nbytes) for each in found] == [
        (what, line[1], size)
    ]


@pytest.mark.parametrize(
    "line",
    [
        "%a = token[] after-all()",
        "%b = f32[8,8] broadcast(%p), dimensions={0}",
        "%c = f32[8] atan2(%p, %p)",
        '%d = f32[8] custom-call(%p), custom_call_target="__cublas$gemm"',
        '%d = f32[8] custom-call(%p), custom_call_target="Sharding", sharding={replicated}',
        "%e = f32[8] ragged-dot(%p, %p, %p)",
        "%f = f32[8] opt-barrier(%p)",
        "%g = u32[] partition-id()",
        "%h = f32[8] fusion(%p), kind=kLoop, calls=%gone",
        "%i = f32[8] select-and-scatter(%p, %q), scatter=%add",
        "%j = (f32[8], f32[8], u32[]) copy-start(%p)",
        "%k = (f32[8], s32[8]) sort(%p, %q), to_apply=%compare",
        '%l = f32[8] custom-call(%p), custom_call_target="topk", called_computations={}',
    ],
)
def test_what_computes_is_not_listed(tmp_path, line):
    assert read(tmp_path, entry(REDUCED, line)).omitted == ()


@pytest.mark.parametrize("opcode", ["gossip", "Gossip", "all_shuffle", "gossip-update"])
def test_an_unknown_opcode_is_listed(tmp_path, opcode):
    step = read(tmp_path, entry(REDUCED, f"%g = f32[8] {opcode}(%ar)"))
    assert [(each.what, each.where) for each in step.omitted] == [(opcode, "g")]


def test_lines_outside_of_computations_are_listed_but_not_those_of_origins(tmp_path):
    tables = 'FileNames\n1 "step.py"\n\nFileLocations\n1 {file_name_id=1 line=10}\n// made by hand'
    assert read(tmp_path, f"{tables}\n{entry(REDUCED)}").omitted == ()
    step = read(tmp_path, f"Sections\n{entry(REDUCED)}")
    assert [(each.what, each.where) for each in step.omitted] == [("line", "line 2")]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("%ar = f32[8] all-reduce(%p),\nreplica_groups={{0,1}}",), "4: no instruction"),
        (("%c = s32[2,2] constant(\n{ 1, 2 }, { 3, 4 })", REDUCED), "4: no instruction"),
        ((REDUCED, "}\nHloModule other"), "5: several programs"),
        ((f"%ar = zz[8] all-reduce(%p), {ALL}",), "3: bad type of ar: found zz"),
        ((f"%ar = none all-reduce(%p), {ALL}",), "3: bad type of ar: found none"),
        (
            ("%ar = f32[8] all-reduce(%p), replica_groups={{0,1},{1,2}}",),
            "duplicate device in replica",
        ),
        (
            ("%cp = f32[8] collective-permute(%p), source_target_pairs={{0,1},{2,1}}",),
            "3: duplicate device in source_target_pairs of cp",
        ),
        (
            ("%cp = f32[8] collective-permute(%p), source_target_pairs={{0,9}}",),
            "3: device of cp out of range: found 9, expected 0 to 7",
        ),
    ],
)
def test_what_no_program_has_is_refused(tmp_path, lines, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path, entry(*lines))


@pytest.mark.parametrize("start", ["\ufeff", "// step of a model\n", "\n // a\n // b\n"])
def test_a_program_may_begin_with_a_mark_or_comments(tmp_path, start):
    step = read(tmp_path, entry(REDUCED), f"{start}HloModule m, num_partitions=8")
    assert (sent(step), step.omitted) == (14 * 1024, ())


def render(tree, names, blocks, times=1):
    """Write a computation of nested loops, conditionals and shifts; return its name and facts.

    The facts are the bytes that a run sends, and those of each open loop and branch, all counted
    while it is written.
    """
    where, lines, total, open_ones = f"c{next(names)}", [], 0, {}
    for kind, *rest in tree:
        name = f"i{next(names)}"
        if kind == "shift":
            pairs = "source_target_pairs={{0,1},{1,2}}"
            lines.append(f"%{name} = f32[{rest[0]}] collective-permute(%p), {pairs}")
            total += 8 * rest[0]
        elif kind == "loop":
            often = rest[0] or 1
            body, inside, found = render(rest[1], names, blocks, times * often)
            stated = f', backend_config={{"known_trip_count":{{"n":"{often}"}}}}' * bool(rest[0])
            lines.append(f"%{name} = f() while(%p), condition=%g, body=%{body}{stated}")
            total += often * inside
            open_ones |= found
            if rest[0] is None and (inside or found):
                open_ones[name] = times * inside
        else:
            made = [render(branch, names, blocks, times) for branch in rest[0]]
            sizes = [inside for _, inside, _ in made]
            best = sizes.index(max(sizes))
            listed = ",".join(f"%{body}" for body, _, _ in made)
            form = f"branch_computations={{{listed}}}"
            if len(made) == 2:
                form = f"true_computation=%{made[0][0]}, false_computation=%{made[1][0]}"
            lines.append(f"%{name} = f() conditional(%p, %p), {form}")
            total += sizes[best]
            open_ones |= made[best][2]
            if any(sizes):
                others = {f"{name}={k}": times * n for k, n in enumerate(sizes) if k != best}
                open_ones |= others
    blocks.append(f"%{where} (p: f32[]) -> f32[] {{\n" + "\n".join(lines) + "\n}")
    return where, total, open_ones


TREES = st.recursive(
    st.lists(st.tuples(st.just("shift"), st.integers(1, 9)), max_size=2),
    lambda inside: st.lists(
        st.one_of(
            st.tuples(st.just("shift"), st.integers(1, 9)),
            st.tuples(st.just("loop"), st.sampled_from([None, 1, 3, 10]), inside),
            st.tuples(st.just("conditional"), st.lists(inside, min_size=1, max_size=3)),
        ),
        max_size=3,
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(TREES)
def test_nested_loops_and_branches_send_what_their_own_program_counts(tree):
    names, blocks = count(), []
    main, total, open_ones = render(tree, names, blocks)
    text = "\n".join(["HloModule m, num_partitions=4", *blocks]).replace(
        f"%{main} (", f"ENTRY {main} ("
    )
    step = parse_hlo(text)
    assert sent(step) == total
    assert {each.where.split()[0]: each.nbytes for each in step.omitted} == open_ones
    loops = [name for name in open_ones if "=" not in name]
    if loops:
        # Stated once each, nothing changes but that they are no longer open.
        options = GraphOptions(trips=dict.fromkeys(loops, 1))
        stated = parse_program(as_text("a", text.encode()), options)
        assert sent(stated) == total
        assert not [each for each in stated.omitted if each.what == "loop"]


WHILE = Path(__file__).parents[1] / "data/hlo/while_loop.hlo"
COND = WHILE.with_name("cond_axes.hlo")


@pytest.mark.parametrize("trips", [64, {"while.9": 64}, {"": 3, "while.9": 64}])
def test_turns_of_a_loop_are_stated(trips):
    step = read_hlo(WHILE, trips=trips)
    assert (sent(step), step.omitted) == (64 * SHIFT, ())
    assert tc.read_workload(WHILE, trips=trips).total.nbytes.sum() == 64 * SHIFT


def test_a_branch_is_chosen():
    step = read_hlo(COND, branches={"conditional.1.clone": 0})
    assert (sent(step), step.omitted) == (SUM_X, ())


@pytest.mark.parametrize(
    ("file", "how", "message"),
    [
        (WHILE, {"trips": {"while.8": 2}}, "found while.8, expected while.9"),
        (WHILE, {"trips": 0}, "bad trips of while.9"),
        (COND, {"trips": 2}, "no loop with unknown trip count"),
        (COND, {"branches": {"conditional.1.clone": 2}}, "found 2, expected 0 to 1"),
        (WHILE, {"branches": {"x": 0}}, "no conditional that sends: found x, expected no --branch"),
        (COND, {"branches": {"": 1}}, "no conditional that sends: expected conditional.1.clone"),
        (WHILE, {"trips": {1: 2}}, "found 1, expected while.9"),
    ],
)
def test_what_is_stated_of_nothing_is_refused(file, how, message):
    for reader in (read_hlo, tc.read_workload):
        with pytest.raises(InputError, match=message) as error:
            reader(file, **how)
        assert error.value.file == str(file)


@pytest.mark.parametrize("reader", [read_hlo, tc.read_workload])
def test_branches_of_a_wrong_type_are_refused(reader):
    with pytest.raises(InputError, match="bad branches: found 1"):
        reader(COND, branches=1)


def test_files_without_a_program_have_no_loops(tmp_path):
    (tmp_path / "pair.edges").write_text("0 1 8\n")
    with pytest.raises(InputError, match="no loops to count"):
        tc.read_workload(tmp_path / "pair.edges", trips=3)


@given(st.text(st.sampled_from("8,<= \t\v\x0c\x1c\x85\u2003x"), max_size=8))
def test_blanks_inside_a_shape_are_read_or_refused(inside):
    line = f"a = f32[{inside}] all-reduce(x), replica_groups={{{{0,1}}}}"
    with suppress(InputError):
        assert parse_hlo(f"HloModule m\n{line}").n_devices == 2


def test_computations_that_run_each_other_are_refused():
    text = (
        "HloModule m\n%a {\n%x = f() call(), to_apply=%b\n}\n%b {\n%y = f() call(), to_apply=%a\n}"
    )
    with pytest.raises(InputError, match="run each other"):
        parse_hlo(text)
