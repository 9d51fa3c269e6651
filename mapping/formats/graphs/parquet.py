"""Communication graphs as Parquet tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast._slow import parquet
from toruscast._slow import pyarrow as pa
from toruscast.errors import InputError
from toruscast.files import check_claim
from toruscast.text import counted
from toruscast.validation import whole_array

from ...comm_graph import COLUMNS, MAX_TASKS, CommGraph
from ..dialect import Dialect
from ..source import Source, as_damaged, at_file
from .build import GraphOptions
from .edges import names_of

# Bytes that an edge takes at most while a graph is read and its features are computed.
_BYTES_AN_EDGE = 160


def is_parquet(source: Source) -> bool:
    """Whether the file starts as every Parquet file does."""
    return source.start.startswith(b"PAR1")


def read(source: Source, options: GraphOptions) -> CommGraph:
    """Return the graph of a table."""
    options.only(source.path, "columns")
    with as_damaged(source.path, "Parquet file"):
        values, told = _columns(source, options)
        count, grid = _tasks_and_grid(told)
        n_tasks = options.agree(count or None, source.path)
    with at_file(source.path):
        src, dst = (whole_array(values[name], name) for name in COLUMNS[:2])
        if not n_tasks:
            n_tasks = min(int(max(src.max(initial=0), dst.max(initial=0))) + 1, MAX_TASKS)
        return options.graph(
            n_tasks, src, dst, values["nbytes"], values.get("n_messages"), grid=grid
        )


def _columns(source: Source, options: GraphOptions) -> tuple[dict[str, Any], dict[bytes, bytes]]:
    file = parquet.ParquetFile(pa.BufferReader(source.data))
    schema = file.schema_arrow
    n_rows = file.metadata.num_rows
    check_claim(source.path, n_rows * _BYTES_AN_EDGE, counted(n_rows, "row"))
    wanted = names_of(schema.names, options.columns, source.path)
    table = file.read(columns=list(wanted.values()))
    values = {name: _numbers(table.column(theirs), theirs) for name, theirs in wanted.items()}
    return values, dict(schema.metadata or {})


def _numbers(column: Any, name: str) -> NDArray[Any]:
    if column.null_count:
        raise InputError("empty cell", found=name, expected="numbers")
    return np.asarray(column)


def _tasks_and_grid(metadata: Mapping[bytes, bytes] | None) -> tuple[int, tuple[int, ...] | None]:
    """Return the number of tasks that a table's metadata state, else 0, and their grid."""
    told = metadata or {}
    sizes = told.get(b"grid", b"").decode()
    grid = tuple(int(size) for size in sizes.split("x")) if sizes else None
    return int(told.get(b"n_tasks", b"0")), grid


def write(comm: CommGraph, path: Path) -> None:
    """Write the columns, with the number of tasks and the grid beside them."""
    grid = "x".join(map(str, comm.grid or ()))
    table = pa.table({name: getattr(comm, name) for name in COLUMNS})
    about = {"n_tasks": str(comm.n_tasks), "grid": grid}
    parquet.write_table(table.replace_schema_metadata(about), path)


DIALECT = Dialect(
    name="parquet",
    holds="graph",
    title="Parquet table of edges",
    recognise=is_parquet,
    read=read,
    write=write,
    suffixes=(".parquet",),
    documentation="""
Columns as in `table`, under the same names; `--columns` gives others.
""",
)
