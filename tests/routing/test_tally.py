"""One pass over the messages finds what the functions that look at one thing find."""

from typing import get_args

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from random_cases import cases, rounding

from toruscast.mapping import CommGraph, MappingProblem, Network, TaskMapping, Torus
from toruscast.routing import dilations, injection_fifos, link_loads
from toruscast.routing.bounds import times_alone
from toruscast.routing.loads import PhaseRoutes, have_two_ways
from toruscast.routing.messages import order_of, packet_counts
from toruscast.validation import Routing

RING = Torus((5,), network=Network(fifos=3, fifo_rule="round_robin"))
IN_TURN = CommGraph(5, [0, 0, 0, 0], [1, 2, 3, 4], [9, 9, 9, 9], [1, 2, 3, 4])


@settings(deadline=None)
@given(cases(), st.sampled_from(get_args(Routing)))
@example((IN_TURN, RING, TaskMapping(range(5), RING)), "deterministic")
def test_a_pass_finds_what_functions_of_their_own_find(case, routing):
    comm, torus, mapping = case
    found = PhaseRoutes(MappingProblem(comm, torus, routing).total, mapping).tally
    packets, per_packet = packet_counts(MappingProblem(comm, torus))
    wire = packets * per_packet
    hops = dilations(MappingProblem(comm, torus), mapping)
    fifo = injection_fifos(MappingProblem(comm, torus), mapping)
    length = np.zeros((torus.n_nodes, torus.network.fifos))
    inside = fifo >= 0
    np.add.at(length, (mapping.node[comm.src[inside]], fifo[inside]), comm.n_messages[inside])
    loads = link_loads(MappingProblem(comm, torus, routing), mapping, wire)
    atol = rounding(wire)
    np.testing.assert_allclose(found.wire_bytes, loads, rtol=1e-12, atol=atol)
    counts = np.bincount(hops, minlength=torus.diameter + 1)
    assert found.edges_by_hops.tolist() == counts.tolist()
    np.testing.assert_allclose(found.fifo_length, length.ravel(), rtol=1e-12)
    assert found.hop_bytes == pytest.approx(hops @ comm.nbytes, rel=1e-12)
    assert found.off_node_bytes == pytest.approx(comm.nbytes[hops > 0].sum(), rel=1e-12)
    problem = MappingProblem(comm, torus, routing)
    is_shared = torus.network.fifo_rule == "first_free"
    two_ways = have_two_ways(problem.total, mapping) if is_shared else None
    alone = times_alone(problem, hops, two_ways)
    assert found.latency == pytest.approx(alone.max(initial=0.0), rel=1e-12)


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**30 - 1) | st.sampled_from([0, 1, 2, 2**30 - 2])))
def test_order_of_numbers(numbers):
    # Parts of the largest, not too small ones, however small that is.
    for unit in (1.0, 2.0**-1050, 2.0**900):
        array = np.array([*numbers, 2**30]) * unit
        assert np.array_equal(order_of(array), np.argsort(array, kind="stable"))
    assert order_of(np.zeros(3)).tolist() == [0, 1, 2]
    assert order_of(np.zeros(0)).tolist() == []
