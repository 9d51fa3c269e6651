"""Samples to learn from: features and simulated times, and new metrics of stored ones."""

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
from toruscast.validation import check_call, job_count, whole_number
from toruscast.workers import Task

from .default_model import kinds_of
from .store import SampleFiles, SampleOptions, SampleSet, digest, joined, known, noted, up_to_date

logger = logging.getLogger(__name__)
# A part is written after so many seconds, or this share of the run's: never too many of them.
_PART_SECONDS, _PART_SHARE = 5.0, 0.01
# Mappings that a worker is given at a time.
_SIZE = 8
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
    whole_number(level, "feature level", 1, 2)
    check_call(progress)
    n_jobs = job_count(n_jobs)
    selected = tuple(dict.fromkeys(select_features(features, level)))
    how = SampleOptions(selected, coarsening, iterations)
    sets = [
        SampleSet.from_mappings(MappingProblem(traffic, torus, routing), mappings, how)
        for traffic, torus, mappings in cases
    ]
    rows = sum(len(each.keys) for each in sets)
    if not rows:
        raise InputError("no mapping to build samples from")
    own: dict[str, Any] = {"level": level, "routing": routing, "coarsening": coarsening}
    if iterations > 1:
        own["iterations"] = iterations
    kinds = {kind for each in sets for kind in kinds_of(each.problem, each.mappings)}
    told = (provenance or {}) | own | {"kinds": sorted(kinds)}
    files = None if store_path is None else SampleFiles(store_path)
    tables = [] if files is None else up_to_date(files.read(), how.features)[0]
    missing = parts_of(sets, how, known(tables))
    task = Task(compute, [each.problem for each in sets], how)
    n_done, began = rows - sum(len(part.keys) for part in missing), time.perf_counter()
    found = {"event": "samples found", "samples": rows, "stored": n_done}
    logger.info("%(stored)d of %(samples)d samples are stored already", found, extra=found)
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
    # The rows of the cases in their order, under their own names.
    labels = pd.concat([each.labels() for each in sets], ignore_index=True)
    columns = [*(feature.name for feature in how.features), "time"]
    table = labels.join(known(tables)[columns], on="key")
    origin = noted(table, how, told, is_new=bool(missing))
    table.attrs["provenance"] = origin
    if files is not None:
        whole = files.join(lambda others: joined([table, *others], how.features))
        origin = whole.attrs["provenance"]
    table.attrs["provenance"] = origin | own | {"n_samples": rows}
    return table


class Part(NamedTuple):
    """A few mappings of one problem that lack the same features, and perhaps the time."""

    case: int
    """Number of the problem."""
    mappings: tuple[TaskMapping, ...]
    keys: tuple[str, ...]
    features: tuple[Feature, ...]
    timed: bool


def parts_of(sets: Iterable[SampleSet], how: SampleOptions, held: pd.DataFrame) -> list[Part]:
    """Return what is left to compute, nothing twice; with simulated features goes the time."""
    columns = [*(feature.name for feature in how.features), "time"]
    seen: set[str] = set()
    parts = []
    for case, each in enumerate(sets):
        new = {key: m for key, m in zip(each.keys, each.mappings, strict=True) if key not in seen}
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


def compute(problems: Sequence[MappingProblem], how: SampleOptions, part: Part) -> pd.DataFrame:
    """Return the features of a part, and the times where they belong to it."""
    problem = problems[part.case]
    routed = (
        RoutedTraffic(problem, mapping, how.coarsening, how.iterations) for mapping in part.mappings
    )
    extra = TIME_COLUMN if part.timed else None
    values = tabulate(routed, part.features, extra).reset_index(drop=True)
    labels = SampleSet(problem, part.mappings, part.keys).labels()
    return pd.concat([labels, values], axis="columns")


# Rows of a block that are looked at, however many messages they send.
_LEAST_ROWS = 24
_Hops = Callable[[NDArray[np.int32], NDArray[np.float64]], float]
_CHECKS: dict[str, _Hops] = {
    "hop_bytes": lambda hops, nbytes: float((hops * nbytes).sum()),
    "avg_dilation": lambda hops, nbytes: float(hops.mean()),
    "max_dilation": lambda hops, nbytes: float(hops.max()),
}
"""Features that tell a mapping from another and do not depend on how ties are routed, from hops and
bytes of the edges: the passes that find all features would take most of the time."""


@dataclass(frozen=True, eq=False)
class SampleBlock:
    """The samples of one problem: their rows in a table, and what makes their mappings again."""

    name: str
    problem: MappingProblem
    rows: NDArray[np.intp]
    placement: Placement
    # Nodes of the tasks under mappings made so far, shared by blocks with alike graphs.
    made: dict[str, NDArray[Any]]

    def thinned(self, most: int | None) -> NDArray[np.intp]:
        """Return rows of which no more messages than that are routed; all if not given."""
        if most is None:
            return self.rows
        n = min(self.rows.size, max(_LEAST_ROWS, most // max(self.problem.comm.n_edges, 1)))
        chosen = np.linspace(0, self.rows.size - 1, n).round().astype(int)
        return np.asarray(self.rows[chosen])


def add_metrics(
    table: pd.DataFrame,
    names: Sequence[str],
    *,
    workloads: Mapping[str, Workload | CommGraph] | None = None,
    torus: TorusLike | None = None,
    most: int | None = None,
    n_jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Return stored samples with more metrics of their routed traffic; nothing is simulated again.

    The mappings are made anew by their names, and hops checked against those in the table.
    """
    if not names:
        raise InputError("no metric to add")
    deep = [name for name in names if FEATURES[name].level > 1]
    if deep:
        expected = "a metric of level 1; --comm and --torus simulate samples for it"
        raise InputError("metric needs a simulation", found=deep[0], expected=expected)
    checks = [name for name in _CHECKS if name in table.columns]
    if not checks:
        expected = f"one of {', '.join(_CHECKS)}"
        raise InputError(
            "samples do not tell hops, by which mappings are checked", expected=expected
        )
    origin = table.attrs.get("provenance", {})
    seed = whole_number(origin.get("seed", 1), "seed of the samples", 0)
    chosen = [FEATURES[name] for name in names]
    parts, n_done = [], 0
    for block in blocks_of(table, workloads, torus):
        kept = table.iloc[block.thinned(most)].drop(columns=list(names), errors="ignore")
        rows = list(zip(kept["mapping"], kept[checks[0]], strict=True))
        task = Task(_values, block, checks[0], seed, chosen)
        values = task.in_order(rows, job_count(n_jobs))
        new = pd.DataFrame(values, columns=list(names), index=kept.index)
        parts.append(pd.concat([kept, new], axis="columns"))
        n_done += block.rows.size
        if progress is not None:
            progress(n_done, len(table))
    result = pd.concat(parts, ignore_index=True)
    result.attrs = dict(table.attrs)
    return result


def blocks_of(
    table: pd.DataFrame,
    workloads: Mapping[str, Workload | CommGraph] | None = None,
    torus: TorusLike | None = None,
) -> Iterator[SampleBlock]:
    """Give the samples of each workload and torus, with both rebuilt."""
    origin = table.attrs.get("provenance", {})
    recipes, capacity = origin.get("workloads", {}), origin.get("tasks_per_node")
    routing = origin.get("routing", "deterministic")
    if isinstance(routing, list):
        raise InputError("samples of several routings", found=routing, expected="one")
    made: dict[str, dict[str, NDArray[Any]]] = {}
    labels = table[["workload", "torus"]].astype(str)
    for name, host in labels.drop_duplicates().itertuples(index=False, name=None):
        rows = np.flatnonzero((labels["workload"] == name) & (labels["torus"] == host))
        if workloads and name in workloads:
            traffic = as_workload(workloads[name])
        elif isinstance(recipes, Mapping) and name in recipes:
            traffic = from_recipe(recipes[name], name)
        else:
            raise InputError(
                "samples do not tell what was sent", found=name, expected="its graph (--comm)"
            )
        there = _torus_of(host) if torus is None else as_torus(torus)
        problem = MappingProblem(traffic, there, routing)
        placement = Placement(problem, capacity)
        # What strategies look at; a multiple of all bytes changes nothing.
        total = problem.comm
        relative = total.nbytes / (float(total.nbytes.max(initial=1.0)) or 1.0)
        key = digest(host, placement.grid, placement.capacity, total.src, total.dst, relative)
        yield SampleBlock(f"{name} on {host}", problem, rows, placement, made.setdefault(key, {}))


def _torus_of(text: str) -> Torus:
    try:
        return readers.torus(text)
    except InputError:
        message = "samples do not tell their torus"
        raise InputError(message, found=text, expected="it (--torus)") from None


def _values(
    block: SampleBlock,
    check: str,
    seed: int,
    chosen: Sequence[Feature],
    row: tuple[str, float],
) -> list[float]:
    """Return the metrics of a sample, once its mapping is known to be the same."""
    problem, placement, (name, told) = block.problem, block.placement, row
    if name not in block.made:
        try:
            block.made[name], _ = place_tasks(placement, name, seed)
        except InputError:
            message = f"mapping of {block.name} is none of a strategy"
            expected = "a name that makes it again"
            raise InputError(message, found=name, expected=expected) from None
    there = placement.mapping(block.made[name], name)
    again = _CHECKS[check](dilations(problem.total, there), problem.comm.nbytes)
    if not np.isclose(again, told, rtol=1e-9, atol=0.0):
        message = f"{name} of {block.name} is another mapping today"
        raise InputError(message, found=f"{check} {again:g}", expected=f"{told:g}")
    routed = RoutedTraffic(problem, there)
    return list(map(float, tabulate([routed], chosen).iloc[0]))
