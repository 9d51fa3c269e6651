"""The communication graph: order, validation, and conversions that lose nothing."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_cases import graphs
from scipy import sparse

from toruscast.errors import InputError
from toruscast.mapping import CommGraph, from_networkx, from_pandas, from_scipy, sum_edges

any_graph = st.integers(1, 12).flatmap(graphs)


@settings(max_examples=40, deadline=None)
@given(any_graph)
def test_conversions_lose_nothing(comm):
    assert from_networkx(comm.to_networkx()).equals(comm)
    assert from_pandas(comm.to_pandas(), comm.n_tasks).equals(comm)
    assert from_scipy(comm.to_scipy(), comm.to_scipy("n_messages")).equals(comm)


@settings(max_examples=40, deadline=None)
@given(any_graph, st.randoms())
def test_edges_are_sorted_whatever_their_order(comm, random):
    shuffled = list(range(comm.n_edges))
    random.shuffle(shuffled)
    columns = [getattr(comm, f)[shuffled] for f in ("src", "dst", "nbytes", "n_messages")]
    assert CommGraph(comm.n_tasks, *columns).equals(comm)
    # The same edges in two halves of the bytes add up to the same graph.
    halves = [np.concatenate([c, c]) for c in columns[:2]]
    halves += [np.concatenate([c / 2, c / 2]) for c in columns[2:]]
    assert sum_edges(comm.n_tasks, *halves).equals(comm)


def test_small_changes_make_new_graphs():
    comm = CommGraph(4, [0, 1, 2], [1, 1, 0], [8, 4, 2], grid=(2, 2), name="a")
    assert comm.scaled(0.5).nbytes.tolist() == [4, 2, 1]
    assert comm.scaled(0.5).grid == (2, 2)
    assert comm.without_self_messages().n_edges == 2
    assert comm.renamed("b").name == "b"
    assert comm.renamed("b", grid=(4,)).grid == (4,)
    assert comm.nbytes.tolist() == [8, 4, 2]
    with pytest.raises(ValueError, match="read-only"):
        comm.nbytes[0] = 1


def test_undirected_graphs_count_both_ways():
    graph = nx.Graph([(0, 1, {"nbytes": 8})])
    comm = from_networkx(graph)
    assert comm.src.tolist() == [0, 1]
    assert comm.nbytes.tolist() == [8, 8]


def test_parallel_edges_add_up():
    graph = nx.MultiDiGraph([(0, 1, {"nbytes": 8}), (0, 1, {"nbytes": 2, "n_messages": 3})])
    comm = from_networkx(graph)
    assert (comm.nbytes.tolist(), comm.n_messages.tolist()) == ([10], [4])
    matrix = sparse.coo_array(([1.0, 2.0], ([0, 0], [1, 1])), shape=(2, 2))
    assert from_scipy(matrix).nbytes.tolist() == [3]
    assert matrix.nnz == 2


NAN, INF = float("nan"), float("inf")
# fmt: off
BAD_GRAPHS = [
    *((n_tasks, [], [], []) for n_tasks in (0, -1, 2.5, True, "two", None, INF, NAN, 2**31)),
    *((2, [src], [1], [1]) for src in (-1, 2, 0.5, NAN, "0", [0], 1e30, 2**70)),
    *((2, [0], [1], [nbytes]) for nbytes in (-1, NAN, INF, 1e301, "many", None, 1j)),
    (2, [0, 0], [1, 1], [1, 1]), (2, [0], [1], []), (2, [0, 1], [1], [1]),
    (3, [0, 1, 2], [1, 0], [1]), (2, [0], [1], [1], [-1]), (2, [0], [1], [1], [1, 2]),
]
# fmt: on


@pytest.mark.parametrize("arguments", BAD_GRAPHS, ids=str)
@pytest.mark.parametrize("build", [CommGraph, sum_edges])
def test_bad_graphs(build, arguments):
    if build is sum_edges and arguments[1:] == ([0, 0], [1, 1], [1, 1]):
        pytest.skip("adding them up is what it is for")
    with pytest.raises(InputError) as caught:
        build(*arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("grid", [(3,), (2, 2, 2), (-2, -2), (0, 4), ("a",), 4.5, (2.0, 2.5)])
def test_bad_grids(grid):
    with pytest.raises(InputError):
        CommGraph(4, [], [], [], grid=grid)


@pytest.mark.parametrize("factor", [-1, NAN, INF, 1e301])
def test_bad_factors(factor):
    with pytest.raises(InputError):
        CommGraph(2, [0], [1], [1]).scaled(factor)


@pytest.mark.parametrize(
    "graph",
    [
        nx.DiGraph([(0, 2, {"nbytes": 1})]),
        nx.DiGraph([(1, 2, {"nbytes": 1})]),
        nx.DiGraph([(0, 1)]),
        nx.DiGraph([(0, 1, {"nbytes": "x"})]),
        nx.DiGraph([(0, 1, {"nbytes": -1})]),
        nx.DiGraph(),
    ],
)
def test_bad_networkx_graphs(graph):
    with pytest.raises(InputError):
        from_networkx(graph)


def test_nodes_of_any_type_are_tasks_in_the_order_of_the_graph():
    graph = nx.Graph([("b", (0, 1), {"load": 3}), ((0, 1), "a", {"load": 5})])
    comm = from_networkx(graph, weight="load")
    edges = zip(comm.src.tolist(), comm.dst.tolist(), comm.nbytes.tolist(), strict=True)
    assert set(edges) == {(0, 1, 3.0), (1, 0, 3.0), (1, 2, 5.0), (2, 1, 5.0)}
    with pytest.raises(InputError, match="weight='load'"):
        from_networkx(graph)
    plain = nx.convert_node_labels_to_integers(graph)
    assert from_networkx(plain, weight="load").equals(comm)


def test_a_table_of_networkx_is_the_same_graph():
    graph = nx.DiGraph([(0, 1, {"weight": 3}), (1, 2, {"weight": 5})])
    table = nx.to_pandas_edgelist(graph)
    assert from_pandas(table).equals(from_networkx(graph, weight="weight"))
    with pytest.raises(InputError, match=r"expected dst; DataFrame\.rename"):
        from_pandas(table.rename(columns={"target": "to"}))


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"src": [0], "dst": [1]}),
        pd.DataFrame({"src": [0], "dst": ["b"], "nbytes": [1]}),
        pd.DataFrame({"src": [0], "dst": [1], "nbytes": [None]}),
        pd.DataFrame({"src": [0, None], "dst": [1, 0], "nbytes": [1, 1]}),
        pd.DataFrame({"src": [-1], "dst": [1], "nbytes": [1]}),
    ],
)
def test_bad_tables(table):
    with pytest.raises(InputError):
        from_pandas(table)


@pytest.mark.parametrize(
    "matrices",
    [
        (sparse.coo_array((2, 3)),),
        (sparse.coo_array((2, 2)), sparse.coo_array((3, 3))),
        (sparse.coo_array(([-1.0], ([0], [1])), shape=(2, 2)),),
        (sparse.coo_array(([NAN], ([0], [1])), shape=(2, 2)),),
        (sparse.coo_array((0, 0)),),
    ],
)
def test_bad_matrices(matrices):
    with pytest.raises(InputError):
        from_scipy(*matrices)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint16])
def test_sums_of_duplicates_do_not_overflow(dtype):
    most = np.iinfo(dtype).max
    matrix = sparse.coo_matrix(
        (np.full(3, most, dtype=dtype), ([0, 0, 0], [1, 1, 1])), shape=(2, 2)
    )
    assert from_scipy(matrix).nbytes.tolist() == [3.0 * most]


def test_matrices_of_other_than_numbers_are_refused():
    with pytest.raises(InputError, match="bad matrix: found complex128, expected numbers"):
        from_scipy(sparse.coo_array(np.array([[0, 1j], [0, 0]])))
