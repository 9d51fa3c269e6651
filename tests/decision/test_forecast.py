"""Racing: the answer equals that of simulating every candidate, at a fraction of the cost."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toruscast as tc
from toruscast._features import FEATURES, RoutedTraffic
from toruscast.errors import InputError
from toruscast.mapping import (
    CommGraph,
    MappingProblem,
    TaskMapping,
    Torus,
    Workload,
    patterns,
    strategies,
)
from toruscast.simulation import simulate
from toruscast.training import TimePredictor, save_predictor
from toruscast.training.default_model import load_default

TORUS = Torus((4, 4, 2)).with_network(unknown_rules=())
COMM = patterns.halo_3d((4, 4, 2), 4096, corner_nbytes=0)
CANDIDATES = strategies.sample(COMM, TORUS, n=30, seed=5)


@pytest.fixture(scope="module")
def times():
    return {m.name: simulate(COMM, TORUS, m).time for m in CANDIDATES}


@pytest.fixture(scope="module")
def answer():
    return tc.rank(COMM, TORUS, CANDIDATES, check=True)


def test_the_best_is_the_best_of_all_simulated(answer, times):
    assert answer.verdict.kind == "proved"
    assert times[answer.best.name] == min(times.values())
    assert answer.cost.simulated < 10


def test_the_table_tells_what_was_simulated(answer, times):
    table = answer.table
    assert table["rank"].tolist() == list(range(1, 31))
    assert table["observed_time"].tolist() == [times[name] for name in table["mapping"]]
    exact = table[table["source"] == "simulated"]
    assert len(exact) == answer.cost.simulated
    assert exact["time"].equals(exact["observed_time"])
    assert exact["low"].equals(exact["time"])
    rest = table[table["source"] == "predicted"]
    assert (rest["low"] <= rest["time"]).all()
    assert (rest["time"] <= rest["high"]).all()
    assert table["p_best"].sum() == pytest.approx(1)
    assert answer.scores["rcc"] > 0.85


def test_no_time_lies_below_the_bound_beside_it(answer):
    table = answer.table
    for column in ("time", "low", "high"):
        assert (table[column] >= table["lower_bound"]).all()


def test_nothing_is_simulated_after_the_decision(answer):
    found = tc.rank(COMM, TORUS, CANDIDATES)
    assert found.cost == answer.cost
    assert (found.table["source"] == "simulated").sum() == found.cost.simulated


def test_the_default_order_is_simulated_like_the_winner():
    for seed in range(3):
        slow = strategies.make("identity", COMM, TORUS)
        others = strategies.sample(COMM, TORUS, n=12, seed=seed)
        found = tc.rank(COMM, TORUS, [m for m in others if m.name != "identity"] + [slow])
        how = found.table.set_index("mapping")["source"]
        assert how["identity"] == how.iloc[0] == "simulated"


def test_without_a_simulation_all_is_forecast():
    answer = tc.rank(COMM, TORUS, CANDIDATES, budget=0)
    assert set(answer.table["source"]) == {"predicted"}
    assert answer.verdict.kind == "undecided"
    assert answer.cost.simulated == 0
    assert (answer.table["low"] < answer.table["high"]).all()


def test_reasons_are_of_the_best_or_of_the_one_named(answer):
    assert answer.reasons().lower_bound == answer.table["lower_bound"].iloc[0]
    last = answer.table["mapping"].iloc[-1]
    assert answer.reasons(last).lower_bound == answer.table["lower_bound"].iloc[-1]
    with pytest.raises(InputError, match="no such candidate"):
        answer.reasons("nobody")


def test_threads_find_the_same_answer(answer):
    other = tc.rank(COMM, TORUS, CANDIDATES, n_jobs=2, check=True)
    assert other.best.name == answer.best.name
    assert other.verdict.kind == answer.verdict.kind


def test_a_model_of_the_sketch_may_be_raced():
    learner = TimePredictor("coarse", "correction", n_estimators=20, calibration_folds=4)
    model = tc.train(COMM, TORUS, n=20, seed=2, exclude=CANDIDATES, model=learner, n_splits=1)
    answer = tc.rank(COMM, TORUS, CANDIDATES[:8], model=model.model)
    assert answer.cost.is_coarse
    assert answer.verdict.kind == "proved"
    with (
        pytest.warns(UserWarning, match="not trained on packets that choose their way"),
        pytest.warns(UserWarning, match="trained with deterministic routing, not adaptive"),
    ):
        tc.rank(COMM, TORUS, CANDIDATES[:2], model=model.model, routing="adaptive")


def test_plain_times_of_other_messages_are_used_with_a_warning():
    learner = TimePredictor("prior", n_estimators=10, calibration_folds=10)
    model = tc.train(COMM, TORUS, n=20, seed=2, model=learner, n_splits=1).model
    with pytest.warns(UserWarning, match="outside the range of the training samples in"):
        tc.rank(patterns.halo_3d((4, 4, 2), 65536), TORUS, CANDIDATES, model=model)
    large, torus = patterns.halo_3d((4, 4, 4), 4096), Torus((4, 4, 4))
    with pytest.raises(InputError, match=r"plain seconds .* found 64 nodes, trained on 32"):
        tc.rank(large, torus, strategies.sample(large, torus, n=4, seed=1), model=model)


def test_a_model_of_a_small_partition_serves_a_larger_one_and_says_what_is_too_far(tmp_path):
    learner = TimePredictor("relative", "slowdown", n_estimators=20, calibration_folds=10)
    small = patterns.halo_3d((4, 4, 2), 4096)
    model = tc.train(small, TORUS, n=30, seed=2, model=learner, n_splits=1).model
    path = tmp_path / "small.npz"
    save_predictor(model, path)
    torus, large = Torus((8, 4, 4)), patterns.halo_3d((8, 4, 4), 4096)
    candidates = strategies.sample(large, torus, n=20, seed=3)
    answer = tc.rank(large, torus, candidates, model=str(path), budget=0, check=True)
    assert answer.scores["rcc"] > 0.75
    assert (answer.table["time"] >= answer.table["lower_bound"]).all()
    longer = patterns.halo_3d((8, 4, 4), 4096 * 500)
    with pytest.warns(UserWarning, match="outside the range of the training samples in latency"):
        tc.rank(longer, torus, candidates, model=str(path), budget=0)


def test_bad_requests_are_refused():
    with pytest.raises(InputError, match="no mapping"):
        tc.rank(COMM, TORUS, [])
    with pytest.raises(InputError, match="bad model: found 7, expected a TimePredictor"):
        tc.rank(COMM, TORUS, CANDIDATES, model=7)
    with pytest.raises(InputError, match="no times to learn"):
        tc.rank(COMM.scaled(1 / 8), TORUS, CANDIDATES)
    with pytest.raises(InputError, match="does not fit the torus"):
        tc.rank(COMM, Torus((4, 4, 4)), CANDIDATES)
    rng = np.random.default_rng(1)
    bare = TimePredictor(n_estimators=5, calibration_folds=2).fit(rng.random((9, 2)), rng.random(9))
    with pytest.raises(InputError, match="without feature names"):
        tc.rank(COMM, TORUS, CANDIDATES, model=bare)


def test_adaptive_routing_is_raced_by_bounds_that_hold():
    long = COMM.scaled(40)
    answer = tc.rank(long, TORUS, CANDIDATES, routing="adaptive", check=True)
    assert answer.scores["regret_1"] <= 0.01
    bounds = [
        RoutedTraffic(MappingProblem(long, TORUS, "adaptive"), m).sure_bound for m in CANDIDATES
    ]
    observed = [simulate(long, TORUS, m, routing="adaptive").time for m in CANDIDATES]
    assert (np.array(observed) >= np.array(bounds)).all()


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**31),
    st.sampled_from([(4, 4), (3, 5), (2, 4, 3), (8,)]),
    st.booleans(),
    st.booleans(),
)
def test_the_sure_bound_holds_whatever_packets_choose(seed, shape, adaptive, dependent):
    rng = np.random.default_rng(seed)
    torus = Torus(shape, wrap=[bool(rng.integers(2)) for _ in shape])
    n = torus.n_nodes
    phases = []
    for _ in range(int(rng.integers(1, 3))):
        edges = rng.choice(n * n, size=min(n * n, int(rng.integers(1, 3 * n))), replace=False)
        phases.append(CommGraph(n, edges // n, edges % n, rng.integers(1, 20_000, edges.size)))
    mapping = TaskMapping(rng.permutation(n), torus)
    routing = "adaptive" if adaptive else "deterministic"
    workload = Workload(phases, dependent=dependent)
    bound = RoutedTraffic(MappingProblem(workload, torus, routing), mapping).sure_bound
    time = simulate(workload, torus, mapping, routing=routing).time
    assert time >= bound


def test_the_default_model_reads_features_of_routes_alone():
    assert {FEATURES[name].level for name in load_default().required_columns} == {1}


def test_of_equal_forecasts_the_likeliest_to_be_fastest_leads():
    # A second of software for each message, so the network only changes the last digits.
    slow = TORUS.with_network(overhead=1.0)
    candidates, alike = list(CANDIDATES), []
    while len(alike) < 2:
        answer = tc.rank(COMM, slow, candidates, budget=0)
        leader = answer.table.iloc[0]
        shown = [f"{t:.3g}" == f"{leader['time']:.3g}" for t in answer.table["time"]]
        alike = answer.table[shown]
        candidates.remove(answer.best)
    # Shares of 4,000 draws.
    assert leader["p_best"] == pytest.approx(alike["p_best"].max(), abs=0.01)
