"""Charts of the studies: bars, and forecasts over observed times."""

from __future__ import annotations

import os

import numpy as np
import pandas as pd

from toruscast.answers.drawing import figure, save

from .study import Chart

_MARKERS = "osD^vPX*"


def draw_chart(chart: Chart, path: str | os.PathLike[str]) -> None:
    """Draw a chart into an SVG, PNG or PDF file; equal values give equal bytes.

    Bars are means of the rows alike in x and group. A scatter has both axes alike, logarithmic,
    with the diagonal.

    Parameters
    ----------
    chart : Chart
    path : path-like
        The file; what stood there is replaced.

    Raises
    ------
    InputError
        If matplotlib is missing or the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> table = pd.DataFrame({"size": ["8 B", "4 MB"], "rcc": [0.91, 0.99], "features": "H5"})
    >>> path = tempfile.mkdtemp() + "/rcc.svg"
    >>> draw_chart(Chart("bars", table, "size", "rcc", "features", "RCC by size"), path)
    >>> Path(path).read_text().startswith("<?xml")
    True
    """
    groups = list(chart.table[chart.group].unique())
    with figure(*((5.2, 4.4) if chart.kind == "scatter" else (6.4, 3.2))) as drawn:
        axes = drawn.subplots()
        for number, group in enumerate(groups):
            rows = chart.table[chart.table[chart.group] == group]
            if chart.kind == "scatter":
                mark = _MARKERS[number % len(_MARKERS)]
                axes.plot(rows[chart.x], rows[chart.y], mark, ms=3, alpha=0.6, label=str(group))
                continue
            names = list(chart.table[chart.x].unique())
            heights = rows.groupby(chart.x)[chart.y].mean().reindex(names)
            width = 0.8 / len(groups)
            places = np.arange(len(names)) + (number - (len(groups) - 1) / 2) * width
            axes.bar(places, heights, width, label=str(group))
            axes.set_xticks(np.arange(len(names)), [str(name) for name in names], fontsize=7)
        if chart.kind == "scatter":
            _alike(axes, pd.concat([chart.table[chart.x], chart.table[chart.y]]))
        axes.set_xlabel(chart.x)
        axes.set_ylabel(chart.y)
        axes.set_title(chart.title, fontsize=10)
        if len(groups) > 1:
            # Bars fill the axes, and points lie along the diagonal.
            if chart.kind == "bars":
                drawn.legend(loc="outside right upper", fontsize=7)
            else:
                axes.legend(loc="upper left", fontsize=7)
        save(drawn, path)


def _alike(axes, values: pd.Series) -> None:  # type: ignore[no-untyped-def]
    """Give both axes the same logarithmic scale, and draw the diagonal."""
    ends = [float(values.min()) / 1.2, float(values.max()) * 1.2]
    axes.plot(ends, ends, color="grey", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal")
