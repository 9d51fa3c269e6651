"""Studies of Blue Gene and Blue Waters, on small files and on the published ones."""

import numpy as np
import pandas as pd
import pytest

from studies.blue_gene import link_counts, static_routes
from studies.blue_waters import contention, multigrid
from studies.study import Inputs
from toruscast import InputError, TaskMapping, Torus
from toruscast.mapping import MappingProblem
from toruscast.routing import link_loads

PARTS = [link_counts.run, static_routes.run, contention.run, multigrid.run]
AMG = """Level 0
A*x
Max Num Msgs: 2
Total Bytes = 4096
Byte Hops = 8192
Num Active Processes: 16
Comm Time: 1.5e-05
"""
LINE = """Pingpong for
master: {0}
partner: {0}
Num Msgs 1
SizeMsgs 16384
{1}e-03 8.9e-03
"""
ROUTE = "Hop 1: [12-8] 12 (0 1 1 0 0 0) -> 8 (0 1 0 0 0 0)\n"


@pytest.mark.parametrize("part", PARTS)
def test_absent_measurements_are_told_with_their_place(part, tmp_path):
    with pytest.raises(InputError, match="measurements not found: expected files "):
        part(Inputs(data=tmp_path))


@pytest.fixture
def amg(tmp_path):
    folder = tmp_path / "bluewatersmodel" / "amg_models"
    folder.mkdir(parents=True)
    return folder


def test_amg_jobs_that_are_missing_are_told(amg, tmp_path):
    (amg / "any_128.out").write_text(AMG)
    with pytest.raises(InputError, match=r"jobs missing: expected jobs of at most 1024"):
        multigrid.read_all(Inputs(data=tmp_path))


def test_amg_runs_in_two_files_count_once(amg, tmp_path):
    for size in (128, 2048, 8192):
        (amg / f"any_{size}.out").write_text(AMG.replace("1.5e", f"1.{size}e"))
    other = AMG + AMG.replace("Level 0\n", "").replace("A*x", "P.T*r")
    (amg / "two_8192_8505747.bw.out").write_text(AMG.replace("1.5e", "1.8192e") + other)
    table = multigrid.read_all(Inputs(data=tmp_path))
    assert sorted(table["n_processes"]) == [128, 2048, 8192, 8192]
    assert table["file"].tolist().count("two_8192_8505747.bw.out") == 1


@pytest.fixture
def lines(tmp_path):
    """Write jobs along a line."""
    folder = tmp_path / "bluewatersmodel" / "contention"
    folder.mkdir(parents=True)

    def _lines(jobs):
        for name, (ranks, first) in jobs.items():
            (folder / name).write_text(LINE.format("1," * (ranks // 2), first))
        return Inputs(data=tmp_path)

    return _lines


def test_bandwidth_is_bytes_through_the_middle_over_time(lines):
    inputs = lines({"x_128.out": (128, 8.9), "x_256.out": (256, 8.9), "all_128.out": (128, 8.9)})
    jobs = contention.bandwidths(contention.read_all(inputs)).set_index("job")
    assert jobs.loc["x_128.out", "bandwidth"] == pytest.approx(64 * 65536 / 8.9e-3 / 1e9)
    assert list(jobs.index) == ["x_128.out", "x_256.out"]
    found = contention.run(inputs)
    # The same time for twice the bytes: twice the bandwidth, so that the forecast is twice as slow.
    wrong = {target.what: target.reached for target in found.targets}
    assert wrong["mean relative error, 256 ranks, x"] == pytest.approx(1.0)


def test_both_lengths_are_needed_and_a_job_under_another_name_counts_once(lines):
    with pytest.raises(InputError, match="jobs missing"):
        contention.read_all(lines({"a_x.out": (128, 8.1)}))
    inputs = lines({"b_x.out": (128, 8.1), "c_x.out": (256, 8.4)})
    assert sorted(set(contention.read_all(inputs)["job"])) == ["a_x.out", "c_x.out"]


def write_links(tmp_path, packets):
    """Counters of region 3 on every link: ``packets`` by C order of node and direction."""
    path = tmp_path / link_counts.FILE
    path.parent.mkdir(parents=True)
    torus = Torus(link_counts.SHAPE)
    begin = np.repeat(torus.coords, 6, axis=0)
    rows = np.column_stack([begin, torus.coords[torus.neighbors.ravel()], np.full(len(begin), 3)])
    names = ("sx", "sy", "sz", "tx", "ty", "tz", "code_region", "packets")
    header = "".join(f"- [{name}, int64]\n" for name in names)
    lines = "\n".join(" ".join(map(str, row)) for row in np.column_stack([rows, packets]))
    path.write_text(f"---\nkey: TEST\n---\n{header}...\n{lines}\n")
    return Inputs(data=tmp_path)


def test_the_pattern_that_was_counted_is_found(tmp_path):
    torus = Torus(link_counts.SHAPE)
    mapping = TaskMapping(np.arange(512), torus)
    load = link_loads(
        MappingProblem(link_counts.neighbourhoods()["6 face neighbours"], torus), mapping
    )
    found = link_counts.run(write_links(tmp_path, 9 * load.astype(int)))
    regions = found.tables["link-counts"]
    assert regions["pattern"].tolist() == ["6 face neighbours"]
    assert regions["correlation_kept"].tolist() == pytest.approx([1.0])
    assert regions["idle_links_agree"].tolist() == [1.0]


@pytest.mark.parametrize(
    ("packets", "fault"), [(0, "counters without packets"), (-5, "bad packets: found -5")]
)
def test_counters_that_count_nothing_are_refused(packets, fault, tmp_path):
    inputs = write_links(tmp_path, np.full(3072, packets))
    with pytest.raises(InputError, match=f"bgpc_links.yaml: {fault}"):
        link_counts.run(inputs)


def test_a_file_that_cannot_be_used_stops_no_other(tmp_path):
    for kind, text in {"route": ROUTE, "hopbyte": "0 1 64 0\n"}.items():
        folder = tmp_path / "par-comm-data" / kind
        folder.mkdir(parents=True)
        (folder / f"a_n32_c1_{kind}.txt").write_text(text)
        (folder / f"b_{kind}.txt").write_text(text)
        (folder / f"c_n32_c1_{kind}.txt").write_text("?\n")
    (tmp_path / "par-comm-data/route/a_n32_c1_route.txt").write_text(
        "Hop 1: [0-1] 0 (0 0 0 0 0 0) -> 1 (0 0 0 0 1 0)\n"
    )
    found = static_routes.run(Inputs(data=tmp_path))
    assert found.tables["static-routes"]["dataset"].tolist() == ["a_n32_c1"]
    assert "Left out: b_route.txt (unknown block)." in found.text
    assert "c_n32_c1_hopbyte.txt (row of another length)" in found.text
    for path in (tmp_path / "par-comm-data/route").glob("*.txt"):
        path.write_text("?\n")
    with pytest.raises(InputError, match="no file can be used"):
        static_routes.run(Inputs(data=tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_runs_on_the_real_files(shared_data, part):
    targets = {target.what: target for target in part(Inputs(data=shared_data)).targets}
    assert all(target.met in (True, None) for target in targets.values())
    if part is multigrid.run:
        assert targets["RCC, trees on the columns, all"].reached > 0.88
    assert pd.notna([target.reached for target in targets.values()]).all()
