"""Samples to train on: simulated for an application, or read from a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from . import options
from .inputs import check_sends, load_application, load_mappings, load_torus
from .output import Output, check_writable
from .records import Candidates, Source, Traffic, Work, refuse

if TYPE_CHECKING:
    import pandas as pd

    from toruscast.mapping import CommGraph, TaskMapping, Torus


def obtain_samples(
    traffic: Traffic,
    source: Source,
    names: Sequence[str],
    level: int,
    work: Work,
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
    if (source.times is None) != (source.mappings is None):
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
    if source.times is not None:
        refuse("without --times", "number", "samples")
        files = Candidates(
            source.tasks_per_node, source.hosts, source.mapping_form, mappings=source.mappings
        )
        measured = load_mappings(comm, host, files, work.seed)
        return _measured(comm, host, measured, source.times, names, level, work, output)
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


def _measured(
    comm: CommGraph,
    torus: Torus,
    mappings: list[TaskMapping],
    times: str,
    names: Sequence[str],
    level: int,
    work: Work,
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
        comm,
        torus,
        chosen,
        level=level,
        routing=work.routing,
        features=wanted,
        n_jobs=work.jobs,
    ).reset_index()
    table["time"] = [seconds[mapping.name] for mapping in chosen]
    table.attrs["provenance"] = {"routing": work.routing, "times": times}
    return table
