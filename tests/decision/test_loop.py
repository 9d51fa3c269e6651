"""The loop: its answer equals that of simulating every candidate, at a fraction of the cost."""

import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st

import toruscast as tc
from studies.recorded_times import RecordedTimes
from toruscast._features import RoutedTraffic
from toruscast.decision import Budget
from toruscast.decision.loop import MAX_PROOF, Decision, decide
from toruscast.decision.posterior import (
    COARSE,
    FULL,
    TIME,
    ErrorComponent,
    Hyperparameters,
    Kernel,
    Posterior,
    expected_rcc,
    normal_cdf,
    student_t_scales,
)
from toruscast.decision.simulations import (
    HOPS_PER_SECOND,
    CandidateSimulator,
    coarse_error,
    mean_hops,
)
from toruscast.errors import InputError
from toruscast.mapping import MappingProblem, Torus, patterns, strategies
from toruscast.simulation import simulate
from toruscast.training.metrics import rcc

TORUS = Torus((4, 4, 2)).with_network(unknown_rules=())
COMM = patterns.halo_3d((4, 4, 2), 40_000, corner_nbytes=0)
PROBLEM = MappingProblem(COMM, TORUS)
CANDIDATES = strategies.sample(COMM, TORUS, n=30, seed=5)
ONE_POINT = (Hyperparameters(),)


def posterior_of(centre, width, bounds=None, features=None, grid=ONE_POINT, seed=0):
    n = len(centre)
    return Posterior(
        prior_means=np.asarray(centre, dtype=float)[None],
        errors={"prior": ErrorComponent(np.full(n, width), Kernel(0.2, 0.5, 0.3))},
        sources={TIME: ("prior",), FULL: ("prior",)},
        features=np.zeros((n, 1)) if features is None else features,
        bounds=np.zeros(n) if bounds is None else bounds,
        grid=grid,
        seed=seed,
    )


def decision_of(times, bounds, width=0.1, goal="fastest", budget=None, **more):
    rng = np.random.default_rng(1)
    centre = np.log(times) + width * rng.standard_normal(len(times))
    recorded = RecordedTimes({1: times}, bounds, bounds)
    return Decision(posterior_of(centre, width, bounds), recorded, goal, budget, **more)


def test_a_posterior_is_the_closed_form_of_its_process():
    rng = np.random.default_rng(2)
    posterior = posterior_of(rng.normal(size=4), 1.0, features=rng.normal(size=(4, 2)))
    coarse = ErrorComponent(np.full(4, 0.3), Kernel(0.25, 0.2, 0.55))
    posterior = posterior.with_error(COARSE, COARSE, coarse)
    every, which, rest = np.arange(4), np.array([0, 2, 1]), np.array([1, 3])
    whole = posterior.joint(every)[1]
    distance = ((posterior.features[:, None] - posterior.features[None]) ** 2).sum(axis=2) / 2
    of_coarse = 0.3**2 * (0.25 + 0.2 * np.exp(-distance / 0.5) + 0.55 * np.eye(4))
    found = posterior.condition(np.array([0, 2]), FULL, np.exp([1.0, -1.0]))
    found = found.condition(np.array([1]), COARSE, np.exp([0.5]))
    # The third number is the wanted time and the error of a coarse one.
    seen = whole[np.ix_(which, which)]
    seen[2, 2] += of_coarse[1, 1]
    residuals = np.array([1.0, -1.0, 0.5]) - posterior.prior_means[0][which]
    weights = whole[np.ix_(rest, which)] @ np.linalg.inv(seen)
    spread = whole[np.ix_(rest, rest)] - weights @ whole[np.ix_(which, rest)]
    mean, covariance = found.joint(rest)
    np.testing.assert_allclose(
        mean, posterior.prior_means[0][rest] + weights @ residuals, rtol=1e-6
    )
    np.testing.assert_allclose(covariance, spread, atol=1e-6)
    np.testing.assert_allclose(found.marginal(rest)[1], np.sqrt(np.diag(spread)), rtol=1e-5)
    drawn = found.sample(rest, 40_000).logs
    np.testing.assert_allclose(np.cov(drawn.T), spread, atol=0.02)
    assert found.known_logs()[[0, 2]].tolist() == [1.0, -1.0]


def test_scales_of_the_error_are_weighed_by_the_observations():
    rng = np.random.default_rng(3)
    grid = [Hyperparameters(scale) for scale in (0.5, 1.0, 2.0)]
    posterior = posterior_of(np.zeros(40), 0.1, features=rng.normal(size=(40, 2)), grid=grid)
    wide = np.exp(0.2 * rng.standard_normal(20))
    found = posterior.condition(np.arange(20), FULL, wide)
    assert found.weights.argmax() == 2


@settings(max_examples=20)
@given(st.lists(st.floats(-3, 3), min_size=2, max_size=2))
def test_scales_of_a_student_t_give_its_closed_form(residuals):
    """The conditional variance is (2 + d' S^-1 d) / (2 + n) times the Gaussian one.

    With nu = 4 and a scale matrix of half the covariance S, (nu + 2 d' S^-1 d) / (nu + n) times
    (nu + n) / (nu + n - 2) is the variance of the conditional Student-t.
    """
    features = np.random.default_rng(2).normal(size=(4, 2))
    seen, rest = np.array([0, 2]), np.array([1, 3])
    alone = posterior_of(np.zeros(4), 1.0, features=features)
    covariance = alone.joint(seen)[1]
    distance = residuals @ np.linalg.solve(covariance, residuals)
    gaussian = alone.condition(seen, FULL, np.exp(residuals)).marginal(rest)[1]
    expected = gaussian * np.sqrt((2 + distance) / 4)
    # The few that are used have lighter tails.
    for n, error in ((400, 0.02), *([(5, 0.15)] if distance <= 4 else [])):
        grid = [Hyperparameters(scale) for scale in student_t_scales(n)]
        found = posterior_of(np.zeros(4), 1.0, features=features, grid=grid)
        found = found.condition(seen, FULL, np.exp(residuals))
        assert found.marginal(rest)[1] == pytest.approx(expected, rel=error)
    assert len(student_t_scales()) == 5


def test_probabilities_of_the_normal_law_are_those_of_scipy():
    scores = np.concatenate([np.linspace(-37.0, 9.0, 1001), [0.0, -0.0, -np.inf, np.inf]])
    # A score of -37 is rounded to 1e-16 of it, which changes the probability by 1e-13 of it.
    assert normal_cdf(scores) == pytest.approx(scipy.special.ndtr(scores), rel=1e-12, abs=0)


@pytest.mark.parametrize("n", [1, 2, 5, 101])
def test_student_scales_are_those_of_the_chi_square_law(n):
    scales = 2 / np.sqrt(scipy.special.chdtri(4, (np.arange(n) + 0.5) / n))
    assert student_t_scales(n) == pytest.approx(scales / np.sqrt(np.mean(scales**2)), rel=1e-13)


def test_forecasts_that_are_surely_right_are_not_refused():
    found = posterior_of(np.arange(3.0), 0.0).condition(np.array([0, 2]), FULL, np.exp([0.0, 2.0]))
    mean, deviation = found.marginal()
    assert mean == pytest.approx([0, 1, 2])
    assert deviation == pytest.approx(0)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 40), st.booleans())
def test_what_is_proved_is_true(seed, n, tight):
    rng = np.random.default_rng(seed)
    times = rng.lognormal(0, 0.3, n)
    bounds = times * (rng.uniform(0.7, 1, n) if tight else 0)
    found = decide(decision_of(times, bounds, budget=Budget(n)))
    kind, certainty = found.verdict()
    assert kind in {"proved", "sure"}
    assert 0.95 <= certainty <= 1
    if kind == "proved":
        assert found.best_time == times.min()


@pytest.mark.slow
def test_a_sure_answer_is_right_as_often_as_it_says():
    rng = np.random.default_rng(3)
    right, certainties = [], []
    for seed in range(150):
        n = 30
        posterior = posterior_of(np.zeros(n), 0.15, features=rng.normal(size=(n, 2)), seed=seed)
        truth = np.exp(posterior.sample(np.arange(n), 1).logs[0])
        recorded = RecordedTimes({1: truth}, np.zeros(n), np.zeros(n))
        found = decide(Decision(posterior, recorded, budget=Budget(n)))
        right.append(found.best_time <= truth.min() * 1.01)
        certainties.append(found.verdict()[1])
    # Three standard deviations of a count of so many.
    assert np.mean(right) > np.mean(certainties) - 3 * np.std(right) / np.sqrt(len(right))


def test_a_budget_ends_the_loop():
    times = np.linspace(1, 2, 20)
    found = decide(decision_of(times, np.zeros(20), width=0.5, budget=Budget(3)))
    assert found.n_simulated == 3
    assert found.verdict()[0] == "undecided"
    nothing = decide(decision_of(times, np.zeros(20), budget=Budget(3, seconds=0.0)))
    assert nothing.n_simulated == 0


@pytest.mark.parametrize("n", [MAX_PROOF, MAX_PROOF + 20])
def test_few_rivals_are_simulated_for_a_proof_and_many_are_not(n):
    # The first is surely the fastest; no bound proves it.
    found = decide(decision_of(np.linspace(1.0, 3.0, n), np.zeros(n), width=0.001))
    assert found.verdict()[0] == ("proved" if n == MAX_PROOF else "sure")
    assert found.n_simulated == (n if n == MAX_PROOF else 1)


def test_the_default_order_is_simulated_though_it_is_slow():
    times = np.linspace(1.0, 3.0, 30)
    found = decide(decision_of(times, 0.999 * times, width=0.01, default=29))
    assert np.flatnonzero(found.is_simulated).tolist() == [0, 29]
    ordered = decide(decision_of(times, 0 * times, goal="order", default=29, budget=Budget(9)))
    assert ordered.is_simulated[29] == ordered.is_simulated[ordered.sort_by_time()[0]]


def test_only_equal_times_share_the_first_place():
    times = np.array([1.0, 1.0, 1.00005])
    found = decide(decision_of(times, np.zeros(3)))
    assert found.draws().p_best(3).tolist() == [0.5, 0.5, 0.0]


def test_many_rivals_are_swept_once_with_coarse_packets():
    rng = np.random.default_rng(1)
    times = rng.lognormal(0, 0.3, 60)
    coarse = times * np.exp(0.02 * rng.standard_normal(60))
    bounds = 0.5 * times
    recorded = RecordedTimes({1: times, 16: coarse}, bounds, bounds, packets=400.0)
    posterior = posterior_of(np.zeros(60), 0.4, bounds)
    found = decide(Decision(posterior, recorded))
    assert found.coarsening == 16
    assert found.n_simulated < 10
    assert found.best_time <= 1.01 * times.min()
    assert not found.is_coarse[found.is_simulated].all() or found.n_simulated > 1


def test_packet_hops_are_counted_as_the_simulator_has_them():
    some = CANDIDATES[::7]
    for merged in (1, 4):
        simulated = [simulate(COMM, TORUS, m, coarsening=merged).packet_hops for m in some]
        assert np.mean(simulated) == pytest.approx(mean_hops(PROBLEM, some, merged))


def test_coarse_packets_are_less_certain():
    errors = [coarse_error(merged, 80.0) for merged in (2, 4, 16, 32)]
    assert (np.diff(errors) > 0).all()
    assert coarse_error(2, 2.0) > coarse_error(2, 80.0) or coarse_error(2, 80.0) < 0.25
    times, bounds = np.array([1.0, 1.5]), np.ones(2)
    recorded = RecordedTimes({1: times, 4: times}, bounds, bounds, packets=80.0)
    found = recorded.condition_on_coarse(posterior_of(np.zeros(2), 1.0), np.arange(2), times, 4)
    width = found.errors[COARSE].std
    # Messages hardly wait if the time equals the bound.
    assert width[0] < width[1]


def test_where_messages_keep_one_packet_the_bound_decides_between_equals():
    times, bounds = np.array([2.0, 2.0, 3.0]), np.array([1.5, 1.0, 1.5])
    recorded = RecordedTimes({64: times}, bounds, bounds, packets=64.0)
    found = recorded.condition_on_coarse(
        posterior_of(np.log([2.2] * 3), 2.0), np.arange(3), times, 64
    )
    mean = found.marginal()[0]
    assert mean[1] < mean[0] < mean[2]


def test_all_are_simulated_with_the_packets_asked_for():
    nothing = np.zeros(len(CANDIDATES))
    simulator = CandidateSimulator(PROBLEM, CANDIDATES, nothing, nothing, 2)
    expected = [simulate(COMM, TORUS, m, coarsening=8).time for m in CANDIDATES[:3]]
    assert simulator.simulate(np.arange(3), 8) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("goal", [0.9, 0.97])
def test_the_order_costs_what_its_rcc_needs(goal):
    found = tc.rank(COMM, TORUS, CANDIDATES, goal="order", budget=Budget(rcc=goal), n_jobs=1)
    times = {m.name: simulate(COMM, TORUS, m).time for m in CANDIDATES}
    real = np.array([times[name] for name in found.table["mapping"]])
    assert found.verdict.rcc >= goal
    assert rcc(real, found.table["time"]) > goal - 0.03
    assert set(found.spent) <= {"bound", "coarse", "full"}
    assert found.cost.simulated < len(CANDIDATES)
    assert found.table["time"].is_monotonic_increasing


def test_coarse_simulations_alone_may_order_the_table():
    long = patterns.halo_3d((4, 4, 2), 512 * 256, corner_nbytes=0)
    several = CANDIDATES[:20]
    found = tc.rank(long, TORUS, several, goal="order", budget=Budget(0, rcc=0.9), n_jobs=1)
    assert found.cost.simulated == 0
    found = tc.rank(long, TORUS, several, goal="order", budget=Budget(1, rcc=0.9), n_jobs=1)
    merged = found.cost.coarsening
    assert merged > 1
    times = {m.name: simulate(long, TORUS, m).time for m in several}
    real = np.array([times[name] for name in found.table["mapping"]])
    assert rcc(real, found.table["time"]) > 0.87
    assert found.table["p_best"].sum() == pytest.approx(1)


def test_an_order_that_is_asked_in_full_is_simulated_in_full():
    found = tc.rank(COMM, TORUS, CANDIDATES[:8], goal="order", budget=Budget(rcc=1.0), n_jobs=1)
    assert found.cost.simulated == 8
    assert found.verdict.rcc == 1.0
    assert found.table["time"].is_monotonic_increasing


def test_seconds_limit_the_packet_hops_and_not_the_clock():
    hops = mean_hops(PROBLEM, CANDIDATES[:8])
    for seconds, n in ((1e-9, 0), (2.5 * hops / HOPS_PER_SECOND, 2)):
        budget = Budget(seconds=seconds, rcc=1.0)
        found = tc.rank(COMM, TORUS, CANDIDATES[:8], budget=budget, n_jobs=1)
        assert found.cost.simulated <= n
    with pytest.raises(InputError, match="bad goal: found quickest, expected fastest or order"):
        tc.rank(COMM, TORUS, CANDIDATES, goal="quickest")


def test_the_same_input_gives_the_same_answer():
    long = patterns.halo_3d((4, 4, 2), 512 * 64, corner_nbytes=0)
    first, second = (
        tc.rank(long, TORUS, CANDIDATES, budget=Budget(seconds=0.5), n_jobs=1).table
        for _ in range(2)
    )
    assert first.equals(second)


def test_expected_pairs_are_as_often_right_as_they_say():
    rng = np.random.default_rng(5)
    right, expected = [], []
    for seed in range(60):
        one = posterior_of(rng.normal(size=25) * 0.1, 0.1, features=rng.normal(size=(25, 2)))
        truth = one.sample(np.arange(25), seed + 1).logs[-1]
        found = one.condition(np.arange(0, 25, 3), FULL, np.exp(truth[::3]))
        right.append(rcc(truth, found.marginal()[0]))
        expected.append(expected_rcc(found))
    assert np.mean(expected) == pytest.approx(np.mean(right), abs=0.03)


def test_times_of_a_machine_are_not_ordered_by_simulations():
    times = {each.name: 1e-4 + 1e-6 * i for i, each in enumerate(CANDIDATES[:8])}
    with pytest.raises(InputError, match="simulations for goal order, but times of a machine"):
        tc.rank(COMM, TORUS, CANDIDATES, times=times, goal="order")


def test_bounds_hold_for_the_adaptive_order_too():
    routed = RoutedTraffic(MappingProblem(COMM, TORUS, "adaptive"), CANDIDATES[0])
    assert simulate(COMM, TORUS, CANDIDATES[0], routing="adaptive").time >= routed.sure_bound


@settings(max_examples=60)
@given(
    st.lists(st.floats(1.0, 4.0), min_size=2, max_size=12),
    st.integers(0, 11),
    st.sampled_from(["fastest", "order"]),
    st.sampled_from([None, 1, 2, 5]),
    st.sampled_from([None, 0.05, 0.3, 1.1, 2.5, 9.0]),
)
def test_the_default_order_is_simulated_as_the_winner_is(times, at, goal, most, affordable):
    times = np.array(times)
    recorded = RecordedTimes({1: times, 16: 1.1 * times}, 0.5 * times, 0.6 * times)
    seconds = None if affordable is None else affordable / HOPS_PER_SECOND
    centre = np.log(times) + 0.1 * np.random.default_rng(1).standard_normal(times.size)
    found = Decision(
        posterior_of(centre, 0.1, 0.5 * times),
        recorded,
        goal,
        Budget(most, seconds),
        default=at % times.size,
    )
    decide(found)
    kind = found.is_simulated.astype(int) * 2 + (found.is_coarse & ~found.is_simulated)
    if kind[found.default] < kind[found.winner]:
        level = 1 if found.is_simulated[found.winner] else 16
        assert found.max_affordable(level) == 0
        assert goal == "order"
