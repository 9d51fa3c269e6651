import numpy as np
import pytest

import toruscast as tc
from toruscast.errors import InputError
from toruscast.mapping import CommGraph, Torus, strategies
from toruscast.mapping.strategies.permute import explain_letters, map_ranks

WORDS = [
    # (machine, word, letters of a strategy, the last varying fastest)
    ("bluegene_q:4x2x2x2x2", "ABCDET", "ABCDET"),
    ("bluegene_q:4x2x2x2x2", "TEDCBA", "TEDCBA"),
    ("bluegene_p:4x4x2", "TXYZ", "ZYXT"),
    ("bluegene_l:4x4x2", "XYZT", "TZYX"),
    ("tofu_d:4x6x2", "rank-map-bynode=XYZ", "TZYX"),
    ("tofu_d:4x6x2", "rank-map-bychip:YXZ", "ZXYT"),
]


@pytest.mark.parametrize(("name", "word", "letters"), WORDS)
def test_words_are_orders_of_letters(name, word, letters):
    torus = tc.torus(name)
    n_tasks = 2 * torus.n_nodes
    made = strategies.make(f"permute-{letters}", CommGraph(n_tasks, [], [], []), torus)
    np.testing.assert_array_equal(map_ranks(word, torus, n_tasks).node, made.node)


def test_the_first_letter_of_blue_gene_p_varies_fastest():
    torus = tc.torus("bluegene_p:4x4x2")
    mapping = map_ranks("XYZT", torus, 3)
    assert torus.coords[mapping.node].tolist() == [[0, 0, 0], [1, 0, 0], [2, 0, 0]]
    pairs = map_ranks("TXYZ", torus, 64)
    assert pairs.node[::2].tolist() == pairs.node[1::2].tolist()


def test_strategies_whose_letters_run_the_other_way_say_so():
    torus = tc.torus("bluegene_p:4x4x2")
    assert "first varying fastest, is ZYXT" in explain_letters("permute-TXYZ", torus)
    assert "unlike in the machine's rank orders" in explain_letters("zigzag-XYZ", torus)
    assert not explain_letters("permute-ABCDET", tc.torus("bluegene_q:512"))
    assert not explain_letters("random", torus)


@pytest.mark.parametrize("word", ["XYZ", "XXYZ", "rank-map-bynode=XYZ", "ABCT"])
def test_what_is_no_word_of_a_machine(word):
    with pytest.raises(InputError, match="not a rank order of this machine"):
        map_ranks(word, tc.torus("bluegene_p:4x4x2"), 4)
    with pytest.raises(InputError, match="not a rank order of this machine"):
        map_ranks(word, Torus((4, 4, 4)), 4)
