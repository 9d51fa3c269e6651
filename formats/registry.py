"""The registry of file formats, and the rules that identify the format of a file.

To add a format, add a ``Dialect`` to ``DIALECTS`` in a module of this package; a new module must be
in ``_MODULES`` below. Other packages register a ``Dialect`` by an entry point in the group
``toruscast.formats``.

If the caller does not name the format, `match_dialects` applies the four rules of
``docs/reference/formats.md``: the file name, a signature or header (`Dialect.recognise`), the
suffix, and the shape of bare numbers.
"""

from __future__ import annotations

import os
import re
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from itertools import islice
from pathlib import Path

from toruscast import plugins
from toruscast.errors import InputError
from toruscast.files import SIGNATURES, check_path
from toruscast.text import closest

from .dialect import KIND_NAMES, KIND_OPTIONS, DataKind, Dialect
from .graphs import COLUMN_COMMENT, HEADER_COMMENT
from .source import LINES, WHOLE, AnyPath, Source, split_cells

# Imported when a format is first looked up.
_MODULES = (
    "toruscast.formats.profilers",
    "toruscast.formats.graphs",
    "toruscast.formats.matrix",
    "toruscast.formats.partitioners",
    "toruscast.formats.traces",
    "toruscast.formats.chakra",
    "toruscast.formats.tracer",
    "toruscast.formats.nodes",
    "toruscast.formats.orders",
    "toruscast.formats.hosts",
    "toruscast.formats.machine_file",
    "toruscast.formats.simulators",
    "toruscast.formats.times",
    "toruscast._mesh.hlo",
    "toruscast._mesh.devices",
    "toruscast._mesh.tenstorrent",
)
_COMPILED = "the compiled program: jax.jit(f).lower(...).compile().as_text()"
# Files without the data that a reader needs: pattern of the start, error message, alternative.
_UNREADABLE = (
    (
        re.compile(rb"\s*+(?:\w+\s*+=\s*+)?(?:Mesh|AbstractMesh|NamedSharding)\("),
        "mesh of JAX without its device numbers",
        "print(mesh.device_ids)",
    ),
    (
        re.compile(rb"(?=.*?\b(?:stablehlo|mhlo|sdy)\.)(?:\s++|(?://|#)[^\n]*+)*+module\b", re.S),
        "StableHLO before partitioning",
        _COMPILED,
    ),
    (
        re.compile(rb"(?:\s++|(?://|#)[^\n]*+)*+module\b[^\n{]*+\{"),
        "MLIR before partitioning",
        _COMPILED,
    ),
    (re.compile(rb"\s*+\{ ?lambda\b"), "jaxpr before compilation", _COMPILED),
    (re.compile(rb"\s*+=+ OTF2-PRINT"), "output of otf2-print", "the trace, such as traces.otf2"),
    (
        re.compile(rb"(?:[\w.:@= -]*+\n)*+\^\w"),
        "hostfile that excludes hosts (^)",
        "one line with a host for each task",
    ),
)


def dialects(holds: DataKind | None = None) -> tuple[Dialect, ...]:
    """Return all dialects, or those of one kind of data."""
    loaded = [item for _, item in plugins.load("formats") if isinstance(item, Dialect)]
    return tuple(d for d in (*_import_built_in(), *loaded) if holds in (None, d.holds))


def suffixes_of(holds: DataKind) -> tuple[str, ...]:
    """Return the file suffixes of one kind of data."""
    suffixes = (suffix for dialect in dialects(holds) for suffix in dialect.suffixes)
    return tuple(dict.fromkeys(suffix for suffix in suffixes if suffix.startswith(".")))


@cache
def _import_built_in() -> tuple[Dialect, ...]:
    return tuple(dialect for module in _MODULES for dialect in import_module(module).DIALECTS)


def find_dialect(name: object, holds: DataKind) -> Dialect:
    """Return the dialect with a name; raise `InputError` if there is none."""
    known = {dialect.name: dialect for dialect in dialects(holds)}
    if isinstance(name, str) and name in known:
        return known[name]
    expected = f"{closest(str(name), known, ', '.join(known))} (toruscast formats lists all)"
    raise InputError(f"unknown format of a {KIND_NAMES[holds]}", found=name, expected=expected)


def dialect_to_write(holds: DataKind, path: AnyPath, name: str | None = None) -> Dialect:
    """Return the dialect to write a file: the one with a name, or else the one for its suffix."""
    check_path(path)
    writable = [dialect for dialect in dialects(holds) if dialect.write]
    if name is not None:
        dialect = find_dialect(name, holds)
        if dialect.write is None:
            expected = ", ".join(dialect.name for dialect in writable)
            raise InputError("format is read-only", found=name, expected=expected)
        suffix = os.path.splitext(os.fspath(path))[1].lower()  # noqa: PTH122
        if suffix in SIGNATURES and suffix not in dialect.suffixes:
            expected = f"{' or '.join(dialect.suffixes) or '.txt'} for {dialect.name}"
            raise InputError("suffix of another format", file=path, found=suffix, expected=expected)
        return dialect
    file = os.path.basename(os.fspath(path)).lower().removesuffix(".gz")  # noqa: PTH119
    suffix = os.path.splitext(file)[1]  # noqa: PTH122
    for dialect in writable:
        # Some launchers expect a fixed file name without a dot.
        if suffix in dialect.suffixes or (file in dialect.suffixes and not file.startswith(".")):
            return dialect
    suffixes = [suffix for dialect in writable for suffix in dialect.suffixes]
    expected = f"{', '.join(suffixes[:-1])} or {suffixes[-1]}; or --out-format (format=)"
    raise InputError("unknown suffix", file=path, found=suffix or "none", expected=expected)


def identify(source: Source, holds: DataKind, name: str = "auto") -> Dialect:
    """Return the dialect with a name, or the one that the rules select for ``"auto"``.

    If the rules do not select exactly one, raises `InputError` with a hint to similar formats.
    """
    if not isinstance(name, str) or name != "auto":
        return find_dialect(name, holds)
    matches = match_dialects(source, holds)
    if len(matches) == 1:
        return matches[0]
    # For unreadable and binary files, this line raises a more specific error.
    number, found = source.text.first_line()
    for pattern, message, expected in _UNREADABLE:
        if not matches and pattern.match(source.start):
            raise source.text.fault(message, number, found[:80], expected)
    # Suggest the formats whose example starts with a similar line.
    name_by_form = {_reduce_line(str(dialect.example)): dialect.name for dialect in dialects(holds)}
    close = get_close_matches(_reduce_line(found), name_by_form, n=2, cutoff=0)
    names = [dialect.name for dialect in matches] or [name_by_form[form] for form in close]
    hint = " or ".join(f"--format {name}" for name in names)
    if not matches and (others := match_dialects(source)):
        kind = others[0].holds
        hint += f"; {KIND_OPTIONS[kind]} takes a {KIND_NAMES[kind]} ({others[0].name})"
    message = f"cannot identify the format of the {KIND_NAMES[holds]}"
    raise InputError(message, file=source.path, line=number, found=found[:80], expected=hint)


def match_dialects(source: Source, holds: DataKind | None = None) -> list[Dialect]:
    """Return the dialects that the first applicable rule selects, of one or all kinds of data."""
    candidates = dialects(holds)
    file = Path(source.path).name.lower().removesuffix(".gz")
    by_name = [d for d in candidates if any(s[0] != "." and file.startswith(s) for s in d.suffixes)]
    if recognised := by_name or [dialect for dialect in candidates if dialect.recognise(source)]:
        return recognised
    suffix = Path(file).suffix
    by_suffix = [d for d in dialects() if suffix in d.suffixes and suffix != ".txt"]
    by_shape = _match_numbers(source) if source.has_numbers else set()
    matches = [dialect for dialect in candidates if f"{dialect.holds}/{dialect.name}" in by_shape]
    if not by_suffix or (matches and suffix == ".csv"):
        return matches
    return [d for d in by_suffix if d in matches] or [d for d in by_suffix if d in candidates][:1]


def _match_numbers(source: Source) -> set[str]:
    """Return possible formats, such as "graph/edges", of a file of numbers without a header.

    The formats differ in the number of columns, and in whether the first line counts the others.
    """
    rows = [split_cells(line)[1] for _, line in source.lines]
    width, widths_below = len(rows[0]), {len(row) for row in rows[1:]}
    is_constant = widths_below == {width}
    are_edges = (width == 1 and widths_below <= {3, 4}) or width in (3, 4)
    is_matrix = is_constant and 1 < width == len(rows) < LINES
    if are_edges and is_matrix:
        # With as many rows as columns, a file with header comments is no matrix, and a file with
        # fractions in the first two columns is no edge list.
        is_matrix = not _has_header_comment(source) and source.n_tasks in (None, width)
        are_edges = not is_matrix or all(WHOLE.fullmatch(cell) for row in rows for cell in row[:2])
    ndim = source.torus.ndim if source.torus else 0
    # A single line may be the coordinates of one task, or the nodes of all tasks.
    is_one_task = width in (ndim, ndim + 1) and source.n_tasks in (None, 1)
    are_coordinates = width > 1 and (is_constant or (ndim > 0 if widths_below else is_one_task))
    count = int(rows[0][0]) if re.fullmatch("[0-9]{1,9}", rows[0][0]) else -1
    has_count = 0 < count == sum(1 for _ in islice(source.streamed_text.lines(), count + 2)) - 1
    are_vertices = are_edges and not is_matrix and _may_be_vertices(source, rows, has_count)
    # Formats whose first line starts with the number of the other lines.
    counted_formats = {
        "mapping/sst-macro": has_count and (width, widths_below) == (1, {1}),
        "mapping/scotch-map": has_count and (width, widths_below) == (1, {2}),
        "mapping/sst-coordinates": has_count and rows[0][1:] == [str(w) for w in widths_below],
    }
    may_be_count = source.n_tasks == count or not is_constant
    starts_with_count = may_be_count and any(counted_formats.values())
    are_nodes = not widths_below or (is_constant and width == 1)
    matches = counted_formats | {
        "graph/edges": are_edges and not (has_count and width > 1 and not is_constant),
        "graph/matrix": is_matrix or width > 4,
        "graph/metis": (has_count and width > 1) or are_vertices,
        "mapping/nodes": are_nodes and not are_coordinates and not starts_with_count,
        "mapping/bluegene": are_coordinates and not starts_with_count,
    }
    return {name for name, is_match in matches.items() if is_match}


def _has_header_comment(source: Source) -> bool:
    lines = [line.strip() for line in source.raw_lines]
    return COLUMN_COMMENT in lines or any(map(HEADER_COMMENT.fullmatch, lines))


def _may_be_vertices(source: Source, rows: list[list[str]], has_count: bool) -> bool:
    """Whether the rows may be the vertices of mesh elements, or the neighbours of each vertex.

    Vertices are numbered from 1. Lists of neighbours have a row for each vertex. A constant column
    after the second suggests an edge list whose edges all have the same bytes.
    """
    words = [word for row in rows for word in row]
    if _has_header_comment(source) or not all(re.fullmatch("[0-9]{1,9}", word) for word in words):
        return False
    if len(rows[0]) == 1:
        return has_count and all(map(int, words))
    if source.n_tasks is not None and len(rows) not in (source.n_tasks, LINES):
        return False
    columns = [{*map(int, column)} for column in zip(*rows, strict=False)]
    last_vertex = max(map(max, columns))
    is_list = len(columns[0]) == len(rows) and all(len(column) > 1 for column in columns[2:])
    lines = islice(source.streamed_text.lines(), last_vertex)
    return is_list and sum(1 for _ in lines) == last_vertex


def _reduce_line(text: str) -> str:
    """Return the form of the first data line: "a" for each word, "0" for each number."""
    line = next((line for line in text.splitlines() if line[:1] not in "#%"), "")
    return re.sub("[0-9]+", "0", re.sub("[A-Za-z_]+", "a", line[:200]))
