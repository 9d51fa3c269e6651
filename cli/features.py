"""``toruscast features``: the feature table of mappings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

import click

import toruscast as tc
from toruscast import answers
from toruscast._slow import pandas as pd
from toruscast.answers.table import Column, Table, records
from toruscast.mapping.omissions import Omission
from toruscast.text import counted

from .learning import check_use, load_plugin, names_of
from .mappings import check_seed, stream_mappings
from .options import Candidates, Traffic, Work, option, plugin_option, refuse, sub_command
from .output import Output, growing
from .problem import Occupancy, load_setting
from .slow import feature_table

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


@dataclass(frozen=True)
class Chosen:
    """Which features, and where they go."""

    level: int = option(
        "1: from the routes alone; 2: those of the simulator too, and the simulated time.",
        default=1,
        type=click.IntRange(1, 2),
    )
    chosen: str | None = option(
        "These features, or named sets of them, instead of all of the level.",
        "SET|NAME,NAME",
        "--features",
        excludes=("level",),
    )
    plugin: str | None = plugin_option()
    listing: bool = option("List the features and stop.", "", "--list", default=False)
    parquet: str | None = option("Write the table as Parquet.", "FILE", group="Output")


@sub_command("features")
def command(
    traffic: Traffic, candidates: Candidates, what: Chosen, work: Work, output: Output
) -> None:
    """Compute the named features of mappings: one row a mapping, one column a feature.

    \b
    toruscast features --list
    toruscast features --comm lammps-lj-64 --torus 4x4x4 --candidates 20 --csv features.csv

    CSV and Parquet are written as rows come, so that very many mappings are not held.
    """  # noqa: D301
    output.check({"--parquet": what.parquet})
    mine = load_plugin(what.plugin)
    if what.listing:
        refuse("without --list", Traffic, Candidates, Work, "level", "chosen", "parquet")
        output.deliver(_listed())
        return
    setting = load_setting(traffic, work.routing, simulated=False)
    problem = setting.problem
    check_seed(problem, candidates)
    picked, n = stream_mappings(problem, candidates, work.seed)
    wanted = None if what.chosen is None else names_of(what.chosen, mine)
    check_use(mine, wanted)
    seen = Occupancy()
    with (
        output.progress("Computing features") as progress,
        growing(output.csv_path, what.parquet) as add,
    ):
        blocks = feature_table.extract_blocks(
            problem,
            map(seen.note, picked),
            level=max(what.level, tc.training.needed_level(mine)),
            features=wanted,
            n_jobs=work.jobs,
            progress=lambda done: progress(done, n),
        )
        table = _kept(blocks, add, all_rows=output.json_path is not None)
    output.write_json(
        {
            **setting.describe(),
            "routing": work.routing,
            "omitted": list(map(asdict, problem.workload.omitted)),
            "features": records(table) if output.json_path is not None else [],
        }
    )
    columns = list(table.columns)
    if wanted is None:
        columns = [*SHOWN, *mine, *(["time"] if "time" in table.columns else [])]
    tasks = counted(problem.n_tasks, "task")
    head = f"{counted(seen.n, 'mapping')} of {tasks} on torus {problem.torus}: {seen}."
    output.show(_answer(head, table, columns, seen.n, problem.workload.omitted))


def _kept(
    blocks: Iterable[pd.DataFrame], add: Callable[[pd.DataFrame], None], all_rows: bool
) -> pd.DataFrame:
    """Hand all rows over; return all of them, or the first that a terminal shows."""
    kept: list[pd.DataFrame] = []
    for block in blocks:
        add(block)
        if all_rows or sum(map(len, kept)) < MOST_SHOWN:
            kept.append(block)
    return pd.concat(kept)


def _answer(
    head: str, table: pd.DataFrame, columns: list[str], n: int, omitted: Sequence[Omission]
) -> answers.blocks.Answer:
    """Return the first rows, and what is not shown."""
    notes = []
    if n > MOST_SHOWN:
        more = counted(n - MOST_SHOWN, "more mapping")
        notes.append(f"{more} in --csv, --json or --parquet.")
    if hidden := len(table.columns) - len(columns):
        notes.append(
            f"{hidden} more features in --csv, --json or --parquet; 'toruscast features --list' "
            "describes all."
        )
    names = [Column(str(table.index.name), kind="name")]
    names += [Column(name, name, "number", digits=4) for name in columns]
    shown = Table(table.iloc[:MOST_SHOWN], names)
    return answers.blocks.of_table(head, shown, notes=notes, omitted=omitted)


def _listed() -> answers.blocks.Answer:
    """Return what features there are."""
    known = ["name", "level", "unit", "description"]
    frame = pd.DataFrame(map(asdict, tc.FEATURES.values()))[known]
    columns = [
        Column("name", kind="name"),
        Column("level", kind="count"),
        Column("unit"),
        Column("description", priority=0),
    ]
    head = f"{counted(len(frame), 'feature')}, those of level 2 from a simulation"
    content = {"features": records(frame)}
    return answers.blocks.of_table(head, Table(frame, columns), content=content)
