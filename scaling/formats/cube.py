"""Cube profiles (.cubex) of Score-P and Scalasca: a folder with a folder for each run."""

from __future__ import annotations

import gzip
import re
import struct
import tarfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np

from toruscast.errors import InputError
from toruscast.files import check_regular, most_unpacked

from .records import REDUCTIONS, Records, other_package

# A larger profile is not unpacked.
LARGEST_PROFILE = 256 * 2**20
_PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ")
_DATA = b"ZCUBEX.DATA"
_CHUNK = 2**20
_RUN = re.compile(r"\.r\d+$")
_PREFIX = re.compile(r"^[^.]*[^.\d]\.")
_PAIR = re.compile(r"([^\d.,]+)(\d+(?:[.,]\d+)?)[.,]?")
_EXAMPLE = "app.p64.n100.r1"


def parse_cube(folder: Path, reduce: str = "mean") -> Records:
    """Return the values of the profiles in a folder.

    The name of each inner folder holds the parameters, such as ``app.p64.n100.r1``: a prefix, the
    parameters with their values, and the number of the repetition. Parameters that never change are
    left out. Every metric of every call path gives one value a profile: the mean, maximum or sum
    over processes and threads, without the functions that the call path calls.

    Raises
    ------
    InputError
        If the folder has no profiles, a name holds no parameters, the package pycubexr is not
        installed, or it cannot read a profile.
    """
    profiles = sorted(path for path in folder.glob("*/*.cubex") if path.name[0] != ".")
    runs = [_read_name(path.parent) for path in profiles]
    if not runs:
        raise InputError(
            "is a folder without Cube profiles", file=folder, expected=f"{_EXAMPLE}/profile.cubex"
        )
    names = [*runs[0]]
    for path, run in zip(profiles, runs, strict=True):
        if [*run] != names:
            raise InputError(
                "other parameters than before", file=path.parent, found=[*run], expected=names
            )
    changing = [name for name in names if len({run[name] for run in runs}) > 1] or names
    records = Records(folder, changing)
    for path, run in zip(profiles, runs, strict=True):
        try:
            point = records.point([run[name] for name in changing])
            for key, value in _read_profile(path, reduce).items():
                records.add(key, point, [value], what=f"a number for {key[0]}")
        except InputError as error:
            raise error.replace(file=path) from None
    return records


def _read_name(folder: Path) -> dict[str, str]:
    """Return the parameters in the name of a folder.

    >>> _read_name(Path("app.p64.n1,5.r1"))
    {'p': '64', 'n': '1.5'}
    """
    text = _PREFIX.sub("", _RUN.sub("", folder.name))
    pairs = _PAIR.findall(text)
    values = {name: value.replace(",", ".") for name, value in pairs}
    if not pairs or _PAIR.sub("", text) or len(values) < len(pairs):
        raise InputError(
            "the name of the folder tells no parameters",
            file=folder,
            found=folder.name,
            expected=f"a name such as {_EXAMPLE}",
        )
    return values


def _read_profile(path: Path, reduce: str) -> dict[tuple[str, str], float]:
    """Return the value of each call path and metric of a profile."""
    result: dict[tuple[str, str], float] = {}
    with other_package("pycubexr", "cube", "Cube", path):
        from pycubexr import CubexParser
        from pycubexr.utils.exceptions import MissingMetricError

        check_unpacked_size(path)
        with CubexParser(path) as profile:
            paths = _call_paths(profile.get_root_cnodes())
            for metric in profile.get_metrics():
                try:
                    found = profile.get_metric_values(metric, cache=False)
                except MissingMetricError:
                    continue
                for number in found.cnode_indices:
                    node = profile.get_cnode(number)
                    values = found.cnode_values(node, convert_to_exclusive=True)
                    # Metrics with several numbers a place, such as histograms, have no single
                    # value.
                    if np.asarray(values).dtype.kind in "iuf":
                        result[paths[number], metric.name] = float(REDUCTIONS[reduce](values))
    return result


def _call_paths(roots: list[Any]) -> dict[int, str]:
    """Return the call path of every node by its number."""
    paths: dict[int, str] = {}
    waiting = [(node, "") for node in roots]
    while waiting:
        node, above = waiting.pop()
        paths[node.id] = above + node.region.name
        waiting += [(child, f"{paths[node.id]}->") for child in node.get_children()]
    return paths


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
