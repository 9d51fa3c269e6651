"""The feature table of many mappings."""

import weakref

import pandas as pd
import pytest

import toruscast as tc
from toruscast._features import extract_blocks, register_feature, unregister_feature
from toruscast.errors import InputError
from toruscast.mapping import CommGraph, MappingProblem, TaskMapping, Torus, patterns, strategies


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_what_is_computed_of_a_mapping_goes_with_it(n_jobs):
    """A simulation of millions of messages is large, so only a few are in memory at a time."""
    simulated = weakref.WeakSet()
    held = []

    @register_feature("held", unit="", description="simulations held at its end", level=2)
    def count(traffic):
        simulated.add(traffic.simulation)
        held.append(len(simulated))
        return held[-1]

    comm, torus = patterns.halo_2d((4, 4), 1024, periodic=True), Torus((4, 4))
    mappings = strategies.sample(comm, torus, n=24, seed=1)
    try:
        made = tc.features(comm, torus, mappings, features=["held", "max_buffer"], n_jobs=n_jobs)
    finally:
        unregister_feature("held")
    assert made.index.tolist() == [mapping.name for mapping in mappings]
    assert len(held) == 24
    # Each thread may keep its last simulation until the next one is done.
    assert max(held) <= 2 * n_jobs


def test_further_columns_share_the_pass_of_the_features():
    comm, torus = CommGraph(4, [0, 1, 2, 3], [1, 2, 3, 0], [512, 1024, 512, 512]), Torus((4,))
    mappings = [TaskMapping([0, 1, 2, 3], 4, name="near"), TaskMapping([0, 2, 1, 3], 4, name="far")]
    seen = []

    def busiest(traffic):
        seen.append("all_link_bytes" in vars(traffic))
        return traffic.torus.link_label(int(traffic.all_link_bytes.argmax()))

    table = tc.features(comm, torus, mappings, features=["max_bytes"], extra={"busiest": busiest})
    assert table["busiest"].tolist() == ["(1) +X", "(2) -X"]
    assert seen == [True, True]


def test_a_stream_of_mappings_is_not_held():
    comm, torus = CommGraph(4, [0, 1, 2, 3], [1, 2, 3, 0], [512] * 4), Torus((4,))
    alive = weakref.WeakSet()

    def stream():
        for number in range(5000):
            mapping = TaskMapping([0, 1, 2, 3], 4, name=f"copy {number}")
            alive.add(mapping)
            assert len(alive) < 2000
            yield mapping

    done = []
    blocks = extract_blocks(
        MappingProblem(comm, torus),
        stream(),
        features=["max_bytes"],
        n_jobs=2,
        progress=done.append,
    )
    names = [name for block in blocks for name in block.index]
    assert names == [f"copy {number}" for number in range(5000)]
    assert done == list(range(5001))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_fault_in_a_stream_comes_after_the_rows_before_it(n_jobs):
    comm, torus = CommGraph(4, [0, 1], [1, 2], [512, 8]), Torus((4,))
    mappings = [TaskMapping([0, 1, 2, 3], 4)] * 1500 + [TaskMapping([0, 1], 4, name="short")]
    problem = MappingProblem(comm, torus)
    blocks = extract_blocks(problem, mappings, features=["max_bytes"], n_jobs=n_jobs)
    assert len(next(blocks)) == 1024
    with pytest.raises(InputError, match="mapping short does not fit the graph"):
        list(blocks)


def test_blocks_make_the_table():
    comm, torus = patterns.halo_2d((4, 4), 1024, periodic=True), Torus((4, 4))
    mappings = [TaskMapping(m.node, 16) for m in strategies.sample(comm, torus, n=40)] * 30
    whole = tc.features(comm, torus, mappings)
    assert whole.index.tolist() == [str(number) for number in range(1200)]
    pd.testing.assert_frame_equal(
        whole.iloc[:40].reset_index(), tc.features(comm, torus, mappings[:40]).reset_index()
    )
    assert tc.features(comm, torus, []).empty
