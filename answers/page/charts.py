"""Charts as Vega-Lite specifications: the page draws them, and so does a figure for a paper.

Marks tell simulated, forecast and measured times apart by shape as well as by colour.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from toruscast.wording import shown_name

Spec = dict[str, Any]
_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
# Okabe and Ito's colours, which readers with any colour vision tell apart.
HOW = ("simulated", "forecast", "measured", "sketched")
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7"]
SHAPES = ["circle", "diamond", "square", "triangle-up"]
ROW = 16
# Candidates in a chart: the first, and the last few.
SHOWN, LAST = 60, 4


def spec(rows: list[dict[str, Any]], **parts: Any) -> Spec:
    """Return a specification of these rows."""
    return {
        "$schema": _SCHEMA,
        "width": "container",
        "data": {"values": rows},
        **parts,
    }


def axis(
    field: str, title: str | list[str], kind: str = "quantitative", **more: Any
) -> dict[str, Any]:
    """Return a channel of an encoding."""
    return {"field": field, "type": kind, "title": title, **more}


def _how() -> dict[str, Any]:
    return {
        "color": axis(
            "how", "how it was found out", "nominal", scale={"domain": HOW, "range": COLOURS}
        ),
        "shape": axis(
            "how", "how it was found out", "nominal", scale={"domain": HOW, "range": SHAPES}
        ),
    }


def candidates(table: pd.DataFrame, scale: float, unit: str, coverage: float) -> Spec:
    """Return times with intervals, a row a candidate, best first."""
    shown = table if len(table) <= SHOWN + LAST else pd.concat([table[:SHOWN], table[-LAST:]])
    rows = [
        {
            "mapping": f"{row['rank']}  {shown_name(row['mapping'])}",
            "time": row["time"] / scale,
            "low": row["low"] / scale,
            "high": row["high"] / scale,
            "chance": f"{100 * row['p_best']:.0f} %" if row["p_best"] >= 0.005 else "",
            "how": row["how"],
        }
        for row in shown.to_dict("records")
    ]
    y = axis("mapping", "", "nominal", sort=None, axis={"labelLimit": 180, "title": None})
    # Two lines, for narrow pages.
    x_title = [f"time, {unit}", f"line: {100 * coverage:.0f} % interval; number: P(fastest)"]
    x = axis("time", x_title, scale={"zero": False})
    tooltip = [
        axis("mapping", "candidate", "nominal"),
        axis("time", f"time, {unit}", format=".4~g"),
        axis("how", "found out by", "nominal"),
        axis("chance", "chance to be fastest", "nominal"),
    ]
    return spec(
        rows,
        height=ROW * len(rows),
        encoding={"y": y},
        layer=[
            {
                "mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.6},
                "encoding": {"x": axis("low", x_title), "x2": {"field": "high"}},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
                "encoding": {"x": x, "tooltip": tooltip, **_how()},
            },
            {
                "mark": {"type": "text", "align": "left", "dx": 8},
                "encoding": {"x": axis("high", x_title), "text": {"field": "chance"}},
            },
        ],
    )


def scatter(table: pd.DataFrame, column: str, title: str, scale: float, unit: str) -> Spec:
    """Return the times over a metric."""
    rows = [
        {"mapping": shown_name(m), "x": float(x), "time": t / scale, "how": how}
        for m, x, t, how in zip(
            table["mapping"], table[column], table["time"], table["how"], strict=True
        )
    ]
    return spec(
        rows,
        height=240,
        mark={"type": "point", "filled": True, "size": 45, "opacity": 0.75},
        encoding={
            "x": axis("x", title, scale={"zero": False}, axis={"format": "~s"}),
            "y": axis("time", f"time, {unit}", scale={"zero": False}),
            "tooltip": [
                axis("mapping", "candidate", "nominal"),
                axis("x", title, format=".4~s"),
                axis("time", f"time, {unit}", format=".4~g"),
            ],
            **_how(),
        },
    )


def matrix(binned: NDArray[np.float64], of: float, what: str, unit: str) -> Spec:
    """Return who sends how much to whom, in bins of ``of`` numbers each."""
    rows = [
        {
            "from": int(i * of),
            "to": int(j * of),
            "from_end": int((i + 1) * of),
            "to_end": int((j + 1) * of),
            "bytes": float(binned[i, j]),
        }
        for i, j in np.argwhere(binned > 0).tolist()
    ]
    most = int(binned.shape[0] * of)
    ends = {"domain": [0, most], "nice": False}
    return spec(
        rows,
        height=260,
        mark={"type": "rect"},
        encoding={
            "x": axis("to", f"receiving {what}", scale=ends),
            "x2": {"field": "to_end"},
            "y": axis("from", f"sending {what}", scale={**ends, "reverse": True}),
            "y2": {"field": "from_end"},
            "color": axis(
                "bytes", unit, scale={"type": "log", "scheme": "viridis"}, legend={"format": "~s"}
            ),
            "tooltip": [
                axis("from", f"from {what}"),
                axis("to", f"to {what}"),
                axis("bytes", "bytes", format=".3~s"),
            ],
        },
    )


def hops(shares: pd.DataFrame) -> Spec:
    """Return the share of the bytes that travels so many hops, for each mapping named."""
    rows = [
        {
            "mapping": shown_name(row["mapping"]),
            "hops": int(row["hops"]),
            "share": 100 * row["share"],
        }
        for row in shares.to_dict("records")
    ]
    return spec(
        rows,
        height=200,
        mark={"type": "bar"},
        encoding={
            "x": axis("hops", "hops", "ordinal", axis={"labelAngle": 0}),
            "xOffset": {"field": "mapping", "sort": None},
            "y": axis("share", "share of the bytes, %"),
            "color": axis("mapping", "mapping", "nominal", sort=None, scale={"range": COLOURS}),
            "tooltip": [
                axis("mapping", "mapping", "nominal"),
                axis("hops", "hops"),
                axis("share", "share of the bytes, %", format=".1f"),
            ],
        },
    )


def importance(features: Sequence[str], shares: Sequence[float]) -> Spec:
    """Return what the model's trees split on."""
    rows = [
        {"feature": shown_name(feature), "share": 100 * float(share)}
        for feature, share in zip(features, shares, strict=True)
    ]
    return spec(
        rows,
        height=ROW * len(rows),
        mark={"type": "bar", "color": COLOURS[0]},
        encoding={
            "y": axis("feature", "feature", "nominal", sort="-x", axis={"labelLimit": 200}),
            "x": axis("share", "importance, %"),
            "tooltip": [axis("feature", "feature", "nominal"), axis("share", "%", format=".1f")],
        },
    )


def observed(
    table: pd.DataFrame, scale: float, unit: str, how: str = "simulated", of: str = "time"
) -> Spec:
    """Return forecast times over those observed, with the line on which they are equal.

    What is forecast stands in the column ``of``; ``how`` says how times were observed.
    """
    rows = [
        {"mapping": shown_name(m), "observed": o / scale, "time": t / scale}
        for m, o, t in zip(table["mapping"], table["observed_time"], table[of], strict=True)
    ]
    ends = [float(f(table[["observed_time", of]].to_numpy()) / scale) for f in (np.min, np.max)]
    square = {"zero": False, "domain": ends}
    line = [{"observed": end, "time": end} for end in ends]
    encoding = {
        "x": axis("observed", f"{how} time, {unit}", scale=square),
        "y": axis("time", f"forecast time, {unit}", scale=square),
    }
    return spec(
        rows,
        height=240,
        layer=[
            {
                "data": {"values": line},
                "mark": {"type": "line", "strokeDash": [4, 4], "color": "#888888"},
                "encoding": encoding,
            },
            {
                "mark": {"type": "point", "filled": True, "size": 45, "color": COLOURS[1]},
                "encoding": {
                    **encoding,
                    "tooltip": [
                        axis("mapping", "candidate", "nominal"),
                        axis("observed", f"{how}, {unit}", format=".4~g"),
                        axis("time", f"forecast, {unit}", format=".4~g"),
                    ],
                },
            },
        ],
    )
