"""``toruscast codesign``: what an upgrade or a machine offers an application."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toruscast.answers.tables import new_table, print_table

from . import options
from .app import SubCommands
from .output import Output, records
from .records import as_record

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from toruscast.scaling import Application, Upgrade

# Half of the last digit that ratios are published with.
RATIO_ROUNDING = 0.05


def with_published(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Add the columns of a published table where it knows the application."""
    import pandas as pd

    from toruscast import datasets

    published = pd.read_csv(datasets.table_path(name), comment="#")
    if "system" not in table:
        keys = ["application", "requirement"]
        published = published.melt(keys, var_name="upgrade", value_name="published")
        keys.append("upgrade")
    else:
        keys = ["application", "system"]
        published = published.rename(
            columns={c: f"published_{c}" for c in published.columns if c not in keys}
        )
    joined = table.merge(published, how="left", on=keys)
    return joined[[c for c in joined.columns if c != "reason"] + ["reason"]]


def print_upgrades(console: Console, table: pd.DataFrame) -> None:
    """Print a row a requirement, and for each upgrade the ratio, its growth, the published one."""
    upgrades = list(dict.fromkeys(table["upgrade"]))
    known = "published" in table and table["published"].notna().any()
    headings = ["application", "requirement", *(["by"] if "by" in table else [])]
    keyed = headings.copy()
    for name in upgrades:
        headings += [name, "growth", *(["published"] if known else [])]
    rows = []
    for keys, part in table.groupby(keyed, sort=False):
        cells = [str(key).replace("_", " ") for key in keys]
        by_upgrade = part.set_index("upgrade")
        for name in upgrades:
            row = by_upgrade.loc[name]
            cells += [_ratio(row["ratio"]), _ratio(row["growth_ratio"])]
            if known:
                far = abs(row["growth_ratio"] - row["published"]) > RATIO_ROUNDING
                cells.append(_number(row["published"]) + ("*" if far else " "))
        rows.append(cells)
    _print(console, headings, rows, left=len(keyed))
    console.print("growth: the ratio with logarithms held at their value before the upgrade")
    if known:
        console.print(
            "* farther from the growth than its rounding; docs/scaling/codesign.md tells why"
        )


def print_systems(console: Console, table: pd.DataFrame) -> None:
    """Print a row an application and system."""
    known = "published_wall_time" in table and (
        table[["published_largest_problem", "published_wall_time"]].notna().any().any()
    )
    names = ["n", "largest_problem", "wall_time"]
    headings = ["application", "system", "n a\nprocess", "largest\nproblem", "wall\ntime (s)"]
    if known:
        names.insert(2, "published_largest_problem")
        names.append("published_wall_time")
        headings[4:] = ["published", "wall\ntime (s)", "published"]
    rows = []
    for row in table.to_dict("records"):
        cells = [str(row["application"]), str(row["system"])]
        for name in names:
            value = float(row[name])
            mark = ""
            if name.startswith("published"):
                computed = float(row[name.removeprefix("published_")])
                mark = " " if agrees(computed, value) else "*"
            cells.append(_number(value) + mark)
        rows.append([*cells, str(row["bound_by"]).replace("_", " ")])
    _print(console, [*headings, "bound by"], rows, left=2)
    if known:
        console.print("* farther away than its rounding; docs/scaling/codesign.md tells why")


def print_models(console: Console, applications: Iterable[Application]) -> None:
    """Print a row a model, and the notes below."""
    chosen = list(applications)
    rows = [
        [app.name, name.replace("_", " "), model.text]
        for app in chosen
        for name, model in app.requirements.items()
    ]
    _print(console, ["application", "requirement of a process", "model"], rows, left=3)
    for app in chosen:
        for note in app.notes:
            console.print(f"{app.name}: {note}", soft_wrap=True)


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


def _print(console: Console, headings: list[str], rows: list[list[str]], left: int) -> None:
    view = new_table(*headings, left=tuple(headings[:left]))
    for row in rows:
        view.add_row(*row)
    print_table(view, console, keep=left + 1)


def _ratio(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}" if value < 1000 else f"{value:.3g}"


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3g}"


@click.group("codesign", cls=SubCommands)
def command() -> None:
    """Tell from requirement models what an upgrade or a machine offers an application.

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
class Chosen:
    """The applications that are asked about."""

    apps: tuple[str, ...]
    metrics: tuple[str, ...]
    callpath: str | None

    def read(self) -> list[Application]:
        """Return the applications; the five with published models if none is named."""
        from toruscast.scaling import application, application_names, read_application

        metrics = dict(_pair(text, "--metric", "REQUIREMENT=NAME") for text in self.metrics)
        chosen = []
        for name in self.apps or application_names():
            # A folder or an extension tells a file from a name.
            is_file = Path(name).name != name or Path(name).suffix
            if is_file:
                chosen.append(read_application(name, metrics, self.callpath))
            else:
                chosen.append(application(name))
        seen = [app.name for app in chosen]
        if len(set(seen)) < len(seen):
            raise click.UsageError(f"applications need different names: found {', '.join(seen)}")
        return chosen


_app_option = as_record(
    "chosen",
    Chosen,
    click.option(
        "--app",
        "apps",
        multiple=True,
        metavar="NAME|FILE",
        help="Published application, file with models, or measurements of one; again for more.  "
        "[default: the five]",
    ),
    click.option(
        "--metric",
        "metrics",
        multiple=True,
        metavar="REQUIREMENT=NAME",
        help="Metric of the measurements that stands for a requirement, such as bytes_used=VmPeak; "
        "again for more.",
    ),
    click.option("--callpath", metavar="NAME", help="Call path of the measurements to take."),
)


@command.command("upgrade")
@_app_option
@click.option(
    "--processes", type=float, metavar="N", help="Processes before the upgrade.  [default: 1e5]"
)
@click.option(
    "--memory",
    type=float,
    metavar="BYTES",
    help="Memory a process before the upgrade.  [default: 1e12]",
)
@click.option(
    "--upgrade",
    "upgrades",
    multiple=True,
    metavar="NAME=P,M",
    help="Factors of processes and of memory a process; again for more.  [default: A=2,1 (double "
    "racks), B=2,0.5 (double sockets), C=1,2 (double memory)]",
)
@click.option(
    "--by",
    "factors",
    metavar="K,K,..",
    help="Instead: the three default upgrades by other factors than 2, such as 2,4,8.",
)
@options.output_record
def upgrade(
    chosen: Chosen,
    processes: float | None,
    memory: float | None,
    upgrades: tuple[str, ...],
    factors: str | None,
    output: Output,
) -> None:
    """Ratios of a process's requirements, after to before an upgrade.

    The problem fills the memory, before and after. Beside the ratio stands its growth alone, with
    logarithms held, and, on the default base, what was published.

    \b
    toruscast codesign upgrade --app solver.toml --processes 4096 --memory 4e9
    toruscast codesign upgrade --app runs.csv --metric bytes_used=VmPeak --by 2,4,8
    """  # noqa: D301
    output.check()
    import pandas as pd

    from toruscast.scaling import (
        LARGE_BASE,
        UPGRADES,
        System,
        Upgrade,
        upgrade_ratios,
        upgrades_by,
    )

    if factors is not None and upgrades:
        raise click.UsageError("--by and --upgrade exclude each other")
    base = System(
        "before",
        LARGE_BASE.processes if processes is None else processes,
        LARGE_BASE.memory if memory is None else memory,
    )
    wanted = [Upgrade(name, *numbers) for name, numbers in (_named(u, 2) for u in upgrades)]
    sets: dict[str, Sequence[Upgrade]] = {"": wanted or UPGRADES}
    if factors is not None:
        sets = {f"{k:g}": upgrades_by(k) for k in _named(f"by={factors}", 1, 100)[1]}
    ratios = [
        upgrade_ratios(app, base, each).assign(**({"by": by} if by else {}))
        for app in chosen.read()
        for by, each in sets.items()
    ]
    table = pd.concat(ratios, ignore_index=True)
    if (
        factors is None
        and not wanted
        and base.processes == LARGE_BASE.processes
        and base.memory == LARGE_BASE.memory
    ):
        table = with_published(table, "codesign-upgrades")
    output.write(
        {"processes": base.processes, "memory": base.memory, "ratios": records(table)}, table
    )
    if output.for_people:
        print_upgrades(output.console(), table)
    _reasons(output, table["reason"].tolist())


@command.command("systems")
@_app_option
@click.option(
    "--system",
    "systems",
    multiple=True,
    metavar="NAME=P,M,F,..",
    help="Processes, bytes a process, flop/s a process; then, if known, bytes/s that a process "
    "sends, loads and stores a second, and locations that its cache holds; again for more.  "
    "[default: three straw-man systems of 10 PB]",
)
@options.output_record
def systems(
    chosen: Chosen,
    systems: tuple[str, ...],
    output: Output,
) -> None:
    """Largest problem and least wall time on each system.

    The wall time is that of the requirement that takes longest at the full rate of the system, for
    the largest problem that all of the systems hold.

    \b
    toruscast codesign systems --app milc --system now=1e5,4e9,5e10 --system next=1e6,2e9,1e11
    """  # noqa: D301
    output.check()
    import pandas as pd

    from toruscast.scaling import STRAW_MEN, System, compare_systems

    wanted = [System(name, *numbers) for name, numbers in (_named(s, 3, 6) for s in systems)]
    compared = [compare_systems(app, wanted or STRAW_MEN) for app in chosen.read()]
    table = pd.concat(compared, ignore_index=True)
    if not wanted:
        table = with_published(table, "codesign-systems")
    output.write({"systems": records(table)}, table)
    if output.for_people:
        print_systems(output.console(), table)
    _reasons(output, table["reason"].tolist())


@command.command("share")
@_app_option
@click.option(
    "--system",
    required=True,
    metavar="NAME=P,M,..",
    help="Processes, bytes a process, and, if known, its rates, as for systems.",
)
@click.option(
    "--of",
    type=click.Choice(["processes", "memory"]),
    default="processes",
    show_default=True,
    help="What is shared: each application has processes of its own, or both run on all of them.",
)
@click.option(
    "--shares",
    default="0.1,0.25,0.5,0.75,0.9",
    show_default=True,
    metavar="S,S,..",
    help="Parts that the first application gets.",
)
@options.output_record
def share(chosen: Chosen, system: str, of: str, shares: str, output: Output) -> None:
    """Say what two applications can do side by side on one system.

    \b
    toruscast codesign share --app kripke --app milc --system now=1e5,4e9,5e10
    """  # noqa: D301
    output.check()
    from toruscast.scaling import System, share_system

    name, numbers = _named(system, 2, 6)
    parts = _named(f"shares={shares}", 1, 100)[1]
    table = share_system(chosen.read(), System(name, *numbers), parts, of)
    output.write({"shares": records(table)}, table)
    if output.for_people:
        shown = ["application", "processes", "memory", "n", "largest_problem", "of_alone"]
        rows = [
            [f"{row['share']:g}", str(row["application"]), *(_number(row[c]) for c in shown[1:])]
            for row in table.to_dict("records")
        ]
        headings = ["share", *(each.replace("_", " ") for each in shown)]
        _print(output.console(), headings, rows, left=2)
    _reasons(output, table["reason"].tolist())


@command.command("models")
@_app_option
@options.output_record
def models(chosen: Chosen, output: Output) -> None:
    """Show requirement models, and notes on them."""
    output.check()
    import pandas as pd

    found = chosen.read()
    rows = [
        {"application": app.name, "requirement": name, "model": model.text}
        for app in found
        for name, model in app.requirements.items()
    ]
    notes = {app.name: app.notes for app in found}
    output.write({"models": rows, "notes": notes}, pd.DataFrame(rows))
    if output.for_people:
        print_models(output.console(), found)


def _pair(text: str, option: str, expected: str) -> tuple[str, str]:
    name, mark, value = (part.strip() for part in text.partition("="))
    if not (name and mark and value):
        raise click.UsageError(f"bad {option}: found {text}, expected {expected}")
    return name, value


def _named(text: str, count: int, most: int | None = None) -> tuple[str, list[float]]:
    """Name and numbers of "name=1,2"."""
    name, _, rest = text.partition("=")
    try:
        numbers = [float(part) for part in rest.split(",")]
    except ValueError:
        numbers = []
    if not name.strip() or not count <= len(numbers) <= (most or count):
        wanted = f"{count} to {most}" if most else count
        raise click.UsageError(f"bad value: found {text}, expected NAME= and {wanted} numbers")
    return name.strip(), numbers


def _reasons(output: Output, reasons: list[str]) -> None:
    for reason in dict.fromkeys(reason for reason in reasons if reason):
        output.message(reason)
