"""The charts and the link map of an answer as files for a paper, drawn without a browser."""

from __future__ import annotations

import os
import re
from html import escape
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from toruscast.errors import InputError
from toruscast.files import atomic_path, check_target, folder_to_fill

from .blocks import Answer, Chart
from .links import STEPS, LinkMap, dimension_names, in_steps, places
from .svg import RAMP, standing_alone

FORMS = ("svg", "png", "pdf")


class Figure:
    """A chart that a notebook displays and a file can hold; made by `Result.plot`."""

    def __init__(self, chart: Chart) -> None:
        self.key, self.svg = chart.key, chart.draw()

    def _repr_svg_(self) -> str:
        return standing_alone(self.svg)

    def __repr__(self) -> str:
        return f"Figure({self.key!r})"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the figure as SVG, PNG or PDF, by the suffix of the file."""
        save_svg(self.svg, path)


_WIDTH = 600
"""Of a picture in a paper, in pixels; a PNG has twice as many."""
_SCALE = 2.0


def write_figures(answer: Answer, folder: str | os.PathLike[str], form: str = "svg") -> list[Path]:
    """Draw every chart of an answer and its map of links into a folder, and return the files.

    Each file has the name of its chart; that of the map of links, under the best candidate, is
    ``torus``. ``form`` is one of `FORMS`.
    """
    written = []
    with folder_to_fill(folder) as place:
        for section in answer.sections:
            for block in section.blocks if section.only != "terminal" else ():
                if isinstance(block, Chart):
                    name, drawn = block.key, block.draw()
                elif isinstance(block, LinkMap):
                    name, drawn = "torus", link_picture(block)
                else:
                    continue
                written.append(place / f"{name}.{form}")
                save_svg(drawn, written[-1])
    return written


def save_svg(drawn: str, path: str | os.PathLike[str]) -> None:
    """Write a chart as a picture of its own, SVG, PNG or PDF by the suffix of the file."""
    form = check_figure(path)
    sizes = re.match(r'<svg viewBox="0 0 ([\d.]+) ([\d.]+)"', drawn)
    height = _WIDTH * float(sizes[2]) / float(sizes[1]) if sizes else _WIDTH
    sized = drawn.replace("<svg ", f'<svg width="{_WIDTH}" height="{height:.0f}" ', 1)
    content = _converted(standing_alone(sized), form)
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def check_figure(path: str | os.PathLike[str]) -> str:
    """Return the format that the suffix of a figure names, where it can be written."""
    form = check_target(path).suffix.lower()[1:]
    if form not in FORMS:
        expected = " or ".join(f".{each}" for each in FORMS)
        raise InputError("unknown suffix", file=path, found=form or "none", expected=expected)
    check_form(form)
    return form


def check_form(form: str) -> None:
    """Raise `InputError` if figures of this format need a package that is not installed."""
    if form != "svg" and find_spec("vl_convert") is None:
        raise InputError(
            "a figure as PNG or PDF needs vl-convert-python",
            expected="pip install 'toruscast[report]', or SVG",
        )


def _converted(svg: str, form: str) -> bytes:
    if form == "svg":
        return svg.encode("utf-8")
    import vl_convert

    if form == "pdf":
        return bytes(vl_convert.svg_to_pdf(svg))
    return bytes(vl_convert.svg_to_png(svg, scale=_SCALE))


def link_picture(view: LinkMap) -> str:
    """Return the map of links under the best candidate as SVG, laid out as on the page."""
    torus = view.torus
    busy = view.load(1)[0].seconds
    exists = torus.link_exists
    steps = in_steps(busy, float(busy[exists].max(initial=0.0)), torus)
    share = (steps / STEPS).reshape(torus.n_nodes, torus.ndim, 2)
    drawn = exists.reshape(share.shape)
    cell, blocks = places(torus.shape)
    parts, x, y = [], 0.0, 16.0
    right = bottom = 0.0
    for block in blocks:
        k, rows, group = block["dimension"], block["rows"], block["group"]
        others = [j for j in range(torus.ndim) if j != k]
        ring = np.zeros(torus.n_nodes, int)
        for j in others:
            ring = ring * torus.shape[j] + torus.coords[:, j]
        band, row = np.divmod(ring, rows)
        wide = block["columns"] * cell + 4
        across = block["bands"] * wide
        high = rows * cell + 2 * (rows // group - 1)
        for way, sign in enumerate("+-"):
            if x and x + across > _WIDTH:
                x, y = 0.0, bottom + 22
            name = escape(f"{sign}{dimension_names(torus)[k][:8]}")
            parts.append(f'<text x="{x:.0f}" y="{y - 4:.0f}">{name}</text>')
            left = x + band * wide + torus.coords[:, k] * cell
            up = y + row * cell + 2 * (row // group)
            for node in np.flatnonzero(drawn[:, k, way]).tolist():
                parts.append(
                    f'<rect x="{left[node]:.0f}" y="{up[node]:.0f}" width="{cell - 1}" '
                    f'height="{cell - 1}" fill="{_colour(float(share[node, k, way]))}"/>'
                )
            x += across + 12
            right, bottom = max(right, x), max(bottom, y + high)
    head = f'<svg viewBox="0 0 {right:.0f} {bottom + 4:.0f}" xmlns="http://www.w3.org/2000/svg">'
    return f"{head}{''.join(parts)}</svg>"


def _colour(share: float) -> str:
    """Return the colour of a link; the darker, the busier."""
    at = share * (len(RAMP) - 1)
    i = min(int(at), len(RAMP) - 2)
    low, high = ([int(each[k : k + 2], 16) for k in (1, 3, 5)] for each in (RAMP[i], RAMP[i + 1]))
    mixed = [round(a + (at - i) * (b - a)) for a, b in zip(low, high, strict=True)]
    return "#" + "".join(f"{each:02x}" for each in mixed)
