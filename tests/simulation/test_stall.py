"""Rings that would deadlock: the rules of the network keep the traffic moving."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_cases import ARBITRATIONS, graphs, mapped, tori

from toruscast.mapping import CommGraph, MappingProblem, Network, TaskMapping, Torus
from toruscast.mapping.patterns import all_to_all
from toruscast.routing import dilations
from toruscast.simulation import simulate

ROUTINGS = ["deterministic", "adaptive"]
NO_PAUSE = {"payload": 64, "overhead": 0.0, "memory_bandwidth": 1e9}


def shallow(shape, deadlock, **changes):
    places = 2 if deadlock == "bubble" else 1
    network = Network(buffer_packets=places, deadlock=deadlock, **NO_PAUSE, **changes)
    return Torus(shape, network=network)


def exchange(torus, routing="deterministic"):
    """An all-to-all of 12 packets each: every ring would fill up."""
    mapping = TaskMapping(np.arange(torus.n_nodes), torus)
    return simulate(all_to_all(torus.n_nodes, 64.0 * 12), torus, mapping, routing=routing)


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize("deadlock", ["bubble", "dateline"])
@pytest.mark.parametrize("shape", [(4,), (5, 4), (8, 2), (3, 4, 4), (16,)])
def test_the_rules_let_the_same_traffic_pass(shape, deadlock, routing):
    torus = shallow(shape, deadlock)
    result = exchange(torus, routing)
    mapping = TaskMapping(np.arange(torus.n_nodes), torus)
    hops = dilations(MappingProblem(all_to_all(torus.n_nodes, 1.0), torus), mapping)
    assert result.packet_hops == 12 * hops.sum()


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize(
    ("size", "src", "dst", "channels"),
    [
        (8, 0, 2, 2),
        (8, 7, 5, 2),
        (8, 2, 4, 1),
        (8, 5, 3, 1),
        (8, 6, 0, 1),
        (8, 1, 7, 1),
        (7, 0, 3, 2),
        (7, 4, 6, 2),
        (7, 2, 4, 1),
        (7, 5, 0, 1),
    ],
)
def test_only_who_crosses_no_dateline_takes_either_channel(size, src, dst, channels, routing):
    # A ring; a node that takes in slowly, and what fills the buffer before it.
    network = Network(deadlock="dateline", buffer_packets=1, memory_bandwidth=1e6)
    torus = Torus((size,), network=network)
    comm = CommGraph(2, [0], [1], [512.0 * 40], [40])
    result = simulate(comm, torus, TaskMapping([src, dst], torus), routing=routing)
    assert result.max_buffered.max() == channels + (routing == "adaptive")


@pytest.mark.parametrize("deadlock", ["bubble", "dateline"])
@settings(max_examples=50, deadline=None)
@given(data=st.data(), routing=st.sampled_from(ROUTINGS))
def test_no_traffic_stalls(deadlock, data, routing):
    network = Network(
        buffer_packets=data.draw(st.integers(2 if deadlock == "bubble" else 1, 3)),
        deadlock=deadlock,
        fifos=data.draw(st.sampled_from([1, 4])),
        fifo_packets=data.draw(st.sampled_from([1, 2, 5])),
        fifo_rule=data.draw(st.sampled_from(["bluegene_q", "first_free"])),
        feeding=data.draw(st.sampled_from(["tasks", "messages", "packets"])),
        arbitration=data.draw(ARBITRATIONS),
        escape=data.draw(st.sampled_from(["returns", "stays"])),
        hop_latency=data.draw(st.sampled_from([0.0, 4e-8, 1e-6])),
        eager_limit=data.draw(st.sampled_from([float("inf"), 64.0])),
        **NO_PAUSE,
    )
    torus = data.draw(tori(max_nodes=60, max_dimensions=3, network=network))
    mapping = data.draw(mapped(torus, max_tasks=30))
    nbytes = st.sampled_from([0.0, 1.0, 64.0, 640.0, 6400.0])
    comm = data.draw(graphs(mapping.n_tasks, 120, nbytes, st.just(1.0)))
    # A stall would be an error.
    result = simulate(comm, torus, mapping, routing=routing)
    assert result.messages()["arrived"].notna().all()
