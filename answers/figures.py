"""The views of a page as files for a paper, drawn without a browser."""

from __future__ import annotations

import base64
import binascii
import json
import math
import os
import re
import zlib
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from toruscast.atomic import atomic_path
from toruscast.errors import InputError
from toruscast.files import as_string, read_limited
from toruscast.units import time_unit
from toruscast.validation import whole_number

from .links import places
from .svg import RAMP, Row, standing_alone, times

FORMS = ("svg", "png", "pdf")
TORUS = "torus"
WIDTH = 600
"""Of a picture in a paper, in pixels; a PNG has twice as many."""
_SCALE = 2.0
_BLOCK, _BLOCK_END = '<script type="application/json" id="{}">', "</script>"
_VIEW = re.compile(r'<figure id="([\w-]+)">(?:(?!<figure).)*?(<svg .*?</svg>)</figure>', re.DOTALL)
_MAX_BYTES = 2**28
# All that our charts hold: a page may be a stranger's.
_TAGS = {"svg", "g", "rect", "line", "path", "circle", "polyline", "text", "tspan", "title"}
_ATTRIBUTES = {
    *("viewBox", "role", "aria-label", "x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "r"),
    *("width", "height", "class", "text-anchor", "points", "d", "stroke-width", "opacity", "style"),
}
_STYLED = re.compile(r"opacity:\.\d+")
_DAMAGED = (
    OverflowError,
    KeyError,
    IndexError,
    TypeError,
    ValueError,
    AttributeError,
    zlib.error,
    binascii.Error,
)


class Views:
    """The views of a page that `write_report` wrote.

    Raises
    ------
    InputError
        If the file cannot be read or is no such page.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        content = as_string(read_limited(path, _MAX_BYTES), path)
        if _BLOCK.format("ramp") not in content:
            raise self._wrong()
        self._charts = dict(_VIEW.findall(content))
        self._network = self._block(content, "network")
        self._times = self._block(content, "times") or {}

    @property
    def names(self) -> list[str]:
        """Names of the views, in the order of the page."""
        return [*self._charts, *([TORUS] if self._network else [])]

    def write(
        self,
        view: str,
        path: str | os.PathLike[str],
        *,
        width: int = WIDTH,
        top: int | None = None,
        candidate: int = 1,
        against: int | None = None,
    ) -> None:
        """Draw a view to a file, SVG, PNG or PDF by its suffix.

        Parameters
        ----------
        view : str
            One of `names`.
        path : path
        width : int
            Of the drawing, in pixels.
        top : int, optional
            Of the times of candidates: the first so many, in place of those on the page.
        candidate : int
            Of the torus: the candidate whose links are shown, counted from 1.
        against : int, optional
            The candidate that is taken from it.

        Raises
        ------
        InputError
            If there is no such view or candidate, the page was damaged, the file cannot be written,
            or the package ``vl-convert-python`` is not installed, which PNG and PDF need.
        """
        if view not in self.names:
            raise InputError("no such view", found=view, expected=", ".join(self.names))
        form = Path(path).suffix.lower()[1:]
        if form not in FORMS:
            raise InputError("unknown suffix of a figure", file=path, expected=".svg, .png or .pdf")
        whole_number(width, "width", 100, 10_000)
        try:
            if view == TORUS:
                drawn = self._torus(candidate, against)
            elif top is not None and view in self._times:
                rows = [Row(*row) for row in self._times[view][:top]]
                scale, unit = time_unit([row.time for row in rows])
                drawn = standing_alone(times(rows, scale, unit))
            else:
                drawn = standing_alone(_checked(self._charts[view]))
        except InputError:
            raise
        except (*_DAMAGED, ElementTree.ParseError):
            raise self._wrong() from None
        content = _as_form(_as_wide(drawn, width), form)
        with atomic_path(path) as temporary:
            temporary.write_bytes(content)

    def _torus(self, candidate: int, against: int | None) -> str:
        """Return the map of links, laid out as on the page."""
        data = self._network
        shape = [int(size) for size in data["shape"] if isinstance(size, int) and size > 0]
        if len(shape) != len(data["shape"]) or len(shape) != len(data["dimensions"]):
            raise ValueError
        n_nodes = math.prod(shape)
        ports = 2 * len(shape)
        n = len(data["names"])
        for number in (candidate, *([] if against is None else [against])):
            whole_number(number, "candidate", 1, n)
        steps = _unpacked(data["busy"], n * n_nodes * ports).reshape(n, n_nodes, ports)
        most = np.array(data["most"], dtype=float)

        def seconds(which: int) -> Any:
            return steps[which - 1] / float(data["steps"]) * most[which - 1]

        value = seconds(candidate) if against is None else seconds(candidate) - seconds(against)
        exists = steps[0] != data["missing"]
        top = float(np.abs(value[exists]).max(initial=0.0)) or 1.0
        cell, blocks = places(shape)
        coords = np.stack(np.unravel_index(np.arange(n_nodes), shape), axis=1)
        parts, x, y = [], 0.0, 16.0
        right = bottom = 0.0
        for block in blocks:
            k = int(block["dimension"])
            others = [j for j in range(len(shape)) if j != k]
            ring = np.ravel_multi_index(
                [*coords[:, others].T] or [np.zeros(n_nodes, int)],
                [shape[j] for j in others] or [1],
            )
            band, row = np.divmod(ring, block["rows"])
            across = block["bands"] * (block["columns"] * cell + 4)
            high = block["rows"] * cell + 2 * (block["rows"] // block["group"] - 1)
            for way in (0, 1):
                if x and x + across > WIDTH:
                    x, y = 0.0, bottom + 22
                name = f"{'-' if way else '+'}{str(data['dimensions'][k])[:8]}"
                parts.append(f'<text x="{x:.0f}" y="{y - 4:.0f}">{escape(name)}</text>')
                left = x + band * (block["columns"] * cell + 4) + coords[:, k] * cell
                up = y + row * cell + 2 * (row // block["group"])
                share = value[:, 2 * k + way] / top
                for node in np.flatnonzero(exists[:, 2 * k + way]).tolist():
                    colour = _colour(float(share[node]), against is not None)
                    parts.append(
                        f'<rect x="{left[node]:.0f}" y="{up[node]:.0f}" width="{cell - 1}" '
                        f'height="{cell - 1}" fill="{colour}"/>'
                    )
                x += across + 12
                right, bottom = max(right, x), max(bottom, y + high)
        head = (
            f'<svg viewBox="0 0 {right:.0f} {bottom + 4:.0f}" xmlns="http://www.w3.org/2000/svg">'
        )
        return standing_alone(f"{head}{''.join(parts)}</svg>")

    def _block(self, content: str, key: str) -> Any:
        """Return the data of the page under a key; None if there are none."""
        _, found, rest = content.partition(_BLOCK.format(key))
        block, ended, _ = rest.partition(_BLOCK_END)
        try:
            return json.loads(block) if found and ended else None
        except (ValueError, RecursionError):
            raise self._wrong() from None

    def _wrong(self) -> InputError:
        return InputError(
            "no report, or a damaged one", file=self.path, expected="a page that --report wrote"
        )


def _checked(svg: str) -> str:
    """Return a chart; raise `ValueError` where it holds what ours do not."""
    if "<!" in svg or "&#" in svg.replace("&#34;", "").replace("&#39;", "").replace("&#x27;", ""):
        raise ValueError
    for element in ElementTree.fromstring(svg).iter():
        tag = element.tag.rpartition("}")[2]
        style = element.attrib.get("style")
        if tag not in _TAGS or not {*element.attrib} <= _ATTRIBUTES:
            raise ValueError
        if style is not None and not _STYLED.fullmatch(style):
            raise ValueError
    return svg


def _as_wide(svg: str, width: int) -> str:
    """Return a picture of this width, its height in proportion."""
    sizes = re.match(r'<svg viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    high = width * float(sizes[2]) / float(sizes[1]) if sizes else width
    return svg.replace("<svg ", f'<svg width="{width}" height="{high:.0f}" ', 1)


def _as_form(svg: str, form: str) -> bytes:
    if form == "svg":
        return svg.encode("utf-8")
    if find_spec("vl_convert") is None:
        raise InputError(
            "a figure as PNG or PDF needs vl-convert-python",
            expected="pip install 'toruscast[report]', or --out-format svg",
        )
    import vl_convert

    if form == "pdf":
        return bytes(vl_convert.svg_to_pdf(svg))
    return bytes(vl_convert.svg_to_png(svg, scale=_SCALE))


def _colour(share: float, difference: bool) -> str:
    """Return the colour of a link: darker is more; blue and brown where one is busier."""
    ramp: tuple[str, ...] = RAMP
    if difference:
        ramp = (
            ("#f4f4f4", "#a6cbe6", "#3d87bf", "#08376b")
            if share >= 0
            else ("#f4f4f4", "#f0c08c", "#c76a16", "#6b2f00")
        )
    at = min(abs(share), 1.0) * (len(ramp) - 1)
    i = min(int(at), len(ramp) - 2)
    low, high = (
        [int(colour[k : k + 2], 16) for k in (1, 3, 5)] for colour in (ramp[i], ramp[i + 1])
    )
    mixed = [round(a + (at - i) * (b - a)) for a, b in zip(low, high, strict=True)]
    return "#" + "".join(f"{each:02x}" for each in mixed)


def _unpacked(text: str, most: int) -> NDArray[np.uint8]:
    """Return deflated bytes, and no more than there may be."""
    raw = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), most + 1)
    return np.frombuffer(raw, np.uint8)
