"""Machines with unknown rules: several networks, their mean, and runs that weight them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import toruscast as tc
from toruscast.decision import Budget
from toruscast.decision.simulations import CandidateSimulator, bound_candidates, candidate_networks
from toruscast.errors import InputError
from toruscast.mapping import MappingProblem, Network, Torus, Workload, patterns, strategies
from toruscast.mapping.network import RULES
from toruscast.simulation import simulate, simulate_flows

KNOWN = Torus(
    (4, 4),
    bandwidth=(625e3,) * 2,
    network=Network(payload=2948, header=66, unknown_rules=()),
)
UNKNOWN = KNOWN.with_network(unknown_rules=RULES)
HALO = patterns.halo_2d((4, 4), 32768, periodic=True)
ROUNDS = Workload([HALO, patterns.all_to_all(16, 2048)], dependent=True)
ALL = Budget(seconds=np.inf, rcc=1.0)
BOUNDS = np.ones((2, 24))
MAPPINGS = strategies.sample(HALO, KNOWN, n=12, seed=3)


@pytest.mark.parametrize("traffic", [HALO, ROUNDS])
def test_times_are_the_geometric_mean_over_the_networks(traffic):
    found = tc.rank(traffic, UNKNOWN, MAPPINGS, goal="order", budget=ALL, n_jobs=1)
    by_direction = replace(
        KNOWN.with_network(
            fifo_rule="first_dimension", feeding="messages", arbitration="round_robin"
        ),
        tie_break="sum_parity",
    )
    split = replace(KNOWN, tie_break="split")
    by_name = {mapping.name: mapping for mapping in MAPPINGS}
    assert set(found.table["source"]) == {"averaged"}
    for row in found.table.itertuples():
        mapping = by_name[row.mapping]
        each = [
            simulate(traffic, KNOWN, mapping, error=0.03).time,
            simulate(traffic, by_direction, mapping, error=0.03).time,
            simulate_flows(traffic, split, mapping).time,
        ]
        assert row.time == pytest.approx(np.exp(np.log(each).mean()))
        assert found.networks.times.loc[row.mapping].tolist() == pytest.approx(each)
        assert row.low < row.time < row.high
        assert row.lower_bound <= row.time
    best = found.table["mapping"].iloc[0]
    times = found.networks.times
    n_best = int((times.loc[best] <= times.min()).sum())
    assert found.verdict.n_proved == n_best
    assert (found.verdict.kind == "proved") == (n_best == 3)
    assert found.cost.networks == 3
    assert found.table["p_best"].sum() == pytest.approx(1.0)


@pytest.mark.parametrize("traffic", [HALO, ROUNDS])
@pytest.mark.parametrize("routing", ["deterministic", "adaptive"])
def test_no_network_is_faster_than_its_bound(traffic, routing):
    problem = MappingProblem(traffic, UNKNOWN, routing)
    networks = candidate_networks(UNKNOWN, routing)
    bounds = [bound_candidates(problem, MAPPINGS, network, 1) for network in networks]
    ones = np.ones((2, len(MAPPINGS)))
    simulator = CandidateSimulator(problem, MAPPINGS, *ones, bounds=np.column_stack(bounds))
    simulator.simulate(np.arange(len(MAPPINGS)))
    assert (simulator.bounds > 0).all()
    assert (simulator.times >= simulator.bounds * (1 - 1e-9)).all()


def test_a_proof_is_one_on_each_network():
    found = tc.rank(HALO, UNKNOWN, MAPPINGS, check=True, n_jobs=1)
    times = found.networks.times
    is_best = times.loc[found.best.name] <= times.min()
    assert found.verdict.n_proved == is_best.sum()
    assert (found.unchecked.verdict.kind == "proved") <= is_best.all()


def test_stated_rules_are_the_same_on_all_networks():
    torus = UNKNOWN.with_network(fifo_rule="bluegene_q", arbitration="first_come")
    networks = candidate_networks(torus)
    assert {each.torus.network.fifo_rule for each in networks} == {"bluegene_q"}
    assert {each.torus.network.arbitration for each in networks} == {"first_come"}
    assert {each.torus.tie_break for each in networks} == {"source_parity", "sum_parity", "split"}


def test_networks_that_disagree_widen_the_interval():
    found = tc.rank(HALO, UNKNOWN, MAPPINGS, goal="order", budget=ALL, n_jobs=1)
    spread = np.log(found.networks.times.dropna()).std(axis=1)
    table = found.table.set_index("mapping")
    width = np.log(table["high"] / table["low"])
    most, least = spread.idxmax(), spread.idxmin()
    assert width[most] > width[least]


def test_known_rules_keep_their_network():
    found = tc.rank(HALO, KNOWN, MAPPINGS, n_jobs=1)
    assert found.networks is None
    assert found.cost.networks == 1
    assert len(candidate_networks(KNOWN)) == 1


def test_packets_that_choose_their_way_have_no_flows():
    found = tc.rank(HALO, UNKNOWN, MAPPINGS[:3], routing="adaptive", n_jobs=1)
    assert list(found.networks.times) == ["as described", "by direction"]


@pytest.mark.parametrize("true", ["by direction", "flows"])
def test_runs_weigh_the_networks_and_leave_the_others_a_chance(true):
    several = strategies.sample(HALO, KNOWN, n=24, seed=5)
    network = {each.name: each for each in candidate_networks(UNKNOWN)}[true]
    simulator = CandidateSimulator(MappingProblem(HALO, UNKNOWN), several, *BOUNDS, 1, [network])
    times = pd.Series(simulator.simulate(np.arange(24)), [each.name for each in several])
    ran = times.iloc[::2]
    found = tc.rank(HALO, UNKNOWN, several, times=(100 * ran).to_dict(), n_jobs=1)
    weights = found.networks.weights
    assert max(weights, key=weights.get) == true
    assert sum(weights.values()) == pytest.approx(1.0)
    table = found.table.set_index("mapping")
    assert set(table.loc[ran.index, "source"]) == {"measured"}
    left = times.index.difference(ran.index)
    # Seconds are those of the machine.
    np.testing.assert_allclose(table.loc[left, "time"], 100 * times[left], rtol=0.1)


def test_what_does_not_go_together_is_refused():
    with pytest.raises(InputError, match="time of an unknown mapping: found nobody"):
        tc.rank(HALO, UNKNOWN, MAPPINGS, times={"nobody": 1.0})
    with pytest.raises(InputError, match="bad unknown rule"):
        Network(unknown_rules=("perhaps",))


def test_many_candidates_are_left_to_the_model():
    found = tc.rank(HALO, UNKNOWN, MAPPINGS, n_jobs=1, budget=0)
    assert found.networks is None
    assert set(found.table["source"]) == {"predicted"}
