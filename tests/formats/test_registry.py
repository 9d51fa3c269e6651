"""The registry: every example is recognised as itself and nothing else."""

import pytest
from format_examples import example_bytes

from tools.formats_page import PARTS
from toruscast.errors import InputError
from toruscast.formats.registry import dialect_to_write, dialects, find_dialect, match_dialects
from toruscast.formats.source import Source

EXAMPLES = {f"{d.holds}/{d.name}": d for d in dialects() if example_bytes(d)}


def write(folder, dialect):
    path = folder / "example"
    path.write_bytes(example_bytes(dialect))
    return path


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_recognised_as_itself_and_nothing_else(tmp_path, name):
    dialect = EXAMPLES[name]
    fits = match_dialects(Source(write(tmp_path, dialect)), dialect.holds)
    # The head of SST-macro's list may be a node.
    others = {"nodes"} if dialect.name == "sst-macro" else set()
    assert {fit.name for fit in fits} == {dialect.name} | others


def test_every_dialect_is_documented_and_named_once():
    for holds in PARTS:
        names = [dialect.name for dialect in dialects(holds)]
        assert len(set(names)) == len(names)
    for dialect in dialects():
        assert dialect.documentation.strip()
        assert dialect.read or dialect.write


def test_unknown_names():
    with pytest.raises(InputError, match="expected matrix-market"):
        find_dialect("matrixmarket", "graph")
    with pytest.raises(InputError, match="format is read-only"):
        dialect_to_write("graph", "a.prof", "open-mpi")
