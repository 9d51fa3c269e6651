"""Reading any file gives a graph, a mapping or a one-line error."""

import gzip
import io
import os
import zipfile

import numpy as np
import pytest

from toruscast.errors import InputError
from toruscast.formats import read_comm, read_mapping, read_mappings
from toruscast.formats import source as opening
from toruscast.mapping import Torus

pytestmark = pytest.mark.filterwarnings("ignore::toruscast.errors.InputWarning")


def check_refused(reader, path, message, line=None):
    """Reading ``path`` fails with one line that names it; the text of that line."""
    with pytest.raises(InputError, match=message) as caught:
        reader(path)
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 500 + len(os.fspath(path))
    assert os.fspath(path) in text
    assert caught.value.line == line
    return text


def lying_npz():
    """An archive whose array claims 10^12 elements."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)}
    )
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("data.npy", header.getvalue() + b"\0" * 64)
    return stream.getvalue()


def pickled_npz():
    stream = io.BytesIO()
    np.savez(stream, n_tasks=np.array([{"a": 1}], dtype=object))
    return stream.getvalue()


READERS = {
    "comm": read_comm,
    "mapping": lambda path: read_mapping(path, Torus((2, 4))),
    "mappings": lambda path: read_mappings(path, Torus((2, 4))),
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_bad_places(tmp_path, reader, monkeypatch):
    check_refused(reader, tmp_path / "missing", "no such file or folder")
    check_refused(reader, tmp_path / "missing" / "a.txt", "no such file or folder")
    check_refused(reader, tmp_path / ("x" * 300), "cannot be read: found File name too long")
    check_refused(
        reader, tmp_path, "no per-rank files in folder|folder in place|no mappings in folder"
    )
    check_refused(reader, os.devnull, "not a regular file")
    (tmp_path / "loop").symlink_to("loop")
    check_refused(reader, tmp_path / "loop", "Too many levels of symbolic links")
    (tmp_path / "file").write_text("0\n")
    check_refused(reader, tmp_path / "file" / "a.txt", "cannot be read: found Not a directory")
    with pytest.raises(InputError, match="bad file name"):
        reader(tmp_path / "nul\0")
    os.mkfifo(tmp_path / "pipe")
    check_refused(reader, tmp_path / "pipe", "not a regular file")
    (tmp_path / "traced").mkdir()
    os.mkfifo(tmp_path / "traced" / "rank-0.trace")
    check_refused(reader, tmp_path / "traced", "no per-rank files|no mappings|folder in place")

    def deny(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.open", deny)
    check_refused(reader, tmp_path / "file", "cannot be read: found Permission denied")


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@pytest.mark.parametrize("packed", [False, True])
def test_huge_files(tmp_path, reader, packed, monkeypatch):
    monkeypatch.setattr(opening, "MAX_BYTES", 1000)
    data = b"=?\n" * 334
    (tmp_path / "huge.txt").write_bytes(gzip.compress(data) if packed else data)
    check_refused(reader, tmp_path / "huge.txt", "file too large: expected at most 1000 bytes")


def test_huge_archive(tmp_path, monkeypatch):
    stream = io.BytesIO()
    np.savez_compressed(stream, a=np.zeros(10000))
    monkeypatch.setattr(opening, "MAX_BYTES", 1000)
    (tmp_path / "bomb.npz").write_bytes(stream.getvalue())
    check_refused(read_comm, tmp_path / "bomb.npz", "archive too large: found 80")


@pytest.mark.parametrize("content", [lying_npz, pickled_npz])
def test_archives_that_fill_the_memory_or_run_code(tmp_path, content):
    path = tmp_path / "graph.npz"
    path.write_bytes(content())
    check_refused(read_comm, path, "damaged .npz file")
