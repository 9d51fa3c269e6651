"""Samples to learn from: features and simulated times of many mappings."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import toruscast
from toruscast.features import Routing
from toruscast.features.registry import select
from toruscast.mapping import (
    CommGraph,
    InputError,
    TaskMapping,
    Torus,
    Workload,
    as_workload,
)  # fmt: skip
from toruscast.mapping.validation import job_count

from ._sample_keys import How, Job, digest, job_of
from ._sample_parts import labels_of, part_of
from .sample_store import FORMAT, LABELS, SIMULATION, read_samples, write_samples

Case = tuple[Workload | CommGraph, Torus, TaskMapping | Sequence[TaskMapping]]

_PART = 8


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
    how = How(select(features, level), routing, coarsening)
    jobs = [
        job_of(as_workload(traffic), torus, mappings, how) for traffic, torus, mappings in cases
    ]
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
            write_samples(part, folder / f"{digest(*part['key'])}.parquet")
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


def _missing(jobs: Iterable[Job], known: set[str]) -> list[Job]:
    """Return what is left to compute, in parts, nothing twice."""
    parts = []
    for job in jobs:
        new: dict[str, tuple[TaskMapping, str, str]] = {}
        for row in zip(job.mappings, job.keys, job.simulations, strict=True):
            if row[1] not in known:
                new[row[1]] = row
        known.update(new)
        for some in (list(new.values())[i : i + _PART] for i in range(0, len(new), _PART)):
            parts.append(Job(job.workload, job.torus, *zip(*some, strict=True)))
    return parts


def _computed(
    jobs: list[Job], n_jobs: int, how: How, old: pd.DataFrame | None
) -> Iterable[pd.DataFrame]:
    """Return the parts, each as soon as it is ready."""
    from joblib import Parallel, delayed

    workers = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator_unordered")
    parts: Iterable[pd.DataFrame] = workers(delayed(part_of)(job, how, old) for job in jobs)
    return parts


def _assembled(jobs: Sequence[Job], values: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the cases in their order, under their own names."""
    labels = pd.concat([pd.DataFrame(labels_of(job)) for job in jobs], ignore_index=True)
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
