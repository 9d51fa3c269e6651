"""``toruscast interconnect``: what latency and bandwidth cost an application."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import click

import toruscast as tc
from toruscast import answers, datasets
from toruscast._slow import pandas as pd
from toruscast.answers.table import Kind, Table, records
from toruscast.text import closest, percent

from .app import SubCommands
from .options import Level, argument, option, sub_command
from .output import Output


@dataclass(frozen=True)
class JobFile:
    """A file of runs, and the units of its columns."""

    file: str = argument("FILE")
    latency_unit: str | None = option(
        "Unit of latencies in FILE: s, ms, us, ns.", "UNIT", group="Input"
    )
    bandwidth_unit: str | None = option(
        "Unit of bandwidths in FILE: B/s, kB/s, MB/s, GB/s, Mbit/s, Gbit/s.", "UNIT", group="Input"
    )

    def read(self) -> pd.DataFrame:
        """Return the runs, with seconds and bytes; "-" is stdin."""
        units = {"latency": self.latency_unit, "bandwidth": self.bandwidth_unit}
        file = "/dev/stdin" if self.file == "-" else self.file
        path = datasets.table_path(file) if file in datasets.table_names() else file
        return tc.scaling.read_jobs(
            path, {name: unit for name, unit in units.items() if unit is not None}
        )


@dataclass(frozen=True)
class OtherNetwork:
    """Other interconnects, and constants that are known."""

    interconnect: str | None = option("Only runs on this interconnect.", "NAME")
    latency: float | None = option("Add an interconnect with this latency.", "SECONDS")
    bandwidth: float | None = option(
        "... with this bandwidth (inf: infinite). Other constants stay as they were.", "BYTES/S"
    )
    alpha: float | None = option("Use this constant and --beta, fit none.", "N", needs=("beta",))
    beta: float | None = option("Use this constant and --alpha, fit none.", "N", needs=("alpha",))


@dataclass(frozen=True)
class SpeedUp:
    """What is drawn."""

    figure: str | None = option(
        "Draw the curves to FILE (.svg, .png or .pdf).", "FILE", group="Output"
    )


@click.group("interconnect", cls=SubCommands)
def command() -> None:
    """Fit what latency and bandwidth cost an application, and ask what others would give.

    FILE is CSV with a row a run, and columns job, interconnect, latency (s), bandwidth (bytes/s),
    messages, message_bytes (mean size; both empty if unknown), elapsed (s); or lsdyna-interconnect,
    which is shipped; "-" is stdin.
    All write their tables with --json and --csv.

    \b
    toruscast interconnect fit lsdyna-interconnect
    toruscast interconnect what-if lsdyna-interconnect --latency 1e-6 --bandwidth 12e9
    toruscast interconnect speed-up lsdyna-interconnect
    """  # noqa: D301


@sub_command("fit", command)
def fit(runs: JobFile, sure: Level, output: Output) -> None:
    """Fit the constants, and split the time of every run into communication and computation.

    A job must be there on two interconnects at least.

    \b
    toruscast interconnect fit runs.csv --csv times.csv
    """  # noqa: D301
    output.check()
    jobs = runs.read()
    model = tc.scaling.fit_interconnect(jobs, sure.level)
    table = tc.scaling.communication_times(jobs, model)
    _deliver(output, model, table, "runs")


@sub_command("what-if", command)
def what_if(runs: JobFile, asked: OtherNetwork, output: Output) -> None:
    """Forecast elapsed times with half and no latency, double bandwidth, and infinite speed.

    \b
    toruscast interconnect what-if runs.csv --latency 1e-6 --bandwidth 12e9
    """  # noqa: D301
    output.check()
    jobs = runs.read()
    if asked.alpha is not None and asked.beta is not None:
        model = tc.scaling.Interconnect(asked.alpha, asked.beta)
    else:
        model = tc.scaling.fit_interconnect(jobs)
    net = asked.interconnect
    if net is not None:
        known = list(dict.fromkeys(jobs["interconnect"]))
        if net not in known:
            raise click.UsageError(
                f"no run on such an interconnect: found {net}, expected {closest(net, known)}"
            )
        jobs = jobs[jobs["interconnect"] == net]
    scenarios = list(tc.scaling.SCENARIOS)
    if asked.latency is not None or asked.bandwidth is not None:
        scenarios.append(tc.scaling.Scenario("asked", asked.latency, asked.bandwidth))
    _deliver(output, model, tc.scaling.what_if(jobs, model, scenarios), "what_if")


@sub_command("speed-up", command)
def speed_up(runs: JobFile, drawn: SpeedUp, output: Output) -> None:
    """Split every run into communication and computation, and give its speed-up and the limit.

    FILE needs a column tasks. The speed-up is relative to the run with the fewest tasks that agrees
    in all further columns, such as precision. The limits are those of interconnects without
    latency, and of infinite speed.

    \b
    toruscast interconnect speed-up lsdyna-interconnect --figure speedup.svg
    """  # noqa: D301
    output.check({"--figure": drawn.figure})
    if drawn.figure is not None:
        answers.figures.check_figure(drawn.figure)
    jobs = runs.read()
    model = tc.scaling.fit_interconnect(jobs)
    table = tc.scaling.speedups(jobs, model)
    if runs.file == "lsdyna-interconnect":
        known = pd.read_csv(datasets.table_path("lsdyna-published"), comment="#")
        limit = known[known["scenario"] == "speed-up limit"].set_index("job")["elapsed"]
        table["published"] = table["job"].map(limit).where(table["interconnect"] == "HF2")
    if drawn.figure is not None:
        answers.scaling.save_speedup_figure(table, drawn.figure)
    _deliver(output, model, table, "runs")


# Kind and digits of columns that are no seconds.
_RATIOS: dict[str, tuple[Kind, int]] = {
    **dict.fromkeys(("speed_up", "zero_latency", "infinite_speed"), ("decimal", 2)),
    "share": ("share", 1),
}


def _deliver(output: Output, model: tc.scaling.Interconnect, table: pd.DataFrame, key: str) -> None:
    """Write the constants and a table of seconds; say which constants the jobs do not establish."""
    constants = asdict(model)
    constants["jobs"] = constants.pop("n_jobs")
    seconds = 0 if table.select_dtypes("number").abs().max().max() >= 1000 else 3
    columns = []
    unused = ["base", *["kind"] * ("kind" in table and not table["kind"].any())]
    for column in Table(table.drop(columns=unused, errors="ignore")).shown:
        if column.kind == "general":
            kind, digits = _RATIOS.get(column.name, ("decimal", seconds))
            column = replace(column, kind=kind, digits=digits)
        columns.append(column)
    content: dict[str, Any] = {"constants": constants, key: records(table)}
    head, *notes = _constants(model)
    notes.append("Times in seconds:")
    shown = Table(table, columns)
    output.deliver(answers.blocks.of_table(head, shown, notes=notes, content=content))
    for name, (low, high) in (("alpha", model.alpha_interval), ("beta", model.beta_interval)):
        if low <= 0 <= high:
            output.message(
                f"the interval of {name} holds 0: these jobs do not establish that it matters"
            )


def _constants(model: tc.scaling.Interconnect) -> list[str]:
    lines = []
    for name, value, (low, high), what in (
        ("alpha", model.alpha, model.alpha_interval, "latencies a message"),
        ("beta", model.beta, model.beta_interval, "transmission times a message"),
    ):
        interval = f", {percent(model.level, digits=6)} interval {low:.3f} to {high:.3f}"
        lines.append(f"{name:5} {value:.3f} {what}{'' if math.isnan(low) else interval}")
    if not math.isnan(model.residual):
        lines.append(
            f"{model.n_jobs} jobs; the residuals of differences of two runs have a standard "
            f"deviation of {model.residual:.0f} s"
        )
    return lines
