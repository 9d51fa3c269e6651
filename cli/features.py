"""``toruscast features``: the feature table of mappings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace

import click

import toruscast as tc
from toruscast import answers
from toruscast._slow import pandas as pd
from toruscast.answers.table import Column, Table, records
from toruscast.mapping.omissions import Omission
from toruscast.text import counted

from .learning import check_plugin_is_used, load_plugin, parse_features
from .mappings import check_seed, stream_mappings
from .options import (
    CandidateOptions,
    TrafficOptions,
    WorkOptions,
    option,
    plugin_option,
    refuse_options,
    sub_command,
)
from .output import Output, open_tables
from .problem import Occupancy, load_problem
from .slow import feature_table

# Maximum number of rows to print.
MAX_ROWS = 1000
# Features to print by default.
DEFAULT_COLUMNS = (
    "lower_bound",
    "max_bytes",
    "avg_bytes",
    "hop_bytes",
    "avg_hops_per_byte",
    "max_dilation",
    "max_FIFO",
)


@dataclass(frozen=True)
class _FeatureOptions:
    level: int = option(
        "Level of features: 1 for features of the routes, 2 to add simulated features and times.",
        default=1,
        type=click.IntRange(1, 2),
    )
    names: str | None = option(
        "Compute these features or feature sets, instead of those of a level.",
        "SET|NAME,NAME",
        "--features",
        excludes=("level",),
    )
    plugin: str | None = plugin_option()
    listing: bool = option("List the features and exit.", "", "--list", default=False)
    parquet: str | None = option("Write the table as Parquet.", "FILE", group="Output")


@sub_command("features")
def command(
    traffic: TrafficOptions,
    candidates: CandidateOptions,
    options: _FeatureOptions,
    work: WorkOptions,
    output: Output,
) -> None:
    """Compute features of mappings, with a row per mapping and a column per feature.

    \b
    toruscast features --list
    toruscast features --comm lammps-lj-64 --torus 4x4x4 --candidates 20 --csv features.csv

    Rows are written to CSV and Parquet as they are computed, so very many mappings fit in memory.
    """  # noqa: D301
    output.check({"--parquet": options.parquet})
    plugin_features = load_plugin(options.plugin)
    if options.listing:
        others = ("level", "names", "parquet")
        classes = (TrafficOptions, CandidateOptions, WorkOptions)
        refuse_options("cannot be used with --list", *classes, *others)
        output.write_answer(_list_features())
        return
    loaded = load_problem(traffic, work.routing, simulated=False)
    problem = loaded.problem
    check_seed(problem, candidates)
    mappings, n = stream_mappings(problem, candidates, work.seed)
    names = None if options.names is None else parse_features(options.names, plugin_features)
    check_plugin_is_used(plugin_features, names)
    occupancy = Occupancy()
    with (
        output.progress("Computing features") as progress,
        open_tables(output.csv_path, options.parquet) as append,
    ):
        blocks = feature_table.extract_blocks(
            problem,
            map(occupancy.add, mappings),
            level=max(options.level, tc.training.needed_level(plugin_features)),
            features=names,
            n_jobs=work.jobs,
            progress=lambda done: progress("features", done, n),
        )
        table = _write_blocks(blocks, append, keep_all=output.json_path is not None)
    columns = list(table.columns)
    if names is None:
        has_time = "time" in table.columns
        columns = [*DEFAULT_COLUMNS, *plugin_features, *(["time"] if has_time else [])]
    tasks = counted(problem.n_tasks, "task")
    n_mappings = occupancy.n_mappings
    head = f"{counted(n_mappings, 'mapping')} of {tasks} on torus {problem.torus}: {occupancy}."
    answer = _make_answer(head, table, columns, n_mappings, problem.workload.omitted)
    rows = records(table) if output.json_path is not None else []
    content = {**loaded.describe(), "routing": work.routing, "features": rows}
    # The CSV file was written block by block above.
    replace(output, csv_path=None).write_files(replace(answer, content=content))
    output.print_answer(answer)


def _write_blocks(
    blocks: Iterable[pd.DataFrame], append: Callable[[pd.DataFrame], None], keep_all: bool
) -> pd.DataFrame:
    """Append all rows to the files; return all if ``keep_all``, or else enough to print."""
    kept: list[pd.DataFrame] = []
    for block in blocks:
        append(block)
        if keep_all or sum(map(len, kept)) < MAX_ROWS:
            kept.append(block)
    return pd.concat(kept)


def _make_answer(
    head: str, table: pd.DataFrame, columns: list[str], n_mappings: int, omitted: Sequence[Omission]
) -> answers.blocks.Answer:
    """Return an answer with the columns to print, and notes on rows and columns left out."""
    notes = []
    if n_mappings > MAX_ROWS:
        more = counted(n_mappings - MAX_ROWS, "more mapping")
        notes.append(f"{more} in --csv, --json or --parquet.")
    if n_hidden := len(table.columns) - len(columns):
        notes.append(
            f"{n_hidden} more features in --csv, --json or --parquet; 'toruscast features --list' "
            "describes all."
        )
    printed_columns = [Column(str(table.index.name), kind="name")]
    printed_columns += [Column(name, name, "number", digits=4) for name in columns]
    printed = Table(table.iloc[:MAX_ROWS], printed_columns)
    return answers.blocks.table_answer(head, printed, notes=notes, omitted=omitted)


def _list_features() -> answers.blocks.Answer:
    """Return the name, level, unit and description of every feature."""
    fields = ["name", "level", "unit", "description"]
    frame = pd.DataFrame(map(asdict, tc.FEATURES.values()))[fields]
    columns = [
        Column("name", kind="name"),
        Column("level", kind="count"),
        Column("unit"),
        Column("description", priority=0),
    ]
    head = f"{counted(len(frame), 'feature')}; level 2 needs a simulation"
    content = {"features": records(frame)}
    return answers.blocks.table_answer(head, Table(frame, columns), content=content)
