"""Applications drawn at random, and what orders their mappings."""

import numpy as np
import pytest

from studies.study import Inputs
from studies.unseen import orders
from studies.unseen.graphs import KINDS, draw
from toruscast.mapping import Torus, Workload, strategies


@pytest.mark.parametrize("kind", KINDS)
def test_graphs_are_drawn_with_messages_of_the_length_asked_for(kind):
    comm = draw(kind, 64, 512.0, 16.0, np.random.default_rng(3))
    assert comm.n_tasks == 64
    assert (comm.src != comm.dst).all()
    assert comm.nbytes @ comm.nbytes / comm.nbytes.sum() == pytest.approx(512 * 16, rel=0.01)
    again = draw(kind, 64, 512.0, 16.0, np.random.default_rng(3))
    assert (again.src == comm.src).all()
    assert (again.nbytes == comm.nbytes).all()


def test_every_kind_is_tried_with_both_ways_of_routing():
    cases = orders.cases()
    assert {case.name.partition(",")[0] for case in cases} == set(KINDS)
    assert {case.routing for case in cases} == {"deterministic", "adaptive"}


def test_real_packets_order_best(monkeypatch):
    torus = Torus((4, 4))
    comm = draw("octree", 16, 512.0, 64.0, np.random.default_rng(1))
    mappings = tuple(strategies.sample(comm, torus, n=8, seed=1))
    case = orders.Case("octree", Workload([comm]), torus, mappings, "deterministic", 64.0)
    monkeypatch.setattr(orders, "cases", lambda: [case])
    found = orders.run(Inputs())
    table = found.tables["cases"].set_index("orders")
    assert table["rcc"][orders.BY_LENGTH] >= table["rcc"][orders.BOUND]
    assert (table["cost"].dropna() > 0).all()
    assert (table["hops"][list(orders.SHARES.values())] == list(orders.SHARES)).all()
    assert table["off"][orders.SHARES[0.4]] < table["off"][orders.BOUND]
    times = found.tables["times"]
    assert (times[orders.BOUND] > 0).all()
    assert times.shape == (8, 3 + len(table))
