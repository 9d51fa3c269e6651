"""The views of a page as files for a paper: the same specifications, drawn without a browser."""

from __future__ import annotations

import base64
import binascii
import json
import os
import zlib
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.files import as_string, read_limited
from toruscast.mapping.formats import atomic_path
from toruscast.validation import whole_number

from .picture import picture
from .write import check_drawing

Form = Literal["svg", "png", "pdf"]
FORMS = ("svg", "png", "pdf")
TORUS = "torus"
# Of a picture in a paper, in pixels; a PNG has twice as many.
WIDTH, _SCALE = 600, 2.0
_BLOCK, _BLOCK_END = '<script type="application/json" id="{}">', "</script>"
_MAX_BYTES = 2**28
# What our specifications never hold: words that load or compute something.
_REFUSED = {"url", "href", "expr", "signal", "signals", "transform", "calculate", "params"}
_CONFIG = {"font": "sans-serif", "background": "white", "legend": {"orient": "top"}}
_DAMAGED = (KeyError, IndexError, TypeError, ValueError, AttributeError, zlib.error, binascii.Error)


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
        self._charts = self._block(content, "charts")
        self._network = self._block(content, "network")
        if not isinstance(self._charts, dict):
            raise self._wrong()

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
        candidate : int
            Of the torus: the candidate whose links are shown, counted from 1.
        against : int, optional
            The candidate that is taken from it.

        Raises
        ------
        InputError
            If there is no such view or candidate, the page was damaged, the file cannot be written,
            or ``vl-convert-python`` is not installed.
        """
        check_drawing()
        if view not in self.names:
            raise InputError("no such view", found=view, expected=", ".join(self.names))
        form = Path(path).suffix.lower()[1:]
        if form not in FORMS:
            raise InputError("unknown suffix of a figure", file=path, expected=".svg, .png or .pdf")
        whole_number(width, "width", 100, 10_000)
        try:
            if view == TORUS:
                drawn = _draw("vega", self._torus(width, candidate, against), form)
            else:
                spec = self._charts[view]
                _check(spec)
                drawn = _draw("vegalite", spec | {"width": width}, form, config=_CONFIG)
        except InputError:
            raise
        except _DAMAGED:
            raise self._wrong() from None
        with atomic_path(path) as temporary:
            temporary.write_bytes(drawn)

    def _torus(self, width: int, candidate: int, against: int | None) -> dict[str, Any]:
        """Return the picture of the torus with its links."""
        data = self._network
        n_links = len(data["x"]) * len(data["stubs"])
        n = len(data["names"])
        for number in (candidate, *([] if against is None else [against])):
            whole_number(number, "candidate", 1, n)
        shares = _unpacked(data["shares"], n * n_links).reshape(n, n_links)
        rows = []
        first = shares[candidate - 1] / float(data["steps"])
        value = first if against is None else first - shares[against - 1] / float(data["steps"])
        for link in np.flatnonzero(shares[0] != data["missing"]).tolist():
            node, port = divmod(link, len(data["stubs"]))
            dx, dy = data["stubs"][port]
            place = {"cx": data["x"][node], "cy": data["y"][node], "plane": data["plane"][node]}
            rows.append({"value": float(value[link]), **place, "dx": dx, "dy": dy})
        drawn = picture(data)
        known = {"room": width, "mode": "a" if against is None else "difference"}
        for signal in drawn["signals"]:
            if signal["name"] in known:
                signal["value"] = known[signal["name"]]
        drawn["data"][0]["values"] = rows
        return drawn | {"background": "white"}

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


def _check(spec: Any) -> None:
    """Raise `ValueError` where a specification holds what ours do not: it may be a stranger's."""
    waiting = [spec]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            if _REFUSED & each.keys():
                raise ValueError
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each


def _draw(kind: str, spec: dict[str, Any], form: str, **more: Any) -> bytes:
    import vl_convert

    scale = {"scale": _SCALE} if form == "png" else {}
    draw = getattr(vl_convert, f"{kind}_to_{form}")
    drawn: str | bytes = draw(spec, allowed_base_urls=[], **scale, **more)
    return drawn.encode("utf-8") if isinstance(drawn, str) else drawn


def _unpacked(text: str, most: int) -> NDArray[np.uint8]:
    """Return deflated bytes, and no more than there may be."""
    raw = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), most + 1)
    return np.frombuffer(raw, np.uint8)
