"""Options that tell how files of mappings are read and written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from .mapping_files import MappingFile
from .reading_options import read_pairs
from .records import F, as_record


class Positive(click.IntRange):
    """A whole number of 1 or more."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Say what is expected of what is no whole number at all."""
        try:
            int(value)
        except (ValueError, OverflowError):
            self.fail(f"found {value}, expected a whole number of 1 or more", param, ctx)
        return super().convert(value, param, ctx)


POSITIVE = Positive(min=1)


def tasks_per_node_option(function: F) -> F:
    """Add the capacity of a node."""
    return click.option(
        "--tasks-per-node",
        type=POSITIVE,
        metavar="N",
        help="Tasks that a node takes; the least that suffices if not given.",
    )(function)


placing_options = (
    tasks_per_node_option,
    click.option(
        "--hosts",
        metavar="FILE",
        help="Names of hosts and the node of each, such as a CSV host,x,y,z: for files of mappings "
        "that name hosts, or count them in the order of an allocation.",
    ),
    click.option(
        "--mapping-format",
        "mapping_form",
        metavar="NAME",
        default="auto",
        show_default=True,
        help="Format of the mappings where their content does not decide; 'toruscast formats' "
        "lists all.",
    ),
    click.option(
        "--mapping-columns",
        metavar="NAME=COLUMN,...",
        callback=read_pairs,
        help="Columns of a table of mappings, such as task=proc,node=where.",
    ),
    click.option(
        "--fix",
        "fixed",
        multiple=True,
        metavar="TASK=NODE",
        help="A task that stays on its node. May be given several times.",
    ),
)
holes_options = (
    click.option(
        "--allocation",
        metavar="FILE",
        help="Nodes that are yours: a number or coordinates a line, a CSV with a column node, or a "
        "table of hosts. Other nodes still route traffic.",
    ),
    click.option(
        "--slow-links",
        "slow_links",
        metavar="FILE.csv",
        help="Slow and missing links: a line link,bandwidth each, in bytes per second, 0 "
        'for missing; a link is a number or a label such as "(0,2,1) +Z".',
    ),
)
dialect_option = click.option(
    "--dialect",
    metavar="NAME",
    help="Format of the mapping that is written, such as rank-order or rankfile; by its suffix if "
    "not given. 'toruscast formats' lists all.",
)


def best_option(what: str) -> Callable[[F], F]:
    """Add where the best mapping goes, as the record ``best``; ``what`` says which it is."""
    out = click.option(
        "--out",
        metavar="FILE",
        help=f"{what} By its suffix or --dialect in the format of a launcher.",
    )
    return as_record("best", MappingFile, out, dialect_option)
