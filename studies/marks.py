"""What stands in one panel of a chart; rows have columns x, y and group."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.ticker import Locator

# Okabe and Ito's colours, distinct to all kinds of colour vision, but for the yellow.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#555555")
_MARKERS = "os^Dv<>"
_DASHES = ("-", "--", "-.", ":")
_HATCHES = ("", "////", "....", "xxxx")
# More points than this are stored as a picture inside the SVG.
_POINTS = 2000
# Bars narrower than this many inches have no room for their value.
_WRITTEN_INCHES = 0.27
# Bars of a share of 1 that go further down say how far.
_LOWEST_SHARE = -0.5


def bar_limits(rows: pd.DataFrame) -> tuple[float, float]:
    """Return the range of y: from 0, or from near the least where all are much alike.

    Examples
    --------
    >>> bar_limits(pd.DataFrame({"y": [3.0, 10.0]}))[0]
    0.0
    >>> round(bar_limits(pd.DataFrame({"y": [0.961, 0.994]}))[0], 3)
    0.945
    """
    if rows.empty:
        return 0.0, 1.0
    ends = rows.filter(["y", "low", "high"])
    low, high = float(ends.min().min()), float(ends.max().max())
    if low < 0:
        if high <= 1 and low < _LOWEST_SHARE:
            low = _LOWEST_SHARE
        room = 0.08 * (max(high, 0.0) - low)
        # Below, the value of a bar stands between it and the axis.
        return low - 2 * room, max(high, 0.0) + room
    start = 0.0
    # Steps between numbers as small as computers have would be none.
    if low > max(0.5 * high, 1e-300):
        spread = max(high - low, 0.02 * high)
        step = 10.0 ** math.floor(math.log10(spread)) / 2
        start = max(0.0, math.floor((low - 0.35 * spread) / step) * step)
    # A share is seen against 1.
    top = 1.0 if high <= 1 and 1 - high < high - start else high
    return start, top + 0.08 * (top - start or 1.0)


def bars(
    axes: Axes, rows: pd.DataFrame, groups: list[str], log: bool, limits: tuple[float, float]
) -> list[str]:
    """Draw grouped bars, one category beside the other."""
    categories = list(rows["x"].unique())
    side_by_side = bool((rows.groupby("x", sort=False)["group"].nunique() > 1).any())
    present = [group for group in groups if (rows["group"] == group).any()]
    width = 0.8 / (len(present) if side_by_side else 1)
    wide = width * _inches(axes) / len(categories) >= _WRITTEN_INCHES
    notes: list[str] = []
    for place, group in enumerate(present):
        means = _means(rows[rows["group"] == group])
        shift = (place - (len(present) - 1) / 2) * width if side_by_side else 0.0
        at = np.array([categories.index(x) for x in means.index]) + shift
        number = groups.index(group)
        axes.bar(
            at,
            means["mean"],
            width * 0.92,
            color=COLOURS[number % len(COLOURS)],
            hatch=_HATCHES[number // len(COLOURS) % len(_HATCHES)],
            edgecolor="white",
            linewidth=0,
        )
        if (means["max"] > means["min"]).any():
            # A mean may lie outside its interval, such as that of quantiles.
            ends = [means["mean"] - means["min"], means["max"] - means["mean"]]
            spread = [end.clip(lower=0) for end in ends]
            axes.errorbar(
                at, means["mean"], spread, fmt="none", ecolor="0.25", elinewidth=0.8, capsize=1.5
            )
            notes.append(_spread_note(rows, "whiskers"))
        for x, mean, least, top in zip(at, means["mean"], means["min"], means["max"], strict=True):
            if not log and mean < limits[0]:
                _write(axes, x, limits[0], mean, colour="white", turned=not wide)
            elif wide:
                _write(axes, x, least if mean < 0 else top, mean, below=mean < 0)
    if log:
        axes.set_yscale("log")
        low, high = float(rows["y"].min()), float(rows["y"].max())
        room = max((high / low) ** 0.12, 1.25)
        axes.set_ylim(low / room, high * room)
        _plain_if_short(axes.yaxis, low / room, high * room)
    else:
        axes.set_ylim(limits)
        axes.axhline(0, color="0.2", linewidth=0.6)
        if limits[0] > 0:
            notes.append("// bars do not start at 0")
            slash: Any = [(-1, -0.6), (1, 0.6)]
            axes.plot(
                [0, 0],
                [0.015, 0.045],
                marker=slash,
                markersize=6,
                linestyle="none",
                color="k",
                mew=0.8,
                clip_on=False,
                transform=axes.transAxes,
            )
    axes.set_xlim(-0.6, len(categories) - 0.4)
    _name_ticks(axes, categories)
    axes.yaxis.grid(True, color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    return notes


def _write(
    axes: Axes,
    x: float,
    y: float,
    value: float,
    *,
    below: bool = False,
    colour: str = "black",
    turned: bool = False,
) -> None:
    """Write the value of a bar at its end."""
    text = f"{value:#.3g}".rstrip(".")
    axes.annotate(
        text,
        (x, y),
        (0, -2 if below else 2),
        textcoords="offset points",
        ha="center",
        va="top" if below else "bottom",
        fontsize=6.5,
        color=colour,
        rotation=90 * turned,
    )


def _inches(axes: Axes) -> float:
    """Return the width of a panel before its labels have taken their room."""
    figure = axes.get_figure()
    return axes.bbox.width / figure.dpi if figure else 1.0


def scatter(axes: Axes, rows: pd.DataFrame, groups: list[str], log: bool) -> list[str]:
    """Draw observed against predicted, both axes alike, with the diagonal."""
    size = 14 if len(rows) < 200 else 6
    for number, group in _present(rows, groups):
        some = rows[rows["group"] == group]
        axes.scatter(
            some["x"],
            some["y"],
            s=size,
            color=COLOURS[number % len(COLOURS)],
            alpha=0.75,
            marker=_marker(number),
            linewidths=0,
            rasterized=len(rows) > _POINTS,
        )
    low, high = float(rows[["x", "y"]].min().min()), float(rows[["x", "y"]].max().max())
    if log:
        axes.set(xscale="log", yscale="log")
        factor = max((high / low) ** 0.04, 1.02)
        low, high = low / factor, high * factor
        for axis in (axes.xaxis, axes.yaxis):
            _plain_if_short(axis, low, high)
    else:
        room = 0.04 * (high - low) or 0.04 * abs(high) or 1.0
        low, high = low - room, high + room
    axes.set(xlim=(low, high), ylim=(low, high), aspect="equal")
    axes.plot([low, high], [low, high], color="0.5", linewidth=0.8, zorder=0)
    if not log:
        axes.ticklabel_format(style="sci", scilimits=(-3, 4))
        axes.locator_params(nbins=5)
    return []


def lines(axes: Axes, rows: pd.DataFrame, groups: list[str], log: bool) -> list[str]:
    """Draw a line a group; its points are in the order of x."""
    numbers = pd.api.types.is_numeric_dtype(rows["x"])
    categories = list(rows["x"].unique())
    notes: list[str] = []
    for number, group in _present(rows, groups):
        means = _means(rows[rows["group"] == group])
        means = means.sort_index() if numbers else means
        at = [float(x) if numbers else categories.index(x) for x in means.index]
        colour = COLOURS[number % len(COLOURS)]
        axes.plot(at, means["mean"], linewidth=1.4, **_line(number))
        if (means["max"] > means["min"]).any():
            axes.fill_between(at, means["min"], means["max"], color=colour, alpha=0.15, linewidth=0)
            notes.append(_spread_note(rows, "shade"))
    if log:
        axes.set_yscale("log")
        _plain_if_short(axes.yaxis, float(rows["y"].min()), float(rows["y"].max()))
    if not numbers:
        _name_ticks(axes, categories)
    elif log:
        axes.set_xscale("log")
    if numbers and len(categories) <= 8:
        axes.set_xticks(sorted(categories), [f"{x:.6g}" for x in sorted(categories)])
        axes.xaxis.set_minor_locator(_no_ticks())
    axes.grid(True, color="0.9", linewidth=0.6)
    return notes


def legend_mark(kind: str, number: int) -> Artist:
    """Return what stands beside the name of a group in the legend."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    colour = COLOURS[number % len(COLOURS)]
    if kind == "bars":
        hatch = _HATCHES[number // len(COLOURS) % len(_HATCHES)]
        return Patch(facecolor=colour, hatch=hatch, edgecolor="white", linewidth=0)
    if kind == "lines":
        return Line2D([], [], linewidth=1.4, **_line(number))
    return Line2D(
        [],
        [],
        color=colour,
        marker=_marker(number),
        linestyle="none",
        markeredgewidth=0,
        markersize=5,
    )


def _marker(number: int) -> str:
    """Return a marker, another one each time that the colours begin anew."""
    return _MARKERS[(number + number // len(COLOURS)) % len(_MARKERS)]


def _line(number: int) -> dict[str, Any]:
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": _marker(number),
        "markersize": 3.5,
        "linestyle": _DASHES[number // len(COLOURS) % len(_DASHES)],
    }


def _present(rows: pd.DataFrame, groups: list[str]) -> list[tuple[int, str]]:
    here = set(rows["group"])
    return [(number, group) for number, group in enumerate(groups) if group in here]


def _means(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean of y at each x, and the ends of its values or of their intervals."""
    ends = ("low", "high") if "low" in rows else ("y", "y")
    return rows.groupby("x", sort=False).agg(
        mean=("y", "mean"), min=(ends[0], "min"), max=(ends[1], "max")
    )


def _spread_note(rows: pd.DataFrame, what: str) -> str:
    own = "low" in rows
    return f"{what}: 95 % interval" if own else f"mean; {what} from the least to the largest"


def _name_ticks(axes: Axes, categories: list[str]) -> None:
    """Write the categories below the axis, upright where they would touch."""
    names = [
        "".join(c if c.isprintable() else "?" for c in x).replace("$", r"\$") for x in categories
    ]
    longest = max(map(len, names))
    axes.set_xticks(range(len(names)), names, fontsize=8)
    if longest * 0.075 > _inches(axes) / len(names):
        axes.tick_params(axis="x", rotation=90 if longest > 24 else 40)
        for label in axes.get_xticklabels():
            label.set(
                ha="right" if longest <= 24 else "center",
                rotation_mode="anchor" if longest <= 24 else "default",
            )


def _plain_if_short(axis: Axis, low: float, high: float) -> None:
    """Number a logarithmic axis in full where it spans less than a power of ten.

    Its numbers stand in even distances, so that they do not touch.
    """
    from matplotlib.ticker import FixedLocator, MaxNLocator, ScalarFormatter

    if high < 10 * low:
        ticks = [float(f"{x:.1e}") for x in np.geomspace(low, high, 7)[1::2]]
        # Too short a span for two digits is much like a linear one.
        axis.set_major_locator(MaxNLocator(3) if high < 2 * low else FixedLocator(ticks))
        axis.set_major_formatter(ScalarFormatter())
        axis.set_minor_locator(_no_ticks())


def _no_ticks() -> Locator:
    from matplotlib.ticker import NullLocator

    return NullLocator()
