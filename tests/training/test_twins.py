"""What is learned from must not be a candidate in another position."""

import numpy as np
import pytest

from toruscast.errors import InputError
from toruscast.mapping import CommGraph, MappingProblem, TaskMapping, Torus, patterns, strategies
from toruscast.mapping.strategies import Placement
from toruscast.mapping.strategies.sampling import fingerprint, sample_inequivalent

TORUS = Torus((4, 4, 4))
HALO = patterns.halo_3d((4, 4, 4), 4096, periodic=True)
PROBLEM = MappingProblem(HALO, TORUS)


def test_a_mapping_moved_by_a_symmetry_is_a_twin():
    node = np.random.default_rng(1).permutation(64)
    moved = TORUS.node((TORUS.coords[node] + [1, 2, 3]) % 4)
    first, second = TaskMapping(node, TORUS), TaskMapping(moved, TORUS)
    assert fingerprint(PROBLEM, first) == fingerprint(PROBLEM, second)
    other = TaskMapping(np.random.default_rng(2).permutation(64), TORUS)
    assert fingerprint(PROBLEM, first) != fingerprint(PROBLEM, other)


def test_samples_are_unlike_the_candidates_and_each_other():
    candidates = strategies.sample(HALO, TORUS, n=20, seed=1)
    mappings, n_twins = sample_inequivalent(Placement(PROBLEM), 40, 2, candidates)
    marks = [fingerprint(PROBLEM, mapping) for mapping in [*candidates, *mappings]]
    assert (len(mappings), n_twins) == (40, 0)
    assert len(set(marks[20:])) == 40
    assert not set(marks[:20]) & set(marks[20:])


def test_twins_fill_up_where_there_are_too_few_others():
    ring = MappingProblem(patterns.ring(4, 64), Torus((4,)))
    # A ring of four tasks on a ring of four nodes: whichever task lies opposite task 0 decides.
    mappings, n_twins = sample_inequivalent(Placement(ring), 6, 1, [])
    assert len({mapping.node.tobytes() for mapping in mappings}) == 6
    assert n_twins == 3


def test_no_more_are_drawn_than_there_are():
    # 8 * 7 * 6 mappings, few of them of different distances.
    line, torus = CommGraph(3, [0, 1], [1, 2], [50_000, 40_000]), Torus((8,))
    candidates = strategies.sample(line, torus, n=4, seed=1)
    placement = Placement(MappingProblem(line, torus))
    for n in (168, 332):
        mappings, n_twins = sample_inequivalent(placement, n, 1, candidates)
        assert len({mapping.node.tobytes() for mapping in [*candidates, *mappings]}) == 4 + n
        assert 0 < n_twins < n
    with pytest.raises(InputError, match="found 336, 4 of them excluded, expected 333"):
        sample_inequivalent(placement, 333, 1, candidates)
