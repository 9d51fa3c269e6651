"""``toruscast collectives``: rank the algorithms of a collective."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import toruscast as tc
from toruscast import answers
from toruscast.answers.candidates import CandidateRanking
from toruscast.answers.table import Column, Table, records
from toruscast.errors import InputError
from toruscast.text import joined, seconds
from toruscast.validation import read_bytes

from .mappings import check_seed, load_mapping
from .options import (
    MappingFileOptions,
    SeedOptions,
    TorusOptions,
    argument,
    mapping_option,
    sub_command,
    tasks_option,
)
from .output import Output
from .problem import load_torus
from .slow import flows

_COLUMNS = [
    Column("algorithm", kind="name"),
    Column("ports", kind="count", priority=0),
    Column("time", kind="seconds", priority=0),
    Column("lower_bound", kind="seconds"),
    Column("rounds", kind="count"),
    Column("GBps", "GB/s", "number"),
]


@dataclass(frozen=True)
class _CollectiveOptions(MappingFileOptions):
    collective: str = argument("COLLECTIVE:SIZE")
    tasks: int | None = tasks_option("Number of tasks.  [default: one per node]")
    mapping: str = mapping_option("Mapping of the ranks.", default="identity")


@sub_command("collectives")
def command(
    machine: TorusOptions, options: _CollectiveOptions, seed: SeedOptions, output: Output
) -> None:
    """Rank the algorithms of a collective for a torus, a size and a mapping.

    COLLECTIVE is allgather, allreduce, alltoall, bcast, gather, reduce, reduce_scatter or scatter.
    Times are for simulated flows with unlimited buffers. Ports are the links that a node uses at
    once: both directions of a ring, or all directions of the torus.

    \b
    toruscast collectives allreduce:64MB --torus tpu_v5p:4x4x4
    toruscast collectives bcast:16KiB --torus tofu_d:4x6x8 --mapping permute-ZYX
    """  # noqa: D301
    output.check()
    kind, colon, size = options.collective.partition(":")
    if not colon:
        expected = "such as allreduce:64MB"
        raise InputError("bad collective", found=options.collective, expected=expected)
    nbytes = read_bytes(size)
    torus = load_torus(machine)
    n_slots = torus.n_nodes * (options.tasks_per_node or 1)
    n_tasks = n_slots if options.tasks is None else options.tasks
    # Strategies place tasks by their traffic. Use the traffic of a ring, the most common pattern.
    ring = tc.Workload([tc.patterns.ring(n_tasks, 1)])
    problem = tc.MappingProblem(ring, torus)
    check_seed(problem, options, options.mapping)
    mapping = load_mapping(problem, options.mapping, options, seed.seed)
    with output.progress("Simulating") as progress:
        table = flows.rank_collectives(
            kind, nbytes, torus, mapping, progress=partial(progress, "algorithms")
        )
    timed = table[table["time"].notna()]
    charts: list[answers.blocks.Chart] = []
    headline = answers.blocks.Headline("No algorithm applies.")
    if len(timed) and not timed["time"].any():
        headline = answers.blocks.Headline("No algorithm sends anything over the network.")
    elif len(timed):
        best = timed.iloc[0]
        names, times = timed["algorithm"].tolist(), timed["time"].tolist()
        charts.append(CandidateRanking(names, times).chart())
        headline = answers.blocks.Headline("Use ", best["algorithm"], f": {seconds(best['time'])}")
    notes = [
        f"{kind} of {size} on {n_tasks} tasks, {mapping.name} on {torus}; "
        "times of simulated flows with unlimited buffers"
    ]
    for reason, rows in table[table["time"].isna()].groupby("why", sort=False):
        notes.append(f"not run: {joined(rows['algorithm'].unique(), len(rows))}: {reason}")
    output.write_table(
        headline,
        Table(table, _COLUMNS, best=0 if len(timed) else None),
        *charts,
        notes=notes,
        title=f"{kind} of {size} on {torus}",
        content={
            "collective": kind,
            "bytes": nbytes,
            "tasks": n_tasks,
            "torus": str(torus),
            "mapping": mapping.name,
            "source": "simulated flows",
            "ranking": records(table),
        },
    )
