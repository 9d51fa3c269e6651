"""``toruscast pmnf compose``: models of parallel programs from models of their tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from toruscast.answers.tables import new_table, print_table

from .. import options
from ..output import Output, records
from ..placing_options import POSITIVE
from ..records import as_record
from .places import by_name

if TYPE_CHECKING:
    import pandas as pd

    from toruscast.scaling import Expression, Formula

LEAST_SIZES = 3
MEASURED = ("error", "median_error", "largest_error")
LEFT = (
    "expression",
    "normal_form",
    "formula",
    "latency_formula",
    "at",
    "slowest",
    "stage",
    "task",
    "pattern",
    "composed",
    "measured",
)


@dataclass(frozen=True)
class Measuring:
    """Whether tasks are measured on this machine, and how."""

    measure: bool = False
    repetitions: int | None = None
    sizes: str | None = None


_measuring_options = as_record(
    "measuring",
    Measuring,
    click.option(
        "--measure",
        is_flag=True,
        help="Run nop, inc and qsort here, alone and in patterns; fit, compose and compare.",
    ),
    click.option(
        "--repetitions",
        type=POSITIVE,
        metavar="N",
        help="With --measure: runs of each that count.  [default: 5]",
    ),
    click.option(
        "--sizes",
        metavar="N,N,..",
        help="With --measure: integers in an item, three sizes at least.  "
        "[default: 1024 to 262144, doubled]",
    ),
)


@click.command("compose")
@click.argument("expressions", metavar="[EXPRESSION]...", nargs=-1)
@click.option(
    "--task",
    "tasks",
    multiple=True,
    metavar="NAME=FORMULA|FILE",
    help="Model of a sequential task, such as qsort='0.03899 n log2(n)', or the file that pmnf "
    "fit --json wrote, of which the call path NAME is taken. May be given again.",
)
@click.option(
    "--at",
    "places",
    multiple=True,
    metavar="NAME=VALUE,..",
    help="Where to predict; with --range, the other parameters. May be given again.",
)
@click.option(
    "--range",
    "span",
    metavar="NAME=LOW..HIGH",
    help="Say which stage is the slowest where in this range.",
)
@click.option(
    "--workers",
    type=POSITIVE,
    metavar="N",
    help="With --at: give N more workers to the slowest stages, and say what each gains.",
)
@click.option(
    "--against", metavar="FORMULA", help="With --at: the error from this model, in percent."
)
@_measuring_options
@options.output_record
def compose(
    expressions: tuple[str, ...],
    tasks: tuple[str, ...],
    places: tuple[str, ...],
    span: str | None,
    workers: int | None,
    against: str | None,
    measuring: Measuring,
    output: Output,
) -> None:
    """Compose models of sequential tasks into those of task pools and pipelines.

    EXPRESSION is a task, tpool_T(EXPRESSION) for a pool of T workers, pipe(EXPRESSION, ...), or a
    pattern in which T workers share an item of size n: scan_T(SCAN, COMBINE) or dac_T(DIVIDE,
    SOLVE, MERGE). Times are per item in the steady state; the latency is the time of one item
    that never waits. --csv holds the last table of those shown.

    \b
    toruscast pmnf compose 'pipe(tpool_4(qsort), inc)' --at n=1024
        --task qsort='0.03899 n log2(n)' --task inc='0.02599 n'
    toruscast pmnf compose --measure
    """  # noqa: D301
    output.check()
    if measuring.measure:
        if tasks or places or any(each is not None for each in (span, workers, against)):
            raise click.UsageError(
                "--measure takes no --task, --at, --range, --workers or --against"
            )
        _measure(output, expressions, measuring)
        return
    if not expressions:
        raise click.UsageError("nothing to compose: expected an EXPRESSION or --measure")
    if measuring.repetitions is not None or measuring.sizes is not None:
        raise click.UsageError("--repetitions and --sizes need --measure")
    if against is not None and (span is not None or not places):
        raise click.UsageError("--against needs --at, and takes no --range")
    if span is not None and len(places) > 1:
        raise click.UsageError("--range takes one --at, with the other parameters")
    if workers is not None and (span is not None or len(places) != 1):
        raise click.UsageError("--workers needs one --at, and takes no --range")
    _compose(output, expressions, tasks, places, span, workers, against)


def _compose(
    output: Output,
    expressions: tuple[str, ...],
    tasks: tuple[str, ...],
    places: tuple[str, ...],
    span: str | None,
    workers: int | None,
    against: str | None,
) -> None:
    from toruscast.scaling import composed, replicate, sequential
    from toruscast.scaling.composition.stage import check_names

    known: dict[str, Expression] = {}
    for text in tasks:
        name, mark, formula = text.partition("=")
        if not mark or name.strip() in known:
            found = text if not mark else f"{name.strip()} twice"
            raise click.UsageError(f"bad --task: found {found}, expected NAME=FORMULA")
        known[name.strip()] = sequential(name.strip(), _model(name.strip(), formula))
    programs = [composed(text, known) for text in expressions]
    reference = None if against is None else sequential("reference", against)
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
    for text in places:
        check_names(parameters, by_name(text))
    if span is not None:
        name, low, high = _span(span)
        fixed = by_name(places[0]) if places else {}
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
    elif places:
        tables["predictions"] = [
            _prediction(p, text, reference) for p in programs for text in places
        ]
    if workers is not None:
        tables["workers"] = []
        for p in programs:
            better, steps = replicate(p, workers, _of(by_name(places[0]), p))
            tables["workers"] += [{"expression": str(p), **row} for row in records(steps)]
            output.message(f"{p} with {len(steps)} more workers: {better}")
    _finish(output, dict(tables), {name: _frame(rows) for name, rows in tables.items()})


def _model(name: str, text: str) -> str | Formula:
    """Return a formula, or that of a file of fitted models."""
    from toruscast.scaling import read_formulas

    if not text.strip().endswith(".json"):
        return text
    formulas = read_formulas(text.strip())
    own = [path for path in formulas if path[0] == name] or list(formulas)
    if len(own) > 1:
        raise click.UsageError(
            f"--task {name}: {text} holds several models: found "
            f"{'; '.join(map(', '.join, own))}, expected one, or one of the call path {name}"
        )
    return formulas[own[0]]


def _prediction(program: Expression, text: str, reference: Expression | None) -> dict[str, Any]:
    at = by_name(text)
    own = _of(at, program)
    row: dict[str, Any] = {"expression": str(program), "at": text}
    row["prediction"] = float(program.predict(own))
    row["asymptotic"] = float(program.predict(own, "asymptotic"))
    row["latency"] = float(program.latency(own))
    if reference:
        row["error"] = 100 * float(program.relative_error(reference, own | _of(at, reference)))
    return row


def _of(at: dict[str, float], program: Expression) -> dict[str, float]:
    """Values of its parameters; the rest is for other expressions."""
    return {name: value for name, value in at.items() if name in program.parameters}


def _measure(output: Output, expressions: tuple[str, ...], measuring: Measuring) -> None:
    import os

    import numpy as np

    from toruscast.scaling.composition.measure import EXPRESSIONS, QUIET, SIZES, compare, measure
    from toruscast.scaling.pmnf.notes import of_points

    sizes = measuring.sizes
    try:
        items = SIZES if sizes is None else tuple(int(size) for size in sizes.split(","))
    except ValueError:
        raise click.UsageError(
            f"bad --sizes: found {sizes}, expected whole numbers, such as 64,128,256"
        ) from None
    if len(set(items)) < LEAST_SIZES:
        raise click.UsageError(
            f"bad --sizes: found {sizes}, expected at least {LEAST_SIZES} different ones to fit"
        )
    with output.progress("Measuring") as progress:
        rows = measure(
            expressions or EXPRESSIONS, items, measuring.repetitions or 5, progress=progress
        )
    tasks, table = compare(rows)
    models = [
        {
            "task": name,
            "formula": task.formula(4),
            "waited": float(rows.loc[rows["pattern"] == name, "waited"].median()),
        }
        for name, task in tasks.items()
    ]
    content = {
        "processors": os.cpu_count(),
        "tasks": models,
        "comparison": records(table),
        "measurements": records(rows),
    }
    # What does not fit into a terminal is left out from the end.
    order = ["pattern", *MEASURED, "composed", "measured", "waited"]
    tables = {"tasks": _frame(models), "comparison": table.reindex(columns=order)}
    _finish(output, content, {name: frame for name, frame in tables.items() if len(frame)})
    for note in of_points(["n"], np.unique(rows[["n"]].to_numpy(float), axis=0), [0]):
        output.message(note)
    disturbed = float((rows["waited"] > QUIET).mean())
    if disturbed > 0:
        output.message(
            f"in {100 * disturbed:.0f} % of the runs kept, workers waited for a processor for more "
            f"than {100 * QUIET:.0f} % of the time: other programs were running, or workers "
            f"outnumber the {os.cpu_count()} processors"
        )


def _span(text: str) -> tuple[str, float, float]:
    name, _, bounds = text.partition("=")
    low, _, high = bounds.partition("..")
    try:
        return name.strip(), float(low), float(high)
    except ValueError:
        raise click.UsageError(f"bad --range: found {text}, expected NAME=LOW..HIGH") from None


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(rows)


def _finish(output: Output, content: dict[str, Any], tables: dict[str, pd.DataFrame]) -> None:
    output.write(content, list(tables.values())[-1])
    if not output.for_people:
        return
    console = output.console()
    for number, frame in enumerate(tables.values()):
        heads = [_heading(name) for name in frame.columns]
        view = new_table(*heads, left=tuple(_heading(name) for name in LEFT))
        for row in frame.itertuples(index=False):
            view.add_row(*[f"{c:.4g}" if isinstance(c, float) else str(c) for c in row])
        if number:
            console.print()
        print_table(view, console, keep=4)


def _heading(name: str) -> str:
    """Name of a column for people, with its unit."""
    unit = {"waited": "\nshare"} | dict.fromkeys(MEASURED, "\n%")
    return name.replace("_", " ") + unit.get(name, "")
