"""The simulated samples, with what they are samples of in columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pandas as pd

from toruscast import InputError
from toruscast.training import read_samples

from ..study import Findings, Inputs
from .plan import BENCHMARKS, Block, Kind, blocks, features, sketches_of

LABELS = ("benchmark", "size", "tasks", "workload", "torus", "mapping", "key", "time")
HYBRIDS = ("H1", "H2", "H3", "H4", "H5", "H6")
_COUNTERS = ("avg_buffer", "avg_buffer_AO", "avg_buffer_TO", "avg_delay_AO", "avg_delay_TO")
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
    *(f"relative_{name}" for name in _COUNTERS),
    "release_slowdown",
)
"""Features that mean the same on every host: shares, ratios, counters over the lower bound."""
EACH_BLOCK = (
    "Each block of 16,384 tasks: RCC, published ones where there are any, and processor seconds a "
    "mapping"
)
"""Caption of the table to which several parts add columns."""
_DERIVED = tuple(f"relative_{name}" for name in _COUNTERS)
FOUND_BY_SIMULATION = (*_DERIVED, "coarse_time", "coarse_slowdown")
"""Columns that `load` adds, of which those of the sketch are no features of [Jain13]."""


class NotBuiltError(InputError):
    """None of the blocks that a part needs has its samples."""


def load(
    inputs: Inputs,
    tasks: int,
    sizes: Sequence[str] | None = None,
    benchmarks: Sequence[str] = BENCHMARKS,
    kind: Kind = "structured",
) -> pd.DataFrame:
    """Return the samples of the blocks that are built, with the sketches' times.

    Columns besides those of the table: ``benchmark, size, tasks``; counters over the lower bound;
    ``coarse_time`` and ``coarse_slowdown``, NaN where there is no sketch.

    Parameters
    ----------
    inputs : Inputs
    tasks : int
        16,384 or 65,536.
    sizes : sequence of str, optional
        Of messages; all if not given.
    benchmarks : sequence of str
    kind : {"structured", "wide"}
        Of mappings.

    Raises
    ------
    InputError
        If there is no table, or it lacks a feature.
    NotBuiltError
        If none of the blocks is built.
    """
    wanted = [
        block
        for block in blocks()
        if block.n_tasks == tasks
        and block.benchmark in benchmarks
        and block.kind == kind
        and (sizes is None or block.size in sizes)
    ]
    table, sketches = _read(inputs)
    parts = []
    for block in wanted:
        own = _of(table, block, block.protocol)
        if own is None:
            continue
        rough = _of(sketches, block, block.sketch)
        times = {} if rough is None else rough.set_index("mapping")["time"].to_dict()
        own = own.assign(benchmark=block.benchmark, size=block.size, tasks=tasks)
        own["coarse_time"] = own["mapping"].map(times).astype(float)
        own["coarse_slowdown"] = own["coarse_time"] / own["lower_bound"]
        for name in _COUNTERS:
            own[f"relative_{name}"] = own[name] / own["lower_bound"]
        parts.append(own)
    if not parts:
        raise NotBuiltError(
            "samples not built",
            found=f"none of {len(wanted)} blocks",
            expected=how_to_build(wanted),
        )
    return pd.concat(parts, ignore_index=True)


def built(inputs: Inputs) -> Findings:
    """Tell which blocks of the plan have their samples, and how to make the others."""
    table, _ = _read(inputs)
    rows, left = [], []
    for block in blocks():
        is_built = _of(table, block, block.protocol) is not None
        rows.append(
            (block.n_tasks, block.kind, f"{block.benchmark} {block.size}".strip(), is_built)
        )
        left += [] if is_built else [block]
    status = pd.DataFrame(rows, columns=["tasks", "mappings", "block", "built"])
    n_built = int(status["built"].sum())
    if not left:
        return Findings("", {"blocks": status})
    parts = []
    for (tasks, kind), some in status[~status["built"]].groupby(["tasks", "mappings"], sort=False):
        names = list(dict.fromkeys(some["block"]))
        listed = ", ".join(names) if len(names) < 10 else "every block"
        parts.append(f"{tasks:,} tasks, {kind} mappings: {listed}")
    return Findings(
        f"**{n_built} of {len(status)} blocks of the plan are built; the others are left out of "
        f"every table below.** Not built yet are: {'; '.join(parts)}. {how_to_build(left)}.",
        {"blocks": status},
    )


def how_to_build(wanted: Sequence[Block]) -> str:
    """Return the command that builds blocks."""
    names = dict.fromkeys(block.name for block in wanted)
    only = "".join(f' --only "{name} on"' for name in names) if len(names) < 4 else ""
    return f"`python -m studies build --out studies/sc13/samples.parquet{only}` builds them"


def said(part: Callable[[Inputs], Findings]) -> Callable[[Inputs], Findings]:
    """Wrap a part of the study: where its samples are not built, it says so."""

    def found(inputs: Inputs) -> Findings:
        try:
            return part(inputs)
        except NotBuiltError as error:
            return Findings(f"Not built yet: {error.expected}.", {})

    return found


def cases(table: pd.DataFrame) -> Iterator[tuple[dict[str, str], pd.DataFrame]]:
    """Give every benchmark, size and host, and the features and times of its mappings."""
    keys = ["benchmark", "size", "torus"]
    for labels, group in table.groupby(keys, sort=False):
        bare = group.drop(columns=["benchmark", "size", "tasks"]).reset_index(drop=True)
        yield dict(zip(keys, map(str, labels), strict=True)), bare


def processor_seconds(inputs: Inputs) -> tuple[dict[str, float], dict[str, float]]:
    """Return what simulations and sketches of each block took, by its label."""
    table, sketches = _read(inputs)
    spent, sketched = (
        {} if some is None else some.attrs["provenance"].get("processor_seconds", {})
        for some in (table, sketches)
    )
    return spent, sketched


def _read(inputs: Inputs) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """Read the tables of samples and of sketches; the second may not be there."""
    if inputs.samples is None:
        expected = "a table made by 'python -m studies build'"
        raise InputError("no table of samples", expected=expected)
    table = read_samples(inputs.samples)
    if lacking := [name for name in (*features(), "time") if name not in table.columns]:
        raise InputError("columns missing", file=inputs.samples, expected=", ".join(lacking))
    sketches = sketches_of(inputs.samples)
    return table, read_samples(sketches) if sketches.exists() else None


def _of(table: pd.DataFrame | None, block: Block, protocol: dict[str, int]) -> pd.DataFrame | None:
    """Return the samples of a block; None unless all were made that way."""
    if (
        table is None
        or table.attrs["provenance"].get("protocol_of", {}).get(block.label) != protocol
    ):
        return None
    own = table[(table["workload"] == block.name) & (table["torus"] == str(block.torus))]
    is_whole = len(own) == block.n_mappings and own["time"].nunique() > 1
    return own.copy() if is_whole else None
