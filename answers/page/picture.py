"""The torus as a Vega specification: the page fills it with links, and so does a figure."""

from __future__ import annotations

from typing import Any

# Length of the page's text line above a plane, in pixels.
_HEAD = 16
_INK, _PALE_INK = "#1b1f24", "#e6edf3"
_IDLE, _DARK_IDLE = "#d0d7de", "#3d444d"


def picture(data: dict[str, Any]) -> dict[str, Any]:
    """Return the picture of a torus; ``data`` is of `network_data`.

    The signals ``room`` (width in pixels), ``mode`` (``a``, ``b`` or ``difference``) and ``dark``
    are for who draws it, and so are the rows of ``links``: ``value``, the place of the node
    (``cx``, ``cy``, ``plane``) and the stub (``dx``, ``dy``) in cells.
    """
    nodes, planes = len(data["x"]), data["planes"]
    across, down = max(data["x"]) + 1, max(data["y"]) + 1
    derived = {
        # As large as fits on about a screen.
        "fits": f"max(13, min(floor(room / {across + 0.6}), floor(sqrt(room * 560 / {nodes}))))",
        "most": f"max(1, min({len(planes)}, floor(room / ({across + 0.6} * min(40, fits)))))",
        "lines": f"ceil({len(planes)} / most)",
        # Lines of planes about equally long.
        "columns": f"ceil({len(planes)} / lines)",
        "cell": f"max(13, min(56, fits, floor(room / ({across + 0.6} * columns))))",
        "wide": f"{across + 0.6} * cell",
        "high": f"{down + 0.6} * cell + {_HEAD}",
        "width": "columns * wide",
        "height": "lines * high",
        "limit": "max(0.01, size[1] || 0)",
        "domain": "[mode == 'difference' ? -limit : 0, limit]",
        "scheme": "mode == 'difference' ? 'purpleorange' : 'viridis'",
        "extent": "mode == 'difference' ? [0, 1] : dark ? [0.25, 1] : [0.95, 0]",
        "title": "'busy share of the time' + (mode == 'difference' ? ', A minus B' : '')",
        "percent": "mode == 'difference' ? '+.0%' : '.0%'",
        "ink": f"dark ? '{_PALE_INK}' : '{_INK}'",
    }
    given: dict[str, Any] = {"room": 800, "mode": "a", "dark": False}
    x = "(datum.plane % columns) * wide"
    y = "floor(datum.plane / columns) * high"
    return {
        "$schema": "https://vega.github.io/schema/vega/v6.json",
        "padding": 4,
        "signals": [
            *({"name": key, "value": value} for key, value in given.items()),
            *({"name": key, "update": update} for key, update in derived.items()),
        ],
        "data": [
            {"name": "links", "values": [], "transform": _placed(x, y)},
            {
                "name": "planes",
                "values": [{"text": text, "plane": i} for i, text in enumerate(planes)],
                "transform": [
                    {"type": "formula", "as": "x", "expr": f"{x} + 2"},
                    {"type": "formula", "as": "y", "expr": f"{y} + 11"},
                ],
            },
        ],
        "scales": [
            {
                "name": "colour",
                "type": "linear",
                "domain": {"signal": "domain"},
                "range": {"scheme": {"signal": "scheme"}, "extent": {"signal": "extent"}},
            }
        ],
        "legends": [
            {
                "fill": "colour",
                "direction": "horizontal",
                "orient": "top",
                "gradientLength": 200,
                "format": {"signal": "percent"},
                "title": {"signal": "title"},
                "titleLimit": 320,
            }
        ],
        "marks": [_captions(), _stubs()],
    }


def _placed(x: str, y: str) -> list[dict[str, Any]]:
    """Return where stubs are drawn; the two ways of a link lie side by side."""
    length = "sqrt(datum.dx * datum.dx + datum.dy * datum.dy)"
    formulas = {
        "size": "abs(datum.value)",
        "x": f"{x} + (datum.cx + 0.5) * cell - 1.5 * datum.dy / {length}",
        "y": f"{y} + {_HEAD} + (datum.cy + 0.5) * cell + 1.5 * datum.dx / {length}",
        "x2": "datum.x + datum.dx * cell",
        "y2": "datum.y + datum.dy * cell",
    }
    placed = [{"type": "formula", "as": key, "expr": expr} for key, expr in formulas.items()]
    return [placed[0], {"type": "extent", "field": "size", "signal": "size"}, *placed[1:]]


def _captions() -> dict[str, Any]:
    return {
        "type": "text",
        "from": {"data": "planes"},
        "encode": {
            "update": {
                "text": {"field": "text"},
                "x": {"field": "x"},
                "y": {"field": "y"},
                "fontSize": {"value": 10},
                "fill": {"signal": "ink"},
            }
        },
    }


def _stubs() -> dict[str, Any]:
    told = "{link: datum.name, A: format(datum.a, '.1%'), B: format(datum.b, '.1%')}"
    return {
        "type": "rule",
        "from": {"data": "links"},
        "encode": {
            "update": {
                **{key: {"field": key} for key in ("x", "y", "x2", "y2")},
                "strokeWidth": {"signal": "1 + 2.5 * datum.size / limit"},
                "strokeCap": {"value": "round"},
                "stroke": [
                    {
                        "test": "datum.size < 0.004",
                        "signal": f"dark ? '{_DARK_IDLE}' : '{_IDLE}'",
                    },
                    {"scale": "colour", "field": "value"},
                ],
                "tooltip": {"signal": told},
            }
        },
    }
