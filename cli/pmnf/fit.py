"""``toruscast pmnf fit`` and ``predict``: formulas of measurements, and values elsewhere."""

from __future__ import annotations

from math import nan
from typing import Any

import click

from .. import options
from ..output import Output
from .measured import MeasuredPart, fitted_tables, measured_options, search_options
from .places import bounds_at, check_points, place
from .tables import finish, say

# Applications have tens or hundreds of call paths: few tables are cut short.
TOP = 100


@click.command("fit")
@options.file_argument
@search_options
@measured_options
@options.top_option(TOP)
@options.output_record
def fit(
    file: str,
    measured: MeasuredPart,
    top: int,
    output: Output,
    **how: Any,
) -> None:
    """Fit a model to every call path and metric of FILE.

    Notes on stderr and in the column "notes" say what the measurements cannot tell.
    --json holds the terms in full precision: coefficients, and for each parameter the exponents of
    its power and of its logarithm. "trusted" is true where a model meets the points within the
    noise of the repetitions; "predicts by" says what predictions are made of.

    \b
    toruscast pmnf fit times.txt --csv models.csv
    """  # noqa: D301
    output.check()
    import pandas as pd

    from toruscast.scaling import FitOptions
    from toruscast.scaling.formula import named

    fitted = fitted_tables(file, measured, FitOptions(**how))
    table = pd.concat([m.summary().iloc[keep] for m, keep in fitted], ignore_index=True)
    notes = [found[k] for m, keep in fitted for found in [m.notes()] for k in keep]
    content: dict[str, Any] = {}
    if output.json_path is not None:
        terms = [named(m.terms(k), m.measurements.parameters) for m, keep in fitted for k in keep]
        rows = zip(table.to_dict("records"), terms, notes, strict=True)
        content["models"] = [{**row, "terms": t, "notes": n} for row, t, n in rows]
    table["notes"] = ["; ".join(some) for some in notes]
    shown = ["callpath", "metric", "formula", "smape", "adjusted_r2"]
    if table["predicts_by"].nunique() > 1 or table["predicts_by"].iloc[0] != "formula":
        shown.insert(3, "predicts_by")
    finish(output, content, table, shown, top, keep=3)
    say(output, notes, list(zip(table["callpath"], table["metric"], strict=True)))


@click.command("predict")
@options.file_argument
@click.option(
    "--at",
    "places",
    multiple=True,
    required=True,
    metavar="NAME=VALUE,..",
    help="Where to predict: a value for every parameter. May be given again.",
)
@click.option(
    "--interval",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="LEVEL",
    help="Add intervals that should hold the true value with this probability.",
)
@search_options
@measured_options
@options.top_option(TOP)
@options.output_record
def predict(
    file: str,
    places: tuple[str, ...],
    interval: float | None,
    measured: MeasuredPart,
    top: int,
    output: Output,
    **how: Any,
) -> None:
    """Fit FILE, and predict every call path and metric elsewhere.

    A prediction is the value of the formula that fit prints. Where "predicts by" says so, no
    formula meets the points, and the prediction follows the nearest points too: it is the smaller
    of the power law through them, and the formula scaled to meet them.

    \b
    toruscast pmnf predict times.txt --at p=1024,n=9000 --interval 0.9
    """  # noqa: D301
    output.check()
    import pandas as pd

    from toruscast.scaling import FitOptions
    from toruscast.scaling.pmnf.notes import Note

    rows: list[dict[str, Any]] = []
    notes: list[list[Note]] = []
    said: list[dict[str, Any]] = []
    search = FitOptions(**how)
    fitted = fitted_tables(file, measured, search)
    if interval:
        check_points([models for models, _ in fitted])
    for models, keep in fitted:
        data = models.measurements
        X = [place(text, data.parameters) for text in places]
        values = models.predict(X)
        here = models.notes_at(X)
        by = models.predicts_by()
        found = models.notes()
        bounds = bounds_at(models, X, search, interval, keep) if interval else None
        if interval and bounds is None:
            here = [*here, Note("too few points for an interval", str(len(data.points)))]
        notes += [found[k] + here for k in keep]
        said += [
            {
                "callpath": data.callpaths[k],
                "metric": data.metrics[k],
                "trusted": models.trusted[k],
                "predicts_by": models.predicts_by()[k],
                "notes": found[k] + here,
            }
            for k in keep
        ]
        for row_of, k in enumerate(keep):
            for m, text in enumerate(places):
                row: dict[str, Any] = {
                    "callpath": data.callpaths[k],
                    "metric": data.metrics[k],
                    "at": text,
                    "prediction": float(values[k, m]),
                    "predicts_by": by[k],
                }
                if interval:
                    row["low"], row["high"] = (
                        (float(end[row_of, m]) for end in bounds) if bounds else (nan, nan)
                    )
                rows.append(row)
    content = {"predictions": rows, "models": said}
    by_points = any(row["predicts_by"] != "formula" for row in rows)
    shown = [name for name in rows[0] if by_points or name != "predicts_by"]
    finish(output, content, pd.DataFrame(rows), shown, top, keep=len(shown))
    say(output, notes, [(model["callpath"], model["metric"]) for model in said])
