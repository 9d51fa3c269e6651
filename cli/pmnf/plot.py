"""``toruscast pmnf plot``: the figure of a model."""

from __future__ import annotations

from typing import Any

import click

from .. import options
from ..output import Output, check_writable
from .measured import MeasuredPart, fitted_tables, measured_options, search_options
from .places import by_name


@click.command("plot")
@options.file_argument
@click.argument("figure", metavar="FIGURE")
@click.option("--metric", metavar="NAME", help="Only this metric.")
@click.option(
    "--at", "fixed", metavar="NAME=VALUE,..", help="Hold these parameters at a measured value."
)
@click.option(
    "--interval",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.9,
    show_default=True,
    metavar="LEVEL",
    help="Probability of the band around a curve.",
)
@search_options
@measured_options
def plot(
    file: str,
    figure: str,
    metric: str | None,
    fixed: str | None,
    interval: float,
    measured: MeasuredPart,
    **how: Any,
) -> None:
    """Draw the model of one call path of FILE to FIGURE (.svg, .png or .pdf).

    One parameter gives a curve through the measurements with its interval, two give contour lines,
    three give stacked slices. With four or more, hold some at a value.

    \b
    toruscast pmnf plot times.txt model.svg --callpath main
    toruscast pmnf plot times.txt model.png --callpath main --at n=5000
    """  # noqa: D301
    from toruscast.answers.drawing import SUFFIXES
    from toruscast.answers.scaling.figure import save_model_figure
    from toruscast.scaling import FitOptions

    Output().check({"FIGURE": figure})
    check_writable(figure, SUFFIXES)
    search = FitOptions(**how)
    matching = [
        (models, k)
        for models, keep in fitted_tables(file, measured, search)
        for k in keep
        if metric in (None, models.measurements.metrics[k])
    ]
    # A name in full is meant even where it is a part of others.
    named = [m for m in matching if m[0].measurements.callpaths[m[1]] == measured.callpath]
    matching = named or matching
    if len(matching) != 1:
        names = [
            f"{models.measurements.callpaths[k]} ({models.measurements.metrics[k]})"
            for models, k in matching
        ]
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        raise click.UsageError(
            f"a figure shows one model: found {', '.join(names[:5]) or 'none'}{more}; "
            "choose by --callpath and --metric"
        )
    models, k = matching[0]
    held = {} if fixed is None else by_name(fixed)
    save_model_figure(models, k, figure, search, held, interval)
