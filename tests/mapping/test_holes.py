"""Tori with excluded nodes, missing links and slow links."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_cases import cases, tori

from toruscast._features import RoutedTraffic
from toruscast.errors import InputError
from toruscast.mapping import CommGraph, MappingProblem, TaskMapping, Torus, strategies
from toruscast.mapping.patterns import halo_2d
from toruscast.routing import link_loads, time_bounds
from toruscast.simulation import simulate, simulate_flows

PAIR = CommGraph(2, [0], [1], [51200])


def test_tasks_stay_on_our_nodes_whatever_the_strategy():
    torus = Torus((4, 4)).without(nodes=[5, 6, 9, 10])
    ring = CommGraph(12, range(12), [*range(1, 12), 0], [5000] * 12)
    for mapping in strategies.sample(ring, torus, n=40):
        assert not np.isin(mapping.node, [5, 6, 9, 10]).any(), mapping.name
        assert mapping.occupancy.max() == 1
    assert strategies.make("identity", ring, torus).node.tolist() == torus.usable_nodes.tolist()


def test_there_are_as_many_mappings_as_our_nodes_allow():
    torus = Torus((2, 2)).without(nodes=[1])
    two = CommGraph(2, [0], [1], [8])
    found = strategies.sample(two, torus, n=6)
    assert len({m.node.tobytes() for m in found}) == 6
    with pytest.raises(InputError, match="not enough"):
        strategies.sample(two, torus, n=7)


def test_a_task_on_a_node_of_others_is_refused():
    torus = Torus((4,)).without(nodes=[2])
    with pytest.raises(InputError, match="task 1 on node 2"):
        simulate(PAIR, torus, TaskMapping([0, 2], 4))


def test_routers_of_others_forward():
    torus = Torus((8,))
    mapping = TaskMapping([0, 2], 8)
    times = [simulate(PAIR, host, mapping).time for host in (torus, torus.without(nodes=[1]))]
    assert times[0] == times[1]


def test_a_missing_link_is_an_error_that_names_it_and_who_goes_there():
    torus = Torus((8,)).without(links=[2])
    mapping = TaskMapping([0, 2], 8)
    for run in (
        lambda: simulate(PAIR, torus, mapping),
        lambda: simulate_flows(PAIR, torus, mapping),
        lambda: RoutedTraffic(MappingProblem(PAIR, torus), mapping),
        lambda: link_loads(MappingProblem(PAIR, torus, "adaptive"), mapping),
        lambda: time_bounds(MappingProblem(PAIR, torus), mapping),
    ):
        with pytest.raises(InputError, match=r"task 0 to task 1 goes over \(1\) \+X"):
            run()
    assert simulate(PAIR, torus, TaskMapping([0, 7], 8)).time > 0
    assert not torus.link_exists[2]


@given(cases(lambda: tori(max_nodes=24)), st.data())
@settings(max_examples=20, deadline=None)
def test_slow_links_as_slow_as_before_change_nothing(case, data):
    comm, torus, mapping = case
    links = np.flatnonzero(torus.link_exists)
    if not links.size:
        return
    some = data.draw(st.lists(st.sampled_from(links.tolist()), max_size=5, unique=True))
    same = torus.with_links({link: torus.link_bandwidth[link] for link in some})
    assert simulate(comm, same, mapping).time == simulate(comm, torus, mapping).time


def test_a_slow_link_takes_its_time():
    torus = Torus((8,)).with_links({0: 1e8})
    time = simulate(PAIR, torus, TaskMapping([0, 1], 8)).time
    assert time >= time_bounds(MappingProblem(PAIR, torus), TaskMapping([0, 1], 8)).link
    assert (
        time_bounds(MappingProblem(PAIR, torus), TaskMapping([0, 1], 8)).link
        == 51200 * 544 / 512 / 1e8
    )
    assert time == pytest.approx(51200 * 544 / 512 / 1e8, rel=0.01)
    assert simulate(PAIR, torus, TaskMapping([1, 0], 8)).time < time / 10
    flow = simulate_flows(PAIR, torus, TaskMapping([0, 1], 8)).time
    assert flow == pytest.approx(time, rel=0.01)


def test_all_links_slow_is_a_slower_torus():
    halo, fast, slow = halo_2d((4, 4), 2048), Torus((4, 4)), Torus((4, 4), bandwidth=1e9)
    every = fast.with_links(dict.fromkeys(range(fast.n_links), 1e9))
    mapping = strategies.make("random", halo, fast)
    # Injection is as fast as the fastest link of the dimension.
    assert simulate(halo, every, mapping).time == pytest.approx(
        simulate(halo, slow, mapping).time, rel=0.2
    )
    assert (every.link_bandwidth == slow.link_bandwidth).all()


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.without(nodes=[16]),
        lambda t: t.without(nodes=range(16)),
        lambda t: t.without(links=[99]),
        lambda t: t.without(links=[3]),
        lambda t: t.with_links({0: 5e9}),
        lambda t: t.with_links({0: -1}),
        lambda t: t.with_links({99: 1e9}),
        lambda t: t.with_links([0]),
        lambda t: t.read_link("(9,9) +0"),
        lambda t: t.read_link("north"),
        lambda t: t.read_link("(0,0) +7"),
    ],
)
def test_what_cannot_be_is_refused(change):
    with pytest.raises(InputError):
        change(Torus((4, 4), wrap=(True, False)))


def test_labels_and_numbers_name_the_same_links():
    torus = Torus((4, 4, 2)).without(nodes=[1], links=[3]).with_links({5: 1e9})
    assert all(torus.read_link(torus.link_label(link)) == link for link in range(torus.n_links))
    assert str(torus) == "4x4x2 (1 excluded node, 1 missing link, 1 slow link)"


def test_a_strategy_that_reaches_no_further_node_says_so():
    torus = Torus((2,)).without(links=[0, 1, 2, 3])
    with pytest.raises(InputError, match="cannot place all tasks: found greedy-heaviest"):
        strategies.make("greedy-heaviest", CommGraph(2, [0, 1], [1, 0], [8, 8]), torus)
