"""The registry of dialects: which files are read and written, and how each is recognised.

A dialect is added in two steps:

1. Write a file for it in the folder of what it holds (``graphs/``, ``mappings/``, ...), or one for
   the tool if that has files of several kinds, with its reader, its writer if there is one, and a
   frozen record ``DIALECT = Dialect(...)``.
2. Put that record into the tuple of `_built_in` below.

Another package adds one by an entry point of the group ``toruscast.formats`` that names its record.

The readers, ``toruscast formats``, ``toruscast doctor`` and the page of formats find it there. The
tests try its example against every other dialect.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any

import numpy as np

from toruscast import plugins
from toruscast.atomic import PROMISED
from toruscast.errors import InputError

from ..comm_graph import MAX_TASKS
from ._rows import Column, read_table
from .dialect import NOUNS, OPTIONS, Dialect, Holds
from .foreign import Foreign, foreign, surely_foreign
from .source import Source

# Dialects of graphs whose files may hold anything else.
_ARRAYS = {"npy": "an array of NumPy", "npz": "an archive of NumPy"}


def dialects(holds: Holds | None = None) -> tuple[Dialect, ...]:
    """Return all dialects, or those that hold one kind of thing.

    Examples
    --------
    >>> [dialect.name for dialect in dialects("times")]
    ['times']
    """
    every: tuple[Dialect, ...] = (*_built_in(), *_of_plugins())
    return tuple(dialect for dialect in every if holds in (None, dialect.holds))


@cache
def _built_in() -> tuple[Dialect, ...]:
    # Readers import what their folders share, and this module is read by some of them.
    from . import times
    from .graphs import (
        chakra,
        edges,
        goal,
        hlo,
        matrix,
        otf2,
        parquet,
        partitioners,
        profiles,
        trace,
    )
    from .mappings import devices, hosts, numbers, orders, table
    from .tori import machine_file, simulators, sst, tenstorrent

    return (
        *(profiles.OPEN_MPI, edges.EDGES, edges.TABLE, *matrix.DIALECTS, parquet.DIALECT),
        *(partitioners.METIS, partitioners.SCOTCH),
        *(profiles.MPIP, profiles.GRAPH_STATS, profiles.IPM),
        *(goal.DIALECT, hlo.DIALECT, chakra.DIALECT, otf2.DIALECT, trace.DIALECT),
        *(numbers.BLUEGENE, numbers.SST_COORDINATES, numbers.VCOORD, numbers.MAPLIB, numbers.NODES),
        *(numbers.NAMED_LINES, numbers.SST_NODES, numbers.SCOTCH, numbers.TREEMATCH, table.DIALECT),
        *(orders.RANK_ORDER, *hosts.DIALECTS, orders.FLUX, *devices.DIALECTS),
        *(*machine_file.DIALECTS, *simulators.DIALECTS),
        *(sst.SETTINGS, tenstorrent.MESH, *hosts.TABLES, times.DIALECT),
    )


def _of_plugins() -> list[Dialect]:
    found = [dialect for _, dialect in plugins.load("formats")]
    return [dialect for dialect in found if isinstance(dialect, Dialect)]


def dialect_of(name: object, holds: Holds) -> Dialect:
    """Return the dialect of a name.

    Raises
    ------
    InputError
        If there is none.

    Examples
    --------
    >>> dialect_of("edge", "graph")
    Traceback (most recent call last):
        ...
    toruscast.errors.InputError: unknown format of a communication graph: found edge, expected
    edges (toruscast formats lists all)
    """
    known = {dialect.name: dialect for dialect in dialects(holds)}
    if isinstance(name, str) and name in known:
        return known[name]
    close = get_close_matches(str(name), known, n=1)
    expected = f"{close[0] if close else ', '.join(known)} (toruscast formats lists all)"
    raise InputError(f"unknown format of a {NOUNS[holds]}", found=name, expected=expected)


def recognised(source: Source, holds: Holds | None = None) -> list[Dialect]:
    """Return the dialects that a file fits; those of bare numbers give way to others."""
    if surely_foreign(source):
        return []
    fits = [dialect for dialect in dialects(holds) if dialect.recognise(source)]
    if any(fit.holds == "graph" and fit.plain for fit in fits) and _fills_a_box(source):
        fits = [fit for fit in fits if fit.holds != "graph"]
    signed = [dialect for dialect in fits if _is_sure(dialect, source)]
    return signed or fits


def _is_sure(dialect: Dialect, source: Source) -> bool:
    return not (dialect.plain or dialect.weak(source))


def identify(source: Source, holds: Holds, name: str = "auto") -> Dialect:
    """Return the one dialect of a file, by its content or by the name that the caller gives.

    Raises
    ------
    InputError
        If it fits none, or several and no name is given.
    """
    if name != "auto":
        named = dialect_of(name, holds)
        reader_of(named)
        may_be = named.recognise(source) or named.near(source)
        if not may_be and (_signed(source) or foreign(source)):
            raise _unknown(source, holds, named)
        return named
    fits = recognised(source, holds)
    if len(fits) == 1:
        return fits[0]
    if fits:
        raise _ambiguous(source, fits)
    if _signed(source) is None and not surely_foreign(source):
        near = [dialect for dialect in dialects(holds) if dialect.near(source)]
        if len(near) == 1:
            return near[0]
    raise _unknown(source, holds)


def reader_of(dialect: Dialect) -> Callable[..., Any]:
    """Return the reader of a dialect.

    Raises
    ------
    InputError
        If it is only written.
    """
    if dialect.read is None:
        raise InputError("a format that is written, not read", found=dialect.name)
    return dialect.read


def dialect_to_write(
    holds: Holds, path: str | os.PathLike[str], name: str | None = None
) -> Dialect:
    """Return the dialect that a name says, or else the suffix of a file, which is written.

    Raises
    ------
    InputError
        If there is no such dialect, or it is only read.

    Examples
    --------
    >>> dialect_to_write("mapping", "MPICH_RANK_ORDER").name
    'rank-order'
    """
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


def _signed(source: Source) -> Dialect | None:
    """The dialect whose sign a file bears."""
    return next((d for d in recognised(source) if _is_sure(d, source)), None)


def _ambiguous(source: Source, fits: Sequence[Dialect]) -> InputError:
    names = [dialect.name for dialect in fits]
    choice = " or ".join(f'format="{name}"' for name in names)
    return InputError(
        "fits several formats",
        file=source.path,
        found=" and ".join(f"{dialect.name} ({dialect.title})" for dialect in fits),
        expected=f"{choice} to say which (on the command line --format)",
    )


def _fills_a_box(source: Source) -> bool:
    """Whether lines of whole numbers are all places of a box: a map of a partition, no edges.

    Edges would have to take every size as often as every pair of tasks.
    """
    rows = {line for _, line in source.lines}
    width = len(source.fields)
    if not 3 <= width <= 9 or len(rows) < max(4, len(source.lines)):
        return False
    try:
        table = read_table(source.text, [Column("", whole=True)] * width)
    except InputError:
        return False
    places = np.column_stack(table.columns)
    if places.max() > MAX_TASKS or places.min(axis=0).any():
        return False
    box = np.prod(places.max(axis=0) + 1.0)
    return bool(2 * len(places) > box) and len(np.unique(places, axis=0)) == len(places)


def purpose(source: Source, holds: Holds | None = None) -> str:
    r"""Say what a file is and which option takes it, where it surely holds something else.

    Empty where that is not known, or it is what ``holds`` says.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "two.csv"
    >>> _ = path.write_text("task,node\n0,1\n1,0\n")
    >>> purpose(Source(path), "graph")
    'a mapping (table); --mapping or --mappings takes it'
    """
    if (known := foreign(source)) is not None and (known.sure or not recognised(source)):
        return f"{known.name}; {known.remedy}" if known.ours else known.name
    fits = [fit for fit in recognised(source) if _is_sure(fit, source) or fit.holds != "graph"]
    if not fits or any(fit.holds == holds for fit in recognised(source)):
        return ""
    return f"a {NOUNS[fits[0].holds]} ({fits[0].name}); {OPTIONS[fits[0].holds]} takes it"


def _described(dialect: Dialect) -> str:
    return f"a {NOUNS[dialect.holds]} ({dialect.name}: {dialect.title})"


def _not_asked_for(source: Source, holds: Holds, other: Dialect) -> InputError:
    if holds != "graph" and other.name in _ARRAYS:
        return InputError(
            f"{NOUNS[holds]} as {_ARRAYS[other.name]}, which is not read",
            file=source.path,
            expected="text, such as numpy.savetxt('best.map', node, fmt='%d') writes",
        )
    return InputError(
        "not what was asked for",
        file=source.path,
        line=source.first_line()[0],
        found=_described(other),
        expected=f"a {NOUNS[holds]}; {OPTIONS[other.holds]} takes a {NOUNS[other.holds]}",
    )


def _unknown(source: Source, holds: Holds, named: Dialect | None = None) -> InputError:
    fits = recognised(source)
    known = foreign(source)
    # Monitoring output of Open MPI may have any prefix.
    some = fits if source.is_file else [fit for fit in fits if fit.name != "open-mpi"]
    if not known and not some:
        # What is not there, is a folder or no text, or holds nothing, says so.
        source.text.first_line()
    noun = NOUNS[holds]
    if fits and (_is_sure(fits[0], source) or all(fit.holds != holds for fit in fits)):
        fault = _not_asked_for(source, holds, fits[0])
        if fits[0].holds != holds or named is None:
            return fault
        return fault.replace(expected=f"a {noun} ({named.name}: {named.title})")
    line = source.first_line()
    if known:
        return _refused(source, noun, known, _readable(holds))
    return InputError(
        f"{noun} in an unknown format",
        file=source.path,
        line=line[0],
        found=line[1][:80],
        expected=_readable(holds),
    )


def _refused(source: Source, noun: str, known: Foreign, readable: str) -> InputError:
    line = source.first_line()
    what = f"{noun} in a format that is not read"
    shown = "" if known.sure or not line[1] else f" ({line[1][:30]})"
    remedy = known.remedy
    if "src,dst" in remedy and noun != NOUNS["graph"]:
        remedy = ""
    return InputError(
        f"not a {noun}" if known.ours else what,
        file=source.path,
        line=known.line or line[0],
        found=f"{known.name}{shown}",
        expected=f"a {noun}; {known.remedy}" if known.ours else remedy or readable,
    )


def _readable(holds: Holds) -> str:
    """The names of the dialects that are read."""
    names = ", ".join(dialect.name for dialect in dialects(holds) if dialect.read)
    return f"one of {names} (toruscast formats explains them)"
