"""Samples of a few mappings at a time: features and simulated times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress

import pandas as pd

from toruscast.features import FEATURES, RoutedTraffic
from toruscast.features.table import tabulate

from ._sample_keys import How, Job, job_of
from .sample_store import LABELS, SIMULATION


def part_of(job: Job, how: How, old: pd.DataFrame | None) -> pd.DataFrame:
    """Return features and times of a few mappings, simulating only those that the table lacks."""
    held = _held(job, how, old)
    is_held = [key in held.index for key in job.keys]
    tables = []
    if any(is_held):
        tables.append(_complete(_some(job, is_held), how, held))
    if not all(is_held):
        tables.append(_compute(_some(job, [not known for known in is_held]), how))
    return pd.concat(tables, ignore_index=True)


def _some(job: Job, chosen: Sequence[bool]) -> Job:
    """Return the chosen mappings of a job."""
    rows = compress(zip(job.mappings, job.keys, job.simulations, strict=True), chosen)
    return Job(job.workload, job.torus, *zip(*rows, strict=True))


def _held(job: Job, how: How, old: pd.DataFrame | None) -> pd.DataFrame:
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
    today = job_of(job.workload, job.torus, job.mappings, stored).keys
    asked = dict(zip(today, job.keys, strict=True))
    current = rows[rows["key"].isin(today)].drop_duplicates("key")
    return current.set_index(current["key"].map(asked))


def _complete(job: Job, how: How, held: pd.DataFrame) -> pd.DataFrame:
    """Return features and times of a few mappings, computing only the features not held."""
    lacking = [feature for feature in how.features if feature.name not in held.columns]
    new = tabulate(_routed(job, how), lacking, with_time=False).set_axis(list(job.keys))
    names = [*(feature.name for feature in how.features), "time"]
    return _labelled(job, held.loc[list(job.keys)].join(new)[names])


def _compute(job: Job, how: How) -> pd.DataFrame:
    """Return features and times of a few mappings."""
    return _labelled(job, tabulate(_routed(job, how), how.features, with_time=True))


def _routed(job: Job, how: How) -> Iterable[RoutedTraffic]:
    return (
        RoutedTraffic(job.workload, job.torus, mapping, how.routing, how.coarsening)
        for mapping in job.mappings
    )


def _labelled(job: Job, values: pd.DataFrame) -> pd.DataFrame:
    """Return the values of a few mappings with what names them in front."""
    table = values.reset_index(drop=True)
    for i, (name, column) in enumerate(labels_of(job).items()):
        table.insert(i, name, column)
    return table


def labels_of(job: Job) -> dict[str, list[str]]:
    """Return what names each mapping of a job: its columns in front."""
    n = len(job.keys)
    names = [mapping.name for mapping in job.mappings]
    columns = ([job.workload.name] * n, [str(job.torus)] * n, names, list(job.keys))
    return dict(zip(LABELS, columns, strict=True)) | {SIMULATION: list(job.simulations)}
