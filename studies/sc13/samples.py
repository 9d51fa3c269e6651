"""The simulated samples, with what they are samples of in columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from toruscast import InputError
from toruscast.training import read_samples

from ..study import Inputs
from .plan import BENCHMARKS, blocks, features

LABELS = ("benchmark", "size", "tasks", "workload", "torus", "mapping", "key", "time")
HYBRIDS = ("H1", "H2", "H3", "H4", "H5", "H6")
RELATIVE_COUNTERS = (
    "link_share",
    "injection_share",
    "reception_share",
    "latency_share",
    "max_over_avg_bytes",
    "std_over_avg_bytes",
    "idle_links",
    "max_over_avg_FIFO",
    "relative_hops",
    "relative_max_dilation",
    "path_over_max_bytes",
    "bottleneck_over_max_bytes",
    "avg_buffer",
    "avg_buffer_AO",
    "avg_buffer_TO",
    "avg_delay_AO",
    "avg_delay_TO",
    "release_slowdown",
)
"""Features that mean the same on every host: shares, ratios, packets in buffers."""


def load(
    inputs: Inputs,
    tasks: int,
    sizes: Sequence[str] | None = None,
    benchmarks: Sequence[str] = BENCHMARKS,
) -> pd.DataFrame:
    """Return the samples of some benchmarks with the columns ``benchmark, size, tasks``.

    Parameters
    ----------
    inputs : Inputs
    tasks : int
        16,384 or 65,536.
    sizes : sequence of str, optional
        Of messages; all if not given.
    benchmarks : sequence of str

    Raises
    ------
    InputError
        If there is no table, it lacks a feature, or one of the blocks is not complete.
    """
    expected = "a table made by 'python -m studies build', run to its end"
    if inputs.samples is None:
        raise InputError("no table of samples", expected=expected)
    table = read_samples(inputs.samples)
    if missing := [name for name in (*features(), "time") if name not in table.columns]:
        raise InputError("columns missing", file=inputs.samples, expected=", ".join(missing))
    parts = []
    for block in blocks():
        wanted = sizes is None or block.size in sizes
        if block.n_tasks != tasks or block.benchmark not in benchmarks or not wanted:
            continue
        own = table[(table["workload"] == block.name) & (table["torus"] == str(block.torus))]
        if len(own) != block.n_mappings or own["time"].nunique() < 2:
            found = f"{len(own)} mappings, {own['time'].nunique()} different times"
            raise InputError(f"samples of {block.label}", found=found, expected=expected)
        parts.append(own.assign(benchmark=block.benchmark, size=block.size, tasks=tasks))
    return pd.concat(parts, ignore_index=True)


def cases(table: pd.DataFrame) -> Iterator[tuple[dict[str, str], pd.DataFrame]]:
    """Give every benchmark, size and host, and the features and times of its mappings."""
    keys = ["benchmark", "size", "torus"]
    for labels, group in table.groupby(keys, sort=False):
        bare = group.drop(columns=["benchmark", "size", "tasks"]).reset_index(drop=True)
        yield dict(zip(keys, map(str, labels), strict=True)), bare
