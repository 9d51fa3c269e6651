"""The feature table, with a row per mapping and a column per feature."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from toruscast._slow import pandas as pd
from toruscast.errors import InputError
from toruscast.mapping import MappingProblem, TaskMapping
from toruscast.mapping.problem import as_problem
from toruscast.validation import Progress, Routing, check_type, job_count, progress_of, whole_number
from toruscast.workers import Task

from .registry import Feature, select_features
from .traffic import RoutedTraffic

if TYPE_CHECKING:
    from toruscast.mapping.problem import MappingLike, Mappings, ProblemLike, TorusLike

logger = logging.getLogger(__name__)
Extra = Mapping[str, Callable[[RoutedTraffic], Any]]
_BLOCK_SIZE = 1024
Row = tuple[str, dict[str, Any]]
TIME_COLUMN: Extra = {"time": lambda traffic: traffic.simulation.time}


def features(
    comm: ProblemLike,
    torus: TorusLike | None = None,
    mappings: Mappings = (),
    *,
    level: int = 1,
    routing: Routing = "deterministic",
    features: Sequence[str] | None = None,
    extra: Extra | None = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Return a table of features, with a row for each mapping.

    Parameters
    ----------
    comm, torus
        Traffic and torus, in any form that `MappingProblem` accepts.
    mappings
        Mappings, in any form that `MappingProblem.mappings` accepts.
    level : {1, 2}
        1 for features of the routes; 2 adds features of a simulation, and its ``time``.
    features : sequence of str, optional
        Names of features of any level; all features up to ``level`` if not given.
    extra : mapping of str to callable, optional
        Functions for additional columns by name. A function takes the `RoutedTraffic` of a mapping,
        which caches values such as link loads, and returns the value of the column.
    n_jobs : int, optional
        Number of threads, or of workers in a `joblib.parallel_config`; -1 for one per core.
    progress : callable, optional
        Called with "features", the number of finished mappings, and their total number.

    Returns
    -------
    DataFrame
        Indexed by the names of the mappings, or by number for mappings without a name.

    Examples
    --------
    >>> comm = CommGraph(4, [0, 1, 2, 3], [1, 2, 3, 0], [512] * 4)
    >>> near = TaskMapping([0, 1, 2, 3], 4, name="near")
    >>> far = TaskMapping([0, 2, 1, 3], 4, name="far")
    >>> features(comm, Torus((4,)), [near, far], features=["hop_bytes", "avg_dilation"])
             hop_bytes  avg_dilation
    mapping
    near        2048.0           1.0
    far         3072.0           1.5

    Another column, from the same pass:

    >>> busiest = {"busiest": lambda traffic: int(traffic.all_link_bytes.argmax())}
    >>> features(comm, Torus((4,)), far, features=["max_bytes"], extra=busiest)
             max_bytes  busiest
    mapping
    far          512.0        0
    """
    report = progress_of(progress, "features")
    problem = as_problem(comm, torus, routing)
    several = problem.mappings(mappings)
    blocks = extract_blocks(
        problem,
        several,
        level=level,
        features=features,
        extra=extra,
        n_jobs=n_jobs,
        progress=None if report is None else lambda done: report(done, len(several)),
    )
    return pd.concat(blocks)


def extract_blocks(
    problem: MappingProblem,
    mappings: Iterable[MappingLike],
    *,
    level: int = 1,
    features: Sequence[str] | None = None,
    extra: Extra | None = None,
    n_jobs: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> Iterator[pd.DataFrame]:
    """Yield the table of `features` in blocks of 1,024 rows, without keeping mappings or rows.

    The parameters are those of `features`, except for the problem and ``progress``, which is called
    with the number of finished rows. Mappings are validated one by one, so an error can follow
    complete blocks. There is at least one block; it is empty if there are no mappings.
    """
    whole_number(level, "level", 1, 2)
    selected = select_features(features, level)
    check_type(extra, "extra", Mapping | None, "a dictionary of functions")
    for function in (extra or {}).values():
        check_type(function, "extra", Callable, "functions")
    time_column = TIME_COLUMN if features is None and level == 2 else {}
    extra = {**time_column, **(extra or {})}
    task = Task(_route_and_compute, problem, selected, extra)
    rows = task.in_turn(map(problem.mapping, mappings), job_count(n_jobs), progress=progress)
    return _collect_blocks(rows, list(dict.fromkeys([*(f.name for f in selected), *extra])))


def _collect_blocks(rows: Iterator[Row], columns: Sequence[str]) -> Iterator[pd.DataFrame]:
    """Yield tables of up to 1,024 rows, and log the total time at the end."""
    start, n_rows = time.perf_counter(), 0
    while block := list(islice(rows, _BLOCK_SIZE)):
        yield _build_table(block, columns, n_rows)
        n_rows += len(block)
    if not n_rows:
        yield _build_table([], columns)
    record = {"features": len(columns), "mappings": n_rows, "seconds": time.perf_counter() - start}
    message = "computed %(features)d features of %(mappings)d mappings, in %(seconds).3g s"
    logger.info(message, record, extra={"event": "features", **record})


def tabulate(
    routed: Iterable[RoutedTraffic], features: Sequence[Feature], extra: Extra | None = None
) -> pd.DataFrame:
    """Return a table of features, with a row for the traffic of each mapping."""
    rows = [_compute_row(traffic, features, extra or {}) for traffic in routed]
    return _build_table(rows, [*(feature.name for feature in features), *(extra or {})])


def _build_table(rows: Sequence[Row], columns: Sequence[str], first: int = 0) -> pd.DataFrame:
    """Build a table from rows; mappings without a name are numbered, starting at ``first``."""
    names = [name or str(i) for i, (name, _) in enumerate(rows, first)]
    index = pd.Index(names, name="mapping")
    values: Any = [[values[column] for column in columns] for _, values in rows]
    # Building a table from an array takes a seventh of the time.
    if all(type(value) is float for row in values for value in row):
        values = np.array(values, dtype=float).reshape(len(rows), len(columns))
    return pd.DataFrame(values, index=index, columns=list(columns))


def _route_and_compute(
    problem: MappingProblem, features: Sequence[Feature], extra: Extra, mapping: TaskMapping
) -> Row:
    return _compute_row(RoutedTraffic(problem, mapping), features, extra)


def _compute_row(traffic: RoutedTraffic, features: Sequence[Feature], extra: Extra) -> Row:
    """Return the mapping's name, and its features and additional columns by name."""
    # Compute features of link bytes last: the pass for the other features also sums link bytes.
    ordered = sorted(features, key=lambda feature: "_bytes" in feature.name)
    values: dict[str, Any] = {}
    for feature in ordered:
        values[feature.name] = _compute_feature(feature, traffic)
    values |= {name: function(traffic) for name, function in extra.items()}
    return traffic.mapping.name, values


def _compute_feature(feature: Feature, traffic: RoutedTraffic) -> float:
    """Return a feature's value; if a user's function fails, name the feature and the mapping."""
    mapping = traffic.mapping.name or "(no name)"
    try:
        value = float(feature.function(traffic))
    except Exception as error:
        if isinstance(error, InputError | MemoryError) or feature.is_built_in:
            raise
        raise InputError(
            f"feature {feature.name} failed on mapping {mapping}",
            found=f"{type(error).__name__}: {error}",
            expected="a number",
        ) from error
    if not (feature.is_built_in or math.isfinite(value)):
        raise InputError(f"feature {feature.name} is not finite on mapping {mapping}", found=value)
    return value
