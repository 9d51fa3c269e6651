"""Charts as SVG: classes name what is best, yours or neither; a style sheet gives them colours."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toruscast.text import number, percent, printable, shortened, shown_name

# A chart is as wide as a telephone, and grows by a quarter on a screen; two narrow ones stand
# beside each other.
WIDTH, NARROW = 440, 220
_LEFT = 138
_ROW = 24
# Ticks of an axis, about.
_TICKS = 4
# Width of a bold letter of a label.
_LETTER = 7.2
# Idle to busiest: the darker, the more; the same in both themes.
RAMP = ("#fcf6d4", "#feca8d", "#fd9668", "#f1605d", "#cd4071", "#9e2f7f", "#721f81", "#440f76")
# Of a figure that stands alone, on white: what a page says in its style sheet.
STYLE = {
    ".best": "fill:#0072b2;stroke:#0072b2",
    ".yours": "fill:#b45309;stroke:#b45309",
    ".other": "fill:#5b6570;stroke:#5b6570",
    ".third": "fill:#00805a;stroke:#00805a",
    ".line": "fill:none;stroke-width:2.5",
    ".pale": "opacity:.35",
    ".axis": "stroke:#c4cad1;fill:none",
    ".floor": "stroke:#5b6570;stroke-dasharray:4 3",
    "text": "font:11.5px sans-serif;fill:#16191d;stroke:none",
    ".quiet": "fill:#5b6570",
    ".bold": "font-weight:700",
    ".inside": "fill:#ffffff",
    "text.best": "fill:#0072b2;stroke:none;font-weight:700",
    "text.yours": "fill:#b45309;stroke:none;font-weight:700",
    **{f".r{i}": f"fill:{colour}" for i, colour in enumerate(RAMP)},
}
_DASHES = {"dashed": "7 4", "dotted": "2 4"}


class Row(NamedTuple):
    """A time in a chart of times: ``kind`` is best, yours or other."""

    label: str
    time: float
    kind: str = "other"
    low: float = 0.0
    high: float = 0.0
    note: str = ""


class Series(NamedTuple):
    """Values under a name; ``style`` is points, line, dashed or dotted, if not that of the plot."""

    name: str
    kind: str
    x: ArrayLike
    y: ArrayLike
    labels: Sequence[str] = ()
    style: str = ""


class Scales(NamedTuple):
    """What axes show besides the values of series.

    The horizontal axis has ``ticks`` at round values if none are given; ``head`` are lines above
    the plot, ``area`` is an interval, ``(x, low, high)`` at each place, and there are no
    measurements ``beyond`` that x.
    """

    log_x: bool = False
    log_y: bool = False
    ticks: Sequence[float] = ()
    head: Sequence[str] = ()
    area: Sequence[tuple[float, float, float]] = ()
    beyond: float | None = None


_PLAIN = Scales()


def picture(height: float, parts: Sequence[str], described: str, width: float = WIDTH) -> str:
    """Return a whole chart; ``described`` is what a listener is told of it."""
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{_text(described)}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )


def times(
    rows: Sequence[Row],
    scale: float,
    unit: str,
    floor: float = 0.0,
    every: Sequence[float] = (),
    left_out: str = "",
    marked: Sequence[tuple[float, str]] = (),
) -> str:
    """Return times as dots on lines from zero, intervals beside them, and a tick for ``every``.

    ``left_out`` says which rows are not drawn; it stands at a break before the last row. ``marked``
    are the ticks that are the best and yours.
    """
    most = max([row.time for row in rows] + [row.high for row in rows] + [floor, *every]) or 1.0
    right = WIDTH - 96

    def x(time: float) -> float:
        return _LEFT + (right - _LEFT) * min(time, most) / most

    parts, y = [], 26.0
    bottom = y + _ROW * len(rows) + (18 if left_out else 0)
    if floor:
        anchor = "end" if x(floor) > WIDTH / 2 else "start"
        parts.append(_line(x(floor), 14, x(floor), bottom - 10, "floor"))
        shown = f"no mapping is below {number(floor / scale)} {unit}"
        parts.append(_label(x(floor), 10, shown, "quiet", anchor))
    for i, row in enumerate(rows):
        if left_out and i == len(rows) - 1:
            parts.append(_label(_LEFT, y + 3, f"\u22ee {left_out}", "quiet"))
            y += 18
        kind = row.kind
        parts.append(_label(_LEFT - 8, y + 4, shortened(shown_name(row.label), 19), kind, "end"))
        parts.append(_line(_LEFT, y, x(row.time), y, f"{kind} pale", 2))
        if row.high > row.low:
            parts.append(_line(x(row.low), y, x(row.high), y, kind, 4, "opacity:.45"))
        parts.append(
            f'<circle cx="{x(row.time):.1f}" cy="{y:.0f}" r="5" class="{kind}">'
            f"<title>{_text(row.label)}: {number(row.time / scale)} {_text(unit)}</title></circle>"
        )
        edge = max(x(row.time), x(row.high)) + 9
        note = f'<tspan class="quiet"> {_text(row.note)}</tspan>' if row.note else ""
        parts.append(
            f'<text x="{edge:.0f}" y="{y + 4:.0f}">{number(row.time / scale)}{note}</text>'
        )
        y += _ROW
    if every:
        parts.append(_label(_LEFT - 8, y + 8, f"all {len(every)}", "quiet", "end"))
        # Ticks that fall on one pixel are one.
        for at in sorted({round(x(each)) for each in every}):
            parts.append(_line(at, y - 2, at, y + 10, "other", 1, "opacity:.6"))
        for each, kind in marked:
            parts.append(_line(x(each), y - 4, x(each), y + 12, kind, 3))
        y += _ROW
    parts += _axis_below(0.0, most / scale, y - 4, lambda v: x(v * scale), unit)
    told = "; ".join(f"{row.label} {number(row.time / scale)} {unit}" for row in rows)
    return picture(y + 18, parts, f"Times: {told}")


def bars(
    groups: Sequence[str],
    series: Sequence[tuple[str, str, Sequence[float]]],
    scale: float,
    unit: str,
    solid: Sequence[int] = (),
    done: Sequence[float] = (),
    begin: float = 0.0,
) -> str:
    """Return values of each series, ``(name, kind, values)``, beside each other by group.

    Values in ``%`` are parts of 1. All bars are solid, or for each series the one that ``solid``
    names, which is the limit. ``done`` are lines across all groups, one for each series. Bars
    ``begin`` there.
    """
    most = max([*done, *(value for _, _, values in series for value in values)], default=1) or 1.0
    right = WIDTH - 64

    def x(value: float) -> float:
        share = (value - begin) / (most - begin or 1.0)
        return _LEFT + (right - _LEFT) * max(share, 0.0)

    def with_unit(value: float) -> str:
        return (
            percent(value, digits=3) if unit == "%" else f"{number(value / scale)} {unit}".strip()
        )

    parts, y, high = [], 20.0, 13
    for g, group in enumerate(groups):
        middle = y + (high + 2) * len(series) / 2 + 3
        parts.append(_label(_LEFT - 8, middle, shortened(shown_name(group), 24), "", "end"))
        for s, (name, kind, values) in enumerate(series):
            is_solid = not solid or solid[s] == g
            width = x(values[g]) - _LEFT
            shade = kind if is_solid else f"{kind} pale"
            parts.append(
                f'<rect x="{_LEFT}" y="{y:.0f}" width="{width:.1f}" height="{high}" '
                f'class="{shade}"><title>{_text(name)}, {_text(group)}: '
                f"{_text(with_unit(values[g]))}</title></rect>"
            )
            is_limit = bool(solid) and is_solid
            text = with_unit(values[g]).removesuffix(unit).strip()
            if is_limit:
                text = f"the limit: {text}"
            if is_limit and width > _LETTER * len(text):
                parts.append(_label(_LEFT + width - 5, y + 10.5, text, "inside bold", "end"))
            else:
                kind_of_text = "bold" if is_limit else "quiet"
                parts.append(_label(_LEFT + width + 5, y + 10.5, text, kind_of_text))
            y += high + 2
        y += 10
    # Below the bars, so that their words can be read.
    parts[:0] = [
        _line(x(value), 12, x(value), y - 4, kind, 1.5)
        for (_, kind, _), value in zip(series, done, strict=False)
    ]
    for at, ((name, kind, _), value) in enumerate(zip(series, done, strict=False)):
        anchor = "end" if x(value) > WIDTH * 0.6 else "start"
        shown = f"{shortened(shown_name(name), 30)}, whole time {with_unit(value)}"
        parts.append(_label(x(value), y + 9 + 14 * at, shown, kind, anchor))
    told = "; ".join(
        f"{name}: "
        + ", ".join(f"{group} {with_unit(v)}" for group, v in zip(groups, values, strict=True))
        for name, _, values in series
    )
    return picture(y + 14 * len(done) + 4, parts, told)


def plot(
    series: Sequence[Series],
    x_title: str,
    y_title: str,
    *,
    lines: bool = False,
    diagonal: bool = False,
    from_zero: bool = True,
    bands: Sequence[tuple[float, float, float]] = (),
    scales: Scales = _PLAIN,
) -> str:
    """Return points, or lines through them, with a key above where there are several series.

    ``diagonal`` draws where both are equal; ``bands`` are ``(x, low, high)``.
    """
    points = [np.array([each.x, each.y], dtype=float) for each in series]
    xs, ys = np.concatenate(points, axis=1)
    ys = np.concatenate([ys, [end for _, *ends in (*bands, *scales.area) for end in ends]])
    low_x, high_x = _ends(xs, from_zero and lines)
    low_y, high_y = _ends(ys[ys > 0] if scales.log_y else ys, from_zero and not scales.log_y)
    if diagonal:
        low_x, high_x = low_y, high_y = min(low_x, low_y), max(high_x, high_y)
    left, right, first = 52.0, WIDTH - 12.0, 12.0 + 14 * len(scales.head)
    key, top = _key(series, left, right, first + 12)
    bottom = top + 192

    def x(value: float) -> float:
        return left + (right - left) * _share(value, low_x, high_x, scales.log_x)

    def y(value: float) -> float:
        return bottom - (bottom - top) * _share(value, low_y, high_y, scales.log_y)

    parts = [_label(2, 12 + 14 * i, line) for i, line in enumerate(scales.head)]
    if scales.beyond is not None:
        wide = right - x(scales.beyond)
        parts.append(
            f'<rect x="{x(scales.beyond):.1f}" y="{top:.0f}" width="{wide:.1f}" height="192" '
            'fill="#f2f2f2"/>'
        )
        parts.append(_label(right - 2, bottom - 5, "beyond the measurements", "quiet", "end"))
    parts.append(_label(2, first, y_title, "quiet"))
    for tick in _ticks(low_y, high_y, scales.log_y):
        parts.append(_line(left, y(tick), right, y(tick), "axis"))
        parts.append(_label(left - 6, y(tick) + 4, _short(tick), "quiet", "end"))
    ticks = scales.ticks or _ticks(low_x, high_x, scales.log_x)
    parts += _axis_below(low_x, high_x, bottom, x, "", ticks)
    parts.append(_label(right, bottom + 32, x_title, "quiet", "end"))
    if diagonal:
        parts.append(_line(x(low_x), y(low_y), x(high_x), y(high_y), "floor"))
    if scales.area:
        around = [(at, low) for at, low, _ in scales.area]
        around += [(at, high) for at, _, high in reversed(scales.area)]
        parts.append(f'<polygon points="{_path(around, x, y)}" class="best" opacity=".25"/>')
    for at, low, high in bands:
        parts.append(_line(x(at), y(low), x(at), y(high), "other", 2))
    for each, values in zip(series, points, strict=True):
        style = each.style or ("line" if lines else "points")
        if style != "points":
            dashes = f' stroke-dasharray="{_DASHES[style]}"' if style in _DASHES else ""
            path = _path(values.T.tolist(), x, y)
            parts.append(f'<polyline points="{path}" class="{each.kind} line"{dashes}/>')
        for i, (a, b) in enumerate(values.T.tolist() if style == "points" else ()):
            label = f"{each.labels[i]}: " if each.labels else ""
            parts.append(
                f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="4" class="{each.kind}" '
                f'opacity=".75"><title>{_text(label)}{_short(a)}, {_short(b)}</title></circle>'
            )
    told = ", ".join(
        f"{each.name or 'points'} ({values.shape[1]})"
        for each, values in zip(series, points, strict=True)
    )
    return picture(bottom + 38, [*parts, *key], f"{y_title} over {x_title}: {told}")


def stacked(charts: Sequence[str]) -> str:
    """Return charts below each other as one."""
    if len(charts) == 1:
        return charts[0]
    parts, y = [], 0.0
    for chart in charts:
        height = float(chart.split('"', 2)[1].split()[3])
        parts.append(chart.replace("<svg ", f'<svg y="{y:.0f}" height="{height:.0f}" ', 1))
        y += height + 12
    return picture(y, parts, f"{len(charts)} charts")


def _key(series: Sequence[Series], left: float, right: float, y: float) -> tuple[list[str], float]:
    """Return the names of several series, in lines from ``y`` on, and where a plot may begin."""
    parts, x = [], left
    for each in series if len(series) > 1 else ():
        if not each.name:
            continue
        name = shortened(shown_name(each.name), 24)
        wide = 28 + 7 * len(name)
        if x > left and x + wide > right:
            x, y = left, y + 16
        if each.style in ("", "points"):
            parts.append(f'<circle cx="{x + 4:.0f}" cy="{y:.0f}" r="4" class="{each.kind}"/>')
        else:
            dashes = f' stroke-dasharray="{_DASHES[each.style]}"' if each.style in _DASHES else ""
            parts.append(
                f'<polyline points="{x - 6:.0f},{y:.0f} {x + 9:.0f},{y:.0f}" '
                f'class="{each.kind} line"{dashes}/>'
            )
        kind = each.kind if each.kind in ("best", "yours") else "quiet"
        parts.append(_label(x + 12, y + 4, name, kind))
        x += wide
    return parts, y + 10


def _path(
    points: Iterable[Sequence[float]], x: Callable[[float], float], y: Callable[[float], float]
) -> str:
    return " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in points)


def _share(value: float, low: float, high: float, log: bool) -> float:
    """Return how far a value is along an axis; none of a logarithmic one is below its end."""
    if log:
        return math.log(max(value, low) / low) / math.log(high / low)
    return (value - low) / (high - low)


def matrix(values: NDArray[np.float64], of: float, what: str) -> str:
    """Return who sends how much to whom, in bins of ``of`` numbers each; darker is more."""
    n = len(values)
    side, left, top = 240.0, 60.0, 22.0
    cell = side / n
    most = values.max(initial=0.0) or 1.0
    least = values[values > 0].min(initial=most)
    span = math.log(most / least) or 1.0
    levels = np.full(values.shape, -1)
    sent = values > 0
    share = np.log(values[sent] / least) / span if most > least else np.ones(int(sent.sum()))
    levels[sent] = np.clip(share * len(RAMP), 0, len(RAMP) - 1).astype(int)
    i, j = np.indices(values.shape).astype(float)
    parts = [
        f'<rect x="{left}" y="{top}" width="{side}" height="{side}" class="axis"/>',
        *_squares(levels, np.asarray(left + j * cell), np.asarray(top + i * cell), cell),
    ]
    last = n * of
    parts += [
        _label(left, top - 6, f"0   receiving {what}", "quiet"),
        _label(left + side, top - 6, f"{last:.0f}", "quiet", "end"),
        _label(left - 6, top + 10, "0", "quiet", "end"),
        _label(left - 6, top + side / 2, "sending", "quiet", "end"),
        _label(left - 6, top + side, f"{last:.0f}", "quiet", "end"),
    ]
    return picture(top + side + 8, parts, f"Bytes between each sending and receiving {what}")


def _squares(
    levels: NDArray[np.int64], x: NDArray[np.float64], y: NDArray[np.float64], side: float
) -> list[str]:
    """Return squares in the colours of the ramp; those of level -1 are not drawn."""
    size = f"h{side:.1f}v{side:.1f}h-{side:.1f}z"
    paths = {
        level: "".join(
            f"M{a:.1f} {b:.1f}{size}"
            for a, b in zip(x[levels == level], y[levels == level], strict=True)
        )
        for level in range(len(RAMP))
    }
    return [f'<path d="{path}" class="r{level}"/>' for level, path in paths.items() if path]


def _axis_below(
    low: float,
    high: float,
    y: float,
    x: Callable[[float], float],
    unit: str,
    ticks: Sequence[float] = (),
) -> list[str]:
    parts = [_line(x(low), y, x(high), y, "axis")]
    ticks = ticks or _ticks(low, high)
    for tick in ticks:
        text = f"{_short(tick)} {unit}" if unit and tick == ticks[-1] else _short(tick)
        parts.append(_label(x(tick), y + 15, text, "quiet", "middle"))
    return parts


def _ends(values: NDArray[np.float64], from_zero: bool) -> tuple[float, float]:
    values = values[np.isfinite(values)]
    low, high = float(values.min(initial=np.inf)), float(values.max(initial=-np.inf))
    if not values.size:
        return 0.0, 1.0
    low = min(low, 0.0) if from_zero else low
    # Values that differ by rounding alone are one.
    if high - low > 1e-9 * max(abs(low), abs(high)):
        return low, high
    return low - abs(low or 1.0) / 2, high + abs(high or 1.0) / 2


def _ticks(low: float, high: float, log: bool = False) -> list[float]:
    """Return round values from low to high, about so many; those of decades where ``log``."""
    if log:
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        steps = (1, 2, 5) if len(powers) <= 4 else (1,)
        ticks = [step * 10.0**power for power in powers for step in steps]
        ticks = [tick for tick in ticks if low <= tick * 1.001 and tick <= high * 1.001]
        return ticks[:: -(-len(ticks) // (2 * _TICKS))]
    raw = (high - low) / _TICKS
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * each for each in (1, 2, 2.5, 5, 10) if power * each >= raw * 0.99)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def _short(value: float) -> str:
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if letter == 'k' else size):.3g}{letter}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _line(
    x1: float, y1: float, x2: float, y2: float, kind: str, width: float = 1, style: str = ""
) -> str:
    more = f' style="{style}"' if style else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}" '
        f'stroke-width="{width:g}"{more}/>'
    )


def _label(x: float, y: float, text: object, kind: str = "", anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{_text(text)}</text>'
    )


def _text(value: object) -> str:
    return escape(shortened(printable(" ".join(str(value).split())), 300))


def standing_alone(svg: str, style: str = "") -> str:
    """Return a chart of a page as a file of its own, its colours those of white paper."""
    # Its rules name its class, so that they change nothing of a notebook that it stands in.
    rules = "".join(f".toruscast {key}{{{value}}}" for key, value in STYLE.items())
    head, _, rest = svg.partition(">")
    head += ' class="toruscast"' + (f' style="{style}"' if style else "")
    return f'{head}><style>{rules}</style><rect width="100%" height="100%" fill="white"/>{rest}\n'


def chips(
    shape: Sequence[int], axes: str, place: NDArray[np.int64], size: int, title: str = ""
) -> str:
    """Return the nodes of a torus coloured by a number of each, ``(n_nodes,)`` and below ``size``.

    The last two dimensions make a plane; planes of the others stand side by side. A node whose
    number is -1 stays empty.
    """
    rows, columns = ([1, *shape] if len(shape) < 2 else shape)[-2:]
    planes = len(place) // (rows * columns)
    # About square: planes in a line, as many as make it so.
    across = max(1, min(planes, round(math.sqrt(planes * (rows + 1) / (columns + 1)))))
    while across > 1 and planes % across and across > planes // 2:
        across -= 1
    down = math.ceil(planes / across)
    cell = min(18.0, (WIDTH - 30) / (across * (columns + 0.8)), 420 / (down * (rows + 0.8)))
    levels = np.where(place < 0, -1, (place * (len(RAMP) - 1)) // max(size - 1, 1))
    plane, inside = np.divmod(np.arange(len(place)), rows * columns)
    i, j = np.divmod(inside, columns)
    x = 24 + (plane % across) * (columns + 0.8) * cell + j * cell
    y = 18 + (plane // across) * (rows + 0.8) * cell + i * cell
    parts = _squares(levels, x, y, cell - 1 if cell > 4 else cell)
    words = f"{title}; {axes[-1:]} to the right" if title else f"{axes[-1:]} to the right"
    if len(shape) > 1:
        words += f", {axes[-2:-1]} down"
    if planes > 1:
        words += f"; a plane for each of {', '.join(axes[:-2]) or 'the others'}"
    parts.append(_label(24, 12, words, "quiet"))
    height = 24 + down * (rows + 0.8) * cell
    wide = 24 + across * (columns + 0.8) * cell
    width = NARROW if wide <= NARROW and 7 * len(words) <= NARROW else WIDTH
    return picture(height, parts, f"Chips by their place along an axis of {size}", width)
