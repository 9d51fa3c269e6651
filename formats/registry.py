"""The registry of dialects: which files are read and written, and which format a file has.

A dialect is added in two steps:

1. Write its reader, its writer if there is one, and a frozen record ``Dialect(...)``, in a module
   of this room, and list the record in the module's ``DIALECTS``.
2. Name a new module in ``_MODULES`` below.

Another package adds one by an entry point of the group ``toruscast.formats`` that names its record.

Where the caller does not name the format, `formats_of` applies the four rules of
``docs/reference/formats.md``: the file's own name, its signature or header (`Dialect.recognise`),
its suffix, and the shape of bare numbers.
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
from toruscast.files import PROMISED
from toruscast.text import closest

from .dialect import NOUNS, OPTIONS, Dialect, Holds
from .graphs import COMMENT, COUNTS
from .source import LINES, WHOLE, Source, cells

# Modules that list what they read in `DIALECTS`, imported when a format is first looked for.
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
# Texts without what a reader needs: how they start, what they lack, and what has it instead.
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
    (
        re.compile(rb"\s*+\{ ?lambda\b"),
        "jaxpr before compilation",
        _COMPILED,
    ),
    (
        re.compile(rb"\s*+=+ OTF2-PRINT"),
        "events as otf2-print prints them",
        "the trace itself, such as traces.otf2",
    ),
    (
        re.compile(rb"(?:[\w.:@= -]*+\n)*+\^\w"),
        "hostfile with hosts that are left out (^)",
        "the host of each task, a line each",
    ),
)


def dialects(holds: Holds | None = None) -> tuple[Dialect, ...]:
    """Return all dialects, or those that hold one kind of data."""
    others = (dialect for _, dialect in plugins.load("formats") if isinstance(dialect, Dialect))
    return tuple(each for each in (*_built_in(), *others) if holds in (None, each.holds))


def suffixes_of(holds: Holds) -> tuple[str, ...]:
    """Return the suffixes of files that hold one kind of data."""
    known = (suffix for dialect in dialects(holds) for suffix in dialect.suffixes)
    return tuple(dict.fromkeys(suffix for suffix in known if suffix.startswith(".")))


@cache
def _built_in() -> tuple[Dialect, ...]:
    return tuple(dialect for module in _MODULES for dialect in import_module(module).DIALECTS)


def dialect_of(name: object, holds: Holds) -> Dialect:
    """Return the dialect of a name."""
    known = {dialect.name: dialect for dialect in dialects(holds)}
    if isinstance(name, str) and name in known:
        return known[name]
    expected = f"{closest(str(name), known, ', '.join(known))} (toruscast formats lists all)"
    raise InputError(f"unknown format of a {NOUNS[holds]}", found=name, expected=expected)


def dialect_to_write(
    holds: Holds, path: str | os.PathLike[str], name: str | None = None
) -> Dialect:
    """Return the dialect with a name, or else the one that a written file's suffix means."""
    written = [dialect for dialect in dialects(holds) if dialect.write]
    if name is not None:
        dialect = dialect_of(name, holds)
        if dialect.write is None:
            expected = ", ".join(dialect.name for dialect in written)
            raise InputError("a format that is read, not written", found=name, expected=expected)
        suffix = os.path.splitext(os.fspath(path))[1].lower()  # noqa: PTH122
        if suffix in PROMISED and suffix not in dialect.suffixes:
            expected = f"{' or '.join(dialect.suffixes) or '.txt'} for {dialect.name}"
            raise InputError("suffix of another format", file=path, found=suffix, expected=expected)
        return dialect
    file = os.path.basename(os.fspath(path)).lower().removesuffix(".gz")  # noqa: PTH119
    suffix = os.path.splitext(file)[1]  # noqa: PTH122
    for dialect in written:
        # Launchers look for some files by their whole name, which has no dot.
        if suffix in dialect.suffixes or (file in dialect.suffixes and not file.startswith(".")):
            return dialect
    known = [suffix for dialect in written for suffix in dialect.suffixes]
    expected = f"{', '.join(known[:-1])} or {known[-1]}; or --out-format (dialect=) with its name"
    raise InputError("unknown suffix", file=path, found=suffix or "none", expected=expected)


def identify(source: Source, holds: Holds, name: str = "auto") -> Dialect:
    """Return the dialect of a file, by the rules or by the name that the caller gives."""
    if name != "auto":
        return dialect_of(name, holds)
    fits = formats_of(source, holds)
    if len(fits) == 1:
        return fits[0]
    # Raises the error of a file that cannot be read, or is no text.
    number, found = source.text.first_line()
    for pattern, message, expected in _UNREADABLE:
        if not fits and pattern.match(source.start):
            raise InputError(
                message, file=source.path, line=number, found=found[:80], expected=expected
            )
    known = {_line_shape(str(dialect.example)): dialect.name for dialect in dialects(holds)}
    names = [dialect.name for dialect in fits]
    names = names or [known[shape] for shape in get_close_matches(_line_shape(found), known, 2, 0)]
    close = " or ".join(f"--format {name}" for name in names)
    if not fits and (others := formats_of(source)):
        close += f"; {OPTIONS[others[0].holds]} takes a {NOUNS[others[0].holds]} ({others[0].name})"
    message = f"{NOUNS[holds]} in a format that is not clear"
    raise InputError(message, file=source.path, line=number, found=found[:80], expected=close)


def formats_of(source: Source, holds: Holds | None = None) -> list[Dialect]:
    """Return the dialects that the first matching rule gives, for all kinds of files if None."""
    known = dialects(holds)
    file = Path(source.path).name.lower().removesuffix(".gz")
    fixed = [d for d in known if any(s[0] != "." and file.startswith(s) for s in d.suffixes)]
    if signed := fixed or [dialect for dialect in known if dialect.recognise(source)]:
        return signed
    suffix = Path(file).suffix
    named = [d for d in dialects() if suffix in d.suffixes and suffix != ".txt"]
    names = _by_numbers(source) if source.has_numbers else set()
    fits = [dialect for dialect in known if f"{dialect.holds}/{dialect.name}" in names]
    if not named or (fits and suffix == ".csv"):
        return fits
    return [d for d in named if d in fits] or [d for d in named if d in known][:1]


def _by_numbers(source: Source) -> set[str]:
    """Return the dialects that rows of bare numbers fit, such as "graph/edges"."""
    rows = [cells(line)[1] for _, line in source.lines]
    width, below = len(rows[0]), {len(row) for row in rows[1:]}
    edges = (width == 1 and below <= {3, 4}) or width in (3, 4)
    matrix = below == {width} and 1 < width == len(rows) < LINES
    if edges and matrix:
        # Comments stand above edges only, whose ends are whole numbers.
        matrix = not _is_stated(source) and source.n_tasks in (None, width)
        edges = not matrix or all(WHOLE.fullmatch(end) for row in rows for end in row[:2])
    ndim = source.torus.ndim if source.torus else 0
    is_place = width in (ndim, ndim + 1) and source.n_tasks in (None, 1)
    places = width > 1 and (below == {width} or (ndim > 0 if below else is_place))
    count = int(rows[0][0]) if re.fullmatch("[0-9]{1,9}", rows[0][0]) else -1
    counts = 0 < count == sum(1 for _ in islice(source.stream.lines(), count + 2)) - 1
    vertices = edges and not matrix and _may_be_vertices(source, rows, counts)
    heads = {
        "mapping/sst-macro": counts and (width, below) == (1, {1}),
        "mapping/scotch-map": counts and (width, below) == (1, {2}),
        "mapping/sst-coordinates": counts and [*map(str, below)] == rows[0][1:],
    }
    is_head = any(heads.values()) and (source.n_tasks == count or below != {width})
    fits = heads | {
        "graph/edges": edges and not (counts and width > 1 and below != {width}),
        "graph/matrix": matrix or width > 4,
        "graph/metis": (counts and width > 1) or vertices,
        "mapping/nodes": (not below or {width} == below == {1}) and not places and not is_head,
        "mapping/bluegene": places and not is_head,
    }
    return {name for name, is_one in fits.items() if is_one}


def _is_stated(source: Source) -> bool:
    """Whether a comment states the number of tasks or names the columns, as above edges."""
    lines = [line.strip() for line in source.raw_lines]
    return COUNTS in lines or any(map(COMMENT.fullmatch, lines))


def _may_be_vertices(source: Source, rows: list[list[str]], counts: bool) -> bool:
    """Whether all numbers may be vertices: corners below their count, or neighbours of the first.

    Corners count from 1. A list of neighbours has a row for each vertex, and no column beside the
    first two holds the same number everywhere, as equal amounts of bytes do.
    """
    words = [word for row in rows for word in row]
    if _is_stated(source) or not all(re.fullmatch("[0-9]{1,9}", word) for word in words):
        return False
    if len(rows[0]) == 1:
        return counts and all(map(int, words))
    if source.n_tasks is not None and len(rows) not in (source.n_tasks, LINES):
        return False
    columns = [{*map(int, column)} for column in zip(*rows, strict=False)]
    top = max(map(max, columns))
    is_list = len(columns[0]) == len(rows) and all(len(column) > 1 for column in columns[2:])
    return is_list and sum(1 for _ in islice(source.stream.lines(), top)) == top


def _line_shape(text: str) -> str:
    """Return the first line that is no comment, each word and each number as one letter."""
    line = next((line for line in text.splitlines() if line[:1] not in "#%"), "")
    return re.sub("[0-9]+", "0", re.sub("[A-Za-z_]+", "a", line[:200]))
