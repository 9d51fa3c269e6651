"""``toruscast codesign``: requirements of applications on upgraded or other machines."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import click

import toruscast as tc
from toruscast import datasets
from toruscast._slow import pandas as pd
from toruscast.answers import svg
from toruscast.answers.blocks import Chart
from toruscast.answers.table import Column, Table, records
from toruscast.text import counted, joined, number, rounded

from .app import CommandGroup
from .options import (
    collect_by_name,
    multi_option,
    named_numbers_reader,
    option,
    read_numbers,
    read_pair,
    refuse_options,
    sub_command,
)
from .output import Output

# Ratios were published with one decimal, so their rounding error is at most this.
RATIO_ROUNDING = 0.05
NamedNumbers = tuple[str, list[float]]
_DIFFERENCE_NOTE = "* differs from the published value; docs/scaling/codesign.md explains why"


def with_published(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Add the columns of a published table to the matching rows: same application, system etc."""
    keys = ["application", "system" if "system" in table else "requirement"]
    published = pd.read_csv(datasets.table_path(name), comment="#").set_index(keys)
    if "system" in table:
        published = published.add_prefix("published_")
    else:
        keys.append("upgrade")
        published = published.melt(
            ignore_index=False, var_name="upgrade", value_name="published"
        ).set_index("upgrade", append=True)
    both = table.join(published, on=keys)
    # Make the reasons the last column.
    return both.assign(reason=both.pop("reason"))


def agrees(value: float, published: float) -> bool:
    """Whether a value equals the published value when rounded to as many significant digits."""
    if math.isnan(value) or math.isnan(published):
        return math.isnan(value) and math.isnan(published)
    mantissa = f"{published:.12e}".split("e")[0]
    n_digits = max(len(re.sub(r"\D", "", mantissa).rstrip("0")), 1)
    return float(f"{value:.{n_digits - 1}e}") == published


@click.group("codesign", cls=CommandGroup)
def command() -> None:
    """Predict from requirement models how applications use an upgraded or another machine.

    Applications are kripke, lulesh, milc, relearn, icofoam (published models), TOML or JSON files
    with a table of expressions in p (processes) and n (problem size per process) as below, the
    output of pmnf fit --json, or measurements, to which models are fitted. All commands write their
    tables with --json and --csv.

    \b
    [requirements]
    bytes_used = "1e5 * n * log(n)"
    flop = "1e7 * n * log2(p)"
    """  # noqa: D301


@dataclass(frozen=True)
class _ApplicationOptions:
    GROUP: ClassVar = "Input"
    app: tuple[str, ...] = multi_option(
        "Published application, file with models, or measurements.  [default: the five published]",
        "NAME|FILE",
    )
    metric: tuple[tuple[str, str], ...] = multi_option(
        "Metric of the measurements for a requirement, such as bytes_used=VmPeak.",
        "REQUIREMENT=NAME",
        type=read_pair,
        needs=("app",),
    )
    callpath: str | None = option("Call path of the measurements to use.", "NAME", needs=("app",))
    printed: bool = option(
        "Use the published models as printed, without corrections.",
        default=False,
    )

    def read(self) -> list[tc.scaling.Application]:
        """Return the applications; raise if an option has no effect on them."""
        names = self.app or tuple(tc.scaling.application_names())
        # A name that contains a folder or a suffix is a file.
        files = [name for name in names if Path(name).name != name or Path(name).suffix]
        if not files:
            refuse_options("needs --app FILE of measurements or models", "metric", "callpath")
        if len(files) == len(names):
            refuse_options("needs a published application", "printed")
        metrics = collect_by_name("--metric", self.metric)
        applications = [
            tc.scaling.read_application(name, metrics, self.callpath)
            if name in files
            else tc.scaling.application(name, self.printed)
            for name in names
        ]
        found = [app.name for app in applications]
        if len(set(found)) < len(found):
            raise click.UsageError(f"applications need different names: found {', '.join(found)}")
        return applications


@dataclass(frozen=True)
class _UpgradeOptions:
    processes: float | None = option("Processes before the upgrade.  [default: 1e5]", "N")
    memory: float | None = option(
        "Memory per process before the upgrade.  [default: 1e12]", "BYTES"
    )
    upgrade: tuple[NamedNumbers, ...] = multi_option(
        "Factors of processes and of memory per process.  [default: "
        "A=2,1 (double racks), B=2,0.5 (double sockets), C=1,2 (double memory)]",
        "NAME=P,M",
        type=named_numbers_reader(2, 2),
    )
    by: Sequence[float] | None = option(
        "Apply the default upgrades with factors other than 2, such as 2,4,8.",
        "K,K,..",
        type=read_numbers,
        excludes=("upgrade",),
    )


@sub_command("upgrade", command)
def upgrade(source: _ApplicationOptions, options: _UpgradeOptions, output: Output) -> None:
    """Compute the requirements of a process after an upgrade, relative to those before it.

    The problem fills the memory before and after. The table also has the ratio with logarithms held
    constant ("growth") and, with the default --processes and --memory, the published value.

    \b
    toruscast codesign upgrade --app solver.toml --processes 4096 --memory 4e9
    toruscast codesign upgrade --app runs.csv --metric bytes_used=VmPeak --by 2,4,8
    """  # noqa: D301
    output.check()
    default_base = replace(tc.scaling.LARGE_BASE, name="before")
    sizes = {"processes": options.processes, "memory": options.memory}
    changes: dict[str, Any] = {name: size for name, size in sizes.items() if size is not None}
    base = replace(default_base, **changes)
    upgrades = [tc.scaling.Upgrade(name, *factors) for name, factors in options.upgrade]
    sets: dict[str, Sequence[tc.scaling.Upgrade]] = {"": upgrades or tc.scaling.UPGRADES}
    if options.by is not None:
        sets = {f"{k:g}": tc.scaling.upgrades_by(k) for k in options.by}
    ratios = [
        tc.scaling.upgrade_ratios(app, base, changed).assign(**({"by": by} if by else {}))
        for app in source.read()
        for by, changed in sets.items()
    ]
    table = pd.concat(ratios, ignore_index=True)
    if options.by is None and not upgrades and base == default_base:
        table = with_published(table, "codesign-upgrades")
    content = {"processes": base.processes, "memory": base.memory, "ratios": records(table)}
    printed, notes = _tabulate_upgrades(table)
    _write_answer(output, printed, table, content, below=notes)


def _tabulate_upgrades(table: pd.DataFrame) -> tuple[Table, list[str]]:
    """Return a table (with a row per requirement, and columns for each upgrade) and notes."""
    notes = ["growth: the ratio with logarithms held at their value before the upgrade"]
    keys = ["application", "requirement", *(["by"] if "by" in table else [])]
    prefixes = {"ratio": "", "growth_ratio": "growth of "}
    if "published" in table and table["published"].notna().any():
        differs = (table["growth_ratio"] - table["published"]).abs() > RATIO_ROUNDING
        table = table.assign(published=_mark_differences(table["published"], differs))
        prefixes["published"] = "published of "
        notes.append(_DIFFERENCE_NOTE)
    wide = table.pivot(index=keys, columns="upgrade", values=[*prefixes])
    # Restore the order of the rows, because pivot sorts them.
    wide = wide.loc[list(dict.fromkeys(table[keys].itertuples(index=False, name=None)))]
    columns = [Column(name, kind="name") for name in keys]
    for name in dict.fromkeys(table["upgrade"]):
        for value, prefix in prefixes.items():
            kind: Literal["text", "number"] = "text" if value == "published" else "number"
            columns.append(Column(f"{value} {name}", f"{prefix}{name}", kind))
    wide.columns = wide.columns.map(" ".join)
    frame = wide.reset_index()
    frame["requirement"] = frame["requirement"].str.replace("_", " ")
    return Table(frame, columns), notes


def _mark_differences(published: pd.Series, differs: pd.Series) -> list[str]:
    """Return published values as text, with a star if the computed value differs."""
    stars = differs.map({True: "*", False: ""})
    return [f"{rounded(value, 3)}{star}" for value, star in zip(published, stars, strict=True)]


@dataclass(frozen=True)
class _SystemOptions:
    system: tuple[NamedNumbers, ...] = multi_option(
        "Processes, bytes per process, flop/s per process; optionally also bytes/s sent per "
        "process, loads and stores per second, and cache locations.  "
        "[default: three straw-man systems of 10 PB]",
        "NAME=P,M,F,..",
        type=named_numbers_reader(3, 6),
        group="Machine",
    )


@sub_command("systems", command)
def systems(source: _ApplicationOptions, options: _SystemOptions, output: Output) -> None:
    """Find the largest problem and the shortest wall time on each system.

    The wall time is for the largest problem that fits on all systems. It is determined by the
    requirement that takes longest at the system's full rate.

    \b
    toruscast codesign systems --app milc --system now=1e5,4e9,5e10 --system next=1e6,2e9,1e11
    """  # noqa: D301
    output.check()
    given = [tc.scaling.System(name, *numbers) for name, numbers in options.system]
    compared = given or tc.scaling.STRAW_MEN
    tables = [tc.scaling.compare_systems(app, compared) for app in source.read()]
    table = pd.concat(tables, ignore_index=True)
    if not given:
        table = with_published(table, "codesign-systems")
    printed, notes = _tabulate_systems(table)
    content = {"systems": records(table)}
    charts = _draw_times(table)
    lines = _describe_fastest(table)
    _write_answer(output, printed, table, content, lines, below=notes, charts=charts)


def _describe_fastest(table: pd.DataFrame) -> list[str]:
    """Return a sentence on the fastest system overall, then a sentence for each application."""
    lines: list[str] = []
    wins: Counter[str] = Counter()
    for app, part in table.groupby("application", sort=False):
        times = part.dropna(subset=["wall_time"]).sort_values("wall_time", kind="stable")
        if times.empty:
            lines.append(f"{app} fits on no system.")
            continue
        texts = [f"{number(time)} s" for time in times["wall_time"].tolist()]
        fastest = times["system"].tolist()[: texts.count(texts[0])]
        wins.update(fastest)
        names = joined(fastest, len(fastest)) + (" (equal)" if len(fastest) > 1 else "")
        largest = rounded(float(times["largest_problem"].min()), 3)
        lines.append(f"{app}: fastest on {names}: {texts[0]} for a problem of {largest}.")
    if len(lines) == 1 or not wins:
        return lines
    most = max(wins.values())
    first = " or ".join(name for name, count in wins.items() if count == most)
    return [f"Use {first}: fastest for {most} of {counted(len(lines), 'application')}", *lines]


def _tabulate_systems(table: pd.DataFrame) -> tuple[Table, list[str]]:
    """Return a table (with a row for each application on each system) and notes."""
    columns = [
        Column("application", kind="name"),
        Column("system", kind="name"),
        Column("n", "n per process", digits=3, kind="general"),
    ]
    has_published = "published_wall_time" in table and table["published_wall_time"].notna().any()
    for name, heading in (("largest_problem", "largest problem"), ("wall_time", "wall time (s)")):
        columns.append(Column(name, heading, digits=3, kind="general"))
        if has_published:
            published = table[f"published_{name}"]
            differs = ~pd.Series(map(agrees, table[name], published), index=table.index)
            table = table.assign(**{f"starred_{name}": _mark_differences(published, differs)})
            columns.append(Column(f"starred_{name}", f"published {heading}"))
    table = table.assign(bound_by=table["bound_by"].str.replace("_", " "))
    notes = [_DIFFERENCE_NOTE] if has_published else []
    return Table(table, [*columns, Column("bound_by")]), notes


@dataclass(frozen=True)
class _ShareOptions:
    system: NamedNumbers = option(  # noqa: RUF009
        "Number of processes, bytes per process, and optionally rates, as for codesign systems.",
        "NAME=P,M,..",
        type=named_numbers_reader(2, 6),
        required=True,
        group="Machine",
    )
    of: Literal["processes", "memory"] = option(
        "Give each application its own processes, or run both on all processes and divide the "
        "memory.",
        default="processes",
    )
    shares: Sequence[float] = option(
        "Shares of the first application.",
        "S,S,..",
        default="0.1,0.25,0.5,0.75,0.9",
        type=read_numbers,
    )


@sub_command("share", command)
def share(source: _ApplicationOptions, options: _ShareOptions, output: Output) -> None:
    """Find the largest problems of two applications that share a system.

    \b
    toruscast codesign share --app kripke --app milc --system now=1e5,4e9,5e10
    """  # noqa: D301
    output.check()
    name, numbers = options.system
    system = tc.scaling.System(name, *numbers)
    table = tc.scaling.share_system(source.read(), system, options.shares, options.of)
    names = ["share", "application", "processes", "memory", "n", "largest_problem", "of_alone"]
    columns = [replace(column, digits=3) for column in Table(table[names]).visible_columns]
    _write_answer(output, Table(table, columns), table, {"shares": records(table)})


@sub_command("models", command)
def models(source: _ApplicationOptions, output: Output) -> None:
    """Print the models of requirements, with notes."""
    output.check()
    applications = source.read()
    rows = [
        {"application": app.name, "requirement": name, "model": model.text}
        for app in applications
        for name, model in app.requirements.items()
    ]
    notes = [f"{app.name}: {note}" for app in applications for note in app.notes]
    content = {"models": rows, "notes": {app.name: app.notes for app in applications}}
    head, table = "Requirements of a process", Table(pd.DataFrame(rows))
    output.write_table(head, table, below=notes, content=content)


def _draw_times(table: pd.DataFrame) -> list[Chart]:
    """Return one chart per application, with its wall time on each system that it fits on."""
    charts = []
    known = table.dropna(subset=["wall_time"])
    for i, (name, part) in enumerate(known.groupby("application", sort=False)):
        bars = [("wall time", "best", part["wall_time"].tolist())]
        draw = partial(svg.draw_bars, part["system"].tolist(), bars, 1.0, "s")
        charts.append(Chart(f"times-{i}", str(name), "Wall time, s.", draw))
    return charts


def _write_answer(
    output: Output,
    printed: Table,
    table: pd.DataFrame,
    content: dict[str, Any],
    lines: Sequence[str] = ("",),
    below: Sequence[str] = (),
    charts: Sequence[Chart] = (),
) -> None:
    """Write ``table``; print ``printed``, ``lines`` and the reasons for missing values."""
    head, *notes = lines
    tables = (Table(table, ()), printed)
    more = {"title": "Requirements of applications", "badge": "predicted from models"}
    output.write_table(head, *tables, *charts, below=below, notes=notes, content=content, **more)
    for reason in dict.fromkeys(reason for reason in table["reason"].tolist() if reason):
        output.message(reason)
