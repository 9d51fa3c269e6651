"""``toruscast pmnf variation``, ``errors`` and ``plan``: the runs that models are fitted to."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import click

import toruscast as tc

from ..options import argument, option, sub_command
from ..output import Output, records, write_text
from ..slow import np, pd
from .fitted import MeasuredFile, ModelSearch, RowsShown, deliver, place

# Upper ends of the classes of errors, in percent, as in figure 3 of [Calotoiu18].
CLASSES = (5, 10, 15, 20)
_OTHERS = ("callpath", "metric", "repetitions", "mean", "variation")


@sub_command("variation")
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
        worst = table.iloc[int(table["variation"].to_numpy().argsort()[len(some) - 1])]
        names = [c for c in table.columns if c not in _OTHERS]
        where = ", ".join(f"{name}={worst[name]:g}" for name in names)
        output.message(
            f"median variation {100 * some.median():.1f} %, largest {100 * some.max():.1f} % of "
            f"{worst['callpath']} ({worst['metric']}) at {where}"
        )


@sub_command("errors")
def errors(measured: MeasuredFile, search: ModelSearch, output: Output) -> None:
    """Fit FILE, and count the measured points by the error of their model.

    Errors are those of the models, and those of the same terms fitted to all points but one.

    \b
    toruscast pmnf errors times.txt
    """  # noqa: D301
    output.check()
    fitted = measured.fit(search)
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
    deliver(output, table, {"classes": rows})


@dataclass(frozen=True)
class Planned:
    """Runs that can be made, what they cost, and what they are for."""

    file: str | None = argument("[FILE]")
    values: tuple[str, ...] = option(
        "Values of a parameter that can be run; again for each parameter.",
        "NAME=V,V,..",
        default=(),
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

    @property
    def levels(self) -> dict[str, list[float]]:
        """The values of each parameter."""
        levels: dict[str, list[float]] = {}
        for text in self.values:
            name, _, rest = text.partition("=")
            try:
                levels[name.strip()] = [float(part) for part in rest.split(",")]
            except ValueError:
                levels[name.strip()] = []
            if not levels[name.strip()] or not name.strip():
                raise click.UsageError(f"bad --values: found {text}, expected NAME=V,V,..")
        return levels


@sub_command("plan")
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
    levels, budget = asked.levels, asked.budget
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
    levels, budget = asked.levels, asked.budget
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
    data, levels = models.measurements, asked.levels
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
