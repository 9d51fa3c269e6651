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
from .measurements import PathLike, ReadOptions, Records, check_layout, to_float

CALIPER = "__rec="
_MAX_BYTES = 2**28
_NUMBERS = ("double", "int", "uint")
# Attributes that contain the number of the process.
_RANKS = ("mpi.rank", "rank")
MAX_PROFILE_BYTES = 256 * 2**20
# Signatures of gzip, bzip2 and xz.
_PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ")
# First bytes of a member that is packed in chunks, and bytes that its table uses per chunk.
_DATA, _ENTRY_BYTES = b"ZCUBEX.DATA", 24
_CHUNK = 2**20
# Parts of a folder's name: the repetition, the prefix, and a parameter with its value.
_RUN = re.compile(r"\.r\d+$")
_PREFIX = re.compile(r"^[^.]*[^.\d]\.")
_PAIR = re.compile(r"([^\d.,]+)(\d+(?:[.,]\d+)?)[.,]?")
_EXAMPLE = "app.p64.n100.r1"


@dataclass
class ProfiledRun:
    """Metadata of one profile, and its values by call path, metric and process."""

    metadata: Mapping[str, Any]
    values: dict[tuple[str, str], dict[object, float]] = field(default_factory=dict)
    # Metrics whose values include those of called functions.
    inclusive: frozenset[str] = frozenset()

    def add(self, key: tuple[str, str], process: object, value: float) -> None:
        """Add a number to the value of a process."""
        by_process = self.values.setdefault(key, {})
        by_process[process] = by_process.get(process, 0.0) + value


def parse_caliper(folder: Path, choice: ReadOptions) -> Records:
    """Return the values of the Caliper profiles in a folder, which has one file per run."""
    runs = []
    for path in caliper_files(folder):
        text = as_string(read_limited(path, _MAX_BYTES), path)
        package = _import_reader("caliperreader", "caliper-reader", "caliper", path)
        with as_damaged(path, "Caliper profile"):
            reader = package.CaliperReader()
            reader.read(io.StringIO(text))
            runs.append(_read_caliper_run(reader))
    return _merge_runs(runs, choice, folder)


def caliper_files(folder: Path) -> list[Path]:
    """Return the Caliper profiles in a folder and its subfolders."""
    files = (*folder.glob("*.cali"), *folder.glob("*/*.cali"))
    return sorted(path for path in files if path.name[0] != ".")


def _import_reader(module: str, package: str, extra: str, file: PathLike) -> Any:
    """Import a module of an optional package; raise `InputError` if it is not installed."""
    try:
        return import_module(module)
    except ImportError:
        expected = f"pip install 'toruscast[{extra}]'"
        message = f"such a profile needs the package {package}"
        raise InputError(message, file=file, expected=expected) from None


def _read_caliper_run(reader: Any) -> ProfiledRun:
    """Return the numeric metrics of a Caliper profile."""
    attributes = {name: reader.attribute(name) for name in reader.attributes()}
    metrics = {
        name: str(attribute.get("attribute.alias") or name)
        for name, attribute in attributes.items()
        if attribute.is_value() and attribute.attribute_type() in _NUMBERS and name not in _RANKS
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
    """Return whether a JSON document was written by ``Thicket.to_json``."""
    required = {"graph", "dataframe", "metadata", "profile_idx_name"}
    return isinstance(document, dict) and required <= document.keys()


def parse_thicket(document: Any, file: PathLike, choice: ReadOptions) -> Records:
    """Return the values of a document written by ``Thicket.to_json``."""
    with check_layout(file, "Thicket", "what Thicket.to_json writes"):
        nodes = {str(key): node for part in document["graph"] for key, node in part.items()}
        profile = document["profile_idx_name"]
        names = [*document["inclusive_metrics"], *document["exclusive_metrics"]]
        inclusive = frozenset(document["inclusive_metrics"])
        runs = {
            row.pop(profile): ProfiledRun(row, inclusive=inclusive)
            for row in map(dict, document["metadata"])
        }
        for row in document["dataframe"]:
            callpath = _join_callpath(nodes, str(row["node"]))
            process = next((row[name] for name in _RANKS if name in row), None)
            for name in names:
                value = row.get(name)
                if isinstance(value, int | float) and math.isfinite(value):
                    runs[row[profile]].add((callpath, name), process, float(value))
    return _merge_runs([*runs.values()], choice, file)


def _join_callpath(nodes: Mapping[str, Any], number: str) -> str:
    """Return the names of a node's ancestors and its own name, joined by arrows."""
    node = nodes[number]
    name = str(node["data"]["name"])
    parents = node["parents"]
    return f"{_join_callpath(nodes, str(parents[0]))}->{name}" if parents else name


def _merge_runs(runs: Sequence[ProfiledRun], choice: ReadOptions, file: PathLike) -> Records:
    """Return the values of all runs, with the parameters from their metadata."""
    # Metadata that are numbers in all runs.
    numbers: dict[str, list[float]] = {}
    for name in runs[0].metadata if runs else ():
        values = [to_float(run.metadata.get(name)) for run in runs]
        if np.isfinite(values).all():
            numbers[name] = values
    varied = [name for name, values in numbers.items() if len({*values}) > 1]
    pairs = [text.partition("=") for text in choice.parameters]
    fields = [name_in_file or name for name, _, name_in_file in pairs] or varied
    records = Records(file, [name for name, _, _ in pairs] or fields)
    absent = [name for name in fields if name not in numbers]
    expected = f"one of {', '.join(varied) or 'several runs'}, chosen with --parameter NAME"
    if absent:
        message = "no such number in the metadata of all runs"
        raise records.fault(message, found=", ".join(absent), expected=expected)
    if not fields or (not choice.parameters and len(varied) > 1):
        found = ", ".join(varied) or "no number that differs between runs"
        raise records.fault("parameters of the runs must be named", None, found, expected)
    metrics = dict.fromkeys(metric for run in runs for _, metric in run.values)
    patterns = choice.value or ["*"]
    selected = {m for m in metrics if any(fnmatchcase(m, pattern) for pattern in patterns)}
    trees = [{path for path, metric in run.values if metric in selected} for run in runs]
    parents = map_to_parents(trees, choice)
    for number, run in enumerate(runs):
        point = records.point([numbers[name][number] for name in fields])
        merged = ProfiledRun(run.metadata)
        for (path, metric), by_process in run.values.items():
            key = parents.get(path, path), metric
            # The parent's inclusive values already contain the values of the path.
            if metric in selected and not (path in parents and metric in run.inclusive):
                for process, value in by_process.items():
                    merged.add(key, process, value)
        for key, by_process in merged.values.items():
            records.add(key, point, [choice.reduce_values(list(by_process.values()))])
    if not records.rows:
        expected = " or ".join(metrics) or "metrics of call paths"
        raise records.fault("has no such metric", None, ", ".join(choice.value) or "none", expected)
    return records


def _iterate_ancestors(path: str) -> Iterator[str]:
    """Yield a call path and its ancestors, the nearest first."""
    while path:
        yield path
        path = path.rpartition("->")[0]


def map_to_parents(trees: Sequence[Iterable[str]], choice: ReadOptions) -> dict[str, str]:
    """Map each call path that some runs lack to its nearest ancestor in all runs [Shudler18]."""
    if choice.merge == "" or not trees:
        return {}
    nodes = [{node for path in tree for node in _iterate_ancestors(path)} for tree in trees]
    common = set.intersection(*nodes)
    result = {
        path: parent
        for path in sorted(set().union(*trees) - common)
        if (parent := next((node for node in _iterate_ancestors(path) if node in common), ""))
    }
    if result:
        found = f"{counted(len(result), 'call path')}, such as {next(iter(result))}"
        message = f"call paths that some runs lack are counted in their parent: {found}"
        warnings.warn(message, ScalingWarning, stacklevel=2)
    return result


def parse_cube(folder: Path, choice: ReadOptions) -> Records:
    """Return the exclusive values of the profiles in a folder.

    The names of subfolders, such as ``app.p64.n100.r1``, contain a prefix, the parameters and the
    repetition. Parameters with a single value are ignored.
    """
    profiles = sorted(path for path in folder.glob("*/*.cubex") if path.name[0] != ".")
    runs = [_parse_folder_name(path.parent) for path in profiles]
    if not runs:
        expected = f"{_EXAMPLE}/profile.cubex"
        raise InputError("is a folder without Cube profiles", file=folder, expected=expected)
    names = [*runs[0]]
    for path, run in zip(profiles, runs, strict=True):
        if [*run] != names:
            message = "other parameters than before"
            raise InputError(message, file=path.parent, found=[*run], expected=names)
    varied = [name for name in names if len({run[name] for run in runs}) > 1] or names
    records = Records(folder, varied)
    trees = []
    for path in profiles:
        with _open_profile(path) as profile:
            trees.append({*_list_call_paths(profile.get_root_cnodes()).values()})
    parents = map_to_parents(trees, choice)
    for path, run in zip(profiles, runs, strict=True):
        try:
            point = records.point([run[name] for name in varied])
            for key, value in _read_profile(path, choice, parents, records).items():
                records.add(key, point, [value], what=f"a number for {key[0]}")
        except InputError as error:
            raise error.replace(file=path) from None
    return records


def _parse_folder_name(folder: Path) -> dict[str, str]:
    """Return the parameters in the name of a run's folder."""
    text = _PREFIX.sub("", _RUN.sub("", folder.name))
    pairs = _PAIR.findall(text)
    values = {name: value.replace(",", ".") for name, value in pairs}
    if not pairs or _PAIR.sub("", text) or len(values) < len(pairs):
        message, expected = "folder name without parameters", f"a name such as {_EXAMPLE}"
        raise InputError(message, file=folder, found=folder.name, expected=expected)
    return values


@contextmanager
def _open_profile(path: Path) -> Iterator[Any]:
    """Check the size of a Cube profile, and open it."""
    package = _import_reader("pycubexr", "pycubexr", "cube", path)
    check_unpacked_size(path)
    with as_damaged(path, "Cube profile"), package.CubexParser(path) as profile:
        yield profile


def _read_profile(
    path: Path, choice: ReadOptions, parents: Mapping[str, str], records: Records
) -> dict[tuple[str, str], float]:
    """Return the exclusive values in a Cube profile, by call path and metric."""
    result: dict[tuple[str, str], Any] = {}
    errors = _import_reader("pycubexr.utils.exceptions", "pycubexr", "cube", path)
    with _open_profile(path) as profile:
        paths = _list_call_paths(profile.get_root_cnodes())
        for metric in profile.get_metrics():
            try:
                metric_values = profile.get_metric_values(metric, cache=False)
            except errors.MissingMetricError:
                continue
            for number in metric_values.cnode_indices:
                node = profile.get_cnode(number)
                values = np.asarray(metric_values.cnode_values(node, convert_to_exclusive=True))
                # Metrics such as histograms have several numbers per process.
                if values.dtype.kind not in "iuf":
                    records.left_out[f"metric {metric.name}, several numbers per process"] += 1
                    continue
                key = parents.get(paths[number], paths[number]), metric.name
                result[key] = result.get(key, 0) + values
    return {key: choice.reduce_values(values) for key, values in result.items()}


def _list_call_paths(roots: list[Any]) -> dict[int, str]:
    """Return the call paths of all nodes, by node number."""
    paths: dict[int, str] = {}
    stack = [(node, "") for node in roots]
    while stack:
        node, prefix = stack.pop()
        paths[node.id] = prefix + node.region.name
        stack += [(child, f"{paths[node.id]}->") for child in node.get_children()]
    return paths


def check_unpacked_size(path: Path) -> None:
    """Raise `InputError` if the unpacked profile is too large; the reader reports damage later."""
    check_regular(path)
    if path.stat().st_size > MAX_PROFILE_BYTES:
        raise InputError("is too large", file=path, expected=f"at most {MAX_PROFILE_BYTES} bytes")
    with path.open("rb") as file:
        if file.read(6).startswith(_PACKED):
            expected = "a profile as Score-P wrote it"
            raise InputError("is a packed file", file=path, expected=expected)
    remaining = limit = max_unpacked(path, MAX_PROFILE_BYTES)
    try:
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                stream = archive.extractfile(member)
                if stream is not None:
                    remaining -= _measure_unpacked(stream, remaining)
                if remaining < 0:
                    expected = f"at most {limit} bytes"
                    raise InputError("unpacks to too much", file=path, expected=expected)
    except (tarfile.TarError, EOFError, OSError, zlib.error, struct.error, OverflowError):
        return


def _measure_unpacked(stream: IO[bytes], limit: int) -> int:
    """Return a Cube member's unpacked size in bytes, or any number above the limit.

    A member is packed by gzip, or by zlib in chunks that follow a table of chunk sizes.
    """
    start = stream.read(len(_DATA))
    if start.startswith(_PACKED[0]):
        stream.seek(0)
        packed, size = gzip.GzipFile(fileobj=stream), 0
        while size <= limit and (chunk := packed.read(_CHUNK)):
            size += len(chunk)
        return size
    if start != _DATA:
        return 0
    head = stream.read(8)
    # The byte order is unknown, but a small number is huge if it is read in the wrong order.
    count = min(struct.unpack("<q", head)[0], struct.unpack(">q", head)[0], key=abs)
    if not 0 <= _ENTRY_BYTES * count <= MAX_PROFILE_BYTES:
        return 0
    stream.read(_ENTRY_BYTES * count)
    packed_bytes, size = stream.read(), 0
    while size <= limit and packed_bytes:
        unpacker = zlib.decompressobj()
        size += len(unpacker.decompress(packed_bytes, limit - size + 1))
        packed_bytes = unpacker.unused_data
    return size
