"""Samples to train on: simulated for an application, or read from a file."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal

import click

from . import options
from .inputs import check_sends, load_application, load_mappings, load_torus, most_mappings
from .output import Output, check_writable

if TYPE_CHECKING:
    import pandas as pd


def obtain_samples(
    comm: str | None,
    form: options.Format,
    traffic: Literal["all", "point_to_point", "collective"],
    iterations: float | None,
    grid: str | None,
    torus: str | None,
    tasks_per_node: int | None,
    number: int | None,
    samples: str | None,
    level: int,
    routing: Literal["deterministic", "adaptive", "by_size"],
    seed: int,
    jobs: int,
    output: Output,
) -> pd.DataFrame:
    """Simulate samples where an application is given, else read them.

    Raises
    ------
    InputError
        If the file holds no samples, or the application does not fit the torus.
    """
    if comm is None:
        if samples is None:
            raise click.UsageError("give --comm and --torus, or --samples")
        options.refuse(
            "with --comm", "form", "number", "torus", "tasks_per_node", "traffic", "iterations",
            "grid", "routing", "level",
        )  # fmt: skip
        from toruscast.training import read_samples

        return read_samples(samples)
    if torus is None:
        raise click.UsageError("--comm needs --torus")
    if samples is not None:
        check_writable(samples)
    application = load_application(comm, traffic, iterations, grid, form)
    check_sends(application.comm, comm)
    host = load_torus(torus)
    n = number
    if n is None:
        n = most_mappings(application.comm, host, tasks_per_node, options.TRAINING)
    mappings = load_mappings(application.comm, host, None, n, tasks_per_node, seed)
    from toruscast.training import build_samples

    with TemporaryDirectory() as folder, output.progress(f"Simulating {n} mappings") as progress:
        return build_samples(
            [(application.comm, host, mappings)],
            Path(folder) / "samples.parquet" if samples is None else samples,
            n_jobs=jobs,
            level=level,
            routing=routing,
            progress=progress,
            provenance={"seed": seed},
        )
