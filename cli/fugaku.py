"""``toruscast fugaku``: the best order of a job's ranks on Fugaku."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from toruscast.answers.tables import new_table, print_table
from toruscast.units import seconds

from . import options
from .inputs import load_application
from .output import Output, check_writable, records
from .reading_options import format_option, include_option, iterations_option
from .records import Traffic, as_record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MOST_BYTES = 2**28


@click.command("fugaku")
@click.argument("shape", metavar="SHAPE")
@as_record(
    "traffic",
    Traffic,
    options.comm_option,
    format_option,
    iterations_option(" Known for shipped datasets; 1 for files."),
    include_option,
)
@click.option(
    "--coords",
    metavar="FILE",
    help="Where the job's nodes are, a line of X Y Z a b c for each, the last dimension of SHAPE "
    "fastest: for jobs that are not contiguous. Without it the job is the torus that it asks for.",
)
@click.option(
    "--vcoordfile",
    metavar="FILE",
    help="Write the best placement of all, a line of coordinates in SHAPE for each rank.",
)
@options.output_record
def command(
    shape: str, traffic: Traffic, coords: str | None, vcoordfile: str | None, output: Output
) -> None:
    """Rank the orders in which a job of SHAPE nodes can lay out its ranks.

    SHAPE is what the job asks for, such as 4x6x8. The orders are those of rank-map-bynode; a
    vcoordfile lays ranks out in any other way. Times are of simulated flows.

    \b
    toruscast fugaku 4x4x4 --comm lammps-lj-64
    toruscast fugaku 4x6x8 --comm app.edges --vcoordfile best.vcoord
    """  # noqa: D301
    from toruscast.errors import InputError
    from toruscast.mapping import TaskMapping, Torus
    from toruscast.mapping.formats import write_mapping
    from toruscast.simulation.rank_orders import rank_orders
    from toruscast.validation import read_sizes

    output.check({"--vcoordfile": vcoordfile})
    if vcoordfile is not None:
        check_writable(vcoordfile)
    sizes = read_sizes(shape)
    if sizes is None:
        raise InputError("bad job shape", found=shape, expected="sizes such as 4x6x8")
    application = load_application(traffic)
    workload = application.workload
    places = None if coords is None else _read_coords(coords)
    with output.progress("Simulating") as progress:
        table, nodes = rank_orders(workload, sizes, coords=places, progress=progress)
    best = table["order"].iloc[0]
    content = {
        "application": application.describe(),
        "shape": sizes,
        "coordinates": coords,
        "how": "simulated flows",
        "ranking": records(table),
    }
    output.write(content, table)
    advice = ""
    if vcoordfile is not None:
        placed = TaskMapping(nodes[best], Torus(sizes), name=best)
        advice = write_mapping(placed, vcoordfile, "vcoord")
    if not output.for_people:
        return
    console = output.console()
    console.print(
        f"{workload.name}: {workload.n_tasks} tasks on a Fugaku job of {shape} nodes; "
        "times of simulated flows, no buffer is ever full",
        soft_wrap=True,
    )
    rows = new_table("#", "order", "time", "lower bound", "gain", "how", left=("order", "how"))
    for number, row in enumerate(records(table), 1):
        times = (seconds(row["time"]), seconds(row["lower_bound"]))
        rows.add_row(str(number), row["order"], *times, f"{100 * row['gain']:.1f} %", row["how"])
    print_table(rows, console, 4)
    if vcoordfile is not None:
        console.print(f"{best} is in {vcoordfile}: {advice}")


def _read_coords(path: str) -> NDArray[np.int64]:
    """Lines of six whole numbers, with or without brackets and commas."""
    import numpy as np

    from toruscast.errors import InputError
    from toruscast.files import as_string, read_limited

    text = as_string(read_limited(path, _MOST_BYTES), path)
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        words = re.sub(r"[(),;]", " ", line.partition("#")[0]).split()
        if not words:
            continue
        if len(words) != 6 or not all(re.fullmatch("[0-9]{1,6}", word) for word in words):
            expected = "six whole numbers, X Y Z a b c"
            raise InputError(
                "bad coordinates", file=path, line=number, found=line.strip(), expected=expected
            )
        rows.append(list(map(int, words)))
    return np.array(rows, dtype=np.int64).reshape(len(rows), 6)
