"""``toruscast pmnf``: scaling models of measurements, predictions, figures and plans of runs."""

from __future__ import annotations

import math
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
from toruscast.text import percent, printable, shortened

from .app import SubCommands
from .options import (
    ABOVE_0,
    LEVEL,
    argument,
    by_name,
    named_numbers,
    option,
    read_pair,
    sub_command,
    top_option,
)
from .output import Output, write_text
from .progress import working
from .slow import formula, scaling_fit, scaling_models, stages

if TYPE_CHECKING:
    from toruscast.answers.table import Frame

    Fitted = list[tuple[tc.scaling.Models, list[int]]]


# Numbers by name, and the text that they were read from.
Place = tuple[str, dict[str, float]]


def read_place(text: str) -> Place:
    """Read NAME=VALUE,NAME=VALUE with numbers.

    Examples
    --------
    >>> read_place("p=2,n=1e3")
    ('p=2,n=1e3', {'p': 2.0, 'n': 1000.0})
    """
    given = by_name("--at", [read_pair(part) for part in text.split(",")])
    with suppress(ValueError):
        numbers = {name: float(value) for name, value in given.items()}
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


@dataclass(frozen=True)
class Composition:
    """Expressions, models of their tasks, and what is asked about them."""

    expressions: tuple[str, ...] = argument("EXPRESSION...", nargs=-1)
    task: tuple[tuple[str, str], ...] = option(
        "Model of a sequential task, such as qsort='0.03899 n log2(n)', or the file that pmnf "
        "fit --json wrote, of which the call path NAME is taken. May be given again.",
        "NAME=FORMULA|FILE",
        default=(),
        type=read_pair,
        group="Input",
    )
    at: tuple[Place, ...] = option(
        "Where to predict; with --range, the other parameters. May be given again.",
        "NAME=VALUE,..",
        default=(),
        type=read_place,
    )
    span: tuple[str, float, float] | None = option(
        "Say which stage is the slowest where in this range.",
        "NAME=LOW..HIGH",
        "--range",
        type=read_range,
    )
    workers: int | None = option(
        "Give N more workers to the slowest stages, and say what each gains.",
        "N",
        needs=("at",),
        excludes=("span",),
    )
    against: str | None = option(
        "The error from this model, in percent.", "FORMULA", needs=("at",), excludes=("span",)
    )


@sub_command("compose")
def compose(asked: Composition, output: Output) -> None:
    """Compose models of sequential tasks into those of task pools and pipelines.

    EXPRESSION is a task, tpool_T(EXPRESSION) for a pool of T workers, pipe(EXPRESSION, ...), or a
    pattern in which T workers share an item of size n: scan_T(SCAN, COMBINE) or dac_T(DIVIDE,
    SOLVE, MERGE). Times are per item in the steady state; the latency is the time of one item
    that never waits. --csv holds the last table of those shown.

    \b
    toruscast pmnf compose 'pipe(tpool_4(qsort), inc)' --at n=1024
        --task qsort='0.03899 n log2(n)' --task inc='0.02599 n'
    """  # noqa: D301
    output.check()
    if asked.span is not None and len(asked.at) > 1:
        raise click.UsageError("--range takes one --at, with the other parameters")
    if asked.workers is not None and len(asked.at) > 1:
        raise click.UsageError("--workers takes one --at")
    known = {
        name: tc.scaling.sequential(name, _model(name, text))
        for name, text in by_name("--task", asked.task).items()
    }
    programs = [tc.scaling.composed(text, known) for text in asked.expressions]
    reference = None
    if asked.against is not None:
        reference = tc.scaling.sequential("reference", asked.against)
    models = [*programs, reference] if reference else programs
    parameters = sorted({name for model in models for name in model.parameters})
    for _, at in asked.at:
        stages.check_names(parameters, at)
    tables: dict[str, list[dict[str, Any]]] = {
        "models": [
            {
                "expression": str(p),
                "normal_form": str(p.simplified()),
                "formula": p.formula(),
                "latency_formula": p.passage().formula(),
            }
            for p in programs
        ]
    }
    if asked.span is not None:
        fixed = asked.at[0][1] if asked.at else {}
        tables["pieces"] = [
            {
                "expression": str(p),
                "from": piece.low,
                "to": piece.high,
                "slowest": str(piece.stage),
                "formula": piece.stage.formula(),
            }
            for p in programs
            for piece in p.pieces(*asked.span, _own(fixed, p))
        ]
    elif asked.at:
        tables["predictions"] = [_prediction(p, at, reference) for p in programs for at in asked.at]
    if asked.workers is not None:
        tables["workers"] = []
        for p in programs:
            better, steps = tc.scaling.replicate(p, asked.workers, _own(asked.at[0][1], p))
            tables["workers"] += [{"expression": str(p), **row} for row in records(steps)]
            output.message(f"{p} with {len(steps)} more workers: {better}")
    blocks = [Table(frame, _headed(frame)) for frame in map(pd.DataFrame, tables.values())]
    last = replace(blocks[-1], columns=())
    output.deliver(answers.blocks.of_table("", last, *blocks, content=dict(tables)))


def _model(name: str, text: str) -> str | tc.scaling.Formula:
    """Return a formula, or that of a file of fitted models."""
    if not text.strip().endswith(".json"):
        return text
    formulas = tc.scaling.read_formulas(text.strip())
    own = [path for path in formulas if path[0] == name] or list(formulas)
    if len(own) > 1:
        raise click.UsageError(
            f"--task {name}: {text} holds several models: found "
            f"{'; '.join(map(', '.join, own))}, expected one, or one of the call path {name}"
        )
    return formulas[own[0]]


def _prediction(
    program: tc.scaling.Expression, place: Place, reference: tc.scaling.Expression | None
) -> dict[str, Any]:
    text, at = place
    own = _own(at, program)
    row: dict[str, Any] = {"expression": str(program), "at": text}
    row["prediction"] = float(program.predict(own))
    row["asymptotic"] = float(program.predict(own, "asymptotic"))
    row["latency"] = float(program.latency(own))
    if reference:
        row["error"] = 100 * float(program.relative_error(reference, own | _own(at, reference)))
    return row


def _own(at: dict[str, float], program: tc.scaling.Expression) -> dict[str, float]:
    """Return the values of a program's parameters; the others are for other programs."""
    return {name: value for name, value in at.items() if name in program.parameters}


# Applications have tens or hundreds of call paths: few tables are cut short.
TOP = 100


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


command.add_command(compose)


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
    negative: float = option(
        "Prior probability of a negative coefficient in the evidence, at most 0.5: costs add up. "
        "Logarithms have either sign with equal probability.",
        "P",
        default=0.05,
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
    absent: Literal["merge", "omit", "zero"] | None = option(
        "A call path that some runs do not hold is part of its parent, has fewer points, or took "
        "nothing there.  [default: merge, for profiles; else omit]"
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
class RowLimit:
    """How much of the table is shown."""

    top: int = top_option(TOP)


def points_of(places: Sequence[Place], parameters: Sequence[str]) -> list[list[float]]:
    """Return a value of every parameter for each place."""
    for _, given in places:
        if set(given) != set(parameters):
            raise click.UsageError(
                f"--at must name every parameter: found {', '.join(given)}, "
                f"expected {', '.join(parameters)}"
            )
    return [[given[name] for name in parameters] for _, given in places]


def say(output: Output, models: Sequence[dict[str, Any]]) -> None:
    """Say each kind of note once: how many models have it, and the first of them."""
    found: dict[str, list[str]] = {}
    for model in models:
        for note in model["notes"]:
            text = f"{model['callpath']} ({model['metric']}): {note}"
            found.setdefault(note.kind, []).append(note if len(models) == 1 else text)
    for same in found.values():
        several = f"{len(same)} of {len(models)} models, such as " * (len(models) > 1)
        output.message(f"{several}{same[0]}")


def deliver(
    output: Output,
    table: Frame,
    content: dict[str, Any],
    shown: Sequence[str] | None = None,
    top: int = TOP,
) -> None:
    """Write a table, and show some of its columns."""
    block = Table(table, _headed(table, shown), top=top)
    output.deliver(answers.blocks.of_table("", block, content=content))


def _headed(frame: Frame, shown: Sequence[str] | None = None) -> list[Column]:
    """Return columns of a table, with units and with what a narrow terminal can spare."""
    table = Table(frame)
    columns = {each.name: each for each in table.shown}
    # The same metric or place in all rows goes first.
    priorities = {"smape": 1, "adjusted_r2": 2}
    priorities |= {n: 3 for n in ("metric", "at") if n in columns and len({*table.values[n]}) < 2}
    headings = {"smape": "smape, %", "error": "error, %"}
    return [
        replace(columns[n], heading=headings.get(n, ""), priority=priorities.get(n, 0))
        for n in shown or columns
    ]


@sub_command("fit", command)
def fit(measured: MeasuredFile, search: ModelSearch, view: RowLimit, output: Output) -> None:
    """Fit a model to every call path and metric of FILE.

    Notes on stderr and in the column "notes" say what the measurements cannot tell.
    --json holds the terms in full precision: coefficients, and for each parameter the exponents of
    its power and of its logarithm. "trusted" is true where a model meets the points within the
    noise of the repetitions; "predicts by" says what predictions are made of.

    \b
    toruscast pmnf fit times.txt --csv models.csv
    """  # noqa: D301
    output.check()
    table, rows = [], []
    for models, keep in measured.fit(search):
        notes, names, summary = models.notes(), models.measurements.parameters, models.rows()
        for k in keep:
            table.append({**summary[k], "notes": "; ".join(notes[k])})
            if output.json_path is not None:
                summary[k]["terms"] = formula.named(models.terms(k), names)
            rows.append({**summary[k], "notes": notes[k]})
    by_points = any(row["predicts_by"] != "formula" for row in table)
    shown = ["callpath", "metric", "formula", *["predicts_by"] * by_points, "smape", "adjusted_r2"]
    deliver(output, table, {"models": rows}, shown, view.top)
    say(output, rows)


@dataclass(frozen=True)
class PlacesOptions:
    """Where to predict, and how sure."""

    at: tuple[Place, ...] = option(
        "Where to predict: a value for every parameter. May be given again.",
        "NAME=VALUE,..",
        default=(),
        type=read_place,
        required=True,
    )
    interval: float | None = option(
        "Add intervals that should hold the true value with this probability.", "LEVEL", type=LEVEL
    )


@sub_command("predict", command)
def predict(
    measured: MeasuredFile,
    where: PlacesOptions,
    search: ModelSearch,
    view: RowLimit,
    output: Output,
) -> None:
    """Fit FILE, and predict every call path and metric elsewhere.

    A prediction is the value of the formula that fit prints. Where "predicts by" says so, no
    formula meets the points, and the prediction follows the nearest points too: it is the smaller
    of the power law through them, and the formula scaled to meet them.

    \b
    toruscast pmnf predict times.txt --at p=1024,n=9000 --interval 0.9
    """  # noqa: D301
    output.check()
    rows: list[dict[str, Any]] = []
    said: list[dict[str, Any]] = []
    fitted = measured.fit(search)
    enough = [len(m.measurements.points) >= m.min_points for m, _ in fitted]
    for (models, keep), has_enough in zip(fitted, enough, strict=True):
        data = models.measurements
        X = points_of(where.at, data.parameters)
        values, by, notes = models.predict(X), models.predicts_by(), models.notes()
        here = models.notes_at(X)
        ends = np.full((2, len(keep), len(X)), np.nan)
        # Where no call path has enough points, the interval of the first says so.
        if where.interval and (has_enough or not any(enough)):
            ends[:] = scaling_fit.interval(models, X, search.options, where.interval, paths=keep)
        elif where.interval:
            few = str(len(data.points))
            here = [*here, scaling_models.Note("too few points for an interval", few)]
        for low, high, k in zip(*ends.tolist(), keep, strict=True):
            name = {"callpath": data.callpaths[k], "metric": data.metrics[k]}
            kind = {"predicts_by": by[k]}
            said.append({**name, "trusted": models.trusted[k], **kind, "notes": notes[k] + here})
            for m, (text, _) in enumerate(where.at):
                row = {**name, "at": text, "prediction": float(values[k, m]), **kind}
                rows.append(row | ({"low": low[m], "high": high[m]} if where.interval else {}))
    by_points = any(row["predicts_by"] != "formula" for row in rows)
    shown = [name for name in rows[0] if by_points or name != "predicts_by"]
    deliver(output, pd.DataFrame(rows), {"predictions": rows, "models": said}, shown, view.top)
    say(output, said)


@dataclass(frozen=True)
class ModelFigure:
    """What is drawn, and where it goes."""

    figure: str = argument("FIGURE")
    metric: str | None = option("Only this metric.", "NAME", group="Input")
    at: Place | None = option(  # noqa: RUF009
        "Hold these parameters at a measured value.", "NAME=VALUE,..", type=read_place
    )
    interval: float = option(
        "Probability of the band around a curve.", "LEVEL", default=0.9, type=LEVEL
    )


@sub_command("plot", command)
def plot(measured: MeasuredFile, drawn: ModelFigure, search: ModelSearch) -> None:
    """Draw the model of one call path of FILE to FIGURE (.svg, .png or .pdf).

    It is a curve along one parameter, with its interval. Hold the others at a value.

    \b
    toruscast pmnf plot times.txt model.svg --callpath main
    toruscast pmnf plot times.txt model.png --callpath main --at n=5000
    """  # noqa: D301
    Output().check({"FIGURE": drawn.figure})
    answers.figures.check_figure(drawn.figure)
    matching = [
        (models, k)
        for models, keep in measured.fit(search)
        for k in keep
        if drawn.metric in (None, models.measurements.metrics[k])
    ]
    # A name in full is meant even where it is a part of others.
    named = [m for m in matching if m[0].measurements.callpaths[m[1]] == measured.callpath]
    matching = named or matching
    if len(matching) != 1:
        pairs = [(m.measurements.callpaths[k], m.measurements.metrics[k]) for m, k in matching]
        names = [f"{path} ({metric})" for path, metric in pairs]
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        raise click.UsageError(
            f"a figure shows one model: found {', '.join(names[:5]) or 'none'}{more}; "
            "choose by --callpath and --metric"
        )
    models, k = matching[0]
    held = {} if drawn.at is None else drawn.at[1]
    answers.scaling.save_model_figure(models, k, drawn.figure, search.options, held, drawn.interval)


# Upper ends of the classes of errors, in percent, as in figure 3 of [Calotoiu18].
CLASSES = (5, 10, 15, 20)
_OTHERS = ("callpath", "metric", "repetitions", "mean", "variation")


@sub_command("variation", command)
def variation(measured: MeasuredFile, view: RowLimit, output: Output) -> None:
    """Say how much the repetitions of each point of FILE differ.

    The variation is the standard deviation of the repetitions over their mean.

    \b
    toruscast pmnf variation times.txt
    """  # noqa: D301
    output.check()
    table = pd.concat(map(tc.scaling.variations, measured.read()), ignore_index=True)
    table = table[table["callpath"].str.contains(measured.callpath or "", regex=False)]
    if table.empty:
        raise click.UsageError(f"no call path contains {measured.callpath}")
    deliver(output, table, {"points": records(table)}, top=view.top)
    some = table["variation"].dropna()
    if some.empty:
        output.message("every point was run once: repeat runs to see how much they differ")
    else:
        worst = table.iloc[int(table["variation"].argmax())]
        names = [c for c in table.columns if c not in _OTHERS]
        where = ", ".join(f"{name}={worst[name]:g}" for name in names)
        output.message(
            f"median variation {percent(some.median(), 1)}, largest {percent(some.max(), 1)} of "
            f"{worst['callpath']} ({worst['metric']}) at {where}"
        )


@sub_command("errors", command)
def errors(measured: MeasuredFile, search: ModelSearch, output: Output) -> None:
    """Fit FILE, and count the measured points by the error of their model.

    Errors are those of the models, and those of the same terms fitted to all points but one.

    \b
    toruscast pmnf errors times.txt
    """  # noqa: D301
    output.check()
    fitted = measured.fit(search)
    ends = [0, *CLASSES]
    names = [f"{low} to {high}" for low, high in pairwise(ends)] + [f"over {ends[-1]}"]
    table = pd.DataFrame({"error, %": names})
    for kind, left in (("fitted", False), ("left_out", True)):
        sizes = [100 * np.abs(models.errors(left)[keep]).ravel() for models, keep in fitted]
        classes = np.searchsorted(CLASSES, np.concatenate(sizes))
        table[kind] = np.bincount(classes, minlength=len(names))
        table[f"{kind}_share"] = table[kind] / classes.size
    deliver(output, table, {"classes": records(table)})


@dataclass(frozen=True)
class RunOptions:
    """Runs that can be made, what they cost, and what they are for."""

    file: str | None = argument("[FILE]")
    values: tuple[tuple[str, list[float]], ...] = option(
        "Values of a parameter that can be run; again for each parameter.",
        "NAME=V,V,..",
        default=(),
        type=named_numbers(),
        group="Input",
    )
    cost: str = option("Of a run, such as 'p' or 'p n'.", "FORMULA", default="1", group="Input")
    together: tuple[str, ...] = option(
        "A group of parameters whose effects may multiply; again for more.",
        "NAME,NAME,..",
        default=(),
        group="Input",
        excludes=("file",),
    )
    budget: float | None = option("Largest cost of all runs together.", "COST", type=ABOVE_0)
    at: tuple[Place, ...] = option(
        "With FILE: where predictions are wanted.  [default: four times the largest values]",
        "NAME=VALUE,..",
        default=(),
        type=read_place,
        needs=("file",),
    )
    points: str | None = option(
        "Write the runs of the chosen plan as a CSV table.", "FILE", group="Output"
    )


@sub_command("plan", command)
def plan(asked: RunOptions, output: Output) -> None:
    """Say which runs to make.

    Without FILE: sets of runs, from the least that a model needs to the whole grid, with their
    cost; the richest within --budget is chosen. With FILE: the next best points beside those
    measured, by how much surer they make the predictions at --at for their cost.

    \b
    toruscast pmnf plan --values p=12,24,36,48,60 --values n=2e3,3e3,4e3,5e3,6e3 --cost p
    toruscast pmnf plan times.txt --at p=1024 --cost p --budget 500
    """  # noqa: D301
    output.check({"--points": asked.points})
    budget = asked.budget
    if asked.file is None:
        table, chosen, name = _plans(asked)
    else:
        table = chosen = _next(asked, asked.file)
    if asked.points is not None:
        write_text(csv_text(chosen), asked.points)
    deliver(output, table, {"plan": records(table)})
    if asked.file is None and budget is not None:
        output.message(f"the richest plan within {budget:g} is {name}")
    elif table.empty:
        within = "" if budget is None else f" within the budget of {budget:g}"
        output.message(f"no run{within} would make the predictions surer")


def _plans(asked: RunOptions) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    """Return all plans, and the points and the name of the richest within the budget."""
    levels, budget = by_name("--values", asked.values), asked.budget
    if not levels:
        raise click.UsageError("plan needs FILE or --values")
    groups = [[part.strip() for part in text.split(",")] for text in asked.together]
    table, points = tc.scaling.run_plans(levels, asked.cost, groups)
    within = table[table["cost"] <= budget] if budget is not None else table[:1]
    if within.empty:
        raise click.UsageError(
            f"no plan within --budget: found {budget:g}, expected {table['cost'].min():g} or more"
        )
    name = within["plan"].iloc[-1]
    return table, pd.DataFrame(points[name], columns=list(levels)), name


def _next(asked: RunOptions, file: str) -> pd.DataFrame:
    fitted = MeasuredFile(file).fit(ModelSearch())
    if len(fitted) > 1:
        raise click.UsageError(
            f"plan needs call paths measured at the same points: found {len(fitted)} sets"
        )
    models = fitted[0][0]
    data, levels = models.measurements, by_name("--values", asked.values)
    goal = points_of(asked.at, data.parameters)
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
        goal or 4 * data.points.max(axis=0, keepdims=True),
        list(product(*axes)),
        asked.cost,
        asked.budget,
    )
