from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from studies.unseen.graphs import draw
from toruscast import InputError
from toruscast.decision import plan
from toruscast.decision.machine import machine_posterior
from toruscast.decision.planning import best_batch, knowledge_gradient
from toruscast.decision.posterior import FULL, RUN, TIME, ErrorComponent, Kernel, Posterior
from toruscast.mapping import TaskMapping, Torus, patterns, strategies
from toruscast.simulation import simulate

TORUS = Torus((4, 4, 2)).with_network(unknown_rules=())
COMM = patterns.halo_3d((4, 4, 2), 4096, periodic=True)
CANDIDATES = strategies.sample(COMM, TORUS, n=24, seed=1)
TIMES = np.array([simulate(COMM, TORUS, mapping).time for mapping in CANDIDATES])
NAMES = [mapping.name for mapping in CANDIDATES]


def prior_of(n, rng, noise=None, width=0.1):
    posterior = Posterior(
        prior_means=rng.normal(0, 0.2, (1, n)),
        errors={"prior": ErrorComponent(np.full(n, width), Kernel(0.3, 0.4, 0.3))},
        sources={TIME: ("prior",), FULL: ("prior",)},
        features=rng.normal(size=(n, 2)),
        bounds=np.zeros(n),
    )
    return machine_posterior(posterior, noise=noise)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 8), st.booleans())
def test_weights_are_those_of_every_run_taken_singly(seed, n_runs, known):
    """The twin does not merge repetitions; it uses a covariance over all runs."""
    rng = np.random.default_rng(seed)
    n = 5
    prior = prior_of(n, rng, 0.03 if known else None)
    which, seconds = rng.integers(0, n, n_runs), rng.lognormal(1, 0.3, n_runs)
    found = prior.condition(which, RUN, seconds)
    logs = np.log(prior.weights)
    for i, point in enumerate(prior.grid):
        alone = replace(prior, grid=[point], grid_weights=np.ones(1))
        centre, covariance = alone.joint(np.arange(n))
        whole = covariance[np.ix_(which, which)] + point.noise**2 * np.eye(n_runs)
        logs[i] += multivariate_normal.logpdf(np.log(seconds), centre[which], whole)
    assert found.evidence == pytest.approx(logsumexp(logs), rel=1e-3, abs=1e-3)
    weights = np.exp(logs - logs.max())
    weights[weights < 1e-3] = 0
    np.testing.assert_allclose(found.weights, weights / weights.sum(), rtol=1e-2, atol=1e-4)


def test_moments_are_those_of_all_grid_points_and_of_what_is_drawn():
    rng = np.random.default_rng(5)
    found = prior_of(6, rng).condition(np.array([0, 1, 1, 4]), RUN, np.array([2.0, 2.1, 2.2, 1.9]))
    every = np.arange(6)
    mean, deviation = found.marginal()
    centre, covariance = found.joint(every)
    np.testing.assert_allclose(mean, centre)
    np.testing.assert_allclose(deviation, np.sqrt(np.diag(covariance)))
    drawn = found.sample(every, 60_000).logs
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=0.01)
    np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=0.05 * covariance.max())


@settings(max_examples=20, deadline=None)
@given(st.floats(-12, 12), st.integers(0, 2**31))
def test_the_unit_of_the_times_does_not_matter(scale, seed):
    rng = np.random.default_rng(seed)
    prior = prior_of(6, rng, 0.01)
    which, seconds = np.array([0, 2, 3, 5]), rng.lognormal(0, 0.2, 4)
    # The prior of the level is broad, but not flat.
    one, two = (prior.condition(which, RUN, seconds * factor) for factor in (1.0, np.exp(scale)))
    spread = np.ptp(one.marginal()[0])
    apart = two.marginal()[0] - one.marginal()[0]
    np.testing.assert_allclose(apart, scale, atol=0.05 * (1 + abs(scale)) * (0.05 + spread))


def test_the_gain_of_a_run_is_what_such_runs_gain():
    rng = np.random.default_rng(2)
    root = rng.normal(size=(4, 4)) * 0.1
    mean, covariance, variance = np.array([1.0, 1.02, 1.05, 1.3]), root @ root.T, 0.01
    truth = rng.multivariate_normal(mean, covariance, 200_000)
    told = knowledge_gradient(mean, covariance, variance)
    for i in range(4):
        seen = truth[:, i] + 0.1 * rng.standard_normal(len(truth))
        moved = covariance[:, i] / (covariance[i, i] + variance)
        least = (mean + (seen - mean[i])[:, None] * moved).min(axis=1)
        assert told[i] == pytest.approx(mean.min() - least.mean(), rel=0.03, abs=1e-3)


def test_a_batch_holds_each_mapping_once():
    mean, covariance = np.array([1.0, 1.0, 1.1]), np.diag([0.1, 0.1, 0.1])
    assert sorted(best_batch(mean, covariance, 0.01, 9).tolist()) == [0, 1, 2]
    # If two mappings are predicted to take the same time, one of them is enough at first.
    alike = np.array([[0.1, 0.0999, 0.0], [0.0999, 0.1, 0.0], [0.0, 0.0, 0.1]])
    assert 2 in best_batch(np.ones(3), alike, 1e-4, 2)


def drive(runs, machine, most=60):
    while not runs.is_enough and runs.n_runs < most:
        for mapping in runs.ask():
            runs.observe(mapping, machine(NAMES.index(mapping.name)))
    return runs.verdict


@pytest.mark.parametrize("constant", [0.0, 1.0, 20.0])
@pytest.mark.parametrize("factor", [1.0, 3000.0])
def test_the_fastest_is_found_whatever_else_is_in_the_times(constant, factor):
    true = factor * (constant * np.median(TIMES) + TIMES)
    rng = np.random.default_rng(0)
    runs = plan(COMM, TORUS, CANDIDATES)
    found = drive(runs, lambda i: true[i] * np.exp(0.002 * rng.standard_normal()))
    assert runs.is_enough
    assert true[NAMES.index(runs.best.name)] <= true.min() * 1.01
    assert runs.n_runs <= 12
    assert found.certainty >= 0.95
    assert found.kind == "sure" or runs.mean_gain <= 0.01


def test_a_plan_begins_with_simulations_where_they_take_seconds():
    made = plan(COMM, TORUS, CANDIDATES)
    assert made.is_simulated
    np.testing.assert_allclose(made.forecast_times(), TIMES, rtol=1e-9)
    assert NAMES.index(made.ask()[0].name) == TIMES.argmin()
    forecast = plan(COMM, TORUS, CANDIDATES, simulate=0)
    assert not forecast.is_simulated
    assert not np.allclose(forecast.forecast_times(), TIMES, rtol=1e-3)


def test_the_share_that_no_mapping_changes_is_learned():
    times = dict(zip(NAMES, 9 * np.median(TIMES) + TIMES, strict=True))
    told = plan(COMM, TORUS, CANDIDATES, times, noise=0.001)
    assert 0.8 < told.constant_share < 0.97
    assert told.noise_share == pytest.approx(0.001)
    assert told.noise_from == "user"


def test_what_noise_blurs_is_told():
    rng = np.random.default_rng(2)
    # The second is as fast as the first.
    true = TIMES.copy()
    true[TIMES.argsort()[1]] = TIMES.min()
    runs = plan(COMM, TORUS, CANDIDATES)
    found = drive(runs, lambda i: true[i] * np.exp(0.05 * rng.standard_normal()))
    assert found.kind == "indistinguishable"
    assert runs.noise_from == "repetitions"
    assert 0.02 < runs.noise_share < 0.1
    assert found.rivals
    assert runs.best.name not in found.rivals
    assert 0.0 < runs.gain <= found.tolerance * 1.01
    # Whoever wants to know more goes on.
    strict = plan(COMM, TORUS, CANDIDATES, runs.runs, tolerance=0.001)
    assert not strict.is_enough


def test_runs_that_gain_too_little_in_the_mean_end_the_plan():
    machine = TIMES + np.median(TIMES)
    runs = plan(COMM, TORUS, CANDIDATES, noise=0.001)
    found = drive(runs, lambda i: machine[i])
    assert found.kind in {"not_worth_more", "indistinguishable"}
    assert found.tolerance > 0.01
    assert found.certainty >= 0.95
    assert machine[NAMES.index(runs.best.name)] <= machine.min() * (1 + found.tolerance)
    # A higher target needs more runs, and a guess of the noise never ends a plan.
    for other in ({"noise": 0.001, "tolerance": 0.001}, {}):
        assert plan(COMM, TORUS, CANDIDATES, runs.runs, **other).verdict.kind == "undecided"


@pytest.mark.slow
def test_sure_answers_are_right_as_often_as_they_say():
    right, certainties = [], []
    prior = plan(COMM, TORUS, CANDIDATES, noise=0.01)._prior
    for seed in range(15):
        rng = np.random.default_rng(seed)
        # A machine that differs from the simulated times by a typical amount.
        true = np.exp(replace(prior, seed=seed).sample(np.arange(len(NAMES)), 1).logs[0])
        runs = plan(COMM, TORUS, CANDIDATES, noise=0.01, seed=seed)
        found = drive(runs, lambda i, t=true, r=rng: t[i] * np.exp(0.01 * r.standard_normal()))
        if runs.is_enough:
            right.append(true[NAMES.index(runs.best.name)] <= true.min() * (1 + found.tolerance))
            certainties.append(found.certainty)
    assert len(right) >= 12
    # Three standard errors below the stated probability.
    share = np.mean(certainties)
    assert np.mean(right) >= share - 3 * np.sqrt(share * (1 - share) / len(right))


@pytest.mark.slow
def test_statements_from_predictions_alone_are_kept():
    torus = Torus((4, 4, 4))
    comm = draw("octree", 64, torus.network.payload, 16.0, np.random.default_rng(5))
    mappings = strategies.sample(comm, torus, n=84, seed=1)
    network = np.array([simulate(comm, torus, mapping).time for mapping in mappings])
    true = np.median(network) + 1.5 * network
    names = [mapping.name for mapping in mappings]
    losses = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        runs = plan(comm, torus, mappings, noise=0.01, simulate=0)
        chosen = [mappings[i] for i in rng.permutation(len(names))[:3]]
        while not runs.is_enough and runs.n_runs < 40:
            for mapping in chosen:
                noise = np.exp(0.01 * rng.standard_normal())
                runs.observe(mapping, true[names.index(mapping.name)] * noise)
            chosen = runs.ask()
        if runs.is_enough:
            loss = true[names.index(runs.best.name)] / true.min() - 1
            losses.append(loss - runs.verdict.tolerance)
    assert np.mean(np.array(losses) <= 0) >= 0.85
    assert max(losses) <= 0.05


def test_nothing_run_names_the_forecast_best_first():
    runs = plan(COMM, TORUS, CANDIDATES)
    assert runs.verdict.kind == "undecided"
    assert runs.noise_from == "nothing"
    assert runs.ask()[0].name == runs.table["mapping"][0] == runs.best.name
    assert runs.table["time"].is_monotonic_increasing
    assert (runs.table["source"] == "predicted").all()
    assert len({mapping.name for mapping in runs.ask(4)}) == 4
    assert len(runs.ask(999)) == len(CANDIDATES)


def test_one_candidate_needs_no_run():
    only = plan(COMM, TORUS, CANDIDATES[:1])
    assert only.is_enough
    assert only.gain == 0


def test_the_table_tells_what_was_measured():
    best, other = TIMES.argsort()[[0, 9]]
    times = {NAMES[best]: [1.0, 1.02], NAMES[other]: 1.5}
    runs = plan(COMM, TORUS, CANDIDATES, times)
    row = runs.table.set_index("mapping").loc[NAMES[best]]
    assert (row["runs"], row["source"]) == (2, "measured")
    assert row["measured"] == pytest.approx(1.01)
    assert row["low"] < row["time"] < row["high"]
    assert runs.table["p_best"].sum() == pytest.approx(1)
    assert runs.table["runs"].sum() == runs.n_runs == 3
    assert runs.best.name == runs.table["mapping"][0] == NAMES[best]


def test_bad_times_are_refused_and_do_not_count(tmp_path):
    runs = plan(COMM, TORUS, CANDIDATES, {NAMES[0]: 1.0})
    with pytest.raises(InputError, match="time of an unknown mapping: found nobody"):
        runs.observe("nobody", 1.0)
    for bad in (0.0, -1.0, float("nan"), float("inf"), "fast", None):
        with pytest.raises(InputError, match="positive seconds"):
            runs.observe(NAMES[1], bad)
    with pytest.raises(InputError, match="in one unit"):
        runs.observe(NAMES[1], 1e6)
    assert runs.n_runs == 1
    file = tmp_path / "runs.csv"
    file.write_text(f"mapping,time\n{NAMES[1]},1.0\nnobody,2.0\n")
    with pytest.raises(InputError, match=r"runs.csv:3: time of an unknown mapping"):
        runs.observe_all(file)
    with pytest.raises(InputError, match="bad noise"):
        plan(COMM, TORUS, CANDIDATES, noise=-0.1)
    with pytest.raises(InputError, match="bad tolerance"):
        plan(COMM, TORUS, CANDIDATES, tolerance=0)
    with pytest.raises(InputError, match="no mapping"):
        plan(COMM, TORUS, [])
    with pytest.raises(InputError, match="names of mappings are not unique"):
        plan(COMM, TORUS, [CANDIDATES[0], CANDIDATES[0]])


def test_a_table_of_runs_is_taken_as_a_file_is():
    rows = pd.DataFrame({"mapping": NAMES[:3], "time": [1.0, 1.5, 2.0]})
    assert plan(COMM, TORUS, CANDIDATES, rows).n_runs == 3


@pytest.mark.slow
def test_of_many_those_that_are_not_looked_at_count_too():
    rng = np.random.default_rng(4)
    torus = Torus((4, 4))
    many = [TaskMapping(rng.permutation(16), torus, name=f"m{i}") for i in range(600)]
    halo = patterns.halo_2d((4, 4), 4096)
    place = {mapping.name: i for i, mapping in enumerate(many)}
    runs = plan(halo, torus, many, noise=0.001)
    for mapping in runs.ask(3):
        runs.observe(mapping, simulate(halo, torus, mapping).time)
    found = runs.verdict
    assert 0 <= found.certainty <= 1
    logs = runs._posterior.sample(np.arange(600), 20_000).logs
    lost = logs[:, place[runs.best.name]] - logs.min(axis=1)
    assert found.certainty <= (lost <= np.log1p(found.tolerance)).mean() + 0.02


def test_a_run_that_something_disturbed_does_not_count():
    machine = TIMES + np.median(TIMES)
    first = np.argsort(TIMES)[[0, 3, 6, 9, 12]]
    told = {NAMES[i]: machine[i] for i in first}
    calm = plan(COMM, TORUS, CANDIDATES, told, noise=0.01)
    assert not calm.disturbed.any()
    late = plan(
        COMM, TORUS, CANDIDATES, told | {NAMES[first[0]]: 1.6 * machine[first[0]]}, noise=0.01
    )
    assert late.disturbed.tolist() == [True, False, False, False, False]
    # Twice as long twice is no disturbance.
    twice = [*told.items(), (NAMES[first[0]], 1.6 * machine[first[0]])]
    twice[0] = twice[-1]
    again = plan(COMM, TORUS, CANDIDATES, noise=0.01)
    again.observe_all(twice)
    assert not again.disturbed.any()


def test_one_disturbed_run_takes_no_other_with_it():
    machine = TIMES + np.median(TIMES)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        which = rng.permutation(len(NAMES))[:10]
        runs = plan(COMM, TORUS, CANDIDATES, noise=0.03)
        times = machine[which] * np.exp(0.03 * rng.standard_normal(10))
        times[0] *= 4
        runs.observe_all([(NAMES[i], time) for i, time in zip(which, times, strict=True)])
        assert runs.disturbed.tolist() == [True] + [False] * 9


def test_of_a_pair_the_late_run_is_left_out():
    machine = TIMES + np.median(TIMES)
    runs = plan(COMM, TORUS, CANDIDATES)
    for i in np.argsort(TIMES)[[0, 3, 6, 9]]:
        runs.observe(NAMES[i], machine[i])
    best = int(TIMES.argmin())
    runs.observe(NAMES[best], 1.3 * machine[best])
    assert runs.disturbed.tolist() == [False] * 4 + [True]
    assert runs.noise_share < 0.05


def test_a_run_that_costs_more_than_it_gains_ends_the_plan():
    order = np.argsort(TIMES)
    told = {NAMES[i]: 1 + TIMES[i] for i in order[[2, 8, 14]]}
    free = plan(COMM, TORUS, CANDIDATES, told, noise=0.3, tolerance=1e-4)
    assert free.verdict.kind == "undecided"
    assert free.next_gain > 0
    assert free.more_runs > 40
    for price, kind in ((free.next_gain / 2, "undecided"), (10.0, "not_worth_more")):
        priced = plan(COMM, TORUS, CANDIDATES, told, noise=0.3, tolerance=1e-4, run_cost=price)
        assert priced.verdict.kind == kind
    with pytest.raises(InputError, match="price of a run"):
        plan(COMM, TORUS, CANDIDATES, run_cost=-1.0)


def test_a_run_that_gains_nothing_goes_to_a_rival_not_to_the_leader_again():
    # The leader has many runs. The others have none and are unlikely to be faster.
    mean = np.array([0.0, 0.06, 0.07, 0.5])
    covariance = np.diag([1e-5, 1e-3, 1e-3, 1e-3])
    assert knowledge_gradient(mean, covariance, 1e-4).max() < 1e-3
    assert best_batch(mean, covariance, 1e-4, 2, 0.01).tolist() == [1, 2]
    # Mapping 1 is known as well as the noise allows, so the next run is of mapping 2.
    known = np.diag([1e-5, 1e-9, 1e-3, 1e-3])
    assert best_batch(mean, known, 1e-4, 1, 0.01).tolist() == [2]
