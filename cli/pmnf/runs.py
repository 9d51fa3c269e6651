"""``toruscast pmnf variation``, ``errors`` and ``plan``: the runs that models are fitted to."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import click

from .. import options
from ..output import Output, records
from .measured import MeasuredPart, fitted_tables, measured_options, read_tables, search_options
from .places import place
from .tables import finish

TOP = 100
# Upper ends of the classes of errors, in percent, as in figure 3 of [Calotoiu18].
CLASSES = (5, 10, 15, 20)


@click.command("variation")
@options.file_argument
@measured_options
@options.top_option(TOP)
@options.output_record
def variation(file: str, measured: MeasuredPart, top: int, output: Output) -> None:
    """Say how much the repetitions of each point of FILE differ.

    The variation is the standard deviation of the repetitions over their mean.

    \b
    toruscast pmnf variation times.txt
    """  # noqa: D301
    output.check()
    import pandas as pd

    from toruscast.scaling import variations

    tables = [
        table[table["callpath"].str.contains(measured.callpath or "", regex=False)]
        for table in map(variations, read_tables(file, measured))
    ]
    table = pd.concat(tables, ignore_index=True)
    if table.empty:
        raise click.UsageError(f"no call path contains {measured.callpath}")
    finish(
        output, {"points": records(table)}, table, list(table.columns), top, keep=len(table.columns)
    )
    some = table["variation"].dropna()
    if some.empty:
        output.message("every point was run once: repeat runs to see how much they differ")
    else:
        worst = table.iloc[int(table["variation"].to_numpy().argsort()[len(some) - 1])]
        names = [c for c in table.columns if c not in _OTHERS]
        where = ", ".join(f"{name}={worst[name]:g}" for name in names)
        output.message(
            f"median variation {100 * some.median():.1f} %, largest {100 * some.max():.1f} % of "
            f"{worst['callpath']} ({worst['metric']}) at {where}"
        )


_OTHERS = ("callpath", "metric", "repetitions", "mean", "variation")


@click.command("errors")
@options.file_argument
@search_options
@measured_options
@options.output_record
def errors(file: str, measured: MeasuredPart, output: Output, **how: Any) -> None:
    """Fit FILE, and count the measured points by the error of their model.

    Errors are those of the models, and those of the same terms fitted to all points but one.

    \b
    toruscast pmnf errors times.txt
    """  # noqa: D301
    output.check()
    import numpy as np
    import pandas as pd

    from toruscast.scaling import FitOptions

    fitted = fitted_tables(file, measured, FitOptions(**how))
    rows: list[dict[str, Any]] = []
    parts = {
        kind: np.concatenate(
            [100 * np.abs(models.errors(left)[keep]).ravel() for models, keep in fitted]
        )
        for kind, left in (("fitted", False), ("left_out", True))
    }
    ends = [0.0, *CLASSES, np.inf]
    for low, high in pairwise(ends):
        row: dict[str, Any] = {
            "error, %": f"{low:g} to {high:g}" if high < np.inf else f"over {low:g}"
        }
        for kind, found in parts.items():
            inside = (found > low) & (found <= high) if low else found <= high
            row |= {kind: int(inside.sum()), f"{kind}_share": float(inside.mean())}
        rows.append(row)
    table = pd.DataFrame(rows)
    finish(output, {"classes": rows}, table, list(table.columns), TOP, keep=len(table.columns))


@click.command("plan")
@click.argument("file", required=False)
@click.option(
    "--values",
    multiple=True,
    metavar="NAME=V,V,..",
    help="Values of a parameter that can be run; again for each parameter.",
)
@click.option("--cost", default="1", metavar="FORMULA", help="Of a run, such as 'p' or 'p n'.")
@click.option(
    "--together",
    multiple=True,
    metavar="NAME,NAME,..",
    help="A group of parameters whose effects may multiply; again for more.",
)
@click.option("--budget", type=float, metavar="COST", help="Largest cost of all runs together.")
@click.option(
    "--at",
    "places",
    multiple=True,
    metavar="NAME=VALUE,..",
    help="With FILE: where predictions are wanted.  [default: four times the largest values]",
)
@click.option("--points", metavar="FILE", help="Write the runs of the chosen plan as a CSV table.")
@options.output_record
def plan(
    file: str | None,
    values: tuple[str, ...],
    cost: str,
    together: tuple[str, ...],
    budget: float | None,
    places: tuple[str, ...],
    points: str | None,
    output: Output,
) -> None:
    """Say which runs to make.

    Without FILE: sets of runs, from the least that a model needs to the whole grid, with their
    cost; the richest within --budget is chosen. With FILE: the next best points beside those
    measured, by how much surer they make the predictions at --at for their cost.

    \b
    toruscast pmnf plan --values p=12,24,36,48,60 --values n=2e3,3e3,4e3,5e3,6e3 --cost p
    toruscast pmnf plan times.txt --at p=1024 --cost p --budget 500
    """  # noqa: D301
    output.check({"--points": points})
    levels = {}
    for text in values:
        name, _, rest = text.partition("=")
        try:
            levels[name.strip()] = [float(part) for part in rest.split(",")]
        except ValueError:
            levels[name.strip()] = []
        if not levels[name.strip()] or not name.strip():
            raise click.UsageError(f"bad --values: found {text}, expected NAME=V,V,..")
    if budget is not None and not budget > 0:
        raise click.UsageError(f"bad --budget: found {budget:g}, expected a cost above 0")
    if file is None:
        if not levels or places:
            raise click.UsageError("without FILE, plan needs --values, and takes no --at")
        groups = [[part.strip() for part in text.split(",")] for text in together]
        table, chosen = _plans(levels, cost, groups, budget)
    else:
        if together:
            raise click.UsageError("--together takes no FILE")
        table = chosen = _next(file, levels, cost, budget, places)
    if points is not None:
        from ..output import write_text

        write_text(chosen.to_csv(index=False, lineterminator="\n"), points)
    finish(
        output, {"plan": records(table)}, table, list(table.columns), TOP, keep=len(table.columns)
    )
    if file is None and budget is not None:
        within = table[table["cost"] <= budget]
        output.message(f"the richest plan within {budget:g} is {within['plan'].iloc[-1]}")


def _plans(
    levels: dict[str, list[float]], cost: str, groups: list[list[str]], budget: float | None
) -> tuple[Any, Any]:
    import pandas as pd

    from toruscast.scaling import run_plans

    table, points = run_plans(levels, cost, groups)
    within = table[table["cost"] <= budget] if budget is not None else table[:1]
    if within.empty:
        raise click.UsageError(
            f"no plan within --budget: found {budget:g}, expected {table['cost'].min():g} or more"
        )
    return table, pd.DataFrame(points[within["plan"].iloc[-1]], columns=list(levels))


def _next(
    file: str,
    levels: dict[str, list[float]],
    cost: str,
    budget: float | None,
    places: tuple[str, ...],
) -> Any:
    from itertools import product

    import numpy as np

    from toruscast.scaling import FitOptions, next_runs

    fitted = fitted_tables(file, MeasuredPart(), FitOptions())
    if len(fitted) > 1:
        raise click.UsageError(
            f"plan needs call paths measured at the same points: found {len(fitted)} sets"
        )
    models = fitted[0][0]
    data = models.measurements
    goal = [place(text, data.parameters) for text in places]
    unknown = [name for name in levels if name not in data.parameters]
    if unknown:
        raise click.UsageError(
            f"bad --values: found {', '.join(unknown)}, expected {', '.join(data.parameters)}"
        )
    axes = [
        levels.get(name) or np.unique(column).tolist()
        for name, column in zip(data.parameters, data.points.T, strict=True)
    ]
    return next_runs(
        models,
        goal or 4 * data.points.max(axis=0, keepdims=True),
        list(product(*axes)),
        cost,
        budget,
    )
