"""``toruscast codesign``: what machines offer applications whose requirements are known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .. import options
from ..names import SubCommands
from ..output import Output, records
from .tables import print_models, print_systems, print_upgrades, with_published

if TYPE_CHECKING:
    from toruscast.scaling import Application


@click.group("codesign", cls=SubCommands)
def command() -> None:
    """Tell from requirement models what an upgrade or a machine offers an application.

    Applications are kripke, lulesh, milc, relearn, icofoam (published models), or files in TOML or
    JSON with a table of expressions in p (processes) and n (problem size a process), such as below.
    All write their tables with --json and --csv.

    \b
    [requirements]
    bytes_used = "1e5 * n * log(n)"
    flop = "1e7 * n * log2(p)"
    """  # noqa: D301


_app_option = click.option(
    "--app",
    "apps",
    multiple=True,
    metavar="NAME|FILE",
    help="Published application, or file with models; again for more.  [default: the five]",
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
@options.output_record
def upgrade(
    apps: tuple[str, ...],
    processes: float | None,
    memory: float | None,
    upgrades: tuple[str, ...],
    output: Output,
) -> None:
    """Ratios of a process's requirements, after to before an upgrade.

    The problem fills the memory, before and after. Beside the ratio stands its growth alone, with
    logarithms held, and, on the default base, what was published.

    \b
    toruscast codesign upgrade --app solver.toml --processes 4096 --memory 4e9
    """  # noqa: D301
    output.check()
    import pandas as pd

    from toruscast.scaling import LARGE_BASE, UPGRADES, System, Upgrade, upgrade_ratios

    base = System(
        "before",
        LARGE_BASE.processes if processes is None else processes,
        LARGE_BASE.memory if memory is None else memory,
    )
    wanted = [Upgrade(name, *numbers) for name, numbers in (_named(u, 2) for u in upgrades)]
    ratios = [upgrade_ratios(app, base, wanted or UPGRADES) for app in _applications(apps)]
    table = pd.concat(ratios, ignore_index=True)
    if not wanted and base.processes == LARGE_BASE.processes and base.memory == LARGE_BASE.memory:
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
    metavar="NAME=P,M,F",
    help="Processes, bytes a process, flop/s a process; again for more.  [default: three straw-man "
    "systems of 10 PB]",
)
@options.output_record
def systems(
    apps: tuple[str, ...],
    systems: tuple[str, ...],
    output: Output,
) -> None:
    """Largest problem and least wall time on each system.

    The wall time is that of the floating-point operations, for the largest problem that all of the
    systems hold.

    \b
    toruscast codesign systems --app milc --system now=1e5,4e9,5e10 --system next=1e6,2e9,1e11
    """  # noqa: D301
    output.check()
    import pandas as pd

    from toruscast.scaling import STRAW_MEN, System, compare_systems

    wanted = [System(name, *numbers) for name, numbers in (_named(s, 3) for s in systems)]
    compared = [compare_systems(app, wanted or STRAW_MEN) for app in _applications(apps)]
    table = pd.concat(compared, ignore_index=True)
    if not wanted:
        table = with_published(table, "codesign-systems")
    output.write({"systems": records(table)}, table)
    if output.for_people:
        print_systems(output.console(), table)
    _reasons(output, table["reason"].tolist())


@command.command("models")
@_app_option
@options.output_record
def models(apps: tuple[str, ...], output: Output) -> None:
    """Show requirement models, and notes on them."""
    output.check()
    import pandas as pd

    chosen = _applications(apps)
    rows = [
        {"application": app.name, "requirement": name, "model": model.text}
        for app in chosen
        for name, model in app.requirements.items()
    ]
    notes = {app.name: app.notes for app in chosen}
    output.write({"models": rows, "notes": notes}, pd.DataFrame(rows))
    if output.for_people:
        print_models(output.console(), chosen)


def _applications(names: tuple[str, ...]) -> list[Application]:
    from toruscast.scaling import application, application_names, read_application

    chosen = []
    for name in names or application_names():
        # A folder or an extension tells a file from a name.
        is_file = Path(name).name != name or Path(name).suffix
        chosen.append(read_application(name) if is_file else application(name))
    seen = [app.name for app in chosen]
    if len(set(seen)) < len(seen):
        raise click.UsageError(f"applications need different names: found {', '.join(seen)}")
    return chosen


def _named(text: str, count: int) -> tuple[str, list[float]]:
    """Name and numbers of "name=1,2"."""
    name, _, rest = text.partition("=")
    try:
        numbers = [float(part) for part in rest.split(",")]
    except ValueError:
        numbers = []
    if not name.strip() or len(numbers) != count:
        raise click.UsageError(f"bad value: found {text}, expected NAME= and {count} numbers")
    return name.strip(), numbers


def _reasons(output: Output, reasons: list[str]) -> None:
    for reason in dict.fromkeys(reason for reason in reasons if reason):
        output.message(reason)
