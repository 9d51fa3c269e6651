"""What a sample is called: a hash of all that is simulated, and a mark of each feature."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple
from types import CodeType, FunctionType
from typing import NamedTuple

import numpy as np

import toruscast
from toruscast.features import FEATURES, Feature
from toruscast.mapping import TaskMapping, Torus, Workload
from toruscast.mapping.task_mapping import as_mappings
from toruscast.routing import Routing
from toruscast.routing.routing import phase_routings

# To be raised when the same names and numbers give other samples.
KEY_VERSION = 4
# Features that have had other values under the same name, and how many times: only they are
# computed anew.
CHANGED: dict[str, int] = {
    f"{aggregate}_{family}{suffix}": 1
    for family in ("buffer", "delay")
    for aggregate in ("avg", "max", "sum", "count", "std", "median", "q90", "q99")
    for suffix in ("", "_AO", "_TO")
}


class Job(NamedTuple):
    """A few mappings of one workload, computed and stored together."""

    workload: Workload
    torus: Torus
    mappings: tuple[TaskMapping, ...]
    keys: tuple[str, ...]


class SampleOptions(NamedTuple):
    """What is computed of every case."""

    features: tuple[Feature, ...]
    routing: Routing
    coarsening: int | None
    iterations: int = 1


def job_of(
    workload: Workload,
    torus: Torus,
    mappings: TaskMapping | Sequence[TaskMapping],
    how: SampleOptions,
) -> Job:
    """Return mappings of a workload with their keys; mappings that do not fit are an error."""
    several = as_mappings(mappings)
    for mapping in several:
        mapping.check(workload.n_tasks, torus)
    arrays = [
        getattr(phase, field)
        for phase in workload
        for field in ("src", "dst", "nbytes", "n_messages")
    ]
    # The name of a torus and of its axes change nothing, nor do zones in dimension order, unless a
    # feature of somebody's own looks at them.
    adaptive = "adaptive" in phase_routings(how.routing, workload, torus)
    zones = torus.zones if adaptive or not all(f.is_built_in for f in how.features) else ()
    # Packets in dimension order go the same way under both.
    same = torus.tie == "bluegene" and not adaptive
    tie = "source_parity" if same else torus.tie
    host = (torus.shape, torus.wrap, torus.bandwidth, torus.order, tie, zones)
    repeated = (how.iterations,) if how.iterations > 1 else ()
    common = digest(
        KEY_VERSION,
        toruscast.__version__,
        how.routing,
        how.coarsening,
        (*host, torus.twist, astuple(torus.holes)) if torus.twist or torus.holes else host,
        # Whether rules are known changes no simulation.
        {key: value for key, value in asdict(torus.network).items() if key != "rules"},
        workload.n_tasks,
        workload.dependent,
        *arrays,
        *repeated,
    )
    keys = tuple(digest(common, mapping.node, mapping.slot) for mapping in several)
    return Job(workload, torus, several, keys)


def mark_of(feature: Feature) -> str:
    """Name of a feature, and of one that is not toruscast's own its code, which may change."""
    code = getattr(feature.function, "__code__", None)
    if code is None or feature.is_built_in:
        changed = CHANGED.get(feature.name)
        return feature.name if changed is None else f"{feature.name} {changed}"
    function = feature.function
    cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    given = (getattr(function, "__defaults__", None), getattr(function, "__kwdefaults__", None))
    return f"{feature.name} {digest(_content(code), _told(cells), _told(given))}"


def marks_of(how: SampleOptions) -> dict[str, str]:
    """Return the mark of each feature whose name does not say it all."""
    marks = {feature.name: mark_of(feature) for feature in how.features}
    return {name: mark for name, mark in marks.items() if mark != name}


def changed_since(names: Iterable[str], marks: Mapping[str, str]) -> list[str]:
    """Return the features whose marks were others when a file was written.

    A file has no marks of those that have never changed, nor from before there were any.
    """
    known = [FEATURES[name] for name in names if name in FEATURES]
    return [
        feature.name
        for feature in known
        if (feature.is_built_in or feature.name in marks)
        and mark_of(feature) != marks.get(feature.name, feature.name)
    ]


def _content(code: CodeType) -> tuple[object, ...]:
    """What a function does, wherever it stands; what it calls is not looked at."""
    return (code.co_code, code.co_names, *map(_told, code.co_consts))


def _told(value: object) -> object:
    """A constant in words that are the same in every process; of what has none, its type."""
    if isinstance(value, CodeType):
        return _content(value)
    if isinstance(value, FunctionType):
        return _content(value.__code__)
    if isinstance(value, set | frozenset):
        return sorted(str(_told(item)) for item in value)
    if isinstance(value, tuple | list):
        return [_told(item) for item in value]
    if isinstance(value, dict):
        return [(repr(key), _told(item)) for key, item in value.items()]
    return type(value).__name__ if type(value).__repr__ is object.__repr__ else repr(value)


def digest(*values: object) -> str:
    """Return a short hash of texts and arrays."""
    hasher = hashlib.sha256()
    for value in values:
        if isinstance(value, np.ndarray):
            hasher.update(f"{value.dtype.str}{value.shape}".encode())
            hasher.update(np.ascontiguousarray(value).tobytes())
        else:
            hasher.update(repr(value).encode())
        hasher.update(b"\0")
    return hasher.hexdigest()[:24]
