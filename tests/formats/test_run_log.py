import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toruscast import InputError
from toruscast.formats import read_runs
from toruscast.formats.times import append_run, has_runs

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")))


@given(
    st.lists(
        st.tuples(NAMES.map(str.strip).filter(bool), st.floats(1e-9, 1e6)), min_size=1, max_size=5
    )
)
def test_what_is_added_is_read(tmp_path_factory, runs):
    path = tmp_path_factory.mktemp("log") / "runs.csv"
    for name, seconds in runs:
        before = path.read_bytes() if path.exists() else b""
        append_run(path, name, seconds)
        assert path.read_bytes().startswith(before)
    assert [(run.mapping, run.time) for run in read_runs(path)] == runs


@pytest.mark.parametrize("name", [" a", "a\nb", "a\rb", ""])
def test_a_name_that_no_line_can_hold_is_refused(tmp_path, name):
    path = tmp_path / "runs.csv"
    append_run(path, "a", 1.0)
    before = path.read_bytes()
    with pytest.raises(InputError, match="does not fit a line"):
        append_run(path, name, 1.0)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, "mapping,time\na,0.25\n"),
        ("", "mapping,time\na,0.25\n"),
        ("mapping,time\n", "mapping,time\na,0.25\n"),
        ("# ours\nmapping,time", "# ours\nmapping,time\na,0.25\n"),
        ("b 1.5\n", "b 1.5\na,0.25\n"),
        ("b,1.5", "b,1.5\na,0.25\n"),
        ("time_ms,who,mapping\n1500,me,b\n", "time_ms,who,mapping\n1500,me,b\n250.0,,a\n"),
        ("mapping,rep1,rep2\nb,1,2\n", "mapping,rep1,rep2\nb,1,2\na,0.25,\n"),
    ],
)
def test_a_run_goes_into_the_columns_of_the_file(tmp_path, before, after):
    path = tmp_path / "runs.csv"
    if before is not None:
        path.write_text(before)
    assert has_runs(path) == (before is not None and "b" in before.replace("mapping", ""))
    append_run(path, "a", 0.25)
    assert path.read_text() == after
    assert read_runs(path)[-1][:2] == ("a", 0.25)


def test_a_file_that_cannot_grow_stays_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "runs.csv"
    append_run(path, "a", 1.0)
    before = path.read_bytes()
    whole = os.write
    monkeypatch.setattr(os, "write", lambda target, data: whole(target, data[:3]))
    with pytest.raises(OSError, match="No space left"):
        append_run(path, "b", 1.0)
    assert path.read_bytes() == before
    packed = tmp_path / "runs.csv.gz"
    packed.write_bytes(b"\x1f\x8b" + before)
    with pytest.raises(InputError, match="cannot append"):
        append_run(packed, "b", 1.0)
