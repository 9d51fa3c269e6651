"""``toruscast collectives``: the algorithms of a collective, ranked for a torus and a size."""

from __future__ import annotations

from dataclasses import dataclass

import toruscast as tc
from toruscast import answers
from toruscast.answers.table import Column, Table, records
from toruscast.errors import InputError
from toruscast.text import joined, seconds
from toruscast.validation import read_bytes

from .mappings import check_seed, load_mapping
from .options import (
    Placing,
    Seed,
    TorusOptions,
    argument,
    mapping_option,
    sub_command,
    tasks_option,
)
from .output import Output
from .problem import load_torus
from .slow import flows


@dataclass(frozen=True)
class Collective(Placing):
    """A collective, and where its ranks run."""

    what: str = argument("COLLECTIVE:SIZE")
    tasks: int | None = tasks_option("Number of tasks.  [default: one on every node]")
    mapping: str = mapping_option("Where the ranks run.", default="identity")


@sub_command("collectives")
def command(machine: TorusOptions, asked: Collective, draw: Seed, output: Output) -> None:
    """Rank the algorithms of a collective for a torus, a size and a rank map.

    COLLECTIVE is allgather, allreduce, alltoall, bcast, gather, reduce, reduce_scatter or scatter.
    Times are of simulated flows: no buffer is ever full. Ports are those that an algorithm drives
    at once: the ways round a ring, or the directions of the torus.

    \b
    toruscast collectives allreduce:64MB --torus tpu_v5p:4x4x4
    toruscast collectives bcast:16KiB --torus tofu_d:4x6x8 --mapping permute-ZYX
    """  # noqa: D301
    output.check()
    kind, colon, size = asked.what.partition(":")
    if not colon:
        raise InputError("bad collective", found=asked.what, expected="such as allreduce:64MB")
    nbytes = read_bytes(size)
    torus = load_torus(machine)
    places = torus.n_nodes * (asked.tasks_per_node or 1)
    tasks = places if asked.tasks is None else asked.tasks
    # A strategy looks at the ring of ranks, the commonest of the patterns.
    ring = tc.Workload([tc.patterns.ring(tasks, 1)])
    problem = tc.MappingProblem(ring, torus)
    check_seed(problem, asked, asked.mapping)
    chosen = load_mapping(problem, asked.mapping, asked, draw.seed)
    with output.progress("Simulating") as progress:
        table = flows.rank_collectives(kind, nbytes, torus, chosen, progress=progress)
    ran = table[table["time"].notna()]
    head = answers.blocks.Headline("No algorithm runs so.")
    if len(ran):
        best = ran.iloc[0]
        head = answers.blocks.Headline("Use ", best["algorithm"], f": {seconds(best['time'])}")
    if not ran["time"].any() and len(ran):
        head = answers.blocks.Headline("No algorithm sends anything over the network.")
    notes = [
        f"{kind} of {size} on {tasks} tasks, {chosen.name} on {torus}; "
        "times of simulated flows, no buffer is ever full",
        *(
            f"not run: {joined(own['algorithm'].unique(), len(own))}: {why}"
            for why, own in table[table["time"].isna()].groupby("why", sort=False)
        ),
    ]
    columns = [
        Column("algorithm", kind="name"),
        Column("ports", kind="count", priority=0),
        Column("time", kind="seconds", priority=0),
        Column("lower_bound", kind="seconds"),
        Column("rounds", kind="count"),
        Column("GBps", "GB/s", "number"),
    ]
    output.deliver(
        answers.blocks.of_table(
            head,
            Table(table, columns, best=0 if len(ran) else None),
            notes=notes,
            content={
                "collective": kind,
                "bytes": nbytes,
                "tasks": tasks,
                "torus": str(torus),
                "mapping": chosen.name,
                "source": "simulated flows",
                "ranking": records(table),
            },
        )
    )
