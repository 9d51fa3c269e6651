"""``toruscast simulate``: one mapping, packet by packet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from . import options
from .inputs import load_application, load_mapping, load_torus
from .output import Output, records, write_text
from .rank_report import application_line, bound_line, link_note
from .tables import new_table, printable
from .units import nbytes, percent, seconds

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from toruscast.features import Simulation
    from toruscast.training.reasons import Reasons

BUSIEST = 5


@click.command("simulate")
@options.traffic_options
@click.option(
    "--mapping", required=True, metavar="FILE|STRATEGY",
    help="A mapping file, or a strategy such as identity, permute-ZYX or random@2.",
)  # fmt: skip
@options.tasks_per_node_option
@options.routing_option
@options.seed_option
@click.option("--links", metavar="FILE.csv|-", help="Write the counters of every link as CSV.")
@options.output_options
def command(
    comm: str,
    iterations: float | None,
    traffic: Literal["all", "point_to_point", "collective"],
    grid: str | None,
    torus: str,
    mapping: str,
    tasks_per_node: int | None,
    routing: Literal["deterministic", "adaptive"],
    seed: int,
    links: str | None,
    json_path: str | None,
    csv_path: str | None,
    quiet: bool,
) -> None:
    """Simulate one mapping packet by packet: its time, its busiest links, its fullest buffers.

    --csv has one row that sums it up, --links one row for each link.

    \b
    toruscast simulate --comm lammps-lj-64 --torus 4x4x4 --mapping identity --links links.csv
    """  # noqa: D301
    output = Output(json_path, csv_path, quiet, links)
    output.check()
    application = load_application(comm, traffic, iterations, grid)
    host = load_torus(torus)
    chosen = load_mapping(application.comm, host, mapping, tasks_per_node, seed)
    from toruscast.features import simulate
    from toruscast.training.reasons import explain

    result = simulate(application.comm, host, chosen, routing=routing)
    why = explain(application.comm, host, chosen, routing=routing)
    counters = result.links(host)
    counters.insert(0, "label", [host.link_label(int(link)) for link in counters.index])
    used = counters[counters["packets"] > 0]
    busiest = used.sort_values("busy_share", ascending=False, kind="stable").head(BUSIEST)
    content = {
        "application": application.describe(),
        "torus": {"name": str(host), "nodes": host.n_nodes},
        "routing": routing,
        "mapping": chosen.name,
        **_summary(result, counters, why),
        "busiest_links": records(busiest),
    }
    output.write(content, _one_row(content))
    if links is not None:
        write_text(counters.to_csv(lineterminator="\n"), links)
    if output.for_people:
        console = output.console()
        console.print(
            f"{application_line(application)}; on torus {host}; mapping {printable(chosen.name)}; "
            f"{routing} routing.\n",
        )
        _print(content, busiest, why, console)


def _summary(result: Simulation, counters: pd.DataFrame, why: Reasons) -> dict[str, Any]:
    """Return the simulation in few numbers."""
    return {
        "time": result.time,
        "phase_times": list(result.phase_times),
        "lower_bound": why.lower_bound,
        "bounds": why.bounds,
        "binding": why.binding,
        "packet_hops": result.packet_hops,
        "coarsening": result.coarsening,
        "most_buffered": int(counters["most_buffered"].max()) if len(counters) else 0,
        "mean_delay": float(counters["delay"].mean()) if len(counters) else 0.0,
    }


def _one_row(content: dict[str, Any]) -> pd.DataFrame:
    """Return the numbers of the summary as a table of one row."""
    import pandas as pd

    names = ("mapping", "time", "lower_bound", "binding", "packet_hops", "coarsening",
             "most_buffered", "mean_delay")  # fmt: skip
    row = {name: content[name] for name in names}
    row |= {f"{name}_bound": value for name, value in content["bounds"].items()}
    return pd.DataFrame([row])


def _print(content: dict[str, Any], busiest: pd.DataFrame, why: Reasons, console: Console) -> None:
    time, least = content["time"], content["lower_bound"]
    console.print(f"Time {seconds(time)}", style="bold", end="")
    if least:
        console.print(f", {time / least:.2f} times the lower bound of {seconds(least)}", end="")
    console.print(".")
    console.print(bound_line(why))
    if content["coarsening"] > 1:
        console.print(f"Each simulated packet stands for {content['coarsening']} real ones.")
    if not len(busiest):
        return
    console.print("\nBusiest links:", style="bold")
    shown = new_table(
        "link", "wire bytes", "busy", "packets", "most in\nbuffer", "mean\ndelay", left=("link",)
    )
    for row in records(busiest):
        shown.add_row(
            row["label"], nbytes(row["wire_bytes"]), percent(row["busy_share"]),
            str(row["packets"]), str(row["most_buffered"]), f"{row['delay']:.2f}",
        )  # fmt: skip
    console.print(shown)
    console.print(
        f"\n{link_note(busiest['label'].iloc[0])} Delay: packets that an arrival finds in the "
        "buffer behind the link, itself included.",
        style="dim",
    )
