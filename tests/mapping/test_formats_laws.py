"""What a dialect writes, it reads: for every writer of the registry, whatever it is added."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from toruscast.errors import InputError
from toruscast.mapping import CommGraph, Hosts, TaskMapping, Torus
from toruscast.mapping.formats import (
    read_comm,
    read_mapping,
    read_torus,
    write_comm,
    write_mapping,
    write_torus,
)
from toruscast.mapping.formats.registry import dialects

# Partitioners know neither directions nor messages of a task to itself.
UNDIRECTED = ("metis", "scotch")


def written(holds):
    """Each dialect that is written, with each of its suffixes."""
    return [
        (dialect.name, suffix if suffix.startswith(".") else "")
        for dialect in dialects(holds)
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


@st.composite
def tori(draw):
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    return Torus(shape, wrap=draw(st.tuples(*[st.booleans()] * len(shape))))


@st.composite
def mappings(draw):
    torus = draw(tori())
    capacity = draw(st.integers(1, 3))
    places = draw(st.permutations([*range(torus.n_nodes)] * capacity))
    return TaskMapping(places[: draw(st.integers(1, len(places)))], torus)


@pytest.mark.parametrize(("name", "suffix"), written("graph"))
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
    # Without the name it is the same, or asked about: never another graph.
    with suppress(InputError):
        assert read_comm(path).equals(back)


@pytest.mark.parametrize(("name", "suffix"), written("mapping"))
@settings(deadline=None, max_examples=20)
@given(mapping=mappings())
def test_mappings_that_are_written_are_read(tmp_path_factory, name, suffix, mapping):
    torus = mapping.torus
    path = tmp_path_factory.mktemp("law") / f"best{suffix}"
    hosts = Hosts([f"n{node}" for node in range(torus.n_nodes)], range(torus.n_nodes), torus)
    on_hosts = next(d for d in dialects("mapping") if d.name == name).on_hosts
    how = {"hosts": hosts} if on_hosts else {}
    try:
        write_mapping(mapping, path, name, torus=torus, **how)
    except InputError:
        assume(False)
    how |= {"n_tasks": mapping.n_tasks, "tasks_per_node": mapping.tasks_per_node}
    back = read_mapping(path, torus, format=name, **how)
    assert back.node.tolist() == mapping.node.tolist()
    with suppress(InputError):
        assert read_mapping(path, torus, **how).node.tolist() == mapping.node.tolist()


@pytest.mark.parametrize(("name", "suffix"), written("torus"))
@settings(deadline=None, max_examples=20)
@given(torus=tori())
def test_tori_that_are_written_are_read(tmp_path_factory, name, suffix, torus):
    path = tmp_path_factory.mktemp("law") / f"machine{suffix}"
    try:
        write_torus(torus, path, name)
    except InputError:
        assume(False)
    back = read_torus(path)
    assert back.shape == torus.shape
    # A dimension of one or two nodes is the same with and without its way round.
    assert all(a == b or k < 3 for a, b, k in zip(back.wrap, torus.wrap, torus.shape, strict=True))
