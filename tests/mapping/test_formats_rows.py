"""The kernel that reads lines of numbers against the slow twin."""

import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from number_cells import CELLS, outcome

from toruscast.mapping.formats import _rows
from toruscast.mapping.formats._rows import Column, _slow
from toruscast.mapping.formats.source import Streamed, Text


@settings(max_examples=300, deadline=None)
@given(
    kinds=st.lists(st.booleans(), min_size=2, max_size=4),
    rows=st.lists(st.lists(CELLS, min_size=1, max_size=4), min_size=1, max_size=5),
    separator=st.sampled_from([" ", ",", "\t", ";"]),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    packed=st.booleans(),
)
def test_kernel_equals_slow(tmp_path_factory, kinds, rows, separator, end, packed):
    columns = [Column(f"c{i}", whole=whole) for i, whole in enumerate(kinds)]
    lines = ["skipped", "# a comment", *(separator.join((row * 4)[: len(kinds)]) for row in rows)]
    path = tmp_path_factory.getbasetemp() / "rows"
    data = end.join(lines).encode()
    path.write_bytes(gzip.compress(data) if packed else data)
    mark = None if separator in " \t" else separator
    plain = Text(str(path), "\n".join(lines).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_rows, "SHORT", 0)
        patch.setattr(_rows, "CHUNK", 7)
        streamed = Streamed(path)
        fast = outcome(lambda: _rows.read_rows(streamed, columns, 1, mark).columns)
    slow = outcome(lambda: _slow(plain, columns, 1, mark, None))
    if isinstance(slow, str):
        assert fast == slow
    else:
        assert [values for _, values in fast] == [values for _, values in slow]
