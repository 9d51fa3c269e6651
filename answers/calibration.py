"""Answer of `calibrate`: the constants of a network, and their errors on measured times."""

from __future__ import annotations

from collections.abc import Sequence

from toruscast._slow import pandas as pd
from toruscast.decision.calibration import Calibration
from toruscast.mapping import Omission
from toruscast.text import change, counted, nbytes, percent, seconds

from .blocks import Answer, Chart, Headline, table_answer
from .learned import scatter_chart
from .table import Column, Table, records

_CONSTANTS = [
    Column("constant", kind="name"),
    Column("value", kind="label"),
    Column("low", "from", "label"),
    Column("high", "to", "label"),
    Column("source"),
]


def answer(
    calibration: Calibration, *, file: str | None = None, omitted: Sequence[Omission] | None = None
) -> Answer:
    """Return the answer; ``file`` is the machine file that was written."""
    notes = [f"{note[0].upper()}{note[1:]}." for note in calibration.notes]
    outliers = records(calibration.outliers)
    notes += [f"Outlier: {row['place']}, {change(row['error'])}." for row in outliers]
    return table_answer(
        _make_headline(calibration, file),
        Table(calibration.table, ()),
        constants_table(calibration),
        *([_network_table(calibration)] if calibration.networks else []),
        predicted_chart(calibration),
        notes=[f"From {len(calibration.rows)} measured times. Ranges are 90 % intervals."],
        below=notes,
        badge="measured times",
        title=f"Calibration of {calibration.torus}",
        omitted=omitted,
        content={
            "constants": records(calibration.table),
            "rows": records(calibration.rows),
            "notes": list(calibration.notes),
            "networks": dict(calibration.networks),
        },
    )


def _make_headline(calibration: Calibration, file: str | None) -> Headline:
    """Return the median error on held-out times, or else on fitted times that are not outliers."""
    rows, errors, kind = calibration.rows, calibration.check.abs(), "held-out"
    if not len(errors):
        errors, kind = rows["error"][~rows["outlier"]].abs(), "fitted"
    median, largest = (percent(error, 1) for error in (errors.median(), errors.max()))
    times = counted(len(errors), f"{kind} time")
    text = f": median error {median}, at most {largest}, on {times}"
    name = str(calibration.torus) if file is None else f"--torus {file}"
    return Headline("" if file is None else "Use ", name, text)


def constants_table(calibration: Calibration) -> Table:
    """Return the value, the interval and the source of each constant."""
    table = calibration.table
    for name in ("value", "low", "high"):
        values = zip(table[name], table["unit"], strict=True)
        texts = [seconds(x) if unit == "s" else f"{nbytes(x)}/s" for x, unit in values]
        table = table.assign(**{name: texts})
    return Table(table, _CONSTANTS)


def predicted_chart(calibration: Calibration) -> Chart:
    """Return a chart of predicted times over measured times."""
    rows = calibration.rows
    title = "Predicted and measured times"
    lead = "Transfers of the microbenchmarks. On the line, both times are equal."
    axes = ("measured", rows["time"]), ("predicted", rows["predicted"])
    return scatter_chart("predicted", title, lead, *axes, rows["place"].tolist())


def _network_table(calibration: Calibration) -> Table:
    frame = pd.DataFrame(calibration.networks.items(), columns=["network", "probability"])
    frame = frame.sort_values("probability", ascending=False, kind="stable")
    return Table(frame, [Column("network", kind="name"), Column("probability", kind="share")])
