"""The parts of a page, and the page itself: one file, nothing loaded from elsewhere."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import numpy as np

from toruscast.wording import shown_name

# The page may run its own script and show its own pictures; it may ask nobody for anything.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)


@dataclass(frozen=True)
class Section:
    """A part of the page: its title, its content as HTML, and the charts that the content names.

    A chart ``id`` is a Vega-Lite specification; `chart` gives the place where it is drawn. ``data``
    are values for the script of the page, by the ``id`` of their element.
    """

    title: str
    content: str
    charts: dict[str, dict[str, Any]] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)


def text(value: object) -> str:
    """Return a text as HTML that shows as it is, whatever it holds; very long ones are cut.

    Examples
    --------
    >>> text("<script>"), text("a" * 300)[-3:]
    ('&lt;script&gt;', 'aa…')
    """
    return html.escape(shown_name(value))


def sentences(*several: str) -> str:
    """Return sentences of our own as HTML, none of them cut."""
    return html.escape(" ".join(sentence for sentence in several if sentence))


def paragraph(*several: str) -> str:
    """Return sentences as a paragraph."""
    return f"<p>{sentences(*several)}</p>\n"


def chart(key: str, title: str, described: str) -> str:
    """Return the place of a chart, with its title and what a listener is told of it."""
    return (
        f'<figure><figcaption id="{key}-title">{text(title)}</figcaption>'
        f'<div class="chart" id="{key}" role="img" aria-labelledby="{key}-title" '
        f'aria-describedby="{key}-text"></div>'
        f'<p class="described" id="{key}-text">{sentences(described)}</p></figure>\n'
    )


def table(
    head: Sequence[str], rows: Iterable[Sequence[object]], caption: str, left: int = 1
) -> str:
    """Return a table; the first ``left`` columns hold words, the others numbers."""

    def line(tag: str, cells: Sequence[object]) -> str:
        parts = []
        for i, cell in enumerate(cells):
            kind = "" if i < left else ' class="number"'
            scope = ' scope="col"' if tag == "th" else ""
            parts.append(f"<{tag}{scope}{kind}>{text(cell)}</{tag}>")
        return f"<tr>{''.join(parts)}</tr>\n"

    body = "".join(line("td", row) for row in rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{text(caption)}"><table>'
        f"<caption>{text(caption)}</caption><thead>{line('th', head)}</thead>"
        f"<tbody>{body}</tbody></table></div>\n"
    )


def code(key: str, content: str) -> str:
    """Return text to copy as it is, with a button that does."""
    return (
        f'<p><button type="button" data-copy="{key}">Copy it</button></p>'
        f'<pre id="{key}" tabindex="0">{sentences(content)}</pre>\n'
    )


def details(summary: str, content: str) -> str:
    """Return content that is shown when asked for."""
    return f"<details><summary>{text(summary)}</summary>\n{content}</details>\n"


def json_block(key: str, value: Any) -> str:
    """Return data for the script of the page; nothing in it can end the element."""
    dumped = json.dumps(value, separators=(",", ":"), allow_nan=False, default=_plain)
    for character in "<>&\u2028\u2029":
        dumped = dumped.replace(character, f"\\u{ord(character):04x}")
    return f'<script type="application/json" id="{key}">{dumped}</script>\n'


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"no JSON for {type(value).__name__}")


def page(title: str, sections: Sequence[Section]) -> str:
    """Return a whole page."""
    charts = {key: spec for section in sections for key, spec in section.charts.items()}
    blocks = {key: value for section in sections for key, value in section.data.items()}
    body = "".join(
        f"<section><h2>{text(section.title)}</h2>\n{section.content}</section>\n"
        for section in sections
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{text(title)}</title>
<style>
{_asset("page.css")}</style>
</head>
<body>
<main>
<h1>{text(title)}</h1>
{body}</main>
{json_block("charts", charts)}{"".join(json_block(key, value) for key, value in blocks.items())}\
<script>
{_drawing_library()}
</script>
<script>
{_asset("page.js")}</script>
</body>
</html>
"""


def _asset(file: str) -> str:
    return files(__package__).joinpath(file).read_text(encoding="utf-8")


def _drawing_library() -> str:
    """Return Vega, Vega-Lite and vega-embed as one script."""
    from vl_convert import javascript_bundle

    # All that stands in the package is wanted, which its types do not know to be the default.
    script = javascript_bundle()  # type: ignore[call-arg]
    # The text of a script must not hold what ends its element.
    return script.replace("</script", "<\\/script")
