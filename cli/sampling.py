"""Samples to train on: simulated for an application, or read from a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from . import options
from .inputs import check_sends, load_application, load_mappings, load_torus
from .output import Output, check_writable
from .records import Candidates, Source, Traffic, Work, refuse

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
    if traffic.comm is None:
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
    application = load_application(traffic)
    comm = application.comm
    check_sends(comm, traffic.comm)
    host = load_torus(traffic)
    from toruscast.mapping.strategies.sampling import most_mappings
    from toruscast.training import build_samples

    n = source.number
    if n is None:
        n = most_mappings(comm, host, source.tasks_per_node, options.TRAINING)
    chosen = Candidates(tasks_per_node=source.tasks_per_node, candidates=n)
    simulated = load_mappings(comm, host, chosen, work.seed)
    with output.progress(f"Simulating {n} mappings") as progress:
        return build_samples(
            [(comm, host, simulated)],
            source.samples,
            n_jobs=work.jobs,
            level=level,
            routing=work.routing,
            progress=progress,
            provenance={"seed": work.seed},
        )
