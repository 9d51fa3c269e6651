"""Charts of the studies: dots, scatter plots of predictions, and panels side by side."""

from __future__ import annotations

import itertools
import os

import numpy as np
import pandas as pd

from .drawing import figure, save
from .study import Chart

_MARKERS = "osD^vPX*"


def draw_chart(chart: Chart, path: str | os.PathLike[str]) -> None:
    """Draw a chart into an SVG, PNG or PDF file; equal values give equal bytes.

    Dots are the means of rows with equal x and group, on a line for each x. Published groups have
    hollow dots. The axis of an RCC begins at 0.5, the value of a random order. The axis of an R^2
    begins at 0, so values worse than the mean time have no dot. A scatter plot has equal
    logarithmic axes and the diagonal. Panels are side by side, one for each group, and the column
    ``series`` separates their points.

    Parameters
    ----------
    chart : Chart
    path : path-like
        The file, which is overwritten.

    Raises
    ------
    InputError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> table = pd.DataFrame({"size": ["8 B", "4 MB"], "rcc": [0.91, 0.99], "features": "H5"})
    >>> path = tempfile.mkdtemp() + "/rcc.svg"
    >>> draw_chart(Chart("dots", table, "size", "rcc", "features", "RCC by size"), path)
    >>> Path(path).read_text().startswith("<?xml")
    True
    """
    groups = list(chart.table[chart.group].unique())
    names = list(chart.table[chart.x].unique())
    if chart.kind == "panels":
        with figure(1 + 2.6 * len(groups), 3.2) as drawn:
            _panels(chart, groups, np.atleast_1d(drawn.subplots(1, len(groups))))
            drawn.suptitle(chart.title, fontsize=10)
            save(drawn, path)
        return
    size = (5.2, 4.4) if chart.kind == "scatter" else (6.4, 1.2 + 0.22 * len(names))
    with figure(*size) as drawn:
        axes = drawn.subplots()
        for mark, group in zip(itertools.cycle(_MARKERS), groups):
            rows = chart.table[chart.table[chart.group] == group]
            if chart.kind == "scatter":
                axes.plot(rows[chart.x], rows[chart.y], mark, ms=3, alpha=0.6, label=str(group))
                continue
            means = rows.groupby(chart.x)[chart.y].mean().reindex(names)
            is_theirs = str(group).startswith("published")
            how = {"fillstyle": "none", "color": "black"} if is_theirs else {}
            axes.plot(means, np.arange(len(names)), mark, ms=6, label=str(group), **how)
        if chart.kind == "scatter":
            _alike(axes, pd.concat([chart.table[chart.x], chart.table[chart.y]]))
            axes.set(xlabel=chart.x, ylabel=chart.y)
        else:
            axes.set_yticks(np.arange(len(names)), [str(name) for name in names], fontsize=8)
            axes.invert_yaxis()
            axes.grid(axis="y", linewidth=0.4)
            axes.set_xlabel(chart.y)
            if "RCC" in chart.y and chart.table[chart.y].min() >= 0.5:
                axes.set_xlim(0.5, 1.005)
            if chart.y.startswith("R^2"):
                axes.set_xlim(0, 1.01)
        axes.set_title(chart.title, fontsize=10)
        if len(groups) > 1:
            # Dots fill the axes, but the points of a scatter plot lie along the diagonal.
            if chart.kind == "dots":
                drawn.legend(loc="outside right upper", fontsize=7)
            else:
                axes.legend(loc="upper left", fontsize=7)
        save(drawn, path)


def _panels(chart: Chart, groups: list[str], every) -> None:  # type: ignore[no-untyped-def]
    """Draw each group into its own axes, with a legend if there are several series."""
    for axes, group in zip(every, groups, strict=True):
        rows = chart.table[chart.table[chart.group] == group]
        several = rows.groupby("series", sort=False) if "series" in rows else [("", rows)]
        for mark, (name, own) in zip(itertools.cycle(_MARKERS), several):
            axes.plot(own[chart.x], own[chart.y], mark, ms=3, alpha=0.7, label=name)
        axes.set_xlabel(chart.x, fontsize=8)
        axes.tick_params(labelsize=7)
        axes.set_title(str(group), fontsize=8)
        if len(several) > 1:
            axes.legend(fontsize=6)
    every[0].set_ylabel(chart.y, fontsize=8)


def _alike(axes, values: pd.Series) -> None:  # type: ignore[no-untyped-def]
    """Give both axes the same logarithmic scale, and draw the diagonal."""
    ends = [float(values.min()) / 1.2, float(values.max()) * 1.2]
    axes.plot(ends, ends, color="grey", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal")
