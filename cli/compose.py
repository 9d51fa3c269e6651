"""``toruscast pmnf compose``: models of parallel programs from models of their tasks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import click

import toruscast as tc
from toruscast import answers

from .options import argument, option, read_pair, sub_command
from .output import Output, records
from .slow import pd, stage


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
        stage.check_names(parameters, by_name(text))
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
    frames = [pd.DataFrame(rows) for rows in tables.values()]
    blocks = [answers.blocks.frame_block(frame, keep=4) for frame in frames]
    output.deliver(answers.blocks.of_table("", *blocks, rows=frames[-1], content=dict(tables)))


def _tasks(tasks: tuple[tuple[str, str], ...]) -> dict[str, tc.scaling.Expression]:
    """Return the models of sequential tasks by name."""
    known: dict[str, tc.scaling.Expression] = {}
    for name, formula in tasks:
        if name in known:
            raise click.UsageError(f"bad --task: found {name} twice, expected each name once")
        known[name] = tc.scaling.sequential(name, _model(name, formula))
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
