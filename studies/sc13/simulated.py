"""The simulated samples, with what they are samples of in columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.training.metrics import wrong_pairs
from toruscast.training.sample_store import LABELS, read_samples

from ..experiment import Inputs
from ..plan import BENCHMARKS, TASKS_PER_NODE, blocks, features

CASE = ("benchmark", "size", "tasks")
"""Columns that tell which block a sample belongs to, besides ``torus``."""
TIME_IN_DISGUISE = (
    "lower_bound",
    "release_bound",
    "link_bound",
    "injection_bound",
    "reception_bound",
    "latency_bound",
)
"""Features that are a bound of the simulated time."""
HYBRIDS = ("H1", "H2", "H3", "H4", "H5", "H6")
GIVEN = "the time itself"
"""Name of the feature set that holds nothing but the time to forecast: what the learner makes of
perfect knowledge, with as few mappings to learn from. No bound, for other sets say more than one
number, but hardly to be surpassed."""
SETS = {name: name for name in ("prior", *HYBRIDS)} | {GIVEN: ("given",)}
_COMPLETE = "'python -m studies build' run to its end"
TEXT = (
    "Times and counters come from the packet simulator, without noise where none is named, on "
    f"Blue Gene/Q hosts with {TASKS_PER_NODE} tasks a node."
)


def load(inputs: Inputs) -> pd.DataFrame:
    """Return the samples with the columns ``benchmark``, ``size`` and ``tasks``.

    Raises
    ------
    InputError
        If there is no table, a workload in it is none of `plan.blocks`, a feature is missing or no
        number, or a time is not positive.
    """
    if inputs.samples is None:
        raise InputError("no table of samples", expected="one made by 'python -m studies build'")
    table = read_samples(inputs.samples)
    workloads = table["workload"].astype(str)
    parts = workloads.str.extract(r"^(2D Halo|3D Halo|Sub A2A|pF3D) ?(.*), (\d+) tasks$")
    strange = workloads[parts[0].isna()]
    if len(strange):
        raise InputError(
            "workload that no experiment knows",
            file=inputs.samples,
            found=strange.iloc[0],
            expected="samples made by 'python -m studies build'",
        )
    needed = [*features(), "time"]
    missing = [name for name in needed if name not in table.columns]
    if missing:
        raise InputError(
            "columns missing from samples",
            file=inputs.samples,
            found=list(table.columns),
            expected=", ".join(missing),
        )
    for name in needed:
        numbers = pd.api.types.is_numeric_dtype(table[name])
        if not numbers or not np.isfinite(table[name]).all():
            raise InputError(
                f"bad column {name}",
                file=inputs.samples,
                found="values that are not finite" if numbers else table[name].dtype,
                expected="numbers",
            )
    bad = np.flatnonzero(table["time"] <= 0)
    if bad.size:
        raise InputError(
            f"bad time of sample {bad[0]}",
            file=inputs.samples,
            found=table["time"].iloc[bad[0]],
            expected="positive seconds",
        )
    return table.assign(benchmark=parts[0], size=parts[1], tasks=parts[2].astype(int))


def text(table: pd.DataFrame) -> str:
    """Return what the samples of an experiment are: `TEXT`, and how many there are of what."""
    counts = table.groupby(["tasks", "torus", "benchmark", "size"], sort=False).size()
    parts = [
        f"{' to '.join(map(str, sorted({some.min(), some.max()})))} mappings of each benchmark and "
        f"size ({len(some)}) of {tasks:,} tasks on {torus}"
        for (tasks, torus), some in counts.groupby(["tasks", "torus"], sort=False)
    ]
    return f"{TEXT} Samples: {'; '.join(parts)}."


def synthetic(table: pd.DataFrame, tasks: int, sizes: Sequence[str] | None = None) -> pd.DataFrame:
    """Return the samples of the three benchmarks on the hosts of one size.

    Parameters
    ----------
    table : DataFrame
        From `load`.
    tasks : int
    sizes : sequence of str, optional
        Of messages; all that the table holds if not given.

    Raises
    ------
    InputError
        If one of the benchmarks lacks mappings on a host, or all its times are alike.
    """
    ours = (table["tasks"] == tasks) & (table["benchmark"] != "pF3D")
    held = list(table["size"][ours].unique()) if sizes is None else sizes
    return _complete(table[ours & table["size"].isin(held)], tasks, BENCHMARKS, held)


def pf3d(table: pd.DataFrame, tasks: int) -> pd.DataFrame:
    """Return the samples of pF3D on the hosts of one size; raises as `synthetic` does."""
    ours = (table["tasks"] == tasks) & (table["benchmark"] == "pF3D")
    return _complete(table[ours], tasks, ("pF3D",), ("",))


def _complete(
    some: pd.DataFrame, tasks: int, benchmarks: Sequence[str], sizes: Sequence[str]
) -> pd.DataFrame:
    """Return the samples if they are all those that the plan has of these."""
    if not sizes:
        raise InputError(f"no samples of {tasks} tasks for this experiment", expected=_COMPLETE)
    times = some.groupby(["workload", "torus"])["time"].agg(["size", "nunique"])
    held = dict(zip(times.index, times.to_numpy().tolist(), strict=True))
    for block in blocks():
        if block.n_tasks != tasks or block.benchmark not in benchmarks or block.size not in sizes:
            continue
        n, different = held.get((block.name, str(block.torus)), (0, 0))
        where = f"{block.name} on {block.torus}"
        if n != block.n_mappings:
            raise InputError(
                f"samples of {where}", found=n, expected=f"{block.n_mappings} mappings: {_COMPLETE}"
            )
        if different < 2:
            raise InputError(f"times of {where}", found="all alike", expected="times that differ")
    return some


def counters(table: pd.DataFrame) -> list[str]:
    """Return the feature columns, without those that are a bound of the simulated time."""
    return [name for name in numeric(table) if name not in TIME_IN_DISGUISE]


def numeric(table: pd.DataFrame) -> list[str]:
    """Return all feature columns."""
    other = {*LABELS, *CASE, "time"}
    return [name for name in table.columns if name not in other]


def cases(table: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Give every benchmark and size with its samples."""
    for labels, group in table.groupby(["benchmark", "size"], sort=False):
        benchmark, size = map(str, labels)
        yield benchmark, size, group


def features_of(table: pd.DataFrame) -> pd.DataFrame:
    """Return features, labels and time, as `repeated_splits` takes them."""
    return table.drop(columns=list(CASE)).reset_index(drop=True)


def with_times(table: pd.DataFrame, times: NDArray[np.float64]) -> pd.DataFrame:
    """Return features with other times, which the feature of `GIVEN` repeats."""
    return table.assign(time=times, given=times)


def share_within_cases(predictions: pd.DataFrame, learner: str) -> float:
    """Return the share of a learner's wrong pairs whose mappings are of one benchmark and size."""
    own = predictions[predictions["learner"] == learner]
    within = sum(
        wrong_pairs(some["observed"], some["predicted"])
        for _, some in own.groupby(["benchmark", "size", "torus"])
    )
    return within / max(wrong_pairs(own["observed"], own["predicted"]), 1)
