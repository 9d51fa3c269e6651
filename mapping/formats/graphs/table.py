"""Communication graphs as tables with named columns."""

from __future__ import annotations

from pathlib import Path

from ...comm_graph import CommGraph
from .._table import fields
from ..registry import Dialect
from ..source import Source
from .edges import rows_graph, stated
from .options import GraphOptions
from .writing import write_rows

COLUMNS = {
    "src": ("src", "source", "from"),
    "dst": ("dst", "dest", "destination", "target", "to"),
    "nbytes": ("nbytes", "bytes", "size", "weight"),
    "n_messages": ("n_messages", "messages", "msgs", "count"),
}


def is_table(source: Source) -> bool:
    """Whether the first line names columns, two of which are sender and receiver."""
    return not source.has_numbers and {"src", "dst"} <= set(_names(source.fields))


def read(source: Source, options: GraphOptions) -> CommGraph:
    """Return the graph of a table."""
    options.refuse_include(source.path)
    options.refuse_messages()
    text = source.text
    number, line = text.first_line()
    order = _names(fields(line))
    needed = {"src", "dst", "nbytes"}
    if len(set(order)) != len(order) or not needed <= set(order) <= COLUMNS.keys():
        raise text.fault("bad column names", number, line, "src,dst,nbytes[,n_messages]")
    return rows_graph(text, order, number, (*stated(text), options.n_tasks), options.name)


def write(comm: CommGraph, path: Path) -> None:
    """Write named columns below comments with the number of tasks and the task grid."""
    grid = "" if comm.grid is None else f"# grid {'x'.join(map(str, comm.grid))}\n"
    head = f"# n_tasks {comm.n_tasks}\n{grid}src,dst,nbytes,n_messages\n"
    write_rows(path, head, [comm.src, comm.dst, comm.nbytes, comm.n_messages], ",")


def _names(parts: list[str]) -> list[str]:
    """Our names of the columns; those that are not known as they stand."""
    known = {alias: column for column, aliases in COLUMNS.items() for alias in aliases}
    return [known.get(part.strip("\"'").lower(), part) for part in parts]


DIALECT = Dialect(
    name="table",
    holds="graph",
    title="edges below the names of their columns",
    recognise=is_table,
    read=read,
    write=write,
    suffixes=(".csv",),
    documentation="""
Like `edges`, but the columns have names and may come in any order. The names are `src` (or
`source`, `from`), `dst` (`dest`, `destination`, `target`, `to`), `nbytes` (`bytes`, `size`,
`weight`) and, if there is one, `n_messages` (`messages`, `msgs`, `count`).
""",
    example="# n_tasks 8\n# grid 4x2\nsrc,dst,nbytes,n_messages\n0,1,4096,2\n1,2,4096,2\n",
)
