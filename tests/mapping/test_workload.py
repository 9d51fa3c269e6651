"""Workloads: phases in a row over the same tasks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_cases import graphs

from toruscast.errors import InputError
from toruscast.mapping import CommGraph, Workload, as_workload


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 8).flatmap(lambda n: st.lists(graphs(n), min_size=1, max_size=4)))
def test_total_is_the_sum_of_the_phases(phases):
    workload = Workload(phases)
    dense = sum(phase.to_scipy().toarray() for phase in phases)
    np.testing.assert_allclose(workload.total.to_scipy().toarray(), dense, rtol=1e-15)
    assert workload.total.n_messages.sum() == pytest.approx(
        sum(phase.n_messages.sum() for phase in phases)
    )
    assert list(workload) == phases
    assert len(workload) == len(phases)


def test_names_and_grids_come_from_the_phases():
    phases = [CommGraph(4, [], [], [], name="x"), CommGraph(4, [], [], [], grid=(2, 2))]
    assert Workload(phases).name == "x"
    assert Workload(phases, name="step").total.name == "step"
    assert Workload(phases).total.grid == (2, 2)


def test_phases_are_independent_unless_said_otherwise():
    comm = CommGraph(2, [0], [1], [8])
    assert Workload([comm]).dependent is False
    assert as_workload(comm).dependent is False
    rounds = Workload([comm, comm], dependent=np.True_)
    assert rounds.dependent is True
    assert as_workload(rounds).dependent is True
    assert rounds.total.nbytes.tolist() == [16]


@pytest.mark.parametrize("dependent", [None, 1, "yes"])
def test_bad_dependent(dependent):
    with pytest.raises(InputError, match="bad dependent"):
        Workload([CommGraph(2, [0], [1], [8])], dependent=dependent)


def test_a_graph_is_a_workload_of_one_phase():
    comm = CommGraph(2, [0], [1], [8])
    assert list(as_workload(comm)) == [comm]
    assert as_workload(comm).total.equals(comm)
    workload = Workload([comm])
    assert as_workload(workload) is workload


@pytest.mark.parametrize(
    "phases",
    [
        [],
        ["a"],
        [None],
        None,
        3,
        [CommGraph(2, [], [], []), CommGraph(3, [], [], [])],
        CommGraph(2, [], [], []),
    ],
    ids=str,
)
def test_bad_phases(phases):
    with pytest.raises(InputError):
        Workload(phases)


@pytest.mark.parametrize("traffic", [None, "a.prof", 3, [CommGraph(2, [], [], [])]])
def test_what_is_no_traffic(traffic):
    with pytest.raises(InputError):
        as_workload(traffic)
