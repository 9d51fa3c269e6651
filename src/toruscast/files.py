"""Files at the door: regular ones only, and no text that costs more than it is long."""

from __future__ import annotations

import io
import logging
import math
import os
import re
import stat
import time
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import InputError, MissingFileError
from .wording import counted

logger = logging.getLogger(__name__)
_STDIN = "/dev/stdin"
# A packed file may hold this many times its own size, or this many bytes if that is more.
_MAX_RATIO = 100
_LEAST_LIMIT = 2**25
_MAX_DOTS = 16
# Members of an archive of arrays; the directory of a million takes seconds.
_MAX_MEMBERS = 1000
_MEMBER = b"PK\x01\x02"
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# A key of many parts: dots outside of strings, before the equals sign or in the brackets.
_DOTTED = re.compile(rf"^[^=\"'#]*(?:\.[^=\"'#.]*){{{_MAX_DOTS},}}")


def check_regular(path: str | os.PathLike[str]) -> None:
    """Raise unless this names a regular file: reading a device or a pipe may never end.

    Raises
    ------
    MissingFileError
        If there is no such file.
    InputError
        If it is a folder, a device or a pipe, or cannot be looked at.
    """
    try:
        mode = Path(path).stat().st_mode
    except FileNotFoundError:
        raise MissingFileError("no such file or folder", file=path) from None
    except ValueError as error:
        raise InputError("bad file name", file=path, found=error) from None
    except OSError as error:
        raise InputError("cannot be read", file=path, found=error.strerror or error) from None
    if stat.S_ISDIR(mode):
        raise InputError("folder in place of a file", file=path)
    if not stat.S_ISREG(mode):
        raise InputError("not a regular file", file=path, found="a device or a pipe")


def read_limited(path: str | os.PathLike[str], most: int) -> bytes:
    """Return the content of a regular file, or of standard input, of at most so many bytes.

    Raises
    ------
    MissingFileError
        If there is no such file.
    InputError
        If it is no regular file, is larger, or cannot be read.
    """
    if os.fspath(path) != _STDIN:
        check_regular(path)
    try:
        with Path(path).open("rb") as stream:
            # As many bytes as are asked for are set aside.
            size = os.fstat(stream.fileno()).st_size
            content = stream.read(most + 1 if os.fspath(path) == _STDIN else min(most, size) + 1)
    except OSError as error:
        raise InputError("cannot be read", file=path, found=error.strerror or error) from None
    if len(content) > most:
        raise InputError("file too large", file=path, expected=f"at most {most} bytes")
    return content


def note_read(what: str, path: str | os.PathLike[str], began: float, **counts: int) -> None:
    """Record that something was read, since a moment of `time.perf_counter`.

    ``counts`` say how much is in it, such as ``tasks=64``.
    """
    if not logger.isEnabledFor(logging.INFO):
        return
    seconds, place = time.perf_counter() - began, Path(path)
    size = place.stat().st_size if place.is_file() else None
    amounts = [counted(number, noun[:-1]) for noun, number in counts.items()]
    if size is not None:
        amounts.append(counted(size, "byte"))
    logger.info(
        "read %s %s: %s, in %.3g s",
        what,
        path,
        ", ".join(amounts),
        seconds,
        extra={
            "event": "read",
            "what": what,
            "file": os.fspath(path),
            "size": size,
            "seconds": seconds,
            **counts,
        },
    )


def most_unpacked(path: str | os.PathLike[str], most: int) -> int:
    """Return the most bytes that a packed file may hold, ``most`` at the utmost.

    Real files are packed to a tenth, and a small file must not fill the memory.
    """
    return min(most, max(_LEAST_LIMIT, _MAX_RATIO * Path(path).stat().st_size))


def parse_toml(content: bytes, path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what TOML text holds; keys of very many parts, which cost much memory, are refused.

    Raises
    ------
    InputError
        If it is no TOML in UTF-8, or a key has too many parts.

    Examples
    --------
    >>> parse_toml(b"shape = [4, 4]", "torus.toml")
    {'shape': [4, 4]}
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("not UTF-8 text", file=path, expected="TOML") from None
    for number, line in enumerate(text.splitlines(), start=1):
        if _DOTTED.match(line):
            expected = f"fewer than {_MAX_DOTS} dots"
            raise InputError("key of too many parts", file=path, line=number, expected=expected)
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise InputError("nested too deeply", file=path, expected="TOML") from None
    except ValueError as error:
        raise InputError("no TOML", file=path, found=error) from None


def arrays_of_npz(data: bytes, path: str | os.PathLike[str], most: int) -> dict[str, NDArray[Any]]:
    """Return the arrays of an ``.npz`` archive, of at most so many bytes unpacked.

    Nothing is unpickled. A member is unpacked once, and only after its sizes were compared: that of
    the archive's directory, that of its own header and the limit.

    Raises
    ------
    InputError
        If the archive is damaged or too large, or a name stands in it twice.
    """
    try:
        if data.count(_MEMBER) > _MAX_MEMBERS:
            expected = f"at most {_MAX_MEMBERS} arrays"
            raise InputError("archive of too many parts", file=path, expected=expected)
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            names = [member.filename.removesuffix(".npy") for member in members]
            size = sum(member.file_size for member in members)
            if size > most:
                expected = f"at most {most} bytes"
                raise InputError("archive too large", file=path, found=size, expected=expected)
            if len(set(names)) < len(names):
                twice = next(name for name in names if names.count(name) > 1)
                raise InputError("array named twice in an archive", file=path, found=twice)
            if any(each.compress_type not in _PACKED for each in members):
                raise InputError("damaged .npz file", file=path, found="another kind of packing")
            return {
                name: _array(archive.read(member))
                for name, member in zip(names, members, strict=True)
            }
    except InputError:
        raise
    except (ValueError, EOFError, OSError, RuntimeError, SyntaxError, zipfile.BadZipFile) as error:
        raise InputError("damaged .npz file", file=path, found=error) from None
    # Hostile bytes give errors of many kinds: struct.error, zlib.error, KeyError, ...
    except (Exception, MemoryError) as error:
        raise InputError("damaged .npz file", file=path, found=type(error).__name__) from None


def _array(raw: bytes) -> NDArray[Any]:
    """Return the array of a .npy file whose header promises no more than the file holds."""
    stream = io.BytesIO(raw)
    if np.lib.format.read_magic(stream) == (1, 0):
        shape, by_columns, dtype = np.lib.format.read_array_header_1_0(stream)
    else:
        shape, by_columns, dtype = np.lib.format.read_array_header_2_0(stream)
    if dtype.hasobject:
        raise ValueError("arrays of objects are not read")
    start = stream.tell()
    if not dtype.itemsize or math.prod(shape) * dtype.itemsize != len(raw) - start:
        raise ValueError("array and header differ in size")
    order: Any = "F" if by_columns else "C"
    return np.ndarray(shape, dtype, raw, start, order=order).copy()
