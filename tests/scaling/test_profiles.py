"""Profiles of Caliper and Thicket: metadata as parameters, one value for all processes of a run."""

import json
import sys

import pytest
from click.testing import CliRunner

from toruscast.cli import main
from toruscast.errors import InputError
from toruscast.scaling import read_measurements

# Attributes as Caliper writes them: two metadata, a nested region, the rank, a metric, its alias.
HEAD = """\
__rec=node,id=12,attr=10,data=64,parent=3
__rec=node,id=13,attr=8,data=attribute.alias,parent=12
__rec=node,id=20,attr=10,data=576,parent=1
__rec=node,id=21,attr=8,data=ranks,parent=20
__rec=node,id=22,attr=8,data=launchdate,parent=20
__rec=node,id=23,attr=10,data=276,parent=3
__rec=node,id=24,attr=8,data=function,parent=23
__rec=node,id=25,attr=10,data=65,parent=1
__rec=node,id=26,attr=8,data=mpi.rank,parent=25
__rec=node,id=27,attr=13,data=seconds,parent=5
__rec=node,id=28,attr=10,data=65,parent=27
__rec=node,id=29,attr=8,data=sum#time.duration,parent=28
__rec=node,id=40,attr=24,data=main
__rec=node,id=41,attr=24,data=solve,parent=40
"""


def caliper(ranks, launched, rows):
    """A profile: rows of region, process and seconds."""
    records = [f"__rec=ctx,ref={ref},attr=26=29,data={rank}={time}" for ref, rank, time in rows]
    metadata = f"__rec=globals,attr=21=22,data={ranks}={launched}"
    return HEAD + "\n".join([*records, metadata]) + "\n"


@pytest.fixture
def runs(tmp_path):
    """Three runs; main takes as long on each process as its number, solve twice on one."""
    for launched, ranks in enumerate((2, 4, 8)):
        rows = [(40, rank, 1.0 + rank) for rank in range(ranks)]
        rows += [(41, 0, 3.0 * ranks), (41, 0, 2.0 * ranks)]
        (tmp_path / f"{ranks}.cali").write_text(caliper(ranks, launched, rows))
    return tmp_path


def thicket(**changes):
    """What Thicket.to_json writes of two runs, as far as it is read."""
    return {
        "graph": [
            {
                "0": {"data": {"name": "main"}, "children": [1], "parents": []},
                "1": {"data": {"name": "solve"}, "children": [], "parents": [0]},
            }
        ],
        "dataframe": [
            {"node": node, "profile": k, "nid": 1.0, "Avg time/rank": time, "name": "n"}
            for k in (5, 6)
            for node, time in ((0, 2.0 * k), (1, None if k == 5 else 7.0))
        ],
        "metadata": [{"profile": k, "jobsize": str(10 * k), "user": "t"} for k in (5, 6)],
        "inclusive_metrics": [],
        "exclusive_metrics": ["Avg time/rank"],
        "profile_idx_name": "profile",
        **changes,
    }


@pytest.mark.parametrize(("reduce", "expected"), [(None, [1.5, 2.5, 4.5]), ("max", [2, 4, 8])])
def test_caliper(runs, reduce, expected):
    pytest.importorskip("caliperreader")
    (found,) = read_measurements(runs, parameters=["p=ranks"], reduce=reduce)
    assert (found.parameters, found.metrics) == (("p",), ("seconds",) * 2)
    assert found.callpaths == ("main", "main->solve")
    assert found.points.ravel().tolist() == [2, 4, 8]
    # Two values of one process are parts of one.
    assert found.values[:, :, 0].tolist() == [pytest.approx(expected), [10, 20, 40]]


def test_caliper_needs_to_know_the_parameters(runs):
    pytest.importorskip("caliperreader")
    with pytest.raises(InputError, match="must be named: found ranks, launchdate, expected one"):
        read_measurements(runs)
    (runs / "4.cali").write_text("__rec=node,id=x\n")
    with pytest.raises(InputError, match="damaged Caliper profile"):
        read_measurements(runs, parameters=["ranks"])


def test_caliper_without_its_package(runs, monkeypatch):
    monkeypatch.setitem(sys.modules, "caliperreader", None)
    with pytest.raises(InputError, match=r"caliper-reader: expected pip install 'toruscast\[cal"):
        read_measurements(runs)
    with pytest.raises(InputError, match=r"is no file of measurements: .* a folder of Cube or Cal"):
        read_measurements(runs / "2.cali")


def test_thicket(tmp_path):
    file = tmp_path / "thicket.json"
    file.write_text(json.dumps(thicket()))
    first, second = read_measurements(file)
    assert (first.parameters, first.callpaths) == (("jobsize",), ("main",))
    assert first.values.ravel().tolist() == [10, 12]
    assert (second.callpaths, second.points.tolist()) == (("main->solve",), [[60]])
    assert read_measurements(file, "Avg*", absent="zero")[0].n_paths == 2
    result = CliRunner().invoke(
        main, ["pmnf", "fit", str(file), "--parameter", "p=jobsize", "--json", "-"]
    )
    assert json.loads(result.stdout)["models"][0]["callpath"] == "main"


@pytest.mark.parametrize(
    ("document", "options", "message"),
    [
        (thicket(dataframe=[{"node": 9}]), {}, "is no Thicket: found no key 9"),
        (thicket(metadata=5), {}, "is no Thicket"),
        (thicket(), {"parameters": ["user"]}, "no such number .*: found user, expected one of job"),
        (thicket(), {"value": "time"}, "no such metric: found time, expected Avg time/rank"),
        (thicket(metadata=[{"profile": k} for k in (5, 6)]), {}, "found no number that differs"),
    ],
)
def test_wrong_input(tmp_path, document, options, message):
    file = tmp_path / "thicket.json"
    file.write_text(json.dumps(document))
    with pytest.raises(InputError, match=message):
        read_measurements(file, **options)
