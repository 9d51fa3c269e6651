"""The traffic of stored samples, routed again: new metrics of old simulations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.features import FEATURES, Feature, RoutedTraffic
from toruscast.features.table import tabulate
from toruscast.formats import parse_torus
from toruscast.mapping import CommGraph, MappingProblem, Torus, Workload, as_workload
from toruscast.mapping.patterns import from_recipe
from toruscast.mapping.strategies.registry import Placement, nodes
from toruscast.routing import dilations
from toruscast.validation import Routing, job_count, whole_number
from toruscast.workers import Task

from .store import digest

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
    """The samples of one workload on one torus, as the table names them."""

    workload: str
    torus: str
    rows: NDArray[np.intp]
    placement: Placement = field(repr=False)
    # Nodes of the tasks under mappings made so far, shared by blocks with alike graphs.
    made: dict[str, NDArray[Any]] = field(repr=False)

    @property
    def name(self) -> str:
        """Workload and torus."""
        return f"{self.workload} on {self.torus}"


def add_metrics(
    table: pd.DataFrame,
    names: Sequence[str],
    *,
    workloads: Mapping[str, Workload | CommGraph] | None = None,
    torus: Torus | None = None,
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
    routing = origin.get("routing", "deterministic")
    if not isinstance(routing, str):
        raise InputError("samples of several routings", found=routing, expected="one")
    seed = whole_number(origin.get("seed", 1), "seed of the samples", 0)
    chosen = [FEATURES[name] for name in names]
    parts, n_done = [], 0
    for block in blocks_of(table, workloads, torus):
        kept = table.iloc[thinned(block, most)].drop(columns=list(names), errors="ignore")
        rows = list(zip(kept["mapping"], kept[checks[0]], strict=True))
        task = Task(_values, block, checks[0], seed, routing, chosen)
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
    torus: Torus | None = None,
) -> Iterator[SampleBlock]:
    """Give the samples of each workload and torus, with both rebuilt."""
    origin = table.attrs.get("provenance", {})
    recipes = origin.get("workloads", {})
    capacity = origin.get("tasks_per_node")
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
        there = _torus_of(host) if torus is None else torus
        placement = Placement(MappingProblem(traffic, there), capacity)
        key = digest(host, *_shape_of(placement))
        yield SampleBlock(name, host, rows, placement, made.setdefault(key, {}))


def _torus_of(text: str) -> Torus:
    try:
        return parse_torus(text)
    except InputError:
        message = "samples do not tell their torus"
        raise InputError(message, found=text, expected="it (--torus)") from None


def _shape_of(placement: Placement) -> tuple[object, ...]:
    """What strategies look at; a multiple of all bytes changes nothing."""
    total = placement.total
    most = float(total.nbytes.max(initial=1.0)) or 1.0
    return (placement.grid, placement.capacity, total.src, total.dst, total.nbytes / most)


def thinned(block: SampleBlock, most: int | None) -> NDArray[np.intp]:
    """Return the rows of a block of which not more messages than that are routed."""
    rows = block.rows
    if most is None:
        return rows
    n = min(rows.size, max(_LEAST_ROWS, most // max(block.placement.total.n_edges, 1)))
    chosen: NDArray[np.intp] = rows[np.linspace(0, rows.size - 1, n).round().astype(int)]
    return chosen


def _values(
    block: SampleBlock,
    check: str,
    seed: int,
    routing: Routing,
    chosen: Sequence[Feature],
    row: tuple[str, float],
) -> list[float]:
    """Return the metrics of a sample, once its mapping is known to be the same."""
    placement, (name, told) = block.placement, row
    if name not in block.made:
        try:
            block.made[name] = nodes(placement, name, seed)
        except InputError:
            message = f"mapping of {block.name} is none of a strategy"
            expected = "a name that makes it again"
            raise InputError(message, found=name, expected=expected) from None
    there = placement.mapping(block.made[name], name)
    problem = MappingProblem(placement.problem.workload, placement.torus, routing)
    hops = dilations(problem.total, there)
    again = _CHECKS[check](hops, placement.total.nbytes)
    if not np.isclose(again, told, rtol=1e-9, atol=0.0):
        message = f"{name} of {block.name} is another mapping today"
        raise InputError(message, found=f"{check} {again:g}", expected=f"{told:g}")
    routed = RoutedTraffic(problem, there)
    return list(map(float, tabulate([routed], chosen, with_time=False).iloc[0]))
