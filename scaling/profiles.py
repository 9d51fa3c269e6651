"""Profiles of Caliper, Thicket, Score-P and Scalasca."""

from __future__ import annotations

import gzip
import io
import math
import re
import struct
import tarfile
import warnings
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import numpy as np

from toruscast.errors import InputError
from toruscast.files import as_damaged, as_string, check_regular, max_unpacked, read_limited
from toruscast.text import counted

from .formula import ScalingWarning
from .measurements import Choice, PathLike, Records, as_number, in_layout

CALIPER = "__rec="
_MAX_BYTES = 2**28
_NUMBERS = ("double", "int", "uint")
# Without a number for the process, several values of a call path are parts of one.
_RANKS = ("mpi.rank", "rank")


@dataclass
class ProfiledRun:
    """What one profile holds: its metadata, and the values of each process by call path."""

    metadata: Mapping[str, Any]
    # (call path, metric) -> process -> value
    values: dict[tuple[str, str], dict[object, float]] = field(default_factory=dict)
    # Metrics whose values hold those of the nodes below.
    inclusive: frozenset[str] = frozenset()

    def add(self, key: tuple[str, str], process: object, value: float) -> None:
        """Add a value of a process."""
        own = self.values.setdefault(key, {})
        own[process] = own.get(process, 0.0) + value


def parse_caliper(folder: Path, choice: Choice) -> Records:
    """Return the values of the Caliper profiles in a folder, one file a run."""
    runs = []
    for path in caliper_files(folder):
        text = as_string(read_limited(path, _MAX_BYTES), path)
        package = _import_reader("caliperreader", "caliper-reader", "caliper", path)
        with as_damaged(path, "Caliper profile"):
            reader = package.CaliperReader()
            reader.read(io.StringIO(text))
            runs.append(_caliper_run(reader))
    return _collected(runs, choice, folder)


def caliper_files(folder: Path) -> list[Path]:
    """Return the Caliper profiles in a folder or in the folders inside it."""
    files = (*folder.glob("*.cali"), *folder.glob("*/*.cali"))
    return sorted(path for path in files if path.name[0] != ".")


def _import_reader(module: str, package: str, extra: str, file: PathLike) -> Any:
    """Import a package that reads profiles."""
    try:
        return import_module(module)
    except ImportError:
        expected = f"pip install 'toruscast[{extra}]'"
        message = f"such a profile needs the package {package}"
        raise InputError(message, file=file, expected=expected) from None


def _caliper_run(reader: Any) -> ProfiledRun:
    known = {name: reader.attribute(name) for name in reader.attributes()}
    metrics = {
        name: str(each.get("attribute.alias") or name)
        for name, each in known.items()
        if each.is_value() and each.attribute_type() in _NUMBERS and name not in _RANKS
    }
    inclusive = frozenset(alias for name, alias in metrics.items() if "inclusive" in name)
    run = ProfiledRun(dict(reader.globals), inclusive=inclusive)
    for record in reader.records:
        path = record.get("path")
        if not path:
            continue
        callpath = path if isinstance(path, str) else "->".join(path)
        process = next((record[name] for name in _RANKS if name in record), None)
        for name in metrics.keys() & record.keys():
            run.add((callpath, metrics[name]), process, float(record[name]))
    return run


def is_thicket(document: object) -> bool:
    """Return whether a JSON document is what ``Thicket.to_json`` writes."""
    needed = {"graph", "dataframe", "metadata", "profile_idx_name"}
    return isinstance(document, dict) and needed <= document.keys()


def parse_thicket(document: Any, file: PathLike, choice: Choice) -> Records:
    """Return the values of what ``Thicket.to_json`` writes."""
    with in_layout(file, "Thicket", "what Thicket.to_json writes"):
        nodes = {str(key): node for part in document["graph"] for key, node in part.items()}
        profile = document["profile_idx_name"]
        names = [*document["inclusive_metrics"], *document["exclusive_metrics"]]
        inclusive = frozenset(document["inclusive_metrics"])
        runs = {
            row.pop(profile): ProfiledRun(row, inclusive=inclusive)
            for row in map(dict, document["metadata"])
        }
        for row in document["dataframe"]:
            callpath = _callpath(nodes, str(row["node"]))
            process = next((row[name] for name in _RANKS if name in row), None)
            for name in names:
                value = row.get(name)
                if isinstance(value, int | float) and math.isfinite(value):
                    runs[row[profile]].add((callpath, name), process, float(value))
    return _collected([*runs.values()], choice, file)


def _callpath(nodes: Mapping[str, Any], number: str) -> str:
    node = nodes[number]
    name = str(node["data"]["name"])
    above = node["parents"]
    return f"{_callpath(nodes, str(above[0]))}->{name}" if above else name


def _collected(runs: Sequence[ProfiledRun], choice: Choice, file: PathLike) -> Records:
    """Return the records of runs, whose metadata hold the parameters."""
    numbers = {
        name: values
        for name in (runs[0].metadata if runs else ())
        if np.isfinite(values := [as_number(run.metadata.get(name)) for run in runs]).all()
    }
    varied = [name for name, values in numbers.items() if len({*values}) > 1]
    given = [text.partition("=") for text in choice.parameters]
    chosen = [meta or name for name, _, meta in given] or varied
    records = Records(file, [name for name, _, _ in given] or chosen)
    absent = [name for name in chosen if name not in numbers]
    expected = f"one of {', '.join(varied) or 'several runs'}, by --parameter NAME"
    if absent:
        message = "no such number in the metadata of all runs"
        raise records.fault(message, found=", ".join(absent), expected=expected)
    if not chosen or (not choice.parameters and len(varied) > 1):
        found = ", ".join(varied) or "no number that differs between runs"
        raise records.fault("parameters of the runs must be named", None, found, expected)
    known = dict.fromkeys(metric for run in runs for _, metric in run.values)
    wanted = {m for m in known if any(fnmatchcase(m, each) for each in choice.value or "*")}
    trees = [{path for path, metric in run.values if metric in wanted} for run in runs]
    parents = merged_paths(trees, choice)
    for number, run in enumerate(runs):
        point = records.point([numbers[name][number] for name in chosen])
        merged = ProfiledRun(run.metadata)
        for (path, metric), by_process in run.values.items():
            key = parents.get(path, path), metric
            if metric in wanted and not (path in parents and metric in run.inclusive):
                for process, value in by_process.items():
                    merged.add(key, process, value)
        for key, by_process in merged.values.items():
            records.add(key, point, [choice.reduced(list(by_process.values()))])
    if not records.rows:
        expected = " or ".join(known) or "metrics of call paths"
        raise records.fault("has no such metric", None, ", ".join(choice.value) or "none", expected)
    return records


def _upwards(path: str) -> Iterator[str]:
    """Yield a call path and those above it, the nearest first."""
    while path:
        yield path
        path = path.rpartition("->")[0]


def merged_paths(trees: Sequence[Iterable[str]], choice: Choice) -> dict[str, str]:
    """Map call paths that some runs lack to their nearest parent in all runs [Shudler18]."""
    if choice.merge == "" or not trees:
        return {}
    common = set.intersection(*({up for path in tree for up in _upwards(path)} for tree in trees))
    result = {
        path: parent
        for path in sorted(set().union(*trees) - common)
        if (parent := next((up for up in _upwards(path) if up in common), ""))
    }
    if result:
        found = f"{counted(len(result), 'call path')}, such as {next(iter(result))}"
        what = f"call paths that some runs lack are part of their parent: {found}"
        warnings.warn(what, ScalingWarning, stacklevel=2)
    return result


# A larger profile is not unpacked.
LARGEST_PROFILE = 256 * 2**20
_PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ")
_DATA = b"ZCUBEX.DATA"
_CHUNK = 2**20
_RUN = re.compile(r"\.r\d+$")
_PREFIX = re.compile(r"^[^.]*[^.\d]\.")
_PAIR = re.compile(r"([^\d.,]+)(\d+(?:[.,]\d+)?)[.,]?")
_EXAMPLE = "app.p64.n100.r1"


def parse_cube(folder: Path, choice: Choice) -> Records:
    """Return the values of the profiles in a folder.

    The names of inner folders, such as ``app.p64.n100.r1``, hold a prefix, the parameters and the
    repetition; parameters that never change are left out. Every metric of every call path gives one
    value a profile, without the functions that the call path calls.
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
    trees = []
    for path in profiles:
        with _opened(path) as profile:
            trees.append({*_call_paths(profile.get_root_cnodes()).values()})
    parents = merged_paths(trees, choice)
    for path, run in zip(profiles, runs, strict=True):
        try:
            point = records.point([run[name] for name in changing])
            for key, value in _read_profile(path, choice, parents, records).items():
                records.add(key, point, [value], what=f"a number for {key[0]}")
        except InputError as error:
            raise error.replace(file=path) from None
    return records


def _read_name(folder: Path) -> dict[str, str]:
    """Return the parameters in the name of a folder."""
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


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a Cube profile that unpacks to little enough."""
    package = _import_reader("pycubexr", "pycubexr", "cube", path)
    check_unpacked_size(path)
    with as_damaged(path, "Cube profile"), package.CubexParser(path) as profile:
        yield profile


def _read_profile(
    path: Path, choice: Choice, parents: Mapping[str, str], records: Records
) -> dict[tuple[str, str], float]:
    """Return the value of each call path and metric of a profile."""
    result: dict[tuple[str, str], Any] = {}
    missing = _import_reader("pycubexr.utils.exceptions", "pycubexr", "cube", path)
    with _opened(path) as profile:
        paths = _call_paths(profile.get_root_cnodes())
        for metric in profile.get_metrics():
            try:
                found = profile.get_metric_values(metric, cache=False)
            except missing.MissingMetricError:
                continue
            for number in found.cnode_indices:
                node = profile.get_cnode(number)
                values = np.asarray(found.cnode_values(node, convert_to_exclusive=True))
                # Metrics with several numbers a place, such as histograms, have no single value.
                if values.dtype.kind not in "iuf":
                    records.left_out[f"metric {metric.name}, several numbers a place"] += 1
                    continue
                key = parents.get(paths[number], paths[number]), metric.name
                result[key] = result.get(key, 0) + values
    return {key: choice.reduced(values) for key, values in result.items()}


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
    """Raise if a profile unpacks to too much; damage is left to the reader, which says so."""
    check_regular(path)
    if path.stat().st_size > LARGEST_PROFILE:
        raise InputError("is too large", file=path, expected=f"at most {LARGEST_PROFILE} bytes")
    with path.open("rb") as file:
        if file.read(6).startswith(_PACKED):
            raise InputError(
                "is a packed file", file=path, expected="a profile as Score-P wrote it"
            )
    left = most = max_unpacked(path, LARGEST_PROFILE)
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
    # The byte order is stored elsewhere; read in the wrong order, a small count is huge.
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
