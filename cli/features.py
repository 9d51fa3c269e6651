"""``toruscast features``: the feature table of mappings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from toruscast.answers.tables import new_table, print_table
from toruscast.units import number
from toruscast.wording import counted

from . import options
from .inputs import load_torus, stream_mappings
from .learning import check_use, load_plugin, names_of
from .output import Output, growing, records
from .phrases import Occupancy
from .records import Candidates, Traffic, Work, refuse
from .streams import load_sent

if TYPE_CHECKING:
    import pandas as pd

# Rows that a terminal shows.
MOST_SHOWN = 1000
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

    CSV and Parquet are written as rows come, so that very many mappings are not held. A Parquet
    graph of more than 33 million edges, sorted by source, is read in pieces for each mapping.
    """  # noqa: D301
    output.check({"--parquet": parquet_path})
    mine = load_plugin(plugin)
    if listing:
        others = ("level", "chosen", "parquet_path")
        refuse("without --list", Traffic, Candidates, Work, *others)
        _list(output)
        return
    if not traffic.is_given or traffic.torus is None:
        raise click.UsageError("--comm and --torus are needed, or --list")
    sent = load_sent(traffic)
    host = load_torus(traffic)
    picked, n = stream_mappings(sent.tasks, host, candidates, work.seed, sent.kinds)
    from toruscast.features import extract_blocks
    from toruscast.training import needed_level

    if chosen:
        refuse("without --features", "level")
    wanted = None if chosen is None else names_of(chosen, mine)
    check_use(mine, wanted)
    seen = Occupancy()
    with (
        output.progress("Computing features") as progress,
        growing(output.csv_path, parquet_path) as add,
    ):
        blocks = extract_blocks(
            sent.traffic,
            host,
            map(seen.note, picked),
            level=max(level, needed_level(mine)),
            routing=work.routing,
            features=wanted,
            n_jobs=work.jobs,
            progress=lambda done: progress(done, n),
        )
        table = _kept(blocks, add, all_rows=output.json_path is not None)
    if sent.kinds is not None:
        output.message(
            "the graph was read in pieces: release_bound, release_slowdown and candidates that "
            "are made from the messages are left out"
        )
    output.write_json(
        {
            "application": sent.about,
            "torus": {"name": str(host), "nodes": host.n_nodes},
            "routing": work.routing,
            "features": records(table) if output.json_path is not None else [],
        }
    )
    if output.for_people:
        columns = list(table.columns)
        if wanted is None:
            columns = [*SHOWN, *mine, *(["time"] if "time" in table.columns else [])]
        _print(table, columns, output)
        output.console().print(
            f"\n{counted(seen.n, 'mapping')} of {counted(sent.traffic.n_tasks, 'task')} on "
            f"torus {host}: {seen}."
        )
        _tell_hidden(seen.n - MOST_SHOWN, len(table.columns) - len(columns), output)


def _kept(
    blocks: Iterable[pd.DataFrame], add: Callable[[pd.DataFrame], None], all_rows: bool
) -> pd.DataFrame:
    """Hand all rows over; return all of them, or the first that a terminal shows."""
    import pandas as pd

    kept: list[pd.DataFrame] = []
    for block in blocks:
        add(block)
        if all_rows or sum(map(len, kept)) < MOST_SHOWN:
            kept.append(block)
    return pd.concat(kept)


def _print(table: pd.DataFrame, columns: Sequence[str], output: Output) -> None:
    """Show the first rows."""
    shown = new_table("mapping", *columns, left=("mapping",))
    some = table[columns].iloc[:MOST_SHOWN]
    for name, values in zip(some.index, some.to_numpy(), strict=True):
        shown.add_row(str(name), *(number(value, 4) for value in values))
    print_table(shown, output.console(), keep=2)


def _tell_hidden(rows: int, columns: int, output: Output) -> None:
    """Say what is not shown."""
    if rows > 0:
        output.console().print(f"{counted(rows, 'more mapping')} in --csv, --json or --parquet.")
    if columns:
        output.console().print(
            f"{columns} more features in --csv, --json or --parquet; 'toruscast features --list' "
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
