"""Make a table with the algorithm and footprint of each measured time."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pandas as pd

from toruscast import InputError
from toruscast.mapping.collectives import schedule

from .algorithms import Variant, parse
from .footprint import footprint, lanes_in_turn, simulated_bytes
from .job import Job, read_job
from .times import read_times

# Bytes of the simulated buffer, large enough that the time is proportional to the bytes.
_LARGE = 2.0**26
# Maximum tasks for simulation with many packets per message.
_SMALL = 64
# Maximum messages of a simulated schedule. The rounds of larger ones are added up.
_MANY = 300_000
_KEYS = ["shape", "collective", "algorithm", "nbytes"]


def tabulate(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the measured times with the footprints of their algorithms, and the omitted times.

    Parameters
    ----------
    folder : Path
        Times, as `read_times` takes them, and the job scripts under ``jobs``.

    Returns
    -------
    table : DataFrame
        Columns of `read_times`, ``time`` being the median where the same was measured several
        times; those of `Variant` and, each for a byte of the buffer where it is bytes, of
        `Footprint`; ``simulated`` bytes.
    left_out : DataFrame
        Columns of `read_times` of the rows whose schedule is not known or cannot run on the torus.

    Raises
    ------
    InputError
        If the times or a job script cannot be read, or the schedule of no row is known.
    """
    times = read_times(folder).groupby(_KEYS, sort=False)["time"].median().reset_index()
    # Small tori first, and small buffers first on each.
    times = times.sort_values("nbytes", kind="stable")
    times = times.sort_values("shape", kind="stable", key=_nodes, ignore_index=True)
    jobs = {name: _job(folder, name) for name in times["shape"].unique()}
    known: dict[tuple[object, ...], dict[str, Any] | None] = {}
    rows: list[dict[Any, Any]] = []
    without = []
    for number, row in enumerate(times.to_dict("records")):
        job = jobs[row["shape"]]
        n, ndim = job.mapping.n_tasks, len(job.grid)
        variant = parse(row["collective"], row["algorithm"], row["nbytes"], ndim, n)
        measured = None
        if variant is not None:
            # Only the rounds of pipelined trees depend on the number of segments.
            piece = min(1.0, variant.segment / row["nbytes"]) if variant.pipelined else 0.0
            bare = dataclasses.replace(variant, code="", layer="", segment=0)
            key = (row["shape"], bare, piece)
            if key not in known:
                known[key] = _measure(job, variant, piece)
            measured = known[key]
        if variant is None or measured is None:
            without.append(number)
            continue
        rows.append(row | dataclasses.asdict(variant) | measured)
    left_out = times.iloc[without]
    if not rows:
        names = ", ".join(left_out["algorithm"].unique()[:5])
        raise InputError("no algorithm whose schedule is known", file=folder, found=names)
    return pd.DataFrame(rows), left_out


def _job(folder: Path, shape: str) -> Job:
    path = folder / "jobs" / shape
    job = read_job(path)
    if sorted(job.grid) != sorted(map(int, shape.split("x"))):
        found = "x".join(map(str, job.grid))
        raise InputError("job script of another torus", file=path, found=found, expected=shape)
    return job


def _nodes(shapes: pd.Series) -> pd.Series:
    return shapes.map(lambda shape: math.prod(map(int, shape.split("x"))))


def _measure(job: Job, variant: Variant, piece: float) -> dict[str, Any] | None:
    """Return the footprint of a schedule; None if the torus or the ports do not allow it."""
    n, grid = job.mapping.n_tasks, job.grid if variant.on_torus else None
    try:
        plan = schedule(
            variant.schedule, n, 1.0, grid, ports=variant.ports, segment=piece, element=0
        )
    except InputError:
        return None
    if variant.in_turn:
        plan = lanes_in_turn(plan)
    at = (job.torus, job.mapping)
    found = footprint(plan, *at, all_ports=variant.all_ports)
    simulated = found.carried
    # Every link of pipelined trees carries a segment a round, and exchanges that start all at once
    # have one round: nothing overlaps.
    if not piece and found.rounds * n * len(plan.lanes) <= _MANY and not plan.at_once:
        large = schedule(variant.schedule, n, _LARGE, grid, ports=variant.ports)
        large = lanes_in_turn(large) if variant.in_turn else large
        packets = 32 if n <= _SMALL else 8
        bytes_sent = simulated_bytes(large, *at, all_ports=variant.all_ports, packets=packets)
        simulated = bytes_sent / _LARGE
    return {**found._asdict(), "simulated": simulated}
