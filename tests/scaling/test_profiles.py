"""Profiles of Caliper and Thicket: metadata as parameters, one value for all processes of a run."""

import json
import sys
import warnings
from collections import Counter

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from toruscast.cli import main
from toruscast.errors import InputError
from toruscast.scaling import ScalingWarning, read_measurements
from toruscast.scaling.measurements import ReadOptions
from toruscast.scaling.profiles import map_to_parents

TREE = ["a->b", "a->b->c", "a->b->c->d", "a->e", "a->bc", "f"]

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
    with pytest.raises(
        InputError, match=r"is not a file of measurements: .* a folder of Cube or Cal"
    ):
        read_measurements(runs / "2.cali")


def test_thicket(tmp_path):
    file = tmp_path / "thicket.json"
    file.write_text(json.dumps(thicket()))
    first, second = read_measurements(file, absent="omit")
    assert (first.parameters, first.callpaths) == (("jobsize",), ("main",))
    assert first.values.ravel().tolist() == [10, 12]
    assert (second.callpaths, second.points.tolist()) == (("main->solve",), [[60]])
    assert read_measurements(file, "Avg*", absent="zero")[0].n_paths == 2
    result = CliRunner().invoke(
        main,
        ["pmnf", "fit", str(file), "--parameter", "p=jobsize", "--absent", "omit", "--json", "-"],
    )
    assert json.loads(result.stdout)["models"][0]["callpath"] == "main"


def test_nodes_that_some_runs_lack_are_part_of_their_parent(tmp_path):
    file = tmp_path / "thicket.json"
    file.write_text(json.dumps(thicket()))
    with pytest.warns(ScalingWarning, match="lack are counted in their parent: 1 call path"):
        (found,) = read_measurements(file)
    assert found.callpaths == ("main",)
    assert found.values.ravel().tolist() == [10, 12 + 7]
    # A value that holds those of the nodes below holds that of solve already.
    file.write_text(json.dumps(thicket(inclusive_metrics=["Avg time/rank"], exclusive_metrics=[])))
    with pytest.warns(ScalingWarning, match="1 call path"):
        (found,) = read_measurements(file, absent="merge")
    assert found.values.ravel().tolist() == [10, 12]
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        result = CliRunner().invoke(main, ["pmnf", "fit", str(file), "--parameter", "p=jobsize"])
    assert result.exit_code == 0
    assert "are counted in their parent: 1 call path, such as main->solve" in result.stderr


@given(st.lists(st.sets(st.sampled_from(TREE)), min_size=1, max_size=4))
def test_merged_trees_are_equal_and_no_value_is_lost(trees):
    trees = [{"a"} | tree for tree in trees]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parents = map_to_parents(trees, ReadOptions())
    left = [Counter(parents.get(path, path) for path in tree) for tree in trees]
    assert [sum(count.values()) for count in left] == [len(tree) for tree in trees]
    for path, parent in parents.items():
        assert path.startswith(f"{parent}->")
        assert any(path not in tree for tree in trees)
    # Every node that is left is in all trees, itself or by a node below it, or has no parent.
    for node in set().union(*left) - {"f"}:
        assert all(any(f"{path}->".startswith(f"{node}->") for path in tree) for tree in trees)


def test_only_profiles_have_trees_to_merge(tmp_path):
    file = tmp_path / "runs.csv"
    file.write_text("p,value\n2,1\n4,2\n")
    with pytest.raises(InputError, match="has no call trees of runs: found merge, expected prof"):
        read_measurements(file, absent="merge")


@pytest.mark.parametrize(
    ("document", "options", "message"),
    [
        (thicket(dataframe=[{"node": 9}]), {}, "is not a Thicket: found no key 9"),
        (thicket(metadata=5), {}, "is not a Thicket"),
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
