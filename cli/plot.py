"""``toruscast plot``: the views of a report as figures."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import click

from toruscast import answers
from toruscast.atomic import folder_to_fill
from toruscast.errors import InputError
from toruscast.wording import closest, one_line

from .options import argument, option, sub_command
from .output import check_folder

# CSS pixels of the units in which papers give sizes.
_UNITS = {"in": 96.0, "cm": 96 / 2.54, "mm": 96 / 25.4, "pt": 96 / 72, "px": 1.0}


@dataclass(frozen=True)
class Figures:
    """What is drawn, and how."""

    report: str = argument("REPORT.html")
    out: str | None = option(
        "Where the figures go.  [default: list the views]", "FOLDER", group="Output"
    )
    views: tuple[str, ...] = option(
        "Draw this one. May be given several times.  [default: all]", "NAME", "--view", default=()
    )
    out_format: Literal["svg", "png", "pdf"] = option(
        "Kind of the files.", default="svg", group="Output"
    )
    size: str = option(
        "Width of what is drawn, such as 3.3in, 84mm or 600px.",
        "WIDTH",
        default="600px",
        group="Output",
    )
    top: int | None = option("Of the times of candidates: draw only the first N.", "N")
    candidate: int = option("Of the torus: the candidate of this rank.", "N", default=1)
    against: int | None = option("What is busier than under this one.", "N")


@sub_command("plot")
def command(drawn: Figures) -> None:
    """Draw the views of a report, which --report wrote, as figures for a paper.

    \b
    toruscast rank --comm lammps-lj-64 --torus 4x4x4 --report answer.html
    toruscast plot answer.html
    toruscast plot answer.html --out figures --out-format pdf --size 3.3in --view torus
    """  # noqa: D301
    found = answers.figures.Views(drawn.report)
    width = _pixels(drawn.size)
    unknown = [view for view in drawn.views if view not in found.names]
    if unknown:
        expected = closest(unknown[0], found.names, ", ".join(found.names))
        raise InputError("no such view", found=unknown[0], expected=expected)
    if drawn.out is None:
        for view in drawn.views or found.names:
            click.echo(one_line(view))
        return
    check_folder(drawn.out)
    with folder_to_fill(drawn.out) as folder:
        for view in drawn.views or found.names:
            file = folder / f"{view}.{drawn.out_format}"
            found.write(
                view,
                file,
                width=width,
                top=drawn.top,
                candidate=drawn.candidate,
                against=drawn.against,
            )
            click.echo(one_line(str(file)))


def _pixels(text: str) -> int:
    """Return a width in pixels of 1/96 inch."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(in|cm|mm|pt|px|)", text.strip())
    pixels = float(match[1]) * _UNITS[match[2] or "px"] if match else 0.0
    if not 100 <= pixels <= 10_000:
        expected = "a width from 100px to 10000px, such as 3.3in, 84mm or 600px"
        raise InputError("bad --size", found=text, expected=expected)
    return round(pixels)
