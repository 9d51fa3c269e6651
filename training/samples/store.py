"""Tables of samples on disk: Parquet, with where they come from."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from toruscast.errors import InputError, MissingFileError
from toruscast.features import FEATURES
from toruscast.files import check_regular, note_read
from toruscast.mapping.formats import atomic_path

from ._keys import changed_since

FORMAT = "toruscast samples"
VERSION = 1
_KEY = b"toruscast"
_EXPECTED = "one that toruscast train, evaluate or python -m studies build wrote, as it stands"
LABELS = ("workload", "torus", "mapping", "key")


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
    import pyarrow as pa
    import pyarrow.parquet as pq

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
        pq.write_table(content, temporary)


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
    import pyarrow as pa
    import pyarrow.parquet as pq

    began = time.perf_counter()
    check_regular(path)
    try:
        with open(path, "rb") as stream:  # noqa: PTH123
            # Threads that read ahead in a Python file may outlive the interpreter and abort it.
            content = pq.read_table(pa.PythonFile(stream), use_threads=False, pre_buffer=False)
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


@contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Make others that ask the same for a file of this folder wait; what has no locks goes without.

    The lock is the system's, on the folder: nothing is left behind, even of what was killed. The
    same thread must not ask twice.
    """
    handle = None
    with suppress(ImportError, OSError):
        import fcntl

        handle = os.open(Path(os.path.realpath(path)).parent, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


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
