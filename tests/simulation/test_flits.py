"""Packets as wholes beside wormhole routers that move flits."""

import numpy as np
import pytest
from benchmark_modules import load

from toruscast.mapping import CommGraph

flits = load("flits")


@pytest.mark.parametrize("buffers", list(flits.BUFFERS))
def test_packets_alone_take_as_many_cycles(buffers):
    """Each hop of the head takes 4 cycles, and 8 flits go out of the last router."""
    torus = flits.torus_of((5, 5), buffers)
    node = np.arange(25)
    for end, hops in ((1, 1), (2, 2), (7, 3), (12, 4)):
        comm = CommGraph(25, [0], [end], [512], [1])
        expected = hops * flits.LATENCY + flits.FLITS
        assert flits.last_cycle(comm, torus, node) == expected
        assert flits.cycles_of_packets(comm, torus, node) == pytest.approx(expected)


def test_two_packets_to_one_place_share_the_last_link():
    torus = flits.torus_of((7, 7), "2 places")
    comm = CommGraph(49, [0, 1], [2, 2], [512, 512], [1, 1])
    # The link into node 2 carries 16 flits, from the cycle in which the first comes to it.
    expected = 2 * flits.FLITS + flits.LATENCY
    assert flits.last_cycle(comm, torus, np.arange(49)) == expected
    assert flits.cycles_of_packets(comm, torus, np.arange(49)) == pytest.approx(expected)


def test_packets_in_two_places_take_nearly_as_long():
    found = list(flits.rows(10))
    ratios = np.array([row["ratio, 2 places"] for row in found])
    assert 0.93 <= np.exp(np.log(ratios).mean()) <= 1.0
    assert abs(np.log(ratios)).max() < 0.17
