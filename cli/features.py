"""``toruscast features``: the feature table of mappings."""

from __future__ import annotations

from typing import Any

import click

from toruscast.report.units import number

from . import options
from .inputs import load_application, load_mappings, load_torus
from .occupancy import occupancy
from .output import Output, records, write_parquet
from .records import Candidates, Traffic, Work, refuse
from .selection import check_use, load_plugin, names_of
from .tables import new_table, print_table

SHOWN = (
    "lower_bound",
    "max_bytes",
    "avg_bytes",
    "hop_bytes",
    "avg_hops_per_byte",
    "max_dilation",
    "max_FIFO",
)


@click.command("features")
@options.optional_traffic_options
@options.candidates_options
@click.option(
    "--level",
    type=click.IntRange(1, 2),
    default=1,
    show_default=True,
    help="1: from the routes alone; 2: those of the simulator too, and the simulated time.",
)
@click.option(
    "--features",
    "chosen",
    metavar="SET|NAME,NAME",
    help="These features, or named sets of them, instead of all of the level.",
)
@options.plugin_option(options.FEATURES_MINE)
@click.option("--list", "listing", is_flag=True, help="List the features and stop.")
@options.routed_work_options
@click.option("--parquet", "parquet_path", metavar="FILE", help="Write the table as Parquet.")
@options.output_record
def command(
    traffic: Traffic,
    candidates: Candidates,
    level: int,
    chosen: str | None,
    plugin: str | None,
    listing: bool,
    work: Work,
    parquet_path: str | None,
    output: Output,
) -> None:
    """Compute the named features of mappings: one row a mapping, one column a feature.

    \b
    toruscast features --list
    toruscast features --comm lammps-lj-64 --torus 4x4x4 --candidates 20 --csv features.csv
    """  # noqa: D301
    output.check({"--parquet": parquet_path})
    mine = load_plugin(plugin)
    if listing:
        others = ("level", "chosen", "parquet_path")
        refuse("without --list", Traffic, Candidates, Work, *others)
        _list(output)
        return
    if traffic.comm is None or traffic.torus is None:
        raise click.UsageError("--comm and --torus are needed, or --list")
    application = load_application(traffic)
    host = load_torus(traffic)
    picked = load_mappings(application.comm, host, candidates, work.seed)
    from toruscast.features import extract
    from toruscast.training import needed_level
    from toruscast.wording import counted

    if chosen:
        refuse("without --features", "level")
    wanted = None if chosen is None else names_of(chosen, mine)
    check_use(mine, wanted)
    level = max(level, needed_level(mine))
    table = extract(
        application.comm,
        host,
        picked,
        level=level,
        routing=work.routing,
        features=wanted,
        n_jobs=work.jobs,
    )
    if parquet_path is not None:
        write_parquet(table, parquet_path)
    content = {
        "application": application.describe(),
        "torus": {"name": str(host), "nodes": host.n_nodes},
        "routing": work.routing,
        "features": records(table),
    }
    output.write(content, table, index=True)
    if not output.for_people:
        return
    console = output.console()
    columns = list(table.columns)
    if wanted is None:
        columns = [*SHOWN, *mine, *(["time"] if "time" in table.columns else [])]
    shown = new_table("mapping", *columns, left=("mapping",))
    for name, values in zip(table.index, table[columns].to_numpy(), strict=True):
        shown.add_row(str(name), *(number(value, 4) for value in values))
    print_table(shown, console, keep=2)
    console.print(
        f"\n{counted(len(picked), 'mapping')} of {counted(application.comm.n_tasks, 'task')} on "
        f"torus {host}: {occupancy(picked)}."
    )
    hidden = len(table.columns) - len(columns)
    if hidden:
        console.print(
            f"{hidden} more features in --csv, --json or --parquet; 'toruscast features --list' "
            "describes all.",
        )


def _list(output: Output) -> None:
    """Show what features there are."""
    import pandas as pd

    from toruscast.features import FEATURES

    table = pd.DataFrame(
        [(f.name, f.level, f.unit, f.description) for f in FEATURES.values()],
        columns=["name", "level", "unit", "description"],
    )
    content: dict[str, Any] = {"features": records(table)}
    output.write(content, table)
    if output.for_people:
        shown = new_table(*table.columns, left=("name", "unit", "description"))
        for row in table.itertuples(index=False):
            shown.add_row(*map(str, row))
        output.console().print(shown)
