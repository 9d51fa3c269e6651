"""Samples to learn from: features, simulated times, and what measured times may follow."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from types import MappingProxyType
from typing import Any, NamedTuple

import pandas as pd

from toruscast.errors import InputError
from toruscast.features import Feature, RoutedTraffic, extract
from toruscast.features.registry import select
from toruscast.features.table import tabulate
from toruscast.mapping import CommGraph, MappingProblem, TaskMapping, Torus, Workload
from toruscast.routing import Routing
from toruscast.routing.messages import mean_message
from toruscast.routing.routing import ways_are_open
from toruscast.simulation.flows import flow_messages
from toruscast.validation import job_count
from toruscast.workers import Task

from .store import LABELS, Job, SampleFiles, SampleOptions, job_of, joined, known, noted, up_to_date

logger = logging.getLogger(__name__)
ROUNDS = "dependent rounds"
PHASES = "phases between barriers"
ADAPTIVE = "packets that choose their way"
SHORT = "messages of a packet or less"
SEVERAL = "several tasks a node"
# A part is written after so many seconds, or this share of the run's: never too many of them.
_PART_SECONDS, _PART_SHARE = 5.0, 0.01
Case = tuple[Workload | CommGraph, Torus, TaskMapping | Sequence[TaskMapping]]


def build_samples(
    cases: Iterable[Case],
    store_path: str | os.PathLike[str] | None = None,
    *,
    n_jobs: int | None = None,
    level: int = 1,
    routing: Routing = "deterministic",
    features: Sequence[str] | None = None,
    coarsening: int | None = None,
    iterations: int = 1,
    progress: Callable[[int, int], None] | None = None,
    provenance: dict[str, Any] | None = None,
) -> pd.DataFrame:
    """Compute the features and simulate the time of every case; store them as Parquet if asked to.

    With a store, finished samples are written to parts in the folder ``<store_path>.parts`` every
    few seconds, and joined into the table at the end: a run that was killed goes on where it
    stopped, and a table that grows computes only what is new. Several may build into one table at
    a time.

    Parameters
    ----------
    cases : iterable of (workload, torus, mapping or mappings)
    store_path : path-like, optional
        The table; nothing is written if not given. What it holds already is not computed again, and
        what it holds besides stays. A mapping that it holds with other features gets the new ones
        in the same row, without being simulated again where those are of level 1. Of a metric of
        your own that has changed it keeps no older values.
    n_jobs : int, optional
        Threads, or as many workers as `joblib.parallel_config` starts; -1 for one a core.
    level : {1, 2}
        Analytic features only, or those of the simulator too.
    features : sequence of str, optional
        All of the level if not given.
    coarsening : int, optional
        Real packets in one simulated packet; chosen as in `RoutedTraffic` if not given.
    iterations : int
        How often the phases are simulated, as in `simulate`; ``time`` is the mean of all but the
        first.
    progress : callable, optional
        Called with the number of samples done and the number of all; those that only lack features
        are still to do.
    provenance : dict, optional
        What JSON can hold, stored with the table besides the versions, command, date, graphs and
        tori, the highest level, routing and coarsening (of different ones a list); seeds belong
        here. Versions, command and date are those of the last run that added samples.

    Returns
    -------
    DataFrame
        A row per case and mapping, in their order: ``workload``, ``torus``, ``mapping``, ``key`` (a
        hash of all that is simulated; with metrics of your own of zones too, even where no packet
        is routed by them), the features asked for, and ``time`` in seconds. A metric of your own
        counts as changed if its function did, not if what that calls did.
    """
    if level not in (1, 2):
        raise InputError("bad feature level", found=level, expected="1 or 2")
    n_jobs = job_count(n_jobs)
    how = SampleOptions(
        tuple(dict.fromkeys(select(features, level))), routing, coarsening, iterations
    )
    jobs = [
        job_of(MappingProblem(traffic, torus, routing), mappings, how)
        for traffic, torus, mappings in cases
    ]
    rows = sum(len(job.keys) for job in jobs)
    if not rows:
        raise InputError("no mapping to build samples from")
    told = {"level": level, **(provenance or {})}
    told["kinds"] = sorted({kind for job in jobs for kind in kinds_of(job.problem, job.mappings)})
    if iterations > 1:
        told["iterations"] = iterations
    files = None if store_path is None else SampleFiles(store_path)
    tables = [] if files is None else up_to_date(files.read(), how.features)[0]
    missing = parts_of(jobs, how, known(tables))
    task = Task(compute, [job.problem for job in jobs], how)
    n_done, began = rows - sum(len(part.keys) for part in missing), time.perf_counter()
    found = {"event": "samples found", "samples": rows, "stored": n_done}
    logger.info("%d of %d samples are stored already", n_done, rows, extra=found)
    if progress is not None:
        progress(n_done, rows)
    kept, batch = 0.0, list[pd.DataFrame]()

    def keep() -> None:
        if files is not None and batch:
            part = pd.concat(batch, ignore_index=True)
            files.add(part, noted(part, how, told, is_new=True))
            batch.clear()

    try:
        for _, values in task.each(missing, n_jobs):
            batch.append(values)
            # Of what is simulated again, the new time counts.
            tables.insert(0, values)
            n_done += len(values)
            seconds = time.perf_counter() - began
            now = {"event": "samples done", "samples": rows, "done": n_done, "seconds": seconds}
            logger.info("%d of %d samples are done, after %.3g s", n_done, rows, seconds, extra=now)
            if seconds - kept > max(_PART_SECONDS, _PART_SHARE * seconds):
                keep()
                kept = seconds
            if progress is not None:
                progress(n_done, rows)
    finally:
        keep()
    table = _assembled(jobs, how, known(tables))
    origin = noted(table, how, told, is_new=bool(missing))
    table.attrs["provenance"] = origin
    if files is not None:
        whole = files.join(lambda others: joined([table, *others], how.features))
        origin = whole.attrs["provenance"]
    own = {"level": level, "routing": routing, "coarsening": coarsening, "n_samples": rows}
    own |= {"iterations": iterations} if iterations > 1 else {}
    table.attrs["provenance"] = origin | own
    return table


def kinds_of(problem: MappingProblem, mappings: Sequence[TaskMapping]) -> tuple[str, ...]:
    """Return the kinds of traffic, besides one exchange in dimension order with a task a node."""
    kinds = []
    if len(problem.workload) > 1:
        kinds.append(ROUNDS if problem.workload.dependent else PHASES)
    if ways_are_open(problem):
        kinds.append(ADAPTIVE)
    if problem.derive(mean_message) <= 1:
        kinds.append(SHORT)
    if any(mapping.tasks_per_node > 1 for mapping in mappings):
        kinds.append(SEVERAL)
    return tuple(kinds)


def _assembled(jobs: Sequence[Job], how: SampleOptions, values: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the cases in their order, under their own names."""
    labels = pd.concat([labels_of(job) for job in jobs], ignore_index=True)
    names = [*(feature.name for feature in how.features), "time"]
    return labels.join(values[names], on="key")


_SIZE = 8
"""Mappings that a worker is given at a time."""


class Part(NamedTuple):
    """A few mappings of one workload that lack the same features, and perhaps the time."""

    case: int
    """Number of the job that they are of."""
    mappings: tuple[TaskMapping, ...]
    keys: tuple[str, ...]
    features: tuple[Feature, ...]
    timed: bool


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


def compute(cases: Sequence[MappingProblem], how: SampleOptions, part: Part) -> pd.DataFrame:
    """Return the features of a part, and the times where they belong to it."""
    problem = cases[part.case]
    routed = (
        RoutedTraffic(problem, mapping, how.coarsening, how.iterations) for mapping in part.mappings
    )
    values = tabulate(routed, part.features, with_time=part.timed).reset_index(drop=True)
    labels = labels_of(Job(problem, part.mappings, part.keys))
    return pd.concat([labels, values], axis="columns")


def labels_of(job: Job) -> pd.DataFrame:
    """Return what names each mapping of a job."""
    names = [mapping.name for mapping in job.mappings]
    case = job.problem.workload.name, str(job.problem.torus)
    rows = ((*case, *row) for row in zip(names, job.keys, strict=True))
    return pd.DataFrame(list(rows), columns=list(LABELS))


BOUNDS = ("release_bound", "lower_bound")
"""Features of the routes alone."""
SIMULATED: MappingProxyType[str, Callable[[RoutedTraffic], float]] = MappingProxyType(
    {
        "simulated_time": lambda routed: routed.simulation.time,
        "flow_time": lambda routed: flow_messages(routed.problem, routed.mapping).time,
    }
)
"""Times of a simulation by packets and of one by flows, by name. They are no features: learned
times are often simulated ones themselves."""
REFERENCES = (*BOUNDS, "sketch_time", *SIMULATED)
"""Names of all, the cheapest first."""
_IN_WORDS = {
    "release_bound": "the lower bound that knows when messages are released",
    "lower_bound": "the lower bound",
    "sketch_time": "the time of a coarser simulation",
    "simulated_time": "the simulated time",
    "flow_time": "the time of simulated flows",
}


def in_words(reference: str) -> str:
    """Return what a reference is."""
    return _IN_WORDS.get(reference, reference)


def with_references(
    workload: Workload,
    torus: Torus,
    mappings: Sequence[TaskMapping],
    names: Iterable[str],
    *,
    routing: Routing,
    n_jobs: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> pd.DataFrame:
    """Return these features and references of each mapping, indexed by its name."""
    wanted = tuple(dict.fromkeys(names))
    return extract(
        workload,
        torus,
        mappings,
        routing=routing,
        features=tuple(name for name in wanted if name not in SIMULATED),
        also={name: SIMULATED[name] for name in wanted if name in SIMULATED},
        n_jobs=n_jobs,
        progress=progress,
    )


def references_to_try(routing: Routing, simulate: bool) -> tuple[str, ...]:
    """Return the references that there are under a routing, with or without a simulation.

    Flows know of dimension order only.
    """
    if not simulate:
        return BOUNDS
    return tuple(name for name in REFERENCES if name != "flow_time" or routing == "deterministic")
