"""``toruscast plot``: the views of a report as figures."""

from __future__ import annotations

import click

from toruscast.wording import one_line

from .output import check_folder
from .placing_options import POSITIVE


@click.command("plot")
@click.argument("report", metavar="REPORT.html")
@click.option("--out", metavar="FOLDER", help="Where the figures go.  [default: list the views]")
@click.option(
    "--view",
    "views",
    multiple=True,
    metavar="NAME",
    help="Draw this one. May be given several times.  [default: all]",
)
@click.option(
    "--form",
    type=click.Choice(["svg", "png", "pdf"]),
    default="svg",
    show_default=True,
    help="Kind of the files.",
)
@click.option(
    "--width",
    type=click.IntRange(100, 10_000),
    default=600,
    show_default=True,
    metavar="PIXELS",
    help="Width of what is drawn.",
)
@click.option(
    "--candidate",
    type=POSITIVE,
    default=1,
    show_default=True,
    metavar="N",
    help="Of the torus: the candidate of this rank.",
)
@click.option("--against", type=POSITIVE, metavar="N", help="What is busier than under this one.")
def command(
    report: str,
    out: str | None,
    views: tuple[str, ...],
    form: str,
    width: int,
    candidate: int,
    against: int | None,
) -> None:
    """Draw the views of a report, which --report wrote, as figures for a paper.

    \b
    toruscast rank --comm lammps-lj-64 --torus 4x4x4 --report answer.html
    toruscast plot answer.html
    toruscast plot answer.html --out figures --form pdf --view candidate-times --view torus
    """  # noqa: D301
    from toruscast.answers.figures import Views
    from toruscast.errors import InputError
    from toruscast.mapping.formats import folder_to_fill

    found = Views(report)
    unknown = [view for view in views if view not in found.names]
    if unknown:
        raise InputError("no such view", found=unknown[0], expected=", ".join(found.names))
    if out is None:
        for view in views or found.names:
            click.echo(one_line(view))
        return
    check_folder(out)
    with folder_to_fill(out) as folder:
        for view in views or found.names:
            file = folder / f"{view}.{form}"
            found.write(view, file, width=width, candidate=candidate, against=against)
            click.echo(one_line(str(file)))
