"""``toruscast pmnf``: scaling models of measurements."""

import click

from ..app import SubCommands
from .compose import compose
from .fit import fit, predict
from .plot import plot
from .runs import errors, plan, variation


@click.group("pmnf", cls=SubCommands)
def command() -> None:
    """Fit scaling models to measured values, predict with them, compose them, and plan runs.

    FILE is in Extra-P's text, JSON or JSON-lines format, an Extra-P project, in TaLPas's format, a
    folder of Cube profiles, or a CSV table: a row a repetition, a column "value", one for each
    parameter, and "callpath" and "metric" where there are several; "-" is stdin. All but
    plot, which draws a figure, write their tables with --json and --csv.

    \b
    toruscast pmnf fit times.txt
    toruscast pmnf predict times.txt --at p=1024,n=9000
    toruscast pmnf plot times.txt model.svg --callpath main
    """  # noqa: D301


for _each in (fit, predict, plot, compose, variation, errors, plan):
    command.add_command(_each)
