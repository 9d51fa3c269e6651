"""Functions that graph readers share, and the readers and writers of edge lists and tables."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
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
from toruscast.typing import Ints
from toruscast.validation import repeated, whole_array

from .dialect import Dialect
from .source import (
    NUMBER,
    AnyPath,
    Source,
    TextFile,
    parse_whole,
    select_columns,
    split_cells,
    warn_about,
)
from .tables import TextTable, read_table, write_rows

Include = Literal["all", "point_to_point", "collective"]
Duplicates = Literal["refuse", "sum"]
Gathered = Literal["each", "whole"]
Array = NDArray[Any]
# Error messages for options that a format does not use.
_UNUSED = {
    "include": "format does not separate point-to-point and collective messages",
    "columns": "format has no named columns",
    "collectives": "format has no collectives to choose algorithms for",
    "gathered": "format has no gathers with ambiguous sizes",
    "trips": "format has no loops to count",
    "branches": "format has no branches to choose",
    "ragged_bytes": "format has no ragged all-to-all",
}
_DEFAULTS = {"include": "all", "gathered": "each"}
# Maximum memory, in bytes per task or edge, for reading and ranking a graph. Edges of
# collectives take less, because they share their arrays of bytes and messages.
_TASK_BYTES = _EDGE_BYTES = 160
_COLLECTIVE_EDGE_BYTES = 64


@dataclass(frozen=True)
class GraphOptions:
    """Options of `read_workload`; a dialect refuses those that it does not use."""

    name: str = ""
    n_tasks: int | None = None
    include: Include = "all"
    columns: Mapping[str, str] = field(default_factory=dict)  # the file's names by standard name
    duplicates: Duplicates = "refuse"  # whether repeated edges raise an error or are added
    collectives: Mapping[str, str] = field(default_factory=dict)  # algorithm of each collective
    # Whether the size of a gather or all-gather is one rank's share or the whole buffer.
    gathered: Gathered = "each"
    # Trip counts by loop name; the one for "", or a single number, applies to all other loops.
    trips: int | Mapping[str, int] | None = None
    branches: Mapping[str, int] = field(default_factory=dict)  # branch of each conditional, from 0
    ragged_bytes: float | None = None  # bytes that each device sends in a ragged all-to-all
    # Parts of the file that the reader leaves out, for `Workload.omitted`.
    omitted: list[Omission] = field(default_factory=list)

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
        """Record that the reader leaves out a part of the file, or counts it only once."""
        self.omitted.append(Omission(what, where, times, nbytes, effect, reason))

    def refuse_unused(self, path: AnyPath, *used: str) -> None:
        """Raise `InputError` if an option is set that the format does not use."""
        for option, message in _UNUSED.items():
            value = getattr(self, option)
            if option not in used and value and value != _DEFAULTS.get(option):
                is_mapping = isinstance(value, Mapping)
                found = ", ".join(map(str, value.values())) if is_mapping else value
                raise InputError(message, file=path, found=found, expected=_DEFAULTS.get(option))

    def build_graph(
        self,
        n_tasks: int,
        src: Array,
        dst: Array,
        nbytes: Array,
        n_messages: Array | None = None,
        *,
        grid: tuple[int, ...] | None = None,
    ) -> CommGraph:
        """Return the graph with the given edges, named as the options say."""
        build = sum_edges if self.duplicates == "sum" else CommGraph
        return build(n_tasks, src, dst, nbytes, n_messages, grid=grid, name=self.name)

    def check_n_tasks(self, count: int | None, path: AnyPath) -> int | None:
        """Return the file's or the caller's task count, None without either; both must agree."""
        if count is None:
            return self.n_tasks
        if self.n_tasks is not None and count != self.n_tasks:
            raise InputError("wrong number of tasks", file=path, found=count, expected=self.n_tasks)
        return self.resolve_n_tasks(count, path)

    def resolve_n_tasks(self, size: int, path: AnyPath) -> int:
        """Return the caller's number of tasks, which must be at least ``size``; default ``size``.

        Readers call this before they allocate arrays for the tasks.
        """
        if self.n_tasks is None:
            check_claim(path, _TASK_BYTES * size, counted(size, "task"))
            return size
        if self.n_tasks < size:
            expected = f"at most {self.n_tasks}"
            raise InputError("wrong number of tasks", file=path, found=size, expected=expected)
        return self.n_tasks


def check_collectives(path: AnyPath, n_edges: int) -> None:
    """Raise `InputError` if collectives have too many edges for a file of this size."""
    check_claim(path, _COLLECTIVE_EDGE_BYTES * n_edges, counted(n_edges, "message"))


@dataclass(frozen=True)
class GraphHeader:
    """Information at the start of a file, before its edges."""

    n_tasks: int | None = None
    grid: tuple[int, ...] | None = None
    # Whether a comment names the columns, which confirms that the fourth has message counts.
    names_columns: bool = False


def graph_from_table(table: TextTable, header: GraphHeader, options: GraphOptions) -> CommGraph:
    """Return the graph of the columns src, dst, nbytes and optionally n_messages.

    Errors name the line. If neither the header nor the options give the number of tasks, it is the
    largest task plus one.
    """
    file, src, dst = table.text.file, table["src"], table["dst"]
    n_tasks = options.check_n_tasks(header.n_tasks, file)
    limit = MAX_TASKS if n_tasks is None else n_tasks
    for role, tasks in (("source", src), ("destination", dst)):
        if tasks.size and tasks.max() >= limit:
            row = int(np.flatnonzero(tasks >= limit)[0])
            expected = f"a task from 0 to {limit - 1}"
            if tasks[row] == limit and n_tasks is not None and min(src.min(), dst.min()) == 1:
                expected += "; the tasks may be counted from 1"
            raise table.fault(row, f"{role} out of range", tasks[row], expected)
    if n_tasks is None:
        n_tasks = int(max(src.max(initial=0), dst.max(initial=0))) + 1
        try:
            options.resolve_n_tasks(n_tasks, file)
        except InputError as error:
            row = int(np.argmax(np.maximum(src, dst)))
            raise error.replace(line=table.line(row)) from None
        # Without enough edges, the array of tasks could be much larger than the file.
        has_enough_edges = 3 <= n_tasks <= 2 * src.size + 1
        if has_enough_edges and np.array_equal(find_isolated_tasks(src, dst, n_tasks), [0]):
            others = f"unlike the other {n_tasks - 1} tasks; the file may count tasks from 1"
            warn_about(file, f"task 0 neither sends nor receives, {others}")
    amounts = table["nbytes"], table.columns.get("n_messages")
    try:
        with at_file(file):
            return options.build_graph(n_tasks, src, dst, *amounts, grid=header.grid)
    except DuplicateEdgeError as error:
        first, second = first_repeat(src * np.int64(n_tasks) + dst) or (0, 0)
        found = f"{src[second]} -> {dst[second]}, also on line {table.line(first)}"
        expected = 'each edge once, or duplicates="sum" to add them (--duplicates sum)'
        raise error.replace(line=table.line(second), found=found, expected=expected) from None


def find_isolated_tasks(src: Array, dst: Array, n_tasks: int) -> Ints:
    """Return the tasks without an edge, in ascending order."""
    is_used = np.zeros(n_tasks, bool)
    is_used[src] = is_used[dst] = True
    return np.flatnonzero(~is_used)


def has_rank_files(path: AnyPath, suffix: str) -> bool:
    """Whether a folder or prefix has files ``NAME.RANK.suffix``."""
    with suppress(OSError, ValueError):
        return bool(_match_rank_files(Path(path), suffix))
    return False


def find_rank_files(path: AnyPath, suffix: str) -> dict[int, Path]:
    """Return the files ``NAME.RANK.suffix`` in a folder or with a prefix, by rank.

    There must be one file for each rank from 0, all with the same name.
    """
    with at_file(path):
        matches = sorted(_match_rank_files(Path(path), suffix))
    if not matches:
        expected = f"files such as lj.0.{suffix.partition('|')[0]}"
        raise InputError("no per-rank files in folder", file=path, expected=expected)
    first_name, last_name = matches[0][0], matches[-1][0]
    if first_name != last_name:
        names, expected = f"{first_name} and {last_name}", "one run; give the path with its prefix"
        message = "output of several runs in folder"
        raise InputError(message, file=path, found=names, expected=expected)
    files: dict[int, Path] = {}
    for _, rank, file in matches:
        if rank in files:
            raise InputError("duplicate rank", file=file, found=files[rank].name)
        files[rank] = file
    for rank in range(max(files)):
        if rank not in files:
            raise missing_rank_error(path, files, rank)
    return files


def _match_rank_files(path: Path, suffix: str) -> list[tuple[str, int, Path]]:
    """Return the name, the rank and the path of each file ``NAME.RANK.suffix``."""
    folder = path if path.is_dir() else path.parent
    name = ".*" if folder == path else re.escape(path.name)
    pattern = re.compile(rf"({name})\.([0-9]{{1,9}})\.(?:{suffix})(?:\.gz)?")
    matches = [(pattern.fullmatch(file.name), file) for file in folder.iterdir()]
    return [(match[1], int(match[2]), file) for match, file in matches if match]


def missing_rank_error(path: AnyPath, files: Mapping[int, Path], rank: int) -> InputError:
    """Return the error for a missing file of a rank."""
    found = counted(len(files), "file")
    return InputError("file of a rank missing", file=path, found=found, expected=f"rank {rank}")


def with_reverse_edges(src: Array, dst: Array, *amounts: Array) -> list[Array]:
    """Return the columns of all edges, then of their reverses; self-messages occur once."""
    forward, backward = (src, dst, *amounts), (dst, src, *amounts)
    away = src != dst
    return [np.concatenate([a, b[away]]) for a, b in zip(forward, backward, strict=True)]


def one_way_edge(graph: CommGraph) -> int | None:
    """Return the first edge whose reverse is missing or has different bytes; None if all match."""
    # Edges are sorted by source and destination. Sorting them by destination and source moves each
    # edge to the position of its reverse, if every edge has a reverse.
    back = np.lexsort((graph.src, graph.dst))
    differs = (graph.dst[back] != graph.src) | (graph.src[back] != graph.dst)
    differs |= graph.nbytes[back] != graph.nbytes
    return int(np.argmax(differs)) if differs.any() else None


HEADER_COMMENT = re.compile(r"[#%]\s*(n_tasks|grid)[ \t:=]+([0-9x]+)[ \t]*")
# Likely typing errors in such comments; they raise an error.
BAD_HEADER_COMMENT = re.compile(r"[#%]\s*(n_tasks?\b|grid[ \t:=]+\d+(\s*[^\s\d]\s*|\s+)\d).*")
# Maximum length of routes in hops; a fourth column with larger values must be message counts.
MAX_HOPS = 64
# Columns that may be fractional.
AMOUNTS = COLUMNS[2:]
# A comment that names the columns.
COLUMN_COMMENT = "# src dst nbytes n_messages"


def _read_edges(source: Source, options: GraphOptions) -> CommGraph:
    """Read an edge in each line; the first line may be the number of tasks."""
    text = source.streamed_text
    number, line = text.first_line()
    separator, cells = split_cells(line)
    skip = 0
    header = read_header(text)
    if len(cells) == 1:
        n_tasks = parse_whole(text, number, "number of tasks", cells[0], MAX_TASKS)
        header, skip = replace(header, n_tasks=n_tasks), number
        _, line = next(text.lines(skip=skip), (0, ""))
        separator, cells = split_cells(line)
    order: list[str | None] = list(COLUMNS[: max(3, len(cells))])
    if options.columns:
        numbers = [str(place) for place in range(1, len(cells) + 1)]
        order = select_columns(text, number, numbers, options.columns, COLUMNS[:3])
    table = read_table(text, order, skip, separator, AMOUNTS)
    if "n_messages" in table.columns and not (header.names_columns or options.columns):
        _check_message_counts(table, options)
    return graph_from_table(table, header, options)


def _check_message_counts(table: TextTable, options: GraphOptions) -> None:
    """Remove a fourth column that cannot be message counts; warn about one that may be hops."""
    messages = table["n_messages"]
    inconsistent = np.flatnonzero((messages == 0) & (table["nbytes"] > 0))
    if inconsistent.size:
        del table.columns["n_messages"]
        found = f"bytes in 0 messages on line {table.line(int(inconsistent[0]))}"
        hint = "to read them anyway, add a line src,dst,nbytes,n_messages or use --columns"
        options.omit("column", "4", 0.0, f"{found}, so each edge is one message; {hint}")
    elif _may_be_hops(table["src"], table["dst"], messages):
        message = "the fourth column is read as message counts but may be hops (small symmetric "
        message += "values); to ignore it, give --columns src=1,dst=2,nbytes=3; to confirm it, put "
        message += "the names src,dst,nbytes,n_messages above the edges"
        warn_about(table.text.file, message)


def _may_be_hops(src: Array, dst: Array, values: Array) -> bool:
    """Whether values may be hops: small, whole, not constant, and equal in both directions."""
    if not values.size or values.max() > MAX_HOPS or values.min() == values.max():
        return False
    if (values % 1 != 0).any():
        return False
    # Number the edges and look up the reverse of each by binary search.
    n = np.int64(max(src.max(), dst.max()) + 1)
    forward, backward = src * n + dst, dst * n + src
    order = np.argsort(forward)
    index = np.minimum(np.searchsorted(forward, backward, sorter=order), forward.size - 1)
    has_reverse = forward[order[index]] == backward
    is_symmetric = values[order[index]] == values
    return bool(is_symmetric[has_reverse].all())


def read_header(text: TextFile) -> GraphHeader:
    """Return the information in the comments above the first data line."""
    n_tasks = grid = None
    names_columns = False
    for number, line in enumerate(text.raw_lines(), start=1):
        if line.strip() and not line.lstrip().startswith(("#", "%")):
            break
        names_columns = names_columns or line.strip() == COLUMN_COMMENT
        if match := HEADER_COMMENT.fullmatch(line.strip()):
            parts = match[2].split("x")
            sizes = [parse_whole(text, number, match[1], size, MAX_TASKS) for size in parts]
            if match[1] == "grid":
                grid = tuple(sizes)
            else:
                n_tasks = sizes[0]
        elif BAD_HEADER_COMMENT.fullmatch(line.strip()):
            expected = "a line such as '# n_tasks 64' or '# grid 8x8'"
            raise text.fault("bad comment on tasks or grid", number, line.strip(), expected)
    return GraphHeader(n_tasks, grid, names_columns)


def _write_edges(comm: CommGraph, path: Path) -> None:
    """Write the number of tasks, then a line for each edge."""
    columns: list[Array] = [comm.src, comm.dst, comm.nbytes, comm.n_messages]
    # Without a comment, these columns could be read as hops, or as a METIS mesh.
    is_ambiguous = ((comm.n_messages == 0) & (comm.nbytes > 0)).any()
    is_ambiguous = is_ambiguous or _may_be_hops(comm.src, comm.dst, comm.n_messages)
    may_be_mesh = comm.n_edges == comm.n_tasks and comm.src.all() and comm.dst.all()
    head = f"{COLUMN_COMMENT}\n" if is_ambiguous or may_be_mesh else ""
    write_rows(path, f"{head}{comm.n_tasks}\n", columns, " ")


EDGES = Dialect(
    name="edges",
    uses=("columns",),
    holds="graph",
    title="edge list: src dst bytes [messages]",
    read=_read_edges,
    write=_write_edges,
    suffixes=(".txt", ".edges"),
    documentation="""
One line per edge, separated by commas, semicolons, tabs or blanks. Each edge occurs once;
`--duplicates sum` adds repeated edges, as in a trace of messages. Without a fourth column every
edge is one message. The fourth column is ignored if it has 0 for an edge with bytes, and the answer
says so. If it may contain hop counts, a warning says that it is read as message counts.
`--columns src=1,dst=2,nbytes=3` chooses columns by number.

The number of tasks is the largest task plus one, unless a single number above the edges or a
comment such as `# n_tasks 8` gives it. Give it if the last tasks do not communicate. A comment such
as `# grid 4x2` gives the application's logical task grid, which mapping strategies use.
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
# Columns that graph tools write besides the traffic.
OTHER_COLUMNS = {"id", "label", "timeset", "type"}


def _is_table(source: Source) -> bool:
    """Whether the first data line names columns, including those of senders and receivers."""
    if not source.lines:
        return False
    names = split_cells(source.lines[0][1])[1]
    has_endpoints = {"src", "dst"} <= set(_find_standard_names(names))
    return has_endpoints and not any(map(NUMBER.fullmatch, names))


def _read_edge_table(source: Source, options: GraphOptions) -> CommGraph:
    """Read an edge in each line below the column names."""
    text = source.streamed_text
    number, line = text.first_line()
    separator, names = split_cells(line)
    order = _order_columns(text, number, names, options)
    rows = [split_cells(line, separator)[1] for _, line in source.lines[1:]]
    # The first rows may differ in length, which `read_table` reports below.
    columns = dict(zip(names, zip(*rows, strict=False), strict=False))
    numeric = [name for name, cells in columns.items() if any(map(NUMBER.fullmatch, cells))]
    used = [name for name, standard in zip(names, order, strict=True) if standard]
    omit_columns(numeric, used, options)
    table = read_table(text, order, number, separator, AMOUNTS)
    return graph_from_table(table, read_header(text), options)


def _write_edge_table(comm: CommGraph, path: Path) -> None:
    grid = "" if comm.grid is None else f"# grid {'x'.join(map(str, comm.grid))}\n"
    head = f"# n_tasks {comm.n_tasks}\n{grid}src,dst,nbytes,n_messages\n"
    write_rows(path, head, [comm.src, comm.dst, comm.nbytes, comm.n_messages], ",")


def _find_standard_names(names: list[str]) -> list[str]:
    """Return the standard name of each column; unknown names are unchanged."""
    standard = {alias: column for column, aliases in ALIASES.items() for alias in aliases}
    return [standard.get(name.lower().replace(" ", "_"), name) for name in names]


def omit_columns(numeric: Iterable[str], used: Collection[str], options: GraphOptions) -> None:
    """Record unread numeric columns as omitted, because they may contain traffic."""
    for name in numeric:
        if name not in used and name.lower() not in OTHER_COLUMNS:
            options.omit("column", name)


def match_columns(
    is_numeric: Mapping[str, bool], options: GraphOptions, path: AnyPath
) -> dict[str, str]:
    """Return the file's column names for src, dst, nbytes and, if present, n_messages.

    ``is_numeric`` states for each column of the file whether it contains numbers.
    """
    standard = _find_standard_names([*is_numeric])
    chosen = dict(options.columns) or dict(zip(standard, is_numeric, strict=True))
    if missing := [name for name in COLUMNS[:3] if chosen.get(name) not in is_numeric]:
        columns = ", ".join(is_numeric)
        raise InputError("missing columns", file=path, found=columns, expected=missing[0])
    if duplicates := repeated(chosen.values()):
        raise InputError("duplicate column", file=path, found=f"{duplicates[0]} twice")
    used = {name: chosen[name] for name in COLUMNS if name in chosen}
    omit_columns((name for name, numeric in is_numeric.items() if numeric), used.values(), options)
    return used


def _order_columns(
    text: TextFile, number: int, names: list[str], options: GraphOptions
) -> list[str | None]:
    """Return the standard name of each column of a header, or None for columns to skip."""
    if options.columns:
        return select_columns(text, number, names, options.columns, COLUMNS[:3])
    order = _find_standard_names(names)
    traffic_columns = {name for name in order if name.lower() not in OTHER_COLUMNS}
    if len(set(order)) != len(order) or not {*COLUMNS[:3]} <= traffic_columns <= ALIASES.keys():
        expected = "src,dst,nbytes[,n_messages], or --columns src=NAME,dst=NAME,nbytes=NAME"
        raise text.fault("bad column names", number, ",".join(names), expected)
    return [name if name in COLUMNS else None for name in order]


TABLE = Dialect(
    name="table",
    uses=("columns",),
    holds="graph",
    title="edge table with column names",
    recognise=_is_table,
    read=_read_edge_table,
    write=_write_edge_table,
    suffixes=(".csv",),
    documentation="""
Like `edges`, but with column names in any order: `src` (or `source`, `from`, `sender`,
`rank_from`), `dst` (`dest`, `destination`, `target`, `to`, `receiver`, `rank_to`), `nbytes`
(`bytes`, `size`, `weight`, `volume`) and optionally `n_messages` (`messages`, `msgs`, `count`).
Tables of Gephi, Vampir and pandas need no change. `--columns src=Source,dst=Target,nbytes=Bytes`
selects columns with other names. The answer lists numeric columns that are not read, because they
may be traffic. A trace with a line for each message needs `--duplicates sum`.
""",
    example="# n_tasks 8\n# grid 4x2\nsrc,dst,nbytes,n_messages\n0,1,4096,2\n1,2,4096,2\n",
)


# First letters of Arrow's numeric types.
_NUMERIC_TYPES = ("int", "uint", "float", "double", "half", "decimal")


def _read_parquet(source: Source, options: GraphOptions) -> CommGraph:
    """Read the columns of edges; metadata of the file may give the tasks and the grid."""
    with as_damaged(source.path, "Parquet file"):
        file = parquet.ParquetFile(pa.BufferReader(source.data))
        schema, n_rows = file.schema_arrow, file.metadata.num_rows
        check_claim(source.path, n_rows * _EDGE_BYTES, counted(n_rows, "row"))
        is_numeric = {field.name: str(field.type).startswith(_NUMERIC_TYPES) for field in schema}
        columns = match_columns(is_numeric, options, source.path)
        table = file.read(columns=list(columns.values()))
        for column in columns.values():
            if table.column(column).null_count:
                raise InputError("empty cell", found=column, expected="numbers")
        values = {name: np.asarray(table.column(column)) for name, column in columns.items()}
        metadata = schema.metadata or {}
        sizes = metadata.get(b"grid", b"").decode()
        grid = tuple(int(size) for size in sizes.split("x")) if sizes else None
        n_tasks = int(metadata.get(b"n_tasks", b"0")) or None
    return graph_from_columns(source, values, GraphHeader(n_tasks, grid), options)


def graph_from_columns(
    source: Source, values: Mapping[str, Array], header: GraphHeader, options: GraphOptions
) -> CommGraph:
    """Return the graph of arrays src, dst, nbytes and optionally n_messages."""
    n_tasks = options.check_n_tasks(header.n_tasks, source.path)
    with at_file(source.path):
        src, dst = (whole_array(values[name], name) for name in COLUMNS[:2])
        if n_tasks is None:
            n_tasks = min(int(max(src.max(initial=0), dst.max(initial=0))) + 1, MAX_TASKS)
        amounts = values["nbytes"], values.get("n_messages")
        return options.build_graph(n_tasks, src, dst, *amounts, grid=header.grid)


def _write_parquet(comm: CommGraph, path: Path) -> None:
    grid = "x".join(map(str, comm.grid or ()))
    table = pa.table({name: getattr(comm, name) for name in COLUMNS})
    metadata = {"n_tasks": str(comm.n_tasks), "grid": grid}
    parquet.write_table(table.replace_schema_metadata(metadata), path)


PARQUET = Dialect(
    name="parquet",
    uses=("columns",),
    holds="graph",
    title="Parquet table of edges",
    recognise=lambda source: source.start.startswith(b"PAR1"),
    read=_read_parquet,
    write=_write_parquet,
    suffixes=(".parquet",),
    documentation="""
Columns as in `table`; `--columns` selects columns with other names. The answer lists other numeric
columns, which are not read.
""",
)


_ADJACENCY_HEAD = re.compile(rb"#[^\n]*\n# GMT [^\n]*\n#")
_EDGE_WITH_ATTRIBUTES = re.compile(r"\d+ \d+ \{.*\}")


def _read_networkx(source: Source, options: GraphOptions) -> CommGraph:
    """Read a task and its neighbours, or two tasks and the attributes of their edge, per line."""
    text = source.text
    largest_task, n_without_bytes = -1, 0
    rows: list[tuple[int, int, int, float, float]] = []  # line, then the columns of an edge
    for number, line in text.lines("#"):
        words, brace, attributes = line.partition("{")
        tasks = [parse_whole(text, number, "task", word, MAX_TASKS - 1) for word in words.split()]
        if not tasks or (brace and len(tasks) != 2):
            raise text.fault("bad line of a graph", number, line, "TASK TASK ... or TASK TASK {}")
        amounts = _read_attributes(text, number, brace + attributes, options) if brace else {}
        nbytes, n_messages = (amounts.get(name, 1.0) for name in AMOUNTS)
        largest_task = max(largest_task, *tasks)
        rows += [(number, tasks[0], task, nbytes, n_messages) for task in tasks[1:]]
        n_without_bytes += (len(tasks) - 1) * ("nbytes" not in amounts)
    if not rows:
        raise text.fault("file without data")
    if n_without_bytes:
        edges = counted(n_without_bytes, "edge")
        warn_about(source.path, f"{edges} without bytes, read as one byte each")
    lines, *columns = (np.array(column) for column in zip(*rows, strict=True))
    table = TextTable(text, dict(zip(COLUMNS, columns, strict=True)), lines=lines)
    return graph_from_table(table, GraphHeader(largest_task + 1), options)


def _read_attributes(
    text: TextFile, number: int, content: str, options: GraphOptions
) -> dict[str, float]:
    """Return the bytes and messages from the attributes of an edge, by standard name."""
    try:
        # Python prints a dictionary of numbers like JSON, but with other quotes.
        attributes = dict(json.loads(content.replace("'", '"')))
        names = _find_standard_names([*attributes])
    except (ValueError, TypeError, RecursionError):
        raise text.fault("bad attributes", number, content, "{'weight': 4096}") from None
    amounts = {}
    for name, (their_name, value) in zip(names, attributes.items(), strict=True):
        if name in amounts:
            expected = "one attribute of bytes and one of messages"
            raise text.fault(f"duplicate attribute of {name}", number, content, expected)
        if name in AMOUNTS:
            if type(value) not in (int, float) or not 0 <= value < 1e300:
                raise text.fault(f"bad {their_name}", number, value, "a number, 0 or more")
            amounts[name] = float(value)
        elif their_name.lower() not in OTHER_COLUMNS:
            options.omit("attribute of an edge", their_name)
    return amounts


NETWORKX = Dialect(
    name="networkx",
    holds="graph",
    title="adjacency list or edge list of NetworkX",
    recognise=lambda source: (
        bool(_ADJACENCY_HEAD.match(source.start)) or source.all_match(_EDGE_WITH_ATTRIBUTES)
    ),
    read=_read_networkx,
    documentation="""
The output of `networkx.write_adjlist` (a task and its neighbours on each line) or `write_edgelist`
(two tasks and the attributes of their edge, such as `{'weight': 4096}`). The names of bytes and
messages are those of `table`. An edge without bytes counts as one byte. Edges go from the first
task to the others. Call `to_directed()` on an undirected graph before writing, because NetworkX
writes each of its edges once.
""",
    example="0 1 {'weight': 4096}\n1 2 {'weight': 64}\n",
)
DIALECTS = (EDGES, TABLE, PARQUET, NETWORKX)
