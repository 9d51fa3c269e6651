"""Cube profiles (.cubex) of Score-P and Scalasca: a folder with a folder for each run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from toruscast.errors import InputError

from ._cube_size import check_unpacked_size
from .records import REDUCTIONS, Records, add, measured, place

_RUN = re.compile(r"\.r\d+$")
_PREFIX = re.compile(r"^[^.]*[^.\d]\.")
_PAIR = re.compile(r"([^\d.,]+)(\d+(?:[.,]\d+)?)[.,]?")
_EXAMPLE = "app.p64.n100.r1"


def parse_cube(folder: Path, reduce: str = "mean") -> tuple[list[str], Records]:
    """Return the parameters and values of the profiles in a folder.

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
    if not profiles:
        raise InputError(
            "is a folder without Cube profiles", file=folder, expected=f"{_EXAMPLE}/profile.cubex"
        )
    parameters: list[str] | None = None
    points: list[list[str]] = []
    for path in profiles:
        names, values = _read_name(path.parent)
        parameters = names if parameters is None else parameters
        if names != parameters:
            raise InputError(
                "other parameters than before", file=path.parent, found=names, expected=parameters
            )
        points.append(values)
    assert parameters is not None
    changing = [k for k, column in enumerate(zip(*points, strict=True)) if len({*column}) > 1]
    kept = changing or [*range(len(parameters))]
    parameters = [parameters[k] for k in kept]
    records: Records = {}
    for path, values in zip(profiles, points, strict=True):
        point = place([values[k] for k in kept], parameters, path.parent)
        for key, value in _read_profile(path, reduce).items():
            add(records, key, point, [measured(value, path, what=f"a number for {key[0]}")])
    return parameters, records


def _read_name(folder: Path) -> tuple[list[str], list[str]]:
    """Return the parameters in the name of a folder, and their values.

    >>> _read_name(Path("app.p64.n1,5.r1"))
    (['p', 'n'], ['64', '1.5'])
    """
    text = _PREFIX.sub("", _RUN.sub("", folder.name))
    pairs = _PAIR.findall(text)
    names = [name for name, _ in pairs]
    if not pairs or _PAIR.sub("", text) or len({*names}) < len(names):
        raise InputError(
            "the name of the folder tells no parameters",
            file=folder,
            found=folder.name,
            expected=f"a name such as {_EXAMPLE}",
        )
    return names, [value.replace(",", ".") for _, value in pairs]


def _read_profile(path: Path, reduce: str) -> dict[tuple[str, str], float]:
    """Return the value of each call path and metric of a profile."""
    try:
        from pycubexr import CubexParser
        from pycubexr.utils.exceptions import MissingMetricError
    except ImportError:
        raise InputError(
            "Cube profiles need the package pycubexr",
            file=path,
            expected="pip install 'toruscast[cube]'",
        ) from None
    check_unpacked_size(path)
    result: dict[tuple[str, str], float] = {}
    try:
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
    except MemoryError:
        raise
    except Exception as error:  # the other package may raise anything for a damaged file
        found_instead = f"{type(error).__name__}: {error}"
        raise InputError("is no Cube profile", file=path, found=found_instead) from None
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
