"""The examples of the page of formats are read as it says."""

import numpy as np
import pytest
from format_examples import example_bytes

from toruscast.formats import read_comm, read_mappings, read_times
from toruscast.formats.registry import dialects
from toruscast.mapping import Torus

GRAPHS = {
    "hlo": (4, 4, 128),
    "open-mpi": (2, 2, 158),
    "edges": (4, 5, 8832),
    "table": (8, 2, 8192),
    "matrix": (5, 10, 816.5),
    "matrix-market": (4, 3, 8256),
    "npz": (4, 3, 136),
    "parquet": (4, 3, 136),
    "metis": (4, 8, 200),
    "scotch": (4, 8, 200),
    "mpip": (2, 2, 12288),
    "graph-stats": (3, 4, 8256),
    "ipm": (2, 2, 8256),
    "goal": (2, 2, 4160),
    "chakra": (3, 2, 4160),
}
MAPPINGS = {"nodes": [1, 0, 3, 2], "table": [1, 0, 3, 2], "named-lines": [1, 0, 3, 2]}


def write(folder, dialect):
    path = folder / "example"
    path.write_bytes(example_bytes(dialect))
    return path


EXAMPLES = [dialect for dialect in dialects("graph") if example_bytes(dialect)]


@pytest.mark.parametrize("dialect", EXAMPLES, ids=lambda dialect: dialect.name)
def test_graphs(tmp_path, dialect):
    comm = read_comm(write(tmp_path, dialect))
    assert comm.n_edges > 0
    counts = (comm.n_tasks, comm.n_edges, comm.nbytes.sum())
    assert counts == GRAPHS.get(dialect.name, counts)


def test_known_examples_are_there():
    assert set(GRAPHS) <= {dialect.name for dialect in EXAMPLES}


@pytest.mark.parametrize("name", MAPPINGS)
def test_mappings(tmp_path, name):
    dialect = next(d for d in dialects("mapping") if d.name == name)
    mapping = read_mappings(write(tmp_path, dialect), Torus((2, 2)))[-1]
    np.testing.assert_array_equal(mapping.node, MAPPINGS[name])


def test_times(tmp_path):
    (dialect,) = dialects("times")
    path = write(tmp_path, dialect)
    times = {"identity": 0.00125, "turned": 0.00214}
    assert read_times(path) == times
    path.write_text(path.read_text().partition("\n")[2].replace(",", " "))
    assert read_times(path) == times
