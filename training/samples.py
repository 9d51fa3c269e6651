"""Samples to learn from: features and simulated times of many mappings."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import compress
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import toruscast
from toruscast.features import FEATURES, Feature, RoutedTraffic, Routing
from toruscast.features.registry import select
from toruscast.features.table import tabulate
from toruscast.mapping import (
    CommGraph,
    InputError,
    Network,
    TaskMapping,
    Torus,
    Workload,
    as_workload,
)  # fmt: skip
from toruscast.mapping.task_mapping import as_mappings
from toruscast.mapping.validation import job_count

from .sample_store import FORMAT, LABELS, SIMULATION, read_samples, write_samples

Case = tuple[Workload | CommGraph, Torus, TaskMapping | Sequence[TaskMapping]]

_PART = 8
# To be raised when the same names and numbers give other samples.
_KEY_VERSION = 3
# Features that have had other values under the same name, and how many times.
_CHANGED = {"sketch_time": 1, "sketch_slowdown": 1}
# Constants of a network without which samples were stored: their defaults are what was done before.
_LATER = {"escape"}


class _Job(NamedTuple):
    """A few mappings of one workload, computed and stored together."""

    workload: Workload
    torus: Torus
    mappings: tuple[TaskMapping, ...]
    keys: tuple[str, ...]
    simulations: tuple[str, ...]


class _How(NamedTuple):
    """What is computed of every case."""

    features: tuple[Feature, ...]
    routing: Routing
    coarsening: int | None


def build_samples(
    cases: Iterable[Case],
    store_path: str | os.PathLike[str],
    *,
    n_jobs: int = 1,
    level: int = 1,
    routing: Routing = "deterministic",
    features: Sequence[str] | None = None,
    coarsening: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    provenance: dict[str, Any] | None = None,
) -> pd.DataFrame:
    """Compute the features and simulate the time of every case, and store them as Parquet.

    Finished parts are kept in the folder ``<store_path>.parts`` until the table holds them: a run
    that was killed goes on where it stopped, even after others have built into the same table, and
    a table that grows computes only what is new.

    Parameters
    ----------
    cases : iterable of (workload, torus, mapping or mappings)
        What to compute.
    store_path : path-like
        The table; what it holds already is not computed again, and what it holds besides stays. A
        mapping that it holds with other features gets the new ones in the same row, without being
        simulated again where those are of level 1.
    n_jobs : int
        Threads; the compiled loops run side by side.
    level : {1, 2}
        Analytic features only, or those of the simulator too.
    routing : {"deterministic", "adaptive", "by_size"}
        Of features and simulation.
    features : sequence of str, optional
        Names of the features; all of the level if not given.
    coarsening : int, optional
        Real packets in one simulated packet; chosen as in `RoutedTraffic` if not given.
    progress : callable, optional
        Called with the number of samples done and the number of all; those that only lack features
        are still to do.
    provenance : dict, optional
        What JSON can hold, stored with the table besides the versions, command, date, graphs and
        tori; seeds belong here. Versions, command and date are those of the last run that added
        samples.

    Returns
    -------
    DataFrame
        A row per case and mapping, in their order: ``workload``, ``torus``, ``mapping``, ``key`` (a
        hash of all that the sample depends on; of a metric of your own its function, without what
        that calls), ``simulation`` (the same without the features), the features, and ``time`` in
        seconds.

    Raises
    ------
    InputError
        If a mapping does not fit, or the table or a part of it is no readable table of samples.
    """
    if level not in (1, 2):
        raise InputError("bad feature level", found=level, expected="1 or 2")
    n_jobs = job_count(n_jobs)
    how = _How(select(features, level), routing, coarsening)
    jobs = [_job(as_workload(traffic), torus, mappings, how) for traffic, torus, mappings in cases]
    rows = sum(len(job.keys) for job in jobs)
    if not rows:
        raise InputError("no mapping to build samples from")
    store = Path(store_path)
    folder = store.with_name(store.name + ".parts")
    old = read_samples(store) if store.exists() else None
    done = _stored(old, folder, {key for job in jobs for key in job.keys})
    missing = _missing(jobs, {str(key) for table in done for key in table["key"]})
    n_done = rows - sum(len(job.keys) for job in missing)
    if progress is not None:
        progress(n_done, rows)
    if missing:
        folder.mkdir(parents=True, exist_ok=True)
        for part in _computed(missing, n_jobs, how, old):
            write_samples(part, folder / f"{_digest(*part['key'])}.parquet")
            done.append(part)
            n_done += len(part)
            if progress is not None:
                progress(n_done, rows)
    table = _assembled(jobs, pd.concat(done, ignore_index=True).drop_duplicates("key"))
    origin = {
        "format": FORMAT,
        **_made(old, set(table["key"])),
        "level": level,
        "routing": routing,
        **({} if coarsening is None else {"coarsening": coarsening}),
        **(provenance or {}),
    }
    whole = table if old is None else _added(table, old)
    origin |= {"graphs": sorted(set(whole["workload"])), "tori": sorted(set(whole["torus"]))}
    write_samples(whole, store, origin)
    _remove_parts(folder, set(whole["key"]))
    table.attrs["provenance"] = origin | {"n_samples": rows}
    return table


def _job(
    workload: Workload,
    torus: Torus,
    mappings: TaskMapping | Sequence[TaskMapping],
    how: _How,
) -> _Job:
    several = as_mappings(mappings)
    for mapping in several:
        mapping.check(workload.n_tasks, torus)
    arrays = [
        getattr(phase, field)
        for phase in workload
        for field in ("src", "dst", "nbytes", "n_messages")
    ]
    # The name of a torus and of its axes change nothing; every other field does.
    host = (torus.shape, torus.wrap, torus.bandwidth, torus.order, torus.tie, torus.zones)
    versions = (_KEY_VERSION, toruscast.__version__)
    simulated = (
        how.routing,
        how.coarsening,
        host,
        _constants(torus.network),
        workload.n_tasks,
        workload.dependent,
        *arrays,
    )
    keys, simulations = (
        tuple(_digest(common, mapping.node, mapping.slot) for mapping in several)
        for common in (
            _digest(*versions, tuple(map(_mark, how.features)), *simulated),
            _digest(*versions, *simulated),
        )
    )
    return _Job(workload, torus, several, keys, simulations)


def _constants(network: Network) -> dict[str, object]:
    """Constants of a network, those that came later only where they are not what was before."""
    return {
        name: value
        for name, value in asdict(network).items()
        if name not in _LATER or value != getattr(Network, name)
    }


def _mark(feature: Feature) -> str:
    """Name of a feature, and of one that is not toruscast's own its code, which may change."""
    code = getattr(feature.function, "__code__", None)
    if code is None or feature.is_built_in:
        changed = _CHANGED.get(feature.name)
        return feature.name if changed is None else f"{feature.name} {changed}"
    return f"{feature.name} {_digest(_content(code))}"


def _content(code: CodeType) -> tuple[object, ...]:
    """What a function does, wherever it stands; what it calls is not looked at."""
    values = (_content(v) if isinstance(v, CodeType) else repr(v) for v in code.co_consts)
    return (code.co_code, code.co_names, *values)


def _digest(*values: object) -> str:
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


def _stored(old: pd.DataFrame | None, folder: Path, wanted: set[str]) -> list[pd.DataFrame]:
    """Return what is wanted of the finished table and of the parts of a run that was cut short."""
    tables = [*([] if old is None else [old]), *map(read_samples, _parts(folder))]
    kept = [table[table["key"].isin(wanted)] for table in tables]
    return [table.dropna(axis="columns", how="all") for table in kept if len(table)]


def _parts(folder: Path) -> list[Path]:
    return sorted(folder.glob("[!.]*.parquet"))


def _remove_parts(folder: Path, held: set[str]) -> None:
    """Remove the parts whose samples the table holds; the folder too unless others are left."""
    for part in _parts(folder):
        if held.issuperset(read_samples(part)["key"]):
            part.unlink()
    if not _parts(folder):
        shutil.rmtree(folder, ignore_errors=True)


def _made(old: pd.DataFrame | None, wanted: set[str]) -> dict[str, Any]:
    """Return by what and when the table was made: as it says where it holds all that is wanted."""
    now = {
        "toruscast": toruscast.__version__,
        "numpy": np.__version__,
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    if old is None or not wanted.issubset(old["key"]):
        return now
    before = old.attrs["provenance"]
    return {name: before[name] for name in now if name in before}


def _missing(jobs: Iterable[_Job], known: set[str]) -> list[_Job]:
    """Return what is left to compute, in parts, nothing twice."""
    parts = []
    for job in jobs:
        new: dict[str, tuple[TaskMapping, str, str]] = {}
        for row in zip(job.mappings, job.keys, job.simulations, strict=True):
            if row[1] not in known:
                new[row[1]] = row
        known.update(new)
        for some in (list(new.values())[i : i + _PART] for i in range(0, len(new), _PART)):
            parts.append(_Job(job.workload, job.torus, *zip(*some, strict=True)))
    return parts


def _computed(
    jobs: list[_Job], n_jobs: int, how: _How, old: pd.DataFrame | None
) -> Iterable[pd.DataFrame]:
    """Return the parts, each as soon as it is ready."""
    from joblib import Parallel, delayed

    workers = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator_unordered")
    parts: Iterable[pd.DataFrame] = workers(delayed(_part)(job, how, old) for job in jobs)
    return parts


def _part(job: _Job, how: _How, old: pd.DataFrame | None) -> pd.DataFrame:
    """Return features and times of a few mappings, simulating only those that the table lacks."""
    held = _held(job, how, old)
    is_held = [key in held.index for key in job.keys]
    tables = []
    if any(is_held):
        tables.append(_complete(_some(job, is_held), how, held))
    if not all(is_held):
        tables.append(_compute(_some(job, [not known for known in is_held]), how))
    return pd.concat(tables, ignore_index=True)


def _some(job: _Job, chosen: Sequence[bool]) -> _Job:
    """Return the chosen mappings of a job."""
    rows = compress(zip(job.mappings, job.keys, job.simulations, strict=True), chosen)
    return _Job(job.workload, job.torus, *zip(*rows, strict=True))


def _held(job: _Job, how: _How, old: pd.DataFrame | None) -> pd.DataFrame:
    """Return the rows that lack features of level 1 at most, under the keys asked for."""
    nothing = pd.DataFrame()
    if old is None or SIMULATION not in old.columns:
        return nothing
    rows = old[old[SIMULATION].isin(job.simulations)].dropna(axis="columns", how="all")
    simulated = {"time", *(feature.name for feature in how.features if feature.level > 1)}
    names = [name for name in rows.columns if name not in (*LABELS, SIMULATION, "time")]
    if not (simulated.issubset(rows.columns) and FEATURES.keys() >= set(names)):
        return nothing
    # Of a feature or torus that has changed since the key is another: such a row is not reused.
    stored = how._replace(features=tuple(FEATURES[name] for name in names))
    today = _job(job.workload, job.torus, job.mappings, stored).keys
    asked = dict(zip(today, job.keys, strict=True))
    current = rows[rows["key"].isin(today)].drop_duplicates("key")
    return current.set_index(current["key"].map(asked))


def _complete(job: _Job, how: _How, held: pd.DataFrame) -> pd.DataFrame:
    """Return features and times of a few mappings, computing only the features not held."""
    lacking = [feature for feature in how.features if feature.name not in held.columns]
    new = tabulate(_routed(job, how), lacking, with_time=False).set_axis(list(job.keys))
    names = [*(feature.name for feature in how.features), "time"]
    return _labelled(job, held.loc[list(job.keys)].join(new)[names])


def _compute(job: _Job, how: _How) -> pd.DataFrame:
    """Return features and times of a few mappings."""
    return _labelled(job, tabulate(_routed(job, how), how.features, with_time=True))


def _routed(job: _Job, how: _How) -> Iterable[RoutedTraffic]:
    return (
        RoutedTraffic(job.workload, job.torus, mapping, how.routing, how.coarsening)
        for mapping in job.mappings
    )


def _labelled(job: _Job, values: pd.DataFrame) -> pd.DataFrame:
    """Return the values of a few mappings with what names them in front."""
    table = values.reset_index(drop=True)
    for i, (name, column) in enumerate(_labels(job).items()):
        table.insert(i, name, column)
    return table


def _labels(job: _Job) -> dict[str, list[str]]:
    n = len(job.keys)
    names = [mapping.name for mapping in job.mappings]
    columns = ([job.workload.name] * n, [str(job.torus)] * n, names, list(job.keys))
    return dict(zip(LABELS, columns, strict=True)) | {SIMULATION: list(job.simulations)}


def _assembled(jobs: Sequence[_Job], values: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the cases in their order, under their own names."""
    labels = pd.concat([pd.DataFrame(_labels(job)) for job in jobs], ignore_index=True)
    known = [name for name in (*LABELS, SIMULATION) if name != "key"]
    features = values.drop(columns=known, errors="ignore")
    return labels.merge(features, on="key", how="left", validate="many_to_one")


def _added(table: pd.DataFrame, old: pd.DataFrame) -> pd.DataFrame:
    """Return what a store held and a table; of the same simulation the new values come first."""
    others = old[~old["key"].isin(table["key"])]
    if SIMULATION in others.columns:
        again = others[SIMULATION].isin(table[SIMULATION])
        more = others[again].drop_duplicates(SIMULATION, keep="last").set_index(SIMULATION)
        more = more[[name for name in more.columns if name not in table.columns]]
        table = table.join(more.dropna(axis="columns", how="all"), on=SIMULATION)
        others = others[~again]
    if others.empty:
        return table
    # In the order of the new keys, or a later run could not tell that their rows are current.
    columns = table.columns.union(others.columns, sort=False)
    return pd.concat([others, table], ignore_index=True)[columns]
