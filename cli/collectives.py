"""``toruscast collectives``: the algorithms of a collective, ranked for a torus and a size."""

from __future__ import annotations

import click

from toruscast.answers.tables import new_table, print_table
from toruscast.units import seconds

from . import options
from .inputs import load_torus
from .output import Output, records
from .placing_options import placing_options
from .records import Placing, Traffic, as_record


@click.command("collectives")
@click.argument("what", metavar="COLLECTIVE:SIZE")
@as_record(
    "traffic",
    Traffic,
    click.option("--torus", required=True, metavar="TORUS", help=options.TORUS_HELP),
    options.network_option,
    click.option(
        "--tasks",
        type=options.TASKS,
        metavar="N",
        help="Number of tasks.  [default: one on every node]",
    ),
)
@click.option(
    "--mapping",
    default="identity",
    show_default=True,
    metavar="FILE|STRATEGY",
    help="Where the ranks run.",
)
@as_record("placing", Placing, *placing_options)
@options.seed_option
@options.output_record
def command(
    what: str,
    traffic: Traffic,
    mapping: str,
    placing: Placing,
    seed: int,
    output: Output,
) -> None:
    """Rank the algorithms of a collective for a torus, a size and a rank map.

    COLLECTIVE is allgather, allreduce, alltoall, bcast, gather, reduce, reduce_scatter or scatter.
    Times are of simulated flows: no buffer is ever full. Ports are those that an algorithm drives
    at once: the ways round a ring, or the directions of the torus.

    \b
    toruscast collectives allreduce:64MB --torus tpu_v5p:4x4x4
    toruscast collectives bcast:16KiB --torus tofu_d:4x6x8 --mapping permute-ZYX
    """  # noqa: D301
    from toruscast.errors import InputError
    from toruscast.simulation.collectives import rank_collectives
    from toruscast.validation import read_bytes

    from .inputs import load_mapping

    output.check()
    kind, colon, size = what.partition(":")
    if not colon:
        raise InputError("bad collective", found=what, expected="such as allreduce:64MB")
    nbytes = read_bytes(size)
    torus = load_torus(traffic)
    places = torus.n_nodes * (placing.tasks_per_node or 1)
    tasks = places if traffic.tasks is None else traffic.tasks
    # A strategy looks at the ring of ranks, the commonest of the patterns.
    from toruscast.mapping import Workload
    from toruscast.mapping.patterns import ring

    chosen = load_mapping(Workload([ring(tasks, 1)]), torus, mapping, placing, seed)
    with output.progress("Simulating") as progress:
        table = rank_collectives(kind, nbytes, torus, chosen, progress=progress)
    content = {
        "collective": kind,
        "bytes": nbytes,
        "tasks": tasks,
        "torus": str(torus),
        "mapping": chosen.name,
        "how": "simulated flows",
        "ranking": records(table),
    }
    output.write(content, table)
    if not output.for_people:
        return
    console = output.console()
    console.print(
        f"{kind} of {size} on {tasks} tasks, {chosen.name} on {torus}; "
        "times of simulated flows, no buffer is ever full",
        soft_wrap=True,
    )
    rows = new_table(
        "#", "algorithm", "ports", "time", "lower bound", "rounds", "GB/s", left=("algorithm",)
    )
    runs = table[table["time"].notna()]
    for number, row in enumerate(records(runs), 1):
        times = (seconds(row["time"]), seconds(row["lower_bound"]))
        rows.add_row(
            str(number),
            row["algorithm"],
            str(row["ports"]),
            *times,
            str(row["rounds"]),
            f"{row['GBps']:.3g}",
        )
    print_table(rows, console, 4)
    for row in records(table[table["time"].isna()]):
        console.print(f"not run: {row['algorithm']}: {row['why']}", soft_wrap=True)
