"""Communication graphs as tables with named columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from toruscast.errors import InputError

from ...comm_graph import CommGraph
from .._rows import read_rows
from .._table import NUMBER, Column, cells
from ..dialect import Dialect
from ..opening import Text
from ..source import Source
from .build import AnyPath, Array, GraphOptions, graph_of, write_rows
from .edges import ORDER, stated

COLUMNS = {
    "src": ("src", "source", "from", "sender", "rank_from", "from_rank", "src_rank", "source_rank"),
    "dst": (
        *("dst", "dest", "destination", "target", "to", "receiver"),
        *("rank_to", "to_rank", "dst_rank", "dest_rank", "target_rank"),
    ),
    "nbytes": ("nbytes", "bytes", "size", "weight", "volume", "msg_size", "message_size"),
    "n_messages": ("n_messages", "messages", "msgs", "count"),
}
# Columns that graph tools add and that say nothing about traffic.
BESIDE = {"id", "label", "timeset", "type"}


def is_table(source: Source) -> bool:
    """Whether the first line names columns, two of which are sender and receiver."""
    if not source.lines:
        return False
    names = cells(source.lines[0][1])[1]
    ends = {"src", "dst"} <= set(_names(names))
    return not any(NUMBER.fullmatch(name) for name in names) and ends


def _may_be_table(source: Source) -> bool:
    """Whether the first line may name columns in words that are not ours."""
    if not source.lines or source.start[:1] in (b"<", b"{", b"["):
        return False
    names = cells(source.lines[0][1])[1]
    rows = [cells(line)[1] for _, line in source.lines[1:3]]
    same = all(len(row) == len(names) and any(map(NUMBER.fullmatch, row)) for row in rows)
    words = all(name and not NUMBER.fullmatch(name) for name in names)
    return len(names) > 2 and bool(rows) and same and words


def read(source: Source, options: GraphOptions) -> CommGraph:
    """Return the graph of a table."""
    options.only(source.path, "columns")
    text = source.stream
    number, line = text.first_line()
    separator, names = cells(line)
    order = _chosen(text, number, names, options)
    columns = [None if name is None else Column(name, name in ORDER[:2]) for name in order]
    table = read_rows(text, columns, number, separator)
    kept = [name for name in order if name]
    values: dict[str, Array] = dict(zip(kept, table.columns, strict=True))
    return graph_of(table, values, stated(text), options)


def write(comm: CommGraph, path: Path) -> None:
    """Write named columns below comments with the number of tasks and the task grid."""
    grid = "" if comm.grid is None else f"# grid {'x'.join(map(str, comm.grid))}\n"
    head = f"# n_tasks {comm.n_tasks}\n{grid}src,dst,nbytes,n_messages\n"
    write_rows(path, head, [comm.src, comm.dst, comm.nbytes, comm.n_messages], ",")


def _names(parts: list[str]) -> list[str]:
    """Our names of the columns; those that are not known as they stand."""
    known = {alias: column for column, aliases in COLUMNS.items() for alias in aliases}
    return [known.get(part.lower().replace(" ", "_"), part) for part in parts]


def names_of(names: Sequence[str], chosen: Mapping[str, str], path: AnyPath) -> dict[str, str]:
    """Return a table's names of src, dst, nbytes and, where it is there, n_messages."""
    theirs = dict(chosen) or dict(zip(_names(list(names)), names, strict=True))
    if missing := [name for name in ORDER[:3] if theirs.get(name) not in names]:
        found = ", ".join(names)
        raise InputError("missing columns", file=path, found=found, expected=missing[0])
    return {name: theirs[name] for name in ORDER if name in theirs}


def _chosen(text: Text, number: int, names: list[str], options: GraphOptions) -> list[str | None]:
    """Our name of each column, None for those that are left out."""
    needed = set(ORDER[:3])
    if options.columns:
        missing = [name for name in options.columns.values() if names.count(name) != 1]
        if missing or not needed <= set(options.columns):
            found = missing[0] if missing else ",".join(options.columns)
            expected = f"src, dst and nbytes, each one of {', '.join(names)}"
            raise text.fault("no such columns", number, found, expected)
        ours = {theirs: name for name, theirs in options.columns.items()}
        return [ours.get(name) for name in names]
    order = _names(names)
    rest = {name for name in order if name.lower() not in BESIDE}
    if len(set(order)) != len(order) or not needed <= rest <= COLUMNS.keys():
        expected = "src,dst,nbytes[,n_messages], or --columns src=NAME,dst=NAME,nbytes=NAME"
        raise text.fault("bad column names", number, ",".join(names), expected)
    return [name if name in ORDER else None for name in order]


DIALECT = Dialect(
    name="table",
    holds="graph",
    title="edges below the names of their columns",
    recognise=is_table,
    read=read,
    write=write,
    near=_may_be_table,
    suffixes=(".csv",),
    documentation="""
Like `edges`, but the columns have names and may come in any order. Commas, semicolons, tabs or
blanks separate. The names are `src` (or `source`, `from`, `sender`, `rank_from`), `dst` (`dest`,
`destination`, `target`, `to`, `receiver`, `rank_to`), `nbytes` (`bytes`, `size`, `weight`,
`volume`) and, if there is one, `n_messages` (`messages`, `msgs`, `count`), so that tables of Gephi,
Vampir and pandas are read as they are. Other names are given with
`--columns src=Source,dst=Target,nbytes=Bytes`; columns that it does not name are left out. A trace
with a line for each message needs `--duplicates sum`.
""",
    example="# n_tasks 8\n# grid 4x2\nsrc,dst,nbytes,n_messages\n0,1,4096,2\n1,2,4096,2\n",
)
