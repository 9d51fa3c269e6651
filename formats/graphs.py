"""Communication graphs: what their readers share, and lists and tables of edges."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from toruscast._slow import parquet
from toruscast._slow import pyarrow as pa
from toruscast.errors import DuplicateEdgeError, InputError
from toruscast.files import as_damaged, at_file, check_claim
from toruscast.mapping.comm_graph import COLUMNS, MAX_TASKS, CommGraph, sum_edges
from toruscast.mapping.omissions import Effect, Omission
from toruscast.mapping.task_mapping import first_repeat
from toruscast.text import counted
from toruscast.validation import repeated, whole_array

from .dialect import Dialect
from .source import NUMBER, Source, Text, cells, renamed, warn_of, whole
from .tables import TextTable, read_table, write_rows

Include = Literal["all", "point_to_point", "collective"]
Duplicates = Literal["refuse", "sum"]
Gathered = Literal["each", "whole"]
AnyPath = str | os.PathLike[str]
Array = NDArray[Any]
# Messages for options that a format does not use.
_UNUSED = {
    "include": "no monitoring output, so there is nothing to select",
    "columns": "no table with named columns",
    "collectives": "no trace with collectives, so there is no algorithm to choose",
    "gathered": "no trace whose gathers have two readings",
    "trips": "no compiled program, so there is no loop to count",
    "branches": "no compiled program, so there is no branch to choose",
    "ragged_bytes": "no compiled program, so there is no ragged all-to-all",
}
_DEFAULTS = {"include": "all", "gathered": "each"}
# Memory that a task or an edge takes at most while a graph is read and ranked. Edges of collectives
# have amounts that are alike.
_TASK_BYTES = _EDGE_BYTES = 160
_COLLECTIVE_EDGE_BYTES = 64


@dataclass(frozen=True)
class GraphOptions:
    """Options of `read_workload`; a dialect that cannot use one refuses it."""

    name: str = ""
    n_tasks: int | None = None
    include: Include = "all"
    columns: Mapping[str, str] = field(default_factory=dict)
    """Names of the file's columns by ours, for tables."""
    duplicates: Duplicates = "refuse"
    """Whether pairs that stand several times are added up."""
    collectives: Mapping[str, str] = field(default_factory=dict)
    """Algorithms by collective, such as {"allreduce": "ring"}."""
    gathered: Gathered = "each"
    """Whether the size of a gather or all-gather is what each rank puts in, or the whole."""
    trips: int | Mapping[str, int] | None = None
    """Turns of loops of a program by name; "" is for all others, as a number alone is."""
    branches: Mapping[str, int] = field(default_factory=dict)
    """Which branch of a conditional runs, by its name; counted from 0."""
    ragged_bytes: float | None = None
    """Bytes that each device sends in a ragged all-to-all."""
    omitted: list[Omission] = field(default_factory=list)
    """What readers left out, for `Workload.omitted`."""

    def omit(
        self,
        what: str,
        where: str = "",
        nbytes: float | None = None,
        reason: str = "",
        *,
        times: int = 1,
        effect: Effect = "not counted",
    ) -> None:
        """Record that a part of the file is left out, or counted once."""
        self.omitted.append(Omission(what, where, times, nbytes, effect, reason))

    def only(self, path: AnyPath, *used: str) -> None:
        """Raise `InputError` if an option is set that the file's format does not use."""
        for option, message in _UNUSED.items():
            value = getattr(self, option)
            if option not in used and value and value != _DEFAULTS.get(option):
                named = isinstance(value, Mapping)
                found = ", ".join(map(str, value.values())) if named else value
                raise InputError(message, file=path, found=found, expected=_DEFAULTS.get(option))

    def graph(
        self,
        n_tasks: int,
        src: Array,
        dst: Array,
        nbytes: Array,
        n_messages: Array | None = None,
        *,
        grid: tuple[int, ...] | None = None,
    ) -> CommGraph:
        """Return the graph of columns; pairs may stand several times where they are added up."""
        build = sum_edges if self.duplicates == "sum" else CommGraph
        return build(n_tasks, src, dst, nbytes, n_messages, grid=grid, name=self.name)

    def agree(self, count: int | None, path: AnyPath) -> int | None:
        """Return the one task count that the file and the caller give."""
        if count is None:
            return self.n_tasks
        if self.n_tasks is not None and count != self.n_tasks:
            raise InputError("wrong number of tasks", file=path, found=count, expected=self.n_tasks)
        return self.at_least(count, path)

    def at_least(self, size: int, path: AnyPath) -> int:
        """Return the caller's number of tasks, at least ``size``; if not given, ``size``.

        This is where a file's number of tasks is checked before anything is made of it.
        """
        if self.n_tasks is None:
            check_claim(path, _TASK_BYTES * size, counted(size, "task"))
            return size
        if self.n_tasks < size:
            expected = f"at most {self.n_tasks}"
            raise InputError("wrong number of tasks", file=path, found=size, expected=expected)
        return self.n_tasks


def check_collectives(path: AnyPath, n_edges: int) -> None:
    """Raise unless a file may claim collectives of so many edges."""
    check_claim(path, _COLLECTIVE_EDGE_BYTES * n_edges, counted(n_edges, "message"))


@dataclass(frozen=True)
class Stated:
    """What a file states besides its edges."""

    n_tasks: int | None = None
    grid: tuple[int, ...] | None = None
    counts: bool = False
    """Whether it states that the fourth column holds message counts."""


def graph_of(table: TextTable, told: Stated, options: GraphOptions) -> CommGraph:
    """Return the graph of the columns src, dst, nbytes and maybe n_messages."""
    src, dst = table["src"], table["dst"]
    n_tasks = options.agree(told.n_tasks, table.text.file)
    most = MAX_TASKS if n_tasks is None else n_tasks
    for what, ends in (("source", src), ("destination", dst)):
        if ends.size and ends.max() >= most:
            row = int(np.flatnonzero(ends >= most)[0])
            expected = f"a task from 0 to {most - 1}"
            if ends[row] == most and n_tasks is not None and min(src.min(), dst.min()) == 1:
                expected += " (are the tasks counted from 1?)"
            raise table.fault(row, f"{what} out of range", ends[row], expected)
    if n_tasks is None:
        n_tasks = int(max(src.max(initial=0), dst.max(initial=0))) + 1
        try:
            options.at_least(n_tasks, table.text.file)
        except InputError as error:
            row = int(np.argmax(np.maximum(src, dst)))
            raise error.replace(line=table.line(row)) from None
        _warn_of_one(table.text.file, src, dst, n_tasks)
    amounts = table["nbytes"], table.columns.get("n_messages")
    try:
        with at_file(table.text.file):
            return options.graph(n_tasks, src, dst, *amounts, grid=told.grid)
    except InputError:
        _refuse_twice(table, src, dst, n_tasks)
        raise


def _warn_of_one(file: str, src: Array, dst: Array, n_tasks: int) -> None:
    """Say so if every task but 0 takes part: the file may count from 1."""
    if not 3 <= n_tasks <= 2 * src.size + 1 or not (src.min() >= 1 and dst.min() >= 1):
        return
    seen = np.zeros(n_tasks, bool)
    seen[src] = seen[dst] = True
    if seen[1:].all():
        warn_of(
            file,
            "task 0 neither sends nor receives, all others do: are the tasks counted from "
            f"1? There are {n_tasks} tasks now",
        )


def _refuse_twice(table: TextTable, src: Array, dst: Array, n_tasks: int) -> None:
    """Name the second line of a pair, if one stands twice."""
    if repeat := first_repeat(src * np.int64(n_tasks) + dst):
        first, second = repeat
        found = f"{src[second]} -> {dst[second]}, also on line {table.line(first)}"
        expected = 'each pair once; duplicates="sum" adds them up (--duplicates sum)'
        fault = DuplicateEdgeError("duplicate edge", found=found, expected=expected)
        raise fault.replace(file=table.text.file, line=table.line(second)) from None


def has_rank_files(path: AnyPath, ending: str) -> bool:
    """Whether a folder or prefix has files ``NAME.RANK.ending``."""
    with suppress(OSError, ValueError):
        return bool(_named_by_rank(Path(path), ending))
    return False


def rank_files(path: AnyPath, ending: str) -> dict[int, Path]:
    """Return the files ``NAME.RANK.ending`` of a folder, or with the prefix ``path``, by rank."""
    with at_file(path):
        found = sorted(_named_by_rank(Path(path), ending))
    if not found:
        expected = f"files such as lj.0.{ending.partition('|')[0]}"
        raise InputError("no files of ranks in folder", file=path, expected=expected)
    if found[0][0] != found[-1][0]:
        raise InputError(
            "output of several runs in folder",
            file=path,
            found=f"{found[0][0]} and {found[-1][0]}",
            expected="one; give the path with the prefix",
        )
    files: dict[int, Path] = {}
    for _, rank, file in found:
        if rank in files:
            raise InputError("rank stands twice", file=file, found=files[rank].name)
        files[rank] = file
    for rank in range(max(files)):
        if rank not in files:
            raise missing_rank(path, files, rank)
    return files


def _named_by_rank(path: Path, ending: str) -> list[tuple[str, int, Path]]:
    folder = path if path.is_dir() else path.parent
    name = ".*" if folder == path else re.escape(path.name)
    pattern = re.compile(rf"({name})\.([0-9]{{1,9}})\.(?:{ending})(?:\.gz)?")
    matches = [(pattern.fullmatch(file.name), file) for file in folder.iterdir()]
    return [(match[1], int(match[2]), file) for match, file in matches if match]


def missing_rank(path: AnyPath, files: Mapping[int, Path], rank: int) -> InputError:
    """Return the error that there is no file of a rank."""
    found = counted(len(files), "file")
    return InputError("file of a rank missing", file=path, found=found, expected=f"rank {rank}")


def both_ways(src: Array, dst: Array, *amounts: Array) -> list[Array]:
    """Return the columns of edges together with those of the edges back; own messages stay one."""
    there, back = (src, dst, *amounts), (dst, src, *amounts)
    apart = src != dst
    return [np.concatenate([a, b[apart]]) for a, b in zip(there, back, strict=True)]


def one_way_edge(graph: CommGraph) -> int | None:
    """Return the first edge without one back that has as many bytes; None if all have."""
    back = np.lexsort((graph.src, graph.dst))
    differs = (graph.dst[back] != graph.src) | (graph.src[back] != graph.dst)
    differs |= graph.nbytes[back] != graph.nbytes
    return int(np.argmax(differs)) if differs.any() else None


COMMENT = re.compile(r"[#%]\s*(n_tasks|grid)[ \t:=]+([0-9x]+)[ \t]*")
# A comment that was meant as one of these, but would have no effect.
MISWRITTEN = re.compile(r"[#%]\s*(n_tasks?\b|grid[ \t:=]+\d+(\s*[^\s\d]\s*|\s+)\d).*")
# No torus has a longer route: a fourth column with larger values does not hold hops.
MAX_HOPS = 64
# Columns that may hold fractions.
AMOUNTS = COLUMNS[2:]
# A comment that names the columns.
COUNTS = "# src dst nbytes n_messages"


def read(source: Source, options: GraphOptions) -> CommGraph:
    """Return the graph of lines ``src dst bytes [messages]``."""
    text = source.stream
    number, line = text.first_line()
    separator, parts = cells(line)
    skip = 0
    told = stated(text)
    if len(parts) == 1:
        count = whole(text, number, "number of tasks", parts[0], MAX_TASKS)
        told, skip = Stated(count, told.grid, told.counts), number
        _, line = next(text.lines(skip=skip), (0, ""))
        separator, parts = cells(line)
    order: list[str | None] = list(COLUMNS[: max(3, len(parts))])
    if options.columns:
        places = [str(place) for place in range(1, len(parts) + 1)]
        order = renamed(text, number, places, options.columns, COLUMNS[:3])
    table = read_table(text, order, skip, separator, AMOUNTS)
    if "n_messages" in table.columns and not (told.counts or options.columns):
        _check_counts(table, options)
    return graph_of(table, told, options)


def _check_counts(table: TextTable, options: GraphOptions) -> None:
    """Leave out a fourth column that cannot hold message counts, and say so."""
    messages = table["n_messages"]
    carried = np.flatnonzero((messages == 0) & (table["nbytes"] > 0))
    if carried.size:
        del table.columns["n_messages"]
        options.omit(
            "column",
            "4",
            0.0,
            f"bytes in 0 messages on line {table.line(int(carried[0]))}, so it holds no message "
            "counts (hops?) and every edge counts as one message; the names "
            "src,dst,nbytes,n_messages above the edges, or --columns, say otherwise",
        )
    elif _may_be_hops(table["src"], table["dst"], messages):
        warn_of(
            table.text.file,
            "the fourth column is taken as message counts, but may be hops "
            "(small, nowhere another way back): --columns src=1,dst=2,nbytes=3 leaves it out, the "
            "names src,dst,nbytes,n_messages above the edges keep it",
        )


def _may_be_hops(src: Array, dst: Array, values: Array) -> bool:
    """Whether values may be distances: small, whole, not all alike, nowhere another way back."""
    if not values.size or values.max() > MAX_HOPS or values.min() == values.max():
        return False
    if (values % 1 != 0).any():
        return False
    n = np.int64(max(src.max(), dst.max()) + 1)
    there, back = src * n + dst, dst * n + src
    order = np.argsort(there)
    place = np.minimum(np.searchsorted(there, back, sorter=order), there.size - 1)
    found = there[order[place]] == back
    return bool((values[order[place]] == values)[found].all())


def stated(text: Text) -> Stated:
    """Return what the comments above the first line tell."""
    count = grid = None
    counts = False
    for number, line in enumerate(text.raw_lines(), start=1):
        if line.strip() and not line.lstrip().startswith(("#", "%")):
            break
        counts = counts or line.strip() == COUNTS
        if match := COMMENT.fullmatch(line.strip()):
            sizes = [whole(text, number, match[1], size, MAX_TASKS) for size in match[2].split("x")]
            if match[1] == "grid":
                grid = tuple(sizes)
            else:
                count = sizes[0]
        elif MISWRITTEN.fullmatch(line.strip()):
            expected = "a line such as '# n_tasks 64' or '# grid 8x8'"
            raise text.fault("bad comment on the tasks", number, line.strip(), expected)
    return Stated(count, grid, counts)


def write(comm: CommGraph, path: Path) -> None:
    """Write an edge list below a line with the number of tasks."""
    columns: list[Array] = [comm.src, comm.dst, comm.nbytes, comm.n_messages]
    # Without it, some message counts look like another column, and some edges like a mesh.
    odd = ((comm.n_messages == 0) & (comm.nbytes > 0)).any()
    odd = odd or _may_be_hops(comm.src, comm.dst, comm.n_messages)
    odd = odd or (comm.n_edges == comm.n_tasks and bool(comm.src.all() and comm.dst.all()))
    write_rows(path, f"{COUNTS}\n{comm.n_tasks}\n" if odd else f"{comm.n_tasks}\n", columns, " ")


EDGES = Dialect(
    name="edges",
    uses=("columns",),
    holds="graph",
    title="lines of src dst bytes [messages]",
    read=read,
    write=write,
    suffixes=(".txt", ".edges"),
    documentation="""
A line for each pair of tasks that communicate, each pair once; `--duplicates sum` adds up pairs
that stand several times, as in a trace of messages. Without the fourth column every edge is one
message. Commas, semicolons, tabs or blanks separate. A fourth column with 0 beside bytes cannot
hold message counts: it is not counted, and the answer says so. Where it may hold hops, a warning
says that it is taken as message counts. `--columns src=1,dst=2,nbytes=3` chooses columns by number.

The number of tasks is the largest task plus one, unless a line above the edges says it, or a
comment such as `# n_tasks 8` does; that is needed where the last tasks do not communicate. A
comment such as `# grid 4x2` gives the application's logical task grid, which mapping strategies
use.
""",
    example="4\n0 1 4096 2\n1 2 4096 2\n2 0 512 1\n3 0 64 1\n3 1 64 1\n",
)


ALIASES = {
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
    ends = {"src", "dst"} <= set(_known_names(names))
    return not any(NUMBER.fullmatch(name) for name in names) and ends


def read_table_of_edges(source: Source, options: GraphOptions) -> CommGraph:
    """Return the graph of a table."""
    text = source.stream
    number, line = text.first_line()
    separator, names = cells(line)
    order = _chosen_names(text, number, names, options)
    rows = [cells(line, separator)[1] for _, line in source.lines[1:]]
    columns = dict(zip(names, zip(*rows, strict=False), strict=False))
    numbers = [n for n, column in columns.items() if any(map(NUMBER.fullmatch, column))]
    omit_columns(numbers, [n for n, ours in zip(names, order, strict=True) if ours], options)
    table = read_table(text, order, number, separator, AMOUNTS)
    return graph_of(table, stated(text), options)


def write_table(comm: CommGraph, path: Path) -> None:
    """Write named columns below comments with the number of tasks and the task grid."""
    grid = "" if comm.grid is None else f"# grid {'x'.join(map(str, comm.grid))}\n"
    head = f"# n_tasks {comm.n_tasks}\n{grid}src,dst,nbytes,n_messages\n"
    write_rows(path, head, [comm.src, comm.dst, comm.nbytes, comm.n_messages], ",")


def _known_names(parts: list[str]) -> list[str]:
    """Our names of the columns; unknown ones stay as they are."""
    known = {alias: column for column, aliases in ALIASES.items() for alias in aliases}
    return [known.get(part.lower().replace(" ", "_"), part) for part in parts]


def omit_columns(numbers: Iterable[str], used: Collection[str], options: GraphOptions) -> None:
    """Record the columns of numbers that are not read: they may be traffic."""
    for name in numbers:
        if name not in used and name.lower() not in BESIDE:
            options.omit("column", name)


def names_of(names: Mapping[str, bool], options: GraphOptions, path: AnyPath) -> dict[str, str]:
    """Return a table's names of src, dst, nbytes and, where it is there, n_messages.

    ``names`` says of each column whether it holds numbers.
    """
    theirs = dict(options.columns) or dict(zip(_known_names([*names]), names, strict=True))
    if missing := [name for name in COLUMNS[:3] if theirs.get(name) not in names]:
        columns = ", ".join(names)
        raise InputError("missing columns", file=path, found=columns, expected=missing[0])
    if twice := repeated(theirs.values()):
        raise InputError("no such columns", file=path, found=f"{twice[0]} twice")
    used = {name: theirs[name] for name in COLUMNS if name in theirs}
    omit_columns((name for name, is_number in names.items() if is_number), used.values(), options)
    return used


def _chosen_names(
    text: Text, number: int, names: list[str], options: GraphOptions
) -> list[str | None]:
    """Our name of each column; None where it is not read."""
    if options.columns:
        return renamed(text, number, names, options.columns, COLUMNS[:3])
    order = _known_names(names)
    rest = {name for name in order if name.lower() not in BESIDE}
    if len(set(order)) != len(order) or not {*COLUMNS[:3]} <= rest <= ALIASES.keys():
        expected = "src,dst,nbytes[,n_messages], or --columns src=NAME,dst=NAME,nbytes=NAME"
        raise text.fault("bad column names", number, ",".join(names), expected)
    return [name if name in COLUMNS else None for name in order]


TABLE = Dialect(
    name="table",
    uses=("columns",),
    holds="graph",
    title="edges below the names of their columns",
    recognise=is_table,
    read=read_table_of_edges,
    write=write_table,
    suffixes=(".csv",),
    documentation="""
Like `edges`, but the columns have names and may come in any order. Commas, semicolons, tabs or
blanks separate. The names are `src` (or `source`, `from`, `sender`, `rank_from`), `dst` (`dest`,
`destination`, `target`, `to`, `receiver`, `rank_to`), `nbytes` (`bytes`, `size`, `weight`,
`volume`) and, if there is one, `n_messages` (`messages`, `msgs`, `count`), so that tables of Gephi,
Vampir and pandas are read as they are. Other names are given with
`--columns src=Source,dst=Target,nbytes=Bytes`. Columns that it does not name are not read; the
answer lists those of numbers, which may be traffic. A trace with a line for each message needs
`--duplicates sum`.
""",
    example="# n_tasks 8\n# grid 4x2\nsrc,dst,nbytes,n_messages\n0,1,4096,2\n1,2,4096,2\n",
)


# How the names of types of numbers begin in Arrow.
_NUMBERS = ("int", "uint", "float", "double", "half", "decimal")


def read_parquet(source: Source, options: GraphOptions) -> CommGraph:
    """Return the graph of a table."""
    with as_damaged(source.path, "Parquet file"):
        file = parquet.ParquetFile(pa.BufferReader(source.data))
        schema, n_rows = file.schema_arrow, file.metadata.num_rows
        check_claim(source.path, n_rows * _EDGE_BYTES, counted(n_rows, "row"))
        numbers = {field.name: str(field.type).startswith(_NUMBERS) for field in schema}
        wanted = names_of(numbers, options, source.path)
        table = file.read(columns=list(wanted.values()))
        for theirs in wanted.values():
            if table.column(theirs).null_count:
                raise InputError("empty cell", found=theirs, expected="numbers")
        values = {name: np.asarray(table.column(theirs)) for name, theirs in wanted.items()}
        about = schema.metadata or {}
        sizes = about.get(b"grid", b"").decode()
        grid = tuple(int(size) for size in sizes.split("x")) if sizes else None
        count = int(about.get(b"n_tasks", b"0")) or None
    return graph_of_columns(source, values, Stated(count, grid), options)


def graph_of_columns(
    source: Source, values: Mapping[str, Array], told: Stated, options: GraphOptions
) -> CommGraph:
    """Return the graph of arrays src, dst, nbytes and maybe n_messages."""
    n_tasks = options.agree(told.n_tasks, source.path)
    with at_file(source.path):
        src, dst = (whole_array(values[name], name) for name in COLUMNS[:2])
        if n_tasks is None:
            n_tasks = min(int(max(src.max(initial=0), dst.max(initial=0))) + 1, MAX_TASKS)
        amounts = values["nbytes"], values.get("n_messages")
        return options.graph(n_tasks, src, dst, *amounts, grid=told.grid)


def write_parquet(comm: CommGraph, path: Path) -> None:
    """Write the columns, with the number of tasks and the grid beside them."""
    grid = "x".join(map(str, comm.grid or ()))
    table = pa.table({name: getattr(comm, name) for name in COLUMNS})
    about = {"n_tasks": str(comm.n_tasks), "grid": grid}
    parquet.write_table(table.replace_schema_metadata(about), path)


PARQUET = Dialect(
    name="parquet",
    uses=("columns",),
    holds="graph",
    title="Parquet table of edges",
    recognise=lambda source: source.start.startswith(b"PAR1"),
    read=read_parquet,
    write=write_parquet,
    suffixes=(".parquet",),
    documentation="""
Columns as in `table`, under the same names; `--columns` gives others. Other columns of numbers are
listed as not counted.
""",
)


_ADJACENCY_HEAD = re.compile(rb"#[^\n]*\n# GMT [^\n]*\n#")
_EDGE_WITH_ATTRIBUTES = re.compile(r"\d+ \d+ \{.*\}")


def read_networkx(source: Source, options: GraphOptions) -> CommGraph:
    """Return the graph of lists of neighbours, or of edges with attributes in braces."""
    text = source.text
    largest, bare, at = -1, 0, []
    ends: list[tuple[int, int]] = []
    amounts: list[tuple[float, float]] = []
    for number, line in text.lines("#"):
        words, brace, attributes = line.partition("{")
        tasks = [whole(text, number, "task", word, MAX_TASKS - 1) for word in words.split()]
        if not tasks or (brace and len(tasks) != 2):
            raise text.fault("bad line of a graph", number, line, "TASK TASK ... or TASK TASK {}")
        known = _edge_attributes(text, number, brace + attributes, options) if brace else {}
        largest = max(largest, *tasks)
        ends += [(tasks[0], task) for task in tasks[1:]]
        at += [number] * (len(tasks) - 1)
        amounts += [(known.get("nbytes", 1.0), known.get("n_messages", 1.0))] * (len(tasks) - 1)
        bare += (len(tasks) - 1) * ("nbytes" not in known)
    if not ends:
        raise text.fault("file without data")
    if bare:
        warn_of(source.path, f"{counted(bare, 'edge')} without bytes: each counts as one byte")
    columns = (*np.array(ends).T, *np.array(amounts).T)
    table = TextTable(text, dict(zip(COLUMNS, columns, strict=True)), lines=np.array(at))
    return graph_of(table, Stated(largest + 1), options)


def _edge_attributes(
    text: Text, number: int, words: str, options: GraphOptions
) -> dict[str, float]:
    """Return bytes and messages among the attributes of an edge; others of numbers are listed."""
    try:
        # Python's quotes are the only difference to JSON in what is read here.
        found = dict(json.loads(words.replace("'", '"')))
        names = _known_names([*found])
    except (ValueError, TypeError, RecursionError):
        raise text.fault("bad attributes", number, words, "{'weight': 4096}") from None
    amounts = {}
    for name, (theirs, value) in zip(names, found.items(), strict=True):
        if name in amounts:
            expected = "one attribute of bytes and one of messages"
            raise text.fault(f"two attributes of {name}", number, words, expected)
        if name in AMOUNTS:
            if type(value) not in (int, float) or not 0 <= value < 1e300:
                raise text.fault(f"bad {theirs}", number, value, "a number, 0 or more")
            amounts[name] = float(value)
        elif theirs.lower() not in BESIDE:
            options.omit("attribute of an edge", theirs)
    return amounts


NETWORKX = Dialect(
    name="networkx",
    holds="graph",
    title="lists of neighbours or edges as NetworkX writes them",
    recognise=lambda source: (
        bool(_ADJACENCY_HEAD.match(source.start)) or source.all_match(_EDGE_WITH_ATTRIBUTES)
    ),
    read=read_networkx,
    documentation="""
What `networkx.write_adjlist` writes below its head: a task and its neighbours on each line; or what
`write_edgelist` writes: two tasks and the attributes of their edge, such as `{'weight': 4096}`.
The names of bytes and messages are those of `table`. An edge without bytes counts as one byte.
Edges go from the first task to the others. NetworkX writes those of a graph without directions
once, so `to_directed()` before writing keeps both ways.
""",
    example="0 1 {'weight': 4096}\n1 2 {'weight': 64}\n",
)
DIALECTS = (EDGES, TABLE, PARQUET, NETWORKX)
