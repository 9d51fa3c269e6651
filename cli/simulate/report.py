"""What ``toruscast simulate`` finds, in few numbers and in words."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from toruscast.answers.units import nbytes, number, percent, seconds
from toruscast.answers.words import bound_line, link_note

from ..output import new_table, print_table, records
from .files import labelled

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from toruscast.features.reasons import Reasons
    from toruscast.simulation import Simulation

BUSIEST = 5
FEW = 3


@dataclass(frozen=True)
class ReportTables:
    """The tables that the report shows, their first rows."""

    result: Simulation
    why: Reasons
    links: pd.DataFrame
    phases: pd.DataFrame
    busiest: pd.DataFrame
    fullest: pd.DataFrame
    slowest: pd.DataFrame
    fifos: pd.DataFrame


def look(result: Simulation, why: Reasons) -> ReportTables:
    """Return what is worth showing of a simulation."""
    from toruscast.simulation.slowest import slowest_messages

    links, torus = result.links(), result.torus
    used = links[links["packets"] > 0]
    waiting = used[used["delay"] > 0]
    fifos = result.fifos()
    fifos["waited"] = fifos["mean_wait"] * fifos["packets"]
    return ReportTables(
        result,
        why,
        links,
        result.phases(),
        # Names are for these few only: those of a million links take ten seconds.
        labelled(_most(used, "busy_share", BUSIEST), torus),
        labelled(_most(waiting, "mean_buffered", FEW), torus),
        slowest_messages(result, FEW),
        _most(fifos[fifos["waited"] > 0], "waited", FEW),
    )


def _most(table: pd.DataFrame, column: str, n: int) -> pd.DataFrame:
    return table.sort_values(column, ascending=False, kind="stable").head(n)


def summary(found: ReportTables) -> dict[str, Any]:
    """Return the simulation in few numbers."""
    result, why, links = found.result, found.why, found.links
    return {
        "time": result.time,
        "iterations": result.iterations,
        "phase_times": list(result.phase_times),
        "lower_bound": why.lower_bound,
        "bounds": why.bounds,
        "binding": why.binding,
        "packet_hops": result.packet_hops,
        "coarsening": result.coarsening,
        "error": result.error,
        "change": result.change,
        "not_logged": result.not_logged,
        "most_buffered": int(links["most_buffered"].max()) if len(links) else 0,
        "mean_delay": float(links["delay"].mean()) if len(links) else 0.0,
        "network": asdict(result.torus.network),
        "busiest_links": records(found.busiest),
        "fullest_buffers": records(found.fullest),
        "slowest_messages": records(found.slowest),
        "longest_waiting_fifos": records(found.fifos),
    }


def one_row(content: dict[str, Any]) -> pd.DataFrame:
    """Return the numbers of the summary as a table of one row."""
    import pandas as pd

    names = (
        "mapping",
        "time",
        "lower_bound",
        "binding",
        "packet_hops",
        "coarsening",
        "change",
        "most_buffered",
        "mean_delay",
    )
    row = {name: content[name] for name in names}
    row |= {f"{name}_bound": value for name, value in content["bounds"].items()}
    return pd.DataFrame([row])


def print_report(found: ReportTables, console: Console) -> None:
    """Print the summary for people."""
    _print_times(found, console)
    _print_links(found, console)
    _print_messages(found, console)
    _print_fifos(found, console)
    _print_watched(found, console)
    if len(found.busiest):
        console.print(f"\n{link_note(found.busiest['label'].iloc[0])}", style="dim")


def _print_times(found: ReportTables, console: Console) -> None:
    from toruscast.routing.routing import ways_are_open

    result = found.result
    estimated = ways_are_open(result.workload, result.torus, result.routing)
    time, least = result.time, found.why.lower_bound
    repeated = result.iterations > 1
    each = " an iteration" if repeated else ""
    console.print(f"Time {seconds(time)}{each}", style="bold", end="")
    if least:
        console.print(f", {time / least:.2f} times the lower bound of {seconds(least)}", end="")
    console.print(".")
    if repeated:
        console.print(
            f"That is the mean of {result.iterations} iterations but the first, which takes "
            f"{seconds(result.alone)} alone; all end after {seconds(result.end)}. The tables "
            "count all."
        )
    rounds = result.workload.dependent and len(result.workload) > result.iterations > 0
    line = bound_line(found.why, estimated, rounds)
    if repeated:
        line = f"One from a standing start is {line[0].lower()}{line[1:]}"
    console.print(line)
    if found.result.coarsening > 1:
        console.print(
            f"Each simulated packet stands for up to {found.result.coarsening} real ones."
        )
    if found.result.error is not None:
        console.print(_reached(found.result))
    if len(found.phases) < 2:
        return
    kind = "round" if found.result.workload.dependent else "phase"
    n = len(found.phases)
    console.print(f"\nThe {'first of ' if n > BUSIEST else ''}{n} {kind}s:", style="bold")
    shown = new_table(kind, "begins", "ends", "messages", "bytes")
    for row in records(found.phases.head(BUSIEST)):
        shown.add_row(
            f"{row['phase']} {row['name']}".strip(),
            seconds(row["begin"]),
            seconds(row["end"]),
            str(row["messages"]),
            nbytes(row["nbytes"]),
        )
    console.print(shown)


def _reached(result: Simulation) -> str:
    """What is known of the error that was asked for."""
    asked = f"the error of {100 * result.error:.3g} % asked for" if result.error else ""
    if result.coarsening == 1:
        return f"No packets are merged: coarser ones would miss {asked}, or save little."
    return (
        f"When packets were halved last, the time changed by {100 * result.change:.2g} %: of "
        f"{asked} a sixteenth may change."
    )


def _print_links(found: ReportTables, console: Console) -> None:
    if len(found.busiest):
        console.print("\nBusiest links:", style="bold")
        shown = new_table("link", "wire bytes", "busy", "packets", left=("link",))
        for row in records(found.busiest):
            shown.add_row(
                row["label"],
                nbytes(row["wire_bytes"]),
                percent(row["busy_share"]),
                str(row["packets"]),
            )
        console.print(shown)
    if len(found.fullest):
        console.print("\nFullest buffers:", style="bold")
        shown = new_table(
            "behind link",
            "packets\non average",
            "at most",
            "a packet\nwaits",
            left=("behind link",),
        )
        for row in records(found.fullest):
            shown.add_row(
                row["label"],
                number(row["mean_buffered"], 2),
                str(row["most_buffered"]),
                seconds(row["delay"]),
            )
        console.print(shown)


def _print_messages(found: ReportTables, console: Console) -> None:
    if not len(found.slowest):
        return
    console.print("\nSlowest messages:", style="bold")
    place = "longest wait on its way,\na packet's average"
    shown = new_table(
        "task\nto task",
        "bytes",
        "hops",
        "arrived\nafter",
        "alone it\nwould take",
        "behind others\nin its FIFO",
        *([place] if "place" in found.slowest else []),
        left=("task\nto task", place),
    )
    for row in records(found.slowest):
        wait = f"{seconds(row['wait'])} {row['place']}" if row.get("wait") else "-"
        waits = [wait] if "place" in row else []
        alone = "-" if math.isnan(row["alone"]) else seconds(row["alone"])
        queued = f"<= {seconds(row['queued'])}" if row["queued"] else "-"
        shown.add_row(
            f"{row['src']} to {row['dst']}",
            nbytes(row["nbytes"]),
            str(row["hops"]),
            seconds(row["took"]),
            alone,
            queued,
            *waits,
        )
    print_table(shown, console, keep=4)


def _print_fifos(found: ReportTables, console: Console) -> None:
    if not len(found.fifos):
        return
    console.print("\nInjection FIFOs that waited longest for their links:", style="bold")
    shown = new_table(
        "node",
        "FIFO",
        "messages",
        "edges\nat once",
        "an edge\nstays",
        "packets\nwaited",
        "each",
        left=("node",),
    )
    torus = found.result.torus
    for row in records(found.fifos):
        node = ",".join(map(str, torus.coords[row["node"]].tolist()))
        shown.add_row(
            f"({node})",
            str(row["fifo"]),
            str(row["messages"]),
            str(row["most_edges"]),
            seconds(row["mean_stay"]),
            seconds(row["waited"]),
            seconds(row["mean_wait"]),
        )
    console.print(shown)


def _print_watched(found: ReportTables, console: Console) -> None:
    from toruscast.simulation.message_life import waits_by_place, watched_message

    message = watched_message(found.result)
    if message is None:
        return
    waits = waits_by_place(found.result)
    missing = found.result.not_logged
    console.print(f"\nThe message {message.src} to {message.dst}", style="bold", end="")
    answered = ""
    if message.released > message.handed_over:
        answered = f", answered after {seconds(message.released)}"
    console.print(
        f", handed over after {seconds(message.handed_over)}{answered}, arrived after "
        f"{seconds(message.arrived)}; its packets waited{'' if len(waits) else ' nowhere.'}"
    )
    if missing:
        console.print(f"The log was full: the last {missing} events are not in it.")
    if not len(waits):
        return
    shown = new_table("where", "packets", "on average", "at most", left=("where",))
    for row in records(waits.head(3 * BUSIEST)):
        shown.add_row(
            row["where"], str(row["packets"]), seconds(row["mean"]), seconds(row["longest"])
        )
    console.print(shown)
