"""What is fitted, and how: the options that the commands share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from toruscast.wording import printable, shortened

from ..progress import working
from ..records import as_record

if TYPE_CHECKING:
    from toruscast.scaling import FitOptions, Measurements, Models

SPACES = ("default", "published", "fine")
# Each has the name of the field of FitOptions that it sets.
_SEARCH = (
    click.option(
        "--terms",
        "space",
        type=click.Choice(SPACES),
        default="default",
        show_default=True,
        help="Exponents to build models from.",
    ),
    click.option(
        "--max-terms",
        type=click.IntRange(1, 2),
        default=2,
        show_default=True,
        help="Terms of a model of one parameter, its constant not counted.",
    ),
    click.option(
        "--noise",
        type=click.Choice(["auto", "normal", "bounded"]),
        default="auto",
        show_default=True,
        help="Law of the noise among repetitions.",
    ),
    click.option(
        "--select",
        type=click.Choice(["evidence", "loo", "kfold"]),
        default="evidence",
        show_default=True,
        help="Criterion: the evidence of a model, or its error under leave-one-out or five-fold "
        "cross-validation.",
    ),
)


def search_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add how models are searched."""
    for option in reversed(_SEARCH):
        function = option(function)
    return function


@dataclass(frozen=True)
class MeasuredPart:
    """Which part of a file of measurements a user wants."""

    callpath: str | None = None
    value: tuple[str, ...] = ()
    absent: str = "omit"
    reduce: str | None = None


measured_options = as_record(
    "measured",
    MeasuredPart,
    click.option("--callpath", metavar="TEXT", help="Only call paths whose name contains this."),
    click.option(
        "--value",
        multiple=True,
        metavar="COLUMN",
        help="Column of a table with the measured values, if not \"value\"; 'rep*', or one given "
        "again, for repetitions side by side.",
    ),
    click.option(
        "--absent",
        type=click.Choice(["omit", "zero"]),
        default="omit",
        show_default=True,
        help="A call path that some runs do not hold has fewer points, or took nothing there.",
    ),
    click.option(
        "--reduce",
        type=click.Choice(["mean", "max", "sum"]),
        help="How the values of a run's processes become one, in Cube profiles and in tables with "
        "a column process.  [default: mean, for Cube profiles]",
    ),
)


def read_tables(file: str, measured: MeasuredPart) -> list[Measurements]:
    """Read a file of measurements."""
    from toruscast.scaling import read_measurements

    with working(f"Reading {shortened(printable(file), 40)}"):
        return read_measurements(
            file, measured.value, absent=measured.absent, reduce=measured.reduce
        )


def fitted_tables(
    file: str, measured: MeasuredPart, search: FitOptions
) -> list[tuple[Models, list[int]]]:
    """Fit each table of a file, and return its models with the numbers of those wanted.

    All call paths are fitted even where one is wanted, because the law of noise is learned from
    all of them.
    """
    from toruscast.scaling import fit_many

    part = measured.callpath or ""
    tables = [
        (data, [k for k in range(data.n_paths) if part in data.callpaths[k]])
        for data in read_tables(file, measured)
    ]
    with working("Fitting") as progress:
        wanted = [(fit_many(data, search, progress), keep) for data, keep in tables if keep]
    if not wanted:
        raise click.UsageError(f"no call path contains {part}")
    return wanted
