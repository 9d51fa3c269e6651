"""One parameter: a model against its measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .labels import is_wide, label, span, ticks_at

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .slice import ModelSlice

# How far beyond the measurements the curve goes, in their largest value.
BEYOND = 4.0


def draw_curve(axes: Axes, model: ModelSlice, level: float) -> None:
    """Repetitions as dots, the prediction as a line, its interval, if points suffice, as a band.

    Where the prediction is not that of the one formula, the formula's is dashed.

    Parameters
    ----------
    axes : Axes
    model : ModelSlice
        With one free parameter.
    level : float
        Probability of the band.
    """
    (name,) = model.free
    measured, values = model.measured()
    known = np.unique(measured[:, 0])
    x = span(known, BEYOND)
    places = x[:, None]
    predicted = model.predict(places)
    axes.axvspan(known[-1], x[-1], color="0.95", lw=0, zorder=0)
    low = predicted
    if model.has_interval:
        low, high = model.interval(places, level)
        band = f"{100 * level:g} % interval"
        axes.fill_between(x, low, high, color="#9ecae1", lw=0, label=band, gid="interval")
    axes.plot(x, predicted, color="#08519c", lw=1.5, label="prediction", gid="prediction")
    formula = model.evaluate(places)
    if not np.allclose(formula, predicted, rtol=1e-3):
        axes.plot(x, formula, "--", color="0.3", lw=1, label="formula alone", gid="formula")
    where = np.repeat(measured[:, 0], values.shape[1])
    axes.plot(
        where,
        values.ravel(),
        "o",
        ms=3.5,
        color="#d94801",
        mec="none",
        alpha=0.7,
        label="measured",
        gid="measured",
    )
    if is_wide(x):
        axes.set_xscale("log", base=2)
        ticks_at(axes.xaxis, [*known.tolist(), float(x[-1])])
    shown = np.concatenate([values[np.isfinite(values)], predicted, formula, low])
    if is_wide(shown):
        axes.set_yscale("log")
    axes.set_xlim(x[0] / 1.08 if x[0] > 0 and is_wide(x) else x[0], x[-1])
    axes.set_xlabel(label(name, 30), parse_math=False)
    axes.set_ylabel(label(model.metric, 40), parse_math=False)
    axes.text(
        0.995,
        0.01,
        "beyond the measurements",
        transform=axes.transAxes,
        ha="right",
        va="bottom",
        color="0.5",
        fontsize=8,
    )
    axes.legend(loc="best")
