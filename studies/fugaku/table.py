"""A row a measured time: the algorithm behind it and its footprint on the torus of the job."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pandas as pd

from toruscast.errors import InputError
from toruscast.mapping.collectives import schedule

from .algorithms import Variant, parse
from .footprint import footprint, simulated_bytes
from .job import Job, is_folded, read_job
from .library import copied, of_library, sums, waits_and_posts
from .times import read_times

# The simulated buffer: so large that time grows with the bytes only.
_LARGE = 2.0**26
# Tasks up to which a message is simulated in many packets; above, few must do.
_SMALL = 64
# Messages up to which a schedule is simulated; above, its rounds count one after the other.
_MANY = 300_000
# Why a row is left out.
UNKNOWN, CANNOT_RUN = "not known", "cannot run there"


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
        buffer where it is bytes, of `Footprint`; ``simulated``; ``copied`` (bytes that a task moves
        locally); those of `of_library`, `waits_and_posts` and `sums`; and, for a byte of the
        ``addresses`` that a call gathers, ``gathered``, ``gather_rounds, gather_hops``.
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
    known: dict[tuple[object, ...], dict[str, Any] | None] = {}
    rows: list[dict[Any, Any]] = []
    without: dict[int, str] = {}
    for number, row in enumerate(times.to_dict("records")):
        job = jobs[row["shape"]]
        variant = parse(row["collective"], row["algorithm"], row["nbytes"], len(job.grid))
        if variant is None:
            without[number] = UNKNOWN
            continue
        # Of pipelined trees the rounds depend on the number of segments, of others nothing does.
        piece = min(1.0, variant.segment / row["nbytes"]) if variant.pipelined else 0.0
        key = (row["shape"], dataclasses.replace(variant, code="", layer="", segment=0), piece)
        if key not in known:
            known[key] = _measure(job, variant, piece)
        measured = known[key]
        if measured is None:
            without[number] = CANNOT_RUN
            continue
        whole = {"n_tasks": job.mapping.n_tasks, "ndim": len(job.grid)}
        rows.append(row | dataclasses.asdict(variant) | measured | whole)
    left_out = times.iloc[list(without)].assign(reason=list(without.values()))
    if not rows:
        names = ", ".join(left_out["algorithm"].unique()[:5])
        raise InputError("no algorithm whose schedule is known", file=str(folder), found=names)
    table = pd.DataFrame(rows)
    gathers = pd.DataFrame(
        {name: _measure(job, _gather(job.mapping.n_tasks), 0.0) for name, job in jobs.items()}
    ).T.rename(columns={"simulated": "gathered", "rounds": "gather_rounds", "hops": "gather_hops"})
    table = table.join(gathers[["gathered", "gather_rounds", "gather_hops"]], on="shape")
    beside = of_library(table) | waits_and_posts(table) | sums(table)
    table = table.assign(copied=copied(table), **beside).drop(columns="reduced")
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


def _measure(job: Job, variant: Variant, piece: float) -> dict[str, Any] | None:
    """What a schedule asks for; None if it cannot run on the torus or with so many ports."""
    n, grid = job.mapping.n_tasks, job.grid if variant.on_torus else None
    try:
        plan = schedule(
            variant.schedule, n, 1.0, grid, ports=variant.ports, segment=piece, element=0
        )
    except InputError:
        return None
    if variant.in_turn:
        plan = plan.in_turn()
    at = (job.torus, job.mapping)
    found = footprint(plan, *at, all_ports=variant.all_ports)
    simulated = found.carried
    # In pipelined trees every link carries a segment a round, and where all starts at once there
    # is one round: nothing to overlap.
    if not piece and found.rounds * n * len(plan.lanes) <= _MANY and not plan.at_once:
        large = schedule(variant.schedule, n, _LARGE, grid, ports=variant.ports)
        large = large.in_turn() if variant.in_turn else large
        simulated = (
            simulated_bytes(
                large, *at, all_ports=variant.all_ports, packets=32 if n <= _SMALL else 8
            )
            / _LARGE
        )
    reduced = tuple(
        (times, max(float(step.nbytes.max(initial=0.0)) for step in steps))
        for times, steps in plan.rounds()
        if any(step.reduces for step in steps)
    )
    return {**found._asdict(), "simulated": simulated, "reduced": reduced}
