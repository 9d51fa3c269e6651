"""What is learned from must not be a candidate in another position."""

import numpy as np

from toruscast.mapping import TaskMapping, Torus, patterns, strategies
from toruscast.training.ranking import _fingerprint, _unlike

TORUS = Torus((4, 4, 4))
HALO = patterns.halo_3d((4, 4, 4), 4096, periodic=True)


def test_a_mapping_moved_by_a_symmetry_is_a_twin():
    node = np.random.default_rng(1).permutation(64)
    moved = TORUS.node((TORUS.coords[node] + [1, 2, 3]) % 4)
    first, second = TaskMapping(node, TORUS), TaskMapping(moved, TORUS)
    assert _fingerprint(HALO, TORUS, first) == _fingerprint(HALO, TORUS, second)
    other = TaskMapping(np.random.default_rng(2).permutation(64), TORUS)
    assert _fingerprint(HALO, TORUS, first) != _fingerprint(HALO, TORUS, other)


def test_samples_are_unlike_the_candidates_and_each_other():
    candidates = strategies.sample(HALO, TORUS, n=20, seed=1)
    mappings, n_twins = _unlike(HALO, TORUS, 40, 2, candidates)
    marks = [_fingerprint(HALO, TORUS, mapping) for mapping in [*candidates, *mappings]]
    assert (len(mappings), n_twins) == (40, 0)
    assert len(set(marks[20:])) == 40
    assert not set(marks[:20]) & set(marks[20:])


def test_twins_fill_up_where_there_are_too_few_others():
    # A ring of four tasks on a ring of four nodes: whichever task lies opposite task 0 decides.
    mappings, n_twins = _unlike(patterns.ring(4, 64), Torus((4,)), 6, 1, [])
    assert len({mapping.node.tobytes() for mapping in mappings}) == 6
    assert n_twins == 3
