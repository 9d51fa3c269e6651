"""Communication graphs as lists of edges: a line each."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np

from toruscast.errors import DuplicateEdgeError, InputError, InputWarning, TaskGridError

from ...comm_graph import MAX_TASKS, CommGraph
from .._rows import read_rows
from .._table import NUMBER, Column, Table, cells, fields, read_table, whole
from ..dialect import Dialect
from ..opening import Text
from ..source import LINES, Source
from .build import Array, GraphOptions, Told, graph_of, write_rows
from .partitioners import fits_metis

# Columns of an edge list: src dst bytes [messages].
EDGE_COLUMNS = (3, 4)
ORDER = ("src", "dst", "nbytes", "n_messages")
COMMENT = re.compile(r"[#%]\s*(n_tasks|grid)[ \t:=]+([0-9x]+)[ \t]*")
# A comment that was meant as one of these, but would have no effect.
MISWRITTEN = re.compile(r"[#%]\s*(n_tasks?\b|grid[ \t:=]+\d+(\s*[^\s\d]\s*|\s+)\d).*")
# No torus has a longer route: a fourth column with larger values does not hold hops.
MAX_HOPS = 64
# A comment that says what the fourth column holds.
COUNTS = "# src dst nbytes n_messages"


def is_edge_list(source: Source) -> bool:
    """Whether the first line can be one of an edge list, and not only of a matrix or METIS."""
    if not source.lines or source.start.startswith(b"%%"):
        return False
    parts = cells(source.lines[0][1])[1]
    numbers = sum(bool(NUMBER.fullmatch(part)) for part in parts)
    if 2 * numbers <= len(parts) or len(parts[0].split()) != 1:
        return False
    if len(parts) == 1:
        after = cells(source.lines[1][1])[1] if len(source.lines) > 1 else []
        return len(after) in (0, *EDGE_COLUMNS)
    if len(parts) > max(EDGE_COLUMNS):
        return False
    if fits_metis(source):
        return len(parts) in EDGE_COLUMNS and _reads(source)
    if not len(parts) == len(source.lines) < LINES:
        return True
    # A file with one of these faults may still have been meant as edges.
    return len(parts) in EDGE_COLUMNS and (
        _reads(source, (DuplicateEdgeError, TaskGridError)) or not _is_square(source.text)
    )


def _is_square(text: Text) -> bool:
    """Whether a text can be read as a dense matrix."""
    width = len(fields(text.first_line()[1]))
    columns = [Column(f"column {place}") for place in range(width)]
    try:
        return read_table(text, columns, max_rows=width + 1).n_rows == width
    except InputError:
        return False


def _reads(source: Source, faults: tuple[type[InputError], ...] = ()) -> bool:
    """Whether the whole file reads as an edge list; these faults do not count."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)
            read(source, GraphOptions(n_tasks=source.n_tasks, named=True))
    except InputError as error:
        return isinstance(error, faults)
    return True


def read(source: Source, options: GraphOptions) -> CommGraph:
    """Return the graph of lines ``src dst bytes [messages]``."""
    options.only(source.path, "columns")
    text = source.stream
    number, line = text.first_line()
    separator, parts = cells(line)
    skip = 0
    told = stated(text)
    if len(parts) == 1:
        count = whole(text, number, "number of tasks", parts[0], MAX_TASKS)
        told, skip = Told(count, told.grid, told.counts), number
        _, line = next(text.lines(skip=skip), (0, ""))
        separator, parts = cells(line)
    elif len(parts) == 2:
        _refuse_head(text, number, line)
    order = _chosen(text, number, parts, options)
    columns = [None if name is None else Column(name, name in ORDER[:2]) for name in order]
    table = read_rows(text, columns, skip, separator)
    values = dict(zip([name for name in order if name], table.columns, strict=True))
    if not (options.named or options.columns or told.counts):
        _ask_what_it_is(table, values, told)
    if "n_messages" in values and not (told.counts or options.columns):
        _check_counts(table, values)
    return graph_of(table, values, told, options)


def _refuse_head(text: Text, number: int, line: str) -> None:
    """Raise `InputError` where two numbers stand above lines of more."""
    after = next(text.lines(skip=number), (0, ""))[1]
    if len(cells(after)[1]) > 2:
        raise text.fault(
            "no list of edges",
            number,
            f"{line} above {after}",
            "src dst bytes on every line; a mapping (tasks, dimensions, coordinates) goes to "
            "--mappings, and m2gmetis makes a graph of a mesh of METIS",
        )


def _ask_what_it_is(table: Table, values: dict[str, Array], told: Told) -> None:
    """Raise `InputError` where the rows may hold something else than edges."""
    # A comment with the number of tasks or their grid stands above edges only.
    if not table.skip and (told.n_tasks or told.grid):
        return
    columns = list(values.values())
    if (other := _other_reading(columns, told.n_tasks if table.skip else None)) is None:
        return
    what, remedy = other
    raise table.fault(
        0,
        "fits several formats",
        f"edges ({DIALECT.title}) and {what}",
        f'{remedy}; or format="edges" (--format edges) if these are edges',
    )


def _other_reading(columns: list[Array], count: int | None) -> tuple[str, str] | None:
    """What else rows of whole numbers may be, and what to do with it; ``count`` stands above."""
    n_rows = columns[0].size
    # Amounts of a real list are rarely as small as the numbers of its tasks.
    if n_rows < 4 or any(column.max() > 4 * n_rows for column in columns):
        return None
    if any((column % 1 != 0).any() for column in columns):
        return None
    rows = np.stack(columns, axis=1).astype(np.int64)
    differ = (np.diff(np.sort(rows, axis=1), axis=1) > 0).all()
    filled = [np.unique(column) for column in rows.T]
    if all(values[0] == 0 and values[-1] == values.size - 1 for values in filled):
        pairs = np.unique(rows[:, 0] * (rows[:, 1].max() + 1) + rows[:, 1]).size
        if pairs < n_rows and np.unique(rows, axis=0).shape[0] > n_rows // 2:
            return "a mapping (coordinates of each task)", "did you mean --mappings?"
    everyone = np.unique(rows)
    contiguous = everyone[-1] - everyone[0] == everyone.size - 1
    if count == n_rows and differ and everyone[0] == 1 and contiguous:
        return (
            "a mesh of METIS (corners of each element)",
            "m2gmetis makes a graph of a mesh",
        )
    source = rows[:, 0]
    least = int(source[0])
    vertices = np.arange(least, least + n_rows)
    inside = least < 2 and everyone[0] >= least and everyone[-1] < least + n_rows
    if count is None and differ and inside and np.array_equal(source, vertices):
        return (
            "a list of neighbours (a vertex, then those next to it)",
            "networkx.read_adjlist reads such lists, tc.from_networkx takes its graphs",
        )
    return None


def _chosen(text: Text, number: int, parts: list[str], options: GraphOptions) -> list[str | None]:
    """Name of each column; by its position from 1 where the caller says so."""
    if not options.columns:
        return list(ORDER[: max(3, len(parts))])
    places = {place: name for name, place in options.columns.items()}
    known = {str(place + 1) for place in range(len(parts))}
    if not set(places) <= known or not {"src", "dst", "nbytes"} <= set(options.columns):
        found = ",".join(f"{name}={place}" for name, place in options.columns.items())
        expected = "columns by number where they have no names, such as src=1,dst=2,nbytes=3"
        raise text.fault("no such columns", number, found, expected)
    return [places.get(str(place + 1)) for place in range(len(parts))]


def _check_counts(table: Table, values: dict[str, Array]) -> None:
    """Leave out a fourth column that cannot hold message counts, and say so."""
    messages = values["n_messages"]
    carried = np.flatnonzero((messages == 0) & (values["nbytes"] > 0))
    if carried.size:
        del values["n_messages"]
        line = table.line(int(carried[0]))
        warnings.warn(
            f"{table.text.file}:{line}: bytes in 0 messages, so the fourth column holds no message "
            "counts (hops?): it is left out, and every edge counts as one message. The names "
            "src,dst,nbytes,n_messages above the edges, or --columns, say otherwise",
            InputWarning,
            stacklevel=2,
        )
    elif _may_be_hops(values["src"], values["dst"], messages):
        warnings.warn(
            f"{table.text.file}: the fourth column is taken as message counts, but may be hops "
            "(small, nowhere another way back): --columns src=1,dst=2,nbytes=3 leaves it out, the "
            "names src,dst,nbytes,n_messages above the edges keep it",
            InputWarning,
            stacklevel=2,
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


def stated(text: Text) -> Told:
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
    return Told(count, grid, counts)


def write(comm: CommGraph, path: Path) -> None:
    """Write an edge list below a line with the number of tasks."""
    columns: list[Array] = [comm.src, comm.dst, comm.nbytes, comm.n_messages]
    # Without it, some message counts look like another column.
    odd = ((comm.n_messages == 0) & (comm.nbytes > 0)).any()
    odd = odd or _may_be_hops(comm.src, comm.dst, comm.n_messages)
    odd = odd or (comm.n_edges > 0 and _other_reading(columns, comm.n_tasks) is not None)
    write_rows(path, f"{COUNTS}\n{comm.n_tasks}\n" if odd else f"{comm.n_tasks}\n", columns, " ")


DIALECT = Dialect(
    name="edges",
    holds="graph",
    title="lines of src dst bytes [messages]",
    recognise=is_edge_list,
    read=read,
    write=write,
    plain=True,
    suffixes=(".txt", ".edges"),
    documentation="""
A line for each pair of tasks that communicate, each pair once; `--duplicates sum` adds up pairs
that stand several times, as in a trace of messages. Without the fourth column every edge is one
message. Commas, semicolons, tabs or blanks separate. A fourth column with 0 beside bytes cannot
hold message counts: it is left out with a warning. Where it may hold hops, a warning says that it
is taken as message counts. `--columns src=1,dst=2,nbytes=3` chooses columns by number. Whole
numbers that may as well be coordinates of a mapping, a mesh of METIS or a list of neighbours are
refused unless `--format edges` says what they are.

The number of tasks is the largest task plus one, unless a line above the edges says it, or a
comment such as `# n_tasks 8` does; that is needed where the last tasks do not communicate. A
comment such as `# grid 4x2` gives the application's logical task grid, which mapping strategies
use.
""",
    example="4\n0 1 4096 2\n1 2 4096 2\n2 0 512 1\n3 0 64 1\n3 1 64 1\n",
)
