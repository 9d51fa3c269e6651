"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import gzip
import logging
import os
import re
import shutil
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from toruscast.errors import InputError

logger = logging.getLogger(__name__)
# Errors of a full disk.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


# How content begins that a suffix promises.
PROMISED = {
    ".npz": b"PK",
    ".zip": b"PK",
    ".npy": b"\x93NUMPY",
    ".parquet": b"PAR1",
    ".bz2": b"BZh",
    ".xz": b"\xfd7zXZ",
    ".zst": b"\x28\xb5\x2f\xfd",
    ".7z": b"7z\xbc\xaf",
    ".pdf": b"%PDF",
    ".png": b"\x89PNG",
}
_DEVICES = re.compile("/(proc|dev/(?!shm/))")
_GZIP = b"\x1f\x8b"


def check_target(path: str | os.PathLike[str], *, text: bool = False) -> Path:
    """Return the file that ``path`` names behind its symbolic links, if it can be written.

    Parameters
    ----------
    path : path-like
        Where to.
    text : bool
        Whether it is to hold text, so that its suffix must not promise anything else.

    Raises
    ------
    InputError
        If the folder of ``path`` is missing or not writable, ``path`` is a folder, a device or a
        pipe, or its suffix promises other content.
    """
    try:
        if not os.fspath(path):
            raise InputError("cannot be written", found="an empty path", expected="a file name")
        # A symbolic link stays one; the file it names is replaced.
        target = Path(os.path.realpath(path))
        if target.is_symlink():
            raise InputError("cannot be written", file=path, found="a loop of symbolic links")
        # Those of an open file would be replaced under the one who holds it.
        special = _DEVICES.match(os.fspath(path)) or (
            target.exists() and not stat.S_ISREG(target.stat().st_mode)
        )
        if special:
            kind = "a folder" if target.is_dir() else "a device or a pipe"
            stdout = "" if target.is_dir() else "; - is stdout where an option takes it"
            raise InputError(
                "cannot be written", file=path, found=kind, expected=f"a file name{stdout}"
            )
        if not target.parent.is_dir():
            raise InputError("cannot be written", file=path, found="no such folder")
        if not os.access(target.parent, os.W_OK):
            raise InputError("cannot be written", file=path, found="a folder without permission")
    except OSError as error:
        raise InputError("cannot be written", file=path, found=error.strerror or error) from None
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError("bad file name", file=path, found=error) from None
    if text and target.suffix.lower() in PROMISED:
        raise _other_content(path, target)
    return target


def _other_content(path: str | os.PathLike[str], target: Path) -> InputError:
    return InputError(
        "suffix of another kind of content",
        file=path,
        found=target.suffix,
        expected="the suffix of what is written, such as .txt, .csv or .json, or .gz behind it",
    )


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary file to write, which becomes ``path`` once the block ends without an error.

    The temporary file lies in the same folder, ends with the same suffix and exists, empty. If the
    block raises, it is removed and what stood at ``path`` before stays as it was. Where ``path``
    ends in ``.gz`` and the block wrote no gzip, it is packed.

    Raises
    ------
    InputError
        As `check_target`; or if the content is not what the suffix promises.
    OSError
        If the block wrote nothing.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "result.txt"
    >>> with atomic_path(target) as temporary:
    ...     _ = temporary.write_text("whole")
    >>> target.read_text()
    'whole'
    """
    target = check_target(path)
    try:
        with temporary_beside(path) as temporary:
            yield temporary
            size = _checked(temporary, target, path)
            temporary.replace(target)
    except OSError as error:
        # The error of a full disk names no file.
        if error.errno in _FULL:
            raise OSError(error.errno, os.strerror(error.errno), os.fspath(path)) from None
        raise
    note_written(path, size)


def note_written(path: str | os.PathLike[str], size: int) -> None:
    """Record that a file of so many bytes was written."""
    written = {"event": "wrote", "file": os.fspath(path), "size": size}
    logger.info("wrote %s: %s bytes", path, f"{size:,}", extra=written)


@contextmanager
def temporary_beside(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give an empty hidden file in the folder of ``path``; it is removed unless moved.

    A process that is killed leaves it.

    Raises
    ------
    InputError
        If it cannot be made.
    """
    temporary = _hidden(Path(os.path.realpath(path)))
    try:
        temporary.touch(exist_ok=False)
    except OSError as error:
        raise InputError("cannot be written", file=path, found=error.strerror or error) from None
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _checked(temporary: Path, target: Path, path: str | os.PathLike[str]) -> int:
    """Return the size of what was written, packed where the name says so."""
    with temporary.open("rb") as file:
        start = file.read(16)
    if not start:
        raise OSError(errno.EIO, "nothing was written", os.fspath(path))
    suffix = target.suffix.lower()
    if not start.startswith(PROMISED.get(suffix, b"")):
        raise _other_content(path, target)
    if suffix == ".gz" and not start.startswith(_GZIP):
        with temporary_beside(target) as packed:
            with (
                temporary.open("rb") as plain,
                packed.open("wb") as raw,
                gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as stream,
            ):
                shutil.copyfileobj(plain, stream)
            packed.replace(temporary)
    return temporary.stat().st_size


@contextmanager
def folder_beside(target: Path, place: Path) -> Iterator[Path]:
    """Give an empty hidden folder in ``place`` for what becomes ``target``, then remove it."""
    stage = _hidden(place / target.name)
    try:
        stage.mkdir()
        yield stage
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _hidden(target: Path) -> Path:
    return target.with_name(f".{uuid.uuid4().hex}{target.suffix}")


@contextmanager
def folder_to_fill(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Make a folder if it is missing; where the block raises, leave no empty new one behind.

    Raises
    ------
    InputError
        If it cannot be made.

    Examples
    --------
    >>> import tempfile
    >>> with folder_to_fill(Path(tempfile.mkdtemp()) / "maps") as folder:
    ...     _ = (folder / "a.map").write_text("0 0 0")
    >>> folder.is_dir()
    True
    """
    try:
        place = Path(path)
        new = [folder for folder in (place, *place.parents) if not folder.exists()]
        place.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        found = getattr(error, "strerror", None) or error
        raise InputError("folder cannot be made", file=path, found=found) from None
    try:
        yield place
    except BaseException:
        for folder in new:
            with suppress(OSError):
                folder.rmdir()
        raise
