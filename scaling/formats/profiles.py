"""Profiles of Caliper and Thicket, whose metadata hold the parameters of each run."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from toruscast.errors import InputError
from toruscast.files import as_string, read_limited

from .records import REDUCTIONS, PathLike, Records, as_number, other_package

CALIPER = b"__rec="
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

    def add(self, key: tuple[str, str], process: object, value: float) -> None:
        """Add a value of a process."""
        own = self.values.setdefault(key, {})
        own[process] = own.get(process, 0.0) + value


def parse_caliper(
    folder: Path, parameters: Sequence[str], metrics: Sequence[str], reduce: str
) -> Records:
    """Return the values of the Caliper profiles in a folder, one file a run.

    Raises
    ------
    InputError
        If the package caliper-reader is not installed, or a profile cannot be read.
    """
    runs = []
    for path in caliper_files(folder):
        text = as_string(read_limited(path, _MAX_BYTES), path)
        with other_package("caliper-reader", "caliper", "Caliper", path):
            from caliperreader import CaliperReader

            reader = CaliperReader()
            reader.read(io.StringIO(text))
            runs.append(_caliper_run(reader))
    return _collected(runs, parameters, metrics, reduce, folder)


def caliper_files(folder: Path) -> list[Path]:
    """Return the Caliper profiles in a folder or in the folders inside it."""
    files = (*folder.glob("*.cali"), *folder.glob("*/*.cali"))
    return sorted(path for path in files if path.name[0] != ".")


def _caliper_run(reader: Any) -> ProfiledRun:
    run = ProfiledRun(dict(reader.globals))
    known = {name: reader.attribute(name) for name in reader.attributes()}
    metrics = {
        name: str(each.get("attribute.alias") or name)
        for name, each in known.items()
        if each.is_value() and each.attribute_type() in _NUMBERS and name not in _RANKS
    }
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


def parse_thicket(
    document: Any,
    parameters: Sequence[str],
    metrics: Sequence[str],
    reduce: str,
    file: PathLike,
) -> Records:
    """Return the values of what ``Thicket.to_json`` writes.

    Examples
    --------
    >>> thicket = {"graph": [{"0": {"data": {"name": "main"}, "parents": []}}],
    ...            "dataframe": [{"node": 0, "profile": k, "time": 2.0 * k} for k in (1, 2)],
    ...            "metadata": [{"profile": k, "ranks": 8 * k} for k in (1, 2)],
    ...            "inclusive_metrics": [], "exclusive_metrics": ["time"],
    ...            "profile_idx_name": "profile"}
    >>> parse_thicket(thicket, [], [], "mean", "a.json").values
    {('main', 'time'): {(8.0,): [2.0], (16.0,): [4.0]}}
    """
    try:
        nodes = {str(key): node for part in document["graph"] for key, node in part.items()}
        profile = document["profile_idx_name"]
        names = [*document["inclusive_metrics"], *document["exclusive_metrics"]]
        runs = {row[profile]: ProfiledRun(row) for row in document["metadata"]}
        for row in document["dataframe"]:
            callpath = _callpath(nodes, str(row["node"]))
            process = next((row[name] for name in _RANKS if name in row), None)
            for name in names:
                value = row.get(name)
                if isinstance(value, int | float) and math.isfinite(value):
                    runs[row[profile]].add((callpath, name), process, float(value))
        found = [
            ProfiledRun({k: v for k, v in run.metadata.items() if k != profile}, run.values)
            for run in runs.values()
        ]
    except (KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise InputError(
            "is no Thicket",
            file=file,
            found=f"{type(error).__name__}: {error}",
            expected="what Thicket.to_json writes",
        ) from None
    return _collected(found, parameters, metrics, reduce, file)


def _callpath(nodes: Mapping[str, Any], number: str) -> str:
    node = nodes[number]
    name = str(node["data"]["name"])
    above = node["parents"]
    return f"{_callpath(nodes, str(above[0]))}->{name}" if above else name


def _collected(
    runs: Sequence[ProfiledRun],
    parameters: Sequence[str],
    metrics: Sequence[str],
    reduce: str,
    file: PathLike,
) -> Records:
    """Return the records of runs, whose metadata hold the parameters.

    Without a choice of parameters, the one number that differs between the runs is taken. A choice
    is the name of a number, such as ``jobsize``, or ``p=jobsize`` to call it p.
    """
    numbers = {
        name: values
        for name in (runs[0].metadata if runs else ())
        if np.isfinite(values := [as_number(run.metadata.get(name)) for run in runs]).all()
    }
    varied = [name for name, values in numbers.items() if len({*values}) > 1]
    given = [text.partition("=") for text in parameters]
    chosen = [meta or name for name, _, meta in given] or varied
    records = Records(file, [name for name, _, _ in given] or chosen)
    absent = [name for name in chosen if name not in numbers]
    expected = f"one of {', '.join(varied) or 'several runs'}, by --parameter NAME"
    if absent:
        message = "no such number in the metadata of all runs"
        raise records.fault(message, found=", ".join(absent), expected=expected)
    if not chosen or (not parameters and len(varied) > 1):
        found = ", ".join(varied) or "no number that differs between runs"
        raise records.fault("parameters of the runs must be named", None, found, expected)
    for number, run in enumerate(runs):
        point = records.point([numbers[name][number] for name in chosen])
        for key, by_process in run.values.items():
            if not metrics or any(fnmatchcase(key[1], each) for each in metrics):
                records.add(key, point, [REDUCTIONS[reduce](list(by_process.values()))])
    if not records.values:
        known = dict.fromkeys(metric for run in runs for _, metric in run.values)
        expected = " or ".join(known) or "metrics of call paths"
        raise records.fault("has no such metric", None, ", ".join(metrics) or "none", expected)
    return records
