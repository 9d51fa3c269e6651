import numpy as np
import pytest

import toruscast as tc
from toruscast import InputError, Torus
from toruscast.decision import NothingToLearnError, Runs
from toruscast.decision.runs import possible_rcc, tied_share
from toruscast.mapping import patterns, strategies
from toruscast.training.feature_sets import BOUND, LOWER_BOUND, REFERENCES, references_to_try

TORUS = Torus((4, 4)).with_network(unknown_rules=())
HALO = patterns.halo_2d((4, 4), 4096)
MAPPINGS = strategies.sample(HALO, TORUS, n=16, seed=5)
NETWORK = {mapping.name: tc.simulate(HALO, TORUS, mapping).time for mapping in MAPPINGS}
TIMES = {name: 2e-5 + 3 * time for name, time in NETWORK.items()}


@pytest.fixture(scope="module")
def answer():
    return tc.rank(HALO, TORUS, MAPPINGS, times=dict(list(TIMES.items())[:11]))


def test_others_are_forecast_from_a_line_in_the_simulated_time(answer):
    line = answer.learned.line
    assert (line.constant, line.slope) == pytest.approx((2e-5, 3))
    table = answer.table.set_index("mapping")
    measured = list(TIMES)[:11]
    assert table.index[table["source"] == "measured"].sort_values().tolist() == sorted(measured)
    assert table["time"].to_dict() == pytest.approx(TIMES)
    assert (table["lower_bound"] <= table["low"]).all()
    assert (table["low"] <= table["time"]).all()
    assert (table["time"] <= table["high"]).all()
    assert table["p_best"].sum() == pytest.approx(1)
    assert answer.table["time"].is_monotonic_increasing
    assert answer.best.name == answer.table["mapping"][0]
    assert answer.best.name not in answer.verdict.rivals
    assert (answer.cost.measured, answer.cost.simulated) == (11, 0)


def test_a_saved_model_forecasts_the_same(answer, tmp_path):
    tc.save_predictor(answer.model, tmp_path / "m.npz")
    again = tc.rank(HALO, TORUS, MAPPINGS, model=str(tmp_path / "m.npz"))
    assert again.learned is None
    assert set(again.table["source"]) == {"predicted"}
    assert dict(zip(again.table["mapping"], again.table["time"], strict=True)) == pytest.approx(
        TIMES
    )
    larger = patterns.halo_2d((4, 4), 4096 * 64)
    with pytest.warns(UserWarning, match="outside the range of the training samples"):
        tc.rank(larger, TORUS, MAPPINGS, model=answer.model)


@pytest.mark.slow
def test_noise_makes_ties():
    rng = np.random.default_rng(0)
    runs = {
        name: (time * np.exp(0.05 * rng.standard_normal(4))).tolist()
        for name, time in TIMES.items()
    }
    answer = tc.rank(HALO, TORUS, MAPPINGS, times=runs)
    scores = answer.learned.scores
    assert 0 < scores["tied"] < 1
    assert scores["rcc"] < scores["rcc_possible"] + 0.05
    table = answer.table
    held = [row.low <= TIMES[row.mapping] <= row.high for row in table.itertuples()]
    assert np.mean(held) > 0.7
    sure = tc.rank(HALO, TORUS, MAPPINGS, times=TIMES)
    assert answer.verdict.certainty <= sure.verdict.certainty


def test_what_noise_leaves_possible_is_what_true_times_reach():
    rng = np.random.default_rng(2)
    true = np.exp(rng.normal(0, 0.1, 300))
    each = true[:, None] * np.exp(0.06 * rng.standard_normal((300, 3)))
    runs = Runs.from_times({f"m{i}": row.tolist() for i, row in enumerate(each)})
    reached = tc.training.rcc_told_apart(runs.times, true)
    assert possible_rcc(runs) == pytest.approx(reached, abs=0.02)
    assert 0.1 < tied_share(runs) < 0.9
    once = Runs.from_times({"a": 1.0, "b": 2.0})
    assert np.isnan([possible_rcc(once), tied_share(once)]).all()


def test_without_simulation_bounds_are_followed():
    answer = tc.rank(HALO, TORUS, MAPPINGS, times=TIMES, budget=0)
    assert answer.model.reference in (BOUND, LOWER_BOUND)
    assert not answer.cost.is_coarse
    assert references_to_try("adaptive", True) == tuple(n for n in REFERENCES if n != "flow_time")
    assert references_to_try("adaptive", False) == (BOUND, LOWER_BOUND)


def test_forecasts_that_times_exclude(answer):
    with pytest.raises(InputError, match="a model and times"):
        tc.rank(HALO, TORUS, MAPPINGS, times=TIMES, model=answer.model)
    with pytest.raises(InputError, match="cannot check times of a machine"):
        tc.rank(HALO, TORUS, MAPPINGS, times=TIMES, check=True)
    with pytest.raises(InputError, match="time of an unknown mapping: found nobody"):
        tc.rank(HALO, TORUS, MAPPINGS, times=TIMES | {"nobody": 1e-4})
    with pytest.raises(NothingToLearnError, match="found 1, expected at least 6"):
        tc.rank(HALO, TORUS, MAPPINGS, times={MAPPINGS[0].name: 1.0})
    twins = [*MAPPINGS, MAPPINGS[0]]
    with pytest.raises(InputError, match="names of mappings are not unique"):
        tc.rank(HALO, TORUS, twins, times=TIMES)


@pytest.mark.slow
def test_a_slope_that_no_network_has_is_asked_about():
    milliseconds = {name: 1e3 * time for name, time in NETWORK.items()}
    with pytest.warns(UserWarning, match="1,000 times those of the simulated time: are they in"):
        tc.rank(HALO, TORUS, MAPPINGS, times=milliseconds)
