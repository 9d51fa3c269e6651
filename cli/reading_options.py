"""Options that tell how a communication graph is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import click

from .records import F, Include


def iterations_option(more: str = "") -> Callable[[F], F]:
    """Add the steps that a graph covers; ``more`` says what they are if not given."""
    return click.option(
        "--iterations",
        type=click.FloatRange(min=0, min_open=True),
        metavar="N",
        help=f"Application steps that the graph covers: traffic is divided by it.{more}",
    )


include_option = click.option(
    "--traffic",
    "include",
    type=click.Choice(get_args(Include)),
    default="all",
    show_default=True,
    help="Which part of Open MPI monitoring output counts.",
)
format_option = click.option(
    "--format",
    "form",
    metavar="NAME",
    default="auto",
    show_default=True,
    help="The file's format where its content does not decide, such as edges or matrix; 'toruscast "
    "formats' lists all.",
)


def read_pairs(_: click.Context, option: click.Parameter, text: str | None) -> dict[str, str]:
    """Read NAME=VALUE,NAME=VALUE."""
    pairs = [part.partition("=") for part in text.split(",")] if text else []
    if any(not (name.strip() and value.strip()) for name, _, value in pairs):
        raise click.BadParameter(f"found {text}, expected NAME=VALUE,NAME=VALUE", param=option)
    return {name.strip(): value.strip() for name, _, value in pairs}


reading_options = (
    format_option,
    click.option(
        "--columns",
        metavar="NAME=COLUMN,...",
        callback=read_pairs,
        help="Columns of a table, such as src=Source,dst=Target,nbytes=Bytes; of a list of edges "
        "by number.",
    ),
    click.option(
        "--duplicates",
        type=click.Choice(["refuse", "sum"]),
        default="refuse",
        show_default=True,
        help="Whether pairs of tasks that stand on several lines are added up.",
    ),
    click.option(
        "--collectives",
        metavar="NAME=ALGORITHM,...",
        callback=read_pairs,
        help="How collectives of a trace are sent, such as allreduce=rabenseifner.",
    ),
    click.option(
        "--gathered",
        type=click.Choice(["each", "whole"]),
        default="each",
        show_default=True,
        help="Of Chakra traces: whether the size of a gather is what each rank puts in, or all.",
    ),
)
