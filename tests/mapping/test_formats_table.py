"""The fast parser against its slow twin."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from number_cells import CELLS, outcome

from toruscast.errors import InputError
from toruscast.mapping.formats._rows import Column, _slow, read_table
from toruscast.mapping.formats.source import Text

KINDS = st.lists(st.booleans(), min_size=1, max_size=4)


@settings(max_examples=500, deadline=None)
@given(
    kinds=KINDS,
    rows=st.lists(st.lists(CELLS, min_size=1, max_size=4), min_size=1, max_size=4),
    separator=st.sampled_from([" ", ",", "\t", " , "]),
    max_rows=st.sampled_from([None, 1, 2]),
)
def test_fast_equals_slow(kinds, rows, separator, max_rows):
    columns = [Column(f"c{i}", whole=whole) for i, whole in enumerate(kinds)]
    rows = [(row * 4)[: len(kinds)] if len(row) > 1 else row for row in rows]
    text = Text("f", "\n".join(["skipped", *map(separator.join, rows)]).encode())
    first = next((line for number, line in text.lines() if number > 1), "")
    separator = "," if "," in first else None
    results = [
        outcome(lambda: _slow(text, columns, 1, separator, max_rows)),
        outcome(lambda: read_table(text, columns, 1, max_rows).columns),
    ]
    assert results[0] == results[1]


def test_fault_behind_many_good_lines():
    good = b"# x\n" + b"1 2\n" * 25000
    columns = [Column("a", whole=True), Column("b")]
    for bad, message in ((b"1 nan\n", "bad b: found nan"), (b"1\n", "wrong number of columns")):
        with pytest.raises(InputError, match=message) as caught:
            read_table(Text("f", good + bad + b"3 -1\n"), columns, 0)
        assert caught.value.line == 25002


def test_line_of_a_row():
    text = Text("f", b"head\n\n# no\n5\n % no\n6 # yes\n7\n")
    table = read_table(text, [Column("c", whole=True)], 1)
    assert table.columns[0].tolist() == [5, 6, 7]
    assert [table.line(row) for row in range(3)] == [4, 6, 7]
