"""``toruscast train`` and ``evaluate`` with times of a machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

import toruscast as tc

from .inputs import load_application, load_mappings, load_torus
from .options import Candidates, SampleSource, Traffic, Work, refuse
from .output import Output
from .slow import measured_runs, metrics

if TYPE_CHECKING:
    import pandas as pd

    from toruscast.training import Measured


def learn_from_runs(
    traffic: Traffic,
    source: SampleSource,
    names: Sequence[str],
    more: Sequence[str],
    work: Work,
    output: Output,
) -> Measured:
    """Learn from the runs of mappings.

    Parameters
    ----------
    names : sequence of str
        Features that may add to what simulated times tell; all of the usual ones if there are none.
        Where none needs a simulation, nothing is simulated.
    more : sequence of str
        Further columns of the table of features.

    Raises
    ------
    InputError
        If the application, a mapping or a time is not valid, or there is nothing to learn.
    """
    if source.times is None or source.mappings is None:
        raise click.UsageError("--times and --mappings go together")
    if not traffic.is_given:
        raise click.UsageError("--times needs --comm and --torus")
    refuse("without --times", "number", "samples", "target")
    runs = tc.Runs.of(source.times)
    application = load_application(traffic)
    torus = load_torus(traffic)
    files = Candidates(source.form, source.tasks_per_node, source.hosts, mappings=source.mappings)
    mappings = load_mappings(application.workload, torus, files, work.seed)
    missing = len(mappings) - len(runs.names)
    if missing > 0:
        output.message(f"{missing} of {len(mappings)} mappings have no time")
    with output.progress("Simulating what was measured") as progress:
        found = tc.learn_runs(
            application.workload,
            torus,
            mappings,
            runs,
            routing=work.routing,
            simulate=not names or tc.training.needed_level(names) > 1,
            features=names or None,
            more=more,
            seed=work.seed,
            n_jobs=work.jobs,
            progress=progress,
        )
    found.model.provenance_ |= {"times": source.times}
    return found


def scored(
    found: Measured, sets: Mapping[str, Sequence[str]], splits: int, work: Work, output: Output
) -> pd.DataFrame:
    """Score the line alone, and with each set of features, on the same splits."""
    reference = found.model.reference
    models = {f"line in {reference}": measured_runs.line_in(reference)}
    for name, features in sets.items():
        models[name] = tc.TimePredictor(features, "measured", reference=reference)
    table = found.table.assign(time=found.runs.times)
    with output.progress("Scoring feature sets") as progress:
        return tc.training.repeated_splits(
            table,
            models,
            n_splits=splits,
            seed=work.seed,
            n_jobs=work.jobs,
            metrics=metrics.METRICS_OF_RUNS,
            progress=progress,
        )
