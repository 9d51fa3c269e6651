"""Figures of scaling models: curves, contour lines and slices, and speed-up over tasks."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.scaling import FitOptions, Models
from toruscast.scaling.pmnf.intervals import interval, points_needed

from .drawing import figure, save

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


Array = NDArray[np.float64]

# Values further apart than this go on a logarithmic axis.
_WIDE = 8.0
# Ticks of an axis at most.
_TICKS = 8


def label(text: str, most: int = 70) -> str:
    """A name from a file as one printable line of at most `most` characters.

    Examples
    --------
    >>> label("a" * 9 + " b", 8), label("x" + chr(7) + "y")
    ('aaa…aa b', 'x?y')
    """
    line = "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))
    if len(line) <= most:
        return line
    tail = most // 2
    return f"{line[: most - tail - 1]}…{line[-tail:]}"


def number(value: float) -> str:
    """Three digits, and an exponent only where it saves room.

    Examples
    --------
    >>> number(2101.7), number(0.125), number(3.2e9)
    ('2100', '0.125', '3.2e+09')
    """
    rounded = float(f"{value:.3g}")
    return f"{rounded:.6g}"


def is_wide(values: Array) -> bool:
    """Whether positive values span so much that a logarithmic axis shows them better.

    Examples
    --------
    >>> import numpy as np
    >>> is_wide(np.array([1.0, 64.0])), is_wide(np.array([0.0, 64.0]))
    (True, False)
    """
    low, high = float(values.min()), float(values.max())
    return low > 0 and high > _WIDE * low


def span(values: Array, beyond: float = 1.0, n: int = 60) -> Array:
    """Places from the smallest value to `beyond` times the largest, even on the axis they go on.

    Examples
    --------
    >>> import numpy as np
    >>> span(np.array([2.0, 4.0]), beyond=2.0, n=4).tolist()
    [2.0, 4.0, 6.0, 8.0]
    """
    low, high = float(values.min()), beyond * float(values.max())
    if is_wide(np.array([low, high])):
        result: Array = np.geomspace(low, high, n)
    else:
        result = np.linspace(low, high, n)
    return result


def ticks_at(axis: Axis, values: Sequence[float]) -> None:
    """Put the ticks of an axis at measured values, every second or third one where many."""
    step = -(-len(values) // _TICKS)
    shown = list(values)[::step]
    axis.set_ticks(shown, [f"{value:g}" for value in shown])
    axis.set_ticks([], minor=True)


class ModelSlice:
    """One call path of fitted models, as a function of the parameters that are not fixed.

    Parameters
    ----------
    models : Models
    path : int
        Number of the call path.
    options : FitOptions
        Those of the fit.
    fixed : mapping of str to float
        Parameters held, and where. One that was not varied is held by itself.

    Attributes
    ----------
    free : tuple of str
        The other parameters.
    title, metric, formula : str

    Raises
    ------
    InputError
        If a parameter is unknown, all are fixed, or nothing was measured at the fixed values.

    Examples
    --------
    >>> from toruscast.scaling import Measurements, fit_many
    >>> points = [[p, n] for p in (2, 4, 8, 16, 32) for n in (1, 2, 3, 4, 5)]
    >>> data = Measurements(["p", "n"], points, [[[3.0 * p + n] for p, n in points]])
    >>> part = ModelSlice(fit_many(data), 0, FitOptions(), {"n": 2})
    >>> part.free, part.predict(np.array([[64.0]])).round(6).tolist()
    (('p',), [194.0])
    """

    def __init__(
        self, models: Models, path: int, options: FitOptions, fixed: Mapping[str, float]
    ) -> None:
        data = models.measurements
        unknown = [name for name in fixed if name not in data.parameters]
        if unknown:
            raise InputError(
                "no such parameter", found=unknown[0], expected=" or ".join(data.parameters)
            )
        held = {
            q: fixed[name] if name in fixed else float(column[0])
            for q, (name, column) in enumerate(zip(data.parameters, data.points.T, strict=True))
            if name in fixed or np.unique(column).size == 1
        }
        self._free = [q for q in range(len(data.parameters)) if q not in held]
        if not self._free:
            raise InputError("no parameter is left to draw along")
        self._held, self._models, self._options, self._path = held, models, options, path
        near = [np.isclose(data.points[:, q], value) for q, value in held.items()]
        self._there = np.logical_and.reduce([np.ones(len(data.points), bool), *near])
        if not self._there.any():
            raise InputError(
                "nothing was measured there",
                found=", ".join(f"{data.parameters[q]}={value:g}" for q, value in held.items()),
                expected="; ".join(
                    f"{data.parameters[q]} of {', '.join(f'{v:g}' for v in known[:8])}"
                    for q in held
                    if (known := np.unique(data.points[:, q])).size
                ),
            )
        self.free = tuple(data.parameters[q] for q in self._free)
        self.title, self.metric = data.callpaths[path], data.metrics[path]
        self.formula = models.formulas()[path]

    @property
    def held(self) -> str:
        """The fixed parameters as text, "" where none is."""
        names = self._models.measurements.parameters
        return ", ".join(f"{names[q]} = {value:g}" for q, value in self._held.items())

    def measured(self) -> tuple[Array, Array]:
        """Points with the fixed values: free parameters (n, free), values (n, repetitions)."""
        data = self._models.measurements
        return data.points[self._there][:, self._free], data.values[self._path][self._there]

    def predict(self, places: Array) -> Array:
        """Prediction at places of the free parameters; shape (m,)."""
        value: Array = self._models.predict(self._with_held(places))[self._path]
        return value

    def evaluate(self, places: Array) -> Array:
        """Value of the formula at places of the free parameters; shape (m,)."""
        value: Array = self._models.evaluate(self._with_held(places))[self._path]
        return value

    @property
    def differs(self) -> bool:
        """Whether predictions where it was measured are not those of the formula."""
        places, _ = self.measured()
        return not np.allclose(self.evaluate(places), self.predict(places), rtol=1e-3)

    @property
    def has_interval(self) -> bool:
        """Whether enough points were measured for an interval."""
        return len(self._models.measurements.points) >= points_needed(self._models)

    def interval(self, places: Array, level: float) -> tuple[Array, Array]:
        """Prediction interval by bootstrap; two arrays of shape (m,)."""
        low, high = interval(
            self._models, self._with_held(places), self._options, level, paths=[self._path]
        )
        return low[0], high[0]

    def _with_held(self, places: Array) -> Array:
        result = np.empty((len(places), len(self._models.measurements.parameters)))
        result[:, self._free] = places
        for q, value in self._held.items():
            result[:, q] = value
        return result


# How far beyond the measurements the curve goes, in their largest value.
# How far beyond the measurements a curve goes, and contour lines.
BEYOND, _BEYOND_BOTH = 4.0, 2.0


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


_MOST_SLICES = 5
_COLOURS = "viridis"


def draw_contours(figure: Figure, axes: Axes, model: ModelSlice) -> None:
    """Contour lines over both parameters up to twice their largest values.

    The rectangle bounds the measurements. Each dot is one, as large as the prediction is off.

    Parameters
    ----------
    figure : Figure
    axes : Axes
    model : ModelSlice
        With two free parameters.
    """
    measured, values = model.measured()
    x, y, z = _surface(model, measured)
    levels, norm = _scale(z)
    filled = axes.contourf(x, y, z, levels, norm=norm, cmap=_COLOURS, alpha=0.35)
    lines = axes.contour(x, y, z, levels, colors="0.25", linewidths=0.8)
    lines.set_gid("contours")
    axes.clabel(lines, fmt=number, fontsize=8)
    centre = np.nanmean(values, axis=1)
    # Of nothing measured any share is off, but for none.
    off = np.abs(model.predict(measured) - centre) / np.where(centre == 0, 1.0, np.abs(centre))
    axes.scatter(
        measured[:, 0],
        measured[:, 1],
        s=6 + 300 * np.minimum(off, 0.5),
        color="#d94801",
        edgecolors="white",
        linewidths=0.6,
        zorder=3,
        gid="measured",
        label=f"measured (largest dot: {100 * off.max():.2g} % off)",
        clip_on=False,
    )
    low, high = measured.min(axis=0), measured.max(axis=0)
    axes.plot(
        [low[0], high[0], high[0], low[0], low[0]],
        [low[1], low[1], high[1], high[1], low[1]],
        "--",
        color="0.3",
        lw=0.8,
        label="range measured",
        gid="range",
    )
    for q, (axis, name) in enumerate(zip((axes.xaxis, axes.yaxis), model.free, strict=True)):
        known = np.unique(measured[:, q])
        places = (x, y)[q]
        if is_wide(places):
            (axes.set_xscale if q == 0 else axes.set_yscale)("log", base=2)
            ticks_at(axis, [*known.tolist(), float(places[-1])])
        axis.set_label_text(label(name, 30), parse_math=False)
    bar = figure.colorbar(filled, ax=axes, format=lambda v, _: number(v))
    bar.set_label(label(model.metric, 40), parse_math=False)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2)


def draw_slices(figure: Figure, axes: Any, model: ModelSlice) -> None:
    """Contours over two parameters at values of the third, stacked above one another.

    The parameter with the fewest values goes upwards.

    Parameters
    ----------
    figure : Figure
    axes : Axes3D
    model : ModelSlice
        With three free parameters.
    """
    measured, _ = model.measured()
    counts = [np.unique(column).size for column in measured.T]
    up = min(range(3), key=lambda q: (counts[q], -q))
    flat = [q for q in range(3) if q != up]
    heights = np.unique(measured[:, up])
    if heights.size > _MOST_SLICES:
        heights = heights[np.linspace(0, heights.size - 1, _MOST_SLICES).round().astype(int)]
    a, b = (span(np.unique(measured[:, q]), 1.0, 40) for q in flat)
    surfaces = []
    for height in heights:
        places = np.empty((b.size * a.size, 3))
        places[:, up] = height
        places[:, flat[0]] = np.tile(a, b.size)
        places[:, flat[1]] = np.repeat(b, a.size)
        surfaces.append(model.predict(places).reshape(b.size, a.size))
    levels, norm = _scale(np.stack(surfaces), 16)
    # Logarithmic axes do not exist in three dimensions: the logarithms themselves are drawn.
    ends = []
    for q, places, set_ticks in zip(
        [*flat, up],
        (a, b, heights),
        (axes.set_xticks, axes.set_yticks, axes.set_zticks),
        strict=True,
    ):
        wide = is_wide(places) and q != up
        ends.append(np.log2(places) if wide else places)
        known = np.unique(measured[:, q]) if q != up else heights
        shown = known[:: -(-known.size // 6)]
        set_ticks(np.log2(shown) if wide else shown, [f"{v:g}" for v in shown])
    look: dict[str, Any] = {"levels": levels, "norm": norm, "zdir": "z"}
    for height, surface in zip(heights, surfaces, strict=True):
        drawn = axes.contourf(*ends[:2], surface, cmap=_COLOURS, alpha=0.75, offset=height, **look)
        axes.contour(*ends[:2], surface, colors="0.2", linewidths=0.5, offset=height, **look)
        drawn.set_gid(f"slice-{height:g}")
    axes.set_zlim(heights[0], heights[-1] if heights.size > 1 else heights[0] + 1)
    axes.view_init(elev=18, azim=-60)
    axes.set_box_aspect((1, 1, 1.25))
    for q, set_label in zip(
        [*flat, up], (axes.set_xlabel, axes.set_ylabel, axes.set_zlabel), strict=True
    ):
        set_label(label(model.free[q], 30), parse_math=False)
    bar = figure.colorbar(drawn, ax=axes, shrink=0.7, pad=0.12, format=lambda v, _: number(v))
    bar.set_label(label(model.metric, 40), parse_math=False)


def _surface(model: ModelSlice, measured: Array) -> tuple[Array, Array, Array]:
    """Places along both parameters, and the prediction at all of them, shape (y, x)."""
    x, y = (span(np.unique(column), _BEYOND_BOTH, 50) for column in measured.T)
    places = np.stack([np.tile(x, y.size), np.repeat(y, x.size)], axis=1)
    return x, y, model.predict(places).reshape(y.size, x.size)


def _scale(z: Array, most: int = 10) -> tuple[Array, Any]:
    """Round levels of the contours, and how colours go with them."""
    from matplotlib.colors import LogNorm, Normalize
    from matplotlib.ticker import MaxNLocator

    low, high = float(z.min()), float(z.max())
    if high - low <= 1e-9 * max(abs(high), abs(low)):
        # A constant has no contours; one level on each side keeps the drawing whole.
        room = abs(high) * 0.1 or 1.0
        if low == 0:
            return np.array([0.0, room]), Normalize(0.0, room)
        return np.array([low - room, low + room]), Normalize(low - room, low + room)
    if not is_wide(z):
        even: Array = np.asarray(MaxNLocator(most).tick_values(low, high))
        return even, Normalize(even[0], even[-1])
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    for steps in ((1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 2.0, 5.0), (1.0, 3.0), (1.0,)):
        levels = np.array([step * 10.0**k for k in decades for step in steps])
        first, last = np.searchsorted(levels, low, "right") - 1, np.searchsorted(levels, high)
        levels = levels[int(first) : int(last) + 1]
        if levels.size <= 1.5 * most:
            break
    return levels[:: -(-levels.size // (2 * most))], LogNorm(levels[0], levels[-1])


def save_model_figure(
    models: Models,
    path: int,
    file: str | os.PathLike[str],
    options: FitOptions | None = None,
    fixed: Mapping[str, float] | None = None,
    level: float = 0.9,
) -> None:
    """Draw one call path's model and measurements, and write it as SVG, PNG or PDF.

    One free parameter: measurements, prediction and interval. Two: contour lines, with the
    measured points. Three: slices stacked along the parameter with the fewest values.

    Parameters
    ----------
    models : Models
    path : int
        Number of the call path.
    file : path-like
        The suffix tells the format.
    options : FitOptions, optional
        Those of the fit.
    fixed : mapping of str to float, optional
        Parameters held at a measured value.
    level : float
        Probability of the interval.

    Raises
    ------
    InputError
        If more than three parameters are free, `fixed` is wrong, or the file cannot be written.

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
    part = ModelSlice(models, path, options or FitOptions(), fixed or {})
    if len(part.free) > 3:
        raise InputError(
            "a figure shows three parameters at most; hold others at a value",
            found=", ".join(part.free),
        )
    # A title in letters that the font lacks is still a title.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        with figure(6.4, 5.6 if len(part.free) > 2 else 4.2) as drawn:
            if len(part.free) == 1:
                draw_curve(drawn.add_subplot(), part, level)
            elif len(part.free) == 2:
                draw_contours(drawn, drawn.add_subplot(), part)
            else:
                draw_slices(drawn, drawn.add_subplot(projection="3d"), part)
            lines = [label(part.title), label(part.formula, 100)]
            # A curve has the formula's beside it.
            if len(part.free) > 1 and part.differs:
                lines.append("drawn: the prediction, which is not that of the formula alone")
            if part.held:
                lines.append(label(f"at {part.held}", 100))
            drawn.suptitle("\n".join(lines), fontsize=9, parse_math=False)
            save(drawn, file)


def save_speedup_figure(table: pd.DataFrame, file: str | os.PathLike[str]) -> None:
    """Draw the speed-up of each interconnect, and write it as SVG, PNG or PDF.

    Parameters
    ----------
    table : DataFrame
        From `toruscast.scaling.interconnect.what_if.speedups`.
    file : path-like
        The suffix tells the format.

    Raises
    ------
    InputError
        If the file cannot be written, or matplotlib is missing.

    Examples
    --------
    >>> import tempfile, pathlib, pandas as pd
    >>> table = pd.DataFrame({
    ...     "interconnect": "fast", "tasks": [1, 4], "base": 1, "speed_up": [1.0, 3.0],
    ...     "zero_latency": [1.0, 3.5], "infinite_speed": [1.0, 3.7]})
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "speedup.svg"
    >>> save_speedup_figure(table, file)
    >>> "without latency" in file.read_text()
    True
    """
    bases = list(dict.fromkeys(table["base"]))
    with figure(3.2 * len(bases) + 2.4, 3.8) as drawn:
        for axes, base in zip(drawn.subplots(1, len(bases), squeeze=False)[0], bases, strict=True):
            part = table[table["base"] == base]
            sizes = np.unique(part["tasks"])
            axes.plot(sizes, sizes / base, ":", color="0.6", lw=1, label="ideal")
            for k, (net, own) in enumerate(part.groupby("interconnect", sort=False)):
                own = own.sort_values("tasks")
                name = label(str(net), 20)
                axes.plot(own["tasks"], own["speed_up"], "o-", color=f"C{k}", ms=3.5, label=name)
                for column, style, what in (
                    ("zero_latency", "--", "without latency"),
                    ("infinite_speed", "-.", "of infinite speed"),
                ):
                    shown = {"color": f"C{k}", "lw": 1, "label": f"{name} {what}"}
                    axes.plot(own["tasks"], own[column], style, **shown)
            axes.set_xscale("log", base=2)
            axes.set_yscale("log", base=2)
            ticks_at(axes.xaxis, sizes.tolist())
            ticks_at(axes.yaxis, (sizes / base).tolist())
            axes.set_xlabel("tasks")
            axes.set_ylabel(f"speed-up over {base} task{'s' * (base > 1)}")
            axes.legend(fontsize=7)
        save(drawn, file)
