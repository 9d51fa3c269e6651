"""Extra-P's projects (.extra-p): a zip with measurements in JSON and their repetitions."""

from __future__ import annotations

import io
import lzma
import struct
import warnings
import zipfile
import zlib
from typing import Any

import numpy as np

from toruscast.errors import InputError
from toruscast.files import as_string, parse_json

from ..warning import ScalingWarning
from .extrap_json import by_callpath
from .records import PathLike, Records

# A larger member is not unpacked; it may be packed into a thousandth of its size.
LARGEST_MEMBER = 64 * 2**20
_CONTENT = "experiment.json"
_INDEX, _VALUES = b"Extra-P INDEX\0\0\0", b"Extra-P VALUES\0\0"
_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, struct.error),
    # The member is encrypted, or packed in an unknown way.
    *(RuntimeError, ValueError),
)


def parse_project(content: bytes, file: PathLike) -> Records:
    """Return the values of a project.

    Projects without repetitions give the median of each point.

    Raises
    ------
    InputError
        If the project is damaged, or unpacks to more than 64 MiB.

    Warns
    -----
    ScalingWarning
        If the project keeps no repetitions.
    """
    members = _Members(content, file)
    medians = 0

    def repetitions(row: dict[str, Any]) -> list[Any]:
        nonlocal medians
        if row.get("values") is not None:
            return members.values(*row["values"])
        medians += row.get("repetitions", 2) != 1
        return [row["median"]]

    document = parse_json(as_string(members.read(_CONTENT), file), file)
    records = by_callpath(document, file, "coordinate", repetitions)
    if medians:
        warnings.warn(
            f"{file}: the project keeps the medians of its repetitions only; models are fitted to "
            "them and cannot tell growth from noise",
            ScalingWarning,
            stacklevel=3,
        )
    return records


class _Members:
    """The members of a zip, each unpacked once and up to a size."""

    def __init__(self, content: bytes, file: PathLike) -> None:
        self._file = file
        self._unpacked: dict[str, bytes] = {}
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(content))
        except _DAMAGED as error:
            raise InputError("is a damaged zip", file=file, found=error) from None
        if _CONTENT not in self._archive.namelist():
            raise InputError("is a zip, but no Extra-P project", file=file, expected=_CONTENT)

    def read(self, name: str) -> bytes:
        """Return a member, or raise."""
        if name not in self._unpacked:
            left = LARGEST_MEMBER - sum(map(len, self._unpacked.values()))
            try:
                with self._archive.open(name) as member:
                    content = member.read(left + 1)
            except (KeyError, *_DAMAGED) as error:
                raise InputError(f"holds no whole {name}", file=self._file, found=error) from None
            if len(content) > left:
                raise InputError(
                    "unpacks to too much",
                    file=self._file,
                    found=f"{name} of {self._archive.getinfo(name).file_size} bytes",
                    expected=f"at most {LARGEST_MEMBER} bytes in all",
                )
            self._unpacked[name] = content
        return self._unpacked[name]

    def values(self, chunk: Any, index: Any) -> list[float]:
        """Return the repetitions that are stored as an array of NumPy, by its chunk and number."""
        if not isinstance(chunk, int) or not isinstance(index, int) or index < 0:
            raise TypeError
        places = self.read(f"values/{chunk}.indx")
        stored = self.read(f"values/{chunk}.vals")
        try:
            if not places.startswith(_INDEX) or not stored.startswith(_VALUES):
                raise ValueError("no Extra-P values")
            (start,) = struct.unpack_from("<Q", places, len(_INDEX) + 8 * (index + 1))
            # Not a copy of all that follows: an index may name a place very many times.
            source = io.BytesIO(stored)
            source.seek(start)
            np.lib.format.read_magic(source)
            shape, _, dtype = np.lib.format.read_array_header_1_0(source)
            count = int(np.prod(shape, dtype=object))
            if dtype.kind not in "iuf" or not 0 < count <= len(stored) // dtype.itemsize:
                raise ValueError(f"an array of {count} {dtype}")
            array = np.frombuffer(source.read(count * dtype.itemsize), dtype, count)
        except (struct.error, ValueError, OverflowError, SyntaxError, MemoryError) as error:
            found = f"array {index}: {error}"
            raise InputError(
                f"holds damaged values/{chunk}.vals", file=self._file, found=found
            ) from None
        return [float(value) for value in array]
