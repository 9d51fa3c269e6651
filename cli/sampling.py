"""Samples to train on: simulated for an application, or read from a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .inputs import load_application, load_torus
from .output import Output, check_writable
from .records import Source, Traffic, Work, refuse

if TYPE_CHECKING:
    import pandas as pd


def obtain_samples(
    traffic: Traffic,
    source: Source,
    level: int,
    work: Work,
    output: Output,
) -> pd.DataFrame:
    """Simulate samples where an application is given, else read them.

    Raises
    ------
    InputError
        If the file holds no samples, or the application does not fit the torus.
    """
    if source.mappings is not None:
        raise click.UsageError("--times and --mappings go together")
    if not traffic.is_given:
        if source.samples is None:
            raise click.UsageError("give --comm and --torus, or --samples")
        others = (
            "number",
            "tasks_per_node",
            "hosts",
            "mapping_form",
            "routing",
            "level",
            "times",
            "mappings",
        )
        refuse("with --comm", Traffic, *others)
        from toruscast.training import read_samples

        return read_samples(source.samples)
    if traffic.torus is None:
        raise click.UsageError("--comm needs --torus")
    if source.samples is not None:
        check_writable(source.samples)
    refuse("with --times and --mappings", "hosts", "mapping_form", "fixed")
    workload = load_application(traffic).workload
    host = load_torus(traffic)
    from toruscast.training.samples.application import draw_samples

    with output.progress("Simulating mappings") as progress:
        return draw_samples(
            workload,
            host,
            source.number,
            seed=work.seed,
            tasks_per_node=source.tasks_per_node,
            level=level,
            routing=work.routing,
            store_path=source.samples,
            n_jobs=work.jobs,
            progress=progress,
        )[0]
