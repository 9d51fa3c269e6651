"""Figures of scaling models: measurements with a fitted curve, and speed-up over tasks."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from toruscast._slow import pandas as pd
from toruscast.errors import InputError
from toruscast.scaling import FitOptions, Models
from toruscast.scaling.fit import predict_intervals
from toruscast.text import counted, percent, printable, shortened
from toruscast.typing import Floats

from . import svg
from .blocks import Chart

# Maximum number of ticks on the horizontal axis, and of letters in a line above a figure.
_MAX_TICKS, _MAX_LETTERS = 8, 70
# A curve ends at this multiple of the largest measured value of the parameter.
_EXTRAPOLATION = 4.0
# Number of points at which a curve is computed.
_N_CURVE_POINTS = 60
# Probability of the shaded interval.
_LEVEL = 0.9
# Maximum number of charts of models on a page.
_MAX_CHARTS = 6
_KINDS = ("best", "yours", "third", "other")


class ModelCurve:
    """Measurements of one call path over a single parameter, with the other parameters fixed.

    ``fixed`` gives the values of the other parameters. It may omit those that never vary.
    """

    def __init__(self, models: Models, path: int, fixed: Mapping[str, float]) -> None:
        data = models.measurements
        unknown = [name for name in fixed if name not in data.parameters]
        if unknown:
            expected = " or ".join(data.parameters)
            raise InputError("no such parameter", found=unknown[0], expected=expected)
        columns = dict(zip(data.parameters, data.points.T, strict=True))
        self.fixed = {
            name: fixed.get(name, float(column[0]))
            for name, column in columns.items()
            if name in fixed or np.unique(column).size == 1
        }
        free = [name for name in columns if name not in self.fixed]
        if not free:
            raise InputError("no parameter varies, so there is no curve")
        if len(free) > 1:
            fault = "a figure shows one parameter; fix the values of the others"
            raise InputError(fault, found=", ".join(free))
        (self.name,) = free
        matches = [np.isclose(columns[name], value) for name, value in self.fixed.items()]
        is_on_curve = np.logical_and.reduce([np.ones(len(data.points), bool), *matches])
        if not is_on_curve.any():
            found = ", ".join(f"{name}={value:g}" for name, value in self.fixed.items())
            known = {name: np.unique(columns[name])[:8].tolist() for name in self.fixed}
            expected = "; ".join(
                f"{name} of {', '.join(f'{v:g}' for v in values)}" for name, values in known.items()
            )
            raise InputError("no measurement at these values", found=found, expected=expected)
        self.x: Floats = columns[self.name][is_on_curve]
        self.values: Floats = data.values[path][is_on_curve]

    def make_points(self, x: Floats) -> pd.DataFrame:
        """Return the values of all parameters at the values ``x`` of the free parameter."""
        return pd.DataFrame({self.name: x, **self.fixed})


def model_charts(
    models: Models,
    paths: Sequence[int],
    options: FitOptions | None = None,
    fixed: Mapping[str, float] | None = None,
) -> list[Chart]:
    """Return charts of measurements and predictions, for at most `_MAX_CHARTS` call paths.

    ``fixed`` holds measured values of all parameters but one. By default, all parameters except the
    first have the values of the last point. A formula that differs from the prediction is dashed.
    """
    data = models.measurements
    if fixed is None:
        fixed = dict(zip(data.parameters[1:], data.points[-1, 1:].tolist(), strict=True))
    return [
        Chart(f"model-{k}", "", "", partial(_draw_model, models, k, options or FitOptions(), fixed))
        for k in paths[:_MAX_CHARTS]
    ]


def _draw_model(models: Models, path: int, options: FitOptions, fixed: Mapping[str, float]) -> str:
    """Return a plot of one call path: measurements, prediction, formula and interval."""
    curve, data = ModelCurve(models, path, fixed), models.measurements
    known = np.unique(curve.x)
    x_range = np.array([known[0], _EXTRAPOLATION * known[-1]])
    is_log_x = svg.needs_log_axis(x_range)
    spaced = np.geomspace if is_log_x else np.linspace
    x: Floats = spaced(x_range[0], x_range[1], _N_CURVE_POINTS)
    points = curve.make_points(x)
    predicted, formula = models.predict(points)[path], models.evaluate(points)[path]
    series = [svg.Series("prediction", "best", x, predicted, style="line")]
    if not np.allclose(formula, predicted, rtol=1e-3):
        series.append(svg.Series("formula alone", "other", x, formula, style="dashed"))
    is_measured = np.isfinite(curve.values)
    measured_x = np.broadcast_to(curve.x[:, None], is_measured.shape)[is_measured]
    measured = curve.values[is_measured]
    series.append(svg.Series("measured", "yours", measured_x, measured, style="points"))
    lines = [data.callpaths[path], models.formulas()[path]]
    if curve.fixed:
        lines.append("at " + ", ".join(f"{name} = {v:g}" for name, v in curve.fixed.items()))
    interval = np.zeros((0, 1, x.size))
    if len(data.points) >= models.min_points:
        interval = np.array(predict_intervals(models, points, options, _LEVEL, paths=[path]))
        lines.append(f"shaded: {percent(_LEVEL, digits=6)} interval")
    values = np.concatenate([measured, predicted, formula, interval.ravel()])
    return svg.draw_plot(
        series,
        shortened(curve.name, 30),
        shortened(data.metrics[path], 40),
        from_zero=False,
        scales=svg.Scales(
            log_x=is_log_x,
            log_y=svg.needs_log_axis(values),
            ticks=_thin_ticks([*known.tolist(), float(x_range[1])]) if is_log_x else (),
            head=[part for line in lines for part in _wrap_line(line)],
            area=np.column_stack([x, *interval[:, 0]]).tolist() if interval.size else [],
            beyond=float(known[-1]),
        ),
    )


def speedup_charts(table: pd.DataFrame) -> list[Chart]:
    """Return a chart of speed-up over the number of tasks for each pair of run kind and base."""
    charts: list[Chart] = []
    for (kind_of_run, _), part in table.groupby(["kind", "base"], sort=False):
        sizes = np.unique(part["tasks"]).astype(float)
        series = [svg.Series("ideal", "other", sizes, sizes / part["base"].iloc[0], style="dotted")]
        for k, (interconnect, runs) in enumerate(part.groupby("interconnect", sort=False)):
            runs, kind = runs.sort_values("tasks"), _KINDS[k % len(_KINDS)]
            for name, column, style in (
                (str(interconnect), "speed_up", "line"),
                ("", "zero_latency", "dashed"),
                ("", "infinite_speed", "dotted"),
            ):
                known = runs.dropna(subset=[column])
                series.append(svg.Series(name, kind, known["tasks"], known[column], style=style))
        is_log, ticks = len(sizes) > 1, _thin_ticks(sizes.tolist())
        head = ["dashed: without latency; dotted: with infinite speed"]
        scales = svg.Scales(log_x=is_log, log_y=is_log, ticks=ticks, head=head)
        title = f"speed-up over {counted(int(part['base'].iloc[0]), 'task')}"
        title += f", {printable(str(kind_of_run))}" if kind_of_run else ""
        draw = partial(svg.draw_plot, series, "tasks", title, from_zero=False, scales=scales)
        charts.append(Chart(f"speed-up-{len(charts)}", "", "", draw))
    return charts


def _thin_ticks(values: list[float]) -> list[float]:
    """Return at most `_MAX_TICKS` of the values, evenly spaced."""
    return values[:: math.ceil(len(values) / _MAX_TICKS)]


def _wrap_line(line: str) -> list[str]:
    """Wrap a line of text above a figure into at most three lines."""
    text = shortened(printable(" ".join(line.split())), 3 * _MAX_LETTERS)
    return textwrap.wrap(text, _MAX_LETTERS)
