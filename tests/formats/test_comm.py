import gzip
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from toruscast.errors import InputError
from toruscast.formats import read_comm, write_comm
from toruscast.mapping import CommGraph

AMOUNTS = st.one_of(
    st.integers(0, 2**53).map(float), st.floats(0, 1e300, allow_nan=False, allow_infinity=False)
)


@st.composite
def graphs(draw):
    n_tasks = draw(st.integers(1, 12))
    pairs = st.tuples(*[st.integers(0, n_tasks - 1)] * 2)
    edges = draw(st.dictionaries(pairs, st.tuples(AMOUNTS, AMOUNTS), max_size=20))
    src, dst = zip(*edges, strict=True) if edges else ((), ())
    nbytes, messages = zip(*edges.values(), strict=True) if edges else ((), ())
    return CommGraph(n_tasks, src, dst, nbytes, messages)


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@settings(deadline=None)
@given(
    comm=graphs(), suffix=st.sampled_from([".txt", ".edges", ".csv", ".npz", ".mtx", ".parquet"])
)
def test_round_trip(tmp_path_factory, comm, suffix):
    path = tmp_path_factory.mktemp("round") / f"graph.v1{suffix}"
    write_comm(comm, path)
    back = read_comm(path)
    if suffix == ".mtx":
        comm = CommGraph(comm.n_tasks, comm.src, comm.dst, comm.nbytes)
    assert back.equals(comm)
    assert back.name == "graph.v1"


@pytest.mark.parametrize(
    "text",
    [
        # As jobs of an allocation, a node each.
        "2\n0 1 3 4\n",
        "# src dst nbytes n_messages\n9\n0 1 3 4\n5 6 7 8\n",
        # As Chakra's metadata of 53 bytes with a version of 49.
        "5\n1 0 11842104000000000 1\n",
        "5\n1 0 1.1842104e16 2.28e-175\n",
    ],
)
def test_edges_that_look_like_something_else(tmp_path, text):
    *_, count, rows = re.split(r"(?m)^([0-9]+)\n", text)
    comm = read_comm(write(tmp_path, "a.txt", text))
    assert comm.n_tasks == int(count)
    assert comm.n_edges == len(rows.splitlines())


@pytest.mark.parametrize("suffix", [".csv", ".npz", ".parquet"])
def test_grid_is_kept(tmp_path, suffix):
    comm = CommGraph(12, [0], [11], [5.0], grid=(3, 2, 2))
    write_comm(comm, tmp_path / f"g{suffix}")
    assert read_comm(tmp_path / f"g{suffix}").grid == (3, 2, 2)


EDGES = CommGraph(4, [0, 1, 2], [1, 2, 0], [100, 50.5, 0], [2, 1, 0])


@pytest.mark.parametrize(
    "text",
    [
        "4\n0 1 100 2\n1 2 50.5 1\n2 0 0 0\n",
        "4\r\n0 1 100 2\r\n1 2 50.5 1\r\n2 0 0 0\r\n",
        "4\r0 1 100 2\r1 2 50.5 1\r2 0 0 0",
        "\ufeff4\n0 1 100 2\n1 2 50.5 1\n2 0 0 0",
        "% from a tool\n\n4 # tasks\n\n0\t1\t1e2\t2\n  1  2 50.5 1 # x\n  # ünï\n2 0 0 0\n   \n",
        "4\n2,0,0,0\n0, 1, 100, 2\n1 ,2, 5.05e1 ,1\n",
        "# n_tasks 4\nsrc,dst,nbytes,n_messages\n0,1,100,2\n1,2,50.5,1\n2,0,0,0\n",
        "#n_tasks=4\nmessages,bytes,to,from\n2,100,1,0\n1,50.5,2,1\n0,0,0,2\n",
        "# n_tasks: 4\nSource Target Bytes Count\n0 1 100 2\n1 2 50.5 1\n2 0 0 0\n",
    ],
)
def test_edge_lists(tmp_path, text):
    assert read_comm(write(tmp_path, "a.txt", text)).equals(EDGES)
    assert read_comm(write(tmp_path, "a.gz", gzip.compress(text.encode()))).equals(EDGES)


def test_edge_list_defaults(tmp_path):
    path = write(tmp_path, "sp.D.8.topo", "0 1 10\n1 7 20\n")
    comm = read_comm(path)
    assert comm.equals(CommGraph(8, [0, 1], [1, 7], [10, 20]))
    assert comm.name == "sp.D.8"
    assert read_comm(path, n_tasks=9, name="x").n_tasks == 9
    assert read_comm(write(tmp_path, "none.txt", "5\n")).equals(CommGraph(5, [], [], []))


@pytest.mark.parametrize("separator", [",", " ", "\t", " , "])
def test_dense_matrix(tmp_path, separator):
    rng = np.random.default_rng(0)
    nbytes = rng.integers(0, 3, (6, 6)) * 1.5
    messages = rng.integers(0, 3, (6, 6))
    for name, matrix in (("b.csv", nbytes), ("m.csv", messages)):
        np.savetxt(tmp_path / name, matrix, delimiter=separator, fmt="%g")
    only = read_comm(tmp_path / "b.csv")
    np.testing.assert_array_equal(only.to_scipy().toarray(), nbytes)
    assert (only.nbytes > 0).all()
    assert (only.n_messages == 1).all()
    both = read_comm(tmp_path / "b.csv", messages=tmp_path / "m.csv")
    np.testing.assert_array_equal(both.to_scipy().toarray(), nbytes)
    np.testing.assert_array_equal(both.to_scipy("n_messages").toarray(), messages)
    assert both.n_edges == ((nbytes > 0) | (messages > 0)).sum()


def test_small_matrices(tmp_path):
    three = write(tmp_path, "three.txt", "0 1 2\n1 0 1\n2 2 0\n")
    assert read_comm(three, format="edges").n_edges == 3
    assert read_comm(three, format="matrix").nbytes.tolist() == [1, 2, 1, 1, 2, 2]
    assert read_comm(write(tmp_path, "two.txt", "0 7\n9 0\n")).nbytes.tolist() == [7, 9]
    assert read_comm(write(tmp_path, "one.txt", "7\n"), format="matrix").nbytes.tolist() == [7]


@pytest.mark.parametrize("kind", ["coo", "csr", "csc"])
def test_scipy_archives(tmp_path, kind):
    nbytes = sparse.coo_array(([3.0, 4, 5], ([0, 2, 2], [1, 0, 2])), shape=(3, 3))
    counts = sparse.coo_array(([1, 2, 7], ([0, 2, 1], [1, 0, 1])), shape=(3, 3))
    sparse.save_npz(tmp_path / "b.npz", nbytes.asformat(kind))
    sparse.save_npz(tmp_path / "m.npz", sparse.csr_matrix(counts))
    expected = CommGraph(3, [0, 2, 2], [1, 0, 2], [3, 4, 5])
    assert read_comm(tmp_path / "b.npz").equals(expected)
    both = read_comm(tmp_path / "b.npz", messages=tmp_path / "m.npz")
    assert both.equals(CommGraph(3, [0, 1, 2, 2], [1, 1, 0, 2], [3, 0, 4, 5], [1, 7, 2, 0]))


def test_matrix_market_kinds(tmp_path):
    head = "%%MatrixMarket matrix coordinate integer symmetric\n% note\n\n3 3 2\n"
    path = write(tmp_path, "s.mtx.gz", gzip.compress((head + "2 1 5\n3 3 7\n").encode()))
    comm = read_comm(path)
    assert comm.equals(CommGraph(3, [0, 1, 2], [1, 0, 2], [5, 5, 7]))
    assert comm.name == "s"
    counted = read_comm(path, messages=write(tmp_path, "m.txt", "0 1 0\n1 0 0\n0 0 2\n"))
    assert counted.n_messages.tolist() == [1, 1, 2]


RANKS = (
    "# POINT TO POINT\nE\t0\t1\t100 bytes\t4 msgs sent\t1,2,1\nI\t0\t2\t8 bytes\t1 msgs sent\t0,1\n"
    "I\t0\t1\t6 bytes\t2 msgs sent\n"
    "# OSC\nS\t0\t2\t30 bytes\t1 msgs sent\nR\t0\t1\t70 bytes\t2 msgs sent\n"
    "# COLLECTIVES\nC\t0\t1\t16 bytes\t2 msgs sent\nC\t0\t3\t16 bytes\t2 msgs sent\n"
    "D\tMPI_COMM_WORLD\tprocs: 0,1,2,3\nO2A\t0\t0 bytes\t0 msgs sent\n"
    "A2O\t0\t0 bytes\t0 msgs sent\nA2A\t0\t32 bytes\t2 msgs sent\n",
    "# POINT TO POINT\n# OSC\n# COLLECTIVES\nD\tMPI COMMUNICATOR 3\tprocs: 0,1\n",
    "# POINT TO POINT\nE\t2\t2\t5 bytes\t1 msgs sent\t\n# OSC\n# COLLECTIVES\n",
    "# POINT TO POINT\n# OSC\n# COLLECTIVES\n",
)


@pytest.fixture
def rank_files(tmp_path):
    folder = tmp_path / "prof"
    folder.mkdir()
    for rank, text in enumerate(RANKS):
        write(folder, f"lj.{rank}.prof", text)
    return folder


def test_open_mpi(rank_files):
    write(rank_files, "lj.2.prof.log", "not one of them")
    comm = read_comm(rank_files)
    # R: what rank 0 got from rank 1 went from 1 to 0.
    expected = CommGraph(4, [0, 0, 1, 2], [1, 2, 0, 2], [106, 38, 70, 5], [6, 2, 2, 1])
    assert comm.equals(expected)
    assert comm.name == "prof"
    assert read_comm(rank_files / "lj").equals(expected)
    together = write(rank_files.parent, "lj.prof.gz", gzip.compress("".join(RANKS).encode()))
    assert read_comm(together).equals(expected)
    assert read_comm(together).name == "lj"
    assert read_comm(together, n_tasks=8).n_tasks == 8
    sent = read_comm(together, include="point_to_point")
    assert sent.equals(CommGraph(4, [0, 2], [1, 2], [100, 5], [4, 1]))
    inside = read_comm(rank_files, include="collective")
    assert inside.equals(CommGraph(4, [0, 0], [1, 2], [6, 8], [2, 1]))


@pytest.mark.parametrize("name", ["g", "g.xyz", "g.gz", ".csv"])
def test_write_unknown_suffix(tmp_path, name):
    with pytest.raises(InputError, match="unknown suffix"):
        write_comm(EDGES, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_comments_of_any_length_before_the_number_of_tasks(tmp_path):
    path = tmp_path / "graph.edges"
    path.write_text("# " + "x" * 5000 + "\n# n_tasks 1234\n0 1 100\n")
    assert read_comm(path).n_tasks == 1234


def test_a_parquet_table_has_the_tasks_that_it_says(tmp_path):
    path = tmp_path / "two.parquet"
    write_comm(CommGraph(4, [0], [1], [8]), path)
    assert read_comm(path, n_tasks=4).n_tasks == 4
    with pytest.raises(InputError, match="wrong number of tasks: found 4, expected 8"):
        read_comm(path, n_tasks=8)
