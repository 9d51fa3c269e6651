"""The registry of dialects: which files are read and written.

A dialect is added in two steps:

1. Write its reader, its writer if there is one, and a frozen record ``Dialect(...)``, in a module
   of this room, and list the record in the module's ``DIALECTS``.
2. Name a new module in ``_MODULES`` below.

Another package adds one by an entry point of the group ``toruscast.formats`` that names its record.

The readers, ``toruscast formats``, ``toruscast doctor`` and the page of formats find it there.
`guess` finds the dialect of a file where the caller does not name it.
"""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module

from toruscast import plugins
from toruscast.errors import InputError
from toruscast.files import PROMISED
from toruscast.text import closest

from .dialect import NOUNS, Dialect, Holds

# Modules that list what they read in `DIALECTS`, imported when a format is first looked for.
_MODULES = (
    "toruscast.formats.profilers",
    "toruscast.formats.edges",
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
    "toruscast.mesh.hlo",
    "toruscast.mesh.device_lists",
    "toruscast.mesh.tenstorrent",
)


def dialects(holds: Holds | None = None) -> tuple[Dialect, ...]:
    """Return all dialects, or those that hold one kind of data."""
    others = (dialect for _, dialect in plugins.load("formats") if isinstance(dialect, Dialect))
    return tuple(each for each in (*_built_in(), *others) if holds in (None, each.holds))


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
