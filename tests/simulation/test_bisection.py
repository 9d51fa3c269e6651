"""All-to-alls against the bisection bound: how near adaptive routing comes on large tori."""

import numpy as np
import pytest

from toruscast.mapping import MappingProblem, TaskMapping, Torus
from toruscast.mapping.patterns import all_to_all
from toruscast.routing import link_loads, time_bounds
from toruscast.simulation import simulate


def uniform(shape, packets):
    """An all-to-all whose tasks do not all send the same way at the same time.

    Tasks start with the next higher one and go round: in the order of the nodes all of them would
    send along one dimension first. On shuffled nodes the order of destinations is a random one.
    """
    torus = Torus(shape, tie_break="split")
    mapping = TaskMapping(np.random.default_rng(1).permutation(torus.n_nodes), torus)
    return all_to_all(torus.n_nodes, 512.0 * packets), torus, mapping


@pytest.mark.slow
def test_long_messages_on_a_cube_reach_the_bisection_bound():
    # n^2 / 4 messages cross the middle of a dimension one way, over 2 * 8 * 8 links: n / 64 * n / 8
    # messages a link, 512 here.
    comm, torus, mapping = uniform((8, 8, 8), 8)
    bound = time_bounds(MappingProblem(comm, torus), mapping).link
    assert bound == pytest.approx(512 * 8 * 544 / 2e9)
    result = simulate(comm, torus, mapping, routing="adaptive")
    assert bound <= result.time <= bound / 0.95


def test_the_long_dimension_is_the_bottleneck():
    # Links of a dimension twice as long carry twice as much: the others idle half of the time.
    comm, torus, mapping = uniform((4, 4, 8), 16)
    load = link_loads(MappingProblem(comm, torus), mapping).reshape(-1, 3, 2).max(axis=(0, 2))
    assert load / load.max() == pytest.approx([0.5, 0.5, 1.0])
    result = simulate(comm, torus, mapping, routing="adaptive")
    sent = result.packets.reshape(-1, 3, 2).sum(axis=(0, 2))
    assert sent / sent.max() == pytest.approx([0.5, 0.5, 1.0])
    # Packets for the long dimension fill the buffers of the others: the bound itself is missed by
    # more than on a cube.
    cube = uniform((4, 4, 4), 16)
    missed = [
        time_bounds(MappingProblem(comm, torus), mapping).link
        / simulate(comm, torus, mapping, routing="adaptive").time
        for comm, torus, mapping in ((comm, torus, mapping), cube)
    ]
    assert missed[0] < missed[1]
