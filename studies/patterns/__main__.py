"""``python -m studies.patterns``: measure tasks and patterns, and compare composed models."""

from __future__ import annotations

import os

import click
import numpy as np
import pandas as pd

from toruscast.cli.progress import show_progress
from toruscast.errors import InputError
from toruscast.scaling.models import describe_points

from . import EXPRESSIONS, QUIET, SIZES, compare, measure

LEAST_SIZES = 3


@click.command("python -m studies.patterns")
@click.argument("expressions", metavar="[EXPRESSION]...", nargs=-1)
@click.option(
    "--repetitions",
    type=click.IntRange(1),
    default=5,
    help="Runs of each pattern that count.  [default: 5]",
)
@click.option(
    "--sizes",
    metavar="N,N,..",
    default=",".join(map(str, SIZES)),
    help="Integers in an item, at least three sizes.  [default: 1024 to 262144, doubling]",
)
@click.option("--csv", metavar="FILE", help="Write the comparison to this file.")
def command(expressions: tuple[str, ...], repetitions: int, sizes: str, csv: str | None) -> None:
    """Run nop, inc and qsort here, alone and in patterns; fit, compose and compare."""
    try:
        items = tuple(int(size) for size in sizes.split(","))
    except ValueError:
        raise click.UsageError(
            f"bad --sizes: found {sizes}, expected whole numbers, such as 64,128,256"
        ) from None
    if len(set(items)) < LEAST_SIZES:
        raise click.UsageError(
            f"bad --sizes: found {sizes}, expected at least {LEAST_SIZES} different ones to fit"
        )
    try:
        with show_progress("Measuring") as progress:
            rows = measure(expressions or EXPRESSIONS, items, repetitions, progress=progress)
    except InputError as error:
        raise click.UsageError(str(error)) from None
    tasks, table = compare(rows)
    models = pd.DataFrame([{"task": k, "formula": task.formula(4)} for k, task in tasks.items()])
    click.echo(f"{models.to_string(index=False)}\n\n{table.to_string(index=False)}")
    if csv:
        table.to_csv(csv, index=False, lineterminator="\n")
    for note in describe_points(["n"], np.unique(rows[["n"]].to_numpy(float), axis=0), [0]):
        click.echo(note, err=True)
    disturbed = float((rows["waited"] > QUIET).mean())
    if disturbed > 0:
        click.echo(
            f"in {100 * disturbed:.0f} % of the runs, workers waited for a processor for more than "
            f"{100 * QUIET:.0f} % of the time, because other programs were running or there are "
            f"more workers than the {os.cpu_count()} processors",
            err=True,
        )


if __name__ == "__main__":
    command()
