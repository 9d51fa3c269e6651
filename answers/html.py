"""Answers as HTML pages without external files."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Sequence
from importlib.metadata import version
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

import toruscast
from toruscast._slow import pandas as pd
from toruscast.errors import InputError
from toruscast.files import atomic_path, check_path
from toruscast.text import bind_units, shown_name, typeset

from .blocks import Answer, Block, Chart, Section, Sentence
from .links import LinkMap, lay_out_links, network_data
from .svg import RAMP, style_sheet
from .table import Column, Table

_PACKAGES = ("numpy", "scipy", "pandas", "numba", "scikit-learn", "networkx")


def describe_machine() -> dict[str, str]:
    """Return the processor, cores and system, and the versions of the main packages."""
    return {
        "cpu": _read_processor(),
        "cores": str(os.cpu_count() or 1),
        "system": f"{platform.system()} {platform.machine()}",
        "toruscast": toruscast.__version__,
        "Python": platform.python_version(),
        **{name: version(name) for name in _PACKAGES},
    }


def _read_processor() -> str:
    """Return the model of the processor, or else its architecture."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return name
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, "") or name


# The browser may break words in a table that have more letters than this.
_MAX_WORD = 24
# The page may run its own script and show its own images, but it may not load anything.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)


def write_page(
    answer: Answer, path: str | os.PathLike[str], inputs: Sequence[tuple[str, str]] = ()
) -> None:
    """Write an answer as a page; ``inputs`` are names and values of its inputs."""
    content = render_page(answer, inputs)
    with atomic_path(path) as temporary:
        temporary.write_text(content, encoding="utf-8")


def check_page_path(path: str | os.PathLike[str]) -> None:
    """Raise `InputError` if the suffix is not ``.html``."""
    check_path(path)
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise InputError("unknown suffix of a report", file=path, expected=".html")


def render_page(answer: Answer, inputs: Sequence[tuple[str, str]] = ()) -> str:
    """Return an answer as a page; ``inputs`` are names and values to list below it."""
    environment = _make_environment()
    macros: Any = environment.get_template("blocks.html").module
    sections = [section for section in answer.sections if section.only != "terminal"]
    if answer.table is not None and answer.table.visible_columns:
        sections.append(Section(answer.table.title or "Table", [answer.table], folded=True))
    data: dict[str, Any] = {"ramp": list(RAMP)}
    for block in (block for section in sections for block in section.blocks):
        if isinstance(block, LinkMap):
            cell, label, grids = lay_out_links(block.torus.shape)
            layout = {"cell": cell, "label": label, "blocks": grids}
            data["network"] = network_data(block) | layout
    setting = [("input", answer.setting)] if answer.setting and answer.title else []
    rows = [*setting, *answer.facts, *inputs, *describe_machine().items()]
    facts = Table(pd.DataFrame(rows, columns=["name", "value"]))
    title = shown_name(answer.title or answer.setting or answer.headline)
    # If the first note starts with the badge, drop it there: the page shows both side by side.
    first_note = "".join(answer.notes[:1])
    if first_note.lower().startswith(f"{answer.badge}: "):
        rest = first_note[len(answer.badge) + 2 :]
        first_note = f"{rest[:1].upper()}{rest[1:]}"
    return environment.get_template("page.html").render(
        answer=answer,
        title=title,
        has_mesh=re.search(r"\d+m(x|\b)", title) is not None,
        first_note=first_note,
        policy=Markup(_POLICY),
        style=Markup(style_sheet()),
        script=Markup(_read_asset("page.js")),
        sections=[(section, Markup(_render_section(section, macros))) for section in sections],
        facts=macros.table(facts, "Command, inputs and versions"),
        data=Markup("".join(json_block(key, value) for key, value in data.items())),
    )


def _render_section(section: Section, macros: Any) -> str:
    """Return the blocks of a section as HTML, with consecutive charts side by side."""
    has_several = sum(isinstance(block, Chart) for block in section.blocks) > 1
    parts = []
    for are_charts, blocks in groupby(section.blocks, lambda block: isinstance(block, Chart)):
        html = "".join(_render_block(block, macros, section.title) for block in blocks)
        parts.append(f'<div class="charts">{html}</div>' if are_charts and has_several else html)
    return "".join(parts)


def _render_block(block: Block, macros: Any, heading: str) -> str:
    """Return a block as HTML; ``heading`` is the title of its section."""
    if isinstance(block, Sentence):
        return f"<p>{escape(typeset(block.text))}</p>\n"
    if isinstance(block, Table):
        return str(macros.table(block, heading))
    if isinstance(block, Chart):
        return str(macros.chart(block))
    return str(macros.links(block))


def _make_environment() -> jinja2.Environment:
    """Return the templates' environment, with the filters that they use."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_read_asset),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["name"] = lambda value: shown_name(" ".join(str(value).split()))
    environment.filters["typeset"] = typeset
    environment.globals["cell_html"] = _cell_html
    return environment


def _cell_html(column: Column, lines: tuple[str, ...]) -> Markup:
    """Return a table cell. The browser does not wrap labels, nor text that has several lines."""
    # Names and commands may be copied, so they keep their hyphens.
    format_text = bind_units if column.kind in ("name", "text") else typeset
    if len(lines) == 1 and column.kind != "label":
        is_long = max(map(len, lines[0].split()), default=0) > _MAX_WORD
        text = format_text(lines[0])
        return Markup('<span class="long">{}</span>').format(text) if is_long else escape(text)
    spans = [Markup('<span class="line">{}</span>').format(format_text(line)) for line in lines]
    return Markup("<br>").join(spans)


def _read_asset(file: str) -> str:
    return files(__package__).joinpath(file).read_text(encoding="utf-8")


def json_block(key: str, value: Any) -> str:
    """Return data for the page's script, escaped so that no text can end the script element."""
    dumped = json.dumps(value, separators=(",", ":"), allow_nan=False, default=float)
    for character in "<>&\u2028\u2029":
        dumped = dumped.replace(character, f"\\u{ord(character):04x}")
    return f'<script type="application/json" id="{key}">{dumped}</script>\n'
