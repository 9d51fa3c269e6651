"""What commands say about numbers: how many tasks share a node, plurals, large counts."""

from toruscast.cli.problem import occupancy
from toruscast.mapping import CommGraph, TaskMapping


def test_occupancy_of_several_mappings():
    spread, packed = TaskMapping([0, 1, 2, 3], 4), TaskMapping([1, 1, 2, 2], 4, tasks_per_node=2)
    assert occupancy([spread]) == "1 task a node"
    assert occupancy([packed]) == "2 tasks a node on 2 of 4 nodes"
    assert occupancy([spread, packed]) == "1 to 2 tasks a node on 2 to 4 of 4 nodes"
    assert occupancy([TaskMapping([0], 1)]) == "1 task a node"


def test_one_is_no_plural():
    assert repr(CommGraph(1, [0], [0], [1])) == "CommGraph(1 task, 1 edge, 1 byte, 1 message)"
    assert repr(TaskMapping([0], 1)) == "TaskMapping(1 task on 1 node, 1 a node)"
