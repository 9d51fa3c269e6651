"""Every format of graphs in the registry reads what it writes."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from toruscast.errors import InputError
from toruscast.formats import read_comm, write_comm
from toruscast.formats.registry import dialects
from toruscast.mapping import CommGraph

# Partitioners know neither directions nor messages of a task to itself.
UNDIRECTED = ("metis", "scotch")


# Each dialect that is written, with each of its suffixes.
WRITTEN = [
    (dialect.name, suffix if suffix.startswith(".") else "")
    for dialect in dialects("graph")
    if dialect.write and dialect.read
    for suffix in dialect.suffixes or (".txt",)
]


@st.composite
def graphs(draw):
    n = draw(st.integers(1, 9))
    ends = st.tuples(*[st.integers(0, n - 1)] * 2)
    # Small whole numbers look like tasks, sizes, counts and coordinates.
    amounts = st.one_of(st.integers(0, 12), st.integers(0, 2**40), st.floats(0, 1e12))
    edges = draw(st.dictionaries(ends, st.tuples(amounts, st.integers(0, 9)), max_size=16))
    src, dst = zip(*edges, strict=True) if edges else ((), ())
    nbytes, messages = zip(*edges.values(), strict=True) if edges else ((), ())
    return CommGraph(n, src, dst, nbytes, messages)


@pytest.mark.parametrize(("name", "suffix"), WRITTEN)
@settings(deadline=None, max_examples=20)
@given(comm=graphs())
def test_graphs_that_are_written_are_read(tmp_path_factory, name, suffix, comm):
    path = tmp_path_factory.mktemp("law") / f"app{suffix}"
    try:
        write_comm(comm, path, name)
    except InputError:
        assume(False)
    back = read_comm(path, format=name)
    assert back.n_tasks == comm.n_tasks
    # Matrices keep no edge without bytes, and some formats no counts or fractions.
    there, found = comm.to_scipy().toarray(), back.to_scipy().toarray()
    rounding = 1
    if name in UNDIRECTED:
        # A whole weight stands for both ways.
        rounding = 2
        there, found = (np.triu(each + each.T, 1) for each in (there, found))
    np.testing.assert_allclose(found, there, rtol=1e-12, atol=rounding)
    # Without the format's name, the file gives the same graph or a question, never another graph.
    with suppress(InputError):
        assert read_comm(path).equals(back)
