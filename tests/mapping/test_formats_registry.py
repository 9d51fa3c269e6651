"""The registry: every example is recognised as itself and nothing else."""

import pytest
from format_examples import example_bytes

from tools.formats_page import PARTS
from toruscast.errors import InputError
from toruscast.mapping.formats.registry import dialect_of, dialect_to_write, dialects, identify
from toruscast.mapping.formats.source import Source

EXAMPLES = {f"{d.holds}/{d.name}": d for d in dialects() if example_bytes(d)}


def write(folder, dialect):
    path = folder / "example"
    path.write_bytes(example_bytes(dialect))
    return path


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_recognised_as_itself_and_nothing_else(tmp_path, name):
    source = Source(write(tmp_path, EXAMPLES[name]))
    fits = [f"{other.holds}/{other.name}" for other in dialects() if other.recognise(source)]
    assert fits == [name]


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_damaged_at_its_end_is_recognised_still(tmp_path, name):
    data = example_bytes(EXAMPLES[name])
    if not data.isascii():
        pytest.skip("not text")
    (tmp_path / "example").write_bytes(data[: max(len(data) * 3 // 4, data.find(b"\n") + 1)])
    source = Source(tmp_path / "example")
    assert EXAMPLES[name].recognise(source) or len(data) < 100


def test_every_dialect_is_documented_and_named_once():
    for holds in PARTS:
        names = [dialect.name for dialect in dialects(holds)]
        assert len(set(names)) == len(names)
    for dialect in dialects():
        assert dialect.documentation.strip()
        assert dialect.read or dialect.write


def test_a_file_that_fits_two_is_refused_with_both_names(tmp_path):
    (tmp_path / "a").write_text("0 1 2\n1 0 1\n2 2 0\n")
    with pytest.raises(InputError, match=r"found edges .* and matrix .*--format"):
        identify(Source(tmp_path / "a"), "graph")
    assert identify(Source(tmp_path / "a"), "graph", "matrix").name == "matrix"


def test_another_kind_of_file_is_called_by_its_name(tmp_path):
    path = write(tmp_path, dialect_of("table", "mapping"))
    with pytest.raises(InputError, match=r"found a mapping \(table: .*expected a comm"):
        identify(Source(path), "graph")


def test_unknown_names():
    with pytest.raises(InputError, match="expected matrix-market"):
        dialect_of("matrixmarket", "graph")
    with pytest.raises(InputError, match="a format that is read, not written"):
        dialect_to_write("graph", "a.prof", "open-mpi")
