"""Files in and out: regular ones on input, whole or not at all on output."""

from __future__ import annotations

import errno
import gzip
import io
import json
import logging
import math
import os
import re
import shutil
import stat
import time
import tomllib
import uuid
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._slow import numpy as np
from .errors import InputError, MissingFileError
from .text import counted
from .validation import check_type, repeated

if TYPE_CHECKING:
    from numpy.typing import NDArray

logger = logging.getLogger(__name__)
_STDIN = "/dev/stdin"
# A packed file may hold this many times its own size, or this many bytes if that is more.
_MAX_RATIO = 100
_MIN_LIMIT = 2**25
# What is made of a file may take this many bytes, or this many times its size if that is more.
_MIN_CLAIM = 400e6
_MAX_CLAIM = 1000
_MAX_DOTS = 16
# Members of an archive of arrays; the directory of a million takes seconds.
_MAX_MEMBERS = 1000
_MEMBER = b"PK\x01\x02"
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_UTF8 = "UTF-8 text: save the file as UTF-8"
_MARKS = (
    (b"\xff\xfe\0\0", "UTF-32"),
    (b"\0\0\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)
# A key of many parts: dots outside of strings, before the equals sign or in the brackets.
_DOTTED = re.compile(rf"^[^=\"'#]*(?:\.[^=\"'#.]*){{{_MAX_DOTS},}}")


def check_path(path: object) -> None:
    """Raise `InputError` unless this may name a file."""
    check_type(path, "path", str | os.PathLike, "the name of a file or folder")
    try:
        os.fsencode(path)  # type: ignore[arg-type]
    except UnicodeEncodeError:
        raise InputError("bad file name", found=ascii(path)) from None


@contextmanager
def at_file(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn the system's errors into `InputError`, and add the file to errors without one."""
    check_path(path)
    try:
        if not os.fspath(path):
            raise FileNotFoundError
        yield
    except InputError as error:
        if error.file is not None:
            raise
        raise error.replace(file=path) from None
    except FileNotFoundError:
        found = None if os.fspath(path) else "an empty path"
        raise MissingFileError("no such file or folder", file=path, found=found) from None
    except EOFError:
        raise InputError("truncated gzip file", file=path) from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError("damaged gzip file", file=path, found=error) from None
    except OSError as error:
        raise InputError("cannot be read", file=path, found=error.strerror or error) from None
    except ValueError as error:
        raise InputError("bad file name", file=path, found=error) from None


def check_regular(path: str | os.PathLike[str]) -> None:
    """Raise unless this names a regular file: reading a device or a pipe may never end."""
    with at_file(path):
        mode = Path(path).stat().st_mode
    if stat.S_ISDIR(mode):
        raise InputError("folder in place of a file", file=path)
    if not stat.S_ISREG(mode):
        raise InputError("not a regular file", file=path, found="a device or a pipe")


def read_limited(path: str | os.PathLike[str], most: int) -> bytes:
    """Return the content of a regular file, or of standard input, of at most so many bytes."""
    check_path(path)
    is_stdin = os.fspath(path) == _STDIN
    if not is_stdin:
        check_regular(path)
    with at_file(path), Path(path).open("rb") as stream:
        # Python allocates as many bytes as are asked for.
        size = most if is_stdin else min(most, os.fstat(stream.fileno()).st_size)
        content = stream.read(size + 1)
    if len(content) > most:
        raise InputError("file too large", file=path, expected=f"at most {most} bytes")
    return content


def note_read(what: str, path: str | os.PathLike[str], began: float, **counts: int) -> None:
    """Record that something was read, since a moment of `time.perf_counter`.

    ``counts`` say how much is in it, such as ``tasks=64``.
    """
    seconds, place = time.perf_counter() - began, Path(path)
    size = place.stat().st_size if place.is_file() else None
    known = counts if size is None else {**counts, "bytes": size}
    amounts = ", ".join(counted(number, noun[:-1]) for noun, number in known.items())
    found = {"what": what, "file": os.fspath(path), "size": size, "seconds": seconds, **counts}
    words = f"read %(what)s %(file)s: {amounts}, in %(seconds).3g s"
    logger.info(words, found, extra={"event": "read", **found})


def max_unpacked(path: str | os.PathLike[str], most: int, ratio: int = _MAX_RATIO) -> int:
    """Return the most bytes that a packed file may hold, ``most`` at the utmost.

    Real files are packed to a tenth, and a small file must not fill the memory.
    """
    return min(most, max(_MIN_LIMIT, ratio * Path(path).stat().st_size))


def check_claim(path: str | os.PathLike[str], nbytes: float, found: str) -> None:
    """Raise unless a file may claim so many bytes of memory, before they are taken.

    That is 400 MB, or a thousand times the file's own size if that is more: a text of a few lines
    must not fill the memory, and real tables are packed less than that.
    """
    place = Path(path)
    size = place.stat().st_size if place.is_file() else 0
    most = max(_MIN_CLAIM, _MAX_CLAIM * size)
    if nbytes > most:
        raise InputError(
            "file claims too much",
            file=path,
            found=f"{found}, {nbytes / 1e9:.3g} GB",
            expected=f"at most {most / 1e9:.3g} GB for a file of {counted(size, 'byte')}",
        )


def check_text(data: bytes, path: str | os.PathLike[str], line: int | None = None) -> None:
    """Raise, with the remedy, unless bytes are text in UTF-8.

    ``line`` is theirs, if they are one.
    """
    if wide := next((name for mark, name in _MARKS if data.startswith(mark)), None):
        raise InputError(f"{wide} text", file=path, expected=_UTF8)
    if b"\0" in data:
        expected = "text, or --format for a binary format"
        raise InputError("binary file", file=path, expected=expected)
    if data.isascii():
        return
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            "not UTF-8 text",
            file=path,
            line=data.count(b"\n", 0, error.start) + 1 if line is None else line,
            found=f"byte 0x{data[error.start]:02x}",
            expected=_UTF8,
        ) from None


def as_string(data: bytes, path: str | os.PathLike[str]) -> str:
    r"""Return text in UTF-8 without a byte order mark, its line ends all of one kind."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    check_text(data, path)
    return data.decode().replace("\r\n", "\n").replace("\r", "\n")


def parse_toml(content: bytes, path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what TOML text holds; keys of very many parts, which cost much memory, are refused."""
    text = as_string(content, path)
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


def parse_json(text: str, path: str | os.PathLike[str], line: int | None = None) -> Any:
    """Return what JSON text holds, the whole of a file or the text of one line."""

    def only_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if twice := repeated(name for name, _ in pairs):
            raise InputError("a key stands twice", file=path, line=line, found=twice[0])
        return dict(pairs)

    try:
        return json.loads(text, object_pairs_hook=only_once)
    except InputError:
        raise
    except json.JSONDecodeError as error:
        where = error.lineno if line is None else line
        raise InputError("is not JSON", file=path, line=where, found=error.msg) from None
    except RecursionError:
        raise InputError("is nested too deeply", file=path, line=line) from None
    except ValueError:
        # The only other error: Python limits the digits of whole numbers.
        raise InputError("a number has too many digits", file=path, line=line) from None


def arrays_of_npz(data: bytes, path: str | os.PathLike[str], most: int) -> dict[str, NDArray[Any]]:
    """Return the arrays of an ``.npz`` archive, of at most so many bytes unpacked.

    Nothing is unpickled. A member is unpacked once, and only after its sizes were compared: that of
    the archive's directory, that of its own header and the limit.
    """
    if data.count(_MEMBER) > _MAX_MEMBERS:
        expected = f"at most {_MAX_MEMBERS} arrays"
        raise InputError("archive of too many parts", file=path, expected=expected)
    with as_damaged(path, ".npz file"), zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        names = [member.filename.removesuffix(".npy") for member in members]
        if (size := sum(member.file_size for member in members)) > most:
            expected = f"at most {most} bytes"
            raise InputError("archive too large", file=path, found=size, expected=expected)
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise InputError("array named twice in an archive", file=path, found=twice[0])
        if any(each.compress_type not in _PACKED for each in members):
            raise ValueError("another kind of packing")
        pairs = zip(names, members, strict=True)
        return {name: _read_array(archive.read(member)) for name, member in pairs}


def array_of_npy(data: bytes, path: str | os.PathLike[str]) -> NDArray[Any]:
    """Return the array of a ``.npy`` file; nothing is unpickled."""
    with as_damaged(path, "NumPy array"):
        return _read_array(data)


@contextmanager
def as_damaged(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Turn other errors into one that the file is damaged; add the file to ours."""
    check_path(path)
    try:
        yield
    except InputError as error:
        raise error.replace(file=error.file or path) from None
    # Hostile bytes give errors of many kinds: struct.error, zlib.error, KeyError, ...
    except (Exception, MemoryError) as error:
        clear = isinstance(error, ValueError | EOFError | OSError | zipfile.BadZipFile)
        found = error if clear else type(error).__name__
        raise InputError(f"damaged {what}", file=path, found=found) from None


def _read_array(raw: bytes) -> NDArray[Any]:
    """Return the array of a .npy file that holds nothing else."""
    stream = io.BytesIO(raw)
    form = np.lib.format
    is_first = form.read_magic(stream)[0] == 1
    read_header = form.read_array_header_1_0 if is_first else form.read_array_header_2_0
    shape, _, dtype = read_header(stream)
    if not dtype.itemsize or math.prod(shape) * dtype.itemsize != len(raw) - stream.tell():
        raise ValueError("array and header differ in size")
    stream.seek(0)
    array: NDArray[Any] = form.read_array(stream, allow_pickle=False)
    return array


# Errors of a full disk.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


# First bytes of files with these suffixes.
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
    """Return the file that ``path`` names behind its symbolic links, if it can be written."""
    check_path(path)
    try:
        # A symbolic link stays one; the file it names is replaced.
        target = Path(os.path.realpath(path))
        found: object = _why_not_written(path, target)
    except (OSError, ValueError) as error:
        found = getattr(error, "strerror", None) or error
    if found:
        raise InputError("cannot be written", file=path, found=found, expected="a file name")
    if text and target.suffix.lower() in PROMISED:
        raise _other_content(path, target)
    return target


def _why_not_written(path: str | os.PathLike[str], target: Path) -> str | None:
    """Return why a file cannot be written."""
    if not os.fspath(path):
        return "an empty path"
    if target.is_symlink():
        return "a loop of symbolic links"
    if target.is_dir():
        return "a folder"
    # Writing them would replace the files of another process.
    if _DEVICES.match(os.fspath(path)) or (target.exists() and not target.is_file()):
        return "a device or a pipe; - is stdout where an option takes it"
    if not target.parent.is_dir():
        return "no such folder"
    return None if os.access(target.parent, os.W_OK) else "a folder without permission"


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
    """
    target = check_target(path)
    try:
        with temporary_beside(path) as temporary:
            yield temporary
            size = _finish_file(temporary, target, path)
            temporary.replace(target)
    except OSError as error:
        # The error of a full disk names no file.
        if error.errno in _FULL:
            raise OSError(error.errno, os.strerror(error.errno), os.fspath(path)) from None
        raise
    written = {"event": "wrote", "file": os.fspath(path), "size": size}
    logger.info("wrote %s: %s bytes", path, f"{size:,}", extra=written)


@contextmanager
def temporary_beside(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give an empty hidden file in the folder of ``path``; it is removed unless moved.

    A process that is killed leaves it.
    """
    temporary = _hidden_path(Path(os.path.realpath(path)))
    try:
        temporary.touch(exist_ok=False)
    except OSError as error:
        raise InputError("cannot be written", file=path, found=error.strerror or error) from None
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _finish_file(temporary: Path, target: Path, path: str | os.PathLike[str]) -> int:
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
    stage = _hidden_path(place / target.name)
    try:
        stage.mkdir()
        yield stage
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _hidden_path(target: Path) -> Path:
    return target.with_name(f".{uuid.uuid4().hex}{target.suffix}")


@contextmanager
def folder_to_fill(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Make a folder if it is missing; where the block raises, leave no empty new one behind."""
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
