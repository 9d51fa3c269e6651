"""Pieces that are parsed at once, against line by line."""

import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from number_cells import CELLS, outcome

from toruscast.errors import InputError
from toruscast.formats import source, tables
from toruscast.formats.source import TextFile
from toruscast.formats.tables import read_table


@settings(max_examples=200, deadline=None)
@given(
    kinds=st.lists(st.booleans(), min_size=1, max_size=4),
    rows=st.lists(st.lists(CELLS, min_size=1, max_size=4), min_size=1, max_size=5),
    separator=st.sampled_from([" ", ",", "\t", ";", " , ", "   "]),
    end=st.sampled_from(["\n", "\r\n", "\r", "\n\n  # a comment\n", " % \n "]),
    packed=st.booleans(),
    piece=st.sampled_from([7, 2**16]),
)
def test_pieces_equal_lines(tmp_path_factory, kinds, rows, separator, end, packed, piece):
    columns = [f"c{i}" for i in range(len(kinds))]
    floats = [name for name, whole in zip(columns, kinds, strict=True) if not whole]
    rows = [(row * 4)[: len(kinds)] if len(row) > 1 else row for row in rows]
    path = tmp_path_factory.getbasetemp() / "rows"
    data = end.join(["skipped", "# a comment", *map(separator.join, rows)]).encode()
    path.write_bytes(gzip.compress(data) if packed else data)
    mark = separator.strip() or None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "START", piece)
        patch.setattr(source, "_CHUNK_OF_LINES", piece)

        def read():
            text = TextFile(str(path), is_streamed=True)
            return read_table(text, columns, 1, mark, floats).columns.values()

        fast = outcome(read)
        patch.setattr(tables, "_parse_chunk", lambda *_: None)
        slow = outcome(read)
    if isinstance(slow, str):
        assert fast == slow
    else:
        assert [values for _, values in fast] == [values for _, values in slow]


def test_fault_behind_many_good_lines():
    good = b"# x\n" + b"1 2\n" * 25000
    for bad, message in ((b"1 nan\n", "bad b: found nan"), (b"1\n", "wrong number of columns")):
        with pytest.raises(InputError, match=message) as caught:
            read_table(TextFile("f", good + bad + b"3 -1\n"), ["a", "b"], floats=["b"])
        assert caught.value.line == 25002


def test_line_of_a_row():
    text = TextFile("f", b"head\n\n# no\n5\n % no\n6 # yes\n7\n")
    table = read_table(text, ["c"], 1)
    assert table["c"].tolist() == [5, 6, 7]
    assert [table.line(row) for row in range(3)] == [4, 6, 7]


@settings(max_examples=100, deadline=None)
@given(name=st.text("ab#%", min_size=1, max_size=6), mark=st.sampled_from("#%"))
def test_a_comment_begins_a_line_or_follows_a_blank(name, mark):
    word = f"n{name}"
    lines = f"{mark}{name}\n{word} {mark}{name}\n\t{mark}\n{word}\n"
    assert [line for _, line in TextFile("f", lines.encode()).lines()] == [word, word]
    table = read_table(TextFile("f", f"{word};1\n2;3 {mark}4\n".encode()), ["a", "b"], 1)
    assert table.columns["b"].tolist() == [3]
