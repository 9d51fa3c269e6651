"""Arguments of wrong types raise InputError."""

import networkx as nx
import pytest

import toruscast as tc
from toruscast._features import RoutedTraffic, unregister_feature
from toruscast.errors import InputError
from toruscast.formats import read_mapping, read_mappings, write_mapping
from toruscast.mapping import (
    CommGraph,
    MappingProblem,
    TaskMapping,
    Torus,
    from_networkx,
    from_pandas,
    strategies,
    sum_edges,
)
from toruscast.routing import dilations, injection_fifos, link_loads, time_bounds
from toruscast.simulation import simulate
from toruscast.training import build_samples

TORUS = Torus((8,))
COMM = CommGraph(3, [0, 1], [1, 2], [50_000, 40_000])
MAPPING = TaskMapping([0, 1, 2], TORUS, name="identity")


@pytest.mark.parametrize(
    "call",
    [
        lambda mapping: tc.rank(COMM, TORUS, [mapping]),
        lambda mapping: tc.features(COMM, TORUS, [mapping]),
        lambda mapping: build_samples([(COMM, TORUS, [mapping])], "never.parquet"),
        lambda mapping: tc.train(COMM, TORUS, n=6, exclude=[mapping]),
        lambda mapping: strategies.sample(COMM, TORUS, n=6, exclude=[mapping]),
        lambda mapping: RoutedTraffic(MappingProblem(COMM, TORUS), mapping),
        lambda mapping: time_bounds(MappingProblem(COMM, TORUS), mapping),
        lambda mapping: simulate(COMM, TORUS, mapping),
        lambda mapping: dilations(MappingProblem(COMM, TORUS), mapping),
        lambda mapping: injection_fifos(MappingProblem(COMM, TORUS), mapping),
        lambda mapping: link_loads(MappingProblem(COMM, TORUS), mapping),
        lambda mapping: write_mapping(mapping, "never.map", torus=TORUS),
    ],
)
@pytest.mark.parametrize("mapping", ["identity", [0.5, 1, 2], None], ids=str)
def test_wrong_mappings_are_refused(call, mapping):
    expected = "bad mapping: found .*, expected (a TaskMapping|whole numbers)"
    with pytest.raises(InputError, match=expected):
        call(mapping)


@pytest.mark.parametrize(
    "call",
    [
        lambda comm: RoutedTraffic(MappingProblem(comm, TORUS), MAPPING),
        lambda comm: time_bounds(MappingProblem(comm, TORUS), MAPPING),
        lambda comm: dilations(MappingProblem(comm, TORUS), MAPPING),
        lambda comm: injection_fifos(MappingProblem(comm, TORUS), MAPPING),
        lambda comm: link_loads(MappingProblem(comm, TORUS), MAPPING),
    ],
)
def test_wrong_traffic_is_refused(call):
    with pytest.raises(InputError, match="bad traffic: found str"):
        call("lammps-lj-512")


def test_a_single_mapping_is_accepted():
    assert tc.features(COMM, TORUS, MAPPING).equals(tc.features(COMM, TORUS, [MAPPING]))
    assert tc.rank(COMM, TORUS, MAPPING).table["mapping"].tolist() == ["identity"]
    for mappings in ("identity", 5, None):
        with pytest.raises(InputError, match="bad mappings"):
            tc.features(COMM, TORUS, mappings)


@pytest.mark.parametrize(
    "options",
    [
        *({"features": wrong} for wrong in ("max_bytes", 5, [["max_bytes"]])),
        *({"n_jobs": wrong} for wrong in ("a", 0, 1.5, True)),
    ],
)
def test_options_of_a_table(tmp_path, options):
    with pytest.raises(InputError):
        tc.features(COMM, TORUS, [MAPPING], **options)
    with pytest.raises(InputError):
        build_samples([(COMM, TORUS, MAPPING)], tmp_path / "s.parquet", **options)


@pytest.mark.parametrize("reader", [read_mapping, read_mappings])
def test_hosts_of_files(tmp_path, reader):
    path = tmp_path / "a.map"
    path.write_text("0\n1\n2\n")
    with pytest.raises(InputError, match=r"bad torus: found 9.6, expected a Torus"):
        reader(path, 9.6)
    with pytest.raises(InputError, match="bad tasks per node"):
        reader(path, TORUS, tasks_per_node="a")


def test_factors_are_named():
    for factor in ("a", -1, float("nan"), None):
        with pytest.raises(InputError, match="bad factor"):
            COMM.scaled(factor)
    with pytest.raises(InputError, match="bad nbytes of edge 0"):
        COMM.scaled(1e305)


def test_wrong_graphs_and_tables_are_refused():
    for wrong in ("a", None, nx.path_graph(2).edges):
        with pytest.raises(InputError, match=r"bad graph: found .*, expected a NetworkX graph"):
            from_networkx(wrong)
    for wrong in ("a", None, [[0, 1, 5]]):
        with pytest.raises(InputError, match=r"bad table: found .*, expected a DataFrame"):
            from_pandas(wrong)


RAGGED = [[0], [1, 2]]


@pytest.mark.parametrize("build", [CommGraph, sum_edges])
def test_ragged_columns(build):
    for columns in ((RAGGED, [1], [1]), ([0], RAGGED, [1]), ([0], [1], RAGGED)):
        with pytest.raises(
            InputError, match=r"bad (src|dst|nbytes): found rows of different length"
        ):
            build(3, *columns)
    with pytest.raises(InputError, match="bad mapping"):
        TaskMapping(RAGGED, 4)
    with pytest.raises(InputError, match="bad slot"):
        TaskMapping([0, 1], 4, slot=RAGGED)


@pytest.mark.parametrize("weights", [["a", "b"], RAGGED, [1j, 1], [1e308, 1e308], [None, 1], "ab"])
def test_wrong_weights_are_refused(weights):
    for routing in ("deterministic", "adaptive"):
        with pytest.raises(InputError, match="bad weights"):
            link_loads(MappingProblem(COMM, TORUS, routing), MAPPING, weights)


def test_progress_and_names():
    with pytest.raises(InputError, match="bad progress: found 5"):
        simulate(COMM, TORUS, MAPPING, progress=5)
    with pytest.raises(InputError, match=r"bad feature name: found \[\]"):
        unregister_feature([])
    assert "max_bytes" in tc.FEATURES
