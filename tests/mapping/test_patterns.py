"""Synthetic patterns against loops and closed forms."""

from __future__ import annotations

import itertools

import naive_strategies as naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toruscast.errors import InputError
from toruscast.mapping import patterns

FACES_2D = {(-1, 0): 3.0, (1, 0): 3.0, (0, -1): 3.0, (0, 1): 3.0}
FACES_3D = {
    tuple(step if axis == d else 0 for axis in range(3)): 3.0 for d in range(3) for step in (-1, 1)
}
CORNERS = dict.fromkeys(itertools.product((-1, 1), repeat=3), 7.0)
sizes = st.integers(1, 5)


@settings(deadline=None)
@given(st.tuples(sizes, sizes), st.booleans())
def test_halo_2d_equals_loop(grid, periodic):
    comm = patterns.halo_2d(grid, 3, periodic=periodic)
    assert naive.as_dictionary(comm) == naive.halo(grid, FACES_2D, periodic)
    assert comm.grid == grid


@settings(deadline=None)
@given(st.tuples(sizes, sizes, sizes), st.booleans())
def test_halo_3d_equals_loop(grid, periodic):
    comm = patterns.halo_3d(grid, 3, corner_nbytes=7, periodic=periodic)
    assert naive.as_dictionary(comm) == naive.halo(grid, FACES_3D | CORNERS, periodic)


def test_halo_edges_in_closed_form():
    # Faces: each of the three directions has (n - 1) n^2 pairs, both ways; a corner offset keeps
    # (n - 1)^3 tasks inside, and there are eight.
    n = 6
    assert patterns.halo_3d((n, n, n), 1).n_edges == 6 * (n - 1) * n**2 + 8 * (n - 1) ** 3
    assert patterns.halo_3d((n, n, n), 1, periodic=True).n_edges == 14 * n**3
    assert patterns.halo_2d((4, 7), 1).n_edges == 2 * (3 * 7 + 4 * 6)


def test_neighbours_that_coincide_add_up():
    comm = patterns.halo_2d((1, 2), 5, periodic=True, n_messages=3)
    assert naive.as_dictionary(comm) == {(0, 1): 10.0, (1, 0): 10.0}
    assert comm.n_messages.tolist() == [6, 6]


@settings(deadline=None)
@given(st.integers(1, 12))
def test_all_to_all(n_tasks):
    comm = patterns.all_to_all(n_tasks, 2)
    expected = dict.fromkeys(itertools.permutations(range(n_tasks), 2), 2.0)
    assert naive.as_dictionary(comm) == expected


def test_sub_all_to_all_stays_in_its_group():
    comm = patterns.sub_all_to_all(256, 1, group=64)
    assert comm.n_edges == 256 * 63
    assert (comm.src // 64 == comm.dst // 64).all()
    assert comm.grid == (4, 64)


@settings(deadline=None)
@given(st.integers(1, 4), st.integers(2, 9))
def test_pairwise_exchange_equals_loop(groups, members):
    tasks = groups * members
    rounds = patterns.pairwise_exchange(tasks, 3, members, n_messages=2)
    assert rounds.dependent
    assert len(rounds) == members - 1
    for r, phase in enumerate(rounds, start=1):
        expected = {
            (base + a, base + (a + r) % members): 3.0
            for base in range(0, tasks, members)
            for a in range(members)
        }
        assert naive.as_dictionary(phase) == expected
        assert (phase.n_messages == 2).all()
    assert rounds.total.equals(
        patterns.sub_all_to_all(tasks, 3, group=members, n_messages=2).renamed(rounds.name)
    )


@pytest.mark.parametrize(("groups", "members"), [(1, 2), (3, 2), (1, 4), (2, 8), (5, 4)])
def test_xor_exchange_is_mutual_and_complete(groups, members):
    tasks = groups * members
    rounds = patterns.xor_exchange(tasks, 3, members)
    assert rounds.dependent
    assert len(rounds) == members - 1
    for r, phase in enumerate(rounds, start=1):
        partner = phase.dst[np.argsort(phase.src)]
        assert (partner[partner] == np.arange(tasks)).all()
        assert (partner % members == (np.arange(tasks) % members) ^ r).all()
    whole = patterns.sub_all_to_all(tasks, 3, group=members)
    assert naive.as_dictionary(rounds.total) == naive.as_dictionary(whole)


def test_exchanges_of_all_tasks_unless_grouped():
    assert len(patterns.pairwise_exchange(6, 1)) == 5
    assert len(patterns.xor_exchange(8, 1)) == 7
    assert patterns.xor_exchange(8, 1, 4).grid == (2, 4)


@settings(deadline=None)
@given(st.tuples(sizes, sizes, sizes))
def test_pf3d_phases(grid):
    nx, ny, nz = grid
    step = patterns.pf3d(grid, fft_nbytes=1, plane_nbytes=3, halo_nbytes=3)
    fft_x, fft_y, planes, neighbours = step
    tasks = nx * ny * nz
    assert fft_x.n_edges == tasks * (nx - 1)
    assert fft_y.n_edges == tasks * (ny - 1)
    coords = np.array(list(np.ndindex(grid)))
    for phase, kept in ((fft_x, [1, 2]), (fft_y, [0, 2])):
        assert (coords[phase.src][:, kept] == coords[phase.dst][:, kept]).all()
    along_z = dict.fromkeys(((0, 0, -1), (0, 0, 1)), 3.0)
    assert naive.as_dictionary(planes) == naive.halo(grid, along_z, False)
    assert naive.as_dictionary(neighbours) == naive.halo(grid, FACES_3D, False)
    assert step.grid == grid


def test_ring():
    assert naive.as_dictionary(patterns.ring(3, 4)) == {(0, 1): 4, (1, 2): 4, (2, 0): 4}
    assert patterns.ring(5, 4, both_ways=True).n_edges == 10
    assert naive.as_dictionary(patterns.ring(2, 4, both_ways=True)) == {(0, 1): 8, (1, 0): 8}
    assert patterns.ring(1, 4).n_edges == 0


@settings(deadline=None)
@given(st.integers(1, 9), st.data())
def test_random_pairs_have_their_degree(n_tasks, data):
    degree = data.draw(st.integers(0, n_tasks - 1))
    comm = patterns.random_pairs(n_tasks, degree, 5, seed=data.draw(st.integers(0, 99)))
    assert np.bincount(comm.src, minlength=n_tasks).tolist() == [degree] * n_tasks
    assert (comm.src != comm.dst).all()


def test_random_pairs_follow_the_seed_evenly():
    a, b, c = (patterns.random_pairs(50, 5, 1, seed=seed) for seed in (1, 1, 2))
    assert a.equals(b)
    assert not a.equals(c)
    # 2,000 graphs x 2 destinations of task 0 among 4: each is met about 1,000 times.
    met = np.zeros(5)
    for seed in range(2000):
        comm = patterns.random_pairs(5, 2, 1, seed=seed)
        met += np.bincount(comm.dst[comm.src == 0], minlength=5)
    assert met[0] == 0
    assert np.allclose(met[1:], 1000, atol=120)


@pytest.mark.parametrize(
    ("make", "arguments"),
    [
        (patterns.pairwise_exchange, [(6, 1, 4), (6, 1, 1), (1, 1), (0, 1)]),
        (patterns.xor_exchange, [(6, 1), (8, 1, 3)]),
        (patterns.halo_2d, [((3,), 1), ((3, 0), 1), ((3, 3), -1), ((3, 3), float("nan"))]),
        (patterns.halo_3d, [((3, 2.5, 1), 1), ((99999, 99999, 99999), 1)]),
        (lambda n, group: patterns.sub_all_to_all(n, 1, group=group), [(100, 64), (64, 0)]),
        (patterns.all_to_all, [(0, 1)]),
        (patterns.ring, [(-4, 1)]),
        (patterns.random_pairs, [(4, 4, 1)]),
    ],
)
def test_bad_sizes(make, arguments):
    for each in arguments:
        with pytest.raises(InputError):
            make(*each)
