"""Reading and gathering measurements, good and bad."""

import json

import numpy as np
import pandas as pd
import pytest

from toruscast.errors import InputError
from toruscast.scaling import (
    Measurements,
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

JSON = '{"parameters": ["p"], "measurements": {"f": {"t": %s}}}'


LINE = '{"params": {"p": 1}, "value": %s}\n'


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
    lines[2] = "2;10;1,5"
    with pytest.raises(InputError, match=r":3: .*found 1,5, expected a number for value"):
        read_measurements(write("\n".join(lines).replace(";", separator)))


def test_csv_is_what_pandas_writes(tmp_path):
    rows = pd.DataFrame({"p": [2, 2, 4], "value": [0.1, 0.2, 1 / 3], "callpath": "main"})
    rows.to_csv(tmp_path / "rows.csv", index=False)
    (written,), (held,) = (
        read_measurements(tmp_path / "rows.csv"),
        from_rows(rows, ["p"], callpath="callpath"),
    )
    np.testing.assert_equal(written.values, held.values)
    rows.to_csv(tmp_path / "rows.csv")
    with pytest.raises(InputError, match=r"rows.csv:1: a column has no name: .*index=False"):
        read_measurements(tmp_path / "rows.csv")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("p,time\n2,1\n", "data.txt:1: is no table of measurements: found p,time, .*--value time"),
        ("value,metric\n2,a\n", "is no table of measurements"),
        ("p,value,Value\n2,1,1\n", "a column stands twice: found value"),
        ("p,p,value\n2,1,1\n", "a column stands twice: found p"),
        ("p,value\n2,1\n\n4,x\n", "data.txt:4: bad number: found x, expected a number for value"),
        ("p,value\n2,1\n4,\n", "data.txt:3: a row needs a value in each column: found 4,"),
        ("p,value\n2,1,3\n", "data.txt:2: a row needs a value in each column"),
        ('p,value\n"2,1\n', "bad line: found unexpected end of data"),
        ("p,value\n", "holds no measurements"),
        ("p,value\n-2,1\n", "data.txt:2: Negative values in data"),
        ("PARAMETER p,n\nPOINTS 1,2\n", "holds no measurements"),
        ("PARAMETER p\nPOINTS 2 4\nDATA 1\nDATA x\n", r"data.txt:4: bad number: found x"),
        ("PARAMETER p\nPOINTS 2\nDATA 1\nDATA 2\n", r"data.txt:4: more DATA lines than points"),
        ("PARAMETER p\nPOINTS 2\nDATA nan\n", "bad number"),
        ("POINTS 2\nDATA 1\n", "POINTS before PARAMETER"),
        ("PARAMETER p n\nPOINTS (2)\n", "one value a parameter"),
        ("PARAMETER p\nPOINTS (1 2)\n", "found 1 2, expected 1 number: p$"),
        (
            "PARAMETER p n\nPOINTS (1 1 (2 2) (4 4)\nDATA 1\n",
            ":2: bad POINTS: found 1 bracket not closed",
        ),
        ("PARAMETER p n\nPOINTS (1 1) 2 2\nDATA 1\n", ":2: bad POINTS: found 2 outside"),
        (
            "PARAMETER p\nPOINTS 2\nREGION a\nDATA 1\nREGION b\nDATA 1\nREGION a\nDATA 2\n",
            ":8: REGION a with METRIC time stands twice",
        ),
        (
            "PARAMETER p\nPOINTS 4 4 16\nDATA 1\nDATA 2\nDATA 3\n",
            ":2: a point stands twice: found 4, expected each once; repetitions stand side by side",
        ),
        ("PARAMETER p n\nPOINTS (1 2) (2 2)\nPOINTS (1,2)\n", ":3: a point stands twice: found 1"),
        ("PARAMETER\n", "PARAMETER without a value"),
        ("HELLO world\n", "unknown field"),
        ("DATA\n", "DATA without a value"),
        ("PARAMETER p\nPOINTS 2\n", "holds no measurements"),
        ("PARAMETER p\nPOINTS -2 4\nDATA 1\nDATA 2\n", "Negative values in data"),
        ("# nothing\n", "names no PARAMETER"),
        ("{", "is not JSON"),
        ("{}", "is no file of measurements"),
        ('{"parameters": ["p"], "measurements": {"f": 3}}', "layout"),
        ('{"parameters": ["p"], "measurements": [3]}', "layout"),
        (JSON % '[{"point": [1, 2], "values": [1]}]', "one value a parameter"),
        (JSON % '[{"point": [1], "values": [true]}]', "bad number"),
        (
            JSON % '[{"point": [1], "values": [null]}]',
            r"bad number: found null, expected a number for f \(t\)$",
        ),
        (JSON % '[{"point": [1], "value": [1]}]', r"found no key values for f \(t\)$"),
        (JSON % '[{"point": "1", "values": [1]}]', "layout"),
        (
            JSON.replace('["p"]', '["p"], "parameters": ["p"]') % "[]",
            "a key stands twice: found parameters",
        ),
        ('{"params": {"p": 1}, "value": 1}\n{"params": {"q": 1}, "value": 1}', "other parameters"),
        ('{"params": {"p": 1}, "value": 1}\n[]', "bad line"),
        ('{"params": "p", "value": 1}', ':1: bad line: .* expected an object such as {"params"'),
        ('{"params": [0], "value": 1}', "bad line"),
        ('{"params": {}, "value": 1}', "bad line"),
        ('{"params": {"p": 1}}', "bad line"),
        (
            '{"params": {"p": 1}, "value": 1, "callpath": null}',
            ":1: bad callpath: found None, expected text",
        ),
        (
            '{"params": {"p": 1}, "value": 1, "metric": ["a"]}',
            r":1: bad metric: found \['a'\], expected text",
        ),
        (LINE % 1 + LINE % ("9" * 400), ":2: bad number: found 999"),
        (LINE % 1 + LINE % ("9" * 5000), ":2: a number has too many digits"),
        (LINE % ("9" * 5000), "a number has too many digits"),
        (LINE % 1 + "[" * 100_000, ":2: is nested too deeply"),
        (JSON.replace('["p"]', '"pn"') % "[]", "found parameters 'pn', expected a list"),
        (JSON.replace('["p"]', "[]") % "[]", r"found parameters \[\], expected a list"),
        (JSON.replace('["p"]', "[0]") % "[]", r"found parameters \[0\], expected a list of names"),
        ("[1, 2]", "found a list in JSON, expected an object"),
    ],
)
def test_bad_files(write, text, message):
    with pytest.raises(InputError, match=message) as caught:
        read_measurements(write(text))
    assert "data.txt" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError):
        read_measurements(tmp_path / "absent.txt")
    with pytest.raises(InputError):
        read_measurements(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="UTF-16 text"):
        read_measurements(tmp_path / "binary")
    (tmp_path / "deep").write_text("{" + '"a":[' * 200_000)
    with pytest.raises(InputError):
        read_measurements(tmp_path / "deep")


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
    for wrong in (
        lambda: from_rows(rows, []),
        lambda: from_rows(rows, ["q"]),
        lambda: from_rows(rows, ["where"]),
        lambda: from_rows(rows.assign(value=np.nan), ["p"]),
    ):
        with pytest.raises(InputError):
            wrong()


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
    assert not any("off by more than" in note for notes in models.notes() for note in notes)


def test_wrong_names():
    with pytest.raises(InputError):
        Measurements(["p", "p"], [[1.0, 2.0]], [[[1.0]]])
    with pytest.raises(InputError):
        Measurements(["p"], [[1.0]], [[[1.0]]], callpaths=["a", "b"])


def test_wrong_places():
    models = fit_many(Measurements(["p"], [[1.0], [2.0], [4.0]], [[[1.0], [2.0], [4.0]]]))
    for wrong in ([1.0], [[1.0, 2.0]], [[-1.0]], [[np.nan]]):
        with pytest.raises(InputError):
            models.predict(wrong)


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


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        ({}, {}, "several values of metric would pass for repetitions.*metric='metric'"),
        ({"Metric": ["a", "b"] * 3}, {"metric": "metric"}, "of Metric .*metric='Metric'"),
        ({"metric": ["time", None] * 3}, {"metric": "metric"}, "column metric has empty cells"),
        ({"value": [1.0, float("nan")] * 3}, {"metric": "metric"}, "column value holds NaN"),
        ({"p": [1, -2] * 3}, {"metric": "metric"}, "Negative values in data for parameter p"),
        ({"value": [1 + 2j] * 6}, {"metric": "metric"}, "column value must hold numbers"),
        ({"p": [1j, 2j, 3j] * 2}, {"metric": "metric"}, "column p must hold numbers"),
        ({"p": [True, False] * 3}, {"metric": "metric"}, "column p must hold numbers: found bool"),
    ],
)
def test_tables_that_would_mislead(change, arguments, message):
    table = {"p": [1, 2, 4] * 2, "metric": ["time"] * 3 + ["bytes"] * 3, "value": [1.0] * 6}
    with pytest.raises(InputError, match=message):
        from_rows(pd.DataFrame(table | change), ["p"], **arguments)


def test_a_table_of_two_metrics_gives_two_paths():
    table = {"p": [1, 2, 4] * 2, "metric": ["time"] * 3 + ["bytes"] * 3, "value": [1.0] * 6}
    (data,) = from_rows(pd.DataFrame(table), ["p"], metric="metric")
    assert data.metrics == ("time", "bytes")


def test_fewer_lines_than_points(write):
    text = "PARAMETER p\nPOINTS 2 4 8\nREGION a\nDATA 1\nDATA 2\nREGION b\n" + "DATA 1\n" * 3
    with pytest.raises(InputError, match=r":3: REGION a .* lacks DATA lines: found 2, expected 3"):
        read_measurements(write(text))


def test_levels_of_an_index_are_columns():
    table = {"p": [1, 2, 4] * 2, "metric": ["time"] * 3 + ["bytes"] * 3, "value": [1.0] * 6}
    rows = pd.DataFrame(table).set_index(["metric", "p"])
    (data,) = from_rows(rows, ["p"], metric="metric")
    assert data.metrics == ("time", "bytes")
    assert data.points.ravel().tolist() == [1, 2, 4]
    with pytest.raises(InputError, match="several values of metric would pass"):
        from_rows(rows, ["p"])


def test_rows_of_call_paths_may_alternate():
    table = {"c": ["b", "a"] * 3, "p": [4, 4, 2, 2, 4, 4], "value": [1.0, 2, 3, 4, 5, 6]}
    (data,) = from_rows(pd.DataFrame(table), ["p"], callpath="c")
    assert data.callpaths == ("b", "a")
    values = [[[3, None], [1, 5]], [[4, None], [2, 6]]]
    np.testing.assert_array_equal(data.values, np.array(values, dtype=float))


@pytest.mark.parametrize("rows", [{"p": [1, 2], "value": [1, 2]}, [1, 2], None], ids=str)
def test_rows_that_are_no_table(rows):
    with pytest.raises(InputError, match="rows must be a DataFrame: found"):
        from_rows(rows, ["p"])


def test_a_table_with_a_column_twice():
    rows = pd.DataFrame([[1, 1, 1.0]], columns=["p", "p", "value"])
    with pytest.raises(InputError, match="each column once: found p twice"):
        from_rows(rows, ["p"])


@pytest.mark.parametrize("pair", [(30, 0), (-30, 0), (20, 2), (0, 11)])
def test_exponents_beyond_reason(pair):
    with pytest.raises(InputError, match=r"too large: found .+, expected -10 to 10$"):
        TermSpace.of([pair])


def test_pairs_that_are_used_up():
    pairs = ((i, 0) for i in (1, 2))
    assert TermSpace.of(pairs).n_terms == 2
    with pytest.raises(InputError, match=r"without a term: expected .* in a list"):
        TermSpace.of(pairs)


@pytest.mark.parametrize(
    ("parameters", "named", "message"),
    [
        ("pn", {}, r"must be a list of columns: found 'pn', expected \['pn'\]$"),
        ("p", {}, r"must be a list of columns: found 'p', expected \['p'\]$"),
        (["p", "value"], {}, "found value for two of them"),
        (["p", "p"], {}, "found p for two of them"),
        (["p"], {"callpath": "p"}, "found p for two of them"),
        (["p"], {"metric": "value"}, "found value for two of them"),
    ],
)
def test_columns_that_are_meant_for_two_things(parameters, named, message):
    rows = pd.DataFrame({"p": [1, 2, 4], "n": [1, 1, 2], "value": [1.0, 2.0, 3.0]})
    with pytest.raises(InputError, match=message):
        from_rows(rows, parameters, **named)


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


def test_a_table_without_rows():
    with pytest.raises(InputError, match="no rows"):
        from_rows(pd.DataFrame({"p": [], "value": []}, dtype=float), ["p"])
