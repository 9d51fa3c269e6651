"""Tables of samples on disk: Parquet, with where they come from; SQLite while they are built."""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import pandas as pd

import toruscast
from toruscast._slow import parquet
from toruscast._slow import pyarrow as pa
from toruscast.atomic import atomic_path, folder_to_fill
from toruscast.errors import InputError, MissingFileError
from toruscast.features import FEATURES
from toruscast.files import check_regular, note_read

from ._keys import SampleOptions, changed_since, mark_of, marks_of

FORMAT = "toruscast samples"
VERSION = 1
_KEY = b"toruscast"
_EXPECTED = "one that toruscast train, evaluate or python -m studies build wrote, as it stands"
LABELS = ("workload", "torus", "mapping", "key")
_CELLS = (
    "CREATE TABLE IF NOT EXISTS cell"
    " (key TEXT, name TEXT, mark TEXT, value REAL, PRIMARY KEY (key, name))"
)
_NO_LOCKS = (
    sqlite3.SQLITE_IOERR_LOCK,
    sqlite3.SQLITE_IOERR_RDLOCK,
    sqlite3.SQLITE_IOERR_CHECKRESERVEDLOCK,
)
# Seconds that others may write where the system's own locks do not keep them out.
_PATIENCE = 600.0


def write_samples(
    table: pd.DataFrame, path: str | os.PathLike[str], provenance: dict[str, Any] | None = None
) -> None:
    """Write a table of samples and its provenance to a Parquet file, whole or not at all.

    Parameters
    ----------
    table : DataFrame
        A row per sample; columns ``workload``, ``torus``, ``mapping`` and ``key`` name it.
    path : path-like
        The file.
    provenance : dict, optional
        Anything that JSON can hold; that of ``table.attrs`` if not given.

    Raises
    ------
    InputError
        If a column is missing or the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> table = pd.DataFrame(
    ...     {"workload": ["a"], "torus": ["4x4"], "mapping": ["m"], "key": ["k"], "time": [1e-6]}
    ... )
    >>> path = tempfile.mkdtemp() + "/samples.parquet"
    >>> write_samples(table, path, {"command": "by hand"})
    >>> read_samples(path).attrs["provenance"]["command"]
    'by hand'
    """
    _check_labels(table, None)
    origin = dict(table.attrs.get("provenance", {})) if provenance is None else provenance
    bare = table.copy(deep=False)
    bare.attrs = {}
    try:
        text = json.dumps({**origin, "format": FORMAT, "version": VERSION, "n_samples": len(table)})
        content = pa.Table.from_pandas(bare, preserve_index=False)
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise InputError("samples cannot be stored", found=error) from None
    content = content.replace_schema_metadata({**(content.schema.metadata or {}), _KEY: text})
    with atomic_path(path) as temporary:
        parquet.write_table(content, temporary)


def read_samples(
    path: str | os.PathLike[str], changed: Literal["refuse", "keep"] = "refuse"
) -> pd.DataFrame:
    """Read a table of samples; its provenance is in ``attrs["provenance"]``.

    Parameters
    ----------
    path : path-like
        The file.
    changed : {"refuse", "keep"}
        What becomes of features that have other values under their names since it was written.

    Raises
    ------
    InputError
        If the file is missing, damaged, no table that `write_samples` wrote, or holds features that
        were changed since.
    """
    began = time.perf_counter()
    check_regular(path)
    try:
        with open(path, "rb") as stream:  # noqa: PTH123
            # Threads that read ahead in a Python file may outlive the interpreter and abort it.
            content = parquet.read_table(pa.PythonFile(stream), use_threads=False, pre_buffer=False)
        metadata = content.schema.metadata or {}
        if _KEY not in metadata:
            raise InputError("not a table of samples", file=path, expected=_EXPECTED)
        origin = json.loads(metadata[_KEY])
        if not isinstance(origin, dict) or origin.get("format") != FORMAT:
            raise InputError("not a table of samples", file=path, expected=_EXPECTED)
        # Files without a version are of the first.
        if origin.get("version", 1) != VERSION:
            raise InputError(
                "table of samples of a newer toruscast",
                file=path,
                found=f"version {origin['version']}, written by {origin.get('toruscast')}",
                expected=f"version {VERSION}; a newer toruscast reads it",
            )
        table: pd.DataFrame = content.to_pandas()
    except FileNotFoundError:
        raise MissingFileError("cannot be read", file=path, found="no such file") from None
    except InputError:
        raise
    # Damage of the metadata can show as nearly any error in the libraries underneath.
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError("not a readable Parquet file", file=path, found=reason) from None
    _check_labels(table, path)
    _check_values(table, path)
    if len(table) != origin.get("n_samples"):
        raise InputError(
            "samples missing", file=path, found=len(table), expected=origin.get("n_samples")
        )
    others = changed_since(table.columns, dict(origin.get("marks", {})))
    if others and changed == "refuse":
        raise InputError(
            "features that were changed since the samples were made",
            file=path,
            found=", ".join(others),
            expected="samples made anew: --samples FILE beside --comm and --torus",
        )
    table.attrs["provenance"] = origin
    # What is kept of runs that have not ended is read by the hundred.
    if changed == "refuse":
        note_read("samples", path, began, samples=len(table))
    return table


class SampleFiles:
    """A table of samples, and the values of runs that have not ended: a cell a feature and key.

    Several processes may use them at a time.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._store = Path(path)

    def read(self, how: SampleOptions) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the values of runs that have not ended, and the finished table if there is one.

        They are without features of another function than that of their name today.
        """
        with locked(self._store) as database:
            return self._read(database, how)[:2]

    def keep(self, values: pd.DataFrame, how: SampleOptions) -> None:
        """Keep some values, so that a run that is killed need not compute them again."""
        marks, keys = marks_of(how), values["key"]
        cells = (
            (key, name, marks.get(name, name), value)
            for name in values.columns.difference(list(LABELS))
            for key, value in zip(keys, values[name].tolist(), strict=True)
        )
        with locked(self._store) as database:
            database.executemany("INSERT OR REPLACE INTO cell VALUES (?, ?, ?, ?)", cells)

    def merge(
        self, table: pd.DataFrame, how: SampleOptions, provenance: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Add samples to the table, with all that was kept of them; return what is noted."""
        with locked(self._store) as database:
            kept, finished, marks, before = self._read(database, how)
            # Rows by their names; what they hold by their keys.
            rows = pd.concat([each[list(LABELS)] for each in (finished, table) if len(each)])
            rows = rows.drop_duplicates(keep="last", ignore_index=True)
            held = known([table, kept, finished])
            whole = rows.join(held.drop(columns=list(LABELS), errors="ignore"), on="key")
            names = table.columns.difference(list(LABELS))
            lacking = known([finished]).reindex(index=table["key"], columns=names).isna()
            is_new = bool(lacking.any(axis=None))
            origin = noted(whole, how, provenance, marks, before, is_new=is_new)
            write_samples(_ordered(whole), self._store, origin)
            database.executemany("DELETE FROM cell WHERE key = ?", zip(whole["key"].unique()))
        return origin

    def _read(
        self, database: sqlite3.Connection, how: SampleOptions
    ) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, str], dict[str, Any]]:
        """Return what was kept, the finished table, the marks of both, and what was noted.

        The mark of a feature is that asked for, that in the table, or the newest that was kept.
        """
        finished = pd.DataFrame(columns=list(LABELS))
        if self._store.exists():
            finished = read_samples(self._store, changed="keep")
        before = finished.attrs.get("provenance", {})
        stored = {name: before.get("marks", {}).get(name, name) for name in finished.columns}
        cells = database.execute("SELECT * FROM cell ORDER BY rowid").fetchall()
        marks = {name: mark for _, name, mark, _ in cells} | stored
        marks |= {feature.name: mark_of(feature) for feature in how.features}
        kept: dict[str, dict[str, float]] = {}
        for key, name, mark, value in cells:
            if mark == marks[name] and value is not None:
                kept.setdefault(name, {})[key] = value
        others = [name for name, mark in stored.items() if mark != marks[name]]
        return (
            pd.DataFrame(kept).rename_axis("key").reset_index(),
            finished.drop(columns=others),
            {name: mark for name, mark in marks.items() if mark != name},
            before,
        )


@contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[sqlite3.Connection]:
    """Give the database beside a table; nobody else reads or writes either meanwhile.

    What is killed leaves no lock. A database without values is gone afterwards. The same thread
    must not ask twice.

    Raises
    ------
    InputError
        If the database cannot be used, or values of an older version stand beside the table.
    """
    store = Path(os.path.realpath(path))
    place, old = (store.with_name(store.name + suffix) for suffix in (".sqlite", ".parts"))
    if old.is_dir():
        raise InputError(
            "samples that an older toruscast did not finish",
            file=old,
            expected="no such folder: remove it, and they are simulated again",
        )
    try:
        with folder_to_fill(place.parent) as folder, _alone_in(folder) as is_alone:
            is_empty = False
            try:
                with closing(_opened(place)) as database:
                    try:
                        yield database
                        database.execute("COMMIT")
                    except BaseException:
                        # What a full disk stopped halfway is undone by the next that reads.
                        with suppress(sqlite3.Error):
                            database.execute("SELECT 1 FROM sqlite_master").fetchone()
                        raise
                    is_empty = not database.execute("SELECT 1 FROM cell").fetchone()
            finally:
                # SQLite does not bear that a database goes while others open it. What was not
                # committed is undone when it is closed: a new one then has no bytes.
                if is_alone and (is_empty or (place.is_file() and not place.stat().st_size)):
                    place.unlink()
    except sqlite3.Error as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_FULL:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.fspath(place)) from None
        raise InputError(
            "unfinished samples cannot be used",
            file=place,
            found=error,
            expected="a database of toruscast; without it they are simulated again",
        ) from None


@contextmanager
def _alone_in(folder: Path) -> Iterator[bool]:
    """Make others that ask the same wait; give whether they do: not all file systems can."""
    with ExitStack() as stack:
        is_alone = False
        with suppress(ImportError, OSError):
            import fcntl

            handle = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX)
            is_alone = True
        yield is_alone


def _has_locks(folder: Path) -> bool:
    """Whether files of a folder can be locked.

    SQLite takes what NFS without its lock service says for locks that others hold, and waits.
    """
    try:
        import fcntl

        with tempfile.TemporaryFile(dir=folder) as probe:
            fcntl.lockf(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:
        return True
    except OSError as error:
        return error.errno != errno.ENOLCK
    return True


def _opened(place: Path) -> sqlite3.Connection:
    """Open a database and begin to write, once all others have ended what they write.

    Its journal is the plain one, which network file systems bear: nobody reads meanwhile, and a
    commit comes after simulations that take longer. Where there are no locks, it goes without.
    """
    without = "?nolock=1"
    for locks in ("", without) if _has_locks(place.parent) else (without,):
        database = sqlite3.connect(
            f"{place.as_uri()}{locks}", timeout=_PATIENCE, isolation_level=None, uri=True
        )
        try:
            database.execute("BEGIN IMMEDIATE")
            database.execute(_CELLS)
            break
        except BaseException as error:
            database.close()
            if locks or getattr(error, "sqlite_errorcode", None) not in _NO_LOCKS:
                raise
    return database


def known(tables: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Return what tables hold of each sample, by its key; where several do, of the first."""
    some = [table for table in tables if len(table)]
    if not some:
        return pd.DataFrame()
    return pd.concat(some, ignore_index=True).groupby("key", sort=False).first()


def noted(
    samples: pd.DataFrame,
    how: SampleOptions,
    provenance: Mapping[str, Any],
    marks: Mapping[str, str],
    before: Mapping[str, Any] = MappingProxyType({}),
    *,
    is_new: bool = True,
) -> dict[str, Any]:
    """Return what is noted with samples, beside what was noted with those of ``before``."""
    return {
        **before,
        "format": FORMAT,
        "version": VERSION,
        **(_made() if is_new else {}),
        "routing": _all(before.get("routing", how.routing), how.routing),
        "coarsening": _all(before.get("coarsening", how.coarsening), how.coarsening),
        **provenance,
        "level": max(before.get("level", 1), provenance["level"]),
        "kinds": sorted({*before.get("kinds", []), *provenance["kinds"]}),
        "marks": dict(marks),
        "graphs": sorted(set(samples["workload"])),
        "tori": sorted(set(samples["torus"])),
    }


def _made() -> dict[str, str]:
    """Return by what and when samples are added."""
    return {
        "toruscast": toruscast.__version__,
        "numpy": np.__version__,
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _all(before: object, now: object) -> object:
    """Return what was noted before and now: a list if they differ."""
    every = {*(before if isinstance(before, list) else [before]), now}
    return now if len(every) == 1 else sorted(every, key=str)


def _ordered(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with its features in the order of the registry, whoever added them when."""
    features = [name for name in FEATURES if name in table.columns]
    others = table.columns.difference([*LABELS, *features, "time"], sort=False)
    return table[[*LABELS, *features, *others, "time"]]


def _check_values(table: pd.DataFrame, path: str | os.PathLike[str]) -> None:
    """Raise where a label is no text, a number none, or rows of one key contradict each other.

    Tables are joined by their keys: such rows would lose what they hold.
    """
    for name in LABELS:
        bad = [value for value in table[name] if not isinstance(value, str)]
        if bad:
            raise InputError(
                f"column {name} of samples", file=path, found=bad[0], expected="text in every row"
            )
    numeric = [name for name in table.columns if pd.api.types.is_numeric_dtype(table[name])]
    for name in table.columns.difference([*LABELS, *numeric]):
        if name == "time" or name in FEATURES:
            found = str(table[name].dtype)
            raise InputError(
                f"column {name} of samples", file=path, found=found, expected="numbers"
            )
    twice = table[table["key"].duplicated(keep=False)]
    groups = twice.groupby("key")[numeric]
    if (
        len(twice)
        and numeric
        and (groups.max() != groups.min()).where(groups.count() > 0).any(axis=None)
    ):
        raise InputError(
            "samples with one key differ", file=path, expected="a key for each workload and mapping"
        )


def _check_labels(table: pd.DataFrame, path: str | os.PathLike[str] | None) -> None:
    missing = [name for name in LABELS if name not in table.columns]
    if missing:
        raise InputError(
            "columns missing from samples", file=path, found=list(table.columns), expected=missing
        )
