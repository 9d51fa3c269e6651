"""The answer of `calibrate`: the constants of a network, and how well they explain the times."""

from __future__ import annotations

from collections.abc import Sequence

from toruscast._slow import pandas as pd
from toruscast.decision.calibration import Calibration
from toruscast.mapping import Omission
from toruscast.text import change, percent

from .blocks import Answer, Chart, of_table
from .learned import times_against
from .table import Column, Table, records

_CONSTANTS = [
    Column("constant", kind="name"),
    Column("value", "", "general", 4),
    Column("low", "from", "general", 4),
    Column("high", "to", "general", 4),
    Column("unit", kind="label"),
    Column("source", "source"),
]


def answer(
    found: Calibration, *, file: str | None = None, omitted: Sequence[Omission] | None = None
) -> Answer:
    """Return the constants; ``file`` is where the machine was written."""
    notes = [f"{note[0].upper()}{note[1:]}." for note in found.notes]
    notes += [
        f"Outlier: {row['place']}, {change(row['error'])}." for row in records(found.outliers)
    ]
    if len(found.check):
        error = found.check.abs()
        notes.append(
            f"{len(error)} held-out times have a median error of {percent(error.median(), 1)} and "
            f"a maximum of {percent(error.max(), 1)}."
        )
    if file is not None:
        notes.append(f"The machine file is {file}: --torus {file}")
    return of_table(
        f"The network of {found.torus}, from {len(found.rows)} measured times",
        constants(found),
        *([_likely(found)] if found.networks else []),
        below=notes,
        omitted=omitted,
        content={
            "constants": records(found.table),
            "rows": records(found.rows),
            "notes": list(found.notes),
            "networks": dict(found.networks),
        },
    )


def constants(found: Calibration) -> Table:
    """Return a row for each constant."""
    return Table(found.table, _CONSTANTS)


def predicted_chart(found: Calibration) -> Chart:
    """Return the times that the constants predict against the measured ones."""
    rows = found.rows
    lead = "Transfers of the microbenchmarks; on the line the network predicts the measured time."
    return times_against(
        "predicted",
        "Predicted against measured times",
        lead,
        ("measured", rows["time"]),
        ("predicted", rows["predicted"]),
        rows["place"].tolist(),
    )


def _likely(found: Calibration) -> Table:
    frame = pd.DataFrame(found.networks.items(), columns=["network", "probability"])
    frame = frame.sort_values("probability", ascending=False, kind="stable")
    return Table(frame, [Column("network", kind="name"), Column("probability", kind="share")])
