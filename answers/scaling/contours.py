"""Two parameters: contour lines of a model; three: slices of it stacked above one another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .labels import is_wide, label, number, span, ticks_at

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .slice import ModelSlice

Array = NDArray[np.float64]

BEYOND = 2.0
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
    x, y = (span(np.unique(column), BEYOND, 50) for column in measured.T)
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
