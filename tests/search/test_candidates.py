"""Candidate mappings: structured ones before disturbed copies and random ones."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toruscast as tc
from toruscast.errors import InputError
from toruscast.mapping import patterns
from toruscast.mapping.strategies import Placement
from toruscast.mapping.strategies.sampling import count_mappings
from toruscast.routing.loads import link_loads

FILLERS = ("swap", "random", "nth")


def list_families(mappings):
    return [mapping.name.partition("-")[0].partition("@")[0] for mapping in mappings]


def exchange_rows_and_columns():
    """Return all-to-alls of the rows of a 4x4 grid, then of its columns."""
    pairs = list(itertools.permutations(range(16), 2))
    phases = []
    for is_pair in (lambda a, b: a // 4 == b // 4, lambda a, b: a % 4 == b % 4):
        src, dst = np.array([pair for pair in pairs if is_pair(*pair)]).T
        phases.append(tc.CommGraph(16, src, dst, np.full(src.size, 65536), grid=(4, 4)))
    return tc.Workload(phases, dependent=True)


@pytest.mark.parametrize("n", [12, 84])
@pytest.mark.parametrize("workload", [exchange_rows_and_columns(), patterns.halo_2d((4, 4), 8)])
def test_the_only_permutation_of_the_axes_is_a_candidate(workload, n):
    names = [mapping.name for mapping in tc.candidates(workload, "4x4", n)]
    assert names[0] == "identity"
    assert "permute-YX" in names[:6]


def test_disturbed_copies_and_random_mappings_come_last():
    mappings = tc.candidates(patterns.random_pairs(64, 3, 8), "4x4x4", 200)
    families = list_families(mappings)
    assert families[:5] == ["identity", "bisect", "greedy", "spectral", "search"]
    assert families[5:10] == ["permute"] * 5
    n_structured = next(i for i, family in enumerate(families) if family in FILLERS)
    assert n_structured > 70
    assert {"tile", "zigzag", "tilt", "stride", "curve"} <= {*families[:n_structured]}
    assert {*families[n_structured:]} == {"swap", "random"}
    assert families[-1] == "random"


def test_fewer_candidates_are_the_first_of_more():
    pairs = patterns.random_pairs(64, 3, 8)
    names = [mapping.name for mapping in tc.candidates(pairs, "4x4x4", 84)]
    assert [mapping.name for mapping in tc.candidates(pairs, "4x4x4", 20)] == names[:20]


def test_candidates_repeat():
    pairs = patterns.random_pairs(64, 3, 8)
    once, again = (tc.candidates(pairs, "4x4x4", 12, seed=4) for _ in range(2))
    assert [mapping.node.tobytes() for mapping in once] == [m.node.tobytes() for m in again]


def test_the_short_search_lowers_the_loads():
    pairs = patterns.random_pairs(128, 4, 8)
    problem = tc.MappingProblem(pairs, "4x4x8")
    *starts, found = tc.candidates(problem, n=5)
    assert found.name.startswith("search-1-from-")
    loads = [np.linalg.norm(link_loads(problem, mapping), 8) for mapping in (*starts, found)]
    assert loads[-1] < 0.95 * min(loads[:-1])


def test_nothing_is_searched_from_the_minimum_loads():
    halo = patterns.halo_2d((4, 4), 8, periodic=True)
    names = [mapping.name for mapping in tc.candidates(halo, "4x4")]
    assert "spectral" not in names
    assert not any(name.startswith("search") for name in names)


def test_reflections_count_only_if_the_torus_has_no_symmetry():
    ring, torus = patterns.ring(15, 8), tc.Torus((4, 4))
    for changed in (
        torus.without(nodes=[5]),
        torus.without(links=[3]),
        torus.with_links({3: 1e9}),
    ):
        names = {mapping.name for mapping in tc.candidates(ring, changed, 12)}
        assert {"reflect-X", "reflect-Y", "reflect-XY"} <= names
    assert "reflect" not in list_families(tc.candidates(ring, torus))


def test_mappings_of_new_loads_come_before_others():
    problem = tc.MappingProblem(patterns.halo_2d((4, 8), 8), "4x8")
    mappings = tc.candidates(problem, n=60)
    loads = [np.sort(link_loads(problem, mapping)).tobytes() for mapping in mappings]
    families = list_families(mappings)
    first = families.index("permute")
    n_structured = next(i for i, family in enumerate(families) if family in FILLERS)
    is_new = [loads[i] not in loads[:i] for i in range(first + 1, n_structured)]
    assert any(is_new)
    assert is_new == sorted(is_new, reverse=True)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple),
    st.integers(1, 20),
    st.integers(1, 40),
    st.data(),
)
def test_no_two_candidates_are_equal(shape, n_tasks, n, data):
    torus = tc.Torus(shape, wrap=data.draw(st.tuples(*[st.booleans()] * len(shape))))
    tasks = st.integers(0, n_tasks - 1)
    edges = data.draw(st.sets(st.tuples(tasks, tasks), max_size=30))
    src, dst = np.array(sorted(edges), dtype=int).reshape(-1, 2).T
    problem = tc.MappingProblem(tc.CommGraph(n_tasks, src, dst, np.ones(src.size)), torus)
    possible = count_mappings(Placement(problem))
    if n > possible:
        with pytest.raises(InputError, match=f"found {possible}, expected {n}"):
            tc.candidates(problem, n=n)
        return
    mappings = tc.candidates(problem, n=n)
    assert len({mapping.node.tobytes() for mapping in mappings}) == n
    assert len({mapping.name for mapping in mappings}) == n
    assert len(tc.candidates(problem)) == min(84, possible)
    for mapping in mappings:
        mapping.check(n_tasks, torus)
