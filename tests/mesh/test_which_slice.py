"""Slices of so many chips, ranked for a step."""

import json

import pytest
from click.testing import CliRunner

import toruscast as tc
from toruscast._mesh import which_slice
from toruscast._mesh.ranking import list_slices
from toruscast.cli import main
from toruscast.errors import InputError

HLO = """HloModule step, num_partitions=16
ENTRY %main (p: f32[64,512]) -> f32[256,512] {
  %ar = f32[64,512] all-reduce(%p), replica_groups=[4,4]<=[16], use_global_device_ids=true
  ROOT %ag = f32[256,512] all-gather(%ar), replica_groups=[4,4]<=[4,4]T(1,0), dimensions={0}
}
"""


@pytest.mark.parametrize(
    ("name", "n_chips", "shapes"),
    [
        ("tpu_v4", 4, ["1x2x2"]),
        ("tpu_v4", 128, ["2x2x32", "2x4x16", "2x8x8", "4x4x8", "4x4x8:untwisted"]),
        ("tpu_v5e", 128, ["8x16"]),
        ("tpu_v6e", 512, []),
        ("tpu7x", 64, ["2x2x16", "2x4x8", "4x4x4"]),
        ("trainium2", 4, ["2x2"]),
        ("trainium2", 8, ["2x4"]),
        ("trainium1", 1, ["1x1"]),
        ("trainium2", 16, ["4x4"]),
        ("trainium2", 64, ["4x4x4"]),
        ("trainium2", 32, []),
        ("galaxy", 32, ["2x16", "4x8"]),
    ],
)
def test_every_shape_of_so_many_chips_is_given(name, n_chips, shapes):
    assert [text.partition(":")[2] for text, _ in list_slices(name, n_chips)] == shapes


def test_slices_are_ranked_by_what_their_best_layout_takes():
    axes, sends = {"x": 8, "y": 16}, "x:allgather:64MB,y:allreduce:16MB"
    found = which_slice(128, axes, sends, "tpu_v4", simulate=0)
    times = found.table["time"]
    assert times.is_monotonic_increasing
    for text, time in zip(found.slices, times, strict=True):
        own = tc.mesh(tc.torus(text), axes, sends, simulate=0)
        assert time == pytest.approx(own.best.time)
    assert found.table.set_index("slice")["twisted"].to_dict() == {
        text: text == "tpu_v4:4x4x8" for text in found.slices
    }


def test_the_fastest_are_simulated():
    found = which_slice(16, {"x": 16}, "x:allreduce:4MB", ("tpu_v4", "tpu_v5e"))
    assert found.table["source"].tolist()[0] == "simulated"
    assert (found.table["source"] == "simulated").sum() == min(3, len(found.table))


def test_twisted_slices_are_better_for_all_to_alls():
    found = which_slice(128, {"x": 128}, "x:alltoall:64MB", "tpu_v4", simulate=0)
    first, second = found.slices[:2]
    assert (first, second) == ("tpu_v4:4x4x8", "tpu_v4:4x4x8:untwisted")


@pytest.mark.parametrize(
    ("n_chips", "machines", "message"),
    [
        (7, "tpu_v5e", "mesh too large"),
        (512, "tpu_v5e", "no slice with this many chips: found 512 of tpu_v5e"),
        (8, "tpu_v4:2x2x2", "expected the machine alone, tpu_v4"),
        (8, "trainium3", "no torus"),
        (0, "tpu_v4", "number of chips"),
    ],
)
def test_wrong_questions_are_told(n_chips, machines, message):
    with pytest.raises(InputError, match=message):
        which_slice(n_chips, {"x": 64}, "x:allreduce:1MB", machines, simulate=0)


def test_the_command_ranks_slices_for_a_compiled_step(tmp_path):
    (tmp_path / "step.hlo").write_text(HLO)
    asked = ["mesh", "--compile", str(tmp_path / "step.hlo"), "--slices", "16"]
    ran = CliRunner().invoke(main, [*asked, "--json", "-"])
    assert ran.exit_code == 0, ran.stderr
    ranking = json.loads(ran.stdout)["ranking"]
    assert {"tpu_v4:2x2x4", "tpu_v6e:4x4", "trainium2:4x4"} <= {row["slice"] for row in ranking}
    ran = CliRunner().invoke(main, [*asked, "--torus", "tpu_v4"])
    assert ran.exit_code == 0
    assert "tpu_v4:2x2x4" in ran.stdout
    assert "Times include communication only, not computation." in ran.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--slices", "4", "--write", "a.json"], "--write cannot be used with --slices"),
        (["--slices", "4", "--network", "overhead=1us"], "--network cannot be used with --slices"),
        (
            ["--slices", "4", "--devices-per-chip", "2"],
            "--devices-per-chip cannot be used with --slices",
        ),
        ([], "give either --torus or --slices"),
    ],
)
def test_wrong_options_are_told(words, message):
    asked = ["mesh", "--axes", "x=4", "--traffic", "x:allreduce:1MB", *words]
    ran = CliRunner().invoke(main, asked)
    assert ran.exit_code == 2
    assert message in ran.stderr
