"""``toruscast pmnf plot``: the figure of a model."""

from __future__ import annotations

from dataclasses import dataclass

import click

from toruscast import answers

from ..options import LEVEL, argument, option, sub_command
from ..output import Output, check_writable
from .fitted import MeasuredFile, ModelSearch, by_name


@dataclass(frozen=True)
class ModelFigure:
    """What is drawn, and where it goes."""

    figure: str = argument("FIGURE")
    metric: str | None = option("Only this metric.", "NAME", group="Input")
    at: str | None = option("Hold these parameters at a measured value.", "NAME=VALUE,..")
    interval: float = option(
        "Probability of the band around a curve.", "LEVEL", default=0.9, type=LEVEL
    )


@sub_command("plot")
def plot(measured: MeasuredFile, drawn: ModelFigure, search: ModelSearch) -> None:
    """Draw the model of one call path of FILE to FIGURE (.svg, .png or .pdf).

    One parameter gives a curve through the measurements with its interval, two give contour lines,
    three give stacked slices. With four or more, hold some at a value.

    \b
    toruscast pmnf plot times.txt model.svg --callpath main
    toruscast pmnf plot times.txt model.png --callpath main --at n=5000
    """  # noqa: D301
    from toruscast.answers.scaling.figure import save_model_figure

    Output().check({"FIGURE": drawn.figure})
    check_writable(drawn.figure, answers.drawing.SUFFIXES)
    matching = [
        (models, k)
        for models, keep in measured.fit(search)
        for k in keep
        if drawn.metric in (None, models.measurements.metrics[k])
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
    held = {} if drawn.at is None else by_name(drawn.at)
    save_model_figure(models, k, drawn.figure, search.options, held, drawn.interval)
