"""Numbers, shares and names as people read them."""

import re
from html import escape

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from source_files import MODULES

from toruscast.answers import svg
from toruscast.answers.table import Column, Table
from toruscast.text import (
    change,
    closest,
    counted,
    factor,
    large,
    nbytes,
    number,
    part_of,
    percent,
    printable,
    probability,
    rounded,
    seconds,
    shortened,
    shown_name,
    time_unit,
    with_minus,
)


@pytest.mark.parametrize(
    ("share", "how", "expected"),
    [
        (0.634, {}, "63 %"),
        (0.0, {}, "0 %"),
        (0.0049, {}, "< 1 %"),
        (0.005, {}, "< 1 %"),
        (0.0051, {}, "1 %"),
        (0.00051, {"decimals": 1}, "0.1 %"),
        (0.00049, {"decimals": 1}, "< 0.1 %"),
        (0.0, {"decimals": 1}, "0.0 %"),
        (-0.021, {"decimals": 1}, "-2.1 %"),
        (0.00634, {"digits": 2}, "0.63 %"),
        (0.997, {"digits": 2}, "> 99 %"),
        (0.9951, {}, "> 99 %"),
        (0.99949, {"decimals": 1}, "99.9 %"),
        (0.9996, {"decimals": 1}, "> 99.9 %"),
        (1.0, {"digits": 3}, "100 %"),
        (1.004, {}, "> 100 %"),
        (-0.997, {}, "< -99 %"),
        (-0.001, {}, "> -1 %"),
        (0.00004, {"digits": 2}, "< 0.01 %"),
        (12.34, {"digits": 2}, "1200 %"),
    ],
)
def test_shares(share, how, expected):
    assert percent(share, **how) == expected


def stated(text):
    """Return the least and the greatest share that a text allows."""
    bound, _, rest = text.rpartition("< ") if "<" in text else text.rpartition("> ")
    value = float(rest.removesuffix(" %")) / 100
    if not bound and text[0] not in "<>":
        return value, value
    return (-np.inf, value) if "<" in text else (value, np.inf)


@given(
    st.floats(-3, 3) | st.floats(0.98, 1.02) | st.floats(-0.02, 0.02),
    st.integers(0, 3),
    st.integers(0, 4),
)
def test_no_percentage_claims_more_than_its_number(share, decimals, digits):
    share = round(share, 12)
    for text in (percent(share, decimals, digits), change(share, decimals)):
        low, high = stated(text)
        if low == high:
            # Half a unit of the last place; only 0 and 1 are said to be so.
            unit = 10.0 ** -(decimals + 2)
            if digits and text == percent(share, decimals, digits):
                unit = abs(share) * 10.0 ** (1 - digits) + 1e-4
            assert abs(low - share) <= 0.5 * unit * (1 + 1e-6)
            assert (low == 0) == (share == 0)
            assert (abs(low) == 1) == (abs(share) == 1)
        else:
            assert low < share < high
    if 0 <= share <= 1:
        text = probability(share)
        assert share > 0.99 if "over" in text else "100" not in text


@pytest.mark.parametrize("kind", ["share", "change"])
def test_tables_and_charts_state_percentages_by_the_same_law(kind):
    for value in (0.9996, 0.0003, 1.0, 0.0):
        table = Table(pd.DataFrame({"a": [value]}), [Column("a", kind=kind)])
        expected = percent(value) if kind == "share" else change(value)
        assert table.cells(table.visible_columns[0]) == [(expected,)]
        assert escape(percent(value, digits=3)) in svg.draw_bars(
            ["a"], [("b", "best", [value])], 1, "%"
        )


def test_no_text_makes_a_percentage_by_hand():
    by_hand = re.compile(r":[-+,0-9.]*%}|\} %(?! (interval|of))")
    found = [(path.name, by_hand.search(path.read_text())) for path in MODULES]
    assert {name for name, match in found if match} == set()


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (0.91, "91 %"),
        (0.95, "95 %"),
        (0.99, "99 %"),
        (0.9901, "over 99 %"),
        (1.0, "over 99 %"),
        (0.9496, "95 %"),
        (0.29, "29 %"),
        (0.004, "< 1 %"),
    ],
)
def test_no_probability_is_told_as_certainty(share, expected):
    assert probability(share) == expected


def test_numbers_keep_their_digits():
    values = (1234.5, 1.0, 0.01234, 99.96, 0.0, float("nan"), 1e-9)
    shown = ["1234", "1.00", "0.0123", "100", "0.00", "nan", "1.00e-09"]
    assert [number(value) for value in values] == shown
    assert [rounded(value, 3) for value in (2.0, 0.12345, float("nan"))] == ["2", "0.123", "-"]
    assert [factor(ratio) for ratio in (1.0, 1500.0, 0.002)] == [
        "1/1 of",
        "1,500 times",
        "1/500 of",
    ]
    assert shortened("abcdefgh", 6) == "abc..."


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0"),
        (999, "999"),
        (999_400, "999,400"),
        (999_600, "1 million"),
        (4e6, "4 million"),
        (1.95e9, "1.95 billion"),
        (999.4e9, "999 billion"),
        (999.6e9, "1 trillion"),
        (2.5e15, "2500 trillion"),
    ],
)
def test_large_counts_have_no_exponent(count, words):
    assert large(count) == words


def test_a_part_of_nothing_is_none():
    assert part_of("packet-hops")(487_500_000, 1_950_000_000) == "25 % of 1.95 billion packet-hops"
    assert part_of("messages")(0, 0) == "0 % of 0 messages"


def test_amounts_have_the_unit_in_which_they_read_best():
    assert time_unit([2e-6, 8e-4]) == (1e-6, "us")
    assert (seconds(1.25e-5), seconds(0.0)) == ("12.5 us", "0 s")
    assert nbytes(36_710_538) == "36.7 MB"
    assert [counted(n, "task") for n in (1, 0, 2.5)] == ["1 task", "0 tasks", "2.5 tasks"]


def test_names_are_printable_and_not_too_long():
    assert printable("red\x1b[31m") == "red?[31m"
    assert (shown_name("identity"), len(shown_name("x" * 10_000))) == ("identity", 200)
    assert closest("identty", ["greedy", "identity", "random"]) == "identity"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-24 %", "\N{MINUS SIGN}24 %"),
        ("(0,2,4) -Z", "(0,2,4) \N{MINUS SIGN}Z"),
        ("(-0.003 to +0.090)", "(\N{MINUS SIGN}0.003 to +0.090)"),
        ("search-1-from-a-B", "search-1-from-a-B"),
        ("10-20 -n 40 --X 2^-1", "10-20 -n 40 --X 2^-1"),
    ],
)
def test_only_signs_become_minus_signs(text, expected):
    assert with_minus(text) == expected


def test_dots_of_predicted_times_are_hollow_and_short_names_keep_their_whole_one():
    name = "search-1-from-bisect-refined"
    rows = [svg.Row("a", 1.0, "best"), svg.Row(name, 2.0, predicted=True)]
    drawn = svg.draw_times(rows, 1.0, "s")
    assert re.findall(r'<circle [^>]*class="([^"]*)"', drawn) == ["best", "other hollow"]
    assert f"search-1-from-bis\u2026<title>{name}</title>" in drawn
