"""``toruscast codesign``: what an upgrade or a machine offers an application."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import click

import toruscast as tc
from toruscast import answers, datasets
from toruscast._slow import pandas as pd
from toruscast.answers.table import Column, Table, records
from toruscast.text import joined, rounded

from .app import SubCommands
from .options import by_name, named_numbers, option, read_numbers, read_pair, refuse, sub_command
from .output import Output

# Half of the last digit that ratios are published with.
RATIO_ROUNDING = 0.05
Named = tuple[str, list[float]]
_FAR = "* farther from the published value than its rounding: docs/scaling/codesign.md says why"


def with_published(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Add the columns of a published table where it knows the application."""
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
    return both.assign(reason=both.pop("reason"))


def agrees(value: float, published: float) -> bool:
    """Whether a value rounds to a published one, given with as many digits as it needs.

    Examples
    --------
    >>> agrees(1.71e10, 1.7e10), agrees(103.0, 100.0), agrees(24.0, 40.0)
    (True, True, False)
    """
    if math.isnan(value) or math.isnan(published):
        return math.isnan(value) and math.isnan(published)
    digits = len(f"{published:.12e}".split("e")[0].rstrip("0").replace(".", "").lstrip("-"))
    return float(f"{value:.{max(digits, 1) - 1}e}") == published


@click.group("codesign", cls=SubCommands)
def command() -> None:
    """Show from requirement models what an upgrade or a machine offers an application.

    Applications are kripke, lulesh, milc, relearn, icofoam (published models), files in TOML or
    JSON with a table of expressions in p (processes) and n (problem size a process), such as below,
    what pmnf fit --json wrote, or measurements, to which models are fitted. All write their tables
    with --json and --csv.

    \b
    [requirements]
    bytes_used = "1e5 * n * log(n)"
    flop = "1e7 * n * log2(p)"
    """  # noqa: D301


@dataclass(frozen=True)
class Applications:
    """The applications that are asked about."""

    app: tuple[str, ...] = option(
        "Published application, file with models, or measurements of one; again for more.  "
        "[default: the five]",
        "NAME|FILE",
        default=(),
        group="Input",
    )
    metric: tuple[tuple[str, str], ...] = option(
        "Metric of the measurements that is a requirement, such as bytes_used=VmPeak; again for "
        "more.",
        "REQUIREMENT=NAME",
        default=(),
        type=read_pair,
        group="Input",
        needs=("app",),
    )
    callpath: str | None = option(
        "Call path of the measurements to take.", "NAME", group="Input", needs=("app",)
    )
    printed: bool = option(
        "Published models as printed, where others are readings of a damaged table.",
        default=False,
        group="Input",
    )

    def read(self) -> list[tc.scaling.Application]:
        """Return the applications; the five with published models if none is named."""
        names = self.app or tuple(tc.scaling.application_names())
        # A folder or an extension tells a file from a name.
        files = [name for name in names if Path(name).name != name or Path(name).suffix]
        if not files:
            refuse("with --app FILE of measurements or fitted models", "metric", "callpath")
        if len(files) == len(names):
            refuse("with a published application", "printed")
        metrics = by_name("--metric", self.metric)
        chosen = [
            tc.scaling.read_application(name, metrics, self.callpath)
            if name in files
            else tc.scaling.application(name, self.printed)
            for name in names
        ]
        seen = [app.name for app in chosen]
        if len(set(seen)) < len(seen):
            raise click.UsageError(f"applications need different names: found {', '.join(seen)}")
        return chosen


@dataclass(frozen=True)
class UpgradeOptions:
    """The system before, and the upgrades."""

    processes: float | None = option("Processes before the upgrade.  [default: 1e5]", "N")
    memory: float | None = option("Memory a process before the upgrade.  [default: 1e12]", "BYTES")
    upgrade: tuple[Named, ...] = option(
        "Factors of processes and of memory a process; again for more.  [default: A=2,1 (double "
        "racks), B=2,0.5 (double sockets), C=1,2 (double memory)]",
        "NAME=P,M",
        default=(),
        type=named_numbers(2, 2),
    )
    by: Sequence[float] | None = option(
        "Instead: the three default upgrades by other factors than 2, such as 2,4,8.",
        "K,K,..",
        type=read_numbers,
        excludes=("upgrade",),
    )


@sub_command("upgrade", command)
def upgrade(chosen: Applications, asked: UpgradeOptions, output: Output) -> None:
    """Ratios of a process's requirements, after to before an upgrade.

    The problem fills the memory, before and after. Beside the ratio stands its growth alone, with
    logarithms held, and, on the default base, what was published.

    \b
    toruscast codesign upgrade --app solver.toml --processes 4096 --memory 4e9
    toruscast codesign upgrade --app runs.csv --metric bytes_used=VmPeak --by 2,4,8
    """  # noqa: D301
    output.check()
    usual = replace(tc.scaling.LARGE_BASE, name="before")
    asked_for = {"processes": asked.processes, "memory": asked.memory}
    changes: dict[str, Any] = {k: value for k, value in asked_for.items() if value is not None}
    base = replace(usual, **changes)
    wanted = [tc.scaling.Upgrade(name, *numbers) for name, numbers in asked.upgrade]
    sets: dict[str, Sequence[tc.scaling.Upgrade]] = {"": wanted or tc.scaling.UPGRADES}
    if asked.by is not None:
        sets = {f"{k:g}": tc.scaling.upgrades_by(k) for k in asked.by}
    ratios = [
        tc.scaling.upgrade_ratios(app, base, each).assign(**({"by": by} if by else {}))
        for app in chosen.read()
        for by, each in sets.items()
    ]
    table = pd.concat(ratios, ignore_index=True)
    if asked.by is None and not wanted and base == usual:
        table = with_published(table, "codesign-upgrades")
    content = {"processes": base.processes, "memory": base.memory, "ratios": records(table)}
    shown, notes = _upgrades(table)
    _deliver(output, shown, table, content, below=notes)


def _upgrades(table: pd.DataFrame) -> tuple[Table, list[str]]:
    """Return a row a requirement, and for each upgrade the ratio, its growth, the published one."""
    notes = ["growth: the ratio with logarithms held at their value before the upgrade"]
    keyed = ["application", "requirement", *(["by"] if "by" in table else [])]
    values = {"ratio": "", "growth_ratio": "growth of "}
    if "published" in table and table["published"].notna().any():
        far = (table["growth_ratio"] - table["published"]).abs() > RATIO_ROUNDING
        table = table.assign(published=_starred(table["published"], far))
        values["published"] = "published of "
        notes.append(_FAR)
    wide = table.pivot(index=keyed, columns="upgrade", values=[*values])
    # A pivot is sorted by its keys.
    wide = wide.loc[list(dict.fromkeys(table[keyed].itertuples(index=False, name=None)))]
    columns = [Column(name, kind="name") for name in keyed]
    for name in dict.fromkeys(table["upgrade"]):
        columns += [
            Column(
                f"{value} {name}", f"{words}{name}", "text" if value == "published" else "number"
            )
            for value, words in values.items()
        ]
    wide.columns = wide.columns.map(" ".join)
    frame = wide.reset_index()
    frame["requirement"] = frame["requirement"].str.replace("_", " ")
    return Table(frame, columns), notes


def _starred(values: pd.Series, far: pd.Series) -> list[str]:
    """Return published values as text, with a star at those that are far from ours."""
    stars = far.map({True: "*", False: ""})
    return [f"{rounded(x, 3)}{star}" for x, star in zip(values, stars, strict=True)]


@dataclass(frozen=True)
class Systems:
    """The systems that are compared."""

    system: tuple[Named, ...] = option(
        "Processes, bytes a process, flop/s a process; then, if known, bytes/s that a process "
        "sends, loads and stores a second, and locations that its cache holds; again for more.  "
        "[default: three straw-man systems of 10 PB]",
        "NAME=P,M,F,..",
        default=(),
        type=named_numbers(3, 6),
        group="Machine",
    )


@sub_command("systems", command)
def systems(chosen: Applications, asked: Systems, output: Output) -> None:
    """Largest problem and shortest wall time on each system.

    The wall time is that of the requirement that takes longest at the full rate of the system, for
    the largest problem that all of the systems hold.

    \b
    toruscast codesign systems --app milc --system now=1e5,4e9,5e10 --system next=1e6,2e9,1e11
    """  # noqa: D301
    output.check()
    wanted = [tc.scaling.System(name, *numbers) for name, numbers in asked.system]
    table = pd.concat(
        [tc.scaling.compare_systems(app, wanted or tc.scaling.STRAW_MEN) for app in chosen.read()],
        ignore_index=True,
    )
    if not wanted:
        table = with_published(table, "codesign-systems")
    shown, notes = _systems(table)
    content = {"systems": records(table)}
    _deliver(output, shown, table, content, _fastest(table), notes)


def _fastest(table: pd.DataFrame) -> list[str]:
    """Return on which systems each application is fastest, a sentence each."""
    lines = []
    for app, part in table.groupby("application", sort=False):
        times = part.dropna(subset=["wall_time"]).sort_values("wall_time", kind="stable")
        if times.empty:
            lines.append(f"{app} fits on none.")
            continue
        shown = [rounded(time, 3) for time in times["wall_time"].tolist()]
        alike = times["system"].tolist()[: shown.count(shown[0])]
        names = joined(alike, len(alike)) + " alike" * (len(alike) > 1)
        largest = rounded(float(times["largest_problem"].min()), 3)
        lines.append(f"{app}: fastest on {names}: {shown[0]} s for a problem of {largest}.")
    return lines


def _systems(table: pd.DataFrame) -> tuple[Table, list[str]]:
    """Return a row an application and system, and notes."""
    columns = [
        Column("application", kind="name"),
        Column("system", kind="name"),
        Column("n", "n a process", digits=3, kind="general"),
    ]
    known = table.get("published_wall_time", pd.Series(dtype=float)).notna().any()
    for name, words in (("largest_problem", "largest problem"), ("wall_time", "wall time (s)")):
        columns.append(Column(name, words, digits=3, kind="general"))
        if known:
            published = table[f"published_{name}"]
            far = ~pd.Series(map(agrees, table[name], published), index=table.index)
            table = table.assign(**{f"starred_{name}": _starred(published, far)})
            columns.append(Column(f"starred_{name}", f"published {words}"))
    table = table.assign(bound_by=table["bound_by"].str.replace("_", " "))
    return Table(table, [*columns, Column("bound_by")]), [_FAR] * bool(known)


@dataclass(frozen=True)
class SharedSystem:
    """The system that is shared, and how."""

    system: Named = option(  # noqa: RUF009
        "Processes, bytes a process, and, if known, its rates, as for systems.",
        "NAME=P,M,..",
        type=named_numbers(2, 6),
        required=True,
        group="Machine",
    )
    of: Literal["processes", "memory"] = option(
        "What is shared: each application has processes of its own, or both run on all of them.",
        default="processes",
    )
    shares: Sequence[float] = option(
        "Parts that the first application gets.",
        "S,S,..",
        default="0.1,0.25,0.5,0.75,0.9",
        type=read_numbers,
    )


@sub_command("share", command)
def share(chosen: Applications, asked: SharedSystem, output: Output) -> None:
    """Say what two applications can do side by side on one system.

    \b
    toruscast codesign share --app kripke --app milc --system now=1e5,4e9,5e10
    """  # noqa: D301
    output.check()
    name, numbers = asked.system
    system = tc.scaling.System(name, *numbers)
    table = tc.scaling.share_system(chosen.read(), system, asked.shares, asked.of)
    shown = ["share", "application", "processes", "memory", "n", "largest_problem", "of_alone"]
    columns = [replace(each, digits=3) for each in Table(table[shown]).shown]
    _deliver(output, Table(table, columns), table, {"shares": records(table)})


@sub_command("models", command)
def models(chosen: Applications, output: Output) -> None:
    """Show requirement models, and notes on them."""
    output.check()
    found = chosen.read()
    rows = [
        {"application": app.name, "requirement": name, "model": model.text}
        for app in found
        for name, model in app.requirements.items()
    ]
    notes = [f"{app.name}: {note}" for app in found for note in app.notes]
    content = {"models": rows, "notes": {app.name: app.notes for app in found}}
    head, table = "Requirements of a process", Table(pd.DataFrame(rows))
    output.deliver(answers.blocks.of_table(head, table, below=notes, content=content))


def _deliver(
    output: Output,
    shown: Table,
    table: pd.DataFrame,
    content: dict[str, Any],
    lines: Sequence[str] = ("",),
    below: Sequence[str] = (),
) -> None:
    """Write an answer, and say why values are missing; CSV holds all columns of the table."""
    head, *notes = lines
    blocks, how = (Table(table, ()), shown), {"notes": notes, "content": content}
    output.deliver(answers.blocks.of_table(head, *blocks, below=below, **how))
    for reason in dict.fromkeys(reason for reason in table["reason"].tolist() if reason):
        output.message(reason)
