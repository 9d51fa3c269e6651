"""Reading and gathering measurements, good and bad."""

import json

import numpy as np
import pandas as pd
import pytest

from toruscast.errors import InputError
from toruscast.scaling import (
    Measurements,
    ScalingWarning,
    TermSpace,
    fit_many,
    from_rows,
    read_measurements,
)

TEXT = """# two parameters
PARAMETER p
PARAMETER n

POINTS ( 2 10 ) ( 4 10 )
POINTS (2 20) (4 20)

METRIC time
REGION main
DATA 1 2
DATA 3
DATA 4
DATA 5
METRIC bytes
DATA 6
DATA 7
DATA 8
DATA 9
"""

NUMBERED = {
    "parameters": [{"id": 2, "name": "n"}, {"id": 1, "name": "p"}],
    "metrics": [{"id": 1, "name": "time"}],
    "callpaths": [{"id": 1, "name": "main"}],
    "coordinates": [
        {
            "id": k,
            "parameter_value_pairs": [
                {"parameter_id": 2, "parameter_value": 10},
                {"parameter_id": 1, "parameter_value": p},
            ],
        }
        for k, p in ((1, 2), (2, 4))
    ],
    "measurements": [
        {"metric_id": 1, "callpath_id": 1, "coordinate_id": c, "value": v}
        for c, v in ((1, 1.0), (1, 1.5), (2, 3.0))
    ],
}


@pytest.fixture
def write(tmp_path):
    def write(text, name="data.txt"):
        path = tmp_path / name
        path.write_text(text if isinstance(text, str) else json.dumps(text))
        return path

    return write


def test_text(write):
    (m,) = read_measurements(write(TEXT))
    assert m.parameters == ("p", "n")
    assert m.points.tolist() == [[2, 10], [2, 20], [4, 10], [4, 20]]
    assert m.callpaths == ("main", "main")
    assert m.metrics == ("time", "bytes")
    nan = np.nan
    np.testing.assert_equal(m.values[0], [[1, 2], [4, nan], [3, nan], [5, nan]])


def test_coordinates_in_brackets_of_their_own(write):
    (m,) = read_measurements(write("PARAMETER x y\nPOINTS ((1) (2)) ((3) (4))\nDATA 5 6\nDATA 7\n"))
    assert m.points.tolist() == [[1, 2], [3, 4]]
    assert m.values[0, 0].tolist() == [5, 6]


@pytest.mark.parametrize("points", ["1 2 4", "1,2,4", "(1) (2) (4)", "(1), (2),(4)", "1, 2, 4"])
def test_points_of_one_parameter(write, points):
    (m,) = read_measurements(write(f"PARAMETER p\nPOINTS {points}\nDATA 1\nDATA 2\nDATA 3\n"))
    assert m.points.tolist() == [[1], [2], [4]]


def test_json_by_call_path_with_different_points(write):
    rows = [{"point": [x], "values": [x, 2 * x]} for x in (2, 4, 8)]
    document = {"parameters": ["p"], "measurements": {"f": {"time": rows}, "g": {"time": rows[:2]}}}
    long, short = read_measurements(write(document))
    assert (long.callpaths, short.callpaths) == (("f",), ("g",))
    assert (long.values.shape, short.values.shape) == ((1, 3, 2), (1, 2, 2))


def test_json_lines(write):
    lines = [
        {"params": {"p": p, "n": 1}, "callpath": "f", "metric": "time", "value": p}
        for p in (4, 2, 4)
    ]
    (m,) = read_measurements(write("\n".join(map(json.dumps, lines))))
    assert m.points.tolist() == [[2, 1], [4, 1]]
    (single,) = read_measurements(write(json.dumps(lines[0]) + "\n"))
    assert single.values.tolist() == [[[4.0]]]


def test_unknown_keys_of_json_lines_are_named(write):
    lines = [{"params": {"p": p}, "value": p, "metirc": "flop"} for p in (2, 4)]
    path = write("\n".join(map(json.dumps, lines)))
    with pytest.warns(ScalingWarning, match=r"not read: key metirc \(2 times\)"):
        read_measurements(path)


def test_json_of_numbered_tables(write):
    # Parameters stand in the order of their numbers.
    (m,) = read_measurements(write(NUMBERED))
    assert m.parameters == ("p", "n")
    assert m.points.tolist() == [[2, 10], [4, 10]]
    assert (m.callpaths, m.metrics) == (("main",), ("time",))
    np.testing.assert_equal(m.values[0], [[1.0, 1.5], [3.0, np.nan]])


def test_lines_of_talpas(write):
    text = "".join(
        f'{{"parameters":{{"x":{x}}};"metric":"time";"callpath":"a;b";"value":{x}.5}}\n'
        for x in (2, 4, 2)
    )
    (found,) = read_measurements(write(text))
    assert (found.parameters, found.callpaths) == (("x",), ("a;b",))
    np.testing.assert_equal(found.values, [[[2.5, 2.5], [4.5, np.nan]]])


def test_repetitions_side_by_side(write):
    lines = "".join(f'{{"params": {{"p": {p}}}, "value": [{p}, 1]}}\n' for p in (2, 4, 8))
    assert read_measurements(write(lines))[0].values.tolist() == [[[2, 1], [4, 1], [8, 1]]]
    wide = write("nprocs,rep1,rep2\n8,15.5,15.25\n16,7.5,\n")
    for value in ("rep*", ["rep1", "rep2"]):
        (found,) = read_measurements(wide, value)
        assert found.parameters == ("nprocs",)
        np.testing.assert_equal(found.values, [[[15.5, 15.25], [7.5, np.nan]]])
    with pytest.raises(InputError, match=r"--value 'rep\*'"):
        read_measurements(wide)
    (found,) = read_measurements(write("p,seconds\n2,1\n"), "seconds")
    assert found.metrics == ("seconds",)


CSV = """# by a spreadsheet
Callpath,p,"n",Repetition,metric,value
"a, b",2,10,1,time,1
"a, b",2,10,2,time,2

"a, b",4,10,1,time,3
"a, b",2,10,1,bytes,6
"a, b",4,10,1,bytes,7
,,,,,
"""


def test_a_call_path_in_a_csv_may_look_like_a_comment(write):
    (m,) = read_measurements(write("# of a run\ncallpath,p,value\n#pragma,2,1\n#pragma,4,2\n"))
    assert m.callpaths == ("#pragma",)
    assert m.points.tolist() == [[2], [4]]


def test_csv(write):
    (m,) = read_measurements(write(CSV))
    assert m.parameters == ("p", "n")
    assert m.points.tolist() == [[2, 10], [4, 10]]
    assert (m.callpaths, m.metrics) == (("a, b", "a, b"), ("time", "bytes"))
    np.testing.assert_equal(m.values, [[[1, 2], [3, np.nan]], [[6, np.nan], [7, np.nan]]])
    (single,) = read_measurements(write("value, p\r\n1,2\r\n"))
    assert (single.parameters, single.values.tolist()) == (("p",), [[[1.0]]])
    assert (single.callpaths, single.metrics) == (("main",), ("time",))


@pytest.mark.parametrize("separator", [";", "\t"])
def test_csv_of_other_separators(write, separator):
    lines = ["# made by hand", "p;n;value", "2;10;1.5", "4;10;2"]
    content = "\n".join(lines)
    (found,) = read_measurements(write(content.replace(";", separator)))
    assert found.parameters == ("p", "n")
    assert found.points.tolist() == [[2, 10], [4, 10]]
    assert found.values.tolist() == [[[1.5], [2.0]]]


def test_csv_is_what_pandas_writes(tmp_path):
    rows = pd.DataFrame({"p": [2, 2, 4], "value": [0.1, 0.2, 1 / 3], "callpath": "main"})
    rows.to_csv(tmp_path / "rows.csv", index=False)
    (written,), (held,) = (
        read_measurements(tmp_path / "rows.csv"),
        from_rows(rows, ["p"], callpath="callpath"),
    )
    np.testing.assert_equal(written.values, held.values)


def test_tables_group_by_points():
    rows = pd.DataFrame(
        {
            "p": [2, 4, 2, 4, 2, 8],
            "where": list("ffgghh"),
            "what": ["time"] * 4 + ["bytes"] * 2,
            "value": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        }
    )
    first, second = from_rows(rows, ["p"], callpath="where", metric="what")
    assert first.callpaths == ("f", "g")
    assert second.metrics == ("bytes",)


@pytest.mark.parametrize(
    ("points", "values"),
    [
        ([[1.0], [2.0]], [[[1.0]]]),
        ([[1.0], [-2.0]], [[[1.0], [2.0]]]),
        ([[1.0], [np.nan]], [[[1.0], [2.0]]]),
        ([[1.0], [1.0]], [[[1.0], [2.0]]]),
        ([[1.0], [2.0]], [[[1.0], [np.inf]]]),
        ([[1.0], [2.0]], [[[1.0], [np.nan]]]),
        ([1.0, 2.0], [[[1.0], [2.0]]]),
        ([[1.0], [2.0]], [[[1j], [2.0]]]),
        ([[1.0], ["many"]], [[[1.0], [2.0]]]),
        ([[1.0], [2.0]], [[[10**400], [2.0]]]),
    ],
)
def test_wrong_measurements(points, values):
    with pytest.raises(InputError):
        Measurements(["p"], points, values)


@pytest.mark.parametrize("name", ["points", "values"])
def test_measurements_stay_as_they_were_checked(name):
    arrays = {"points": np.array([[1.0], [2.0]]), "values": np.array([[[1.0], [2.0]]])}
    data = Measurements(["p"], **arrays)
    before = getattr(data, name).copy()
    arrays[name][:] = 9
    assert (getattr(data, name) == before).all()
    with pytest.raises(ValueError, match="read-only"):
        getattr(data, name)[0] = 9
    # The caller's own may still be written to.
    assert arrays[name].flags.writeable


@pytest.mark.parametrize("size", [1e-51, 1e-161, 1e-170, 1e-308, 5e-324])
def test_values_too_small_to_square(size):
    points, growth = [[1.0], [2.0], [4.0]], np.array([1.0, 2.0, 4.0])[None, :, None]
    both = np.concatenate([growth, size / 4 * growth])
    with pytest.raises(InputError, match=r"too small to fit.*expected one of 1e-50"):
        Measurements(["p"], points, both if size > 1e-300 else size * (growth > 2))


@pytest.mark.parametrize("size", [1e-49, 1e-40, 1.0, 1e40])
def test_the_smallest_values_are_fitted_as_others_are(size):
    p = np.array([4.0, 8, 16, 32, 64])[:, None]
    values = np.stack([size * (1 + p), 0 * p])
    models = fit_many(Measurements(["p"], p, values))
    assert models.trusted.all()
    assert models.predict([[128.0]])[:, 0] == pytest.approx([129 * size, 0], rel=1e-9, abs=0)
    assert not any("error of the formula" in note for notes in models.notes() for note in notes)


def test_wrong_names():
    with pytest.raises(InputError):
        Measurements(["p", "p"], [[1.0, 2.0]], [[[1.0]]])
    with pytest.raises(InputError):
        Measurements(["p"], [[1.0]], [[[1.0]]], callpaths=["a", "b"])


def test_summary_of_real_measurements(shared_data):
    (m,) = read_measurements(shared_data / "extrap" / "relearn_2p.txt")
    assert (m.n_paths, m.points.shape, m.values.shape) == (14, (25, 2), (14, 25, 2))
    models = fit_many(m)
    summary = models.summary().set_index("callpath")
    growing = summary.loc["Initialization"]
    assert growing.adjusted_r2 > 0.99
    assert growing.smape < 2
    assert (models.predict(m.points) >= 0).all()


@pytest.mark.parametrize("name", ["lulesh_cpu_1p.json", "relearn_3p.json"])
def test_no_real_prediction_is_negative(shared_data, name):
    fitted = 0
    for m in read_measurements(shared_data / "extrap" / name):
        keep = [k for k in range(m.n_paths) if np.nanmin(m.values[k]) > 0]
        if not keep:
            continue
        part = Measurements(m.parameters, m.points, m.values[keep])
        assert (fit_many(part).predict(m.points) > 0).all()
        fitted += len(keep)
    assert fitted > 10


ROWS = {"p": [1, 2, 4] * 2, "metric": ["time"] * 3 + ["bytes"] * 3, "value": [1.0] * 6}
METRIC = {"metric": "metric"}


@pytest.mark.parametrize(
    ("rows", "parameters", "named", "found"),
    [
        (pd.DataFrame(ROWS), ["p"], {}, "time, bytes"),
        (pd.DataFrame(ROWS).set_index(["metric", "p"]), ["p"], {}, "time, bytes"),
        (pd.DataFrame(ROWS | {"Metric": ["a", "b"] * 3}), ["p"], METRIC, "a, b"),
        (pd.DataFrame(ROWS | {"metric": ["time", None] * 3}), ["p"], METRIC, "None"),
        (pd.DataFrame(ROWS | {"value": [1.0, np.nan] * 3}), ["p"], METRIC, "None"),
        (pd.DataFrame(ROWS | {"p": [1, -2] * 3}), ["p"], METRIC, "-2.0"),
        (pd.DataFrame(ROWS | {"value": [1 + 2j] * 6}), ["p"], METRIC, "complex128"),
        (pd.DataFrame(ROWS | {"p": [1j, 2j, 3j] * 2}), ["p"], METRIC, "complex128"),
        (pd.DataFrame(ROWS | {"p": [True, False] * 3}), ["p"], METRIC, "bool"),
        (pd.DataFrame(ROWS), "p", METRIC, "a DataFrame and 'p'"),
        (pd.DataFrame(ROWS), [], METRIC, "['p', 'metric', 'value']"),
        (pd.DataFrame(ROWS), ["q"], METRIC, "['p', 'metric', 'value']"),
        (pd.DataFrame(ROWS), ["p", "value"], METRIC, "value twice"),
        (pd.DataFrame(ROWS), ["p", "p"], METRIC, "p twice"),
        (pd.DataFrame(ROWS), ["p"], {"callpath": "p"}, "p twice"),
        (pd.DataFrame(ROWS), ["p"], {"metric": "value"}, "value twice"),
        (pd.DataFrame([[1, 1, 1.0]], columns=["p", "p", "value"]), ["p"], {}, "p twice"),
        (pd.DataFrame({"p": [], "value": []}, dtype=float), ["p"], {}, "None"),
        (ROWS, ["p"], {}, "a dict"),
        (None, ["p"], {}, "a NoneType"),
    ],
)
def test_tables_that_would_mislead(rows, parameters, named, found):
    with pytest.raises(InputError) as caught:
        from_rows(rows, parameters, **named)
    assert str(caught.value.found).startswith(found)


def test_a_table_of_two_metrics_gives_two_paths():
    (data,) = from_rows(pd.DataFrame(ROWS), ["p"], metric="metric")
    assert data.metrics == ("time", "bytes")


def test_levels_of_an_index_are_columns():
    rows = pd.DataFrame(ROWS).set_index(["metric", "p"])
    (data,) = from_rows(rows, ["p"], metric="metric")
    assert data.metrics == ("time", "bytes")
    assert data.points.ravel().tolist() == [1, 2, 4]


def test_rows_of_call_paths_may_alternate():
    table = {"c": ["b", "a"] * 3, "p": [4, 4, 2, 2, 4, 4], "value": [1.0, 2, 3, 4, 5, 6]}
    (data,) = from_rows(pd.DataFrame(table), ["p"], callpath="c")
    assert data.callpaths == ("b", "a")
    values = [[[3, None], [1, 5]], [[4, None], [2, 6]]]
    np.testing.assert_array_equal(data.values, np.array(values, dtype=float))


def test_pairs_that_are_used_up():
    pairs = ((i, 0) for i in (1, 2))
    assert TermSpace.from_exponents(pairs).n_terms == 2
    with pytest.raises(InputError, match=r"without a term: expected .* in a list"):
        TermSpace.from_exponents(pairs)


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"])
def test_only_a_line_feed_ends_a_line(tmp_path, character):
    name = f"a{character}b"
    lines = [{"params": {"p": p}, "callpath": name, "value": p} for p in (2, 4)]
    text = f"PARAMETER p\r\nPOINTS 2 4\r\nREGION {name}\r\nDATA 2\r\nDATA 4\r\n"
    as_lines = "\r\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
    path = tmp_path / "data.txt"
    for content in (as_lines, text) if character >= " " else (text,):
        path.write_bytes(content.encode())
        (m,) = read_measurements(path)
        assert m.callpaths == (name,)
        assert m.values[0, :, 0].tolist() == [2, 4]
