"""A row a measured time: the algorithm behind it and its footprint on the torus of the job."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from toruscast.datasets.public.fugaku import read_times
from toruscast.mapping import InputError
from toruscast.mapping.collectives import schedule

from .fugaku_algorithms import Variant, parse
from .fugaku_footprint import footprint, simulated_bytes
from .fugaku_job import Job, is_folded, read_job

# The simulated buffer: so large that time grows with the bytes only.
_LARGE = 2.0**26
# Tasks up to which a message is simulated in many packets; above, few must do.
_SMALL = 64
# Messages up to which a schedule is simulated; above, its rounds count one after the other.
_MANY = 300_000
# Why a row is left out.
UNKNOWN, CANNOT_RUN = "not known", "cannot run there"
# Bytes above which the bine library's receivers say that they are ready.
_NOTICE = 1024


def tabulate(folder: Path, *, logical: bool = False) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the measured times with what their algorithms ask for, and those left out.

    Parameters
    ----------
    folder : Path
        Times, as `read_times` takes them, and the job scripts under ``jobs``.
    logical : bool
        Only the jobs that `read_job` folds, on the torus that they asked for.

    Returns
    -------
    table : DataFrame
        Columns of `read_times`, ``time`` being the median where the same was measured several times
        and ``repeats`` how often; ``n_tasks``; those of `Variant` and, each for a byte of the
        buffer where it is bytes, of `Footprint`; ``simulated``; ``pieces`` (messages into which
        segments or blocks cut those of the busiest task); ``copied`` (bytes that a task moves
        locally); ``notices`` (of a receiver that it is ready, one after the other); ``entries`` (of
        the library's tables of blocks); ``addresses`` (bytes that a call gathers from all tasks
        before it starts) and, for a byte of those, ``gathered``, ``gather_rounds, gather_hops``.
    left_out : DataFrame
        Columns of `read_times` and ``repeats`` of the rows whose schedule is not known or cannot
        run on the torus, and which of both as ``reason``.

    Raises
    ------
    InputError
        If the times or a job script cannot be read, or the schedule of no row is known.
    """
    times = _merged(read_times(folder))
    # Small tori first, and of each small buffers.
    times = times.sort_values("nbytes", kind="stable")
    times = times.sort_values("shape", kind="stable", key=_nodes)
    if logical:
        times = times[times["shape"].map(is_folded)]
    jobs = {name: _job(folder, name, logical) for name in times["shape"].unique()}
    known: dict[tuple[object, ...], dict[str, float] | None] = {}
    rows: list[dict[Any, Any]] = []
    without: dict[int, str] = {}
    for number, row in enumerate(times.to_dict("records")):
        job = jobs[row["shape"]]
        variant = parse(row["collective"], row["algorithm"], row["nbytes"], len(job.grid))
        if variant is None:
            without[number] = UNKNOWN
            continue
        pipelined = variant.schedule.endswith("pipelined_trees")
        # Of pipelined trees the rounds depend on the number of segments, of others nothing does.
        piece = variant.segment / row["nbytes"] if pipelined else 0.0
        key = (row["shape"], dataclasses.replace(variant, code="", layer="", segment=0), piece)
        if key not in known:
            known[key] = _measure(job, variant, piece)
        measured = known[key]
        if measured is None:
            without[number] = CANNOT_RUN
            continue
        rows.append(row | dataclasses.asdict(variant) | measured | {"n_tasks": job.mapping.n_tasks})
    left_out = times.iloc[list(without)].assign(reason=list(without.values()))
    if not rows:
        names = ", ".join(left_out["algorithm"].unique()[:5])
        raise InputError("no algorithm whose schedule is known", file=str(folder), found=names)
    table = pd.DataFrame(rows)
    gathers = pd.DataFrame(
        {name: _measure(job, _gather(job.mapping.n_tasks), 0.0) for name, job in jobs.items()}
    ).T.rename(columns={"simulated": "gathered", "rounds": "gather_rounds", "hops": "gather_hops"})
    table = table.join(gathers[["gathered", "gather_rounds", "gather_hops"]], on="shape")
    table = table.assign(pieces=_pieces(table), copied=_copied(table), **of_library(table))
    return table, left_out


def _merged(times: pd.DataFrame) -> pd.DataFrame:
    """One row for what was measured several times: the median."""
    keys = ["shape", "collective", "algorithm", "nbytes"]
    same = times.groupby(keys, sort=False)["time"]
    return same.agg(["median", "size"]).set_axis(["time", "repeats"], axis=1).reset_index()


def _job(folder: Path, shape: str, logical: bool) -> Job:
    path = folder / "jobs" / shape
    job = read_job(path, folded=not logical)
    if sorted(job.grid) != sorted(map(int, shape.split("x"))):
        found = "x".join(map(str, job.grid))
        raise InputError("job script of another torus", file=str(path), found=found, expected=shape)
    return job


def _gather(n_tasks: int) -> Variant:
    """How MPI gathers the addresses of the bine library's buffers: as it does short blocks."""
    known = "bruck" if n_tasks & (n_tasks - 1) else "recursive_doubling"
    return Variant(f"allgather/{known}", "", "fjmpi", 1, 0, on_torus=False)


def _nodes(shapes: pd.Series) -> pd.Series:
    return shapes.map(lambda shape: math.prod(map(int, shape.split("x"))))


def _measure(job: Job, variant: Variant, piece: float) -> dict[str, float] | None:
    """What a schedule asks for; None if it cannot run on the torus or with so many ports."""
    n, grid = job.mapping.n_tasks, job.grid if variant.on_torus else None
    try:
        plan = schedule(variant.schedule, n, 1.0, grid, ports=variant.ports, segment=piece)
    except InputError:
        return None
    at = (job.torus, job.mapping)
    found = footprint(plan, *at, all_ports=variant.all_ports)
    simulated = found.carried
    # In pipelined trees every link carries a segment a round, and where all starts at once there
    # is one round: nothing to overlap.
    if not piece and found.rounds * n * variant.ports <= _MANY and not plan.at_once:
        large = schedule(variant.schedule, n, _LARGE, grid, ports=variant.ports)
        simulated = simulated_bytes(
            large, *at, all_ports=variant.all_ports, packets=32 if n <= _SMALL else 8
        ) / _LARGE  # fmt: skip
    return {**found._asdict(), "simulated": simulated}


def _pieces(table: pd.DataFrame) -> pd.Series:
    """Messages by which segments or blocks lengthen the chain."""
    in_segments = (table["segment"] > 0) & ~table["schedule"].str.endswith("pipelined_trees")
    sent = table["carried"] * table["nbytes"]
    segments = np.where(in_segments, np.ceil(sent / table["segment"].clip(lower=1)), 0.0)
    # This one's scatter forwards block by block, each port in a thread of its own.
    by_block = table["code"].str.contains("bcast .*SCATTER_ALLGATHER-utofu")
    return pd.Series(np.where(by_block, table["n_tasks"] - 1 - table["rounds"] / 2, segments))


def of_library(table: pd.DataFrame) -> dict[str, pd.Series]:
    """Return what each call of the bine library does beside its messages.

    Parameters
    ----------
    table : DataFrame
        ``code, layer, nbytes, rounds, ports, n_tasks``.

    Returns
    -------
    dict of str to Series
        ``notices, entries, addresses``, see `tabulate`.

    Notes
    -----
    As its source has it (HLC-Lab/bine_trees_fugaku, lib): where data go straight into the user's
    buffer, an allgather first tells everybody where each port may write (two words a port); wide
    messages wait in every round for word that the buffer is free, on each port in turn if they are
    reduced at one task; collectives on blocks write down size and place of each block for each
    port.
    """
    code = table["code"].str
    direct = code.contains("bcast .*(?:BINOMIAL_TREE|SCATTER_ALLGATHER)-utofu|_BLOCKS-utofu")
    direct |= code.contains("alltoall BINE-LOG-utofu")
    reduces = code.contains("reduce .*BINOMIAL_TREE-utofu")
    notified = reduces | code.contains("allreduce .*-L-utofu")
    blocks = code.contains("CONT|BLOCKS|SCATTER|LOG") & table["layer"].isin(["utofu", "mpi"])
    ports = np.where(reduces, table["ports"], 1)
    return {
        "notices": table["rounds"] * ports * (notified & (table["nbytes"] > _NOTICE)),
        "entries": table["n_tasks"] * table["ports"] * blocks,
        "addresses": 16.0 * table["n_tasks"] * table["ports"] * direct,
    }


def _copied(table: pd.DataFrame) -> pd.Series:
    """Bytes that the implementation copies, as far as its name or its algorithm says.

    Blocks are permuted once where the name says so or a temporary buffer is used; all-to-alls in
    log(n) steps pack what they send in each.
    """
    code = table["code"].str
    once = code.contains("CONT_PERMUTE|TMPBUF") | (table["schedule"] == "allgather/bruck")
    packs = table["schedule"].isin(["alltoall/bruck", "alltoall/bine"])
    return table["nbytes"] * (once + packs * (table["rounds"] + 1))
