"""Interconnect constants: planted values, laws, the published figures, and hostile runs."""

import io
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from toruscast import datasets
from toruscast.errors import InputError
from toruscast.scaling import (
    JOB_COLUMNS,
    Interconnect,
    ScalingWarning,
    Scenario,
    communication_times,
    fit_interconnect,
    read_jobs,
    speedups,
    what_if,
)

NETS = (("slow", 40e-6, 1e8), ("fast", 20e-6, 2.5e8), ("other", 2e-6, 1e9))
RUNS = (
    ",".join(JOB_COLUMNS)
    + "\n"
    + "".join(
        f"{job},{net},{latency},{bandwidth},1e6,2000,{elapsed}\n"
        for job, elapsed in (("a", 600), ("b", 500))
        for net, latency, bandwidth in (("eth", 4e-5, 1.1e8), ("ib", 2e-6, 3e9))
    )
)


def planted(alpha, beta, sizes, nets=NETS[:2], noise=None):
    """Runs that follow the model exactly, but for noise (jobs, interconnects)."""
    rows = []
    for k, size in enumerate(sizes):
        for m, (net, latency, bandwidth) in enumerate(nets):
            messages = 1e6 + 3e5 * k
            elapsed = 5000.0 + 100 * k + messages * (alpha * latency + beta * size / bandwidth)
            elapsed += 0 if noise is None else noise[k, m]
            rows.append((f"job {k}", net, latency, bandwidth, messages, size, elapsed))
    return pd.DataFrame(rows, columns=JOB_COLUMNS)


@pytest.fixture(scope="module")
def lsdyna():
    return read_jobs(datasets.table_path("lsdyna-interconnect"))


@pytest.fixture(scope="module")
def published():
    table = pd.read_csv(datasets.table_path("lsdyna-published"), comment="#")
    table = table[table["scenario"] != "speed-up limit"]
    return table.pivot(index="job", columns="scenario", values="elapsed")


def on_hf2(jobs, model):
    double = jobs[(jobs["interconnect"] == "HF2") & (jobs["precision"] == "DP")]
    return what_if(double[double["messages"] > 0], model).set_index("job")


def test_published_constants(lsdyna):
    model = fit_interconnect(lsdyna)
    assert round(model.alpha, 3) == 3.578
    assert round(model.beta, 3) == 1.607
    assert model.n_jobs == 8


def test_differences_of_pairs_give_the_same(lsdyna):
    # The textbook way, with its covariance matrix.
    slow = lsdyna[(lsdyna["interconnect"] == "GigE") & (lsdyna["messages"] > 0)].reset_index()
    fast = lsdyna[(lsdyna["interconnect"] == "HF2") & (lsdyna["messages"] > 0)].reset_index()
    X = np.stack(
        [
            slow["messages"] * (43e-6 - 22e-6),
            slow["messages"] * slow["message_bytes"] * (1 / 112e6 - 1 / 216e6),
        ],
        axis=1,
    )
    y = (slow["elapsed"] - fast["elapsed"]).to_numpy()
    expected, rest, _, _ = np.linalg.lstsq(X, y)
    errors = np.sqrt(np.diag(np.linalg.inv(X.T @ X)) * rest[0] / 6)
    model = fit_interconnect(lsdyna)
    assert [model.alpha, model.beta] == pytest.approx(expected)
    assert model.residual == pytest.approx(math.sqrt(rest[0] / 6))
    # 2.4469 is the 97.5 % point of Student's t with 6 degrees of freedom.
    assert model.alpha_interval[1] - model.alpha == pytest.approx(2.4469 * errors[0], rel=1e-4)
    assert model.beta - model.beta_interval[0] == pytest.approx(2.4469 * errors[1], rel=1e-4)


def test_published_what_if_is_ours_cut_to_seconds(lsdyna, published):
    table = on_hf2(lsdyna, fit_interconnect(lsdyna))[published.columns].loc[published.index]
    assert (np.floor(table) == published).all(axis=None)


def test_published_limit_of_the_speed_up(lsdyna):
    table = speedups(lsdyna, fit_interconnect(lsdyna))
    last = table[(table["job"] == "DP-32") & (table["interconnect"] == "HF2")].iloc[0]
    assert last["speed_up"] == pytest.approx(41407 / 2119)
    # The paper divides by the time without latency, in whole seconds.
    assert last["zero_latency"] == pytest.approx(41407 / 1829, rel=1e-3)
    assert round(last["zero_latency"]) == round(last["infinite_speed"]) == 23
    single = table[(table["job"] == "SP-32") & (table["interconnect"] == "HF2")].iloc[0]
    assert single["zero_latency"] == pytest.approx(24.5, abs=0.05)


def test_speed_ups_are_over_the_fewest_tasks_of_a_kind(lsdyna):
    table = speedups(lsdyna, fit_interconnect(lsdyna)).set_index(["job", "interconnect"])
    assert table.loc[("SP-32", "GigE"), "speed_up"] == pytest.approx(37010 / 2094)
    # Without the runs on one and two processors, those on four are the base of their interconnect.
    few = lsdyna[(lsdyna["precision"] == "DP") | (lsdyna["tasks"].astype(int) > 2)]
    fewer = speedups(few, fit_interconnect(few)).set_index(["job", "interconnect"])
    assert fewer.loc["SP-32", "base"].tolist() == [4, 4]
    assert fewer.loc[("SP-32", "GigE"), "speed_up"] == pytest.approx(9913 / 2094)
    # A run on one task is the base on both interconnects.
    assert table.loc[("DP-4", "GigE"), "speed_up"] == pytest.approx(41407 / 11827)


def test_runs_whose_messages_are_unknown_have_a_speed_up_alone(lsdyna):
    model = fit_interconnect(lsdyna)
    assert model == fit_interconnect(lsdyna[lsdyna["messages"].notna()])
    table = speedups(lsdyna, model).set_index(["job", "interconnect"]).loc[("SP-2", "HF2")]
    assert table["speed_up"] == pytest.approx(37010 / 21065)
    assert table[["communication", "computation", "zero_latency"]].isna().all()


@given(st.permutations(["precision", "switch"]), st.booleans())
def test_speed_ups_of_kinds_are_those_of_each_alone(columns, known):
    jobs = read_jobs(datasets.table_path("lsdyna-interconnect"))
    model = Interconnect(3.6, 1.6)
    # A column that is constant for each interconnect does not separate runs.
    jobs["switch"] = jobs["interconnect"].map({"GigE": "a", "HF2": "b"})
    rest = [name for name in jobs if name not in columns]
    found = speedups(jobs[[*rest, *columns]], model).set_index(["job", "interconnect"])
    for precision, own in jobs.groupby("precision"):
        alone = speedups(own.drop(columns="precision" if known else "switch"), model)
        alone = alone.set_index(["job", "interconnect"])
        assert found.loc[alone.index, "speed_up"].equals(alone["speed_up"])
        assert set(found.loc[alone.index, "kind"]) == {precision}


def test_one_base_of_different_jobs_is_noted(lsdyna):
    pooled = "the mean of jobs SP-1, DP-1 is the base of speed-ups; add a column"
    with pytest.warns(ScalingWarning, match=pooled):
        speedups(lsdyna.drop(columns="precision"), Interconnect(3.6, 1.6))


def test_speed_ups_need_tasks(lsdyna):
    model = Interconnect(3.6, 1.6)
    with pytest.raises(InputError, match="a column tasks"):
        speedups(lsdyna.drop(columns="tasks"), model)
    with pytest.raises(InputError, match="bad tasks of job SP-1"):
        speedups(lsdyna.assign(tasks="many"), model)


def test_a_run_that_sends_nothing_is_left_out_of_the_fit(lsdyna):
    model = fit_interconnect(lsdyna)
    assert model == fit_interconnect(lsdyna[lsdyna["messages"] > 0])
    with pytest.raises(InputError, match="no job sends a message"):
        fit_interconnect(lsdyna[lsdyna["messages"] == 0])


def test_infinite_speed_counts_bandwidth_too(lsdyna):
    table = on_hf2(lsdyna, Interconnect(3.6, 1.6))
    assert table["infinite speed"].round().tolist() == [11575, 5858, 3116, 1804]
    assert (table["infinite speed"] < table["zero latency"]).all()


@settings(deadline=None, max_examples=40)
@given(
    st.floats(0.01, 50),
    st.floats(0.01, 50),
    st.lists(st.floats(100, 1e5), min_size=3, max_size=6, unique=True),
    st.integers(2, 3),
)
def test_planted_constants_come_back(alpha, beta, sizes, n_nets):
    assume(max(sizes) / min(sizes) > 1.1)
    model = fit_interconnect(planted(alpha, beta, sizes, NETS[:n_nets]))
    assert model.alpha == pytest.approx(alpha, rel=1e-5, abs=1e-5)
    assert model.beta == pytest.approx(beta, rel=1e-5, abs=1e-5)


@settings(deadline=None, max_examples=25)
@given(st.floats(1, 1e4), st.floats(0.1, 10), st.integers(0, 2**32 - 1))
def test_neither_order_nor_computation_matter_and_time_scales(more, scale, seed):
    rng = np.random.default_rng(seed)
    jobs = planted(3, 2, [500, 2000, 9000], noise=rng.normal(0, 5, (3, 2)))
    model = fit_interconnect(jobs)
    shuffled = jobs.sample(frac=1, random_state=seed % 1000)
    assert fit_interconnect(shuffled).alpha == pytest.approx(model.alpha, rel=1e-7)
    longer = jobs.assign(elapsed=jobs["elapsed"] + more * (jobs["job"] == "job 1"))
    assert fit_interconnect(longer).beta == pytest.approx(model.beta, rel=1e-6, abs=1e-6)
    scaled = fit_interconnect(jobs.assign(elapsed=jobs["elapsed"] * scale))
    assert scaled.alpha == pytest.approx(model.alpha * scale, rel=1e-6)
    assert scaled.alpha_interval == pytest.approx(np.array(model.alpha_interval) * scale, rel=1e-6)


def test_intervals_hold_the_truth_as_often_as_they_say():
    rng = np.random.default_rng(1)
    hits = np.zeros(2)
    n = 200
    for _ in range(n):
        noise = rng.normal(0, 3, (5, 2))
        model = fit_interconnect(planted(3, 2, [500, 1000, 4000, 9000, 20000], noise=noise), 0.9)
        hits[0] += model.alpha_interval[0] <= 3 <= model.alpha_interval[1]
        hits[1] += model.beta_interval[0] <= 2 <= model.beta_interval[1]
    # Three standard deviations of the count.
    assert np.abs(hits / n - 0.9).max() < 3 * math.sqrt(0.9 * 0.1 / n)


def test_repeated_runs_narrow_the_intervals():
    rng = np.random.default_rng(2)
    sizes = [500, 2000, 9000]
    parts = [planted(3, 2, sizes, noise=rng.normal(0, 5, (3, 2))) for _ in range(20)]
    one, many = fit_interconnect(parts[0]), fit_interconnect(pd.concat(parts))
    assert np.ptp(many.alpha_interval) < np.ptp(one.alpha_interval)
    assert many.n_jobs == 3


@settings(deadline=None, max_examples=25)
@given(st.floats(0.1, 10), st.floats(0.1, 10))
def test_what_if_is_linear_in_latency_and_keeps_what_stays(alpha, beta):
    jobs = planted(alpha, beta, [500, 9000])
    model = Interconnect(alpha, beta)
    table = what_if(
        jobs, model, [*SAME, Scenario("0", latency_factor=0), Scenario("half", latency_factor=0.5)]
    )
    assert table["same"].tolist() == pytest.approx(table["measured"].tolist())
    middle = (table["0"] + table["measured"]) / 2
    assert table["half"].tolist() == pytest.approx(middle.tolist())
    # From either run, the model forecasts the other.
    other = what_if(jobs, model, [Scenario("fast", latency=20e-6, bandwidth=2.5e8)])
    measured = jobs.set_index(["job", "interconnect"])["elapsed"]
    for row in other.itertuples(index=False):
        assert row.fast == pytest.approx(measured[row.job, "fast"])


SAME = [Scenario("same")]


def test_parts_add_up():
    jobs = planted(3, 2, [500, 9000])
    times = communication_times(jobs, Interconnect(3, 2))
    assert (times["communication"] + times["computation"]).tolist() == jobs["elapsed"].tolist()
    assert times["computation"].tolist() == pytest.approx([5000, 5000, 5100, 5100])
    assert times["latency_time"][0] == pytest.approx(1e6 * 3 * 40e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda j: j.iloc[:3], "job job 1 has no run to compare with: found runs on slow only"),
        (lambda j: j.drop(columns="latency"), "expected latency"),
        (lambda j: j.iloc[:0], "is empty"),
        (lambda j: j.assign(elapsed=np.nan), "bad elapsed of job job 0: found nan"),
        (lambda j: j.assign(elapsed=-1.0), "found -1.0, expected a finite number, above 0"),
        (lambda j: j.assign(bandwidth=0.0), "bad bandwidth"),
        (lambda j: j.assign(latency=np.inf), "bad latency"),
        (lambda j: j.assign(messages="many"), "bad messages of job job 0: found many"),
        (lambda j: j.assign(job=pd.array([pd.NA] * 4, "string")), "bad job of row 0: found <NA>"),
        (lambda j: j.assign(job=None), "bad job of row 0: found nothing, expected a name"),
        (lambda j: j.assign(interconnect="same"), "same has more than one latency"),
        (lambda j: j.assign(messages=1e300), "too large"),
        (lambda j: j.assign(messages=1e308, message_bytes=1e308), "too large"),
        (lambda j: j.assign(elapsed=[1e300, 1, 2, 3]), "too large"),
        (lambda j: j.assign(latency=1e-6), "do not determine the cost of latency"),
        (lambda j: j.assign(bandwidth=1e9), "do not determine the cost of bandwidth"),
        (lambda j: j.assign(messages=0.0), "no job sends a message"),
        (lambda j: j.assign(message_bytes=0.0), "do not determine the cost of bandwidth"),
        (lambda j: j.assign(message_bytes=700.0), "cannot be separated"),
        (lambda j: j.assign(messages=range(1, 5)), "job job 0: messages differ"),
        (lambda j: pd.concat([j, j], axis=1), "each column once"),
    ],
)
def test_wrong_runs(change, message):
    with pytest.raises(InputError, match=message):
        fit_interconnect(change(planted(3, 2, [500, 9000])))


def test_too_few_runs_leave_no_intervals():
    with pytest.warns(ScalingWarning, match="too few for intervals"):
        model = fit_interconnect(planted(3, 2, [500, 9000]))
    assert model.alpha == pytest.approx(3)
    assert np.isnan(model.alpha_interval).all()
    # Three runs of a single job tell both constants, and no more.
    nets = [*NETS[:1], ("middle", 30e-6, 2e8), ("fast", 20e-6, 2e8)]
    with pytest.warns(ScalingWarning, match="3 runs of 1 job are too few"):
        assert fit_interconnect(planted(3, 2, [2000], nets)).alpha == pytest.approx(3)


def test_a_negative_constant_is_told():
    with pytest.warns(ScalingWarning, match="beta is negative"):
        model = fit_interconnect(planted(3, -2, [500, 2000, 9000]))
    assert model.beta == pytest.approx(-2)
    with pytest.warns(ScalingWarning, match=r"alpha is negative \(-3\): a longer latency"):
        Interconnect(-3, 1)


def test_more_communication_than_time_is_told():
    jobs = planted(3, 2, [500, 9000])
    with pytest.warns(ScalingWarning, match="4 of 4 runs would .* run is job job 0 on slow: 4e"):
        communication_times(jobs, Interconnect(1e4, 2))
    jobs.loc[1:, "messages"] = 0.0
    with pytest.warns(ScalingWarning, match="1 of 4 runs"):
        what_if(jobs, Interconnect(1e4, 2))


@pytest.mark.parametrize("level", [0, 1, math.nan, -3])
def test_wrong_level(level):
    with pytest.raises(InputError, match="bad level"):
        fit_interconnect(planted(3, 2, [500, 9000]), level)


@pytest.mark.parametrize(
    "options",
    [
        {"latency": -1e-6},
        {"latency": math.nan},
        {"latency": math.inf},
        {"latency": "1e-6"},
        {"latency_factor": -1.0},
        {"latency_factor": math.inf},
        {"latency_factor": "2"},
        {"bandwidth": 0.0},
        {"bandwidth": math.nan},
        {"bandwidth": "1e9"},
        {"bandwidth_factor": -2.0},
        {"bandwidth_factor": math.nan},
        {"bandwidth_factor": [2.0]},
    ],
)
def test_wrong_scenarios(options):
    with pytest.raises(InputError, match=rf"scenario x: bad {next(iter(options))}"):
        Scenario("x", **options)


def test_scenarios_need_names_of_their_own():
    with pytest.raises(InputError, match="different names"):
        what_if(planted(3, 2, [500, 9000]), Interconnect(3, 2), SAME * 2)


def test_constants_must_be_numbers_and_bandwidths_above_0():
    with pytest.raises(InputError, match="bad beta"):
        Interconnect(3, math.nan)
    with pytest.raises(InputError, match="bad bandwidth"):
        Interconnect(3.6, 1.6).communication(1, 1, 1e-6, 0)


def test_columns_in_any_order_comments_and_more(tmp_path):
    path = tmp_path / "jobs.csv"
    columns = [*reversed(JOB_COLUMNS), "note"]
    path.write_text(
        "\ufeff# runs\n\n" + ", ".join(columns) + '\n900,2000,1e6,112e6,43e-6,slow,a,"x, y"\n',
        encoding="utf-8",
    )
    jobs = read_jobs(path)
    assert jobs.loc[0, "latency"] == 43e-6
    assert jobs.loc[0, "note"] == "x, y"


@pytest.mark.parametrize(
    ("column", "unit", "factor"),
    [("bandwidth", "GB/s", 1e9), ("bandwidth", "Gbit/s", 1e9 / 8), ("latency", "us", 1e-6)],
)
def test_units_are_asked_for(tmp_path, column, unit, factor):
    path = tmp_path / "jobs.csv"
    jobs = pd.read_csv(io.StringIO(RUNS))
    jobs.assign(**{column: jobs[column] / factor}).to_csv(path, index=False)
    with pytest.raises(InputError, match=f"jobs.csv:2: this {column} does not look like"):
        read_jobs(path)
    found = read_jobs(path, {column: unit})
    assert found[column].tolist() == pytest.approx(jobs[column].tolist())
