"""Training samples: compute features and times of mappings, or add metrics to stored samples."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._features import FEATURES, Feature, RoutedTraffic
from toruscast._features.registry import select_features
from toruscast._features.table import TIME_COLUMN, tabulate
from toruscast._slow import pandas as pd
from toruscast.errors import InputError
from toruscast.formats import readers
from toruscast.mapping import CommGraph, MappingProblem, TaskMapping, Torus, Workload, as_workload
from toruscast.mapping.machines import TorusLike, as_torus
from toruscast.mapping.patterns import from_recipe
from toruscast.mapping.strategies.registry import Placement, place_tasks
from toruscast.routing import Routing, dilations
from toruscast.validation import Progress, job_count, progress_of, whole_number
from toruscast.workers import Task

from . import store
from .default_model import classify_traffic

logger = logging.getLogger(__name__)
# Minimum time between parts, in seconds and as a share of the run time; it limits their number.
_PART_SECONDS, _PART_SHARE = 5.0, 0.01
_BATCH_SIZE = 8
Case = tuple[Workload | CommGraph, Torus, TaskMapping | Sequence[TaskMapping]]
# Minimum number of rows to select from a block, regardless of `max_messages`.
_MIN_ROWS = 24
_HopCheck = Callable[[NDArray[np.int32], NDArray[np.float64]], float]
_CHECKS: dict[str, _HopCheck] = {
    "hop_bytes": lambda hops, nbytes: float((hops * nbytes).sum()),
    "avg_dilation": lambda hops, nbytes: float(hops.mean()),
    "max_dilation": lambda hops, nbytes: float(hops.max()),
}
"""Features that identify a mapping, computed from hops and bytes of the edges. They are fast to
compute and do not depend on the tie rule of routes."""


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
    progress: Progress | None = None,
    provenance: dict[str, Any] | None = None,
) -> pd.DataFrame:
    """Compute the features and simulate the time of every case.

    With ``store_path``, finished samples are written to parts in the folder ``<store_path>.parts``
    every few seconds, and joined into a Parquet table at the end. A run that continues an
    interrupted one computes only the missing samples. Several processes may write to one table.

    Parameters
    ----------
    cases : iterable of (workload, torus, mapping or mappings)
    store_path : path-like, optional
        The table to write; none by default. Samples already in it are kept and not computed again.
        If they lack features of level 1, these are added without another simulation. A registered
        metric's values are removed if its function has changed.
    n_jobs : int, optional
        Number of threads, or of workers if `joblib.parallel_config` is used; -1 for one per core.
    level : {1, 2}
        1 for analytic features only; 2 also includes features from the simulator.
    features : sequence of str, optional
        By default, all features of the level.
    coarsening : int, optional
        Number of real packets per simulated packet; the default is that of `RoutedTraffic`.
    iterations : int
        Number of times that the phases are simulated, as in `simulate`; ``time`` is the mean over
        all iterations but the first.
    progress : callable, optional
        Called with "samples", the number of finished samples and the number of all samples.
    provenance : dict, optional
        JSON data, such as seeds, to store with the table. These are added: the graphs, tori,
        highest level, routing and coarsening (lists, if there are several), and the versions,
        command and date of the last run that added samples.

    Returns
    -------
    DataFrame
        A row per mapping of each case, in their order: ``workload``, ``torus``, ``mapping``,
        ``key`` (a hash of all inputs of the simulation), the features, and ``time`` in seconds.

    Notes
    -----
    A registered metric counts as changed if its own source changes. Changes in the functions that
    it calls go unnoticed.
    """
    whole_number(level, "feature level", 1, 2)
    report = progress_of(progress, "samples") or (lambda done, total: None)
    n_jobs = job_count(n_jobs)
    unique = tuple(dict.fromkeys(select_features(features, level)))
    options = store.SampleOptions(unique, coarsening, iterations)
    sets = [
        store.SampleSet.from_mappings(MappingProblem(traffic, torus, routing), mappings, options)
        for traffic, torus, mappings in cases
    ]
    total = sum(len(sample_set.keys) for sample_set in sets)
    if not total:
        raise InputError("no mapping to build samples from")
    settings: dict[str, Any] = {"level": level, "routing": routing, "coarsening": coarsening}
    if iterations > 1:
        settings["iterations"] = iterations
    kinds = {kind for item in sets for kind in classify_traffic(item.problem, item.mappings)}
    run_provenance = (provenance or {}) | settings | {"kinds": sorted(kinds)}
    files = None if store_path is None else store.SampleFiles(store_path)
    tables = [] if files is None else store.drop_changed_features(files.read(), options.features)[0]
    batches = split_batches(sets, options, store.merge_values(tables))
    task = Task(compute_batch, [each.problem for each in sets], options)
    n_done, start = total - sum(len(batch.keys) for batch in batches), time.perf_counter()
    fields = {"event": "samples found", "samples": total, "stored": n_done}
    logger.info("%(stored)d of %(samples)d samples are stored already", fields, extra=fields)
    report(n_done, total)
    last_write, unwritten = 0.0, list[pd.DataFrame]()

    def write_part() -> None:
        if files is not None and unwritten:
            part = pd.concat(unwritten, ignore_index=True)
            files.add(part, store.make_provenance(part, options, run_provenance, is_new=True))
            unwritten.clear()

    try:
        for _, values in task.each(batches, n_jobs):
            unwritten.append(values)
            # The first table takes precedence, so insert new values there to replace stored times.
            tables.insert(0, values)
            n_done += len(values)
            seconds = time.perf_counter() - start
            fields = {"event": "samples done", "samples": total, "done": n_done, "seconds": seconds}
            message = "%(done)d of %(samples)d samples are done, after %(seconds).3g s"
            logger.info(message, fields, extra=fields)
            if seconds - last_write > max(_PART_SECONDS, _PART_SHARE * seconds):
                write_part()
                last_write = seconds
            report(n_done, total)
    finally:
        write_part()
    labels = pd.concat([each.labels() for each in sets], ignore_index=True)
    columns = [*(feature.name for feature in options.features), "time"]
    table = labels.join(store.merge_values(tables)[columns], on="key")
    stored = store.make_provenance(table, options, run_provenance, is_new=bool(batches))
    table.attrs["provenance"] = stored
    if files is not None:
        whole = files.join(lambda others: store.join_tables([table, *others], options.features))
        stored = whole.attrs["provenance"]
    table.attrs["provenance"] = stored | settings | {"n_samples": total}
    return table


class SampleBatch(NamedTuple):
    """Mappings of one problem that lack the same features."""

    problem: int
    """Index of the problem."""
    mappings: tuple[TaskMapping, ...]
    keys: tuple[str, ...]
    features: tuple[Feature, ...]
    timed: bool
    """Whether the time is computed too."""


def split_batches(
    sets: Iterable[store.SampleSet], options: store.SampleOptions, stored: pd.DataFrame
) -> list[SampleBatch]:
    """Return batches of the samples that lack values in ``stored``, a table indexed by key."""
    columns = [*(feature.name for feature in options.features), "time"]
    planned: set[str] = set()
    batches = []
    for index, sample_set in enumerate(sets):
        new = dict(zip(sample_set.keys, sample_set.mappings, strict=True))
        new = {key: mapping for key, mapping in new.items() if key not in planned}
        planned.update(new)
        is_missing = stored.reindex(index=list(new), columns=columns).isna().to_numpy().tolist()
        by_missing: dict[tuple[bool, ...], list[str]] = {}
        for key, missing in zip(new, map(tuple, is_missing), strict=True):
            by_missing.setdefault(missing, []).append(key)
        for missing, rows in by_missing.items():
            features = tuple(compress(options.features, missing))
            # A simulation that computes features also gives the time.
            timed = missing[-1] or any(feature.level > 1 for feature in features)
            if not (features or timed):
                continue
            for i in range(0, len(rows), _BATCH_SIZE):
                keys = tuple(rows[i : i + _BATCH_SIZE])
                mappings = tuple(new[key] for key in keys)
                batches.append(SampleBatch(index, mappings, keys, features, timed))
    return batches


def compute_batch(
    problems: Sequence[MappingProblem], options: store.SampleOptions, batch: SampleBatch
) -> pd.DataFrame:
    """Return a batch's labels and features, and its times if the batch is timed."""
    problem = problems[batch.problem]
    routed = (
        RoutedTraffic(problem, mapping, options.coarsening, options.iterations)
        for mapping in batch.mappings
    )
    values = tabulate(routed, batch.features, TIME_COLUMN if batch.timed else None)
    labels = store.SampleSet(problem, batch.mappings, batch.keys).labels()
    return pd.concat([labels, values.reset_index(drop=True)], axis="columns")


@dataclass(frozen=True, eq=False)
class SampleBlock:
    """A problem's samples in a table, and the placement that reproduces the mappings."""

    name: str
    problem: MappingProblem
    rows: NDArray[np.intp]
    placement: Placement

    def select_rows(self, max_messages: int | None) -> NDArray[np.intp]:
        """Return all rows, or evenly spaced ones with at most ``max_messages`` in total."""
        if max_messages is None:
            return self.rows
        n_rows = max(_MIN_ROWS, max_messages // max(self.problem.comm.n_edges, 1))
        n = min(self.rows.size, n_rows)
        chosen = np.linspace(0, self.rows.size - 1, n).round().astype(int)
        return np.asarray(self.rows[chosen])


def add_metrics(
    table: pd.DataFrame,
    names: Sequence[str],
    *,
    workloads: Mapping[str, Workload | CommGraph] | None = None,
    torus: TorusLike | None = None,
    max_messages: int | None = None,
    n_jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Add metrics of level 1 to stored samples, without another simulation.

    Mappings are reproduced from their names and checked against the hops in the table. With
    ``max_messages``, only some samples from large blocks are returned.
    """
    if not names:
        raise InputError("no metric to add")
    simulated = [name for name in names if FEATURES[name].level > 1]
    if simulated:
        expected = "a metric of level 1; --comm and --torus simulate samples for it"
        raise InputError("metric needs a simulation", found=simulated[0], expected=expected)
    checks = [name for name in _CHECKS if name in table.columns]
    if not checks:
        expected = f"one of {', '.join(_CHECKS)}"
        raise InputError("no column of hops to check the mappings by", expected=expected)
    provenance = table.attrs.get("provenance", {})
    seed = whole_number(provenance.get("seed", 1), "seed of the samples", 0)
    features = [FEATURES[name] for name in names]
    parts, n_done = [], 0
    for block in split_blocks(table, workloads, torus):
        rows_of_block = table.iloc[block.select_rows(max_messages)]
        samples = rows_of_block.drop(columns=list(names), errors="ignore")
        rows = list(zip(samples["mapping"], samples[checks[0]], strict=True))
        task = Task(_compute_metrics, block, checks[0], seed, features)
        values = task.in_order(rows, job_count(n_jobs))
        metrics = pd.DataFrame(values, columns=list(names), index=samples.index)
        parts.append(pd.concat([samples, metrics], axis="columns"))
        n_done += block.rows.size
        if progress is not None:
            progress(n_done, len(table))
    result = pd.concat(parts, ignore_index=True)
    result.attrs = dict(table.attrs)
    return result


def split_blocks(
    table: pd.DataFrame,
    workloads: Mapping[str, Workload | CommGraph] | None = None,
    torus: TorusLike | None = None,
) -> Iterator[SampleBlock]:
    """Yield a block of samples for each workload and torus, reproduced from the provenance.

    ``workloads``, by name, and ``torus`` take precedence over those in the provenance.
    """
    provenance = table.attrs.get("provenance", {})
    recipes, capacity = provenance.get("workloads", {}), provenance.get("tasks_per_node")
    routing = provenance.get("routing", "deterministic")
    if isinstance(routing, list):
        raise InputError("samples of several routings", found=routing, expected="one")
    labels = table[["workload", "torus"]].astype(str)
    for name, torus_name in labels.drop_duplicates().itertuples(index=False, name=None):
        rows = np.flatnonzero((labels["workload"] == name) & (labels["torus"] == torus_name))
        if workloads and name in workloads:
            traffic = as_workload(workloads[name])
        elif isinstance(recipes, Mapping) and name in recipes:
            traffic = from_recipe(recipes[name], name)
        else:
            raise InputError("unknown graph of samples", found=name, expected="its graph (--comm)")
        host = _parse_torus(torus_name) if torus is None else as_torus(torus)
        problem = MappingProblem(traffic, host, routing)
        placement = Placement(problem, capacity)
        yield SampleBlock(f"{name} on {torus_name}", problem, rows, placement)


def _parse_torus(text: str) -> Torus:
    """Return the torus that a label describes; raise `InputError` if it cannot be read."""
    try:
        return readers.torus(text)
    except InputError:
        message = "unknown torus of samples"
        raise InputError(message, found=text, expected="its description (--torus)") from None


def _compute_metrics(
    block: SampleBlock, check: str, seed: int, features: Sequence[Feature], row: tuple[str, float]
) -> list[float]:
    """Return a mapping's features, given its name and stored value of the feature ``check``.

    The mapping is reproduced from its name. `InputError` is raised if its value of ``check``
    differs from the stored one.
    """
    problem, placement, (name, stored) = block.problem, block.placement, row
    try:
        nodes, _ = place_tasks(placement, name, seed)
    except InputError:
        message = f"a mapping of {block.name} cannot be reproduced"
        expected = "the name of a strategy"
        raise InputError(message, found=name, expected=expected) from None
    mapping = placement.mapping(nodes, name)
    value = _CHECKS[check](dilations(problem.total, mapping), problem.comm.nbytes)
    if not np.isclose(value, stored, rtol=1e-9, atol=0.0):
        message = f"{name} of {block.name} differs from the stored mapping"
        raise InputError(message, found=f"{check} {value:g}", expected=f"{stored:g}")
    routed = RoutedTraffic(problem, mapping)
    return list(map(float, tabulate([routed], features).iloc[0]))
