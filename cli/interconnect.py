"""``toruscast interconnect``: the cost of latency and bandwidth for an application."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import click

import toruscast as tc
from toruscast import answers, datasets
from toruscast._slow import pandas as pd
from toruscast.answers.table import Kind, Table, records
from toruscast.text import closest, percent, seconds

from .app import CommandGroup
from .options import LevelOptions, argument, option, sub_command
from .output import Output


@dataclass(frozen=True)
class _RunFileOptions:
    file: str = argument("FILE")
    latency_unit: str | None = option(
        "Unit of latencies in FILE: s, ms, us, ns.", "UNIT", group="Input"
    )
    bandwidth_unit: str | None = option(
        "Unit of bandwidths in FILE: B/s, kB/s, MB/s, GB/s, Mbit/s, Gbit/s.", "UNIT", group="Input"
    )

    def read(self) -> pd.DataFrame:
        units = {"latency": self.latency_unit, "bandwidth": self.bandwidth_unit}
        file = "/dev/stdin" if self.file == "-" else self.file
        path = datasets.table_path(file) if file in datasets.table_names() else file
        return tc.scaling.read_jobs(
            path, {name: unit for name, unit in units.items() if unit is not None}
        )


@dataclass(frozen=True)
class _WhatIfOptions:
    interconnect: str | None = option("Only runs on this interconnect.", "NAME")
    latency: float | None = option("Add an interconnect with this latency.", "SECONDS")
    bandwidth: float | None = option(
        "Bandwidth of the added interconnect (inf: infinite). Without --latency or "
        "--bandwidth, its value is unchanged.",
        "BYTES/S",
    )
    alpha: float | None = option("Use this constant without a fit.", "N", needs=("beta",))
    beta: float | None = option("Use this constant without a fit.", "N", needs=("alpha",))


@click.group("interconnect", cls=CommandGroup)
def command() -> None:
    """Fit the cost of latency and bandwidth for an application, and predict other networks.

    FILE is CSV with a row per run, and columns job, interconnect, latency (s), bandwidth (bytes/s),
    messages, message_bytes (mean size; both empty if unknown), elapsed (s); or the shipped
    lsdyna-interconnect; "-" is stdin. All commands write their tables with --json and --csv.

    \b
    toruscast interconnect fit lsdyna-interconnect
    toruscast interconnect what-if lsdyna-interconnect --latency 1e-6 --bandwidth 12e9
    toruscast interconnect speed-up lsdyna-interconnect
    """  # noqa: D301


@sub_command("fit", command)
def fit(runs: _RunFileOptions, intervals: LevelOptions, output: Output) -> None:
    """Fit the constants, and split the time of every run into communication and computation.

    A job needs runs on two interconnects.

    \b
    toruscast interconnect fit runs.csv --csv times.csv
    """  # noqa: D301
    output.check()
    jobs = runs.read()
    model = tc.scaling.fit_interconnect(jobs, intervals.level)
    _write_answer(output, model, tc.scaling.communication_times(jobs, model), "runs")


@sub_command("what-if", command)
def what_if(runs: _RunFileOptions, options: _WhatIfOptions, output: Output) -> None:
    """Predict elapsed times with half the latency, no latency, double bandwidth, or infinite speed.

    \b
    toruscast interconnect what-if runs.csv --latency 1e-6 --bandwidth 12e9
    """  # noqa: D301
    output.check()
    jobs = runs.read()
    if options.alpha is not None and options.beta is not None:
        model = tc.scaling.Interconnect(options.alpha, options.beta)
    else:
        model = tc.scaling.fit_interconnect(jobs)
    name = options.interconnect
    if name is not None:
        known = list(dict.fromkeys(jobs["interconnect"]))
        if name not in known:
            raise click.UsageError(
                f"no run on this interconnect: found {name}, expected {closest(name, known)}"
            )
        jobs = jobs[jobs["interconnect"] == name]
    scenarios = list(tc.scaling.SCENARIOS)
    if options.latency is not None or options.bandwidth is not None:
        scenarios.append(tc.scaling.Scenario("asked", options.latency, options.bandwidth))
    _write_answer(output, model, tc.scaling.what_if(jobs, model, scenarios), "what_if")


@sub_command("speed-up", command)
def speed_up(runs: _RunFileOptions, output: Output) -> None:
    """Split every run into communication and computation; report its speed-up and the limit.

    FILE needs a column tasks. The speed-up is relative to the run with the fewest tasks and
    the same values in all other columns, such as precision. The limits are for an interconnect
    without latency, and for one with infinite speed.

    \b
    toruscast interconnect speed-up lsdyna-interconnect --figures curves
    """  # noqa: D301
    output.check()
    jobs = runs.read()
    model = tc.scaling.fit_interconnect(jobs)
    table = tc.scaling.speedups(jobs, model)
    if runs.file == "lsdyna-interconnect":
        published = pd.read_csv(datasets.table_path("lsdyna-published"), comment="#")
        limits = published[published["scenario"] == "speed-up limit"].set_index("job")["elapsed"]
        table["published"] = table["job"].map(limits).where(table["interconnect"] == "HF2")
    _write_answer(output, model, table, "runs", *answers.scaling.speedup_charts(table))


# Kind and digits of the columns that are ratios. All other numbers are in seconds.
_RATIOS: dict[str, tuple[Kind, int]] = {
    **dict.fromkeys(("speed_up", "zero_latency", "infinite_speed"), ("decimal", 2)),
    "share": ("share", 1),
}


def _write_answer(
    output: Output,
    model: tc.scaling.Interconnect,
    table: pd.DataFrame,
    key: str,
    *charts: answers.blocks.Chart,
) -> None:
    """Write the constants and a table of times; warn if a constant may be zero."""
    constants = asdict(model)
    constants["jobs"] = constants.pop("n_jobs")
    # Long times need no milliseconds.
    seconds_digits = 0 if table.select_dtypes("number").abs().max().max() >= 1000 else 3
    columns = []
    unused = ["base"] if "kind" not in table or table["kind"].any() else ["base", "kind"]
    for column in Table(table.drop(columns=unused, errors="ignore")).visible_columns:
        if column.kind == "general":
            kind, digits = _RATIOS.get(column.name, ("decimal", seconds_digits))
            column = replace(column, kind=kind, digits=digits)
        columns.append(column)
    content: dict[str, Any] = {"constants": constants, key: records(table)}
    head, *notes = _describe_constants(model)
    notes.append("Times in seconds:")
    printed = Table(table, columns)
    output.write_table(
        head, printed, *charts, notes=notes, content=content, title="Cost of the interconnect"
    )
    for name, (low, high) in (("alpha", model.alpha_interval), ("beta", model.beta_interval)):
        if low <= 0 <= high:
            output.message(
                f"the interval of {name} contains 0, so these jobs do not show that it matters"
            )


def _describe_constants(model: tc.scaling.Interconnect) -> list[str]:
    """Return a line for alpha and for beta, and one for the residuals."""
    lines = []
    for name, value, (low, high), unit in (
        ("alpha", model.alpha, model.alpha_interval, "latencies per message"),
        ("beta", model.beta, model.beta_interval, "transmission times per message"),
    ):
        interval = f", {percent(model.level, digits=6)} interval {low:.3f} to {high:.3f}"
        lines.append(f"{name:5} {value:.3f} {unit}{'' if math.isnan(low) else interval}")
    if not math.isnan(model.residual):
        lines.append(
            f"{model.n_jobs} jobs; standard deviation of the residuals of run differences: "
            f"{seconds(model.residual)}"
        )
    return lines
