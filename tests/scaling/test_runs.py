"""Which runs to make, how much they differ, and how far models are off."""

import numpy as np
import pandas as pd
import pytest
from benchmark_modules import load

from toruscast.errors import InputError
from toruscast.scaling import Measurements, fit_many, read_measurements
from toruscast.scaling.runs import next_runs, run_plans, variations

ms2 = load("ms2_models")


@pytest.mark.parametrize("variation", ms2.VARIATIONS)
def test_variations_of_the_published_size_come_back(variation):
    model = ms2.published_models()[0]
    values = ms2.sample(model, variation, 1, seed=5)
    table = variations(Measurements(model.parameters, model.points(), values))
    assert table["variation"].median() == pytest.approx(variation, rel=0.15)
    assert table["repetitions"].unique().tolist() == [10]
    expected = values[0, 7].std(ddof=1) / values[0, 7].mean()
    assert table["variation"][7] == pytest.approx(expected)


def test_a_single_run_has_no_variation_and_missing_ones_do_not_count():
    data = Measurements(["p"], [[1], [2]], [[[1.0, np.nan, np.nan], [1.0, 3.0, np.nan]]])
    table = variations(data)
    assert np.isnan(table["variation"][0])
    assert table["variation"][1] == pytest.approx(np.sqrt(2) / 2)
    assert table["repetitions"].tolist() == [1, 2]


def test_plans_of_the_study():
    values = {name: grid[:5] for name, grid in ms2.GRIDS.items()}
    groups = [model.parameters for model in ms2.published_models()]
    plans, points = run_plans(values, "p", groups)
    plans = plans.set_index("plan")
    assert plans.loc["the groups", "grids"] == "6 x 5^2 + 2 x 5^3"
    assert plans.loc["grids of 2", "grids"] == "10 x 5^2"
    assert plans.loc["grid of all", "runs"] == 5**5
    # 4 of 5 values on each line, the point that they share, and one off all lines.
    assert plans.loc["lines", "runs"] == 5 * 4 + 2
    assert (plans["cost"].diff().dropna() > 0).all()
    for name, chosen in points.items():
        assert len(chosen) == len(np.unique(chosen, axis=0)) == plans.loc[name, "runs"]
        assert plans.loc[name, "cost"] == chosen[:, 0].sum()
    # The others stay at the cheapest value.
    assert points["lines"][:, 0].tolist().count(12.0) == 4 * 4 + 1


def test_the_least_plan_suffices_for_a_model():
    _, points = run_plans({"p": [4, 8, 16, 32, 64], "n": [1, 2, 3, 4, 5]})
    found = {}
    for name, function in (("sum", np.sum), ("product", np.prod)):
        values = function(points["lines"], axis=1)[None, :, None]
        found[name] = fit_many(Measurements(["p", "n"], points["lines"], values)).formulas()[0]
    assert found == {"sum": "n + p", "product": "p n"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (({},), "needs values of each parameter"),
        (({"p": [1, 2]}, "q"), "cost: bad formula, column 1: found q, expected p"),
        (({"p": [1, 2]}, "p - 1"), "the cost of a run must be above 0"),
        (({"p": [-1, 2]},), "Negative values"),
        (({"p": [1, 2]}, "1", [["x"]]), "unknown parameter of a group"),
        (({"p": range(1, 1000), "n": range(1, 1000)},), "too many points"),
    ],
)
def test_wrong_plans(given, message):
    with pytest.raises(InputError, match=message):
        run_plans(*given)


@pytest.fixture(scope="module")
def doubtful():
    p = [4, 8, 16, 32]
    times = [[x * 1.02, x * 0.98] for x in (9.0, 9.5, 10.0, 10.4)]
    return fit_many(Measurements(["p"], [[x] for x in p], [times]))


def test_the_next_run_makes_predictions_surer(doubtful):
    (row,) = next_runs(doubtful, [[1024]], [[4], [64], [256]]).itertuples()
    values, weight = doubtful.hypotheses([[1024]])
    mean = weight[0] @ values[0, :, 0]
    before = np.sqrt(weight[0] @ (values[0, :, 0] / mean - 1) ** 2)
    assert row.p == 256
    assert row.spread < before / 2
    # The law of a conditioned normal, with the error of a run from the repetitions.
    joint, _ = doubtful.hypotheses([[256], [1024]])
    apart = joint[0] / (weight[0] @ joint[0]) - 1
    cov = (weight[0][:, None] * apart).T @ apart
    noise = variations(doubtful.measurements)["variation"].pow(2).mean()
    after = cov[1, 1] - cov[0, 1] ** 2 / (cov[0, 0] + noise)
    assert row.spread == pytest.approx(np.sqrt(after))


def test_a_budget_holds(doubtful):
    for budget in (1, 100, 300, 1000):
        table = next_runs(doubtful, [[1024]], [[4], [64], [256]], "p", budget)
        assert table["cost"].sum() <= budget
        assert (table["spread"].diff().dropna() < 0).all()
    assert table["p"].max() == 256


def test_nothing_is_left_to_measure_where_hypotheses_agree():
    data = Measurements(["p"], [[x] for x in (1, 2, 4, 8, 16)], [[[7.0, 7.0]] * 5])
    table = next_runs(fit_many(data), [[64]])
    assert table.empty
    assert table.columns.tolist() == ["p", "cost", "spread"]


def test_errors_left_out_are_those_of_fits_to_the_other_points():
    p = np.array([1.0, 2, 4, 8, 16, 32])
    values = 3 + 2 * p * np.array([1.01, 0.98, 1.03, 0.99, 1.0, 1.02])
    models = fit_many(Measurements(["p"], p[:, None], values[None, :, None]))
    fitted, left = models.errors()[0], models.errors(left_out=True)[0]
    assert fitted == pytest.approx(1 - models.evaluate(p[:, None])[0] / values)
    columns = np.array([np.ones(6), p]).T / values[:, None]
    for k in range(6):
        rest = np.arange(6) != k
        found = np.linalg.lstsq(columns[rest], np.ones(5))[0]
        assert left[k] == pytest.approx(1 - columns[k] @ found, rel=0.02, abs=1e-4)
    assert isinstance(models.summary(), pd.DataFrame)


def test_call_trees_are_merged_where_a_profile_lacks_a_call(tmp_path):
    rows = [(path, "time", p, value) for p in (2, 4, 8) for path, value in (("main", p), ("io", 1))]
    # The call is absent at p = 8, and in one of two runs at p = 4.
    rows = [row for row in rows if row[0] != "io" or row[2] != 8] + [("main", "time", 4, 5)]
    table = tmp_path / "runs.csv"
    pd.DataFrame(rows, columns=["callpath", "metric", "p", "value"]).to_csv(table, index=False)
    apart = read_measurements(table)
    assert [data.callpaths for data in apart] == [("main",), ("io",)]
    (merged,) = read_measurements(table, absent="zero")
    assert merged.callpaths == ("main", "io")
    assert np.nan_to_num(merged.values[1], nan=-1).tolist() == [[1, -1], [1, 0], [0, -1]]
    with pytest.raises(InputError, match="absent call paths"):
        read_measurements(table, absent="keep")


@pytest.mark.parametrize(("reduce", "expected"), [("mean", 2.5), ("max", 4.0), ("sum", 10.0)])
def test_values_of_processes_become_one(tmp_path, reduce, expected):
    table = tmp_path / "runs.csv"
    rows = [
        (p, process, repetition, scale * (process + 1))
        for p in (2, 4, 8)
        for repetition, scale in ((1, 1.0), (2, 10.0))
        for process in range(4)
    ]
    frame = pd.DataFrame(rows, columns=["p", "process", "repetition", "value"])
    for columns in (frame, frame.drop(columns="repetition"), frame.sample(frac=1, random_state=1)):
        columns.to_csv(table, index=False)
        (data,) = read_measurements(table, reduce=reduce)
        assert data.parameters == ("p",)
        assert np.sort(data.values[0], axis=1).tolist() == [[expected, 10 * expected]] * 3
