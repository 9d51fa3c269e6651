"""Charts of what a model learned, of runs on a machine, and of the collectives of a mesh."""

from __future__ import annotations

import pandas as pd

from toruscast.wording import shown_name

from .charts import COLOURS, HOW, ROW, SHAPES, Spec, axis, spec


def growth(table: pd.DataFrame) -> Spec:
    """Return the RCC over the samples learned from; ``table`` is of `learning_curve`."""
    rows = [
        {"n": int(row["n_train"]), **{key: float(row[key]) for key in ("rcc", "low", "high")}}
        for row in table.dropna().to_dict("records")
    ]
    x = axis("n", "samples learned from", scale={"zero": False, "padding": 20})
    y = axis("rcc", "RCC (line: least to largest of the splits)", scale={"zero": False})
    return spec(
        rows,
        height=240,
        encoding={"x": x},
        layer=[
            {
                "mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.6},
                "encoding": {"y": axis("low", y["title"]), "y2": {"field": "high"}},
            },
            {
                "mark": {"type": "line", "color": COLOURS[0], "point": {"size": 60}},
                "encoding": {
                    "y": y,
                    "tooltip": [axis("n", "samples"), axis("rcc", "RCC", format=".3f")],
                },
            },
        ],
    )


def runs_in_order(table: pd.DataFrame, scale: float, unit: str) -> Spec:
    """Return the time of each run, in the order in which they were made.

    Columns ``mapping``, ``time`` and ``kind``: of the best, of another, or left out.
    """
    rows = [
        {"run": i + 1, "mapping": shown_name(m), "time": t / scale, "kind": kind}
        for i, (m, t, kind) in enumerate(
            zip(table["mapping"], table["time"], table["kind"], strict=True)
        )
    ]
    kinds = ["the best", "another", "left out"]
    scale_of = {"domain": kinds}
    return spec(
        rows,
        height=240,
        mark={"type": "point", "filled": True, "size": 55},
        encoding={
            "x": axis("run", "run", axis={"tickMinStep": 1, "format": "d"}, scale={"nice": False}),
            "y": axis("time", f"measured time, {unit}", scale={"zero": False}),
            "color": axis("kind", "mapping", "nominal", scale=scale_of | {"range": COLOURS[:3]}),
            "shape": axis("kind", "mapping", "nominal", scale=scale_of | {"range": SHAPES[:3]}),
            "tooltip": [
                axis("run", "run"),
                axis("mapping", "mapping", "nominal"),
                axis("time", f"time, {unit}", format=".4~g"),
            ],
        },
    )


def layouts(table: pd.DataFrame, scale: float, unit: str) -> Spec:
    """Return the time of each layout of a mesh; columns ``mapping, time, how``."""
    rows = [
        {"mapping": shown_name(m), "time": t / scale, "how": how}
        for m, t, how in zip(table["mapping"], table["time"], table["how"], strict=True)
    ]
    return spec(
        rows,
        height=1.5 * ROW * len(rows),
        mark={"type": "point", "filled": True, "size": 70, "opacity": 1},
        encoding={
            "y": axis("mapping", "", "nominal", sort=None, axis={"labelLimit": 260, "title": None}),
            "x": axis("time", f"time of a step, {unit}"),
            "color": axis(
                "how", "found out by", "nominal", scale={"domain": HOW, "range": COLOURS}
            ),
            "shape": axis("how", "found out by", "nominal", scale={"domain": HOW, "range": SHAPES}),
            "tooltip": [
                axis("mapping", "layout", "nominal"),
                axis("time", f"time, {unit}", format=".4~g"),
                axis("how", "found out by", "nominal"),
            ],
        },
    )


def collectives(table: pd.DataFrame, scale: float, unit: str) -> Spec:
    """Return time and bound of what a step sends along the axes; columns ``what, time, bound``."""
    rows = [
        {"what": shown_name(row["what"]), "kind": kind, "time": row[key] / scale}
        for row in table.to_dict("records")
        for kind, key in (("time", "time"), ("bound", "bound"))
    ]
    kinds = {"domain": ["time", "bound"], "range": [COLOURS[0], "#888888"]}
    return spec(
        rows,
        height=3 * ROW * len(table),
        mark={"type": "bar"},
        encoding={
            "y": axis("what", "", "nominal", sort=None, axis={"labelLimit": 200, "title": None}),
            "yOffset": {"field": "kind", "sort": None},
            "x": axis("time", f"time in a step, {unit}"),
            "color": axis("kind", "", "nominal", scale=kinds),
            "tooltip": [
                axis("what", "collective", "nominal"),
                axis("kind", "what", "nominal"),
                axis("time", f"time, {unit}", format=".4~g"),
            ],
        },
    )
