"""Communication graphs as .npz archives, SciPy's or our own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.files import arrays_of_npz, most_unpacked

from ...comm_graph import CommGraph
from .. import _source
from .._source import at_file
from ..dialect import Dialect
from ..source import Source
from .counts import Entries, matrix_graph
from .options import GraphOptions


def is_npz(source: Source) -> bool:
    """Whether the file is a zip archive, whose first member is a NumPy array."""
    return source.start.startswith(b"PK\x03\x04")


def read(source: Source, options: GraphOptions) -> CommGraph:
    """Return the graph of an archive."""
    options.refuse_include(source.path)
    options.refuse_columns(source.path)
    content = read_npz(source.path, source.data)
    if not isinstance(content, CommGraph):
        return matrix_graph(source, content, options)
    options.refuse_messages()
    if options.n_tasks not in (None, content.n_tasks):
        found, expected = content.n_tasks, options.n_tasks
        raise InputError("wrong number of tasks", file=source.path, found=found, expected=expected)
    return content.renamed(options.name)


def write(comm: CommGraph, path: Path) -> None:
    """Write the arrays n_tasks, src, dst, nbytes, n_messages and grid."""
    # To a name without the suffix, NumPy would add it.
    with path.open("wb") as file:
        np.savez_compressed(
            file,
            n_tasks=np.int64(comm.n_tasks),
            grid=np.array(comm.grid or (), dtype=np.int64),
            **{f: getattr(comm, f) for f in ("src", "dst", "nbytes", "n_messages")},
        )


def read_npz(path: str | os.PathLike[str], data: bytes) -> tuple[int, Entries] | CommGraph:
    """Return the graph of our own archive, or size and entries of SciPy's."""
    arrays = arrays_of_npz(data, path, most_unpacked(path, _source.MAX_BYTES))
    if {"n_tasks", "src", "dst", "nbytes", "n_messages"} <= arrays.keys():
        grid = tuple(_whole(path, arrays, "grid").tolist()) if "grid" in arrays else ()
        n_tasks = _single(path, arrays, "n_tasks")
        with at_file(path):
            return CommGraph(
                n_tasks,
                *(arrays[key] for key in ("src", "dst", "nbytes", "n_messages")),
                grid=grid or None,
            )
    if not {"format", "shape", "data"} <= arrays.keys():
        expected = "n_tasks, src, dst, nbytes, n_messages, or a SciPy sparse matrix"
        raise InputError("unknown arrays", file=path, found=sorted(arrays), expected=expected)
    return _sparse(path, arrays)


def _sparse(path: str | os.PathLike[str], arrays: dict[str, NDArray[Any]]) -> tuple[int, Entries]:
    """Size and entries of SciPy's coo, csr or csc."""
    word = arrays["format"].ravel()[:1].tolist()
    kind = word[0].decode(errors="replace") if word and isinstance(word[0], bytes) else str(*word)
    needed = {"coo": ("row", "col"), "csr": ("indices", "indptr"), "csc": ("indices", "indptr")}
    if kind not in needed or not set(needed[kind]) <= arrays.keys():
        raise InputError(
            "sparse format not supported",
            file=path,
            found=kind,
            expected="coo, csr or csc with all their arrays",
        )
    shape = _whole(path, arrays, "shape").tolist()
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] < 1:
        raise InputError("matrix is not square", file=path, found=shape)
    size, values = shape[0], np.asarray(arrays["data"])
    if values.dtype.kind not in "iufb" or values.ndim != 1:
        raise InputError("bad data", file=path, found=values.dtype, expected="numbers")
    first, second = (_whole(path, arrays, key) for key in needed[kind])
    if kind != "coo":
        bounds = second.size == size + 1 and second[0] == 0 and second[-1] == first.size
        if not bounds or (second[1:] < second[:-1]).any():
            raise InputError("damaged .npz file", file=path, found="bad indptr")
        first, second = np.repeat(np.arange(size), np.diff(second)), first
    if kind == "csc":
        first, second = second, first
    if not first.size == second.size == values.size:
        raise InputError("damaged .npz file", file=path, found="arrays differ in length")
    return size, (first, second, values.astype(np.float64))


def _whole(
    path: str | os.PathLike[str], arrays: dict[str, NDArray[Any]], key: str
) -> NDArray[np.int64]:
    """Return a one-dimensional array of whole numbers."""
    array = arrays[key]
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(f"bad {key}", file=path, found=array.dtype, expected="whole numbers")
    return array.astype(np.int64)


def _single(path: str | os.PathLike[str], arrays: dict[str, NDArray[Any]], key: str) -> int:
    array = arrays[key]
    if array.size != 1 or array.dtype.kind not in "iu":
        raise InputError(f"bad {key}", file=path, found=array.dtype, expected="one whole number")
    return int(array.ravel()[0])


DIALECT = Dialect(
    name="npz",
    holds="graph",
    title="NumPy archive: SciPy's sparse matrices, or ours",
    recognise=is_npz,
    read=read,
    write=write,
    suffixes=(".npz",),
    documentation="""
SciPy's sparse matrices of bytes (`scipy.sparse.save_npz`: coo, csr, csc; row = source), or the
arrays `n_tasks`, `src`, `dst`, `nbytes`, `n_messages` and `grid` that toruscast writes. Nothing is
unpickled.
""",
)
