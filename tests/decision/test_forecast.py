"""Racing: the answer is that of simulating everything, at a fraction of the cost."""

from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toruscast.decision import Budget, forecast
from toruscast.decision.posterior import Kernel, Posterior
from toruscast.decision.race import Race, run
from toruscast.errors import InputError
from toruscast.features import RoutedTraffic
from toruscast.mapping import CommGraph, TaskMapping, Torus, Workload, patterns, strategies
from toruscast.simulation import simulate
from toruscast.training import TimePredictor, load_predictor, save_predictor, train_for

TORUS = Torus((4, 4, 2))
COMM = patterns.halo_3d((4, 4, 2), 4096, corner_nbytes=0)
CANDIDATES = strategies.sample(COMM, TORUS, n=30, seed=5)


@pytest.fixture(scope="module")
def times():
    return {m.name: simulate(COMM, TORUS, m).time for m in CANDIDATES}


@pytest.fixture(scope="module")
def answer():
    return forecast(COMM, TORUS, CANDIDATES, check=True)


def test_the_best_is_the_best_of_all_simulated(answer, times):
    assert answer.verdict.kind == "proved"
    assert times[answer.best.name] == min(times.values())
    assert answer.cost.to_answer == answer.cost.simulated < 10


def test_the_table_tells_what_was_simulated(answer, times):
    table = answer.table
    assert table["rank"].tolist() == list(range(1, 31))
    assert table["observed_time"].tolist() == [times[name] for name in table["mapping"]]
    exact = table[table["how"] == "simulated"]
    assert len(exact) == answer.cost.simulated
    assert exact["time"].equals(exact["observed_time"])
    assert exact["low"].equals(exact["time"])
    rest = table[table["how"] == "forecast"]
    assert (rest["low"] <= rest["time"]).all()
    assert (rest["time"] <= rest["high"]).all()
    assert table["p_best"].sum() == pytest.approx(1)
    assert answer.scores["rcc"] > 0.85


def test_no_time_lies_below_the_bound_beside_it(answer):
    table = answer.table
    for column in ("time", "low", "high"):
        assert (table[column] >= table["lower_bound"]).all()


def test_where_simulations_are_cheap_all_are_simulated(times):
    answer = forecast(COMM, TORUS, CANDIDATES)
    assert answer.cost.simulated == 30
    assert answer.table["time"].tolist() == sorted(times.values())


def test_without_a_simulation_all_is_forecast():
    answer = forecast(COMM, TORUS, CANDIDATES, budget=0)
    assert set(answer.table["how"]) == {"forecast"}
    assert answer.verdict.kind == "open"
    assert answer.cost.simulated == 0
    assert (answer.table["low"] < answer.table["high"]).all()


def test_reasons_are_of_the_best_or_of_the_one_named(answer):
    assert answer.reasons().lower_bound == answer.table["lower_bound"].iloc[0]
    last = answer.table["mapping"].iloc[-1]
    assert answer.reasons(last).lower_bound == answer.table["lower_bound"].iloc[-1]
    with pytest.raises(InputError, match="no such candidate"):
        answer.reasons("nobody")


def test_threads_find_the_same_answer(answer):
    other = forecast(COMM, TORUS, CANDIDATES, n_jobs=2, check=True)
    assert other.best.name == answer.best.name
    assert other.verdict.kind == answer.verdict.kind


def test_a_model_of_the_sketch_may_be_raced():
    learner = TimePredictor("sketch", "correction", n_estimators=20, calibration_folds=4)
    model = train_for(COMM, TORUS, n=20, seed=2, exclude=CANDIDATES, model=learner, n_splits=1)
    answer = forecast(COMM, TORUS, CANDIDATES[:8], model=model.model)
    assert answer.cost.sketched
    assert answer.verdict.kind == "proved"
    with (
        pytest.warns(UserWarning, match="learned from no packets that choose their way"),
        pytest.warns(UserWarning, match="learned from deterministic routing, not adaptive"),
    ):
        forecast(COMM, TORUS, CANDIDATES[:2], model=model.model, routing="adaptive")


def test_plain_times_of_other_messages_are_used_with_a_warning():
    learner = TimePredictor("prior", n_estimators=10, calibration_folds=10)
    model = train_for(COMM, TORUS, n=20, seed=2, model=learner, n_splits=1).model
    with pytest.warns(UserWarning, match="far from those that the model learned from, in"):
        forecast(patterns.halo_3d((4, 4, 2), 65536), TORUS, CANDIDATES, model=model)


def test_a_model_of_a_small_partition_serves_a_larger_one_and_says_what_is_too_far(tmp_path):
    learner = TimePredictor("relative", "slowdown", n_estimators=20, calibration_folds=10)
    small = patterns.halo_3d((4, 4, 2), 4096)
    model = train_for(small, TORUS, n=30, seed=2, model=learner, n_splits=1).model
    path = tmp_path / "small.npz"
    save_predictor(model, path)
    torus, large = Torus((8, 4, 4)), patterns.halo_3d((8, 4, 4), 4096)
    candidates = strategies.sample(large, torus, n=20, seed=3)
    answer = forecast(large, torus, candidates, model=str(path), budget=0, check=True)
    assert answer.scores["rcc"] > 0.75
    assert (answer.table["time"] >= answer.table["lower_bound"]).all()
    longer = patterns.halo_3d((8, 4, 4), 4096 * 500)
    with pytest.warns(UserWarning, match="far from those that the model learned from, in latency"):
        forecast(longer, torus, candidates, model=str(path), budget=0)


def test_bad_requests_are_refused():
    with pytest.raises(InputError, match="no mapping"):
        forecast(COMM, TORUS, [])
    with pytest.raises(InputError, match="bad model: found 7, expected a TimePredictor"):
        forecast(COMM, TORUS, CANDIDATES, model=7)
    with pytest.raises(InputError, match="no times to learn"):
        forecast(COMM.scaled(1 / 8), TORUS, CANDIDATES)
    with pytest.raises(InputError, match="does not fit the torus"):
        forecast(COMM, Torus((4, 4, 4)), CANDIDATES)
    rng = np.random.default_rng(1)
    bare = TimePredictor(n_estimators=5, calibration_folds=2).fit(rng.random((9, 2)), rng.random(9))
    with pytest.raises(InputError, match="without feature names"):
        forecast(COMM, TORUS, CANDIDATES, model=bare)


def test_adaptive_routing_is_raced_by_bounds_that_hold():
    long = COMM.scaled(40)
    answer = forecast(long, TORUS, CANDIDATES, routing="adaptive", check=True)
    assert answer.scores["regret_1"] <= 0.01
    bounds = [RoutedTraffic(long, TORUS, m, "adaptive").sure_bound for m in CANDIDATES]
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
    bound = RoutedTraffic(workload, torus, mapping, routing).sure_bound
    time = simulate(workload, torus, mapping, routing=routing).time
    assert time >= bound


def race_of(times, bounds, misses=0.1):
    n = len(times)
    rng = np.random.default_rng(1)
    centre = np.log(times) + misses * rng.standard_normal(n)
    return Race(Posterior(centre, np.full(n, misses), np.zeros((n, 1))), bounds)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 40), st.booleans())
def test_what_is_proved_is_true(seed, n, tight):
    rng = np.random.default_rng(seed)
    times = rng.lognormal(0, 0.3, n)
    bounds = times * (rng.uniform(0.7, 1, n) if tight else 0)
    race = race_of(times, bounds)
    run(race, lambda which: times[which], Budget(n))
    kind, certainty = race.verdict()
    assert kind in {"proved", "sure"}
    assert 0.95 <= certainty <= 1
    if kind == "proved":
        assert race.best_time == times.min()


def test_a_sure_answer_is_right_as_often_as_it_says():
    rng = np.random.default_rng(3)
    right, said = [], []
    for _ in range(150):
        n = 30
        posterior = Posterior(np.zeros(n), np.full(n, 0.15), rng.normal(size=(n, 2)))
        truth = posterior.draws(np.arange(n), 1, rng)[0]
        race = Race(posterior, np.zeros(n))
        run(race, lambda which, truth=truth: np.exp(truth[which]), Budget(n))
        right.append(race.best_time <= np.exp(truth.min()) * 1.01)
        said.append(race.verdict()[1])
    # Three standard deviations of a count of so many.
    assert np.mean(right) > np.mean(said) - 3 * np.std(right) / np.sqrt(len(right))


def test_a_budget_ends_the_race():
    times = np.linspace(1, 2, 20)
    race = race_of(times, np.zeros(20), misses=0.5)
    run(race, lambda which: times[which], Budget(3))
    assert len(race.order) == 3
    assert race.verdict()[0] == "open"
    late = race_of(times, np.zeros(20))
    run(late, lambda which: times[which], Budget(3, seconds=0.0))
    assert late.order == []


def test_with_too_little_time_for_all_longer_packets_come_first(monkeypatch):
    module = import_module("toruscast.decision.forecasts")
    monkeypatch.setattr(module, "affordable", lambda *_, **__: [4])
    calls, real = [], module.Simulate.__call__

    def noted(self, which, coarsening=None, *seconds):
        calls.append((coarsening, len(which)))
        return real(self, which, coarsening, *seconds)

    monkeypatch.setattr(module.Simulate, "__call__", noted)
    answer = forecast(COMM, TORUS, CANDIDATES, budget=Budget(2, seconds=600.0), n_jobs=1)
    assert calls[:3] == [(4, 1), (4, 29), (None, 1)]
    assert set(answer.table["how"]) == {"simulated", "sketched"}
    assert answer.cost.coarsening == 4


def test_forecasts_that_are_surely_right_are_not_refused():
    posterior = Posterior(np.arange(3.0), np.zeros(3), np.zeros((3, 1)))
    middle, scale = posterior.given(np.array([0, 2]), np.array([0.0, 2.0])).marginal()
    assert middle == pytest.approx([0, 1, 2])
    assert scale == pytest.approx(0)


@pytest.mark.parametrize("freedom", [float("inf"), 4.0])
def test_a_posterior_is_the_closed_form_of_its_process(freedom):
    rng = np.random.default_rng(2)
    kernel = Kernel(0.5, 0.3, 0.2, 1.0, freedom)
    posterior = Posterior(rng.normal(size=4), np.ones(4), rng.normal(size=(4, 2)), kernel)
    every = np.arange(4)
    whole = posterior._covariance(every, every)
    seen, rest = np.array([0, 2]), np.array([1, 3])
    found = posterior.given(seen, np.array([1.0, -1.0]))
    residuals = np.array([1.0, -1.0]) - posterior.centre[seen]
    inverse = np.linalg.inv(whole[np.ix_(seen, seen)])
    weights = whole[np.ix_(rest, seen)] @ inverse
    spread = whole[np.ix_(rest, rest)] - weights @ whole[np.ix_(seen, rest)]
    if np.isfinite(freedom):
        # Shah, Wilson and Ghahramani (2014), lemma 3, with the scale matrix in place of the
        # covariance: residuals of two observations against two of this scale.
        spread *= (freedom + residuals @ inverse @ residuals) / (freedom + 2)
    middle, scale = found.marginal(rest)
    np.testing.assert_allclose(middle, posterior.centre[rest] + weights @ residuals, rtol=1e-6)
    np.testing.assert_allclose(scale, np.sqrt(np.diag(spread)), rtol=1e-6)
    assert found.freedom == freedom + 2
    # A Student-t with f degrees of freedom has f / (f - 2) times its scale matrix as covariance.
    factor = (freedom + 2) / freedom if np.isfinite(freedom) else 1.0
    drawn = found.draws(rest, 40_000, rng)
    np.testing.assert_allclose(np.cov(drawn.T), factor * spread, atol=0.02 * factor)


@pytest.mark.parametrize(("n", "is_decided"), [(10, False), (11, True)])
def test_few_rivals_are_simulated_for_a_proof_and_many_are_not(n, is_decided):
    # The first is surely the fastest; no bound proves it.
    race = race_of(np.linspace(1.0, 3.0, n), np.zeros(n), misses=0.01)
    race.observe(np.array([0]), np.array([1.0]))
    assert race.certainty() > 0.95
    assert race.is_decided() == is_decided


def test_the_default_model_reads_features_of_routes_alone():
    model = load_predictor()
    assert model.target == "slowdown"
    assert not {name for name in model.required_columns if name.startswith("sketch")}


def test_of_equal_forecasts_the_likeliest_to_be_fastest_leads():
    # A second of software for each message: what the network does shows in the last digits only.
    slow = TORUS.with_network(overhead=1.0)
    candidates, alike = list(CANDIDATES), []
    while len(alike) < 2:
        answer = forecast(COMM, slow, candidates, budget=0)
        leader = answer.table.iloc[0]
        shown = [f"{t:.3g}" == f"{leader['time']:.3g}" for t in answer.table["time"]]
        alike = answer.table[shown]
        candidates.remove(answer.best)
    # Shares of 4,000 draws.
    assert leader["p_best"] == pytest.approx(alike["p_best"].max(), abs=0.01)


def test_simulations_for_the_order_are_no_part_of_the_answer():
    decided = forecast(COMM, TORUS, CANDIDATES, check=True, n_jobs=1)
    ordered = forecast(COMM, TORUS, CANDIDATES, n_jobs=1)
    assert decided.verdict.kind in {"proved", "sure"}
    assert ordered.cost.simulated == len(CANDIDATES)
    assert ordered.cost.to_answer == decided.cost.to_answer < len(CANDIDATES)


def test_only_equal_times_share_the_first_place():
    race = race_of(np.array([1.0, 1.0, 1.00005]), np.zeros(3))
    race.observe(np.arange(3), np.array([1.0, 1.0, 1.00005]))
    assert race.outcomes().p_best(3).tolist() == [0.5, 0.5, 0.0]
