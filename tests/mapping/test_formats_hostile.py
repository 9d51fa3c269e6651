"""Whatever a file holds, reading it gives a graph, a mapping or one line on what is wrong."""

import gzip
import io
import os
import re
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from toruscast.errors import InputError
from toruscast.mapping import CommGraph, Torus
from toruscast.mapping.formats import read_comm, read_mapping, read_mappings, read_times, write_comm
from toruscast.mapping.formats import source as opening

pytestmark = pytest.mark.filterwarnings("ignore::toruscast.errors.InputWarning")
BIG = "9" * 5000
MTX = "%%MatrixMarket matrix coordinate real general\n"


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


def npz(**arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def csr(indices, indptr, data, shape, kind=b"csr"):
    return npz(
        format=np.array(kind),
        indices=np.array(indices),
        indptr=np.array(indptr),
        data=np.array(data),
        shape=np.array(shape),
    )


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


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ("", None, "empty file"),
        ("\n \n# only a comment\n", None, "file without data"),
        (b"0 1 5\n\0\0\1", None, "binary file"),
        ("0 1 5\n".encode("utf-16"), None, "UTF-16 text"),
        (b"0 1 5\n1 2 \xff\n", 2, "not UTF-8 text: found byte 0xff"),
        ("0 1 5\n1 2\n", 2, r"wrong number of columns: found 2: 1 2, expected 3 columns \(src"),
        ("0 1 5\n1 2 3 4\n", 2, "wrong number of columns: found 4"),
        ("0 1 5\n1,2,3\n", 2, "wrong number of columns"),
        ("0,1,5\n1,,3\n", 2, "bad dst: found , expected a whole number"),
        ("0 1\n1 2\n0 2\n", 1, "in a format that is not clear: found 0 1"),
        ("0 1 5\n-1 2 5\n", 2, "bad src: found -1, expected a whole number, 0 or more"),
        ("0 1 5\n1 2.5 5\n", 2, "bad dst: found 2.5"),
        ("0 1 5\n1 2 -5\n", 2, "bad nbytes: found -5, expected a number, 0 or more"),
        ("0 1 5\n\n1 2 nan\n", 3, "bad nbytes: found nan"),
        ("0 1 5\n1 2 inf\n", 2, "bad nbytes: found inf"),
        ("0 1 5\n1 2 1e999\n", 2, "bad nbytes: found 1e999"),
        ("0 1 5\n1 2 0x10\n", 2, "bad nbytes: found 0x10"),
        ("0 1 5\n1 2 1_000\n", 2, "bad nbytes: found 1_000"),
        ("0 1 5\n1 2 ٣\n", 2, "bad nbytes"),
        ("0 1 5 1\n1 2 5 -1\n", 2, "bad n_messages: found -1"),
        (f"0 1 5\n1 {BIG} 5\n", 2, "bad dst: found 999"),
        (f"0 1 5\n1 2 {BIG}\n", 2, "bad nbytes: found 999"),
        (f"{BIG}\n0 1 5\n", 1, "bad number of tasks: found 999"),
        ("1000000000000\n0 1 5\n", 1, "bad number of tasks: found 1000000000000, expected"),
        ("0 1 5\n3000000000 1 5\n", 2, "source out of range: found 3000000000"),
        ("0\n", None, "bad number of tasks: found 0"),
        ("-4\n0 1 5\n", 1, "bad number of tasks: found -4"),
        ("4\n0 1 5\n2 4 5\n", 3, "destination out of range: found 4, expected a task from 0 to 3"),
        ("3\n0 1 5\n# x\n0 1 6\n", 4, "edge stands twice: found 0 -> 1, also on line 2"),
        ("2 2 5\n1 1 5\n3 3 5\n1 1 6\n2 2 6\n", 4, "twice: found 1 -> 1, also on line 2"),
        ("0 1 5\n1 2 5\n1 ", 3, "wrong number of columns"),
        ("src,dst,hops\n0,1,5\n", 1, "bad column names: found src,dst,hops, expected src,dst"),
        ("src,dst,nbytes,hops\n0,1,5,2\n", 1, "bad column names"),
        ("src dst traffic\n0 1 5\n", 1, "bad column names: found src,dst,traffic"),
        ("src,dst,src,nbytes\n0,1,1,5\n", 1, "bad column names"),
        ("# n_tasks 99999999999\nsrc,dst,nbytes\n", 1, "bad n_tasks"),
        ("# n_tasks 4\n# grid 3x2\nsrc,dst,nbytes\n", None, "bad task grid"),
        ("# n_tasks four\n0 1 5\n", 1, "bad comment on the tasks: found # n_tasks four"),
        ("# n_task 8\n0 1 5\n", 1, "bad comment on the tasks"),
        ("# grid 2y2\n0 1 5\n", 1, "bad comment on the tasks"),
        ("# grid: 4 4 tasks\n0 1 5\n", 1, "bad comment on the tasks"),
        ("src,dst\n0,1\n", 1, "bad column names: found src,dst, expected src,dst,nbytes"),
        ("1 2 3 4 5\n", None, "matrix is not square: found 1 row, expected 5"),
        ("0 1 2 3 4\n" * 6, None, "matrix is not square: found more than 5 rows"),
        ("0 1 2 3 4\n" * 3 + "0 1 2 3\n", 4, "wrong number of columns: found 4"),
        ("0 1 2 3 4\n" * 4 + "0 1 2 -3 4\n", 5, "bad entry for task 3: found -3"),
        ("0 1 2 3 4\n" * 4 + "0 nan 2 -3 4\n", 5, "bad entry for task 1: found nan"),
        ("1 " * 20000 + "\n", 1, "dense matrix too large: found 20000 columns"),
        ("1 " * 9000 + "\n", None, "not square: found 1 row, expected 9000"),
        (MTX, None, "file without data"),
        ("%%MatrixMarket matrix array real general\n1 1\n", 1, "kind not supported"),
        (MTX + "2 2\n", 2, "bad Matrix Market sizes"),
        (MTX + "2 3 0\n", 2, "not square"),
        (MTX + "0 0 0\n", None, "bad number of tasks"),
        (MTX + "1000000000000 1000000000000 1\n1 1 1\n", 2, "bad number of tasks"),
        (MTX + f"2 2 {BIG}\n1 1 1\n", 2, "bad entry count"),
        (MTX + "2 2 1000000000000\n1 1 1\n", None, "entries: found 1, expected 10000"),
        (MTX + "2 2 1\n0 1 1\n", 3, "bad row: found 0"),
        (MTX + "2 2 1\n1 3 1\n", 3, "bad column: found 3, expected 1 to 2"),
        (MTX + "2 2 2\n1 1 1\n1 1 1\n", 4, "edge stands twice"),
        (gzip.compress(b"0 1 5\n" * 1000, mtime=0)[:-20], None, "truncated gzip file"),
        (
            gzip.compress(b"0 1 5\n", mtime=0)[:12] + b"garbage",
            None,
            "(damaged|truncated) gzip file",
        ),
        (b"\x1f\x8b\x08\x00 no gzip", None, "(damaged|truncated) gzip file"),
        (gzip.compress(b"", mtime=0), None, "empty file"),
        (b"PK\x03\x04 no archive", None, "damaged .npz file"),
        (npz(a=np.arange(3)), None, "unknown arrays"),
        (lying_npz(), None, "damaged .npz file: found array and header differ in size"),
        (pickled_npz(), None, "damaged .npz file: found arrays of objects are not read"),
        (csr([0, 1], [0, 1, 2], [1.0, 2], (2, 2), b"bsr"), None, "sparse format not supported"),
        (csr([0, 1], [0, 1], [1.0, 2], (2, 2)), None, "bad indptr"),
        (csr([0, 1], [0, 5, 2], [1.0, 2], (2, 2)), None, "bad indptr"),
        (csr([0, 1], [0, 1, 2], [1.0], (2, 2)), None, "arrays differ in length"),
        (csr([0, 7], [0, 1, 2], [1.0, 2], (2, 2)), None, "dst of edge 1 out of range: found 7"),
        (csr([0, -1], [0, 1, 2], [1.0, 2], (2, 2)), None, "out of range: found -1"),
        (csr([0, 1], [0, 1, 2], [1.0, np.nan], (2, 2)), None, "bad nbytes of edge 1: found nan"),
        (csr([0, 1], [0, 1, 2], ["a", "b"], (2, 2)), None, "bad data"),
        (csr([0, 1], [0, 1, 2], [1.0, 2], (2, 3)), None, "not square"),
        (csr([0, 1], [0, 1, 2], [1.0, 2], (10**12, 10**12)), None, "bad indptr"),
        (npz(n_tasks=4.5, src=[0], dst=[1], nbytes=[1], n_messages=[1]), None, "bad n_tasks"),
        (npz(n_tasks=10**12, src=[0], dst=[1], nbytes=[1], n_messages=[1]), None, "bad number"),
        (npz(n_tasks=4, src=[0, 0], dst=[1, 1], nbytes=[1, 2], n_messages=[1, 1]), None, "twice"),
        (npz(n_tasks=4, src=[[0]], dst=[1], nbytes=[1], n_messages=[1]), None, "bad src"),
    ],
)
def test_bad_graph(tmp_path, content, line, message):
    path = tmp_path / "graph.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    check_refused(read_comm, path, message, line)


BAD_MAPS = [
    ("", None, "empty file"),
    ("# nothing\n", None, "file without data"),
    (b"\x89PNG\0", None, "binary file"),
    (b"0 0 \xfe\n", 1, "not UTF-8"),
    ("0 0 0\n0 1\n", 2, "wrong number of columns"),
    ("0 0 0\n0 -1 0\n", 2, "bad coordinate 1: found -1"),
    ("0 0 0\n\n0 4 0\n", 3, "coordinate 1 out of range: found 4, expected 0 to 3"),
    ("0 0 0\n0 1 0\n0 0 0\n", 3, "place taken: found node 0, slot 0, also on line 1"),
    ("0 0 0\n0 1 2\n", 2, "slot out of range: found 2, expected 0 to 1"),
    (f"0 0 0\n0 1 {BIG}\n", 2, "bad slot: found 999"),
    ("0 0 0\n0 1 0.5\n", 2, "bad slot: found 0.5"),
    ("0 0 0\n0 1 nan\n", 2, "bad slot: found nan"),
    (
        "0 1 0 0\n0 2 0 0\n",
        1,
        r"columns of a mapping without names: found 4 columns: 0 1 0 0, expected 3",
    ),
    ("0\n1\n8\n", 3, "node out of range: found 8, expected 0 to 7"),
    ("1\n8\n2\n", 2, "0 to 7 .do the numbers start at 1"),
    ("0\n1\n1\n0\n1\n", 5, "node overfull: found task number 3 on node 1, expected at most 2"),
    ("0\n" * 17, 3, "node overfull"),
    ("0 1 2 8\n", 1, "bad node of task 3: found 8, expected a whole number, 0 to 7"),
    ("0 1 1 1\n", 1, "too many tasks on node 1: found 3, expected at most 2"),
    ("task,node\n0,1\n0,2\n", 3, "task stands twice: found task 0, also on line 2"),
    ("task,node\n0,1\n3,2\n", 3, "task 1 missing"),
    ("task,node\n1,1\n2,2\n", 2, "task 0 missing"),
    ("task,node,slot\n0,1,0\n1,1,0\n", 3, "place taken"),
    ("task,node\n", None, "mapping without a task"),
    ("task,core\n0,1\n", 1, "bad coordinate 0: found task"),
    ("scan\nx y n process_id(s)\n0 0 2 1\n", 3, "wrong number of tasks: found 1, expected 2"),
    ("scan\nx y n process_id(s)\n0 4 1 0\n", 3, "bad coordinate 1: found 4"),
    ("scan\nx y n process_id(s)\n0 3 1 0\n0 2 1 0\n", 4, "task stands twice"),
    ("scan\nx y n process_id(s)\n0 3 3 0 1 2\n", 3, "node overfull"),
    ("scan\nx y n process_id(s)\n0\n", 3, "line too short"),
    ("scan\nx y n process_id(s)\n", None, "mapping without a task"),
    ("one,0,1\ntwo,1,9\n", 2, "bad node of task 1: found 9"),
    ("one,0,1\ntwo,1\n", 2, "mappings differ in their number of tasks: found 1, expected 2"),
    ("one,0,1\none,1,0\n", 2, "name of a mapping stands twice"),
    ("one,0,1\n,1,0\n", 2, "mapping without a name"),
    ("one,0,0,0\n", 1, "too many tasks on node 0"),
    ("hello world\n", 1, "columns of a mapping without names|bad coordinate 0: found hello"),
    (gzip.compress(b"0 0 0\n0 1 0\n" * 99, mtime=0)[:-9], None, "truncated gzip"),
]


@pytest.mark.parametrize(("content", "line", "message"), BAD_MAPS)
@pytest.mark.parametrize("reader", [read_mapping, read_mappings])
def test_bad_mapping(tmp_path, reader, content, line, message):
    path = tmp_path / "a.map"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    torus = Torus((2, 4))
    check_refused(lambda p: reader(p, torus, tasks_per_node=2), path, message, line)
    if reader is read_mappings:
        with pytest.raises(InputError, match=message) as caught:
            read_mappings(tmp_path, torus, tasks_per_node=2)
        assert caught.value.file == str(path)


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
        reader, tmp_path, "no monitoring files in folder|folder in place|no mappings in folder"
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
    check_refused(reader, tmp_path / "traced", "no monitoring files|no mappings|folder in place")

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


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("edges", {"n_tasks": 5}, "wrong number of tasks: found 4, expected 5"),
        ("edges", {"messages": "matrix"}, "message counts stand apart"),
        ("edges", {"include": "collective"}, "nothing to select"),
        ("edges", {"include": "everything"}, "bad include"),
        ("edges", {"format": "dense"}, "unknown format of a communication graph: found dense"),
        ("plain", {"n_tasks": 0}, "bad number of tasks: found 0"),
        ("plain", {"n_tasks": 2}, "destination out of range: found 2, expected a task from 0 to 1"),
        ("matrix", {"n_tasks": 4}, "wrong number of tasks: found 5, expected 4"),
        ("matrix", {"messages": "none"}, "no such file"),
        ("matrix", {"messages": "sparse.npz"}, "matrices differ in size: found 3, expected 5"),
        ("own.npz", {"messages": "sparse.npz"}, "message counts stand apart"),
        ("own.npz", {"n_tasks": 3}, "wrong number of tasks: found 2, expected 3"),
        ("own.npz", {"include": "collective"}, "nothing to select"),
    ],
)
def test_arguments(tmp_path, name, options, message):
    (tmp_path / "edges").write_text("4\n0 1 5\n")
    (tmp_path / "plain").write_text("0 2 5\n" if options.get("n_tasks") else "src,dst,nbytes\n")
    (tmp_path / "matrix").write_text("0,1,1,1,1\n" * 5)
    sparse.save_npz(tmp_path / "sparse.npz", sparse.eye_array(3, format="csr"))
    write_comm(CommGraph(2, [0], [1], [5]), tmp_path / "own.npz")
    if "messages" in options:
        options = options | {"messages": tmp_path / options["messages"]}
    with pytest.raises(InputError, match=message):
        read_comm(tmp_path / name, **options)


VALID = [
    b"4\n0 1 100 2\n1 2 50.5 1\n2 0 0 0\n",
    b"# n_tasks 4\nsrc,dst,nbytes\n0,1,100\n1,2,50\n",
    b"0,1,2,3,4\n" * 5,
    (MTX + "3 3 2\n1 2 5\n3 3 1\n").encode(),
    b"# POINT TO POINT\nE\t0\t1\t100 bytes\t4 msgs sent\t1,2,1\n# OSC\n# COLLECTIVES\n"
    b"D\tW\tprocs: 0,1\nA2A\t0\t0 bytes\t0 msgs sent\n# POINT TO POINT\n# OSC\n# COLLECTIVES\n",
    gzip.compress(b"0 1 5\n1 2 5\n", mtime=0),
    csr([0, 1], [0, 1, 2], [1.0, 2], (2, 2)),
    npz(n_tasks=4, src=[0, 1], dst=[1, 2], nbytes=[1, 2], n_messages=[1, 1]),
    b"0 0 0\n0 1 0\n1 3 1\n",
    b"task,node,slot\n0,1,0\n1,1,1\n",
    b"scan\nx y n process_id(s)\n0 0 2 0 2\n1 3 1 1\n",
    b"one,0,1\ntwo,1,7\n",
]


@st.composite
def damaged(draw):
    """A valid file with some bytes changed, cut or put in."""
    data = bytearray(draw(st.sampled_from(VALID)))
    pieces = st.one_of(
        st.binary(max_size=3), st.sampled_from([b"-", b",", b" ", b"\n", b"9" * 400, b"nan", b"#"])
    )
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        data[start : start + draw(st.integers(0, 4))] = draw(pieces)
    return bytes(data)


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.binary(max_size=50), damaged()))
def test_damage_gives_one_clear_line(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "damaged.txt"
    path.write_bytes(data)
    for reader in READERS.values():
        message = ""
        try:
            reader(path)
        except InputError as error:
            message = str(error)
        assert re.fullmatch(f"({re.escape(str(path))}:[^\n\r]+)?", message)


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ("", None, "empty file"),
        ("# nothing\n", None, "file without data"),
        ("mapping,time\n", None, "file without data"),
        ("a 1\nb 0\n", 2, "bad time: found 0, expected positive seconds"),
        ("a nan\n", 1, "bad time: found nan"),
        ("a 1e999\n", 1, "bad time: found 1e999"),
        ("a 12us\n", 1, "bad time: found 12us"),
        ("name,seconds\na,1\n", 1, "bad time: found seconds"),
        ("a 1 2\n", 1, "wrong number of columns: found 3, expected mapping,time"),
        ("time,mapping,x\n1,a\n", 2, "wrong number of columns: found 2, expected time,mapping,x"),
    ],
)
def test_times_that_are_none_are_refused(tmp_path, content, line, message):
    path = tmp_path / "times.csv"
    path.write_text(content)
    with pytest.raises(InputError, match=message) as caught:
        read_times(path)
    assert caught.value.line == line
