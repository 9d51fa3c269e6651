"""How much a Cube profile unpacks to, found before another package unpacks it."""

from __future__ import annotations

import gzip
import struct
import tarfile
import zlib
from pathlib import Path
from typing import IO

from toruscast.errors import InputError
from toruscast.files import check_regular, most_unpacked

# A larger profile is not unpacked.
LARGEST_PROFILE = 256 * 2**20
_PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ")
_DATA = b"ZCUBEX.DATA"
_CHUNK = 2**20


def check_unpacked_size(path: Path) -> None:
    """Raise unless all members of a profile unpack to no more than may be.

    What is damaged is left to the reader, which says so.

    Raises
    ------
    InputError
        If the file is no regular one, is packed as a whole, or unpacks to too much.
    """
    check_regular(path)
    if path.stat().st_size > LARGEST_PROFILE:
        raise InputError("is too large", file=path, expected=f"at most {LARGEST_PROFILE} bytes")
    with path.open("rb") as file:
        if file.read(6).startswith(_PACKED):
            raise InputError(
                "is a packed file", file=path, expected="a profile as Score-P wrote it"
            )
    left = most = most_unpacked(path, LARGEST_PROFILE)
    try:
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                stream = archive.extractfile(member)
                if stream is not None:
                    left -= _unpacked(stream, left)
                if left < 0:
                    raise InputError(
                        "unpacks to too much", file=path, expected=f"at most {most} bytes"
                    )
    except (tarfile.TarError, EOFError, OSError, zlib.error, struct.error, OverflowError):
        return


def _unpacked(stream: IO[bytes], most: int) -> int:
    """Bytes of a member once unpacked, or a few more than ``most``."""
    start = stream.read(len(_DATA))
    if start.startswith(_PACKED[0]):
        stream.seek(0)
        packed, size = gzip.GzipFile(fileobj=stream), 0
        while size <= most and (chunk := packed.read(_CHUNK)):
            size += len(chunk)
        return size
    if start != _DATA:
        return 0
    head = stream.read(8)
    # The byte order stands elsewhere; in the wrong one a small count is huge.
    count = min(struct.unpack("<q", head)[0], struct.unpack(">q", head)[0], key=abs)
    if not 0 <= 24 * count <= LARGEST_PROFILE:
        return 0
    stream.read(24 * count)
    rest, size = stream.read(), 0
    while size <= most and rest:
        unpacker = zlib.decompressobj()
        size += len(unpacker.decompress(rest, most - size + 1))
        rest = unpacker.unused_data
    return size
