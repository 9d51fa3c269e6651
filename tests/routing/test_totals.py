"""Totals of one pass over the messages equal those of separate functions."""

from typing import get_args

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from random_cases import cases, rounding

from toruscast.mapping import CommGraph, MappingProblem, Network, TaskMapping, Torus
from toruscast.routing import dilations, injection_fifos, link_loads
from toruscast.routing.bounds import uncontended_times
from toruscast.routing.loads import PhaseRoutes, edges_with_multiple_routes
from toruscast.routing.messages import packet_counts
from toruscast.routing.route_kernels import KEY_BITS, fill_keys, sort_keys
from toruscast.validation import Routing

RING = Torus((5,), network=Network(fifos=3, fifo_rule="round_robin"))
IN_TURN = CommGraph(5, [0, 0, 0, 0], [1, 2, 3, 4], [9, 9, 9, 9], [1, 2, 3, 4])


@settings(deadline=None)
@given(cases(), st.sampled_from(get_args(Routing)))
@example((IN_TURN, RING, TaskMapping(range(5), RING)), "deterministic")
def test_a_pass_finds_what_functions_of_their_own_find(case, routing):
    comm, torus, mapping = case
    totals = PhaseRoutes(MappingProblem(comm, torus, routing).total, mapping).totals
    packets, per_packet = packet_counts(MappingProblem(comm, torus))
    wire = packets * per_packet
    hops = dilations(MappingProblem(comm, torus), mapping)
    fifo = injection_fifos(MappingProblem(comm, torus), mapping)
    length = np.zeros((torus.n_nodes, torus.network.fifos))
    inside = fifo >= 0
    np.add.at(length, (mapping.node[comm.src[inside]], fifo[inside]), comm.n_messages[inside])
    loads = link_loads(MappingProblem(comm, torus, routing), mapping, wire)
    atol = rounding(wire)
    np.testing.assert_allclose(totals.wire_bytes, loads, rtol=1e-12, atol=atol)
    counts = np.bincount(hops, minlength=torus.diameter + 1)
    assert totals.edges_by_hops.tolist() == counts.tolist()
    np.testing.assert_allclose(totals.fifo_length, length.ravel(), rtol=1e-12)
    assert totals.hop_bytes == pytest.approx(hops @ comm.nbytes, rel=1e-12)
    assert totals.off_node_bytes == pytest.approx(comm.nbytes[hops > 0].sum(), rel=1e-12)
    problem = MappingProblem(comm, torus, routing)
    is_shared = torus.network.fifo_rule == "first_free"
    multiple_routes = edges_with_multiple_routes(problem.total, mapping) if is_shared else None
    alone = uncontended_times(problem, hops, multiple_routes)
    assert totals.latency == pytest.approx(alone.max(initial=0.0), rel=1e-12)


def sorted_indices(numbers):
    key, buffer = np.empty((2, numbers.size), dtype=np.uint64)
    n = fill_keys(numbers, np.ones(numbers.size, dtype=np.int64), key)
    assert n == numbers.size
    return (sort_keys(key, buffer) & np.uint64(2**KEY_BITS - 1)).astype(np.int64)


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**30 - 1) | st.sampled_from([0, 1, 2, 2**30 - 2])))
def test_order_of_numbers(numbers):
    # Parts of the largest, not too small ones, however small that is.
    for unit in (1.0, 2.0**-1050, 2.0**900):
        array = np.array([*numbers, 2**30]) * unit
        assert np.array_equal(sorted_indices(array), np.argsort(array, kind="stable"))
    assert sorted_indices(np.zeros(3)).tolist() == [0, 1, 2]
    assert sorted_indices(np.zeros(0)).tolist() == []
