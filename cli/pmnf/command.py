"""``toruscast pmnf``: scaling models of measurements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING, Any

import click

from .. import options
from ..names import SubCommands
from ..output import Output, check_writable
from ..records import as_record
from ..tables import new_table, print_table, top_and_bottom
from .compose import compose
from .places import APART, apart_from_formula, bounds_at, by_name, check_points, place

if TYPE_CHECKING:
    import pandas as pd

    from toruscast.scaling import FitOptions, Models

SPACES = ("default", "published", "fine")
# Applications have tens or hundreds of call paths: few tables are cut short.
TOP = 100


@click.group("pmnf", cls=SubCommands)
def command() -> None:
    """Fit scaling models to measured values, predict with them, and compose them.

    FILE is in Extra-P's text, JSON or JSON-lines format, an Extra-P project, in TaLPas's format, a
    folder of Cube profiles, or a CSV table: a row a repetition, a column "value", one for each
    parameter, and "callpath" and "metric" where there are several; "-" is stdin. fit, predict and
    compose write their tables with --json and --csv, plot draws a figure.

    \b
    toruscast pmnf fit times.txt
    toruscast pmnf predict times.txt --at p=1024,n=9000
    toruscast pmnf plot times.txt model.svg --callpath main
    """  # noqa: D301


command.add_command(compose)

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
        "--signed",
        is_flag=True,
        callback=lambda _context, _option, value: value or "auto",
        help="Let coefficients be negative where no value is: 20 - 2 log2(p). Predictions can be "
        "too.",
    ),
)


def _search_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add how models are searched."""
    for option in reversed(_SEARCH):
        function = option(function)
    return function


@dataclass(frozen=True)
class Measured:
    """What a user wants of a file of measurements."""

    callpath: str | None
    value: tuple[str, ...]


_measured_options = as_record(
    "measured",
    Measured,
    click.option("--callpath", metavar="TEXT", help="Only call paths whose name contains this."),
    click.option(
        "--value",
        multiple=True,
        metavar="COLUMN",
        help="Column of a table with the measured values, if not \"value\"; 'rep*', or one given "
        "again, for repetitions side by side.",
    ),
)


@command.command("fit")
@options.file_argument
@_search_options
@_measured_options
@options.top_option(TOP)
@options.output_record
def fit(
    file: str,
    measured: Measured,
    top: int,
    output: Output,
    **how: Any,
) -> None:
    """Fit a model to every call path and metric of FILE.

    What the measurements cannot tell is said on stderr, and for each model in the column "notes".
    --json holds the terms in full precision: coefficients, and for each parameter the exponents of
    its power and of its logarithm. Where "trusted" is false, no model meets the points within the
    noise of the repetitions, or there are none.

    \b
    toruscast pmnf fit times.txt --csv models.csv
    """  # noqa: D301
    output.check()
    import pandas as pd

    from toruscast.scaling import FitOptions
    from toruscast.scaling.pmnf.formula import named

    fitted = _fitted(file, measured, FitOptions(**how))
    table = pd.concat([m.summary().iloc[keep] for m, keep in fitted], ignore_index=True)
    notes = [found[k] for m, keep in fitted for found in [m.notes()] for k in keep]
    content: dict[str, Any] = {}
    if output.json_path is not None:
        terms = [named(m.terms(k), m.measurements.parameters) for m, keep in fitted for k in keep]
        rows = zip(table.to_dict("records"), terms, notes, strict=True)
        content["models"] = [{**row, "terms": t, "notes": n} for row, t, n in rows]
    table["notes"] = ["; ".join(some) for some in notes]
    shown = ["callpath", "metric", "formula", "smape", "adjusted_r2"]
    _finish(output, content, table, shown, top, keep=3)
    names = list(zip(table["callpath"], table["metric"], strict=True))
    _say(output, notes, names)
    apart = [some for m, keep in fitted for some in apart_from_formula(m, keep)]
    _say(output, [[APART] * some for some in apart], names)


@command.command("predict")
@options.file_argument
@click.option(
    "--at",
    "places",
    multiple=True,
    required=True,
    metavar="NAME=VALUE,..",
    help="Where to predict: a value for every parameter. May be given again.",
)
@click.option(
    "--interval",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="LEVEL",
    help="Add intervals that should hold the true value with this probability.",
)
@_search_options
@_measured_options
@options.top_option(TOP)
@options.output_record
def predict(
    file: str,
    places: tuple[str, ...],
    interval: float | None,
    measured: Measured,
    top: int,
    output: Output,
    **how: Any,
) -> None:
    """Fit FILE, and predict every call path and metric elsewhere.

    A prediction is the median over all likely models, and may differ from the formula that fit
    prints. Where no model is trusted, which --json says, the growth near the nearest points counts
    too.

    \b
    toruscast pmnf predict times.txt --at p=1024,n=9000 --interval 0.9
    """  # noqa: D301
    output.check()
    import pandas as pd

    from toruscast.scaling import FitOptions

    rows: list[dict[str, Any]] = []
    notes: list[list[str]] = []
    said: list[dict[str, Any]] = []
    search = FitOptions(**how)
    fitted = _fitted(file, measured, search)
    if interval:
        check_points([models for models, _ in fitted])
    for models, keep in fitted:
        data = models.measurements
        X = [place(text, data.parameters) for text in places]
        values = models.predict(X)
        here = models.notes_at(X)
        found = models.notes()
        bounds = bounds_at(models, X, search, interval, keep) if interval else None
        if interval and bounds is None:
            here = [*here, f"too few points for an interval: {len(data.points)}"]
        notes += [found[k] + here for k in keep]
        said += [
            {
                "callpath": data.callpaths[k],
                "metric": data.metrics[k],
                "trusted": models.trusted[k],
                "notes": found[k] + here,
            }
            for k in keep
        ]
        for row_of, k in enumerate(keep):
            for m, text in enumerate(places):
                row: dict[str, Any] = {
                    "callpath": data.callpaths[k],
                    "metric": data.metrics[k],
                    "at": text,
                }
                row["prediction"] = float(values[k, m])
                if interval:
                    row["low"], row["high"] = (
                        (float(end[row_of, m]) for end in bounds) if bounds else (nan, nan)
                    )
                rows.append(row)
    content = {"predictions": rows, "models": said}
    shown = list(rows[0])
    _finish(output, content, pd.DataFrame(rows), shown, top, keep=len(shown))
    _say(output, notes, [(model["callpath"], model["metric"]) for model in said])


@command.command("plot")
@options.file_argument
@click.argument("figure", metavar="FIGURE")
@click.option("--metric", metavar="NAME", help="Only this metric.")
@click.option(
    "--at", "fixed", metavar="NAME=VALUE,..", help="Hold these parameters at a measured value."
)
@click.option(
    "--interval",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.9,
    show_default=True,
    metavar="LEVEL",
    help="Probability of the band around a curve.",
)
@_search_options
@_measured_options
def plot(
    file: str,
    figure: str,
    metric: str | None,
    fixed: str | None,
    interval: float,
    measured: Measured,
    **how: Any,
) -> None:
    """Draw the model of one call path of FILE to FIGURE (.svg, .png or .pdf).

    One parameter gives a curve through the measurements with its interval, two give contour lines,
    three give stacked slices. Of four and more, hold some at a value.

    \b
    toruscast pmnf plot times.txt model.svg --callpath main
    toruscast pmnf plot times.txt model.png --callpath main --at n=5000
    """  # noqa: D301
    from toruscast.report.drawing import SUFFIXES
    from toruscast.report.scaling.figure import save_model_figure
    from toruscast.scaling import FitOptions

    Output().check({"FIGURE": figure})
    check_writable(figure, SUFFIXES)
    search = FitOptions(**how)
    matching = [
        (models, k)
        for models, keep in _fitted(file, measured, search)
        for k in keep
        if metric in (None, models.measurements.metrics[k])
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
    held = {} if fixed is None else by_name(fixed)
    save_model_figure(models, k, figure, search, held, interval)


def _fitted(file: str, measured: Measured, search: FitOptions) -> list[tuple[Models, list[int]]]:
    """Fit each table of a file; returns its models and which of them are wanted.

    All paths are fitted even where one is wanted: how values scatter is learnt from all of them.
    """
    from toruscast.scaling import fit_many, read_measurements

    part = measured.callpath or ""
    tables = [
        (data, [k for k in range(data.n_paths) if part in data.callpaths[k]])
        for data in read_measurements(file, measured.value)
    ]
    wanted = [(fit_many(data, search), keep) for data, keep in tables if keep]
    if not wanted:
        raise click.UsageError(f"no call path contains {part}")
    return wanted


def _say(output: Output, notes: list[list[str]], named: list[tuple[str, str]]) -> None:
    """Each kind of note once: of how many models it is true, and the first of them."""
    from toruscast.scaling.pmnf.notes import kind

    found: dict[str, list[tuple[str, tuple[str, str]]]] = {}
    for some, name in zip(notes, named, strict=True):
        for note in some:
            found.setdefault(kind(note), []).append((note, name))
    for same in found.values():
        note, (path, metric) = same[0]
        if len(named) == 1:
            output.message(note)
        else:
            output.message(f"{len(same)} of {len(named)} models, such as {path} ({metric}): {note}")


def _finish(
    output: Output,
    content: dict[str, Any],
    table: pd.DataFrame,
    shown: list[str],
    top: int,
    keep: int,
) -> None:
    """Write, and print the columns `shown`; the first of them that `keep` counts always.

    Of a long table only the first `top` rows and the last ones are printed.
    """
    output.write(content, table)
    if not output.for_people:
        return
    heads = {name: "smape, %" if name == "smape" else name for name in shown}
    left = tuple(heads[name] for name in shown if table[name].dtype.kind != "f")
    view = new_table(*heads.values(), left=left)
    rows, part = top_and_bottom(len(table), top), table[shown]
    for i in rows:
        cells = ["..."] if i is None else part.iloc[i]
        texts = [f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in cells]
        view.add_row(*["" if text == "nan" else text for text in texts])
    # Rows that are not printed may differ.
    spare = tuple(name for name in ("metric", "at") if name in shown and table[name].nunique() == 1)
    console = output.console()
    print_table(view, console, keep, spare)
    if None in rows:
        hidden = len(table) - len(rows) + 1
        console.print(
            f"({hidden} of {len(table)} rows are not shown: --top shows more, --csv and --json "
            "have all)",
            style="dim",
        )
