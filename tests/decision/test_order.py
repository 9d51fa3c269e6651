"""The order behind the fastest: real packets where that takes seconds, longer ones else."""

import sys

import numpy as np
import pytest

from toruscast.decision import Budget, forecast
from toruscast.decision import race as order
from toruscast.decision.forecasts import _Contest
from toruscast.decision.posterior import Posterior, expected_rcc
from toruscast.decision.race import HOPS_A_SECOND, Simulate, mean_hops
from toruscast.errors import InputError
from toruscast.features import RoutedTraffic
from toruscast.mapping import Torus, as_workload, patterns, strategies
from toruscast.simulation import simulate
from toruscast.training.metrics import rcc

TORUS = Torus((4, 4, 2))
COMM = patterns.halo_3d((4, 4, 2), 40_000, corner_nbytes=0)
CANDIDATES = strategies.sample(COMM, TORUS, n=30, seed=5)
HOPS = mean_hops(COMM, TORUS, CANDIDATES) * len(CANDIDATES)


def least(levels):
    return levels[0] if levels else None


@pytest.fixture
def expensive(monkeypatch):
    """Simulations cost so much that four packets must be one."""
    monkeypatch.setattr(order, "MOST_HOPS", HOPS / 3.5)


def test_packet_hops_are_counted_as_the_simulator_has_them():
    some = CANDIDATES[::7]
    for merged in (1, 4):
        simulated = [simulate(COMM, TORUS, m, coarsening=merged).packet_hops for m in some]
        assert np.mean(simulated) == pytest.approx(mean_hops(COMM, TORUS, some, merged))
    assert mean_hops(COMM, TORUS, some) == np.mean(
        [RoutedTraffic(COMM, TORUS, m).packet_hops for m in some]
    )


def test_packets_are_as_long_as_the_worth_asks_for(monkeypatch):
    workload = as_workload(COMM)
    for worth, merged in ((1.0, 1), (0.6, 2), (0.3, 4), (0.1, 16), (1e-3, None)):
        monkeypatch.setattr(order, "MOST_HOPS", HOPS * worth)
        assert least(order.affordable(workload, TORUS, CANDIDATES)) == merged
    monkeypatch.setattr(order, "MOST_HOPS", np.inf)
    for part, merged in ((1.1, 1), (0.3, 4), (-1, None)):
        seconds = part * HOPS / HOPS_A_SECOND
        assert least(order.affordable(workload, TORUS, CANDIDATES, seconds)) == merged


def test_messages_of_many_packets_keep_one_of_them(monkeypatch):
    long = patterns.halo_3d((4, 4, 2), 512 * 4096, corner_nbytes=0)
    workload = as_workload(long)
    hops = mean_hops(long, TORUS, CANDIDATES) * len(CANDIDATES)
    for worth, merged in ((1 / 30, 32), (1 / 100, 128), (1 / 400, 512), (1 / 9000, None)):
        monkeypatch.setattr(order, "MOST_HOPS", hops * worth)
        assert least(order.affordable(workload, TORUS, CANDIDATES)) == merged


def test_an_order_is_by_time_even_where_a_slower_one_was_simulated():
    comm, torus = patterns.halo_2d((4, 4), 4096), Torus((4, 4))
    several = strategies.sample(comm, torus, n=6, seed=1)
    found = forecast(comm, torus, several, goal="order", budget=Budget(1), n_jobs=1)
    assert (found.table["how"] == "simulated").sum() == 1
    assert found.table["time"].is_monotonic_increasing


def test_the_rest_is_sketched_where_simulating_it_is_expensive(expensive):
    answer = forecast(COMM, TORUS, CANDIDATES)
    table = answer.table
    assert answer.cost.coarsening == 4
    assert set(table["how"]) == {"simulated", "sketched"}
    assert answer.cost.simulated == (table["how"] == "simulated").sum() < 15
    times = {m.name: simulate(COMM, TORUS, m).time for m in CANDIDATES}
    real = np.array([times[name] for name in table["mapping"]])
    assert rcc(real, table["time"]) > 0.97
    held = (table["low"] <= real * 1.0001) & (real <= table["high"] * 1.0001)
    assert held.mean() > 0.85
    assert real[0] == real.min()


def test_rivals_alone_are_sketched_where_all_would_take_too_long(monkeypatch):
    several = [strategies.make("random", COMM, TORUS, seed=seed) for seed in range(30)]
    # Even with the longest packets, all take longer than twenty of them may.
    most = 20 * mean_hops(COMM, TORUS, several, 128)
    monkeypatch.setattr(order, "MOST_HOPS", most)
    monkeypatch.setattr(sys.modules[_Contest.__module__], "MOST_HOPS", most)
    answer = forecast(COMM, TORUS, several, n_jobs=1)
    how = answer.table["how"].value_counts()
    assert answer.verdict.kind == "sure"
    assert set(how.index) == {"simulated", "sketched", "forecast"}
    assert how["simulated"] < 7
    times = [simulate(COMM, TORUS, mapping).time for mapping in several]
    assert answer.table["time"].iloc[0] <= 1.01 * min(times)


def test_neither_check_nor_no_simulation_sketches(expensive):
    for options in ({"check": True}, {"budget": 0}):
        answer = forecast(COMM, TORUS, CANDIDATES[:6], **options)
        assert answer.cost.coarsening is None
        assert "sketched" not in set(answer.table["how"])


def test_what_is_simulated_to_the_last_is_proved_by_all_of_it():
    answer = forecast(COMM, TORUS, CANDIDATES, budget=1)
    assert answer.verdict.kind == "proved"
    assert answer.cost.to_answer in (1, len(CANDIDATES))
    assert forecast(COMM, TORUS, CANDIDATES, budget=Budget(1, seconds=1e-9)).cost.simulated <= 1


def test_longer_packets_are_less_certain():
    times, one, features = np.array([1.0, 1.5]), np.ones(2), np.zeros((2, 1))
    widths = [
        order.sketched(times, merged, 80.0, one, one, features).width for merged in (2, 4, 16, 32)
    ]
    assert (np.diff(widths, axis=0) > 0).all()
    assert all(width[0] < width[1] for width in widths)


def test_where_messages_keep_one_packet_the_bound_decides_between_equals():
    times, bounds = np.array([2.0, 2.0, 3.0]), np.array([1.5, 1.0, 1.5])
    for merged, packets in ((64, 64.0), (4, 64.0)):
        centre = order.sketched(times, merged, packets, bounds, bounds, np.zeros((3, 1))).centre
        assert centre[1] < centre[0] < centre[2]
        assert centre.mean() == pytest.approx(np.log(times).mean())


def test_all_are_simulated_with_the_packets_asked_for():
    run = Simulate(as_workload(COMM), TORUS, CANDIDATES, "deterministic", 2)
    expected = [simulate(COMM, TORUS, m, coarsening=8).time for m in CANDIDATES[:3]]
    assert run(np.arange(3), 8).tolist() == expected


@pytest.mark.parametrize("goal", [0.9, 0.97])
def test_the_order_costs_what_its_rcc_needs(goal):
    found = forecast(COMM, TORUS, CANDIDATES, goal="order", budget=Budget(rcc=goal), n_jobs=1)
    times = {m.name: simulate(COMM, TORUS, m).time for m in CANDIDATES}
    real = np.array([times[name] for name in found.table["mapping"]])
    assert found.verdict.rcc >= goal
    assert rcc(real, found.table["time"]) > goal - 0.03
    assert set(found.spent) <= {"bound", "coarse", "full"}
    assert found.cost.simulated < len(CANDIDATES)


def test_longer_packets_alone_order_the_table():
    long = patterns.halo_3d((4, 4, 2), 512 * 256, corner_nbytes=0)
    several = CANDIDATES[:20]
    found = forecast(long, TORUS, several, goal="order", budget=Budget(rcc=0.9), n_jobs=1)
    merged = found.cost.coarsening
    assert found.cost.simulated == 0
    assert merged > 1
    assert set(found.table["how"]) == {"sketched"}
    times = {m.name: simulate(long, TORUS, m, coarsening=merged).time for m in several}
    rough = [times[name] for name in found.table["mapping"]]
    # Of messages that keep few packets the bound has a small share.
    np.testing.assert_allclose(found.table["time"], rough, rtol=0.03)
    assert found.table["p_best"].sum() == pytest.approx(1)


def test_an_order_that_is_asked_in_full_is_simulated_in_full():
    found = forecast(COMM, TORUS, CANDIDATES[:8], goal="order", budget=Budget(rcc=1.0), n_jobs=1)
    assert found.cost.simulated == 8
    assert found.verdict.rcc == 1.0
    assert found.table["time"].is_monotonic_increasing


def test_seconds_end_the_search_for_an_order():
    budget = Budget(seconds=1e-9, rcc=1.0)
    found = forecast(COMM, TORUS, CANDIDATES[:8], goal="order", budget=budget, n_jobs=1)
    assert found.cost.simulated == 0
    assert found.verdict.rcc < 1.0
    with pytest.raises(InputError, match="unknown goal: found quickest, expected fastest or order"):
        forecast(COMM, TORUS, CANDIDATES, goal="quickest")


def test_expected_pairs_are_as_often_right_as_they_say():
    rng = np.random.default_rng(5)
    right, said = [], []
    for _ in range(60):
        one = Posterior(rng.normal(size=25) * 0.1, np.full(25, 0.1), rng.normal(size=(25, 2)))
        truth = one.draws(np.arange(25), 1, rng)[0]
        told = one.given(np.arange(0, 25, 3), truth[::3])
        right.append(rcc(truth, told.marginal()[0]))
        said.append(expected_rcc(told))
    assert np.mean(said) == pytest.approx(np.mean(right), abs=0.03)


class Clock:
    """Each look at it takes a second."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        self.now += 1.0
        return self.now


def test_a_pass_with_longer_packets_ends_with_its_seconds(monkeypatch):
    monkeypatch.setattr(order, "time", Clock())
    simulate = Simulate(as_workload(COMM), TORUS, CANDIDATES, "deterministic", 1)
    found = simulate(np.arange(30), 4, seconds=3.5)
    assert np.isfinite(found).tolist() == [True] * 3 + [False] * 27
    assert np.isfinite(simulate(np.arange(4), 4)).all()


def test_an_order_that_time_cuts_short_says_which_were_simulated(monkeypatch, expensive):
    monkeypatch.setattr(_Contest, "_left", 3.5)
    monkeypatch.setattr(_Contest, "_run", lambda self: None)
    monkeypatch.setattr(_Contest, "_coarsening", lambda self: 4)
    monkeypatch.setattr(order, "time", Clock())
    found = forecast(COMM, TORUS, CANDIDATES, goal="order", budget=Budget(rcc=1.0), n_jobs=1)
    table = found.table.set_index("mapping")
    assert table["how"].value_counts().to_dict() == {"forecast": 27, "sketched": 3}
    width = np.log(table["high"] / table["low"])
    assert width[table["how"] == "sketched"].max() < width[table["how"] == "forecast"].min()


def test_times_of_a_machine_are_not_ordered_by_simulations():
    times = {each.name: 1e-4 + 1e-6 * i for i, each in enumerate(CANDIDATES[:8])}
    with pytest.raises(InputError, match="simulations for the order, and times of a machine"):
        forecast(COMM, TORUS, CANDIDATES, times=times, goal="order")
