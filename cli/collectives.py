"""``toruscast collectives``: the algorithms of a collective, ranked for a torus and a size."""

from __future__ import annotations

from dataclasses import dataclass

import click

import toruscast as tc
from toruscast import answers
from toruscast.errors import InputError
from toruscast.text import rounded, seconds
from toruscast.validation import read_bytes

from .mappings import load_mapping
from .options import Placing, Seed, TorusOptions, argument, mapping_option, option, sub_command
from .output import Output, records
from .slow import flows
from .torus import load_torus


@dataclass(frozen=True)
class Collective(Placing):
    """A collective, and where its ranks run."""

    what: str = argument("COLLECTIVE:SIZE")
    tasks: int | None = option(
        "Number of tasks.  [default: one on every node]",
        "N",
        type=click.IntRange(1, 2**31 - 1),
        group="Input",
    )
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
    chosen = load_mapping(ring, torus, asked.mapping, asked, draw.seed)
    with output.progress("Simulating") as progress:
        table = flows.rank_collectives(kind, nbytes, torus, chosen, progress=progress)
    ran = records(table[table["time"].notna()])
    rows = [
        {
            "#": number,
            "algorithm": row["algorithm"],
            "ports": row["ports"],
            "time": seconds(row["time"]),
            "lower bound": seconds(row["lower_bound"]),
            "rounds": row["rounds"],
            "GB/s": rounded(row["GBps"], 3),
        }
        for number, row in enumerate(ran, 1)
    ]
    head = answers.blocks.Headline("No algorithm runs so.")
    if ran:
        head = answers.blocks.Headline("Use ", ran[0]["algorithm"], f": {rows[0]['time']}")
    notes = [
        f"{kind} of {size} on {tasks} tasks, {chosen.name} on {torus}; "
        "times of simulated flows, no buffer is ever full",
        *(
            f"not run: {row['algorithm']}: {row['why']}"
            for row in records(table[table["time"].isna()])
        ),
    ]
    marks: list[answers.blocks.Mark] = ["" if row["#"] != 1 else "best" for row in rows]
    output.deliver(
        answers.blocks.of_table(
            head,
            answers.blocks.TableBlock(rows, keep=4, marks=marks),
            notes=notes,
            rows=table,
            content={
                "collective": kind,
                "bytes": nbytes,
                "tasks": tasks,
                "torus": str(torus),
                "mapping": chosen.name,
                "how": "simulated flows",
                "ranking": records(table),
            },
        )
    )
