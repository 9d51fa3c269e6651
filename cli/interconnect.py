"""``toruscast interconnect``: what latency and bandwidth cost an application."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from toruscast.answers.tables import new_table, print_table
from toruscast.wording import closest

from . import options
from .app import SubCommands
from .output import Output, records
from .records import as_record

if TYPE_CHECKING:
    import pandas as pd

    from toruscast.scaling import Interconnect


@dataclass(frozen=True)
class JobFile:
    """A file of runs, and the units of its columns."""

    file: str
    latency_unit: str | None
    bandwidth_unit: str | None

    def read(self) -> pd.DataFrame:
        """Return the runs, with seconds and bytes."""
        from toruscast import datasets
        from toruscast.scaling import read_jobs

        units = {"latency": self.latency_unit, "bandwidth": self.bandwidth_unit}
        path = datasets.table_path(self.file) if self.file in datasets.table_names() else self.file
        return read_jobs(path, {name: unit for name, unit in units.items() if unit is not None})


@click.group("interconnect", cls=SubCommands)
def command() -> None:
    """Fit what latency and bandwidth cost an application, and ask what others would give.

    FILE is CSV with a row a run, and columns job, interconnect, latency (s), bandwidth (bytes/s),
    messages, message_bytes (mean size), elapsed (s); or lsdyna-interconnect, which is shipped; "-"
    is stdin.
    All write their tables with --json and --csv.

    \b
    toruscast interconnect fit lsdyna-interconnect
    toruscast interconnect what-if lsdyna-interconnect --latency 1e-6 --bandwidth 12e9
    toruscast interconnect speed-up lsdyna-interconnect
    """  # noqa: D301


def _file_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the file of runs, as the record ``runs``, and where the result goes."""
    return as_record(
        "runs",
        JobFile,
        options.file_argument,
        click.option(
            "--latency-unit", metavar="UNIT", help="Unit of latencies in FILE: s, ms, us, ns."
        ),
        click.option(
            "--bandwidth-unit",
            metavar="UNIT",
            help="Unit of bandwidths in FILE: B/s, kB/s, MB/s, GB/s, Mbit/s, Gbit/s.",
        ),
    )(function)


_level_option = click.option(
    "--level",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    help="Probability of the intervals.",
)


@command.command("fit")
@_file_options
@_level_option
@options.output_record
def fit(runs: JobFile, level: float, output: Output) -> None:
    """Fit the constants, and split the time of every run into communication and computation.

    A job must be there on two interconnects at least.

    \b
    toruscast interconnect fit runs.csv --csv times.csv
    """  # noqa: D301
    output.check()
    from toruscast.scaling import communication_times, fit_interconnect

    jobs = runs.read()
    model = fit_interconnect(jobs, level)
    table = communication_times(jobs, model)
    output.write({"constants": _constants(model), "runs": records(table)}, table)
    if output.for_people:
        _print_constants(output, model)
        _print_times(output, table, {"share": "{:.1%}"})
    _remark(output, model)


@command.command("what-if")
@_file_options
@click.option("--interconnect", "net", metavar="NAME", help="Only runs on this interconnect.")
@click.option(
    "--latency", type=float, metavar="SECONDS", help="Add an interconnect with this latency."
)
@click.option(
    "--bandwidth",
    type=float,
    metavar="BYTES/S",
    help="... with this bandwidth (inf: infinite). What is not given stays as it was.",
)
@click.option("--alpha", type=float, metavar="N", help="Use this constant and --beta, fit none.")
@click.option("--beta", type=float, metavar="N", help="Use this constant and --alpha, fit none.")
@options.output_record
def what_if(
    runs: JobFile,
    net: str | None,
    latency: float | None,
    bandwidth: float | None,
    alpha: float | None,
    beta: float | None,
    output: Output,
) -> None:
    """Forecast elapsed times with half and no latency, double bandwidth, and infinite speed.

    \b
    toruscast interconnect what-if runs.csv --latency 1e-6 --bandwidth 12e9
    """  # noqa: D301
    output.check()
    if (alpha is None) != (beta is None):
        raise click.UsageError("--alpha and --beta go together")
    from toruscast.scaling import SCENARIOS, Interconnect, Scenario, fit_interconnect, what_if

    jobs = runs.read()
    if alpha is not None and beta is not None:
        model = Interconnect(alpha, beta)
    else:
        model = fit_interconnect(jobs)
    if net is not None:
        known = list(dict.fromkeys(jobs["interconnect"]))
        if net not in known:
            raise click.UsageError(
                f"no run on such an interconnect: found {net}, expected {closest(net, known)}"
            )
        jobs = jobs[jobs["interconnect"] == net]
    scenarios = list(SCENARIOS)
    if latency is not None or bandwidth is not None:
        scenarios.append(Scenario("asked", latency, bandwidth))
    table = what_if(jobs, model, scenarios)
    output.write({"constants": _constants(model), "what_if": records(table)}, table)
    if output.for_people:
        _print_constants(output, model)
        _print_times(output, table, {})
    _remark(output, model)


@command.command("speed-up")
@_file_options
@click.option("--figure", metavar="FILE", help="Draw the curves to FILE (.svg, .png or .pdf).")
@options.output_record
def speed_up(runs: JobFile, figure: str | None, output: Output) -> None:
    """Split every run into communication and computation, and give its speed-up and the limit.

    FILE needs a column tasks. The speed-up is relative to the run with the fewest tasks. The limits
    are those of interconnects without latency, and of infinite speed.

    \b
    toruscast interconnect speed-up lsdyna-interconnect --figure speedup.svg
    """  # noqa: D301
    output.check({"--figure": figure})
    import pandas as pd

    from toruscast import datasets
    from toruscast.scaling import fit_interconnect, speedups

    jobs = runs.read()
    model = fit_interconnect(jobs)
    table = speedups(jobs, model)
    if runs.file == "lsdyna-interconnect":
        known = pd.read_csv(datasets.table_path("lsdyna-published"), comment="#")
        limit = known[known["scenario"] == "speed-up limit"].set_index("job")["elapsed"]
        table["published"] = table["job"].map(limit).where(table["interconnect"] == "HF2")
    if figure is not None:
        from toruscast.answers.scaling.speedup import save_speedup_figure

        save_speedup_figure(table, figure)
    output.write({"constants": _constants(model), "runs": records(table)}, table)
    if output.for_people:
        _print_constants(output, model)
        ratios = dict.fromkeys(("speed_up", "zero_latency", "infinite_speed"), "{:.2f}")
        _print_times(output, table.drop(columns="base"), {**ratios, "published": "{:.0f}"})
    _remark(output, model)


def _constants(model: Interconnect) -> dict[str, Any]:
    return {
        "alpha": model.alpha,
        "alpha_interval": model.alpha_interval,
        "beta": model.beta,
        "beta_interval": model.beta_interval,
        "level": model.level,
        "residual": model.residual,
        "jobs": model.n_jobs,
    }


def _print_constants(output: Output, model: Interconnect) -> None:
    console = output.console()
    for name, value, (low, high), what in (
        ("alpha", model.alpha, model.alpha_interval, "latencies a message"),
        ("beta", model.beta, model.beta_interval, "transmission times a message"),
    ):
        given = "" if math.isnan(low) else f", {model.level:.0%} interval {low:.3f} to {high:.3f}"
        console.print(f"{name:5} {value:.3f} {what}{given}")
    if not math.isnan(model.residual):
        console.print(
            f"{model.n_jobs} jobs; a difference of two runs is left with a standard deviation of "
            f"{model.residual:.0f} s"
        )
    console.print()


def _print_times(output: Output, table: pd.DataFrame, formats: dict[str, str]) -> None:
    """Print a table of seconds."""
    titles = {name: str(name).replace("_", " ") for name in table.columns}
    words = tuple(titles[name] for name in table.columns if table[name].dtype.kind != "f")
    view = new_table(*titles.values(), left=words)
    longest = table.select_dtypes("number").abs().max().max()
    digits = 0 if longest >= 1000 else 3
    for row in table.itertuples(index=False):
        view.add_row(
            *(
                ("" if math.isnan(cell) else formats.get(name, f"{{:.{digits}f}}").format(cell))
                if isinstance(cell, float)
                else str(cell)
                for name, cell in zip(table.columns, row, strict=True)
            )
        )
    console = output.console()
    console.print("Times in seconds.")
    print_table(view, console, keep=3)


def _remark(output: Output, model: Interconnect) -> None:
    """Say which constants the jobs do not establish."""
    for name, (low, high) in (("alpha", model.alpha_interval), ("beta", model.beta_interval)):
        if low <= 0 <= high:
            output.message(
                f"the interval of {name} holds 0: these jobs do not establish that it matters"
            )
