"""``toruscast pmnf``: scaling models of measurements, predictions, figures and run plans."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import click

import toruscast as tc
from toruscast import answers
from toruscast._slow import numpy as np
from toruscast._slow import pandas as pd
from toruscast.answers.table import Column, Table, csv_text, records
from toruscast.text import counted, percent, printable, rounded, shortened

from .app import CommandGroup
from .options import (
    POSITIVE,
    PROBABILITY,
    argument,
    collect_by_name,
    multi_option,
    named_numbers_reader,
    option,
    read_pair,
    sub_command,
    top_option,
)
from .output import Output, write_text
from .progress import show_progress
from .slow import formula, scaling_fit, stages

if TYPE_CHECKING:
    from toruscast.answers.table import Frame

    FittedTables = list[tuple[tc.scaling.Models, list[int]]]

# The text of --at, and its numbers by name.
Point = tuple[str, dict[str, float]]
# Default number of rows to print. Few sets of measurements have more call paths.
MAX_ROWS = 100
# Upper limits of the error classes in per cent, as in figure 3 of [Calotoiu18].
ERROR_CLASSES = (5, 10, 15, 20)


def read_point(text: str) -> Point:
    """Read NAME=VALUE,NAME=VALUE with numbers; return the text and the numbers by name."""
    values = collect_by_name("--at", [read_pair(part) for part in text.split(",")])
    with suppress(ValueError):
        numbers = {name: float(value) for name, value in values.items()}
        if all(0 <= number < math.inf for number in numbers.values()):
            return text, numbers
    raise click.BadParameter(f"found {text}, expected NAME=NUMBER, 0 or more")


def read_range(text: str) -> tuple[str, float, float]:
    """Read NAME=LOW..HIGH."""
    name, bounds = read_pair(text)
    low, _, high = bounds.partition("..")
    try:
        return name, float(low), float(high)
    except ValueError:
        raise click.BadParameter(f"found {text}, expected NAME=LOW..HIGH") from None


@click.group("pmnf", cls=CommandGroup)
def command() -> None:
    """Fit scaling models to measured values, predict with them, compose them, and plan runs.

    FILE is an Extra-P file (text, JSON or JSON lines), an Extra-P project, a TaLPas file, a folder
    of Cube profiles, or a CSV table; "-" is stdin. The table has a row per repetition, a column
    "value", a column for each parameter, and optional columns "callpath" and "metric". All commands
    write their tables with --json and --csv.

    \b
    toruscast pmnf fit times.txt
    toruscast pmnf predict times.txt --at p=1024,n=9000
    toruscast pmnf fit times.txt --callpath main --figures models
    """  # noqa: D301


@dataclass(frozen=True)
class _ComposeOptions:
    expressions: tuple[str, ...] = argument("EXPRESSION...", nargs=-1)
    task: tuple[tuple[str, str], ...] = multi_option(
        "Model of a sequential task, such as qsort='0.03899 n log2(n)', or a file from pmnf fit "
        "--json that has the call path NAME.",
        "NAME=FORMULA|FILE",
        type=read_pair,
        group="Input",
    )
    at: tuple[Point, ...] = multi_option(
        "Point to predict. With --range: the values of the other parameters.",
        "NAME=VALUE,..",
        type=read_point,
    )
    span: tuple[str, float, float] | None = option(
        "Find the slowest stage of each part of this range.",
        "NAME=LOW..HIGH",
        "--range",
        type=read_range,
        excludes=("workers", "against"),
    )
    workers: int | None = option(
        "Add N workers, each to the slowest stage, and list the gain of each.", needs=("at",)
    )
    against: str | None = option(
        "Add the error relative to this model, in percent.", "FORMULA", needs=("at",)
    )


@sub_command("compose", command)
def compose(options: _ComposeOptions, output: Output) -> None:
    """Compose models of sequential tasks into models of task pools and pipelines.

    EXPRESSION is a task, tpool_T(EXPRESSION) for a pool of T workers, pipe(EXPRESSION, ...), or a
    pattern in which T workers share an item of size n: scan_T(SCAN, COMBINE) or dac_T(DIVIDE,
    SOLVE, MERGE). Times are per item in the steady state, and the latency is the time of one item
    without waiting. --csv has the last printed table.

    \b
    toruscast pmnf compose 'pipe(tpool_4(qsort), inc)' --at n=1024
        --task qsort='0.03899 n log2(n)' --task inc='0.02599 n'
    """  # noqa: D301
    output.check()
    if options.span is not None and len(options.at) > 1:
        raise click.UsageError("--range takes one --at, with the other parameters")
    if options.workers is not None and len(options.at) > 1:
        raise click.UsageError("--workers takes one --at")
    tasks = {
        name: tc.scaling.sequential(name, _read_model(name, text))
        for name, text in collect_by_name("--task", options.task).items()
    }
    programs = [tc.scaling.composed(text, tasks) for text in options.expressions]
    reference = None
    if options.against is not None:
        reference = tc.scaling.sequential("reference", options.against)
    models = [*programs, reference] if reference else programs
    parameters = sorted({name for model in models for name in model.parameters})
    for _, values in options.at:
        stages.check_names(parameters, values)
    fixed = options.at[0][1] if options.at else {}
    tables: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for program in programs:
        name = {"expression": str(program)}
        model = {"normal_form": str(program.simplified()), "formula": program.formula()}
        tables["models"].append(name | model | {"latency_formula": program.passage().formula()})
        if options.span is not None:
            for piece in program.pieces(*options.span, _select_values(fixed, program)):
                row = {"from": piece.low, "to": piece.high, "slowest": str(piece.stage)}
                tables["pieces"].append(name | row | {"formula": piece.stage.formula()})
        elif options.at:
            tables["predictions"] += [_predict_point(program, at, reference) for at in options.at]
        if options.workers is not None:
            values = _select_values(fixed, program)
            better, steps = tc.scaling.replicate(program, options.workers, values)
            tables["workers"] += [name | row for row in records(steps)]
            output.message(f"{program} with {len(steps)} more workers: {better}")
    blocks = [Table(frame, _make_columns(frame)) for frame in map(pd.DataFrame, tables.values())]
    # The CSV file contains the last table.
    last = replace(blocks[-1], columns=())
    output.write_table("", last, *blocks, content=dict(tables))


def _read_model(name: str, text: str) -> str | tc.scaling.Formula:
    """Return a formula, read from a file of fitted models if ``text`` names one."""
    if not text.strip().endswith(".json"):
        return text
    formulas = tc.scaling.read_formulas(text.strip())
    matching = [path for path in formulas if path[0] == name] or list(formulas)
    if len(matching) > 1:
        raise click.UsageError(
            f"--task {name}: {text} holds several models: found "
            f"{'; '.join(map(', '.join, matching))}, expected one, or one of the call path {name}"
        )
    return formulas[matching[0]]


def _predict_point(
    program: tc.scaling.Expression, point: Point, reference: tc.scaling.Expression | None
) -> dict[str, Any]:
    """Return the row of a composed model at a point, with its error relative to ``reference``."""
    text, values = point
    own = _select_values(values, program)
    row: dict[str, Any] = {"expression": str(program), "at": text}
    row["prediction"] = float(program.predict(own))
    row["asymptotic"] = float(program.predict(own, "asymptotic"))
    row["latency"] = float(program.latency(own))
    if reference:
        both = own | _select_values(values, reference)
        row["error"] = 100 * float(program.relative_error(reference, both))
    return row


def _select_values(values: dict[str, float], program: tc.scaling.Expression) -> dict[str, float]:
    return {name: value for name, value in values.items() if name in program.parameters}


@dataclass(frozen=True)
class _FitOptions:
    """The fields of `FitOptions` as command-line options."""

    GROUP: ClassVar = "Work"
    space: Literal["default", "published", "fine"] = option(
        "Exponents of the models.", "", "--terms", default="default"
    )
    max_terms: int = option(
        "Maximum terms of a model of one parameter, besides its constant.",
        default=2,
        type=click.IntRange(1, 2),
    )
    noise: Literal["auto", "normal", "bounded"] = option(
        "Distribution of the noise of repetitions.", default="auto"
    )
    select: Literal["evidence", "loo", "kfold"] = option(
        "Criterion for choosing a model: its evidence, or its error in leave-one-out or five-fold "
        "cross-validation.",
        default="evidence",
    )
    negative: float = option(
        "Prior probability (at most 0.5) of a negative coefficient, for the evidence. It is low "
        "because costs add up. Coefficients of logarithms have either sign with equal probability.",
        "P",
        default=0.05,
    )

    @property
    def options(self) -> tc.scaling.FitOptions:
        return tc.scaling.FitOptions(**asdict(self))


@dataclass(frozen=True)
class _MeasurementOptions:
    GROUP: ClassVar = "Input"
    file: str = argument("FILE")
    callpath: str | None = option("Only call paths that contain this.", "TEXT")
    value: tuple[str, ...] = multi_option(
        "Column with the measured values, or 'rep*' or several columns for repetitions in one "
        "row. For Caliper or Thicket: the metric of the profiles.  [default: value]",
        "COLUMN",
    )
    parameter: tuple[str, ...] = multi_option(
        "Entry in the metadata of Caliper or Thicket profiles to use as a parameter, such as "
        "p=mpi.world.size.",
        "[P=]NAME",
    )
    absent: Literal["merge", "omit", "zero"] | None = option(
        "What to do if some runs lack a call path: merge it into its parent, omit these points, or "
        "count 0.  [default: merge for profiles, else omit]"
    )
    reduce: Literal["mean", "max", "sum"] | None = option(
        "Aggregate over the processes of a run, in profiles and in tables with a column process.  "
        "[default: mean, for profiles]"
    )

    def read(self) -> list[tc.scaling.Measurements]:
        path = "/dev/stdin" if self.file == "-" else self.file
        with show_progress(f"Reading {shortened(printable(self.file), 40)}"):
            return tc.scaling.read_measurements(
                path, self.value, parameters=self.parameter, absent=self.absent, reduce=self.reduce
            )

    def fit(self, search: _FitOptions) -> FittedTables:
        """Fit each table; return its models and the indices of the selected call paths.

        Call paths that are not selected are also fitted, because the noise is estimated from all.
        """
        part = self.callpath or ""
        tables = [
            (data, [k for k in range(data.n_paths) if part in data.callpaths[k]])
            for data in self.read()
        ]
        with show_progress("Fitting") as progress:
            fitted = [
                (tc.scaling.fit_many(data, search.options, progress), selected)
                for data, selected in tables
                if selected
            ]
        if not fitted:
            raise click.UsageError(f"no call path contains {part}")
        return fitted


@dataclass(frozen=True)
class _TopOptions:
    top: int = top_option(MAX_ROWS)


@dataclass(frozen=True)
class _ChartOptions:
    at: Point | None = option(  # noqa: RUF009
        "Measured values that fix all parameters but one in charts.",
        "NAME=VALUE,..",
        type=read_point,
    )


@sub_command("fit", command)
def fit(
    measured: _MeasurementOptions,
    charted: _ChartOptions,
    search: _FitOptions,
    table_size: _TopOptions,
    output: Output,
) -> None:
    """Fit a model to every call path and metric of FILE.

    Notes on stderr and in the column "notes" state what the measurements cannot determine. --json
    has the terms in full precision: coefficients, and the exponents of each parameter and of its
    logarithm. "trusted" is true if a model fits the points within the noise of the repetitions;
    "predicts by" names the method of predictions.

    \b
    toruscast pmnf fit times.txt --csv models.csv
    """  # noqa: D301
    output.check()
    table, rows = [], []
    charts: list[answers.blocks.Chart] = []
    for models, selected in measured.fit(search):
        fixed = None if charted.at is None else charted.at[1]
        charts += answers.scaling.model_charts(models, selected, search.options, fixed)
        notes, names, summary = models.notes(), models.measurements.parameters, models.rows()
        for k in selected:
            table.append({**summary[k], "notes": "; ".join(notes[k])})
            if output.json_path is not None:
                summary[k]["terms"] = formula.describe_terms(models.terms(k), names)
            rows.append({**summary[k], "notes": notes[k]})
    has_methods = any(row["predicts_by"] != "formula" for row in table)
    methods = ["predicts_by"] if has_methods else []
    columns = ["callpath", "metric", "formula", *methods, "smape", "adjusted_r2"]
    worst = max(rows, key=lambda row: row["smape"])
    title = f"{counted(len(rows), 'scaling formula')}, error at most "
    error = percent(worst["smape"] / 100, digits=3)
    title += f"{error} (SMAPE, {printable(worst['callpath'])})"
    badge, content = "fitted to measured values", {"models": rows}
    _write_table(output, table, content, columns, table_size.top, *charts, title=title, badge=badge)
    _print_notes(output, rows)


@dataclass(frozen=True)
class _PredictOptions:
    at: tuple[Point, ...] = multi_option(
        "Point to predict, with a value for every parameter.",
        "NAME=VALUE,..",
        type=read_point,
        required=True,
    )
    interval: float | None = option(
        "Add intervals that contain the true value with this probability.",
        "LEVEL",
        type=PROBABILITY,
    )


@sub_command("predict", command)
def predict(
    measured: _MeasurementOptions,
    options: _PredictOptions,
    search: _FitOptions,
    table_size: _TopOptions,
    output: Output,
) -> None:
    """Fit FILE, and predict every call path and metric at other points.

    A prediction is the value of the formula that 'fit' prints. If no formula fits the points, the
    prediction is the smaller of a power law through the nearest points and the formula scaled to
    them. "predicts by" states the method.

    \b
    toruscast pmnf predict times.txt --at p=1024,n=9000 --interval 0.9
    """  # noqa: D301
    output.check()
    rows: list[dict[str, Any]] = []
    summaries: list[dict[str, Any]] = []
    fitted = measured.fit(search)
    enough = [len(m.measurements.points) >= m.min_points for m, _ in fitted]
    for (models, selected), has_enough in zip(fitted, enough, strict=True):
        data = models.measurements
        X = _order_points(options.at, data.parameters)
        values, methods, notes = models.predict(X), models.predicts_by(), models.notes()
        point_notes = models.notes_at(X)
        bounds = np.full((2, len(selected), len(X)), np.nan)
        # If no table has enough points, `predict_intervals` raises an error for the first table.
        if options.interval and (has_enough or not any(enough)):
            level = options.interval
            bounds[:] = scaling_fit.predict_intervals(
                models, X, search.options, level, paths=selected
            )
        elif options.interval:
            point_notes = [*point_notes, f"too few points for an interval: {len(data.points)}"]
        lows, highs = bounds.tolist()
        for low, high, k in zip(lows, highs, selected, strict=True):
            name = {"callpath": data.callpaths[k], "metric": data.metrics[k]}
            method = {"predicts_by": methods[k]}
            all_notes = notes[k] + point_notes
            summaries.append({**name, "trusted": models.trusted[k], **method, "notes": all_notes})
            for m, (text, _) in enumerate(options.at):
                row = {**name, "at": text, "prediction": float(values[k, m]), **method}
                rows.append(row | ({"low": low[m], "high": high[m]} if options.interval else {}))
    has_methods = any(row["predicts_by"] != "formula" for row in rows)
    columns = [name for name in rows[0] if has_methods or name != "predicts_by"]
    content = {"predictions": rows, "models": summaries}
    # The headline compares the call paths by the first metric at the first point.
    first = (rows[0]["metric"], rows[0]["at"])
    compared = [row for row in rows if (row["metric"], row["at"]) == first]
    largest = max(compared, key=lambda row: row["prediction"])
    title = ("Largest: " if len(compared) > 1 else "") + printable(largest["callpath"])
    title += f", {printable(largest['metric'])} {rounded(largest['prediction'])} at {largest['at']}"
    frame, badge = pd.DataFrame(rows), "extrapolated"
    _write_table(output, frame, content, columns, table_size.top, title=title, badge=badge)
    _print_notes(output, summaries)


def _order_points(points: Sequence[Point], parameters: Sequence[str]) -> list[list[float]]:
    """Return the values of each point in the order of the parameters."""
    for _, values in points:
        if set(values) != set(parameters):
            raise click.UsageError(
                f"--at must name every parameter: found {', '.join(values)}, "
                f"expected {', '.join(parameters)}"
            )
    return [[values[name] for name in parameters] for _, values in points]


def _print_notes(output: Output, models: Sequence[dict[str, Any]]) -> None:
    """Print each kind of note once, with an example and the number of models that it applies to."""
    by_kind: dict[str, list[str]] = {}
    for model in models:
        for note in model["notes"]:
            text = f"{model['callpath']} ({model['metric']}): {note}"
            kind, _, _ = note.partition(": ")
            by_kind.setdefault(kind, []).append(note if len(models) == 1 else text)
    for notes in by_kind.values():
        several = f"{len(notes)} of {len(models)} models, such as " if len(models) > 1 else ""
        output.message(f"{several}{notes[0]}")


def _write_table(
    output: Output,
    table: Frame,
    content: dict[str, Any],
    columns: Sequence[str] | None = None,
    top: int = MAX_ROWS,
    *charts: answers.blocks.Chart,
    **more: Any,
) -> None:
    """Write a table and charts, and print some columns of the table."""
    block = Table(table, _make_columns(table, columns), top=top)
    output.write_table("", block, *charts, content=content, **{"title": "Scaling models", **more})


def _make_columns(frame: Frame, names: Sequence[str] | None = None) -> list[Column]:
    """Return a frame's columns, with units in the headings, and priorities for narrow terminals."""
    table = Table(frame)
    columns = {column.name: column for column in table.visible_columns}
    priorities = {"smape": 1, "adjusted_r2": 2}
    for name in ("metric", "at"):
        # On a narrow terminal, a constant column is left out first.
        if name in columns and len({*table.values[name]}) < 2:
            priorities[name] = 3
    headings = {"smape": "smape, %", "error": "error, %"}
    return [
        replace(columns[name], heading=headings.get(name, ""), priority=priorities.get(name, 0))
        for name in names or columns
    ]


@sub_command("variation", command)
def variation(measured: _MeasurementOptions, table_size: _TopOptions, output: Output) -> None:
    """Measure the variation between the repetitions of each point of FILE.

    The variation is the standard deviation of the repetitions over their mean.

    \b
    toruscast pmnf variation times.txt
    """  # noqa: D301
    output.check()
    table = pd.concat(map(tc.scaling.variations, measured.read()), ignore_index=True)
    table = table[table["callpath"].str.contains(measured.callpath or "", regex=False)]
    if table.empty:
        raise click.UsageError(f"no call path contains {measured.callpath}")
    _write_table(output, table, {"points": records(table)}, top=table_size.top)
    variations = table["variation"].dropna()
    if variations.empty:
        output.message("every point was run once; repeat runs to measure their variation")
        return
    worst = table.iloc[int(table["variation"].argmax())]
    others = ("callpath", "metric", "repetitions", "mean", "variation")
    point = ", ".join(f"{name}={worst[name]:g}" for name in table.columns if name not in others)
    output.message(
        f"median variation {percent(variations.median(), 1)}, largest "
        f"{percent(variations.max(), 1)} of {worst['callpath']} ({worst['metric']}) at {point}"
    )


@sub_command("errors", command)
def errors(measured: _MeasurementOptions, search: _FitOptions, output: Output) -> None:
    """Fit FILE, and count the measured points by the error of their model.

    "left out" is the error at a point if the same terms are fitted to all other points.

    \b
    toruscast pmnf errors times.txt
    """  # noqa: D301
    output.check()
    fitted = measured.fit(search)
    limits = [0, *ERROR_CLASSES]
    names = [f"{low} to {high}" for low, high in pairwise(limits)] + [f"over {limits[-1]}"]
    table = pd.DataFrame({"error, %": names})
    for kind, left_out in (("fitted", False), ("left_out", True)):
        percents = [
            100 * np.abs(models.errors(left_out)[selected]).ravel() for models, selected in fitted
        ]
        classes = np.searchsorted(ERROR_CLASSES, np.concatenate(percents))
        table[kind] = np.bincount(classes, minlength=len(names))
        table[f"{kind}_share"] = table[kind] / classes.size
    _write_table(output, table, {"classes": records(table)})


@dataclass(frozen=True)
class _PlanOptions:
    file: str | None = argument("[FILE]")
    values: tuple[tuple[str, list[float]], ...] = multi_option(
        "Possible values of a parameter.", "NAME=V,V,..", type=named_numbers_reader(), group="Input"
    )
    cost: str = option("Cost of a run, such as 'p n'.", "FORMULA", default="1", group="Input")
    together: tuple[str, ...] = multi_option(
        "Parameters whose effects may multiply.", "NAME,NAME,..", group="Input", excludes=("file",)
    )
    budget: float | None = option("Maximum cost of all runs together.", "COST", type=POSITIVE)
    at: tuple[Point, ...] = multi_option(
        "With FILE: points to predict.  [default: four times the largest values]",
        "NAME=VALUE,..",
        type=read_point,
        needs=("file",),
    )
    points: str | None = option(
        "Write the runs of the chosen plan as a CSV table.", "FILE", group="Output"
    )


@sub_command("plan", command)
def plan(options: _PlanOptions, output: Output) -> None:
    """Choose the runs to make.

    Without FILE: list sets of runs with their cost, from the minimum for a model to the whole grid,
    and choose the largest within --budget. With FILE: list the next points to measure, starting
    with those that most reduce the uncertainty at the point of --at, relative to their cost.

    \b
    toruscast pmnf plan --values p=12,24,36,48,60 --values n=2e3,3e3,4e3,5e3,6e3 --cost p
    toruscast pmnf plan times.txt --at p=1024 --cost p --budget 500
    """  # noqa: D301
    output.check({"--points": options.points})
    budget = options.budget
    if options.file is None:
        table, chosen, name = _plan_grid(options)
    else:
        table = chosen = _plan_next_runs(options, options.file)
    if options.points is not None:
        write_text(csv_text(chosen), options.points)
    _write_table(output, table, {"plan": records(table)})
    if options.file is None and budget is not None:
        output.message(f"the largest plan within {budget:g} is {name}")
    elif table.empty:
        within = "" if budget is None else f" within the budget of {budget:g}"
        output.message(f"no run{within} would reduce the uncertainty")


def _plan_grid(options: _PlanOptions) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    """Return all plans, then the points and the name of the largest plan within the budget."""
    levels, budget = collect_by_name("--values", options.values), options.budget
    if not levels:
        raise click.UsageError("plan needs FILE or --values")
    groups = [[part.strip() for part in text.split(",")] for text in options.together]
    table, points = tc.scaling.run_plans(levels, options.cost, groups)
    affordable = table[table["cost"] <= budget] if budget is not None else table[:1]
    if affordable.empty:
        raise click.UsageError(
            f"no plan within --budget: found {budget:g}, expected {table['cost'].min():g} or more"
        )
    name = affordable["plan"].iloc[-1]
    return table, pd.DataFrame(points[name], columns=list(levels)), name


def _plan_next_runs(options: _PlanOptions, file: str) -> pd.DataFrame:
    """Return the next points to measure, ordered by how much they reduce uncertainty per cost."""
    fitted = _MeasurementOptions(file).fit(_FitOptions())
    if len(fitted) > 1:
        raise click.UsageError(
            f"plan needs call paths measured at the same points: found {len(fitted)} sets"
        )
    models = fitted[0][0]
    data, levels = models.measurements, collect_by_name("--values", options.values)
    targets = _order_points(options.at, data.parameters)
    unknown = [name for name in levels if name not in data.parameters]
    if unknown:
        raise click.UsageError(
            f"bad --values: found {', '.join(unknown)}, expected {', '.join(data.parameters)}"
        )
    axes = [
        levels.get(name) or np.unique(column).tolist()
        for name, column in zip(data.parameters, data.points.T, strict=True)
    ]
    return tc.scaling.next_runs(
        models,
        targets or 4 * data.points.max(axis=0, keepdims=True),
        list(product(*axes)),
        options.cost,
        options.budget,
    )
