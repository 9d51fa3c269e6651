"""The feature table: a row a mapping, a column a feature."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from toruscast._slow import pandas as pd
from toruscast.errors import InputError
from toruscast.mapping import MappingProblem, TaskMapping
from toruscast.validation import Routing, check_call, check_type, job_count, whole_number
from toruscast.workers import Task

from .registry import Feature, select
from .traffic import RoutedTraffic

if TYPE_CHECKING:
    from toruscast.mapping.comm_graph import Traffic
    from toruscast.mapping.problem import MappingLike, Mappings, TorusLike

logger = logging.getLogger(__name__)
Extra = Mapping[str, Callable[[RoutedTraffic], Any]]
# Rows that are turned into a table together.
_BLOCK = 1024
Row = tuple[str, dict[str, Any]]
TIMED: Extra = {"time": lambda traffic: traffic.simulation.time}
"""The column of the simulated time."""


def features(
    traffic: Traffic,
    torus: TorusLike,
    mappings: Mappings,
    *,
    level: int = 1,
    routing: Routing = "deterministic",
    features: Sequence[str] | None = None,
    extra: Extra | None = None,
    n_jobs: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> pd.DataFrame:
    """Return the features of each mapping.

    Parameters
    ----------
    traffic, torus
        Whatever `MappingProblem` takes, such as graphs of NetworkX, tables and text.
    mappings
        Whatever `MappingProblem.mappings` takes, such as a table with a mapping in each column.
    level : {1, 2}
        1 for features of the routes alone; 2 adds those of the simulator, and the simulated
        ``time``.
    features : sequence of str, optional
        Names of the features, whatever their level; all of the level if not given.
    extra : mapping of str to callable, optional
        More columns by name. Each function takes the `RoutedTraffic` of a mapping and returns
        whatever the column shall hold. It shares what the features computed, such as link loads.
    n_jobs : int, optional
        Threads, or as many workers as `joblib.parallel_config` starts; -1 for one a core.
    progress : callable, optional
        Called with the number of mappings done and of all.

    Returns
    -------
    DataFrame
        Indexed by the mappings' names (by number where they have none).

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
    check_call(progress)
    problem = MappingProblem(traffic, torus, routing)
    several = problem.mappings(mappings)
    blocks = extract_blocks(
        problem,
        several,
        level=level,
        features=features,
        extra=extra,
        n_jobs=n_jobs,
        progress=None if progress is None else lambda done: progress(done, len(several)),
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
    """Return the table of `features` in blocks of 1,024 rows, in order: neither is held.

    Parameters are those of `features`, but for the problem and ``progress``, which is called with
    the number of rows done. A
    mapping is taken when a worker is free for it, so a fault of one may come after rows of others.
    There is at least one block, which may be empty.

    Examples
    --------
    >>> comm = CommGraph(4, [0, 1, 2, 3], [1, 2, 3, 0], [512] * 4)
    >>> many = (TaskMapping([0, 1, 2, 3], 4, name=f"copy {i}") for i in range(3000))
    >>> blocks = extract_blocks(MappingProblem(comm, (4,)), many, features=["max_bytes"])
    >>> [len(block) for block in blocks]
    [1024, 1024, 952]
    """
    whole_number(level, "level", 1, 2)
    chosen = select(features, level)
    check_type(extra, "extra", Mapping | None, "a dictionary of functions")
    timed = TIMED if features is None and level == 2 else {}
    further = {**timed, **(extra or {})}
    task = Task(_routed_row, problem, chosen, further)
    found = task.in_turn(map(problem.mapping, mappings), job_count(n_jobs), progress=progress)
    return _blocks(found, list(dict.fromkeys([*(feature.name for feature in chosen), *further])))


def _blocks(rows: Iterator[Row], columns: Sequence[str]) -> Iterator[pd.DataFrame]:
    began, n_rows = time.perf_counter(), 0
    while block := list(islice(rows, _BLOCK)):
        yield _table(block, columns, n_rows)
        n_rows += len(block)
    if not n_rows:
        yield _table([], columns)
    found = {"features": len(columns), "mappings": n_rows, "seconds": time.perf_counter() - began}
    words = "computed %(features)d features of %(mappings)d mappings, in %(seconds).3g s"
    logger.info(words, found, extra={"event": "features", **found})


def tabulate(
    cases: Iterable[RoutedTraffic], features: Sequence[Feature], extra: Extra | None = None
) -> pd.DataFrame:
    """Return features of routed traffic, a row a case; each case is dropped after its row."""
    rows = [_row(case, features, extra or {}) for case in cases]
    return _table(rows, [*(feature.name for feature in features), *(extra or {})])


def _table(rows: Sequence[Row], columns: Sequence[str], first: int = 0) -> pd.DataFrame:
    names = [name or str(i) for i, (name, _) in enumerate(rows, first)]
    index = pd.Index(names, name="mapping")
    values: Any = [values for _, values in rows]
    dtype = None if rows else float
    return pd.DataFrame(values, index=index, columns=list(columns), dtype=dtype)


def _routed_row(
    problem: MappingProblem, chosen: Sequence[Feature], extra: Extra, mapping: TaskMapping
) -> Row:
    return _row(RoutedTraffic(problem, mapping), chosen, extra)


def _row(traffic: RoutedTraffic, chosen: Sequence[Feature], extra: Extra) -> Row:
    # Link bytes are cheaper alone, but free once the pass that finds all else is done.
    in_turn = sorted(chosen, key=lambda feature: "_bytes" in feature.name)
    values: dict[str, Any] = {feature.name: _value(feature, traffic) for feature in in_turn}
    values |= {name: function(traffic) for name, function in extra.items()}
    return traffic.mapping.name, values


def _value(feature: Feature, traffic: RoutedTraffic) -> float:
    """A feature's value; what fails in a user's own function is told by the feature's name."""
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
