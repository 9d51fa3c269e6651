"""Task mappings: slots, capacity, and placements that cannot be."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toruscast.errors import InputError
from toruscast.mapping import CommGraph, MappingProblem, TaskMapping, Torus
from toruscast.mapping.task_mapping import Allocation


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30))
def test_slots_number_the_tasks_of_a_node_by_rank(node):
    mapping = TaskMapping(node, 6, tasks_per_node=max(node.count(n) for n in node))
    assert mapping.slot.tolist() == [node[:t].count(node[t]) for t in range(len(node))]
    assert mapping.occupancy.tolist() == [node.count(n) for n in range(6)]
    assert mapping.tasks_per_node == max(node.count(n) for n in node)


def test_given_slots_are_kept():
    mapping = TaskMapping([1, 1], 2, slot=[3, 0], name="a")
    assert mapping.slot.tolist() == [3, 0]
    assert mapping.tasks_per_node == 4
    assert mapping.renamed("b").slot.tolist() == [3, 0]
    assert mapping.renamed("b").name == "b"
    with pytest.raises(ValueError, match="read-only"):
        mapping.node[0] = 0


def test_the_callers_array_stays_writable():
    node = np.array([0, 1], dtype=np.int32)
    mapping = TaskMapping(node, 2)
    node[0] = 1
    assert mapping.node.tolist() == [0, 1]


BAD = [
    *({"node": node} for node in ([], [0, 4], [-1], [0.0, 1.5], [float("nan")], ["0"], [[[0, 1]]])),
    *({"node": node} for node in ([[0, 2]], [[0, 1], [2]], [[0]], 0, None, [2**40], [2**70])),
    *({"node": [0], "tasks_per_node": most} for most in (0, 1.5, "two")),
    *({"node": [0, 0], "slot": slot} for slot in ([1, 1], [-1, 0], [0], [0.5, 0], [0, 2**62])),
    *({"node": [0], "torus": torus} for torus in (0, -3, "4xx", None, 1.5)),
    {"node": [0, 0, 0], "tasks_per_node": 2},
    {"node": [0], "name": 5},
    {"node": [0, 0], "slot": [0, 2], "tasks_per_node": 2},
]


@pytest.mark.parametrize("arguments", BAD, ids=str)
def test_bad_mappings(arguments):
    with pytest.raises(InputError) as caught:
        TaskMapping(**{"torus": Torus((2, 2)), **arguments})
    assert "\n" not in str(caught.value)


def test_check_names_the_mapping():
    mapping = TaskMapping([0, 1], 4, name="near")
    mapping.check(2, Torus((2, 2)))
    with pytest.raises(InputError, match="near does not fit the graph: found 2 tasks, expected 3"):
        mapping.check(3, Torus((2, 2)))
    with pytest.raises(InputError, match="near does not fit the torus: found 4 nodes, expected 8"):
        mapping.check(2, Torus(8))
    with pytest.raises(InputError, match="near is for another torus: found nodes of 4x2, expec"):
        TaskMapping([0, 1], (4, 2), name="near").check(2, "2x4")


@given(st.data())
def test_numbers_and_coordinates_of_nodes_are_alike(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    torus = Torus(shape)
    n = data.draw(st.integers(1, torus.n_nodes))
    nodes = np.array(data.draw(st.permutations(range(torus.n_nodes)))[:n])
    places = torus.coords[nodes]
    comm = CommGraph(n, [0], [n - 1], [8])
    assert torus.check_nodes(places).tolist() == nodes.tolist()
    assert TaskMapping(places, torus).node.tolist() == nodes.tolist()
    assert MappingProblem(comm, torus).mapping(places).node.tolist() == nodes.tolist()
    both = [Allocation(torus, each, fixed={0: each[0]}) for each in (nodes, places)]
    assert both[0].nodes.tolist() == both[1].nodes.tolist()
    assert both[0].fixed == both[1].fixed
    if n < torus.n_nodes:
        assert torus.without(nodes=places) == torus.without(nodes=nodes)
    if n != torus.ndim:
        (found,) = MappingProblem(comm, torus).mappings(places)
        assert found.node.tolist() == nodes.tolist()


@pytest.mark.parametrize("nodes", [[[0]], [[0, 1, 2]], [[[0, 1]]], 3, [[0.5, 1]], [[0, 4]], [4.5]])
def test_nodes_of_another_shape_are_refused(nodes):
    torus = Torus((4, 4))
    for use in (
        torus.check_nodes,
        lambda n: torus.without(nodes=n),
        lambda n: Allocation(torus, n),
    ):
        with pytest.raises(InputError):
            use(nodes)


@given(st.data())
def test_a_node_takes_the_least_that_suffices_unless_more_are_stated(data):
    n_nodes = data.draw(st.integers(1, 6))
    node = data.draw(st.lists(st.integers(0, n_nodes - 1), min_size=1, max_size=12))
    foreign = data.draw(st.integers(0, n_nodes - 1))
    torus = Torus((n_nodes,)).without(nodes=[foreign] if n_nodes > 1 else [])
    most = max(node.count(n) for n in node)
    slot = [node[:t].count(node[t]) for t in range(len(node))]
    for stated in ({"tasks_per_node": most}, {"slot": slot}):
        assert TaskMapping(node, torus, **stated).tasks_per_node == most
    if most * torus.usable_nodes.size < len(node) + torus.usable_nodes.size:
        assert TaskMapping(node, torus).tasks_per_node == most
    else:
        with pytest.raises(InputError) as caught:
            TaskMapping(node, torus)
        full = next(
            n
            for t, n in enumerate(node)
            if node[: t + 1].count(n) * torus.usable_nodes.size
            >= len(node) + torus.usable_nodes.size
        )
        tasks = [task for task, there in enumerate(node) if there == full]
        said = f"share node {full}; --tasks-per-node {most} allows it"
        assert said in str(caught.value)
        assert f"tasks {tasks[0]}" in str(caught.value)
