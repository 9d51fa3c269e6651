"""Names, numbers and mappings that strategies refuse, and what they say."""

import numpy as np
import pytest

from toruscast.errors import InputError
from toruscast.mapping import Torus, patterns, strategies

BAD_NAMES = """
spiral permute permute-XQ permute-XX permute-X zigzag-YYX tilt-XX-1 tilt-XY-a tile-2x tile-2x2x2
tile-0x2 tile-٣x2 blocked-2x2-spiral curve-hilbert stride-2 stride--1 bisect-twice greedy-lightest
random-3 identity-foo identity-permute-YX swap-3 swap-3-spiral nth-720 nth-٣ random@x random@1.5
random@-1 random@01 random@ identity@3 greedy-heaviest@2
"""


@pytest.mark.parametrize("name", BAD_NAMES.split())
def test_bad_names(name):
    with pytest.raises(InputError):
        strategies.make(name, patterns.halo_2d((2, 3), 8), Torus((3, 2)))


@pytest.mark.parametrize(
    "options",
    [{"tasks_per_node": 2}, {"tasks_per_node": 0}, {"tasks_per_node": 2.5}, {"n": 0}, {"n": True}],
)
def test_bad_samples(options):
    with pytest.raises(InputError):
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
