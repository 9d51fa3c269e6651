"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import logging
import os
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from toruscast.errors import InputError

logger = logging.getLogger(__name__)


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary file to write, which becomes ``path`` once the block ends without an error.

    The temporary file lies in the same folder, ends with the same suffix and exists, empty. If the
    block raises, it is removed and what stood at ``path`` before stays as it was.

    Raises
    ------
    InputError
        If the folder of ``path`` is missing or not writable, or ``path`` is a folder or device.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "result.txt"
    >>> with atomic_path(target) as temporary:
    ...     _ = temporary.write_text("whole")
    >>> target.read_text()
    'whole'
    """
    try:
        # A symbolic link stays one; the file it names is replaced.
        target = Path(os.path.realpath(path))
        if target.exists() and not stat.S_ISREG(target.stat().st_mode):
            kind = "a folder" if target.is_dir() else "no regular file"
            raise InputError("cannot be written", file=path, found=kind, expected="a file name")
        temporary = target.with_name(f".{uuid.uuid4().hex}{target.suffix}")
        temporary.touch(exist_ok=False)
    except OSError as error:
        raise InputError("cannot be written", file=path, found=error.strerror or error) from None
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError("bad file name", file=path, found=error) from None
    try:
        try:
            yield temporary
            size = temporary.stat().st_size
            temporary.replace(target)
            written = {"event": "wrote", "file": os.fspath(path), "size": size}
            logger.info("wrote %s: %s bytes", path, f"{size:,}", extra=written)
        except OSError as error:
            # A full disk has no name of its own to tell.
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            raise OSError(error.errno, os.strerror(error.errno), os.fspath(path)) from None
    finally:
        temporary.unlink(missing_ok=True)


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
