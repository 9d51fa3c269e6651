"""Names, numbers and mappings that strategies refuse, and what they say."""

import numpy as np
import pytest

from toruscast.errors import InputError
from toruscast.mapping import Torus, patterns, strategies


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("spiral", "unknown strategy: found spiral, expected a name such as bisect-refined, bl"),
        ("permute", "without its parameters"),
        ("permute-XQ", "bad strategy parameters: found permute-XQ, expected permute-LETTERS"),
        ("permute-XX", "bad strategy parameters"),
        ("permute-X", "bad strategy parameters"),
        ("zigzag-YYX", "bad strategy parameters"),
        ("tilt-XX-1", "bad strategy parameters"),
        ("tilt-XY-a", "bad strategy parameters"),
        ("tile-2x", "bad strategy parameters"),
        ("tile-2x2x2", "bad strategy parameters"),
        ("tile-0x2", "bad strategy parameters"),
        ("blocked-2x2-spiral", "bad strategy parameters"),
        ("curve-hilbert", "bad strategy parameters"),
        ("stride-2", "bad strategy parameters"),
        ("stride--1", "bad strategy parameters"),
        ("bisect-twice", "bad strategy parameters"),
        ("greedy-lightest", "bad strategy parameters"),
        ("random-3", "strategy takes no parameters: found random-3, expected random"),
        ("identity-foo", "strategy takes no parameters"),
        ("identity-permute-YX", "strategy takes no parameters"),
        ("swap-3", "bad strategy parameters"),
        ("swap-3-spiral", "unknown strategy"),
        ("nth-720", "bad strategy parameters"),
        ("random@x", "bad number of a draw: found random@x, expected a whole number behind @"),
        ("random@1.5", "bad number of a draw"),
        ("random@-1", "bad number of a draw"),
        ("random@01", "bad number of a draw"),
        ("random@", "bad number of a draw"),
        ("identity@3", "nothing is drawn at random: found identity@3, expected identity"),
        ("greedy-heaviest@2", "nothing is drawn at random"),
    ],
)
def test_bad_names(name, fault):
    with pytest.raises(InputError, match=fault):
        strategies.make(name, patterns.halo_2d((2, 3), 8), Torus((3, 2)))


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (
            {"tasks_per_node": 2},
            "too many tasks for the torus: found 9 in halo-3x3, expected at most 4 n",
        ),
        ({"tasks_per_node": 0}, "bad tasks per node"),
        ({"tasks_per_node": 2.5}, "bad tasks per node"),
        ({"n": 0}, "bad number of mappings"),
        ({"n": True}, "bad number of mappings"),
    ],
)
def test_bad_samples(options, fault):
    with pytest.raises(InputError, match=fault):
        strategies.sample(patterns.halo_2d((3, 3), 8), Torus((2, 2)), **options)


def test_excluded_mapping_must_fit():
    comm, torus = patterns.halo_2d((4, 4), 8), Torus((4, 4))
    stranger = strategies.make("identity", patterns.ring(4, 8), torus)
    with pytest.raises(InputError, match="does not fit the graph"):
        strategies.sample(comm, torus, 4, exclude=[stranger])


@pytest.mark.parametrize("value", [np.nan, np.inf, "x", 0, 2.5])
def test_numbers_that_are_none(value):
    line, torus = patterns.ring(8, 8), Torus((4, 4))
    for call in (
        lambda: strategies.sample(line, torus, n=value),
        lambda: strategies.make("identity", line, torus, tasks_per_node=value),
        lambda: patterns.all_to_all(value, 8),
        lambda: patterns.random_pairs(8, -1 if value == 0 else value, 8),
        lambda: strategies.make("random", line, torus, seed=-1 if value == 0 else value),
    ):
        with pytest.raises(InputError):
            call()
