"""Figures of scaling models: a curve through measurements, and speed-up over tasks."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from toruscast._slow import pandas as pd
from toruscast.errors import InputError
from toruscast.scaling import FitOptions, Models
from toruscast.scaling.fit import predict_intervals
from toruscast.text import counted, percent, printable, shortened

from . import svg
from .figures import save_svg

Array = NDArray[np.float64]

# Values further apart than this go on a logarithmic axis.
_WIDE = 8.0
# Ticks of the horizontal axis at most, and letters of a line above a figure.
_MAX_TICKS, _LETTERS = 8, 70
# How far beyond the measurements a curve goes, in their largest value.
_BEYOND = 4.0
_KINDS = ("best", "yours", "third", "other")


class ModelCurve:
    """The points of one call path along the one parameter that is not fixed.

    ``fixed`` are parameters held, and where; one that was not varied is held by itself.
    """

    def __init__(self, models: Models, path: int, fixed: Mapping[str, float]) -> None:
        data = models.measurements
        unknown = [name for name in fixed if name not in data.parameters]
        if unknown:
            expected = " or ".join(data.parameters)
            raise InputError("no such parameter", found=unknown[0], expected=expected)
        columns = dict(zip(data.parameters, data.points.T, strict=True))
        self.held = {
            name: fixed.get(name, float(column[0]))
            for name, column in columns.items()
            if name in fixed or np.unique(column).size == 1
        }
        free = [name for name in columns if name not in self.held]
        if not free:
            raise InputError("no parameter is left to draw along")
        if len(free) > 1:
            raise InputError(
                "a figure shows one parameter; hold the others at a value", found=", ".join(free)
            )
        (self.name,) = free
        near = [np.isclose(columns[name], value) for name, value in self.held.items()]
        there = np.logical_and.reduce([np.ones(len(data.points), bool), *near])
        if not there.any():
            known = {name: np.unique(columns[name])[:8] for name in self.held}
            raise InputError(
                "nothing was measured there",
                found=", ".join(f"{name}={value:g}" for name, value in self.held.items()),
                expected="; ".join(
                    f"{name} of {', '.join(f'{v:g}' for v in values)}"
                    for name, values in known.items()
                ),
            )
        self.x: Array = columns[self.name][there]
        self.values: Array = data.values[path][there]

    def points(self, x: Array) -> pd.DataFrame:
        """Values of all parameters where the free one has the values x."""
        return pd.DataFrame({self.name: x, **self.held})


def save_model_figure(
    models: Models,
    path: int,
    file: str | os.PathLike[str],
    options: FitOptions | None = None,
    fixed: Mapping[str, float] | None = None,
    level: float = 0.9,
) -> None:
    """Draw one call path's measurements, prediction and interval, as SVG, PNG or PDF by the suffix.

    ``path`` is the number of the call path, ``options`` those of the fit; ``fixed`` holds all
    parameters but one at a measured value; ``level`` is the probability of the interval. Where the
    prediction is not that of the one formula, the formula's curve is dashed.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from toruscast.scaling import Measurements, fit_many
    >>> data = Measurements(["p"], [[2], [4], [8], [16], [32]], [[[2.0], [3], [5], [9], [17]]])
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "model.svg"
    >>> save_model_figure(fit_many(data), 0, file)
    >>> "prediction" in file.read_text()
    True
    """
    curve, data = ModelCurve(models, path, fixed or {}), models.measurements
    known = np.unique(curve.x)
    ends = np.array([known[0], _BEYOND * known[-1]])
    spaced = np.geomspace if _is_wide(ends) else np.linspace
    x: Array = spaced(ends[0], ends[1], 60)
    points = curve.points(x)
    predicted, formula = models.predict(points)[path], models.evaluate(points)[path]
    series = [svg.Series("prediction", "best", x, predicted, style="line")]
    if not np.allclose(formula, predicted, rtol=1e-3):
        series.append(svg.Series("formula alone", "other", x, formula, style="dashed"))
    seen = np.isfinite(curve.values)
    where = np.broadcast_to(curve.x[:, None], seen.shape)
    series.append(svg.Series("measured", "yours", where[seen], curve.values[seen], style="points"))
    lines = [data.callpaths[path], models.formulas()[path]]
    if curve.held:
        lines.append("at " + ", ".join(f"{name} = {v:g}" for name, v in curve.held.items()))
    around = np.zeros((0, 1, x.size))
    if len(data.points) >= models.min_points:
        around = np.array(
            predict_intervals(models, points, options or FitOptions(), level, paths=[path])
        )
        lines.append(f"shaded: {percent(level, digits=6)} interval")
    shown = np.concatenate([curve.values[seen], predicted, formula, around.ravel()])
    drawn = svg.plot(
        series,
        shortened(curve.name, 30),
        shortened(data.metrics[path], 40),
        from_zero=False,
        scales=svg.Scales(
            _is_wide(ends),
            _is_wide(shown),
            _thinned([*known.tolist(), float(ends[1])]) if _is_wide(ends) else (),
            [part for line in lines for part in _wrapped(line)],
            np.column_stack([x, *around[:, 0]]).tolist() if around.size else [],
            float(known[-1]),
        ),
    )
    save_svg(drawn, file)


def save_speedup_figure(table: pd.DataFrame, file: str | os.PathLike[str]) -> None:
    """Draw the `speedups` of each interconnect, a plot for each kind and base: SVG, PNG or PDF.

    Examples
    --------
    >>> import tempfile, pathlib, pandas as pd
    >>> table = pd.DataFrame({
    ...     "kind": "", "interconnect": "fast", "tasks": [1, 4], "base": 1,
    ...     "speed_up": [1.0, 3.0], "zero_latency": [1.0, 3.5], "infinite_speed": [1.0, 3.7]})
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "speedup.svg"
    >>> save_speedup_figure(table, file)
    >>> "without latency" in file.read_text()
    True
    """
    charts = []
    for (kind_of_run, _), part in table.groupby(["kind", "base"], sort=False):
        sizes = np.unique(part["tasks"]).astype(float)
        series = [svg.Series("ideal", "other", sizes, sizes / part["base"].iloc[0], style="dotted")]
        for k, (net, own) in enumerate(part.groupby("interconnect", sort=False)):
            own, kind = own.sort_values("tasks"), _KINDS[k % len(_KINDS)]
            for name, column, style in (
                (str(net), "speed_up", "line"),
                ("", "zero_latency", "dashed"),
                ("", "infinite_speed", "dotted"),
            ):
                series.append(svg.Series(name, kind, own["tasks"], own[column], style=style))
        several = len(sizes) > 1
        head = ["dashed: without latency; dotted: of infinite speed"]
        scales = svg.Scales(several, several, _thinned(sizes.tolist()), head)
        title = f"speed-up over {counted(int(part['base'].iloc[0]), 'task')}"
        title += f", {printable(str(kind_of_run))}" * bool(kind_of_run)
        charts.append(svg.plot(series, "tasks", title, from_zero=False, scales=scales))
    save_svg(svg.stacked(charts), file)


def _is_wide(values: Array) -> bool:
    """Whether positive values span so much that a logarithmic axis shows them better."""
    low, high = float(values.min()), float(values.max())
    return low > 0 and high > _WIDE * low


def _thinned(values: list[float]) -> list[float]:
    """Return every value, or every second or third where there are many."""
    return values[:: -(-len(values) // _MAX_TICKS)]


def _wrapped(line: str) -> list[str]:
    """Return a name or a formula as a few printable lines."""
    return textwrap.wrap(shortened(printable(" ".join(line.split())), 3 * _LETTERS), _LETTERS)
