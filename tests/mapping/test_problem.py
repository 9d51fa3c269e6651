"""A mapping problem takes what users have, and checks it once."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import toruscast as tc
from toruscast.errors import InputError
from toruscast.mapping import MappingProblem, patterns

MATRIX = np.array([[0.0, 8.0, 0.0], [0.0, 0.0, 4.0], [2.0, 0.0, 0.0]])
EDGES = pd.DataFrame({"src": [0, 1, 2], "dst": [1, 2, 0], "nbytes": [8, 4, 2]})
GRAPH = nx.DiGraph([(0, 1, {"nbytes": 8}), (1, 2, {"nbytes": 4}), (2, 0, {"nbytes": 2})])


@pytest.mark.parametrize("traffic", [MATRIX, EDGES, GRAPH, sparse.csr_array(MATRIX)])
def test_every_form_of_traffic_is_the_same_workload(traffic):
    comm = MappingProblem(traffic, (4,)).comm
    assert comm.n_tasks == 3
    assert sorted(zip(comm.src, comm.dst, comm.nbytes, strict=True)) == [
        (0, 1, 8.0),
        (1, 2, 4.0),
        (2, 0, 2.0),
    ]


@pytest.mark.parametrize("torus", ["4x4x8", (4, 4, 8), [4, 4, 8], tc.Torus((4, 4, 8))])
def test_every_form_of_torus_is_the_same(torus):
    assert MappingProblem(MATRIX, torus).torus == tc.Torus((4, 4, 8))


def test_a_machine_is_named():
    assert MappingProblem(MATRIX, "bluegene_q:64").torus == tc.torus("bluegene_q:64")


def test_every_form_of_mapping_is_the_same():
    problem = MappingProblem(MATRIX, "2x2")
    nodes = np.array([0, 3, 1])
    forms = [
        nodes,
        [nodes],
        nodes.tolist(),
        [tc.TaskMapping(nodes, problem.torus)],
        {"a": nodes},
        pd.DataFrame({"a": nodes}),
    ]
    for form in forms:
        (found,) = problem.mappings(form)
        assert found.node.tolist() == [0, 3, 1]
    assert [each.name for each in problem.mappings(pd.DataFrame({"a": nodes, "b": nodes}))] == [
        "a",
        "b",
    ]


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ([0, 1], "does not fit the graph"),
        ([0, 1, 4], "out of range"),
        ([0.5, 1, 2], "bad mapping"),
        ("identity", "bad mapping"),
        (tc.TaskMapping([0, 1, 2], 8), "does not fit the torus"),
    ],
)
def test_a_mapping_of_something_else_is_refused(mapping, message):
    with pytest.raises(tc.InputError, match=message):
        MappingProblem(MATRIX, "2x2").mappings(mapping)


@pytest.mark.parametrize("traffic", ["halo", 3, np.zeros(3), None])
def test_what_is_no_traffic_is_refused(traffic):
    with pytest.raises(tc.InputError, match="bad traffic"):
        MappingProblem(traffic, "2x2")


@pytest.mark.parametrize("torus", [7, None, "two by two", (0, 2)])
def test_what_is_no_torus_is_refused(torus):
    with pytest.raises(tc.InputError):
        MappingProblem(MATRIX, torus)


def test_values_are_derived_once():
    calls = []

    def derived(problem, factor):
        calls.append(factor)
        return problem.n_tasks * factor

    problem = MappingProblem(MATRIX, "2x2")
    assert [problem.derive(derived, 2), problem.derive(derived, 2), problem.derive(derived, 3)] == [
        6,
        6,
        9,
    ]
    assert calls == [2, 3]


def test_equal_phases_share_a_problem():
    halo = patterns.halo_2d((2, 2), 64)
    other = patterns.halo_2d((2, 2), 32)
    first, second, third = MappingProblem(tc.Workload([halo, other, halo]), "2x2").phases
    assert first is third
    assert first.comm.nbytes.sum() == 2 * second.comm.nbytes.sum()


@pytest.mark.parametrize("torus", ["2x2", (2, 2), [2, 2], tc.Torus((2, 2))])
def test_every_function_takes_a_torus_as_text_or_shape(torus, tmp_path):
    comm, file = tc.CommGraph(2, [0], [1], [8e3]), tmp_path / "a.map"
    mapping = tc.TaskMapping([0, 3], torus)
    assert tc.write_mapping(mapping, file, torus=torus) is not None
    assert [each.node.tolist() for each in tc.read_mappings(file, torus)] == [[0, 3]]
    assert tc.read_mapping(file, torus).torus.shape == (2, 2)
    tc.write_mappings([mapping.renamed("b")], tmp_path, torus=torus)
    tc.write_torus(torus, tmp_path / "t.toml")
    assert tc.Hosts(["a", "b"], [[0, 0], [1, 1]], torus).node.tolist() == [0, 3]
    assert tc.simulate(comm, torus, mapping).time > 0
    assert tc.rank(comm, torus, [mapping], budget=0).best.node.tolist() == [0, 3]
    found = tc.search(comm, torus, n_sweeps=1, objective="hop_bytes", fixed={0: (0, 1)})
    assert found.best.node[0] == 1
    assert len(tc.features(comm, torus, [mapping])) == 1
    assert tc.explain(comm, torus, mapping) is not None
    assert tc.routing.routes(torus, [(0, 0)], [(1, 1)])[0].tolist() == [0, 2]
    assert tc.mesh(torus, {"x": 4}, "x:exchange:4MB").best.time > 0
    # Not even with as many nodes.
    with pytest.raises(tc.InputError, match="for another torus"):
        tc.rank(comm, "4", [mapping])


@pytest.mark.parametrize("torus", [7, None, 2.5, "two by two", (0, 2), {"a": 1}])
def test_what_is_no_torus_is_refused_everywhere(torus, tmp_path):
    mapping, comm = tc.TaskMapping([0, 1], 4), tc.CommGraph(2, [0], [1], [8])
    (tmp_path / "a.map").write_text("0\n1\n")
    for call in (
        lambda: tc.rank(comm, torus, [mapping]),
        lambda: tc.search(comm, torus, seconds=1),
        lambda: tc.read_mapping(tmp_path / "a.map", torus),
        lambda: tc.read_hosts(tmp_path / "a.map", torus),
        lambda: tc.write_torus(torus, tmp_path / "t.toml"),
        lambda: tc.calibrate([], torus),
        lambda: tc.routing.routes(torus, [0], [1]),
        lambda: tc.mesh(torus, {"x": 4}, "x:exchange:4MB"),
    ):
        with pytest.raises(tc.InputError):
            call()


@pytest.mark.parametrize(
    "names", [(["a", 3], None), (["a", "b"], {"z": "c"}), (["a", "b"], {1: "a"})]
)
def test_names_of_hosts_are_texts_and_known(names):
    with pytest.raises(InputError, match=r"name of a host|alias of an unknown host"):
        tc.Hosts(names[0], [0, 1], "2x2", names[1])
