"""Communication graphs as Parquet tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from toruscast.errors import InputError
from toruscast.validation import whole_array

from ...comm_graph import MAX_TASKS, CommGraph, sum_edges
from .._source import MAX_BYTES, at_file
from ..dialect import Dialect
from ..source import Source
from .options import GraphOptions
from .table import COLUMNS

FIELDS = ("src", "dst", "nbytes", "n_messages")


def is_parquet(source: Source) -> bool:
    """Whether the file starts as every Parquet file does."""
    return source.start.startswith(b"PAR1")


def read(source: Source, options: GraphOptions) -> CommGraph:
    """Return the graph of a table."""
    options.refuse_include(source.path)
    options.refuse_messages()
    try:
        values, told = _columns(source, options)
        n_tasks = options.n_tasks or int(told.get(b"n_tasks", b"0"))
        sizes = told.get(b"grid", b"").decode()
        grid = tuple(int(size) for size in sizes.split("x")) if sizes else None
    except InputError:
        raise
    except Exception as error:
        # Hostile bytes give errors of many kinds.
        found = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError("damaged Parquet file", file=source.path, found=found) from None
    with at_file(source.path):
        src, dst = (whole_array(values[name], name) for name in FIELDS[:2])
        if not n_tasks:
            n_tasks = min(int(max(src.max(initial=0), dst.max(initial=0))) + 1, MAX_TASKS)
        build = sum_edges if options.duplicates == "sum" else CommGraph
        messages = values.get("n_messages")
        return build(n_tasks, src, dst, values["nbytes"], messages, grid=grid, name=options.name)


def _columns(source: Source, options: GraphOptions) -> tuple[dict[str, Any], dict[bytes, bytes]]:
    import pyarrow as pa
    from pyarrow import parquet

    file = parquet.ParquetFile(pa.BufferReader(source.data))
    schema = file.schema_arrow
    if file.metadata.num_rows * 8 * len(schema.names) > MAX_BYTES * 8:
        raise InputError("table too large", file=source.path, found=file.metadata.num_rows)
    known = {alias: name for name, aliases in COLUMNS.items() for alias in aliases}
    theirs = {known.get(name.lower(), name): name for name in schema.names}
    if options.columns:
        theirs = dict(options.columns)
    missing = [n for n in FIELDS[:3] if theirs.get(n) not in schema.names]
    if missing:
        found = ", ".join(schema.names)
        raise InputError("missing columns", file=source.path, found=found, expected=missing[0])
    wanted = {name: theirs[name] for name in FIELDS if name in theirs}
    table = file.read(columns=list(wanted.values()))
    values = {}
    for name, column in wanted.items():
        array = table.column(column)
        if array.null_count:
            raise InputError("empty cell", file=source.path, found=column, expected="numbers")
        values[name] = np.asarray(array)
    return values, dict(schema.metadata or {})


def write(comm: CommGraph, path: Path) -> None:
    """Write the columns, with the number of tasks and the grid beside them."""
    import pyarrow as pa
    from pyarrow import parquet

    grid = "x".join(map(str, comm.grid or ()))
    table = pa.table({name: getattr(comm, name) for name in FIELDS})
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
