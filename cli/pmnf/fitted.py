"""What the commands share: which part of a file is fitted and how, places, tables and notes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import click

import toruscast as tc
from toruscast import answers
from toruscast.errors import InputError
from toruscast.wording import printable, shortened

from ..options import argument, option, top_option
from ..output import Output
from ..progress import working
from ..slow import intervals

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from toruscast.scaling.pmnf.notes import Note

    Fitted = list[tuple[tc.scaling.Models, list[int]]]

# Applications have tens or hundreds of call paths: few tables are cut short.
TOP = 100


@dataclass(frozen=True)
class ModelSearch:
    """How models are searched; each field has the name of that of `FitOptions` which it sets."""

    GROUP: ClassVar = "Work"
    space: Literal["default", "published", "fine"] = option(
        "Exponents to build models from.", "", "--terms", default="default"
    )
    max_terms: int = option(
        "Terms of a model of one parameter, its constant not counted.",
        default=2,
        type=click.IntRange(1, 2),
    )
    noise: Literal["auto", "normal", "bounded"] = option(
        "Law of the noise among repetitions.", default="auto"
    )
    select: Literal["evidence", "loo", "kfold"] = option(
        "Criterion: the evidence of a model, or its error under leave-one-out or five-fold "
        "cross-validation.",
        default="evidence",
    )

    @property
    def options(self) -> tc.scaling.FitOptions:
        """The same for the library."""
        how: dict[str, Any] = asdict(self)
        return tc.scaling.FitOptions(**how)


@dataclass(frozen=True)
class MeasuredFile:
    """A file of measurements, and which part of it a user wants."""

    GROUP: ClassVar = "Input"
    file: str = argument("FILE")
    callpath: str | None = option("Only call paths whose name contains this.", "TEXT")
    value: tuple[str, ...] = option(
        "Column of a table with the measured values, if not \"value\"; 'rep*', or one given "
        "again, for repetitions side by side. Metric of profiles of Caliper or Thicket.",
        "COLUMN",
        default=(),
    )
    parameter: tuple[str, ...] = option(
        "Number in the metadata of profiles of Caliper or Thicket that is a parameter, such as "
        "p=mpi.world.size; may be given again.",
        "[P=]NAME",
        default=(),
    )
    absent: Literal["omit", "zero"] = option(
        "A call path that some runs do not hold has fewer points, or took nothing there.",
        default="omit",
    )
    reduce: Literal["mean", "max", "sum"] | None = option(
        "How the values of a run's processes become one, in profiles and in tables with a "
        "column process.  [default: mean, for profiles]"
    )

    def read(self) -> list[tc.scaling.Measurements]:
        """Read the tables of the file; "-" is stdin."""
        path = "/dev/stdin" if self.file == "-" else self.file
        with working(f"Reading {shortened(printable(self.file), 40)}"):
            return tc.scaling.read_measurements(
                path,
                self.value,
                parameters=self.parameter,
                absent=self.absent,
                reduce=self.reduce,
            )

    def fit(self, search: ModelSearch) -> Fitted:
        """Fit each table, and return its models with the numbers of those wanted.

        All call paths are fitted even where one is wanted, because the law of noise is learned from
        all of them.
        """
        part = self.callpath or ""
        tables = [
            (data, [k for k in range(data.n_paths) if part in data.callpaths[k]])
            for data in self.read()
        ]
        with working("Fitting") as progress:
            wanted = [
                (tc.scaling.fit_many(data, search.options, progress), keep)
                for data, keep in tables
                if keep
            ]
        if not wanted:
            raise click.UsageError(f"no call path contains {part}")
        return wanted


@dataclass(frozen=True)
class RowsShown:
    """How much of the table is shown."""

    top: int = top_option(TOP)


def by_name(text: str) -> dict[str, float]:
    """Return the numbers by name, as in ``--at p=2,n=10``.

    Raises
    ------
    UsageError
        If a part is no NAME=NUMBER, the number is negative or not finite, or a name stands twice.

    Examples
    --------
    >>> by_name("p=2,n=1e3")
    {'p': 2.0, 'n': 1000.0}
    """
    given: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        name = name.strip()
        if name in given:
            raise click.UsageError(f"bad --at: found {name} twice, expected each name once")
        try:
            given[name] = float(value)
        except ValueError:
            given[name] = math.nan
        if not 0 <= given[name] < math.inf:
            raise click.UsageError(f"bad --at: found {part}, expected NAME=NUMBER, 0 or more")
    return given


def place(text: str, parameters: tuple[str, ...]) -> list[float]:
    """Return one value for every parameter, from "p=2,n=10".

    Raises
    ------
    UsageError
        If a parameter is missing or unknown, or its value is none.
    """
    given = by_name(text)
    if set(given) != set(parameters):
        raise click.UsageError(
            f"--at must name every parameter: found {', '.join(given)}, "
            f"expected {', '.join(parameters)}"
        )
    return [given[name] for name in parameters]


def check_points(tables: Sequence[tc.scaling.Models]) -> None:
    """Refuse intervals if no call path has the points that they take."""
    short = [
        models
        for models in tables
        if len(models.measurements.points) < intervals.points_needed(models)
    ]
    if len(short) == len(tables):
        raise InputError(
            "too few points for an interval",
            found=len(short[0].measurements.points),
            expected=f"at least {intervals.points_needed(short[0])}",
        )


def bounds_at(
    models: tc.scaling.Models,
    X: list[list[float]],
    search: ModelSearch,
    level: float,
    paths: list[int],
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return the ends of the intervals, (paths, places) each; None where points are too few."""
    if len(models.measurements.points) < intervals.points_needed(models):
        return None
    return intervals.interval(models, X, search.options, level, paths=paths)


def say(output: Output, notes: list[list[Note]], named: list[tuple[str, str]]) -> None:
    """Say each kind of note once: how many models it is true of, and the first of them."""
    found: dict[str, list[tuple[Note, tuple[str, str]]]] = {}
    for some, name in zip(notes, named, strict=True):
        for note in some:
            found.setdefault(note.kind, []).append((note, name))
    for same in found.values():
        note, (path, metric) = same[0]
        if len(named) == 1:
            output.message(note)
        else:
            output.message(f"{len(same)} of {len(named)} models, such as {path} ({metric}): {note}")


def deliver(
    output: Output,
    table: pd.DataFrame,
    content: dict[str, Any],
    shown: Sequence[str] | None = None,
    *,
    top: int = TOP,
    keep: int | None = None,
) -> None:
    """Write a table, and show some of its columns, of which the first ``keep`` always."""
    part = table if shown is None else table[list(shown)]
    spare = tuple(name for name in ("metric", "at") if name in part)
    block = answers.blocks.frame_block(
        part.rename(columns={"smape": "smape, %"}),
        keep=part.shape[1] if keep is None else keep,
        spare=spare,
        top=top,
    )
    output.deliver(answers.blocks.of_table("", block, rows=table, content=content))
