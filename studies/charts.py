"""Charts of the experiments: bars, observed against predicted, lines."""

from __future__ import annotations

import math
import os
import textwrap
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from toruscast.errors import InputError
from toruscast.report.drawing import figure, save

from . import marks
from .experiment import Chart

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDEST = 10.8
_INCH_A_LETTER = 0.075
_INCH_A_HANDLE = 0.55
_NAMES = {"rcc": "RCC", "r2": "R²", "tau_b": "tau-b"}
# Panels whose largest values differ by more than this get an axis each.
_ALIKE = 4.0


def draw_chart(
    chart: Chart, tables: Mapping[str, pd.DataFrame], path: str | os.PathLike[str]
) -> None:
    """Draw a chart from its table into an SVG, PNG or PDF file; equal values give equal bytes.

    Groups keep their colour in all panels, and differ in marker, dash or hatch as well. Rows that
    are alike in all but y become their mean, with a whisker from the least to the largest, or that
    of their intervals. Bars
    that need not start at 0 start near the least, which is marked. The figure says how many values
    it cannot show: those that are not finite, and with a logarithmic axis those not above 0.

    Parameters
    ----------
    chart : Chart
    tables : mapping of str to DataFrame
        Those of the findings that the chart belongs to.
    path : path-like
        The file; what stood there is replaced.

    Raises
    ------
    InputError
        If there is no such table or column, a column is not of numbers, or the file cannot be
        written; if matplotlib is missing.

    Examples
    --------
    >>> import tempfile
    >>> tables = {"scores": pd.DataFrame({"features": ["prior", "H5"], "rcc": [0.91, 0.99]})}
    >>> path = tempfile.mkdtemp() + "/rcc.svg"
    >>> draw_chart(Chart("rcc", "bars", "scores", "features", "rcc"), tables, path)
    >>> from pathlib import Path
    >>> Path(path).read_text().startswith("<?xml")
    True
    """
    rows, left_out = _rows(chart, tables)
    panels = list(rows["panel"].unique()) or [""]
    groups = list(rows["group"].unique())
    width, height, columns = _size(chart, rows, len(panels))
    lines = -(-len(panels) // columns)
    entries = _entries_a_line(groups, columns * width)
    below = 0.3 + 0.2 * -(-len(groups) // entries) if len(groups) > 1 else 0.0
    with figure(columns * width, lines * height + 0.35 + below) as drawn:
        share = chart.kind != "scatter" and _alike(rows, chart.log)
        grid = drawn.subplots(lines, columns, squeeze=False, sharey=share)
        for spare in grid.flat[len(panels) :]:
            spare.set_visible(False)
        notes = [_shown(chart.note)] if chart.note else []
        notes += [f"{left_out} values cannot be shown"] if left_out else []
        limits = marks.bar_limits(rows) if share else None
        for number, (panel, axes) in enumerate(zip(panels, grid.flat, strict=False)):
            some = rows[rows["panel"] == panel]
            notes += _draw(axes, some, groups, chart, limits)
            axes.set_title(_shown(panel), fontsize=9)
            if not share or number % columns == 0:
                axes.set_ylabel(_label(chart.y))
            # The last panel of each column has the name of x.
            if number + columns >= len(panels) or chart.kind == "scatter":
                axes.set_xlabel(_label(chart.x))
        if chart.kind == "scatter":
            # Square panels leave room to spare.
            drawn.set_layout_engine("compressed")
        drawn.suptitle(_shown(chart.title), fontsize=10)
        _add_legend(drawn, groups, chart, columns * width, list(dict.fromkeys(notes)))
        with warnings.catch_warnings():
            # Some reader's font will have the letter.
            warnings.filterwarnings("ignore", message="Glyph .* missing")
            save(drawn, path)


def _rows(chart: Chart, tables: Mapping[str, pd.DataFrame]) -> tuple[pd.DataFrame, int]:
    """Return columns x, y, group and panel of what can be drawn, and how many rows cannot.

    With an interval also low and high.
    """
    where = f"chart {chart.name}"
    if chart.kind not in ("bars", "scatter", "lines"):
        raise InputError(
            f"{where}: unknown kind", found=chart.kind, expected="bars, scatter or lines"
        )
    if chart.table not in tables:
        raise InputError(f"{where}: no such table", found=chart.table, expected=", ".join(tables))
    table = tables[chart.table]
    named = {"x": chart.x, "y": chart.y, "group": chart.group, "panel": chart.panel}
    ends = ("low", "high") if chart.interval else ()
    named |= dict(zip(ends, chart.interval or (), strict=True))
    rows = pd.DataFrame(index=range(len(table)))
    for short, name in named.items():
        if name is not None and name not in table.columns:
            found = ", ".join(map(str, table.columns))
            raise InputError(f"{where}: no such column", found=found, expected=name)
        rows[short] = "" if name is None else table[name].to_numpy()
    for short in (*(("x",) if chart.kind == "scatter" else ()), "y", *ends):
        if not pd.api.types.is_numeric_dtype(rows[short]):
            raise InputError(
                f"{where}: no numbers in column {named[short]}",
                found=rows[short].iloc[0] if len(rows) else "no rows",
            )
        rows[short] = rows[short].astype(float)
    continuous = chart.kind != "bars" and pd.api.types.is_numeric_dtype(rows["x"])
    if continuous:
        rows["x"] = rows["x"].astype(float)
    for short in ("group", "panel") if continuous else ("x", "group", "panel"):
        rows[short] = [_text(value) for value in rows[short]]
    drawable = pd.Series(True, index=rows.index)
    for short in ("x", "y") if continuous else ("y",):
        drawable &= np.isfinite(rows[short]) & ((rows[short] > 0) | (not chart.log))
    return rows[drawable], int((~drawable).sum())


def _text(value: object) -> str:
    """Return the name of a category; 16384.0 is 16384."""
    if isinstance(value, float):
        return "none" if math.isnan(value) else f"{value:.10g}"
    return str(value)


def _alike(rows: pd.DataFrame, log: bool) -> bool:
    """Whether the panels can be read on one y axis."""
    tops = rows["y"].abs().groupby(rows["panel"]).max()
    return log or tops.empty or bool(tops.max() <= _ALIKE * tops.min())


def _size(chart: Chart, rows: pd.DataFrame, n_panels: int) -> tuple[float, float, int]:
    """Return width and height of a panel in inches, and panels side by side."""
    if chart.kind == "bars":
        categories, groups = rows["x"].nunique(), rows["group"].nunique()
        letters = max((len(str(x)) for x in rows["x"]), default=0)
        least = 2.4 if n_panels > 1 else 4.4
        need = 0.7 + max(0.085 * categories * groups, 0.32 * categories) + 0.12 * categories
        width, height = min(max(need, least), _WIDEST), 2.5 + 0.03 * min(letters, 30)
    else:
        width, height = (3.0, 2.9) if n_panels > 1 else (4.6, 4.2)
    columns = min(n_panels, int(_WIDEST / width))
    # Even lines: four panels stand two and two, not three and one.
    return width, height, -(-n_panels // -(-n_panels // columns))


def _draw(
    axes: Axes,
    rows: pd.DataFrame,
    groups: list[str],
    chart: Chart,
    limits: tuple[float, float] | None,
) -> list[str]:
    """Draw one panel; return what a reader must know."""
    if rows.empty:
        axes.text(0.5, 0.5, "no values", ha="center", va="center", transform=axes.transAxes)
        return []
    if chart.kind == "bars":
        return marks.bars(axes, rows, groups, chart.log, limits or marks.bar_limits(rows))
    if chart.kind == "scatter":
        return marks.scatter(axes, rows, groups, chart.log)
    return marks.lines(axes, rows, groups, chart.log)


def _add_legend(
    drawn: Figure, groups: list[str], chart: Chart, width: float, notes: list[str]
) -> None:
    """Add below all panels what a reader must know, and the groups, as many a line as fit."""
    note = textwrap.fill("; ".join(notes), int(width / _INCH_A_LETTER))
    if len(groups) < 2:
        drawn.supxlabel(note, fontsize=7, color="0.35")
        return
    names = [_shown(group) for group in groups]
    columns = _entries_a_line(groups, width)
    handles = [marks.legend_mark(chart.kind, number) for number in range(len(groups))]
    legend = drawn.legend(
        handles,
        names,
        loc="outside lower center",
        ncols=columns,
        fontsize=8,
        title=f"{note}\n{_label(chart.group or '')}".strip(),
        title_fontsize=7.5,
    )
    legend.get_title().set_multialignment("center")


def _entries_a_line(groups: list[str], width: float) -> int:
    """Return how many entries of the legend fit side by side."""
    entry = _INCH_A_HANDLE + _INCH_A_LETTER * max(map(len, groups), default=0)
    return max(1, min(len(groups), int(width / entry)))


def _label(column: str) -> str:
    """Return the name of an axis."""
    return _NAMES.get(column) or _shown(column.replace("_", " ").strip())


def _shown(text: str) -> str:
    """Return a text as matplotlib shall show it: no formulas, no control characters."""
    printable = "".join(c if c.isprintable() else "?" for c in str(text))
    # A legend leaves out what starts with an underscore.
    spaced = f"\u2009{printable}" if printable.startswith("_") else printable
    return spaced.replace("$", r"\$")
