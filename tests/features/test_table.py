"""The feature table of many mappings."""

import weakref

import pytest

from toruscast.features import extract, register, unregister
from toruscast.mapping import Torus, patterns, strategies


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_what_is_computed_of_a_mapping_goes_with_it(n_jobs):
    """A simulation of millions of messages is large: of many mappings few are held at a time."""
    simulated = weakref.WeakSet()
    held = []

    @register("held", unit="", description="simulations held when this one is done", level=2)
    def count(traffic):
        simulated.add(traffic.simulation)
        held.append(len(simulated))
        return held[-1]

    comm, torus = patterns.halo_2d((4, 4), 1024, periodic=True), Torus((4, 4))
    mappings = strategies.sample(comm, torus, n=24, seed=1)
    try:
        made = extract(comm, torus, mappings, features=["held", "max_buffer"], n_jobs=n_jobs)
    finally:
        unregister("held")
    assert made.index.tolist() == [mapping.name for mapping in mappings]
    assert len(held) == 24
    # One that is done may linger in each thread until the next is.
    assert max(held) <= 2 * n_jobs
