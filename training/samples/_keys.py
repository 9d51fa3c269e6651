"""What a sample is called: a hash of all that is simulated, and a mark of each feature."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple
from types import FunctionType
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
    """Name of a feature, and of one that is not toruscast's own its source, which may change."""
    function = feature.function
    if feature.is_built_in or not isinstance(function, FunctionType):
        changed = CHANGED.get(feature.name)
        return feature.name if changed is None else f"{feature.name} {changed}"
    try:
        source: str | bytes = inspect.getsource(function)
    except OSError:
        source = function.__code__.co_code
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    given = (cells, function.__defaults__, function.__kwdefaults__)
    return f"{feature.name} {digest(source, given)}"


def marks_of(features: Iterable[Feature]) -> dict[str, str]:
    """Return the mark of each feature whose name does not say it all."""
    marks = {feature.name: mark_of(feature) for feature in features}
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
