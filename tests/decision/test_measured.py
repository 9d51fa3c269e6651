import numpy as np
import pandas as pd
import pytest

import toruscast as tc
from toruscast.decision import measured
from toruscast.decision.runs import NothingToLearnError, Runs
from toruscast.training import r2
from toruscast.training.metrics import rcc_told_apart
from toruscast.training.residuals import fit_line


def samples(n=40, seed=0):
    """Mappings with two references, of which the first is the better one, and two features."""
    rng = np.random.default_rng(seed)
    real = rng.uniform(1e-3, 4e-3, n)
    return pd.DataFrame(
        {
            "release_bound": real,
            "lower_bound": real * rng.uniform(0.5, 1, n),
            "share": rng.integers(0, 2, n).astype(float),
            "idle": rng.uniform(size=n),
        },
        index=pd.Index([f"m{i}" for i in range(n)], name="mapping"),
    )


def runs_of(table, times):
    return Runs.from_times(dict(zip(table.index, np.asarray(times).tolist(), strict=True)))


@pytest.mark.parametrize("constant", [0.0, 1e-3, 100.0])
@pytest.mark.parametrize("slope", [0.02, 1.0, 30.0])
def test_a_line_is_found_whatever_its_constants(constant, slope):
    table = samples()
    times = constant + slope * table["release_bound"]
    found = measured.fit_run_model(table, runs_of(table, times), ["share", "idle"])
    assert found.model.reference == "release_bound"
    assert not found.corrected
    assert found.line.constant == pytest.approx(constant, abs=1e-6 * float(times.mean()))
    assert found.line.slope == pytest.approx(slope, rel=1e-3)
    assert r2(times, found.model.predict(table)) > 0.999
    assert all(rcc_told_apart(times, said) > 0.99 for said in found.predicted)


@pytest.mark.slow
def test_features_count_where_they_help_and_only_there():
    table = samples(60)
    plain = 1e-3 + table["release_bound"]
    slower = plain * (1 + 0.4 * table["share"])
    assert not measured.fit_run_model(table, runs_of(table, plain), ["share", "idle"]).corrected
    found = measured.fit_run_model(table, runs_of(table, slower), ["share", "idle"])
    assert found.corrected
    offered = found.held_out["offered"]
    assert offered.sum() == 1
    assert found.held_out["miss"][offered].item() == found.held_out["miss"].min()


@pytest.mark.parametrize("what", ["times", "a constant feature"])
def test_last_digits_decide_nothing(what):
    table, rng = samples(12), np.random.default_rng(4)
    # Features of few values split few runs alike, so that several are equally good.
    for i in range(8):
        table[f"few {i}"] = rng.integers(0, 3, 12).astype(float)
    table["whole"] = 1.0
    times = (1e-3 + table["release_bound"]) * np.exp(0.05 * rng.standard_normal(12))
    model = tc.TimePredictor(
        None, "measured", reference="release_bound", n_estimators=20, calibration_folds=0
    )
    unseen = table.assign(**{f"few {i}": rng.integers(0, 3, 12) for i in range(8)})
    first = model.fit(table, times).predict(unseen)
    for _ in range(3):
        last = 1 + 1e-15 * rng.standard_normal(12)
        if what == "times":
            again = model.fit(table, times * last).predict(unseen)
        else:
            again = model.fit(table.assign(whole=last), times).predict(unseen)
        assert again == pytest.approx(first, rel=1e-6)


def test_one_disturbed_run_does_not_bend_the_line():
    reference = samples()["release_bound"].to_numpy()
    times = 1e-3 + reference
    disturbed = times.copy()
    disturbed[3] *= 20
    assert fit_line(reference, disturbed) == pytest.approx(fit_line(reference, times), rel=1e-6)


def test_a_falling_line_has_no_negative_slope():
    reference = np.linspace(1, 2, 9)
    constant, slope = fit_line(reference, 5 - reference)
    assert slope == 0
    assert constant > 0


@pytest.mark.parametrize("seed", range(3))
def test_noise_alone_teaches_nothing(seed):
    table, rng = samples(seed=seed), np.random.default_rng(seed)
    once = 1e-3 * np.exp(0.05 * rng.standard_normal(40))
    with pytest.raises(NothingToLearnError, match="no model predicts held-out times"):
        measured.fit_run_model(table, runs_of(table, once), ["share", "idle"])
    thrice = 1e-3 * np.exp(0.05 * rng.standard_normal((40, 3)))
    with pytest.raises(NothingToLearnError, match="differ no more than repeated runs"):
        measured.fit_run_model(table, runs_of(table, thrice), ["share", "idle"])


def test_equal_times_and_few_mappings_teach_nothing():
    table = samples()
    with pytest.raises(NothingToLearnError, match="all 40 times are equal"):
        measured.fit_run_model(table, runs_of(table, np.full(40, 1e-3)))
    few = table[:5]
    with pytest.raises(NothingToLearnError, match="found 5, expected at least 6"):
        measured.fit_run_model(few, runs_of(few, few["release_bound"]))
    six = table[:6]
    assert measured.fit_run_model(
        six, runs_of(six, six["release_bound"])
    ).line.slope == pytest.approx(1)


@pytest.mark.slow
def test_times_that_have_nothing_to_do_with_the_network_are_refused():
    # Each of these orders follows one of the forecasts that are tried, by chance.
    halo = tc.patterns.halo_2d((8, 8), 16384)
    torus = tc.Torus((4, 4, 4)).with_network(unknown_rules=())
    mappings = tc.strategies.sample(halo, torus, n=14, seed=1)
    for seed in (0, 1, 13, 21, 22):
        order = np.random.default_rng(seed).permutation(len(mappings))
        times = {mappings[k].name: 1e-3 * (1 + i) for i, k in enumerate(order)}
        with pytest.raises(NothingToLearnError, match="significantly better"):
            tc.learn_runs(halo, torus, mappings, times)
