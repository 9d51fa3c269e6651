"""Loads kept up to date against loads counted anew."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_cases import cases, tori

from toruscast._search.resource_loads import ResourceLoads, build_resource_table
from toruscast.errors import InputError
from toruscast.mapping import CommGraph, MappingProblem, TaskMapping, Torus, Workload
from toruscast.routing import dilations, injection_fifos, link_loads

WHOLE = st.integers(0, 10**6).map(float)


@st.composite
def walks(draw, **options):
    comm, torus, mapping = draw(cases(lambda: tori(max_nodes=40), **options))
    moves = []
    for _ in range(draw(st.integers(1, 6))):
        tasks = draw(st.sets(st.integers(0, comm.n_tasks - 1), min_size=1, max_size=5))
        nodes = [draw(st.integers(0, torus.n_nodes - 1)) for _ in tasks]
        moves.append((np.array(sorted(tasks)), np.array(nodes, dtype=np.int32)))
    return comm, torus, mapping, moves


def moving_loads(traffic, torus, mapping, routing="deterministic", count="nbytes"):
    problem = MappingProblem(traffic, torus, routing)
    return ResourceLoads(problem, mapping, build_resource_table(problem), count)


def by_resource(loads):
    """Bytes over every resource in each phase: links, injection FIFOs, receivers."""
    state = loads.state
    return state.load.reshape(loads.n_phases, -1) * (state.edges.unit / state.table.parts)


def over_links(loads):
    return by_resource(loads)[:, : loads.torus.n_links].sum(axis=0)


@given(walks(amounts=WHOLE))
@settings(max_examples=80, deadline=None)
def test_moves_give_to_the_last_byte_what_a_new_count_gives(case):
    comm, torus, mapping, moves = case
    loads = moving_loads(comm, torus, mapping)
    for tasks, nodes in moves:
        loads.move(tasks, nodes)
    now = TaskMapping(loads.state.node, torus, tasks_per_node=comm.n_tasks)
    assert (over_links(loads) == link_loads(MappingProblem(comm, torus), now)).all()
    hops = dilations(MappingProblem(comm, torus), now)
    assert loads.hop_units * loads.state.edges.unit == (hops * comm.nbytes).sum()
    again = moving_loads(comm, torus, now)
    assert (again.state.load == loads.state.load).all()
    assert not loads.state.change.load.any()
    assert (loads.state.change.node == loads.state.node).all()


@given(walks(amounts=WHOLE))
@settings(max_examples=40, deadline=None)
def test_fifos_and_receivers_are_those_of_the_routing(case):
    comm, torus, mapping, moves = case
    loads = moving_loads(comm, torus, mapping)
    for tasks, nodes in moves:
        loads.move(tasks, nodes)
    now = TaskMapping(loads.state.node, torus, tasks_per_node=comm.n_tasks)
    fifo = injection_fifos(MappingProblem(comm, torus), now)
    remote = fifo >= 0
    if torus.network.fifo_rule == "round_robin":
        fifo[remote] = 0
    network = torus.network
    place = now.node[comm.src] * network.fifos + fifo
    injected = np.bincount(
        place[remote], comm.nbytes[remote], minlength=torus.n_nodes * network.fifos
    )
    received = np.bincount(now.node[comm.dst][remote], comm.nbytes[remote], torus.n_nodes)
    assert by_resource(loads)[0, torus.n_links :].tolist() == [*injected, *received]


@given(walks(amounts=WHOLE))
@settings(max_examples=25, deadline=None)
def test_adaptive_loads_are_the_even_split(case):
    comm, torus, mapping, moves = case
    loads = moving_loads(comm, torus, mapping, routing="adaptive")
    for tasks, nodes in moves:
        loads.move(tasks, nodes)
    now = TaskMapping(loads.state.node, torus, tasks_per_node=comm.n_tasks)
    expected = link_loads(MappingProblem(comm, torus, "adaptive"), now)
    rounding = comm.nbytes.sum() * 2.0**-17 + 1e-6
    np.testing.assert_allclose(over_links(loads), expected, rtol=1e-12, atol=rounding)
    assert (moving_loads(comm, torus, now, routing="adaptive").state.load == loads.state.load).all()


def test_adaptive_loads_where_the_parity_of_the_source_settles_a_tie():
    torus = Torus((2, 4), tie_break="bluegene")
    pairs = np.argwhere(~np.eye(8, dtype=bool))
    comm = CommGraph(8, *pairs.T, np.full(len(pairs), 3.0))
    mapping = TaskMapping(np.arange(8), torus)
    loads = moving_loads(comm, torus, mapping, routing="adaptive")
    expected = link_loads(MappingProblem(comm, torus, "adaptive"), mapping)
    np.testing.assert_allclose(over_links(loads), expected, atol=1e-2)


def test_phases_are_counted_apart_and_rounds_together():
    there, back = CommGraph(2, [0], [1], [100]), CommGraph(2, [0], [1], [30])
    torus, mapping = Torus((4,)), TaskMapping([0, 1], 4)
    apart = moving_loads(Workload([there, back]), torus, mapping)
    assert by_resource(apart)[:, 0].tolist() == [100, 30]
    rounds = moving_loads(Workload([there, back], dependent=True), torus, mapping)
    assert by_resource(rounds)[:, 0].tolist() == [130]
    assert over_links(apart).tolist() == over_links(rounds).tolist()


def test_wire_bytes_hold_headers():
    loads = moving_loads(
        CommGraph(2, [0], [1], [600]), Torus((4,)), TaskMapping([0, 1], 4), count="wire_bytes"
    )
    assert over_links(loads)[0] == 600 + 2 * 32


def test_fractions_of_bytes_are_kept_to_two_to_the_minus_sixty_of_the_whole():
    comm = CommGraph(2, [0], [1], [1 / 3])
    loads = moving_loads(comm, Torus((4,)), TaskMapping([0, 1], 4))
    assert over_links(loads)[0] == pytest.approx(1 / 3, rel=1e-15)


def test_a_torus_too_large_is_refused():
    with pytest.raises(InputError, match="too large to search"):
        moving_loads(CommGraph(1, [], [], []), Torus((64, 64)), TaskMapping([0], 4096))


@pytest.mark.parametrize("routing", ["deterministic", "adaptive"])
def test_tables_of_small_and_large_tori_are_compiled_for_once(routing):
    silent = CommGraph(1, [], [], [])
    tables = [
        build_resource_table(MappingProblem(silent, Torus(shape), routing))
        for shape in ((2,), (2, 2), (4, 4, 4))
    ]
    assert {table.resource.dtype for table in tables} == {np.dtype(np.uint16)}
