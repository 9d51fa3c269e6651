"""The charts and the link map of an answer as files, drawn without a browser."""

from __future__ import annotations

import math
import os
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from toruscast.errors import InputError
from toruscast.files import atomic_path, check_target, folder_to_fill
from toruscast.text import seconds, shortened, shown_name

from .blocks import Answer, Chart
from .links import STEPS, LinkMap, lay_out_links, quantize_busy_times
from .svg import RAMP, WIDTH, draw_label, draw_ramp, make_svg, standalone_svg

FIGURE_FORMATS = ("svg", "png", "pdf")
# Width of a figure in pixels. A PNG is twice as wide.
_WIDTH = 600
_PNG_SCALE = 2.0


class Figure:
    """A chart to display in a notebook or to save, made by `Result.plot`."""

    def __init__(self, chart: Chart) -> None:
        self.key, self.svg = chart.key, chart.draw()

    def _repr_svg_(self) -> str:
        return standalone_svg(self.svg)

    def __repr__(self) -> str:
        return f"Figure({self.key!r})"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the figure as SVG, PNG or PDF, by the suffix of the file."""
        save_svg(self.svg, path)


def write_figures(
    answer: Answer, folder: str | os.PathLike[str], file_format: str = "svg"
) -> list[Path]:
    """Write the charts of an answer to a folder, named by their keys, and return the files.

    The file named ``torus`` is the link map of the best candidate. ``file_format`` is one of
    `FIGURE_FORMATS`.
    """
    written = []
    with folder_to_fill(folder) as target:
        for section in answer.sections:
            for block in section.blocks if section.only != "terminal" else ():
                if isinstance(block, Chart):
                    name, svg = block.key, block.draw()
                elif isinstance(block, LinkMap):
                    name, svg = "torus", draw_link_map(block)
                else:
                    continue
                written.append(target / f"{name}.{file_format}")
                save_svg(svg, written[-1])
    return written


def save_svg(svg: str, path: str | os.PathLike[str]) -> None:
    """Write a chart as SVG, PNG or PDF, by the suffix of the file."""
    file_format = check_target(path).suffix.lower()[1:]
    if file_format not in FIGURE_FORMATS:
        expected = " or ".join(f".{name}" for name in FIGURE_FORMATS)
        found = file_format or "none"
        raise InputError("unknown suffix", file=path, found=found, expected=expected)
    check_figure_format(file_format)
    sizes = re.match(r'<svg viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    height = _WIDTH * float(sizes[2]) / float(sizes[1]) if sizes else _WIDTH
    sized = svg.replace("<svg ", f'<svg width="{_WIDTH}" height="{height:.0f}" ', 1)
    content = _convert_svg(standalone_svg(sized), file_format)
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def check_figure_format(file_format: str) -> None:
    """Raise `InputError` if the format needs a package that is not installed."""
    if file_format != "svg" and find_spec("vl_convert") is None:
        raise InputError(
            "a figure as PNG or PDF needs vl-convert-python",
            expected="pip install 'toruscast[report]', or SVG",
        )


def _convert_svg(svg: str, file_format: str) -> bytes:
    """Convert an SVG chart to the bytes of a file in the given format."""
    if file_format == "svg":
        return svg.encode("utf-8")
    import vl_convert

    if file_format == "pdf":
        return bytes(vl_convert.svg_to_pdf(svg))
    return bytes(vl_convert.svg_to_png(svg, scale=_PNG_SCALE))


def draw_link_map(view: LinkMap) -> str:
    """Return the link map of the best candidate as SVG, in the layout of `lay_out_links`."""
    torus, use = view.torus, view.make_uses(1)[0]
    exists = torus.link_exists
    busiest = int(np.argmax(np.where(exists, use.seconds, -1.0)))
    max_busy = float(use.seconds[busiest])
    steps = quantize_busy_times(use.seconds, max_busy, torus)
    share = (steps / STEPS).reshape(torus.n_nodes, torus.ndim, 2)
    drawn = exists.reshape(share.shape)
    cell, label, blocks = lay_out_links(torus.shape)
    title = f"{shortened(shown_name(use.name), 40)}, busiest link {torus.link_label(busiest)}"
    parts, x, y = [draw_label(0, 12, title, "bold")], 0.0, 36.0
    right = bottom = 0.0
    for block in blocks:
        k, rows, group = block["dimension"], block["rows"], block["group"]
        others = [j for j in range(torus.ndim) if j != k]
        # Number the rings of the dimension in row-major order.
        ring = np.zeros(torus.n_nodes, int)
        for j in others:
            ring = ring * torus.shape[j] + torus.coords[:, j]
        band, row = np.divmod(ring, rows)
        # Leave 4 pixels between bands, and 2 pixels between groups of rows.
        band_width = label + block["columns"] * cell + 4
        width = block["bands"] * band_width
        height = rows * cell + 2 * (rows // group - 1)
        # Label a row with the coordinates of its group, at least 12 pixels from the next label.
        step = group * math.ceil(12 / (group * cell))
        labelled = np.flatnonzero((torus.coords[:, k] == 0) & (row % step == 0) & bool(label))
        for side, sign in enumerate("+-"):
            if x and x + width > _WIDTH:
                x, y = 0.0, bottom + 22
            start = x + band * band_width
            left = start + label + torus.coords[:, k] * cell
            top = y + row * cell + 2 * (row // group)
            parts.append(draw_label(x + label, y - 4, f"{sign}{torus.axes[k]}"))
            for node in labelled.tolist():
                named = others[:-1] if group > 1 else others
                text = "".join(f"{torus.axes[j]}{torus.coords[node, j]}" for j in named)
                parts.append(draw_label(start[node], top[node] + 9, text, "quiet"))
            for node in np.flatnonzero(drawn[:, k, side]).tolist():
                parts.append(
                    f'<rect x="{left[node]:.0f}" y="{top[node]:.0f}" width="{cell - 1}" '
                    f'height="{cell - 1}" fill="{_ramp_colour(share[node, k, side])}"/>'
                )
            x += width + 12
            right, bottom = max(right, x), max(bottom, y + height)
    parts += draw_ramp(0, bottom + 12, "idle", f"busy {seconds(max_busy)}")
    return make_svg(bottom + 28, parts, title, max(right, WIDTH))


def _ramp_colour(share: float) -> str:
    """Return the colour for a share of the longest busy time, interpolated in the colour ramp."""
    colours = np.array([list(bytes.fromhex(colour[1:])) for colour in RAMP])
    shares = np.linspace(0, 1, len(RAMP))
    red_green_blue = (round(np.interp(share, shares, channel)) for channel in colours.T)
    return "#" + bytes(red_green_blue).hex()
