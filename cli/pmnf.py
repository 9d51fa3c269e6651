"""``toruscast pmnf``: scaling models of measurements, predictions, figures and plans of runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import click

import toruscast as tc
from toruscast import answers
from toruscast._slow import numpy as np
from toruscast._slow import pandas as pd
from toruscast.answers.table import Table, records
from toruscast.text import percent, printable, shortened

from .app import SubCommands
from .options import LEVEL, argument, named_numbers, option, read_pair, sub_command, top_option
from .output import Output, write_text
from .progress import working
from .slow import formula, intervals, scaling_models, stages

if TYPE_CHECKING:
    from toruscast.scaling.models import Note

    Fitted = list[tuple[tc.scaling.Models, list[int]]]


@dataclass(frozen=True)
class Composed:
    """Expressions, models of their tasks, and what is asked about them."""

    expressions: tuple[str, ...] = argument("[EXPRESSION]...", nargs=-1, required=False)
    task: tuple[tuple[str, str], ...] = option(
        "Model of a sequential task, such as qsort='0.03899 n log2(n)', or the file that pmnf "
        "fit --json wrote, of which the call path NAME is taken. May be given again.",
        "NAME=FORMULA|FILE",
        default=(),
        type=read_pair,
        group="Input",
    )
    at: tuple[str, ...] = option(
        "Where to predict; with --range, the other parameters. May be given again.",
        "NAME=VALUE,..",
        default=(),
    )
    span: str | None = option(
        "Say which stage is the slowest where in this range.", "NAME=LOW..HIGH", "--range"
    )
    workers: int | None = option(
        "With --at: give N more workers to the slowest stages, and say what each gains.", "N"
    )
    against: str | None = option("With --at: the error from this model, in percent.", "FORMULA")


@sub_command("compose")
def compose(asked: Composed, output: Output) -> None:
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
    if not asked.expressions:
        raise click.UsageError("nothing to compose: expected an EXPRESSION")
    if asked.against is not None and (asked.span is not None or not asked.at):
        raise click.UsageError("--against needs --at, and takes no --range")
    if asked.span is not None and len(asked.at) > 1:
        raise click.UsageError("--range takes one --at, with the other parameters")
    if asked.workers is not None and (asked.span is not None or len(asked.at) != 1):
        raise click.UsageError("--workers needs one --at, and takes no --range")
    _compose(output, asked)


def _compose(output: Output, asked: Composed) -> None:
    known = _tasks(asked.task)
    programs = [tc.scaling.composed(text, known) for text in asked.expressions]
    reference = None
    if asked.against is not None:
        reference = tc.scaling.sequential("reference", asked.against)
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
    models = [*programs, reference] if reference else programs
    parameters = sorted({name for model in models for name in model.parameters})
    for text in asked.at:
        stages.check_names(parameters, by_name(text))
    if asked.span is not None:
        name, low, high = _span(asked.span)
        fixed = by_name(asked.at[0]) if asked.at else {}
        tables["pieces"] = [
            {
                "expression": str(p),
                "from": piece.low,
                "to": piece.high,
                "slowest": str(piece.stage),
                "formula": piece.stage.formula(),
            }
            for p in programs
            for piece in p.pieces(name, low, high, _of(fixed, p))
        ]
    elif asked.at:
        tables["predictions"] = [
            _prediction(p, text, reference) for p in programs for text in asked.at
        ]
    if asked.workers is not None:
        tables["workers"] = []
        for p in programs:
            better, steps = tc.scaling.replicate(p, asked.workers, _of(by_name(asked.at[0]), p))
            tables["workers"] += [{"expression": str(p), **row} for row in records(steps)]
            output.message(f"{p} with {len(steps)} more workers: {better}")
    shown = [Table(pd.DataFrame(rows)) for rows in tables.values()]
    output.deliver(
        answers.blocks.Answer(
            answers.blocks.Headline(""),
            sections=[answers.blocks.Section("", shown)],
            table=Table(shown[-1].frame, ()),
            content=dict(tables),
        )
    )


def _tasks(tasks: tuple[tuple[str, str], ...]) -> dict[str, tc.scaling.Expression]:
    """Return the models of sequential tasks by name."""
    known: dict[str, tc.scaling.Expression] = {}
    for name, text in tasks:
        if name in known:
            raise click.UsageError(f"bad --task: found {name} twice, expected each name once")
        known[name] = tc.scaling.sequential(name, _model(name, text))
    return known


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
    program: tc.scaling.Expression, text: str, reference: tc.scaling.Expression | None
) -> dict[str, Any]:
    at = by_name(text)
    own = _of(at, program)
    row: dict[str, Any] = {"expression": str(program), "at": text}
    row["prediction"] = float(program.predict(own))
    row["asymptotic"] = float(program.predict(own, "asymptotic"))
    row["latency"] = float(program.latency(own))
    if reference:
        row["error"] = 100 * float(program.relative_error(reference, own | _of(at, reference)))
    return row


def _of(at: dict[str, float], program: tc.scaling.Expression) -> dict[str, float]:
    """Values of its parameters; the rest is for other expressions."""
    return {name: value for name, value in at.items() if name in program.parameters}


def _span(text: str) -> tuple[str, float, float]:
    name, bounds = read_pair(text, "--range")
    low, _, high = bounds.partition("..")
    try:
        return name, float(low), float(high)
    except ValueError:
        raise click.UsageError(f"bad --range: found {text}, expected NAME=LOW..HIGH") from None


def by_name(text: str) -> dict[str, float]:
    """Return the numbers by name, as in ``--at p=2,n=10``.

    Examples
    --------
    >>> by_name("p=2,n=1e3")
    {'p': 2.0, 'n': 1000.0}
    """
    given: dict[str, float] = {}
    for part in text.split(","):
        name, value = read_pair(part, "--at")
        if name in given:
            raise click.UsageError(f"bad --at: found {name} twice, expected each name once")
        try:
            given[name] = float(value)
        except ValueError:
            given[name] = math.nan
        if not 0 <= given[name] < math.inf:
            raise click.UsageError(f"bad --at: found {part}, expected NAME=NUMBER, 0 or more")
    return given


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


def place(text: str, parameters: tuple[str, ...]) -> list[float]:
    """Return one value for every parameter, from "p=2,n=10"."""
    given = by_name(text)
    if set(given) != set(parameters):
        raise click.UsageError(
            f"--at must name every parameter: found {', '.join(given)}, "
            f"expected {', '.join(parameters)}"
        )
    return [given[name] for name in parameters]


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
    top: int = TOP,
) -> None:
    """Write a table, and show some of its columns."""
    part = table if shown is None else table[list(shown)]
    # The same metric or place in all rows is the first that a narrow terminal can spare.
    priorities = {"smape": 1, "adjusted_r2": 2}
    priorities |= {
        name: 3 for name in ("metric", "at") if name in part and part[name].nunique() < 2
    }
    columns = [
        replace(each, heading=_HEADINGS.get(each.name, ""), priority=priorities.get(each.name, 0))
        for each in Table(part).shown
    ]
    block = Table(table, columns, top=top)
    output.deliver(answers.blocks.of_table("", block, content=content))


_HEADINGS = {"smape": "smape, %"}


@sub_command("fit", command)
def fit(measured: MeasuredFile, search: ModelSearch, view: RowsShown, output: Output) -> None:
    """Fit a model to every call path and metric of FILE.

    Notes on stderr and in the column "notes" say what the measurements cannot tell.
    --json holds the terms in full precision: coefficients, and for each parameter the exponents of
    its power and of its logarithm. "trusted" is true where a model meets the points within the
    noise of the repetitions; "predicts by" says what predictions are made of.

    \b
    toruscast pmnf fit times.txt --csv models.csv
    """  # noqa: D301
    output.check()
    fitted = measured.fit(search)
    table = pd.concat([m.summary().iloc[keep] for m, keep in fitted], ignore_index=True)
    notes = [found[k] for m, keep in fitted for found in [m.notes()] for k in keep]
    content: dict[str, Any] = {}
    if output.json_path is not None:
        terms = [
            formula.named(m.terms(k), m.measurements.parameters) for m, keep in fitted for k in keep
        ]
        rows = zip(table.to_dict("records"), terms, notes, strict=True)
        content["models"] = [{**row, "terms": t, "notes": n} for row, t, n in rows]
    table["notes"] = ["; ".join(some) for some in notes]
    shown = ["callpath", "metric", "formula", "smape", "adjusted_r2"]
    if table["predicts_by"].nunique() > 1 or table["predicts_by"].iloc[0] != "formula":
        shown.insert(3, "predicts_by")
    deliver(output, table, content, shown, view.top)
    say(output, notes, list(zip(table["callpath"], table["metric"], strict=True)))


@dataclass(frozen=True)
class Elsewhere:
    """Where to predict, and how sure."""

    at: tuple[str, ...] = option(
        "Where to predict: a value for every parameter. May be given again.",
        "NAME=VALUE,..",
        default=(),
        required=True,
    )
    interval: float | None = option(
        "Add intervals that should hold the true value with this probability.", "LEVEL", type=LEVEL
    )


@sub_command("predict", command)
def predict(
    measured: MeasuredFile, where: Elsewhere, search: ModelSearch, view: RowsShown, output: Output
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
    notes: list[list[Note]] = []
    said: list[dict[str, Any]] = []
    fitted = measured.fit(search)
    enough = [len(m.measurements.points) >= intervals.points_needed(m) for m, _ in fitted]
    for (models, keep), has_enough in zip(fitted, enough, strict=True):
        data = models.measurements
        X = [place(text, data.parameters) for text in where.at]
        values, by, found = models.predict(X), models.predicts_by(), models.notes()
        here = models.notes_at(X)
        ends = np.full((2, len(keep), len(X)), np.nan)
        # Where no call path has enough points, the interval of the first says so.
        if where.interval and (has_enough or not any(enough)):
            ends = np.array(
                intervals.interval(models, X, search.options, where.interval, paths=keep)
            )
        elif where.interval:
            few = str(len(data.points))
            here = [*here, scaling_models.Note("too few points for an interval", few)]
        for low, high, k in zip(*ends, keep, strict=True):
            name = {"callpath": data.callpaths[k], "metric": data.metrics[k]}
            kind = {"predicts_by": by[k]}
            notes.append(found[k] + here)
            said.append({**name, "trusted": models.trusted[k], **kind, "notes": notes[-1]})
            for m, text in enumerate(where.at):
                row = {**name, "at": text, "prediction": float(values[k, m]), **kind}
                bounds = {"low": float(low[m]), "high": float(high[m])} if where.interval else {}
                rows.append(row | bounds)
    by_points = any(row["predicts_by"] != "formula" for row in rows)
    shown = [name for name in rows[0] if by_points or name != "predicts_by"]
    content = {"predictions": rows, "models": said}
    deliver(output, pd.DataFrame(rows), content, shown, view.top)
    say(output, notes, [(model["callpath"], model["metric"]) for model in said])


@dataclass(frozen=True)
class ModelFigure:
    """What is drawn, and where it goes."""

    figure: str = argument("FIGURE")
    metric: str | None = option("Only this metric.", "NAME", group="Input")
    at: str | None = option("Hold these parameters at a measured value.", "NAME=VALUE,..")
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
        names = [
            f"{models.measurements.callpaths[k]} ({models.measurements.metrics[k]})"
            for models, k in matching
        ]
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        raise click.UsageError(
            f"a figure shows one model: found {', '.join(names[:5]) or 'none'}{more}; "
            "choose by --callpath and --metric"
        )
    models, k = matching[0]
    held = {} if drawn.at is None else by_name(drawn.at)
    answers.scaling.save_model_figure(models, k, drawn.figure, search.options, held, drawn.interval)


# Upper ends of the classes of errors, in percent, as in figure 3 of [Calotoiu18].
CLASSES = (5, 10, 15, 20)
_OTHERS = ("callpath", "metric", "repetitions", "mean", "variation")


@sub_command("variation", command)
def variation(measured: MeasuredFile, view: RowsShown, output: Output) -> None:
    """Say how much the repetitions of each point of FILE differ.

    The variation is the standard deviation of the repetitions over their mean.

    \b
    toruscast pmnf variation times.txt
    """  # noqa: D301
    output.check()
    tables = [
        table[table["callpath"].str.contains(measured.callpath or "", regex=False)]
        for table in map(tc.scaling.variations, measured.read())
    ]
    table = pd.concat(tables, ignore_index=True)
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
class Planned:
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
    )
    budget: float | None = option("Largest cost of all runs together.", "COST")
    at: tuple[str, ...] = option(
        "With FILE: where predictions are wanted.  [default: four times the largest values]",
        "NAME=VALUE,..",
        default=(),
    )
    points: str | None = option(
        "Write the runs of the chosen plan as a CSV table.", "FILE", group="Output"
    )


@sub_command("plan", command)
def plan(asked: Planned, output: Output) -> None:
    """Say which runs to make.

    Without FILE: sets of runs, from the least that a model needs to the whole grid, with their
    cost; the richest within --budget is chosen. With FILE: the next best points beside those
    measured, by how much surer they make the predictions at --at for their cost.

    \b
    toruscast pmnf plan --values p=12,24,36,48,60 --values n=2e3,3e3,4e3,5e3,6e3 --cost p
    toruscast pmnf plan times.txt --at p=1024 --cost p --budget 500
    """  # noqa: D301
    output.check({"--points": asked.points})
    levels, budget = dict(asked.values), asked.budget
    if budget is not None and not budget > 0:
        raise click.UsageError(f"bad --budget: found {budget:g}, expected a cost above 0")
    if asked.file is None:
        if not levels or asked.at:
            raise click.UsageError("without FILE, plan needs --values, and takes no --at")
        table, chosen = _plans(asked)
    else:
        if asked.together:
            raise click.UsageError("--together takes no FILE")
        table = chosen = _next(asked, asked.file)
    if asked.points is not None:
        write_text(chosen.to_csv(index=False, lineterminator="\n"), asked.points)
    deliver(output, table, {"plan": records(table)})
    if asked.file is None and budget is not None:
        within = table[table["cost"] <= budget]
        output.message(f"the richest plan within {budget:g} is {within['plan'].iloc[-1]}")


def _plans(asked: Planned) -> tuple[pd.DataFrame, pd.DataFrame]:
    levels, budget = dict(asked.values), asked.budget
    groups = [[part.strip() for part in text.split(",")] for text in asked.together]
    table, points = tc.scaling.run_plans(levels, asked.cost, groups)
    within = table[table["cost"] <= budget] if budget is not None else table[:1]
    if within.empty:
        raise click.UsageError(
            f"no plan within --budget: found {budget:g}, expected {table['cost'].min():g} or more"
        )
    return table, pd.DataFrame(points[within["plan"].iloc[-1]], columns=list(levels))


def _next(asked: Planned, file: str) -> pd.DataFrame:
    fitted = MeasuredFile(file).fit(ModelSearch())
    if len(fitted) > 1:
        raise click.UsageError(
            f"plan needs call paths measured at the same points: found {len(fitted)} sets"
        )
    models = fitted[0][0]
    data, levels = models.measurements, dict(asked.values)
    goal = [place(text, data.parameters) for text in asked.at]
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
