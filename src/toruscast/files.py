"""Safe reading of files, and atomic writing."""

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
AnyPath = str | os.PathLike[str]
_STDIN = "/dev/stdin"
# A packed file may expand to this many times its size, or to this many bytes if that is more.
_MAX_RATIO = 100
_MIN_LIMIT = 2**25
# The content of a file may take this many bytes of memory, or this many times the file's size.
_MIN_CLAIM = 400e6
_MAX_CLAIM = 1000
# Maximum number of members of an archive (the directory of a million would take seconds to read),
# and the bytes with which each member's entry in the directory starts.
_MAX_MEMBERS, _MEMBER_SIGNATURE = 1000, b"PK\x01\x02"
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_UTF8 = "UTF-8 text: save the file as UTF-8"
_BYTE_ORDER_MARKS = (
    (b"\xff\xfe\0\0", "UTF-32"),
    (b"\0\0\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)
# A TOML key with many dots takes a lot of memory.
_MAX_DOTS = 16
_DOTTED = re.compile(rf"^[^=\"'#]*(?:\.[^=\"'#.]*){{{_MAX_DOTS},}}")


def check_path(path: object) -> None:
    """Raise `InputError` unless the argument is a string or path that can name a file."""
    check_type(path, "path", str | os.PathLike, "the name of a file or folder")
    try:
        os.fsencode(path)  # type: ignore[arg-type]
    except UnicodeEncodeError:
        raise InputError("bad file name", found=ascii(path)) from None


@contextmanager
def at_file(path: AnyPath) -> Iterator[None]:
    """Convert system errors to `InputError`, and add the file name to errors without one."""
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


def check_regular(path: AnyPath) -> None:
    """Raise `InputError` for a folder, or for a device or pipe, which may block."""
    with at_file(path):
        mode = Path(path).stat().st_mode
    if stat.S_ISDIR(mode):
        raise InputError("folder in place of a file", file=path)
    if not stat.S_ISREG(mode):
        raise InputError("not a regular file", file=path, found="a device or a pipe")


def read_limited(path: AnyPath, limit: int) -> bytes:
    """Read a regular file or standard input of at most ``limit`` bytes."""
    check_path(path)
    is_stdin = os.fspath(path) == _STDIN
    if not is_stdin:
        check_regular(path)
    with at_file(path), Path(path).open("rb") as stream:
        # read() allocates the requested size at once.
        size = limit if is_stdin else min(limit, os.fstat(stream.fileno()).st_size)
        content = stream.read(size + 1)
    if len(content) > limit:
        raise InputError("file too large", file=path, expected=f"at most {limit} bytes")
    return content


def note_read(what: str, path: AnyPath, began: float, **counts: int) -> None:
    """Log that a file was read, and the seconds since ``began``, a value of `time.perf_counter`.

    ``counts`` describe the content, as in ``tasks=64``.
    """
    seconds, file = time.perf_counter() - began, Path(path)
    size = file.stat().st_size if file.is_file() else None
    amounts = counts if size is None else {**counts, "bytes": size}
    text = ", ".join(counted(number, noun[:-1]) for noun, number in amounts.items())
    details = {"what": what, "file": os.fspath(path), "size": size, "seconds": seconds, **counts}
    message = f"read %(what)s %(file)s: {text}, in %(seconds).3g s"
    logger.info(message, details, extra={"event": "read", **details})


def max_unpacked(path: AnyPath, limit: int, ratio: int = _MAX_RATIO) -> int:
    """Return the maximum unpacked size of a packed file, at most ``limit``.

    This protects against small malicious files. Real files have compression ratios of about 10.
    """
    return min(limit, max(_MIN_LIMIT, ratio * Path(path).stat().st_size))


def check_claim(path: AnyPath, nbytes: float, found: str) -> None:
    """Raise `InputError` if the content of a file needs too much memory for its size.

    The limit is 400 MB or 1000 times the size of the file, whichever is larger.
    """
    file = Path(path)
    size = file.stat().st_size if file.is_file() else 0
    limit = max(_MIN_CLAIM, _MAX_CLAIM * size)
    if nbytes > limit:
        found = f"{found}, {nbytes / 1e9:.3g} GB"
        expected = f"at most {limit / 1e9:.3g} GB for a file of {counted(size, 'byte')}"
        raise InputError("file needs too much memory", file=path, found=found, expected=expected)


def check_text(data: bytes, path: AnyPath, line: int | None = None) -> None:
    """Raise `InputError` unless the bytes of a file, or of one line, are UTF-8 text."""
    if wide := next((name for mark, name in _BYTE_ORDER_MARKS if data.startswith(mark)), None):
        raise InputError(f"{wide} text", file=path, expected=_UTF8)
    if b"\0" in data:
        expected = "text, or --format for a binary format"
        raise InputError("binary file", file=path, expected=expected)
    if data.isascii():
        return
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1 if line is None else line
        fault, found = "not UTF-8 text", f"byte 0x{data[error.start]:02x}"
        raise InputError(fault, file=path, line=line, found=found, expected=_UTF8) from None


def as_string(data: bytes, path: AnyPath) -> str:
    r"""Decode UTF-8 without a byte order mark, and convert line ends to "\n"."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    check_text(data, path)
    return data.decode().replace("\r\n", "\n").replace("\r", "\n")


def parse_toml(content: bytes, path: AnyPath) -> dict[str, Any]:
    """Parse TOML; keys with many parts raise an error, because they take a lot of memory."""
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
        raise InputError("invalid TOML", file=path, found=error) from None


def parse_json(text: str, path: AnyPath, line: int | None = None) -> Any:
    """Parse the JSON of a file, or of one line; repeated keys raise an error."""

    def to_unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if twice := repeated(name for name, _ in pairs):
            raise InputError("a key is repeated", file=path, line=line, found=twice[0])
        return dict(pairs)

    try:
        return json.loads(text, object_pairs_hook=to_unique)
    except InputError:
        raise
    except json.JSONDecodeError as error:
        where = error.lineno if line is None else line
        raise InputError("is not JSON", file=path, line=where, found=error.msg) from None
    except RecursionError:
        raise InputError("is nested too deeply", file=path, line=line) from None
    except ValueError:
        # Python limits the number of digits of an integer.
        raise InputError("a number has too many digits", file=path, line=line) from None


def arrays_of_npz(data: bytes, path: AnyPath, limit: int) -> dict[str, NDArray[Any]]:
    """Return the arrays of an ``.npz`` archive with at most ``limit`` unpacked bytes.

    Nothing is unpickled. All sizes are checked before members are unpacked.
    """
    if data.count(_MEMBER_SIGNATURE) > _MAX_MEMBERS:
        expected = f"at most {_MAX_MEMBERS} arrays"
        raise InputError("archive of too many parts", file=path, expected=expected)
    with as_damaged(path, ".npz file"), zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        names = [member.filename.removesuffix(".npy") for member in members]
        if (size := sum(member.file_size for member in members)) > limit:
            expected = f"at most {limit} bytes"
            raise InputError("archive too large", file=path, found=size, expected=expected)
        if twice := repeated(names):
            raise InputError("array named twice in an archive", file=path, found=twice[0])
        if any(member.compress_type not in _PACKED for member in members):
            raise ValueError("unknown compression")
        pairs = zip(names, members, strict=True)
        return {name: _read_array(archive.read(member)) for name, member in pairs}


def array_of_npy(data: bytes, path: AnyPath) -> NDArray[Any]:
    """Return the array of a ``.npy`` file without unpickling."""
    with as_damaged(path, "NumPy array"):
        return _read_array(data)


@contextmanager
def as_damaged(path: AnyPath, what: str) -> Iterator[None]:
    """Convert all errors in the block to an `InputError` that calls the file a damaged ``what``."""
    check_path(path)
    try:
        yield
    except InputError as error:
        raise error.replace(file=error.file or path) from None
    # Damaged files cause errors of many types, such as struct.error, zlib.error and KeyError.
    except (Exception, MemoryError) as error:
        is_clear = isinstance(error, ValueError | EOFError | OSError | zipfile.BadZipFile)
        found = error if is_clear else type(error).__name__
        raise InputError(f"damaged {what}", file=path, found=found) from None


def _read_array(raw: bytes) -> NDArray[Any]:
    """Return the array of a ``.npy`` file; raise `ValueError` if its header gives another size."""
    stream = io.BytesIO(raw)
    npy = np.lib.format
    is_version_1 = npy.read_magic(stream)[0] == 1
    read_header = npy.read_array_header_1_0 if is_version_1 else npy.read_array_header_2_0
    shape, _, dtype = read_header(stream)
    if not dtype.itemsize or math.prod(shape) * dtype.itemsize != len(raw) - stream.tell():
        raise ValueError("array and header differ in size")
    stream.seek(0)
    array: NDArray[Any] = npy.read_array(stream, allow_pickle=False)
    return array


_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# First bytes of files with these suffixes.
SIGNATURES = {
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


def check_target(path: AnyPath, *, text: bool = False) -> Path:
    """Return the file that ``path`` links to; raise `InputError` if it cannot be written.

    With ``text``, suffixes of binary formats raise an error too.
    """
    check_path(path)
    try:
        # Writing replaces the target of a symbolic link, not the link itself.
        target = Path(os.path.realpath(path))
        found: object = _find_write_obstacle(path, target)
    except (OSError, ValueError) as error:
        found = getattr(error, "strerror", None) or error
    if found:
        raise InputError("cannot be written", file=path, found=found, expected="a file name")
    if text and target.suffix.lower() in SIGNATURES:
        raise _other_content(path, target)
    return target


def _find_write_obstacle(path: AnyPath, target: Path) -> str | None:
    """Return the reason that a file cannot be written; None if it can."""
    if not os.fspath(path):
        return "an empty path"
    if target.is_symlink():
        return "a loop of symbolic links"
    if target.is_dir():
        return "a folder"
    # Paths in /proc and /dev may be links to open files of other processes.
    if _DEVICES.match(os.fspath(path)) or (target.exists() and not target.is_file()):
        return "a device or a pipe; - is stdout where an option takes it"
    if not target.parent.is_dir():
        return "no such folder"
    return None if os.access(target.parent, os.W_OK) else "a folder without permission"


def _other_content(path: AnyPath, target: Path) -> InputError:
    expected = "a suffix of the written format, such as .txt, .csv or .json, optionally with .gz"
    return InputError("suffix of another format", file=path, found=target.suffix, expected=expected)


@contextmanager
def atomic_path(path: AnyPath) -> Iterator[Path]:
    """Yield a temporary file, which replaces ``path`` if the block succeeds.

    The temporary file is in the same folder as ``path`` and has the same suffix. If the block
    raises an error, the temporary file is removed and ``path`` is unchanged. If the suffix is
    ``.gz``, content that is not compressed yet is compressed.
    """
    target = check_target(path)
    try:
        with temporary_beside(path) as temporary:
            yield temporary
            size = _finish_file(temporary, target, path)
            temporary.replace(target)
    except OSError as error:
        # If the disk is full, the system's error lacks the file name.
        if error.errno in _DISK_FULL:
            raise OSError(error.errno, os.strerror(error.errno), os.fspath(path)) from None
        raise
    written = {"event": "wrote", "file": os.fspath(path), "size": size}
    logger.info("wrote %s: %s bytes", path, f"{size:,}", extra=written)


@contextmanager
def temporary_beside(path: AnyPath) -> Iterator[Path]:
    """Yield an empty hidden file in the folder of ``path``; remove it unless the block moves it."""
    temporary = _hidden_path(Path(os.path.realpath(path)))
    try:
        temporary.touch(exist_ok=False)
    except OSError as error:
        raise InputError("cannot be written", file=path, found=error.strerror or error) from None
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _finish_file(temporary: Path, target: Path, path: AnyPath) -> int:
    """Check the written file, compress it if necessary, and return its size."""
    with temporary.open("rb") as file:
        start = file.read(16)
    if not start:
        raise OSError(errno.EIO, "nothing was written", os.fspath(path))
    suffix = target.suffix.lower()
    if not start.startswith(SIGNATURES.get(suffix, b"")):
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
def folder_beside(target: Path, parent: Path) -> Iterator[Path]:
    """Yield an empty hidden folder in ``parent`` with the suffix of ``target``, then remove it."""
    folder = _hidden_path(parent / target.name)
    try:
        folder.mkdir()
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _hidden_path(target: Path) -> Path:
    return target.with_name(f".{uuid.uuid4().hex}{target.suffix}")


@contextmanager
def folder_to_fill(path: AnyPath) -> Iterator[Path]:
    """Create a folder if necessary; if the block raises an error, remove new empty folders."""
    try:
        folder = Path(path)
        created = [each for each in (folder, *folder.parents) if not each.exists()]
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        found = getattr(error, "strerror", None) or error
        raise InputError("folder cannot be created", file=path, found=found) from None
    try:
        yield folder
    except BaseException:
        for each in created:
            with suppress(OSError):
                each.rmdir()
        raise
