"""Communication graphs as .npz archives, SciPy's or our own."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from toruscast.errors import InputError
from toruscast.files import arrays_of_npz, most_unpacked

from ...comm_graph import CommGraph, sum_edges
from .. import opening
from ..dialect import Dialect
from ..opening import at_file
from ..source import Source
from .build import Array, GraphOptions
from .matrix import Entries, graph_of_columns, graph_of_matrix

_OURS = {"n_tasks", "src", "dst", "nbytes", "n_messages"}


def is_npz(source: Source) -> bool:
    """Whether the file is a zip archive, whose first member is a NumPy array."""
    return source.start.startswith(b"PK\x03\x04")


def read(source: Source, options: GraphOptions) -> CommGraph:
    """Return the graph of our own archive, of SciPy's, or of arrays that the caller names."""
    options.only(source.path, "columns")
    most = most_unpacked(source.path, opening.MAX_BYTES)
    arrays = arrays_of_npz(source.data, source.path, most)
    with at_file(source.path):
        if options.columns:
            return graph_of_columns(arrays, options, source)
        if {"format", "shape", "data"} <= arrays.keys():
            return graph_of_matrix(source, _sparse(source.path, arrays), options)
        if not arrays.keys() >= _OURS:
            raise InputError(
                "unknown arrays",
                found=", ".join(sorted(arrays)) or "none",
                expected=f"{', '.join(sorted(_OURS))}, or a SciPy sparse matrix, or "
                "--columns src=NAME,dst=NAME,nbytes=NAME",
            )
        grid = tuple(_whole(source.path, arrays, "grid").tolist()) if "grid" in arrays else ()
        n_tasks = options.agree(_single(source.path, arrays, "n_tasks"), source.path) or 0
        build = sum_edges if options.duplicates == "sum" else CommGraph
        columns = (arrays[key] for key in ("src", "dst", "nbytes", "n_messages"))
        return build(n_tasks, *columns, grid=grid or None, name=options.name)


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


def _sparse(path: str | os.PathLike[str], arrays: dict[str, Array]) -> Entries:
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


def _whole(path: str | os.PathLike[str], arrays: dict[str, Array], key: str) -> Array:
    """Return a one-dimensional array of whole numbers."""
    array = arrays[key]
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(f"bad {key}", file=path, found=array.dtype, expected="whole numbers")
    return array.astype(np.int64)


def _single(path: str | os.PathLike[str], arrays: dict[str, Array], key: str) -> int:
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
arrays `n_tasks`, `src`, `dst`, `nbytes`, `n_messages` and `grid` that toruscast writes, or others
that `--columns` names. Entries that stand twice need `--duplicates sum`. Nothing is unpickled.
""",
)
