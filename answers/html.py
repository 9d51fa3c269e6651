"""The page of an answer: one file that opens from disk."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

import toruscast
from toruscast.errors import InputError
from toruscast.files import atomic_path
from toruscast.text import shown_name

from .blocks import Answer, Block, Chart, File, Section, Sentence, TableBlock
from .links import LinkMap, network_data, places
from .svg import RAMP

_PACKAGES = ("numpy", "scipy", "pandas", "numba", "scikit-learn", "networkx")


def describe_machine() -> dict[str, str]:
    """Return processor, cores, system and the versions of what computes.

    Examples
    --------
    >>> int(describe_machine()["cores"]) > 0
    True
    """
    versions = {"toruscast": toruscast.__version__, "Python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "cpu": _processor(),
        "cores": str(os.cpu_count() or 1),
        "system": f"{platform.system()} {platform.machine()}",
        **versions,
    }


def _processor() -> str:
    """Return the name of the processor; Linux keeps it in a file."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return name
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or name


# The page may run its own script and show its own pictures; it may ask nobody for anything.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)
# The space between a number and its unit.
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=%|(?:[num]?s|[kMGT]?B)\b)")


def write_page(
    answer: Answer,
    path: str | os.PathLike[str],
    inputs: Sequence[tuple[str, str]] = (),
) -> None:
    """Write an answer as a page; ``inputs`` are what it was made from, by name."""
    check_page(path)
    content = page(answer, inputs)
    with atomic_path(path) as temporary:
        temporary.write_text(content, encoding="utf-8")


def check_page(path: str | os.PathLike[str]) -> None:
    """Raise `InputError` if the suffix is not ``.html``."""
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise InputError("unknown suffix of a report", file=path, expected=".html")


def page(answer: Answer, inputs: Sequence[tuple[str, str]] = ()) -> str:
    """Return the page as HTML."""
    environment = _environment()
    macros: Any = environment.get_template("blocks.html").module
    sections: list[dict[str, object]] = []
    data: dict[str, Any] = {}
    for section in answer.sections:
        if section.only == "terminal":
            continue
        shown, more = _drawn(section, macros)
        sections.append(
            {
                "title": section.title,
                "lead": section.lead,
                "folded": section.folded,
                "wide": section.wide,
                "html": Markup(shown),
            }
        )
        data |= more
    asked = [("input", answer.setting)] if answer.setting and answer.title else []
    rows = [*asked, *answer.facts, *inputs, *describe_machine().items()]
    facts = TableBlock([{"what": name, "value": value} for name, value in rows])
    blocks = {"ramp": list(RAMP), **data}
    style = "\n".join(f"svg .r{i} {{ fill: {colour}; }}" for i, colour in enumerate(RAMP))
    return environment.get_template("page.html").render(
        answer=answer,
        title=shown_name(answer.title or answer.setting),
        policy=Markup(_POLICY),
        style=Markup(_asset("page.css").replace("RAMP", style)),
        script=Markup(_asset("page.js")),
        sections=sections,
        facts=macros.table(facts, "Command, inputs and versions"),
        data=Markup("".join(json_block(key, value) for key, value in blocks.items())),
    )


def _drawn(section: Section, macros: Any) -> tuple[str, dict[str, Any]]:
    """Return the blocks of a section as HTML, charts side by side, and data for the script."""
    parts: list[str] = []
    data: dict[str, Any] = {}
    in_charts = False
    n_charts = sum(isinstance(block, Chart) for block in section.blocks)
    for block in section.blocks:
        beside = isinstance(block, Chart) and n_charts > 1
        if beside != in_charts:
            parts.append('<div class="charts">' if beside else "</div>")
            in_charts = beside
        parts.append(_block(block, macros, section.title))
        if isinstance(block, LinkMap):
            cell, blocks = places(block.torus.shape)
            data["network"] = network_data(block) | {"cell": cell, "blocks": blocks}
    if in_charts:
        parts.append("</div>")
    return "".join(parts), data


def _block(block: Block, macros: Any, under: str) -> str:
    if isinstance(block, Sentence):
        strong = ("<strong>", "</strong>") if block.strong else ("", "")
        return f"<p>{strong[0]}{Markup.escape(unbroken(block.text))}{strong[1]}</p>\n"
    if isinstance(block, TableBlock):
        return str(macros.table(block, under))
    if isinstance(block, Chart):
        return str(macros.chart(block))
    if isinstance(block, File):
        return str(macros.file(block))
    return str(macros.links(block))


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_asset),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["shown"] = lambda value: shown_name(" ".join(str(value).split()))
    environment.filters["lines"] = _cell
    environment.filters["unbroken"] = unbroken
    environment.filters["id"] = lambda name: "file-" + re.sub(r"\W+", "-", name)
    return environment


def unbroken(text: str) -> str:
    """Return a text that breaks no line between a number and its unit.

    Examples
    --------
    >>> unbroken("17 % of 2.5 us").replace("\N{NO-BREAK SPACE}", "_")
    '17_% of 2.5_us'
    """
    return _BEFORE_UNIT.sub("\N{NO-BREAK SPACE}", text)


def _cell(value: object) -> Markup:
    """Return a cell of a table; a tuple is its lines, none of them broken."""
    if not isinstance(value, tuple):
        return Markup.escape(shown_name(value))
    lines = [Markup('<span class="line">{}</span>').format(shown_name(line)) for line in value]
    return Markup("<br>").join(lines)


def _asset(file: str) -> str:
    return files(__package__).joinpath(file).read_text(encoding="utf-8")


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
