"""The answer of rankings by a time that is computed for every candidate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from toruscast.features.reasons import Reasons
from toruscast.mapping import TaskMapping, Torus
from toruscast.text import counted, number, percent, seconds, shown_name, time_unit

from .blocks import Answer, Mark, Section, TableBlock
from .rank import alike, default_order, headline, less, versus
from .traffic import bound_line, link_note


@dataclass(frozen=True)
class Timed:
    """What came out for a mapping."""

    time: float
    phase_times: tuple[float, ...]
    why: Reasons
    busiest_link: str | None
    """Its name; None where nothing leaves a node."""
    busy: float
    """Seconds that it takes for its bytes."""
    coarsening: int = 1
    change: float = 0.0
    """As in `Simulation`, both."""


def ranked(found: Mapping[str, Timed]) -> pd.DataFrame:
    """Return a row for each mapping, the fastest first.

    Columns: ``rank``, ``mapping``, ``time``, ``lower_bound``, ``over_bound`` (the first over the
    second), ``busiest_link`` (its name; None where nothing leaves a node) and ``busy_share``, the
    share of the time that it is busy.
    """
    rows: list[dict[str, Any]] = []
    for name, timed in found.items():
        least, link = timed.why.lower_bound, timed.busiest_link
        rows.append(
            {
                "mapping": name,
                "time": timed.time,
                "lower_bound": least,
                "over_bound": timed.time / least if least else float("nan"),
                "busiest_link": link,
                "busy_share": timed.busy / timed.time if link else 0.0,
            }
        )
    table = pd.DataFrame(rows).sort_values("time", kind="stable", ignore_index=True)
    table.insert(0, "rank", table["time"].rank(method="min").astype(int))
    return table


def answer(
    mappings: Sequence[TaskMapping],
    torus: Torus,
    table: pd.DataFrame,
    why: Reasons,
    *,
    setting: str,
    content: dict[str, Any],
    error: float = 0.0,
    top: int = 10,
    estimated: bool = False,
    dependent: bool = False,
    notes: Sequence[str] = (),
) -> Answer:
    """Return which mapping is fastest, and what limits it.

    ``table`` is what `ranked` returns, ``why`` what bounds its first row, by estimate where ways
    are open; ``error`` is that of the times.
    """
    names, times = [str(name) for name in table["mapping"]], table["time"].tolist()
    known = [mapping.name or str(i) for i, mapping in enumerate(mappings)]
    yours = default_order(mappings, known, torus)
    link = table["busiest_link"].iloc[0]
    scale, unit = time_unit(table["time"])
    marks: list[Mark] = [
        "best" if i == 0 else "yours" if name == yours else "" for i, name in enumerate(names)
    ]
    reference = times[names.index(yours or "")] if yours in names else None
    rows = []
    for row in table.to_dict("records"):
        used = row["busiest_link"]
        cells = {
            "#": row["rank"],
            "mapping": shown_name(row["mapping"]),
            f"time\n{unit}": number(row["time"] / scale),
        }
        if reference is not None:
            cells["vs\ndefault"] = versus(row["time"], reference)
        rows.append(
            cells
            | {
                "times its\nlower bound": f"{row['over_bound']:.2f}" if row["lower_bound"] else "-",
                "busiest\nlink": (used or "-",),
                "busy": percent(row["busy_share"]) if used else "-",
            }
        )
    return Answer(
        setting=setting,
        headline=headline(names, times, yours),
        notes=[
            each
            for each in (
                _others(table, error),
                alike(table["time"]),
                bound_line(why, estimated, dependent),
                link_note(link) if link else "",
                *notes,
            )
            if each
        ],
        sections=[Section("", [TableBlock(rows, marks=marks, top=top)])],
        content=content,
        rows=table,
    )


def _others(table: pd.DataFrame, error: float) -> str:
    """Return how the fastest stands to the others."""
    names, times = table["mapping"], table["time"]
    best, slowest = float(times.iloc[0]), float(times.iloc[-1])
    others = len(times) - 1
    if not others:
        return "There is no other candidate."
    near = int((times.iloc[1:] <= best * (1 + error)).sum())
    if error:
        within = f"within {percent(error, digits=3)} of it, the error accepted"
        verb = f"{'lie' if near > 1 else 'lies'} {within}"
    else:
        verb = f"{'take' if near > 1 else 'takes'} as little"
    text = f"{near or 'None'} of {counted(others, 'other')} {verb}."
    if slowest > best:
        text += (
            f" It takes {less(best, slowest, 'the slowest')}, {shown_name(names.iloc[-1])} "
            f"({seconds(slowest)})."
        )
    return text
