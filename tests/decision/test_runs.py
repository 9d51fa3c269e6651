import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toruscast import InputError
from toruscast.decision.runs import Runs


def noisy(n, repeats, noise, seed=0):
    rng = np.random.default_rng(seed)
    true = np.linspace(1.0, 2.0, n)
    times = true[:, None] * np.exp(noise * rng.standard_normal((n, repeats)))
    return {f"m{i}": row.tolist() for i, row in enumerate(times)}


def test_a_file_a_dict_and_a_table_hold_the_same_runs(tmp_path):
    each = noisy(4, 3, 0.1)
    rows = [(name, time) for name, times in each.items() for time in times]
    long = tmp_path / "long.csv"
    long.write_text("mapping,time\n" + "".join(f"{name},{time!r}\n" for name, time in rows))
    wide = tmp_path / "wide.csv"
    lines = (f"{name},{','.join(map(repr, times))}\n" for name, times in each.items())
    wide.write_text("mapping,rep1,rep2,rep3\n" + "".join(lines))
    table = pd.DataFrame(rows, columns=["mapping", "time"])
    for times in (each, long, str(wide), table):
        runs = Runs.from_times(times)
        assert runs.names == tuple(each)
        assert runs.times.tolist() == pytest.approx([float(np.median(t)) for t in each.values()])
        assert runs.counts.tolist() == [3] * 4
    assert Runs.from_times(long).lines == tuple(range(2, 14))


@pytest.mark.parametrize("repeats", [2, 3, 8])
def test_noise_is_what_was_drawn(repeats):
    runs = Runs.from_times(noisy(400, repeats, 0.03))
    assert runs.noise == pytest.approx(0.03, rel=0.15)
    missed = np.log(runs.times / np.linspace(1, 2, 400))
    assert runs.errors.mean() == pytest.approx(missed.std(), rel=0.2)


def test_outliers_do_not_widen_the_noise():
    each = noisy(40, 5, 0.02)
    each["m7"][2] *= 3
    runs = Runs.from_times(each)
    assert np.flatnonzero(runs.is_outlier).tolist() == [37]
    assert runs.noise == pytest.approx(0.02, rel=0.2)


def test_without_repetitions_noise_is_not_known():
    runs = Runs.from_times({"a": 1.0, "b": 2.0, "c": [3.0]})
    assert np.isnan(runs.noise)
    assert np.isnan(runs.errors).all()
    assert runs.drift == 0
    assert not runs.is_outlier.any()


def test_drift_is_told_by_repeated_runs():
    rng = np.random.default_rng(1)
    sweeps = [(f"m{i}", 1 + i / 10) for _ in range(4) for i in range(12)]
    steady = [(name, time * np.exp(0.01 * rng.standard_normal())) for name, time in sweeps]
    grown = [(name, t * (1 + 0.2 * k / len(steady))) for k, (name, t) in enumerate(steady)]
    table = pd.DataFrame(steady, columns=["mapping", "time"])
    assert Runs.from_times(table).drift == 0
    table = pd.DataFrame(grown, columns=["mapping", "time"])
    assert Runs.from_times(table).drift == pytest.approx(0.2, rel=0.3)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ({}, "no times"),
        ({"a": 0.0}, "bad time of a: found 0.0, expected positive seconds"),
        ({"a": -1}, "bad time of a"),
        ({"a": [1.0, float("nan")]}, "bad time of a: found nan"),
        ({"a": "fast"}, "bad time of a"),
        ({"a": None}, "bad time of a: found None"),
        ([1.0, 2.0], "bad times: found list"),
        (pd.DataFrame({"name": ["a"], "time": [1.0]}), "bad table of times"),
        ({"a": 1.0, "b": 1.1, "c": 1200.0}, "are all times in one unit. c takes 1,091 times"),
    ],
)
def test_what_is_no_time_is_refused(times, message):
    with pytest.raises(InputError, match=message):
        Runs.from_times(times)


def test_the_line_of_another_unit_is_named(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a 1\nb 2\nc 3\nd 2100\n")
    with pytest.raises(InputError, match="one unit") as caught:
        Runs.from_times(path)
    assert (caught.value.file, caught.value.line) == (str(path), 4)


@given(st.lists(st.lists(st.floats(1, 50), min_size=1, max_size=6), min_size=1, max_size=8))
def test_times_are_medians_in_any_order(groups):
    each = {f"m{i}": times for i, times in enumerate(groups)}
    runs = Runs.from_times(each)
    assert runs.times.tolist() == pytest.approx([float(np.median(t)) for t in groups])
    names = tuple(reversed(each))
    turned = runs.take(names)
    assert turned.names == names
    assert turned.times.tolist() == runs.times[::-1].tolist()
    assert turned.counts.tolist() == runs.counts[::-1].tolist()
