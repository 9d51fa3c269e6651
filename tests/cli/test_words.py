"""What commands say about numbers: how many tasks share a node, plurals, large counts."""

import pytest

from toruscast.cli.phrases import occupancy
from toruscast.mapping import TaskMapping
from toruscast.units import large, part_of
from toruscast.wording import counted


def test_occupancy_of_several_mappings():
    spread, packed = TaskMapping([0, 1, 2, 3], 4), TaskMapping([1, 1, 2, 2], 4)
    assert occupancy([spread]) == "1 task a node"
    assert occupancy([packed]) == "2 tasks a node on 2 of 4 nodes"
    assert occupancy([spread, packed]) == "1 to 2 tasks a node on 2 to 4 of 4 nodes"
    assert occupancy([TaskMapping([0], 1)]) == "1 task a node"


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0"),
        (999, "999"),
        (999_400, "999,400"),
        (999_600, "1 million"),
        (4e6, "4 million"),
        (1.95e9, "1.95 billion"),
        (999.4e9, "999 billion"),
        (999.6e9, "1 trillion"),
        (2.5e15, "2500 trillion"),
    ],
)
def test_large_counts_have_no_exponent(count, words):
    assert large(count) == words


def test_packet_hops_of_a_long_simulation():
    assert part_of("packet-hops")(487_500_000, 1_950_000_000) == "25% of 1.95 billion packet-hops"


def test_counted():
    assert [counted(n, "task") for n in (0, 1, 2, 1e6)] == [
        "0 tasks",
        "1 task",
        "2 tasks",
        "1000000 tasks",
    ]
