"""A file of runs that grows by a line with each run, and is whole at every moment."""

from __future__ import annotations

import csv
import errno
import io
import os
from collections.abc import Iterable
from pathlib import Path

from toruscast.errors import InputError, MissingFileError

from .opening import read_text
from .times import MAPPING, columns_of_times, fields, read_runs, separator_of

_HEADER = (MAPPING, "time")
_GZIP = b"\x1f\x8b"


def holds_runs(path: str | os.PathLike[str]) -> bool:
    """Whether there is a run in a file; one that is not there, or names columns only, holds none.

    Raises
    ------
    InputError
        If the file cannot be read.
    """
    try:
        lines = _lines(path)
    except MissingFileError:
        return False
    return len(lines) > 1 or (len(lines) == 1 and columns_of_times(fields(lines[0])) is None)


def check_appendable(path: str | os.PathLike[str], mappings: Iterable[str]) -> None:
    """Raise unless runs of these mappings can be added to a file by `append_run`.

    Raises
    ------
    InputError
        If the file is packed or no file of runs, or a line cannot hold a name.
    """
    lines = []
    if Path(path).exists():
        if Path(path).read_bytes()[:2] == _GZIP:
            raise InputError("packed file, to which no line can be added", file=path)
        lines = _lines(path)
    for mapping in mappings:
        _row(path, lines, mapping, 1.0)


def append_run(path: str | os.PathLike[str], mapping: str, seconds: float) -> None:
    r"""Add a run to a file of `read_runs`, in its columns and its unit; make it if it is missing.

    The line is on the disk when this returns. If it cannot be written whole, the file stays as it
    was.

    Raises
    ------
    InputError
        If the file is not such, or a line cannot hold the name.
    OSError
        If it cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "runs.csv"
    >>> append_run(path, "row-major", 1.25)
    >>> append_run(path, "by-hand", 0.75)
    >>> path.read_text()
    'mapping,time\nrow-major,1.25\nby-hand,0.75\n'
    """
    check_appendable(path, ())
    is_new = not Path(path).exists()
    lines = [] if is_new else _lines(path)
    row = ("" if lines else ",".join(_HEADER) + "\n") + _row(path, lines, mapping, seconds)
    target = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        size = os.fstat(target).st_size
        if size and os.pread(target, 1, size - 1) != b"\n":
            row = "\n" + row
        content = row.encode()
        try:
            if os.write(target, content) != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(target)
        except OSError as error:
            os.ftruncate(target, size)
            raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    finally:
        os.close(target)
    if is_new:
        _sync_folder(Path(path).absolute().parent)


def is_logged(path: str | os.PathLike[str], size: int, mapping: str, seconds: float) -> bool:
    """Whether a run stands in a file behind its first ``size`` bytes."""
    if not holds_runs(path):
        return False
    first = Path(path).read_bytes()[:size].count(b"\n")
    return any(
        run.line > first and run.mapping == mapping and abs(run.time / seconds - 1) < 1e-9
        for run in read_runs(path)
    )


def _lines(path: str | os.PathLike[str]) -> list[str]:
    """Lines that are neither empty nor comments."""
    if Path(path).is_file() and not Path(path).stat().st_size:
        return []
    lines = (raw.strip() for raw in read_text(path).raw_lines())
    return [line for line in lines if line and not line.startswith("#")]


def _row(path: str | os.PathLike[str], lines: list[str], mapping: str, seconds: float) -> str:
    """The line of a run, in the columns that the first line names."""
    header = fields(lines[0]) if lines else list(_HEADER)
    place, times = columns_of_times(header) or (0, {1: 1.0})
    cells = [""] * len(header)
    column, unit = next(iter(times.items()))
    cells[place], cells[column] = mapping, repr(seconds / unit)
    stream = io.StringIO()
    mark = (separator_of(lines[0]) if lines else None) or ","
    if mapping.startswith("#"):
        # In quotes it is no comment.
        writer = csv.writer(stream, delimiter=mark, quoting=csv.QUOTE_ALL, lineterminator="\n")
    else:
        writer = csv.writer(stream, delimiter=mark, lineterminator="\n")
    writer.writerow(cells)
    row = stream.getvalue()
    if not mapping or len(row.splitlines()) != 1 or fields(row, mark) != cells:
        raise InputError("name of a mapping that no line can hold", file=path, found=repr(mapping))
    return row


def _sync_folder(folder: Path) -> None:
    """Put the name of a new file on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
