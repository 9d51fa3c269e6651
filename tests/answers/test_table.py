"""Tables: the values for programs, and the same values in a terminal of any width."""

import csv
import io
import math

import pandas as pd
import pytest
from rich.console import Console

from toruscast.answers import terminal
from toruscast.answers.blocks import Answer, Headline
from toruscast.answers.html import render_page
from toruscast.answers.table import Column, Table, csv_text, records

FRAME = pd.DataFrame(
    {
        "rank": [1, 2, 3],
        "mapping": ["=cmd|' /C calc'!A0", "plain\x1b[31m", "c"],
        "time": [4.2e-6, 5.9e-6, math.nan],
        "low": [4.2e-6, 5e-6, math.nan],
        "high": [4.2e-6, 7e-6, math.nan],
        "p_best": [0.98, 0.02, 0.0],
        "bytes": [4096.0, 8192.0, 2e9],
        "routing": ["deterministic"] * 3,
    }
)
COLUMNS = [
    Column("rank", "#", "count"),
    Column("mapping", kind="name"),
    Column("time", kind="seconds", priority=0),
    Column("time", "vs default", "change", against=4.2e-6),
    Column("low", "90 % interval", "seconds", to="high", priority=2),
    Column("p_best", "P(best)", "share", priority=2),
    Column("bytes", "max link", "bytes", priority=3),
    Column("routing", priority=2),
]


def drawn(table, width):
    file = io.StringIO()
    console = Console(file=file, width=width, highlight=False, markup=False)
    terminal.print_answer(Answer(Headline("Head"), table=table), console)
    return file.getvalue()


def cells(table):
    return {
        table.heading(c): [" / ".join(cell) for cell in table.cells(c)]
        for c in table.visible_columns
    }


def test_numbers_have_one_unit_and_missing_ones_are_dashes():
    found = cells(Table(FRAME, COLUMNS))
    assert found["time, us"] == ["4.20", "5.90", "-"]
    assert found["vs default"] == ["0 %", "+40 %", "-"]
    assert found["90 % interval, us"] == ["", "5.00 to 7.00", ""]
    assert found["P(best)"] == ["98 %", "2 %", "0 %"]


def test_amounts_that_differ_widely_have_each_their_unit():
    assert cells(Table(FRAME, COLUMNS))["max link"] == ["4.10 kB", "8.19 kB", "2.00 GB"]


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("count", 12345, "12,345"),
        ("number", 12, "12"),
        ("number", 0.012345, "0.0123"),
        ("general", 1234567.0, "1.235e+06"),
        ("decimal", 0.98765, "0.988"),
        ("signed", 0.0123, "+0.012"),
        ("flag", False, ""),
        ("flag", True, "yes"),
        ("text", None, "-"),
        ("text", ("a", "b"), "a / b"),
        ("change", -0.123, "-12 %"),
        ("change", math.inf, "-"),
    ],
)
def test_every_kind_has_one_form(kind, value, text):
    table = Table(pd.DataFrame({"x": pd.Series([value], dtype=object)}), [Column("x", kind=kind)])
    assert cells(table) == {"x": [text]}


def test_a_cell_may_have_an_interval_below():
    frame = pd.DataFrame({"rcc": [0.9, 0.8], "low": [0.8, math.nan], "high": [0.95, math.nan]})
    below = Column("low", kind="decimal", digits=2, to="high")
    table = Table(frame, [Column("rcc", "RCC", "decimal", digits=2, below=below)])
    assert cells(table) == {"RCC": ["0.90 / (0.80 to 0.95)", "0.80"]}


def test_without_columns_all_of_the_frame_are_shown():
    frame = pd.DataFrame({"n": [1], "x": [0.5], "ok": [True], "name": ["a"]})
    assert [column.kind for column in Table(frame).visible_columns] == [
        "count",
        "general",
        "flag",
        "text",
    ]


def test_80_columns_leave_out_the_details():
    columns = [Column("mapping", kind="name"), Column("p_best"), Column("bytes", priority=4)]
    assert "bytes" in drawn(Table(FRAME, columns), 81)
    assert "bytes" not in drawn(Table(FRAME, columns), 80)


def test_a_narrow_terminal_keeps_the_name_and_drops_the_least_important():
    wide, narrow, tiny = (drawn(Table(FRAME, COLUMNS), width) for width in (120, 54, 20))
    assert "deterministic" in wide
    assert "no room" not in wide
    assert "(all: routing deterministic)" in narrow
    assert "(no room for: max link)" in narrow
    assert "P(best)" in narrow
    assert "calc" in tiny
    assert "4.20" in tiny
    assert "(no room for: #, vs default, 90 % interval, P(best), max link)" in " ".join(
        tiny.split()
    )
    assert "\x1b" not in wide + narrow + tiny


def test_lines_break_between_words_but_not_before_a_unit():
    text = "A link carries 58 GB/s in 3.71 us and waits 90 % of 1.25 ms"
    for width in range(12, 40):
        file = io.StringIO()
        console = Console(file=file, width=width, highlight=False, markup=False)
        terminal.print_answer(Answer(Headline(text), notes=[text]), console)
        lines = [line for line in file.getvalue().splitlines() if line]
        assert " ".join(lines) == f"{text} {text}"
        assert not any(line.startswith(("GB/s", "us", "% ", "ms")) for line in lines)
        columns = [Column("name", kind="name"), Column("text", priority=0)]
        table = Table(pd.DataFrame({"name": ["a"], "text": [text]}), columns)
        shown = drawn(table, width + 20)
        words = {word for word in shown.split() if not word.startswith("-")}
        assert words <= {*text.split(), "Head", "name", "text", "a"}


def test_rows_from_the_top_and_the_users():
    frame = pd.DataFrame({"mapping": [f"m{i}" for i in range(30)]})
    shown = drawn(Table(frame, [Column("mapping", kind="name")], best=0, yours=15, top=4), 80)
    names = [line.strip() for line in shown.splitlines() if line.startswith("m")][1:]
    assert names == ["m0", "m1", "m2", "m3", "m15"]
    assert "(25 of 30 rows are not shown)" in shown


def test_csv_has_every_value_and_nothing_that_a_spreadsheet_executes():
    rows = list(csv.DictReader(io.StringIO(csv_text(FRAME))))
    assert list(rows[0]) == list(FRAME)
    assert rows[0]["mapping"] == "'=cmd|' /C calc'!A0"
    assert rows[1]["mapping"] == "plain?[31m"
    assert float(rows[1]["high"]) == 7e-6
    for text in ("+1+1", "-2+3", "@SUM(1)", "\t=1"):
        assert csv_text(pd.DataFrame({"a": [text]})) == f"a\n'{text}\n"
        assert csv_text(pd.DataFrame({text: [1]})) == f"'{text}\n1\n"
    kept = pd.DataFrame({"a": ["-5.0", "a=b"], "b": [-1.0, 2.0]})
    assert csv_text(kept) == "a,b\n-5.0,-1.0\na=b,2.0\n"


def test_the_index_is_a_column_where_it_has_a_name():
    frame = FRAME.set_index("mapping")
    assert csv_text(frame) == csv_text(FRAME[["mapping", *frame.columns]])
    assert records(frame)[2]["mapping"] == "c"
    assert Table(frame).visible_columns[0].name == "mapping"


def test_a_page_and_a_notebook_have_the_same_cells():
    table = Table(FRAME, COLUMNS, title="All", best=0, yours=1, key="candidates")
    content = render_page(Answer(Headline("Head"), title="t", table=table))
    assert '<table id="candidates" data-tools="yes">' in content
    assert '<tr class="best">' in content
    for text in (
        ">90 % interval, us<",
        ">5.00 to 7.00<",
        ">+40\N{NO-BREAK SPACE}%<",
        ">=cmd|&#39; /C calc&#39;!A0<",
    ):
        assert text in content
    brief = table.to_html(2)
    assert brief.count("<tr>") == 3
    assert "<td>+40 %</td>" in brief
