"""Samples to train on: simulated for an application, or read from a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal

import click

from . import options
from .inputs import check_sends, load_application, load_mappings, load_torus, most_mappings
from .output import Output, check_writable

if TYPE_CHECKING:
    import pandas as pd

    from toruscast.mapping import CommGraph, TaskMapping, Torus


def obtain_samples(
    comm: str | None,
    form: options.Format,
    traffic: Literal["all", "point_to_point", "collective"],
    iterations: float | None,
    grid: str | None,
    torus: str | None,
    tasks_per_node: int | None,
    number: int | None,
    times: str | None,
    mappings: str | None,
    samples: str | None,
    names: Sequence[str],
    level: int,
    routing: Literal["deterministic", "adaptive", "by_size"],
    seed: int,
    jobs: int,
    output: Output,
) -> pd.DataFrame:
    """Simulate samples where an application is given, or take their measured times, else read them.

    With measured times there are the features of these names only, or all of the level if there are
    no names.

    Raises
    ------
    InputError
        If the file holds no samples, or the application does not fit the torus.
    """
    if (times is None) != (mappings is None):
        raise click.UsageError("--times and --mappings go together")
    if comm is None:
        if samples is None:
            raise click.UsageError("give --comm and --torus, or --samples")
        options.refuse(
            "with --comm",
            "form",
            "number",
            "torus",
            "tasks_per_node",
            "traffic",
            "iterations",
            "grid",
            "routing",
            "level",
            "times",
            "mappings",
        )
        from toruscast.training import read_samples

        return read_samples(samples)
    if torus is None:
        raise click.UsageError("--comm needs --torus")
    if samples is not None:
        check_writable(samples)
    application = load_application(comm, traffic, iterations, grid, form)
    check_sends(application.comm, comm)
    host = load_torus(torus)
    if times is not None:
        options.refuse("without --times", "number", "samples")
        measured = load_mappings(application.comm, host, mappings, None, tasks_per_node, seed)
        return _measured(
            application.comm, host, measured, times, names, level, routing, jobs, output
        )
    n = number
    if n is None:
        n = most_mappings(application.comm, host, tasks_per_node, options.TRAINING)
    simulated = load_mappings(application.comm, host, None, n, tasks_per_node, seed)
    from toruscast.training import build_samples

    with TemporaryDirectory() as folder, output.progress(f"Simulating {n} mappings") as progress:
        return build_samples(
            [(application.comm, host, simulated)],
            Path(folder) / "samples.parquet" if samples is None else samples,
            n_jobs=jobs,
            level=level,
            routing=routing,
            progress=progress,
            provenance={"seed": seed},
        )


def _measured(
    comm: CommGraph,
    torus: Torus,
    mappings: list[TaskMapping],
    times: str,
    names: Sequence[str],
    level: int,
    routing: Literal["deterministic", "adaptive", "by_size"],
    jobs: int,
    output: Output,
) -> pd.DataFrame:
    """Return features of the mappings that a file has the times of."""
    from toruscast.errors import InputError
    from toruscast.features import extract
    from toruscast.mapping.formats import read_times

    seconds = read_times(times)
    known = {mapping.name for mapping in mappings}
    for name in seconds:
        if name not in known:
            raise InputError(
                "time of a mapping that is not there",
                file=times,
                found=name,
                expected=f"such as {mappings[0].name}",
            )
    chosen = [mapping for mapping in mappings if mapping.name in seconds]
    if len(chosen) < len(mappings):
        output.message(f"{len(mappings) - len(chosen)} of {len(mappings)} mappings have no time")
    besides = ("lower_bound", "sketch_time") if level > 1 else ("lower_bound",)
    wanted = tuple(dict.fromkeys((*names, *besides))) if names else None
    table = extract(
        comm, torus, chosen, level=level, routing=routing, features=wanted, n_jobs=jobs
    ).reset_index()
    table["time"] = [seconds[mapping.name] for mapping in chosen]
    table.attrs["provenance"] = {"routing": routing, "times": times}
    return table
