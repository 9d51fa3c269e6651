"""``toruscast pmnf fit`` and ``predict``: formulas of measurements, and values elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import Any

from ..options import LEVEL, option, sub_command
from ..output import Output
from ..slow import formula, model_notes, pd
from .fitted import (
    MeasuredFile,
    ModelSearch,
    RowsShown,
    bounds_at,
    check_points,
    deliver,
    place,
    say,
)


@sub_command("fit")
def fit(measured: MeasuredFile, search: ModelSearch, view: RowsShown, output: Output) -> None:
    """Fit a model to every call path and metric of FILE.

    Notes on stderr and in the column "notes" say what the measurements cannot tell.
    --json holds the terms in full precision: coefficients, and for each parameter the exponents of
    its power and of its logarithm. "trusted" is true where a model meets the points within the
    noise of the repetitions; "predicts by" says what predictions are made of.

    \b
    toruscast pmnf fit times.txt --csv models.csv
    """  # noqa: D301
    output.check()
    fitted = measured.fit(search)
    table = pd.concat([m.summary().iloc[keep] for m, keep in fitted], ignore_index=True)
    notes = [found[k] for m, keep in fitted for found in [m.notes()] for k in keep]
    content: dict[str, Any] = {}
    if output.json_path is not None:
        terms = [
            formula.named(m.terms(k), m.measurements.parameters) for m, keep in fitted for k in keep
        ]
        rows = zip(table.to_dict("records"), terms, notes, strict=True)
        content["models"] = [{**row, "terms": t, "notes": n} for row, t, n in rows]
    table["notes"] = ["; ".join(some) for some in notes]
    shown = ["callpath", "metric", "formula", "smape", "adjusted_r2"]
    if table["predicts_by"].nunique() > 1 or table["predicts_by"].iloc[0] != "formula":
        shown.insert(3, "predicts_by")
    deliver(output, table, content, shown, top=view.top, keep=3)
    say(output, notes, list(zip(table["callpath"], table["metric"], strict=True)))


@dataclass(frozen=True)
class Elsewhere:
    """Where to predict, and how sure."""

    at: tuple[str, ...] = option(
        "Where to predict: a value for every parameter. May be given again.",
        "NAME=VALUE,..",
        default=(),
        required=True,
    )
    interval: float | None = option(
        "Add intervals that should hold the true value with this probability.", "LEVEL", type=LEVEL
    )


@sub_command("predict")
def predict(
    measured: MeasuredFile, where: Elsewhere, search: ModelSearch, view: RowsShown, output: Output
) -> None:
    """Fit FILE, and predict every call path and metric elsewhere.

    A prediction is the value of the formula that fit prints. Where "predicts by" says so, no
    formula meets the points, and the prediction follows the nearest points too: it is the smaller
    of the power law through them, and the formula scaled to meet them.

    \b
    toruscast pmnf predict times.txt --at p=1024,n=9000 --interval 0.9
    """  # noqa: D301
    output.check()
    rows: list[dict[str, Any]] = []
    notes: list[list[model_notes.Note]] = []
    said: list[dict[str, Any]] = []
    interval = where.interval
    fitted = measured.fit(search)
    if interval:
        check_points([models for models, _ in fitted])
    for models, keep in fitted:
        data = models.measurements
        X = [place(text, data.parameters) for text in where.at]
        values = models.predict(X)
        here = models.notes_at(X)
        by, found = models.predicts_by(), models.notes()
        bounds = bounds_at(models, X, search, interval, keep) if interval else None
        if interval and bounds is None:
            here = [
                *here,
                model_notes.Note("too few points for an interval", str(len(data.points))),
            ]
        notes += [found[k] + here for k in keep]
        for row_of, k in enumerate(keep):
            name = {"callpath": data.callpaths[k], "metric": data.metrics[k]}
            kind = {"predicts_by": by[k]}
            said.append({**name, "trusted": models.trusted[k], **kind, "notes": found[k] + here})
            for m, text in enumerate(where.at):
                row: dict[str, Any] = {**name, "at": text, "prediction": float(values[k, m])}
                row |= kind
                if interval:
                    ends = (float(e[row_of, m]) for e in bounds) if bounds else (nan, nan)
                    row["low"], row["high"] = ends
                rows.append(row)
    by_points = any(row["predicts_by"] != "formula" for row in rows)
    shown = [name for name in rows[0] if by_points or name != "predicts_by"]
    content = {"predictions": rows, "models": said}
    deliver(output, pd.DataFrame(rows), content, shown, top=view.top)
    say(output, notes, [(model["callpath"], model["metric"]) for model in said])
