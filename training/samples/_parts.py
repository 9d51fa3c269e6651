"""Samples of a few mappings at a time: what tables hold of them, what they lack, and to compute it.

A sample is a row; each feature that it has is a cell of its own, computed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress
from typing import NamedTuple

import pandas as pd

from toruscast.features import Feature, RoutedTraffic
from toruscast.features.table import tabulate
from toruscast.mapping import TaskMapping, Torus, Workload

from ._keys import Job, SampleOptions, mark_of
from .store import LABELS

_SIZE = 8


class Part(NamedTuple):
    """A few mappings of one workload that lack the same features, and perhaps the time."""

    case: int
    """Number of the job that they are of."""
    mappings: tuple[TaskMapping, ...]
    keys: tuple[str, ...]
    features: tuple[Feature, ...]
    timed: bool


def marks_of(how: SampleOptions) -> dict[str, str]:
    """Return the mark of each feature whose name does not say it all."""
    marks = {feature.name: mark_of(feature) for feature in how.features}
    return {name: mark for name, mark in marks.items() if mark != name}


def known(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return what tables hold of each sample, by its key; where several do, of the first."""
    if not tables:
        return pd.DataFrame()
    return pd.concat(tables, ignore_index=True).groupby("key", sort=False).first()


def parts_of(jobs: Iterable[Job], how: SampleOptions, held: pd.DataFrame) -> list[Part]:
    """Return what is left to compute, nothing twice; with simulated features goes the time."""
    columns = [*(feature.name for feature in how.features), "time"]
    seen: set[str] = set()
    parts = []
    for case, job in enumerate(jobs):
        new = {key: m for key, m in zip(job.keys, job.mappings, strict=True) if key not in seen}
        seen.update(new)
        lacking = held.reindex(index=list(new), columns=columns).isna().to_numpy().tolist()
        alike: dict[tuple[bool, ...], list[str]] = {}
        for key, lacks in zip(new, map(tuple, lacking), strict=True):
            alike.setdefault(lacks, []).append(key)
        for lacks, rows in alike.items():
            features = tuple(compress(how.features, lacks))
            timed = lacks[-1] or any(feature.level > 1 for feature in features)
            if not (features or timed):
                continue
            for i in range(0, len(rows), _SIZE):
                keys = tuple(rows[i : i + _SIZE])
                mappings = tuple(new[key] for key in keys)
                parts.append(Part(case, mappings, keys, features, timed))
    return parts


def compute(
    cases: Sequence[tuple[Workload, Torus]], how: SampleOptions, part: Part
) -> pd.DataFrame:
    """Return the features of a part, and the times where they belong to it."""
    workload, torus = cases[part.case]
    routed = (
        RoutedTraffic(workload, torus, mapping, how.routing, how.coarsening, how.iterations)
        for mapping in part.mappings
    )
    values = tabulate(routed, part.features, with_time=part.timed).reset_index(drop=True)
    labels = labels_of(Job(workload, torus, part.mappings, part.keys))
    return pd.concat([labels, values], axis="columns")


def labels_of(job: Job) -> pd.DataFrame:
    """Return what names each mapping of a job."""
    names = [mapping.name for mapping in job.mappings]
    rows = ((job.workload.name, str(job.torus), *row) for row in zip(names, job.keys, strict=True))
    return pd.DataFrame(list(rows), columns=list(LABELS))
