"""Communication graphs as Parquet tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.files import check_claim
from toruscast.memory import available
from toruscast.validation import whole_array
from toruscast.wording import counted

from ...comm_graph import MAX_TASKS, CommGraph, sum_edges
from ..dialect import Dialect
from ..opening import at_file
from ..source import Source
from .build import AnyPath, GraphOptions
from .table import names_of

FIELDS = ("src", "dst", "nbytes", "n_messages")
# Bytes an edge at most while a graph is read and looked at (docs/guide/large-graphs.md).
HELD_BYTES = 160


def is_parquet(source: Source) -> bool:
    """Whether the file starts as every Parquet file does."""
    return source.start.startswith(b"PAR1")


def read(source: Source, options: GraphOptions) -> CommGraph:
    """Return the graph of a table."""
    options.only(source.path, "columns")
    with damage_told(source.path):
        values, told = _columns(source, options)
        n_tasks, grid = told_by(told)
        n_tasks = options.n_tasks or n_tasks
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
    n_rows = file.metadata.num_rows
    check_claim(source.path, n_rows * HELD_BYTES, counted(n_rows, "row"))
    check_memory(n_rows, source.path)
    wanted = names_of(schema.names, options.columns, source.path)
    table = file.read(columns=list(wanted.values()))
    values = {name: numbers(table.column(theirs), theirs) for name, theirs in wanted.items()}
    return values, dict(schema.metadata or {})


def check_memory(n_edges: int, path: AnyPath) -> None:
    """Raise unless a graph of so many edges can be held in the memory that is left."""
    if n_edges * HELD_BYTES > (left := available()):
        raise InputError(
            "graph too large for the memory that is left",
            file=path,
            found=f"{n_edges:,} edges, {n_edges * HELD_BYTES / 1e9:.3g} GB",
            expected=f"at most {left / 1e9:.3g} GB; 'toruscast features' reads it in pieces",
        )


def numbers(column: Any, name: str) -> NDArray[Any]:
    """Return a column, or a batch of one, as an array."""
    if column.null_count:
        raise InputError("empty cell", found=name, expected="numbers")
    return np.asarray(column)


def told_by(metadata: Mapping[bytes, bytes] | None) -> tuple[int, tuple[int, ...] | None]:
    """Return the number of tasks, 0 if it is not told, and their grid."""
    told = metadata or {}
    sizes = told.get(b"grid", b"").decode()
    grid = tuple(int(size) for size in sizes.split("x")) if sizes else None
    return int(told.get(b"n_tasks", b"0")), grid


@contextmanager
def damage_told(path: AnyPath) -> Iterator[None]:
    """Say of any error but ours that the file is damaged; name the file in ours."""
    with at_file(path):
        try:
            yield
        except (InputError, FileNotFoundError, PermissionError, MemoryError):
            raise
        except Exception as error:
            # Hostile bytes give errors of many kinds.
            found = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise InputError("damaged Parquet file", file=path, found=found) from None


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
Columns as in `table`, under the same names; `--columns` gives others. Tables of very many edges,
sorted by source, are [streamed](../guide/large-graphs.md) by `toruscast features`.
""",
)
