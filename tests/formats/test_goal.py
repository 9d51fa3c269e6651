"""GOAL schedules that are written are read again with equal rounds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toruscast as tc
from toruscast.errors import InputError
from toruscast.formats import read_workload, write_comm
from toruscast.mapping import collectives, patterns

COLUMNS = ("src", "dst", "nbytes", "n_messages")


def rewrite(workload, folder):
    write_comm(workload, folder / "a.goal")
    return read_workload(folder / "a.goal")


def assert_equal_rounds(one, other):
    assert (one.n_tasks, len(one)) == (other.n_tasks, len(other))
    assert other.dependent
    for expected, found in zip(one, other, strict=True):
        for column in COLUMNS:
            np.testing.assert_array_equal(getattr(found, column), getattr(expected, column))


@st.composite
def workloads(draw):
    """Rounds whose senders all take part in the round before."""
    n_tasks = draw(st.integers(2, 6))
    tasks = range(n_tasks)
    phases = []
    for _ in range(draw(st.integers(1, 4))):
        pairs = st.tuples(st.sampled_from(tasks), st.integers(0, n_tasks - 1))
        edges = sorted(draw(st.sets(pairs, min_size=1, max_size=12)))
        src, dst = np.array(edges).T
        counts = draw(st.lists(st.integers(1, 4), min_size=len(edges), max_size=len(edges)))
        sizes = draw(st.lists(st.integers(0, 999), min_size=len(edges), max_size=len(edges)))
        phases.append(tc.CommGraph(n_tasks, src, dst, sizes, counts))
        tasks = sorted({*src.tolist(), *dst.tolist()})
    return tc.Workload(phases, dependent=True)


@settings(max_examples=60, deadline=None)
@given(workloads())
def test_written_rounds_are_read_again(tmp_path_factory, workload):
    assert_equal_rounds(workload, rewrite(workload, tmp_path_factory.mktemp("goal")))


def test_a_collective_is_written_with_its_rounds(tmp_path):
    workload = collectives.schedule("allreduce/rabenseifner", 8, 4096).workload()
    assert_equal_rounds(workload, rewrite(workload, tmp_path))


def test_a_task_without_messages_in_a_round_starts_the_next_at_once(tmp_path):
    phases = [tc.CommGraph(4, [0], [1], [8]), tc.CommGraph(4, [2], [3], [8])]
    read = rewrite(tc.Workload(phases, dependent=True), tmp_path)
    assert (len(read), read.total.src.tolist()) == (1, [0, 2])


def test_barriers_cannot_be_written(tmp_path):
    phases = [patterns.ring(4, 8)] * 2
    with pytest.raises(InputError, match="no barrier between phases: found 2 phases"):
        write_comm(tc.Workload(phases), tmp_path / "a.goal")
    assert_equal_rounds(tc.Workload(phases[:1]), rewrite(phases[0], tmp_path))
