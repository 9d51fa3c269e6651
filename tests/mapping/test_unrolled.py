"""All phases in one graph: the same as one after the other."""

import numpy as np
import pytest

from toruscast.mapping import CommGraph, MappingProblem, Network, TaskMapping, Torus, Workload
from toruscast.routing import dilations, injection_fifos, link_loads
from toruscast.routing.messages import hand_over_times, list_messages
from toruscast.routing.routing import find_hops_and_fifos

TORUS = Torus((4, 3))
MAPPING = TaskMapping(np.random.default_rng(0).permutation(12)[:9], TORUS)


def phases(seed):
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(5):
        pairs = rng.choice(81, size=rng.integers(0, 12), replace=False)
        nbytes = rng.integers(0, 5000, pairs.size).astype(float)
        found.append(CommGraph(9, pairs // 9, pairs % 9, nbytes, rng.integers(0, 3, pairs.size)))
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rule", ["bluegene_q", "first_dimension", "round_robin", "first_free"])
def test_edges_of_all_phases_are_those_of_each(seed, rule):
    torus = TORUS.with_network(fifo_rule=rule)
    several = phases(seed)
    workload = Workload(several, dependent=True)
    together = workload.unrolled
    placed = together.placed(MAPPING)
    hops = np.split(dilations(MappingProblem(together.comm, torus), placed), together.begin[1:-1])
    ready = np.split(hand_over_times(together.comm, torus.network)[1], together.begin[1:-1])
    fifo = np.split(
        find_hops_and_fifos(MappingProblem(workload, torus), MAPPING).fifo, together.begin[1:-1]
    )
    for number, phase in enumerate(several):
        assert (together.task[together.comm.src[together.phase == number]] == phase.src).all()
        assert (together.task[together.comm.dst[together.phase == number]] == phase.dst).all()
        np.testing.assert_array_equal(
            hops[number], dilations(MappingProblem(phase, torus), MAPPING)
        )
        np.testing.assert_array_equal(ready[number], hand_over_times(phase, torus.network)[1])
        np.testing.assert_array_equal(
            fifo[number], injection_fifos(MappingProblem(phase, torus), MAPPING)
        )
    loads = sum(link_loads(MappingProblem(phase, torus), MAPPING) for phase in several)
    np.testing.assert_allclose(link_loads(MappingProblem(together.comm, torus), placed), loads)


@pytest.mark.parametrize("seed", range(4))
def test_messages_of_all_rounds_are_those_of_each(seed):
    torus = Torus((4, 3), network=Network(payload=256, eager_limit=1000))
    several = phases(seed)
    found = list_messages(MappingProblem(Workload(several, dependent=True), torus), MAPPING, 1)
    for number, phase in enumerate(several):
        alone = list_messages(MappingProblem(phase, torus), MAPPING, 1)
        which = found.round == number
        for name in ("edge", "task", "src", "dst", "receiver", "fifo", "nbytes", "packets"):
            np.testing.assert_array_equal(getattr(found, name)[which], getattr(alone, name))
        np.testing.assert_array_equal(found.asks[which], alone.asks)
    assert (np.diff(found.task) >= 0).all()


def test_one_phase_is_its_own_graph():
    phase = phases(1)[2]
    assert Workload([phase]).unrolled.comm is phase
    assert Workload([phase]).unrolled.placed(MAPPING) is MAPPING


def test_phases_without_an_edge():
    empty = CommGraph(3, [], [], [])
    together = Workload([empty, empty]).unrolled
    assert together.comm.n_edges == 0
    assert together.begin.tolist() == [0, 0, 0]


def test_messages_kept_of_a_graph_are_those_of_its_network_and_nodes():
    fast, slow = TORUS.with_network(eager_limit=1000), TORUS.with_network(overhead=1e-5)
    other = TaskMapping(np.arange(9), TORUS)
    known = Workload(phases(1), dependent=True)
    cases = [(fast, MAPPING, 1), (fast, other, 1), (fast, other, 4), (slow, other, 4)]
    for torus, mapping, coarsening in cases:
        anew = Workload(phases(1), dependent=True)
        found, expected = (
            list_messages(MappingProblem(w, torus), mapping, coarsening) for w in (known, anew)
        )
        for one, two in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, two)
    assert not np.array_equal(found.src, list_messages(MappingProblem(known, slow), MAPPING, 4).src)
