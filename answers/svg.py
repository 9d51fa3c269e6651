"""Charts as SVG, coloured by classes such as ``best`` and ``yours``."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from toruscast.text import nbytes, number, percent, printable, shortened, shown_name, with_minus
from toruscast.typing import Floats, Ints

# Widths of a normal and a narrow chart on a phone. Larger screens enlarge charts, and show two
# narrow charts side by side. All sizes are in pixels.
WIDTH, NARROW = 440, 220
_ROW_HEIGHT, _BAR_HEIGHT, _LINE_HEIGHT, _PLOT_HEIGHT = 24, 13, 14, 192
# Maximum letters in the name of a row, and in the name of a group of bars.
_MAX_NAME, _MAX_GROUP = 18, 25
# Approximate number of ticks on an axis.
_N_TICKS = 4
# Approximate widths of a bold letter, a regular letter and a digit.
_LETTER_WIDTH, _REGULAR_WIDTH, _DIGIT_WIDTH = 7.4, 6.9, 7.0
# Colours of links and bytes in both themes, from idle to busiest.
RAMP = ("#fcf6d4", "#feca8d", "#fd9668", "#f1605d", "#cd4071", "#9e2f7f", "#721f81", "#440f76")
# An axis is logarithmic if its largest value is more than this many times the smallest.
_MIN_LOG_RANGE = 8.0
# SVG attribute of each line style, with the lengths of dashes and gaps.
_DASHES = {"dashed": ' stroke-dasharray="7 4"', "dotted": ' stroke-dasharray="2 4"'}


class Row(NamedTuple):
    """A row in a chart of times; its ``kind`` is best, yours, third or other.

    It follows ``n_skipped`` rows that are not drawn. A ``predicted`` time has a hollow dot.
    """

    label: str
    time: float
    kind: str = "other"
    low: float = 0.0
    high: float = 0.0
    note: str = ""
    n_skipped: int = 0
    predicted: bool = False


class Series(NamedTuple):
    """Named points of a plot; ``style`` is points, line, dashed or dotted."""

    name: str
    kind: str
    x: ArrayLike
    y: ArrayLike
    labels: Sequence[str] = ()
    style: str = "points"


class Scales(NamedTuple):
    """Axes of a plot, and everything else in the plot except its series.

    ``ticks`` are values on the horizontal axis, by default round numbers. ``head`` has lines of
    text above the plot. ``area`` is a shaded band of intervals ``(x, low, high)``. The part of the
    plot to the right of ``beyond`` is marked as extrapolated.
    """

    log_x: bool = False
    log_y: bool = False
    ticks: Sequence[float] = ()
    head: Sequence[str] = ()
    area: Sequence[tuple[float, float, float]] = ()
    beyond: float | None = None


_LINEAR = Scales()


def make_svg(height: float, parts: Sequence[str], description: str, width: float = WIDTH) -> str:
    """Return a chart with a description for screen readers."""
    label = _escape(description)
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{label}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )


def draw_times(
    rows: Sequence[Row],
    scale: float,
    unit: str,
    lower_bound: float = 0.0,
    ticks: Sequence[float] = (),
    marked: Sequence[tuple[float, str]] = (),
    left_end: float = 0.0,
    by_chance: float | None = None,
) -> str:
    """Return a chart with a dot and an interval per row, on an axis that starts at ``left_end``.

    Times are divided by ``scale`` to get the ``unit``. ``ticks`` are times to mark below the rows,
    and ``marked`` are the times and kinds of highlighted ticks. ``by_chance`` is the value that a
    random order has.
    """
    high = max([*(max(row.time, row.high) for row in rows), lower_bound, *ticks]) or 1.0
    names = [_short_name(row.label) for row in rows]
    left = max(62.0, 8 + max(_name_width(n, row.kind) for n, row in zip(names, rows, strict=True)))
    # Values and notes are columns at the right edge.
    note_width = max(_DIGIT_WIDTH * len(row.note) for row in rows)
    values = [number(row.time / scale) for row in rows]
    edge = WIDTH - note_width - (8 if note_width else 0)
    right = edge - _DIGIT_WIDTH * max(map(len, values)) - 12

    def x(time: float) -> float:
        share = (min(time, high) - left_end) / (high - left_end or 1.0)
        return left + (right - left) * share

    parts, y = [], 26.0 if lower_bound else 14.0
    bottom = y + _ROW_HEIGHT * len(rows) + 18 * sum(row.n_skipped > 0 for row in rows)
    if lower_bound:
        bound = x(lower_bound)
        text = f"lower bound {number(lower_bound / scale)} {unit}"
        parts.append(_draw_line(bound, 14, bound, bottom - 10, "floor"))
        parts.append(draw_label(bound, 11, text, "quiet", "end" if bound > WIDTH / 2 else "start"))
    for row, name, value in zip(rows, names, values, strict=True):
        if row.n_skipped:
            text = f"\u22ee {row.n_skipped} not drawn"
            parts.append(draw_label(left - 8, y + 1, text, "quiet", "end"))
            y += 18
        kind = row.kind
        title = _escape(f"{row.label}: {value} {unit}".strip())
        parts.append(draw_label(left - 8, y + 4, name, kind, "end", row.label))
        parts.append(_draw_line(left, y, x(row.time), y, f"{kind} pale", 2))
        if row.high > row.low:
            low, up = x(row.low), x(row.high)
            parts.append(_draw_line(low, y, up, y, kind, 1.5))
            parts += [_draw_line(end, y - 4, end, y + 4, kind, 1.5) for end in (low, up)]
        parts.append(
            f'<circle cx="{x(row.time):.1f}" cy="{y:.0f}" r="4.5" '
            f'class="{kind}{" hollow" * row.predicted}"><title>{title}</title></circle>'
        )
        parts.append(draw_label(edge, y + 4, value, "", "end"))
        parts.append(draw_label(WIDTH, y + 4, row.note, "quiet", "end"))
        y += _ROW_HEIGHT
    if ticks:
        parts.append(draw_label(left - 8, y + 8, f"all {len(ticks)}", "quiet", "end"))
        # Draw at most one tick per pixel.
        for pixel in sorted({round(x(time)) for time in ticks}):
            parts.append(_draw_line(pixel, y - 2, pixel, y + 10, "other", 1, "opacity:.6"))
        for time, kind in marked:
            parts.append(_draw_line(x(time), y - 4, x(time), y + 12, kind, 3))
        y += _ROW_HEIGHT
    first, last = left_end / scale, high / scale
    labelled = [tick for tick in _choose_ticks(first, last) if tick != by_chance]
    parts += _draw_axis(first, last, y - 4, lambda value: x(value * scale), unit, labelled)
    if by_chance is not None:
        text = f"by chance {_format_tick(by_chance)}"
        parts.append(draw_label(x(by_chance) + 8, y + 11, text, "quiet", "end"))
    times = "; ".join(f"{row.label} {number(row.time / scale)} {unit}" for row in rows)
    return make_svg(y + 18, parts, f"Times: {times}")


def _short_name(name: str, limit: int = _MAX_NAME) -> str:
    name = shown_name(name)
    return name if len(name) <= limit else f"{name[: limit - 1]}\u2026"


def _name_width(name: str, kind: str = "other") -> float:
    """Return the approximate width of a name in pixels; names are bold unless ``kind`` is other."""
    return (_REGULAR_WIDTH if kind == "other" else _LETTER_WIDTH) * len(name)


def draw_bars(
    groups: Sequence[str],
    series: Sequence[tuple[str, str, Sequence[float]]],
    scale: float,
    unit: str,
    limits: Sequence[int] = (),
    totals: Sequence[float] = (),
) -> str:
    """Return a group of bars for each name in ``groups``, with one bar per series.

    A series is ``(name, kind, values)``; if the unit is ``%``, a value of 1 is 100 %. ``limits``
    has the index of each series' largest bar. This bar, and bars within 1 % of it, are solid;
    without ``limits``, all bars are solid. ``totals`` has a value per series, drawn as a line
    across all groups. With ``totals``, the last bar of a series starts where its solid bar ends.
    """
    high = max([*totals, *(value for _, _, values in series for value in values)], default=1) or 1.0
    names = [_short_name(group, _MAX_GROUP) for group in groups]
    left_edge, right = 10 + max(map(_name_width, names)), WIDTH - 50

    def x(value: float) -> float:
        return left_edge + (right - left_edge) * max(value / high, 0.0)

    def with_unit(value: float) -> str:
        if unit == "%":
            return percent(value, digits=3)
        return f"{number(value / scale)} {unit}".strip()

    unnamed = [Series(name, kind, (), ()) for name, kind, _ in series] if not totals else ()
    legend, y = _draw_legend(unnamed, 8, right, 10)
    parts, step = legend, _BAR_HEIGHT + 2
    for g, group in enumerate(groups):
        middle = y + step * len(series) / 2 + 3
        parts.append(draw_label(left_edge - 8, middle, names[g], "", "end", group))
        for s, (name, kind, values) in enumerate(series):
            is_remainder = bool(totals) and g == len(groups) - 1
            is_limit = bool(limits) and not is_remainder and values[g] >= 0.99 * values[limits[s]]
            start = values[limits[s]] if is_remainder else 0.0
            left, width = x(start), x(start + values[g]) - x(start)
            shade = kind if is_limit or not limits else f"{kind} pale"
            amount = with_unit(values[g])
            parts.append(
                f'<rect x="{left:.1f}" y="{y:.0f}" width="{width:.1f}" '
                f'height="{_BAR_HEIGHT}" class="{shade}">'
                f"<title>{_escape(f'{name}, {group}: {amount}')}</title></rect>"
            )
            text = amount.removesuffix(unit).strip()
            if is_limit:
                text = f"limit: {text}"
            edge, text_width = left + width + 5, _LETTER_WIDTH * len(text)
            if is_limit and width > text_width:
                parts.append(draw_label(edge - 10, y + 10.5, text, "inside bold", "end"))
            else:
                # Move the text to the right of a line that would cross it.
                for line in sorted(map(x, totals)):
                    edge = line + 5 if line - text_width - 3 < edge < line + 5 else edge
                parts.append(draw_label(edge, y + 10.5, text, "bold" if is_limit else "quiet"))
            y += step
        y += 10
    # Draw the lines first, behind the texts.
    parts[:0] = [
        _draw_line(x(total), 12, x(total), y - 4, kind, 1.5)
        for (_, kind, _), total in zip(series, totals, strict=False)
    ]
    for i, ((name, kind, _), total) in enumerate(zip(series, totals, strict=False)):
        edge, is_left = x(total), x(total) > WIDTH * 0.6
        text = f"{shortened(shown_name(name), 30)}, whole time {with_unit(total)}"
        # A text to the left of its line must not start outside the chart.
        edge = max(edge, _LETTER_WIDTH * len(text)) if is_left else edge
        anchor = "end" if is_left else "start"
        parts.append(draw_label(edge, y + 9 + _LINE_HEIGHT * i, text, kind, anchor))
    description = "; ".join(
        f"{name}: "
        + ", ".join(f"{group} {with_unit(v)}" for group, v in zip(groups, values, strict=True))
        for name, _, values in series
    )
    return make_svg(y + _LINE_HEIGHT * len(totals) + 4, parts, description)


def draw_plot(
    series: Sequence[Series],
    x_title: str,
    y_title: str,
    *,
    diagonal: bool = False,
    from_zero: bool = True,
    scales: Scales = _LINEAR,
) -> str:
    """Return a plot of points or lines, with a legend if there are several series.

    ``diagonal`` draws the line y = x.
    """
    points = [np.array([curve.x, curve.y], dtype=float) for curve in series]
    xs, ys = np.concatenate(points, axis=1)
    ys = np.concatenate([ys, *([low, high] for _, low, high in scales.area)])
    has_lines = any(curve.style != "points" for curve in series)
    low_x, high_x = _choose_range(xs, from_zero and has_lines)
    low_y, high_y = _choose_range(
        ys[ys > 0] if scales.log_y else ys, from_zero and not scales.log_y
    )
    if diagonal:
        low_x, high_x = low_y, high_y = min(low_x, low_y), max(high_x, high_y)
    left, right, first = 52.0, WIDTH - 12.0, 12.0 + _LINE_HEIGHT * len(scales.head)
    legend, top = _draw_legend(series, left, right, first + 12)
    bottom = top + _PLOT_HEIGHT

    def x(value: float) -> float:
        return left + (right - left) * _axis_position(value, low_x, high_x, scales.log_x)

    def y(value: float) -> float:
        return bottom - (bottom - top) * _axis_position(value, low_y, high_y, scales.log_y)

    parts = [draw_label(2, 12 + _LINE_HEIGHT * i, line) for i, line in enumerate(scales.head)]
    if scales.beyond is not None:
        width = right - x(scales.beyond)
        parts.append(
            f'<rect x="{x(scales.beyond):.1f}" y="{top:.0f}" width="{width:.1f}" '
            f'height="{_PLOT_HEIGHT}" class="shade"/>'
        )
        parts.append(draw_label(x(scales.beyond) + 4, top + 13, "extrapolated", "quiet"))
    parts.append(draw_label(2, first, y_title, "quiet"))
    for tick in _choose_ticks(low_y, high_y, scales.log_y):
        parts.append(_draw_line(left, y(tick), right, y(tick), "axis"))
        parts.append(draw_label(left - 6, y(tick) + 4, _format_tick(tick), "quiet", "end"))
    ticks = scales.ticks or _choose_ticks(low_x, high_x, scales.log_x)
    parts += _draw_axis(low_x, high_x, bottom, x, "", ticks)
    parts.append(draw_label(right, bottom + 32, x_title, "quiet", "end"))
    if diagonal:
        parts.append(_draw_line(x(low_x), y(low_y), x(high_x), y(high_y), "floor"))
    if scales.area:
        outline = [(value, low) for value, low, _ in scales.area]
        outline += [(value, high) for value, _, high in reversed(scales.area)]
        parts.append(
            f'<polygon points="{_format_points(outline, x, y)}" class="best" opacity=".25"/>'
        )
    for curve, values in zip(series, points, strict=True):
        if curve.style != "points":
            path, dashes = _format_points(values.T.tolist(), x, y), _DASHES.get(curve.style, "")
            parts.append(f'<polyline points="{path}" class="{curve.kind} line"{dashes}/>')
        for i, (a, b) in enumerate(values.T.tolist() if curve.style == "points" else ()):
            label = f"{curve.labels[i]}: " if curve.labels else ""
            title = _escape(f"{label}{_format_tick(a)}, {_format_tick(b)}")
            parts.append(
                f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="4" class="{curve.kind}" '
                f'opacity=".75"><title>{title}</title></circle>'
            )
    names = ", ".join(
        f"{curve.name or 'points'} ({values.shape[1]})"
        for curve, values in zip(series, points, strict=True)
    )
    return make_svg(bottom + 38, [*parts, *legend], f"{y_title} over {x_title}: {names}")


def needs_log_axis(values: Floats) -> bool:
    """Whether values are positive and differ so much that an axis should be logarithmic."""
    low, high = float(values.min(initial=np.inf)), float(values.max(initial=0.0))
    return low > 0 and high > _MIN_LOG_RANGE * low


def _draw_legend(
    series: Sequence[Series], left: float, right: float, y: float
) -> tuple[list[str], float]:
    """Return the parts of a legend that starts at ``y``, and the y coordinate of its lower end."""
    parts, x = [], left
    for curve in series if len(series) > 1 else ():
        if not curve.name:
            continue
        name = shortened(shown_name(curve.name), 24)
        kind = curve.kind if curve.kind in ("best", "yours") else "quiet"
        width = 22 + _name_width(name, "other" if kind == "quiet" else kind)
        if x > left and x + width > right:
            x, y = left, y + 16
        if curve.style == "points":
            parts.append(f'<circle cx="{x + 4:.0f}" cy="{y:.0f}" r="4" class="{curve.kind}"/>')
        else:
            dashes = _DASHES.get(curve.style, "")
            parts.append(
                f'<polyline points="{x - 6:.0f},{y:.0f} {x + 9:.0f},{y:.0f}" '
                f'class="{curve.kind} line"{dashes}/>'
            )
        parts.append(draw_label(x + 12, y + 4, name, kind))
        x += width
    return parts, y + (18 if parts else 4)


def _format_points(
    points: Iterable[Sequence[float]], x: Callable[[float], float], y: Callable[[float], float]
) -> str:
    return " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in points)


def _axis_position(value: float, low: float, high: float, log: bool) -> float:
    """Return the position of a value on an axis, from 0 to 1.

    On a logarithmic axis, values below ``low`` are at position 0.
    """
    if log:
        return math.log(max(value, low) / low) / math.log(high / low)
    return (value - low) / (high - low)


def draw_matrix(values: Floats, bin_width: float, noun: str) -> str:
    """Return a chart of bytes between bins of tasks or nodes; darker cells have more bytes."""
    n = len(values)
    side, left, top = 240.0, 60.0, 22.0
    cell = side / n
    high = values.max(initial=0.0) or 1.0
    low = values[values > 0].min(initial=high)
    span = math.log(high / low) or 1.0
    levels = np.full(values.shape, -1)
    sent = values > 0
    share = np.log(values[sent] / low) / span if high > low else np.ones(int(sent.sum()))
    levels[sent] = np.clip(share * len(RAMP), 0, len(RAMP) - 1).astype(int)
    i, j = np.indices(values.shape).astype(float)
    parts = [
        f'<rect x="{left}" y="{top}" width="{side}" height="{side}" class="axis"/>',
        *_draw_squares(levels, np.asarray(left + j * cell), np.asarray(top + i * cell), cell),
    ]
    last = n * bin_width
    parts += [
        draw_label(left, top - 6, f"0   receiving {noun}", "quiet"),
        draw_label(left + side, top - 6, f"{last:.0f}", "quiet", "end"),
        draw_label(left - 6, top + 10, "0", "quiet", "end"),
        draw_label(left - 6, top + side / 2, "sending", "quiet", "end"),
        draw_label(left - 6, top + side, f"{last:.0f}", "quiet", "end"),
    ]
    parts += draw_ramp(left, top + side + 8, nbytes(low), nbytes(high))
    return make_svg(top + side + 26, parts, f"Bytes between each sending and receiving {noun}")


def draw_ramp(x: float, y: float, low: str, high: str) -> list[str]:
    """Return the legend of the colours, with the texts ``low`` and ``high`` at its ends."""
    low_width = _LETTER_WIDTH * len(low) + 4
    levels = np.arange(len(RAMP))
    left = np.asarray(x + low_width + 14.0 * levels, dtype=np.float64)
    parts = _draw_squares(levels, left, np.full(len(RAMP), y), 12)
    edge = x + low_width + 14 * len(RAMP) + 4
    return [draw_label(x, y + 10, low, "quiet"), *parts, draw_label(edge, y + 10, high, "quiet")]


def _draw_squares(levels: Ints, x: Floats, y: Floats, side: float) -> list[str]:
    """Return squares coloured by their ``levels`` in the ramp; level -1 is not drawn."""
    size = f"h{side:.1f}v{side:.1f}h-{side:.1f}z"
    paths = {
        level: "".join(
            f"M{a:.1f} {b:.1f}{size}"
            for a, b in zip(x[levels == level], y[levels == level], strict=True)
        )
        for level in range(len(RAMP))
    }
    return [f'<path d="{path}" class="r{level}"/>' for level, path in paths.items() if path]


def _draw_axis(
    low: float,
    high: float,
    y: float,
    x: Callable[[float], float],
    unit: str,
    ticks: Sequence[float],
) -> list[str]:
    """Return a horizontal axis at ``y``; ``x`` converts a value to pixels."""
    parts = [_draw_line(x(low), y, x(high), y, "axis")]
    for tick in ticks:
        text = f"{_format_tick(tick)} {unit}" if unit and tick == ticks[-1] else _format_tick(tick)
        middle = min(x(tick), WIDTH - _LETTER_WIDTH * len(text) / 2)
        parts.append(draw_label(middle, y + 15, text, "quiet", "middle"))
    return parts


def _choose_range(values: Floats, from_zero: bool) -> tuple[float, float]:
    """Return the ends of an axis; if all values are equal, the axis extends to both sides."""
    values = values[np.isfinite(values)]
    low, high = float(values.min(initial=np.inf)), float(values.max(initial=-np.inf))
    if not values.size:
        return 0.0, 1.0
    low = min(low, 0.0) if from_zero else low
    # Values with a smaller relative difference only differ by rounding errors.
    if high - low > 1e-9 * max(abs(low), abs(high)):
        return low, high
    return low - abs(low or 1.0) / 2, high + abs(high or 1.0) / 2


def _choose_ticks(low: float, high: float, log: bool = False) -> list[float]:
    """Return about `_N_TICKS` round values, or up to twice as many on a logarithmic axis."""
    if log:
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        steps = (1, 2, 5) if len(powers) <= 4 else (1,)
        ticks = [step * 10.0**power for power in powers for step in steps]
        # Keep ticks at the ends of the axis in spite of rounding errors.
        ticks = [tick for tick in ticks if low <= tick * 1.001 and tick <= high * 1.001]
        return ticks[:: math.ceil(len(ticks) / (2 * _N_TICKS))]
    raw = (high - low) / _N_TICKS
    power = 10.0 ** math.floor(math.log10(raw))
    # Choose the smallest round step that gives at most about `_N_TICKS` ticks.
    step = next(power * digit for digit in (1, 2, 2.5, 5, 10) if power * digit >= raw * 0.99)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def _format_tick(value: float) -> str:
    # Values from 1000 to 9999 are written without a letter such as k.
    for minimum, size, letter in (
        (1e12, 1e12, "T"),
        (1e9, 1e9, "G"),
        (1e6, 1e6, "M"),
        (1e4, 1e3, "k"),
    ):
        if abs(value) >= minimum:
            return f"{value / size:.3g}{letter}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _draw_line(
    x1: float, y1: float, x2: float, y2: float, kind: str, width: float = 1, style: str = ""
) -> str:
    """Return a line in the colour of ``kind``; ``style`` is CSS."""
    more = f' style="{style}"' if style else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}" '
        f'stroke-width="{width:g}"{more}/>'
    )


def draw_label(
    x: float, y: float, text: object, kind: str = "", anchor: str = "start", whole: object = ""
) -> str:
    """Return a text whose start, end or middle is at ``x``, depending on ``anchor``.

    The tooltip is the ``whole`` text, if ``text`` is shortened.
    """
    attributes = f'x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}"'
    tooltip = f"<title>{_escape(whole)}</title>" if whole and whole != text else ""
    return f"<text {attributes}>{_escape(text)}{tooltip}</text>"


def _escape(value: object) -> str:
    return escape(with_minus(shortened(printable(" ".join(str(value).split())), 300)))


@cache
def style_sheet() -> str:
    """Return the style sheet of a page."""
    ramp = "\n".join(f"svg .r{i} {{ fill: {colour}; }}" for i, colour in enumerate(RAMP))
    return files(__package__).joinpath("page.css").read_text(encoding="utf-8").replace("RAMP", ramp)


@cache
def _standalone_style() -> str:
    """Return the style sheet's rules for charts, with the colours of the light theme."""
    colours = dict(re.findall(r"--(\w+): (#\w+)", style_sheet().partition("@media")[0]))
    rules = "".join(re.findall(r"^svg .*", style_sheet(), re.M))
    rules = re.sub(r"var\(--(\w+)\)", lambda match: colours[match[1]], rules)
    # Restrict the rules to a class, because they must not affect other drawings in a notebook.
    return re.sub(r"\bsvg (?=[.\w])", ".toruscast ", rules)


def standalone_svg(svg: str, style: str = "") -> str:
    """Return a chart with its own style sheet and a white background."""
    start_tag, _, content = svg.partition(">")
    start_tag += ' class="toruscast"' + (f' style="{style}"' if style else "")
    white = '<rect width="100%" height="100%" fill="white"/>'
    return f"{start_tag}><style>{_standalone_style()}</style>{white}{content}\n"


def draw_nodes(shape: Sequence[int], axes: str, numbers: Ints, size: int, title: str = "") -> str:
    """Return a drawing of the nodes of a torus, coloured by ``numbers`` from 0 to ``size`` - 1.

    ``numbers`` has the shape ``(n_nodes,)``; nodes with -1 are not drawn. The last two dimensions
    form planes, which are drawn side by side.
    """
    rows, columns = ([1, *shape] if len(shape) < 2 else shape)[-2:]
    planes = len(numbers) // (rows * columns)
    # Choose how many planes are drawn side by side, for a chart that is nearly square.
    across = max(1, min(planes, round(math.sqrt(planes * (rows + 1) / (columns + 1)))))
    # With two lines of planes, make both equally long if possible.
    while across > 1 and planes % across and across > planes // 2:
        across -= 1
    down = math.ceil(planes / across)
    cell = min(18.0, (WIDTH - 30) / (across * (columns + 0.8)), 420 / (down * (rows + 0.8)))
    levels = np.where(numbers < 0, -1, (numbers * (len(RAMP) - 1)) // max(size - 1, 1))
    plane, inside = np.divmod(np.arange(len(numbers)), rows * columns)
    i, j = np.divmod(inside, columns)
    x = 24 + (plane % across) * (columns + 0.8) * cell + j * cell
    y = 18 + (plane // across) * (rows + 0.8) * cell + i * cell
    parts = _draw_squares(levels, x, y, cell - 1 if cell > 4 else cell)
    caption = f"{title}; {axes[-1:]} to the right" if title else f"{axes[-1:]} to the right"
    if len(shape) > 1:
        caption += f", {axes[-2:-1]} down"
    if planes > 1:
        caption += f"; a plane for each of {', '.join(axes[:-2]) or 'the others'}"
    parts.append(draw_label(24, 12, caption, "quiet"))
    height = 24 + down * (rows + 0.8) * cell
    width = 24 + across * (columns + 0.8) * cell
    is_narrow = width <= NARROW and 7 * len(caption) <= NARROW
    return make_svg(height, parts, f"Nodes by number: {caption}", NARROW if is_narrow else WIDTH)
